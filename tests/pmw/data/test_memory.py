"""Tables in memory: their packed cells, counts and digests, against plain arrays."""

from __future__ import annotations

import copy
import math
import pickle
from typing import TypeAlias

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.data import MemoryLimit, MemorySource, TableFile, as_place, as_source
from pmw.data.memory import frame_parts
from pmw.data.packed import PackedRecords, cell_words, multiset_digest, pack, packed_digest
from pmw.errors import DataError
from queries import CodedRecords, Domain, IntegerAttribute, Person

LENGTHS = st.one_of(st.integers(1, 20), st.sampled_from([255, 256, 257, 70_000]))
SIZES = st.lists(LENGTHS, min_size=1, max_size=7)
Blocks: TypeAlias = list[list[NDArray[np.int64]]]  # of cells, per attribute


def test_counts_are_those_of_the_records(domain: Domain, frame: pd.DataFrame) -> None:
    source = MemorySource.from_frame(frame, domain)
    counted = source.counts(("sex", "member"))
    kept = frame[frame["region"].notna()]  # an undeclared region goes to ``other``
    for place, sex in enumerate(("Female", "Male")):
        for other, member in enumerate((True, False)):
            expected = int(((kept["sex"] == sex) & (kept["member"] == member)).sum())
            assert counted.counts[place, other] == expected
    assert counted.counts.dtype == np.int64
    assert source.counts(("member", "sex")).scope == ("sex", "member")
    assert source.counts(()).total == len(frame)


def test_counting_again_reads_no_record_and_what_is_kept_is_bounded(
    monkeypatch: pytest.MonkeyPatch, domain: Domain, frame: pd.DataFrame
) -> None:
    source = MemorySource.from_frame(frame, domain)
    first = source.counts(("age",))
    assert source.counts(("age",)) is first
    monkeypatch.setattr("pmw.data.source._MOST_CACHED_CELLS", 12)
    source.counts(("region",))
    assert source.counts(("age",)) is not first
    assert np.array_equal(source.counts(("age",)).counts, first.counts)


def test_groups_that_do_not_fit_are_refused(domain: Domain, frame: pd.DataFrame) -> None:
    source, rest = MemorySource.from_frame(frame, domain), [None] * (len(domain) - 1)
    with pytest.raises(DataError, match="same attributes"):
        source.coarsened(domain, rest)
    coarse = Domain((IntegerAttribute(domain.names[0], 0, 3), *domain.attributes[1:]))
    with pytest.raises(DataError, match="bins that fit"):
        source.coarsened(coarse, [np.full(domain.shape[0], 9), *rest])


def test_a_fingerprint_tells_tables_keys_and_domains_apart(domain: Domain, frame: pd.DataFrame) -> None:
    source = MemorySource.from_frame(frame, domain)
    other = MemorySource.from_frame(frame.iloc[1:], domain)
    renamed = MemorySource.from_frame(frame, Domain(domain.attributes, name="others"))
    prints = {one.fingerprint(b"a") for one in (source, other, renamed)} | {source.fingerprint(b"b")}
    assert len(prints) == 4
    assert MemorySource.from_frame(frame, domain).fingerprint(b"a") == source.fingerprint(b"a")


def test_a_source_shows_nothing_and_cannot_be_copied(domain: Domain, frame: pd.DataFrame) -> None:
    source = MemorySource.from_frame(frame, domain)
    assert repr(source) == "MemorySource('people', records not shown)"
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(DataError, match="cannot be copied"):
            attempt(source)


def test_a_marginal_that_does_not_fit_in_memory_is_refused() -> None:
    wide = Domain(tuple(IntegerAttribute(f"a{place}", 0, 9999) for place in range(3)))
    source = MemorySource.from_frame(pd.DataFrame({"a0": [1], "a1": [2], "a2": [3]}), wide)
    with pytest.raises(DataError, match="spans 1 × 10¹² cells"):
        source.counts(wide.names)


