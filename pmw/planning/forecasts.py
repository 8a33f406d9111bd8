"""Forecasts: the errors and bounds that planned noise will give, in records.

Bounds are the half-widths of the intervals that answers carry, by the same formulas. Expected errors are
those of the noise itself; of a tested question only the bound can be known beforehand.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pmw.errors import BudgetError
from pmw.model import (
    HierarchicalHistogram,
    NoiseDistribution,
    half_width,
    leaf_variances,
    noise_variance,
    query_variance,
)
from pmw.planning.opening import combined_deviation
from pmw.planning.theorems import numeric_sparse_accuracy, online_pmw_accuracy
from pmw.privacy.budget import Budget
from pmw.privacy.noise import DiscreteLaplace
from pmw.public.contract import Contract
from pmw.public.intervals import certified_half_width
from pmw.public.plans import OpeningPlan, QueryTestPlan
from pmw.sparse_vector.composition import require_printed
from queries.domain import Domain
from queries.factors import UNITS

Width: TypeAlias = Callable[[NoiseDistribution, float, int], float]
"""The half-width of an interval, in records: of the noise on each number, the sum of squared weights over the
numbers that were measured, and how many these are."""

_HALF_NORMAL = math.sqrt(2 / math.pi)  # E|x| of a standard normal


@dataclass(frozen=True, slots=True)
class AttributeForecast:
    """What opening measures about one attribute, in records.

    Args:
        name: of the attribute.
        cells: its number of cells.
        levels: of the hierarchical histogram that it is measured as; 1 where its cells are measured.
        cell_deviation: standard deviation of the noise on one cell; of a tree, on its noisiest.
        cell_error: expected |noise| of one cell; of a tree, that of normal noise as wide, which is no less.
        cell_bound: half-width of one cell's interval.
        range_error: expected |noise| of a range of half the cells; of a tree likewise.
        range_bound: half-width of its interval.
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
        marginals: marginals of that order.
        cells: cells of all of them together.
        mean_count: records in one of these cells, on average.
        promise: ``covered`` by the opening; ``tested``, so the bound holds while positives are left; or
            ``none``.
        expected_error: expected |noise| of one cell, of the noisiest attribute, in records (of everybody: an
            upper bound on it); None for tested questions, of whose error only the bound is known.
        bound: half-width of the interval, in records: of one cell where opening covers it, else of any
            question that cuts no bin; None where nothing is promised.
        cut_bound: the same of questions that cut bins, whatever these hold; None where there are none, and
            where nothing is promised.
    """

    order: int
    marginals: int
    cells: int
    mean_count: float
    promise: str
    expected_error: float | None
    bound: float | None
    cut_bound: float | None = None


@dataclass(frozen=True, slots=True)
class VectorForecast:
    """The sparse vector of the session, in records.

    Args:
        update_limit: number of positives, each of which measures a measurement.
        threshold: T, the error that a test looks for.
        threshold_scale: scale of the threshold noise.
        query_scale: scale of the noise of each test.
        learning_rate: eta of the single step.
        redrawn: new threshold noise after each positive.
        bound: half-width of the interval of an answer whose test was negative.
        value_deviation: standard deviation of the noise on a measured answer.
        value_error: expected |noise| of a measured answer.
        value_bound: half-width of its interval.
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
class DeltaForecast:
    """The same plan under another delta: its bounds in records, and what delta does to them.

    A ratio is the bound without delta divided by the one with it: above 1, delta makes it narrower. Where
    squares add rounds are redrawn, whose threshold noise is wider, so a tested bound may be narrower without.

    Args:
        delta: 0, or 1e-9 where the plan itself has none.
        cell_bound: of one cell of the noisiest attribute; None where opening measures none.
        cell_ratio: of these bounds.
        tested_bound: of tested questions; where marginals are tested, on a typical pair of attributes. None
            where none is tested.
        tested_ratio: of these bounds.
        value_bound: of measured answers, or of a measured marginal's cell; None where nothing is to be
            measured.
        value_ratio: of these bounds.
    """

    delta: float
    cell_bound: float | None
    cell_ratio: float | None
    tested_bound: float | None
    tested_ratio: float | None
    value_bound: float | None
    value_ratio: float | None


@dataclass(frozen=True, slots=True)
class TextbookForecast:
    """What the textbook's theorems promise for the same budget, all answers at once, in records.

    None stands where the printed noise does not keep the budget, so that the theorem says nothing.

    Args:
        online_pmw_error: online private multiplicative weights.
        online_pmw_update_limit: the positives that it provides for.
        numeric_sparse_error: NumericSparse alone, with this session's number of positives.
    """

    online_pmw_error: float | None
    online_pmw_update_limit: int | None
    numeric_sparse_error: float | None


