"""Processes for fault injection: ``pmw ask SESSION --stream`` in a real process that something befalls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

# Loaded before processes are forked: a user of a read-only folder may not be allowed to read them.
import pmw.cli.ask_command
import pmw.cli.backup_command
import pmw.cli.close_command
import pmw.cli.export_command
import pmw.cli.move_command
import pmw.cli.open_command
import pmw.cli.streaming
import pmw.session.session  # noqa: F401
from benchmarks.fault_diary import note_process
from benchmarks.fault_hooks import Fault, install, steps
from benchmarks.fault_study import Study
from pmw.cli import main

__all__ = ["COMMAND", "Run", "run_command", "run_forked", "run_stream"]

COMMAND = "kill of python -m pmw"  # the one kind of fault whose process is not forked from this one
_NOBODY = 65534
_UNTOLD = 70  # exit code of a process that could not say how it ended
_SAID = 2000  # characters of a standard error that are told: a traceback's end


@dataclass(frozen=True, slots=True)
class Run:
    """What a process left behind.

    Args:
        fault: what befell it.
        code: its exit code; minus the signal where one killed it.
        lines: what it printed, whole lines of JSON by their ``id``.
        errors: what it said on its standard error.
        notes: what its witness wrote down.
    """

    fault: Fault
    code: int
    lines: dict[int, str]
    errors: str
    notes: tuple[dict[str, Any], ...]

    @property
    def is_watched(self) -> bool:
        """Whether a witness wrote down what it drew."""
        return self.fault.kind != COMMAND

    @property
    def steps(self) -> int:
        """How many steps a process made that ended by itself."""
        return next((int(note["steps"]) for note in self.notes if "steps" in note), 0)

    @property
    def stopped(self) -> bool:
        """Whether the process ended before its stream."""
        return self.code != 0

    @property
    def end(self) -> str:
        """How it ended, in words: its exit code, and the end of what it said on its standard error."""
        return f"exit {self.code}: {self.errors[-_SAID:].strip() or 'it said nothing'}"


def run_stream(study: Study, fault: Fault) -> Run:
    """Let a forked process answer the whole stream, befallen by a fault, and return what it left behind."""
    return run_forked(study, fault, ("ask", str(study.path), "--stream"))


def run_forked(study: Study, fault: Fault, arguments: tuple[str, ...]) -> Run:
    """Let a forked process run a command, befallen by a fault, and return what it left behind.

    The process that calls this must have no threads.

    Args:
        study: whose questions are its standard input.
        fault: what befalls it.
        arguments: of ``pmw``.
    """
    folder = study.path.parent
    readable = fault.kind != "read-only folder"
    out, err, notes = (folder.with_name(f"{folder.name}.{end}") for end in ("out", "err", "notes"))
    for file in (out, err, notes):  # a process may be killed before it has opened its own
        file.write_bytes(b"")
        file.chmod(0o666)
    child = os.fork()
    if child == 0:
        _become_the_command(study, fault, (out, err, notes), arguments)
    if fault.kind == "kill at random":
        time.sleep(fault.at)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not readable:
        _give(folder, 0o755, os.geteuid())
    told = tuple(json.loads(line) for line in _whole_lines(notes))
    run = Run(fault, os.waitstatus_to_exitcode(status), _answers(_whole_lines(out)), err.read_text(), told)
    note_process(folder, "pmw", *arguments, f"({fault}):", run.end)
    return run


def run_command(study: Study, seconds: float) -> Run:
    """Let ``python -m pmw`` itself answer the stream, and kill it so long after its first line."""
    command = [sys.executable, "-m", "pmw", "ask", str(study.path), "--stream"]
    with study.questions.open("rb") as questions:
        process = subprocess.Popen(  # noqa: S603
            command, stdin=questions, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
    first = b"" if process.stdout is None else process.stdout.readline()
    time.sleep(seconds)
    process.kill()
    rest, errors = process.communicate()
    lines = (first + rest).decode().split("\n")[:-1]
    run = Run(Fault(COMMAND, seconds), process.returncode, _answers(lines), errors.decode(), ())
    note_process(study.path.parent, *command, f"({run.fault}):", run.end)
    return run


def _whole_lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


def _answers(lines: list[str]) -> dict[int, str]:
    return {json.loads(line)["id"]: line for line in lines if line.startswith('{"id"')}


def _become_the_command(
    study: Study, fault: Fault, files: tuple[Path, Path, Path], arguments: tuple[str, ...]
) -> None:
    """Run the command in this process, with its three streams in files, and end the process."""
    code, witness = _UNTOLD, -1
    try:
        questions = os.open(study.questions, os.O_RDONLY)
        out, err, notes = (os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for file in files)
        for place, opened in enumerate((questions, out, err)):
            os.dup2(opened, place)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        if fault.kind == "read-only folder":
            _give(study.path.parent, 0o555, _NOBODY)
        witness = notes
        install(fault, study.path, witness)
        main(list(arguments), prog_name="pmw")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # the traceback that the interpreter would print  # noqa: BLE001
        traceback.print_exc()
        code = 1
    finally:
        _end(code, witness, fault)


def _end(code: int, witness: int, fault: Fault) -> NoReturn:
    """End this process, whatever fails: as a copy of the benchmark it would go on, and tidy up after it."""
    ended = _UNTOLD
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.write(witness, json.dumps({"steps": steps(fault)}).encode() + b"\n")
        ended = code
    finally:
        os._exit(ended)


def _give(folder: Path, mode: int, owner: int) -> None:
    """Set the mode of a folder and the owner of its files; the superuser becomes that owner."""
    if os.geteuid() == 0:
        for file in folder.iterdir():
            os.chown(file, owner, -1)
    folder.chmod(mode)
    if os.geteuid() == 0 and owner != 0:
        os.setuid(owner)
