"""Texts of questions about ranges, kept as numbers: those of the questions, with their checksums."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import Domain, IntegerAttribute, LinearQuery
from queries.boxes import RangeTexts

NAMES = ("age", "50% of", "größe", 'with "quotes"')
SIZE = 1200
DOMAIN = Domain(tuple(IntegerAttribute(name, 0, SIZE - 1) for name in NAMES), "t")


@st.composite
def texts(draw: st.DrawFn) -> RangeTexts:
    names = sorted(draw(st.sets(st.sampled_from(NAMES))), key=NAMES.index)
    pair = st.lists(st.integers(0, SIZE - 1), min_size=2, max_size=2, unique=True).map(sorted)
    rows = draw(st.lists(st.tuples(*(pair for _ in names)), max_size=12))
    ends = np.array(rows, dtype=np.int64).reshape(len(rows), len(names), 2)
    return RangeTexts(names, np.moveaxis(ends, 0, 2))


@given(texts())
def test_texts_are_those_of_the_questions(found: RangeTexts) -> None:
    ends = np.moveaxis(found.ends, 2, 0).tolist()
    wanted = [
        LinearQuery.cells(
            DOMAIN, {name: (low, high - 1) for name, (low, high) in zip(found.names, row, strict=True)}
        ).to_json()
        for row in ends
    ]
    assert list(found) == wanted == [found[place] for place in range(len(found))]
    assert list(found[::-1]) == wanted[::-1]


@given(texts())
def test_checksums_are_those_of_the_texts(found: RangeTexts) -> None:
    assert found.checksums().tolist() == [zlib.crc32(text.encode()) for text in found]


@pytest.mark.parametrize("size", [30, 10**6])  # pairs are looked up in a table, and sorted
def test_checksums_of_many_texts(size: int) -> None:
    ends = np.random.default_rng(1).integers(0, size, (3, 2, 500))
    found = RangeTexts(NAMES[:3], ends)
    assert found.checksums().tolist() == [zlib.crc32(text.encode()) for text in found]


@given(texts(), texts(), st.data())
def test_texts_are_compared_one_by_one(first: RangeTexts, second: RangeTexts, data: st.DataObject) -> None:
    for other in (first, second):
        count = min(len(first), len(other))
        own, theirs = (
            np.array(data.draw(st.permutations(range(len(some))))[:count], dtype=np.int64)
            for some in (first, other)
        )
        same = first.are(own, other, theirs).tolist()
        assert same == [
            one == another for one, another in zip(first.take(own), other.take(theirs), strict=True)
        ]
