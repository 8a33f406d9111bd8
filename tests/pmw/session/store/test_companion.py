"""The companion: a batch is durable in it before a draw, a lost log is missed, and seeds are wiped."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
import pmw.session.engine
from pmw.session.maintenance import is_closed, read_session
from pmw.session.store import companion
from pmw.session.store.companion import Companion
from pmw.session.store.connection import transaction
from pmw.session.store.rows import IntentRow, LedgerRow, Outcome
from pmw.session.store.store import SessionStore
from queries import random_conjunctions
from tests.pmw.session.stored import bytes_of, cut_off, tamper, waiting_of
from tests.worlds import PEOPLE, WHOLE_YEARS, known

SEED, SESSION = bytes(range(32)), b"0123456789abcdef"
FIRST = IntentRow(1, "opening", "{}", SEED, 0)
SECOND = IntentRow(2, "tests", '{"queries":["größe"]}', bytes(reversed(SEED)), 3)
ROW = LedgerRow("marginal", "age", None, "1/100", "1/50", '[["","1"]]')
OPTIONS = pmw.Options(test=pmw.TestKind.QUERY, threshold=1000.0)
QUESTION = "age >= 40 AND sex = 'Male'"


def create(path: Path | None) -> SessionStore:
    return SessionStore.create(path, SEED, Outcome())


def companion_of(path: Path) -> Path:
    return path.with_name(path.name + "-companion")


@pytest.fixture
def made(tmp_path: Path) -> Companion:
    companion = Companion(tmp_path / "s.pmw", "s.pmw")
    companion.create(SESSION, FIRST)
    return companion


# --- the file -----------------------------------------------------------------------------------------------


def test_the_newest_batch_is_read_back_until_its_seed_is_overwritten(made: Companion, tmp_path: Path) -> None:
    file = companion_of(tmp_path / "s.pmw")
    assert made.read(SESSION, 0) == FIRST
    made.wipe(1)
    made.begin(SESSION, SECOND)
    assert Companion(tmp_path / "s.pmw", "s.pmw").read(SESSION, 0) == SECOND
    assert FIRST.seed not in file.read_bytes()
    made.wipe(1)
    assert made.read(SESSION, 0) == SECOND
    made.wipe(2)
    assert made.read(SESSION, 0) == IntentRow(2, "", "", b"", 3)
    assert SECOND.seed not in file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_lasts_under_its_name_and_a_batch_in_it_before_that_counts_as_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, file, synced = Companion(tmp_path / "s.pmw", "s.pmw"), companion_of(tmp_path / "s.pmw"), list[Any]()

    def noting(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(file.exists() if folder else os.pread(descriptor, 1 << 20, 0))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", noting)
        made.create(SESSION, FIRST)
        assert synced == [file.read_bytes(), True]
        made.begin(SESSION, SECOND)
        assert synced[2:] == [file.read_bytes()]
        assert SECOND.seed in synced[2]
        made.wipe(2)
    assert len(synced) == 3  # overwriting waits for no disk


@given(data=st.data())
def test_a_beginning_that_is_cut_short_leaves_the_batch_before(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("torn") / "s.pmw"
    made, file = Companion(path, "s.pmw"), companion_of(path)
    made.create(SESSION, FIRST)
    made.wipe(1)
    before = file.read_bytes()
    writes: list[tuple[bytes, int]] = []

    def note(_: int, content: bytes, place: int) -> int:
        writes.append((bytes(content), place))
        return len(content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", note)
        made.begin(SESSION, SECOND)
    whole = True
    with file.open("r+b") as stream:
        stream.write(before)
        for content, place in writes:  # each is kept, or lost, or cut
            kept = data.draw(st.sampled_from([0, len(content)]) | st.integers(0, len(content)))
            whole &= kept == len(content)
            stream.seek(place)
            stream.write(content[:kept])
    finished = replace(FIRST, kind="", proposal="", seed=b"")
    assert made.read(SESSION, 0) == (SECOND if whole else finished)


@given(kept=st.integers(0, 47))
def test_a_seed_that_is_overwritten_in_part_is_read_no_more(
    tmp_path_factory: pytest.TempPathFactory, kept: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "s.pmw"
    made = Companion(path, "s.pmw")
    made.create(SESSION, FIRST)
    pwrite = os.pwrite
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", lambda file, content, place: pwrite(file, content[: kept + 1], place))
        made.wipe(1)  # goes on until all of it is written
        assert made.read(SESSION, 0).seed == b""
        made.begin(SESSION, SECOND)
        assert made.read(SESSION, 0) == SECOND

        def cut(file: int, content: bytes, place: int) -> int:
            pwrite(file, content[: kept + 1], place)
            raise OSError(errno.EIO, "broken disk")

        patch.setattr(os, "pwrite", cut)
        made.wipe(2)
    assert made.read(SESSION, 0) == IntentRow(2, "", "", b"", 3)


def test_a_file_that_is_of_no_use_is_told_so(made: Companion, tmp_path: Path) -> None:
    file = companion_of(tmp_path / "s.pmw")

    def refused(fault: str) -> None:
        with pytest.raises(pmw.SessionCorruptError, match=fault):
            made.read(SESSION, 0)
        made.wipe(1)

    for content in (b"", bytes(9000), b"my thesis" * 1000):
        file.write_bytes(content)
        refused("is damaged")
    file.unlink()
    for fault in (
        "is not beside it: the session was moved or copied alone",
        "cannot be read: Is a directory",
    ):
        refused(fault)
        with pytest.raises(pmw.StoreError, match="nothing was drawn"):
            made.begin(SESSION, SECOND)
        file.mkdir(exist_ok=True)


def test_removing_it_overwrites_it_durably_but_never_the_file_that_a_link_leads_to(
    made: Companion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = companion_of(tmp_path / "s.pmw"), tmp_path / "other"
    file.with_name(f"{file.name}.part").write_bytes(b"as a kill left it")
    synced: list[bytes] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: synced.append(file.read_bytes()))
        made.remove()
    assert [SEED in content for content in synced] == [False]
    assert list(tmp_path.iterdir()) == []
    made.remove()
    other.write_bytes(b"of somebody else")
    file.symlink_to(other)
    made.wipe(1)
    with pytest.raises(pmw.StoreError, match="nothing was drawn"):
        made.begin(SESSION, SECOND)
    made.remove()
    assert not file.is_symlink()
    assert other.read_bytes() == b"of somebody else"


# --- with its session ---------------------------------------------------------------------------------------


def test_a_batch_that_cannot_be_written_down_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.pmw"

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(pmw.StoreError, match="the companion file cannot be made"):
            create(path)
    with closing(create(path)) as store:
        store.finish(1, Outcome(ledger=[ROW]))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(pmw.StoreError, match="nothing was drawn"):
                store.begin("tests", "{}", SEED)
        assert store.pending() is None
        assert store.begin("tests", "{}", SEED) == 2
        assert store.pending() == IntentRow(2, "tests", "{}", SEED, 1)


def test_a_batch_that_was_read_is_synchronised_again_before_it_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, events = tmp_path / "s.pmw", list[str]()
    interrupted(path)
    put, draw = companion._put, vars(pmw.session.engine)["draw_tests"]

    def recorded(*given: Any) -> None:
        put(*given)
        events.append("recorded")

    def drawn(*given: object) -> object:
        events.append("drawn")
        return draw(*given)

    monkeypatch.setattr(companion, "_put", recorded)
    monkeypatch.setattr("pmw.session.engine.draw_tests", drawn)
    pmw.resume_session(path, PEOPLE.frame).close()
    assert events == ["recorded", "drawn"]


def test_the_seed_is_there_until_the_outcome_is_durable_and_never_in_the_session_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def failing(*session: Any) -> Iterator[None]:
        with transaction(*session):
            yield
            raise pmw.StoreError("the commit failed")

    path = tmp_path / "s.pmw"
    with closing(create(path)) as store:
        with monkeypatch.context() as patch:
            patch.setattr("pmw.session.store.store.transaction", failing)
            with pytest.raises(pmw.StoreError, match="the commit failed"):
                store.finish(1, Outcome())
        assert store.pending() == FIRST
        held = [file.name for file in tmp_path.iterdir() if SEED in file.read_bytes()]
        assert held == ["s.pmw-companion"]
        store.finish(1, Outcome())
        assert [file.name for file in tmp_path.iterdir() if SEED in file.read_bytes()] == []


def test_who_takes_over_overwrites_the_seeds_of_finished_batches_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    with closing(create(path)) as store:
        store._companion.wipe = lambda *_: None  # type: ignore[method-assign]  # as undone by a power cut
        store.finish(1, Outcome())
        assert store.begin("tests", "{}", SECOND.seed) == 2
        with closing(SessionStore.open(path)) as other:
            other.take_over()
            assert known(other.pending()).seed == SECOND.seed
            assert SEED not in companion_of(path).read_bytes()


def test_a_session_in_memory_keeps_its_batch_and_one_in_a_file_replaces_what_a_killed_opening_left(
    tmp_path: Path,
) -> None:
    with closing(create(None)) as store:
        assert store.pending() == FIRST
        store.finish(1, Outcome())
        assert store._companion.read(b"", 0) == replace(FIRST, seed=b"")
    assert list(tmp_path.iterdir()) == []
    Companion(tmp_path / "s.pmw", "s.pmw").create(SESSION, SECOND)
    with closing(create(tmp_path / "s.pmw")) as store:
        assert store.pending() == FIRST


def interrupted(path: Path) -> None:
    """Leave a session whose batch was recorded and has no outcome."""
    with PEOPLE.opened(path, epsilon=1, options=OPTIONS) as session, cut_off():
        session.ask(QUESTION)


def test_whatever_a_power_cut_leaves_of_a_beginning_the_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.pmw"
    with WHOLE_YEARS.opened(path, epsilon=1, delta=0, options=OPTIONS) as session:
        session.ask("age >= 40 AND region = 'north'")
        with monkeypatch.context() as patch:
            patch.setattr(Companion, "wipe", lambda *_: None)  # which never reached the disk
            session.ask("sex = 'Male' AND region = 'north'")
            before = companion_of(path).read_bytes()
        with cut_off():
            session.ask(QUESTION)
        after = companion_of(path).read_bytes()
        number = session._engine._store.last_intent() + 1
        files = {end: path.with_name(path.name + end).read_bytes() for end in ("", "-wal")}
    size = max(len(before), len(after))
    before, after, middle = before.ljust(size, b"\0"), after.ljust(size, b"\0"), (8192 + size) // 2
    requests = {"before": before[8192:], "half": before[8192:middle] + after[middle:], "after": after[8192:]}
    assert len(set(requests.values())) == 3
    place = 4096 * (number % 2)  # of its slot
    for (moment, written), slot, wiped in itertools.product(requests.items(), (True, False), (True, False)):
        kept = tmp_path / f"{moment} {slot} {wiped}.pmw"
        for end, content in files.items():
            kept.with_name(kept.name + end).write_bytes(content)
        head = bytearray(before[:8192])
        if slot:
            head[place : place + 4096] = after[place : place + 4096]
        companion_of(kept).write_bytes(bytes(head) + written)
        if wiped:
            Companion(kept, kept.name).wipe(number - 1)
        begun = slot and moment == "after"
        with pmw.resume_session(kept, PEOPLE.frame) as session:  # whose name the companion does not know
            assert session._engine._store.last_intent() == number - 1 + begun, kept.name
            session.ask(QUESTION)
            assert session.verify().holds, kept.name


@pytest.mark.parametrize("damage", ["gone", "empty", "random", "another session's", "an older copy"])
def test_a_companion_that_is_not_the_sessions_own_lets_it_spend_nothing_and_be_read_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    path = tmp_path / "s.pmw"
    with PEOPLE.opened(path, epsilon=1, options=OPTIONS) as session:
        older = companion_of(path).read_bytes()
        session.ask(QUESTION)
        answered = session.status().queries_answered
    interrupted(tmp_path / "t.pmw")
    contents = {
        "empty": b"",
        "random": os.urandom(9000),
        "another session's": companion_of(tmp_path / "t.pmw").read_bytes(),
        "an older copy": older,
    }
    whole = companion_of(path).read_bytes()
    companion_of(path).unlink()
    if damage in contents:
        companion_of(path).write_bytes(contents[damage])
    before = path.read_bytes()
    for use in (lambda: pmw.resume_session(path, PEOPLE.frame), lambda: pmw.finalize_session(path)):
        with pytest.raises(pmw.SessionCorruptError, match="companion file"):
            use()
    assert path.read_bytes() == before
    assert read_session(path)[1].queries_answered == answered
    assert not is_closed(path)
    shutil.copy(path, tmp_path / "u.pmw")
    if damage in contents:
        companion_of(tmp_path / "u.pmw").write_bytes(contents[damage])
    pmw.finalize_session(tmp_path / "u.pmw", abandon=True)
    assert is_closed(tmp_path / "u.pmw")
    assert not companion_of(tmp_path / "u.pmw").exists()
    pmw.resume_session(tmp_path / "u.pmw").close()  # a closed one needs none
    companion_of(path).write_bytes(whole)
    with pmw.resume_session(path, PEOPLE.frame) as session:
        session.ask("age >= 30 AND sex = 'Female'")
        assert session.verify().holds


def test_a_batch_that_waits_is_refused_without_its_seed(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    interrupted(path)
    raw, seed = companion_of(path).read_bytes(), waiting_of(path).seed
    companion_of(path).write_bytes(raw.replace(seed, bytes(32)))
    with pytest.raises(pmw.SessionCorruptError, match=r"its log .* was lost or damaged"):
        pmw.resume_session(path, PEOPLE.frame)


def test_a_reader_of_older_pages_takes_no_finished_batch_for_one_that_waits(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    with closing(create(path)) as store, closing(SessionStore.open(path)) as reader:
        store.finish(1, Outcome())
        with reader.reading():
            assert reader.last_intent() == 1
            assert store.begin("tests", "{}", SEED) == 2
            assert known(reader.pending()).id == 2
            store.finish(2, Outcome())
            assert (reader.last_intent(), reader.pending()) == (1, None)


def test_a_log_that_is_lost_with_charges_is_missed_and_so_are_charges_alone(tmp_path: Path) -> None:
    path, lost = tmp_path / "s.pmw", tmp_path / "lost.pmw"
    with closing(create(path)) as store:
        store.finish(1, Outcome(ledger=[ROW], secrets={"threshold": b"1"}))  # the log was emptied
        store.finish(store.begin("tests", "{}", SEED), Outcome(ledger=[ROW]))
        shutil.copy(path, lost)
        shutil.copy(companion_of(path), companion_of(lost))
    with pytest.raises(pmw.SessionCorruptError, match=r"it had 2 batches .* and holds 1 .*its log"):
        SessionStore.open(lost)
    with closing(SessionStore.open(path)) as store:
        assert store.charge_count() == 2
        store.take_over()
        store.finish(store.begin("tests", "{}", SEED), Outcome())
    tamper(path, "DELETE FROM ledger WHERE sequence = 2")  # its batch is there
    with pytest.raises(pmw.SessionCorruptError, match="2 charges or more, and holds 3 and 1"):
        SessionStore.open(path)


def test_closing_removes_the_companion_even_without_room_to_write_the_file_anew(tmp_path: Path) -> None:
    with closing(create(tmp_path / "s.pmw")) as store:
        store.finalize(1, Outcome())
        store._connection.execute("BEGIN")  # as good as a full disk: nothing is written again
        with pytest.raises(pmw.StoreError, match="could not be written again"):
            store.scrub()
        assert not companion_of(tmp_path / "s.pmw").exists()


def test_a_log_without_its_session_is_not_thrown_away(tmp_path: Path) -> None:
    path, log = tmp_path / "s.pmw", tmp_path / "s.pmw-wal"
    log.write_bytes(b"charges, perhaps")
    with pytest.raises(pmw.SessionExistsError, match="what was left of another session"):
        PEOPLE.opened(path, epsilon=1, delta=0)
    assert log.read_bytes() == b"charges, perhaps"
    assert not path.exists()


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
        content = bytes_of(path)
        return [secret for secret in (*self.seeds, *past) if secret in content]


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
            held = bool(notes.thresholds) and notes.thresholds[-1] in bytes_of(path)
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
        assert all(secret in bytes_of(path) for secret in (seed, threshold))
        with closing(SessionStore.open(path)) as other:
            other.take_over()
            assert not any(secret in bytes_of(path) for secret in (seed, threshold))
