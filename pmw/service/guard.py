"""The guard around every request: its id, its size and time, its headers, its errors and its log line.

Every error is one JSON object, ``{"error": {"code", "message", "position", "request_id"}}``. What is told
depends on the request and on public state. A body is never given back, and what a driver or the disk says
stays in the custodian's log. That has one line of JSON for each request, with nothing of a question, a token
or a record in it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pmw.errors import (
    BudgetError,
    BudgetExhaustedError,
    DataError,
    PMWError,
    PriceError,
    ReleaseError,
    ServiceError,
    SessionCorruptError,
    SessionError,
    SessionLockedError,
    StoreError,
)
from pmw.service.hosting import ForbiddenError
from pmw.service.limits import (
    BODY_BYTES,
    KEPT_CONNECTIONS,
    MOST_CONNECTIONS,
    SIGN_IN_BYTES,
    STRANGER_BYTES,
    BusyError,
    EndingError,
    GoneError,
)
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
    "aggregate", "at_most", "dry_run", "explain", "format", "fresh", "idempotency-key", "independent", "most",
    "queries", "query", "rows", "scope", "seed", "sql", "strict_cells", "where",
)  # fmt: skip
_WRONG = {  # with a body, by what pydantic calls it
    "too_long": "the list is too long",
    "missing": "a field is missing",
    "extra_forbidden": "a field is unknown",
}
_SESSION = "this session cannot be used now; the custodian finds the reason in the service's log"
_ODD = "this cannot be asked of the session; GET /openapi.json describes what can"
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
    (BudgetError, 400, "width_not_possible", None),
    (ReleaseError, 400, "export_not_possible", None),
    (SessionError, 400, "not_possible", None),
)
# What a line of the log says of an error: by what the system said, else by the first class that fits.
_SYSTEM: dict[object, str] = {
    **{os.strerror(code): "disk_full" for code in (errno.ENOSPC, errno.EDQUOT)},
    **{os.strerror(code): "not_permitted" for code in (errno.EACCES, errno.EPERM, errno.EROFS)},
    **{os.strerror(code): "not_there" for code in (errno.ENOENT, errno.ENOTDIR)},
    **{os.strerror(code): "too_many_files" for code in (errno.EMFILE, errno.ENFILE)},
    os.strerror(errno.EIO): "disk_fails",
    "SQLITE_FULL": "disk_full",
}
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (DataError, "table"),
    (SessionCorruptError, "damaged"),
    (SessionLockedError, "locked"),
    (StoreError, "file"),
    (ServiceError, "service"),
    (PMWError, "refused"),
    (MemoryError, "memory"),
    (OSError, "system"),
)
SIGN_IN = "/sign-in"
UNKNOWN = "this token was never issued, was revoked, or has expired: ask the custodian for a new one"
_PROBES = ("/health", "/ready")  # answered however crowded it is, and whatever body comes with it
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # whose names are told
_BODY_SECONDS = 10  # for the whole body of a request
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Log:
    """Writes lines of JSON, to standard error unless told."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Write one line: when, what happened, and what is told of it."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields})
        with self._lock:
            print(line, file=self._stream or sys.stderr, flush=True)

    def failure(self, error: BaseException, **fields: Any) -> None:
        """Write down an unexpected error: its type, why in a word, and the lines of the program.

        Its message is never written: it may hold a value.
        """
        frames = traceback.extract_tb(error.__traceback__)[-12:]
        where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        self.write("failure", error=type(error).__name__, reason=reason_of(error), where=where, **fields)


def reason_of(error: BaseException) -> str:
    """Return why an error, or one that it was made from, came: as a word of a fixed list."""
    chain: list[BaseException] = []
    next_one: BaseException | None = error
    while next_one is not None and next_one not in chain:
        chain.append(next_one)
        next_one = next_one.__cause__ or next_one.__context__
    said = [getattr(one, name, None) for one in chain for name in ("strerror", "sqlite_errorname")]
    words = [_SYSTEM[one] for one in said if one in _SYSTEM]
    words += [word for one in chain for kind, word in _REASONS if isinstance(one, kind)]
    return next(iter(words), "unexpected")


