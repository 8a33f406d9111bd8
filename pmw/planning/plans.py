"""Planning: the choices of an opening, made for a stated number of records, and what they promise.

Beside a plan stand those for other numbers of records per person, and of the smallest epsilon under which a
session keeps an accuracy contract, for ``plan`` and ``open`` alike. A contract (alpha, beta) over a stated
number of records says: no error bar of a counting question reaches farther than alpha of the records either
way, or the question is refused; and a bar misses the truth with probability at most beta. It can be kept
where opening gives such bars to all that it covers, and where the test of single questions gives one to each
of its answers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction
from functools import cache

from pmw.errors import BudgetError
from pmw.planning import error_quantiles
from pmw.planning.opening import Opened, open_contract, pairs_forecast, plan_opened
from pmw.planning.outlook import Outlook, imagined_state, with_residuals
from pmw.planning.refusals import check_model_size, check_neighbors
from pmw.planning.session_plan import DeltaForecast, ExpectedForecast, SessionPlan, check_records
from pmw.planning.tested_bounds import (
    Certificates,
    forecast_marginal_orders,
    forecast_marginals,
    forecast_sparse_vectors,
    forecast_vector,
)
from pmw.planning.theorems import forecast_textbook
from pmw.planning.tiers import assumed_bins
from pmw.privacy.budget import Budget, Number
from pmw.public.charges import marginal_charge
from pmw.public.clear import number_half_width
from pmw.public.contract import Contract, agreed
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan, marginal_tier, question_tier
from pmw.public.state import planned_bins
from pmw.public.status import held_pairs
from queries.domain import Domain
from queries.frozen import dataclass

_USUAL_DELTA = Fraction(1, 10**9)  # what a plan without delta is compared with
_MANY_RECORDS = 10**6  # where no number is public: bars of what opening measures hardly depend on it
_USUAL_LIMITS = (1, 2, 4, 8, 16)  # records per person
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e3


def plan_session(
    domain: Domain, *, records: int, epsilon: Number, delta: Number = 0, options: Options | None = None
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
    contract = _contract_of(domain, Budget.of(epsilon, delta), options or Options())
    plan, expected, found = _forecast(contract, records, compared=True), contract.options.expected, None
    if expected is not None:
        usual = replace(contract, options=replace(contract.options, expected=None))
        outlooks = (_imagined(one, records)[-1] for one in (contract, usual))
        bounds = [outlook.typical_bound(expected.by_scope) for outlook in outlooks]
        found = ExpectedForecast(len(expected), len(expected.scopes), *bounds)
    return replace(plan, other_delta=_other_delta(contract, plan), expected=found)


def delta_for_pairs(
    domain: Domain, *, epsilon: Number, options: Options, records: int | None = None
) -> tuple[SessionPlan, SessionPlan] | None:
    """Return a plan without a delta and one with a usual delta, where the second holds more pairs.

    Args:
        records: about how many records the table has, where that is public; else a million are assumed.

    Returns:
        None where delta makes no such difference, or one of the two cannot be planned.

    Privacy: no table is read; nothing is spent.
    """
    try:
        contracts = [_contract_of(domain, Budget.of(epsilon, delta), options) for delta in (0, _USUAL_DELTA)]
        if open_contract(contracts[1].domain, contracts[1].budget, contracts[1].options)[1].order == 1:
            return None  # soon known, and plans of hundreds of attributes take seconds
        without, given = (_forecast(contract, records or _MANY_RECORDS) for contract in contracts)
    except BudgetError:
        return None
    return (without, given) if len(given.held.held) > len(without.held.held) else None


def fewest_records(
    domain: Domain, *, epsilon: Number, delta: Number, options: Options
) -> tuple[float, float] | None:
    """Return how near a count by one attribute is, and of how few records such counts would be noise.

    Returns:
        The half-width of a cell's error bar, in records, and the number of records at which the mean cell has
        as many; None where opening promises nothing of attributes.

    Privacy: no table is read; nothing is spent.
    """
    one = _forecast(_contract_of(domain, Budget.of(epsilon, delta), options), _MANY_RECORDS).orders[1]
    return None if one.bound is None else (one.bound, one.bound * one.cells / one.marginals)


def _contract_of(domain: Domain, budget: Budget, options: Options) -> Contract:
    """Return what a session would fix at opening."""
    domain, chosen = agreed(domain, options)
    check_model_size(domain, chosen)
    check_neighbors(domain, chosen)
    return Contract(domain, budget, chosen)


def _other_delta(contract: Contract, plan: SessionPlan) -> DeltaForecast | None:
    """Return the bounds under delta = 0, or under a usual delta where the plan has none."""
    delta = contract.budget.delta
    budget = Budget(contract.budget.epsilon, _USUAL_DELTA if delta == 0 else Fraction(0))
    options = replace(contract.options, composition=None)
    try:
        other = _forecast(Contract(contract.domain, budget, options), plan.records)
    except BudgetError:
        return None
    if plan.cell_bound is None and (None, None) in (plan.test_bounds, other.test_bounds):
        return None
    found = list[float | None]()
    bounds = ((one.cell_bound, *one.test_bounds) for one in (plan, other))
    for ours, theirs in zip(*bounds, strict=True):
        ratio = None if ours is None or theirs is None else theirs / ours if delta else ours / theirs
        found += [theirs, ratio]
    return DeltaForecast(float(budget.delta), *found)


def _imagined(contract: Contract, records: int) -> tuple[OpeningPlan, Opened, Domain, Outlook]:
    """Return a session that was opened over a uniform table, whose noise came out as 0, with its bins."""
    fixed, opening = open_contract(contract.domain, contract.budget, contract.options)
    opened = plan_opened(fixed, opening, float(records))
    assumed = assumed_bins(fixed, opening, float(records), planned_bins(opened.test))
    state = imagined_state(fixed, opening, opened, records)
    return opening, opened, assumed, Outlook(with_residuals(state, assumed) if opening.order > 1 else state)


def _forecast(contract: Contract, records: int, *, compared: bool = False) -> SessionPlan:
    """Return the plan of what ``open_session`` would choose, without the comparison to another delta."""
    opening, opened, assumed, outlook = _imagined(contract, records)
    state, fixed = outlook.state, outlook.state.contract
    tested, alone = marginal_tier(opened.test), question_tier(opened.test)
    single = None if alone is None else forecast_vector(alone, outlook.confidences.alone)
    residuals = (opened.ledger.price(marginal_charge(one.noise, fixed.options)) for one in state.marginals)
    plan = SessionPlan(
        contract=fixed,
        records=records,
        opening_share=opened.ledger.share + float(sum(residuals, Fraction(0)) / opened.ledger.cap),
        total_deviation=state.total.deviation,
        attributes=outlook.attributes,
        table_measured=outlook.table_measured,
        coarse=assumed,
        orders=tuple(outlook.orders(None if single is None else single.bound)),
        held=held_pairs(state),
        vector=single,
        sums=tuple(summed.attribute for summed, _ in opening.sums),
        number_bound=number_half_width(state) if fixed.options.reserved else None,
    )
    if tested is not None:
        margin = error_quantiles.planned_margin(opened.ledger, fixed.options)
        certificates = Certificates.of(tested, opening, outlook, assumed)
        plan = _with_marginals(replace(plan, typical_margin=margin), certificates)
    if compared:
        if opening.order == 1:  # else they would be of tests that are not made
            vectors = forecast_sparse_vectors(fixed, opening, opened.ledger, float(records))
            plan = replace(plan, sparse_vectors=tuple(vectors))
        positives = None if plan.vector is None else plan.vector.update_limit
        plan = replace(plan, textbook=forecast_textbook(fixed, records, positives))
    return plan


def _with_marginals(plan: SessionPlan, certificates: Certificates) -> SessionPlan:
    """Return a plan with what tests of marginals promise, or those that are measured before any question."""
    tier, state = certificates.plan, certificates.outlook.state
    if tier.order > 1:
        choice = pairs_forecast(state.domain, replace(state.ledger, spent=Fraction(0)), certificates.options)
        sizes = [len(one.scope) for one in state.marginals]
        plan = replace(plan, pairs=sizes.count(2), triples=sizes.count(3), choice=choice)
    if not tier.tests:
        return plan
    marginals = forecast_marginals(certificates, plan.vector)
    orders = tuple(forecast_marginal_orders(certificates, marginals))
    return replace(plan, vector=None, marginals=marginals, orders=orders)


@dataclass(frozen=True, slots=True)
class PeopleForecast:
    """The bounds of a session that keeps so many records of each person."""

    records: int
    everybody_bound: float | None
    cell_bound: float | None
    tested_bound: float | None
    measured_bound: float | None


def forecast_people(plan: SessionPlan) -> tuple[PeopleForecast, ...]:
    """Return the bounds for 1, 2, 4, 8 and 16 records per person, and for the plan's own number.

    The table is taken to have as many records, whatever is kept: how many are left out is known to the
    custodian alone. A number that leaves no budget for anything is left out; all are without a column of ids.
    """
    domain, options, budget = plan.contract.domain, plan.contract.options, plan.contract.budget
    person, found = domain.person, []
    if person is None:
        return ()
    for limit in sorted({*_USUAL_LIMITS, options.records_per_person}):
        one = plan
        if limit != options.records_per_person:
            bounded = replace(domain, person=replace(person, records=limit))
            chosen = replace(options, records_per_person=limit)
            try:
                one = _forecast(_contract_of(bounded, budget, chosen), plan.records)
            except BudgetError:
                continue
        found.append(PeopleForecast(limit, one.orders[0].bound, one.cell_bound, *one.test_bounds))
    return tuple(found)


def check_accuracy(accuracy: float) -> None:
    """Refuse an accuracy that is no fraction."""
    if not 0 < accuracy < 1:
        raise BudgetError(f"expected an accuracy strictly between 0 and 1, got accuracy={accuracy!r}")


def plan_accuracy(
    domain: Domain, *, records: int, accuracy: float, delta: Number = 0, options: Options | None = None
) -> SessionPlan | None:
    """Return the plan of the smallest epsilon whose bounds are within an accuracy, or None out of reach.

    The bounds are those of ``SessionPlan.contract_bound``, of intervals at ``options.confidence``. Epsilon is
    searched by bisection, from 1e-6 to 1000, and rounded up to three digits: with one less in the last of
    them some bound is wider.

    Args:
        records: about how many records the table has.
        accuracy: alpha, the widest bound as a fraction of the records; 0 < accuracy < 1.
    """
    check_accuracy(accuracy)
    check_records(records)
    chosen = options or Options()
    if chosen.tests_marginals:
        chosen = replace(chosen, accuracy=accuracy, records=records)

    @cache
    def is_kept(digits: int) -> bool:
        """Tell whether an epsilon keeps to the accuracy."""
        try:
            return _keeps(domain, Budget.of(_epsilon(digits), delta), chosen, records, accuracy)
        except BudgetError:
            if digits == most:  # at the largest epsilon, where it is not for want of budget
                raise
            return False

    most = _digits(_LARGEST_EPSILON)
    candidates = range(_digits(_SMALLEST_EPSILON) + 1, most)
    if not is_kept(most):
        return None
    epsilon = _epsilon(candidates.start + bisect_left(candidates, True, key=is_kept))
    return plan_session(domain, records=records, epsilon=epsilon, delta=delta, options=chosen)


def _keeps(domain: Domain, budget: Budget, options: Options, records: int, accuracy: float) -> bool:
    """Tell whether all that a plan must bound is within a part of the records."""
    bound = _forecast(_contract_of(domain, budget, options), records).contract_bound
    return bound is not None and bound <= accuracy * records


def contract_budget(domain: Domain, epsilon: Number | None, delta: Number, options: Options) -> Budget:
    """Return the budget of a session: the stated one, or the smallest that keeps its accuracy contract."""
    accuracy, records = options.accuracy, options.records
    if accuracy is None or records is None:
        if epsilon is None:
            raise BudgetError("expected epsilon, or an accuracy in its place; got neither")
        return Budget.of(epsilon, delta)
    if epsilon is not None:
        check_records(records)
        budget = Budget.of(epsilon, delta)
        if _keeps(domain, budget, options, records, accuracy):
            return budget
    found = plan_accuracy(domain, records=records, accuracy=accuracy, delta=delta, options=options)
    if found is None:
        raise BudgetError(out_of_reach(accuracy))
    if epsilon is not None:
        least = float(found.contract.budget.epsilon)
        raise BudgetError(
            f"epsilon={float(budget.epsilon):g} keeps no error bar within "
            f"{100 * accuracy:g}% of {records:,} records; the smallest that does is {least:g}"
        )
    return found.contract.budget


def out_of_reach(accuracy: float) -> str:
    """Return in words that no epsilon is large enough."""
    return (
        f"no epsilon up to {_LARGEST_EPSILON:g} keeps every bound within {100 * accuracy:g}% of the "
        "records; allow a wider one, or choose options that leave more for tests"
    )


def _digits(epsilon: float) -> int:
    """Return the place of an epsilon among the numbers of three digits."""
    exponent = math.floor(math.log10(epsilon) + 1e-9)
    return 900 * exponent + round(epsilon / 10.0**exponent * 100) - 100


def _epsilon(digits: int) -> float:
    """Return the number of three digits at a place."""
    exponent, mantissa = divmod(digits, 900)
    return float(f"{mantissa + 100}e{exponent - 2}")
