"""Faults: a session that is killed, interrupted or cannot write goes on as if nothing had happened.

Processes are really killed. Some of them are killed, or cannot write, *only when a test was positive and
before its outcome was durable*: if a retry then drew new noise, an attacker with such a fault would get
positives for nothing.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.random_bits import BitSource
from pmw.public.options import TestKind
from pmw.session.events import read_noise
from pmw.session.maintenance import read_session
from pmw.session.store.store import SessionStore
from queries import Domain, IntegerAttribute, LinearQuery, random_conjunctions, save_schema
from tests.pmw.session.stored import failed, waiting_of
from tests.worlds import YEARS

LINES = 600  # their answers are several times what a pipe holds

# Dies, without any warning, when a batch with a positive is about to be made durable.
KILLED_AT_POSITIVES = """
import os, signal
from pmw.session.store.store import SessionStore

finish = SessionStore.finish

def deadly(self, intent, outcome):
    if outcome.measurements and intent != 1:
        os.kill(os.getpid(), signal.SIGKILL)
    finish(self, intent, outcome)

SessionStore.finish = deadly
from pmw.cli import main
main()
"""


@pytest.fixture(params=["questions", "marginals"])
def study(request: pytest.FixtureRequest, tmp_path: Path, frame: pd.DataFrame, domain: Domain) -> Path:
    """Open a session on a file and return its path; questions lie beside it."""
    options = pmw.Options(test=TestKind.QUERY, threshold=12.0, update_limit=8)
    if request.param == "marginals":
        frame["member"] = frame["age"] > 40  # far from any model of single attributes
        domain = YEARS.domain  # its table is too large to be measured at opening
        options = pmw.Options(test=TestKind.MARGINAL, update_limit=4, composition=pmw.Composition.ZCDP)
    path, table = tmp_path / "study.pmw", tmp_path / "people.csv"
    frame.to_csv(table, index=False)
    pmw.open_session(table, domain, epsilon=1, delta=1e-9, path=path, options=options).close()
    lines = map(json.dumps, lines_of(random_conjunctions(domain, LINES, seed=5)))
    (tmp_path / "questions.jsonl").write_text("\n".join(lines) + "\n")
    return path


def lines_of(queries: Iterable[LinearQuery]) -> Iterator[dict[str, Any]]:
    """Yield questions as a stream reads them."""
    for number, query in enumerate(queries):
        where = {}
        for name, cells in zip(query.scope, query.box, strict=True):
            attribute = query.domain[name]
            if isinstance(attribute, IntegerAttribute):
                ends = attribute.boundaries
                where[name] = {"between": [ends[cells.start], ends[cells.stop] - 1]}
            else:
                where[name] = {"in": [attribute.values[cell] for cell in range(cells.start, cells.stop)]}  # type: ignore[union-attr]
        yield {"id": number, "request_id": str(number), "where": where}


def stream(study: Path, program: str | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pmw"] if program is None else [sys.executable, "-c", program]
    with (study.parent / "questions.jsonl").open("rb") as questions:
        return subprocess.Popen(
            [*command, "ask", str(study), "--stream"],
            stdin=questions,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            # A runner in the background ignores Ctrl-C, and its children would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )


def output_of(process: subprocess.Popen[bytes], least: int) -> bytes:
    """Return what a process prints first, of so many bytes at least."""
    assert process.stdout is not None
    output = b""
    while len(output) < least and (more := process.stdout.read(1 << 12)):
        output += more
    return output


def answers_in(output: bytes) -> dict[int, dict[str, Any]]:
    forms = [json.loads(line) for line in output.decode().split("\n")[:-1]]
    for form in forms:
        form["spent"].pop("charged", None)  # that is told once: a stored answer is free
    return {form["id"]: form for form in forms}


def ledger_of(study: Path) -> list[tuple[str, str]]:
    with closing(SessionStore.open(study)) as store:
        return [(row.event, row.rho) for row in store.chained().ledger]


def check_books(study: Path) -> None:
    """One measurement for each charge of one, one round for each but the last, and all within the cap."""
    state, _ = read_session(study)
    events = [event for event, _ in ledger_of(study)]
    measured = sum(events.count(event) for event in ("measurement", "marginal", "requested"))
    measured -= sum(isinstance(one, MarginalMeasurement) for one in state.opening)
    assert measured == len(state.measured)
    rounds = events.count("sparse vector round")
    if state.contract.options.test is TestKind.QUERY:
        assert len(state.measured) <= rounds <= len(state.measured) + 1
    assert failed(study) == {}
    assert sum(Fraction(rho) for _, rho in ledger_of(study)) == state.ledger.spent <= state.ledger.cap


def test_a_stream_that_is_killed_again_and_again_gives_the_answers_of_one_run(study: Path) -> None:
    generator = random.Random(1)
    printed: dict[int, dict[str, Any]] = {}
    kills = 0
    for least in (0, 1, 20_000, 50_000, 90_000):  # bytes of answers before the end
        process = stream(study)
        begun = output_of(process, least)
        time.sleep(generator.random() * 0.4)
        process.kill()
        rest, _ = process.communicate()
        kills += process.returncode == -signal.SIGKILL
        for number, form in answers_in(begun + rest).items():
            assert printed.setdefault(number, form) == form
        check_books(study)
    assert kills >= 3
    whole, errors = stream(study).communicate()
    final = answers_in(whole)
    assert errors == b""
    assert len(final) == LINES
    assert all(final[number] == form for number, form in printed.items())
    check_books(study)


def test_an_opening_that_was_killed_is_finished_with_its_own_noise(
    tmp_path: Path, frame: pd.DataFrame, domain: Domain
) -> None:
    frame.to_csv(tmp_path / "people.csv", index=False)
    save_schema(domain, tmp_path / "people.toml")
    path = tmp_path / "study.pmw"
    program = KILLED_AT_POSITIVES.replace("intent != 1", "intent == 1")
    command = [
        sys.executable, "-c", program, "open", str(path), "--epsilon", "1",
        "--data", str(tmp_path / "people.csv"), "--schema", str(tmp_path / "people.toml"),
    ]  # fmt: skip
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    recorded = waiting_of(path)
    assert ledger_of(path) == []
    with pytest.raises(pmw.SessionCorruptError, match="opening is not finished"):
        read_session(path)
    with pmw.resume_session(path) as session:
        estimate = session.state.total.estimate
    with closing(SessionStore.open(path)) as store:
        total = store.chained().measurements[0]
    drawn = read_noise(total).sample(BitSource(recorded.seed))  # the total is drawn first
    assert int(np.frombuffer(total.units, dtype="<i8")[0]) == len(frame) * 2**20 + drawn
    assert estimate != len(frame)


@pytest.mark.parametrize("study", ["marginals"], indirect=True)
def test_ctrl_c_ends_cleanly_with_everything_printed_durable(study: Path) -> None:
    questions = study.parent / "questions.jsonl"
    questions.write_text(6 * questions.read_text())  # many times what a pipe holds: it cannot be over
    process = stream(study)
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=30)
    if process.returncode == 0:
        pytest.fail("the stream was over before it could be interrupted")
    assert process.returncode == 130
    assert b"interrupted; everything printed so far is durable" in errors
    assert b"Traceback" not in errors
    printed = answers_in(first + rest)
    whole, _ = stream(study).communicate()
    final = answers_in(whole)
    assert all(final[number] == form for number, form in printed.items())
    check_books(study)


@pytest.mark.parametrize("study", ["questions"], indirect=True)
def test_a_file_size_limit_is_survived(study: Path) -> None:
    # The operating system refuses every write beyond a few kilobytes more.
    size = sum(path.stat().st_size for path in study.parent.glob("study.pmw*"))
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sys.dont_write_bytecode = True\n"  # it would be cut off too, and stay for others
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        "from pmw.cli import main\nmain()\n"
    )
    process = stream(study, program)
    output, errors = process.communicate()
    assert process.returncode == 1
    assert errors.decode().startswith("Error: ")
    assert "nothing was released" in errors.decode()
    assert b"Traceback" not in errors
    check_books(study)
    whole, _ = stream(study).communicate()
    final = answers_in(whole)
    assert len(final) == LINES
    assert all(final[number] == form for number, form in answers_in(output).items())
    check_books(study)
