"""``pmw ask`` with statements, workloads and whole cells."""

from __future__ import annotations

import io
import itertools
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

import pmw.session.engine
from pmw import StoreError, resume_session
from pmw.cli.answering import StreamOptions, answer_stream, source_code
from pmw.public.answer import Source
from pmw.session.maintenance import read_session
from pmw.session.store import Outcome, SessionStore
from queries.questions import QuestionList

Run = Callable[..., Result]


def test_groups_that_cut_cells_say_so(study: Path, run: Run) -> None:
    statement = "SELECT sex, COUNT(*) FROM people WHERE age >= 21 GROUP BY sex"
    assert run("ask", "study.pmw", "--sql", statement).stdout.endswith(
        "\nThe condition cuts cells: counts take them as evenly filled, low and high allow for any filling. "
        "At an edge, ask with >= or <, which cut none.\n"
    )


def test_a_statement_without_groups_is_answered_like_its_condition(study: Path, run: Run) -> None:
    statement = "SELECT COUNT(*) FROM people WHERE age >= 40"
    (row,) = json.loads(run("ask", "study.pmw", "--json", "--sql", statement).stdout)["rows"]
    answer = json.loads(run("ask", "study.pmw", "--json", "age >= 40").stdout)
    assert (row["count"]["value"], row["count"]["source"]) == (answer["count"], answer["source"])
    assert [row["count"]["low"], row["count"]["high"]] == answer["interval"]


def test_a_refused_statement_is_marked_at_its_place(study: Path, run: Run) -> None:
    result = run("ask", "study.pmw", "--sql", "SELECT COUNT(*) FROM people LIMIT age")
    assert result.exit_code == 4
    message, text, mark = result.stderr.splitlines()
    assert message.startswith("Error: LIMIT of anything but a whole number is not supported; write SELECT")
    assert text == "  SELECT COUNT(*) FROM people LIMIT age"
    assert mark == " " * text.index("age") + "^"


