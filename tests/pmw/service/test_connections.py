"""Connections: those of nobody never take the places of health checks and of requests with a good token."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pmw.errors import PMWError, ServiceError
from pmw.service.connection import Connection, Response

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

import uvicorn

from pmw.service.app import create_app
from pmw.service.guard import Log
from pmw.service.hosting import Service
from pmw.service.server import PatientProtocol

pytest.importorskip("uvicorn", reason="the extra 'service' is not installed")


MOST, KEPT, IDLE = 10, 3, 4
ASK = "/sessions/study/ask"


class Crowd:
    """A service in this process, and connections to it that stay open."""

    def __init__(self, port: int, held: ExitStack) -> None:
        self.port, self._held = port, held

    def connect(self, host: str = "127.0.0.1") -> socket.socket:
        """Open a connection that sends nothing."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(host, 0))
        return self._held.enter_context(made)

    def begin(self, headers: dict[str, str] | None = None) -> socket.socket:
        """Begin a request whose body does not come; return once the service waits for it."""
        made = self.connect()
        sent = {"Host": "x", "Content-Length": "9", "Expect": "100-continue", **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        made.sendall(f"POST {ASK} HTTP/1.1\r\n{lines}\r\n".encode())
        assert made.recv(1000).startswith(b"HTTP/1.1 100 ")
        return made

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str | None, bytes]:
        """Return the status, the Retry-After and the content of a request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.getheader("Retry-After"), response.read()
        finally:
            connection.close()


def is_open(connection: socket.socket) -> bool:
    """Tell whether a connection still gets an answer."""
    try:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        return whole(connection).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def whole(connection: socket.socket) -> bytes:
    """Return a response to a health check; nothing where the connection ends before."""
    found = b""
    while not found.endswith(b"}"):
        part = connection.recv(1000)
        if not part:
            return b""
        found += part
    return found


@pytest.fixture
def crowd(service: Service, log: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    for module in ("guard", "server"):
        monkeypatch.setattr(f"pmw.service.{module}.MOST_CONNECTIONS", MOST)
        monkeypatch.setattr(f"pmw.service.{module}.KEPT_CONNECTIONS", KEPT)
    monkeypatch.setattr("pmw.service.server.MOST_IDLE", IDLE)
    ready = threading.Event()
    app = create_app(service, Log(log), ready.set)
    server = uvicorn.Server(uvicorn.Config(app, http=PatientProtocol, ws="none", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as held:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(60)
            yield Crowd(listening.getsockname()[1], held)
        finally:
            server.should_exit = True
            held.close()
            thread.join(60)


def test_of_one_address_the_connections_that_wait_longest_close(crowd: Crowd) -> None:
    idle = [crowd.connect() for _ in range(IDLE + 2)]
    assert crowd.get("/health")[0] == 200  # it was idle too, until its head came
    assert [is_open(connection) for connection in idle] == [False] * 3 + [True] * (IDLE - 1)


def test_a_connection_waits_anew_after_each_request(crowd: Crowd) -> None:
    first, second = crowd.connect(), crowd.connect()
    assert is_open(second)
    assert is_open(first)
    for _ in range(IDLE - 1):
        assert is_open(crowd.connect())
    assert [is_open(first), is_open(second)] == [True, False]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")
def test_where_all_are_many_the_address_with_the_most_gives_way(crowd: Crowd, add: Any) -> None:
    alone = crowd.connect("127.0.0.9")
    idle = [crowd.connect(f"127.0.0.{place % 3 + 2}") for place in range(3 * IDLE)]
    assert crowd.get("/sessions", add("ann"))[0] == 200
    assert is_open(alone)
    assert sum(map(is_open, idle)) == MOST - KEPT - 2  # room for the one alone and for the request
    assert crowd.get("/sessions")[0] == 401  # who is nobody is answered too


def test_requests_of_nobody_leave_places_to_health_and_good_tokens(crowd: Crowd, add: Any, log: Any) -> None:
    ann = add("ann")
    for _ in range(MOST - KEPT):
        crowd.begin()
    bad = [{"Authorization": "Bearer x"}, {"Authorization": "Basic x"}, {"Cookie": "pmw_session=x"}]
    for headers in ({}, *bad):
        status, retry, content = crowd.get("/sessions", headers)
        assert (status, retry, json.loads(content)["error"]["code"]) == (503, "1", "busy")
    assert crowd.get("/health")[0] == 200
    assert crowd.get("/sessions", ann)[0] == 200
    for _ in range(KEPT):
        crowd.begin(ann)
    status, retry, content = crowd.get("/sessions", ann)
    assert (status, retry, json.loads(content)["error"]["code"]) == (503, "1", "busy")
    assert crowd.get("/health")[0] == 200
    assert sum(json.loads(line)["status"] == 503 for line in log.getvalue().splitlines()) == 5


def test_a_cookie_is_a_good_token_too(crowd: Crowd, add: Any) -> None:
    token = add("ann")["Authorization"].partition(" ")[2]
    connection = http.client.HTTPConnection("127.0.0.1", crowd.port, timeout=60)
    connection.request("POST", "/sign-in", f"token={token}")
    response = connection.getresponse()
    response.read()
    connection.close()
    cookie = str(response.getheader("Set-Cookie")).partition(";")[0]
    for _ in range(MOST - KEPT):
        crowd.begin()
    assert crowd.get("/sessions", {"Cookie": cookie})[0] == 200
    assert crowd.get("/sessions", {"Cookie": cookie + "x"})[0] == 503


def test_health_waits_for_no_body(crowd: Crowd) -> None:
    held = [crowd.connect() for _ in range(2)]
    for connection in held:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        assert whole(connection).startswith(b"HTTP/1.1 200 ")


# --- The connection: whatever a service sends, a client gets a result or an error of ours -------------------


DEEP = b"[" * 100_000
BROKEN = (
    b"",
    b"{}",
    b"[]",
    b"5",
    b"null",
    b"\xff",
    DEEP,
    b'{"error": 5}',
    b'{"error": {"code": []}}',
    b'{"sessions": 5}',
)


def connection(monkeypatch: pytest.MonkeyPatch, status: int, content: bytes) -> Connection:
    monkeypatch.setattr(Connection, "_tried", lambda *_: Response(status, content))
    monkeypatch.setattr("pmw.service.connection.time.sleep", lambda _: None)
    return Connection("http://127.0.0.1:9", token="x", session="study")  # noqa: S106


@pytest.mark.parametrize("content", BROKEN, ids=lambda content: content[:20].decode(errors="replace"))
@pytest.mark.parametrize("status", [200, 400, 403, 500])
def test_what_is_no_answer_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, status: int, content: bytes
) -> None:
    held = connection(monkeypatch, status, content)
    if status != 200:
        with pytest.raises(PMWError):
            held.sent("GET", "/ledger")
    with pytest.raises(ServiceError):
        Connection("http://127.0.0.1:9", token="x")  # noqa: S106


def test_messages_of_a_service_are_fit_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"error": {"code": "x", "message": "\\u001b]0;owned\\u0007' + b"a" * 5000 + b'"}}'
    with pytest.raises(ServiceError) as told:
        connection(monkeypatch, 403, content).sent("GET", "/ledger")
    assert str(told.value).isprintable()
    assert len(str(told.value)) <= 2000
