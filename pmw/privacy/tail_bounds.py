"""Noise bounds: how far sums of exact noise stray, and what negatives and measurements promise together.

Everything here is computed from public scales. Widths are in records, noise distributions in units of 2^-20
records. A width w at a confidence 1 - beta means: the probability of straying beyond w is at most beta.

From discrete noise to continuous noise, for both distributions. Let X be a cell's noise in units.
  Laplace: X is the difference of two geometric numbers, and floor(b E) is geometric for E ~ Exp(1). So
  X + U = b (E1 - E2), continuous Laplace noise, with U, the difference of two fractional parts, independent
  of X, centred and in (-1, 1).
  Gaussian: for U ~ N(0, 2^2) the density of X + U is that of N(0, sigma^2 + 4) times a factor within
  1 +- 3 e^(-2 pi^2 tau^2), 1/tau^2 = 1/sigma^2 + 1/4 (Poisson summation; Regev 2009, Claim 3.9). For sigma of
  8 units and more tau^2 >= 3.7: the factor is within 1 +- 1e-31 for a cell, 1 +- 1e-22 for 10^9 of them.
So for independent V and U', Pr[|V| > t] <= Pr[|V + U'| > t - g] / Pr[|U'| <= g]: the discrete sum strays
beyond t hardly more often than the continuous one beyond t - g, g a few units per root of the squared
weights. With 18 of them the denominator is above 1 - 1e-18 for either distribution (Hoeffding; nine
standard deviations).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pmw.errors import PMWError
from pmw.privacy.budget import decimal_of
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from queries.factors import UNITS

_SMOOTHING = 2.0  # units: the standard deviation of U beside a discrete Gaussian
_LEAST_SIGMA = 8  # units, from which on X + U is as good as Gaussian
_GRID = 18.0  # g, in units per root of the squared weights
_MOST_EQUAL_CELLS = 4096  # a Laplace sum of more is taken for one of so many, hardly wider
_NODES = 1024  # of an integral over the mixing distribution
_QUADRATURE = 1e-3  # relative error of the integral that is allowed for
_STEP_OF_FEW = 1 / 512  # of the lattice, in scales: up to 64 cells
_STEP_OF_MANY = 1 / 128
_LATTICE_CELLS = 2048
_LATTICE_BETA = 1e-9  # below, rounding in the transform would show
_REACH_DIGITS = 100
_REACH_MARGIN = Decimal(10) ** -60  # units: scales below 2^50 leave 80 digits behind the point
_ROUNDING = 1e-12  # of a tail probability after the transform


def l1_mean(noise: NoiseDistribution) -> float:
    """Return E|X| of one cell's noise, in records.

    Laplace: 1/sinh(1/b), a little below b. Gaussian: sigma sqrt(2/pi) (1 - 1/(12 sigma^2) - ...) in units,
    by Euler-Maclaurin, summed directly where sigma is at most 64 units.
    """
    if isinstance(noise, DiscreteLaplace):
        step = 1 / float(noise.scale)
        return (1 / math.sinh(step) if step < 700 else 0.0) / UNITS
    sigma = float(noise.sigma)
    if noise.sigma > 64:
        return sigma * math.sqrt(2 / math.pi) * (1 - 1 / (12 * sigma**2)) / UNITS
    support = np.arange(math.ceil(40 * sigma) + 2, dtype=np.int64)
    return float(2 * np.sum(support * noise.pmf(support))) / UNITS


def least_reach(noise: DiscreteLaplace, chance: Fraction) -> int:
    """Return the least whole number t, 1 or more, that noise reaches with at most this probability, in units.

    P(X >= t) = r^t / (1 + r) for t >= 1, r = e^(-1/b), so t is b ln(1/(chance (1 + r))), rounded up. The
    logarithms have 100 digits, and what is far less than a unit is added, so that t is never too small.

    Args:
        chance: above 0.
    """
    if chance <= 0:
        raise PMWError("expected a chance above 0: noise reaches every number with some")
    with decimal.localcontext() as context:
        context.prec = _REACH_DIGITS
        scale = decimal_of(noise.scale)
        twice = 1 + (-1 / scale).exp()
        reach = scale * -(decimal_of(chance) * twice).ln()
        return max(1, math.ceil(reach + _REACH_MARGIN))


def sum_half_width(
    noise: NoiseDistribution, squares: float, confidence: float, *, peak: float | None = None
) -> float:
    """Return w such that |sum_i w_i X_i| <= w with at least the given probability, for weights fixed before.

    Gaussian: the normal quantile times sqrt((sigma^2 + 4) squares), plus the grid's 18 sqrt(squares).
    Laplace: b sqrt(2 squares) times the quantile of ``_laplace_quantile``, plus the same.

    Args:
        squares: sum of w_i^2 over the cells that were measured.
        peak: the largest w_i^2, where known (1 for weights in [0, 1]): noise spread over many cells is nearer
            to Gaussian. It matters for Laplace noise only.
    """
    beta = _failure(confidence)
    if squares <= 0:
        return 0.0
    root = math.sqrt(squares)
    if isinstance(noise, DiscreteLaplace):
        quantile = _laplace_quantile(_equal_cells(squares, peak), beta)
        return root * (math.sqrt(2) * float(noise.scale) * quantile + _GRID) / UNITS
    if noise.sigma < _LEAST_SIGMA:  # subgaussian at every sigma: Canonne, Kamath and Steinke (2020), Fact 18
        return root * float(noise.sigma) * math.sqrt(2 * math.log(2 / beta)) / UNITS
    return root * (_smoothed(noise) * NormalDist().inv_cdf(1 - beta / 2) + _GRID) / UNITS


def sum_half_widths(
    noise: NoiseDistribution, squares: NDArray[np.float64], confidence: float, *, peak: float | None = None
) -> NDArray[np.float64]:
    """Return ``sum_half_width`` of many sums: float64, of the shape of the squares."""
    if isinstance(noise, DiscreteGaussian):
        return np.sqrt(squares) * sum_half_width(noise, 1.0, confidence)
    values, places = np.unique(squares, return_inverse=True)
    widths = [sum_half_width(noise, one, confidence, peak=peak) for one in values.tolist()]
    return np.array(widths, dtype=np.float64)[places].reshape(squares.shape)


def simultaneous_half_width(noise: NoiseDistribution, cells: int, confidence: float) -> float:
    """Return w such that, with the given probability, |sum_i w_i X_i| <= w for all weights in [0, 1] at once.

    The supremum over weights is max(P, N), the sums of the positive and of the negative parts, which have one
    distribution: each is beyond w with probability at most beta/2. Of the positive parts' sum the bound is
        the less of
      - Chernoff's: min over lambda of (cells ln E e^(lambda X+) + ln(2/beta)) / lambda, each valid;
      - for at most 2048 cells, the quantile of the exact convolution, X+ rounded up to 1/128 of a scale.
    The grid adds at most 2 cells + 18 sqrt(cells) units: for Laplace noise X+ is below b E + 1, and for
    Gaussian noise the sum of |U_i| is at most that but for a probability of e^(-81/2).

    It holds for a question chosen after the noisy numbers were seen.
    """
    beta = _failure(confidence)
    if cells <= 0:
        return 0.0
    laplace = isinstance(noise, DiscreteLaplace)
    width = _positive_sum_quantile(laplace, cells, beta / 2)
    grid = 2 * cells + _GRID * math.sqrt(cells)
    scale = float(noise.scale) if isinstance(noise, DiscreteLaplace) else _smoothed(noise)
    return (scale * width + grid) / UNITS


def certificate_half_width(
    statistic: float, total_error: float, cells: int, *, weights: tuple[float, float] = (0.0, 1.0)
) -> float:
    """Return how far a query constant on the tested cells may be from the model's answer, in records.

    With d_i = count_i(D) - round(count_i(A)), S >= sum |d_i| and delta = sum d_i, for any number m

        sum w_i d_i = sum (w_i - m) d_i + m delta,   so   |sum w_i d_i| <= max |w_i - m| S + |m delta|;

    m = (least + greatest)/2 gives (greatest - least)/2 S + (greatest + least)/2 |delta|, which is
    (S + |delta|)/2 for weights in [0, 1]. Rounding the model moves each count by at most half a
    unit: delta by at most cells/2 units, and the model's answer by at most max |w_i| cells/2. Both are added.

    Args:
        statistic: S, a bound on the sum of |d_i|, in records.
        total_error: a bound on |number of records - the model's total|, in records; 0 under replace-one.

    Privacy: none is touched: S and the total_error are bounds from released numbers.
    """
    least, greatest = weights
    rounding = cells / (2 * UNITS)
    middle, largest = abs(least + greatest) / 2, max(abs(least), abs(greatest))
    return (greatest - least) / 2 * statistic + middle * (total_error + rounding) + largest * rounding


def split_confidence(confidence: float, events: int) -> float:
    """Return the confidence at which each of several bounds must hold, so that all hold at the given one.

    1 - beta/events, by the union bound; the bounds need not be independent.

    The bounds of certificates need it where threshold noise is redrawn: events is then the most rounds that
    the session can open. A round lasts longer the higher its threshold came out, so a question at a fixed
    place of the stream meets high thresholds more often than a fresh draw would be high, and beta for each
    round by itself promises too much. One draw that is kept for all rounds needs no split.
    """
    return 1 - _failure(confidence) / events


def _failure(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise PMWError(f"expected a confidence strictly between 0 and 1, got {confidence}")
    return 1 - confidence


def _equal_cells(squares: float, peak: float | None) -> int:
    """Return a number of at most squares/peak: a power of 2, so that few quantiles are computed."""
    if peak is None or squares < 2 * peak:
        return 1
    return int(min(2.0 ** math.floor(math.log2(squares / peak)), _MOST_EQUAL_CELLS))


def _smoothed(noise: DiscreteGaussian) -> float:
    """Return the scale of X + U in units; a narrower one is below one of the least width, cell by cell."""
    return math.hypot(max(float(noise.sigma), _LEAST_SIGMA), _SMOOTHING)


def _normal_tails(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Pr[|Z| > value] of a standard normal Z."""
    return np.array([math.erfc(value / math.sqrt(2)) for value in values.tolist()], dtype=np.float64)


