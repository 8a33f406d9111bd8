"""Openings for fault injection: ``pmw open`` is stopped at a durable step, and the session then finished."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pmw
from benchmarks.fault_hooks import Fault
from benchmarks.fault_process import Run, run_forked, run_stream
from benchmarks.fault_study import Study

__all__ = ["broken_opening", "open_session"]


def open_session(study: Study, fault: Fault) -> Run:
    """Let a forked process open a session on the study's table, befallen by a fault."""
    table = study.questions.with_name("people.csv")
    options = ("--data", str(table), "--schema", str(table.with_suffix(".toml")), "--epsilon", "2")
    more = ("--delta", "1e-9", "--test", "query", "--update-limit", "8", "--threshold", "15")
    return run_forked(study, fault, ("open", str(study.path), *options, *more))


def broken_opening(study: Study, fault: Fault) -> tuple[bool, list[str]]:
    """Return whether an opening was stopped, and what was wrong with it, or an empty text for each check.

    Args:
        study: a folder whose session file is removed first.
        fault: what befalls the opening.
    """
    for file in study.path.parent.glob(f"{study.path.name}*"):
        file.unlink()
    first = open_session(study, fault)
    return first.stopped, list(_checks(study, first))


def _checks(study: Study, first: Run) -> Iterator[str]:
    told = first.errors.startswith("Error: ") and "Traceback" not in first.errors
    yield "" if first.code <= 0 or told else f"{first.fault}: {first.end}"
    runs = [first]
    if not _is_born(study.path):  # a session exists with its intent, or not at all
        yield "" if not _openings(first) else "noise was drawn before the session existed"
        runs = [open_session(study, Fault())]
        yield "" if runs[0].code == 0 else f"the opening cannot be made again: {runs[0].end}"
    runs.append(run_stream(study, Fault()))
    yield "" if runs[-1].code == 0 else f"the stream is not finished: {runs[-1].end}"
    yield "" if len(runs[-1].lines) == study.asked else "some questions have no answer"
    drawn = [draws for run in runs for draws in _openings(run)]
    yield "" if drawn and all(draws == drawn[0] for draws in drawn) else f"the opening drew {drawn}"
    measured = _measured(study.path)
    yield "" if measured == drawn[-1:][0] else "the file does not hold what the opening drew"
    verified = pmw.verify_session(study.path)
    yield ", ".join(check.name for check in verified.checks if not check.holds)


def _openings(run: Run) -> list[list[str]]:
    return [note["opening"] for note in run.notes if "opening" in note]


def _is_born(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _measured(path: Path) -> list[str]:
    """Return what the opening's intent released, as hexadecimal bytes."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT units FROM measurements WHERE intent = 1 ORDER BY sequence")
        return [row[0].hex() for row in rows]