def problem(
    request: Request, status: int, message: str, *, code: str | None = None, **more: Any
) -> JSONResponse:
    """Return the response that tells of an error; after some seconds its request may be made again."""
    request.state.code, retry = code or _CODES.get(status, "bad_request"), more.pop("retry_after", None)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    headers |= {} if retry is None else {"Retry-After": str(retry)}
    form = error_form(request.state.code, message, request.state.request_id, **more)
    return JSONResponse(form, status, headers)


def error_form(
    code: str, message: str, request_id: str, position: int | str | None = None, **more: float
) -> dict[str, dict[str, Any]]:
    """Return the object that tells of an error."""
    told = {"code": code, "message": message, "position": position, "request_id": request_id}
    return {"error": {**told, **more}}


def add_handlers(app: FastAPI, log: Log) -> None:
    """Have an application tell of every error in this form."""

    def refused(request: Request, error: Exception) -> JSONResponse:
        status, code, message = told_of(error)
        if message == _ODD or (status == 503 and not isinstance(error, EndingError)):
            session = getattr(request.state, "session", None)
            log.failure(error, request_id=request.state.request_id, session=session)
        more: dict[str, Any] = {"position": error.position} if isinstance(error, QueryError) else {}
        more |= {"price": error.price} if isinstance(error, PriceError) else {}
        more |= {"retry_after": error.retry_after} if isinstance(error, BusyError) else {}
        return problem(request, status, message, code=code, **more)

    def invalid(request: Request, error: Exception) -> JSONResponse:
        places = error.errors() if isinstance(error, RequestValidationError) else []
        names = [part for part in (places[0]["loc"] if places else ()) if part in _FIELDS]
        wrong = _WRONG.get(places[0]["type"] if places else "")
        what = "expected another body; GET /openapi.json describes it"
        what = what if wrong is None else f"{wrong}; GET /openapi.json describes the body"
        return problem(request, 400, what, position=str(names[-1]) if names else None)

    def spoken(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # noqa: S101 - of no other is it the handler
        texts = {
            404: "there is no such address; GET /openapi.json lists them",
            405: "another method is expected",
        }
        response = problem(request, error.status_code, texts.get(error.status_code, str(error.detail)))
        if (allowed := (getattr(error, "headers", None) or {}).get("Allow")) is not None:
            response.headers.update({"Allow": "GET, HEAD" if allowed == "GET" else allowed})
        return response

    app.add_exception_handler(PMWError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, spoken)


def told_of(error: Exception) -> tuple[int, str | None, str]:
    """Return the status, the code and the text of an error of our packages."""
    if isinstance(error, PriceError):
        return 403, error.code, error.message
    if isinstance(error, QueryError):
        reused = error.position == "request_id" and "was used" in error.message
        return (409, "key_reused", error.message) if reused else (400, error.code, error.message)
    for kind, status, code, text in _KINDS:
        if isinstance(error, kind):
            return status, code, str(error) if text is None else text
    return 400, "bad_request", _ODD


def code_of(error: Exception) -> str:
    """Return the code that an error is told by."""
    if not isinstance(error, PMWError):
        return _CODES[500]
    status, code, _ = told_of(error)
    return code or _CODES.get(status, "bad_request")


class Guard:
    """Wraps the application.

    Args:
        log: where each request gets its line.
        is_known: tells whether a request comes with a good token; the last connections are kept for those,
            and no other body is read but to sign in. None where that cannot be told.
        count: is called with each request's line.
    """

    def __init__(
        self,
        app: ASGIApp,
        log: Log,
        is_known: Callable[[Request], bool | None],
        count: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._app, self._log, self._is_known, self._count = app, log, is_known, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request_id, method = time.perf_counter(), secrets.token_hex(8), scope["method"]
        scope.setdefault("state", {})["request_id"] = request_id
        reply = _Reply(send, request_id)
        if method == "HEAD":  # RFC 9110, 9.3.2: what GET answers; the server leaves the content out
            scope = {**scope, "method": "GET"}
        try:
            if self._is_crowded(scope):
                await reply.refuse(503, "busy", "too many connections are open; ask again in a second")
            else:
                await self._answer(scope, receive, reply)
        finally:  # a request that is cut has its line, too
            state, route = scope["state"], getattr(scope.get("route"), "path", None)
            line = {
                "request_id": request_id,
                "method": method if method in _METHODS else "other",
                "route": route,  # the pattern: an address may hold anything
                **{name: state.get(name) for name in ("session", "user", "questions")},
                "status": reply.status,
                "code": reply.code or state.get("code"),
                "milliseconds": round(1000 * (time.perf_counter() - began), 1),
            }
            self._count(line)
            self._log.write("request", **line)

    def _is_crowded(self, scope: Scope) -> bool:
        open_ = len(scope["state"].get("connections", ()))
        if open_ <= MOST_CONNECTIONS - KEPT_CONNECTIONS or scope["path"] in _PROBES:
            return False
        return open_ > MOST_CONNECTIONS or not self._is_known(Request(scope))

    async def _answer(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        if scope["path"] in _PROBES:
            await self._run(scope, b"", receive, reply)
            return
        signs_in = scope["path"] == SIGN_IN
        known = None if signs_in or scope["method"] in ("GET", "HEAD") else self._is_known(Request(scope))
        if known is False and "authorization" in Headers(scope=scope):
            await reply.refuse(401, "unauthorized", UNKNOWN)
            return
        most = SIGN_IN_BYTES if signs_in else BODY_BYTES if known else STRANGER_BYTES
        try:
            body = await asyncio.wait_for(_body(scope, receive, most), _BODY_SECONDS)
        except TimeoutError:
            await reply.refuse(408, "timeout", f"expected the whole body within {_BODY_SECONDS} seconds")
        except ClientDisconnect:  # part of a body may be another question, or another price
            await reply.refuse(499, "client_gone", "the client left before the end of its body")
        else:
            if body is None:
                await reply.refuse(413, "too_long", f"a body has at most {most:,} bytes")
            else:  # a stranger's says nothing
                await self._run(scope, body if known or signs_in else b"", receive, reply)

    async def _run(self, scope: Scope, body: bytes, receive: Receive, reply: _Reply) -> None:
        scope["state"]["gone"] = gone = threading.Event()
        leaving = asyncio.create_task(_left(receive, gone))
        try:
            await self._app(scope, _again(body, leaving), reply.send)
        except Exception as error:  # noqa: BLE001  # one request fails, the service goes on
            self._log.failure(error, request_id=reply.request_id)
            if reply.status is None:
                await reply.refuse(500, "internal", "the request failed; the custodian's log has its id")
        finally:
            leaving.cancel()


class _Reply:
    def __init__(self, send: Send, request_id: str) -> None:
        self._send, self.request_id = send, request_id
        self.status: int | None = None
        self.code: str | None = None

    async def send(self, message: Message) -> None:
        """Send a part of a response, with the headers of all responses."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in {**_HEADERS, "X-Request-Id": self.request_id}.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, status: int, code: str, text: str) -> None:
        """Send an error object, and close the connection: the rest of a body may be on its way."""
        self.code = code
        body = json.dumps(error_form(code, text, self.request_id)).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **({"retry-after": "1"} if status == 503 else {}),
            **({"www-authenticate": "Bearer"} if status == 401 else {}),
        }
        listed = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": listed})
        await self.send({"type": "http.response.body", "body": body})


async def _body(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """Return the whole body; None where it has more than the most bytes, as soon as that is known."""
    told = Headers(scope=scope).get("content-length", "0")
    if told.isdecimal() and int(told[:20]) > most:
        return None
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        if not message.get("more_body", False):
            break
    return b"".join(parts)


async def _left(receive: Receive, gone: threading.Event) -> Message:
    """Wait until the client leaves, and tell the threads that work for it."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    gone.set()
    return message


def _again(body: bytes, leaving: asyncio.Task[Message]) -> Receive:
    """Return what gives a body that was read, then that the client has left."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await asyncio.shield(leaving)

    return next_message
