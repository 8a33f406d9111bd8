"""The report of a verification: checks, and what none of them can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeAlias

from pmw.errors import BudgetExhaustedError, SessionCorruptError
from pmw.public.codec import FormError
from pmw.session.events import UNREADABLE
from queries.errors import DomainError, QueryError, RecordsError, SchemaError, ScopeError
from queries.frozen import dataclass

Told: TypeAlias = Callable[[int, int], None]

NOT_PROVED = (
    "that this is the newest copy of the file: an older one that was put back looks the same, "
    "and has forgotten what was spent since",
    "that nobody who could write to the file rewrote all of it: it is not signed",
    "that answers without noise of their own are what their models gave: their values are not computed again",
    "that the noise was drawn as it should be",
    "that the table is right, and holds no more records of one person than declared",
)

_NOT_PROVED_ANCHORED = (
    "that nothing was spent since the anchor was last written: a copy made since then looks the same",
    "that nobody who could write to the file and to its anchor rewrote both: neither is signed",
)

# What a file that was damaged or altered makes of its readers.
FAULTS = (SessionCorruptError, BudgetExhaustedError, *UNREADABLE)
# Those of them whose own words say what is wrong with the file.
_TOLD = (
    SessionCorruptError, BudgetExhaustedError, FormError, DomainError, QueryError, RecordsError, SchemaError,
    ScopeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Args:
        detail: what was counted, or the first fault.
    """

    name: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of the checks of a session.

    Args:
        checks: in the order in which they were made.
        unfinished: a batch is recorded and waits to be finished; no fault.
    """

    checks: tuple[Check, ...]
    unfinished: bool
    closed: bool
    anchored: bool = False

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    @property
    def not_proved(self) -> tuple[str, ...]:
        """What no check can tell, in words."""
        return (*_NOT_PROVED_ANCHORED, *NOT_PROVED[2:]) if self.anchored else NOT_PROVED

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON; ``not_proved`` says what no check can tell."""
        return {
            "holds": self.holds,
            "unfinished": self.unfinished,
            "closed": self.closed,
            "checks": [asdict(check) for check in self.checks],
            "not_proved": list(self.not_proved),
        }


def check(name: str, find: Callable[[], str]) -> Check:
    """Return what a search for faults came to; it returns what it counted, or raises one of ``FAULTS``."""
    try:
        return Check(name, True, find())
    except FAULTS as error:
        return Check(name, False, words(error))


def words(error: Exception) -> str:
    """Return a fault in words: our own, or that something cannot be read."""
    own = isinstance(error, _TOLD)
    return str(error) if own else f"it cannot be read ({type(error).__name__})"


def require(holds: bool, fault: str) -> None:
    """Raise a fault unless something holds."""
    if not holds:
        raise SessionCorruptError(fault)


def same(what: str, expected: object, found: object) -> None:
    """Raise a fault unless two values are equal."""
    require(expected == found, f"{what}: expected {expected}, found {found}")


def untold(count: int, total: int) -> None:
    """Tell nobody how far a verification has come."""
