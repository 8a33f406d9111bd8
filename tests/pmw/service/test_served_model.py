"""A service over model files: free answers at the addresses of a session, by any number of processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pmw
from pmw.cli import main
from pmw.errors import ModelFileError, ServiceError, SessionError
from pmw.service.users import Role, User, UsersFile
from tests.pmw.service.studies import opened_study

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from fastapi.testclient import TestClient

from pmw.service.app import create_app
from pmw.service.hosting import Service, hosting, names_of
from pmw.service.limits import GoneError
from pmw.service.served_model import ServedModel
from tests.pmw.service.studies import serving
from tests.waiting import joined

QUESTIONS = (
    "",
    "age >= 40 AND sex = 'Male'",
    "sex = 'Male' AND region = 'north' AND member = true",
    "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex",
    "SELECT region, MEDIAN(age) FROM people WHERE member GROUP BY region",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a session and its model, of the same name, and another model."""
    folder = tmp_path_factory.mktemp("models")
    with pmw.resume_session(opened_study(folder)) as session:
        session.ask("age >= 40 AND sex = 'Male'", at_most=1)
        session.export(folder / "study.model", format="model")
    (folder / "other.model").write_bytes((folder / "study.model").read_bytes())
    return folder


@pytest.fixture
def model(folder: Path) -> Path:
    return folder / "study.model"


@pytest.fixture
def service(model: Path, users: UsersFile, add: Callable[..., Any]) -> Iterator[Service]:
    add("first")
    with hosting([model], users) as service:
        yield service


@pytest.fixture
def ann(add: Callable[..., Any]) -> Any:
    return add("ann", 1, Role.CUSTODIAN)


def form(question: str) -> dict[str, str]:
    return {"sql" if question.startswith("SELECT") else "where": question}


def by_command(model: Path, question: str) -> Any:
    how = ["--sql"] if question.startswith("SELECT") else []
    found = CliRunner().invoke(main, ["ask", str(model), *how, question, "--json"])
    assert found.exit_code == 0, found.output
    return but_notes(json.loads(found.stdout))


