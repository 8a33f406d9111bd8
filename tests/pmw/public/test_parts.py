"""Parts: what some attributes say of a question holds, says as much as it may, and shares what may fail."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.data import MemorySource
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.public.answer import Basis, Source
from pmw.public.bars import Bars
from pmw.public.bounded import OneSum
from pmw.public.evidence import BASES
from pmw.public.free_answers import ModelAnswers
from pmw.public.half_widths import AxisNoise, Confidences, Rests, Shares, total_error_bound
from pmw.public.state import Certificate, PublicState
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, parse_where
from queries.cell_sets import CellSets
from queries.factors import Factor
from tests.worlds import PEOPLE, WIDE, known
from tests.worlds import ends as bar_of

FORMS: dict[str, dict[str, Any]] = {
    "pure": {"composition": pmw.Composition.PURE},
    "zCDP": {"composition": pmw.Composition.ZCDP},
    "GDP": {"composition": pmw.Composition.GDP},
    "GDP, replace-one": {
        "composition": pmw.Composition.GDP, "neighboring_relation": pmw.NeighboringRelation.REPLACE_ONE,
    },
    "pure, 4 records of a person": {"composition": pmw.Composition.PURE, "records_per_person": 4},
    "zCDP, 4 records of a person": {"composition": pmw.Composition.ZCDP, "records_per_person": 4},
}  # fmt: skip
DOMAIN = WIDE.domain
SOURCE = MemorySource.from_frame(WIDE.frame, DOMAIN)
CELLS = DOMAIN["a"].size
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"))
MOST = "a >= 1 AND b <= 2 AND c <= 2"  # so many that parts leave a low end
CONJUNCTIONS = (MOST, "a = 3 AND b = 2", "a >= 2 AND b <= 1 AND c = 0", "a IN (0, 2) AND d IN (1, 3)")


@cache
def opened(form: str) -> PublicState:
    """Return the state of a session that was just opened: the one-way counts are known, and no pair."""
    delta = 0.0 if FORMS[form]["composition"] is pmw.Composition.PURE else 1e-9
    return WIDE.state(seed=4, delta=delta, **FORMS[form])


def counts(scope: tuple[str, ...]) -> NDArray[np.float64]:
    return SOURCE.counts(scope).counts.astype(np.float64)


def with_errors(state: PublicState, errors: dict[str, NDArray[np.float64]], everybody: float) -> PublicState:
    """Return a state whose one-way counts, and whose number of records, are off by so many records."""
    opening = []
    for one in state.opening:
        assert isinstance(one, MarginalMeasurement)
        values = counts(one.scope) + errors.get(one.scope[0], 0.0)
        opening.append(replace(one, units=np.rint(values * UNITS).astype(np.int64)))
    total = replace(state.total, value=len(WIDE.frame) + everybody, estimate=len(WIDE.frame) + everybody)
    return replace(state, opening=tuple(opening), total=total)


def axis_noise(state: PublicState, name: str, shares: Shares) -> AxisNoise:
    (measured,) = (one for one in state.opening if one.scope == (name,))
    return AxisNoise(measured.estimate, shares.measured)


def run_width(state: PublicState, name: str, shares: Shares, cell: int) -> float:
    run = CellSets(np.array([cell]), np.array([cell]))
    return float(axis_noise(state, name, shares).product_half_widths([run])[0])


def part_shares(state: PublicState, attributes: int) -> Shares:
    """Return what the parts of a question have of what may fail where nothing is known of it itself."""
    return Confidences.in_state(state).of_parts(Rests.PARTS, 2 * attributes)


def run(query: LinearQuery, name: str) -> NDArray[np.float64]:
    """Return a question's weights along one attribute, of records."""
    (factor,) = (one for one in query.factors if one.scope == (name,))
    return factor.weights / UNITS


# --- each part holds, and says as much as it may ------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", CONJUNCTIONS)
def test_a_conjunction_counts_at_most_what_each_part_counts_and_at_least_what_all_leave(
    form: str, where: str
) -> None:
    state, query = opened(form), parse_where(where, DOMAIN)
    shares, values, widths = part_shares(state, len(query.scope)), [], []
    for name in query.scope:
        weights = run(query, name)
        (measured,) = (one for one in state.opening if one.scope == (name,))
        values.append(float(np.sum(weights * measured.values)))
        widths.append(axis_noise(state, name, shares).half_width(weights))
    everybody = state.total.value + total_error_bound(state, shares.everybody)
    high = min(everybody, *(value + width for value, width in zip(values, widths, strict=True)))
    low = sum(values) - sum(widths) - (len(values) - 1) * everybody
    found = Bars(state).of_query(query)
    assert (low > 0) == (where == MOST and form != "pure, 4 records of a person")
    assert (found.low, found.high) == pytest.approx((max(0.0, low), high))
    assert BASES[int(found.basis)] is Basis.PARTS
    answer = ModelAnswers(state).answer(query)
    assert answer.interval == (found.low, found.high)
    assert answer.source is Source.UNVERIFIED


