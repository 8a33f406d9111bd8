"""Scales: what is compared with which noise, how that follows from shares of epsilon, and what rounds cost.

Each of c adaptively chosen epsilon0-DP rounds has a price by each composition theorem. Prices of one round
are rounded down and totals up: floating point only searches, and each result is checked with 60 or more
decimal digits before it is returned.
"""

from __future__ import annotations

import decimal
import enum
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np

from pmw.errors import BudgetError
from pmw.privacy.budget import (
    RHO_GRID,
    Budget,
    Number,
    as_fraction,
    decimal_of,
    floor_price,
    root_down,
    round_up,
    zcdp_epsilon,
    zcdp_rho,
)
from pmw.sparse_vector.noisy_comparison import NoiseKind, Sides, ThresholdTest
from queries.frozen import dataclass

_EXACT = 2**40  # a scale with parts up to this is kept as it is
_SCALE_BITS = 40
_GRID = 2**16


class Ratio(enum.Enum):
    """epsilon1 : epsilon2, with c the update limit.

    ``OPTIMAL`` minimises the variance of rho - nu, 2 (Delta/epsilon1)^2 + 2 (2c Delta/epsilon2)^2;
    ``OPTIMAL_MONOTONE`` does so where tests are charged at the monotone rate.

    Source: Lyu, Su and Li (2017), Sections 4.2 and 4.3; the five are those of their Section 6.
    """

    EVEN = "1:1"
    ONE_TO_THREE = "1:3"
    ONE_TO_C = "1:c"
    OPTIMAL = "1:(2c)^(2/3)"
    OPTIMAL_MONOTONE = "1:c^(2/3)"

    def tests_per_threshold(self, update_limit: int) -> Fraction:
        """Return epsilon2/epsilon1; a root is rounded to a multiple of 2^-16, which both shares allow for."""
        whole = {Ratio.EVEN: 1, Ratio.ONE_TO_THREE: 3, Ratio.ONE_TO_C: update_limit}
        if self in whole:
            return Fraction(whole[self])
        base = (2 if self is Ratio.OPTIMAL else 1) * update_limit
        return Fraction(round(float(base) ** (2 / 3) * _GRID), _GRID)


@dataclass(frozen=True, slots=True)
class Split:
    """The shares of one run.

    Args:
        epsilon3: of all released values together; 0 where none is released.
    """

    epsilon1: Fraction
    epsilon2: Fraction
    epsilon3: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for name in ("epsilon1", "epsilon2", "epsilon3"):
            object.__setattr__(self, name, as_fraction(getattr(self, name), name))
        if min(self.epsilon1, self.epsilon2) <= 0 or self.epsilon3 < 0:
            raise BudgetError(
                "expected epsilon1 > 0, epsilon2 > 0 and epsilon3 >= 0, got "
                f"{float(self.epsilon1):g}, {float(self.epsilon2):g} and {float(self.epsilon3):g}"
            )

    @classmethod
    def of(cls, ratio: Ratio, *, epsilon: Number, update_limit: int, values: Number = 0) -> Split:
        """Return the split of ``epsilon`` whose shares add up to it exactly.

        Args:
            values: epsilon3, the part of ``epsilon`` that released values take.
        """
        if update_limit < 1:
            raise BudgetError(f"expected an update limit of at least 1, got {update_limit}")
        third = as_fraction(values, "epsilon3")
        tests = as_fraction(epsilon, "epsilon") - third
        first = tests / (1 + ratio.tests_per_threshold(update_limit))
        return cls(first, tests - first, third)

    @property
    def epsilon(self) -> Fraction:
        """The whole."""
        return self.epsilon1 + self.epsilon2 + self.epsilon3


@dataclass(frozen=True, slots=True)
class Comparison:
    """A noisy comparison before its scales are chosen.

    Args:
        sensitivity: the most that one value changes between neighbours, in units of the values.
        monotone: all values move the same way between neighbours.
    """

    noise: NoiseKind = NoiseKind.LAPLACE
    sides: Sides = Sides.ONE_SIDED
    sensitivity: int = 1
    monotone: bool = False

    @property
    def best_ratio(self) -> Ratio:
        """The ratio epsilon1 : epsilon2 of least variance."""
        return Ratio.OPTIMAL_MONOTONE if self.monotone else Ratio.OPTIMAL

    def priced(self, split: Split, positives: int) -> ThresholdTest:
        """Return the test whose threshold costs epsilon1 and whose ``positives`` cost epsilon2, at most.

        Scales Delta/epsilon1 and m c Delta/epsilon2, rounded up.

        Args:
            split: the prices; epsilon3 plays no part.
            positives: c.

        Raises:
            BudgetError: ``monotone`` cannot hold for these sides, or there is no positive.
        """
        if positives < 1 or self.sensitivity < 1:
            raise BudgetError(
                "expected an update limit of at least 1 and a sensitivity of at least 1, got "
                f"{positives} and {self.sensitivity}"
            )
        rate = 1 if self.monotone else 2
        return ThresholdTest(
            self.noise,
            self.sides,
            self.sensitivity,
            self.monotone,
            scale_up(self.sensitivity / split.epsilon1),
            scale_up(rate * positives * self.sensitivity / split.epsilon2),
        )


