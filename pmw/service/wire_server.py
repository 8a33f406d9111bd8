"""The server of Postgres' wire protocol: its connections, one thread each, and what ends them.

TLS is a proxy's. The password is a user's token, the database a session.
"""

from __future__ import annotations

import hmac
import secrets
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from pmw.service.guard import UNKNOWN, Log
from pmw.service.hosting import ForbiddenError, Hosted, Service
from pmw.service.users import digest_of
from pmw.service.wire import (
    Fields,
    WireError,
    c_text,
    constant_of,
    data,
    described,
    forms_of,
    message,
    notice,
    parameters_of,
    refusal,
    statements,
    with_parameters,
)  # fmt: skip
from pmw.service.wire_dialogue import COMMANDS, Desk, Reply, Settings, WireDialogue, forgotten, word_of
from queries.catalogue import TEXT

MOST_WIRES, OWN_WIRES = 100, 20  # connections, and of them those of one user
STRANGERS = 20  # connections of nobody yet; a new one closes the one that waits longest
MOST_BYTES, _START_BYTES = 2**20, 2**13  # of a message, and of one before a token has come
_MOST_PARAMETERS, _MOST_KEPT, _MOST_PORTALS = 1000, 500, 10  # of a statement; of a connection
_START_SECONDS = 10.0  # until a token has come, and for the rest of a message that began
_IDLE_SECONDS, _SENDING_SECONDS, _ENDING_SECONDS = 3600.0, 60.0, 30.0
_PART_BYTES = 2**16
_CANCEL, _TLS, _GSS, _VERSION = 80877102, 80877103, 80877104, 3 << 16
_SHOWN = {
    "server_version": "15.0", "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres", "TimeZone": "UTC", "integer_datetimes": "on", "is_superuser": "off",
    "standard_conforming_strings": "on",
}  # fmt: skip  # that clients are told at the start


class WireServer:
    """Connections to the sessions of a service; the log has a line of each connection and statement."""

    def __init__(self, listening: socket.socket, service: Service, log: Log) -> None:
        self._listening, self.service, self.log = listening, service, log
        self._lock, self._ending = threading.Lock(), False
        self._open: dict[int, Connection] = {}
        self._desks: dict[str, Desk] = {}
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while not self._ending:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                time.sleep(0.05)  # such as too many open files
                continue
            with self._lock:
                strangers = [one for one in self._open.values() if one.user is None]
                if len(strangers) >= STRANGERS:
                    strangers[0].end()
                number = secrets.randbelow(2**31 - 1) + 1
                made = self._open[number] = Connection(self, connected, number)
            serving = threading.Thread(target=made.serve, daemon=True)
            serving.start()
            self._threads = [*filter(threading.Thread.is_alive, self._threads), serving]

    def desk(self, hosted: Hosted) -> Desk:
        """Return what the connections to a session share."""
        with self._lock:
            if hosted.name not in self._desks:
                self._desks[hosted.name] = Desk(hosted)
            return self._desks[hosted.name]

    def admit(self, connection: Connection, user: str) -> None:
        """Count a connection as a user's."""
        with self._lock:
            counts = Counter(one.user for one in self._open.values() if one.user is not None)
            if counts.total() >= MOST_WIRES or counts[user] >= OWN_WIRES:
                told = f"expected at most {OWN_WIRES} connections of a user, and {MOST_WIRES} of all"
                raise WireError("53300", f"{told}; close some", is_last=True)
            connection.user = user

    def leave(self, number: int) -> None:
        """Forget a connection."""
        with self._lock:
            self._open.pop(number, None)

    def cancel(self, number: int, key: bytes) -> None:
        """Cancel what a connection asks, for whoever has its key."""
        found = self._open.get(number)
        if found is not None and hmac.compare_digest(found.key, key):
            found.gone.set()

    def close(self) -> None:
        """End all connections; those that work end with their statement."""
        self._ending = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # else whoever accepts waits on
        self._listening.close()
        last = time.monotonic() + _ENDING_SECONDS
        while self._open and time.monotonic() < last:
            for one in list(self._open.values()):
                one.end()
            time.sleep(0.02)
        for thread in self._threads:  # one that is inside the engine must not outlive the interpreter
            thread.join(max(0.0, last - time.monotonic()))


