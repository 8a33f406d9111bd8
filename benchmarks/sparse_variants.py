"""The sparse vector variants of Lyu, Su and Li (2017), what sets them apart, and selection in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks.sparse_margins import Scales, Stream, best_split, margin
from pmw.errors import BudgetError
from pmw.planning.theorems import above_threshold_accuracy
from pmw.sparse_vector import AboveThreshold

__all__ = ["closed_form_lines", "exponential_mechanism_accuracy", "Variant", "variant_lines", "VARIANTS"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One algorithm at sensitivity 1, as the scales of its noise and what it tells.

    Args:
        algorithm: number in the paper.
        origin: where it was published.
        threshold_scale: of the Laplace threshold noise.
        redrawn: the threshold noise is drawn again after each positive.
        test_scale: of the Laplace test noise; "0" where there is none.
        tells: what a positive releases.
        stops: it halts after c positives.
        private: its guarantee, where it is meant to be epsilon-DP.
    """

    algorithm: int
    origin: str
    threshold_scale: str
    redrawn: bool
    test_scale: str
    tells: str
    stops: bool
    private: str


_HALF = "2/e"  # 1/epsilon1 at epsilon1 = epsilon/2
VARIANTS = (
    Variant(1, "Lyu, Su and Li 2017", _HALF, False, "4c/e", "above", True, "e"),
    Variant(2, "Dwork and Roth 2014", "2c/e", True, "4c/e", "above", True, "e"),
    Variant(3, "Roth 2011", _HALF, False, "2c/e", "value under the test's noise", True, "none"),
    Variant(4, "Lee and Clifton 2014", "4/e", False, "4/(3e)", "above", True, "(1+6c)/4 e"),
    Variant(5, "Stoddard et al. 2014", _HALF, False, "0", "above", False, "none"),
    Variant(6, "Chen et al. 2015", _HALF, False, _HALF, "above", False, "none"),
    Variant(
        7, "Lyu, Su and Li 2017", "1/e1", False, "2c/e2", "value under fresh noise c/e3", True, "e1+e2+e3"
    ),
)


def variant_lines() -> Iterator[dict[str, object]]:
    """Yield a line, ready for JSON, for each variant."""
    for variant in VARIANTS:
        yield {"part": "variants", **asdict(variant)}


def exponential_mechanism_accuracy(queries: int, *, epsilon: float, beta: float) -> float:
    """Return alpha of the exponential mechanism: (ln(k - 1) + ln((1 - beta)/beta)) / epsilon.

    With k - 1 scores at T - alpha and one at T + alpha, weights e^(epsilon score/2) find the one with
    probability e^(epsilon alpha) / (k - 1 + e^(epsilon alpha)), and this alpha makes it 1 - beta.

    Args:
        queries: k, at least 2.
        epsilon: of the guarantee.
        beta: failure probability.

    Raises:
        BudgetError: a parameter is out of range.

    Source: Lyu, Su and Li (2017), Section 5.
    """
    if queries < 2 or not 0 < epsilon < math.inf or not 0 < beta < 1:
        raise BudgetError(
            f"expected queries >= 2, epsilon > 0 and 0 < beta < 1, got queries={queries}, "
            f"epsilon={epsilon!r}, beta={beta!r}"
        )
    return (math.log(queries - 1) + math.log((1 - beta) / beta)) / epsilon


def closed_form_lines(*, epsilon: float = 1.0, beta: float = 0.05) -> Iterator[dict[str, object]]:
    """Yield a line for each k: alpha to find one score among k, by theorem and exactly.

    The exponential mechanism's form is exact; that of AboveThreshold is a union bound, so that its exact
    margin stands beside it, and that of exponential noise at the best split.
    """
    textbook = Scales.of(AboveThreshold.textbook(epsilon=epsilon).test, redrawn=False)
    for queries in (10**2, 10**3, 10**4, 10**5, 10**6):
        stream = Stream(queries, 1)
        offline = exponential_mechanism_accuracy(queries, epsilon=epsilon, beta=beta)
        theorem = above_threshold_accuracy(queries, epsilon=epsilon, beta=beta)
        best, _ = best_split(lambda share: _exponential(share, epsilon), stream, beta)
        yield {
            "part": "closed-forms",
            "queries": queries,
            "epsilon": epsilon,
            "beta": beta,
            "alpha_svt": round(theorem, 2),
            "alpha_em": round(offline, 2),
            "ratio": round(theorem / offline, 2),
            "alpha_svt_exact": round(margin(textbook, stream, beta), 2),
            "alpha_exponential_noise_exact": round(best, 2),
        }


def _exponential(share: float, epsilon: float) -> Scales:
    return Scales("exponential", 1 / (share * epsilon), "exponential", 2 / ((1 - share) * epsilon))
