"""``pmw move``, what other commands do where a table is gone, and how much memory its records may take."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from click import Context
from click.testing import Result

import pmw
from pmw.cli.main import main
from pmw.data import MemoryLimit
from pmw.session.maintenance import read_ledger, remembered_table
from pmw.session.store.locking import SessionLock

Run = Callable[..., Result]
QUESTION = "age >= 40 AND sex = 'Male'"


def test_no_command_of_an_analyst_takes_a_table() -> None:
    context = Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    taking = {
        name
        for name, command in commands.items()
        if command is not None and any("--data" in parameter.opts for parameter in command.params)
    }
    # The custodian's. A draft and a check are of a table alone; an offline release has a budget of its own.
    assert taking == {"check", "demo", "draft", "move", "offline", "open"}


@pytest.mark.parametrize(
    "command", [("ask", "study.pmw", QUESTION, "--fresh"), ("close", "study.pmw", "--yes")]
)
def test_a_guess_of_the_table_is_wrong_usage_whether_it_is_right_or_not(
    textbook_study: Path, run: Run, command: tuple[str, ...]
) -> None:
    before = read_ledger(textbook_study)
    (textbook_study.parent / "guess.csv").write_text("age,sex,region,member\n30,Male,north,True\n")
    told = {run(*command, "--data", name).output for name in ("people.csv", "guess.csv")}
    assert len(told) == 1
    assert "No such option '--data'" in told.pop()
    assert read_ledger(textbook_study) == before


def test_commands_go_on_from_a_tables_new_place(
    textbook_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = textbook_study.parent
    (folder / "new").mkdir()
    (folder / "people.csv").rename(folder / "new" / "people.csv")
    asked = run("ask", "study.pmw", QUESTION)
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert asked.stderr.startswith("Error: expected a readable file, got ")
    assert asked.stderr.endswith("; where the table was moved, name its new place with pmw move\n")
    before = read_ledger(textbook_study)
    moved = run("move", "study.pmw", "--data", "new/people.csv")
    assert (moved.exit_code, moved.stderr) == (0, "")
    assert moved.stdout == "study.pmw reads its table from new/people.csv from now on; nothing was spent.\n"
    assert read_ledger(textbook_study) == before
    monkeypatch.chdir(folder / "new")
    assert run("ask", "../study.pmw", QUESTION).exit_code == 0


def test_another_table_is_refused_in_one_word(textbook_study: Path, run: Run) -> None:
    folder = textbook_study.parent
    (folder / "guess.csv").write_text("age,sex,region,member\n30,Male,north,True\n")
    moved = run("move", "study.pmw", "--data", "guess.csv")
    assert (moved.exit_code, moved.stdout) == (1, "")
    assert moved.stderr == "Error: the table differs from the one that the session was opened on\n"
    assert run("ask", "study.pmw", QUESTION).exit_code == 0


def test_a_closed_session_is_not_moved(textbook_study: Path, run: Run) -> None:
    assert run("close", "study.pmw", "--yes").exit_code == 0
    result = run("move", "study.pmw", "--data", "people.csv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: study.pmw was closed, and the key that tells its table from others is wiped; it needs no "
        "table any more\n"
    )


def test_a_session_in_use_is_waited_for_and_then_has_exit_code_5(textbook_study: Path, run: Run) -> None:
    lock = SessionLock(textbook_study)
    result = run("move", "study.pmw", "--data", "people.csv", "--wait", "0.1")
    assert result.exit_code == 5
    assert "in use by another process; waiting up to 0.1 s" in result.stderr
    assert run("move", "study.pmw", "--data", "people.csv", "--wait", "0").exit_code == 5
    lock.release()
    assert run("move", "study.pmw", "--data", "people.csv").exit_code == 0


def test_a_dialect_is_kept_unless_one_is_given(people: Path, run: Run) -> None:
    table = people / "people.csv"
    shutil.copy(table, people / "plain.csv")
    table.write_text(table.read_text().replace(",", ";"))
    opening = ("open", "study.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")
    assert run(*opening, "--delta", "1e-9", "--delimiter", ";", "--missing-text", "NA").exit_code == 0
    before = remembered_table(people / "study.pmw")
    table.rename(people / "moved.csv")
    assert run("move", "study.pmw", "--data", "moved.csv").exit_code == 0
    after = remembered_table(people / "study.pmw")
    assert isinstance(before, pmw.TableFile)
    assert isinstance(after, pmw.TableFile)
    assert (after.path, after.dialect) == (people / "moved.csv", before.dialect)
    assert run("move", "study.pmw", "--data", "plain.csv").exit_code == 1
    assert run("move", "study.pmw", "--data", "plain.csv", "--delimiter", ",").exit_code == 0
    last = remembered_table(people / "study.pmw")
    assert isinstance(last, pmw.TableFile)
    assert (last.dialect.delimiter, last.dialect.missing_texts) == (",", ())


def test_books_exports_and_backups_need_no_table(textbook_study: Path, run: Run) -> None:
    known = run("ask", "study.pmw", QUESTION).stdout
    (textbook_study.parent / "people.csv").unlink()
    before = read_ledger(textbook_study)
    assert run("ask", "study.pmw", QUESTION).stdout == known
    assert run("ask", "study.pmw", "age >= 40").exit_code == 0
    stream = '{"id": 1, "where": "age >= 44"}\n{"id": 2, "where": "age >= 44 AND member = TRUE"}\n'
    result = run("ask", "study.pmw", "--stream", stdin=stream)
    assert result.exit_code == 1
    assert [line[:8] for line in result.stdout.splitlines()] == ['{"id": 1']
    assert result.stderr.count("\n") == 1
    assert "name its new place with pmw move" in result.stderr
    for command in (
        ("status", "study.pmw"),
        ("ledger", "study.pmw"),
        ("report", "study.pmw", "-o", "report.html"),
        ("verify", "study.pmw", "--anchor", "study.anchor"),
        ("export", "study.pmw", "--output", "rows.csv"),
        ("backup", "study.pmw", "--output", "copy.pmw"),
        ("close", "study.pmw", "--yes"),
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
    assert read_ledger(textbook_study) == before


def test_giving_up_is_told_where_there_was_nothing_to_give_up(textbook_study: Path, run: Run) -> None:
    result = run("close", "study.pmw", "--yes", "--abandon")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1] == (
        "Nothing was abandoned: no batch waited, or the one that did was finished."
    )


def test_a_folder_and_a_dialect_are_remembered(people: Path, run: Run, frame: pd.DataFrame) -> None:
    frame.iloc[:200].to_csv(people / "some.csv", index=False, sep="\t", encoding="latin-1")
    for part, rows in (("a", slice(0, 90)), ("b", slice(90, 200))):
        (people / "parts" / part).mkdir(parents=True)
        frame.iloc[rows].to_csv(people / "part.csv", index=False)
        source, target = people / "part.csv", people / "parts" / part / "0.parquet"
        duckdb.execute(f"COPY (FROM '{source}') TO '{target}' (FORMAT parquet)")
    rest = ("--schema", "people.toml", "--epsilon", "1")
    written = ("--delimiter", "\\t", "--encoding", "latin-1", "--quote", "")
    assert run("open", "text.pmw", "--data", "some.csv", *rest, *written).exit_code == 0
    assert run("open", "parts.pmw", "--data", "parts", *rest).exit_code == 0
    for name in ("text.pmw", "parts.pmw"):
        asked = run("ask", name, QUESTION, "--fresh")
        assert (asked.exit_code, asked.stderr) == (0, "")
    (people / "parts").rename(people / "moved")
    assert run("move", "parts.pmw", "--data", "moved/*/*.parquet").exit_code == 0
    told = run("export", "parts.pmw", "--output", "moved/a/0.parquet", "--force")
    assert told.exit_code == 2
    assert "would overwrite the session's table" in told.stderr
    (people / "moved" / "c").mkdir()
    shutil.copy(people / "moved" / "a" / "0.parquet", people / "moved" / "c")
    assert "differs" in run("move", "parts.pmw", "--data", "moved").stderr


# --- memory of the records ---------------------------------------------------------------------------------


def test_sizes_are_read_and_remembered(people: Path, run: Run) -> None:
    opening = ("open", "study.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")
    assert run(*opening, "--memory", "1.5gib", "--temporary-folder", ".").exit_code == 0
    before = remembered_table(people / "study.pmw")
    assert before is not None
    assert before.memory == MemoryLimit(3 * 2**29, Path.cwd())
    assert run("move", "study.pmw", "--data", "people.csv").exit_code == 0
    assert remembered_table(people / "study.pmw") == before
    assert run("move", "study.pmw", "--data", "people.csv", "--memory", "20 MB").exit_code == 0
    after = remembered_table(people / "study.pmw")
    assert after is not None
    assert after.memory == MemoryLimit(2 * 10**7)
