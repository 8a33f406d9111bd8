"""Audits: output distributions by exact enumeration, compared between neighbouring tables.

A mechanism is described by what one test may release and, for each, its probability given each threshold
noise, from the distributions that it draws from. From these follow the probabilities of all output vectors,
and with them the largest log-ratio (pure differential privacy), the exact curve delta(epsilon) and the Rényi
divergences. This covers released values and gaps, two thresholds, a count of positives that has no end, and
streams whose next value depends on all outputs so far.

Source: Lyu, Su and Li (2017), equation (5), for the probability of an output vector.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.noise import uniform_below
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import Sides, Sparse
from queries.frozen import dataclass

Outputs: TypeAlias = tuple[int, ...]
OutputDistribution: TypeAlias = Mapping[Outputs, float]

_REACH = 80  # support of the threshold noise in scales: what lies beyond weighs e^-80
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


def tables_of(sparse: Sparse, threshold: int) -> OutcomeTables:
    """Return the tables of an implemented algorithm, from the distributions that it draws from.

    The outputs are 0, 1 and, with two thresholds, -1.
    """
    test = sparse.test
    reach = math.ceil(_REACH * test.threshold_scale)
    support = np.arange(0 if test.noise.value == "exponential" else -reach, reach + 1)
    weights, survival = test.threshold_noise.pmf(support), test.query_noise.survival

    def outcomes(value: int) -> Mapping[int, Factors]:
        compared = abs(value) if test.sides is Sides.TWO_SIDED else value
        above = survival(threshold + support - compared)
        if test.sides is not Sides.TWO_THRESHOLDS:
            return {0: (1.0 - above,), 1: (above,)}
        negated = survival(threshold + support + value)
        return {
            0: (1.0 - above, 1.0 - negated),
            1: (above, np.ones_like(negated)),
            -1: (1.0 - above, negated),
        }

    draws = 2 if test.sides is Sides.TWO_THRESHOLDS else 1
    return OutcomeTables((weights,) * draws, cache(outcomes), sparse.update_limit, sparse.redraw)


def releasing(tables: OutcomeTables, results: Callable[[int], Mapping[int, float]]) -> OutcomeTables:
    """Return the tables of tests that release a result at each positive, by noise of its own.

    Args:
        results: for a value, each result that may be released, as an output other than 0, with its
            probability.
    """

    def outcomes(value: int) -> Mapping[int, Factors]:
        tested = tables.outcomes(value)
        return {0: tested[0]} | {
            result: tuple(factor * chance for factor in tested[1])
            for result, chance in results(value).items()
        }

    return replace(tables, outcomes=outcomes)


def sharing_noise(tables: OutcomeTables) -> OutcomeTables:
    """Return the tables of tests against two thresholds where one draw of noise serves both: a flaw."""

    def outcomes(value: int) -> Mapping[int, Factors]:
        return {output: (first * second,) for output, (first, second) in tables.outcomes(value).items()}

    return replace(tables, weights=tables.weights[:1], outcomes=outcomes)


def without_noise(tables: OutcomeTables) -> OutcomeTables:
    """Return the tables of tests with one-sided threshold noise where none is drawn: a flaw."""
    return replace(tables, weights=tuple(np.eye(1, len(one))[0] for one in tables.weights))


def tree_distribution(tables: OutcomeTables, ask: Callable[[Outputs], int | None]) -> OutputDistribution:
    """Return the probability of every output vector of a stream that reacts to its own outputs."""
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


def neighbor_patterns(count: int, *, monotone: bool) -> Iterable[tuple[int, ...]]:
    """Return how ``count`` values of sensitivity 1 may differ between neighbours, at the corners.

    All of -1, 0, 1 in general; where all values move the same way, all of 0, 1 and all of 0, -1.
    """
    if not monotone:
        return itertools.product((-1, 0, 1), repeat=count)
    up = itertools.product((0, 1), repeat=count)
    return itertools.chain(up, itertools.product((0, -1), repeat=count))


def worst_log_ratio(first: OutputDistribution, second: OutputDistribution) -> float:
    """Return max |ln(P/Q)| over all outputs; infinite where one is possible and the other is not."""
    worst = 0.0
    for outputs, probability in first.items():
        other = second[outputs]
        if probability == other:
            continue
        if min(probability, other) <= 0:
            return math.inf
        worst = max(worst, abs(math.log(probability / other)))
    return worst


def renyi_divergence(first: OutputDistribution, second: OutputDistribution, alpha: float) -> float:
    """Return the Rényi divergence of order alpha > 1 of the first distribution from the second."""
    terms = list[float]()
    for outputs, probability in first.items():
        if probability > 0:
            other = second[outputs]
            if other <= 0:
                return math.inf
            terms.append(math.log(probability) + (alpha - 1) * math.log(probability / other))
    top = max(terms)  # taken out, so that no order is too large
    return (top + math.log(math.fsum(math.exp(term - top) for term in terms))) / (alpha - 1)


def renyi_curve(
    first: OutputDistribution, second: OutputDistribution, alphas: Sequence[float]
) -> NDArray[np.float64]:
    """Return the Rényi divergence at each order, in the worse direction: float64, shape (alphas,)."""
    return np.array(
        [max(renyi_divergence(first, second, one), renyi_divergence(second, first, one)) for one in alphas]
    )


def hockey_stick_divergence(first: OutputDistribution, second: OutputDistribution, epsilon: float) -> float:
    """Return the sum over all outputs of max(0, P - e^epsilon Q): the least delta at epsilon, one direction.

    Source: Dwork and Roth (2014), Definition 2.4, with the event that decides it: all outputs where
        P > e^epsilon Q.
    """
    return math.fsum(
        max(0.0, probability - math.exp(epsilon) * second[outputs]) for outputs, probability in first.items()
    )


def delta_curve(
    first: OutputDistribution, second: OutputDistribution, epsilons: Sequence[float]
) -> NDArray[np.float64]:
    """Return the least delta at each epsilon, in the worse direction: float64, shape (epsilons,)."""
    return np.array(
        [
            max(hockey_stick_divergence(first, second, one), hockey_stick_divergence(second, first, one))
            for one in epsilons
        ]
    )


def log_probability(tables: OutcomeTables, values: Sequence[int], outputs: Outputs) -> float:
    """Return ln of the probability of one output vector of a stream, which may be too long to enumerate.

    Minus infinity where it cannot occur.
    """
    total, opened = 0.0, tables.weights
    for value, output in zip(values, outputs, strict=True):
        factors = tables.outcomes(value)[output]
        opened = tuple(one * factor for one, factor in zip(opened, factors, strict=True))
        if output and tables.redraw:
            total, opened = total + _log(_mass(opened)), tables.weights
    return total + _log(_mass(opened))


@dataclass(frozen=True, slots=True)
class RandomTree:
    """A stream drawn at random that reacts to its outputs: a pair of values for every prefix of outputs.

    The first is the value on one table, the second on its neighbour; they differ by at most 1.

    Args:
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


def _log(mass: float) -> float:
    return math.log(mass) if mass > 0 else -math.inf
