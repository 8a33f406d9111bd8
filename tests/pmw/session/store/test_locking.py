"""One budget is spent once: whatever name a session file is reached by, and whatever becomes of its lock."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.session.maintenance import finalize_session, read_ledger, read_session, verify_session
from pmw.session.store.locking import SessionLock
from pmw.session.store.rows import LedgerRow, Outcome
from pmw.session.store.store import SessionStore, writing
from queries import format_schema
from tests.worlds import PEOPLE

CHARGE = Outcome(ledger=[LedgerRow("measurement", "q", None, "1/7", None, '[["","1"]]')])


def rows_of(study: Path) -> list[str]:
    with closing(sqlite3.connect(study)) as connection:
        return list(connection.iterdump())


def test_a_session_is_locked_by_whatever_link_it_is_reached(study: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "l.pmw"
    link.symlink_to(study)
    for first, second in itertools.permutations([study, link]):
        with pmw.resume_session(first, PEOPLE.frame), pytest.raises(pmw.SessionLockedError):
            pmw.resume_session(second, PEOPLE.frame)
    assert list(link.parent.iterdir()) == [link]


def test_a_session_file_with_two_names_is_refused(study: Path, tmp_path: Path) -> None:
    uses: list[Callable[[Path], object]] = [
        lambda path: pmw.resume_session(path).close(), read_session, read_ledger, verify_session,
        finalize_session,
    ]  # fmt: skip
    (tmp_path / "h.pmw").hardlink_to(study)
    before = rows_of(study)
    for name, use in itertools.product((study.name, "h.pmw"), uses):
        with pytest.raises(pmw.SessionError, match="one name, found 2 hard links to it; remove the others"):
            use(tmp_path / name)
    assert rows_of(study) == before
    (tmp_path / "h.pmw").unlink()
    for use in uses:
        use(study)


def test_a_file_that_is_moved_linked_or_deleted_under_a_session_is_not_written_to(
    study: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.pmw"
    with pmw.resume_session(study, PEOPLE.frame) as session:
        study.rename(moved)
        for _ in range(2):
            with pytest.raises(pmw.SessionLockedError, match="moved, replaced or linked while in use"):
                session.ask("age >= 40 AND sex = 'Male'")
            study.write_bytes(moved.read_bytes())  # a copy in its place is another file
        study.unlink()
        moved.rename(study)
        moved.hardlink_to(study)
        with pytest.raises(pmw.SessionLockedError, match="moved, replaced or linked while in use"):
            session.ask("age >= 40 AND sex = 'Male'")
        moved.unlink()
        session.ask("age >= 40 AND sex = 'Male'")
    assert read_session(study)[1].queries_answered == 2


def test_every_write_of_a_store_that_was_taken_over_is_refused(study: Path) -> None:
    with closing(SessionStore.open(study)) as first, closing(SessionStore.open(study)) as second:
        first.take_over()
        intent = first.begin("tests", "{}", b"t" * 32)
        second.take_over()
        before = rows_of(study)
        writes: list[Callable[[], object]] = [
            lambda: first.begin("tests", "{}", b"u" * 32),
            lambda: first.finish(intent, CHARGE),
            lambda: first.finish(None, Outcome(asked=1)),
            lambda: first.save_snapshot(1, np.array([1.0])),
            lambda: first.finalize(None, Outcome(meta={"closed": "true"})),
        ]
        for write in writes:
            with pytest.raises(pmw.SessionLockedError, match="another process has taken over this session"):
                write()
            assert rows_of(study) == before
        second.finish(intent, CHARGE)


def test_readers_take_nothing_over_and_leave_every_row_as_it_is(study: Path, tmp_path: Path) -> None:
    with pmw.resume_session(study, PEOPLE.frame) as session:
        session.ask("age >= 40 AND sex = 'Male'")
        before = rows_of(study)
        names = sorted(tmp_path.iterdir())
        read_session(study)
        read_ledger(study)
        assert verify_session(study).holds
        assert rows_of(study) == before
        assert sorted(tmp_path.iterdir()) == names
        session.ask("age >= 40 AND sex = 'Female'")


def test_an_opening_that_is_refused_removes_the_lock_file_that_it_made_and_no_other(
    study: Path, tmp_path: Path
) -> None:
    def refused(name: str, table: pd.DataFrame, error: type[pmw.PMWError]) -> bool:
        """Open where that is refused, and tell whether there is a lock file then."""
        with pytest.raises(error):
            pmw.open_session(table, PEOPLE.domain, epsilon=1, delta=1e-9, path=tmp_path / name)
        return (tmp_path / f"{name}-lock").exists()

    assert not refused("new.pmw", PEOPLE.frame[["age"]], pmw.DataError)
    (tmp_path / "new.pmw-lock").touch()
    assert refused("new.pmw", PEOPLE.frame[["age"]], pmw.DataError)  # it was there before
    study.with_name(f"{study.name}-lock").unlink(missing_ok=True)
    assert refused(study.name, PEOPLE.frame, pmw.SessionExistsError)  # it belongs to a session
    held = SessionLock(tmp_path / "held.pmw")
    assert refused("held.pmw", PEOPLE.frame, pmw.SessionLockedError)  # another holds it
    held.release(forget=True)
    assert not (tmp_path / "held.pmw-lock").exists()


# --- writing ------------------------------------------------------------------------------------------------


def test_who_writes_looks_before_a_lock_file_is_made_and_again_under_the_lock(study: Path) -> None:
    lock, seen = study.with_name(f"{study.name}-lock"), list[tuple[bool, bool]]()
    lock.unlink(missing_ok=True)

    def is_held() -> bool:
        if not lock.exists():
            return False
        try:
            SessionLock(study).release()
        except pmw.SessionLockedError:
            return True
        return False

    def write() -> None:
        with writing(study, 0, lambda _: seen.append((lock.exists(), is_held()))) as store:
            used.append(store)
            assert is_held()
            assert rows_of(study) == before
            with pytest.raises(pmw.SessionError, match="was opened for reading"):
                store.finish(None, CHARGE)
            store.take_over()
            store.finish(None, CHARGE)
            raise KeyError

    before, used = rows_of(study), list[SessionStore]()
    with pytest.raises(KeyError):
        write()
    assert seen == [(False, False), (True, True)]
    assert not is_held()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        used[0]._connection.execute("SELECT 1")


ELSEWHERE = """
import os, sys
from pathlib import Path
for name in ("fcntl", "termios", "pwd", "grp", "resource"):
    sys.modules[name] = None
