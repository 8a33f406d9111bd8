"""The graphical distribution against the dense one, and against brute force over all cells."""

from __future__ import annotations

import math
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model import DenseDistribution, GraphicalDistribution, MarginalTerm, QueryTerm, Term
from queries import UNITS, Domain, Factor, IntegerAttribute, LinearQuery, ScopeError
from queries.records import CodedRecords

NEAR = 1e-9


def of_sizes(*sizes: int) -> Domain:
    return Domain(tuple(IntegerAttribute(f"a{place}", 0, size - 1) for place, size in enumerate(sizes)))


@st.composite
def scopes_of(draw: st.DrawFn, domain: Domain, largest: int = 3) -> tuple[str, ...]:
    return domain.scope(draw(st.lists(st.sampled_from(domain.names), unique=True, max_size=largest)))


@st.composite
def queries_of(draw: st.DrawFn, domain: Domain, largest: int = 3) -> LinearQuery:
    scope = draw(scopes_of(domain, largest))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    if scope and generator.random() < 0.5:
        weights = generator.integers(0, UNITS + 1, domain.scope_shape(scope))
        return LinearQuery(domain, (Factor(scope, weights),))
    share = draw(st.sampled_from([UNITS, UNITS // 3]))
    factors = [Factor((), np.array(share))]
    factors += [Factor((name,), UNITS * generator.integers(0, 2, domain[name].size)) for name in scope]
    return LinearQuery(domain, tuple(factors))


@st.composite
def models(draw: st.DrawFn) -> tuple[Domain, list[Term]]:
    domain = of_sizes(*draw(st.lists(st.integers(1, 4), min_size=1, max_size=7)))
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
    return domain, terms


TOTAL = 1000.0


def both(model: tuple[Domain, list[Term]]) -> tuple[GraphicalDistribution, DenseDistribution]:
    domain, terms = model
    return (
        GraphicalDistribution.of_terms(domain, TOTAL, terms),
        DenseDistribution.of_terms(domain, TOTAL, terms),
    )


@given(st.data())
def test_every_marginal_is_the_dense_one(data: st.DataObject) -> None:
    model = data.draw(models())
    graphical, dense = both(model)
    scopes = data.draw(st.lists(scopes_of(model[0], 7), min_size=1, max_size=6))
    for scope, table, same in zip(scopes, graphical.marginals(scopes), dense.marginals(scopes), strict=True):
        assert table == pytest.approx(dense.marginal(scope), abs=NEAR * TOTAL)
        assert same == pytest.approx(dense.marginal(scope), abs=NEAR * TOTAL)
        assert graphical.marginal(scope) == pytest.approx(dense.marginal(scope), abs=NEAR * TOTAL)
        assert table.shape == model[0].scope_shape(scope)
        assert table.sum() == pytest.approx(TOTAL)


@given(st.data())
def test_every_answer_is_the_dense_one(data: st.DataObject) -> None:
    model = data.draw(models())
    graphical, dense = both(model)
    query = data.draw(queries_of(model[0], 7))
    assert graphical.answer(query) == pytest.approx(dense.answer(query), abs=NEAR * TOTAL)


@given(st.data())
def test_every_expectation_of_a_product_is_the_sum_over_all_cells(data: st.DataObject) -> None:
    model = data.draw(models())
    domain = model[0]
    graphical, dense = both(model)
    names = data.draw(st.permutations(domain.names))
    generator = np.random.default_rng(data.draw(st.integers(0, 1000)))
    factors, product = [], np.ones(domain.shape)
    while names:
        size = data.draw(st.integers(1, len(names)))
        scope, names = domain.scope(names[:size]), names[size:]
        if data.draw(st.booleans()):
            weights = generator.random(domain.scope_shape(scope))
            factors.append((scope, weights))
            shape = [domain[name].size if name in scope else 1 for name in domain.names]
            product = product * weights.reshape(shape)
    expected = float((dense.values * product).sum())
    assert graphical.expectation(factors) == pytest.approx(expected, abs=NEAR * TOTAL)
    assert dense.expectation(factors) == pytest.approx(expected, abs=NEAR * TOTAL)


@given(models())
def test_the_density_of_every_cell_is_its_share_of_the_sum_over_all_cells(
    model: tuple[Domain, list[Term]],
) -> None:
    domain, terms = model
    graphical, dense = both(model)
    exponents = np.zeros(domain.shape)
    for term in terms:
        scope = term.scope if isinstance(term, MarginalTerm) else term.query.scope
        table = term.duals if isinstance(term, MarginalTerm) else term.query.weights() * (term.dual / UNITS)
        exponents += table.reshape([domain[name].size if name in scope else 1 for name in domain.names])
    peak = exponents.max()
    log_partition = peak + math.log(np.exp(exponents - peak).sum())
    cells = np.indices(domain.shape).reshape(len(domain), -1).T
    expected = (exponents - log_partition).reshape(-1)
    assert graphical.log_partition == pytest.approx(log_partition, abs=1e-8)
    assert graphical.log_density(cells) == pytest.approx(expected, abs=1e-8)
    assert dense.log_density(cells) == pytest.approx(expected, abs=1e-8)


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
    assert model.log_partition == pytest.approx(math.log(9 * (2 + math.e)), abs=1e-8)


def test_forbidden_cells_hold_nothing() -> None:
    domain = of_sizes(2, 3, 2)
    forbidden = np.array([[-math.inf, 0.0, 0.0], [-math.inf, 0.0, -math.inf]])
    terms = [MarginalTerm(("a0", "a1"), forbidden), MarginalTerm(("a1", "a2"), np.zeros((3, 2)))]
    model = GraphicalDistribution.of_terms(domain, 12.0, terms)
    assert model.marginal(domain.names).tolist() == [
        [[0, 0], [2, 2], [2, 2]],
        [[0, 0], [2, 2], [0, 0]],
    ]
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
    assert model.log_partition == pytest.approx(40 * math.log(1275))


def test_attributes_without_a_term_are_uniform_and_independent() -> None:
    domain = of_sizes(4, 5, 3)
    duals = np.log(np.array([1.0, 2.0, 3.0, 4.0]))
    model = GraphicalDistribution.of_terms(domain, 150.0, [MarginalTerm(("a0",), duals)])
    assert model.marginal(("a0", "a2")) == pytest.approx(np.outer([15.0, 30.0, 45.0, 60.0], np.ones(3) / 3))
    assert GraphicalDistribution.uniform(domain, 60.0).marginal(domain.names) == pytest.approx(
        np.ones(domain.shape)
    )


def test_a_scope_inside_a_clique_keeps_the_tree_and_so_the_sums_of_the_others() -> None:
    domain = of_sizes(3, 4, 2, 5)
    pairs = [("a0", "a1"), ("a1", "a2"), ("a0", "a2"), ("a2", "a3")]
    generator = np.random.default_rng(1)
    terms = [MarginalTerm(scope, generator.normal(size=domain.scope_shape(scope))) for scope in pairs]
    model = GraphicalDistribution.of_terms(domain, 100.0, terms)
    inside = MarginalTerm(("a0", "a1", "a2"), generator.normal(size=(3, 4, 2)))
    grown = model.with_terms([*terms, inside])
    assert grown.cliques == model.cliques
    wider = model.with_terms([*terms, MarginalTerm(("a0", "a3"), np.zeros((3, 5)))])
    assert wider.cliques != model.cliques
    assert wider.cells == 24 + 30
    assert wider.marginal(("a0", "a1")) == pytest.approx(model.marginal(("a0", "a1")))


@given(st.data())
def test_a_model_tells_whether_it_holds_a_scope_as_its_tree_would_have_it(data: st.DataObject) -> None:
    domain, terms = data.draw(models())
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


def counts(records: CodedRecords, scope: tuple[str, ...]) -> NDArray[np.int64]:
    domain = records.domain
    columns = [records.columns[domain.index(name)].astype(np.int64) for name in scope]
    shape = domain.scope_shape(scope)
    flat = np.ravel_multi_index(columns, shape) if columns else np.zeros(len(records), dtype=np.int64)
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


@given(models(), st.integers(0, 500), st.booleans(), st.integers(0, 99))
def test_there_are_as_many_rows_as_asked_for_and_none_in_impossible_cells(
    model: tuple[Domain, list[Term]], count: int, independent: bool, seed: int
) -> None:
    graphical, dense = both(model)
    records = graphical.sample(count, np.random.default_rng(seed), independent=independent)
    assert len(records) == count
    found = counts(records, model[0].names)
    assert found.sum() == count
    assert np.all(dense.values[found > 0] > 0)


def chain_model(seed: int = 1) -> GraphicalDistribution:
    domain = of_sizes(6, 5, 7, 4)
    generator = np.random.default_rng(seed)
    scopes = [("a0", "a1"), ("a1", "a2"), ("a2", "a3")]
    terms = [MarginalTerm(scope, generator.normal(size=domain.scope_shape(scope))) for scope in scopes]
    return GraphicalDistribution.of_terms(domain, 1000.0, terms)


def test_rows_come_in_no_order() -> None:
    first = chain_model().sample(500, np.random.default_rng(5), independent=False).columns[0].astype(int)
    assert not np.all(np.diff(first) >= 0)


def test_readers_do_not_disturb_each_other() -> None:
    model, expected = chain_model(), chain_model().marginal(("a0", "a3"))
    found: list[NDArray[np.float64]] = []
    readers = [threading.Thread(target=lambda: found.append(model.marginal(("a0", "a3")))) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(found) == 8
    assert all(np.array_equal(table, expected) for table in found)


def test_marginals_are_read_only() -> None:
    model = chain_model()
    for table in (model.marginal(("a0",)), *model.marginals([("a0",), ("a0", "a3"), ()])):
        with pytest.raises(ValueError, match="read-only"):
            table[...] = 1


def test_what_makes_no_model_is_refused() -> None:
    domain = of_sizes(3, 4)
    with pytest.raises(BudgetError, match="expected a positive total"):
        GraphicalDistribution.uniform(domain, 0.0)
    with pytest.raises(BudgetError, match="number of rows of at least 0"):
        chain_model().sample(-1, np.random.default_rng(1), independent=True)
    with pytest.raises(ScopeError, match="in declared order"):
        chain_model().marginal(("a1", "a0"))
    with pytest.raises(ScopeError, match="in declared order"):
        chain_model().marginals([("a1", "a0")])
    with pytest.raises(ScopeError, match="each attribute once"):
        chain_model().expectation([(("a0",), np.ones(6)), (("a0",), np.ones(6))])


def test_a_tree_too_large_to_hold_is_refused_before_anything_is_allocated() -> None:
    domain = of_sizes(1000, 1000, 1000)
    queries = [
        LinearQuery.cells(domain, {first: (0, 1), second: (0, 1)})
        for first, second in (("a0", "a1"), ("a1", "a2"), ("a0", "a2"))
    ]
    with pytest.raises(BudgetError, match="1,000,000,000 cells; a graphical model holds at most 100,000,000"):
        GraphicalDistribution.of_terms(domain, 10.0, [QueryTerm(query, 1.0) for query in queries])


def test_a_table_too_large_to_hold_is_refused() -> None:
    domain = of_sizes(*[50] * 40)
    with pytest.raises(BudgetError, match=r"a table over 40 attributes would have 9.1 × 10⁶⁷ cells"):
        GraphicalDistribution.uniform(domain, 10.0).marginal(domain.names)


@pytest.mark.parametrize("count", [1, 10, 1000, 20_000])
def test_rows_are_halved_over_a_new_attribute_as_expected_rounded_up_or_down(count: int) -> None:
    model = chain_model()
    records = model.sample(count, np.random.default_rng(3), independent=False)
    done: set[str] = set()
    for clique in model.cliques:
        for name in clique:
            if name in done:
                continue
            known = tuple(other for other in clique if other in done)
            scope = model.domain.scope((*known, name))
            axis, size = scope.index(name), model.domain[name].size
            joint, found = model.marginal(scope), counts(records, scope)
            expected = found.sum(axis=axis, keepdims=True) * joint / joint.sum(axis=axis, keepdims=True)
            half = np.arange((size + 1) // 2)
            halves = (found - expected).take(half, axis=axis).sum(axis=axis)
            assert np.all(np.abs(halves) < 1 + 1e-6)
            assert np.all(np.abs(found - expected) < (size - 1).bit_length())
            # The rows of all cells of the attributes before it split alike.
            assert np.all(np.abs((found - expected).sum(axis=tuple({*range(joint.ndim)} - {axis}))) < 3)
            done.add(name)


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


@pytest.mark.statistical
@pytest.mark.parametrize("independent", [False, True])
def test_rows_are_unbiased_either_way(independent: bool) -> None:
    model = chain_model()
    names = model.domain.names
    seeds, count = 400, 60
    found = np.zeros(model.domain.shape)
    for seed in range(seeds):
        found += counts(model.sample(count, np.random.default_rng(seed), independent=independent), names)
    expected = model.marginal(names) * (count / model.total) * seeds
    usable = expected > 5
    statistic = float(((found - expected) ** 2 / np.maximum(expected, 1e-9))[usable].sum())
    assert statistic < usable.sum() + 5 * np.sqrt(2 * usable.sum())
