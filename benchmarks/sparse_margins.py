"""Margins of sparse vector mechanisms: how far from the threshold a value must be to be told right.

The margin is the smallest alpha such that, with probability 1 - beta, k - c values at T - alpha all come out
below and c at T + alpha all above. The threshold that is used may be T shifted by a public amount, and the
best shift is taken. Probabilities are integrals over the threshold noise, no union bounds. Sensitivity is 1;
where the threshold is redrawn, each round has one value above and an equal share of those below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, logsumexp, ndtri

from benchmarks.sparse_selection import Floats
from pmw.planning.theorems import sparse_accuracy
from pmw.privacy.budget import Budget, as_fraction
from pmw.research.sparse_vectors import algorithm_7, least_query_scale
from pmw.sparse_vector import (
    Comparison,
    CompositionTheorem,
    NoiseKind,
    NoisyComparison,
    Ratio,
    Sech2Test,
    Sides,
    Sparse,
    Split,
    ThresholdNoise,
    round_epsilon,
)
from pmw.sparse_vector.composition import scale_up

BETA = 0.05
_LEAST_SHARE, _MOST_SHARE = 0.005, 0.8


class Stream(NamedTuple):
    """What is tested."""

    queries: int
    positives: int


class Scales(NamedTuple):
    """A mechanism's noise: by names, at scales, of which that of a Gaussian is its standard deviation."""

    threshold_distribution: str
    threshold_scale: float
    test_distribution: str
    test_scale: float
    redrawn: bool = False

    @classmethod
    def of(cls, test: NoisyComparison, *, redrawn: bool) -> Scales:
        """Return the noise of a one-sided test."""
        distribution = str(test.noise.value)
        test_distribution = "sech2" if isinstance(test, Sech2Test) else distribution
        return cls(
            distribution, float(test.threshold_scale), test_distribution, float(test.query_scale), redrawn
        )


def log_success(scales: Scales, stream: Stream, alpha: float, shift: float) -> float:
    """Return ln of the probability that all values at T -+ alpha are told right at threshold T + shift.

    It is ln of E[Pr[below]^(k-c) Pr[above]^c] over the threshold noise; redrawn, c times that of one round.
    """
    nodes, weights = THRESHOLD_DISTRIBUTIONS[scales.threshold_distribution]
    log_above, log_below = TEST_DISTRIBUTIONS[scales.test_distribution]
    rounds = stream.positives if scales.redrawn else 1
    below, above = (stream.queries - stream.positives) / rounds, stream.positives / rounds
    threshold = shift + scales.threshold_scale * nodes
    logs = below * log_below((threshold + alpha) / scales.test_scale)
    logs += above * log_above((threshold - alpha) / scales.test_scale)
    return rounds * float(logsumexp(logs, b=weights))


def margin(scales: Scales, stream: Stream, beta: float = BETA) -> float:
    """Return the margin, to four digits.

    The probability is log-concave in alpha and the shift together, so that both searches have one optimum.
    """
    unit = scales.threshold_scale + scales.test_scale
    reach = 2 * math.log(4 * stream.queries / beta) * unit

    def excess(alpha: float) -> float:
        found = minimize_scalar(
            lambda shift: -log_success(scales, stream, alpha, shift),
            bounds=(-reach, reach),
            method="bounded",
            options={"xatol": 1e-4 * unit},
        )
        return -float(found.fun) - math.log1p(-beta)

    return float(brentq(excess, 0.0, reach, rtol=1e-5))


def best_split(split: Callable[[float], Scales], stream: Stream, beta: float = BETA) -> tuple[float, Scales]:
    """Return the least margin over the share of the threshold, and the scales that give it."""
    found = minimize_scalar(
        lambda log_share: margin(split(math.exp(log_share)), stream, beta),
        bounds=(np.log(_LEAST_SHARE), np.log(_MOST_SHARE)),
        method="bounded",
        options={"xatol": 0.02},
    )
    return float(found.fun), split(math.exp(float(found.x)))


# --- noise --------------------------------------------------------------------------------------------------
# Distributions of the noise in sparse vector tests, as the integrals of the margins need them.
#
# A threshold distribution gives nodes and weights: sum of weights * h(nodes) is E[h(rho)] at scale 1. A test
# distribution gives the logarithms of S(y) = Pr[nu >= y] and of 1 - S(y) at scale 1, where y is threshold +
# threshold noise - value.

