"""Curves: a line for each point beside its floor, and figures of two; no time is tested."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import curves
from benchmarks.runner import alone


def points(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *given: str) -> list[Any]:
    monkeypatch.setattr("sys.argv", ["curves", *given])
    curves.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_point_has_a_line_and_two_curves_a_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, value in (
        ("_ATTRIBUTES", (4,)),
        ("_ROUNDS", 1),
        ("_SETTLING", 50),
        ("_NEW", 50),
        ("_ARRAYS", 50),
    ):
        monkeypatch.setattr(curves, name, value)
    monkeypatch.setattr(curves, "alone", lambda work: work())  # another process would know none of these
    small = ["--most-records", "20000", "--most-questions", "1000", "--plot", str(tmp_path)]
    wanted = ("domain", "records", "questions", "positives")
    named = [argument for curve in wanted for argument in ("--curve", curve)]
    lines = points(monkeypatch, capsys, *named, *small)
    assert list(dict.fromkeys(line["curve"] for line in lines)) == list(wanted)
    domain, records, *questions = (line for line in lines if line["curve"] != "positives")
    assert (domain["cells"], domain["records"]) == (10_000, 20_000)
    assert domain["arrays_per_s"] > 0 < domain["queries_per_s"]
    assert (records["records"], records["first_questions"]) == (10_000, 200)
    assert records["open_s"] > 0 < records["duckdb_group_by_s"]
    assert [(line["asked_as"], line["questions"]) for line in questions] == [
        ("arrays", 1000),
        ("lines", 1000),
    ]
    assert all(line["asked_before"] == 0 < line["again_per_s"] for line in questions)
    assert questions[0]["numpy_per_s"] > 0 < questions[1]["json_per_s"]
    assert all(line["file_mb"] > 0.05 for line in questions)
    assert all(line["positives"] > 0 for line in lines if line["curve"] == "positives")
    assert {file.name for file in tmp_path.iterdir()} == {"curve-questions.png", "curve-records.png"}


def test_long_and_wide_tables_have_a_line_for_each_point(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(curves, "_RECORDS", 500)
    monkeypatch.setattr(curves, "_LONGEST", (100, 2000))
    monkeypatch.setattr(curves, "_WIDEST", (3, 5))
    monkeypatch.setattr(curves, "alone", lambda work: work())
    lines = points(monkeypatch, capsys, "--curve", "cells", "--curve", "attributes", "--most-questions", "5")
    assert [(line["cells"], line["questions"]) for line in lines[:2]] == [(100, 5), (2000, 5)]
    asked = [(line["attributes"], line["opening"]) for line in lines[2:]]
    assert asked == [(3, "one-way"), (3, "pairs"), (5, "one-way"), (5, "pairs")]
    assert all(line["cpu_s_per_positive"] > 0 < line["peak_mb"] for line in lines[2:])


def test_work_has_a_process_of_its_own() -> None:
    assert alone(os.getpid) != os.getpid()
    assert alone(divmod, 7, 2) == (3, 1)


def test_a_peer_that_is_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, size in (("_TRIAD", 1000), ("_HISTOGRAM", 1000), ("_QUESTIONS", 3)):
        monkeypatch.setattr(curves, name, size)
    monkeypatch.setattr(curves, "_grown", lambda *_: [{"queries_per_s": 10, "arrays_per_s": 10**9}])
    for absent in (True, False):
        monkeypatch.setattr(curves, "_opendp_rate", lambda absent=absent: None if absent else 20.0)
        (point,) = curves._compared()
        assert (point.get("skipped") == "opendp is not installed") == absent
        assert point["arrays_over_opendp_laplace"] == (None if absent else 5e7)
        assert point["arrays_over_numpy_dots"] > 0
