"""Statistical audits: a lower bound on epsilon from runs alone, with a stated chance of a false alarm.

From N runs on a table and N on its neighbour, an event that occurs x times on the first and y times on the
second certifies

    epsilon >= ln((CP_low(x) - delta) / CP_up(y))

with Clopper and Pearson's exact bounds, each of which fails with probability at most alpha. The event, and
which table comes first, are chosen on runs of their own; so one instance fails with probability at most
2 alpha, however many events were compared, and all instances together with at most eta where
alpha = eta / (2 instances). What is certified is a lower bound: finding nothing proves nothing.

Source: Clopper and Pearson (1934) for the bounds; Ding et al. (2018, CCS), Section 4, for choosing the event
on separate runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.random_bits import BitSource
from pmw.research.audit.replicas import output_codes

Draw = Callable[[int, BitSource], NDArray[np.int64]]

_CHOOSING = 2  # one run in so many of those counted is made before, to choose the event
_SHRINK = 5.0  # added to both counts of an output when outputs are ranked: rare ones tell little


@dataclass(frozen=True, slots=True)
class FalseAlarm:
    """How often a sound mechanism may be accused, over the whole audit.

    Args:
        rate: eta, the chance that any instance at all certifies more than its true epsilon.
        instances: how many instances share it.

    Raises:
        BudgetError: the rate is not in (0, 1), or there is no instance.
    """

    rate: float
    instances: int

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise BudgetError(f"expected a false-alarm rate between 0 and 1, got {self.rate:g}")
        if self.instances < 1:
            raise BudgetError(f"expected at least one instance, got {self.instances}")

    @property
    def alpha(self) -> float:
        """Chance that one bound fails: two bounds per instance."""
        return self.rate / (2 * self.instances)


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A set of outputs, and the table on which it is the likelier.

    Args:
        codes: int64, the outputs' codes, ascending.
        swapped: the second table is the one on which it is the likelier.
    """

    codes: NDArray[np.int64]
    swapped: bool


@dataclass(frozen=True, slots=True)
class StatisticalFinding:
    """What runs certify about one instance.

    Args:
        epsilon: the certified lower bound; 0 where nothing is certified.
        runs: counted runs per table.
        occurrences: how often the event came on the table where it is the likelier, and on the other.
    """

    epsilon: float
    runs: int
    occurrences: tuple[int, int]


def clopper_pearson(count: int, runs: int, alpha: float) -> tuple[float, float]:
    """Return exact lower and upper bounds on a probability, each wrong with probability at most alpha."""
    low, up = _bounds(np.array([count]), np.array([count]), runs, alpha)
    return float(low[0]), float(up[0])


def certified_epsilon(first: int, second: int, runs: int, *, alpha: float, delta: float = 0.0) -> float:
    """Return max(0, ln((CP_low(first) - delta) / CP_up(second))).

    Args:
        first: how often the event came in the runs on one table.
        second: likewise on its neighbour.
        runs: runs on each table.
        alpha: chance that either bound fails.
        delta: of the claim; 0 for a pure one.
    """
    return float(_certified(np.array([first]), np.array([second]), runs, alpha, delta)[0])


def choose_event(
    first: NDArray[np.int64], second: NDArray[np.int64], *, alpha: float, delta: float = 0.0
) -> Event:
    """Return the event that would certify most, were these the runs that count.

    Outputs are ranked by (x + 5) / (y + 5) and joined from the top; each such set is tried, both ways.

    Args:
        first: int64, shape (runs,), code of each run's output on one table.
        second: likewise on its neighbour.
        alpha: chance that either bound fails.
        delta: of the claim.
    """
    size = int(max(first.max(), second.max())) + 1
    counts = np.bincount(first, minlength=size), np.bincount(second, minlength=size)
    best, event = -math.inf, Event(np.arange(0), False)
    for swapped in (False, True):
        ours, theirs = counts[::-1] if swapped else counts
        order = np.argsort(-(ours + _SHRINK) / (theirs + _SHRINK), kind="stable")
        ours, theirs = np.cumsum(ours[order]), np.cumsum(theirs[order])
        found = _certified(ours, theirs, len(first), alpha, delta)
        place = int(np.argmax(found))
        if found[place] > best:
            best, event = float(found[place]), Event(np.sort(order[: place + 1]), swapped)
    return event


def certify(
    draws: tuple[Draw, Draw], runs: int, false_alarm: FalseAlarm, bits: BitSource, *, delta: float = 0.0
) -> StatisticalFinding:
    """Return what so many runs on each of two tables certify; half as many more choose the event.

    Args:
        draws: for the table and for its neighbour, the outputs of so many independent runs: int64, shape
            (runs, tests).
        runs: counted runs per table.
        false_alarm: the rate shared among all instances of the audit.
        bits: source of the noise.
        delta: of the claim.

    Raises:
        BudgetError: fewer than 100 runs.
    """
    if runs < 100:
        raise BudgetError(f"expected at least 100 runs per table, got {runs}")
    before = runs // _CHOOSING
    sides = [draw(before + runs, bits) for draw in draws]
    codes = output_codes(*sides)
    event = choose_event(codes[0][:before], codes[1][:before], alpha=false_alarm.alpha, delta=delta)
    occurrences = [int(np.isin(side[before:], event.codes).sum()) for side in codes]
    likely, other = occurrences[::-1] if event.swapped else occurrences
    epsilon = certified_epsilon(likely, other, runs, alpha=false_alarm.alpha, delta=delta)
    return StatisticalFinding(epsilon, runs, (likely, other))


def _certified(
    first: NDArray[np.int64], second: NDArray[np.int64], runs: int, alpha: float, delta: float
) -> NDArray[np.float64]:
    low, up = _bounds(first, second, runs, alpha)
    ratio: NDArray[np.float64] = np.maximum(low - delta, 0.0) / up
    return np.log(np.maximum(ratio, 1.0))


def _bounds(
    first: NDArray[np.int64], second: NDArray[np.int64], runs: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower bound at the first counts and the upper bound at the second."""
    from scipy.special import betainccinv, betaincinv

    some, all_runs = np.maximum(first, 1), np.minimum(second, runs - 1)
    low = np.where(first > 0, betaincinv(some, runs - some + 1.0, alpha), 0.0)
    up = np.where(second < runs, betainccinv(all_runs + 1.0, runs - all_runs, alpha), 1.0)
    return low, up
