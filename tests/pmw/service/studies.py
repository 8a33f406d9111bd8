"""The session that the tests of a service share, and services over it, in this process and in another."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from io import StringIO
from json import loads
from pathlib import Path
from typing import Any

import pmw
from pmw.data import TableFile
from pmw.service.users import Role, User, UsersFile
from queries import Domain, IntegerAttribute
from tests import worlds
from tests.waiting import WAIT, joined

INITIALIZE = {  # what an assistant sends first
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}  # fmt: skip


def opened_study(folder: Path) -> Path:
    """Return the file of a new session over the people in a file, by single years."""
    worlds.PEOPLE.frame.to_csv(folder / "people.csv", index=False)
    table, path = TableFile(folder / "people.csv"), folder / "study.pmw"
    options = pmw.Options(opening=pmw.Opening.ONE_WAY)  # so that something is left to pay for
    age, *others = worlds.WHOLE_YEARS.domain
    assert isinstance(age, IntegerAttribute)
    domain = Domain((replace(age, resolution=1), *others), name="people")  # whose years are summed on request
    pmw.open_session(table, domain, epsilon=1, delta=1e-9, path=path, options=options).close()
    return path


@contextmanager
def served(path: Path, users: UsersFile) -> Iterator[str]:
    """Serve a session in this process, and yield the address."""
    from pmw.service.hosting import hosting

    with hosting([path], users) as service, serving(service) as url:
        yield url


@contextmanager
def serving(service: Any) -> Iterator[str]:
    """Serve sessions in this process, and yield the address."""
    import uvicorn

    from pmw.service.app import create_app
    from pmw.service.guard import Log

    config = uvicorn.Config(create_app(service, Log(StringIO())), port=0, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


class Running:
    """A service in a process of its own."""

    def __init__(self, study: Path, users: Path, *more: str) -> None:
        served = ["serve", str(study), "--users", str(users), "--port", "0", *more]
        command = [sys.executable, "-m", "pmw", *served]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.told = self.process.stdout.readline()
        if not self.told:
            raise AssertionError(self.process.communicate()[1])
        self.url = self.told.split()[2].rstrip(";")
        self.port = int(self.url.rpartition(":")[2])
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        joined(self._reader)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def posted(address: str, headers: dict[str, str]) -> dict[str, Any]:
    """Return what a server tells the application of a request."""
    return {
        "type": "http", "method": "POST", "path": address, "raw_path": address.encode(), "query_string": b"",
        "headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()],
        "http_version": "1.1", "scheme": "http", "server": ("testserver", 80), "client": ("c", 1),
    }  # fmt: skip


# --- Postgres' protocol -------------------------------------------------------------------------------------


class Wired:
    """A service by Postgres' protocol, its log, and those who connect to it."""

    def __init__(self, listening: socket.socket, service: Any) -> None:
        from pmw.service.guard import Log
        from pmw.service.wire_server import WireServer

        self.service, self.log, self._tokens = service, StringIO(), dict[str, str]()
        self.server = WireServer(listening, service, Log(self.log))
        self.port = int(listening.getsockname()[1])
        self.hosted = service._hosted["study"]
        self.opened: list[Any] = []

    def token(
        self, name: str = "ann", share: Any = Fraction(1, 2), role: Role = Role.ANALYST, **how: Any
    ) -> str:
        """Return the token of a user, who is new at the first call."""
        if name not in self._tokens:
            self._tokens[name] = self.service.users.add(User(name, role, Fraction(share), **how), beyond=True)
        return self._tokens[name]

    def connect(
        self, name: str = "ann", *, own: str | None = None, autocommit: bool = True, database: str = "study",
        options: str = "", **choices: Any,
    ) -> Any:  # fmt: skip
        """Connect as a user, or with a token; autocommit unless told."""
        import psycopg

        made = psycopg.connect(
            host="127.0.0.1", port=self.port, user="anybody", password=own or self.token(name, **choices),
            dbname=database, autocommit=autocommit, options=options, connect_timeout=int(WAIT),
        )  # fmt: skip
        self.opened.append(made)
        return made

    def raw(self, own: str | None = None) -> socket.socket:
        """Return a connection that has signed in, for messages that no driver sends."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT)
        client.sendall(start() + packed(b"p", own or self.token()))
        until_ready(client)
        return client

    @property
    def spent(self) -> Fraction:
        return Fraction(self.hosted.session.state.ledger.spent)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of the log about an event."""
        return [one for one in map(loads, self.log.getvalue().splitlines()) if one["event"] == event]


@contextmanager
def wired(service: Any) -> Iterator[Wired]:
    """Serve the study by Postgres' protocol in this process."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        made = Wired(listening, service)
        try:
            yield made
        finally:
            for one in made.opened:
                one.close()
            made.server.close()
        assert not made.server._open


def packed(kind: bytes, *fields: str | bytes) -> bytes:
    """Return a message of texts and other fields."""
    body = b"".join(one if isinstance(one, bytes) else one.encode() + b"\0" for one in fields)
    return kind + struct.pack("!I", len(body) + 4) + body


def start(database: str = "study") -> bytes:
    """Return what a client sends first."""
    body = struct.pack("!I", 3 << 16) + f"user\0ann\0database\0{database}\0\0".encode()
    return struct.pack("!I", len(body) + 4) + body


def until_ready(client: socket.socket) -> list[tuple[bytes, bytes]]:
    """Return the messages that come, up to the one that says that the server waits."""
    found: list[tuple[bytes, bytes]] = []
    while not found or found[-1][0] != b"Z":
        head = client.recv(5, socket.MSG_WAITALL)
        if len(head) < 5:
            break
        size = struct.unpack("!I", head[1:])[0] - 4
        found.append((head[:1], client.recv(size, socket.MSG_WAITALL) if size else b""))
    return found
