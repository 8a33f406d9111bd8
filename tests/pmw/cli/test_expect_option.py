"""``pmw open --expect`` and ``pmw plan --expect``: questions that are declared beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from queries import save_schema
from tests.pmw.cli.commands import TABLE, Run
from tests.pmw.session.test_priors import DOMAIN, people

BUDGET = ("--epsilon", "1", "--delta", "1e-9", "--opening", "pairs")
PLAN = ("plan", "--schema", "people.toml", "--records", "3000", *BUDGET)
TEXT = """-- the board's dashboard
age >= 40 AND sex = 'm'
SELECT COUNT(*) FROM records WHERE rooms > 3 GROUP BY job
{"where": "age >= 40 AND sex = 'm'"}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a table, its schema and a file of questions."""
    monkeypatch.chdir(tmp_path)
    save_schema(DOMAIN, tmp_path / "people.toml")
    people(1).to_csv("people.csv", index=False)
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
    Path("empty.txt").write_text("-- none yet\n\n")
    before = sorted(folder.iterdir())
    told = run.refused(*command, "--expect", "wrong.txt", code=4)
    assert "line 1: unknown attribute 'ages'" in told
    assert "line 3: expected a condition" in told
    assert "line 2" not in told
    assert "expected a question, got none" in run.refused(*command, "--expect", "empty.txt", code=4)
    assert "does not exist" in run.refused(*command, "--expect", "none.txt", code=2)
    assert sorted(folder.iterdir()) == before


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def unreadable(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    told = run.refused("open", "study.pmw", *TABLE, *BUDGET, "--expect", "asked.txt")
    assert "asked.txt: the file cannot be read: Permission denied" in told
    assert not Path("study.pmw").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--opening", "one-way"), "has opening = one-way"),
        (("--opening", "none"), "has opening = none"),
        (("--delta", "0"), "delta has to be above 0"),
        (("--preset", "textbook"), "tests single questions"),
    ],
)
def test_sessions_without_pairs_at_opening_say_why_they_refuse_them(
    given: tuple[str, ...], told: str, run: Run
) -> None:
    budget = BUDGET[:4] if "--preset" in given else BUDGET
    assert told in run.refused("open", "study.pmw", *TABLE, *budget, *given, "--expect", "asked.txt")
    assert not Path("study.pmw").exists()


def test_the_help_says_what_a_file_may_tell_of_the_table(run: Run) -> None:
    for command in ("open", "plan"):
        words = " ".join(run.told(command, "--help").split())
        assert (
            "A file that was written after a look at the table tells of it, such as its rare values." in words
        )
