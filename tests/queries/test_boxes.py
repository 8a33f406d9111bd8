"""Boxes: the texts, sums and parts of many questions about ranges are those of the questions alone."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from pmw.model.estimate import Covariance
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, ScopeError
from queries.boxes import Boxes, BoxSums, RangeTexts
from queries.factors import UNITS, Factor
from queries.products import Products

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 6),
        CategoricalAttribute('a "100%" ü', ("x", "y", "z")),
        IntegerAttribute("k", 0, 1),
    ),
    "t",
)
NAMES = DOMAIN.names


@st.composite
def boxes(draw: st.DrawFn) -> Boxes:
    scope = draw(st.permutations(NAMES))[: draw(st.integers(1, 3))]
    rows = st.tuples(
        *(st.tuples(*(st.integers(0, DOMAIN[name].size - 1),) * 2).map(sorted) for name in scope)
    )
    ranges = np.array(draw(st.lists(rows, min_size=1, max_size=12)))
    return Boxes.of(DOMAIN, scope, ranges[:, :, 0], ranges[:, :, 1])


@given(boxes())
def test_parts_have_the_texts_and_queries_of_their_questions(given: Boxes) -> None:
    seen = []
    for places, part in given.parts():
        seen += places.tolist()
        for place, text in enumerate(part.texts()):
            query = part.query(place)
            assert text == query.to_json() == given.query(int(places[place])).to_json()
            assert query.scope == part.scope
            assert part.cells()[place] == np.prod([side.stop - side.start for side in query.box])
    assert sorted(seen) == list(range(len(given)))


@pytest.mark.parametrize("attributes", [62, 63, 64, 65, 130])
def test_no_attribute_of_many_is_taken_for_another(attributes: int) -> None:
    names = [f"x{place}" for place in range(attributes)]
    domain = Domain(tuple(IntegerAttribute(name, 0, 1) for name in names), "t")
    last = 1 - np.eye(attributes, dtype=np.int64)  # each question is about one attribute, and the first
    last[:, 0] = 0
    many = Boxes.of(domain, names, np.zeros_like(last), last)
    scopes = {int(places[0]): part.scope for places, part in many.parts()}
    assert scopes == {place: many.query(place).scope for place in range(attributes)}
    codes, examples = many.kinds()
    assert [examples[code].scope for code in codes] == [scopes[place] for place in range(attributes)]


@given(boxes())
def test_equal_questions_are_one(given: Boxes) -> None:
    first, numbers = given.distinct()
    texts = [given.query(place).to_json() for place in range(len(given))]
    keys = [(tuple(given.first[place]), tuple(given.last[place])) for place in range(len(given))]
    assert first.tolist() == [keys.index(key) for key in dict.fromkeys(keys)]
    assert [texts[first[number]] for number in numbers] == texts


def test_equal_questions_are_found_where_codes_would_not_fit() -> None:
    wide = Domain(tuple(IntegerAttribute(f"x{place}", 0, 999_999) for place in range(3)), "t")
    first = np.array([[5, 0, 1], [2, 0, 1], [5, 0, 1], [2, 0, 0]])
    found, numbers = Boxes.of(wide, wide.names, first, first + 3).distinct()
    assert (found.tolist(), numbers.tolist()) == ([0, 1, 3], [0, 1, 0, 2])


@given(boxes(), st.integers(0, 2**32 - 1))
def test_a_sum_is_the_same_alone_and_among_many(given: Boxes, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _, part in given.parts():
        values = generator.exponential(100, DOMAIN.scope_shape(part.scope))
        sums = BoxSums(values)
        alone = [sums.one(part.query(place).box) for place in range(len(part))]
        assert sums.many(part).tolist() == alone
        direct = [part.query(place).evaluate(values) for place in range(len(part))]
        np.testing.assert_allclose(alone, direct, rtol=1e-9, atol=1e-9)


def test_sums_of_whole_units_are_exact() -> None:
    units = np.random.default_rng(0).integers(0, 2**40, (7, 3))
    scope = NAMES[:2]
    part = Boxes.of(DOMAIN, scope, [[1, 0], [0, 1]], [[5, 1], [6, 1]])
    found = BoxSums(units / 2**20).many(part)
    assert found.tolist() == [float(units[1:6, :2].sum()) / 2**20, float(units[:, 1:2].sum()) / 2**20]


def test_tables_of_many_cells_or_attributes_have_no_sums() -> None:
    assert BoxSums.of_few(np.ones(2**14)) is not None
    assert BoxSums.of_few(np.ones(2**14 + 1)) is None
    assert BoxSums.of_few(np.ones((2,) * 5)) is not None
    assert BoxSums.of_few(np.ones((2,) * 6)) is None


@pytest.mark.parametrize(
    ("scope", "first", "last", "message"),
    [
        (["height"], [0], [0], "height"),
        (["k", "k"], [[0, 0]], [[0, 0]], "each attribute once"),
        (["k"], [0, 1], [1], "as many last cells as first ones, got 1, 2"),
        (["k"], [0, 1], [1, 0], r"cells 0\.\.1, got the range 1\.\.0 in question 2"),
        (["k"], [-1], [0], r"cells 0\.\.1, got the range -1\.\.0 in question 1"),
        (["age"], [0], [7], r"cells 0\.\.6, got the range 0\.\.7 in question 1"),
        (["age"], [0.0], [1.0], "whole numbers of cells"),
        (["age"], [[0, 1]], [[0, 1]], r"of shape \(questions, 1\), got int64 of \(1, 2\)"),
        (["age", "k"], [0], [1], r"of shape \(questions, 2\)"),
        (["age"], [np.nan], [1], "whole numbers"),
        (["age"], ["a"], ["b"], "whole numbers"),
        (["age"], np.array([2**63], dtype=np.uint64), np.array([2**63], dtype=np.uint64), "got the range"),
    ],
)
def test_what_is_no_range_is_refused(
    scope: list[str], first: ArrayLike, last: ArrayLike, message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        Boxes.of(DOMAIN, scope, first, last)


def test_no_questions_have_no_parts() -> None:
    none = Boxes.of(DOMAIN, ["k"], np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    assert len(none) == 0
    assert list(none.parts()) == []
    assert [found.size for found in none.distinct()] == [0, 0]
    assert isinstance(LinearQuery.everything(DOMAIN).to_json(), str)


# --- canonical texts ----------------------------------------------------------------------------------------

LABELS = ("age", "50% of", "größe", 'with "quotes"')
CELLS = 1200
LABELLED = Domain(tuple(IntegerAttribute(name, 0, CELLS - 1) for name in LABELS), "t")


@st.composite
def texts(draw: st.DrawFn) -> RangeTexts:
    names = sorted(draw(st.sets(st.sampled_from(LABELS))), key=LABELS.index)
    pair = st.lists(st.integers(0, CELLS - 1), min_size=2, max_size=2, unique=True).map(sorted)
    rows = draw(st.lists(st.tuples(*(pair for _ in names)), max_size=12))
    ends = np.array(rows, dtype=np.int64).reshape(len(rows), len(names), 2)
    return RangeTexts(names, np.moveaxis(ends, 0, 2))


@given(texts())
def test_texts_are_those_of_the_questions(found: RangeTexts) -> None:
    ends = np.moveaxis(found.ends, 2, 0).tolist()
    wanted = [
        LinearQuery.cells(
            LABELLED, {name: (low, high - 1) for name, (low, high) in zip(found.names, row, strict=True)}
        ).to_json()
        for row in ends
    ]
    assert list(found) == wanted == [found[place] for place in range(len(found))]
    assert list(found[::-1]) == wanted[::-1]


@given(texts())
def test_checksums_are_those_of_the_texts(found: RangeTexts) -> None:
    assert found.checksums().tolist() == [zlib.crc32(text.encode()) for text in found]


@pytest.mark.parametrize("size", [30, 10**6])  # pairs are looked up in a table, and sorted
def test_checksums_of_many_texts(size: int) -> None:
    ends = np.random.default_rng(1).integers(0, size, (3, 2, 500))
    found = RangeTexts(LABELS[:3], ends)
    assert found.checksums().tolist() == [zlib.crc32(text.encode()) for text in found]


@given(texts(), texts(), st.data())
def test_texts_are_compared_one_by_one(first: RangeTexts, second: RangeTexts, data: st.DataObject) -> None:
    for other in (first, second):
        count = min(len(first), len(other))
        own, theirs = (
            np.array(data.draw(st.permutations(range(len(some))))[:count], dtype=np.int64)
            for some in (first, other)
        )
        same = first.are(own, other, theirs).tolist()
        assert same == [
            one == another for one, another in zip(first.take(own), other.take(theirs), strict=True)
        ]


# --- products of sets of cells ------------------------------------------------------------------------------


SIZES = (6, 9, 2)
MADE_UP = Domain(
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
    names = (attribute.name for attribute in MADE_UP)
    return LinearQuery(
        MADE_UP, tuple(Factor((name,), mask * UNITS) for name, mask in zip(names, sides, strict=True))
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
        assert not Products.is_one(LinearQuery(MADE_UP, factors))
    assert Products.is_one(LinearQuery(MADE_UP, (one,)))
    assert not Products.is_one(LinearQuery(MADE_UP, (one,), aligned=False))
