"""The kinds benchmark: a line for each kind of evidence, with the standard error over sessions."""

from __future__ import annotations

import json

import pytest

from benchmarks import kinds

MORE = {"kept", "paid", "repeated, free", "repeated, paid again", "certified"}


def test_each_kind_has_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kinds", "--sessions", "2"])
    kinds.main()
    lines = {line["kind"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    asked = set(kinds._ASKED)
    assert set(lines) == asked | {f"after finish, {kind}" for kind in asked} | MORE
    assert {line["sessions"] for line in lines.values()} == {2}
    assert lines["kept"]["answers"] + lines["paid"]["answers"] == lines["kept or paid"]["answers"] == 104
    held = [lines[kind]["coverage"] * lines[kind]["answers"] for kind in ("kept", "paid", "kept or paid")]
    assert held[0] + held[1] == pytest.approx(held[2], abs=0.01)
    assert lines["combined"]["half_width"] <= 200 < lines["kept or paid"]["half_width"]
    assert all(line["coverage"] > 0.5 for line in lines.values())


def test_bars_that_fail_together_have_the_error_of_one_bar_a_session() -> None:
    bars = [[kinds.Bar("any", 0, one, 5)] * 10 for one in (4, 6, 6, 6)]  # the first session misses with all
    scores = kinds._scores(bars)
    assert scores["answers"] == 40
    assert scores["coverage"] == 0.75
    assert scores["error"] == pytest.approx(0.25)  # the standard deviation of 0, 1, 1, 1 is 1/2
    assert scores["below"] is False


def test_what_is_below_beyond_chance_is_told() -> None:
    sessions = [[kinds.Bar("any", 0, 4 if one % 5 else 6, 5)] for one in range(100)]
    assert kinds._scores(sessions)["below"] is True
