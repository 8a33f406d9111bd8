"""The page without a browser: what it shows, to whom, and that nothing anybody chose becomes HTML."""

from __future__ import annotations

import datetime
import html
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
from pmw.display.charts import Bars, Lines
from pmw.errors import SessionCorruptError
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable
from pmw.service.shown_answers import Chart, chart_of_count, charts_of_table
from pmw.service.users import Role, UsersFile
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    Lookup,
    TimeAttribute,
    parse_sql,
    parse_where,
)
from tests.worlds import PEOPLE, WHOLE_YEARS, World

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from fastapi.testclient import TestClient

from pmw.service.app import create_app
from pmw.service.hosting import Service, hosting
from pmw.service.question_form import asked_by, browsed, described, examples_of

AddUser = Callable[..., Any]
HOSTILE = "<script>alert(1)</script>&\"'"


def texts(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


def sign_in(client: TestClient, headers: dict[str, str]) -> None:
    token = headers["Authorization"].partition(" ")[2]
    answer = client.post("/sign-in", data={"token": token}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert token not in answer.headers["set-cookie"]


def test_an_answer_is_a_sentence_a_table_and_a_chart(client: TestClient, add: AddUser) -> None:
    headers, both = add("ann"), "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex"

    def asked(question: str) -> str:
        form = {"q": question, "price": "1"}
        return client.post("/page/study/ask", data=form, headers=headers).text

    page = asked("age >= 40 AND sex = 'Male'")
    assert "holds the true count with at least 95% confidence" in page
    assert '<svg role="img"' in page
    assert 'class="range"' in page
    stored = client.post("/sessions/study/ask", json={"where": "age >= 40 AND sex = 'Male'"}, headers=headers)
    assert f"{stored.json()['count']:,.0f}" in page  # the same answer as over the interface
    assert "age &gt;= 40 AND sex = &#39;Male&#39;</a>" in client.get("/page/study", headers=headers).text
    grouped = asked("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    assert grouped.count('<rect class="model"') == 4
    assert "<figcaption>All 4 bars. Lines across bars are intervals." in grouped
    several = asked(both)
    assert several.count('<svg role="img"') == 2  # a chart of each
    assert "<title>mean with its intervals</title>" in several
    assert several.count('class="range"') >= 4
    assert "Each interval of a tested or measured number holds the true value" in several
    refused = asked("SELECT sex,\r\n\tCOUNT(*)\r\nFROM people\r\n\tGROUP BYY sex\r\nORDER BY sex")
    marked = "<pre>SELECT sex,\n\tCOUNT(*)\nFROM people\n\tGROUP BYY sex\n\t      ^\nORDER BY sex</pre>"
    assert "Not answered" in refused
    assert marked in refused


def test_what_a_browser_is_refused_is_a_page(client: TestClient, add: AddUser) -> None:
    sign_in(client, add("ann"))
    refused = [client.get("/page/other"), client.get("/page/study/custodian"), client.get("/page/study/ask")]
    client.cookies.clear()
    refused += [client.get("/page/study"), client.post("/page/study/ask", data={"q": ""})]
    assert [one.status_code for one in refused] == [403, 403, 405, 401, 401]
    for one in refused[:2]:
        assert "<h1>Not shown</h1>" in one.text
        assert 'href="/"' in one.text
    for one in refused[3:]:
        assert 'action="/sign-in"' in one.text
        assert "sign in again" in one.text
        assert one.headers["www-authenticate"] == "Bearer"
        assert "default-src 'none'" in one.headers["content-security-policy"]


def test_a_session_that_fails_is_told_on_a_page_and_logged(
    client: TestClient, add: AddUser, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise SessionCorruptError("/secret/study.pmw is damaged")

    monkeypatch.setattr("pmw.service.pages.done", failing)
    page = client.post("/page/study/ask", data={"q": "age >= 40"}, headers=add("ann"))
    assert page.status_code == 503
    assert "the custodian finds the reason" in page.text
    assert "secret" not in page.text
    assert '"error": "SessionCorruptError"' in log.getvalue()
    assert '"session": "study"' in log.getvalue()


def test_a_price_is_told_before_it_is_paid(client: TestClient, add: AddUser) -> None:
    headers, question = add("ann", Fraction(1)), "sex = 'Male' AND region = 'north'"
    asked = {"q": question, "within": "30"}

    def ledger() -> Any:
        return client.get("/sessions/study/ledger", headers=headers).json()

    before = ledger()["spent"]
    page = client.get("/page/study", params=asked, headers=headers).text
    assert re.search(r"A bar of ± 30 costs [0-9.]+% of the budget[.]", page)
    assert ledger()["spent"] == before
    told = re.findall(r'name="price" value="([^"]+)"', page)[0]
    for price in ("", "0", "1e-9"):  # below what it costs: the price is told again
        answer = client.post("/page/study/ask", data={**asked, "price": price}, headers=headers).text
        assert f'name="price" value="{told}">Pay, and answer' in answer
        assert 'name="within" inputmode="decimal" value="30"' in answer
    assert (
        "Not answered" in client.post("/page/study/ask", data={**asked, "price": "nan"}, headers=headers).text
    )
    assert ledger()["spent"] == before
    paid = client.post("/page/study/ask", data={**asked, "price": told}, headers=headers).text
    assert "holds the true count" in paid
    assert f"It charged {float(told):.2%} of the budget when it was asked." in paid
    paid_for = ledger()
    assert paid_for["spent"] > before
    assert paid_for["entries"][-1]["booked"] == [{"analyst": "ann", "part": "1"}]
    assert "A bar of ± 30 is free" in client.get("/page/study", params=asked, headers=headers).text
    again = client.post("/page/study/ask", data={**asked, "price": "0.0"}, headers=headers).text
    assert "holds the true count" in again
    assert "It charged" not in again
    assert ledger()["spent"] == paid_for["spent"]
    poor = add("poor", Fraction(1, 1000))
    dear = {"q": "member = true AND region = 'south'", "within": "30"}
    page = client.get("/page/study", params=dear, headers=poor).text
    assert "so much is not left" in page
    assert "Pay, and answer" not in page
    refused = client.post("/page/study/ask", data={**dear, "price": "1"}, headers=poor).text
    assert "Not answered" in refused
    assert ledger()["spent"] == paid_for["spent"]
    for wrong in ("x", "-1", "nan"):
        told = client.get("/page/study", params={**asked, "within": wrong}, headers=headers).text
        assert "Not answered" in told
    grouped = {"q": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "within": "30"}
    assert "A bar of ± 30 " in client.get("/page/study", params=grouped, headers=headers).text


def test_what_costs_more_than_a_tenth_is_asked_first(client: TestClient, add: AddUser) -> None:
    headers, asked = add("ann", "1/2"), {"q": "age >= 40 AND region = 'north'"}

    def spent() -> float:
        return float(client.get("/sessions/study/you", headers=headers).json()["spent"])

    page = client.post("/page/study/ask", data=asked, headers=headers).text
    price = re.findall(r'name="price" value="([^"]+)">Pay, and answer', page)[0]
    assert f"This can cost {float(price):.2%} of the budget; nothing was asked or spent yet." in page
    assert "<h2>Answer</h2>" not in page
    assert spent() == 0
    answer = client.post("/page/study/ask", data={**asked, "price": price}, headers=headers).text
    assert "<h2>Answer</h2>" in answer
    assert 0 < spent() <= float(price)
    assert f"It charged {spent():.2%} of the budget when it was asked." in answer


def test_intervals_are_promised_above_rows_that_have_one_that_holds_and_a_reader_is_offered_no_price(
    client: TestClient, add: AddUser
) -> None:
    reader, ann, counts = (
        add("rea", 0, Role.READER),
        add("ann", 1),
        "SELECT sex, COUNT(*) FROM people GROUP BY sex",
    )
    statement = "SELECT sex, AVG(age) AS mean FROM people WHERE region = 'north' GROUP BY sex"
    page = client.post("/page/study/ask", data={"q": statement}, headers=reader).text
    assert "unverified" in page
    assert "Each interval" not in page
    assert "Of what was never tested, an interval is what its parts and the declared ends leave." in page
    page = client.post("/page/study/ask", data={"q": counts}, headers=ann).text
    assert "Each interval holds the true value with at least 95% confidence." in page
    assert "never tested" not in page
    page = client.get("/page/study", headers=reader).text
    assert "answers that cost nothing" in page
    assert "<meter" not in page
    assert 'name="within"' not in page


def test_an_address_tells_a_charge_in_one_form_alone(client: TestClient, add: AddUser) -> None:
    headers = add("ann", 1)
    client.post("/page/study/ask", data={"q": "age >= 40"}, headers=headers)
    for told in ("<b>9%", "100000000%", "8.2%", "8.181818%", "all"):
        page = client.get("/page/study", params={"q": "age >= 40", "charged": told}, headers=headers).text
        assert "<h2>Answer</h2>" in page
        assert "It charged" not in page, told


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
        ({"by": ["sex", "sex", "age"]}, 'SELECT "sex", COUNT(*) FROM "people" GROUP BY "sex"'),
        ({"by": ["sex", "age"]}, 'SELECT "sex", "age", COUNT(*) FROM "people" GROUP BY "sex", "age"'),
        ({"also sex": ["missing"]}, '"sex" IS NULL'),
        ({"in sex": ["1"], "also sex": ["other", "missing", "x"], "also age": ["missing"], "low age": ["30"]},
         '("age" >= 30 OR "age" IS NULL) AND '
         "(\"sex\" IN ('Male') OR \"sex\" IS NULL OR \"sex\" = '(other)')"),
    ],
)  # fmt: skip
def test_the_form_writes_a_question(fields: dict[str, list[str]], question: str) -> None:
    assert asked_by(fields, WHOLE_YEARS.domain) == question


def test_the_form_and_the_dictionary_have_times_of_day() -> None:
    start = TimeAttribute("start", datetime.time(6), datetime.time(21, 59, 59), "30 minutes", missing=True)
    domain = Domain((start,), name="visits")
    question = asked_by({"low start": ["8:30"], "high start": ["9:00 pm"], "also start": ["missing"]}, domain)
    assert question == "(\"start\" BETWEEN '8:30' AND '9:00 pm' OR \"start\" IS NULL)"
    parse_where(question, domain)
    assert described(domain) == [("start", "33", "06:00 to 21:59:59", "missing")]
    (shown,) = browsed(domain)
    assert shown["values"][0] == ("06:00..06:29", "")
    assert shown["values"][32] == ("(missing)", '"start" IS NULL')
    parse_where(examples_of(domain)["example"], domain)


def test_the_form_shows_what_it_wrote_and_keeps_what_was_chosen(client: TestClient, add: AddUser) -> None:
    headers, by = add("ann"), ["sex", "age"]
    chosen = {"low age": "30", "in sex": "1", "also sex": "missing", "by": by}
    page = client.get("/page/study/build", params=chosen, headers=headers).text
    assert "SELECT &#34;sex&#34;, &#34;age&#34;, COUNT(*) FROM &#34;people&#34; WHERE &#34;age&#34;" in page
    choices = html.unescape(re.findall(r'name="choices" value="([^"]+)"', page)[0])
    question = html.unescape(re.findall(r"<textarea[^>]*>\n([^<]*)</textarea>", page)[0])
    asked = client.post("/page/study/ask", data={"q": question, "choices": choices}, headers=headers).text
    for text in (page, asked):
        assert 'name="low age" placeholder="20" value="30"' in text
        checked = re.findall(r'name="(in|also) sex" value="([^"]+)" checked', text)
        assert checked == [("in", "1"), ("also", "missing")]
        assert re.findall(r'<option value="([^"]+)" selected', text) == by


def test_a_line_break_of_a_condition_stays(client: TestClient, add: AddUser) -> None:
    headers, question = add("ann", Fraction(1)), "age >= 30 AND\r\nsex = 'Male'"
    page = client.get("/page/study", params={"q": question, "within": "200"}, headers=headers).text
    kept = re.findall(r"<textarea[^>]*>\n([^<]*)</textarea>", page)
    assert list(map(html.unescape, kept)) == ["age >= 30 AND\nsex = 'Male'"]
    told = re.findall(r'name="price" value="([^"]+)"', page)[0]
    data = {"q": html.unescape(kept[0]), "within": "200", "price": told}
    assert "age 30 to 59 and sex Male" in client.post("/page/study/ask", data=data, headers=headers).text


def test_the_custodian_sees_who_spent_what_and_nobody_else_does(client: TestClient, add: AddUser) -> None:
    ann, custodian = add("ann"), add("carol", 1, Role.CUSTODIAN)
    client.post("/page/study/ask", data={"q": "age >= 40 AND region = 'north'", "price": "1"}, headers=ann)
    page = client.get("/page/study/custodian", headers=custodian).text
    assert re.findall(r"<title>[^<]*: the budget by (\w+)", page) == ["analyst", "event"]
    page = texts(page)
    for text in ("Users", "ann", "analyst 42.5% \N{EN DASH} no end", "Ledger", "pmw user"):
        assert text in page
    questions = client.get("/page/study/history", params={"everybody": "1"}, headers=custodian).text
    assert "age &gt;= 40 AND region = &#39;north&#39;</a>" in questions
    report = client.get("/page/study/report", headers=custodian)
    assert "<title>Report on" in report.text
    for path in ("custodian", "report", "history?everybody=1"):
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
            client.get("/page/hostile", params={"q": HOSTILE}, headers=custodian),
            client.post("/page/hostile/ask", data={"q": HOSTILE}, headers=custodian),
            client.get("/page/hostile/build", params=by, headers=custodian),
            client.get("/page/hostile/table", headers=custodian),
            client.get("/page/hostile/history", params={"find": HOSTILE}, headers=custodian),
            client.get("/page/hostile", params={"choices": f"low+age={HOSTILE}"}, headers=custodian),
        ]
        question = html.unescape(re.findall(r"<textarea[^>]*>([^<]*)</textarea>", pages[3].text)[0])
        pages.append(client.post("/page/hostile/ask", data={"q": question}, headers=custodian))
        assert 'class="model"' in pages[-1].text
        pages.append(client.get("/page/hostile/custodian", headers=custodian))
        pages.append(client.get("/page/hostile/history", params={"everybody": "1"}, headers=custodian))
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
        "/page/study/table", "/page/study/history", "",
        "/sessions/study/export?format=csv", "/sessions/study/export?format=model",
    }  # fmt: skip
    kinds = {"display.css": "text/css", "page.css": "text/css", "page.js": "javascript", "icon.svg": "svg"}
    for name, kind in kinds.items():
        file = client.get(f"/static/{name}")
        assert kind in file.headers["content-type"]
        assert "http" not in file.text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert client.get("/static/../pages.py").status_code == 404


