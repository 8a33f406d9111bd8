"""Distributions, dense and on a tree: every number is that of the definition, and rows follow it."""

from __future__ import annotations

import math
import pickle
import re
import threading
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.dense import LARGEST_DENSE_DOMAIN, DenseDistribution, check_dense_size
from pmw.model.distribution import MarginalTerm, QueryTerm, Term
from pmw.model.fitting import refit, step
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement, SingleMeasurement
from pmw.privacy.noise import DiscreteGaussian
from queries import UNITS, Domain, Factor, IntegerAttribute, LinearQuery
from queries.records import CodedRecords
from tests.waiting import joined
from tests.worlds import declared

Form: TypeAlias = type[DenseDistribution] | type[GraphicalDistribution]
FORMS: list[Form] = [DenseDistribution, GraphicalDistribution]
TOTAL = 1000.0
NEAR = 1e-9 * TOTAL


def of_sizes(*sizes: int) -> Domain:
    return Domain(tuple(IntegerAttribute(f"a{place}", 0, size - 1) for place, size in enumerate(sizes)))


@st.composite
def scopes_of(draw: st.DrawFn, domain: Domain, largest: int = 3) -> tuple[str, ...]:
    return domain.scope(draw(st.lists(st.sampled_from(domain.names), unique=True, max_size=largest)))


