"""Planning: noise scales, thresholds and limits, chosen from public numbers before anything is drawn.

Nothing here sees a record: inputs are the schema, the budget, the custodian's options and, for the tests, the
released total. Scales are rounded up and shares down, so that what is charged never exceeds what was planned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pmw.accounting import PrivacyFilter, open_filter
from pmw.errors import BudgetError, NoiseError
from pmw.model.measurement import NoiseLaw
from pmw.noise import DiscreteGaussian, DiscreteLaplace
from pmw.policy import Opening, OpeningPlan, Options, QueryTestPlan
from pmw.privacy import RHO_GRID, Budget, Composition, NeighboringRelation
from pmw.sparse_vector import NumericSparse, Sides, Sparse, ThresholdTest
from queries.domain import Domain
from queries.linear import UNITS

__all__ = [
    "check_neighbors",
    "choose_filter",
    "l1_sensitivity",
    "l2_squared_sensitivity",
    "plan_opening",
    "plan_query_test",
    "query_sensitivity",
]

# Shares of the budget. Chosen on random streams with other seeds than the benchmark's; the stream errors are
# flat around them (docs/algorithm.md).
TOTAL_SHARE = Fraction(1, 100)
OPENING_SHARE = Fraction(10, 100)
VALUE_SHARE = Fraction(15, 100)  # of what is left after opening, for released values; the rest is for tests
_BETA = 0.05  # failure probability in the split between threshold and test noise


def check_neighbors(domain: Domain, options: Options) -> None:
    """Refuse a schema that could drop a record where the number of records is public.

    Raises:
        BudgetError: under replace-one an attribute lacks a cell for empty or for undeclared values.
    """
    if options.neighboring_relation is NeighboringRelation.ADD_REMOVE:
        return
    for attribute in domain:
        if not (attribute.missing and attribute.other):
            raise BudgetError(
                f"under replace-one no record may be dropped, but attribute {attribute.name!r} drops "
                "records with empty or undeclared values; declare missing = true and other = true"
            )


def query_sensitivity(options: Options) -> int:
    """Return how much one person changes a query's answer, in units: weights lie in [0, 1]."""
    return options.records_per_person * UNITS


def l1_sensitivity(options: Options) -> int:
    """Return how much one person changes a marginal in L1, in units.

    Under replace-one a record leaves one cell and enters another.
    """
    moves = 1 if options.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
    return moves * options.records_per_person * UNITS


def l2_squared_sensitivity(options: Options) -> Fraction:
    """Return the square of how much one person changes a marginal in L2, in squared units.

    A person's k records may share a cell: k^2 under add/remove, 2 k^2 under replace-one.
    """
    moves = 1 if options.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
    return Fraction(moves * (options.records_per_person * UNITS) ** 2)


def choose_filter(domain: Domain, budget: Budget, options: Options) -> PrivacyFilter:
    """Return the empty filter that the session will charge.

    With delta > 0 zCDP is the rule unless few enough numbers are paid for that plain sums are quieter: the
    two are compared by the noise on one value when the budget is shared evenly among the events.

    Raises:
        BudgetError: the options ask for zCDP without a delta.
    """
    if options.composition is not None:
        return open_filter(budget, options.composition)
    if budget.delta == 0:
        return open_filter(budget, Composition.PURE)
    zcdp = open_filter(budget, Composition.ZCDP)
    bought = len(domain) if options.opening is Opening.ONE_WAY else 0
    events = 1 + bought + 2 * (options.update_limit or 2 * bought + 20)
    gaussian = math.sqrt(events / (2 * float(zcdp.cap)))
    laplace = math.sqrt(2) * events / float(budget.epsilon)
    return open_filter(budget, Composition.PURE) if laplace < gaussian else zcdp


