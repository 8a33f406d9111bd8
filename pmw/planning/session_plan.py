"""Plans of sessions: what one will give, before anything is read or spent.

A plan makes the choices that ``open_session`` would make, with a stated number of records in place of the
released one. It sees no table, so it costs nothing; a session differs from its plan only by the noise on the
number of records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from pmw.errors import BudgetError
from pmw.model import DEFAULT_MAX_CELLS
from pmw.planning.forecasts import (
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
from pmw.planning.marginal_forecasts import (
    Certificates,
    Grids,
    MarginalForecast,
    forecast_marginal_orders,
    forecast_marginals,
    forecast_table,
    measured_width,
    planned_confidences,
)
from pmw.planning.opened import plan_opened
from pmw.planning.opening import check_model_size, check_neighbors, choose_filter, plan_opening
from pmw.planning.sparse_vector_forecasts import SparseVectorForecast, forecast_sparse_vectors
from pmw.privacy.budget import Budget, Number
from pmw.privacy.filter import PrivacyFilter
from pmw.public.contract import Contract, Options, guarantee, is_dense
from pmw.public.intervals import Confidences, total_half_width
from pmw.public.plans import OpeningPlan, TestPlan, marginal_tier, question_tier
from queries.domain import Domain
from queries.plain_values import type_name

__all__ = [
    "check_records",
    "plan_session",
    "SessionPlan",
]

_MOST_RECORDS = 10**12
_USUAL_DELTA = Fraction(1, 10**9)  # what a plan without delta is compared with


@dataclass(frozen=True, slots=True, repr=False)
class SessionPlan:
    """What a session will give; errors and bounds are in records.

    Args:
        contract: domain, budget and options, as a session would fix them.
        records: stated number of records.
        opening_share: part of the budget that is spent at opening, in [0, 1].
        total_deviation: standard deviation of the released number of records.
        attributes: what opening measures, by attribute; empty where it measures no marginals.
        orders: what questions get, by the number of attributes they name, from 0.
        vector: the sparse vector of single questions; None where nothing is left for one, and where marginals
            are tested.
        marginals: the sparse vector of whole marginals; None likewise, and where single questions are
            tested.
        coarse: the domain that the tests are planned for (``assumed_domain``): a session's own bins may be
            fewer or more, its tests are those of the plan. The declared one where nothing is binned.
        sparse_vectors: every sound one at the price of the tests; empty where nothing is tested.
        table_measured: opening measures the whole table in place of its attributes.
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
    marginals: MarginalForecast | None
    coarse: Domain
    sparse_vectors: tuple[SparseVectorForecast, ...]
    table_measured: bool
    other_delta: DeltaForecast | None
    textbook: TextbookForecast

    @property
    def bound(self) -> float | None:
        """The widest half-width of all that are promised, in records; None where some are not.

        Of covered questions it is that of the noise; an answer adds how far the model is from the released
        numbers. Where marginals are tested it is that of questions about at most two attributes that cut no
        bin, on the most bins that opening may choose.
        """
        marginal = self.contract.options.tests_marginals
        bounds = [order.bound for order in self.orders if order.order <= 2 or not marginal]
        bounds += [attribute.widest_bound for attribute in self.attributes]
        if self.vector is not None:
            bounds.append(self.vector.value_bound)
        if self.marginals is not None:
            bounds.append(self.marginals.widest_bound)
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    @property
    def dense(self) -> bool:
        """The model is one array over the coarse domain, not a tree of marginals."""
        options = self.contract.options
        return is_dense(options.test, options.model, self.coarse.size)

    @property
    def model_cells(self) -> int:
        """Numbers that the model holds; at most, where it is a tree."""
        return self.coarse.size if self.dense else self.contract.options.max_cells or DEFAULT_MAX_CELLS

    @property
    def model_bytes(self) -> int:
        """Memory of the model; while it is corrected, up to about 2.5 times that where it is dense."""
        return 8 * self.model_cells

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
            "cells": domain.size,
            "test": options.test.value,
            "update": options.update.value,
            "coarse_shape": list(self.coarse.shape),
            "model": "dense" if self.dense else "graphical",
            "model_cells": self.model_cells,
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
                "whole_table": self.table_measured,
                "marginals": [asdict(attribute) for attribute in self.attributes],
            },
            "orders": [asdict(order) for order in self.orders],
            "vector": None if self.vector is None else asdict(self.vector),
            "marginals": None if self.marginals is None else asdict(self.marginals),
            "sparse_vectors": [asdict(one) for one in self.sparse_vectors],
            "other_delta": None if self.other_delta is None else asdict(self.other_delta),
            "textbook": asdict(self.textbook),
        }
        return {key: _six_digits(value) for key, value in form.items()}