def test_the_page_tells_the_lookups_of_an_attribute() -> None:
    regions = Lookup("regions", "region", {"north": {"side": "cold", "short": "N"}})
    also = {name: text for name, _, _, text in described(replace(PEOPLE.domain, lookups=(regions,)))}
    assert also["region"] == "missing, other, lookup regions (side, short)"
    assert "lookup" not in also["sex"]


def test_what_is_paid_on_the_page_is_the_bar_whose_price_was_told(
    client: TestClient, add: Any, service: Service
) -> None:
    ann, session = add("ann", 1), service.hosted(service.users.listed()[0], "study").session
    for words, scope in (
        ("{} AND sex = 'Male'", "sex"),
        ("SELECT COUNT(*) FROM people WHERE {} AND member", "member"),
    ):
        before = len(session.ledger().lines)
        form = {"q": words.format("region = 'north'"), "within": "30", "price": "1"}
        client.post("/page/study/ask", data=form, headers={**ann, "Origin": "http://testserver"})
        (line,) = session.ledger().lines[before:]
        assert (line.event, {*line.label.split(", ")}) == ("requested", {scope, "region"})  # and no test


# --- Charts of answers: what is drawn of how much, over which axis, in which colours ------------------------


ROWS = (
    ("a", Estimate(-2.0, (-3.0, -1.0))),
    ("<b>", Estimate(1.0, (0.0, 3.0))),
    ("c", Estimate(math.nan)),
    ("d", Estimate(1.0, (-math.inf, 4.0))),
    ("e", Estimate(None)),
)


