"""Sessions closed permanently: nothing is spent, nothing secret is left, and answers go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import pmw
from pmw.loop.secret import SecretState
from pmw.privacy.budget import Charge
from pmw.privacy.random_bits import repeatable_seed
from pmw.public.answer import Source
from pmw.public.codec import read
from pmw.session.maintenance import is_closed, read_ledger, read_session
from pmw.session.store.store import SessionStore
from tests.pmw.session.stored import bytes_of, cut_off, secrets_of, waiting_of
from tests.worlds import PEOPLE

COVERED = "age >= 40"
WRONG = "age >= 40 AND NOT member = TRUE"  # the opening's model is far off: a positive
OTHER = "region = 'south' AND age < 40 AND sex = 'Male'"
OPTIONS = pmw.Options(
    test=pmw.TestKind.QUERY, threshold=20.0, update_limit=8, composition=pmw.Composition.ZCDP
)


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Note the bytes of every intent; they are the same in every run."""
    noted: list[bytes] = []

    def note() -> bytes:
        noted.append(repeatable_seed(1, len(noted)))
        return noted[-1]

    monkeypatch.setattr("pmw.session.journal.fresh_seed", note)
    return noted


@pytest.fixture
def study(tmp_path: Path, seeds: list[bytes]) -> Path:
    """Open a session over a file, ask it two questions and return its path."""
    data, path = tmp_path / "people.csv", tmp_path / "study.pmw"
    PEOPLE.frame.to_csv(data, index=False)
    with pmw.open_session(data, PEOPLE.domain, epsilon=2, delta=1e-9, path=path, options=OPTIONS) as session:
        assert session.ask(WRONG).source is Source.MEASURED
        session.ask("sex = 'Male' AND region = 'north'")
        assert len(seeds) >= 2
    return path


def interrupt(path: Path) -> bytes:
    """Leave a batch that was recorded and could not be finished; return its bytes."""
    with pmw.resume_session(path) as session, cut_off():
        session.ask(OTHER)
    return waiting_of(path).seed


def test_a_sealed_session_answers_without_its_table_and_spends_nothing(study: Path) -> None:
    with pmw.resume_session(study) as session:
        first = session.ask(WRONG)
        spent = session.ledger()
        session.finalize()
        assert session.ask(WRONG) == first
    (study.parent / "people.csv").unlink()
    with pmw.resume_session(study) as session:
        assert session.ask(WRONG) == first
        covered = session.ask(COVERED)
        assert (covered.source, covered.interval is None) == (Source.SYNTHETIC, False)
        other = session.ask(OTHER)
        assert other.source is Source.EXHAUSTED
        assert session.ask(WRONG, fresh=True) == first  # the model is the same
        assert session.ledger() == spent
        assert session.status().closed
        assert len(session.synthetic_records(20)) == 20
        session.export(study.parent / "rows.csv")
    assert pmw.verify_session(study).holds
    assert is_closed(study)


def test_a_session_in_memory_is_sealed_alike() -> None:
    with PEOPLE.opened(test=pmw.TestKind.QUERY, seed=7, threshold=20.0, update_limit=8) as session:
        first = session.ask(WRONG)
        assert session.status().to_dict()["closed"] is False
        session.finalize()
        session.finalize()
        assert session.ask(WRONG) == first
        assert session.ask(OTHER).source is Source.EXHAUSTED
        engine = session._engine  # which lets go of the table, and of threshold noise
        assert [engine._data, engine._source, engine._coarse_source] == [None] * 3
        assert engine._secret == SecretState.closed(len(session.state.plan))
        assert session.status().to_dict()["closed"] is True
        assert session.verify().holds


def test_nothing_secret_is_left_in_the_file_or_its_log(study: Path, seeds: list[bytes]) -> None:
    with pmw.resume_session(study) as session:
        for age in range(24, 60, 4):  # where cells begin: other questions are not tested
            if session.state.round_open:
                break
            session.ask(f"region = 'west' AND age >= {age}")
        assert session.state.round_open
        secrets, before = secrets_of(study), bytes_of(study)
        assert set(secrets) == {"fingerprint", "fingerprint_key", "threshold 0"}
        assert all(secret in before for secret in secrets.values())
        assert seeds[-1] not in before  # the bytes of a batch are gone before its answers are given
        session.finalize()
        assert session.state.rounds == (False,)
        while_open = bytes_of(study)
    for text in (while_open, bytes_of(study)):
        assert not any(secret in text for secret in (*secrets.values(), *seeds))
    assert secrets_of(study) == {}