def test_a_stream_takes_statements_among_conditions(study: Path, run: Run) -> None:
    lines = [
        {"id": 1, "sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "request_id": "a"},
        {"id": 2, "sql": "SELECT COUNT(*) FROM people"},
        {"id": 3, "sql": "SELECT COUNT(*) FROM persons"},
        {"id": 4, "where": "sex = 'Female'"},
        {"id": 5, "where": "sex = 'Male'", "request_id": "a"},
        {"id": 6, "sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "request_id": "a"},
    ]
    result = run("ask", "study.pmw", "--stream", stdin="".join(json.dumps(line) + "\n" for line in lines))
    forms = [json.loads(line) for line in result.stdout.splitlines()]
    assert [form["id"] for form in forms] == [1, 2, 3, 4, 5, 6]
    assert [row["sex"] for row in forms[0]["rows"]] == ["Female", "Male"]
    assert list(forms[1]["rows"][0]) == ["count"]
    assert forms[2]["error"]["code"] == "unknown_table"
    assert forms[3]["count"] == forms[0]["rows"][0]["count"]["value"]
    assert forms[4]["error"]["message"].startswith("request_id 'a' was used for another question")
    assert forms[5]["rows"] == forms[0]["rows"]


def test_many_groups_and_many_lines_are_answered_in_order(study: Path, run: Run) -> None:
    line = json.dumps({"sql": "SELECT age, region, sex, COUNT(*) FROM people GROUP BY age, region, sex"})
    result = run("ask", "study.pmw", "--stream", stdin=(line + "\n") * 20 + '{"where": ""}\n')
    forms = [json.loads(text) for text in result.stdout.splitlines()]
    assert [len(form.get("rows", ())) for form in forms] == [120] * 20 + [0]
    assert all(form["rows"] == forms[0]["rows"] for form in forms[:20])


@pytest.mark.parametrize(
    ("name", "first", "count"),
    [
        ("marginals:2", "age 20..23 and sex Female", 10 * 2 + 10 * 6 + 10 * 2 + 2 * 6 + 2 * 2 + 6 * 2),
        ("marginals:sex,member", "sex Female and member true", 4),
        ("prefixes:age", "age 20..23", 10),
        ("ranges:age", "age 20..23", 55),
        ("random:30:7", None, 30),
    ],
)
def test_a_workload_is_answered_line_by_line(
    study: Path, run: Run, name: str, first: str | None, count: int
) -> None:
    result = run("ask", "study.pmw", "--workload", name)
    assert result.exit_code == 0, result.output
    forms = [json.loads(line) for line in result.stdout.splitlines()]
    assert [form["id"] for form in forms] == list(range(1, count + 1))
    assert first is None or forms[0]["question"] == first
    assert list(forms[0]) == [
        "id", "question", "count", "fraction", "interval", "typical", "confidence", "source", "aligned",
        "version",
        "spent",
    ]  # fmt: skip
    _, status = read_session(study)
    assert status.queries_answered == count


def test_whole_cells_can_be_insisted_on(study: Path, run: Run) -> None:
    result = run("ask", "study.pmw", "age >= 30", "--strict-cells")
    assert result.exit_code == 4
    assert result.stderr == (
        "Error: the condition cuts cells, and only whole cells are asked for; "
        "nearest to it: age >= 32, or age >= 28; cells of 'age' begin at 20, 24, 28, 32, 36, 40, …\n"
    )
    assert run("ask", "study.pmw", "age >= 32", "--strict-cells").exit_code == 0
    statement = "SELECT sex, COUNT(*) FROM people WHERE age >= 30 GROUP BY sex"
    assert run("ask", "study.pmw", "--sql", statement, "--strict-cells").exit_code == 4
    stream = run("ask", "study.pmw", "--stream", "--strict-cells", stdin='{"where": "age >= 30"}')
    assert json.loads(stream.stdout)["error"]["code"] == "unaligned"
    _, status = read_session(study)
    assert status.queries_answered == 1


def test_an_id_that_cannot_be_given_back_is_refused_and_the_stream_goes_on(study: Path, run: Run) -> None:
    lines = [
        r'{"id": "\ud800", "where": "age >= 40"}',
        '{"id": true, "where": "age >= 40"}',
        r'{"id": 3, "\ud800": 1, "where": ""}',
        r'{"id": 4, "where": {"\udfff": {"eq": 1}}}',
        r'{"id": 5, "where": "sex = \ud800"}',
        r'{"id": "\ud83d\ude00", "where": "age >= 40"}',
    ]
    done = run("ask", "study.pmw", "--stream", stdin="\n".join(lines).encode())
    assert (done.exit_code, done.stderr) == (0, "5 of 6 questions were refused, at no cost\n")
    forms = [json.loads(line) for line in done.stdout.splitlines()]
    assert [form["id"] for form in forms] == [None, None, 3, 4, 5, "\U0001f600"]
    assert [form["error"]["message"] for form in forms[:2]] == ["id must be a text or a whole number"] * 2
    assert ["error" in form for form in forms] == [True] * 5 + [False]


def test_a_refused_line_without_an_id_is_told_by_its_number(study: Path, run: Run) -> None:
    lines = 'oops\n\n{"where": ""}\n{"id": 7, "where": 3}\n' + "\n" * 600 + "[]"
    forms = [
        json.loads(line) for line in run("ask", "study.pmw", "--stream", stdin=lines).stdout.splitlines()
    ]
    assert [(form["id"], form.get("line")) for form in forms] == [
        (None, 1), (None, None), (7, None), (None, 605),
    ]  # fmt: skip


def test_no_memory_at_a_positive_is_told_in_our_own_words_and_draws_nothing_twice(
    people: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = ("open", "study.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "5")
    assert run(*opening, "--test", "query", "--threshold", "1", "--delta", "1e-9").exit_code == 0
    question = ("ask", "study.pmw", "age >= 40 AND member = FALSE", "--json")
    before = read_session("study.pmw")[0].ledger.spent
    with monkeypatch.context() as patch:
        patch.setattr("pmw.loop.fit.refit", out_of_memory)
        for _ in range(2):
            result = run(*question)
            assert result.exit_code == 1
            assert result.stdout == ""
            assert result.stderr.startswith("Error: there is not enough memory; ")
            assert read_session("study.pmw")[0].ledger.spent == before
    answer = run(*question)
    assert json.loads(answer.stdout)["source"] == "measured"
    assert run(*question).stdout == answer.stdout
    state = read_session("study.pmw")[0]
    assert len(state.measured) == 1
    assert state.ledger.spent > before


def out_of_memory(*_: object) -> None:
    raise MemoryError


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
        begun = session.status().queries_answered
        monkeypatch.setattr(sys, "stdout", Screen())
        answer_stream(session, io.BytesIO("\n".join(lines).encode()), StreamOptions())
        monkeypatch.undo()
    assert begun == 0
    assert len(printed) == 2  # the last line of all has no end: it comes by itself
    answers = [json.loads(line) for line in "".join(printed).splitlines()]
    assert [answer.get("id") for answer in answers[:7]] == list(range(20, 27))
    assert [answer.get("line") for answer in answers if "error" in answer] == [8, 40]
    assert stored[0] >= 38


def test_what_is_durable_is_printed_where_a_later_answer_fails(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pmw.session.engine, "_BATCH", 2)
    monkeypatch.setattr(QuestionList, "most_together", 4)
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


def test_aggregates_are_answered_alone_and_in_a_stream(study: Path, run: Run) -> None:
    statement = "SELECT sex, AVG(age) AS v FROM people GROUP BY sex"
    alone = json.loads(run("ask", "study.pmw", "--json", "--sql", statement).stdout)
    assert [row["sex"] for row in alone["rows"]] == ["Female", "Male"]
    lines = [
        {"id": 1, "where": ""},
        {"id": 2, "sql": statement, "request_id": "a"},
        {"id": 3, "sql": "SELECT AVG(sex) FROM people"},
        {"id": 4, "where": "sex = 'Male'"},
    ]
    result = run("ask", "study.pmw", "--stream", stdin="\n".join(map(json.dumps, lines)))
    forms = [json.loads(line) for line in result.stdout.splitlines()]
    assert [form["id"] for form in forms] == [1, 2, 3, 4]
    assert forms[1]["rows"] == alone["rows"]
    assert forms[2]["error"]["code"] == "wrong_kind"


def test_what_may_be_divided_by_nobody_is_undefined(study: Path, run: Run) -> None:
    statement = "SELECT COUNT(*) / COUNT(*) FILTER (WHERE sex = 'Female' AND sex = 'Male') AS r FROM people"
    result = run("ask", "study.pmw", "--sql", statement)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split() == ["undefined", "-", "-", "synthetic"]
    result = run("ask", "study.pmw", "--sql", f"{statement} LIMIT 0")
    assert result.exit_code == 0
    assert result.stdout.startswith("no rows")


def test_an_aggregate_without_a_promise_is_told_under_strict(textbook_study: Path, run: Run) -> None:
    for statement, code in (
        ("SELECT AVG(age) FROM people", 0),
        ("SELECT AVG(CASE WHEN sex = 'Female' THEN age END) FROM people", 4),
    ):
        assert run("ask", "study.pmw", "--sql", statement).exit_code == 0
        assert run("ask", "study.pmw", "--strict", "--sql", statement).exit_code == code
    result = run("ask", "study.pmw", "--sql", "SELECT AVG(age) AS v FROM people")
    assert result.stdout.splitlines()[0].split() == ["v", "low", "high", "source"]
    assert "confidence each" in result.stdout


def test_a_refused_answer_has_exit_code_4_and_one_without_a_promise_has_one_under_strict_alone() -> None:
    codes = {one: [source_code(one, strict=strict) for strict in (False, True)] for one in Source}
    expected = {Source.EXHAUSTED: [0, 3], Source.UNVERIFIED: [0, 4], Source.REFUSED: [4, 4]}
    assert codes == {one: expected.get(one, [0, 0]) for one in Source}
