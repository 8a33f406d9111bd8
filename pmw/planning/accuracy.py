"""Plans for an accuracy: the smallest epsilon that keeps every bound within it."""

from __future__ import annotations

import math
from functools import cache

from pmw.errors import BudgetError
from pmw.planning.plans import plan_session
from pmw.planning.session_plan import SessionPlan
from pmw.privacy.budget import Number
from pmw.public.contract import Options
from queries.domain import Domain

__all__ = [
    "check_accuracy",
    "plan_accuracy",
]

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-4, 1e3
_TOLERANCE = 2e-4  # relative, of epsilon


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
    cells. Epsilon is searched by Brent's method, from 1e-4 to 1000, and rounded up to three digits where the
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
    from scipy.optimize import brentq

    check_accuracy(accuracy)
    kept: dict[float, SessionPlan] = {}  # the plans that keep to the accuracy, by epsilon

    @cache
    def excess(epsilon: float) -> float:
        """Return ln(widest bound/accuracy), and keep the plan where it is at most 0; 1 without a bound."""
        try:
            plan = plan_session(domain, records=records, epsilon=epsilon, delta=delta, options=options)
        except BudgetError:
            if not kept:  # at the largest epsilon, where it is not for want of budget
                raise
            return 1.0
        if plan.bound is not None and plan.bound <= accuracy * records:
            kept[epsilon] = plan
        return 1.0 if plan.bound is None else math.log(plan.bound / (accuracy * records))

    low, high = math.log(_SMALLEST_EPSILON), math.log(_LARGEST_EPSILON)
    if excess(math.exp(high)) > 0:
        return None
    if excess(math.exp(low)) > 0:
        brentq(lambda place: excess(math.exp(place)), low, high, xtol=_TOLERANCE)
    smallest = min(kept)
    rounded = _three_digits_up(smallest)
    return kept[rounded if excess(rounded) <= 0 else smallest]


def _three_digits_up(value: float) -> float:
    grid = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / grid) * grid:.6g}")
