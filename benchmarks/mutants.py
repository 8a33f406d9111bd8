"""Mutants: a line on which privacy rests is made wrong, one at a time, and a test has to fail for it.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.mutants [--first N] [--last N] [--only NAME …] [--workers 1]

prints JSON lines: one for each mutant, then how many there were of each outcome. It works in a copy of the
checkout: for each mutant of `mutants.txt` one text of a file is replaced, and its tests run until one fails.

* ``killed``: a test failed that passes where nothing is replaced.
* ``survived``: all passed. A better test is missing, unless the mutant does what the code did.
* ``not found``: the text stands in the file not once but never or often; nothing was tried.
* ``broken``: its tests could not be run, or fail in any case.
* ``hung``: they ran past the limit.

The exit code is 0 where every mutant was killed, else 1.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.runner import parser, pin_threads, tell

_ROOT = Path(__file__).parent.parent
_TABLE = Path(__file__).with_suffix(".txt")
_LEFT_OUT = (".*", "__pycache__", "build", "dist")  # of the copy
_LIMIT = 900.0  # seconds of a mutant's tests
_TOLD = 200  # characters
_PASSED, _FAILED = 0, 1  # what pytest returns
_FAULTS = ("FAILED ", "ERROR ")  # how its lines begin about a test, or a fixture, that failed


class Mutant(NamedTuple):
    """A wrong line.

    Attributes:
        name: what is wrong.
        file: below the checkout, without its suffix.
        old: a text that stands there once.
        new: what stands in its place.
        tests: files, folders, or tests of a slow file, below ``tests`` and without suffixes; one has to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


def _read() -> Iterator[Mutant]:
    """Yield the mutants of ``mutants.txt``, whose head says how it is written."""
    for line in _TABLE.read_text().replace("\n    =>", " =>").splitlines():
        if line.startswith("== "):
            file, tests = line[3:].split(" : ")
        elif not line.startswith("#"):
            name, texts = f"{line} ".replace("\\n", "\n").split(": ", 1)
            old, new = texts.split(" => ")
            yield Mutant(name, file, old, new[:-1], tests)


MUTANTS = tuple(_read())


def main() -> None:
    """Try the mutants that the arguments choose."""
    made = parser(__doc__)
    made.add_argument("--first", type=int, default=0, help="number of the first mutant")
    made.add_argument("--last", type=int, default=len(MUTANTS), help="number of the one after the last")
    made.add_argument("--only", nargs="+", metavar="NAME", choices=[one.name for one in MUTANTS])
    made.add_argument("--workers", type=int, default=1, help="mutants that are tried at a time")
    given = made.parse_args()
    chosen = [
        number
        for number in range(len(MUTANTS))[given.first : given.last]
        if given.only is None or MUTANTS[number].name in given.only
    ]
    counts = Counter[str]()
    pin_threads()
    with tempfile.TemporaryDirectory() as name:
        copies = [Copy(Path(name) / str(worker)) for worker in range(given.workers)]
        for line in tried(chosen, copies):
            counts[str(line["outcome"])] += 1
            tell(line)
    tell({"mutants": counts.total(), **counts})
    sys.exit(0 if counts.total() == counts["killed"] else 1)


def tried(chosen: Sequence[int], copies: Sequence[Copy]) -> Iterator[dict[str, object]]:
    """Yield what becomes of mutants, by their numbers, in order; a copy is used for one at a time."""
    free = queue.SimpleQueue[Copy]()
    for copy in copies:
        free.put(copy)

    def one(number: int) -> dict[str, object]:
        copy, mutant, started = free.get(), MUTANTS[number], time.monotonic()
        try:
            outcome, told = copy.outcome_of(mutant)
        finally:
            free.put(copy)
        line = {"mutant": number, "name": mutant.name, "outcome": outcome, "told": told[:_TOLD]}
        return {**line, "seconds": round(time.monotonic() - started)}

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(one, chosen)


class Copy:
    """A copy of the checkout, compiled so that only a file whose text is replaced is compiled anew.

    Args:
        folder: where it is made.
    """

    def __init__(self, folder: Path) -> None:
        shutil.copytree(_ROOT, folder, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        hashed = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder, quiet=2, invalidation_mode=hashed)
        self._folder = folder
        self._passing = set[str]()  # tests that are known to pass where nothing is replaced

    def outcome_of(self, mutant: Mutant) -> tuple[str, str]:
        """Return what becomes of a mutant, and why; the copy is as before afterwards."""
        try:
            with self._replaced(mutant) as found:
                if found != 1:
                    return "not found", f"its text stands {found} times in {mutant.file}"
                returned, told = self._run(map(self._path, mutant.tests.split()))
            if returned != _FAILED:
                return ("survived" if returned == _PASSED else "broken"), told
            test = told.partition(" ")[2].partition(" - ")[0]
            if test not in self._passing and self._run([test])[0] != _PASSED:
                return "broken", f"it fails where nothing is replaced: {test}"
            self._passing.add(test)
            return "killed", test
        except subprocess.TimeoutExpired:
            return "hung", f"past {_LIMIT:g} seconds"

    @contextmanager
    def _replaced(self, mutant: Mutant) -> Iterator[int]:
        """Replace a mutant's text where it stands in its file once, and yield how often it does."""
        path = self._folder / f"{mutant.file}.py"
        before = path.read_text() if path.exists() else ""
        found = before.count(mutant.old)
        if found == 1:
            path.write_text(before.replace(mutant.old, mutant.new))
        try:
            yield found
        finally:
            if found == 1:
                path.write_text(before)

    def _path(self, test: str) -> str:
        place, colons, name = test.partition("::")
        is_folder = (self._folder / "tests" / place).is_dir()
        return f"tests/{place}{'' if is_folder else '.py'}{colons}{name}"

    def _run(self, tests: Iterable[str]) -> tuple[int, str]:
        """Run tests until one fails; return what pytest returns, and the first failure or the last line."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        # Processes that tests start import the copy, too, not what is installed.
        environment = {**os.environ, "PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(  # noqa: S603 - our own command
            command,
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        lines = done.stdout.splitlines() or done.stderr.splitlines() or [""]
        return done.returncode, next((one for one in lines if one.startswith(_FAULTS)), lines[-1])


if __name__ == "__main__":
    main()
