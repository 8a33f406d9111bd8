"""Processes for fault injection: small sessions, processes that run commands on them, and faults.

A witness writes down each draw, and what the model answers at each version; a fault stops the process, or
makes a call of it fail, at the n-th durable step. A study's diary tells every process of it and how it ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd

import pmw
import pmw.cli.answering  # this and the next ones before processes are forked: see read-only folders
import pmw.cli.ask_commands
import pmw.cli.export_command
import pmw.cli.open_commands
import pmw.cli.upkeep_commands
import pmw.loop.fit
import pmw.session.engine
import pmw.session.releases
import pmw.session.session
from pmw.cli import main
from pmw.loop.secret import SecretState
from pmw.privacy.random_bits import BitSource
from pmw.public.state import PublicState
from pmw.session.engine import Engine
from pmw.session.journal import secret_facts
from pmw.session.store.companion import Companion
from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    random_conjunctions,
    save_schema,
)

COMMAND = "kill of python -m pmw"  # the one kind of fault whose process is not forked from this one
_NOBODY = 65534
_UNTOLD = 70  # exit code of a process that could not say how it ended
_SAID = 2000  # characters of a standard error that are told: a traceback's end


@dataclass(frozen=True, slots=True)
class Run:
    """What a process left behind."""

    fault: Fault
    code: int  # its exit code; minus the signal where one killed it
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
    study.note("pmw", *arguments, f"({fault}):", run.end)
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
    study.note(*command, f"({run.fault}):", run.end)
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


# --- studies ------------------------------------------------------------------------------------------------

_RECORDS = 3000
_QUESTIONS = 60
_QUERY = pmw.Options(test=pmw.TestKind.QUERY, threshold=15.0, update_limit=8)
_MARGINAL = pmw.Options(test=pmw.TestKind.MARGINAL, update_limit=4, composition=pmw.Composition.ZCDP)
_CHOICES = {"questions": (_QUERY, 0), "marginals": (_MARGINAL, 1), "wide": (_QUERY, 2)}  # and how many codes
STUDIES = tuple(_CHOICES)


class Study(NamedTuple):
    """A session file in a folder of its own, and the questions of its stream: JSON Lines with ids."""

    path: Path
    questions: Path
    asked: int
    diary: list[str]  # of the processes that used it, in order

    @property
    def table(self) -> Path:
        """Where its table lies."""
        return self.questions.with_name("people.csv")

    def copy(self, folder: Path) -> Study:
        """Return the study with a copy of its session in another folder, made again, and a new diary."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in self.path.parent.glob(f"{self.path.name}*"):
            shutil.copy2(file, folder)
        return self._replace(path=folder / self.path.name, diary=[])

    def note(self, *words: object) -> None:
        """Write down a process: what it ran, what befell it, and how it ended."""
        text = " ".join(map(str, words)).replace("\n", "\n      ")
        self.diary.append(f"    {text}\n")


def make_study(name: str, folder: Path) -> Study:
    """Return a new session that has answered nothing yet."""
    folder.mkdir(parents=True, exist_ok=True)
    options, codes = _CHOICES[name]
    domain = _domain(codes)
    _frame().to_csv(folder / "people.csv", index=False)
    path = folder / f"{name}.pmw"
    pmw.open_session(folder / "people.csv", domain, epsilon=2, delta=1e-9, path=path, options=options).close()
    save_schema(domain, folder / "people.toml")
    generator = np.random.default_rng(7)
    questions = folder / f"{name}.jsonl"
    lines = []
    for number in range(_QUESTIONS):
        low, high = sorted(int(age) for age in generator.choice(np.arange(20, 60), 2, replace=False))
        where: dict[str, object] = {"age": {"between": [low, high]}, "member": {"eq": bool(number % 2)}}
        if number % 3 == 0:
            where["sex"] = {"in": ["Female"]}
        if number % 5 == 0:
            where["region"] = {"in": ["north", "east"]}
        lines.append(json.dumps({"id": number, "where": where, "request_id": f"r{number}"}))
    questions.write_text("".join(f"{line}\n" for line in lines))
    return Study(path, questions, len(lines), [])


