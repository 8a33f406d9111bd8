"""Files: records are read one by one, whatever the others hold; errors tell nothing, and a check all."""

from __future__ import annotations

import gzip
import io
import itertools
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmw.data import CountSource, CsvDialect, TableFile, as_source
from pmw.data.inspection import AttributeFacts, TableFacts, inspect_table
from pmw.errors import DataError
from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.values import DROPPED, Reading, values_of
from tests.pmw.data.lines import DOMAIN, HEADER, LENIENT, STRICT, fields_of, hostile_lines, read, written


def histogram(source: CountSource) -> np.ndarray:
    return source.counts(source.domain.names).counts


def test_columns_are_found_by_name_and_quoted_fields_hold_delimiters(tmp_path: Path) -> None:
    source = read(tmp_path, "income,note,sex,age\n5,hello,f,30\n15,you,m,95\n")
    assert source.counts(("age",)).counts.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert source.counts(("sex",)).counts.tolist() == [1, 1, 0]
    domain = Domain((CategoricalAttribute("word", ('a,"b"', "plain")),))
    source = read(tmp_path, 'id,word\n1,"a,""b"""\n2,plain\n3,"plain"\n', domain)
    assert source.counts(("word",)).counts.tolist() == [1, 2]


def test_line_ends_a_byte_order_mark_and_compression_do_not_matter(tmp_path: Path) -> None:
    for end, last, mark, records in itertools.product(
        ("\n", "\r\n"), (True, False), (b"", b"\xef\xbb\xbf"), (0, 2)
    ):
        text = end.join(["age,sex,income", "30,f,5", "41,m,15"][: records + 1]) + end * last
        raw = mark + text.encode()
        assert read(tmp_path, raw).counts(()).total == records
        zipped = written(tmp_path, gzip.compress(raw), "table.csv.gz")
        assert as_source(zipped, DOMAIN, None).counts(()).total == records
    alone = Domain((CategoricalAttribute("age", ("1", "2"), missing=True),))
    for values in (["1", "", "2"], ["1", "", ""], [""], []):  # an empty line is an empty value
        for end, last in itertools.product(("\n", "\r\n"), (True, False)):
            text = end.join(["age", *values]) + (end if last or values[-1:] == [""] else "")
            counts = [values.count(one) for one in ("1", "2", "")]
            assert histogram(read(tmp_path, text, alone)).tolist() == counts


def test_the_dialect_is_declared(tmp_path: Path) -> None:
    text = "age;sex;income\n 30 ; f ;NA\n41;'m';15\n?;m;5\n"
    dialect = CsvDialect(";", "'", ("NA", "?"), trim=True)
    assert read(tmp_path, text, DOMAIN, dialect).counts(()).total == 1  # an empty age or income drops it
    domain = Domain((CategoricalAttribute("sex", ("f", "m")), IntegerAttribute("age", 0, 99, missing=True)))
    assert read(tmp_path, text, domain, dialect).counts(("age",)).counts[-1] == 1


# --- line by line -----------------------------------------------------------------------------------------


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
    text = HEADER + b"30,f,5\n" + line + b"\n41,m,15\n"
    assert read(tmp_path, text, LENIENT).counts(("sex",)).counts.tolist() == [1, 1, 0, 1]
    assert read(tmp_path, text).counts(()).total == 2


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [2**20 - 1, 2**20])
def test_whether_a_line_is_too_long_does_not_depend_on_how_others_end(
    tmp_path: Path, end: bytes, length: int
) -> None:
    domain = Domain((CategoricalAttribute("sex", ("f", "m")),))
    long = b"5,f," + b"0" * (length - 5) + b"7" + end
    for others in (b"1,f,1\n", b"1,f,1\r\n"):
        for text in (long + others, others + long):
            kept = read(tmp_path, HEADER + text, domain).counts(()).total
            assert kept == 1 + (length < 2**20)


