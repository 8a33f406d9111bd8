"""The engine and its journal: what is recorded before noise is drawn, what is committed, what comes back."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import pmw
import pmw.loop.fit
import pmw.session.engine
from pmw.loop.secret import SecretState
from pmw.model.dense import DenseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.state import PublicState
from pmw.session.journal import secret_facts
from pmw.session.loading import load_secret
from pmw.session.maintenance import read_session
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore
from pmw.sparse_vector import NoisyThreshold
from queries import LinearQuery, random_conjunctions
from queries.parsing import parse_where
from tests.pmw.session.stored import execute, tamper
from tests.worlds import PEOPLE

NEGATIVE = pmw.Options(test=pmw.TestKind.QUERY, threshold=1000.0)  # every test says below
POSITIVE = pmw.Options(test=pmw.TestKind.QUERY, threshold=0.5, update_limit=40)  # many tests say above
# Questions that no opening measurement covers.
UNCOVERED = [query for query in random_conjunctions(PEOPLE.domain, 600, seed=5) if len(query.scope) > 1]


def opened(path: Path | None, options: pmw.Options = POSITIVE) -> pmw.Session:
    return PEOPLE.opened(path, epsilon=1, options=options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.pmw"


def ask_until(session: pmw.Session, holds: Callable[[], bool]) -> None:
    for query in UNCOVERED:
        session.ask(query, fresh=True)
        if holds():
            return
    pytest.fail("no test was as it was to be")


def ask_for_a_positive(session: pmw.Session) -> None:
    before = session.state.positives_used
    ask_until(session, lambda: session.state.positives_used > before)


def ask_for_a_negative(session: pmw.Session) -> None:
    ask_until(session, lambda: session.state.round_open)


def test_every_batch_of_a_session_has_bytes_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds, source = list[bytes](), BitSource.__init__

    def noting(bits: BitSource, seed: bytes) -> None:
        seeds.append(seed)
        source(bits, seed)

    monkeypatch.setattr(BitSource, "__init__", noting)
    asked = list({query.to_json(): query for query in UNCOVERED}.values())
    with opened(path, NEGATIVE) as session:
        for query in asked[:8]:
            session.ask(query)
    with pmw.resume_session(path, PEOPLE.frame) as session:  # a count of intents would begin again here
        for query in asked[8:16]:
            session.ask(query)
    for options in (NEGATIVE, replace(NEGATIVE, seed=1)):  # its noise is repeatable from session to session
        with opened(None, options) as session:
            for query in asked[:3]:
                session.ask(query)
    assert len(seeds) == len(set(seeds)) == 1 + 16 + 2 * 4
    assert {len(seed) for seed in seeds} == {32}


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("is_resumed", [False, True])
def test_after_a_positive_the_threshold_noise_is_gone_and_the_next_round_is_paid_when_it_opens(
    path: Path, is_resumed: bool
) -> None:
    def kept() -> SecretState:
        with closing(SessionStore.open(path)) as store:
            return load_secret(store, 1)

    def paid() -> int:
        return sum(line.event == "sparse vector round" for line in session.ledger().lines)

    session = opened(path)
    ask_for_a_negative(session)
    closed = session._engine._secret
    ask_for_a_positive(session)
    assert session._engine._secret == kept() == SecretState.closed(1)
    before = paid()
    assert before == session.state.positives_used
    if is_resumed:
        session.close()
        session = pmw.resume_session(path, PEOPLE.frame)
    assert not session.state.round_open
    spent = session.state.ledger.spent
    session.ask(UNCOVERED[0], fresh=True)
    assert paid() == before + 1
    assert session.state.ledger.spent > spent
    ask_for_a_negative(session)
    assert kept().thresholds[0] not in (None, closed.thresholds[0])
    session.close()


def transactions(statements: list[str]) -> list[list[str]]:
    """Return what was written between each BEGIN and its COMMIT; nothing is written outside."""
    found: list[list[str]] = []
    inside = False
    for statement in statements:
        verb = statement.split()[0].upper()
        if verb in ("BEGIN", "COMMIT"):
            inside = verb == "BEGIN"
            found += [[]] if inside else []
        elif verb in ("INSERT", "UPDATE", "DELETE", "REPLACE"):
            assert inside, statement
            found[-1].append(statement)
        else:
            assert verb in ("SELECT", "PRAGMA"), statement
    return found


@pytest.mark.usefixtures("repeatable")
def test_an_answer_is_committed_with_its_charge_its_measurement_and_the_wiping_of_its_secret(
    path: Path,
) -> None:
    statements = list[str]()
    with opened(path) as session:
        ask_for_a_positive(session)  # what comes next opens a round, and charges for it
        charges, connection = len(session.ledger().lines), session._open_store()._connection
        connection.set_trace_callback(statements.append)
        ask_for_a_positive(session)
        connection.set_trace_callback(None)
        assert len(session.ledger().lines) - charges == 2
    written = transactions(statements)
    begun = [Counter(" ".join(one.split()[:3]) for one in part) for part in written]
    numbers = [sum("INTO meta" in one and "'intent'" in one for one in part) for part in written]
    (place,) = (place for place, one in enumerate(begun) if one["INSERT INTO measurements"])
    outcome = begun[place]
    assert outcome["INSERT INTO ledger"] >= 1
    assert (outcome["INSERT INTO blocks"], outcome["INSERT INTO measurements"]) == (1, 1)
    assert (outcome["DELETE FROM secrets"], numbers[place]) == (1, 1)
    assert sum(one["INSERT INTO ledger"] for one in begun) == 2
    for one, number in zip(begun, numbers, strict=True):  # what is answered or charged has its batch's number
        assert number == 1 or not one.keys() & {"INSERT INTO blocks", "INSERT INTO ledger"}


def test_where_a_batch_draws_noise_what_came_before_it_is_durable_and_delivered(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pmw.session.engine, "_LARGEST_BATCH", 2)
    begin, given, seen = SessionStore.begin, list[pmw.Answer](), list[int]()

    def noting(store: SessionStore, kind: str, proposal: str, seed: bytes) -> int:
        with closing(sqlite3.connect(path)) as reader:
            (kept,) = reader.execute("SELECT coalesce(sum(size), 0) FROM blocks").fetchone()
        seen.extend((kept, len(given)))
        return begin(store, kind, proposal, seed)

    covered = [parse_where(f"age >= {low}", PEOPLE.domain) for low in (30, 35, 40, 45)]
    with opened(path, NEGATIVE) as session:
        monkeypatch.setattr(SessionStore, "begin", noting)
        session.ask_all([*covered, UNCOVERED[0]], deliver=given.extend)
    assert seen == [4, 4]
    assert len(given) == 5


def questions() -> list[LinearQuery]:
    """Return narrow questions on the last attributes, and others."""
    last = [
        LinearQuery.cells(PEOPLE.domain, {"region": (cell, cell), "member": (flag, flag)})
        for cell in range(4)
        for flag in range(2)
    ]
    return [*last, *random_conjunctions(PEOPLE.domain, 40, seed=5), *reversed(last)]


def cells(state: PublicState) -> NDArray[np.float64]:
    """Return the model's records per cell."""
    assert isinstance(state.model, DenseDistribution)
    return state.model.values


