"""The client, the command and the server's process, over real connections."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import pmw
from pmw.cli import main
from pmw.errors import ServiceError
from pmw.service.connection import Connection, Response
from pmw.service.users import Role, User, UsersFile
from queries import QueryError
from tests.pmw.cli.commands import Run
from tests.pmw.service.studies import Running, opened_study, served
from tests.waiting import joined

WRONG = "x"


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> UsersFile:
    return UsersFile(tmp_path_factory.mktemp("users") / "users.json")


@pytest.fixture(scope="module")
def ann(users: UsersFile) -> str:
    users.add(User("zoe", Role.READER, Fraction(0)))
    return users.add(User("ann", Role.ANALYST, Fraction(1)))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, users: UsersFile, ann: str) -> Iterator[str]:
    """One service for all tests that leave it as it is; each asks questions of its own."""
    with served(opened_study(tmp_path_factory.mktemp("served")), users) as url:
        with pmw.connect(url, token=ann) as session:
            session.ask("age >= 30")  # so that its files are open
        yield url


PAIR = {"sex": {"eq": "Male"}, "region": {"eq": "north"}}


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Lose the first response to each key, and to what has none; return the keys as they are sent."""
    tried, keys = Connection._tried, list[str | None]()

    def losing(connection: Connection, method: str, path: str, *sent: Any) -> Response:
        found = tried(connection, method, path, *sent)
        if not path.endswith(("/measure", "/ask")):
            return found
        keys.append(sent[1].get("Idempotency-Key"))
        return Response(0, b"", "") if keys.count(keys[-1]) == 1 else found

    monkeypatch.setattr(Connection, "_tried", losing)
    return keys


def test_a_measurement_whose_response_is_lost_is_charged_once(
    running: str, ann: str, lossy: list[str | None]
) -> None:
    with pmw.connect(running, token=ann) as session:
        before = len(session.ledger().lines)
        for number, by in enumerate(("sex", "region"), start=1):
            measured = session.measure_sum("age", by, share=0.001)
            assert session.measure_sum("age", by, share=0.001, dry_run=True).share == measured.share
            assert len(session.ledger().lines) == before + number
        assert len({*lossy} - {None}) == 2  # fresh ones
        assert all(lossy.count(key) == 2 for key in {*lossy} - {None})
        own = session.measure_sum("age", share=0.001, request_id="mine")
        assert session.measure_sum("age", share=0.001, request_id="mine") == own
        assert "mine" in lossy
        with pytest.raises(QueryError, match="was used for another measurement"):
            session.measure_sum("age", share=0.002, request_id="mine")
        with pytest.raises(QueryError, match="was used for another measurement"):
            session.measure("sex", request_id="mine")
        assert len(session.ledger().lines) == before + 3


AVERAGE = "SELECT AVG(age) FROM people"


def test_a_bar_whose_response_is_lost_is_charged_once(
    running: str, ann: str, lossy: list[str | None]
) -> None:
    with pmw.connect(running, token=ann) as session:
        low, high = next(session.sql(AVERAGE).estimates()).interval or (0, 99)
        bars: list[tuple[Callable[..., object], object, float]] = [
            (session.ask_within, PAIR, 40.0),
            (session.sql_within, AVERAGE, 0.5 * (high - low)),
        ]
        for ask, question, width in bars:
            before = len(session.ledger().lines)
            lossy.clear()
            ask(question, 0.99 * width, at_most=1)
            first, again = (one for one in lossy if one is not None)
            assert first == again  # a fresh one, sent twice
            ask(question, 0.98 * width, at_most=1, request_id=f"mine {width}")
            assert len(session.ledger().lines) <= before + 2


