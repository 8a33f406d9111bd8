"""Resumption: what was interrupted, killed or could not be written comes to what it would have come to."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.loop.loop import draw_tests
from pmw.loop.secret import SecretState
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.budget import Charge
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import Parts
from pmw.public.codec import read
from pmw.public.options import TestKind
from pmw.session.accounts import SESSION, Account
from pmw.session.events import read_noise
from pmw.session.loading import load_secret
from pmw.session.maintenance import read_ledger, read_session
from pmw.session.store.rows import QUANTILES, TESTS, LedgerRow, MeasurementRow, Outcome
from pmw.session.store.store import SessionStore
from queries import Domain, LinearQuery, random_conjunctions
from tests.pmw.session.stored import cut_off, failed, kill_at, pending_of, waiting_of
from tests.worlds import JOINED, PEOPLE, REGIONS, WHOLE_YEARS, YEARS, World, repeat_noise

SINGLE, MARGINAL = "threshold noise drawn for single questions", "threshold noise drawn"
OPTIONS: dict[str, Any] = {"composition": pmw.Composition.ZCDP, "update_limit": 4}


def boxed(*names: str, low: int = 0) -> LinearQuery:
    return LinearQuery.cells(JOINED.domain, dict.fromkeys(names, (low, 5)))


def five(low: int) -> LinearQuery:
    """Return a question about more cells than a marginal is tested on: it is tested by itself."""
    return boxed(*"abcde", low=low)


@pytest.fixture
def path(tmp_path: Path, repeatable: None, request: pytest.FixtureRequest) -> Path:
    """Open a session on a file; return its path."""
    made, table = tmp_path / "s.pmw", tmp_path / "people.csv"
    JOINED.frame.to_csv(table, index=False)
    options = pmw.Options(sparse_vector=getattr(request, "param", None), **OPTIONS)
    pmw.open_session(table, JOINED.domain, epsilon=2, delta=1e-9, path=made, options=options).close()
    return made


def stored(path: Path) -> SecretState:
    with closing(SessionStore.open(path)) as store:
        return load_secret(store, 2)


# --- rounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, "exponential", "sech2"], indirect=True)
def test_open_rounds_of_both_tiers_come_back_each_to_its_own_and_are_neither_charged_nor_drawn_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def paid(session: pmw.Session) -> list[int]:
        labels = [line.label for line in session.ledger().lines]
        return [labels.count(MARGINAL), labels.count(SINGLE)]

    with pmw.resume_session(path) as session:
        session.ask(five(0))
        assert (session.state.rounds, paid(session)) == ((False, True), [0, 1])
        drawn = session._engine._secret
        assert drawn.thresholds[0] is None
        assert session._engine._secret == stored(path) == drawn
        for pair in (("a", "b"), ("c", "d"), ("a", "e"), ("b", "d")):
            session.ask(boxed(*pair))
            if session.state.round_open:
                break
        drawn, before = session._engine._secret, paid(session)
    marginals, questions = drawn.thresholds
    assert marginals is not None
    assert questions is not None
    assert marginals.lower is None
    assert questions.lower not in (None, questions.upper)  # of both thresholds
    used: list[SecretState] = []

    def noting(*given: Any) -> Any:
        used.append(given[2])
        return draw_tests(*given)

    monkeypatch.setattr("pmw.session.engine.draw_tests", noting)
    for low in (1, 2):
        assert read_session(path)[0].rounds == (True, True)
        with pmw.resume_session(path) as session:
            assert session.state.rounds == (True, True)
            assert session._engine._secret == stored(path) == drawn
            spent = session.state.ledger.spent
            session.ask(five(low))
            assert session.state.positives(1) == 0
            assert session._engine._secret == stored(path) == drawn
            assert (paid(session), session.state.ledger.spent) == (before, spent)
            assert session.verify().holds
    assert used == [drawn, drawn]


@pytest.mark.parametrize("damage", ["gone", "differs"])
@pytest.mark.parametrize("question", [five(1), boxed("a", "b")])
def test_a_table_that_cannot_be_read_is_found_out_before_anything_is_recorded(
    path: Path, damage: str, question: LinearQuery
) -> None:
    table = path.with_name("people.csv")
    table.unlink()
    told = f"expected a readable file, got {table}: no such file"
    if damage == "differs":
        JOINED.frame.iloc[1:].to_csv(table, index=False)
        told = "the table differs from the one that the session was opened on"
    companion = path.with_name("s.pmw-companion").read_bytes()
    with pmw.resume_session(path) as session:
        before = session.state
        for _ in range(2):
            with pytest.raises(pmw.DataError) as refused:
                session.ask(question)
            assert (
                str(refused.value) == f"{told}; where the table was moved, name its new place with pmw move"
            )
            assert pending_of(path) is None
            assert stored(path) == SecretState.closed(2)
            assert session.state is before
            assert path.with_name("s.pmw-companion").read_bytes() == companion
        session.ask(boxed("a"))  # what was measured answers: no table is needed
        JOINED.frame.to_csv(table, index=False)
        session.ask(question)
        assert session.state.ledger.spent > before.ledger.spent
        assert session.verify().holds


def test_what_is_written_goes_on_from_the_charges_that_its_state_was_made_of(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, told = SessionStore.finish, list[tuple[str, int | None, int]]()

    def noting(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
        if intent is not None or outcome.columns:
            newer = "newer answers" if outcome.are_newer else "free answers"
            kind = newer if intent is None else "a batch" if outcome.columns else "a release"
            told.append((kind, outcome.charged_before, store.charge_count()))
        finish(store, intent, outcome)

    monkeypatch.setattr(SessionStore, "finish", noting)
    for low in range(2):
        with pmw.resume_session(path) as session:
            session.ask(five(low))
            session.ask(boxed("a", "b", low=low))
            session.ask(boxed("c", low=low))
    with pmw.resume_session(path) as session:
        session.measure(("a", "b"))
        session.ask(boxed("a", "b"))
    assert {kind for kind, *_ in told} == {"a batch", "a release", "free answers", "newer answers"}
    assert all(before == found for _, before, found in told)
    assert len({found for *_, found in told}) > 2


# --- batches that draw noise --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """What draws noise in a session."""

    kind: str  # as it is recorded
    world: World
    begin: Callable[[pmw.Analyst], object]  # what an analyst does
    free: str | LinearQuery  # a question that needs no noise
    label: str = "reserved; nothing was released"  # of its charge where it is given up
    booked: Parts = Account("ann").whole  # to whom
    asked: int = 0  # how many questions come before
    options: dict[str, Any] = field(default_factory=lambda: OPTIONS)

    def opened(self, path: Path) -> pmw.Session:
        """Open a session in which the batch comes next."""
        session = self.world.opened(path, **self.options)
        found = {one.to_json(): one for one in random_conjunctions(self.world.domain, 2 * self.asked, seed=9)}
        session.ask_all(list(found.values())[: self.asked])
        return session


QUERY = {"test": pmw.TestKind.QUERY, "threshold": 20.0, "update_limit": 8}
BATCHES = {
    "questions": Batch(
        TESTS, PEOPLE, lambda ann: ann.ask("age >= 40 AND NOT member = TRUE"), "age >= 40", options=QUERY
    ),
    "marginals": Batch(TESTS, JOINED, lambda ann: ann.ask(boxed("a", "b")), boxed("c")),
    "a question": Batch(TESTS, JOINED, lambda ann: ann.ask(five(0)), boxed("c")),
    "a request": Batch(
        "requested",
        JOINED,
        lambda ann: ann.measure(["a", "b"]),
        boxed("c"),
        "reserved for a requested marginal; nothing was released",
    ),
    "quantiles": Batch(
        QUANTILES,
        WHOLE_YEARS,
        lambda ann: ann.ask("age = 33"),
        "age = 34",
        "reserved for error quantiles; nothing was released",
        SESSION.whole,
        asked=256,
        options={"composition": pmw.Composition.ZCDP},
    ),
}


@pytest.fixture(params=BATCHES)
def batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Batch:
    monkeypatch.setattr("pmw.session.releases.due_marginal", lambda *_: None)
    repeat_noise(monkeypatch, 20)
    return BATCHES[str(request.param)]


def rows_of(path: Path) -> tuple[Sequence[LedgerRow], Sequence[MeasurementRow]]:
    with closing(SessionStore.open(path)) as store:
        return store.chained().ledger, store.chained().measurements


def cut(batch: Batch, path: Path) -> None:
    """Leave a batch that was recorded and has no outcome."""
    with batch.opened(path) as session, cut_off():
        batch.begin(session.analyst("ann", 0.5, at_most=1))
    assert failed(path) == {}  # while it waits
    assert waiting_of(path).kind == batch.kind


def test_a_batch_is_recorded_before_a_bit_of_its_noise_is_drawn(
    batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, events, looked = tmp_path / "s.pmw", list[tuple[str, str]](), list[tuple[str, BitSource]]()

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*given: Any) -> Any:
            if (name, given[0]) not in looked:  # once for each source of bits: each file is read anew
                looked.append((name, given[0]))
                waiting = waiting_of(path)
                assert len(waiting.seed) == 32
                events.append((name, waiting.kind))
            return method(*given)

        return watching

    for name in ("__init__", "take"):
        monkeypatch.setattr(BitSource, name, watched(name, getattr(BitSource, name)))
    with batch.opened(path) as session:
        assert {kind for _, kind in events} == {"opening"} | ({TESTS} if batch.asked else set())
        events.clear()
        batch.begin(session.analyst("ann", 0.5, at_most=1))
        assert set(events) == {(name, batch.kind) for name in ("__init__", "take")}
        events.clear()
        session.ask(batch.free)
        assert events == []


def test_a_batch_that_was_interrupted_has_the_outcome_that_it_would_have_had(
    batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with batch.opened(tmp_path / "whole.pmw") as session:
        before = rows_of(tmp_path / "whole.pmw")
        batch.begin(session.analyst("ann", 0.5, at_most=1))
    expected, path = rows_of(tmp_path / "whole.pmw"), tmp_path / "s.pmw"
    repeat_noise(monkeypatch, 20)
    cut(batch, path)
    assert rows_of(path) == before
    with pmw.resume_session(path, batch.world.frame) as session:
        found = rows_of(path)
        assert pending_of(path) is None
        for now, then, whole in zip(found, before, expected, strict=True):
            assert list(now) == list(whole[: len(now)])  # the bytes of its noise, its charges, and whose
            assert len(now) >= len(then)
        paid = read_ledger(path).lines[len(before[0]) :]
        assert {line.booked for line in paid} == {batch.booked}
        batch.begin(session.analyst("ann", 0.5, at_most=1))
        assert session.verify().holds


def test_a_batch_that_is_given_up_is_charged_whole_to_who_began_it(batch: Batch, tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    cut(batch, path)
    reserved, spent = read(Charge, json.loads(waiting_of(path).proposal)["reserved"]), read_ledger(path).spent
    pmw.finalize_session(path, abandon=True)
    assert failed(path) == {}
    line = read_ledger(path).lines[-1]
    assert (line.event, line.label, line.booked) == ("abandoned batch", batch.label, batch.booked)
    assert line.price == read_session(path)[0].ledger.price(reserved) > 0
    assert read_ledger(path).spent == spent + line.price


@pytest.mark.parametrize("kept", [False, True])
def test_of_an_outcome_that_failed_nothing_is_seen_and_the_next_question_goes_on_from_the_file(
    batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    path, finish = tmp_path / "s.pmw", SessionStore.finish

    def failing(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
        if kept:
            finish(store, intent, outcome)
        raise pmw.StoreError("no room, or nothing more")

    with batch.opened(path) as session:
        before, number = session.state, session._engine._store.last_intent() + 1
        with monkeypatch.context() as patch:
            patch.setattr(SessionStore, "finish", failing)
            with pytest.raises(pmw.StoreError, match="no room"):
                batch.begin(session.analyst("ann", 0.5, at_most=1))
            assert session.state is before
            for fresh in [] if kept else [False, True]:
                waiting = waiting_of(path)
                with pytest.raises(pmw.StoreError):  # any question waits for the recorded outcome
                    session.ask(batch.free, fresh=fresh)
                assert waiting_of(path) == waiting
        session.ask(batch.free)
        assert (session._engine._store.last_intent(), pending_of(path)) == (number, None)
        assert session.state.ledger.spent > before.ledger.spent
        assert session.verify().holds


LINES = 400  # their answers are several times what a pipe holds


@pytest.fixture(params=["questions", "marginals"])
def killable(request: pytest.FixtureRequest, tmp_path: Path, frame: pd.DataFrame, domain: Domain) -> Path:
    """Open a session on a file and return its path; questions lie beside it."""
    options = pmw.Options(test=TestKind.QUERY, threshold=12.0, update_limit=8)
    if request.param == "marginals":
        frame["member"] = frame["age"] > 40  # far from any model of single attributes
        domain = YEARS.domain  # its table is too large to be measured at opening
        options = pmw.Options(test=TestKind.MARGINAL, update_limit=4, composition=pmw.Composition.ZCDP)
    path, table = tmp_path / "study.pmw", tmp_path / "people.csv"
    frame.to_csv(table, index=False)
    pmw.open_session(table, domain, epsilon=1, delta=1e-9, path=path, options=options).close()
    generator, lines = random.Random(5), list[str]()
    for number in range(LINES):
        low, high = sorted(generator.sample(range(20, 61, 4), 2))
        where = {
            "age": {"between": [low, high - 1]},
            "sex": {"eq": generator.choice(["Female", "Male"])},
            "region": {"in": generator.sample(REGIONS, 2)},
            "member": {"eq": generator.random() < 0.5},
        }
        asked = {name: where[name] for name in generator.sample(list(where), generator.randint(1, 3))}
        lines.append(json.dumps({"id": number, "request_id": str(number), "where": asked}))
    (tmp_path / "questions.jsonl").write_text("\n".join(lines) + "\n")
    return path


def stream(killable: Path, *program: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, *(("-c", *program) if program else ("-m", "pmw"))]
    with (killable.parent / "questions.jsonl").open("rb") as questions:
        return subprocess.Popen(
            [*command, "ask", str(killable), "--stream"],
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


def answers_of(output: bytes) -> dict[int, dict[str, Any]]:
    forms = [json.loads(line) for line in output.decode().split("\n")[:-1]]
    for form in forms:
        form["spent"].pop("charged", None)  # that is told once: a stored answer is free
    return {form["id"]: form for form in forms}


def ledger_of(killable: Path) -> list[tuple[str, str]]:
    return [(row.event, row.rho) for row in rows_of(killable)[0]]


def check_books(killable: Path) -> None:
    """One measurement for each charge of one, one round for each but the last, and all within the cap."""
    state, _ = read_session(killable)
    events = [event for event, _ in ledger_of(killable)]
    measured = sum(events.count(event) for event in ("measurement", "marginal", "requested"))
    measured -= sum(isinstance(one, MarginalMeasurement) for one in state.opening)
    assert measured == len(state.measured)
    rounds = events.count("sparse vector round")
    if state.contract.options.test is TestKind.QUERY:
        assert len(state.measured) <= rounds <= len(state.measured) + 1
    assert failed(killable) == {}
    assert sum(Fraction(rho) for _, rho in ledger_of(killable)) == state.ledger.spent <= state.ledger.cap


@pytest.mark.parametrize(
    "killable", ["marginals", pytest.param("questions", marks=pytest.mark.slow)], indirect=True
)
def test_a_stream_that_is_killed_again_and_again_gives_the_answers_of_one_run(killable: Path) -> None:
    generator = random.Random(1)
    printed: dict[int, dict[str, Any]] = {}
    kills = 0
    for least in (0, 1, 20_000, 40_000):  # bytes of answers before the end
        process = stream(killable)
        begun = output_of(process, least)
        time.sleep(generator.random() * 0.4)
        process.kill()
        rest, _ = process.communicate()
        kills += process.returncode == -signal.SIGKILL
        for number, form in answers_of(begun + rest).items():
            assert printed.setdefault(number, form) == form
        check_books(killable)
    assert kills >= 3
    require_the_rest(killable, printed)


def require_the_rest(killable: Path, printed: dict[int, dict[str, Any]]) -> None:
    """Ask everything again, and require the answers that were printed before."""
    whole, errors = stream(killable).communicate()
    final = answers_of(whole)
    assert errors == b""
    assert len(final) == LINES
    assert all(final[number] == form for number, form in printed.items())
    check_books(killable)


def test_an_opening_that_was_killed_is_finished_with_its_own_noise(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    kill_at("finish", lambda: PEOPLE.opened(path, epsilon=1))
    recorded = waiting_of(path)
    assert ledger_of(path) == []
    with pytest.raises(pmw.SessionCorruptError, match="opening is not finished"):
        read_session(path)
    with pmw.resume_session(path, PEOPLE.frame) as session:
        estimate = session.state.total.estimate
    total = rows_of(path)[1][0]
    drawn = read_noise(total).sample(BitSource(recorded.seed))  # the total is drawn first
    assert int(np.frombuffer(total.units, dtype="<i8")[0]) == len(PEOPLE.frame) * 2**20 + drawn
    assert estimate != len(PEOPLE.frame)


@pytest.mark.parametrize("killable", ["marginals"], indirect=True)
def test_ctrl_c_ends_cleanly_with_everything_printed_durable(killable: Path) -> None:
    questions = killable.parent / "questions.jsonl"
    questions.write_text(6 * questions.read_text())  # many times what a pipe holds: it cannot be over
    process = stream(killable)
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=30)
    if process.returncode == 0:
        pytest.fail("the stream was over before it could be interrupted")
    assert process.returncode == 130
    assert b"interrupted; everything printed so far is durable" in errors
    assert b"Traceback" not in errors
    require_the_rest(killable, answers_of(first + rest))


@pytest.mark.parametrize("killable", ["questions"], indirect=True)
def test_a_file_size_limit_is_survived(killable: Path) -> None:
    # The operating system refuses every write beyond a few kilobytes more.
    size = sum(path.stat().st_size for path in killable.parent.glob("study.pmw*"))
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sys.dont_write_bytecode = True\n"  # it would be cut off too, and stay for others
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        "from pmw.cli import main\nmain()\n"
    )
    process = stream(killable, program)
    output, errors = process.communicate()
    assert process.returncode == 1
    assert errors.decode().startswith("Error: ")
    assert "nothing was released" in errors.decode()
    assert b"Traceback" not in errors
    check_books(killable)
    require_the_rest(killable, answers_of(output))
