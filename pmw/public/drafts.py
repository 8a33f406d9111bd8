"""Drafts that cost privacy: what was charged for a schema before its session was opened."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, NeighboringRelation
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DraftCharge:
    """What one draft was charged.

    Args:
        records_per_person: the most records of one person, K.
        person_column: the column of ids by which K is kept; None where K is promised.
        epsilon, delta: the guarantee of this draft alone.
    """

    what: str
    neighboring_relation: NeighboringRelation
    records_per_person: int
    person_column: str | None
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "what": self.what,
            "neighbors": self.neighboring_relation.value,
            "records_per_person": self.records_per_person,
            "person_column": self.person_column,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
        }

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 <= self.delta < 1 or self.records_per_person < 1:
            raise BudgetError(
                "expected a draft with an epsilon above 0, a delta in [0, 1) and K of 1 or more"
            )


def drafted(drafts: Sequence[DraftCharge]) -> tuple[Fraction, Fraction]:
    """Return the epsilon and the delta of drafts together: sums (basic composition).

    Source: Dwork and Roth 2014, Theorem 3.16.
    """
    return sum((one.epsilon for one in drafts), Fraction(0)), sum((one.delta for one in drafts), Fraction(0))


def with_drafts(budget: Budget, drafts: Sequence[DraftCharge]) -> Budget:
    """Return the guarantee of a session and of the drafts of its schema together."""
    epsilon, delta = drafted(drafts)
    return Budget(budget.epsilon + epsilon, budget.delta + delta)
