"""Answers in blocks: the same to the last bit, found by their questions, and refused where altered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import SessionCorruptError
from pmw.public.codec import kind_text
from pmw.session.store.columns import AGAIN, FIRST, UNSETTLED, StoredAnswer, packed, question_keys, unpacked
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore
from queries.boxes import RangeTexts
from tests.pmw.session.stored import (
    columns_of,
    newest_answer,
    newest_answers,
    tamper,
)

FINITE = st.floats(0.0, 1e12)
ENDS = st.none() | st.tuples(FINITE, FINITE)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=20)


def stored(text: str, **others: Any) -> StoredAnswer:
    given = StoredAnswer(text, 12.5, (10.0, 15.0), 0.95, "synthetic", 3, 0.25, "2 tested", (11.0, 14.0))
    return replace(given, **others)


ANSWERS = st.builds(
    lambda text, count, ends, typical, source, kind: stored(
        text, count=count, interval=ends, typical=typical, source=source, kind=kind
    ),
    TEXTS, FINITE, ENDS, ENDS, st.sampled_from(["synthetic", "exhausted"]), st.sampled_from([None, "3 bins"]),
)  # fmt: skip


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with closing(make(None)) as made:
        yield made


def make(path: Path | None) -> SessionStore:
    made = SessionStore.create(path, bytes(32), Outcome(meta={"contract": '"c"'}))
    made.finish(1, Outcome())
    return made


def many(size: int, first: int = 0, **others: Any) -> list[StoredAnswer]:
    return [
        stored(f'{{"{number}"}}', **{"count": number + 0.1, **others})
        for number in range(first, first + size)
    ]


# --- columns ------------------------------------------------------------------------------------------------


@given(
    answers=st.lists(ANSWERS, min_size=1, max_size=40), ends=st.lists(st.sampled_from(["x", ""]), max_size=2)
)
def test_answers_come_back_to_the_last_bit(answers: list[StoredAnswer], ends: list[str]) -> None:
    answers += [stored(text) for text in ends]
    columns = columns_of(answers)[0]
    again = unpacked(packed(columns), "", 0.95, 0.25, 3)
    assert [again.answer(place) for place in range(len(again))] == answers
    assert again.count.tobytes() == columns.count.tobytes()


# --- in a session file --------------------------------------------------------------------------------------


def test_answers_are_numbered_in_the_order_in_which_they_are_given(store: SessionStore) -> None:
    parts = [many(3), many(100, 10), many(2, 200, analyst="ann"), many(70, 300, analyst="ann", share=0.5)]
    for part in parts:
        store.finish(None, Outcome(columns=columns_of(part), asked=len(part)))
    everything = [answer for part in parts for answer in part]
    assert list(store.answers.each()) == everything
    assert store.answers.count() == len(everything) == 175
    assert store.answers.spans() == [(1, 4), (4, 104), (104, 106), (106, 176)]
    assert [store.answers.answer(number + 1) for number in range(175)] == everything
    assert newest_answers(store, [one.query for one in everything]) == everything
    assert newest_answer(store, "another") is None
    assert store.answers.newest_numbers(None, 73) == list(range(175, 102, -1))
    assert store.answers.newest_numbers("ann", 71) == [*range(175, 105, -1), 105]
    assert store.answers.question_counts() == {"": 103, "ann": 72}
    assert store.answers.shares(175) == [(number, 0.25 if number < 106 else 0.5) for number in range(1, 176)]
    assert store.answers.shares(5) == [
        (number, 0.25 if number < 106 else 0.5) for number in range(35, 176, 35)
    ]
    assert store.is_whole()
    with pytest.raises(SessionCorruptError, match="answer 176 is gone"):
        store.answers.answer(176)


def test_questions_whose_keys_are_the_same_are_told_apart_by_their_texts(store: SessionStore) -> None:
    texts = _colliding()
    assert len(set(question_keys(texts).tolist())) == 1
    store.finish(None, Outcome(columns=columns_of([*many(70), stored(texts[0], count=1.0)])))
    assert newest_answer(store, texts[1]) is None
    store.finish(None, Outcome(columns=columns_of([*many(70), stored(texts[1], count=2.0)])))
    assert [one and one.count for one in newest_answers(store, texts)] == [1.0, 2.0]


@pytest.mark.parametrize("seed", range(2))
def test_a_question_is_the_same_as_text_and_as_range(
    store: SessionStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, blocks of texts and blocks of ranges, in any order: what is found is what a plain list says."""
    monkeypatch.setattr("pmw.session.store.answers._RECENT", 150)
    generator = np.random.default_rng(seed)
    pools = [
        RangeTexts(names, generator.integers(0, 400, (len(names), 2, 150))) for names in (("a",), ("a", "b"))
    ]
    given: list[StoredAnswer] = []

    def marks(part: list[StoredAnswer], version: int) -> list[int]:
        were = [any(one.settled and one.query == each.query for one in given) for each in part]
        assert store.answers.are_settled([one.query for one in part]).tolist() == were
        first, seen = (UNSETTLED if version % 4 == 0 else FIRST), set[str]()
        found = []
        for one, was in zip(part, were, strict=True):  # a text may stand twice in it
            found.append(AGAIN if was or (first and one.query in seen) else first)
            seen.add(one.query)
        return found

    for version in range(1, 13):
        pool = pools[generator.integers(2)]
        form = generator.choice(["rows", "texts", "ranges"])
        size = 5 if form == "rows" else int(generator.integers(64, 100))
        places = generator.choice(150, size, replace=False)
        kind = ["2 tested", "3 bins", None][generator.integers(3)]
        part = [stored(pool[place], version=version, kind=kind, count=float(place)) for place in places]
        part = [replace(one, settled=mark) for one, mark in zip(part, marks(part, version), strict=True)]
        if form == "ranges":
            columns = replace(columns_of(part)[0], texts=pool.take(places))
            store.finish(None, Outcome(columns=(columns,), asked=size))
        else:
            store.finish(None, Outcome(columns=columns_of(part), asked=size))
        given += part
        last = {one.query: one for one in part}
        assert newest_answers(store, list(last)) == list(last.values())
    assert list(store.answers.each()) == given
    first = {one.query: one for one in reversed(given) if one.settled == FIRST}
    assert sum(one.settled == FIRST for one in given) == len(first) == store.answers.settled_count()
    versions = [one.version for one in given if one.settled == FIRST]
    assert [store.answers.settled_version(place) for place in range(1, len(first) + 1, 7)] == versions[::7]
    newest = {one.query: one for one in given}
    for pool in pools:
        wanted = [newest.get(text) for text in pool]
        assert newest_answers(store, pool) == newest_answers(store, list(pool)) == wanted
    asked = [text for _, texts in store.answers.first_questions() for text in texts]
    assert sorted(asked) == sorted(first)
    numbers: dict[str, list[int]] = {}
    for number, one in enumerate(given, 1):
        if one.kind is not None and first.get(one.query) is one:
            numbers.setdefault(one.kind, []).append(number)
    assert {
        kind_text(kind): found.tolist() for kind, (found, _) in store.answers.first_answers().items()
    } == numbers
    assert store.is_whole()


