"""Dialogues over the wire: what the statements of one connection come to, under the limits of HTTP.

Nothing is charged until ``SET pmw.at_most`` allows it, for dashboards ask again by themselves.
"""

from __future__ import annotations

import math
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pmw.display.texts import told_price
from pmw.errors import BudgetExhaustedError, PMWError, PriceError, StoreError
from pmw.public.answer import SEEDED_WARNING
from pmw.public.export.rows import column_type
from pmw.public.state import PublicState
from pmw.public.tables import AnswerTable
from pmw.service import asking
from pmw.service.audit import Asked
from pmw.service.guard import UNKNOWN, Log, code_of, told_of
from pmw.service.history import History
from pmw.service.hosting import Hosted, Service
from pmw.service.limits import BusyError, EndingError, GoneError
from pmw.service.users import User
from pmw.service.wire import WireError, parameters_of, with_parameters
from pmw.session.session_requests import Kinds
from queries.catalogue import (
    BOOL,
    DATE,
    FLOAT8,
    INT8,
    MOST_ROWS,
    TEXT,
    TIMESTAMP,
    TYPES,
    UNLIMITED_ROWS,
    Catalogue,
    Column,
    ColumnType,
    Place,
    Reading,
)  # fmt: skip
from queries.cells import in_quotes
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import Constant, KeyFunction
from queries.frozen import dataclass
from queries.locked_engine import LockedTables
from queries.memory import Memory
from queries.sql_tree import SYNTHETIC
from queries.statement_grammar import LIST
from queries.statements import Statement

