"""What SQL says of a condition for one row, worked from truth tables: what the product's answers must be."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from hypothesis import strategies as st

from queries.predicates import Comparison, Junction, Not, Order, Predicate

Known: TypeAlias = bool | None  # None where it is unknown
ORDERS: dict[Order, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def holds(predicate: Predicate, of_comparison: Callable[[Comparison], Known]) -> Known:
    """Evaluate in Kleene's three-valued logic."""
    match predicate:
        case Not(child):
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
        return joined | children.map(Not)

    single: st.SearchStrategy[Predicate] = comparisons.map(lambda comparison: comparison)
    return st.recursive(single, grown, max_leaves=leaves)
