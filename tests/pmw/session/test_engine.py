"""The engine: what is recorded before noise is drawn, what is committed with an answer, what comes back."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pmw
import pmw.loop.fit
import pmw.session.engine
from pmw.data import MemorySource
from pmw.loop import propose
from pmw.loop.secret import SecretState
from pmw.planning.tiers import plan_query_test
from pmw.privacy.random_bits import BitSource
from pmw.public.plans import QueryTestPlan
from pmw.session.loading import load_secret
from pmw.session.store import Outcome, SessionStore
from queries import Domain, LinearQuery, random_conjunctions
from queries.parsing import parse_where
from queries.questions import QuestionList

NEGATIVE = pmw.Options(test=pmw.TestKind.QUERY, threshold=1000.0)  # every test says below
POSITIVE = pmw.Options(test=pmw.TestKind.QUERY, threshold=0.5, update_limit=40)  # many tests say above


def uncovered(domain: Domain) -> list[LinearQuery]:
    """Return questions that no opening measurement covers."""
    return [query for query in random_conjunctions(domain, 600, seed=5) if len(query.scope) > 1]


def stored_threshold(path: Path) -> SecretState:
    with closing(SessionStore.open(path)) as store:
        return load_secret(store, 1)


def rounds_paid(session: pmw.Session) -> int:
    return sum(line.event == "sparse vector round" for line in session.ledger().lines)


def ask_for_a_positive(session: pmw.Session, domain: Domain) -> None:
    before = session.state.positives_used
    for query in uncovered(domain):
        session.ask(query, fresh=True)
        if session.state.positives_used > before:
            return
    pytest.fail("no test was positive")


def ask_for_a_negative(session: pmw.Session, domain: Domain) -> None:
    for query in uncovered(domain):
        session.ask(query, fresh=True)
        if session.state.round_open:
            return
    pytest.fail("no test was negative")


def test_every_intent_of_a_session_has_bytes_of_its_own(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[bytes] = []
    source = BitSource.__init__

    def noting(bits: BitSource, seed: bytes) -> None:
        seeds.append(seed)
        source(bits, seed)

    monkeypatch.setattr(BitSource, "__init__", noting)
    path = tmp_path / "s.pmw"
    asked = list({query.to_json(): query for query in uncovered(domain)}.values())
    with pmw.open_session(frame, domain, epsilon=1, path=path, options=NEGATIVE) as session:
        for query in asked[:8]:
            session.ask(query)
    with pmw.resume_session(path, frame) as session:  # a count of intents would begin again here
        for query in asked[8:16]:
            session.ask(query)
    with pmw.open_session(frame, domain, epsilon=1, options=NEGATIVE) as session:
        session.ask(uncovered(domain)[0])
    assert len(seeds) == len(set(seeds)) == 1 + 16 + 2
    assert {len(seed) for seed in seeds} == {32}


@pytest.mark.usefixtures("repeatable")
def test_threshold_noise_stays_as_it_is_while_tests_are_negative_and_over_a_resumption(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path
) -> None:
    path, questions = tmp_path / "s.pmw", iter(uncovered(domain))
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=NEGATIVE) as session:
        assert session._engine._secret == stored_threshold(path) == SecretState.closed(1)
        session.ask(next(questions))
        drawn = session._engine._secret
        assert drawn.thresholds[0] is not None
        assert drawn.thresholds[0].lower not in (None, drawn.thresholds[0].upper)  # of both thresholds
        for query in itertools.islice(questions, 5):
            assert session._engine._secret == stored_threshold(path) == drawn
            session.ask(query)
        assert session._engine._secret == stored_threshold(path) == drawn
    for _ in range(2):
        with pmw.resume_session(path, frame) as session:
            assert session._engine._secret == stored_threshold(path) == drawn
            session.ask(next(questions))
            assert session._engine._secret == stored_threshold(path) == drawn
            assert rounds_paid(session) == 1


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("resumed", [False, True])
def test_after_a_positive_the_threshold_noise_is_gone_and_the_next_round_is_paid_when_it_opens(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, resumed: bool
) -> None:
    path = tmp_path / "s.pmw"
    session = pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=POSITIVE)
    ask_for_a_negative(session, domain)
    closed = session._engine._secret
    ask_for_a_positive(session, domain)
    assert session._engine._secret == stored_threshold(path) == SecretState.closed(1)
    assert not session.state.round_open
    paid = rounds_paid(session)
    assert paid == session.state.positives_used
    if resumed:
        session.close()
        session = pmw.resume_session(path, frame)
    assert not session.state.round_open
    spent = session.state.ledger.spent
    session.ask(uncovered(domain)[0], fresh=True)
    assert rounds_paid(session) == paid + 1
    assert session.state.ledger.spent > spent
    ask_for_a_negative(session, domain)
    assert stored_threshold(path).thresholds[0] not in (None, closed.thresholds[0])
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
def test_an_answer_is_committed_with_its_charge_its_measurement_and_the_wiping_of_its_intent(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path
) -> None:
    path, statements = tmp_path / "s.pmw", list[str]()
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=POSITIVE) as session:
        ask_for_a_positive(session, domain)  # what comes next opens a round, and charges for it
        charges = len(session.ledger().lines)
        store = session._store
        assert store is not None
        store._connection.set_trace_callback(statements.append)
        ask_for_a_positive(session, domain)
        store._connection.set_trace_callback(None)
        new_charges = len(session.ledger().lines) - charges
    written = transactions(statements)
    (place,) = (number for number, part in enumerate(written) if "INTO measurements" in " ".join(part))
    outcome = [start_of(statement) for statement in written[place]]
    for start in (
        "INSERT INTO blocks",
        "INSERT INTO measurements",
        "DELETE FROM secrets",
    ):
        assert outcome.count(start) == 1, start
    assert numbers_of_batches(written[place]) == 1
    assert outcome.count("INSERT INTO ledger") >= 1
    assert [start_of(statement) for part in written for statement in part].count("INSERT INTO ledger") == 2
    assert new_charges == 2
    for part in written:  # whatever is answered or charged is so with the number of its batch
        starts = {start_of(statement) for statement in part}
        if starts & {"INSERT INTO blocks", "INSERT INTO ledger"}:
            assert numbers_of_batches(part) == 1


def numbers_of_batches(statements: Sequence[str]) -> int:
    return sum("INTO meta" in statement and "'intent'" in statement for statement in statements)


def start_of(statement: str) -> str:
    return " ".join(statement.split()[:3])


@pytest.mark.usefixtures("repeatable")
def test_an_intent_is_durable_before_the_table_is_counted_or_a_bit_is_drawn(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, events = tmp_path / "s.pmw", list[tuple[str, str]]()

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*given: Any) -> Any:
            with closing(SessionStore.open(path)) as another:
                waiting = another.pending()
            assert waiting is not None
            events.append((name, waiting.kind))
            assert len(waiting.seed) == 32
            return method(*given)

        return watching

    monkeypatch.setattr(MemorySource, "counts", watched("counts", MemorySource.counts))
    monkeypatch.setattr(BitSource, "__init__", watched("seeded", BitSource.__init__))
    monkeypatch.setattr(BitSource, "take", watched("drawn", BitSource.take))
    with pmw.open_session(frame, domain, epsilon=1, path=path, options=POSITIVE) as session:
        assert set(events) == {(name, "opening") for name in ("counts", "seeded", "drawn")}
        events.clear()
        ask_for_a_negative(session, domain)
        ask_for_a_positive(session, domain)
        assert set(events) == {(name, "tests") for name in ("counts", "seeded", "drawn")}
    events.clear()
    with pmw.resume_session(path, frame) as session:
        session.ask("sex = 'Male'")  # covered by what was measured: nothing is recorded, counted or drawn
        assert events == []


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("delta", [0, 1e-9])
@pytest.mark.parametrize(
    "options",
    [
        POSITIVE,
        pmw.Options(test=pmw.TestKind.QUERY, sparse_vector=pmw.SparseVectorKind.EXPONENTIAL, update_limit=5),
        pmw.Options(
            test=pmw.TestKind.QUERY,
            opening=pmw.Opening.NONE,
            update=pmw.UpdateRule.STEP,
            learning_rate=0.1,
            threshold=7.3,
        ),
        pmw.Options(
            test=pmw.TestKind.QUERY,
            sides=pmw.Sides.TWO_SIDED,
            sparse_vector=pmw.SparseVectorKind.LAPLACE_ROUNDS,
            records_per_person=3,
        ),
    ],
)
def test_a_session_goes_on_with_the_plan_that_its_opening_made(
    frame: pd.DataFrame,
    domain: Domain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    delta: float,
    options: pmw.Options,
) -> None:
    path, made = tmp_path / "s.pmw", list[QueryTestPlan | None]()

    def noting(*given: Any) -> QueryTestPlan | None:
        made.append(plan_query_test(*given))
        return made[-1]

    monkeypatch.setattr("pmw.planning.tiers.plan_query_test", noting)
    with pmw.open_session(frame, domain, epsilon=1, delta=delta, path=path, options=options) as session:
        for query in uncovered(domain)[:3]:
            session.ask(query)
        before = session.state
    assert before.query_plan is not None
    assert made == [*before.plan]
    with pmw.resume_session(path, frame) as session:
        after = session.state
        assert after.plan == before.plan
        assert after.contract == before.contract
        assert after.ledger == before.ledger
        assert after.total == before.total
        assert after.round_open == before.round_open
        assert [found.noise for found in after.measurements] == [found.noise for found in before.measurements]
        assert all(found.noise == before.query_plan.vector.value_noise for found in after.measured)


def test_two_sessions_on_one_table_store_keys_and_fingerprints_of_their_own(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path
) -> None:
    found: list[bytes | None] = []
    for name in ("a.pmw", "b.pmw"):
        pmw.open_session(frame, domain, epsilon=1, path=tmp_path / name).close()
        with closing(SessionStore.open(tmp_path / name)) as store:
            found += [store.secret("fingerprint_key"), store.secret("fingerprint")]
    assert None not in found
    assert len(set(found)) == 4
    assert {len(value or b"") for value in found} == {32}


def test_a_fit_that_ran_out_of_memory_is_made_again_with_the_same_outcome(
    tmp_path: Path, frame: pd.DataFrame, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*values: Any) -> None:
        refit(*values)  # a dense model's array may be taken over before memory runs out
        raise MemoryError

    path = tmp_path / "study.pmw"
    with pmw.open_session(frame, domain, epsilon=5, delta=1e-9, path=path, options=POSITIVE) as session:
        refit = vars(pmw.loop.fit)["refit"]
        with monkeypatch.context() as patch:
            patch.setattr("pmw.loop.fit.refit", out_of_memory)
            with pytest.raises(MemoryError):  # some tests before the first positive may pass
                session.ask_all(uncovered(domain))
            spent = session.ledger()
            for query in uncovered(domain)[-3:]:  # any question waits for the recorded outcome
                with pytest.raises(MemoryError):
                    session.ask(query)
        with closing(SessionStore.open(path)) as store:
            recorded = store.pending()
        assert recorded is not None
        assert session.ledger() == spent
        session.ask(uncovered(domain)[1])
        with closing(SessionStore.open(path)) as store:
            assert recorded.id in store.chained().measurement_intents
        assert session.verify().holds


def test_answers_that_draw_no_noise_share_a_commit_and_are_what_they_are_one_by_one(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pmw.session.engine, "_BATCH", 4)
    monkeypatch.setattr(QuestionList, "most_together", 12)
    path = tmp_path / "s.pmw"
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path) as session:
        before = random_conjunctions(domain, 100, seed=9)
        session.ask_all(before)  # now whatever others about the same need was tested or measured
        others = {query.to_json(): query for query in random_conjunctions(domain, 150, seed=10)}
        for query in before:
            others.pop(query.to_json(), None)
        queries = [one for one in others.values() if not propose(session.state, [one]).requests][:40]
        apart = [session._engine._free.of(session.state).answer(query) for query in queries]
        given: list[list[pmw.Answer]] = []
        statements: list[str] = []
        session._open_store()._connection.set_trace_callback(statements.append)
        together = session.ask_all(queries, deliver=lambda some: given.append(list(some)))
        session._open_store()._connection.set_trace_callback(None)
    assert [len(some) for some in given] == [12, 12, 12, 4]
    assert statements.count("COMMIT") == 4
    assert list(together) == apart == list(itertools.chain.from_iterable(given))


def test_where_a_batch_draws_noise_what_came_before_it_is_durable_and_delivered(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pmw.session.engine, "_BATCH", 2)
    path, seen = tmp_path / "s.pmw", list[int]()
    covered = [parse_where(f"age >= {low}", domain) for low in (30, 35, 40, 45)]
    with pmw.open_session(frame, domain, epsilon=1, path=path, options=NEGATIVE) as session:
        given: list[pmw.Answer] = []
        begin = SessionStore.begin

        def noting(store: SessionStore, kind: str, proposal: str, seed: bytes) -> int:
            with closing(sqlite3.connect(path)) as reader:
                seen.extend(
                    (reader.execute("SELECT coalesce(sum(size), 0) FROM blocks").fetchone()[0], len(given))
                )
            return begin(store, kind, proposal, seed)

        monkeypatch.setattr(SessionStore, "begin", noting)
        session.ask_all([*covered, uncovered(domain)[0]], deliver=given.extend)
    assert seen == [4, 4]
    assert len(given) == 5


@pytest.mark.usefixtures("repeatable")
def test_a_session_goes_on_where_an_outcome_was_kept_and_what_came_after_it_failed(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = SessionStore.finish

    def failing_after(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
        finish(store, intent, outcome)
        if outcome.ledger:
            raise pmw.StoreError("kept, but nothing more")

    with pmw.open_session(frame, domain, epsilon=1, path=tmp_path / "s.pmw", options=POSITIVE) as session:
        charges = len(session.ledger().lines)
        with monkeypatch.context() as patch:
            patch.setattr(SessionStore, "finish", failing_after)
            with pytest.raises(pmw.StoreError):
                ask_for_a_positive(session, domain)
        ask_for_a_positive(session, domain)
        assert len(session.ledger().lines) > charges
        assert session.verify().holds
