"""Parquet files: a column is read by its type, and no value decides whether it can be read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmw.data import DatabaseTable, MemorySource, as_source
from pmw.errors import DataError
from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, Person
from tests.pmw.data.lines import beside

DOMAIN = Domain((IntegerAttribute("age", 0, 99, 10), CategoricalAttribute("sex", ("f", "m"))))


X_TEXT = Domain((CategoricalAttribute("x", ("f", "m"), missing=True, other=True),))


@pytest.mark.usefixtures("same_engine")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("TIMETZ '12:30:00+00'", "TIME WITH TIME ZONE"),
        ("[1, NULL]", r"INTEGER\[\]"),
        ("[TIMESTAMP '2020-01-01']", r"TIMESTAMP\[\]"),
        ("[1, 2]::INTEGER[2]", r"INTEGER\[\]"),
        ("{'told': 'f'}", "STRUCT"),
        ("[{'told': 'f'}]", "STRUCT"),
        ("MAP {'f': 1}", "MAP"),
        ("union_value(told := 1)", "STRUCT"),
    ],
)
def test_a_type_that_is_nested_or_may_fail_is_refused_whatever_it_holds(
    tmp_path: Path, value: str, kind: str
) -> None:
    path = tmp_path / "t.parquet"
    for rows in (f"SELECT {value} AS x, 'f' AS y", f"SELECT {value} AS x, 'f' AS y LIMIT 0"):
        duckdb.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
        with pytest.raises(
            DataError, match=f"expected plain values in column 'x', got a .* type {kind}; write it as"
        ) as caught:
            as_source(path, X_TEXT, None)
        assert "told" not in str(caught.value)  # the name of a field may be a value elsewhere
    # A column that is not declared is not read.
    assert as_source(path, Domain((CategoricalAttribute("y", ("f",)),)), None).counts(()).total == 0


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_floating_number_has_one_text_in_every_source(tmp_path: Path, kind: str) -> None:
    numbers = [0.1, -0.0, 0.0, 1e16, 1e-7, 1e22, 3.0, 2**24 + 1, float("inf"), float("nan"), None]
    frame = pd.DataFrame({"x": pd.Series(numbers, dtype=kind)})
    texts = tuple({repr(float(number) + 0.0) for number in frame["x"].dropna()})
    domain = Domain((CategoricalAttribute("x", texts, missing=True, other=True),))
    duckdb.from_df(frame).write_parquet(str(tmp_path / "t.parquet"))
    expected = MemorySource.from_frame(frame, domain).counts(("x",)).counts.tolist()
    assert as_source(tmp_path / "t.parquet", domain, None).counts(("x",)).counts.tolist() == expected
    assert expected[-2:] == [2, 0]


def test_the_text_of_a_time_does_not_depend_on_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    duckdb.execute(f"COPY (SELECT TIMESTAMPTZ '2020-01-01 00:00:00+00' AS x) TO '{path}' (FORMAT parquet)")
    domain = Domain((CategoricalAttribute("x", ("2020-01-01 00:00:00+00",)),))
    for zone in ("UTC", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        assert as_source(path, domain, None).counts(()).total == 1


def test_the_name_of_a_folder_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "age=7"
    folder.mkdir()
    duckdb.execute(f"COPY (SELECT 'f' AS sex, 5.0 AS income) TO '{folder / 't.parquet'}' (FORMAT parquet)")
    with pytest.raises(DataError, match="expected one column 'age'"):
        as_source(folder / "t.parquet", DOMAIN, None)


# --- types that no writer makes, written byte by byte -------------------------------------------------------

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
WIDTHS = {INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8}

# --- the format: Thrift's compact protocol, one row group of one page, values side by side ------------------

Field: TypeAlias = tuple[int, bytes]  # a kind of Thrift, and the bytes


def varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def fields(**numbered: Field) -> bytes:
    """Write a structure: ``f3=…`` is its third field."""
    written, last = b"", 0
    for name, (kind, raw) in numbered.items():
        number = int(name[1:])
        near = number - last < 16
        written += (bytes([(number - last) << 4 | kind]) if near else bytes([kind]) + zigzag(number)) + raw
        last = number
    return written + b"\0"


def whole(number: int) -> Field:
    return 5, zigzag(number)


def long(number: int) -> Field:
    return 6, zigzag(number)


def small(number: int) -> Field:
    return 3, bytes([number])


def truth(value: bool) -> Field:
    return (1 if value else 2), b""


def text(value: bytes) -> Field:
    return 8, varint(len(value)) + value


def inner(**numbered: Field) -> Field:
    return 12, fields(**numbered)


def several(kind: int, items: list[bytes]) -> Field:
    size = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + varint(len(items))
    return 9, size + b"".join(items)


@dataclass(frozen=True)
class Column:
    """A type of columns: how it is stored, what it is declared to mean, and values that try it."""

    kind: int
    values: list[bytes]
    converted: int | None = None  # the old way to say what it means
    logical: Field | None = None  # the new one
    length: int | None = None
    digits: tuple[int, int] | None = None  # of decimals: all, and those after the point

    def write(self, path: Path, values: list[bytes]) -> Path:
        """Write a file with one column x of these values."""
        return write(path, {"x": (self, values)})

    def chunk(self, name: str, values: list[bytes], start: int) -> tuple[bytes, bytes]:
        """Return the page of a column that begins at a place, and what the footer says of it."""
        stored = [
            struct.pack("<I", len(value)) + value if self.kind == BYTE_ARRAY else value for value in values
        ]
        data = b"".join(stored)
        head = fields(
            f1=whole(0), f2=whole(len(data)), f3=whole(len(data)),
            f5=inner(f1=whole(len(values)), f2=whole(0), f3=whole(3), f4=whole(3)),
        )  # fmt: skip
        page = head + data
        facts = inner(
            f1=whole(self.kind), f2=several(5, [zigzag(0)]), f3=several(8, [text(name.encode())[1]]),
            f4=whole(0), f5=long(len(values)), f6=long(len(page)), f7=long(len(page)), f9=long(start),
        )  # fmt: skip
        return page, fields(f2=long(start), f3=facts)

    def leaf(self, name: str) -> bytes:
        """Return what the schema says of a column."""
        leaf = {"f1": whole(self.kind)}
        leaf |= {} if self.length is None else {"f2": whole(self.length)}
        leaf |= {"f3": whole(0), "f4": text(name.encode())}
        leaf |= {} if self.converted is None else {"f6": whole(self.converted)}
        leaf |= {} if self.digits is None else {"f7": whole(self.digits[1]), "f8": whole(self.digits[0])}
        leaf |= {} if self.logical is None else {"f10": self.logical}
        return fields(**leaf)


def write(path: Path, columns: dict[str, tuple[Column, list[bytes]]]) -> Path:
    """Write a file with columns of as many values each."""
    pages, chunks = b"PAR1", []
    for name, (column, values) in columns.items():
        page, chunk = column.chunk(name, values, len(pages))
        pages += page
        chunks.append(chunk)
    records = long(len(values))
    group = fields(f1=several(12, chunks), f2=long(len(pages)), f3=records)
    leaves = [column.leaf(name) for name, (column, _) in columns.items()]
    root = fields(f4=text(b"root"), f5=whole(len(leaves)))
    footer = fields(f1=whole(1), f2=several(12, [root, *leaves]), f3=records, f4=several(12, [group]))
    path.write_bytes(pages + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


# --- the types ----------------------------------------------------------------------------------------------


def ints(width: int, *numbers: int) -> list[bytes]:
    return [number.to_bytes(width, "little", signed=number < 0) for number in numbers]


SMALL = ints(4, 0, 3, 300, 70_000, -1, -129, 2**31 - 1, -(2**31))
LARGE = ints(8, 0, 3, 300, 2**40, -1, 2**63 - 1, 1 - 2**63, -(2**63), 10**16, -(10**16))
BITS = {
    2: ints(2, 0, 0x7C00, 0x7C01, 0xFC01, 1, 0xFFFF),  # infinite, signalling NaN, subnormal
    4: ints(4, 0, 0x7F800000, 0x7F800001, 0xFF800001, 1, 2**32 - 1),
    8: ints(8, 0, 0x7FF << 52, (0x7FF << 52) + 1, (0xFFF << 52) + 1, 1, 2**64 - 1),
}
TEXTS = [b"3", b"", b"\xff\xfe", b"\0", b"f", b"\xed\xa0\x80", b"9" * 5000, b"1e999", b"0x10", b"1_000"]
JULIAN = [b"\0" * 12, b"\xff" * 12, b"\xff" * 7 + b"\x7f" + b"\xff" * 3 + b"\x7f", b"\0" * 11 + b"\x80"]


def bounds(width: int) -> list[bytes]:
    return [b"\0" * width, b"\x7f" + b"\xff" * (width - 1), b"\x80" + b"\0" * (width - 1), b"\xff" * width]


def meaning(number: int, **parts: Field) -> Field:
    return inner(**{f"f{number}": inner(**parts)})


def times(unit: int, utc: bool) -> Field:
    return meaning(8, f1=truth(utc), f2=inner(**{f"f{unit}": inner()}))


READ: dict[str, Column] = {
    "numbers of 32 bits": Column(INT32, SMALL),
    "numbers of 64 bits": Column(INT64, LARGE),
    **{f"signed {8 << i} bits": Column(INT32, SMALL, converted=15 + i) for i in range(3)},
    **{f"unsigned {8 << i} bits": Column(INT32, SMALL, converted=11 + i) for i in range(3)},
    "signed 64 bits": Column(INT64, LARGE, converted=18),
    "unsigned 64 bits": Column(INT64, LARGE, converted=14),
    "signed 8 bits, said again": Column(INT32, SMALL, logical=meaning(10, f1=small(8), f2=truth(True))),
    "dates": Column(INT32, SMALL, converted=6),
    "times in microseconds": Column(INT64, LARGE, converted=10),
    "times in microseconds, said again": Column(INT64, LARGE, logical=times(2, False)),
    "times in microseconds with a zone": Column(INT64, LARGE, logical=times(2, True)),
    "times in nanoseconds": Column(INT64, LARGE, logical=times(3, False)),
    "floats": Column(FLOAT, BITS[4]),
    "doubles": Column(DOUBLE, BITS[8]),
    "halves": Column(FIXED, BITS[2], logical=meaning(15), length=2),
    "bytes": Column(BYTE_ARRAY, TEXTS),
    "bytes of one length": Column(FIXED, bounds(5), length=5),
    "texts": Column(BYTE_ARRAY, TEXTS, converted=0),
    "texts of one length": Column(FIXED, bounds(5), converted=0, length=5),
    "a list of values": Column(BYTE_ARRAY, TEXTS, converted=4),
    "UUIDs": Column(FIXED, bounds(16), logical=meaning(14), length=16),
    "intervals": Column(FIXED, bounds(12), converted=21, length=12),
    "nothing": Column(INT32, SMALL, logical=meaning(11)),
    "decimals (4, 0) of 32 bits": Column(INT32, SMALL, 5, digits=(4, 0)),
    "decimals (4, 4) of 32 bits": Column(INT32, SMALL, 5, digits=(4, 4)),
    "decimals (18, 2) of 64 bits": Column(INT64, LARGE, 5, digits=(18, 2)),
    "decimals (4, 0) of 2 bytes": Column(FIXED, bounds(2), 5, length=2, digits=(4, 0)),
    "decimals (9, 9) of 4 bytes": Column(FIXED, bounds(4), 5, length=4, digits=(9, 9)),
    "decimals (38, 0) of 16 bytes": Column(FIXED, bounds(16), 5, length=16, digits=(38, 0)),
    "decimals (38, 38) of 16 bytes": Column(FIXED, bounds(16), 5, length=16, digits=(38, 38)),
    "decimals (39, 0) of 17 bytes": Column(FIXED, bounds(17), 5, length=17, digits=(39, 0)),
    "decimals (76, 3) of any length": Column(BYTE_ARRAY, [b"\1", b"", *bounds(40)], 5, digits=(76, 3)),
}
REFUSED: dict[str, tuple[Column, str]] = {
    "times in milliseconds": (Column(INT64, LARGE, converted=9), "TIMESTAMP in milliseconds"),
    "times in milliseconds, said again": (
        Column(INT64, LARGE, logical=times(1, False)), "TIMESTAMP in milliseconds"
    ),
    "times in milliseconds with a zone": (
        Column(INT64, LARGE, logical=times(1, True)), "TIMESTAMP WITH TIME ZONE in milliseconds"
    ),
    "times of 96 bits": (Column(INT96, JULIAN), "TIMESTAMP in 96 bits"),
    "times in nanoseconds with a zone": (Column(INT64, LARGE, logical=times(3, True)), "TIMESTAMPTZ_NS"),
    "times of day": (Column(INT32, SMALL, converted=7), "TIME"),
    "JSON": (Column(BYTE_ARRAY, TEXTS, converted=19), "JSON"),
    "shapes": (Column(BYTE_ARRAY, TEXTS, logical=meaning(17)), "GEOMETRY"),
    "decimals (4, 0) of 4 bytes": (
        Column(FIXED, bounds(4), 5, length=4, digits=(4, 0)),
        r"DECIMAL\(4,0\), stored as FIXED_LEN_BYTE_ARRAY of 4 bytes",
    ),
    "decimals (38, 0) of 17 bytes": (
        Column(FIXED, bounds(17), 5, length=17, digits=(38, 0)),
        r"DECIMAL\(38,0\), stored as FIXED_LEN_BYTE_ARRAY of 17 bytes",
    ),
    "decimals (38, 5) of any length": (
        Column(BYTE_ARRAY, [b"\1", b"", *bounds(40)], 5, digits=(38, 5)),
        r"DECIMAL\(38,5\), stored as BYTE_ARRAY",
    ),
    "decimals (39, 0) of 32 bits": (Column(INT32, SMALL, 5, digits=(39, 0)), "DOUBLE, stored as INT32"),
}  # fmt: skip
ATTRIBUTES: list[Attribute] = [
    IntegerAttribute("x", 0, 9, missing=True, other=True),
    NumericAttribute("x", (0, 5, 10), missing=True, other=True),
    CategoricalAttribute("x", ("f", 3), missing=True, other=True),
]
# Every attribute over every type that is read, in one file.
BESIDE = beside(READ, ATTRIBUTES)
MOST = max(len(column.values) for column in READ.values())


def counts(path: Path, values: dict[str, list[bytes]]) -> list[list[int]]:
    """Return the counts of each attribute of a file with these values of each type."""
    columns = {name: name.rpartition(" ")[0] for name in BESIDE.names}
    write(path, {name: (READ[kind], values[kind]) for name, kind in columns.items()})
    source = as_source(path, BESIDE, None)
    return [source.counts((name,)).counts.tolist() for name in BESIDE.names]


@pytest.mark.usefixtures("same_engine")
def test_a_type_that_is_read_is_read_whatever_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    values = {name: [*islice(cycle(column.values), MOST)] for name, column in READ.items()}
    rows = [{name: known[place::4] for name, known in values.items()} for place in range(4)]
    some_by_some = [counts(path, row) for row in rows]
    assert counts(path, {name: [] for name in READ}) == [[0] * attribute.size for attribute in BESIDE]
    for attribute, together, *each in zip(BESIDE, counts(path, values), *some_by_some, strict=True):
        assert together == [sum(cells) for cells in zip(*each, strict=True)], attribute.name
        assert sum(together) == MOST, attribute.name


@pytest.mark.usefixtures("same_engine")
@pytest.mark.parametrize("name", REFUSED)
def test_a_type_that_is_refused_is_refused_whatever_it_holds(tmp_path: Path, name: str) -> None:
    (column, told), path = REFUSED[name], tmp_path / "t.parquet"
    for values in ([], *([value] for value in column.values), column.values):
        with pytest.raises(
            DataError, match=rf"expected plain values in column 'x', got a column of type {told}; write it as"
        ):
            as_source(column.write(path, values), Domain((ATTRIBUTES[0],)), None)


@pytest.mark.usefixtures("same_engine")
@given(data=st.data())
@settings(max_examples=settings().max_examples // 4)  # each of records of every type
def test_a_type_that_is_read_is_read_with_any_bytes(tmp_path: Path, data: st.DataObject) -> None:
    records, values = data.draw(st.integers(0, 8)), {}
    for name, column in READ.items():
        width = column.length or WIDTHS.get(column.kind)
        one = st.binary(max_size=60) if width is None else st.binary(min_size=width, max_size=width)
        values[name] = data.draw(st.lists(one, min_size=records, max_size=records))
    for attribute, cells in zip(BESIDE, counts(tmp_path / "t.parquet", values), strict=True):
        assert sum(cells) == records, attribute.name


@pytest.mark.parametrize("name", ["times in microseconds", "times in microseconds with a zone"])
def test_a_time_before_all_that_have_a_text_is_undeclared_and_not_empty(tmp_path: Path, name: str) -> None:
    earliest = ints(8, -(2**63), 2 - 2**63, -(2**62) * 3 // 2)
    path = READ[name].write(tmp_path / "t.parquet", earliest)
    for attribute in ATTRIBUTES:
        found = as_source(path, Domain((attribute,)), None).counts(("x",)).counts
        assert found[attribute.other_code] == len(earliest), attribute


TOO_WIDE = {
    "decimals (9, 2) of 32 bits": (Column(INT32, [], 5, digits=(9, 2)), ints(4, 10**9, -(10**9))),
    "decimals (18, 2) of 64 bits": (Column(INT64, [], 5, digits=(18, 2)), ints(8, 10**18, 2**63 - 1)),
    "decimals (38, 0) of 16 bytes": (
        Column(FIXED, [], 5, length=16, digits=(38, 0)),
        [number.to_bytes(16, "big", signed=True) for number in (10**38, -(10**38), 2**127 - 1)],
    ),
}  # fmt: skip


def wide_tables(folder: Path, name: str) -> Iterator[tuple[str, Any, int]]:
    """Yield tables of decimals x and id with more digits than are declared, and the number of records."""
    column, values = TOO_WIDE[name]
    path = column.write(folder / "x.parquet", values)
    with duckdb.connect(str(folder / "t.duckdb")) as engine:
        engine.execute(f"CREATE TABLE t AS SELECT x, x AS id, 'x' AS w FROM '{path}'")
        engine.execute(f"COPY t TO '{folder / 't.parquet'}' (FORMAT parquet)")
        yield "relation", engine.table("t"), len(values)
        if find_spec("pyarrow"):
            yield "pyarrow", engine.table("t").to_arrow_table(), len(values)
    yield "written byte by byte", path, len(values)
    yield "parquet", folder / "t.parquet", len(values)
    yield "duckdb", DatabaseTable(f"duckdb:{folder / 't.duckdb'}", "t"), len(values)


@pytest.mark.parametrize("name", TOO_WIDE)
def test_a_decimal_too_wide_for_its_type_is_undeclared_and_not_empty(tmp_path: Path, name: str) -> None:
    for source, table, number in wide_tables(tmp_path, name):
        found = as_source(table, Domain((ATTRIBUTES[2],)), None).counts(("x",)).counts
        assert found.tolist() == [0, 0, 0, number], source


@pytest.mark.parametrize("name", TOO_WIDE)
def test_decimals_too_wide_for_their_type_are_no_ids(tmp_path: Path, name: str) -> None:
    attribute = CategoricalAttribute("w", ("x",))
    domain = Domain((attribute,), person=Person("id", 1, empty="person"))
    for source, table, _ in wide_tables(tmp_path, name):
        if source != "written byte by byte":
            with pytest.raises(DataError, match="in the column 'id' of ids, got a column of type DECIMAL"):
                as_source(table, domain, bytes(32))
