"""Hooks for fault injection: what a process does to itself before it runs the command.

A witness writes down each draw, and what the model answers at each version; a fault stops the process, or
makes a call of it fail, at the n-th durable step.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import resource
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pmw.loop.fit
import pmw.session.engine
import pmw.session.releases
from pmw.loop.secret import SecretState
from pmw.public.state import PublicState
from pmw.session.engine import Engine
from pmw.session.journal import secret_facts
from pmw.session.store.companion import Companion
from queries import Domain, LinearQuery, random_conjunctions

__all__ = ["CALL_KINDS", "Fault", "install", "library_is_loaded", "MEMORY_KINDS", "STATEMENT_KINDS", "steps"]

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
    """What befalls a process.

    Args:
        kind: one of ``STATEMENT_KINDS``, ``CALL_KINDS``, ``MEMORY_KINDS``, ``clock going back``, ``read-only
            folder`` or ``kill at random``; an empty text for nothing.
        at: at which durable step, from 1 on; seconds of a kill at random.
        positive: only once a test was positive; steps are counted from there on.
    """

    kind: str = ""
    at: float = 1
    positive: bool = False

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
    """Prepare this process for its fault, and let a witness write down what it draws.

    Args:
        fault: what befalls it.
        path: the session file.
        witness: a descriptor for lines of JSON.
    """
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
        if cls.left is None:
            return run(*values)
        cls.left -= 1
        if cls.left > 0:
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

    def carried_out(engine: Engine, intent: int, proposal: Any, asked: Any, seed: bytes, account: Any) -> Any:
        facts = secret_facts(engine._secret, SecretState.closed(len(engine.state.plan)))
        held = sorted((name, _digest(fact)) for name, fact in facts.items() if fact)
        under_way.update(intent=intent, seed=_digest(seed), thresholds=[list(one) for one in held])
        answers = carry_out(engine, intent, proposal, asked, seed, account)
        note(version=engine.state.version, answers=_model_answers(engine.state))
        return answers

    def opened(*values: Any) -> Any:
        draws = draw_first(*values)
        released = [_units(draws.total_units), *(_units(one.units) for one in draws.marginals)]
        note(opening=released)
        return draws

    replaced: list[tuple[object, str, Callable[..., Any]]] = [
        (pmw.session.engine, "draw_tests", drawn),
        (pmw.session.releases, "draw_opening", opened),
        (Engine, "_carry_out", carried_out),
    ]
    for owner, name, instead in replaced:
        setattr(owner, name, instead)


def _is_recorded(path: Path, under_way: dict[str, object]) -> bool:
    """Tell whether a batch lies in the companion file, as others see it, before anything is drawn."""
    with contextlib.closing(sqlite3.Connection(f"file:{path}?mode=ro", uri=True)) as reader:
        (session,) = reader.execute("SELECT value FROM meta WHERE key = 'session'").fetchone()
    newest = Companion(path, path.name).read(bytes.fromhex(session.strip('"')), 0)
    return (newest.id, _digest(newest.seed)) == (under_way["intent"], under_way["seed"])


def _units(released: Any) -> str | None:
    return None if released is None else np.atleast_1d(np.asarray(released, "<i8")).tobytes().hex()


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:32]


def _model_answers(state: PublicState) -> list[str]:
    """Return what the model answers to some questions, to the last bit."""
    return [float(state.model.answer(query)).hex() for query in _fixed_questions(state.domain)]


@functools.cache
def _fixed_questions(domain: Domain) -> tuple[LinearQuery, ...]:
    return tuple(random_conjunctions(domain, 8, seed=3))
