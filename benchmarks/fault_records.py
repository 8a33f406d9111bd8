"""Records of fault injection: what each stop left in the session file, and whether the promises hold."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pmw
from benchmarks.fault_process import Run
from pmw.session.maintenance import read_ledger
from pmw.session.store import SessionStore

__all__ = ["broken_promises", "Contents", "contents_of", "PROMISES", "Stop"]

Row = tuple[Any, ...]
_ANSWER = "count, low, high, source, version, share"
_MARKED = (  # requests that were given an answer stored for another
    f"SELECT substr(key, 9), {_ANSWER} FROM meta JOIN answers ON sequence = value"  # noqa: S608
    " WHERE key LIKE 'request %'"
)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a session file holds, read from a copy of it.

    Args:
        ledger: charges: number, intent, event, epsilon, rho, mu_squared.
        measurements: what was released: number, intent, kind, units.
        answers: answers by request: count, low, high, source, version, share.
        pending: intents without an outcome: number and digest of the 32 bytes.
        thresholds: digests of the noisy thresholds, by name.
        share: of the budget.
        faults: checks of ``verify`` that do not hold; None where it was not run.
    """

    ledger: tuple[Row, ...]
    measurements: tuple[Row, ...]
    answers: dict[str, Row]
    pending: tuple[Row, ...]
    thresholds: tuple[Row, ...]
    share: float
    faults: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Stop:
    """One process, and the file as it left it."""

    run: Run
    after: Contents


def contents_of(path: Path, *, verified: bool = True) -> Contents:
    """Return what a session file holds, as who reopens it finds it; the file itself is not touched.

    Args:
        path: the session file.
        verified: also run ``verify``, which takes the longest.
    """
    folder = path.parent.with_name(f"{path.parent.name}.copy")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        if not file.name.endswith("-shm"):  # it is made again from the log
            shutil.copy(file, folder)
    copy = folder / path.name
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        read = connection.execute
        answers = read(f"SELECT request_id, {_ANSWER} FROM answers")  # noqa: S608
        found = {row[0]: row[1:] for row in answers}
        marked = read(_MARKED)
        found.update({row[0]: row[1:] for row in marked})
        ledger = read(
            "SELECT sequence, intent, event, epsilon, rho, mu_squared FROM ledger ORDER BY sequence"
        ).fetchall()
        measured = read("SELECT sequence, intent, kind, units FROM measurements ORDER BY sequence").fetchall()
        names = read("SELECT key, value FROM secrets WHERE key LIKE '%threshold'").fetchall()
    faults = tuple(one.name for one in pmw.verify_session(copy).checks if not one.holds) if verified else None
    with contextlib.closing(SessionStore.open(copy)) as store:
        waiting = store.pending()
    pending = [] if waiting is None else [(waiting.id, _digest(waiting.seed))]
    thresholds = tuple(sorted((name, _digest(value)) for name, value in names))
    share = read_ledger(copy).share
    return Contents(tuple(ledger), tuple(measured), found, tuple(pending), thresholds, share, faults)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:32]


def broken_promises(first: Contents, stops: Sequence[Stop]) -> tuple[list[str], Counter[str]]:
    """Return what does not hold of a session that was stopped again and again, and what was checked.

    Args:
        first: the session before the first process.
        stops: every process that ran on it, in order; the last one was let finish.
    """
    checked: Counter[str] = Counter()
    broken = []
    for name, promise in PROMISES.items():
        for fault in promise(first, stops):
            checked[name] += 1
            if fault:
                broken.append(f"{name}: {fault}")
    return broken, checked


# --- promises: each yields, for each thing that is compared, what is wrong with it or an empty text ---------


