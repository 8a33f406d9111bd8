"""Drafts of schemas: names and types, kinds of texts, or domains from a table that is declared public."""

from __future__ import annotations

import csv as csv_library
import datetime
import gzip
import io
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmw.data import CsvDialect, TableFile
from pmw.data.drafting import PublicTable, are_marked, draft_schema, file_marks, public_attributes
from pmw.data.text_kinds import FORMATS, TextKind, column_kinds
from pmw.errors import DataError
from queries import (
    Attribute,
    CategoricalAttribute,
    DateAttribute,
    DatetimeAttribute,
    IntegerAttribute,
    NumericAttribute,
    SchemaError,
    TimeAttribute,
    parse_schema,
)
from queries.values import Reading, values_of

COLUMNS: dict[str, list[object]] = {
    "age": [30, 99, 47],
    "income": [0.5, 20000.0, 3.25],
    "work": ["private", "public", "private"],
    "member": [True, False, True],
}
OTHERS: dict[str, list[object]] = {
    "age": [1, 2, 3],
    "income": [-7.0, 0.0, 1e9],
    "work": ["x", "y", "z"],
    "member": [True, True, True],
}


def parquet(folder: Path, name: str, columns: Mapping[str, Sequence[object]]) -> TableFile:
    path = folder / name
    duckdb.from_df(pd.DataFrame(columns)).write_parquet(str(path))
    return TableFile(path)


def csv(folder: Path, name: str, text: str) -> TableFile:
    (folder / name).write_text(text)
    return TableFile(folder / name)


def declared(file: TableFile) -> PublicTable:
    return PublicTable(file, file_marks(file))


def test_tables_of_the_same_columns_and_types_have_the_same_draft(tmp_path: Path) -> None:
    one, two = parquet(tmp_path, "a.parquet", COLUMNS), parquet(tmp_path, "b.parquet", OTHERS)
    assert draft_schema(one) == draft_schema(two)
    text = "age,work\n30,private\n"
    assert draft_schema(csv(tmp_path, "a.csv", text)) == draft_schema(csv(tmp_path, "b.csv", "age,work\n"))


def test_a_draft_holds_no_value_and_is_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    file = parquet(tmp_path, "a.parquet", COLUMNS)
    for draft in (draft_schema(file), draft_schema(csv(tmp_path, "a.csv", "age,work\n47,mine\n"))):
        assert not any(value in draft for value in ("47", "mine", "private", "20000"))
        with pytest.raises(SchemaError, match=r"attribute 'age'.*TODO"):
            parse_schema(draft)


def test_dates_and_times_of_a_parquet_file_are_drafted_as_such_and_recognised(tmp_path: Path) -> None:
    times = pd.to_datetime(["2024-02-03 04:05:06", "NaT"]).astype("datetime64[us]")
    file = parquet(tmp_path, "a.parquet", {"born": [datetime.date(1990, 1, 1), None], "seen": list(times)})
    draft = draft_schema(file)
    for todo, value in (("min", "2020-01-01"), ("max", "2025-12-31"), ("min", "2020-01-01T00:00:00")):
        draft = draft.replace(f'{todo} = "TODO"', f"{todo} = {value}", 1)
    born, seen = parse_schema(draft.replace('max = "TODO"', "max = 2025-12-31T23:59:59"))
    assert (type(born), type(seen)) == (DateAttribute, DatetimeAttribute)
    found = dict(public_attributes(file, ["born", "seen"]))
    assert [type(one) for one in found.values()] == [DateAttribute, DatetimeAttribute]
    assert all(one.missing for one in found.values())


