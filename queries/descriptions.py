"""Weights in words, for people, and as comparisons, to ask for the very cells."""

from __future__ import annotations

from collections.abc import Iterator

from queries.cells import quoted_name
from queries.domain import Attribute, CategoricalAttribute, Domain
from queries.factors import UNITS, Factor, weight_runs


def described(domain: Domain, factor: Factor) -> str:
    """Return a factor in words, such as ``age 30 to 39``."""
    if len(factor.scope) != 1:
        return f"a condition on {', '.join(factor.scope)}"
    attribute = domain[factor.scope[0]]
    pieces = []
    for start, stop, weight in weight_runs(factor):
        for first, end in _apart(attribute, start, stop):
            text = _cells_text(attribute, first, end)
            if weight != UNITS:
                text += f" (x {weight / UNITS:.3g})"
            pieces.append(text)
    shown = pieces if len(pieces) <= 6 else [*pieces[:5], f"{len(pieces) - 5} more"]
    return f"{attribute.name} {', '.join(shown)}"


def comparison_of(domain: Domain, factor: Factor) -> str | None:
    """Return a condition that counts the cells of one weight of an ordered attribute, or None for others.

    It compares with ``>=`` and ``<`` alone, which cut no cell: ``income >= 10000 AND income < 25000``.
    """
    if len(factor.scope) != 1:
        return None
    attribute = domain[factor.scope[0]]
    if isinstance(attribute, CategoricalAttribute) or attribute.atoms:
        return None
    name, pieces = quoted_name(attribute.name), []
    for start, end, _ in weight_runs(factor):
        stop = min(end, attribute.base_size)  # empty and undeclared values are asked for by other words
        terms = [f"{name} >= {attribute.literal(attribute.boundaries[start])}"] if 0 < start < stop else []
        terms += (
            [f"{name} < {attribute.literal(attribute.boundaries[stop])}"]
            if stop < attribute.base_size
            else []
        )
        pieces.append(" AND ".join(terms))
    return " OR ".join(pieces) if all(pieces) and len(pieces) <= 3 else None


def _apart(attribute: Attribute, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive cells, those of single numbers one by one: they have no place among the others."""
    if not attribute.atoms or stop <= attribute.base_size:
        yield start, stop
        return
    if start < attribute.base_size:
        yield start, attribute.base_size
    yield from ((code, code + 1) for code in range(max(start, attribute.base_size), stop))


def _cells_text(attribute: Attribute, start: int, stop: int) -> str:
    """Return consecutive cells in words: ``30 to 39``, ``[0, 25000)``, ``Female to Male``."""
    first, last = attribute.label(start), attribute.label(stop - 1)
    if stop - start == 1:
        return first
    if isinstance(attribute, CategoricalAttribute) or stop > attribute.base_size:
        return f"{first} to {last}"
    if ".." in first + last and attribute.is_whole:
        return f"{first.split('..')[0]} to {last.split('..')[-1]}"
    if not attribute.is_whole:
        return f"{first.split(',')[0]},{last.split(',')[1]}"
    return f"{first} to {last}"
