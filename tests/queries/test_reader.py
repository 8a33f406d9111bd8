"""Readers: what they read, and what they refuse, is what the parsers of single questions make of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    QueryError,
    parse_question,
    parse_where,
)
from queries.parsing import parse_sql
from queries.reader import QuestionReader, questions_in_text

NAMES = st.sampled_from(["age", "sex", "income", "education-num", "hours", "größe", "member", "nobody"])
VALUES = st.one_of(
    st.integers(-5, 120), st.sampled_from(["Female", "Male", "klein", "x'y", True, False, 3.5, 10_000, 1.0])
)
TERMS = st.one_of(
    st.tuples(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), VALUES),
    st.tuples(st.just("between"), st.lists(VALUES, min_size=1, max_size=3)),
    st.tuples(st.just("in"), st.lists(VALUES, max_size=3)),
    st.tuples(st.sampled_from(["is_missing", "is_other", "like"]), st.sampled_from([True, False, 3])),
)
OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def outcome(read: Any, *values: Any) -> tuple[object, ...]:
    """Return what reading comes to: the question's canonical text, or the whole refusal."""
    try:
        found = read(*values)
    except QueryError as error:
        return ("refused", error.to_dict(), error.text)
    if isinstance(found, LinearQuery):
        return (found.to_json(), found.aligned, found.scope, found.box, found.constant, found.describe())
    return (outcome(lambda: found.where), [column.names for column in found.columns], found.size)


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def text_of(name: str, operator: str, value: Any) -> str:
    name = f'"{name}"'
    if operator in OPERATORS:
        return f"{name} {OPERATORS[operator]} {literal(value)}"
    if isinstance(value, list):
        if operator == "between" and len(value) > 1:
            return f"{name} BETWEEN {literal(value[0])} AND {literal(value[1])}"
        return f"{name} IN ({', '.join(map(literal, value))})"
    return f"{name} IS {'' if value else 'NOT '}NULL"


@pytest.fixture(scope="module")
def reader(people: Domain) -> QuestionReader:
    return QuestionReader(people)  # one for all examples: what was read before must not matter


@given(st.lists(st.tuples(NAMES, TERMS), max_size=4))
@example([("age", ("eq", 30)), ("age", ("ge", 20))])
@example([("member", ("eq", True)), ("hours", ("eq", 1))])
@example([("member", ("eq", 1)), ("hours", ("eq", 1.0))])
@example([("income", ("between", [0, 10_000]))])
def test_structured_conditions_are_read_alike(
    people: Domain, reader: QuestionReader, terms: list[tuple[str, tuple[str, Any]]]
) -> None:
    where: dict[str, dict[str, Any]] = {}
    for name, (operator, value) in terms:
        where.setdefault(name, {})[operator] = value
    expected = outcome(parse_where, where, people)
    assert outcome(reader.where, where) == expected
    assert outcome(reader.where, where) == expected  # from memory
    asked = outcome(lambda: parse_question({"where": where}, people).query)
    assert outcome(lambda: reader.question({"where": where}).query) == asked


@given(
    st.lists(st.tuples(NAMES, TERMS), min_size=1, max_size=4),
    st.sampled_from([" AND ", " and ", "\nAND\t", " OR ", "  AND  ", " AND NOT ", "AND", " AND -- x\n"]),
    st.sampled_from(["", " ", ";", " AND", ")", " -- x", " AND 1"]),
)
@example([("age", ("eq", 30)), ("sex", ("eq", "Male"))], " AND ", "")
@example([("age", ("ge", 20)), ("age", ("lt", 40))], " AND ", "")
@example([("age", ("ge", 20)), ("sex", ("eq", "Male")), ("age", ("lt", 40))], " AND ", "")
def test_where_texts_and_counts_in_sql_are_read_alike(
    people: Domain, reader: QuestionReader, terms: list[tuple[str, tuple[str, Any]]], joint: str, tail: str
) -> None:
    where = joint.join(text_of(name, *term) for name, term in terms) + tail
    for _ in range(2):
        assert outcome(reader.where, where) == outcome(parse_where, where, people)
    for head in ("SELECT COUNT(*) FROM people WHERE ", "select count(*)  from people where  "):
        expected = outcome(parse_sql, head + where, people)
        assert outcome(reader.statement, head + where) == expected
        assert outcome(reader.statement, head + where) == expected


