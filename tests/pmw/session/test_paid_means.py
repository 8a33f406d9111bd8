"""Sessions with a reserve: means and sums with wide bars are paid for, once, for a statement's groups."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pmw
from pmw.errors import PriceError
from pmw.loop.purchases import offered
from pmw.loop.untested import Requested
from pmw.model.measurement import SummedRows
from pmw.planning import mean_quotes
from pmw.planning.mean_quotes import unclear_values
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.charges import Event, SumNumbers
from pmw.public.clear import FULL, full_price
from pmw.public.sums import Sums
from queries import Domain, IntegerAttribute
from queries.parsing import parse_sql
from queries.person import Person
from tests import worlds
from tests.pmw.session.test_mean_bars import DOMAIN, FRAME, GROUPS, THREE, truths

PRICE = 0.3 * 0.85 / (2 * FULL)  # of the budget: a number at the full price
BOTH = GROUPS.replace("AVG(pay) AS a", "AVG(pay) AS a, COUNT(*) AS n").replace(
    "hour < 12", "hour < 12 AND sex = 'f' AND smoker = 'yes'"
)
NARROW = "SELECT AVG(pay) AS a FROM people"
ALONE = "SELECT AVG(pay) AS a FROM people WHERE hour < 12 AND region = 'n'"


def opened(path: Path | None = None, **choices: Any) -> pmw.Session:
    settled = {"epsilon": 4, "opening": pmw.Opening.PAIRS, "reserve": Fraction(3, 10)}
    seed = {"seed": None if path else 4}
    return worlds.opened(FRAME, choices.pop("domain", DOMAIN), path, **{**settled, **seed, **choices})


def bought(session: pmw.Session) -> list[SummedRows]:
    return [one.summed for one in session.state.sums if isinstance(one.summed, SummedRows)]


def widths(table: Any) -> list[float]:
    return [(high - low) / 2 for low, high in (one.interval for one in table.column("a")[:4])]


# --- what is paid for ---------------------------------------------------------------------------------------


def test_a_wide_mean_is_paid_for_once_and_a_narrow_one_never() -> None:
    with opened(seed=6) as session:
        before = len(session.ledger().lines)
        assert session.sql(NARROW).spent.charged == 0
        assert len(session.ledger().lines) == before
        free = session.sql(GROUPS, at_most=0)
        table = session.sql(GROUPS)
        (line,) = session.ledger().lines[before:]
        assert (line.event, line.label) == (Event.SUM, "pay of 5 by hour, region")
        assert table.spent.charged == line.share == pytest.approx(PRICE, rel=1e-3)
        assert max(widths(table)) < 0.3 * max(widths(free))
        for key, one in zip(table.column("region")[:4], table.column("a"), strict=False):
            assert one.interval[0] <= truths("hour < 12")[key] <= one.interval[1]
        for again in (
            session.sql(GROUPS),
            session.sql(GROUPS, fresh=True),
            session.mean("pay", "hour < 12", "region"),
        ):
            assert again.spent.charged == 0
            assert [*again.estimates()] == [*table.estimates()]
        assert len(session.ledger().lines) == before + 1
        assert session.verify().holds


def test_a_sum_is_paid_for_as_a_mean_is_and_so_is_what_is_made_of_them() -> None:
    for shown in ("SUM(pay)", "ROUND(AVG(pay), 1)", "AVG(pay / 2 + 1)", "AVG(pay) FILTER (WHERE sex = 'f')"):
        with opened() as session:
            statement = f"SELECT region, {shown} AS a FROM people WHERE hour < 12 GROUP BY region"
            free, paid = session.sql(statement, at_most=0), session.sql(statement)
            assert paid.spent.charged == pytest.approx(PRICE, rel=1e-3)
            assert sum(widths(paid)) < 0.7 * sum(widths(free))
            assert session.sql(statement).spent.charged == 0


def test_all_groups_are_paid_for_or_none_whatever_answers_choose() -> None:
    chosen = f"{GROUPS} HAVING AVG(pay) > 35 ORDER BY a DESC LIMIT 1"
    with opened() as session:
        assert session.sql(chosen).spent.charged == pytest.approx(PRICE, rel=1e-3)
        (rows,) = bought(session)
        assert len(rows.rows) == 5
        assert session.sql(ALONE).spent.charged == 0  # it is one of them


def test_what_cells_do_not_decide_is_answered_free() -> None:
    with opened() as session:
        for where in ("pay > 33 AND hour < 12", "region = 'n' AND region = 's'"):
            assert session.sql(f"SELECT AVG(pay) AS a FROM people WHERE {where}").spent.charged == 0
        assert bought(session) == []


def test_counts_and_means_are_two_purchases_and_both_are_told() -> None:
    with opened() as session:
        before = len(session.ledger().lines)
        table = session.sql(BOTH)
        lines = session.ledger().lines[before:]
        assert [line.event for line in lines] == [Event.ROWS, Event.SUM]
        assert table.spent.charged == pytest.approx(sum(line.share for line in lines))
        assert all(line.price <= full_price(session.state) for line in lines)
        assert session.sql(BOTH).spent.charged == 0


def test_values_of_two_attributes_share_one_price() -> None:
    both = GROUPS.replace("AVG(pay) AS a", "AVG(pay) AS a, AVG(hour) AS b").replace("hour < 12", "sex = 'f'")
    hour = IntegerAttribute("hour", 0, 23, resolution=1)
    domain = replace(DOMAIN, attributes=(hour, *DOMAIN.attributes[1:]))
    with opened(domain=domain, epsilon=1) as session:
        table = session.sql(both)
        assert len(bought(session)) == 2
        assert table.spent.charged == pytest.approx(PRICE, rel=1e-2)
        lines = session.ledger().lines[-2:]
        assert lines[0].price == pytest.approx(lines[1].price, rel=1e-2)
        assert session.sql(both).spent.charged == 0


# --- prices follow scales and released numbers -------------------------------------------------------------


def far_off(requested: Requested, numbers: NDArray[np.int64], bits: Any) -> Any:
    """Return what is measured as it might come out: next to no values, hence the widest bars."""
    found = REALLY(requested, numbers, bits)
    return (
        replace(found, units=np.zeros_like(found.units)) if isinstance(requested.what, SumNumbers) else found
    )


REALLY = Requested.measured


@pytest.mark.parametrize("statement", [GROUPS, THREE, BOTH])
def test_however_wide_bars_came_out_they_are_not_bought_again(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Requested, "measured", far_off)
    with opened() as session:
        assert session.sql(statement).spent.charged > 0
        assert len(bought(session)) == 1
        for _ in range(2):
            assert session.sql(statement, fresh=True).spent.charged == 0


def test_means_are_taken_to_be_what_opening_knows_of_them_whatever_was_drawn_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[float]] = []
    present = mean_quotes._present

    def noted(state: Any, statement: Any, asked: Any) -> Any:
        seen.append([one.value for one in asked])
        return present(state, statement, asked)

    monkeypatch.setattr(mean_quotes, "_present", noted)
    with opened() as session:
        session.sql_within(GROUPS, 20, at_most=1)  # at a lower price, so that it may be paid for again
        session.sql(GROUPS)
    with opened() as session:
        session.sql(GROUPS)
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.parametrize("seed", range(1, 7))
def test_what_was_drawn_enters_no_price(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(seed=seed) as one, opened(seed=seed) as other:
        one.sql(GROUPS)
        monkeypatch.setattr(Requested, "measured", far_off)
        other.sql(GROUPS)
        assert one.ledger().lines == other.ledger().lines
        for statement in (THREE, ALONE, BOTH):
            prices = [session.explain(statement).forecast.most for session in (one, other)]
            assert prices[0] == prices[1]


def test_the_width_that_is_paid_for_is_that_of_the_fewest_records_that_released_numbers_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where these are so few that a sum tells nothing of their mean, nothing is drawn."""
    wheres = "SELECT AVG(pay) AS a FROM people WHERE region = 'w' AND hour < 12"
    with opened() as session:
        statement, price = parse_sql(wheres, session.domain), full_price(session.state)
        assert len([*unclear_values(session.state, statement, price)]) == 1
        model = Sums(session.state, statement).ends
        few = {2.0: 0, 40.0: 0, 4000.0: 1}
        for low, wanted in few.items():
            monkeypatch.setattr(Sums, "ends", lambda *_, low=low: (low, 5000.0))
            assert len([*unclear_values(session.state, statement, price)]) == wanted, low
        assert model is not None


