"""Problems: every error as one JSON object, ``{"error": {"code", "message", "position", "request_id"}}``.

What is told depends on the request and on public state. A body is never given back, and what a driver or the
disk says stays in the custodian's log.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pmw.errors import (
    BudgetError,
    BudgetExhaustedError,
    DataError,
    PMWError,
    ReleaseError,
    ServiceError,
    SessionCorruptError,
    SessionError,
    SessionLockedError,
    StoreError,
)
from pmw.service.hosting import ForbiddenError
from pmw.service.limits import BusyError, EndingError, GoneError
from pmw.service.log import Log
from queries.errors import QueryError

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "key_reused",
    429: "busy",
    500: "internal",
    503: "unavailable",
}
_FIELDS = (  # whose names are told; others may come from the body
    "dry_run", "format", "fresh", "idempotency-key", "most", "queries", "rows", "scope", "seed", "sql",
    "strict_cells", "where",
)  # fmt: skip
_SESSION = "this session cannot be used now; the custodian finds the reason in the service's log"
_SERVICE = "the service cannot look up users now; the custodian finds the reason in its log"


# Of each kind of error, the first that fits: status, code, and what is told; None tells the error's own text.
_KINDS: tuple[tuple[type[Exception], int, str | None, str | None], ...] = (
    (BudgetExhaustedError, 403, "budget_exhausted", None),
    (EndingError, 503, None, None),
    (BusyError, 429, None, None),
    (GoneError, 499, "client_gone", None),
    (ForbiddenError, 403, None, None),
    (DataError, 503, "session_unavailable", _SESSION),
    (StoreError, 503, "session_unavailable", _SESSION),
    (SessionCorruptError, 503, "session_unavailable", _SESSION),
    (SessionLockedError, 503, "session_unavailable", _SESSION),
    (ServiceError, 503, None, _SERVICE),
    (BudgetError, 400, "not_possible", None),
    (ReleaseError, 400, "not_possible", None),
    (SessionError, 400, "not_possible", None),
)


def problem(
    request: Request,
    status: int,
    message: str,
    *,
    code: str | None = None,
    position: int | str | None = None,
    retry_after: int | None = None,
) -> JSONResponse:
    """Return the response that tells of an error; after some seconds its request may be made again."""
    error = {
        "code": code or _CODES.get(status, "bad_request"),
        "message": message,
        "position": position,
        "request_id": request.state.request_id,
    }
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return JSONResponse({"error": error}, status, headers)


def add_handlers(app: FastAPI, log: Log) -> None:
    """Have an application tell of every error in this form."""

    def refused(request: Request, error: Exception) -> JSONResponse:
        status, code, message = _told(error)
        if status == 503 and not isinstance(error, EndingError):
            log.failure(error, request_id=request.state.request_id, session=_session(request))
        position = error.position if isinstance(error, QueryError) else None
        retry = error.retry_after if isinstance(error, BusyError) else None
        return problem(request, status, message, code=code, position=position, retry_after=retry)

    def invalid(request: Request, error: Exception) -> JSONResponse:
        places = error.errors() if isinstance(error, RequestValidationError) else []
        names = [part for part in (places[0]["loc"] if places else ()) if part in _FIELDS]
        what = "expected another body; GET /openapi.json describes it"
        if places and places[0]["type"] in ("too_long", "extra_forbidden", "missing"):
            what = {"too_long": "the list is too long", "missing": "a field is missing"}.get(
                places[0]["type"], "a field is unknown"
            ) + "; GET /openapi.json describes the body"
        return problem(request, 400, what, position=str(names[-1]) if names else None)

    def spoken(request: Request, error: Exception) -> JSONResponse:
        status = error.status_code if isinstance(error, HTTPException) else 500
        texts = {
            404: "there is no such address; GET /openapi.json lists them",
            405: "another method is expected",
        }
        own = str(error.detail) if isinstance(error, HTTPException) else ""
        return problem(request, status, texts.get(status, own))

    app.add_exception_handler(PMWError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, spoken)


def _told(error: Exception) -> tuple[int, str | None, str]:
    """Return the status, the code and the text of an error of our packages."""
    if isinstance(error, QueryError):
        reused = error.position == "request_id" and "was used" in error.message
        return (409, "key_reused", error.message) if reused else (400, error.code, error.message)
    for kind, status, code, text in _KINDS:
        if isinstance(error, kind):
            return status, code, str(error) if text is None else text
    return 503, "session_unavailable", _SESSION


def _session(request: Request) -> Any:
    return getattr(request.state, "session", None)
