"""The rows of the table of margins: mechanisms by name, the noise that a budget allows, and their margins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TypeAlias

from benchmarks.sparse_margins import Scales, Stream, best_split, margin
from benchmarks.sparse_prices import gaussian_sigma, uncoupled_scale
from pmw.planning.theorems import sparse_accuracy
from pmw.privacy.budget import Budget, as_fraction
from pmw.research.sparse_vectors import algorithm_7, least_query_scale
from pmw.sparse_vector import (
    Comparison,
    CompositionTheorem,
    NoiseKind,
    Ratio,
    Sech2Test,
    Sides,
    Sparse,
    Split,
    ThresholdNoise,
    round_epsilon,
)
from pmw.sparse_vector.comparison import scale_up

__all__ = ["APPROXIMATE", "BETA", "margin_lines", "PURE", "Row", "STREAMS", "TEXTBOOK", "THEOREM"]

EPSILON, DELTA, BETA = 1.0, 1e-9, 0.05
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


@cache
def _uncoupled(positives: int) -> float:
    return uncoupled_scale(positives, epsilon=EPSILON, delta=DELTA)


def _gaussian(stream: Stream) -> tuple[float, Scales]:
    sigma = gaussian_sigma(stream.queries, stream.positives, epsilon=EPSILON, delta=DELTA)
    return _at(Scales("gaussian", sigma, "gaussian", 2 * sigma), stream)


def _no_threshold_noise(stream: Stream) -> tuple[float, Scales]:
    return _at(Scales("none", 0.0, "laplace", _uncoupled(stream.positives)), stream)


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


@dataclass(frozen=True, slots=True)
class _Base:
    """What margins are compared with."""

    theorem: float
    textbook: float


def margin_lines(streams: tuple[Stream, ...] = STREAMS) -> Iterator[dict[str, object]]:
    """Yield a line, ready for JSON, for each budget, stream and mechanism."""
    for delta, rows in ((0.0, PURE), (DELTA, APPROXIMATE)):
        for stream in streams:
            base = _Base(rows[THEOREM](stream)[0], rows[TEXTBOOK](stream)[0])
            for name, row in rows.items():
                found, scales = row(stream)
                yield {
                    "part": "margins",
                    "epsilon": EPSILON,
                    "delta": delta,
                    **asdict(stream),
                    "mechanism": name,
                    "margin": float(f"{found:.5g}"),
                    "textbook_over_margin": round(base.textbook / found, 2),
                    "theorem_over_margin": round(base.theorem / found, 2),
                    **({} if scales is None else asdict(scales)),
                }
