"""Files of rows: text and Parquet as other readers take them, and their Croissant metadata."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import as_source
from pmw.disk import write_json
from pmw.errors import ReleaseError
from pmw.public.contract import guarantee
from pmw.public.export import RowPlan, croissant_form, export
from pmw.public.export.manifest import measurements_manifest, table_manifest
from pmw.public.export.rows import column_type, write_parquet
from queries import (
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    decode_records,
    encode_records,
    parse_schema,
)
from tests.worlds import JOINED


def test_an_export_is_written_whole_or_not_at_all(session: pmw.Session, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    export(session.state, target, RowPlan(rows=30, seed=1))
    assert len(pd.read_csv(target)) == 30
    with pytest.raises(ReleaseError, match=r"rows.csv exists; choose another name"):
        export(session.state, target, RowPlan())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "rows.csv.manifest.json"]
    target.unlink()
    with pytest.raises(ReleaseError, match=r"rows.csv.manifest.json exists"):
        export(session.state, target, RowPlan())
    assert not target.exists()


def test_an_export_has_its_name_only_once_it_lasts(
    session: pmw.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    replace = os.replace

    def named(source: Path, target: Path) -> None:
        events.append(("named", target.name))
        replace(source, target)

    monkeypatch.setattr("pmw.disk.synchronise", lambda path: events.append(("synchronised", path.name)))
    monkeypatch.setattr(os, "replace", named)
    export(session.state, tmp_path / "rows.csv", RowPlan(rows=30, seed=1))
    name = "rows.csv"
    for _ in range(2):
        part = [("synchronised", f"{name}.partial"), ("named", name), ("synchronised", tmp_path.name)]
        assert events[:3] == part
        del events[:3]
        name = "rows.csv.manifest.json"
    assert events == []


@pytest.mark.parametrize(
    ("name", "asked", "written"),
    [
        ("t.csv", None, "csv"),
        ("t", None, "csv"),
        ("t.json", "measurements", "measurements"),
        ("t.parquet", None, "parquet"),
        ("t.PQ", None, "parquet"),
        ("t.parquet", "csv", "csv"),
        ("t.csv", "parquet", "parquet"),
        ("t.csv", "measurements", "measurements"),
    ],
)
def test_a_format_is_asked_for_or_goes_by_the_name(
    session: pmw.Session, tmp_path: Path, name: str, asked: str | None, written: str
) -> None:
    target = tmp_path / name
    manifest = session.export(target, format=asked)
    assert manifest["format"] == written
    assert json.loads((tmp_path / f"{name}.manifest.json").read_text()) == manifest
    start = target.read_bytes()[:4]
    assert (start == b"PAR1", start == b"age,", start[:1] == b"{") == (
        written == "parquet", written == "csv", written == "measurements",
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.manifest.json"]


@pytest.mark.parametrize("name", ["t.json", "t.xlsx", "t.csv.gz"])
def test_a_name_of_an_unknown_kind_needs_a_format(session: pmw.Session, tmp_path: Path, name: str) -> None:
    with pytest.raises(ReleaseError, match=r"ends in \.csv, \.parquet, \.pq"):
        session.export(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", ["csv", "parquet", "measurements"])
def test_no_format_overwrites_unless_told_or_leaves_a_part_behind(
    session: pmw.Session, tmp_path: Path, asked: str
) -> None:
    target = tmp_path / "t"
    target.write_text("kept")
    with pytest.raises(ReleaseError, match="t exists; choose another name, or overwrite it with --force"):
        session.export(target, format=asked)
    assert target.read_text() == "kept"
    session.export(target, format=asked, force=True)
    assert target.read_bytes() != b"kept"
    with pytest.raises(ReleaseError, match="absent/t: the file cannot be written: No such file or directory"):
        session.export(tmp_path / "absent" / "t", format=asked)
    with pytest.raises(ReleaseError, match="t/u: the file cannot be written: Not a directory"):
        session.export(target / "u", format=asked)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t", "t.manifest.json"]


def test_an_unknown_format_is_refused(session: pmw.Session, tmp_path: Path) -> None:
    with pytest.raises(
        ReleaseError, match="expected a format of csv, parquet, measurements, model, got 'xlsx'"
    ):
        session.export(tmp_path / "t", format="xlsx")
    assert list(tmp_path.iterdir()) == []


def test_measurements_have_no_rows_to_plan(session: pmw.Session, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="measurements have no rows to draw; leave out rows, method"):
        session.export(tmp_path / "t", RowPlan(seed=1), format="measurements")
    assert list(tmp_path.iterdir()) == []


def test_a_parquet_file_holds_its_manifest(session: pmw.Session, tmp_path: Path) -> None:
    path = tmp_path / "it's.parquet"
    manifest = session.export(path, RowPlan(rows=20, seed=3))
    with duckdb.connect() as connection:
        found = connection.execute("SELECT key, value FROM parquet_kv_metadata($path)", {"path": str(path)})
        ((key, value),) = found.fetchall()
    assert key == b"online-pmw.manifest"
    assert json.loads(value) == manifest == json.loads((tmp_path / f"{path.name}.manifest.json").read_text())


def test_rows_are_the_same_in_every_format(session: pmw.Session, tmp_path: Path) -> None:
    plan = RowPlan(rows=200, seed=3)
    for name in ("t.csv", "t.parquet", "u.parquet"):
        session.export(tmp_path / name, plan)
    with duckdb.connect() as connection:
        parquet = connection.execute(f"SELECT * FROM '{tmp_path / 't.parquet'}'").df()
    csv = pd.read_csv(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(parquet.convert_dtypes(), csv.convert_dtypes(), check_dtype=False)
    assert (tmp_path / "t.parquet").read_bytes() == (tmp_path / "u.parquet").read_bytes()


def test_a_manifest_says_what_it_is_and_what_it_guarantees(session: pmw.Session) -> None:
    none_missed: dict[str, object] = {"measured": 3, "not_reproduced": []}
    form = table_manifest(session.state, "parquet", RowPlan(seed=4), 10, none_missed)
    assert list(form) == [
        "format", "content", "format_version", "program_version", "table", "rows", "method", "row_seed",
        "marginals", "pairs",
        "model_version", "total", "guarantee", "epsilon_cap", "delta", "neighboring_relation",
        "records_per_person", "budget_share", "seeded", "typical_errors", "test", "schema",
    ]  # fmt: skip
    assert (form["format"], form["content"]) == ("parquet", "online-pmw synthetic table")
    assert form["marginals"] == none_missed
    names = session.domain.names
    every = [list(pair) for pair in itertools.combinations(names, 2)]
    assert form["pairs"] == {"number": len(every), "held": 0, "not_held": every}
    assert parse_schema(form["schema"]) == session.domain
    assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            pmw.Options(test=pmw.TestKind.QUERY),
            "adding or removing all of one person's records (at most one record)",
        ),
        (pmw.Options(test=pmw.TestKind.QUERY, records_per_person=3), "(at most 3 records)"),
        (
            pmw.Options(test=pmw.TestKind.QUERY, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE),
            "replacing all of one person's records (at most one record)",
        ),
    ],
)
def test_the_guarantee_in_words(domain: Domain, options: pmw.Options, words: str) -> None:
    from pmw.public.contract import Contract

    text = guarantee(Contract(domain, pmw.Budget.of("0.5", 1e-9), options))
    assert text.startswith("differential privacy with epsilon = 0.5, delta = 1e-09, for ")
    assert words in text
    assert "delta" not in guarantee(Contract(domain, pmw.Budget.of(1), options))


def test_a_manifest_of_measurements_has_no_rows(session: pmw.Session) -> None:
    form = measurements_manifest(session.state, "measurements")
    assert (form["format"], form["content"]) == ("measurements", "online-pmw measurements")
    assert form["measurements"] == 4
    assert not {"rows", "method", "row_seed"} & set(form)
    assert form["guarantee"] == guarantee(session.state.contract)
    assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "released.json", "session.model"])
def test_every_export_names_the_pairs_that_it_does_not_have(tmp_path: Path, name: str) -> None:
    with JOINED.opened(seed=1) as session:
        session.measure(["c", "a"])
        format = "measurements" if name.endswith("json") else None
        pairs = session.export(tmp_path / name, format=format)["pairs"]
    assert (pairs["number"], pairs["held"]) == (10, 1)
    assert ["a", "c"] not in pairs["not_held"]
    assert pairs["not_held"][:2] == [["a", "b"], ["a", "d"]]


# --- parquet --------------------------------------------------------------------------------------------


ATTRIBUTES: list[tuple[Attribute, str]] = [
    (IntegerAttribute("age", -3, 40, 5), "BIGINT"),
    (NumericAttribute("income", (0.0, 0.5, 1e9)), "DOUBLE"),
    (NumericAttribute("gain", (0, 100, 99_999), atoms=(0, 99_999), integer=True), "BIGINT"),
    (NumericAttribute("rate", (0, 0.5, 1), atoms=(0, 0.5, 0.7)), "DOUBLE"),
    (CategoricalAttribute("word", ("a\x00b", 'é, "x"', " ", "3")), "VARCHAR"),
    (CategoricalAttribute("code", (3, -1, 2**53)), "BIGINT"),
    (CategoricalAttribute("large", (3, 2**63)), "VARCHAR"),
    (CategoricalAttribute("flag", (True, False)), "BOOLEAN"),
    (CategoricalAttribute("mixed", (True, 7, "x")), "VARCHAR"),
    (DateAttribute("born", date(1999, 5, 4), date(2024, 2, 29), "year"), "DATE"),
    (
        DatetimeAttribute("seen", datetime(2023, 1, 1, 4), datetime(2023, 1, 2), "hour", "Asia/Tokyo"),
        "TIMESTAMP",
    ),
]


def every_cell(domain: Domain) -> CodedRecords:
    """Return records in which every cell of every attribute occurs; the empty ones come last."""
    length = 40
    columns = (np.arange(length) * size // length for size in domain.shape)
    return CodedRecords(domain, tuple(column.astype(np.uint8) for column in columns))


def written(frame: pd.DataFrame, domain: Domain, path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the types and the rows of a file."""
    write_parquet(frame, domain, path)
    with duckdb.connect() as connection:
        kinds = connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
        assert [kind[0] for kind in kinds] == list(domain.names)
        return [kind[1] for kind in kinds], connection.execute(f"SELECT * FROM '{path}'").fetchall()