def test_what_is_asked_anew_without_a_key_is_not_asked_again_by_itself(
    running: str, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, asked = Connection._tried, list[str]()

    def losing(connection: Connection, method: str, path: str, *sent: Any) -> Response:
        asked.append(path)
        tried(connection, method, path, *sent)
        return Response(0, b"", "")

    with pmw.connect(running, token=ann) as session:
        monkeypatch.setattr(Connection, "_tried", losing)
        for ask, question in ((session.ask, "age >= 33"), (session.sql, AVERAGE)):
            with pytest.raises(ServiceError):
                ask(question, fresh=True)
            assert asked == ["/sessions/study/ask"], question
            asked.clear()


def test_what_cannot_be_connected_to(running: str, ann: str) -> None:
    with pytest.raises(ServiceError, match="ask the custodian for a new one") as refused:
        pmw.connect(running, token=WRONG)
    assert refused.value.status == 401
    for url in ("ftp://x", "study.pmw", "http://", "http://localhost:99999999"):
        with pytest.raises(ServiceError, match="expected the URL"):
            pmw.connect(url, token=WRONG)
    with pytest.raises(ServiceError, match="expected a token"):
        pmw.connect(running, token=f"{WRONG} {WRONG}")
    with pytest.warns(UserWarning, match="unencrypted"):
        Connection("http://nowhere.invalid", token=WRONG, session="study")
    with pytest.raises(ServiceError, match="none of your sessions"):
        pmw.connect(f"{running}/sessions/other", token=ann)


@pytest.fixture
def run(running: str, ann: str, tmp_path: Path) -> Callable[..., Result]:
    """Run ``pmw ask`` over the service."""
    return asking(running, ann, tmp_path / "ann.token")


def asking(url: str, ann: str, token: Path) -> Callable[..., Result]:
    token.write_text(f"{ann}\n")

    def invoked(*arguments: str, stdin: str | None = None) -> Result:
        asked = ["ask", url, *arguments, "--token-file", str(token)]
        return CliRunner().invoke(main, asked, input=stdin)

    return invoked


def test_the_command_pays_for_a_bar_after_a_yes_alone(
    running: str, ann: str, run: Callable[..., Result]
) -> None:
    pair = json.dumps({"region": {"eq": "south"}, "member": {"eq": True}})
    with pmw.connect(running, token=ann) as session:
        before = session.budget().spent
        told = run(pair, "--within", "25")
        assert (told.exit_code, told.stdout) == (4, "")
        most = r"and \d\.\d\d% may be charged for it \(a tenth of what may be spent, unless told\)"
        assert re.search(most, told.stderr)
        quoted = json.loads(run(pair, "--within", "25", "--json").stdout)
        assert quoted["error"]["code"] == "not_paid"
        assert session.budget().spent == before
        paid = json.loads(run(pair, "--within", "25", "--at-most", "100%", "--json").stdout)
        assert paid["interval"][1] - paid["interval"][0] <= 50.001
        spent = session.budget().spent
        assert float(spent) == pytest.approx(float(before) + quoted["error"]["price"])
        keyed = json.loads(run(pair, "--within", "25", "--json", "--request-id", "bar").stdout)
        assert keyed["interval"] == paid["interval"]
        again = run(pair, "--within", "25")
        assert (again.exit_code, again.stdout[:5]) == (0, "About")
        assert session.budget().spent == spent
        far = run(pair, "--within", "0.001")
        assert far.exit_code == 4


def test_a_stream_over_http_prints_each_line_once_where_one_is_refused(
    study: Path, users: UsersFile, ann: str, tmp_path: Path
) -> None:
    """The service takes 500 questions together: those before the refused ones are answered by then."""
    free = [{"id": place, "where": f"age >= {20 + place % 40}"} for place in range(502)]
    dear = {"id": 502, "where": "sex = 'Female' AND member = FALSE"}
    lines = [*free, dear, {**free[0], "id": 503}]
    with served(study, users) as url:  # in which nobody has paid yet
        run = asking(url, ann, tmp_path / "ann.token")
        told = run("--stream", stdin="".join(json.dumps(line) + "\n" for line in lines))
    forms = [json.loads(line) for line in told.stdout.splitlines()]
    assert [form["id"] for form in forms] == list(range(504))
    assert [form["id"] for form in forms if "error" in form] == [502]
    assert forms[502]["error"]["code"] == "not_paid"
    assert told.exit_code == 0


def test_status_and_measure_take_an_address_too(running: str, ann: str, tmp_path: Path) -> None:
    token, run = tmp_path / "ann.token", Run()
    token.write_text(ann)
    place = (running, "--token-file", str(token))
    sums = ("measure", *place, "--sum", "age", "--by", "sex", "--share", "0.1%")
    with pmw.connect(running, token=ann) as session:
        assert run.form("status", *place) == session.status().to_dict()
        left = float(session.budget().left or 0)
        assert run.told("status", *place).endswith(f"\nYou may still spend {left:.2%} of the budget.\n")
        plotted = run.refused("status", *place, "--plot", str(tmp_path / "a.svg"), code=2)
        assert "which a service does not tell" in plotted
        before = len(session.ledger().lines)
        priced = session.measure_sum("age", "sex", share=0.001, dry_run=True)
        assert run.form(*sums, "--dry-run") == priced.to_dict()
        assert "Pay it with at_most=0.001" in run.refused(*sums, "--at-most", "0", code=4)
        assert len(session.ledger().lines) == before
        for _ in range(2):
            assert run.form(*sums, "--request-id", "command") == priced.to_dict()
        assert len(session.ledger().lines) == before + 1


def test_the_command_asks_a_service(run: Callable[..., Result]) -> None:
    answer = json.loads(run("age >= 30", "--json").stdout)
    assert answer["interval"]
    assert "records" in run("age >= 30").stdout
    sql = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    assert json.loads(run("--sql", sql, "--json").stdout)["rows"]
    assert run("--sql", sql).stdout.split()[:5] == ["sex", "count", "low", "high", "source"]
    assert "Nothing was asked or spent" in run("--sql", sql, "--explain").stdout
    cells = run("--workload", "marginals:sex", "--format", "csv").stdout.splitlines()
    assert [cells[0].split(",")[0], len(cells)] == ["id", 5]
    tables = run("--stream", stdin=json.dumps({"id": "t", "sql": sql}))
    assert json.loads(tables.stdout)["rows"][0]["sex"] == "Female"
    lines = '{"id": 1, "where": "age >= 30"}\n\n[\n{"id": 2, "where": "height > 3"}\n'
    streamed = run("--stream", stdin=lines)
    forms = [json.loads(line) for line in streamed.stdout.splitlines()]
    assert forms[0] == {"id": 1, **answer}
    assert ["error" in form for form in forms] == [False, True, True]
    assert streamed.exit_code == 0
    bad = run("height > 3", "--json")
    assert (bad.exit_code, json.loads(bad.stdout)["error"]["code"]) == (4, "unknown_attribute")


def test_an_export_that_is_not_read_keeps_nobody_waiting_but_its_own_user(
    running: str, ann: str, users: UsersFile
) -> None:
    bea = users.add(User("bea", Role.READER, Fraction(0)))

    def exported(token: str) -> http.client.HTTPConnection:
        made = http.client.HTTPConnection("127.0.0.1", int(running.rpartition(":")[2]), timeout=60)
        path = "/sessions/study/export?rows=600000"  # more than any system keeps for a client that is slow
        made.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return made

    with ExitStack() as held:
        responses = [
            held.enter_context(held.enter_context(closing(exported(token))).getresponse())
            for token in (ann, bea, ann)
        ]
        assert [one.status for one in responses] == [200, 200, 429]
        assert responses[2].getheader("Retry-After") == "1"
        with pmw.connect(running, token=ann) as session:
            assert session.ask("age >= 30").count > 0
            held.close()  # who goes is done, and may ask again
            session.export(users.path.parent / "rows.csv", pmw.RowPlan(10))


PAGE = (Path(__file__).parents[3] / "docs" / "service.md").read_text()
EXAMPLES = re.findall(r"^curl .*$", PAGE, re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_curl_example_runs(running: str, users: UsersFile, tmp_path: Path) -> None:
    assert len(EXAMPLES) >= 6
    token = users.add(User("eva", Role.ANALYST, Fraction(1, 5)), beyond=True)
    for example in EXAMPLES:
        command = example.replace("http://127.0.0.1:8000", running)
        done = subprocess.run(
            ["/bin/sh", "-c", command.replace("curl ", "curl -sS --fail ", 1)],
            cwd=tmp_path,
            env={**os.environ, "TOKEN": token},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (example, done.stderr)
        if "-o" not in command.split():
            assert "error" not in json.loads(done.stdout)
    assert (tmp_path / "study.model").stat().st_size > 1000
    assert "`-H @header.txt`" in OTHERS
    (tmp_path / "header.txt").write_text(f"Authorization: Bearer {token}\n")
    address = "http://127.0.0.1:8000/sessions/study/schema"
    told = ran(["curl", "-sS", "-H", "@header.txt", address], running, token, tmp_path)
    assert json.loads(told.stdout)["name"] == "people"


def test_a_service_that_is_killed_loses_no_charge_and_a_signal_ends_it_gracefully(
    study: Path, users: UsersFile, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.service.connection._TRIES", 1)
    given: dict[str, pmw.Answer] = {}
    service = Running(study, users.path)
    killer = threading.Timer(0.5, service.process.kill)
    killer.start()
    with pmw.connect(f"{service.url}/sessions/study", token=ann) as session:
        try:
            for place in range(10_000):
                where = f"age >= {20 + place % 40} AND region = 'north' AND member = FALSE"
                answer = session.ask(where, at_most=1)
                first = given.setdefault(where, answer)
                assert replace(answer, spent=first.spent) == first
        except ServiceError:
            pass
    service.end(signal.SIGKILL)
    joined(killer)
    service = Running(study, users.path)
    with pmw.connect(service.url, token=ann) as session:
        for where, answer in given.items():
            assert replace(session.ask(where), spent=answer.spent) == answer
        assert session.ask("member = TRUE").count > 0
    assert service.end() == 0
    events = [json.loads(line)["event"] for line in service.log]
    assert (events[0], events[-1]) == ("start", "end")
    with pmw.resume_session(study) as local:
        assert local.verify().holds
        spent = sum(one.spent for one in local.bookings())
        ledger = local.ledger()
        assert spent == sum(line.price for line in ledger.lines) / ledger.cap
        for where, answer in given.items():
            assert replace(local.ask(where), spent=answer.spent) == answer


# --- The programs of ``docs/other-languages.md``: they print what Python gets -------------------------------


OTHERS = (Path(__file__).parents[3] / "docs" / "other-languages.md").read_text()
WHERE, SQL = "age >= 30", "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
NUMBER = r"(?<!\w)\d+(?:\.\d+)?(?!\w)"


def program(language: str) -> str:
    """Return all that the page has in a language."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", OTHERS, re.MULTILINE | re.DOTALL))


def commands(language: str) -> list[list[str]]:
    """Return the commands that run the page's programs in a language, which has to be there."""
    name = {"sh": "curl", "js": "node", "r": "Rscript"}[language]
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    if language == "sh":
        return [["sh", "-c", line] for line in re.findall(r"^curl .*$", program("sh"), re.MULTILINE)]
    if language == "js":
        return [["node", "-e", program("js")]]
    for package in ("httr2", "jsonlite"):
        asked = ["Rscript", "-e", f"quit(status = !requireNamespace('{package}', quietly = TRUE))"]
        if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
            pytest.skip(f"R has no package {package}")
    return [["Rscript", "-e", "options(digits = 15)", "-e", program("r")]]


def ran(command: list[str], running: str, token: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [part.replace("http://127.0.0.1:8000", running) for part in command], cwd=folder,
        env={**os.environ, "TOKEN": token}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(NUMBER, text)]


def test_every_program_takes_its_token_from_the_environment() -> None:
    for language in ("r", "js", "sh"):
        assert {part for part in ("TOKEN", WHERE, SQL) if part not in program(language)} == set()
    assert len([line for line in program("r").splitlines() if line]) <= 20


@pytest.mark.parametrize("language", ["sh", "js", "r"])
def test_programs_print_what_python_gets(running: str, ann: str, tmp_path: Path, language: str) -> None:
    found = [ran(command, running, ann, tmp_path) for command in commands(language)]
    assert [(one.returncode, one.stderr) for one in found] == [(0, "")] * len(found)
    with pmw.connect(running, token=ann) as session:
        answer, rows = session.ask(WHERE).to_dict(), session.sql(SQL).to_dict()["rows"]
    each = [row["n"][key] for row in rows for key in ("value", "low", "high")]
    count = [answer["count"], *answer["interval"]]
    if language == "sh":
        schema, told, table = (json.loads(one.stdout) for one in found)
        assert [one["name"] for one in schema["attributes"]] == ["age", "sex", "region", "member"]
        assert [told["count"], *told["interval"]] == count
        assert table["rows"] == rows
    elif language == "js":
        assert found[0].stdout.startswith("age sex region member\n")
        assert numbers_in(found[0].stdout) == [*count, *each]
    else:
        shown = program("text").splitlines()
        names, words, columns, *lines = found[0].stdout.splitlines()
        assert [names.split(), columns.split()] == [shown[0].split(), shown[2].split()]
        assert re.sub(NUMBER, "", words).split() == re.sub(NUMBER, "", shown[1]).split()
        assert [line.split()[1] for line in lines] == [line.split()[1] for line in shown[3:]]
        assert numbers_in(words) == pytest.approx(count)
        assert [one for line in lines for one in numbers_in(line)[-3:]] == pytest.approx(each)


@pytest.mark.parametrize("language", ["sh", "js", "r"])
def test_programs_tell_a_refusal_which_costs_nothing(
    running: str, ann: str, tmp_path: Path, language: str
) -> None:
    command = next(one for one in commands(language) if WHERE in " ".join(one))
    with pmw.connect(running, token=ann) as session:
        before = session.budget()
        told = ran([part.replace(WHERE, "height > 3") for part in command], running, ann, tmp_path)
        assert session.budget() == before  # what is spent, and how many questions
        with pytest.raises(QueryError) as refused:
            session.ask("height > 3")
    assert str(refused.value).startswith("unknown attribute 'height'")
    assert str(refused.value) in told.stdout + told.stderr
    assert told.returncode == (0 if language == "sh" else 1)
