"""Growth benchmark: what a session file and its process come to after very many questions.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.growth --queries 1000000 [--folder DIR]

prints JSON lines: while it goes, how many questions were answered, how many of them were new, what the
process holds, and the bytes of the file for each stored answer; at the end, how long it takes to read the
session, to resume it and to verify it in processes of their own. A quarter
of each chunk, or more, was asked before.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import pmw
from pmw.session.store import SessionStore
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, random_conjunctions

_CHUNK = 512  # questions at a time, as the command line takes them
_REPEATED = 128  # of each chunk, questions that were asked before
_LINES = 10  # reports along the way
_RECORDS = 20_000

_READ = "from pmw.session.maintenance import read_session; read_session(path)"
_RESUME = "import pmw; pmw.resume_session(path).close()"
_VERIFY = "import pmw; assert pmw.verify_session(path).holds"


def main() -> None:
    """Answer the questions and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--queries", type=int, default=1_000_000, help="how many questions are asked")
    parser.add_argument(
        "--folder", type=Path, help="where the session file is made; a temporary folder if left out"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        for line in run(Path(name) / "grown.pmw", given.queries):
            print(json.dumps(line), flush=True)


def run(path: Path, count: int) -> Iterator[dict[str, object]]:
    """Answer ``count`` questions in one new session and yield what it came to.

    Args:
        path: the session file, which is made.
        count: questions.
    """
    domain = _domain()
    started = time.monotonic()
    every = max(1, -(-count // _LINES // _CHUNK))
    asked = 0
    with pmw.open_session(_table(domain), domain, epsilon=1, delta=1e-9, path=path) as session:
        for number, chunk in enumerate(_chunks(domain, count), start=1):
            session.ask_all(chunk)
            asked += len(chunk)
            if number % every == 0 or asked == count:
                yield {
                    "answered": asked,
                    "seconds": round(time.monotonic() - started, 1),
                    "held_mb": round(_held_mb(), 1),
                    "share": round(session.state.ledger.share, 4),
                    **_file_facts(path),
                }
    yield {"closed": True, **_file_facts(path)}
    for what, code in (("read", _READ), ("resume", _RESUME), ("verify", _VERIFY)):
        yield {"what": what, **_alone(path, code)}


def _domain() -> Domain:
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


def _table(domain: Domain) -> pd.DataFrame:
    generator = np.random.default_rng(1)
    columns: dict[str, object] = {}
    for attribute in domain:
        if isinstance(attribute, CategoricalAttribute):
            columns[attribute.name] = generator.choice(list(attribute.values), _RECORDS)
        else:
            columns[attribute.name] = generator.integers(0, 50, _RECORDS)
    return pd.DataFrame(columns)


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
        stored = store.answer_count()
    finally:
        store.close()
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    return {
        "stored": stored,
        "file_mb": round(size / 1e6, 1),
        "bytes_per_answer": round(size / max(stored, 1)),
    }


def _held_mb() -> float:
    """Return what the process holds now, in MB; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 1e6


def _alone(path: Path, code: str) -> dict[str, object]:
    """Return the seconds and the peak memory of a piece of work in a process of its own, imports left out."""
    script = (
        "import resource, sys, time; path = sys.argv[1]; import pmw.session.session, pmw.session.maintenance;"
        f"begun = time.monotonic(); {code};"
        "print(time.monotonic() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    seconds, kilobytes = done.stdout.split()
    return {"seconds": round(float(seconds), 2), "peak_mb": round(int(kilobytes) * 1024 / 1e6)}


if __name__ == "__main__":
    main()
