"""``pmw offline``: what it writes and prints, and that bad input leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.pmw.cli.commands import TABLE, Run

OFFLINE = ("offline", "--workload", "marginals:1", *TABLE, "--output", "made.csv", "--epsilon", "1")


def test_a_release_is_a_table_its_manifest_and_its_cost_by_rounds(people: Path, run: Run) -> None:
    told = run.told(*OFFLINE, "--delta", "1e-9", "--rounds", "3", "--threshold", "0.001", "--rows", "500")
    lines = told.splitlines()
    assert lines[0] == "3 of at most 3 rounds over 20 questions."
    assert "above T = 0.001: no round is left, so nothing bounds the errors that remain." in lines[1]
    events = [line.split()[1] for line in lines if line[:1].isdigit() and "%" in line]
    assert events == ["total", *(["selection", "measurement"] * 3)]
    assert lines[-2] == "Wrote 500 synthetic rows to made.csv, and a manifest beside it."
    assert lines[-1].startswith("Guarantee: differential privacy with epsilon = 1, delta = 1e-09, for adding")
    assert len(pd.read_csv(people / "made.csv")) == 500
    manifest = json.loads((people / "made.csv.manifest.json").read_text())
    assert manifest["rows"] == 500
    assert sorted(file.name for file in people.iterdir()) == [
        "made.csv", "made.csv.manifest.json", "people.csv", "people.toml",
    ]  # fmt: skip


def test_a_small_error_ends_it_and_leaves_the_rest_of_the_budget(people: Path, run: Run) -> None:
    early = (*OFFLINE, "--rounds", "10", "--threshold", "100000", "--output", "made.parquet")
    told = run.told(*early)
    assert "1 of at most 10 rounds" in told
    assert "at most T = 100,000: the model is returned." in told
    assert "At 95% confidence no question of the workload is off by more than " in told
    form = run.form(*early, "--force")
    assert (form["rounds"], form["most_rounds"], form["ended_early"]) == (1, 10, True)
    assert form["share"] == pytest.approx(0.01 + 0.99 / 10, abs=1e-6)
    assert [line["event"] for line in form["ledger"]["entries"]] == ["total", "selection", "measurement"]
    assert form["largest_error"] > form["last_error"]
    assert (people / "made.parquet").read_bytes()[:4] == b"PAR1"


def test_a_workload_may_be_a_file_of_questions(people: Path, run: Run) -> None:
    (people / "asked.jsonl").write_text(
        '{"where": "age >= 30"}\n\n{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}\n'
    )
    assert run.form(*OFFLINE, "--workload", "asked.jsonl")["questions"] == 3
