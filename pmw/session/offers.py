"""Offers: which questions of an analyst get numbers of their own, and at which price.

All of it follows from public numbers and the ledger; the engine draws what is found here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.public.answers import Answers
from pmw.public.free_answers import FreeAnswers
from pmw.public.state import PublicState
from pmw.session.accounts import Account, Bookings
from queries.questions import Questions

if TYPE_CHECKING:
    from pmw.loop import Requested
    from pmw.loop.purchases import Offer

_MOST_AHEAD = 256  # questions


class Offers:
    """Finds what is drawn for questions whose bars are wide.

    Args:
        bookings: what was charged, by analyst.
        free: the answers of the present model.
    """

    def __init__(self, bookings: Bookings, free: FreeAnswers) -> None:
        self._bookings = bookings
        self._free = free
        self.ahead = 1  # questions whose bars are found before it is seen whether one is paid for

    def _offer(self, state: PublicState, account: Account) -> Offer | None:
        """Return what a number costs that is drawn for an analyst's question; None where none can be had."""
        if not (state.contract.options.reserved and account.draws):
            return None
        from pmw.loop.purchases import offered
        from pmw.public.quotes import affordable_price

        left = affordable_price(self._bookings.limited(state, account))
        return offered(state, left, self._bookings.bought(account.name, state.ledger), float(account.part))

    def are_unclear(self, state: PublicState, questions: Questions, account: Account) -> NDArray[np.bool_]:
        """Tell which questions a number would be drawn for, each by itself: bool, shape (n,)."""
        offer = self._offer(state, account)
        if offer is None or not len(questions):
            return np.zeros(len(questions), dtype=np.bool_)
        from pmw.loop.purchases import are_unclear

        return are_unclear(state, questions, self._free.answers(state, questions).interval, offer.half_width)

    def together(self, state: PublicState, questions: Questions, account: Account) -> Requested | None:
        """Return the numbers that are drawn for a statement's questions; None where no bar is wide."""
        offer = self._offer(state, account)
        if offer is None or not len(questions):
            return None
        from pmw.loop.purchases import drawn_together

        return drawn_together(state, questions, self._free.answers(state, questions).interval, offer)

    def price(self, state: PublicState, asked: Questions, account: Account) -> Fraction:
        """Return what numbers may cost that are drawn for questions, in the filter's own measure.

        That is one price where they are a statement, or where the price of one question is looked at.
        """
        offer = self._offer(state, account)
        if offer is None:
            return Fraction(0)
        if account.is_whole:
            return Fraction(0) if self.together(state, asked, account) is None else offer.price
        return offer.price if self.are_unclear(state, asked, account).any() else Fraction(0)

    def first(
        self, state: PublicState, questions: Questions, answers: Answers, account: Account
    ) -> tuple[int, Requested | None]:
        """Return how many of the first answers stand; where none does, what is drawn for the first question.

        Args:
            state: the present state.
            questions: in order.
            answers: to them, in this state.
            account: who asks.
        """
        offer = self._offer(state, account)
        if offer is None:
            return len(answers), None
        from pmw.loop.purchases import are_unclear, requested

        unclear = are_unclear(state, questions, answers.interval, offer.half_width)
        first = int(unclear.argmax()) if unclear.any() else len(answers)
        self.ahead = 1 if unclear.any() else min(2 * self.ahead, _MOST_AHEAD)
        return first, None if first else requested(state, [questions.query(0)], offer)
