"""Other commands for fault injection: closing, exporting, copying … are stopped at a durable step.

Each check yields an empty text where a promise holds, else what is wrong.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fault_hooks import Fault
from benchmarks.fault_process import Run, run_forked, run_stream
from benchmarks.fault_records import Contents, contents_of
from benchmarks.fault_study import Study
from pmw.data import TableFile
from pmw.session.maintenance import is_closed, remembered_table

__all__ = ["broken_command", "COMMANDS", "Command"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is to be stopped.

    Args:
        prepare: brings a fresh copy of a session to where the command is run.
        arguments: of ``pmw``.
        checks: what must hold once the command was stopped: it may run it again.
    """

    prepare: Callable[[Study], object]
    arguments: Callable[[Study], tuple[str, ...]]
    checks: Callable[[Study, Contents, Run], Iterator[str]]


def broken_command(name: str, study: Study, fault: Fault) -> tuple[Run, list[str]]:
    """Return how a command ended, and what was wrong with it, or an empty text for each check.

    Args:
        name: one of ``COMMANDS``.
        study: a copy of a session that has answered nothing yet.
        fault: what befalls the command.
    """
    command = COMMANDS[name]
    command.prepare(study)
    before = contents_of(study.path)
    run = run_forked(study, fault, command.arguments(study))
    told = run.errors.startswith("Error: ") and "Traceback" not in run.errors
    found = ["" if run.code <= 0 or told else f"not told politely: {run.end}"]
    found += [", ".join(contents_of(study.path).faults or ())]
    found += command.checks(study, before, run)
    return run, found


def _finish(study: Study) -> None:
    run_stream(study, Fault())


def _interrupt(study: Study) -> None:
    """Leave a batch that was recorded and drawn, and whose outcome never came into the file."""
    run_stream(study, Fault("kill before a statement", 1, positive=True))


# --- closing ------------------------------------------------------------------------------------------------


def _closing(study: Study) -> tuple[str, ...]:
    return ("close", str(study.path), "--yes")


def _check_closing(study: Study, before: Contents, run: Run) -> Iterator[str]:
    after = contents_of(study.path, verified=False)
    yield _grown(before, after)
    yield "" if run.code or is_closed(study.path) else "it is not closed, and nothing was said"
    again = run_forked(study, Fault(), _closing(study))
    last = contents_of(study.path)
    yield "" if again.code == 0 and is_closed(study.path) else f"it cannot be closed: {again.end}"
    yield _grown(after, last) or ", ".join(last.faults or ())
    yield "something secret is left" if last.pending or last.thresholds else ""
    measured = {row[1]: row[3] for row in last.measurements}
    drawn = [note for one in (run, again) for note in one.notes if note.get("intent")]
    for note in drawn:  # the batch that waited, with the noise that it was drawn with before
        yield "" if (note["intent"], note["seed"]) in before.pending else "the noise of a batch is another"
        if note["released"] is not None:
            kept = measured.get(note["intent"], b"").hex().startswith(note["released"])
            yield "" if kept else "what was drawn is not in the file"
    left = list(study.path.parent.glob(f"{study.path.name}-companion*"))
    yield "the companion is left" if left else ""
    stream = run_stream(study, Fault())
    yield "" if stream.code == 0 else f"a closed session answers no more: {stream.end}"
    answered = {f"r{number}": json.loads(line)["count"] for number, line in stream.lines.items()}
    same = all(answered.get(request) == round(row[0], 3) for request, row in before.answers.items())
    yield "" if same else "an answer has changed"


def _grown(before: Contents, after: Contents) -> str:
    """Return what was lost of a session."""
    for what in ("ledger", "measurements"):
        old, new = getattr(before, what), getattr(after, what)
        if new[: len(old)] != old:
            return f"{what} were lost"
    kept = all(after.answers.get(request) == row for request, row in before.answers.items())
    return "" if kept else "answers were lost"


# --- exporting and copying ----------------------------------------------------------------------------------


