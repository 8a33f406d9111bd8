"""Accuracy contracts: the smallest epsilon under which a session keeps one, for ``plan`` and ``open`` alike.

A contract (alpha, beta) over a stated number of records says: no error bar of a counting question reaches
farther than alpha of the records either way, or the question is refused; and a bar misses the truth with
probability at most beta. It can be kept where opening gives such bars to all that it covers, and where the
test of single questions gives one to each of its answers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from pmw.errors import BudgetError
from pmw.planning.plans import plan_session
from pmw.planning.session_plan import SessionPlan, check_records
from pmw.privacy.budget import Budget, Number
from pmw.public.contract import Options
from queries.domain import Domain

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e3


def check_accuracy(accuracy: float) -> None:
    """Refuse an accuracy that is no fraction.

    Raises:
        BudgetError: it is none.
    """
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
        domain: the declared attributes.
        records: about how many records the table has.
        accuracy: alpha, the widest bound as a fraction of the records; 0 < accuracy < 1.
        delta: of the guarantee; held fixed.
        options: further choices.

    Raises:
        BudgetError: a parameter is out of range, or the domain is too large for the model.
    """
    check_accuracy(accuracy)
    check_records(records)
    chosen = options or Options()
    if chosen.tests_marginals:
        chosen = replace(chosen, accuracy=accuracy, records=records)

    @cache
    def kept(digits: int) -> SessionPlan | None:
        """Return the plan of an epsilon where it keeps to the accuracy."""
        try:
            plan = plan_session(
                domain, records=records, epsilon=_epsilon(digits), delta=delta, options=chosen
            )
        except BudgetError:
            if digits == high:  # at the largest epsilon, where it is not for want of budget
                raise
            return None
        return plan if keeps(plan, accuracy * records) else None

    low, high = _digits(_SMALLEST_EPSILON), _digits(_LARGEST_EPSILON)
    if kept(high) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) is not None else (middle, high)
    return kept(high)


def keeps(plan: SessionPlan, limit: float) -> bool:
    """Tell whether all that a plan must bound is within so many records."""
    bound = plan.contract_bound
    return bound is not None and bound <= limit


def contract_budget(domain: Domain, epsilon: Number | None, delta: Number, options: Options) -> Budget:
    """Return the budget of a session: the stated one, or the smallest that keeps its accuracy contract.

    Args:
        domain: the declared attributes.
        epsilon: of the guarantee; None for the smallest.
        delta: of the guarantee.
        options: the custodian's choices.

    Raises:
        BudgetError: neither epsilon nor an accuracy is given, or no such epsilon keeps the contract.
    """
    accuracy, records = options.accuracy, options.records
    if accuracy is None or records is None:
        if epsilon is None:
            raise BudgetError("expected epsilon, or an accuracy in its place; got neither")
        return Budget.of(epsilon, delta)
    if epsilon is not None:
        plan = plan_session(domain, records=records, epsilon=epsilon, delta=delta, options=options)
        if keeps(plan, accuracy * records):
            return Budget.of(epsilon, delta)
    found = plan_accuracy(domain, records=records, accuracy=accuracy, delta=delta, options=options)
    if found is None:
        raise BudgetError(out_of_reach(accuracy))
    if epsilon is not None:
        least = float(found.contract.budget.epsilon)
        raise BudgetError(
            f"epsilon={float(Budget.of(epsilon, delta).epsilon):g} keeps no error bar within "
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
