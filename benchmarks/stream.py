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
--stream-seed 11``). ``--table dependent`` is a made-up table of 8,000,000 records; the first of its questions
cuts bins, of which a session has as many as its counts allow, or those of ``--policy 'bins: 16'``.
"""

from __future__ import annotations

import argparse
import itertools
import time

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
from benchmarks.tables import DEPENDENT, TABLES, StreamChoice, true_counts

_ALL = {**TABLES, **DEPENDENT}


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "stream", "budget", tables=_ALL, seeds=3)
    made.add_argument("--method", action="append", choices=sorted(METHODS))
    made.add_argument("--policy", action="append", choices=list(POLICIES), help="how sessions are planned")
    made.add_argument("--no-rows", action="store_true", help="do not score exported rows")
    given = made.parse_args()
    for table, method, policy, seed in itertools.product(
        given.table or list(TABLES),
        given.method or list(METHODS),
        given.policy or ["default"],
        range(given.seeds),
    ):
        head = {"table": table, "method": method, "policy": policy, "seed": seed}
        tell_alone(head, _measure, **head, given=given)


def _measure(
    table: str, method: str, policy: str, seed: int, given: argparse.Namespace
) -> list[dict[str, object]]:
    case = _ALL[table](given.data_dir, StreamChoice(given.stream, given.stream_seed, given.queries))
    base = reset_peak()
    with planned_by(policy):
        started = time.process_time()
        outcome = METHODS[method](case, Settings(given.epsilon, given.delta, seed))
        seconds = time.process_time() - started
    peak, truth = peak_mb(), true_counts(case)
    scores: dict[str, object] = {
        "stream": given.stream,
        "stream_seed": given.stream_seed,
        "epsilon": given.epsilon,
        "delta": given.delta,
        **error_scores(np.abs(outcome.counts - truth) / case.size),
        "cpu_seconds": round(seconds, 2),
        "peak_mb": round(peak),
        "start_mb": round(base),
        **outcome.facts,
    }
    if outcome.answers is not None:
        scores |= promise_scores(outcome.answers, truth, case.size)
    if not given.no_rows and outcome.model is not None:
        scores |= marginal_scores(case, outcome.model, outcome.state, seed)
    return [scores]


if __name__ == "__main__":
    main()
