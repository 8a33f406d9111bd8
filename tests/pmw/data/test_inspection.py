"""Inspection: the facts about a file are exact, and agree with what a session counts of it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.data import CsvDialect, TableFile, as_source
from pmw.data.inspection import AttributeFacts, TableFacts, inspect_table
from pmw.errors import DataError
from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.values import DROPPED, Reading, values_of
from tests.pmw.data.lines import DOMAIN, HEADER, LENIENT, STRICT, fields_of, hostile_lines, written


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


def test_examples_are_the_five_most_frequent_values(tmp_path: Path) -> None:
    values = [f"v{number}" for number in range(8) for _ in range(1 + number // 2)] + ["w" * 300] * 9
    rows = "\n".join(f"1,{value},1" for value in values).encode()
    assert of(inspect(tmp_path, HEADER + rows), "sex").examples == (
        ("w" * 79 + "…", 9), ("v6", 4), ("v7", 4), ("v4", 3), ("v5", 3),
    )  # fmt: skip


@given(
    hostile_lines(),
    st.sampled_from([DOMAIN, STRICT, LENIENT]),
    st.sampled_from([CsvDialect(), CsvDialect(missing_texts=("?",)), CsvDialect(trim=True)]),
)
def test_the_facts_agree_with_the_session_and_with_each_line(
    tmp_path: Path, lines: list[bytes], domain: Domain, dialect: CsvDialect
) -> None:
    facts = inspect(tmp_path, HEADER + b"\n".join(lines), domain, dialect)
    source = as_source(TableFile(tmp_path / "table.csv", dialect), domain, None)
    assert facts.kept == source.counts(()).total == source.counts(domain.names).counts.sum()
    records, malformed = fields_of(lines, dialect)
    held = len(malformed) if domain is LENIENT else 0  # each in the cell where every value is undeclared
    assert (facts.read, facts.malformed) == (len(records) + len(malformed), len(malformed))
    assert sorted(line for lines in facts.malformed_lines.values() for line in lines) == malformed
    codes = [
        [values_of(one).encode(value) for one, value in zip(domain, row, strict=True)] for row in records
    ]
    assert facts.kept == sum(DROPPED not in row for row in codes) + held
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


@given(hostile_lines())
def test_a_domain_that_drops_nothing_keeps_every_line(tmp_path: Path, lines: list[bytes]) -> None:
    facts = inspect(tmp_path, HEADER + b"\n".join(lines), LENIENT)
    assert facts.dropped == 0
    assert facts.read == len(lines) - (lines[-1] == b"")
    counts = as_source(tmp_path / "table.csv", LENIENT, None).counts
    for attribute in LENIENT:
        found = of(facts, attribute.name)
        marginal = counts((attribute.name,)).counts
        undeclared = found.undeclared + facts.malformed
        assert marginal[attribute.base_size :].tolist() == [found.empty, undeclared]


def test_at_most_ten_malformed_lines_are_listed(tmp_path: Path) -> None:
    facts = inspect(tmp_path, HEADER + b"1,f\n" * 25)
    (told,) = facts.to_dict()["malformed_lines"]
    assert (facts.malformed, told["count"], told["lines"]) == (25, 25, list(range(2, 12)))
    parts = TableFile(tmp_path / "table.csv").parts(DOMAIN)
    assert [number for part in parts for number in part.malformed] == list(range(2, 27))


def test_a_damaged_compressed_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    whole = gzip.compress(HEADER + b"1,f,1\n" * 1000)
    damaged = "could not be read: its compression is damaged"
    for raw, told in (
        (whole[:-8] + b"\0" * 8, damaged),
        (whole[:12] + b"\xff" * 20 + whole[32:], damaged),
        (b"age,sex,income\n", damaged),
        (whole[: len(whole) // 2], "could not be read"),
    ):
        path.write_bytes(raw)
        with pytest.raises(DataError, match=told):
            inspect_table(TableFile(path), DOMAIN)


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


def test_numbers_of_every_parquet_type_are_classed_like_their_cells(
    tmp_path: Path, engine: duckdb.DuckDBPyConnection
) -> None:
    kinds = ("TINYINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(5, 1)", "VARCHAR")
    chosen = ", ".join(f'a::{kind} AS "{kind} {place}"' for kind in kinds for place in range(2))
    rows = "(VALUES ('0'), ('1'), ('7'), ('9'), ('12'), (NULL)) AS t(a)"
    engine.execute(f"COPY (SELECT {chosen} FROM {rows}) TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
    declared: tuple[Attribute, ...] = (IntegerAttribute("a", 1, 9), NumericAttribute("a", (1.0, 9.0)))
    domain = Domain(
        tuple(replace(one, name=f"{kind} {place}") for kind in kinds for place, one in enumerate(declared))
    )
    for facts in inspect_table(TableFile(tmp_path / "t.parquet"), domain).attributes:
        counted = (facts.empty, facts.clipped_low, facts.clipped_high, facts.undeclared)
        assert counted == (1, 1, 1, 0), facts.name


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


def test_absent_columns_are_told_and_nothing_is_counted(tmp_path: Path) -> None:
    facts = inspect(tmp_path, b"age,sexx,age,income\n1,f,1,1\n")
    assert (facts.absent, facts.ignored) == (("age", "sex"), ("sexx",))
    assert (facts.read, facts.kept, facts.attributes) == (0, 0, ())


def test_the_form_is_json_and_carries_the_warning(tmp_path: Path) -> None:
    form = inspect(tmp_path, HEADER + b"1,\x00,1\n2,f,1\n3\n").to_dict()
    assert list(form) == [
        "warning", "read", "kept", "dropped", "malformed", "malformed_lines", "ignored_columns",
        "absent_columns", "attributes",
    ]  # fmt: skip
    assert "not private" in form["warning"]
    again = json.loads(json.dumps(form))
    assert again["attributes"][1]["examples"] == [{"value": "\x00", "count": 1}]
    assert again == form


def test_parts_hold_the_declared_columns_only(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b'note,income,sex,age\nx,1,f,2\ny,2,"m",3\n')
    (part,) = TableFile(path).parts(DOMAIN)
    held = {name: column.series().tolist() for name, column in part.columns.items()}
    assert held == {"age": ["2", "3"], "sex": ["f", "m"], "income": ["1", "2"]}