@st.composite
def queries_of(draw: st.DrawFn, domain: Domain, largest: int = 3) -> LinearQuery:
    """Boxes, weights over a whole scope, and products of indicators with a constant."""
    scope = draw(scopes_of(domain, largest))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    kind = draw(st.sampled_from(["box", "weighted", "product"]))
    if kind == "box":
        ends = {name: np.sort(generator.integers(0, domain[name].size, 2)).tolist() for name in scope}
        return LinearQuery.cells(domain, {name: (low, high) for name, (low, high) in ends.items()})
    if kind == "weighted" and scope:
        shape = domain.scope_shape(scope)
        weights = generator.integers(0, UNITS + 1, shape) * generator.integers(0, 2, shape)
        return LinearQuery(domain, (Factor(scope, weights),))
    share = draw(st.sampled_from([UNITS, UNITS // 3]))
    factors = [Factor((), np.array(share))]
    factors += [Factor((name,), UNITS * generator.integers(0, 2, domain[name].size)) for name in scope]
    return LinearQuery(domain, tuple(factors))


@st.composite
def terms_of(draw: st.DrawFn, domain: Domain) -> list[Term]:
    terms: list[Term] = []
    for _ in range(draw(st.integers(0, 8))):
        size = draw(st.sampled_from([0.0, 1.0, 200.0]))
        if draw(st.booleans()):
            terms.append(QueryTerm(draw(queries_of(domain)), size * draw(st.sampled_from([-1.0, 0.3, 1.0]))))
        else:
            scope = draw(scopes_of(domain))
            generator = np.random.default_rng(draw(st.integers(0, 1000)))
            duals = size * generator.uniform(-1, 1, domain.scope_shape(scope))
            terms.append(MarginalTerm(scope, duals))
    return terms


DOMAINS = st.lists(st.integers(1, 4), min_size=1, max_size=7).map(lambda sizes: of_sizes(*sizes))


def spread(domain: Domain, scope: tuple[str, ...], table: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return a table over a scope as a view that broadcasts over the domain."""
    return np.reshape(table, [domain[name].size if name in scope else 1 for name in domain.names])


def log_weights(domain: Domain, terms: list[Term]) -> NDArray[np.float64]:
    """Return the sum of dual * weights at each cell, by the definition."""
    exponents = np.zeros(domain.shape)
    for term in terms:
        if isinstance(term, MarginalTerm):
            exponents += spread(domain, term.scope, term.duals)
        else:
            exponents += spread(domain, term.query.scope, term.query.weights() * (term.dual / UNITS))
    return exponents


def by_definition(domain: Domain, terms: list[Term]) -> NDArray[np.float64]:
    """Return the records of each cell."""
    exponents = log_weights(domain, terms)
    values = np.exp(exponents - exponents.max())
    return np.asarray(values * (TOTAL / values.sum()))


def summed(domain: Domain, whole: NDArray[np.float64], scope: tuple[str, ...]) -> NDArray[np.float64]:
    return np.asarray(whole.sum(axis=tuple(a for a, name in enumerate(domain.names) if name not in scope)))


@pytest.mark.parametrize("form", FORMS)
@given(DOMAINS, st.data())
def test_marginals_and_answers_are_those_of_the_definition(
    form: Form, domain: Domain, data: st.DataObject
) -> None:
    terms = data.draw(terms_of(domain))
    model, whole = form.of_terms(domain, TOTAL, terms), by_definition(domain, terms)
    scopes = data.draw(st.lists(scopes_of(domain, 7), min_size=1, max_size=6))
    for scope, table in zip(scopes, model.marginals(scopes), strict=True):
        expected = summed(domain, whole, scope)
        assert table.shape == domain.scope_shape(scope)
        assert table == pytest.approx(expected, abs=NEAR)
        assert model.marginal(scope) == pytest.approx(expected, abs=NEAR)
    query = data.draw(queries_of(domain, 7))
    answer = query.evaluate(summed(domain, whole, query.scope))
    assert model.answer(query) == pytest.approx(answer, abs=NEAR)


@pytest.mark.parametrize("form", FORMS)
@given(DOMAINS, st.data())
def test_every_expectation_of_a_product_is_the_sum_over_all_cells(
    form: Form, domain: Domain, data: st.DataObject
) -> None:
    terms, names = data.draw(terms_of(domain)), data.draw(st.permutations(domain.names))
    generator = np.random.default_rng(data.draw(st.integers(0, 1000)))
    factors, product = [], np.ones(domain.shape)
    while names:
        size = data.draw(st.integers(1, len(names)))
        scope, names = domain.scope(names[:size]), names[size:]
        if data.draw(st.booleans()):
            weights = generator.random(domain.scope_shape(scope))
            factors.append((scope, weights))
            product = product * spread(domain, scope, weights)
    expected = float((by_definition(domain, terms) * product).sum())
    model = form.of_terms(domain, TOTAL, terms)
    assert model.expectation(factors) == pytest.approx(expected, abs=NEAR)


def counts(records: CodedRecords, scope: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the rows of each cell of a scope."""
    domain = records.domain
    columns = [records.columns[domain.index(name)].astype(np.int64) for name in scope]
    shape = domain.scope_shape(scope)
    flat = np.ravel_multi_index(columns, shape) if columns else np.zeros(len(records), dtype=np.int64)
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


@pytest.mark.parametrize("form", FORMS)
@given(DOMAINS, st.integers(0, 500), st.booleans(), st.data())
def test_there_are_as_many_rows_as_asked_for_and_none_in_impossible_cells(
    form: Form, domain: Domain, count: int, independent: bool, data: st.DataObject
) -> None:
    terms = data.draw(terms_of(domain))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    records = form.of_terms(domain, TOTAL, terms).sample(count, generator, independent=independent)
    found = counts(records, domain.names)
    assert len(records) == found.sum() == count
    assert np.all(by_definition(domain, terms)[found > 0] > 0)


CHAIN = of_sizes(6, 5, 7, 4)
TERMS: list[Term] = [
    MarginalTerm(scope, np.random.default_rng(place).normal(size=CHAIN.scope_shape(scope)))
    for place, scope in enumerate([("a0", "a1"), ("a1", "a2"), ("a2", "a3")])
]


@pytest.mark.statistical
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("independent", [False, True])
def test_rows_are_unbiased_either_way_and_come_in_no_order(form: Form, independent: bool) -> None:
    model, seeds, count = form.of_terms(CHAIN, TOTAL, TERMS), 400, 60
    found = np.zeros(CHAIN.shape)
    for seed in range(seeds):
        records = model.sample(count, np.random.default_rng(seed), independent=independent)
        assert np.any(np.diff(records.columns[0].astype(int)) < 0)
        found += counts(records, CHAIN.names)
    expected = model.marginal(CHAIN.names) * (count / TOTAL) * seeds
    usable = expected > 5
    statistic = float(((found - expected) ** 2 / np.maximum(expected, 1e-9))[usable].sum())
    assert statistic < usable.sum() + 5 * np.sqrt(2 * usable.sum())


@pytest.mark.parametrize("form", FORMS)
def test_readers_do_not_disturb_each_other(form: Form) -> None:
    model, expected = (form.of_terms(CHAIN, TOTAL, TERMS) for _ in range(2))
    found: list[NDArray[np.float64]] = []
    readers = [threading.Thread(target=lambda: found.append(model.marginal(("a0", "a3")))) for _ in range(8)]
    for reader in readers:
        reader.start()
    joined(*readers)
    assert len(found) == 8
    assert all(np.array_equal(table, expected.marginal(("a0", "a3"))) for table in found)


# --- a tree of cliques ----------------------------------------------------------------------------------


def test_large_duals_that_cancel_across_cliques_leave_what_they_leave() -> None:
    # Each end of a chain pulls the shared attribute far away, and the potential between them pulls it back.
    domain = of_sizes(3, 3, 3)
    away = np.array([[0.0, 4000.0, 2000.0]] * 3)
    terms: list[Term] = [
        MarginalTerm(("a0", "a1"), away),
        MarginalTerm(("a1", "a2"), -away.T),
        MarginalTerm(("a2",), np.array([0.0, 1.0, 0.0])),
    ]
    model = GraphicalDistribution.of_terms(domain, 9.0, terms)
    assert model.marginal(("a0", "a1")) == pytest.approx(np.ones((3, 3)), abs=1e-8)


def test_forbidden_cells_hold_nothing() -> None:
    domain = of_sizes(2, 3, 2)
    forbidden = np.array([[-math.inf, 0.0, 0.0], [-math.inf, 0.0, -math.inf]])
    terms = [MarginalTerm(("a0", "a1"), forbidden), MarginalTerm(("a1", "a2"), np.zeros((3, 2)))]
    model = GraphicalDistribution.of_terms(domain, 12.0, terms)
    assert model.marginal(domain.names).tolist() == [[[0, 0], [2, 2], [2, 2]], [[0, 0], [2, 2], [0, 0]]]
    rows = model.sample(600, np.random.default_rng(1), independent=True)
    assert set(rows.columns[1].tolist()) == {1, 2}
    assert model.answer(LinearQuery.cells(domain, {"a0": (1, 1), "a2": (0, 0)})) == pytest.approx(2.0)


def test_a_domain_of_astronomical_size_is_answered_exactly_where_attributes_are_independent() -> None:
    domain = of_sizes(*[50] * 40)
    duals = np.log(np.arange(1.0, 51.0))
    model = GraphicalDistribution.of_terms(
        domain, 1e6, [MarginalTerm((name,), duals) for name in domain.names]
    )
    assert model.cells == 40 * 50
    query = LinearQuery.cells(domain, dict.fromkeys(domain.names, (5, 49)))
    share = 1 - 15 / 1275
    assert model.answer(query) == pytest.approx(1e6 * share**40)
    half = LinearQuery(domain, (Factor((), np.array(UNITS // 2)), *query.factors))
    assert model.answer(half) == model.answer(query) / 2


@given(DOMAINS, st.data())
def test_a_model_tells_whether_it_holds_a_scope_as_its_tree_would_have_it(
    domain: Domain, data: st.DataObject
) -> None:
    terms = data.draw(terms_of(domain))
    scope = data.draw(scopes_of(domain, 4))
    model = GraphicalDistribution.of_terms(domain, 10.0, terms)
    cells = model.with_terms([*terms, MarginalTerm(scope, np.zeros(domain.scope_shape(scope)))]).cells
    assert model.holds(scope, cells)
    assert not model.holds(scope, cells - 1)


def test_a_model_made_anew_has_the_bits_of_the_one_that_grew() -> None:
    domain = of_sizes(4, 3, 5, 2, 6, 3)
    generator = np.random.default_rng(2)
    model = GraphicalDistribution.uniform(domain, 100.0)
    for _ in range(12):
        chosen = domain.scope(generator.choice(domain.names, 2, replace=False).tolist())
        term = MarginalTerm(chosen, generator.normal(size=domain.scope_shape(chosen)))
        model = model.with_terms([*model.terms, term])
        model.marginals([chosen, domain.names])  # what was asked before changes no bit
        for again in (
            GraphicalDistribution.of_terms(domain, 100.0, model.terms),
            pickle.loads(pickle.dumps(model)),  # noqa: S301 - our own bytes
        ):
            assert again.cliques == model.cliques
            for scope in (chosen, domain.names, domain.names[::3]):
                assert np.array_equal(again.marginal(scope), model.marginal(scope))


def test_a_tree_or_a_table_too_large_to_hold_is_refused_before_anything_is_allocated() -> None:
    domain = of_sizes(1000, 1000, 1000)
    queries = [
        LinearQuery.cells(domain, {first: (0, 1), second: (0, 1)})
        for first, second in (("a0", "a1"), ("a1", "a2"), ("a0", "a2"))
    ]
    with pytest.raises(BudgetError, match="1,000,000,000 cells; a graphical model holds at most 100,000,000"):
        GraphicalDistribution.of_terms(domain, 10.0, [QueryTerm(query, 1.0) for query in queries])
    wide = of_sizes(*[50] * 40)
    with pytest.raises(BudgetError, match=r"a table over 40 attributes would have 9.1 × 10⁶⁷ cells"):
        GraphicalDistribution.uniform(wide, 10.0).marginal(wide.names)


def test_rows_are_close_to_the_model_in_every_pair_of_attributes() -> None:
    domain = of_sizes(12, 9, 14, 10, 8)
    generator = np.random.default_rng(7)
    scopes = [("a0", "a1"), ("a1", "a2"), ("a0", "a2"), ("a2", "a3"), ("a3", "a4")]
    terms = [MarginalTerm(scope, generator.normal(size=domain.scope_shape(scope))) for scope in scopes]
    model = GraphicalDistribution.of_terms(domain, 20_000.0, terms)
    distances = {}
    for independent in (False, True):
        records = model.sample(20_000, np.random.default_rng(1), independent=independent)
        distances[independent] = np.mean(
            [np.abs(counts(records, pair) - model.marginal(pair)).sum() / 20_000 for pair in scopes]
        )
    assert distances[False] < 0.35 * distances[True]


# --- one array ------------------------------------------------------------------------------------------


DOMAIN = declared(a=range(5), b="xyz", c=range(4), d=(1, 0))
NAMES = DOMAIN.names


def spread_out(seed: int, total: float = 1000.0) -> DenseDistribution:
    """Return a distribution with a number of its own in every cell."""
    duals = 4 * np.log(np.random.default_rng(seed).random(DOMAIN.shape))
    return DenseDistribution.of_terms(DOMAIN, total, [MarginalTerm(NAMES, duals)])


@pytest.mark.parametrize("count", [0, 1, 7, 1000, 20_000])
def test_systematic_rounding_gives_every_cell_its_number_rounded_up_or_down(count: int) -> None:
    distribution = spread_out(3)
    records = distribution.sample(count, np.random.default_rng(5), independent=False)
    expected = distribution.values * (count / distribution.total)
    assert len(records) == count
    assert np.all(np.abs(counts(records, NAMES) - expected) < 1 + 1e-9)


def peak_of(work: Callable[[], object]) -> int:
    """Return the most bytes that were allocated at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_domain_beyond_the_limit_is_refused_before_anything_is_allocated() -> None:
    beyond = of_sizes(24_929, 673)
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
        check_dense_size(of_sizes(10**6, 10**6, 10**6))
    check_dense_size(of_sizes(2**12, 2**12))


def test_work_needs_one_second_array_and_no_third() -> None:
    cube = of_sizes(50, 50, 200)
    box, noise = LinearQuery.cells(cube, {"a2": (3, 9), "a1": (0, 0)}), DiscreteGaussian(Fraction(5 * UNITS))
    measured: list[SingleMeasurement] = [
        MarginalMeasurement(("a1",), np.arange(50) * UNITS, noise),
        QueryMeasurement(box, 40 * UNITS, noise),
    ]
    model = DenseDistribution.uniform(cube, 1225.0)
    model.marginal(())
    for work in (
        lambda: step(model, box, learning_rate=0.1, increase=True),
        lambda: refit(model, measured),
        lambda: model.sample(1000, np.random.default_rng(1), independent=False),
    ):
        assert peak_of(work) < 1.2 * cube.size * 8


def test_updates_leave_a_model_as_it_was_and_its_terms_make_the_same_bits_again() -> None:
    query = LinearQuery.cells(DOMAIN, {"d": (1, 1), "c": (0, 2)})
    models = [spread_out(4)]
    kept = [models[0].values]
    for number in range(20):
        models.append(step(models[-1], query, learning_rate=0.1 + number / 50, increase=number % 3 > 0))
        kept.append(models[-1].values)
    for model, values in zip(models, kept, strict=True):
        assert np.array_equal(model.values, values)
        again = pickle.loads(pickle.dumps(model))  # noqa: S301  (our own, and without its array)
        assert np.array_equal(again.values, values)
    assert len({values.tobytes() for values in kept}) == 21
    with pytest.raises(ValueError, match="read-only"):
        models[0].values[0, 0, 0, 0] = 1


def test_readers_and_an_updater_do_not_disturb_each_other() -> None:
    query = LinearQuery.cells(DOMAIN, {"a": (1, 2), "d": (0, 0)})
    model, found, stop = spread_out(6), set[bytes](), threading.Event()
    expected = model.values

    def read() -> None:
        while not stop.is_set():
            found.add(model.values.tobytes())

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(100):
        step(model, query, learning_rate=1.0, increase=True)
    stop.set()
    joined(*readers)
    assert found == {expected.tobytes()}


def test_answers_over_scopes_too_long_for_a_marginal_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    queries = [
        LinearQuery.cells(DOMAIN, {"a": (1, 2), "c": (0, 1)}),
        LinearQuery(DOMAIN, (Factor(("a", "c"), generator.integers(0, UNITS, (5, 4))),)),
        LinearQuery(DOMAIN, (Factor(NAMES, generator.integers(0, UNITS, DOMAIN.shape)),)),
    ]
    expected = [spread_out(2).answer(query) for query in queries]
    monkeypatch.setattr("pmw.model.dense._MOST_CACHED_CELLS", 0)
    assert [spread_out(2).answer(query) for query in queries] == pytest.approx(expected, rel=1e-12)


def test_no_row_falls_into_a_cell_without_mass_however_near_its_place_is_to_the_end() -> None:
    duals = np.array([0.0, 0.3, -np.inf, 0.1, -np.inf])
    distribution = DenseDistribution.of_terms(DOMAIN, 100.0, [MarginalTerm(("a",), duals)])
    last = distribution._cells_at(np.array([0.0, 1.0 - 2**-53, 1.0]))
    assert (distribution.values.reshape(-1)[last] > 0).all()
