"""Rows along the tree: how near they come to the model, and that each by itself follows it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.model import GraphicalDistribution, MarginalTerm
from queries import Domain, IntegerAttribute
from queries.records import CodedRecords


def of_sizes(*sizes: int) -> Domain:
    return Domain(tuple(IntegerAttribute(f"a{place}", 0, size - 1) for place, size in enumerate(sizes)))


def counts(records: CodedRecords, scope: tuple[str, ...]) -> NDArray[np.int64]:
    domain = records.domain
    columns = [records.columns[domain.index(name)].astype(np.int64) for name in scope]
    shape = domain.scope_shape(scope)
    flat = np.ravel_multi_index(columns, shape) if columns else np.zeros(len(records), dtype=np.int64)
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


def chain_model(seed: int = 1) -> GraphicalDistribution:
    domain = of_sizes(6, 5, 7, 4)
    generator = np.random.default_rng(seed)
    scopes = [("a0", "a1"), ("a1", "a2"), ("a2", "a3")]
    terms = [MarginalTerm(scope, generator.normal(size=domain.scope_shape(scope))) for scope in scopes]
    return GraphicalDistribution.of_terms(domain, 1000.0, terms)


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
