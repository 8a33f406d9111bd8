"""Fault benchmark: a session is stopped at every durable step, reopened, verified and let finish.

    python -m benchmarks.faults [--short] [--retries 100] [--spread 20] [--only TEXT] [--keep FOLDER]

prints JSON lines: for each series how many processes were stopped, how many checks of promises were made
and what was broken; then the sums, by kind of fault and by promise. Each broken promise is told at once on
the standard error, with every process of its series: what befell it, its exit code and its own words; the
session is kept in FOLDER, for its noise is drawn but once. The exit code is 1 where a promise was broken.
Each stop is of a real process that runs ``pmw ask SESSION --stream``, or opens, closes, exports, copies
or moves. Calls of the operating system fail by a small library, which the command compiles and
preloads; without a C compiler those kinds are left out, and the last line says so.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pmw
from benchmarks.fault_process import (
    CALL_KINDS,
    COMMAND,
    MEMORY_KINDS,
    STATEMENT_KINDS,
    STUDIES,
    Fault,
    Run,
    Study,
    digest,
    library_is_loaded,
    make_study,
    run_command,
    run_forked,
    run_stream,
)
from benchmarks.runner import parser, tell
from pmw.data import TableFile
from pmw.session.maintenance import is_closed, read_ledger, remembered_table
from pmw.session.store.columns import StoredAnswer
from pmw.session.store.store import SessionStore

_SOURCE = Path(__file__).with_name("fault_calls.c")
_PRELOADED = "PMW_FAULTS_PRELOADED"  # set in the process that the command becomes
_NEVER = 1e9
_OPENING = "opening"
_CHEAP = STUDIES[:2]  # their refits take milliseconds
_AT_RANDOM = (  # a kind, its study, so many kills, within such seconds
    *(("kill at random", name, 60, (0.005, 0.06)) for name in _CHEAP),
    (COMMAND, "questions", 20, (0.0, 0.05)),
)
_REFITS = 4  # up to which memory runs out


@dataclass(slots=True)
class Tally:
    """What came of some series; it is added to in place."""

    stops: Counter[str] = field(default_factory=Counter)  # by kind of fault
    checks: Counter[str] = field(default_factory=Counter)  # by promise
    ended: int = 0  # processes that were over before their fault
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Add what came of further series."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, object]:
        """Return its numbers, and the first words about what was broken."""
        return {
            "stops": self.stops.total(),
            "over_before": self.ended,
            "checks": self.checks.total(),
            "broken": len(self.broken),
            "first_broken": [one[:600] for one in self.broken[:3]],
            "seconds": round(self.seconds, 1),
        }


class Series(NamedTuple):
    """Faults that befall one session, of ``STUDIES``, one after another, before its stream is let finish."""

    name: str
    study: str
    faults: tuple[Fault, ...]


def main() -> None:
    """Run the series and print what came of them."""
    made = parser(__doc__)
    made.add_argument("--short", action="store_true", help="a few stops of each kind")
    made.add_argument("--retries", type=int, default=100, help="stops at the same positive")
    made.add_argument("--spread", type=int, default=20, help="points of each stream for each kind")
    made.add_argument("--only", default="", metavar="TEXT", help="series whose name contains a text")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="where sessions that broke a promise go")
    given = made.parse_args()
    if _PRELOADED not in os.environ:
        _become_preloaded()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        Path(folder).chmod(0o755)  # another user reads the session in the read-only folder
        total = run_all(Path(folder), given)
    sys.exit(1 if total.broken else 0)


def _become_preloaded() -> None:
    """Start this command again, with the library of failing calls where it can be compiled."""
    environment = {**os.environ, _PRELOADED: "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["MALLOC_MMAP_THRESHOLD_"] = "131072"  # so that a refit's arrays are asked of the system
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is not None and sys.platform == "linux":
        library = Path(tempfile.gettempdir()) / f"fault_calls-{os.getpid()}.so"
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:  # noqa: S603
            environment.update({_PRELOADED: str(library), "LD_PRELOAD": str(library)})
    os.execve(sys.executable, [sys.executable, "-m", "benchmarks.faults", *sys.argv[1:]], environment)  # noqa: S606


def run_all(folder: Path, given: argparse.Namespace) -> Tally:
    """Return what came of every series; print a line for each run of series of one name, then the sums."""
    preloaded = os.environ.pop("LD_PRELOAD", None)  # kept by this process; those that it starts need it not
    if preloaded is not None:
        Path(preloaded).unlink(missing_ok=True)
    studies = {name: make_study(name, folder / "studies" / name) for name in STUDIES}
    every = _short() if given.short else _long(studies, folder / "run", given)
    total, wanted = Tally(), (series for series in every if given.only in series.name)
    for name, group in itertools.groupby(wanted, lambda series: series.name):
        tally = Tally()
        for series in group:
            run_series(series, studies[series.study], folder / "run", tally, given.keep)
        tell({"series": name, **tally.to_dict()})
        total.add(tally)
    line = {**total.to_dict(), "stops_by_kind": dict(total.stops), "checks_by_promise": dict(total.checks)}
    tell({"series": "all", **line, "failing_calls": library_is_loaded()})
    return total


def run_series(series: Series, study: Study, folder: Path, tally: Tally, keep: Path | None = None) -> None:
    """Let the faults of a series befall a fresh session, let its stream finish, and count what came of it."""
    started, known = time.perf_counter(), len(tally.broken)
    copy = study.copy(folder)
    befall = _stop_command if series.name in COMMANDS else _stop_streams
    try:
        befall(series, copy, tally)
    except Exception as error:
        error.add_note(_story(series, copy, [], keep))
        raise
    if tally.broken[known:]:
        print(_story(series, copy, tally.broken[known:], keep), file=sys.stderr, flush=True)
    tally.stops += Counter()  # drops what stopped nothing
    tally.seconds += time.perf_counter() - started


def _story(series: Series, study: Study, broken: list[str], keep: Path | None) -> str:
    """Return what was broken in a series, and every process of it; keep its session if asked to."""
    told = f"{series.name} ({series.study}): {'; '.join(map(str, series.faults))}\n"
    told += "".join(f"  broken: {one}\n" for one in broken)
    told += "".join(["  processes, in order:\n", *study.diary])
    if keep is None:
        return told
    keep.mkdir(parents=True, exist_ok=True)
    kept = Path(tempfile.mkdtemp(prefix=f"{series.study}-", dir=keep))
    shutil.copytree(study.path.parent, kept, dirs_exist_ok=True)
    return f"{told}  its session is kept in {kept}\n"


def _stop_streams(series: Series, copy: Study, tally: Tally) -> None:
    first, stops = contents_of(copy.path, verified=False), []
    for place, fault in enumerate((*series.faults, Fault())):
        run = run_command(copy, fault.at) if fault.kind == COMMAND else run_stream(copy, fault)
        # Stops at one place leave the same file: it is always compared, and verified now and then.
        stops.append(Stop(run, contents_of(copy.path, verified=place % 10 == 0 or not fault.kind)))
        tally.stops[fault.label] += run.stopped
        tally.ended += not run.stopped and bool(fault.kind)
    broken, checked = broken_promises(first, stops)
    tally.checks += checked
    tally.broken += [f"{series.study}, {series.faults[0]}: {one}" for one in broken]


def _stop_command(series: Series, copy: Study, tally: Tally) -> None:
    (fault,) = series.faults
    run, found = broken_command(series.name, copy, fault)
    tally.stops[f"{series.name}: {fault.kind}"] += run.stopped
    tally.ended += not run.stopped
    tally.checks[f"{series.name} is done with its own noise, or never was, and can be repeated"] += len(found)
    tally.broken += [f"{series.name}, {fault}: {one}" for one in found if one]


# --- which faults -------------------------------------------------------------------------------------------


def _step_kinds() -> tuple[str, ...]:
    return STATEMENT_KINDS + ((*CALL_KINDS, "clock going back") if library_is_loaded() else ())


def _long(studies: dict[str, Study], folder: Path, given: argparse.Namespace) -> Iterator[Series]:
    for kind, name in itertools.product(_step_kinds(), _CHEAP):
        last = run_stream(studies[name].copy(folder), Fault(kind, _NEVER)).steps
        yield from (Series(kind, name, (Fault(kind, at),)) for at in _spread(last, given.spread))
    for kind in _step_kinds():
        # A file that an opening begins is made in some 20 statements and calls; then it is fitted and kept.
        places = range(1, 2 * given.spread, 2)
        yield from (Series(_OPENING, "questions", (Fault(kind, at),)) for at in places)
    generator = random.Random(1)
    for kind, name, kills, ends in _AT_RANDOM:
        for _ in range(0, kills, 4):
            yield Series(kind, name, tuple(Fault(kind, generator.uniform(*ends)) for _ in range(4)))
    for name in _CHEAP:
        yield Series("read-only folder", name, 2 * (Fault("read-only folder"),))
    for kind, at in itertools.product(MEMORY_KINDS[:2], range(1, _REFITS + 1)):
        yield Series(kind, "questions", (Fault(kind, at), Fault(kind, 1)))
    for command, kind in itertools.product(_GOING_ON, _step_kinds()):
        last = broken_command(command, studies["questions"].copy(folder), Fault(kind, _NEVER))[0].steps
        yield from (Series(command, "questions", (Fault(kind, at),)) for at in _spread(last, given.spread))
    yield from _at_positives(given.retries)


def _at_positives(retries: int) -> Iterator[Series]:
    """Yield faults that befall a process again and again, only once its test was positive."""
    for kind in (*_step_kinds(), *MEMORY_KINDS):
        for name in ("wide",) if kind == "address space used up" else _CHEAP:
            # Several statements come before the outcome is durable: each is stopped at in turn.
            places = [1 + place % 4 if kind in STATEMENT_KINDS else 1 for place in range(retries)]
            faults = tuple(Fault(kind, at, positive=True) for at in places)
            yield Series(f"at positives: {kind}", name, faults)


def _short() -> Iterator[Series]:
    """Yield series in which faults of all kinds befall one session, and then one positive of another."""
    generator = random.Random(2)
    for name in _CHEAP:
        mixed = [Fault(kind, generator.randint(2, 12)) for kind in _step_kinds()]
        yield Series("each kind", name, (Fault("read-only folder"), *mixed, Fault("kill at random", 0.05)))
    yield Series("each kind", "questions", (Fault(COMMAND, 0.0),))
    yield from (Series(_OPENING, "questions", (Fault(kind, 9),)) for kind in STATEMENT_KINDS[::2])
    for name in _GOING_ON:
        yield Series(name, "questions", (Fault(generator.choice(_step_kinds()), generator.randint(1, 9)),))
    for name in _CHEAP:
        faults = [Fault(kind, 1, positive=True) for kind in (*_step_kinds(), *MEMORY_KINDS[:2])]
        yield Series("each kind at a positive", name, tuple(faults))


def _spread(last: int, most: int) -> list[int]:
    """Return so many steps, evenly spread over a stream's."""
    count = min(last, most)
    return sorted({1 + (2 * place + 1) * last // (2 * count) for place in range(count)})


# --- what each stop left, and the promises ------------------------------------------------------------------

Row = tuple[Any, ...]


class Contents(NamedTuple):
    """What a session file holds, read from a copy of it."""

    ledger: tuple[Row, ...]  # charges: number, intent, event, epsilon, rho, mu_squared
    measurements: tuple[Row, ...]  # what was released: number, intent, kind, units
    answers: dict[str, Row]  # by request: count, low, high, source, version, share
    pending: tuple[Row, ...]  # intents without an outcome: number and digest of the 32 bytes
    thresholds: tuple[Row, ...]  # digests of the noisy thresholds, by name
    share: float
    faults: tuple[str, ...] | None  # checks of ``verify`` that do not hold; None where it was not run


_NOTHING = Contents((), (), {}, (), (), 0.0, ())  # before a session is opened


class Stop(NamedTuple):
    """One process, and the file as it left it."""

    run: Run
    after: Contents


def _told(one: StoredAnswer) -> Row:
    low, high = one.interval or (None, None)
    return one.count, low, high, one.source, one.version, one.share


def contents_of(path: Path, *, verified: bool = True) -> Contents:
    """Return what a session file holds, as who reopens it finds it; the file itself is not touched."""
    folder = path.parent.with_name(f"{path.parent.name}.copy")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        if not file.name.endswith("-shm"):  # it is made again from the log
            shutil.copy(file, folder)
    copy = folder / path.name
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        read = connection.execute
        requests = read("SELECT request, answer FROM requests").fetchall()
        ledger = read(
            "SELECT sequence, intent, event, epsilon, rho, mu_squared FROM ledger ORDER BY sequence"
        ).fetchall()
        measured = read("SELECT sequence, intent, kind, units FROM measurements ORDER BY sequence").fetchall()
        names = read("SELECT key, value FROM secrets WHERE key LIKE 'threshold%'").fetchall()
    faults = tuple(one.name for one in pmw.verify_session(copy).checks if not one.holds) if verified else None
    with contextlib.closing(SessionStore.open(copy)) as store:
        waiting = store.pending()
        rows = {number: _told(one) for number, one in enumerate(store.answers.each(), start=1)}
    found = {request: rows[number] for request, number in requests}
    pending = [] if waiting is None else [(waiting.id, digest(waiting.seed))]
    thresholds = tuple(sorted((name, digest(value)) for name, value in names))
    share = read_ledger(copy).share
    return Contents(tuple(ledger), tuple(measured), found, tuple(pending), thresholds, share, faults)


def broken_promises(first: Contents, stops: Sequence[Stop]) -> tuple[list[str], Counter[str]]:
    """Return what does not hold of a session that was stopped again and again, and what was checked."""
    checked: Counter[str] = Counter()
    broken = []
    for name, promise in PROMISES.items():
        for holds, words in promise(first, stops):
            checked[name] += 1
            if not holds:
                broken.append(f"{name}: {words}")
    return broken, checked


# --- promises: each yields, for each thing that is compared, whether it holds, and words if it does not -----

Checks: TypeAlias = Iterator[tuple[bool, str]]


def _none(words: Iterable[str]) -> tuple[bool, str]:
    """Return a check that holds where there are no words."""
    told = ", ".join(filter(None, words))
    return not told, told


def _steps(first: Contents, stops: Sequence[Stop]) -> Iterator[tuple[Contents, Stop]]:
    """Yield each process with the file as the one before it left it."""
    yield from zip((first, *(stop.after for stop in stops)), stops, strict=False)


def _draws(run: Run) -> list[dict[str, Any]]:
    """Return what the witness of a process wrote down of its draws."""
    return [note for note in run.notes if "intent" in note]


def _released_is_stored(_: Contents, stops: Sequence[Stop]) -> Checks:
    for stop in stops:
        for number, line in stop.run.lines.items():
            form, row = json.loads(line), stop.after.answers.get(f"r{number}")
            if row is None:
                yield False, f"the answer to {number} was released and is not in the file"
                continue
            low, high = form["interval"] or (None, None)
            given = form["count"], low, high, form["source"], form["version"], form["spent"]["share"]
            yield given == row, f"{number}: {line}, stored {row}"


def _released_never_changes(_: Contents, stops: Sequence[Stop]) -> Checks:
    known: dict[int, dict[str, Any]] = {}
    for stop in stops:
        for number, line in stop.run.lines.items():
            form = json.loads(line)
            form["spent"].pop("charged", None)  # that is told once: a stored answer is free
            yield known.setdefault(number, form) == form, f"{known[number]} became {line}"


def _drawn_once(_: Contents, stops: Sequence[Stop]) -> Checks:
    known: dict[int, dict[str, Any]] = {}
    for stop in stops:
        for note in _draws(stop.run):
            intent = note["intent"]
            yield note["recorded"], f"intent {intent} drew before it was durable"
            if known.setdefault(intent, note) != note:
                yield False, f"intent {intent} was drawn as {known[intent]} and as {note}"
        for number, seed in stop.after.pending:
            if number in known:
                yield known[number]["seed"] == seed, f"intent {number} has other bytes than it drew from"


def _measured_is_what_was_drawn(first: Contents, stops: Sequence[Stop]) -> Checks:
    drawn = {note["intent"]: note["released"] for stop in stops for note in _draws(stop.run)}
    watched = all(stop.run.is_watched for stop in stops)
    for number, intent, _, units in stops[-1].after.measurements[len(first.measurements) :]:
        if intent in drawn:
            yield _starts_with(units, drawn[intent]), f"measurement {number} is not what was drawn"
        else:
            yield not watched, f"measurement {number} was never drawn"


def _drawn_is_kept(first: Contents, stops: Sequence[Stop]) -> Checks:
    """What was drawn comes into the file before anything else is drawn."""
    for before, stop in _steps(first, stops):
        drawn = _draws(stop.run)
        yield from _kept(drawn, stops[-1].after)
        for number, _ in before.pending:
            if drawn or stop.run.is_watched:
                waits = stop.after.pending == before.pending
                yield (
                    waits or [note["intent"] for note in drawn[:1]] == [number],
                    f"intent {number} was given up",
                )


def _kept(drawn: Iterable[dict[str, Any]], after: Contents) -> Checks:
    measured = {row[1]: row[3] for row in after.measurements}
    for note in drawn:
        if note["released"] is not None:
            kept = _starts_with(measured.get(note["intent"], b""), note["released"])
            yield kept, f"what intent {note['intent']} drew is not in the file"


def _starts_with(units: bytes, released: str | None) -> bool:
    return released is not None and units.hex().startswith(released)


def _charged_once(first: Contents, stops: Sequence[Stop]) -> Checks:
    """What an intent costs is charged in one commit, and only appended."""
    for before, stop in _steps(first, stops):
        after = stop.after
        yield after.ledger[: len(before.ledger)] == before.ledger, "a charge was changed or lost"
        known = {row[1] for row in before.ledger}
        yield not known & {row[1] for row in after.ledger[len(before.ledger) :]}, "charged twice"
        intents = [row[1] for row in after.measurements[len(first.measurements) :]]
        yield len(set(intents)) == len(intents), "one intent measured twice"
        yield set(intents) <= {row[1] for row in after.ledger}, "measured without a charge"
        kept = before.measurements == after.measurements[: len(before.measurements)]
        yield kept, "a measurement was changed or lost"


def _share_never_falls(first: Contents, stops: Sequence[Stop]) -> Checks:
    for before, stop in _steps(first, stops):
        yield before.share <= stop.after.share <= 1, f"share {before.share} became {stop.after.share}"


def _thresholds_survive(first: Contents, stops: Sequence[Stop]) -> Checks:
    """A threshold changes only together with an outcome, and each process finds what the last left."""
    for before, stop in _steps(first, stops):
        held = [list(one) for one in before.thresholds]
        for note in _draws(stop.run)[:1]:
            yield note["thresholds"] == held, "a process found another threshold"
        if stop.after.ledger == before.ledger and len(stop.after.answers) == len(before.answers):
            yield stop.after.thresholds == before.thresholds, "a threshold changed without a charge"


def _models_agree(_: Contents, stops: Sequence[Stop]) -> Checks:
    known: dict[int, list[str]] = {}
    for note in (note for stop in stops for note in stop.run.notes if "version" in note):
        version, answers = note["version"], note["answers"]
        yield known.setdefault(version, answers) == answers, f"version {version}: {known[version]}, {answers}"


def _books_verify(_: Contents, stops: Sequence[Stop]) -> Checks:
    for stop in stops:
        if stop.after.faults is not None:
            yield _none(stop.after.faults)


def _positive_came_first(_: Contents, stops: Sequence[Stop]) -> Checks:
    """A fault that waits for a positive stops nothing before one was drawn: a promise of this benchmark's."""
    for stop in stops:
        if stop.run.fault.positive and stop.run.stopped:
            met = any(note.get("released") is not None for note in stop.run.notes)
            yield met, f"{stop.run.fault}: stopped before any"


def _ends_politely(_: Contents, stops: Sequence[Stop]) -> Checks:
    """A process that was not killed says what happened in words of its own."""
    for stop in stops:
        if stop.run.code > 0:
            yield _is_polite(stop.run), f"{stop.run.fault}: {stop.run.end}"


def _is_polite(run: Run) -> bool:
    """Tell whether what a process told of its failure ends in one line of the program's own."""
    return run.errors.rstrip().rpartition("\n")[2].startswith("Error: ") and "Traceback" not in run.errors


def _stream_is_finished(_: Contents, stops: Sequence[Stop]) -> Checks:
    run, after = stops[-1]
    yield run.code == 0 and len(run.lines) == len(after.answers) and not after.pending, run.end


PROMISES: dict[str, Callable[[Contents, Sequence[Stop]], Checks]] = {
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


# --- other commands -----------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A command that is to be stopped."""

    prepare: Callable[[Study], object]
    line: str  # after pmw, with the places of the session, its folder and its table in braces
    checks: Callable[[Study, Contents, Run], Checks]

    def run(self, study: Study, fault: Fault = Fault()) -> Run:  # noqa: B008 - frozen
        """Let a forked process run it."""
        places = {"session": study.path, "folder": study.path.parent, "table": study.table.with_suffix("")}
        return run_forked(study, fault, tuple(word.format(**places) for word in self.line.split()))


def broken_command(name: str, study: Study, fault: Fault) -> tuple[Run, list[str]]:
    """Return how a command ended, and what was wrong with it, or an empty text for each check."""
    command = COMMANDS[name]
    command.prepare(study)
    before = contents_of(study.path) if study.path.exists() else _NOTHING
    run = command.run(study, fault)
    found = [(run.code <= 0 or _is_polite(run), f"not told politely: {run.end}")]
    if before is not _NOTHING:
        found.append(_none(contents_of(study.path).faults or ()))
    found += command.checks(study, before, run)
    return run, ["" if holds else words for holds, words in found]


def _finish(study: Study) -> None:
    run_stream(study, Fault())


def _interrupt(study: Study) -> None:
    """Leave a batch that was recorded and drawn, and whose outcome never came into the file."""
    run_stream(study, Fault("kill before a statement", 1, positive=True))


def _lost(before: Contents, after: Contents) -> list[str]:
    """Return what a session has not any more."""
    rows = {
        "ledger": (before.ledger, after.ledger),
        "measurements": (before.measurements, after.measurements),
    }
    lost = [name for name, (old, new) in rows.items() if new[: len(old)] != old]
    kept = all(after.answers.get(request) == row for request, row in before.answers.items())
    return [f"{name} were lost" for name in (*lost, *([] if kept else ["answers"]))]


def _untouched(study: Study, before: Contents) -> tuple[bool, str]:
    return contents_of(study.path) == before, "the session is not as it was"


def _check_closing(study: Study, before: Contents, run: Run) -> Checks:
    after = contents_of(study.path, verified=False)
    yield _none(_lost(before, after))
    yield run.code != 0 or is_closed(study.path), "it is not closed, and nothing was said"
    again = COMMANDS["closing"].run(study)
    last = contents_of(study.path)
    yield again.code == 0 and is_closed(study.path), f"it cannot be closed: {again.end}"
    yield _none([*_lost(after, last), *(last.faults or ())])
    yield not last.pending and not last.thresholds, "something secret is left"
    drawn = [*_draws(run), *_draws(again)]
    for note in drawn:  # the batch that waited, with the noise that it was drawn with before
        yield (note["intent"], note["seed"]) in before.pending, "the noise of a batch is another"
    yield from _kept(drawn, last)
    yield not list(study.path.parent.glob(f"{study.path.name}-companion*")), "the companion is left"
    stream = run_stream(study, Fault())
    yield stream.code == 0, f"a closed session answers no more: {stream.end}"
    answered = {f"r{number}": json.loads(line)["count"] for number, line in stream.lines.items()}
    same = all(answered.get(request) == row[0] for request, row in before.answers.items())
    yield same, "an answer has changed"


def _check_exporting(study: Study, before: Contents, run: Run) -> Checks:
    yield _untouched(study, before)
    rows, manifest = Path(f"{study.path}.csv"), Path(f"{study.path}.csv.manifest.json")
    found = [file.read_bytes() if file.exists() else None for file in (rows, manifest)]
    yield run.code != 0 or None not in found, "nothing was written, and nothing was said"
    again = COMMANDS["exporting"].run(study)
    yield again.code == 0, f"it cannot be exported again: {again.end}"
    yield found[0] in (None, rows.read_bytes()), "a part of the rows was left as if it were all"
    yield found[1] in (None, manifest.read_bytes()), "a part of the manifest was left"
    left = [file.name for file in study.path.parent.glob("*.part")]
    yield not left, f"{left} is left"


def _check_copying(study: Study, before: Contents, run: Run) -> Checks:
    yield _untouched(study, before)
    copy, second = Path(f"{study.path}.copy"), f"{study.path}.copy.2"  # no file is replaced
    yield run.code != 0 or copy.exists(), "nothing was written, and nothing was said"
    if copy.exists():
        yield _copied(copy, before)
    again = run_forked(study, Fault(), ("backup", str(study.path), "--output", second))
    yield again.code == 0, f"it cannot be copied again: {again.end}"
    yield _copied(Path(second), before)


def _copied(copy: Path, before: Contents) -> tuple[bool, str]:
    held = contents_of(copy)
    if not is_closed(copy) or held.pending or held.thresholds:
        return False, "the copy could spend"
    return _none([*_lost(before, held), *(held.faults or ())])


def _interrupt_and_copy_table(study: Study) -> None:
    _interrupt(study)
    shutil.copy(study.table, study.path.with_name("people.csv"))


def _check_moving(study: Study, before: Contents, run: Run) -> Checks:
    yield _untouched(study, before)
    yield not _draws(run), "something was drawn"
    yield run.code != 0 or _is_moved(study), "it was not moved, and nothing was said"
    again = COMMANDS["moving the table"].run(study)
    yield again.code == 0 and _is_moved(study), f"it cannot be moved again: {again.end}"
    yield _untouched(study, before)
    stream = run_stream(study, Fault())
    yield stream.code == 0 and len(stream.lines) == study.asked, "the stream cannot go on"
    drawn = [(note["intent"], note["seed"]) for note in _draws(stream)]
    yield drawn[:1] == list(before.pending), "the batch that waited has other noise"


def _is_moved(study: Study) -> bool:
    """Tell which of the two places a session remembers."""
    found = remembered_table(study.path)
    places = [study.table, study.path.with_name("people.csv")]
    return bool(places.index(found.path if isinstance(found, TableFile) else Path()))


def _remove(study: Study) -> None:
    for file in study.path.parent.glob(f"{study.path.name}*"):
        file.unlink()


def _check_opening(study: Study, _: Contents, run: Run) -> Checks:
    runs = [run]
    with contextlib.closing(sqlite3.connect(study.path)) as connection:
        (born,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not born:  # a session exists with its intent, or not at all
        yield not _openings(run), "noise was drawn before the session existed"
        runs = [COMMANDS[_OPENING].run(study)]
        yield runs[0].code == 0, f"the opening cannot be made again: {runs[0].end}"
    runs.append(run_stream(study, Fault()))
    yield runs[-1].code == 0, f"the stream is not finished: {runs[-1].end}"
    yield len(runs[-1].lines) == study.asked, "some questions have no answer"
    drawn, after = [draws for one in runs for draws in _openings(one)], contents_of(study.path)
    yield bool(drawn) and all(draws == drawn[0] for draws in drawn), f"the opening drew {drawn}"
    measured = [row[3].hex() for row in after.measurements if row[1] == 1]
    yield measured == drawn[-1:][0], "the file does not hold what the opening drew"
    yield _none(after.faults or ())


def _openings(run: Run) -> list[list[str]]:
    return [note["opening"] for note in run.notes if "opening" in note]


_OPEN = "open {session} --data {table}.csv --schema {table}.toml --epsilon 2 --delta 1e-9 --test query"
COMMANDS = {
    "closing": Command(_interrupt, "close {session} --yes", _check_closing),
    "closing a finished stream": Command(_finish, "close {session} --yes", _check_closing),
    "exporting": Command(
        _finish, "export {session} --output {session}.csv --seed 1 --force", _check_exporting
    ),
    "copying": Command(_interrupt, "backup {session} --output {session}.copy", _check_copying),
    "moving the table": Command(
        _interrupt_and_copy_table, "move {session} --data {folder}/people.csv", _check_moving
    ),
    _OPENING: Command(_remove, f"{_OPEN} --update-limit 8 --threshold 15", _check_opening),
}
_GOING_ON = tuple(COMMANDS)[:-1]  # those of a session that is there


if __name__ == "__main__":
    main()
