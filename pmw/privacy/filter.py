"""The privacy filter: what was charged, and what may still be charged under the cap."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from pmw.errors import BudgetError, BudgetExhaustedError
from pmw.privacy.budget import Budget, Charge, Composition, mu_squared_cap, zcdp_rho
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True)
class PrivacyFilter:
    """A cap and what was charged against it, both exact.

    Charges of adaptively chosen, interleaved mechanisms add up as long as their sum stays under a cap
    fixed beforehand: a filter.

    Args:
        composition: whether epsilons, rhos or squares of mu are added.
        cap: the most that may be charged.

    Privacy:
        ``PURE``: the session is cap-DP. ``ZCDP``: it is cap-zCDP; ``GDP``: it is mu-GDP, mu^2 = cap; so both
        are (epsilon, delta)-DP for the budget that ``open_filter`` took the cap from.

    Source: Rogers, Roth, Ullman and Vadhan (2016) for filters and pure sums; Feldman and Zrnic (2021) and
        Lécuyer (2021) for Rényi filters, which a sum of rhos is at every order at once; Smith and Thakurta
        (2022, arXiv 2210.17520) and docs/proofs/gaussian-filter.md for squares of mu; Haney et al. (2023,
        arXiv 2309.05901) for interactive mechanisms that run interleaved. A filter that stops where composed
        trade-off curves cross the budget's would be invalid (arXiv 2602.06756): prices add, curves do not.
    """

    composition: Composition
    cap: Fraction
    spent: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.cap <= 0 or not 0 <= self.spent <= self.cap:
            raise BudgetError(f"expected 0 <= spent <= cap, got {float(self.spent):g} of {float(self.cap):g}")

    @property
    def remaining(self) -> Fraction:
        """What may still be charged, exactly."""
        return self.cap - self.spent

    @property
    def share(self) -> float:
        """The part of the cap that was charged, in [0, 1]."""
        return float(self.spent / self.cap)

    def price(self, charge: Charge) -> Fraction:
        """Return what a charge takes from this filter."""
        if self.composition is Composition.ZCDP:
            return charge.rho
        if self.composition is Composition.GDP:
            if charge.mu_squared is None:
                raise BudgetError("expected an event that is proved in GDP, got one without a mu")
            return charge.mu_squared
        if charge.epsilon is None:
            raise BudgetError("expected a pure event under a pure budget, got Gaussian noise")
        return charge.epsilon

    def allows(self, charge: Charge) -> bool:
        """Tell whether a charge still fits."""
        return self.price(charge) <= self.remaining

    def charge(self, charge: Charge) -> PrivacyFilter:
        """Return the filter after a charge."""
        if not self.allows(charge):
            raise BudgetExhaustedError(
                f"expected a charge of at most {float(self.remaining):g}, got {float(self.price(charge)):g}"
            )
        return replace(self, spent=self.spent + self.price(charge))


def open_filter(budget: Budget, composition: Composition) -> PrivacyFilter:
    """Return an empty filter for a budget.

    A budget with delta > 0 may be held to the pure rule too: its cap is then epsilon.
    """
    if composition is Composition.PURE:
        return PrivacyFilter(composition, budget.epsilon)
    if composition is Composition.GDP:
        return PrivacyFilter(composition, mu_squared_cap(budget.epsilon, budget.delta))
    return PrivacyFilter(composition, zcdp_rho(budget))
