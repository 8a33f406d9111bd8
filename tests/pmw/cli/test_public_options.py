"""What is public, and told at opening: a prior, and in plans too the questions that are expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from queries import save_schema
from tests.pmw.cli.commands import TABLE, Run
from tests.pmw.session.test_priors import DOMAIN, people

BUDGET = ("--epsilon", "1", "--delta", "1e-9", "--opening", "pairs")
PUBLIC = ("--prior", "public.csv", "--prior-is-public")
PLAN = ("plan", "--schema", "people.toml", "--records", "3000", *BUDGET)
TEXT = """-- the board's dashboard
age >= 40 AND sex = 'm'
SELECT COUNT(*) FROM records WHERE rooms > 3 GROUP BY job
{"where": "age >= 40 AND sex = 'm'"}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a table, its schema, a public table and a file of questions."""
    monkeypatch.chdir(tmp_path)
    save_schema(DOMAIN, tmp_path / "people.toml")
    people(1).to_csv("people.csv", index=False)
    people(2, 6000).to_csv("public.csv", index=False)
    Path("asked.txt").write_text(TEXT)
    return tmp_path


def test_opening_tells_of_them_and_so_do_manifests(folder: Path, run: Run) -> None:
    told = run.told("open", "study.pmw", *TABLE, *BUDGET, "--expect", "asked.txt")
    (line,) = [one for one in told.splitlines() if one.startswith("Expected questions: ")]
    run.told("verify", "study.pmw")
    run.told("export", "study.pmw", "--output", "rows.csv")
    found = json.loads((folder / "rows.csv.manifest.json").read_text())["expected"]
    assert (found["questions"], found["sets"]) == (7, 2)
    assert line == f"Expected questions: 7 about 2 sets of attributes (SHA-256 {found['sha256'][:16]}…)."
    run.told("open", "usual.pmw", *TABLE, *BUDGET)
    run.told("export", "usual.pmw", "--output", "usual.csv")
    assert "expected" not in json.loads((folder / "usual.csv.manifest.json").read_text())


def test_a_plan_tells_in_one_line_what_their_bars_gain(run: Run) -> None:
    found = run.form(*PLAN, "--expect", "asked.txt")["expected"]
    assert (found["questions"], found["sets"]) == (7, 2)
    assert found["bound"] < 0.8 * found["usual_bound"]
    (line,) = [
        one for one in run.told(*PLAN, "--expect", "asked.txt").splitlines() if one.startswith("Expected")
    ]
    assert line == (
        "Expected: 7 questions about 2 sets of attributes; their typical bar is "
        f"± {found['bound']:,.0f} records, ± {found['usual_bound']:,.0f} without --expect."
    )
    assert "expected" not in run.form(*PLAN)
    assert "Expected: " not in run.told(*PLAN)


@pytest.mark.parametrize("command", [PLAN, ("open", "study.pmw", *TABLE, *BUDGET)])
def test_all_faults_of_a_file_are_told_and_nothing_is_opened(
    command: tuple[str, ...], folder: Path, run: Run
) -> None:
    Path("wrong.txt").write_text("ages > 3\nsex = 'f'\njob = 'a' AND\n")
    before = sorted(folder.iterdir())
    told = run.refused(*command, "--expect", "wrong.txt", code=4)
    assert "line 1: unknown attribute 'ages'" in told
    assert "line 3: expected a condition" in told
    assert "line 2" not in told
    assert sorted(folder.iterdir()) == before


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def unreadable(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    told = run.refused("open", "study.pmw", *TABLE, *BUDGET, "--expect", "asked.txt")
    assert "asked.txt: the file cannot be read: Permission denied" in told
    assert not Path("study.pmw").exists()


# --- ``pmw open --prior``: a model, or a table that is declared public --------------------------------------


def test_a_public_table_is_told_of_at_opening_in_the_status_and_in_manifests(folder: Path, run: Run) -> None:
    told = run.told("open", "study.pmw", *TABLE, *BUDGET, *PUBLIC)
    (line,) = [one for one in told.splitlines() if one.startswith("Prior: ")]
    status = run.form("status", "study.pmw")
    digest = status["prior"]
    assert status["prior_used"] is True
    assert line == f"Prior: used: the measured pairs are near it (SHA-256 {digest[:16]}…)."
    assert "public prior" in run.told("status", "study.pmw")
    run.told("verify", "study.pmw")
    run.told("export", "study.pmw", "--output", "rows.csv")
    manifest = json.loads((folder / "rows.csv.manifest.json").read_text())
    assert manifest["prior"] == {"sha256": digest, "used": True}


def test_a_model_that_was_exported_is_one_and_needs_no_declaration(folder: Path, run: Run) -> None:
    run.told("open", "last.pmw", *TABLE, *BUDGET)
    assert "prior" not in run.form("status", "last.pmw")
    run.told("export", "last.pmw", "--output", "last.model", "--format", "model")
    run.told("open", "study.pmw", *TABLE, *BUDGET, "--prior", "last.model")
    assert len(run.form("status", "study.pmw")["prior"]) == 64


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (("--prior", "public.csv"), 2, "add --prior-is-public if nobody in it needs protection"),
        (("--prior-is-public",), 2, "name that, too"),
        (("--prior", "none.csv"), 2, "does not exist"),
        (("--prior", "."), 2, "is a directory"),
        (("--prior", "last.model", "--prior-is-public"), 2, "leave --prior-is-public out"),
        (("--prior", "cut.model"), 5, "damaged"),
        (("--prior", "last.pmw"), 5, "this is a session, not a model"),
        (("--prior", "empty.csv", "--prior-is-public"), 1, "records that the schema keeps, got none"),
        (("--prior", "other.csv", "--prior-is-public"), 1, "expected one column 'age'"),
        ((*PUBLIC, "--opening", "one-way"), 1, "this session measures none"),
    ],
)
def test_what_is_no_prior_is_refused_before_anything_is_made(
    folder: Path, run: Run, given: tuple[str, ...], code: int, told: str
) -> None:
    run.told("open", "last.pmw", *TABLE, *BUDGET)
    run.told("export", "last.pmw", "--output", "last.model", "--format", "model")
    (folder / "cut.model").write_bytes((folder / "last.model").read_bytes()[:-40])
    (folder / "empty.csv").write_text((folder / "people.csv").read_text().splitlines()[0] + "\n")
    (folder / "other.csv").write_text("height\n3\n")
    error = run.refused("open", "study.pmw", *TABLE, *BUDGET, *given, code=code)
    assert told in error.splitlines()[-1]
    assert not list(folder.glob("study.pmw*"))
