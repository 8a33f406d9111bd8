"""Hard ends: where what may fail has failed, intervals still lie inside what every table allows."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.model.measurement import MarginalMeasurement
from pmw.public.bars import ends_in_order, hard_ends_of
from pmw.public.free_answers import FreeAnswers, ModelAnswers
from pmw.public.population import PopulationIntervals
from pmw.public.state import PublicState
from pmw.public.tables import AnswerTable
from pmw.public.tabulation import Tabulation
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, parse_where
from queries.parsing import parse_sql
from queries.person import Person
from queries.questions import QuestionList
from tests.worlds import ends

RECORDS = 40
ATTRIBUTES = (
    CategoricalAttribute("city", ("a", "b", "c"), missing=True, other=True),
    IntegerAttribute("age", 0, 9, missing=True, other=True),
    NumericAttribute("pay", (0, 10, 100, 1000), missing=True, other=True, resolution=0.5),
)
HARD = {
    "COUNT(*)": (0, RECORDS),
    "SUM(pay)": (0, 1000 * RECORDS),
    "SUM(0 - pay)": (-1000 * RECORDS, 0),
    "SUM(pay + 1)": (0, 1001 * RECORDS),
    "AVG(pay)": (0, 1000),
    "AVG(age)": (0, 9),
    "MEDIAN(pay)": (0, 1000),
    "MIN(pay)": (0, 1000),
    "MAX(age)": (0, 9),
    "STDDEV_POP(age)": (0, 4.5),
    "VARIANCE(pay)": (0, 1000**2 / 2),
    "1.0 * COUNT(*) / SUM(COUNT(*)) OVER ()": (0, 1),
    "MAX(COUNT(*)) OVER ()": (0, RECORDS),
}
QUESTIONS = ("", "city = 'a'", "age >= 3", "city = 'a' AND age < 5", "city = 'a' OR pay < 10", "pay < 7")


@cache
def state(*, people: int = 1) -> PublicState:
    """Return the state of a session; the number of records is public but where a person has several."""
    generator = np.random.default_rng(9)
    columns = {
        "city": generator.choice(["a", "b"], RECORDS, p=[0.9, 0.1]),
        "age": generator.integers(0, 10, RECORDS),
        "pay": np.round(generator.gamma(0.7, 60, RECORDS), 3),
        "id": np.arange(RECORDS) // people,
    }
    frame = pd.DataFrame(columns)
    person = None if people == 1 else Person("id", people)
    relation = pmw.NeighboringRelation.REPLACE_ONE if people == 1 else pmw.NeighboringRelation.ADD_REMOVE
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY, neighboring_relation=relation)
    domain = Domain(ATTRIBUTES, "t", person=person)
    frame = frame if people > 1 else frame.drop(columns="id")
    with pmw.open_session(frame, domain, epsilon=100, delta=1e-9, options=options) as session:
        session.measure(["city", "age"])
        session.measure_sum("pay", "city", share="0.05")
        if people > 1:
            session.measure_heads("city", share="0.05")
        return session.state


def off(found: PublicState, records: float) -> PublicState:
    """Return a state all of whose noises are far off, but for that of the number of records."""

    def moved(one: MarginalMeasurement) -> MarginalMeasurement:
        return replace(one, units=one.units + round(records * UNITS))

    return replace(
        found,
        opening=tuple(moved(one) if isinstance(one, MarginalMeasurement) else one for one in found.opening),
        measured=tuple(moved(one) if isinstance(one, MarginalMeasurement) else one for one in found.measured),
        apart=tuple(replace(one, units=one.units + round(records * UNITS)) for one in found.apart),
    )


def told(found: PublicState, text: str) -> AnswerTable:
    statement = parse_sql(text, found.domain)
    work, of = Tabulation(found, statement), ModelAnswers(found)
    return work.table(found, [of.answer(query) for query, _ in work.questions()])


@pytest.mark.parametrize("aggregate", HARD)
@pytest.mark.parametrize("records", [-200, -20, 20, 200])
def test_what_a_statement_is_answered_lies_inside_what_every_table_allows(
    aggregate: str, records: float
) -> None:
    least, greatest = HARD[aggregate]
    for tail in ("GROUP BY city", "WHERE age < 5 GROUP BY city", "WHERE city = 'a' GROUP BY age"):
        for one in told(off(state(), records), f"SELECT {aggregate} AS v FROM t {tail}").column("v"):
            if one.interval is not None and one.value is not None:
                assert least <= one.interval[0] <= one.value <= one.interval[1] <= greatest


@pytest.mark.parametrize("records", [-200, -20, 20, 200])
def test_counts_lie_between_nobody_and_everybody_one_by_one_and_together(records: float) -> None:
    found = off(state(), records)
    queries = [parse_where(where, found.domain) for where in QUESTIONS]
    together = FreeAnswers().answers(found, QuestionList(queries))
    for query, both in zip(queries, together.interval.tolist(), strict=True):
        answer = ModelAnswers(found).answer(query)
        assert answer.interval == pytest.approx(both)
        assert 0 <= both[0] <= answer.count <= both[1] <= RECORDS
        interval = PopulationIntervals(found).of(query) if query.aligned else None
        assert interval is None or 0 <= interval.low <= interval.high <= 1


@pytest.mark.parametrize("records", [-200, 200])
def test_numbers_of_persons_are_not_negative(records: float) -> None:
    table = told(off(state(people=2), records), "SELECT COUNT(DISTINCT id) AS v FROM t GROUP BY city")
    for one in table.column("v"):
        assert 0 <= ends(one)[0] <= ends(one)[1]


def test_ends_of_sums_follow_from_the_weights_of_a_record() -> None:
    public, private = state(), state(people=2)
    assert hard_ends_of(public) == (0, RECORDS)
    assert hard_ends_of(public, 2, 5) == (2 * RECORDS, 5 * RECORDS)
    assert hard_ends_of(public, -5, -2) == (-5 * RECORDS, -2 * RECORDS)
    assert hard_ends_of(private) == (0, math.inf)
    assert hard_ends_of(private, 2, 5) == (0, math.inf)
    assert hard_ends_of(private, -5, -2) == (-math.inf, 0)
    assert hard_ends_of(private, 0, 0) == (0, 0)


ENDS = st.floats(-100, 100)


@given(ENDS, ENDS, st.tuples(ENDS, ENDS).map(sorted))
def test_ends_are_exchanged_and_then_cut(low: float, high: float, hard: list[float]) -> None:
    least, greatest = hard
    found = ends_in_order(low, high, (least, greatest))
    assert least <= found.low <= found.high <= greatest
    if least <= low <= high <= greatest:
        assert found == (low, high)
    assert found == ends_in_order(high, low, (least, greatest))
    many = ends_in_order(np.array([low, high]), np.array([high, low]), (least, greatest))
    assert np.asarray(many).T.tolist() == [[*found], [*found]]
