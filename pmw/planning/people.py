"""People: what a session would give for other numbers of records per person."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pmw.errors import BudgetError
from pmw.planning.plans import plan_session
from pmw.planning.session_plan import SessionPlan

USUAL_LIMITS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class PeopleForecast:
    """The bounds of a session that keeps so many records of each person.

    Args:
        records: K.
        everybody_bound: of the number of records, in records; None where nothing is promised.
        cell_bound: of one cell of the noisiest one-attribute marginal, in records.
        tested_bound: of a tested question, on a typical pair of attributes, in records.
        measured_bound: of a number that was measured after a test, in records.
    """

    records: int
    everybody_bound: float | None
    cell_bound: float | None
    tested_bound: float | None
    measured_bound: float | None


def forecast_people(plan: SessionPlan) -> tuple[PeopleForecast, ...]:
    """Return the bounds for 1, 2, 4, 8 and 16 records per person, and for the plan's own number.

    The table is taken to have as many records, whatever is kept: how many are left out is known to the
    custodian alone. A number that leaves no budget for anything is left out.

    Returns:
        Nothing where the plan has no column of ids.
    """
    if plan.contract.domain.person is None:
        return ()
    limits = sorted({*USUAL_LIMITS, plan.contract.options.records_per_person})
    return tuple(found for limit in limits if (found := _forecast(plan, limit)) is not None)


def _forecast(plan: SessionPlan, limit: int) -> PeopleForecast | None:
    domain, options, budget = plan.contract.domain, plan.contract.options, plan.contract.budget
    if domain.person is None:
        return None
    if limit != options.records_per_person:
        try:
            plan = plan_session(
                replace(domain, person=replace(domain.person, records=limit)),
                records=plan.records,
                epsilon=budget.epsilon,
                delta=budget.delta,
                options=replace(options, records_per_person=limit),
            )
        except BudgetError:
            return None
    return PeopleForecast(limit, plan.orders[0].bound, plan.cell_bound, *plan.test_bounds)
