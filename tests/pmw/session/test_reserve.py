"""Sessions with a reserve: what is unclear is paid for, once, at a price that each analyst sets alone."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.errors import BudgetError, PriceError
from pmw.loop.purchases import Offer, next_part, offered
from pmw.model.measurement import RowsMeasurement, half_width
from pmw.public.answer import Source
from pmw.public.bars import Bars
from pmw.public.clear import FULL, clear_half_width, number_half_width
from pmw.public.evidence import OwnNumbers, own_numbers
from pmw.public.foundations import strategy_of
from pmw.public.half_widths import KEPT
from pmw.public.local_models import LocalModels, local_models
from pmw.public.options import Opening
from queries import Domain, IntegerAttribute, LinearQuery
from queries.parsing import parse_where
from queries.person import Person
from queries.questions import Products
from tests import worlds
from tests.pmw.session.test_rows import DOMAIN, FRAME, width

WIDE = "age BETWEEN 13 AND 27 AND sex = 'f' AND region = 'n' AND rooms >= 3"
ALSO = "age < 41 AND sex = 'm' AND rooms BETWEEN 2 AND 5"
NUMBERS = 0.3 * 0.85  # of the budget: the reserve, but for its parts
NARROW = "sex = 'f' AND smoker = 'yes'"
GROUPS = "SELECT region, rooms, COUNT(*) AS n FROM people WHERE age BETWEEN 13 AND 27 GROUP BY region, rooms"


def opened(path: Path | None = None, **choices: Any) -> pmw.Session:
    seed = {} if path is not None else {"seed": 3}
    settled = {"epsilon": 1, "opening": Opening.PAIRS, "reserve": Fraction(3, 10), **seed, **choices}
    return worlds.opened(FRAME, DOMAIN, path, **settled)


def bought(session: pmw.Session | pmw.Analyst) -> list[RowsMeasurement]:
    return [one for one in session.state.measured if isinstance(one, RowsMeasurement)]


# --- what is paid for ---------------------------------------------------------------------------------------


def test_a_wide_bar_is_paid_for_once_and_a_narrow_one_never() -> None:
    with opened(reserve=0) as today, opened() as session:
        assert session.state.ledger.share == pytest.approx(0.68, abs=0.001)
        assert today.state.ledger.share > 0.9  # which keeps what others have as a reserve
        assert session.state.query_plan is None  # a number costs less than a test that says as much
        before = session.state.ledger.spent
        for free in (NARROW, "sex = 'f' AND sex = 'm'", "age >= 0"):  # nobody moves the last two
            narrow = session.ask(free)
            assert (narrow.spent.charged, narrow.source) == (0, Source.SYNTHETIC)
        assert session.state.ledger.spent == before
        wide = session.ask(WIDE)
        (line,) = session.ledger().lines[-1:]
        assert (line.event, line.label) == ("questions", parse_where(WIDE, DOMAIN).describe())
        assert wide.source is Source.MEASURED
        assert (
            wide.spent.charged == pytest.approx(line.share) == pytest.approx(NUMBERS / (2 * FULL), rel=1e-6)
        )
        assert width(wide) <= number_half_width(session.state)
        spent = session.state.ledger.spent
        for _ in range(2):
            again = session.ask(WIDE)
            assert (again.count, again.interval, again.spent.charged) == (wide.count, wide.interval, 0)
            assert session.ask(WIDE, fresh=True).spent.charged == 0
        assert session.state.ledger.spent == spent
        assert len(bought(session)) == 1
        assert session.verify().holds


def test_the_groups_of_a_statement_are_paid_for_together_or_not_at_all() -> None:
    with opened() as session:
        table = session.sql(GROUPS)
        (rows,) = bought(session)
        assert len(rows.queries) == 4 * 8
        assert table.spent.charged == pytest.approx(NUMBERS / (2 * FULL), rel=1e-6)
        assert {one.source for one in table.estimates()} == {Source.MEASURED}
        assert session.sql(GROUPS).spent.charged == 0
        free = session.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex")
        assert free.spent.charged == 0
        assert len(bought(session)) == 1


def test_ranges_are_paid_for_as_single_questions_are() -> None:
    first, last = np.array([[0, 0, 0], [3, 1, 2], [0, 1, 1]]), np.array([[9, 0, 3], [60, 1, 7], [78, 1, 7]])
    boxes = Products.of_ranges(DOMAIN, ("age", "sex", "rooms"), first, last)
    asked = [boxes.query(place) for place in range(3)]
    with opened() as together, opened() as alone:
        many, one_by_one = together.ask_all(asked), [alone.ask(query) for query in asked]
        assert many.count.tolist() == [one.count for one in one_by_one]
        assert [tuple(one) for one in many.interval.tolist()] == [one.interval for one in one_by_one]
        assert many.charged.tolist() == [one.spent.charged for one in one_by_one]
        assert together.ledger().lines == alone.ledger().lines


@pytest.mark.parametrize("names", [("age", "sex", "rooms"), ("sex", "rooms")])
def test_ranges_with_numbers_of_their_own_have_the_bars_of_single_questions(names: tuple[str, ...]) -> None:
    cells = [DOMAIN[name].size for name in names]
    last = np.array([[max(size - 2 - place, 0) for size in cells] for place in range(4)])
    with opened() as session:
        boxes = Products.of_ranges(DOMAIN, names, np.zeros_like(last), last)
        queries = [boxes.query(place) for place in range(4)]
        width = min(map(Bars(session.state).width_of_query, queries))
        session.measure(queries, within=min(0.45 * width, 1000))
        numbers, bars = own_numbers(session.state), Bars(session.state)
        own = [one for query in queries if (one := numbers.of(query)) is not None]
        assert len(own) == 4
        found, widths = (find(boxes, bars.own_widths(own)) for find in (bars.of_products, bars.widths_told))
        for place, query in enumerate(queries):
            low, high, _ = bars.of_query(query)
            assert found[:2, place] == pytest.approx([low, high], rel=1e-9)
            assert widths[place] == pytest.approx(bars.width_of_query(query), rel=1e-9)


OVERLAPPING = [
    "SELECT region, sex, COUNT(*) AS n FROM people WHERE age < 31 GROUP BY CUBE(region, sex)",
    "SELECT region, COUNT(*), COUNT(*) FILTER (WHERE rooms > 2) AS m FROM people WHERE age < 31 GROUP BY 1",
]


@pytest.mark.parametrize("statement", OVERLAPPING)
def test_a_statement_is_never_paid_for_twice(statement: str) -> None:
    with opened() as session:
        ann = session.analyst("ann", 0.5)
        ann.sql(statement, at_most=1)
        lists = len(bought(session))
        for asker in (ann, session):
            for fresh in (False, True):
                assert asker.sql(statement, fresh=fresh, at_most=1).spent.charged == 0
        assert len(bought(session)) == lists


def test_numbers_that_no_column_shows_are_not_drawn() -> None:
    shares = (
        "SELECT region, rooms, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS part FROM people "
        "WHERE age BETWEEN 13 AND 27 GROUP BY region, rooms"
    )
    with opened() as session:
        before = session.state.ledger.spent
        for free in (shares, "SELECT AVG(rooms) AS a FROM people WHERE age BETWEEN 13 AND 27"):
            assert session.sql(free).spent.charged == 0
        assert session.state.ledger.spent == before


# --- bars ---------------------------------------------------------------------------------------------------


def test_kept_bars_and_numbers_share_what_may_fail() -> None:
    with opened(confidence=0.9) as session:
        query = parse_where(WIDE, DOMAIN)
        free = session.ask(WIDE, at_most=0)
        kept = Bars(session.state, KEPT, paid=False).of_query(query)
        assert free.interval == pytest.approx((max(0.0, float(kept.low)), float(kept.high)))
        paid = session.ask(WIDE)
        (rows,) = bought(session)
        (number,) = rows.numbers
        drawn = half_width(number.noise, 1 - 0.1 * 0.9 * (1 - 1 / KEPT))  # a tenth is for everybody's number
        kept = Bars(session.state, KEPT, paid=False).of_query(query)
        low, high = max(kept.low, number.value - drawn, 0), min(kept.high, number.value + drawn)
        assert paid.interval == pytest.approx((low, high))


def test_the_bar_of_a_question_that_cuts_bins_may_be_kept_and_so_has_a_part_of_what_may_fail() -> None:
    with opened() as session:
        query = parse_where("age BETWEEN 13 AND 27 AND rooms >= 3", DOMAIN)
        assert not session.state.coarsening.is_aligned(query)
        assert Bars(session.state, paid=False).half_width(query) is None  # its ends rest on different numbers
        kept, found = Bars(session.state, KEPT, paid=False), Bars(session.state)
        assert found.of_query(query) == kept.of_query(query)


@pytest.mark.parametrize("where", ["region = 'n'", WIDE])
def test_a_bar_that_was_paid_for_is_as_narrow_as_was_quoted(where: str) -> None:
    with opened(epsilon=0.5) as session:
        wanted = (Bars(session.state).half_width(parse_where(where, DOMAIN)) or 400) * 0.6
        quote = session.quote(where, wanted)
        answer = session.ask_within(where, wanted, at_most=1)
        assert answer.spent.charged == pytest.approx(quote.share)
        assert width(answer) <= quote.half_width * 1.000001 <= wanted * 1.000002
        assert not session.quote(where, wanted).needed
        assert session.ask_within(where, wanted, at_most=0).spent.charged == 0


def test_tables_that_are_kept_when_a_number_was_drawn_are_those_that_would_be_found() -> None:
    scopes = [
        ("age",),
        ("age", "sex"),
        ("age", "sex", "rooms"),
        ("sex", "region", "rooms"),
        ("region", "smoker"),
    ]
    with opened() as session:
        for where in (ALSO, WIDE, "age < 30 AND sex = 'f' AND smoker = 'no'"):
            for scope in scopes:
                local_models(session.state).marginal(scope)
            session.ask(where)
            for scope in scopes:
                found = local_models(session.state).marginal(scope)
                assert np.array_equal(found, LocalModels(session.state).marginal(scope))
        assert len(bought(session)) == 3


# --- prices -------------------------------------------------------------------------------------------------


@given(st.integers(1, 150), st.integers(0, 800))
def test_prices_fall_and_never_end(full: int, several: int) -> None:
    left, prices = Fraction(1), list[Fraction]()
    for number in range(several):
        price = min(Fraction(1, 2 * full), left * next_part(number, full))
        prices.append(price)
        left -= price
    assert left > 0
    assert sum(prices) + left == 1
    assert all(one == Fraction(1, 2 * full) for one in prices[:full])
    assert all(later <= one * Fraction(1_000_001, 1_000_000) for one, later in itertools.pairwise(prices))
    assert not prices or prices[-1] >= Fraction(1, 40 * max(several, full) * 40)


def test_the_next_price_is_the_analysts_own() -> None:
    with opened() as session:
        ann, bob = session.analyst("ann", 0.5), session.analyst("bob", 0.012)  # one number at the full price
        for age in range(20, 60, 4):
            ann.ask(f"age < {age} AND sex = 'f' AND rooms > 2", at_most=1)
        asked = bob.ask(WIDE, at_most=1)
        assert asked.spent.charged == pytest.approx(NUMBERS / (2 * FULL), rel=1e-6)
        lines = [(line.booked, line.share) for line in session.ledger().lines if line.event == "questions"]
        assert [booked for booked, _ in lines] == [
            ((name, Fraction(1)),) for name in ("ann",) * len(lines[:-1]) + ("bob",)
        ]
        assert session.verify().holds


def test_whoever_pays_nothing_has_a_free_answer_and_leaves_it_to_others() -> None:
    with opened() as session:
        reader, payer = session.analyst("reader", 0), session.analyst("payer", 0.5)
        before = session.state.ledger.spent
        free = reader.ask(WIDE)
        assert session.ask(ALSO, at_most=0).spent.charged == 0
        assert (session.state.ledger.spent, free.spent.charged) == (before, 0)
        for ask in (lambda: payer.ask(WIDE, at_most=1e-5), lambda: payer.sql(GROUPS, at_most=1e-5)):
            with pytest.raises(PriceError, match=r"This can cost 0\.08%"):
                ask()
        assert session.state.ledger.spent == before
        forecast = session.explain(WIDE).forecast
        assert forecast.most == forecast.least == pytest.approx(NUMBERS / (2 * FULL), rel=1e-6)
        paid = payer.ask(WIDE, at_most=1)
        assert paid.spent.charged > 0
        assert width(paid) < width(free)
        assert reader.ask(WIDE).interval == paid.interval
        assert session.ask(ALSO).spent.charged > 0


def test_numbers_taken_over_from_the_state_before_are_those_that_would_be_found() -> None:
    with opened() as session:
        for age in (20, 30, 20, 35):
            session.ask(f"age < {age} AND sex = 'm' AND rooms > 2", fresh=True, at_most=1)
            kept, anew = own_numbers(session.state), OwnNumbers(session.state)
            assert (kept.measured, kept._scopes) == (anew.measured, anew._scopes)
            assert {name: one.units for name, one in kept._numbers.items()} == {
                name: one.units for name, one in anew._numbers.items()
            }
            earlier = own_numbers(session.state.known_until(1))
            assert earlier._numbers.keys() < kept._numbers.keys() or len(kept._numbers) < 2


# --- faults and refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"reserve": 1}, r"expected a reserve in \[0, 1\), got 1"),
        ({"reserve": -0.1}, "expected a reserve"),
        ({"reserve": "much"}, "finite number for reserve"),
        ({"delta": 0}, "a delta above 0, or leave the reserve out"),
        ({"composition": "pure"}, "a delta above 0, or leave the reserve out"),
        ({"simultaneous": True}, "a reserve does not go with simultaneous"),
        ({"opening": Opening.ONE_WAY}, "a reserve does not go with opening = none or one-way"),
        ({"accuracy": 0.1, "records": 20_000}, "a reserve does not go with an accuracy contract"),
        ({"update_limit": 3}, "a reserve does not go with update_limit"),
        ({"test": "query"}, "a reserve does not go with test = query"),
    ],
)
def test_a_reserve_that_nothing_is_paid_from_is_refused(choices: dict[str, Any], told: str) -> None:
    with pytest.raises(BudgetError, match=told):
        opened(**choices)


def test_persons_move_a_number_as_often_as_they_have_records() -> None:
    table, found = FRAME.assign(id=np.arange(len(FRAME)) // 3), list[Offer | None]()
    for records in (1, 3):
        domain = Domain(DOMAIN.attributes, "people", person=Person("id", records))
        choices: dict[str, Any] = {"opening": Opening.PAIRS, "reserve": Fraction(3, 10), "seed": 3}
        with worlds.opened(table, domain, epsilon=1, **choices) as session:
            found.append(offered(session.state, session.state.ledger.remaining, 0))
            assert found[-1] is not None
            assert number_half_width(session.state) == pytest.approx(found[-1].half_width, rel=1e-6)
    one, three = found
    assert one is not None
    assert three is not None
    assert three.half_width == pytest.approx(3 * one.half_width, rel=1e-4)


# --- what is not bought, and what is left -------------------------------------------------------------------

UNHELD = "age = 13 AND sex = 'f' AND region = 'n' AND rooms = 3"


def test_what_is_not_bought_is_told_apart_from_what_nothing_is_left_for(tmp_path: Path) -> None:
    mean = f"SELECT AVG(rooms) AS a FROM people WHERE {UNHELD}"
    with opened() as session:
        assert session.state.positives_limit == 0
        kept = session.ask(UNHELD)  # its bar is no wider than a number would give it
        assert (kept.source, kept.spent.charged) == (Source.UNVERIFIED, 0)
        for asked in (session, session.analyst("reader", 0)):
            assert asked.ask(WIDE, at_most=0).source is Source.UNVERIFIED
            (one,) = asked.sql(mean, at_most=0).column("a")
            assert one.source is Source.UNVERIFIED
        assert session.model().ask(WIDE).source is Source.UNVERIFIED
        session.finalize()
        assert session.ask(ALSO).source is Source.EXHAUSTED
        assert session.sql(mean).column("a")[0].source is Source.EXHAUSTED
        assert session.model().ask(ALSO).source is Source.EXHAUSTED


TRIPLE = ("sex", "region", "smoker")
ASKED = "sex = 'f' AND region = 'n' AND smoker = 'yes'"
BY_THREE = "SELECT sex, region, smoker, COUNT(*) AS n FROM people GROUP BY sex, region, smoker"
PRICE = NUMBERS / (2 * FULL)  # of a number, as a part of the budget


def triples(session: pmw.Session) -> list[tuple[str, ...]]:
    return [one.scope for one in session.state.marginals if len(one.scope) == 3]


def test_the_first_question_buys_the_marginal_whatever_is_drawn_and_all_others_are_free() -> None:
    with opened(seed=1) as session:
        ann, eve = session.analyst("ann", 0.5, at_most=1), session.analyst("eve", 0)
        first = ann.ask(ASKED)
        line = session.ledger().lines[-1]
        assert triples(session) == [TRIPLE]
        assert (line.event, line.label, line.booked[0][0]) == ("requested", ", ".join(TRIPLE), "ann")
        assert first.spent.charged == pytest.approx(line.share) == pytest.approx(2 * PRICE, rel=1e-6)
        spent = session.state.ledger.spent
        cells = [range(DOMAIN[name].size) for name in TRIPLE]
        for low in itertools.product(*cells):
            query = LinearQuery.cells(DOMAIN, {name: (0, end) for name, end in zip(TRIPLE, low, strict=True)})
            answer = session.ask(query)
            assert width(answer) <= clear_half_width(session.state)
            assert answer.source is Source.SYNTHETIC
        assert eve.ask("sex = 'f' AND region = 'n' AND rooms > 3").spent.charged == 0
        assert session.state.ledger.spent == spent
        assert not bought(session)
        assert session.verify().holds


@pytest.mark.parametrize("asked", [ASKED, BY_THREE])
def test_what_may_be_charged_for_a_number_alone_buys_the_number_and_two_prices_the_marginal(
    asked: str,
) -> None:
    for most, prices in ((1.9, 1), (2.001, 2)):
        with opened() as session:
            ask = session.sql if asked is BY_THREE else session.ask
            with pytest.raises(PriceError):
                ask(asked, at_most=PRICE / 2)
            assert ask(asked, at_most=most * PRICE).spent.charged == pytest.approx(prices * PRICE, rel=1e-6)
            assert triples(session) == [TRIPLE] * (prices - 1)
            assert len(bought(session)) == 2 - prices


def test_groups_by_three_attributes_buy_it_and_four_or_a_bin_that_is_cut_do_not() -> None:
    with opened() as session:
        table = session.sql(BY_THREE)
        assert table.spent.charged == pytest.approx(2 * PRICE, rel=1e-6)
        assert triples(session) == [TRIPLE]
        assert session.sql(BY_THREE).spent.charged == 0
        assert session.ask(WIDE).spent.charged == pytest.approx(PRICE, rel=1e-2)
        for where in (f"{ASKED} AND rooms > 2", "age BETWEEN 13 AND 27 AND sex = 'f' AND region = 'n'"):
            assert session.ask(where).spent.charged in (0, pytest.approx(PRICE, rel=1e-2))
        assert triples(session) == [TRIPLE]


def grades(cells: int, path: Path | None = None) -> pmw.Session:
    domain = Domain(tuple(IntegerAttribute(name, 0, cells - 1) for name in "abcd"), "grades")
    drawn = np.random.default_rng(5).integers(0, cells, (20_000, 4))
    frame = pd.DataFrame(drawn, columns=list("abcd"))
    if path is not None and path.exists():
        return pmw.resume_session(path, frame)
    return worlds.opened(frame, domain, path, epsilon=1, seed=None if path else 3, opening=pmw.Opening.PAIRS)


def test_a_question_that_stays_wide_with_it_gets_a_number() -> None:
    odd = " AND ".join(f"{name} IN (0, 2, 4, 6, 8)" for name in "abc")
    with grades(9) as session:
        answer = session.ask(odd)
        assert answer.spent.charged == pytest.approx(PRICE, rel=1e-6)
        assert width(answer) <= clear_half_width(session.state)
        assert not triples(session)
        assert session.ask("a < 4 AND b < 4 AND c < 4").spent.charged == pytest.approx(2 * PRICE, rel=1e-2)
        assert triples(session) == [("a", "b", "c")]


def test_one_of_many_cells_that_leaves_bars_wide_is_not_bought_whoever_looks_again(tmp_path: Path) -> None:
    path = tmp_path / "grades.pmw"
    for where in ("a < 8 AND b < 8 AND c < 8", "a BETWEEN 4 AND 11 AND b BETWEEN 4 AND 11 AND c > 7"):
        with grades(16, path) as session:
            assert strategy_of(session.state, ("a", "b", "c")) is not None
            assert session.ask(where).spent.charged == pytest.approx(PRICE, rel=1e-2)
            assert session.ask(where, fresh=True).spent.charged == 0
        with grades(16, path) as session:
            assert session.ask(where, fresh=True).spent.charged == 0
            assert not triples(session)


def test_the_next_number_costs_what_is_left_after_one_more() -> None:
    with opened() as session:
        session.ask(ASKED)
        part = (2 * FULL - 2) / (2 * FULL - 1)  # of what two prices leave, for one number less
        assert session.ask(WIDE).spent.charged == pytest.approx(PRICE * part, rel=1e-5)
