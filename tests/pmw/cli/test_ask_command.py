"""``pmw ask``: statements, workloads and streams, whole cells, and with which exit code it ends."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import sqlite3
import sys
from contextlib import closing, redirect_stdout
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
import pmw.session.engine
from pmw import StoreError, resume_session
from pmw.cli.answer_formats import FORMATS, writer_of
from pmw.cli.answering import StreamOptions, answer_stream, answer_workload, source_code
from pmw.cli.usage import json_line
from pmw.privacy.budget import Budget
from pmw.public.answer import Source
from pmw.public.answers import SOURCES, Answers
from pmw.public.population import PopulationInterval
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore
from queries.workloads import parse_workload
from tests import worlds
from tests.pmw.cli.commands import OPEN, Run

BY_SEX = "SELECT sex, COUNT(*) FROM people GROUP BY sex"


def jsonl(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("question", "code", "position"),
    [
        (('{"agee": {"ge": 3}}',), "unknown_attribute", "where.agee"),
        (("--sql", "DROP TABLE people"), "unsupported", 0),
        (("age BETWEEN 21 AND 22", "--strict-cells"), "unaligned", None),
    ],
)
def test_a_refused_question_is_printed_as_json_where_json_was_asked_for(
    study: Path, run: Run, question: tuple[str, ...], code: str, position: int | str | None
) -> None:
    result = run("ask", "study.pmw", "--json", *question)
    assert (result.exit_code, result.stderr) == (4, "")
    error = json.loads(result.stdout)["error"]
    assert list(error) == ["code", "message", "position"]
    assert (error["code"], error["position"]) == (code, position)
    run.refused("ask", "study.pmw", *question, code=4)


def test_a_stream_answers_each_line_in_order_and_goes_on_after_a_bad_one(study: Path, run: Run) -> None:
    mean = "SELECT sex, AVG(age) AS v FROM people GROUP BY sex"
    alone = run.form("ask", "study.pmw", "--sql", mean)
    assert [row["sex"] for row in alone["rows"]] == ["Female", "Male"]
    lines = jsonl(
        [
            {"id": 0, "where": "age BETWEEN 30 AND 39 AND sex = 'Female'"},
            {"id": "two", "where": {"age": {"between": [30, 39]}, "sex": {"in": ["Female"]}}},
            {"id": 2, "where": "agee > 3"},
            {"where": {"region": {"eq": "nowhere"}}},
            {"id": 5, "sql": BY_SEX, "request_id": "a"},
            {"id": 6, "sql": "SELECT COUNT(*) FROM people"},
            {"id": 8, "where": "sex = 'Female'"},
            {"id": 9, "where": "sex = 'Male'", "request_id": "a"},
            {"id": 10, "sql": BY_SEX, "request_id": "a"},
            {"id": 11, "sql": mean, "request_id": "b"},
        ]
    )
    forms = run.forms("ask", "study.pmw", "--stream", stdin=lines)
    assert [form["id"] for form in forms] == [0, "two", 2, None, 5, 6, 8, 9, 10, 11]
    assert {**forms[0], "id": None} == {**forms[1], "id": None}
    assert forms[2]["error"] == {
        "code": "unknown_attribute",
        "message": "unknown attribute 'agee'; declared are age, sex, region, member; did you mean 'age'?",
        "position": 0,
    }
    assert forms[3]["error"]["position"] == "where.region.eq"
    grouped, everybody, women, reused, again, means = forms[4:]
    assert [row["sex"] for row in grouped["rows"]] == ["Female", "Male"]
    assert list(everybody["rows"][0]) == ["count"]
    assert abs(grouped["rows"][0]["count"]["value"] - women["count"]) <= 1  # a whole number
    assert reused["error"]["message"].startswith("request_id 'a' was used for another question")
    assert again["rows"] == grouped["rows"]
    assert means["rows"] == alone["rows"]


def test_whole_cells_can_be_insisted_on(study: Path, run: Run) -> None:
    assert run.refused("ask", "study.pmw", "age >= 30", "--strict-cells", code=4) == (
        "Error: the condition cuts cells, and only whole cells are asked for; "
        "nearest to it: age >= 32, or age >= 28; cells of 'age' begin at 20, 24, 28, 32, 36, 40, …\n"
    )
    run.told("ask", "study.pmw", "--workload", "ranges:age", "--strict-cells")
    statement = "SELECT sex, COUNT(*) FROM people WHERE age >= 30 GROUP BY sex"
    run.refused("ask", "study.pmw", "--sql", statement, "--strict-cells", code=4)
    stream = run("ask", "study.pmw", "--stream", "--strict-cells", stdin='{"where": "age >= 30"}')
    assert json.loads(stream.stdout)["error"]["code"] == "unaligned"


def test_a_refused_line_without_an_id_is_told_by_its_number(study: Path, run: Run) -> None:
    lines = 'oops\n\n{"where": ""}\n{"id": 7, "where": 3}\n' + "\n" * 600 + "[]"
    forms = run.forms("ask", "study.pmw", "--stream", stdin=lines)
    assert [(form["id"], form.get("line")) for form in forms] == [
        (None, 1), (None, None), (7, None), (None, 605),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("_umath.so: failed to map segment from shared object")]
)
def test_no_memory_at_a_positive_is_told_in_our_own_words(
    people: Path, run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run.told(*OPEN[:-1], "5", "--test", "query", "--threshold", "1", "--delta", "1e-9")
    question = ("ask", "study.pmw", "age >= 40 AND member = FALSE", "--json")

    def out_of_memory(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("pmw.loop.fit.refit", out_of_memory)
        assert run.refused(*question).startswith("Error: there is not enough memory; ")
    assert json.loads(run.told(*question))["source"] == "measured"


def test_a_batch_is_printed_with_one_write_once_all_of_it_is_durable(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"id": low, "where": f"age BETWEEN {low} AND 80"}) for low in range(20, 60)]
    lines[7] = lines[39] = "no question"
    stored, printed = list[int](), list[str]()

    class Screen(io.StringIO):
        def write(self, text: str, /) -> int:
            with closing(sqlite3.connect(study)) as reader:
                stored.append(reader.execute("SELECT coalesce(sum(size), 0) FROM blocks").fetchone()[0])
            printed.append(text)
            return len(text)

    with resume_session(study) as session:
        assert session.status().queries_answered == 0
        monkeypatch.setattr(sys, "stdout", Screen())
        answer_stream(session, io.BytesIO("\n".join(lines).encode()), StreamOptions())
        monkeypatch.undo()
    assert len(printed) == 2  # the last line of all has no end: it comes by itself
    answers = [json.loads(line) for line in "".join(printed).splitlines()]
    assert [answer.get("id") for answer in answers[:7]] == list(range(20, 27))
    assert [answer.get("line") for answer in answers if "error" in answer] == [8, 40]
    assert stored[0] >= 38


def test_what_is_durable_is_printed_where_a_later_answer_fails(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pmw.session.engine, "_LARGEST_BATCH", 2)
    monkeypatch.setattr(pmw.session.engine, "_MOST_TOGETHER", 4)
    lines = [json.dumps({"id": low, "where": f"age BETWEEN {low} AND 80"}) for low in range(20, 32)]
    finish, times = SessionStore.finish, itertools.count()

    def failing(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
        if next(times) == 2:
            raise StoreError("no room")
        finish(store, intent, outcome)

    with resume_session(study) as session:
        monkeypatch.setattr(SessionStore, "finish", failing)
        with pytest.raises(StoreError):
            answer_stream(session, io.BytesIO("\n".join(lines).encode()), StreamOptions())
        monkeypatch.undo()
        kept = session._open_store().answers.count()
    assert len(capsys.readouterr().out.splitlines()) == kept == 8


def test_what_is_divided_by_nobody_stays_empty_and_says_why(study: Path, run: Run) -> None:
    statement = "SELECT COUNT(*) / COUNT(*) FILTER (WHERE sex = 'Female' AND sex = 'Male') AS r FROM people"
    result = run("ask", "study.pmw", "--sql", statement, "--strict")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[1].split() == ["-", "-", "-", "exhausted"]
    assert "There is no number where no record can be by the declaration.\n" in result.stdout
    assert run.told("ask", "study.pmw", "--sql", f"{statement} LIMIT 0").startswith("no rows")


# --- exit codes --------------------------------------------------------------------------------------------


def test_a_stream_that_was_refused_whole_has_exit_code_4_and_else_a_count(study: Path, run: Run) -> None:
    refused = '{"where": "agee >= 3"}\n{"where": "age >="}\nno JSON\n'
    for lines, code, told in (
        (refused, 4, "3 of 3 questions were refused, at no cost\n"),
        ('{"where": "age >="}\n{"where": "age >= 25"}\n', 0, "1 of 2 questions was refused, at no cost\n"),
        ("\n", 0, ""),
    ):
        result = run("ask", "study.pmw", "--stream", stdin=lines)
        assert (result.exit_code, result.stderr) == (code, told)
        assert len(result.stdout.splitlines()) == len(lines.split("\n")) - 1 - (not told)


def test_a_strict_stream_tells_of_refused_questions_in_its_exit_code(
    study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.cli.answering._BATCH", 2)
    lines = "not json\n" + '{"where": ""}\n' * 4  # the last batch is answered
    assert run("ask", "study.pmw", "--stream", "--strict", stdin=lines).exit_code == 4


def test_an_aggregate_without_a_promise_is_told_under_strict(textbook_study: Path, run: Run) -> None:
    mean, partly = (
        "SELECT AVG(age) AS v FROM people",
        "SELECT AVG(CASE WHEN sex = 'Male' THEN age END) FROM people",
    )
    assert run("ask", "study.pmw", "--strict", "--sql", partly).exit_code == 4
    shown = run.told("ask", "study.pmw", "--strict", "--sql", mean)
    assert shown.splitlines()[0].split() == ["v", "low", "high", "source"]
    assert "confidence each" in shown


def test_a_refused_answer_has_exit_code_4_and_one_without_a_promise_has_one_under_strict_alone() -> None:
    codes = {one: [source_code(one, strict=strict) for strict in (False, True)] for one in Source}
    expected = {Source.EXHAUSTED: [0, 3], Source.UNVERIFIED: [0, 4], Source.REFUSED: [4, 4]}
    assert codes == {one: expected.get(one, [0, 0]) for one in Source}


def test_a_statement_joins_the_lookups_of_the_schema(people: Path, run: Run) -> None:
    schema = people / "people.toml"
    (people / "sexes.csv").write_text("sex,word\nFemale,women\nMale,men\nX,others\n")
    schema.write_text(schema.read_text() + '[lookups.sexes]\nattribute = "sex"\nfile = "sexes.csv"\n')
    run.told(*OPEN, "--delta", "1e-9")
    schema.unlink()
    statement = "SELECT word, COUNT(*) AS n FROM people JOIN sexes USING (sex) GROUP BY word ORDER BY word"
    told = run.form("ask", "study.pmw", "--sql", statement)["rows"]
    assert [row["word"] for row in told] == ["men", "women"]
    stream = jsonl([{"id": 7, "sql": statement}])
    assert [form["rows"] for form in run.forms("ask", "study.pmw", "--stream", stdin=stream)] == [told]
    run.told("export", "study.pmw", "--output", "study.model")
    assert run.form("ask", "study.model", "--sql", statement)["rows"] == told


# --- ``pmw ask --population``: a second interval beside each answer, in each form, and nowhere else ---------


QUESTION = "sex = 'Female' AND age >= 32"
LINES = jsonl(
    [
        {"id": 1, "where": QUESTION},
        {"id": 2, "sql": BY_SEX},
        {"id": 3, "where": "age >= 30"},
        {"id": 4, "where": "nobody = 1"},
    ]
)


def interval(study: Path, where: str) -> PopulationInterval:
    with resume_session(study) as session:
        found = session.population_interval(where)
    assert found is not None
    return found


def test_an_answer_has_one_more_line_and_one_more_key(study: Path, run: Run) -> None:
    plain, form = run.told("ask", "study.pmw", QUESTION), run.form("ask", "study.pmw", QUESTION)
    expected = interval(study, QUESTION)
    first, second, *rest = run.told("ask", "study.pmw", QUESTION, "--population").splitlines()
    assert [first, *rest] == plain.splitlines()
    assert second.lower() == f"{expected.sentence()}."
    both = run.form("ask", "study.pmw", QUESTION, "--population")
    assert both == {**form, "population": expected.to_dict()}
    within = run.form("ask", "study.pmw", QUESTION, "--population", "--within", "3000")
    assert within["population"] == expected.to_dict()


def test_each_condition_of_a_stream_has_it_and_a_statement_is_refused_before_it_is_asked(
    study: Path, run: Run
) -> None:
    before = run.form("status", "study.pmw")
    refused = run.refused("ask", "study.pmw", "--sql", BY_SEX, "--population", code=4)
    assert "an interval of the population is of a condition, not of a statement" in refused
    assert run.form("status", "study.pmw") == before
    stream = ("ask", "study.pmw", "--stream", "--population")
    forms = run.forms(*stream, stdin=LINES)
    assert [form.get("error", {}).get("code") for form in forms] == [
        None, "unsupported", None, "unknown_attribute",
    ]  # fmt: skip
    assert "ask the condition of each group" in forms[1]["error"]["message"]
    for place, where in ((0, QUESTION), (2, "age >= 30")):
        assert forms[place]["population"] == interval(study, where).to_dict()
    plain = run.forms("ask", "study.pmw", "--stream", stdin=LINES)
    assert {**plain[0], "population": forms[0]["population"]} == forms[0]
    assert not any("population" in form for form in plain)
    rows = list(csv.DictReader(io.StringIO(run.told(*stream, "--format", "csv", stdin=LINES))))
    Path("a.parquet").write_bytes(run(*stream, "--format", "parquet", stdin=LINES).stdout_bytes)
    typed = read(Path("a.parquet"), "population_low, population_high")
    for form, row, ends in zip(forms, rows, typed, strict=True):
        told: dict[str, Any] = form.get("population", {})
        assert ends == (told.get("low"), told.get("high"))
        texts = tuple("" if end is None else str(end) for end in ends)
        assert (row["population_low"], row["population_high"]) == texts
    assert "population_low" not in run.told("ask", "study.pmw", "--stream", "--format", "csv", stdin=LINES)


# --- Answers as JSON Lines, CSV and Parquet: the same numbers in each ---------------------------------------


MIXED = [
    {"id": 1, "where": "age >= 30"},
    {"id": 'two, "x"', "where": {"sex": {"=": "Male"}}},
    {"id": 3, "sql": "SELECT region, COUNT(*) FROM people GROUP BY region"},
    {"id": 4, "where": "nobody = 3"},
    {"id": 5, "sql": "SELECT AVG(age) FROM people"},
    {"where": "age >= 30"},
]


def asked(study: Path, *options: str) -> bytes:
    text = "".join(json.dumps(line) + "\n" for line in MIXED) + "no json\n"
    done = Run()("ask", str(study), *options, stdin=text if "--stream" in options else None)
    assert (done.exit_code, "refused" in done.stderr) == (0, "--stream" in options)
    return done.stdout_bytes


def flat(form: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that stand for an object of JSON Lines."""
    head = {name: form.get(name) for name in ("id", "line", "question")}
    if "error" in form:
        return [{**head, "code": form["error"]["code"], "message": form["error"]["message"]}]
    rows = []
    shared = {**head, **{name: form[name] for name in ("confidence", "version")}}
    for row in form.get("rows", ()):
        label = {name: value for name, value in row.items() if not isinstance(value, dict)}
        for title, one in row.items():
            if isinstance(one, dict):
                told = {"group": json.dumps(label) if label else None, "aggregate": title, "count": None}
                numbers = {name: one[name] for name in ("value", "low", "high", "source", "aligned")}
                rows.append({**shared, **told, **numbers, **ends("typical", one["typical"])})
    if "rows" not in form:
        told = {name: form[name] for name in ("count", "fraction", "source", "aligned")}
        bars = {**ends("", form["interval"]), **ends("typical", form["typical"])}
        rows.append({**shared, **told, **bars, "group": None, "aggregate": None, "value": None})
    return rows


