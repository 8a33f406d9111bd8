"""A session from its opening to its exports: what commands print, write and refuse."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.display.texts import installed_by
from pmw.session.maintenance import is_closed
from pmw.session.opening import resume_session
from pmw.session.store.locking import SessionLock
from queries import CategoricalAttribute, Domain, save_schema
from tests.pmw.cli.commands import OPEN, Run

EXISTS = "exists; choose another name, or overwrite it with --force\n"


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "study.pmw", "age >= 40"),
        ("close", "study.pmw", "--yes"),
        ("move", "study.pmw", "--data", "people.csv"),
        ("shell", "study.pmw"),
    ],
    ids=lambda command: str(command[0]),
)
def test_a_session_in_use_is_waited_for_and_then_has_exit_code_5(
    study: Path, run: Run, command: tuple[str, ...]
) -> None:
    lock = SessionLock(study)
    told = run.refused(*command, "--wait", "0", code=5)
    assert "another process is using the session" in told
    assert "in use by another process; waiting up to 0.1 s" in run.refused(*command, "--wait", "0.1", code=5)
    run.told("status", "study.pmw")
    lock.release()
    assert not is_closed(study)
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


def test_without_matplotlib_the_status_names_the_extra(
    study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    refused = run.refused("status", "study.pmw", "--plot", "study.png")
    assert refused == f"Error: pictures need matplotlib: {installed_by('plots')}\n"
    assert not (study.parent / "study.png").exists()
    run.told("status", "study.pmw")


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


def test_export_writes_rows_and_a_manifest(textbook_study: Path, run: Run) -> None:
    export = ("export", "study.pmw", "--output", "rows.csv")
    assert run.told(*export, "--seed", "4", "--rows", "50").startswith(
        "Wrote 50 synthetic rows to rows.csv, and rows.csv.manifest.json beside it."
    )
    rows = pd.read_csv(textbook_study.parent / "rows.csv")
    assert list(rows.columns) == ["age", "sex", "region", "member"]
    manifest = json.loads((textbook_study.parent / "rows.csv.manifest.json").read_text())
    assert (manifest["rows"], manifest["row_seed"], manifest["method"]) == (50, 4, "systematic rounding")
    assert manifest["budget_share"] == pytest.approx(0.11, abs=0.001)
    assert run.refused(*export) == f"Error: rows.csv {EXISTS}"
    assert run.form(*export, "--force", "--method", "independent")["method"] == "independent draws"


@pytest.mark.parametrize(("options", "written"), [((), "parquet"), (("--format", "csv"), "csv")])
def test_export_goes_by_the_name_of_its_file_unless_told(
    study: Path, run: Run, options: tuple[str, ...], written: str
) -> None:
    told = run.told("export", "study.pmw", "--output", "rows.parquet", "--rows", "20", *options)
    assert told.startswith("Wrote 20 synthetic rows to rows.parquet, and rows.parquet.manifest.json")
    assert (study.parent / "rows.parquet").read_bytes().startswith(b"PAR1") == (written == "parquet")
    assert json.loads((study.parent / "rows.parquet.manifest.json").read_text())["format"] == written


def test_an_export_is_described_for_catalogues_where_that_is_wanted(study: Path, run: Run) -> None:
    export = ("export", "study.pmw", "--croissant", "--output")
    told = run.told(*export, "rows.csv", "--rows", "20")
    assert told.startswith(
        "Wrote 20 synthetic rows to rows.csv, and rows.csv.manifest.json and rows.csv.croissant.json beside"
    )
    assert told.rstrip().endswith("All are public; the manifest has the guarantee in full.")
    form = json.loads((study.parent / "rows.csv.croissant.json").read_text())
    assert form["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    (study.parent / "other.csv.croissant.json").write_text("kept")
    assert run.refused(*export, "other.csv") == f"Error: other.csv.croissant.json {EXISTS}"
    assert not (study.parent / "other.csv").exists()
    for name, kind in (("m.json", "measurements"), ("s.model", "model")):
        refused = run.refused(*export, name, "--format", kind, code=2)
        assert f"--format {kind} has no rows: leave out --croissant" in refused


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


@pytest.mark.parametrize(("what", "command"), WRITERS)
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-lock", "-companion"])
def test_no_file_of_a_session_is_overwritten_even_by_force(
    study: Path, run: Run, what: str, command: tuple[str, ...], end: str
) -> None:
    with pmw.resume_session(study) as session:
        session.ask("sex = 'Male'")
        files = {path: path.read_bytes() for path in study.parent.glob("study.pmw*")}
        assert len(files) == 5
        (study.parent / "link.png").symlink_to(study.name + end)
        (study.parent / "hard.png").hardlink_to(f"{study}{end}")
        for target in (f"study.pmw{end}", f"../{study.parent.name}/study.pmw{end}", "link.png", "hard.png"):
            refused = run.refused(*command, target, code=2)
            assert f"{what} would overwrite the session; name another file" in refused
        assert {path: path.read_bytes() for path in files} == files
        (study.parent / "hard.png").unlink()  # a session is used under one name
        session.ask("sex = 'Female'")


@pytest.mark.parametrize(("what", "command"), WRITERS)
def test_the_table_itself_is_never_overwritten(
    study: Path, run: Run, what: str, command: tuple[str, ...]
) -> None:
    table = study.parent / "people.csv"
    before = table.read_bytes()
    for name in ("link.csv", "link.png"):
        (study.parent / name).symlink_to(table.name)
    for target in ("link.png",) if what == "the picture" else ("people.csv", "link.csv"):
        refused = run.refused(*command, target, code=2)
        assert f"{what} would overwrite the session's table; name another file" in refused
    assert table.read_bytes() == before


@pytest.mark.parametrize("beside", ["manifest", "croissant"])
def test_links_to_a_session_and_files_beside_an_export_are_seen_through(
    study: Path, run: Run, beside: str
) -> None:
    kept = study.rename(study.parent / f"x.{beside}.json")
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
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    assert "Charged: " in page
    assert sorted(path.name for path in study.parent.glob("report*")) == ["report.html"]
    run.told("close", "study.pmw", "--yes")
    assert run.refused("report", "study.pmw", "--output", "report.html") == (
        "Error: report.html exists; choose another name, or overwrite it with --force\n"
    )
    assert report.read_text(encoding="utf-8") == page
    run.told("report", "study.pmw", "-o", "report.html", "--force")
    assert "The session is closed" in report.read_text(encoding="utf-8")


def test_an_entry_of_the_registry_is_written_alone_or_with_the_report(people: Path, run: Run) -> None:
    run.told(*OPEN, "--delta", "1e-9")
    told = run.told("report", "study.pmw", "--registry", "deployment.yaml")
    assert told == (
        "Wrote an entry of the registry of deployments to deployment.yaml; fill in what is empty there.\n"
    )
    form = json.loads((people / "deployment.yaml").read_text())
    assert form["deployment"]["privacy_loss"]["privacy_parameters"]["delta"] == 1e-9
    both = ("report", "study.pmw", "--registry", "deployment.yaml", "-o", "report.html")
    assert run.refused(*both) == (
        "Error: deployment.yaml exists; choose another name, or overwrite it with --force\n"
    )
    assert not (people / "report.html").exists()
    assert run.told(*both, "--force").endswith("Wrote the report to report.html.\n")
    refused = run.refused("report", "study.pmw", code=2)
    assert "expected a file to write; give --output FILE, --registry FILE or both" in refused


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_damaged_session_is_one_clear_error(study: Path, run: Run, force: tuple[str, ...]) -> None:
    raw = bytearray(study.read_bytes())
    for place in range(4096, len(raw), 512):
        raw[place] ^= 0xFF
    study.write_bytes(raw)
    assert run.refused("report", "study.pmw", "-o", "report.html", *force, code=5).count("\n") == 1
    assert not (study.parent / "report.html").exists()


# --- ``pmw audit``: a line per mechanism, verdicts that are no failure, and a picture -----------------------


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


def test_a_picture_is_drawn_and_not_overwritten(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    arguments = ("audit", "exponential", "algorithm-5", "--exact", "--plot", "audit.png")
    assert run.told(*arguments).endswith("Wrote audit.png.\n")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert "--force" in run.refused(*arguments)
    run.told(*arguments, "--force")
