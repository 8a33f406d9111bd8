"""Statistical audits: a lower bound on epsilon from runs alone, with a stated chance of a false alarm.

From N runs on a table and N on its neighbour, an event that occurs x times on the first and y times on the
second certifies

    epsilon >= ln((CP_low(x) - delta) / CP_up(y))

with Clopper and Pearson's exact bounds, each of which fails with probability at most alpha. The event, and
which table comes first, are chosen on runs of their own; so one instance fails with probability at most
2 alpha, however many events were compared, and all instances together with at most eta where
alpha = eta / (2 instances). What is certified is a lower bound: finding nothing proves nothing.

The runs are replicas: many independent runs of a mechanism at once, with its own exact noise. All of them
make the same test at the same time, each with its own threshold noise. The comparison and the noise are the
implementation's; only the loop over tests stands here, since an implementation runs one stream after the
other. The draws come in another order than in single runs; their distribution is the same, and the tests
compare both with the distribution that is enumerated.

Source: Clopper and Pearson (1934) for the bounds; Ding et al. (2018, CCS), Section 4, for choosing the event
on separate runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.proportions import proportion_high, proportion_low
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import NoisyComparison, NoisyThreshold, Sides
from queries.frozen import dataclass

NOT_RUN = -(2**40)  # stands in place of the tests after the halt
Draw = Callable[[int, BitSource], NDArray[np.int64]]
_CHOOSING = 2  # one run in so many of those counted is made before, to choose the event
_SHRINK = 5.0  # added to both counts of an output when outputs are ranked: rare ones tell little


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaTest:
    """What a mechanism does at one test, for many runs at once.

    Args:
        open: draws the threshold noise of a round in each of so many runs: int64, shape (draws, runs).
        outcome: for threshold noise of shape (draws, runs), a value and its threshold, what each run
            releases: int64, shape (runs,); 0 is a negative, any other number a positive.
    """

    open: Callable[[int, BitSource], NDArray[np.int64]]
    outcome: Callable[[NDArray[np.int64], int, int, BitSource], NDArray[np.int64]]
    update_limit: int
    redraw: bool = False


def replica_test(test: NoisyComparison, update_limit: int, *, redraw: bool) -> ReplicaTest:
    """Return the replicas of an implemented comparison: its own noise and its own ``compare``."""
    draws = 2 if test.sides is Sides.TWO_THRESHOLDS else 1

    def open_round(runs: int, bits: BitSource) -> NDArray[np.int64]:
        return test.threshold_noise.sample_array(bits, draws * runs).reshape(draws, runs)

    def outcome(noisy: NDArray[np.int64], value: int, threshold: int, bits: BitSource) -> NDArray[np.int64]:
        # One run per entry: the comparison adds its threshold noise to the thresholds, whatever its shape.
        kept = NoisyThreshold(cast(int, noisy[0]), None if draws == 1 else cast(int, noisy[1]))
        runs = noisy.shape[1]
        outcomes = test.compare(kept, np.full(runs, value), np.full(runs, threshold), bits)
        return outcomes.astype(np.int64)

    return ReplicaTest(open_round, outcome, update_limit, redraw)


def run_replicas(
    test: ReplicaTest, values: Sequence[int], thresholds: Sequence[int], runs: int, bits: BitSource
) -> NDArray[np.int64]:
    """Return what each run releases at each test: int64, shape (runs, tests), NOT_RUN after its halt.

    Args:
        values: the statistic of each test, shape (tests,).
        thresholds: of each test, shape (tests,).
    """
    released = np.full((runs, len(values)), NOT_RUN, dtype=np.int64)
    noisy = test.open(runs, bits)
    positives = np.zeros(runs, dtype=np.int64)
    active = np.arange(runs)
    for place, (value, threshold) in enumerate(zip(values, thresholds, strict=True)):
        outcomes = test.outcome(noisy[:, active], value, threshold, bits)
        released[active, place] = outcomes
        passed = active[outcomes != 0]
        positives[passed] += 1
        if test.redraw and len(passed):
            noisy[:, passed] = test.open(len(passed), bits)
        active = active[positives[active] < test.update_limit]
        if not len(active):
            break
    return released


def output_codes(*sides: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return a number for each run's whole output, the same for equal outputs on all sides."""
    rows = np.concatenate(sides)
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        names, numbers = np.unique(column, return_inverse=True)
        # Renumbered at every column: codes stay below the number of rows, and products below 2^63.
        codes = np.unique(codes * len(names) + numbers, return_inverse=True)[1]
    return np.split(codes, np.cumsum([len(side) for side in sides])[:-1])


