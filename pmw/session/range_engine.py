"""Many questions about ranges into durable answers, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.loop import propose
from pmw.loop.loop import may_test
from pmw.planning.error_quantiles import next_due
from pmw.public.answer import Source
from pmw.public.bars import BoxBounds
from pmw.public.range_answers import (
    KINDS,
    RangeAnswers,
    RangeRoom,
    answer_boxes,
    answers_together,
    range_answers,
)
from pmw.public.state import PublicState
from pmw.session.accounts import SESSION, Account
from pmw.session.asks import UNTESTED, Ask
from pmw.session.engine import Engine
from pmw.session.journal import read_answer
from pmw.session.measurement_rows import kind_text, read_kind
from pmw.session.store import AnswerColumns, Outcome, StoredAnswer
from pmw.session.store.columns import texts_at
from queries.boxes import Boxes

__all__ = [
    "RangeEngine",
]

_Part: TypeAlias = tuple[NDArray[np.int64], Boxes]  # places of questions about the same attributes
_CHUNK = 2**13  # questions of a commit, and of a block
_ROUNDS = 4  # how often a chunk's scopes are looked at for further tests, before its questions go one by one
_SOURCES = tuple(Source)
_REFUSED, _EXHAUSTED, _UNVERIFIED = map(_SOURCES.index, (Source.REFUSED, Source.EXHAUSTED, Source.UNVERIFIED))


class RangeEngine(Engine):
    """An engine that takes questions about ranges as arrays, too."""

    def answer_ranges(self, boxes: Boxes, *, fresh: bool = False, account: Account = SESSION) -> RangeAnswers:
        """Answer questions about ranges, each durable before it is given.

        What a scope's questions ask to be tested is tested once for many of them, with the first; else each
        gets the answer that it gets alone.

        Args:
            boxes: the questions.
            fresh: answer again what was answered before.
            account: who asks.

        Raises:
            DataError: a test needs the table, and it cannot be read or differs.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        self.finish_interrupted()
        first, numbers = boxes.distinct()
        room = RangeRoom(self.state, len(first))
        stored = self._stored(room, boxes.take(first)) if not fresh else _Stored.nothing(len(first))
        start = 0
        while start < len(first):
            self._release_spare()
            self._release_quantiles()
            stop = min(len(first), start + min(_CHUNK, next_due(self.state.asked) - self.state.asked))
            parts = boxes.take(first[start:stop]).parts()
            chunk = [(own + start, part) for own, part in parts]
            self._answer_chunk(room, self._give_again(room, chunk, stored, account), account, fresh=fresh)
            start = stop
        if len(boxes) > len(first):
            self._store.finish(None, Outcome(asked=len(boxes) - len(first)))
        return room.answers().take(numbers)

    def _answer_chunk(self, room: RangeRoom, parts: list[_Part], account: Account, *, fresh: bool) -> None:
        """Answer distinct questions that have no answer: what asks for a test, then what asks for none."""
        parts = self._answer_tested(room, parts, account, fresh=fresh)
        parts = self._answer_together(room, parts, account)
        for own, part in parts:
            self._answer_one_by_one(room, own, part, account, fresh=fresh)

    def _stored(self, room: RangeRoom, boxes: Boxes) -> _Stored:
        """Look up distinct questions, all at once, so that each block is read once.

        What is given again whoever asks is put into the room.
        """
        given, alone = np.zeros((2, len(boxes)), dtype=bool)
        others = dict[int, StoredAnswer]()
        for places, part in boxes.parts():
            rows, blocks = self._store.newest_together(part.texts())
            for columns, own, found in blocks:
                looked_at = {Source.REFUSED.value, *(UNTESTED if columns.analyst else ())}
                if looked_at & set(columns.source_names):
                    rows.update(zip(own.tolist(), map(columns.answer, found.tolist()), strict=True))
                else:
                    room.put(places[own], _of_block(self.state, columns, found))
                    given[places[own]] = True
            alone[places[list(rows)]] = True
            others.update((int(places[own]), row) for own, row in rows.items())
        return _Stored(given, alone, others)

    def _give_again(
        self, room: RangeRoom, parts: Sequence[_Part], stored: _Stored, account: Account
    ) -> list[_Part]:
        """Give the answers that are stored, and return the questions without one."""
        left, count, named = list[_Part](), 0, list[tuple[str, str]]()
        for places, part in parts:
            given = stored.given[places]
            for own in np.flatnonzero(stored.alone[places]).tolist():
                row = stored.rows[int(places[own])]
                if self._is_given_again(row, part, own, account):
                    answer = read_answer(row, part.query(own), self.state)
                    room.put(places[[own]], answers_together(self.state, [answer]))
                    given[own] = True
            count += int(given.sum())
            if account.name:
                named += [(account.name, text) for text in texts_at(part.texts(), np.flatnonzero(given))]
            left.append((places[~given], part.take(np.flatnonzero(~given))))
        if count:
            self._store.finish(None, Outcome(asked=count, repeats=named))
        return left

    def _is_given_again(self, row: StoredAnswer, part: Boxes, place: int, account: Account) -> bool:
        """Tell whether a stored answer is given again; see ``sorted_asks``."""
        if row.source == Source.REFUSED.value:
            return False
        if not (row.analyst and row.source in UNTESTED):
            return True
        return not propose(self.limited(account), [part.query(place)]).requests

    def _answer_tested(
        self, room: RangeRoom, parts: list[_Part], account: Account, *, fresh: bool
    ) -> list[_Part]:
        """Answer questions that ask for a test, and return those that are left when none does any more.

        One question of a scope is asked first: after it the others of its scope ask for nothing, until
        another scope's positive has changed the model. What still asks after some rounds goes one by one.
        """
        for number in range(_ROUNDS):
            state = self.limited(account)
            parts = [(places, part) for places, part in parts if len(part)]
            asking = [
                place for place, (_, part) in enumerate(parts) if propose(state, [part.query(0)]).requests
            ]
            for place in asking:
                places, part = parts[place]
                count = len(part) if number == _ROUNDS - 1 else 1
                self._answer_one_by_one(room, places[:count], part, account, fresh=fresh)
                parts[place] = places[count:], part.take(np.arange(count, len(part)))
            if not asking:
                break
        return [(places, part) for places, part in parts if len(part)]

    def _answer_one_by_one(
        self, room: RangeRoom, places: NDArray[np.int64], part: Boxes, account: Account, *, fresh: bool
    ) -> None:
        queries = [part.query(place) for place in range(len(places))]
        asks = [Ask(query, query.to_json(), fresh=fresh) for query in queries]
        room.put(places, answers_together(self.state, self.answer(asks, account=account)))

    def _answer_together(self, room: RangeRoom, parts: Sequence[_Part], account: Account) -> list[_Part]:
        """Answer questions that need no test and are bounded alike; return the others."""
        bars = self._free.bars(self.state)
        if bars is None:
            return list(parts)
        left, columns = list[_Part](), list[AnswerColumns]()
        answers = list[tuple[NDArray[np.int64], RangeAnswers]]()
        for places, part in parts:
            bounds = bars.of_boxes(part)
            if bounds is None:
                left.append((places, part))
            else:
                found = self._free_answers(bounds, part, account)
                columns.append(self._columns(part, found, account))
                answers.append((places, found))
        if columns:
            count = sum(map(len, columns))
            rows = Outcome(columns=tuple(columns), asked=count, charged_before=self._charges)
            self._store.finish(None, rows)
            self._state = replace(self.state, asked=self.state.asked + count)
        for places, found in answers:  # durable now
            room.put(places, found)
        return left

    def _free_answers(self, bounds: BoxBounds, part: Boxes, account: Account) -> RangeAnswers:
        """Return answers that no test decides."""
        state = self.state
        found = answer_boxes(state, bounds, part, state.ledger.share)
        if account.share is not None and may_test(state):  # only the share forbids it
            source = np.where(found.source == _EXHAUSTED, np.uint8(_UNVERIFIED), found.source)
            found = replace(found, source=source)
        return found

    def _columns(self, part: Boxes, found: RangeAnswers, account: Account) -> AnswerColumns:
        """Return answers as they are stored."""
        (sources, source_places), (kinds, kind_places) = _present(found.source), _present(found.kind)
        return AnswerColumns(
            part.texts(),
            found.count,
            found.interval,
            found.typical,
            sources,
            kinds,
            tuple(found.sources[place].value for place in source_places),
            tuple(None if (kind := KINDS[place]) is None else kind_text(kind) for place in kind_places),
            account.name,
            found.confidence,
            self.state.ledger.share,
            self.state.version,
        )


