"""Every answer has an address: to open it asks, records and spends nothing, whoever opens it."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shlex
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pandas as pd
import pytest

import pmw
from pmw.service.users import Role, UsersFile
from queries import CategoricalAttribute, Domain, IntegerAttribute

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from fastapi.testclient import TestClient

from pmw.service.app import create_app
from pmw.service.hosting import Service, hosting
from pmw.service.pages import address_of, elsewhere, exports_of, path_of
from tests.pmw.service.studies import opened_study

AddUser = Callable[..., Any]
QUESTIONS = (
    "",
    "age >= 40 AND sex = 'Male'",
    "SELECT sex, COUNT(*) FROM people GROUP BY sex",
    "SELECT region, AVG(age) AS mean, COUNT(*) FROM people GROUP BY region ORDER BY mean",
)


def standing(service: Service) -> tuple[Any, ...]:
    """Return all that a request may leave behind in a session, and in the history."""
    session = service.hosted(service.users.listed()[0], "study").session
    return (
        session.state.ledger.spent,
        session.state.asked,
        session.bookings(),
        session.history(10_000),
        service.history.count("study", None),
    )


def test_a_question_that_was_never_asked_is_offered_and_never_asked(
    client: TestClient, service: Service, add: AddUser
) -> None:
    headers, before = add("ann", 1), standing(service)
    for question in QUESTIONS:
        for file in ("answer.csv", "answer.json", "chart-1.svg"):
            asked = {"q": question, "within": "", "fresh": "1"}
            told = client.get(f"/page/study/{file}", params=asked, headers=headers)
            assert told.status_code == 400
            assert "was never asked" in told.text
        for more in ({}, {"within": "", "fresh": "1"}):
            page = client.get("/page/study", params={"q": question, **more}, headers=headers).text
            assert "<h2>Not asked yet</h2>" in page
            assert re.search(r"<p [^>]*>The question (costs|is free)[^<]*</p>", page)
            assert "<h2>Answer</h2>" not in page
        client.head("/page/study", params={"q": question}, headers=headers)
        assert standing(service) == before


def test_an_answer_is_sent_on_by_its_address_and_taken_elsewhere(
    client: TestClient, service: Service, add: AddUser
) -> None:
    ann, bob, eve = add("ann", 1), add("bob", 1), add("eve", 0, Role.READER)
    for question in QUESTIONS:
        form = {"q": question, "price": "1"}
        sent = client.post("/page/study/ask", data=form, headers=ann, follow_redirects=False)
        assert sent.status_code == 303
        address = sent.headers["location"]
        assert urlsplit(address).path == "/page/study"
        fields = parse_qs(urlsplit(address).query, keep_blank_values=True)
        assert fields.pop("q") == [question]
        assert set(fields) <= {"charged"}
        before = standing(service)
        form = {"sql": question} if question.startswith("SELECT") else {"where": question}
        pages = [client.get(address, headers=headers).text for headers in (ann, bob, eve)]
        for page in pages:
            assert "<h2>Answer</h2>" in page
        assert standing(service) == before  # nor is it bob's question now
        stored = client.get("/page/study/answer.json", params={"q": question}, headers=bob).json()
        assert stored == client.post("/sessions/study/ask", json=form, headers=ann).json()
        assert before[0] == standing(service)[0]
        assert ann["Authorization"].partition(" ")[2] not in pages[0]
        texts = [html.unescape(text) for text in re.findall(r'<pre class="code">([^<]*)</pre>', pages[0])]
        assert ["PMW_TOKEN" in text for text in texts] == [True, False, True]
        compile(texts[0], "page", "exec")
        assert "rows" in client.post("/sessions/study/ask", json={"sql": texts[1]}, headers=ann).json()
    page = client.get("/page/study", params={"q": "age >= 33"}, headers=eve).text
    assert "The question is free: nothing is to be tested." in page


def test_nobody_is_shown_what_others_asked_nor_the_session_of_others(
    client: TestClient, add: AddUser
) -> None:
    ann, bob, other = add("ann", 1), add("bob", 1), add("oda", 1, sessions=("else",))
    client.post("/page/study/ask", data={"q": "age >= 43"}, headers=ann)
    for path in ("", "/history", "/history?find=43", "/history.csv"):
        assert ">= 43" in html.unescape(client.get(f"/page/study{path}", headers=ann).text), path
        told = client.get(f"/page/study{path}", headers=bob).text
        assert ">= 43" not in html.unescape(told), path
    assert client.get("/page/study/history?everybody=1", headers=bob).status_code == 403
    paths = (
        "",
        "/table",
        "/history",
        "/history.csv",
        "/answer.csv",
        "/answer.json",
        "/chart-1.svg",
        "/build",
    )
    seen = {client.get(f"/page/study{path}", params={"q": "age >= 43"}, headers=other).text for path in paths}
    none = {client.get(f"/page/no-such{path}", params={"q": "x"}, headers=other).text for path in paths}
    assert len(seen) == 1
    assert seen == none
    assert "none of your sessions" in seen.pop()


def test_a_token_that_expired_gets_the_form_to_sign_in_and_then_the_page(
    client: TestClient, service: Service, users: UsersFile, add: AddUser
) -> None:
    ann = add("ann", 1)
    address = "/page/study?q=age+%3E%3D+40&choices=x%3D%22%3E"
    expired = add("old", 1, expires=date(2020, 1, 1))
    page = client.get(address, headers=expired)
    assert page.status_code == 401
    assert f'<input type="hidden" name="to" value="{html.escape(address)}">' in page.text
    token = ann["Authorization"].partition(" ")[2]
    sent = client.post("/sign-in", data={"token": token, "to": address}, follow_redirects=False)
    assert sent.headers["location"] == address
    for elsewhere_ in (
        "//evil.example/",
        "https://evil.example",
        "/page/\\evil",
        "/page/a\r\nb",
        "/sign-out",
        "x",
    ):
        sent = client.post("/sign-in", data={"token": token, "to": elsewhere_}, follow_redirects=False)
        assert sent.headers["location"] == "/"
    users.revoke("ann")
    again = client.post("/page/study/ask", data={"q": "age >= 40"})
    assert again.status_code == 401
    assert 'name="to"' not in again.text  # what spends is not repeated after signing in


def test_a_session_that_closes_in_between_charges_nothing_and_answers(
    tmp_path: Path, users: UsersFile, add: AddUser
) -> None:
    path = opened_study(tmp_path)
    ann = add("ann", 1)
    asked = {"q": "sex = 'Male' AND region = 'north'", "within": "100"}
    with hosting([path], users) as service, TestClient(create_app(service)) as client:
        page = client.get("/page/study", params=asked, headers=ann).text
        price = re.findall(r'name="price" value="([^"]+)"', page)[0]
        session = service.hosted(users.listed()[0], "study").session
        session.finalize()
        spent = session.state.ledger.spent
        paid = client.post("/page/study/ask", data={**asked, "price": price}, headers=ann)
        assert paid.status_code == 200
        assert "Not answered" in paid.text
        told = client.post("/page/study/ask", data={"q": asked["q"]}, headers=ann).text
        assert "<h2>Answer</h2>" in told
        assert "The session is closed" in told
        assert session.state.ledger.spent == spent
        session.close()
        assert client.get("/page/study", params={"q": "age >= 40"}, headers=ann).status_code in (400, 503)


def test_the_same_elsewhere_is_quoted_for_its_language() -> None:
    domain = Domain((IntegerAttribute("a", 0, 3),), name='t"; x')
    question = "a >= 1 -- '\"$(reboot)`x`\\\nAND a < 3"
    python, sql, curl = (text for _, text in elsewhere("http://h", "s #'?", question, domain))
    assert repr(question) in python
    assert "'http://h/sessions/s%20%23%27%3F'" in python
    assert sql == f'SELECT COUNT(*) FROM "t""; x" WHERE {question}'
    words = shlex.split(curl.replace('"Authorization: Bearer $PMW_TOKEN"', "token"))
    assert json.loads(words[words.index("-d") + 1]) == {"where": question}
    assert words[-1] == "http://h/sessions/s%20%23%27%3F/ask"
    assert len(elsewhere("http://h", "s", '{"a": 1}', domain)) == 2  # a structured condition is no SQL


def test_an_answer_is_a_file_with_a_column_for_each_key(client: TestClient, add: AddUser) -> None:
    ann, question = add("ann", 1), "SELECT region, sex, COUNT(*) AS n FROM people GROUP BY region, sex"
    client.post("/page/study/ask", data={"q": question, "price": "1"}, headers=ann)
    page = client.get("/page/study", params={"q": question}, headers=ann)
    assert re.findall(r'<th scope="col" class="text">([^<]+)</th>', page.text)[:2] == ["region", "sex"]
    file = client.get("/page/study/answer.csv", params={"q": question}, headers=ann)
    assert file.headers["content-disposition"] == 'attachment; filename="answer.csv"'
    header, *rows = csv.reader(io.StringIO(file.text))
    assert header == ["region", "sex", "n", "n_low", "n_high", "n_source"]
    assert len(rows) == 24
    stored = client.get("/page/study/answer.json", params={"q": question}, headers=ann).json()
    assert [int(row[2]) for row in rows] == [round(one["n"]["value"]) for one in stored["rows"]]
    drawing = client.get("/page/study/chart-1.svg", params={"q": question}, headers=ann)
    assert drawing.headers["content-type"] == "image/svg+xml"
    tree = ElementTree.fromstring(drawing.text)  # noqa: S314 - our own
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(tree.findall("{*}rect[@class='group-0']")) == 6 + 1  # and one in the legend
    assert client.get("/page/study/chart-2.svg", params={"q": question}, headers=ann).status_code == 400


def test_no_cell_of_a_file_is_a_formula(tmp_path: Path, users: UsersFile, add: AddUser) -> None:
    values = ("=1+1", "-2", "@x", "+x", "\uff1dx", "plain")
    domain = Domain((CategoricalAttribute("=k", values),), name="t")
    pd.DataFrame({"=k": list(values) * 20}).to_csv(tmp_path / "t.csv", index=False)
    pmw.open_session(tmp_path / "t.csv", domain, epsilon=1, path=tmp_path / "t.pmw").close()
    ann = add("ann", 1)
    with hosting([tmp_path / "t.pmw"], users) as service, TestClient(create_app(service)) as client:
        question = 'SELECT "=k", COUNT(*) AS "=n" FROM t GROUP BY "=k"'
        client.post("/page/t/ask", data={"q": question}, headers=ann)
        file = client.get("/page/t/answer.csv", params={"q": question}, headers=ann).text
        header, *rows = csv.reader(io.StringIO(file))
        assert header == ["'=k", "'=n", "'=n_low", "'=n_high", "'=n_source"]
        assert [row[0] for row in rows] == ["'=1+1", "-2", "'@x", "'+x", "'\uff1dx", "plain"]
        history = client.get("/page/t/history.csv", headers=ann).text
        assert next(csv.reader(io.StringIO(history))) == ["time", "question"]


def test_a_session_of_any_name_is_reached_by_its_links(
    tmp_path: Path, users: UsersFile, add: AddUser
) -> None:
    name = "a b#c?100%&d=é"
    opened_study(tmp_path).rename(tmp_path / f"{name}.pmw")
    for file in tmp_path.glob("study.pmw*"):
        file.rename(tmp_path / file.name.replace("study", name, 1))
    carol = add("carol", 1, Role.CUSTODIAN)
    with hosting([tmp_path / f"{name}.pmw"], users) as service, TestClient(create_app(service)) as client:
        client.post("/sign-in", data={"token": carol["Authorization"].partition(" ")[2]})
        links, seen = {path_of(name)}, set[str]()
        assert f'href="{html.escape(path_of(name))}"' in client.get("/").text
        while links - seen:
            link = sorted(links - seen)[0]
            seen.add(link)
            page = client.get(link)
            assert page.status_code == 200, link
            if "text/html" in page.headers["content-type"] and "/report" not in link and "q=" not in link:
                found = map(html.unescape, re.findall(r'(?:href|action)="(/page/[^"]*)"', page.text))
                links |= {one for one in found if not one.endswith("/ask")}
        assert {path_of(name) + path for path in ("/table", "/history", "/custodian", "/report")} <= seen
        assert client.get(f"{exports_of(name)}?format=model").status_code == 200
        posted = client.post(f"{path_of(name)}/ask", data={"q": "age >= 40"}, follow_redirects=False)
        assert client.get(posted.headers["location"]).status_code == 200


def test_addresses_leave_out_what_is_empty_but_for_the_question() -> None:
    assert path_of("%2f/..") == "/page/%252f%2F.."
    assert address_of("/page/a", {"q": "", "choices": ""}) == "/page/a?q="
    assert address_of("/page/a", {"q": "a = 'x&y'", "at": "2"}) == "/page/a?q=a+%3D+%27x%26y%27&at=2"


def test_what_is_left_of_a_share_is_a_bar_with_a_warning_near_its_end(
    client: TestClient, add: AddUser
) -> None:
    from pmw.service.pages import share_of
    from pmw.service.users import User
    from pmw.session.accounts import Booked

    page = client.get("/page/study", headers=add("ann")).text
    assert re.search(r'<meter [^>]*value="0.0000" aria-labelledby="share-text">', page)
    user = User("ann", Role.ANALYST, Fraction(1, 2))

    def told(spent: Fraction) -> tuple[float, str]:
        found = share_of(
            user, Booked("ann", spent, 3, Fraction(1, 2), max(Fraction(1, 2) - spent, Fraction(0)))
        )
        return found["used"], found["warning"]

    assert told(Fraction(1, 4)) == (0.5, "")
    assert told(Fraction(9, 20)) == (0.9, "")
    assert told(Fraction(46, 100))[1].startswith("Less than a tenth")
    assert told(Fraction(1, 2)) == (1.0, told(Fraction(3, 5))[1])
    assert "untested" in told(Fraction(1, 2))[1]
    of_all = share_of(user, Booked("ann", Fraction(1, 100), 3, Fraction(1, 2), Fraction(1, 40)))
    assert of_all["sentence"].startswith("You may still spend 2.50% of the whole budget. Your share is 50.0%")
    assert of_all["used"] == pytest.approx(2 / 7)


def test_values_are_listed_each_with_its_question(client: TestClient, add: AddUser) -> None:
    ann = add("ann", 1)
    page = client.get("/page/study/table", headers=ann).text
    links = [html.unescape(link) for link in re.findall(r'<li><a href="([^"]+)"', page)]
    conditions = [parse_qs(urlsplit(link).query)["q"][0] for link in links]
    for condition in (
        '"age" = 20',
        "\"sex\" = 'Male'",
        '"sex" IS NULL',
        "\"region\" = '(other)'",
        '"member" = true',
    ):
        assert condition in conditions
    for link in links[::7]:
        assert "Not asked yet" in client.get(link, headers=ann).text  # each can be read


def test_many_groups_are_offered_answered_and_cut_with_a_word(
    tmp_path: Path, users: UsersFile, add: AddUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.service.limits.MOST_CELLS", 1_000)  # for 400 groups; 20,000 would be slow
    ann, question = add("ann", 1), "SELECT a, b, COUNT(*) FROM t GROUP BY a, b"
    more = "SELECT a, b, COUNT(*), AVG(a), AVG(b) FROM t GROUP BY a, b"
    domain = Domain((IntegerAttribute("a", 0, 19), IntegerAttribute("b", 0, 19)), name="t")
    pd.DataFrame({"a": range(20), "b": range(20)}).to_csv(tmp_path / "t.csv", index=False)
    pmw.open_session(tmp_path / "t.csv", domain, epsilon=1, path=tmp_path / "wide.pmw").close()
    with hosting([tmp_path / "wide.pmw"], users) as service, TestClient(create_app(service)) as wide:
        assert "Not asked yet" in wide.get("/page/wide", params={"q": question}, headers=ann).text
        page = wide.post("/page/wide/ask", data={"q": question}, headers=ann).text
        assert "The first 200 of 400 rows; the files hold all." in page
        assert "6 of 20 lines. 120 of 400 points." in page
        assert page.count("<tr") < 210
        file = wide.get("/page/wide/answer.csv", params={"q": question}, headers=ann).text
        assert len(file.splitlines()) == 401
        assert "Not answered" in wide.get("/page/wide", params={"q": more}, headers=ann).text
