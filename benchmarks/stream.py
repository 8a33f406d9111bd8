"""Stream benchmark: accuracy, coverage, time and memory of a session on real tables, beside baselines.

    python -m benchmarks.stream --data-dir DIR [--table adult-small] [--method session] [--seeds 3]

prints one JSON line per table, method and seed. Methods are described in ``benchmarks/methods.py``; a session
is told nothing and scored on each answer when it is given. Errors are |answer - truth| / records: the tables
are public. Noise is seeded, so that a run can be repeated.

Each method has a process of its own with one BLAS thread. ``cpu_seconds`` is its CPU time from the table in
memory to the last answer, ``peak_mb`` the peak of its process in that time, of which ``start_mb`` are the
libraries, the table and the questions.

``--seeds`` counts noise seeds; ``--stream popular --stream-seed N`` asks other questions. ``--plot DIR``
writes figures: the running mean of the error over the stream, and the error over epsilon.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.methods import METHODS, Settings
from benchmarks.runner import Job, Measured, run_all
from benchmarks.streams import STREAMS, StreamChoice
from benchmarks.tables import TABLES

_EPSILONS = ("0.1", "0.25", "0.5", "1", "2", "4")


def main() -> None:
    """Run the benchmark that the arguments describe."""
    arguments = _arguments()
    measured = []
    for one in run_all(_jobs(arguments, [arguments.epsilon], range(arguments.seeds))):
        print(json.dumps(one.scores), flush=True)
        measured.append(one)
    if arguments.plot is not None:
        _plot(arguments, measured)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    data = os.environ.get("PMW_DATA_DIR")
    parser.add_argument("--data-dir", type=Path, default=None if data is None else Path(data))
    parser.add_argument("--table", action="append", choices=sorted(TABLES))
    parser.add_argument("--method", action="append", choices=sorted(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--stream", choices=STREAMS, default="random")
    parser.add_argument("--stream-seed", type=int, help="other questions than the table's own stream")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--no-rows", action="store_true", help="do not score exported rows")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write figures there")
    return parser.parse_args()


def _jobs(arguments: argparse.Namespace, epsilons: list[str], seeds: range) -> Iterator[Job]:
    stream = StreamChoice(arguments.stream, arguments.stream_seed, arguments.queries)
    tables, methods = arguments.table or list(TABLES), arguments.method or list(METHODS)
    for table, method, epsilon, seed in itertools.product(tables, methods, epsilons, seeds):
        settings = Settings(epsilon, arguments.delta, seed)
        yield Job(table, method, settings, stream, arguments.data_dir, rows=not arguments.no_rows)


def _plot(arguments: argparse.Namespace, measured: list[Measured]) -> None:
    from benchmarks.figures import epsilon_figure, running_figure

    arguments.plot.mkdir(parents=True, exist_ok=True)
    arguments.no_rows = True
    others = [epsilon for epsilon in _EPSILONS if epsilon != arguments.epsilon]
    swept = [one for one in measured if one.job.settings.seed == 0]
    for one in run_all(_jobs(arguments, others, range(1))):
        print(json.dumps(one.scores), flush=True)
        swept.append(one)
    for table in dict.fromkeys(one.job.table for one in measured):
        first = [one for one in measured if one.job.table == table and one.job.settings.seed == 0]
        running_figure(first, arguments.plot / f"{table}-running.png")
        epsilon_figure(
            [one for one in swept if one.job.table == table], arguments.plot / f"{table}-epsilon.png"
        )


if __name__ == "__main__":
    main()
