"""Compaction: a session in less room, of which nothing was forgotten."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import pmw
from pmw.books import read_ledger, read_session
from pmw.cli import main
from pmw.compaction import Compaction
from pmw.locking import SessionLock
from pmw.store import SessionStore
from pmw.verification import anchor
from queries import Domain, QueryError, random_conjunctions

OPTIONS = pmw.Options(test=pmw.TestKind.QUERY, threshold=5.0, update_limit=8)


@pytest.fixture
def asked(frame: pd.DataFrame, domain: Domain, tmp_path: Path) -> Path:
    path = tmp_path / "s.pmw"
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=OPTIONS) as session:
        for number, query in enumerate(random_conjunctions(domain, 600, seed=5)):
            session.ask(query, request_id=f"r{number}" if number % 2 else None)
    return path


def transcript(path: Path) -> list[object]:
    with closing(SessionStore.open(path)) as store:
        return list(store.answers())


def test_a_compacted_session_is_smaller_and_goes_on_as_it_was(
    asked: Path, frame: pd.DataFrame, domain: Domain
) -> None:
    before, books, history = transcript(asked), read_ledger(asked), read_session(asked)
    done = pmw.compact_session(asked)
    assert done.answers == len(before)
    assert 0 < done.archived < done.answers
    assert done.bytes_after == asked.stat().st_size < 0.7 * done.bytes_before
    assert transcript(asked) == before
    assert read_ledger(asked) == books
    assert read_session(asked)[1] == history[1]
    assert pmw.verify_session(asked).holds
    queries = list(random_conjunctions(domain, 600, seed=5))
    with pmw.resume_session(asked, frame) as session:
        stored = {one.query: one.count for one in before}  # type: ignore[attr-defined]
        for number, query in enumerate(queries):
            assert session.ask(query).count == stored[query.to_json()]
            if number % 2:
                assert session.ask(query, request_id=f"r{number}").count == stored[query.to_json()]
        assert session.ledger() == books
        with pytest.raises(QueryError, match="used for another question"):
            session.ask(queries[2], request_id="r1")
    again = pmw.compact_session(asked)
    assert again.archived >= done.archived
    assert transcript(asked) == before


def test_all_that_may_be_packed_is_however_little_is_packed_at_once(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = transcript(asked)
    monkeypatch.setattr("pmw.store.session_store._AT_ONCE", 50)
    plain = sum(one.source != "measured" for one in before[:-1])  # type: ignore[attr-defined]
    assert pmw.compact_session(asked).archived == plain > 50
    assert transcript(asked) == before
    assert pmw.verify_session(asked).holds


def test_an_anchor_of_before_holds_afterwards(asked: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.anchor"
    assert pmw.verify_session(asked, anchor=kept).holds
    pmw.compact_session(asked)
    assert pmw.verify_session(asked, anchor=kept).holds
    with closing(SessionStore.open(asked)) as store:
        assert anchor.Anchor(kept).compare(store).endswith("unchanged")


def test_a_closed_session_and_a_copy_can_be_compacted(asked: Path, tmp_path: Path, domain: Domain) -> None:
    copy = tmp_path / "copy.pmw"
    before = transcript(asked)
    pmw.compact_session(asked)
    pmw.backup_session(asked, copy)
    assert transcript(copy) == before
    pmw.seal_session(asked)
    pmw.compact_session(asked)
    pmw.compact_session(copy)
    for path in (asked, copy):
        assert transcript(path) == before
        assert pmw.verify_session(path).holds


def test_a_batch_that_waits_is_left_as_it_is(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.pmw"

    def full(*_: object) -> None:
        raise pmw.StoreError("full")

    with (
        pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=OPTIONS) as session,
        monkeypatch.context() as patch,
    ):
        session.ask_all(["sex = 'Male'", "age >= 40", "age >= 30"])
        patch.setattr(SessionStore, "finish", full)
        with pytest.raises(pmw.StoreError):
            session.ask("age >= 40 AND sex = 'Male'")
    with closing(SessionStore.open(path)) as store:
        waiting = store.pending()
    assert waiting is not None
    assert pmw.compact_session(path).archived == 2
    with closing(SessionStore.open(path)) as store:
        assert store.pending() == waiting
    with pmw.resume_session(path, frame) as session:
        assert session.verify().holds


def test_the_command_waits_for_its_turn_and_tells_what_it_did(asked: Path) -> None:
    lock = SessionLock(asked)
    refused = CliRunner().invoke(main, ["compact", str(asked), "--wait", "0"])
    assert refused.exit_code == 5
    lock.release()
    done = CliRunner().invoke(main, ["compact", str(asked), "--json"])
    assert done.exit_code == 0, done.output
    form = json.loads(done.stdout)
    assert form["bytes_after"] < form["bytes_before"]
    told = CliRunner().invoke(main, ["compact", str(asked)])
    assert (
        f"{form['archived']:,} of {form['answers']:,} stored answers lie in compressed blocks" in told.stdout
    )


def test_the_command_tells_of_a_reader_that_keeps_the_file_from_shrinking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Compaction(answers=600, archived=590, bytes_before=1_800_000, bytes_after=4_300_000)
    monkeypatch.setattr("pmw.compaction.compact_session", lambda *_, **__: kept)
    log = tmp_path / "s.pmw-wal"
    log.write_bytes(b"pages")
    told = CliRunner().invoke(main, ["compact", str(tmp_path / "s.pmw")])
    assert "cannot shrink yet: compact it again when they have ended" in told.stdout
    log.write_bytes(b"")
    told = CliRunner().invoke(main, ["compact", str(tmp_path / "s.pmw")])
    assert "cannot shrink" not in told.stdout
