"""What is measured without a test: at opening, on request, and of how near answers were.

That something is measured depends on public numbers alone. So each is one event, with the price of what it
measures (Dwork and Roth 2014, Theorem 3.6, for Laplace noise; Canonne, Kamath and Steinke 2020, Theorem 4,
for Gaussian noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.loop.fit import correct, fitted_to, model_of_terms
from pmw.loop.measuring import Tables, draw_numbers, noise_on, numbers_of, with_noise
from pmw.model.bins import Coarsening, choose_coarsening, told_apart_by
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import SyntheticDistribution
from pmw.model.fitting import refit
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    PersonsMeasurement,
    RowsMeasurement,
    SumMeasurement,
    SummedRows,
    measured_as,
    target_of,
)
from pmw.model.mirror_descent import FIRST_STEP_SIZE
from pmw.model.strategy import Strategy
from pmw.model.value_sums import SummedValues
from pmw.planning.error_quantiles import QuantileRequest
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import (
    CellNumbers,
    LedgerEntry,
    Measurable,
    PersonNumbers,
    QuestionNumbers,
    SumNumbers,
)
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.foundations import on_everybody
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import ApartMeasurement, LaterMeasurement, PublicState, Total, planned_bins
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery

if TYPE_CHECKING:
    from pmw.data import CountSource

_KEPT = 2**20  # cells of the attributes of a question, up to which all of them are counted, and kept
Measured: TypeAlias = MarginalMeasurement | RowsMeasurement | ApartMeasurement  # on request


@dataclass(frozen=True, slots=True)
class OpeningDraws:
    """What opening released.

    Args:
        total_units: records in units of 2^-20, noisy, or exact where the row count is public.
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
    drawn = ((one, noise, with_noise(_sums(one, source), noise, bits)) for one, noise in plan.sums)
    sums = tuple(SumMeasurement(one, units, noise) for one, noise, units in drawn)
    return OpeningDraws(total, tuple(marginals), sums)


def settle_opening(
    contract: Contract,
    plan: OpeningPlan,
    draws: OpeningDraws,
    ledger: PrivacyFilter,
    test: TestPlan,
    fitted: tuple[SyntheticDistribution, float] | None = None,
) -> PublicState:
    """Return the session's first public state."""
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
        apart=draws.sums,
    )
    return fitted_to(state) if fitted is None else replace(state, step_size=fitted[1])


def choose_bins(contract: Contract, plan: OpeningPlan, draws: OpeningDraws, test: TestPlan) -> Coarsening:
    """Return the bins of long attributes, by the released one-attribute counts; post-processing, free.

    Single questions are tested and measured on the declared cells, and so is a table that was measured whole.
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
    return on_everybody(released_total(plan, draws), draws.marginals)


def released_total(plan: OpeningPlan, draws: OpeningDraws) -> Total:
    """Return the released total combined with the sums of the released marginals, by inverse variance."""
    return Total.released(plan, draws.total_units, draws.marginals)


# --- what is measured on request ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Requested:
    """What will be measured, and under which noise. A function of public state alone.

    Its true numbers are counted first, for that can fail. Then it is measured, and the state takes it in.

    Args:
        noise: on each number, in units of 2^-20; on rows of a marginal, that of cells of the same price.
    """

    what: Measurable
    noise: NoiseDistribution

    def __post_init__(self) -> None:
        noise_on(self._rows, self.noise)  # refused before it is recorded, where it has no scale

    @property
    def _rows(self) -> Strategy | None:
        return self.what.strategy if isinstance(self.what, CellNumbers) else None

    def entry(self, options: Options) -> LedgerEntry:
        """Return what it charges, all of which is reserved for it."""
        return self.what.entry(self.noise, options)

    def counted(self, tables: Tables) -> NDArray[np.int64]:
        """Return the true numbers, in units.

        Privacy: exact and secret; for ``measured`` alone.
        """
        what, fine = self.what, tables.fine
        if isinstance(what, QuestionNumbers):
            return _answers(what.queries, fine)
        if isinstance(what, SumNumbers):
            return _sums(what.summed, fine)
        if isinstance(what, PersonNumbers):
            return fine.persons(what.scope).counts * UNITS
        return numbers_of(tables.over(what.scope).counts(what.scope).counts, self._rows)

    def measured(self, numbers: NDArray[np.int64], bits: BitSource) -> Measured:
        """Return what is measured, each number with fresh noise.

        Args:
            numbers: int64, from ``counted``.
            bits: source of the noise.

        Privacy: independent noise on each number. Costs what ``entry`` says; on rows as ``draw_numbers``.
        """
        what, noise = self.what, self.noise
        units = with_noise(numbers, noise_on(self._rows, noise), bits)
        if isinstance(what, QuestionNumbers):
            return RowsMeasurement(what.queries, units, noise)
        if isinstance(what, SumNumbers):
            return SumMeasurement(what.summed, units, noise)
        if isinstance(what, PersonNumbers):
            return PersonsMeasurement(what.scope, units, noise)
        return measured_as(what.scope, units, noise, self._rows, requested=True)


def _answers(queries: Sequence[LinearQuery], source: CountSource) -> NDArray[np.int64]:
    if any(source.domain.scope_size(query.scope) > _KEPT for query in queries):
        bins = told_apart_by(source.domain, queries)
        queries, source = [bins.inner(query) for query in queries], source.coarsened(bins.coarse, bins.bins)
    source.prepare([query.scope for query in queries])
    return np.array([query.answer(source.counts(query.scope)) for query in queries], dtype=np.int64)


def _sums(summed: SummedValues | SummedRows, source: CountSource) -> NDArray[np.int64]:
    found = dict[tuple[str, ...], list[NDArray[np.int64]]]()
    for over in summed.tables(source.domain):
        kinds = (False, True)[: 1 + summed.squared]
        places = [source.place_sums(over, summed.attribute, squared=one).counts for one in kinds]
        found[over] = [source.counts(over).counts, *places]
    return summed.units(source.domain, found)


def apply(
    state: PublicState, released: LaterMeasurement | ApartMeasurement | ErrorQuantile, ledger: PrivacyFilter
) -> PublicState:
    """Return the public state after one more release, with the model corrected by what it can hold.

    Error quantiles change only what is said of answers.
    """
    state = replace(state, ledger=ledger)
    if isinstance(released, ErrorQuantile):
        return replace(state, quantiles=(*state.quantiles, released))
    if isinstance(released, ApartMeasurement):
        return replace(state, apart=(*state.apart, released))
    return correct(state, released)


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

    Privacy: exact and secret. The answer a is public, so |q(D) - a| moves by at most ``query_sensitivity``
        with one person's records, and so does each order statistic of such numbers.
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