def test_long_fields_and_bad_lines_in_every_block_lose_no_good_line(tmp_path: Path) -> None:
    long = "f" * 1_000_000
    domain = Domain((CategoricalAttribute("sex", ("f", long)),))
    assert read(tmp_path, f'sex,note\nf,x\n"{long}",x\n', domain).counts(("sex",)).counts.tolist() == [1, 1]
    good, bad = b"30,f,5\n" * 999, b'30,"f,5\n'
    assert read(tmp_path, HEADER + (good + bad) * 300).counts(()).total == 999 * 300


# --- sources ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected column names in the first line, got none"),
        (b"\xff\x80\x00", "expected UTF-8 text in the first line"),
        ("âge,sex,income\n".encode("latin-1"), "expected UTF-8 text in the first line.*--encoding cp1252"),
        (b"Alice,30,rich\n", "expected one column 'age' in the first line, got no such column"),
        (b"age,age,sex,income\n", "expected one column 'age' in the first line, got it twice"),
        (b'"age,sex,income\n', "expected column names in the first line, got none"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_without_quoting_it(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, content)
    assert "Alice" not in str(caught.value)


EXCEL = "Excel workbook; save the sheet as CSV UTF-8"
SEP = "Excel's line of the delimiter; delete it, and give --delimiter"
RETURNS = "none; its lines end with carriage returns alone: write it with line feeds"


def zipped(*names: str) -> bytes:
    """Return an archive of small files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, "<Types/>")
    return made.getvalue()


def saved(write: Callable[[io.BytesIO], object]) -> bytes:
    """Return what a library writes."""
    made = io.BytesIO()
    write(made)
    return made.getvalue()


def of_sqlite() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (age INTEGER)")
        return connection.serialize()


AGES = pd.DataFrame({"age": [1]})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (zipped("[Content_Types].xml", "xl/workbook.xml"), f"an {EXCEL}"),
        (zipped("xl/workbook.xml"), f"an {EXCEL}"),
        (zipped("people.csv"), "a zip archive; name a file that was in it"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(40), f"an old {EXCEL}"),
        (gzip.compress(HEADER), "a file compressed by gzip; give it a name that ends in .gz"),
        (saved(AGES.to_feather), "an Arrow file; read it with pyarrow, and write Parquet"),
        (saved(AGES.to_parquet), "a Parquet file; give it a name that ends in .parquet"),
        (of_sqlite(), "an SQLite database; write its table as CSV"),
        (bytes(8) + b"DUCK" + bytes(40), "a DuckDB database; name it as duckdb:FILE, with --table"),
        (saved(partial(AGES.to_stata, version=118)), "a Stata file; write it as CSV or Parquet"),
        (saved(partial(AGES.to_stata, version=114)), "a Stata file; write it as CSV or Parquet"),
        (b"$FL2@(#) SPSS DATA FILE MS Windows", "an SPSS file; write it as CSV or Parquet"),
        (b'{"age": 1}\n{"age": 2}\n', "JSON; write its records as CSV or Parquet"),
        (b' [{"age": 1}]', "JSON; write its records as CSV or Parquet"),
        (b"[\n  1]", "JSON; write its records as CSV or Parquet"),
        ("age,sex,income\n".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        ("age,sex,income\n".encode("utf-16-be"), "UTF-16 text; save it as UTF-8"),
        (b"sep=;\r\nage;sex;income\n", f"{SEP} ';'"),
        (b"\xef\xbb\xbfSEP=|\nage|sex|income\n", f"{SEP} '|'"),
        (b"age,sex,income\r30,f,5\r", RETURNS),
    ],
    ids=lambda given: given[:20] if isinstance(given, str) else "",
)  # fmt: skip
def test_a_file_of_another_kind_is_told_by_its_first_bytes(tmp_path: Path, content: bytes, told: str) -> None:
    message = f"table.csv: expected column names in the first line, got {told}"
    for path in (written(tmp_path, content), written(tmp_path, gzip.compress(content), "table.csv.gz")):
        with pytest.raises(DataError) as caught:
            TableFile(path).names()
        assert str(caught.value).replace(".csv.gz:", ".csv:") == str(tmp_path / message)


def test_a_long_file_of_carriage_returns_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got a longer one; its lines end with carriage returns alone"):
        read(tmp_path, HEADER.replace(b"\n", b"\r") + b"30,f,5\r" * 200_000)


def test_a_first_line_of_a_megabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    long = b"age,sex,income" + b",n" * 2**19
    with pytest.raises(DataError, match=r"expected a first line shorter than a megabyte, got a longer one$"):
        read(tmp_path, long + b"\n30,f,5,x\n")
    names = TableFile(written(tmp_path, long[: 2**20 - 2] + b"\n")).names()
    assert names[:3] == ["age", "sex", "income"]


@pytest.mark.parametrize(
    "header",
    [b"PK,a", b"PAR1,a", b"ARROW1,a", b"[id],a", b"{id},a", b"sep=,a", b"sep", b"$FL2,a", b"'a\rb',a"],
)  # fmt: skip
def test_names_of_columns_that_only_look_like_other_files_are_read(tmp_path: Path, header: bytes) -> None:
    names = TableFile(written(tmp_path, header + b"\n1,2\n"), CsvDialect(quote="'")).names()
    assert names == header.decode().replace("'", "").split(",")


# --- dialects ---------------------------------------------------------------------------------------------


def test_an_impossible_dialect_is_refused() -> None:
    impossible: dict[str, tuple[str, ...]] = {
        "delimiter": ("", ",,", '"'),
        "quote": ("\n",),
        "escape": (",", '"', "é"),
        "decimal": (";",),
        # Bytes of one character are those of others; a line feed is another byte; there is none.
        "encoding": ("utf-16", "shift_jis", "cp037", "rot13", "no such", "idna"),
    }
    for name, values in impossible.items():
        for value in values:
            with pytest.raises(DataError, match="expected"):
                CsvDialect(**{name: value})  # type: ignore[arg-type]  # only texts are given


WORDS = Domain((CategoricalAttribute("word", ("é", "a|b", 'a"b', "Ã©", "€")),))


@pytest.mark.parametrize(
    ("encoding", "cells"),
    [("utf-8", [1, 0, 0, 0, 0]), ("latin-1", [1, 0, 0, 1, 0]), ("cp1252", [1, 0, 0, 1, 1])],
)
def test_bytes_that_are_no_text_in_the_encoding_drop_their_own_line(
    tmp_path: Path, encoding: str, cells: list[int]
) -> None:
    # The same letter in UTF-8 and in Latin-1, then one of cp1252 alone, and one of none of them.
    text = b"word\n\xc3\xa9\n\xe9\n\x80\n\x81\n"
    source = read(tmp_path, text, WORDS, CsvDialect(encoding=encoding))
    assert source.counts(("word",)).counts.tolist() == cells


def test_a_decimal_comma_is_read_in_columns_of_numbers_alone(tmp_path: Path) -> None:
    domain = Domain(
        (
            NumericAttribute("income", (0, 1.4, 1.6, 100), missing=True, other=True),
            IntegerAttribute("age", 0, 2, other=True),
            CategoricalAttribute("word", ("1,5", "1.5")),
        )
    )
    lines = ["1,5;1;1,5", "1.5;1;1.5", "1,5e1;1,0;1,5", ";1;1,5", "1.000,5;1.0;1,5", "NA;2;1,5", "-,5;2;1,5"]
    dialect = CsvDialect(";", decimal=",", missing_texts=("NA",))
    source = read(tmp_path, "\n".join(["income;age;word", *lines]), domain, dialect)
    # 1,5 and 15 and -0.5; two that are no numbers; two that are empty
    assert source.counts(("income",)).counts.tolist() == [1, 1, 1, 2, 2]
    assert source.counts(("age",)).counts.tolist() == [0, 4, 2, 1]
    assert source.counts(("word",)).counts.tolist() == [6, 1]


def test_quoting_can_be_by_an_escape_or_not_at_all(tmp_path: Path) -> None:
    # The fifth escapes its comma, and so has one field; the sixth escapes the line's end.
    escaped = 'word,n\na\\"b,1\n"a|b",2\n"a\\"b",3\na\\|b,4\na|b\\,5\né,6\\\né,\\,\n'
    source = read(tmp_path, escaped, WORDS, CsvDialect(escape="\\"))
    assert source.counts(("word",)).counts.tolist() == [1, 2, 2, 0, 0]
    source = read(tmp_path, 'word|n\na"b|1\n"a"b"|2\né|"3\n', WORDS, CsvDialect("|", quote=""))
    assert source.counts(("word",)).counts.tolist() == [1, 0, 1, 0, 0]


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
        return histogram(read(tmp_path, text.encode(encoding), domain, dialect))

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
    assert as_source(tmp_path / "t", DOMAIN, None).counts(("sex",)).counts.tolist() == [1, 1, 1]
    assert as_source(tmp_path / "t" / "**" / "part-[01].parquet", DOMAIN, None).counts(()).total == 2
    assert as_source(str(tmp_path / "t" / "year=*" / "*.pq"), DOMAIN, None).counts(()).total == 1
    (tmp_path / "t").rename(tmp_path / "t.parquet")  # as some engines call such a folder
    assert as_source(tmp_path / "t.parquet", DOMAIN, None).counts(("sex",)).counts.tolist() == [1, 1, 1]


COPIES = {"'30' AS age, 'f' AS sex, 5.0::DOUBLE": r"'age' of type INTEGER.*got one of type VARCHAR",
          "[30] AS age, 'f' AS sex, 5.0::DOUBLE": r"got one of type INTEGER\[\]"}  # fmt: skip
NO_TABLES: list[tuple[dict[str, str], str, str]] = [
    ({}, "absent.csv", "no such file"),
    ({}, "", "none is in it"),
    ({}, "a[1].csv", "no file has that name"),
    (PARTS, "*.pq", "names no file"),
    (
        {**PARTS, "z.parquet": "SELECT 30 AS age, 'f' AS sex"},
        "",
        r"z\.parquet: expected a column 'income'.*no such",
    ),
    *(({**PARTS, "z.parquet": f"SELECT {columns} AS income"}, "", told) for columns, told in COPIES.items()),
    ({**PARTS, "_delta_log/0": "SELECT 1"}, "", "whose _delta_log says which"),
]


@pytest.mark.parametrize(("parts", "place", "told"), NO_TABLES)
def test_what_is_no_table_of_files_is_refused(
    tmp_path: Path, parts: dict[str, str], place: str, told: str
) -> None:
    write_parts(tmp_path, parts)
    with pytest.raises(DataError, match=told):
        as_source(tmp_path / place, DOMAIN, None)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 Alice PAR1")
    with pytest.raises(DataError, match=r"bad\.parquet: the file could not be read as Parquet") as caught:
        as_source(tmp_path / "ba*.parquet", DOMAIN, None)
    assert "Alice" not in str(caught.value)


ONE, OTHER = PARTS["year=2023/part-0.parquet"], "SELECT 41, 'm', 15.0 FROM range(9)"


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("a*b.parquet", "axb.parquet"),
        ("[!a].parquet", "b.parquet"),
        ("in [2]/x[[].parquet", "in 2/x[.parquet"),
        ("it's[1].pq", "it's1.pq"),
    ],
)
def test_what_is_there_is_that_file_and_a_pattern_only_where_nothing_has_the_name(
    tmp_path: Path, name: str, also: str
) -> None:
    for file, select in ((tmp_path / name, ONE), (tmp_path / also, f"{ONE} UNION ALL {OTHER}")):
        write_parts(file.parent, {"made": select})  # a name that stands for itself alone
        (file.parent / "made").rename(file)
    assert as_source(tmp_path / name, DOMAIN, None).counts(()).total == 1
    assert TableFile(tmp_path / name).files == [tmp_path / name]
    (tmp_path / name).unlink()
    assert as_source(tmp_path / name, DOMAIN, None).counts(()).total == 10


# --- what a check tells of a file -----------------------------------------------------------------------


def inspect(
    folder: Path, raw: bytes, domain: Domain = DOMAIN, dialect: CsvDialect | None = None
) -> TableFacts:
    return inspect_table(TableFile(written(folder, raw), dialect or CsvDialect()), domain)


def of(facts: TableFacts, name: str) -> AttributeFacts:
    (found,) = (attribute for attribute in facts.attributes if attribute.name == name)
    return found


def test_every_kind_of_fact_is_counted(tmp_path: Path) -> None:
    rows = ["30,f,5", "-4,x,5", "abc,,500", "30.5,f,-1", "200,f,rich", "30,f", '30,"f,5', ",x,", "30,x,?"]
    facts = inspect(tmp_path, b"note," + HEADER + "\n".join("hello," + row for row in rows).encode())
    assert (facts.read, facts.kept, facts.dropped, facts.malformed) == (9, 2, 7, 2)
    assert facts.malformed_lines == {
        "3 fields, where the first line has 4": [7],
        "a quote that is not closed, or stands inside a field; give --quote '' where none is special": [8],
    }
    assert (facts.ignored, facts.absent) == (("note",), ())
    age, sex, income = facts.attributes
    assert (age.empty, age.undeclared, age.no_number, age.fractions) == (1, 2, 1, 1)
    assert (age.clipped_low, age.clipped_high) == (1, 1)
    assert age.examples == (("30.5", 1), ("abc", 1))
    assert (sex.empty, sex.empty_kept, sex.undeclared, sex.undeclared_kept) == (1, True, 3, False)
    assert sex.examples == (("x", 3),)
    assert (income.empty, income.undeclared, income.undeclared_kept, income.no_number) == (1, 2, True, 2)
    assert (income.clipped_low, income.clipped_high) == (1, 1)


@given(
    hostile_lines(),
    st.sampled_from([DOMAIN, STRICT, LENIENT]),
    st.sampled_from([CsvDialect(), CsvDialect(missing_texts=("?",)), CsvDialect(trim=True)]),
)
@settings(max_examples=2 * settings().max_examples)
def test_each_line_is_read_by_itself_by_the_session_and_by_the_check(
    tmp_path: Path, lines: list[bytes], domain: Domain, dialect: CsvDialect
) -> None:
    facts = inspect(tmp_path, HEADER + b"\n".join(lines), domain, dialect)
    source = as_source(TableFile(tmp_path / "table.csv", dialect), domain, None)
    records, malformed = fields_of(lines, dialect)
    assert (facts.read, facts.malformed) == (len(records) + len(malformed), len(malformed))
    assert sorted(line for lines in facts.malformed_lines.values() for line in lines) == malformed
    codes = [
        [values_of(one).encode(value) for one, value in zip(domain, row, strict=True)] for row in records
    ]
    # A malformed line is in the cell where every value is undeclared.
    undeclared = [DROPPED if one.other_code is None else one.other_code for one in domain]
    expected = np.zeros(domain.shape, dtype=np.int64)
    for row in [*codes, *[undeclared] * len(malformed)]:
        if DROPPED not in row:
            expected[tuple(row)] += 1
    assert np.array_equal(histogram(source), expected)
    assert facts.kept == source.counts(()).total == expected.sum()
    for place, attribute in enumerate(domain):
        found = of(facts, attribute.name)
        values = [row[place] for row in records]
        readings = Counter(values_of(attribute).reading(value) for value in values)
        assert (found.empty, found.clipped_low, found.clipped_high) == (
            readings[Reading.EMPTY], readings[Reading.LOW], readings[Reading.HIGH],
        )  # fmt: skip
        assert (found.no_number, found.fractions) == (
            readings[Reading.NO_NUMBER], readings[Reading.FRACTION],
        )  # fmt: skip
        dropping = (0 if found.empty_kept else found.empty) + (
            0 if found.undeclared_kept else found.undeclared
        )
        assert dropping == sum(row[place] == DROPPED for row in codes)
        assert sum(count for _, count in found.examples) <= found.undeclared


def test_a_parquet_file_has_facts_by_value(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT * FROM (VALUES
                (30::BIGINT, 'f', 5.00::DECIMAL(9, 2), DATE '2020-01-02'), (NULL, NULL, NULL, NULL),
                (200, '?', 500, NULL), (-1, '?', -0.5, NULL), (50, 'm', 'nan'::DOUBLE, NULL)
            ) AS t(age, sex, income, day)) TO '{path}' (FORMAT parquet)"""
        )
    domain = Domain((*DOMAIN, IntegerAttribute("day", 0, 3)))
    facts = inspect_table(TableFile(path), domain)
    assert (facts.read, facts.kept, facts.malformed) == (5, 0, 0)
    age, sex, income, day = facts.attributes
    assert (age.empty, age.clipped_low, age.clipped_high, age.undeclared) == (1, 1, 1, 0)
    assert (sex.empty, sex.undeclared, sex.examples) == (1, 2, (("?", 2),))
    assert sex.suggestions == ("if '?' means empty, write NULL in the table instead",)
    assert (income.empty, income.clipped_low, income.clipped_high) == (2, 1, 1)
    assert (day.empty, day.no_number) == (4, 1)
    kept = inspect_table(
        TableFile(path), Domain(tuple(replace(one, missing=True, other=True) for one in domain))
    )
    assert kept.kept == kept.read == 5