def test_a_public_table_fills_domains_and_is_named(tmp_path: Path) -> None:
    public = csv(
        tmp_path, "census.csv", "age,income,code,work,spare\n17,0.5,007,b,1\n90,99.5,012,a,2\n,50,001,c,3\n"
    )
    file = csv(tmp_path, "people.csv", "age,code,income,work,ours\n150,999,7,z,z\n")
    draft = draft_schema(file, declared(public))
    assert "census.csv" in draft
    domain = parse_schema(draft.partition('[[attributes]]\nname = "ours"')[0])
    assert domain["age"] == IntegerAttribute("age", 17, 90, missing=True, resolution=1)
    assert domain["code"] == CategoricalAttribute("code", ("001", "007", "012"))  # codes keep their zeros
    assert domain["income"] == NumericAttribute("income", (0, 50, 100), resolution=0.1)  # the usual one
    assert "\nresolution" not in draft
    assert domain["work"] == CategoricalAttribute("work", ("a", "b", "c"))
    assert "TODO" in draft.partition('name = "ours"')[2]
    assert "spare" not in draft


def test_a_table_without_a_header_does_not_show_its_first_record(tmp_path: Path) -> None:
    draft = draft_schema(csv(tmp_path, "t.csv", "39,7.5,female\n40,8.5,male\n"))
    assert not any(value in draft for value in ("39", "7.5"))
    assert draft.count("its name is a number") == 2


def test_columns_without_a_name_are_left_out_and_repeated_ones_refused(tmp_path: Path) -> None:
    draft = draft_schema(csv(tmp_path, "t.csv", "age,,work\n1,2,3\n"))
    assert "# Column 2 is left out: it has no name that can be declared.\n" in draft
    assert draft.count("[[attributes]]") == 2
    with pytest.raises(DataError, match="columns 1 and 2 have the same name; rename one"):
        draft_schema(csv(tmp_path, "t.csv", "age,age\n1,2\n"))


def domain_of(folder: Path, texts: list[str], dialect: CsvDialect | None = None) -> Attribute | None:
    (folder / "public.csv").write_text("\n".join(["x", *texts]) + "\n")
    file = TableFile(folder / "public.csv", dialect or CsvDialect())
    return dict(public_attributes(file, ["x"])).get("x")


def numeric_of(folder: Path, texts: list[str]) -> NumericAttribute:
    attribute = domain_of(folder, texts)
    assert isinstance(attribute, NumericAttribute)
    return attribute


# --- edges and atoms --------------------------------------------------------------------------------------


NUMBERS = st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15).map(float) | st.floats(-1e-5, 1e-5)


@given(st.lists(NUMBERS, min_size=1, max_size=60))
def test_every_edge_is_a_round_number_and_the_ends_hold_every_number(
    tmp_path: Path, numbers: list[float]
) -> None:
    attribute = numeric_of(tmp_path, [f"{number:.17e}" for number in numbers])
    edges = attribute.edges
    assert len(edges) <= 17
    assert all(low < high for low, high in pairwise(edges))
    assert edges[0] <= min(numbers)
    assert edges[-1] >= max(numbers)


def test_a_number_of_more_than_a_twentieth_of_the_rows_has_a_cell_of_its_own(tmp_path: Path) -> None:
    others = [str(1000 + 7 * number) for number in range(94)]
    assert list(numeric_of(tmp_path, [*others, *["0"] * 6]).atoms) == [0]
    assert numeric_of(tmp_path, [*others, *["0"] * 5, "9000"]).atoms == ()  # 5 of 100 are not more
    assert numeric_of(tmp_path, ["0.5", "20.25", "3000"]).atoms == ()  # one row alone has each
    with_two = numeric_of(tmp_path, [*others, *["9999"] * 50, *["0"] * 50])
    assert list(with_two.atoms) == [0, 9999]
    assert with_two.edges[0] <= 0
    assert with_two.edges[-1] >= 9999
    assert len(with_two.edges) == 17  # the edges are those of the others


def test_empty_rows_count_as_rows_of_the_table(tmp_path: Path) -> None:
    others = [str(1000 + 7 * number) for number in range(50)]
    rows = [*(f"{text},a" for text in others), *["0,a"] * 3, *[",a"] * 47]
    file = csv(tmp_path, "public.csv", "\n".join(["x,y", *rows]) + "\n")
    attribute = dict(public_attributes(file, ["x"]))["x"]
    assert (list(attribute.atoms), attribute.missing) == ([], True)  # 3 of 100, though 3 of 53 numbers


