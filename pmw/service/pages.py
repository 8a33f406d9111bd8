"""The page: what a service shows to people, as HTML that works without its script.

Templates escape whatever somebody chose. Nothing is shown but what was released, or follows from it. The
errors of these routes are pages too.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles

from pmw.display.templates import render
from pmw.errors import (
    BudgetError,
    BudgetExhaustedError,
    PMWError,
    SessionCorruptError,
    SessionError,
    SessionLockedError,
)
from pmw.public.report import report_policy
from pmw.service.access import CurrentUser, InQueue, service_of, signed_in, used
from pmw.service.hosting import Hosted
from pmw.service.page_facts import (
    Filled,
    answer_of,
    asked_by,
    attributes_of,
    custodian_facts,
    examples_of,
    history_rows,
    is_dearer,
    is_statement,
    price_of,
    report_of,
    share_text,
)
from pmw.service.users import Role, User
from pmw.session.accounts import Activity
from pmw.session.dialogue import Analyst
from queries.errors import QueryError

_KEPT = ("WWW-Authenticate", "Retry-After")  # headers of an error
_MOST_LISTED = 200  # questions of a history
_REFUSED = "This token is not good: it was never issued, was revoked, or has expired."


def page(name: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Return a page.

    Args:
        name: of its template.
        values: what it shows; every text in them is escaped.
        status: of the response.
    """
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
            reply = _problem(told.status_code, message)
            reply.headers.update({name: told.headers[name] for name in _KEPT if name in told.headers})
            return reply

        return answered


def _problem(status: int, message: str) -> HTMLResponse:
    """Return the page of an error; where nobody is signed in, the form to sign in."""
    values: dict[str, Any] = {"user": None, "hosted": None}
    if status == 401:
        told = "You are not signed in, or no longer: sign in again."
        return page("start.html", {**values, "title": "Sign in", "sessions": [], "refused": told}, 401)
    return page("problem.html", {**values, "title": "Not shown", "message": message}, status)


router = APIRouter(include_in_schema=False, route_class=PageRoute)
router.mount(
    "/static", StaticFiles(directory=Path(__file__).parent / "static", packages=[("pmw.display", "static")])
)


