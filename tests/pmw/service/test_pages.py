"""The page without a browser: what it shows, to whom, and that nothing anybody chose becomes HTML."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pmw
from pmw.display.charts import Bar, bar_chart
from pmw.errors import PMWError, SessionCorruptError, SessionLockedError, StoreError
from pmw.service.users import Role, UsersFile
from queries import CategoricalAttribute, Domain, IntegerAttribute, Lookup
from tests.worlds import PEOPLE, WHOLE_YEARS

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from fastapi.testclient import TestClient

from pmw.service.app import create_app
from pmw.service.hosting import hosting
from pmw.service.page_facts import asked_by, attributes_of, chart_of

AddUser = Callable[..., Any]
HOSTILE = "<script>alert(1)</script>&\"'"


def texts(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


def sign_in(client: TestClient, headers: dict[str, str]) -> None:
    token = headers["Authorization"].partition(" ")[2]
    answer = client.post("/sign-in", data={"token": token}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert token not in answer.headers["set-cookie"]


def test_a_token_signs_in_and_out_and_a_wrong_one_is_told(client: TestClient, add: AddUser) -> None:
    assert "Sign in" in client.get("/").text
    refused = client.post("/sign-in", data={"token": "nobody's"})
    assert "not good" in refused.text
    sign_in(client, add("ann"))
    page = client.get("/").text
    assert "/page/study" in page
    assert "Sign out ann" in page
    client.post("/sign-out")
    assert client.get("/page/study").status_code == 401


def test_an_answer_is_a_sentence_a_table_and_a_chart(client: TestClient, add: AddUser) -> None:
    headers = add("ann")
    page = client.post("/page/study/ask", data={"question": "age >= 40 AND sex = 'Male'"}, headers=headers)
    assert page.status_code == 200
    assert "holds the true count with at least 95% confidence" in page.text
    assert '<svg role="img"' in page.text
    assert 'class="range"' in page.text
    stored = client.post("/sessions/study/ask", json={"where": "age >= 40 AND sex = 'Male'"}, headers=headers)
    assert f"{stored.json()['count']:,.0f}" in page.text  # the same answer as over the interface
    assert "age 40 to 59 and sex Male" in client.get("/page/study", headers=headers).text  # in the history
    grouped = client.post(
        "/page/study/ask", data={"question": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}, headers=headers
    ).text
    assert grouped.count('<rect class="model"') == 4
    mean = client.post("/page/study/ask", data={"question": "SELECT AVG(age) FROM people"}, headers=headers)
    assert "avg(age)" in mean.text
    both = {"question": "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex"}
    several = client.post("/page/study/ask", data=both, headers=headers).text
    assert several.count('<svg role="img"') == 2  # a chart of each
    assert "<title>mean with its intervals</title>" in several
    assert several.count('class="range"') >= 4
    assert "Each interval holds the true value" in several


def test_a_chart_shows_bars_below_zero_and_what_is_infinite_is_left_out() -> None:
    bars = [
        Bar("a", -2.0, "-2", interval=(-3.0, -1.0)),
        Bar("<b>", 1.0, "1", interval=(0.0, 3.0)),
        Bar("c", math.nan, "none"),
        Bar("d", 1.0, "1", interval=(-math.inf, 4.0)),
    ]
    ((picture, panel),) = chart_of("<i>", bars)
    chart = bar_chart(picture, panel)
    assert "<desc>a: -2, -3 to -1; &lt;b&gt;: 1, 0 to 3</desc>" in chart
    found = [float(width) for width in re.findall(r'class="model"[^>]* width="([0-9.]+)"', chart)]
    assert found == [88.5, 44.3]  # 265.6 units for -3 to 3
    assert "<i>" not in chart
    assert chart_of("nothing", []) == ()


def test_an_error_is_marked_in_its_line(client: TestClient, add: AddUser) -> None:
    statement = "SELECT sex,\r\n\tCOUNT(*)\r\nFROM people\r\n\tGROUP BYY sex\r\nORDER BY sex"
    page = client.post("/page/study/ask", data={"question": statement}, headers=add("ann")).text
    marked = "<pre>SELECT sex,\n\tCOUNT(*)\nFROM people\n\tGROUP BYY sex\n\t      ^\nORDER BY sex</pre>"
    assert "Not answered" in page
    assert marked in page


def test_what_a_browser_is_refused_is_a_page(client: TestClient, add: AddUser) -> None:
    sign_in(client, add("ann"))
    refused = [client.get("/page/other"), client.get("/page/study/custodian"), client.get("/page/study/pay")]
    client.cookies.clear()
    refused += [client.get("/page/study"), client.post("/page/study/ask", data={"question": ""})]
    assert [one.status_code for one in refused] == [403, 403, 405, 401, 401]
    for one in refused[:2]:
        assert "<h1>Not shown</h1>" in one.text
        assert 'href="/"' in one.text
    for one in refused[3:]:
        assert 'action="/sign-in"' in one.text
        assert "sign in again" in one.text
        assert one.headers["www-authenticate"] == "Bearer"
        assert "default-src 'none'" in one.headers["content-security-policy"]


@pytest.mark.parametrize("kind", [StoreError, SessionCorruptError, SessionLockedError])
def test_a_session_that_fails_is_told_on_a_page_and_logged(
    client: TestClient, add: AddUser, log: io.StringIO, monkeypatch: pytest.MonkeyPatch, kind: type[PMWError]
) -> None:
    def failing(*_: object) -> None:
        raise kind("/secret/study.pmw is damaged")

    monkeypatch.setattr("pmw.service.pages.answer_of", failing)
    page = client.post("/page/study/ask", data={"question": "age >= 40"}, headers=add("ann"))
    assert page.status_code == 503
    assert "the custodian finds the reason" in page.text
    assert "secret" not in page.text
    assert kind.__name__ in log.getvalue()
    assert '"session": "study"' in log.getvalue()


def test_a_price_is_told_before_it_is_paid(client: TestClient, add: AddUser) -> None:
    headers, question = add("ann", Fraction(1)), "sex = 'Male' AND region = 'north'"
    asked = {"question": question, "within": "30"}

    def ledger() -> Any:
        return client.get("/sessions/study/ledger", headers=headers).json()

    before = ledger()["spent"]
    page = client.post("/page/study/price", data=asked, headers=headers).text
    assert "of the budget: the table of sex, region would be measured" in page
    assert ledger()["spent"] == before
    told = re.findall(r'name="price" value="([^"]+)"', page)[0]
    for price in ("", "nan", "0", "1e-9"):  # below what it costs: the price is told again
        answer = client.post("/page/study/pay", data={**asked, "price": price}, headers=headers).text
        assert "Not answered" in answer if price == "" else "Pay, and answer" in answer
    assert ledger()["spent"] == before
    paid = client.post("/page/study/pay", data={**asked, "price": told}, headers=headers).text
    assert "holds the true count" in paid
    paid_for = ledger()
    assert paid_for["spent"] > before
    assert paid_for["entries"][-1]["booked"] == [{"analyst": "ann", "part": "1"}]
    assert "It is free" in client.post("/page/study/price", data=asked, headers=headers).text
    again = client.post("/page/study/pay", data={**asked, "price": "0.0"}, headers=headers).text
    assert "holds the true count" in again
    assert ledger()["spent"] == paid_for["spent"]
    for wrong in ("", "x", "-1", "nan"):
        told = client.post("/page/study/price", data={**asked, "within": wrong}, headers=headers).text
        assert "Not answered" in told


def test_without_a_share_nothing_is_paid_and_a_reader_is_offered_no_price(
    client: TestClient, add: AddUser
) -> None:
    headers = add("ann", Fraction(1, 1000))
    asked = {"question": "sex = 'Male' AND region = 'north'", "within": "30"}
    page = client.post("/page/study/price", data=asked, headers=headers).text
    assert "more than is left for you" in page
    assert "Pay, and answer" not in page
    refused = client.post("/page/study/pay", data={**asked, "price": "1"}, headers=headers).text
    assert "Not answered" in refused
    assert client.get("/sessions/study", headers=headers).json()["you"]["spent"] == 0
    page = client.get("/page/study", headers=add("eve", 0, Role.READER)).text
    assert "answers that cost nothing" in page
    assert "What does it cost?" not in page


@pytest.mark.parametrize(
    ("fields", "question"),
    [
        ({}, ""),
        ({"low age": ["30"], "high age": ["39"]}, '"age" BETWEEN 30 AND 39'),
        ({"low age": ["30"], "in sex": ["1"]}, "\"age\" >= 30 AND \"sex\" IN ('Male')"),
        ({"high age": ["3' OR 1"]}, "\"age\" <= '3'' OR 1'"),
        ({"in sex": ["7", "x", "9" * 5000, "²", "0"]}, "\"sex\" IN ('Female')"),
        ({"in member": ["0"], "by": ["sex"]},
         'SELECT "sex", COUNT(*) FROM "people" WHERE "member" IN (true) GROUP BY "sex"'),
        ({"by": ["nobody"]}, ""),
    ],
)  # fmt: skip
def test_the_form_writes_a_question(fields: dict[str, list[str]], question: str) -> None:
    assert asked_by(fields, WHOLE_YEARS.domain) == question


def test_the_form_shows_what_it_wrote_and_the_history_is_a_file(client: TestClient, add: AddUser) -> None:
    headers = add("ann")
    page = client.post("/page/study/build", data={"low age": "30", "by": "sex"}, headers=headers).text
    assert "SELECT &#34;sex&#34;, COUNT(*) FROM &#34;people&#34; WHERE &#34;age&#34; &gt;= 30" in page
    client.post("/page/study/ask", data={"question": "age >= 40"}, headers=headers)
    rows = list(csv.reader(io.StringIO(client.get("/page/study/history.csv", headers=headers).text)))
    assert rows[0] == ["question", "count", "low", "high", "source"]
    assert rows[1][0] == "age 40 to 59"
    other = client.get("/page/study/history.csv", headers=add("bob")).text
    assert len(other.splitlines()) == 1  # of one's own questions alone


def test_the_custodian_sees_who_spent_what_and_nobody_else_does(client: TestClient, add: AddUser) -> None:
    ann, custodian = add("ann"), add("carol", 1, Role.CUSTODIAN)
    client.post("/page/study/ask", data={"question": "age >= 40 AND region = 'north'"}, headers=ann)
    page = client.get("/page/study/custodian", headers=custodian).text
    assert re.findall(r"<title>[^<]*: the budget by (\w+)", page) == ["analyst", "event"]
    page = texts(page)
    for text in ("Who spent what", "ann", "Ledger", "age 40 to 59 and region north", "pmw user"):
        assert text in page
    report = client.get("/page/study/report", headers=custodian)
    assert "<title>Report on" in report.text
    for path in ("custodian", "report"):
        assert client.get(f"/page/study/{path}", headers=ann).status_code == 403
        assert client.get(f"/page/other/{path}", headers=custodian).status_code == 403


def test_what_somebody_chose_is_text(tmp_path: Path, users: UsersFile, add: AddUser) -> None:
    attributes = CategoricalAttribute(HOSTILE, (HOSTILE, "b")), IntegerAttribute("age", 0, 3)
    domain = Domain(attributes, name=HOSTILE)
    table = pd.DataFrame({HOSTILE: [HOSTILE, "b"] * 50, "age": [1, 2] * 50})
    path = tmp_path / "hostile.pmw"
    table.to_csv(tmp_path / "hostile.csv", index=False)
    pmw.open_session(tmp_path / "hostile.csv", domain, epsilon=1, path=path).close()
    custodian = add(HOSTILE, 1, Role.CUSTODIAN)
    with hosting([path], users) as service, TestClient(create_app(service)) as client:
        by = {"by": HOSTILE, f"in {HOSTILE}": "0"}
        pages = [
            client.get("/page/hostile", headers=custodian),
            client.post("/page/hostile/ask", data={"question": HOSTILE}, headers=custodian),
            client.post("/page/hostile/build", data=by, headers=custodian),
            client.get("/page/hostile/custodian", headers=custodian),
        ]
        question = re.findall(r"<textarea[^>]*>([^<]*)</textarea>", pages[2].text)
        assert question
        pages.append(client.post("/page/hostile/ask", data={"question": "age >= 1"}, headers=custodian))
        for page in pages:
            assert page.status_code == 200
            assert "<script>alert" not in page.text
            assert "&lt;script&gt;" in page.text
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "data:" not in policy


def test_pages_load_nothing_but_their_own(client: TestClient, add: AddUser) -> None:
    page = client.get("/page/study", headers=add("ann")).text
    assert set(re.findall(r'(?:src|href)="([^"#]*)', page)) <= {
        "/static/display.css", "/static/page.css", "/static/page.js", "/static/icon.svg", "/", "/page/study",
        "/page/study/history.csv", "",
    }  # fmt: skip
    kinds = {"display.css": "text/css", "page.css": "text/css", "page.js": "javascript", "icon.svg": "svg"}
    for name, kind in kinds.items():
        file = client.get(f"/static/{name}")
        assert kind in file.headers["content-type"]
        assert "http" not in file.text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert client.get("/static/../pages.py").status_code == 404


def test_the_page_tells_the_lookups_of_an_attribute() -> None:
    regions = Lookup("regions", "region", {"north": {"side": "cold", "short": "N"}})
    listed = attributes_of(replace(PEOPLE.domain, lookups=(regions,)))
    also = {one["name"]: one["also"] for one in listed}
    assert also["region"] == "missing, other, lookup regions (side, short)"
    assert "lookup" not in also["sex"]
