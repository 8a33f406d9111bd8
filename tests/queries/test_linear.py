"""Linear queries: exact answers, canonical forms and keys."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    Factor,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    ScopeError,
    parse_where,
)
from queries.factors import Span
from queries.linear import Readings
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


def test_a_share_of_a_list_has_one_key_however_it_is_split(domain: Domain) -> None:
    share = Factor((), np.array(UNITS // 2))
    split = LinearQuery(domain, (share, Factor(("b",), np.array([0, UNITS, UNITS]))), aligned=False)
    joined = LinearQuery(domain, (Factor(("b",), np.array([0, UNITS // 2, UNITS // 2])),), aligned=False)
    np.testing.assert_array_equal(split.weights(), joined.weights())
    assert split.key() == joined.key()


def test_one_question_in_two_wordings_has_one_key(domain: Domain) -> None:
    plain = parse_where("a = 'x' AND b = 'y'", domain)
    doubled = parse_where("(a = 'x' AND b = 'y') OR (a = 'x' AND b = 'y')", domain)
    assert doubled.key() == plain.key()
    widened = parse_where("(a = 'x' AND b = 'y') OR (a = 'x' AND b <> 'y')", domain)
    assert widened.key() == parse_where("a = 'x'", domain).key()


def test_a_question_that_nobody_meets_has_one_key(domain: Domain) -> None:
    whole = parse_where("a = 'x' AND a = 'y'", domain)
    cut = parse_where("a = 'x' AND a = 'y' AND c < 3", domain)
    assert whole.describe() == cut.describe() == "nobody"
    assert cut.aligned
    assert cut.key() == whole.key()


def test_a_key_has_32_bytes_and_does_not_change_from_version_to_version(domain: Domain) -> None:
    assert len(LinearQuery.everything(domain).key()) == 32
    assert LinearQuery.everything(domain).key().hex()[:16] == "14bbef792bdc5b64"


def test_everything_counts_every_record_and_a_constant_share_a_part_of_it(domain: Domain) -> None:
    query, counts = LinearQuery.everything(domain), Histogram(domain, np.arange(30).reshape(domain.shape))
    assert query.answer(counts) == 435 * UNITS
    assert (query.scope, query.is_box, query.describe()) == ((), True, "everybody")
    assert query.to_dict() == {"factors": []}
    part = LinearQuery(domain, (Factor((), np.array(UNITS // 4)),), aligned=False)
    assert part.answer(counts) == 435 * UNITS // 4
    assert part.evaluate(np.array(100.0)) == 25.0
    assert (part.scope, part.is_box) == ((), False)
    assert part.to_dict() == {"factors": [], "constant": UNITS // 4, "aligned": False}


def test_a_list_of_values_is_no_box(domain: Domain) -> None:
    query = parse_where("b IN ('x', 'z')", domain)
    assert not query.is_box
    assert query.weights().tolist() == [UNITS, 0, UNITS]
    assert query.to_dict() == {"factors": [[["b"], [[0, 1, UNITS], [2, 3, UNITS]]]]}


def test_answers_beyond_32_bits_are_exact(domain: Domain) -> None:
    counts = np.full(domain.shape, 10**10 + 1)
    query = LinearQuery(domain, (Factor(("a",), np.array([UNITS - 1, 0])),), aligned=False)
    assert query.answer(Histogram(domain, counts)) == 15 * (10**10 + 1) * (UNITS - 1)


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


def test_a_long_list_is_described_in_short_and_half_of_everybody_is_not_everybody() -> None:
    domain = Domain((IntegerAttribute("n", 0, 99), NumericAttribute("x", (0, 10))))
    query = parse_where({"n": {"in": list(range(0, 40, 2))}}, domain)
    assert query.describe() == "n 0, 2, 4, 6, 8, 15 more"
    assert parse_where("x < 5", domain).describe() == "everybody (x 0.5)"


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"b": (2, 1)}, r"attribute 'b' has cells 0\.\.2, got the range 2\.\.1"),
        ({"b": (0, 3)}, r"got the range 0\.\.3"),
        ({"b": (-1, 0)}, r"got the range -1\.\.0"),
        ({"d": (0, 0)}, "expected an attribute of 'records', got 'd'"),
    ],
)
def test_a_box_outside_the_domain_is_refused(
    domain: Domain, ranges: dict[str, tuple[int, int]], message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        LinearQuery.cells(domain, ranges)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.array([0.0, 1.0]), "expected integer weights with 1 axes, got 1 of float64"),
        (np.array([True, False]), "expected integer weights with 1 axes, got 1 of bool"),
        (np.array([[0, 1]]), "expected integer weights with 1 axes, got 2"),
        (np.array([-1, 0]), r"expected weights in 0\.\.1048576, got -1\.\.0"),
        (np.array([0, UNITS + 1]), r"got 0\.\.1048577"),
        (np.array([0, 2**64 - 1], dtype=np.uint64), r"expected weights in 0\.\.1048576"),
    ],
)
def test_weights_off_the_grid_are_refused(weights: NDArray[np.int64], message: str) -> None:
    with pytest.raises(ScopeError, match=message):
        Factor(("a",), weights)


TURNED = Factor(("b", "a"), np.full((3, 2), UNITS))
HALVES = [Factor((name,), np.arange(1, size + 1) * (UNITS // 8)) for name, size in (("a", 2), ("b", 3))]
TWICE = [Factor(("a",), np.full(2, UNITS)), Factor(("a", "b"), np.full((2, 3), UNITS))]


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (TWICE, "expected each attribute once"),
        ([TURNED], "in declared order"),
        ([Factor(("a",), np.full(3, UNITS))], r"expected weights of shape \(2,\) over \['a'\]"),
        ([Factor(("d",), np.full(3, UNITS))], "expected an attribute of 'records', got 'd'"),
        (HALVES, "expected fractions in one factor at most; multiply the factors"),
        ([HALVES[0], Factor((), np.array(5))], "expected fractions in one factor at most"),
    ],
)
def test_factors_that_do_not_fit_are_refused(domain: Domain, factors: list[Factor], message: str) -> None:
    with pytest.raises(ScopeError, match=message):
        LinearQuery(domain, tuple(factors))


def test_a_marginal_without_the_scope_is_refused(domain: Domain) -> None:
    marginal = Histogram(domain, np.ones(domain.shape, dtype=np.int64)).project(["b"])
    with pytest.raises(ScopeError, match=r"expected attributes among \['b'\], got \['a'\]"):
        LinearQuery.cells(domain, {"a": (0, 0)}).answer(marginal)


def test_weights_are_a_read_only_copy() -> None:
    weights = np.array([0, UNITS])
    factor = Factor(("a",), weights)
    weights[0] = UNITS
    assert factor.weights.tolist() == [0, UNITS]
    assert factor.is_indicator
    with pytest.raises(ValueError, match="read-only"):
        factor.weights[0] = UNITS


@given(st.data())
def test_what_is_kept_of_a_factor_is_what_its_weights_say(data: st.DataObject) -> None:
    domain = Domain((CategoricalAttribute("a", ("x", "y", "z")), IntegerAttribute("b", 0, 3)))
    scope = data.draw(st.sampled_from([(), ("a",), ("b",), ("a", "b")]))
    size = domain.scope_size(scope)
    cell = data.draw(st.sampled_from([INDICATOR, FRACTION, st.just(UNITS), st.just(0), st.just(7)]))
    weights = np.array(data.draw(st.lists(cell, min_size=size, max_size=size)), dtype=np.int64)
    factor = Factor(scope, weights.reshape(domain.scope_shape(scope)))
    values = set(weights.tolist())
    assert factor.is_indicator == (values <= {0, UNITS})
    assert factor.constant == (values.pop() if len(values) == 1 else None)
    if factor.constant is not None:
        assert factor.box == ()
        assert not factor.is_box
        return
    outside = factor.weights.copy()
    outside[factor.box] = 0
    assert not outside.any()
    for axis in range(len(scope)):  # and no smaller box would do
        others = tuple(set(range(len(scope))) - {axis})
        ends = np.asarray(factor.weights[factor.box].any(axis=others))
        assert ends[0]
        assert ends[-1]
    assert factor.is_box == bool((factor.weights[factor.box] == UNITS).all())


def test_readings_are_questions_on_whole_cells(domain: Domain) -> None:
    whole = parse_where("a = 'x'", domain)
    half = LinearQuery(domain, (Factor((), np.array(UNITS // 2)),))
    for readings in (Readings(half, whole), Readings(whole, parse_where("c < 3", domain))):
        with pytest.raises(ScopeError, match="expected readings of whole cells"):
            LinearQuery(domain, (), readings=readings)


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
        both = on_all(query) * inside[:, None]
        assert np.array_equal(on_all(found), both)


def on_all(query: LinearQuery) -> np.ndarray:
    """Return the weights of a question over two attributes."""
    shape = [query.domain[name].size if name in query.scope else 1 for name in query.domain.names]
    return np.broadcast_to(query.weights().reshape(shape), query.domain.shape)


@pytest.mark.parametrize("ends", [(0, UNITS), (UNITS, UNITS + 1), (-1, 1)])
def test_a_span_weighs_no_record_more_than_once(ends: tuple[int, int]) -> None:
    with pytest.raises(ScopeError, match=r"expected weights in 1\.\.1048576 at both ends"):
        Factor(("a",), Span(5, slice(1, 3), ends))
