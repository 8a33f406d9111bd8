"""The page: what a service shows to people, as HTML that works without its script.

Templates escape whatever somebody chose. Nothing is shown but what was released, or follows from it. The
errors of these routes are pages too.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles

from pmw.display.charts import Cap, Line, Lines, Picture
from pmw.display.templates import render
from pmw.display.texts import percent, shortened
from pmw.errors import (
    BudgetError,
    BudgetExhaustedError,
    PMWError,
    PriceError,
    SessionCorruptError,
    SessionError,
    SessionLockedError,
    StoreError,
)
from pmw.public.answer import Answer
from pmw.public.charges import Event
from pmw.public.ledger import Ledger, LedgerLine, booked_names, ledger_cells
from pmw.public.pictures import headline
from pmw.public.report import report_policy
from pmw.public.tables import AnswerTable
from pmw.service.access import CurrentUser, InQueue, asks, came, note, service_of, signed_in, used
from pmw.service.asking import done
from pmw.service.history import AskedText, History
from pmw.service.hosting import Hosted, url_of
from pmw.service.limits import MOST_FIELDS
from pmw.service.question_form import (
    asked_by,
    browsed,
    described,
    examples_of,
    form_of,
    packed_choices,
    unpacked_choices,
)
from pmw.service.shown_answers import (
    CHART_WIDTH,
    Asked,
    Chart,
    Shown,
    as_csv,
    as_json,
    csv_text,
    is_settled_by,
    read,
    shown,
    stored_answer,
)
from pmw.service.users import Role, User
from pmw.session.accounts import Booked
from pmw.session.dialogue import Analyst
from pmw.session.session_requests import Kind, Kinds, SessionRequest
from queries.cells import in_quotes
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.parsing import is_statement
from queries.statements import Statement

_KEPT = ("WWW-Authenticate", "Retry-After")  # headers of an error
_CHARGED = re.compile(r"[0-9]{1,3}\.[0-9]{2}%")  # as an address tells it
_ON_A_PAGE = 20  # questions of a history
_REFUSED = "This token is not good: it was never issued, was revoked, or has expired."
_NONE = "\N{EN DASH}"
_SESSION = "the session itself"
_SPARE = (Event.REQUESTED, Event.PART, Event.QUANTILE)  # what no test decides, after opening
_MOST_LINES = 6  # named ones of a chart; the style sheet has a colour and a dash for each
_MOST_TIMES = 400  # points of the course of spending
_MEDIA = {"csv": "text/csv; charset=utf-8", "json": "application/json", "svg": "image/svg+xml"}
_MOST_NEWEST = 8  # questions that the page itself lists
_NEAR_THE_END = 0.9  # of what may be spent: where more is used, the page warns
_PAY = "Pay, and answer"
TOKEN = "PMW_TOKEN"  # noqa: S105  # the variable of an environment, which holds the user's


def page(name: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(render("pmw.service", name, values), status)


class PageRoute(APIRoute):
    """A route whose errors are pages too, with the status and the words of the service's JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        answer = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except (HTTPException, PMWError) as error:
                known = request.app.exception_handlers
                told = known[next(kind for kind in type(error).__mro__ if kind in known)](request, error)
            message = json.loads(told.body)["error"]["message"]
            reply = _problem(request, told.status_code, message)
            reply.headers.update({name: told.headers[name] for name in _KEPT if name in told.headers})
            return reply

        return answered


def _problem(request: Request, status: int, message: str) -> HTMLResponse:
    values: dict[str, Any] = {"user": None, "path": None}
    if status == 401:
        told = "You are not signed in, or no longer: sign in again."
        path, query = quote(request.url.path, safe="/"), request.url.query
        to = "" if request.method != "GET" else f"{path}?{query}" if query else path
        return page(
            "start.html", {**values, "title": "Sign in", "sessions": [], "refused": told, "to": to}, 401
        )
    return page("problem.html", {**values, "title": "Not shown", "message": message}, status)


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


router = APIRouter(include_in_schema=False, route_class=PageRoute)
router.mount(
    "/static", StaticFiles(directory=Path(__file__).parent / "static", packages=[("pmw.display", "static")])
)


