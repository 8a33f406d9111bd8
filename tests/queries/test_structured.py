"""Structured conditions: every operator, and every place where a value of the wrong type can stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import Domain, QueryError, parse_where
from queries.predicates import And, Between, Comparison, IsIn, IsMissing, IsOther, Not, Predicate
from queries.structured import structured_predicate

OPERATORS = ["eq", "ne", "ge", "gt", "le", "lt", "between", "in", "is_missing", "is_other"]


@pytest.mark.parametrize(
    ("where", "term"),
    [
        ({"age": {"eq": 30}}, Comparison("age", "eq", 30, "where.age.eq")),
        ({"age": {"ne": 30}}, Comparison("age", "ne", 30, "where.age.ne")),
        ({"age": {"ge": 30.5}}, Comparison("age", "ge", 30.5, "where.age.ge")),
        ({"age": {"gt": 30}}, Comparison("age", "gt", 30, "where.age.gt")),
        ({"age": {"le": 30}}, Comparison("age", "le", 30, "where.age.le")),
        ({"age": {"lt": 30}}, Comparison("age", "lt", 30, "where.age.lt")),
        ({"age": {"between": [30, 39]}}, Between("age", 30, 39, "where.age.between")),
        ({"sex": {"in": ["Male"]}}, IsIn("sex", ("Male",), "where.sex.in")),
        ({"age": {"is_missing": True}}, IsMissing("age", "where.age.is_missing")),
        ({"age": {"is_missing": False}}, Not(IsMissing("age", "where.age.is_missing"))),
        ({"sex": {"is_other": True}}, IsOther("sex", "where.sex.is_other")),
        ({"sex": {"is_other": False}}, Not(IsOther("sex", "where.sex.is_other"))),
        ({"member": {"eq": True}}, Comparison("member", "eq", True, "where.member.eq")),
        ({"education-num": {"eq": 3}}, Comparison("education-num", "eq", 3, "where.education-num.eq")),
    ],
)
def test_each_operator_states_its_comparison(people: Domain, where: dict[str, Any], term: Predicate) -> None:
    assert structured_predicate(where, people) == And((term,))


def test_keys_are_joined_by_and(people: Domain) -> None:
    where = {"age": {"ge": 30, "lt": 40}, "sex": {"in": ["Female"]}}
    assert structured_predicate(where, people) == And(
        (
            Comparison("age", "ge", 30, "where.age.ge"),
            Comparison("age", "lt", 40, "where.age.lt"),
            IsIn("sex", ("Female",), "where.sex.in"),
        )
    )


def test_an_empty_condition_holds_for_everybody(people: Domain) -> None:
    assert structured_predicate({}, people) == And(())


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (
            {"age": {"between": [30, 39]}, "sex": {"in": ["Female"]}},
            "age BETWEEN 30 AND 39 AND sex = 'Female'",
        ),
        ({"age": {"is_missing": False}}, "age IS NOT NULL"),
        ({"sex": {"ne": "Male"}}, "NOT sex = 'Male'"),
        ({"income": {"ge": 5000, "lt": 25000}}, "income >= 5000 AND income < 25000"),
        ({"member": {"eq": "true"}}, "member = TRUE"),
        ({"age": {"in": [30, 40]}, "hours": {"le": 44}}, "hours < 45 AND age IN (40, 30)"),
    ],
)
def test_both_ways_of_writing_ask_the_same(people: Domain, where: dict[str, Any], text: str) -> None:
    assert parse_where(where, people).key() == parse_where(text, people).key()


SCALARS: list[Any] = [None, [], [1], {}, {"eq": 1}]


@pytest.mark.parametrize("operator", ["eq", "ne", "ge", "gt", "le", "lt"])
@pytest.mark.parametrize("value", SCALARS)
def test_a_comparison_needs_a_single_value(people: Domain, operator: str, value: Any) -> None:
    with pytest.raises(QueryError, match="expected a text, a number, true or false, got") as caught:
        parse_where({"age": {operator: value}}, people)
    assert (caught.value.code, caught.value.position) == ("bad_request", f"where.age.{operator}")


@pytest.mark.parametrize(
    ("operator", "value", "message"),
    [
        ("between", 30, "expected a list of two ends, got a number"),
        ("between", None, "expected a list of two ends, got null"),
        ("between", "30", "expected a list of two ends, got a text"),
        ("between", {"low": 30}, "expected a list of two ends, got an object"),
        ("between", [30], "expected a list of two ends, got a list of 1"),
        ("between", [30, 31, 32], "expected a list of two ends, got a list of 3"),
        ("between", [30, None], "expected a text, a number, true or false, got null"),
        ("between", [[30], 31], "expected a text, a number, true or false, got a list of 1"),
        ("in", 30, "expected a list of 1 to 10,000 values, got a number"),
        ("in", True, "expected a list of 1 to 10,000 values, got true or false"),
        ("in", "30", "expected a list of 1 to 10,000 values, got a text"),
        ("in", [], "expected a list of 1 to 10,000 values, got a list of 0"),
        ("in", [30] * 10_001, "expected a list of 1 to 10,000 values, got a list of 10001"),
        ("in", [30, {"eq": 1}], "expected a text, a number, true or false, got an object"),
        ("is_missing", 1, "expected true or false, got a number"),
        ("is_missing", "true", "expected true or false, got a text"),
        ("is_other", None, "expected true or false, got null"),
        ("is_other", [], "expected true or false, got a list of 0"),
    ],
)
def test_an_operator_refuses_a_value_of_another_type(
    people: Domain, operator: str, value: Any, message: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse_where({"age": {operator: value}}, people)
    assert (caught.value.code, caught.value.position) == ("bad_request", f"where.age.{operator}")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (30, "got a number"),
        (None, "got null"),
        ("30", "got a text"),
        (True, "got true or false"),
        ([30, 39], "got a list of 2"),
        ({}, "got an empty object"),
    ],
)
def test_an_attribute_needs_an_object_of_conditions(people: Domain, conditions: Any, message: str) -> None:
    with pytest.raises(QueryError, match=r'expected an object such as {"eq": 3}') as caught:
        parse_where({"age": conditions}, people)
    assert (caught.value.code, caught.value.position) == ("bad_request", "where.age")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("where", "code", "position", "message"),
    [
        ({"ages": {"eq": 3}}, "unknown_attribute", "where.ages", "did you mean 'age'?"),
        ({"AGE": {"eq": 30}}, "unknown_attribute", "where.AGE", "unknown attribute 'AGE'"),
        ({"": {"eq": 30}}, "unknown_attribute", "where.", "unknown attribute ''"),
        ({"age": {"equals": 3}}, "bad_request", "where.age.equals", "expected one of eq, ne, ge, gt, le, lt"),
        ({"age": {"betwen": [1, 2]}}, "bad_request", "where.age.betwen", "did you mean 'between'?"),
        ({"age": {"eq": "30"}}, "wrong_kind", "where.age.eq", "holds numbers; got '30'"),
        ({"age": {"eq": True}}, "wrong_kind", "where.age.eq", "holds numbers; got true"),
        ({"age": {"eq": 10**400}}, "wrong_kind", "where.age.eq", "needs a finite number"),
        ({"age": {"ge": float("inf")}}, "wrong_kind", "where.age.ge", "needs a finite number"),
        ({"age": {"in": [30, 16]}}, "unknown_value", "where.age.in", "got 16"),
        ({"sex": {"eq": "male"}}, "unknown_value", "where.sex.eq", "did you mean 'Male'?"),
        ({"sex": {"lt": "Male"}}, "wrong_kind", "where.sex.lt", "is categorical and has no order"),
        ({"sex": {"between": ["A", "B"]}}, "wrong_kind", "where.sex.between", "is categorical"),
        ({"age": {"between": [40, 30]}}, "empty_range", "where.age.between", "smaller end first"),
        ({"sex": {"is_missing": True}}, "unknown_value", "where.sex.is_missing", "missing = true"),
        ({"age": {"is_other": True}}, "unknown_value", "where.age.is_other", "other = true"),
    ],
)
def test_a_refusal_points_at_its_path(
    people: Domain, where: dict[str, Any], code: str, position: str, message: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse_where(where, people)
    assert (caught.value.code, caught.value.position) == (code, position)
    assert message in caught.value.message


def test_a_tuple_is_as_good_as_a_list(people: Domain) -> None:
    assert parse_where({"age": {"between": (30, 39)}}, people).describe() == "age 30 to 39"
    assert parse_where({"sex": {"in": ("Male",)}}, people).describe() == "sex Male"


def test_a_value_that_is_neither_is_not_called_a_number(people: Domain) -> None:
    with pytest.raises(QueryError) as caught:
        parse_where({"age": {"eq": {30}}}, people)
    assert "got a number" not in caught.value.message


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["age", "sex", "income", "member", "hours", "x"])
CONDITIONS = st.dictionaries(st.sampled_from(OPERATORS), JSON, max_size=3)


@given(st.dictionaries(NAMES, CONDITIONS | JSON, max_size=3))
def test_no_structured_condition_raises_anything_but_a_query_error(
    people: Domain, where: dict[str, Any]
) -> None:
    try:
        query = parse_where(where, people)
    except QueryError as error:
        assert error.position is None or str(error.position).startswith("where.")  # noqa: PT017
    else:
        assert set(query.scope) <= set(where)