def _domain(codes: int) -> Domain:
    attributes: tuple[Attribute, ...] = (
        IntegerAttribute("age", 20, 59),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("region", ("north", "east", "south", "west")),
        CategoricalAttribute("member", (True, False)),
        *(IntegerAttribute(f"code{place}", 0, 15) for place in range(codes)),
    )
    return Domain(attributes, name="people")


def _frame() -> pd.DataFrame:
    """Return records whose membership depends on age and sex, far from products of single attributes."""
    generator = np.random.default_rng(20)
    age = generator.integers(20, 60, _RECORDS)
    sex = np.where(generator.random(_RECORDS) < 0.5, "Female", "Male")
    region = generator.choice(["north", "east", "south", "west"], _RECORDS)
    codes = {f"code{place}": generator.integers(0, 16, _RECORDS) for place in range(2)}
    member = (age > 40) ^ (sex == "Male") & (generator.random(_RECORDS) < 0.5)
    return pd.DataFrame({"age": age, "sex": sex, "region": region, "member": member, **codes})


# --- hooks --------------------------------------------------------------------------------------------------

# Numbers of fault_calls.c.
_CALLS = {
    "kill before a call": 1,
    "kill after a call": 2,
    "torn write": 3,
    "short write": 4,
    "full disk": 5,
    "broken disk": 6,
    "failed sync": 7,
    "read-only disk": 8,
    "power cut": 9,
    "power cut, some writes kept": 10,
}
CALL_KINDS = tuple(_CALLS)
STATEMENT_KINDS = ("kill before a statement", "kill after a statement", "statement on a full disk",
               "statement on a broken disk")  # fmt: skip
MEMORY_KINDS = ("no memory in a refit", "no memory after a refit", "address space used up")


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls a process, of ``STATEMENT_KINDS``, ``CALL_KINDS``, ``MEMORY_KINDS`` and some others."""

    kind: str = ""  # nothing
    at: float = 1  # which durable step, from 1 on; seconds of a kill at random
    positive: bool = False  # only once a test was positive; steps are counted from there on

    @property
    def label(self) -> str:
        """What it is counted as."""
        return f"at positives: {self.kind}" if self.positive else self.kind

    def __str__(self) -> str:
        if not self.kind:
            return "nothing befell it"
        return f"{self.kind} at {self.at:g}{', once a test was positive' if self.positive else ''}"


def library_is_loaded() -> bool:
    """Tell whether this process was started with the library of failing calls."""
    return hasattr(ctypes.CDLL(None), "fault_arm")


@functools.cache
def _library() -> ctypes.CDLL:
    """Return the library of failing calls, with the types of its numbers: else they are cut to 32 bits."""
    library = ctypes.CDLL(None)
    library.fault_arm.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_uint)
    library.fault_calls.restype = ctypes.c_long
    return library


def install(fault: Fault, path: Path, witness: int) -> None:
    """Prepare this process for its fault, and let a witness write down what it draws."""
    note = functools.partial(_note, witness)
    counted = fault.kind in STATEMENT_KINDS or fault.kind == "clock going back"
    connection = _Counting if counted else sqlite3.Connection
    _Counting.kind, _Counting.left = fault.kind, None if fault.positive else int(fault.at)
    sqlite3.connect = functools.partial(connection)  # type: ignore[assignment]
    arm = functools.partial(_arm, fault, path)
    if fault.kind == "clock going back":
        _library().fault_clock()
    if not fault.positive:
        arm()
    elif fault.kind in _CALLS:  # a power cut must know what was written before
        _library().fault_arm(str(path).encode(), _CALLS[fault.kind], 1 << 40, 1)
    _watch(note, path, arm if fault.positive else lambda: None)


def steps(fault: Fault) -> int:
    """Return how many steps of a fault's kind this process has made."""
    return int(_library().fault_calls()) if fault.kind in _CALLS else _Counting.counted


def _note(witness: int, **what: object) -> None:
    os.write(witness, json.dumps(what).encode() + b"\n")


def _arm(fault: Fault, path: Path) -> None:
    """Let the fault come to pass from now on."""
    if fault.kind in _CALLS:
        _library().fault_arm(str(path).encode(), _CALLS[fault.kind], int(fault.at), int(fault.at))
    elif fault.kind in STATEMENT_KINDS or fault.kind == "clock going back":
        _Counting.left = int(fault.at)
    elif fault.kind == "address space used up":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used, used))
    elif fault.kind in MEMORY_KINDS:
        _fail_refits(int(fault.at), after="after" in fault.kind)


