"""Plans of sessions: what one will give, told before anything is read or spent.

A plan makes the choices that ``open_session`` would make, with a stated number of records in place of the
released one. It sees no table, so it costs nothing; a session differs from its plan only by the noise on the
number of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from pmw.accounting import PrivacyFilter
from pmw.error_bars import certified_half_width, sum_quantile
from pmw.errors import BudgetError
from pmw.mechanism import opening_entries
from pmw.model import NoiseLaw, check_dense_size, half_width, noise_variance
from pmw.noise import DiscreteLaplace
from pmw.planning import check_neighbors, choose_filter, plan_opening, plan_query_test
from pmw.policy import Contract, OpeningPlan, Options, QueryTestPlan
from pmw.privacy import Budget, Number
from pmw.release import guarantee
from pmw.theorems import numeric_sparse_accuracy, online_pmw_accuracy
from queries.domain import Domain
from queries.linear import UNITS

__all__ = [
    "AttributeForecast",
    "DeltaForecast",
    "OrderForecast",
    "plan_accuracy",
    "plan_session",
    "SessionPlan",
    "TextbookForecast",
    "VectorForecast",
]

_MOST_RECORDS = 10**12
_USUAL_DELTA = Fraction(1, 10**9)  # what a plan without delta is compared with
_HALF_NORMAL = math.sqrt(2 / math.pi)  # E|x| of a standard normal
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-4, 1e3


@dataclass(frozen=True, slots=True)
class AttributeForecast:
    """What opening buys about one attribute, in records.

    Args:
        name: of the attribute.
        cells: its number of cells.
        cell_deviation: standard deviation of the noise on one cell.
        cell_error: expected |noise| of one cell.
        cell_bound: half-width of one cell's interval.
        range_error: expected |noise| of a range of half the cells.
        range_bound: half-width of its interval.
        widest_bound: half-width of the interval of a question that takes all cells.
    """

    name: str
    cells: int
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
        bound: half-width of the interval of one cell, in records; None where nothing is promised.
    """

    order: int
    marginals: int
    cells: int
    mean_count: float
    promise: str
    expected_error: float | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class VectorForecast:
    """The sparse vector of the session, in records.

    Args:
        update_limit: number of positives, each of which buys a measurement.
        threshold: T, the error that a test looks for.
        threshold_scale: scale of the threshold noise.
        query_scale: scale of the noise of each test.
        learning_rate: eta of the single step.
        redrawn: new threshold noise after each positive.
        bound: half-width of the interval of an answer whose test was negative.
        value_deviation: standard deviation of the noise on a bought answer.
        value_error: expected |noise| of a bought answer.
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

    A ratio is the bound without delta divided by the one with it: above 1, delta makes it narrower. Under
    zCDP rounds are redrawn, whose threshold noise is wider, so a tested bound may be narrower without.

    Args:
        delta: 0, or 1e-9 where the plan itself has none.
        cell_bound: of one cell of the noisiest attribute; None where opening buys none.
        cell_ratio: of these bounds.
        tested_bound: of tested questions.
        tested_ratio: of these bounds.
        value_bound: of bought answers.
        value_ratio: of these bounds.
    """

    delta: float
    cell_bound: float | None
    cell_ratio: float | None
    tested_bound: float
    tested_ratio: float
    value_bound: float
    value_ratio: float


@dataclass(frozen=True, slots=True)
class TextbookForecast:
    """What the textbook's theorems promise for the same budget, all answers at once, in records.

    Args:
        online_pmw_error: online private multiplicative weights.
        online_pmw_update_limit: the positives that it provides for.
        numeric_sparse_error: NumericSparse alone, with this session's number of positives.
    """

    online_pmw_error: float
    online_pmw_update_limit: int
    numeric_sparse_error: float | None