def scale_up(scale: Fraction) -> Fraction:
    """Return the scale, or one with short parts that is at most 2^-39 of it larger; never a smaller one.

    Samplers take scales p/q with parts up to 2^50. A scale below 2^-10 keeps a grid of 2^-50.
    """
    if max(scale.numerator, scale.denominator) <= _EXACT:
        return scale
    size = math.floor(scale).bit_length() if scale >= 1 else -int(1 / scale).bit_length() + 1
    return round_up(scale, 2 ** min(50, max(0, _SCALE_BITS - size)))


# --- composition of rounds --------------------------------------------------------------------------------

_DIGITS = 60
_STEPS = 100  # halvings of a search in floating point
_FIRST_SLACK = 2.0**-40
_NEARLY = 1 - 1e-9  # of a limit in floating point: what is nearer to it is decided exactly
_MOST_EXACT = 20_000  # rounds whose exact composition takes a second


class CompositionTheorem(enum.Enum):
    """A bound on c rounds of which each is epsilon0-DP.

    ``BASIC``: c epsilon0.
    ``DWORK_ROTH``: epsilon0 = epsilon/sqrt(8 c ln(1/delta)), where ``ADVANCED`` confirms it.
    ``ADVANCED``: c epsilon0 (e^epsilon0 - 1) + epsilon0 sqrt(2 c ln(1/delta)).
    ``ZCDP``: rho = c epsilon0^2/2, converted at delta.
    ``EXACT``: the smallest epsilon that holds for all such rounds; the other four never beat it.

    Source: Dwork and Roth (2014), Theorems 3.16 and 3.20 and Corollary 3.21; Bun and Steinke (2016),
        Proposition 1.4, with the conversion of ``pmw.privacy.budget.zcdp_rho``; Kairouz, Oh and Viswanath
        (2015), Theorem 3.3.
    """

    BASIC = "basic"
    DWORK_ROTH = "dwork-roth"
    ADVANCED = "advanced"
    ZCDP = "zcdp"
    EXACT = "exact"


def _by_all(bound: Callable[[CompositionTheorem], Fraction]) -> list[Fraction]:
    """Return what each theorem gives that says something; basic composition always does."""
    found = []
    for theorem in CompositionTheorem:
        try:
            found.append(bound(theorem))
        except BudgetError:
            continue
    return found


def round_epsilon(budget: Budget, rounds: int, theorem: CompositionTheorem | None = None) -> Fraction:
    """Return the largest price of one of ``rounds`` rounds that a budget holds, rounded down.

    Args:
        rounds: c, at least 1.
        theorem: the bound; None for the largest price that any of them gives.
    """
    _check_rounds(rounds)
    if theorem is None:
        return max(_by_all(lambda other: round_epsilon(budget, rounds, other)))
    if theorem is CompositionTheorem.BASIC:
        return budget.epsilon / rounds
    if budget.delta == 0:
        raise BudgetError(f"expected delta > 0 for composition by the {theorem.value} theorem, got delta=0")
    if theorem is CompositionTheorem.ZCDP:
        return root_down(2 * floor_price(zcdp_rho(budget) / rounds))
    if theorem is CompositionTheorem.DWORK_ROTH:
        return _dwork_roth_price(budget, rounds)
    if theorem is CompositionTheorem.ADVANCED:
        return _largest(
            lambda price: _advanced_float(price, rounds, budget.delta) <= budget.epsilon,
            lambda price: _advanced(price, rounds, budget.delta) <= budget.epsilon,
            float(budget.epsilon),
        )
    target = float(budget.epsilon)
    return _largest(
        lambda price: _exact_float(price, rounds, target) <= math.log(budget.delta),
        lambda price: composed_delta(price, rounds, budget.epsilon) <= budget.delta,
        max(1.0, 2 * target + 2 * abs(math.log(budget.delta))),
    )


