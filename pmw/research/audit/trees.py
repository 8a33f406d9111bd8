"""Trees: distributions of outputs where every outcome is a table, and streams that react to what was
released.

A mechanism is described by what one test may release and, for each, its probability given each threshold
noise. This covers released values and gaps, two thresholds, a count of positives that has no end, and streams
drawn at random whose next value depends on all outputs so far.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.noise import uniform_below
from pmw.privacy.random_bits import BitSource
from pmw.research.audit.exact import ComparisonTables, OutputDistribution, Outputs

Factors: TypeAlias = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeTables:
    """What one test may release, and how probable it is.

    Args:
        weights: for each threshold noise that a round draws, its distribution on its support: float64, shape
            (z,).
        outcomes: for a value (minus its threshold), each output that the test may release with its
            probability given each threshold noise: one array of shape (z,) per threshold noise, whose product
            is the probability. Output 0 is a negative, any other a positive. Outputs may be left out, such as
            released values far away; then the distribution is that of the outputs kept.
        update_limit: positives after which the run halts; None where it never does.
        redraw: new threshold noise after each positive.
    """

    weights: Factors
    outcomes: Callable[[int], Mapping[int, Factors]]
    update_limit: int | None
    redraw: bool = False


def outcome_tables(tables: ComparisonTables, update_limit: int | None, *, redraw: bool) -> OutcomeTables:
    """Return the outcomes of a comparison: 0, 1 and, with two thresholds of their own, -1."""
    if tables.negated is None:
        above = tables.above
        return OutcomeTables(
            (tables.weights,),
            lambda value: {0: (1.0 - above(value),), 1: (above(value),)},
            update_limit,
            redraw,
        )
    upper, lower = tables.above, tables.negated

    def outcomes(value: int) -> Mapping[int, Factors]:
        first, second = upper(value), lower(value)
        pairs: dict[int, Factors] = {
            0: (1.0 - first, 1.0 - second),
            1: (first, np.ones_like(second)),
            -1: (1.0 - first, second),
        }
        return {key: (one * two,) for key, (one, two) in pairs.items()} if tables.shared else pairs

    weights = (tables.weights,) if tables.shared else (tables.weights, tables.weights)
    return OutcomeTables(weights, outcomes, update_limit, redraw)


def tree_distribution(tables: OutcomeTables, ask: Callable[[Outputs], int | None]) -> OutputDistribution:
    """Return the probability of every output vector of a stream that reacts to its own outputs.

    Args:
        tables: the mechanism.
        ask: for the outputs so far, the value of the next test on this table; None where the stream ends.
    """
    distribution: dict[Outputs, float] = {}
    known: dict[int, Mapping[int, Factors]] = {}
    waiting: list[tuple[Outputs, int, float, Factors]] = [((), 0, 1.0, tables.weights)]
    while waiting:
        outputs, positives, closed, opened = waiting.pop()
        value = None if positives == tables.update_limit else ask(outputs)
        if value is None:
            distribution[outputs] = closed * _mass(opened)
            continue
        if value not in known:
            known[value] = tables.outcomes(value)
        for output, factors in known[value].items():
            left = tuple(one * factor for one, factor in zip(opened, factors, strict=True))
            if output and tables.redraw:
                waiting.append(((*outputs, output), positives + 1, closed * _mass(left), tables.weights))
            else:
                waiting.append(((*outputs, output), positives + (output != 0), closed, left))
    return distribution


def stream_distribution(tables: OutcomeTables, values: Sequence[int]) -> OutputDistribution:
    """Return the probability of every output vector of a stream fixed beforehand."""
    return tree_distribution(
        tables, lambda outputs: values[len(outputs)] if len(outputs) < len(values) else None
    )


@dataclass(frozen=True, slots=True)
class RandomTree:
    """A stream drawn at random that reacts to its outputs: a pair of values for every prefix of outputs.

    The first is the value on one table, the second on its neighbour; they differ by at most 1.

    Args:
        seed: tells trees apart; the same seed gives the same tree.
        depth: tests of the longest branch.
        reach: values lie within this distance of 0.
        monotone: all values move the same way between the two tables.
    """

    seed: int
    depth: int
    reach: int
    monotone: bool

    def distribution(self, tables: OutcomeTables, *, neighbor: bool) -> OutputDistribution:
        """Return the distribution of the outputs on the first table, or on its neighbour."""

        def ask(outputs: Outputs) -> int | None:
            return self.values(outputs)[neighbor] if len(outputs) < self.depth else None

        return tree_distribution(tables, ask)

    def values(self, outputs: Outputs) -> tuple[int, int]:
        """Return the value that follows these outputs, on the first table and on its neighbour."""
        # Of its own bits for each prefix, so that the order in which a distribution is unfolded does not
        # matter.
        bits = BitSource(hashlib.sha256(f"{self.seed}/{outputs}".encode()).digest())
        value = uniform_below(2 * self.reach + 1, bits) - self.reach
        up = 1 - 2 * (self.seed % 2)
        moves = (0, up, up) if self.monotone else (-1, -1, 0, 1, 1)
        return value, value + moves[uniform_below(len(moves), bits)]


def _mass(factors: Factors) -> float:
    mass = 1.0
    for one in factors:
        mass *= float(one.sum())
    return mass
