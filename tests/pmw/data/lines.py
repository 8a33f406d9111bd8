"""Lines of CSV files that try a reader, and what they hold by the standard library; databases in files."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path

import duckdb
import numpy as np
from hypothesis import strategies as st

from pmw.data import CountSource, CsvDialect, TableFile, as_source
from queries import (
    Attribute,
    CategoricalAttribute,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    TimeAttribute,
)

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 99, 10),
        CategoricalAttribute("sex", ("f", "m"), missing=True),
        NumericAttribute("income", (0.0, 10.0, 20.5, 100.0), other=True),
    )
)
STRICT = Domain(tuple(replace(one, missing=False, other=False) for one in DOMAIN))
LENIENT = Domain(tuple(replace(one, missing=True, other=True) for one in DOMAIN))  # a cell for every record
KEY = bytes(range(32))
# Attributes of one column that try every kind of cell; each has a cell for every value.
TRYING: list[Attribute] = [
    IntegerAttribute("x", -3, 12, 4, resolution=2, missing=True, other=True),
    NumericAttribute("x", (-1.5, 0, 0.1, 2.5, 7), resolution=0.1, missing=True, other=True),
    NumericAttribute(
        "x", (-3, 0, 3, 7), atoms=(0, 3, -3), integer=True, resolution=1, missing=True, other=True
    ),
    CategoricalAttribute("x", ("f", 3, True, "2020-01-02", "0.5", "\u0663"), missing=True, other=True),
    DateAttribute(
        "x", date(2019, 12, 30), date(2020, 12, 31), "month", "%Y%m%d", missing=True, other=True
    ),
    DatetimeAttribute(
        "x", datetime(2020, 1, 1), datetime(2020, 12, 31, 23, 59, 59), "week", "Europe/Berlin",
        missing=True, other=True,
    ),
    TimeAttribute("x", time(6), time(21, 59, 59), "30 minutes", missing=True, other=True),
]  # fmt: skip
HEADER = b"age,sex,income\n"

PIECES = [
    b'"', b'""', b"\r", b"\n", b"\r\n", b"\xff", b"\x00", b"\x1f", b"\x1e", b"'", b"\\", b"#", b"\xc3\xa9",
    b",", b" ", b"\t", b"\xed\xa0\x80", b"\x1c\x1d\x1e\x1f", b"\n\x1f\x1e\x1d\x1c\n", b"\xe2\x80\xa8", b"1",
]  # fmt: skip
_SEXES = st.sampled_from([b"f", b"m", b"", b"x", b"?", b'"f"', b'"f,m"'])
_AGES = st.sampled_from([b"7", b"0", b"99", b"-1", b"100", b"7.5", b"", b"old", b"1e1", b"?"])
_INCOMES = st.sampled_from([b"7", b"0", b"100", b"-0.1", b"100.5", b"", b"rich", b"nan", b"inf"])


@st.composite
def hostile_lines(draw: st.DrawFn) -> list[bytes]:
    """Draw lines; a piece in one may part it in two."""
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        line = b",".join([draw(_AGES), draw(_SEXES), draw(_INCOMES)])
        for piece in draw(st.lists(st.sampled_from(PIECES), max_size=2)):
            place = draw(st.integers(0, len(line)))
            line = line[:place] + piece + line[place:]
        lines.append(line)
    return b"\n".join(lines).split(b"\n")


def fields_of(lines: list[bytes], dialect: CsvDialect) -> tuple[list[list[str]], list[int]]:
    """Return the fields of every record, and the numbers of malformed lines in the file.

    Nothing after the last line feed is no line.
    """
    records, malformed = [], []
    for number, raw in enumerate(lines if lines[-1] else lines[:-1], start=2):
        line = raw.removesuffix(b"\r")
        try:
            if line.endswith(b"\r"):
                raise ValueError("the library would take it for a line end")
            (row,) = csv.reader([line.decode()], strict=True, skipinitialspace=dialect.trim)
            if len(row) != len(DOMAIN):
                raise ValueError("another number of fields")
        except (ValueError, csv.Error):
            malformed.append(number)
            continue
        fields = [field.strip(" \t") if dialect.trim else field for field in row]
        records.append(["" if field in dialect.missing_texts else field for field in fields])
    return records, malformed


def written(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    """Return the path of a file with this content."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(
    folder: Path, text: str | bytes, domain: Domain = DOMAIN, dialect: CsvDialect | None = None
) -> CountSource:
    """Return the source of a file with this content."""
    return as_source(TableFile(written(folder, text), dialect or CsvDialect()), domain, None)


def database(folder: Path, *statements: str) -> Path:
    """Return the path of a new DuckDB database, once it has run statements."""
    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def beside(kinds: Iterable[str], attributes: Sequence[Attribute] = TRYING) -> Domain:
    """Return a domain of each attribute over a column of each kind, both in its name."""
    pairs = itertools.product(kinds, enumerate(attributes))
    return Domain(tuple(replace(one, name=f"{kind} {place}") for kind, (place, one) in pairs))


def same_counts(one: CountSource, other: CountSource, scopes: Iterable[tuple[str, ...]]) -> None:
    """Demand the same counts of two sources, and sums of the values of a and b."""
    for scope in scopes:
        assert np.array_equal(one.counts(scope).counts, other.counts(scope).counts)
        for name, squared in itertools.product({"a", "b"} & set(scope), (False, True)):
            sums = [source.place_sums(scope, name, squared=squared).counts for source in (one, other)]
            assert np.array_equal(sums[0], sums[1])
