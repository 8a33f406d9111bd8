"""Offers: which questions of an analyst get numbers of their own, which values get sums, and at which price.

All of it follows from public numbers and the ledger; the engine draws what is found here.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    from pmw.loop.purchases import MarginalOffer, Offer
    from pmw.loop.untested import Requested
    from queries.linear import LinearQuery
    from queries.statements import Statement

_MOST_AHEAD = 2**13  # questions


class Offers:
    """Finds what is drawn for questions whose bars are wide.

    Args:
        bookings: what was charged, by analyst.
        free: the answers of the present model.
    """

    def __init__(self, bookings: Bookings, free: FreeAnswers) -> None:
        self._bookings = bookings
        self._free = free
        self._marginals: dict[tuple[str, ...], MarginalOffer | None] = {}  # in place of numbers, by scope
        self._found_at: tuple[object, ...] = ()  # what these follow from
        self._last_offer: Offer | None = None
        self._offer_follows: tuple[object, ...] = ()  # what that follows from
        self._values: tuple[PublicState, Statement, Fraction, tuple[Requested, ...]] | None = None  # the last
        self.ahead = 1  # questions whose bars are found before it is seen whether one is paid for

    def _offer(self, state: PublicState, account: Account) -> Offer | None:
        """Return what a number costs that is drawn for an analyst's question; None where none can be had."""
        if not (state.contract.options.reserved and account.draws_counts):
            return None
        asker = (account.name, account.share, account.part, account.at_most, account.own_ceiling)
        follows = (state.ledger.spent, len(state.measured), len(state.quantiles), state.closed, *asker)
        if self._offer_follows == follows:  # each question asks for it
            return self._last_offer
        from pmw.loop.purchases import offered
        from pmw.public.quotes import affordable_price

        left = affordable_price(self._bookings.limited(state, account))
        most = left if account.at_most is not None else account.ceiling(state.ledger) * state.ledger.cap
        bought = self._bookings.bought(account.name, state.ledger)
        offer = offered(state, left, bought, float(account.part), min(most, left))
        self._last_offer, self._offer_follows = offer, follows
        return offer

    def are_unclear(self, state: PublicState, questions: Questions, account: Account) -> NDArray[np.bool_]:
        """Tell which questions a number would be drawn for, each by itself: bool, shape (n,)."""
        offer = self._offer(state, account)
        if offer is None or not len(questions):
            return np.zeros(len(questions), dtype=np.bool_)
        from pmw.loop.purchases import are_unclear

        return are_unclear(
            state, questions, self._free.of(state).answers(questions).interval, offer.half_width
        )

    def together(self, state: PublicState, questions: Questions, account: Account) -> Requested | None:
        """Return the numbers that are drawn for a statement's questions; None where no bar is wide."""
        offer = self._offer(state, account)
        if offer is None or not len(questions):
            return None
        from pmw.loop.purchases import drawn_together

        if len({one.scope for one in questions.kinds()[1]}) == 1:
            beside = sum((price_of(state, one) for one in self.values(state, account)), Fraction(0))
            queries = list(questions)
            marginal = self._marginal(state, queries, offer, account, beside)
            if marginal is not None:
                return marginal
        return drawn_together(state, questions, self._free.of(state).answers(questions).interval, offer)

    def _marginal(
        self,
        state: PublicState,
        queries: Sequence[LinearQuery],
        offer: Offer,
        account: Account,
        beside: Fraction = Fraction(0),
    ) -> Requested | None:
        """Return the marginal that is measured in place of numbers about one scope, or None."""
        found = self._offered_marginal(state, queries[0].scope, offer)
        if found is None or price_of(state, found.requested) > self._most(state, account) - beside:
            return None
        return found.requested if found.serves(state, queries) else None

    def _most(self, state: PublicState, account: Account) -> Fraction:
        from pmw.public.quotes import affordable_price

        most = account.ceiling(state.ledger) * state.ledger.cap
        return min(affordable_price(self._bookings.limited(state, account)), most)

    def _offered_marginal(
        self, state: PublicState, scope: tuple[str, ...], offer: Offer
    ) -> MarginalOffer | None:
        from pmw.loop.purchases import offered_marginal

        found_at = (offer.price, len(state.marginals), state.closed)
        if self._found_at != found_at:
            self._marginals, self._found_at = {}, found_at
        if scope not in self._marginals:
            self._marginals[scope] = offered_marginal(state, scope, offer.price)
        return self._marginals[scope]

    def _have_marginals(
        self, state: PublicState, questions: Questions, offer: Offer, account: Account
    ) -> NDArray[np.bool_]:
        kinds, examples = questions.kinds()
        may = [self._offered_marginal(state, one.scope, offer) is not None for one in examples]
        found = np.array(may, dtype=np.bool_)[kinds]
        for place in np.flatnonzero(found).tolist():
            found[place] = self._marginal(state, [questions.query(place)], offer, account) is not None
        return found

    def values(self, state: PublicState, account: Account) -> Sequence[Requested]:
        """Return the sums that are drawn for a statement's means and sums; none where no bar is wide.

        They cost together what a number does.
        """
        statement = account.statement
        sums = statement is not None and statement.summed
        offer = self._offer(state, account.paying(None)) if sums else None  # whether or not it shows counts
        if offer is None or statement is None:
            return ()
        from pmw.loop.untested import Requested
        from pmw.planning.mean_quotes import unclear_values

        known = self._values
        if known is None or known[0] is not state or known[1:3] != (statement, offer.price):
            found = tuple(Requested(*one) for one in unclear_values(state, statement, offer.price))
            self._values = known = (state, statement, offer.price, found)
        return known[3]

    def price(self, state: PublicState, asked: Questions, account: Account) -> Fraction:
        """Return what is drawn for questions may cost, in the filter's own measure.

        That is one price for the numbers of a statement and one for its values, or that of one question.
        """
        if account.is_whole:
            rows = self.together(state, asked, account)
            drawn = [*self.values(state, account), *([] if rows is None else [rows])]
            return sum((price_of(state, one) for one in drawn), Fraction(0))
        offer = self._offer(state, account)
        if offer is None:
            return Fraction(0)
        from pmw.loop.purchases import MARGINAL

        if self._have_marginals(state, asked, offer, account).any():
            return MARGINAL * offer.price
        return offer.price if self.are_unclear(state, asked, account).any() else Fraction(0)

    def first(
        self, state: PublicState, questions: Questions, answers: Answers, account: Account
    ) -> tuple[int, Requested | None]:
        """Return how many of the first answers stand, or what is drawn for the first question."""
        offer = self._offer(state, account)
        if offer is None:
            self.ahead = min(2 * self.ahead, _MOST_AHEAD)
            return len(answers), None
        from pmw.loop.purchases import are_unclear, numbers_at

        unclear = are_unclear(state, questions, answers.interval, offer.half_width)
        unclear |= self._have_marginals(state, questions, offer, account)
        first = int(unclear.argmax()) if unclear.any() else len(answers)
        self.ahead = 1 if unclear.any() else min(2 * self.ahead, _MOST_AHEAD)
        if first:
            return first, None
        queries = [questions.query(0)]
        marginal = self._marginal(state, queries, offer, account)
        return first, marginal or numbers_at(state, queries, offer.price)


def price_of(state: PublicState, drawn: Requested) -> Fraction:
    """Return what is charged for what is drawn, in the filter's own measure."""
    return state.ledger.price(drawn.entry(state.contract.options).charge)
