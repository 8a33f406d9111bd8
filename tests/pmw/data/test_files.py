"""Files: records are read one by one, whatever the others hold, and errors tell nothing about them."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pmw.data import CsvDialect, MemorySource, read_file
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.records import encode_value

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 99, 10),
        CategoricalAttribute("sex", ("f", "m"), missing=True),
        NumericAttribute("income", (0.0, 10.0, 20.5, 100.0), other=True),
    )
)
CELLS = DOMAIN.names


def write(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def histogram(source: MemorySource) -> np.ndarray:
    return source.counts(CELLS).counts


def test_columns_are_found_by_name_and_others_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, "income,note,sex,age\n5,hello,f,30\n15,you,m,95\n")
    source = read_file(path, DOMAIN)
    assert source.counts(("age",)).counts.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert source.counts(("sex",)).counts.tolist() == [1, 1, 0]


def test_malformed_and_undeclared_values_drop_their_record_or_go_to_other(tmp_path: Path) -> None:
    rows = [
        "30,f,5",
        "30,x,5",
        "abc,f,5",
        "30,,5",
        "30,f,",
        "30,f,rich",
        "-4,f,5",
        "1e9,f,5",
        ",f,5",
        "30.5,f,5",
    ]
    source = read_file(write(tmp_path, "age,sex,income\n" + "\n".join(rows)), DOMAIN)
    # kept: the first, the empty sex, the rich one, and the two clipped ages
    assert source.counts(()).total == 5
    assert source.counts(("sex",)).counts.tolist() == [4, 0, 1]
    assert source.counts(("income",)).counts.tolist() == [4, 0, 0, 1]
    assert source.counts(("age",)).counts.tolist() == [1, 0, 0, 3, 0, 0, 0, 0, 0, 1]


def test_quoted_fields_hold_delimiters_and_doubled_quotes(tmp_path: Path) -> None:
    domain = Domain((CategoricalAttribute("word", ('a,"b"', "plain")),))
    source = read_file(write(tmp_path, 'id,word\n1,"a,""b"""\n2,plain\n3,"plain"\n'), domain)
    assert source.counts(("word",)).counts.tolist() == [1, 2]


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path, ending: str) -> None:
    separator = ending or "\n"
    text = separator.join(["age,sex,income", "30,f,5", "41,m,15"]) + ending
    for raw in (text.encode(), b"\xef\xbb\xbf" + text.encode()):
        assert read_file(write(tmp_path, raw), DOMAIN).counts(()).total == 2


def test_the_dialect_is_declared(tmp_path: Path) -> None:
    path = write(tmp_path, "age;sex;income\n 30 ; f ;NA\n41;'m';15\n?;m;5\n")
    dialect = CsvDialect(";", "'", ("NA", "?"), trim=True)
    source = read_file(path, DOMAIN, dialect)
    assert source.counts(()).total == 1  # an empty age or income drops its record
    domain = Domain((CategoricalAttribute("sex", ("f", "m")), IntegerAttribute("age", 0, 99, missing=True)))
    assert read_file(path, domain, dialect).counts(("age",)).counts[-1] == 1


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"age,sex,income\n30,f,5\n"))
    assert read_file(path, DOMAIN).counts(()).total == 1


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    assert read_file(write(tmp_path, "age,sex,income\n"), DOMAIN).counts(()).total == 0
    assert read_file(write(tmp_path, "age,sex,income"), DOMAIN).counts(()).total == 0


HOSTILE = [
    b'"',
    b'""',
    b"\r",
    b"\xff",
    b"\x00",
    b"\x1f",
    b"\x1e",
    b"'",
    b"\\",
    b"#",
    b"\xc3\xa9",
    b",",
    b" ",
    b"\t",
]


@st.composite
def hostile_lines(draw: st.DrawFn) -> list[bytes]:
    lines = []
    for number in range(draw(st.integers(1, 12))):
        line = b"%d,%s,%d" % (
            number * 7 % 100,
            draw(st.sampled_from([b"f", b"m", b"", b"x"])),
            number * 9 % 120,
        )
        for piece in draw(st.lists(st.sampled_from(HOSTILE), max_size=2)):
            place = draw(st.integers(0, len(line)))
            line = line[:place] + piece + line[place:]
        lines.append(line)
    return lines


def reference(lines: list[bytes]) -> np.ndarray:
    """Read every line by itself with the standard library, value by value."""
    counts = np.zeros(DOMAIN.shape, dtype=np.int64)
    for line in b"\n".join(lines).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        try:
            (row,) = csv.reader(io.StringIO(line.decode(), newline=""), strict=True)
        except (UnicodeDecodeError, csv.Error, ValueError):
            continue
        if len(row) != 3:
            continue
        codes = [encode_value(attribute, value) for attribute, value in zip(DOMAIN, row, strict=True)]
        if min(codes) >= 0:
            counts[tuple(codes)] += 1
    return counts


@given(hostile_lines())
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_line_is_read_by_itself(tmp_path: Path, lines: list[bytes]) -> None:
    source = read_file(write(tmp_path, b"age,sex,income\n" + b"\n".join(lines)), DOMAIN)
    assert np.array_equal(histogram(source), reference(lines))