_MOST_KEPT, _MOST_BYTES, _CELL = 2**12, 2**24, 64
_STATES = {
    "unknown_attribute": "42703", "unknown_table": "42P01", "syntax": "42601", "unsupported": "0A000",
    "wrong_kind": "42804", "unaligned": "0A000", "too_long": "54000", "too_large": "54000",
}  # fmt: skip  # of questions that are refused; of others 22023
_ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (BudgetExhaustedError, "53400"), (EndingError, "57P01"), (BusyError, "53000"), (GoneError, "57014"),
)  # fmt: skip
_STATUSES = {400: "22023", 403: "42501", 503: "58000"}  # of HTTP
COMMANDS = {
    "BEGIN": "BEGIN", "START": "START TRANSACTION", "COMMIT": "COMMIT", "END": "COMMIT", "ABORT": "ROLLBACK",
    "ROLLBACK": "ROLLBACK", "SAVEPOINT": "SAVEPOINT", "RELEASE": "RELEASE", "SET": "SET", "RESET": "RESET",
    "DISCARD": "DISCARD ALL", "DEALLOCATE": "DEALLOCATE", "CLOSE": "CLOSE CURSOR", "UNLISTEN": "UNLISTEN",
    "SHOW": "SHOW",
}  # fmt: skip  # by their first words, and their tags
_SET = re.compile(r"(?:SESSION )?+(\S.*?)(?: ?= ?| TO )(.+)", re.I)  # of one blank each: in linear time
_NAME = re.compile(r'(?:(?P<plain>\w+)|"(?P<quoted>(?:[^"]|"")+)")')
_TO = re.compile(r"(?:(?:WORK|TRANSACTION)\s+)?TO\s+(?:SAVEPOINT\s+)?(.+)", re.I | re.S)
_PLAIN_END = re.compile(r"(WORK|TRANSACTION)?\s*(AND\s+NO\s+CHAIN)?", re.I)
_MOST_POINTS = 100  # savepoints of a transaction
_PART = re.compile(r"([0-9]{1,3}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(%?)")
_DATES = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(:\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a connection chose: the part of the budget that one statement may charge, and bars as columns."""

    at_most: Fraction = Fraction(0)
    bars: bool = True

    def changed(self, name: str, value: str) -> Settings:
        """Return these with one changed."""
        text = value.strip().strip("'").lower()
        found = _PART.fullmatch(text)
        if name == "pmw.bars" and text in ("on", "off", "default"):
            return replace(self, bars=text != "off")
        part = None if found is None else Fraction(found[1]) / (100 if found[2] else 1)
        part = Fraction(0) if text == "default" else part
        if name == "pmw.at_most" and part is not None and part <= 1:
            return replace(self, at_most=part)
        told = "expected pmw.at_most = '0.1%' or 0.001, or pmw.bars = on or off, got another setting of pmw"
        raise WireError("22023", told)

    @classmethod
    def of_options(cls, options: str) -> Settings:
        """Return those that a client gives at the start, such as ``-c pmw.at_most=0.1%``."""
        found = cls()
        for name, value in re.findall(r"(?:-c\s*|--)(pmw\.\w+)=(\S+)", options):
            found = found.changed(name.lower(), value)
        return found

    def shown(self, name: str) -> str | None:
        """Return a setting as SHOW tells it; None for another."""
        own = {"pmw.at_most": f"{100 * float(self.at_most):g}%", "pmw.bars": "on" if self.bars else "off"}
        return own.get(name)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a statement comes to: columns, None where it has none, rows, what has to be known, and its tag."""

    columns: tuple[Column, ...] | None
    rows: Sequence[Sequence[Any]] = ()
    notices: tuple[str, ...] = ()
    tag: str = "SELECT"


class Desk:
    """What the connections to one session share."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted, self.domain = hosted, hosted.session.domain
        self.catalogue = Catalogue(hosted.name, self.domain, [*map(column_type, self.domain)])
        self._plans: Memory[tuple[Reading, asking.Reading | None]] = Memory(_MOST_KEPT, _MOST_BYTES)
        # What was answered is answered again where nothing was released since: it is settled, and free.
        self.settled: Memory[tuple[PublicState, Reply]] = Memory(_MOST_KEPT, _MOST_BYTES)
        self._drawn: tuple[int, LockedTables] | None = None
        self._lock = threading.Lock()

    def known(self, text: str, user: User) -> tuple[Reading, asking.Reading | None] | None:
        """Return the plan of a statement that was read before."""
        return self._plans.get((user.name, text))

    def plan(self, text: str, user: User, gone: threading.Event) -> tuple[Reading, asking.Reading | None]:
        """Return where a statement is answered, and of the session's what it asks."""
        known = self.known(text, user)
        if known is None:
            reading, asked, size = self.catalogue.read(text, user.name), None, 2 * len(text)
            if reading.place is Place.SESSION and not parameters_of(text):
                asked = asking.read(self.hosted.asking(user, gone=gone), [{"sql": text}], None)
                size += sum(one.query.size_in_bytes for one in asked.questions.values())
            known = reading, asked
            self._plans.keep((user.name, text), known, size)
        return known

    def rows(self, reading: Reading) -> tuple[tuple[Column, ...], list[Any]]:
        """Return the columns and rows of a statement that is not the session's."""
        tables = self._synthetic() if reading.place is Place.SYNTHETIC else None
        return self.catalogue.rows(reading, tables)

    def _synthetic(self) -> LockedTables:
        state = self.hosted.session.state
        with self._lock:
            if self._drawn is None or self._drawn[0] != state.version:
                rows = min(max(round(state.total.value), 1), MOST_ROWS)
                frame = self.hosted.session.synthetic_records(rows, seed=0)
                texts = frame.astype(object).where(frame.notna(), None).map(str, na_action="ignore")
                tables = self.catalogue.synthetic({name: [*texts[name]] for name in self.domain.names})
                self._drawn = state.version, tables
            return self._drawn[1]


class WireDialogue:
    """One connection: who asks which session, what was set, and what is answered.

    Args:
        gone: is set where nobody waits for the statement any more.
    """

    def __init__(self, service: Service, desk: Desk, digest: bytes, log: Log, gone: threading.Event) -> None:
        self._service, self._desk, self._digest, self._log, self._gone = service, desk, digest, log, gone
        self.settings = Settings()
        self._points = [("", self.settings)]  # those before the transaction, and at its savepoints
        self.status = "I"  # idle, T in a transaction, E in one that failed

    def keep_settings(self) -> None:
        """Keep what was set: no failure takes it back any more, for the client waits for nothing."""
        self._points = [("", self.settings)]

    def fail(self) -> None:
        """Take back what was set in a transaction that failed, or by what was sent along with what failed."""
        if self.status == "I":
            self.settings = self._points[0][1]
        else:
            self.status = "E"

    def run(self, text: str, *, has_parameters: bool = False) -> Reply:
        """Return what a statement comes to."""
        began, state = time.perf_counter(), "00000"
        about: dict[str, Any] = {"request_id": secrets.token_hex(8), "method": "postgres", "route": "command"}
        try:
            reply = self._run(text, about)
            if about["route"] == Place.SESSION.value:
                self._write_down(text, about)
            return reply
        except Exception as error:  # noqa: BLE001  # one statement fails, the connection goes on
            elsewhere = about["route"] in (Place.CATALOGUE.value, Place.SYNTHETIC.value)
            asked = "session" in about and not elsewhere
            if asked and isinstance(error, PMWError) and not isinstance(error, BusyError):
                with suppress(StoreError):  # nothing is told but a refusal
                    self._write_down(text, about, code_of(error))
            refused = self.refusal_of(error, None if has_parameters else text, **about)
            state = refused.state
            raise refused from None
        finally:
            if about["route"] != "command" or state != "00000":
                took = round(1000 * (time.perf_counter() - began), 1)
                self._log.write("request", **about, status=state, milliseconds=took)

    def columns(self, text: str) -> tuple[Column, ...] | None:
        """Return a statement's columns, whatever stands for its parameters; None for none."""
        if (word := word_of(text)) in COMMANDS:
            return (Column(_shown(text)),) if word == "SHOW" else None
        samples = self.parameters(text)
        constants = [samples.get(one, (TEXT, "NULL"))[1] for one in range(1, parameters_of(text) + 1)]
        user = self.user()
        reading, asked = self._plan(with_parameters(text, constants), user)
        if asked is None:
            with self._place(user):
                return self._desk.rows(reading)[0]
        return columns_of(_statement(asked), self._desk.domain, bars=self.settings.bars)

    def parameters(self, text: str) -> dict[int, tuple[ColumnType, str]]:
        """Return the types of a statement's parameters, and constants that can stand in their place."""
        return {**self._plan(text, self.user())[0].parameters} if parameters_of(text) else {}

    def _plan(self, text: str, user: User) -> tuple[Reading, asking.Reading | None]:
        """Return where a statement that is described is answered; what is read first counts as asked."""
        known = self._desk.known(text, user)
        if known is None:
            with self._place(user):
                return self._desk.plan(text, user, self._gone)
        return known

    @contextmanager
    def _place(self, user: User) -> Iterator[None]:
        """Take the rate and the places of what is described."""
        hosted = self._desk.hosted
        self._service.rate.take(user.name)
        self._gone.clear()
        with hosted.queue.place_of_thread(user.name), hosted.working.thread():
            yield

    def user(self) -> User:
        """Return who asks, as the users file has it now."""
        user = self._service.users.find_digest(self._digest)
        if user is None:
            raise WireError("28P01", UNKNOWN, is_last=True)
        self._service.hosted(user, self._desk.hosted.name)
        return user

    def _run(self, text: str, about: dict[str, Any]) -> Reply:
        word, desk = word_of(text), self._desk
        if self.status == "E" and COMMANDS.get(word) not in ("COMMIT", "ROLLBACK"):
            raise WireError("25P02", "the transaction failed before; end it with ROLLBACK")
        if word in COMMANDS:
            return self._command(word, text.strip())
        user, before, settings = self.user(), desk.hosted.session.state, self.settings
        about |= {"user": user.name, "session": desk.hosted.name, "questions": 1, "route": "none"}
        if word not in ("SELECT", "WITH", "TABLE", "VALUES", "("):
            told = "expected SELECT, SET, SHOW, BEGIN, COMMIT or ROLLBACK, got another statement"
            raise WireError("0A000", told, "nothing is written, copied or made here")
        self._service.rate.take(user.name)
        self._gone.clear()
        known = desk.settled.get((user, settings, text))
        if known is not None and known[0] is before:
            about["route"] = Place.SESSION.value
            return known[1]
        with desk.hosted.queue.place_of_thread(user.name), desk.hosted.working.thread():
            reading, asked = desk.plan(text, user, self._gone)
            about["route"] = reading.place.value
            if asked is None:
                note = (
                    f"these rows are synthetic, of the public model, and {UNLIMITED_ROWS:,} at most without "
                    f"LIMIT; counts FROM {in_quotes(desk.domain.name)} have intervals"
                )
                return Reply(*desk.rows(reading), (note,) if reading.place is Place.SYNTHETIC else ())
            table = self._answered(user, asked)
            reply = reply_of(table, _statement(asked), desk.domain, bars=settings.bars)

            def kept(history: History) -> None:
                history.add(desk.hosted.name, user.name, [text])
                history.note_spending(desk.hosted.name, desk.hosted.session.state.ledger.share)

            self._service.note(kept, self._log.failure)
        if desk.hosted.session.state is before:
            size = len(text) + _CELL * len(reply.rows) * len(reply.columns or ())
            desk.settled.keep((user, settings, text), (before, reply), size)
        return reply

    def _answered(self, user: User, asked: asking.Reading) -> AnswerTable:
        analyst = self._desk.hosted.asking(user, gone=self._gone)
        with self._desk.hosted.large.place(asked.cells):
            found = asking.answered(analyst, asked, at_most=self.settings.at_most)
        assert isinstance(found, AnswerTable)  # noqa: S101 - statements are answered with tables
        return found

    def _write_down(self, text: str, about: dict[str, Any], code: str | None = None) -> None:
        asked = [Asked(Kinds.SQL.name, text, code)]
        self._service.write_down(about["user"], self._desk.hosted, about["request_id"], asked)

    def _command(self, word: str, text: str) -> Reply:
        tag, rest = COMMANDS[word], text[len(word) :].strip()
        if tag in ("BEGIN", "START TRANSACTION"):
            self.status = "T"
        elif tag in ("COMMIT", "ROLLBACK"):
            return Reply(None, tag=self._ended(tag, rest))
        elif tag in ("SAVEPOINT", "RELEASE"):
            self._pointed(tag, name_of(re.sub(r"SAVEPOINT\s+", "", rest, count=1, flags=re.I)))
        elif tag == "SHOW":
            return Reply((Column(_shown(text)),), [(self._setting(_shown(text)),)], (), tag)
        elif tag in ("SET", "RESET", "DISCARD ALL"):
            self._set(tag, rest)
        return Reply(None, tag=tag)

    def _set(self, tag: str, rest: str) -> None:
        """Change a setting of pmw; whatever names pmw and is not read is refused, and others are let be."""
        rest = " ".join(rest.split())
        found = _SET.fullmatch(rest) if tag == "SET" else None
        name = re.sub(r'[\s"]', "", rest if found is None else found[1]).lower()
        if tag != "SET" and name == "all":
            self.settings = Settings()
        elif name.startswith("local") and "pmw" in name:
            raise WireError("0A000", "SET LOCAL of a setting of pmw is not supported; use SET, and RESET")
        elif "pmw" in name:
            value = "default" if tag == "RESET" else "" if found is None else found[2]
            self.settings = self.settings.changed(name, value)

    def _ended(self, tag: str, rest: str) -> str:
        """End the transaction, or go back to a savepoint; return the tag of it."""
        if found := _TO.fullmatch(rest):
            place = self._point(name_of(found[1]))
            self.settings, self.status = self._points[place][1], "T"
            del self._points[place + 1 :]
            return tag
        if not _PLAIN_END.fullmatch(rest):  # such as AND CHAIN, after which a rollback would take back less
            raise WireError(
                "0A000", "expected the plain end of a transaction; leave AND CHAIN or PREPARED out"
            )
        tag = "ROLLBACK" if self.status == "E" else tag
        if tag == "ROLLBACK":
            self.settings = self._points[0][1]
        self.keep_settings()
        self.status = "I"
        return tag

    def _pointed(self, tag: str, name: str) -> None:
        """Make a savepoint, or release one."""
        if tag == "RELEASE":
            del self._points[self._point(name) :]
        elif self.status == "I":
            raise WireError("25P01", "expected SAVEPOINT within a transaction; send BEGIN first")
        elif len(self._points) > _MOST_POINTS:
            raise WireError("54000", f"expected at most {_MOST_POINTS} savepoints; release some")
        else:
            self._points.append((name, self.settings))

    def _point(self, name: str) -> int:
        places = [n for n, (one, _) in enumerate(self._points) if n and one == name]
        if self.status == "I" or not places:
            state = "25P01" if self.status == "I" else "3B001"
            raise WireError(state, "expected a savepoint of this transaction, got another")
        return places[-1]

    def _setting(self, name: str) -> str:
        asked = self._desk.catalogue.read(f"SELECT current_setting('{re.sub('[^a-z_]', '_', name)}')", "")
        return self.settings.shown(name) or str(self._desk.catalogue.rows(asked)[1][0][0] or "")

    def refusal_of(self, error: Exception, text: str | None = None, **about: Any) -> WireError:
        """Return what is told of an error, which depends on the statement and on public state alone."""
        if isinstance(error, WireError):
            return error
        if isinstance(error, PriceError):
            price = f"{100 * told_price(error.price):g}%"
            told, most = f"this can cost {price} of the budget", self.settings.shown("pmw.at_most")
            if error.code == "above_ceiling":
                return WireError("53400", f"{told}, above your ceiling for one question")
            told = f"{told}, and {most} may be charged for it"
            return WireError("53400", told, f"SET pmw.at_most = '{price}'")
        if isinstance(error, QueryError):
            return self._refused_question(error, text)
        unknown = (500, None, "the statement failed")
        status, _, message = told_of(error) if isinstance(error, PMWError) else unknown
        state = next((state for kind, state in _ERRORS if isinstance(error, kind)), None)
        if state is None and status >= 500:
            self._log.failure(error, **about)
        state = state or _STATUSES.get(status, "XX000")
        return WireError(state, message, is_last=isinstance(error, EndingError))

    def _refused_question(self, error: QueryError, text: str | None) -> WireError:
        rows = f"synthetic.{in_quotes(self._desk.domain.name)}"
        message, _, way = error.message.replace(SYNTHETIC, rows).partition("; ")  # then what to do next
        way = f"rows of the public model are in {rows}" if LIST in message else way
        place = error.position + 1 if text is not None and isinstance(error.position, int) else None
        return WireError(_STATES.get(error.code, "22023"), message, way, position=place)


def reply_of(table: AnswerTable, statement: Statement, domain: Domain, *, bars: bool) -> Reply:
    """Return the rows of a table of answers, its columns as they were written, and what has to be known."""
    rows, order = [], statement.alone[0].written
    for keys, found in table.rows:
        parts: list[Sequence[Any]] = [(key,) for key in keys]
        for title, one in zip(table.titles, found, strict=True):
            numbers = (one.value, *(one.interval or (None, None)))[: 3 if bars else 1]
            parts.append([*map(_whole, numbers)] if title in table.whole else numbers)
        rows.append(_bars_last([parts[place] for place in order]))
    told = [f"intervals hold at {table.confidence:.0%} each"] if table.titles else []
    told += [f"{table.spent.charged:.2%} of the budget was charged"] if table.spent.charged else []
    told += [] if table.is_promised else ["nothing is promised of numbers whose intervals are empty"]
    told += [table.kept.describe()] if table.kept is not None else []
    told += [*table.notes, *([SEEDED_WARNING] if table.seeded else [])]
    return Reply(columns_of(statement, domain, bars=bars), rows, tuple(told))


def _whole(number: float | None) -> float | int | None:
    return int(number) if number is not None and math.isfinite(number) else None


def columns_of(statement: Statement, domain: Domain, *, bars: bool) -> tuple[Column, ...]:
    """Return the columns of a statement's answers, by the statement and the declared attributes alone."""
    found: list[Sequence[Column]] = []
    for place in statement.alone[0].written:
        same = [(arm, arm.columns[place]) for arm in statement.alone]
        first = same[0][1]
        if first.is_key:
            kinds = {_key_type(one.node, arm, domain) for arm, one in same}
            found.append([Column(first.title, kinds.pop() if len(kinds) == 1 else TEXT)])
        else:
            kind = INT8 if all(one.node.is_whole for _, one in same) else FLOAT8
            found.append([Column(name, kind) for name in first.names[: 3 if bars else 1]])
    return tuple(_bars_last(found))


def _bars_last(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Return what was asked for, in its order, and then the bars: tools read columns by their places."""
    return [one[0] for one in parts] + [bar for one in parts for bar in one[1:]]


def _key_type(node: Any, statement: Statement, domain: Domain) -> ColumnType:
    values: Iterable[Any] = (node.value,) if isinstance(node, Constant) else ()
    if isinstance(node, KeyFunction):
        values = [one for one in node.values.values() if one is not None]
        scopes = {name for place in node.places for name in statement.groupings[place].scope}
        own = {TYPES[column_type(domain[name])] for name in scopes}
        times = [_DATES.fullmatch(one) if isinstance(one, str) else None for one in values]
        if times and own <= {DATE, TIMESTAMP} and all(times):
            return TIMESTAMP if any(one and one["time"] for one in times) else DATE
    kinds = {type(one) for one in values}
    with suppress(StopIteration):
        return next(kind for allowed, kind in (({bool}, BOOL), ({int}, INT8), ({int, float}, FLOAT8))
                    if kinds and kinds <= allowed)  # fmt: skip
    return TEXT


def _statement(asked: asking.Reading) -> Statement:
    for error in asked.refused.values():
        raise error
    found = asked.questions[0].query
    assert isinstance(found, Statement)  # noqa: S101 - it was asked as SQL
    return found


def word_of(text: str) -> str:
    """Return the first word of a statement."""
    found = re.match(r"\s*(\w+|\()", text)
    return "" if found is None else found[1].upper()


def _shown(text: str) -> str:
    return re.sub(r"\s+", "_", text.strip()[5:].strip().strip('"').lower()).removesuffix("_level")


def name_of(text: str) -> str:
    """Return the name that a command gives: of a savepoint, or a prepared statement."""
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise WireError("42601", "expected a name, got another text")
    return found["plain"].lower() if found["plain"] else found["quoted"].replace('""', '"')


def forgotten(text: str, prepared: Sequence[str]) -> list[str]:
    """Return the prepared statements that a command drops."""
    word, rest = word_of(text), text.strip().partition(" ")[2].strip()
    rest = re.sub(r"PREPARE\s+", "", rest, count=1, flags=re.I) if word == "DEALLOCATE" else rest
    if word in ("DEALLOCATE", "DISCARD") and rest.lower() == "all":
        return [*prepared]
    return [one for one in prepared if word == "DEALLOCATE" and one == name_of(rest)]