def table_of(rows: Any, keys: tuple[str, ...] = ("k",), **ordered: Any) -> AnswerTable:
    every = tuple((key if type(key) is tuple else (key,), (one,)) for key, one in rows)
    return AnswerTable(keys, ("<i>",), every, 0.95, ordered=ordered)


def charts(statement: str, world: World = PEOPLE) -> list[Chart]:
    with pmw.open_session(world.frame, world.domain, epsilon=1) as session:
        read = parse_sql(statement, world.domain)
        return charts_of_table(session.tabulate(read))


def test_bars_go_below_zero_and_what_is_not_finite_is_left_out() -> None:
    (chart,) = charts_of_table(table_of(ROWS))
    drawing = chart.drawing()
    assert "<desc>a: -2.00, -3 to -1; &lt;b&gt;: 1.00, 0 to 3; d: 1.00</desc>" in drawing
    found = [float(width) for width in re.findall(r'class="model"[^>]* width="([0-9.]+)"', drawing)]
    assert found == pytest.approx([2 * found[1], found[1], found[1]], abs=0.1)
    assert drawing.count('class="range"') == 2 * 3  # an interval is a line with two ends
    assert "<i>" not in drawing
    assert chart.caption == "3 of 5 bars. Lines across bars are intervals."
    assert charts_of_table(table_of(())) == []
    assert charts_of_table(table_of([("c", Estimate(None))])) == []
    assert chart_of_count("x", math.nan, "refused", None) == []


