"""What one comparison means on one attribute, and how a value that means nothing is refused."""

from __future__ import annotations

import math
import time

import pytest

from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.intervals import categorical_cells, intervals, resolve_attribute, special_cell
from queries.predicates import (
    Atom,
    Between,
    Comparison,
    IsIn,
    IsMissing,
    IsOther,
    Operator,
    Scalar,
)

AGE = IntegerAttribute("age", 17, 90, missing=True)
INCOME = NumericAttribute("income", (0, 10_000, 50_000))


def above(value: float) -> float:
    """Return the next number: values are float64."""
    return math.nextafter(value, math.inf)


SEX = CategoricalAttribute("sex", ("Female", "Male"))
CODES = CategoricalAttribute("code", (1, 2, "three", True, "inf", "2.5"))


@pytest.mark.parametrize(
    ("operator", "value", "low", "high"),
    [
        ("eq", 30, 30, 31),
        ("eq", 30.0, 30, 31),
        ("lt", 30, 17, 30),
        ("lt", 29.5, 17, 30),
        ("le", 30, 17, 31),
        ("le", 30.5, 17, 31),
        ("gt", 30, 31, 91),
        ("gt", 30.5, 31, 91),
        ("ge", 30, 30, 91),
        ("ge", 29.5, 30, 91),
        ("ge", -1e300, 17, 91),
        ("le", 1000, 17, 91),
    ],
)
def test_a_comparison_of_whole_numbers_holds_on_whole_cells(
    operator: Operator, value: Scalar, low: float, high: float
) -> None:
    assert intervals(AGE, Comparison("age", operator, value)) == ((low, high),)


@pytest.mark.parametrize(
    ("operator", "value", "low", "high"),
    [
        ("lt", 2500, 0, 2500),
        ("le", 2500, 0, above(2500)),
        ("gt", 2500.5, above(2500.5), above(50_000)),
        ("ge", 2500.5, 2500.5, above(50_000)),
        ("le", 1e9, 0, above(50_000)),
        ("ge", -5, 0, above(50_000)),
        ("gt", 0, above(0), above(50_000)),
        ("le", 0, 0, above(0)),
        ("lt", 50_000, 0, 50_000),
        ("ge", 50_000, 50_000, above(50_000)),
        ("eq", 2500, 2500, above(2500)),
    ],
)
def test_a_comparison_of_real_numbers_ends_where_the_number_is(
    operator: Operator, value: Scalar, low: float, high: float
) -> None:
    assert intervals(INCOME, Comparison("income", operator, value)) == ((low, high),)


@pytest.mark.parametrize(
    ("atom", "expected"),
    [
        (Between("age", 30, 39), ((30, 40),)),
        (Between("age", 29.5, 39.5), ((30, 40),)),
        (Between("age", 0, 1000), ((17, 91),)),
        (Between("age", 30, 30), ((30, 31),)),
        (IsIn("age", (30, 40, 30)), ((30, 31), (40, 41), (30, 31))),
        (Comparison("age", "ne", 30), ((17, 30), (31, 91))),
        (Between("income", 10_000, 10_000), ((10_000, above(10_000)),)),
        (IsIn("income", (0, 50_000)), ((0, above(0)), (50_000, above(50_000)))),
        (Comparison("income", "ne", 0), ((0, 0), (above(0), above(50_000)))),
        (IsMissing("age"), ()),
        (IsOther("age"), ()),
    ],
)
def test_ranges_lists_and_differences_are_unions_of_intervals(
    atom: Atom, expected: tuple[tuple[float, float], ...]
) -> None:
    assert intervals(AGE if atom.attribute == "age" else INCOME, atom) == expected


@pytest.mark.parametrize(
    ("atom", "code", "message"),
    [
        (Comparison("age", "eq", 30.5), "unknown_value", "whole numbers from 17 to 90; got 30.5"),
        (Comparison("age", "eq", 16), "unknown_value", "whole numbers from 17 to 90; got 16"),
        (Comparison("age", "ne", 91), "unknown_value", "whole numbers from 17 to 90; got 91"),
        (IsIn("age", (30, 91)), "unknown_value", "whole numbers from 17 to 90; got 91"),
        (Comparison("age", "eq", 30.0000001), "unknown_value", "got 30.0000001"),
        (Comparison("age", "eq", "30"), "wrong_kind", "attribute 'age' holds numbers; got '30'"),
        (Comparison("age", "ge", True), "wrong_kind", "attribute 'age' holds numbers; got true"),
        (Comparison("age", "ge", float("inf")), "wrong_kind", "'age' needs a finite number, got inf"),
        (Comparison("age", "ge", 10**400), "wrong_kind", "'age' needs a finite number"),
        (Between("age", float("nan"), 3), "wrong_kind", "'age' needs a finite number, got nan"),
        (Between("age", 40, 30), "empty_range", "BETWEEN needs its smaller end first, got 40 and 30"),
        (Between("age", 30.2, 30.8), "empty_range", "an empty range: attribute 'age' goes from 17 to 90"),
        (Between("age", 91, 99), "empty_range", "(values outside count as these ends)"),
        (Comparison("age", "lt", 17), "empty_range", "an empty range: attribute 'age' goes from 17 to 90"),
        (Comparison("age", "gt", 90), "empty_range", "an empty range"),
    ],
)
def test_a_value_outside_the_whole_numbers_is_refused(atom: Atom, code: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        intervals(AGE, atom)
    assert caught.value.code == code
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("atom", "code", "message"),
    [
        (Comparison("income", "eq", -5), "empty_range", "got -5; attribute 'income' goes from 0 to 50000"),
        (Comparison("income", "ne", 50_001), "empty_range", "got 50001; attribute 'income' goes from 0"),
        (IsIn("income", (5, 50_001)), "empty_range", "got 50001"),
        (Comparison("income", "eq", "5"), "wrong_kind", "attribute 'income' holds numbers; got '5'"),
        (Comparison("income", "lt", 0), "empty_range", "attribute 'income' goes from 0 to 50000"),
        (Comparison("income", "gt", 50_000), "empty_range", "attribute 'income' goes from 0 to 50000"),
        (Between("income", 50_001, 60_000), "empty_range", "an empty range"),
        (Comparison("income", "lt", "many"), "wrong_kind", "attribute 'income' holds numbers; got 'many'"),
    ],
)
def test_a_value_that_means_nothing_among_real_numbers_is_refused(
    atom: Atom, code: str, message: str
) -> None:
    with pytest.raises(QueryError) as caught:
        intervals(INCOME, atom)
    assert caught.value.code == code
    assert message in caught.value.message


