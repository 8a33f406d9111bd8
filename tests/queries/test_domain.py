"""Attributes and domains: their cells, labels and refusals."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    DomainError,
    Histogram,
    IntegerAttribute,
    Marginal,
    NumericAttribute,
    ScopeError,
)
from queries.cells import cell_count
from tests.queries.meaning import histograms


@pytest.mark.parametrize(
    ("attribute", "size"),
    [
        (IntegerAttribute("a", 17, 90), 74), (IntegerAttribute("a", 5, 5), 1),
        (IntegerAttribute("a", 0, 99, 10), 10), (IntegerAttribute("a", 0, 100, 10), 11),
        (IntegerAttribute("a", -3, 3, 100), 1), (NumericAttribute("a", (0, 0.5, 2)), 2),
        (CategoricalAttribute("a", ("x", 3, True)), 3),
    ],
)  # fmt: skip
def test_special_cells_come_after_the_base_cells(attribute: Attribute, size: int) -> None:
    assert (attribute.base_size, attribute.size) == (size, size)
    assert (attribute.missing_code, attribute.other_code) == (None, None)
    missing = dataclasses.replace(attribute, missing=True)
    assert (missing.size, missing.missing_code, missing.other_code) == (size + 1, size, None)
    other = dataclasses.replace(attribute, other=True)
    assert (other.size, other.missing_code, other.other_code) == (size + 1, None, size)
    both = dataclasses.replace(attribute, missing=True, other=True)
    assert (both.size, both.missing_code, both.other_code) == (size + 2, size, size + 1)


@pytest.mark.parametrize(
    ("attribute", "labels"),
    [
        (IntegerAttribute("a", 8, 9, missing=True, other=True), ["8", "9", "(missing)", "(other)"]),
        (IntegerAttribute("a", 0, 6, 3), ["0..2", "3..5", "6"]),
        (IntegerAttribute("a", -4, 0, 3), ["-4..-2", "-1..0"]),
        (NumericAttribute("a", (0, 0.5, 10000), other=True), ["[0, 0.5)", "[0.5, 10000]", "(other)"]),
        (CategoricalAttribute("a", ("x", 3, True, False)), ["x", "3", "true", "false"]),
    ],
)
def test_labels_name_the_cells(attribute: Attribute, labels: list[str]) -> None:
    assert [attribute.label(code) for code in range(attribute.size)] == labels


REFUSED: list[tuple[Callable[..., object], tuple[object, ...], str]] = [
    (IntegerAttribute, ("", 0, 1), "needs a printable name without spaces around it, got ''"),
    (IntegerAttribute, (" a", 0, 1), "got ' a'"),
    (IntegerAttribute, ("a\n", 0, 1), r"got 'a\n'"),
    (IntegerAttribute, ("\ud800", 0, 1), r"got '\ud800'"),
    (IntegerAttribute, ("a", 2, 1), "min must not exceed max, got min=2, max=1"),
    (IntegerAttribute, ("a", 0, 1, 0), "width must be at least 1, got width=0"),
    (IntegerAttribute, ("a", True, 1), "min must be a whole number, got True"),
    (IntegerAttribute, ("a", 0, 1, "2"), "width must be a whole number, got '2'"),
    (IntegerAttribute, ("a", 2**53, 2**53), "min must be within ±"),
    (IntegerAttribute, ("a", 2**53 - 9, 2**53), "max must be within ±"),
    (IntegerAttribute, ("a", 0, 10**5000), "max must be within ±"),
    (IntegerAttribute, ("a", 0, 1_000_000), "at most 1,000,000 cells, got 1,000,001; choose a larger"),
    (lambda flag: IntegerAttribute("a", 0, 1, missing=flag), (1,), "missing must be true or false, got 1"),
    (lambda flag: IntegerAttribute("a", 0, 1, other=flag), (1,), "other must be true or false, got 1"),
    (NumericAttribute, ("a", (1,)), "edges must list at least 2 numbers, got 1"),
    (NumericAttribute, ("a", (0, 2, 2)), "edges must increase or cells overlap, got 2, 2"),
    (NumericAttribute, ("a", (0, 2, 1)), "edges must increase or cells overlap, got 2, 1"),
    (NumericAttribute, ("a", (0, float("nan"))), "edges must be finite numbers, got nan"),
    (NumericAttribute, ("a", (0, float("inf"))), "edges must be finite numbers, got inf"),
    (NumericAttribute, ("a", (False, 1)), "edges must be finite numbers, got False"),
    (NumericAttribute, ("a", (0, 10**400)), "edges must be finite numbers, got a number beyond float64"),
    (NumericAttribute, ("a", (0, "x")), "edges must be finite numbers, got 'x'"),
    (NumericAttribute, ("a", (2**53, 2**53 + 1)), "edges must increase"),
    (NumericAttribute, ("a", (-1.7e308, 1.7e308)), "edges must span a finite width"),
    (CategoricalAttribute, ("a", ()), "values must list at least one value, got none"),
    (CategoricalAttribute, ("a", ("x", "x")), "values must differ, got 'x' more than once"),
    (CategoricalAttribute, ("a", (3, "3")), "values must differ, got '3' more than once"),
    (CategoricalAttribute, ("a", (True, "true")), "values must differ, got 'true' more than once"),
    (CategoricalAttribute, ("a", ("x", "")), "an empty text is no value; declare missing = true"),
    (CategoricalAttribute, ("a", ("\ud800",)), r"must be valid Unicode text, got '\ud800'"),
    (CategoricalAttribute, ("a", (1.5,)), "values must be strings, integers or booleans, got 1.5"),
    (CategoricalAttribute, ("a", (None,)), "values must be strings, integers or booleans, got None"),
]


@pytest.mark.parametrize(("make", "values", "message"), REFUSED)
def test_an_attribute_that_cannot_be_is_refused(
    make: Callable[..., object], values: tuple[object, ...], message: str
) -> None:
    with pytest.raises(DomainError) as caught:
        make(*values)
    assert message in str(caught.value)


def test_true_and_one_are_different_declarations() -> None:
    numbers, booleans = CategoricalAttribute("a", (1, 0)), CategoricalAttribute("a", (True, False))
    assert numbers != booleans
    assert Domain((numbers,)) != Domain((booleans,))


@pytest.mark.parametrize(
    ("special", "flags"), [("(missing)", {"missing": True}), ("(other)", {"other": True})]
)
def test_a_value_that_reads_like_a_special_cell_is_refused(special: str, flags: Any) -> None:
    with pytest.raises(DomainError) as caught:
        CategoricalAttribute("a", ("x", special), **flags)
    assert f"{special!r} names the special cell and is no value" in str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "name", "message"),
    [
        ((), "t", "at least one attribute, got none"),
        ((IntegerAttribute("a", 0, 1),), "", "a domain needs a printable name, got name=''"),
        ((IntegerAttribute("a", 0, 1),), "t\n", "a domain needs a printable name"),
        (
            (IntegerAttribute("a", 0, 1), IntegerAttribute("a", 0, 2)),
            "t",
            "names must differ, got 'a' more than",
        ),
    ],
)
def test_a_domain_that_cannot_be_is_refused(
    attributes: tuple[Attribute, ...], name: str, message: str
) -> None:
    with pytest.raises(DomainError, match=message):
        Domain(attributes, name=name)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (1, "1"), (10_950, "10,950"), (10**9, "1,000,000,000"), (10**9 + 1, "1 × 10⁹"),
        (9_960_000_000, "1 × 10¹⁰"), (119_999_999_999, "1.2 × 10¹¹"),
        (199_939_280_516_496 * 10**33, "2 × 10⁴⁷"), (10**400, "1 × 10⁴⁰⁰"),
    ],
)  # fmt: skip
def test_a_number_of_cells_is_written_so_that_it_can_be_read(cells: int, text: str) -> None:
    assert cell_count(cells) == text


# --- usual steps of numbers ---------------------------------------------------------------------------------


FLOATS = st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15).map(float) | st.floats(-1e-5, 1e-5)
WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        ((0, 1), 0.001), ((17, 90), 0.05), ((0, 500), 0.5), ((0, 999), 0.5), ((0, 1000), 1),
        ((0, 24_500), 20), ((0, 0.03), 2e-5), ((0, 1e7), 10_000), ((-50_000, 1_000_000), 1000),
        ((-1e308, 7e307), 1e305), ((0, 5e-324), None),
    ],
)  # fmt: skip
def test_numbers_have_about_a_thousand_round_steps_between_their_ends(
    ends: tuple[float, float], wanted: float | None
) -> None:
    assert NumericAttribute("a", ends).usual_resolution == wanted


@given(st.lists(FLOATS, min_size=2, max_size=5, unique=True).map(sorted))
def test_the_usual_step_of_numbers_is_round_follows_from_the_ends_and_is_never_refused(
    edges: list[float],
) -> None:
    step = NumericAttribute("a", tuple(edges)).usual_resolution
    assert step == NumericAttribute("a", (edges[0], edges[-1]), atoms=(edges[0],)).usual_resolution
    width = Fraction(edges[-1]) - Fraction(edges[0])
    assert (step is None) <= (width < 1e-318)
    if step is not None:
        NumericAttribute("a", tuple(edges), resolution=step)
        if width > 1e-300:
            assert f"{step:e}"[:4] in ("1.00", "2.00", "5.00")
            assert 999 < width / Fraction(step) < 2501


@given(WHOLE, WHOLE)
def test_the_usual_step_of_whole_numbers_is_whole_and_never_refused(one: int, other: int) -> None:
    low, high = sorted((one, other))
    width = max(1, (high - low) // 50)
    step = IntegerAttribute("a", low, high, width).usual_resolution
    assert (step is None) == (low == high)
    if step is not None:
        assert IntegerAttribute("a", low, high, width, resolution=step).grid() is not None
        assert str(int(step)).rstrip("0") in ("1", "2", "5")
        assert step == int(step) >= 1
        assert step == 1 or 1000 <= Fraction(high - low, int(step)) <= 2500


# --- marginals ----------------------------------------------------------------------------------------------


@pytest.fixture
def table(people: Domain) -> Marginal:
    return Marginal(people, ("sex", "income"), np.arange(9).reshape(3, 3))


def _part(data: st.DataObject, names: tuple[str, ...]) -> list[str]:
    return data.draw(st.lists(st.sampled_from(names), unique=True) if names else st.just([]))


@given(data=st.data(), histogram=histograms())
def test_a_projected_count_sums_the_cells_above_it(data: st.DataObject, histogram: Histogram) -> None:
    domain, wide = histogram.domain, histogram.project(_part(data, histogram.scope))
    kept = wide.project(_part(data, wide.scope))
    assert kept.total == histogram.total
    axes = [domain.index(name) for name in kept.scope]
    expected: dict[tuple[int, ...], int] = dict.fromkeys(np.ndindex(kept.counts.shape), 0)
    for cell in itertools.product(*(range(size) for size in domain.shape)):
        expected[tuple(cell[axis] for axis in axes)] += int(histogram.counts[cell])
    assert {cell: int(kept.counts[cell]) for cell in expected} == expected


@given(data=st.data(), histogram=histograms())
def test_restricting_takes_a_slice(data: st.DataObject, histogram: Histogram) -> None:
    domain = histogram.domain
    names = domain.scope(_part(data, domain.names))
    cells = {name: data.draw(st.integers(0, domain[name].size - 1)) for name in names}
    restricted = histogram.restrict(cells)
    expected: NDArray[np.int64] = histogram.counts
    for name in reversed(names):
        expected = np.take(expected, cells[name], axis=domain.index(name))
    assert restricted.scope == tuple(name for name in domain.names if name not in cells)
    np.testing.assert_array_equal(restricted.counts, expected)


@pytest.mark.parametrize(
    ("scope", "counts", "message"),
    [
        (("income", "sex"), np.zeros((3, 3), dtype=int), "expected a scope in declared order"),
        (("sex", "sex"), np.zeros((3, 3), dtype=int), "expected each attribute once"),
        (("sexx",), np.zeros(3, dtype=int), "did you mean 'sex'"),
        (("sex",), np.zeros(2, dtype=int), r"expected counts of shape \(3,\) over \['sex'\], got \(2,\)"),
        (("sex",), np.zeros((3, 1), dtype=int), r"got \(3, 1\)"),
        (("sex",), np.zeros(3), "expected integer counts, got dtype=float64"),
        (("sex",), np.zeros(3, dtype=bool), "expected integer counts, got dtype=bool"),
        (("sex",), np.full(3, 2**63, dtype=np.uint64), "counts"),
        ((), np.zeros(1, dtype=int), r"expected counts of shape \(\)"),
    ],
)
def test_counts_that_do_not_fit_the_scope_are_refused(
    people: Domain, scope: tuple[str, ...], counts: NDArray[np.int64], message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        Marginal(people, scope, counts)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda table: table.project(["age"]),
            r"expected attributes among \['sex', 'income'\], got \['age'\]",
        ),
        (lambda table: table.project(["sex", "sex"]), "expected each attribute once"),
        (lambda table: table.expand(["sex", "age"]), "expected a scope that contains"),
        (lambda table: table.restrict({"age": 0}), r"expected attributes among \['sex', 'income'\]"),
        (lambda table: table.restrict({"sex": 3}), r"attribute 'sex' has cells 0\.\.2, got 3"),
        (lambda table: table.restrict({"sex": -1}), r"attribute 'sex' has cells 0\.\.2, got -1"),
    ],
)
def test_a_step_outside_the_scope_is_refused(
    table: Marginal, wrong: Callable[[Marginal], Marginal], message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        wrong(table)
