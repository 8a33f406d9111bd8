"""Templates of the page, and routes whose errors are pages too."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from pmw.display.templates import render
from pmw.errors import PMWError

_KEPT = ("WWW-Authenticate", "Retry-After")  # headers of an error


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
