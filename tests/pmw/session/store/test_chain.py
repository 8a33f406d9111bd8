"""Stored answers, and the chain: found by their questions; nothing is altered, added or lost unnoticed."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
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
from pmw.session.store.columns import (
    AGAIN,
    FIRST,
    UNSETTLED,
    AnswerColumns,
    StoredAnswer,
    packed,
    question_keys,
    unpacked,
)
from pmw.session.store.rows import (
    COLUMNS,
    SEALED,
    CertificateRow,
    Chain,
    LedgerRow,
    Link,
    MeasurementRow,
    Outcome,
)
from pmw.session.store.store import SessionStore
from queries.range_texts import RangeTexts
from tests.pmw.session.stored import (
    answer_to_request,
    columns_of,
    execute,
    newest_answer,
    newest_answers,
    tamper,
)

CONTRACT = '"the contract"'
DAMAGED = r"s\.pmw: the session file is damaged: "
BROKEN = DAMAGED + r"charges, measurements, keys or answers were altered or are gone \(link {} of its chain\)"


def answer(number: int, source: str = "measured") -> StoredAnswer:
    rest = (source, 1, 0.25, "2 tested", (1.0, 2.5), "ann")
    return StoredAnswer(f"{{{number}}}", 10.0 * number, (0.0, 99.5), 0.95, *rest)


def marked(*answers: StoredAnswer) -> tuple[AnswerColumns, ...]:
    """Return answers as they are stored, each with a request of its own."""
    return columns_of(answers, [f"r{one.query.strip('{}')}" for one in answers])


def batch(number: int) -> Outcome:
    """Return the outcome of a batch that measured something for one question, after a free answer."""
    return Outcome(
        ledger=[
            LedgerRow("round", "a round", "1/9", "1/162", "1/50", '[["","1"]]'),
            LedgerRow("value", f"q{number}", None, "1/7", None, '[["ann","1"]]'),
        ],
        measurements=[MeasurementRow("query", f"{number}", bytes([number] * 8), "{}")],
        columns=marked(answer(100 + number, "synthetic"), answer(number)),
        asked=2,
    )


def make(path: Path | None) -> SessionStore:
    """Return a session of three links: its opening, and two batches with a free commit between them."""
    store = SessionStore.create(path, bytes(32), Outcome(meta={"contract": CONTRACT}))
    opening = [
        MeasurementRow("total", "[]", b"\1" * 8, "{}"),
        MeasurementRow("marginal", "x", b"\2" * 16, "{}"),
    ]
    total = LedgerRow("total", "records", None, "1/8", "1/4", '[["","1"]]')
    store.finish(1, Outcome(ledger=[total], measurements=opening))
    store.finish(store.begin("tests", "{}", bytes(32)), batch(2))
    store.finish(None, Outcome(columns=marked(answer(7, "synthetic"), answer(8, "exhausted")), asked=2))
    tied = replace(batch(3), tie=("k", '{"key":"k"}'))
    store.finish(store.begin("tests", "{}", bytes(32)), tied)
    store.finish(
        store.begin("tests", "{}", bytes(32)), Outcome(columns=marked(answer(9, "synthetic")), asked=1)
    )
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make(tmp_path / "s.pmw").close()
    return tmp_path / "s.pmw"


def take_over(path: Path) -> None:
    with closing(SessionStore.open(path)) as store:
        store.take_over()


def test_what_charges_and_measures_nothing_adds_no_link_until_it_is_much() -> None:
    with closing(make(None)) as store:
        before = store.chained()
        for number in range(254):  # one more is in none already
            store.finish(None, Outcome(columns=marked(answer(1000 + number, "synthetic"))))
        assert store.chained() == before
        store.finish(None, Outcome(columns=marked(answer(2000, "synthetic")), meta={"data": '"x"'}))
        assert store.chained().links[:-1] == before.links
        assert store.answers.spans()[2:] == [(7, 7 + 256)]
        assert [one.query for one in store.answers.each()][-2:] == ["{1253}", "{2000}"]


# --- damage -------------------------------------------------------------------------------------------------

SWAP = (
    "UPDATE {0} SET sequence = -1 WHERE sequence = {1}; UPDATE {0} SET sequence = {1} WHERE sequence = {2};"
    "UPDATE {0} SET sequence = {2} WHERE sequence = -1"
)
OTHER = (
    "CASE typeof({0}) WHEN 'null' THEN '1/7' WHEN 'text' THEN {0} || ' ' WHEN 'integer' THEN {0} + 1"
    " ELSE zeroblob(16) END"
)
ROWS = {"ledger": (1, 2, 2, 3, 3), "measurements": (1, 1, 2, 3)}  # which link covers each


def altered_rows() -> Iterator[tuple[str, int]]:
    """Yield what alters, removes, moves, exchanges or adds rows, and the link that tells."""
    for table, links in ROWS.items():
        for row, link in enumerate(links, start=1):
            yield f"DELETE FROM {table} WHERE sequence = {row}", link
            if row > 1:
                yield SWAP.format(table, row - 1, row), links[row - 2]
        for column in COLUMNS[table]:
            yield f"UPDATE {table} SET {column} = {OTHER.format(column)} WHERE sequence = 3", links[2]
        more = ", ".join(COLUMNS[table])
        for number, link in ((-5, 1), (len(links) + 1, 4)):
            yield f"INSERT INTO {table} SELECT {number}, {more} FROM {table} WHERE sequence = 1", link
        yield f"UPDATE {table} SET sequence = 0 WHERE sequence = 1", 1
        yield f"DELETE FROM {table}", 1


DAMAGE: dict[str, tuple[str, int]] = {
    **{one[0]: one for one in altered_rows()},
    "a measured answer": ("UPDATE answers SET count = 20.000000000000004 WHERE sequence = 2", 2),
    "an interval": ("UPDATE answers SET low = NULL, high = NULL WHERE sequence = 6", 3),
    "a source, so that an answer is drawn no more": (
        "UPDATE answers SET source = 'synthetic' WHERE sequence = 6", 3,
    ),
    "a source, so that an answer is drawn now": (
        "UPDATE answers SET source = 'measured' WHERE sequence = 4", 3,
    ),
    "a last measured answer that is gone": ("DELETE FROM answers WHERE sequence = 6", 3),
    "a tie that is gone": ("DELETE FROM ties", 3),
    "a tie that is gone with its key": ("DELETE FROM ties; DELETE FROM requests WHERE answer < 0", 3),
    "a tie that was added": ("INSERT INTO ties SELECT 2, intent, tie, checksum FROM ties", 4),
    "a block that is gone": ("DELETE FROM blocks WHERE sequence = 1", 2),
    "exchanged blocks": (SWAP.format("blocks", 1, 3), 2),
    "a block that was added": (
        "INSERT INTO blocks SELECT 2, size, analyst, confidence, share, version, drawn, kinds, settled, keys,"
        " hash, answers FROM blocks WHERE sequence = 1", 3,
    ),
    "a block's number": ("UPDATE blocks SET sequence = 2 WHERE sequence = 3", 3),
    "exchanged measured answers": (SWAP.format("answers", 2, 6), 2),
    "a link": ("UPDATE chain SET link = zeroblob(32) WHERE sequence = 2", 2),
    "a last link": ("UPDATE chain SET link = zeroblob(32) WHERE sequence = 3", 3),
    "exchanged links": (SWAP.format("chain", 2, 3), 2),
    "a row that moved to the next link": ("UPDATE chain SET ledger = 2 WHERE sequence = 2", 2),
    "a first link that is gone": ("DELETE FROM chain WHERE sequence = 1", 1),
    "a last link that is gone": ("DELETE FROM chain WHERE sequence = 3", 3),
    "all links gone": ("DELETE FROM chain", 1),
    "a last link that is gone with all its rows": (
        "DELETE FROM chain WHERE sequence = 3; DELETE FROM ledger WHERE sequence > 3;"
        "DELETE FROM measurements WHERE sequence > 3; DELETE FROM answers WHERE sequence = 6", 3,
    ),
    "everything gone": (
        "DELETE FROM chain; DELETE FROM ledger; DELETE FROM measurements; DELETE FROM answers", 1,
    ),
    "the fact of the newest link": ("DELETE FROM meta WHERE key = 'link'", 4),
}  # fmt: skip


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_refused_by_who_takes_over_and_by_every_reader(path: Path, damage: str) -> None:
    script, link = DAMAGE[damage]
    with closing(SessionStore.open(path)) as store:
        if re.search("(UPDATE|FROM) answers", script):
            tamper(path, script, relink=False)  # the hash of its block was made to fit
        else:
            execute(path, script)
        copy = path.with_name("copy")
        uses: list[Callable[[], object]] = [store.chained, store.is_whole, store.take_over]
        uses.append(lambda: store.copy_public(copy))
        for use in uses:
            with pytest.raises(SessionCorruptError, match=BROKEN.format(link)):
                use()


@pytest.mark.parametrize("key", ["session", "contract"])
def test_a_chain_goes_on_from_its_session_and_its_contract(path: Path, tmp_path: Path, key: str) -> None:
    make(tmp_path / "other.pmw").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH DATABASE ? AS other", (str(tmp_path / "other.pmw"),))
        assert connection.execute("SELECT * FROM ledger").fetchall() == (
            connection.execute("SELECT * FROM other.ledger").fetchall()
        )
        # Its rows are those of the session, and its fact is sealed: the links alone are another session's.
        connection.executescript(
            "DELETE FROM chain; INSERT INTO chain SELECT * FROM other.chain;"
            "DELETE FROM meta WHERE key = 'link';"
            "INSERT INTO meta SELECT * FROM other.meta WHERE key = 'link'"
        )
        if key == "contract":
            connection.executescript(
                "DELETE FROM meta WHERE key = 'session';"
                "INSERT INTO meta SELECT * FROM other.meta WHERE key = 'session'"
            )
            connection.commit()
    if key == "contract":
        with closing(SessionStore.open(path)) as store:
            assert store.is_whole()  # it is the other session now
            store._connection.execute("BEGIN")
            store._add("meta", [("contract", '"a larger budget"')], "INSERT OR REPLACE")
            store._connection.execute("COMMIT")
    with (
        closing(SessionStore.open(path)) as store,
        pytest.raises(SessionCorruptError, match=BROKEN.format(1)),
    ):
        store.take_over()


def test_a_link_that_was_made_to_fit_its_rows_does_not_fit_the_links_after_it(path: Path) -> None:
    execute(path, "UPDATE ledger SET rho = '1/800' WHERE sequence = 1")
    with closing(sqlite3.connect(path)) as connection:
        chain = Chain(connection, "s.pmw")
        made = chain._next(Link(chain.origin(), (0, 0, 0, 0, 0), ()), (1, 1, 2, 0, 0))
        connection.execute("UPDATE chain SET link = ? WHERE sequence = 1", (made.hash,))
        connection.commit()
    with pytest.raises(SessionCorruptError, match=BROKEN.format(2)):
        take_over(path)


def test_an_answer_is_compared_with_the_hash_of_its_block_each_time_that_is_read(path: Path) -> None:
    drawn, free = answer(3), answer(103, "synthetic")
    with closing(SessionStore.open(path)) as store:
        assert newest_answer(store, drawn.query) == answer_to_request(store, "r3") == drawn
        assert newest_answer(store, free.query) == free
    execute(path, "UPDATE blocks SET share = share + 1 WHERE sequence = 3")
    with closing(SessionStore.open(path)) as store:
        reads: list[Callable[[], object]] = [
            lambda: newest_answer(store, drawn.query),
            lambda: newest_answer(store, free.query),
            lambda: answer_to_request(store, "r3"),
        ]
        for read in reads:
            with pytest.raises(SessionCorruptError, match=DAMAGED + "a row of its blocks"):
                read()
        assert answer_to_request(store, "r2") == answer(2)


DAMAGED_COLUMNS = {
    "size": "99", "share": "0.125", "version": "2", "confidence": "0.99",
    "drawn": "drawn + 1", "kinds": "kinds + 1", "settled": "settled + 1", "keys": "zeroblob(length(keys))",
    "hash": "zeroblob(16)", "answers": "zeroblob(9)", "analyst": "'bob'",
}  # fmt: skip


@pytest.mark.parametrize("column", DAMAGED_COLUMNS)
@pytest.mark.parametrize("number", [1, 3, 7], ids=["drawn", "joined", "in no link"])
def test_damage_of_any_answer_is_found(path: Path, column: str, number: int) -> None:
    """Also of a single free one, which no link covers: by all who look at the whole file."""
    execute(path, f"UPDATE blocks SET {column} = {DAMAGED_COLUMNS[column]} WHERE sequence = {number}")
    with closing(SessionStore.open(path)) as store:
        uses: list[Callable[[], object]] = [
            store.is_whole,
            lambda: store.copy_public(path.with_name("copy")),
            *([] if number == 7 else [store.take_over]),
        ]
        for use in uses:
            with pytest.raises(SessionCorruptError, match=DAMAGED):
                use()


SEALED_COLUMNS = [(table, column) for table in SEALED for column in (*COLUMNS[table], "checksum")]


@pytest.mark.parametrize(("table", "column"), SEALED_COLUMNS)
def test_a_row_with_a_checksum_is_compared_with_it(path: Path, table: str, column: str) -> None:
    with closing(SessionStore.open(path)) as store:
        store.take_over()
        store.finish(
            None,
            Outcome(
                meta={"data": '"here"'},
                secrets={"threshold": b"1"},
                certificates=[CertificateRow("[]", 1, 5, bytes(8))],
            ),
        )
        store.note(1, [("bob", "{3}")])
        store.tell()
        assert store.is_whole()
    which = {"meta": "WHERE key = 'data'", "requests": "WHERE request = 'r8'"}.get(table, "")
    execute(path, f"UPDATE {table} SET {column} = {OTHER.format(column)} {which}")
    found = f"a row of its {table} was altered"
    altered = DAMAGED + f"({found}|requests of its answers are not there)"
    if table == "ties":  # a link covers them, too
        altered = f"{DAMAGED}{found}|{BROKEN.format(3)}"
    with closing(SessionStore.open(path)) as store:
        uses: list[Callable[[], object]] = [
            store.is_whole,
            lambda: store.copy_public(path.with_name("copy")),
        ]
        if table != "requests":  # of those whose answers drew no noise their number is looked at
            uses.append(store.take_over)
        reads: dict[str, Callable[[], object]] = {
            "meta": lambda: store.meta("data"),
            "secrets": lambda: store.secret("threshold"),
            "requests": lambda: store.answers.by_request_ids(["r8"]),
            "ties": lambda: store.tie_of(3),
        }
        if table in reads and column != COLUMNS[table][0]:  # else it is not found
            uses.append(reads[table])
        if table == "certificates":
            uses.append(store.certificates)
        for use in uses:
            with pytest.raises(SessionCorruptError, match=altered):
                use()


@pytest.mark.parametrize("script", [
    # Free answers, by their number.
    "DELETE FROM blocks WHERE sequence = 7", "DELETE FROM meta WHERE key = 'answers'",
    "UPDATE blocks SET sequence = 9 WHERE sequence = 7",
    # Requests, whose answers would be drawn again.
    "DELETE FROM requests WHERE request = 'r3'", "UPDATE requests SET answer = 1 WHERE request = 'r3'",
])  # fmt: skip
def test_answers_and_requests_that_are_gone_are_missed(path: Path, script: str) -> None:
    execute(path, script)
    with pytest.raises(SessionCorruptError, match=DAMAGED):
        take_over(path)


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
    with closing(SessionStore.create(None, bytes(32), Outcome(meta={"contract": '"c"'}))) as made:
        made.finish(1, Outcome())
        yield made


def many(size: int, first: int = 0, **others: Any) -> list[StoredAnswer]:
    return [
        stored(f'{{"{number}"}}', **{"count": number + 0.1, **others})
        for number in range(first, first + size)
    ]


# --- columns, and answers in a session file -----------------------------------------------------------------


@given(
    answers=st.lists(ANSWERS, min_size=1, max_size=9), ends=st.lists(st.sampled_from(["x", ""]), max_size=2)
)
def test_answers_come_back_to_the_last_bit(answers: list[StoredAnswer], ends: list[str]) -> None:
    answers += [stored(text) for text in ends]
    columns = columns_of(answers)[0]
    again = unpacked(packed(columns), "", 0.95, 0.25, 3)
    assert [again.answer(place) for place in range(len(again))] == answers
    assert again.count.tobytes() == columns.count.tobytes()


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
    pools = [RangeTexts(tuple(one), generator.integers(0, 400, (len(one), 2, 150))) for one in ("a", "ab")]
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
        columns = columns_of(part)
        if form == "ranges":
            columns = (replace(columns[0], texts=pool.take(places)),)
        store.finish(None, Outcome(columns=columns, asked=size))
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
    found = {kind_text(kind): places.tolist() for kind, (places, _) in store.answers.first_answers().items()}
    assert found == numbers
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


@pytest.mark.parametrize("names", ["_SOURCE_NAMES", "_KIND_NAMES"])
def test_a_source_or_a_kind_that_is_none_is_refused(
    store: SessionStore, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"pmw.session.store.columns.{names}", ["told"] * 99)
        store.finish(None, Outcome(columns=columns_of(many(1))))
    store.answers.forget()
    with pytest.raises(SessionCorruptError, match="a row of its blocks"):
        store.answers.answer(1)


def test_a_block_whose_hash_was_made_to_fit_is_refused_where_its_keys_do_not(path: Path) -> None:
    tamper(path, "UPDATE answers SET keyed_by = 'another' WHERE sequence = 2")
    with closing(SessionStore.open(path)) as store:
        assert newest_answer(store, "another") is None
        with pytest.raises(SessionCorruptError, match="a row of its blocks"):
            list(store.answers.each())
