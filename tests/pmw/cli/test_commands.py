"""Every command: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

from pmw.session.maintenance import read_session
from pmw.session.opening import resume_session
from pmw.session.store.locking import SessionLock

Run = Callable[..., Result]
OPEN = ("open", "study.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")


def test_opening_tells_what_there_is_what_it_promises_and_what_comes_next(people: Path, run: Run) -> None:
    result = run(*OPEN, "--test", "query", "--delta", "1e-9")
    assert (result.exit_code, result.stderr) == (0, "")
    opened, promise, following = result.stdout.splitlines()
    assert opened.startswith("Opened study.pmw over 'people': 4 attributes, 240 cells, about ")
    assert promise.startswith("Guarantee: differential privacy with epsilon = 1, delta = 1e-09, for adding")
    assert promise.endswith("; it covers everything this session releases, however often it is asked.")
    assert following == "Next: pmw ask study.pmw \"region = 'north' AND member = TRUE\""


LINES = """\
{"id": 1, "where": "age BETWEEN 30 AND 39 AND sex = 'Female'"}
{"id": "two", "where": {"age": {"between": [30, 39]}, "sex": {"in": ["Female"]}}}
{"id": 3, "where": "agee > 3"}
not json
{"where": {"region": {"eq": "nowhere"}}}

