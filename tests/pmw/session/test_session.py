"""Sessions: opening, asking, resuming, closing for good, and what they refuse."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.loop.secret import SecretState
from pmw.privacy.budget import Charge
from pmw.privacy.random_bits import repeatable_seed
from pmw.public.answer import Source
from pmw.public.codec import read
from pmw.session.maintenance import is_closed, read_ledger, read_session
from pmw.session.requests import Asked
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore
from queries import (
    CategoricalAttribute,
    Domain,
    LinearQuery,
    QueryError,
)
from queries.parsing import Question, parse_where
from tests.pmw.session.stored import bytes_of, cut_off, kill_at, secrets_of, waiting_of
from tests.waiting import WAIT, joined
from tests.worlds import PEOPLE, WHOLE_YEARS, known

QUESTIONS: list[Asked] = [
    "age BETWEEN 28 AND 39 AND sex = 'Female'",
    {"region": {"in": ["north", "east"]}, "member": {"eq": True}},
    "age >= 40 AND NOT member = TRUE",
    "",
]


def opened(path: Path | None = None, *, epsilon: Any = 1, **options: Any) -> pmw.Session:
    return PEOPLE.opened(path, epsilon=epsilon, test=pmw.TestKind.QUERY, **options)


def test_a_request_keeps_its_answer_and_its_question(tmp_path: Path, repeatable: None) -> None:
    path, again = tmp_path / "study.pmw", "request_id 'one' was used for another question"
    with opened(path, epsilon=5, threshold=1.0) as session:
        first = session.ask(QUESTIONS[2])
        assert session.ask(QUESTIONS[2], request_id="one") == first  # given a stored answer
        version = session.state.version
        session.ask("region = 'south' AND age < 40")
        assert session.state.version == version + 1
        assert session.ask(QUESTIONS[2], fresh=True) != first
        spent = session.status().budget_share
        for fresh in (False, True):
            assert session.ask(QUESTIONS[2], request_id="one", fresh=fresh) == first
        with pytest.raises(QueryError, match=again) as caught:
            session.ask_all([Question(LinearQuery.everything(session.domain), None, "one")])
        assert caught.value.position == "request_id"
        with pytest.raises(QueryError, match="was used for another question"):  # one key in one call
            session.ask_all(
                [Question(parse_where(one, session.domain), request_id="b") for one in ("", "age > 40")]
            )
        assert session.status().budget_share == spent
    with pmw.resume_session(path, PEOPLE.frame) as session:
        assert session.ask(QUESTIONS[2], request_id="one") == first
        assert session.verify().holds


def test_a_durable_session_is_read_while_it_is_in_use_and_goes_on_where_it_was(tmp_path: Path) -> None:
    path, names = tmp_path / "study.pmw", PEOPLE.domain.names
    with opened(path, threshold=5.0, update_limit=6) as session:
        answers = session.ask_all(QUESTIONS)
        status, model = session.status(), session.state.model.marginal(names)
        state, told = read_session(path)
        assert told == status
        assert state.model.marginal(names) == pytest.approx(model, rel=1e-6)
        with pytest.raises(pmw.SessionLockedError):
            pmw.resume_session(path, PEOPLE.frame)
    with pmw.resume_session(path, PEOPLE.frame) as again:
        assert again.status() == status
        assert again.state.model.marginal(names) == pytest.approx(model, rel=1e-9)
        told_again = zip(again.ask_all(QUESTIONS), answers, strict=True)
        assert all(replace(one, spent=answer.spent) == answer for one, answer in told_again)
        assert again.state.round_open == session.state.round_open
        more = again.ask("region = 'south' AND age < 40 AND sex = 'Male'")
        assert more.spent.share >= status.budget_share


def test_what_cannot_be_opened_leaves_no_file_and_repeatable_noise_announces_itself(tmp_path: Path) -> None:
    refused: tuple[dict[str, Any], ...] = ({"seed": 7}, {"epsilon": 0}, {"delta": 1}, {"epsilon": "x"})
    told = ("never uses repeatable noise", "epsilon > 0", "0 <= delta < 1", "expected a finite number")
    for choices, message in zip(refused, told, strict=True):
        with pytest.raises((pmw.NoiseError, pmw.BudgetError), match=message):
            opened(tmp_path / "s.pmw", **choices)
        assert list(tmp_path.iterdir()) == []
    with opened(seed=7) as session:
        assert session.ask("").to_dict()["seeded"] is True
        assert session.status().to_dict()["seeded"] is True
        manifest = session.export(tmp_path / "rows.csv")
    assert manifest["seeded"] is True
    assert manifest["guarantee"].startswith("none: the noise of this session is seeded")


def replaced(table: Any, *attributes: Any) -> pmw.Session:
    """Open a session that protects a replaced record."""
    options = pmw.Options(test=pmw.TestKind.QUERY, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE)
    return pmw.open_session(table, Domain(attributes), epsilon=1, options=options)


def test_replace_one_needs_both_cells_of_every_attribute() -> None:
    whole = list(WHOLE_YEARS.domain)[:3]
    with replaced(PEOPLE.frame, *whole) as session:
        assert session.state.total.estimate == len(PEOPLE.frame)
    for place, missing, other in ((0, True, False), (0, False, True), (2, False, False)):
        attributes = list(whole)
        attributes[place] = replace(whole[place], missing=missing, other=other)
        with pytest.raises(pmw.BudgetError, match=f"attribute '{whole[place].name}' drops records"):
            replaced(PEOPLE.frame, *attributes)


def test_under_replace_one_no_record_changes_the_public_total(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    hostile = (b"", b"\r", b"1,2,3", b'"open', b"\xff\xfe", b"0" * 2**20, b"30,Male\r31,Male", b'"a""')
    for record in (b"30,Female", *hostile):
        path.write_bytes(b"age,sex\n" + b"40,Male\n" * 20 + record + b"\n" + b"40,Male\n" * 20)
        with replaced(path, *list(WHOLE_YEARS.domain)[:2]) as session:
            assert session.state.total.estimate == 41, record[:9]


def test_a_bad_question_among_good_ones_costs_nothing() -> None:
    with opened(seed=7) as session:
        before = session.status()
        with pytest.raises(QueryError, match="unknown attribute 'agee'"):
            session.ask_all([QUESTIONS[0], "agee > 3"])
        assert session.status() == before
        other = Domain((CategoricalAttribute("sex", ("Female",)),))
        with pytest.raises(QueryError, match="made for another domain"):
            session.ask(LinearQuery.everything(other))


TAKEN = "taken.html"  # a file that is in the working folder already, and not to be overwritten
USES: dict[str, Callable[[pmw.Session], object]] = {
    "ask": lambda session: session.ask("sex = 'Male'"),
    "ask_all": lambda session: session.ask_all(["sex = 'Male'"]),
    "ask_all of nothing": lambda session: session.ask_all([]),
    "sql": lambda session: session.sql("SELECT sex, COUNT(*) FROM people GROUP BY sex"),
    "group_by": lambda session: session.group_by("sex"),
    "status": lambda session: session.status(),
    "ledger": lambda session: session.ledger(),
    "verify": lambda session: session.verify(),
    "report": lambda session: session.report("report.html"),
    "report to a file that is taken": lambda session: session.report(TAKEN),
    "plot": lambda session: session.plot(),
    "plot to a file that is taken": lambda session: session.plot(TAKEN),
    "model to a file that is taken": lambda session: session.export(TAKEN, format="model"),
    "questions of a file that is absent": lambda session: session.ask_all(Path("absent")),
    "seal": lambda session: session.finalize(),
}


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder where the files that are to be written are there already."""
    monkeypatch.chdir(tmp_path)
    for name in ("report.html", TAKEN):
        Path(name).write_text("of before")


