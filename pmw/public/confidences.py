"""How surely each noise of a session holds, and how far the number of records and a negative may be off."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from pmw.model import NoiseDistribution, noise_variance
from pmw.privacy.budget import Composition
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.tail_bounds import certificate_half_width, split_confidence, sum_half_width
from pmw.public.contract import Options
from pmw.public.plans import MarginalTestPlan, TestPlan, TierPlan
from pmw.public.state import PublicState
from queries.factors import UNITS


@dataclass(frozen=True, slots=True)
class Confidences:
    """How surely each noise holds that an interval rests on, so that the interval holds as stated.

    Args:
        alone: of one noise that an interval rests on alone: of a measurement, or of the number of records.
        certificate: of the threshold noise of all rounds, where the number of records comes with it.
        total: of the number of records, where threshold noise comes with it.
    """

    alone: float
    certificate: float
    total: float

    @classmethod
    def of(cls, options: Options, opening: int, plan: TestPlan, *, private_total: bool) -> Confidences:
        """Return the confidences of a session.

        Intervals that hold for all questions at once share the failure probability among all noises that the
        session can ever draw: the total, the opening's measurements, each positive's, and the thresholds of
        each sparse vector, whose rounds share theirs in turn.

        Args:
            options: the stated confidence, and whether intervals hold for all questions at once.
            opening: measurements measured at opening.
            plan: the tiers of tests.
            private_total: the number of records is released with noise.
        """
        if not options.simultaneous:
            part = split_confidence(options.confidence, 2) if private_total else options.confidence
            return cls(options.confidence, part, part)
        events = 1 + opening + sum(1 + tier.update_limit for tier in plan)
        part = split_confidence(options.confidence, events)
        return cls(part, part, part)

    def of_one_end(self) -> Confidences:
        """Return the same where the two ends of an interval may rest on different noises.

        Both ends of a certificate's interval fail together, so each is given half of what may fail.
        """
        return replace(
            self,
            certificate=split_confidence(self.certificate, 2),
            total=split_confidence(self.total, 2),
        )

    def of_part(self, events: int) -> Confidences:
        """Return the same where so many intervals hold together, each with its part of what may fail."""
        parts = (self.alone, self.certificate, self.total)
        return Confidences(*(split_confidence(one, events) for one in parts))

    @classmethod
    def in_state(cls, state: PublicState) -> Confidences:
        """Return the confidences of a session, by its public state."""
        options, private = state.contract.options, state.total.deviation > 0
        return cls.of(options, len(state.opening), state.plan, private_total=private)


def negative_margin(tier: TierPlan, confidence: float) -> float:
    """Return how far beyond its threshold a tested value may be where its test was negative, in units.

    Where threshold noise is redrawn, each round that the session can open has its part of the confidence: a
    round lasts longer the higher its noise came out, so that questions meet high noise more often than a
    single draw is high.
    """
    rounds = tier.update_limit if tier.sparse.redraw else 1
    return tier.sparse.test.negative_margin(split_confidence(confidence, rounds))


def negative_half_width(
    plan: MarginalTestPlan,
    threshold: int,
    cells: int,
    confidences: Confidences,
    total_error: float,
    weights: tuple[float, float] = (0.0, 1.0),
) -> float:
    """Return how far a sum may be from that on a marginal whose test was negative, in records.

    Args:
        plan: the test.
        threshold: T of the test, in units.
        cells: of the marginal.
        confidences: of the threshold noise, and of the number of records.
        total_error: how far the model's total may be from the number of records, in records.
        weights: the least and the greatest of the sum; those of a question are in [0, 1].
    """
    margin = negative_margin(plan, confidences.certificate)
    return certificate_half_width((threshold + margin) / UNITS, total_error, cells, weights=weights)


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
        confidence: of the width.
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
    total = state.total
    opening = [one.noise for one in state.opening]
    noise = total_half_width(state.ledger.composition, total.deviation, confidence, opening)
    return abs(total.value - total.estimate) + noise
