"""Plans of the question test: the sparse vector, its threshold and its limit, from public numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from pmw.errors import NoiseError
from pmw.planning.calibration import calibrated_noise, query_statistic, scaled_test
from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.public.contract import Options
from pmw.public.plans import QueryTestPlan
from pmw.public.sensitivity import query_sensitivity
from pmw.sparse_vector import NumericSparse, Sides, Sparse
from queries.domain import Domain
from queries.linear import UNITS

__all__ = [
    "plan_query_test",
    "plan_query_tier",
]


VALUE_SHARE = Fraction(15, 100)  # of what is left after opening, for released values; the rest is for tests


_BETA = 0.05  # failure probability in the split between threshold and test noise


def plan_query_test(
    domain: Domain, budget_filter: PrivacyFilter, total: float, options: Options
) -> QueryTestPlan | None:
    """Return the sparse vector of the query test, or None where nothing is left for it.

    T = b ln(sides * expected_queries / c): on a model without error, test noise alone would raise about one
    false positive per update over the expected stream, and threshold noise, never negative, keeps most of
    those away. eta = 4 T/total maximises the drop of the potential, eta g - eta^2/8 at a gap g = T/total.

    Args:
        domain: the declared attributes.
        budget_filter: what is left after opening.
        total: the released number of records.
        options: the custodian's choices.

    Source: Hardt and Rothblum (2010) and Dwork and Roth (2014), Section 4.2, for the algorithm; Hoeffding's
        lemma in place of their e^x <= 1 + x + x^2 for eta.
    """
    try:
        limit = options.update_limit or _choose_update_limit(domain, budget_filter, total, options)
        vector = _vector(budget_filter, limit, options)
    except NoiseError:
        return None  # scales beyond what noise is made for: the budget is practically spent
    if options.threshold is not None:
        threshold = math.ceil(options.threshold * UNITS)
    else:
        threshold = math.ceil(_threshold(vector.sparse, options))
    gap = threshold / UNITS / max(total, 1.0)
    return QueryTestPlan(vector, threshold, options.learning_rate or min(4 * gap, 10.0))


def _threshold(sparse: Sparse, options: Options) -> float:
    tests = (2 if sparse.test.sides is Sides.TWO_THRESHOLDS else 1) * options.expected_queries
    return float(sparse.test.query_scale) * max(1.0, math.log(tests / sparse.update_limit))


def _choose_update_limit(domain: Domain, budget_filter: PrivacyFilter, total: float, options: Options) -> int:
    """Return nine times the cube root of the limit that minimises the worst-case bound.

    Worst case, the error is n sqrt(ln|X|/(2c)) + b ln(4K/beta) + b1 ln(4/beta) (docs/algorithm.md), which
    counts on the most stubborn table; on real tables a refit needs far fewer updates. The rule was chosen on
    random streams over tables of 500 to 255,000 records; limits within a factor of two of it differ little.
    """
    spread = max(total, 1.0) * math.sqrt(math.log(max(domain.size, 2)) / 2)
    best, smallest = 1, math.inf
    limit = 1
    while limit <= options.expected_queries:
        try:
            test = _vector(budget_filter, limit, options).sparse.test
        except NoiseError:
            break
        margin = float(test.query_scale) * math.log(4 * options.expected_queries / _BETA)
        margin += float(test.threshold_scale) * math.log(4 / _BETA)
        bound = spread / math.sqrt(limit) + margin / UNITS
        if bound < smallest:
            best, smallest = limit, bound
        limit = max(limit + 1, math.ceil(limit * 1.2))
    return max(1, min(round(9 * math.cbrt(best)), options.expected_queries))


def plan_query_tier(
    budget_filter: PrivacyFilter, share: Fraction, limit: int, options: Options
) -> QueryTestPlan | None:
    """Return the test of single questions beside a test of marginals, for a share of what is left."""
    cap = floor_price(share * budget_filter.remaining)
    if cap <= 0:
        return None
    try:
        vector = _vector(replace(budget_filter, cap=cap, spent=Fraction(0)), limit, options)
    except NoiseError:
        return None
    return QueryTestPlan(vector, math.ceil(_threshold(vector.sparse, options)), 1.0)


def _vector(budget_filter: PrivacyFilter, limit: int, options: Options) -> NumericSparse:
    left = budget_filter.remaining
    value = floor_price(VALUE_SHARE * left / limit)
    composition = budget_filter.composition
    kind = options.chosen_sparse_vector(composition)
    test = scaled_test(left - limit * value, limit, query_statistic(options), kind, composition)
    noise = calibrated_noise(composition, value, query_sensitivity(options), options, one=True)
    return NumericSparse(Sparse(test, limit, kind.redraw), noise)
