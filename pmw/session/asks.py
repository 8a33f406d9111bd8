"""Asks: questions on their way, and which of them have a stored answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pmw.public.answer import Answer, Source
from pmw.public.state import PublicState
from pmw.session.journal import answer_row, read_answer
from pmw.session.store import Outcome, SessionStore, StoredAnswer
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.memory import Memory

__all__ = [
    "Answering",
    "Ask",
    "Deliver",
    "key_of",
    "ready_answers",
    "require_same",
    "sorted_asks",
    "tie_keys",
    "UNTESTED",
    "with_answers",
]

Deliver: TypeAlias = Callable[[Sequence[Answer]], None]  # is called with the next answers, in order


@dataclass(frozen=True, slots=True)
class Ask:
    """One question on its way.

    Args:
        query: what is asked.
        text: the query's canonical text.
        request_id: keys the request for safe retries; None for none.
        fresh: answer again even where the same question was answered before.
    """

    query: LinearQuery
    text: str
    request_id: str | None = None
    fresh: bool = False


_SEPARATOR = "\x1f"  # stands in no name of an analyst
UNTESTED = (Source.EXHAUSTED.value, Source.UNVERIFIED.value)

Answering: TypeAlias = Callable[[Sequence[Ask], Deliver | None], list[Answer]]


def sorted_asks(
    store: SessionStore,
    state: PublicState,
    asks: Sequence[Ask],
    is_tested: Callable[[LinearQuery], bool],
    newest: Memory[Answer],
) -> tuple[dict[int, Answer], list[int], dict[int, int]]:
    """Return the answers that are stored, the places that wait for one, and repeats of earlier places.

    Args:
        store: the session file.
        state: the public state.
        asks: the questions.
        is_tested: whether a question would be tested now: what an analyst whose share was spent was told is
            no answer to whoever can pay for a test.
        newest: the newest stored answers that were read already, by the texts of their questions.
    """
    known: dict[int, Answer] = {}
    waiting: list[int] = []
    first: dict[tuple[str, bool], int] = {}  # where a text, or a key, stands first among those that wait
    repeats: dict[int, int] = {}
    new = dict.fromkeys(ask.text for ask in asks if not ask.fresh and newest.get(ask.text) is None)
    rows = dict(zip(new, store.newest_answers(list(new)), strict=True))
    for place, ask in enumerate(asks):
        stored = _stored_answer(store, state, ask, is_tested, newest, rows)
        keyed = ask.request_id is not None
        earlier = first.get((ask.request_id or ask.text, keyed))
        if keyed and earlier is not None:
            _require_same(ask, asks[earlier].text)
        if stored is not None:
            known[place] = stored
            if keyed:
                first.setdefault((ask.request_id or "", True), place)
        elif earlier is not None and (keyed or not ask.fresh):
            repeats[place] = earlier
        else:
            first.setdefault((ask.text, False), place)
            first[ask.request_id or ask.text, keyed] = place
            waiting.append(place)
    return known, waiting, repeats


def require_same(store: SessionStore, asks: Iterable[Ask]) -> None:
    """Refuse keys that were used for other questions.

    Raises:
        QueryError: one was.
    """
    for ask in asks:
        row = None if ask.request_id is None else store.answer_to_request(ask.request_id)
        if row is not None:
            _require_same(ask, row.query)


def tie_keys(store: SessionStore, asks: Sequence[Ask]) -> None:
    """Tie keys to the stored answers that they are about to be given, durably.

    Else a request that is repeated after its question was asked again would get the newer answer.
    """
    keys = {
        ask.request_id: ask.text
        for ask in asks
        if ask.request_id is not None and store.answer_to_request(ask.request_id) is None
    }
    if keys:
        store.finish(None, Outcome(idempotency_keys=keys))


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
    outcome: Outcome, asked: Sequence[tuple[str, str | None]], answers: Sequence[Answer], analyst: str
) -> Outcome:
    """Return an outcome with the rows of answers, which may end at a positive before the questions do."""
    rows = [
        answer_row(answer, text, request, analyst)
        for answer, (text, request) in zip(answers, asked, strict=False)  # answers end at a positive
    ]
    return replace(outcome, answers=rows, asked=len(rows))


def _stored_answer(
    store: SessionStore,
    state: PublicState,
    ask: Ask,
    is_tested: Callable[[LinearQuery], bool],
    newest: Memory[Answer],
    rows: Mapping[str, StoredAnswer | None],
) -> Answer | None:
    row = None if ask.request_id is None else store.answer_to_request(ask.request_id)
    if row is not None:
        _require_same(ask, row.query)
    if row is not None:
        return read_answer(row, ask.query, state)
    if ask.fresh:
        return None
    known = newest.get(ask.text)
    if known is not None:
        return known
    row = rows[ask.text] if ask.text in rows else store.newest_answer(ask.text)
    if row is None or row.source == Source.REFUSED.value:
        return None  # what was measured since may answer it
    if row.analyst and row.source in UNTESTED:
        return None if is_tested(ask.query) else read_answer(row, ask.query, state)
    known = read_answer(row, ask.query, state)
    newest.keep(ask.text, known)
    return known


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
