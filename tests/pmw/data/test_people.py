"""People: at most K records of each, by these records alone, from every source and in every order alike."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.data import MemorySource, as_source, people
from pmw.data.memory import Intake, TablePart, holds_malformed
from pmw.data.people import OWN, Roster
from pmw.data.scratch import Words
from pmw.errors import DataError
from pmw.privacy.budget import NeighboringRelation
from pmw.public.charges import l1_sensitivity, l2_squared_sensitivity, query_sensitivity
from pmw.public.options import Options
from queries import CategoricalAttribute, Domain, DomainError, IntegerAttribute
from queries.factors import UNITS
from queries.person import Person
from queries.records import CodedRecords, frame_columns
from tests.pmw.data.lines import KEY

NAMES = ("ann", "bob", "cid", "dee")
# The attribute ``owner`` repeats the id, so that counts tell whose records are kept.
ATTRIBUTES = (
    CategoricalAttribute("owner", NAMES),
    IntegerAttribute("visit", 0, 5),
    IntegerAttribute("ward", 0, 2),
)


def domain_of(records: int, **choices: str) -> Domain:
    return Domain(ATTRIBUTES, person=Person("id", records, **choices))  # type: ignore[arg-type]


def frame_of(rows: Sequence[tuple[str, int, int]]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=["owner", "visit", "ward"])
    return frame.assign(id=frame["owner"])


def kept(frame: pd.DataFrame, records: int, key: bytes = KEY) -> NDArray[np.int64]:
    domain = domain_of(records)
    return as_source(frame, domain, key).counts(domain.names).counts


ROWS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.integers(0, 2)), max_size=24)


@given(rows=ROWS, records=st.integers(1, 4), seed=st.integers(0, 99))
def test_at_most_so_many_records_of_each_person_are_kept_in_whatever_order(
    rows: list[tuple[str, int, int]], records: int, seed: int
) -> None:
    frame = frame_of(rows)
    counts = kept(frame, records)
    had = Counter(row[0] for row in rows)
    assert counts.sum(axis=(1, 2)).tolist() == [min(records, had[name]) for name in NAMES]
    assert (counts <= kept(frame, 99)).all()
    shuffled = frame.sample(frac=1, random_state=seed)
    assert np.array_equal(counts, kept(shuffled, records))


@given(rows=ROWS, records=st.integers(1, 4))
def test_deleting_a_person_leaves_the_kept_records_of_all_others(
    rows: list[tuple[str, int, int]], records: int
) -> None:
    frame = frame_of(rows)
    counts = kept(frame, records)
    for place, name in enumerate(NAMES):
        without = kept(frame[frame["id"] != name], records)
        assert np.array_equal(np.delete(counts, place, axis=0), np.delete(without, place, axis=0))
        assert not without[place].any()
        for axes in itertools.chain.from_iterable(itertools.combinations(range(3), n) for n in range(4)):
            assert np.abs(counts.sum(axis=axes) - without.sum(axis=axes)).sum() <= records


def moved(before: pd.DataFrame, after: pd.DataFrame, records: int) -> tuple[int, int, int]:
    """Return by how much a marginal moves in L1 and, squared, in L2, and the number of records."""
    moves = (kept(before, records) - kept(after, records)).sum(axis=0)  # over visit and ward
    return int(np.abs(moves).sum()), int((moves**2).sum()), int(abs(moves.sum()))


@pytest.mark.parametrize("relation", NeighboringRelation)
def test_the_sensitivities_are_those_of_the_worst_neighbours(relation: NeighboringRelation) -> None:
    # Every table of one person with up to three records over two cells, beside a person who stays.
    others = [("bob", 0, 0), ("bob", 0, 0), ("bob", 1, 0)]
    tables = [
        frame_of([*others, *(("ann", cell, 0) for cell in cells)])
        for size in range(4)
        for cells in itertools.combinations_with_replacement((0, 1), size)
    ]
    empty = frame_of(others)
    pairs = [(one, empty) for one in tables]
    if relation is NeighboringRelation.REPLACE_ONE:
        pairs = [(one, other) for one in tables for other in tables]
    found = [moved(one, other, 2) for one, other in pairs]
    options = Options(neighboring_relation=relation, records_per_person=2)
    worst = [max(values) for values in zip(*found, strict=True)]
    assert worst[0] * UNITS == l1_sensitivity(options)
    assert worst[1] * UNITS**2 == l2_squared_sensitivity(options)
    assert worst[2] * UNITS == query_sensitivity(options)
    # In one cell K = 2 moves L2 by 2, in two by the root of 2.
    assert moved(frame_of([("ann", 0, 0)] * 3), frame_of([]), 2) == (2, 4, 2)
    assert moved(frame_of([("ann", 0, 0), ("ann", 1, 0)]), frame_of([]), 2) == (2, 2, 2)


def test_records_are_dropped_before_they_are_bounded() -> None:
    rows = [("ann", visit, 9) for visit in range(6)]  # ward 9 is clipped: kept
    frame = frame_of(rows).astype(object)
    frame.loc[[0, 1, 2, 4, 5], "visit"] = "none"
    for records in (1, 2):
        for key in (KEY, bytes(32), b"\xff" * 32):
            counts = kept(frame, records, key)
            assert counts.sum() == 1
            assert counts[0, 3, 2] == 1


def test_the_key_chooses_among_a_persons_records() -> None:
    frame = frame_of([("ann", visit, 0) for visit in range(6)])
    chosen = Counter(int(kept(frame, 1, bytes([n]) * 32)[0, :, 0].argmax()) for n in range(120))
    assert min(chosen[visit] for visit in range(6)) > 8  # 20 expected


def test_what_is_kept_is_pinned() -> None:
    """A session that is resumed keeps the same records under every version of every library."""
    frame = frame_of([(name, visit, ward) for name in NAMES for visit in range(6) for ward in range(3)])
    counts = kept(frame, 2)
    assert [tuple(map(int, cell)) for cell in np.argwhere(counts)] == PINNED
    wide = Domain(tuple(IntegerAttribute(f"a{n}", 0, 10**6 - 1) for n in range(5)), person=Person("id", 1))
    rows = pd.DataFrame(
        [[n % 2, *(n * k for k in range(1, 6))] for n in range(9)], columns=["id", *wide.names]
    )
    kept_rows, _ = _intake(rows, wide)
    assert sorted(int(row) for row in kept_rows.columns[0]) == PINNED_WIDE


PINNED = [(0, 1, 1), (0, 2, 2), (1, 2, 2), (1, 3, 2), (2, 0, 0), (2, 5, 2), (3, 0, 1), (3, 5, 2)]
PINNED_WIDE = [5, 6]


def _intake(frame: pd.DataFrame, domain: Domain) -> tuple[CodedRecords, object]:
    intake = Intake(domain, KEY)
    intake.add(TablePart(frame_columns(frame, domain.columns)))
    records, bound, _ = intake.finish()
    return records.unpacked(), bound


def test_ids_are_hashed_as_published() -> None:
    """SipHash-2-4 with 16 bytes of key, then the finaliser of SplitMix64."""
    mask = 2**64 - 1

    def turn(word: int, by: int) -> int:
        return (word << by | word >> 64 - by) & mask

    def rounds(v: list[int], count: int) -> list[int]:
        a, b, c, d = v
        for _ in range(count):
            a = (a + b) & mask
            b = turn(b, 13) ^ a
            a = turn(a, 32)
            c = (c + d) & mask
            d = turn(d, 16) ^ c
            a = (a + d) & mask
            d = turn(d, 21) ^ a
            c = (c + b) & mask
            b = turn(b, 17) ^ c
            c = turn(c, 32)
        return [a, b, c, d]

    def siphash(key: bytes, text: bytes) -> int:
        k0, k1 = (int.from_bytes(key[start : start + 8], "little") for start in (0, 8))
        published = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
        v = [key ^ word for key, word in zip((k0, k1) * 2, published, strict=True)]
        padded = text + bytes(-(len(text) + 1) % 8) + bytes([len(text) % 256])
        for start in range(0, len(padded), 8):
            word = int.from_bytes(padded[start : start + 8], "little")
            v[3] ^= word
            v = rounds(v, 2)
            v[0] ^= word
        v[2] ^= 0xFF
        v = rounds(v, 4)
        return v[0] ^ v[1] ^ v[2] ^ v[3]

    def mixed(word: int) -> int:
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & mask
        word = (word ^ word >> 27) * 0x94D049BB133111EB & mask
        return word ^ word >> 31

    assert siphash(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5  # appendix A of the paper
    texts = ["", "7", "ann", "12345678", "Zoë Ångström", "x" * 100]
    roster = Roster(Person("id", 1, empty="person"), KEY)
    roster.add(pd.Series(texts[1:]))
    _, keys = roster.finish()
    for half in range(2):
        key = KEY.hex()[16 * half : 16 * half + 16].encode()
        assert keys[half].tolist() == [mixed(siphash(key, text.encode())) for text in texts[1:]]


@given(rows=ROWS, records=st.integers(1, 4), seed=st.integers(0, 99))
def test_hashes_that_collide_are_told_apart_by_the_cells(
    rows: list[tuple[str, int, int]], records: int, seed: int
) -> None:
    """A hash of one bit leaves nearly all ties to the cells, never to the order of rows."""
    frame = frame_of(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "_permuted", lambda words, keys: words[0] & np.uint64(1))
        counts = kept(frame, records)
        assert np.array_equal(counts, kept(frame.sample(frac=1, random_state=seed), records))
    had = Counter(row[0] for row in rows)
    assert counts.sum(axis=(1, 2)).tolist() == [min(records, had[name]) for name in NAMES]


def test_ids_whose_first_hashes_collide_stay_two_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = Roster._hashed

    def colliding(self: Roster, texts: NDArray[np.object_]) -> Words:
        words = hashed(self, texts)
        words[0] = 5
        return words

    monkeypatch.setattr(Roster, "_hashed", colliding)
    frame = frame_of([(name, visit, 0) for visit in range(4) for name in reversed(NAMES)])
    assert kept(frame, 2).sum(axis=(1, 2)).tolist() == [2, 2, 2, 2]
    roster = Roster(Person("id", 2), KEY)
    roster.add(frame["id"])
    persons, keys = roster.finish()
    assert persons.tolist() == [0, 1, 2, 3] * 4  # counted by first appearance
    assert len(set(keys[1].tolist())) == 4


# --- ids --------------------------------------------------------------------------------------------------

# An id, its person where ids are texts, and where they are whole numbers; None drops the record.
IDS: list[tuple[object, int | None, int | None]] = [
    ("7", 0, 0), ("07", 1, 0), ("7.0", 2, 0), (" 7", 3, 0), ("", None, None), (None, None, None),
    (float("nan"), None, None), ("x", 4, None), ("é", 5, None), ("\udc80", None, None), (True, 6, None),
    (7, 0, 0), (7.0, 0, 0), (b"7", None, None), ([7], None, None), (2**70, 7, 1),
]  # fmt: skip


def persons_of(values: Sequence[object], **choices: str) -> list[int | None]:
    """Return the number of the person of each id, None where its record is dropped."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    roster = Roster(Person("id", 1, **choices), KEY)  # type: ignore[arg-type]
    has_person = roster.add(pd.Series(column))
    numbers = iter(roster.finish()[0].tolist())
    return [next(numbers) if one else None for one in has_person]


