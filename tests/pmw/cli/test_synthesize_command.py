"""``pmw synthesize``: what it writes and prints, and that bad input leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from pmw.session.maintenance import is_closed, read_session
from queries import DateAttribute, Domain, NumericAttribute, save_schema
from tests.pmw.cli.commands import TABLE, Run
from tests.worlds import WIDE

SYNTHESIZE = ("synthesize", "wide.csv", "--schema", "wide.toml", "--epsilon", "1", "--output", "made.csv")
DELTA = ("--delta", "1e-9")
BUDGET = "At this budget a count by one attribute is within ± "


@pytest.fixture(scope="session")
def wide_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    WIDE.frame.to_csv(folder / "wide.csv", index=False)
    save_schema(WIDE.domain, folder / "wide.toml")
    return folder


@pytest.fixture
def wide(wide_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("wide.csv", "wide.toml"):
        (tmp_path / name).symlink_to(wide_folder / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path) -> set[str]:
    """Return the files beside the table and its schema."""
    return {one.name for one in folder.iterdir()} - {"wide.csv", "wide.toml"}


def test_one_command_writes_rows_a_manifest_and_a_page(wide: Path, run: Run) -> None:
    result = run(*SYNTHESIZE, *DELTA)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(BUDGET)
    assert len(result.stderr.splitlines()) == 1
    wrote, held, page, public = result.stdout.splitlines()
    rows = len(pd.read_csv("made.csv"))
    assert wrote == f"Wrote {rows:,} synthetic rows to made.csv, and made.csv.manifest.json beside it."
    assert held.startswith("15 of 15 pairs of attributes are held")
    assert page == "How near they are stands in made.csv.report.html."
    assert public.startswith(
        "All of this is public. Guarantee: differential privacy with epsilon = 1, delta = 1e-09"
    )
    assert written(wide) == {"made.csv", "made.csv.manifest.json", "made.csv.report.html"}
    assert "Expected errors, by attribute" in Path("made.csv.report.html").read_text()


def test_a_table_that_is_read_otherwise_than_declared_is_told_by_the_released_number(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"2020-01-{day:02};{day},5" for day in range(1, 31)] * 10  # a decimal sign that is not told
    Path("days.csv").write_text("\n".join(["day;amount", *lines]))
    amounts = NumericAttribute("amount", (0, 10, 20, 40))
    days = DateAttribute("day", date(2020, 1, 1), date(2020, 1, 31))
    save_schema(Domain((days, amounts)), Path("days.toml"))
    table = ("days.csv", "--delimiter", ";", "--schema", "days.toml")
    result = run("synthesize", *table, "--epsilon", "1", *DELTA, "--output", "made.csv")
    assert result.exit_code == 0, result.output
    assert "The released number of records is " in result.stderr
    assert "pmw check shows it." in result.stderr
    assert Path("made.csv").read_text().startswith("day;amount\n")


def test_a_session_stays_only_where_it_is_named_and_is_closed(wide: Path, run: Run) -> None:
    form = run.form(
        *SYNTHESIZE, *DELTA, "--session", "kept.pmw", "--no-report", "--target", "c", "--rows", "50"
    )
    assert (form["rows"], form["epsilon_cap"]) == (50, 1)
    assert form["expected"]["questions"] == 5
    assert is_closed(Path("kept.pmw"))
    assert "made.csv.report.html" not in written(wide)
    run.told("verify", "kept.pmw")
    state, _ = read_session(Path("kept.pmw"))
    assert 0.97 < state.ledger.share <= 1
    assert "kept.pmw exists" in run.refused(*SYNTHESIZE, *DELTA, "--session", "kept.pmw", "--force")
    assert read_session(Path("kept.pmw"))[0].total == state.total
    export = ("export", "kept.pmw", "--output", "some.csv")
    form = run.form(*export, "--where", "a = 1 AND (b = 2 OR c = 0)")
    rows = pd.read_csv("some.csv", dtype=str)
    assert (set(rows["a"]), len(rows)) == ({"1"}, form["rows"])
    assert ((rows["b"] == "2") | (rows["c"] == "0")).all()
    refused = run.refused(*export, "--force", "--where", "a = 1 AND a = 2")
    told = "the model has no records where a = 1 AND a = 2; ask for rows that some satisfy"
    assert refused == f"Error: {told}\n"
    assert "unknown attribute 'z'" in run.refused(*export, "--force", "--where", "z = 1", code=4)


def test_without_a_delta_it_says_what_one_gains_and_measures_what_it_can(wide: Path, run: Run) -> None:
    result = run(*SYNTHESIZE, "--session", "pure.pmw")
    assert result.exit_code == 0
    noise, note = result.stderr.splitlines()
    assert noise.startswith(BUDGET)
    assert "With --delta 1e-09 15 are measured. --delta 0 says that none is meant." in note
    assert "of 15 pairs of attributes are held" in result.stdout
    run.told("verify", "pure.pmw")
    assert "Note" not in run(*SYNTHESIZE, "--delta", "0", "--force").stderr


@pytest.fixture
def refused(wide: Path, run: Run) -> Callable[..., str]:
    """Run a command that is refused, and return the last line; nothing was written before or is after."""

    def found(*arguments: str, code: int) -> str:
        before = written(wide)
        last = run.refused(*SYNTHESIZE, *DELTA, *arguments, code=code).splitlines()[-1]
        assert written(wide) == before
        return last

    return found


def test_bad_input_is_refused_in_one_line_before_anything_is_spent(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def spent(*_: object, **__: object) -> None:
        raise AssertionError("a session was opened")

    monkeypatch.setattr("pmw.session.opening.open_session", spent)
    for arguments, code, words in WRONG:
        assert words in refused(*arguments, code=code)


def test_what_exists_is_not_written_over(refused: Callable[..., str]) -> None:
    for file in ("made.csv", "made.csv.manifest.json", "made.csv.report.html", "kept.pmw"):
        Path(file).write_text("mine")
        assert f"{file} exists" in refused("--session", "kept.pmw", code=1)
        assert Path(file).read_text() == "mine"
        Path(file).unlink()


WRONG: list[tuple[tuple[str, ...], int, str]] = [
    (("--target", "h"), 1, "expected a declared attribute as target, got 'h'"),
    (("--target", "a", "--target", "b"), 2, "--target: expected one attribute, got several"),
    (("--output", "made.model"), 2, "expected a name that ends in .csv or .parquet, got made.model"),
    (("--output", "no/made.csv"), 2, "expected a folder that is there, got no"),
    (("--output", "wide.csv", "--force"), 2, "wide.csv is read or written already; name another file"),
    (("--report", "wide.toml", "--force"), 2, "wide.toml is read or written already"),
    (("--report", "made.csv"), 2, "made.csv is read or written already"),
    (("--report", "p.html", "--no-report"), 2, "--report names the page that --no-report leaves out"),
    (("--delta", "2"), 2, "delta"),
    (("--rows", "0"), 2, "expected rows from 1"),
    (("--records", "200", "--epsilon", "0.1"), 1, "which is noise in a table of fewer than"),
    (("--table", "people"), 2, "--table names a table of a database"),
]


def test_a_missing_schema_says_how_to_draft_one(wide: Path, run: Run) -> None:
    words = run.refused("synthesize", "wide.csv", "--epsilon", "1", "--output", "made.csv", code=2)
    assert "give --schema wide.toml" in words
    Path("wide.toml").unlink()
    words = run.refused("synthesize", "wide.csv", "--epsilon", "1", "--output", "made.csv", code=2)
    assert "pmw draft --data wide.csv > wide.toml" in words


# --- ``pmw offline``: what it writes and prints, and that bad input leaves nothing behind -------------------


OFFLINE = ("offline", "--workload", "marginals:1", *TABLE, "--output", "made.csv", "--epsilon", "1")


def test_a_release_is_a_table_its_manifest_and_its_cost_by_rounds(people: Path, run: Run) -> None:
    told = run.told(*OFFLINE, "--delta", "1e-9", "--rounds", "3", "--threshold", "0.001", "--rows", "500")
    lines = told.splitlines()
    assert lines[0] == "3 of at most 3 rounds over 20 questions."
    assert "above T = 0.001: no round is left, so nothing bounds the errors that remain." in lines[1]
    events = [line.split()[1] for line in lines if line[:1].isdigit() and "%" in line]
    assert events == ["total", *(["selection", "measurement"] * 3)]
    assert lines[-2] == "Wrote 500 synthetic rows to made.csv, and a manifest beside it."
    assert lines[-1].startswith("Guarantee: differential privacy with epsilon = 1, delta = 1e-09, for adding")
    assert len(pd.read_csv(people / "made.csv")) == 500
    manifest = json.loads((people / "made.csv.manifest.json").read_text())
    assert manifest["rows"] == 500
    assert sorted(file.name for file in people.iterdir()) == [
        "made.csv", "made.csv.manifest.json", "people.csv", "people.toml",
    ]  # fmt: skip


def test_a_small_error_ends_it_and_leaves_the_rest_of_the_budget(people: Path, run: Run) -> None:
    early = (*OFFLINE, "--rounds", "10", "--threshold", "100000", "--output", "made.parquet")
    told = run.told(*early)
    assert "1 of at most 10 rounds" in told
    assert "at most T = 100,000: the model is returned." in told
    assert "At 95% confidence no question of the workload is off by more than " in told
    form = run.form(*early, "--force")
    assert (form["rounds"], form["most_rounds"], form["ended_early"]) == (1, 10, True)
    assert form["share"] == pytest.approx(0.01 + 0.99 / 10, abs=1e-6)
    assert [line["event"] for line in form["ledger"]["entries"]] == ["total", "selection", "measurement"]
    assert form["largest_error"] > form["last_error"]
    assert (people / "made.parquet").read_bytes()[:4] == b"PAR1"


def test_a_workload_may_be_a_file_of_questions(people: Path, run: Run) -> None:
    (people / "asked.jsonl").write_text(
        '{"where": "age >= 30"}\n\n{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}\n'
    )
    assert run.form(*OFFLINE, "--workload", "asked.jsonl")["questions"] == 3
