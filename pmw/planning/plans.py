"""Planning: the choices of an opening, made for a stated number of records, and what they promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from pmw.errors import BudgetError
from pmw.planning import error_quantiles
from pmw.planning.opened import plan_opened
from pmw.planning.opening import check_model_size, check_neighbors, choose_filter, plan_opening
from pmw.planning.outlook import OrderForecast, Outlook, imagined_state
from pmw.planning.session_plan import DeltaForecast, SessionPlan, check_records
from pmw.planning.tested_bounds import (
    BinForecast,
    Certificates,
    Grids,
    MarginalForecast,
    VectorForecast,
    forecast_bins,
    forecast_marginal_orders,
    forecast_marginals,
    forecast_sparse_vectors,
    forecast_vector,
)
from pmw.planning.textbook_plan import forecast_textbook
from pmw.privacy.budget import Budget, Number
from pmw.public.contract import Contract, Options, agreed
from pmw.public.plans import marginal_tier, planned_bins, question_tier
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


def _other_delta(contract: Contract, plan: SessionPlan) -> DeltaForecast | None:
    """Return the bounds under delta = 0, or under a usual delta where the plan has none."""
    delta = contract.budget.delta
    budget = Budget(contract.budget.epsilon, _USUAL_DELTA if delta == 0 else Fraction(0))
    options = replace(contract.options, composition=None)
    try:
        other = _forecast(Contract(contract.domain, budget, options), plan.records)
    except BudgetError:
        return None
    if any(one.vector is None and one.marginals is None for one in (plan, other)):
        return None
    (tested, value), (other_tested, other_value) = plan.test_bounds, other.test_bounds

    def ratio(ours: float | None, theirs: float | None) -> float | None:
        if ours is None or theirs is None:
            return None
        return theirs / ours if delta else ours / theirs

    return DeltaForecast(
        delta=float(budget.delta),
        cell_bound=other.cell_bound,
        cell_ratio=ratio(plan.cell_bound, other.cell_bound),
        tested_bound=other_tested,
        tested_ratio=ratio(tested, other_tested),
        value_bound=other_value,
        value_ratio=ratio(value, other_value),
    )


def _forecast(contract: Contract, records: int) -> SessionPlan:
    """Return the plan of what ``open_session`` would choose, without the comparison to another delta."""
    domain, options = contract.domain, contract.options
    opening = plan_opening(domain, choose_filter(domain, contract.budget, options), options)
    opened = plan_opened(contract, opening, float(records))
    grids = Grids.of(contract, opening, float(records), planned_bins(opened.test))
    fixed = replace(contract, options=replace(options, composition=opened.ledger.composition))
    outlook = Outlook(imagined_state(fixed, opening, opened, records))
    promises = _promises(outlook, grids)
    margin = None
    if promises.marginals is not None:
        margin = error_quantiles.planned_margin(opened.ledger, fixed.options)
    vector = promises.vector
    return SessionPlan(
        contract=fixed,
        records=records,
        opening_share=opened.ledger.share,
        total_deviation=outlook.state.total.deviation,
        attributes=outlook.attributes,
        orders=promises.orders,
        vector=vector,
        marginals=promises.marginals,
        coarse=grids.assumed,
        binned=promises.binned,
        sparse_vectors=tuple(forecast_sparse_vectors(fixed, opening, opened.ledger, float(records))),
        table_measured=outlook.table_measured,
        other_delta=None,
        textbook=forecast_textbook(fixed, records, None if vector is None else vector.update_limit),
        typical_margin=margin,
    )


@dataclass(frozen=True, slots=True)
class _Promises:
    """What questions get, and by which tests."""

    orders: tuple[OrderForecast, ...]
    vector: VectorForecast | None
    marginals: MarginalForecast | None = None
    binned: tuple[BinForecast, ...] = ()


def _promises(outlook: Outlook, grids: Grids) -> _Promises:
    plan, confidence = outlook.state.plan, outlook.confidences.alone
    tested, alone = marginal_tier(plan), question_tier(plan)
    single = None if alone is None else forecast_vector(alone, confidence)
    if tested is None:
        orders = tuple(outlook.orders(None if single is None else single.bound))
        return _Promises(orders, single)
    certificates = Certificates.of(tested, grids, outlook)
    marginals = forecast_marginals(certificates, single)
    orders = tuple(forecast_marginal_orders(certificates, marginals))
    return _Promises(orders, None, marginals, tuple(forecast_bins(certificates)))