@pytest.mark.parametrize("ids", ["text", "integer"])
@pytest.mark.parametrize("kind", [None, "category", "Int64", "object"])
def test_a_record_without_an_id_changes_nothing_of_the_others(ids: str, kind: str | None) -> None:
    """A column of whole numbers becomes one of floats where one id is empty; a category does too."""
    generator = np.random.default_rng(3)
    numbers: list[int | None] = [*generator.integers(0, 60, 200).tolist(), None]
    rows = {"owner": generator.choice(NAMES, 201), "visit": generator.integers(0, 6, 201)}
    frame = pd.DataFrame({**rows, "ward": generator.integers(0, 3, 201)})
    domain = domain_of(2, ids=ids)

    def counts(number: int) -> NDArray[np.int64]:
        values = numbers[:number]
        column = pd.Series(values, dtype=kind)
        if kind == "category":
            column = pd.Series(pd.Categorical(np.array(values, dtype=object), categories=range(60)))
        return as_source(frame.iloc[:number].assign(id=column), domain, KEY).counts(domain.names).counts

    assert np.array_equal(counts(201), counts(200))
    assert counts(200).sum() < 200


def test_ids_are_told_apart_to_the_last_character_unless_they_are_declared_whole_numbers() -> None:
    ids, texts, numbers = zip(*IDS, strict=True)
    assert persons_of(ids) == list(texts)
    assert persons_of(ids, ids="integer") == list(numbers)
    with_own = persons_of(ids, empty="person")
    assert with_own[4:7] == [OWN] * 3
    assert with_own[9] is None  # an id that cannot be read is no empty one


