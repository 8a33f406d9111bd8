"""Pairs: which pairs of attributes a session measured, so that its exports have how the two go together."""

from __future__ import annotations

import itertools
import math
from typing import Any

from pmw.display.texts import counted
from pmw.model import MarginalMeasurement
from pmw.public.state import PublicState
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True)
class HeldPairs:
    """The pairs of attributes of a session, and which of them are held.

    A pair is held where a table of counts with both attributes was measured: at opening, by a test or on
    request, alone or with more attributes. Exports are fitted to all such tables. An attribute of a single
    cell is in no pair, for it says nothing of others.

    Args:
        names: the attributes of two cells or more, in declared order.
        held: the pairs that are held, each in declared order.
    """

    names: tuple[str, ...]
    held: frozenset[tuple[str, str]]

    @property
    def number(self) -> int:
        """How many pairs there are."""
        return math.comb(len(self.names), 2)

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """The pairs that are not held, in declared order."""
        return tuple(pair for pair in itertools.combinations(self.names, 2) if pair not in self.held)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        missing = [list(pair) for pair in self.missing]
        return {"number": self.number, "held": len(self.held), "not_held": missing}


def held_pairs(state: PublicState) -> HeldPairs:
    """Return which pairs of attributes a state holds, whatever numbers came out."""
    names = {one.name: one.size for one in state.domain if one.size > 1}
    scopes = {one.scope for one in state.measurements if isinstance(one, MarginalMeasurement)}
    pairs = (itertools.combinations(filter(names.__contains__, scope), 2) for scope in scopes)
    return HeldPairs(tuple(names), frozenset(itertools.chain.from_iterable(pairs)))


def pairs_sentence(form: dict[str, Any]) -> str:
    """Return how many pairs are held, of a manifest's form; the empty text where there is no pair."""
    number, held = form["number"], form["held"]
    if not number:
        return ""
    pairs, together = f"{counted(number, 'pair')} of attributes", "two attributes go together"
    if not held:
        return f"None of the {pairs} is held: do not rely on an export for how {together}."
    told = f"{held:,} of {pairs} {'is' if held == 1 else 'are'} held"
    if held == number:
        return f"{told}: an export has how {together}."
    return f"{told}: do not rely on an export for how {together} in the others."
