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
    assert (
        "zipf_1m_10k (exact), epsilon 0.1 (the paper's):\nfalse negative rate (FNR), by c: mean (sd)"
        in printed.out
    )
    assert "score error rate over what was selected (SER, as the paper defines it)" in printed.out
    assert "score error rate, empty places as 0 (filled)" in printed.out
    assert all(len(row) <= 100 for row in printed.out.splitlines())
    assert "exponential mechanism" in printed.out


def test_tables_of_text_have_a_row_for_each_variant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--part", "variants", "--text")
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split()[:2] == ["algorithm", "origin"]
    assert len(rows) == 8


def test_a_figure_of_the_paper_is_drawn_under_its_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    few = ("--limit", "25", "--limit", "50", "--runs", "2", "--text")
    run(monkeypatch, "--figure", "3", "--figure", "5", *few)
    printed = capsys.readouterr()
    assert [path.name for path in sorted((tmp_path / "figures").iterdir())] == [
        "figure-3.png",
        "figure-5.png",
    ]
    assert "retraversal +0D" in printed.out
    assert "textbook" not in printed.out  # the methods of Figure 5 alone
    assert "skipped kosarak_first100k: no data folder" in printed.err
    assert printed.err.endswith("wrote figures/figure-3.png\nwrote figures/figure-5.png\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--figure", "4", "--part", "margins"), "leave out --part"),
        (("--figure", "2"), "--figure"),
        (("--limit", "0"), "--limit"),
        (("--figure", "4", "--counts", "retail"), "no counts to draw"),
        (("--figure", "4", "--counts", "zipf_1m_10k", "--limit", "10000"), "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *arguments)
    assert ended.value.code not in (0, None)
    assert words in capsys.readouterr().err + str(ended.value.code)


def test_the_flawed_proof_would_convict_algorithm_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--part", "flawed-proof")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()][:-1]
    found = {line["negatives"]: line["log_ratio"] for line in lines}
    assert list(found.values()) == sorted(found.values())
    assert found[8] < 0.499
    assert found[16] == found[1024] == 0.5  # epsilon/2, to four digits
    assert all(line["argued"] <= line["log_ratio"] for line in lines)
    assert lines[-1]["argued_if_fixed"] > 200
    windows = [line["window"] for line in lines]
    assert windows == sorted(windows)
    factors = [line["least_factor"] for line in lines]
    assert factors == sorted(factors, reverse=True)
