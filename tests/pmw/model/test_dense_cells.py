"""Dense cells: every number is that of the definition, whatever terms come in whatever order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model import DenseDistribution, MarginalTerm, QueryTerm, Term
from pmw.model.dense import spread
from queries import UNITS, CategoricalAttribute, Domain, Factor, IntegerAttribute, LinearQuery

DOMAIN = Domain(
    (
        IntegerAttribute("a", 0, 4),
        CategoricalAttribute("b", ("x", "y", "z")),
        IntegerAttribute("c", 0, 3),
        CategoricalAttribute("d", (True, False)),
    )
)
NAMES = DOMAIN.names


def box(**ranges: tuple[int, int]) -> LinearQuery:
    return LinearQuery.cells(DOMAIN, ranges)


@st.composite
def random_terms(draw: st.DrawFn) -> tuple[Term, ...]:
    """Boxes, weighted questions and marginals, in any order and number."""
    terms: list[Term] = []
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    for kind in draw(st.lists(st.sampled_from(["box", "weighted", "marginal"]), max_size=6)):
        scope = DOMAIN.scope(draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=4)))
        shape = DOMAIN.scope_shape(scope)
        if kind == "marginal":
            terms.append(MarginalTerm(scope, generator.normal(size=shape)))
        elif kind == "weighted":
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
    assert workspace.freeze((*first, *then)).values == pytest.approx(by_definition((*first, *then), 500.0))


def test_a_table_is_spread_over_the_array() -> None:
    for size in range(5):
        for scope in itertools.combinations(NAMES, size):
            table = np.random.default_rng(2).random(DOMAIN.scope_shape(scope))
            shape = [DOMAIN[name].size if name in scope else 1 for name in NAMES]
            whole = np.broadcast_to(spread(DOMAIN, scope, table, DOMAIN.shape), DOMAIN.shape)
            assert np.array_equal(whole, np.broadcast_to(table.reshape(shape), DOMAIN.shape))


LONG = Domain((IntegerAttribute("a", 0, 2), IntegerAttribute("b", 0, 4999), IntegerAttribute("c", 0, 1)))


@pytest.mark.parametrize(
    ("scope", "written_out"), [(("c",), (1, 5000, 2)), (("a", "c"), (3, 5000, 2)), (("a",), (3, 1, 1))]
)
def test_a_table_over_short_last_axes_is_written_out(scope: tuple[str, ...], written_out: object) -> None:
    table = np.random.default_rng(2).random(LONG.scope_shape(scope))
    found = spread(LONG, scope, table, LONG.shape)
    assert found.shape == written_out
    shape = [LONG[name].size if name in scope else 1 for name in LONG.names]
    assert np.array_equal(
        np.broadcast_to(found, LONG.shape), np.broadcast_to(table.reshape(shape), LONG.shape)
    )
