"""A session's page: what its forms hold, what came of a question, and all that the page shows.

To look up a question asks, records and spends nothing. Asking is another act, and so is paying.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import Request

from pmw.errors import (
    BudgetError,
    BudgetExhaustedError,
    PriceError,
    SessionCorruptError,
    SessionError,
    SessionLockedError,
    StoreError,
)
from pmw.public.answer import Answer
from pmw.public.tables import AnswerTable
from pmw.service.access import asks, came, service_of
from pmw.service.answer_charts import Chart
from pmw.service.asking import done
from pmw.service.history import AskedText
from pmw.service.hosting import Hosted, url_of
from pmw.service.question_form import described, examples_of, form_of, unpacked_choices
from pmw.service.shown_answers import Read, Shown, new_answer, read, shown, stored_answer
from pmw.service.users import Role, User
from pmw.session.accounts import Booked
from pmw.session.dialogue import Analyst
from pmw.session.session_requests import Kinds, SessionRequest
from queries.cells import in_quotes
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.parsing import is_statement

_MOST_NEWEST = 8  # questions that the page itself lists
_NEAR_THE_END = 0.9  # of what may be spent: where more is used, the page warns
_PAY = "Pay, and answer"
TOKEN = "PMW_TOKEN"  # noqa: S105  # the variable of an environment, which holds the user's


@dataclass(frozen=True, slots=True)
class Filled:
    """What the page's forms hold.

    A text is empty where there is none.
    """

    question: str | None = None  # that is looked up, asked or paid for
    within: str = ""  # half-width of the bar that is wanted, as it was typed in
    choices: str = ""  # what the form that builds a question was filled in with
    draft: str = ""  # a question that was built, and not looked up
    is_built: bool = False  # the form that builds a question is open
    price: str = ""  # the part of the cap that may be charged, as it was agreed to
    charged: str = ""  # the part that the answer charged when it was asked

    @property
    def text(self) -> str:
        """What stands in the box of the question."""
        return self.draft if self.question is None else self.question


class Offer(NamedTuple):
    """What asking costs."""

    sentence: str
    button: str  # what agrees to it; empty where nothing does
    price: str = ""  # the part of the cap that is agreed to; empty where it is free


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a question."""

    shown: Shown | None = None
    is_stored: bool = False
    offer: Offer | None = None  # what asking costs; None where nothing would change by it
    charged: str = ""  # the part of the cap that the answer charged when it was asked
    error: dict[str, str] | None = None  # why it is not answered, with the place of its fault

    @property
    def title(self) -> str:
        """What the page has to tell: a screen reader says it first."""
        if self.error is not None:
            return "Not answered"
        if self.shown is not None:
            return "Answer"
        return "Not asked yet" if self.offer else "Ask"


def looked_up(hosted: Hosted, user: User, request: Request, filled: Filled) -> Outcome:
    """Return the stored answer to a question, or what asking costs. Nothing is asked, recorded or spent."""
    if filled.question is None:
        return Outcome()
    analyst = hosted.asking(user, request)
    asks(request, ("look", filled.question, None))
    try:
        question = read(analyst, filled.question)
        asks(request, ("look", filled.question, question.query))
        found = stored_answer(analyst, hosted.large, question)
        offer = (_bar if filled.within else _test)(hosted, analyst, question, filled, found)
    except _TOLD as error:
        came(request, error)
        return _failed(error)
    answer = None if found is None else shown(question, found)
    return Outcome(answer, is_stored=found is not None, offer=offer, charged=filled.charged)


def answered(hosted: Hosted, user: User, request: Request, filled: Filled) -> Outcome:
    """Ask a question, and pay for it what was agreed to; what could charge more is told first."""
    analyst = hosted.asking(user, request)
    asks(request, ("ask", filled.text, None))
    try:
        question = read(analyst, filled.text)
        kinds = ((Kinds.ASK, Kinds.SQL), (Kinds.ASK_WITHIN, Kinds.SQL_WITHIN))
        kind = kinds[bool(filled.within)][question.is_statement]
        asks(request, (kind.name, filled.text, question.query))
        answer = new_answer(analyst, hosted.large, question, filled.within, filled.price or None)
        is_stored = stored_answer(analyst, hosted.large, question) is not None
    except PriceError as error:
        came(request, error)
        if error.code == "above_ceiling":
            return _failed(error)
        told = f"This can cost {error.price:.2%} of the budget; nothing was asked or spent yet."
        return Outcome(offer=Offer(told, _PAY, str(error.price)))
    except _TOLD as error:
        came(request, error)
        return _failed(error)
    charged = f"{answer.spent.charged:.2%}" if answer.spent.charged else ""
    return Outcome(shown(question, answer), is_stored=is_stored, charged=charged)


_TOLD = (QueryError, BudgetError, BudgetExhaustedError, SessionError)


def _failed(error: Exception) -> Outcome:
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


