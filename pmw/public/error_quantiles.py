"""Error quantiles: how far answers of a kind were from the truth, released with noise.

The error of an answered question is |q(D) - a|, and ``a`` is public. One person's records move every q(D), so
every error, by at most ``records_per_person`` under both relations, and with them each order statistic: the
k-th smallest of some numbers moves by at most what the largest move of any of them is. So a quantile of the
errors of a public list of questions is one number, at the price of one number.

An interval of an answer holds for its question. An error quantile holds for a list of questions, and for a
new one that is like them: of n + 1 exchangeable errors the last is at most the ceil(c (n + 1))-th smallest
of the others with probability at least c (Vovk, Gammerman and Shafer 2005, "Algorithmic Learning in a Random
World", section 2.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.answer import Basis, QuestionKind
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery

SHARE = Fraction(1, 50)  # of the budget, for all error quantiles together
MOST_CELLS = 2**24  # of the scope of a question whose error is looked at
QUESTION_ATTRIBUTES = 3  # questions on more are of one kind


@dataclass(frozen=True, slots=True)
class ErrorQuantile:
    """A quantile of the errors of answered questions of one kind, as it was released.

    Args:
        asked: how many questions the session had answered.
        questions: how many of them the quantile is of.
        units: the noisy quantile, in units of 2^-20 records.
        noise: its distribution, in units.
    """

    kind: QuestionKind
    asked: int
    questions: int
    units: int
    noise: NoiseDistribution

    def half_width(self, confidence: float) -> float:
        """Return what the quantile is at most, in records, with the given probability over its noise."""
        return max(self.units, 0) / UNITS + quantile_margin(self.noise, confidence)


def quantile_margin(noise: NoiseDistribution, confidence: float) -> float:
    """Return how far below the true quantile the released one is at most, in records.

    The noise is symmetric: it is below -w with half the probability that it is beyond w on either side.
    """
    both = 2 * confidence - 1
    return sum_half_width(noise, 1.0, both, peak=1.0) if both > 0 else 0.0


def rank_of(questions: int, confidence: float) -> int | None:
    """Return which of so many errors, the smallest first, a new one like them does not exceed.

    None where there are too few for the confidence.
    """
    rank = math.ceil(Fraction(str(confidence)) * (questions + 1))
    return rank if rank <= questions else None


def kind_of(query: LinearQuery, basis: Basis) -> QuestionKind | None:
    """Return the kind of a question; None where its error is never looked at.

    The cells decide the question, it is about some attribute, its scope is small enough to be counted, and
    its interval rests on more than released numbers: there intervals are about as narrow as errors are.
    """
    if not query.scope or not query.aligned or query.readings is not None:
        return None
    return kind_over(query.domain, query.scope, basis)


def kind_over(domain: Domain, scope: tuple[str, ...], basis: Basis) -> QuestionKind | None:
    """Return the kind of questions about a scope that the cells decide; see ``kind_of``."""
    if basis in (Basis.RELEASED, Basis.PARTS) or domain.scope_size(scope) > MOST_CELLS:
        return None
    return QuestionKind(min(len(scope), QUESTION_ATTRIBUTES), basis)


def typical_half_width(
    quantiles: Iterable[ErrorQuantile], kind: QuestionKind | None, confidence: float
) -> float | None:
    """Return how far questions of a kind were from the truth, in records; None where nothing was released."""
    found = [one for one in quantiles if one.kind == kind]
    return found[-1].half_width(confidence) if found else None


@dataclass(frozen=True, slots=True)
class TypicalError:
    """How near a part of the answered questions of one kind were.

    Args:
        within: half-width in records.
        within_fraction: the same as a part of all records.
        asked: how many were answered when it was released.
    """

    kind: str
    within: float
    within_fraction: float
    questions: int
    asked: int


def typical_errors(
    quantiles: Iterable[ErrorQuantile], confidence: float, records: float
) -> tuple[TypicalError, ...]:
    """Return the newest quantile of each kind: how near a part of such questions were.

    Args:
        confidence: which part of the questions, and how surely, in (0, 1).
        records: the session's total.
    """
    newest = {one.kind: one for one in quantiles}
    found = list[TypicalError]()
    for kind in sorted(newest, key=lambda kind: (kind.attributes, kind.basis.value)):
        one = newest[kind]
        width = one.half_width(confidence)
        found.append(TypicalError(kind.describe(), width, width / records, one.questions, one.asked))
    return tuple(found)
