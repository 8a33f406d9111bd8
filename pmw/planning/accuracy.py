"""Plans for an accuracy: the smallest epsilon that keeps every bound within it."""

from __future__ import annotations

import math
from collections.abc import Callable

from pmw.errors import BudgetError
from pmw.planning.session_plan import SessionPlan, plan_session
from pmw.privacy.budget import Number
from pmw.public.contract import Options
from queries.domain import Domain

__all__ = [
    "check_accuracy",
    "plan_accuracy",
]

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-4, 1e3


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

    The bounds are those of intervals at ``options.confidence``, for questions of every order while positives
    are left; where marginals are tested, for questions about at most two attributes that cut no bin of
    cells. Epsilon is found by bisection, from 1e-4 to 1000, and rounded up to three digits where the bounds
    keep to the accuracy there too.

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


def _unless_too_small(planned: Callable[[float], SessionPlan | None], epsilon: float) -> SessionPlan | None:
    try:
        return planned(epsilon)
    except BudgetError:  # all else was refused at the largest epsilon already
        return None


def _three_digits_up(value: float) -> float:
    grid = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / grid) * grid:.6g}")
