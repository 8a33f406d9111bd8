"""Predicates: comparisons joined by AND, OR and NOT, as a tree of values.

The tree says what was asked; ``segments`` says what it counts.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.cells import canonical_text, number_text
from queries.frozen import dataclass

Position: TypeAlias = int | str | None
Scalar: TypeAlias = str | int | float | bool
Order: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Operator: TypeAlias = Order | Literal["between", "in", "missing", "other"]

LONGEST_SHOWN = 40  # characters of a value or a name in an example
COMPARE: dict[Order, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_BOUNDS: dict[Operator, tuple[Order, ...]] = {
    "lt": ("lt",), "le": ("le",), "gt": ("gt",), "ge": ("ge",), "between": ("ge", "le"),
}  # fmt: skip


def shown_value(value: Scalar) -> str:
    """Return how a message shows a value that came in a question."""
    if isinstance(value, float):
        return number_text(value)
    text = repr(value) if isinstance(value, str) else canonical_text(value)
    return text if len(text) <= 60 else text[:57] + "…'"


def quoted_text(text: str) -> str:
    """Return a text as it stands in SQL."""
    return "'" + text.replace("'", "''") + "'"


def example_texts(texts: Sequence[str], most: int = 1) -> list[str]:
    """Return some texts as they stand in SQL: such as a message can show, where there are any."""
    shown = [one for one in texts if one.isprintable() and len(one) <= LONGEST_SHOWN]
    return [quoted_text(one) for one in (shown or texts)[:most]]


Where: TypeAlias = Callable[["Comparison", bool], NDArray[np.bool_]]


class Predicate(ABC):
    """What holds for a record, or does not."""

    __slots__ = ()

    @abstractmethod
    def comparisons(self) -> Iterator[Comparison]:
        """Yield its comparisons, from left to right."""

    @abstractmethod
    def pushed(self, *, negated: bool = False) -> Predicate:
        """Return it, or its negation, with NOT at comparisons alone (De Morgan), and ANDs and ORs flat."""

    @abstractmethod
    def holds(self, where: Where, *, negated: bool = False) -> NDArray[np.bool_]:
        """Return where it is true, or where it is false; where neither, it is unknown (Kleene's logic).

        Args:
            where: tells of a comparison where it is true, or with True where it is false.
        """

    def joined_by(self, kind: Literal["and", "or"]) -> tuple[Predicate, ...]:
        """Return what it joins by AND, or by OR; itself where it joins nothing by that."""
        del kind
        return (self,)


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """``attribute operator values``.

    Args:
        operator: what is compared; ``missing`` holds of empty values, ``other`` of undeclared ones.
        values: one; of ``between`` both ends, of ``in`` at least one, of ``missing`` and ``other`` none.
        position: where it came from: a character offset into a text, or a path into a structured question.
        part: the level of codes that is compared, by its name; None for the value itself.
    """

    attribute: str
    operator: Operator
    values: tuple[Scalar, ...] = ()
    position: Position = None
    part: str | None = None

    @property
    def listed(self) -> tuple[Scalar, ...]:
        """The values of which it names one, or for ``ne`` none; empty for a comparison of order."""
        return self.values if self.operator in ("eq", "ne", "in") else ()

    @property
    def bounds(self) -> tuple[tuple[Order, Scalar], ...]:
        """What it says of an order, such as ``("ge", 30)``; all of it holds."""
        return tuple(zip(_BOUNDS.get(self.operator, ()), self.values, strict=False))

    def comparisons(self) -> Iterator[Comparison]:
        """Yield itself."""
        yield self

    def pushed(self, *, negated: bool = False) -> Predicate:
        """Return it, or its negation."""
        return Not(self) if negated else self

    def holds(self, where: Where, *, negated: bool = False) -> NDArray[np.bool_]:
        """Return where it is true, or where it is false."""
        return where(self, negated)


@dataclass(frozen=True, slots=True)
class Junction(Predicate):
    """Predicates that all hold (``and``), or one of which does (``or``); of none, ``and`` holds alone."""

    kind: Literal["and", "or"]
    children: tuple[Predicate, ...]

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons of each child."""
        for child in self.children:
            yield from child.comparisons()

    def pushed(self, *, negated: bool = False) -> Predicate:
        """Return it, or its negation: the other junction of negated children."""
        kind: Literal["and", "or"] = "and" if (self.kind == "and") != negated else "or"
        pushed = [child.pushed(negated=negated).joined_by(kind) for child in self.children]
        return Junction(kind, tuple(child for children in pushed for child in children))

    def holds(self, where: Where, *, negated: bool = False) -> NDArray[np.bool_]:
        """Return where it is true, or where it is false: AND is false where one child is."""
        found = (child.holds(where, negated=negated) for child in self.children)
        every = (self.kind == "and") != negated
        return functools.reduce(operator.and_ if every else operator.or_, found, np.array(every))

    def joined_by(self, kind: Literal["and", "or"]) -> tuple[Predicate, ...]:
        """Return the children of a junction of this kind."""
        return self.children if self.kind == kind else (self,)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The child is false."""

    child: Predicate

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons of the child."""
        return self.child.comparisons()

    def pushed(self, *, negated: bool = False) -> Predicate:
        """Return the child's negation, or the child."""
        return self.child.pushed(negated=not negated)

    def holds(self, where: Where, *, negated: bool = False) -> NDArray[np.bool_]:
        """Return where the child is false, or where it is true."""
        return self.child.holds(where, negated=not negated)


def connected_terms(terms: Sequence[Predicate]) -> list[list[Predicate]]:
    """Group the terms of an AND so that no attribute stands in two groups."""
    if len({one.attribute for one in terms if isinstance(one, Comparison)}) == len(terms):
        return [[one] for one in terms]
    groups: list[tuple[set[str], list[Predicate]]] = []
    for term in terms:
        names = {comparison.attribute for comparison in term.comparisons()}
        members = [term]
        for touched in [group for group in groups if group[0] & names]:
            names |= touched[0]
            members = touched[1] + members
            groups.remove(touched)
        groups.append((names, members))
    return [members for _, members in groups]
