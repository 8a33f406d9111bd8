"""Forecasts where whole marginals are tested and measured, from public numbers, in records.

Bounds are the half-widths of the intervals that answers carry, by the same formulas. The bins of long
attributes are chosen from what opening releases, so a bound is that of the most bins it may choose; what is
typical is stated for the bins that the tests are planned for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pmw.model import DEFAULT_MAX_CELLS, NoiseDistribution, extreme_domains, noise_variance
from pmw.planning.forecasts import (
    AttributeForecast,
    OrderForecast,
    VectorForecast,
    Width,
    forecast_attribute,
    noise_error,
)
from pmw.planning.marginals import assumed_bins, bin_deviations
from pmw.privacy.tail_bounds import simultaneous_half_width, sum_half_width
from pmw.public.confidences import Confidences, negative_half_width
from pmw.public.contract import Contract, Opening, Options, is_dense
from pmw.public.plans import MarginalTestPlan, OpeningPlan, TestPlan
from pmw.public.table_noise import TableNoise
from queries.domain import Domain
from queries.factors import UNITS

_TESTED_ORDERS = (1, 2, 3)  # attributes of the marginals that a question asks to be tested


@dataclass(frozen=True, slots=True)
class CertificateForecast:
    """What tests of marginals of one order promise.

    Args:
        order: number of attributes.
        marginals: marginals of that order.
        tested: those among them that are tested on the assumed bins; the others have too many cells. Of
            triples, a tree tests only those that it could hold, so these are the most.
        typical_cells: of the median of those; None where none is.
        typical_bound: half-width of the interval of a question on it, where its test was negative after the
            expected number of questions: thresholds come down with them.
        largest_cells: of the largest that may be tested, whatever bins come out, or more; None for none.
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
    """The sparse vector over whole marginals, and what its positives measure.

    Args:
        update_limit: number of positives, each of which measures a marginal.
        threshold_scale: scale of the threshold noise.
        query_scale: scale of the noise of each test.
        head_start: what the first thresholds are higher by, in distance: twice what they add to a bound.
        redrawn: new threshold noise after each positive.
        most_cells: of a marginal that is tested.
        free_cells: a marginal is measured with further attributes while it has at most so many cells.
        fine_cells: a marginal of at most so many declared cells is on those; else on bins.
        cell_deviation: standard deviation of the noise on each cell of a measured marginal.
        cell_error: expected |noise| of one cell.
        cell_bound: half-width of one cell's interval.
        widest_bound: half-width of the widest interval of a question about a measured marginal.
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


@dataclass(frozen=True, slots=True)
class Grids:
    """The cells that marginals may be tested on: bins are chosen from what opening releases.

    Args:
        declared: the declared domain.
        assumed: of the bins that tests are planned for.
        narrowest: of the fewest bins that any released counts lead to, attribute by attribute.
        widest: of the most.
    """

    declared: Domain
    assumed: Domain
    narrowest: Domain
    widest: Domain

    @classmethod
    def of(cls, contract: Contract, opening: OpeningPlan, records: float, bins: int) -> Grids:
        """Return the grids of a session over so many records, with so many bins of a long attribute."""
        extremes = extreme_domains(contract.domain, bin_deviations(contract, opening), bins=bins)
        return cls(contract.domain, assumed_bins(contract, opening, records, bins), *extremes)


@dataclass(frozen=True, slots=True)
class Certificates:
    """What negatives of a test promise, whatever bins a session chooses.

    Args:
        plan: the test.
        grids: what it may test.
        options: the custodian's choices.
        confidences: of the session's noises.
        total_error: how far the model's total may be from the number of records, in records.
    """

    plan: MarginalTestPlan
    grids: Grids
    options: Options
    confidences: Confidences
    total_error: float

    def bound(self, cells: int) -> float:
        """Return the half-width of a marginal's certificate after the expected number of questions."""
        threshold = self.plan.threshold(cells, self.options.expected_queries)
        return negative_half_width(self.plan, threshold, cells, self.confidences, self.total_error)

    def largest(self, order: int) -> int:
        """Return the cells of the largest marginal of an order that may be tested, or more; 0 for none."""
        if math.prod(sorted(self.grids.narrowest.shape)[:order]) > self.plan.most_cells:
            return 0
        return min(self._most_cells(order), self.plan.most_cells)

    def held_bound(self, order: int) -> float | None:
        """Return the widest half-width of a question about so many attributes that a certificate holds.

        What a tree cannot hold is not tested beyond pairs; a wider marginal, tested before, may hold it.
        """
        orders = range(order, len(self.grids.declared) + 1 if self._may_be_full(order) else order + 1)
        cells = max(self.largest(one) for one in orders)
        return self.bound(cells) if cells else None

    def is_sure(self, order: int) -> bool:
        """Tell whether every marginal of an order is tested, whatever bins come out."""
        return self._most_cells(order) <= self.plan.most_cells and not self._may_be_full(order)

    def is_binned(self, order: int) -> bool:
        """Tell whether some marginal of an order may be tested on bins."""
        shapes = zip(self.grids.declared.shape, self.grids.narrowest.shape, strict=True)
        binned = [fine for fine, least in shapes if fine > least]
        largest = sorted(self.grids.declared.shape)[-order:]
        # Some binned attribute, and the longest of the others.
        cells = math.prod(largest)
        if binned and max(binned) not in largest:
            cells = cells // largest[0] * max(binned)
        return bool(binned) and cells > self.plan.fine_cells

    def forecast(self, order: int) -> CertificateForecast:
        """Return what negatives promise about marginals of an order."""
        plan, grids = self.plan, self.grids
        sizes = _tested_sizes(plan, (grids.declared, grids.assumed), order)
        del sizes[plan.most_cells + 1]
        typical, largest = _median(sizes) if sizes else None, self.largest(order)
        return CertificateForecast(
            order,
            math.comb(len(grids.declared), order),
            sizes.total(),
            typical,
            None if typical is None else self.bound(typical),
            largest or None,
            self.bound(largest) if largest else None,
        )

    def _most_cells(self, order: int) -> int:
        """Return the most cells of a marginal of an order, up to one too many, or a number above."""
        if order in _TESTED_ORDERS:
            return max(_tested_sizes(self.plan, (self.grids.declared, self.grids.widest), order))
        return min(math.prod(sorted(self.grids.widest.shape)[-order:]), self.plan.most_cells + 1)

    def _may_be_full(self, order: int) -> bool:
        """Tell whether a model may be a tree that cannot hold some marginal of an order."""
        options, cells = self.options, self.grids.widest.size
        if order <= 2 or is_dense(options.test, options.model, cells):
            return False
        return len(self.grids.widest) * cells > (options.max_cells or DEFAULT_MAX_CELLS)


