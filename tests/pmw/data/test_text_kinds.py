"""Kinds of texts: what a CSV file's columns hold, told without any of their values."""

from __future__ import annotations

import csv as csv_library
import datetime
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.data import CsvDialect, TableFile
from pmw.data.drafting import draft_schema
from pmw.data.text_kinds import FORMATS, TextKind, column_kinds
from pmw.errors import DataError
from queries import (
    Attribute,
    DateAttribute,
    DatetimeAttribute,
    IntegerAttribute,
    NumericAttribute,
    SchemaError,
    TimeAttribute,
    parse_schema,
)
from queries.values import Reading, values_of

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
        (texts_of(300, lambda i: str(i % 90)), TextKind.WHOLE),
        (texts_of(300, lambda i: str(i % 2)), TextKind.WHOLE),
        (texts_of(300, lambda i: f"{i % 70 - 30}.0"), TextKind.WHOLE),  # as pandas writes them beside NaN
        (texts_of(300, lambda i: "" if i % 3 else str(i % 40)), TextKind.WHOLE),
        (texts_of(300, lambda i: "NA" if i % 3 else str(i % 40)), TextKind.WHOLE),
        (texts_of(300, lambda i: f" {i % 40}"), TextKind.WHOLE),
        (texts_of(300, lambda i: str(1000 + i % 90)), TextKind.ALIKE),
        (texts_of(300, lambda i: "" if i % 3 else str(100 + i % 40)), TextKind.ALIKE),
        ([*texts_of(197, lambda i: str(100 + i % 90)), "7", "word", "words"], TextKind.WHOLE),
        ([*texts_of(198, lambda i: str(100 + i % 90)), "7", "8"], TextKind.ALIKE),
        ([*texts_of(197, lambda i: str(100 + i % 90)), "7", "8", "9"], TextKind.WHOLE),
        (texts_of(300, lambda i: f"-{100 + i % 90}"), TextKind.WHOLE),  # a code has no sign
        (texts_of(300, lambda i: f"{i % 90 * 111:04}"), TextKind.CODES),
        (texts_of(300, lambda i: str(i / 8)), TextKind.NUMBERS),
        (texts_of(300, lambda i: f"{i / 7:.3e}"), TextKind.NUMBERS),
        (texts_of(300, lambda i: f"{i},50"), TextKind.SEPARATED),
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
        (texts_of(300, lambda i: f"{i % 60:03}"), TextKind.CODES),
        (texts_of(3000, lambda i: f"{i % 1000 * 90:05}"), TextKind.CODES),
        (texts_of(300, lambda i: ("yes", "no")[i % 2]), TextKind.FEW),
        (texts_of(300, lambda i: f"2023-{i % 12 + 1:02}"), TextKind.FEW),
        (texts_of(3000, lambda i: f"name {i % 700}"), TextKind.MANY),
        (texts_of(300, str), TextKind.IDS),
        (texts_of(300, lambda i: f"0{i}"), TextKind.IDS),
        (texts_of(200, lambda i: f"note {i}"), TextKind.IDS),
        (texts_of(300, lambda i: str(i % 90) if i % 2 else f"word {i % 9}"), TextKind.MIXED),
        (texts_of(300, lambda i: str(i % 90) if i % 2 else f"{DAYS[i]}"), TextKind.MIXED),
        (texts_of(300, lambda i: ""), TextKind.EMPTY),
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
            [*texts_of(30_000, lambda i: str(i % 90)), *texts_of(10_000, lambda i: f"w{i % 90}")],
            TextKind.MIXED,
        ),
        (
            [*texts_of(10_000, lambda i: f"w{i % 90}"), *texts_of(30_000, lambda i: str(i % 90))],
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
COLUMNS: dict[str, st.SearchStrategy[str]] = {
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
        for name, texts in COLUMNS.items()
    }
    several["german"][0] = "31.12.1999"  # no other format reads it
    several["whole"][0] = "7"  # else they may all have one length
    return several


def records_of(several: Mapping[str, Sequence[str]], many: int) -> dict[str, list[str]]:
    return {name: [texts[place % len(texts)] for place in range(many)] for name, texts in several.items()}


@given(tables(), tables())
def test_tables_of_the_same_kinds_have_the_same_draft_to_the_byte(
    tmp_path: Path, one: dict[str, list[str]], other: dict[str, list[str]]
) -> None:
    drafts = [drafted(table(tmp_path, records_of(*given))) for given in ((one, 200), (other, 350))]
    assert drafts[0] == drafts[1]


@given(tables(), st.sampled_from(sorted(COLUMNS)), UNLIKE | st.just(""), st.booleans())
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


@given(st.lists(UNLIKE, min_size=3, max_size=600), st.integers(0, 10**6))
def test_no_text_of_the_table_stands_in_its_draft(tmp_path: Path, texts: list[str], number: int) -> None:
    columns = {"words": texts, "numbers": [str(7_000_000 + number)] * len(texts)}
    draft = drafted(table(tmp_path, columns))
    assert not any(text in draft for text in (*texts, columns["numbers"][0]))


def test_ids_are_told_apart_over_the_whole_file(tmp_path: Path) -> None:
    """A file of several blocks, in each of which all texts differ."""
    rows = [f"{'x' * 60} {place % 70_000}" for place in range(140_000)]
    assert kind_of(tmp_path, rows[:70_000]) is TextKind.IDS
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


def test_what_is_no_attribute_is_left_out_with_a_reason(tmp_path: Path) -> None:
    rows = range(300)
    columns = {
        "id": [f"a{place}" for place in rows],
        "none": ["" for _ in rows],
        "age": [str(place % 9) for place in rows],
    }
    draft = drafted(table(tmp_path, columns))
    assert draft.count("[[attributes]]") == 1
    assert '# Column 1 is left out: "id" differs between records, as ids do. ' in draft
    assert '# Column 2 is left out: "none" is nearly always empty. ' in draft


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


def test_ten_thousand_columns_are_drafted(tmp_path: Path) -> None:
    columns = {f"c{place}": ["1", "2"] for place in range(10_000)}
    assert drafted(table(tmp_path, columns)).count('kind = "integer"\nmin') == 10_000
