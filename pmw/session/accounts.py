"""Accounts: on whose behalf a session is asked, and how much of its cap that analyst may have charged.

A share is fairness among analysts, and no part of the privacy guarantee: analysts who put their answers
together hold what the whole cap allows, and the cap binds whatever the shares add up to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import told_price
from pmw.errors import BudgetError, PriceError, SessionCorruptError, SessionError
from pmw.loop.loop import may_test
from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.filter import PrivacyFilter
from pmw.public.answer import Source
from pmw.public.answers import SOURCES, Answers
from pmw.public.charges import Event, LedgerEntry, Parts
from pmw.public.clear import left_for_parts, pot_of_parts
from pmw.public.contract import Contract
from pmw.public.free_answers import unverified
from pmw.public.state import PublicState, paid_for
from pmw.session.events import read_entries
from pmw.session.loading import read_question
from pmw.session.store.store import SessionStore
from queries.frozen import dataclass
from queries.plain_values import type_name

if TYPE_CHECKING:
    from pmw.loop.finishing import Payer
    from queries.statements import Statement

_LONGEST_NAME = 100  # characters
_COUNTED = frozenset({Event.ROWS, Event.SUM, Event.REQUESTED})  # each as one number, in the next price
# Of each source, by its code, whether released numbers or a test decide all of its answer.
ARE_HELD = np.array([one in (Source.SYNTHETIC, Source.MEASURED) for one in SOURCES])


@dataclass(frozen=True, slots=True)
class Account:
    """An analyst, as a session's ledger knows one.

    Args:
        name: printable; an empty one is the session itself.
        share: the part of the session's whole cap that may be charged for this analyst, in [0, 1]; None where
            the cap alone binds.
        part: what the share is of each pot that opening leaves, in [0, 1].
        at_most: the part of the cap that may be charged for one question, in [0, 1]: 0 takes the free answer.
            None is the analyst's own ceiling. Without one it is a tenth of the share, or of what is left for
            all where that is less; without a share it is all that is left.
        own_ceiling: the part of the cap that no question of this analyst may exceed, in [0, 1], whatever the
            question allows; None for no such ceiling.
        statement: whose counting questions are asked together, as one question; None for single ones.
        draws: numbers are drawn for what has wide bars, where the session has a reserve.
    """

    name: str
    share: Fraction | None = None
    part: Fraction = Fraction(1)
    at_most: Fraction | None = None
    statement: Statement | None = None
    draws: bool = True
    own_ceiling: Fraction | None = None

    def __post_init__(self) -> None:
        name = self.name
        if (
            type(name) is not str
            or not name.isprintable()
            or name != name.strip()
            or len(name) > _LONGEST_NAME
        ):
            raise SessionError(
                f"expected a printable name of an analyst, at most {_LONGEST_NAME} characters, got another"
            )
        parts = (("a share", self.share), ("an at_most", self.at_most), ("an at_most", self.own_ceiling))
        for what, part in parts:
            if part is not None and not 0 <= part <= 1:
                raise BudgetError(
                    f"expected {what} in [0, 1], got one {'above 1' if part > 1 else 'below 0'}"
                )

    @classmethod
    def of(cls, name: str, share: Fraction | float | None, left: Fraction = Fraction(1)) -> Account:
        """Return the account of an analyst.

        Args:
            share: the part of what opening leaves; None where the cap alone binds.
            left: what opening leaves, as a part of the cap.
        """
        if not name:
            raise SessionError("expected the name of an analyst, got an empty one")
        if isinstance(share, bool) or not isinstance(share, Fraction | int | float | None):
            raise BudgetError(f"expected a share in [0, 1], got a {type_name(share)}")
        try:
            part = None if share is None else Fraction(share)
        except (ValueError, OverflowError):
            raise BudgetError("expected a share in [0, 1], got a number that is none") from None
        return cls(name) if part is None else cls(name, part * left, part)

    @property
    def whole(self) -> Parts:
        """All of a charge, booked to this analyst."""
        return ((self.name, Fraction(1)),)

    def paying(self, at_most: Number | None, statement: Statement | None = None) -> Account:
        """Return the account as it asks one question with a ceiling; None changes nothing."""
        part = self.at_most if at_most is None else as_fraction(at_most, "at_most")
        return replace(self, at_most=part, statement=statement)

    @property
    def is_whole(self) -> bool:
        """Whether the counting questions that are asked together are one question, a statement."""
        return self.statement is not None

    @property
    def draws_counts(self) -> bool:
        """Whether numbers are drawn for counting questions: of a statement, if a column shows their bars."""
        columns = () if self.statement is None else self.statement.columns
        shown = not self.is_whole or any(getattr(column.node, "counting", False) for column in columns)
        return self.draws and shown

    @property
    def pays_nothing(self) -> bool:
        """Whether nothing is to be charged."""
        return 0 in (self.at_most, self.own_ceiling)

    @property
    def is_bound(self) -> bool:
        """Whether more than the cap binds: a share, or that nothing is to be charged."""
        return self.share is not None or self.pays_nothing

    @property
    def told_ceiling(self) -> Fraction | None:
        """The lower of the analyst's ceiling and the question's, as a part of the cap; None for neither."""
        told = (self.at_most, self.own_ceiling)
        return min((part for part in told if part is not None), default=None)

    def ceiling(self, ledger: PrivacyFilter) -> Fraction:
        """Return what one question may charge, as a part of the cap; 1 where the cap alone binds."""
        if self.told_ceiling is not None or self.share is None:
            return Fraction(1) if self.told_ceiling is None else self.told_ceiling
        return min(self.share, ledger.remaining / ledger.cap) / 10

    def require_price(self, price: float, ledger: PrivacyFilter) -> None:
        """Refuse what could charge more than it may. It depends on public numbers alone.

        Args:
            price: the most that it can charge, as a part of the cap; not what is expected.
        """
        most, told = float(self.ceiling(ledger)), told_price(price)
        if self.own_ceiling is not None and price > float(self.own_ceiling):
            raise PriceError(
                f"This can cost {told:.2%} of the budget, and your ceiling for one question is "
                f"{100 * float(self.own_ceiling):g}%; it was not paid. Ask for less; who gave "
                "the ceiling can raise it (pmw user change --at-most)",
                price=price,
                code="above_ceiling",
            )
        if price > most:
            raise PriceError(
                f"This can cost {told:.2%} of the budget, and {most:.2%} may be charged for it (a tenth of "
                f"what may be spent, unless told); it was not paid. Pay it with at_most={told:g} (--at-most "
                f"{100 * told:g}%)",
                price=price,
            )

    def may_pay(self, limited: PublicState) -> bool:
        """Tell whether this analyst could have a test: then an answer settles its question.

        Args:
            limited: the state in which the analyst's charges are proposed.
        """
        return not self.is_bound or may_test(limited)

    def settled_by(self, limited: PublicState, answers: Answers) -> NDArray[np.bool_]:
        """Tell which answers without a test settle their questions, if they are the first: bool, shape (n,).

        Those of an analyst who could have a test; under a share those alone that say something.

        Args:
            limited: the state in which the analyst's charges are proposed.
        """
        if not self.is_bound:
            return np.ones(len(answers), dtype=np.bool_)
        return ARE_HELD[answers.source] & self.may_pay(limited)

    def told(self, state: PublicState, answers: Answers) -> Answers:
        """Return answers that no test decided, as they are told to this analyst.

        Where the session can test, and only the share forbids it, they are unverified, not exhausted.
        """
        return unverified(answers) if self.is_bound and may_test(state) else answers


SESSION = Account("")


def require_named(booked: Parts) -> None:
    """Refuse a recorded booking to what is no name; shares were looked at before."""
    try:
        for name, _ in booked:
            Account(name)
    except SessionError:
        raise SessionCorruptError("the session file is damaged: it books to what is no name") from None


def booked_to(booked: Parts, entries: Sequence[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """Return charges as they are booked."""
    return tuple(replace(entry, booked=booked) for entry in entries)


@dataclass(frozen=True, slots=True)
class Booked:
    """What was charged for an analyst.

    Args:
        name: of the analyst; an empty one is the session itself: what opening measured, what it measures by
            itself, and what was asked without a name.
        spent: charged, as a part of the session's cap, exactly.
        questions: how many distinct questions were asked.
        share: the part of the cap that may be charged; None where it is not known here, or not bounded.
        left: what may still be charged, of the share and of the cap; None where it is not known here.
    """

    name: str
    spent: Fraction
    questions: int
    share: Fraction | None = None
    left: Fraction | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON; ``exact`` is what was charged as a fraction."""
        share, left = (None if part is None else float(part) for part in (self.share, self.left))
        form = {"name": self.name, "spent": float(self.spent), "exact": str(self.spent)}
        return {**form, "questions": self.questions, "share": share, "left": left}


