"""Plans of sessions: what one will give, told before anything is read or spent.

A plan makes the choices that ``open_session`` would make, with a stated number of records in place of the
released one. It sees no table, so it costs nothing; a session differs from its plan only by the noise on the
number of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from pmw.accounting import PrivacyFilter
from pmw.error_bars import sum_quantile
from pmw.errors import BudgetError
from pmw.forecasts import (
    AttributeForecast,
    DeltaForecast,
    OrderForecast,
    TextbookForecast,
    VectorForecast,
    forecast_attribute,
    forecast_everybody,
    forecast_orders,
    forecast_textbook,
    forecast_vector,
    total_deviation,
)
from pmw.mechanism import opening_entries
from pmw.model import check_dense_size
from pmw.planning import check_neighbors, choose_filter, plan_opening, plan_query_test
from pmw.policy import Contract, OpeningPlan, Options, QueryTestPlan
from pmw.privacy import Budget, Number
from pmw.release import guarantee
from queries.domain import Domain

__all__ = [
    "plan_accuracy",
    "plan_session",
    "SessionPlan",
]

_MOST_RECORDS = 10**12
_USUAL_DELTA = Fraction(1, 10**9)  # what a plan without delta is compared with
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-4, 1e3


@dataclass(frozen=True, slots=True, repr=False)
class SessionPlan:
    """What a session will give; errors and bounds are in records.

    Args:
        contract: domain, budget and options, as a session would fix them.
        records: stated number of records.
        opening_share: part of the budget that is spent at opening, in [0, 1].
        total_deviation: standard deviation of the released number of records.
        attributes: what opening buys, by attribute; empty where it buys no marginals.
        orders: what questions get, by the number of attributes they name, from 0.
        vector: the sparse vector; None where nothing is left for one.
        other_delta: the same without delta, or with one; None where that cannot be planned.
        textbook: what theorems promise.
    """

    contract: Contract
    records: int
    opening_share: float
    total_deviation: float
    attributes: tuple[AttributeForecast, ...]
    orders: tuple[OrderForecast, ...]
    vector: VectorForecast | None
    other_delta: DeltaForecast | None
    textbook: TextbookForecast

    @property
    def bound(self) -> float | None:
        """The widest half-width of all that are promised, in records; None where some are not.

        Of covered questions it is that of the noise; an answer adds how far the model is from the released
        numbers.
        """
        bounds = [order.bound for order in self.orders]
        bounds += [attribute.widest_bound for attribute in self.attributes]
        if self.vector is not None:
            bounds.append(self.vector.value_bound)
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    @property
    def model_bytes(self) -> int:
        """Memory of the model; while it is corrected, up to about 2.5 times that."""
        return 8 * self.contract.domain.size

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        return guarantee(self.contract)

    def __repr__(self) -> str:
        budget, bound = self.contract.budget, self.bound
        promise = "not every answer has a bound" if bound is None else f"answers within {bound:,.0f} records"
        return (
            f"SessionPlan({self.contract.domain.name!r}, {self.records:,} records, "
            f"epsilon={float(budget.epsilon):g}, delta={float(budget.delta):g}, {promise})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON; numbers have six digits."""
        domain, budget, options = self.contract.domain, self.contract.budget, self.contract.options
        composition = None if options.composition is None else options.composition.value
        form = {
            "table": domain.name,
            "attributes": len(domain),
            "model_cells": domain.size,
            "model_bytes": self.model_bytes,
            "records": self.records,
            "epsilon": float(budget.epsilon),
            "delta": float(budget.delta),
            "guarantee": self.guarantee,
            "composition": composition,
            "confidence": options.confidence,
            "expected_queries": options.expected_queries,
            "bound": self.bound,
            "bound_fraction": None if self.bound is None else self.bound / self.records,
            "opening": {
                "share": self.opening_share,
                "total_deviation": self.total_deviation,
                "marginals": [asdict(attribute) for attribute in self.attributes],
            },
            "orders": [asdict(order) for order in self.orders],
            "vector": None if self.vector is None else asdict(self.vector),
            "other_delta": None if self.other_delta is None else asdict(self.other_delta),
            "textbook": asdict(self.textbook),
        }
        return {key: _six_digits(value) for key, value in form.items()}


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
    if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= _MOST_RECORDS:
        raise BudgetError(f"expected records from 1 to {_MOST_RECORDS:,}, got records={records!r}")
    contract = Contract(domain, Budget.of(epsilon, delta), options or Options())
    check_dense_size(domain)
    check_neighbors(domain, contract.options)
    plan = _forecast(contract, records)
    return replace(plan, other_delta=_other_delta(contract, plan))