CONDITIONS = st.builds(
    lambda name, low, size: f"{name} BETWEEN {low} AND {min(3, low + size)}",
    st.sampled_from("abcd"), st.integers(0, 3), st.integers(0, 3),
)  # fmt: skip
WHERES = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)
SIGNS = st.dictionaries(
    st.sampled_from("abc"), st.tuples(st.integers(0, CELLS - 1), st.sampled_from([-1, 1]))
)


@given(WHERES, SIGNS, st.sampled_from([-1, 0, 1]), st.sampled_from(sorted(FORMS)), st.booleans())
def test_ends_hold_where_every_number_is_off_by_as_much_as_its_share_allows(
    where: str, signs: dict[str, tuple[int, int]], everybody: int, form: str, pairs: bool
) -> None:
    query, state = parse_where(where, DOMAIN), opened(form)
    assume(len(query.scope) > 1)  # a question about one attribute has no parts
    shares = part_shares(state, len(query.scope))
    errors = {}
    for name, (cell, sign) in signs.items():
        error = np.zeros(CELLS)
        error[cell] = sign * run_width(state, name, shares, cell)
        errors[name] = error
    off = with_errors(state, errors, everybody * total_error_bound(state, shares.everybody))
    if pairs:
        loud = DiscreteGaussian(Fraction(UNITS))
        exact = (np.rint(counts(pair) * UNITS).astype(np.int64) for pair in PAIRS)
        off = replace(off, measured=tuple(map(MarginalMeasurement, PAIRS, exact, itertools.repeat(loud))))
    truth = float(np.sum(query.weights() / UNITS * counts(query.scope)))
    found = Bars(off).of_query(query)
    assert found.low <= truth + 1e-3
    assert found.high >= truth - 1e-3


@given(st.integers(0, 2**32 - 1), st.sampled_from(["GDP", "pure"]))
def test_sums_of_any_weights_lie_between_the_ends_of_their_parts(seed: int, form: str) -> None:
    generator, scope = np.random.default_rng(seed), ("a", "b", "c")
    kind = int(generator.integers(4))
    sides = [np.round(generator.random(CELLS) * 2) / 2 for _ in scope]
    product = np.multiply.outer(np.multiply.outer(sides[0], sides[1]), sides[2])
    weights = (
        product * 3, 1 - product, -product, np.round(generator.normal(0, 2, product.shape)),
    )[kind]  # fmt: skip
    state = with_errors(opened(form), {}, 0.0)
    truth = float(np.sum(weights * counts(scope)))
    low, high = Bars(state).of_sum(scope, weights, weights)
    assert low - 1e-3 <= truth <= high + 1e-3
    lower = weights - generator.random(weights.shape)
    below, above = Bars(state).of_sum(scope, lower, weights)
    assert below - 1e-3 <= float(np.sum(lower * counts(scope)))
    assert truth <= above + 1e-3


def test_a_pair_that_was_measured_bounds_three_attributes() -> None:
    state = opened("GDP")
    exact = np.rint(counts(("a", "b")) * UNITS).astype(np.int64)
    pair = MarginalMeasurement(("a", "b"), exact, DiscreteGaussian(Fraction(UNITS)))
    held = replace(state, measured=(pair,))
    query = parse_where("a = 3 AND b = 0 AND c = 1", DOMAIN)
    most = float(counts(("a", "b"))[3, 0])
    assert Bars(state).of_query(query).high > 2 * most + 100
    bar = Bars(held).of_query(query)
    assert bar.high == pytest.approx(most, abs=10)
    assert bar.low <= float(counts(query.scope)[3, 0, 1]) < most
    units = np.rint(counts(("a", "b")) * UNITS).astype(np.int64)
    certified = replace(state, certificates={("a", "b"): Certificate(("a", "b"), 0, 5 * UNITS, units)})
    bar = Bars(certified).of_query(query)
    assert most <= bar.high < Bars(state).of_query(query).high


# --- what may fail is shared --------------------------------------------------------------------------------


