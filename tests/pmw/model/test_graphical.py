"""The graphical distribution: its tree, what lies across cliques, and rows that are halved along it."""

from __future__ import annotations

import math
import pickle
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.calibration import Beliefs, calibrate, plan_calibration
from pmw.model.distribution import MarginalTerm, QueryTerm, Term
from pmw.model.factors import KeptTables, Positions, project, spread
from pmw.model.graphical import GraphicalDistribution, ScopedTable, expect, joint
from pmw.model.junction_tree import junction_tree
from queries import UNITS, Domain, Factor, LinearQuery
from tests.pmw.model.test_distribution import (
    CHAIN,
    DOMAINS,
    TERMS,
    TOTAL,
    counts,
    of_sizes,
    scopes_of,
    terms_of,
)


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


def chain_model() -> GraphicalDistribution:
    return GraphicalDistribution.of_terms(CHAIN, TOTAL, TERMS)


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


# --- variable elimination against sums over all cells -------------------------------------------------------

SHAPE = (3, 2, 4, 3, 2, 5, 2, 2)
AXES = tuple(range(8))
SCOPES: list[Positions] = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (6, 7)]
PLACES = st.sets(st.sampled_from(AXES)).map(lambda found: tuple(sorted(found)))


def random_beliefs(shape: tuple[int, ...], scopes: list[Positions]) -> tuple[Beliefs, list[ScopedTable]]:
    generator = np.random.default_rng(1)
    potentials = [generator.normal(size=[shape[place] for place in scope]) for scope in scopes]
    plan = plan_calibration(junction_tree(shape, scopes), scopes)
    return calibrate(plan, potentials), list(zip(scopes, potentials, strict=True))


BELIEFS, POTENTIALS = random_beliefs(SHAPE, SCOPES)
WHOLE = np.exp(sum(spread(table, scope, AXES) for scope, table in POTENTIALS))
WHOLE = np.broadcast_to(WHOLE / WHOLE.sum(), SHAPE).copy()


@given(st.lists(PLACES, min_size=1), st.sampled_from([0, 50, 10**6]))
def test_a_joint_distribution_is_bit_for_bit_the_same_whatever_was_asked_before(
    scopes: list[Positions], most_cells: int
) -> None:
    kept = KeptTables(most_cells)
    for scope in scopes:
        found = joint(BELIEFS, scope, kept)
        assert found == pytest.approx(project(WHOLE, AXES, scope), abs=1e-12)
        np.testing.assert_array_equal(found, joint(BELIEFS, scope, KeptTables(0)))


def test_tables_are_kept_up_to_the_most_cells_those_used_last() -> None:
    kept, made = KeptTables(6), list[str]()

    def make(key: str) -> NDArray[np.float64]:
        made.append(key)
        return np.ones(3)

    for key in ("a", "b", "a", "c", "a", "b"):  # "b" was used longest ago when "c" came
        kept.get(key, partial(make, key))
    assert made == ["a", "b", "c", "b"]


@given(
    st.permutations(AXES),
    st.lists(st.integers(1, 3), max_size=6),
    st.integers(0, 20),
    st.sampled_from([0, 50, 10**6]),
)
def test_the_expectation_of_a_product_is_the_sum_over_all_cells(
    order: list[int], sizes: list[int], seed: int, most_cells: int
) -> None:
    generator = np.random.default_rng(seed)
    weights: list[ScopedTable] = []
    product = np.ones(SHAPE)
    for size in sizes:
        scope, order = tuple(sorted(order[:size])), order[size:]
        weights.append((scope, generator.random([SHAPE[place] for place in scope])))
        product = product * spread(weights[-1][1], scope, AXES)
    kept = KeptTables(most_cells)
    found = expect(BELIEFS, weights, kept)
    assert found == pytest.approx(float((WHOLE * product).sum()), abs=1e-12)
    again = [(scope, table) for scope, table in weights if len(scope) != 2]
    assert expect(BELIEFS, again, kept) == expect(BELIEFS, again, KeptTables(0))  # bit for bit
    assert expect(BELIEFS, weights, kept) == found


def test_a_product_over_many_attributes_makes_no_joint_table() -> None:
    shape = (20,) * 12
    scopes: list[Positions] = [(place, place + 1) for place in range(11)]
    beliefs, _ = random_beliefs(shape, scopes)
    weights: list[ScopedTable] = [((place,), np.linspace(0, 1, 20)) for place in range(12)]
    tracemalloc.start()
    found = expect(beliefs, weights, KeptTables(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    chain = np.ones(20)
    for place in range(11, 0, -1):  # by hand: one matrix after the other
        home = beliefs.tree.covering((place - 1, place))
        assert home is not None
        pair = beliefs.tables[home]
        chain = (pair / pair.sum(axis=1, keepdims=True)) @ (np.linspace(0, 1, 20) * chain)
    home = beliefs.tree.covering((0,))
    assert home is not None
    first = project(beliefs.tables[home], beliefs.tree.cliques[home], (0,))
    assert found == pytest.approx(float(first @ (np.linspace(0, 1, 20) * chain)))
    assert peak < 10**6
