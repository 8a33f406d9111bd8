"""``pmw audit``: a line per mechanism, verdicts that are no failure, and a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pmw.cli.commands import Run


def test_a_line_of_json_for_each_mechanism(run: Run) -> None:
    names = ("above-threshold", "algorithm-5")
    sound, flawed = run.forms("audit", *names, "--runs", "500", "--seed", "1", "--json")
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
    form = run.form("audit", "no-threshold-noise", "--statistical", "--runs", "2000", "--seed", "3")
    assert form["exact"] is None
    assert form["found"] == form["certified"] > form["claimed"]


def test_a_violation_is_no_failure_and_the_table_says_why(run: Run) -> None:
    shown = run.told("audit", "exponential", "algorithm-4", "--exact")
    lines = shown.splitlines()
    assert lines[0].split() == ["mechanism", "claimed", "found", "by", "runs", "verdict"]
    assert lines[1].split() == ["exponential", "1.3333", "1.3333", "sound"]
    assert lines[2].split()[:4] == ["algorithm-4", "1.0000", "6.2500", "violates"]
    assert lines[2].endswith("test noise does not grow with c")
    assert "1 of 1 keep their claim; 1 of 1 flawed ones are shown to violate it, as expected." in lines
    assert "by runs:" not in shown


def test_the_output_that_convicts_is_shown_on_demand(run: Run) -> None:
    short = run.told("audit", "algorithm-3", "exponential", "--exact")
    shown = run.told("audit", "algorithm-3", "exponential", "--exact", "--show")
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
    form = run.form("audit", "algorithm-3", "--exact")["witness"]
    assert form["first"] == [0] * 16 + [1]
    assert form["second"] == [1] * 16 + [0]
    assert form["output"] == [None] * 16 + [0]
    assert form["thresholds"] == [0] * 17
    assert form["probabilities"][0] > form["probabilities"][1] > 0


def test_a_picture_is_drawn_and_not_overwritten(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    arguments = ("audit", "exponential", "algorithm-5", "--exact", "--plot", "audit.png")
    assert run.told(*arguments).endswith("Wrote audit.png.\n")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert "--force" in run.refused(*arguments)
    run.told(*arguments, "--force")
