"""One suite over five kinds of session: opened, resumed, an analyst's, a service's, and a model handed out.

All have the same methods and give the same results; what one may not do it refuses.
"""

from __future__ import annotations

import inspect
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.errors import PriceError, ReleaseError, ServiceError, SessionError
from pmw.public.answer import Answer
from pmw.public.free_answers import ModelAnswers
from pmw.public.tables import AnswerTable
from pmw.service.users import Role, User, UsersFile
from pmw.session.asking import Asking
from pmw.session.exact import TYPES, exact_text, read_exact
from pmw.session.measurement_requests import MeasurementRequest
from pmw.session.session_requests import Kinds, SessionRequest
from queries import Domain, IntegerAttribute, QueryError
from queries.parsing import parse_sql, parse_where
from queries.workloads import parse_workload
from tests import worlds
from tests.pmw.service.studies import opened_study

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

import uvicorn

from pmw.service.app import create_app
from pmw.service.guard import Log
from pmw.service.hosting import Hosted, Service, hosting

Any_: TypeAlias = Any  # of a kind, whose methods are alike
KINDS = ("opened", "resumed", "analyst", "served", "model")
SPENDING = ("opened", "resumed", "analyst", "served")
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


@contextmanager
def served(path: Path, users: UsersFile) -> Iterator[str]:
    """Serve a session in this process, and yield the address."""
    with hosting([path], users) as service, serving(service) as url:
        yield url


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """Serve sessions in this process, and yield the address."""
    config = uvicorn.Config(create_app(service, Log(StringIO())), port=0, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


class Made:
    """The four, made before any test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.held = folder, ExitStack()
        self.users = UsersFile(folder / "users.json")
        self.token = self.users.add(User("ann", Role.CUSTODIAN, Fraction(1)))
        self._made: dict[str, Any_] = {}
        for kind, made in (
            ("resumed", self._resumed),
            ("opened", self._opened),
            ("analyst", self._analyst),
            ("served", self._served),
            ("model", self._model),
        ):
            self._made[kind] = self.held.enter_context(made())

    def of(self, kind: str) -> Any_:
        """Return the session of a kind."""
        return self._made[kind]

    def study(self, kind: str) -> Path:
        folder = self.folder / kind
        folder.mkdir()
        return opened_study(folder)

    def _opened(self) -> pmw.Session:
        domain, options = self.of("resumed").domain, pmw.Options(opening=pmw.Opening.ONE_WAY)
        table = pd.read_csv(self.folder / "resumed" / "people.csv")
        return pmw.open_session(table, domain, epsilon=1, delta=1e-9, options=options)

    def _resumed(self) -> pmw.Session:
        return pmw.resume_session(self.study("resumed"))

    def _analyst(self) -> pmw.Analyst:
        return self.held.enter_context(pmw.resume_session(self.study("analyst"))).analyst("ann", 1)

    def _served(self) -> pmw.RemoteSession:
        url = self.held.enter_context(served(self.study("served"), self.users))
        return pmw.connect(url, token=self.token)

    def _model(self) -> pmw.PublicModel:
        path = self.study("model")
        with pmw.resume_session(path) as session:
            session.ask_all(["age >= 30", "sex = 'Male'"])
            session.export(path.with_suffix(".model"))
        return pmw.load_model(path.with_suffix(".model"))


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    made = Made(tmp_path_factory.mktemp("alike"))
    with made.held:
        yield made


@pytest.fixture(params=KINDS)
def session(kinds: Made, request: pytest.FixtureRequest) -> Any_:
    return kinds.of(request.param)


@pytest.fixture(params=SPENDING)
def spending(kinds: Made, request: pytest.FixtureRequest) -> Any_:
    return kinds.of(request.param)


# --- methods ----------------------------------------------------------------------------------------------


def test_whoever_asks_is_told_the_same_schema(kinds: Made) -> None:
    told = [kinds.of(kind).schema() for kind in KINDS]
    assert [one["name"] for one in told[0]["attributes"]] == list(kinds.of("opened").domain.names)
    for one in told:
        assert json.loads(json.dumps(one)) == one
        for name in ("name", "attributes", "guarantee", "confidence"):
            assert one[name] == told[0][name]


@pytest.mark.parametrize("name", SURFACE)
def test_whoever_asks_has_each_method_with_one_signature(name: str) -> None:
    found = [inspect.getattr_static(kind, name) for kind in (Asking, *ROLES)]
    assert len({type(one) for one in found[1:]}) == 1 or name == "progress"
    if inspect.isfunction(found[0]):
        own = [inspect.signature(one).parameters.values() for one in found]
        assert len({tuple((one.name, one.kind, one.default) for one in each) for each in own}) == 1


@pytest.mark.parametrize(("role", "besides"), BESIDES.items())
def test_nobody_has_other_methods_than_those_listed_here(role: type, besides: set[str]) -> None:
    assert {name for name in dir(role) if not name.startswith("_")} - set(SURFACE) == besides


CUSTODIANS: dict[str, Callable[[Any_, Path], object]] = {
    "ask as somebody else": lambda one, _: one.analyst("bob"),
    "see what others were charged": lambda one, _: one.bookings(),
    "have the table read": lambda one, _: one.read_table(),
    "verify the session's file": lambda one, _: one.verify(),
    "see the budget over time": lambda one, folder: one.plot(folder / "a.png"),
    "write a report on everybody's questions": lambda one, folder: one.report(folder / "a.html"),
    "spend what is left and close the session": lambda one, _: one.finish(),
    "close the session for good": lambda one, _: one.finalize(),
}
MEASURES: dict[str, Callable[[Any_, Path], object]] = {
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
    kind: str, what: str, act: Callable[[Any_, Path], object], who: str, kinds: Made, tmp_path: Path
) -> None:
    session = kinds.of(kind)
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


def test_a_budget_is_that_of_whoever_asks(kinds: Made) -> None:
    session = kinds.of("resumed")
    own, spent = session.budget(), session.state.ledger
    assert (own.name, own.share) == ("", None)
    assert own.spent == spent.spent / spent.cap
    assert own.left == 1 - own.spent
    model = kinds.of("model")
    assert model.budget().spent == model.state.ledger.spent / model.state.ledger.cap
    assert (model.budget().left, model.budget().questions) == (0, model.status().queries_answered)


# --- questions --------------------------------------------------------------------------------------------


def test_the_domain_is_the_declared_one(session: Any_, kinds: Made) -> None:
    assert session.domain == kinds.of("resumed").domain
    assert session.domain["sex"].size == 4


@pytest.mark.parametrize(
    "question", ["age >= 30", {"sex": {"eq": "Male"}}, "", "age BETWEEN 30 AND 39 AND member = TRUE"]
)
def test_one_question_has_one_answer(session: Any_, question: Any) -> None:
    answer = session.ask(question, at_most=1)
    assert isinstance(answer, pmw.Answer)
    assert answer == session.ask_all([question])[0]
    assert answer == session.ask(session.reader.where(question))
    assert answer.count >= 0
    assert "records" in answer.sentence()


def test_many_questions_are_answered_in_order(session: Any_, tmp_path: Path) -> None:
    listed = ["age >= 30", {"sex": {"eq": "Male"}}, "age >= 30"]
    delivered = list[pmw.Answer]()
    answers = session.ask_all(listed, deliver=delivered.extend)
    assert isinstance(answers, pmw.Answers)
    assert tuple(delivered) == tuple(answers)
    assert answers[0] == answers[2]
    assert answers.labels()[1] == "sex Male"
    assert list(answers.to_pandas()["question"]) == list(answers.labels())
    path = tmp_path / "questions.jsonl"
    path.write_text('{"where": "age >= 30"}\n{"where": {"sex": {"eq": "Male"}}}\n')
    assert session.ask_all(path) == answers[:2]
    assert session.ask_all(pd.DataFrame({"where": ["age >= 30"]})) == answers[:1]
    assert len(session.ask_all([])) == 0


def test_workloads_and_arrays(session: Any_) -> None:
    found = session.ask_all(parse_workload("marginals:sex,member", session.domain), at_most=1)
    assert len(found) == 16
    arrays = session.answer_arrays("age", [0, 3], [5, 9])
    assert arrays.count.shape == (2,)
    assert arrays == session.answer_arrays(["age"], np.array([[0], [3]]), np.array([[5], [9]]))
    assert len(session.answer_arrays("age", np.zeros(0, int), np.zeros(0, int))) == 0


def test_statements_have_tables(session: Any_) -> None:
    session.sql(GROUPS, at_most=1)  # may charge, and says so once
    table = session.sql(GROUPS, at_most=0)
    assert isinstance(table, AnswerTable)
    assert (table.keys, table.titles, len(table)) == (("sex",), ("n", "mean"), 4)
    again = session.tabulate(parse_sql(GROUPS, session.domain))
    assert again.to_dict() == table.to_dict()
    assert again.to_text() == table.to_text()
    assert "<svg" in table._repr_html_() or "<table" in table._repr_html_()
    assert list(table.to_pandas().columns[:2]) == ["sex", "n"]
    total = session.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY ROLLUP(sex)")
    assert [table.labels(0)[0], total.labels(4)[0]] == ["Female", "(all)"]


def test_groups_and_aggregates(session: Any_) -> None:
    counts = session.group_by("sex", "age >= 30", at_most=1)
    assert [one.value for one in counts.column(counts.titles[0])] == [
        one.value
        for one in session.sql("SELECT sex, COUNT(*) FROM people WHERE age >= 30 GROUP BY sex").column(
            "count"
        )
    ]
    assert len(session.group_by(["sex", "member"], at_most=1)) == 16
    (mean,) = session.mean("age", {"sex": {"eq": "Male"}}, at_most=1).column("mean")
    assert 18 < mean.value < 90
    (total,) = session.sum("age", at_most=1).column("sum")
    assert total.value > 1000
    medians = session.quantile("age", 0.5, by="sex", at_most=1)
    assert (medians.keys, len(medians)) == (("sex",), 4)
    with pytest.raises(QueryError, match="numbers"):
        session.mean("sex")


@pytest.mark.parametrize("question", ["height > 3", {"height": {"gt": 3}}, "age >=", "age = 'x'"])
def test_what_is_refused_names_why_and_costs_nothing(session: Any_, question: Any) -> None:
    before = session.status().budget_share
    with pytest.raises(QueryError) as refused:
        session.ask(question)
    assert refused.value.code
    with pytest.raises(QueryError):
        session.ask_all(["age >= 30", question])
    with pytest.raises(QueryError):
        session.sql("SELECT height FROM people")
    assert session.status().budget_share == before


def test_population_intervals_are_wider(session: Any_) -> None:
    answer, interval = session.ask("age >= 30"), session.population_interval("age >= 30")
    total = session.status().total
    assert interval.low * total <= answer.interval[0] + 1
    assert answer.interval[1] - 1 <= interval.high * total
    assert session.population_intervals(["age >= 30"]) == (interval,)


def test_what_is_shown_in_a_notebook_is_escaped_html(session: Any_) -> None:
    for shown in (session, session.status(), session.ask("age >= 30")):
        text = shown._repr_html_()
        assert "<" in text
        assert "http" not in text.replace("http://127.0.0.1", "").replace("http://www.w3.org", "")


# --- prices -----------------------------------------------------------------------------------------------


def test_a_forecast_and_an_explanation_are_free(session: Any_) -> None:
    before = session.status()
    one = session.forecast("age >= 41 AND region = 'north'")
    assert one.questions == 1
    assert 0 <= one.least <= one.most <= 1
    assert session.forecast(parse_sql(GROUPS, session.domain)).questions >= 2
    told = session.explain(GROUPS)
    assert told.forecast.questions >= 2
    assert "Nothing was asked or spent" in told.to_text()
    assert told.to_dict() == session.explain(parse_sql(GROUPS, session.domain)).to_dict()
    assert session.status() == before


def test_a_price_is_told_before_it_is_paid(session: Any_) -> None:
    before = session.status()
    quote = session.measure(["region", "sex"], dry_run=True)
    assert (quote.scope, quote.cells, quote.affordable) == (("sex", "region"), 24, True)
    assert 0 < quote.share < 1
    assert quote == session.measure(("sex", "region"), dry_run=True)
    sums = session.measure_sum("age", "sex", share=0.02, dry_run=True)
    assert sums.share == pytest.approx(0.02, rel=1e-6)
    with pytest.raises(pmw.PMWError, match="persons"):
        session.measure_heads(dry_run=True)
    wide = session.quote("age >= 30", 5000)
    assert not wide.needed
    assert session.quote({"sex": {"eq": "Male"}, "member": {"eq": True}}, 40).share >= 0
    with pytest.raises(QueryError):
        session.quote("sex = 'Male' AND region = 'north'", 1e-9)
    average = "SELECT AVG(age) FROM people"
    assert not session.quote_aggregate(average, 1e6).needed
    assert len(session.sql_within(average, 1e6)) == 1
    assert session.ask_within("age >= 30", 5000).interval is not None
    assert session.status().budget_share == before.budget_share


def test_arguments_that_cannot_be_are_refused_alike(session: Any_) -> None:
    before = session.status().budget_share
    with pytest.raises(QueryError):
        session.quantile("age", 90)
    with pytest.raises(QueryError):
        session.group_by("height")
    for share in ("x", 2, -1):
        with pytest.raises(pmw.PMWError, match="expected"):
            session.measure_sum("age", share=share, dry_run=True)
    assert session.measure_sum("age", share="0.01", dry_run=True).share == pytest.approx(0.01, rel=1e-6)
    assert session.history(-1) == session.history(0) == ()
    statement = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    assert session.forecast(statement).questions == session.explain(statement).forecast.questions == 4
    assert session.explain("age >= 30").forecast.questions == 1
    assert session.status().budget_share == before


def test_no_key_and_no_width_are_refused_before_anything_is_paid(spending: Any_) -> None:
    before = spending.status().budget_share
    with pytest.raises(QueryError, match="request_id must be a text"):
        spending.measure("sex", request_id=5)
    for width in (None, -1, 0, "x"):
        with pytest.raises(pmw.PMWError, match="expected a"):
            spending.quote("sex = 'Male'", width)
        with pytest.raises(pmw.PMWError, match="expected a"):
            spending.ask_within("sex = 'Male'", width)
    assert spending.status().budget_share == before


def test_measuring_is_paid_once_for_a_key(spending: Any_) -> None:
    before = spending.status().budget_share
    for most in (0, 1e-9):
        with pytest.raises(PriceError, match="Pay it with at_most=") as refused:
            spending.measure(["member", "sex"], request_id="bought", at_most=most)
        assert spending.status().budget_share == before
    quote = spending.measure(["member", "sex"], request_id="bought", at_most=refused.value.price)
    assert quote.share == refused.value.price
    paid = spending.status().budget_share
    assert paid == pytest.approx(before + quote.share, rel=1e-6)
    assert spending.measure(["member", "sex"], request_id="bought") == quote
    assert spending.status().budget_share == paid
    with pytest.raises(QueryError, match="was used for another"):
        spending.measure(["region", "sex"], request_id="bought")
    sums = spending.measure_sum("age", "member", share=0.01)
    assert sums.needed
    assert spending.status().budget_share == pytest.approx(paid + sums.share, rel=1e-5)
    narrow = spending.ask_within("sex = 'Male' AND member = TRUE", 60, at_most=1)
    assert narrow.interval[1] - narrow.interval[0] <= 120.001


ASKED: dict[str, Callable[..., Any]] = {
    "a question": lambda one, **most: one.ask("sex = 'Female' AND region = 'south'", **most),
    "several": lambda one, **most: one.ask_all(["age >= 30", "region = 'north' AND sex = 'Female'"], **most),
    "an array": lambda one, **most: one.answer_arrays(["sex", "region"], [[0, 1]], [[0, 1]], **most),
    "a statement": lambda one, **most: one.sql(
        "SELECT region, sex, COUNT(*) FROM people GROUP BY ALL", **most
    ),
    "a mean": lambda one, **most: one.mean("age", "region = 'south'", **most),
}


@pytest.mark.parametrize("kind", ASKED)
def test_what_could_cost_more_than_it_may_is_refused_with_its_price_and_0_is_free(
    kind: str, spending: Any_
) -> None:
    before = spending.status().budget_share
    with pytest.raises(PriceError, match=r"This can cost [0-9.]+% of the budget, and 0.00% may") as refused:
        ASKED[kind](spending, at_most=1e-6)
    assert refused.value.code == "not_paid"
    assert refused.value.price > 1e-6
    free = ASKED[kind](spending, at_most=0)
    found = free.estimates() if isinstance(free, AnswerTable) else free
    for one in [found] if isinstance(found, pmw.Answer) else found:
        assert one.source.value in ("unverified", "synthetic")
    assert spending.status().budget_share == before


def test_an_idempotency_key_has_one_answer(spending: Any_) -> None:
    answer = spending.ask("age >= 52", request_id="asked")
    assert spending.ask("age >= 52", request_id="asked") == answer
    with pytest.raises(QueryError, match="was used for another question"):
        spending.ask("age >= 53", request_id="asked")
    assert spending.ask("age >= 52", fresh=True).count >= 0


def test_a_model_pays_nothing(kinds: Made) -> None:
    model = kinds.of("model")
    assert (model.history(), model.asked()) == ((), ())
    assert model.forecast("age >= 44").most == 0


# --- where it stands --------------------------------------------------------------------------------------


def test_status_ledger_and_history(spending: Any_) -> None:
    status, ledger = spending.status(), spending.ledger()
    assert isinstance(status, pmw.Status)
    assert isinstance(ledger, pmw.Ledger)
    assert status.table == "people"
    assert ledger.share == pytest.approx(status.budget_share)
    assert sum(line.price for line in ledger.lines) == ledger.spent
    for where in ("age >= 56", "age >= 57"):
        spending.ask(where)
    newest = spending.history(1)[0]
    assert newest.query == spending.reader.where("age >= 57").to_json()
    assert newest.number > 0
    assert len(spending.history(2)) == 2
    assert newest.query in [one.to_json() for one in spending.asked()]
    assert spending.domain == spending.asked()[0].domain


def test_a_model_tells_where_the_session_stood(kinds: Made) -> None:
    status = kinds.of("model").status()
    assert isinstance(status, pmw.Status)
    assert 0 < status.budget_share < 1


# --- what may be published --------------------------------------------------------------------------------


def test_synthetic_records_and_exports(session: Any_, tmp_path: Path) -> None:
    rows = session.synthetic_records(200, seed=1)
    assert list(rows.columns) == ["age", "sex", "region", "member"]
    assert len(rows) == 200
    assert rows.equals(session.synthetic_records(200, seed=1))
    old = session.synthetic_records(90, seed=1, where="age >= 40 AND sex = 'Male'")
    assert (len(old), old["age"].min() >= 40, set(old["sex"])) == (90, True, {"Male"})
    form = session.export(tmp_path / "rows.csv", pmw.RowPlan(50, independent=True, seed=2))
    assert form["format"] == "csv"
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 50
    with pytest.raises(ReleaseError, match="exists"):
        session.export(tmp_path / "rows.csv", pmw.RowPlan(50))
    session.export(tmp_path / "rows.csv", pmw.RowPlan(60), force=True)
    session.export(tmp_path / "a.model")
    again = pmw.load_model(tmp_path / "a.model")
    assert again.ask("age >= 30").interval is not None
    assert session.model().ask("age >= 30") == again.ask("age >= 30")
    with pytest.raises(ReleaseError, match="a model is written as it is"):
        session.export(tmp_path / "b.model", pmw.RowPlan(5))


def test_closing(kinds: Made, tmp_path: Path) -> None:
    """A closed session tells so; what holds no file asks on."""
    path = opened_study(tmp_path)
    with pmw.resume_session(path) as session:
        session.export(tmp_path / "a.model")
    with pytest.raises(SessionError, match="closed"):
        session.ask("age >= 30")
    with pmw.load_model(tmp_path / "a.model") as model:
        pass
    assert model.ask("age >= 30").count > 0
    with served(path, kinds.users) as url:
        with pmw.connect(url, token=kinds.token) as remote:
            pass
        assert remote.ask("age >= 30").count > 0
        assert "study" in repr(remote)
        remote.close()
    with pytest.raises(ServiceError):
        pmw.connect(url, token=kinds.token)


def test_the_bar_of_one_count_has_one_price_as_a_question_and_as_a_statement(spending: Any_) -> None:
    count = "region = 'west' AND age >= 20"
    statement = f"SELECT COUNT(*) AS n FROM people WHERE {count}"
    assert spending.quote(statement, 90) == spending.quote(count, 90)
    ((_, (found,)),) = spending.sql_within(statement, 90, at_most=1).rows
    low, high = found.interval
    answer = spending.ask_within(count, 90)
    assert (low, high) == (math.floor(answer.interval[0]), math.ceil(answer.interval[1]))
    assert not spending.quote(statement, 90).needed


def vars_of(table: AnswerTable) -> Any:
    """Return what a picture of a table is made by."""
    return dict(table.ordered), dict(table.units), table.about


# --- the same, to the last digit ----------------------------------------------------------------------------


def test_a_service_gives_the_very_results_of_its_session(tmp_path: Path) -> None:
    """What is no single request; those are held alike below."""
    path = opened_study(tmp_path)
    users = UsersFile(tmp_path / "users.json")
    token = users.add(User("cat", Role.CUSTODIAN, Fraction(1)))
    asked = ["age >= 30", "region = 'north' AND member = FALSE", "sex = 'Male' AND age < 50"]
    results: list[Callable[[Any_], Any]] = [
        lambda one: tuple(one.ask_all(asked)),
        lambda one: one.sql(GROUPS).to_text(),
        lambda one: vars_of(one.group_by("age", "sex = 'Male'")),
        lambda one: one.quantile("age", 0.9, by="sex").rows,
        lambda one: one.explain(GROUPS).to_text(),
        lambda one: [query.to_json() for query in one.asked()],
        lambda one: one.population_intervals(asked),
    ]
    with pmw.resume_session(path) as session:
        for result in results[:4]:
            result(session)
        here = [result(session) for result in results]
    with served(path, users) as url, pmw.connect(url, token=token) as remote:
        for number, (result, expected) in enumerate(zip(results, here, strict=True)):
            told = result(remote)
            if isinstance(told, str):  # commands name the session where it is
                assert str(path) not in told  # the service tells nobody where its file lies
                told = told.replace(f"{url}/sessions/study", str(path))
            assert told == expected, number


def test_exact_forms_come_back_and_a_changed_one_is_refused(kinds: Made) -> None:
    session = kinds.of("resumed")
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


def test_a_service_of_another_version_is_told_apart(kinds: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = kinds.of("served")
    for broken in (b"{}", b"", b"[1]", b"\xff"):
        monkeypatch.setattr(
            remote._connection,
            "sent",
            lambda *_, content=broken, **__: type("R", (), {"kind": KIND, "content": content}),
        )
        with pytest.raises(ServiceError, match="another version"):
            remote.status()
    monkeypatch.undo()
    monkeypatch.setattr(
        remote._connection,
        "sent",
        lambda *_, **__: type("R", (), {"kind": "application/json", "content": b"{}"}),
    )
    with pytest.raises(ServiceError, match="another version"):
        remote.ledger()


KIND = "application/vnd.online-pmw.exact+json"


def test_what_lies_beside_the_model_is_answered_alike(tmp_path: Path) -> None:
    """A service's answers are those of the file's session to the bit, whichever is asked first."""
    generator = np.random.default_rng(7)
    columns = {"a": generator.integers(0, 12, 20_000)}
    for name, before in zip("bcdef", "abcde", strict=True):
        columns[name] = (columns[before] + generator.binomial(2, 0.4, 20_000)) % 12
    pd.DataFrame(columns).to_csv(tmp_path / "wide.csv", index=False)
    domain = Domain(tuple(IntegerAttribute(name, 0, 11) for name in columns), name="wide")
    options, path = pmw.Options(max_cells=2_000), tmp_path / "wide.pmw"
    users = UsersFile(tmp_path / "users.json")
    token = users.add(User("ann", Role.CUSTODIAN, Fraction(1)))
    asked = [f"{x} < {k} AND {y} >= {k} AND {z} <> 3" for k in (4, 7) for x, y, z in ("ace", "bdf", "abf")]
    with pmw.open_session(
        tmp_path / "wide.csv", domain, epsilon=1, delta=1e-9, path=path, options=options
    ) as session:
        assert session.state.beside
    with served(path, users) as address, pmw.connect(f"{address}/sessions/wide", token=token) as remote:
        told = [remote.ask(where, at_most=0) for where in asked]
    with pmw.resume_session(path) as session:
        answers = ModelAnswers(session.state)
        found = [answers.answer(parse_where(where, domain)) for where in reversed(asked)]
    assert [one.count for one in reversed(found)] == [one.count for one in told]
    assert [one.interval for one in reversed(found)] == [one.interval for one in told]


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


def opened() -> pmw.Session:
    """Return a session whose noise is repeatable; two of them draw the same for the same requests."""
    options = pmw.Options(opening=pmw.Opening.ONE_WAY, seed=11)
    return pmw.open_session(
        worlds.PEOPLE.frame, worlds.WHOLE_YEARS.domain, epsilon=1, delta=1e-9, options=options
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pmw.Analyst, pmw.RemoteSession]]:
    users = UsersFile(tmp_path_factory.mktemp("requests") / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    with opened() as here, opened() as there:
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


@pytest.mark.parametrize(
    "fields",
    [
        *(
            {"kind": kind, "within": width}
            for kind in (Kinds.QUOTE, Kinds.ASK_WITHIN, Kinds.SQL_WITHIN)
            for width in (None, 0, -1, "x")
        ),
        {"kind": Kinds.SQL, "at_most": "x"},
    ],
    ids=str,
)
def test_a_request_with_a_field_that_cannot_be_is_never_made(fields: dict[str, Any]) -> None:
    with pytest.raises(pmw.PMWError, match="expected a"):
        SessionRequest(**fields)