def _fail_refits(at: int, *, after: bool) -> None:
    """Let the n-th fit of the model, and all after it, raise MemoryError, before or after its work."""
    count = 0

    def failing(fit: Callable[..., Any]) -> Callable[..., Any]:
        def run(*values: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count < at:
                return fit(*values, **named)
            if after:
                fit(*values, **named)
            raise MemoryError

        return run

    for name in ("refit", "descend", "step"):
        setattr(pmw.loop.fit, name, failing(getattr(pmw.loop.fit, name)))


class _Counting(sqlite3.Connection):
    """A connection that dies, or fails, at a statement."""

    kind = ""
    left: int | None = None
    counted = 0

    def execute(self, *values: Any) -> Any:
        return self._counted(super().execute, values)

    def executemany(self, *values: Any) -> Any:
        return self._counted(super().executemany, values)

    def _counted(self, run: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        cls = type(self)
        cls.counted += 1
        if cls.left is not None:
            cls.left -= 1
        if cls.left is None or cls.left > 0:
            return run(*values)
        if cls.kind.startswith("statement"):
            full = "full" in cls.kind
            failure = sqlite3.OperationalError("database or disk is full" if full else "disk I/O error")
            failure.sqlite_errorcode = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR
            raise failure
        if "after" in cls.kind:
            run(*values)
        os.kill(os.getpid(), signal.SIGKILL)
        return None


# --- the witness --------------------------------------------------------------------------------------------


def _watch(note: Callable[..., None], path: Path, at_positive: Callable[[], None]) -> None:
    """Write down every draw and every version of the model; tell when a test was positive."""
    draw, carry_out = vars(pmw.session.engine)["draw_tests"], Engine._carry_out
    draw_first = vars(pmw.session.releases)["draw_opening"]
    under_way: dict[str, object] = {}

    def drawn(*values: Any) -> Any:
        under_way["recorded"] = _is_recorded(path, under_way)
        draws, secret = draw(*values)
        positive = draws.released is not None
        note(**under_way, outcomes=list(draws.outcomes), released=_units(draws.released))
        if positive:
            at_positive()
        return draws, secret

    def carried_out(engine: Engine, intent: int, bits: BitSource, *given: Any) -> Any:
        facts = secret_facts(engine._secret, SecretState.closed(len(engine.state.plan)))
        held = sorted((name, digest(fact)) for name, fact in facts.items() if fact)
        under_way.update(intent=intent, seed=digest(bits._seed), thresholds=[list(one) for one in held])
        answers = carry_out(engine, intent, bits, *given)
        note(version=engine.state.version, answers=_model_answers(engine.state))
        return answers

    def opened(*values: Any) -> Any:
        draws = draw_first(*values)
        released = [_units(draws.total_units), *(_units(one.units) for one in draws.marginals)]
        note(opening=released)
        return draws

    vars(pmw.session.engine)["draw_tests"] = drawn
    vars(pmw.session.releases)["draw_opening"] = opened
    Engine._carry_out = carried_out  # type: ignore[assignment,method-assign]


def _is_recorded(path: Path, under_way: dict[str, object]) -> bool:
    """Tell whether a batch lies in the companion file, as others see it, before anything is drawn."""
    with contextlib.closing(sqlite3.Connection(f"file:{path}?mode=ro", uri=True)) as reader:
        (session,) = reader.execute("SELECT value FROM meta WHERE key = 'session'").fetchone()
    newest = Companion(path, path.name).read(bytes.fromhex(session.strip('"')), 0)
    return (newest.id, digest(newest.seed)) == (under_way["intent"], under_way["seed"])


def _units(released: Any) -> str | None:
    return None if released is None else np.atleast_1d(np.asarray(released, "<i8")).tobytes().hex()


def digest(raw: bytes) -> str:
    """Return what stands for secret bytes in a report."""
    return hashlib.sha256(raw).hexdigest()[:32]


def _model_answers(state: PublicState) -> list[str]:
    """Return what the model answers to some questions, to the last bit."""
    questions = random_conjunctions(state.domain, 8, seed=3)
    return [float(state.model.answer(query)).hex() for query in questions]
