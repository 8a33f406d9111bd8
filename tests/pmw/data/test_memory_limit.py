"""Tables beyond the memory that they may take: the same counts and fingerprint, and nothing left behind."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.data import MemoryLimit, MemorySource, TableFile, as_source, packed, place_of, scratch
from pmw.data.memory import frame_parts
from pmw.data.people import Numbers, PeopleRecords, keep_bounded
from pmw.data.scratch import ScratchFile
from pmw.errors import DataError
from pmw.session.maintenance import remembered_table
from queries import Domain, IntegerAttribute, Person
from queries.records import CodedRecords
from tests.pmw.data.lines import KEY

RECORDS = 30_000  # more than are held with their persons, and more bytes than the limit
LIMIT = 10**4  # bytes
DOMAIN = Domain(
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
    monkeypatch.setattr(packed, "_STORED_RECORDS", 16)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose cells take 90 kB."""
    file = tmp_path_factory.mktemp("table") / "t.parquet"
    numbers = np.arange(RECORDS)
    frame = pd.DataFrame({"x": numbers % 10, "y": numbers * 7 % 83, "z": numbers % 191, "id": numbers // 3})
    duckdb.from_df(frame).write_parquet(str(file))
    return file


@st.composite
def tables(draw: st.DrawFn) -> tuple[Domain, list[pd.DataFrame]]:
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
@given(made=tables())
def test_counts_and_fingerprint_are_those_of_memory(made: tuple[Domain, list[pd.DataFrame]]) -> None:
    domain, parts = made
    held, stored = taken_in(domain, parts, None), taken_in(domain, parts, MemoryLimit(1))
    assert held.fingerprint(b"k") == stored.fingerprint(b"k")
    scopes = [
        scope
        for size in range(3)
        for scope in itertools.combinations(domain.names, size)
        if domain.scope_size(scope) <= 10**6
    ]
    stored.prepare(scopes)
    for scope in scopes:
        assert np.array_equal(held.counts(scope).counts, stored.counts(scope).counts)
    bins = [np.arange(size) // 2 if size < 300 else None for size in domain.shape]
    coarse = Domain(
        tuple(
            IntegerAttribute(name, 0, (size - 1) // 2 if size < 300 else size - 1)
            for name, size in zip(domain.names, domain.shape, strict=True)
        )
    )
    first = domain.names[:1]
    assert np.array_equal(
        held.coarsened(coarse, bins).counts(first).counts, stored.coarsened(coarse, bins).counts(first).counts
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("persons", [1, 300])
def test_a_person_of_many_records_and_many_persons_are_bounded_bucket_by_bucket(
    persons: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_FEWEST_RECORDS", 3)  # of each bucket; so most are parted again
    domain = Domain(DOMAIN.attributes, person=Person("id", 3))
    numbers = np.arange(1500)
    frame = pd.DataFrame({"x": numbers % 7, "y": numbers % 90, "z": numbers % 11, "id": numbers % persons})
    parts = [frame.iloc[start : start + 37] for start in range(0, len(frame), 37)]
    sizes = list[int]()

    def noting(found: PeopleRecords, records: int) -> tuple[CodedRecords, Numbers]:
        sizes.append(len(found.persons))
        return keep_bounded(found, records)

    held = taken_in(domain, parts, None)
    monkeypatch.setattr("pmw.data.memory.keep_bounded", noting)
    stored = taken_in(domain, parts, MemoryLimit(1))
    assert max(sizes) <= 3 * 41  # records of one person, three of each of its 41 parts
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
    source = as_source(TableFile(table, memory=MemoryLimit(LIMIT)), DOMAIN, None)
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
    descriptor = file._descriptor
    del file, stored
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


@pytest.mark.parametrize("persons", [False, True])
def test_a_session_answers_as_in_memory_and_moves_between_the_two(
    table: Path, tmp_path: Path, persons: bool
) -> None:
    domain = Domain(DOMAIN.attributes, "t", Person("id", 2, ids="integer") if persons else None)
    plain = pmw.Options(records_per_person=2 if persons else 1, opening=pmw.Opening.ONE_WAY)
    limit = MemoryLimit(LIMIT, tmp_path)
    told = []
    for memory in (None, limit):
        file = TableFile(table, memory=memory)
        seeded = replace(plain, seed=5)
        with pmw.open_session(file, domain, epsilon=1, delta=1e-9, options=seeded) as session:
            told.append([session.ask("x = 3 AND y < 20").to_dict(), session.measure(("x", "z")).to_dict()])
    assert told[0] == told[1]
    path, wide = tmp_path / "study.pmw", TableFile(table, memory=MemoryLimit(10**9))
    pmw.open_session(file, domain, epsilon=1, path=path, options=plain).close()
    assert remembered_table(path) == file
    for place, remembered in ((wide, wide), (table, wide)):  # the fingerprint is the same
        pmw.move_session(path, place)
        assert remembered_table(path) == remembered
    pmw.move_session(path, table, memory=limit)
    assert remembered_table(path) == file


def test_a_place_without_a_limit_has_the_form_that_it_always_had(tmp_path: Path) -> None:
    file, base = TableFile(tmp_path / "t.csv"), pmw.DatabaseTable("duckdb:/x/t.duckdb", "t")
    assert set(file.to_dict()) == {"path", "dialect"}
    assert set(base.to_dict()) == {"database", "table"}
    for place in (file, base):
        assert place_of(json.loads(json.dumps(place.to_dict()))) == place
        for limit in (MemoryLimit(7), MemoryLimit(None, tmp_path)):
            limited = replace(place, memory=limit)
            assert place_of(json.loads(json.dumps(limited.to_dict()))) == limited


def test_what_is_no_limit_is_refused() -> None:
    given: list[Any] = [0, -1, 1.5, True, "1GB"]
    for value in given:
        with pytest.raises(DataError, match="expected a positive whole number of bytes"):
            MemoryLimit(value)
    with pytest.raises(DataError, match="expected the name of a folder, got a int"):
        MemoryLimit(folder=3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="expected a MemoryLimit, got a int"):
        TableFile(Path("t.csv"), memory=5)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="expected no memory limit for a table of Spark"):
        pmw.DatabaseTable("spark:local[2]", "t", MemoryLimit(5))


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
            pmw.open_session(TableFile(table, memory=limit), DOMAIN, epsilon=1, path=tmp_path / "study.pmw")
        assert list(tmp_path.iterdir()) == []
    limit = MemoryLimit(10**8, gone)  # the table fits
    pmw.open_session(TableFile(table, memory=limit), DOMAIN, epsilon=1).close()


def full_after(writes: int) -> Callable[[int, memoryview, int], int]:
    """Return a ``pwrite`` that writes half of what it is given; the disk is full after so many calls."""
    write, calls = os.pwrite, itertools.count()

    def pwrite(descriptor: int, content: memoryview, offset: int) -> int:
        if next(calls) >= writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content[: len(content) // 2 + 1], offset)

    return pwrite


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("writes", [0, 1, 30])
def test_a_full_disk_is_one_error_and_costs_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persons: bool, writes: int
) -> None:
    domain = Domain(DOMAIN.attributes, "t", Person("id", 2, ids="integer") if persons else None)
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
    pmw.open_session(file, DOMAIN, epsilon=1, path=path).close()

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


def test_a_file_that_became_shorter_is_told(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path)
    stored = file.append(np.arange(9))
    os.ftruncate(file._descriptor, 20)
    with pytest.raises(DataError, match=r"could not be read back .it is shorter than it was.; "):
        stored.read()
