"""One suite over the kinds of session: in a file, an analyst's, a service's, and a model handed out.

All have the same methods and give the same results; what one may not do it refuses.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.errors import ReleaseError, ServiceError, SessionError
from pmw.public.answer import Answer
from pmw.public.free_answers import ModelAnswers
from pmw.public.tables import AnswerTable
from pmw.service.users import Role, User, UsersFile
from pmw.session.asking import Asking
from pmw.session.exact import TYPES, exact_text, read_exact
from pmw.session.session_requests import Kinds, MeasurementRequest, SessionRequest
from queries import Domain, IntegerAttribute
from queries.parsing import parse_sql, parse_where
from queries.workloads import parse_workload
from tests import worlds
from tests.pmw.service.studies import opened_study, served, serving

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")


from pmw.service.hosting import Hosted, Service

KINDS = ("session", "analyst", "served", "model")
GROUPS = "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex"
ROLES = (pmw.Session, pmw.Analyst, pmw.RemoteSession, pmw.PublicModel)
SURFACE = [name for name in dir(Asking) if not name.startswith("_")]
SERVICE = {
    "asked_texts",
    "charged",
    "look",
    "place",
    "require_keys",
    "stored",
}  # what the service uses besides
BESIDES: dict[type, set[str]] = {
    pmw.Session: SERVICE | {"csv_parts", "facts", "finish_for", "state"},  # two of them for synthetic tables
    pmw.Analyst: SERVICE | {"csv_parts", "most", "name", "share", "state"},
    pmw.RemoteSession: {"name"},
    pmw.PublicModel: {"csv_parts", "place", "state"},
}


class Together:
    """One session in a file, an analyst of it, a service over it, and its model."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.path, self.users = opened_study(folder), UsersFile(folder / "users.json")
        self.token = self.users.add(User("ann", Role.CUSTODIAN, Fraction(1)))
        session = held.enter_context(pmw.resume_session(self.path))
        session.ask("sex = 'Male' AND age < 50", at_most=1)
        session.export(folder / "study.model")
        service = Service([Hosted("study", session, self.path)], self.users)
        held.callback(service.history.close)
        self.url = held.enter_context(serving(service))
        remote = held.enter_context(pmw.connect(self.url, token=self.token))
        model = pmw.load_model(folder / "study.model")
        self.all: dict[str, Any] = {
            "session": session, "analyst": session.analyst("ann", 1), "served": remote, "model": model,
        }  # fmt: skip

    def told(self, kind: str, call: Callable[[Any], Any]) -> tuple[str, str]:
        """Return all digits of what a kind of session gives or refuses, and its words, wherever it lies."""
        try:
            found = call(self.all[kind])
        except pmw.PMWError as error:
            return type(error).__name__, str(error)
        if isinstance(found, AnswerTable):
            words = found.to_text().replace(f"{self.url}/sessions/study", str(self.path))
            return repr((found.keys, found.titles, found.rows, found.spent)), words
        if isinstance(found, pd.DataFrame):
            return found.to_csv(), ""
        return repr([*found] if isinstance(found, pmw.Answers) else found), ""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    with ExitStack() as held:
        yield Together(tmp_path_factory.mktemp("alike"), held)


# --- methods ----------------------------------------------------------------------------------------------


def test_whoever_asks_has_each_method_with_one_signature_and_none_that_is_not_listed_here() -> None:
    for name in SURFACE:
        found = [inspect.getattr_static(kind, name) for kind in (Asking, *ROLES)]
        assert len({type(one) for one in found[1:]}) == 1 or name == "progress"
        if inspect.isfunction(found[0]):
            own = [inspect.signature(one).parameters.values() for one in found]
            assert len({tuple((one.name, one.kind, one.default) for one in each) for each in own}) == 1, name
    for role, besides in BESIDES.items():
        assert {name for name in dir(role) if not name.startswith("_")} - set(SURFACE) == besides