async def _fields(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form, each with its values; lines end as they were typed in."""
    return _listed((await request.body()).decode(errors="replace"))


def _listed(text: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    try:
        listed = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise QueryError(f"expected a form of at most {MOST_FIELDS:,} fields", code="too_long") from None
    for name, value in listed:
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return fields


_Fields = Annotated[dict[str, list[str]], Depends(_fields)]


@router.get("/")
def start(request: Request, refused: str = "") -> HTMLResponse:
    """Show the form to sign in, or the sessions of whoever is signed in."""
    user = signed_in(request)
    sessions = [] if user is None else [_summary(one) for one in service_of(request).visible(user)]
    values = {"title": "Private answers", "user": user, "path": None, "sessions": sessions}
    told = _REFUSED if refused and user is None else ""
    return page("start.html", {**values, "refused": told, "to": ""}, 401 if told else 200)


def _summary(hosted: Hosted) -> dict[str, Any]:
    state = hosted.session.state
    return {
        "name": hosted.name,
        "path": path_of(hosted.name),
        "table": state.domain.name,
        "attributes": len(state.domain.names),
        "spent": f"{state.ledger.share:.1%}",
    }


@router.get("/page/{name}", dependencies=[InQueue])
def session(
    request: Request,
    user: CurrentUser,
    name: str,
    q: str | None = None,
    within: str = "",
    choices: str = "",
) -> HTMLResponse:
    """Show a session; of a question its stored answer, or what asking costs. Nothing is asked or spent."""
    charged = _CHARGED.fullmatch(request.query_params.get("charged", ""))
    told, question = "" if charged is None else charged[0], None if q is None else _lines(q)
    return _shown(request, user, name, Filled(question, within.strip(), choices=choices, charged=told))


@router.post("/page/{name}/ask", dependencies=[InQueue])
def ask(request: Request, user: CurrentUser, name: str, fields: _Fields) -> Response:
    """Answer a question, and send on to the address of the answer; else tell what came of it.

    An answer without an address is shown at once: where a model that became better needs more to be asked.
    """
    names = ("q", "within", "choices", "price")
    question, within, choices, price = (fields.get(one, [""])[0].strip() for one in names)
    filled = Filled(question, within, choices, price=price)
    with used(request, user, name) as hosted:
        outcome = answered(hosted, user, request, filled)
        if outcome.shown is not None:
            note(request, lambda kept: kept.add(name, user.name, [filled.text]))
        if outcome.shown is None or not outcome.is_stored:
            return page("session.html", _values(request, user, hosted, filled, outcome))
    kept = {"q": filled.text, "choices": filled.choices, "charged": outcome.charged}
    return RedirectResponse(address_of(path_of(name), kept) + "#outcome", 303)


@router.get("/page/{name}/build", dependencies=[InQueue])
def build(request: Request, user: CurrentUser, name: str) -> HTMLResponse:
    """Write down the question that a form was filled in with."""
    fields = _listed(request.url.query)
    with used(request, user, name) as hosted:
        built = asked_by(fields, hosted.session.domain)
    filled = Filled(None, draft=built, is_built=True, choices=packed_choices(fields))
    return _shown(request, user, name, filled)


@router.get("/page/{name}/answer.{format}", dependencies=[InQueue])
def answer(
    request: Request, user: CurrentUser, name: str, format: Literal["csv", "json"], q: str = ""
) -> Response:
    """Give a stored answer as a file."""
    with used(request, user, name) as hosted:
        analyst, text = hosted.asking(user, request), _lines(q)
        query = read(analyst, text)
        asks(request, ("look", text, query))
        found = stored_answer(analyst, hosted.large, query)
        if found is None:
            raise _never_asked()
        content = as_csv(query, found) if format == "csv" else as_json(found)
    return _file(content, f"answer.{format}")


@router.get("/page/{name}/chart-{number}.svg", dependencies=[InQueue])
def chart(request: Request, user: CurrentUser, name: str, number: int, q: str = "") -> Response:
    """Give a chart of a stored answer as a file."""
    with used(request, user, name) as hosted:
        analyst = hosted.asking(user, request)
        query = read(analyst, _lines(q))
        asks(request, ("look", q, query))
        found = stored_answer(analyst, hosted.large, query)
        charts = () if found is None else shown(query, found).charts
    if not 1 <= number <= len(charts):
        raise _never_asked()
    return _file(charts[number - 1].file(), f"chart-{number}.svg")


def _never_asked() -> QueryError:
    return QueryError(
        "this was never asked, or has no such chart; ask it on the page first", code="not_asked"
    )


def _file(content: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=_MEDIA[name.rpartition(".")[2]], headers=headers)


@router.get("/page/{name}/table", dependencies=[InQueue])
def table(request: Request, user: CurrentUser, name: str) -> HTMLResponse:
    """Show the attributes with their values, each with a link to its count."""
    with used(request, user, name) as hosted:
        values = {"table_name": hosted.session.domain.name, "attributes": browsed(hosted.session.domain)}
    return page("table.html", {"title": f"{name}: what can be asked", **_frame(user, name), **values})


@router.get("/page/{name}/history", dependencies=[InQueue])
def history(
    request: Request, user: CurrentUser, name: str, find: str = "", at: int = 1, everybody: bool = False
) -> HTMLResponse:
    """Show what the user asked, or a custodian what everybody did, some on a page."""
    if everybody:
        _require_custodian(user)
    whose, kept = None if everybody else user.name, service_of(request).history
    with used(request, user, name):
        count = kept.count(name, whose, find)
        last = max(1, -(-count // _ON_A_PAGE))
        at = min(max(1, at), last)
        found = kept.questions(name, whose, find, first=_ON_A_PAGE * (at - 1), most=_ON_A_PAGE)
    path, chosen = path_of(name), {"find": find, "everybody": "1" if everybody else ""}
    pages = {
        word: address_of(f"{path}/history", {**chosen, "at": str(to)})
        for word, to, is_there in (("Newer", at - 1, at > 1), ("Older", at + 1, at < last))
        if is_there
    }
    values = {"count": count, "at": at, "last": last, "find": find, "everybody": everybody, "pages": pages}
    rows = [{**asdict(one), "address": address_of(path, {"q": one.text})} for one in found]
    return page("history.html", {"title": f"{name}: questions", **_frame(user, name), **values, "rows": rows})


@router.get("/page/{name}/history.csv", dependencies=[InQueue])
def history_file(request: Request, user: CurrentUser, name: str) -> Response:
    """Give what the user asked as CSV."""
    with used(request, user, name):
        found = service_of(request).history.questions(name, user.name)
    return _file(csv_text([("time", "question"), *((one.time, one.text) for one in found)]), "questions.csv")


@router.get("/page/{name}/custodian", dependencies=[InQueue])
def custodian(request: Request, user: CurrentUser, name: str) -> HTMLResponse:
    """Show a custodian who may ask, and who spent what."""
    service = service_of(request)
    with used(request, user, name) as hosted:
        _require_custodian(user)
        values = _custodian_facts(hosted, service.users.listed(), service.history)
    return page("custodian.html", {"title": f"{name}: budget", **_frame(user, name), **values})


@router.get("/page/{name}/report", dependencies=[InQueue])
def report(request: Request, user: CurrentUser, name: str) -> HTMLResponse:
    """Show the report on a session."""
    with used(request, user, name) as hosted:
        _require_custodian(user)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "report.html"
            hosted.session.report(target)
            text = target.read_text(encoding="utf-8")
    return HTMLResponse(text, headers={"Content-Security-Policy": report_policy()})


def _require_custodian(user: User) -> None:
    if user.role is not Role.CUSTODIAN:
        raise HTTPException(403, "this page is the custodian's")


def _frame(user: User, name: str) -> dict[str, Any]:
    return {"user": user, "name": name, "path": path_of(name)}


def _shown(request: Request, user: User, name: str, filled: Filled) -> HTMLResponse:
    with used(request, user, name) as hosted:
        outcome = looked_up(hosted, user, request, filled)
        return page("session.html", _values(request, user, hosted, filled, outcome))


def _lines(text: str) -> str:
    """Return a text of a form, whose lines end as they were typed in."""
    return text.replace("\r\n", "\n").strip()


# --- what comes of a question: to look it up asks, records and spends nothing -----------------------------


def looked_up(hosted: Hosted, user: User, request: Request, filled: Filled) -> Outcome:
    """Return the stored answer to a question, or what asking costs. Nothing is asked, recorded or spent."""
    if filled.question is None:
        return Outcome()
    analyst = hosted.asking(user, request)
    asks(request, ("look", filled.question, None))
    try:
        query = read(analyst, filled.question)
        asks(request, ("look", filled.question, query))
        found = stored_answer(analyst, hosted.large, query)
        offer = (_bar if filled.within else _test)(hosted, analyst, query, filled, found)
    except _TOLD as error:
        came(request, error)
        return _failed(error)
    answer = None if found is None else shown(query, found)
    return Outcome(answer, is_stored=found is not None, offer=offer, charged=filled.charged)


def answered(hosted: Hosted, user: User, request: Request, filled: Filled) -> Outcome:
    """Ask a question, and pay for it what was agreed to; what could charge more is told first."""
    analyst = hosted.asking(user, request)
    asks(request, ("ask", filled.text, None))
    try:
        query = read(analyst, filled.text)
        kinds = ((Kinds.ASK, Kinds.SQL), (Kinds.ASK_WITHIN, Kinds.SQL_WITHIN))
        kind: Kind[Any] = kinds[bool(filled.within)][isinstance(query, Statement)]
        asks(request, (kind.name, filled.text, query))
        how: dict[str, Any] = {"within": filled.within or None, "at_most": filled.price or None}
        answer = done(analyst, hosted.large, SessionRequest(kind, query, **how))
        is_stored = stored_answer(analyst, hosted.large, query) is not None
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
    return Outcome(shown(query, answer), is_stored=is_stored, charged=charged)


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
    hosted: Hosted, analyst: Analyst, query: Asked, _: Filled, found: Answer | AnswerTable | None
) -> Offer | None:
    if found is not None and is_settled_by(query, found):
        newer = "The model is newer than this answer. To ask again is free, and may give a narrower interval."
        return Offer(newer, "Ask again") if found.version < hosted.session.state.version else None
    forecast = done(analyst, hosted.large, SessionRequest(Kinds.FORECAST, query))
    price = str(forecast.most) if forecast.most else ""
    if found is None:
        return Offer(f"The question {forecast.sentence()}.", "Ask it", price)
    again = Offer(f"Asked again, the question {forecast.sentence()}.", "Ask again", price)
    return again if forecast.stored < forecast.questions else None


def _bar(hosted: Hosted, analyst: Analyst, query: Asked, filled: Filled, _: object) -> Offer:
    wanted = SessionRequest(Kinds.QUOTE, query, within=filled.within)
    price, bar = done(analyst, hosted.large, wanted), f"A bar of ± {filled.within}"
    if not price.needed:
        return Offer(f"{bar} is free: the answer is as near as it is.", "Answer it, free")
    left = "." if price.affordable else "; so much is not left."
    told = f"{bar} costs {price.share:.2%} of the budget{left}"
    return Offer(told, _PAY if price.affordable else "", str(price.share))


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


def _values(request: Request, user: User, hosted: Hosted, filled: Filled, outcome: Outcome) -> dict[str, Any]:
    """Return what the template of a session's page needs."""
    domain, path = hosted.session.domain, path_of(hosted.name)
    status, is_read = hosted.session.status(), outcome.error is None and (outcome.shown or outcome.offer)
    base, chosen = str(request.base_url), unpacked_choices(filled.choices)
    return {
        **_frame(user, hosted.name),
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
        "form": form_of(domain, chosen),
        "by": chosen.get("by", []),
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


# --- what a custodian sees: who may use a session, who spent what, on what and when ------------------------


def _custodian_facts(hosted: Hosted, users: Sequence[User], history: History) -> dict[str, Any]:
    """Return what the custodian's page shows, but for the questions."""
    session = hosted.session
    ledger, lines, head = session.ledger(), session.ledger().lines, headline(session.state)
    left, times = 1 - ledger.spent / ledger.cap, list[tuple[datetime, float]]()
    with suppress(StoreError):  # the rest of the page does not rest on it
        times = history.spending(hosted.name)
    header, *rows = ledger_cells(ledger)
    spent_by = {
        "analyst": [{name or _SESSION: float(part) for name, part in line.booked} for line in lines],
        "event": [{line.event: 1.0} for line in lines],
    }
    shares = {one: min(hosted.asking(one).most, left) for one in users if one.may_use(hosted.name)}
    tables = [
        _users_table(shares, session.bookings()),
        _events_table(ledger),
        *_spare_table(ledger),
        _table("Ledger", "Every charge", header, rows),
    ]
    return {
        "sentence": ledger.sentence(),
        "charts": [
            *_course(head, times),
            *(_spending_chart(head, kind, lines, parts) for kind, parts in spent_by.items() if lines),
        ],
        "tables": tables,
        "theorems": list(dict.fromkeys(f"{line.event}: {line.theorem}" for line in lines)),
    }


def _table(title: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    return {"title": title, "caption": caption, "header": header, "rows": rows}


def _users_table(shares: Mapping[User, Fraction], booked: Sequence[Booked]) -> dict[str, Any]:
    """Return who may ask, and what each spent; who is no user any more comes last."""
    sums = {one.name: (f"{float(one.spent):.2%}", f"{one.questions:,}") for one in booked}
    known = {
        user.name: (
            user.role.value,
            percent(float(share)),
            _NONE if user.at_most is None else percent(float(user.at_most)),
            "revoked" if user.revoked else str(user.expires or "no end"),
        )
        for user, share in shares.items()
    }
    names = [*known, *(name for name in sums if name not in known)]
    header = ("user", "role", "share", "one question", "token good until", "spent", "questions")
    rows = [
        (name or _SESSION, *known.get(name, (_NONE,) * 4), *sums.get(name, ("0.00%", "0"))) for name in names
    ]
    return _table("Users", "Who may ask, and parts of the whole cap", header, rows)


def _events_table(ledger: Ledger) -> dict[str, Any]:
    by_event: dict[tuple[str, str], float] = {}
    for line in ledger.lines:
        for name, part in line.booked:
            key = name or _SESSION, line.event
            by_event[key] = by_event.get(key, 0.0) + float(part) * line.share
    rows = [(name, event, f"{share:.2%}") for (name, event), share in by_event.items()]
    caption = "Parts of the whole cap, by analyst and event"
    return _table("On what", caption, ("analyst", "event", "spent"), rows)


def _spare_table(ledger: Ledger) -> list[dict[str, Any]]:
    rows = [
        (str(line.number), line.label, booked_names(line.booked) or _SESSION, f"{line.share:.2%}")
        for line in ledger.lines
        if line.event in _SPARE
    ]
    caption = "Tables measured because it was spare, or on request, and how near answers were"
    header = ("no.", "paid for", "booked to", "share")
    return [_table("What spare was spent on", caption, header, rows)] if rows else []


def _course(head: str, times: Sequence[tuple[datetime, float]]) -> list[Chart]:
    if not times:
        return []
    every = max(1, -(-len(times) // _MOST_TIMES))
    kept = [*times[:-1:every], times[-1]]
    began = kept[0][0]
    points = [((time - began).total_seconds() / 3600, 100 * share) for time, share in kept]
    ended = kept[-1][0]
    told = f"{began:%Y-%m-%d %H:%M}: {percent(kept[0][1])}; {ended:%Y-%m-%d %H:%M}: {percent(kept[-1][1])}"
    line, axis = Line("", "line-0", points, is_stepped=True), f"hours since {began:%Y-%m-%d %H:%M} UTC"
    panel = Lines((line,), axis, Cap(100.0, "the cap"))
    picture = Picture(head, "the budget over time", told, width=CHART_WIDTH)
    since = (
        f"From {began:%Y-%m-%d %H:%M}, when the service first saw the session, to the last charge that it saw"
    )
    return [Chart(picture, panel, f"{since}, {ended:%Y-%m-%d %H:%M} UTC.")]


def _spending_chart(
    head: str, kind: str, lines: Sequence[LedgerLine], named: Sequence[Mapping[str, float]]
) -> Chart:
    """Return what was spent in all and under each name; the six names that spent most are drawn."""
    names = dict.fromkeys(name for own in named for name in own)
    spent = {
        name: [100 * line.share * own.get(name, 0.0) for line, own in zip(lines, named, strict=True)]
        for name in names
    }
    first = sorted(spent, key=lambda name: -sum(spent[name]))[:_MOST_LINES]
    drawn = [(name, f"line-{place}", [*accumulate(spent[name])]) for place, name in enumerate(first)]
    if len(spent) > 1:
        drawn.insert(0, ("in all", "all", [100 * line.running_share for line in lines]))
    told = "; ".join(f"{name}: {percent(heights[-1] / 100)}" for name, _, heights in drawn)
    steps = (
        Line(shortened(name, 40), style, [*enumerate([0.0, *heights])]) for name, style, heights in drawn
    )
    panel = Lines(tuple(steps), "charges", Cap(100.0, "the cap"))
    picture = Picture(head, f"the budget by {kind}", told, width=CHART_WIDTH)
    which = f"The {_MOST_LINES} largest of" if len(spent) > len(first) else "All"
    return Chart(picture, panel, f"{which} {len(spent):,}, over {len(lines):,} charges.")