# Below this argument a one-sided noise never answers "below". Its probability is 0; a steep line stands for
# its logarithm, so that a search for the best threshold still sees where to go. e^-200 is nothing.
_NEVER = -200.0


def _two_tails(
    quantile: Callable[[Floats], Floats], upper: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return nodes at quantiles p and 1 - p, both tails resolved, and their weights.

    They are Gauss-Legendre nodes on (0, 1/2), on panels that halve towards 0.
    """
    nodes, weights = np.polynomial.legendre.leggauss(10)
    ends = np.concatenate([[0.0], 0.5 ** np.arange(26, 0, -1)])
    widths = np.diff(ends)[:, None]
    places, parts = (ends[:-1, None] + widths * (nodes + 1) / 2).ravel(), (widths * weights / 2).ravel()
    return np.concatenate([quantile(places), upper(places)]), np.concatenate([parts, parts])


def _laplace_above(y: Floats) -> Floats:
    tail = np.exp(-np.abs(y))
    return np.where(y > 0, -y - np.log(2), np.log1p(-tail / 2))


def _exponential_below(y: Floats) -> Floats:
    over = np.maximum(y, 1e-80)
    near = np.log(-np.expm1(-np.minimum(over, 1.0)))
    far = np.log1p(-np.exp(-np.maximum(over, 1.0)))  # keeps what is left where it is almost nothing
    return np.where(y > 1, far, np.where(y > 0, near, _NEVER * (1 - y)))


def _sech2_above(y: Floats) -> Floats:
    over: Floats = np.maximum(y, 0.0)
    logs: Floats = math.log(4) - over - 2 * np.log1p(np.exp(-over))
    return logs


def _sech2_below(y: Floats) -> Floats:
    return np.where(y > 0, 2 * np.log(np.tanh(np.maximum(y, 1e-80) / 2)), _NEVER * (1 - y))


THRESHOLD_DISTRIBUTIONS: dict[str, tuple[Floats, Floats]] = {
    "laplace": _two_tails(lambda p: np.log(2 * p), lambda p: -np.log(2 * p)),
    "exponential": _two_tails(lambda p: -np.log1p(-p), lambda p: -np.log(p)),
    "gaussian": _two_tails(ndtri, lambda p: -ndtri(p)),
    "none": (np.zeros(1), np.ones(1)),
}

TEST_DISTRIBUTIONS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "laplace": (_laplace_above, lambda y: _laplace_above(-y)),
    "exponential": (lambda y: -np.maximum(y, 0.0), _exponential_below),
    "gaussian": (lambda y: np.asarray(log_ndtr(-y)), lambda y: np.asarray(log_ndtr(y))),
    "sech2": (_sech2_above, _sech2_below),
}


# --- prices -------------------------------------------------------------------------------------------------
# Scales that a budget allows, for mechanisms of the literature that the project does not offer.
#
# Floating point, for comparison only: nothing private is drawn at these scales.

ORDERS = 1 + np.geomspace(1e-3, 1e6, 4000)  # of Rényi divergences
_PLACES = np.linspace(-40.0, 40.0, 4001)  # threshold - value, in units of the scale


def converted(divergences: Floats, delta: float) -> float:
    """Return epsilon at delta, the least over ORDERS of D + ln(1 - 1/a) - (ln delta + ln a)/(a - 1).

    Args:
        divergences: float64, shape ORDERS.shape, Rényi divergence at each order.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    excess = ORDERS - 1
    return float(np.min(divergences + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / excess))


def gaussian_sigma(queries: int, positives: int, *, epsilon: float, delta: float) -> float:
    """Return sigma of the Gaussian sparse vector: threshold N(0, sigma^2), kept, and tests N(0, 4 sigma^2).

    Its divergence at order a is c ln(k/c)/(a - 1) + (c + 1) a/(2 sigma^2).

    Source: Zhu and Wang (2020), for c > 1 and a bound k on the queries, as in the authors' program autodp.
    """
    length = positives * math.log(queries / positives) / (ORDERS - 1)

    def spent(log_sigma: float) -> float:
        noise = (positives + 1) * ORDERS / (2 * math.exp(2 * log_sigma))
        return converted(length + noise, delta) - epsilon

    return math.exp(float(brentq(spent, 0.0, 30.0)))


@cache
def uncoupled_scale(positives: int, *, epsilon: float, delta: float) -> float:
    """Return the Laplace scale b of tests without threshold noise, charged by the positive.

    An endless stream of tests with pairs (p, p') of Pr[above], p' at most Delta/b away, costs
    c ln(lambda)/(a - 1) at order a, lambda = sup p^a p'^(1-a) / (1 - (1-p)^a (1-p')^(1-a)) over all places of
    the value and both directions.

    Source: the setting is Cohen and Lyu (2023), target charging; the induction over positives is that of the
        tests with threshold noise, with both outcomes counted.
    """

    def spent(log_scale: float) -> float:
        step = math.exp(-log_scale)
        logs = np.maximum(_log_lambda(step), _log_lambda(-step))
        return converted(positives * logs / (ORDERS - 1), delta) - epsilon

    return math.exp(float(brentq(spent, -1.0, 12.0, xtol=1e-5)))


def _log_lambda(step: float) -> Floats:
    """Return ln lambda at each order; infinite where a stream of tests is not bounded."""
    log_above, log_below = TEST_DISTRIBUTIONS["laplace"]
    above, other = log_above(_PLACES), log_above(_PLACES + step)
    below, beside = log_below(_PLACES), log_below(_PLACES + step)
    found = np.full_like(ORDERS, np.inf)
    for place, order in enumerate(ORDERS):
        stays = order * below + (1 - order) * beside
        if stays.max() >= 0:
            break  # and at all higher orders
        found[place] = np.max(order * above + (1 - order) * other - np.log(-np.expm1(stays)))
    return found


# --- rows ---------------------------------------------------------------------------------------------------
# The rows of the table of margins: mechanisms by name, the noise that a budget allows, and their margins.

EPSILON, DELTA = 1.0, 1e-9
STREAMS = tuple(Stream(queries, positives) for queries in (10**4, 10**6) for positives in (10, 50, 200))
THEOREM, TEXTBOOK = "textbook Sparse, as its theorem says", "textbook Sparse"

Row: TypeAlias = Callable[[Stream], tuple[float, Scales | None]]


def _theorem(stream: Stream, *, delta: float) -> tuple[float, None]:
    found = sparse_accuracy(stream.queries, stream.positives, epsilon=EPSILON, delta=delta, beta=BETA)
    return found, None


def _textbook(stream: Stream, *, delta: float) -> tuple[float, Scales]:
    test = Sparse.textbook(epsilon=EPSILON, delta=delta, update_limit=stream.positives).test
    return _at(Scales.of(test, redrawn=True), stream)


def _at(scales: Scales, stream: Stream) -> tuple[float, Scales]:
    return margin(scales, stream, BETA), scales


def _kept(stream: Stream, *, comparison: Comparison, ratio: Ratio | None) -> tuple[float, Scales]:
    """Threshold noise drawn once, in a given ratio or the best one."""

    def scales(split: Split) -> Scales:
        sparse = algorithm_7(comparison, split, stream.positives)
        return Scales.of(sparse.test, redrawn=sparse.redraw)

    if ratio is None:
        return best_split(lambda share: scales(_shared(share, EPSILON)), stream, BETA)
    return _at(scales(Split.of(ratio, epsilon=EPSILON, update_limit=stream.positives)), stream)


def _redrawn(stream: Stream, *, comparison: Comparison, share: float | None) -> tuple[float, Scales]:
    """c rounds with threshold noise of their own, composed exactly; share None for the best split."""
    each = _round_epsilon(stream.positives)

    def scales(part: float) -> Scales:
        return Scales.of(comparison.priced(_shared(part, each), 1), redrawn=True)

    if share is None:
        return best_split(scales, stream, BETA)
    return _at(scales(share), stream)


def _shared(share: float, epsilon: float) -> Split:
    return Split(as_fraction(share * epsilon, "epsilon1"), as_fraction((1 - share) * epsilon, "epsilon2"))


@cache
def _round_epsilon(rounds: int) -> float:
    return float(round_epsilon(Budget.of(EPSILON, DELTA), rounds, CompositionTheorem.EXACT))


def _gaussian(stream: Stream) -> tuple[float, Scales]:
    sigma = gaussian_sigma(stream.queries, stream.positives, epsilon=EPSILON, delta=DELTA)
    return _at(Scales("gaussian", sigma, "gaussian", 2 * sigma), stream)


def _no_threshold_noise(stream: Stream) -> tuple[float, Scales]:
    return _at(
        Scales("none", 0.0, "laplace", uncoupled_scale(stream.positives, epsilon=EPSILON, delta=DELTA)),
        stream,
    )


def _sech2(stream: Stream, *, monotone: bool) -> tuple[float, Scales]:
    """Exponential threshold noise drawn once, and the sech^2 test, at the best split."""
    budget = Budget.of(EPSILON, DELTA)

    def scales(share: float) -> Scales:
        first = scale_up(1 / as_fraction(share * EPSILON, "epsilon1"))
        test = Sech2Test(ThresholdNoise.EXPONENTIAL, Sides.ONE_SIDED, 1, monotone, first, Fraction(1))
        least = least_query_scale(test, stream.positives, budget)
        return Scales.of(replace(test, query_scale=least), redrawn=False)

    return best_split(scales, stream, BETA)


_LAPLACE, _EXPONENTIAL = Comparison(), Comparison(NoiseKind.EXPONENTIAL)
_LAPLACE_MONOTONE, _EXPONENTIAL_MONOTONE = (replace(one, monotone=True) for one in (_LAPLACE, _EXPONENTIAL))

PURE: dict[str, Row] = {
    THEOREM: partial(_theorem, delta=0.0),
    TEXTBOOK: partial(_textbook, delta=0.0),
    "Lyu-Su-Li Algorithm 1 (1:1)": partial(_kept, comparison=_LAPLACE, ratio=Ratio.EVEN),
    "Lyu-Su-Li Algorithm 7, 1:(2c)^(2/3)": partial(_kept, comparison=_LAPLACE, ratio=Ratio.OPTIMAL),
    "exponential noise": partial(_kept, comparison=_EXPONENTIAL, ratio=None),
    "Lyu-Su-Li Algorithm 7, 1:c^(2/3), monotone": partial(
        _kept, comparison=_LAPLACE_MONOTONE, ratio=Ratio.OPTIMAL_MONOTONE
    ),
    "exponential noise, monotone": partial(_kept, comparison=_EXPONENTIAL_MONOTONE, ratio=None),
}
APPROXIMATE: dict[str, Row] = {
    THEOREM: partial(_theorem, delta=DELTA),
    TEXTBOOK: partial(_textbook, delta=DELTA),
    "textbook split, composed exactly": partial(_redrawn, comparison=_LAPLACE, share=0.5),
    "redrawn Laplace": partial(_redrawn, comparison=_LAPLACE, share=None),
    "redrawn Laplace, monotone": partial(_redrawn, comparison=_LAPLACE_MONOTONE, share=None),
    "redrawn exponential": partial(_redrawn, comparison=_EXPONENTIAL, share=None),
    "redrawn exponential, monotone": partial(_redrawn, comparison=_EXPONENTIAL_MONOTONE, share=None),
    "Gaussian (Zhu and Wang)": _gaussian,
    "Laplace, no threshold noise": _no_threshold_noise,
    "sech^2": partial(_sech2, monotone=False),
    "sech^2, monotone": partial(_sech2, monotone=True),
}


def margin_lines(streams: tuple[Stream, ...] = STREAMS) -> Iterator[dict[str, object]]:
    """Yield a line, ready for JSON, for each budget, stream and mechanism."""
    for delta, rows in ((0.0, PURE), (DELTA, APPROXIMATE)):
        for stream in streams:
            textbook = rows[TEXTBOOK](stream)[0]
            for name, row in rows.items():
                found, scales = row(stream)
                yield {
                    "part": "margins",
                    "epsilon": EPSILON,
                    "delta": delta,
                    **stream._asdict(),
                    "mechanism": name,
                    "margin": float(f"{found:.5g}"),
                    "textbook_over_margin": round(textbook / found, 2),
                    **({} if scales is None else scales._asdict()),
                }