def tail(noise: NoiseDistribution, step: int, reach: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return a noise's values in steps of so many units, and their probabilities."""
    coarse = type(noise)(Fraction(noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma) / step)
    values = np.arange(-reach, reach + 1)
    return values, coarse.pmf(values)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attributes", [2, 3])
def test_both_ends_of_a_conjunction_miss_no_more_often_than_stated(form: str, attributes: int) -> None:
    """Of the table whose records all fit the question: each end of each part is missed as often as can be.

    The noises on the cells that are counted are independent, and that on the number of records is drawn
    beside them. Their distributions are convolved, so the probability is exact but for the width of a step.
    """
    state = opened(form)
    shares = part_shares(state, attributes)
    noises = [one.noise for one in state.opening[:attributes]]
    widths = [run_width(state, name, shares, 0) for name in DOMAIN.names[:attributes]]
    everybody = total_error_bound(state, shares.everybody)
    step = math.ceil(max(*widths, everybody) * UNITS / 500)
    steps, reach = UNITS / step, 1000
    held, left = 1.0, np.ones(1)
    for noise, width in zip(noises, widths, strict=True):
        values, chances = tail(noise, step, reach)
        kept = np.where(values < -width * steps, 0.0, chances)  # else the high end is missed
        held *= float(kept.sum())
        left = np.convolve(left, kept)
    if everybody:
        deviation = state.total.deviation * UNITS
        total: NoiseDistribution = DiscreteGaussian(Fraction(math.ceil(deviation)))
        if isinstance(noises[0], DiscreteLaplace):
            total = DiscreteLaplace(Fraction(math.ceil(deviation / math.sqrt(2))))
        values, chances = tail(total, step, reach)
        kept = np.where(values < -everybody * steps, 0.0, chances)
        held *= float(kept.sum())
        times = np.zeros((kept.size - 1) * (attributes - 1) + 1)
        times[:: attributes - 1] = kept[::-1]  # the low end takes it off so many times
        left = np.convolve(left, times)
    offset = (left.size - 1) // 2
    low = (sum(widths) + (attributes - 1) * everybody) * steps
    missed = 1 - held + float(left[offset + math.ceil(low) :].sum())
    assert 1e-4 < missed <= 0.05


def test_all_runs_of_an_attribute_hold_together() -> None:
    """So a question may be chosen by the counts that opening released."""
    for form in ("GDP", "pure"):
        measured = opened(form).opening[0]
        assert isinstance(measured, MarginalMeasurement)
        noise, generator = AxisNoise(measured.estimate, 0.8), np.random.default_rng(6)
        scale = math.sqrt(measured.variance)
        drawn = generator.normal(0, scale, (4000, CELLS))
        if isinstance(measured.noise, DiscreteLaplace):
            drawn = generator.laplace(0, scale / math.sqrt(2), (4000, CELLS))
        sums = np.concatenate([np.zeros((4000, 1)), drawn.cumsum(axis=1)], axis=1)
        first, stop = np.triu_indices(CELLS + 1, 1)
        runs = CellSets(first.astype(np.int64), stop.astype(np.int64) - 1)
        widths = noise.product_half_widths([runs])
        missed = (np.abs(sums[:, stop] - sums[:, first]) > widths).any(axis=1)
        assert 0.01 < missed.mean() <= 0.2
        weights = generator.random((50, CELLS))  # of sums, whichever are chosen of those draws
        bounds = np.array([noise.half_width(one) for one in weights])
        assert ((np.abs(drawn @ weights.T) > bounds).any(axis=1) <= missed).mean() > 0.99


def test_which_parts_are_looked_at_does_not_depend_on_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    query, looked = parse_where(MOST, DOMAIN), list[Any]()
    along = Bars._along

    def noting(bars: Bars, sums: Any, shares: Shares) -> Any:
        looked.append((sums.scope, shares))
        return along(bars, sums, shares)

    def bounding(measured: Any, confidence: float) -> AxisNoise:
        looked.append((measured.scope, confidence))
        return AxisNoise(measured, confidence)

    monkeypatch.setattr(Bars, "_along", noting)
    monkeypatch.setattr("pmw.public.bars.AxisNoise", bounding)
    seen = []
    for errors in ({}, {"a": np.full(CELLS, -500.0)}, {"b": np.full(CELLS, 900.0)}):
        looked.clear()
        Bars(with_errors(opened("GDP"), errors, 0.0)).of_query(query)
        seen.append(list(looked))
    assert seen[0] == seen[1] == seen[2]
    assert {scope for scope, _ in seen[0]} == {("a",), ("b",), ("c",)}


def test_parts_that_a_certificate_is_about_leave_its_threshold_noise_half_of_what_may_fail() -> None:
    state = opened("GDP")
    units = np.rint(counts(("a", "b")) * UNITS).astype(np.int64)
    state = replace(state, certificates={("a", "b"): Certificate(("a", "b"), 0, 10, units)})
    for where, shares in (
        ("a = 3 AND b = 2 AND c = 1", (Rests.MIXED, 0.5)),
        ("c = 3 AND d = 2", (Rests.MEASURED, 0)),
    ):
        bars, seen = Bars(state), list[Shares]()
        along = bars._along
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                bars, "_along", lambda sums, of, seen=seen, along=along: seen.append(of) or along(sums, of)
            )
            bars.of_query(parse_where(where, DOMAIN))
        assert {one.rests for one in seen} == {shares[0]}
        assert {one.certificate for one in seen} == {1 - (1 - bars.confidences.rest) * shares[1]}


