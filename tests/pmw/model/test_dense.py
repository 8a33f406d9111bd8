"""The dense distribution against brute force over all cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model import DenseDistribution, MarginalTerm, QueryTerm, check_dense_size
from pmw.model.dense import project
from queries import UNITS, CategoricalAttribute, Domain, Factor, IntegerAttribute, LinearQuery, ScopeError
from queries.records import CodedRecords

DOMAIN = Domain(
    (
        IntegerAttribute("a", 0, 4),
        CategoricalAttribute("b", ("x", "y", "z")),
        IntegerAttribute("c", 0, 3),
        CategoricalAttribute("d", (True, False)),
    )
)
NAMES = DOMAIN.names


def spread(seed: int, total: float = 1000.0) -> DenseDistribution:
    values = np.random.default_rng(seed).random(DOMAIN.shape) ** 4
    return DenseDistribution(DOMAIN, total, (), values * (total / values.sum()))


def full_weights(query: LinearQuery) -> NDArray[np.float64]:
    """Return a query's weight for every cell of the domain."""
    weights = query.weights() / UNITS
    shape = [DOMAIN[name].size if name in query.scope else 1 for name in NAMES]
    return np.broadcast_to(weights.reshape(shape), DOMAIN.shape)


@st.composite
def random_queries(draw: st.DrawFn) -> LinearQuery:
    scope = DOMAIN.scope(draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)))
    kind = draw(st.sampled_from(["product", "dense", "fraction"]))
    if kind == "dense" and scope:
        size = DOMAIN.scope_size(scope)
        weights = draw(st.lists(st.integers(0, UNITS), min_size=size, max_size=size))
        return LinearQuery(DOMAIN, (Factor(scope, np.array(weights).reshape(DOMAIN.scope_shape(scope))),))
    factors = []
    for number, name in enumerate(scope):
        size = DOMAIN[name].size
        values = st.integers(0, UNITS) if kind == "fraction" and number == 0 else st.sampled_from([0, UNITS])
        factors.append(Factor((name,), np.array(draw(st.lists(values, min_size=size, max_size=size)))))
    return LinearQuery(DOMAIN, tuple(factors))


@given(random_queries(), st.integers(0, 10))
@settings(deadline=None)
def test_an_answer_is_the_weighted_sum_over_all_cells(query: LinearQuery, seed: int) -> None:
    distribution = spread(seed)
    assert distribution.answer(query) == pytest.approx(
        float((full_weights(query) * distribution.values).sum())
    )


@given(random_queries(), st.floats(-3, 3), st.integers(0, 10))
@settings(deadline=None)
def test_tilting_a_query_multiplies_each_cell_by_its_weight(
    query: LinearQuery, dual: float, seed: int
) -> None:
    distribution = spread(seed)
    workspace = distribution.workspace()
    workspace.tilt_query(query, dual)
    expected = distribution.values * np.exp(dual * full_weights(query))
    expected *= distribution.total / expected.sum()
    # The lazily kept normaliser agrees with the true one before freezing brings it up to date.
    assert workspace.marginal(NAMES) == pytest.approx(expected)
    frozen = workspace.freeze(())
    assert frozen.values == pytest.approx(expected)
    assert frozen.values.sum() == pytest.approx(distribution.total)


@given(st.lists(st.sampled_from(NAMES), unique=True), st.integers(0, 10))
@settings(deadline=None)
def test_tilting_a_marginal_multiplies_every_cell_by_its_cell(names: list[str], seed: int) -> None:
    scope = DOMAIN.scope(names)
    duals = np.random.default_rng(seed).normal(size=DOMAIN.scope_shape(scope))
    distribution = spread(seed)
    workspace = distribution.workspace()
    workspace.tilt_marginal(scope, duals)
    shape = [DOMAIN[name].size if name in scope else 1 for name in NAMES]
    expected = distribution.values * np.exp(duals.reshape(shape))
    assert workspace.freeze(()).values == pytest.approx(expected * (distribution.total / expected.sum()))


@pytest.mark.parametrize(
    "axes", [axes for size in range(5) for axes in itertools.combinations(range(4), size)]
)
def test_projection_sums_the_other_axes(axes: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).random(DOMAIN.shape)
    others = tuple(axis for axis in range(4) if axis not in axes)
    assert project(values, axes) == pytest.approx(values.sum(axis=others))