def test_a_table_is_a_frame_a_file_or_a_source(domain: Domain, frame: pd.DataFrame) -> None:
    source = as_source(frame, domain, None)
    assert as_source(source, domain, None) is source
    assert as_place(frame) is None
    assert as_place("people.csv") == TableFile(as_place("people.csv").path)  # type: ignore[union-attr]
    with pytest.raises(DataError, match="or the name of a CSV or Parquet file, got a list; "):
        as_source([1, 2], domain, None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="expected one column 'age' in the table"):
        as_source(frame.drop(columns="age"), domain, None)


def test_a_file_remembers_where_it_is_and_how_it_is_written() -> None:
    file = TableFile.from_dict(TableFile("people.csv").to_dict())  # type: ignore[arg-type]
    assert file.path.is_absolute()
    assert file.dialect.delimiter == ","
    assert TableFile.from_dict(file.to_dict()) == file


def test_a_table_that_was_read_for_another_domain_is_refused(domain: Domain, frame: pd.DataFrame) -> None:
    flags = Domain((domain["member"],), name=domain.name)
    for other in (flags, Domain(domain.attributes, name="others"), Domain(domain.attributes[::-1], "people")):
        source = MemorySource.from_frame(frame, other)
        assert as_source(source, other, None) is source
        with pytest.raises(DataError, match="read with the declared domain 'people', got one of another"):
            as_source(source, domain, None)
        with pytest.raises(DataError, match="read it again with this one"):
            pmw.open_session(source, domain, epsilon=1)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Domain, Blocks]:
    """Return a domain, and some blocks of cells per attribute."""
    sizes = draw(SIZES)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    lengths = draw(st.lists(st.integers(0, 40), max_size=4))
    domain = Domain(tuple(IntegerAttribute(f"a{n}", 0, size - 1) for n, size in enumerate(sizes)))
    return domain, [[generator.integers(0, size, length) for size in sizes] for length in lengths]


def whole(domain: Domain, blocks: Blocks) -> list[NDArray[np.int64]]:
    none = np.zeros(0, dtype=np.int64)
    return [np.concatenate([none, *(block[place] for block in blocks)]) for place in range(len(domain))]


def packed(domain: Domain, blocks: Blocks) -> PackedRecords:
    return PackedRecords(domain, tuple(pack(domain, block) for block in blocks))


@given(tables())
def test_what_was_packed_is_unpacked(table: tuple[Domain, Blocks]) -> None:
    records = packed(*table)
    for found, expected in zip(records.unpacked().columns, whole(*table), strict=True):
        assert found.tolist() == expected.tolist()
    assert len(records) == len(whole(*table)[0])


@given(tables(), st.data())
def test_counts_are_those_of_plain_arrays(table: tuple[Domain, Blocks], data: st.DataObject) -> None:
    domain, blocks = table
    scope = tuple(sorted(data.draw(st.sets(st.sampled_from(domain.names), max_size=3)), key=domain.index))
    if domain.scope_size(scope) > 2**22:
        return
    source, columns = MemorySource(packed(domain, blocks)), whole(domain, blocks)
    expected = np.zeros(domain.scope_shape(scope), dtype=np.int64)
    np.add.at(expected, tuple(columns[domain.index(name)] for name in scope), 1)
    if not scope:
        expected = np.array(len(columns[0]))
    assert np.array_equal(source.counts(scope).counts, expected)
    for name in scope:  # a part of what is known is summed
        other = MemorySource(packed(domain, blocks)).counts((name,)).counts
        assert np.array_equal(source.counts((name,)).counts, other)


