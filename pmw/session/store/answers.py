"""Stored answers: blocks of one answer or many, each one row of compressed columns.

A block's row has a hash of all that is in it. The chain covers blocks with what was charged or measured, and
where 256 answers are in none of its links yet. Small blocks that follow one another and have analyst,
confidence, share and version in common are joined right before a link covers them, and never again. A
question is found by 32 bits of its text; its text decides. These keys are kept in memory, 8 bytes an answer,
once a question is looked up.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError, StoreError
from pmw.public.answer import QuestionKind
from pmw.public.answers import KINDS
from pmw.session.store.columns import (
    FIRST,
    UNSETTLED,
    AnswerColumns,
    StoredAnswer,
    are_same,
    joined,
    packed,
    question_keys,
    texts_at,
    unpacked,
)
from pmw.session.store.connection import guarded
from pmw.session.store.rows import Outcome, add_rows, as_written, facts_named, read_fact, sealed_rows
from queries.frozen import dataclass

ANSWERS = "answers"  # the fact that holds how many answers are stored
_MANY = 256  # answers of a block that is joined with no other, and of blocks that no link covers

_DECODED = 2**25  # bytes of columns that are kept; one block is kept in any case
_OBJECTS = 2**11  # bytes that the objects of a block take besides its columns
_RECENT = 2**8  # keys that are sorted again with each new block
_BITS = np.uint64(32)  # of a number, below the bits of a question's key
_NUMBER = np.uint64(2**32 - 1)
_NONE = np.empty(0, dtype=np.uint64)
_LAST = 2**63 - 1  # no answer has this number
_MOST_IDS = 500  # of one look

_PLACES = ", ".join("?" * 12)
_COLUMNS = "sequence, size, analyst, confidence, share, version, drawn, kinds, settled, keys, hash, answers"
_NEWER = "newer "  # how the names of the facts begin that hold which answers are newer ones

_Numbers: TypeAlias = NDArray[np.int64]
_Reaches: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]  # numbers of answers, and records


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Stored answers to n questions.

    Args:
        numbers: int64, shape (n,), of the answers; 0 where there is none.
        parts: of each block with some of them its columns, the places of questions, and the places of their
            answers in the columns.
    """

    numbers: _Numbers
    parts: list[tuple[AnswerColumns, _Numbers, _Numbers]]


