"""Files of rows: text and Parquet as other readers take them, and their Croissant metadata."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import as_source
from pmw.disk import write_json
from pmw.errors import ReleaseError
from pmw.model.dense import DenseDistribution
from pmw.model.fitting import refit, step
from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    SingleMeasurement,
)
from pmw.privacy.noise import NoiseDistribution
from pmw.public.codec import read
from pmw.public.export import RowPlan, croissant_form, export
from pmw.public.export.manifest import table_manifest
from pmw.public.export.rows import column_type, write_parquet
from pmw.public.state import PublicState
from queries import (
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    TimeAttribute,
    all_marginals,
    decode_records,
    encode_records,
    parse_schema,
)
from tests import worlds


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


@pytest.mark.parametrize("asked", ["csv", "parquet", "measurements", "model"])
def test_an_export_is_written_whole_or_not_at_all_and_over_nothing_unless_told(
    session: pmw.Session, tmp_path: Path, asked: str
) -> None:
    target, beside = tmp_path / "t", tmp_path / "t.manifest.json"
    target.write_text("kept")
    with pytest.raises(ReleaseError, match="t exists; choose another name, or overwrite it with --force"):
        session.export(target, format=asked)
    assert target.read_text() == "kept"
    session.export(target, format=asked, force=True)
    target.unlink()
    if beside.exists():
        with pytest.raises(ReleaseError, match=r"t.manifest.json exists"):
            session.export(target, format=asked)
        beside.unlink()
    with pytest.raises(ReleaseError, match="absent/t: the file cannot be written: No such file or directory"):
        session.export(tmp_path / "absent" / "t", format=asked)
    with pytest.MonkeyPatch.context() as patch:
        full = Mock(side_effect=OSError(28, "No space left on device"))
        patch.setattr("pmw.disk.synchronise", full)
        with pytest.raises(ReleaseError, match="t: the file cannot be written: No space left"):
            session.export(target, format=asked)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused(session: pmw.Session, tmp_path: Path) -> None:
    refused: list[tuple[str, RowPlan | None, str | None, str]] = [
        ("t.json", None, None, r"ends in \.csv, \.parquet, \.pq"),
        ("t.csv.gz", None, None, r"ends in \.csv, \.parquet, \.pq"),
        ("t", None, "xlsx", "expected a format of csv, parquet, measurements, model, got 'xlsx'"),
        ("t", RowPlan(seed=1), "measurements", "measurements have no rows to draw; leave out rows, method"),
    ]
    for name, plan, asked, words in refused:
        with pytest.raises(ReleaseError, match=words):
            session.export(tmp_path / name, plan, format=asked)
    domain = Domain(tuple(CategoricalAttribute(name, ("x",)) for name in ("age", "Age")))
    with pytest.raises(ReleaseError, match="'age' would stand there twice; choose --format csv"):
        write_parquet(pd.DataFrame({"age": ["x"], "Age": ["x"]}), domain, tmp_path / "u.parquet")
    assert list(tmp_path.iterdir()) == []


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
    if written == "measurements":
        assert (manifest["content"], manifest["measurements"]) == ("online-pmw measurements", 4)
        assert not {"rows", "method", "row_seed"} & {*manifest}
    assert (start == b"PAR1", start == b"age,", start[:1] == b"{") == (
        written == "parquet", written == "csv", written == "measurements",
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.manifest.json"]


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


def test_every_export_names_the_pairs_that_it_does_not_have(tmp_path: Path) -> None:
    with worlds.JOINED.opened(seed=1) as session:
        session.measure(["c", "a"])
        formats = ("csv", "parquet", "measurements", "model")
        exports = [session.export(tmp_path / f"t.{one}", format=one)["pairs"] for one in formats]
    for pairs in exports:
        assert (pairs["number"], pairs["held"]) == (10, 1)
        assert ["a", "c"] not in pairs["not_held"]
        assert pairs["not_held"][:2] == [["a", "b"], ["a", "d"]]


def test_rows_are_the_same_in_every_format_and_a_parquet_file_holds_its_manifest(
    session: pmw.Session, tmp_path: Path
) -> None:
    plan, path = RowPlan(rows=200, seed=3), tmp_path / "it's.parquet"
    session.export(tmp_path / "t.csv", plan)
    manifest = session.export(path, plan)
    with duckdb.connect() as connection:
        given = {"path": str(path)}
        parquet = connection.execute("SELECT * FROM read_parquet($path)", given).df()
        found = connection.execute("SELECT key, value FROM parquet_kv_metadata($path)", given)
        ((key, value),) = found.fetchall()
    assert key == b"online-pmw.manifest"
    assert json.loads(value) == manifest == json.loads((tmp_path / f"{path.name}.manifest.json").read_text())
    csv = pd.read_csv(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(parquet.convert_dtypes(), csv.convert_dtypes(), check_dtype=False)


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
    """And a file with a cell for every record is read into the cells that it was drawn from."""
    domain = Domain(tuple(replace(one, missing=missing, other=other) for one, _ in ATTRIBUTES))
    records = every_cell(domain)
    frame = decode_records(records, np.random.default_rng(1))
    kinds, rows = written(frame, domain, tmp_path / "t.parquet")
    assert kinds == ["VARCHAR" if other else kind for _, kind in ATTRIBUTES]
    assert kinds == [column_type(attribute) for attribute in domain]
    for place, (name, kind) in enumerate(zip(domain.names, kinds, strict=True)):
        expected = [plain(value) for value in frame[name]]
        if kind == "VARCHAR":
            texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in expected]
            expected = [None if value is None else text for value, text in zip(expected, texts, strict=True)]
        if kind == "DATE":
            expected = [value.date() if isinstance(value, datetime) else value for value in expected]
        assert [row[place] for row in rows] == expected
        assert (None in expected) == missing
    if not other:
        return
    frame.to_csv(tmp_path / "t.csv", index=False)
    sources = [as_source(tmp_path / name, domain, None) for name in ("t.parquet", "t.csv")]
    again = encode_records(frame, domain)
    for name, drawn, column in zip(domain.names, records.columns, again.columns, strict=True):
        for source in sources:
            assert (
                source.counts((name,)).counts.tolist() == np.bincount(drawn, None, domain[name].size).tolist()
            )
        assert column.tolist() == drawn.tolist()


def test_awkward_names_are_kept(tmp_path: Path) -> None:
    names = ('a "b"', "c;d", "select", "c0", "ä'")
    domain = Domain(tuple(CategoricalAttribute(name, ("x",)) for name in names))
    frame = pd.DataFrame({name: ["x"] for name in names})
    assert written(frame, domain, tmp_path / "t.parquet")[1] == [("x",) * 5]


# --- croissant ------------------------------------------------------------------------------------------


VISITS = Domain(
    (
        IntegerAttribute("age", 0, 99, missing=True),
        NumericAttribute("height, in m", (0, 1.5, 2.5)),
        DateAttribute("seen", date(2020, 1, 1), date(2020, 12, 31), "month", missing=True),
        TimeAttribute("start", time(6), time(21, 59, 59)),
        CategoricalAttribute("smoker", (True, False)),
        CategoricalAttribute("region", tuple("abcdefghi"), other=True),
    ),
    name="visits of 2020",
)


@pytest.fixture(scope="module")
def visits() -> Iterator[pmw.Session]:
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
    with pmw.open_session(frame, VISITS, epsilon=5, delta=1e-9, options=pmw.Options(seed=1)) as session:
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


# --- measurements -------------------------------------------------------------------------------------------


def noise_of(entry: dict[str, Any]) -> NoiseDistribution:
    noise: NoiseDistribution = read(NoiseDistribution, entry["noise"])
    return noise


def read_measurements(form: dict[str, Any]) -> list[SingleMeasurement]:
    """Return the measurements of a file in the order of their release."""
    domain, unit = parse_schema(form["schema"]), form["units_per_record"]
    found: list[tuple[int, SingleMeasurement]] = []
    for entry in form["marginals"]:
        units = np.array(entry["values"]).reshape(entry["shape"]) * unit
        assert np.array_equal(units, np.round(units))
        noise = noise_of(entry)
        marginal = MarginalMeasurement(tuple(entry["scope"]), units.astype(np.int64), noise)
        found.append((entry["position"], marginal))
    for entry in form["trees"]:
        tree = HierarchicalHistogram(
            entry["levels"][-1] - entry["special_cells"],
            entry["special_cells"],
            entry["branching"],
            len(entry["levels"]),
        )
        units = (np.array(entry["values"]) * unit).astype(np.int64)
        noise = noise_of(entry)
        found.append((entry["position"], HierarchicalMeasurement(tuple(entry["scope"]), tree, units, noise)))
    for entry in form["queries"]:
        query = LinearQuery.from_dict(domain, entry["query"])
        value, model = int(entry["value"] * unit), int(entry["model_value"] * unit)
        found.append((entry["position"], QueryMeasurement(query, value, noise_of(entry), model)))
    return [measurement for _, measurement in sorted(found, key=lambda item: item[0])]


def rebuilt(form: dict[str, Any]) -> DenseDistribution:
    """Fit a model to the numbers of a file, in the order of their release."""
    measurements = read_measurements(form)
    opening = sum(not isinstance(measurement, QueryMeasurement) for measurement in measurements)
    model = DenseDistribution.uniform(parse_schema(form["schema"]), form["total"]["value"])
    model = refit(model, measurements[:opening])
    for number, measurement in enumerate(measurements[opening:], start=opening + 1):
        if form["model"]["update"] == "refit":
            model = refit(model, measurements[:number])
        elif isinstance(measurement, QueryMeasurement):
            model = step(
                model,
                measurement.query,
                learning_rate=form["model"]["learning_rate"],
                increase=measurement.units > measurement.model_units,
            )
    return model


def exported(state: PublicState, path: Path) -> dict[str, Any]:
    export(state, path, format="measurements")
    form: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return form


@pytest.mark.parametrize(
    ("world", "choices"),
    [
        (worlds.PEOPLE, {"threshold": 40.0, "update": pmw.UpdateRule.STEP, "opening": pmw.Opening.NONE}),
        (worlds.PEOPLE, {"threshold": 40.0}),
        (worlds.INCOMES, {"threshold": 20.0, "update_limit": 5, "composition": pmw.Composition.ZCDP}),
    ],
)
def test_the_model_is_built_again_from_the_file_whose_numbers_are_in_records(
    world: worlds.World, choices: dict[str, Any], tmp_path: Path
) -> None:
    chosen = {"test": pmw.TestKind.QUERY, "seed": 3, "update_limit": 12, **choices}
    with world.opened(epsilon=3, **chosen) as session:
        session.ask_all(all_marginals(world.domain, order=2))
        state = session.state
    form = exported(state, tmp_path / "m.json")
    assert list(form) == [
        "content", "format_version", "program_version", "table", "guarantee", "epsilon_cap", "delta",
        "neighboring_relation", "records_per_person", "budget_share", "seeded", "typical_errors", "test",
        "schema",
        "units_per_record", "model", "total", "bins", "marginals", "residuals", "trees", "queries",
    ]  # fmt: skip
    total = state.total
    assert form["total"] == {
        "value": total.value, "estimate": total.estimate, "standard_deviation": total.deviation,
    }  # fmt: skip
    model = rebuilt(form)
    assert model.total == state.model.total
    np.testing.assert_allclose(model.values, state.model.marginal(world.domain.names), rtol=1e-9, atol=1e-9)
    assert len(form["queries"]) == state.version >= 3
    assert len(form["marginals"]) + len(form["trees"]) == len(state.opening)
    query, measured = form["queries"][0], state.measured[0]
    assert isinstance(measured, QueryMeasurement)
    assert (query["value"], query["words"]) == (measured.value, measured.query.describe())
    for tree in form["trees"]:
        assert tree["levels"] == [8, 26, 101]
        assert tree["cells"] == state.opening[0].values.tolist()
    for marginal in form["marginals"][:1]:
        if not form["trees"]:
            assert (marginal["scope"], marginal["shape"]) == (["age"], [10])
            assert sum(marginal["values"]) == pytest.approx(3000, abs=200)
            assert marginal["standard_deviation"] == pytest.approx(math.sqrt(state.opening[0].variance))


@pytest.mark.parametrize("opening", [pmw.Opening.PAIRS, pmw.Opening.TRIPLES])
def test_residuals_come_with_their_rows_and_the_noise_that_was_drawn(
    opening: pmw.Opening, tmp_path: Path
) -> None:
    with worlds.YEARS.opened(opening=opening, epsilon=3, seed=3) as session:
        state = session.state
    form = exported(state, tmp_path / "m.json")
    together = [entry for entry in form["residuals"] if len(entry["scope"]) > 1]
    assert [tuple(entry["scope"]) for entry in together] == [one.scope for one in state.marginals]
    assert not any(len(entry["scope"]) > 1 for entry in form["marginals"])
    for entry, measured in zip(together, state.marginals, strict=True):
        assert isinstance(measured, ResidualMeasurement)
        # What the numbers say of the residual, by the file alone.
        said, centred = np.array(entry["numbers"]) / entry["factor"], np.array(entry["values"])
        for axis, rows in enumerate(entry["rows"]):
            said = np.moveaxis(np.tensordot(np.linalg.pinv(np.array(rows)), said, (1, axis)), 0, axis)
            centred = centred - centred.mean(axis=axis, keepdims=True)
        np.testing.assert_allclose(said, centred, atol=1e-6)
        assert noise_of(entry) == measured.drawn
        assert entry["standard_deviation"] == float(measured.drawn.sigma)
