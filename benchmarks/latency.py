"""Latency benchmark: what a durable answer costs, beside what the machine's own synchronisation costs.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.latency [--folder DIR] [--sync-delay MS]

prints JSON lines, each with the folder's own time for one synchronised write of a page:

* ``noise``: questions of which each draws noise, asked one by one of a session in a file: durable commits and
  synchronised writes for each (these only where ``strace`` is installed), and the time until the answer is
  returned, by then durable and its seed unreadable.
* ``certified``: new questions about a marginal that was found right, one by one: no noise is drawn; with and
  without a file.
* ``repeated``: questions that have a stored answer.
* ``stream``: ``pmw ask --stream`` with new questions that need no noise: answers per second, each durable,
  from the first line to the last.

With ``--sync-delay`` only ``noise``, on a disk whose synchronised writes take so much longer (by ``strace``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import pmw
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, save_schema
from queries.parsing import parse_where

_PAGE = 4096
_QUESTIONS = 400
_LINES = 60_000

_DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 399),
        IntegerAttribute("income", 0, 399),
        CategoricalAttribute("sex", ("Female", "Male")),
    ),
    name="people",
)


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--folder", type=Path, help="where session files are made; temporary if left out")
    parser.add_argument("--sync-delay", type=float, metavar="MS", help="what a synchronised write takes more")
    parser.add_argument("--only-noise", action="store_true", help=argparse.SUPPRESS)  # what is traced
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if given.sync_delay is not None:
            sys.exit(_delayed(folder, given.sync_delay))
        if given.only_noise:
            print(json.dumps(_noise(folder)[0]), flush=True)
            return
        for result in (_noise(folder), _certified(folder), _stream(folder)):
            for line in result:
                print(json.dumps(line), flush=True)


def _noise(folder: Path) -> list[dict[str, object]]:
    options = pmw.Options(test=pmw.TestKind.QUERY, threshold=1e6)
    path = folder / "noise.pmw"
    with pmw.open_session(_table(), _DOMAIN, epsilon=1, delta=1e-9, path=path, options=options) as session:
        queries = _ranges()
        session.ask(queries[0])
        statements: list[str] = []
        session._open_store()._connection.set_trace_callback(statements.append)
        times, page = _timed(session, queries[1:], folder)
        session._open_store()._connection.set_trace_callback(None)
    commits = statements.count("COMMIT") / len(times)
    line = {"what": "noise", "commits": commits, "syncs": _syncs(folder), **_figures(times, page)}
    return [line]


def _delayed(folder: Path, milliseconds: float) -> int:
    """Run the questions that draw noise where each synchronised write takes longer; return the exit code."""
    tracer = shutil.which("strace")
    if tracer is None:
        print("strace is not installed", file=sys.stderr)
        return 1
    rule = f"inject=fsync,fdatasync:delay_exit={round(1000 * milliseconds)}"
    traced = [tracer, "-f", "--seccomp-bpf", "-o", os.devnull, "-e", "trace=fsync,fdatasync", "-e", rule]
    command = [sys.executable, "-m", "benchmarks.latency", "--only-noise", "--folder", str(folder)]
    return subprocess.run([*traced, *command], check=False).returncode  # noqa: S603


def _certified(folder: Path) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for where, path in (("in a file", folder / "certified.pmw"), ("in memory", None)):
        with pmw.open_session(_table(), _DOMAIN, epsilon=1, delta=1e-9, path=path) as session:
            session.ask("age >= 40 AND sex = 'Male'")
            queries = _ranges()
            for what in ("certified", "repeated"):
                lines.append({"what": f"{what}, {where}", **_figures(*_timed(session, queries, folder))})
    return lines


def _ranges() -> list[LinearQuery]:
    return [parse_where(f"age BETWEEN {low} AND {low + 30} AND sex = 'Male'", _DOMAIN) for low in range(360)]


def _stream(folder: Path) -> Iterator[dict[str, object]]:
    _table().to_csv(folder / "people.csv", index=False)
    save_schema(_DOMAIN, folder / "people.toml")
    path = folder / "stream.pmw"
    pmw.open_session(folder / "people.csv", _DOMAIN, epsilon=1, delta=1e-9, path=path).close()
    ends = ((low, high) for low in range(400) for high in range(low, 400))
    lines = [
        json.dumps({"where": {"age": {"between": [low, high]}, "sex": {"in": ["Male"]}}})
        for low, high in ends
    ][:_LINES]
    command = [sys.executable, "-m", "pmw", "ask", str(path), "--stream"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        if process.stdin is None or process.stdout is None:
            return
        process.stdin.write(lines[0].encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()  # by now it has started, read the table and tested the marginal
        questions = folder / "questions.jsonl"
        questions.write_text("\n".join(lines[1:]) + "\n")
        begun = time.monotonic()
        with subprocess.Popen(["cat", str(questions)], stdout=process.stdin) as _:  # noqa: S603, S607
            process.stdin.close()
            answered = sum(1 for _ in process.stdout)
        seconds = time.monotonic() - begun
    yield {"what": "stream", "answered": answered, "answers_per_second": round(answered / seconds)}


def _table() -> pd.DataFrame:
    generator = np.random.default_rng(1)
    size = 20_000
    return pd.DataFrame(
        {
            "age": generator.integers(0, 400, size),
            "income": generator.integers(0, 400, size),
            "sex": generator.choice(["Female", "Male"], size),
        }
    )


def _timed(
    session: pmw.Session, queries: Sequence[LinearQuery], folder: Path
) -> tuple[NDArray[np.float64], float]:
    """Return the seconds of each question, and the median of a page synchronised after each."""
    times, pages = [], []
    with (folder / "page").open("wb", buffering=0) as file:
        for query in queries[:_QUESTIONS]:
            begun = time.perf_counter()
            session.ask(query)
            times.append(time.perf_counter() - begun)
            file.write(bytes(_PAGE))
            begun = time.perf_counter()
            os.fsync(file.fileno())
            pages.append(time.perf_counter() - begun)
    return np.array(times), float(np.median(pages))


def _figures(times: NDArray[np.float64], page: float) -> dict[str, object]:
    median = float(np.median(times))
    return {
        "questions": len(times),
        "median_ms": round(1e3 * median, 3),
        "p99_ms": round(1e3 * float(np.quantile(times, 0.99)), 3),
        "page_ms": round(1e3 * page, 3),
        "median_over_page": round(median / page, 1),
    }


def _syncs(folder: Path) -> float | None:
    """Return the synchronised writes of each question that draws noise, or None where they cannot be counted.

    The pages that are synchronised between questions, by another call, are not among them.
    """
    tracer = shutil.which("strace")
    if tracer is None or "--only-noise" in sys.argv:
        return None
    trace = folder / "trace"
    command = [sys.executable, "-m", "benchmarks.latency", "--only-noise", "--folder", str(folder)]
    counted = [tracer, "-f", "-e", "trace=fdatasync", "-o", str(trace), *command]
    if subprocess.run(counted, capture_output=True, check=False).returncode:  # noqa: S603
        return None
    return round(trace.read_text().count("fdatasync(") / 360, 1)


if __name__ == "__main__":
    main()