def measured_width(options: Options, confidences: Confidences) -> Width:
    """Return the half-widths that measured numbers carry.

    Args:
        options: whether intervals hold for all questions at once.
        confidences: of the session's noises.
    """
    alone = confidences.alone
    if options.simultaneous:
        return lambda noise, _, cells: simultaneous_half_width(noise, cells, alone)
    return lambda noise, squares, _: sum_half_width(noise, squares, alone, peak=1.0)


def planned_confidences(options: Options, opening: OpeningPlan, plan: TestPlan) -> Confidences:
    """Return the confidences that a session with these plans will have."""
    return Confidences.of(options, len(opening.noises), plan, private_total=opening.total_noise is not None)


def forecast_marginals(certificates: Certificates, single: VectorForecast | None) -> MarginalForecast:
    """Return what a test of marginals will give, with that of single questions behind it."""
    plan, options, confidences = certificates.plan, certificates.options, certificates.confidences
    declared = certificates.grids.declared
    width, length = measured_width(options, confidences), len(declared)
    orders = _TESTED_ORDERS if options.opening is Opening.NONE else _TESTED_ORDERS[1:]
    largest = max((certificates.largest(order) for order in range(1, length + 1)), default=1)
    # What is measured is widened only where a tree could hold the whole domain.
    cells = max(largest, min(max(plan.free_cells, plan.fine_cells), declared.size))
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
        cell_bound=width(plan.noise, 1.0, cells),
        widest_bound=width(plan.noise, float(cells), cells),
        certificates=tuple(certificates.forecast(order) for order in orders if order <= length),
        single=single,
    )


