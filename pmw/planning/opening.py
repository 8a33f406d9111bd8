"""The opening, planned: what the budget goes to, each with a weight, and the noise that its share buys.

``open`` and ``plan`` go this way alike, from public numbers alone, before anything is drawn:

1. ``choose_filter`` says how charges add up.
2. ``opening_releases`` lists what is measured, tested and kept, each with its weight.
3. ``plan_opening`` asks for the noise of each once: a share is a weight over the sum of all weights.
4. ``plan_opened`` says what is left after these charges, and which tests that pays.

The noise of two lists decides whether all pairs are measured or tested (``pairs_forecast``), and how a table
shares the budget with the number of records (``_balanced_share``). Scales are rounded up and shares down, so
that what is charged never exceeds what was planned.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache

from pmw.errors import BudgetError, NoiseError
from pmw.model.bins import coarse_of
from pmw.model.estimate import noise_variance
from pmw.model.hierarchical_histogram import HierarchicalHistogram, mean_range_variance
from pmw.model.prices import AxisPrice, SharedPrices, asked_prices, rows_of, shared_prices
from pmw.model.strategy import widest_of_rows
from pmw.model.value_sums import SummedValues, opening_sums
from pmw.planning.calibration import marginal_statistic, noise_of_price, scaled_test
from pmw.planning.refusals import check_expected, check_prior, check_reserve, check_triples
from pmw.planning.tiers import DEFAULT_SCHEDULE, VALUE_SHARE, most_positives, plan_test
from pmw.privacy.budget import Budget, Composition, floor_price
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import l1_mean, simultaneous_half_width, sum_half_width
from pmw.public import error_quantiles
from pmw.public.charges import (
    CellNumbers,
    LedgerEntry,
    PersonNumbers,
    SumNumbers,
    opening_entries,
    query_sensitivity,
)
from pmw.public.contract import Contract
from pmw.public.half_widths import Confidences, TableNoise, total_half_width
from pmw.public.options import ExpectedQuestions, Opening, Options
from pmw.public.plans import OpeningPlan, TestPlan, marginal_tier
from pmw.public.row_sensitivity import Moved
from pmw.public.state import PublicState, requested
from queries.categories import CategoricalAttribute
from queries.domain import Attribute, Domain
from queries.factors import UNITS
from queries.frozen import dataclass

# Shares of the budget. Chosen on random streams with other seeds than the benchmark's; the stream errors are
# flat around them.
TOTAL_SHARE = Fraction(1, 100)
MARGINAL_TOTAL_SHARE = Fraction(3, 100)  # its noise is in every answer, and soon outweighs others
OPENING_SHARE = Fraction(10, 100)  # of the one-attribute marginals, where all attributes are short
MARGINAL_OPENING_SHARE = Fraction(8, 100)  # the same, where whole marginals are measured later
TREE_SHARE = Fraction(4, 100)  # more for each attribute that is measured as a hierarchical histogram
LARGEST_OPENING_SHARE = Fraction(25, 100)
SUM_SHARE = Fraction(1, 250)  # for where the values of one attribute lie in their cells
_MOST_SUMS = Fraction(2, 100)  # of all attributes together
PERSONS_SHARE = Fraction(2, 1000)
KEPT_FOR_SUMS = Fraction(15, 100)  # on request, where opening measures all pairs or the whole table
KEPT_FOR_PERSONS = Fraction(4, 100)  # by group, on request, likewise
RESERVE = Fraction(3, 10)  # unless told; chosen on natural questions (docs/benchmarks.md)
EXPECTED_SHARE = Fraction(1, 2)  # of what is measured at opening: by what is expected; 3/4 gains no more
_GRID = 2**20  # of parts of what residuals are paid
_PURE_PRICE = Fraction(11, 7)  # mu^2/(2 rho) of a pure event: at most pi/2, nearly so where epsilon is small
_WIDEST_LEVEL = 16  # nodes of a tree's widest level, at most
_LARGEST_TABLE = 2**16  # cells of a table that is measured whole
_LEAST_PRICE = 1 / 64  # of that of the number of records, for an attribute
_MOST_PAIRS = 500  # that are measured before any question: of 32 attributes


# --- the list -----------------------------------------------------------------------------------------------


class Part(enum.Enum):
    """What a part of the budget goes to."""

    RECORDS = "the number of records"
    ATTRIBUTE = "an attribute"
    TABLE = "the whole table"
    WIDER = "all pairs of attributes, or all triples, on bins that the attributes decide"
    SUMS = "sums of values of an attribute"
    PERSONS = "the number of persons"
    MORE_SUMS = "sums on request"
    MORE_PERSONS = "persons by group, on request"
    RESERVE = "questions whose error bars are wide"
    QUANTILES = "error quantiles"
    TESTS = "tests"


@dataclass(frozen=True, slots=True)
class Release:
    """What a part of the budget goes to; its share is its weight over the sum of all weights in the list.

    Args:
        weight: 0 or more.
        tree: that the attribute is measured as.
        needed: the part of the weight that the expected questions gave it.
    """

    part: Part
    weight: Fraction
    name: str = ""
    tree: HierarchicalHistogram | None = None
    summed: SummedValues | None = None
    needed: Fraction = Fraction(0)


def opening_releases(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> Sequence[Release]:
    """Return what the budget goes to."""
    opens, composition = options.opening is not Opening.NONE, budget_filter.composition
    table = _is_whole(domain, budget_filter, options)
    order = residual_order(domain, budget_filter, options) if opens and not table else 1
    if order > 1:
        return _of_residuals(domain, composition, options, order)
    if table or (options.tests_marginals and len(domain) == 1):
        found = _of_everything(domain, budget_filter, options)
    else:
        found = _of_attributes(domain, composition, options)
    if not opens:
        found = [one for one in found if one.part is Part.RECORDS]
    return [*found, Release(Part.TESTS, 1 - _weight(found))]


def _is_whole(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> bool:
    """Tell whether the table is measured whole."""
    opens = options.opening is not Opening.NONE and options.tests_marginals
    return (opens and measures_table(domain)) or table_keeps(domain, budget_filter, options)


def _of_everything(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> list[Release]:
    """Return the list where opening covers every question, by the whole table or the only attribute."""
    only = _attribute(domain.attributes[0], budget_filter.composition, 1) if len(domain) == 1 else None
    cells, total = only or Release(Part.TABLE, Fraction(1)), TOTAL_SHARE
    if options.bar_limit is not None and cells.tree is None:
        total = _balanced_share(domain.size, budget_filter, options)
    found = [Release(Part.RECORDS, total), *_of_values(domain, options), *_kept(domain, options)]
    return [*found, replace(cells, weight=1 - _weight(found))]


def _of_attributes(domain: Domain, composition: Composition, options: Options) -> list[Release]:
    """Return the list where attributes are measured, and tests look for what they do not say.

    The attributes share ``opening_share`` in proportion to the cube root of v, the variance of their ranges
    at a fixed price, which minimises the summed standard deviation of ranges (sd ~ sqrt(v/share)).
    """
    roots = [round(1000 * math.cbrt(_spread(one, composition))) for one in domain]
    found = [_attribute(one, composition, root) for one, root in zip(domain, roots, strict=True)]
    total, short = TOTAL_SHARE, OPENING_SHARE
    if options.tests_marginals:
        total, short = MARGINAL_TOTAL_SHARE, MARGINAL_OPENING_SHARE
    share = opening_share(sum(one.tree is not None for one in found), short)
    return [Release(Part.RECORDS, total), *_of_values(domain, options), *_sharing(share, found)]


def _of_residuals(
    domain: Domain, composition: Composition, options: Options, order: int
) -> tuple[Release, ...]:
    """Return the list where all pairs, or more, are measured as residuals.

    What tests of single questions, error quantiles and values leave is shared by ``shared_prices``; where
    questions are expected, half of it by what these need.
    """
    schedule, share = DEFAULT_SCHEDULE.under(composition), EXPECTED_SHARE
    tests = Release(Part.TESTS, schedule.queries if options.tests_questions else Fraction(0))
    quantiles = Release(Part.QUANTILES, error_quantiles.SHARE)
    beside = (tests, quantiles, *_of_values(domain, options), *_kept(domain, options))
    left = 1 - _weight(beside)
    priced = _sharing(left, _priced(domain, composition, options, _prices(domain, composition, order)))
    needs = None if options.expected is None else _needs(domain, composition, options.expected, order)
    needed = [] if needs is None else _priced(domain, composition, options, needs)
    if _weight(needed):  # wide questions need nothing of these
        every = zip(priced, _sharing(left * share, needed), strict=True)
        priced = [
            replace(one, weight=(1 - share) * one.weight + more.weight, needed=more.weight)
            for one, more in every
        ]
    return (*beside, *priced)


def _priced(
    domain: Domain, composition: Composition, options: Options, prices: SharedPrices
) -> list[Release]:
    """Return what is measured where all pairs are, or more, weighed by prices."""
    priced = [] if options.public_count else [Release(Part.RECORDS, Fraction(prices.everybody))]
    priced += [_attribute(one, composition, price) for one, price in zip(domain, prices.single, strict=True)]
    for wide, price in enumerate(prices.wider, start=2):
        priced.append(Release(Part.WIDER, math.comb(len(domain), wide) * Fraction(price)))
    return priced


def _of_values(domain: Domain, options: Options) -> list[Release]:
    """Return the sums of values and the number of persons that opening measures."""
    sums = planned_sums(domain, options)
    found = [Release(Part.SUMS, min(SUM_SHARE, _MOST_SUMS / len(sums)), summed=one) for one in sums]
    return found + ([Release(Part.PERSONS, PERSONS_SHARE)] if opens_persons(domain, options) else [])


def _kept(domain: Domain, options: Options) -> list[Release]:
    """Return what is kept for what is asked: a reserve, or for sums and persons that opening measures."""
    if options.reserved:
        return [Release(Part.RESERVE, options.reserved)]
    if not options.expected_queries:
        return []
    found = [Release(Part.MORE_SUMS, KEPT_FOR_SUMS)] if planned_sums(domain, options) else []
    more = [Release(Part.MORE_PERSONS, KEPT_FOR_PERSONS)] if opens_persons(domain, options) else []
    return found + more


def _attribute(attribute: Attribute, composition: Composition, weight: float) -> Release:
    return Release(Part.ATTRIBUTE, Fraction(weight), attribute.name, choose_tree(attribute, composition))


def _weight(releases: Sequence[Release]) -> Fraction:
    return sum((one.weight for one in releases), Fraction(0))


def _sharing(share: Fraction, releases: Sequence[Release]) -> list[Release]:
    """Return releases that share a part of the budget in proportion to their weights."""
    unit = share / _weight(releases)
    return [replace(one, weight=unit * one.weight) for one in releases]


def planned_sums(domain: Domain, options: Options) -> Sequence[SummedValues]:
    """Return the sums of values that opening measures.

    Where intervals hold for all questions at once, within an accuracy contract, or where single questions are
    tested, plans are for counts alone.
    """
    sums = options.measures_apart and options.opening is not Opening.NONE
    return opening_sums(domain) if sums else ()


def opens_persons(domain: Domain, options: Options) -> bool:
    """Tell whether opening measures the number of persons, where that tells more than the records do.

    Where one record of each person is kept, the number of records is that of persons.
    """
    several = domain.person is not None and options.records_per_person > 1
    return options.opening is not Opening.NONE and several and options.measures_apart


def _prices(domain: Domain, composition: Composition, order: int) -> SharedPrices:
    """Return ``shared_prices`` of a domain's attributes as opening, and wider residuals, measure them."""
    fine = tuple(_axis_price(attribute, composition) for attribute in domain)
    coarse = tuple(AxisPrice.of(coarse_of(attribute)) for attribute in domain)
    found = shared_prices(fine, coarse, order)
    # An attribute of a single cell says nothing, but every attribute is measured: so it costs a little.
    least = _LEAST_PRICE * found.everybody
    return replace(found, single=tuple(max(price, least) for price in found.single))