def test_a_batch_that_was_interrupted_is_finished_before_closing(study: Path) -> None:
    seed = interrupt(study)
    asked = read_session(study)[1].queries_answered
    status = pmw.finalize_session(study, abandon=True)  # what can be finished is never given up
    assert status.closed
    assert status.queries_answered == asked + 1
    assert not any(line.event == "abandoned batch" for line in read_ledger(study).lines)
    assert seed not in bytes_of(study)
    assert pmw.verify_session(study).holds


@pytest.mark.parametrize("fault", ["the table is gone", "the table differs"])
def test_a_batch_whose_table_cannot_be_read_is_charged_whole_and_never_released(
    study: Path, fault: str
) -> None:
    seed, pending, before = interrupt(study), waiting_of(study), read_ledger(study)
    with closing(SessionStore.open(study)) as store:
        answers, measurements = list(store.answers.each()), store.chained().measurements
    (study.parent / "people.csv").unlink()
    if fault == "the table differs":
        PEOPLE.frame.iloc[5:].to_csv(study.parent / "people.csv", index=False)
    unchanged = bytes_of(study)
    with pytest.raises(pmw.SessionError, match=r"waits to be finished, and cannot be: .* --abandon"):
        pmw.finalize_session(study)
    assert (bytes_of(study), is_closed(study)) == (unchanged, False)
    status = pmw.finalize_session(study, abandon=True)
    ledger = read_ledger(study)
    assert ledger.lines[:-1] == before.lines
    last = ledger.lines[-1]
    with pmw.resume_session(study) as session:
        state = session.state
        assert state.query_plan is not None
        opening, positive = state.query_plan.vector.charges(state.ledger.composition)
        reserved = read(Charge, json.loads(pending.proposal)["reserved"])
        assert reserved in (positive, opening + positive)  # the measurement is in it
        assert (last.event, last.price) == ("abandoned batch", state.ledger.price(reserved))
        assert session.ask(OTHER).source is Source.EXHAUSTED
    with closing(SessionStore.open(study)) as store:
        assert list(store.answers.each())[:-1] == answers
        assert store.chained().measurements == measurements
    assert status.budget_share == ledger.share > before.share
    assert seed not in bytes_of(study)
    assert pmw.verify_session(study).holds


def test_an_opening_that_cannot_be_finished_leaves_nothing_to_close(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with cut_off():
        PEOPLE.opened(path, epsilon=1, delta=0)
    with pytest.raises(pmw.SessionError, match="nothing was ever released from it"):
        pmw.finalize_session(path)
    assert not is_closed(path)
    assert pmw.finalize_session(path, PEOPLE.frame).closed
    assert pmw.verify_session(path).holds


# Dies, without any warning, at a place of closing.
KILLED = """
import os, signal, sys
import pmw
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore

place = sys.argv[2]
step = getattr(SessionStore, place)

def deadly(self, *arguments):
    if place == "_insert" and "closed" not in arguments[1].meta:
        return step(self, *arguments)
    if place == "_insert":
        step(self, *arguments)
        self._connection.execute("DELETE FROM secrets")
    os.kill(os.getpid(), signal.SIGKILL)

setattr(SessionStore, place, deadly)
pmw.finalize_session(sys.argv[1], abandon=True)
"""


@pytest.mark.parametrize("table", ["there", "gone"])
@pytest.mark.parametrize("place", ["_insert", "scrub"])
def test_a_closing_that_is_killed_happened_whole_or_not_at_all(study: Path, place: str, table: str) -> None:
    seed = interrupt(study)
    if table == "gone":
        (study.parent / "people.csv").rename(study.parent / "away.csv")
    secrets, before = secrets_of(study), read_ledger(study)
    done = subprocess.run([sys.executable, "-c", KILLED, str(study), place], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if place == "_insert":  # inside the transaction
        assert not is_closed(study)
        assert {"fingerprint", "fingerprint_key"} <= set(secrets_of(study))
        assert read_ledger(study) == before or table == "there"
        # What could be finished was, in a commit of its own.
        assert pmw.verify_session(study).unfinished == (table == "gone")
    else:  # after it
        assert is_closed(study)
        assert secrets_of(study) == {}
    assert pmw.verify_session(study).holds
    assert pmw.finalize_session(study, abandon=True).closed
    assert pmw.verify_session(study).holds
    events = [line.event for line in read_ledger(study).lines]
    assert events.count("abandoned batch") == (table == "gone")
    wiped = [seed, *secrets.values()]
    assert not any(secret in bytes_of(study) for secret in wiped)
