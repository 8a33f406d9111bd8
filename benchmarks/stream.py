"""Stream benchmark: accuracy, coverage, time and memory of a session on real tables, beside baselines.

    python -m benchmarks.stream --data-dir DIR [--table adult-small] [--method session] [--seeds 3]

prints one JSON line per table, method and seed. Methods are described in ``benchmarks/methods.py``; a session
is told nothing and scored on each answer when it is given. Errors are |answer - truth| / records: the tables
are public. Noise is seeded, so that a run can be repeated.

Each method has a process of its own with one BLAS thread. ``cpu_seconds`` is its CPU time from the table in
memory to the last answer, ``peak_mb`` the peak of its process in that time, of which ``start_mb`` are the
libraries, the table and the questions.

``--seeds`` counts noise seeds; ``--stream popular --stream-seed N`` asks other questions. ``--plot DIR``
writes figures: the running mean of the error over the stream, and the error over epsilon. ``--policy`` plans
sessions by another schedule; policies are chosen on streams that no figure reports (``--stream popular
--stream-seed 11``).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.methods import METHODS, POLICIES, NotApplicableError, Outcome, Settings, planned_by
from benchmarks.runner import (
    alone,
    error_scores,
    marginal_scores,
    parser,
    peak_mb,
    promise_scores,
    reset_peak,
    tell,
)
from benchmarks.tables import TABLES, Case, StreamChoice, TableAbsentError, true_counts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_EPSILONS = ("0.1", "0.25", "0.5", "1", "2", "4")


@dataclass(frozen=True, slots=True)
class Job:
    """One method on one table.

    Args:
        table: a name in TABLES.
        method: a name in METHODS.
        settings: the budget and the seed.
        stream: the questions.
        folder: where tables are; None where only packaged ones are asked for.
        rows: score exported rows too.
        policy: a name in POLICIES, by which sessions are planned.
    """

    table: str
    method: str
    settings: Settings
    stream: StreamChoice
    folder: Path | None
    rows: bool = True
    policy: str = "default"


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What a job gave.

    Args:
        job: the job.
        scores: ready for JSON.
        errors: float64, shape (k,), |answer - truth| / records for each question, in order.
    """

    job: Job
    scores: dict[str, object]
    errors: NDArray[np.float64]


def main() -> None:
    """Run the benchmark that the arguments describe."""
    arguments = _arguments()
    measured = []
    for one in run_all(_jobs(arguments, [arguments.epsilon], range(arguments.seeds))):
        tell(one.scores)
        measured.append(one)
    if arguments.plot is not None:
        _plot(arguments, measured)


def _arguments() -> argparse.Namespace:
    made = parser(__doc__, tables=TABLES, stream=True, budget=True)
    made.add_argument("--method", action="append", choices=sorted(METHODS))
    made.add_argument("--policy", action="append", choices=list(POLICIES), help="how sessions are planned")
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--no-rows", action="store_true", help="do not score exported rows")
    made.add_argument("--plot", type=Path, metavar="DIR", help="write figures there")
    return made.parse_args()


def _jobs(arguments: argparse.Namespace, epsilons: list[str], seeds: range) -> Iterator[Job]:
    stream = StreamChoice(arguments.stream, arguments.stream_seed, arguments.queries)
    tables, methods = arguments.table or list(TABLES), arguments.method or list(METHODS)
    for table, method, epsilon, policy, seed in itertools.product(
        tables, methods, epsilons, arguments.policy or ["default"], seeds
    ):
        settings, rows = Settings(epsilon, arguments.delta, seed), not arguments.no_rows
        yield Job(table, method, settings, stream, arguments.data_dir, rows, policy)


def _plot(arguments: argparse.Namespace, measured: list[Measured]) -> None:
    arguments.plot.mkdir(parents=True, exist_ok=True)
    arguments.no_rows = True
    others = [epsilon for epsilon in _EPSILONS if epsilon != arguments.epsilon]
    swept = [one for one in measured if one.job.settings.seed == 0]
    for one in run_all(_jobs(arguments, others, range(1))):
        tell(one.scores)
        swept.append(one)
    for table in dict.fromkeys(one.job.table for one in measured):
        first = [one for one in measured if one.job.table == table and one.job.settings.seed == 0]
        running_figure(first, arguments.plot / f"{table}-running.png")
        epsilon_figure(
            [one for one in swept if one.job.table == table], arguments.plot / f"{table}-epsilon.png"
        )


