"""Forecasts: no run of questions ever charges less than the least, or more than the most, that was told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.loop.loop import forecast
from queries import parse_sql, parse_where, random_conjunctions
from tests.worlds import YEARS

OPTIONS: list[dict[str, Any]] = [
    {},
    {"update_limit": 3},
    {"test": pmw.TestKind.QUERY, "update_limit": 4},
    {"opening": pmw.Opening.NONE, "update_limit": 4},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "few", "questions", "nothing opened"])
@pytest.mark.parametrize("delta", [1e-9, 0])
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
def test_what_is_charged_lies_between_the_least_and_the_most(
    options: dict[str, Any], delta: float, seed: int, size: int
) -> None:
    with YEARS.opened(delta=delta, seed=seed, **options) as session:
        queries = list(random_conjunctions(session.domain, 60, seed=seed))
        for start in range(0, len(queries), size):
            asked = queries[start : start + size]
            told, before = forecast(session.state, asked), session.state.ledger.share
            session.ask_all(asked, fresh=True)
            charged = session.state.ledger.share - before
            assert told.least - 1e-12 <= charged <= told.most + 1e-12
            assert (told.most > 0) or charged == 0


def test_a_session_tells_the_cost_of_every_form_of_question() -> None:
    with YEARS.opened(seed=1, test=pmw.TestKind.QUERY) as session:
        domain = session.domain
        where = parse_where("age >= 40 AND sex = 'Female'", domain)
        told = session.forecast(where)
        assert (told.questions, told.stored) == (1, 0)
        assert 0 <= told.least < told.most
        assert "at most" in told.sentence()
        before = session.state
        grouped = session.forecast(
            parse_sql("SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region", domain)
        )
        assert grouped.questions == 12
        assert grouped.most >= told.most
        assert session.state is before
        session.ask(where)
        again = session.forecast(where)
        assert (again.stored, again.least, again.most) == (1, 0.0, 0.0)
        assert again.sentence() == "is free: it was answered before, and gets the same answer"
        session.finalize()
        later = session.forecast(parse_where("age >= 33 AND sex = 'Male'", domain))
        assert later.sentence() == "is free: nothing is to be tested"
