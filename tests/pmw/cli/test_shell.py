"""Words: completion depends on the schema and the line alone."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from pmw.cli.shell.dialogue import Statements, completions, is_statement, is_unfinished, schema_text
from pmw.cli.shell.editing import SchemaCompleter
from queries import CategoricalAttribute, Domain, IntegerAttribute, Lookup, NumericAttribute, rule_out
from tests.pmw.cli.commands import Run

DOMAIN = Domain(
    (
        IntegerAttribute("age", 20, 59, 10),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("native-country", ("United States", "Cote d'Ivoire")),
        CategoricalAttribute("smoker", (True, False)),
        NumericAttribute("income", (0, 10_000, 50_000)),
    ),
    name="people",
)


def offered(line: str) -> list[str]:
    return [line[: len(line) - length] + text for text, length in completions(line, DOMAIN)]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ag", ["age"]),
        ("age > 40 and se", ["age > 40 and sex", "age > 40 and SELECT"]),
        ("nat", ['"native-country"']),
        ("sex = 'F", ["sex = 'Female'"]),
        ("sex = f", ["sex = 'Female'"]),
        ("sex <> 'M", ["sex <> 'Male'"]),
        ("sex IN ('Female', ", ["sex IN ('Female', 'Female'", "sex IN ('Female', 'Male'"]),
        ("sex not in (", ["sex not in ('Female'", "sex not in ('Male'"]),
        ('"native-country" = \'C', ["\"native-country\" = 'Cote d''Ivoire'"]),
        ('"native-country" = \'United S', ["\"native-country\" = 'United States'"]),
        ("smoker = T", ["smoker = TRUE"]),
        ("age >= ", [f"age >= {edge}" for edge in (20, 30, 40, 50, 60)]),
        ("age BETWEEN 30 AND ", [f"age BETWEEN 30 AND {edge}" for edge in (20, 30, 40, 50, 60)]),
        ("income < 1", ["income < 10000"]),
        ("SELECT COUNT(*) FROM pe", ["SELECT COUNT(*) FROM people"]),
        ("SELECT perc", ["SELECT PERCENTILE_CONT"]),
        ("SELECT coal", ["SELECT COALESCE"]),
        (".m", [".measure", ".mode"]),
        (".measure sex,ag", [".measure sex,age"]),
        (".mode j", [".mode json"]),
        (".schema s", [".schema sex", ".schema smoker"]),
        (".cost sex = 'M", [".cost sex = 'Male'"]),
        ("zzz", []),
        ("nothing = 'M", []),
    ],
)
def test_a_word_becomes_what_the_schema_has(line: str, wanted: list[str]) -> None:
    assert offered(line) == wanted


def test_every_attribute_is_offered_on_an_empty_line() -> None:
    assert offered("")[: len(DOMAIN)] == ["age", "sex", '"native-country"', "smoker", "income"]


@pytest.mark.parametrize("line", ["(" * 2000, "'" * 2001, "a " * 2000, "\x00\x1b", "é = '" + "x" * 10**5])
def test_odd_lines_are_completed_in_no_time(line: str) -> None:
    assert len(offered(line)) < 1000


JOINED = Domain(
    DOMAIN.attributes, "people",
    lookups=(Lookup("countries", "native-country", {
        "United States": {"name": "USA", "region": "America"}, "Cote d'Ivoire": {"region": "Africa"},
    }, "country"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("SELECT COUNT(*) FROM people JOIN co", ["countries"]),
        ("SELECT COUNT(*) FROM co", []),
        ("SELECT reg", ["region"]),
        ("WHERE c.region = ", ["'Africa'", "'America'"]),
        ("WHERE c.name IN ('U", ["'USA'"]),
        (".schema co", ["countries"]),
        (".measure co", []),
    ],
)
def test_lookups_are_offered_where_they_stand(line: str, wanted: list[str]) -> None:
    found = [text for text, _ in completions(line, JOINED)]
    assert [text for text in found if text != "COUNT"] == wanted


def test_the_completer_takes_the_place_of_the_word() -> None:
    found = list(SchemaCompleter(DOMAIN).get_completions(Document("sex = 'M"), CompleteEvent()))
    assert [(one.text, one.start_position) for one in found] == [("'Male'", -2)]


def test_the_schema_and_its_lookups_are_told_in_words() -> None:
    assert "native-country  2 cells: 'United States', 'Cote d''Ivoire'" in schema_text(DOMAIN)
    assert schema_text(DOMAIN, "age").splitlines()[0] == DOMAIN["age"].label(0)
    assert schema_text(rule_out(DOMAIN, "age < 30")).splitlines()[-1] == "impossible: age < 30"
    last = schema_text(JOINED).splitlines()[-1]
    assert last == "countries       lookup of native-country, to join by country: name, region"
    assert schema_text(JOINED, "countries").splitlines() == [
        "country        name  region", "United States  USA   America", "Cote d'Ivoire        Africa",
    ]  # fmt: skip


# --- Statements: lines that belong together, however they are cut -------------------------------------------


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ("age > 40", False),
        ("selected = 'yes'", False),
        ("SELECT COUNT(*) FROM people", True),
        ("select count(*) from people;  ", False),
        ("WITH a AS (SELECT 1)", True),
        ("SELECT 1 WHERE a = ';", True),
        ("SELECT 1 WHERE a = 'x;'", True),
        ("SELECT 1 WHERE a = 'it''s;';", False),
        ('SELECT "a;', True),
        ("", False),
    ],
)
def test_a_statement_goes_on_up_to_a_semicolon_outside_of_quotes(text: str, unfinished: bool) -> None:
    assert is_unfinished(text) == unfinished


def test_lines_become_questions() -> None:
    statements = Statements()
    assert list(statements.add("age > 40\n\n.cost\nSELECT COUNT(*)")) == ["age > 40", ".cost"]
    assert statements.unfinished == "SELECT COUNT(*)"
    assert list(statements.add("FROM people;")) == ["SELECT COUNT(*)\nFROM people;"]
    assert statements.unfinished == ""
    assert list(statements.add("SELECT")) == []
    statements.drop()
    assert list(statements.add("age > 40")) == ["age > 40"]


@given(st.text(max_size=60))
def test_no_text_is_lost(text: str) -> None:
    statements = Statements()
    found = [*statements.add(text), statements.unfinished]
    kept = [one for one in "\n".join(found).split() if one]
    assert kept == [word for line in text.split("\n") for word in line.split()]
    assert not any(is_unfinished(one) for one in found[:-1])
    assert is_statement(found[-1]) or not found[-1]


# --- On a pipe: every line answered in order, whatever it holds ---------------------------------------------


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
        b"SELECT ';\n",
    ],
    ids=["binary", "a long line", "a long statement", "no end", "an open quote"],
)
def test_what_cannot_be_read_is_refused_and_costs_nothing_and_the_next_line_is_answered(
    study: Path, run: Run, stdin: bytes
) -> None:
    before = run.told("ledger", "study.pmw")
    result = run("shell", "study.pmw", stdin=stdin)
    assert result.exit_code == 4, result.output
    assert "Error: " in result.stderr
    assert len(result.stderr) < 2000
    assert run.told("ledger", "study.pmw") == before
    if stdin.endswith(b"\n") and b"SELECT" not in stdin:
        told = run.told("shell", "study.pmw", stdin=stdin + b"age >= 30\n")
        assert told.startswith("About ")
        assert told.count("About ") == 1


# --- On a terminal: editing, interrupts, narrow screens, and how it is left ---------------------------------


LONGEST = 60.0  # seconds that anything on a busy machine may take
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])")


def _as_on_a_terminal() -> None:
    """Let Ctrl-C reach a process, also where the tests run in the background and ignore it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A process on a terminal of its own, and what it has written so far."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        self.slave = slave
        self.resize(100)
        self.before = termios.tcgetattr(slave)
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**kept, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "PAGER": "cat", **environment},
            preexec_fn=_as_on_a_terminal,  # noqa: PLW1509
        )  # fmt: skip
        self._text = ""
        self._seen = 0

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def write(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait(self, wanted: str) -> str:
        """Return what was written since the last call, up to and with a text."""
        until = time.monotonic() + LONGEST
        while wanted not in self._text[self._seen :]:
            self._read(until - time.monotonic(), wanted)
        end = self._text.index(wanted, self._seen) + len(wanted)
        found, self._seen = self._text[self._seen : end], end
        return found

    def ask(self, text: str, wanted: str) -> str:
        self.write(text)
        return self.wait(wanted)

    def ended(self) -> int:
        until = time.monotonic() + LONGEST
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it did not end; after {self._text[self._seen :][-2000:]!r}"
            self._take()
        return self.process.returncode

    def _read(self, seconds: float, wanted: str) -> None:
        ready = select.select([self.master], [], [], max(seconds, 0))[0]
        assert ready, f"{wanted!r} did not come; after {self._text[self._seen :][-2000:]!r}"
        self._take()

    def _take(self) -> None:
        if select.select([self.master], [], [], 0.1)[0]:
            raw = os.read(self.master, 1 << 16).decode(errors="replace")
            self._text += ESCAPES.sub("", raw).replace("\r", "")

    @property
    def is_as_before(self) -> bool:
        return bool(termios.tcgetattr(self.slave)[3] == self.before[3])


@contextlib.contextmanager
def shell(study: Path, *options: str, plain: bool = False, **environment: str) -> Iterator[Terminal]:
    hidden = "import sys; sys.modules['prompt_toolkit'] = None; " if plain else ""
    code = f"{hidden}from pmw.cli import main; main(prog_name='pmw')"
    command = [sys.executable, "-c", code, "shell", study.name, *options]
    state = {"XDG_STATE_HOME": str(study.parent / "state")}
    terminal = Terminal(command, study.parent, {**state, **environment})
    try:
        yield terminal
    finally:
        with contextlib.suppress(ProcessLookupError):
            terminal.process.kill()
        terminal.process.wait(LONGEST)
        os.close(terminal.master)
        os.close(terminal.slave)


def test_a_dialogue_with_editing_completion_and_a_history(study: Path) -> None:
    kept = study.parent / "state" / "pmw" / "history"
    kept.parent.mkdir(parents=True)
    kept.write_text("")
    kept.chmod(0o644)  # others could read it before
    with shell(study) as terminal:
        head = terminal.wait("pmw>")
        assert "attributes" in head
        assert "pip install" not in head
        assert "About " in terminal.ask("age >= 30\r", "of the budget spent")
        terminal.wait("pmw>")
        assert "Error: " in terminal.ask("agee >= 30\r", "did you mean 'age'?")
        terminal.wait("pmw>")
        terminal.ask("SELECT COU", "COU")
        terminal.ask("\t", "NT")
        terminal.ask("(*)\r", "...>")
        assert "count_source" not in (told := terminal.ask("FROM people;\r", "of the budget spent"))
        assert "source" in told
        terminal.wait("pmw>")
        terminal.ask("SELECT COUNT(*)\r", "...>")
        terminal.ask("\x03", "pmw>")  # an interrupt drops a line, and not the shell
        terminal.ask(".mo", ".mo")
        terminal.ask("\t", "de")
        terminal.write(" json\r")
        terminal.wait("pmw>")
        assert '"count"' in terminal.ask("age >= 30\r", '"spent"')
        terminal.wait("pmw>")
        terminal.write("\x04")
        assert terminal.ended() == 0
        assert terminal.is_as_before
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "age >= 30" in kept.read_text()


def test_a_plain_terminal_that_may_be_narrow_and_is_told_to_end(study: Path, run: Run) -> None:
    with shell(study, plain=True) as terminal:
        assert "install the extra 'shell' (in" in terminal.wait("pmw>")
        terminal.ask("SELECT COUNT(*)\r", "...>")
        terminal.ask("\x03", "pmw>")
        for columns in (40, 20):
            terminal.resize(columns)
            told = terminal.ask("SELECT sex, COUNT(*) FROM people GROUP BY sex;\r", "(low and high")
            rows = [line for line in told.splitlines() if "low" in line or "count" in line]
            assert rows
            assert all(len(line) <= columns for line in told.splitlines()[1:-1])
            terminal.wait("pmw>")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM
        assert terminal.is_as_before
    assert not (study.parent / "state").exists()
    run.told("ask", study.name, "", "--wait", "0")


def test_what_is_longer_than_the_screen_goes_through_the_pager_and_no_history_is_kept(study: Path) -> None:
    pager = study.parent / "pager"
    pager.write_text("#!/bin/sh\necho paged\ncat\n")
    pager.chmod(0o755)
    with shell(study, "--no-history", PAGER=str(pager)) as terminal:
        terminal.wait("pmw>")
        assert "paged" not in terminal.ask(".mode\r", "table")
        told = terminal.ask(
            "SELECT age, region, COUNT(*) FROM people GROUP BY age, region;\r", "low and high"
        )
        assert "paged" in told
        terminal.wait("pmw>")
        terminal.write(".quit\r")
        assert terminal.ended() == 0
    assert not (study.parent / "state").exists()


def test_without_a_place_for_the_history_the_shell_runs_until_it_is_told_to_end(
    study: Path, run: Run
) -> None:
    (study.parent / "state").write_text("in the way")
    with shell(study) as terminal:
        assert "no history is kept" in terminal.wait("pmw>")
        time.sleep(0.3)  # editing has begun
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM
        assert terminal.is_as_before
    run.told("ask", study.name, "", "--wait", "0")


def test_a_table_is_paid_for_after_a_yes(yearly_study: Path) -> None:
    with shell(yearly_study) as terminal:
        terminal.wait("pmw>")
        assert "would cost" in terminal.ask(".measure sex,region\r", "Pay it?")
        terminal.ask("n\r", "pmw>")
        assert "began: 0.00%" in terminal.ask(".cost\r", "of the budget")
        terminal.wait("pmw>")
        terminal.ask(".measure sex,region\r", "[y/N]: ")
        time.sleep(1)  # Python may not see a signal that comes just before it waits for a line
        terminal.ask("\x03", "pmw>")
        assert "began: 0.00%" in terminal.ask(".cost\r", "of the budget")
        terminal.wait("pmw>")
        terminal.ask(".measure sex,region\r", "Pay it?")
        assert "Measured sex, region" in terminal.ask("y\r", "confidence.")
        terminal.wait("pmw>")
        assert "began: 0.00%" not in terminal.ask(".cost\r", "of the budget")
        terminal.wait("pmw>")
        terminal.write(".quit\r")
        assert terminal.ended() == 0
