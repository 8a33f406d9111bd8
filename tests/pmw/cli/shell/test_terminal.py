"""The shell as a process on a terminal: editing, interrupts, narrow screens, and how it is left."""

from __future__ import annotations

import contextlib
import fcntl
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

from tests.pmw.cli.commands import Run

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