class Gone(threading.Event):
    """Set by a request to cancel; or the client has left."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__()
        self._connected = connected

    def is_set(self) -> bool:
        """Whether nobody waits for the statement."""
        waiting = select.poll()
        try:
            waiting.register(self._connected, select.POLLIN)
            left = bool(waiting.poll(0)) and not self._connected.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            left = True
        return left or super().is_set()


class Portal:
    """A statement with the values of its parameters, if it has any, and what of its rows was sent."""

    def __init__(self, text: str, *, bound: bool = False, formats: Sequence[int] = ()) -> None:
        self.text, self.bound, self.formats = text, bound, formats
        self.reply: Reply | None = None
        self.sent = 0


class Connection:
    """One connection, and the number by which a request to cancel names it."""

    user: str | None = None
    _dialogue: WireDialogue

    def __init__(self, server: WireServer, connected: socket.socket, number: int) -> None:
        self._server, self._connected, self._number = server, connected, number
        self.key, self.gone = secrets.token_bytes(4), Gone(connected)
        self._read, self._out = connected.makefile("rb", _PART_BYTES), bytearray()
        # Statements, and the types of their parameters.
        self._prepared: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._portals: dict[str, Portal] = {}
        self._skips = self._busy = self._ends = False

    def end(self) -> None:
        """End the connection, once it waits for a message."""
        self._ends = True
        if not self._busy:
            with suppress(OSError):
                self._connected.shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        """Answer the client until it leaves."""
        began, reason = time.perf_counter(), "closed"
        try:
            self._connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._start():
                while self._next():
                    pass
        except WireError as error:
            reason = error.state
            with suppress(OSError):
                self._send(refusal(error))
                self._flush()
        except (TimeoutError, OSError, EOFError) as error:
            reason = "late" if isinstance(error, TimeoutError) else "left"
        except Exception as error:  # noqa: BLE001  # one connection fails, the service goes on
            reason = "failed"
            self._server.log.failure(error)
        finally:
            self._server.leave(self._number)
            with suppress(OSError):
                self._read.close()
                self._connected.close()
            took = round(1000 * (time.perf_counter() - began), 1)
            about = {"method": "postgres", "user": self.user, "ended": reason, "milliseconds": took}
            self._server.log.write("connection", **about)

    def _start(self) -> bool:
        """Find out who asks which session; return whether anything is asked."""
        self._connected.settimeout(_START_SECONDS)
        for _ in range(3):
            size, code = struct.unpack("!II", self._take(8))
            fields = Fields(self._take(size - 8) if 8 <= size <= _START_BYTES else b"")
            if code == _CANCEL:
                self._server.cancel(fields.number("!I"), fields.take(4))
                return False
            if code not in (_TLS, _GSS):
                self._sign_in(code, fields)
                return True
            self._connected.sendall(b"N")
        raise WireError("08P01", "expected the start of a connection, got another message", is_last=True)

    def _sign_in(self, code: int, fields: Fields) -> None:
        asked: dict[str, str] = {}
        while code >> 16 == _VERSION >> 16 and (name := fields.text()):
            asked[name] = fields.text()
        if not asked:
            told = "expected a client of version 3 of the protocol, got another"
            raise WireError("08P01", told, is_last=True)
        if code != _VERSION:
            self._send(message(b"v", struct.pack("!II", _VERSION, 0)))
        self._send(message(b"R", struct.pack("!I", 3)))
        self._flush()
        kind, size = struct.unpack("!cI", self._take(5))
        if kind != b"p" or not 4 <= size <= _START_BYTES:
            told = "expected a password, which is a token, got another message"
            raise WireError("08P01", told, is_last=True)
        service, digest = self._server.service, digest_of(Fields(self._take(size - 4)).text())
        user = service.users.find_digest(digest)
        if user is None:
            raise WireError("28P01", UNKNOWN, is_last=True)
        self._server.admit(self, user.name)
        service.note(lambda history: history.note_use(user.name), self._server.log.failure)
        try:
            hosted = service.hosted(user, asked.get("database") or asked.get("user", ""))
        except ForbiddenError:
            own = ", ".join(one.name for one in service.visible(user))
            told = "expected the name of one of your sessions as that of the database, got another"
            raise WireError("3D000", told, f"yours: {own}", is_last=True) from None
        self._dialogue = WireDialogue(service, self._server.desk(hosted), digest, self._server.log, self.gone)
        self._dialogue.settings = Settings.of_options(asked.get("options", ""))
        self._send(message(b"R", struct.pack("!I", 0)))
        self._send(b"".join(message(b"S", c_text(name), c_text(text)) for name, text in _SHOWN.items()))
        self._send(message(b"K", struct.pack("!I", self._number), self.key))
        self._ready()

    def _next(self) -> bool:
        self._connected.settimeout(_IDLE_SECONDS)
        kind = self._read.read(1)
        if not kind or kind == b"X" or self._ends:
            return False
        self._busy = True
        self._connected.settimeout(_START_SECONDS)
        size = struct.unpack("!I", self._take(4))[0]
        if not 4 <= size <= MOST_BYTES:
            raise WireError("54000", f"expected a message of at most {MOST_BYTES:,} bytes", is_last=True)
        fields = Fields(self._take(size - 4))
        self._connected.settimeout(_SENDING_SECONDS)
        if kind == b"S":
            self._skips = False
            self._ready()
        elif not self._skips:
            self._answer(kind, fields)
        self._busy = False
        return not self._ends

    def _answer(self, kind: bytes, fields: Fields) -> None:
        handlers: dict[bytes, Callable[[Fields], None]] = {
            b"Q": self._query, b"P": self._parse, b"B": self._bind, b"D": self._describe,
            b"E": self._execute, b"C": self._close, b"H": self._flush,
        }  # fmt: skip
        handler = handlers.get(kind)
        try:
            if handler is not None:
                handler(fields)
            elif kind not in (b"c", b"d", b"f"):  # what is left of a COPY
                raise WireError("0A000", "expected a query, or a part of one, got another message")
        except (OSError, EOFError):
            raise
        except Exception as error:  # noqa: BLE001  # one message fails, the connection goes on
            refused = self._dialogue.refusal_of(error)
            self._dialogue.fail()
            if refused.is_last:
                raise refused from None
            self._send(refusal(refused))
            self._skips = kind != b"Q"
        if kind == b"Q":
            self._ready()

    def _query(self, fields: Fields) -> None:
        several = statements(fields.text())
        if len(several) > 1 and not all(word_of(one) in COMMANDS for one in several):
            told = "expected one statement, or several of SET, BEGIN and the like; send them one by one"
            raise WireError("0A000", told)
        for one in several:
            portal = Portal(one)
            self._run(portal)
            if portal.reply is not None and portal.reply.columns is not None:
                self._header(portal)
            self._rows(portal, 0)
        if not several:
            self._send(message(b"I"))

    def _parse(self, fields: Fields) -> None:
        name, text, types = fields.name(), fields.text(), fields.numbers("I")
        several = statements(text)
        if len(several) > 1 or max(parameters_of(text), len(types)) > _MOST_PARAMETERS:
            told = f"expected one statement of at most {_MOST_PARAMETERS:,} parameters, got more"
            raise WireError("0A000", told)
        kept = sum(len(one) for other, (one, _) in self._prepared.items() if other != name)
        if len(self._prepared) >= _MOST_KEPT or kept + len(text) > MOST_BYTES:
            told = f"expected at most {_MOST_KEPT} prepared statements, of 1 MB; close some"
            raise WireError("54000", told)
        self._prepared[name] = several[0] if several else "", types
        self._send(message(b"1"))

    def _bind(self, fields: Fields) -> None:
        name, (text, types) = fields.name(), self._statement(fields.name())
        forms, values, formats = fields.numbers(), fields.values(), fields.numbers()
        forms = forms * len(values) if len(forms) == 1 else forms or (0,) * len(values)
        types += (0,) * (len(values) - len(types))
        if not len(forms) == len(values) == len(types) <= _MOST_PARAMETERS:
            raise WireError("08P01", "expected a form and a type of each parameter, got others")
        if len(self._portals) >= _MOST_PORTALS:
            raise WireError("54000", f"expected at most {_MOST_PORTALS} portals; close some")
        kinds, given = self._dialogue.parameters(text), zip(values, forms, types, strict=True)
        constants = [constant_of(*one, kinds.get(n, (TEXT, ""))[0]) for n, one in enumerate(given, 1)]
        self._portals[name] = Portal(with_parameters(text, constants), bound=bool(values), formats=formats)
        self._send(message(b"2"))

    def _describe(self, fields: Fields) -> None:
        kind, name = fields.take(1), fields.name()
        if kind == b"P":
            self._run(self._portal(name))
            self._header(self._portal(name))
            return
        text, told = self._statement(name)
        kinds = self._dialogue.parameters(text)
        told += (0,) * (parameters_of(text) - len(told))
        numbered = enumerate(told[: parameters_of(text)], 1)
        types = [one or kinds.get(number, (TEXT,))[0].oid for number, one in numbered]
        self._send(message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types)))
        columns = self._dialogue.columns(text) if text else None
        self._send(message(b"n") if columns is None else described(columns, [0] * len(columns)))

    def _execute(self, fields: Fields) -> None:
        portal, most = self._portal(fields.name()), fields.number("!I")
        self._run(portal)
        self._rows(portal, most)

    def _close(self, fields: Fields) -> None:
        kept = self._prepared if fields.take(1) == b"S" else self._portals
        kept.pop(fields.name(), None)
        self._send(message(b"3"))

    def _run(self, portal: Portal) -> None:
        if portal.reply is not None:  # whose next rows are asked for
            self._dialogue.user()
        elif portal.text:
            portal.reply = self._dialogue.run(portal.text, has_parameters=portal.bound)
            for name in forgotten(portal.text, [*self._prepared]):
                del self._prepared[name]

    def _statement(self, name: str) -> tuple[str, tuple[int, ...]]:
        if name not in self._prepared:
            raise WireError("26000", "expected a statement that was prepared before, got another")
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise WireError("34000", "expected a portal that was bound before, got another")
        return self._portals[name]

    def _header(self, portal: Portal) -> None:
        columns = None if portal.reply is None else portal.reply.columns
        self._send(
            message(b"n") if columns is None else described(columns, forms_of(columns, portal.formats))
        )

    def _rows(self, portal: Portal, most: int) -> None:
        """Send the next rows, what has to be known of them, and whether there are more."""
        reply = portal.reply
        if reply is None:
            self._send(message(b"I"))
            return
        columns = reply.columns or ()
        part = reply.rows[portal.sent : portal.sent + most if most else None]
        for row in data(columns, forms_of(columns, portal.formats), part) if part else ():
            self._send(row)
        portal.sent += len(part)
        if portal.sent < len(reply.rows):
            self._send(message(b"s"))
            return
        portal.reply, portal.sent = Reply(reply.columns, tag=reply.tag), 0  # its rows are free
        self._send(b"".join(map(notice, reply.notices)))
        tag = f"{reply.tag} {len(part)}" if reply.tag == "SELECT" else reply.tag
        self._send(message(b"C", c_text(tag)))

    def _take(self, size: int) -> bytes:
        found: bytes | None = self._read.read(size)
        if found is None or len(found) < size:
            raise EOFError
        return found

    def _send(self, part: bytes) -> None:
        self._out += part
        if len(self._out) >= _PART_BYTES:
            self._flush()

    def _flush(self, _: object = None) -> None:
        self._connected.sendall(self._out)
        self._out.clear()

    def _ready(self) -> None:
        if self._dialogue.status == "I":
            self._portals.clear()
            self._dialogue.keep_settings()
        self._send(message(b"Z", self._dialogue.status.encode()))
        self._flush()
