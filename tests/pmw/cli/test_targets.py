"""Files that commands write: never over a session or its table, and a report whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import pmw

Run = Callable[..., Result]

WRITERS = [
    ("the export", ("export", "study.pmw", "--force", "--output")),
    ("the report", ("report", "study.pmw", "--force", "-o")),
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
            result = run(*command, target)
            assert result.exit_code == 2, result.output
            assert f"{what} would overwrite the session; name another file" in result.stderr
        assert {path: path.read_bytes() for path in files} == files
        (study.parent / "hard.png").unlink()  # a session is used under one name
        session.ask("sex = 'Female'")


def test_links_to_a_session_and_the_manifest_beside_an_export_are_seen_through(study: Path, run: Run) -> None:
    kept = study.rename(study.parent / "x.manifest.json")
    (study.parent / "l.pmw").symlink_to(kept)
    before = kept.read_bytes()
    for target in ("x", "l.pmw", "l.pmw-wal", "x.manifest.json-wal"):
        result = run("export", "l.pmw", "--force", "--output", target)
        assert (result.exit_code, "would overwrite the session" in result.stderr) == (2, True), target
    assert kept.read_bytes() == before
    assert run("export", "l.pmw", "--output", "rows.csv").exit_code == 0


def test_an_export_never_overwrites_the_table_itself(study: Path, run: Run) -> None:
    table = study.parent / "people.csv"
    before = table.read_bytes()
    (study.parent / "link.csv").symlink_to(table.name)
    for target in ("people.csv", "link.csv"):
        result = run("export", "study.pmw", "--output", target, "--force")
        assert result.exit_code == 2, result.output
        assert "the export would overwrite the session's table; name another file" in result.stderr
    assert table.read_bytes() == before


# --- ``pmw report`` ----------------------------------------------------------------------------------------


def test_a_report_is_written_while_the_session_is_in_use_and_without_its_table(study: Path, run: Run) -> None:
    run("ask", "study.pmw", "age >= 40 AND member = TRUE")
    (study.parent / "people.csv").unlink()
    with pmw.resume_session(study):
        before = study.read_bytes()
        result = run("report", "study.pmw", "-o", "report.html")
        assert study.read_bytes() == before
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Wrote the report to report.html.\n", "")
    page = (study.parent / "report.html").read_text(encoding="utf-8")
    assert page.endswith("</html>\n")
    assert "Charged: " in page
    assert sorted(path.name for path in study.parent.glob("report*")) == ["report.html"]


def test_an_existing_file_is_kept_without_force(study: Path, run: Run) -> None:
    (study.parent / "report.html").write_text("kept")
    result = run("report", "study.pmw", "--output", "report.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: report.html exists; choose another name, or overwrite it with --force\n"
    assert (study.parent / "report.html").read_text() == "kept"
    assert run("report", "study.pmw", "-o", "report.html", "--force").exit_code == 0
    assert (study.parent / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_table_is_never_overwritten(study: Path, run: Run) -> None:
    before = (study.parent / "people.csv").read_bytes()
    result = run("report", "study.pmw", "-o", "people.csv", "--force")
    assert result.exit_code == 2
    assert "the report would overwrite the session's table; name another file" in result.stderr
    assert (study.parent / "people.csv").read_bytes() == before


def test_a_closed_session_has_a_report(study: Path, run: Run) -> None:
    assert run("close", "study.pmw", "--yes").exit_code == 0
    assert run("report", "study.pmw", "-o", "report.html").exit_code == 0
    assert "The session is closed" in (study.parent / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_damaged_session_is_one_clear_error(study: Path, run: Run, force: tuple[str, ...]) -> None:
    raw = bytearray(study.read_bytes())
    for place in range(4096, len(raw), 512):
        raw[place] ^= 0xFF
    study.write_bytes(raw)
    result = run("report", "study.pmw", "-o", "report.html", *force)
    assert result.exit_code == 5
    assert result.stderr.count("\n") == 1
    assert not (study.parent / "report.html").exists()
