"""A local fit follows what was measured as closely as its noise, and a model's cliques likewise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model import (
    Aim,
    DescentRule,
    GraphicalDistribution,
    MarginalTerm,
    QueryMeasurement,
    SyntheticDistribution,
    Target,
    descend,
    local_fit,
    with_local_fits,
)
from pmw.model.mirror_descent import free_numbers
from pmw.privacy.noise import DiscreteGaussian
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery

_MOST_STEPS = 150
Table = NDArray[np.float64]


def domain_of(*sizes: int) -> Domain:
    names = "abcdef"
    return Domain(
        tuple(CategoricalAttribute(names[place], tuple(range(size))) for place, size in enumerate(sizes))
    )


def table_of(shape: tuple[int, ...], seed: int, total: float = 10_000) -> Table:
    table = np.random.default_rng(seed).gamma(0.6, size=shape)
    scaled: Table = table * (total / table.sum())
    return scaled


def sums(table: Table, scope: str, wanted: str) -> Table:
    summed: Table = table.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in wanted))
    return summed


def measured(table: Table, scope: str, wanted: str, deviation: float, seed: int) -> Target:
    values = sums(table, scope, wanted)
    noise = np.random.default_rng(seed).normal(0, deviation, values.shape)
    return Target(tuple(wanted), values + noise, np.full(values.shape, deviation**2))


def misfit(table: Table, scope: str, aims: list[Target]) -> float:
    """Return chi squared over free numbers."""
    squares = [
        float(np.sum((sums(table, scope, "".join(aim.scope)) - aim.values) ** 2 / aim.variance))
        for aim in aims
    ]
    return sum(squares) / sum(map(free_numbers, aims))


@given(st.integers(0, 2**31), st.sampled_from([5.0, 30.0, 200.0]))
def test_sums_agree_with_what_was_measured_to_within_its_noise(seed: int, deviation: float) -> None:
    truth = table_of((4, 3, 5), seed)
    aims = [
        measured(truth, "abc", own, deviation, seed + place) for place, own in enumerate(("a", "ab", "bc"))
    ]
    fit = local_fit(np.full(truth.shape, truth.sum() / truth.size), tuple("abc"), aims)
    assert fit.table.sum() == pytest.approx(truth.sum())
    assert fit.table.min() >= 0
    assert misfit(fit.table, "abc", aims) < 1 or fit.steps == _MOST_STEPS
    assert fit.steps <= _MOST_STEPS


def test_where_nothing_was_measured_the_table_stays() -> None:
    base = table_of((3, 4), 1)
    assert local_fit(base, ("a", "b"), []).table is base


def test_where_the_table_is_near_enough_it_stays() -> None:
    base = table_of((3, 4), 1)
    fit = local_fit(base, ("a", "b"), [Target(("a",), base.sum(axis=1), np.full(3, 4.0))])
    assert fit.table is base
    assert fit.steps == 1


def test_a_table_of_one_cell_stays() -> None:
    base = np.full((1, 1), 40.0)
    aim = Target(("a",), np.array([7.0]), np.array([1.0]))
    assert local_fit(base, ("a", "b"), [aim]).table is base


def test_the_noisier_of_two_measurements_counts_for_less() -> None:
    base = np.full(2, 500.0)
    near = Target(("a",), np.array([700.0, 300.0]), np.full(2, 1.0))
    far = Target(("a",), np.array([300.0, 700.0]), np.full(2, 100.0))
    assert local_fit(base, ("a",), [near, far]).table[0] == pytest.approx(696, abs=2)


def test_a_measured_question_is_followed() -> None:
    domain = domain_of(3, 3)
    query = LinearQuery.cells(domain, {"a": (0, 1), "b": (2, 2)})
    noise = DiscreteGaussian(Fraction(4 * UNITS))
    aim = QueryMeasurement(query, 3_000 * UNITS, noise, 0)
    fit = local_fit(np.full((3, 3), 1_000.0), ("a", "b"), [aim])
    assert query.evaluate(fit.table) == pytest.approx(3_000, abs=4)


def test_measurements_that_contradict_each_other_end_the_descent() -> None:
    base = table_of((4, 4), 3)
    aims: list[Aim] = [
        Target(("a",), values, np.full(4, 1e-6)) for values in (np.array([9e9, -9e9, 0.0, 0.0]), np.zeros(4))
    ]
    fit = local_fit(base, ("a", "b"), aims)
    assert np.isfinite(fit.table).all()
    assert fit.steps <= _MOST_STEPS


def chain_model(seed: int, deviation: float) -> tuple[GraphicalDistribution, list[Target], Table]:
    """Return a model with no term fitted, pairs that were measured along a chain, and the truth."""
    domain = domain_of(4, 3, 4, 3)
    truth = table_of((4, 3, 4, 3), seed)
    aims = [
        measured(truth, "abcd", pair, deviation, seed + place)
        for place, pair in enumerate(("ab", "bc", "cd"))
    ]
    terms = [MarginalTerm(aim.scope, np.zeros(aim.values.shape)) for aim in aims]
    return GraphicalDistribution.of_terms(domain, float(truth.sum()), terms), aims, truth


def squares(model: SyntheticDistribution, aims: list[Target]) -> float:
    return sum(float(np.sum((model.marginal(aim.scope) - aim.values) ** 2 / aim.variance)) for aim in aims)


@given(st.integers(0, 2**31))
def test_duals_of_a_local_fit_make_its_table_the_models_marginal(seed: int) -> None:
    model, aims, _ = chain_model(seed, 20.0)
    fit = local_fit(model.marginal(("b", "c")), ("b", "c"), [aims[1]])
    terms = list(model.terms)
    terms[1] = MarginalTerm(("b", "c"), fit.duals[0])
    assert np.allclose(model.with_terms(terms).marginal(("b", "c")), fit.table, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_cliques_that_are_fitted_in_turn_follow_what_was_measured(seed: int) -> None:
    model, aims, _ = chain_model(seed, 20.0)
    rule = DescentRule(steps=500, tolerance=1e-9, enough=0.5)
    together = descend(model, aims, step_size=3.0, rule=rule).model
    in_turn, least = (squares(one, aims) for one in (with_local_fits(model, aims), together))
    assert in_turn < 2 * max(least, 0.5 * sum(aim.values.size for aim in aims))


def test_a_model_that_is_near_enough_stays() -> None:
    model, aims, _ = chain_model(5, 0.0)
    exact = [Target(aim.scope, aim.values, np.full(aim.values.shape, 400.0)) for aim in aims]
    fitted = with_local_fits(model, exact)
    assert with_local_fits(fitted, exact) is fitted


def test_of_the_cliques_those_with_very_many_cells_are_left_out() -> None:
    domain = domain_of(300, 300, 2)
    pairs = [("a", "b"), ("b", "c")]
    aims = [
        Target(
            pair,
            np.full(domain.scope_shape(pair), 900_000 / domain.scope_size(pair)),
            np.ones(domain.scope_shape(pair)),
        )
        for pair in pairs
    ]
    aims[0].values[0, 0] += 500
    terms = [MarginalTerm(pair, np.zeros(domain.scope_shape(pair))) for pair in pairs]
    model = GraphicalDistribution.of_terms(domain, 900_000.0, terms)
    assert with_local_fits(model, aims) is model
