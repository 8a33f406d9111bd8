"""Many questions about ranges into durable answers, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.loop import propose
from pmw.loop.loop import may_test
from pmw.planning.error_quantiles import next_due
from pmw.public.answer import Source
from pmw.public.bars import BoxBounds
from pmw.public.codec import kind_text, read_kind
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
from pmw.session.asks import Ask
from pmw.session.engine import Engine
from pmw.session.journal import read_answer
from pmw.session.repeats import UNTESTED, Stored, is_better, rests_on_test
from pmw.session.store import AGAIN, FIRST, UNSETTLED, AnswerColumns, Outcome, StoredAnswer
from pmw.session.store.columns import texts_at
from queries.boxes import Boxes

_Part: TypeAlias = tuple[NDArray[np.int64], Boxes]  # places of questions about the same attributes
_CHUNK = 2**13  # questions of a commit, and of a block
_ROUNDS = 4  # how often a chunk's scopes are looked at for further tests, before its questions go one by one
_SOURCES = tuple(Source)
_HELD = [_SOURCES.index(one) for one in (Source.SYNTHETIC, Source.MEASURED)]
_REFUSED, _EXHAUSTED, _UNVERIFIED = map(_SOURCES.index, (Source.REFUSED, Source.EXHAUSTED, Source.UNVERIFIED))


class RangeEngine(Engine):
    """An engine that takes questions about ranges as arrays, too."""

    def answer_ranges(self, boxes: Boxes, *, fresh: bool = False, account: Account = SESSION) -> RangeAnswers:
        """Answer questions about ranges, each durable before it is given.

        What a scope's questions ask to be tested is tested once for many of them, with the first; else each
        gets the answer that it gets alone.

        Args:
            boxes: the questions.
            fresh: ask a newer model, or for tests that were not made, what was answered before, too.
            account: who asks.

        Raises:
            DataError: a test needs the table, and it cannot be read or differs.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        self.finish_interrupted()
        self.bookings.know(account)
        first, numbers = boxes.distinct()
        room = RangeRoom(self.state, len(first))
        stored = self._stored(room, boxes.take(first))
        start = 0
        while start < len(first):
            self._release_due(account)
            stop = start + self._boxes_until_due(boxes.take(first[start : start + _CHUNK]), account)
            parts = boxes.take(first[start:stop]).parts()
            chunk = [(own + start, part) for own, part in parts]
            left = self._give_again(room, chunk, stored, account, fresh=fresh)
            self._answer_chunk(room, left, stored, account, fresh=fresh)
            start = stop
        if len(boxes) > len(first):
            self._store.finish(None, Outcome(asked=len(boxes) - len(first)))
        return room.answers().take(numbers)

    def _answer_chunk(
        self, room: RangeRoom, parts: list[_Part], stored: _StoredAnswers, account: Account, *, fresh: bool
    ) -> None:
        """Answer distinct questions that have no answer: what asks for a test, then what asks for none."""
        parts = self._answer_tested(room, parts, account, fresh=fresh)
        parts = self._answer_together(room, parts, stored, account)
        for own, part in parts:
            self._answer_one_by_one(room, own, part, account, fresh=fresh)

    def _boxes_until_due(self, boxes: Boxes, account: Account) -> int:
        """Return how many of distinct questions are answered before releases can come due."""
        room = next_due(self.state.settled) - self.state.settled
        if room >= len(boxes) or not account.may_pay(self.limited(account)):
            return len(boxes)
        new = np.zeros(len(boxes), dtype=bool)
        for places, part in boxes.parts():
            new[places] = np.logical_not(self._store.answers.are_settled(part.texts()))
        found = np.flatnonzero(new)
        return int(found[room]) if len(found) > room else len(boxes)

    def _stored(self, room: RangeRoom, boxes: Boxes) -> _StoredAnswers:
        """Look up distinct questions, all at once, so that each block is read once.

        What is given again whoever asks is put into the room.
        """
        numbers, in_blocks = np.zeros(len(boxes), dtype=np.int64), np.zeros(len(boxes), dtype=bool)
        analysts, alone = np.full(len(boxes), "", dtype=object), dict[int, Stored]()
        for places, part in boxes.parts():
            found, rows = self._store.answers.find(part.texts()), dict[int, StoredAnswer]()
            numbers[places] = found.numbers
            for columns, own, at in found.parts:
                one_by_one = {Source.REFUSED.value, *(UNTESTED if columns.analyst else ())}
                if one_by_one.intersection(columns.source_names):
                    rows.update(zip(own.tolist(), map(columns.answer, at.tolist()), strict=True))
                else:
                    room.put(places[own], _of_block(self.state, columns, at))
                    in_blocks[places[own]] = True
                    analysts[places[own]] = columns.analyst
            for place, row in rows.items():
                answer = read_answer(row, part.query(place), self.state)
                alone[int(places[place])] = Stored(answer, row.analyst, row.version)
                analysts[places[place]] = row.analyst
        return _StoredAnswers(numbers, in_blocks, analysts, alone)

    def _give_again(
        self,
        room: RangeRoom,
        parts: Sequence[_Part],
        stored: _StoredAnswers,
        account: Account,
        *,
        fresh: bool,
    ) -> list[_Part]:
        """Give the answers that are stored, or better ones, and return the questions that are asked."""
        left, count, named = list[_Part](), 0, list[tuple[str, str]]()
        for places, part in parts:
            given = self._are_given_again(room, places, part, stored, account, fresh=fresh)
            own = np.flatnonzero(given)
            self._give_better(room, places[own], part.take(own), stored, fresh=fresh)
            count += own.size
            if account.name:
                named += [(account.name, text) for text in texts_at(part.texts(), own)]
            self._repeats.forget(part.take(np.flatnonzero(~given & (stored.numbers[places] > 0))).texts())
            left.append((places[~given], part.take(np.flatnonzero(~given))))
        if count:
            self._store.finish(None, Outcome(asked=count, repeats=named))
        return left

    def _are_given_again(
        self,
        room: RangeRoom,
        places: NDArray[np.int64],
        part: Boxes,
        stored: _StoredAnswers,
        account: Account,
        *,
        fresh: bool,
    ) -> NDArray[np.bool_]:
        """Return which questions' stored answers are given again: bool, shape (n,); see ``Stored``.

        Questions about one scope ask for the same tests: the first stands for those in blocks.
        """
        given = stored.in_blocks[places]
        if fresh and given.any():
            given &= room.versions(places) == self.state.version
            if given.any() and self._is_tested(part, 0, account):
                given &= rests_on_test(self.state, room.answers().take(places))
        for own in np.flatnonzero(~stored.in_blocks[places] & (stored.numbers[places] > 0)).tolist():
            one = stored.alone[int(places[own])]
            if not one.is_asked_again(self.state, partial(self._is_tested, part, own, account), fresh=fresh):
                room.put(places[[own]], answers_together(self.state, [one.answer]))
                given[own] = True
        return given

    def _is_tested(self, part: Boxes, place: int, account: Account) -> bool:
        return bool(propose(self.limited(account), [part.query(place)]).requests)

    def _give_better(
        self,
        room: RangeRoom,
        places: NDArray[np.int64],
        part: Boxes,
        stored: _StoredAnswers,
        *,
        fresh: bool,
    ) -> None:
        """Put the model's answers in the place of stored ones where they are better, durably."""
        version, numbers = self.state.version, stored.numbers[places]
        due = self._repeats.looks.are_due(numbers, room.versions(places), version)
        if fresh:
            due |= np.isnan(room.answers().take(places).interval[:, 0])
        own = np.flatnonzero(due)
        if not own.size:
            return
        now, part = self._free_ranges(part.take(own)), part.take(own)
        better = np.flatnonzero(is_better(room.answers().take(places[own]), now))
        if better.size:
            self._keep_newer(part.take(better), now.take(better), stored.analysts[places[own[better]]])
            room.put(places[own[better]], now.take(better))
        self._repeats.looks.note(numbers[own], version)

    def _free_ranges(self, part: Boxes) -> RangeAnswers:
        """Return the model's answers to questions about one scope, from what is known of them."""
        bars = self._free.bars(self.state)
        bounds = None if bars is None else bars.of_boxes(part)
        if bounds is not None:
            return answer_boxes(self.state, bounds, part, self.state.ledger.share)
        queries = [part.query(place) for place in range(len(part))]
        return answers_together(self.state, self._free.answers(self.state, queries))

    def _keep_newer(self, part: Boxes, answers: RangeAnswers, analysts: NDArray[np.object_]) -> None:
        """Store answers that are better than stored ones; who asked first stays the same."""
        columns = list[AnswerColumns]()
        for name in dict.fromkeys(analysts.tolist()):
            own = np.flatnonzero(analysts == name)
            settle = np.zeros(own.size, dtype=bool)  # a repeat settles nothing
            settled = self._settled(part.take(own), ~settle, settle)
            columns.append(self._columns(part.take(own), answers.take(own), name, settled))
        self._store.finish(
            None, Outcome(columns=tuple(columns), are_newer=True, charged_before=self._charges)
        )
        self._repeats.forget(part.texts())

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

    def _answer_together(
        self, room: RangeRoom, parts: Sequence[_Part], stored: _StoredAnswers, account: Account
    ) -> list[_Part]:
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
                settled = self._settled(part, stored.numbers[places] > 0, self._settle(found, account))
                columns.append(self._columns(part, found, account.name, settled))
                answers.append((places, found))
        if columns:
            count = sum(map(len, columns))
            rows = Outcome(columns=tuple(columns), asked=count, charged_before=self._charges)
            self._store.finish(None, rows)
            self._repeats.forget_unstored()
            state = self.state
            self._state = replace(state, asked=state.asked + count, settled=state.settled + rows.settled)
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

    def _settle(self, found: RangeAnswers, account: Account) -> NDArray[np.bool_]:
        """Return which answers settle their questions, if they are the first: bool, shape (n,)."""
        settle = np.full(len(found.count), account.may_pay(self.limited(account)))
        return settle if account.share is None else settle & np.isin(found.source, _HELD)

    def _settled(
        self, part: Boxes, is_stored: NDArray[np.bool_], settle: NDArray[np.bool_]
    ) -> NDArray[np.uint8]:
        """Return of distinct questions what ``settled_marks`` does, looking up those with stored answers."""
        again, own = np.zeros(len(part), dtype=bool), np.flatnonzero(is_stored)
        if own.size:
            again[own] = self._store.answers.are_settled(part.take(own).texts())
        return np.where(again, AGAIN, np.where(settle, FIRST, UNSETTLED)).astype(np.uint8)

    def _columns(
        self, part: Boxes, found: RangeAnswers, analyst: str, settled: NDArray[np.uint8]
    ) -> AnswerColumns:
        """Return answers as they are stored."""
        texts = part.texts()
        (sources, source_places), (kinds, kind_places) = _present(found.source), _present(found.kind)
        return AnswerColumns(
            texts,
            found.count,
            found.interval,
            found.typical,
            sources,
            kinds,
            settled,
            tuple(found.sources[place].value for place in source_places),
            tuple(None if (kind := KINDS[place]) is None else kind_text(kind) for place in kind_places),
            analyst,
            found.confidence,
            self.state.ledger.share,
            self.state.version,
        )


@dataclass(frozen=True, slots=True)
class _StoredAnswers:
    """Answers to distinct questions that are stored, by the places of these.

    Args:
        numbers: int64, shape (n,), of the answers; 0 where there is none.
        in_blocks: bool, shape (n,): what is given again whoever asks, and is in the room.
        analysts: shape (n,), who asked first.
        alone: the answers that are looked at one by one.
    """

    numbers: NDArray[np.int64]
    in_blocks: NDArray[np.bool_]
    analysts: NDArray[np.object_]
    alone: dict[int, Stored]


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
