"""A workload: sized, walked again and again, equal by name, quoted where a name needs it."""

from __future__ import annotations

import itertools

import pytest

from queries import Domain, IntegerAttribute, LinearQuery, ScopeError, Workload, all_ranges
from queries.workloads import MOST_QUERIES, check_between, is_like_number, quoted, shown


def _repeated(domain: Domain, size: int) -> Workload:
    return Workload("same", size, lambda: itertools.repeat(LinearQuery.everything(domain), size))


def test_a_workload_shows_its_name_and_its_size(people: Domain) -> None:
    assert repr(_repeated(people, 3)) == "Workload(name='same', size=3)"
    assert len(_repeated(people, 3)) == 3


def test_two_walks_do_not_disturb_each_other(people: Domain) -> None:
    workload = all_ranges(people, "income")
    first = iter(workload)
    next(first)
    assert len(list(workload)) == 6
    assert len(list(first)) == 5


def test_workloads_are_equal_where_they_ask_the_same(people: Domain) -> None:
    assert all_ranges(people, "age") == all_ranges(people, "age")
    assert hash(all_ranges(people, "age")) == hash(all_ranges(people, "age"))
    assert all_ranges(people, "age") != all_ranges(people, "hours")
    assert _repeated(people, 3) != _repeated(people, 4)


def test_a_workload_is_as_long_as_len_can_say(people: Domain) -> None:
    assert len(_repeated(people, MOST_QUERIES)) == 2**63 - 1
    with pytest.raises(
        ScopeError, match=r"0 to 9,223,372,036,854,775,807 queries, same would have 922.*808;"
    ):
        _repeated(people, MOST_QUERIES + 1)
    with pytest.raises(ScopeError, match="would have -1; name fewer attributes"):
        _repeated(people, -1)


@pytest.mark.parametrize(("value", "accepted"), [(0, False), (1, True), (7, True), (8, False)])
def test_a_number_is_checked_against_both_ends(value: int, accepted: bool) -> None:
    if accepted:
        check_between("order", value, 1, 7)
    else:
        with pytest.raises(ScopeError, match=f"^expected order from 1 to 7, got order={value}$"):
            check_between("order", value, 1, 7)


def test_a_number_too_long_to_print_is_refused_in_words() -> None:
    assert shown(-(10**30) + 1) == "-" + "9" * 30
    with pytest.raises(ScopeError, match=r"got order=\(more than 30 digits\)$"):
        check_between("order", 10**6000, 1, 7)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("age", "age"),
        ("hours per week", "hours per week"),
        ("größe", "größe"),
        ("income>50K", "income>50K"),
        ("a,b", '"a,b"'),
        ("a:b", '"a:b"'),
        ('say "x"', '"say ""x"""'),
        ("2", '"2"'),
        ("-1.5", '"-1.5"'),
        ("2nd", "2nd"),
        ("²", "²"),
    ],
)
def test_a_name_is_quoted_where_it_must_be(name: str, text: str) -> None:
    assert quoted(name) == text


@pytest.mark.parametrize(
    ("text", "number"), [("2", True), ("+2", True), ("1.2.3", True), ("", False), ("-", False)]
)
def test_what_looks_like_a_number_is_one(text: str, number: bool) -> None:
    assert is_like_number(text) is number


def test_a_workload_over_an_attribute_of_one_cell_asks_for_everybody() -> None:
    domain = Domain((IntegerAttribute("x", 5, 5),))
    assert [query.describe() for query in all_ranges(domain, "x")] == ["everybody"]