def test_an_attribute_in_order_is_a_line_with_a_band() -> None:
    (chart,) = charts("SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY COUNT(*) DESC", WHOLE_YEARS)
    assert isinstance(chart.panel, Lines)
    (line,) = chart.panel.lines
    assert [x for x, _ in line.points] == list(range(40))  # in order, whatever the table is sorted by
    assert len(line.band) == 40
    assert all(low <= y <= high for (_, y), (_, low, high) in zip(line.points, line.band, strict=True))
    assert (chart.panel.places[0], chart.panel.places[-1]) == ("20", "59")
    assert chart.caption == "40 of 42 points. Bands are intervals."  # missing and other have no place
    drawing = chart.drawing()
    assert drawing.count("<polyline") == drawing.count('<polygon class="band line-0"') == 1


def test_a_second_key_is_lines_or_colours() -> None:
    (lines,) = charts("SELECT sex, age, COUNT(*) FROM people GROUP BY sex, age")
    assert isinstance(lines.panel, Lines)
    assert [line.name for line in lines.panel.lines] == ["Female", "Male"]
    assert [line.kind for line in lines.panel.lines] == ["line-0", "line-1"]
    assert all(f">{line.name}</text>" in lines.drawing() for line in lines.panel.lines)
    (bars,) = charts("SELECT region, sex, COUNT(*) FROM people GROUP BY region, sex")
    assert isinstance(bars.panel, Bars)
    assert bars.panel.groups == (("group-0", "Female"), ("group-1", "Male"))
    assert {bar.kind for bar in bars.panel.bars} == {"group-0", "group-1"}
    (three,) = charts("SELECT region, sex, member, COUNT(*) FROM people GROUP BY region, sex, member")
    assert isinstance(three.panel, Bars)
    assert three.panel.groups == ()
    (totals,) = charts("SELECT region, sex, COUNT(*) FROM people GROUP BY ROLLUP (region, sex)")
    assert "(all)" not in totals.picture.description  # they are no bars


def test_of_many_bars_and_lines_some_are_drawn_and_the_chart_says_so() -> None:
    (chart,) = charts_of_table(table_of([(str(place), Estimate(1.0)) for place in range(365)]))
    assert chart.drawing().count('class="model"') == 40
    assert chart.caption.startswith("40 of 365 bars.")
    rows = [((a, b), Estimate(float(a + b), (0.0, 9.0))) for a in range(10) for b in range(20)]
    (chart,) = charts_of_table(table_of(rows, ("a", "b"), a=tuple(range(10)), b=tuple(range(20))))
    assert isinstance(chart.panel, Lines)
    assert [line.name for line in chart.panel.lines] == [*"456789"]  # those that go highest
    assert chart.caption.startswith("6 of 10 lines. 120 of 200 points.")