STATEMENTS = [
    "SELECT COUNT(*) FROM others WHERE age = 30", "SELECT COUNT(*) FROM people",
    "SELECT sex, COUNT(*) FROM people WHERE age = 30 GROUP BY sex",
    "SELECT AVG(age) FROM people WHERE sex = 'Male'", "SELECT COUNT(*) FROM people WHERE people.age = 30",
    "SELECT COUNT(*) FROM people WHERE age = 30 LIMIT 1", "SELECT COUNT(*) FROM people WHERE",
]  # fmt: skip


@pytest.mark.parametrize("where", ["k <> 'a'", "x = 3 AND k <> 'a'", "k = 'a'", "k = 'a' AND x = 3", "x = 3"])
def test_what_holds_for_nobody_or_everybody_is_read_like_alone(where: str) -> None:
    domain = Domain((IntegerAttribute("x", 0, 9), CategoricalAttribute("k", ("a",))), name="people")
    reader, text = QuestionReader(domain), f"SELECT COUNT(*) FROM people WHERE {where}"
    for _ in range(2):
        assert outcome(reader.where, where) == outcome(parse_where, where, domain)
        assert outcome(reader.statement, text) == outcome(parse_sql, text, domain)
        assert reader.statement(text).notes == parse_sql(text, domain).notes


def test_the_head_of_a_statement_is_read_before_its_comparisons_are(people: Domain) -> None:
    reader = QuestionReader(people)
    for table in ("others", "people", "others", "people"):
        for term in ("age = 30", "age = 31", "sex = 'Male'"):
            text = f"SELECT COUNT(*) FROM {table} WHERE {term}"
            assert outcome(reader.statement, text) == outcome(parse_sql, text, people)


NO_CONDITIONS: list[Any] = [
    *(None, 3, [], {"age": 3}, {"age": {}}, {3: {"eq": 1}}, {"age": {"eq": None}}, {"age": {"eq": {}}})
]


def test_what_the_reader_does_not_read_goes_to_its_parser(people: Domain, reader: QuestionReader) -> None:
    for text in STATEMENTS:
        assert outcome(reader.statement, text) == outcome(parse_sql, text, people), text
    deep: Any = 3
    for _ in range(20_000):
        deep = [deep]
    for where in [*NO_CONDITIONS, {"age": {"eq": deep}}]:
        assert outcome(reader.where, where)[0] == "refused"
        assert outcome(reader.where, where) == outcome(parse_where, where, people)


@pytest.mark.parametrize("name", ["member", "education-num", "sex"])
def test_values_that_python_takes_for_equal_are_told_apart(people: Domain, name: str) -> None:
    values: list[Any] = [1, True, 1.0, "1", "True", False, 0, "Male"]
    for order in (values, values[::-1]):
        reader = QuestionReader(people)
        for value in order:
            for condition in ({"eq": value}, {"in": [value]}, {"between": [value, value]}):
                for more in ({}, {"age": {"eq": 30}}):
                    where = {name: condition, **more}
                    assert outcome(reader.where, where) == outcome(parse_where, where, people)


def test_a_question_that_was_read_before_is_the_same_one(people: Domain) -> None:
    reader = QuestionReader(people)
    first = reader.where("age = 30 AND sex = 'Male'")
    assert reader.where("age = 30 AND sex = 'Male'") is first
    other = reader.where({"age": {"eq": 30}, "sex": {"eq": "Male"}})
    assert other.to_json() == first.to_json()
    counted = reader.statement("SELECT COUNT(*) FROM people WHERE age = 30")
    assert reader.statement("SELECT COUNT(*) FROM people WHERE age = 30") is counted