def test_the_uniform_distribution_is_even() -> None:
    distribution = DenseDistribution.uniform(DOMAIN, 240.0)
    assert set(distribution.values.reshape(-1)) == {2.0}
    assert distribution.marginal(("b",)).tolist() == [80.0, 80.0, 80.0]


def test_terms_define_the_distribution() -> None:
    query = LinearQuery.cells(DOMAIN, {"a": (1, 2), "c": (0, 1)})
    terms = (
        MarginalTerm(("b",), np.array([0.5, -1.0, 0.0])),
        QueryTerm(query, 0.7),
        MarginalTerm(("a", "d"), np.linspace(-1, 1, 10).reshape(5, 2)),
    )
    workspace = DenseDistribution.uniform(DOMAIN, 500.0).workspace()
    for term in terms:
        if isinstance(term, MarginalTerm):
            workspace.tilt_marginal(term.scope, term.duals)
        else:
            workspace.tilt_query(term.query, term.dual)
    stepwise = workspace.freeze(terms)
    assert DenseDistribution.of_terms(DOMAIN, 500.0, terms).values == pytest.approx(stepwise.values)
    assert stepwise.terms == terms


def test_a_distribution_is_read_only_and_its_updates_are_copies() -> None:
    distribution = spread(1)
    before = distribution.values.copy()
    with pytest.raises(ValueError, match="read-only"):
        distribution.values[0, 0, 0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        distribution.marginal(("a",))[0] = 1
    workspace = distribution.workspace()
    workspace.tilt_query(LinearQuery.cells(DOMAIN, {"a": (0, 0)}), 1.0)
    assert np.array_equal(distribution.values, before)


def test_a_scope_in_another_order_is_refused() -> None:
    with pytest.raises(ScopeError, match="in declared order"):
        spread(1).marginal(("b", "a"))


def counts(records: CodedRecords) -> NDArray[np.int64]:
    flat = np.ravel_multi_index(tuple(column.astype(np.int64) for column in records.columns), DOMAIN.shape)
    return np.bincount(flat, minlength=DOMAIN.size).reshape(DOMAIN.shape)


@pytest.mark.parametrize("count", [0, 1, 7, 1000, 20_000])
def test_systematic_rounding_gives_every_cell_its_number_rounded_up_or_down(count: int) -> None:
    distribution = spread(3)
    records = distribution.sample(count, np.random.default_rng(5), independent=False)
    expected = distribution.values * (count / distribution.total)
    assert len(records) == count
    assert np.all(np.abs(counts(records) - expected) < 1 + 1e-9)


@pytest.mark.statistical
def test_independent_draws_follow_the_distribution() -> None:
    distribution = spread(3)
    found = counts(distribution.sample(50_000, np.random.default_rng(5), independent=True))
    expected = distribution.values * 50
    usable = expected > 5
    statistic = float(((found - expected) ** 2 / np.maximum(expected, 1e-9))[usable].sum())
    assert statistic < usable.sum() + 5 * np.sqrt(2 * usable.sum())


@pytest.mark.statistical
def test_systematic_rounding_is_unbiased() -> None:
    distribution = spread(3, total=60.0)
    total = np.zeros(DOMAIN.shape)
    for seed in range(400):
        total += counts(distribution.sample(60, np.random.default_rng(seed), independent=False))
    assert np.abs(total / 400 - distribution.values).max() < 4 * 0.5 / np.sqrt(400)


def test_rows_come_in_no_order_of_cells() -> None:
    ages = spread(3).sample(500, np.random.default_rng(5), independent=False).columns[0].astype(int)
    assert not np.all(np.diff(ages) >= 0)


def test_a_domain_beyond_the_limit_is_refused_before_anything_is_allocated() -> None:
    wide = Domain(tuple(IntegerAttribute(f"a{number}", 0, 999) for number in range(3)))
    with pytest.raises(BudgetError, match=r"the domain has 1e\+09 cells; a dense model holds at most"):
        check_dense_size(wide)
    with pytest.raises(BudgetError, match="dense model"):
        DenseDistribution.uniform(wide, 10.0)


def test_a_model_needs_something_to_spread() -> None:
    with pytest.raises(BudgetError, match="expected a positive total"):
        DenseDistribution.uniform(DOMAIN, 0.0)
    with pytest.raises(BudgetError, match="number of rows of at least 0"):
        spread(1).sample(-1, np.random.default_rng(1), independent=True)
