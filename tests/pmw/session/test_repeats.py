"""Repeated questions: the stored answer, until a newer model has a bar that is narrower by a tenth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.measurement import MarginalMeasurement
from pmw.public.answer import Answer, Source, Spent
from pmw.public.answers import Answers
from pmw.public.sums import Estimate
from pmw.session.loading import load_scopes
from pmw.session.repeats import is_better, widths_of
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute
from queries.questions import Products
from tests import worlds

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 29),
        IntegerAttribute("hours", 0, 9),
        CategoricalAttribute("sex", ("f", "m")),
        IntegerAttribute("income", 0, 9),
    ),
    "people",
)
NAMES = ("age", "hours")


def people(records: int = 4000) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    age = generator.integers(0, 30, records)
    hours = np.clip(age // 3 + generator.integers(-1, 2, records), 0, 9)
    sex = np.where(generator.random(records) < 0.3 + age / 60, "f", "m")
    income = np.clip(age // 3 + generator.integers(0, 3, records), 0, 9)
    return pd.DataFrame({"age": age, "hours": hours, "sex": sex, "income": income})


def opened(path: Path | None = None, **options: Any) -> pmw.Session:
    seed = 3 if path is None else None  # a seeded session has no file
    return worlds.opened(people(), DOMAIN, path, epsilon=1, seed=seed, **options)


@pytest.fixture
def session() -> Iterator[pmw.Session]:
    with opened() as found:
        yield found


def ranges(count: int = 3, names: tuple[str, ...] = NAMES) -> Products:
    first = [[place % 5] * len(names) for place in range(count)]
    last = [[5 + place // 5 % 5] * len(names) for place in range(count)]
    return Products.of_ranges(DOMAIN, names, first, last)


def width(answer: Answer | Estimate) -> float:
    return math.inf if answer.interval is None else answer.interval[1] - answer.interval[0]


def stored(session: pmw.Session) -> int:
    """Return how many answers the file holds."""
    return sum(1 for _ in session._open_store().answers.each())


def first_numbers(session: pmw.Session) -> list[int]:
    """Return the numbers of the answers that error quantiles may look at."""
    found = session._open_store().answers.first_answers().values()
    return sorted(number for numbers, _ in found for number in numbers.tolist())


def reader(session: pmw.Session) -> pmw.Analyst:
    """Return somebody for whom nothing may be charged, so that nothing is tested."""
    return session.analyst("reader", 0)


def measured(session: pmw.Session) -> None:
    session.measure(NAMES)


def answer(version: int, source: Source) -> Answer:
    return Answer(5.0, 0.1, (0.0, 10.0), 0.95, source, True, version, Spent(0.0, 1.0, 0.0))


HELD, UNTESTED = Source.SYNTHETIC, Source.UNVERIFIED


@pytest.mark.parametrize(
    ("before", "now", "widths", "better"),
    [
        ((0, HELD), (1, HELD), (10, 9), True),
        ((0, HELD), (1, HELD), (10, 9.01), False),
        ((1, HELD), (1, HELD), (10, 1), False),  # of the same model
        ((2, HELD), (1, HELD), (10, 1), False),
        ((0, HELD), (1, HELD), (0, 0), False),
        ((0, HELD), (1, UNTESTED), (10, math.inf), False),
        ((0, UNTESTED), (1, HELD), (math.inf, 1e9), True),
        ((1, UNTESTED), (1, HELD), (math.inf, 1e9), True),  # a test since has bounded it
        ((0, UNTESTED), (1, UNTESTED), (math.inf, math.inf), True),  # its parts are those of the newest state
        ((1, UNTESTED), (1, UNTESTED), (math.inf, math.inf), False),
    ],
)
def test_a_newer_bar_is_better_if_it_is_narrower_by_a_tenth(
    before: tuple[int, Source], now: tuple[int, Source], widths: tuple[float, float], better: bool
) -> None:
    with opened() as session:
        stored, newer = (Answers.of(session.state, [answer(*one)]) for one in (before, now))
    assert is_better(stored, newer, np.array(widths).reshape(2, 1)).tolist() == [better]


def test_which_answer_is_kept_does_not_depend_on_what_was_measured(session: pmw.Session) -> None:
    boxes = ranges(40)
    session.answer_arrays(NAMES, *boxes.ends())
    stored = session.answer_arrays(NAMES, *boxes.ends())
    measured(session)
    state = session.state
    one = state.measured[-1]
    assert isinstance(one, MarginalMeasurement)
    moved = replace(
        one, units=one.units + np.random.default_rng(1).integers(-400, 400, one.units.shape) * UNITS
    )
    other = replace(state, measured=(*state.measured[:-1], moved))
    before, now = widths_of(state, stored, boxes)
    np.testing.assert_array_equal(widths_of(other, stored, boxes), [before, now])
    assert (now < before).any()


def test_a_repeated_question_gets_the_answer_of_a_better_model_and_keys_keep_theirs(
    session: pmw.Session,
) -> None:
    query, other = ranges().query(0), ranges(2).query(1)
    old, keyed = reader(session).ask(query), session.analyst("eve", 0).ask(other, request_id="first")
    own = reader(session).ask(other, request_id="own")
    measured(session)
    spent, asked, count = session.state.ledger.spent, session.state.asked, stored(session)
    new = session.ask(query)
    assert (old.version, new.version) == (0, 1)
    assert width(new) <= 0.9 * width(old)
    assert [one.version for one in session._open_store().answers.each()][-1] == 1
    assert stored(session) == count + 1
    assert session.ask(query) == new
    assert stored(session) == count + 1
    assert session.analyst("eve", 0).ask(other, request_id="first") == keyed
    for fresh in (False, True):
        assert reader(session).ask(other, request_id="own", fresh=fresh) == own
    newer = session.ask(other, request_id="second")  # a key of its own: a repeated question
    assert width(newer) <= 0.9 * width(own)
    assert session.ask(other, request_id="second") == newer
    assert reader(session).ask(other, request_id="own") == own
    assert (session.state.ledger.spent, session.state.asked) == (spent, asked)
    assert session.verify().holds


def test_better_answers_count_as_no_further_questions(session: pmw.Session) -> None:
    boxes = ranges(100)
    ann, bob = session.analyst("ann", 0), session.analyst("bob", 0)
    single = ranges(1, ("hours", "income")).query(0)
    for one in (ann, bob):
        one.answer_arrays(NAMES, *boxes.ends())
        one.ask(single)
    distinct = len(boxes.distinct()[0])
    store = session._open_store()
    store.tell()
    counts, firsts = store.answers.question_counts(), first_numbers(session)
    scopes, asked = load_scopes(store, DOMAIN), session.state.asked
    assert counts == {"": 0, "ann": distinct + 1, "bob": distinct + 1}
    measured(session)
    session.measure(("hours", "income"))
    askers: tuple[pmw.Session | pmw.Analyst, ...] = (bob, ann, session, bob)
    for asker in askers:
        asker.answer_arrays(NAMES, *boxes.ends())
        assert asker.ask(single).version == 2
    assert stored(session) > 1.9 * distinct  # all but those about nearly everybody
    assert store.answers.question_counts() == counts
    assert load_scopes(store, DOMAIN) == scopes
    assert first_numbers(session) == firsts
    assert session.state.asked == asked == store.answers.count() == distinct + 1
    assert store.asked() == 6 * (100 + 1)
    assert session.verify().holds


# --- asked afresh -------------------------------------------------------------------------------------------


def test_a_fresh_question_at_the_same_model_is_the_stored_answer_and_nothing_is_charged() -> None:
    with opened() as session:
        boxes = ranges(10)
        queries = [boxes.query(place) for place in range(len(boxes))]
        session.ask_all(queries)
        newest = [one for one in session.ask_all(queries, fresh=True) if one.version == session.state.version]
        assert newest
        session.ask_all(queries, fresh=True)
        settled = session.ask_all(queries, fresh=True)
        session.measure(("hours", "income"))
        session.ask_all(queries, fresh=True)
        count, ledger, intent = stored(session), session.ledger(), session._open_store().last_intent()
        settled, certificates = session.ask_all(queries, fresh=True), session.state.certificates
        for _ in range(3):
            assert session.ask_all(queries) == session.ask_all(queries, fresh=True) == settled
            assert session.ask_all([queries[0]] * 5, fresh=True) == [settled[0]] * 5
            session.answer_arrays(NAMES, *boxes.ends(), fresh=True)
        assert stored(session) == count
        assert session.ledger() == ledger
        assert session.state.certificates is certificates
        assert session._open_store().last_intent() == intent
        assert session.verify().holds


def test_an_answer_that_no_test_decided_gives_way_to_one_that_a_test_since_bounded() -> None:
    with opened(test=pmw.TestKind.QUERY) as session:
        query = ranges().query(0)
        assert reader(session).ask(query).source is Source.UNVERIFIED
        assert session.ask(query, fresh=True).source in (Source.SYNTHETIC, Source.MEASURED)
        assert reader(session).ask(query, fresh=True).source in (Source.SYNTHETIC, Source.MEASURED)
