"""Fair turns: small work passes large work, nobody is passed for ever, and a long request ends when told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pmw
from pmw.session.engine import Engine
from pmw.session.turns import TURN_WORK, Turns
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, QueryError
from queries.parsing import Question
from tests.waiting import WAIT


def begun(turns: Turns, work: Callable[[], None]) -> threading.Thread:
    """Start a thread, and return once it waits for its turn."""
    before = len(turns._waiting)
    thread = threading.Thread(target=work)
    thread.start()
    while len(turns._waiting) == before:
        thread.join(0.001)
        assert thread.is_alive()
    return thread


def test_first_come_is_first_served_and_a_long_turn_is_passed_by_short_ones() -> None:
    turns, order = Turns(), list[str]()

    def short(name: str) -> Callable[[], None]:
        def work() -> None:
            with turns:
                order.append(name)

        return work

    with turns:
        turns.pause(TURN_WORK - 1)  # not enough yet: nobody is let in
        threads = [begun(turns, short(name)) for name in "abc"]
        assert turns.awaited
        assert order == []
        turns.pause(1)
        order.append("long")
    for thread in threads:
        thread.join(WAIT)
    assert order == ["a", "b", "c", "long"]
    assert not turns.awaited


def test_nobody_is_passed_by_more_work_than_a_turn_holds() -> None:
    turns, order = Turns(), list[int]()
    done = threading.Event()

    def long() -> None:
        with turns:
            turns.pause(TURN_WORK)
            done.set()

    def short(number: int) -> None:
        with turns:
            order.append(number)
            turns.pause(TURN_WORK // 4)
            if number < 20 and not done.is_set():
                threads.append(begun(turns, lambda: short(number + 1)))  # there is always one that waits

    threads = list[threading.Thread]()
    with turns:
        threads.append(begun(turns, long))
        threads.append(begun(turns, lambda: short(0)))
    assert done.wait(WAIT)
    for thread in threads:
        thread.join(WAIT)
    assert len(order) <= 6


def test_a_turn_within_a_turn_waits_for_nothing_and_comes_back_whole() -> None:
    turns = Turns()

    def other() -> None:
        with turns:
            pass

    with turns, turns:
        thread = begun(turns, other)
        turns.pause(TURN_WORK)
        assert not turns.awaited
        thread.join(WAIT)
    with turns:
        assert turns._depth == 1


@pytest.fixture
def session(tmp_path: Path) -> Iterator[pmw.Session]:
    """A session whose groups are more than a turn holds."""
    domain = Domain(
        (IntegerAttribute("age", 0, 499), CategoricalAttribute("sex", ("Female", "Male"))), name="people"
    )
    frame = pd.DataFrame({"age": [20, 30, 40] * 100, "sex": ["Female", "Male", "Male"] * 100})
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=tmp_path / "s.pmw") as session:
        yield session


def test_a_stored_answer_waits_for_one_turn_of_a_long_request(
    session: pmw.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = session.ask("age >= 3")
    answered, seen, other = list[int](), list[int](), list[threading.Thread]()
    real = Engine.answer

    def counted(engine: Engine, asks: Any, *others: Any) -> Any:
        if len(asks) == 1 or other:
            return real(engine, asks, *others)
        other.append(begun(session._turn, lambda: seen.append(session.ask("age >= 3") == stored)))
        found = real(engine, asks, *others)
        answered.append(len(found))
        return found

    monkeypatch.setattr(Engine, "answer", counted)
    wheres = [f"age = {age} AND sex = 'Male'" for age in range(500)]
    long = [f"age >= {age} AND sex = 'Female'" for age in range(500)]
    answers = session.ask_all([*wheres, *long, *wheres, *long, *wheres], fresh=True)
    other[0].join(WAIT)
    assert seen == [True]
    assert 0 < answered[0] < len(answers) == 2500
    assert session.verify().holds
    assert session.status().queries_answered == 2502


class StoppedError(Exception):
    """Raised where a test stops the work."""


def test_what_is_told_to_stop_ends_and_what_was_answered_stands(session: pmw.Session) -> None:
    looks = 0

    def stop() -> None:
        nonlocal looks
        looks += 1
        if looks == 20:  # while the questions are read
            raise StoppedError

    wheres = [f"age = {age} AND sex = '{sex}'" for age in range(500) for sex in ("Female", "Male")]
    session.analyst("ann", stop=None).ask_all(wheres[:10])
    with pytest.raises(StoppedError):
        session.analyst("ann", stop=stop).ask_all([*wheres, *wheres])
    assert not session._turn.awaited
    assert session._turn._holder is None
    assert session.verify().holds
    again = session.ask_all(wheres[:10])
    assert session.status().queries_answered == 20
    assert len(again) == 10


def test_a_key_of_another_question_is_refused_before_a_long_request_is_asked(session: pmw.Session) -> None:
    queries = [LinearQuery.cells(session.domain, {"age": (age % 500, age % 500)}) for age in range(1500)]
    session.ask("age >= 3", request_id="k1400")
    before = session.status().queries_answered
    with pytest.raises(QueryError, match="k1400"):
        session.ask_all([Question(query, request_id=f"k{place}") for place, query in enumerate(queries)])
    assert session.status().queries_answered == before
