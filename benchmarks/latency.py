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
  from the first line to the last. Then lines per CPU second, without start-up, of a session that was asked
  10,000 conditions of three ranges of five attributes: 50,000 lines with these, and 10,000 with others.

With ``--beside DIR`` only these lines, in turn with another checkout's, each of a session of its own.

With ``--sync-delay`` only ``noise``, on a disk whose synchronised writes take so much longer (by ``strace``).

With ``--grow 1000000`` only what a session file and its process come to after so many questions, of which a
quarter of each chunk, or more, was asked before: while it goes, how many were answered, how many of them were
new, what the process holds, and the bytes of the file for each stored answer; then how long it takes to
read the session, to resume it and to verify it in processes of their own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import pmw
from benchmarks.runner import alone, parser, peak_mb, reset_peak, tell, used
from pmw.session.maintenance import read_session
from pmw.session.store.store import SessionStore
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    random_conjunctions,
    save_schema,
)
from queries.parsing import parse_where

_PAGE = 4096
_QUESTIONS = 400
_LINES = 60_000
_ASKED = 10_000  # lines of a session before it is timed

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
    made = parser(__doc__)
    made.add_argument("--folder", type=Path, help="where session files are made; temporary if left out")
    made.add_argument("--sync-delay", type=float, metavar="MS", help="what a synchronised write takes more")
    made.add_argument("--grow", type=int, metavar="N", help="ask so many questions of one session")
    made.add_argument("--beside", type=Path, metavar="DIR", help="a checkout whose streams are timed, too")
    made.add_argument("--only-noise", action="store_true", help=argparse.SUPPRESS)  # what is traced
    given = made.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if given.sync_delay is not None:
            sys.exit(_delayed(folder, given.sync_delay))
        if given.only_noise:
            tell(_noise(folder)[0])
            return
        parts: list[Callable[[Path], Iterable[dict[str, object]]]] = [
            _noise,
            _certified,
            _stream,
            partial(_lines, trees=[Path.cwd()]),
        ]
        if given.grow is not None:
            parts = [partial(_grown, count=given.grow)]
        elif given.beside is not None:
            parts = [partial(_lines, trees=[given.beside.resolve(), Path.cwd()])]
        for part in parts:
            for line in part(folder):
                tell(line)


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


def _lines(folder: Path, trees: Sequence[Path]) -> Iterator[dict[str, object]]:
    """Time lines that were asked before, and lines that were not, by each checkout in turn."""
    generator, names = np.random.default_rng(1), ("age", "income", "hours", "weeks", "score")
    table = pd.DataFrame({name: generator.integers(0, 100, 20_000) for name in names})
    table.to_csv(folder / "five.csv", index=False)
    kinds = (f'[[attributes]]\nname = "{name}"\nkind = "integer"\nmin = 0\nmax = 99\n' for name in names)
    (folder / "five.toml").write_text("\n".join(['name = "people"', *kinds]))
    asked = dict[str, None]()
    while len(asked) < 2 * _ASKED:
        ends = np.sort(generator.integers(0, 100, (3, 2)), axis=1).tolist()
        three = zip(np.sort(generator.choice(5, 3, replace=False)).tolist(), ends, strict=True)
        asked[json.dumps({"where": {names[place]: {"between": both} for place, both in three}})] = None
    before, new = list(asked)[:_ASKED], list(asked)[_ASKED:]
    for tree in trees:
        command = ["open", "five.pmw", "--data", "five.csv", "--schema", "five.toml", "--epsilon", "1"]
        place = folder / f"{len(list(folder.iterdir()))}"
        shutil.copytree(folder, place, ignore=lambda _, found: [one for one in found if "five." not in one])
        _cpu([*command, "--delta", "1e-9"], [], tree, place)
        stream = ["ask", "five.pmw", "--stream"]
        _cpu(stream, before, tree, place)
        start = min(_cpu(stream, before[:1], tree, place) for _ in range(3))
        for what, some in (("asked before", before * 5), ("never asked", new)):
            rate = len(some) / (_cpu(stream, some, tree, place) - start)
            yield {"what": f"stream, {what}", "tree": tree.name, "lines_per_cpu_second": round(rate)}


