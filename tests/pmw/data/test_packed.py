"""Packed records: their cells, their counts and what tells them from others, against plain arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.data import MemorySource
from pmw.data.packed import PackedRecords, cell_words, multiset_digest, pack, packed_digest
from queries import CodedRecords, Domain, IntegerAttribute

LENGTHS = st.one_of(st.integers(1, 20), st.sampled_from([255, 256, 257, 70_000]))
SIZES = st.lists(LENGTHS, min_size=1, max_size=7)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Domain, list[list[NDArray[np.int64]]]]:
    """Return a domain, and some blocks of cells per attribute."""
    sizes = draw(SIZES)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    lengths = draw(st.lists(st.integers(0, 40), max_size=4))
    domain = Domain(tuple(IntegerAttribute(f"a{n}", 0, size - 1) for n, size in enumerate(sizes)))
    return domain, [[generator.integers(0, size, length) for size in sizes] for length in lengths]


def whole(domain: Domain, blocks: list[list[NDArray[np.int64]]]) -> list[NDArray[np.int64]]:
    return [
        np.concatenate([np.zeros(0, dtype=np.int64), *(block[place] for block in blocks)])
        for place in range(len(domain))
    ]


def packed(domain: Domain, blocks: list[list[NDArray[np.int64]]]) -> PackedRecords:
    return PackedRecords(domain, tuple(pack(domain, block) for block in blocks))


@given(tables())
def test_what_was_packed_is_unpacked(table: tuple[Domain, list[list[NDArray[np.int64]]]]) -> None:
    records = packed(*table)
    for found, expected in zip(records.unpacked().columns, whole(*table), strict=True):
        assert found.tolist() == expected.tolist()
    assert len(records) == len(whole(*table)[0])


@given(tables(), st.data())
def test_counts_are_those_of_plain_arrays(
    table: tuple[Domain, list[list[NDArray[np.int64]]]], data: st.DataObject
) -> None:
    domain, blocks = table
    scope = tuple(sorted(data.draw(st.sets(st.sampled_from(domain.names), max_size=3)), key=domain.index))
    if domain.scope_size(scope) > 2**22:
        return
    source = MemorySource(packed(domain, blocks))
    expected = np.zeros(domain.scope_shape(scope), dtype=np.int64)
    columns = whole(domain, blocks)
    np.add.at(expected, tuple(columns[domain.index(name)] for name in scope), 1)
    if not scope:
        expected = np.array(len(columns[0]))
    assert np.array_equal(source.counts(scope).counts, expected)
    for name in scope:  # a part of what is known is summed
        other = MemorySource(packed(domain, blocks)).counts((name,)).counts
        assert np.array_equal(source.counts((name,)).counts, other)


@given(tables())
def test_bins_are_counted_as_sums_of_their_cells(
    table: tuple[Domain, list[list[NDArray[np.int64]]]],
) -> None:
    domain, blocks = table
    bins = [np.arange(size) // 3 if size > 2 else None for size in domain.shape]
    coarse = Domain(
        tuple(
            IntegerAttribute(name, 0, size - 1 if bin_ is None else int(bin_[-1]))
            for name, size, bin_ in zip(domain.names, domain.shape, bins, strict=True)
        )
    )
    fine = MemorySource(packed(domain, blocks))
    source = fine.coarsened(coarse, bins)
    for name, bin_ in zip(domain.names, bins, strict=True):
        counts = fine.counts((name,)).counts
        if bin_ is not None:
            counts = np.bincount(bin_, weights=counts).astype(np.int64)
        assert source.counts((name,)).counts.tolist() == counts.tolist()
    assert source.counts(()).total == fine.counts(()).total


@pytest.mark.parametrize("at_once", [5, 40, 2**24])
@given(table=tables())
def test_the_digest_is_that_of_all_words_sorted(
    table: tuple[Domain, list[list[NDArray[np.int64]]]], at_once: int
) -> None:
    domain, blocks = table
    columns = tuple(
        column.astype(np.min_scalar_type(size - 1))
        for column, size in zip(whole(domain, blocks), domain.shape, strict=True)
    )
    words = cell_words(CodedRecords(domain, columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmw.data.packed._SORTED_AT_ONCE", at_once)
        assert packed_digest(packed(domain, blocks)) == multiset_digest(words)


def test_ten_attributes_of_a_census_take_five_bytes() -> None:
    sizes = (74, 2, 51, 16, 5, 100, 4, 2, 9, 20)
    domain = Domain(tuple(IntegerAttribute(f"a{n}", 0, size - 1) for n, size in enumerate(sizes)))
    block = pack(domain, [np.array([size - 1]) for size in sizes])
    assert sum(codes.nbytes for codes in block) == 5 == math.ceil(math.log2(math.prod(sizes)) / 8)