def plan_opening(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> OpeningPlan:
    """Return the noise of the opening measurements.

    The attributes share OPENING_SHARE in proportion to the cube root of their cells, which minimises the
    summed standard deviation of their ranges (sd ~ sqrt(cells/share)).

    Raises:
        BudgetError: the budget is too small for any measurement.
    """
    private_total = options.neighboring_relation is NeighboringRelation.ADD_REMOVE
    total_noise = _noise(budget_filter, TOTAL_SHARE, options) if private_total else None
    if options.opening is Opening.NONE:
        return OpeningPlan(total_noise, {})
    weights = [Fraction(round(1000 * attribute.size ** (1 / 3))) for attribute in domain]
    shares = [OPENING_SHARE * weight / sum(weights) for weight in weights]
    return OpeningPlan(
        total_noise,
        {
            attribute.name: _noise(budget_filter, share, options)
            for attribute, share in zip(domain, shares, strict=True)
        },
    )


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


@dataclass(frozen=True, slots=True)
class _Prices:
    """What the tests and each value of a vector may cost, in the filter's own measure."""

    tests: Fraction  # the whole vector of tests
    value: Fraction  # one released value


def _vector(budget_filter: PrivacyFilter, limit: int, options: Options) -> NumericSparse:
    left = budget_filter.remaining
    zcdp = budget_filter.composition is Composition.ZCDP
    value = _floor(VALUE_SHARE * left / limit)
    prices = _Prices(left - limit * value, value)
    redraw = zcdp if options.redraw is None else options.redraw
    test = _test(prices.tests, limit, zcdp=zcdp, redraw=redraw, options=options)
    noise = _calibrated(
        budget_filter.composition, prices.value, query_sensitivity(options), options, one=True
    )
    return NumericSparse(Sparse(test, limit, redraw), noise)


def _test(tests: Fraction, limit: int, *, zcdp: bool, redraw: bool, options: Options) -> ThresholdTest:
    """Return the comparison with the narrowest band of error that the price of the tests allows.

    With b1 = Delta/epsilon1, b = m p Delta/epsilon2 and p positives per threshold draw, the half-width
    (b ln(2K/beta) + b1 ln(2/beta))/2 is least where epsilon1 : epsilon2 is
    sqrt(ln(2/beta)) : sqrt(m p ln(2K/beta)).
    """
    per_draw = 1 if redraw else limit
    price = _floor(tests / limit) if redraw else tests
    epsilon = _sqrt_down(2 * price) if zcdp else price
    if epsilon <= 0:
        raise NoiseError("expected a positive budget for tests, got none")
    sides = options.chosen_sides
    monotone = sides is Sides.TWO_THRESHOLDS
    factor = (1 if monotone else 2) * per_draw
    kept = math.sqrt(math.log(2 / _BETA))
    fresh = math.sqrt(factor * math.log(2 * options.expected_queries / _BETA))
    threshold_epsilon = epsilon * Fraction(round(2**20 * kept / (kept + fresh)), 2**20)
    sensitivity = query_sensitivity(options)
    return ThresholdTest(
        options.test_noise,
        sides,
        sensitivity,
        monotone,
        Fraction(math.ceil(sensitivity / threshold_epsilon)),
        Fraction(math.ceil(factor * sensitivity / (epsilon - threshold_epsilon))),
    )


def _noise(budget_filter: PrivacyFilter, share: Fraction, options: Options) -> NoiseLaw:
    """Return the noise of a marginal that costs a share of the cap."""
    try:
        price = _floor(share * budget_filter.cap)
        return _calibrated(budget_filter.composition, price, l1_sensitivity(options), options, one=False)
    except NoiseError:
        raise BudgetError("the budget is too small to measure anything; choose a larger epsilon") from None


def _calibrated(
    composition: Composition, price: Fraction, l1: int, options: Options, *, one: bool
) -> NoiseLaw:
    """Return the narrowest noise, in whole units, that costs at most the price."""
    if price <= 0:
        raise NoiseError("expected a positive price, got 0")
    if composition is Composition.PURE:
        return DiscreteLaplace(Fraction(math.ceil(l1 / price)))
    squared = Fraction(l1 * l1) if one else l2_squared_sensitivity(options)
    return DiscreteGaussian(Fraction(_sqrt_up(squared / (2 * price))))


def _floor(price: Fraction) -> Fraction:
    return Fraction(math.floor(price * RHO_GRID), RHO_GRID)


def _sqrt_down(value: Fraction) -> Fraction:
    """Return a multiple of 2^-60 that is at most the square root."""
    return Fraction(math.isqrt(math.floor(value * RHO_GRID * RHO_GRID)), RHO_GRID)


def _sqrt_up(value: Fraction) -> int:
    """Return the smallest whole number that is at least the square root."""
    whole = math.ceil(value)
    root = math.isqrt(whole)
    return root if root * root >= value else root + 1
