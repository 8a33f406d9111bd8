"""Numbers of few persons: every face of a session withholds the same ones, and its file has them all."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import TableFile
from pmw.public.answer import Source
from pmw.public.codec import dumps, form_of
from pmw.service.served_model import ServedModel
from pmw.service.users import Role, User, UsersFile
from queries import CategoricalAttribute, Domain, IntegerAttribute, save_schema
from tests import worlds
from tests.pmw.cli.commands import Run

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from fastapi.testclient import TestClient

from pmw.service.app import create_app
from pmw.service.hosting import hosting
from tests.pmw.service.studies import serving, wired

LEAST = 40
COUNTS = {"north": 900, "south": 500, "east": 300, "west": 7}
DOMAIN = Domain((CategoricalAttribute("region", tuple(COUNTS)), IntegerAttribute("age", 0, 3)), name="people")
FEW, MANY = "region = 'west'", "region = 'north'"
TOTALS = "SELECT region, COUNT(*) AS n FROM people GROUP BY ROLLUP (region)"
HIDDEN = ["east", "west"]  # the former for it would tell the latter


def people() -> pd.DataFrame:
    region = np.repeat(list(COUNTS), list(COUNTS.values()))
    return pd.DataFrame({"region": region, "age": np.arange(len(region)) % 4})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a session that withholds, by commands, and is asked there."""
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    save_schema(DOMAIN, tmp_path / "people.toml")
    asked = ("--data", "people.csv", "--schema", "people.toml", "--epsilon", "20", "--delta", "1e-9")
    Run().told("open", "study.pmw", *asked, "--minimum-count", str(LEAST))
    return tmp_path


def assert_withholds(session: Any) -> None:
    """Check what a session of any kind gives in Python."""
    few, many = session.ask(FEW), session.ask(MANY)
    assert (few.below, few.source, few.interval, few.typical) == (LEAST, Source.WITHHELD, None, None)
    assert math.isnan(few.count)
    assert math.isnan(few.fraction)
    assert few.sentence() == "fewer than 40 records"
    assert (many.below, round(many.count, -2)) == (None, 900)
    together = session.ask_all([FEW, MANY])
    assert [one.below for one in together] == [LEAST, None]
    frame = together.to_pandas()
    assert frame["below"].tolist()[0] == LEAST
    assert frame[["count", "low", "high", "fraction", "below"]].isna().to_numpy().tolist() == [
        [True] * 4 + [False],
        [False] * 4 + [True],
    ]
    assert "<40" in str(together)
    delivered: list[Any] = []
    session.ask_all([FEW], deliver=delivered.extend)
    assert [one.below for one in delivered] == [LEAST]
    first = [list(COUNTS).index("west")]
    assert np.isnan(session.answer_arrays("region", first, first).count).all()
    assert session.ask_within(FEW, 10**6).below == LEAST
    assert {one.count for one in session.history()} <= {None}  # else its numbers would tell those of tables
    assert f"below={LEAST}" in repr(few)
    note = session.sql(
        "SELECT region, COUNT(*) FROM people WHERE age <= (SELECT COUNT(*) FROM people) GROUP BY region"
    ).notes[0]
    assert note.startswith("the sub-query's answer is within its bar")
    assert session.population_interval(FEW) is None
    assert session.population_interval(MANY) is not None
    for table in (session.sql(TOTALS), session.sql_within(TOTALS, 10**6)):
        hidden = [keys[0] for keys, (one,) in table.rows if one.value is None]
        assert hidden == HIDDEN
    told = session.group_by("region").to_pandas()
    assert told["count_below"].isna().tolist() == [True, True, True, False]
    (one,) = session.sql(f"SELECT COUNT(*) AS n FROM people WHERE {FEW}").estimates()
    assert one.below == LEAST
    assert session.sql_within(f"SELECT COUNT(*) AS n FROM people WHERE {FEW}", 10**6).rows[0][1] == (one,)


