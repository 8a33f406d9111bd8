"""Options and fixtures that all tests share."""

from __future__ import annotations

import faulthandler
import hashlib
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is. The suite draws the same examples each time;
# ``--hypothesis-profile=long`` draws more, and others each time.
# Fixtures that outlive an example, such as a folder for its files, are written anew in each.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.register_profile("suite", COMMON, max_examples=25, derandomize=True)
settings.register_profile("long", COMMON, max_examples=400)
settings.load_profile("suite")

# Before numpy is imported: the tests' matrices are so small that threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-dir",
        default=os.environ.get("PMW_DATA_DIR"),
        help="folder with real tables for extra tests (also PMW_DATA_DIR); they are skipped without it",
    )
    parser.addoption(
        "--longest",
        type=float,
        default=900,
        metavar="SECONDS",
        help="how long a test may take before it fails: far more than any needs, on a busy machine too",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share the whole suite among the processors where pytest-xdist is installed; ``-n 0`` keeps one process.

    Named files run in one process: a worker takes longer to start than most of them.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    is_worker = hasattr(config, "workerinput")
    if whole and not is_worker and getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses = "auto"


def pytest_configure(config: pytest.Config) -> None:
    """Let all processes of the tests share what they compile, where Python keeps none beside the sources.

    It is kept in pytest's cache for the next run. Workers, and processes that tests start, begin with it.
    A run without a cache keeps nothing, and compiles in this process as it was told to.
    """
    if not sys.dont_write_bytecode:
        return
    if hasattr(config, "cache"):
        folder = str(config.cache.mkdir("compiled"))
    else:
        temporary = tempfile.TemporaryDirectory()
        config.add_cleanup(temporary.cleanup)
        folder = temporary.name
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    patch.setenv("PYTHONPYCACHEPREFIX", folder)
    if hasattr(config, "cache"):
        patch.setattr(sys, "dont_write_bytecode", False)
        patch.setattr(sys, "pycache_prefix", folder)


MEMORY = Path("/dev/shm")  # noqa: S108
ROOM = 4 * 2**30  # bytes: far more than a run writes


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the files of tests in memory, where there is room: sessions wait for the disk at each answer."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM or not os.access(MEMORY, os.W_OK):
        return
    patch = pytest.MonkeyPatch()
    session.config.add_cleanup(patch.undo)
    patch.setenv("PYTEST_DEBUG_TEMPROOT", os.environ.get("PYTEST_DEBUG_TEMPROOT", str(MEMORY)))


class Repeated:
    """Bytes for the noise of the test or the shared fixture that runs now, the same in every run.

    A test's bytes follow from its name and from how many it took, so tests may run alone or in any order.
    Rows that are drawn without a seed have bytes of their own.
    """

    def __init__(self) -> None:
        self.owner = ""
        self._taken: Counter[str] = Counter()

    def start(self, owner: str) -> None:
        self.owner = owner
        self._taken[owner] = self._taken[f"{owner}/rows"] = 0

    def next_seed(self) -> bytes:
        return self._next(self.owner)

    def rows_of(self, seed: int | None) -> np.random.Generator:
        if seed is None:
            seed = int.from_bytes(self._next(f"{self.owner}/rows"), "big")
        return np.random.default_rng(seed)

    def _next(self, name: str) -> bytes:
        self._taken[name] += 1
        return hashlib.sha256(f"{name}/{self._taken[name]}".encode()).digest()


REPEATED = Repeated()


@pytest.fixture(scope="session", autouse=True)
def repeatable_everywhere() -> Iterator[None]:
    """Make the noise of sessions in this process repeatable; sessions in files themselves refuse to."""
    with pytest.MonkeyPatch.context() as patch:
        # Noise of sessions, keys of persons, noise of drafts and of fits to a table alone.
        for module in (
            "pmw.session.journal",
            "pmw.privacy.random_bits",
            "pmw.session.drafts",
            "pmw.research.offline",
        ):
            patch.setattr(f"{module}.fresh_seed", REPEATED.next_seed)
        patch.setattr("pmw.public.export.rows.default_rng", REPEATED.rows_of)
        yield


GIVEN_UP = pytest.StashKey[bool]()  # whether a test did not end


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process where a test was given up: at its end, Python waits for threads and for children."""
    if config.stash.get(GIVEN_UP, False):
        faulthandler.dump_traceback_later(10, exit=True)


@contextmanager
def ended_in_time(item: pytest.Item) -> Iterator[None]:
    """Fail the test that waits for what never comes, such as word from a process that has ended."""
    longest = float(item.config.getoption("--longest")) * (4 if item.get_closest_marker("slow") else 1)

    def give_up(*_: object) -> None:
        item.config.stash[GIVEN_UP] = True
        pytest.fail(f"it did not end within {longest:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, longest, 10)  # again, where what cleans up waits too
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    REPEATED.start(item.nodeid)
    with ended_in_time(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with ended_in_time(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with ended_in_time(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Take the bytes of a shared fixture by its own name: which test comes first is chance."""
    if fixturedef.scope == "function":
        return (yield)
    before, number = REPEATED.owner, getattr(request, "param_index", 0)
    REPEATED.start(f"{fixturedef.baseid}::{fixturedef.argname}[{number}]")
    try:
        return (yield)
    finally:
        REPEATED.owner = before


@pytest.fixture(scope="session", autouse=True)
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run all tests in an empty folder: what lies in the checkout is in nobody's way, and stays as it is."""
    folder = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(autouse=True)
def nothing_left(empty_folder: Path) -> Iterator[None]:
    """Fail the test that writes into the working folder: whoever runs it has files of their own there."""
    yield
    left = sorted(empty_folder.iterdir())
    for path in left:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not left, f"left in the working folder: {', '.join(path.name for path in left)}"


@pytest.fixture(autouse=True)
def every_connection_closed() -> Iterator[None]:
    """Fail the test that leaves a session file open: the collector's warning would blame a later one."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def keep(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", keep)
        yield
    left = [connection for connection in made if is_open(connection)]
    for connection in left:
        connection.close()
    assert not left, f"{len(left)} of {len(made)} connections were left open"


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018
    except sqlite3.ProgrammingError:
        return False
    return True


@pytest.fixture
def data_dir(request: pytest.FixtureRequest) -> Path:
    """Return the folder with real tables, or skip the test where none is given."""
    given = request.config.getoption("--data-dir")
    if given is None:
        pytest.skip("needs real tables: give --data-dir or PMW_DATA_DIR")
    return request.config.invocation_params.dir / str(given)
