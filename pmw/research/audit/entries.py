"""Entries: a mechanism as an audit sees it: claim, distribution, replicas and stated instances."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.random_bits import BitSource
from pmw.research.audit.exact import (
    OutcomeTables,
    OutputDistribution,
    RandomTree,
    delta_curve,
    log_probability,
    neighbor_patterns,
    renyi_curve,
    stream_distribution,
    worst_log_ratio,
)
from pmw.research.audit.statistical import ReplicaTest, run_replicas
from queries.frozen import dataclass

Values: TypeAlias = tuple[int, ...]

_TREE_THRESHOLD = 2  # not 0, at which two sides together never say no
_ALPHAS = (1.05, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Measure(enum.Enum):
    """In what a guarantee is stated: ``EPSILON``, at the claim's delta; ``RHO``, zCDP."""

    EPSILON = "epsilon"
    RHO = "rho"


class Depth(enum.Enum):
    """How far neighbours are searched."""

    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a mechanism is said to guarantee."""

    measure: Measure
    value: Fraction
    delta: Fraction = Fraction(0)
    tight: bool = True  # some instance searched comes within 5 % of the value


@dataclass(frozen=True, slots=True)
class Instance:
    """Two streams of values that neighbouring tables may give."""

    first: Values
    second: Values
    threshold: int = 0
    sensitivity: int = 1

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second):
            raise BudgetError(f"expected streams of one length, got {len(self.first)}, {len(self.second)}")
        if any(abs(one - two) > self.sensitivity for one, two in zip(self.first, self.second, strict=True)):
            raise BudgetError(f"expected values that differ by at most {self.sensitivity} between neighbours")


@dataclass(frozen=True, slots=True, eq=False)
class Counterexample:
    """A stated output of two neighbouring streams, which may be too long to enumerate.

    Args:
        output: of each test, as in the tables.
        released: positives release values: ``released_output`` says what stands for them.
    """

    tables: Callable[[int], OutcomeTables]
    instance: Instance
    output: tuple[int, ...]
    released: bool = False

    def log_probabilities(self) -> tuple[float, float]:
        """Return ln of the probability of the output on the first and on the second stream."""
        tables, instance = self.tables(self.instance.threshold), self.instance
        here, there = (
            log_probability(tables, values, self.output) for values in (instance.first, instance.second)
        )
        return here, there

    def log_ratio(self) -> float:
        """Return ln of the ratio of these probabilities; infinite where only the second is 0."""
        here, there = self.log_probabilities()
        return math.inf if math.isinf(there) else here - there

    @property
    def said(self) -> tuple[int | None, ...]:
        """What each test says, as in ``Witness``."""
        if not self.released:
            return self.output
        return tuple(None if one == 0 else (one - 1) // 2 for one in self.output)


def released_output(value: int | None) -> int:
    """Return the output that stands for a released value, and 0 for None, where none is released."""
    return 0 if value is None else 1 + 2 * value


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One mechanism of the catalogue.

    Args:
        name: how the command line calls it.
        flaw: what is wrong with it, in a few words; empty for a sound mechanism.
        distribution: the exact distribution of the outputs of a stream, against a threshold.
        instances: stated pairs of streams, enumerated whole; runs are compared on the first of them.
        draw: what so many runs of the implemented comparison on a stream release, against a threshold: int64,
            shape (runs, outputs); None where a mechanism does more than compare, and is enumerated only.
        bases: streams around which all neighbours are searched, with their threshold.
        monotone: neighbours move all values the same way.
        tables: for a threshold, the mechanism for streams that react to outputs; None where it has no such
            form.
        keeps_claim: nothing beyond the claim is expected, whether or not it is flawed.
    """

    name: str
    claim: Claim
    distribution: Callable[[Values, int], OutputDistribution]
    instances: tuple[Instance, ...]
    source: str
    draw: Callable[[Values, int, int, BitSource], NDArray[np.int64]] | None = None
    flaw: str = ""
    remark: str = ""
    bases: tuple[tuple[Values, int], ...] = ()
    monotone: bool = False
    tables: Callable[[int], OutcomeTables] | None = None
    shown: tuple[Counterexample, ...] = ()
    keeps_claim: bool = True


