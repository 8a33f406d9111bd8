"""What is measured without a test: at opening, on request, and of how near answers were.

That something is measured depends on public numbers alone. So each is one event, with the price of what it
measures (Dwork and Roth 2014, Theorem 3.6, for Laplace noise; Canonne, Kamath and Steinke 2020, Theorem 4,
for Gaussian noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmw.loop.fit import correct, fitted_to, model_of_terms
from pmw.loop.measuring import draw_numbers
from pmw.model import (
    FIRST_STEP_SIZE,
    Coarsening,
    DenseDistribution,
    HeadMeasurement,
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    ResidualMeasurement,
    Strategy,
    SumMeasurement,
    SummedValues,
    SyntheticDistribution,
    choose_coarsening,
    measured_as,
    refit,
    target_of,
)
from pmw.planning.error_quantiles import QuantileRequest
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import LedgerEntry, heads_entry, requested_entry, sum_entry
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.foundations import everybody
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import PublicState, Total, planned_bins
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery

if TYPE_CHECKING:
    from pmw.data import CountSource


@dataclass(frozen=True, slots=True)
class OpeningDraws:
    """What opening released.

    Args:
        total_units: records in units of 2^-20, noisy, or exact where the row count is public.
        marginals: one per attribute measured.
        sums: of values.
    """

    total_units: int
    marginals: tuple[OneWayMeasurement, ...]
    sums: tuple[SumMeasurement, ...] = ()


def draw_opening(plan: OpeningPlan, source: CountSource, bits: BitSource) -> OpeningDraws:
    """Return the noisy number of records and marginals.

    Privacy: costs what ``opening_entries`` says, under the neighbours that the plan's noise was made for;
        a row count without noise is for replace-one only, where it is the same for all neighbours.
    """
    source.prepare([(), *((name,) for name in plan.marginal_noise)])
    total = source.counts(()).total * UNITS
    if plan.total_noise is not None:
        total += plan.total_noise.sample(bits)
    marginals: list[OneWayMeasurement] = []
    for name, noise in plan.marginal_noise.items():
        counts, tree = source.counts((name,)).counts, plan.trees.get(name)
        if tree is None:
            rows = plan.strategies.get(name)
            marginals.append(measured_as((name,), draw_numbers(counts, noise, rows, bits), noise, rows))
        else:
            units = tree.node_counts(counts) * UNITS + noise.sample_array(bits, tree.nodes)
            marginals.append(HierarchicalMeasurement((name,), tree, units, noise))
    if plan.table_noise is not None:
        counts = source.counts(source.domain.names).counts
        units = draw_numbers(counts, plan.table_noise, None, bits)
        marginals.append(MarginalMeasurement(source.domain.names, units, plan.table_noise))
    sums = [RequestedSum(summed, noise) for summed, noise in plan.sums]
    drawn = tuple(draw_sum(one, counted_sum(one, source), bits) for one in sums)
    return OpeningDraws(total, tuple(marginals), drawn)


def settle_opening(
    contract: Contract,
    plan: OpeningPlan,
    draws: OpeningDraws,
    ledger: PrivacyFilter,
    test: TestPlan,
    fitted: tuple[SyntheticDistribution, float] | None = None,
) -> PublicState:
    """Return the session's first public state.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        draws: what they gave.
        ledger: the filter after their charges.
        test: the tests, planned from the same numbers.
        fitted: the model and its step size, where they are known already; None fits the model.
    """
    total, opening = released_total(plan, draws), founded_opening(plan, draws)
    coarsening = choose_bins(contract, plan, draws, test)
    if not contract.options.tests_marginals and fitted is None:
        dense = DenseDistribution.uniform(contract.domain, total.value)
        fitted = refit(dense, draws.marginals), FIRST_STEP_SIZE
    state = PublicState(
        contract=contract,
        ledger=ledger,
        total=total,
        opening=opening,
        measured=(),
        model=model_of_terms(contract, coarsening, total.value, ()) if fitted is None else fitted[0],
        plan=test,
        rounds=(False,) * len(test),
        coarsening=coarsening,
        sums=draws.sums,
    )
    return fitted_to(state) if fitted is None else replace(state, step_size=fitted[1])


def choose_bins(contract: Contract, plan: OpeningPlan, draws: OpeningDraws, test: TestPlan) -> Coarsening:
    """Return the bins of long attributes, by the released one-attribute counts; post-processing, free.

    Single questions are tested and measured on the declared cells, and so is a table that was measured whole.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        draws: what they gave.
        test: the tests, which are planned for about so many bins.
    """
    if not contract.options.tests_marginals or plan.table_noise is not None:
        return Coarsening.identity(contract.domain)
    total = released_total(plan, draws).value
    opening = {one.scope[0]: one for one in founded_opening(plan, draws)}
    return choose_coarsening(
        contract.domain,
        {name: target_of(one, total).values for name, one in opening.items()},
        {name: math.sqrt(float(one.cell_variances.max())) for name, one in opening.items()},
        bins=planned_bins(test),
    )


def founded_opening(plan: OpeningPlan, draws: OpeningDraws) -> tuple[OneWayMeasurement, ...]:
    """Return what opening measured of attributes, residuals with the number of records."""
    below = everybody(released_total(plan, draws))
    return tuple(
        replace(one, foundation=below) if isinstance(one, ResidualMeasurement) else one
        for one in draws.marginals
    )


def released_total(plan: OpeningPlan, draws: OpeningDraws) -> Total:
    """Return the released total combined with the sums of the released marginals, by inverse variance."""
    return Total.released(plan, draws.total_units, draws.marginals)


# --- marginals on request -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestedMarginal:
    """What will be measured. A function of public state and the request.

    Args:
        scope: attribute names in declared order.
        noise: on each cell, in units of 2^-20 records; by rows, that of cells of the same price.
        strategy: the rows that are measured; None for the cells.
    """

    scope: tuple[str, ...]
    noise: NoiseDistribution
    strategy: Strategy | None = None

    def __post_init__(self) -> None:
        if self.strategy is not None:
            self.strategy.noise(self.noise)  # refused before it is recorded, where it has no scale

    def entry(self, options: Options) -> LedgerEntry:
        """Return what it charges, all of which is reserved for it."""
        return requested_entry(self.scope, self.noise, options)


def counted_requested(
    requested: RequestedMarginal, state: PublicState, source: CountSource, coarse: CountSource | None
) -> NDArray[np.int64]:
    """Return the true counts of a requested marginal: int64, records per declared cell, or per bin.

    Args:
        requested: what will be measured.
        state: the public state; it tells which scopes are on bins.
        source: the table, over the declared cells.
        coarse: the same table over bins; None where nothing is binned.

    Privacy: exact and secret; for ``draw_requested`` alone.

    Raises:
        DataError: the table cannot be counted.
    """
    fine = coarse is None or state.grid(requested.scope) is state.domain
    return (source if fine or coarse is None else coarse).counts(requested.scope).counts


def draw_requested(
    requested: RequestedMarginal, counts: NDArray[np.int64], bits: BitSource
) -> MarginalMeasurement:
    """Return the marginal, each number with fresh noise.

    Args:
        requested: what is measured.
        counts: int64, records per cell, from ``counted_requested``.
        bits: source of the noise.

    Privacy: one marginal under fresh noise (``draw_numbers``); costs what ``RequestedMarginal.entry`` says.
    """
    scope, noise, strategy = requested.scope, requested.noise, requested.strategy
    numbers = draw_numbers(counts, noise, strategy, bits)
    return measured_as(scope, numbers, noise, strategy, requested=True)


def settle_requested(
    state: PublicState, measurement: MarginalMeasurement, ledger: PrivacyFilter
) -> PublicState:
    """Return the public state after a requested measurement, with the model corrected by it.

    Args:
        state: the state that it was requested in.
        measurement: what was drawn.
        ledger: the filter after its charge.
    """
    return correct(replace(state, ledger=ledger), measurement)


# --- sums of values ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestedSum:
    """Sums of values that will be measured. A function of public state and the request.

    Args:
        summed: which sums.
        noise: on each of them, in units.
    """

    summed: SummedValues
    noise: NoiseDistribution

    def entry(self, options: Options) -> LedgerEntry:
        """Return what it charges, all of which is reserved for it."""
        return sum_entry(self.summed, self.noise, options)


def counted_sum(requested: RequestedSum, source: CountSource) -> NDArray[np.int64]:
    """Return the true sums, and what goes with them: int64, in units (``SummedValues.units``).

    Args:
        requested: what will be measured.
        source: the table, over the declared cells.

    Privacy: exact and secret; for ``draw_sum`` alone.

    Raises:
        DataError: the table cannot be counted.
    """
    summed, domain = requested.summed, source.domain
    over = domain.scope(summed.counted)
    places = source.place_sums(over, summed.attribute).counts
    squares = source.place_sums(over, summed.attribute, squared=True).counts if summed.squared else None
    return summed.units(domain, places, source.counts(over).counts, squares)


def draw_sum(requested: RequestedSum, units: NDArray[np.int64], bits: BitSource) -> SumMeasurement:
    """Return the sums, each with fresh noise.

    Args:
        requested: what is measured.
        units: int64, from ``counted_sum``.
        bits: source of the noise.

    Privacy: independent noise on each number, of sums, values and squares alike; a person moves all of them
        together by ``sum_sensitivity`` at most. Costs what ``RequestedSum.entry`` says.
    """
    drawn = requested.noise.sample_array(bits, units.size).reshape(units.shape)
    return SumMeasurement(requested.summed, units + drawn, requested.noise)


def settle_sum(state: PublicState, measured: SumMeasurement, ledger: PrivacyFilter) -> PublicState:
    """Return the public state after a sum: answers about its attribute take it in.

    Args:
        state: the state that it was requested in.
        measured: what was drawn.
        ledger: the filter after its charge.
    """
    return replace(state, ledger=ledger, sums=(*state.sums, measured))


# --- numbers of persons -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestedHeads:
    """Numbers of persons that will be measured. A function of public state and the request.

    Args:
        scope: attribute names in declared order; none for one number of all persons.
        cells: how many it has.
        noise: on each number, in units.
    """

    scope: tuple[str, ...]
    cells: int
    noise: NoiseDistribution

    def entry(self, options: Options) -> LedgerEntry:
        """Return what they charge, all of which is reserved for them."""
        return heads_entry(self.scope, self.cells, self.noise, options)


def counted_heads(requested: RequestedHeads, source: CountSource) -> NDArray[np.int64]:
    """Return the true numbers of persons: int64, one axis per attribute of the scope.

    Args:
        requested: what will be measured.
        source: the table, over the declared cells.

    Privacy: exact and secret; for ``draw_heads`` alone.

    Raises:
        DataError: the table cannot be counted, or does not tell persons apart.
    """
    return source.heads(requested.scope).counts


def draw_heads(requested: RequestedHeads, counts: NDArray[np.int64], bits: BitSource) -> HeadMeasurement:
    """Return the numbers of persons, each with fresh noise.

    Args:
        requested: what is measured.
        counts: int64, from ``counted_heads``.
        bits: source of the noise.

    Privacy: independent noise on each number; a person moves them by ``heads_sensitivity`` together, in L1
        and in the square of L2. Costs what ``RequestedHeads.entry`` says.
    """
    drawn = requested.noise.sample_array(bits, counts.size).reshape(counts.shape)
    return HeadMeasurement(requested.scope, counts * UNITS + drawn, requested.noise)


def settle_heads(state: PublicState, measured: HeadMeasurement, ledger: PrivacyFilter) -> PublicState:
    """Return the public state after numbers of persons: answers about persons take them in.

    Args:
        state: the state that they were requested in.
        measured: what was drawn.
        ledger: the filter after their charge.
    """
    return replace(state, ledger=ledger, heads=(*state.heads, measured))


# --- error quantiles ----------------------------------------------------------------------------------------


class FirstAnswer(NamedTuple):
    """A question, and the answer that was given first: the newest model is fitted to what was asked.

    Attributes:
        query: the question.
        units: the answer, in units of 2^-20 records, rounded.
    """

    query: LinearQuery
    units: int


def ranked_errors(
    requests: Sequence[QuantileRequest], answers: Callable[[int], FirstAnswer], source: CountSource
) -> tuple[int, ...]:
    """Return the errors that will be released, in units: of each request the one of its rank.

    Only these are held, and no marginal is: the questions are many.

    Args:
        requests: what is released.
        answers: the answer of a number.
        source: the table, over the declared cells.

    Privacy: exact and secret. The answer a is public, so |q(D) - a| moves by at most ``query_sensitivity``
        with one person's records, and so does each order statistic of such numbers.

    Raises:
        DataError: the table cannot be counted.
    """
    return tuple(
        sorted(_error(answers(place), source) for place in request.places)[request.rank - 1]
        for request in requests
    )


def draw_quantiles(
    requests: Sequence[QuantileRequest], errors: Sequence[int], bits: BitSource
) -> tuple[ErrorQuantile, ...]:
    """Return the error quantiles, each with fresh noise.

    Args:
        requests: what is released.
        errors: of each, from ``ranked_errors``.
        bits: source of the noise.

    Privacy: each costs what ``QuantileRequest.entry`` says.
    """
    return tuple(
        ErrorQuantile(
            request.kind,
            request.asked,
            len(request.places),
            error + request.noise.sample(bits),
            request.noise,
        )
        for request, error in zip(requests, errors, strict=True)
    )


def _error(answer: FirstAnswer, source: CountSource) -> int:
    """Return how far an answer is from the truth, in units; secret."""
    return abs(answer.query.answer(source.counts(answer.query.scope)) - answer.units)


def settle_quantiles(
    state: PublicState, released: Sequence[ErrorQuantile], ledger: PrivacyFilter
) -> PublicState:
    """Return the public state after error quantiles: only what it says of answers is changed.

    Args:
        state: the state that they were requested in.
        released: what was drawn.
        ledger: the filter after their charges.
    """
    return replace(state, ledger=ledger, quantiles=(*state.quantiles, *released))
