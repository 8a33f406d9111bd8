"""Backups: consistent copies of a running session that answer, export, and can never spend."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.books import is_closed, read_ledger, read_session, seal_session
from pmw.store import SessionStore
from queries import Domain

WRONG = "age >= 40 AND NOT member = TRUE"
OTHER = "age < 28 AND member = TRUE"


def test_a_running_session_is_copied_and_its_copy_answers_and_never_spends(
    study: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.pmw"
    with pmw.resume_session(study, frame) as session:
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


def test_no_secret_of_a_session_lies_in_its_copy(study: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    with pmw.resume_session(study, frame) as session, closing(SessionStore.open(study)) as store:
        session.ask("sex = 'Male' AND region = 'north'")
        secrets = [store.secret(name) for name in sorted(store.secret_names())]
        pmw.backup_session(study, tmp_path / "copy.pmw")
    assert len(secrets) == 3  # a round is open
    raw = b"".join(path.read_bytes() for path in tmp_path.glob("*copy.pmw*"))
    assert not any(secret in raw for secret in secrets if secret is not None)
    assert sorted(path.name for path in tmp_path.glob("*copy.pmw*")) == ["copy.pmw"]


def test_a_batch_that_waits_is_charged_in_the_copy_and_its_bytes_stay_behind(
    study: Path, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise pmw.StoreError("full")

    with pmw.resume_session(study, frame) as session:
        with monkeypatch.context() as patch:
            patch.setattr(SessionStore, "finish", full)
            with pytest.raises(pmw.StoreError):
                session.ask(WRONG)
        with closing(SessionStore.open(study)) as store:
            pending = store.pending()
        assert pending is not None
        assert pending.seed is not None
        pmw.backup_session(study, tmp_path / "copy.pmw")
        session.ask(WRONG)
        assert session.state.ledger.spent <= read_ledger(tmp_path / "copy.pmw").spent
    assert read_ledger(tmp_path / "copy.pmw").lines[-1].event == "abandoned batch"
    assert pending.seed not in (tmp_path / "copy.pmw").read_bytes()
    assert pmw.verify_session(tmp_path / "copy.pmw").holds


def test_a_copy_does_not_tell_where_the_table_is(frame: pd.DataFrame, domain: Domain, tmp_path: Path) -> None:
    table, path, copy = tmp_path / "people-of-ward-7.csv", tmp_path / "s.pmw", tmp_path / "copy.pmw"
    frame.to_csv(table, index=False)
    pmw.open_session(table, domain, epsilon=1, path=path).close()
    assert table.name.encode() in path.read_bytes()
    pmw.backup_session(path, copy)
    assert table.name.encode() not in copy.read_bytes()


def test_a_backup_is_put_back_by_copying_it(study: Path, tmp_path: Path) -> None:
    pmw.backup_session(study, tmp_path / "copy.pmw")
    study.unlink()
    pmw.backup_session(tmp_path / "copy.pmw", study)
    assert pmw.verify_session(study).holds
    assert read_session(study)[1].closed


def test_nothing_is_replaced_unless_asked_and_an_open_session_never(
    study: Path, frame: pd.DataFrame, domain: Domain, tmp_path: Path
) -> None:
    copy, other = tmp_path / "copy.pmw", tmp_path / "other.pmw"
    pmw.backup_session(study, copy)
    with pytest.raises(pmw.SessionExistsError, match="exists; choose another name"):
        pmw.backup_session(study, copy)
    pmw.backup_session(study, copy, force=True)
    pmw.open_session(frame, domain, epsilon=1, path=other).close()
    before = other.read_bytes()
    with pytest.raises(pmw.SessionExistsError, match="holds a session that is not closed"):
        pmw.backup_session(study, other, force=True)
    pmw.seal_session(other)
    before = other.read_bytes()
    with pytest.raises(pmw.SessionExistsError, match="holds another session, or a newer state"):
        pmw.backup_session(study, other, force=True)
    (tmp_path / "thesis").write_text("mine")
    with pytest.raises(pmw.SessionExistsError, match="not a backup of this session"):
        pmw.backup_session(study, tmp_path / "thesis", force=True)
    assert (other.read_bytes(), (tmp_path / "thesis").read_text()) == (before, "mine")


def test_a_backup_with_more_answers_is_not_replaced_by_an_older_one(
    study: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    old, new = tmp_path / "old.pmw", tmp_path / "new.pmw"
    pmw.backup_session(study, old)
    with pmw.resume_session(study, frame) as session:
        session.ask("age < 26")  # covered by what opening bought: an answer, and no measurement
    pmw.backup_session(study, new)
    with pytest.raises(pmw.SessionExistsError, match="a newer state of"):
        pmw.backup_session(old, new, force=True)
    pmw.backup_session(new, old, force=True)


def test_a_copy_is_never_put_beside_a_log_that_holds_changes(study: Path, tmp_path: Path) -> None:
    copy, log = tmp_path / "copy.pmw", tmp_path / "study.pmw-wal"
    pmw.backup_session(study, copy)
    study.unlink()
    log.write_bytes(b"charges")
    for force in (False, True):
        with pytest.raises(pmw.SessionExistsError, match="holds changes of another session"):
            pmw.backup_session(copy, study, force=force)
    assert log.read_bytes() == b"charges"
    assert not study.exists()


def test_a_session_that_is_sealed_while_somebody_reads_it_is_not_replaced(
    study: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.pmw"
    pmw.backup_session(study, copy)
    with closing(SessionStore.open(study)) as reader, reader.reading():
        assert reader.charge_count() > 0
        with pytest.raises(pmw.StoreError, match="old copies"):
            seal_session(study, frame)
        with pytest.raises(pmw.SessionExistsError, match="somebody is just reading"):
            pmw.backup_session(copy, study, force=True)
    assert is_closed(study)


def test_a_session_that_is_opened_meanwhile_is_not_replaced(
    study: Path, frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, copy_public = tmp_path / "other.pmw", SessionStore.copy_public

    def slow(store: SessionStore, path: Path, named: Path) -> None:
        copy_public(store, path, named)
        pmw.open_session(frame, domain, epsilon=1, path=other).close()

    monkeypatch.setattr(SessionStore, "copy_public", slow)
    with pytest.raises(pmw.SessionExistsError, match="holds a session that is not closed"):
        pmw.backup_session(study, other, force=True)
    assert not is_closed(other)


def test_a_newer_backup_is_not_replaced_by_an_older_one(
    study: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    old, new = tmp_path / "old.pmw", tmp_path / "new.pmw"
    pmw.backup_session(study, old)
    with pmw.resume_session(study, frame) as session:
        session.ask(WRONG)
    pmw.backup_session(study, new)
    pmw.backup_session(study, new, force=True)
    before = new.read_bytes()
    with pytest.raises(pmw.SessionExistsError, match=r"a newer state of .*old\.pmw"):
        pmw.backup_session(old, new, force=True)
    assert new.read_bytes() == before
    pmw.backup_session(new, old, force=True)
    assert pmw.verify_session(old).holds


def test_a_copy_that_cannot_be_written_leaves_nothing(study: Path, tmp_path: Path) -> None:
    with pytest.raises(pmw.StoreError, match=r"absent/copy\.pmw: the copy cannot be written: No such file"):
        pmw.backup_session(study, tmp_path / "absent" / "copy.pmw")
