"""How far questions may be from a marginal that a test did not find wrong."""

from __future__ import annotations

import math

from pmw.privacy.tail_bounds import certificate_half_width
from pmw.public.intervals import Confidences, negative_margin, total_error_bound
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.public.state import Certificate, PublicState
from queries.linear import UNITS

__all__ = [
    "certificate_bound",
    "negative_half_width",
]


def certificate_bound(state: PublicState, certificate: Certificate, *, one_end: bool = False) -> float:
    """Return how far any question on the tested cells may be from the tested marginal, in records.

    Args:
        state: the state.
        certificate: of the marginal.
        one_end: another noise may give the other end of an interval, so this one has half of what may fail.
            Where intervals hold for all questions at once, every noise has its own part already.
    """
    plan = marginal_tier(state.plan)
    if plan is None:
        return math.inf
    confidences = Confidences.in_state(state)
    if one_end and not state.contract.options.simultaneous:
        confidences = confidences.of_one_end()
    total_error = total_error_bound(state, confidences.total)
    return negative_half_width(plan, certificate.threshold, certificate.units.size, confidences, total_error)


def negative_half_width(
    plan: MarginalTestPlan, threshold: int, cells: int, confidences: Confidences, total_error: float
) -> float:
    """Return how far any question may be from a marginal whose test was negative, in records.

    Args:
        plan: the test.
        threshold: T of the test, in units.
        cells: of the marginal.
        confidences: of the threshold noise, and of the number of records.
        total_error: how far the model's total may be from the number of records, in records.
    """
    margin = negative_margin(plan, confidences.certificate)
    return certificate_half_width((threshold + margin) / UNITS, total_error, cells)