def test_comparisons_are_parsed_once(people: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = QuestionReader(people)
    reader.where("age = 30")
    reader.where("sex = 'Male'")
    monkeypatch.setattr("queries.reader.parse_where", lambda *_: pytest.fail("parsed again"))
    assert reader.where("sex = 'Male' AND age = 30").scope == ("age", "sex")


def test_a_long_text_is_not_remembered(people: Domain) -> None:
    reader = QuestionReader(people)
    long = "age = 30 AND " * 400 + "age = 30"
    assert outcome(reader.where, long) == outcome(parse_where, long, people)
    assert reader._conditions.get(long) is None


@pytest.mark.parametrize("everybody", ["hours >= 0", "income >= 0", "hours BETWEEN 0 AND 99"])
def test_comparisons_that_hold_for_everybody_are_parsed_once_too(
    people: Domain, monkeypatch: pytest.MonkeyPatch, everybody: str
) -> None:
    reader = QuestionReader(people)
    for term in (everybody, "age = 30", "sex = 'Male'"):
        assert outcome(reader.where, term) == outcome(parse_where, term, people)
    expected = [
        outcome(parse_where, where, people)
        for where in (f"{everybody} AND age = 30", f"age = 30 AND {everybody} AND sex = 'Male'")
    ]
    monkeypatch.setattr("queries.reader.parse_where", lambda *_: pytest.fail("parsed again"))
    assert outcome(reader.where, f"{everybody} AND age = 30") == expected[0]
    assert outcome(reader.where, f"age = 30 AND {everybody} AND sex = 'Male'") == expected[1]


def test_the_comparisons_of_a_condition_that_is_read_whole_are_known_from_then_on(
    people: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = QuestionReader(people)
    asked = {"age": {"between": [30, 39]}, "sex": {"in": ["Male"]}, "hours": {"ge": 0}}
    reader.where(asked)
    reader.where("age >= 30 AND sex = 'Male'")
    expected = [
        outcome(parse_where, one, people)
        for one in (*({name: one} for name, one in asked.items()), "sex = 'Male'", "age >= 30")
    ]
    monkeypatch.setattr("queries.reader.parse_where", lambda *_: pytest.fail("parsed again"))
    again = [{name: one} for name, one in asked.items()]
    assert [outcome(reader.where, one) for one in (*again, "sex = 'Male'", "age >= 30")] == expected


@pytest.mark.parametrize(
    "first",
    [
        "AGE >= 30 AND age < 40",
        "age >= 30 AND age < 40",
        "AGE >= 30 AND hours < 40",
        "age BETWEEN 40 AND 30 AND sex = 'Male'",  # nobody
        "income < 12345.5 AND sex = 'Male'",  # cuts a cell
    ],
)
@pytest.mark.parametrize("head", ["", "SELECT COUNT(*) FROM people WHERE "])
def test_what_is_read_together_tells_nothing_of_a_comparison_alone(
    people: Domain, first: str, head: str
) -> None:
    def read(reader: QuestionReader, text: str) -> LinearQuery:
        return reader.statement(head + text).where if head else reader.where(text)

    reader = QuestionReader(people)
    alone = ("sex = 'Male'", "age < 40", "age >= 30", "AGE >= 30", "hours < 40", "income < 12345.5")
    for text in (first, *alone, f"member = true AND {first}"):
        assert outcome(read, reader, text) == outcome(read, QuestionReader(people), text)


def test_comparisons_that_are_joined_make_the_query_of_their_factors(people: Domain) -> None:
    reader = QuestionReader(people)
    texts = ("sex = 'Male'", "age IN (30, 32, 60)", "income >= 10000")
    for asked in itertools.chain(itertools.permutations(texts), itertools.combinations(texts, 1)):
        found = reader.where(" AND ".join(asked))
        whole = LinearQuery(people, tuple(factor for one in asked for factor in reader.where(one).factors))
        for name in ("factors", "aligned", "readings", "scope", "box", "constant", "is_box", "is_whole"):
            assert getattr(found, name) == getattr(whole, name)
        assert found.to_json() == whole.to_json()
        assert [one.scope[0] for one in found.factors] == list(found.scope)
        assert np.array_equal(found.weights(), whole.weights())
        values = np.random.default_rng(0).random(people.scope_shape(found.scope))
        assert found.evaluate(values) == whole.evaluate(values)


def test_long_texts_of_comparisons_are_written_where_they_are_needed() -> None:
    domain = Domain((IntegerAttribute("x", 0, 999), IntegerAttribute("y", 0, 9)))
    reader, listed = QuestionReader(domain), list(range(0, 700, 2))
    query = reader.where({"x": {"in": listed}, "y": {"eq": 3}})
    assert query.to_json() == parse_where({"x": {"in": listed}, "y": {"eq": 3}}, domain).to_json()
    assert query.to_json() is not query.to_json()
    assert query.size_in_bytes == sum(factor.size_in_bytes for factor in query.factors)


# --- files of conditions, statements and objects ------------------------------------------------------------

PLAIN = Domain((IntegerAttribute("age", 0, 99), CategoricalAttribute("sex", ("f", "m"))), name="people")


def in_text(folder: Path, text: str | bytes) -> list[str]:
    """Return the canonical texts of the questions in a file, of a statement those of its groups."""
    path = folder / "questions.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = questions_in_text(path, QuestionReader(PLAIN))
    return [
        part.query.to_json() for one in found for part in one.parts() if isinstance(part.query, LinearQuery)
    ]


def where(*conditions: str) -> list[str]:
    return [parse_where(one, PLAIN).to_json() for one in conditions]


def test_a_file_has_conditions_statements_and_objects_a_line_each(tmp_path: Path) -> None:
    text = """\ufeff-- the board's questions
age >= 65

SELECT COUNT(*) FROM people WHERE age < 18
  {"where": "sex = 'f'"}
select count(*) from people group by sex
{"sql": "SELECT COUNT(*) FROM people WHERE age = 3"}
"""
    assert in_text(tmp_path, text) == where(
        "age >= 65", "age < 18", "sex = 'f'", "sex = 'f'", "sex = 'm'", "age = 3"
    )


def test_where_a_line_ends_in_a_semicolon_questions_go_on_to_one(tmp_path: Path) -> None:
    text = """SELECT COUNT(*)
FROM people  -- of all
WHERE age < 18;
-- then
age >= 65;
sex = 'f'
  AND age = 3
"""
    assert in_text(tmp_path, text.replace("  -- of all", "")) == where(
        "age < 18", "age >= 65", "sex = 'f' AND age = 3"
    )


@pytest.mark.parametrize("text", ["", "\n \n", "-- nothing\n", ";", "\ufeff"])
def test_a_file_without_a_question_has_none(text: str, tmp_path: Path) -> None:
    assert in_text(tmp_path, text) == []


def test_every_line_that_is_refused_is_told_with_its_number(tmp_path: Path) -> None:
    lines = [
        b"age >= 65", b"ages < 3", b'{"where": ', b"sex = 'f'", b"SELECT COUNT(*) FROM x WHERE hours = 3",
    ]  # fmt: skip
    text = b"\n".join([*lines, b"\xff = 3"])
    with pytest.raises(QueryError) as caught:
        in_text(tmp_path, text)
    numbers = [line.split(":")[0] for line in caught.value.message.splitlines()]
    assert numbers == ["line 2", "line 3", "line 5", "line 6"]
    with pytest.raises(QueryError, match="line 2: unknown attribute 'ages'"):
        in_text(tmp_path, "age >= 65;\nages\n < 3;")


def test_of_very_many_refused_lines_a_hundred_are_told(tmp_path: Path) -> None:
    with pytest.raises(QueryError) as caught:
        in_text(tmp_path, "ages < 3\n" * 250)
    *lines, last = caught.value.message.splitlines()
    assert (len(lines), last) == (100, "and 150 more")


def test_a_workload_has_each_group_by_itself_and_refuses_what_counts_do_not_answer(tmp_path: Path) -> None:
    path, reader = tmp_path / "questions.txt", QuestionReader(PLAIN)
    path.write_text("age >= 65\nSELECT COUNT(*) FROM people GROUP BY sex\n")
    found = [one.query for one in questions_in_text(path, reader, counts_alone=True)]
    assert [one.to_json() for one in found if isinstance(one, LinearQuery)] == where(
        "age >= 65", "sex = 'f'", "sex = 'm'"
    )
    path.write_text("age >= 65\nSELECT AVG(age) FROM people\nages > 3\n")
    with pytest.raises(QueryError, match="line 2: a workload holds counting questions") as caught:
        questions_in_text(path, reader, counts_alone=True)
    assert "line 3: unknown attribute" in caught.value.message
    assert caught.value.code == "unsupported"
