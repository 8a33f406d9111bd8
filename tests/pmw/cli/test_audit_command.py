"""``pmw audit``: a line per mechanism, verdicts that are no failure, and a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


def test_a_line_of_json_for_each_mechanism(run: Run) -> None:
    result = run("audit", "above-threshold", "algorithm-5", "--runs", "500", "--seed", "1", "--json")
    assert result.exit_code == 0
    sound, flawed = (json.loads(line) for line in result.stdout.splitlines())
    assert list(sound)[:4] == ["mechanism", "claimed", "found", "verdict"]
    assert sound["mechanism"] == "above-threshold"
    assert sound["claimed"] == 1.0
    assert sound["found"] == pytest.approx(1.0, abs=1e-6)
    assert sound["verdict"] == sound["expected"] == "sound"
    assert sound["runs"] == 500
    assert flawed["verdict"] == flawed["expected"] == "violates"
    assert flawed["found"] == "inf"
    assert flawed["flaw"] == "no noise on tests"
    assert flawed["instance"] == {"first": [0, 1], "second": [1, 0], "threshold": 0}


def test_a_violation_is_no_failure_and_the_table_says_why(run: Run) -> None:
    result = run("audit", "exponential", "algorithm-4", "--exact")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["mechanism", "claimed", "found", "by", "runs", "verdict"]
    assert lines[1].split() == ["exponential", "1.3333", "1.3333", "sound"]
    assert lines[2].split()[:4] == ["algorithm-4", "1.0000", "6.2500", "violates"]
    assert lines[2].endswith("test noise does not grow with c")
    assert "1 of 1 keep their claim; 1 of 1 flawed ones are shown to violate it, as expected." in lines
    assert "by runs:" not in result.stdout


def test_the_output_that_convicts_is_shown_on_demand(run: Run) -> None:
    short = run("audit", "algorithm-3", "exponential", "--exact").stdout
    shown = run("audit", "algorithm-3", "exponential", "--exact", "--show").stdout
    words = (
        "values on one table  0 x 16, 1",
        "values on the other  1 x 16, 0",
        "sensitivity          1: the most that one record changes a value",
        "thresholds           0 x 17",
        "output               below x 16, the value 0",
        "its probability      6.2e-09 on one table, 3.429e-12 on the other",
        "log-ratio            7.5000, claimed 1.0000",
    )
    for line in words:
        assert f"  {line}" in shown.splitlines()
        assert line not in short
    assert "exponential: " not in shown
    assert all(len(line) <= 100 for line in shown.splitlines())
    form = json.loads(run("audit", "algorithm-3", "--exact", "--json").stdout)["witness"]
    assert form["first"] == [0] * 16 + [1]
    assert form["second"] == [1] * 16 + [0]
    assert form["output"] == [None] * 16 + [0]
    assert form["sensitivity"] == 1
    assert form["thresholds"] == [0] * 17
    assert form["probabilities"][0] > form["probabilities"][1] > 0
    assert form["log_ratio"] == pytest.approx(7.5)


def test_runs_alone_certify(run: Run) -> None:
    result = run("audit", "no-threshold-noise", "--statistical", "--runs", "2000", "--seed", "3", "--json")
    form = json.loads(result.stdout)
    assert form["exact"] is None
    assert form["found"] == form["certified"] > form["claimed"]
    again = run("audit", "no-threshold-noise", "--statistical", "--runs", "2000", "--seed", "3", "--json")
    assert json.loads(again.stdout)["occurrences"] == form["occurrences"]


def test_a_picture_is_drawn_and_not_overwritten(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    arguments = ("audit", "exponential", "algorithm-5", "--exact", "--plot", "audit.png")
    assert run(*arguments).stdout.endswith("Wrote audit.png.\n")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    refused = run(*arguments)
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert run(*arguments, "--force").exit_code == 0
