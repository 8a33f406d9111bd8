"""Marginals on request, and what finishing spends: price and bar beforehand, the ledger line, refusals."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmw
from pmw.errors import SessionError
from pmw.loop.finishing import plan_finish
from pmw.model.measurement import MarginalMeasurement, combined
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.charges import CellNumbers, marginal_charge
from pmw.public.options import TestKind
from pmw.public.plans import marginal_tier
from pmw.public.quotes import affordable_price
from queries import LinearQuery, QueryError, parse_where, random_conjunctions
from tests.pmw.session.stored import failed
from tests.worlds import WHOLE_YEARS, ends

Opened = Callable[..., pmw.Session]

PAIR = "sex = 'Female' AND region = 'north'"


def width(answer: pmw.Answer) -> float:
    low, high = ends(answer)
    return (high - low) / 2


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("composition", list(Composition))
def test_the_quoted_price_is_the_ledgers_line_and_the_quoted_bar_the_answers(
    opened: Opened, composition: Composition, relation: NeighboringRelation
) -> None:
    with opened(composition=composition, neighboring_relation=relation, seed=3) as session:
        before = session.state.ledger.spent
        quote = session.measure(["region", "sex"], dry_run=True)
        assert session.state.ledger.spent == before
        assert quote == session.measure(("sex", "region"))
        line = session.ledger().lines[-1]
        assert (line.event, line.label, line.share) == ("requested", "sex, region", quote.share)
        assert session.state.ledger.spent == before + line.price
        assert session.status().positives_used == 0
        assert (quote.scope, quote.cells, quote.affordable) == (("sex", "region"), 4 * 6, True)
        bars = [session.ask(PAIR), session.ask("sex = 'Male' AND region = 'east'")]
        assert session.state.ledger.spent == before + line.price  # answered without a test
        assert [width(answer) for answer in bars] == pytest.approx([quote.half_width] * 2, rel=1e-9)
        assert session.verify().holds


@pytest.mark.parametrize("composition", list(Composition))
def test_a_question_within_a_width_costs_the_least_that_gives_it(
    opened: Opened, composition: Composition
) -> None:
    with opened(composition=composition, seed=3, epsilon=8) as session:
        for wanted in (60.0, 30.0):  # the second one tops up the first
            before = session.state.ledger.spent
            quote = session.quote(PAIR, wanted)
            assert quote.needed
            assert wanted * 0.999 < quote.half_width <= wanted
            answer = session.ask_within(PAIR, wanted)
            line = session.ledger().lines[-1]
            assert (session.state.ledger.spent - before, line.share) == (line.price, quote.share)
            assert width(answer) == pytest.approx(quote.half_width, rel=1e-9)
            assert answer == session.ask(PAIR)  # stored as the newest
            assert answer.source is pmw.Source.SYNTHETIC
        spent = session.state.ledger.spent
        free = session.quote(PAIR, 30.5)
        assert (free.needed, free.share, free.affordable) == (False, 0.0, True)
        assert width(session.ask_within(PAIR, 30.5)) <= 30
        assert session.state.ledger.spent == spent
        assert session.verify().holds
        in_two = requested_of(session)
    with opened(composition=composition, seed=3, epsilon=8) as session:  # topping up costs the difference
        session.ask_within(PAIR, 30.0)
        direct = requested_of(session)
    if composition is not Composition.PURE:
        assert float(in_two) == pytest.approx(float(direct), rel=1e-4)
    else:
        assert float(in_two) > 1.05 * float(direct)


def requested_of(session: pmw.Session) -> Fraction:
    return sum((line.price for line in session.ledger().lines if line.event == "requested"), Fraction(0))


# --- faults -----------------------------------------------------------------------------------------------


def test_a_request_that_took_what_a_round_had_reserved_is_found(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(seed=3, update_limit=4) as session:
        asked = iter(["age < 40 AND sex = 'Male'", "sex = 'Male' AND member = TRUE", PAIR])
        while not session.state.rounds[0]:
            session.ask(next(asked))
        with monkeypatch.context() as patch:
            patch.setattr("pmw.public.quotes.reserved_by_rounds", lambda *_: Fraction(0))
            while session.measure("sex", dry_run=True).affordable:
                session.measure("sex")
        failed = [check.detail for check in session.verify().checks if not check.holds]
        assert len(failed) == 1
        assert "took what an open round had reserved" in failed[0]


ALTERED = (
    "UPDATE measurements SET noise = replace(noise, 'ma\":\"', 'ma\":\"1') WHERE kind = 'requested'",
    "UPDATE measurements SET kind = 'measured' WHERE kind = 'requested'",
    "UPDATE ledger SET rho = '1/1152921504606846976' WHERE event = 'requested'",
    "UPDATE ledger SET event = 'marginal' WHERE event = 'requested'",
    "DELETE FROM ledger WHERE event = 'requested'",
)


def test_an_altered_scale_or_a_missing_charge_is_found(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with opened(path) as session:
        session.measure(["sex", "region"])
    whole = path.read_bytes()
    for statement in ALTERED:
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as connection, connection:
            assert connection.execute(statement).rowcount == 1
        assert len(failed(path)) > 1, statement  # not the checksums alone


# --- refusals ---------------------------------------------------------------------------------------------


def test_what_cannot_be_measured_is_refused_and_costs_nothing(opened: Opened) -> None:
    with opened(seed=3) as session:
        before = session.state.ledger.spent
        for names, told in (
            (["height"], "expected an attribute of the schema, got 'height'"),
            (["sex", "sex"], "each once"),
            ([], "expected one attribute or several"),
            (["age", "sex", "region", "member"], "noise would hide"),
        ):
            with pytest.raises(QueryError, match=told):
                session.measure(names)
        for within in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(pmw.BudgetError, match="expected a number above 0"):
                session.ask_within(PAIR, within)
        with pytest.raises(QueryError, match="no noise has a bar"):
            session.ask_within(PAIR, 1e-9)
        too_much = session.quote(PAIR, 1.0)
        assert not too_much.affordable
        assert too_much.share > 1
        with pytest.raises(pmw.BudgetExhaustedError, match="nothing was spent"):
            session.ask_within(PAIR, 1.0)
        assert session.state.ledger.spent == before
        session.finalize()
        for refused in (lambda: session.measure("sex"), lambda: session.ask_within(PAIR, 50.0)):
            with pytest.raises(SessionError, match="closed"):
                refused()


def test_a_question_that_cuts_a_bin_has_a_number_of_its_own(opened: Opened) -> None:
    with opened(seed=3) as session:
        state, told = session.state, 0
        for age in range(20, 60):
            query = LinearQuery.cells(WHOLE_YEARS.domain, {"age": (0, age - 20)})
            if state.grid(query.scope) is WHOLE_YEARS.domain or state.coarsening.is_aligned(query):
                continue
            quote = session.quote(query, 5.0)
            assert quote.of_questions or not quote.needed
            told += 1
        assert told > 3


@pytest.mark.parametrize(
    ("choices", "told"),
    [({"test": TestKind.QUERY}, "single questions"), ({"simultaneous": True}, "for all questions at once")],
)
def test_a_session_without_room_for_requests_says_why(
    opened: Opened, choices: dict[str, Any], told: str
) -> None:
    with opened(**choices) as session:
        before = session.state.ledger.spent
        for use in (lambda: session.measure("sex"), session.finish):
            with pytest.raises(SessionError, match=told):
                use()
        assert session.state.ledger.spent == before
        assert not session.state.closed


def test_a_combined_marginal_weighs_by_inverse_variance() -> None:
    parts = [
        MarginalMeasurement(("a",), np.array([3, 6]) << 20, DiscreteGaussian(Fraction(sigma << 20)))
        for sigma in (1, 2)
    ]
    (both,) = combined([parts[0], MarginalMeasurement(("a",), np.array([8, 1]) << 20, parts[1].noise)])
    assert both.values == pytest.approx([0.8 * 3 + 0.2 * 8, 0.8 * 6 + 0.2 * 1])
    assert both.cell_variances == pytest.approx([0.8, 0.8])
    assert both.peak == pytest.approx(0.64)
    assert both.noise == parts[0].noise


ADD, REPLACE = NeighboringRelation


@pytest.mark.parametrize(
    ("composition", "relation", "persons"),
    [
        (Composition.PURE, ADD, 1), (Composition.PURE, REPLACE, 3), (Composition.ZCDP, ADD, 3),
        (Composition.ZCDP, REPLACE, 1), (Composition.GDP, ADD, 1), (Composition.GDP, REPLACE, 3),
    ],
)  # fmt: skip
def test_what_is_left_is_spent_and_charged_and_nothing_is_spent_after(
    opened: Opened, composition: Composition, relation: NeighboringRelation, persons: int
) -> None:
    choices = {"neighboring_relation": relation, "records_per_person": persons, "seed": 3}
    with opened(composition=composition, epsilon=3, **choices) as session:
        session.ask_all(list(random_conjunctions(WHOLE_YEARS.domain, 40, seed=9)))
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
    with opened(seed=1, composition=Composition.ZCDP) as session:  # which was asked nothing
        spent = session.state.ledger.spent
        assert (session.asked(), session.finish()) == ((), ())
        assert session.state.closed
        assert session.state.ledger.spent == spent
    with opened(seed=1, epsilon=8, composition=Composition.ZCDP) as session:
        all_ = [*often, "sex = 'Male' AND member = true"]
        session.ask_all([*all_, *often[:3]])
        expected = [parse_where(text, WHOLE_YEARS.domain) for text in all_]
        assert [one.to_json() for one in session.asked()] == [one.to_json() for one in expected]
        scopes = [set(one.scope) for one in session.finish(dry_run=True)]
        assert {"age", "region"} <= scopes[0]
        assert plan_finish(session.state, session.asked()) == session.finish(dry_run=True)
