"""The opening, planned: the filter, what is measured first and its noise, and what is left after it.

All follows from public numbers, before anything is drawn, for ``open`` and ``plan`` alike. Nothing here sees
a record: inputs are the schema, the budget and the custodian's options. Scales are rounded up and shares
down, so that what is charged never exceeds what was planned.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache

from pmw.errors import BudgetError, NoiseError
from pmw.model import (
    AxisPrice,
    HierarchicalHistogram,
    SharedPrices,
    coarse_of,
    extreme_domains,
    mean_range_variance,
    noise_variance,
    rows_of,
    shared_prices,
    widest_of_rows,
)
from pmw.planning.calibration import calibrated_noise, marginal_statistic, scaled_test
from pmw.planning.error_quantiles import SHARE
from pmw.planning.persons import KEPT_FOR_PERSONS, opening_persons, share_of_persons
from pmw.planning.tiers import DEFAULT_SCHEDULE, VALUE_SHARE, most_positives, plan_test
from pmw.planning.value_sums import KEPT_FOR_SUMS, planned, planned_sums, share_of_sums, too_small
from pmw.privacy.budget import Budget, Composition, floor_price
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import l1_mean, simultaneous_half_width
from pmw.public.charges import (
    LedgerEntry,
    PersonNumbers,
    l1_sensitivity,
    opening_entries,
    query_sensitivity,
)
from pmw.public.contract import Contract
from pmw.public.half_widths import Confidences, TableNoise, total_half_width
from pmw.public.options import Opening, Options
from pmw.public.plans import MOST_RESIDUAL_CELLS, OpeningPlan, TestPlan, marginal_tier
from pmw.public.prior import Prior, is_prior_of
from queries.categories import CategoricalAttribute
from queries.domain import Attribute, Domain
from queries.factors import UNITS
from queries.frozen import dataclass

# Shares of the budget. Chosen on random streams with other seeds than the benchmark's; the stream errors are
# flat around them (docs/algorithm.md).
TOTAL_SHARE = Fraction(1, 100)
MARGINAL_TOTAL_SHARE = Fraction(3, 100)  # its noise is in every answer, and soon outweighs others
OPENING_SHARE = Fraction(10, 100)  # of the one-attribute marginals, where all attributes are short
MARGINAL_OPENING_SHARE = Fraction(8, 100)  # the same, where whole marginals are measured later
TREE_SHARE = Fraction(4, 100)  # more for each attribute that is measured as a hierarchical histogram
LARGEST_OPENING_SHARE = Fraction(25, 100)
_PURE_PRICE = Fraction(11, 7)  # mu^2/(2 rho) of a pure event: at most pi/2, nearly so where epsilon is small
_WIDEST_LEVEL = 16  # nodes of a tree's widest level, at most
_LARGEST_TABLE = 2**16  # cells of a table that is measured whole
_LEAST_PRICE = 1 / 64  # of that of the number of records, for an attribute
_MOST_PAIRS = 500  # that are measured before any question: of 32 attributes
_MOST_TRIPLES = 1_000  # the same: of 19 attributes
_MOST_TRIPLE_CELLS = 2**22  # of all of them together


def check_neighbors(domain: Domain, options: Options) -> None:
    """Refuse a schema that could drop a record where the number of records is public.

    Raises:
        BudgetError: under replace-one an attribute lacks a cell for empty or for undeclared values.
    """
    if not options.public_count:
        return
    for attribute in domain:
        if not (attribute.missing and attribute.other):
            raise BudgetError(
                f"under replace-one no record may be dropped, but attribute {attribute.name!r} drops "
                "records with empty or undeclared values; declare missing = true and other = true"
            )


def check_prior(domain: Domain, prior: Prior | None, plan: OpeningPlan) -> None:
    """Refuse a prior that is about other attributes, or in a session that has no pairs to compare it with.

    Args:
        domain: the declared attributes.
        prior: the prior; None for none.
        plan: what opening measures.

    Raises:
        BudgetError: it is.
    """
    if prior is None:
        return
    if not is_prior_of(prior, domain):
        raise BudgetError(
            "expected a prior of the schema's attributes, got one of others; make it by public_prior with "
            "this schema, or leave it out"
        )
    if plan.order == 1:
        raise BudgetError(
            "a prior is taken or dropped by pairs that are measured before any question, and this session "
            "measures none: it has another opening, no delta, an accuracy contract, simultaneous intervals, "
            "a number of positives, or a schema for which tests are better; leave the prior out"
        )


def check_scales(contract: Contract, plan: OpeningPlan) -> None:
    """Refuse a budget under which rows measured before any question would need noise beyond every scale.

    The noise of pairs, and of wider marginals, follows from the number of records: of few, and of so many
    that half of it is kept for tests. Their rows follow from bins that are not chosen yet: any is assumed.

    Raises:
        BudgetError: it is too small.
    """
    try:
        for name, rows in plan.strategies.items():
            rows.noise(plan.marginal_noise[name])
        for records in (0.0, 2.0**40) if plan.order > 1 else ():
            tier = marginal_tier(plan_opened(contract, plan, records).test)
            if tier is not None:
                cheapest = sorted(tier.weights, key=tier.weights.__getitem__)
                for order in range(2, tier.order + 1):
                    widest_of_rows(tier.noise_of(cheapest[:order]))
    except NoiseError:
        raise too_small() from None


def choose_filter(
    domain: Domain, budget: Budget, options: Options, *, selects: bool = False
) -> PrivacyFilter:
    """Return the empty filter that the session will charge.

    With delta > 0 zCDP or GDP is the rule (``filter_of_squares``), unless few enough numbers are paid for
    that plain sums are quieter: that is decided by the noise on one value when the budget is shared evenly
    among the events.

    Args:
        domain: the declared attributes.
        budget: the guarantee.
        options: the custodian's choices.
        selects: what is measured is selected by the exponential mechanism, which has no price in GDP.

    Raises:
        BudgetError: the options ask for zCDP or GDP without a delta, for GDP with a budget that holds none of
            it, or for GDP where choices are charged.
    """
    if selects and options.composition is Composition.GDP:
        raise BudgetError("selected measurements have no price in GDP; choose composition zcdp or pure")
    if options.composition is not None:
        return open_filter(budget, options.composition)
    pure = open_filter(budget, Composition.PURE)
    if budget.delta == 0 or table_keeps(domain, pure, options):
        return pure
    measured = len(domain) if options.opening is not Opening.NONE else 0
    whole = bool(measured) and options.tests_marginals and (measured == 1 or measures_table(domain))
    events = (
        2 + len(planned(domain, options))
        if whole
        else 1 + measured + 2 * (options.update_limit or 2 * measured + 20)
    )
    squares = open_filter(budget, Composition.ZCDP) if selects else filter_of_squares(budget, options)
    kept = table_keeps(domain, squares, options)
    if not (selects or whole or kept):
        squares = filter_of_squares(budget, options, tests=share_of_tests(options))
    variance = events / float(squares.cap if squares.composition is Composition.GDP else 2 * squares.cap)
    laplace = math.sqrt(2) * events / float(budget.epsilon)
    quieter = laplace < math.sqrt(variance) and options.opening is not Opening.TRIPLES
    return pure if quieter and not kept else squares


def filter_of_squares(budget: Budget, options: Options, *, tests: Fraction = Fraction(0)) -> PrivacyFilter:
    """Return the filter, of zCDP and GDP, under which what is planned takes the smaller part of its cap.

    A plan whose tests take a share x of rho costs 2 rho (1 - x) + 2 rho x pi/2 in mu^2, but for the surcharge
    of the discrete Gaussian. So tests are dearer in GDP, and all else is as dear in a cap that is larger: at
    (1, 1e-9) by 1.106. Below x = 0.185 GDP leaves more. zCDP it is too where GDP has no price: with sech^2
    tests, or where no mu is found for the budget.

    Args:
        budget: the guarantee, of a positive delta.
        options: the custodian's choices.
        tests: the share of rho that is planned for tests.

    Raises:
        BudgetError: the budget holds no zCDP.
    """
    zcdp, kind = open_filter(budget, Composition.ZCDP), options.sparse_vector
    if kind is not None and kind.is_sech2:
        return zcdp
    try:
        gdp = open_filter(budget, Composition.GDP)
    except BudgetError:
        return zcdp
    return gdp if 2 * zcdp.cap * (1 + tests * (_PURE_PRICE - 1)) < gdp.cap else zcdp


def share_of_tests(options: Options) -> Fraction:
    """Return the part of rho, of what opening leaves, that is planned for tests.

    Where single questions are tested, or an accuracy is promised, tests take most, and have no larger share
    under GDP (``Schedule.under``). Then it counts as all: GDP has to leave tests themselves no worse.
    """
    if not options.tests_marginals or options.bar_limit is not None:
        return Fraction(1)
    return DEFAULT_SCHEDULE.tests + DEFAULT_SCHEDULE.queries * (1 - VALUE_SHARE)


def plan_opening(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> OpeningPlan:
    """Return the noise of the opening measurements.

    The attributes share ``opening_share`` in proportion to the cube root of v, the variance of their ranges
    at a fixed price, which minimises the summed standard deviation of ranges (sd ~ sqrt(v/share)): v is the
    number of cells, times the tree's ``mean_range_variance`` and its number of levels (under pure accounting
    their square).

    Args:
        domain: the declared attributes.
        budget_filter: with nothing spent.
        options: the custodian's choices.

    Raises:
        BudgetError: the budget is too small for any measurement.
    """
    marginal = options.tests_marginals
    sums = planned_sums(domain, budget_filter, options)
    share = MARGINAL_OPENING_SHARE if marginal else OPENING_SHARE  # where all attributes are short
    if marginal and len(domain) == 1:  # there will be nothing else to measure
        share = 1 - TOTAL_SHARE - _kept_share(domain, options)
    private_total = not options.public_count
    table = marginal and options.opening is not Opening.NONE and measures_table(domain)
    table = table or table_keeps(domain, budget_filter, options)
    little = table or len(domain) == 1
    total_share = MARGINAL_TOTAL_SHARE if marginal and not little else TOTAL_SHARE
    alone = len(domain) == 1 and choose_tree(domain.attributes[0], budget_filter.composition) is None
    if options.bar_limit is not None and (table or alone):
        total_share = _balanced_share(domain.size, budget_filter, options) if private_total else Fraction(0)
        share = 1 - total_share
    total_noise = _noise(budget_filter, total_share, options, one=True) if private_total else None
    if table:  # nothing else is ever measured
        noise = _noise(budget_filter, 1 - total_share - _kept_share(domain, options), options)
        return OpeningPlan(total_noise, {}, {}, noise, sums=sums)
    if options.opening is Opening.NONE:
        return OpeningPlan(total_noise, {})
    composition = budget_filter.composition
    chosen = {attribute.name: choose_tree(attribute, composition) for attribute in domain}
    trees = {name: tree for name, tree in chosen.items() if tree is not None}
    order = residual_order(domain, budget_filter, options)
    if order > 1:
        return _residual_opening(domain, budget_filter, options, trees, order)
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
    return OpeningPlan(total_noise, noises, trees, sums=sums)


def residual_order(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> int:
    """Return the most attributes of the marginals that are all measured before any question.

    Pairs are, as residuals, where that leaves questions a smaller expected error than tests would let pass.
    It needs squares that add up, for the rows of residuals are made for Gaussian noise; and where intervals
    hold for all questions at once, within an accuracy contract, or a number of positives is chosen, plans are
    for cells and tests. Triples are, where they are asked for.

    Args:
        domain: the declared attributes.
        budget_filter: with nothing spent.
        options: the custodian's choices.

    Returns:
        1 where only the attributes alone are.

    Raises:
        BudgetError: triples are asked for, and cannot be measured.
    """
    if options.opening is Opening.TRIPLES:
        _check_triples(domain, budget_filter)
        return 3
    errors = pairs_forecast(domain, budget_filter, options)
    return 2 if errors is not None and errors.measured <= errors.tested else 1


def _check_triples(domain: Domain, budget_filter: PrivacyFilter) -> None:
    """Refuse triples that cannot be measured before any question; this follows from schema and budget alone.

    Cells are those of the most bins that opening may lead to, so that no triple is left out for its size.

    Raises:
        BudgetError: the noise is not Gaussian, or there are no triples, too many, or too large ones.
    """
    instead = "choose opening = pairs"
    if budget_filter.composition is Composition.PURE:
        raise BudgetError(
            "opening = triples needs Gaussian noise, so a delta above 0, and composition zcdp or gdp; "
            f"give these, or {instead}"
        )
    _, widest = extreme_domains(domain, dict.fromkeys(domain.names, 0.0))
    wide = sorted((one for one in widest if one.size > 1), key=lambda one: -one.size)
    if len(wide) < 3:
        raise BudgetError(f"opening = triples needs three attributes of two cells or more; {instead}")
    triples, largest = math.comb(len(wide), 3), math.prod(one.size for one in wide[:3])
    if triples > _MOST_TRIPLES:
        raise BudgetError(
            f"opening = triples measures at most {_MOST_TRIPLES:,} triples, and there are {triples:,}; "
            f"declare fewer attributes, or {instead}"
        )
    if largest > MOST_RESIDUAL_CELLS:
        names = ", ".join(repr(one.name) for one in wide[:3])
        raise BudgetError(
            f"opening = triples measures triples of at most {MOST_RESIDUAL_CELLS:,} cells, and that of "
            f"{names} may have {largest:,}; declare wider cells, or {instead}"
        )
    cells = sum(math.prod(one.size for one in three) for three in itertools.combinations(wide, 3))
    if cells > _MOST_TRIPLE_CELLS:
        raise BudgetError(
            f"opening = triples measures at most {_MOST_TRIPLE_CELLS:,} cells of all triples together, and "
            f"these may have {cells:,}; declare wider cells, or {instead}"
        )


@dataclass(frozen=True, slots=True)
class PairsForecast:
    """What a question about two attributes is expected to err by, in records, whatever the table.

    Args:
        measured: the mean standard deviation of such a question, where all pairs are measured as residuals.
        tested: a fourth of the mean distance that a test lets pass, where pairs are tested: one question errs
            by half of that distance at most, and half of this is taken for what it errs by.
    """

    measured: float
    tested: float


def pairs_forecast(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> PairsForecast | None:
    """Return both sides of the choice between measuring all pairs and testing them.

    Returns:
        None where there is no choice: see ``residual_order``.
    """
    pairs, composition = math.comb(len(domain), 2), budget_filter.composition
    chosen = options.opening is Opening.PAIRS and options.tests_marginals and options.update_limit is None
    promised = options.simultaneous or options.bar_limit is not None
    if not chosen or promised or composition is Composition.PURE or not 0 < pairs <= _MOST_PAIRS:
        return None
    coarse = [coarse_of(attribute) for attribute in domain]
    axes = tuple(AxisPrice.of(attribute) for attribute in coarse)
    (pair,) = shared_prices(axes, axes, 2).wider
    unit = _unit(domain, budget_filter, options, 2)
    limit = most_positives(len(domain))
    schedule = DEFAULT_SCHEDULE.under(composition)
    left = 1 - MARGINAL_TOTAL_SHARE - MARGINAL_OPENING_SHARE
    try:
        noise = _noise(budget_filter, left * (1 - schedule.tests - schedule.queries) / limit, options)
        test = scaled_test(
            budget_filter.cap * left * schedule.tests,
            limit,
            marginal_statistic(10 * pairs, options),
            options.chosen_sparse_vector(composition),
            composition,
        )
        measured = math.sqrt(noise_variance(_noise(budget_filter, unit * Fraction(pair), options)))
    except (BudgetError, NoiseError):  # nothing is left, or no pair has two cells along both attributes
        return None
    spreads = [math.sqrt(one.spread * other.spread) for one, other in itertools.combinations(axes, 2)]
    cells = [one.size * other.size for one, other in itertools.combinations(coarse, 2)]
    passed = schedule.noise_factor * l1_mean(noise) * sum(cells) / pairs
    passed += schedule.margin * float(test.query_scale) / UNITS
    # At prices in proportion to the roots of their spreads, pairs have these errors.
    return PairsForecast(measured * sum(map(math.sqrt, spreads)) / pairs, passed / 4)


def _unit(domain: Domain, budget_filter: PrivacyFilter, options: Options, order: int) -> Fraction:
    """Return the share of the budget to each part of a price, where all pairs, or more, are measured."""
    prices = _prices(domain, budget_filter.composition, order)
    schedule = DEFAULT_SCHEDULE.under(budget_filter.composition)
    parts = prices.everybody * (not options.public_count) + sum(prices.single)
    for wide, price in enumerate(prices.wider, start=2):
        parts += math.comb(len(domain), wide) * price
    return (1 - schedule.queries - SHARE - _kept_share(domain, options)) / Fraction(parts)


def _kept_for_later(contract: Contract, plan: OpeningPlan) -> Fraction:
    """Return what stays of the budget for what is asked for later, where all pairs are measured."""
    if plan.order < 2:
        return Fraction(0)
    persons = KEPT_FOR_PERSONS if share_of_persons(contract.domain, contract.options) else Fraction(0)
    return persons + (KEPT_FOR_SUMS if plan.sums else Fraction(0))


def _kept_share(domain: Domain, options: Options) -> Fraction:
    """Return what is kept of the budget for sums of values and the number of persons."""
    return share_of_sums(domain, options) + share_of_persons(domain, options)


def _prices(domain: Domain, composition: Composition, order: int) -> SharedPrices:
    """Return ``shared_prices`` of a domain's attributes as opening, and wider residuals, measure them."""
    fine = tuple(_axis_price(attribute, choose_tree(attribute, composition)) for attribute in domain)
    coarse = tuple(AxisPrice.of(coarse_of(attribute)) for attribute in domain)
    found = shared_prices(fine, coarse, order)
    # An attribute of a single cell says nothing, but every attribute is measured: so it costs a little.
    least = _LEAST_PRICE * found.everybody
    return replace(found, single=tuple(max(price, least) for price in found.single))


