"""What runs of the sech^2 test cost, order by order: R, and (epsilon, delta) from it.

A positive costs R(alpha, s) = (alpha s - ln(1 + alpha (e^s - 1)))/(alpha - 1) of Rényi divergence at order
alpha, exactly the price of this coupling, and no more than min(s, alpha s^2/2). Summed at each order and
turned into (epsilon, delta) at the best one, it allows less noise than the rho of s^2/2 alone, most of all
for few positives; and exponential threshold noise pays its epsilon once, at every order.

Bounds are evaluated in floating point and rounded up: an error of at most 2^-49 of the two terms of R is
added before they are subtracted.

Runs may also choose their scales as they go, with a filter instead of a limit of positives. Thresholds and
query scales may then change from test to test as any function of the outputs so far. A positive is charged at
the scale of its own test, and a test is refused, with nothing drawn, where its positive would exceed what is
left. Threshold noise stays what it was. The sum of charges cannot exceed the cap, which is what the induction
of the proof needs.

Source: ``docs/proofs/zcdp-sparse-vector.md``, its section on filters for the latter; the conversion: Canonne,
Kamath and Steinke (2020, arXiv v5), Proposition 12.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pmw.errors import BudgetError, BudgetExhaustedError
from pmw.privacy.budget import RHO_GRID, Budget, Charge, Composition, round_up
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.noisy_comparison import (
    NoisyThreshold,
    Outcome,
    Sech2Test,
    ThresholdNoise,
    require_integers,
)
from queries.frozen import dataclass

_ORDERS = tuple(1 + math.exp(-5 + step / 25) for step in range(626))  # 1.007 to 5e8; any order is sound
_LARGE = 500.0  # e^s still fits in a double
_SMALL = 1e-100  # s^2 still does
_SLACK = 2.0**-45  # covers the rounding of a dozen additions
_SCALE_GRID = 2**20


def renyi_charge(alpha: float, s: float) -> float:
    """Return R(alpha, s) = (alpha s - ln(1 + alpha (e^s - 1)))/(alpha - 1), in floating point.

    Near order 1, and for small s, the difference loses digits; accounts take ``renyi_charge_bound``.

    Args:
        alpha: order, above 1.
        s: shift over scale, above 0.

    Raises:
        BudgetError: alpha or s is out of range.
    """
    _check(alpha, s)
    if s > _LARGE:
        return s - math.log(alpha) / (alpha - 1)
    return (alpha * s - math.log1p(alpha * math.expm1(s))) / (alpha - 1)


def renyi_charge_bound(alpha: float, s: float | Fraction) -> float:
    """Return R(alpha, s), or a little more: never below the exact value, never above min(s, alpha s^2/2).

    A relative error d in v = alpha (e^s - 1) moves ln(1 + v) by at most d v/(1 + v) <= d ln(1 + v), so the
    whole of it is below 16 units of 2^-53 of the two terms.

    Args:
        alpha: order, above 1.
        s: shift over scale, above 0; a fraction is rounded up.

    Raises:
        BudgetError: alpha or s is out of range.
    """
    shift = _float_up(s)
    _check(alpha, shift)
    if not _SMALL < shift < _LARGE:
        return shift
    first, second = alpha * shift, math.log1p(alpha * math.expm1(shift))
    exact = (first - second + 2.0**-49 * (first + second)) / (alpha - 1) * (1 + 2.0**-50)
    return min(shift, alpha * shift * shift / 2 * (1 + 2.0**-48), exact)


def threshold_renyi(test: Sech2Test, alpha: float) -> float:
    """Return the divergence of order alpha that one threshold draw costs, rounded up.

    Exponential: Delta/b1 at every order. Laplace: min(Delta/b1, alpha (Delta/b1)^2/2). Gaussian:
    alpha Delta^2/(2 sigma^2).
    """
    price = _float_up(test.sensitivity / test.threshold_scale)
    _check(alpha, price)
    squared = alpha * price * price / 2 * (1 + 2.0**-48)
    if test.noise is ThresholdNoise.GAUSSIAN:
        return squared
    return min(price, squared) if test.noise is ThresholdNoise.LAPLACE else price


def run_epsilon(test: Sech2Test, update_limit: int, delta: float, *, value_rho: float = 0.0) -> float:
    """Return an epsilon such that a run with one threshold draw is (epsilon, delta)-DP, rounded up.

    epsilon = min over alpha of E + c R(alpha, s) + c alpha value_rho + ln(1 - 1/alpha)
    - (ln delta + ln alpha)/(alpha - 1), E the threshold's; and at most the pure price, where there is one.

    Args:
        delta: at least 0 and below 1.
        value_rho: rho of the value released at each positive; 0 where none is.
    """
    if update_limit < 1 or not 0 <= delta < 1 or value_rho < 0:
        raise BudgetError(
            f"expected c >= 1, 0 <= delta < 1 and a rho >= 0, got {update_limit}, {delta:g}, {value_rho:g}"
        )
    best = math.inf
    if test.noise is not ThresholdNoise.GAUSSIAN and value_rho == 0:
        best = _float_up(test.threshold_price + update_limit * test.positive_price)
    if delta == 0:
        if best == math.inf:
            raise BudgetError("expected delta > 0 for Gaussian noise, got delta=0")
        return best
    for alpha in _ORDERS:
        spent = threshold_renyi(test, alpha)
        spent += update_limit * (renyi_charge_bound(alpha, test.positive_price) + alpha * value_rho)
        best = min(best, spent * (1 + _SLACK) + _conversion(alpha, delta))
    return best


def least_query_scale(
    test: Sech2Test, update_limit: int, budget: Budget, *, value_rho: float = 0.0
) -> Fraction:
    """Return the smallest b, rounded up to a multiple of 2^-20 Delta, for which a run stays in the budget.

    Args:
        test: the comparison; its own query scale plays no part.
        update_limit: c.
        budget: of the whole run.
        value_rho: rho of the value released at each positive.

    Raises:
        BudgetError: threshold noise and values alone exceed the budget.
    """

    def fits(steps: int) -> bool:
        scaled = replace(test, query_scale=Fraction(steps * test.sensitivity, _SCALE_GRID))
        return run_epsilon(scaled, update_limit, float(budget.delta), value_rho=value_rho) <= budget.epsilon

    high = _SCALE_GRID
    while not fits(high):
        if high > 2**45:
            raise BudgetError(
                f"epsilon={float(budget.epsilon):g} does not hold the threshold noise and the values alone"
            )
        high *= 2
    steps = 1 + bisect_left(range(1, high), True, key=fits)
    return Fraction(steps * test.sensitivity, _SCALE_GRID)


def order_filter(budget: Budget, alpha: float) -> PrivacyFilter:
    """Return a filter that holds one Rényi order to a budget: its rhos are divergences over alpha.

    Every charge against it must hold at this order: those of ``order_charges``, and any rho of zCDP.
    """
    _check(alpha, 1.0)
    if budget.delta == 0:
        raise BudgetError("expected delta > 0 for a Rényi order, got delta=0")
    cap = (float(budget.epsilon) - _conversion(alpha, float(budget.delta))) * (1 - _SLACK) / alpha
    if cap <= 0:
        raise BudgetError(f"epsilon={float(budget.epsilon):g} holds no budget at order {alpha:g}")
    return PrivacyFilter(Composition.ZCDP, Fraction(cap))


def order_charges(test: Sech2Test, alpha: float) -> tuple[Charge, Charge]:
    """Return what a threshold draw and a positive cost at one order, as rhos of ``order_filter``."""
    threshold, positive = threshold_renyi(test, alpha), renyi_charge_bound(alpha, test.positive_price)
    order = Fraction(alpha)
    return (
        Charge(test.threshold_charge.epsilon, round_up(Fraction(threshold) / order, RHO_GRID)),
        Charge(test.positive_price, round_up(Fraction(positive) / order, RHO_GRID)),
    )


def _conversion(alpha: float, delta: float) -> float:
    """Return ln(1 - 1/alpha) - (ln delta + ln alpha)/(alpha - 1), rounded up."""
    parts = (math.log1p(-1 / alpha), -math.log(delta) / (alpha - 1), -math.log(alpha) / (alpha - 1))
    return math.fsum(parts) + _SLACK * math.fsum(map(abs, parts))


def _float_up(value: float | Fraction) -> float:
    return value if isinstance(value, float) else math.nextafter(float(value), math.inf)


def _check(alpha: float, s: float) -> None:
    if not (1 < alpha < math.inf and 0 < s < math.inf):
        raise BudgetError(f"expected an order above 1 and a shift above 0, got {alpha:g} and {s:g}")


@dataclass(frozen=True, slots=True, repr=False)
class AdaptiveState:
    """Where a run stands. The threshold noise is secret; what was charged is public."""

    noisy: NoisyThreshold
    ledger: PrivacyFilter

    def __repr__(self) -> str:
        return f"AdaptiveState(charged {self.ledger.share:.1%} of the cap, noise secret)"


@dataclass(frozen=True, slots=True)
class AdaptiveSech2:
    """Test values at scales of the caller's choice while a filter allows another positive.

    Args:
        test: sides, sensitivity and threshold noise; its query scale is where a test names none.
        order: None to charge epsilons or rhos, as the filter's composition says; a Rényi order, fixed
            beforehand, to charge what a positive costs at this order against an ``order_filter`` of it.

    Privacy: the run stays under the cap of its filter, with whatever else is charged against it.
    """

    test: Sech2Test
    order: float | None = None

    def charges(self, query_scale: Fraction | None = None) -> tuple[Charge, Charge]:
        """Return what the threshold draw and a positive at a scale cost."""
        test = self._scaled(query_scale)
        if self.order is None:
            return test.threshold_charge, test.positive_charge
        return order_charges(test, self.order)

    def open(self, ledger: PrivacyFilter, bits: BitSource) -> AdaptiveState:
        """Charge the threshold noise and draw it."""
        after = ledger.charge(self.charges()[0])
        return AdaptiveState(self.test.draw_threshold(bits), after)

    def step(
        self,
        state: AdaptiveState,
        value: int,
        threshold: int,
        bits: BitSource,
        *,
        query_scale: Fraction | None = None,
    ) -> tuple[AdaptiveState, Outcome]:
        """Test one value at a scale.

        Args:
            query_scale: b of this test; None for the test's own.
        """
        test, price = self._scaled(query_scale), self.charges(query_scale)[1]
        if not state.ledger.allows(price):
            raise BudgetExhaustedError(
                f"expected a positive of at most {float(state.ledger.remaining):g}, got one of "
                f"{float(state.ledger.price(price)):g}; ask for a larger query scale"
            )
        values, thresholds = require_integers(np.array([value])), require_integers(np.array([threshold]))
        outcome = Outcome(test.compare(state.noisy, values, thresholds, bits)[0])
        if outcome is Outcome.BELOW:
            return state, outcome
        return replace(state, ledger=state.ledger.charge(price)), outcome

    def _scaled(self, query_scale: Fraction | None) -> Sech2Test:
        return self.test if query_scale is None else replace(self.test, query_scale=query_scale)
