"""What one comparison means on one attribute, and how a value that means nothing is refused."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.comparisons import (
    Comparison,
    Junction,
    Not,
    Operator,
    Predicate,
    Scalar,
    connected_terms,
    meaning_of,
    resolve_attribute,
)
from tests.queries.meaning import Known, holds, trees

AGE = IntegerAttribute("age", 17, 90, missing=True)
INCOME = NumericAttribute("income", (0, 10_000, 50_000))
LARGE = NumericAttribute("x", (1_000_000, 1_000_001, 1_000_002))
SEX = CategoricalAttribute("sex", ("Female", "Male"))
CODES = CategoricalAttribute("code", (1, 2, "three", True, "inf", "2.5"))
WORDS = CategoricalAttribute("word", ("inf", "-inf", "nan"))
LONG = CategoricalAttribute("n", tuple(range(10_000)))


def above(value: float) -> float:
    """Return the next number: values are float64."""
    return math.nextafter(value, math.inf)


@pytest.mark.parametrize(
    ("attribute", "operator", "values", "expected"),
    [
        (AGE, "eq", (30.0,), ((30, 31),)), (AGE, "lt", (29.5,), ((17, 30),)),
        (AGE, "le", (30.5,), ((17, 31),)), (AGE, "gt", (30.5,), ((31, 91),)),
        (AGE, "ge", (-1e300,), ((17, 91),)), (AGE, "le", (1000,), ((17, 91),)),
        (AGE, "between", (29.5, 39.5), ((30, 40),)),
        (AGE, "in", (30, 40, 30), ((30, 31), (40, 41), (30, 31))), (AGE, "ne", (30,), ((17, 30), (31, 91))),
        (AGE, "missing", (), ()), (INCOME, "le", (2500,), ((0, above(2500)),)),
        (INCOME, "gt", (2500.5,), ((above(2500.5), above(50_000)),)),
        (INCOME, "ge", (-5,), ((0, above(50_000)),)), (INCOME, "le", (0,), ((0, above(0)),)),
        (INCOME, "lt", (50_000,), ((0, 50_000),)), (INCOME, "ge", (50_000,), ((50_000, above(50_000)),)),
        (INCOME, "between", (10_000, 10_000), ((10_000, above(10_000)),)),
        (INCOME, "in", (0, 50_000), ((0, above(0)), (50_000, above(50_000)))),
        (INCOME, "ne", (0,), ((0, 0), (above(0), above(50_000)))), (SEX, "eq", ("Male",), ()),
    ],
)  # fmt: skip
def test_a_comparison_holds_in_a_union_of_intervals(
    attribute: Attribute,
    operator: Operator,
    values: tuple[Scalar, ...],
    expected: tuple[tuple[float, float], ...],
) -> None:
    assert meaning_of(attribute).intervals(Comparison(attribute.name, operator, values)) == expected


@pytest.mark.parametrize(
    ("operator", "values", "cells"),
    [
        ("eq", (1,), [0]), ("eq", ("1",), [0]), ("eq", (1.0,), [0]), ("ne", ("three",), [2]),
        ("eq", (True,), [3]), ("eq", ("true",), [3]), ("eq", (2.5,), [5]),
        ("in", (2, "three", 2), [1, 2, 1]),
    ],
)  # fmt: skip
def test_a_declared_value_is_found_by_its_text(
    operator: Operator, values: tuple[Scalar, ...], cells: list[int]
) -> None:
    assert meaning_of(CODES).named_cells(Comparison("code", operator, values)) == cells


def test_a_long_list_is_looked_up_quickly() -> None:
    start = time.process_time()
    listed = tuple(range(0, 10_000, 4))
    assert meaning_of(LONG).named_cells(Comparison("n", "in", listed)) == list(listed)
    assert time.process_time() - start < 1.0


OUTSIDE = "(values outside count as these ends)"


@pytest.mark.parametrize(
    ("attribute", "operator", "values", "code", "message"),
    [
        (AGE, "eq", (30.5,), "unknown_value", "whole numbers from 17 to 90; got 30.5"),
        (AGE, "ne", (91,), "unknown_value", "whole numbers from 17 to 90; got 91"),
        (AGE, "in", (30, 91), "unknown_value", "whole numbers from 17 to 90; got 91"),
        (AGE, "eq", ("30",), "wrong_kind", "attribute 'age' holds numbers; got '30'"),
        (AGE, "eq", ("(other)",), "wrong_kind", "attribute 'age' holds numbers; got '(other)'"),
        (AGE, "ge", (True,), "wrong_kind", "attribute 'age' holds numbers; got true"),
        (AGE, "ge", (math.inf,), "wrong_kind", "'age' needs a finite number, got inf"),
        (AGE, "ge", (10**400,), "wrong_kind", "'age' needs a finite number"),
        (AGE, "between", (math.nan, 3), "wrong_kind", "'age' needs a finite number, got nan"),
        (AGE, "between", (30.2, 30.8), "empty_range", "empty range: attribute 'age' goes from 17 to 90"),
        (AGE, "between", (91, 99), "empty_range", OUTSIDE),
        (AGE, "lt", (17,), "empty_range", f"an empty range: attribute 'age' goes from 17 to 90 {OUTSIDE}"),
        (INCOME, "eq", (-5,), "empty_range", "got -5; attribute 'income' goes from 0 to 50000"),
        (INCOME, "ne", (50_001,), "empty_range", f"'income' goes from 0 to 50000 {OUTSIDE}"),
        (INCOME, "in", (5, 50_001), "empty_range", "got 50001"),
        (INCOME, "lt", (0,), "empty_range", "attribute 'income' goes from 0 to 50000"),
        (INCOME, "lt", ("many",), "wrong_kind", "attribute 'income' holds numbers; got 'many'"),
        (LARGE, "eq", (1,), "empty_range", "from 1000000 to 1000002"),
        (AGE, "other", (), "unknown_value", "no cell for undeclared values (other = true)"),
        (SEX, "missing", (), "unknown_value", "no cell for empty values (missing = true)"),
        (SEX, "eq", ("female",), "unknown_value", "'Female', 'Male'; got 'female'; did you mean 'Female'?"),
        (SEX, "eq", ("x" * 100,), "unknown_value", "got '" + "x" * 56 + "…'"),
        (SEX, "eq", (3,), "unknown_value", "got 3"),
        (SEX, "in", (False,), "unknown_value", "got false"),
        (SEX, "lt", ("Male",), "wrong_kind", "'sex' is categorical and has no order; use =, <> or IN"),
        (WORDS, "eq", (math.inf,), "unknown_value", "'word' needs a finite number or a text, got inf"),
        (WORDS, "eq", (math.nan,), "unknown_value", "got nan"),
        (LONG, "eq", (-1,), "unknown_value", "has the values 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …; got"),
    ],
)  # fmt: skip
def test_a_value_that_means_nothing_is_refused(
    attribute: Attribute, operator: Operator, values: tuple[Scalar, ...], code: str, message: str
) -> None:
    comparison = Comparison(attribute.name, operator, values, position=7)
    with pytest.raises(QueryError) as caught:
        meaning_of(attribute).named_cells(comparison) or meaning_of(attribute).intervals(comparison)
    assert (caught.value.code, caught.value.position) == (code, 7)
    assert message in caught.value.message


def test_an_empty_value_has_its_cell() -> None:
    assert meaning_of(AGE).named_cells(Comparison("age", "missing")) == [74]


def test_a_name_is_resolved_exactly_or_in_any_case() -> None:
    domain = Domain((AGE, SEX, CategoricalAttribute("Sex", ("x",)), CategoricalAttribute("straße", ("x",))))
    assert resolve_attribute("age", domain, None) == "age"
    assert resolve_attribute("AGE", domain, None, any_case=True) == "age"
    assert resolve_attribute("STRASSE", domain, None, any_case=True) == "straße"
    assert resolve_attribute("Sex", domain, None, any_case=True) == "Sex"
    for name, any_case in (("AGE", False), ("SEX", True), ("", True), ("sexx", True)):
        with pytest.raises(QueryError, match=r"unknown attribute .*; declared are age, sex, Sex") as caught:
            resolve_attribute(name, domain, 5, any_case=any_case)
        assert (caught.value.code, caught.value.position) == ("unknown_attribute", 5)


# --- predicates as trees ------------------------------------------------------------------------------------


A, B, C, D = (Comparison(name, "eq", (1,)) for name in "abcd")
COMPARISONS = [A, B, C, D, Comparison("a", "missing"), Comparison("b", "other")]
PREDICATES = trees(st.sampled_from(COMPARISONS), least=0, leaves=8)
TRUTHS = st.fixed_dictionaries({one: st.sampled_from([True, False, None]) for one in COMPARISONS})


def both(*terms: Predicate) -> Predicate:
    return Junction("and", terms)


def either(*terms: Predicate) -> Predicate:
    return Junction("or", terms)


def _negated_inside(predicate: Predicate) -> bool:
    """Return whether some NOT stands above anything but a comparison."""
    match predicate:
        case Junction(_, children):
            return any(map(_negated_inside, children))
        case Not(child):
            return not isinstance(child, Comparison)
    return False


@given(PREDICATES, TRUTHS, st.booleans())
def test_truth_is_kleenes_and_stays_when_negations_are_pushed_to_comparisons(
    predicate: Predicate, truths: dict[Comparison, Known], negated: bool
) -> None:
    def where(one: Comparison, is_false: bool) -> NDArray[np.bool_]:
        return np.array(truths[one] is (not is_false))

    expected = holds(Not(predicate) if negated else predicate, truths.get)
    assert bool(predicate.holds(where, negated=negated)) == (expected is True)
    assert bool(predicate.holds(where, negated=not negated)) == (expected is False)
    pushed = predicate.pushed(negated=negated)
    assert holds(pushed, truths.get) is expected
    assert not _negated_inside(pushed)
    assert list(pushed.comparisons()) == list(predicate.comparisons())


@pytest.mark.parametrize(
    ("predicate", "pushed"),
    [
        (Not(both(A, B)), either(Not(A), Not(B))),
        (Not(either(A, Not(B))), both(Not(A), B)),
        (both(A, both(B, C), Not(either(D, A))), both(A, B, C, Not(D), Not(A))),
        (either(A, both(B, C), either(D)), either(A, both(B, C), D)),
        (Not(Not(A)), A),
        (Not(both()), either()),
    ],
)
def test_nested_joins_become_flat(predicate: Predicate, pushed: Predicate) -> None:
    assert predicate.pushed() == pushed


def test_comparisons_are_listed_from_left_to_right() -> None:
    assert list(either(both(A, B), Not(C), D).comparisons()) == [A, B, C, D]


@given(st.lists(PREDICATES, max_size=6))
def test_groups_hold_every_term_once_and_share_no_attribute(terms: list[Predicate]) -> None:
    groups = connected_terms(terms)
    assert sorted(repr(term) for group in groups for term in group) == sorted(map(repr, terms))
    names = [{one.attribute for term in group for one in term.comparisons()} for group in groups]
    assert sum(map(len, names)) == len(set().union(*names))


def test_terms_without_a_common_attribute_stand_apart() -> None:
    assert sorted(map(len, connected_terms([A, B, A, either(C, D)]))) == [1, 1, 2]
    chained = [either(A, B), either(C, D), either(B, C)]
    assert [sorted(map(repr, group)) for group in connected_terms(chained)] == [sorted(map(repr, chained))]