SEXES = CategoricalAttribute("a", ("f", "m"))
# An attribute, the values of its column, and what is suggested.
SUGGESTED: list[tuple[Attribute, list[str], list[str]]] = [
    (IntegerAttribute("a", 0, 9), ["1", ""], ["declare missing = true to keep empty values"]),
    (IntegerAttribute("a", 0, 9), ["1", "1.5"], ['declare kind = "numeric" with edges to keep fractions']),
    (
        IntegerAttribute("a", 0, 9),
        ["NA", "1"],
        ["if 'NA' means empty, give --missing-text NA and declare missing = true"],
    ),
    (
        NumericAttribute("a", (0, 9)),
        ["-", "?", "?", "many"],
        [
            "if '?' and '-' mean empty, give --missing-text '?' --missing-text - and declare missing = true",
            "declare other = true to keep values that are no number",
        ],
    ),
    (replace(SEXES, missing=True), ["n/a"], ["if 'n/a' means empty, give --missing-text n/a"]),
    (
        SEXES,
        [" f", "m"],
        [
            "give --trim to drop spaces around fields",
            "list these values, or declare other = true to keep them in one cell",
        ],
    ),
    (replace(SEXES, other=True), ["F"], ["declare values in the case in which the table writes them"]),
    (CategoricalAttribute("a", ("f", "?")), ["f", "?"], []),
    (
        CategoricalAttribute("a", ("f",)),
        ["f"],
        ["its one cell says nothing of a record: declare more values, or delete it"],
    ),
    (CategoricalAttribute("a", ("f",), missing=True), ["f"], []),
    (IntegerAttribute("a", 0, 9), ["-5", "50"], []),
]


@pytest.mark.parametrize(("attribute", "values", "suggestions"), SUGGESTED)
def test_what_may_help_is_suggested(
    tmp_path: Path, attribute: Attribute, values: list[str], suggestions: list[str]
) -> None:
    rows = "".join(f"x,{value}\n" for value in values)
    facts = inspect(tmp_path, f"id,a\n{rows}".encode(), Domain((attribute,)))
    assert list(of(facts, "a").suggestions) == suggestions
