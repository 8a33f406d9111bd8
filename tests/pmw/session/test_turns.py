"""Turns: processes and threads that use one session at the same time lose nothing and pay nothing twice."""

from __future__ import annotations

import json
import math
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pmw
from pmw.session.engine import Engine
from pmw.session.maintenance import read_ledger, read_session, verify_session
from pmw.session.store.locking import SessionLock
from pmw.session.store.store import SessionStore
from pmw.session.turns import TURN_WORK, Turns
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    QueryError,
    random_conjunctions,
)
from queries.parsing import Question
from tests.pmw.session.stored import answer_to_request, marked_answers
from tests.waiting import WAIT, joined
from tests.worlds import PEOPLE


def begun(turns: Turns, work: Callable[[], None]) -> threading.Thread:
    """Start a thread, and return once it waits for its turn."""
    before = len(turns._waiting)
    thread = threading.Thread(target=work)
    thread.start()
    while len(turns._waiting) == before:
        thread.join(0.001)
        assert thread.is_alive()
    return thread


def test_first_come_is_first_served_and_a_long_turn_is_passed_by_short_ones() -> None:
    turns, order = Turns(), list[str]()

    def short(name: str) -> Callable[[], None]:
        def work() -> None:
            with turns:
                order.append(name)

        return work

    with turns:
        turns.pause(TURN_WORK - 1)  # not enough yet: nobody is let in
        threads = [begun(turns, short(name)) for name in "abc"]
        assert turns.awaited
        assert order == []
        turns.pause(1)
        order.append("long")
    for thread in threads:
        thread.join(WAIT)
    assert order == ["a", "b", "c", "long"]
    assert not turns.awaited


def test_nobody_is_passed_by_more_work_than_a_turn_holds() -> None:
    turns, order = Turns(), list[int]()
    done = threading.Event()

    def long() -> None:
        with turns:
            turns.pause(TURN_WORK)
            done.set()

    def short(number: int) -> None:
        with turns:
            order.append(number)
            turns.pause(TURN_WORK // 4)
            if number < 20 and not done.is_set():
                threads.append(begun(turns, lambda: short(number + 1)))  # there is always one that waits

    threads = list[threading.Thread]()
    with turns:
        threads.append(begun(turns, long))
        threads.append(begun(turns, lambda: short(0)))
    assert done.wait(WAIT)
    for thread in threads:
        thread.join(WAIT)
    assert len(order) <= 6


def test_a_turn_within_a_turn_waits_for_nothing_and_comes_back_whole() -> None:
    turns = Turns()

    def other() -> None:
        with turns:
            pass

    with turns, turns:
        thread = begun(turns, other)
        turns.pause(TURN_WORK)
        assert not turns.awaited
        thread.join(WAIT)
    with turns:
        assert turns._depth == 1


@pytest.fixture
def session(tmp_path: Path) -> Iterator[pmw.Session]:
    """A session whose groups are more than a turn holds."""
    domain = Domain(
        (IntegerAttribute("age", 0, 499), CategoricalAttribute("sex", ("Female", "Male"))), name="people"
    )
    frame = pd.DataFrame({"age": [20, 30, 40] * 100, "sex": ["Female", "Male", "Male"] * 100})
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=tmp_path / "s.pmw") as session:
        yield session


def test_a_key_of_another_question_is_refused_before_a_long_request_is_asked(session: pmw.Session) -> None:
    queries = [LinearQuery.cells(session.domain, {"age": (age % 500, age % 500)}) for age in range(1500)]
    ann = session.analyst("ann", stop=lambda: None)  # so that others go between
    ann.ask("age >= 3", request_id="k1400")
    before = session.status().queries_answered
    with pytest.raises(QueryError, match="k1400"):
        ann.ask_all([Question(query, request_id=f"k{place}") for place, query in enumerate(queries)])
    assert session.status().queries_answered == before


