"""Tables in memory and beyond it: their packed cells, counts and digests, against plain arrays."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.data import (
    MemoryLimit,
    MemorySource,
    TableFile,
    as_place,
    as_source,
    place_of,
    scratch,
)
from pmw.data.memory import frame_parts
from pmw.data.packed import PackedRecords, cell_words, multiset_digest, pack, packed_digest
from pmw.data.people import Numbers, PeopleRecords, keep_bounded
from pmw.data.scratch import ScratchFile
from pmw.errors import DataError
from queries import CodedRecords, Domain, IntegerAttribute, Person
from tests.pmw.data.lines import KEY

LENGTHS = st.one_of(st.integers(1, 20), st.sampled_from([255, 256, 257, 70_000]))
SIZES = st.lists(LENGTHS, min_size=1, max_size=7)
Blocks: TypeAlias = list[list[NDArray[np.int64]]]  # of cells, per attribute


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
    alone = Domain((IntegerAttribute("a", 0, 99),), person=Person("id", 1))
    records = CodedRecords(alone, (np.array([77, 78], dtype=np.uint8),))
    people = PeopleRecords(records, np.array([0, 1]), np.full((2, 2), 79, dtype=np.uint64))
    for one in (people, packed(alone, [[np.array([77, 78])]])):
        assert not re.search(r"\b(77|78|79|array)\b", repr(one))


def test_the_last_cell_of_a_full_word_is_not_the_first_of_the_next() -> None:
    domain = Domain(tuple(IntegerAttribute(f"a{n}", 0, 2**16 - 1 if n < 4 else 1) for n in range(5)))
    rows = np.array([[2**16 - 1] * 4 + [1], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1]], dtype=np.uint16)
    words = cell_words(CodedRecords(domain, tuple(rows.T)))
    assert [word.tolist() for word in words] == [[2**64 - 1, 0, 2**48], [1, 1, 1]]


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


def test_a_table_that_was_read_for_another_domain_is_refused(domain: Domain, frame: pd.DataFrame) -> None:
    flags = Domain((domain["member"],), name=domain.name)
    for other in (flags, Domain(domain.attributes, name="others"), Domain(domain.attributes[::-1], "people")):
        source = MemorySource.from_frame(frame, other)
        assert as_source(source, other, None) is source
        with pytest.raises(DataError, match="read with the declared domain 'people', got one of another"):
            as_source(source, domain, None)
        with pytest.raises(DataError, match="read it again with this one"):
            pmw.open_session(source, domain, epsilon=1)


def test_bins_that_do_not_fit_are_refused(domain: Domain, frame: pd.DataFrame) -> None:
    source, rest = MemorySource.from_frame(frame, domain), [None] * (len(domain) - 1)
    coarse = Domain((IntegerAttribute(domain.names[0], 0, 3), *domain.attributes[1:]))
    for bins, told in ((rest, "same attributes"), ([np.full(domain.shape[0], 9), *rest], "bins that fit")):
        with pytest.raises(DataError, match=told):
            source.coarsened(coarse, bins)


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


def binned(domain: Domain, width: int, longest: int = 10**9) -> tuple[Domain, list[NDArray[np.int64] | None]]:
    """Return a domain whose attributes have bins of so many cells, but for the longest, and these bins."""
    bins = [np.arange(size) // width if width <= size < longest else None for size in domain.shape]
    sizes = [size if one is None else one[-1] + 1 for size, one in zip(domain.shape, bins, strict=True)]
    pairs = zip(domain.names, map(int, sizes), strict=True)
    return Domain(tuple(IntegerAttribute(name, 0, size - 1) for name, size in pairs)), bins


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
    coarse, bins = binned(domain, 3)
    coarsened = source.coarsened(coarse, bins)
    for name, one in zip(domain.names, bins, strict=True):
        counts = source.counts((name,)).counts
        expected = counts if one is None else np.bincount(one, weights=counts)
        assert np.array_equal(coarsened.counts((name,)).counts, expected)
    assert coarsened.counts(()).total == len(columns[0])
    assert coarsened.counts(()) is coarsened.counts(())


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
    steps = [2, *[None] * (len(sizes) - 1)]
    pairs = enumerate(zip(sizes, steps, strict=True))
    domain = Domain(
        tuple(IntegerAttribute(f"a{n}", 0, size - 1, resolution=step) for n, (size, step) in pairs)
    )
    frames = [
        pd.DataFrame({f"a{n}": generator.integers(0, size, records) for n, size in enumerate(sizes)})
        for records in (0, 3, 900, 1, 2000)
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
    assert kept.counts(()).total == 2904


def test_many_records_of_few_cells_are_counted_unless_it_is_told_whose_they_are() -> None:
    frame = pd.DataFrame({"a": np.arange(1000) % 3, "id": np.arange(1000)})
    cells = Domain((IntegerAttribute("a", 0, 2),))
    assert MemorySource.from_frame(frame, cells)._records.times is not None
    for records, counted in ((1, True), (2, False)):
        domain = Domain(cells.attributes, person=Person("id", records))
        source = MemorySource.from_frame(frame, domain, bytes(32))
        assert (source._records.times is not None) is counted
        assert source.counts(("a",)).counts.tolist() == [334, 333, 333]


# --- beyond the memory that they may take ---------------------------------------------------------------


RECORDS = 30_000  # more than are held with their persons, and more bytes than the limit
LIMIT = 10**4  # bytes
LIMITED = Domain(
    (IntegerAttribute("x", 0, 9), IntegerAttribute("y", 0, 99), IntegerAttribute("z", 0, 199)), name="t"
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer records are worked on at a time than a table of these tests has."""
    monkeypatch.setattr(scratch, "_FEWEST_RECORDS", 20_000)


