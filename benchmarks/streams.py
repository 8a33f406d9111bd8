"""Streams of questions: uniform or popular scopes, the same ones for the same seed everywhere.

* ``random``: scopes and ranges drawn evenly (``queries.random_conjunctions``);
* ``popular``: scopes drawn by Zipf's law, ranges evenly, so that analysts come back to the same attributes
  with new questions. Policies are chosen on these, with other seeds than any that is reported.
* ``late``: as ``random``, but the first half of the questions is about half of the attributes, and each of
  the second half is about one of the others too.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from queries import Attribute, CategoricalAttribute, Domain, LinearQuery, random_conjunctions
from queries.workloads.streams import SplitMix64, zipf_weights

__all__ = ["STREAMS", "StreamChoice", "late_attributes", "popular_scopes", "stream_scopes"]

STREAMS = ("random", "popular", "late")


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """Which questions are asked of a table.

    Args:
        kind: one of STREAMS.
        seed: None for the table's own stream: a fixed one, or one of a fixed seed.
        size: number of questions.
    """

    kind: str = "random"
    seed: int | None = None
    size: int = 10_000

    @property
    def is_fixed(self) -> bool:
        """The table's own stream is asked for."""
        return self.kind == "random" and self.seed is None

    def questions(self, domain: Domain, seed: int) -> tuple[LinearQuery, ...]:
        """Return the questions; ``seed`` stands in where none was chosen."""
        chosen = seed if self.seed is None else self.seed
        if self.kind == "popular":
            return tuple(popular_scopes(domain, self.size, seed=chosen))
        if self.kind == "late":
            return late_attributes(domain, self.size, seed=chosen)
        return tuple(random_conjunctions(domain, self.size, seed=chosen))


def popular_scopes(
    domain: Domain, size: int, *, seed: int, most_attributes: int = 3, exponent: Decimal = Decimal(1)
) -> Iterator[LinearQuery]:
    """Yield conjunctions whose scopes are popular as 1/rank^exponent, with fresh ranges each time.

    All scopes of 1 to ``most_attributes`` attributes stand in a random order, which is their rank; the draws
    come from SplitMix64. Ranges are as in ``random_conjunctions``.
    """
    generator = SplitMix64(seed)
    counts = range(1, min(most_attributes, len(domain)) + 1)
    scopes = [scope for count in counts for scope in itertools.combinations(domain.attributes, count)]
    for place in range(len(scopes) - 1):
        other = place + generator.below(len(scopes) - place)
        scopes[place], scopes[other] = scopes[other], scopes[place]
    ends = list(itertools.accumulate(zipf_weights(len(scopes), exponent)))
    for _ in range(size):
        scope = scopes[bisect.bisect_right(ends, generator.below(ends[-1]))]
        yield LinearQuery.cells(domain, {part.name: _cells(part, generator) for part in scope})


def late_attributes(domain: Domain, size: int, *, seed: int) -> tuple[LinearQuery, ...]:
    """Return random conjunctions whose second half is about attributes that the first never asks of."""
    names = list(domain.names)
    generator = SplitMix64(seed)
    for place in range(len(names) - 1):
        other = place + generator.below(len(names) - place)
        names[place], names[other] = names[other], names[place]
    early = set(names[: (len(names) + 1) // 2])
    first: list[LinearQuery] = []
    second: list[LinearQuery] = []
    for number in itertools.count():
        for query in random_conjunctions(domain, size, seed=seed + number):
            (first if early.issuperset(query.scope) else second).append(query)
        if min(len(first), len(second)) >= size - size // 2:
            break
    return (*first[: size - size // 2], *second[: size // 2])


def stream_scopes(questions: tuple[LinearQuery, ...]) -> list[tuple[str, ...]]:
    """Return the scopes that a stream asks about, each once, in the order of their first question."""
    return list(dict.fromkeys(query.scope for query in questions))


def _cells(attribute: Attribute, generator: SplitMix64) -> tuple[int, int]:
    size = attribute.base_size
    if isinstance(attribute, CategoricalAttribute) or size <= 2:
        cell = generator.below(size)
        return cell, cell
    while True:
        first, last = sorted((generator.below(size), generator.below(size)))
        if last - first < size - 1:  # the whole range is no condition
            return first, last