@lru_cache(maxsize=1024)
def _laplace_quantile(cells: int, beta: float) -> float:
    """Return t such that a weighted sum of Laplace noise of unit variance is beyond t with at most beta.

    It holds for all weights of which no square exceeds 1/cells of their sum.

    Laplace noise is normal noise of random variance: the sum is Z sqrt(V), V = sum p_i E_i, E_i ~ Exp(1), p_i
    the shares of the squares. V is below G/cells, G ~ Gamma(cells), in convex order, for (p_i) is majorised
    by equal shares over so many cells. Pr[|Z| > t/sqrt(v)] =: g(v) is convex up to v = t^2/3 and concave
    beyond, so for a tangent to g at any v1 >= t^2/3 the larger of g and the tangent is convex, and

        Pr[|sum| > t] = E g(V) <= E max(g, tangent)(V) <= E max(g, tangent)(G/cells).

    The least over four tangents is taken, and t from a fine grid. For one cell it is 2 % above the exact
    quantile at 95 %, and it tends to the exact one for many cells or high confidence.
    """
    spread = 12 / math.sqrt(cells) + (40 - 2 * math.log(beta)) / cells
    low, high = max(0.0, 1 - 12 / math.sqrt(cells)), 1 + spread
    step = (high - low) / _NODES
    nodes = low + step * (np.arange(_NODES, dtype=np.float64) + 0.5)
    log_density = cells * math.log(cells) + (cells - 1) * np.log(nodes) - cells * nodes - math.lgamma(cells)
    weights = np.exp(log_density) * step
    return _first_below(lambda t: _mixed_tail(t, nodes, weights) * (1 + _QUADRATURE), beta)


