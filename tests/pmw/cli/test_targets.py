"""A command that writes files never writes over its session."""

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
        for target in (f"study.pmw{end}", f"../{study.parent.name}/study.pmw{end}", "link.png"):
            result = run(*command, target)
            assert result.exit_code == 2, result.output
            assert f"{what} would overwrite the session; name another file" in result.stderr
        assert {path: path.read_bytes() for path in files} == files
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
