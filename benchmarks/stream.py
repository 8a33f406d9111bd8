"""Stream benchmark: accuracy, coverage, time and memory of a session on real tables, beside baselines.

    OPENBLAS_NUM_THREADS=1 python benchmarks/stream.py --data-dir DIR [--table adult-small] [--seeds 3]

prints one JSON line per table, method and seed:

* ``session``: a session in memory, whose answers are scored when they are given;
* ``gaussian-per-query``: Gaussian noise on each question, told their number, under the same budget;
* ``one-way-product``: the session's own model after opening, which no question corrects.

Errors are |answer - truth| / records: the tables are public. Noise is seeded, so that a run can be repeated;
the time of a question is process time. ``--seeds`` counts noise seeds, ``--stream-seed`` draws other streams.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.tables import TABLES, Case, TableAbsentError
from pmw.answers import Answer
from queries import UNITS, LinearQuery

_BATCH = 500


def main() -> None:
    """Run the benchmark that the arguments describe."""
    arguments = _arguments()
    for name in arguments.table or list(TABLES):
        try:
            case = TABLES[name](arguments.data_dir, arguments.stream_seed, arguments.queries)
        except TableAbsentError as reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)
            continue
        truth = _truth(case)
        for seed in range(arguments.seeds):
            for result in _run(case, truth, seed, arguments):
                print(json.dumps({"table": case.name, "seed": seed, **result}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    data = os.environ.get("PMW_DATA_DIR")
    parser.add_argument("--data-dir", type=Path, default=None if data is None else Path(data))
    parser.add_argument("--table", action="append", choices=sorted(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--stream-seed", type=int, help="another random stream instead of the fixed one")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--update", choices=["refit", "step"], default="refit")
    parser.add_argument("--opening", choices=["one-way", "none"], default="one-way")
    parser.add_argument("--update-limit", type=int)
    return parser.parse_args()


def _truth(case: Case) -> NDArray[np.float64]:
    return np.array([query.answer(case.source.counts(query.scope)) / UNITS for query in case.queries])


def _run(
    case: Case, truth: NDArray[np.float64], seed: int, arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    options = pmw.Options(
        seed=seed,
        update=pmw.UpdateRule(arguments.update),
        opening=pmw.Opening(arguments.opening),
        update_limit=arguments.update_limit,
    )
    started = time.process_time()
    session = pmw.open_session(
        case.source, case.domain, epsilon=arguments.epsilon, delta=arguments.delta, options=options
    )
    opened = time.process_time() - started
    first = session.state
    answers: list[Answer] = []
    started = time.process_time()
    for start in range(0, len(case.queries), _BATCH):
        answers += session.ask_all(case.queries[start : start + _BATCH])
    seconds = time.process_time() - started
    settled = _settled_rate(session, case.queries)
    yield {
        "method": "session",
        **_errors(np.array([answer.count for answer in answers]), truth, case.records),
        **_promises(answers, truth, case.records),
        "positives": session.state.positives_used,
        "positives_limit": session.state.positives_limit,
        "budget_share": round(session.state.ledger.share, 4),
        "open_cpu_seconds": round(opened, 3),
        "stream_cpu_seconds": round(seconds, 2),
        "settled_queries_per_cpu_second": round(settled),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    session.close()
    generator = np.random.default_rng(seed)
    scale = math.sqrt(len(truth) / (2 * float(first.ledger.cap)))
    if first.ledger.composition is pmw.Composition.ZCDP:
        noisy = np.maximum(0, truth + generator.normal(0, scale, len(truth)))
        yield {"method": "gaussian-per-query", **_errors(noisy, truth, case.records)}
    product = np.array([first.model.answer(query) for query in case.queries])
    yield {"method": "one-way-product", **_errors(product, truth, case.records)}


def _settled_rate(session: pmw.Session, queries: Sequence[LinearQuery]) -> float:
    """Return how many questions per CPU second are answered afresh by a session that is warm."""
    some = list(queries[:2500])
    started = time.process_time()
    session.ask_all(some, fresh=True)
    return len(some) / (time.process_time() - started)


def _errors(counts: NDArray[np.float64], truth: NDArray[np.float64], records: int) -> dict[str, float]:
    errors = np.abs(counts - truth) / records
    return {
        "mean": round(float(errors.mean()), 6),
        "p95": round(float(np.quantile(errors, 0.95)), 6),
        "max": round(float(errors.max()), 6),
    }


def _promises(answers: list[Answer], truth: NDArray[np.float64], records: int) -> dict[str, Any]:
    held, widths = [], []
    for answer, true in zip(answers, truth, strict=True):
        if answer.interval is not None:
            held.append(answer.interval[0] - 1e-6 <= true <= answer.interval[1] + 1e-6)
            widths.append((answer.interval[1] - answer.interval[0]) / 2 / records)
    return {
        "coverage": round(float(np.mean(held)), 5),
        "with_interval": round(len(held) / len(answers), 4),
        "median_half_width": round(float(np.median(widths)), 6),
    }


if __name__ == "__main__":
    main()