def _exporting(study: Study) -> tuple[str, ...]:
    return ("export", str(study.path), "--output", f"{study.path}.csv", "--seed", "1", "--force")


def _check_exporting(study: Study, before: Contents, run: Run) -> Iterator[str]:
    yield _untouched(study, before)
    rows, manifest = Path(f"{study.path}.csv"), Path(f"{study.path}.csv.manifest.json")
    found = [file.read_bytes() if file.exists() else None for file in (rows, manifest)]
    yield "" if run.code or None not in found else "nothing was written, and nothing was said"
    again = run_forked(study, Fault(), _exporting(study))
    yield "" if again.code == 0 else f"it cannot be exported again: {again.end}"
    yield "" if found[0] in (None, rows.read_bytes()) else "a part of the rows was left as if it were all"
    yield "" if found[1] in (None, manifest.read_bytes()) else "a part of the manifest was left"
    left = [file.name for file in study.path.parent.glob("*.part")]
    yield f"{left} is left" if left else ""


def _copying(study: Study) -> tuple[str, ...]:
    return ("backup", str(study.path), "--output", f"{study.path}.copy")


def _check_copying(study: Study, before: Contents, run: Run) -> Iterator[str]:
    yield _untouched(study, before)
    copy = Path(f"{study.path}.copy")
    yield "" if run.code or copy.exists() else "nothing was written, and nothing was said"
    if copy.exists():
        yield _copied(copy, before)
    second = Path(f"{copy}.2")  # no file is replaced
    again = run_forked(study, Fault(), (*_copying(study)[:-1], str(second)))
    yield "" if again.code == 0 else f"it cannot be copied again: {again.end}"
    yield _copied(second, before)


def _copied(copy: Path, before: Contents) -> str:
    held = contents_of(copy)
    if not is_closed(copy) or held.pending or held.thresholds:
        return "the copy could spend"
    return _grown(before, held) or ", ".join(held.faults or ())


def _untouched(study: Study, before: Contents) -> str:
    return "" if contents_of(study.path) == before else "the session is not as it was"


# --- moving the table ---------------------------------------------------------------------------------------


def _interrupt_and_copy_table(study: Study) -> None:
    _interrupt(study)
    shutil.copy(study.questions.with_name("people.csv"), _new_place(study))


def _new_place(study: Study) -> Path:
    return study.path.with_name("people.csv")


def _moving(study: Study) -> tuple[str, ...]:
    return ("move", str(study.path), "--data", str(_new_place(study)))


def _check_moving(study: Study, before: Contents, run: Run) -> Iterator[str]:
    yield _untouched(study, before)
    yield "something was drawn" if any(note.get("intent") for note in run.notes) else ""
    moved = _is_moved(study)
    yield "" if run.code or moved else "it was not moved, and nothing was said"
    again = run_forked(study, Fault(), _moving(study))
    yield "" if again.code == 0 and _is_moved(study) else f"it cannot be moved again: {again.end}"
    yield _untouched(study, before)
    stream = run_stream(study, Fault())
    yield "" if stream.code == 0 and len(stream.lines) == study.asked else "the stream cannot go on"
    drawn = [(note["intent"], note["seed"]) for note in stream.notes if note.get("intent")]
    yield "" if drawn[:1] == list(before.pending) else "the batch that waited has other noise"


def _is_moved(study: Study) -> bool:
    """Tell which of the two places a session remembers.

    Raises:
        ValueError: it is neither.
    """
    found = remembered_table(study.path)
    places = [study.questions.with_name("people.csv"), _new_place(study)]
    return bool(places.index(found.path if isinstance(found, TableFile) else Path()))


COMMANDS = {
    "closing": Command(_interrupt, _closing, _check_closing),
    "closing a finished stream": Command(_finish, _closing, _check_closing),
    "exporting": Command(_finish, _exporting, _check_exporting),
    "copying": Command(_interrupt, _copying, _check_copying),
    "moving the table": Command(_interrupt_and_copy_table, _moving, _check_moving),
}
