"""``pmw ledger``, ``pmw verify``, ``pmw close`` and ``pmw backup``: what they print, and their exit codes."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import pmw
from pmw.cli.texts import finish_text
from pmw.data import DatabaseTable, MemoryLimit
from pmw.display.texts import number
from pmw.session.maintenance import is_closed, read_ledger, read_session, remembered_table, verify_session
from tests import worlds
from tests.pmw.cli.commands import OPEN, Run
from tests.pmw.session.stored import reseal, unwritable

QUESTION = "age >= 40 AND NOT member = TRUE"
NOTHING_ABANDONED = "Nothing was abandoned: no batch waited, or the one that did was finished."


@pytest.fixture
def asked(textbook_study: Path, run: Run) -> Path:
    """Ask a study a question that is measured or certified, and return its path."""
    run.told("ask", "study.pmw", QUESTION)
    return textbook_study


def test_verify_tells_each_check_in_words_and_what_it_cannot_prove(asked: Path, run: Run) -> None:
    lines = run.told("verify", "study.pmw").splitlines()
    assert lines[2].startswith("ok      every charge is what its event costs: ")
    assert "All 14 checks hold. They cannot prove:" in lines
    assert lines[-5].startswith("  - that this is the newest copy of the file")
    form = run.form("verify", "study.pmw")
    assert (form["holds"], len(form["checks"])) == (True, 14)


def test_verify_ends_with_5_where_a_check_fails(asked: Path, run: Run) -> None:
    with sqlite3.connect(asked) as connection:
        connection.execute("UPDATE ledger SET rho = '0' WHERE sequence = 2")
        reseal(connection)
    connection.close()
    result = run("verify", "study.pmw")
    assert result.exit_code == 5
    told = "FAILED  every charge is what its event costs: rho of charge 2 (marginal): expected "
    assert told in result.stdout
    assert "FAILED: the file was damaged or altered. Do not go on with it." in result.stdout
    result = run("verify", "study.pmw", "--json")
    assert (result.exit_code, json.loads(result.stdout)["holds"]) == (5, False)


def test_close_ends_all_spending_and_is_no_fault_twice(asked: Path, run: Run) -> None:
    first = run.told("ask", "study.pmw", QUESTION)
    assert "tests single questions" in run.refused("finish", "study.pmw", "--yes")
    left = 1 - run.form("status", "study.pmw")["budget_share"]
    closed = run("close", "study.pmw", "--yes")
    assert closed.stderr == f"Closing gives up {left:.1%} of the budget.\n"  # no table takes it
    lines = closed.stdout.splitlines()
    assert lines[0].startswith("Closed study.pmw: nothing is spent any more (")
    assert lines[1] == "Questions and exports go on from the model, without the table."
    (asked.parent / "people.csv").unlink()
    assert run.told("ask", "study.pmw", QUESTION, "--fresh") == first
    share = run.form("status", "study.pmw")["budget_share"]
    strict = run("ask", "study.pmw", "sex = 'Male' AND region = 'east'", "--fresh", "--strict")
    assert (strict.exit_code, "exhausted" in strict.stdout) == (3, True)
    run.told("export", "study.pmw", "--output", "rows.csv")
    status = run.form("status", "study.pmw")
    assert (status["closed"], status["budget_share"]) == (True, share)
    assert "closed" in run.told("status", "study.pmw")
    assert "The session was closed permanently" in run.told("verify", "study.pmw")
    assert run.form("close", "study.pmw", "--yes")["closed"] is True
    assert run.told("close", "study.pmw") == (
        "study.pmw is closed already, and its file was written again; questions and exports go on.\n"
    )


@pytest.mark.parametrize("given", [(), ("--yes", "--json")])
def test_close_names_what_is_left_and_what_would_spend_it(
    yearly_study: Path, run: Run, given: tuple[str, ...]
) -> None:
    left = 1 - run.form("status", "study.pmw")["budget_share"]
    words = (
        f"Closing gives up {left:.1%} of the budget; pmw finish study.pmw spends it on the questions that "
        "were asked.\n"
    )
    assert run("close", "study.pmw", *given).stderr.startswith(words)
    run.told("close", "study.pmw", "--yes")
    assert run("close", "study.pmw", "--yes").stderr == ""  # nothing is given up any more


@pytest.mark.usefixtures("terminal")
def test_close_asks_on_a_terminal(study: Path, run: Run) -> None:
    for reply, code in (("n\n", 1), ("y\n", 0)):
        result = run("close", "study.pmw", stdin=reply)
        assert result.exit_code == code
        assert "Close study.pmw permanently?" in result.stderr
        assert is_closed(study) == (code == 0)


def test_close_tells_of_a_batch_that_could_not_be_finished(asked: Path, run: Run) -> None:
    with unwritable(asked, "blocks"):
        assert run("ask", "study.pmw", "age < 32 AND sex = 'Male'").exit_code == 1
    assert "An interrupted batch waits to be finished" in run.told("verify", "study.pmw")
    (asked.parent / "people.csv").rename(asked.parent / "moved.csv")
    companion = asked.with_name("study.pmw-companion")
    kept = asked.read_bytes(), companion.read_bytes()
    refused = run.refused("close", "study.pmw", "--yes")
    assert "no such file; where the table was moved, name its new place with pmw move" in refused
    assert "To give the batch up, close with --abandon: all that was reserved for it (" in refused
    assert (asked.read_bytes(), companion.read_bytes()) == kept
    told = run.told("close", "study.pmw", "--yes", "--abandon")
    assert "An interrupted batch could not be finished, for its table is gone: it was charged" in told
    assert "abandoned batch" in run.told("ledger", "study.pmw")
    asked.write_bytes(kept[0])
    companion.write_bytes(kept[1])
    run.told("move", "study.pmw", "--data", "moved.csv")
    # What can be finished is finished.
    assert NOTHING_ABANDONED in run.told("close", "study.pmw", "--yes", "--abandon")
    assert "abandoned batch" not in run.told("ledger", "study.pmw")


def test_backup_copies_a_session_that_is_never_spent_from(asked: Path, run: Run) -> None:
    backup = ("backup", "study.pmw", "--output")
    assert run.form(*backup, "second.pmw")["closed"] is True
    lines = run.told(*backup, "copy.pmw").splitlines()
    assert lines[0].startswith("Copied study.pmw to copy.pmw: ")
    assert lines[1] == "The copy answers and exports, and never spends. Keep it as secret as the session."
    assert is_closed(asked.parent / "copy.pmw")
    assert run.refused(*backup, "copy.pmw") == "Error: copy.pmw exists; choose another name\n"
    assert "the backup would overwrite the session" in run.refused(*backup, "study.pmw-wal", code=2)


def test_verify_keeps_an_anchor_and_ends_with_5_for_another_session(asked: Path, run: Run) -> None:
    told = run.told("verify", "study.pmw", "--anchor", "study.anchor")
    assert "ok      the session goes on from its anchor: " in told
    assert "nothing was spent since the anchor was last written" in told
    anchor = asked.parent / "study.anchor"
    anchor.write_text(anchor.read_text().replace('"session": "', '"session": "00'))
    result = run("verify", "study.pmw", "--anchor", "study.anchor")
    assert result.exit_code == 5
    assert "FAILED  the session goes on from its anchor: the anchor is of another session" in result.stdout
    assert "FAILED: the file or the anchor is of another session, or the file is an older " in result.stdout
    assert run("verify", "study.pmw", "--anchor", "study.pmw").exit_code == 2


# --- ``pmw finish``: what it would do first, nothing without a yes, and which bars it made narrower ---------


def test_it_tells_what_it_would_do_and_does_that(repeatable: None, asked_years: Path, run: Run) -> None:
    asked = ("sex = 'Male' AND member = true", "region = 'north' AND member = true", "age >= 50")
    run.told("ask", "study.pmw", asked[2])

    def widths() -> list[float]:
        forms = [run.form("ask", "study.pmw", text, "--fresh") for text in asked]
        return [(high - low) / 2 for low, high in (form["interval"] for form in forms)]

    before = widths()
    told = run.told("finish", "study.pmw", "--dry-run")
    assert told.count("would cost") >= 2
    assert "nothing was spent" in told
    assert not is_closed(asked_years)
    assert "--yes" in run.refused("finish", "study.pmw", code=2)
    planned = [line["scope"] for line in run.forms("finish", "study.pmw", "--dry-run", "--json")]
    assert len(planned) == told.count("would cost")
    done = run.told("finish", "study.pmw", "--yes")
    assert done.count("Measured ") == len(planned)
    state = read_session(asked_years)[0]
    assert [list(one.scope) for one in state.marginals if one.requested][2:] == planned
    assert state.closed
    assert verify_session(asked_years).holds
    assert "closed" in run.refused("finish", "study.pmw", "--yes")
    after = widths()
    narrower = [(old, new) for old, new in zip(before, after, strict=True) if new <= 0.9 * old]
    assert narrower
    old, new = (sorted(widths)[(len(narrower) - 1) // 2] for widths in zip(*narrower, strict=True))
    assert (
        f"\nNarrower bars: {len(narrower)} of 3 asked questions, ± {number(new)} records where it was ± "
        f"{number(old)} (medians). Ask again for the better answers.\nClosed study.pmw: "
    ) in done


def test_a_bar_that_was_not_there_before_is_told_as_such() -> None:
    with worlds.YEARS.opened(seed=3) as session:
        quotes = [session.measure("sex", dry_run=True)]
        state = session.state

    def told(before: Sequence[float], after: Sequence[float]) -> str:
        return finish_text(Path("s.pmw"), quotes, state, before, after).splitlines()[1]

    again = "Ask again for the better answers."
    assert told([math.inf], [69.4]) == (
        f"Narrower bars: 1 of 1 asked question, ± 69 records where there was none (medians). {again}"
    )
    assert told([math.inf, 10, 100], [math.inf, 9.1, 90]) == (
        f"Narrower bars: 1 of 3 asked questions, ± 90 records where it was ± 100 (medians). {again}"
    )
    assert told([math.inf, 10], [math.inf, 9.1]) == (
        "Narrower bars: none of 2 asked questions, by a tenth or more."
    )


def test_where_nothing_is_measured_it_says_why(yearly_study: Path, run: Run) -> None:
    told = run.told("finish", "study.pmw", "--dry-run")
    assert told.startswith("Nothing is measured: no question was asked.\n")
    run.told("ask", "study.pmw", "")
    assert run.told("finish", "study.pmw", "--dry-run").startswith(
        "Nothing is measured: what is left pays for no table that would serve 1 asked question.\n"
    )


# --- ``pmw move``, and what other commands do where a table is gone -----------------------------------------


TESTED = "age >= 40 AND sex = 'Male'"
MOVE = ("move", "study.pmw", "--data")


def remembered(path: Path) -> pmw.TableFile:
    table = remembered_table(path)
    assert isinstance(table, pmw.TableFile)
    return table


def test_commands_go_on_from_a_tables_new_place(
    textbook_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = textbook_study.parent
    (folder / "new").mkdir()
    (folder / "people.csv").rename(folder / "new" / "people.csv")
    asked = run.refused("ask", "study.pmw", TESTED)
    assert asked.startswith("Error: expected a readable file, got ")
    assert asked.endswith("; where the table was moved, name its new place with pmw move\n")
    before = read_ledger(textbook_study)
    moved = run.told(*MOVE, "new/people.csv")
    assert moved == "study.pmw reads its table from new/people.csv from now on; nothing was spent.\n"
    assert read_ledger(textbook_study) == before
    monkeypatch.chdir(folder / "new")
    run.told("ask", "../study.pmw", TESTED)


def test_a_dialect_and_a_size_are_kept_unless_others_are_given(people: Path, run: Run) -> None:
    table, study = people / "people.csv", people / "study.pmw"
    shutil.copy(table, people / "plain.csv")
    table.write_text(table.read_text().replace(",", ";"))
    written = ("--delimiter", ";", "--missing-text", "NA")
    run.told(*OPEN, "--delta", "1e-9", *written, "--memory", "1.5gib", "--temporary-folder", ".")
    table.rename(people / "moved.csv")
    run.told(*MOVE, "moved.csv")
    after = remembered(study)
    assert (after.path, after.dialect.delimiter) == (people / "moved.csv", ";")
    assert after.memory == MemoryLimit(3 * 2**29, Path.cwd())
    run.told(*MOVE, "plain.csv", "--delimiter", ",", "--memory", "20 MB")
    last = remembered(study)
    assert (last.dialect.delimiter, last.dialect.missing_texts) == (",", ())
    assert last.memory == MemoryLimit(2 * 10**7)


def test_books_exports_and_backups_need_no_table(textbook_study: Path, run: Run) -> None:
    run.told("ask", "study.pmw", TESTED)  # says what it charged, once
    known = run.told("ask", "study.pmw", TESTED)
    (textbook_study.parent / "people.csv").unlink()
    before = read_ledger(textbook_study)
    assert run.told("ask", "study.pmw", TESTED) == known
    run.told("ask", "study.pmw", "age >= 40")
    stream = '{"id": 1, "where": "age >= 44"}\n{"id": 2, "where": "age >= 44 AND member = TRUE"}\n'
    result = run("ask", "study.pmw", "--stream", stdin=stream)
    assert result.exit_code == 1
    assert [line[:8] for line in result.stdout.splitlines()] == ['{"id": 1']
    assert result.stderr.count("\n") == 1
    assert "name its new place with pmw move" in result.stderr
    for name, *options in (
        ("ledger",), ("report", "-o", "report.html"), ("verify", "--anchor", "study.anchor"),
        ("export", "--output", "rows.csv"), ("backup", "--output", "copy.pmw"), ("close", "--yes"),
    ):  # fmt: skip
        run.told(name, "study.pmw", *options)
    assert read_ledger(textbook_study) == before


def test_a_folder_is_remembered_and_none_of_its_files_overwritten(people: Path, run: Run) -> None:
    for part in "ab":
        (people / "parts" / part).mkdir(parents=True)
        target = people / "parts" / part / "0.parquet"
        duckdb.execute(f"COPY (FROM '{people / 'people.csv'}') TO '{target}' (FORMAT parquet)")
    run.told("open", "parts.pmw", "--data", "parts", *OPEN[4:])
    (people / "parts").rename(people / "moved")
    run.told("move", "parts.pmw", "--data", "moved/*/*.parquet")
    told = run.refused("export", "parts.pmw", "--output", "moved/a/0.parquet", "--force", code=2)
    assert "would overwrite the session's table" in told
    (people / "moved" / "c").mkdir()
    shutil.copy(people / "moved" / "a" / "0.parquet", people / "moved" / "c")
    assert "differs" in run.refused("move", "parts.pmw", "--data", "moved")


# --- Commands over a table of a database --------------------------------------------------------------------


FRAME = pd.DataFrame(
    {"id": ["a", "b", None, "a", "a"] * 40, "x": range(200), "sex": ["f", "m", "?", None, "f"] * 40}
)
SCHEMA = """
name = "people"
[[attributes]]
name = "x"
kind = "integer"
min = 0
max = 150
[[attributes]]
name = "sex"
kind = "categorical"
values = ["f", "m"]
missing = true
"""


def test_commands_find_the_table_again_and_refuse_it_where_it_changed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("frame", FRAME)
        connection.execute("CREATE SCHEMA study")
        connection.execute("CREATE TABLE study.people AS FROM frame ORDER BY hash(x)")
        connection.execute("CREATE VIEW seen AS SELECT DISTINCT * FROM study.people")
    (tmp_path / "people.toml").write_text(SCHEMA)
    table = ("--data", "duckdb:people.duckdb", "--table", "study.people")
    rest = ("--schema", "people.toml", "--person-column", "id", "--records-per-person", "3")
    assert "stored as BIGINT" in run.told("draft", *table)
    checked = run.told("check", *table, *rest)
    assert checked.startswith("study.people in duckdb:people.duckdb: 200 records;")
    assert "if '?' means empty, write NULL in the table instead" in checked
    run.told("open", "study.pmw", *table, *rest, "--epsilon", "1")
    assert remembered_table(tmp_path / "study.pmw") == DatabaseTable(
        f"duckdb:{tmp_path / 'people.duckdb'}", "study.people"
    )
    with monkeypatch.context() as patch:
        patch.chdir("/")
        elsewhere = run("ask", str(tmp_path / "study.pmw"), "x >= 70", "--fresh")
    assert (elsewhere.exit_code, elsewhere.stderr) == (0, "")
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    run.told("move", "study.pmw", "--data", "people.csv")
    moved = run.told("move", "study.pmw", "--data", "duckdb:people.duckdb", "--table", "seen")
    assert moved.startswith("study.pmw reads its table from seen in duckdb:people.duckdb from now on")
    run.refused("export", "study.pmw", "--output", "people.duckdb", "--format", "csv", "--force", code=2)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("UPDATE study.people SET sex = 'm' WHERE x = 0")
    refused = run.refused("move", "study.pmw", *table)
    assert refused == "Error: the table differs from the one that the session was opened on\n"
