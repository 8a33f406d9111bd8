"""Speed curves: what a question costs as the domain, the table, the session and the model grow; and peers.

    python -m benchmarks.speed_curves [--curve domain|records|questions|positives|peers]
        [--most-records 10000000] [--most-questions 1000000] [--plot DIR]

prints a JSON line for each point, each in a process of its own. Seconds are CPU seconds, rates are per CPU
second, ``peak_mb`` is of the process. Tables are made up with a fixed seed: attributes of ten cells, each of
which follows the one before in half of the records. Peers are measured in the same run: numpy's dot product
of a histogram and each question's weights, one draw of opendp's Laplace mechanism per question where opendp
is installed, and the triad a = b + s c on arrays beyond the caches, in bytes read and written.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import BLAS_THREADS, peak_mb, reset_peak
from pmw.data import MemorySource
from queries import CodedRecords, Domain, IntegerAttribute, random_conjunctions

__all__ = ["CURVES", "main"]

_CELLS = 10  # of an attribute
_ATTRIBUTES = (4, 6, 8, 11, 14, 17)  # so many make 10^4 to 10^17 cells
_RECORDS = 100_000
_SETTLING = 10_000  # questions, and as many ranges, until so many bring no positive
_ROUNDS = 5  # of them at most
_NEW = 10_000  # questions as objects, to measure rates
_ARRAYS = 50_000  # ranges of three attributes, to measure rates; one in seven or so comes twice
_LONG = 100  # cells of an attribute of the session that answers very many questions
_BLOCK = 10_000  # questions at a time, as arrays
_SINGLY = 100_000  # most questions that are asked as objects
_HISTOGRAM = 380_800  # cells, of the peer that multiplies
_QUESTIONS = 100  # with weights of their own, which no cache holds
_TRIAD = 20_000_000  # numbers

_Point = dict[str, Any]


def main() -> None:
    """Print the points of the curves that the arguments name, and draw them."""
    arguments = _arguments()
    for name in BLAS_THREADS:
        os.environ[name] = "1"  # a spawned process reads it before it loads BLAS
    points = []
    for curve in arguments.curve or list(CURVES):
        for work in CURVES[curve](arguments):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                for point in alone.submit(work).result():
                    points.append({"curve": curve, **point})
                    print(json.dumps(points[-1]), flush=True)
    if arguments.plot is not None:
        from benchmarks.speed_figures import draw_curves

        draw_curves(points, arguments.plot)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--curve", action="append", choices=list(CURVES))
    parser.add_argument("--most-records", type=int, default=10**7)
    parser.add_argument("--most-questions", type=int, default=10**6)
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write figures there")
    return parser.parse_args()


def _table(records: int, attributes: int, cells: int = _CELLS) -> CodedRecords:
    """Return records whose attributes follow one another."""
    generator = np.random.default_rng(attributes)
    domain = Domain(
        tuple(IntegerAttribute(f"a{number}", 0, cells - 1) for number in range(attributes)), "made up"
    )
    columns: list[NDArray[np.uint8]] = []
    for _ in range(attributes):
        column = generator.integers(0, cells, records, dtype=np.uint8)
        if columns:
            column = np.where(generator.random(records, dtype=np.float32) < 0.5, columns[-1], column)
        columns.append(column)
    return CodedRecords(domain, tuple(columns))


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _boxes(generator: np.random.Generator, count: int, attributes: int, cells: int) -> NDArray[np.int64]:
    """Return first and last cells of ranges: int64, shape (2, count, attributes)."""
    return np.sort(generator.integers(0, cells, (2, count, attributes)), axis=0)


def _grown(records: int, attributes: int, first: int) -> list[_Point]:
    """Open a session on a table, ask it its first questions, and once it has settled new ones.

    A positive costs more than a thousand free answers. How many came while rates were measured is told.
    """
    table = _table(records, attributes)
    reset_peak()
    options, found = pmw.Options(seed=1), dict[str, Any]()
    started = time.process_time()
    with pmw.open_session(
        MemorySource(table), table.domain, epsilon=1, delta=1e-9, options=options
    ) as session:
        found["open_s"] = round(time.process_time() - started, 3)
        questions = list(random_conjunctions(table.domain, first, seed=1))
        found["first_questions"] = first
        found["first_s"] = round(_seconds(lambda: session.ask_all(questions)), 3)
        generator, names = np.random.default_rng(0), table.domain.names[:3]
        for seed in range(2, 2 + _ROUNDS):
            settled = session.state.version
            session.ask_all(random_conjunctions(table.domain, _SETTLING, seed=seed))
            session.answer_arrays(names, *_boxes(generator, _SETTLING, len(names), _CELLS))
            if session.state.version == settled:
                break
        settled = session.state.version
        questions = list(random_conjunctions(table.domain, _NEW, seed=0))
        ends = _boxes(generator, _ARRAYS, len(names), _CELLS)
        found["queries_per_s"] = round(_NEW / _seconds(lambda: session.ask_all(questions)))
        found["arrays_per_s"] = round(_ARRAYS / _seconds(lambda: session.answer_arrays(names, *ends)))
        found["positives_meanwhile"] = session.state.version - settled
        found["positives"] = session.state.positives_used
        found["model_cells"] = session.state.model.cells
    return [{"cells": float(table.domain.size), "records": records, **found, "peak_mb": round(peak_mb())}]


def _domain(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    for attributes in _ATTRIBUTES:
        yield partial(_grown, min(_RECORDS, arguments.most_records), attributes, 1000)


def _records(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    for power in range(5, 9):
        if 10**power <= arguments.most_records:
            yield partial(_grown, 10**power, 4, 200)


def _answered(records: int, most: int, *, arrays: bool) -> list[_Point]:
    """Answer ever more distinct questions, durably, and open the session again after 10^3, 10^4, …"""
    table, found, done, spent = _table(records, 4, _LONG), list[_Point](), 0, 0.0
    generator, pairs = np.random.default_rng(0), [("a0", "a1"), ("a1", "a2"), ("a2", "a3"), ("a0", "a3")]
    queries = iter(random_conjunctions(table.domain, most, seed=2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.pmw"
        reset_peak()
        with pmw.open_session(MemorySource(table), table.domain, epsilon=1, delta=1e-9, path=path) as session:
            for power in range(3, 10):
                if 10**power > most:
                    break
                while done < 10**power:
                    size = min(_BLOCK, 10**power - done)
                    if arrays:
                        ends = _boxes(generator, size, 2, _LONG)
                        names = pairs[(done // _BLOCK) % len(pairs)]
                        spent += _seconds(partial(session.answer_arrays, names, *ends))
                    else:
                        some = [next(queries) for _ in range(size)]
                        spent += _seconds(partial(session.ask_all, some))
                    done += size
                size_of = sum(file.stat().st_size for file in Path(folder).iterdir())
                found.append(
                    {
                        "asked_as": "arrays" if arrays else "queries",
                        "questions": done,
                        "cpu_s": round(spent, 3),
                        "per_s": round(done / spent),
                        "file_mb": round(size_of / 1e6, 2),
                        "reopen_s": _reopened(session, path),
                        "peak_mb": round(peak_mb()),
                    }
                )
    return found


_READ = (
    "import time, sys; from pathlib import Path; from pmw.session.maintenance import read_session; "
    "started = time.process_time(); read_session(Path(sys.argv[1])); print(time.process_time() - started)"
)


def _reopened(session: pmw.Session, path: Path) -> float:
    """Return the CPU seconds of reading a session in a process of its own, without its start."""
    session.status()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _READ, str(path)], check=True, capture_output=True, text=True
    )
    return round(float(done.stdout), 3)


def _questions(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    records, most = min(_RECORDS, arguments.most_records), arguments.most_questions
    yield partial(_answered, records, most, arrays=True)
    yield partial(_answered, records, min(_SINGLY, most), arrays=False)


def _corrected(records: int, questions: int) -> list[_Point]:
    """Ask a session one question after the other, and tell what each positive cost."""
    table, found = _table(records, 14), list[_Point]()
    with pmw.open_session(
        MemorySource(table), table.domain, epsilon=1, delta=1e-9, options=pmw.Options(seed=1)
    ) as session:
        for number, query in enumerate(random_conjunctions(table.domain, questions, seed=1), 1):
            before = session.state.version
            seconds = _seconds(partial(session.ask, query))
            if session.state.version > before:
                found.append(
                    {
                        "positives": session.state.version,
                        "question": number,
                        "cpu_s": round(seconds / (session.state.version - before), 4),
                        "model_cells": session.state.model.cells,
                    }
                )
    return found


def _positives(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    yield partial(_corrected, min(_RECORDS, arguments.most_records), min(3000, arguments.most_questions))


def _compared() -> list[_Point]:
    """Return what peers do per second, and what a settled session does on the same machine."""
    generator, rates = np.random.default_rng(0), dict[str, float | None]()
    histogram, weights = generator.random(_HISTOGRAM), generator.random((_QUESTIONS, _HISTOGRAM))
    rates["numpy_dots_per_s"] = (
        8 * _QUESTIONS / _seconds(lambda: [histogram @ one for one in (*weights,) * 8])
    )
    first, second, third = np.zeros(_TRIAD), generator.random(_TRIAD), generator.random(_TRIAD)

    def triad() -> None:
        np.multiply(third, 3.0, out=first)
        np.add(first, second, out=first)

    triad()
    rates["triad_gb_per_s"] = 40 * _TRIAD / 1e9 / min(_seconds(triad) for _ in range(3))
    rates["opendp_laplace_per_s"] = _opendp_rate()
    (ours,) = _grown(_RECORDS, 6, 5000)
    rates["queries_per_s"], rates["arrays_per_s"] = ours["queries_per_s"], ours["arrays_per_s"]
    point: _Point = {name: None if rate is None else round(rate, 1) for name, rate in rates.items()}
    for peer in ("numpy_dots_per_s", "opendp_laplace_per_s"):
        rate = rates[peer]
        for own in ("queries_per_s", "arrays_per_s"):
            ratio = None if rate is None else round((rates[own] or 0.0) / rate, 1)
            point[f"{own.removesuffix('_per_s')}_over_{peer.removesuffix('_per_s')}"] = ratio
    if rates["opendp_laplace_per_s"] is None:
        point["skipped"] = "opendp is not installed"
    return [point]


def _opendp_rate() -> float | None:
    """Return how many counts opendp adds Laplace noise to; None where it is not installed."""
    if importlib.util.find_spec("opendp") is None:
        return None
    import opendp.prelude as dp

    dp.enable_features("contrib")
    measurement = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=100.0)
    return 2000 / _seconds(lambda: [measurement(1000) for _ in range(2000)])


def _peers(_: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    yield _compared


CURVES: dict[str, Callable[[argparse.Namespace], Iterator[Callable[[], list[_Point]]]]] = {
    "domain": _domain,
    "records": _records,
    "questions": _questions,
    "positives": _positives,
    "peers": _peers,
}


if __name__ == "__main__":
    main()
