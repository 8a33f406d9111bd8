"""A session from its opening to its exports: what commands print, write and refuse."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from pmw.display.texts import installed_by
from pmw.session.maintenance import is_closed
from pmw.session.opening import resume_session
from pmw.session.store.locking import SessionLock
from queries import CategoricalAttribute, Domain, save_schema
from tests.pmw.cli.commands import OPEN, Run

EXISTS = "exists; choose another name, or overwrite it with --force\n"


def test_opening_tells_what_there_is_what_it_promises_and_what_comes_next(people: Path, run: Run) -> None:
    result = run(*OPEN, "--test", "query", "--delta", "1e-9")
    assert (result.exit_code, result.stderr) == (0, "")
    opened, promise, held, following = result.stdout.splitlines()
    assert opened.startswith("Opened study.pmw over 'people': 4 attributes, 240 cells, about ")
    assert promise.startswith("Guarantee: differential privacy with epsilon = 1, delta = 1e-09, for adding")
    assert promise.endswith("; it covers everything this session releases, however often it is asked.")
    assert held.startswith("None of the 6 pairs of attributes is held: ")
    assert following == "Next: pmw ask study.pmw \"region = 'north' AND member = TRUE\""


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
