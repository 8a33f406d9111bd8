"""Lines of JSON: what a question may hold, and how a line that is none is refused."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    QueryError,
    parse_line,
    parse_where,
)
from queries.comparisons import COMPARE, Comparison, Junction, Not, Operator, Predicate, Scalar
from queries.parsing import plain_predicate, read_line, structured_predicate
from queries.segments import count_where
from queries.sql_tree import SQL_WORDS
from tests.queries.meaning import read_predicate, refusal

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


# A line, the place in it, and what the message says; others stand in ``refusals.txt``.
NO_QUESTIONS: list[tuple[str | bytes, int | str | None, str]] = [
    (b'{"where": "\xff"}', 11, "expected UTF-8 text"),
    (b'\xff\xfe{\x00"\x00', 0, "expected UTF-8 text"),
    (b"\xed\xa0\x80", 0, "expected UTF-8 text"),
    ("[" * 10_000, None, "expected JSON nested at most 16 deep"),
    ('{"where":' * 10_000, None, "expected JSON nested at most 16 deep"),
    ('{"where": {"age": {"eq": ' + "7" * 10_000 + "}}}", None, "expected JSON: a number has too many digits"),
    ('{"where": "", "": 1}', "", "expected the keys id, where, sql, request_id, got ''"),
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


# --- plain and structured conditions ------------------------------------------------------------------------


DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 99),
        CategoricalAttribute("sex", ("f", "m", "it's", "x y", "-1", "true")),
        NumericAttribute("Hours", (0.0, 20.5, 40.0, 80.0)),
        CategoricalAttribute("x-y", (1, 2, 3)),
        IntegerAttribute("AGE", 0, 9),
    ),
    "people",
)
NAMES = [
    "age", "sex", "Hours", "hours", '"x-y"', "x-y", '"age"', "AGE", "Age", "nobody", '"no body"', '"Hours"',
]  # fmt: skip
TOKENS = [
    "30", "-1", "-0", "007", "20.5", "-0.0", "1e3", ".5", "5.", "'f'", "'it''s'", "''", "'x y'", "true",
    "NULL",
    "'m' ", "9" * 320, "(3)", "'-- x'", "'{{ a }}'", "'\\'", "'ü'", "$1", "1_0", "0x1F", "DATE '2020-01-01'",
]  # fmt: skip
SPACES = st.sampled_from(["", " ", "  ", "\t", "\n", "\r\n", "\xa0", "/**/", " -- x\n"])


@st.composite
def terms(draw: st.DrawFn) -> str:
    name, space = draw(st.sampled_from(NAMES)), draw(SPACES)
    value = st.sampled_from(TOKENS)
    form = draw(st.integers(0, 2))
    if form == 0:
        operator = draw(
            st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "==", "<-", "=>", "LIKE", "IS"])
        )
        return f"{name}{space}{operator}{draw(SPACES)}{draw(value)}"
    if form == 1:
        word = draw(st.sampled_from(["BETWEEN", "between", "NOT BETWEEN"]))
        return f"{name} {word}{space or ' '}{draw(value)} AND{draw(SPACES)} {draw(value)}"
    listed = f",{space}".join(draw(st.lists(value, max_size=3)))
    return f"{name} {draw(st.sampled_from(['IN', 'in', 'NOT IN']))}{space}({listed})"


TEXTS = st.lists(terms(), min_size=1, max_size=4).flatmap(
    lambda parts: st.sampled_from([" AND ", " and ", " OR ", "  AND\t", " AND NOT ", ", ", ") AND ("]).map(
        lambda joint: joint.join(parts)
    )
)


def unplaced(predicate: Any) -> Any:
    """Return a predicate without where it stood."""
    if isinstance(predicate, Junction):
        return replace(predicate, children=tuple(map(unplaced, predicate.children)))
    return replace(predicate, position=None) if isinstance(predicate, Comparison) else predicate


def read(text: str, domain: Domain) -> Predicate | None:
    try:
        predicate = read_predicate(text, domain)
        count_where(predicate, domain)
    except QueryError:
        return None
    return predicate


@given(TEXTS)
def test_a_plain_text_is_what_the_parser_makes_of_it(text: str) -> None:
    plain, parsed = plain_predicate(text, DOMAIN), read(text, DOMAIN)
    if plain is None:
        return
    if parsed is None:  # it is refused either way, by the parser's message
        with pytest.raises(QueryError):
            count_where(plain, DOMAIN)
    else:
        assert unplaced(plain) == unplaced(parsed)
        assert repr(unplaced(plain)) == repr(unplaced(parsed))  # 1 is not 1.0


def test_every_word_of_sql_that_is_a_name_is_read_as_the_parser_reads_it() -> None:
    forms = itertools.cycle(("{0} = 3", "{0} BETWEEN 1 AND 3", "{0} IN (1, 2)", "{0}<3 AND {0}_ > 1"))
    seen = 0
    for word, form in zip(sorted(filter(str.isidentifier, SQL_WORDS)), forms):  # noqa: B905
        domain = Domain((IntegerAttribute(word, 0, 9), IntegerAttribute(word.lower() + "_", 0, 9)), "t")
        text = form.format(word)
        plain = plain_predicate(text, domain)
        if plain is not None:
            assert unplaced(plain) == unplaced(read(text, domain)), text
            seen += 1
    assert seen > 250


PLAIN = [
    *("age >= 30", "age BETWEEN 3 AND 5 AND sex = 'f'", '"x-y" IN (1,3)', "Hours < 40.0\tAND age<>5"),
    *("sex IN ('f' , 'm')", "age = 'x'", "sex = 'nobody'", "sex < 3", "age BETWEEN 1 AND 'b'"),
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_plain_is_read_here_and_refused_in_the_parser_s_words(text: str) -> None:
    def told(read: Callable[[], LinearQuery]) -> object:
        try:
            return read().to_json()
        except QueryError as error:
            return error.to_dict()

    assert plain_predicate(text, DOMAIN) is not None
    parsed = told(lambda: count_where(read_predicate(text, DOMAIN), DOMAIN))
    assert told(lambda: parse_where(text, DOMAIN)) == parsed


# --- structured conditions ----------------------------------------------------------------------------------

OPERATORS = ["eq", "ne", "ge", "gt", "le", "lt", "between", "in", "is_missing", "is_other"]


def test_each_operator_states_its_comparison_and_keys_are_joined_by_and(people: Domain) -> None:
    given: list[tuple[str, str, Any, Operator, tuple[Scalar, ...]]] = [
        *(("age", order, 30.5, order, (30.5,)) for order in COMPARE),
        ("age", "between", [30, 39], "between", (30, 39)), ("age", "is_missing", True, "missing", ()),
        ("sex", "in", ["Male"], "in", ("Male",)), ("sex", "is_other", True, "other", ()),
        ("member", "eq", True, "eq", (True,)), ("education-num", "eq", 3, "eq", (3,)),
    ]  # fmt: skip
    where: dict[str, dict[str, Any]] = {}
    for name, key, value, _, _ in given:
        where.setdefault(name, {})[key] = value
    terms = tuple(
        Comparison(name, operator, values, f"where.{name}.{key}") for name, key, _, operator, values in given
    )
    assert structured_predicate(where, people) == Junction("and", terms)
    for name, key, flag in (("age", "is_missing", "missing"), ("sex", "is_other", "other")):
        negated = Not(Comparison(name, flag, (), f"where.{name}.{key}"))  # type: ignore[arg-type]  # one of both
        assert structured_predicate({name: {key: False}}, people) == Junction("and", (negated,))
    assert structured_predicate({}, people) == Junction("and", ())


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (
            {"age": {"between": [30, 39]}, "sex": {"in": ["Female"]}},
            "age BETWEEN 30 AND 39 AND sex = 'Female'",
        ),
        ({"age": {"is_missing": False}}, "age IS NOT NULL"),
        ({"sex": {"ne": "Male"}}, "NOT sex = 'Male'"),
        ({"income": {"ge": 5000, "lt": 25000}}, "income >= 5000 AND income < 25000"),
        ({"member": {"eq": "true"}}, "member = TRUE"),
        ({"age": {"in": [30, 40]}, "hours": {"le": 44}}, "hours < 45 AND age IN (40, 30)"),
    ],
)
def test_both_ways_of_writing_ask_the_same(people: Domain, where: dict[str, Any], text: str) -> None:
    assert parse_where(where, people).key() == parse_where(text, people).key()


ENDS, VALUES = "expected a list of two ends, got", "expected a list of 1 to 10,000 values, got"
SCALAR, FLAG = "expected a text, a number, true or false, got", "expected true or false, got"


# Of a condition on the age: the operator, the value, and what the message says.
OF_AGE: list[tuple[str, Any, str]] = [
    *((order, value, f"{SCALAR} ") for order in COMPARE for value in (None, [], [1], {}, {"eq": 1})),
    ("between", 30, f"{ENDS} a number"), ("between", None, f"{ENDS} null"),
    ("between", "30", f"{ENDS} a text"), ("between", {"low": 30}, f"{ENDS} an object"),
    ("between", [30], f"{ENDS} a list of 1"), ("between", [30, 31, 32], f"{ENDS} a list of 3"),
    ("between", [30, None], f"{SCALAR} null"), ("between", [[30], 31], f"{SCALAR} a list of 1"),
    ("in", True, f"{VALUES} true or false"), ("in", "30", f"{VALUES} a text"),
    ("in", [], f"{VALUES} a list of 0"), ("in", [30] * 10_001, f"{VALUES} a list of 10001"),
    ("in", [30, {"eq": 1}], f"{SCALAR} an object"), ("is_missing", 1, f"{FLAG} a number"),
    ("is_missing", "true", f"{FLAG} a text"), ("is_other", None, f"{FLAG} null"),
    ("equals", 3, "expected one of eq, ne, ge, gt, le, lt"), ("betwen", [1, 2], "did you mean 'between'?"),
]  # fmt: skip
KINDS_OF_VALUES: list[tuple[Any, str]] = [
    (30, "a number"), (None, "null"), ([30, 39], "a list of 2"), ({}, "an empty object"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "code", "position", "message"),
    [
        *(({"age": {key: value}}, "bad_request", f"where.age.{key}", told) for key, value, told in OF_AGE),
        *(
            ({"age": value}, "bad_request", "where.age", f'an object such as {{"eq": 3}}, got {kind}')
            for value, kind in KINDS_OF_VALUES
        ),
        ({"AGE": {"eq": 30}}, "unknown_attribute", "where.AGE", "unknown attribute 'AGE'"),
        ({"": {"eq": 30}}, "unknown_attribute", "where.", "unknown attribute ''"),
        ({"age": {"eq": "30"}}, "wrong_kind", "where.age.eq", "holds numbers; got '30'"),
        ({"sex": {"between": ["A", "B"]}}, "wrong_kind", "where.sex.between", "is categorical"),
        ({"sex": {"is_missing": True}}, "unknown_value", "where.sex.is_missing", "missing = true"),
    ],
)
def test_a_refusal_points_at_its_path(
    people: Domain, where: dict[str, Any], code: str, position: str, message: str
) -> None:
    error = refusal(parse_where, where, people)
    assert (error.code, error.position) == (code, position)
    assert message in error.message


def test_a_tuple_is_as_good_as_a_list_and_a_set_is_no_number(people: Domain) -> None:
    assert parse_where({"age": {"between": (30, 39)}}, people).describe() == "age 30 to 39"
    assert parse_where({"sex": {"in": ("Male",)}}, people).describe() == "sex Male"
    assert "got a number" not in refusal(parse_where, {"age": {"eq": {30}}}, people).message


ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ASKED = st.sampled_from(["age", "sex", "income", "member", "hours", "x"])
CONDITIONS = st.dictionaries(st.sampled_from(OPERATORS), ANY_JSON, max_size=3)


@given(st.dictionaries(ASKED, CONDITIONS | ANY_JSON, max_size=3))
def test_no_structured_condition_raises_anything_but_a_query_error(
    people: Domain, where: dict[str, Any]
) -> None:
    try:
        query = parse_where(where, people)
    except QueryError as error:
        assert error.position is None or str(error.position).startswith("where.")  # noqa: PT017
    else:
        assert set(query.scope) <= set(where)