def test_sums_cost_what_was_offered_and_no_less() -> None:
    with opened() as session:
        state = session.state
        offer = offered(state, state.ledger.remaining, 0)
        assert offer is not None
        for statement in (GROUPS, THREE, BOTH):
            ((what, noise),) = unclear_values(state, parse_sql(statement, DOMAIN), offer.price)
            price = state.ledger.price(what.charge(noise, state.contract.options))
            assert offer.price * Fraction(999, 1000) <= price <= offer.price


def test_the_next_number_counts_sums_among_those_that_were_bought() -> None:
    where = "hour < 12 AND sex = 'f' AND region = 'n' AND smoker = 'yes'"
    with opened() as session, opened() as other:
        poor, same = session.analyst("poor", 0.0016), other.analyst("poor", 0.0016)
        first = poor.sql(GROUPS, at_most=1).spent.charged
        asked = same.ask(where, at_most=1).spent.charged
        assert 0 < first == pytest.approx(asked, rel=1e-3)
        after = poor.ask(where, at_most=1).spent.charged
        then = same.ask(where.replace("'n'", "'e'"), at_most=1).spent.charged
        assert 0 < after == pytest.approx(then, rel=1e-2)
        assert after < 0.9 * first
        booked = [line.booked for line in session.ledger().lines[-2:]]
        assert booked == [(("poor", Fraction(1)),)] * 2
        assert session._engine.bookings.bought("", session.state.ledger) == 0  # opening's are no purchase


