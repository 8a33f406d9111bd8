"""Forecasts: what answering some questions could charge at most, told before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pmw.loop.loop import propose, tiers_of
from pmw.public.charges import threshold_entry
from pmw.public.state import PublicState
from queries.linear import LinearQuery


@dataclass(frozen=True, slots=True)
class Forecast:
    """What asking could cost.

    Args:
        questions: counting questions that are asked.
        stored: how many of them have a stored answer.
        least: what they charge where every test is negative, as a part of the cap, in [0, 1].
        most: the most that they can charge, as a part of the cap; 0 where they are free.
    """

    questions: int
    stored: int
    least: float
    most: float

    def sentence(self) -> str:
        """Return what follows ``The question``."""
        if self.most:
            least = f"{self.least:.2%} of the budget" if self.least else "nothing"
            return f"costs {least} where the model is found right, and at most {self.most:.2%}"
        if self.questions == self.stored:
            return "is free: it was answered before, and gets the same answer"
        return "is free: nothing is to be tested"


def forecast(state: PublicState, queries: Sequence[LinearQuery], stored: int = 0) -> Forecast:
    """Return what answering could charge at most.

    Nothing is charged where nothing is tested. Else each tier charges at most for as many positives as there
    is something to find wrong, and for the threshold noise of their rounds.

    Args:
        state: the state that they would be asked in.
        queries: those without a stored answer, in order.
        stored: how many others have one.

    Privacy: a function of public state and the questions; free.
    """
    questions = len(queries) + stored
    # Thresholds come down with the number of answers: what the last question would ask, the first may not.
    later = replace(state, asked=state.asked + len(queries))
    if not queries or not propose(later, queries).requests:
        return Forecast(questions, stored, 0.0, 0.0)
    first, ledger = propose(state, queries), state.ledger
    least = Fraction(0)
    if first.requests and first.opens_round:
        least = ledger.price(threshold_entry(state.plan[first.tier], first.tier, ledger.composition).charge)
    most, left = Fraction(0), list(queries)
    for tier in tiers_of(state.plan):
        charged, left = tier.most_charged(state, left)
        most += charged
    share = float(min(most, ledger.remaining) / ledger.cap)
    return Forecast(questions, stored, float(least / ledger.cap), share)
