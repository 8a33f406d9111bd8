"""What questions mean, worked cell by cell and row by row, and random domains and counts to ask it of."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    QueryError,
)
from queries.comparisons import Comparison, Junction, Order, Predicate, negation
from queries.row_conditions import condition_tree
from queries.row_nodes import convert_condition

PEOPLE = Domain(
    (
        IntegerAttribute("age", 17, 90, missing=True),
        CategoricalAttribute("sex", ("Female", "Male"), other=True),
        NumericAttribute("income", (0, 10_000, 25_000, 50_000)),
        IntegerAttribute("education-num", 1, 16),
        IntegerAttribute("hours", 0, 99, 10),
        CategoricalAttribute("größe", ("klein", "groß")),
        CategoricalAttribute("member", (True, False)),
    ),
    name="people",
)
Known: TypeAlias = bool | None  # None where it is unknown
ORDERS: dict[Order, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge,
}  # fmt: skip


def refusal(read: Callable[..., object], *given: object) -> QueryError:
    """Return the error with which a question is refused."""
    with pytest.raises(QueryError) as caught:
        read(*given)
    return caught.value


def read_predicate(text: str, domain: Domain) -> Predicate:
    """Return the predicate that a where-text of comparisons with values states."""
    return convert_condition(condition_tree(text, domain), domain) if text.strip() else Junction("and", ())


def holds(predicate: Predicate, of_comparison: Callable[[Comparison], Known]) -> Known:
    """Evaluate in Kleene's three-valued logic."""
    match predicate:
        case Junction("not", (child,)):
            inner = holds(child, of_comparison)
            return None if inner is None else not inner
        case Junction(kind, children):
            decisive, found = kind == "or", {holds(child, of_comparison) for child in children}
            return decisive if decisive in found else None if None in found else not decisive
        case Comparison():
            return of_comparison(predicate)
    raise AssertionError(predicate)


def compared(comparison: Comparison, number: float | Fraction) -> bool:
    """Tell whether a number meets a comparison."""
    values = [Fraction(value) for value in comparison.values]
    if comparison.operator == "between":
        return values[0] <= Fraction(number) <= values[1]
    if comparison.operator == "in":
        return Fraction(number) in values
    return next(meant for order, meant in ORDERS.items() if order == comparison.operator)(number, values[0])


def trees(
    comparisons: st.SearchStrategy[Comparison], least: int = 1, leaves: int = 6
) -> st.SearchStrategy[Predicate]:
    """Return predicates of some comparisons; each junction has at least so many children."""

    def grown(children: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(children, min_size=least, max_size=3).map(tuple)
        joined = st.builds(Junction, st.sampled_from(["and", "or"]), several)
        return joined | children.map(negation)

    single: st.SearchStrategy[Predicate] = comparisons.map(lambda comparison: comparison)
    return st.recursive(single, grown, max_leaves=leaves)


# --- domains and counts -------------------------------------------------------------------------------------


@st.composite
def _attributes(draw: st.DrawFn) -> Attribute:
    missing, other = draw(st.booleans()), draw(st.booleans())
    size = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["integer", "numeric", "categorical"]))
    if kind == "integer":
        width = draw(st.integers(1, 3))
        first = draw(st.integers(-5, 5))
        last = first + size * width - 1 - draw(st.integers(0, width - 1))
        return IntegerAttribute("?", first, last, width, missing=missing, other=other)
    if kind == "numeric":
        return NumericAttribute("?", tuple(range(size + 1)), missing=missing, other=other)
    return CategoricalAttribute("?", ("w", 7, True, "x")[:size], missing=missing, other=other)


def _named(attributes: list[Attribute]) -> Domain:
    renamed = [replace(attribute, name=name) for name, attribute in zip("abc", attributes, strict=False)]
    return Domain(tuple(renamed))


# Domains of one to three attributes of one to six cells, and small counts over them.
DOMAINS: st.SearchStrategy[Domain] = st.lists(_attributes(), min_size=1, max_size=3).map(_named)


def histograms(domains: st.SearchStrategy[Domain] = DOMAINS) -> st.SearchStrategy[Histogram]:
    """Return histograms over some domains, with small counts."""

    def over(domain: Domain) -> st.SearchStrategy[Histogram]:
        cells = st.lists(st.integers(0, 50), min_size=domain.size, max_size=domain.size)
        return cells.map(lambda values: Histogram(domain, np.array(values).reshape(domain.shape)))

    return domains.flatmap(over)


def full_weights(query: LinearQuery) -> NDArray[np.int64]:
    """Spread a query's weights over the whole domain: int64, units, shape ``domain.shape``."""
    shape = [attribute.size if attribute.name in query.scope else 1 for attribute in query.domain]
    return np.broadcast_to(query.weights().reshape(shape), query.domain.shape)
