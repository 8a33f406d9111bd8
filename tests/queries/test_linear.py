"""Linear queries: exact answers, canonical forms and keys."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from pmw.model.estimate import Covariance
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    Factor,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    ScopeError,
    parse_where,
)
from queries.cell_sets import BoxSums
from queries.factors import Span
from queries.linear import Readings
from queries.questions import Products, QuestionList
from queries.range_texts import RangeTexts
from tests.queries.meaning import DOMAINS, full_weights, histograms

INDICATOR = st.sampled_from([0, UNITS])
FRACTION = st.integers(0, UNITS) | INDICATOR


@pytest.fixture(scope="module")
def domain() -> Domain:
    return Domain(
        (
            CategoricalAttribute("a", ("x", "y")),
            CategoricalAttribute("b", ("x", "y", "z")),
            IntegerAttribute("c", 0, 9, 2),
        )
    )


@st.composite
def _factors(
    draw: st.DrawFn, domain: Domain, *, dense: bool = True, share: bool = True
) -> tuple[Factor, ...]:
    """Draw factors over disjoint sets of attributes, at most one of them with fractions."""
    order = draw(st.permutations(domain.names))
    ends = sorted(draw(st.sets(st.integers(0, len(order))))) if dense else range(len(order) + 1)
    groups = [domain.scope(order[low:high]) for low, high in pairwise(ends)]
    fractional = draw(st.integers(0, len(groups))) if share else len(groups)
    factors = []
    for number, group in enumerate(groups):
        size = domain.scope_size(group)
        weights = st.lists(FRACTION if number == fractional else INDICATOR, min_size=size, max_size=size)
        factors.append(Factor(group, np.array(draw(weights)).reshape(domain.scope_shape(group))))
    return tuple(factors)


def _by_hand(domain: Domain, factors: tuple[Factor, ...]) -> NDArray[np.int64]:
    """Return the weight of every cell of the domain, multiplied one by one."""
    weights = np.zeros(domain.shape, dtype=np.int64)
    for cell in np.ndindex(domain.shape):
        share = Fraction(1)
        for factor in factors:
            local = tuple(cell[domain.index(name)] for name in factor.scope)
            share *= Fraction(int(factor.weights[local]), UNITS)
        assert (share * UNITS).denominator == 1
        weights[cell] = int(share * UNITS)
    return weights


@given(data=st.data(), histogram=histograms())
def test_a_query_holds_the_product_of_its_factors_and_sums_what_it_weighs(
    data: st.DataObject, histogram: Histogram
) -> None:
    domain = histogram.domain
    factors = data.draw(_factors(domain))
    query = LinearQuery(domain, factors)
    weights = _by_hand(domain, factors)
    np.testing.assert_array_equal(full_weights(query), weights)
    assert query.weights().shape == domain.scope_shape(query.scope)
    marginal = histogram.project(query.scope)
    assert query.answer(histogram) == query.answer(marginal) == int((weights * histogram.counts).sum())
    real = query.evaluate(marginal.counts.astype(np.float64))
    assert math.isclose(real, query.answer(marginal) / UNITS, rel_tol=1e-12, abs_tol=1e-12)


def test_answers_beyond_32_bits_and_beyond_the_digits_of_a_float_are_exact(domain: Domain) -> None:
    counts = Histogram(domain, np.full(domain.shape, 10**10 + 1))
    query = LinearQuery(domain, (Factor(("a",), np.array([UNITS - 1, 0])),), aligned=False)
    assert query.answer(counts) == 15 * (10**10 + 1) * (UNITS - 1)


@given(data=st.data(), domain=DOMAINS)
def test_the_canonical_form_gives_the_query_back(data: st.DataObject, domain: Domain) -> None:
    factors, aligned = data.draw(_factors(domain)), data.draw(st.booleans())
    query = LinearQuery(domain, factors, aligned=aligned)
    again = LinearQuery.from_dict(domain, json.loads(json.dumps(query.to_dict())))
    assert (again.scope, again.aligned, again.box) == (query.scope, query.aligned, query.box)
    np.testing.assert_array_equal(again.weights(), query.weights())
    assert json.loads(query.to_json()) == query.to_dict()
    shuffled = LinearQuery(domain, tuple(data.draw(st.permutations(factors))), aligned=aligned)
    for other in (again, shuffled):
        assert other.to_json() == query.to_json()
        assert other.key() == query.key()
        assert other.describe() == query.describe()


@given(data=st.data(), domain=DOMAINS)
def test_the_scope_is_what_the_weights_depend_on(data: st.DataObject, domain: Domain) -> None:
    factors = data.draw(_factors(domain, dense=False))
    weights = _by_hand(domain, factors)
    firsts = [np.take(weights, [0], axis=axis) for axis in range(len(domain))]
    depends = tuple(
        name for name, first in zip(domain.names, firsts, strict=True) if np.any(weights != first)
    )
    product = LinearQuery(domain, factors)
    assert product.scope == depends
    dense = LinearQuery(domain, (Factor(domain.names, weights),))
    assert (dense.scope, dense.key()) == (product.scope, product.key())


@given(data=st.data(), domain=DOMAINS)
def test_keys_are_equal_exactly_where_weights_are(data: st.DataObject, domain: Domain) -> None:
    product_form = _factors(domain, dense=False, share=False)
    ours, theirs = data.draw(product_form), data.draw(product_form)
    same = np.array_equal(_by_hand(domain, ours), _by_hand(domain, theirs))
    assert (LinearQuery(domain, ours).key() == LinearQuery(domain, theirs).key()) == same


def test_a_key_has_32_bytes_and_does_not_change_from_version_to_version(domain: Domain) -> None:
    assert len(LinearQuery.everything(domain).key()) == 32
    assert LinearQuery.everything(domain).key().hex()[:16] == "14bbef792bdc5b64"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("", "everybody"), ("a = 'x' AND a = 'y'", "nobody"), ("a = 'x'", "a x"),
        ("b IN ('x', 'y')", "b x to y"), ("b <> 'y'", "b x, z"), ("c BETWEEN 2 AND 5", "c 2 to 5"),
        ("c < 3", "c 0..1, 2..3 (x 0.5)"), ("c < 4 AND b = 'z'", "b z and c 0 to 3"),
        ("a = 'x' OR b = 'z'", "a condition on a, b"),
    ],
)  # fmt: skip
def test_a_query_is_described_in_words(domain: Domain, where: str, words: str) -> None:
    assert parse_where(where, domain).describe() == words


def ones(*shape: int, scope: str = "a") -> Factor:
    return Factor(tuple(scope), np.full(shape, UNITS))


EIGHTHS = [Factor((name,), np.arange(1, size + 1) * (UNITS // 8)) for name, size in (("a", 2), ("b", 3))]
# What cannot be made of the domain, and the message.
REFUSED: list[tuple[Callable[[Domain], object], str]] = [
    *(
        (lambda domain, ranges=ranges: LinearQuery.cells(domain, ranges), message)
        for ranges, message in (
            ({"b": (2, 1)}, r"attribute 'b' has cells 0\.\.2, got the range 2\.\.1"),
            ({"b": (0, 3)}, r"got the range 0\.\.3"), ({"b": (-1, 0)}, r"got the range -1\.\.0"),
            ({"d": (0, 0)}, "expected an attribute of 'records', got 'd'"),
        )
    ),
    *(
        (lambda _, weights=weights: Factor(("a",), np.array(weights)), message)
        for weights, message in (
            ([0.0, 1.0], "expected integer weights with 1 axes, got 1 of float64"),
            ([True, False], "expected integer weights with 1 axes, got 1 of bool"),
            ([[0, 1]], "expected integer weights with 1 axes, got 2"),
            ([-1, 0], r"expected weights in 0\.\.1048576, got -1\.\.0"),
            ([0, UNITS + 1], r"got 0\.\.1048577"),
            (np.array([0, 2**64 - 1], dtype=np.uint64), r"expected weights in 0\.\.1048576"),
        )
    ),
    *(
        (lambda _, ends=ends: Factor(("a",), Span(5, slice(1, 3), ends)),
         r"expected weights in 1\.\.1048576 at both ends")
        for ends in ((0, UNITS), (UNITS, UNITS + 1), (-1, 1))
    ),
    *(
        (lambda domain, factors=factors: LinearQuery(domain, tuple(factors)), message)
        for factors, message in (
            ([ones(2), ones(2, 3, scope="ab")], "expected each attribute once"),
            ([ones(3, 2, scope="ba")], "in declared order"),
            ([ones(3)], r"expected weights of shape \(2,\) over \['a'\]"),
            ([ones(3, scope="d")], "expected an attribute of 'records', got 'd'"),
            (EIGHTHS, "expected fractions in one factor at most; multiply the factors"),
            ([EIGHTHS[0], Factor((), np.array(5))], "expected fractions in one factor at most"),
        )
    ),
]  # fmt: skip


def test_what_is_no_question_of_a_domain_is_refused(domain: Domain) -> None:
    for make, message in REFUSED:
        with pytest.raises(ScopeError, match=message):
            make(domain)
    whole = parse_where("a = 'x'", domain)
    half = LinearQuery(domain, (Factor((), np.array(UNITS // 2)),))
    for readings in (Readings(half, whole), Readings(whole, parse_where("c < 3", domain))):
        with pytest.raises(ScopeError, match="expected readings of whole cells"):
            LinearQuery(domain, (), readings=readings)


@pytest.mark.parametrize("size", [2, 5000])
def test_weights_are_a_read_only_copy(size: int) -> None:
    given_weights = np.arange(size) % 2 * UNITS
    factor = Factor(("a",), given_weights)
    given_weights[0] = UNITS
    assert factor.weights[:2].tolist() == [0, UNITS]
    with pytest.raises(ValueError, match="read-only"):
        factor.weights[0] = UNITS


def test_questions_of_equal_weights_and_other_readings_have_other_keys(domain: Domain) -> None:
    whole, everybody = parse_where("a = 'x'", domain), LinearQuery.everything(domain)
    undecided = LinearQuery(domain, whole.factors, readings=Readings(whole, everybody))
    other = LinearQuery(domain, whole.factors, readings=Readings(parse_where("b = 'y'", domain), everybody))
    assert len({query.key() for query in (whole, undecided, other)}) == 3
    assert other.scope == ("a", "b")
    assert other.box == (slice(0, 1), slice(0, 3))


def test_a_question_without_weights_of_its_own_is_described_by_what_it_may_hold(domain: Domain) -> None:
    readings = Readings(parse_where("a = 'x' AND b = 'y'", domain), parse_where("b = 'y'", domain))
    nobody = parse_where("a = 'x' AND a = 'y'", domain)
    query = LinearQuery(domain, (Factor((), np.array(0)),), readings=readings)
    assert nobody.weights() == query.weights().max() == 0
    assert query.describe() == "part of b y"


@given(st.integers(1, 5), st.data())
def test_a_span_of_cells_is_the_factor_of_its_weights(size: int, data: st.DataObject) -> None:
    start, stop = sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size))))
    ends = data.draw(st.tuples(*[st.sampled_from([1, UNITS // 3, UNITS])] * 2))
    weights = np.zeros(size, dtype=np.int64)
    weights[start:stop] = UNITS
    if stop > start:
        weights[start], weights[stop - 1] = ends if stop > start + 1 else (min(ends), min(ends))
    span, whole = Factor(("a",), Span(size, slice(start, stop), ends)), Factor(("a",), weights)
    for name in ("scope", "shape", "is_indicator", "constant", "box", "is_box"):
        assert getattr(span, name) == getattr(whole, name)
    assert np.array_equal(span.weights, whole.weights)
    domain = Domain((IntegerAttribute("a", 1, size),))
    assert LinearQuery(domain, (span,)).to_json() == LinearQuery(domain, (whole,)).to_json()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_a_question_within_some_cells_has_the_weights_of_these_alone(cells: list[int]) -> None:
    domain = Domain((IntegerAttribute("a", 0, 5), IntegerAttribute("b", 0, 1)))
    inside = np.isin(np.arange(6), cells)
    for query in (LinearQuery.everything(domain), parse_where("a >= 2 AND b = 1", domain)):
        found = query.within({"a": np.array(cells)})
        assert np.array_equal(full_weights(found), full_weights(query) * inside[:, None])


# --- many ranges at once ------------------------------------------------------------------------------------


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
def boxes(draw: st.DrawFn) -> Products:
    scope = draw(st.permutations(NAMES))[: draw(st.integers(1, 3))]
    rows = st.tuples(
        *(st.tuples(*(st.integers(0, DOMAIN[name].size - 1),) * 2).map(sorted) for name in scope)
    )
    ranges = np.array(draw(st.lists(rows, min_size=1, max_size=12)))
    return Products.of_ranges(DOMAIN, scope, ranges[:, :, 0], ranges[:, :, 1])


@given(boxes())
def test_parts_have_the_texts_and_queries_of_their_questions(given: Products) -> None:
    seen = []
    for places, part in given.parts():
        seen += places.tolist()
        for place, text in enumerate(part.texts()):
            query = part.query(place)
            assert text == query.to_json() == given.query(int(places[place])).to_json()
            assert query.scope == part.scope
            ends = [(side.first[place], side.last[place] + 1) for side in part.sides]
            assert ends == [(side.start, side.stop) for side in query.box]
    assert sorted(seen) == list(range(len(given)))


@pytest.mark.parametrize("attributes", [63, 64, 65, 130])
def test_no_attribute_of_many_is_taken_for_another(attributes: int) -> None:
    names = [f"x{place}" for place in range(attributes)]
    domain = Domain(tuple(IntegerAttribute(name, 0, 1) for name in names), "t")
    last = 1 - np.eye(attributes, dtype=np.int64)  # each question is about one attribute, and the first
    last[:, 0] = 0
    many = Products.of_ranges(domain, names, np.zeros_like(last), last)
    scopes = {int(places[0]): part.scope for places, part in many.parts()}
    assert scopes == {place: many.query(place).scope for place in range(attributes)}
    codes, examples = many.kinds()
    assert [examples[code].scope for code in codes] == [scopes[place] for place in range(attributes)]


@given(boxes())
def test_equal_questions_are_one(given: Products) -> None:
    first, numbers = given.distinct()
    texts = [given.query(place).to_json() for place in range(len(given))]
    keys = [
        tuple((side.first[place], side.last[place]) for side in given.sides) for place in range(len(given))
    ]
    assert first.tolist() == [keys.index(key) for key in dict.fromkeys(keys)]
    assert [texts[first[number]] for number in numbers] == texts


@given(boxes(), st.integers(0, 2**32 - 1))
def test_a_sum_is_the_same_alone_and_among_many(given: Products, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _, part in given.products(lambda _: True):
        values = generator.exponential(100, DOMAIN.scope_shape(part.scope))
        sums = BoxSums(values)
        alone = [sums.one(query) or 0.0 for query in part]
        assert sums.many(part.sides).tolist() == alone
        direct = [query.evaluate(values) for query in part]
        np.testing.assert_allclose(alone, direct, rtol=1e-9, atol=1e-9)


def test_sets_of_many_runs_are_looked_at_few_at_a_time() -> None:
    # Else a few hundred questions about every second cell of a long attribute would take gigabytes.
    domain = Domain((IntegerAttribute("x", 0, 2**14 - 1), IntegerAttribute("z", 0, 255)))
    every_second = parse_where("x % 2 = 0", domain).factors[0]
    listed = [
        LinearQuery(domain, (every_second, *parse_where(f"z = {z}", domain).factors)) for z in range(256)
    ]
    parts = list(QuestionList(listed).products(lambda _: False))
    assert np.concatenate([places for places, _ in parts]).tolist() == list(range(256))
    assert max(side.first.size for _, products in parts for side in products.sides) <= 2**19
    assert sum(side.first.size for _, products in parts for side in products.sides[:1]) == 256 * 2**13
    assert 1 < len(parts) < 10


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
        Products.of_ranges(DOMAIN, scope, first, last)


# --- canonical texts ---------------------------------------------------------------------------------------

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


# --- products of sets of cells -----------------------------------------------------------------------------


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
    assert all(query.is_product for query in queries)
    products, values = Products.of_queries(queries), generator.normal(size=SIZES)
    sums = BoxSums(values)
    found = sums.many(products.sides)
    np.testing.assert_allclose(
        found, [np.sum(query.weights() / UNITS * values) for query in queries], atol=1e-12
    )
    cells = np.prod([side.cells() for side in products.sides], axis=0)
    assert cells.tolist() == [np.count_nonzero(query.weights()) for query in queries]
    places = generator.permutation(9)[:4].astype(np.int64)
    assert sums.many(products.take(places).sides).tolist() == found[places].tolist()
    for place, query in enumerate(queries):
        assert sums.many(Products.of_queries([query]).sides).tolist() == [found[place]]
        assert sums.one(query) == found[place]


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
        assert not LinearQuery(MADE_UP, factors).is_product
    assert LinearQuery(MADE_UP, (one,)).is_product
    assert not LinearQuery(MADE_UP, (one,), aligned=False).is_product