def plain(value: object) -> object:
    """Return a value of a synthetic table as Python has it."""
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return None if pd.isna(value) else value.item() if isinstance(value, np.generic) else value  # type: ignore[call-overload]  # one value


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_types_go_by_the_declaration_and_values_come_back(tmp_path: Path, missing: bool, other: bool) -> None:
    domain = Domain(tuple(replace(one, missing=missing, other=other) for one, _ in ATTRIBUTES))
    records = every_cell(domain)
    frame = decode_records(records, np.random.default_rng(1))
    kinds, rows = written(frame, domain, tmp_path / "t.parquet")
    assert kinds == ["VARCHAR" if other else kind for _, kind in ATTRIBUTES]
    assert kinds == [column_type(attribute) for attribute in domain]
    for place, (name, kind) in enumerate(zip(domain.names, kinds, strict=True)):
        expected = [plain(value) for value in frame[name]]
        if kind == "VARCHAR":
            expected = [
                None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
                for value in expected
            ]
        if kind == "DATE":
            expected = [value.date() if isinstance(value, datetime) else value for value in expected]
        assert [row[place] for row in rows] == expected
        assert (None in expected) == missing


@pytest.mark.parametrize("missing", [False, True])
def test_a_synthetic_file_is_read_into_the_cells_that_it_was_drawn_from(
    tmp_path: Path, missing: bool
) -> None:
    domain = Domain(tuple(replace(one, missing=missing, other=True) for one, _ in ATTRIBUTES))
    records = every_cell(domain)
    frame = decode_records(records, np.random.default_rng(1))
    write_parquet(frame, domain, tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    sources = [as_source(tmp_path / name, domain, None) for name in ("t.parquet", "t.csv")]
    again = encode_records(frame, domain)
    for name, drawn, column in zip(domain.names, records.columns, again.columns, strict=True):
        expected = np.bincount(drawn, minlength=domain[name].size)
        for source in sources:
            assert source.counts((name,)).counts.tolist() == expected.tolist()
        assert column.tolist() == drawn.tolist()


def test_types_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    domain = Domain(tuple(replace(one, missing=True) for one, _ in ATTRIBUTES))
    empty = CodedRecords(domain, tuple(np.full(3, one.size - 1, dtype=np.uint8) for one in domain))
    kinds, rows = written(decode_records(empty, np.random.default_rng(1)), domain, tmp_path / "t.parquet")
    assert kinds == [kind for _, kind in ATTRIBUTES]
    assert rows == [(None,) * len(domain)] * 3
    none = CodedRecords(domain, tuple(np.empty(0, dtype=np.uint8) for _ in domain))
    kinds, rows = written(decode_records(none, np.random.default_rng(1)), domain, tmp_path / "n.parquet")
    assert (kinds, rows) == ([kind for _, kind in ATTRIBUTES], [])


def test_awkward_names_are_kept(tmp_path: Path) -> None:
    names = ('a "b"', "c;d", "select", "c0", "typed", "ä'")
    domain = Domain(tuple(CategoricalAttribute(name, ("x",)) for name in names))
    frame = pd.DataFrame({name: ["x"] for name in names})
    assert written(frame, domain, tmp_path / "t.parquet")[1] == [("x",) * 6]


def test_names_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    domain = Domain((CategoricalAttribute("age", ("x",)), CategoricalAttribute("Age", ("x",))))
    with pytest.raises(ReleaseError, match="'age' would stand there twice; choose --format csv"):
        write_parquet(pd.DataFrame({"age": ["x"], "Age": ["x"]}), domain, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


# --- croissant ------------------------------------------------------------------------------------------


HARD = """
name = "visits of 2020"
[[attributes]]
name = "age"
kind = "integer"
min = 0
max = 99
missing = true
[[attributes]]
name = "height, in m"
kind = "numeric"
edges = [0, 1.5, 2.5]
[[attributes]]
name = "seen"
kind = "date"
min = 2020-01-01
max = 2020-12-31
width = "month"
missing = true
[[attributes]]
name = "start"
kind = "time"
min = "06:00"
max = "21:59"
[[attributes]]
name = "smoker"
kind = "categorical"
values = [true, false]
[[attributes]]
name = "region"
kind = "categorical"
values = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
other = true
"""


@pytest.fixture(scope="module")
def visits() -> Iterator[pmw.Session]:
    domain = parse_schema(HARD)
    frame = pd.DataFrame(
        {
            "age": [30.0, None] * 20,
            "height, in m": [1.25, 2.0] * 20,
            "seen": [None, "2020-05-04"] * 20,
            "start": ["06:30", "8:15 pm"] * 20,
            "smoker": [True, False] * 20,
            "region": ["a", "elsewhere"] * 20,
        }
    )
    with pmw.open_session(frame, domain, epsilon=5, delta=1e-9, options=pmw.Options(seed=1)) as session:
        yield session


def described(session: pmw.Session, path: Path) -> dict[str, Any]:
    manifest = session.export(path, RowPlan(rows=40, seed=2))
    return croissant_form(path, manifest)


def test_columns_and_the_file_are_described_from_the_manifest_alone(
    visits: pmw.Session, tmp_path: Path
) -> None:
    form = described(visits, tmp_path / "visits.csv")
    (file,), (rows,) = form["distribution"], form["recordSet"]
    assert (file["contentUrl"], file["encodingFormat"]) == ("visits.csv", "text/csv")
    assert file["sha256"] == hashlib.sha256((tmp_path / "visits.csv").read_bytes()).hexdigest()
    assert [(one["name"], one["dataType"], one["description"]) for one in rows["field"]] == [
        ("age", "sc:Integer", "integer: 0 to 99; may be empty"),
        ("height, in m", "sc:Float", "numeric: 0 to 2.5"),
        ("seen", "sc:Date", "date: 2020-01-01 to 2020-12-31; may be empty"),
        ("start", "sc:Time", "time: 06:00:00 to 21:59:59"),
        ("smoker", "sc:Boolean", "categorical: true, false"),
        ("region", "sc:Text", "categorical: a, b, c, d, e, f, g, h, …; (other) is any other value"),
    ]
    assert [one["source"]["extract"]["column"] for one in rows["field"]] == list(visits.domain.names)


def test_the_guarantee_stands_where_readers_of_the_format_look(session: pmw.Session, tmp_path: Path) -> None:
    form = described(session, tmp_path / "t.parquet")
    assert form["distribution"][0]["encodingFormat"] == "application/x-parquet"
    promised = session.guarantee[1:]
    assert promised in form["rai:personalSensitiveInformation"]
    assert promised in form["description"]
    assert "6 pairs of attributes" in form["rai:dataLimitations"]
    assert not {"license", "creator", "url", "citeAs", "datePublished"} & form.keys()


@pytest.mark.filterwarnings("default::DeprecationWarning")  # of rdflib, by which it reads
@pytest.mark.parametrize("name", ["all visits.csv", "visits.parquet"])
def test_a_reader_of_the_format_loads_the_rows(
    visits: pmw.Session, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = pytest.importorskip("mlcroissant", reason="mlcroissant comes with the extra fuzz")
    caplog.set_level(logging.WARNING)
    target = tmp_path / f"{name}.croissant.json"
    write_json(target, described(visits, tmp_path / name))
    dataset = reader.Dataset(target)
    assert "error" not in dataset.metadata.ctx.issues.report()
    assert "is not standard" not in caplog.text
    rows = list(dataset.records("rows"))
    assert len(rows) == 40
    assert set(rows[0]) == {f"rows/{place}" for place in range(5)}
    assert {row["rows/3"] for row in rows} == {True, False}