def _residual_opening(
    domain: Domain,
    budget_filter: PrivacyFilter,
    options: Options,
    trees: dict[str, HierarchicalHistogram],
    order: int,
) -> OpeningPlan:
    """Return the noise of an opening after which all pairs, or more, are measured as residuals.

    The budget, but for the tests of single questions and for error quantiles, is shared by ``shared_prices``.
    """
    prices = _prices(domain, budget_filter.composition, order)
    unit = _unit(domain, budget_filter, options, order)
    total = unit * Fraction(prices.everybody)
    noise = None if options.public_count else _noise(budget_filter, total, options, one=True)
    levels, noises, strategies = OpeningPlan(noise, {}, trees).levels, {}, {}
    for attribute, price in zip(domain, prices.single, strict=True):
        share = unit * Fraction(price) / levels(attribute.name)
        noises[attribute.name] = _noise(budget_filter, share, options)
        rows = rows_of([attribute], replaced=options.replaces)
        if attribute.name not in trees and rows is not None:
            strategies[attribute.name] = rows
    sums = planned_sums(domain, budget_filter, options)
    return OpeningPlan(noise, noises, trees, order=order, strategies=strategies, sums=sums)


def _axis_price(attribute: Attribute, tree: HierarchicalHistogram | None) -> AxisPrice:
    """Return what an attribute contributes to the variance of questions, as opening measures it."""
    found = AxisPrice.of(attribute)
    if tree is None:
        return found
    cells = (attribute.base_size + 2) / 3  # of the mean range
    return replace(found, spread=mean_range_variance(tree) * tree.height * cells)