for name in ("register_at_fork", "fork", "fchmod", "geteuid", "getuid", "O_NOFOLLOW"):
    delattr(os, name)
import pmw
from pmw.cli.main import main
from pmw.service import users
folder, model = sys.argv[1:]
domain = pmw.load_schema(folder + "/s.toml")
print(pmw.plan_session(domain, records=3000, epsilon=1, delta=1e-9) is not None)
print(pmw.load_model(model).ask("sex = 'Male'").count > 0)
for refused in (
    lambda: pmw.open_session([], domain, epsilon=1, path=folder + "/new.pmw"),
    lambda: pmw.resume_session(folder + "/study.pmw"),
    lambda: users.UsersFile(Path(folder, "users.json")).revoke("ann"),
):
    try:
        refused()
    except pmw.StoreError as error:
        print(error)
main(["status", folder + "/study.pmw"])
"""


def test_where_files_have_no_locks_models_and_plans_work_and_sessions_are_refused(
    study: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.toml").write_text(format_schema(PEOPLE.domain))
    with pmw.resume_session(study, PEOPLE.frame) as session:
        session.export(tmp_path / "s.model")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path), str(tmp_path / "s.model")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    refusal = (
        "a session in a file needs the file locks of POSIX, which this system lacks; open it on Linux, "
        "macOS or WSL"
    )
    assert found.stdout.splitlines() == ["True", "True", refusal, refusal, refusal], found.stderr
    assert found.stderr == f"Error: {refusal}\n"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