def test_whole_numbers_are_the_same_persons_in_every_type_of_column() -> None:
    numbers = [7, -3, 7, 2**53 + 1, 2**53]
    expected = [0, 1, 0, 2, 3]
    for dtype in ("int64", "Int64", "object", "str"):
        for ids in ("text", "integer"):
            roster = Roster(Person("id", 1, ids=ids), KEY)
            assert roster.add(pd.Series(numbers).astype(dtype)).all()
            persons, keys = roster.finish()
            assert persons.tolist() == expected
            other = Roster(Person("id", 1), KEY)
            other.add(pd.Series(list(map(str, numbers))))
            assert np.array_equal(keys, other.finish()[1])
    roster = Roster(Person("id", 1, empty="person"), KEY)
    assert roster.add(pd.Series([1, None, 1], dtype="Int64")).all()
    assert roster.finish()[0].tolist() == [0, OWN, 0]


def test_a_record_without_an_id_is_dropped_or_a_person_of_its_own() -> None:
    frame = frame_of([("ann", 1, 1)] * 3 + [("bob", 2, 2)] * 3)
    frame.loc[3:, "id"] = None
    dropped, own = domain_of(1), domain_of(1, empty="person")
    assert as_source(frame, dropped, KEY).counts(("owner",)).counts.tolist() == [1, 0, 0, 0]
    assert as_source(frame, own, KEY).counts(("owner",)).counts.tolist() == [1, 3, 0, 0]


