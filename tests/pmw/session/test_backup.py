"""Backups: consistent copies of a running session that answer, export, and can never spend."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

import pmw
from pmw.cli.main import main
from pmw.session.maintenance import is_closed, read_ledger, read_session
from pmw.session.store.connection import own_error
from pmw.session.store.store import SessionStore
from tests.pmw.session.stored import bytes_of, cut_off, ended, secrets_of, waiting_of
from tests.waiting import WAIT
from tests.worlds import PEOPLE

WRONG = "age >= 40 AND NOT member = TRUE"
OTHER = "age < 28 AND member = TRUE"


def test_a_running_session_is_copied_and_its_copy_answers_and_never_spends(
    study: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.pmw"
    with pmw.resume_session(study, PEOPLE.frame) as session:
        answer = session.ask(WRONG)
        assert answer.source is pmw.Source.MEASURED
        spent = session.state.ledger.spent
        status = pmw.backup_session(study, copy)
        session.ask(OTHER)  # the original goes on, and spends
        assert session.state.ledger.spent > spent
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert (status.closed, status.queries_answered) == (True, 2)
    with pmw.resume_session(copy) as restored:
        assert restored.ask(WRONG).count == answer.count
        for question in (OTHER, "age > 50 AND member = FALSE", "region = 'east' AND age < 30"):
            assert restored.ask(question).source in (pmw.Source.EXHAUSTED, pmw.Source.SYNTHETIC)
        assert restored.state.ledger.spent == spent
        assert restored.verify().holds
        restored.export(tmp_path / "rows.csv")
    assert read_ledger(copy).spent == spent < read_ledger(study).spent
    assert not is_closed(study)


def test_a_batch_that_waits_is_charged_in_the_copy_and_its_bytes_stay_behind(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, earlier = tmp_path / "copy.pmw", tmp_path / "earlier.pmw"
    with pmw.resume_session(study, PEOPLE.frame) as session:
        with cut_off():
            session.ask(WRONG)
        waiting = waiting_of(study)
        pmw.backup_session(study, copy)
        with monkeypatch.context() as patch:  # as begun once the waiting one was finished, after the copying
            patch.setattr(SessionStore, "pending", lambda _: replace(waiting, id=waiting.id + 1))
            pmw.backup_session(study, earlier)
        session.ask(WRONG)
        assert session.state.ledger.spent <= read_ledger(copy).spent
    assert read_ledger(copy).lines[-1].event == "abandoned batch"
    assert read_ledger(earlier).lines[-1].event != "abandoned batch"
    assert waiting.seed not in copy.read_bytes()
    assert pmw.verify_session(copy).holds


def test_a_copy_does_not_tell_where_the_table_is(tmp_path: Path) -> None:
    table, path, copy = tmp_path / "people-of-ward-7.csv", tmp_path / "s.pmw", tmp_path / "copy.pmw"
    PEOPLE.frame.to_csv(table, index=False)
    pmw.open_session(table, PEOPLE.domain, epsilon=1, path=path).close()
    assert table.name.encode() in path.read_bytes()
    pmw.backup_session(path, copy)
    assert table.name.encode() not in copy.read_bytes()


def test_a_backup_is_put_back_by_copying_it(study: Path, tmp_path: Path) -> None:
    pmw.backup_session(study, tmp_path / "copy.pmw")
    study.unlink()
    pmw.backup_session(tmp_path / "copy.pmw", study)
    assert pmw.verify_session(study).holds
    assert read_session(study)[1].closed


def test_nothing_is_replaced_and_no_copy_is_put_beside_a_log_that_holds_changes(
    study: Path, tmp_path: Path
) -> None:
    copy, thesis, log = tmp_path / "copy.pmw", tmp_path / "thesis", tmp_path / "study.pmw-wal"
    pmw.backup_session(study, copy)
    thesis.write_text("mine")
    for name in (copy, thesis, study):
        before = name.read_bytes()
        with pytest.raises(pmw.SessionExistsError, match="exists; choose another name"):
            pmw.backup_session(study, name)
        assert name.read_bytes() == before
    study.unlink()
    log.write_bytes(b"charges")
    with pytest.raises(pmw.SessionExistsError, match="holds changes of another session"):
        pmw.backup_session(copy, study)
    assert log.read_bytes() == b"charges"
    assert not study.exists()


def test_a_session_that_is_opened_meanwhile_is_not_replaced(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, copy_public = tmp_path / "other.pmw", SessionStore.copy_public

    def slow(store: SessionStore, path: Path) -> None:
        copy_public(store, path)
        PEOPLE.opened(other, epsilon=1, delta=0).close()

    monkeypatch.setattr(SessionStore, "copy_public", slow)
    with pytest.raises(pmw.SessionExistsError, match="exists; choose another name"):
        pmw.backup_session(study, other)
    assert not is_closed(other)


def test_a_copy_that_cannot_be_made_is_told_and_leaves_nothing(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: SessionStore, *_: object) -> None:
        error = sqlite3.OperationalError("the driver's own words")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise own_error(error, "the file")

    before, copy = sorted(tmp_path.iterdir()), tmp_path / "copy.pmw"
    with pytest.raises(pmw.StoreError, match=r"absent/copy\.pmw: the copy cannot be written: No such file"):
        pmw.backup_session(study, tmp_path / "absent" / "copy.pmw")
    for absent in ("absent.pmw", "absent/study.pmw"):
        with pytest.raises(pmw.SessionError, match="expected a session file, found none"):
            pmw.backup_session(tmp_path / absent, copy)
    monkeypatch.setattr(SessionStore, "take_over", full)
    with pytest.raises(pmw.StoreError) as caught:
        pmw.backup_session(study, copy)
    assert str(caught.value) == f"{copy}: the copy cannot be written: No space left on device"
    assert sorted(tmp_path.iterdir()) == before


def test_wherever_the_room_ends_the_reason_is_that_of_the_copy(study: Path, tmp_path: Path) -> None:
    copy, told = tmp_path / "copies" / "copy.pmw", get_context("fork").Queue()
    copy.parent.mkdir()
    with closing(sqlite3.connect(study, isolation_level=None)) as connection:  # so that it takes many writes
        connection.execute("INSERT INTO snapshots VALUES (99, zeroblob(100000), x'00')")

    def on_small_disks() -> None:
        """Copy where files may be a little larger each time, until there is room enough."""
        reasons, (_, most) = list[str](), resource.getrlimit(resource.RLIMIT_FSIZE)
        for size in range(8192, 2**20, 8192):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
            try:
                pmw.backup_session(study, copy)
                break
            except pmw.PMWError as error:
                reasons.append(str(error).removeprefix(f"{copy}: the copy cannot be written: "))
        told.put(reasons)

    assert ended(on_small_disks) == 0
    reasons = told.get(timeout=WAIT)
    assert len(reasons) > 8
    assert set(reasons) == {"Input/output error", "its disk is full, or fails"}
    assert list(copy.parent.iterdir()) == [copy]
    assert is_closed(copy)


# --- a copy that was cut off --------------------------------------------------------------------------------
STARTS = {
    "ask": ("ask", "{}", "sex = 'Male'"),
    "status": ("status", "{}"),
    "ledger": ("ledger", "{}"),
    "verify": ("verify", "{}"),
    "export": ("export", "{}", "--output", "rows.csv"),
    "report": ("report", "{}", "-o", "report.html"),
    "backup": ("backup", "{}", "--output", "another.pmw"),
    "close": ("close", "{}", "--yes"),
}


def kill_copying(study: Path, target: Path, at: int) -> list[str]:
    """Kill a copying at one of the statements of its databases, and return the files that it left."""
    numbers, connect = itertools.count(1), sqlite3.connect

    def count(_: str) -> None:
        if next(numbers) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(*given: Any, **named: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(*given, **named)
        made.set_trace_callback(count)
        return made

    def copy() -> None:
        with mock.patch("sqlite3.connect", watched):
            pmw.backup_session(study, target)

    assert ended(copy) == -signal.SIGKILL
    return sorted(file.name for file in target.parent.iterdir())


def test_whatever_is_done_next_with_a_session_removes_what_a_killed_copying_left(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "elsewhere" / "copy.pmw"
    target.parent.mkdir()
    other = target.with_name("thesis")
    other.write_text("mine")
    for at in (60, 120):
        assert {".copy.pmw.part", "thesis"} < set(kill_copying(study, target, at))
    assert (tmp_path / "study.pmw-copies").stat().st_mode & 0o777 == 0o600
    left = {
        file: file.read_bytes() for file in (*tmp_path.iterdir(), *target.parent.iterdir()) if file.is_file()
    }
    for start, words in STARTS.items():
        for file, content in left.items():
            file.write_bytes(content)
        result = CliRunner().invoke(main, [one.format("study.pmw") for one in words])
        assert result.exit_code == 0, result.output
        assert list(target.parent.iterdir()) == [other], start
        assert not (tmp_path / "study.pmw-copies").exists(), start


def test_a_copy_that_is_being_made_is_left_alone_and_made_by_one_process(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, again, copy_public = tmp_path / "copy.pmw", tmp_path / "again.pmw", SessionStore.copy_public
    made: list[Path] = []

    def slow(store: SessionStore, path: Path) -> None:
        copy_public(store, path)
        if not made:
            made.append(path)
            with pytest.raises(pmw.SessionLockedError):
                pmw.backup_session(study, copy)
            pmw.backup_session(study, again)
            read_session(study)
            assert path.exists()

    monkeypatch.setattr(SessionStore, "copy_public", slow)
    pmw.backup_session(study, copy)
    assert made
    for file in (copy, again):
        assert pmw.verify_session(file).holds
    assert not list(tmp_path.glob(".*"))
    assert not (tmp_path / "study.pmw-copies").exists()


def test_a_note_that_names_no_copy_removes_nothing(study: Path, tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("thesis", "thesis.part", ".part", ".thesis.parts")]
    for file in kept:
        file.write_text("mine")
    note = tmp_path / "study.pmw-copies"
    names = [*map(str, kept), ".thesis.part", "", "/", str(tmp_path / "absent" / ".copy.pmw.part"), 5, None]
    note.write_text("\n".join([*map(json.dumps, names), '"/torn', "{}"]))
    read_session(study)
    assert not note.exists()
    assert all(file.read_text() == "mine" for file in kept)
    note.symlink_to(kept[0])  # a link to another's file is removed, and not written through
    pmw.backup_session(study, tmp_path / "copy.pmw")
    assert not note.is_symlink()
    assert kept[0].read_text() == "mine"


# --- what lies on the disk while a copy is made -----------------------------------------------------------


@pytest.fixture
def secrets(study: Path) -> Iterator[dict[str, bytes]]:
    """Leave a session with an open round and a batch that waits; return its secrets, as they lie in files."""
    with pmw.resume_session(study, PEOPLE.frame) as session:
        session.ask("sex = 'Male' AND region = 'north'")
        assert session.state.round_open
        with cut_off():
            session.ask(OTHER)
        found = {**secrets_of(study), "seed": waiting_of(study).seed}
        assert set(found) == {"fingerprint", "fingerprint_key", "threshold 0", "seed"}
        on_disk = bytes_of(study)
        assert [name for name, secret in found.items() if secret not in on_disk] == []
        yield found


def found_in(content: bytes, secrets: dict[str, bytes]) -> list[str]:
    return [name for name, secret in secrets.items() if secret in content]


def test_at_no_step_of_a_backup_does_a_secret_lie_in_the_file_that_is_made(
    study: Path, secrets: dict[str, bytes], tmp_path: Path
) -> None:
    seen: dict[str, tuple[int, int]] = {}
    leaks: list[tuple[str, str, int, list[str]]] = []

    def look(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if "/pmw/" not in code.co_filename:
            return None
        for file in tmp_path.glob(".copy.pmw.part*"):
            status = file.stat()
            state = status.st_size, status.st_mtime_ns
            if seen.get(file.name) != state:
                seen[file.name] = state
                leak = found_in(file.read_bytes(), secrets)
                leaks.extend([(file.name, code.co_name, frame.f_lineno, leak)] if leak else [])
        return look

    traced = sys.gettrace()
    sys.settrace(look)  # before every line of ours
    try:
        status = pmw.backup_session(study, tmp_path / "copy.pmw")
    finally:
        sys.settrace(traced)
    assert status.closed
    assert {".copy.pmw.part", ".copy.pmw.part-wal"} <= set(seen)
    assert leaks == []
    assert found_in((tmp_path / "copy.pmw").read_bytes(), secrets) == []
    assert [file.name for file in tmp_path.glob("*copy.pmw*")] == ["copy.pmw"]
