"""The session file: durable rows, wiped secrets, own words for failures, closed by whoever opens it."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import pmw
from pmw.errors import SessionCorruptError, SessionError, SessionLockedError, StoreError
from pmw.session.maintenance import (
    backup_session,
    finalize_session,
    read_history,
    read_ledger,
    read_session,
    verify_session,
)
from pmw.session.store.columns import StoredAnswer
from pmw.session.store.locking import SessionLock
from pmw.session.store.rows import LedgerRow, MeasurementRow, Outcome
from pmw.session.store.store import SessionStore
from tests.pmw.session.stored import answer_to_request, columns_of, execute, newest_answer
from tests.worlds import PEOPLE

ANSWER = StoredAnswer("{}", 12.5, (10.0, 15.0), 0.95, "synthetic", 3, 0.25)
FULL = Outcome(
    ledger=[
        LedgerRow("total", "records", "1/100", "1/20000", "1/6000", '[["","1"]]'),
        LedgerRow("value", "q", None, "1/7", None, '[["","1"]]'),
    ],
    measurements=[MeasurementRow("total", "[]", b"\x01" * 8, "{}")],
    columns=columns_of([ANSWER], ["r1"]),
    asked=4,
    meta={"contract": '"c"'},
    secrets={"threshold": b"[1,2]"},
)


def create(path: Path | None) -> SessionStore:
    return SessionStore.create(path, b"s" * 32, Outcome(meta={"contract": '"a"'}))


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    with closing(create(None if request.param == "memory" else tmp_path / "s.pmw")) as store:
        yield store


def test_an_outcome_is_read_back_as_it_was_written_and_neither_it_nor_a_batch_shows_a_secret(
    store: SessionStore,
) -> None:
    for shown in map(repr, (store.pending(), FULL)):
        assert not any(secret in shown for secret in ("sss", "[1,2]", "threshold"))
    store.finish(1, FULL)
    assert store.pending() is None
    assert store.chained().ledger == tuple(FULL.ledger)
    assert store.chained().measurements == tuple(FULL.measurements)
    assert answer_to_request(store, "r1") == ANSWER
    assert newest_answer(store, "{}") == ANSWER
    assert store.asked() == 4
    assert store.secret("threshold") == b"[1,2]"
    assert [store.meta("absent"), store.secret("absent"), answer_to_request(store, "r2")] == [None] * 3


def test_an_outcome_is_written_whole_or_not_at_all(store: SessionStore) -> None:
    store.finish(1, FULL)
    intent = store.begin("tests", "{}", b"t" * 32)
    twice = Outcome(
        ledger=FULL.ledger, columns=columns_of([ANSWER], ["r1"]), asked=1, secrets={"threshold": None}
    )
    with pytest.raises(StoreError, match="nothing was released"):
        store.finish(intent, twice)  # the request's mark is taken
    assert len(store.chained().ledger) == 2
    assert store.asked() == 4
    assert store.secret("threshold") == b"[1,2]"
    pending = store.pending()
    assert pending is not None
    assert pending.seed == b"t" * 32


@pytest.mark.parametrize("store", ["file"], indirect=True)
def test_a_snapshot_is_kept_and_checked(store: SessionStore, tmp_path: Path) -> None:
    assert store.snapshot() is None
    store.save_snapshot(3, np.array([1.5, -2.25]))
    store.save_snapshot(5, np.array([0.5]))
    found = store.snapshot()
    assert found is not None
    assert (found[0], found[1].tolist()) == (5, [0.5])
    execute(tmp_path / "s.pmw", "UPDATE snapshots SET version = 4")
    assert store.snapshot() is None


def test_a_session_takes_over_empty_files_for_its_owner_alone_and_none_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, names = tmp_path / "e.pmw", ["e.pmw", "e.pmw-wal", "e.pmw-shm", "e.pmw-lock", "e.pmw-companion"]
    for name in names:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
        with pytest.raises(StoreError, match=r"e\.pmw: the file belongs to another user; choose another"):
            create(path)
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (0o644, b"")
    lock = SessionLock(path)
    with closing(create(path)) as store:
        store.finish(1, FULL)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == dict.fromkeys(names, 0o600)
    lock.release()


@pytest.mark.parametrize("store", ["file"], indirect=True)
def test_the_file_is_made_durable_at_every_commit(store: SessionStore) -> None:
    names = ("journal_mode", "synchronous", "secure_delete")
    assert [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names] == ["wal", 2, 1]


def test_a_file_that_is_no_session_or_has_no_folder_is_told_so(tmp_path: Path) -> None:
    path, absent = tmp_path / "s.pmw", tmp_path / "absent" / "s.pmw"
    with pytest.raises(SessionError, match="expected a session file, found none"):
        SessionStore.open(path)
    path.write_bytes(b"not a database, by any means" * 100)
    with pytest.raises(SessionCorruptError, match="no session file, or it is damaged"):
        SessionStore.open(path)
    path.unlink()
    execute(path, "CREATE TABLE t (x)")
    with pytest.raises(SessionCorruptError, match="another kind of file"):
        SessionStore.open(path)
    path.unlink()
    create(path).close()
    for version in (18, 20):
        execute(path, f"PRAGMA user_version = {version}")
        told = f"a session of format {version}; this program reads format 19 alone"
        with pytest.raises(SessionCorruptError, match=told):
            SessionStore.open(path)
    with pytest.raises(StoreError, match="the session file cannot be made: No such file or directory"):
        create(absent)
    with pytest.raises(StoreError, match="the lock file cannot be made"):
        SessionLock(absent)


@pytest.mark.parametrize("store", ["file"], indirect=True)
def test_a_full_disk_is_told_in_our_words_and_loses_nothing(store: SessionStore) -> None:
    store.finish(1, FULL)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    big = Outcome(meta={"x": "y" * 1_000_000}, ledger=FULL.ledger)
    with pytest.raises(StoreError, match="cannot be read or written; nothing was released") as caught:
        store.finish(None, big)
    assert "database or disk" not in str(caught.value)
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert len(store.chained().ledger) == 2
    store.finish(None, big)
    assert len(store.chained().ledger) == 4


@pytest.mark.parametrize("store", ["file"], indirect=True)
def test_readers_do_not_wait_for_a_writer_and_see_one_state_of_the_file_throughout(
    store: SessionStore, tmp_path: Path
) -> None:
    store.finish(1, FULL)
    with closing(SessionStore.open(tmp_path / "s.pmw")) as reader:
        store._connection.execute("BEGIN IMMEDIATE")
        assert reader.chained().ledger == tuple(FULL.ledger)
        store._connection.execute("ROLLBACK")
        with reader.reading():
            assert len(reader.chained().ledger) == 2
            store.finish(None, Outcome(ledger=FULL.ledger))
            assert len(reader.chained().ledger) == 2
        assert len(reader.chained().ledger) == 4


def test_a_secret_that_is_wiped_without_a_charge_leaves_the_log_too(tmp_path: Path) -> None:
    path, old = tmp_path / "s.pmw", b"the threshold noise of a round"
    with closing(SessionStore.create(path, bytes(32), Outcome())) as store:
        store.finish(1, Outcome(secrets={"threshold": old}))
        store.finish(None, Outcome(asked=1))
        store.finish(None, Outcome(secrets={"threshold": None}))
        assert all(old not in file.read_bytes() for file in tmp_path.iterdir())


def test_no_trace_of_a_wiped_secret_is_left_after_scrubbing(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    store = create(path)
    secrets = {f"s{number}": os.urandom(32) for number in range(200)}  # enough for pages to split
    store.finish(1, Outcome(secrets=dict(secrets)))
    store.begin("tests", "{}", secrets["s7"])
    files = [path, tmp_path / "s.pmw-wal"]
    assert all(any(secret in file.read_bytes() for file in files) for secret in secrets.values())
    store.finalize(None, Outcome())
    store.scrub()
    assert (tmp_path / "s.pmw-wal").stat().st_size == 0
    assert not (tmp_path / "s.pmw-companion").exists()
    assert not any(secret in file.read_bytes() for secret in secrets.values() for file in files)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.close()
    with closing(SessionStore.open(path)) as reader:
        assert reader.meta("contract") == '"a"'


@pytest.mark.parametrize("store", ["file"], indirect=True)
def test_a_reader_that_holds_old_pages_is_told_of_and_scrubbing_can_be_repeated(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.session.store.store._PATIENCE", 10)
    with closing(SessionStore.open(tmp_path / "s.pmw")) as reader:
        store.finish(1, FULL)
        with reader.reading():
            assert len(reader.chained().ledger) == 2
            store.finalize(None, Outcome())
            with pytest.raises(StoreError, match="is closed, but its file could not be written again"):
                store.scrub()
        store.scrub()


class Broken(sqlite3.Connection):
    """A connection that fails, once something is committed, at every statement."""

    committed = False

    def execute(self, *values: Any) -> Any:
        if self.committed:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        done = super().execute(*values)
        type(self).committed = values[0] == "COMMIT" and Broken.armed
        return done

    armed = False


def test_what_fails_after_the_commit_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", Broken)
        patch.setattr(Broken, "committed", False)
        broken = create(tmp_path / "s.pmw")
        patch.setattr(Broken, "armed", True)
        with closing(broken):
            broken.finish(1, FULL)
            with pytest.raises(StoreError, match="cannot be read or written"):
                broken.pending()
    with closing(SessionStore.open(tmp_path / "s.pmw")) as store:
        assert store.pending() is None
        assert store.chained().ledger == tuple(FULL.ledger)


def test_a_batch_is_begun_only_where_none_waits_and_ends_once(store: SessionStore) -> None:
    waiting = store.pending()
    with pytest.raises(SessionLockedError):
        store.begin("tests", "{}", bytes(32))
    assert store.pending() == waiting
    store.finish(1, Outcome(asked=1))
    with pytest.raises(SessionLockedError):
        store.finish(1, Outcome(asked=1))
    assert store.asked() == 1


def test_an_outcome_that_goes_on_from_other_charges_is_refused(store: SessionStore) -> None:
    charge = LedgerRow("test", "a test", None, "1/8", None, '[["","1"]]')
    store.finish(1, Outcome(ledger=[charge], charged_before=0))
    with pytest.raises(SessionLockedError):
        store.finish(None, Outcome(ledger=[charge], charged_before=0))
    assert store.charge_count() == 1
    store.finish(None, Outcome(ledger=[charge], charged_before=1))
    assert store.charge_count() == 2


USES: tuple[Callable[[Path], object], ...] = (
    lambda study: pmw.resume_session(study, PEOPLE.frame).close(),
    lambda study: pmw.resume_session(study).close(),
    read_session,
    read_ledger,
    read_history,
    lambda study: verify_session(study, study.with_name("anchor")),
    lambda study: backup_session(study, study.with_name("copy.pmw")),
    finalize_session,
)


@pytest.mark.parametrize(
    "fault",
    ["", "UPDATE measurements SET units = x'00' WHERE sequence = 2", "PRAGMA application_id = 7"],
    ids=["no fault", "a damaged row", "another kind of database"],
)
def test_every_use_of_a_session_file_closes_it(study: Path, fault: str) -> None:
    """Else the fixture that looks at connections fails the test."""
    execute(study, fault)
    for use in USES:
        with suppress(*(pmw.PMWError,) if fault else ()):
            use(study)


@pytest.mark.parametrize("step", ["session.Engine", "session.Engine._load", "opening.Session"])
def test_a_session_that_cannot_be_made_of_its_file_closes_it_and_lets_go_of_it(
    study: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(f"pmw.session.{step}", fail)
        with pytest.raises(MemoryError):
            pmw.resume_session(study)
    pmw.resume_session(study).close()