def _mixed_tail(t: float, nodes: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the least of E max(g, tangent) over some tangents, V on nodes."""
    tails = _normal_tails(t / np.sqrt(nodes))
    inflection = t * t / 3
    bounds = []
    for touched in {inflection, max(inflection, 1.0), 1.3 * inflection, 1.8 * inflection}:
        ratio = t / math.sqrt(touched)
        slope = ratio * math.exp(-ratio * ratio / 2) / (math.sqrt(2 * math.pi) * touched)
        tangent = math.erfc(ratio / math.sqrt(2)) + slope * (nodes - touched)
        bounds.append(float(np.sum(weights * np.maximum(tails, tangent))))
    return min(bounds)


def _first_below(tail: Callable[[float], float], beta: float) -> float:
    """Return where a falling function is at most beta: the first such of 2^40 places up to a power of 2.

    Places are guessed by the Illinois method on logarithms, a dozen in all, where halving takes forty.

    Source: Dowell and Jarratt (1971), a modified regula falsi method for computing the root of an equation.
    """
    start, last = 0.0, 1.0
    over, under = 0.0, _log_ratio(tail(last), beta)  # at the two ends; 0 where it is not known
    while under > 0:
        start, last, over = last, 2 * last, under
        under = _log_ratio(tail(last), beta)
    low, high, step = 0, 2**40, (last - start) / 2**40  # every place is exact
    rose = fell = False
    while high - low > 1:
        guess = low + round((high - low) * (over / (over - under) if over else 0.5))
        place = min(max(guess, low + 1), high - 1)
        value = _log_ratio(tail(start + place * step), beta)
        if value > 0:
            low, over, under = place, value, under / (2 if rose else 1)
        else:
            high, under, over = place, value, over / (2 if fell else 1)
        rose, fell = value > 0, value <= 0
    return start + high * step


def _log_ratio(probability: float, beta: float) -> float:
    """Return ln(probability / beta), above 0 exactly where the former is larger; finite."""
    ratio = math.log(max(probability, 1e-300) / beta)
    return max(ratio, math.ulp(0.0)) if probability > beta else min(ratio, 0.0)


@lru_cache(maxsize=1024)
def _positive_sum_quantile(laplace: bool, cells: int, beta: float) -> float:
    """Return t that the positive parts of continuous noise of scale 1 sum up beyond with at most beta."""
    bound = _chernoff(laplace, cells, beta)
    if cells > _LATTICE_CELLS or beta < _LATTICE_BETA:
        return bound
    return min(bound, _lattice_quantile(laplace, cells, beta))


def _chernoff(laplace: bool, cells: int, beta: float) -> float:
    """Return min over lambda of (cells ln E e^(lambda X+) + ln(1/beta)) / lambda, by golden section.

    E e^(lambda X+) is 1/2 + e^(lambda^2/2) Phi(lambda), or 1/2 + 1/(2 (1 - lambda)) for lambda < 1. The
    logarithm is convex, so the ratio has one minimum.
    """
    log = -math.log(beta)

    def bound(place: float) -> float:
        rate = math.exp(place)
        if laplace:
            rate /= 1 + rate
            growth = math.log1p(rate / (2 * (1 - rate)))
        else:
            # e^(x^2/2) Phi(x) - 1/2, without cancelling where x is small
            half = math.exp(rate * rate / 2)
            growth = math.log1p((half - 1) / 2 + half * math.erf(rate / math.sqrt(2)) / 2)
        return (cells * growth + log) / rate

    low, high = -25.0, 12.0 if laplace else math.log(30)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if bound(left) < bound(right) else (left, high)
    return bound((low + high) / 2)


def _lattice_quantile(laplace: bool, cells: int, beta: float) -> float:
    """Return the quantile of the sum of positive parts that were rounded up to a lattice, by one transform.

    What a transform of this length folds over, what single cells have beyond their table, and rounding weigh
    less than 1e-12 each; beta is lowered by all three.
    """
    reach = 52.0 if laplace else 10.5  # a single cell is beyond with less than 1e-22
    step = _STEP_OF_FEW if cells <= 64 else _STEP_OF_MANY
    ends = np.arange(math.ceil(reach / step) + 1, dtype=np.float64) * step
    above = np.exp(-ends) / 2 if laplace else _normal_tails(ends) / 2
    distribution = np.concatenate(([0.5], above[:-1] - above[1:]))
    longest = _chernoff(laplace, cells, _ROUNDING / 10) + cells * step
    length = 2 ** math.ceil(math.log2(max(longest / step, len(distribution)) + 2))
    total = np.fft.irfft(np.fft.rfft(distribution, length) ** cells, length)
    tail = np.cumsum(total[::-1])[::-1]  # at each place, the probability of it and beyond
    beyond = np.append(tail[1:], 0.0)
    return float(np.flatnonzero(beyond <= beta - 3 * _ROUNDING)[0]) * step
