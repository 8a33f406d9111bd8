"""The choice between zCDP and GDP, from the plan alone: whichever leaves more for measurements."""

from __future__ import annotations

from fractions import Fraction

from pmw.errors import BudgetError
from pmw.planning.marginals import DEFAULT_SCHEDULE
from pmw.planning.questions import VALUE_SHARE
from pmw.privacy.budget import Budget, Composition
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.public.contract import Options

_PURE_PRICE = Fraction(11, 7)  # mu^2/(2 rho) of a pure event: at most pi/2, nearly so where epsilon is small


def filter_of_squares(budget: Budget, options: Options, *, tests: Fraction = Fraction(0)) -> PrivacyFilter:
    """Return the filter, of zCDP and GDP, under which what is planned takes the smaller part of its cap.

    A plan whose tests take a share x of rho costs 2 rho (1 - x) + 2 rho x pi/2 in mu^2, but for the surcharge
    of the discrete Gaussian. So tests are dearer in GDP, and all else is as dear in a cap that is larger: at
    (1, 1e-9) by 1.106. Below x = 0.185 GDP leaves more. zCDP it is too where GDP has no price: with sech^2
    tests, or where no mu is found for the budget.

    Args:
        budget: the guarantee, of a positive delta.
        options: the custodian's choices.
        tests: the share of rho that is planned for tests.

    Raises:
        BudgetError: the budget holds no zCDP.
    """
    zcdp, kind = open_filter(budget, Composition.ZCDP), options.sparse_vector
    if kind is not None and kind.is_sech2:
        return zcdp
    try:
        gdp = open_filter(budget, Composition.GDP)
    except BudgetError:
        return zcdp
    return gdp if 2 * zcdp.cap * (1 + tests * (_PURE_PRICE - 1)) < gdp.cap else zcdp


def share_of_tests(options: Options) -> Fraction:
    """Return the part of rho, of what opening leaves, that is planned for tests.

    Where single questions are tested, or an accuracy is promised, tests take most, and have no larger share
    under GDP (``Schedule.under``). Then it counts as all: GDP has to leave tests themselves no worse.
    """
    if not options.tests_marginals or options.bar_limit is not None:
        return Fraction(1)
    return DEFAULT_SCHEDULE.tests + DEFAULT_SCHEDULE.queries * (1 - VALUE_SHARE)