def ends(name: str, interval: list[float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{name}_low".lstrip("_"): low, f"{name}_high".lstrip("_"): high}


def read(path: Path, columns: str) -> list[Any]:
    return duckdb.connect().execute(f"SELECT {columns} FROM '{path}'").fetchall()


def test_csv_and_parquet_have_a_row_for_each_answer_and_each_refusal(study: Path, tmp_path: Path) -> None:
    asked(study, "--stream")  # so that all answers are stored
    forms = [json.loads(line) for line in asked(study, "--stream").splitlines()]
    expected = [row for form in forms for row in flat(form)]
    out = asked(study, "--stream", "--format", "csv")
    texts = list(csv.DictReader(io.StringIO(out.decode(), newline="")))
    (tmp_path / "a.parquet").write_bytes(asked(study, "--stream", "--format", "parquet"))
    found = duckdb.connect().sql(f"SELECT * FROM '{tmp_path / 'a.parquet'}'")
    assert found is not None
    kinds = dict(zip(found.columns, map(str, found.types), strict=True))
    assert (kinds["id"], kinds["count"], kinds["aligned"], kinds["version"]) == (
        "VARCHAR", "DOUBLE", "BOOLEAN", "BIGINT"
    )  # fmt: skip
    typed = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    assert len(expected) > 10
    for text, row, wanted in zip(texts, typed, expected, strict=True):
        for name, value in wanted.items():
            assert text[name] == ("" if value is None else str(value)), name
            assert row[name] == (str(value) if name == "id" and value is not None else value), name


def test_a_workload_is_written_in_each_format_in_parts(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.cli.answer_formats._ROWS", 3)
    monkeypatch.setattr("pmw.cli.answering._BATCH", 2)
    written = {name: asked(study, "--workload", "marginals:1", "--format", name) for name in FORMATS}
    forms = [json.loads(line) for line in written["jsonl"].splitlines()]
    assert len(forms) > 10
    (tmp_path / "a.parquet").write_bytes(written["parquet"])
    rows = read(tmp_path / "a.parquet", "id, question")
    assert rows == [(str(form["id"]), form["question"]) for form in forms]
    named = csv.DictReader(io.StringIO(written["csv"].decode()))
    assert [(row["id"], row["question"]) for row in named] == rows


def test_no_questions_make_an_empty_table(study: Path, tmp_path: Path) -> None:
    for name in ("csv", "parquet"):
        done = Run()("ask", str(study), "--stream", "--format", name, stdin="")
        assert done.exit_code == 0
        (tmp_path / f"a.{name}").write_bytes(done.stdout_bytes)
        assert read(tmp_path / f"a.{name}", "*") == []


@pytest.mark.parametrize("name", ["marginals:2", "ranges:k"])
def test_a_workload_of_ranges_is_answered_as_its_questions_one_by_one(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same lines and the same exit code: what is stored, and what is answered again."""
    age = np.random.default_rng(2).integers(0, 24, 3000)
    frame = pd.DataFrame({"age": age, "k": age // 2, "sex": np.where(age < 9, "f", "m")})
    domain = worlds.declared("people", age=range(24), k=range(12), sex="fm")
    workload = parse_workload(name, domain)
    options = pmw.Options(seed=4, reserve=Fraction(0))
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=options) as session:
        older = 0
        for fresh in (False, True):
            how, found, before = StreamOptions(strict=True, fresh=fresh), [], session.state.asked
            for asked in (workload, replace(workload, boxes=None)):
                found.append((answer_workload(session, asked, how), capsys.readouterr().out))
            assert found[0] == found[1]
            lines = found[0][1].splitlines()
            assert len(lines) == len(workload)
            # What is stored is no new question, nor is what is asked afresh of the same model.
            assert session.state.asked - before == (older if fresh else len(workload))
            older = sum(json.loads(line)["version"] < session.state.version for line in lines)


FLOATS = st.floats(0, 1e12)
PAIRS = st.just((math.nan, math.nan)) | st.tuples(FLOATS, FLOATS)


@given(
    FLOATS, PAIRS, PAIRS, st.floats(0, 1), st.integers(0, len(SOURCES) - 1), st.booleans(), st.booleans(),
    st.dictionaries(st.sampled_from(["id", "line"]), st.none() | st.integers() | st.text(), min_size=1),
)  # fmt: skip
def test_a_line_is_the_json_of_its_answer(
    count: float, interval: tuple[float, float], typical: tuple[float, float], share: float, source: int,
    aligned: bool, seeded: bool, head: dict[str, Any],
) -> None:  # fmt: skip
    columns: dict[str, Any] = {
        "count": count, "interval": interval, "typical": typical, "source": source, "version": 3,
        "share": share, "kind": 0, "aligned": aligned, "charged": 0.0,
    }  # fmt: skip
    columns = {name: np.array([value]) for name, value in columns.items()}
    answers = Answers(
        **columns,
        confidence=0.95, total=1e3, budget=Budget(Fraction(1), Fraction("1e-9")), seeded=seeded, kept=None,
    )  # fmt: skip
    writer = writer_of("jsonl")
    writer.answers([head], answers)
    written = io.StringIO()
    with redirect_stdout(written):
        writer.flush()
    assert written.getvalue() == json_line({**head, **answers[0].to_dict()}) + "\n"