def _needs(domain: Domain, composition: Composition, expected: ExpectedQuestions, order: int) -> SharedPrices:
    """Return what the expected questions need of the number of records, attributes and the mean residual."""
    alone = {one.name: _axis_price(one, composition) for one in domain}
    together = {one.name: AxisPrice.of(coarse_of(one)) for one in domain}
    found = asked_prices(expected.by_scope, alone, together, range(order + 1))
    sums = [sum(need for scope, need in found.items() if len(scope) == wide) for wide in range(2, order + 1)]
    wider = (need / math.comb(len(domain), wide) for wide, need in enumerate(sums, start=2))
    single = tuple(found.get((name,), 0.0) for name in domain.names)
    return SharedPrices(found.get((), 0.0), single, tuple(wider))


def _axis_price(attribute: Attribute, composition: Composition) -> AxisPrice:
    """Return what an attribute contributes to the variance of questions, as opening measures it."""
    found, tree = AxisPrice.of(attribute), choose_tree(attribute, composition)
    if tree is None:
        return found
    cells = (attribute.base_size + 2) / 3  # of the mean range
    return replace(found, spread=mean_range_variance(tree) * tree.height * cells)


def _spread(attribute: Attribute, composition: Composition) -> float:
    """Return the variance of an attribute's ranges at a fixed price, in those of a marginal's cells.

    That is the number of cells, of a tree times its ``mean_range_variance`` and its number of levels (under
    pure accounting their square).
    """
    tree = choose_tree(attribute, composition)
    if tree is None:
        return float(attribute.size)
    dearer = tree.height**2 if composition is Composition.PURE else tree.height
    return attribute.size * mean_range_variance(tree) * dearer