def test_a_stored_answer_waits_for_one_turn_of_a_long_request(
    session: pmw.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = session.ask("age >= 3")
    answered, seen, other = list[int](), list[int](), list[threading.Thread]()
    real = Engine.answer

    def counted(engine: Engine, asks: Any, *others: Any) -> Any:
        if len(asks) == 1 or other:
            return real(engine, asks, *others)
        other.append(begun(session._turn, lambda: seen.append(session.ask("age >= 3") == stored)))
        found = real(engine, asks, *others)
        answered.append(len(found))
        return found

    monkeypatch.setattr(Engine, "answer", counted)
    wheres = [f"age = {age} AND sex = 'Male'" for age in range(500)]
    long = [f"age >= {age} AND sex = 'Female'" for age in range(500)]
    answers = session.ask_all([*wheres, *long, *wheres, *long, *wheres], fresh=True)
    other[0].join(WAIT)
    assert seen == [True]
    assert 0 < answered[0] < len(answers) == 2500
    assert session.verify().holds
    assert session.status().queries_answered == 2502


class StoppedError(Exception):
    """Raised where a test stops the work."""


def test_what_is_told_to_stop_ends_and_what_was_answered_stands(session: pmw.Session) -> None:
    looks = 0

    def stop() -> None:
        nonlocal looks
        looks += 1
        if looks == 20:  # while the questions are read
            raise StoppedError

    wheres = [f"age = {age} AND sex = '{sex}'" for age in range(500) for sex in ("Female", "Male")]
    session.analyst("ann", stop=None).ask_all(wheres[:10])
    with pytest.raises(StoppedError):
        session.analyst("ann", stop=stop).ask_all([*wheres, *wheres])
    assert not session._turn.awaited
    assert session._turn._holder is None
    assert session.verify().holds
    again = session.ask_all(wheres[:10])
    assert session.status().queries_answered == 20
    assert len(again) == 10


QUESTION = "age >= 40 AND sex = 'Male'"

# Takes turns at the session until there are enough: some questions in each, every one with a mark of its own.
WRITER = """
import json, sys
from pathlib import Path
import pmw
from queries import Question, random_conjunctions

number, count, turns = map(int, sys.argv[1:])
size = count // turns
for turn in range(turns):
    if Path("enough").exists():
        break
    with pmw.resume_session("s.pmw", wait=120) as session:
        queries = random_conjunctions(session.domain, size, seed=number * turns + turn)
        marks = (f"{number}/{turn}/{place}" for place in range(size))
        asked = [Question(query, request_id=mark) for query, mark in zip(queries, marks)]
        for question, answer in zip(asked, session.ask_all(asked, fresh=True)):
            print(json.dumps([question.request_id, answer.count, answer.version]))
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Open a session with positives to spend, close it and return its path."""
    PEOPLE.frame.to_csv(tmp_path / "people.csv", index=False)
    path = tmp_path / "s.pmw"
    options = pmw.Options(test=pmw.TestKind.QUERY, threshold=12.0, update_limit=12)
    table = tmp_path / "people.csv"
    pmw.open_session(table, PEOPLE.domain, epsilon=1, delta=1e-9, path=path, options=options).close()
    return path


def started(folder: Path, *arguments: str, stdin: int | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def stream(study: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds the session, once it has answered one question."""
    process = started(study.parent, "-m", "pmw", "ask", "s.pmw", "--stream", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps({"id": 1, "where": QUESTION}) + "\n")
    process.stdin.flush()
    yield process
    process.communicate()


@pytest.mark.parametrize(
    ("processes", "questions", "turns"), [(3, 200, 2), pytest.param(8, 500, 5, marks=pytest.mark.slow)]
)
def test_processes_that_take_turns_get_every_answer(
    study: Path, processes: int, questions: int, turns: int
) -> None:
    arguments = (str(questions), str(turns))
    writers = [started(study.parent, "-c", WRITER, str(number), *arguments) for number in range(processes)]
    shares, asked, slowest = [0.0], [0], 0.0
    while any(writer.poll() is None for writer in writers):
        begun = time.monotonic()
        _, status = read_session(study)  # while the others write
        spent = read_ledger(study).share
        slowest = max(slowest, time.monotonic() - begun)
        shares += [status.budget_share, spent]
        asked.append(status.queries_answered)
        time.sleep(0.2)
    given: dict[str, tuple[float, int]] = {}
    for writer in writers:
        output, complaint = writer.communicate()
        assert (writer.returncode, complaint) == (0, "")
        given |= {mark: (count, version) for mark, count, version in map(json.loads, output.splitlines())}
    assert len(given) == processes * questions
    assert slowest < 5  # less than any lock is waited for: readers wait for none
    assert shares == sorted(shares)  # what a reader sees is one state, and it never goes back
    assert asked == sorted(asked)
    state, status = read_session(study)
    assert status.queries_answered == processes * questions
    with closing(SessionStore.open(study)) as store:
        rows = {mark: row for mark in given if (row := answer_to_request(store, mark)) is not None}
        assert {mark: (row.count, row.version) for mark, row in rows.items()} == given
        chained = store.chained()
        assert store.pending() is None
    charges = zip(chained.ledger_intents, chained.ledger, strict=True)
    payers = [intent for intent, row in charges if row.event == "measurement"]
    measured = [row.kind for row in chained.measurements].count("query")
    assert len(set(payers)) == len(payers) == measured == state.positives_used == state.version > 0
    assert verify_session(study).holds


def test_backups_while_another_process_writes_are_each_one_state_of_the_session(
    study: Path, tmp_path: Path
) -> None:
    writer = started(study.parent, "-c", WRITER, "0", "250000", "1000")
    copies = [tmp_path / f"copy{number}.pmw" for number in range(6)]
    for copy in copies:
        pmw.backup_session(study, copy)
    (study.parent / "enough").touch()
    output, complaint = writer.communicate()
    assert (writer.returncode, complaint) == (0, "")
    with closing(SessionStore.open(study)) as store:  # a repeated question has no row of its own
        stored = {mark for mark, _ in marked_answers(store)}
    given = [one for one in (tuple(json.loads(line)) for line in output.splitlines()) if one[0] in stored]
    sizes = []
    for copy in copies:
        assert verify_session(copy).holds
        with closing(SessionStore.open(copy)) as store:
            held_there = [(mark, row.count, row.version) for mark, row in marked_answers(store)]
        assert held_there == given[: len(held_there)]
        sizes.append(len(held_there))
    assert sizes == sorted(sizes)
    assert read_ledger(copies[-1]).share <= 1


def test_a_wait_that_runs_out_is_refused_and_nothing_was_asked(study: Path) -> None:
    lock = SessionLock(study)
    begun = time.monotonic()
    with pytest.raises(pmw.SessionLockedError, match="another process is using the session"):
        pmw.resume_session(study, wait=0.3)
    assert 0.3 <= time.monotonic() - begun < 3
    lock.release()
    assert read_session(study)[1].queries_answered == 0
    for wait in (-1, math.nan, math.inf):
        with pytest.raises(pmw.SessionError, match="expected 0 or more seconds to wait"):
            pmw.resume_session(study, wait=wait)


def test_who_waits_has_the_lock_of_a_killed_process_at_once_and_its_answers_are_kept(
    study: Path, stream: subprocess.Popen[str]
) -> None:
    assert stream.stdout is not None
    first = json.loads(stream.stdout.readline())
    with pytest.raises(pmw.SessionLockedError):
        pmw.resume_session(study)
    killer = threading.Timer(0.3, stream.kill)
    killer.start()
    with pmw.resume_session(study, wait=30) as session:
        assert session.ask(QUESTION).to_dict()["count"] == first["count"]
    joined(killer)


def test_a_lock_file_that_is_deleted_while_it_is_waited_for_is_not_taken_for_the_lock(study: Path) -> None:
    first = SessionLock(study)
    taken: list[SessionLock] = []
    waiting = threading.Thread(target=lambda: taken.append(SessionLock(study, wait=10)))
    waiting.start()
    study.with_name("s.pmw-lock").unlink()
    joined(waiting)  # the deleted lock keeps nobody out; the fence does
    with pytest.raises(pmw.SessionLockedError):
        SessionLock(study)
    first.release()
    with pytest.raises(pmw.SessionLockedError):
        SessionLock(study)
    taken[0].release()
    SessionLock(study).release()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_keep_the_lock_of_its_parent(study: Path) -> None:
    session = pmw.resume_session(study)
    context = multiprocessing.get_context("fork")
    begun, end = context.Event(), context.Event()

    def hold() -> None:
        begun.set()
        assert end.wait(WAIT)

    child = context.Process(target=hold, daemon=True)
    child.start()
    assert begun.wait(WAIT)  # until the child runs, it holds what it was copied from
    session.close()
    pmw.resume_session(study).close()
    end.set()
    joined(child)


def test_threads_take_turns_over_one_session(study: Path) -> None:
    streams = [list(random_conjunctions(PEOPLE.domain, 40, seed=number)) for number in range(4)]
    with pmw.resume_session(study) as session:

        def work(stream: list[LinearQuery]) -> list[float]:
            counts = []
            for place, query in enumerate(stream):
                counts.append(session.ask(query, fresh=True).count)
                if place % 10 == 0:  # what reads goes on beside what writes
                    assert session.status().budget_share <= 1
                    assert session.ledger().share <= 1
                    session.synthetic_records(50)
                    assert "Session" in repr(session)
            return counts

        with ThreadPoolExecutor(4) as pool:
            counts = [count for found in pool.map(work, streams) for count in found]
        assert session.status().queries_answered == len(counts) == 4 * 40
        assert session.verify().holds
    with closing(SessionStore.open(study)) as store:
        assert {row.count for row in store.answers.each()} == set(counts)


def test_closing_in_one_thread_tells_the_others(study: Path) -> None:
    session = pmw.resume_session(study)
    begun = threading.Event()

    def work(seed: int) -> str:
        for query in random_conjunctions(PEOPLE.domain, 10_000, seed=seed):
            try:
                session.ask(query, fresh=True)
            except pmw.SessionError as error:
                return str(error)
            begun.set()
        return "never told"

    with ThreadPoolExecutor(4) as pool:
        told = [pool.submit(work, seed) for seed in range(4)]
        begun.wait(30)
        session.close()
        assert {one.result(WAIT) for one in told} == {"the session was closed; resume it to go on"}
    assert verify_session(study).holds
