"""Access: who makes a request, by a token in its header or by the page's cookie."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from pmw.errors import ServiceError
from pmw.service.audit import Asked
from pmw.service.guard import SIGN_IN, UNKNOWN, code_of
from pmw.service.history import History
from pmw.service.hosting import Hosted, Service
from pmw.service.users import User, digest_of
from queries.linear import LinearQuery
from queries.statements import Statement

COOKIE = "pmw_session"
_SIGN_IN_FIELDS = 8
_MOST_COOKIES = 10  # of one user
_PAGE = re.compile(r"/page/[\x21-\x5b\x5d-\x7e]*")  # an address of the page, as browsers write it
_bearer = HTTPBearer(auto_error=False, description="A token that pmw user add printed.")
router = APIRouter(include_in_schema=False)


class SignedIn:
    """Who is signed in on the page: cookies in memory, which end with the process and with their tokens."""

    def __init__(self) -> None:
        self._cookies: dict[str, dict[bytes, bytes]] = {}  # of each user: cookie to token, as digests
        self._lock = threading.Lock()

    def add(self, name: str, token: str) -> str:
        """Return a new cookie for a user's token; where the user has too many, the user's oldest one ends."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            own = self._cookies.setdefault(name, {})
            own[digest_of(cookie)] = digest_of(token)
            if len(own) > _MOST_COOKIES:
                del own[next(iter(own))]
        return cookie

    def token_digest(self, cookie: str) -> bytes | None:
        """Return the digest of the token that a cookie stands for; None where it stands for none."""
        digest = digest_of(cookie)
        with self._lock:
            return next((own[digest] for own in self._cookies.values() if digest in own), None)

    def end(self, cookie: str) -> None:
        """Forget a cookie."""
        with self._lock:
            for own in self._cookies.values():
                own.pop(digest_of(cookie), None)


def service_of(request: Request) -> Service:
    """Return the service that answers a request."""
    service: Service = request.app.state.service
    return service


def signed_in(request: Request) -> User | None:
    """Return whose cookie comes with a request; None where none does, or its token is no longer good."""
    cookies: SignedIn = request.app.state.signed_in
    digest = cookies.token_digest(request.cookies.get(COOKIE, ""))
    return None if digest is None else service_of(request).users.find_digest(digest)


def user_of(request: Request) -> User | None:
    """Return who makes a request, by its token, or without such a header by its cookie; looked up once."""
    if not hasattr(request.state, "found"):
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if "authorization" not in request.headers:
            request.state.found = signed_in(request)
        else:
            is_bearer = scheme.lower() == "bearer"
            request.state.found = service_of(request).users.find(token) if is_bearer else None
    found: User | None = request.state.found
    return found


def current_user(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None
) -> User:
    """Return who makes a request, and count it."""
    user = user_of(request)
    if user is None:
        raise HTTPException(401, UNKNOWN)
    if "authorization" not in request.headers and request.method not in ("GET", "HEAD"):
        require_own_page(request)
    _count(request, user)
    return user


CurrentUser = Annotated[User, Depends(current_user)]


def _count(request: Request, user: User) -> None:
    request.state.user = user.name
    service_of(request).rate.take(user.name)
    note(request, lambda history: history.note_use(user.name))


def is_known(request: Request) -> bool | None:
    """Tell whether a request comes with a good token or cookie; None where users cannot be looked up."""
    try:
        return user_of(request) is not None
    except ServiceError:
        return None


@contextmanager
def used(request: Request, user: User, name: str) -> Iterator[Hosted]:
    """Yield a session of the user's, which is held open while this thread works, and have the log name it.

    What ``asks`` told is in the audit before anything is answered.
    """
    service = service_of(request)
    hosted = service.hosted(user, name)
    request.state.session = name
    with hosted.working.thread():
        try:
            yield hosted
        except Exception as error:
            _write_down(request, user, hosted, error)
            raise
        _write_down(request, user, hosted)
        note(request, lambda history: history.note_spending(name, hosted.session.state.ledger.share))


def asks(request: Request, *questions: tuple[str, object, LinearQuery | Statement | None]) -> None:
    """Tell what a request asks, for the audit: of what kind, as it was sent, and as it was read."""
    request.state.asked, request.state.results = questions, None


def came(request: Request, *results: object) -> None:
    """Tell what came of each question of a request that goes on after an error."""
    request.state.results = results


def _write_down(request: Request, user: User, hosted: Hosted, error: Exception | None = None) -> None:
    service, questions = service_of(request), getattr(request.state, "asked", ())
    if service.audit is None or not questions:
        return
    results = request.state.results if error is None else None
    told = [error] * len(questions) if results is None else results
    asked = [
        Asked(kind, _text_of(sent, read), code_of(one) if isinstance(one, Exception) else None)
        for (kind, sent, read), one in zip(questions, told, strict=True)
    ]
    request.state.asked = ()
    service.write_down(user.name, hosted, request.state.request_id, asked)


def _text_of(sent: object, read: LinearQuery | Statement | None) -> str:
    if isinstance(read, LinearQuery):
        return read.to_json()
    return (read.text if read is not None else "") or json.dumps(sent, sort_keys=True)


def note(request: Request, kept: Callable[[History], None]) -> None:
    """Keep something of a request in the history; where that fails the log tells, and all goes on."""
    failed = partial(request.app.state.log.failure, request_id=request.state.request_id)
    service_of(request).note(kept, failed)


async def in_queue(request: Request, user: CurrentUser, name: str) -> AsyncIterator[None]:
    """Wait for a place at a session of the user's, without taking a thread."""
    async with service_of(request).hosted(user, name).queue.place(user.name):
        yield


InQueue = Depends(in_queue, scope="function")  # the place is free again before the response is sent


def require_own_page(request: Request) -> None:
    """Refuse a request that a page of another site made."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        own = site in ("same-origin", "none")
    else:
        own = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not own:
        raise HTTPException(403, "expected a request of this page, got another site's")


async def _signing_in(request: Request) -> tuple[str, str]:
    """Return the token of a form, and where to go then: to a page of this service, or to the first one."""
    text, fields = (await request.body()).decode(errors="replace"), dict[str, list[str]]()
    with suppress(ValueError):  # too many fields say nothing
        fields = parse_qs(text, max_num_fields=_SIGN_IN_FIELDS)
    token, to = (fields.get(name, [""])[0].strip() for name in ("token", "to"))
    return token, to if _PAGE.fullmatch(to) else "/"


@router.post(SIGN_IN, dependencies=[Depends(require_own_page)])
def sign_in(request: Request, form: Annotated[tuple[str, str], Depends(_signing_in)]) -> RedirectResponse:
    """Give the owner of a token a cookie for the page, and show the page that was wanted."""
    token, to = form
    user = service_of(request).users.find(token)
    if user is None:
        return RedirectResponse("/?refused=1", 303)
    _count(request, user)
    response = RedirectResponse(to, 303)
    cookies: SignedIn = request.app.state.signed_in
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, cookies.add(user.name, token), httponly=True, samesite="strict", secure=secure, path="/"
    )
    return response


@router.post("/sign-out", dependencies=[Depends(require_own_page)])
def sign_out(request: Request) -> RedirectResponse:
    """End the page's cookie."""
    cookies: SignedIn = request.app.state.signed_in
    cookies.end(request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE, path="/")
    return response