def composed_epsilon(
    price: Fraction, rounds: int, delta: Fraction, theorem: CompositionTheorem | None = None
) -> Fraction:
    """Return the epsilon of ``rounds`` rounds at delta, rounded up.

    Args:
        price: epsilon0 of one round.
        theorem: the bound; None for the smallest that any of them gives.
    """
    _check_rounds(rounds)
    if price <= 0 or not 0 <= delta < 1:
        raise BudgetError(
            f"expected a positive price and 0 <= delta < 1, got {float(price):g} and {float(delta):g}"
        )
    if theorem is None:
        return min(_by_all(lambda other: composed_epsilon(price, rounds, delta, other)))
    if theorem is CompositionTheorem.BASIC:
        return price * rounds
    if delta == 0:
        raise BudgetError(f"expected delta > 0 for composition by the {theorem.value} theorem, got delta=0")
    if theorem is CompositionTheorem.ADVANCED:
        return _advanced(price, rounds, delta)
    if theorem is CompositionTheorem.DWORK_ROTH:
        return _dwork_roth_total(price, rounds, delta)
    if theorem is CompositionTheorem.ZCDP:
        return rho_epsilon(rounds * round_up(price * price / 2, RHO_GRID), delta)
    return _exact_epsilon(price, rounds, delta)


def composed_delta(price: Fraction, rounds: int, epsilon: Fraction) -> Fraction:
    """Return the smallest delta of ``rounds`` epsilon0-DP rounds at epsilon, rounded up.

    delta = sum over i with (c - 2i) epsilon0 > epsilon of
    binomial(c, i) (e^((c-i) epsilon0) - e^(epsilon + i epsilon0)) / (1 + e^epsilon0)^c,
    the hockey-stick divergence of c randomised responses, which dominate every epsilon0-DP round.

    Args:
        price: epsilon0.

    Source: Kairouz, Oh and Viswanath (2015), Theorem 3.3; Murtagh and Vadhan (2016), Theorem 1.5.
    """
    _check_rounds(rounds)
    with decimal.localcontext() as context:
        # A difference loses no more than the digits of its parts, which sum to 1: delta >= 1e-300 keeps 40.
        context.prec = _DIGITS + 320
        one, whole = decimal_of(price), decimal_of(epsilon)
        down, up = (-one).exp(), (whole - rounds * one).exp()
        # With e^(c epsilon0) taken out of numerator and denominator.
        weight, rise, total = 1 / (1 + down) ** rounds, up, Decimal(0)
        step = 1 / down
        for place in range(rounds + 1):
            if (rounds - 2 * place) * price <= epsilon:
                break
            total += weight * (down**place - rise)
            weight = weight * (rounds - place) / (place + 1)
            rise *= step
        return Fraction(total * (1 + Decimal(10) ** (30 - _DIGITS)) + Decimal(10) ** (-_DIGITS - 300))


def require_printed(budget: Budget, rounds: int, *, halved: bool = False) -> None:
    """Refuse a budget that c rounds at the printed price, epsilon0 = epsilon/sqrt(8 c l), do not keep.

    l = ln(1/delta), or ln(2/delta) where delta is ``halved``. The price keeps (epsilon, delta) where

    - c <= 8 l, by basic composition: c epsilon0 = epsilon sqrt(c/(8 l)) <= epsilon;
    - epsilon <= 8 l, by zCDP: rho = c epsilon0^2/2 = epsilon^2/(16 l), and rho + 2 sqrt(rho ln(1/delta)) is
      at most epsilon^2/(16 l) + epsilon/2 <= epsilon;
    - elsewhere where ``composed_delta`` says so, the exact composition of all such rounds. It stops at one
      epsilon, found here by bisection: 126.9 for c = 1,000 and delta = 1e-6.

    Beyond 20,000 rounds the last is not tried: it would hold up to an epsilon a tenth larger.

    Args:
        halved: the price is made for half of delta, and delta is what must hold: as in NumericSparse.

    Source: Dwork and Roth (2014), Corollary 3.21, stated for epsilon < 1, on which Theorems 3.25 and 3.27
        rest, which do not repeat that; Bun and Steinke (2016), Proposition 1.3; Kairouz, Oh and Viswanath
        (2015), Theorem 3.3.
    """
    _check_rounds(rounds)
    if budget.delta == 0:
        return
    epsilon, log = float(budget.epsilon), -math.log(budget.delta / 2 if halved else budget.delta)
    if min(rounds, epsilon) <= 8 * log * _NEARLY:
        return
    root = math.sqrt(8 * rounds * log)
    stops, reached = 8 * log, ""
    if rounds <= _MOST_EXACT:
        price = Fraction(epsilon / root) * Fraction(1 + 2 * (1 - _NEARLY))  # not below the printed one
        if composed_delta(price, rounds, budget.epsilon) <= budget.delta:
            return
        kept = math.log(budget.delta)
        stops, _ = _parted(lambda one: _exact_float(one / root, rounds, one) <= kept, 8 * log, epsilon)
        whole = float(composed_epsilon(Fraction(epsilon / root), rounds, budget.delta))
        reached = f"; here its rounds compose to {whole:.6g}"
    raise BudgetError(
        f"the printed scales do not keep epsilon={epsilon:g}, delta={float(budget.delta):g} with {rounds:,} "
        "positives. Their theorem simplifies advanced composition for a small epsilon (Dwork and Roth 2014, "
        f"Corollary 3.21), and with this delta and limit it stops at epsilon = {math.floor(10 * stops) / 10}"
        f"{reached}. Choose a smaller epsilon, fewer positives, or the scales of composed"
    )


