"""The archive: answers in compressed blocks are found again as they were, and damage to them is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.store import Outcome, SessionStore, StoredAnswer, query_key
from pmw.store.archive import BLOCK

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ANSWERS = st.builds(
    lambda text, count, low, share, source, marked: StoredAnswer(
        "mark" if marked else None, query_key(text), text, count + 0.0,
        None if low is None else (low + 0.0, low + 1.0), 0.95, source, 3, share,
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30), FLOATS,
    st.none() | st.floats(-1e9, 1e9), st.floats(0, 1),
    st.sampled_from(["synthetic", "measured", "exhausted"]), st.booleans(),
)  # fmt: skip

KEY = f"x'{query_key('question 1').hex()[:32]}'"  # what leads to the second answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with closing(SessionStore.create(tmp_path / "s.pmw", "opening", "{}", bytes(32), Outcome())) as made:
        made.finish(1, Outcome())
        yield made


def answer(number: int, source: str = "synthetic") -> StoredAnswer:
    text = f"question {number}"
    return StoredAnswer(
        f"r{number}", query_key(text), text, number + 1 / 3, (0.1, 0.7), 0.95, source, number // 9, 0.25
    )


def archived(store: SessionStore) -> int:
    """Archive all that may be, and return how many answers are."""
    last: int | None = 0
    while last is not None:
        last = store.archive_some(last)
    return store.archived_count()


@settings(max_examples=50)
@given(answers=st.lists(ANSWERS, min_size=1, max_size=12))
def test_every_answer_is_read_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, answers: list[StoredAnswer]
) -> None:
    path = tmp_path_factory.mktemp("archive") / "s.pmw"
    with closing(SessionStore.create(path, "opening", "{}", bytes(32), Outcome())) as store:
        store.finish(1, Outcome())
        for one in answers:
            if one.request_id is None or store.answer_to_request(one.request_id) is None:
                store.finish(None, Outcome(answers=[one]))
        before = list(store.answers())
        newest = {one.query_key: store.newest_answer(one.query_key) for one in answers}
        marked = store.answer_to_request("mark")
        assert archived(store) == sum(one.source != "measured" for one in before[:-1])
        assert list(store.answers()) == before
        assert {key: store.newest_answer(key) for key in newest} == newest
        assert store.answer_to_request("mark") == marked
        assert store.is_whole()
    with closing(SessionStore.open(path)) as again:
        again.take_over()
        assert list(again.answers()) == before


def test_what_drew_noise_and_the_newest_answer_keep_rows_of_their_own(store: SessionStore) -> None:
    store.finish(
        None, Outcome(answers=[answer(n, "measured" if n % 3 == 0 else "synthetic") for n in range(10)])
    )
    assert archived(store) == 6
    rows = store._connection.execute("SELECT query FROM answers ORDER BY sequence").fetchall()
    assert [row[0] for row in rows] == [f"question {number}" for number in (0, 3, 6, 9)]
    assert [one.query for one in store.answers()] == [f"question {number}" for number in range(10)]
    assert store.answer_count() == 10


def test_numbers_go_on_after_an_archive(store: SessionStore) -> None:
    store.finish(None, Outcome(answers=[answer(number) for number in range(5)]))
    assert archived(store) == 4
    store.finish(None, Outcome(answers=[answer(number) for number in range(5, 9)]))
    assert archived(store) == 8
    assert list(store.answers()) == [answer(number) for number in range(9)]
    assert store._connection.execute("SELECT count(*) FROM archive").fetchone() == (2,)


def test_long_transcripts_become_many_blocks(store: SessionStore) -> None:
    count = 20 * BLOCK
    store.finish(None, Outcome(answers=[answer(number) for number in range(count)]))
    assert store.archive_some(0) == 16 * BLOCK
    assert archived(store) == count - 1
    for number in (0, 1, BLOCK - 1, BLOCK, 7 * BLOCK + 3, count - 2, count - 1):
        assert store.newest_answer(answer(number).query_key) == answer(number)
        assert store.answer_to_request(f"r{number}") == answer(number)
    assert store.answer_to_request("r-1") is None
    assert store.newest_answer(query_key("never asked")) is None
    assert [share for _, share in store.shares(5)] == [0.25] * len(store.shares(5))


def test_a_history_keeps_the_share_after_each_block(store: SessionStore) -> None:
    answers = [replace(answer(number), share=number / 1000) for number in range(BLOCK + 3)]
    store.finish(None, Outcome(answers=answers))
    archived(store)
    last = len(answers)
    assert store.shares(5) == [(number, answers[number - 1].share) for number in (BLOCK, last - 1, last)]


def test_a_mark_on_an_archived_answer_finds_it(store: SessionStore) -> None:
    store.finish(None, Outcome(answers=[answer(number) for number in range(5)]))
    store.finish(None, Outcome(marks={"early": answer(1).query_key}))
    archived(store)
    store.finish(None, Outcome(marks={"late": answer(2).query_key}))
    assert store.answer_to_request("early") == answer(1)
    assert store.answer_to_request("late") == answer(2)


def test_the_newest_of_two_answers_is_found_wherever_they_lie(store: SessionStore) -> None:
    first, second = answer(1, "measured"), answer(1)
    second = StoredAnswer("again", second.query_key, second.query, 7.0, None, 0.95, "synthetic", 9, 0.5)
    store.finish(None, Outcome(answers=[first, second, answer(3)]))
    assert archived(store) == 1  # the newer one
    assert store.newest_answer(first.query_key) == second


@pytest.mark.parametrize("between", [False, True])
def test_of_archived_answers_to_a_question_the_newest_is_found(store: SessionStore, between: bool) -> None:
    answers = [replace(answer(1), request_id=f"r{number}", count=float(number)) for number in range(3)]
    for one in answers:
        store.finish(None, Outcome(answers=[one, replace(answer(9), request_id=None)]))
        if between:
            archived(store)
    assert archived(store) == 5
    assert store.newest_answer(answer(1).query_key) == answers[-1]
    assert [store.answer_to_request(f"r{number}") for number in range(3)] == answers
    assert store.is_whole()


def test_a_damaged_block_answers_nobody(store: SessionStore) -> None:
    store.finish(None, Outcome(answers=[answer(number) for number in range(5)]))
    archived(store)
    store._connection.execute("UPDATE archive SET share = share + 0.1")
    for read in (
        lambda: store.newest_answer(answer(1).query_key),
        lambda: store.answer_to_request("r1"),
        lambda: list(store.answers()),
    ):
        with pytest.raises(pmw.SessionCorruptError, match="a row of its archive was altered"):
            read()


def test_an_answer_whose_key_is_not_its_questions_keeps_its_row(store: SessionStore) -> None:
    odd = replace(answer(1), query_key=query_key("as another program made it"))
    answers = [answer(0), odd, *(answer(number) for number in range(2, 5))]
    store.finish(None, Outcome(answers=answers))
    assert store.archive_some(0) == 4
    assert store.archive_some(4) is None
    assert store.archived_count() == 3
    assert store.archive_some(0) == 2  # as in another compaction
    assert list(store.answers()) == answers
    assert store.newest_answer(odd.query_key) == odd
    assert store.answer_to_request("r1") == odd
    assert store.is_whole()


def test_damage_is_not_packed_as_if_it_were_whole(store: SessionStore) -> None:
    store.finish(None, Outcome(answers=[answer(number) for number in range(5)]))
    store._connection.execute("UPDATE answers SET count = count + 1 WHERE sequence = 2")
    with pytest.raises(pmw.SessionCorruptError, match="a row of its answers was altered"):
        store.archive_some(0)
    assert store.archived_count() == 0
    assert store.newest_answer(answer(0).query_key) == answer(0)


def test_who_lost_the_session_archives_nothing(store: SessionStore, tmp_path: Path) -> None:
    store.finish(None, Outcome(answers=[answer(number) for number in range(5)]))
    with closing(SessionStore.open(tmp_path / "s.pmw")) as other:
        other.take_over()
        with pytest.raises(pmw.SessionLockedError, match="taken over"):
            store.archive_some(0)
        assert other.archived_count() == 0


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE archive SET payload = zeroblob(9)", "altered"),
        ("UPDATE archive SET share = share + 0.1", "altered"),
        ("DELETE FROM archive", "rows of its answers are not there"),
        ("DELETE FROM archive_keys WHERE number = 2", "a key is not there"),
        ("UPDATE archive_keys SET number = 1 WHERE number = 2", "a key is not there"),
        (f"DELETE FROM archive_keys WHERE key = {KEY}", "a key is not there"),
        (f"UPDATE archive_keys SET number = 1 WHERE key = {KEY}", "a key is not there"),
        (f"DELETE FROM archive_keys WHERE number = 2 AND key <> {KEY}", "a key is not there"),
    ],
)
def test_damage_is_noticed(store: SessionStore, damage: str, words: str) -> None:
    store.finish(None, Outcome(answers=[answer(number) for number in range(5)]))
    archived(store)
    store._connection.execute(damage)
    with pytest.raises(pmw.SessionCorruptError, match=words):
        store.is_whole()


def test_a_key_that_leads_elsewhere_gives_nobody_anothers_answer(store: SessionStore) -> None:
    store.finish(None, Outcome(answers=[answer(number) for number in range(5)]))
    archived(store)
    store._connection.execute("UPDATE archive_keys SET number = 3")
    assert store.newest_answer(answer(1).query_key) is None
    assert store.answer_to_request("r1") is None
    assert store.newest_answer(answer(2).query_key) == answer(2)