def run_all(jobs: Iterable[Job]) -> Iterator[Measured]:
    """Run jobs one after the other; one that does not apply, or is ended, is named on stderr with why."""
    for job in jobs:
        try:
            yield alone(_measure, job)
        except (TableAbsentError, NotApplicableError, pmw.PMWError, BrokenProcessPool) as reason:
            print(f"skipped {job.table}, {job.method}: {reason}", file=sys.stderr, flush=True)


def _measure(job: Job) -> Measured:
    case = TABLES[job.table](job.folder, job.stream)
    with planned_by(POLICIES[job.policy]):
        found, outcome, errors = _scored(case, partial(METHODS[job.method], case, job.settings))
    scores: dict[str, object] = {
        "table": job.table,
        "method": job.method,
        "policy": job.policy,
        "stream": job.stream.kind,
        "stream_seed": job.stream.seed,
        "epsilon": job.settings.epsilon,
        "delta": job.settings.delta,
        "seed": job.settings.seed,
        **found,
    }
    if job.rows and outcome.model is not None:
        scores |= marginal_scores(case, outcome.model, outcome.state, job.settings.seed)
    return Measured(job, scores, errors)


def _scored(case: Case, run: Callable[[], Outcome]) -> tuple[dict[str, object], Outcome, NDArray[np.float64]]:
    """Return the scores of a method that is run now, what it gave, and its errors.

    Args:
        case: the table and the questions.
        run: answers them.
    """
    base = reset_peak()
    started = time.process_time()
    outcome = run()
    seconds = time.process_time() - started
    peak = peak_mb()
    truth = true_counts(case)
    errors = np.abs(outcome.counts - truth) / case.size
    scores: dict[str, object] = {
        **error_scores(errors),
        "cpu_seconds": round(seconds, 2),
        "peak_mb": round(peak),
        "start_mb": round(base),
        **outcome.facts,
    }
    if outcome.answers is not None:
        scores |= promise_scores(outcome.answers, truth, case.size)
    return scores, outcome, errors


# --- figures ------------------------------------------------------------------------------------------------

# One colour and mark for a method in every figure; methods that are told something of the stream are dashed.
_COLOURS = ("#0b3d91", "#c1440e", "#1b7f5c", "#8f6bb3", "#b8860b", "#555555", "#d36ba6", "#4aa3df", "#7a9a01")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_TOLD = (
    "offline-scopes",
    "offline-questions",
    "all-pairs-max-entropy",
    "gaussian-per-query",
    "laplace-per-query",
)
_POINTS = 60


def running_figure(measured: Sequence[Measured], path: Path) -> None:
    """Draw the mean error of the first k questions against k, a line for each method."""
    axes = _axes(measured, "questions answered")
    for one in measured:
        running = np.cumsum(one.errors) / np.arange(1, len(one.errors) + 1)
        places = np.unique(np.geomspace(10, len(running), _POINTS).astype(int)) - 1
        marks = max(1, len(places) // 8)
        axes.plot(places + 1, running[places], markevery=marks, **_style(one.job.method))
    budget = measured[0].job.settings
    axes.set_title(
        f"{measured[0].job.table}: mean error so far, epsilon {budget.epsilon}, delta {budget.delta}"
    )
    _write(axes, path)


def epsilon_figure(measured: Sequence[Measured], path: Path) -> None:
    """Draw the mean error over the whole stream against epsilon, a line for each method."""
    axes = _axes(measured, "epsilon")
    for method in dict.fromkeys(one.job.method for one in measured):
        points = sorted(
            (float(one.job.settings.epsilon), float(one.errors.mean()))
            for one in measured
            if one.job.method == method
        )
        axes.plot(*zip(*points, strict=True), **_style(method))
    ticks = sorted({float(one.job.settings.epsilon) for one in measured})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    count, delta = len(measured[0].errors), measured[0].job.settings.delta
    axes.set_title(f"{measured[0].job.table}: mean error over {count:,} questions, delta {delta}")
    _write(axes, path)


def _axes(measured: Sequence[Measured], label: str) -> Axes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("mean |answer - truth| / records")
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _style(method: str) -> dict[str, Any]:
    place = list(METHODS).index(method)
    return {
        "label": method,
        "color": _COLOURS[place % len(_COLOURS)],
        "marker": _MARKS[place % len(_MARKS)],
        "markersize": 5,
        "linewidth": 2.6 if method == "session" else 1.5,
        "linestyle": "--" if method in _TOLD else "-",
    }


def _write(axes: Axes, path: Path) -> None:
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        fontsize=9,
        title="dashed: told the questions,\ntheir scopes or their number",
        title_fontsize=9,
    )
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