@pytest.mark.parametrize(
    ("texts", "edges"),
    [
        (["1000000.001", "1000000.002", "1000000.004"], (1000000.001, 1000000.002, 1000000.004)),  # as needed
        (["7.5", "7.5"], (0, 7.5)),  # one number alone has a cell
        (["-1e20"], (-1e20, 0)),
        (["0.0"], (0, 1)),
    ],
)
def test_edges_have_as_many_digits_as_they_need(
    tmp_path: Path, texts: list[str], edges: tuple[float, ...]
) -> None:
    assert numeric_of(tmp_path, texts).edges == edges
    whole = numeric_of(tmp_path, [str(number) for number in range(230)]).edges
    assert all(edge.is_integer() for edge in whole)
    assert (whole[0], whole[-1]) == (0, 230)


# --- what the texts of a column become ----------------------------------------------------------------------

Day, Time = datetime.date, datetime.datetime
BECOME: list[tuple[str, Attribute | None]] = [
    ("1e301 -1e308", CategoricalAttribute("x", ("-1e308", "1e301"))),  # beyond all use
    ("007 012", CategoricalAttribute("x", ("007", "012"))),
    ("17 90", IntegerAttribute("x", 17, 90)),
    ("2024-02-03 2023-02-29", CategoricalAttribute("x", ("2023-02-29", "2024-02-03"))),  # one is no date
    ("2024-02-03 soon", CategoricalAttribute("x", ("2024-02-03", "soon"))),
    ("03.02.2024 x", CategoricalAttribute("x", ("03.02.2024", "x"))),
    # Dates become whole periods of a width that fits.
    ("2013-01-05 2013-03-31", DateAttribute("x", Day(2013, 1, 5), Day(2013, 3, 31), "day")),
    ("2013-01-05 2013-12-30", DateAttribute("x", Day(2013, 1, 1), Day(2013, 12, 31), "month")),
    ("1999-05-05 2013-11-30", DateAttribute("x", Day(1999, 4, 1), Day(2013, 12, 31), "quarter")),
    ("1920-05-05 2013-11-30", DateAttribute("x", Day(1920, 1, 1), Day(2013, 12, 31), "year")),
    ("0001-01-01 9999-12-31", DateAttribute("x", Day(1, 1, 1), Day(9999, 12, 31), "year")),
    ("2024-02-29 2024-02-29", DateAttribute("x", Day(2024, 2, 29), Day(2024, 2, 29), "day")),
    # And times, on the clock of UTC; one that its zone moves out of the calendar is left to be declared.
    ("2024-02-03T04:05:06 2024-02-06T23:10",
     DatetimeAttribute("x", Time(2024, 2, 3, 4), Time(2024, 2, 6, 23, 59, 59), "hour")),
    ("2024-02-03T04:05:06Z 2024-03-06",
     DatetimeAttribute("x", Time(2024, 2, 3), Time(2024, 3, 6, 23, 59, 59), "day")),
    ("2024-01-01T00:30+01:00 2024-06-06",
     DatetimeAttribute("x", Time(2023, 12, 1), Time(2024, 6, 30, 23, 59, 59), "month")),
    ("9999-12-31T23:30-02:00 9999-01-01", None),
    # Times of day become whole hours.
    ("08:30 21:05:07.5 9:59", TimeAttribute("x", datetime.time(8), datetime.time(21, 59, 59))),
    ("12:10am 11:59PM", TimeAttribute("x", datetime.time(0), datetime.time(23, 59, 59))),
    ("08:30 24:00", CategoricalAttribute("x", ("08:30", "24:00"))),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "expected"), BECOME)
def test_the_texts_of_a_column_become_an_attribute(
    tmp_path: Path, texts: str, expected: Attribute | None
) -> None:
    assert domain_of(tmp_path, texts.split()) == expected


# --- the same table ---------------------------------------------------------------------------------------


