"""Files that commands write: never over a session or its table, and a report whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pmw
from tests.pmw.cli.commands import OPEN, Run

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


@pytest.mark.parametrize(("what", "command"), WRITERS[:3])  # a picture has the name of none
def test_the_table_itself_is_never_overwritten(
    study: Path, run: Run, what: str, command: tuple[str, ...]
) -> None:
    table = study.parent / "people.csv"
    before = table.read_bytes()
    (study.parent / "link.csv").symlink_to(table.name)
    for target in ("people.csv", "link.csv"):
        refused = run.refused(*command, target, code=2)
        assert f"{what} would overwrite the session's table; name another file" in refused
    assert table.read_bytes() == before


def test_a_picture_is_not_written_through_a_link_to_the_table(study: Path, run: Run) -> None:
    table = study.parent / "people.csv"
    before = table.read_bytes()
    (study.parent / "link.png").symlink_to(table.name)
    refused = run.refused("status", "study.pmw", "--force", "--plot", "link.png", code=2)
    assert "the picture would overwrite the session's table; name another file" in refused
    assert table.read_bytes() == before


def test_links_to_a_session_and_the_manifest_beside_an_export_are_seen_through(study: Path, run: Run) -> None:
    kept = study.rename(study.parent / "x.manifest.json")
    (study.parent / "l.pmw").symlink_to(kept)
    before = kept.read_bytes()
    for target in ("x", "l.pmw", "l.pmw-wal", "x.manifest.json-wal"):
        refused = run.refused("export", "l.pmw", "--force", "--output", target, code=2)
        assert "would overwrite the session" in refused, target
    assert kept.read_bytes() == before
    run.told("export", "l.pmw", "--output", "rows.csv")


def test_the_croissant_file_beside_an_export_is_never_a_session(study: Path, run: Run) -> None:
    kept = study.rename(study.parent / "x.croissant.json")
    before = kept.read_bytes()
    refused = run.refused("export", kept.name, "--force", "--croissant", "--output", "x", code=2)
    assert "the export would overwrite the session; name another file" in refused
    assert kept.read_bytes() == before


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
