"""Files: records are read one by one, whatever the others hold, and errors tell nothing about them."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.data import CsvDialect, MemorySource, read_file
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.values import values_of

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


def reference(lines: list[bytes], domain: Domain) -> np.ndarray:
    """Read every line by itself with the standard library, value by value."""
    counts = np.zeros(domain.shape, dtype=np.int64)
    for raw in b"\n".join(lines).split(b"\n"):
        line = raw.removesuffix(b"\r")
        try:
            if line.endswith(b"\r"):
                raise ValueError("the library would take it for a line end")
            (row,) = csv.reader(io.StringIO(line.decode(), newline=""), strict=True)
            codes = [values_of(attribute).encode(value) for attribute, value in zip(domain, row, strict=True)]
        except (UnicodeDecodeError, csv.Error, ValueError):
            codes = [-1 if attribute.other_code is None else attribute.other_code for attribute in domain]
        if min(codes) >= 0:
            counts[tuple(codes)] += 1
    return counts


# A domain that has a cell for every record.
LENIENT = Domain(tuple(replace(attribute, missing=True, other=True) for attribute in DOMAIN))
DOMAINS = st.sampled_from([DOMAIN, LENIENT])


@given(hostile_lines(), DOMAINS)
def test_every_line_is_read_by_itself(tmp_path: Path, lines: list[bytes], domain: Domain) -> None:
    source = read_file(write(tmp_path, b"age,sex,income\n" + b"\n".join(lines)), domain)
    assert np.array_equal(histogram(source), reference(lines, domain))


@given(hostile_lines(), DOMAINS, st.data())
def test_no_line_changes_what_another_line_counts(
    tmp_path: Path, lines: list[bytes], domain: Domain, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(lines) - 1))
    whole = histogram(read_file(write(tmp_path, b"age,sex,income\n" + b"\n".join(lines)), domain))
    others = lines[:place] + lines[place + 1 :]
    without = histogram(read_file(write(tmp_path, b"age,sex,income\n" + b"\n".join(others)), domain))
    assert np.all(whole >= without)
    assert (whole - without).sum() <= 1


BYTES = st.binary(max_size=30) | st.lists(st.sampled_from([*HOSTILE, b"30", b"f"]), max_size=9).map(b"".join)


@given(hostile_lines(), BYTES.filter(lambda line: b"\n" not in line), st.data())
def test_where_no_record_is_dropped_the_number_of_lines_is_the_number_of_records(
    tmp_path: Path, lines: list[bytes], line: bytes, data: st.DataObject
) -> None:
    # As replace-one needs it: whatever a record is replaced by, their number stays.
    place = data.draw(st.integers(0, len(lines) - 1))
    replaced = [*lines[:place], line, *lines[place + 1 :]]
    for table in (lines, replaced):
        path = write(tmp_path, b"age,sex,income\n" + b"\n".join(table) + b"\n")
        assert read_file(path, LENIENT).counts(()).total == len(lines)


@pytest.mark.parametrize(
    "line",
    [
        b"30,f", b"30,f,5,6", b'30,"f,5', b"30,\xff,5", b"9" * 3_000_000 + b",f,5", b"\x00", b"   ",
        b"30,f\r41,m", b"30,f,5\r41,m,15", b"30,f,5\r\r", b'"30","f","5"\r\r', b"", b"\r",
        b'30,"' + b"f" * 200_000 + b'",5',
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_counts_as_undeclared_where_nothing_is_dropped(
    tmp_path: Path, line: bytes
) -> None:
    path = write(tmp_path, b"age,sex,income\n30,f,5\n" + line + b"\n41,m,15\n")
    lenient, strict = read_file(path, LENIENT), read_file(path, DOMAIN)
    assert lenient.counts(()).total == 3
    assert strict.counts(()).total == 2
    assert lenient.counts(("sex",)).counts.tolist() == [1, 1, 0, 1]


def test_a_long_quoted_field_is_read_like_any_other(tmp_path: Path) -> None:
    long = "f" * 1_000_000
    domain = Domain((CategoricalAttribute("sex", ("f", long)),))
    path = write(tmp_path, f'sex,note\nf,x\n"{long}",x\n')
    assert read_file(path, domain).counts(("sex",)).counts.tolist() == [1, 1]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("ended", [True, False])  # the last line by a line feed
def test_an_empty_line_is_an_empty_value_of_a_column_alone(tmp_path: Path, end: str, ended: bool) -> None:
    alone = Domain((CategoricalAttribute("age", ("1", "2"), missing=True),))
    for values in (["1", "", "2"], ["", "1"], ["1", "", ""], [""], []):
        expected = MemorySource.from_frame(pd.DataFrame({"age": values}, dtype=object), alone)
        needed = values[-1:] == [""]
        path = write(tmp_path, end.join(["age", *values]) + (end if ended or needed else ""))
        assert histogram_of(read_file(path, alone)) == histogram_of(expected)


def histogram_of(source: MemorySource) -> list[int]:
    return [int(count) for count in source.counts(source.domain.names).counts]


def test_an_empty_line_of_several_columns_is_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "age,sex,income\n\n30,f,5\n\n\n")
    assert read_file(path, LENIENT).counts(("sex",)).counts.tolist() == [1, 0, 0, 3]
    assert read_file(path, DOMAIN).counts(()).total == 1


def test_a_first_line_that_is_too_long_is_refused(tmp_path: Path) -> None:
    long = b"age,sex,income," + b"n" * 2**20
    with pytest.raises(DataError, match="expected a first line shorter than a megabyte, got a longer one"):
        read_file(write(tmp_path, long + b"\n30,f,5,x\n"), DOMAIN)
    names = long[: 2**20 - 1]
    assert read_file(write(tmp_path, names + b"\n30,f,5,x\n"), DOMAIN).counts(()).total == 1


@pytest.mark.parametrize("share", [0, 50, 100])
@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_a_table_opens_whatever_part_of_it_is_dropped(tmp_path: Path, share: int, kind: str) -> None:
    frame = pd.DataFrame({"age": ["30"] * (100 - share) + ["old"] * share, "sex": "f", "income": 5.0})
    if kind == "frame":
        source = MemorySource.from_frame(frame, DOMAIN)
    else:
        path = tmp_path / f"t.{kind}"
        duckdb.from_df(frame).write_parquet(str(path)) if kind == "parquet" else frame.to_csv(
            path, index=False
        )
        source = read_file(path, DOMAIN)
    assert source.counts(()).total == 100 - share


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


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_file(tmp_path / "absent.csv", DOMAIN)
    with pytest.raises(DataError, match="none is in it"):
        read_file(tmp_path, DOMAIN)
    odd = write(tmp_path, b"age,sex,income\n", "a[1].csv")
    with pytest.raises(DataError, match=r"without \*, \? and \["):
        read_file(odd, DOMAIN)


@pytest.mark.parametrize(
    "dialect",
    [
        {"delimiter": ""},
        {"delimiter": ",,"},
        {"quote": "\n"},
        {"delimiter": '"'},
        {"escape": ","},
        {"escape": '"'},
        {"escape": "é"},
        {"decimal": ";"},
        {"encoding": "utf-16"},  # bytes of one character are those of others
        {"encoding": "shift_jis"},
        {"encoding": "cp037"},  # a line feed is another byte
        {"encoding": "rot13"},
        {"encoding": "no such"},
        {"encoding": "idna"},
    ],
)
def test_an_impossible_dialect_is_refused(dialect: dict[str, str]) -> None:
    with pytest.raises(DataError, match="expected"):
        CsvDialect(**dialect)  # type: ignore[arg-type]  # only texts are given


WORDS = Domain((CategoricalAttribute("word", ("é", "a|b", 'a"b', "Ã©", "€")),))


@pytest.mark.parametrize(
    ("encoding", "cells"),
    [("utf-8", [1, 0, 0, 0, 0]), ("latin-1", [1, 0, 0, 1, 0]), ("cp1252", [1, 0, 0, 1, 1])],
)
def test_bytes_that_are_no_text_in_the_encoding_drop_their_own_line(
    tmp_path: Path, encoding: str, cells: list[int]
) -> None:
    # The same letter in UTF-8 and in Latin-1, then one of cp1252 alone, and one of none of them.
    path = write(tmp_path, b"word\n\xc3\xa9\n\xe9\n\x80\n\x81\n")
    read = read_file(path, WORDS, CsvDialect(encoding=encoding)).counts(("word",)).counts.tolist()
    assert read == cells


def test_a_first_line_in_another_encoding_names_the_option(tmp_path: Path) -> None:
    path = write(tmp_path, "âge,sex,income\n30,f,5\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"expected UTF-8 text in the first line.*--encoding cp1252"):
        read_file(path, DOMAIN)
    path = write(tmp_path, "word\u00e9\né\n".encode("latin-1"))
    domain = Domain((CategoricalAttribute("wordé", ("é",)),))
    assert read_file(path, domain, CsvDialect(encoding="iso-8859-15")).counts(()).total == 1


def test_encodings_have_one_name() -> None:
    assert CsvDialect(encoding="UTF8") == CsvDialect() == CsvDialect(encoding="utf-8-sig")
    assert CsvDialect(encoding="Latin1") == CsvDialect(encoding="ISO-8859-1")


def test_a_decimal_comma_is_read_in_columns_of_numbers_alone(tmp_path: Path) -> None:
    domain = Domain(
        (
            NumericAttribute("income", (0, 1.4, 1.6, 100), missing=True, other=True),
            IntegerAttribute("age", 0, 2, other=True),
            CategoricalAttribute("word", ("1,5", "1.5")),
        )
    )
    lines = ["1,5;1;1,5", "1.5;1;1.5", "1,5e1;1,0;1,5", ";1;1,5", "1.000,5;1.0;1,5", "NA;2;1,5", "-,5;2;1,5"]
    path = write(tmp_path, "income;age;word\n" + "\n".join(lines) + "\n")
    source = read_file(path, domain, CsvDialect(";", decimal=",", missing_texts=("NA",)))
    # 1,5 and 15 and -0.5; two that are no numbers; two that are empty
    assert source.counts(("income",)).counts.tolist() == [1, 1, 1, 2, 2]
    assert source.counts(("age",)).counts.tolist() == [0, 4, 2, 1]
    assert source.counts(("word",)).counts.tolist() == [6, 1]


def test_quoting_can_be_by_an_escape_or_not_at_all(tmp_path: Path) -> None:
    path = write(tmp_path, 'word,n\na\\"b,1\n"a|b",2\n"a\\"b",3\na\\|b,4\na|b\\,5\né,6\\\né,\\,\n')
    escaped = read_file(path, WORDS, CsvDialect(escape="\\"))
    # The fifth escapes its comma, and so has one field; the sixth escapes the line's end.
    assert escaped.counts(("word",)).counts.tolist() == [1, 2, 2, 0, 0]
    path = write(tmp_path, 'word|n\na"b|1\n"a"b"|2\né|"3\n')
    assert read_file(path, WORDS, CsvDialect("|", quote="")).counts(("word",)).counts.tolist() == [
        1,
        0,
        1,
        0,
        0,
    ]


@given(
    lines=st.lists(
        st.text(st.sampled_from('a",|\\\r é1;'), max_size=7).filter(lambda line: line != ""), max_size=6
    ),
    quote=st.sampled_from(['"', ""]),
    escape=st.sampled_from(["", "\\"]),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_in_every_dialect_each_line_is_read_by_itself(
    tmp_path: Path, lines: list[str], quote: str, escape: str, encoding: str
) -> None:
    dialect = CsvDialect(quote=quote, escape=escape, encoding=encoding)
    domain = Domain((CategoricalAttribute("a", ("a", 'a"', "é", "1"), other=True),))

    def cells(some: list[str]) -> np.ndarray:
        text = "".join(f"{line}\n" for line in ["a,b", *some])
        return read_file(write(tmp_path, text.encode(encoding)), domain, dialect).counts(("a",)).counts

    alone = sum((cells([line]) for line in lines), np.zeros(5, dtype=np.int64))
    assert cells(lines).tolist() == alone.tolist()


# --- folders and patterns of Parquet files ----------------------------------------------------------------


def write_parts(folder: Path, parts: dict[str, str]) -> None:
    for name, select in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        duckdb.execute(f"COPY ({select}) TO '{folder / name}' (FORMAT parquet)")


PARTS = {
    "year=2023/part-0.parquet": "SELECT 30 AS age, 'f' AS sex, 5.0::DOUBLE AS income",
    "year=2024/part-0.pq": "SELECT 41 AS age, 'm' AS sex, 15.0::DOUBLE AS income, 'new' AS more",
    "part-1.parquet": "SELECT 5.0::DOUBLE AS income, 95 AS age, NULL::VARCHAR AS sex",
}


def test_a_folder_or_a_pattern_is_the_table_of_its_files(tmp_path: Path) -> None:
    write_parts(tmp_path / "t", PARTS)
    hidden = {"_temporary/part-9.parquet": "SELECT 1 AS x", ".part.parquet": "SELECT 1 AS x"}
    write_parts(tmp_path / "t", hidden)
    (tmp_path / "t" / "_SUCCESS").write_text("")
    whole = read_file(tmp_path / "t", DOMAIN)
    assert whole.counts(()).total == 3
    assert whole.counts(("sex",)).counts.tolist() == [1, 1, 1]
    assert read_file(tmp_path / "t" / "**" / "part-[01].parquet", DOMAIN).counts(()).total == 2
    assert read_file(str(tmp_path / "t" / "year=*" / "*.pq"), DOMAIN).counts(()).total == 1
    (tmp_path / "t.parquet").mkdir()  # as some engines call such a folder
    write_parts(tmp_path / "t.parquet", PARTS)
    assert np.array_equal(histogram(read_file(tmp_path / "t.parquet", DOMAIN)), histogram(whole))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("SELECT 30 AS age, 'f' AS sex", r"z\.parquet: expected a column 'income'.*no such column"),
        (
            "SELECT '30' AS age, 'f' AS sex, 5.0::DOUBLE AS income",
            r"'age' of type INTEGER.*got one of type VARCHAR",
        ),
        ("SELECT [30] AS age, 'f' AS sex, 5.0::DOUBLE AS income", r"got one of type INTEGER\[\]"),
    ],
)
def test_a_folder_of_differing_files_is_refused_by_file_and_column(
    tmp_path: Path, part: str, message: str
) -> None:
    write_parts(tmp_path, {**PARTS, "z.parquet": part})
    with pytest.raises(DataError, match=message):
        read_file(tmp_path, DOMAIN)


def test_a_folder_that_is_no_table_of_files_alone_is_refused(tmp_path: Path) -> None:
    write_parts(tmp_path, PARTS)
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(DataError, match="whose _delta_log says which"):
        read_file(tmp_path, DOMAIN)
    with pytest.raises(DataError, match="names no file"):
        read_file(tmp_path / "*.pq", DOMAIN)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 Alice PAR1")
    with pytest.raises(DataError, match=r"bad\.parquet: the file could not be read as Parquet") as caught:
        read_file(tmp_path / "*.parquet", DOMAIN)
    assert "Alice" not in str(caught.value)