{"id": 6, "where": ""}
{"id": 7, "where": "age BETWEEN 40 AND 30"}
{"id": 8, "where": "age >= 30", "request_id": "a"}
{"id": 9, "where": "age >= 31", "request_id": "a"}
{"id": 10, "where": "age >= 30", "request_id": "a"}
"""


def test_a_stream_answers_each_line_in_order_and_goes_on_after_a_bad_one(study: Path, run: Run) -> None:
    result = run("ask", "study.pmw", "--stream", stdin=LINES)
    assert result.exit_code == 0
    forms = [json.loads(line) for line in result.stdout.splitlines()]
    assert [form["id"] for form in forms] == [1, "two", 3, None, None, 6, 7, 8, 9, 10]
    assert {**forms[0], "id": None} == {**forms[1], "id": None}
    errors = {form["id"]: form["error"] for form in forms if "error" in form and form["id"] is not None}
    assert errors[3] == {
        "code": "unknown_attribute",
        "message": "unknown attribute 'agee'; declared are age, sex, region, member; did you mean 'age'?",
        "position": 0,
    }
    assert errors[7]["code"] == "empty_range"
    assert errors[9]["code"] == "bad_request"
    assert forms[3]["error"]["code"] == "bad_request"
    assert forms[4]["error"]["position"] == "where.region.eq"
    assert {**forms[7], "id": 10} == forms[9]
    _, status = read_session(study)
    assert status.queries_answered == 5


def test_a_strict_stream_tells_of_refused_questions_in_its_exit_code(
    study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.cli.answering._BATCH", 2)
    lines = LINES + '{"where": ""}\n'  # the last batch is answered
    assert run("ask", "study.pmw", "--stream", "--strict", stdin=lines).exit_code == 4
    assert run("ask", "study.pmw", "--stream", "--strict", stdin='{"where": "age >= 30"}').exit_code == 0


def test_strict_tells_of_an_exhausted_session(people: Path, run: Run) -> None:
    run(*OPEN, "--test", "query", "--update-limit", "1", "--threshold", "0.5")
    questions = "".join(
        json.dumps({"where": f"age >= {age} AND member = {member}"}) + "\n"
        for age in range(24, 60, 4)
        for member in ("TRUE", "FALSE")
    )
    run("ask", "study.pmw", "--stream", stdin=questions * 2)
    result = run("ask", "study.pmw", "age >= 36 AND sex = 'Male' AND region = 'east'", "--strict")
    assert result.exit_code == 3
    assert "without an error bar" in result.stdout
    assert run("ask", "study.pmw", "age >= 40 AND sex = 'Male' AND region = 'east'").exit_code == 0


def test_a_status_can_be_drawn(study: Path, run: Run) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    run("ask", "study.pmw", "age >= 40 AND member = TRUE")
    result = run("status", "study.pmw", "--plot", "study.png")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == run("status", "study.pmw").stdout + "Wrote study.png.\n"
    assert (study.parent / "study.png").read_bytes().startswith(b"\x89PNG")
    again = run("status", "study.pmw", "--plot", "study.png", "--json")
    assert again.exit_code == 1
    assert again.stdout == ""
    assert again.stderr == "Error: study.png exists; choose another name, or overwrite it with --force\n"
    forced = run("status", "study.pmw", "--plot", "study.png", "--json", "--force")
    assert forced.exit_code == 0
    assert forced.stdout == run("status", "study.pmw", "--json").stdout


def test_a_status_is_drawn_while_the_session_is_in_use_and_without_its_table(study: Path, run: Run) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    (study.parent / "people.csv").unlink()
    with resume_session(study):
        assert run("status", "study.pmw", "--plot", "study.svg").exit_code == 0
    assert "<svg" in (study.parent / "study.svg").read_text()


def test_without_matplotlib_the_status_names_the_extra(
    study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("status", "study.pmw", "--plot", "study.png")
    assert result.exit_code == 1
    assert result.stderr == "Error: pictures need matplotlib: in a checkout, pip install '.[plots]'\n"
    assert not (study.parent / "study.png").exists()
    assert run("status", "study.pmw").exit_code == 0


def test_a_picture_never_overwrites_the_session(study: Path, run: Run) -> None:
    (study.parent / "study.png").symlink_to(study)
    result = run("status", "study.pmw", "--plot", "study.png", "--force")
    assert result.exit_code == 2
    assert "the picture would overwrite the session; name another file" in result.stderr
    assert run("status", "study.pmw").exit_code == 0


def test_export_writes_rows_and_a_manifest(textbook_study: Path, run: Run) -> None:
    result = run("export", "study.pmw", "--output", "rows.csv", "--seed", "4", "--rows", "50")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "Wrote 50 synthetic rows to rows.csv, and rows.csv.manifest.json beside it."
    )
    rows = pd.read_csv(textbook_study.parent / "rows.csv")
    assert list(rows.columns) == ["age", "sex", "region", "member"]
    manifest = json.loads((textbook_study.parent / "rows.csv.manifest.json").read_text())
    assert (manifest["rows"], manifest["row_seed"], manifest["method"]) == (50, 4, "systematic rounding")
    assert manifest["budget_share"] == pytest.approx(0.11, abs=0.001)
    again = run("export", "study.pmw", "--output", "rows.csv")
    assert again.exit_code == 1
    assert again.stderr == "Error: rows.csv exists; choose another name, or overwrite it with --force\n"
    assert run("export", "study.pmw", "--output", "rows.csv", "--force").exit_code == 0
    shown = json.loads(
        run("export", "study.pmw", "--output", "r2.csv", "--method", "independent", "--json").stdout
    )
    assert shown["method"] == "independent draws"


@pytest.mark.parametrize(("options", "written"), [((), "parquet"), (("--format", "csv"), "csv")])
def test_export_goes_by_the_name_of_its_file_unless_told(
    study: Path, run: Run, options: tuple[str, ...], written: str
) -> None:
    result = run("export", "study.pmw", "--output", "rows.parquet", "--rows", "20", *options)
    assert result.stdout.startswith("Wrote 20 synthetic rows to rows.parquet, and rows.parquet.manifest.json")
    assert (study.parent / "rows.parquet").read_bytes().startswith(b"PAR1") == (written == "parquet")
    assert json.loads((study.parent / "rows.parquet.manifest.json").read_text())["format"] == written


def test_a_session_in_use_has_exit_code_5(study: Path, run: Run) -> None:
    lock = SessionLock(study)
    result = run("ask", "study.pmw", "age >= 40", "--wait", "0")
    assert result.exit_code == 5
    assert "another process is using the session" in result.stderr
    assert run("status", "study.pmw").exit_code == 0
    lock.release()


def test_an_export_may_be_refined_and_says_what_that_did(people: Path, run: Run) -> None:
    run(*OPEN, "--delta", "1e-9", "--opening", "none", "--update-limit", "3")
    run("ask", "study.pmw", "--workload", "marginals:2")
    plain = run("export", "study.pmw", "--output", "plain.csv")
    fine = run("export", "study.pmw", "--output", "fine.csv", "--refine")
    assert fine.exit_code == 0
    assert "Refined" not in plain.stdout
    assert fine.stdout.startswith(("Refined: the model was ", "Refined: fitted to what opening released"))
    assert json.loads((people / "fine.csv.manifest.json").read_text())["refined"] is True
    bad = run("export", "study.pmw", "--output", "m.json", "--format", "measurements", "--refine")
    assert bad.exit_code == 2
