"""Workloads of what is no domain, name or number: refused by the name of its type, and cut where long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from queries import (
    Domain,
    DomainError,
    QueryError,
    ScopeError,
    all_marginals,
    all_ranges,
    marginal_cells,
    parities,
    parse_workload,
    popular_conjunctions,
    prefixes,
    random_conjunctions,
)

FAMILIES: dict[str, Callable[..., object]] = {
    "all_marginals": lambda domain, _: all_marginals(domain, 1),
    "all_ranges": all_ranges,
    "marginal_cells": lambda domain, name: marginal_cells(domain, [name]),
    "parities": lambda domain, _: parities(domain, 1),
    "popular_conjunctions": lambda domain, _: popular_conjunctions(domain, 1, seed=1, distinct=1),
    "prefixes": prefixes,
    "random_conjunctions": lambda domain, _: random_conjunctions(domain, 1, seed=1),
    "parse_workload": lambda domain, _: parse_workload("marginals:1", domain),
}
NAMED = ("all_ranges", "marginal_cells", "prefixes")
MARK = "MARK-7f3a"


class Telling:
    """What tells its mark wherever it is asked."""

    def tell(self, *_: object) -> Any:
        raise ValueError(MARK)

    __repr__ = __str__ = __hash__ = __eq__ = __getitem__ = __len__ = __iter__ = __index__ = __getattr__ = tell


# Made in the tests, for even a list of parameters asks them for a name.
THINGS: dict[str, Callable[[], object]] = {
    "numpy.ndarray": lambda: np.zeros(3),
    "NoneType": lambda: None,
    "dict": lambda: {MARK: 1},
    "bytes": MARK.encode,
    "Telling": Telling,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", THINGS)
def test_what_is_no_domain_is_refused_by_its_type(family: str, kind: str) -> None:
    with pytest.raises(DomainError, match=f"expected a Domain, got a .*{kind}") as caught:
        FAMILIES[family](THINGS[kind](), "age")
    assert MARK not in str(caught.value)


@pytest.mark.parametrize("family", NAMED)
@pytest.mark.parametrize("kind", THINGS)
def test_what_is_no_name_is_refused_by_its_type(people: Domain, family: str, kind: str) -> None:
    with pytest.raises(ScopeError, match=f"expected an attribute of 'people', got a .*{kind}$") as caught:
        FAMILIES[family](people, THINGS[kind]())
    assert MARK not in str(caught.value)


@pytest.mark.parametrize("family", NAMED)
def test_a_long_name_is_cut_in_a_message(people: Domain, family: str) -> None:
    with pytest.raises(ScopeError, match=r"expected an attribute of 'people', got 'a+…'$"):
        FAMILIES[family](people, "a" * 5000)


@pytest.mark.parametrize("kind", THINGS)
def test_what_is_no_list_of_names_is_refused_by_its_type(people: Domain, kind: str) -> None:
    thing: Any = THINGS[kind]()
    with pytest.raises(ScopeError, match="expected a list of attributes' names, got a ") as caught:
        marginal_cells(people, thing)
    assert MARK not in str(caught.value)


@pytest.mark.parametrize("kind", THINGS)
def test_what_is_no_number_is_refused_by_its_type(people: Domain, kind: str) -> None:
    thing: Any = THINGS[kind]()
    calls: tuple[Callable[[], object], ...] = (
        lambda: all_marginals(people, thing),
        lambda: parities(people, thing),
        lambda: random_conjunctions(people, thing, seed=1),
        lambda: random_conjunctions(people, 1, seed=thing),
        lambda: popular_conjunctions(people, 1, seed=1, distinct=thing),
        lambda: popular_conjunctions(people, 1, seed=thing),
    )
    for call in calls:
        with pytest.raises(ScopeError, match="as a whole number, got a ") as caught:
            call()
        assert MARK not in str(caught.value)
    with pytest.raises(ScopeError, match="expected exponent as a number, got a "):
        popular_conjunctions(people, 1, seed=1, exponent=thing)


@pytest.mark.parametrize("kind", THINGS)
def test_what_is_no_text_is_refused_by_its_type(people: Domain, kind: str) -> None:
    thing: Any = THINGS[kind]()
    with pytest.raises(QueryError, match=r"expected the name of a workload, .*, got a ") as caught:
        parse_workload(thing, people)
    assert (MARK in str(caught.value), caught.value.code, caught.value.text) == (False, "bad_request", None)


@pytest.mark.parametrize("text", ["{}:1", "marginals:{}", "prefixes:{}", "random:{}:1"])
def test_a_long_text_is_cut_in_a_message(people: Domain, text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_workload(text.format("a" * 5000), people)
    assert len(str(caught.value)) < 300
