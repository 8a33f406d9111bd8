"""Planning: noise scales, thresholds and limits, chosen from public numbers before anything is drawn.

Nothing here sees a record: inputs are the schema, the budget, the custodian's options and, for the tests, the
released total. Scales are rounded up and shares down, so that what is charged never exceeds what was planned.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

from pmw.errors import BudgetError, NoiseError
from pmw.model import NoiseLaw, RangeTree, check_dense_size, mean_range_variance
from pmw.planning.calibration import query_statistic, scaled_test
from pmw.planning.noise_scales import calibrated_noise, floor_price, l1_sensitivity, query_sensitivity
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.public.contract import ModelKind, Opening, OpeningPlan, Options, QueryTestPlan, TestKind
from pmw.sparse_vector import NumericSparse, Sides, Sparse
from queries.domain import Attribute, CategoricalAttribute, Domain, require_domain
from queries.linear import UNITS

__all__ = [
    "buys_table",
    "check_model_size",
    "check_neighbors",
    "choose_filter",
    "choose_tree",
    "opening_share",
    "plan_opening",
    "plan_query_test",
    "plan_query_tier",
]

# Shares of the budget. Chosen on random streams with other seeds than the benchmark's; the stream errors are
# flat around them (docs/algorithm.md).
TOTAL_SHARE = Fraction(1, 100)
MARGINAL_TOTAL_SHARE = Fraction(3, 100)  # its noise is in every answer, and soon outweighs others
OPENING_SHARE = Fraction(10, 100)  # of the one-attribute marginals, where all attributes are short
MARGINAL_OPENING_SHARE = Fraction(8, 100)  # the same, where whole marginals are bought later
TREE_SHARE = Fraction(4, 100)  # more for each attribute that is bought as a tree of ranges
LARGEST_OPENING_SHARE = Fraction(25, 100)
VALUE_SHARE = Fraction(15, 100)  # of what is left after opening, for released values; the rest is for tests
_WIDEST_LEVEL = 16  # nodes of a tree's widest level, at most
_LARGEST_TABLE = 2**16  # cells of a table that is bought whole
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


def check_model_size(domain: Domain, options: Options) -> None:
    """Refuse a domain that the model cannot hold, before anything is allocated or spent.

    A graphical model holds any domain, so only one that must be dense is refused.

    Raises:
        BudgetError: the domain has too many cells for a dense model, which the options ask for.
        DomainError: it is no domain.
    """
    require_domain(domain)
    if options.test is TestKind.QUERY or options.model is ModelKind.DENSE:
        check_dense_size(domain)


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
    if bought and options.test is TestKind.MARGINAL and (bought == 1 or buys_table(domain)):
        events = 2  # the number of records, and the table or the one attribute
    gaussian = math.sqrt(events / (2 * float(zcdp.cap)))
    laplace = math.sqrt(2) * events / float(budget.epsilon)
    return open_filter(budget, Composition.PURE) if laplace < gaussian else zcdp


def plan_opening(
    domain: Domain, budget_filter: PrivacyFilter, options: Options, *, share: Fraction | None = None
) -> OpeningPlan:
    """Return the noise of the opening measurements.

    The attributes share ``opening_share`` in proportion to the cube root of v, the variance of their ranges
    at a fixed price, which minimises the summed standard deviation of ranges (sd ~ sqrt(v/share)): v is the
    number of cells, times the tree's ``mean_range_variance`` and its number of levels (under pure accounting
    their square).

    Args:
        domain: the declared attributes.
        budget_filter: with nothing spent.
        options: the custodian's choices.
        share: of the cap, for the attributes where all of them are short; None for the usual one.

    Raises:
        BudgetError: the budget is too small for any measurement.
    """
    marginal = options.test is TestKind.MARGINAL
    if share is None:
        share = MARGINAL_OPENING_SHARE if marginal else OPENING_SHARE
        if marginal and len(domain) == 1:  # there will be nothing else to buy
            share = 1 - TOTAL_SHARE
    private_total = options.neighboring_relation is NeighboringRelation.ADD_REMOVE
    table = marginal and options.opening is not Opening.NONE and buys_table(domain)
    little = table or len(domain) == 1
    total_share = MARGINAL_TOTAL_SHARE if marginal and not little else TOTAL_SHARE
    total_noise = _noise(budget_filter, total_share, options) if private_total else None
    if table:  # nothing else is ever bought
        return OpeningPlan(total_noise, {}, {}, _noise(budget_filter, 1 - total_share, options))
    if options.opening is Opening.NONE:
        return OpeningPlan(total_noise, {})
    composition = budget_filter.composition
    chosen = {attribute.name: choose_tree(attribute, composition) for attribute in domain}
    trees = {name: tree for name, tree in chosen.items() if tree is not None}
    weights = {}
    for attribute in domain:
        spread = _spread(attribute, chosen[attribute.name], composition)
        weights[attribute.name] = Fraction(round(1000 * math.cbrt(spread)))
    per_weight = opening_share(len(trees), share) / sum(weights.values())
    levels = OpeningPlan(total_noise, {}, trees).levels
    noises = {
        name: _noise(budget_filter, per_weight * weight / levels(name), options)
        for name, weight in weights.items()
    }
    return OpeningPlan(total_noise, noises, trees)


def buys_table(domain: Domain) -> bool:
    """Tell whether the whole table is bought at opening: it is hardly larger than its pairs of attributes.

    One table with all of the budget then answers everything with less noise than its parts would. A table of
    more than 65,536 cells, such as one of two long attributes, is not: ranges of so many cells sum too much
    noise, and each cell is a draw.
    """
    if len(domain) < 2 or domain.size > _LARGEST_TABLE:
        return False
    pairs = sum(math.prod(pair) for pair in itertools.combinations(domain.shape, 2))
    return domain.size <= 2 * pairs


def opening_share(trees: int, short: Fraction = OPENING_SHARE) -> Fraction:
    """Return the share of the budget for the one-attribute marginals, so many of them trees of ranges.

    Args:
        trees: number of attributes that are bought as trees.
        short: the share where there are none.
    """
    return min(short + trees * TREE_SHARE, max(short, LARGEST_OPENING_SHARE))


def choose_tree(attribute: Attribute, composition: Composition) -> RangeTree | None:
    """Return the tree of ranges that an attribute is bought as, or None where its cells are bought.

    Ordered attributes of more than 24 cells are bought as trees of branching 4 (where epsilons add, which
    makes a level dearer: more than 64 cells, branching 8), of so many levels that the widest has at most 16
    nodes. Chosen by the error of random ranges on a census table (docs/algorithm.md): up to about 20 cells a
    marginal is as good, and around these branchings the error is flat.
    """
    longest, branching = (24, 4) if composition is Composition.ZCDP else (64, 8)
    cells = attribute.base_size
    if isinstance(attribute, CategoricalAttribute) or cells <= longest:
        return None
    height = 1
    while -(-cells // branching ** (height - 1)) > _WIDEST_LEVEL:
        height += 1
    return RangeTree(cells, attribute.size - cells, branching, height)


def _spread(attribute: Attribute, tree: RangeTree | None, composition: Composition) -> float:
    """Return the variance of an attribute's ranges at a fixed price, in those of a marginal's cells."""
    if tree is None:
        return float(attribute.size)
    dearer = tree.height if composition is Composition.ZCDP else tree.height**2
    return attribute.size * mean_range_variance(tree) * dearer


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


def _noise(budget_filter: PrivacyFilter, share: Fraction, options: Options) -> NoiseLaw:
    """Return the noise of a marginal, or of a level of a tree, that costs a share of the cap."""
    try:
        price = floor_price(share * budget_filter.cap)
        return calibrated_noise(budget_filter.composition, price, l1_sensitivity(options), options, one=False)
    except NoiseError:
        raise BudgetError("the budget is too small to measure anything; choose a larger epsilon") from None
