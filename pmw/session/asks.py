"""Asks: questions on their way, and which of them have a stored answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.public.answer import Answer
from pmw.public.free_answers import FreeAnswers
from pmw.public.range_answers import answers_together
from pmw.public.state import PublicState
from pmw.session.journal import answer_row, read_answer
from pmw.session.repeats import KEYED, Looks, Stored, is_better
from pmw.session.store import (
    AGAIN,
    FIRST,
    UNSETTLED,
    Outcome,
    SessionStore,
    StoredAnswer,
    columns_of,
)
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.memory import Memory

Deliver: TypeAlias = Callable[[Sequence[Answer]], None]  # is called with the next answers, in order


@dataclass(frozen=True, slots=True)
class Ask:
    """One question on its way.

    Args:
        query: what is asked.
        text: the query's canonical text.
        request_id: keys the request for safe retries; None for none.
        fresh: ask a newer model, or for a test that was not made, even where there is a stored answer.
    """

    query: LinearQuery
    text: str
    request_id: str | None = None
    fresh: bool = False


_REMEMBERED = 2**14  # stored answers that were read, ready to be given again
_SEPARATOR = "\x1f"  # stands in no name of an analyst

Answering: TypeAlias = Callable[[Sequence[Ask], Deliver | None], list[Answer]]


class Repeats:
    """Which questions have a stored answer, and which answer they are given.

    Args:
        store: the session file.
        free: answers that no test decides.
    """

    def __init__(self, store: SessionStore, free: FreeAnswers) -> None:
        self._store = store
        self._free = free
        self._newest: Memory[Stored] = Memory(_REMEMBERED)
        self._unstored: set[str] = set()  # questions that were looked up last and had no answer
        self.looks = Looks()

    def forget(self, texts: Iterable[str]) -> None:
        """Forget the stored answers to questions that get others now, or that they had none."""
        for text in texts:
            self._newest.forget(text)
            self._unstored.discard(text)

    def forget_unstored(self) -> None:
        """Forget which questions had no answer."""
        self._unstored.clear()

    def are_settled(self, texts: Sequence[str]) -> list[bool]:
        """Tell which questions were settled, by their canonical texts."""
        stored = [text for text in texts if text not in self._unstored]
        found = dict(zip(stored, self._store.answers.are_settled(stored), strict=True)) if stored else {}
        return [found.get(text, False) for text in texts]

    def sorted(
        self, state: PublicState, asks: Sequence[Ask], is_tested: Callable[[LinearQuery], bool]
    ) -> tuple[dict[int, Stored], list[int], dict[int, int]]:
        """Return the answers that are stored, the places that wait for one, and repeats of earlier places.

        Args:
            state: the public state.
            asks: the questions.
            is_tested: whether a question would be tested now.
        """
        known: dict[int, Stored] = {}
        waiting: list[int] = []
        first: dict[tuple[str, bool], int] = {}  # where a text, or a key, stands first among those that wait
        repeats: dict[int, int] = {}
        new = dict.fromkeys(ask.text for ask in asks if self._newest.get(ask.text) is None)
        rows = dict(zip(new, self._store.answers.find(list(new)).rows(), strict=True))
        self._unstored = {text for text, row in rows.items() if row is None}
        for place, ask in enumerate(asks):
            stored = self._stored(state, ask, is_tested, rows)
            keyed = ask.request_id is not None
            earlier = first.get((ask.request_id or ask.text, keyed))
            if keyed and earlier is not None:
                _require_same(ask, asks[earlier].text)
            if stored is not None:
                known[place] = stored
                if keyed:
                    first.setdefault((ask.request_id or "", True), place)
            elif earlier is not None:
                repeats[place] = earlier
            else:
                first.setdefault((ask.text, False), place)
                first[ask.request_id or ask.text, keyed] = place
                waiting.append(place)
        return known, waiting, repeats

    def given(
        self, state: PublicState, asks: Sequence[Ask], stored: Mapping[int, Stored], charges: int
    ) -> dict[int, Answer]:
        """Return the answers to questions with stored ones: these, or the model's, durable, where better.

        Args:
            state: the public state.
            asks: the questions.
            stored: answers by the places of their questions.
            charges: how many the session file holds.

        Privacy: a function of public state; nothing is tested or charged.
        """
        newer, kept = self._compared(state, asks, stored)
        if newer:
            were_settled = self._store.answers.are_settled(list(newer))
            marks = settled_marks(list(newer), were_settled, [False] * len(newer))
            rows = [
                answer_row(one.answer, text, one.analyst, mark)
                for (text, one), mark in zip(newer.items(), marks.tolist(), strict=True)
            ]
            columns = columns_of(rows)
            self._store.finish(None, Outcome(columns=columns, are_newer=True, charged_before=charges))
        for text, one in (*newer.items(), *kept.items()):
            self._newest.keep(text, one)
        if not newer:
            return {place: one.answer for place, one in stored.items()}
        return {
            place: (one if one.looked == KEYED else newer.get(asks[place].text, one)).answer
            for place, one in stored.items()
        }

    def require_keys(self, asks: Iterable[Ask]) -> None:
        """Refuse idempotency keys that were used for other questions.

        Raises:
            QueryError: one was.
        """
        for ask in asks:
            row = self._row_of_key(ask)
            if row is not None:
                _require_same(ask, row.query)

    def tie_keys(self, asks: Iterable[Ask]) -> None:
        """Tie keys to the stored answers that they are about to be given, durably.

        Else a request that is repeated after its question was asked again would get the newer answer.
        """
        keys = {
            ask.request_id: ask.text
            for ask in asks
            if ask.request_id is not None and self._row_of_key(ask) is None
        }
        if keys:
            self._store.finish(None, Outcome(idempotency_keys=keys))

    def _row_of_key(self, ask: Ask) -> StoredAnswer | None:
        if ask.request_id is None:
            return None
        (number,) = self._store.answers.by_request_ids([ask.request_id]).tolist()
        return self._store.answers.answer(number) if number else None

    def _compared(
        self, state: PublicState, asks: Sequence[Ask], stored: Mapping[int, Stored]
    ) -> tuple[dict[str, Stored], dict[str, Stored]]:
        """Return the model's answers that are better than stored ones, and others that were looked at.

        Both by the texts of the questions; who asked first stays the same.
        """
        version = state.version
        due = {
            asks[place].text: place
            for place, one in stored.items()
            if (one.looked < version or asks[place].fresh) and one.is_due(version, fresh=asks[place].fresh)
        }
        if not due:
            return {}, {}
        before = [stored[place] for place in due.values()]
        now = self._free.answers(state, [asks[place].query for place in due.values()])
        better = is_better(
            answers_together(state, [one.answer for one in before]), answers_together(state, now)
        )
        newer, kept = dict[str, Stored](), dict[str, Stored]()
        for text, old, answer, is_newer in zip(due, before, now, better.tolist(), strict=True):
            if is_newer:
                newer[text] = Stored(answer, old.analyst, version)
            else:
                kept[text] = Stored(old.answer, old.analyst, version)
        return newer, kept

    def _stored(
        self,
        state: PublicState,
        ask: Ask,
        is_tested: Callable[[LinearQuery], bool],
        rows: Mapping[str, StoredAnswer | None],
    ) -> Stored | None:
        row = self._row_of_key(ask)
        if row is not None:
            _require_same(ask, row.query)
            return Stored(read_answer(row, ask.query, state), row.analyst, KEYED)
        known = self._newest.get(ask.text)
        if known is None:
            row = rows[ask.text] if ask.text in rows else self._store.answers.find([ask.text]).rows()[0]
            if row is None:
                return None
            known = Stored(read_answer(row, ask.query, state), row.analyst, row.version)
            self._newest.keep(ask.text, known)
        if known.is_final and not ask.fresh:
            return known
        again = known.is_asked_again(state, lambda: is_tested(ask.query), fresh=ask.fresh)
        return None if again else known


def ready_answers(known: dict[int, Answer], repeats: dict[int, int], places: range) -> list[Answer]:
    """Return the answers that are known without a gap; a repeat is known with the earlier place."""
    ready = []
    for place in places:
        if place in repeats:
            known[place] = known[repeats[place]]
        if place not in known:
            break
        ready.append(known[place])
    return ready


def with_answers(
    outcome: Outcome,
    asked: Sequence[tuple[str, str | None]],
    answers: Sequence[Answer],
    analyst: str,
    settled: Sequence[int],
) -> Outcome:
    """Return an outcome with the rows of answers, which may end at a positive before the questions do."""
    rows = [
        answer_row(answer, text, analyst, mark)
        for answer, (text, _), mark in zip(answers, asked, settled, strict=False)
    ]
    columns = columns_of(rows, [request_id for _, request_id in asked])
    return replace(outcome, columns=columns, asked=len(rows))


def settled_marks(
    texts: Sequence[str], were_settled: Sequence[bool], settle: Sequence[bool]
) -> NDArray[np.uint8]:
    """Return of answers whether each settles its question: uint8, shape (n,), for ``StoredAnswer``.

    Args:
        texts: of the questions, in order.
        were_settled: whether a stored answer settled the question.
        settle: whether this one does, if it is the first.
    """
    marks, seen = np.full(len(texts), UNSETTLED, dtype=np.uint8), set[str]()
    for place, (text, was, does) in enumerate(zip(texts, were_settled, settle, strict=True)):
        if was or text in seen:
            marks[place] = AGAIN
        elif does:
            marks[place] = FIRST
            seen.add(text)
    return marks


def key_of(analyst: str, request_id: str) -> str:
    """Return the idempotency key of an analyst's request; the same of two analysts are two keys."""
    return f"{analyst}{_SEPARATOR}{request_id}" if analyst else request_id


def _own_key(key: str | None) -> str | None:
    return None if key is None else key.rpartition(_SEPARATOR)[2]


def _require_same(ask: Ask, text: str) -> None:
    if ask.text != text:
        raise QueryError(
            f"request_id {_own_key(ask.request_id)!r} was used for another question; choose a new one",
            code="bad_request",
            position="request_id",
        )
