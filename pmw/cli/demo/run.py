"""The run: open a session, stream questions into it, write answers, synthetic rows and a picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.cli.demo.picture import draw_errors, draw_promises
from pmw.cli.demo.scores import Baseline, Scores, noise_per_query, score
from pmw.cli.demo.table import fertility_domain, fertility_table
from pmw.data import CountSource, Table, TableFile, as_place, as_source
from pmw.data.files import check_columns
from pmw.errors import ReleaseError
from pmw.public.answer import Answer
from pmw.public.export import RowPlan
from pmw.session.opening import open_session
from pmw.session.session import Session
from pmw.session.store import SessionFiles
from queries.domain import Domain
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.workloads import random_conjunctions

if TYPE_CHECKING:
    import pandas as pd

_BATCH = 500
_OUTPUTS = ("session.pmw", "answers.jsonl", "synthetic.csv", "synthetic.csv.manifest.json", "error.png")


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What a demonstration does.

    Args:
        folder: where it writes; made where absent.
        epsilon: of the budget.
        delta: of the budget.
        queries: number of random questions.
        query_seed: of the questions; the noise is never seeded.
        force: overwrite an earlier demonstration.
    """

    folder: Path
    epsilon: str = "1"
    delta: str = "1e-9"
    queries: int = 10_000
    query_seed: int = 1
    force: bool = False


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What a demonstration found.

    Args:
        session: the session, still open.
        answers: one per question.
        scores: true errors of the answers; None for a table of one's own.
        baseline: true errors of Gaussian noise on each question, under the same budget; None likewise.
    """

    session: Session
    answers: tuple[Answer, ...]
    scores: Scores | None
    baseline: Baseline | None


def run_demo(
    plan: DemoPlan,
    own: tuple[Table, Domain] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> DemoResult:
    """Run the main job and write its files; the caller closes the session.

    Args:
        plan: what to do.
        own: a table of one's own; None for the packaged, public one, whose true errors are shown.
        progress: told how many more questions were answered, and a note.

    Raises:
        ReleaseError: the folder holds an earlier demonstration and ``force`` is not given.
        DataError: the table cannot be read.
    """
    if own is None:
        frame = fertility_table()  # before anything is written: the package may be absent
        _prepare(plan)
        table, domain = _packaged_file(frame, plan.folder)
    else:
        table, domain = own
        file = as_place(table)
        if isinstance(file, TableFile):  # a mistyped name removes no earlier demonstration
            check_columns(file.path, domain, file.dialect)
        _prepare(plan)
    session = open_session(
        table, domain, epsilon=plan.epsilon, delta=plan.delta, path=plan.folder / "session.pmw"
    )
    try:
        return _demonstrate(session, plan, table if own is None else None, progress)
    except BaseException:
        session.close()
        raise


def _demonstrate(
    session: Session, plan: DemoPlan, public: Table | None, progress: Callable[[int, str], None] | None
) -> DemoResult:
    """Ask, export and draw; true errors are computed for a public table alone."""
    queries = list(random_conjunctions(session.domain, plan.queries, seed=plan.query_seed))
    answers = tuple(_answers(session, queries, plan, progress))
    session.export(plan.folder / "synthetic.csv", RowPlan(), force=plan.force)
    picture = plan.folder / "error.png"
    if public is None:
        draw_promises(picture, answers, session.state)
        return DemoResult(session, answers, None, None)
    source = as_source(public, session.domain, None)
    truth = _true_answers(source, queries)
    records = source.counts(()).total
    scores = score(answers, truth, records)
    baseline = noise_per_query(session.state, len(queries), records)
    draw_errors(picture, scores, baseline)
    return DemoResult(session, answers, scores, baseline)


def _packaged_file(frame: pd.DataFrame, folder: Path) -> tuple[Table, Domain]:
    """Write the public table as a file, so that the session can go on from the command line."""
    domain = fertility_domain()
    path = folder / "fertility.csv"
    frame[list(domain.names)].to_csv(path, index=False)
    return path, domain


def _prepare(plan: DemoPlan) -> None:
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReleaseError(f"{plan.folder}: the folder cannot be made: {error.strerror}") from None
    for name in _OUTPUTS:
        if (plan.folder / name).exists() and not plan.force:
            raise ReleaseError(
                f"{plan.folder} holds an earlier demonstration; overwrite it with --force, "
                "or name another folder with --output"
            )
    for file in SessionFiles(plan.folder / "session.pmw").all:
        file.unlink(missing_ok=True)


def _answers(
    session: Session,
    queries: Sequence[LinearQuery],
    plan: DemoPlan,
    progress: Callable[[int, str], None] | None,
) -> list[Answer]:
    answers: list[Answer] = []
    remaining = iter(queries)
    with open(plan.folder / "answers.jsonl", "w", encoding="utf-8") as stream:
        while batch := list(islice(remaining, _BATCH)):
            for query, answer in zip(batch, session.ask_all(batch), strict=True):
                answers.append(answer)
                line = {"id": len(answers), "question": query.describe(), **answer.to_dict()}
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            if progress is not None:
                progress(len(batch), f"{session.state.ledger.share:.1%} of the budget spent")
    return answers


def _true_answers(source: CountSource, queries: Sequence[LinearQuery]) -> NDArray[np.float64]:
    # The packaged table is public, so its true answers may be shown; nowhere else are they.
    return np.array([query.answer(source.counts(query.scope)) / UNITS for query in queries])
