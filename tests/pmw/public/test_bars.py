"""Bars: one calculator gives a count, a sum over the same records, and ranges in arrays the same ones."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.model.estimate import Estimate
from pmw.model.measurement import HierarchicalMeasurement, MarginalMeasurement
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.answer import Basis
from pmw.public.bars import Bars, ends_in_order
from pmw.public.evidence import BASES, Candidates, evidence_of, is_whole_table, moved_cells
from pmw.public.free_answers import ModelAnswers
from pmw.public.half_widths import Confidences, Rests, WeightStats
from pmw.public.population import PopulationIntervals
from pmw.public.state import Certificate, PublicState, Total
from pmw.public.tables import AnswerTable
from pmw.public.tabulation import Tabulation
from queries import (
    UNITS,
    CategoricalAttribute,
    DateAttribute,
    Domain,
    Factor,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    parse_where,
)
from queries.linear import Readings
from queries.parsing import parse_sql
from queries.person import Person
from queries.questions import QuestionList
from tests.worlds import ends

ALL: dict[str, Any] = {"missing": True, "other": True}
AGE, HOURS = IntegerAttribute("age", 0, 59, **ALL), IntegerAttribute("hours", 0, 39, width=4, **ALL)
SEX, GRADE = CategoricalAttribute("sex", ("f", "m"), **ALL), IntegerAttribute("grade", 0, 9, **ALL)
FEW = IntegerAttribute("grade", 0, 5, **ALL), IntegerAttribute("hours", 0, 39, width=8, **ALL)
SMALL, LARGE = Domain((SEX, *FEW), "people"), Domain((AGE, HOURS, SEX, GRADE), "people")
FORMS: dict[str, dict[str, Any]] = {
    "Gaussian": {"composition": pmw.Composition.GDP, "reserve": 0},
    "Gaussian, replace-one": {
        "composition": pmw.Composition.GDP, "reserve": 0,
        "neighboring_relation": pmw.NeighboringRelation.REPLACE_ONE,
    },
    "pure": {"composition": pmw.Composition.PURE},
    "pure, replace-one": {
        "composition": pmw.Composition.PURE, "neighboring_relation": pmw.NeighboringRelation.REPLACE_ONE,
    },
    "simultaneous": {"simultaneous": True},
}  # fmt: skip
WHOLE = ("Gaussian", "pure, replace-one", "simultaneous")  # of which the small domain is asked, too
QUESTIONS = (
    "sex = 'f'", "grade >= 3", "grade IN (1, 4)", "sex = 'f' AND grade BETWEEN 2 AND 6",
    "sex = 'f' OR grade = 3", "hours < 8", "hours < 10", "hours < 12 AND sex = 'm'",
)  # fmt: skip
LONG = (
    "age < 30", "age BETWEEN 3 AND 41", "age < 20 OR age >= 50", "age BETWEEN 7 AND 23 AND grade < 5",
    "age >= 13 AND hours < 16", "age >= 31 AND hours < 10",
)  # fmt: skip


def people(records: int = 4000) -> pd.DataFrame:
    generator = np.random.default_rng(3)
    age = generator.integers(0, 60, records)
    return pd.DataFrame(
        {
            "age": age,
            "hours": np.clip(age // 2 + generator.integers(0, 10, records), 0, 39),
            "sex": np.where(generator.random(records) < 0.2 + age / 100, "f", "m"),
            "grade": np.clip(age // 16 + generator.integers(0, 3, records), 0, 9),
        }
    )


def opened(domain: Domain, options: Mapping[str, Any]) -> pmw.Session:
    return pmw.open_session(
        people(), domain, epsilon=2, delta=0 if options.get("composition") is pmw.Composition.PURE else 1e-9,
        options=pmw.Options(seed=5, **options),
    )  # fmt: skip


def summed(session: pmw.Session, where: str, weight: str) -> tuple[float, float]:
    text = f"SELECT SUM(CASE WHEN {where} THEN {weight} ELSE 0 END) AS n FROM people"
    frame = session.sql(text).to_pandas()
    return float(frame["n_low"].iloc[0]), float(frame["n_high"].iloc[0])


@pytest.mark.parametrize("form", FORMS)
def test_bars_that_hold_together_have_each_its_part_of_what_may_fail(form: str) -> None:
    with opened(LARGE, FORMS[form]) as session:
        session.ask_all(QUESTIONS)
        state = session.state
    contract = state.contract
    surer = replace(contract, options=replace(contract.options, confidence=1 - 0.05 / 4))
    alone, together = Bars(state), Bars(state, events=4)
    expected = alone if form == "simultaneous" else Bars(replace(state, contract=surer))
    for where in QUESTIONS:
        query = parse_where(where, LARGE)
        found, wanted, narrow = (bounds.of_query(query) for bounds in (together, expected, alone))
        assert found[:2] == pytest.approx(wanted[:2], nan_ok=True)
        if form != "simultaneous" and not math.isnan(float(narrow.low)):
            assert found.low < narrow.low <= narrow.high < found.high


@pytest.mark.parametrize(
    ("form", "domain", "questions"),
    [*((one, LARGE, QUESTIONS + LONG) for one in FORMS), *((one, SMALL, QUESTIONS) for one in WHOLE)],
)
def test_a_sum_of_ones_has_the_bar_of_its_count(
    form: str, domain: Domain, questions: tuple[str, ...]
) -> None:
    with opened(domain, FORMS[form]) as session:
        session.ask_all(questions)  # what is tested, is tested
        kinds = set()
        for where in questions:
            bound = Bars(session.state).of_query(parse_where(where, domain))
            if math.isnan(float(bound.low)):
                continue
            kinds.add(BASES[int(bound.basis)])
            answer = session.ask(where, fresh=True)
            low, high = ends(answer)
            assert summed(session, where, "1") == (math.floor(low), math.ceil(high))  # numbers of records
            most, least = summed(session, where, "-3")
            assert (most, least) == pytest.approx((-3 * bound.high, -3 * bound.low), rel=1e-9)
            assert low <= max(0.0, -least / 3) + 1e-6
            assert high >= -most / 3 - 1e-6
        everybody = Bars(session.state).everybody(1.0)
        low, high = Bars(session.state).of_sum((), np.full((), -2.0), np.full((), -2.0))
        assert high - low == pytest.approx(4 * everybody.half_width)
        whole = is_whole_table(session.state.opening[0], session.state)
    assert whole == (domain is SMALL and "simultaneous" not in form)
    assert Basis.RELEASED in kinds
    assert domain is SMALL or Basis.TESTED in kinds or session.state.marginals


@cache
def asked(form: str) -> PublicState:
    with opened(LARGE, FORMS[form]) as session:
        session.ask_all(LONG)
        return session.state


@cache
def whole_table(noise: DiscreteLaplace | DiscreteGaussian) -> tuple[PublicState, Estimate]:
    form = "pure" if isinstance(noise, DiscreteLaplace) else "Gaussian"
    with opened(SMALL, FORMS[form]) as session:
        state = session.state
    (table,) = state.opening
    assert isinstance(table, MarginalMeasurement)
    return state, moved_cells(table.estimate, state.total)


def test_numbers_far_from_0_and_near_each_other_have_bars_that_hold() -> None:
    state, table = whole_table(DiscreteGaussian(Fraction(UNITS)))
    table = replace(table, total_deviation=0.0)  # public, so that only the differences count
    evidence = evidence_of(state, table, SMALL.names, Confidences.in_state(state).shares(Rests.MEASURED))
    near = np.random.default_rng(1).integers(0, 2, SMALL.shape).astype(np.float64)
    exact = evidence.noise.half_width(near)
    for far in (1e3, 1e6, 1e9, 1e12):
        assert evidence.noise.half_width(np.add(near, far)) >= exact


def test_a_question_and_numbers_of_its_weights_have_one_bar() -> None:
    state, table = whole_table(DiscreteLaplace(Fraction(UNITS)))
    evidence = evidence_of(state, table, ("sex", "grade"), Confidences.in_state(state).shares(Rests.MEASURED))
    box = LinearQuery.cells(SMALL, {"sex": (0, 1), "grade": (2, 5)})
    cells = LinearQuery.everything(SMALL).within({"sex": np.array([0, 3]), "grade": np.array([1, 3, 5, 6])})
    widths = [Candidates([evidence]).of_query(one)[1] for one in (box, cells)]
    assert (
        widths[0] == widths[1] == pytest.approx(evidence.noise.half_width(cells.weights() / UNITS), rel=1e-12)
    )


def test_no_measured_number_of_a_tree_has_a_weight_beyond_what_its_bar_allows_for() -> None:
    tree = next(one for one in asked("Gaussian").opening if isinstance(one, HierarchicalMeasurement))
    nodes = len(tree.units)
    rows = []
    for node in range(nodes):
        units = np.zeros(nodes, dtype=np.int64)
        units[node] = UNITS
        rows.append(HierarchicalMeasurement(tree.scope, tree.tree, units, tree.noise).values)
    matrix = np.stack(rows)  # what each measured number gives each cell
    generator = np.random.default_rng(4)
    for _ in range(300):
        weights = np.array(generator.normal(generator.normal(0, 1), 1, len(matrix.T)))
        assert np.abs(matrix @ weights).max() <= WeightStats.of(weights).reach * (1 + 1e-9)
    worst = np.maximum(np.clip(matrix, 0, None).sum(axis=1), np.clip(-matrix, 0, None).sum(axis=1))
    assert worst.max() <= 1 + 1e-9  # the most that weights in [0, 1] come to


def test_ends_of_a_sum_that_rest_on_different_noises_share_what_may_fail() -> None:
    """The low end of a sum between two weights is a measured number's, the high end a certificate's."""
    with opened(LARGE, {"opening": pmw.Opening.NONE, "composition": pmw.Composition.GDP}) as session:
        state = session.state
    scope, shape = ("sex", "grade"), LARGE.scope_shape(("sex", "grade"))
    units = np.full(shape, 700 * UNITS, dtype=np.int64)
    certificate = Certificate(scope, 0, 20 * UNITS, units)
    confidences = Confidences.in_state(state)
    mixed = confidences.shares(Rests.MIXED)
    cell = np.array([0.0, 1.0])
    bound = evidence_of(state, certificate, scope, confidences.shares(Rests.CERTIFIED)).noise.half_width(cell)
    certified = evidence_of(state, certificate, scope, mixed).noise.half_width(cell)
    assert certified > bound
    noise = DiscreteGaussian(Fraction(round(bound / 3 * UNITS)))  # one cell is narrower, many are wider
    measured = MarginalMeasurement(scope, units, noise)
    total = Total(12000.0, 12000.0, 3.0)  # so that nobody's end is everybody's

    held = replace(state, measured=(measured,), certificates={scope: certificate}, total=total)
    low, high = np.zeros(shape), np.zeros(shape)
    low[0, 0], high[:2, :6] = 1.0, 1.0
    least, most = Bars(held).of_sum(scope, low, high)
    one = evidence_of(held, measured.estimate, scope, mixed).noise.half_width(cell)
    assert least == pytest.approx(700 - one)
    assert most == pytest.approx(
        700 * 12 + evidence_of(held, certificate, scope, mixed).noise.half_width(cell)
    )
    factors = [LinearQuery(LARGE, (Factor(scope, (end * UNITS).astype(np.int64)),)) for end in (low, high)]

    query = LinearQuery(LARGE, factors[0].factors, readings=Readings(*factors))
    bar = Bars(held).of_query(query)
    assert (least, most) == pytest.approx((bar.low, bar.high))


# --- hard ends ----------------------------------------------------------------------------------------------

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
ASKED = ("", "city = 'a'", "age >= 3", "city = 'a' AND age < 5", "city = 'a' OR pay < 10", "pay < 7")


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
@pytest.mark.parametrize(
    "records", [-200, 20, *(pytest.param(one, marks=pytest.mark.slow) for one in (-20, 200))]
)
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
    queries = [parse_where(where, found.domain) for where in ASKED]
    together = ModelAnswers(found).answers(QuestionList(queries))
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


# --- one condition has one value and one bar, in whatever form a statement asks it. -------------------------

SPELLED = Domain(
    (
        IntegerAttribute("age", 18, 30, resolution=1),
        IntegerAttribute("wide", 0, 29, 10, missing=True),
        NumericAttribute("x", (0, 5, 10, 20), integer=True),
        NumericAttribute("pay", (0.0, 10.0, 25.0, 100.0), missing=True),
        DateAttribute("d", datetime.date(2023, 1, 1), datetime.date(2023, 6, 30), "month"),
        CategoricalAttribute("g", ("a", "b", "c"), other=True),
    ),
    name="t",
)
CONDITIONS = [  # those of the first line cut no cell
    "x < 10", "g = 'a'", "wide IS NULL",
    "x <= 7", "x = 7", "wide <> 13", "pay < 17.5", "d <= '2023-02-14'", "g LIKE 'z%'", "x > wide", "x + 1 <= 8",  # noqa: E501
    "x <= 7 AND pay > 3", "x <= 7 OR wide < 5", "x <= 7 AND g = 'b' AND age < 25",
]  # fmt: skip
EVERY_FORM = ("x <= 7", "x <= 7 AND pay > 3")  # of the others each form has a third
ASKED_BY: dict[str, tuple[str, ...]] = {
    "MEDIAN(age)": ("x <= 7",),
    "STDDEV(age)": ("x <= 7",),
    "MIN(age)": EVERY_FORM,
    "MAX(age)": EVERY_FORM,
}
WHERE = [
    "{c}", "({c})", "NOT (NOT ({c}))", "({c}) AND TRUE", "({c}) OR FALSE", "({c}) IS TRUE",
    "NOT (({c}) IS NOT TRUE)", "({c}) = TRUE", "TRUE = ({c})", "({c}) <> FALSE", "({c}) IS NOT DISTINCT FROM TRUE",  # noqa: E501
    "COALESCE(({c}), FALSE)", "COALESCE(({c}), NULL, FALSE)", "CASE WHEN {c} THEN TRUE ELSE FALSE END",
    "CASE WHEN {c} THEN TRUE END", "CASE WHEN {c} THEN 1 ELSE 0 END", "IF({c}, TRUE, FALSE)",
]  # fmt: skip
CASES = [
    "CASE WHEN {c} THEN {v} END", "CASE WHEN {c} THEN {v} ELSE NULL END", "IF({c}, {v}, NULL)",
    "IF(({c}) IS TRUE, {v})", "CASE ({c}) WHEN TRUE THEN {v} END",
    "CASE WHEN {c} THEN CASE WHEN TRUE THEN {v} END END",
]  # fmt: skip
SPELLINGS = {
    "COUNT(*)": [
        *(f"COUNT(*) AS v FROM t WHERE {where}" for where in WHERE),
        "COUNT(*) AS v FROM (SELECT * FROM t WHERE {c})", "COUNT(*) FILTER (WHERE {c}) AS v FROM t",
        "COUNT(1) FILTER (WHERE {c}) AS v FROM t", "COUNT_IF({c}) AS v FROM t",
        "SUM(1) FILTER (WHERE {c}) AS v FROM t", "SUM({c}) AS v FROM t",
        "SUM(CASE WHEN {c} THEN 1 ELSE 0 END) AS v FROM t", "SUM(IF({c}, 1, 0)) AS v FROM t",
        "SUM(CAST(({c}) AS INTEGER)) AS v FROM t", "COUNT(CASE WHEN {c} THEN 'yes' END) AS v FROM t",
        *(f"COUNT({case}) AS v FROM t".replace("{v}", "1") for case in CASES),
        *(f"SUM({case}) AS v FROM t".replace("{v}", "1") for case in CASES),
    ],
    "SUM(age)": [
        *(f"SUM(age) AS v FROM t WHERE {where}" for where in WHERE[11:]),
        "SUM(age) FILTER (WHERE {c}) AS v FROM t", "SUM(CASE WHEN {c} THEN age ELSE 0 END) AS v FROM t",
        *(f"SUM({case}) AS v FROM t".replace("{v}", "age") for case in CASES),
    ],
    "AVG(age)": [
        *(f"AVG(age) AS v FROM t WHERE {where}" for where in WHERE[11:]),
        "AVG(age) FILTER (WHERE {c}) AS v FROM t",
        "SUM(age) FILTER (WHERE {c}) / COUNT(*) FILTER (WHERE {c}) AS v FROM t",
        "SUM(CASE WHEN {c} THEN age END) * 1.0 / COUNT(CASE WHEN {c} THEN 1 END) AS v FROM t",
        "SUM(CASE WHEN {c} THEN age ELSE 0 END) / SUM(CASE WHEN {c} THEN 1 ELSE 0 END) AS v FROM t",
        *(f"AVG({case}) AS v FROM t".replace("{v}", "age") for case in CASES),
    ],
    **{
        f"{name}(age)": [f"{name}(age) FILTER (WHERE {{c}}) AS v FROM t",
                         f"{name}(CASE WHEN {{c}} THEN age END) AS v FROM t"]
        for name in ("MEDIAN", "MIN", "MAX", "STDDEV")
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=["all pairs", "tests"])
def spelled(request: pytest.FixtureRequest) -> Iterator[pmw.Session]:
    generator, rows = np.random.default_rng(7), 3000
    days = generator.integers(0, 181, rows)
    wide = pd.Series(generator.integers(0, 30, rows), dtype="Int64")
    frame = pd.DataFrame(
        {
            "age": generator.integers(18, 31, rows),
            "wide": wide.mask(generator.random(rows) < 0.1),
            "x": generator.integers(0, 21, rows),
            "pay": np.where(generator.random(rows) < 0.1, np.nan, generator.uniform(0, 100, rows)),
            "d": [datetime.date(2023, 1, 1) + datetime.timedelta(int(day)) for day in days],
            "g": generator.choice(["a", "b", "c", "q"], rows),
        }
    )
    opening = pmw.Opening.PAIRS if request.param == "all pairs" else pmw.Opening.ONE_WAY
    options = pmw.Options(seed=3, opening=opening)
    with pmw.open_session(frame, SPELLED, epsilon=20, delta=1e-9, options=options) as one:
        yield one


def value_and_bar(spelled: pmw.Session, statement: str) -> tuple[object, ...]:
    """Return the value, the bar and what has to be known of both."""
    ((_, (one,)),) = spelled.sql(f"SELECT {statement}").rows
    value = None if one.value is None else pytest.approx(one.value, rel=1e-6)  # a weight is rounded to a grid
    return value, one.interval, one.conditional, one.aligned


@pytest.mark.parametrize(
    ("what", "condition"),
    [
        pytest.param(what, condition, marks=[pytest.mark.slow] * ((row + place) % 2))
        for row, what in enumerate(SPELLINGS)
        for place, condition in enumerate(ASKED_BY.get(what, CONDITIONS))
    ],
)
def test_a_condition_has_one_value_and_one_bar_in_every_form(
    spelled: pmw.Session, what: str, condition: str
) -> None:
    if spelled.state.contract.options.opening is pmw.Opening.ONE_WAY and (
        what not in ("COUNT(*)", "AVG(age)") or condition not in ("x <= 7", "x <= 7 AND pay > 3")
    ):
        return
    plain = f"{what} AS v FROM t WHERE {condition}"
    value_and_bar(spelled, plain)  # which may measure what it asks
    right = value_and_bar(spelled, plain)
    place = CONDITIONS.index(condition)
    for number, form in enumerate(SPELLINGS[what]):
        if condition in EVERY_FORM or number % 3 == place % 3:
            assert value_and_bar(spelled, form.replace("{c}", condition)) == right, form
