"""Drafts of schemas: names and types alone, or domains from a table that is declared public."""

from __future__ import annotations

import datetime
import gzip
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.data import CsvDialect, DatabaseTable, TableFile
from pmw.data.drafting import PublicTable, are_marked, draft_schema, file_marks, public_attributes
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


def test_storage_types_choose_the_kind_and_a_draft_that_is_filled_in_is_a_schema(tmp_path: Path) -> None:
    draft = draft_schema(parquet(tmp_path, "a.parquet", COLUMNS))
    for todo, value in (("min", "0"), ("max", "99"), ("edges", "[0, 10]"), ("values", '["a"]')):
        draft = draft.replace(f'{todo} = "TODO"', f"{todo} = {value}")
    assert '"TODO"' not in draft  # a truth value has only two
    kinds = {attribute.name: type(attribute) for attribute in parse_schema(draft)}
    assert kinds == {
        "age": IntegerAttribute,
        "income": NumericAttribute,
        "work": CategoricalAttribute,
        "member": CategoricalAttribute,
    }


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


def test_times_of_day_of_a_file_are_drafted_as_such(tmp_path: Path) -> None:
    draft = draft_schema(parquet(tmp_path, "a.parquet", {"start": [datetime.time(8, 30), None]}))
    assert "# stored as TIME\n" in draft
    for todo, value in (("min", "06:00"), ("max", "21:59")):
        draft = draft.replace(f'{todo} = "TODO"', f'{todo} = "{value}"')
    expected = TimeAttribute("start", datetime.time(6), datetime.time(21, 59, 59))
    assert parse_schema(draft).attributes == (expected,)


def test_a_filled_width_of_times_of_day_names_another_of_them(tmp_path: Path) -> None:
    file = csv(tmp_path, "p.csv", "start,day\n08:30,2023-01-01\n9:15 pm,2023-01-02\n")
    draft = draft_schema(file, declared(file))
    assert 'min = 08:00:00\nmax = 21:59:59\nwidth = "hour"    # or another, such as 30 minutes\n' in draft
    assert 'width = "day"    # or another of hour (of times), day' in draft


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


def test_too_many_categories_stay_to_be_declared(tmp_path: Path) -> None:
    rows = "\n".join(f"v{number}" for number in range(1001))
    public = csv(tmp_path, "public.csv", f"work\n{rows}\n")
    draft = draft_schema(csv(tmp_path, "t.csv", "work\n"), declared(public))
    assert "TODO" in draft.partition('name = "work"')[2]


def test_columns_without_a_name_are_left_out_and_repeated_ones_refused(tmp_path: Path) -> None:
    draft = draft_schema(csv(tmp_path, "t.csv", "age,,work\n1,2,3\n"))
    assert "# Column 2 is left out: it has no name that can be declared.\n" in draft
    assert draft.count("[[attributes]]") == 2
    with pytest.raises(DataError, match="columns 1 and 2 have the same name; rename one"):
        draft_schema(csv(tmp_path, "t.csv", "age,age\n1,2\n"))


def test_a_table_without_a_header_does_not_show_its_first_record(tmp_path: Path) -> None:
    draft = draft_schema(csv(tmp_path, "t.csv", "39,7.5,female\n40,8.5,male\n"))
    assert not any(value in draft for value in ("39", "7.5"))
    assert draft.count("its name is a number") == 2


def test_a_public_table_without_a_common_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a column of the table, got none of that name"):
        draft_schema(csv(tmp_path, "t.csv", "age\n"), declared(csv(tmp_path, "p.csv", "years\n1\n")))


def domain_of(folder: Path, texts: list[str], dialect: CsvDialect | None = None) -> Attribute | None:
    (folder / "public.csv").write_text("\n".join(["x", *texts]) + "\n")
    file = TableFile(folder / "public.csv", dialect or CsvDialect())
    return dict(public_attributes(file, ["x"])).get("x")


def numeric_of(folder: Path, texts: list[str]) -> NumericAttribute:
    attribute = domain_of(folder, texts)
    assert isinstance(attribute, NumericAttribute)
    return attribute


# --- edges and atoms --------------------------------------------------------------------------------------


def test_edges_are_round_and_near_the_quantiles(tmp_path: Path) -> None:
    edges = numeric_of(tmp_path, [str(37 * number) for number in range(500)]).edges
    thousands = (0, 1, 2.5, 3.5, 4.5, 6, 7, 8, 9, 10.5, 11.5, 12.5, 14, 15, 16, 17.5, 18.5)
    assert edges == tuple(1000 * thousand for thousand in thousands)  # to 18,463, a cell 1,154 wide


def test_edges_of_a_skewed_column_follow_its_rows(tmp_path: Path) -> None:
    edges = numeric_of(tmp_path, [f"{number**3 / 1000:.4f}" for number in range(1, 1001)]).edges
    below = [sum(number**3 / 1000 < edge for number in range(1, 1001)) for edge in edges]
    assert (edges[0], edges[-1], len(edges)) == (0, 1_000_000, 17)
    assert all(30 <= high - low <= 95 for low, high in pairwise(below))  # 62 of 1,000 rows each


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


def test_an_end_that_is_an_atom_is_no_whole_number_among_whole_ones(tmp_path: Path) -> None:
    texts = [*(str(10 * number) for number in range(1, 40)), *["0.123"] * 30]
    found = numeric_of(tmp_path, texts)
    assert found.atoms == (0.123,)
    assert found.edges[0] <= 0.123


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


def test_small_numbers_of_a_parquet_file_are_numbers(tmp_path: Path) -> None:
    file = parquet(tmp_path, "p.parquet", {"x": [number * 1e-7 for number in range(1, 40)]})
    attribute = dict(public_attributes(file, ["x"]))["x"]
    assert isinstance(attribute, NumericAttribute)
    assert (attribute.edges[0], attribute.edges[-1]) == (5e-8, 3.9e-6)


def test_a_comma_before_fractions_is_one(tmp_path: Path) -> None:
    dialect = CsvDialect(delimiter=";", decimal=",")
    attribute = domain_of(tmp_path, ["0,5", "3,25", "10"], dialect)
    assert isinstance(attribute, NumericAttribute)
    assert (attribute.edges[0], attribute.edges[-1]) == (0, 10)


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


def test_a_table_of_a_database_has_no_file_to_compare() -> None:
    assert file_marks(DatabaseTable("duckdb:nowhere.duckdb", "people")) == ()