def opening_share(trees: int, short: Fraction = OPENING_SHARE) -> Fraction:
    """Return the share of the budget for all attributes, so many of them measured as trees."""
    return min(short + trees * TREE_SHARE, max(short, LARGEST_OPENING_SHARE))


def choose_tree(attribute: Attribute, composition: Composition) -> HierarchicalHistogram | None:
    """Return the hierarchical histogram that an attribute is measured as, or None where its cells are
    measured.

    Ordered attributes of more than 24 cells are measured as trees of branching 4 (where epsilons add, which
    makes a level dearer: more than 64 cells, branching 8), of so many levels that the widest has at most 16
    nodes. Chosen by the error of random ranges on a census table: up to about 20 cells a marginal is as good,
    and around these branchings the error is flat. As long a categorical attribute with levels is measured at
    each of them.
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


# --- its noise ----------------------------------------------------------------------------------------------


def open_contract(domain: Domain, budget: Budget, options: Options) -> tuple[Contract, OpeningPlan]:
    """Return what a session fixes at opening, its filter with it, and the noise of what it measures then."""
    options = with_reserve(domain, budget, options)
    ledger = choose_filter(domain, budget, options)
    contract = Contract(domain, budget, replace(options, composition=ledger.composition))
    plan = plan_opening(domain, ledger, contract.options)
    check_reserve(contract, plan)
    check_expected(contract, plan)
    check_prior(contract, plan)
    check_scales(contract, plan)
    return contract, plan


def plan_opening(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> OpeningPlan:
    """Return the noise of what opening measures."""
    releases = opening_releases(domain, budget_filter, options)
    whole, attributes = _weight(releases), [one for one in releases if one.part is Part.ATTRIBUTE]

    def noise(one: Release) -> NoiseDistribution:
        return _noise(replace(one, weight=one.weight / whole), budget_filter, options)

    order = 1 + sum(one.part is Part.WIDER for one in releases)
    rows = {
        one.name: rows_of([domain[one.name]], replaced=options.replaces)
        for one in attributes
        if order > 1 and one.tree is None
    }
    alone = {Part.TABLE} if options.public_count else {Part.TABLE, Part.RECORDS}
    numbers = {one.part: noise(one) for one in releases if one.part in alone}
    return OpeningPlan(
        numbers.get(Part.RECORDS),
        {one.name: noise(one) for one in attributes},
        {one.name: one.tree for one in attributes if one.tree is not None},
        numbers.get(Part.TABLE),
        order,
        {name: strategy for name, strategy in rows.items() if strategy is not None},
        tuple((one.summed, noise(one)) for one in releases if one.summed is not None),
        _needed([one for one in releases if one.part is Part.WIDER]),
    )


def _needed(wider: Sequence[Release]) -> Fraction:
    """Return the part of the weight of residuals that goes by the expected questions, on a grid."""
    needed = sum((one.needed for one in wider), Fraction(0))
    return Fraction(math.floor(needed / _weight(wider) * _GRID), _GRID) if needed else needed


def _noise(release: Release, budget_filter: PrivacyFilter, options: Options) -> NoiseDistribution:
    """Return the noise that a release's weight of the cap buys, on each of its numbers."""
    levels = 1 if release.tree is None else release.tree.height  # one person changes as much in each
    price = floor_price(release.weight / levels * budget_filter.cap)
    try:
        return noise_of_price(budget_filter.composition, price, _moved(release, options))
    except NoiseError:
        raise too_small() from None