CUSTODIANS: dict[str, Callable[[Any, Path], object]] = {
    "ask as somebody else": lambda one, _: one.analyst("bob"),
    "see what others were charged": lambda one, _: one.bookings(),
    "have the table read": lambda one, _: one.read_table(),
    "verify the session's file": lambda one, _: one.verify(),
    "see the budget over time": lambda one, folder: one.plot(folder / "a.png"),
    "write a report on everybody's questions": lambda one, folder: one.report(folder / "a.html"),
    "spend what is left and close the session": lambda one, _: one.finish(),
    "close the session for good": lambda one, _: one.finalize(),
}
MEASURES: dict[str, Callable[[Any, Path], object]] = {
    "a table": lambda one, _: one.measure(["sex", "member"]),
    "sums": lambda one, _: one.measure_sum("age"),
    "a bar": lambda one, _: one.ask_within("sex = 'Male' AND member = TRUE", 20),
    "bars of a statement": lambda one, _: one.sql_within("SELECT AVG(age) FROM people", 0.2),
}
WHO = {
    "analyst": ("an analyst", "the custodian may, on the session itself or by the pmw command"),
    "served": ("a user of a service", "the custodian may, by the pmw command, where the file lies"),
    "model": ("a model file", "the session itself may"),
}
REFUSED = [
    *((kind, what, act, WHO[kind][1]) for kind in WHO for what, act in CUSTODIANS.items()),
    *(("model", "measure anything", act, WHO["model"][1]) for act in MEASURES.values()),
    (
        "model",
        "list the charges",
        lambda one, _: one.ledger(),
        "it holds their sum alone, which status() tells; ask the session itself",
    ),
    *(
        ("served", what, act, "model() gives the model, which may")
        for what, act in {
            "refine the model": lambda one, _: one.synthetic_records(5, refine=True),
            "export measurements or a refined model": lambda one, folder: one.export(
                folder / "a.json", format="measurements"
            ),
        }.items()
    ),
]


@pytest.mark.parametrize(("kind", "what", "act", "who"), REFUSED)
def test_what_a_role_may_not_do_is_refused_with_who_may(
    kind: str, what: str, act: Callable[[Any, Path], object], who: str, kinds: Together, tmp_path: Path
) -> None:
    session = kinds.all[kind]
    before = session.status()
    with pytest.raises(SessionError) as refused:
        act(session, tmp_path)
    assert str(refused.value) == f"{WHO[kind][0]} may not {what}: {who}"
    assert session.status() == before
    assert not list(tmp_path.iterdir())


def test_an_analyst_sees_no_other_name_in_the_history(tmp_path: Path) -> None:
    with pmw.resume_session(opened_study(tmp_path)) as session:
        ann, bea = session.analyst("ann"), session.analyst("bea")
        for one in (ann, bea):
            one.ask("age >= 30")
        assert [line.name for line in bea.history()] == ["bea"]
        assert {line.name for line in session.history()} == {"ann"}  # who asked it first


# --- results ----------------------------------------------------------------------------------------------


