"""The benchmark of kinds: columns as other programs write them have the kinds that they should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import kinds_of_files


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    kinds_of_files.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_columns_of_other_programs_have_the_kinds_that_they_should(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kinds_of_files"])
    (line,) = told(capsys)
    assert line["columns"] == len(kinds_of_files.MADE)
    assert line["wrong"] == {}


def test_each_csv_file_of_a_folder_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("age,when\n" + "31,10:20\n" * 30)
    (tmp_path / "b.txt").write_text("age\n31\n")
    monkeypatch.setattr("sys.argv", ["kinds_of_files", "--folder", str(tmp_path)])
    (line,) = told(capsys)
    assert (line["file"], line["kinds"]) == ("a.csv", {"integer": 1, "time": 1})
