"""Sums of values in sessions: what is measured, drawn and charged, what answers make of it, and faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import as_source
from pmw.errors import BudgetError, BudgetExhaustedError
from pmw.model.value_sums import SummedValues
from pmw.planning.opening import KEPT_FOR_SUMS
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.charges import Event
from pmw.public.quotes import affordable_price
from pmw.public.sums import Sums
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    QueryError,
)
from queries.expressions import Linear, Ratio
from queries.parsing import parse_sql
from queries.schema import parse_schema, stored_schema
from tests.worlds import opened

DOMAIN = Domain(
    (
        CategoricalAttribute("region", ("north", "south", "east"), missing=True, other=True),
        IntegerAttribute("rooms", 1, 6, missing=True, other=True),
        IntegerAttribute("years", 1, 40, 8, missing=True, other=True),
        IntegerAttribute("delay", -60, 539, 60, missing=True, other=True, resolution=1),
        NumericAttribute("cost", (0, 10, 100, 1000), missing=True, other=True, resolution=0.5),
    ),
    name="trips",
)


def table(records: int = 6000) -> pd.DataFrame:
    draw = np.random.default_rng(5)
    region = draw.choice(["north", "south", "east"], records, p=[0.5, 0.3, 0.2])
    shift = np.select([region == "north", region == "south"], [0, 30], 80)
    return pd.DataFrame(
        {
            "region": region,
            "rooms": draw.integers(1, 7, records),
            "years": draw.integers(1, 41, records),
            "delay": np.rint(draw.gamma(2, 10, records) - 15 + shift),
            "cost": np.where(draw.random(records) < 0.1, np.nan, draw.lognormal(3, 1, records)),
        }
    )


FRAME = table()
CLIPPED = FRAME.assign(delay=FRAME["delay"].clip(-60, 539), cost=FRAME["cost"].clip(0, 1000))


def open_trips(path: Path | None = None, *, epsilon: float = 2, **choices: Any) -> pmw.Session:
    return opened(FRAME, DOMAIN, path, epsilon=epsilon, **{"seed": None if path else 4, **choices})


# --- resolutions that a schema does not tell ---------------------------------------------------------------


def test_a_schema_that_tells_no_resolution_has_sums_measured_at_opening() -> None:
    told = stored_schema(DOMAIN.counted)
    domain = parse_schema(told)
    with opened(FRAME, domain, seed=4) as session, opened(FRAME, DOMAIN.counted, seed=4) as before:
        lines = [line for line in session.ledger().lines if line.event == Event.SUM]
        assert [line.label for line in lines] == ["years by years", "delay by delay", "cost by cost"]
        assert all(line.share == pytest.approx(0.004, rel=1e-3) for line in lines)
        assert sum(line.share for line in lines) <= 0.02
        assert before.state.sums == ()


# --- opening -----------------------------------------------------------------------------------------------


def test_opening_measures_where_values_lie_in_their_cells() -> None:
    with open_trips() as session:
        found = [one.summed for one in session.state.sums]
        assert found == [SummedValues(name, (name,), by_cells=True) for name in ("delay", "cost")]
        lines = [line for line in session.ledger().lines if line.event == Event.SUM]
        assert [line.label for line in lines] == ["delay by delay", "cost by cost"]
        assert all(0.003 < line.share <= 0.004 for line in lines)
        assert session.state.ledger.spent <= session.state.ledger.cap * (1 - KEPT_FOR_SUMS)
    with opened(FRAME, DOMAIN, test=pmw.TestKind.QUERY, threshold=50.0) as session:
        assert session.state.sums == ()


@pytest.mark.parametrize(
    ("composition", "relation"),
    [
        (Composition.PURE, NeighboringRelation.ADD_REMOVE),
        (Composition.PURE, NeighboringRelation.REPLACE_ONE),
        (Composition.ZCDP, NeighboringRelation.ADD_REMOVE),
        (Composition.GDP, NeighboringRelation.REPLACE_ONE),
    ],
)
def test_the_quoted_price_is_the_ledgers_line(
    composition: Composition, relation: NeighboringRelation
) -> None:
    choices: dict[str, Any] = {"composition": composition, "neighboring_relation": relation}
    with open_trips(opening=pmw.Opening.ONE_WAY, **choices) as session:
        before = session.state.ledger.spent
        quote = session.measure_sum("delay", "region", share="0.03", dry_run=True)
        assert session.state.ledger.spent == before
        assert session.measure_sum("delay", ["region"], share="0.03") == quote
        line = session.ledger().lines[-1]
        assert (line.event, line.label) == (Event.SUM, "delay by region")
        assert line.share == pytest.approx(quote.share)
        assert 0.0299 < quote.share <= 0.03
        assert session.state.ledger.spent == before + line.price
        assert paid_for(session) == pytest.approx(moved_by(session), rel=1e-9)
        assert quote.counted == bool(session.state.sums[-1].summed.count_units)
        assert session.verify().holds


def moved_by(session: pmw.Session) -> float:
    """Return what one person moves the numbers by, by the relation: in L1 for a pure price, else in L2."""
    replaced = session.state.contract.options.neighboring_relation is NeighboringRelation.REPLACE_ONE
    counted = session.state.sums[-1].summed.count_units
    if isinstance(session.state.sums[-1].noise, DiscreteLaplace):
        return (1 + replaced) * (UNITS + counted)
    return math.sqrt(4 * UNITS**2 if replaced else UNITS**2 + counted**2)


def paid_for(session: pmw.Session) -> float:
    """Return the move that the newest charge is the price of, exactly: from its noise alone."""
    noise, charge = session.state.sums[-1].noise, session.ledger().lines[-1]
    if isinstance(noise, DiscreteLaplace):
        return float(charge.price * noise.scale)
    composition = session.state.ledger.composition
    squared = 2 * charge.price * noise.sigma**2
    if composition is Composition.GDP:
        squared = charge.price * noise.sigma**2 / (1 + 1 / (2 * noise.sigma)) ** 2
    return math.sqrt(squared)


def test_a_measured_sum_bounds_means_and_sums_of_its_groups_and_of_fewer() -> None:
    with open_trips() as session:
        wide = session.mean("delay", by="region").to_dict()["rows"]
        (other,) = session.mean("delay", where="rooms >= 3").to_dict()["rows"]
        session.measure_sum("delay", "region", share="0.1")
        for statement, truths in (
            ("SELECT region, AVG(delay) AS a FROM trips GROUP BY region", means("delay", "region")),
            (
                "SELECT AVG(delay) AS a FROM trips WHERE region IN ('north', 'east')",
                [mean("region != 'south'")],
            ),
            ("SELECT AVG(delay / 60.0 - 1) AS a FROM trips", [CLIPPED["delay"].mean() / 60 - 1]),
            ("SELECT SUM(-2 * delay) AS a FROM trips", [-2 * CLIPPED["delay"].sum()]),
            ("SELECT AVG(delay) FILTER (WHERE region = 'east') AS a FROM trips", [mean("region == 'east'")]),
        ):
            rows = [row for row in session.sql(statement).to_dict()["rows"] if holds_records(row)]
            assert len(rows) == len(truths), statement
            for row, truth in zip(rows, truths, strict=True):
                assert row["a"]["low"] <= truth <= row["a"]["high"], (statement, row, truth)
        narrow = session.mean("delay", by="region").to_dict()["rows"]
        for before, after in zip(wide, narrow, strict=True):
            if holds_records(before):
                assert width(after) < width(before) / 2
        (same,) = session.mean("delay", where="rooms >= 3").to_dict()["rows"]  # which the scope does not tell
        assert width(same) == pytest.approx(width(other), rel=1e-6)


def test_the_bar_of_a_sum_is_no_narrower_than_that_of_its_noise() -> None:
    with open_trips(opening=pmw.Opening.PAIRS) as session:
        assert not session.measure_sum("delay", "region", share="0.01").counted
        noise = session.state.sums[-1].noise
        assert isinstance(noise, DiscreteGaussian)
        (found,) = session.sql("SELECT SUM(delay) AS a FROM trips WHERE region = 'east'").estimates()
        assert found.interval is not None
        reach = (539 + 60) / 2  # of a value from the middle of its ends, which is one unit
        assert np.ptp(found.interval) / 2 > 1.9 * float(noise.sigma) / UNITS * reach


def holds_records(row: dict[str, Any]) -> bool:
    return row.get("region", "north") in ("north", "south", "east")


def width(row: dict[str, Any]) -> float:
    (found,) = (one for one in row.values() if isinstance(one, dict))
    return float(found["high"] - found["low"])


def means(name: str, by: str) -> list[float]:
    return [float(CLIPPED[name][CLIPPED[by] == value].mean()) for value in ("north", "south", "east")]


def mean(condition: str) -> float:
    return float(CLIPPED.query(condition)["delay"].mean())


def spread(where: str = "region == region") -> float:
    return float(CLIPPED.query(where)["delay"].std(ddof=0))


def test_numbers_of_values_and_squares_are_measured_beside_sums() -> None:
    statement = "SELECT region, AVG(delay) AS a, STDDEV_POP(delay) AS s FROM trips GROUP BY region"
    with open_trips() as session:
        before = session.sql(statement).to_dict()["rows"]
        quote = session.measure_sum("delay", "region", squares=True, share="0.1")
        assert quote.counted
        assert quote.squared
        assert session.state.sums[-1].units.shape[0] == 3
        for row, was in zip(session.sql(statement).to_dict()["rows"][:3], before[:3], strict=True):
            here = f"region == '{row['key'][0]}'" if "key" in row else f"region == '{row['region']}'"
            assert row["a"]["low"] <= mean(here) <= row["a"]["high"]
            assert row["s"]["low"] <= spread(here) <= row["s"]["high"]
            assert row["s"]["high"] - row["s"]["low"] < was["s"]["high"] - was["s"]["low"]
        (row,) = session.sql("SELECT VARIANCE(2 * delay + 1) AS v FROM trips").to_dict()["rows"]
        assert row["v"]["low"] <= 4 * spread() ** 2 <= row["v"]["high"]
        total = "SELECT SUM(1 - 2 * delay) AS v FROM trips WHERE region = 'east'"
        (row,) = session.sql(total).to_dict()["rows"]
        east = CLIPPED.query("region == 'east'")["delay"]
        assert row["v"]["low"] <= len(east) - 2 * east.sum() <= row["v"]["high"]
        assert session.verify().holds


def test_what_cannot_be_measured_is_refused_and_costs_nothing() -> None:
    refused: list[tuple[Callable[[pmw.Session], Any], type[Exception], str]] = [
        (lambda s: s.measure_sum("rooms"), QueryError, "'rooms' are not summed; those of delay"),
        (lambda s: s.measure_sum("delay", "street"), Exception, "street"),
        (lambda s: s.measure_sum("delay", share=0), BudgetError, "above 0"),
        (lambda s: s.measure_sum("delay", share=2), BudgetError, "above 0"),
        (lambda s: s.measure_sum("delay", share=0.1, within=3), BudgetError, "got both"),
        (lambda s: s.measure_sum("delay", within="-3%"), BudgetError, "expected a number above 0"),
        (lambda s: s.measure_sum("delay", "region", within=1e-6), QueryError, "no price gives"),
        (lambda s: s.quote_aggregate("SELECT AVG(rooms) FROM trips", 1e-9), QueryError, "'rooms'"),
        (lambda s: s.quote_aggregate("SELECT MEDIAN(delay) FROM trips", 3), QueryError, "one AVG or SUM"),
        (lambda s: s.quote_aggregate("SELECT AVG(delay), SUM(cost) FROM trips", 3), QueryError, "one AVG"),
    ]
    with open_trips() as session:
        before = session.state.ledger.spent
        for asked, error, message in refused:
            with pytest.raises(error, match=message):
                asked(session)
            assert session.state.ledger.spent == before


def test_what_an_open_round_has_reserved_is_not_left_for_a_sum() -> None:
    with open_trips() as session:
        for rooms in range(1, 7):
            session.ask(f"rooms = {rooms} AND region = 'north' AND years < 9")
            if session.state.round_open:
                break
        state = session.state
        left, whole = affordable_price(state), state.ledger.remaining
        assert left < whole * Fraction(99, 100)
        share = (left + whole) / 2 / state.ledger.cap
        assert not session.measure_sum("delay", "region", share=share, dry_run=True).affordable
        assert session.measure_sum("delay", "region", share=left / state.ledger.cap, dry_run=True).affordable
        with pytest.raises(BudgetExhaustedError, match="nothing was spent"):
            session.measure_sum("delay", "region", share=share)
        assert session.state.ledger == state.ledger


# --- rows ---------------------------------------------------------------------------------------------------


def test_rows_have_the_means_that_were_measured() -> None:
    def off(session: pmw.Session) -> float:
        rows = session.synthetic_records(seed=3)
        delays = pd.to_numeric(rows["delay"], errors="coerce").groupby(rows["region"]).mean()
        return max(abs(float(delays[one]) - mean(f"region == '{one}'")) for one in ("north", "south"))

    with open_trips() as session:
        assert off(session) > 5
        session.measure_sum("delay", "region", share="0.1")
        assert off(session) < 5
        rows = session.synthetic_records(seed=3)
        costs, delays = (pd.to_numeric(rows[name], errors="coerce").dropna() for name in ("cost", "delay"))
        assert costs.mean() == pytest.approx(CLIPPED["cost"].mean(), rel=0.3)
        assert delays.between(-60, 539).all()
        assert (delays == delays.round()).all()


def test_which_way_bounds_a_mean_does_not_follow_what_was_drawn() -> None:
    statement = parse_sql("SELECT AVG(delay), SUM(cost) FROM trips GROUP BY region", DOMAIN)
    with open_trips() as session:
        session.mean("delay", by="region")  # so that its counts are held
        session.measure_sum("delay", "region", share="0.1")
        state = session.state
    chosen = []
    for factor in (1, -1, 40):
        moved = tuple(replace(one, units=one.units * factor) for one in state.sums)
        sums = Sums(replace(state, apart=moved), statement)
        found = []
        for leaf in statement.leaves:
            for group in statement.groups():
                if isinstance(leaf, Ratio):
                    above, below = sums.pair((leaf.numerator, group), (leaf.denominator, group))
                    one = sums.measured(above, 1, below)
                else:
                    assert isinstance(leaf, Linear)
                    one = sums.measured(sums.weights(leaf, group), 1)
                found.append(None if one is None else one.widths)
        chosen.append(found)
    assert chosen[0] == chosen[1] == chosen[2]
    assert any(one is not None for one in chosen[0])


def test_a_changed_value_inside_its_cell_is_another_table() -> None:
    first = float(FRAME["delay"].to_numpy()[0])
    changed = FRAME["delay"].where(FRAME.index > 0, first // 60 * 60 + (first + 1) % 60)
    prints = {as_source(one, DOMAIN, None).fingerprint(b"k") for one in (FRAME, FRAME.assign(delay=changed))}
    assert len(prints) == 2