def _moved(release: Release, options: Options) -> Moved:
    """Return how much one person changes a release."""
    if release.part is Part.RECORDS:
        moved = query_sensitivity(options)
        return Moved(moved, moved**2)
    if release.part is Part.PERSONS:
        return PersonNumbers((), 1).sensitivity(options)
    if release.summed is not None:
        return SumNumbers(release.summed).sensitivity(options)
    return CellNumbers(()).sensitivity(options)


def too_small() -> BudgetError:
    """Return the error of a budget that measures nothing."""
    return BudgetError("the budget is too small to measure anything; choose a larger epsilon")


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
    """
    domain, options, entries = contract.domain, contract.options, opening_entries(plan, contract.options)
    ledger = choose_filter(domain, contract.budget, options)
    persons = opening_persons(domain, ledger, options, total) if apart else None
    if persons is not None:
        entries = (*entries, PersonNumbers((), 1).entry(persons, options))
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    kept = _weight(_kept(domain, options)) * ledger.cap if plan.order > 1 else 0
    test = plan_test(contract, plan, replace(ledger, spent=ledger.spent + kept), total)
    return Opened(entries, ledger, test, persons)


def opening_persons(
    domain: Domain, budget_filter: PrivacyFilter, options: Options, total: float
) -> NoiseDistribution | None:
    """Return the noise of the number of persons at opening; None where it would tell nothing.

    There are at most as many persons as records, n, and at least n/K. The number is measured where its noise,
    at the session's confidence, is narrower than that. So it depends on public numbers alone.
    """
    if not opens_persons(domain, options):
        return None
    try:
        noise = _noise(Release(Part.PERSONS, PERSONS_SHARE), budget_filter, options)
    except BudgetError:
        return None
    width = sum_half_width(noise, 1.0, options.confidence)
    return noise if width < total * (1 - 1 / options.records_per_person) / 2 else None


def kept_for_later(state: PublicState) -> Fraction:
    """Return what is still kept for sums and persons on request, in the filter's own measure."""
    plan, options, ledger = marginal_tier(state.plan), state.contract.options, state.ledger
    if plan is None or plan.order == 1 or options.reserved:
        return Fraction(0)
    sums = state.sums[len(planned_sums(state.domain, options)) :]
    persons = [one for one in state.persons if one.scope]
    charges = {
        part: [paid.charge(one.noise, options) for one in found if (paid := requested(one)) is not None]
        for part, found in ((Part.MORE_SUMS, sums), (Part.MORE_PERSONS, persons))
    }
    left = Fraction(0)
    for one in _kept(state.domain, options):
        left += max(ledger.cap * one.weight - sum(map(ledger.price, charges[one.part])), Fraction(0))
    return left


