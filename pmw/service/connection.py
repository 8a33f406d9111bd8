"""A connection to a service: requests that are made again after a pause, and what their refusals say.

It needs no other library than the standard one.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from pmw.display.texts import terminal_text
from pmw.errors import BudgetError, BudgetExhaustedError, PriceError, ReleaseError, ServiceError, SessionError
from queries.errors import QueryError

EXACT = "application/vnd.online-pmw.exact+json"  # what ``pmw.session.exact`` writes
# What may go wrong where something else is read than was expected.
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_LARGEST = 2**28  # bytes of a response
_LONGEST_MESSAGE = 2000  # characters
_SECONDS = 60.0  # for one response
_TRIES = 10
_LONGEST_PAUSE = 5.0  # seconds, where the service names none
_LONGEST_TOLD = 30.0  # seconds that a service may have a client wait
_KINDS: dict[str, type[Exception]] = {  # errors that a session here would raise, by their codes
    "budget_exhausted": BudgetExhaustedError,
    "export_not_possible": ReleaseError,
    "not_possible": SessionError,
    "width_not_possible": BudgetError,
}
_HERE = ("localhost", "127.0.0.1", "::1")


class Response(NamedTuple):
    """What a service sent."""

    status: int  # of HTTP; 0 where nothing came
    content: bytes
    kind: str = ""  # the media type
    retry_after: str = ""


class Connection:
    """A connection to one session of a service, as one user; see ``connect``. Threads share it in turns."""

    def __init__(self, url: str, *, token: str, session: str | None = None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or port == -1:
            raise ServiceError(
                "expected the URL of a service, such as http://127.0.0.1:8000, got another text"
            )
        token = token.strip()  # as a file of it ends
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ServiceError("expected a token as pmw user add printed it, got another text")
        if parts.scheme == "http" and parts.hostname not in _HERE:
            warnings.warn("the token crosses the network unencrypted; use https://", stacklevel=4)
        self._lock = threading.Lock()
        if parts.scheme == "http":
            self._http = http.client.HTTPConnection(parts.hostname, port, timeout=_SECONDS)
        else:
            context = ssl.create_default_context()
            self._http = http.client.HTTPSConnection(parts.hostname, port, timeout=_SECONDS, context=context)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._base, self.name = _base_and_name(parts.path)
        try:
            self.name = session or self.name or self._only_session()
        except BaseException:
            self.close()
            raise

    @property
    def place(self) -> str:
        """Host and port."""
        return f"{self._http.host}:{self._http.port}"

    def sent(self, method: str, address: str, body: Mapping[str, Any] | None = None, **how: Any) -> Response:
        """Return a good response from below a session's address; who is busy or silent is asked again."""
        return self._sent(method, f"{self._base}/sessions/{quote(self.name, safe='')}{address}", body, **how)

    def close(self) -> None:
        """Let go of the connection; the next request makes another."""
        with self._lock:
            self._http.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _only_session(self) -> str:
        content = self._sent("GET", f"{self._base}/sessions").content
        try:
            names = [str(one["name"]) for one in json.loads(content)["sessions"]]
        except UNREADABLE:
            raise ServiceError("expected a list of sessions, got something else; look at the URL") from None
        if len(names) != 1:
            raise ServiceError(f"give session=, one of {_told(', '.join(names)) or 'none'}")
        return names[0]

    def _sent(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = "application/json",
        key: str | None = None,
        again: bool = True,
    ) -> Response:
        content = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Accept": accept}
        headers |= {} if key is None else {"Idempotency-Key": key}
        headers |= {} if content is None else {"Content-Type": "application/json"}
        for turn in range(_TRIES):
            found = self._tried(method, path, content, headers)
            may = turn < _TRIES - 1 and (found.status == 429 or (again and found.status in (0, 503)))
            if not may:
                break
            time.sleep(pause_before(turn + 1, found.retry_after, drawn_part()))
        if found.status != 200:
            raise _refusal(found.status, found.content)
        return found

    def _tried(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> Response:
        with self._lock:
            try:
                self._http.request(method, path, content, headers)
                response = self._http.getresponse()
                told = response.getheader("Retry-After", "")
                kind = response.headers.get_content_type()
                content = response.read(_LARGEST + 1)
                if len(content) <= _LARGEST:
                    return Response(response.status, content, kind, told)
            except (OSError, http.client.HTTPException):
                pass
            self._http.close()
            return Response(0, b"")


def pause_before(turn: int, told: str, drawn: float) -> float:
    """Return how many seconds to wait before a request is made again.

    Args:
        turn: 1 for the second try.
        told: the header Retry-After of the refusal; empty for none.
        drawn: in [0, 1], by which clients that were refused together do not come back together.
    """
    if told.isascii() and told.isdecimal():
        return min(float(told[:6]), _LONGEST_TOLD) * (1 + drawn / 2)
    return min(0.1 * 2.0 ** (turn - 1), _LONGEST_PAUSE) * (1 + drawn) / 2


def drawn_part() -> float:
    """Return a number in [0, 1) that clients share by chance alone: the last digits of the clock."""
    return time.perf_counter_ns() // 100 % 1000 / 1000


def _base_and_name(path: str) -> tuple[str, str]:
    """Return the path of a service, and the name of the session that follows it, if any."""
    parts = [part for part in path.split("/") if part]
    for place, part in enumerate(parts[:-1]):
        if part in ("sessions", "page"):
            return "".join(f"/{one}" for one in parts[:place]), parts[place + 1]
    return "".join(f"/{part}" for part in parts), ""


def _refusal(status: int, content: bytes) -> Exception:
    try:
        error = json.loads(content)["error"]
        code, message = str(error.get("code", "")), _told(str(error["message"]))
    except UNREADABLE:
        told = "the service does not answer" if status == 0 else "the service refuses the request"
        return ServiceError(told, status=status or None)
    if code in ("not_paid", "above_ceiling"):
        return PriceError(message, price=float(error.get("price", 1)), code=code)
    if code in _KINDS:
        return _KINDS[code](message)
    if status in (400, 409):
        position = error.get("position")
        return QueryError(message, code=code, position=position if isinstance(position, int | str) else None)
    return ServiceError(message, status=status or None)


def _told(text: str) -> str:
    """Return what a service says, in one line for a terminal."""
    return terminal_text(text[:_LONGEST_MESSAGE]).replace("\n", " ")[:_LONGEST_MESSAGE]