def forecast_attribute(
    name: str,
    cells: int,
    noise: NoiseDistribution,
    width: Width,
    *,
    tree: HierarchicalHistogram | None = None,
    repeated: int = 1,
) -> AttributeForecast:
    """Return what a marginal under noise will give.

    Args:
        name: of the attribute.
        cells: its number of cells.
        noise: on each cell, in units.
        width: of intervals.
        tree: of ranges, with the noise on each node; None where the noise is on each cell.
        repeated: how many measured cells sum to one of these: more than one where a wider marginal is
            measured.
    """
    if tree is not None:
        return _forecast_tree(name, tree, noise, width)
    deviation = math.sqrt(noise_variance(noise))
    half, measured = max(1, cells // 2), cells * repeated
    return AttributeForecast(
        name=name,
        cells=cells,
        levels=1,
        cell_deviation=deviation * math.sqrt(repeated),
        cell_error=noise_error(noise, repeated),
        cell_bound=width(noise, repeated, measured),
        range_error=noise_error(noise, half * repeated),
        range_bound=width(noise, half * repeated, measured),
        widest_bound=width(noise, measured, measured),
    )


def _forecast_tree(
    name: str, tree: HierarchicalHistogram, noise: NoiseDistribution, width: Width
) -> AttributeForecast:
    """Return what least squares makes of a tree; a question's variance is at most that of its cells alone."""
    deviation = math.sqrt(noise_variance(noise))
    half = np.zeros(tree.size)
    half[: max(1, tree.size // 2)] = 1.0
    cell, half_range = float(leaf_variances(tree).max()), query_variance(tree, half)
    return AttributeForecast(
        name=name,
        cells=tree.size,
        levels=tree.height,
        cell_deviation=deviation * math.sqrt(cell),
        cell_error=deviation * math.sqrt(cell) * _HALF_NORMAL,
        cell_bound=width(noise, cell, tree.nodes),
        range_error=deviation * math.sqrt(half_range) * _HALF_NORMAL,
        range_bound=width(noise, half_range, tree.nodes),
        widest_bound=width(noise, tree.size, tree.nodes),
    )


def forecast_everybody(records: int, deviation: float, bound: float) -> OrderForecast:
    """Return what counting everybody gets.

    Sums of Laplace noises are mixtures of normals, so E|sum| is at most that of a normal as wide.

    Args:
        records: number of records.
        deviation: standard deviation of the released number.
        bound: what its noise stays within, at the confidence, in records.
    """
    return OrderForecast(0, 1, 1, float(records), "covered", _HALF_NORMAL * deviation, bound)


def forecast_orders(
    domain: Domain, records: int, attributes: tuple[AttributeForecast, ...], vector: VectorForecast | None
) -> Iterator[OrderForecast]:
    """Yield what questions about 1, 2, ... attributes get.

    Args:
        domain: the declared attributes.
        records: number of records.
        attributes: what opening measures; empty where it measures no marginals.
        vector: the sparse vector; None where nothing is left for one.
    """
    sizes = [attribute.size for attribute in domain]
    products = _symmetric(sizes)
    for order in range(1, len(sizes) + 1):
        marginals, cells = math.comb(len(sizes), order), products[order]
        promise, error, bound = "none", None, None
        if order == 1 and attributes:
            promise = "covered"
            error = max(attribute.cell_error for attribute in attributes)
            bound = max(attribute.cell_bound for attribute in attributes)
        elif vector is not None:
            promise, bound = "tested", vector.bound
        yield OrderForecast(order, marginals, cells, records * marginals / cells, promise, error, bound)


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


def forecast_textbook(contract: Contract, records: int, vector: VectorForecast | None) -> TextbookForecast:
    """Return what theorems promise for a contract's budget, questions and confidence."""
    options, budget = contract.options, contract.budget
    queries, beta = options.expected_queries, 1 - options.confidence
    epsilon, delta = float(budget.epsilon) / options.records_per_person, float(budget.delta)
    error, updates, sparse = None, None, None
    with contextlib.suppress(BudgetError):
        online = online_pmw_accuracy(
            queries, records=records, cells=contract.domain.size, epsilon=epsilon, delta=delta, beta=beta
        )
        error, updates = online.error, online.update_limit
    if vector is not None:
        limit = vector.update_limit
        with contextlib.suppress(BudgetError):
            require_printed(Budget.of(epsilon, delta), limit, halved=True)
            sparse = numeric_sparse_accuracy(2 * queries, limit, epsilon=epsilon, delta=delta, beta=beta)
    return TextbookForecast(error, updates, sparse)


def total_deviation(domain: Domain, plan: OpeningPlan) -> float:
    """Return the deviation of the number of records: its own noise and the marginals' sums, combined."""
    if plan.total_noise is None:
        return 0.0
    variances = [noise_variance(plan.total_noise)]
    for name, noise in plan.marginal_noise.items():
        size, tree = domain[name].size, plan.trees.get(name)
        cells = size if tree is None else query_variance(tree, np.ones(size))
        variances.append(cells * noise_variance(noise))
    if plan.table_noise is not None:
        variances.append(domain.size * noise_variance(plan.table_noise))
    return combined_deviation(*variances)


def _symmetric(sizes: list[int]) -> list[int]:
    """Return, for each order, the sum over all sets of so many attributes of the product of their sizes."""
    sums = [1] + [0] * len(sizes)
    for number, size in enumerate(sizes, start=1):
        for order in range(number, 0, -1):
            sums[order] += size * sums[order - 1]
    return sums


def noise_error(noise: NoiseDistribution, cells: int) -> float:
    """Return the expected |sum| of the noises of so many cells, in records.

    Gaussian: sigma sqrt(2m/pi). Laplace: a sum of m is the difference of two Gamma(m) variables, so
    2 b Gamma(m + 1/2) / (sqrt(pi) Gamma(m)).
    """
    if isinstance(noise, DiscreteLaplace):
        gammas = math.exp(math.lgamma(cells + 0.5) - math.lgamma(cells))
        return float(noise.scale) / UNITS * 2 * gammas / math.sqrt(math.pi)
    return math.sqrt(cells * noise_variance(noise)) * _HALF_NORMAL
