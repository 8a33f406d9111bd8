"""The dense distribution: every number is that of the definition, whatever terms come in whatever order."""

from __future__ import annotations

import itertools
import pickle
import re
import threading
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model import (
    LARGEST_DENSE_DOMAIN,
    DenseDistribution,
    MarginalMeasurement,
    MarginalTerm,
    Measurement,
    QueryMeasurement,
    QueryTerm,
    Term,
    check_dense_size,
    dense,
    refit,
    step,
)
from pmw.privacy.noise import DiscreteGaussian
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
    """Return a distribution with a number of its own in every cell."""
    duals = 4 * np.log(np.random.default_rng(seed).random(DOMAIN.shape))
    return DenseDistribution.of_terms(DOMAIN, total, [MarginalTerm(NAMES, duals)])


def test_the_uniform_distribution_is_even() -> None:
    distribution = DenseDistribution.uniform(DOMAIN, 240.0)
    assert set(distribution.values.reshape(-1)) == {2.0}
    assert distribution.marginal(("b",)).tolist() == [80.0, 80.0, 80.0]


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


def of_size(*sizes: int) -> Domain:
    return Domain(tuple(IntegerAttribute(f"a{place}", 0, size - 1) for place, size in enumerate(sizes)))


def peak_of(work: Callable[[], object]) -> int:
    """Return the most bytes that were allocated at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_domain_beyond_the_limit_is_refused_before_anything_is_allocated() -> None:
    beyond = of_size(24_929, 673)
    assert beyond.size == LARGEST_DENSE_DOMAIN + 1
    message = re.escape(
        "the domain has 16,777,217 cells; a dense model holds at most 16,777,216: "
        "test whole marginals on a graphical one, or declare fewer attributes or wider cells"
    )

    def refuse() -> None:
        with pytest.raises(BudgetError, match=message):
            check_dense_size(beyond)
        with pytest.raises(BudgetError, match=message):
            DenseDistribution.uniform(beyond, 10.0)
        with pytest.raises(BudgetError, match=message):
            DenseDistribution.of_terms(beyond, 10.0, [MarginalTerm(("a0",), np.zeros(24_929))])

    assert peak_of(refuse) < 10**6
    with pytest.raises(BudgetError, match=r"the domain has 1 × 10¹⁸ cells"):
        check_dense_size(of_size(10**6, 10**6, 10**6))
    check_dense_size(of_size(2**12, 2**12))


CUBE = of_size(100, 100, 200)  # an array of 16 MB
ARRAY = CUBE.size * 8


def test_an_update_needs_one_second_array_and_no_third() -> None:
    query = LinearQuery.cells(CUBE, {"a0": (3, 9)})
    model = DenseDistribution.uniform(CUBE, 1000.0)
    model.marginal(())
    assert peak_of(lambda: step(model, query, learning_rate=0.1, increase=True)) < 1.1 * ARRAY


def test_a_refit_needs_one_second_array_and_no_third() -> None:
    query = LinearQuery.cells(CUBE, {"a2": (3, 9), "a1": (0, 0)})
    noise = DiscreteGaussian(Fraction(5 * UNITS))
    measurements: list[Measurement] = [
        MarginalMeasurement(("a1",), np.arange(100) * UNITS, noise),
        QueryMeasurement(query, 40 * UNITS, noise),
    ]
    model = DenseDistribution.uniform(CUBE, 4950.0)
    model.marginal(())
    assert peak_of(lambda: refit(model, measurements)) < 1.2 * ARRAY


def test_rows_are_drawn_with_one_second_array_and_no_third() -> None:
    query = LinearQuery.cells(CUBE, {"a2": (3, 9)})
    model = step(DenseDistribution.uniform(CUBE, 10.0), query, learning_rate=300.0, increase=True)
    model.marginal(())
    draw = partial(model.sample, 1000, np.random.default_rng(1), independent=False)
    assert peak_of(draw) < 1.1 * ARRAY
    assert np.all(np.isin(draw().columns[2], np.arange(3, 10)))


def test_updates_leave_a_model_as_it_was_and_its_terms_make_the_same_bits_again() -> None:
    query = LinearQuery.cells(DOMAIN, {"d": (1, 1), "c": (0, 2)})
    models = [spread(4)]
    kept = [models[0].values]
    for number in range(20):
        models.append(step(models[-1], query, learning_rate=0.1 + number / 50, increase=number % 3 > 0))
        kept.append(models[-1].values)
    for model, values in zip(models, kept, strict=True):
        assert np.array_equal(model.values, values)
        again = pickle.loads(pickle.dumps(model))  # noqa: S301  (our own, and without its array)
        assert np.array_equal(again.values, values)
    assert len({values.tobytes() for values in kept}) == 21


def test_single_steps_are_combined_anew_now_and_then_and_nothing_changes() -> None:
    query = LinearQuery.cells(DOMAIN, {"d": (1, 1), "c": (0, 2)})
    model = DenseDistribution.uniform(DOMAIN, 100.0)
    combined = []
    for _ in range(40):
        model = step(model, query, learning_rate=0.05, increase=True)
        combined.append(model.combined)
        again = DenseDistribution.of_terms(DOMAIN, 100.0, model.terms)
        assert model.values == pytest.approx(again.values, rel=1e-12)
    assert sorted(set(combined)) == [0, 8, 16, 32]


def test_readers_and_an_updater_do_not_disturb_each_other() -> None:
    query = LinearQuery.cells(DOMAIN, {"a": (1, 2), "d": (0, 0)})
    model = spread(6)
    expected, found, stop = model.values, set[bytes](), threading.Event()

    def read() -> None:
        while not stop.is_set():
            found.add(model.values.tobytes())

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(300):
        step(model, query, learning_rate=1.0, increase=True)
    stop.set()
    for reader in readers:
        reader.join()
    assert found == {expected.tobytes()}


def test_large_duals_that_cancel_leave_what_they_leave() -> None:
    # Measurements that contradict each other end in such duals; one after the other they would overflow.
    query = LinearQuery.cells(DOMAIN, {"a": (1, 2)})
    terms: list[Term] = [
        QueryTerm(query, -2000.0),
        MarginalTerm(("a",), np.array([0.0, 2000.0, 2000.0, 0.0, 0.0])),
    ]
    model = DenseDistribution.of_terms(DOMAIN, 240.0, terms)
    assert model.values == pytest.approx(np.full(DOMAIN.shape, 2.0))


def test_answers_over_scopes_too_long_for_a_marginal_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    queries = [
        LinearQuery.cells(DOMAIN, {"a": (1, 2), "c": (0, 1)}),
        LinearQuery(DOMAIN, (Factor(("a", "c"), generator.integers(0, UNITS, (5, 4))),)),
        LinearQuery(DOMAIN, (Factor(NAMES, generator.integers(0, UNITS, DOMAIN.shape)),)),
    ]
    expected = [spread(2).answer(query) for query in queries]
    monkeypatch.setattr("pmw.model.dense._MOST_CACHED_CELLS", 0)
    assert [spread(2).answer(query) for query in queries] == pytest.approx(expected, rel=1e-12)


def test_a_model_needs_something_to_spread() -> None:
    with pytest.raises(BudgetError, match="expected a positive total"):
        DenseDistribution.uniform(DOMAIN, 0.0)
    with pytest.raises(BudgetError, match="number of rows of at least 0"):
        spread(1).sample(-1, np.random.default_rng(1), independent=True)


def box(**ranges: tuple[int, int]) -> LinearQuery:
    return LinearQuery.cells(DOMAIN, ranges)


@st.composite
def random_terms(draw: st.DrawFn) -> tuple[Term, ...]:
    """Boxes, products, weighted questions and marginals, in any order and number."""
    terms: list[Term] = []
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    for kind in draw(st.lists(st.sampled_from(["box", "product", "weighted", "marginal"]), max_size=6)):
        scope = DOMAIN.scope(draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)))
        shape = DOMAIN.scope_shape(scope)
        if kind == "marginal":
            terms.append(MarginalTerm(scope, np.asarray(generator.normal(size=shape))))
        elif kind == "product":
            parts = [Factor((name,), UNITS * generator.integers(0, 2, DOMAIN[name].size)) for name in scope]
            if parts:
                parts[0] = Factor(scope[:1], generator.integers(0, UNITS + 1, DOMAIN[scope[0]].size))
            terms.append(QueryTerm(LinearQuery(DOMAIN, tuple(parts)), draw(st.floats(-3, 3))))
        elif kind == "weighted" and scope:
            weights = generator.integers(0, UNITS, shape) * generator.integers(0, 2, shape)
            terms.append(QueryTerm(LinearQuery(DOMAIN, (Factor(scope, weights),)), generator.normal()))
        else:
            ends = {name: sorted(generator.integers(0, DOMAIN[name].size, 2).tolist()) for name in scope}
            query = LinearQuery.cells(DOMAIN, {name: (low, high) for name, (low, high) in ends.items()})
            terms.append(QueryTerm(query, generator.normal()))
    return tuple(terms)


def by_definition(terms: tuple[Term, ...], total: float) -> NDArray[np.float64]:
    """Return the model in declared order: exp(sum of dual * weights), normalised."""
    exponents = np.zeros(DOMAIN.shape)
    for term in terms:
        scope = term.scope if isinstance(term, MarginalTerm) else term.query.scope
        table = term.duals if isinstance(term, MarginalTerm) else term.dual * term.query.weights() / UNITS
        exponents += np.reshape(table, [DOMAIN[name].size if name in scope else 1 for name in NAMES])
    values = np.exp(exponents)
    return np.asarray(values * (total / values.sum()))


@given(random_terms())
def test_every_number_is_that_of_the_definition(terms: tuple[Term, ...]) -> None:
    model = DenseDistribution.of_terms(DOMAIN, 500.0, terms)
    expected = by_definition(terms, 500.0)
    assert model.values == pytest.approx(expected, rel=1e-9)
    for size in range(5):
        for scope in itertools.combinations(NAMES, size):
            others = tuple(axis for axis, name in enumerate(NAMES) if name not in scope)
            assert model.marginal(scope) == pytest.approx(expected.sum(axis=others), rel=1e-9)
    for term in terms:
        if isinstance(term, QueryTerm):
            scope = term.query.scope
            others = tuple(axis for axis, name in enumerate(NAMES) if name not in scope)
            assert model.answer(term.query) == pytest.approx(
                term.query.evaluate(expected.sum(axis=others)), rel=1e-9
            )


@pytest.mark.parametrize("independent", [True, False])
def test_rows_are_those_of_the_same_model_in_other_terms(independent: bool) -> None:
    terms = (
        MarginalTerm(("a", "c"), np.random.default_rng(3).normal(size=(5, 4))),
        QueryTerm(box(d=(0, 0), b=(1, 1)), 0.7),
    )
    model = DenseDistribution.of_terms(DOMAIN, 500.0, terms)
    duals = np.log(by_definition(terms, 500.0))
    declared = DenseDistribution.of_terms(DOMAIN, 500.0, [MarginalTerm(NAMES, duals)])
    rows, expected = (
        each.sample(5000, np.random.default_rng(8), independent=independent) for each in (model, declared)
    )
    for column, other in zip(rows.columns, expected.columns, strict=True):
        assert np.array_equal(column, other)


@given(random_terms(), random_terms())
def test_an_update_multiplies_each_cell(first: tuple[Term, ...], then: tuple[Term, ...]) -> None:
    workspace = DenseDistribution.of_terms(DOMAIN, 500.0, first).workspace()
    for term in then:
        if isinstance(term, MarginalTerm):
            workspace.tilt_marginal(term.scope, term.duals)
        else:
            workspace.tilt_query(term.query, term.dual)
    expected = by_definition((*first, *then), 500.0)
    # The lazily kept normaliser agrees with the true one before freezing brings it up to date.
    assert workspace.marginal(NAMES) == pytest.approx(expected)
    frozen = workspace.freeze((*first, *then))
    assert frozen.terms == (*first, *then)
    assert frozen.values == pytest.approx(expected)
    assert frozen.values.sum() == pytest.approx(500.0)


def test_a_table_is_spread_over_the_array() -> None:
    for size in range(5):
        for scope in itertools.combinations(NAMES, size):
            table = np.random.default_rng(2).random(DOMAIN.scope_shape(scope))
            shape = [DOMAIN[name].size if name in scope else 1 for name in NAMES]
            whole = np.broadcast_to(dense.spread(DOMAIN, scope, table, DOMAIN.shape), DOMAIN.shape)
            assert np.array_equal(whole, np.broadcast_to(table.reshape(shape), DOMAIN.shape))


LONG = Domain((IntegerAttribute("a", 0, 2), IntegerAttribute("b", 0, 4999), IntegerAttribute("c", 0, 1)))


@pytest.mark.parametrize(
    ("scope", "written_out"), [(("c",), (1, 5000, 2)), (("a", "c"), (3, 5000, 2)), (("a",), (3, 1, 1))]
)
def test_a_table_over_short_last_axes_is_written_out(scope: tuple[str, ...], written_out: object) -> None:
    table = np.random.default_rng(2).random(LONG.scope_shape(scope))
    found = dense.spread(LONG, scope, table, LONG.shape)
    assert found.shape == written_out
    shape = [LONG[name].size if name in scope else 1 for name in LONG.names]
    assert np.array_equal(
        np.broadcast_to(found, LONG.shape), np.broadcast_to(table.reshape(shape), LONG.shape)
    )
