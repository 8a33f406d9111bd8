"""Tables in memory."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource, TableFile, as_place, as_source
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain, IntegerAttribute


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


def test_counting_again_reads_no_record(domain: Domain, frame: pd.DataFrame) -> None:
    source = MemorySource.from_frame(frame, domain)
    assert source.counts(("age",)) is source.counts(("age",))


def test_the_memory_for_counts_is_bounded(
    monkeypatch: pytest.MonkeyPatch, domain: Domain, frame: pd.DataFrame
) -> None:
    monkeypatch.setattr("pmw.data.source._MOST_CACHED_CELLS", 12)
    source = MemorySource.from_frame(frame, domain)
    first = source.counts(("age",))
    source.counts(("region",))
    assert source.counts(("age",)) is not first
    assert np.array_equal(source.counts(("age",)).counts, first.counts)


def test_a_coarsened_table_counts_groups_and_shares_the_other_columns(
    domain: Domain, frame: pd.DataFrame
) -> None:
    source = MemorySource.from_frame(frame, domain)
    place, size = domain.index("age"), domain["age"].size
    bin_ = np.minimum(np.arange(size) // 2, 1)
    attributes = list(domain.attributes)
    attributes[place] = IntegerAttribute("age", 0, 1)
    bins = [bin_ if position == place else None for position in range(len(domain))]
    coarse = source.coarsened(Domain(tuple(attributes), domain.name), bins)
    fine = source.counts(("age", "sex")).counts
    counted = coarse.counts(("age", "sex")).counts
    assert np.array_equal(counted, [fine[bin_ == 0].sum(axis=0), fine[bin_ == 1].sum(axis=0)])
    assert coarse.counts(()).total == source.counts(()).total
    assert coarse.counts(("sex",)) is coarse.counts(("sex",))


def test_groups_that_do_not_fit_are_refused(domain: Domain, frame: pd.DataFrame) -> None:
    source = MemorySource.from_frame(frame, domain)
    nothing = [None] * len(domain)
    too_many = np.full(domain.shape[0], 9)
    with pytest.raises(DataError, match="same attributes"):
        source.coarsened(domain, nothing[1:])
    with pytest.raises(DataError, match="bins that fit"):
        source.coarsened(
            Domain((IntegerAttribute(domain.names[0], 0, 3), *domain.attributes[1:])),
            [too_many, *nothing[1:]],
        )


def test_a_fingerprint_tells_tables_keys_and_domains_apart(domain: Domain, frame: pd.DataFrame) -> None:
    source = MemorySource.from_frame(frame, domain)
    other = MemorySource.from_frame(frame.iloc[1:], domain)
    renamed = MemorySource.from_frame(frame, Domain(domain.attributes, name="others"))
    prints = {
        source.fingerprint(b"a"),
        source.fingerprint(b"b"),
        other.fingerprint(b"a"),
        renamed.fingerprint(b"a"),
    }
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


def test_an_attribute_with_one_value_counts() -> None:
    single = Domain((CategoricalAttribute("only", ("x",)),))
    assert MemorySource.from_frame(pd.DataFrame({"only": ["x", "x", "y"]}), single).counts(()).total == 2


def test_a_table_that_was_read_for_another_domain_is_refused(domain: Domain, frame: pd.DataFrame) -> None:
    flags = Domain((domain["member"],), name=domain.name)
    for other in (flags, Domain(domain.attributes, name="others"), Domain(domain.attributes[::-1], "people")):
        source = MemorySource.from_frame(frame, other)
        assert as_source(source, other, None) is source
        with pytest.raises(DataError, match="read with the declared domain 'people', got one of another"):
            as_source(source, domain, None)
        with pytest.raises(DataError, match="read it again with this one"):
            pmw.open_session(source, domain, epsilon=1)
