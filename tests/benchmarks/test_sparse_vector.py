from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.sparse_vector import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.delenv("PMW_DATA_DIR", raising=False)
    monkeypatch.setattr(sys, "argv", ["sparse_vector", *arguments])
    main()


def test_lines_are_json_and_end_with_their_cost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--part", "variants")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["algorithm"] for line in lines[:-1]] == [1, 2, 3, 4, 5, 6, 7]
    assert lines[-1]["part"] == "cost"


def test_absent_counts_are_named_and_the_others_selected_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--limit", "25", "--runs", "2", "--text")
    run(monkeypatch, "--part", "selection", "--counts", "zipf_1m_10k", "--counts", "retail", *few)
    printed = capsys.readouterr()
    assert "skipped retail: no data folder" in printed.err
    assert "zipf_1m_10k (exact): false negative rate, by c" in printed.out
    assert "exponential mechanism" in printed.out


def test_tables_of_text_have_a_row_for_each_variant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--part", "variants", "--text")
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split()[:2] == ["algorithm", "origin"]
    assert len(rows) == 8


def test_figures_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    few = ("--limit", "25", "--limit", "50", "--runs", "2")
    run(monkeypatch, "--part", "selection", "--counts", "zipf_1m_10k", *few, "--plot", str(tmp_path))
    assert "selection" in capsys.readouterr().out
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["sparse-offline.png", "sparse-online.png", "sparse-scores.png"]
    assert all(path.stat().st_size > 5_000 for path in tmp_path.iterdir())
