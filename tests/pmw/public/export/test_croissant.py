"""Croissant: columns by their declaration, the guarantee in full, and what a reader of the format says."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pmw
from pmw.disk import write_json
from pmw.public.export import RowPlan, croissant_form
from queries import parse_schema

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
