"""Explanations: what a question would ask, what is held of it, and that telling so changes nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.evidence import Holding
from queries import CategoricalAttribute, Domain, IntegerAttribute, QueryError, parse_sql, parse_where

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 19),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcd")),
        IntegerAttribute("wide", 0, 999),
    ),
    name="people",
)


def opened(**choices: object) -> pmw.Session:
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": generator.integers(0, 20, 2000),
            "sex": generator.choice(["f", "m"], 2000),
            "grade": generator.choice(list("abcd"), 2000),
            "wide": generator.integers(0, 1000, 2000),
        }
    )
    options = pmw.Options(seed=1, **{"opening": pmw.Opening.ONE_WAY, **choices})  # type: ignore[arg-type]
    return pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9, options=options)


def test_every_count_of_a_statement_is_told_by_scope_and_costs_what_was_forecast() -> None:
    statement = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people WHERE grade <> 'a' GROUP BY sex"
    with opened() as session:
        before = session.state
        found = session.explain(statement)
        assert session.state is before
        assert [(one.scope, one.asked, one.left_out) for one in found.scopes] == [
            (("sex", "grade"), 2, 0),
            (("age", "sex", "grade"), 0, 2),
        ]
        assert found.scopes[0].examples == ("sex f and grade b to d", "sex m and grade b to d")
        assert found.forecast == session.forecast(parse_sql(statement, DOMAIN))
        spent = session.state.ledger.share
        session.sql(statement)
        assert session.state.ledger.share - spent <= found.forecast.most + 1e-12
        again = session.explain(statement)
        assert again.forecast.stored == again.forecast.questions == 2


def test_what_is_held_is_told_as_it_changes() -> None:
    where = parse_where("sex = 'f' AND grade = 'a'", DOMAIN)

    def held(session: pmw.Session) -> Holding:
        (one,) = session.explain(where).scopes
        return one.held

    with opened() as session:
        assert held(session) is Holding.PARTS
        session.measure(["sex", "grade"])
        assert held(session) is Holding.MEASURED
        assert session.explain("SELECT AVG(age) FROM people").scopes[0].held is Holding.OPENING
    with opened(opening=pmw.Opening.NONE) as session:
        assert held(session) is Holding.NOTHING


def test_what_is_not_asked_is_told_with_its_scope() -> None:
    with opened() as session:
        found = session.explain("SELECT grade, AVG(age) AS w FROM people WHERE sex = 'f' GROUP BY grade")
        (one,) = found.scopes
        assert (one.asked, one.left_out, one.quote) == (0, 4, None)  # too many cells for the noise
        assert "Not asked, for nothing would be tested for them: 4 counts." in found.to_text()
        assert "To ask is free: the model answers. Nothing was asked or spent." in found.to_text()
        assert max(map(len, found.to_text().splitlines())) < 150
        assert found.to_dict()["scopes"][0]["quote"] is None


def test_prices_are_those_of_the_account() -> None:
    with opened() as session:
        poor = session.analyst("ann", share=1e-6)
        query = parse_where("sex = 'f' AND grade = 'a'", DOMAIN)
        quotes = [one.explain(query).scopes[0].quote for one in (session, poor)]
        assert [quote is not None and quote.affordable for quote in quotes] == [True, False]
        assert "not left" in poor.explain(query).to_text()
        assert poor.explain(query).forecast.most == 0
        with pytest.raises(QueryError):
            session.explain("DROP TABLE people")
