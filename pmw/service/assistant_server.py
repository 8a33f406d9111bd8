"""The server of assistants: the tools of ``pmw mcp`` at an address of each session, for whoever has a token.

Each token has a server of its own at each session, which knows its own dialogues alone, and ends with it.
What may be paid without a person is counted by user and session until the service ends.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace
from threading import Event
from time import monotonic

from fastapi import HTTPException, Request, Response
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from pmw.errors import PMWError, ServiceError
from pmw.service import asking
from pmw.service.access import asks, note, used, user_of
from pmw.service.assistants import Purse, server_of
from pmw.service.guard import UNKNOWN, Log, code_of, told_of
from pmw.service.hosting import ForbiddenError, Hosted, Service, url_of
from pmw.service.limits import MOST_CALLS, OWN_CALLS, BusyError
from pmw.service.users import User, digest_of
from pmw.session.accounts import Account
from pmw.session.dialogue import Analyst
from pmw.session.session_requests import Kinds, Result, SessionRequest
from queries.parsing import is_statement

_MOST_SERVERS, _OWN_SERVERS = 64, 8  # tokens at sessions, and of them those of one user
_OWN_DIALOGUES = 4  # of a token at a session
_IDLE_SECONDS = 1800.0  # without a request, as of a dialogue
_LOOK_SECONDS = 1.0  # between two looks at whether a token is still good
_ANSWERS = (Kinds.ASK, Kinds.SQL, Kinds.ASK_WITHIN, Kinds.SQL_WITHIN)
_REQUEST: ContextVar[Request] = ContextVar("request")  # that a tool works for


class _ServedAnalyst(Analyst):
    """A user of a service, each of whose questions waits, is limited and is written down as one over HTTP."""

    def __init__(self, hosted: Hosted, user: User) -> None:
        super().__init__(hosted.session, Account.of(user.name, user.share))
        self._hosted = hosted

    def do(self, request: SessionRequest[Result]) -> Result:
        http = _REQUEST.get()
        del http.state.found  # a person may have taken long to agree
        try:
            user = user_of(http)
        except ServiceError as error:  # it names the file
            raise ServiceError(told_of(error)[2]) from error
        if user is None or user.name != self.name:
            raise ForbiddenError(UNKNOWN)
        try:
            with self._hosted.queue.place_of_thread(user.name), used(http, user, self._hosted.name) as hosted:
                found = self._found(http, hosted.asking(user, http), request)
        except PMWError as error:
            http.state.code = code_of(error)
            raise
        http.state.code = None  # of what a person agreed to since
        return found

    def _found(self, http: Request, analyst: Analyst, request: SessionRequest[Result]) -> Result:
        if request.question is None:
            return analyst.do(request)
        http.state.questions, text, hosted = 1, request.question, self._hosted
        form = {"sql" if is_statement(text) else "where": text}
        asks(http, (request.kind.name, form, None))
        query = asking.read_one(analyst, form, aligned=False).query
        asks(http, (request.kind.name, form, query))
        found: Result = asking.done(analyst, hosted.large, replace(request, question=query))
        if request.kind in _ANSWERS:
            note(http, lambda history: history.add(hosted.name, self.name, asking.texts_of([form])))
        return found


class _Server:
    """The dialogues of one token at one session."""

    task: asyncio.Task[None]  # which runs them

    def __init__(self, hosted: Hosted, user: User, purse: Purse, log: Log) -> None:
        self.hosted, self.user, self.calls, self.since = hosted, user.name, 0, monotonic()
        made = server_of(purse, log)
        made.streamable_http_app(
            max_sessions=_OWN_DIALOGUES,
            # No page of another site has the token, and a proxy may have any name.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self.manager = made.session_manager


class _Answering(Response):
    """What a server answers a request, in parts where a person is asked within it."""

    def __init__(self, request: Request, server: _Server) -> None:
        super().__init__()
        self._request, self._server = request, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _REQUEST.set(self._request)
        self._server.calls += 1
        try:
            await self._server.manager.handle_request(scope, receive, send)
        finally:
            self._server.calls, self._server.since = self._server.calls - 1, monotonic()


class Servers:
    """The servers of a service, one for each token at a session."""

    def __init__(self, service: Service, log: Log) -> None:
        self._service, self._log, self._lock = service, log, asyncio.Lock()
        self._servers: dict[tuple[bytes, str], _Server] = {}
        self._purses: dict[tuple[str, str], Purse] = {}

    async def answer(self, request: Request, user: User, name: str) -> Response:
        """Return what answers a request of a user, who is told by a token and by no cookie."""
        if "authorization" not in request.headers:
            raise HTTPException(401, UNKNOWN)
        hosted = self._service.hosted(user, name)
        request.state.session = name
        digest = digest_of(request.headers["authorization"].partition(" ")[2])
        async with self._lock:
            server = self._servers.get((digest, name)) or await self._made(request, digest, hosted, user)
        calls = [one.user for one in self._servers.values() for _ in range(one.calls)]
        if calls.count(user.name) >= OWN_CALLS or len(calls) >= MOST_CALLS:
            raise BusyError("too many requests of assistants are open; end some, or ask again later")
        return _Answering(request, server)

    async def _made(self, request: Request, digest: bytes, hosted: Hosted, user: User) -> _Server:
        own = sum(one.user == user.name for one in self._servers.values())
        if own >= _OWN_SERVERS or len(self._servers) >= _MOST_SERVERS:
            raise BusyError("too many assistants are connected; ask again when some have ended", 60)
        most, whose = self._service.unasked, (user.name, hosted.name)
        if whose not in self._purses:
            place = url_of(str(request.base_url), hosted.name)
            self._purses[whose] = Purse(_ServedAnalyst(hosted, user), place, most, most)
        server = _Server(hosted, user, self._purses[whose], self._log)
        started = asyncio.Event()
        server.task = asyncio.create_task(self._keep((digest, hosted.name), server, started))
        await asyncio.wait(
            [server.task, begun := asyncio.create_task(started.wait())], return_when="FIRST_COMPLETED"
        )
        begun.cancel()
        return server

    async def _keep(self, key: tuple[bytes, str], server: _Server, started: asyncio.Event) -> None:
        """Run a server until its token is no longer good for the session, or nobody asks any more."""
        async with server.manager.run():
            self._servers[key] = server
            started.set()
            while self._is_good(key[0], server):
                await asyncio.sleep(_LOOK_SECONDS)
            del self._servers[key]

    def _is_good(self, digest: bytes, server: _Server) -> bool:
        try:
            server.hosted.working.look(Event())
            user = self._service.users.find_digest(digest)
        except ServiceError:  # it ends, or users cannot be looked up
            return False
        is_idle = not server.calls and monotonic() - server.since > _IDLE_SECONDS
        return user is not None and user.may_use(server.hosted.name) and not is_idle