@pytest.mark.parametrize("atom", [Comparison("x", "eq", 1), Between("x", 1_000_003, 1_000_003)])
def test_large_numbers_are_shown_in_full(atom: Atom) -> None:
    with pytest.raises(QueryError) as caught:
        intervals(NumericAttribute("x", (1_000_000, 1_000_001, 1_000_002)), atom)
    assert "from 1000000 to 1000002" in caught.value.message


@pytest.mark.parametrize(
    ("atom", "cells"),
    [
        (Comparison("code", "eq", 1), [0]),
        (Comparison("code", "eq", "1"), [0]),
        (Comparison("code", "eq", 1.0), [0]),
        (Comparison("code", "ne", "three"), [2]),
        (Comparison("code", "eq", True), [3]),
        (Comparison("code", "eq", "true"), [3]),
        (Comparison("code", "eq", 2.5), [5]),
        (IsIn("code", (2, "three", 2)), [1, 2, 1]),
    ],
)
def test_a_declared_value_is_found_by_its_text(atom: Atom, cells: list[int]) -> None:
    assert categorical_cells(CODES, atom) == cells


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("female", "has the values 'Female', 'Male'; got 'female'; did you mean 'Female'?"),
        ("x" * 100, "got '" + "x" * 56 + "…'"),
        (3, "got 3"),
        (3.5, "got 3.5"),
        (False, "got false"),
    ],
)
def test_an_undeclared_value_is_refused_with_the_declared_ones(value: Scalar, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        categorical_cells(SEX, Comparison("sex", "eq", value, position=7))
    assert (caught.value.code, caught.value.position) == ("unknown_value", 7)
    assert message in caught.value.message


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_is_not_finite_is_no_declared_text(value: float) -> None:
    words = CategoricalAttribute("word", ("inf", "-inf", "nan"))
    with pytest.raises(QueryError):
        categorical_cells(words, Comparison("word", "eq", value))


def test_a_long_list_is_looked_up_quickly() -> None:
    codes = CategoricalAttribute("code", tuple(range(10_000)))
    start = time.process_time()
    assert categorical_cells(codes, IsIn("code", tuple(range(0, 10_000, 4)))) == list(range(0, 10_000, 4))
    assert time.process_time() - start < 1.0


def test_a_long_list_of_declared_values_is_cut() -> None:
    with pytest.raises(QueryError, match=r"has the values 0, 1, 2, .*, 11, …; got 99"):
        categorical_cells(CategoricalAttribute("n", tuple(range(50))), Comparison("n", "eq", 99))


@pytest.mark.parametrize("atom", [Comparison("sex", "lt", "Male"), Between("sex", "A", "B")])
def test_values_without_order_cannot_be_ranged_over(atom: Atom) -> None:
    with pytest.raises(QueryError, match="'sex' is categorical and has no order; use =, <> or IN") as caught:
        categorical_cells(SEX, atom)
    assert caught.value.code == "wrong_kind"


def test_special_cells_must_be_declared() -> None:
    assert special_cell(AGE, IsMissing("age")) == 74
    with pytest.raises(QueryError, match=r"no cell for undeclared values \(other = true\)") as caught:
        special_cell(AGE, IsOther("age", position=4))
    assert (caught.value.code, caught.value.position) == ("unknown_value", 4)
    with pytest.raises(QueryError, match=r"no cell for empty values \(missing = true\)"):
        special_cell(SEX, IsMissing("sex"))


def test_a_name_is_resolved_exactly_or_in_any_case() -> None:
    domain = Domain((AGE, SEX, CategoricalAttribute("Sex", ("x",)), CategoricalAttribute("straße", ("x",))))
    assert resolve_attribute("age", domain, None) == "age"
    assert resolve_attribute("AGE", domain, None, any_case=True) == "age"
    assert resolve_attribute("STRASSE", domain, None, any_case=True) == "straße"
    assert resolve_attribute("Sex", domain, None, any_case=True) == "Sex"


@pytest.mark.parametrize(("name", "any_case"), [("AGE", False), ("SEX", True), ("", True), ("sexx", True)])
def test_a_name_that_is_not_one_attribute_is_refused(name: str, any_case: bool) -> None:
    domain = Domain((AGE, SEX, CategoricalAttribute("Sex", ("x",))))
    with pytest.raises(QueryError, match=r"unknown attribute .*; declared are age, sex, Sex") as caught:
        resolve_attribute(name, domain, 5, any_case=any_case)
    assert (caught.value.code, caught.value.position) == ("unknown_attribute", 5)