@lru_cache(maxsize=64)  # a plan asks for it several times
def _balanced_share(cells: int, budget_filter: PrivacyFilter, options: Options) -> Fraction:
    """Return the share of the number of records under which the widest bar about a whole table is narrowest.

    With a larger share the bar of everybody is narrower, and those of questions about half of the cells are
    wider. The share is at most one half; it is searched by steps of 1/32, then by finer ones around the best.
    """

    @cache
    def widest(share: Fraction) -> float:
        return _table_bar(cells, share, budget_filter, options)

    best = min((Fraction(part, 32) for part in range(1, 17)), key=widest)
    for step in (128, 1024):
        best = min((best + Fraction(part, step) for part in range(-3, 4)), key=widest)
    return best


def _table_bar(cells: int, share: Fraction, budget_filter: PrivacyFilter, options: Options) -> float:
    """Return the widest bar about a whole table, where the number of records takes a share of the budget."""
    confidences = Confidences.of(options, 1, (), private_total=True)
    total = _noise(budget_filter, share, options, one=True)
    cell = _noise(budget_filter, 1 - share, options)
    precision = 1 / noise_variance(total) + 1 / (cells * noise_variance(cell))
    deviation = math.sqrt(1 / precision)
    everybody = total_half_width(budget_filter.composition, deviation, confidences.everybody, (cell,))
    return max(everybody, widest_bar(cell, cells, deviation, options, confidences.alone))


