"""Answers in blocks: the same to the last bit, found by their questions, and refused where altered."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError
from pmw.public.codec import kind_text, read_kind
from pmw.session.store.columns import AGAIN, FIRST, UNSETTLED, StoredAnswer, packed, question_keys, unpacked
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore
from queries.boxes import RangeTexts
from tests.pmw.session.stored import (
    columns_of,
    execute,
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


def test_ends_that_follow_from_others_take_few_bytes() -> None:
    generator = np.random.default_rng(0)
    counts = generator.uniform(1000, 2000, 1000)

    def size(reach: NDArray[np.float64]) -> float:
        answers = [
            stored("q", count=count, interval=None, typical=(count - width, count + width))
            for count, width in zip(counts, reach, strict=True)
        ]
        return len(packed(columns_of(answers)[0])) / 1000

    same, others = size(np.full(1000, 7.3)), size(generator.uniform(1, 9, 1000))
    assert same < 11 < others < 22  # 8 bytes are the count


def test_bytes_that_are_none_are_refused() -> None:
    with pytest.raises(zlib.error):
        unpacked(b"what", "", 0.95, 0.0, 1)


@pytest.mark.parametrize("names", ["_SOURCE_NAMES", "_KIND_NAMES"])
def test_a_source_or_a_kind_that_is_none_is_refused(
    store: SessionStore, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"pmw.session.store.columns.{names}", ["told"] * 99)
        store.finish(None, Outcome(columns=columns_of(many(1))))
    store.answers.forget()
    with pytest.raises(SessionCorruptError, match="a row of its blocks of answers was altered"):
        store.answers.answer(1)


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


def test_the_first_answers_of_questions_are_those_of_rows_and_blocks(store: SessionStore) -> None:
    once, again = {"settled": FIRST}, {"settled": AGAIN}
    store.finish(None, Outcome(columns=columns_of(many(2, **once))))
    later = [*many(2, **again), *many(68, 2, **once), *many(1, 500, kind=None, **once)]
    store.finish(None, Outcome(columns=columns_of(later)))
    store.finish(
        None,
        Outcome(columns=columns_of([*many(1, 69, **again), *many(70, 70, count=0.0, **once), *many(9, 900)])),
    )
    assert store.answers.settled_count() == 2 + 69 + 70
    assert [store.answers.settled_count(number) for number in (2, 4, 5, 73, 80)] == [2, 2, 3, 71, 77]
    ((kind, (numbers, reaches)),) = store.answers.first_answers().items()
    assert kind == read_kind("2 tested")
    assert numbers.tolist() == [1, 2, *range(5, 73), *range(75, 145)]
    counts = [store.answers.answer(number).count for number in numbers.tolist()]
    assert reaches == pytest.approx(15.0 - np.array(counts))


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


def test_many_blocks_are_found_after_their_keys_were_merged(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.session.store.answers._RECENT", 150)
    monkeypatch.setattr("pmw.session.store.answers._DECODED", 2)
    for number in range(8):
        store.finish(None, Outcome(columns=columns_of(many(64, 64 * number))))
        assert newest_answer(store, many(1, 64 * number)[0].query) is not None
    assert store.answers._sorted.size > 150
    everything = many(8 * 64)
    assert newest_answers(store, [one.query for one in everything]) == everything
    assert len(store.answers._decoded) == 1
    monkeypatch.setattr("pmw.session.store.answers._DECODED", 3.5 * store.answers._held)
    assert newest_answers(store, [one.query for one in everything]) == everything
    assert len(store.answers._decoded) == 2


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

ANSWERS_ALTERED = {
    "a byte": "UPDATE blocks SET answers = CAST(substr(answers, 1, 40) || x'00' || substr(answers, 42)"
    " AS BLOB) WHERE sequence = 4",
    "its end": "UPDATE blocks SET answers = substr(answers, 1, length(answers) - 1) WHERE sequence = 4",
    "another's": "UPDATE blocks SET answers = (SELECT answers FROM blocks WHERE sequence = 104)"
    " WHERE sequence = 4",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.pmw"
    with closing(make(path)) as store:
        for part in (many(3), many(100, 10, settled=FIRST, share=0.3), many(100, 200, share=0.35)):
            store.finish(None, Outcome(columns=columns_of(part), asked=len(part)))
        assert store.answers.spans() == [(1, 4), (4, 104), (104, 204)]
    return path


@pytest.mark.parametrize("script", ANSWERS_ALTERED.values(), ids=ANSWERS_ALTERED)
def test_answers_that_were_altered_are_refused_by_every_reader(path: Path, script: str) -> None:
    with closing(SessionStore.open(path)) as store:
        execute(path, script)
        reads: list[Callable[[], object]] = [
            lambda: store.answers.answer(20),
            lambda: newest_answer(store, many(1, 11)[0].query),
            lambda: list(store.answers.each()),
            store.answers.first_answers,
            store.is_whole,
        ]
        for read in reads:
            with pytest.raises(SessionCorruptError, match="a row of its blocks of answers was altered"):
                read()
        assert store.answers.answer(150) == many(100, 200, share=0.35)[46]
        assert store.answers.answer(2) == many(3)[1]


def test_a_block_whose_hash_was_made_to_fit_is_refused_where_its_keys_do_not(path: Path) -> None:
    tamper(path, "UPDATE answers SET keyed_by = 'another' WHERE sequence = 20")
    with closing(SessionStore.open(path)) as store:
        assert newest_answer(store, "another") is None
        with pytest.raises(SessionCorruptError, match="a row of its blocks"):
            list(store.answers.each())


@given(sizes=st.lists(st.integers(1, 130), max_size=8))
def test_whatever_the_sizes_all_answers_are_there_in_order(sizes: list[int]) -> None:
    with closing(make(None)) as store:
        given, number = list[StoredAnswer](), 0
        for size in sizes:
            part = many(size, number)
            number += size
            given += part
            store.finish(None, Outcome(columns=columns_of(part)))
        assert list(store.answers.each()) == given
        assert newest_answers(store, [one.query for one in given]) == given
        assert store.is_whole()
        assert all(math.isfinite(one.count) for one in store.answers.each())