@dataclass(frozen=True, slots=True)
class _Stored:
    """Answers to distinct questions that are stored, by the places of these.

    Args:
        given: bool, shape (n,): what is given again, and is in the room.
        alone: bool, shape (n,): whose answers are looked at one by one.
        rows: those answers.
    """

    given: NDArray[np.bool_]
    alone: NDArray[np.bool_]
    rows: dict[int, StoredAnswer]

    @classmethod
    def nothing(cls, size: int) -> _Stored:
        """Return that no question has one."""
        return cls(np.zeros(size, dtype=bool), np.zeros(size, dtype=bool), {})


def _present(codes: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], list[int]]:
    """Return codes as places in a list of those that occur, and that list."""
    occurs = np.bincount(codes) > 0
    return (np.cumsum(occurs, dtype=np.uint8) - 1)[codes], np.flatnonzero(occurs).tolist()


def _of_block(state: PublicState, columns: AnswerColumns, own: NDArray[np.int64]) -> RangeAnswers:
    """Return some answers of a block."""
    sources = np.array([_SOURCES.index(Source(name)) for name in columns.source_names], dtype=np.uint8)
    kinds = [None if name is None else read_kind(name) for name in columns.kind_names]
    found: dict[str, NDArray[Any]] = {
        "count": columns.counts[own],
        "interval": columns.ends[own],
        "typical": columns.typical[own],
        "source": sources[columns.sources[own]],
        "version": np.full(own.size, columns.version),
        "share": np.full(own.size, columns.share),
        "kind": np.array([KINDS.index(kind) for kind in kinds], dtype=np.uint8)[columns.kinds[own]],
    }
    return range_answers(state, found)