def widest_bar(
    noise: NoiseDistribution, cells: int, deviation: float, options: Options, confidence: float
) -> float:
    """Return what no bar exceeds of a question about a table that is measured whole, in records.

    Args:
        noise: on each cell, in units.
        cells: how many are measured.
        deviation: of the number of records that takes in the cells, in records.
        options: whether intervals hold for all questions at once.
        confidence: of one noise that an interval rests on alone.
    """
    if options.simultaneous:
        return simultaneous_half_width(noise, cells, confidence)
    return TableNoise.of(noise, cells, deviation, confidence).widest()


def measures_table(domain: Domain) -> bool:
    """Tell whether the whole table is measured at opening: it is hardly larger than its pairs of attributes.

    One table with all of the budget then answers everything with less noise than its parts would. A table of
    more than 65,536 cells, such as one of two long attributes, is not: ranges of so many cells sum too much
    noise, and each cell is a draw.
    """
    if len(domain) < 2 or domain.size > _LARGEST_TABLE:
        return False
    pairs = sum(math.prod(pair) for pair in itertools.combinations(domain.shape, 2))
    return domain.size <= 2 * pairs


def table_keeps(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> bool:
    """Tell whether the whole table, measured with all of the budget, keeps an accuracy contract.

    Then it is measured at opening: every question is answered within the contract, and nothing is tested.

    Args:
        domain: the declared attributes.
        budget_filter: with nothing spent.
        options: the custodian's choices; without an accuracy no table is asked for.
    """
    limit = options.bar_limit
    if limit is None or options.opening is Opening.NONE or len(domain) < 2 or domain.size > _LARGEST_TABLE:
        return False
    confidence = Confidences.of(options, 1, (), private_total=not options.public_count).alone
    try:
        best = _noise(budget_filter, Fraction(1), options)
        if widest_bar(best, domain.size, 0.0, options, confidence) > limit:
            return False  # not even if the number of records came for nothing
        if options.public_count:
            return True
        share = _balanced_share(domain.size, budget_filter, options)
        return _table_bar(domain.size, share, budget_filter, options) <= limit
    except BudgetError:
        return False


def opening_share(trees: int, short: Fraction = OPENING_SHARE) -> Fraction:
    """Return the share of the budget for the one-attribute marginals, so many of them hierarchical
    histograms.

    Args:
        trees: number of attributes that are measured as trees.
        short: the share where there are none.
    """
    return min(short + trees * TREE_SHARE, max(short, LARGEST_OPENING_SHARE))


def choose_tree(attribute: Attribute, composition: Composition) -> HierarchicalHistogram | None:
    """Return the hierarchical histogram that an attribute is measured as, or None where its cells are
    measured.

    Ordered attributes of more than 24 cells are measured as trees of branching 4 (where epsilons add, which
    makes a level dearer: more than 64 cells, branching 8), of so many levels that the widest has at most 16
    nodes. Chosen by the error of random ranges on a census table (docs/algorithm.md): up to about 20 cells a
    marginal is as good, and around these branchings the error is flat. As long a categorical attribute with
    levels is measured at each of them.
    """
    longest, branching = (24, 4) if composition is not Composition.PURE else (64, 8)
    cells = attribute.base_size
    if cells <= longest:
        return None
    if isinstance(attribute, CategoricalAttribute):
        levels = attribute.hierarchy
        return (
            HierarchicalHistogram(cells, attribute.size - cells, 2, len(levels) + 1, levels)
            if levels
            else None
        )
    height = 1
    while -(-cells // branching ** (height - 1)) > _WIDEST_LEVEL:
        height += 1
    return HierarchicalHistogram(cells, attribute.size - cells, branching, height)


def _spread(attribute: Attribute, tree: HierarchicalHistogram | None, composition: Composition) -> float:
    """Return the variance of an attribute's ranges at a fixed price, in those of a marginal's cells."""
    if tree is None:
        return float(attribute.size)
    dearer = tree.height**2 if composition is Composition.PURE else tree.height
    return attribute.size * mean_range_variance(tree) * dearer


def _noise(
    budget_filter: PrivacyFilter, share: Fraction, options: Options, *, one: bool = False
) -> NoiseDistribution:
    """Return the noise of a marginal, a level of a tree, or one number, that costs a share of the cap."""
    moved = query_sensitivity(options) if one else l1_sensitivity(options)
    try:
        price = floor_price(share * budget_filter.cap)
        return calibrated_noise(budget_filter.composition, price, moved, options, one=one)
    except NoiseError:
        raise too_small() from None


@dataclass(frozen=True, slots=True)
class Opened:
    """What follows from an opening's plan and the number of records.

    Args:
        entries: what opening charges.
        ledger: the filter after these charges.
        test: the tiers of tests; none where nothing is left for any.
        persons: the noise of the number of persons, where that is measured.
    """

    entries: tuple[LedgerEntry, ...]
    ledger: PrivacyFilter
    test: TestPlan
    persons: NoiseDistribution | None = None


def plan_opened(contract: Contract, plan: OpeningPlan, total: float, *, apart: bool = True) -> Opened:
    """Return what a session is left with after opening: for ``open`` and for ``plan`` alike.

    Nothing here depends on a released count but the number of records, so that a session differs from its
    plan only by the noise on that.

    Args:
        contract: what is fixed at opening.
        plan: what is measured at opening.
        total: the number of records, as released or as stated.
        apart: the table tells persons apart.
    """
    options, entries = contract.options, opening_entries(plan, contract.options)
    ledger = choose_filter(contract.domain, contract.budget, options)
    persons = opening_persons(contract.domain, ledger, options, total) if apart else None
    if persons is not None:
        entries = (*entries, PersonNumbers((), 1).entry(persons, options))
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    kept = _kept_for_later(contract, plan) * ledger.cap
    return Opened(
        entries, ledger, plan_test(contract, plan, replace(ledger, spent=ledger.spent + kept), total), persons
    )
