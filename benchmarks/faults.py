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
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.fault_commands import COMMANDS, broken_command
from benchmarks.fault_diary import begin_diary, story
from benchmarks.fault_hooks import CALL_KINDS, MEMORY_KINDS, STATEMENT_KINDS, Fault, library_is_loaded
from benchmarks.fault_openings import broken_opening
from benchmarks.fault_process import COMMAND, Run, run_command, run_stream
from benchmarks.fault_records import Stop, broken_promises, contents_of
from benchmarks.fault_study import STUDIES, Study, make_study

_SOURCE = Path(__file__).with_name("fault_calls.c")
_PRELOADED = "PMW_FAULTS_PRELOADED"  # set in the process that the command becomes
_NEVER = 1e9
_OPENING = "opening"
_CHEAP = STUDIES[:2]  # their refits take milliseconds


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is tried.

    Args:
        spread: how many points of each stream are stopped at, at most, for each kind.
        retries: how often a process is stopped at the same positive.
        kills: kills at random instants, of each study.
        commands: kills of ``python -m pmw`` itself.
        refits: up to which refit memory runs out.
    """

    spread: int = 20
    retries: int = 100
    kills: int = 60
    commands: int = 20
    refits: int = 4


@dataclass(slots=True)
class Tally:
    """What came of some series; it is added to in place."""

    stops: Counter[str] = field(default_factory=Counter)  # by kind of fault
    checks: Counter[str] = field(default_factory=Counter)  # by promise
    ended: int = 0  # processes that were over before their fault
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Series:
    """Faults that befall one session, one after another, before its stream is let finish.

    Args:
        name: what it is reported under.
        study: a name in ``STUDIES``.
        faults: in order; ``kill of python -m pmw`` starts a process of its own.
    """

    name: str
    study: str
    faults: tuple[Fault, ...]

    @property
    def title(self) -> str:
        """The series in words."""
        return f"{self.name} ({self.study}): {'; '.join(map(str, self.faults))}"


def main() -> None:
    """Run the series and print what came of them."""
    plan = Plan()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--short", action="store_true", help="a few stops of each kind")
    parser.add_argument("--retries", type=int, default=plan.retries, help="stops at the same positive")
    parser.add_argument("--spread", type=int, default=plan.spread, help="points of each stream for each kind")
    parser.add_argument("--only", default="", metavar="TEXT", help="series whose name contains a text")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where sessions that broke a promise go")
    given = parser.parse_args()
    if _PRELOADED not in os.environ:
        _become_preloaded()
    plan = replace(plan, spread=given.spread, retries=given.retries)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        Path(folder).chmod(0o755)  # another user reads the session in the read-only folder
        total = run_all(Path(folder), None if given.short else plan, given.only, given.keep)
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


def run_all(folder: Path, plan: Plan | None, only: str = "", keep: Path | None = None) -> Tally:
    """Return what came of every series; print a line for each run of series of one name, then the sums.

    Args:
        folder: for studies and their copies.
        plan: how much is tried; None for a few stops of each kind.
        only: a text that the names of the series contain.
        keep: where sessions that broke a promise are copied; None for nowhere.
    """
    preloaded = os.environ.pop("LD_PRELOAD", None)  # kept by this process; those that it starts need it not
    if preloaded is not None:
        Path(preloaded).unlink(missing_ok=True)
    studies = {name: make_study(name, folder / "studies" / name) for name in STUDIES}
    many = _short() if plan is None else _long(studies, folder, plan)
    total = Tally()
    wanted = (series for series in many if only in series.name)
    for name, group in itertools.groupby(wanted, lambda series: series.name):
        tally = Tally()
        for series in group:
            run_series(series, studies[series.study], folder / "run", tally, keep)
        print(json.dumps({"series": name, **_line(tally)}), flush=True)
        total.stops += tally.stops
        total.checks += tally.checks
        total.ended += tally.ended
        total.broken += tally.broken
        total.seconds += tally.seconds
    line = {**_line(total), "stops_by_kind": dict(total.stops), "checks_by_promise": dict(total.checks)}
    print(json.dumps({"series": "all", **line, "failing_calls": library_is_loaded()}), flush=True)
    return total


def _line(tally: Tally) -> dict[str, object]:
    return {
        "stops": tally.stops.total(),
        "over_before": tally.ended,
        "checks": tally.checks.total(),
        "broken": len(tally.broken),
        "first_broken": [one[:600] for one in tally.broken[:3]],
        "seconds": round(tally.seconds, 1),
    }


def run_series(series: Series, study: Study, folder: Path, tally: Tally, keep: Path | None = None) -> None:
    """Let the faults of a series befall a fresh session, let its stream finish, and count what came of it.

    Args:
        series: what befalls it.
        study: the session, of which a copy is taken.
        folder: where the copy lies.
        tally: is added to.
        keep: where the copy is kept if a promise is broken; None for nowhere.
    """
    started, known = time.perf_counter(), len(tally.broken)
    copy = study.copy(folder)
    begin_diary(folder)
    befall = _run_command if series.name == _OPENING or series.name in COMMANDS else _run_streams
    try:
        befall(series, copy, tally)
    except Exception as error:
        error.add_note(_story(series, folder, [], keep))
        raise
    if tally.broken[known:]:
        print(_story(series, folder, tally.broken[known:], keep), file=sys.stderr, flush=True)
    tally.seconds += time.perf_counter() - started


def _story(series: Series, folder: Path, broken: list[str], keep: Path | None) -> str:
    """Return what was broken in a series, and keep its session where that is asked for."""
    told = story(series.title, folder, broken)
    if keep is None:
        return told
    keep.mkdir(parents=True, exist_ok=True)
    kept = Path(tempfile.mkdtemp(prefix=f"{series.study}-", dir=keep))
    shutil.copytree(folder, kept, dirs_exist_ok=True)
    return f"{told}  its session is kept in {kept}\n"


def _run_streams(series: Series, copy: Study, tally: Tally) -> None:
    first, stops = contents_of(copy.path, verified=False), []
    for place, fault in enumerate((*series.faults, Fault())):
        run = _run(copy, fault)
        # Stops at one place leave the same file: it is always compared, and verified now and then.
        stops.append(Stop(run, contents_of(copy.path, verified=place % 10 == 0 or not fault.kind)))
        tally.stops[fault.label] += run.stopped
        tally.ended += not run.stopped and bool(fault.kind)
    tally.stops += Counter()  # drops what stopped nothing
    broken, checked = broken_promises(first, stops)
    tally.checks += checked
    tally.broken += [f"{series.study}, {series.faults[0]}: {one}" for one in broken]


def _run_command(series: Series, copy: Study, tally: Tally) -> None:
    (fault,) = series.faults
    if series.name == _OPENING:
        stopped, found = broken_opening(copy, fault)
    else:
        run, found = broken_command(series.name, copy, fault)
        stopped = run.stopped
    tally.stops[f"{series.name}: {fault.kind}"] += stopped
    tally.stops += Counter()
    tally.ended += not stopped
    tally.checks[f"{series.name} is done with its own noise, or never was, and can be repeated"] += len(found)
    tally.broken += [f"{series.name}, {fault}: {one}" for one in found if one]


def _run(study: Study, fault: Fault) -> Run:
    if fault.kind == COMMAND:
        return run_command(study, fault.at)
    return run_stream(study, fault)


# --- which faults -------------------------------------------------------------------------------------------


def _step_kinds() -> tuple[str, ...]:
    return STATEMENT_KINDS + ((*CALL_KINDS, "clock going back") if library_is_loaded() else ())


def _long(studies: dict[str, Study], folder: Path, plan: Plan) -> Iterator[Series]:
    yield from _of_streams(studies, folder, plan)
    yield from _at_random(plan)
    for name in _CHEAP:
        yield Series("read-only folder", name, 2 * (Fault("read-only folder"),))
    for kind in MEMORY_KINDS[:2]:
        for at in range(1, plan.refits + 1):
            yield Series(kind, "questions", (Fault(kind, at), Fault(kind, 1)))
    yield from _of_commands(studies["questions"], folder / "run", plan.spread)
    yield from _at_positives(plan.retries)


def _of_streams(studies: dict[str, Study], folder: Path, plan: Plan) -> Iterator[Series]:
    for kind in _step_kinds():
        for name in _CHEAP:
            last = run_stream(studies[name].copy(folder / "run"), Fault(kind, _NEVER)).steps
            for at in _spread(last, plan.spread):
                yield Series(kind, name, (Fault(kind, at),))
    for kind in _step_kinds():
        # A file that an opening begins is made in some 20 statements and calls; then it is fitted and kept.
        yield from (Series(_OPENING, "questions", (Fault(kind, at),)) for at in range(1, 2 * plan.spread, 2))


def _at_random(plan: Plan) -> Iterator[Series]:
    generator = random.Random(1)
    for name in _CHEAP:
        for _ in range(0, plan.kills, 4):
            delays = [generator.uniform(0.005, 0.06) for _ in range(4)]
            yield Series("kill at random", name, tuple(Fault("kill at random", one) for one in delays))
    for _ in range(0, plan.commands, 4):
        delays = [generator.uniform(0, 0.05) for _ in range(4)]
        faults = tuple(Fault(COMMAND, one) for one in delays)
        yield Series(COMMAND, "questions", faults)


def _of_commands(study: Study, folder: Path, most: int) -> Iterator[Series]:
    for command in COMMANDS:
        for kind in _step_kinds():
            last = broken_command(command, study.copy(folder), Fault(kind, _NEVER))[0].steps
            yield from (Series(command, "questions", (Fault(kind, at),)) for at in _spread(last, most))


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
    for name in COMMANDS:
        yield Series(name, "questions", (Fault(generator.choice(_step_kinds()), generator.randint(1, 9)),))
    for name in _CHEAP:
        faults = [Fault(kind, 1, positive=True) for kind in (*_step_kinds(), *MEMORY_KINDS[:2])]
        yield Series("each kind at a positive", name, tuple(faults))


def _spread(last: int, most: int) -> list[int]:
    """Return so many steps, evenly spread over a stream's."""
    count = min(last, most)
    return sorted({1 + (2 * place + 1) * last // (2 * count) for place in range(count)})


if __name__ == "__main__":
    main()