def test_a_table_is_read_under_the_key_of_its_persons_alone() -> None:
    frame = frame_of([("ann", 1, 1)])
    for domain in (domain_of(1), Domain(ATTRIBUTES, person=Person("id"))):
        with pytest.raises(DataError, match="'id' of ids, got none"):
            as_source(frame, domain, None)
    with pytest.raises(DataError, match="number of records per person"):
        as_source(frame, Domain(ATTRIBUTES, person=Person("id")), KEY)
    bounded = MemorySource.from_frame(frame, domain_of(1), KEY)
    assert as_source(bounded, domain_of(1), KEY) is bounded
    for source, domain, key in (
        (MemorySource.from_frame(frame, Domain(ATTRIBUTES)), domain_of(1), KEY),
        (MemorySource.from_frame(frame, domain_of(2), KEY), domain_of(1), KEY),
        (bounded, domain_of(1), KEY[::-1]),
        (bounded, Domain(ATTRIBUTES), None),
    ):
        with pytest.raises(DataError, match="give the pandas table, or name the file"):
            as_source(source, domain, key)
    for twice in (frame.drop(columns="id"), pd.concat([frame, frame[["id"]]], axis=1)):
        with pytest.raises(DataError, match="expected one column 'id' in the table"):
            as_source(twice, domain_of(1), KEY)


# --- declarations -----------------------------------------------------------------------------------------


def test_a_person_that_cannot_be_is_refused() -> None:
    table = pd.DataFrame({"ann": [1]})
    wrong: dict[str, list[object]] = {
        "column": ["", 3, table], "records": [0, True, 10**7, table], "ids": ["number", table],
        "empty": ["own"], "constant": [table],
    }  # fmt: skip
    for key, values in wrong.items():
        for value in values:
            with pytest.raises(DomainError, match=rf"\[person\] {key}: expected") as caught:
                Person(**{"column": "id", key: value})  # type: ignore[arg-type]
            assert "ann" not in str(caught.value)


# --- sources ----------------------------------------------------------------------------------------------