def table_distribution(tables: Callable[[int], OutcomeTables]) -> Callable[[Values, int], OutputDistribution]:
    """Return the distribution of a stream for a mechanism given by its outcome tables."""
    return lambda values, threshold: stream_distribution(tables(threshold), values)


def draw_from(test: ReplicaTest) -> Callable[[Values, int, int, BitSource], NDArray[np.int64]]:
    """Return how the replicas of a test release what they do, all tests against one threshold."""

    def draw(values: Values, threshold: int, runs: int, bits: BitSource) -> NDArray[np.int64]:
        return run_replicas(test, values, (threshold,) * len(values), runs, bits)

    return draw


def pairs_of(entry: Entry, depth: Depth) -> Iterator[Instance]:
    """Return the stated instances and every neighbour of every base; the long audit turns bases round too."""
    yield from entry.instances
    bases = dict.fromkeys(entry.bases)
    if depth is Depth.LONG:
        bases |= dict.fromkeys((base[::-1], threshold) for base, threshold in entry.bases)
        bases |= dict.fromkeys((tuple(1 + v for v in base), threshold) for base, threshold in entry.bases)
    for base, threshold in bases:
        for pattern in neighbor_patterns(len(base), monotone=entry.monotone):
            moved = tuple(value + change for value, change in zip(base, pattern, strict=True))
            yield Instance(base, moved, threshold)


def worst_found(entry: Entry, depth: Depth) -> tuple[float, Instance | None]:
    """Return the most that enumeration finds, and the instance that shows it; None for a stream that reacts.

    Every pair of ``pairs_of``, every stated output, and so many trees drawn at random (20 in the short audit,
    400 in the long) whose values depend on all outputs so far.
    """
    known: dict[tuple[Values, int], OutputDistribution] = {}

    def distribution(values: Values, threshold: int) -> OutputDistribution:
        if (values, threshold) not in known:
            known[values, threshold] = entry.distribution(values, threshold)
        return known[values, threshold]

    found: list[tuple[float, Instance | None]] = [
        (
            divergence(
                entry.claim,
                distribution(pair.first, pair.threshold),
                distribution(pair.second, pair.threshold),
            ),
            pair,
        )
        for pair in pairs_of(entry, depth)
    ]
    found += [(shown.log_ratio(), shown.instance) for shown in entry.shown]
    if entry.tables is not None and entry.keeps_claim:  # a flawed mechanism is shown by its stated instances
        tables = entry.tables(_TREE_THRESHOLD)
        for seed in range(20 if depth is Depth.SHORT else 400):
            tree = RandomTree(seed, 5, 5, entry.monotone)
            first, second = (tree.distribution(tables, neighbor=one) for one in (False, True))
            found.append((divergence(entry.claim, first, second) - 1e-12, None))
    return max(found, key=lambda one: one[0])


def divergence(claim: Claim, first: OutputDistribution, second: OutputDistribution) -> float:
    """Return the epsilon or the rho that tells two distributions apart, in the worse direction.

    rho is the largest D_alpha/alpha over nine orders from 1.05 to 64; with a delta, epsilon is the smallest
    whose delta(epsilon) is at most that.
    """
    if claim.measure is Measure.RHO:
        return float(np.max(renyi_curve(first, second, _ALPHAS) / np.array(_ALPHAS)))
    if claim.delta == 0:
        return worst_log_ratio(first, second)
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return float(delta_curve(first, second, [epsilon])[0]) - float(claim.delta)

    pure = worst_log_ratio(first, second)
    if math.isinf(pure):
        return pure
    return float(brentq(excess, 0.0, pure)) if excess(0.0) > 0 else 0.0
