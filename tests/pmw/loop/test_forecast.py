"""Forecasts: no run of questions ever charges less than the least, or more than the most, that was told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.loop import forecast
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    parse_sql,
    parse_where,
    random_conjunctions,
)

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 19),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("region", ("n", "e", "s", "w")),
        CategoricalAttribute("member", (True, False)),
    ),
    name="people",
)


def table(kind: int) -> pd.DataFrame:
    """Return records whose attributes depend on one another, so that tests are positive."""
    generator = np.random.default_rng(kind)
    age = generator.integers(0, 20, 4000)
    return pd.DataFrame(
        {
            "age": age,
            "sex": np.where((age % 2 == 0) ^ (generator.random(4000) < 0.1), "f", "m"),
            "region": np.array(["n", "e", "s", "w"])[(age // 5 + (generator.random(4000) < 0.2)) % 4],
            "member": age + generator.integers(0, 5, 4000) > 12,
        }
    )


OPTIONS = [
    pmw.Options(),
    pmw.Options(update_limit=3),
    pmw.Options(test=pmw.TestKind.QUERY, update_limit=4),
    pmw.Options(opening=pmw.Opening.NONE, update_limit=4),
]


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "few", "questions", "nothing opened"])
@pytest.mark.parametrize("delta", ["1e-9", "0"])
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
def test_what_is_charged_lies_between_the_least_and_the_most(
    options: pmw.Options, delta: str, seed: int, size: int
) -> None:
    chosen = replace(options, seed=seed)
    with pmw.open_session(table(seed % 3), DOMAIN, epsilon=2, delta=delta, options=chosen) as session:
        queries = list(random_conjunctions(DOMAIN, 60, seed=seed))
        for start in range(0, len(queries), size):
            asked = queries[start : start + size]
            told, before = forecast(session.state, asked), session.state.ledger.share
            session.ask_all(asked, fresh=True)
            charged = session.state.ledger.share - before
            assert told.least - 1e-12 <= charged <= told.most + 1e-12
            assert (told.most > 0) or charged == 0


def test_a_session_tells_the_cost_of_every_form_of_question() -> None:
    options = pmw.Options(seed=1, test=pmw.TestKind.QUERY)
    with pmw.open_session(table(1), DOMAIN, epsilon=2, delta="1e-9", options=options) as session:
        where = parse_where("age >= 10 AND sex = 'f'", DOMAIN)
        told = session.forecast(where)
        assert (told.questions, told.stored) == (1, 0)
        assert 0 <= told.least < told.most
        assert "at most" in told.sentence()
        before = session.state
        grouped = session.forecast(
            parse_sql("SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region", DOMAIN)
        )
        assert grouped.questions == 8
        assert grouped.most >= told.most
        assert session.state is before
        session.ask(where)
        again = session.forecast(where)
        assert (again.stored, again.least, again.most) == (1, 0.0, 0.0)
        assert again.sentence() == "is free: it was answered before, and gets the same answer"
        session.finalize()
        later = session.forecast(parse_where("age >= 3 AND sex = 'm'", DOMAIN))
        assert later.sentence() == "is free: nothing is to be tested"