def sources(tmp_path: Path, frame: pd.DataFrame, kind: str) -> list[pd.DataFrame | Path]:
    frame.to_csv(tmp_path / "t.csv", index=False)
    with duckdb.connect() as engine:
        ids = [None if one is None else str(one) for one in frame["id"]]
        texts = frame.assign(id=pd.Series(ids, dtype=object))
        engine.register("texts", texts)
        engine.execute(f"CREATE TABLE t AS SELECT id::{kind} AS id, owner, visit, ward FROM texts")
        engine.execute(f"COPY t TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
    return [frame, tmp_path / "t.csv", tmp_path / "t.parquet"]


@pytest.mark.parametrize(
    ("kind", "choices"),
    [("VARCHAR", {}), ("BIGINT", {"ids": "integer"}), ("UBIGINT", {"empty": "person"}), ("SMALLINT", {})],
)
def test_the_sources_keep_the_same_records(tmp_path: Path, kind: str, choices: dict[str, str]) -> None:
    generator = np.random.default_rng(1)
    ids = generator.integers(0, 60, 400).astype(object)
    ids[generator.random(400) < 0.05] = None
    if kind == "VARCHAR":
        ids = np.array([None if one is None else f"0{one}" for one in ids], dtype=object)
    if kind == "BIGINT":
        ids = np.array([None if one is None else one + 2**53 for one in ids], dtype=object)
    owners, visits = generator.choice(NAMES, 400), generator.integers(0, 6, 400)
    wards = generator.integers(0, 3, 400)
    frame = frame_of([*zip(owners, visits, wards, strict=True)]).assign(id=pd.Series(ids, dtype=object))
    domain = domain_of(3, **choices)
    found = [as_source(table, domain, KEY) for table in sources(tmp_path, frame, kind)]
    for other in found[1:]:
        assert np.array_equal(found[0].counts(domain.names).counts, other.counts(domain.names).counts)
        assert found[0].fingerprint(b"k") == other.fingerprint(b"k")
    total = found[0].counts(()).total
    persons = len({one for one in ids if one is not None})
    assert 2 * persons < total < 3 * persons + (40 if choices.get("empty") else 0)


@pytest.mark.parametrize("column", ["self", "cls", 'a "b"', "id IS NULL", "coalesce(id, 0)"])
def test_a_column_of_ids_may_have_any_name(tmp_path: Path, column: str) -> None:
    frame = frame_of([("ann", 1, 1)] * 3 + [("bob", 2, 2)] * 2).drop(columns="id")
    frame[column] = pd.Series([1, 1, None, 2, 2], dtype="Int64")
    duckdb.from_df(frame).write_parquet(str(tmp_path / "t.parquet"))
    domain = Domain(ATTRIBUTES, person=Person(column, 1))
    for table in (frame, tmp_path / "t.parquet"):
        assert as_source(table, domain, KEY).counts(("owner",)).counts.tolist() == [1, 1, 0, 0]


def test_a_line_that_cannot_be_read_has_no_person(tmp_path: Path) -> None:
    lenient = tuple(replace(attribute, missing=True, other=True) for attribute in ATTRIBUTES)
    path = tmp_path / "t.csv"
    path.write_text("id,owner,visit,ward\na,ann,1,1\nbroken\n,bob,1,1\n")
    person = Person("id", 1, empty="person")
    assert as_source(path, Domain(lenient), None).counts(()).total == 3
    assert as_source(path, Domain(lenient, person=person), KEY).counts(()).total == 2
    assert holds_malformed(Domain(lenient))
    assert not holds_malformed(Domain(lenient, person=person))
    assert not holds_malformed(Domain((*lenient[1:], ATTRIBUTES[0])))


# --- fingerprints -----------------------------------------------------------------------------------------


def test_the_fingerprint_covers_ids_and_the_records_that_are_left_out() -> None:
    rows = [("ann", visit, 0) for visit in range(3)] + [("bob", 1, 0)]
    frame = frame_of(rows)
    source = as_source(frame, domain_of(1), KEY)
    prints = [source.fingerprint(b"k")]
    for ids in ("ann ann cid bob", "bob bob bob ann", "ann ann bob bob", "ann ann ann cid"):
        other = as_source(frame.assign(id=ids.split()), domain_of(1), KEY)
        prints.append(other.fingerprint(b"k"))
    (left_out, *_) = (place for place in range(3) if not source.counts(("owner", "visit")).counts[0, place])
    altered = frame.copy()
    altered.loc[left_out, "ward"] = 2
    prints.append(as_source(altered, domain_of(1), KEY).fingerprint(b"k"))
    prints.append(as_source(frame, domain_of(2), KEY).fingerprint(b"k"))
    prints.append(as_source(frame, Domain(ATTRIBUTES), None).fingerprint(b"k"))
    prints.append(source.fingerprint(b"other"))
    assert len(set(prints)) == len(prints)
    assert as_source(frame.copy(), domain_of(1), KEY).fingerprint(b"k") == prints[0]
