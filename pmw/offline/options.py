"""What may be chosen for an offline release."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from fractions import Fraction

from pmw.errors import BudgetError
from pmw.policy import Options

__all__ = [
    "OfflineOptions",
    "Targets",
]


class Targets(enum.Enum):
    """What each round chooses among, and measures."""

    MARGINAL = "marginal"  # the marginals of the workload's scopes, and of every part of them
    QUERY = "query"  # the workload's questions, as in the textbook


@dataclass(frozen=True, slots=True)
class OfflineOptions:
    """The custodian's choices; None leaves a choice to the release.

    Args:
        targets: what each round measures.
        rounds: number of rounds, with equal shares of what opening leaves; None begins with small shares,
            and doubles them whenever a measurement moved the model no more than its noise would.
        selection_share: part of a round's price that pays for the choice, strictly between 0 and 1.
        final_refits: how often the model is refitted after the last round; free, each from the one before,
            and where marginals are measured ten steps of a descent.
        policy: the choices that a session has too: neighbours, records per person, opening, composition,
            confidence and seed; where questions are measured the update rule, and where marginals of large
            domains are, the kind of model and its cells. Those for a session's tests are not looked at.

    Raises:
        BudgetError: a choice is out of range.
    """

    targets: Targets = Targets.MARGINAL
    rounds: int | None = None
    selection_share: Fraction = Fraction(1, 5)
    final_refits: int = 30
    policy: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        rounds = self.rounds
        if rounds is not None and (isinstance(rounds, bool) or not 1 <= rounds <= 10**6):
            raise BudgetError(f"expected rounds from 1 to 1,000,000, got {rounds!r}")
        if isinstance(self.final_refits, bool) or not 0 <= self.final_refits <= 10**4:
            raise BudgetError(f"expected final_refits from 0 to 10,000, got {self.final_refits!r}")
        share = self.selection_share
        if not isinstance(share, Fraction) or not 0 < share < 1:
            raise BudgetError(
                f"expected a selection_share, a fraction strictly between 0 and 1, got {share!r}"
            )
