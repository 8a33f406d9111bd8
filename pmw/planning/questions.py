"""Plans of the question test: the sparse vector, its threshold and its limit, from public numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

from pmw.errors import NoiseError
from pmw.model import half_width
from pmw.planning.calibration import calibrated_noise, query_statistic, scaled_test
from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.public.confidences import negative_margin
from pmw.public.contract import Options
from pmw.public.plans import QueryTestPlan
from pmw.public.sensitivity import query_sensitivity
from pmw.sparse_vector import NumericSparse, Sides, Sparse
from queries.domain import Domain
from queries.factors import UNITS

VALUE_SHARE = Fraction(15, 100)  # of what is left after opening, for released values; the rest is for tests


_MOST_PARTS = 50  # of a hundred: for values under an accuracy contract, which cost far less than tests
_FALSE = 0.1  # of the positives under an accuracy contract, on a model without error
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


def _threshold(sparse: Sparse, options: Options, false_positives: float = 1.0) -> float:
    """Return the threshold at which test noise alone raises so many positives for each that there may be."""
    tests = (2 if sparse.test.sides is Sides.TWO_THRESHOLDS else 1) * options.expected_queries
    return float(sparse.test.query_scale) * max(1.0, math.log(tests / sparse.update_limit / false_positives))


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


def plan_contract_tier(
    budget_filter: PrivacyFilter,
    share: Fraction,
    least: int,
    options: Options,
    confidence: Callable[[QueryTestPlan], float],
) -> QueryTestPlan | None:
    """Return the test of single questions that gives each of its answers the bar of an accuracy contract.

    It has the most positives at which a negative, and a measured value, are within the contract: T is the
    highest threshold of which a negative promises that, and high enough that on a model without error test
    noise alone uses up a tenth of the positives. With exponential noise T is about half of the bar.

    Args:
        budget_filter: what is left after opening.
        share: of that, for this test.
        least: the fewest positives.
        options: the custodian's choices, with an accuracy.
        confidence: of one noise of a session with such a tier.

    Returns:
        None where not even the fewest positives can be paid.
    """
    limit = options.bar_limit
    cap = floor_price(share * budget_filter.remaining)
    if limit is None or cap <= 0:
        return None
    left = replace(budget_filter, cap=cap, spent=Fraction(0))

    @cache
    def plan(positives: int) -> QueryTestPlan | None:
        """Return the test with so many positives, and no more for their values than the bar needs."""
        for part in range(1, _MOST_PARTS):
            try:
                vector = _vector(left, positives, options, Fraction(part, 100))
            except NoiseError:
                continue
            found = QueryTestPlan(vector, math.ceil(_threshold(vector.sparse, options, _FALSE)), 1.0)
            alone = confidence(found)
            if half_width(vector.value_noise, alone) <= limit:
                highest = math.floor(limit * UNITS - 1 - negative_margin(found, alone))
                return replace(found, threshold=highest) if highest >= found.threshold else None
        return None

    return _most(plan, least, options.expected_queries)


def _most(plan: Callable[[int], QueryTestPlan | None], least: int, most: int) -> QueryTestPlan | None:
    """Return the plan with the most positives, from the fewest on; None where these have none."""
    if plan(least) is None:
        return None
    low, high = least, 2 * least
    while high < most and plan(high) is not None:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if plan(middle) is None else (middle, high)
    return plan(low)


def _vector(
    budget_filter: PrivacyFilter, limit: int, options: Options, value_share: Fraction = VALUE_SHARE
) -> NumericSparse:
    left = budget_filter.remaining
    value = floor_price(value_share * left / limit)
    composition = budget_filter.composition
    kind = options.chosen_sparse_vector(composition)
    test = scaled_test(left - limit * value, limit, query_statistic(options), kind, composition)
    noise = calibrated_noise(composition, value, query_sensitivity(options), options, one=True)
    return NumericSparse(Sparse(test, limit, kind.redraw), noise)
