"""Workloads: named, sized sequences of queries that can be walked again and again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from queries.domain import Attribute, CategoricalAttribute, Domain
from queries.errors import ScopeError
from queries.linear import LinearQuery

__all__ = [
    "all_marginals",
    "all_ranges",
    "random_conjunctions",
    "Workload",
]


@dataclass(frozen=True, slots=True)
class Workload:
    """A finite sequence of queries, made anew on every walk.

    Args:
        name: how it was asked for, such as ``marginals:2``.
        size: number of queries.
        make: returns an iterator over exactly ``size`` queries, always the same ones.
    """

    name: str
    size: int
    make: Callable[[], Iterator[LinearQuery]] = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[LinearQuery]:
        return self.make()

    def __len__(self) -> int:
        return self.size


def all_marginals(domain: Domain, order: int) -> Workload:
    """Return every cell of every marginal over ``order`` attributes.

    Raises:
        ScopeError: ``order`` is not between 1 and the number of attributes.
    """
    if not 1 <= order <= len(domain):
        raise ScopeError(f"expected an order between 1 and {len(domain)}, got order={order}")
    scopes = list(itertools.combinations(domain.names, order))

    def make() -> Iterator[LinearQuery]:
        for scope in scopes:
            for cells in itertools.product(*(range(domain[name].size) for name in scope)):
                yield LinearQuery.cells(
                    domain, {name: (cell, cell) for name, cell in zip(scope, cells, strict=True)}
                )

    return Workload(f"marginals:{order}", sum(domain.scope_size(scope) for scope in scopes), make)


def all_ranges(domain: Domain, attribute: str) -> Workload:
    """Return every range of consecutive base cells of one attribute."""
    size = domain[attribute].base_size

    def make() -> Iterator[LinearQuery]:
        for low, high in itertools.combinations_with_replacement(range(size), 2):
            yield LinearQuery.cells(domain, {attribute: (low, high)})

    return Workload(f"ranges:{attribute}", math.comb(size + 1, 2), make)


def random_conjunctions(domain: Domain, size: int, *, seed: int, most_attributes: int = 3) -> Workload:
    """Return random conjunctions of ranges and values, the same ones for the same seed everywhere.

    Each has 1 to ``most_attributes`` different attributes; an ordered attribute with more than two base
    cells gets a range that is not the whole, any other a single cell.

    The draws come from SplitMix64 (Steele, Lea and Flood 2014), so that other programs can repeat them.

    Raises:
        ScopeError: ``size`` is negative or ``most_attributes`` less than 1.
    """
    if size < 0 or most_attributes < 1:
        raise ScopeError(f"expected size >= 0 and most_attributes >= 1, got {size} and {most_attributes}")
    order = min(most_attributes, len(domain))

    def make() -> Iterator[LinearQuery]:
        generator = _SplitMix64(seed)
        for _ in range(size):
            yield _random_conjunction(domain, order, generator)

    name = f"random:{size}:{seed}" + (f":{most_attributes}" if most_attributes != 3 else "")
    return Workload(name, size, make)


class _SplitMix64:
    """A 64-bit generator with a published definition; it draws questions, never private values."""

    def __init__(self, seed: int) -> None:
        self._state = seed % 2**64

    def next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) % 2**64
        word = self._state
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        return word ^ (word >> 31)

    def below(self, bound: int) -> int:
        return self.next() * bound >> 64


def _random_conjunction(domain: Domain, order: int, generator: _SplitMix64) -> LinearQuery:
    count = 1 + generator.below(order)
    positions = list(range(len(domain)))
    for place in range(count):
        other = place + generator.below(len(domain) - place)
        positions[place], positions[other] = positions[other], positions[place]
    chosen = [domain.attributes[position] for position in sorted(positions[:count])]
    return LinearQuery.cells(
        domain, {attribute.name: _random_cells(attribute, generator) for attribute in chosen}
    )


def _random_cells(attribute: Attribute, generator: _SplitMix64) -> tuple[int, int]:
    size = attribute.base_size
    if isinstance(attribute, CategoricalAttribute) or size <= 2:
        cell = generator.below(size)
        return cell, cell
    while True:
        ends = (generator.below(size), generator.below(size))
        if max(ends) - min(ends) < size - 1:
            return min(ends), max(ends)
