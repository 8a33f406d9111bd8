"""Stream benchmark: accuracy, coverage, time and memory of a session on real tables, beside baselines.

    python -m benchmarks.stream --data-dir DIR [--table adult-small] [--method session] [--seeds 3]

prints one JSON line per table, method and seed. Methods are described in ``benchmarks/methods.py``; a session
is told nothing and scored on each answer when it is given. Errors are |answer - truth| / records: the tables
are public. Noise is seeded, so that a run can be repeated.

Each method has a process of its own with one BLAS thread. ``cpu_seconds`` is its CPU time from the table in
memory to the last answer, ``peak_mb`` the peak of its process in that time, of which ``start_mb`` are the
libraries, the table and the questions.

``--seeds`` counts noise seeds; ``--stream popular --stream-seed N`` asks other questions. ``--policy`` plans
sessions by another schedule; policies are chosen on streams that no figure reports (``--stream popular
--stream-seed 11``).
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.methods import METHODS, POLICIES, Settings, planned_by
from benchmarks.runner import (
    error_scores,
    marginal_scores,
    parser,
    peak_mb,
    promise_scores,
    reset_peak,
    tell_alone,
)
from benchmarks.tables import TABLES, StreamChoice, true_counts


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


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "stream", "budget", tables=TABLES, seeds=3)
    made.add_argument("--method", action="append", choices=sorted(METHODS))
    made.add_argument("--policy", action="append", choices=list(POLICIES), help="how sessions are planned")
    made.add_argument("--no-rows", action="store_true", help="do not score exported rows")
    given = made.parse_args()
    stream = StreamChoice(given.stream, given.stream_seed, given.queries)
    for table, method, policy, seed in itertools.product(
        given.table or list(TABLES),
        given.method or list(METHODS),
        given.policy or ["default"],
        range(given.seeds),
    ):
        settings = Settings(given.epsilon, given.delta, seed)
        job = Job(table, method, settings, stream, given.data_dir, not given.no_rows, policy)
        tell_alone({"table": table, "method": method}, _measure, job)


def _measure(job: Job) -> list[dict[str, object]]:
    case = TABLES[job.table](job.folder, job.stream)
    base = reset_peak()
    with planned_by(POLICIES[job.policy]):
        started = time.process_time()
        outcome = METHODS[job.method](case, job.settings)
        seconds = time.process_time() - started
    peak, truth = peak_mb(), true_counts(case)
    scores: dict[str, object] = {
        "policy": job.policy,
        "stream": job.stream.kind,
        "stream_seed": job.stream.seed,
        "epsilon": job.settings.epsilon,
        "delta": job.settings.delta,
        "seed": job.settings.seed,
        **error_scores(np.abs(outcome.counts - truth) / case.size),
        "cpu_seconds": round(seconds, 2),
        "peak_mb": round(peak),
        "start_mb": round(base),
        **outcome.facts,
    }
    if outcome.answers is not None:
        scores |= promise_scores(outcome.answers, truth, case.size)
    if job.rows and outcome.model is not None:
        scores |= marginal_scores(case, outcome.model, outcome.state, job.settings.seed)
    return [scores]


if __name__ == "__main__":
    main()