@dataclass(frozen=True, slots=True)
class Activity:
    """One answered question.

    Args:
        number: of the answer, from 1.
        name: who asked first, empty where nobody was named; an analyst sees no other name than the own.
        count: the answer, in records; None where it is withheld.
        interval: its interval, in records; None where it is refused or withheld.
        share: of the cap that the session had spent.
    """

    number: int
    name: str
    query: str
    words: str
    source: str
    count: float | None
    interval: tuple[float, float] | None
    share: float


class Bookings:
    """What a session charged, by analyst."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: dict[str, Account] = {SESSION.name: SESSION}
        self._sums: dict[str, Fraction] = {}
        self._bought = Counter[str]()
        self._parts = list[str]()  # who paid for each marginal of a part, in order
        self._for_parts: dict[str, Fraction] = {}
        self._spent: Fraction | None = None  # of the whole session when these sums were added up

    def of(self, analyst: str, ledger: PrivacyFilter) -> Fraction:
        """Return what was charged for an analyst, in the unit of the session's ledger as it is now."""
        self._read(ledger)
        return self._sums.get(analyst, Fraction(0))

    def bought(self, analyst: str, ledger: PrivacyFilter) -> int:
        """Return how often numbers of questions, or sums after opening, were drawn for an analyst."""
        self._read(ledger)
        return self._bought[analyst]

    def add(self, entries: Sequence[LedgerEntry], before: PrivacyFilter, after: PrivacyFilter) -> None:
        """Add charges that just became durable, where those before them were added up."""
        if self._spent == before.spent:
            self._add(entries, after)

    def _read(self, ledger: PrivacyFilter) -> None:
        """Add up the charges of the file, where there are more than were added up."""
        if self._spent != ledger.spent:
            self._sums, self._bought, self._parts, self._for_parts = {}, Counter(), [], {}
            chained = self._store.chained()
            opened = chained.ledger_intents.count(chained.ledger_intents[0]) if chained.ledger_intents else 0
            entries = read_entries(chained.ledger)
            self._add(entries, ledger)
            self._bought[SESSION.name] -= sum(entry.event == Event.SUM for entry in entries[:opened])

    def _add(self, entries: Sequence[LedgerEntry], ledger: PrivacyFilter) -> None:
        for entry in entries:
            for name, part in entry.booked:
                self._sums[name] = self._sums.get(name, Fraction(0)) + part * ledger.price(entry.charge)
                self._bought[name] += entry.event in _COUNTED
                if entry.event == Event.PART:
                    self._parts.append(name)
                    price = part * ledger.price(entry.charge)
                    self._for_parts[name] = self._for_parts.get(name, Fraction(0)) + price
        self._spent = ledger.spent

    def know(self, account: Account) -> None:
        """Take note of an analyst's share, as it was last told: what is measured unasked is limited by it."""
        self._known[account.name] = account

    def payers(self, ledger: PrivacyFilter) -> dict[str, Payer | None]:
        """Return who may pay for what is measured unasked, and how much; None where the cap alone binds.

        Nothing is booked to an analyst whose share is not known: who has not asked since the session was
        opened or resumed.
        """
        from pmw.loop.finishing import Payer  # most sessions that are opened finish nothing

        shares = {name: one.share for name, one in self._known.items()}
        return {
            name: None if share is None else Payer(share, share * ledger.cap - self.of(name, ledger))
            for name, share in shares.items()
        }

    def left_for_parts(self, state: PublicState) -> dict[str, Fraction]:
        """Return what the pot of parts still holds for each analyst whose share is known.

        An analyst may spend no more of it than is left of the analyst's share.
        """
        return {name: self._left_for_parts(one, state) for name, one in self._known.items()}

    def _left_for_parts(self, account: Account, state: PublicState) -> Fraction:
        self._read(state.ledger)
        left = min(left_for_parts(state), self.left(account, state.ledger))
        own = pot_of_parts(state) * account.part
        return max(min(own - self._for_parts.get(account.name, Fraction(0)), left), Fraction(0))

    def had_part(self, analyst: str, state: PublicState, version: int) -> bool:
        """Tell whether a part was measured for an analyst after the model had a version."""
        self._read(state.ledger)
        places = [place for place, one in enumerate(state.measured) if paid_for(one)[0] == Event.PART]
        paid = zip(places, self._parts, strict=True)
        return any(place >= version and name == analyst for place, name in paid)

    def left(self, account: Account, ledger: PrivacyFilter) -> Fraction:
        """Return what may still be charged for an analyst: what is left of the share, and of the cap."""
        if account.share is None:
            return ledger.remaining
        own = account.share * ledger.cap - self.of(account.name, ledger)
        return min(max(own, Fraction(0)), ledger.remaining)

    def limited(self, state: PublicState, account: Account, room: Fraction | None = None) -> PublicState:
        """Return a state in which no more can be charged than is left of the cap and of an analyst's share.

        What is proposed in it is a function of public state: a test whose price is short of either is never
        made, so that none can be refused after it was positive. It is for proposals alone: the session's own
        ledger takes the charges.

        Args:
            room: the most that may be charged for what is asked; None where nothing more binds.
        """
        if not account.is_bound and room is None:
            return state
        ledger, kept = state.ledger, left_for_parts(state)  # which nothing else is paid from
        own = self._left_for_parts(account, state) if kept else kept
        left = min(self.left(account, ledger) - own, ledger.remaining - kept)
        left = Fraction(0) if account.pays_nothing else max(left, Fraction(0))
        left = left if room is None else min(left, room)
        return replace(state, ledger=replace(ledger, spent=ledger.cap - left - kept))

    def listed(self, ledger: PrivacyFilter) -> tuple[Booked, ...]:
        """Return what was charged for everybody, by name; the session itself comes first."""
        self.of("", ledger)
        self._store.tell()
        counts = self._store.answers.question_counts()
        return tuple(
            Booked(name, self._sums.get(name, Fraction(0)) / ledger.cap, counts.get(name, 0))
            for name in sorted({"", *self._sums, *counts})
        )


def load_activity(
    store: SessionStore, contract: Contract, name: str | None, most: int
) -> tuple[Activity, ...]:
    """Return the newest answered questions, the newest first.

    Args:
        name: of the analyst who asked; None for everybody's.
        most: how many at most.
    """
    store.tell()
    numbers = store.answers.newest_numbers(name, max(0, most))
    found, withholds = list[Activity](), contract.options.least_records is not None
    for number in numbers:
        row = store.answers.answer(number)
        words = read_question(row.query, contract.domain).describe()
        told = row.source, row.count, row.interval
        # Numbers one beside the other would tell what a table of them withholds.
        source, count, interval = (Source.WITHHELD.value, None, None) if withholds else told
        found.append(Activity(number, row.analyst, row.query, words, source, count, interval, row.share))
    return tuple(found)
