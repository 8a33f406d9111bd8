"""Rows: the tables of a session file, what one entry of each holds, and the chain that covers them.

Rows of ``meta``, ``secrets``, ``ties``, ``requests``, ``repeats`` and ``certificates`` end with a checksum
of the columns before it: it finds damage, not forgery. Charges and measurements have none: the chain covers
them, and ties too, for one that is gone takes no checksum with it.
Blocks of answers have a hash, and the chain covers all but the newest.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from pmw.errors import SessionCorruptError
from pmw.session.store.columns import AnswerColumns
from queries.frozen import dataclass

OPENING = "opening"  # kind of the first batch
TESTS = "tests"  # kind of a batch of tests
QUANTILES = "error quantiles"  # kind of a batch, and of the measurements that come of it
OPENING_SUM = "sum"  # kind of sums of values that opening measured
PARTS = "parts of the reserve"  # kind of a batch, whose measurements are of the kind of requested ones

FORMAT_VERSION = 19

_PLAIN = frozenset([str, int, type(None)])  # whose texts stand for them as they are
_LONG = 256  # bytes
_CHECKSUM_SIZE = 16  # bytes of a checksum: no damage passes one by chance

TABLES = {
    "meta": """CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "secrets": """CREATE TABLE secrets (key TEXT PRIMARY KEY, value BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "ledger": """CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL,
    event TEXT NOT NULL, label TEXT NOT NULL, epsilon TEXT, rho TEXT NOT NULL, mu_squared TEXT,
    booked TEXT NOT NULL) STRICT""",
    "measurements": """CREATE TABLE measurements (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL,
    kind TEXT NOT NULL, what TEXT NOT NULL, units BLOB NOT NULL, noise TEXT NOT NULL) STRICT""",
    # What batches measured under idempotency keys: JSON of the key, what was asked for, and what was given.
    "ties": """CREATE TABLE ties (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL, tie TEXT NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    # Answers of one commit, or of several alike: what they have in common, how many drew noise, how many have
    # a kind, how many settled their questions first, and all else. The hash is of the whole row.
    "blocks": """CREATE TABLE blocks (sequence INTEGER PRIMARY KEY, size INTEGER NOT NULL,
    analyst TEXT NOT NULL, confidence REAL NOT NULL, share REAL NOT NULL, version INTEGER NOT NULL,
    drawn INTEGER NOT NULL, kinds INTEGER NOT NULL, settled INTEGER NOT NULL, keys BLOB NOT NULL,
    hash BLOB NOT NULL, answers BLOB NOT NULL) STRICT""",
    # Which answers requests with idempotency keys were given. A number below 0 is that of a batch: the key is
    # tied to what it measured.
    "requests": """CREATE TABLE requests (request TEXT PRIMARY KEY, answer INTEGER NOT NULL,
    checksum BLOB NOT NULL) STRICT, WITHOUT ROWID""",
    # Who asked again what was answered to somebody else.
    "repeats": """CREATE TABLE repeats (analyst TEXT NOT NULL, answer INTEGER NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (analyst, answer)) STRICT""",
    # A link covers the chained rows after those of the link before it, up to these numbers.
    "chain": """CREATE TABLE chain (sequence INTEGER PRIMARY KEY, ledger INTEGER NOT NULL,
    measurements INTEGER NOT NULL, ties INTEGER NOT NULL, blocks INTEGER NOT NULL,
    link BLOB NOT NULL) STRICT""",
    "certificates": """CREATE TABLE certificates (sequence INTEGER PRIMARY KEY, scope TEXT UNIQUE NOT NULL,
    version INTEGER NOT NULL, threshold INTEGER NOT NULL, units BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "snapshots": """CREATE TABLE snapshots (version INTEGER PRIMARY KEY, duals BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
}
# What a checksum, or a link, is of. A snapshot's is its own: a damaged one is ignored.
COLUMNS = {
    "meta": ("key", "value"),
    "secrets": ("key", "value"),
    "ledger": ("intent", "event", "label", "epsilon", "rho", "mu_squared", "booked"),
    "measurements": ("intent", "kind", "what", "units", "noise"),
    "ties": ("intent", "tie"),
    "blocks": (
        "size", "analyst", "confidence", "share", "version", "drawn", "kinds", "settled", "keys", "hash",
    ),
    "requests": ("request", "answer"),
    "repeats": ("analyst", "answer"),
    "certificates": ("scope", "version", "threshold", "units"),
}  # fmt: skip
SEALED = ("meta", "secrets", "ties", "requests", "repeats", "certificates")  # have a checksum
# What the chain covers. Rows are only ever added to these tables; but the newest blocks are joined before a
# link covers them.
CHAINED = ("ledger", "measurements", "ties", "blocks")


# --- entries of the tables ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class IntentRow:
    """A batch that was recorded.

    Args:
        id: its number; they count up from 1.
        kind: ``OPENING``, ``TESTS``, ``QUANTILES``, ``PARTS``, or that of what is measured on request.
        seed: the 32 bytes that its noise is made from, secret; none once they are overwritten.
        charges: how many charges the session file held when it was begun.
    """

    id: int
    kind: str
    proposal: str
    seed: bytes
    charges: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One charge: exact fractions as texts; None where the event has no such price.

    ``booked`` is JSON, the analysts that it is booked to and their exact parts.
    """

    event: str
    label: str
    epsilon: str | None
    rho: str
    mu_squared: str | None
    booked: str


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """One released measurement.

    Args:
        kind: ``total``, ``marginal``, ``hierarchical histogram``, ``residual`` or ``sum`` of the opening;
            ``query``, ``measured``, ``requested``, ``sums of values`` or ``error quantiles`` since;
            ``numbers of persons`` of either.
        what: JSON, the scope or the query.
        units: little-endian int64, units of 2^-20 records.
        noise: JSON, the distribution of the noise.
    """

    kind: str
    what: str
    units: bytes
    noise: str


@dataclass(frozen=True, slots=True)
class ChainedRows:
    """All that was charged and measured, and the chain that covers it.

    Args:
        ledger: charges, in order.
        ledger_intents: the number of the batch that each charge belongs to.
        measurement_intents: the number of the batch that each measurement belongs to.
        origin: 32 bytes that the first link goes on from; they tell a session and its contract from others.
        links: the hashes of the chain, 32 bytes each, in order.
    """

    ledger: tuple[LedgerRow, ...]
    ledger_intents: tuple[int, ...]
    measurements: tuple[MeasurementRow, ...]
    measurement_intents: tuple[int, ...]
    origin: bytes
    links: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CertificateRow:
    """The newest test of a marginal that did not find the model wrong.

    Args:
        threshold: in units of 2^-20 records.
        units: little-endian int64, the model's marginal in units.
    """

    scope: str
    version: int
    threshold: int
    units: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """What one commit adds to the file.

    Args:
        ledger: charges.
        columns: released answers, in the order of their numbers.
        are_newer: the answers are newer ones to questions that have stored ones: no further questions.
        certificates: tests that found nothing wrong; each replaces the one of its scope.
        asked: how many questions it answers, repeated ones included.
        meta: public facts to set, as JSON texts.
        secrets: secret facts to set; None wipes one.
        idempotency_keys: of requests that are given the newest stored answer to a question; its text.
        tie: the idempotency key that the batch's measurement was asked for with, and JSON of what is kept of
            that request.
        charged_before: how many charges the file must hold before these, so that a sum that was computed
            from others is never added to; None looks at none.
    """

    ledger: Sequence[LedgerRow] = ()
    measurements: Sequence[MeasurementRow] = ()
    columns: Sequence[AnswerColumns] = ()
    are_newer: bool = False
    certificates: Sequence[CertificateRow] = ()
    asked: int = 0
    meta: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, bytes | None] = field(default_factory=dict)
    idempotency_keys: dict[str, str] = field(default_factory=dict)
    tie: tuple[str, str] | None = None
    charged_before: int | None = None

    @property
    def settled(self) -> int:
        """How many questions its answers settle first."""
        return sum(one.first_count() for one in self.columns)


# --- rows as they lie in the file --------------------------------------------------------------------------


def add_rows(
    connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]], verb: str = "INSERT"
) -> None:
    """Add rows to a table, with their checksums where it has them. Call it inside a transaction."""
    columns = (*COLUMNS[table], "checksum") if table in SEALED else COLUMNS[table]
    statement = f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    connection.executemany(statement, [as_written(table, row) for row in rows])


def sealed_rows(
    connection: sqlite3.Connection, table: str, name: str, which: str = "", values: Sequence[object] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of a table, without the checksums that they are compared with."""
    columns = ", ".join((*COLUMNS[table], "checksum"))
    for *row, found in connection.execute(f"SELECT {columns} FROM {table} {which}", values):
        if _checksum(table, row) != found:
            raise SessionCorruptError(
                f"{name}: the session file is damaged: a row of its {table} was altered"
            )
        yield tuple(row)


def read_fact(connection: sqlite3.Connection, key: str, name: str) -> str | None:
    """Return a public fact, as JSON text; None where there is none."""
    rows = list(sealed_rows(connection, "meta", name, "WHERE key = ?", (key,)))
    return str(rows[0][1]) if rows else None


def facts_named(connection: sqlite3.Connection, start: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield the public facts that are numbered, in no order: their numbers, and JSON texts."""
    ends = (start, f"{start[:-1]}!")  # the name after all of them
    for key, value in sealed_rows(connection, "meta", name, "WHERE key >= ? AND key < ?", ends):
        yield int(key.removeprefix(start)), str(value)


def as_written(table: str, values: Sequence[object]) -> tuple[object, ...]:
    """Return a row as its table holds it: with its checksum, where the table has them."""
    return (*values, _checksum(table, values)) if table in SEALED else tuple(values)


def _checksum(table: str, values: Sequence[object]) -> bytes:
    """Return the checksum of a row: 16 bytes, of its table and the types and values of its columns."""
    # Different values that the database reads back have different ASCII texts, in every version.
    plain = [value if type(value) in _PLAIN else _plain(value) for value in values]
    return hashlib.blake2b(ascii((table, plain)).encode(), digest_size=_CHECKSUM_SIZE).digest()


def _plain(value: object) -> object:
    """Return a value as it is read back, a long one as its hash."""
    if isinstance(value, float):
        return float(value) + 0.0  # the database keeps no minus of a zero
    if isinstance(value, bytes):
        return value if len(value) <= _LONG else (len(value), hashlib.blake2b(value).digest())
    return str(value) if isinstance(value, str) else int(str(value))


# --- the chain over them ------------------------------------------------------------------------------------

_LINK_SIZE = 32  # bytes of a link: nobody finds other rows with the same one
_HEAD = "link"  # the fact that holds the newest link
_LINKS = f"SELECT link, sequence, {', '.join(CHAINED)} FROM chain"
_ROWS = {table: f"SELECT sequence, {', '.join(COLUMNS[table])} FROM {table}" for table in CHAINED}
_START = (0,) * (1 + len(CHAINED))


@dataclass(frozen=True, slots=True)
class Link:
    """One link, and the rows that it covers.

    Args:
        hash: 32 bytes.
        places: its number, and the numbers of the last rows of the chained tables up to it.
        rows: of each chained table, in order: the number of a row and its columns.
    """

    hash: bytes
    places: tuple[int, ...]
    rows: tuple[list[Any], ...]


class Chain:
    """One running hash over all rows that were charged, measured, tied to a key or answered.

    Each outcome that charged or measured anything adds a link, and so does one after which many answers stand
    in no link yet: a hash of the link before it and of the rows. The first link goes on from the session's
    own bytes and its contract. A row that was altered, exchanged or added, or is gone, breaks its link. Links
    that are gone are missed, for the newest one is kept as a fact too. So the newest link stands for the
    whole history. Blocks of answers that a link covers are never written again; the newest ones, which none
    covers yet, have their own hashes alone.

    Links find damage, not forgery: whoever can write to the file can compute them, and only a link that is
    known from elsewhere tells that.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def origin(self) -> bytes:
        """Return what the first link goes on from: a hash of the session's own bytes and its contract."""
        facts = [read_fact(self._connection, key, self._name) for key in ("session", "contract")]
        return _hash(b"", facts)

    def follow(self) -> list[Link]:
        """Return every link, compared with its rows, in order; within a transaction."""
        stored = self._connection.execute(f"{_LINKS} ORDER BY sequence").fetchall()
        last, links = Link(self.origin(), _START, ()), list[Link]()
        parts = [
            self._parts(table, [row[2 + place] for row in stored]) for place, table in enumerate(CHAINED)
        ]
        for number, ((found, *places), *rows) in enumerate(zip(stored, *parts, strict=False), start=1):
            last = _link(last, tuple(places), tuple(rows))
            if last.hash != found or places[0] != number:
                raise self._broken(number)
            links.append(last)
        head = read_fact(self._connection, _HEAD, self._name)
        if any(part[-1] for part in parts[:-1]) or head != (_quoted(last) if links else None):
            raise self._broken(len(links) + 1)
        return links

    def last_block(self) -> int:
        """Return the number of the last block that a link covers; 0 where there is none."""
        return self._newest().places[-1]

    def extend(self) -> None:
        """Add a link over the rows that none covers yet. Call it inside the transaction that adds them."""
        last = self._newest()
        newest = "SELECT coalesce(max(sequence), 0)"
        ends = [self._connection.execute(f"{newest} FROM {table}").fetchone()[0] for table in CHAINED]
        self._add(self._next(last, (last.places[0] + 1, *ends)))

    def _add(self, link: Link) -> None:
        columns = ", ".join("?" * (1 + len(link.places)))
        self._connection.execute(f"INSERT INTO chain VALUES ({columns})", (*link.places, link.hash))
        add_rows(self._connection, "meta", [(_HEAD, _quoted(link))], "INSERT OR REPLACE")

    def _newest(self) -> Link:
        row = self._connection.execute(f"{_LINKS} ORDER BY sequence DESC LIMIT 1").fetchone()
        return Link(self.origin(), _START, ()) if row is None else Link(row[0], tuple(row[1:]), ())

    def _parts(self, table: str, ends: Sequence[int]) -> list[list[Any]]:
        """Return the rows of a table up to each number, after those before it; then the rows after all."""
        parts: list[list[Any]] = [[] for _ in (*ends, None)]
        for row in self._connection.execute(f"{_ROWS[table]} ORDER BY sequence"):
            parts[bisect_left(ends, row[0])].append(row)
        return parts

    def _next(self, last: Link, places: tuple[int, ...]) -> Link:
        ranges = zip(CHAINED, last.places[1:], places[1:], strict=True)
        rows = tuple(
            self._connection.execute(
                f"{_ROWS[table]} WHERE sequence > ? AND sequence <= ? ORDER BY sequence", ends
            ).fetchall()
            for table, *ends in ranges
        )
        return _link(last, places, rows)

    def _broken(self, number: int) -> SessionCorruptError:
        return SessionCorruptError(
            f"{self._name}: the session file is damaged: charges, measurements, keys or answers were "
            f"altered or are gone (link {number} of its chain)"
        )


def _quoted(link: Link) -> str:
    return f'"{link.hash.hex()}"'


def _link(last: Link, places: tuple[int, ...], rows: tuple[list[Any], ...]) -> Link:
    return Link(_hash(last.hash, [places, *rows]), places, rows)


def _hash(before: bytes, content: Sequence[object]) -> bytes:
    """Return a hash of bytes and of JSON, where blobs stand as their own hashes."""
    # A column has one type, so that its text tells its value.
    text = json.dumps(content, default=lambda blob: hashlib.blake2b(blob, digest_size=_LINK_SIZE).hexdigest())
    return hashlib.blake2b(before + text.encode(), digest_size=_LINK_SIZE).digest()