def check_records(records: int) -> None:
    """Refuse a number of records that no table has.

    Raises:
        BudgetError: it is out of range.
    """
    kind = type(records)  # not what a table in its place says of itself
    if kind is bool or not issubclass(kind, int) or not 1 <= records <= _MOST_RECORDS:
        got = f"records={records!r}" if issubclass(kind, int | float) else f"a {type_name(records)}"
        raise BudgetError(f"expected records from 1 to {_MOST_RECORDS:,}, got {got}")


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
    contract = Contract(domain, Budget.of(epsilon, delta), options or Options())
    check_model_size(domain, contract.options)
    check_neighbors(domain, contract.options)
    plan = _forecast(contract, records)
    return replace(plan, other_delta=_other_delta(contract, plan))


# --- choices, as at opening ------------------------------------------------------------------------------


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
    return _Choices(opened.ledger, opening, Grids.of(contract, opening, float(records)), opened.test)


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


# --- what they give --------------------------------------------------------------------------------------


def _forecast(contract: Contract, records: int) -> SessionPlan:
    choices = _choose(contract, records)
    fixed = replace(contract, options=replace(contract.options, composition=choices.ledger.composition))
    deviation = total_deviation(fixed.domain, choices.opening)
    promises = _promises(fixed, records, choices)
    vectors = tuple(forecast_sparse_vectors(fixed, choices.opening, choices.ledger, float(records)))
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
        sparse_vectors=vectors,
        table_measured=choices.opening.table_noise is not None,
        other_delta=None,
        textbook=forecast_textbook(fixed, records, promises.vector),
    )


@dataclass(frozen=True, slots=True)
class _Promises:
    """What questions get, and by which tests."""

    attributes: tuple[AttributeForecast, ...]
    orders: tuple[OrderForecast, ...]
    vector: VectorForecast | None
    marginals: MarginalForecast | None


def _promises(contract: Contract, records: int, choices: _Choices) -> _Promises:
    domain, options, opening, test = contract.domain, contract.options, choices.opening, choices.test
    confidences = planned_confidences(options, opening, test)
    width = measured_width(options, confidences)
    everybody = _everybody(contract, records, choices, confidences)
    tested, alone = marginal_tier(test), question_tier(test)
    single = None if alone is None else forecast_vector(alone, confidences.alone)
    vector = single if tested is None else None
    if opening.table_noise is not None:
        attributes, covered = forecast_table(domain, records, opening.table_noise, width)
        return _Promises(attributes, (everybody, *covered), vector, None)
    attributes = tuple(
        forecast_attribute(name, domain[name].size, noise, width, tree=opening.trees.get(name))
        for name, noise in opening.marginal_noise.items()
    )
    orders = forecast_orders(domain, records, attributes, vector)
    marginals = None
    if options.tests_marginals:
        if tested is not None:
            total_error = _planned_total_error(contract, records, choices, confidences.total)
            certificates = Certificates(tested, choices.grids, options, confidences, total_error)
            marginals = forecast_marginals(certificates, single)
            orders = forecast_marginal_orders(orders, certificates, marginals, records)
        else:
            orders = (one if one.promise == "covered" else replace(one, promise="none") for one in orders)
    return _Promises(attributes, (everybody, *orders), vector, marginals)


def _everybody(
    contract: Contract, records: int, choices: _Choices, confidences: Confidences
) -> OrderForecast:
    deviation = total_deviation(contract.domain, choices.opening)
    bound = _planned_total_error(contract, records, choices, confidences.alone)
    return forecast_everybody(records, deviation, bound)


def _planned_total_error(contract: Contract, records: int, choices: _Choices, confidence: float) -> float:
    """Return how far a model's total may be from the number of records, in records.

    A model's total is at least 1, which the released number may be below.
    """
    deviation = total_deviation(contract.domain, choices.opening)
    noises = choices.opening.noises
    width = total_half_width(choices.ledger.composition, deviation, confidence, noises)
    return width + max(0.0, 1 - (records - width))


def _six_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _six_digits(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_six_digits(inner) for inner in value]
    return value