# --- balances -----------------------------------------------------------------------------------------------


def choose_filter(
    domain: Domain, budget: Budget, options: Options, *, selects: bool = False
) -> PrivacyFilter:
    """Return the empty filter that the session will charge.

    With delta > 0 zCDP or GDP is the rule (``filter_of_squares``), unless few enough numbers are paid for
    that plain sums are quieter: that is decided by the noise on one value when the budget is shared evenly
    among the events.
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
    events = 2 + len(planned_sums(domain, options))
    if not whole:
        events = 1 + measured + 2 * (options.update_limit or 2 * measured + 20)
    squares = open_filter(budget, Composition.ZCDP) if selects else filter_of_squares(budget, options)
    kept = table_keeps(domain, squares, options)
    if not (selects or whole or kept):
        squares = filter_of_squares(budget, options, tests=share_of_tests(options))
    variance = events / float(squares.cap if squares.composition is Composition.GDP else 2 * squares.cap)
    epsilon = float(budget.epsilon)  # 0 below every float
    laplace = math.sqrt(2) * events / epsilon if epsilon else math.inf
    quieter = laplace < math.sqrt(variance) and options.opening is not Opening.TRIPLES
    return pure if quieter and not kept else squares


def filter_of_squares(budget: Budget, options: Options, *, tests: Fraction = Fraction(0)) -> PrivacyFilter:
    """Return the filter, of zCDP and GDP, under which what is planned takes the smaller part of its cap.

    A plan whose tests take a share x of rho costs 2 rho (1 - x) + 2 rho x pi/2 in mu^2, but for the surcharge
    of the discrete Gaussian. So tests are dearer in GDP, and all else is as dear in a cap that is larger: at
    (1, 1e-9) by 1.106. Below x = 0.185 GDP leaves more. zCDP it is too where GDP has no price: with sech^2
    tests, or where no mu is found for the budget.
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


