"""Planning: the choices of an opening, made for a stated number of records, and what they promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from pmw.errors import BudgetError
from pmw.planning import bin_forecasts, error_quantiles
from pmw.planning.forecasts import (
    AttributeForecast,
    DeltaForecast,
    OrderForecast,
    VectorForecast,
    forecast_attribute,
    forecast_everybody,
    forecast_orders,
    forecast_textbook,
    forecast_vector,
    total_deviation,
)
from pmw.planning.marginal_forecasts import (
    Certificates,
    Grids,
    MarginalForecast,
    forecast_marginal_orders,
    forecast_marginals,
    forecast_table,
    measured_width,
    planned_confidences,
    table_width,
)
from pmw.planning.opened import plan_opened
from pmw.planning.opening import (
    check_model_size,
    check_neighbors,
    choose_filter,
    plan_opening,
    widest_bar,
)
from pmw.planning.session_plan import SessionPlan, check_records
from pmw.planning.sparse_vector_forecasts import forecast_sparse_vectors
from pmw.privacy.budget import Budget, Number
from pmw.privacy.filter import PrivacyFilter
from pmw.public.confidences import total_half_width
from pmw.public.contract import Contract, Options, agreed
from pmw.public.plans import OpeningPlan, TestPlan, marginal_tier, planned_bins, question_tier
from queries.domain import Domain

_USUAL_DELTA = Fraction(1, 10**9)  # what a plan without delta is compared with


def plan_session(
    domain: Domain,
    *,
    records: int,
    epsilon: Number,
    delta: Number = 0,
    options: Options | None = None,
) -> SessionPlan:
    """Return what a session would give over a table of a stated size; nothing is read or spent.

    Args:
        domain: the declared attributes.
        records: about how many records the table has. State a public number: the plan is as public as it.
        epsilon: of the guarantee; positive.
        delta: of the guarantee; 0 <= delta < 1.
        options: further choices, as for ``open_session``.

    Raises:
        BudgetError: a parameter is out of range, or the domain is too large for the model.
    """
    check_records(records)
    domain, chosen = agreed(domain, options or Options())
    contract = Contract(domain, Budget.of(epsilon, delta), chosen)
    check_model_size(domain, contract.options)
    check_neighbors(domain, contract.options)
    plan = _forecast(contract, records)
    return replace(plan, other_delta=_other_delta(contract, plan))


@dataclass(frozen=True, slots=True)
class _Choices:
    """What ``open_session`` would choose: the filter after opening, both plans, and what is tested."""

    ledger: PrivacyFilter
    opening: OpeningPlan
    grids: Grids
    test: TestPlan


def _choose(contract: Contract, records: int) -> _Choices:
    domain, options = contract.domain, contract.options
    opening = plan_opening(domain, choose_filter(domain, contract.budget, options), options)
    opened = plan_opened(contract, opening, float(records))
    grids = Grids.of(contract, opening, float(records), planned_bins(opened.test))
    return _Choices(opened.ledger, opening, grids, opened.test)


def _other_delta(contract: Contract, plan: SessionPlan) -> DeltaForecast | None:
    """Return the bounds under delta = 0, or under a usual delta where the plan has none."""
    delta = contract.budget.delta
    budget = Budget(contract.budget.epsilon, _USUAL_DELTA if delta == 0 else Fraction(0))
    options = replace(contract.options, composition=None)
    try:
        other = _forecast(Contract(contract.domain, budget, options), plan.records)
    except BudgetError:
        return None
    if _tests(other) is None or _tests(plan) is None:
        return None
    (tested, value), (other_tested, other_value) = _test_bounds(plan), _test_bounds(other)

    def ratio(ours: float | None, theirs: float | None) -> float | None:
        if ours is None or theirs is None:
            return None
        return theirs / ours if delta else ours / theirs

    cell, other_cell = _cell_bound(plan), _cell_bound(other)
    return DeltaForecast(
        delta=float(budget.delta),
        cell_bound=other_cell,
        cell_ratio=ratio(cell, other_cell),
        tested_bound=other_tested,
        tested_ratio=ratio(tested, other_tested),
        value_bound=other_value,
        value_ratio=ratio(value, other_value),
    )


def _tests(plan: SessionPlan) -> VectorForecast | MarginalForecast | None:
    return plan.vector or plan.marginals


def _test_bounds(plan: SessionPlan) -> tuple[float | None, float | None]:
    """Return the bound of a tested question, on a typical pair of attributes, and of a measured number."""
    if plan.vector is not None:
        return plan.vector.bound, plan.vector.value_bound
    if plan.marginals is not None:
        return plan.marginals.typical_bound, plan.marginals.cell_bound
    return None, None


def _cell_bound(plan: SessionPlan) -> float | None:
    return max((attribute.cell_bound for attribute in plan.attributes), default=None)


def _forecast(contract: Contract, records: int) -> SessionPlan:
    choices = _choose(contract, records)
    fixed = replace(contract, options=replace(contract.options, composition=choices.ledger.composition))
    deviation = total_deviation(fixed.domain, choices.opening)
    promises = _promises(fixed, records, choices)
    vectors = tuple(forecast_sparse_vectors(fixed, choices.opening, choices.ledger, float(records)))
    margin = None
    if promises.marginals is not None:
        margin = error_quantiles.planned_margin(choices.ledger, fixed.options)
    return SessionPlan(
        contract=fixed,
        records=records,
        opening_share=choices.ledger.share,
        total_deviation=deviation,
        attributes=promises.attributes,
        orders=promises.orders,
        vector=promises.vector,
        marginals=promises.marginals,
        coarse=choices.grids.assumed,
        binned=promises.binned,
        sparse_vectors=vectors,
        table_measured=choices.opening.table_noise is not None,
        other_delta=None,
        textbook=forecast_textbook(fixed, records, promises.vector),
        typical_margin=margin,
    )


@dataclass(frozen=True, slots=True)
class _Promises:
    """What questions get, and by which tests."""

    attributes: tuple[AttributeForecast, ...]
    orders: tuple[OrderForecast, ...]
    vector: VectorForecast | None
    marginals: MarginalForecast | None
    binned: tuple[bin_forecasts.BinForecast, ...] = ()


def _promises(contract: Contract, records: int, choices: _Choices) -> _Promises:
    domain, options, opening, test = contract.domain, contract.options, choices.opening, choices.test
    confidences = planned_confidences(options, opening, test)
    width = measured_width(options, confidences)
    everybody = _everybody(contract, records, choices, confidences.alone)
    tested, alone = marginal_tier(test), question_tier(test)
    single = None if alone is None else forecast_vector(alone, confidences.alone)
    vector = single if tested is None else None
    deviation = total_deviation(domain, opening)
    if opening.table_noise is not None:
        noise, cells = opening.table_noise, domain.size
        width = table_width(options, confidences, noise, cells, deviation)
        widest = widest_bar(noise, cells, deviation, options, confidences.alone)
        attributes, covered = forecast_table(domain, records, noise, width, widest)
        return _Promises(attributes, (everybody, *covered), vector, None)
    attributes = tuple(
        forecast_attribute(name, domain[name].size, noise, width, tree=opening.trees.get(name))
        for name, noise in opening.marginal_noise.items()
    )
    if len(domain) == 1 and options.tests_marginals and attributes and not opening.trees:
        (noise,), cells = opening.noises, domain.size
        width = table_width(options, confidences, noise, cells, deviation)
        widest = widest_bar(noise, cells, deviation, options, confidences.alone)
        only = forecast_attribute(domain.names[0], cells, noise, width)
        attributes = (replace(only, widest_bound=widest),)
    orders = forecast_orders(domain, records, attributes, vector)
    marginals = None
    binned: tuple[bin_forecasts.BinForecast, ...] = ()
    if options.tests_marginals:
        if tested is not None:
            total_error = _planned_total_error(contract, records, choices, confidences.total)
            certificates = Certificates(tested, choices.grids, options, confidences, total_error)
            marginals = forecast_marginals(certificates, single)
            binned = tuple(bin_forecasts.forecast_bins(certificates, records))
            orders = forecast_marginal_orders(orders, certificates, marginals, records)
        else:
            orders = (one if one.promise == "covered" else replace(one, promise="none") for one in orders)
    return _Promises(attributes, (everybody, *orders), vector, marginals, binned)


def _everybody(contract: Contract, records: int, choices: _Choices, confidence: float) -> OrderForecast:
    deviation = total_deviation(contract.domain, choices.opening)
    bound = _planned_total_error(contract, records, choices, confidence)
    return forecast_everybody(records, deviation, bound)


def _planned_total_error(contract: Contract, records: int, choices: _Choices, confidence: float) -> float:
    """Return how far a model's total may be from the number of records, in records.

    A model's total is at least 1, which the released number may be below.
    """
    deviation = total_deviation(contract.domain, choices.opening)
    noises = choices.opening.noises
    width = total_half_width(choices.ledger.composition, deviation, confidence, noises)
    return width + max(0.0, 1 - (records - width))
