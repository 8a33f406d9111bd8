"""The shell on a pipe: every line answered in order, whatever it holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pmw.cli.commands import Run
from tests.pmw.session.stored import execute


def test_lines_are_answered_as_by_ask(study: Path, run: Run) -> None:
    where, statement = "age >= 30 AND sex = 'Male'", "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    mean = "SELECT AVG(age) FROM people"
    asked = ((where,), ("--sql", statement), ("--sql", mean))
    expected = "".join(run.told("ask", "study.pmw", *question) for question in asked)
    broken = statement.replace(" FROM", "\nFROM")
    result = run("shell", "study.pmw", stdin=f"{where}\n\n{broken}\n;\n{mean};\n")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == expected


def test_modes(study: Path, run: Run) -> None:
    lines = (
        ".mode json\nage >= 30\nagee >= 30\n.mode csv\n"
        "SELECT sex, COUNT(*) FROM people GROUP BY sex;\n.mode xml\n.mode"
    )
    result = run("shell", "study.pmw", stdin=lines)
    first, refused, *table, mode = result.stdout.splitlines()
    assert json.loads(first)["count"] > 0
    assert json.loads(refused)["error"]["code"] == "unknown_attribute"
    assert table[0] == "sex,count,count_low,count_high,count_source"
    assert len(table) == 3
    assert mode == "csv"
    assert "Error: expected .mode table, csv or json, got 'xml'" in result.stderr


def test_commands(study: Path, run: Run) -> None:
    lines = ".help\n.schema\n.schema sex\n.status\n.cost\n.nonsense\n.schema nobody\n.quit\nage > 3"
    result = run("shell", "study.pmw", stdin=lines)
    assert result.exit_code == 0
    for told in (".quit", "region", "Female\nMale\n", "guarantee", "Spent since the shell began: 0.00%"):
        assert told in result.stdout
    assert "About" not in result.stdout
    assert "no such command: .nonsense" in result.stderr
    assert "'nobody'" in result.stderr


def test_the_cost_is_told_before_and_after(textbook_study: Path, run: Run) -> None:
    where = "age >= 40 AND member = TRUE"
    lines = [f".cost {where}", where, ".cost", f".cost {where}"]
    told = run.told("shell", "study.pmw", stdin="\n".join(lines)).splitlines()
    assert told[0].startswith("Spent since the shell began: 0.00% of the budget.")
    assert told[1].startswith("This question costs ")
    assert "at most" in told[1]
    assert not told[4].startswith("Spent since the shell began: 0.00%")
    assert (
        told[5] == "The last question, asked now, is free: it was answered before, and gets the same answer."
    )
    assert told[7] == "This question is free: it was answered before, and gets the same answer."


def test_a_pipe_is_told_the_price_of_a_table_and_pays_nothing(yearly_study: Path, run: Run) -> None:
    before = run.told("ledger", "study.pmw")
    result = run("shell", "study.pmw", stdin=".measure sex, region\n.measure sexx\n.measure\n")
    assert "would cost" in result.stdout
    assert result.stderr.count("Error: ") == 2
    assert run.told("ledger", "study.pmw") == before


@pytest.mark.parametrize(
    "stdin",
    [
        b"\xff\xfe\x00\x01" * 500 + b"\n",
        b"age >= " + b"1" * 2**20 + b"\n",
        b"SELECT COUNT(*) FROM people WHERE age > " + b"1" * (2**20 + 50) + b";\n",
        b"SELECT COUNT(*) FROM people",
        b"(" * 5000 + b"\n",
        b"{" * 3000 + b"\n",
        b"SELECT ';\n",
    ],
    ids=["binary", "a long line", "a long statement", "no end", "deep", "deep JSON", "an open quote"],
)
def test_what_cannot_be_read_is_refused_and_costs_nothing(study: Path, run: Run, stdin: bytes) -> None:
    before = run.told("ledger", "study.pmw")
    result = run("shell", "study.pmw", stdin=stdin)
    assert result.exit_code == 4, result.output
    assert "Error: " in result.stderr
    assert len(result.stderr) < 2000
    assert run.told("ledger", "study.pmw") == before


def test_after_a_bad_line_the_next_is_answered(study: Path, run: Run) -> None:
    told = run.told("shell", "study.pmw", stdin=b"\xff\x00\n" + b"x" * (2**20 + 5) + b"\nage >= 30\n")
    assert told.startswith("About ")
    assert told.count("About ") == 1


def test_nothing_asked_is_no_error(study: Path, run: Run) -> None:
    run.told("shell", "study.pmw", stdin="")
    run.told("shell", "study.pmw", stdin="\n \n.mode\n")


def test_a_closed_session_answers_on(study: Path, run: Run) -> None:
    run.told("close", "study.pmw", "--yes")
    told = run.told("shell", "study.pmw", stdin="age >= 30\n.cost age >= 40 AND sex = 'Male'\n")
    assert "About" in told
    assert "is free: nothing is to be tested" in told


def test_a_session_that_is_none_is_one_error(study: Path, run: Run) -> None:
    run.refused("shell", "nothing.pmw", stdin="age >= 30\n")
    (study.parent / "text.pmw").write_text("no session")
    run.refused("shell", "text.pmw", stdin="age >= 30\n", code=5)
    execute(study, "UPDATE ledger SET rho = 'x'")
    run.refused("shell", "study.pmw", stdin="age >= 30\n", code=5)
