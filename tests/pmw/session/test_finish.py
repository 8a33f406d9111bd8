"""Finishing: what is left is spent on what was asked, charged as any request; then the session is closed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

import pmw
from pmw.loop.finishing import plan_finish
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.public.charges import CellNumbers, marginal_charge
from pmw.public.plans import marginal_tier
from pmw.public.quotes import affordable_price
from queries import Domain, LinearQuery, parse_where, random_conjunctions
from tests.worlds import WHOLE_YEARS

Opened = Callable[..., pmw.Session]
ADD, REPLACE = NeighboringRelation


def questions(domain: Domain, size: int = 40) -> list[LinearQuery]:
    return list(random_conjunctions(domain, size, seed=9))


@pytest.mark.parametrize(("relation", "persons"), [(ADD, 1), (ADD, 3), (REPLACE, 1), (REPLACE, 3)])
@pytest.mark.parametrize("composition", list(Composition))
def test_what_is_left_is_spent_and_charged_and_nothing_is_spent_after(
    opened: Opened, composition: Composition, relation: NeighboringRelation, persons: int
) -> None:
    choices = {"neighboring_relation": relation, "records_per_person": persons, "seed": 3}
    with opened(composition=composition, epsilon=3, **choices) as session:
        session.ask_all(questions(WHOLE_YEARS.domain))
        before, left = session.state, affordable_price(session.state)
        planned = session.finish(dry_run=True)
        assert session.state is before
        quotes = session.finish()
        assert quotes == planned
        after, options = session.state, before.contract.options
        spent = after.ledger.spent - before.ledger.spent
        entries = [
            CellNumbers(one.scope).entry(one.noise, options) for one in quotes if one.noise is not None
        ]
        assert spent == sum(after.ledger.price(entry.charge) for entry in entries)
        assert [entry.charge for entry in entries] == [
            marginal_charge(one.noise, options) for one in quotes if one.noise is not None
        ]
        plan = marginal_tier(before.plan)
        assert plan is not None
        least = after.ledger.price(marginal_charge(plan.noise, options))
        assert (0.97 * left < spent <= left) if left >= least else not quotes
        assert all(after.ledger.price(entry.charge) >= least * Fraction(99, 100) for entry in entries)
        assert after.closed
        assert len(after.measured) == len(before.measured) + len(quotes)
        assert session.verify().holds
        with pytest.raises(pmw.SessionError, match="closed"):
            session.finish()
        session.ask("age = 33 AND sex = 'Male'", fresh=True)
        assert session.state.ledger.spent == after.ledger.spent


def test_the_marginals_are_those_that_the_most_questions_rest_on(opened: Opened) -> None:
    often = [f"age = {age} AND region = 'east'" for age in range(20, 50)]
    with opened(seed=1, epsilon=8, composition=Composition.ZCDP) as session:
        all_ = [*often, "sex = 'Male' AND member = true"]
        session.ask_all([*all_, *often[:3]])
        expected = [parse_where(text, WHOLE_YEARS.domain) for text in all_]
        assert [one.to_json() for one in session.asked()] == [one.to_json() for one in expected]
        scopes = [set(one.scope) for one in session.finish(dry_run=True)]
        assert {"age", "region"} <= scopes[0]
        assert plan_finish(session.state, session.asked()) == session.finish(dry_run=True)


def test_a_session_that_was_asked_nothing_is_only_closed(opened: Opened) -> None:
    with opened(seed=1, composition=Composition.ZCDP) as session:
        spent = session.state.ledger.spent
        assert session.asked() == ()
        assert session.finish() == ()
        assert session.state.closed
        assert session.state.ledger.spent == spent