def _released_is_stored(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    for stop in stops:
        for number, line in stop.run.lines.items():
            form, row = json.loads(line), stop.after.answers.get(f"r{number}")
            if row is None:
                yield f"the answer to {number} was released and is not in the file"
                continue
            count, low, high, source, version, share = row
            interval = None if low is None else [round(low, 3), round(high, 3)]
            wanted = [round(count, 3), interval, source, version, float(f"{share:.6g}")]
            found = [
                *(form[name] for name in ("count", "interval", "source", "version")),
                form["spent"]["share"],
            ]
            yield "" if found == wanted else f"{number}: {line}, stored {row}"


def _released_never_changes(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    known: dict[int, str] = {}
    for stop in stops:
        for number, line in stop.run.lines.items():
            yield "" if known.setdefault(number, line) == line else f"{known[number]} became {line}"


def _drawn_once(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    known: dict[int, dict[str, Any]] = {}
    for stop in stops:
        for note in stop.run.notes:
            if "intent" not in note:
                continue
            yield "" if note["recorded"] else f"intent {note['intent']} drew before it was durable"
            if known.setdefault(note["intent"], note) != note:
                yield f"intent {note['intent']} was drawn as {known[note['intent']]} and as {note}"
        for number, seed in stop.after.pending:
            if number in known:
                yield (
                    ""
                    if known[number]["seed"] == seed
                    else f"intent {number} has other bytes than it drew from"
                )


def _measured_is_what_was_drawn(first: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    drawn = {note["intent"]: note for stop in stops for note in stop.run.notes if "intent" in note}
    for row in stops[-1].after.measurements[len(first.measurements) :]:
        note = drawn.get(row[1])
        if note is None:
            yield f"measurement {row[0]} was never drawn" if _all_are_watched(stops) else ""
        else:
            yield (
                ""
                if _starts_with(row[3], note["released"])
                else f"measurement {row[0]} is not what was drawn"
            )


def _drawn_is_kept(first: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    """What was drawn comes into the file before anything else is drawn."""
    measured = {row[1]: row[3] for row in stops[-1].after.measurements}
    before = first
    for stop in stops:
        drawn = [note for note in stop.run.notes if "intent" in note]
        for note in drawn:
            if note["released"] is not None:
                kept = _starts_with(measured.get(note["intent"], b""), note["released"])
                yield "" if kept else f"what intent {note['intent']} drew is not in the file"
        for number, _ in before.pending:
            waits = stop.after.pending == before.pending
            first_drawn = drawn[0]["intent"] if drawn else None
            if drawn or stop.run.is_watched:
                yield "" if first_drawn == number or waits else f"intent {number} was given up"
        before = stop.after


def _starts_with(units: bytes, released: str | None) -> bool:
    return released is not None and units.hex().startswith(released)


def _all_are_watched(stops: Sequence[Stop]) -> bool:
    return all(stop.run.is_watched for stop in stops)


def _charged_once(first: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    """What an intent costs is charged in one commit, and only appended."""
    before = first
    for stop in stops:
        after = stop.after
        yield "" if after.ledger[: len(before.ledger)] == before.ledger else "a charge was changed or lost"
        known = {row[1] for row in before.ledger}
        yield "" if not known & {row[1] for row in after.ledger[len(before.ledger) :]} else "charged twice"
        intents = [row[1] for row in after.measurements[len(first.measurements) :]]
        yield "" if len(set(intents)) == len(intents) else "one intent measured twice"
        yield "" if set(intents) <= {row[1] for row in after.ledger} else "measured without a charge"
        kept = before.measurements == after.measurements[: len(before.measurements)]
        yield "" if kept else "a measurement was changed or lost"
        before = after


def _share_never_falls(first: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    before = first.share
    for stop in stops:
        yield "" if before <= stop.after.share <= 1 else f"share {before} became {stop.after.share}"
        before = stop.after.share


def _thresholds_survive(first: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    """A threshold changes only together with an outcome, and each process finds what the last left."""
    before = first
    for stop in stops:
        held = [list(one) for one in before.thresholds]
        for note in [note for note in stop.run.notes if "intent" in note][:1]:
            yield "" if note["thresholds"] == held else "a process found another threshold"
        if stop.after.ledger == before.ledger and len(stop.after.answers) == len(before.answers):
            yield "" if stop.after.thresholds == before.thresholds else "a threshold changed without a charge"
        before = stop.after


def _models_agree(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    known: dict[int, list[str]] = {}
    for stop in stops:
        for note in stop.run.notes:
            if "version" in note:
                same = known.setdefault(note["version"], note["answers"]) == note["answers"]
                yield (
                    "" if same else f"version {note['version']}: {known[note['version']]}, {note['answers']}"
                )


def _books_verify(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    for stop in stops:
        if stop.after.faults is not None:
            yield ", ".join(stop.after.faults)


def _positive_came_first(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    """A fault that waits for a positive stops nothing before one was drawn: a promise of this benchmark's."""
    for stop in stops:
        if stop.run.fault.positive and stop.run.stopped:
            met = any(note.get("released") is not None for note in stop.run.notes)
            yield "" if met else f"{stop.run.fault}: stopped before any"


def _ends_politely(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    """A process that was not killed says what happened in words of its own."""
    for stop in stops:
        if stop.run.code > 0:
            told = stop.run.errors.startswith("Error: ") and "Traceback" not in stop.run.errors
            yield "" if told else f"{stop.run.fault}: {stop.run.end}"


def _stream_is_finished(_: Contents, stops: Sequence[Stop]) -> Iterator[str]:
    last = stops[-1]
    held = len(last.run.lines) == len(last.after.answers) and last.run.code == 0
    yield "" if held and not last.after.pending else last.run.end


PROMISES: dict[str, Callable[[Contents, Sequence[Stop]], Iterator[str]]] = {
    "a released answer is in the file, the same": _released_is_stored,
    "a retried request gets the same answer": _released_never_changes,
    "an intent draws one outcome, from bytes that were durable first": _drawn_once,
    "a measurement is what its intent drew": _measured_is_what_was_drawn,
    "what was drawn is kept, and nothing is drawn in its place": _drawn_is_kept,
    "an intent is charged once, and no charge is lost": _charged_once,
    "the share spent never falls, and stays within 1": _share_never_falls,
    "a threshold survives": _thresholds_survive,
    "a version of the model answers the same": _models_agree,
    "the books verify": _books_verify,
    "a fault at a positive comes after one": _positive_came_first,
    "a failure is told in our own words": _ends_politely,
    "the stream is finished": _stream_is_finished,
}
