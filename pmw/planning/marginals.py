"""Schedules: how a budget is split where whole marginals are tested and measured, and how often.

A schedule holds the numbers that the stream benchmark chooses, and ``plan_marginal_test`` makes a plan of
them from public numbers: the schema, what is left of the budget, and the number of records, as released or as
stated. Bins of long attributes are chosen from what opening releases, which a plan does not know: so tests
are planned for assumed bins (``assumed_bins``), and a session does what was planned for it.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction

from pmw.errors import NoiseError
from pmw.model import (
    DEFAULT_BINS,
    DEFAULT_MAX_CELLS,
    assumed_domain,
    fewest_bins,
    leaf_variances,
    noise_variance,
)
from pmw.planning.calibration import marginal_noise, marginal_statistic, scaled_test
from pmw.planning.error_quantiles import reserved_share
from pmw.privacy.budget import Composition
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.tail_bounds import l1_mean
from pmw.public.contract import Contract, Options
from pmw.public.plans import MarginalTestPlan, OpeningPlan
from pmw.sparse_vector import Sparse
from queries.domain import CategoricalAttribute, Domain
from queries.factors import UNITS

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


DEFAULT_SCHEDULE = Schedule()
_GROWTH = 16  # of a domain of bins that no tree holds: up to here errors do not grow (docs/algorithm.md)
CONTRACT_SCHEDULE = Schedule(queries=Fraction(3, 5))  # under an accuracy contract, whose bars most tests give


def assumed_bins(contract: Contract, opening: OpeningPlan, total: float, bins: int = DEFAULT_BINS) -> Domain:
    """Return the domain that marginals are planned to be tested on; see ``assumed_domain``.

    Single questions are tested on the declared cells, and what opening does not measure is not binned.

    Args:
        contract: what is fixed at opening.
        opening: what is measured at opening.
        total: the number of records, as released or as stated.
        bins: wanted for each long ordered attribute.
    """
    return assumed_domain(contract.domain, max(total, 1.0), bin_deviations(contract, opening), bins=bins)


def affordable_bins(contract: Contract, opening: OpeningPlan, total: float, fine_cells: int) -> int:
    """Return how many bins a long ordered attribute is put into: as many as cost nothing that is noticed.

    Two long attributes of b bins have a marginal of b^2 cells. At most ``fine_cells`` are measured at a noise
    that is not noticed beside the records, so b is the square root of that, and grows as that of
    n epsilon. It is at least DEFAULT_BINS, and no more than leave every attribute as it is. A tree that is
    full leaves marginals beside the model: so bins of all attributes together make at most ``max_cells``
    cells, or 16 times as many as DEFAULT_BINS would make.

    Args:
        contract: what is fixed at opening.
        opening: what is measured at opening.
        total: the number of records, as released or as stated: never the true one.
        fine_cells: of a scope that is tested and measured on declared cells.
    """

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
) -> MarginalTestPlan | None:
    """Return the test of whole marginals, or None where nothing is left for it, or there is nothing to test.

    Args:
        coarse: the domain that marginals are planned to be tested on.
        ledger: what is left after opening.
        total: the number of records, as released or as stated.
        options: the custodian's choices.
        schedule: how it is spent.
    """
    if coarse.size == 1:
        return None
    left, records = ledger.remaining, max(total, 1.0)
    try:
        pure = ledger.composition is Composition.PURE
        kind = options.chosen_sparse_vector(ledger.composition)
        limit = options.update_limit or _choose_limit(coarse, ledger, records, options, schedule)
        pairs = max(1, math.comb(len(coarse), 2))
        statistic = marginal_statistic(expected_tests(coarse), options)
        test = scaled_test(left * schedule.tests, limit, statistic, kind, ledger.composition)
        noise = marginal_noise(ledger.composition, _price(ledger, limit, schedule), options)
    except NoiseError:
        return None
    per_cell = l1_mean(noise)
    free = schedule.few_free if pure else schedule.free
    return MarginalTestPlan(
        Sparse(test, limit, kind.redraw),
        noise,
        schedule.noise_factor,
        math.ceil(schedule.margin * test.query_scale),
        _decay(schedule, limit / pairs, records, pairs),
        _cells(schedule.tested * records / per_cell),
        _cells(free * records / per_cell),
        _cells(schedule.fine * records / per_cell),
    )


def expected_tests(coarse: Domain) -> int:
    """Return about how many marginals of a domain a session tests: each pair of attributes ten times."""
    return 10 * max(1, math.comb(len(coarse), 2))


def _decay(schedule: Schedule, measured: float, records: float, pairs: int) -> tuple[int, int]:
    height, length = schedule.decay
    return math.ceil(height * max(0.0, 1 - measured) * records * UNITS), max(1, round(length * pairs))


def _cells(number: float) -> int:
    return max(1, min(math.floor(number), 2**24))


def _price(ledger: PrivacyFilter, limit: int, schedule: Schedule) -> Fraction:
    """Return the price of one of so many marginals, in the filter's own measure."""
    left = ledger.remaining * (1 - schedule.tests - schedule.queries)
    return (left - reserved_share(ledger)) / limit


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
    most = min(len(sizes), schedule.per_attribute * len(coarse))
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
