"""The schedule: what each round of a release may cost. Public: it looks at measurements and models alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.research.offline.options import OfflineOptions

# Chosen on random streams with other seeds than the benchmark's; from 2 to 16 rounds, and from a price
# that grows by half to one that grows fourfold, the errors differ by a tenth.
ROUNDS_PER_ATTRIBUTE = 4  # that the first, smallest shares would last for
_GROWTH = 2  # of a round's price, where a measurement no longer paid


@dataclass(frozen=True, slots=True)
class RoundPrices:
    """What one round may cost, in the filter's own measure; multiples of 1/RHO_GRID."""

    selection: Fraction
    measurement: Fraction


@dataclass(frozen=True, slots=True)
class Schedule:
    """Shares of the budget for the rounds to come.

    Args:
        price: of the next round, if it is not the last.
        rounds_left: where their number is fixed; None where precision grows.
        selection_share: part of a round's price that pays for the choice.
    """

    price: Fraction
    rounds_left: int | None
    selection_share: Fraction

    def is_last(self, budget_filter: PrivacyFilter) -> bool:
        """Tell whether the next round is the last one, which takes all that is left."""
        if self.rounds_left is not None:
            return self.rounds_left == 1
        return budget_filter.remaining < 2 * self.price

    def prices(self, budget_filter: PrivacyFilter) -> RoundPrices:
        """Return the prices of the next round."""
        price = budget_filter.remaining if self.is_last(budget_filter) else self.price
        selection = floor_price(price * self.selection_share)
        return RoundPrices(selection, floor_price(price) - selection)

    def after(self, *, paid: bool) -> Schedule:
        """Return the schedule after a round: twice the price where a measurement no longer paid.

        Args:
            paid: the measurement moved the model by more than its noise is wide.

        Source: McKenna, Mullins, Sheldon and Miklau (2022), AIM, Algorithm 3 (budget annealing), where the
            price grows fourfold.
        """
        if self.rounds_left is not None:
            return replace(self, rounds_left=self.rounds_left - 1)
        return self if paid else replace(self, price=_GROWTH * self.price)


def first_schedule(budget_filter: PrivacyFilter, attributes: int, options: OfflineOptions) -> Schedule:
    """Return the schedule after opening.

    Args:
        budget_filter: what opening left.
        attributes: of the domain.
        options: the custodian's choices.
    """
    rounds = options.rounds or ROUNDS_PER_ATTRIBUTE * attributes
    return Schedule(floor_price(budget_filter.remaining / rounds), options.rounds, options.selection_share)
