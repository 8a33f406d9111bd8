"""Exports: the format asked for, whole or not at all, with a manifest that names it."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import pmw
from pmw.errors import ReleaseError
from pmw.public.contract import guarantee
from pmw.public.export import RowPlan, export
from pmw.public.export.manifest import measurements_manifest, table_manifest
from queries import Domain, parse_schema
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