@dataclass(frozen=True, slots=True)
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
    are left. Epsilon is found by bisection, from 1e-4 to 1000, and rounded up to three digits.

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
        _attribute(name, fixed.domain[name].size, noise, quantile)
        for name, noise in choices.opening.marginal_noise.items()
    )
    vector = None if choices.test is None else _vector(choices.test, confidence)
    deviation = _total_deviation(fixed.domain, choices.opening)
    plan = SessionPlan(
        contract=fixed,
        records=records,
        opening_share=choices.ledger.share,
        total_deviation=deviation,
        attributes=attributes,
        orders=(),
        vector=vector,
        other_delta=None,
        textbook=_textbook(fixed, records, vector),
    )
    # Sums of Laplace noises are mixtures of normals, so E|sum| is at most that of one normal.
    everybody = OrderForecast(
        0, 1, 1, float(records), "covered", _HALF_NORMAL * deviation, deviation * quantile
    )
    return replace(plan, orders=(everybody, *_orders(plan)))


def _orders(plan: SessionPlan) -> Iterator[OrderForecast]:
    sizes = [attribute.size for attribute in plan.contract.domain]
    products = _symmetric(sizes)
    for order in range(1, len(sizes) + 1):
        marginals, cells = math.comb(len(sizes), order), products[order]
        promise, error, bound = "none", None, None
        if order == 1 and plan.attributes:
            promise = "covered"
            error = max(attribute.cell_error for attribute in plan.attributes)
            bound = _cell_bound(plan)
        elif plan.vector is not None:
            promise, bound = "tested", plan.vector.bound
        yield OrderForecast(order, marginals, cells, plan.records * marginals / cells, promise, error, bound)


def _symmetric(sizes: list[int]) -> list[int]:
    """Return, for each order, the sum over all sets of so many attributes of the product of their sizes."""
    sums = [1] + [0] * len(sizes)
    for number, size in enumerate(sizes, start=1):
        for order in range(number, 0, -1):
            sums[order] += size * sums[order - 1]
    return sums


def _attribute(name: str, cells: int, noise: NoiseLaw, quantile: float) -> AttributeForecast:
    deviation = math.sqrt(noise_variance(noise))
    half = max(1, cells // 2)
    return AttributeForecast(
        name=name,
        cells=cells,
        cell_deviation=deviation,
        cell_error=_absolute_sum(noise, 1),
        cell_bound=deviation * quantile + 1 / UNITS,
        range_error=_absolute_sum(noise, half),
        range_bound=deviation * math.sqrt(half) * quantile + 1 / UNITS,
        widest_bound=deviation * math.sqrt(cells) * quantile + 1 / UNITS,
    )


def _vector(test: QueryTestPlan, confidence: float) -> VectorForecast:
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
        value_error=_absolute_sum(noise, 1),
        value_bound=half_width(noise, confidence),
    )


def _absolute_sum(noise: NoiseLaw, cells: int) -> float:
    """Return the expected |sum| of the noises of so many cells, in records.

    Gaussian: sigma sqrt(2m/pi). Laplace: a sum of m is the difference of two Gamma(m) variables, so
    2 b Gamma(m + 1/2) / (sqrt(pi) Gamma(m)).
    """
    if isinstance(noise, DiscreteLaplace):
        gammas = math.exp(math.lgamma(cells + 0.5) - math.lgamma(cells))
        return float(noise.scale) / UNITS * 2 * gammas / math.sqrt(math.pi)
    return math.sqrt(cells * noise_variance(noise)) * _HALF_NORMAL


def _total_deviation(domain: Domain, plan: OpeningPlan) -> float:
    """Return the deviation of the number of records: its own noise and the marginals' sums, combined."""
    if plan.total_noise is None:
        return 0.0
    variances = [noise_variance(plan.total_noise)]
    variances += [domain[name].size * noise_variance(noise) for name, noise in plan.marginal_noise.items()]
    return math.sqrt(1 / sum(1 / variance for variance in variances))


def _textbook(contract: Contract, records: int, vector: VectorForecast | None) -> TextbookForecast:
    options, budget = contract.options, contract.budget
    queries, beta = options.expected_queries, 1 - options.confidence
    epsilon, delta = float(budget.epsilon) / options.records_per_person, float(budget.delta)
    online = online_pmw_accuracy(
        queries, records=records, cells=contract.domain.size, epsilon=epsilon, delta=delta, beta=beta
    )
    sparse = None
    if vector is not None:
        limit = vector.update_limit
        sparse = numeric_sparse_accuracy(2 * queries, limit, epsilon=epsilon, delta=delta, beta=beta)
    return TextbookForecast(online.error, online.update_limit, sparse)


def _six_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _six_digits(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_six_digits(inner) for inner in value]
    return value
