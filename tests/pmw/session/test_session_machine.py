"""A session's file, step by step beside a model of it: whatever it is asked, and wherever it is killed.

The model is plain: which questions have which answers, which charges were paid, how many intents were
recorded, how many positives were had and which threshold noise is kept. What noise does is told by a twin: a
session in memory that draws from the same bytes, is asked the same questions once, and never crashes.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import pmw
from pmw.privacy.random_bits import repeatable_seed
from pmw.session.store import locking
from pmw.session.store.columns import StoredAnswer
from pmw.session.store.rows import IntentRow, LedgerRow, MeasurementRow
from pmw.session.store.store import SessionStore
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, random_conjunctions
from queries.errors import QueryError

DOMAIN = Domain(
    (
        IntegerAttribute("age", 20, 59, 10),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("member", (True, False)),
    ),
    name="people",
)
OPTIONS = pmw.Options(
    test=pmw.TestKind.QUERY, threshold=60.0, update_limit=4, composition=pmw.Composition.ZCDP
)
QUESTIONS = list({query.to_json(): query for query in random_conjunctions(DOMAIN, 200, seed=8)}.values())[:40]


def _people() -> pd.DataFrame:
    generator = np.random.default_rng(20)
    age = generator.integers(20, 60, 2000)
    sex = np.where(generator.random(2000) < 0.5, "Female", "Male")
    return pd.DataFrame({"age": age, "sex": sex, "member": (age > 40) == (sex == "Male")})


PEOPLE = _people()


def opened(path: Path | None = None) -> pmw.Session:
    return pmw.open_session(PEOPLE, DOMAIN, epsilon=1, delta=1e-9, path=path, options=OPTIONS)


class Killed(BaseException):
    """The process ends here."""


class Rows(NamedTuple):
    """All that a session file holds and no crash may change, but for the outcome of an intent."""

    ledger: tuple[LedgerRow, ...]
    measurements: tuple[MeasurementRow, ...]
    answers: list[StoredAnswer]
    threshold: bytes | None
    asked: int
    pending: IntentRow | None


def rows_of(store: SessionStore) -> Rows:
    chained, answers, threshold = store.chained(), list(store.answers.each()), store.secret("threshold 0")
    return Rows(chained.ledger, chained.measurements, answers, threshold, store.asked(), store.pending())


@dataclass(slots=True)
class Seeds:
    """Gives the bytes of the next intent: the same to a session and to its twin, if they had as many."""

    recorded: int = 0

    def next(self) -> bytes:
        return repeatable_seed(20, self.recorded)


@contextmanager
def drawing_from(seeds: Seeds) -> Iterator[None]:
    """Number a session's intents by those that were recorded durably."""
    begin, create = SessionStore.begin, SessionStore.create

    def counted(store: SessionStore, kind: str, proposal: str, seed: bytes) -> int:
        number = begin(store, kind, proposal, seed)
        seeds.recorded += 1
        return number

    def created(*given: Any) -> SessionStore:
        seeds.recorded += 1
        return create(*given)

    with (
        patch("pmw.session.journal.fresh_seed", seeds.next),
        patch.object(SessionStore, "begin", counted),
        patch.object(SessionStore, "create", created),
    ):
        yield


@contextmanager
def killed(step: str, number: int, stores: list[SessionStore]) -> Iterator[None]:
    """End the process at the given commit: before it, or when it is durable and nothing else was done."""
    commits = itertools.count(1)

    def deadly(write: Callable[..., Any]) -> Callable[..., Any]:
        def at(store: SessionStore, *given: Any) -> Any:
            stores.append(store)
            now = next(commits) == number
            if now and step == "before":
                raise Killed
            result = write(store, *given)
            if now:
                raise Killed
            return result

        return at

    gc.disable()  # what died before would write when it is collected, and be taken for this one
    try:
        with (
            patch.object(SessionStore, "begin", deadly(SessionStore.begin)),
            patch.object(SessionStore, "finish", deadly(SessionStore.finish)),
        ):
            yield
    finally:
        gc.enable()


