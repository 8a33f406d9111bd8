"""Predicates: comparisons joined by AND, OR and NOT, as a tree of values.

The tree says what was asked; ``segments`` says what it counts. ``position`` is where a part came from: a
character offset into a text, or a path into a structured question. ``part`` names what of a value is
compared, as in ``YEAR(hired) = 2023`` (``queries.parts``); None for the value itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Position: TypeAlias = int | str | None
Scalar: TypeAlias = str | int | float | bool
Operator: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``attribute operator value``."""

    attribute: str
    operator: Operator
    value: Scalar
    position: Position = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Between:
    """``low <= attribute <= high``."""

    attribute: str
    low: Scalar
    high: Scalar
    position: Position = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class IsIn:
    """``attribute`` equals one of the values."""

    attribute: str
    values: tuple[Scalar, ...]
    position: Position = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class IsMissing:
    """The value is empty; needs a declared ``missing`` cell."""

    attribute: str
    position: Position = None


@dataclass(frozen=True, slots=True)
class IsOther:
    """The value is undeclared or malformed; needs a declared ``other`` cell."""

    attribute: str
    position: Position = None


@dataclass(frozen=True, slots=True)
class And:
    """Every child holds; without children it always holds."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some child holds; without children it never holds."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The child is false."""

    child: Predicate


Atom: TypeAlias = Comparison | Between | IsIn | IsMissing | IsOther
Predicate: TypeAlias = Atom | And | Or | Not


def push_negations(predicate: Predicate, *, negated: bool) -> Predicate:
    """Move NOT down to the comparisons (De Morgan) and flatten nested ANDs and ORs."""
    if isinstance(predicate, Not):
        return push_negations(predicate.child, negated=not negated)
    if not isinstance(predicate, And | Or):
        return Not(predicate) if negated else predicate
    kind = And if isinstance(predicate, And) != negated else Or
    children: list[Predicate] = []
    for child in predicate.children:
        pushed = push_negations(child, negated=negated)
        children.extend(pushed.children if isinstance(pushed, kind) else (pushed,))
    return kind(tuple(children))


def atoms_of(predicate: Predicate) -> Iterator[Atom]:
    """Yield the comparisons of a predicate, from left to right."""
    if isinstance(predicate, And | Or):
        for child in predicate.children:
            yield from atoms_of(child)
    elif isinstance(predicate, Not):
        yield from atoms_of(predicate.child)
    else:
        yield predicate


def connected_terms(terms: Sequence[Predicate]) -> list[list[Predicate]]:
    """Group the terms of an AND so that no attribute stands in two groups."""
    groups: list[tuple[set[str], list[Predicate]]] = []
    for term in terms:
        names = {atom.attribute for atom in atoms_of(term)}
        members = [term]
        for touched in [group for group in groups if group[0] & names]:
            names |= touched[0]
            members = touched[1] + members
            groups.remove(touched)
        groups.append((names, members))
    return [members for _, members in groups]