FREE: dict[str, Callable[[Any], Any]] = {  # of whichever kind it is asked
    "a condition": lambda one: one.ask("age >= 30", at_most=0),
    "an object": lambda one: one.ask({"sex": {"eq": "Male"}}, at_most=0),
    "a condition that was read": lambda one: one.ask(one.reader.where("age BETWEEN 30 AND 39"), at_most=0),
    "what was paid for": lambda one: one.ask("sex = 'Male' AND age < 50"),
    "what is not known": lambda one: one.ask("age >= 30 AND sex = 'Male' AND region = 'north'", at_most=0),
    "several": lambda one: one.ask_all(["age >= 30", {"sex": {"eq": "Male"}}, "age >= 30"], at_most=0),
    "none": lambda one: one.ask_all([]),
    "a frame": lambda one: one.ask_all(pd.DataFrame({"where": ["age >= 30"]}), at_most=0),
    "a workload": lambda one: one.ask_all(parse_workload("marginals:sex,member", one.domain), at_most=0),
    "an array": lambda one: one.answer_arrays("age", [0, 3], [5, 9], at_most=0),
    "an array of ends": lambda one: one.answer_arrays(["age"], np.array([[0]]), np.array([[5]]), at_most=0),
    "a statement": lambda one: one.sql(GROUPS, at_most=0),
    "a statement that was read": lambda one: one.tabulate(parse_sql(GROUPS, one.domain), at_most=0),
    "totals": lambda one: one.sql("SELECT sex, COUNT(*) FROM people GROUP BY ROLLUP(sex)", at_most=0),
    "groups": lambda one: one.group_by("age", "sex = 'Male'", at_most=0),
    "a mean": lambda one: one.mean("age", {"region": {"eq": "north"}}, at_most=0),
    "a sum": lambda one: one.sum("age", at_most=0),
    "quantiles": lambda one: one.quantile("age", 0.9, by="sex", at_most=0),
    "a bar that suffices": lambda one: one.ask_within("age >= 30", 5000),
    "intervals of a population": lambda one: one.population_intervals(["age >= 30", "region = 'north'"]),
    "the price of counts": lambda one: one.measure(["region", "sex"], dry_run=True),
    "the price of sums": lambda one: one.measure_sum("age", "sex", share="0.02", dry_run=True),
    "the price of a bar": lambda one: one.quote("sex = 'Male' AND region = 'north'", 40),
    "the price of a mean": lambda one: one.quote_aggregate("SELECT AVG(age) FROM people", 0.5),
    "rows": lambda one: one.synthetic_records(50, seed=1, where="age >= 40 AND sex = 'Male'"),
    "the schema": lambda one: json.loads(json.dumps(one.schema())),
    "the domain": lambda one: one.domain,
    "an unknown attribute": lambda one: one.ask("height > 3"),
    "one in an object": lambda one: one.ask({"height": {"gt": 3}}),
    "one among several": lambda one: one.ask_all(["age >= 30", "height > 3"]),
    "no condition": lambda one: one.ask("age >="),
    "a value of another kind": lambda one: one.ask("age = 'x'"),
    "no statement": lambda one: one.sql("SELECT height FROM people"),
    "the mean of texts": lambda one: one.mean("sex"),
    "no part": lambda one: one.quantile("age", 90),
    "no group": lambda one: one.group_by("height"),
    "a bar that cannot be": lambda one: one.quote("sex = 'Male' AND region = 'north'", 1e-9),
    "persons": lambda one: one.measure_heads(dry_run=True),
}
OF_A_SESSION: dict[str, Callable[[Any], Any]] = {  # which a model tells in a way of its own, or not at all
    "no key": lambda one: one.measure("sex", request_id=5),
    "more of several": lambda one: one.ask_all(["sex = 'Female' AND region = 'south'"], at_most=1e-6),
    "more of an array": lambda one: one.answer_arrays(["sex", "region"], [[0, 1]], [[0, 1]], at_most=1e-6),
    "more of a statement": lambda one: one.sql(
        "SELECT region, sex, COUNT(*) FROM people GROUP BY ALL", at_most=1e-6
    ),
}


@pytest.mark.parametrize("what", [*FREE, *OF_A_SESSION])
def test_all_kinds_give_the_same_to_the_last_digit_and_charge_nothing(what: str, kinds: Together) -> None:
    before, call = kinds.all["session"].status().budget_share, {**FREE, **OF_A_SESSION}[what]
    told = {kind: kinds.told(kind, call) for kind in kinds.all}
    assert told["session"] == told["analyst"] == told["served"]
    assert str(kinds.path) not in str(told["model"])
    if what in FREE:
        assert told["model"][0] == told["session"][0]
    assert kinds.all["session"].status().budget_share == before