# --- everything inside --------------------------------------------------------------------------------------


def questions(domain: Domain) -> Sequence[LinearQuery]:
    names = domain.names
    return [
        LinearQuery.cells(domain, {name: (0, 0), other: (0, 0)})
        for place, name in enumerate(names) for other in names[place + 1 :]
    ]  # fmt: skip


@pytest.mark.parametrize("records", [1, 30])
@pytest.mark.parametrize("choices", [{}, {"test": pmw.TestKind.QUERY}, {"opening": pmw.Opening.NONE}])
def test_no_answer_and_no_end_is_outside_nobody_and_everybody(records: int, choices: dict[str, Any]) -> None:
    options = pmw.Options(seed=2, **{"opening": pmw.Opening.ONE_WAY, **choices})
    for domain, frame in ((DOMAIN, WIDE.frame), (PEOPLE.domain, PEOPLE.frame)):
        with pmw.open_session(
            frame.iloc[:records], domain, epsilon=0.3, delta=1e-9, options=options
        ) as session:
            everybody = known(session.ask("").interval)
            for answer in session.ask_all(questions(domain)):
                assert 0 <= bar_of(answer)[0] <= answer.count <= bar_of(answer)[1] <= everybody[1] + 1e-9


ODD = Domain(
    (
        IntegerAttribute("one", 3, 3),  # of one cell
        IntegerAttribute("a", 0, 3),
        IntegerAttribute("b", 0, 9),
        CategoricalAttribute("kind", ("x", "y"), missing=True),
    ),
    "odd",
)
ODD_QUESTIONS = (
    "", "one = 3", "one = 3 AND a = 1", "a = 1 AND a = 2", "NOT (a = 1 OR NOT a = 1)",
    "a = 1 AND b = 2 AND a = 3", "kind IS NULL AND b >= 5", "a <= 1 AND (b = 1 OR kind = 'x')",
    "(a = 1 AND b = 1) OR (a = 2 AND b = 2)",
    "a IN (0, 1, 2, 3) AND b < 5",
)  # fmt: skip


@pytest.mark.parametrize("choices", [{}, {"opening": pmw.Opening.NONE}, {"test": pmw.TestKind.QUERY}])
@pytest.mark.parametrize("off", [0.0, -500.0])
def test_odd_questions_have_bars_that_hold(choices: dict[str, Any], off: float) -> None:
    """Also where the number of records came out below zero: then no bar is more than its noise allows."""
    generator = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "one": 3,
            "a": generator.integers(0, 4, 400),
            "b": generator.integers(0, 10, 400),
            "kind": generator.choice(np.array(["x", "y", None], dtype=object), 400),
        }
    )
    source = MemorySource.from_frame(frame, ODD)
    weights = generator.integers(0, UNITS + 1, ODD.scope_shape(("a", "b", "kind")))
    dense = LinearQuery(ODD, (Factor(("a", "b", "kind"), weights),))
    with pmw.open_session(
        frame,
        ODD,
        epsilon=50,
        delta=1e-9,
        options=pmw.Options(seed=2, **{"opening": pmw.Opening.ONE_WAY, **choices}),
    ) as session:
        state = session.state
    if off:
        state = replace(state, total=replace(state.total, value=off, estimate=off))
    answers = ModelAnswers(state)
    for query in (*(parse_where(where, ODD) for where in ODD_QUESTIONS), dense):
        answer = answers.answer(query)
        low, high = bar_of(answer)
        assert 0 <= low <= answer.count <= high
        if not off:
            truth = query.answer(source.counts(query.scope)) / UNITS
            assert low - 1e-6 <= truth <= high + 1e-6


@pytest.mark.parametrize(
    ("form", "weights"),
    [
        ("product", np.multiply.outer([0.0, 2.0, 1.0], [1.0, 0.5])),
        ("union", 1 - np.multiply.outer([1.0, 0.0, 0.5], [0.5, 1.0])),
        ("any", np.array([[1.0, 0.0], [0.0, 1.0]])),
    ],
)
def test_sums_know_their_form_by_their_weights(form: str, weights: NDArray[np.float64]) -> None:
    assert OneSum(("a", "b"), weights).split().form == form
