"""Tiers: what is tested and measured after opening, how often, and for which shares of what is left.

Where whole marginals are tested, a schedule holds the numbers that the stream benchmark chooses, and
``plan_marginal_test`` makes a plan of them from public numbers: the schema, what is left of the budget, and
the number of records, as released or as stated. Bins of long attributes are chosen from what opening
releases, which a plan does not know: so tests are planned for assumed bins (``assumed_bins``), and a session
does what was planned for it. Where single questions are tested, ``plan_query_test`` makes the plan; beside
marginals, ``plan_query_tier`` does, or ``plan_contract_tier`` under an accuracy contract.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache

from pmw.errors import NoiseError
from pmw.model.bins import assumed_domain, coarse_of, fewest_bins
from pmw.model.estimate import noise_variance
from pmw.model.hierarchical_histogram import leaf_variances
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measurement import DEFAULT_BINS, half_width
from pmw.model.prices import AxisPrice, asked_prices, shared_prices
from pmw.planning.calibration import (
    marginal_noise,
    marginal_statistic,
    query_statistic,
    scaled_test,
    value_noise,
)
from pmw.planning.error_quantiles import reserved_share
from pmw.privacy.budget import Composition, floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import l1_mean
from pmw.public.contract import Contract
from pmw.public.half_widths import Confidences, negative_margin
from pmw.public.options import ExpectedQuestions, Opening, Options
from pmw.public.plans import AddedPrice, MarginalTestPlan, OpeningPlan, QueryTestPlan, TestPlan
from pmw.sparse_vector import NumericSparse, Sides, Sparse
from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass

VALUE_SHARE = Fraction(15, 100)  # of what is left after opening, for released values; the rest is for tests
_MOST_PARTS = 50  # of a hundred: for values under an accuracy contract, which cost far less than tests
_FALSE = 0.1  # of the positives under an accuracy contract, on a model without error
_BETA = 0.05  # failure probability in the split between threshold and test noise
_PARTS = 1024  # of which a weight is a whole number
_DEARER = Fraction(10, 7)  # tests in mu^2, as parts of the cap


@dataclass(frozen=True, slots=True)
class Schedule:
    """How what is left after opening is spent; shares are of that.

    Args:
        tests: for tests of marginals; of rho, and more of mu^2 (``under``).
        queries: for the test of single questions.
        query_limit: positives of the test of single questions.
        noise_factor: of the distance that noise alone would make, in a threshold.
        margin: what a threshold adds, in scales of the test's fresh noise.
        decay: what the first thresholds add besides, in parts of the total, where only a few of all pairs of
            attributes can be measured, and in proportion less where more can be; and after how many questions
            for each pair it is e times less.
        per_attribute: the most positives for each attribute; a model's tree holds few more.
        least: the fewest, however noisy they are: one marginal alone leaves all others as they were.
        target: the distance that noise alone may make on a pair of attributes, in parts of the total: with
            more positives noise would exceed it.
        tested: the same, of the largest marginal that is tested.
        free: the same, of a measured marginal that is widened.
        fine: the same, of a marginal that is tested and measured on declared cells where others are on bins.
        wider: of the errors of pairs, in parts of the total: where all pairs are measured with less, what
            they cannot say of wider marginals is larger, and these are tested.
        few: where epsilons add, so that each marginal makes all of them noisier: the most positives, in parts
            of the number of pairs.
        few_free: ``free`` where epsilons add: fewer marginals, but wider ones.
        few_target: ``target`` where epsilons add: noise grows faster with their number, and what opening
            releases is noisier, which leaves fewer bins than are assumed.
    """

    tests: Fraction = Fraction(3, 100)
    queries: Fraction = Fraction(1, 100)
    query_limit: int = 5
    noise_factor: float = 0.7
    margin: float = 1.0
    decay: tuple[float, float] = (0.35, 1.5)
    per_attribute: int = 4
    least: float = 0.75
    target: float = 0.075
    tested: float = 0.5
    free: float = 0.01
    fine: float = 0.01
    wider: float = 3e-4
    few: float = 0.7
    few_free: float = 0.04
    few_target: float = 0.09

    def under(self, composition: Composition) -> Schedule:
        """Return the schedule of a filter, whose tests have about the same noise under zCDP and GDP.

        At (1, 1e-9) a pure event takes 1.42 times as large a part of mu^2 as of rho; Gaussian noise takes
        0.904 times as large a one.
        """
        if composition is not Composition.GDP:
            return self
        return replace(self, tests=self.tests * _DEARER, queries=self.queries * _DEARER)


@dataclass(frozen=True, slots=True)
class ResidualPrices:
    """The prices of residuals that are all measured before any question, in those of the dearest pair.

    Args:
        weights: of each attribute, by name: see ``MarginalTestPlan``.
        prices: of a marginal of two attributes, of three, and so on, with weights of the product 1.
        added: see ``MarginalTestPlan``.
    """

    weights: Mapping[str, Fraction]
    prices: tuple[Fraction, ...]
    added: tuple[AddedPrice, ...] = ()

    @property
    def order(self) -> int:
        """The most attributes of such a marginal."""
        return 1 + len(self.prices)

    @property
    def parts(self) -> Fraction:
        """The prices of all of them together."""
        count = len(self.weights)
        return sum(
            (
                price * math.comb(count, wide) * mean_weight(self.weights, wide)
                for wide, price in enumerate(self.prices, start=2)
            ),
            sum((one.price for one in self.added), Fraction(0)),
        )


DEFAULT_SCHEDULE = Schedule()
_TESTED = ResidualPrices({}, ())  # no marginal is measured before any question
_GROWTH = 16  # of a domain of bins that no tree holds: up to here errors do not grow
CONTRACT_SCHEDULE = Schedule(queries=Fraction(3, 5))  # under an accuracy contract, whose bars most tests give


def assumed_bins(contract: Contract, opening: OpeningPlan, total: float, bins: int = DEFAULT_BINS) -> Domain:
    """Return the domain that marginals are planned to be tested on; see ``assumed_domain``.

    Single questions are tested on the declared cells, and what opening does not measure is not binned.
    """
    return assumed_domain(contract.domain, max(total, 1.0), bin_deviations(contract, opening), bins=bins)


def affordable_bins(contract: Contract, opening: OpeningPlan, total: float, fine_cells: int) -> int:
    """Return how many bins a long ordered attribute is put into: as many as cost nothing that is noticed.

    Two long attributes of b bins have a marginal of b^2 cells. At most ``fine_cells`` are measured at a noise
    that is not noticed beside the records, so b is the square root of that, and grows as that of
    n epsilon. It is at least DEFAULT_BINS, and no more than leave every attribute as it is. Where triples are
    measured before any question it is DEFAULT_BINS: so the schema tells how large they are. A tree that is
    full leaves marginals beside the model: so bins of all attributes together make at most ``max_cells``
    cells, or 16 times as many as DEFAULT_BINS would make.

    Args:
        total: the number of records, as released or as stated: never the true one.
    """

    if opening.order > 2:
        return DEFAULT_BINS

    def cells(bins: int) -> int:
        return assumed_bins(contract, opening, total, bins).size

    binned = [contract.domain[name] for name in bin_deviations(contract, opening)]
    longest = max((one.base_size for one in binned if not isinstance(one, CategoricalAttribute)), default=1)
    candidates = range(DEFAULT_BINS + 1, min(math.isqrt(fine_cells), fewest_bins(longest)) + 1)
    most_cells = max(contract.options.max_cells or DEFAULT_MAX_CELLS, _GROWTH * cells(DEFAULT_BINS))
    return DEFAULT_BINS + bisect_right(candidates, most_cells, key=cells)


def bin_deviations(contract: Contract, opening: OpeningPlan) -> dict[str, float]:
    """Return, for each attribute that may be binned, the deviation of its noisiest cell, in records."""
    if not contract.options.tests_marginals:
        return {}
    deviations = {}
    for name, noise in opening.marginal_noise.items():
        tree = opening.trees.get(name)
        largest = 1.0 if tree is None else float(leaf_variances(tree).max())
        deviations[name] = math.sqrt(noise_variance(noise) * largest)
    return deviations


def plan_marginal_test(
    coarse: Domain,
    ledger: PrivacyFilter,
    total: float,
    options: Options,
    schedule: Schedule = DEFAULT_SCHEDULE,
    residuals: ResidualPrices = _TESTED,
) -> MarginalTestPlan | None:
    """Return the test of whole marginals, or None where nothing is left, or to be tested."""
    if coarse.size == 1:
        return None
    records, pairs, composition = max(total, 1.0), max(1, math.comb(len(coarse), 2)), ledger.composition
    kind, is_fine, free = options.chosen_sparse_vector(composition), False, schedule.free
    try:
        if residuals.prices:
            noise, limit, is_fine = _noise_of_residuals(coarse, ledger, records, options, schedule, residuals)
        else:
            limit = options.update_limit or _choose_limit(coarse, ledger, records, options, schedule)
            noise = marginal_noise(composition, _price(ledger, limit, schedule), options)
            free = schedule.few_free if composition is Composition.PURE else free
        statistic = marginal_statistic(expected_tests(coarse), options)
        test = scaled_test(ledger.remaining * schedule.tests, limit, statistic, kind, composition)
    except NoiseError:
        return None
    per_cell, (height, length) = l1_mean(noise), schedule.decay
    height *= max(0.0, 1 - (1.0 if residuals.prices else limit / pairs))
    return MarginalTestPlan(
        Sparse(test, limit, kind.redraw),
        noise,
        schedule.noise_factor,
        math.ceil(schedule.margin * test.query_scale),
        (math.ceil(height * records * UNITS), max(1, round(length * pairs))),
        _cells(schedule.tested * records / per_cell),
        _cells(free * records / per_cell),
        _cells(schedule.fine * records / per_cell),
        DEFAULT_BINS,
        dict(residuals.weights),
        residuals.prices,
        is_fine,
        residuals.added,
    )


def _noise_of_residuals(
    coarse: Domain,
    ledger: PrivacyFilter,
    records: float,
    options: Options,
    schedule: Schedule,
    residuals: ResidualPrices,
) -> tuple[NoiseDistribution, int, bool]:
    """Return the noise of the dearest pair, how many positives are left, and whether these are tested for.

    Where only pairs are measured, and their noise is so small beside the records that what pairs cannot say
    is larger, half of what is left is kept for tests of wider marginals, and for measuring those that the
    model is wrong about at the noise of the dearest pair.
    """
    price = _price(ledger, 1, replace(schedule, tests=Fraction(0))) / residuals.parts
    noise = marginal_noise(ledger.composition, price, options)
    spreads = sorted((AxisPrice.of(attribute).spread for attribute in coarse), reverse=True)[:2]
    deviation = math.sqrt(noise_variance(noise)) * math.sqrt(math.prod(spreads))  # about the dearest pair
    is_fine = deviation < schedule.wider * records
    if not is_fine or residuals.order > 2 or len(coarse) == 2:
        return noise, 1, False
    price /= 2
    left = _price(ledger, 1, schedule) - price * residuals.parts
    return marginal_noise(ledger.composition, price, options), max(1, math.floor(left / price)), True


def pair_weights(domain: Domain) -> dict[str, Fraction]:
    """Return the weights of attributes in the prices of residuals, those of the dearest pair with product 1.

    A closed price is in proportion to the root of c_A (``shared_prices``), which is about that of the product
    of the spreads. The attributes' coarse cells are assumed, so nothing here depends on counts.
    """
    roots = [math.sqrt(AxisPrice.of(coarse_of(attribute)).spread) for attribute in domain]
    first, second = sorted(roots)[-2:]
    most = math.sqrt(first * second)
    parts = (
        [max(1, math.floor(_PARTS * root / most)) for root in roots] if most > 0 else [_PARTS] * len(roots)
    )
    return {one.name: Fraction(part, _PARTS) for one, part in zip(domain, parts, strict=True)}


def mean_weight(weights: Mapping[str, Fraction], order: int) -> Fraction:
    """Return the mean product of so many attributes' weights, at most 1 each; 1 where there are none."""
    sets = itertools.combinations(weights.values(), order)
    products = [min(Fraction(1), math.prod(some, start=Fraction(1))) for some in sets]
    return sum(products, Fraction(0)) / len(products) if products else Fraction(1)


