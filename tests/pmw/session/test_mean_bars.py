"""Bars of means and sums, asked for or paid from the reserve: one price, paid once, for all groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
from pmw.errors import BudgetExhaustedError, PriceError
from pmw.loop.untested import Requested
from pmw.model.measurement import SummedRows
from pmw.planning import mean_quotes
from pmw.planning.mean_quotes import unclear_values
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.charges import Event, SumNumbers
from pmw.public.clear import FULL, GAIN, full_price
from pmw.public.quotes import Quote
from pmw.public.sums import Sums
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.parsing import parse_sql
from queries.person import Person
from tests import worlds
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


@pytest.fixture(scope="module")
def unpaid() -> Iterator[pmw.Session]:
    """A session that tells prices, and is paid nothing."""
    with open_people() as session:
        before = session.state.ledger
        yield session
        assert session.state.ledger == before


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


def test_means_and_sums_of_any_condition_of_whole_cells_have_a_price() -> None:
    with open_people() as session:
        for statement, condition in (
            (
                "SELECT AVG(pay) FILTER (WHERE smoker = 'yes') AS a FROM people WHERE hour >= 20",
                "smoker == 'yes' and hour >= 20",
            ),
            ("SELECT AVG(pay) AS a FROM people WHERE pay >= 40 AND hour < 12", "pay >= 40 and hour < 12"),
            ("SELECT AVG(pay) AS a FROM people WHERE region = 'n' OR hour < 6", "region == 'n' or hour < 6"),
        ):
            wanted = 6.0
            quote = priced(session, statement, wanted)
            assert quote.questions == 1
            (row,) = session.sql_within(statement, wanted, at_most=1).column("a")
            assert row.interval[0] <= FRAME.query(condition)["pay"].mean() <= row.interval[1]
            assert (row.interval[1] - row.interval[0]) / 2 <= wanted * 1.25
        truth = float((FRAME.query("hour < 12")["pay"] / 2 + 1).sum())
        total = "SELECT SUM(pay / 2 + 1) AS a FROM people WHERE hour < 12"
        (row,) = session.sql_within(total, "3%", at_most=1).column("a")
        assert row.interval[0] <= truth <= row.interval[1]
        assert (row.interval[1] - row.interval[0]) / 2 <= 0.03 * truth * 1.02


# --- prices follow scales, not what was drawn --------------------------------------------------------------


def test_bars_that_came_out_wide_are_not_bought_again() -> None:
    """Of three attributes the model tells how many records there are; so some bars come out wider."""
    with open_people(seed=8, reserve=0) as one, open_people(seed=8, reserve=0) as other:
        quote = priced(one, THREE, 8)
        assert quote.estimated
        table = one.sql_within(THREE, 8, at_most=1)
        spent = one.state.ledger.spent
        assert any("took the model's numbers of records" in note for note in table.notes)
        assert max((high - low) / 2 for low, high in ends(table).values()) > 8
        assert not priced(one, THREE, 8).needed
        assert one.sql_within(THREE, 8).rows == table.rows
        assert one.state.ledger.spent == spent
        # A narrower bar costs what it would cost whoever had bought nothing: no draw enters a price.
        assert priced(one, THREE, 6).share == priced(other, THREE, 6).share > quote.share


def test_groups_without_records_are_left_out_of_the_price_and_those_that_answers_choose_cost_more(
    unpaid: pmw.Session,
) -> None:
    some = priced(unpaid, "SELECT region, AVG(pay) AS a FROM people GROUP BY region", 3)
    four = "SELECT region, AVG(pay) AS a FROM people WHERE region IN ('n', 'e', 's', 'w') GROUP BY region"
    assert priced(unpaid, four, 3).share == pytest.approx(some.share, rel=1e-6)
    with pytest.raises(QueryError, match="no group is known to have records"):
        priced(unpaid, "SELECT AVG(pay) AS a FROM people WHERE region = '(other)'", 3)
    chosen = priced(unpaid, f"{GROUPS} ORDER BY a DESC LIMIT 1", 3)
    assert 1.3 < chosen.share / priced(unpaid, GROUPS, 3).share < 2.2
    assert chosen.questions == 5


# --- what is charged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("composition", "relation", "records"),
    [
        (Composition.PURE, NeighboringRelation.ADD_REMOVE, 1),
        (Composition.ZCDP, NeighboringRelation.REPLACE_ONE, 2),
        (Composition.ZCDP, NeighboringRelation.ADD_REMOVE, 1),
        (Composition.GDP, NeighboringRelation.ADD_REMOVE, 2),
    ],
)
def test_the_price_is_that_of_all_numbers_together(
    composition: Composition, relation: NeighboringRelation, records: int
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


def test_what_has_no_such_bar_is_refused_and_nothing_is_drawn(unpaid: pmw.Session) -> None:
    before = unpaid.state
    for asked, error, message in REFUSED:
        with pytest.raises(error, match=message):
            asked(unpaid)
        assert unpaid.state is before
    assert priced(unpaid, GROUPS, 3).affordable
    assert not priced(unpaid.analyst("ann", Fraction(1, 10**6)), GROUPS, 3).affordable


PRICE = 0.3 * 0.85 / (2 * FULL)  # of the budget: a number at the full price
BOTH = GROUPS.replace("AVG(pay) AS a", "AVG(pay) AS a, COUNT(*) AS n").replace(
    "hour < 12", "hour < 12 AND sex = 'f' AND smoker = 'yes'"
)
NARROW = "SELECT AVG(pay) AS a FROM people"
ALONE = "SELECT AVG(pay) AS a FROM people WHERE hour < 12 AND region = 'n'"


def reserved(path: Path | None = None, **choices: Any) -> pmw.Session:
    settled = {"epsilon": 4, "opening": pmw.Opening.PAIRS, "reserve": Fraction(3, 10)}
    seed = {"seed": None if path else 4}
    return worlds.opened(FRAME, choices.pop("domain", DOMAIN), path, **{**settled, **seed, **choices})


def bought(session: pmw.Session) -> list[SummedRows]:
    return [one.summed for one in session.state.sums if isinstance(one.summed, SummedRows)]


def widths(table: Any) -> list[float]:
    return [(high - low) / 2 for low, high in (one.interval for one in table.column("a")[:4])]


# --- what is paid for ---------------------------------------------------------------------------------------


def test_a_wide_mean_is_paid_for_once_and_a_narrow_one_never() -> None:
    with reserved(seed=6) as session:
        before = len(session.ledger().lines)
        cut, never = "pay > 33 AND hour < 12", "region = 'n' AND region = 's'"  # cells do not decide; nobody
        for narrow in (NARROW, f"{NARROW} WHERE {cut}", f"{NARROW} WHERE {never}"):
            assert session.sql(narrow).spent.charged == 0
        assert len(session.ledger().lines) == before
        free = session.sql(GROUPS, at_most=0)
        assert free.spent.charged == session.analyst("reader", 0).sql(GROUPS).spent.charged == 0
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
            session.analyst("reader", 0).sql(GROUPS),
        ):
            assert again.spent.charged == 0
            assert [*again.estimates()] == [*table.estimates()]
        assert session.sql(ALONE).spent.charged == 0  # it is one of them
        assert len(session.ledger().lines) == before + 1
        assert session.verify().holds


def test_a_sum_is_paid_for_as_a_mean_is_and_so_is_what_is_made_of_them() -> None:
    for shown in ("SUM(pay)", "ROUND(AVG(pay / 2 + 1) FILTER (WHERE sex = 'f'), 1)"):
        with reserved() as session:
            statement = f"SELECT region, {shown} AS a FROM people WHERE hour < 12 GROUP BY region"
            free, paid = session.sql(statement, at_most=0), session.sql(statement)
            assert paid.spent.charged == pytest.approx(PRICE, rel=1e-3)
            assert sum(widths(paid)) < 0.7 * sum(widths(free))
            assert session.sql(statement).spent.charged == 0


def test_all_groups_are_paid_for_or_none_whatever_answers_choose() -> None:
    chosen = f"{GROUPS} HAVING AVG(pay) > 35 ORDER BY a DESC LIMIT 1"
    with reserved() as session:
        assert session.sql(chosen).spent.charged == pytest.approx(PRICE, rel=1e-3)
        (rows,) = bought(session)
        assert len(rows.rows) == 5


def test_values_of_two_attributes_share_one_price() -> None:
    both = GROUPS.replace("AVG(pay) AS a", "AVG(pay) AS a, AVG(hour) AS b").replace("hour < 12", "sex = 'f'")
    hour = IntegerAttribute("hour", 0, 23, resolution=1)
    domain = replace(DOMAIN, attributes=(hour, *DOMAIN.attributes[1:]))
    with reserved(domain=domain, epsilon=1) as session:
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


FEW = {"hour < 6": 0, "hour BETWEEN 6 AND 11": 6, "hour BETWEEN 12 AND 17": 12, "hour >= 18": 18}
REALLY = Requested.measured


@pytest.mark.parametrize("statement", [THREE, BOTH])
def test_however_wide_bars_came_out_they_are_not_bought_again_and_no_price_depends_on_them(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reserved() as one, reserved() as other:
        before = len(one.ledger().lines)
        table = one.sql(statement)
        monkeypatch.setattr(Requested, "measured", far_off)
        assert other.sql(statement).spent.charged > 0
        assert len(bought(other)) == 1
        assert one.ledger().lines == other.ledger().lines
        lines = one.ledger().lines[before:]
        assert [line.event for line in lines] == [Event.ROWS] * (statement is BOTH) + [Event.SUM]
        assert table.spent.charged == pytest.approx(sum(line.share for line in lines))
        assert all(line.price <= full_price(one.state) for line in lines)
        for asked in (GROUPS, ALONE, BOTH):
            prices = [session.explain(asked).forecast.most for session in (one, other)]
            assert prices[0] == prices[1]
        for _ in range(2):
            assert one.sql(statement, fresh=True).spent.charged == 0
            assert other.sql(statement, fresh=True).spent.charged == 0


def test_counts_that_are_known_later_do_not_have_a_mean_bought_again() -> None:
    """Its sums alone would do then, with less noise than those beside a number of values."""
    with reserved() as session:
        assert session.sql(THREE).spent.charged > 0
        assert session.state.sums[-1].summed.count_units > 0
        session.measure(["hour", "region", "smoker"])
        price, statement = full_price(session.state), parse_sql(THREE, DOMAIN)
        assert [*unclear_values(session.state, statement, price)] == []
        assert len([*unclear_values(session.state, statement, 2 * price)]) == 1
        assert session.sql(THREE, fresh=True).spent.charged == 0


def test_a_bar_that_a_purchase_narrows_by_less_than_a_tenth_is_kept() -> None:
    """Found by price: where sums were bought already, they are bought again at 1.21 times their price."""
    with reserved() as session:
        session.sql(GROUPS)
        state, statement = session.state, parse_sql(GROUPS, DOMAIN)
        paid = session.ledger().lines[-1].price
        for factor, wanted in ((1.0, 0), (GAIN**2 * 0.999, 0), (GAIN**2 * 1.3, 1)):
            assert len([*unclear_values(state, statement, Fraction(float(paid) * factor))]) == wanted


def test_means_are_taken_to_be_what_opening_knows_of_them_whatever_was_drawn_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[float]] = []
    present = mean_quotes._present

    def noted(state: Any, statement: Any, asked: Any) -> Any:
        seen.append([one.value for one in asked])
        return present(state, statement, asked)

    monkeypatch.setattr(mean_quotes, "_present", noted)
    with reserved() as session:
        session.sql_within(GROUPS, 20, at_most=1)  # at a lower price, so that it may be paid for again
        session.sql(GROUPS)
    with reserved() as session:
        session.sql(GROUPS)
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_the_width_that_is_paid_for_is_that_of_the_fewest_records_that_released_numbers_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where these are so few that a sum tells nothing of their mean, nothing is drawn."""
    wheres = "SELECT AVG(pay) AS a FROM people WHERE region = 'w' AND hour < 12"
    with reserved() as session:
        statement, price = parse_sql(wheres, session.domain), full_price(session.state)
        assert len([*unclear_values(session.state, statement, price)]) == 1
        for low, wanted in {2.0: 0, 40.0: 0, 4000.0: 1}.items():
            monkeypatch.setattr(Sums, "ends", lambda *_, low=low: (low, 5000.0))
            assert len([*unclear_values(session.state, statement, price)]) == wanted, low


