"""Sessions: opening, asking, resuming, and what they refuse."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.session.maintenance import read_session
from pmw.session.requests import Asked
from queries import (
    CategoricalAttribute,
    Domain,
    LinearQuery,
    QueryError,
)
from queries.parsing import Question, parse_where
from tests.waiting import WAIT, joined
from tests.worlds import PEOPLE, WHOLE_YEARS

REPLACE = pmw.NeighboringRelation.REPLACE_ONE
QUESTIONS: list[Asked] = [
    "age BETWEEN 28 AND 39 AND sex = 'Female'",
    {"region": {"in": ["north", "east"]}, "member": {"eq": True}},
    "age >= 40 AND NOT member = TRUE",
    "",
]


def opened(path: Path | None = None, *, epsilon: float = 1, **options: Any) -> pmw.Session:
    return PEOPLE.opened(path, epsilon=epsilon, test=pmw.TestKind.QUERY, **options)


def test_a_session_answers_texts_objects_and_queries() -> None:
    frame, query = PEOPLE.frame, LinearQuery.cells(PEOPLE.domain, {"age": (5, 9), "sex": (1, 1)})
    forms: list[Asked] = ["age >= 40 AND sex = 'Male'", {"age": {"ge": 40}, "sex": {"eq": "Male"}}, query]
    with opened(seed=7) as session:
        first, *others = map(session.ask, forms)
    assert others == [first, first]
    assert first.interval is not None
    assert first.interval[0] <= ((frame["age"] >= 40) & (frame["sex"] == "Male")).sum() <= first.interval[1]


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


def test_repeatable_noise_announces_itself_and_is_refused_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(pmw.NoiseError, match="never uses repeatable noise"):
        opened(tmp_path / "s.pmw", seed=7)
    assert list(tmp_path.iterdir()) == []
    with opened(seed=7) as session:
        assert session.ask("").to_dict()["seeded"] is True
        assert session.status().to_dict()["seeded"] is True
        manifest = session.export(tmp_path / "rows.csv")
    assert manifest["seeded"] is True
    assert manifest["guarantee"].startswith("none: the noise of this session is seeded")


def test_noise_repeats_with_its_seed_alone() -> None:
    def run(seed: int | None) -> pmw.Answers:
        with opened(seed=seed, threshold=5.0) as session:
            assert ("seeded" in session.ask("").to_dict()) == (seed is not None)
            return session.ask_all(QUESTIONS)

    assert run(1) == run(1) != run(2)
    assert len({run(None)[0].count for _ in range(5)}) == 5


@pytest.mark.parametrize(("missing", "other"), [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("place", [0, 2])
def test_replace_one_needs_both_cells_of_every_attribute(place: int, missing: bool, other: bool) -> None:
    whole = list(WHOLE_YEARS.domain)[:3]
    options = pmw.Options(test=pmw.TestKind.QUERY, neighboring_relation=REPLACE)
    with pmw.open_session(PEOPLE.frame, Domain(tuple(whole)), epsilon=1, options=options) as session:
        assert session.state.total.estimate == len(PEOPLE.frame)
    name, whole[place] = whole[place].name, replace(whole[place], missing=missing, other=other)
    with pytest.raises(pmw.BudgetError, match=f"attribute '{name}' drops records"):
        pmw.open_session(PEOPLE.frame, Domain(tuple(whole)), epsilon=1, options=options)


HOSTILE_LINES = [
    b"", b"\r", b"x", b"1,2,3", b'"open', b"\xff\xfe", b"0" * 2**20, b"30,Male\r31,Male", b'"a""',
]  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE_LINES, ids=lambda line: repr(line[:9]))
def test_under_replace_one_no_record_changes_the_public_total(tmp_path: Path, line: bytes) -> None:
    domain = Domain(tuple(list(WHOLE_YEARS.domain)[:2]))
    options = pmw.Options(test=pmw.TestKind.QUERY, neighboring_relation=REPLACE)
    path = tmp_path / "people.csv"
    for record in (b"30,Female", line):
        path.write_bytes(b"age,sex\n" + b"40,Male\n" * 20 + record + b"\n" + b"40,Male\n" * 20)
        with pmw.open_session(path, domain, epsilon=1, options=options) as session:
            assert session.state.total.estimate == 41


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [(0, 0, "expected epsilon > 0"), (1, 1, "expected 0 <= delta < 1"), ("x", 0, "expected a finite number")],
)
def test_an_impossible_budget_leaves_no_file(
    tmp_path: Path, epsilon: Any, delta: float, message: str
) -> None:
    with pytest.raises(pmw.BudgetError, match=message):
        opened(tmp_path / "s.pmw", epsilon=epsilon, delta=delta)
    assert list(tmp_path.iterdir()) == []


def test_a_bad_question_among_good_ones_costs_nothing() -> None:
    with opened(seed=7) as session:
        before = session.status()
        with pytest.raises(QueryError, match="unknown attribute 'agee'"):
            session.ask_all([QUESTIONS[0], "agee > 3"])
        assert session.status() == before
        other = Domain((CategoricalAttribute("sex", ("Female",)),))
        with pytest.raises(QueryError, match="made for another domain"):
            session.ask(LinearQuery.everything(other))


def test_a_session_cannot_be_copied_or_pickled() -> None:
    with opened(seed=7) as session:
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(pmw.PMWError, match="cannot be copied"):
                attempt(session)


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


def test_reprs_show_public_facts_alone() -> None:
    # Seeded, since a released number may hold the digits of a secret one by chance.
    with opened(seed=7) as session:
        session.ask(QUESTIONS[0])
        text = repr(session)
        assert text.startswith("Session('people', 240 cells, epsilon=1, delta=1e-09, spent ")
        secret = session._engine._secret
        (noisy,) = secret.thresholds
        assert noisy is not None
        for shown in (text, repr(session.state), repr(session.status()), repr(secret), repr(session._engine)):
            assert str(noisy.upper) not in shown
            assert str(len(PEOPLE.frame)) not in shown
