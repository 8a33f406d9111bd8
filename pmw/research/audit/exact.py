"""Audits: output distributions by exact enumeration, compared between neighbouring tables.

A sparse vector algorithm is audited through its own tables: the distribution of its threshold noise and, for
each value and noise, the probability that a test passes. From these follow the probabilities of all output
vectors, and with them the largest log-ratio (pure differential privacy), the exact curve delta(epsilon) and
the Rényi divergences.

Any other mechanism is described by what one test may release and, for each, its probability given each
threshold noise. This covers released values and gaps, two thresholds, a count of positives that has no end,
and streams drawn at random whose next value depends on all outputs so far.

Source: Lyu, Su and Li (2017), equation (5), for the probability of an output vector.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.noise import uniform_below
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import NoisyComparison, Outcome, Sides, Sparse

Outputs: TypeAlias = tuple[int, ...]
OutputDistribution: TypeAlias = Mapping[Outputs, float]

_REACH = 80  # support of the threshold noise in scales: what lies beyond weighs e^-80
_Factor: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64] | None]
Factors: TypeAlias = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonTables:
    """A noisy comparison as tables.

    Args:
        weights: float64, shape (z,): probability of each threshold noise of the support.
        above: for a value, the probability that it passes, for each threshold noise: float64, shape (z,).
        negated: likewise for minus the value, against the second threshold; None for one threshold.
        shared: both comparisons use one draw of threshold noise. Not private at two-threshold prices.
    """

    weights: NDArray[np.float64]
    above: Callable[[int], NDArray[np.float64]]
    negated: Callable[[int], NDArray[np.float64]] | None = None
    shared: bool = False


def tables_of(test: NoisyComparison, threshold: int) -> ComparisonTables:
    """Return the tables of an implemented comparison, from the distributions that it draws from.

    Args:
        test: the comparison.
        threshold: T, in units of the values.
    """
    reach = math.ceil(_REACH * test.threshold_scale)
    low = 0 if test.noise.value == "exponential" else -reach
    support = np.arange(low, reach + 1)

    def above(value: int) -> NDArray[np.float64]:
        compared = abs(value) if test.sides is Sides.TWO_SIDED else value
        return test.query_noise.survival(threshold + support - compared)

    def negated(value: int) -> NDArray[np.float64]:
        return test.query_noise.survival(threshold + support + value)

    weights = test.threshold_noise.pmf(support)
    return ComparisonTables(weights, above, negated if test.sides is Sides.TWO_THRESHOLDS else None)


def output_distribution(
    tables: ComparisonTables, values: Sequence[int], update_limit: int, *, redraw: bool
) -> OutputDistribution:
    """Return the probability of every output vector.

    A vector ends with the last value or with the positive number ``update_limit``.

    Args:
        tables: the comparison.
        values: the statistic of each test, in order.
        update_limit: positives after which the run halts.
        redraw: new threshold noise after each positive.

    Raises:
        BudgetError: the update limit is less than 1.
    """
    if update_limit < 1:
        raise BudgetError(f"expected an update limit of at least 1, got {update_limit}")
    symbols = (0, 1) if tables.negated is None else (0, 1, -1)
    factors = {
        (value, symbol): _factors(tables, value, symbol) for value in set(values) for symbol in symbols
    }
    distribution: dict[Outputs, float] = {}
    for outputs in _output_vectors(len(values), update_limit, symbols):
        rounds = _rounds(outputs) if redraw else [range(len(outputs))]
        distribution[outputs] = math.prod(
            _round_probability(tables, [factors[values[place], outputs[place]] for place in places])
            for places in rounds
        )
    return distribution


def output_distribution_of(sparse: Sparse, threshold: int, values: Sequence[int]) -> OutputDistribution:
    """Return the probability of every output vector of an implemented algorithm."""
    return output_distribution(
        tables_of(sparse.test, threshold), values, sparse.update_limit, redraw=sparse.redraw
    )


def adaptive_distribution(
    tables: ComparisonTables,
    ask: Callable[[Outputs], int | None],
    update_limit: int,
    *,
    redraw: bool,
    release: Callable[[Outputs], Sequence[float]] | None = None,
) -> OutputDistribution:
    """Return the probability of every output vector of a stream that reacts to its own outputs.

    An output is 0 for a negative and 1 + j for a positive that released its result number j. A threshold of
    its own for each test is part of the value: value minus threshold, against tables made for threshold 0.

    Args:
        tables: the comparison, of one threshold.
        ask: for the outputs so far, the statistic of the next test on this table; None where the stream ends.
        update_limit: positives after which the run halts.
        redraw: new threshold noise after each positive.
        release: for the outputs before a positive, the probability of each result that it may release, by
            noise of its own; None where a positive releases nothing.

    Raises:
        BudgetError: the update limit is less than 1, or the comparison has two thresholds.
    """
    if update_limit < 1 or tables.negated is not None:
        raise BudgetError(f"expected one threshold and an update limit of at least 1, got {update_limit}")
    distribution: dict[Outputs, float] = {}
    # Outputs so far; the weight of closed rounds and results; and of each threshold noise of the open round.
    waiting: list[tuple[Outputs, float, NDArray[np.float64]]] = [((), 1.0, tables.weights)]
    while waiting:
        outputs, closed, opened = waiting.pop()
        running = sum(1 for output in outputs if output) < update_limit
        value = ask(outputs) if running else None
        if value is None:
            distribution[outputs] = closed * float(opened.sum())
            continue
        above = tables.above(value)
        waiting.append(((*outputs, 0), closed, opened * (1.0 - above)))
        passed = opened * above
        for number, share in enumerate((1.0,) if release is None else release(outputs)):
            following = (*outputs, 1 + number)
            if redraw:
                waiting.append((following, closed * share * float(passed.sum()), tables.weights))
            else:
                waiting.append((following, closed * share, passed))
    return distribution


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
    total = 0.0
    for outputs, probability in first.items():
        if probability > 0:
            other = second[outputs]
            if other <= 0:
                return math.inf
            total += probability * math.exp((alpha - 1) * math.log(probability / other))
    return math.log(total) / (alpha - 1)


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


def _factors(tables: ComparisonTables, value: int, symbol: int) -> _Factor:
    """Return the probability of one outcome, for each noise of the first and of the second threshold."""
    above = tables.above(value)
    first = above if symbol == Outcome.ABOVE else 1.0 - above
    if tables.negated is None:
        return first, None
    negated = tables.negated(value)
    second = {1: np.ones_like(negated), 0: 1.0 - negated, -1: negated}[symbol]
    return first, second


def _round_probability(tables: ComparisonTables, factors: Sequence[_Factor]) -> float:
    first = tables.weights.copy()
    second = tables.weights.copy()
    for upper, lower in factors:
        first *= upper
        if lower is not None:
            target = first if tables.shared else second
            target *= lower
    if tables.negated is None or tables.shared:
        return float(first.sum())
    return float(first.sum()) * float(second.sum())


def _output_vectors(count: int, update_limit: int, symbols: Sequence[int]) -> list[Outputs]:
    vectors = set()
    for outputs in itertools.product(symbols, repeat=count):
        positives = list(itertools.accumulate(1 if symbol else 0 for symbol in outputs))
        end = positives.index(update_limit) + 1 if update_limit in positives else count
        vectors.add(outputs[:end])
    return sorted(vectors)


def _rounds(outputs: Outputs) -> list[range]:
    """Return the places of each round: up to and including a positive."""
    ends = [place + 1 for place, symbol in enumerate(outputs) if symbol]
    bounds = [0, *ends] if ends and ends[-1] == len(outputs) else [0, *ends, len(outputs)]
    return [range(low, high) for low, high in itertools.pairwise(bounds)]


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