def residual_order(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> int:
    """Return the most attributes of the marginals that are all measured before any question; 1 for none.

    Pairs are, as residuals, where that leaves questions a smaller expected error than tests would let pass.
    It needs squares that add up, for the rows of residuals are made for Gaussian noise; and where intervals
    hold for all questions at once, within an accuracy contract, or a number of positives is chosen, plans are
    for cells and tests. Triples are, where they are asked for.
    """
    if options.opening is Opening.TRIPLES:
        check_triples(domain, budget_filter)
        return 3
    errors = pairs_forecast(domain, budget_filter, replace(options, expected=None))
    return 2 if errors is not None and errors.measured <= errors.tested else 1


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
    """Return both sides of the choice between measuring all pairs and testing them."""
    pairs, composition = math.comb(len(domain), 2), budget_filter.composition
    chosen = options.opening is Opening.PAIRS and options.tests_marginals and options.update_limit is None
    promised = options.simultaneous or options.bar_limit is not None
    if not chosen or promised or composition is Composition.PURE or not 0 < pairs <= _MOST_PAIRS:
        return None
    coarse = [coarse_of(attribute) for attribute in domain]
    axes = tuple(AxisPrice.of(attribute) for attribute in coarse)
    every, (price,) = (
        _of_residuals(domain, composition, options, 2)[-1],
        _prices(domain, composition, 2).wider,
    )
    if not price:  # no pair has two cells along both attributes
        return None
    pair = every.weight / pairs * Fraction(shared_prices(axes, axes, 2).wider[0]) / Fraction(price)
    limit, schedule = most_positives(len(domain)), DEFAULT_SCHEDULE.under(composition)
    left = 1 - MARGINAL_TOTAL_SHARE - MARGINAL_OPENING_SHARE
    positive = left * (1 - schedule.tests - schedule.queries) / limit
    try:
        noise = _noise(replace(every, weight=positive), budget_filter, options)
        test = scaled_test(
            budget_filter.cap * left * schedule.tests,
            limit,
            marginal_statistic(10 * pairs, options),
            options.chosen_sparse_vector(composition),
            composition,
        )
        measured = math.sqrt(noise_variance(_noise(replace(every, weight=pair), budget_filter, options)))
    except (BudgetError, NoiseError):  # nothing is left
        return None
    spreads = [math.sqrt(one.spread * other.spread) for one, other in itertools.combinations(axes, 2)]
    cells = [one.size * other.size for one, other in itertools.combinations(coarse, 2)]
    passed = schedule.noise_factor * l1_mean(noise) * sum(cells) / pairs
    passed += schedule.margin * float(test.query_scale) / UNITS
    # At prices in proportion to the roots of their spreads, pairs have these errors.
    return PairsForecast(measured * sum(map(math.sqrt, spreads)) / pairs, passed / 4)


@lru_cache(maxsize=64)  # a plan asks for it several times
def _balanced_share(cells: int, budget_filter: PrivacyFilter, options: Options) -> Fraction:
    """Return the share of the number of records under which a table's widest bar is narrowest."""
    if options.public_count:
        return Fraction(0)

    @cache
    def widest(share: Fraction) -> float:
        return _table_bar(cells, share, budget_filter, options)

    best = min((Fraction(part, 32) for part in range(1, 17)), key=widest)
    for step in (128, 1024):
        best = min((best + Fraction(part, step) for part in range(-3, 4)), key=widest)
    return best


def _table_bar(cells: int, share: Fraction, budget_filter: PrivacyFilter, options: Options) -> float:
    """Return the widest bar about a whole table, where the number of records takes a share of the budget."""
    confidences = Confidences.of(options, 1, (), private_total=not options.public_count)
    cell = _noise(Release(Part.TABLE, 1 - share), budget_filter, options)
    deviation = everybody = 0.0
    if not options.public_count:
        total = _noise(Release(Part.RECORDS, share), budget_filter, options)
        deviation = math.sqrt(1 / (1 / noise_variance(total) + 1 / (cells * noise_variance(cell))))
        everybody = total_half_width(budget_filter.composition, deviation, confidences.everybody, (cell,))
    return max(everybody, widest_bar(cell, cells, deviation, options, confidences.alone))


def widest_bar(
    noise: NoiseDistribution, cells: int, deviation: float, options: Options, confidence: float
) -> float:
    """Return what no bar exceeds of a question about a table that is measured whole, in records.

    Args:
        noise: on each cell, in units.
        deviation: of the number of records that takes in the cells, in records.
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
    """
    limit = options.bar_limit
    if limit is None or options.opening is Opening.NONE or len(domain) < 2 or domain.size > _LARGEST_TABLE:
        return False
    try:
        share = _balanced_share(domain.size, budget_filter, options)
        return _table_bar(domain.size, share, budget_filter, options) <= limit
    except BudgetError:
        return False


# --- what is refused before anything is drawn ---------------------------------------------------------------


def with_reserve(domain: Domain, budget: Budget, options: Options) -> Options:
    """Return options in which a reserve that is left to planning is chosen.

    It is kept where opening measures all pairs with Gaussian noise, and no other choice rules it out.
    """
    if options.reserve is not None:
        return options
    if not options.without_reserve:
        kept = replace(options, reserve=RESERVE)
        ledger = choose_filter(domain, budget, kept)
        is_pure = ledger.composition is Composition.PURE
        if not is_pure and not _is_whole(domain, ledger, kept) and residual_order(domain, ledger, kept) > 1:
            return kept
    return replace(options, reserve=Fraction(0))


def check_scales(contract: Contract, plan: OpeningPlan) -> None:
    """Refuse a budget under which rows measured before any question would need noise beyond every scale.

    The noise of pairs, and of wider marginals, follows from the number of records: of few, and of so many
    that half of it is kept for tests. Their rows follow from bins that are not chosen yet: any is assumed.
    """
    try:
        for name, rows in plan.strategies.items():
            rows.noise(plan.marginal_noise[name])
        for records in (0.0, 2.0**40) if plan.order > 1 else ():
            tier = marginal_tier(plan_opened(contract, plan, records).test)
            if tier is not None:
                tier = replace(tier, added=())  # of the cheapest, which nobody may expect
                cheapest = sorted(tier.weights, key=tier.weights.__getitem__)
                for order in range(2, tier.order + 1):
                    widest_of_rows(tier.noise_of(cheapest[:order]))
    except NoiseError:
        raise too_small() from None