def test_a_budget_is_that_of_whoever_asks(kinds: Together) -> None:
    session, model = kinds.all["session"], kinds.all["model"]
    own, spent = session.budget(), session.state.ledger
    assert (own.name, own.share, own.spent) == ("", None, spent.spent / spent.cap)
    assert own.left == 1 - own.spent
    assert kinds.all["served"].budget().name == kinds.all["analyst"].budget().name == "ann"
    assert model.budget().spent == model.state.ledger.spent / model.state.ledger.cap
    assert (model.budget().left, model.budget().questions) == (0, model.status().queries_answered)
    assert (model.history(), model.asked()) == ((), ())
    assert model.forecast("age >= 44").most == 0


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_delivered_listed_and_shown_in_a_notebook(
    kind: str, kinds: Together, tmp_path: Path
) -> None:
    session, delivered = kinds.all[kind], list[pmw.Answer]()
    path = tmp_path / "questions.jsonl"
    path.write_text('{"where": "age >= 30"}\n{"where": {"sex": {"eq": "Male"}}}\n')
    answers = session.ask_all(path, deliver=delivered.extend)
    assert tuple(delivered) == tuple(answers)
    assert list(answers.to_pandas()["question"]) == list(answers.labels())
    if kind != "model":
        assert session.history(1)[0].query in [one.to_json() for one in session.asked()]
    for shown in (session, session.status(), answers[0], session.sql(GROUPS, at_most=0)):
        text = shown._repr_html_()
        assert "<" in text
        assert "http" not in text.replace("http://127.0.0.1", "").replace("http://www.w3.org", "")


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_published_is_written_once(kind: str, kinds: Together, tmp_path: Path) -> None:
    session = kinds.all[kind]
    form = session.export(tmp_path / "rows.csv", pmw.RowPlan(50, independent=True, seed=2))
    assert form["format"] == "csv"
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 50
    with pytest.raises(ReleaseError, match="exists"):
        session.export(tmp_path / "rows.csv", pmw.RowPlan(50))
    session.export(tmp_path / "rows.csv", pmw.RowPlan(60), force=True)
    session.export(tmp_path / "a.model")
    assert session.model().ask("age >= 30") == pmw.load_model(tmp_path / "a.model").ask("age >= 30")
    with pytest.raises(ReleaseError, match="a model is written as it is"):
        session.export(tmp_path / "b.model", pmw.RowPlan(5))