def test_a_table_is_told_again_by_its_place_or_its_bytes(tmp_path: Path) -> None:
    text = b"age\n30\n"
    for name, content in (("a.csv", text), ("copy.csv", text), ("other.csv", b"age\n31\n")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "zipped.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "link.csv").symlink_to("a.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "a.csv")
    marks = file_marks(TableFile(tmp_path / "a.csv"))
    for name in ("a.csv", "copy.csv", "zipped.csv.gz", "link.csv", "hard.csv"):
        assert are_marked(TableFile(tmp_path / name), marks), name
    assert not are_marked(TableFile(tmp_path / "other.csv"), marks)
    (tmp_path / "a.csv").write_bytes(b"age\n30\n31\n")  # grown since then
    assert are_marked(TableFile(tmp_path / "link.csv"), marks)


def test_a_folder_is_told_again_by_any_of_its_files(tmp_path: Path) -> None:
    for folder, ages in (("one", [1, 2]), ("two", [2, 3]), ("three", [9, 8])):
        (tmp_path / folder).mkdir()
        for age in ages:
            parquet(tmp_path / folder, f"{age}.parquet", {"age": [age]})
    marks = file_marks(TableFile(tmp_path / "one"))
    assert are_marked(TableFile(tmp_path / "two"), marks)
    assert not are_marked(TableFile(tmp_path / "three"), marks)


# --- kinds of texts -------------------------------------------------------------------------------------


DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=3 * place) for place in range(300)]


def table(folder: Path, columns: Mapping[str, Sequence[str]], dialect: CsvDialect | None = None) -> TableFile:
    """Write a CSV file."""
    dialect, text = dialect or CsvDialect(), io.StringIO()
    writer = csv_library.writer(text, delimiter=dialect.delimiter, lineterminator="\n")
    writer.writerows([tuple(columns), *zip(*columns.values(), strict=True)])
    (folder / "t.csv").write_text(text.getvalue(), encoding="utf-8")
    return TableFile(folder / "t.csv", dialect)


def kind_of(folder: Path, texts: Sequence[str], dialect: CsvDialect | None = None) -> TextKind:
    return column_kinds(table(folder, {"x": texts, "y": texts}, dialect))["x"].kind


def drafted(file: TableFile) -> str:
    return draft_schema(file, None, column_kinds(file))


def texts_of(many: int, write: Callable[[int], str]) -> list[str]:
    return [write(place) for place in range(many)]


