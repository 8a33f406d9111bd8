"""The guard around every request: its id, its size and time, its headers, and its log line."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pmw.service.limits import BODY_BYTES, KEPT_CONNECTIONS, MOST_CONNECTIONS
from pmw.service.log import Log

_HEALTH = "/health"  # answered however crowded it is, and whatever body comes with it
_BODY_SECONDS = 10  # for the whole body of a request
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Wraps the application.

    Args:
        app: the application.
        log: where each request gets its line.
        is_known: tells whether a request comes with a good token; the last connections are kept for those.
    """

    def __init__(self, app: ASGIApp, log: Log, is_known: Callable[[Request], bool]) -> None:
        self._app, self._log, self._is_known = app, log, is_known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens in the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request_id = time.perf_counter(), secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        reply = _Reply(send, request_id)
        try:
            if self._is_crowded(scope):
                await reply.refuse(503, "busy", "too many connections are open; ask again in a second")
            else:
                await self._answer(scope, receive, reply)
        finally:  # a request that is cut has its line, too
            self._log.write("request", **_about(scope, reply, began))

    def _is_crowded(self, scope: Scope) -> bool:
        """Whether so many connections are open that this request gets no answer."""
        open_ = len(scope["state"].get("connections", ()))
        if open_ <= MOST_CONNECTIONS - KEPT_CONNECTIONS or scope["path"] == _HEALTH:
            return False
        return open_ > MOST_CONNECTIONS or not self._is_known(Request(scope))

    async def _answer(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        if scope["path"] == _HEALTH:
            await self._run(scope, b"", receive, reply)
            return
        try:
            body = await asyncio.wait_for(_body(scope, receive), _BODY_SECONDS)
        except TimeoutError:
            await reply.refuse(408, "timeout", f"expected the whole body within {_BODY_SECONDS} seconds")
        except ClientDisconnect:  # part of a body may be another question, or another price
            await reply.refuse(499, "client_gone", "the client left before the end of its body")
        else:
            if body is None:
                await reply.refuse(413, "too_long", f"a body has at most {BODY_BYTES:,} bytes")
            else:
                await self._run(scope, body, receive, reply)

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
    """What is sent back."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send, self.request_id = send, request_id
        self.status: int | None = None

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
        error = {"code": code, "message": text, "position": None, "request_id": self.request_id}
        body = json.dumps({"error": error}).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **({"retry-after": "1"} if status == 503 else {}),
        }
        listed = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": listed})
        await self.send({"type": "http.response.body", "body": body})


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the whole body; None where it is too long, as soon as that is known.

    Raises:
        ClientDisconnect: the client left before its end.
    """
    told = Headers(scope=scope).get("content-length", "0")
    if told.isdecimal() and int(told[:20]) > BODY_BYTES:
        return None
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES:
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


def _about(scope: Scope, reply: _Reply, began: float) -> MutableMapping[str, Any]:
    state = scope["state"]
    route = scope.get("route")
    return {
        "request_id": reply.request_id,
        "method": scope["method"] if scope["method"].isalpha() else "other",
        "route": getattr(route, "path", None),  # the pattern: an address may hold anything
        "session": state.get("session"),
        "user": state.get("user"),
        "questions": state.get("questions"),
        "status": reply.status,
        "milliseconds": round(1000 * (time.perf_counter() - began), 1),
    }
