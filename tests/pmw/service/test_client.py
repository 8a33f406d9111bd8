"""The client, the command and the server's process, over real connections."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
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
from pmw.errors import BudgetExhaustedError, PriceError, ServiceError
from pmw.service.connection import Connection, Response
from pmw.service.users import Role, User, UsersFile
from queries import QueryError
from tests.pmw.service.studies import opened_study
from tests.waiting import joined

WRONG = "x"


class Running:
    """A service in a process of its own."""

    def __init__(self, study: Path, users: Path) -> None:
        served = ["serve", str(study), "--users", str(users), "--port", "0"]
        command = [sys.executable, "-m", "pmw", *served]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.url = line.split()[2].rstrip(";")
        self.port = int(self.url.rpartition(":")[2])
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        joined(self._reader)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> UsersFile:
    return UsersFile(tmp_path_factory.mktemp("users") / "users.json")


@pytest.fixture(scope="module")
def ann(users: UsersFile) -> str:
    users.add(User("zoe", Role.READER, Fraction(0)))
    return users.add(User("ann", Role.ANALYST, Fraction(1)))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, users: UsersFile, ann: str) -> Iterator[Running]:
    """One service for all tests that leave it as it is; each asks questions of its own."""
    service = Running(opened_study(tmp_path_factory.mktemp("served")), users.path)
    yield service
    service.end()


PAIR = {"sex": {"eq": "Male"}, "region": {"eq": "north"}}


def test_a_user_without_a_share_pays_nothing_and_gets_what_others_paid_for(
    running: Running, ann: str, users: UsersFile
) -> None:
    with pmw.connect(f"{running.url}/sessions/study", token=ann) as session:
        answer, quote = session.ask("age >= 30"), session.quote(PAIR, 40)
        assert session.budget().share == pytest.approx(0.85)
        with pytest.raises(PriceError, match="may be charged for it") as dear:
            session.ask_within(PAIR, 40, at_most=quote.share / 2)
        assert dear.value.price == quote.share
        narrow = session.ask_within(PAIR, 40, at_most=quote.share)
    users.add(User("nil", Role.ANALYST, Fraction(0)))
    measures: tuple[Callable[[Any], object], ...] = (
        lambda one: one.measure("sex"),
        lambda one: one.measure_sum("age"),
        lambda one: one.ask_within(PAIR, 20),
    )
    for name in ("zoe", "nil"):
        with pmw.connect(running.url, token=users.rotate(name)) as poor:
            assert replace(poor.ask("age >= 30"), spent=answer.spent) == answer
            assert poor.ask_within(PAIR, 40).interval == narrow.interval
            for measure in measures:
                with pytest.raises(BudgetExhaustedError, match="is left for it; nothing was spent"):
                    measure(poor)
    assert ann not in "".join(running.log)


def test_a_measurement_whose_response_is_lost_is_charged_once(
    running: Running, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, lost, keys = Connection._tried, set[str](), set[str]()

    def losing(connection: Connection, method: str, path: str, *sent: Any) -> Response:
        """Lose the first response to each measurement that has another key."""
        found = tried(connection, method, path, *sent)
        key = sent[1].get("Idempotency-Key")
        if key is not None:
            keys.add(key)
        if path.endswith(("/measure", "/ask")) and key not in lost:
            lost.add(key)
            return Response(0, b"", "")
        return found

    monkeypatch.setattr(Connection, "_tried", losing)
    with pmw.connect(running.url, token=ann) as session:
        before = len(session.ledger().lines)
        for number, by in enumerate(("sex", "region"), start=1):
            measured = session.measure_sum("age", by, share=0.001)
            assert session.measure_sum("age", by, share=0.001, dry_run=True).share == measured.share
            assert len(session.ledger().lines) == before + number
        assert len(keys) == 2  # fresh ones
        assert lost == {*keys, None}
        own = session.measure_sum("age", share=0.001, request_id="mine")
        assert session.measure_sum("age", share=0.001, request_id="mine") == own
        assert "mine" in keys
        with pytest.raises(QueryError, match="was used for another measurement"):
            session.measure_sum("age", share=0.002, request_id="mine")
        with pytest.raises(QueryError, match="was used for another measurement"):
            session.measure("sex", request_id="mine")
        assert len(session.ledger().lines) == before + 3


def test_a_bar_whose_response_is_lost_is_charged_once(
    running: Running, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, keys = Connection._tried, list[str | None]()

    def losing(connection: Connection, method: str, path: str, *sent: Any) -> Response:
        """Lose the first response to each key."""
        found = tried(connection, method, path, *sent)
        key = sent[1].get("Idempotency-Key")
        keys.append(key)
        return Response(0, b"", "") if key is not None and keys.count(key) == 1 else found

    average = "SELECT AVG(age) FROM people"
    with pmw.connect(running.url, token=ann) as session:
        low, high = next(session.sql(average).estimates()).interval or (0, 99)
        monkeypatch.setattr(Connection, "_tried", losing)
        asks: list[Callable[..., object]] = [
            lambda width, **given: session.ask_within(PAIR, 40 * width, at_most=1, **given),
            lambda width, **given: session.sql_within(
                average, 0.5 * width * (high - low), at_most=1, **given
            ),
        ]
        for number, asked in enumerate(asks):
            before, mine = len(session.ledger().lines), f"mine {number}"
            asked(0.99)
            assert len(session.ledger().lines) <= before + 1
            asked(0.98, request_id=mine)
            lines = len(session.ledger().lines)
            asked(0.98, request_id=mine)
            assert len(session.ledger().lines) == lines <= before + 2
            if number == 0:  # of counts a narrower bar is never there already
                assert lines == before + 2
                with pytest.raises(QueryError, match="was used for another measurement"):
                    asked(0.97, request_id=mine)
            with pytest.raises(QueryError, match="request_id must be"):
                asked(1, request_id="")
            fresh = [key for key in keys if key is not None and not key.startswith("mine")]
            assert [fresh.count(key) for key in dict.fromkeys(fresh)] == [2] * (number + 1)


def test_what_cannot_be_connected_to(running: Running, ann: str) -> None:
    with pytest.raises(ServiceError, match="ask the custodian for a new one") as refused:
        pmw.connect(running.url, token=WRONG)
    assert refused.value.status == 401
    for url in ("ftp://x", "study.pmw", "http://", "http://localhost:99999999"):
        with pytest.raises(ServiceError, match="expected the URL"):
            pmw.connect(url, token=WRONG)
    with pytest.raises(ServiceError, match="expected a token"):
        pmw.connect(running.url, token=f"{WRONG} {WRONG}")
    with pytest.warns(UserWarning, match="unencrypted"):
        Connection("http://nowhere.invalid", token=WRONG, session="study")
    with pytest.raises(ServiceError, match="none of your sessions"):
        pmw.connect(f"{running.url}/sessions/other", token=ann)


@pytest.fixture
def run(running: Running, ann: str, tmp_path: Path) -> Callable[..., Result]:
    """Run ``pmw ask`` over the service."""
    return asking(running, ann, tmp_path / "ann.token")


def asking(running: Running, ann: str, token: Path) -> Callable[..., Result]:
    token.write_text(f"{ann}\n")

    def invoked(*arguments: str, stdin: str | None = None) -> Result:
        asked = ["ask", running.url, *arguments, "--token-file", str(token)]
        return CliRunner().invoke(main, asked, input=stdin)

    return invoked


def test_the_command_pays_for_a_bar_after_a_yes_alone(
    running: Running, ann: str, run: Callable[..., Result]
) -> None:
    pair = json.dumps({"region": {"eq": "south"}, "member": {"eq": True}})
    with pmw.connect(running.url, token=ann) as session:
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
    service = Running(study, users.path)  # in which nobody has paid yet
    run = asking(service, ann, tmp_path / "ann.token")
    free = [{"id": place, "where": f"age >= {20 + place % 40}"} for place in range(502)]
    dear = {"id": 502, "where": "sex = 'Female' AND member = FALSE"}
    lines = [*free, dear, {**free[0], "id": 503}]
    told = run("--stream", stdin="".join(json.dumps(line) + "\n" for line in lines))
    forms = [json.loads(line) for line in told.stdout.splitlines()]
    assert [form["id"] for form in forms] == list(range(504))
    assert [form["id"] for form in forms if "error" in form] == [502]
    assert forms[502]["error"]["code"] == "not_paid"
    assert told.exit_code == 0
    assert service.end() == 0


def test_status_and_measure_take_an_address_too(running: Running, ann: str, tmp_path: Path) -> None:
    token = tmp_path / "ann.token"
    token.write_text(ann)

    def run(command: str, *arguments: str) -> Result:
        asked = [command, running.url, *arguments, "--token-file", str(token)]
        return CliRunner().invoke(main, asked)

    with pmw.connect(running.url, token=ann) as session:
        assert json.loads(run("status", "--json").stdout) == session.status().to_dict()
        told = run("status").stdout
        assert "budget spent" in told
        left = float(session.budget().left or 0)
        assert told.endswith(f"\nYou may still spend {left:.2%} of the budget.\n")
        plotted = run("status", "--plot", str(tmp_path / "a.svg"))
        assert (plotted.exit_code, "which a service does not tell" in plotted.stderr) == (2, True)
        sums = ("--sum", "age", "--by", "sex", "--share", "0.1%")
        before, priced = (
            len(session.ledger().lines),
            session.measure_sum("age", "sex", share=0.001, dry_run=True),
        )
        assert json.loads(run("measure", *sums, "--dry-run", "--json").stdout) == priced.to_dict()
        unpaid = run("measure", *sums, "--at-most", "0")
        assert (unpaid.exit_code, "Pay it with at_most=0.001" in unpaid.stderr) == (4, True)
        assert len(session.ledger().lines) == before
        for _ in range(2):
            paid = run("measure", *sums, "--json", "--request-id", "command")
            assert json.loads(paid.stdout) == priced.to_dict()
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


def test_a_slow_or_wild_client_harms_nobody(running: Running, ann: str) -> None:
    parts = [b"GET / HT", b"\x00\xff\r\n\r\n", b"POST /sign-in HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"]
    with pmw.connect(running.url, token=ann) as session:
        slow = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(50)]
        for place, connection in enumerate(slow):
            connection.sendall(parts[place % 3])
        assert session.ask("age >= 30").count > 0
        for connection in slow:
            connection.close()
        assert session.ask("age >= 31").count > 0


def test_an_export_that_is_not_read_keeps_nobody_waiting_but_its_own_user(
    running: Running, ann: str, users: UsersFile
) -> None:
    bea = users.add(User("bea", Role.READER, Fraction(0)))

    def exported(token: str) -> http.client.HTTPConnection:
        made = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        path = "/sessions/study/export?rows=1000000"  # more than any system keeps for a client that is slow
        made.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return made

    with ExitStack() as held:
        responses = [
            held.enter_context(held.enter_context(closing(exported(token))).getresponse())
            for token in (ann, bea, ann)
        ]
        assert [one.status for one in responses] == [200, 200, 429]
        assert responses[2].getheader("Retry-After") == "1"
        with pmw.connect(running.url, token=ann) as session:
            assert session.ask("age >= 30").count > 0
            held.close()  # who goes is done, and may ask again
            session.export(users.path.parent / "rows.csv", pmw.RowPlan(10))


def test_many_idle_connections_shut_nobody_out(running: Running, ann: str) -> None:
    with ExitStack() as held:
        for _ in range(520):
            held.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/health", timeout=60) as response:
            assert response.status == 200
        with pmw.connect(running.url, token=ann) as session:
            assert session.budget().share == pytest.approx(0.85)


PAGE = (Path(__file__).parents[3] / "docs" / "service.md").read_text()
EXAMPLES = re.findall(r"^curl .*$", PAGE, re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_curl_example_runs(running: Running, users: UsersFile, tmp_path: Path) -> None:
    assert len(EXAMPLES) >= 6
    token = users.add(User("eva", Role.ANALYST, Fraction(1, 5)), beyond=True)
    for example in EXAMPLES:
        command = example.replace("http://127.0.0.1:8000", running.url)
        ran = subprocess.run(
            ["/bin/sh", "-c", command.replace("curl ", "curl -sS --fail ", 1)],
            cwd=tmp_path,
            env={**os.environ, "TOKEN": token},
            capture_output=True,
            check=False,
        )
        assert ran.returncode == 0, (example, ran.stderr)
        if "-o" not in command.split():
            assert "error" not in json.loads(ran.stdout)
    assert (tmp_path / "study.model").stat().st_size > 1000


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