# --- each kind --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (texts_of(300, lambda i: str(i % 2)), TextKind.WHOLE),
        (texts_of(300, lambda i: f"{i % 70 - 30}.0"), TextKind.WHOLE),  # as pandas writes them beside NaN
        (texts_of(300, lambda i: "" if i % 3 else str(i % 40)), TextKind.WHOLE),
        (texts_of(300, lambda i: "NA" if i % 3 else f" {i % 40}"), TextKind.WHOLE),
        (texts_of(300, lambda i: str(1000 + i % 90)), TextKind.ALIKE),
        (texts_of(300, lambda i: "" if i % 3 else str(100 + i % 40)), TextKind.ALIKE),
        ([*texts_of(197, lambda i: str(100 + i % 90)), "7", "word", "words"], TextKind.WHOLE),
        ([*texts_of(198, lambda i: str(100 + i % 90)), "7", "8"], TextKind.ALIKE),
        ([*texts_of(197, lambda i: str(100 + i % 90)), "7", "8", "9"], TextKind.WHOLE),
        (texts_of(300, lambda i: f"-{100 + i % 90}"), TextKind.WHOLE),  # a code has no sign
        (texts_of(300, lambda i: f"{i % 90 * 111:04}"), TextKind.CODES),
        (texts_of(300, lambda i: str(i / 8)), TextKind.NUMBERS),
        (texts_of(300, lambda i: f"{i / 7:.3e}"), TextKind.NUMBERS),
        (texts_of(300, lambda i: f"{i},000"), TextKind.SEPARATED),
        (texts_of(300, lambda i: f"1.{i:03},25"), TextKind.SEPARATED),
        (texts_of(300, lambda i: f"{DAYS[i]}"), TextKind.DAYS),
        (texts_of(300, lambda i: f"{DAYS[i]} 10:{i % 60:02}"), TextKind.TIMES),
        (texts_of(300, lambda i: f"{DAYS[i]}" if i % 2 else f"{DAYS[i]}T10:00:00.5"), TextKind.TIMES),
        (texts_of(300, lambda i: f"{DAYS[i]}T10:00:00{'Z' if i % 2 else '+02:00'}"), TextKind.ZONED),
        (texts_of(300, lambda i: f"{DAYS[i]:%d/%m/%y}"), TextKind.UNREAD),
        (texts_of(300, lambda i: f"{DAYS[i]:%m/%d/%Y} 9:30 PM"), TextKind.UNREAD),
        (texts_of(300, lambda i: f"{DAYS[i]:{'%d.%m.%Y' if i % 2 else '%m/%d/%Y'}}"), TextKind.UNREAD),
        (texts_of(300, lambda i: f"{i % 24:02}:{i % 60:02}:38"), TextKind.CLOCK),
        (texts_of(300, lambda i: f"{i % 12 + 1}:30 pm"), TextKind.CLOCK),
        (texts_of(300, lambda i: f"{i % 6 + 19}:30 pm"), TextKind.FEW),  # no clock shows them
        (texts_of(3000, lambda i: f"{i % 1000 * 90:05}"), TextKind.CODES),
        (texts_of(300, lambda i: f"2023-{i % 12 + 1:02}"), TextKind.FEW),
        (texts_of(3000, lambda i: f"name {i % 700}"), TextKind.MANY),
        (texts_of(300, str), TextKind.IDS),
        (texts_of(200, lambda i: f"0{i}"), TextKind.IDS),
        (texts_of(300, lambda i: str(i % 90) if i % 2 else f"word {i % 9}"), TextKind.MIXED),
        (texts_of(300, lambda i: str(i % 90) if i % 2 else f"{DAYS[i]}"), TextKind.MIXED),
        (texts_of(300, lambda i: "" if i else "x"), TextKind.EMPTY),
        ([], TextKind.EMPTY),
        (["31", "40", "52"], TextKind.WHOLE),  # few records have kinds too
        (["mine", "farm", "mill"], TextKind.FEW),
        # Nearly all are 99 of 100: of the texts, of the 200 most frequent, of different ones, of empty ones.
        ([*texts_of(198, str), *["unlike"] * 2], TextKind.WHOLE),
        ([*texts_of(197, str), *["unlike"] * 3], TextKind.MIXED),
        ([*texts_of(400, lambda i: f"w{i % 200}"), *texts_of(4, lambda i: f"rare {i}")], TextKind.FEW),
        ([*texts_of(400, lambda i: f"w{i % 200}"), *texts_of(5, lambda i: f"rare {i}")], TextKind.MANY),
        ([*texts_of(400, lambda i: f"id {i}"), *texts_of(4, lambda i: f"id {i}")], TextKind.IDS),
        ([*texts_of(400, lambda i: f"id {i}"), *texts_of(5, lambda i: f"id {i}")], TextKind.MANY),
        ([*["5"] * 3, *[""] * 298], TextKind.EMPTY),
        ([*["5"] * 4, *[""] * 297], TextKind.WHOLE),
        # The whole file tells, from either end.
        (
            [*texts_of(22_000, lambda i: str(i % 90)), *texts_of(7000, lambda i: f"w{i % 90}")],
            TextKind.MIXED,
        ),
        (
            [*texts_of(7000, lambda i: f"w{i % 90}"), *texts_of(22_000, lambda i: str(i % 90))],
            TextKind.MIXED,
        ),
    ],
)
def test_a_kind_is_what_the_texts_of_a_column_are(tmp_path: Path, texts: list[str], kind: TextKind) -> None:
    assert kind_of(tmp_path, texts, CsvDialect(delimiter=";")) is kind
    swapped = [text.translate(str.maketrans(",.", ".,")) for text in texts]
    if kind in (TextKind.WHOLE, TextKind.NUMBERS, TextKind.SEPARATED):  # where a comma is the decimal sign
        assert kind_of(tmp_path, swapped, CsvDialect(delimiter=";", decimal=",")) is kind