def test_a_closed_session_tells_so_and_what_holds_no_file_asks_on(tmp_path: Path) -> None:
    path, users = opened_study(tmp_path), UsersFile(tmp_path / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    with pmw.resume_session(path) as session:
        session.export(tmp_path / "a.model")
    with pytest.raises(SessionError, match="closed"):
        session.ask("age >= 30")
    with pmw.load_model(tmp_path / "a.model") as model:
        pass
    assert model.ask("age >= 30").count > 0
    with served(path, users) as url:
        with pmw.connect(url, token=token) as remote:
            pass
        assert remote.ask("age >= 30").count > 0
        assert "study" in repr(remote)
        remote.close()


# --- the same, to the last digit ----------------------------------------------------------------------------


def test_exact_forms_come_back_and_a_changed_one_is_refused(kinds: Together) -> None:
    session = kinds.all["session"]
    values: Sequence[Any] = (
        session.ask_all(["age >= 30"]),
        session.sql(GROUPS),
        session.status(),
        session.ledger(),
        session.explain(GROUPS),
        session.measure("sex", dry_run=True),
        session.measure_sum("age", dry_run=True),
        session.analyst("bob").budget(),
    )
    assert {type(one) for one in values} - {AnswerTable} <= set(TYPES)
    for value in values:
        text = exact_text(value)
        again = read_exact(type(value), text)
        assert exact_text(again) == text
        form = json.loads(text)
        for key in form:
            others: list[Any] = [None, "x", [], {}, 2.5, [["x"]]]
            for other in others:
                changed = {**form, key: other}
                try:
                    read_exact(type(value), json.dumps(changed))
                except pmw.PMWError as error:  # a value that cannot be
                    pytest.fail(f"{key}: {error}")
                except ValueError:
                    continue
        with pytest.raises(ValueError, match="a key that is not known"):
            read_exact(type(value), json.dumps({**form, "more": 1}))


def test_a_service_of_another_version_is_told_apart(kinds: Together, monkeypatch: pytest.MonkeyPatch) -> None:
    remote, kind = kinds.all["served"], "application/vnd.online-pmw.exact+json"
    for named, content in (
        *((kind, one) for one in (b"{}", b"", b"[1]", b"\xff")),
        ("application/json", b"{}"),
    ):
        sent = type("R", (), {"kind": named, "content": content})
        monkeypatch.setattr(remote._connection, "sent", lambda *_, sent=sent, **__: sent)
        for asked in (remote.status, remote.ledger):
            with pytest.raises(ServiceError, match="another version"):
                asked()


def test_what_lies_beside_the_model_is_answered_alike_whichever_is_asked_first(tmp_path: Path) -> None:
    generator = np.random.default_rng(7)
    columns = {"a": generator.integers(0, 12, 5_000)}
    for name, before in zip("bcde", "abcd", strict=True):
        columns[name] = (columns[before] + generator.binomial(2, 0.4, 5_000)) % 12
    pd.DataFrame(columns).to_csv(tmp_path / "wide.csv", index=False)
    domain = Domain(tuple(IntegerAttribute(name, 0, 11) for name in columns), name="wide")
    options, path = pmw.Options(max_cells=2_000), tmp_path / "wide.pmw"
    users = UsersFile(tmp_path / "users.json")
    token = users.add(User("ann", Role.CUSTODIAN, Fraction(1)))
    asked = [f"{x} < {k} AND {y} >= {k} AND {z} <> 3" for k in (4, 7) for x, y, z in ("ace", "bde", "abe")]
    with pmw.open_session(
        tmp_path / "wide.csv", domain, epsilon=1, delta=1e-9, path=path, options=options
    ) as session:
        assert session.state.beside
    with served(path, users) as address, pmw.connect(f"{address}/sessions/wide", token=token) as remote:
        told = [remote.ask(where, at_most=0) for where in asked]
    with pmw.resume_session(path) as session:
        answers = ModelAnswers(session.state)
        found = [answers.answer(parse_where(where, domain)) for where in reversed(asked)]
    assert [(one.count, one.interval) for one in reversed(found)] == [
        (one.count, one.interval) for one in told
    ]


# --- Requests are data: a session of a service answers any of them as a session of this process, to the b ---


NAMES = ("age", "sex", "region", "member", "height")
QUESTIONS = st.one_of(
    st.sampled_from(["", "age >=", "age = 'x'", "height > 3", {"height": {"gt": 3}}]),
    st.builds("age BETWEEN {} AND {}".format, st.integers(18, 60), st.integers(50, 90)),
    st.builds("sex = 'Male' AND age < {} AND member = TRUE".format, st.integers(17, 91)),
    st.builds(lambda region: {"region": {"eq": region}}, st.sampled_from(["north", "south", "nowhere"])),
)
STATEMENTS = st.sampled_from(
    [
        "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex",
        "SELECT COUNT(*) FROM people WHERE region = 'north'",
        "SELECT SUM(age) FROM people WHERE member",
        "SELECT region, COUNT(*) FROM people GROUP BY ROLLUP(region)",
        "SELECT height FROM people",
        "SELECT FROM",
    ]
)
WIDTHS = st.sampled_from([5000, 300, 60.5, "1%", "50%", 1e-9])
PARTS = st.sampled_from([None, 0, 1e-6, 0.01, Fraction(1, 3), 1])
KEYS = st.sampled_from([None, None, "one", "two"])
BY = st.sampled_from(
    [(), ("age",), ("sex",), ("height",), ("region", "sex"), ("sex", "sex"), ("member", "age")]
)
MEASURED = st.one_of(
    st.builds(MeasurementRequest, st.just("counts"), BY),
    st.builds(
        MeasurementRequest,
        st.just("sums"),
        BY,
        st.sampled_from([None, 0.01]),
        summed=st.sampled_from(NAMES),
    ),
    st.builds(MeasurementRequest, st.just("persons"), BY),
)
PAID: dict[str, Any] = {"request_id": KEYS, "at_most": PARTS}
REQUESTS = st.one_of(
    st.builds(SessionRequest, st.just(Kinds.ASK), QUESTIONS, fresh=st.booleans(), **PAID),
    st.builds(SessionRequest, st.just(Kinds.SQL), STATEMENTS, fresh=st.booleans(), at_most=PARTS),
    st.builds(
        SessionRequest, st.sampled_from([Kinds.FORECAST, Kinds.EXPLAIN]), st.one_of(QUESTIONS, STATEMENTS)
    ),
    st.builds(SessionRequest, st.just(Kinds.QUOTE), st.one_of(QUESTIONS, STATEMENTS), within=WIDTHS),
    st.builds(SessionRequest, st.just(Kinds.ASK_WITHIN), QUESTIONS, within=WIDTHS, **PAID),
    st.builds(SessionRequest, st.just(Kinds.SQL_WITHIN), STATEMENTS, within=WIDTHS, **PAID),
    st.builds(SessionRequest, st.just(Kinds.MEASURE), what=MEASURED, dry_run=st.booleans(), **PAID),
    st.builds(SessionRequest, st.just(Kinds.HISTORY), most=st.sampled_from([-1, 0, 1, 5])),
    st.builds(SessionRequest, st.sampled_from([Kinds.STATUS, Kinds.BUDGET, Kinds.LEDGER])),
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pmw.Analyst, pmw.RemoteSession]]:
    users = UsersFile(tmp_path_factory.mktemp("requests") / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    alike: dict[str, Any] = {
        "epsilon": 1,
        "seed": 11,
    }  # two sessions draw the same noise for the same requests
    with worlds.WHOLE_YEARS.opened(**alike) as here, worlds.WHOLE_YEARS.opened(**alike) as there:
        service = Service([Hosted("study", there, users.path)], users)
        with (
            closing(service.history),
            serving(service) as url,
            pmw.connect(url, token=token) as remote,
        ):
            ann = here.analyst("ann", Fraction(1))
            ann.place = f"{url}/sessions/study"  # as commands in notes name it
            yield ann, remote


def outcome(session: Any, request: SessionRequest[Any]) -> str:
    """Return all digits of what comes of a request, or why it is refused."""
    try:
        found = session.do(request)
    except pmw.PMWError as error:
        return f"refused: {error}"
    return repr(found) if isinstance(found, Answer) else exact_text(found)


@settings(max_examples=150)
@given(request=REQUESTS)
def test_a_service_does_any_request_as_its_session_does(
    pair: tuple[pmw.Analyst, pmw.RemoteSession], request: SessionRequest[Any]
) -> None:
    found = [(outcome(one, request), one.budget()) for one in pair]  # both, so that they stay alike
    assert found[0] == found[1]


def test_a_request_with_a_field_that_cannot_be_is_never_made() -> None:
    kinds = (Kinds.QUOTE, Kinds.ASK_WITHIN, Kinds.SQL_WITHIN)
    cases: list[dict[str, Any]] = [
        {"kind": kind, "within": width} for kind in kinds for width in (None, 0, -1, "x")
    ]
    for fields in (*cases, {"kind": Kinds.SQL, "at_most": "x"}):
        with pytest.raises(pmw.PMWError, match="expected a"):
            SessionRequest(**fields)
