"""The fault benchmark in short: real processes, stopped; and a checker that finds what is broken."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.damage import STATES, Study, damaged, studies, trial
from benchmarks.fault_process import Fault, Run, make_study
from benchmarks.faults import PROMISES, Contents, Stop, broken_promises, contents_of
from pmw.session.store.store import SessionStore

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow  # a longer version of the next one
def test_processes_that_are_stopped_in_every_way_keep_every_promise(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.faults", "--short", "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr}\n{done.stdout}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    (total,) = [line for line in lines if line["series"] == "all"]
    assert total["broken"] == 0
    least = 50 if total["failing_calls"] else 15  # where there is no C compiler, calls cannot be made to fail
    assert total["stops"] >= least
    assert sum(count for kind, count in total["stops_by_kind"].items() if kind.startswith("at")) >= least / 3
    assert set(PROMISES) <= set(total["checks_by_promise"])
    assert min(total["checks_by_promise"].values()) > 0


TELLING = """
import sys
from pathlib import Path

from benchmarks import faults
from benchmarks.fault_process import Fault, make_study
from benchmarks.faults import PROMISES

folder, tally = Path(sys.argv[1]), faults.Tally()
study = make_study("questions", folder / "study")
stops = (Fault("statement on a full disk", 3), Fault("kill before a statement", 9))
series = faults.Series("each kind", "questions", stops)
PROMISES["it rains"] = lambda first, stops: iter([(False, "it is dry")])
faults.run_series(series, study, folder / "run", tally, folder / "kept")
PROMISES["it rains"] = lambda first, stops: iter([1 / 0])
faults.run_series(series, study, folder / "run", tally)
"""


def test_what_broke_is_told_with_every_process_of_its_series(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TELLING, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    broken, _, failed = done.stderr.partition("Traceback")
    assert "each kind (questions): statement on a full disk at 3; kill before a statement at 9\n" in broken
    assert "it rains: it is dry" in broken
    assert "ZeroDivisionError" in failed
    (kept,) = (tmp_path / "kept").iterdir()
    assert f"its session is kept in {kept}\n" in broken
    assert contents_of(kept / "questions.pmw").faults == ()
    for told in (broken, failed):  # where the benchmark itself fails, its processes are told too
        assert "(statement on a full disk at 3): exit 1: Error: " in told
        assert "(kill before a statement at 9): exit -9: it said nothing" in told
        assert "(nothing befell it): exit 0: it said nothing" in told


LINE = (
    '{"id": 0, "count": 5.0, "interval": [1.0, 9.0], "source": "measured", "version": 1, '
    '"spent": {"share": 0.5}}'
)
DRAWN: dict[str, Any] = {
    "intent": 2, "seed": "ab", "thresholds": [], "recorded": True, "outcomes": [1], "released": "0500",
}  # fmt: skip
EMPTY = Contents(
    ledger=((1, 1, "total", None, "1/10"),), measurements=((1, 1, "total", b"\0"),), answers={}, pending=(),
    thresholds=(), share=0.1, faults=(),
)  # fmt: skip
AFTER = Contents(
    ledger=(*EMPTY.ledger, (2, 2, "measurement", None, "4/10")),
    measurements=(*EMPTY.measurements, (2, 2, "query", b"\5\0")),
    answers={"r0": (5.0, 1.0, 9.0, "measured", 1, 0.5)},
    pending=(), thresholds=(), share=0.5, faults=(),
)  # fmt: skip
MODEL = {"version": 1, "answers": ["0x1p+0"]}
KILLED = Stop(Run(Fault("kill before a call"), -9, {}, "", (DRAWN,)), EMPTY._replace(pending=((2, "ab"),)))
FINISHED = Stop(Run(Fault(), 0, {0: LINE}, "", (DRAWN, MODEL)), AFTER)


def row(number: int, units: bytes) -> tuple[int, int, str, bytes]:
    """Return a measurement that intent 2 measured."""
    return number, 2, "query", units


def noted(**changes: Any) -> list[Stop]:
    """Return a run whose witness saw something else."""
    return [run_of(FINISHED, notes=({**DRAWN, **changes}, MODEL))]


def broken(*stops: Stop) -> list[str]:
    return broken_promises(EMPTY, stops)[0]


def test_a_session_that_kept_its_promises_has_none_broken() -> None:
    assert broken(KILLED, FINISHED, FINISHED) == []


def run_of(stop: Stop, **changes: Any) -> Stop:
    return stop._replace(run=replace(stop.run, **changes))


def file_of(stop: Stop, **changes: Any) -> Stop:
    return stop._replace(after=stop.after._replace(**changes))


BROKEN = {
    "the answer to 0 was released and is not in the file": [file_of(FINISHED, answers={})],
    "stored": [file_of(FINISHED, answers={"r0": (6.0, 1.0, 9.0, "measured", 1, 0.5)})],
    "became": [FINISHED, run_of(FINISHED, lines={0: LINE.replace("5.0", "6.0")})],
    "was drawn as": [KILLED, *noted(released="0600")],
    "drew before it was durable": noted(recorded=False),
    "has other bytes than it drew from": [file_of(KILLED, pending=((2, "cd"),)), FINISHED],
    "what intent 2 drew is not in the file": [KILLED, file_of(FINISHED, measurements=EMPTY.measurements)],
    "intent 2 was given up": [KILLED, *noted(intent=3)],
    "is not what was drawn": [file_of(FINISHED, measurements=(*EMPTY.measurements, row(2, b"\6\0")))],
    "was never drawn": [run_of(FINISHED, notes=(MODEL,))],
    "charged twice": [
        FINISHED, file_of(FINISHED, ledger=(*AFTER.ledger, (3, 2, "measurement", None, "1/10")))
    ],
    "a charge was changed or lost": [FINISHED, file_of(FINISHED, ledger=AFTER.ledger[1:])],
    "measured without a charge": [file_of(FINISHED, ledger=EMPTY.ledger)],
    "one intent measured twice": [file_of(FINISHED, measurements=(*AFTER.measurements, row(3, b"\5\0")))],
    "share 0.5 became 0.4": [FINISHED, file_of(FINISHED, share=0.4)],
    "share 0.1 became 1.1": [file_of(FINISHED, share=1.1)],
    "found another threshold": noted(thresholds=[["threshold", "ab"]]),
    "a threshold changed without a charge": [
        FINISHED, file_of(run_of(FINISHED, notes=()), thresholds=(("threshold", "ab"),))
    ],
    "version 1: ": [FINISHED, run_of(FINISHED, notes=({"version": 1, "answers": ["0x2p+0"]},))],
    "the books verify: the ledger": [file_of(FINISHED, faults=("the ledger",))],
    "stopped before any": [
        run_of(KILLED, fault=Fault("kill before a call", positive=True), notes=()), FINISHED
    ],
    "told in our own words": [run_of(KILLED, code=1, errors="Traceback (most recent call last):"), FINISHED],
    "the stream is finished: exit -9": [KILLED],
}  # fmt: skip


@pytest.mark.parametrize("words", sorted(BROKEN))
def test_a_broken_promise_is_found(words: str) -> None:
    assert any(words in one for one in broken(*BROKEN[words])), broken(*BROKEN[words])


def test_looking_at_a_file_does_not_touch_it(tmp_path: Path) -> None:
    study = make_study("questions", tmp_path / "study")
    before = {path.name: path.read_bytes() for path in study.path.parent.iterdir()}
    contents = contents_of(study.path)
    assert {path.name: path.read_bytes() for path in study.path.parent.iterdir()} == before
    assert contents.faults == ()
    assert len(contents.ledger) > 1
    assert 0 < contents.share < 1


# --- damage ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Study]:
    return studies(tmp_path_factory.mktemp("studies"))


@pytest.mark.parametrize("state", range(len(STATES)), ids=STATES)
def test_flips_and_cuts_never_overspend_and_never_answer_anew(
    made: list[Study], state: int, tmp_path: Path
) -> None:
    generator = random.Random(7)
    outcomes = [trial(made[state], damaged(made[state], generator)[2], tmp_path / "t") for _ in range(12)]
    assert [outcome for outcome in outcomes if outcome.startswith("violation")] == []
    assert "refused" in outcomes
    assert "harmless" in outcomes


@pytest.mark.parametrize("left", [0, 32, 5000], ids=lambda left: f"{left} bytes left")
def test_a_log_that_holds_charges_and_is_lost_is_missed(made: list[Study], left: int, tmp_path: Path) -> None:
    study = made[STATES.index("killed while read")]
    assert trial(study, study.files, tmp_path / "t") == "harmless"
    files = {**study.files, "-wal": study.files["-wal"][:left]}
    assert trial(study, files, tmp_path / "t") == "refused"


def test_a_loss_of_charges_is_a_violation(
    made: list[Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = made[STATES.index("killed while read")]
    files = {end: study.files[end] for end in ("", "-companion")}
    assert trial(study, files, tmp_path / "t") == "refused"
    assert trial(study, {"": study.files[""]}, tmp_path / "t") == "refused"
    monkeypatch.setattr(SessionStore, "_require_log", lambda *_: None)  # the trial itself can fail
    assert trial(study, files, tmp_path / "t").startswith("violation")