def _test(
    hosted: Hosted, analyst: Analyst, question: Read, _: Filled, found: Answer | AnswerTable | None
) -> Offer | None:
    if found is not None and question.is_settled_by(found):
        newer = "The model is newer than this answer. To ask again is free, and may give a narrower interval."
        return Offer(newer, "Ask again") if found.version < hosted.session.state.version else None
    forecast = done(analyst, hosted.large, SessionRequest(Kinds.FORECAST, question.query))
    price = str(forecast.most) if forecast.most else ""
    if found is None:
        return Offer(f"The question {forecast.sentence()}.", "Ask it", price)
    again = Offer(f"Asked again, the question {forecast.sentence()}.", "Ask again", price)
    return again if forecast.stored < forecast.questions else None


def _bar(hosted: Hosted, analyst: Analyst, question: Read, filled: Filled, _: object) -> Offer:
    wanted = SessionRequest(Kinds.QUOTE, question.query, within=filled.within)
    quote, bar = done(analyst, hosted.large, wanted), f"A bar of ± {filled.within}"
    if not quote.needed:
        return Offer(f"{bar} is free: the answer is as near as it is.", "Answer it, free")
    left = "." if quote.affordable else "; so much is not left."
    told = f"{bar} costs {quote.share:.2%} of the budget{left}"
    return Offer(told, _PAY if quote.affordable else "", str(quote.share))


def share_of(user: User, booked: Booked) -> dict[str, Any]:
    """Return what a user may still have charged: in words, as a part of the share, and what to beware of."""
    if user.role is Role.READER:
        told = "You are a reader: you get answers that cost nothing; nothing is tested for you."
        return {"sentence": told, "used": None, "warning": ""}
    share, spent, left = float(booked.share or 0), float(booked.spent), float(booked.left or 0)
    ceiling = "" if user.at_most is None else f" One question may charge at most {float(user.at_most):.2%}."
    sentence = (
        f"You may still spend {left:.2%} of the whole budget. Your share is {share:.1%} of it, and you have "
        f"spent {spent:.2%}, with {booked.questions:,} different questions.{ceiling}"
    )
    used = spent / (spent + left) if left else 1.0
    warning = ""
    if used >= 1:
        warning = "Nothing is left for you: answers come from the model, untested, and are marked unverified."
    elif used > _NEAR_THE_END:
        warning = "Less than a tenth is left for you: what it cannot pay is answered untested."
    return {"sentence": sentence, "used": used, "warning": warning}


# --- all that is shown ----------------------------------------------------------------------------------


def page_values(
    request: Request, user: User, hosted: Hosted, filled: Filled, outcome: Outcome, base: str
) -> dict[str, Any]:
    """Return what the template of the page needs."""
    domain, path = hosted.session.domain, path_of(hosted.name)
    status, is_read = hosted.session.status(), outcome.error is None and (outcome.shown or outcome.offer)
    return {
        "title": f"{outcome.title} · {hosted.name}",
        "table_name": domain.name,
        "exports": exports_of(hosted.name),
        "promise": status.guarantee,
        "closed": status.closed,
        "share": share_of(user, hosted.asking(user).budget()),
        "outcome": outcome,
        "files": _files(path, filled, outcome.shown.charts) if outcome.shown and outcome.is_stored else [],
        "elsewhere": elsewhere(base, hosted.name, filled.text, domain) if is_read else [],
        "filled": filled,
        "can_pay": user.role is not Role.READER,
        "form": form_of(domain, unpacked_choices(filled.choices)),
        "by": unpacked_choices(filled.choices).get("by", []),
        "described": described(domain),
        "newest": _newest(request, user, hosted.name, path),
        **examples_of(domain),
    }


def _files(path: str, filled: Filled, charts: tuple[Chart, ...]) -> list[tuple[str, str]]:
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


# --- addresses, never with a token -----------------------------------------------------------------------


def path_of(name: str) -> str:
    """Return the path of a session's page; whatever its file is called, it is one part of it."""
    return f"/page/{quote(name, safe='')}"


def exports_of(name: str) -> str:
    """Return the path of what a session exports."""
    return f"/sessions/{quote(name, safe='')}/export"


def address_of(path: str, fields: Mapping[str, str]) -> str:
    """Return a path with fields, of which empty ones are left out, but for the question."""
    filled = {name: value for name, value in fields.items() if value or name == "q"}
    return f"{path}?{urlencode(filled)}" if filled else path


def elsewhere(base: str, name: str, text: str, domain: Domain) -> list[tuple[str, str]]:
    """Return the same question as it is asked elsewhere, as pairs of where and what."""
    url = url_of(base, name)
    kind, method = ("sql", "sql") if is_statement(text) else ("where", "ask")
    question = json.loads(text) if text.lstrip().startswith("{") else text
    python = (
        "import os\n\nimport pmw\n\n"
        f'session = pmw.connect({url!r}, token=os.environ["{TOKEN}"])\n'
        f"print(session.{method}({question!r}))"
    )
    curl = (
        f"curl -H \"Authorization: Bearer ${TOKEN}\" -H 'Content-Type: application/json' "
        f"-d {shlex.quote(json.dumps({kind: question}))} {shlex.quote(url + '/ask')}"
    )
    told = [("Python", python), ("curl", curl)]
    if isinstance(question, str):
        where = f" WHERE {text}" if text.strip() else ""
        sql = text if kind == "sql" else f"SELECT COUNT(*) FROM {in_quotes(domain.name)}{where}"  # noqa: S608
        told.insert(1, ("SQL", sql))
    return told
