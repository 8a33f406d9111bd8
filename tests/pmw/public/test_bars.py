"""Bars: one calculator gives a count, a sum over the same records, and ranges in arrays the same ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.estimate import Estimate
from pmw.model.measurement import HierarchicalMeasurement, MarginalMeasurement
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.answer import Basis
from pmw.public.bars import Bars
from pmw.public.evidence import BASES, Candidates, evidence_of, is_whole_table, moved_cells
from pmw.public.free_answers import ModelAnswers
from pmw.public.half_widths import Confidences, Rests, WeightStats
from pmw.public.state import Certificate, PublicState, Total
from queries import UNITS, CategoricalAttribute, Domain, Factor, IntegerAttribute, LinearQuery
from queries.boxes import Boxes
from queries.linear import Readings
from queries.parsing import parse_where
from tests.worlds import ends as bar_of

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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("domain", "questions"), [(SMALL, QUESTIONS), (LARGE, QUESTIONS + LONG)])
def test_a_sum_of_ones_has_the_bar_of_its_count(
    form: str, domain: Domain, questions: tuple[str, ...]
) -> None:
    with opened(domain, FORMS[form]) as session:
        session.ask_all(questions)  # what is tested, is tested
        kinds = set()
        for where in questions:
            ends = Bars(session.state).of_query(parse_where(where, domain))
            if math.isnan(float(ends.low)):
                continue
            kinds.add(BASES[int(ends.basis)])
            answer = session.ask(where, fresh=True)
            low, high = bar_of(answer)
            assert summed(session, where, "1") == (math.floor(low), math.ceil(high))  # numbers of records
            for weight in (2.0, -3.0):
                found = summed(session, where, f"{weight:g}")
                scaled = sorted((weight * ends.low, weight * ends.high))
                assert found == pytest.approx(scaled, rel=1e-9)
                shown = sorted(end * abs(weight) / weight for end in found)
                assert bar_of(answer)[0] <= max(0.0, shown[0] / abs(weight)) + 1e-6
                assert bar_of(answer)[1] >= shown[1] / abs(weight) - 1e-6
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", [("age",), ("sex", "grade"), ("age", "grade")])
def test_ranges_in_arrays_have_the_bars_of_single_questions(form: str, names: tuple[str, ...]) -> None:
    state, generator = asked(form), np.random.default_rng(0)
    ends = [np.sort(generator.integers(0, LARGE[name].size, (60, 2)), axis=1) for name in names]
    first, last = (np.stack([end[:, side] for end in ends], axis=1) for side in (0, 1))
    answers = ModelAnswers(state)
    for _, part in Boxes.of(LARGE, names, first, last).parts():
        found = answers.of_boxes(part) if part.scope else None
        if found is None:
            continue
        for place in range(len(part)):
            alone = answers.bars.of_query(part.query(place))
            _, low, high, basis, *_ = found[:, place]
            assert (low, high) == pytest.approx((alone.low, alone.high), rel=1e-9, abs=1e-6)
            assert basis == alone.basis


@cache
def whole_table(noise: DiscreteLaplace | DiscreteGaussian) -> tuple[PublicState, Estimate]:
    form = "pure" if isinstance(noise, DiscreteLaplace) else "Gaussian"
    with opened(SMALL, FORMS[form]) as session:
        state = session.state
    (table,) = state.opening
    assert isinstance(table, MarginalMeasurement)
    return state, moved_cells(table.estimate, state.total)


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(UNITS)), DiscreteGaussian(Fraction(UNITS))])
def test_a_bar_is_in_proportion_to_its_weights(noise: DiscreteLaplace | DiscreteGaussian) -> None:
    state, table = whole_table(noise)
    generator = np.random.default_rng(2)
    evidence = evidence_of(state, table, ("sex", "grade"), Confidences.in_state(state).shares(Rests.MEASURED))
    for _ in range(20):
        weights = generator.normal(generator.normal(0, 3), 1, SMALL.scope_shape(("sex", "grade")))
        assert evidence.by_stats is not None
        one = evidence.by_stats(WeightStats.of(weights))
        for factor in (-1.0, 2.0, 1e6):
            scaled = evidence.by_stats(WeightStats.of(factor * weights))
            assert scaled == pytest.approx(abs(factor) * one, rel=1e-9)


def test_numbers_far_from_0_and_near_each_other_have_bars_that_hold() -> None:
    state, table = whole_table(DiscreteGaussian(Fraction(UNITS)))
    table = replace(table, total_deviation=0.0)  # public, so that only the differences count
    evidence = evidence_of(state, table, SMALL.names, Confidences.in_state(state).shares(Rests.MEASURED))
    near = np.random.default_rng(1).integers(0, 2, SMALL.shape).astype(np.float64)
    assert evidence.by_stats is not None
    exact = evidence.by_stats(WeightStats.of(near))
    for far in (1e3, 1e6, 1e9, 1e12):
        assert evidence.sum_half_width(np.add(near, far)) >= exact


def test_a_question_and_numbers_of_its_weights_have_one_bar() -> None:
    state, table = whole_table(DiscreteLaplace(Fraction(UNITS)))
    evidence = evidence_of(state, table, ("sex", "grade"), Confidences.in_state(state).shares(Rests.MEASURED))
    box = LinearQuery.cells(SMALL, {"sex": (0, 1), "grade": (2, 5)})
    cells = LinearQuery.everything(SMALL).within({"sex": np.array([0, 3]), "grade": np.array([1, 3, 5, 6])})
    widths = [Candidates([evidence]).of_query(one)[1] for one in (box, cells)]
    assert (
        widths[0] == widths[1] == pytest.approx(evidence.sum_half_width(cells.weights() / UNITS), rel=1e-12)
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
    bound = evidence_of(state, certificate, scope, confidences.shares(Rests.CERTIFIED)).sum_half_width(cell)
    certified = evidence_of(state, certificate, scope, mixed).sum_half_width(cell)
    assert certified > bound
    noise = DiscreteGaussian(Fraction(round(bound / 3 * UNITS)))  # one cell is narrower, many are wider
    measured = MarginalMeasurement(scope, units, noise)
    total = Total(12000.0, 12000.0, 3.0)  # so that nobody's end is everybody's

    held = replace(state, measured=(measured,), certificates={scope: certificate}, total=total)
    low, high = np.zeros(shape), np.zeros(shape)
    low[0, 0], high[:2, :6] = 1.0, 1.0
    least, most = Bars(held).of_sum(scope, low, high)
    one = evidence_of(held, measured.estimate, scope, mixed).sum_half_width(cell)
    assert least == pytest.approx(700 - one)
    assert most == pytest.approx(700 * 12 + evidence_of(held, certificate, scope, mixed).sum_half_width(cell))
    factors = [LinearQuery(LARGE, (Factor(scope, (end * UNITS).astype(np.int64)),)) for end in (low, high)]

    query = LinearQuery(LARGE, factors[0].factors, readings=Readings(*factors))
    ends = Bars(held).of_query(query)
    assert (least, most) == pytest.approx((ends.low, ends.high))