# --- ceilings and shares -----------------------------------------------------------------------------------


def test_whoever_pays_nothing_has_a_free_answer() -> None:
    with opened() as session:
        reader, payer = session.analyst("reader", 0), session.analyst("payer", 0.5)
        before = session.state.ledger.spent
        free = reader.sql(GROUPS)
        assert session.sql(GROUPS, at_most=0).spent.charged == 0
        assert (session.state.ledger.spent, free.spent.charged) == (before, 0)
        paid = payer.sql(GROUPS, at_most=1)
        assert paid.spent.charged > 0
        assert [*reader.sql(GROUPS).estimates()] == [*paid.estimates()]


@pytest.mark.parametrize("share", [0.0065, 0.0055, 0.004])
def test_a_statement_never_charges_more_than_a_share(share: float) -> None:
    with opened() as session:
        analyst = session.analyst("ann", share)
        where = "sex = 'f' AND smoker = 'yes'"
        counted = f"SELECT region, AVG(pay) AS a, COUNT(*) AS n FROM people WHERE {where} GROUP BY region"
        analyst.sql(counted, at_most=1)
        booked = analyst.budget()
        assert 0 < booked.spent <= analyst.most
        assert booked.left is not None


def test_a_price_above_the_ceiling_is_refused_before_anything_is_drawn() -> None:
    with opened() as session:
        analyst, before = session.analyst("ann", 0.5), session.state.ledger.spent
        for statement, told in ((GROUPS, r"0\.08%"), (BOTH, r"0\.15%")):
            with pytest.raises(PriceError, match=f"This can cost {told}"):
                analyst.sql(statement, at_most=1e-5)
        with pytest.raises(PriceError, match=r"This can cost 0\.15%"):  # enough for one of the two
            analyst.sql(BOTH, at_most=1.2 * PRICE)
        assert session.state.ledger.spent == before
        forecast = session.explain(BOTH).forecast
        assert forecast.most == forecast.least == pytest.approx(2 * PRICE, rel=1e-3)
        assert session.forecast(GROUPS).most == pytest.approx(PRICE, rel=1e-3)
        assert analyst.sql(BOTH, at_most=2 * PRICE).spent.charged == pytest.approx(forecast.most)


# --- bars, noise and faults --------------------------------------------------------------------------------