def rho_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the epsilon that rho-zCDP gives at delta > 0, rounded up; the inverse of ``zcdp_rho``."""
    return _smallest_above(
        zcdp_epsilon(float(rho), float(delta)), lambda epsilon: zcdp_rho(Budget(epsilon, delta)) >= rho
    )


def _check_rounds(rounds: int) -> None:
    if rounds < 1:
        raise BudgetError(f"expected at least 1 round, got {rounds}")


def _parted(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return two neighbours, of which a condition that holds at the low end holds at the first alone."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _dwork_roth_price(budget: Budget, rounds: int) -> Fraction:
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        root = (8 * rounds * -decimal_of(budget.delta).ln()).sqrt()
        price = Fraction(decimal_of(budget.epsilon) / root) * (1 - Fraction(1, 10**40))
        price = Fraction(math.floor(price * RHO_GRID), RHO_GRID)
    if price <= 0 or _advanced(price, rounds, budget.delta) > budget.epsilon:
        raise BudgetError(
            f"epsilon={float(budget.epsilon):g} lies outside Dwork and Roth's corollary; use another"
        )
    return price


def _dwork_roth_total(price: Fraction, rounds: int, delta: Fraction) -> Fraction:
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        root = (8 * rounds * -decimal_of(delta).ln()).sqrt()
        total = _ceiling(decimal_of(price) * root)
    if _advanced(price, rounds, delta) > total:
        raise BudgetError(
            f"a price of {float(price):g} lies outside Dwork and Roth's corollary; use the advanced form"
        )
    return total


def _advanced(price: Fraction, rounds: int, delta: Fraction) -> Fraction:
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        one = decimal_of(price)
        root = (2 * rounds * -decimal_of(delta).ln()).sqrt()
        return _ceiling(rounds * one * (one.exp() - 1) + one * root)


def _advanced_float(price: float, rounds: int, delta: Fraction) -> float:
    if price > 700:
        return math.inf
    return rounds * price * math.expm1(price) + price * math.sqrt(-2 * rounds * math.log(delta))


def _exact_epsilon(price: Fraction, rounds: int, delta: Fraction) -> Fraction:
    one, log_delta = float(price), math.log(delta)
    _, high = _parted(
        lambda middle: _exact_float(one, rounds, middle) > log_delta, 0.0, float(price * rounds)
    )
    found = _smallest_above(high, lambda epsilon: composed_delta(price, rounds, epsilon) <= delta)
    return min(found, price * rounds)


def _exact_float(price: float, rounds: int, epsilon: float) -> float:
    """Return ln(delta) of c randomised responses, in floating point."""
    count = min(rounds, math.floor((rounds - epsilon / price) / 2)) + 1
    if count < 1:
        return -math.inf
    places = np.arange(count)
    steps = np.log((rounds - places[:-1]) / (places[:-1] + 1.0))
    binomials = np.concatenate([[0.0], np.cumsum(steps)])
    gaps = epsilon - (rounds - 2 * places) * price
    logs = binomials - places * price - rounds * math.log1p(math.exp(-price))
    with np.errstate(divide="ignore"):
        logs = logs + np.log(-np.expm1(np.minimum(gaps, 0.0)))
    top = float(logs.max())
    return top if math.isinf(top) else top + math.log(float(np.exp(logs - top).sum()))


def _largest(
    likely: Callable[[float], bool], certain: Callable[[Fraction], bool], ceiling: float
) -> Fraction:
    """Return a fraction just below the largest number that holds: searched, then checked exactly."""
    low, _ = _parted(likely, 0.0, ceiling)
    slack = _FIRST_SLACK
    while slack < 1:
        candidate = Fraction(math.floor(Fraction(low) * Fraction(1 - slack) * RHO_GRID), RHO_GRID)
        if candidate > 0 and certain(candidate):
            return candidate
        slack *= 16
    raise BudgetError("expected a budget that holds a round of some price, got a smaller one")


def _smallest_above(guess: float, certain: Callable[[Fraction], bool]) -> Fraction:
    """Return a fraction just above the smallest number that holds, checked exactly."""
    slack = _FIRST_SLACK
    while slack < 2**20:
        candidate = round_up(Fraction(guess) * (1 + Fraction(slack)) + Fraction(1, RHO_GRID), RHO_GRID)
        if certain(candidate):
            return candidate
        slack *= 16
    raise BudgetError("expected rounds whose total is bounded, got dearer ones")


def _ceiling(value: Decimal) -> Fraction:
    return round_up(Fraction(value) * (1 + Fraction(1, 10**40)), RHO_GRID)
