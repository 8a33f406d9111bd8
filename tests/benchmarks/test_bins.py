"""The bins benchmark: a line for each schema, whose answer holds the truth."""

from __future__ import annotations

import json

import pytest

from benchmarks import bins


def test_each_schema_has_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--records", "3000", "--queries", "10", "--seeds", "1"]
    monkeypatch.setattr("sys.argv", ["bins", *few])
    bins.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["schema"] for line in lines] == ["default", "state-categorical", "age-width-5"]
    for line in lines:
        low, high = line["answer"]["interval"]
        assert low <= line["truth"] <= high
    monkeypatch.setattr("sys.argv", ["bins", *few, "--bins", "30", "--schema", "default"])
    bins.main()
    assert json.loads(capsys.readouterr().out)["records"] == 3000