class StoredAnswers:
    """The answers of a session file."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._decoded = OrderedDict[tuple[int, int], AnswerColumns]()  # by their spans, the oldest look first
        self.forget()

    def forget(self) -> None:
        """Forget what was read: blocks that were written may be gone again."""
        self._decoded.clear()
        self._held = 0  # bytes of the decoded blocks
        self._sorted = self._recent = _NONE  # a question's key and an answer's number, sorted
        self._known = 0  # the number of the last answer whose key is there
        self._settled: Counter[str] | None = None  # questions by analyst, once they were counted

    # --- looking up -----------------------------------------------------------------------------------------

    def find(self, texts: Sequence[str]) -> Found:
        """Return the newest answers to some questions, by their canonical texts."""
        with guarded(self._name):
            numbers = self._newest(texts)
            return Found(numbers, list(self._parts(numbers)) if numbers.any() else [])

    def at(self, numbers: _Numbers) -> Found:
        """Return answers by their numbers, int64, shape (n,); 0 stands for none."""
        with guarded(self._name):
            return Found(numbers, list(self._parts(numbers)))

    def answer(self, number: int) -> StoredAnswer:
        """Return the answer of a number."""
        with guarded(self._name):
            first, columns = self._block_of(number)
        return columns.answer(number - first)

    def by_request_ids(self, ids: Sequence[str]) -> _Numbers:
        """Return the numbers of the answers that requests were given: int64, shape (n,), 0 where none was.

        A number below 0 is that of the batch with the measurement that the request asked for.
        """
        found = dict[str, int]()
        with guarded(self._name):
            for start in range(0, len(ids), _MOST_IDS):
                part = ids[start : start + _MOST_IDS]
                which = f"WHERE request IN ({', '.join('?' * len(part))})"
                found.update(sealed_rows(self._connection, "requests", self._name, which, part))
        return np.array([found.get(one, 0) for one in ids], dtype=np.int64)

    def are_settled(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Tell which questions were settled, by their canonical texts: bool, shape (n,)."""
        found = np.zeros(len(texts), dtype=np.bool_)
        for columns, asked, own in self.find(texts).parts:
            found[asked] = columns.settled[own] != UNSETTLED
        return found

    def _newest(self, texts: Sequence[str]) -> _Numbers:
        self._read_keys()
        low, found = question_keys(texts).astype(np.uint64) << _BITS, np.zeros(len(texts), dtype=np.int64)
        for held in (self._recent, self._sorted):  # what is newer comes first
            starts, stops = np.searchsorted(held, low), np.searchsorted(held, low | _NUMBER, side="right")
            places = np.flatnonzero((stops > starts) & (found == 0))
            while places.size:  # each with the newest answer of its key that was not looked at
                stops[places] -= 1
                numbers = (held[stops[places]] & _NUMBER).astype(np.int64)
                same = np.zeros(places.size, dtype=bool)
                for columns, at, own in self._parts(numbers):
                    same[at] = are_same(columns.texts, own, texts, places[at])
                found[places[same]] = numbers[same]
                left = places[~same]
                places = left[stops[left] > starts[left]]
        return found

    def _read_keys(self) -> None:
        """Read the keys of answers that are new since the last look."""
        begin = "(SELECT coalesce(max(sequence), 0) FROM blocks WHERE sequence <= :known)"
        where = f"WHERE sequence >= {begin} AND sequence + size - 1 > :known ORDER BY sequence"
        new = list[NDArray[np.uint64]]()
        for first, size, raw in self._connection.execute(
            f"SELECT sequence, size, keys FROM blocks {where}", {"known": self._known}
        ):
            keys = np.frombuffer(raw, dtype="<u4").astype(np.uint64)
            if keys.size != size:
                raise self._damaged()
            pairs = (keys << _BITS) | np.arange(first, first + size, dtype=np.uint64)
            new.append(pairs[max(0, self._known + 1 - first) :])
            self._known = first + size - 1
        if not new:
            return
        self._recent = np.sort(np.concatenate([self._recent, *new]), kind="stable")
        if self._recent.size > _RECENT:
            self._sorted = np.sort(np.concatenate([self._sorted, self._recent]), kind="stable")
            self._recent = _NONE

    def _parts(self, numbers: _Numbers) -> Iterator[tuple[AnswerColumns, _Numbers, _Numbers]]:
        """Yield the blocks of some answers, with the places of their numbers, and their own there."""
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        start = int(np.searchsorted(ascending, 0, side="right"))
        while start < ascending.size:
            first, columns = self._block_of(int(ascending[start]))
            stop = int(np.searchsorted(ascending, first + len(columns)))
            yield columns, order[start:stop], ascending[start:stop] - first
            start = stop

    # --- blocks ---------------------------------------------------------------------------------------------

    def blocks(self, which: str = "") -> Iterator[AnswerColumns]:
        """Yield all answers, or some, in order; the keys of their questions and requests are compared."""
        with guarded(self._name):
            for row in self._connection.execute(f"SELECT {_COLUMNS} FROM blocks {which} ORDER BY sequence"):
                columns = self._read(row)
                if question_keys(columns.texts).astype("<u4").tobytes() != row[9]:
                    raise self._damaged()
                self._require_requests(row[0], columns)
                yield columns

    def each(self) -> Iterator[StoredAnswer]:
        """Yield all answers one by one, in order."""
        for columns in self.blocks():
            yield from columns.answers()

    def require_drawn(self) -> None:
        """Check the blocks with answers that drew noise, and that these are found by their requests."""
        for _ in self.blocks("WHERE drawn > 0"):
            pass

    def spans(self) -> list[tuple[int, int]]:
        """Return the number of each block's first answer, and of the one after its last, in order."""
        found = self._connection.execute("SELECT sequence, size FROM blocks ORDER BY sequence")
        return [(first, first + size) for first, size in found]

    def _require_requests(self, first: int, columns: AnswerColumns) -> None:
        numbers = {name: first + own for own, name in enumerate(columns.request_ids) if name is not None}
        if self.by_request_ids(list(numbers)).tolist() != list(numbers.values()):
            raise SessionCorruptError(
                f"{self._name}: the session file is damaged: requests of its answers are not there"
            )

    def _block_of(self, number: int) -> tuple[int, AnswerColumns]:
        """Return the block that holds an answer, and the number of the block's first answer."""
        where = "WHERE sequence <= ? ORDER BY sequence DESC LIMIT 1"
        span = self._connection.execute(f"SELECT sequence, size FROM blocks {where}", (number,)).fetchone()
        if span is None or number >= span[0] + span[1]:
            raise SessionCorruptError(f"{self._name}: the session file is damaged: answer {number} is gone")
        known = self._decoded.get(span)
        if known is not None:
            self._decoded.move_to_end(span)
            return span[0], known
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM blocks {where}", (number,)).fetchone()
        return int(row[0]), self._kept(row[0], self._read(row))  # it may have been joined meanwhile

    def _kept(self, first: int, columns: AnswerColumns) -> AnswerColumns:
        self._decoded[first, len(columns)] = columns
        self._held += columns.nbytes + _OBJECTS
        while self._held > _DECODED and len(self._decoded) > 1:
            self._held -= self._decoded.popitem(last=False)[1].nbytes + _OBJECTS
        return columns

    def _read(self, row: Sequence[Any]) -> AnswerColumns:
        _, size, analyst, confidence, share, version, *_, found, answers = row
        if block_hash(*row[:-2], answers) == found:
            with contextlib.suppress(ValueError, LookupError, TypeError, zlib.error):
                columns = unpacked(answers, analyst, confidence, share, version)
                if len(columns) == size:
                    return columns
        raise self._damaged()

    def _damaged(self) -> SessionCorruptError:
        return SessionCorruptError(
            f"{self._name}: the session file is damaged: a row of its blocks of answers was altered"
        )

    # --- writing, inside a transaction ----------------------------------------------------------------------

    def add(self, outcome: Outcome) -> bool:
        """Add answers, with the requests that were given them; tell whether many are in no link now."""
        number = int(read_fact(self._connection, ANSWERS, self._name) or 0)
        if outcome.are_newer:
            self._add_newer(number + 1, outcome)
        for columns in outcome.columns:
            self._insert(number + 1, columns)
            named = enumerate(columns.request_ids, start=number + 1)
            self._add("requests", [(name, at) for at, name in named if name is not None])
            number += len(columns)
            if self._settled is not None and (first := columns.first_count()):
                self._settled[columns.analyst] += first
        self._add("meta", [(ANSWERS, str(number))], "INSERT OR REPLACE")
        covered = "sequence = (SELECT blocks FROM chain ORDER BY sequence DESC LIMIT 1)"
        last = self._connection.execute(f"SELECT sequence + size - 1 FROM blocks WHERE {covered}").fetchone()
        return number - (0 if last is None else int(last[0])) >= _MANY

    def tie(self, keys: Mapping[str, str], repeats: Sequence[tuple[str, str]]) -> None:
        """Note who was given the newest stored answers to some questions, and by which requests."""
        numbers = self._newest_stored([*keys.values()])
        self._add("requests", list(zip(keys, numbers, strict=True)))
        analysts, texts = zip(*repeats, strict=True) if repeats else ((), ())
        again = zip(analysts, self._newest_stored(texts), strict=True)
        others = [one for one in again if self.answer(one[1]).analyst != one[0]]
        self._add("repeats", others, "INSERT OR IGNORE")

    def join(self, covered: int) -> None:
        """Join small blocks after one, by its number, with those beside them."""
        statement = "SELECT sequence, size FROM blocks WHERE sequence > ? ORDER BY sequence"
        spans = self._connection.execute(statement, (covered,)).fetchall()
        for is_small, run in groupby(spans, lambda span: span[1] < _MANY):
            small = list(run) if is_small else []
            sizes, first = dict(small), small[0][0] if small else 0
            for columns in joined([self._block_of(span[0])[1] for span in small]):
                if sizes[first] != len(columns):
                    between = (first, first + len(columns))
                    self._connection.execute(
                        "DELETE FROM blocks WHERE sequence >= ? AND sequence < ?", between
                    )
                    self._insert(first, columns)
                first += len(columns)

    def _insert(self, first: int, columns: AnswerColumns) -> None:
        keys, answers = question_keys(columns.texts).astype("<u4").tobytes(), packed(columns)
        shared = columns.analyst, float(columns.confidence), float(columns.share), int(columns.version)
        counts = columns.drawn_count(), columns.kind_count(), columns.first_count()
        head = (first, len(columns), *shared, *counts, keys)
        row = (*head, block_hash(*head, answers), answers)
        self._connection.execute(f"INSERT INTO blocks ({_COLUMNS}) VALUES ({_PLACES})", row)
        self._kept(first, columns)

    def _add_newer(self, first: int, outcome: Outcome) -> None:
        """Note newer answers; who was noted to have asked again stays noted once."""
        # A fact of each run has its first number, and how many of them each analyst asked first.
        older = self._newest_stored([text for one in outcome.columns for text in one.texts])
        analysts = Counter[str]()
        for columns in outcome.columns:
            analysts[columns.analyst] += len(columns)
        self._add("meta", [(f"{_NEWER}{first}", json.dumps(analysts))])
        moved = dict(zip(older, range(first, first + len(older)), strict=True))
        between = "SELECT analyst, answer FROM repeats WHERE answer BETWEEN ? AND ?"
        noted = self._connection.execute(between, (min(older), max(older))).fetchall()
        pairs = [(name, number) for name, number in noted if number in moved]
        rows = [(*as_written("repeats", (name, moved[number]))[1:], name, number) for name, number in pairs]
        move = "UPDATE repeats SET answer = ?, checksum = ? WHERE analyst = ? AND answer = ?"
        self._connection.executemany(move, rows)

    def _newest_stored(self, texts: Sequence[str]) -> list[int]:
        numbers = self._newest(texts) if texts else np.empty(0, dtype=np.int64)
        if not numbers.all():
            raise StoreError(f"{self._name}: expected a stored answer to tie a key to, found none")
        return [int(one) for one in numbers]

    def _add(self, table: str, rows: Sequence[Sequence[object]], verb: str = "INSERT") -> None:
        add_rows(self._connection, table, rows, verb)

    # --- counting -------------------------------------------------------------------------------------------

    def count(self) -> int:
        """Return how many answers are stored, those left out that only took the place of a wider one."""
        newer = sum(count.total() for _, count in self.newer_runs())
        with guarded(self._name):
            (answers,) = self._connection.execute("SELECT total(size) FROM blocks").fetchone()
        return int(answers) - newer

    def newer_runs(self) -> list[tuple[int, Counter[str]]]:
        """Return which answers took the place of a wider one to the same question.

        Returns:
            Of each run the number of its first answer, and how many each analyst asked first; in order.
        """
        with guarded(self._name):
            rows = list(facts_named(self._connection, _NEWER, self._name))
        return sorted(((first, Counter(json.loads(value))) for first, value in rows), key=itemgetter(0))

    def newest_numbers(self, analyst: str | None, most: int) -> list[int]:
        """Return the numbers of the newest answers, of one analyst or of all, the newest first."""
        which, given = ("WHERE analyst = ?", (analyst,)) if analyst is not None else ("", ())
        found = list[int]()
        with guarded(self._name):
            again = f"SELECT answer FROM repeats {which} ORDER BY 1 DESC LIMIT ?"
            repeats = self._connection.execute(again, (*given, most)).fetchall() if which else []
            spans = f"SELECT sequence, size FROM blocks {which} ORDER BY sequence DESC"
            for first, size in self._connection.execute(spans, given):
                found += range(first + size - 1, first - 1, -1)[: most - len(found)]
                if len(found) >= most:
                    break
        return sorted([*found, *(int(row[0]) for row in repeats)], reverse=True)[:most]

    def question_counts(self) -> dict[str, int]:
        """Return how many answers each analyst was given first, or again what somebody else was given.

        An empty name stands for those where nobody was named.
        """
        counts = dict.fromkeys([""], self.count())
        with guarded(self._name):
            for statement in (
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

    def first_answers(self) -> dict[QuestionKind, _Reaches]:
        """Return the first settled answer of each question that has a kind, by kinds.

        Returns:
            Of each kind int64, shape (n,), the numbers of the answers, ascending; and float64, shape (n,),
            how far their intervals reach above them, in records.
        """
        found: dict[QuestionKind, list[_Reaches]] = {}
        for start, columns in self._first("AND kinds > 0"):
            for code in np.unique(columns.kind).tolist():
                if kind := KINDS[code]:
                    own = np.flatnonzero((columns.settled == FIRST) & (columns.kind == code))
                    reaches = columns.interval[own, 1] - columns.count[own]
                    found.setdefault(kind, []).append((start + own, reaches))
        return {
            kind: (np.concatenate([one[0] for one in parts]), np.concatenate([one[1] for one in parts]))
            for kind, parts in found.items()
        }

    def first_questions(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the texts of questions that were settled, each once, in order, with who asked first."""
        for _, columns in self._first():
            yield columns.analyst, texts_at(columns.texts, np.flatnonzero(columns.settled == FIRST))

    def _first(self, which: str = "") -> Iterator[tuple[int, AnswerColumns]]:
        """Yield blocks that settle questions first, in order, with the numbers of their first answers."""
        statement = f"SELECT {_COLUMNS} FROM blocks WHERE settled > 0 {which} ORDER BY sequence"
        with guarded(self._name):
            for row in self._connection.execute(statement):
                yield row[0], self._read(row)

    def settled_count(self, asked: int | None = None) -> int:
        """Return how many questions were settled, by all answers or by the first so many.

        Args:
            asked: how many, as ``count`` counts them; None for all.
        """
        last = _LAST if asked is None else self._number_of(asked)
        rows, count = "SELECT sequence, size, settled FROM blocks WHERE sequence <= ?", 0
        with guarded(self._name):
            for first, size, settled in self._connection.execute(rows, (last,)).fetchall():
                if first + size - 1 <= last:
                    count += settled
                else:
                    _, columns = self._block_of(first)
                    count += columns.settled[: last - first + 1].tobytes().count(FIRST)
        return count

    def _number_of(self, asked: int) -> int:
        """Return the number of an answer by its place among those that took no wider one's place."""
        for first, run in self.newer_runs():
            asked += run.total() if first <= asked else 0
        return asked

    def settled_counts(self) -> dict[str, int]:
        """Return how many questions each analyst settled first; an empty name stands for nobody named."""
        if self._settled is None:
            counts = "SELECT analyst, sum(settled) FROM blocks WHERE settled > 0 GROUP BY analyst"
            with guarded(self._name):
                self._settled = Counter(dict(self._connection.execute(counts)))
        return dict(self._settled)

    def settled_version(self, place: int, analyst: str | None = None) -> int:
        """Return the version of the model that settled a question, by its place among all, from 1.

        Args:
            analyst: who asked them first; None for everybody.
        """
        blocks = "SELECT settled, version FROM blocks WHERE settled > 0 AND analyst = ifnull(?, analyst)"
        with guarded(self._name):
            for count, version in self._connection.execute(f"{blocks} ORDER BY sequence", (analyst,)):
                place -= count
                if place <= 0:
                    return int(version)
        raise SessionCorruptError(f"{self._name}: the session file is damaged: settled answers are gone")

    def shares(self, most: int) -> list[tuple[int, float]]:
        """Return the share spent after n answers, as (n, share), evenly thinned to ``most`` pairs."""
        with guarded(self._name):
            rows = self._connection.execute("SELECT sequence, size, share FROM blocks ORDER BY sequence")
            blocks = rows.fetchall()
        last = blocks[-1][0] + blocks[-1][1] - 1 if blocks else 0
        step = max(1, -(-last // most))
        wanted = np.arange(last % step or step, last + 1, step)
        found = list[tuple[int, float]]()
        for first, size, share in blocks:
            low, high = np.searchsorted(wanted, (first, first + size))
            found += [(number, share) for number in wanted[low:high].tolist()]
        return found


def block_hash(*columns: Any) -> bytes:
    """Return the hash of a block's row: 16 bytes, of its columns in order, but for the hash."""
    *head, keys, answers = columns
    found = hashlib.blake2b(ascii(head).encode(), digest_size=16)
    found.update(keys)
    found.update(answers)
    return found.digest()