@pytest.mark.parametrize("format", FORMATS)
def test_dates_of_each_format_are_told_with_it_and_read_by_it(tmp_path: Path, format: str) -> None:
    texts = [f"{datetime.datetime.combine(day, datetime.time(7, 8)):{format}}" for day in DAYS]
    found = column_kinds(table(tmp_path, {"x": texts, "y": texts}))["x"]
    assert found.formats == (format,)
    assert found.kind is (TextKind.TIMES if "%H" in format else TextKind.DAYS)


def test_where_two_formats_read_all_dates_the_custodian_is_asked(tmp_path: Path) -> None:
    texts = texts_of(300, lambda i: f"{i % 12 + 1:02}/{i % 11 + 1:02}/2021")
    draft = drafted(table(tmp_path, {"x": texts, "y": texts}))
    assert 'format = "TODO"    # "%d/%m/%Y" or "%m/%d/%Y": each reads them\n' in draft
    filled = draft.replace('min = "TODO"', "min = 2021-01-01").replace('max = "TODO"', "max = 2021-12-31")
    with pytest.raises(SchemaError, match="format must be one such as"):
        parse_schema(filled)


# --- what is told of a kind, and nothing besides ----------------------------------------------------------


_OTHERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS: dict[str, st.SearchStrategy[str]] = {
    "whole": st.integers(-(10**9), 10**9).map(str),
    "alike": st.integers(1000, 9999).map(str),
    "flag": st.sampled_from(["0", "1"]),
    "number": st.integers(-(10**6), 10**6).map(lambda number: f"{number}.25"),
    "comma": st.integers(0, 10**6).map(lambda number: f"{number},25"),
    "day": st.dates(datetime.date(1900, 1, 1)).map(str),
    "german": st.dates(datetime.date(1900, 1, 13)).map(lambda day: f"{day:%d.%m.%Y}"),
    "time": st.datetimes(datetime.datetime(1900, 1, 1)).map(lambda time: f"{time:%Y-%m-%d %H:%M:%S}"),
    "zoned": st.datetimes(datetime.datetime(1900, 1, 1)).map(lambda time: f"{time:%Y-%m-%dT%H:%M:%S}Z"),
    "clock": st.times().map(lambda time: f"{time:%H:%M:%S}"),
    "code": st.integers(0, 99).map(lambda number: f"0{number:02}"),
    "few": st.sampled_from(["red", "green", "blue"]) | st.sampled_from(["rouge", "vert"]),
}
# What is no number, date or code, however it is changed.
UNLIKE = st.text(_OTHERS, min_size=3, max_size=12).map(lambda text: f"<{text}>")


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw a few texts of each column, which its records have in turn: too often for ids."""
    several = {
        name: draw(st.lists(texts, min_size=3, max_size=12, unique=name not in ("flag", "few")))
        for name, texts in TEXTS.items()
    }
    several["german"][0] = "31.12.1999"  # no other format reads it
    several["whole"][0] = "7"  # else they may all have one length
    return several


def records_of(several: Mapping[str, Sequence[str]], many: int) -> dict[str, list[str]]:
    return {name: [texts[place % len(texts)] for place in range(many)] for name, texts in several.items()}


@settings(max_examples=settings().max_examples // 2)  # each of columns of every kind
@given(tables(), tables())
def test_tables_of_the_same_kinds_have_the_same_draft_to_the_byte(
    tmp_path: Path, one: dict[str, list[str]], other: dict[str, list[str]]
) -> None:
    drafts = [drafted(table(tmp_path, records_of(*given))) for given in ((one, 200), (other, 350))]
    assert drafts[0] == drafts[1]


@given(tables(), st.sampled_from(sorted(TEXTS)), UNLIKE | st.just(""), st.booleans())
def test_one_record_more_or_less_changes_nothing(
    tmp_path: Path, several: dict[str, list[str]], name: str, odd: str, added: bool
) -> None:
    columns = records_of(several, 200)
    before = drafted(table(tmp_path, columns))
    changed = {
        one: [*texts, odd if one == name else texts[0]] if added else texts[1:]
        for one, texts in columns.items()
    }
    assert drafted(table(tmp_path, changed)) == before


def test_ids_are_told_apart_over_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of several blocks, in each of which all texts differ."""
    monkeypatch.setattr("pmw.data.csv_file._BLOCK", 2**10)
    monkeypatch.setattr("pmw.data.text_kinds._AT_ONCE", 2**8)
    rows = [f"text {place % 700}" for place in range(1400)]
    assert kind_of(tmp_path, rows[:700]) is TextKind.IDS
    assert kind_of(tmp_path, rows) is TextKind.MANY