def same_bits(first: PublicState, second: PublicState) -> bool:
    same_answers = all(first.model.answer(query) == second.model.answer(query) for query in questions())
    return first.version == second.version and same_answers and np.array_equal(cells(first), cells(second))


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("update", pmw.UpdateRule)
def test_a_session_has_the_same_model_to_the_last_bit_with_and_without_its_snapshot(
    tmp_path: Path, update: pmw.UpdateRule
) -> None:
    """Its noise is the same in every run: after a large threshold, 2,000 questions may correct nothing."""
    path, query = tmp_path / "study.pmw", questions()[0]
    with PEOPLE.opened(
        path, test=pmw.TestKind.QUERY, threshold=0.5, update_limit=20, update=update
    ) as session:
        states = [session.state]
        for asked in itertools.islice(itertools.cycle(questions()), 2000):
            if session.state.version == 15:
                break
            session.ask(asked, fresh=True)
            states.append(session.state)
            if session.state.version % 7 == 0:
                assert same_bits(read_session(path)[0], session.state)
    assert states[-1].version == 15
    answers = [state.model.answer(query) for state in states]  # earlier states still answer as they did
    assert len(set(answers)) > 10
    totals = [state.model.marginal(()).item() for state in states]
    assert totals == pytest.approx([state.total.value for state in states])
    assert [state.model.answer(query) for state in states] == answers
    first = cells(states[-1])  # made again from its terms, should the array be elsewhere
    for statement in ("", "DELETE FROM snapshots"):
        execute(path, statement)
        assert same_bits(read_session(path)[0], states[-1])
    with pmw.resume_session(path, PEOPLE.frame) as session:
        assert np.array_equal(cells(session.state), first)
        for asked in questions()[:5]:  # goes on
            session.ask(asked, fresh=True)
        assert same_bits(read_session(path)[0], session.state)


def test_a_session_beyond_the_limit_of_cells_or_its_cap_is_refused_before_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.pmw"
    PEOPLE.opened(path, epsilon=1, test=pmw.TestKind.QUERY).close()
    content = path.read_bytes()
    monkeypatch.setattr("pmw.model.dense.LARGEST_DENSE_DOMAIN", 239)
    for go_on in (pmw.resume_session, read_session):
        with pytest.raises(pmw.BudgetError, match="has 240 cells; a dense model holds at most 239"):
            go_on(path)
    monkeypatch.undo()
    assert path.read_bytes() == content
    pmw.resume_session(path, PEOPLE.frame).close()
    tamper(path, "UPDATE ledger SET rho = '1/2' WHERE sequence = 2")
    with pytest.raises(pmw.SessionCorruptError, match="its charges exceed the cap"):
        read_session(path)


def test_threshold_noise_is_written_where_it_changed_and_wiped_where_its_round_closed() -> None:
    rounds = (None, NoisyThreshold(3), NoisyThreshold(3, 4), NoisyThreshold(3, 5), NoisyThreshold(-3, 5))
    states = [SecretState(pair) for pair in itertools.product(rounds, rounds)]
    with closing(SessionStore.create(None, bytes(32), Outcome())) as store:
        for before, after in itertools.product(states, states):
            store.finish(None, Outcome(secrets={"threshold 0": None, "threshold 1": None}))
            store.finish(None, Outcome(secrets=secret_facts(before, SecretState.closed(2))))
            facts = secret_facts(after, before)
            store.finish(None, Outcome(secrets=facts))
            assert load_secret(store, 2) == after
            for tier, (now, then) in enumerate(zip(after.thresholds, before.thresholds, strict=True)):
                assert (f"threshold {tier}" in facts) == (now != then)