def plan_accuracy(
    domain: Domain, *, records: int, accuracy: float, delta: Number = 0, options: Options | None = None
) -> SessionPlan | None:
    """Return the plan of the smallest epsilon whose bounds are within an accuracy, or None out of reach.

    The bounds are those of intervals at ``options.confidence``, for questions of every order while positives
    are left. Epsilon is found by bisection, from 1e-4 to 1000, and rounded up to three digits where the
    bounds keep to the accuracy there too.

    Args:
        domain: the declared attributes.
        records: about how many records the table has.
        accuracy: alpha, the widest bound as a fraction of the records; 0 < accuracy < 1.
        delta: of the guarantee; held fixed.
        options: further choices.

    Raises:
        BudgetError: a parameter is out of range, or the domain is too large for the model.
    """
    if not 0 < accuracy < 1:
        raise BudgetError(f"expected an accuracy strictly between 0 and 1, got accuracy={accuracy!r}")

    def planned(epsilon: float) -> SessionPlan | None:
        plan = plan_session(domain, records=records, epsilon=epsilon, delta=delta, options=options)
        return plan if plan.bound is not None and plan.bound <= accuracy * records else None

    low, high = _SMALLEST_EPSILON, _LARGEST_EPSILON
    best = planned(high)
    while best is not None and high / low > 1.0005:
        middle = math.sqrt(low * high)
        found = _unless_too_small(planned, middle)
        low, high, best = (middle, high, best) if found is None else (low, middle, found)
    if best is None:
        return None
    return _unless_too_small(planned, _three_digits_up(high)) or best


# --- choices, as at opening ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choices:
    """What ``open_session`` would choose: the filter after opening, and both plans."""

    ledger: PrivacyFilter
    opening: OpeningPlan
    test: QueryTestPlan | None


def _choose(contract: Contract, records: int) -> _Choices:
    domain, options = contract.domain, contract.options
    ledger = choose_filter(domain, contract.budget, options)
    opening = plan_opening(domain, ledger, options)
    for entry in opening_entries(opening, options):
        ledger = ledger.charge(entry.charge)
    return _Choices(ledger, opening, plan_query_test(domain, ledger, float(records), options))


def _other_delta(contract: Contract, plan: SessionPlan) -> DeltaForecast | None:
    """Return the bounds under delta = 0, or under a usual delta where the plan has none."""
    delta = contract.budget.delta
    budget = Budget(contract.budget.epsilon, _USUAL_DELTA if delta == 0 else Fraction(0))
    options = replace(contract.options, composition=None)
    try:
        other = _forecast(Contract(contract.domain, budget, options), plan.records)
    except BudgetError:
        return None
    if other.vector is None or plan.vector is None:
        return None

    def ratio(ours: float, theirs: float) -> float:
        return theirs / ours if delta else ours / theirs

    cell, other_cell = _cell_bound(plan), _cell_bound(other)
    return DeltaForecast(
        delta=float(budget.delta),
        cell_bound=other_cell,
        cell_ratio=None if cell is None or other_cell is None else ratio(cell, other_cell),
        tested_bound=other.vector.bound,
        tested_ratio=ratio(plan.vector.bound, other.vector.bound),
        value_bound=other.vector.value_bound,
        value_ratio=ratio(plan.vector.value_bound, other.vector.value_bound),
    )


def _cell_bound(plan: SessionPlan) -> float | None:
    return max((attribute.cell_bound for attribute in plan.attributes), default=None)


def _unless_too_small(planned: Callable[[float], SessionPlan | None], epsilon: float) -> SessionPlan | None:
    try:
        return planned(epsilon)
    except BudgetError:  # all else was refused at the largest epsilon already
        return None


def _three_digits_up(value: float) -> float:
    grid = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / grid) * grid:.6g}")


# --- what they give --------------------------------------------------------------------------------------


def _forecast(contract: Contract, records: int) -> SessionPlan:
    choices = _choose(contract, records)
    composition = choices.ledger.composition
    fixed = replace(contract, options=replace(contract.options, composition=composition))
    confidence = fixed.options.confidence
    quantile = sum_quantile(composition, confidence)
    attributes = tuple(
        forecast_attribute(name, fixed.domain[name].size, noise, quantile)
        for name, noise in choices.opening.marginal_noise.items()
    )
    vector = None if choices.test is None else forecast_vector(choices.test, confidence)
    deviation = total_deviation(fixed.domain, choices.opening)
    everybody = forecast_everybody(records, deviation, quantile)
    return SessionPlan(
        contract=fixed,
        records=records,
        opening_share=choices.ledger.share,
        total_deviation=deviation,
        attributes=attributes,
        orders=(everybody, *forecast_orders(fixed.domain, records, attributes, vector)),
        vector=vector,
        other_delta=None,
        textbook=forecast_textbook(fixed, records, vector),
    )


def _six_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _six_digits(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_six_digits(inner) for inner in value]
    return value
