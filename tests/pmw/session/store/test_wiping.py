"""Wiping: of what drew noise nothing is left in a session's files, whenever a process that holds it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

import pmw
from pmw.session.store import companion
from pmw.session.store.rows import IntentRow, Outcome
from pmw.session.store.store import SessionStore
from queries import random_conjunctions
from tests.worlds import PEOPLE


class Notes:
    """Notes the seeds and thresholds that a store was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seeds: list[bytes] = []
        self.thresholds: list[bytes] = []
        put, finish = companion._put, SessionStore.finish

        def noting_put(descriptor: int, session: bytes, intent: IntentRow) -> None:
            self.seeds.append(intent.seed)
            put(descriptor, session, intent)

        def noting_finish(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
            threshold = outcome.secrets.get("threshold 0")
            if threshold is not None and threshold not in self.thresholds:
                self.thresholds.append(threshold)
            finish(store, intent, outcome)

        monkeypatch.setattr(companion, "_put", noting_put)
        monkeypatch.setattr(SessionStore, "finish", noting_finish)

    def left_in(self, path: Path, *, open_round: bool) -> list[bytes]:
        """Return what is left in a session's files of what was to be wiped."""
        past = self.thresholds[:-1] if open_round else self.thresholds
        return [secret for secret in (*self.seeds, *past) if is_left_in(path, secret)]


def content_of(path: Path) -> bytes:
    files = [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-companion")]
    return b"|".join(file.read_bytes() for file in files if file.exists())


def is_left_in(path: Path, secret: bytes) -> bool:
    return secret in content_of(path)


@pytest.mark.usefixtures("repeatable")
def test_a_live_session_leaves_no_trace_of_a_finished_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, path = Notes(monkeypatch), tmp_path / "s.pmw"
    with PEOPLE.opened(path, epsilon=1, test=pmw.TestKind.QUERY, threshold=0.5, update_limit=40) as session:
        assert len(notes.seeds) == 1
        left = notes.left_in(path, open_round=False)

        def look(_: Sequence[pmw.Answer]) -> None:
            # Before an answer is given, and whatever is done with the model afterwards: what lies in the
            # files is what a kill would leave there.
            held = bool(notes.thresholds) and is_left_in(path, notes.thresholds[-1])
            left.extend(notes.left_in(path, open_round=held))

        for query in random_conjunctions(PEOPLE.domain, 400, seed=5):
            session.ask_all([query], fresh=True, deliver=look)
            left += notes.left_in(path, open_round=session.state.round_open)
            assert left == []
            if len(notes.thresholds) > 3:
                break
        assert len(notes.thresholds) > 3
        assert len(notes.seeds) > 4
    assert notes.left_in(path, open_round=session.state.round_open) == []


def test_a_reader_makes_no_answer_fail_or_wait_and_the_next_commit_wipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, path = Notes(monkeypatch), tmp_path / "s.pmw"
    queries = random_conjunctions(PEOPLE.domain, 400, seed=5)
    with (
        PEOPLE.opened(path, epsilon=1, test=pmw.TestKind.QUERY, threshold=0.5, update_limit=40) as session,
        closing(SessionStore.open(path)) as reader,
    ):
        begun = time.monotonic()
        with reader.reading():
            charges = len(reader.chained().ledger)
            for query in queries:
                session.ask(query, fresh=True)
                if notes.thresholds and not session.state.round_open:  # a round was opened, and closed
                    break
            assert notes.left_in(path, open_round=False) == notes.thresholds  # the reader's pages are kept
            assert len(reader.chained().ledger) == charges
        assert time.monotonic() - begun < 5  # no lock is waited for: that would take longer
        session.ask("sex = 'Male'")  # needs no test, but it is a commit
        assert notes.left_in(path, open_round=False) == []
        session.ask("age >= 40 AND sex = 'Female'")


def test_what_a_killed_session_left_in_its_files_is_wiped_when_it_is_resumed(tmp_path: Path) -> None:
    path, seed, threshold = tmp_path / "s.pmw", os.urandom(32), os.urandom(32)
    opening = Outcome(secrets={"threshold": threshold})
    with closing(SessionStore.create(path, seed, opening)) as store:
        store._quiet_log = lambda: None  # type: ignore[method-assign]  # as killed before it was emptied
        store._companion.wipe = lambda *_: None  # type: ignore[method-assign]
        store.finish(1, Outcome(secrets={"threshold": None}))
        assert is_left_in(path, seed)
        assert is_left_in(path, threshold)
        with closing(SessionStore.open(path)) as other:
            other.take_over()
            assert not is_left_in(path, seed)
            assert not is_left_in(path, threshold)