def but_notes(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without its notes, which name the file or the address."""
    return {name: value for name, value in answer.items() if name != "notes"}


def test_answers_are_those_of_the_command_over_the_file(client: TestClient, ann: Any, model: Path) -> None:
    for question in QUESTIONS:
        told = client.post("/sessions/study/ask", json={**form(question), "at_most": 1}, headers=ann)
        assert told.status_code == 200, told.text
        assert but_notes(told.json()) == by_command(model, question)
        several = {"queries": [form(question), {"where": "nothing = 1"}, form(question)]}
        answers = client.post("/sessions/study/ask", json=several, headers=ann).json()["answers"]
        assert answers[0] == answers[2] == told.json()
        assert answers[1]["error"]["code"] == "unknown_attribute"


def test_a_python_client_asks_it_as_it_asks_the_file(service: Service, users: UsersFile, model: Path) -> None:
    token, here = users.add(User("ann", Role.ANALYST, Fraction(1)), beyond=True), pmw.load_model(model)
    with serving(service) as url, pmw.connect(url, token=token) as there:
        questions = [f"age >= {age}" for age in range(20, 60)]
        one, other = here.ask_all(questions), there.ask_all(questions)
        assert [answer.to_dict() for answer in one] == [answer.to_dict() for answer in other]
        assert there.ask("age >= 30", request_id="again") == here.ask("age >= 30")
        assert there.sql(QUESTIONS[3]).rows == here.sql(QUESTIONS[3]).rows
        assert there.explain(QUESTIONS[3]).to_dict() == here.explain(QUESTIONS[3]).to_dict()
        assert there.quote(QUESTIONS[2], 60).share == here.quote(QUESTIONS[2], 60).share
        assert there.forecast(QUESTIONS[2]).most == 0
        assert there.model().ask("age >= 30") == here.ask("age >= 30")
        assert there.status().budget_share == here.status().budget_share
        own = there.budget()
        assert (own.name, own.spent, own.left) == ("ann", Fraction(0), Fraction(0))
        assert (there.schema(), there.history(), there.asked()) == (here.schema(), (), ())


def test_what_a_model_cannot_do_is_refused_in_one_line(client: TestClient, ann: Any) -> None:
    told = [client.get("/sessions/study/ledger", headers=ann)]
    for address, body in (
        ("ask", {"where": QUESTIONS[2], "within": 60, "at_most": 1}),
        ("ask", {"sql": "SELECT sex, AVG(age) FROM people GROUP BY sex", "within": 0.5, "at_most": 1}),
        ("measure", {"scope": ["sex", "region"], "at_most": 1}),
        ("measure", {"questions": [QUESTIONS[1]], "within": 30, "at_most": 1}),
    ):
        told.append(client.post(f"/sessions/study/{address}", json=body, headers=ann))
    for one in told:
        assert (one.status_code, one.json()["error"]["code"]) == (400, "not_possible")
        assert one.json()["error"]["message"].startswith("a model file may not ")
        assert "\n" not in one.json()["error"]["message"]


def test_a_price_is_told_and_no_user_has_anything_to_spend(
    client: TestClient, ann: Any, add: Callable[..., Any]
) -> None:
    asked = {"where": QUESTIONS[2], "within": 60, "dry_run": True}
    assert client.post("/sessions/study/ask", json=asked, headers=ann).json()["share"] > 0
    for headers in (ann, add("bea", 1), add("eve", 0, Role.READER)):
        (one,) = client.get("/sessions", headers=headers).json()["sessions"]
        assert one["share"] == 0
        own = client.get("/sessions/study/you", headers=headers).json()
        assert (own["spent"], own["left"]) == (0, 0)
        assert client.get("/sessions/study", headers=headers).json()["you"]["spent"] == 0


def test_each_page_is_shown_or_refused_in_words_and_exports_are_sent(
    client: TestClient, ann: Any, model: Path
) -> None:
    for path in ("", "/table", "/history", "/history.csv", "/build?by=sex"):
        assert client.get(f"/page/study{path}", headers=ann).status_code == 200, path
    for path in ("/custodian", "/report"):
        told = client.get(f"/page/study{path}", headers=ann)
        assert told.status_code == 400, path
        assert "a model file may not " in told.text
    assert client.get("/activity", headers=ann).json() == {"activity": []}
    assert client.get("/metrics", headers=ann).status_code == 200
    table = client.get("/sessions/study/export?rows=100&seed=1", headers=ann)
    assert len(table.text.splitlines()) == 101
    assert client.get("/sessions/study/export?format=model", headers=ann).content == model.read_bytes()


def test_a_model_that_nobody_may_write_is_ready(client: TestClient, service: Service, model: Path) -> None:
    away = model.with_name("away")
    assert client.get("/ready").status_code == 200
    model.chmod(0o400)
    assert client.get("/ready").status_code == 200
    model.rename(away)
    assert client.get("/ready").json()["error"]["code"] == "session_unavailable"
    away.rename(model)


def test_a_folder_serves_its_sessions_and_the_models_of_other_names(
    folder: Path, users: UsersFile, add: Callable[..., Any]
) -> None:
    ann = add("ann", 1)
    assert names_of([folder]) == {"study": folder / "study.pmw", "other": folder / "other.model"}
    with pytest.raises(ServiceError, match="the same name 'study'"):
        names_of([folder / "study.pmw", folder / "study.model"])
    broken = users.path.with_name("broken.model")
    broken.write_text("{}")
    with pytest.raises(ModelFileError, match="no model"), hosting([broken], users):
        pass
    with hosting([folder], users) as service, TestClient(create_app(service)) as client:
        told = {
            name: client.post(f"/sessions/{name}/ask", json={"where": "age >= 40"}, headers=ann).json()
            for name in ("study", "other")
        }
    assert but_notes(told["other"]) == by_command(folder / "other.model", "age >= 40")
    assert told["study"]["count"] == pytest.approx(told["other"]["count"])


def test_two_services_of_one_file_lock_nothing_and_give_the_same_answers(
    users: UsersFile, add: Callable[..., Any], model: Path
) -> None:
    ann, found = add("ann", 1), []
    body = {"queries": [{"where": f"age >= {age} AND sex = 'Male'"} for age in range(20, 60)]}
    with hosting([model], users) as one, hosting([model], users) as other:
        for service in (one, other):
            with TestClient(create_app(service)) as client:
                answers = client.post("/sessions/study/ask", json=body, headers=ann).json()["answers"]
            found.append([answer["count"] for answer in answers])
        beside = [path.name for path in model.parent.iterdir() if path.name.startswith("study.model")]
        assert beside == ["study.model"], "no lock, and no file beside it"
    here = [
        answer.count for answer in pmw.load_model(model).ask_all([one["where"] for one in body["queries"]])
    ]
    assert found == [here, here]


def test_threads_share_it_and_those_who_have_left_end(model: Path) -> None:
    held, gone = ServedModel(model), threading.Event()

    def look() -> None:
        if gone.is_set():
            raise GoneError("gone")

    users = [held.analyst(f"user {number}", 1, stop=look) for number in range(4)]
    found: list[Any] = [None] * 4

    def ask(place: int) -> None:
        found[place] = [users[place].sql(question).to_dict() for question in QUESTIONS[3:]]

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert found == [[held.sql(question).to_dict() for question in QUESTIONS[3:]]] * 4
    gone.set()
    with pytest.raises(GoneError):
        users[0].ask("age >= 40")
    with pytest.raises(SessionError):
        held.measure("age")