async def _fields(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form, each with its values; lines end as they were typed in."""
    fields: dict[str, list[str]] = {}
    for name, value in parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True):
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return fields


_Fields = Annotated[dict[str, list[str]], Depends(_fields)]


@router.get("/")
def start(request: Request, refused: str = "") -> HTMLResponse:
    """Show the form to sign in, or the sessions of whoever is signed in."""
    user = signed_in(request)
    sessions = [] if user is None else [_summary(one) for one in service_of(request).visible(user)]
    values = {"title": "Private answers", "user": user, "hosted": None, "sessions": sessions}
    told = _REFUSED if refused and user is None else ""
    return page("start.html", {**values, "refused": told}, 401 if told else 200)


def _summary(hosted: Hosted) -> dict[str, Any]:
    state = hosted.session.state
    return {
        "name": hosted.name,
        "table": state.domain.name,
        "attributes": len(state.domain.names),
        "spent": f"{state.ledger.share:.1%}",
    }


@router.get("/page/{name}", dependencies=[InQueue])
def session(request: Request, user: CurrentUser, name: str) -> HTMLResponse:
    """Show a session: what can be asked, and what was."""
    return _shown(request, user, name, Filled())


@router.post("/page/{name}/ask", dependencies=[InQueue])
def ask(request: Request, user: CurrentUser, name: str, fields: _Fields) -> HTMLResponse:
    """Answer a question."""
    return _shown(request, user, name, Filled(_first(fields, "question")), "ask")


@router.post("/page/{name}/build", dependencies=[InQueue])
def build(request: Request, user: CurrentUser, name: str, fields: _Fields) -> HTMLResponse:
    """Write down the question that a form was filled in with."""
    with used(request, user, name) as hosted:
        built = asked_by(fields, hosted.session.domain)
    return _shown(request, user, name, Filled(built, is_built=True))


@router.post("/page/{name}/price", dependencies=[InQueue])
def price(request: Request, user: CurrentUser, name: str, fields: _Fields) -> HTMLResponse:
    """Tell what an answer within so many records costs."""
    return _shown(request, user, name, Filled(_first(fields, "question"), _first(fields, "within")), "price")


@router.post("/page/{name}/pay", dependencies=[InQueue])
def pay(request: Request, user: CurrentUser, name: str, fields: _Fields) -> HTMLResponse:
    """Answer a question within so many records, and pay for it; a price above the one told is told first."""
    told = Filled(_first(fields, "question"), _first(fields, "within"), price=_first(fields, "price"))
    return _shown(request, user, name, told, "pay")


@router.get("/page/{name}/history.csv", dependencies=[InQueue])
def history(request: Request, user: CurrentUser, name: str) -> Response:
    """Give what the user asked as CSV."""
    with used(request, user, name) as hosted:
        found = hosted.session.analyst(user.name).history(10_000)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["question", "count", "low", "high", "source"])
    for row, act in zip(history_rows(hosted, found, plain=True), found, strict=True):
        writer.writerow([_safe(row[0]), *row[1:], act.source])
    headers = {"Content-Disposition": 'attachment; filename="questions.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _safe(text: str) -> str:
    return f"'{text}" if text[:1] in "=+-@" else text  # else a spreadsheet would run it


@router.get("/page/{name}/custodian", dependencies=[InQueue])
def custodian(request: Request, user: CurrentUser, name: str) -> HTMLResponse:
    """Show a custodian who spent what, and everybody's questions."""
    with used(request, user, name) as hosted:
        _require_custodian(user)
        values = custodian_facts(hosted)
    return page("custodian.html", {"title": f"{name}: budget", "user": user, "hosted": hosted, **values})


@router.get("/page/{name}/report", dependencies=[InQueue])
def report(request: Request, user: CurrentUser, name: str) -> HTMLResponse:
    """Show the report on a session."""
    with used(request, user, name) as hosted:
        _require_custodian(user)
        text = report_of(hosted)
    return HTMLResponse(text, headers={"Content-Security-Policy": report_policy()})


def _require_custodian(user: User) -> None:
    if user.role is not Role.CUSTODIAN:
        raise HTTPException(403, "this page is the custodian's")


def _first(fields: Mapping[str, list[str]], name: str) -> str:
    return fields.get(name, [""])[0].strip()


def _shown(request: Request, user: User, name: str, filled: Filled, act: str = "") -> HTMLResponse:
    with used(request, user, name) as hosted:
        analyst = hosted.asking(user, request.state.gone)
        values = _outcome(hosted, analyst, filled, act)
        found: tuple[Activity, ...] = hosted.session.analyst(user.name).history(_MOST_LISTED)
        values.update(
            {
                "title": f"{_said(values)} · {name}",
                "user": user,
                "hosted": hosted,
                "table_name": hosted.session.domain.name,
                "promise": (status := hosted.session.status()).guarantee,
                "closed": status.closed,
                "share": share_text(user, analyst.budget()),
                "question": filled.question,
                "condition": "" if is_statement(filled.question) else filled.question,
                "within": filled.within,
                "built": filled.is_built,
                "can_pay": user.role is not Role.READER,
                "attributes": (attributes := attributes_of(hosted.session.domain)),
                "described": [
                    (one["name"], f"{one['cells']:,}", one["shown"], one["also"]) for one in attributes
                ],
                "history": history_rows(hosted, found),
                **examples_of(hosted.session.domain),
            }
        )
    return page("session.html", values)


def _outcome(hosted: Hosted, analyst: Analyst, filled: Filled, act: str) -> dict[str, Any]:
    """Return the answer, the price or the error that an act leads to."""
    values: dict[str, Any] = {"result": None, "price": None, "error": None}
    try:
        if act == "ask":
            values["result"] = answer_of(analyst, hosted.large, filled.question)
        elif act == "price" or (act == "pay" and is_dearer(analyst, filled)):
            values["price"] = price_of(analyst, filled)
        elif act == "pay":
            values["result"] = answer_of(analyst, hosted.large, filled.question, filled.records)
    except QueryError as error:
        values["error"] = {"message": error.message, "mark": _mark(error)}
    except (SessionCorruptError, SessionLockedError):
        raise  # what is wrong with a file is the custodian's to know
    except (BudgetError, BudgetExhaustedError, SessionError) as error:
        values["error"] = {"message": str(error), "mark": ""}
    return values


def _said(values: Mapping[str, Any]) -> str:
    """Return what a page has to tell, as its title: a screen reader says it first."""
    said = {"error": "Not answered", "result": "Answer", "price": "Price"}
    return next((title for name, title in said.items() if values[name] is not None), "Ask")


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
