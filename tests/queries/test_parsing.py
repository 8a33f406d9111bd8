"""Lines of JSON: what a question may hold, and how a line that is none is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queries import Domain, LinearQuery, QueryError, parse_line, parse_where
from queries.parsing import read_line
from tests.queries.meaning import refusal

EVERYBODY = b'{"where": ""}'


@pytest.mark.parametrize(
    ("line", "identifier", "request_id", "words"),
    [
        (EVERYBODY, None, None, "everybody"),
        ('{"where": {}}', None, None, "everybody"),
        ('{"id": 1, "where": "age = 30"}', 1, None, "age 30"),
        (b'{"id": "a", "where": {"age": {"eq": 30}}}', "a", None, "age 30"),
        ('{"id": null, "where": "", "request_id": null}', None, None, "everybody"),
        ('{"id": "", "where": "", "request_id": "r-1"}', "", "r-1", "everybody"),
        ('{"id": -7, "where": "größe = \'klein\'"}', -7, None, "größe klein"),
        (b' \t{"where": "gr\xc3\xb6\xc3\x9fe = \'klein\'"}\r\n', None, None, "größe klein"),
        ('{"where": "gr\\u00f6\\u00dfe = \'klein\'"}', None, None, "größe klein"),
        ('{"where": "", "request_id": "' + "x" * 200 + '"}', None, "x" * 200, "everybody"),
    ],
)
def test_a_line_becomes_a_question(
    people: Domain, line: str | bytes, identifier: str | int | None, request_id: str | None, words: str
) -> None:
    question = parse_line(line, people)
    assert (question.id, question.request_id) == (identifier, request_id)
    assert isinstance(question.query, LinearQuery)
    assert question.query.describe() == words


# A line, the place in it, and what the message says; first those that are no JSON that is read.
NO_QUESTIONS: list[tuple[str | bytes, int | str | None, str]] = [
    ("", 0, "expected JSON: Expecting value"),
    ("age = 30", 0, "expected JSON: Expecting value"),
    ('{"where": ""', 12, "expected JSON: "),
    ('{"where": ""} {}', 14, "expected JSON: Extra data"),
    ("{'where': ''}", 1, "expected JSON: "),
    ('{"where": "a\nb"}', 12, "expected JSON: Invalid control character"),
    (b'{"where": "\xff"}', 11, "expected UTF-8 text"),
    (b'\xff\xfe{\x00"\x00', 0, "expected UTF-8 text"),
    (b"\xed\xa0\x80", 0, "expected UTF-8 text"),
    ('{"where": "", "where": ""}', "where", "the key 'where' stands there twice"),
    ('{"where": {"age": {"ge": 30, "ge": 40}}}', "ge", "the key 'ge' stands there twice"),
    ('{"where": {"age": {"eq": NaN}}}', None, "expected a finite number, got NaN"),
    ('{"where": {"age": {"ge": -Infinity}}}', None, "expected a finite number, got -Infinity"),
    ('{"id": Infinity, "where": ""}', None, "expected a finite number, got Infinity"),
    ("[" * 10_000, None, "expected JSON nested at most 16 deep"),
    ('{"where":' * 10_000, None, "expected JSON nested at most 16 deep"),
    ('{"where": "", "id": ' + "[" * 16 + "]" * 16 + "}", None, "expected JSON nested at most 16 deep"),
    ('{"where": "", "id": ' + "[" * 15 + "]" * 15 + "}", "id", "id must be a text or a whole number"),
    ('{"where": {"age": {"eq": ' + "7" * 10_000 + "}}}", None, "expected JSON: a number has too many digits"),
    ("[]", None, 'expected a JSON object such as {"where": "…"} or {"sql": "…"}'),
    ('"age = 30"', None, "expected a JSON object"),
    ("null", None, "expected a JSON object"),
    ("{}", None, "keys 'where' and 'sql', got neither; an empty 'where' counts everybody"),
    ('{"where": "", "sql": ""}', None, "keys 'where' and 'sql', got both; an empty 'where' counts everybody"),
    ('{"were": ""}', "were", "the keys id, where, sql, request_id, got 'were'; did you mean 'where'?"),
    ('{"where": "", "": 1}', "", "expected the keys id, where, sql, request_id, got ''"),
    *((f'{{"sql": {one}}}', "sql", "sql must be a text") for one in ("3", '{"select": 1}')),
    *((f'{{"where": {one}}}', "where", "where must be a text or an object") for one in ("null", "3", "[1]")),
    *(
        (f'{{"where": "", "id": {one}}}', "id", "id must be a text or a whole number")
        for one in ("true", "1.0", "[]", "{}")
    ),
    *(
        (f'{{"where": "", "request_id": {one}}}', "request_id", "request_id must be a text of 1 to 200 char")
        for one in ("1", '""', "false", f'"{"x" * 201}"', '"a\\n1"')
    ),
    *((f'{{"where": "", "{key}": "\\ud800"}}', key, f"{key} must be") for key in ("id", "request_id")),
]


@pytest.mark.parametrize(("line", "position", "message"), NO_QUESTIONS)
def test_a_line_that_is_no_question_is_refused(
    people: Domain, line: str | bytes, position: int | str | None, message: str
) -> None:
    error = refusal(parse_line, line, people)
    assert (error.code, error.position) == ("bad_request", position)
    assert message in error.message


@pytest.mark.parametrize("text", ["[" * 40, '\\"' + "{" * 40, "\\\\", "]" * 40])
def test_brackets_in_texts_are_no_nesting(people: Domain, text: str) -> None:
    question = parse_line(f'{{"where": "", "id": "{text}", "request_id": "{"[" * 40}"}}', people)
    assert question.id == json.loads(f'"{text}"')


@pytest.mark.parametrize("line", ['"' + "[{" * 500_000, '"\\' * 300_000 + "[" * 17, "{}" * 500_000])
def test_the_longest_line_of_brackets_is_refused(people: Domain, line: str) -> None:
    assert refusal(parse_line, line, people).code == "bad_request"


def test_a_line_of_one_megabyte_is_read_and_a_longer_one_is_not(people: Domain) -> None:
    line = b'{"where": "", "id": 7' + b" " * (2**20 - 22) + b"}"
    assert (len(line), parse_line(line, people).id) == (2**20, 7)
    for long in (line + b" ", " " * (2**20 + 1)):
        error = refusal(parse_line, long, people)
        assert (error.code, error.position) == ("too_long", None)
        assert "a line has at most 1,048,576 bytes" in error.message


LONG = "x" * 300_000


@pytest.mark.parametrize(
    "form",
    [
        f'{{"{LONG}": 1, "{LONG}": 2}}',
        *(
            json.dumps(form)
            for form in (
                {LONG: 1}, {"where": {LONG: {"eq": 1}}}, {"where": {"age": {LONG: 1}}},
                {"where": {"age": {"eq": LONG}}}, {"where": {"sex": {"in": [LONG]}}},
            )
        ),
    ],
)  # fmt: skip
def test_a_message_stays_short_however_long_the_line(people: Domain, form: str) -> None:
    assert len(refusal(parse_line, form, people).message) < 1000


def test_a_key_that_stands_there_twice_is_found_quickly() -> None:
    keys = ",".join(f'"{number}":1' for number in range(20_000))
    start = time.process_time()
    with pytest.raises(QueryError, match="the key 'last' stands there twice"):
        read_line(f'{{{keys},"last":1,"last":2}}')
    assert time.process_time() - start < 1.0


def test_a_condition_of_another_type_is_refused(people: Domain) -> None:
    for where in (None, b"age = 30"):
        error = refusal(parse_where, where, people)
        assert (error.code, error.position) == ("bad_request", "where")
        assert error.message == "where must be a text or an object"


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["where", "id", "request_id", "age", "eq", "in"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
PIECES = st.sampled_from(
    [
        *'{}[]:,"\\1-.',
        *('"where"', '"id"', '"age"', "e5", "1e9", "true", "false", "null", "NaN", "\\u", "\\ud800"),
        *("\x00", "\ufeff", "\n", " ", '"age = 30"', "''"),
    ]
)


@given(
    st.binary(max_size=80) | PIECES.flatmap(lambda first: st.lists(PIECES).map([first].__add__).map("".join))
)
@example(b"\xef\xbb\xbf{}")
def test_no_line_raises_anything_but_a_query_error(people: Domain, line: str | bytes) -> None:
    _ask(line, people)


@given(JSON)
def test_no_json_raises_anything_but_a_query_error(people: Domain, form: Any) -> None:
    _ask(json.dumps(form), people)


def _ask(line: str | bytes, domain: Domain) -> None:
    try:
        question = parse_line(line, domain)
    except QueryError as error:
        assert json.loads(json.dumps(error.to_dict()))["code"] == error.code  # noqa: PT017
    else:
        assert question.query.domain is domain