class SessionMachine(RuleBasedStateMachine):
    """Asks a session in a file and its twin in memory, and kills the first."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.pmw"
        self.seeds, self.twin_seeds = Seeds(), Seeds()
        self.dead: list[pmw.Session] = []
        self.stores: list[SessionStore] = []  # of the killed, to be closed at the end
        self.told: dict[str, float] = {}  # the newest answer to each question's text
        self.marked: dict[str, tuple[int, float]] = {}  # question and answer of each mark
        self.sealed = False
        self.left_open = False  # a round that was paid ended with the session

    @initialize()
    def open(self) -> None:
        with drawing_from(self.seeds):
            self.session = opened(self.path)
        with drawing_from(self.twin_seeds):
            self.twin = opened()
        self.before = self.rows()

    # --- what is asked --------------------------------------------------------------------------------------

    @rule(places=st.lists(st.integers(0, 39), min_size=1, max_size=12), fresh=st.booleans())
    def ask(self, places: list[int], fresh: bool) -> None:
        self.asked_of_both([QUESTIONS[place] for place in places], fresh)

    @rule(place=st.integers(0, 39), mark=st.sampled_from("abcde"))
    def ask_with_a_mark(self, place: int, mark: str) -> None:
        known = self.marked.get(mark)
        if known is not None and known[0] != place:
            before = self.rows()
            with pytest.raises(QueryError, match="was used for another question"):
                self.session.ask(QUESTIONS[place], request_id=mark)
            assert self.rows() == before
            return
        with drawing_from(self.seeds):
            answer = self.session.ask(QUESTIONS[place], request_id=mark)
        with drawing_from(self.twin_seeds):
            assert self.twin.ask(QUESTIONS[place], request_id=mark) == answer
        assert known is None or known[1] == answer.count
        self.marked[mark] = (place, answer.count)
        self.told.setdefault(QUESTIONS[place].to_json(), answer.count)

    def asked_of_both(self, queries: list[LinearQuery], fresh: bool) -> None:
        with drawing_from(self.seeds):
            answers = list(self.session.ask_all(queries, fresh=fresh))
        with drawing_from(self.twin_seeds):
            assert list(self.twin.ask_all(queries, fresh=fresh)) == answers
        for query, answer in zip(queries, answers, strict=True):
            text = query.to_json()
            assert fresh or self.told.get(text, answer.count) == answer.count
            self.told[text] = answer.count

    # --- how it ends ----------------------------------------------------------------------------------------

    @rule(
        places=st.lists(st.integers(0, 39), min_size=1, max_size=6, unique=True),
        step=st.sampled_from(["before", "after"]),
        number=st.integers(1, 4),
        retries=st.integers(0, 1),
    )
    def kill_while_asking(self, places: list[int], step: str, number: int, retries: int) -> None:
        """Kill it, and kill each retry at the same commit; then ask again. As if it had been asked once."""
        queries = [QUESTIONS[place] for place in places]
        for _ in range(1 + retries):
            self.killed_asking(queries, step, number)
            self.killed_resuming(step)
        self.resume()
        known = {query.to_json(): self.told.get(query.to_json()) for query in queries}
        with drawing_from(self.seeds):
            answers = list(self.session.ask_all(queries))
        with drawing_from(self.twin_seeds):
            twins = list(self.twin.ask_all(queries))
        assert [one.count for one in answers] == [one.count for one in twins]
        for query, answer in zip(queries, answers, strict=True):
            assert known[query.to_json()] in (None, answer.count)
            self.told[query.to_json()] = answer.count

    def killed_asking(self, queries: list[LinearQuery], step: str, number: int) -> None:
        given: list[pmw.Answer] = []
        if self.session in self.dead:
            self.resume()
        before = self.rows()
        try:
            with drawing_from(self.seeds), killed(step, number, self.stores):
                self.session.ask_all(queries, deliver=given.extend)
        except Killed:
            pass
        for query, answer in zip(queries, given, strict=False):  # released: they are in the file
            assert self.told.setdefault(query.to_json(), answer.count) == answer.count
        self.drop()
        self.grew(before)

    def killed_resuming(self, step: str) -> None:
        """Kill it while it finishes what was interrupted, if anything was."""
        before = self.rows()
        try:
            with drawing_from(self.seeds), killed(step, 1, self.stores):
                pmw.resume_session(self.path, PEOPLE).close()
            assert before.pending is None
        except Killed:
            assert before.pending is not None
            assert (self.rows().pending is None) == (step == "after")
            if step == "before":
                assert self.rows() == before
        self.grew(before)

    @rule(is_closed=st.booleans())
    def leave_and_resume(self, is_closed: bool) -> None:
        if is_closed:
            self.session.close()
        else:
            self.drop()
        self.resume()

    @precondition(lambda self: self.dead)
    @rule(place=st.integers(0, 39))
    def the_dead_write_nothing(self, place: int) -> None:
        before = self.rows()
        with contextlib.suppress(pmw.SessionLockedError):  # a stored answer is given again, and not noted
            self.dead[-1].ask(QUESTIONS[place], fresh=True)
        assert self.rows() == before

    @precondition(lambda self: self.session.state.version > 1 and not self.sealed)
    @rule(number=st.integers(0, 9))
    def finalize(self, number: int) -> None:
        if number == 0:  # seldom: nothing is drawn any more
            self.left_open = self.session.state.round_open
            self.session.finalize()
            self.twin.finalize()
            self.sealed = True

    def drop(self) -> None:
        """Leave the session as a killed process does: its lock ends, its file stays as it is."""
        for lock in list(locking._HELD):
            lock.release()
        self.dead.append(self.session)
        self.stores.append(self.session._open_store())

    def resume(self) -> None:
        before = self.rows()
        with drawing_from(self.seeds):
            self.session = pmw.resume_session(self.path, PEOPLE)
        self.grew(before)
        if before.pending is None:
            assert self.rows() == before

    # --- what holds -----------------------------------------------------------------------------------------

    def rows(self) -> Rows:
        with closing(SessionStore.open(self.path)) as store:
            return rows_of(store)

    def grew(self, before: Rows) -> None:
        """Nothing that was in the file has changed; what was pending has one outcome, or is as it was."""
        now = self.rows()
        for old, new in zip(before[:3], now[:3], strict=True):
            assert new[: len(old)] == old
        assert now.asked >= before.asked

    @invariant()
    def the_file_says_what_the_twin_says_and_the_books_add_up(self) -> None:
        now, twin, state = self.rows(), rows_of(self.twin._open_store()), self.session.state
        assert now.pending is None
        assert (*now[:2], now.threshold) == (*twin[:2], twin.threshold)
        told = [[(row.query, row.count, row.interval) for row in one.answers] for one in (now, twin)]
        assert told[0] == told[1]
        assert self.seeds.recorded == self.twin_seeds.recorded
        spent = sum((Fraction(row.rho) for row in now.ledger), Fraction(0))
        assert spent == self.session.ledger().spent == state.ledger.spent <= state.ledger.cap
        measured = [row for row in now.measurements if row.kind == "query"]
        assert len(measured) == state.positives_used == state.version <= 4
        rounds = [row for row in now.ledger if row.event.startswith("sparse vector")]
        assert len(rounds) == len(measured) + (state.round_open or self.left_open)
        assert (now.threshold is not None) == state.round_open
        stored = {row.query: row.count for row in now.answers}
        assert {text: stored[text] for text in self.told} == self.told

    def teardown(self) -> None:
        if hasattr(self, "session"):
            assert self.session.verify().holds
            self.session.close()
            self.twin.close()
            for store in self.stores:
                store.close()
        self.folder.cleanup()


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=10,
    stateful_step_count=8,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a file is slow to shrink
    suppress_health_check=[HealthCheck.too_slow],
)


def test_the_machine_reaches_what_it_is_for() -> None:
    # Else no crash would meet a positive.
    with opened() as session:
        session.ask_all(QUESTIONS)
        assert session.state.positives_used > 1