@given(hostile_lines(), st.data())
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_changes_what_another_line_counts(
    tmp_path: Path, lines: list[bytes], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(lines) - 1))
    whole = histogram(read_file(write(tmp_path, b"age,sex,income\n" + b"\n".join(lines)), DOMAIN))
    others = lines[:place] + lines[place + 1 :]
    without = histogram(read_file(write(tmp_path, b"age,sex,income\n" + b"\n".join(others)), DOMAIN))
    pieces = len(lines[place].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    assert np.all(whole >= without)
    assert (whole - without).sum() <= pieces  # one record, unless the line itself holds line ends


def test_a_very_long_line_is_dropped_alone(tmp_path: Path) -> None:
    text = b"age,sex,income\n30,f,5\n" + b"9" * 3_000_000 + b",f,5\n41,m,15\n"
    assert read_file(write(tmp_path, text), DOMAIN).counts(()).total == 2


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [2**20 - 2, 2**20 - 1, 2**20])
def test_whether_a_line_is_too_long_does_not_depend_on_how_others_end(
    tmp_path: Path, end: bytes, length: int
) -> None:
    long = b"5,f," + b"0" * (length - 5) + b"7" + end
    for others in (b"1,f,1\n", b"1,f,1\r\n"):
        for text in (others + long, long + others, others + long + others):
            path = write(tmp_path, b"age,sex,income\n" + text)
            domain = Domain((CategoricalAttribute("sex", ("f", "m")),))
            kept = read_file(path, domain).counts(()).total
            assert kept == text.count(others) + (length < 2**20)


def test_a_large_file_with_bad_lines_in_every_block_keeps_all_good_ones(tmp_path: Path) -> None:
    good, bad = b"30,f,5\n" * 999, b'30,"f,5\n'
    path = write(tmp_path, b"age,sex,income\n" + (good + bad) * 300)
    assert read_file(path, DOMAIN).counts(()).total == 999 * 300


FRAME = pd.DataFrame(
    {
        "age": [30, 41, 200, -5, 77],
        "sex": ["f", "m", None, "f", "x"],
        "income": [5.0, float("nan"), 20.5, 1e9, float("inf")],
    }
)


def test_a_table_counts_the_same_in_memory_as_csv_and_as_parquet(tmp_path: Path) -> None:
    memory = MemorySource.from_frame(FRAME, DOMAIN)
    csv_path, parquet_path = tmp_path / "t.csv", tmp_path / "t.parquet"
    FRAME.to_csv(csv_path, index=False)
    connection = duckdb.connect()
    connection.register("frame", FRAME)
    connection.execute(f"COPY frame TO '{parquet_path}' (FORMAT parquet)")
    connection.close()
    expected = histogram(memory)
    assert np.array_equal(histogram(read_file(parquet_path, DOMAIN)), expected)
    assert np.array_equal(histogram(read_file(csv_path, DOMAIN)), expected)
    assert memory.fingerprint(b"k") == read_file(csv_path, DOMAIN).fingerprint(b"k")
    assert memory.fingerprint(b"k") == read_file(parquet_path, DOMAIN).fingerprint(b"k")


def test_parquet_types_are_matched_by_value(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    connection = duckdb.connect()
    connection.execute(
        """CREATE TABLE t AS SELECT * FROM (VALUES
            (1::BIGINT, true, 3::TINYINT, 2.00::DECIMAL(9,2), DATE '2020-01-02'),
            (NULL, false, 4, 7.50, DATE '2021-01-01'),
            (9007199254740993, NULL, NULL, NULL, NULL)) AS t(big, flag, small, money, day)"""
    )
    connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    connection.close()
    domain = Domain(
        (
            IntegerAttribute("big", 0, 2**53 - 1, 2**50, missing=True),
            CategoricalAttribute("flag", (True, False), missing=True),
            CategoricalAttribute("small", (3, "4"), missing=True),
            NumericAttribute("money", (0, 5, 10), missing=True),
            CategoricalAttribute("day", ("2020-01-02",), missing=True, other=True),
        )
    )
    source = read_file(path, domain)
    assert source.counts(()).total == 3
    assert source.counts(("flag",)).counts.tolist() == [1, 1, 1]
    assert source.counts(("small",)).counts.tolist() == [1, 1, 1]
    assert source.counts(("money",)).counts.tolist() == [1, 1, 1]
    assert source.counts(("day",)).counts.tolist() == [1, 1, 1]
    assert source.counts(("big",)).counts[[0, -2, -1]].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected column names in the first line, got none"),
        (b"\xff\xfe\x00", "expected UTF-8 text in the first line"),
        (b"Alice,30,rich\n", "expected one column 'age' in the first line, got no such column"),
        (b"age,age,sex,income\n", "expected one column 'age' in the first line, got it twice"),
        (b'"age,sex,income\n', "expected column names in the first line, got none"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_without_quoting_it(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_file(write(tmp_path, content), DOMAIN)
    assert "Alice" not in str(caught.value)


def test_a_broken_parquet_file_is_refused_in_our_words(tmp_path: Path) -> None:
    path = write(tmp_path, b"PAR1 secret record", "t.parquet")
    with pytest.raises(DataError, match="could not be read as Parquet") as caught:
        read_file(path, DOMAIN)
    assert "secret" not in str(caught.value)


def test_a_parquet_file_without_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    connection = duckdb.connect()
    connection.execute(f"COPY (SELECT 1 AS age) TO '{path}' (FORMAT parquet)")
    connection.close()
    with pytest.raises(DataError, match="expected one column 'sex'"):
        read_file(path, DOMAIN)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_file(tmp_path / "absent.csv", DOMAIN)
    with pytest.raises(DataError, match="no such file"):
        read_file(tmp_path, DOMAIN)
    odd = write(tmp_path, b"age,sex,income\n", "a[1].csv")
    with pytest.raises(DataError, match=r"without \*, \? and \["):
        read_file(odd, DOMAIN)


@pytest.mark.parametrize(
    "dialect", [{"delimiter": ""}, {"delimiter": ",,"}, {"quote": "\n"}, {"delimiter": '"'}]
)
def test_an_impossible_dialect_is_refused(dialect: dict[str, str]) -> None:
    with pytest.raises(DataError, match="expected"):
        CsvDialect(**dialect)  # type: ignore[arg-type]  # only texts are given
