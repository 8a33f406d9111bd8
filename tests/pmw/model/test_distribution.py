"""What both forms of the model share: every number is that of the definition, and rows follow it."""

from __future__ import annotations

import math
import threading
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm, QueryTerm, Term
from pmw.model.graphical import GraphicalDistribution
from queries import UNITS, Domain, Factor, IntegerAttribute, LinearQuery, ScopeError
from queries.records import CodedRecords
from tests.waiting import joined

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
def test_attributes_without_a_term_are_uniform_and_independent(form: Form) -> None:
    domain, duals = of_sizes(4, 5, 3), np.log(np.array([1.0, 2.0, 3.0, 4.0]))
    model = form.of_terms(domain, 150.0, [MarginalTerm(("a0",), duals)])
    assert model.marginal(("a0", "a2")) == pytest.approx(np.outer([15.0, 30.0, 45.0, 60.0], np.ones(3) / 3))
    assert form.uniform(domain, 60.0).marginal(domain.names) == pytest.approx(np.ones(domain.shape))


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


@pytest.mark.parametrize("form", FORMS)
def test_marginals_are_read_only(form: Form) -> None:
    model = form.of_terms(CHAIN, TOTAL, TERMS)
    for table in (model.marginal(("a0",)), *model.marginals([("a0",), ("a0", "a3"), ()])):
        with pytest.raises(ValueError, match="read-only"):
            table[...] = 1


@pytest.mark.parametrize("form", FORMS)
def test_what_makes_no_model_is_refused(form: Form) -> None:
    with pytest.raises(BudgetError, match="expected a positive total"):
        form.uniform(CHAIN, 0.0)
    model = form.of_terms(CHAIN, TOTAL, TERMS)
    with pytest.raises(BudgetError, match="number of rows of at least 0"):
        model.sample(-1, np.random.default_rng(1), independent=True)
    with pytest.raises(ScopeError, match="in declared order"):
        model.marginal(("a1", "a0"))
    with pytest.raises(ScopeError, match="in declared order"):
        model.marginals([("a1", "a0")])
    with pytest.raises(ScopeError, match="each attribute once"):
        model.expectation([(("a0",), np.ones(6)), (("a0",), np.ones(6))])
