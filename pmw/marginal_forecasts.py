"""Forecasts where whole marginals are tested and bought, from public numbers, in records.

Bounds are the half-widths of the intervals that answers carry, by the same formulas. The groups of long
attributes are chosen from what opening releases, so a forecast counts on a number of groups that is stated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pmw.error_bars import Confidences, total_half_width
from pmw.forecasts import (
    AttributeForecast,
    OrderForecast,
    VectorForecast,
    Width,
    forecast_attribute,
    forecast_vector,
    noise_error,
)
from pmw.marginal_bars import negative_half_width
from pmw.model import NoiseLaw, noise_variance
from pmw.noise import DiscreteLaplace
from pmw.noise_bounds import simultaneous_half_width, sum_half_width
from pmw.policy import MarginalTestPlan, Opening, OpeningPlan, Options, TestPlan
from pmw.privacy import Composition
from queries.domain import Domain
from queries.linear import UNITS

__all__ = [
    "CertificateForecast",
    "forecast_marginal_orders",
    "forecast_marginals",
    "forecast_table",
    "marginal_width",
    "MarginalForecast",
    "planned_confidences",
]

_TESTED_ORDERS = (1, 2, 3)  # attributes of the marginals that a question asks to be tested


@dataclass(frozen=True, slots=True)
class CertificateForecast:
    """What tests of marginals of one order promise.

    Args:
        order: number of attributes.
        marginals: marginals of that order.
        tested: those among them that are tested; the others have too many cells. Of triples, a tree tests
            only those that it could hold, so these are the most.
        typical_cells: of the median of those; None where none is.
        typical_bound: half-width of the interval of a question on it, where its test was negative after the
            expected number of questions: thresholds come down with them.
        largest_cells: of the largest of those.
        largest_bound: the same half-width for it.
    """

    order: int
    marginals: int
    tested: int
    typical_cells: int | None
    typical_bound: float | None
    largest_cells: int | None
    largest_bound: float | None


@dataclass(frozen=True, slots=True)
class MarginalForecast:
    """The sparse vector over whole marginals, and what its positives buy.

    Args:
        update_limit: number of positives, each of which buys a marginal.
        threshold_scale: scale of the threshold noise.
        query_scale: scale of the noise of each test.
        head_start: what the first thresholds are higher by, in distance: twice what they add to a bound.
        redrawn: new threshold noise after each positive.
        most_cells: of a marginal that is tested.
        free_cells: a marginal is bought with further attributes while it has at most so many cells.
        fine_cells: a marginal of at most so many declared cells is on those; else on groups.
        cell_deviation: standard deviation of the noise on each cell of a bought marginal.
        cell_error: expected |noise| of one cell.
        cell_bound: half-width of one cell's interval.
        widest_bound: half-width of the widest interval of a question about a bought marginal.
        certificates: what negatives promise, by order.
        single: the test of single questions, for those that no marginal covers; None where there is none.
    """

    update_limit: int
    threshold_scale: float
    query_scale: float
    head_start: float
    redrawn: bool
    most_cells: int
    free_cells: int
    fine_cells: int
    cell_deviation: float
    cell_error: float
    cell_bound: float
    widest_bound: float
    certificates: tuple[CertificateForecast, ...]
    single: VectorForecast | None

    @property
    def typical_bound(self) -> float | None:
        """What a negative promises about a typical pair of attributes."""
        return next((one.typical_bound for one in self.certificates if one.order == 2), None)


def marginal_width(options: Options, confidences: Confidences) -> Width:
    """Return the half-widths that bought numbers carry where marginals are tested.

    Args:
        options: whether intervals hold for all questions at once.
        confidences: of the session's noises.
    """
    alone = confidences.alone
    if options.simultaneous:
        return lambda noise, _, cells: simultaneous_half_width(noise, cells, alone)
    return lambda noise, squares, _: sum_half_width(noise, squares, alone, peak=1.0)


def planned_confidences(options: Options, opening: OpeningPlan, plan: TestPlan | None) -> Confidences:
    """Return the confidences that a session with these plans will have."""
    bought = len(opening.marginal_noise) + (opening.table_noise is not None)
    return Confidences.of(options, bought, plan, private_total=opening.total_noise is not None)


def forecast_marginals(
    plan: MarginalTestPlan,
    domains: tuple[Domain, Domain],
    opening: OpeningPlan,
    options: Options,
    deviation: float,
) -> MarginalForecast:
    """Return what a test of marginals will give.

    Args:
        plan: the test.
        domains: the declared one, and that of groups, as planned, which marginals of many cells are on.
        opening: what is bought before.
        options: the custodian's choices.
        deviation: standard deviation of the released number of records.
    """
    confidences = planned_confidences(options, opening, plan)
    width = marginal_width(options, confidences)
    composition = Composition.PURE if isinstance(plan.noise, DiscreteLaplace) else Composition.ZCDP
    misfit = total_half_width(composition, deviation, confidences.total)

    def bound(cells: int) -> float:
        threshold = plan.threshold(cells, options.expected_queries)
        return negative_half_width(plan, threshold, cells, confidences, misfit)

    orders = _TESTED_ORDERS if options.opening is Opening.NONE else _TESTED_ORDERS[1:]
    most = len(domains[0])
    certificates = tuple(_certificate(plan, domains, order, bound) for order in orders if order <= most)
    largest = max((one.largest_cells or 1 for one in certificates), default=1)
    # What is bought is widened only where a tree could hold the whole domain.
    cells = max(largest, min(max(plan.free_cells, plan.fine_cells), domains[0].size))
    return MarginalForecast(
        update_limit=plan.update_limit,
        threshold_scale=float(plan.sparse.test.threshold_scale) / UNITS,
        query_scale=float(plan.sparse.test.query_scale) / UNITS,
        head_start=(plan.threshold(1, 0) - plan.threshold(1, options.expected_queries)) / UNITS,
        redrawn=plan.sparse.redraw,
        most_cells=plan.most_cells,
        free_cells=plan.free_cells,
        fine_cells=plan.fine_cells,
        cell_deviation=math.sqrt(noise_variance(plan.noise)),
        cell_error=noise_error(plan.noise, 1),
        cell_bound=width(plan.noise, 1.0, min(cells, plan.most_cells)),
        widest_bound=width(plan.noise, float(cells), cells),
        certificates=certificates,
        single=None if plan.queries is None else forecast_vector(plan.queries, confidences.alone),
    )


def _certificate(
    plan: MarginalTestPlan, domains: tuple[Domain, Domain], order: int, bound: Callable[[int], float]
) -> CertificateForecast:
    """Return what negatives promise about marginals of an order, given their bound by number of cells."""
    sizes, marginals = _tested_sizes(plan, domains, order), math.comb(len(domains[0]), order)
    tested = sizes.total()
    if not tested:
        return CertificateForecast(order, marginals, 0, None, None, None, None)
    typical, largest = _median(sizes), max(sizes)
    return CertificateForecast(
        order,
        marginals,
        tested,
        typical,
        bound(typical),
        largest,
        bound(largest),
    )


def _tested_sizes(plan: MarginalTestPlan, domains: tuple[Domain, Domain], order: int) -> Counter[int]:
    """Return how many marginals of an order are tested on each number of cells."""
    tested: Counter[int] = Counter()
    for (fine, coarse), number in _sizes(domains, order, plan.most_cells).items():
        cells = fine if fine <= plan.fine_cells else coarse
        if cells <= plan.most_cells:
            tested[cells] += number
    return tested


def _sizes(domains: Sequence[Domain], order: int, most: int) -> Counter[tuple[int, ...]]:
    """Return how many scopes of an order have each number of cells, bounded in the last of the domains."""
    counts = [Counter({(1,) * len(domains): 1}), *(Counter[tuple[int, ...]]() for _ in range(order))]
    for sizes in zip(*(domain.shape for domain in domains), strict=True):
        for taken in range(order, 0, -1):
            for cells, number in counts[taken - 1].items():
                product = tuple(cell * size for cell, size in zip(cells, sizes, strict=True))
                if product[-1] <= most:
                    counts[taken][product] += number
    return counts[order]


def _median(sizes: Counter[int]) -> int:
    left = (sizes.total() + 1) // 2
    for cells in sorted(sizes):
        left -= sizes[cells]
        if left <= 0:
            return cells
    return max(sizes)


def forecast_marginal_orders(
    orders: Iterator[OrderForecast], test: MarginalForecast | None
) -> Iterator[OrderForecast]:
    """Yield what questions about 1, 2, ... attributes get where marginals are tested.

    A question on a tested marginal is within its certificate, of the largest one at most; any other is tested
    by itself, while positives of that test are left.

    Args:
        orders: what they get without tests.
        test: of marginals; None where nothing is left for one.
    """
    for one in orders:
        if one.promise == "covered" or test is None:
            yield one
            continue
        found = next((found for found in test.certificates if found.order == one.order), None)
        bounds = [] if found is None or found.largest_bound is None else [found.largest_bound]
        everything = found is not None and found.tested == found.marginals
        if not everything and test.single is not None:
            bounds.append(test.single.bound)
        promised = everything or test.single is not None
        yield OrderForecast(
            one.order,
            one.marginals,
            one.cells,
            one.mean_count,
            "tested" if bounds else "none",
            None,
            max(bounds) if bounds and promised else None,
        )


def forecast_table(
    domain: Domain, records: int, noise: NoiseLaw, width: Width
) -> tuple[tuple[AttributeForecast, ...], tuple[OrderForecast, ...]]:
    """Return what a table that is bought whole will give: by attribute, and by order from 1.

    Args:
        domain: the declared attributes.
        records: number of records.
        noise: on each cell of the table, in units.
        width: of intervals.
    """
    attributes = tuple(
        forecast_attribute(one.name, one.size, noise, width, repeated=domain.size // one.size)
        for one in domain
    )
    orders = []
    sizes = sorted(domain.shape)
    for order in range(1, len(sizes) + 1):
        counted = _sizes([domain], order, domain.size)
        cells = sum(size * number for (size,), number in counted.items())
        repeated = domain.size // math.prod(sizes[:order])  # of the smallest marginal, whose sums are longest
        orders.append(
            OrderForecast(
                order,
                counted.total(),
                cells,
                records * counted.total() / cells,
                "covered",
                noise_error(noise, repeated),
                width(noise, repeated, domain.size),
            )
        )
    return attributes, tuple(orders)
