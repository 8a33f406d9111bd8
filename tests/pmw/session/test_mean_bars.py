"""Bars of means and sums that are asked for: one price, paid once, for sums of the groups' own records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.errors import BudgetExhaustedError, PriceError
from pmw.model.measurement import SummedRows
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace
from pmw.public.charges import Event, SumNumbers
from pmw.public.quotes import Quote
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from tests.worlds import opened, repeat_noise

DOMAIN = Domain(
    (
        IntegerAttribute("hour", 0, 23),
        CategoricalAttribute("region", tuple("nesw"), other=True),
        CategoricalAttribute("smoker", ("yes", "no")),
        CategoricalAttribute("sex", ("f", "m")),
        NumericAttribute("pay", (0, 20, 40, 60, 100), resolution=0.5),
    ),
    name="people",
)
# The same, where no record is dropped.
WHOLE = replace(DOMAIN, attributes=tuple(replace(one, missing=True, other=True) for one in DOMAIN.attributes))
GROUPS = "SELECT region, AVG(pay) AS a FROM people WHERE hour < 12 GROUP BY region"
THREE = "SELECT region, AVG(pay) AS a FROM people WHERE hour < 12 AND smoker = 'yes' GROUP BY region"


def frame(records: int = 12_000) -> pd.DataFrame:
    draw = np.random.default_rng(21)
    region = draw.choice(list("nesw"), records, p=[0.4, 0.3, 0.2, 0.1])
    pay = draw.gamma(4, 8, records) + np.where(region == "n", 10, 0)
    return pd.DataFrame(
        {
            "hour": draw.integers(0, 24, records),
            "region": region,
            "smoker": draw.choice(["yes", "no"], records, p=[0.3, 0.7]),
            "sex": draw.choice(["f", "m"], records),
            "pay": np.minimum(pay, 100),
        }
    )


FRAME = frame()


def open_people(path: Path | None = None, **choices: Any) -> pmw.Session:
    """Open a session that has measured all pairs, so that of two attributes numbers are known."""
    given: dict[str, Any] = {
        "epsilon": 4,
        "seed": None if path else 4,
        "opening": pmw.Opening.PAIRS,
        **choices,
    }
    return opened(FRAME, DOMAIN, path, **given)


def truths(condition: str) -> dict[str, float]:
    return {str(key): float(part["pay"].mean()) for key, part in FRAME.query(condition).groupby("region")}


def priced(session: Any, statement: str, within: float | str) -> Quote:
    found: Quote = session.quote_aggregate(statement, within)
    assert found.estimated is not None
    return found


def what(quote: Quote) -> tuple[tuple[str, ...], int]:
    assert quote.summed is not None
    return quote.summed.scope, quote.questions


def ends(table: Any) -> dict[Any, tuple[float, float]]:
    pairs = zip(table.column("region"), table.column("a"), strict=True)
    return {key: one.interval for key, one in pairs if one.is_promised}


# --- one price, paid once ----------------------------------------------------------------------------------


def test_a_mean_of_a_condition_by_groups_has_one_price_and_is_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat_noise(monkeypatch, 3)
    path = tmp_path / "s.pmw"
    with open_people(path) as session:
        quote = priced(session, GROUPS, "5%")
        assert (quote.needed, quote.questions, quote.cells, quote.estimated) == (True, 5, 5, False)
        assert quote.to_dict()["questions"] == 5
        before = session.ledger().lines
        table = session.sql_within(GROUPS, "5%", at_most=1)
        (line,) = session.ledger().lines[len(before) :]
        assert (line.event, line.label) == (Event.SUM, "pay of 5 by hour, region")
        assert line.share == quote.share == table.spent.charged
        found, known = ends(table), truths("hour < 12")
        for key, (low, high) in ((key, found[key]) for key in "nesw"):
            assert low <= known[key] <= high
            assert (high - low) / 2 <= 0.05 * known[key] * 1.02
        assert table.notes[-1].startswith("bars of 5% were asked for; the widest that came out is ± ")
        assert not priced(session, GROUPS, "5%").needed
        again = session.sql_within(GROUPS, "5%")
        assert (again.rows, again.spent.charged) == (table.rows, 0)
        assert session.sql(GROUPS).rows == table.rows  # whoever asks gets these bars
        assert session.verify().holds
        session.export(tmp_path / "s.model", format="model")
    with pmw.resume_session(path) as session:
        assert isinstance(session.state.sums[-1].summed, SummedRows)
        assert session.sql(GROUPS).rows == table.rows
        assert session.verify().holds
    assert pmw.load_model(tmp_path / "s.model").sql(GROUPS).rows == table.rows


def test_groups_cost_together_what_the_smallest_costs_and_a_condition_of_many_cells_one_number() -> None:
    with open_people() as session:
        all_ = priced(session, GROUPS, 2)
        alone = "SELECT AVG(pay) AS a FROM people WHERE hour < 12 AND region = 'w'"
        one = priced(session, alone, 2)
        assert one.share == pytest.approx(all_.share, rel=1e-6)
        assert one.cells == 1
        by_cells = session.measure_sum("pay", ["hour", "region"], share=all_.share, dry_run=True)
        assert by_cells.mean_half_width > 12**0.5 * all_.mean_half_width


def test_sums_of_a_scope_are_bought_where_they_cost_at_most_twice_as_much() -> None:
    by = "SELECT region, AVG(pay) AS a FROM people GROUP BY region"
    with open_people() as session:
        quote = priced(session, by, 2)
        assert what(quote) == (("region",), 0)
        three = priced(session, "SELECT AVG(pay) AS a FROM people WHERE region <> 'w'", 2)
        assert what(three) == (("region",), 1)
        session.sql_within(by, 2, at_most=1)
        assert priced(session, "SELECT AVG(pay) AS a FROM people WHERE region = 'e'", 3).share == 0


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        (
            "SELECT AVG(pay) FILTER (WHERE smoker = 'yes') AS a FROM people WHERE hour >= 20",
            "smoker == 'yes' and hour >= 20",
        ),
        ("SELECT AVG(pay) AS a FROM people WHERE pay >= 40 AND hour < 12", "pay >= 40 and hour < 12"),
        ("SELECT AVG(pay) AS a FROM people WHERE region = 'n' OR hour < 6", "region == 'n' or hour < 6"),
    ],
)  # fmt: skip
def test_means_of_any_condition_of_whole_cells_have_a_price(statement: str, condition: str) -> None:
    with open_people() as session:
        wanted = 6.0
        quote = priced(session, statement, wanted)
        assert quote.questions == 1
        (row,) = session.sql_within(statement, wanted, at_most=1).column("a")
        assert row.interval[0] <= FRAME.query(condition)["pay"].mean() <= row.interval[1]
        assert (row.interval[1] - row.interval[0]) / 2 <= wanted * 1.25


def test_a_sum_within_a_part_of_it_has_a_bar_of_that_part() -> None:
    statement = "SELECT SUM(pay / 2 + 1) AS a FROM people WHERE hour < 12"
    truth = float((FRAME.query("hour < 12")["pay"] / 2 + 1).sum())
    with open_people() as session:
        (row,) = session.sql_within(statement, "3%", at_most=1).column("a")
        assert row.interval[0] <= truth <= row.interval[1]
        assert (row.interval[1] - row.interval[0]) / 2 <= 0.03 * truth * 1.02


# --- prices follow scales, not what was drawn --------------------------------------------------------------


@pytest.mark.parametrize(("seed", "is_wide"), [(1, False), (8, True), (10, True), (16, True)])
def test_bars_that_came_out_wide_are_not_bought_again(seed: int, is_wide: bool) -> None:
    """Of three attributes the model tells how many records there are; so some bars come out wider."""
    with open_people(seed=seed, reserve=0) as one, open_people(seed=seed, reserve=0) as other:
        quote = priced(one, THREE, 8)
        assert quote.estimated
        table = one.sql_within(THREE, 8, at_most=1)
        spent = one.state.ledger.spent
        assert any("took the model's numbers of records" in note for note in table.notes)
        assert (max((high - low) / 2 for low, high in ends(table).values()) > 8) is is_wide
        assert not priced(one, THREE, 8).needed
        assert one.sql_within(THREE, 8).rows == table.rows
        assert one.state.ledger.spent == spent
        # A narrower bar costs what it would cost whoever had bought nothing: no draw enters a price.
        assert priced(one, THREE, 6).share == priced(other, THREE, 6).share > quote.share


def test_a_group_that_may_have_no_records_is_left_out_of_the_price() -> None:
    with open_people() as session:
        some = priced(session, "SELECT region, AVG(pay) AS a FROM people GROUP BY region", 3)
        four = "SELECT region, AVG(pay) AS a FROM people WHERE region IN ('n', 'e', 's', 'w') GROUP BY region"
        assert priced(session, four, 3).share == pytest.approx(some.share, rel=1e-6)
        with pytest.raises(QueryError, match="no group is known to have records"):
            priced(session, "SELECT AVG(pay) AS a FROM people WHERE region = '(other)'", 3)


def test_groups_that_answers_choose_cost_more() -> None:
    with open_people() as session:
        plain = priced(session, GROUPS, 3).share
        chosen = priced(session, f"{GROUPS} ORDER BY a DESC LIMIT 1", 3)
        assert 1.3 < chosen.share / plain < 2.2
        assert chosen.questions == 5


# --- what is charged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("records", [1, 2])
def test_the_price_is_that_of_all_numbers_together(
    relation: NeighboringRelation, composition: Composition, records: int
) -> None:
    """Groups of two sets meet, so that a person moves twice as many numbers as those of one set."""
    sets = GROUPS.replace("GROUP BY region", "GROUP BY GROUPING SETS ((region), (sex))").replace(
        "region, AVG", "AVG"
    )
    replaced = relation is NeighboringRelation.REPLACE_ONE
    choices: dict[str, Any] = {
        "composition": composition,
        "neighboring_relation": relation,
        "records_per_person": records,
    }
    with opened(FRAME, WHOLE if replaced else DOMAIN, epsilon=9, seed=4, **choices) as session:
        moved = list[Fraction]()
        for statement in (GROUPS, sets):
            quote = priced(session, statement, 20)
            session.sql_within(statement, 20, at_most=1)
            line, found = session.ledger().lines[-1], session.state.sums[-1]
            assert line.share == quote.share
            l1, squared = SumNumbers(found.summed).sensitivity(session.state.contract.options)
            if isinstance(found.noise, DiscreteLaplace):
                assert line.price == Fraction(l1) / found.noise.scale
            elif composition is Composition.ZCDP:
                exact = Fraction(squared) / (2 * found.noise.sigma**2)
                assert exact <= line.price <= exact * (1 + Fraction(1, 10**9))
            assert isinstance(found.summed, SummedRows)
            each = replace(found.summed, rows=found.summed.rows[:1])
            moved.append(Fraction(squared, SumNumbers(each).sensitivity(session.state.contract.options)[1]))
        assert moved == [1, 2]
        assert session.verify().holds


# --- refusals ----------------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[pmw.Session], Any], type[Exception], str]] = [
    (lambda s: s.sql_within(GROUPS, 0.001), QueryError, "no price gives a bar of 0.001: w is taken to have"),
    (lambda s: s.sql_within(GROUPS, 0), pmw.PMWError, "expected a number above 0"),
    (lambda s: s.sql_within("SELECT AVG(pay) AS a FROM people WHERE pay < 30", 3), QueryError, "pay < 20"),
    (
        lambda s: s.sql_within("SELECT AVG(pay) FILTER (WHERE pay < 30) AS a FROM people", 3),
        QueryError,
        "ask by whole cells",
    ),
    (lambda s: s.sql_within(GROUPS, 3, at_most=0), PriceError, "may be charged"),
    (
        lambda s: s.analyst("ann", Fraction(1, 10**6)).sql_within(GROUPS, 3, at_most=1),
        BudgetExhaustedError,
        "is left for it",
    ),
    (lambda s: priced(s, "SELECT AVG(hour) FROM people WHERE pay < 20", 0.01), QueryError, "'hour'"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "error", "message"), REFUSED)
def test_what_has_no_such_bar_is_refused_and_nothing_is_drawn(
    asked: Callable[[pmw.Session], Any], error: type[Exception], message: str
) -> None:
    with open_people() as session:
        before = session.state
        with pytest.raises(error, match=message):
            asked(session)
        assert session.state is before


def test_a_price_that_is_not_left_says_so() -> None:
    with open_people() as session:
        assert priced(session, GROUPS, 3).affordable
        assert not priced(session.analyst("ann", Fraction(1, 10**6)), GROUPS, 3).affordable
