"""A session's page: what its forms hold, what came of a question, and all that the page shows.

To look up a question asks, records and spends nothing. Asking is another act, and so is paying.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request

from pmw.errors import (
    BudgetError,
    BudgetExhaustedError,
    SessionCorruptError,
    SessionError,
    SessionLockedError,
    StoreError,
)
from pmw.public.answer import Answer
from pmw.public.quotes import price_of_bar
from pmw.public.tables import AnswerTable
from pmw.service.access import service_of
from pmw.service.addresses import address_of, elsewhere, exports_of, path_of
from pmw.service.answer_charts import Chart
from pmw.service.history import AskedText
from pmw.service.hosting import Hosted
from pmw.service.question_form import described, examples_of, form_of, unpacked_choices
from pmw.service.shown_answers import Read, Shown, new_answer, read, shown, stored_answer
from pmw.service.users import Role, User
from pmw.session.accounts import Booked
from pmw.session.dialogue import Analyst
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery

_MOST_NEWEST = 8  # questions that the page itself lists
_NEAR_THE_END = 0.9  # of a share: where more is used, the page warns


@dataclass(frozen=True, slots=True)
class Filled:
    """What the page's forms hold.

    Args:
        question: that is looked up, asked or paid for; None for none.
        within: half-width of the bar that is wanted, in records, as it was typed in; empty for none.
        choices: what the form that builds a question was filled in with, as one text.
        draft: a question that was built, and not looked up.
        is_built: the form that builds a question is open.
        price: part of the cap that was told as the price; empty where none was.
    """

    question: str | None = None
    within: str = ""
    choices: str = ""
    draft: str = ""
    is_built: bool = False
    price: str = ""

    @property
    def text(self) -> str:
        """What stands in the box of the question."""
        return self.draft if self.question is None else self.question

    @property
    def records(self) -> float:
        """The half-width that is wanted.

        Raises:
            BudgetError: it is no number.
        """
        try:
            return float(self.within)
        except ValueError:
            raise BudgetError("expected a number of records above 0, such as 100") from None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a question.

    Args:
        shown: its answer; None where there is none.
        is_stored: the answer has an address.
        offer: what asking costs, in a sentence; empty where nothing would change by it.
        price: of a narrower bar; None where none was asked for.
        error: why it is not answered, with the place of its fault; None where it is.
    """

    shown: Shown | None = None
    is_stored: bool = False
    offer: str = ""
    price: dict[str, Any] | None = None
    error: dict[str, str] | None = None

    @property
    def title(self) -> str:
        """What the page has to tell: a screen reader says it first."""
        if self.error is not None:
            return "Not answered"
        if self.shown is not None:
            return "Answer"
        return "Not asked yet" if self.offer else "Price" if self.price else "Ask"


def looked_up(hosted: Hosted, user: User, request: Request, filled: Filled) -> Outcome:
    """Return the stored answer to a question, or what asking costs. Nothing is asked, recorded or spent."""
    if filled.question is None:
        return Outcome()
    analyst = hosted.asking(user, request)
    try:
        question = read(analyst, filled.question)
        found = stored_answer(analyst, hosted.large, question)
        price = _price(analyst, question, filled) if filled.within else None
        offer = _offer(hosted, analyst, question, found)
    except _TOLD as error:
        return _failed(error)
    if found is None:
        return Outcome(offer=offer, price=price)
    return Outcome(shown(question, found), is_stored=True, offer=offer, price=price)


def _offer(hosted: Hosted, analyst: Analyst, question: Read, found: Answer | AnswerTable | None) -> str:
    """Return what asking costs, in a sentence; empty where it would change nothing."""
    if found is not None and question.is_settled_by(found):
        newer = "The model is newer than this answer. To ask again is free, and may give a narrower interval."
        return newer if found.version < hosted.session.state.version else ""
    with hosted.large.place(question.cells):
        forecast = analyst.forecast(question.query)
    if found is None:
        return f"The question {forecast.sentence()}."
    return f"Asked again, the question {forecast.sentence()}." if forecast.stored < forecast.questions else ""


def answered(hosted: Hosted, user: User, request: Request, filled: Filled) -> Outcome:
    """Ask a question."""
    analyst = hosted.asking(user, request)
    try:
        question = read(analyst, filled.text)
        return _given(analyst, hosted, question)
    except _TOLD as error:
        return _failed(error)


def paid(hosted: Hosted, user: User, request: Request, filled: Filled) -> Outcome:
    """Pay for a bar of so many records, and answer; a price above the one that was told is told first."""
    analyst = hosted.asking(user, request)
    try:
        question = read(analyst, filled.text)
        _counted(question)  # one count waits for no large request, so it may hold the session
        with analyst.turn():  # nobody else changes the price before it is paid
            if _is_dearer(analyst, question, filled):
                return Outcome(price=_price(analyst, question, filled))
            return _given(analyst, hosted, question, filled.records)
    except _TOLD as error:
        return _failed(error)


_TOLD = (QueryError, BudgetError, BudgetExhaustedError, SessionError)


def _given(analyst: Analyst, hosted: Hosted, question: Read, within: float | None = None) -> Outcome:
    answer = new_answer(analyst, hosted.large, question, within)
    is_stored = stored_answer(analyst, hosted.large, question) is not None
    return Outcome(shown(question, answer), is_stored=is_stored)


def _failed(error: Exception) -> Outcome:
    """Return an error as the page tells it.

    Raises:
        SessionCorruptError, SessionLockedError: what is wrong with a file is the custodian's to know.
    """
    if isinstance(error, SessionCorruptError | SessionLockedError):
        raise error
    if isinstance(error, QueryError):
        return Outcome(error={"message": error.message, "mark": _mark(error)})
    return Outcome(error={"message": str(error), "mark": ""})


