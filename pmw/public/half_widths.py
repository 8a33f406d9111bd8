"""Half-widths: how far the truth may be from a sum of w_i x_i over cells.

What a session releases or tests with bounds such a sum, as surely as ``Confidences`` says:

* ``SumNoise``, of an estimate: a quantile of the noise that was drawn, by its squared weights in the sum, and
  for Laplace noise by the largest of them;
* ``TableNoise``, of a table measured whole, with the number of records: by sum w_i^2 and sum w_i;
* ``certified_sums``, of a test that was negative: (max w - min w)/2 S + |max w + min w|/2 |delta|;
* the number of records, for one weight: |w| times its own half-width.

Proofs are in ``docs/intervals.md``.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.estimate import Estimate, OfTree, noise_variance
from pmw.privacy.budget import Composition
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.tail_bounds import (
    certificate_half_width,
    simultaneous_half_width,
    split_confidence,
    sum_half_width,
    sum_half_widths,
)
from pmw.public.options import Options
from pmw.public.plans import MarginalTestPlan, QueryTestPlan, TestPlan, TierPlan
from pmw.public.state import PublicState
from queries.cell_sets import CellSets
from queries.factors import UNITS
from queries.frozen import dataclass

_Weights: TypeAlias = NDArray[np.float64]
_ROUNDING = 2.0**-44  # of squares: more than sums of numbers lose that are far from 0 and near each other
_EVERYBODY = 0.1  # of what may fail, for the number of records
KEPT = 5  # bars that may be kept for being narrow have a part in so many of what may fail; numbers the rest
_CERTIFICATES = 1  # their place in the shares of ``Rests``
_LEAST_FAILURE = 1e-13  # that a confidence is told apart from 1 by
_INTERVALS = 512  # of the weight of a question, in each of which its widest interval is bounded
_FEW = 3  # cells, all subsets of which are two runs at most
_BESIDE = 1e-9  # relative: below a power of 2


class WeightStats(NamedTuple):
    """What bounds of a sum of w_i x_i depend on, whichever cells the weights are of.

    Args:
        squares: sum of w_i^2.
    """

    total: float
    squares: float
    least: float = 0.0
    greatest: float = 1.0

    @classmethod
    def of(cls, weights: _Weights) -> WeightStats:
        """Return those of weights, of records: float64, one axis per attribute."""
        squares = float(np.sum(weights**2))
        return cls(float(np.sum(weights)), squares, float(weights.min()), float(weights.max()))

    @classmethod
    def of_cells(cls, cells: int) -> WeightStats:
        """Return those of a question that counts so many cells, and leaves out others."""
        return cls(cells, cells)  # sums of ones are exact, in whatever order

    @property
    def reach(self) -> float:
        """From the least of 0 and the weights to the greatest of 0 and the weights."""
        return max(self.greatest, 0.0) - min(self.least, 0.0)

    @property
    def largest(self) -> float:
        """The largest |w_i|."""
        return max(self.greatest, -self.least)


class Rests(enum.Enum):
    """What the ends of an interval rest on, and how what may fail is shared among it.

    Each has the shares of measured noise, of the threshold noise of all rounds, and of what parts of the
    question say, in what the number of records leaves.

    ``MEASURED``: measurements alone.
    ``CERTIFIED``: certificates; they are one event, whichever of them give the ends.
    ``MIXED``: a measurement at one end, a certificate at the other.
    ``PARTS``: nothing by all attributes of the question, and no certificate by some of them.
    """

    MEASURED = (17, 0, 1)
    CERTIFIED = (0, 1, 1)
    MIXED = (6, 2, 1)
    PARTS = (0, 0, 1)

    __hash__ = object.__hash__  # by identity: quicker than by name, and asked for at every sum


class Shares(NamedTuple):
    """How surely each noise holds that an interval rests on.

    Args:
        rests: what evidence may give an end; any where it is ``MIXED``.
        measured: of a measurement, both ends together.
        certificate: of the threshold noise of all rounds.
        everybody: of the number of records, both ends together.
    """

    rests: Rests
    measured: float
    certificate: float
    everybody: float


@dataclass(frozen=True, slots=True)
class Confidences:
    """How surely each noise of a session holds, so that its intervals hold as stated.

    Every interval reaches no farther than everybody, so the number of records has its share in each: a tenth
    of what may fail, where it is private. The rest is shared as ``Rests`` says.

    Args:
        everybody: of the number of records.
        rest: of all other noises that an interval rests on.
        together: intervals hold for all questions at once, so that every noise has a part of its own: of
            ``rest`` each, and nothing is shared further.
        groups: how many intervals answers choose from. Each has its part of what may fail, but for
            everybody's number and certificates, which are one event for all of them.
        certified: some of these intervals may rest on certificates, which then have half of ``rest``.
        pays: numbers of questions are drawn where their bars are wide.
    """

    everybody: float
    rest: float
    together: bool = False
    groups: int = 1
    certified: bool = False
    pays: bool = False

    @classmethod
    def of(cls, options: Options, opening: int, plan: TestPlan, *, private_total: bool) -> Confidences:
        """Return the confidences of a session.

        Intervals that hold for all questions at once share the failure probability among all noises that the
        session can ever draw: the total, the opening's measurements, each positive's, and the thresholds of
        each sparse vector, whose rounds share theirs in turn.

        Args:
            private_total: the number of records is released with noise.
        """
        if not options.simultaneous:
            share = _EVERYBODY if private_total else 0.0
            return cls(
                part_confidence(options.confidence, _EVERYBODY),
                part_confidence(options.confidence, 1 - share),
            )
        events = 1 + opening + sum(1 + tier.update_limit for tier in plan)
        part = split_confidence(options.confidence, events)
        return cls(part, part, together=True)

    @classmethod
    def in_state(cls, state: PublicState, events: int = 1, beside: int = 0, groups: int = 1) -> Confidences:
        """Return the confidences of a session, by its public state.

        Args:
            events: how many intervals have to hold together, each with its part of what may fail.
            beside: other events that have to hold with all of these, each with as much as all of these.
        """
        options, private = state.contract.options, state.total.deviation > 0
        found = cls.of(options, len(state.opening), state.plan, private_total=private)
        if options.sparse_vector is not None and options.sparse_vector.is_laplace:
            events, groups = events * groups, 1  # each test has noise of its own beside that of its threshold
        parts = (1 if options.simultaneous else events) * (1 + beside)
        if parts > 1:
            everybody, rest = (split_confidence(one, parts) for one in (found.everybody, found.rest))
            found = replace(found, everybody=everybody, rest=rest)
        pays = options.reserved > 0
        return replace(found, groups=groups, certified=bool(state.certificates), pays=pays)

    @property
    def alone(self) -> float:
        """Of a measurement that gives both ends of an interval."""
        return self.shares(Rests.MEASURED).measured

    @property
    def number(self) -> float:
        """Of the number that was measured of a question itself."""
        if not self.pays:
            return self.alone
        return part_confidence(self.rest, (1 - 1 / KEPT) / self.groups)

    def shares(self, rests: Rests) -> Shares:
        """Return how surely each noise holds that an interval rests on, but for its parts."""
        measured, certificate, _ = (self._share(rests, place) for place in range(3))
        return Shares(rests, measured, certificate, self.everybody)

    def of_parts(self, rests: Rests, ends: int) -> Shares:
        """Return the same for the parts of a question, of which so many ends are looked at in all."""
        allowed = {Rests.CERTIFIED: Rests.MIXED, Rests.PARTS: Rests.MEASURED}
        shares = self.shares(rests)._replace(rests=allowed.get(rests, rests))
        if self.together:
            return shares
        return shares._replace(measured=part_confidence(self._share(rests, 2), 2 / ends))

    def _share(self, rests: Rests, place: int) -> float:
        if self.together:
            return part_confidence(self.rest, 1.0)
        if self.groups == 1:
            return part_confidence(self.rest, rests.value[place] / sum(rests.value))
        measured, _, parts = rests.value
        part = 1.0 if place == _CERTIFICATES else rests.value[place] / (measured + parts) / self.groups
        return part_confidence(self.rest, part / (1 + self.certified))


def part_confidence(confidence: float, part: float) -> float:
    """Return the confidence of what fails with a part, at most 1, of what may fail."""
    return 1 - (1 - confidence) * part


def negative_margin(tier: TierPlan, confidence: float) -> float:
    """Return how far beyond its threshold a tested value may be where its test was negative, in units.

    Where threshold noise is redrawn, each round that the session can open has its part of the confidence: a
    round lasts longer the higher its noise came out, so that questions meet high noise more often than a
    single draw is high.
    """
    rounds = tier.update_limit if tier.sparse.redraw else 1
    return tier.sparse.test.negative_margin(split_confidence(confidence, rounds))


def certified_half_width(plan: QueryTestPlan, threshold: int, confidence: float) -> float:
    """Return how far, in records, the model may be off on a question whose test was negative.

    The error is below T plus what the threshold noise can hide; with exponential noise this holds for all
    negatives of a round at once, so it is a bound and holds more often than stated.
    """
    return (threshold + negative_margin(plan, confidence) + 1) / UNITS


# --- kinds of noise ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SumNoise:
    """The noise of one weighted sum of the counts of an estimate."""

    estimate: Estimate
    confidence: float

    def product_half_widths(self, sides: Sequence[CellSets]) -> _Weights:
        """Return how far the truth may be from counts of products, in records: float64, shape (n,)."""
        one = self.estimate
        return sum_half_widths(one.noise, one.product_squares(sides), self.confidence, peak=one.peak)

    def half_width(self, weights: _Weights) -> float:
        """Return how far the truth may be from a sum, in records, by the weights of the cells."""
        one, stats = self.estimate, WeightStats.of(weights)
        if one.is_alike:
            return self.of_stats(stats)
        squares = one.weighted_variance(weights) / noise_variance(one.noise)
        return sum_half_width(one.noise, squares, self.confidence, peak=stats.reach**2 or None)

    def of_stats(self, stats: WeightStats) -> float:
        """Return the same by numbers of the weights, where it depends on no places; see ``is_alike``."""
        one = self.estimate
        squares, peak = stats.squares * one.blocks[0].variance, stats.largest**2 * (one.peak or 0.0)
        return sum_half_width(one.noise, squares, self.confidence, peak=peak or None)


class StatsNoise:
    """What is off in sums that numbers of their weights alone bound, whichever cells these are of.

    Args:
        by_stats: how far the truth may be from a sum, in records, by these numbers.
    """

    def __init__(self, by_stats: Callable[[WeightStats], float]) -> None:
        self.by_stats = by_stats
        self._by_cells = dict[int, float]()  # of questions that count so many

    def product_half_widths(self, sides: Sequence[CellSets]) -> _Weights:
        """Return how far the truth may be from counts of products, in records: float64, shape (n,)."""
        cells = functools.reduce(np.multiply, [side.cells() for side in sides])
        return np.array([self._of_cells(size) for size in cells.tolist()], dtype=np.float64)

    def _of_cells(self, cells: int) -> float:
        if cells not in self._by_cells:
            self._by_cells[cells] = self.by_stats(WeightStats.of_cells(cells))
        return self._by_cells[cells]

    def half_width(self, weights: _Weights) -> float:
        """Return how far the truth may be from a sum, in records, by the weights of the cells."""
        return self.by_stats(WeightStats.of(weights))


def measured_half_width(
    options: Options, noise: NoiseDistribution, numbers: int, confidence: float, counted: int
) -> float:
    """Return how far the truth may be from the sum of some measured numbers, in records."""
    if options.simultaneous:
        return simultaneous_half_width(noise, numbers, confidence)
    return sum_half_width(noise, counted, confidence, peak=1.0)


class AxisNoise:
    """The noise of counts by one attribute, for all questions about the attribute at once.

    These counts are public before the first question, so a question about several attributes may be chosen
    by looking at them. So all runs of neighbouring cells hold together, each with as much that may fail. Any
    weights are constant on some runs. Of more than three cells that were measured by themselves half of what
    may fail is for all weights at once: that is narrower where runs are many.
    """

    def __init__(self, measured: Estimate, confidence: float) -> None:
        cells, self._all = measured.values.size, math.inf
        if measured.drawn and cells > _FEW:
            confidence = split_confidence(confidence, 2)
            self._all = simultaneous_half_width(measured.noise, cells, confidence)
        (factor, *_) = measured.blocks[0].factors
        if isinstance(factor, OfTree) and factor.is_scattered:  # by their cells: quickly, and no narrower
            measured = replace(Estimate.of_cells(measured.scope, measured.noise, measured.values), peak=None)
        runs, self._runs = cells * (cells + 1) // 2, None
        if runs <= (1 - confidence) / _LEAST_FAILURE:
            self._runs = SumNoise(measured, split_confidence(confidence, runs))

    def product_half_widths(self, sides: Sequence[CellSets]) -> _Weights:
        """Return how far the truth may be from counts of sets of cells, in records: float64, shape (n,)."""
        (side,) = sides
        runs = np.full(side.first.shape, self._all)
        if self._runs is not None:
            runs = np.minimum(self._runs.product_half_widths([CellSets(side.first, side.last)]), self._all)
        return np.minimum(side.summed(runs), self._all)

    def half_width(self, weights: _Weights) -> float:
        """Return how far the truth may be from a sum, in records.

        Args:
            weights: float64, shape (cells,).
        """
        steps = np.flatnonzero(np.diff(weights, prepend=0.0, append=0.0))
        first, last = steps[:-1], steps[1:] - 1
        counted = weights[first] != 0
        runs = CellSets(first[counted], last[counted])
        widths = np.abs(weights[runs.first]) * self.product_half_widths([runs])
        return min(float(np.sum(widths)), WeightStats.of(weights).reach * self._all)


@dataclass(frozen=True, slots=True)
class TableNoise:
    """The noise of a table that is measured whole, where the number of records is known beside its cells.

    Of a sum with the weights w_i the cells' noise has the weights w_i - k, and that of the number of records
    has k = W/(m + r), W = sum w_i: their derivation is in ``docs/intervals.md``.

    Args:
        noise: on each cell, in units.
        ratio: r, the variance of the noise on the number of records in those of a cell; 0 where it is public.
        confidence: of one noise that an interval rests on alone.
        repeated: measured cells to each of the scope.
    """

    noise: NoiseDistribution
    cells: int
    ratio: float
    confidence: float
    repeated: int = 1

    @classmethod
    def of(
        cls, noise: NoiseDistribution, cells: int, deviation: float, confidence: float, repeated: int = 1
    ) -> TableNoise:
        """Return the noise of a table by the deviation of the number of records that takes in its cells.

        Args:
            noise: on each cell, in units.
            deviation: of the number of records, in records: 1/deviation^2 = 1/(r s^2) + 1/(m s^2).
            confidence: of one noise that an interval rests on alone.
        """
        part = deviation**2 / (cells * noise_variance(noise))  # r/(m + r)
        ratio = cells * part / (1 - part) if part < 1 else math.inf
        return cls(noise, cells, ratio, confidence, repeated)

    def half_width(self, stats: WeightStats) -> float:
        """Return how far the truth may be from a sum, in records.

        The noise is a sum over the cells with weights w_i - k, and of the number of records with weight k: in
        scales of a cell's noise the square of that is k^2 r. Where the number of records is the less noisy
        one, it is taken to be as noisy as a cell, so that ``sum_half_width`` holds.
        """
        squares, weight = stats.squares * self.repeated, stats.total * self.repeated
        if not 0 <= stats.least <= stats.greatest <= 1:
            squares *= 1 + _ROUNDING  # for the difference to W^2/(m + r) may be a small part of them
        peak = self._peak(weight, (stats.least, stats.greatest))
        return sum_half_width(self.noise, self._left(squares, weight), self.confidence, peak=peak)

    def widest(self) -> float:
        """Return what no half-width of a question with weights in [0, 1] exceeds, in records.

        Between whole W the squares that are left are convex in W, and they are concave over whole W: so in
        each of some intervals of W their most is at its ends or at the one maximum, and the largest square
        grows with W. Where the quantile steps with the number of equal cells, both sides of the step count.
        """
        ends = np.unique(
            np.linspace(0, self.cells, min(self.cells, _INTERVALS) + 1).astype(np.int64)
        ).tolist()
        gain = self._left(0.0, 1.0, floor=False)  # the squares that are left are W + gain W^2 at most
        peak_at = float(self.cells) if gain >= 0 else min(-1 / (2 * gain), float(self.cells))
        widths = []
        for low, high in itertools.pairwise(ends):
            inside = min(max(round(peak_at), low), high)
            most = max(self._left(float(one), float(one)) for one in (low, inside, high))
            peak = self._peak(float(high))
            step = peak * 2.0 ** math.floor(math.log2(max(most / peak, 1.0))) * (1 - _BESIDE)
            widths += [
                sum_half_width(self.noise, one, self.confidence, peak=peak) for one in (most, min(step, most))
            ]
        return max(widths)

    @property
    def _shift(self) -> float:
        """1/(m + r)."""
        return 1 / (self.cells + self.ratio)

    def _left(self, squares: float, weight: float, *, floor: bool = True) -> float:
        """Return the sum of the squares of all weights, in scales of a cell's noise."""
        share = weight * self._shift
        left = squares - 2 * share * weight + (self.cells + self._known) * share**2
        return max(0.0, left) if floor else left

    def _peak(self, weight: float, ends: tuple[float, float] = (0.0, 1.0)) -> float:
        """Return what no square of a weight exceeds, in scales of a cell's noise."""
        share = weight * self._shift
        above = max(ends[1], 0.0) - min(share, 0.0)
        below = max(share, 0.0) - min(ends[0], 0.0)
        return max(above**2, below**2, self._known * share**2)

    @property
    def _known(self) -> float:
        """r, where there is noise on the number of records at least that of a cell."""
        return max(self.ratio, 1.0) if 0 < self.ratio < math.inf else 0.0