def test_the_next_number_counts_sums_among_those_that_were_bought() -> None:
    where = "hour < 12 AND sex = 'f' AND region = 'n' AND smoker = 'yes'"
    with reserved() as session, reserved() as other:
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


def test_a_price_above_the_ceiling_is_refused_before_anything_is_drawn() -> None:
    with reserved() as session:
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


@pytest.mark.parametrize("share", [0.0065, 0.0055])
def test_a_statement_never_charges_more_than_a_share(share: float) -> None:
    with reserved() as session:
        analyst = session.analyst("ann", share)
        where = "sex = 'f' AND smoker = 'yes'"
        counted = f"SELECT region, AVG(pay) AS a, COUNT(*) AS n FROM people WHERE {where} GROUP BY region"
        analyst.sql(counted, at_most=1)
        booked = analyst.budget()
        assert 0 < booked.spent <= analyst.most
        assert booked.left is not None


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

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Requested, "measured", seen)
        for seed in range(6):
            with reserved(seed=seed, confidence=0.8) as session:
                for where, first in FEW.items():
                    before, known = len(found), truths(f"{first} <= hour < {first + 6}")
                    table = session.sql(GROUPS.replace("hour < 12", where))
                    assert table.spent.charged > 0
                    assert (len(found), found[-1].size) == (before + 1, 5)
                    what, noise = session.state.sums[-1].summed, session.state.sums[-1].noise
                    price = SumNumbers(what).charge(noise, session.state.contract.options)
                    assert session.ledger().lines[-1].price == session.state.ledger.price(price)
                    for key, one in zip(table.column("region")[:4], table.column("a"), strict=False):
                        is_missed = not one.interval[0] <= known[key] <= one.interval[1]
                        missed, asked = missed + is_missed, asked + 1
    assert 0.8 < float(np.concatenate(found).std()) < 1.2  # of 120 draws
    assert 0.01 * asked < missed < 0.27 * asked  # a fifth at most, but for chance


@pytest.mark.parametrize(
    ("relation", "clip"), [*zip(pmw.NeighboringRelation, (None, 100), strict=True)], ids=str
)
def test_persons_and_replaced_records_pay_the_same_and_have_more_noise(
    relation: pmw.NeighboringRelation, clip: int | None
) -> None:
    table = FRAME.assign(id=np.arange(len(FRAME)) // 3)
    person = Person("id", 3, clips=() if clip is None else (("pay", clip),))
    domain = replace(WHOLE, person=person)
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
    with reserved(epsilon=0.02, reserve=Fraction(1, 10)) as session:
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
