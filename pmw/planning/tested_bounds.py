"""Bounds of tested questions, in closed form: no state says them beforehand, imagined or not. In records.

A question is tested while positives are left, and which ones depends on the table. Where whole marginals are
tested, the bins of long attributes are chosen from what opening releases, so a bound is that of the most bins
it may choose.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pmw.errors import BudgetError
from pmw.model.bins import extreme_domains
from pmw.model.estimate import noise_variance
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measurement import half_width
from pmw.planning.calibration import half_band
from pmw.planning.outlook import OrderForecast, Outlook, noise_error
from pmw.planning.tiers import bin_deviations, expected_tests, plan_test
from pmw.privacy.filter import PrivacyFilter
from pmw.public.contract import Contract
from pmw.public.half_widths import (
    Rests,
    WeightStats,
    certified_half_width,
    certified_sums,
    measured_half_width,
)
from pmw.public.options import Opening, Options, is_dense
from pmw.public.plans import MarginalTestPlan, OpeningPlan, QueryTestPlan, marginal_tier
from pmw.sparse_vector import SparseVectorKind
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass

_TESTED_ORDERS = (1, 2, 3)  # attributes of the marginals that a question asks to be tested


@dataclass(frozen=True, slots=True)
class VectorForecast:
    """The sparse vector of the session, in records.

    Args:
        threshold: T, the error that a test looks for.
        bound: half-width of the interval of an answer whose test was negative.
        value_deviation: standard deviation of the noise on a measured answer.
        value_error: expected |noise| of a measured answer.
    """

    update_limit: int
    threshold: float
    threshold_scale: float
    query_scale: float
    learning_rate: float
    redrawn: bool
    bound: float
    value_deviation: float
    value_error: float
    value_bound: float


@dataclass(frozen=True, slots=True)
class CertificateForecast:
    """What tests of marginals of one order promise.

    Args:
        tested: those among them that are tested on the assumed bins; the others have too many cells. Of
            triples, a tree tests only those that it could hold, so these are the most.
        largest_cells: of the largest that may be tested, whatever bins come out, or more; None for none.
        largest_bound: half-width of the interval of a question on it, where its test was negative after the
            expected number of questions: thresholds come down with them.
    """

    order: int
    marginals: int
    tested: int
    largest_cells: int | None
    largest_bound: float | None


@dataclass(frozen=True, slots=True)
class MarginalForecast:
    """The sparse vector over whole marginals, and what its positives measure.

    Args:
        head_start: what the first thresholds are higher by, in distance: twice what they add to a bound.
        most_cells: of a marginal that is tested.
        free_cells: a marginal is measured with further attributes while it has at most so many cells.
        fine_cells: a marginal of at most so many declared cells is on those; else on bins.
        cell_deviation: standard deviation of the noise on each cell of a measured marginal.
        widest_bound: half-width of the widest interval of a question about a measured marginal.
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
    def pair_bound(self) -> float | None:
        """What a negative promises about every pair of attributes that may be tested."""
        return next((one.largest_bound for one in self.certificates if one.order == 2), None)