@pytest.mark.usefixtures("taken")
def test_a_closed_session_is_told_so_before_a_path_is_looked_at() -> None:
    session = opened(seed=7)
    session.close()
    session.close()
    for use in USES.values():
        with pytest.raises(pmw.SessionError, match="the session was closed; resume it to go on"):
            use(session)


def _use_in_child(session: pmw.Session, results: multiprocessing.Queue[tuple[str, str]]) -> None:
    for name, use in USES.items():
        try:
            use(session)
            results.put((name, "done"))
        except pmw.SessionError as error:
            results.put((name, str(error)))
    session.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("taken")
def test_a_forked_process_can_do_nothing_with_the_session(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with opened(tmp_path / "s.pmw") as session:
        results: multiprocessing.Queue[tuple[str, str]] = context.Queue()
        child = context.Process(target=_use_in_child, args=(session, results), daemon=True)
        child.start()
        joined(child)
        told = dict(results.get(timeout=WAIT) for _ in USES)
        refusal = "a session cannot be used in a forked process; resume it there instead"
        assert told == dict.fromkeys(USES, refusal)
        assert session.ask("sex = 'Male'").count > 0
        with pytest.raises(pmw.SessionLockedError):
            pmw.resume_session(tmp_path / "s.pmw")


def test_reprs_show_public_facts_alone_and_no_session_can_be_copied_or_pickled() -> None:
    # Seeded, since a released number may hold the digits of a secret one by chance.
    with opened(seed=7) as session:
        session.ask(QUESTIONS[0])
        text = repr(session)
        assert text.startswith("Session('people', 240 cells, epsilon=1, delta=1e-09, spent ")
        secret = session._engine._secret
        upper = known(secret.thresholds[0]).upper
        for shown in (text, repr(session.state), repr(session.status()), repr(secret), repr(session._engine)):
            assert str(upper) not in shown
            assert str(len(PEOPLE.frame)) not in shown
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(pmw.PMWError, match="cannot be copied"):
                attempt(session)


COVERED = "age >= 40"
WRONG = "age >= 40 AND NOT member = TRUE"  # the opening's model is far off: a positive
OTHER = "region = 'south' AND age < 40 AND sex = 'Male'"
ZCDP = pmw.Options(test=pmw.TestKind.QUERY, threshold=20.0, update_limit=8, composition=pmw.Composition.ZCDP)


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Note the bytes of every intent; they are the same in every run."""
    noted: list[bytes] = []

    def note() -> bytes:
        noted.append(repeatable_seed(1, len(noted)))
        return noted[-1]

    monkeypatch.setattr("pmw.session.journal.fresh_seed", note)
    return noted


@pytest.fixture
def asked_study(tmp_path: Path, seeds: list[bytes]) -> Path:
    """Open a session over a file, ask it two questions and return its path."""
    data, path = tmp_path / "people.csv", tmp_path / "study.pmw"
    PEOPLE.frame.to_csv(data, index=False)
    with pmw.open_session(data, PEOPLE.domain, epsilon=2, delta=1e-9, path=path, options=ZCDP) as session:
        assert session.ask(WRONG).source is Source.MEASURED
        session.ask("sex = 'Male' AND region = 'north'")
        assert len(seeds) >= 2
    return path


def interrupt(path: Path) -> bytes:
    """Leave a batch that was recorded and could not be finished; return its bytes."""
    with pmw.resume_session(path) as session, cut_off():
        session.ask(OTHER)
    return waiting_of(path).seed


def test_a_sealed_session_answers_without_its_table_and_spends_nothing(asked_study: Path) -> None:
    with pmw.resume_session(asked_study) as session:
        first = session.ask(WRONG)
        spent = session.ledger()
        session.finalize()
        assert session.ask(WRONG) == first
    (asked_study.parent / "people.csv").unlink()
    with pmw.resume_session(asked_study) as session:
        assert session.ask(WRONG) == first
        covered = session.ask(COVERED)
        assert (covered.source, covered.interval is None) == (Source.SYNTHETIC, False)
        other = session.ask(OTHER)
        assert other.source is Source.EXHAUSTED
        assert session.ask(WRONG, fresh=True) == first  # the model is the same
        assert session.ledger() == spent
        assert session.status().closed
        assert len(session.synthetic_records(20)) == 20
        session.export(asked_study.parent / "rows.csv")
    assert pmw.verify_session(asked_study).holds
    assert is_closed(asked_study)


def test_a_session_in_memory_is_sealed_alike() -> None:
    with PEOPLE.opened(test=pmw.TestKind.QUERY, seed=7, threshold=20.0, update_limit=8) as session:
        first = session.ask(WRONG)
        assert session.status().to_dict()["closed"] is False
        session.finalize()
        session.finalize()
        assert session.ask(WRONG) == first
        assert session.ask(OTHER).source is Source.EXHAUSTED
        engine = session._engine  # which lets go of the table, and of threshold noise
        assert [engine._data, engine._source, engine._coarse_source] == [None] * 3
        assert engine._secret == SecretState.closed(len(session.state.plan))
        assert session.status().to_dict()["closed"] is True
        assert session.verify().holds


def test_nothing_secret_is_left_in_the_file_or_its_log(asked_study: Path, seeds: list[bytes]) -> None:
    with pmw.resume_session(asked_study) as session:
        for age in range(24, 60, 4):  # where cells begin: other questions are not tested
            if session.state.round_open:
                break
            session.ask(f"region = 'west' AND age >= {age}")
        assert session.state.round_open
        secrets, before = secrets_of(asked_study), bytes_of(asked_study)
        assert set(secrets) == {"fingerprint", "fingerprint_key", "threshold 0"}
        assert all(secret in before for secret in secrets.values())
        assert seeds[-1] not in before  # the bytes of a batch are gone before its answers are given
        session.finalize()
        assert session.state.rounds == (False,)
        while_open = bytes_of(asked_study)
    for text in (while_open, bytes_of(asked_study)):
        assert not any(secret in text for secret in (*secrets.values(), *seeds))
    assert secrets_of(asked_study) == {}


def test_a_batch_that_was_interrupted_is_finished_before_closing(asked_study: Path) -> None:
    seed = interrupt(asked_study)
    asked = read_session(asked_study)[1].queries_answered
    status = pmw.finalize_session(asked_study, abandon=True)  # what can be finished is never given up
    assert status.closed
    assert status.queries_answered == asked + 1
    assert not any(line.event == "abandoned batch" for line in read_ledger(asked_study).lines)
    assert seed not in bytes_of(asked_study)
    assert pmw.verify_session(asked_study).holds


@pytest.mark.parametrize("fault", ["the table is gone", "the table differs"])
def test_a_batch_whose_table_cannot_be_read_is_charged_whole_and_never_released(
    asked_study: Path, fault: str
) -> None:
    seed, pending, before = interrupt(asked_study), waiting_of(asked_study), read_ledger(asked_study)
    with closing(SessionStore.open(asked_study)) as store:
        answers, measurements = list(store.answers.each()), store.chained().measurements
    (asked_study.parent / "people.csv").unlink()
    if fault == "the table differs":
        PEOPLE.frame.iloc[5:].to_csv(asked_study.parent / "people.csv", index=False)
    unchanged = bytes_of(asked_study)
    with pytest.raises(pmw.SessionError, match=r"waits to be finished, and cannot be: .* --abandon"):
        pmw.finalize_session(asked_study)
    assert (bytes_of(asked_study), is_closed(asked_study)) == (unchanged, False)
    status = pmw.finalize_session(asked_study, abandon=True)
    ledger = read_ledger(asked_study)
    assert ledger.lines[:-1] == before.lines
    last = ledger.lines[-1]
    with pmw.resume_session(asked_study) as session:
        state = session.state
        assert state.query_plan is not None
        opening, positive = state.query_plan.vector.charges(state.ledger.composition)
        reserved = read(Charge, json.loads(pending.proposal)["reserved"])
        assert reserved in (positive, opening + positive)  # the measurement is in it
        assert (last.event, last.price) == ("abandoned batch", state.ledger.price(reserved))
        assert session.ask(OTHER).source is Source.EXHAUSTED
    with closing(SessionStore.open(asked_study)) as store:
        assert list(store.answers.each())[:-1] == answers
        assert store.chained().measurements == measurements
    assert status.budget_share == ledger.share > before.share
    assert seed not in bytes_of(asked_study)
    assert pmw.verify_session(asked_study).holds


def test_an_opening_that_cannot_be_finished_leaves_nothing_to_close(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with cut_off():
        PEOPLE.opened(path, epsilon=1, delta=0)
    with pytest.raises(pmw.SessionError, match="nothing was ever released from it"):
        pmw.finalize_session(path)
    assert not is_closed(path)
    assert pmw.finalize_session(path, PEOPLE.frame).closed
    assert pmw.verify_session(path).holds


@pytest.mark.parametrize("table", ["there", "gone"])
@pytest.mark.parametrize("place", ["_insert", "scrub"])
def test_a_closing_that_is_killed_happened_whole_or_not_at_all(
    asked_study: Path, place: str, table: str
) -> None:
    def half_written(insert: Callable[..., None], store: SessionStore, intent: int, outcome: Outcome) -> bool:
        insert(store, intent, outcome)
        if "closed" not in outcome.meta:
            return True
        store._connection.execute("DELETE FROM secrets")
        return False

    def close() -> None:
        pmw.finalize_session(asked_study, abandon=True)

    seed = interrupt(asked_study)
    if table == "gone":
        (asked_study.parent / "people.csv").rename(asked_study.parent / "away.csv")
    secrets, before = secrets_of(asked_study), read_ledger(asked_study)
    if place == "_insert":  # inside the transaction
        kill_at(place, close, before=half_written)
        assert not is_closed(asked_study)
        assert {"fingerprint", "fingerprint_key"} <= set(secrets_of(asked_study))
        assert read_ledger(asked_study) == before or table == "there"
        # What could be finished was, in a commit of its own.
        assert pmw.verify_session(asked_study).unfinished == (table == "gone")
    else:  # after it
        kill_at(place, close)
        assert is_closed(asked_study)
        assert secrets_of(asked_study) == {}
    assert pmw.verify_session(asked_study).holds
    assert pmw.finalize_session(asked_study, abandon=True).closed
    assert pmw.verify_session(asked_study).holds
    events = [line.event for line in read_ledger(asked_study).lines]
    assert events.count("abandoned batch") == (table == "gone")
    wiped = [seed, *secrets.values()]
    assert not any(secret in bytes_of(asked_study) for secret in wiped)