def test_sessions_analysts_models_and_clients_withhold_alike(folder: Path) -> None:
    with pmw.resume_session(folder / "study.pmw") as session:
        assert_withholds(session)
        assert_withholds(session.analyst("ann"))
        assert_withholds(session.model())
        session.export(folder / "study.model", format="model")
        session.export(folder / "rows.csv")
        session.report(folder / "report.html")
    assert_withholds(pmw.load_model(folder / "study.model"))
    served = ServedModel(folder / "study.model")
    assert_withholds(served)
    assert_withholds(served.analyst("ann"))
    manifest = json.loads(next(folder.glob("rows*.json")).read_text())
    assert manifest["minimum_count"] == LEAST
    assert len(pd.read_csv(folder / "rows.csv")) > 1000  # synthetic records stay
    report = (folder / "report.html").read_text()
    assert "fewer than 40 persons are withheld" in report
    assert "&lt;40" in report  # in place of the bar of the west
    users = UsersFile(folder / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    study = folder / "study.pmw"
    with hosting([study], users) as service, serving(service) as url, pmw.connect(url, token=token) as client:
        assert_withholds(client)
    assert Run()("verify", "study.pmw").exit_code == 0


def test_commands_withhold(folder: Path) -> None:
    run = Run()
    assert run.told("ask", "study.pmw", FEW).startswith("Fewer than 40 records.")
    form = run.form("ask", "study.pmw", FEW)
    assert (form["count"], form["fraction"], form["interval"], form["below"]) == (None, None, None, LEAST)
    assert "below" not in run.form("ask", "study.pmw", MANY)
    assert run.form("ask", "study.pmw", FEW, "--population")["population"] is None
    text = run.told("ask", "study.pmw", "--sql", TOTALS)
    assert re.search(r"west +<40 +- +- +withheld", text)
    assert re.search(r"east +- +- +- +withheld", text)
    rows = {row["region"]: row["n"] for row in run.form("ask", "study.pmw", "--sql", TOTALS)["rows"]}
    assert [name for name, one in rows.items() if one["value"] is None] == HIDDEN
    assert (rows["west"]["below"], rows["west"]["low"], "below" in rows["east"]) == (LEAST, None, False)
    assert "fewer than 40 persons" in run.told("status", "study.pmw")


def test_streams_withhold_in_every_format(folder: Path) -> None:
    lines = [{"id": 1, "where": FEW}, {"id": 2, "where": MANY}, {"id": 3, "sql": TOTALS}]
    text = "".join(json.dumps(one) + "\n" for one in lines)

    def streamed(name: str, *more: str) -> bytes:
        return Run()("ask", "study.pmw", "--stream", "--format", name, *more, stdin=text).stdout_bytes

    few, many, table = map(json.loads, streamed("jsonl").splitlines())
    assert (few["count"], few["below"], "below" in many) == (None, LEAST, False)
    assert [row["region"] for row in table["rows"] if row["n"]["value"] is None] == HIDDEN
    (folder / "answers.parquet").write_bytes(streamed("parquet"))
    columns = 'id, "group", count, value, low, high, below, source'
    typed = duckdb.connect().execute(f"SELECT {columns} FROM '{folder / 'answers.parquet'}'").fetchall()
    plain = list(csv.DictReader(io.StringIO(streamed("csv").decode())))
    assert [row[6] for row in typed] == [LEAST, None, None, None, None, LEAST, None]
    assert [row["below"] for row in plain] == ["40", "", "", "", "", "40", ""]
    for row, one in zip(typed, plain, strict=True):
        if row[7] == "withheld":
            assert row[2:6] == (None,) * 4
            assert [one[name] for name in ("count", "value", "low", "high")] == [""] * 4
    assert sum(row[7] == "withheld" for row in typed) == 3


def test_the_service_withholds_in_json_on_pages_and_over_the_wire(folder: Path) -> None:
    users = UsersFile(folder / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    asked, notices = {"queries": [{"where": FEW}, {"sql": TOTALS}]}, list[str]()
    with hosting([folder / "study.pmw"], users) as service:
        with TestClient(create_app(service)) as http:
            http.headers["Authorization"] = f"Bearer {token}"
            few, table = http.post("/sessions/study/ask", json=asked).json()["answers"]
            pages = [
                http.post("/page/study/ask", data={"q": one, "price": "1"}).text for one in (FEW, TOTALS)
            ]
        assert (few["count"], few["below"]) == (None, LEAST)
        assert [row["region"] for row in table["rows"] if row["n"]["value"] is None] == HIDDEN
        assert "Fewer than 40 records." in pages[0]
        assert "umbers that may be of fewer than 40 persons are withheld" in pages[1]
        assert all("&lt;40" in page for page in pages)
        pytest.importorskip("psycopg", reason="the extra 'sources' is not installed")
        with wired(service) as wire:
            connection = wire.connect(own=token)
            connection.add_notice_handler(lambda one: notices.append(one.message_primary))
            rows = connection.execute(TOTALS).fetchall()
        assert [row[0] for row in rows if row[1:] == (None, None, None)] == HIDDEN
        assert any("fewer than 40 persons are withheld" in one for one in notices)


def test_what_a_session_records_is_what_it_records_without_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    found = []
    for name, least in (("plain", None), ("withholding", LEAST)):
        worlds.repeat_noise(monkeypatch, 4)
        options, path = pmw.Options(minimum_count=least), tmp_path / f"{name}.pmw"
        table = TableFile(tmp_path / "people.csv")
        with pmw.open_session(table, DOMAIN, epsilon=2, delta=1e-9, path=path, options=options) as session:
            session.ask_all([FEW, MANY])
            session.sql(TOTALS)
            stored = session._open_store().answers
            rows = [stored.answer(number) for number in range(1, stored.count() + 1)]
            told = [(one.query, one.count, one.interval, one.source) for one in rows]
            found.append((dumps(form_of(session.state.measurements)), str(session.ledger()), told))
            shown = session.history()
            assert {(one.count is None, one.source == "withheld") for one in shown} == {
                (least is not None,) * 2
            }
        assert Run()("verify", str(path)).exit_code == 0
    assert found[0] == found[1]


def test_a_contract_without_the_rule_is_written_as_it_was() -> None:
    options = pmw.Options()
    assert "minimum_count" not in form_of(options)
    assert form_of(replace(options, minimum_count=5))["minimum_count"] == 5
    with worlds.opened(people(), DOMAIN, seed=1) as session:
        answers = session.ask_all([FEW])
        assert "below" not in answers.columns()
        assert "below" not in answers[0].to_dict()
        assert list(session.group_by("region").columns()) == [
            "region", "count", "count_low", "count_high", "count_source"
        ]  # fmt: skip