@dataclass(frozen=True, slots=True)
class Certificates:
    """What negatives of a test promise, whatever bins a session chooses from what opening releases.

    Args:
        assumed: the bins that tests are planned for.
        narrowest: the fewest bins that any released counts lead to, attribute by attribute.
    """

    plan: MarginalTestPlan
    outlook: Outlook
    assumed: Domain
    narrowest: Domain
    widest: Domain

    @classmethod
    def of(
        cls, plan: MarginalTestPlan, opening: OpeningPlan, outlook: Outlook, assumed: Domain
    ) -> Certificates:
        """Return those of a plan's test, in a session that was opened as imagined."""
        contract = outlook.state.contract
        deviations = bin_deviations(contract, opening)
        return cls(plan, outlook, assumed, *extreme_domains(contract.domain, deviations, bins=plan.bins))

    @property
    def declared(self) -> Domain:
        """The declared attributes."""
        return self.outlook.state.domain

    @property
    def options(self) -> Options:
        """The custodian's choices."""
        return self.outlook.state.contract.options

    def bound(self, cells: int) -> float:
        """Return the half-width of a marginal's certificate after the expected number of questions."""
        threshold = self.plan.threshold(cells, self.options.expected_queries)
        shares = self.outlook.confidences.shares(Rests.CERTIFIED)
        total_error = self.outlook.total_error(shares.everybody)
        widths = certified_sums(self.plan, threshold, cells, shares.certificate, total_error)
        return widths(WeightStats.of_cells(1))

    def largest(self, order: int) -> int:
        """Return the cells of the largest marginal of an order that may be tested, or more; 0 for none."""
        if math.prod(sorted(self.narrowest.shape)[:order]) > self.plan.most_cells:
            return 0
        return min(self._most_cells(order), self.plan.most_cells)

    def held_bound(self, order: int) -> float | None:
        """Return the widest half-width of a question about so many attributes that a certificate holds.

        What a tree cannot hold is not tested beyond pairs; a wider marginal, tested before, may hold it.
        """
        orders = range(order, len(self.declared) + 1 if self._may_be_full(order) else order + 1)
        cells = max(self.largest(one) for one in orders)
        return self.bound(cells) if cells else None

    def is_sure(self, order: int) -> bool:
        """Tell whether every marginal of an order is tested, whatever bins come out."""
        return self._most_cells(order) <= self.plan.most_cells and not self._may_be_full(order)

    def forecast(self, order: int) -> CertificateForecast:
        """Return what negatives promise about marginals of an order."""
        sizes, largest = self._tested_sizes(self.assumed, order), self.largest(order)
        return CertificateForecast(
            order,
            math.comb(len(self.declared), order),
            sizes.total() - sizes[self.plan.most_cells + 1],
            largest or None,
            self.bound(largest) if largest else None,
        )

    def _most_cells(self, order: int) -> int:
        """Return the most cells of a marginal of an order, up to one too many, or a number above."""
        if order in _TESTED_ORDERS:
            return max(self._tested_sizes(self.widest, order))
        return min(math.prod(sorted(self.widest.shape)[-order:]), self.plan.most_cells + 1)

    def _tested_sizes(self, coarse: Domain, order: int) -> Counter[int]:
        """Return how many marginals of an order have each number of cells or bins, up to one too many."""
        plan, tested = self.plan, Counter[int]()
        most = max(plan.most_cells, plan.fine_cells)
        for (fine, binned), number in _sizes((self.declared, coarse), order, most).items():
            tested[min(fine if fine <= plan.fine_cells else binned, plan.most_cells + 1)] += number
        return tested

    def _may_be_full(self, order: int) -> bool:
        """Tell whether a model may be a tree that cannot hold some marginal of an order."""
        options, cells = self.options, self.widest.size
        if order <= 2 or is_dense(options.test, options.model, cells):
            return False
        return len(self.widest) * cells > (options.max_cells or DEFAULT_MAX_CELLS)


@dataclass(frozen=True, slots=True)
class SparseVectorForecast:
    """One sparse vector at the price that a session has for tests, in records.

    Args:
        threshold_scale: of the threshold noise; for Gaussian noise its standard deviation.
        query_scale: of the noise of each test.
        half_band: half-width of the band around the threshold in which some test of the run may err, with
            probability 1 - beta for beta = 0.05 (``half_band``).
        theorem: what its price rests on.
    """

    name: str
    chosen: bool
    threshold_scale: float
    query_scale: float
    half_band: float
    theorem: str


def forecast_vector(test: QueryTestPlan, confidence: float) -> VectorForecast:
    """Return what a sparse vector will give, at a confidence."""
    vector = test.vector
    noise = vector.value_noise
    return VectorForecast(
        update_limit=test.update_limit,
        threshold=test.threshold / UNITS,
        threshold_scale=float(vector.sparse.test.threshold_scale) / UNITS,
        query_scale=float(vector.sparse.test.query_scale) / UNITS,
        learning_rate=test.learning_rate,
        redrawn=vector.sparse.redraw,
        bound=certified_half_width(test, test.threshold, confidence),
        value_deviation=math.sqrt(noise_variance(noise)),
        value_error=noise_error(noise, 1),
        value_bound=half_width(noise, confidence),
    )