def _mark(error: QueryError) -> str:
    """Return the text of a question with a mark below its fault, in whichever line it is."""
    text, position = error.text, error.position
    if text is None or not isinstance(position, int):
        return "" if position is None else f"at {position}"
    end = text.find("\n", position)
    before, after = (text, "") if end < 0 else (text[:end], text[end:])
    # A tab is as wide below as above.
    indent = "".join("\t" if letter == "\t" else " " for letter in before[:position].rpartition("\n")[2])
    return f"{before}\n{indent}^{after}"


# --- money ----------------------------------------------------------------------------------------------


def _counted(question: Read) -> LinearQuery:
    """Return the one count that a question asks for.

    Raises:
        QueryError: it asks for something else.
    """
    if isinstance(question.query, LinearQuery):
        return question.query
    if question.query.single_count is None:
        raise QueryError(
            "a bar of so many records is for one count; leave it out, or ask for COUNT(*) without groups",
            code="unsupported",
        )
    return question.query.single_count


def _is_dearer(analyst: Analyst, question: Read, filled: Filled) -> bool:
    """Tell whether an answer costs more than was told, as others may have asked meanwhile.

    Raises:
        BudgetError: the width or the price is no number.
        QueryError: no measurement gives such a bar.
    """
    try:
        told = float(filled.price)
    except ValueError:
        raise BudgetError("expected the price that was told; ask for it first") from None
    return not analyst.quote(_counted(question), filled.records).share <= told


def _price(analyst: Analyst, question: Read, filled: Filled) -> dict[str, Any]:
    """Return what an answer within so many records costs, in a sentence.

    Raises:
        BudgetError: the width is no number.
        QueryError: no measurement gives such a bar.
    """
    quote = analyst.quote(_counted(question), filled.records)
    if not quote.needed:
        free = f"the answer is within ± {quote.half_width:,.0f} as it is"
        return {
            "sentence": f"A bar of ± {filled.within} records is free: {free}.",
            "share": 0.0,
            "button": "Answer it, free",
        }
    return {
        "sentence": price_of_bar(quote.to_dict(), filled.within),
        "share": quote.share,
        "button": "Pay, and answer" if quote.affordable else "",
    }


def share_of(user: User, booked: Booked) -> dict[str, Any]:
    """Return what a user may still have charged: in words, as a part of the share, and what to beware of."""
    if user.role is Role.READER:
        told = "You are a reader: you get answers that cost nothing; nothing is tested for you."
        return {"sentence": told, "used": None, "warning": ""}
    share, spent = float(booked.share or 0), float(booked.spent)
    sentence = (
        f"Of the whole budget you may use {share:.1%}, and have used {spent:.2%}, with "
        f"{booked.questions:,} different questions."
    )
    used = min(1.0, spent / share) if share else 1.0
    warning = ""
    if used >= 1:
        warning = "Your share is used up: answers come from the model, untested, and are marked unverified."
    elif used > _NEAR_THE_END:
        warning = "Less than a tenth of your share is left: what it cannot pay is answered untested."
    return {"sentence": sentence, "used": used, "warning": warning}


# --- all that is shown ----------------------------------------------------------------------------------


def page_values(
    request: Request, user: User, hosted: Hosted, filled: Filled, outcome: Outcome, base: str
) -> dict[str, Any]:
    """Return what the template of the page needs."""
    domain, path = hosted.session.domain, path_of(hosted.name)
    status = hosted.session.status()
    return {
        "title": f"{outcome.title} · {hosted.name}",
        "table_name": domain.name,
        "exports": exports_of(hosted.name),
        "promise": status.guarantee,
        "closed": status.closed,
        "share": share_of(user, hosted.asking(user).budget()),
        "outcome": outcome,
        "files": []
        if outcome.shown is None or not outcome.is_stored
        else _files(path, filled, outcome.shown.charts),
        "elsewhere": _elsewhere(base, hosted.name, filled, domain, outcome),
        "filled": filled,
        "can_pay": user.role is not Role.READER,
        "form": form_of(domain, unpacked_choices(filled.choices)),
        "by": unpacked_choices(filled.choices).get("by", []),
        "described": described(domain),
        "newest": _newest(request, user, hosted.name, path),
        **examples_of(domain),
    }


def _elsewhere(
    base: str, name: str, filled: Filled, domain: Domain, outcome: Outcome
) -> list[tuple[str, str]]:
    """Return the same question for other tools; nothing where none was read."""
    if outcome.error is not None or (outcome.shown is None and not outcome.offer):
        return []
    return elsewhere(base, name, filled.text, domain)


def _files(path: str, filled: Filled, charts: tuple[Chart, ...]) -> list[tuple[str, str]]:
    """Return the files of an answer, by what they are called."""
    question = {"q": filled.text}
    files = [(name.upper(), address_of(f"{path}/answer.{name}", question)) for name in ("csv", "json")]
    for number in range(1, len(charts) + 1):
        which = f" {number}" if len(charts) > 1 else ""
        files.append((f"chart{which} as SVG", address_of(f"{path}/chart-{number}.svg", question)))
    return files


def _newest(request: Request, user: User, name: str, path: str) -> list[tuple[AskedText, str]] | None:
    """Return the user's newest questions with their addresses; None where they cannot be read now."""
    try:
        found = service_of(request).history.questions(name, user.name, most=_MOST_NEWEST)
    except StoreError:
        return None
    return [(one, address_of(path, {"q": one.text})) for one in found]