@given(ends=st.lists(st.tuples(*[st.integers(0, 2**33)] * 4), min_size=1, max_size=20))
def test_ranges_come_back(ends: list[tuple[int, ...]]) -> None:
    texts = RangeTexts(("ü", "b"), np.array(ends, dtype=np.int64).T.reshape(2, 2, -1))
    columns = replace(columns_of([stored(text) for text in texts])[0], texts=texts)
    again = unpacked(packed(columns), "", 0.95, 0.25, 3)
    assert isinstance(again.texts, RangeTexts)
    assert list(again.texts) == list(texts)


def _colliding() -> list[str]:
    seen: dict[int, str] = {}
    for number in range(10**6):
        key = int(question_keys([f"{number:x}~{number * 7919:x}"])[0])
        if key in seen:
            return [seen[key], f"{number:x}~{number * 7919:x}"]
        seen[key] = f"{number:x}~{number * 7919:x}"
    raise AssertionError


def test_a_block_that_was_rolled_back_is_not_found(store: SessionStore) -> None:
    answers = many(64)
    store._connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON secrets BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    keys = {"a": answers[0].query}  # looks the block up inside the transaction
    with pytest.raises(Exception, match="nothing was released"):
        store.finish(None, Outcome(columns=columns_of(answers), idempotency_keys=keys, secrets={"x": b"y"}))
    assert newest_answer(store, answers[0].query) is None
    store.finish(None, Outcome(columns=columns_of(many(64, 100))))
    assert newest_answer(store, many(1, 100)[0].query) == many(1, 100)[0]
    assert list(store.answers.each()) == many(64, 100)


# --- damage -------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.pmw"
    with closing(make(path)) as store:
        for part in (many(3), many(100, 10, settled=FIRST, share=0.3), many(100, 200, share=0.35)):
            store.finish(None, Outcome(columns=columns_of(part), asked=len(part)))
        assert store.answers.spans() == [(1, 4), (4, 104), (104, 204)]
    return path


def test_a_block_whose_hash_was_made_to_fit_is_refused_where_its_keys_do_not(path: Path) -> None:
    tamper(path, "UPDATE answers SET keyed_by = 'another' WHERE sequence = 20")
    with closing(SessionStore.open(path)) as store:
        assert newest_answer(store, "another") is None
        with pytest.raises(SessionCorruptError, match="a row of its blocks"):
            list(store.answers.each())