def forecast_marginals(certificates: Certificates, single: VectorForecast | None) -> MarginalForecast:
    """Return what a test of marginals will give, with that of single questions behind it."""
    plan, options, declared = certificates.plan, certificates.options, certificates.declared
    alone, length = certificates.outlook.confidences.alone, len(declared)
    least = 1 if options.opening is Opening.NONE else plan.order + 1
    largest = max((certificates.largest(order) for order in range(1, length + 1)), default=1)
    # What is measured is widened only where a tree could hold the whole domain.
    cells = max(largest, min(max(plan.free_cells, plan.fine_cells), declared.size))
    cell, widest = (measured_half_width(options, plan.noise, cells, alone, one) for one in (1, cells))
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
        cell_bound=cell,
        widest_bound=widest,
        certificates=tuple(
            certificates.forecast(order) for order in _TESTED_ORDERS if least <= order <= length
        ),
        single=single,
    )


def forecast_marginal_orders(certificates: Certificates, test: MarginalForecast) -> Iterator[OrderForecast]:
    """Yield what questions about 0, 1, 2, ... attributes get where marginals are tested.

    A question is within the certificate of its marginal, or the noise of one that was measured; where its
    marginal is not tested, it is tested by itself, while positives of that test are left.
    """
    for one in certificates.outlook.orders(None):
        if one.promise == "covered":
            yield one
            continue
        bounds, sure = [], certificates.is_sure(one.order)
        held = certificates.held_bound(one.order)
        if held is not None:
            bounds += [held, test.widest_bound]
        if not sure and test.single is not None:
            bounds += [test.single.bound, test.single.value_bound]
        promised = bool(bounds) and (sure or test.single is not None)
        yield replace(
            one,
            promise="tested" if bounds else "none",
            expected_error=None,
            bound=max(bounds) if promised else None,
        )


def _sizes(domains: tuple[Domain, Domain], order: int, most: int) -> Counter[tuple[int, ...]]:
    """Return how many scopes of an order have each number of cells, up to one more than the most."""
    counts = [Counter({(1,) * len(domains): 1}), *(Counter[tuple[int, ...]]() for _ in range(order))]
    for sizes in zip(*(domain.shape for domain in domains), strict=True):
        for taken in range(order, 0, -1):
            for cells, number in counts[taken - 1].items():
                product = tuple(min(cell * size, most + 1) for cell, size in zip(cells, sizes, strict=True))
                counts[taken][product] += number
    return counts[order]


def forecast_sparse_vectors(
    contract: Contract, opening: OpeningPlan, ledger: PrivacyFilter, records: float
) -> Iterator[SparseVectorForecast]:
    """Yield every sparse vector that a session could use, under the filter's own accounting.

    Under GDP sech^2 tests have no price: a session that asks for them has another filter.
    """
    chosen = contract.options.chosen_sparse_vector(ledger.composition)
    for kind in SparseVectorKind:
        try:
            options = replace(contract.options, sparse_vector=kind, composition=ledger.composition)
        except BudgetError:
            continue  # two-sided noise with simultaneous intervals, or sech^2 under GDP
        plan = plan_test(replace(contract, options=options), opening, ledger, records)
        if not plan:
            continue
        sparse, tests = plan[0].sparse, options.expected_queries
        if marginal_tier(plan) is not None:
            tests = expected_tests(contract.domain)
        band = half_band(sparse.test, tests, sparse.update_limit)
        yield SparseVectorForecast(
            kind.value,
            kind is chosen,
            float(sparse.test.threshold_scale) / UNITS,
            float(sparse.test.query_scale) / UNITS,
            band / UNITS,
            kind.theorem,
        )
