"""The outlook: the bars of an imagined state, which has a uniform table and planned noise that came out as 0.

Bars by all attributes of a question depend on no noise, so those of this state are those that answers will
carry. The session calculates them (``pmw.public.bars``), as it does those of answers. Of a tested question
only the bound can be known beforehand (``pmw.planning.tested_bounds``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pmw.model.bins import Coarsening
from pmw.model.estimate import noise_variance
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    ResidualMeasurement,
    measured_as,
)
from pmw.model.prices import symmetric
from pmw.planning.opening import Opened, widest_bar
from pmw.privacy.noise import DiscreteLaplace, NoiseDistribution
from pmw.public.bars import Bars
from pmw.public.clear import number_half_width
from pmw.public.contract import Contract
from pmw.public.evidence import is_whole_table, opening_over
from pmw.public.foundations import due_scopes, on_everybody, strategy_of, with_founded
from pmw.public.half_widths import Confidences, SumNoise, measured_half_width, total_error_bound
from pmw.public.plans import OpeningPlan, marginal_tier
from pmw.public.quotes import cell_question
from pmw.public.state import PublicState, Total
from queries.cell_sets import CellSets
from queries.domain import Attribute, Domain
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index

_MOST_SCOPES = 200  # of expected questions, of which bars are foretold
_HALF_NORMAL = math.sqrt(2 / math.pi)  # E|x| of a standard normal


@dataclass(frozen=True, slots=True)
class AttributeForecast:
    """What opening measures about one attribute, in records.

    Args:
        levels: of the hierarchical histogram that it is measured as; 1 where its cells are measured.
        cell_deviation: standard deviation of the noise on one cell; of a tree, on its noisiest.
        cell_error: expected |noise| of one cell; of a tree, that of normal noise as wide, which is no less.
        range_error: expected |noise| of a range of half the cells; of a tree likewise.
        widest_bound: half-width of the widest interval of a question about it; of a tree, a bound on that.
    """

    name: str
    cells: int
    levels: int
    cell_deviation: float
    cell_error: float
    cell_bound: float
    range_error: float
    range_bound: float
    widest_bound: float


@dataclass(frozen=True, slots=True)
class OrderForecast:
    """What questions about so many attributes get.

    Args:
        order: number of attributes that a question names; 0 counts everybody.
        cells: cells of all of them together.
        mean_count: records in one of these cells, on average.
        promise: ``covered`` by the opening; ``tested``, so the bound holds while positives are left;
            ``paid``, so a number of the question's own has the bound; or ``none``.
        expected_error: expected |noise| of one cell, of the noisiest attribute, in records (of everybody: an
            upper bound on it); None for tested questions, of whose error only the bound is known.
        bound: half-width of the interval, in records: of one cell where opening covers it, else of any
            question that cuts no bin; None where nothing is promised.
    """

    order: int
    marginals: int
    cells: int
    mean_count: float
    promise: str
    expected_error: float | None
    bound: float | None


def imagined_state(contract: Contract, plan: OpeningPlan, opened: Opened, records: int) -> PublicState:
    """Return the first public state of a session over a uniform table, where all noise came out as 0."""
    domain = contract.domain
    opening: list[OneWayMeasurement] = []
    total = Total(float(records), float(records), Total.released(plan, 0, ()).deviation)
    for name, noise in plan.marginal_noise.items():
        cells, tree = np.full(domain[name].size, records * UNITS // domain[name].size), plan.trees.get(name)
        if tree is None:
            rows = plan.strategies.get(name)  # of cells that are all alike they measure nothing
            opening.append(measured_as((name,), cells if rows is None else 0 * cells, noise, rows))
        else:
            opening.append(HierarchicalMeasurement((name,), tree, tree.node_counts(cells), noise))
    if plan.table_noise is not None:
        cells = np.full(domain.shape, records * UNITS // domain.size)
        opening.append(MarginalMeasurement(domain.names, cells, plan.table_noise))
    return PublicState(
        contract=contract,
        ledger=opened.ledger,
        total=replace(total, deviation=Total.released(plan, 0, opening).deviation),
        opening=on_everybody(total, opening),
        measured=(),
        model=GraphicalDistribution.uniform(domain, float(records)),
        plan=opened.test,
        rounds=(False,) * len(opened.test),
        coarsening=Coarsening.identity(domain),
    )


def with_residuals(state: PublicState, assumed: Domain) -> PublicState:
    """Return an imagined state after all that is due was measured, of noise that came out as 0."""
    binned = dict[str, tuple[Attribute, NDArray[np.int64], NDArray[np.float64]]]()
    for fine, coarse in zip(state.domain, assumed, strict=True):
        if fine.size > coarse.size:
            special = fine.size - fine.base_size
            runs = np.arange(fine.base_size) * (coarse.size - special) // fine.base_size
            bin_ = np.append(runs, coarse.size - special + np.arange(special))
            binned[fine.name] = coarse, bin_, 1 / np.bincount(as_index(bin_))[bin_]
    state = replace(state, coarsening=Coarsening.of(state.domain, binned))
    plan = marginal_tier(state.plan)
    if plan is None:
        return state
    for scope in due_scopes(state):
        rows, shape = strategy_of(state, scope), state.grid(scope).scope_shape(scope)
        even = round(state.total.value * UNITS / math.prod(shape)) if rows is None else 0
        numbers = np.full(shape, even, dtype=np.int64)
        measured = measured_as(scope, numbers, plan.noise_of(scope), rows, requested=True)
        state = with_founded(state, [measured])
    return state


class Outlook:
    """What an imagined state says of questions that its opening covers."""

    def __init__(self, state: PublicState) -> None:
        self.state = state
        self.confidences = Confidences.in_state(state)
        self._bars = Bars(state)
        held = ((one, opening_over(state, (one.name,))) for one in state.domain)
        self.attributes = tuple(self._attribute(one, over) for one, over in held if over is not None)

    @property
    def table_measured(self) -> bool:
        """Opening measures the whole table in place of its attributes."""
        return any(len(one.scope) > 1 for one in self.state.opening)

    def total_error(self, confidence: float) -> float:
        """Return how far a model's total may be from the number of records, in records.

        A model's total is at least 1, which the released number may be below.
        """
        width = total_error_bound(self.state, confidence)
        return width + max(0.0, 1 - (self.state.total.value - width))

    def orders(self, tested_bound: float | None) -> Iterator[OrderForecast]:
        """Yield what questions about 0, 1, 2, ... attributes get, without tests of marginals."""
        domain, total = self.state.domain, self.state.total
        error = _HALF_NORMAL * total.deviation
        yield OrderForecast(
            0, 1, 1, total.value, "covered", error, self.total_error(self.confidences.everybody)
        )
        sizes = symmetric(domain.shape, len(domain))
        for order in range(1, len(domain) + 1):
            marginals, cells = math.comb(len(domain), order), sizes[order]
            promise, expected, bound = "none", None, None
            if self.table_measured:
                (table,) = self.state.opening
                names = sorted(domain.names, key=lambda name: domain[name].size)[:order]
                # The smallest marginal's sums are the longest.
                expected = noise_error(table.noise, domain.size // domain.scope_size(names))
                promise, bound = "covered", self._bar(dict.fromkeys(names, (0, 0)))
            elif any(len(one.scope) == order for one in self.state.marginals):
                promise, (expected, bound) = "covered", self._noisiest(order)
            elif order == 1 and self.attributes:
                promise = "covered"
                expected = max(attribute.cell_error for attribute in self.attributes)
                bound = max(attribute.cell_bound for attribute in self.attributes)
            elif tested_bound is not None:
                promise, bound = "tested", tested_bound
            elif math.isfinite(number_half_width(self.state)):
                promise, bound = "paid", number_half_width(self.state)
            mean = total.value * (marginals / cells)  # whole numbers beyond every float
            yield OrderForecast(order, marginals, cells, mean, promise, expected, bound)

    def typical_bound(self, asked: Mapping[tuple[str, ...], int]) -> float:
        """Return the mean half-width of the bars of questions about half of each attribute's cells.

        Where a number of the question's own is narrower, and is paid for, it counts.

        Args:
            asked: how many questions each set of attributes has; of very many sets the most frequent count.
        """
        domain, number = self.state.domain, number_half_width(self.state)
        often = sorted(asked, key=lambda scope: (-asked[scope], scope))[:_MOST_SCOPES]
        whole, widths = sum(asked[scope] for scope in often), 0.0
        for scope in often:
            half = {name: (0, max(0, domain[name].size // 2 - 1)) for name in scope}
            low, high, _ = self._bars.of_query(LinearQuery.cells(domain, half))
            widths += asked[scope] * min(number, float(high - low) / 2)
        return widths / whole

    def _noisiest(self, order: int) -> tuple[float, float]:
        """Return the expected |noise| of a cell of the noisiest measured marginal, and the greatest bound."""
        errors, bounds = [], []
        for one in self.state.marginals:
            if len(one.scope) != order:
                continue
            variances = one.cell_variances
            errors.append(math.sqrt(float(variances.max())) * _HALF_NORMAL)
            places = np.unravel_index(int(variances.argmax()), variances.shape)
            cells = [int(place) for place in places]
            query = cell_question(self.state, one.scope, cells, self.state.grid(one.scope))
            bounds.append(self._bars.half_width(query) or math.inf)
        return max(errors), max(bounds)

    def _bar(self, cells: dict[str, tuple[int, int]]) -> float:
        """Return the half-width of the bar of a box: the first and the last cell of each attribute."""
        width = self._bars.half_width(LinearQuery.cells(self.state.domain, cells))
        return math.inf if width is None else width

    def _attribute(self, attribute: Attribute, measured: OneWayMeasurement) -> AttributeForecast:
        name, cells, half = attribute.name, attribute.size, max(1, attribute.size // 2)
        told, repeated = measured.estimate.over((name,)), measured.units.size // cells
        variances, lower = told.cell_variances, (np.arange(cells) < half).astype(np.float64)
        place = int(variances.argmax())
        deviation, of_range = math.sqrt(float(variances[place])), math.sqrt(told.weighted_variance(lower))
        cell_error, range_error = deviation * _HALF_NORMAL, of_range * _HALF_NORMAL
        if told.is_alike:  # so many measured numbers, of which more is known where the noise is Laplace
            cell_error, range_error = (noise_error(measured.noise, one * repeated) for one in (1, half))
        return AttributeForecast(
            name=name,
            cells=cells,
            levels=measured.tree.height if isinstance(measured, HierarchicalMeasurement) else 1,
            cell_deviation=deviation,
            cell_error=cell_error,
            cell_bound=self._bar({name: (place, place)}),
            range_error=range_error,
            range_bound=self._bar({name: (0, half - 1)}),
            widest_bound=self._widest(measured),
        )

    def _widest(self, measured: OneWayMeasurement) -> float:
        """Return what no bar of a question about measured numbers exceeds, in records."""
        alone, options, noise = self.confidences.alone, self.state.contract.options, measured.noise
        if is_whole_table(measured, self.state):
            return widest_bar(noise, measured.units.size, self.state.total.deviation, options, alone)
        if isinstance(measured, ResidualMeasurement):
            # Half-widths are in proportion to the standard deviation of a sum, which is a norm of the
            # weights: so that of a question is at most the sum of its cells'.
            cells = np.arange(measured.values.size)
            widths = SumNoise(measured.estimate, alone).product_half_widths([CellSets(cells, cells)])
            return float(np.sum(widths))
        # Least squares vary no more than the cells alone; all numbers may be off at once.
        return measured_half_width(options, noise, measured.units.size, alone, measured.values.size)


def noise_error(noise: NoiseDistribution, cells: int) -> float:
    """Return the expected |sum| of the noises of so many cells, in records.

    Gaussian: sigma sqrt(2m/pi). Laplace: a sum of m is the difference of two Gamma(m) variables, so
    2 b Gamma(m + 1/2) / (sqrt(pi) Gamma(m)).
    """
    if isinstance(noise, DiscreteLaplace):
        gammas = math.exp(math.lgamma(cells + 0.5) - math.lgamma(cells))
        return float(noise.scale) / UNITS * 2 * gammas / math.sqrt(math.pi)
    return math.sqrt(cells * noise_variance(noise)) * _HALF_NORMAL
