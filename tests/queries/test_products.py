"""Products: what sets of cells count, sum and vary by, alone and among many."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model import Covariance
from queries import IntegerAttribute, LinearQuery
from queries.boxes import BoxSums
from queries.domain import Domain
from queries.factors import UNITS, Factor
from queries.products import Products

SIZES = (6, 9, 2)
DOMAIN = Domain(
    tuple(IntegerAttribute(f"a{number}", 0, size - 1) for number, size in enumerate(SIZES)), "made up"
)


def masks_of(generator: np.random.Generator, count: int) -> list[list[NDArray[np.bool_]]]:
    """Return of each question the cells of each attribute: some, but not all."""
    found = []
    for _ in range(count):
        sides = []
        for size in SIZES:
            mask = generator.random(size) < generator.choice([0.2, 0.5, 0.8])
            mask[generator.integers(size)] ^= mask.all() or not mask.any()
            sides.append(mask)
        found.append(sides)
    return found


def query_of(sides: list[NDArray[np.bool_]]) -> LinearQuery:
    names = (attribute.name for attribute in DOMAIN)
    return LinearQuery(
        DOMAIN, tuple(Factor((name,), mask * UNITS) for name, mask in zip(names, sides, strict=True))
    )


@given(st.integers(0, 2**31))
def test_products_are_those_of_their_weights_however_many_they_are(seed: int) -> None:
    generator = np.random.default_rng(seed)
    queries = [query_of(sides) for sides in masks_of(generator, 9)]
    assert all(map(Products.is_one, queries))
    products, values = Products.of_queries(queries), generator.normal(size=SIZES)
    sums = BoxSums(values)
    found = sums.many(products)
    np.testing.assert_allclose(
        found, [np.sum(query.weights() / UNITS * values) for query in queries], atol=1e-12
    )
    assert products.cells().tolist() == [np.count_nonzero(query.weights()) for query in queries]
    places = generator.permutation(9)[:4].astype(np.int64)
    assert sums.many(products.take(places)).tolist() == found[places].tolist()
    for place, query in enumerate(queries):
        assert sums.many(Products.of_queries([query])).tolist() == [found[place]]
        if query.is_box:
            assert sums.one(query.box) == found[place]


@given(st.integers(0, 2**31))
def test_sets_have_the_variance_of_their_sum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    listed = masks_of(generator, 7)
    products = Products.of_queries([query_of(sides) for sides in listed])
    for axis, (side, size) in enumerate(zip(products.sides, SIZES, strict=True)):
        masks = np.array([sides[axis] for sides in listed])
        assert side.masks(size).tolist() == masks.tolist()
        root = generator.normal(size=(size, size))
        covariance = root @ root.T
        wanted, runs = (
            np.einsum("ni,ij,nj->n", masks * 1.0, covariance, masks * 1.0),
            Covariance(covariance).runs,
        )
        found = side.variances(runs)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
        for place in range(len(listed)):
            assert side.take(np.array([place])).variances(runs) == found[place]


def test_what_is_no_product_is_told_apart() -> None:
    half = Factor(("a0",), np.array([UNITS // 2, 0, 0, 0, 0, UNITS]))
    both = Factor(("a0", "a1"), np.eye(6, 9, dtype=np.int64) * UNITS)
    one = Factor(("a2",), np.array([0, UNITS]))
    for factors in ((half,), (both,), (), (one, half), (one, Factor((), np.array(UNITS // 2)))):
        assert not Products.is_one(LinearQuery(DOMAIN, factors))
    assert Products.is_one(LinearQuery(DOMAIN, (one,)))
    assert not Products.is_one(LinearQuery(DOMAIN, (one,), aligned=False))
