"""Reading a session file: every row is compared with its checksum, or with the chain, as it is read."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError
from pmw.session.store.answer_rows import (
    FIRST,
    MEASURED,
    SHARES,
    UNSETTLED,
    StoredAnswer,
    answer_of_row,
    key_name,
    query_key,
)
from pmw.session.store.blocks import Blocks
from pmw.session.store.chain import Chain
from pmw.session.store.checksums import read_fact, require_checksum
from pmw.session.store.columns import AnswerColumns, question_keys, texts_at
from pmw.session.store.connection import own_error
from pmw.session.store.newer import newer_runs
from pmw.session.store.rows import CertificateRow, ChainedRows, LedgerRow, MeasurementRow
from pmw.session.store.schema import COLUMNS
from pmw.session.store.wholeness import require_all

_MOST_KEYS = 500  # of one look
_LAST = 2**63 - 1  # no answer has this number

_Places: TypeAlias = NDArray[np.int64]
_Reaches: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]  # numbers of answers, and records


class SessionReader:
    """What can be read from a session file, or from a database in memory.

    Args:
        connection: to the file.
        name: what messages call the session.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._chain = Chain(connection, name)
        self._blocks = Blocks(connection, name)

    def meta(self, key: str) -> str | None:
        """Return a public fact, as JSON text."""
        with self._guarded():
            return read_fact(self._connection, key, self._name)

    def secret(self, key: str) -> bytes | None:
        """Return a secret fact."""
        row = self._one(f"SELECT {self._columns('secrets')} FROM secrets WHERE key = ?", key)
        return None if row is None else bytes(self._checked("secrets", row)[1])

    def chained(self) -> ChainedRows:
        """Return all that was charged and measured.

        Raises:
            SessionCorruptError: it is not what the chain covers.
        """
        with self._one_state():
            links = self._chain.follow()
            origin = self._chain.origin()
        charges, measurements = ([row[1:] for link in links for row in link.rows[table]] for table in (0, 1))
        return ChainedRows(
            ledger=tuple(LedgerRow(*row) for _, *row in charges),
            ledger_intents=tuple(intent for intent, *_ in charges),
            measurements=tuple(MeasurementRow(*row) for _, *row in measurements),
            measurement_intents=tuple(intent for intent, *_ in measurements),
            origin=origin,
            links=tuple(link.hash for link in links),
        )

    def ledger(self) -> list[LedgerRow]:
        """Return all charges, in order."""
        return list(self.chained().ledger)

    def measurements(self) -> list[MeasurementRow]:
        """Return all released measurements, in order."""
        return list(self.chained().measurements)

    def certificates(self) -> list[CertificateRow]:
        """Return the newest certificate of each marginal, in the order of their tests."""
        with self._guarded():
            rows = self._connection.execute(
                f"SELECT {self._columns('certificates')} FROM certificates ORDER BY sequence"
            ).fetchall()
        return [CertificateRow(*self._checked("certificates", row)) for row in rows]

    def charge_count(self) -> int:
        """Return how many charges there are."""
        with self._guarded():
            return self._charges()

    def last_intent(self) -> int:
        """Return the number of the last batch that has its outcome; 0 before the opening has."""
        return int(self.meta("intent") or 0)

    def secret_names(self) -> set[str]:
        """Return which secret facts there are, without their values."""
        with self._guarded():
            return {str(row[0]) for row in self._connection.execute("SELECT key FROM secrets")}

    def asked(self) -> int:
        """Return how many questions were answered, repeated ones included."""
        return int(self.meta("asked") or 0)

    def answer_count(self) -> int:
        """Return how many answers are stored, those left out that only took the place of a wider one."""
        (rows,) = self._one("SELECT count(*) FROM answers")
        newer = sum(count.total() for _, count in self.newer_runs())
        with self._guarded():
            return int(rows) + sum(end - first for first, end in self._blocks.spans()) - newer

    def newer_runs(self) -> list[tuple[int, Counter[str]]]:
        """Return which answers took the place of a wider one to the same question.

        Returns:
            Of each run the number of its first answer, and how many each analyst asked first; in order.
        """
        with self._guarded():
            return sorted(newer_runs(self._connection, self._name), key=itemgetter(0))

    def answer_to_request(self, request_id: str) -> StoredAnswer | None:
        """Return the answer that a request was given, or None."""
        number = self.meta(key_name(request_id))
        if number is not None:
            return self.answer_at(int(number))
        row = self._answer("WHERE request_id = ?", request_id)
        return None if row is None else row[1]

    def newest_answer(self, text: str) -> StoredAnswer | None:
        """Return the newest answer to a question, by its canonical text, or None."""
        return self.newest_answers([text])[0]

    def newest_answers(self, texts: Sequence[str]) -> list[StoredAnswer | None]:
        """Return the newest answer to each of some questions, by their canonical texts, or None."""
        _, found, blocks = self.newest_together(texts)
        for columns, asked, places in blocks:
            found.update(zip(asked.tolist(), map(columns.answer, places.tolist()), strict=True))
        return [found.get(place) for place in range(len(texts))]

    def newest_together(
        self, texts: Sequence[str]
    ) -> tuple[_Places, dict[int, StoredAnswer], list[tuple[AnswerColumns, _Places, _Places]]]:
        """Return the newest answers to some questions that have one.

        Returns:
            The numbers of all of them, 0 where there is none; those that are rows, by the places of their
            questions; and for each block with others its columns, the places of questions, and the places of
            their answers in the columns.
        """
        with self._guarded():
            numbers, rows = self._newest(texts)
            alone = {place: self.answer_at(number) for place, number in rows.items()}
            asked = np.flatnonzero(numbers)
            blocks = [(columns, asked[at], own) for columns, own, at in self._blocks.places(numbers[asked])]
        numbers[list(rows)] = list(rows.values())
        return numbers, alone, blocks

    def answers(self) -> Iterator[StoredAnswer]:
        """Yield all released answers, in order."""
        for one in self.answer_runs():
            yield from one.answers() if isinstance(one, AnswerColumns) else (one,)

    def answer_runs(self) -> Iterator[StoredAnswer | AnswerColumns]:
        """Yield all released answers, in order; those that are stored together come together."""
        with self._guarded():
            after = 0
            for first, columns in self._blocks.each():
                yield from self._rows_between(after, first)
                yield columns
                after = first + len(columns) - 1
            yield from self._rows_between(after, _LAST)

    def _rows_between(self, after: int, before: int) -> Iterator[StoredAnswer]:
        """Yield the answers that are rows, in order, between two numbers."""
        between = "FROM answers WHERE sequence > ? AND sequence < ? ORDER BY sequence"
        rows = self._connection.execute(
            f"SELECT {self._columns('answers')}, sequence {between}", (after, before)
        )
        for row in rows:
            yield self._numbered(row)[1]

    def newest_numbers(self, analyst: str | None, most: int) -> list[int]:
        """Return the numbers of the newest answers, of one analyst or of all, the newest first."""
        named = "SELECT sequence FROM answers WHERE analyst = ? AND analyst <> ''"
        own = f"{named} UNION ALL SELECT answer FROM repeats WHERE analyst = ?"
        everybody = "SELECT sequence FROM answers"
        statement, given = (everybody, ()) if analyst is None else (own, (analyst, analyst))
        with self._guarded():
            rows = self._connection.execute(f"{statement} ORDER BY 1 DESC LIMIT ?", (*given, most))
            numbers = [*(int(row[0]) for row in rows), *self._blocks.newest_numbers(analyst, most)]
            return sorted(numbers, reverse=True)[:most]

    def question_counts(self) -> dict[str, int]:
        """Return how many answers each analyst was given first, or again what somebody else was given.

        An empty name stands for those where nobody was named.
        """
        counts = dict.fromkeys([""], self.answer_count())
        with self._guarded():
            for statement in (
                "SELECT analyst, count(*), count(*) FROM answers WHERE analyst <> '' GROUP BY analyst",
                "SELECT analyst, sum(size), sum(size) FROM blocks WHERE analyst <> '' GROUP BY analyst",
                "SELECT analyst, count(*), 0 FROM repeats GROUP BY analyst",
            ):
                for name, count, first in self._connection.execute(statement):
                    counts[name] = counts.get(name, 0) + count
                    counts[""] -= first
        for _, run in self.newer_runs():
            for name, count in run.items():
                if name:
                    counts[name] -= count
                    counts[""] += count
        return counts

    def answer_at(self, number: int) -> StoredAnswer:
        """Return the answer of a number.

        Raises:
            SessionCorruptError: there is none.
        """
        row = self._answer("WHERE sequence = ?", number)
        with self._guarded():
            found = self._blocks.at(number) if row is None else row[1]
        if found is None:
            raise SessionCorruptError(f"{self._name}: the session file is damaged: answer {number} is gone")
        return found

    def first_answers(self) -> dict[str, _Reaches]:
        """Return the first settled answer of each question that has a kind, by kinds.

        Returns:
            Of each kind int64, shape (n,), the numbers of the answers, ascending; and float64, shape (n,),
            how far their intervals reach above them, in records.
        """
        found: dict[str, list[_Reaches]] = {}
        with self._guarded():
            for number, kind, reach in self._first_rows("sequence, kind, high - count"):
                if kind is not None:
                    found.setdefault(kind, []).append((np.array([number]), np.array([reach])))
            for start, columns, is_first in self._blocks.first_answers(with_kinds=True):
                for code in columns.named_kinds():
                    own = np.flatnonzero(is_first & (columns.kinds == code))
                    reaches = columns.ends[own, 1] - columns.counts[own]
                    found.setdefault(str(columns.kind_names[code]), []).append((start + own, reaches))
        return {kind: _in_order(parts) for kind, parts in found.items()}

    def first_questions(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the texts of questions that were settled, each once, in no order, with who asked first."""
        with self._guarded():
            rows: dict[str, list[str]] = {}
            for analyst, text in self._first_rows("analyst, query"):
                rows.setdefault(analyst, []).append(text)
            yield from rows.items()
            for _, columns, is_first in self._blocks.first_answers(with_kinds=False):
                yield columns.analyst, texts_at(columns.texts, np.flatnonzero(is_first))

    def _first_rows(self, columns: str) -> list[tuple[Any, ...]]:
        """Return the rows that settle questions first."""
        return self._connection.execute(f"SELECT {columns} FROM answers WHERE settled = {FIRST}").fetchall()

    def settled_count(self, asked: int | None = None) -> int:
        """Return how many questions were settled, by all answers or by the first so many.

        Args:
            asked: how many, as ``answer_count`` counts them; None for all.
        """
        most = _LAST if asked is None else self._number_of(asked)
        (rows,) = self._one(f"SELECT count(*) FROM answers WHERE settled = {FIRST} AND sequence <= ?", most)
        with self._guarded():
            return int(rows) + self._blocks.settled_count(most)

    def _number_of(self, asked: int) -> int:
        """Return the number of an answer by its place among those that took no wider one's place."""
        for first, run in self.newer_runs():
            asked += run.total() if first <= asked else 0
        return asked

    def settled_version(self, place: int) -> int:
        """Return the version of the model that settled a question, by its place among all, from 1.

        Raises:
            SessionCorruptError: there are not so many.
        """
        rows = f"SELECT sequence, 1, version FROM answers WHERE settled = {FIRST}"
        blocks = "SELECT sequence, settled, version FROM blocks WHERE settled > 0"
        with self._guarded():
            for _, count, version in self._connection.execute(f"{rows} UNION ALL {blocks} ORDER BY 1"):
                place -= count
                if place <= 0:
                    return int(version)
        raise SessionCorruptError(f"{self._name}: the session file is damaged: settled answers are gone")

    def are_settled(self, texts: Sequence[str]) -> list[bool]:
        """Tell which questions were settled, by their canonical texts."""
        _, alone, blocks = self.newest_together(texts)
        found = np.zeros(len(texts), dtype=bool)
        for place, row in alone.items():
            found[place] = row.settled != UNSETTLED
        for columns, asked, own in blocks:
            found[asked] = columns.settled[own] != UNSETTLED
        return [bool(one) for one in found]

    def shares(self, most: int) -> list[tuple[int, float]]:
        """Return the share spent after n answers, as (n, share), evenly thinned to ``most`` pairs."""
        (last,) = self._one("SELECT coalesce(max(sequence), 0) FROM answers")
        with self._guarded():
            last = max(last, *(end - 1 for _, end in self._blocks.spans()), 0)
            step = max(1, -(-last // most))
            rows = self._connection.execute(SHARES, (last, step, step)).fetchall()
            return sorted([*rows, *self._blocks.shares(range(last, 0, -step))])

    def snapshot(self) -> tuple[int, NDArray[np.float64]] | None:
        """Return the newest snapshot whose checksum holds: its version and dual numbers, or None."""
        row = self._one("SELECT version, duals, checksum FROM snapshots ORDER BY version DESC LIMIT 1")
        if row is None or snapshot_checksum(row[0], row[1]) != row[2]:
            return None
        return int(row[0]), np.frombuffer(row[1], dtype="<f8").astype(np.float64)

    def has_snapshot(self) -> bool:
        """Tell whether there is a snapshot, damaged or not."""
        return self._one("SELECT 1 FROM snapshots") is not None

    def is_whole(self) -> bool:
        """Tell whether the file's own structure holds together, and no row was altered or is gone.

        Raises:
            SessionCorruptError: a row was altered or is gone.
        """
        if self._one("PRAGMA integrity_check(1)")[0] != "ok":
            return False
        with self._guarded():
            require_all(self._connection, self._name)
        return True

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """See one state of the file throughout, whatever is written meanwhile; nothing may be written."""
        with self._guarded():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def _charges(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(sequence), 0) FROM ledger").fetchone()[0])

    def _one(self, statement: str, *values: Any) -> Any:
        with self._guarded():
            return self._connection.execute(statement, values).fetchone()

    def _answer(self, condition: str, value: object) -> tuple[int, StoredAnswer] | None:
        row = self._one(f"SELECT {self._columns('answers')}, sequence FROM answers {condition}", value)
        return None if row is None else self._numbered(row)

    def _numbered(self, row: Any) -> tuple[int, StoredAnswer]:
        *sealed, number = row
        answer = answer_of_row(sealed[:-1])
        if answer.source == MEASURED:
            with self._guarded():
                self._chain.require_answer(number)
        else:
            self._checked("answers", sealed)
        return int(number), answer

    def _newest(self, texts: Sequence[str]) -> tuple[_Places, dict[int, int]]:
        """Return the numbers of the newest answers to some questions.

        Returns:
            Those in blocks, 0 where there is none, or where a row is newer; and those of rows, by the places
            of their questions.
        """
        keys, rows = question_keys(texts), self._newest_rows(texts)
        numbers, newer = self._blocks.newest(texts, keys), dict[int, int]()
        row_keys = set(question_keys(list(rows)).tolist())
        for place, key in enumerate(keys.tolist()):
            number = rows.get(texts[place], 0) if key in row_keys else 0
            if number > numbers[place]:
                newer[place] = number
                numbers[place] = 0
        return numbers, newer

    def _newest_rows(self, texts: Sequence[str]) -> dict[str, int]:
        """Return the numbers of the newest rows that answer some questions; maybe of others, too."""
        execute = self._connection.execute
        newest = "SELECT query, max(sequence) FROM answers"
        (some,) = execute(
            "SELECT count(*) FROM (SELECT 1 FROM answers LIMIT ?)", (len(texts) + 1,)
        ).fetchone()
        if some <= len(texts):
            return dict(execute(f"{newest} GROUP BY query_key").fetchall())
        rows, keys = dict[str, int](), [query_key(text) for text in texts]
        for start in range(0, len(keys), _MOST_KEYS):
            part = keys[start : start + _MOST_KEYS]
            marks = ", ".join("?" * len(part))
            rows.update(execute(f"{newest} WHERE query_key IN ({marks}) GROUP BY query_key", part).fetchall())
        return rows

    def _columns(self, table: str) -> str:
        return ", ".join((*COLUMNS[table], "checksum"))

    def _checked(self, table: str, row: Any) -> tuple[Any, ...]:
        return require_checksum(table, row, self._name)

    @contextlib.contextmanager
    def _one_state(self) -> Iterator[None]:
        """See one state of the file, whether or not a transaction is open already."""
        with self._guarded(), contextlib.nullcontext() if self._connection.in_transaction else self.reading():
            yield

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise own_error(error, self._name) from None


def snapshot_checksum(version: int, raw: bytes) -> bytes:
    """Return the checksum of a snapshot."""
    return hashlib.sha256(version.to_bytes(8, "little") + raw).digest()


def _in_order(parts: Sequence[_Reaches]) -> _Reaches:
    """Return numbers, ascending, with what belongs to each."""
    numbers, values = (np.concatenate(own) for own in zip(*parts, strict=True))
    order = np.argsort(numbers, kind="stable")
    return numbers[order], values[order]
