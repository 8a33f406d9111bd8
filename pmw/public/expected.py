"""Expected questions: what a custodian declares will be asked, by which opening shares the budget.

They are public, and are read against the schema alone. A contract names them by their digest, and holds how
many of them are about each set of attributes: all that opening needs.
"""

from __future__ import annotations

from pmw.errors import BudgetError
from queries.domain import Domain
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ExpectedQuestions:
    """The questions that opening makes narrow bars for. Made by ``expected_questions``.

    Args:
        scopes: the sets of attributes that they are about, each in declared order, sorted.
        counts: how many different questions are about each.
        digest: SHA-256 of their canonical texts, in hexadecimal; what a contract names them by.
    """

    scopes: tuple[tuple[str, ...], ...]
    counts: tuple[int, ...]
    digest: str

    def __post_init__(self) -> None:
        fits = len(self.scopes) == len(self.counts) and list(self.scopes) == sorted(set(self.scopes))
        if not (fits and self.counts and min(self.counts) > 0):
            raise BudgetError("expected a number of questions for each scope; see expected_questions")

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def by_scope(self) -> dict[tuple[str, ...], int]:
        """How many questions each scope has."""
        return dict(zip(self.scopes, self.counts, strict=True))

    def are_about(self, domain: Domain) -> bool:
        """Tell whether all attributes are declared, and in declared order."""
        places = {name: place for place, name in enumerate(domain.names)}
        found = [[places.get(name, -1) for name in scope] for scope in self.scopes]
        return all(one == sorted(set(one)) and min(one, default=0) >= 0 for one in found)

    def describe(self) -> str:
        """Return in words how many they are."""
        return f"{len(self):,} about {len(self.scopes):,} sets of attributes (SHA-256 {self.digest[:16]}…)"