@given(tables())
def test_bins_are_counted_as_sums_of_their_cells(table: tuple[Domain, Blocks]) -> None:
    domain, blocks = table
    bins = [np.arange(size) // 3 if size > 2 else None for size in domain.shape]
    sizes = [
        size if bin_ is None else int(bin_[-1]) + 1 for size, bin_ in zip(domain.shape, bins, strict=True)
    ]
    pairs = zip(domain.names, sizes, strict=True)
    coarse = Domain(tuple(IntegerAttribute(name, 0, size - 1) for name, size in pairs))
    fine = MemorySource(packed(domain, blocks))
    source = fine.coarsened(coarse, bins)
    for name, bin_ in zip(domain.names, bins, strict=True):
        counts = fine.counts((name,)).counts
        if bin_ is not None:
            counts = np.bincount(bin_, weights=counts).astype(np.int64)
        assert source.counts((name,)).counts.tolist() == counts.tolist()
    assert source.counts(()).total == fine.counts(()).total
    assert source.counts(()) is source.counts(())


@pytest.mark.parametrize("at_once", [5, 40, 2**24])
@given(table=tables())
def test_the_digest_is_that_of_all_words_sorted(table: tuple[Domain, Blocks], at_once: int) -> None:
    domain, blocks = table
    pairs = zip(whole(domain, blocks), domain.shape, strict=True)
    columns = tuple(column.astype(np.min_scalar_type(size - 1)) for column, size in pairs)
    words = cell_words(CodedRecords(domain, columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmw.data.packed._SORTED_AT_ONCE", at_once)
        patch.setattr("pmw.data.packed._PARTING_CELLS", at_once)
        assert packed_digest(packed(domain, blocks)) == multiset_digest(words)


@pytest.mark.parametrize("most", [None, 10**6, 1])
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_records_that_are_counted_are_as_those_that_are_kept(
    most: int | None, seed: int, sizes: list[int]
) -> None:
    generator = np.random.default_rng(seed)
    domain = Domain(
        tuple(
            IntegerAttribute(f"a{place}", 0, size - 1, resolution=2 if place == 0 else None)
            for place, size in enumerate(sizes)
        )
    )
    frames = [
        pd.DataFrame(
            {
                name: generator.integers(0, size, records)
                for name, size in zip(domain.names, sizes, strict=True)
            }
        )
        for records in (0, 3, 900, 1, 4000)
    ]
    limit = None if most is None else MemoryLimit(most)
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmw.data.packed._STORED_RECORDS", 50)
        patch.setattr("pmw.data.packed._HASHED_AT_ONCE", 7)
        for counted in (0, 10**6):
            patch.setattr("pmw.data.packed._MOST_COUNTED", counted)
            made.append(MemorySource.from_parts(frame_parts(frames, domain), domain, None, limit))
        kept, counted_ones = made
        assert counted_ones._records.times is None if most == 1 else True
        assert kept.fingerprint(b"k") == counted_ones.fingerprint(b"k")
    first = domain.names[:1]
    for scope in ((), first, domain.names):
        assert np.array_equal(kept.counts(scope).counts, counted_ones.counts(scope).counts)
    for squared in (False, True):
        one, other = (source.place_sums(domain.names, "a0", squared=squared).counts for source in made)
        assert np.array_equal(one, other)
    assert kept.counts(()).total == 4904


def test_many_records_of_few_cells_are_counted_unless_it_is_told_whose_they_are() -> None:
    frame = pd.DataFrame({"a": np.arange(1000) % 3, "id": np.arange(1000)})
    cells = Domain((IntegerAttribute("a", 0, 2),))
    assert MemorySource.from_frame(frame, cells)._records.times is not None
    for records, counted in ((1, True), (2, False)):
        domain = Domain(cells.attributes, person=Person("id", records))
        source = MemorySource.from_frame(frame, domain, bytes(32))
        assert (source._records.times is not None) is counted
        assert source.counts(("a",)).counts.tolist() == [334, 333, 333]


def test_ten_attributes_of_a_census_take_five_bytes() -> None:
    sizes = (74, 2, 51, 16, 5, 100, 4, 2, 9, 20)
    domain = Domain(tuple(IntegerAttribute(f"a{n}", 0, size - 1) for n, size in enumerate(sizes)))
    block = pack(domain, [np.array([size - 1]) for size in sizes])
    assert sum(codes.nbytes for codes in block) == 5 == math.ceil(math.log2(math.prod(sizes)) / 8)