def forecast_marginal_orders(
    orders: Iterator[OrderForecast], certificates: Certificates, test: MarginalForecast, records: int
) -> Iterator[OrderForecast]:
    """Yield what questions about 1, 2, ... attributes get where marginals are tested.

    A question is within the certificate of its marginal, or the noise of one that was measured; where its
    marginal is not tested, it is tested by itself, while positives of that test are left.

    Args:
        orders: what they get without tests.
        certificates: what negatives promise.
        test: of marginals.
        records: number of records.
    """
    for one in orders:
        if one.promise == "covered":
            yield one
            continue
        bounds, sure = [], certificates.is_sure(one.order)
        held = certificates.held_bound(one.order)
        if held is not None:
            bounds += [held, test.widest_bound]
        # The noise of measured numbers widens both ends; of the bins that are cut, half lies on either side.
        cut = 2 * max(bounds) + records / 2 if bounds and certificates.is_binned(one.order) else None
        if not sure and test.single is not None:
            bounds += [test.single.bound, test.single.value_bound]
        promised = bool(bounds) and (sure or test.single is not None)
        yield replace(
            one,
            promise="tested" if bounds else "none",
            expected_error=None,
            bound=max(bounds) if promised else None,
            cut_bound=cut if promised else None,
        )


def _tested_sizes(plan: MarginalTestPlan, domains: tuple[Domain, Domain], order: int) -> Counter[int]:
    """Return how many marginals of an order have each number of cells, fine or on bins, up to one too many.

    Args:
        plan: the test.
        domains: the declared one, and one of bins.
        order: number of attributes.
    """
    tested: Counter[int] = Counter()
    for (fine, coarse), number in _sizes(domains, order, max(plan.most_cells, plan.fine_cells)).items():
        cells = fine if fine <= plan.fine_cells else coarse
        tested[min(cells, plan.most_cells + 1)] += number
    return tested


def _sizes(domains: Sequence[Domain], order: int, most: int) -> Counter[tuple[int, ...]]:
    """Return how many scopes of an order have each number of cells, up to one more than the most."""
    counts = [Counter({(1,) * len(domains): 1}), *(Counter[tuple[int, ...]]() for _ in range(order))]
    for sizes in zip(*(domain.shape for domain in domains), strict=True):
        for taken in range(order, 0, -1):
            for cells, number in counts[taken - 1].items():
                product = tuple(min(cell * size, most + 1) for cell, size in zip(cells, sizes, strict=True))
                counts[taken][product] += number
    return counts[order]


def _median(sizes: Counter[int]) -> int:
    left = (sizes.total() + 1) // 2
    for cells in sorted(sizes):
        left -= sizes[cells]
        if left <= 0:
            return cells
    return max(sizes)


def table_width(
    options: Options, confidences: Confidences, noise: NoiseDistribution, cells: int, deviation: float
) -> Width:
    """Return the half-widths that sums of a table's cells carry where nothing else is measured.

    Args:
        options: whether intervals hold for all questions at once.
        confidences: of the session's noises.
        noise: on each cell, in units.
        cells: how many are measured.
        deviation: of the number of records that takes in the cells, in records.
    """
    if options.simultaneous:
        return measured_width(options, confidences)
    known = TableNoise.of(noise, cells, deviation)
    return lambda _, weight, __: known.half_width(weight, weight, confidences.alone)


def forecast_table(
    domain: Domain, records: int, noise: NoiseDistribution, width: Width, widest: float
) -> tuple[tuple[AttributeForecast, ...], tuple[OrderForecast, ...]]:
    """Return what a table that is measured whole will give: by attribute, and by order from 1.

    Args:
        domain: the declared attributes.
        records: number of records.
        noise: on each cell of the table, in units.
        width: of intervals.
        widest: what no interval's half-width exceeds, in records.
    """
    found = (
        forecast_attribute(one.name, one.size, noise, width, repeated=domain.size // one.size)
        for one in domain
    )
    attributes = tuple(replace(one, widest_bound=widest) for one in found)
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
