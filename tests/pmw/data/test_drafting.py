"""Drafts of schemas: names and types alone, or domains from a table that is declared public."""

from __future__ import annotations

import datetime
from pathlib import Path

import pandas as pd
import pytest

from pmw.data import TableFile
from pmw.data.drafting import PublicTable, draft_schema, file_marks
from pmw.errors import DataError
from queries import (
    CategoricalAttribute,
    DateAttribute,
    DatetimeAttribute,
    IntegerAttribute,
    NumericAttribute,
    SchemaError,
    parse_schema,
)

COLUMNS = {
    "age": [30, 99, 47],
    "income": [0.5, 20000.0, 3.25],
    "work": ["private", "public", "private"],
    "member": [True, False, True],
}
OTHERS = {"age": [1, 2, 3], "income": [-7.0, 0.0, 1e9], "work": ["x", "y", "z"], "member": [True, True, True]}


def parquet(folder: Path, name: str, columns: dict[str, list[object]] | dict[str, object]) -> TableFile:
    duckdb = pytest.importorskip("duckdb")
    table, path = pd.DataFrame(columns), folder / name
    duckdb.from_df(table).write_parquet(str(path))
    return TableFile(path)


def csv(folder: Path, name: str, text: str) -> TableFile:
    (folder / name).write_text(text)
    return TableFile(folder / name)


def declared(file: TableFile) -> PublicTable:
    return PublicTable(file, file_marks(file))


def test_tables_of_the_same_columns_and_types_have_the_same_draft(tmp_path: Path) -> None:
    one, two = parquet(tmp_path, "a.parquet", dict(COLUMNS)), parquet(tmp_path, "b.parquet", dict(OTHERS))
    assert draft_schema(one) == draft_schema(two)
    text = "age,work\n30,private\n"
    assert draft_schema(csv(tmp_path, "a.csv", text)) == draft_schema(csv(tmp_path, "b.csv", "age,work\n"))


def test_a_draft_holds_no_value_and_is_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    for file in (
        parquet(tmp_path, "a.parquet", dict(COLUMNS)),
        csv(tmp_path, "a.csv", "age,work\n47,mine\n"),
    ):
        draft = draft_schema(file)
        assert not any(value in draft for value in ("47", "mine", "private", "20000"))
        with pytest.raises(SchemaError, match=r"line \d+: attribute 'age'.*TODO"):
            parse_schema(draft)


def test_storage_types_choose_the_kind(tmp_path: Path) -> None:
    draft = draft_schema(parquet(tmp_path, "a.parquet", dict(COLUMNS)))
    for name, kind in (
        ("age", "integer"),
        ("income", "numeric"),
        ("work", "categorical"),
        ("member", "categorical"),
    ):
        section = draft.partition(f'name = "{name}"')[2].partition("[[attributes]]")[0]
        assert f'kind = "{kind}"' in section
        assert ("TODO" in section) == (name != "member")  # a truth value has only two


def test_a_draft_that_is_filled_in_is_a_schema(tmp_path: Path) -> None:
    draft = draft_schema(parquet(tmp_path, "a.parquet", dict(COLUMNS)))
    for todo, value in (('min = "TODO"', "min = 0"), ('max = "TODO"', "max = 99")):
        draft = draft.replace(todo, value)
    draft = draft.replace('edges = "TODO"', "edges = [0, 10]").replace('values = "TODO"', 'values = ["a"]')
    assert parse_schema(draft).names == ("age", "income", "work", "member")


def test_dates_and_times_of_a_parquet_file_are_drafted_as_such(tmp_path: Path) -> None:
    table = {
        "born": [datetime.date(1990, 1, 1)],
        "seen": pd.to_datetime(["2024-02-03 04:05:06"]).astype("datetime64[us]"),
    }
    draft = draft_schema(parquet(tmp_path, "a.parquet", table))
    for todo, value in (('min = "TODO"', "min = 2020-01-01"), ('max = "TODO"', "max = 2025-12-31")):
        draft = draft.replace(todo, value, 1)
    draft = draft.replace('min = "TODO"', "min = 2020-01-01T00:00:00").replace(
        'max = "TODO"', "max = 2025-12-31T23:59:59"
    )
    born, seen = parse_schema(draft)
    assert (type(born), type(seen)) == (DateAttribute, DatetimeAttribute)


def test_a_public_table_fills_domains_and_is_named(tmp_path: Path) -> None:
    public = csv(
        tmp_path, "census.csv", "age,income,code,work,spare\n17,0.5,007,b,1\n90,99.5,012,a,2\n,50,001,c,3\n"
    )
    file = csv(tmp_path, "people.csv", "age,code,income,work,ours\n150,999,7,z,z\n")
    draft = draft_schema(file, declared(public))
    assert "census.csv" in draft
    domain = parse_schema(draft.partition('[[attributes]]\nname = "ours"')[0])
    assert domain["age"] == IntegerAttribute("age", 17, 90, missing=True)
    assert domain["code"] == CategoricalAttribute("code", ("001", "007", "012"))  # codes keep their zeros
    assert domain["income"] == NumericAttribute("income", (0, 50, 100))
    assert domain["work"] == CategoricalAttribute("work", ("a", "b", "c"))
    assert "TODO" in draft.partition('name = "ours"')[2]
    assert "spare" not in draft


def test_too_many_categories_stay_to_be_declared(tmp_path: Path) -> None:
    rows = "\n".join(f"v{number}" for number in range(1001))
    public = csv(tmp_path, "public.csv", f"work\n{rows}\n")
    assert (
        "TODO"
        in draft_schema(csv(tmp_path, "t.csv", "work\n"), declared(public)).partition('name = "work"')[2]
    )


def test_columns_without_a_name_are_left_out_and_repeated_ones_refused(tmp_path: Path) -> None:
    draft = draft_schema(csv(tmp_path, "t.csv", "age,,work\n1,2,3\n"))
    assert "# Column 2 is left out: it has no name that can be declared.\n" in draft
    assert draft.count("[[attributes]]") == 2
    with pytest.raises(DataError, match="columns 1 and 2 have the same name; rename one"):
        draft_schema(csv(tmp_path, "t.csv", "age,age\n1,2\n"))


def test_a_table_without_a_header_does_not_show_its_first_record(tmp_path: Path) -> None:
    draft = draft_schema(csv(tmp_path, "t.csv", "39,7.5,female\n40,8.5,male\n"))
    assert "39" not in draft
    assert "7.5" not in draft
    assert draft.count("its name is a number") == 2


def test_a_public_table_without_a_common_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a column of the table, got none of that name"):
        draft_schema(csv(tmp_path, "t.csv", "age\n"), declared(csv(tmp_path, "p.csv", "years\n1\n")))
