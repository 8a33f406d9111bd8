"""The server: one process with one worker, which ends gracefully and does not wait for slow clients."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pmw.errors import ServiceError
from pmw.service.app import create_app
from pmw.service.guard import Log
from pmw.service.hosting import hosting, names_of
from pmw.service.limits import KEPT_CONNECTIONS, MOST_CONNECTIONS, MOST_IDLE, Rate
from pmw.service.users import UsersFile
from pmw.service.wire_server import WireServer
from queries.frozen import dataclass

_HEADER_SECONDS = 10.0  # for the head of a request
_IDLE_SECONDS = 5  # between two requests of a connection
_ENDING_SECONDS = 30  # for the requests that are being answered at the end
_HEADER_BYTES = 2**14


class PatientProtocol(H11Protocol):
    """HTTP whose patience ends: the head of a request comes in time, or the connection closes.

    Where many connections wait for a request, those that wait longest close for new ones.
    """

    _late: asyncio.TimerHandle | None = None
    _idle_since = 0.0  # seconds of the loop's clock

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered, or read after its head; one that is closing waits as well."""
        return self.transport.is_closing() or self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "connections": self.connections}  # the guard counts them
        self._idle_since = self.loop.time()
        self._make_room()
        self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Read what came, and wait on where it ends within the head of a request."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _make_room(self) -> None:
        """Close what waited longest: of this address, and of those with the most idle where all are many."""
        others = (one for one in self.connections if isinstance(one, PatientProtocol) and one is not self)
        idle = sorted((one for one in others if one.is_idle), key=lambda one: one._idle_since)
        own = [one for one in idle if one._host == self._host]
        closed = own[: max(0, len(own) + 1 - MOST_IDLE)]
        left = [one for one in idle if one not in closed]
        crowds = Counter(one._host for one in left)
        excess = len(self.connections) - len(closed) - (MOST_CONNECTIONS - KEPT_CONNECTIONS)
        for _ in range(min(excess, len(left))):
            longest = max(left, key=lambda one: crowds[one._host])  # the first of the most is the oldest
            crowds[longest._host] -= 1
            left.remove(longest)
            closed.append(longest)
        for one in closed:
            one.transport.abort()  # a closing one would wait until its client has read everything

    @property
    def _host(self) -> str:
        return self.client[0] if self.client else ""

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class EndingServer(uvicorn.Server):
    """A server that ends long requests first, at their next turn: what is answered of them stands."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]) -> None:
        super().__init__(config)
        self._end = end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, after a signal."""
        self._end()
        await super().shutdown(sockets)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 8000
    postgres: int | None = None  # the port of Postgres' protocol
    behind_tls: bool = False  # clients reach it by a proxy that speaks TLS, at whatever address
    assistants_at_most: Fraction | None = None  # without a person, by those of a user at a session


def serve(
    paths: Sequence[Path],
    users: UsersFile,
    address: Address,
    *,
    rate: Rate | None = None,
    audit: Path | None = None,
    ready: Callable[..., None] = lambda *_: None,
) -> None:
    """Serve sessions until the process is told to end; what is being answered then is finished first.

    Args:
        ready: is called with the addresses, of HTTP and of Postgres' protocol, once they can be used.
    """
    log = Log()
    with (
        _sockets(address) as sockets,
        ExitStack() as last,  # after the sessions are closed, and the last thread has ended
        hosting(paths, users, rate, audit) as service,
        ExitStack() as wires,  # before that
    ):
        service.unasked = address.assistants_at_most or Fraction(0)
        told = [
            f"{kind}://{_place_of(one)}" for kind, one in zip(("http", "postgresql"), sockets, strict=False)
        ]
        for wire in sockets[1:]:
            wires.callback(WireServer(wire, service, log).close)
        if not (address.behind_tls or _is_loopback(sockets[0])):
            log.write(
                "warning", message="tokens cross the network unencrypted; put a proxy with TLS before it"
            )
        config = uvicorn.Config(
            create_app(service, log, ready=lambda: ready(*told)),
            http=PatientProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",  # its texts quote addresses; the application has its own log
            access_log=False,
            server_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_ENDING_SECONDS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
        before = {name: signal.signal(name, _ignored) for name in (signal.SIGTERM, signal.SIGINT)}
        last.callback(log.write, "end")
        log.write("start", address=told[0], also=told[1:], sessions=[*names_of(paths)])
        gc.freeze()  # what stays is not gone through again while large requests are carried out
        try:
            EndingServer(config, service.end).run(sockets=sockets[:1])
        finally:
            gc.unfreeze()
            for name, handler in before.items():
                signal.signal(name, handler)


def _ignored(_: int, __: object) -> None:
    """Do nothing: the server, which ends by the signal, sends it again after it has ended."""


def _is_loopback(listening: socket.socket) -> bool:
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


@contextmanager
def _sockets(address: Address) -> Iterator[list[socket.socket]]:
    """Yield what listens: to HTTP, and where it is wanted to Postgres' protocol."""
    with ExitStack() as held:
        sockets = [held.enter_context(_listening(address.host, address.port))]
        if address.postgres is not None:
            if not (address.behind_tls or _is_loopback(sockets[0])):
                raise ServiceError(
                    f"{address.host} is an address of a network, where a token would be a password in clear; "
                    "put a proxy with TLS before --postgres, and tell so with --behind-tls"
                )
            sockets.append(held.enter_context(_listening(address.host, address.postgres)))
        yield sockets


def _place_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family, backlog=1024)
        # Connections inherit it: else the end of a response waits 40 ms for the client's acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, OverflowError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no address"
        raise ServiceError(f"{host}, port {port}: the service cannot listen there: {reason}") from None