def certified_sums(
    plan: MarginalTestPlan | None, threshold: int, cells: int, confidence: float, total_error: float
) -> Callable[[WeightStats], float]:
    """Return how far the truth may be from sums on a marginal that a test did not find wrong, in records.

    Args:
        plan: the test; None where there is none, which bounds nothing.
        threshold: T of the test, in units.
        confidence: of the threshold noise of all rounds.
        total_error: how far the model's total may be from the number of records, in records.
    """
    if plan is None:
        return lambda _: math.inf
    statistic = (threshold + negative_margin(plan, confidence)) / UNITS
    return lambda stats: certificate_half_width(
        statistic, total_error, cells, weights=(stats.least, stats.greatest)
    )


# --- the number of records ---------------------------------------------------------------------------------


def total_half_width(
    composition: Composition, deviation: float, confidence: float, opening: Iterable[NoiseDistribution] = ()
) -> float:
    """Return how far the released number of records may be from the true one, in records.

    It is a weighted sum of noises of several scales, the quietest of scale s: so it is one of noises of scale
    s, whose squared weights sum to variance / var(s) and exceed those of the first, and ``sum_half_width``
    holds for it.

    Args:
        composition: which distribution the noises have: Laplace where epsilons add.
        deviation: standard deviation of the released number, in records; 0 where it is public.
        opening: the noises on the opening's measurements, whose sums the number takes in.
    """
    if deviation == 0:
        return 0.0
    units = deviation * UNITS
    alone: NoiseDistribution
    if composition is Composition.PURE:
        alone = DiscreteLaplace(Fraction(math.ceil(units / math.sqrt(2))))
    else:
        alone = DiscreteGaussian(Fraction(math.ceil(units)))
    quietest = min((alone, *opening), key=noise_variance)
    squares = 1.0 if quietest is alone else deviation**2 / noise_variance(quietest)
    return sum_half_width(quietest, squares, confidence)


def total_error_bound(state: PublicState, confidence: float) -> float:
    """Return how far the model's total may be from the number of records, in records.

    That is the noise of the released number, and what the model's total differs from it: a total is at least
    1, whatever came out of the noise.
    """
    return abs(state.total.value - state.total.estimate) + total_noise_bound(state, confidence)


def total_noise_bound(state: PublicState, confidence: float) -> float:
    """Return how far the released number of records may be from the true one, in records."""
    opening = [one.noise for one in state.opening]
    return total_half_width(state.ledger.composition, state.total.deviation, confidence, opening)