def residual_prices(domain: Domain, order: int) -> ResidualPrices:
    """Return the prices of all marginals of 2 to so many attributes, on coarse cells as they are assumed.

    The mean of each order is that of ``shared_prices``.
    """
    if order == 1:
        return _TESTED
    weights, axes = pair_weights(domain), tuple(AxisPrice.of(coarse_of(attribute)) for attribute in domain)
    pair, *wider = shared_prices(axes, axes, order).wider
    prices = [Fraction(1)]
    for wide, price in enumerate(wider, start=3):
        ratio = Fraction(price / pair) * mean_weight(weights, 2) / mean_weight(weights, wide)
        prices.append(Fraction(max(1, math.floor(_PARTS * ratio)), _PARTS))
    return ResidualPrices(weights, tuple(prices))


def added_prices(
    domain: Domain, residuals: ResidualPrices, expected: ExpectedQuestions, share: Fraction
) -> tuple[AddedPrice, ...]:
    """Return what residuals are paid besides, in proportion to what the expected questions need of them."""
    alone = {one.name: AxisPrice.of(one) for one in domain}
    together = {one.name: AxisPrice.of(coarse_of(one)) for one in domain}
    need = asked_prices(expected.by_scope, alone, together, range(2, residuals.order + 1))
    added = _PARTS * share / (1 - share) * residuals.parts / (Fraction(sum(need.values())) or 1)
    parts = ((scope, math.floor(added * Fraction(need[scope]))) for scope in sorted(need))
    return tuple(AddedPrice(scope, Fraction(part, _PARTS)) for scope, part in parts if part)