@pytest.fixture
def small(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records are worked on at a time, so that a small table has many runs, blocks and buckets."""
    monkeypatch.setattr(scratch, "_FEWEST_RECORDS", 20)
    monkeypatch.setattr("pmw.data.packed._STORED_RECORDS", 16)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose cells take 90 kB."""
    file = tmp_path_factory.mktemp("table") / "t.parquet"
    numbers = np.arange(RECORDS)
    frame = pd.DataFrame({"x": numbers % 10, "y": numbers * 7 % 83, "z": numbers % 191, "id": numbers // 3})
    duckdb.from_df(frame).write_parquet(str(file))
    return file


@st.composite
def parted_tables(draw: st.DrawFn) -> tuple[Domain, list[pd.DataFrame]]:
    """Return a domain, and a table in parts, some of whose records are dropped or have no id."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 50, 257, 10**6]), min_size=1, max_size=5))
    sizes += draw(st.sampled_from([[], [10**6] * 3]))  # several words a record
    seed, distinct = draw(st.integers(0, 2**32)), draw(st.sampled_from([2, 5, 10**6]))
    records, persons = draw(st.integers(0, 400)), draw(st.sampled_from([1, 4, 60, 400]))
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {f"a{n}": generator.integers(-1, min(size, distinct), records) for n, size in enumerate(sizes)}
    ).astype("Int64")
    frame = frame.mask(frame == -1)  # some are dropped
    ids = generator.integers(0, persons, records)
    texts = draw(st.booleans())
    frame["id"] = pd.Series(
        [None if one == 0 else str(one) if texts else int(one) for one in ids],
        dtype=object if texts else "Int64",
    )
    person = draw(st.sampled_from([None, *itertools.product((1, 2, 5), ("drop", "person"))]))
    declared = None if person is None else Person("id", person[0], empty=person[1])
    attributes = tuple(IntegerAttribute(f"a{n}", 0, size - 1) for n, size in enumerate(sizes))
    ends = sorted(draw(st.lists(st.integers(0, records), max_size=9)))
    parts = [frame.iloc[low:high] for low, high in itertools.pairwise([0, *ends, records])]
    return Domain(attributes, "t", declared), parts


def taken_in(domain: Domain, parts: list[pd.DataFrame], limit: MemoryLimit | None) -> MemorySource:
    key = None if domain.person is None else KEY
    return MemorySource.from_parts(frame_parts(parts, domain), domain, key, limit)


@pytest.mark.usefixtures("small")
@given(made=parted_tables())
def test_counts_and_fingerprint_are_those_of_memory(made: tuple[Domain, list[pd.DataFrame]]) -> None:
    domain, parts = made
    held, stored = taken_in(domain, parts, None), taken_in(domain, parts, MemoryLimit(1))
    assert held.fingerprint(b"k") == stored.fingerprint(b"k")
    scopes = [
        scope
        for size in range(3)
        for scope in itertools.combinations(domain.names, size)
        if domain.scope_size(scope) <= 10**5 or scope == domain.names[:1]
    ]
    stored.prepare(scopes)
    for scope in scopes:
        assert np.array_equal(held.counts(scope).counts, stored.counts(scope).counts)
    coarse = [source.coarsened(*binned(domain, 2, longest=300)) for source in (held, stored)]
    first = domain.names[:1]
    assert np.array_equal(coarse[0].counts(first).counts, coarse[1].counts(first).counts)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("persons", [1, 300])
def test_a_person_of_many_records_and_many_persons_are_bounded_bucket_by_bucket(
    persons: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_FEWEST_RECORDS", 3)  # of each bucket; so most are parted again
    domain = Domain(LIMITED.attributes, person=Person("id", 3))
    numbers = np.arange(900)
    frame = pd.DataFrame({"x": numbers % 7, "y": numbers % 90, "z": numbers % 11, "id": numbers % persons})
    parts = [frame.iloc[start : start + 37] for start in range(0, len(frame), 37)]
    sizes = list[int]()

    def noting(found: PeopleRecords, records: int) -> tuple[CodedRecords, Numbers]:
        sizes.append(len(found.persons))
        return keep_bounded(found, records)

    held = taken_in(domain, parts, None)
    monkeypatch.setattr("pmw.data.memory.keep_bounded", noting)
    stored = taken_in(domain, parts, MemoryLimit(1))
    assert max(sizes) <= 3 * 25  # records of one person, three of each of its 25 parts
    assert np.array_equal(held.counts(domain.names).counts, stored.counts(domain.names).counts)
    assert stored.counts(()).total == 3 * persons
    assert held.fingerprint(b"k") == stored.fingerprint(b"k")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("empty", ["person", "drop"])
@pytest.mark.parametrize("most", [1, 50, 3000])
def test_values_of_a_person_are_clipped_as_in_memory_with_an_id_and_without(most: float, empty: str) -> None:
    person = Person("id", 3, empty=empty, clips=(("spent", most),))
    spent = IntegerAttribute("spent", -500, 1000, 250, missing=True, resolution=1)
    domain = Domain((IntegerAttribute("x", 0, 6), spent), person=person)
    draw = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "x": draw.integers(0, 7, 400),
            "spent": draw.choice([-500, -3, 0, 20, 49, 50, 51, 1000, np.nan], 400),
            "id": draw.choice(["", "", *map(str, range(90))], 400),
        }
    )
    parts = [frame.iloc[start : start + 37] for start in range(0, len(frame), 37)]
    held, stored = taken_in(domain, parts, None), taken_in(domain, parts, MemoryLimit(1))
    for scope in (("spent",), ("x", "spent")):
        found = stored.place_sums(scope, "spent").counts
        assert np.array_equal(held.place_sums(scope, "spent").counts, found)
        assert np.array_equal(held.counts(scope).counts, stored.counts(scope).counts)
    alone = frame[(frame["id"] == "") & frame["spent"].notna()]
    own = taken_in(domain, [alone], MemoryLimit(1))
    kept = alone["spent"].clip(-most, most).sum() if empty == "person" else 0
    counts = own.counts(("spent",)).counts
    places = own.place_sums(("spent",), "spent").counts
    zero = domain.grids[0].zero  # the place of 0
    assert places.sum() - zero * counts.sum() == kept


def test_a_count_reads_the_bytes_that_it_needs_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = as_source(TableFile(table, memory=MemoryLimit(LIMIT)), LIMITED, None)
    read, bytes_read = ScratchFile.read, []

    def counting(self: ScratchFile, offset: int, count: int) -> bytes:
        bytes_read.append(count)
        return read(self, offset, count)

    monkeypatch.setattr(ScratchFile, "read", counting)
    source.prepare([(), ("x",), ("y",), ("y",), ("x", "y")])
    for scope in [(), ("x",), ("y",), ("x", "y")]:
        assert source.counts(scope).total == RECORDS
    assert sum(bytes_read) == 2 * RECORDS  # of three bytes a record
    source.counts(("y",))
    source.counts(("x", "z"))
    assert sum(bytes_read) == 4 * RECORDS


def test_a_file_has_no_name_and_its_owner_alone_may_read_it(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path)
    stored = file.append(np.arange(5, dtype=np.uint16))
    found = os.fstat(file._descriptor)
    assert (found.st_nlink, found.st_mode & 0o777, found.st_size) == (0, 0o600, 10)
    assert not os.get_inheritable(file._descriptor)
    assert list(tmp_path.iterdir()) == []
    assert stored.read().tolist() == [0, 1, 2, 3, 4]
    assert stored.read(3, 9).tolist() == [3, 4]
    descriptor, long = file._descriptor, file.append(np.arange(9))
    os.ftruncate(descriptor, 40)
    with pytest.raises(DataError, match=r"could not be read back .it is shorter than it was.; "):
        long.read()
    del file, stored, long
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_process_that_is_killed_leaves_no_file(table: Path, tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom pathlib import Path\n"
        "import pmw\nfrom pmw.data import as_source\nfrom queries import Domain, IntegerAttribute\n"
        "domain = Domain((IntegerAttribute('x', 0, 9), IntegerAttribute('z', 0, 199)), name='t')\n"
        f"limit = pmw.MemoryLimit({LIMIT}, Path({str(tmp_path)!r}))\n"
        f"source = as_source(pmw.TableFile(Path({str(table)!r}), memory=limit), domain, None)\n"
        "links = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if int(n) > 2 and "
        "os.path.lexists(f'/proc/self/fd/{n}')]\n"
        f"print(sum(link.startswith({str(tmp_path)!r}) for link in links), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files are listed under Linux")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "1\n")
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_a_limit_has_the_form_that_it_always_had(tmp_path: Path) -> None:
    file, base = TableFile(tmp_path / "t.csv"), pmw.DatabaseTable("duckdb:/x/t.duckdb", "t")
    assert set(file.to_dict()) == {"path", "dialect"}
    assert set(base.to_dict()) == {"database", "table"}
    for place in (file, base):
        assert place_of(json.loads(json.dumps(place.to_dict()))) == place
        for limit in (MemoryLimit(7), MemoryLimit(None, tmp_path)):
            limited = replace(place, memory=limit)
            assert place_of(json.loads(json.dumps(limited.to_dict()))) == limited


def test_the_usual_limit_is_half_of_the_machine_or_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "memory.max"
    monkeypatch.setattr(scratch, "_CONTAINER", given)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert MemoryLimit().in_bytes == machine // 2
    for text, expected in (("max\n", machine // 2), ("2000000\n", 10**6), (str(2**70), machine // 2)):
        given.write_text(text)
        assert MemoryLimit().in_bytes == expected
    assert MemoryLimit(12).in_bytes == 12


# --- what fails -------------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there_is_told_and_no_other_is_taken(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setenv("TMPDIR", str(gone))
    for limit in (MemoryLimit(LIMIT), MemoryLimit(LIMIT, gone)):
        with pytest.raises(
            DataError, match=f"{gone}: no file could be made there .*No such file or directory"
        ):
            pmw.open_session(TableFile(table, memory=limit), LIMITED, epsilon=1, path=tmp_path / "study.pmw")
        assert list(tmp_path.iterdir()) == []
    limit = MemoryLimit(10**8, gone)  # the table fits
    pmw.open_session(TableFile(table, memory=limit), LIMITED, epsilon=1).close()


def full_after(writes: int) -> Callable[[int, memoryview, int], int]:
    """Return a ``pwrite`` that writes half of what it is given; the disk is full after so many calls."""
    write, calls = os.pwrite, itertools.count()

    def pwrite(descriptor: int, content: memoryview, offset: int) -> int:
        if next(calls) >= writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content[: len(content) // 2 + 1], offset)

    return pwrite


@pytest.mark.parametrize(("persons", "writes"), [(False, 0), (True, 1), (True, 30)])
def test_a_full_disk_is_one_error_and_costs_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persons: bool, writes: int
) -> None:
    domain = Domain(LIMITED.attributes, "t", Person("id", 2, ids="integer") if persons else None)
    file = TableFile(table, memory=MemoryLimit(LIMIT, tmp_path))
    path = tmp_path / "study.pmw"
    options = pmw.Options(records_per_person=2 if persons else 1)
    pmw.open_session(file, domain, epsilon=1, path=path, options=options).close()
    monkeypatch.setattr(os, "pwrite", full_after(writes))
    told = f"^{tmp_path}: the cells of the table could not be written there .No space left on device.; "
    with pytest.raises(DataError, match=told) as caught:
        pmw.open_session(file, domain, epsilon=1, path=tmp_path / "new.pmw", options=options)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert not (tmp_path / "new.pmw").exists()
    with pmw.resume_session(path) as session:
        before = session.status().to_dict()
        with pytest.raises(DataError, match=told):
            session.measure(("x", "y"))
        assert session.status().to_dict() == before


def test_a_disk_that_fails_in_a_count_leaves_nothing_recorded(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.pmw"
    file = TableFile(table, memory=MemoryLimit(LIMIT, tmp_path))
    pmw.open_session(file, LIMITED, epsilon=1, path=path).close()

    def failing(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pmw.resume_session(path) as session:
        session.measure(("x", "z"))  # the table is read
        lines = len(session.ledger().lines)
        monkeypatch.setattr(os, "pread", failing)
        with pytest.raises(DataError, match=r"could not be read back .Input/output error.; "):
            session.measure(("x", "y"))
    monkeypatch.undo()
    with pmw.resume_session(path) as session:
        assert len(session.ledger().lines) == lines
        session.measure(("x", "y"))
        assert len(session.ledger().lines) == lines + 1
    assert pmw.verify_session(path).holds