# --- the draft --------------------------------------------------------------------------------------------


def filled(draft: str) -> str:
    """Return a draft whose domains are filled in."""
    draft = re.sub(r'(min|max) = "TODO"    # such as ("[0-9:]+")', r"\1 = \2", draft)
    for todo, value in (("min", "0"), ("max", "99"), ("edges", "[0, 10]"), ("values", '["red"]')):
        draft = draft.replace(f'{todo} = "TODO"    # such as {value[0]}', f"{todo} = {value}    # {value[0]}")
    draft = draft.replace('max = "TODO"    # such as 9', "max = 99    # 9")
    draft = draft.replace('min = "TODO"    # such as 2020-01-01T', "min = 1900-01-01T00:00:00    #")
    draft = draft.replace('max = "TODO"    # such as 2025-12-31T', "max = 2999-12-31T23:59:59    #")
    return draft.replace('min = "TODO"', "min = 1900-01-01").replace('max = "TODO"', "max = 2999-12-31")


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (texts_of(300, lambda i: f"{i % 90}.0"), IntegerAttribute),
        (texts_of(300, lambda i: str(i / 8)), NumericAttribute),
        (texts_of(300, lambda i: f"{DAYS[i]:%d.%m.%Y}"), DateAttribute),
        (texts_of(300, lambda i: f"{DAYS[i]:%m/%d/%Y} 10:00"), DatetimeAttribute),
        (texts_of(300, lambda i: f"{DAYS[i]}T10:00:00+02:00"), DatetimeAttribute),
        (texts_of(300, lambda i: f"{i % 24}:{i % 60:02}"), TimeAttribute),
        (texts_of(300, lambda i: f"{i % 12 + 1}:{i % 60:02}:38 pm"), TimeAttribute),
    ],
)
def test_an_attribute_of_a_drafted_kind_reads_the_texts(
    tmp_path: Path, texts: list[str], kind: type[Attribute]
) -> None:
    (attribute,) = parse_schema(filled(drafted(table(tmp_path, {"x": texts}))))
    assert type(attribute) is kind
    read = {Reading.DECLARED, Reading.LOW, Reading.HIGH}
    assert all(values_of(attribute).reading(text) in read for text in texts)


# --- what is no table -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sex,work\nmale,mine\nmale,mine\nfemale,farm\n", None),
        ("male,mine\nmale,mine\nfemale,farm\n", "got what may be a record"),
        ("39,7\n40,8\n", "got what may be a record"),
        ("a,b\n1\n2\n3,4\n", "expected lines of as many fields as the first has"),
        ("a,b\n" + "1,2\n" * 98 + "3\n", "expected lines of as many fields as the first has"),
        ("a,b\n" + "1,2\n" * 100 + "3\n", None),
        ("a,a\n1,2\n", "columns 1 and 2 have the same name"),
        ("a;b\n1;2,5\n", "expected several columns in the first line, got one; give --delimiter ';'"),
        ("a\tb\n1\t2\n", "expected several columns in the first line, got one; give --delimiter tab"),
        ("", "expected column names in the first line, got none"),
        ("PK\x03\x04", "a zip archive"),
        ("a,b\n", "expected a table with a column to ask about"),
        ("# A page\n" + "".join(f"words of line {line}\n" for line in range(99)), "a column to ask about"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path: Path, text: str, told: str | None) -> None:
    (tmp_path / "t.csv").write_text(text)
    if told is None:
        assert "[[attributes]]" in drafted(TableFile(tmp_path / "t.csv"))
        return
    with pytest.raises(DataError) as raised:
        drafted(TableFile(tmp_path / "t.csv"))
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not any(word in str(raised.value) for word in ("male", "mine", "farm"))