def _cpu(arguments: Sequence[str], lines: Sequence[str], tree: Path, folder: Path) -> float:
    """Return the CPU seconds of a command of a checkout, with lines as its input."""
    (folder / "lines").write_text("".join(f"{line}\n" for line in lines))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command, env = [sys.executable, "-m", "pmw", *arguments], {**os.environ, "PYTHONPATH": str(tree)}
    with (folder / "lines").open("rb") as given:
        subprocess.run(  # noqa: S603
            command, stdin=given, stdout=subprocess.DEVNULL, check=True, cwd=folder, env=env
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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


# --- growth -------------------------------------------------------------------------------------------------

_CHUNK = 512  # questions at a time, as the command line takes them
_REPEATED = 128  # of each chunk, questions that were asked before
_REPORTS = 10  # reports along the way
_RECORDS = 20_000


def _resume(path: Path) -> None:
    pmw.resume_session(path).close()


_LATER: dict[str, Callable[[Path], object]] = {
    "read": read_session, "resume": _resume, "verify": pmw.verify_session
}  # fmt: skip


def _grown(folder: Path, count: int) -> Iterator[dict[str, object]]:
    """Answer ``count`` questions in one new session and yield what it came to."""
    domain, path, generator = _grown_domain(), folder / "grown.pmw", np.random.default_rng(1)
    table = pd.DataFrame(
        {
            one.name: generator.choice(list(one.values), _RECORDS)
            if isinstance(one, CategoricalAttribute)
            else generator.integers(0, 50, _RECORDS)
            for one in domain
        }
    )
    started = time.monotonic()
    every = max(1, -(-count // _REPORTS // _CHUNK))
    asked = 0
    with pmw.open_session(table, domain, epsilon=1, delta=1e-9, path=path) as session:
        for number, chunk in enumerate(_chunks(domain, count), start=1):
            session.ask_all(chunk)
            asked += len(chunk)
            if number % every == 0 or asked == count:
                yield {
                    "answered": asked,
                    "seconds": round(time.monotonic() - started, 1),
                    "held_mb": round(used(os.getpid())[1], 1),
                    "share": round(session.state.ledger.share, 4),
                    **_file_facts(path),
                }
    yield {"closed": True, **_file_facts(path)}
    for what, work in _LATER.items():
        yield {"what": what, **alone(_alone, path, work)}


def _grown_domain() -> Domain:
    """Eight attributes, four of them long: enough for millions of different questions."""
    return Domain(
        (
            IntegerAttribute("age", 0, 99),
            IntegerAttribute("income", 0, 99),
            IntegerAttribute("hours", 0, 49),
            IntegerAttribute("weeks", 0, 51),
            CategoricalAttribute("region", ("north", "east", "south", "west", "abroad")),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("work", ("none", "private", "public", "self")),
            CategoricalAttribute("schooling", tuple(f"level {number}" for number in range(6))),
        ),
        name="people",
    )


def _chunks(domain: Domain, count: int) -> Iterator[list[LinearQuery]]:
    """Yield questions, a quarter of each chunk from among the first ones."""
    generator = np.random.default_rng(2)
    early: list[LinearQuery] = []
    for seed in itertools.count():
        size = min(_CHUNK, count)
        if size == 0:
            return
        fresh = list(random_conjunctions(domain, size if not early else max(size - _REPEATED, 0), seed=seed))
        again = (
            [early[place] for place in generator.integers(0, len(early), size - len(fresh))] if early else []
        )
        early = (early + fresh)[:10_000]
        count -= size
        yield fresh + again


def _file_facts(path: Path) -> dict[str, object]:
    store = SessionStore.open(path)
    try:
        stored = store.answers.count()
    finally:
        store.close()
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    return {
        "stored": stored,
        "file_mb": round(size / 1e6, 1),
        "bytes_per_answer": round(size / max(stored, 1)),
    }


def _alone(path: Path, work: Callable[[Path], object]) -> dict[str, object]:
    """Return the seconds and the peak memory of a piece of work on a session file."""
    reset_peak()
    begun = time.monotonic()
    work(path)
    return {"seconds": round(time.monotonic() - begun, 2), "peak_mb": round(peak_mb())}


if __name__ == "__main__":
    main()