@dataclass(frozen=True, slots=True)
class StatisticalFinding:
    """What runs certify about one instance."""

    epsilon: float  # the certified lower bound; 0 where nothing is certified
    runs: int
    occurrences: tuple[int, int]  # of the event, on the table where it is the likelier, and on the other


def alpha_of(rate: float, instances: int) -> float:
    """Return the chance that one bound may fail: two for each instance share the rate of false alarms."""
    if not 0 < rate < 1:
        raise BudgetError(f"expected a false-alarm rate between 0 and 1, got {rate:g}")
    if instances < 1:
        raise BudgetError(f"expected at least one instance, got {instances}")
    return rate / (2 * instances)


def clopper_pearson(count: int, runs: int, alpha: float) -> tuple[float, float]:
    """Return exact lower and upper bounds on a probability, each wrong with probability at most alpha."""
    return float(proportion_low(count, runs, alpha)), float(proportion_high(count, runs, alpha))


def certified_epsilon(first: int, second: int, runs: int, *, alpha: float, delta: float = 0.0) -> float:
    """Return max(0, ln((CP_low(first) - delta) / CP_up(second)))."""
    return float(_certified(np.array([first]), np.array([second]), runs, alpha, delta)[0])


def choose_event(
    first: NDArray[np.int64], second: NDArray[np.int64], *, alpha: float, delta: float = 0.0
) -> tuple[NDArray[np.int64], bool]:
    """Return the event that would certify most, were these the runs that count.

    It is the codes of its outputs, int64, ascending, and whether the second table is the one on which they
    are the likelier. Outputs are ranked by (x + 5) / (y + 5) and joined from the top; each such set is tried,
    both ways.
    """
    size = int(max(first.max(), second.max())) + 1
    counts = np.bincount(first, minlength=size), np.bincount(second, minlength=size)
    best, event = -math.inf, (np.arange(0), False)
    for swapped in (False, True):
        ours, theirs = counts[::-1] if swapped else counts
        order = np.argsort(-(ours + _SHRINK) / (theirs + _SHRINK), kind="stable")
        ours, theirs = np.cumsum(ours[order]), np.cumsum(theirs[order])
        found = _certified(ours, theirs, len(first), alpha, delta)
        place = int(np.argmax(found))
        if found[place] > best:
            best, event = float(found[place]), (np.sort(order[: place + 1]), swapped)
    return event


def certify(
    draws: tuple[Draw, Draw], runs: int, alpha: float, bits: BitSource, *, delta: float = 0.0
) -> StatisticalFinding:
    """Return what so many runs on each of two tables certify; half as many more choose the event.

    Args:
        draws: for the table and for its neighbour, the outputs of so many independent runs: int64, shape
            (runs, tests).
        alpha: the chance that one of two bounds fails, as ``alpha_of`` has it.
    """
    if runs < 100:
        raise BudgetError(f"expected at least 100 runs per table, got {runs}")
    before = runs // _CHOOSING
    sides = [draw(before + runs, bits) for draw in draws]
    codes = output_codes(*sides)
    event, swapped = choose_event(codes[0][:before], codes[1][:before], alpha=alpha, delta=delta)
    occurrences = [int(np.isin(side[before:], event).sum()) for side in codes]
    likely, other = occurrences[::-1] if swapped else occurrences
    epsilon = certified_epsilon(likely, other, runs, alpha=alpha, delta=delta)
    return StatisticalFinding(epsilon, runs, (likely, other))


def _certified(
    first: NDArray[np.int64], second: NDArray[np.int64], runs: int, alpha: float, delta: float
) -> NDArray[np.float64]:
    low, up = proportion_low(first, runs, alpha), proportion_high(second, runs, alpha)
    ratio: NDArray[np.float64] = np.maximum(low - delta, 0.0) / up
    return np.log(np.maximum(ratio, 1.0))