def expected_tests(coarse: Domain) -> int:
    """Return about how many marginals of a domain a session tests: each pair of attributes ten times."""
    return 10 * max(1, math.comb(len(coarse), 2))


def _cells(number: float) -> int:
    return max(1, min(math.floor(number), 2**24))


def _price(ledger: PrivacyFilter, limit: int, schedule: Schedule) -> Fraction:
    """Return the price of one of so many marginals, in the filter's own measure."""
    left = ledger.remaining * (1 - schedule.tests - schedule.queries)
    return (left - reserved_share(ledger)) / limit


def most_positives(attributes: int, schedule: Schedule = DEFAULT_SCHEDULE) -> int:
    """Return how many marginals of so many attributes are measured at most: pairs, or so many of each."""
    return min(max(1, math.comb(attributes, 2)), schedule.per_attribute * attributes)


def _choose_limit(
    coarse: Domain, ledger: PrivacyFilter, records: float, options: Options, schedule: Schedule
) -> int:
    """Return how many marginals are measured: all pairs, or as many as noise leaves worth measuring.

    With c of them the noise of a pair of the median size makes a distance of cells E|noise|, which grows as
    sqrt(c), or as c where epsilons add; c is the most that keeps it below the target, of at least and at most
    so many per attribute, and of a part of the pairs where epsilons add.
    """
    sizes = sorted(math.prod(pair) for pair in itertools.combinations(coarse.shape, min(2, len(coarse))))
    cells = sizes[len(sizes) // 2]
    most = most_positives(len(coarse), schedule)
    target = schedule.target
    if ledger.composition is Composition.PURE:
        most, target = min(most, math.ceil(schedule.few * len(sizes))), schedule.few_target
    best = least = max(1, min(most, math.floor(schedule.least * len(coarse))))
    for limit in range(least + 1, most + 1):
        noise = marginal_noise(ledger.composition, _price(ledger, limit, schedule), options)
        if cells * l1_mean(noise) > target * records:
            break
        best = limit
    return best


def plan_query_test(
    domain: Domain, budget_filter: PrivacyFilter, total: float, options: Options
) -> QueryTestPlan | None:
    """Return the sparse vector of the query test, or None where nothing is left for it.

    T = b ln(sides * expected_queries / c): on a model without error, test noise alone would raise about one
    false positive per update over the expected stream, and threshold noise, never negative, keeps most of
    those away. eta = 4 T/total maximises the drop of the potential, eta g - eta^2/8 at a gap g = T/total.

    Source: Hardt and Rothblum (2010) and Dwork and Roth (2014), Section 4.2, for the algorithm; Hoeffding's
        lemma in place of their e^x <= 1 + x + x^2 for eta.
    """
    try:
        limit = options.update_limit or _choose_update_limit(domain, budget_filter, total, options)
        vector = _vector(budget_filter.remaining, budget_filter.composition, limit, options)
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
            test = _vector(budget_filter.remaining, budget_filter.composition, limit, options).sparse.test
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
    try:
        left = floor_price(share * budget_filter.remaining)
        vector = _vector(left, budget_filter.composition, limit, options)
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
    """
    limit, left = options.bar_limit, floor_price(share * budget_filter.remaining)
    if limit is None:
        return None

    @cache
    def plan(positives: int) -> QueryTestPlan | None:
        """Return the test with so many positives, and no more for their values than the bar needs."""
        for part in range(1, _MOST_PARTS):
            try:
                vector = _vector(left, budget_filter.composition, positives, options, Fraction(part, 100))
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
    return plan(low + bisect_left(range(low + 1, high), True, key=lambda positives: plan(positives) is None))


def _vector(
    left: Fraction,
    composition: Composition,
    limit: int,
    options: Options,
    value_share: Fraction = VALUE_SHARE,
) -> NumericSparse:
    value, kind = floor_price(value_share * left / limit), options.chosen_sparse_vector(composition)
    test = scaled_test(left - limit * value, limit, query_statistic(options), kind, composition)
    noise = value_noise(composition, value, options)
    return NumericSparse(Sparse(test, limit, kind.redraw), noise)


def plan_test(contract: Contract, opening: OpeningPlan, ledger: PrivacyFilter, total: float) -> TestPlan:
    """Return the tiers of a session, in order; none where nothing is left for any."""
    domain, options = contract.domain, contract.options
    promised = options.bar_limit is not None
    schedule = CONTRACT_SCHEDULE if promised else DEFAULT_SCHEDULE.under(ledger.composition)
    if not options.tests_questions:
        schedule = replace(schedule, queries=Fraction(0), wider=0.0)
    if not options.tests_marginals:
        alone = plan_query_test(domain, ledger, total, options)
        return () if alone is None else (alone,)
    if opening.table_noise is not None or (options.opening is not Opening.NONE and len(domain) == 1):
        return ()  # what opening measured covers every question
    coarse = assumed_bins(contract, opening, total)
    residuals = residual_prices(domain, opening.order)
    if options.expected is not None:
        added = added_prices(domain, residuals, options.expected, opening.expected)
        residuals = replace(residuals, added=added)
    marginals = plan_marginal_test(coarse, ledger, total, options, schedule, residuals)
    if marginals is None:
        return ()
    bins = affordable_bins(contract, opening, total, marginals.fine_cells)
    marginals = replace(marginals, bins=bins)
    if not promised:
        questions = plan_query_tier(ledger, schedule.queries, schedule.query_limit, options)
    else:

        def confidence(tier: QueryTestPlan) -> float:
            private, plan = opening.total_noise is not None, (marginals, tier)
            return Confidences.of(options, len(opening.noises), plan, private_total=private).alone

        least = schedule.query_limit
        questions = plan_contract_tier(ledger, schedule.queries, least, options, confidence)
    return (marginals,) if questions is None else (marginals, questions)