@pytest.mark.statistical
def test_paid_means_hold_as_often_as_they_say_and_their_noise_has_the_scale_that_is_charged() -> None:
    found: list[NDArray[np.float64]] = []
    missed = asked = 0

    def seen(requested: Requested, numbers: NDArray[np.int64], bits: Any) -> Any:
        measured: Any = REALLY(requested, numbers, bits)
        if isinstance(requested.what, SumNumbers) and isinstance(requested.noise, DiscreteGaussian):
            found.append((measured.units - numbers).ravel() / float(requested.noise.sigma))
        return measured

    known = truths("hour < 12")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Requested, "measured", seen)
        for seed in range(60):
            with opened(seed=seed, confidence=0.8) as session:
                table = session.sql(GROUPS)
                assert table.spent.charged > 0
                assert (len(found), found[-1].size) == (seed + 1, 5)
                what, noise = session.state.sums[-1].summed, session.state.sums[-1].noise
                price = SumNumbers(what).charge(noise, session.state.contract.options)
                assert session.ledger().lines[-1].price == session.state.ledger.price(price)
            for key, one in zip(table.column("region")[:4], table.column("a"), strict=False):
                missed, asked = missed + (not one.interval[0] <= known[key] <= one.interval[1]), asked + 1
    assert 0.77 < float(np.concatenate(found).std()) < 1.25
    assert 0.01 * asked < missed < 0.27 * asked  # a fifth at most, but for chance


@pytest.mark.parametrize("clip", [None, 100])
@pytest.mark.parametrize("relation", list(pmw.NeighboringRelation))
def test_persons_and_replaced_records_pay_the_same_and_have_more_noise(
    relation: pmw.NeighboringRelation, clip: int | None
) -> None:
    table = FRAME.assign(id=np.arange(len(FRAME)) // 3)
    person = Person("id", 3, clips=() if clip is None else (("pay", clip),))
    domain = Domain(
        tuple(replace(one, missing=True, other=True) for one in DOMAIN.attributes), "people", person=person
    )
    choices: dict[str, Any] = {"epsilon": 8, "neighboring_relation": relation, "opening": pmw.Opening.PAIRS}
    with worlds.opened(table, domain, **choices, reserve=Fraction(3, 10), seed=3) as session:
        paid = session.sql(GROUPS)
        assert paid.spent.charged == pytest.approx(PRICE, rel=1e-3)
        assert bought(session)[0].clipped == (clip is not None)
        assert session.sql(GROUPS).spent.charged == 0
        assert session.verify().holds


# --- what is told of a wide bar -----------------------------------------------------------------------------


def ways(table: Any) -> list[str]:
    return [note for note in table.notes if "may narrow wide bars" in note]


def test_a_bar_that_is_wider_than_its_number_is_told_with_what_prices_a_narrower_one() -> None:
    with opened(epsilon=0.02, reserve=Fraction(1, 10)) as session:
        before = session.state.ledger.spent
        for shown in ("AVG(pay)", "SUM(pay)", "ROUND(AVG(pay), 1)", "AVG(pay) + 1"):
            table = session.sql(f"SELECT {shown} AS a FROM people WHERE sex = 'f'", at_most=0)
            (one,) = table.column("a")
            (told,) = ways(table)
            assert one.is_promised
            assert one.interval[1] - one.interval[0] > one.value / 2
            assert "session.measure_sum('pay', ['sex'], dry_run=True) tells their price" in told
        assert session.measure_sum("pay", ["sex"], dry_run=True).share > 0
        assert session.state.ledger.spent == before  # to tell is free
        assert not ways(session.sql("SELECT COUNT(*) AS a FROM people WHERE hour < 2", at_most=0))
        session.measure_sum("pay", ["sex"], share="0.01")
        assert not ways(session.sql("SELECT AVG(pay) AS a FROM people WHERE sex = 'f'", at_most=0))
        assert ways(session.sql("SELECT AVG(pay) AS a FROM people WHERE region = 'n'", at_most=0))
        session.finalize()
        assert not ways(session.sql("SELECT AVG(pay) AS a FROM people WHERE region = 'n'"))
