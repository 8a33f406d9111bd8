"""Lines of JSON: what a question may hold, and how a line that is none is refused."""

from __future__ import annotations

import itertools
import json
import re
import time
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

from queries import (
    CategoricalAttribute,
    DateAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    QueryError,
    parse_line,
    parse_where,
)
from queries.cells import GRAMMAR_WORDS, quoted_name
from queries.comparisons import COMPARE, Comparison, Junction, Operator, Predicate, Scalar, negation
from queries.parsing import parse_sql, plain_predicate, read_line, structured_predicate
from queries.segments import count_where
from queries.sql_tree import LONGEST_TEXT
from tests.queries.meaning import read_predicate, refusal

EVERYBODY = b'{"where": ""}'


@pytest.mark.parametrize(
    ("line", "identifier", "request_id", "words"),
    [
        (EVERYBODY, None, None, "everybody"),
        (b'{"id": "a", "where": {"age": {"eq": 30}}}', "a", None, "age 30"),
        ('{"id": "", "where": {}, "request_id": "r-1"}', "", "r-1", "everybody"),
        ('{"id": null, "where": "", "request_id": null}', None, None, "everybody"),
        (b' \t{"id": -7, "where": "gr\xc3\xb6\xc3\x9fe = \'klein\'"}\r\n', -7, None, "größe klein"),
        ('{"where": "gr\\u00f6\\u00dfe = \'klein\'"}', None, None, "größe klein"),
        *(  # brackets in texts are no nesting
            (f'{{"where": "", "id": "{text}", "request_id": "{"[" * 40}"}}', json.loads(f'"{text}"'),
             "[" * 40, "everybody")
            for text in ("[" * 40, '\\"' + "{" * 40, "\\\\", "]" * 40)
        ),
        ('{"where": "", "request_id": "' + "x" * 200 + '"}', None, "x" * 200, "everybody"),
    ],
)  # fmt: skip
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


def test_a_line_of_one_megabyte_is_read_and_a_longer_one_is_not(people: Domain) -> None:
    line = b'{"where": "", "id": 7' + b" " * (2**20 - 22) + b"}"
    assert (len(line), parse_line(line, people).id) == (2**20, 7)
    for long in (line + b" ", " " * (2**20 + 1)):
        error = refusal(parse_line, long, people)
        assert (error.code, error.position) == ("too_long", None)
        assert "a line has at most 1,048,576 bytes" in error.message


@pytest.mark.parametrize("line", ['"' + "[{" * 500_000, '"\\' * 300_000 + "[" * 17, "{}" * 500_000])
def test_the_longest_line_of_brackets_is_refused_after_one_look_at_each(people: Domain, line: str) -> None:
    assert refusal(parse_line, line, people).code == "bad_request"


LONG = "x" * 300_000
LONG_KEYS = [
    {LONG: 1}, {"where": {LONG: {"eq": 1}}}, {"where": {"age": {LONG: 1}}}, {"where": {"age": {"eq": LONG}}},
    {"where": {"sex": {"in": [LONG]}}},
]  # fmt: skip


@pytest.mark.parametrize("line", [f'{{"{LONG}": 1, "{LONG}": 2}}', *map(json.dumps, LONG_KEYS)], ids=range(6))
def test_a_message_stays_short_however_long_the_line(people: Domain, line: str) -> None:
    assert len(refusal(parse_line, line, people).message) < 1000


def test_a_key_that_stands_there_twice_is_found_quickly() -> None:
    keys = ",".join(f'"{number}":1' for number in range(20_000))
    start = time.process_time()
    with pytest.raises(QueryError, match="the key 'last' stands there twice"):
        read_line(f'{{{keys},"last":1,"last":2}}')
    assert time.process_time() - start < 1.0


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
        negated = negation(Comparison(name, flag, (), f"where.{name}.{key}"))  # type: ignore[arg-type]  # one of both
        assert structured_predicate({name: {key: False}}, people) == Junction("and", (negated,))
    assert structured_predicate({}, people) == Junction("and", ())


ENDS, VALUES = "expected a list of two ends, got", "expected a list of 1 to 10,000 values, got"
SCALAR, FLAG = "expected a text, a number, true or false, got", "expected true or false, got"


# Of a condition on the age: the operator, the value, and what the message says.
OF_AGE: list[tuple[str, Any, str]] = [
    ("eq", None, f"{SCALAR} null"), ("lt", [], f"{SCALAR} a list"), ("ne", {"eq": 1}, f"{SCALAR} an object"),
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


# --- where-texts --------------------------------------------------------------------------------------------


def _age(operator: Operator, *values: Scalar, at: int = 0) -> Comparison:
    return Comparison("age", operator, values, at)


def _is(name: str, value: Scalar, at: int = 0) -> Comparison:
    return Comparison(name, "eq", (value,), at)


def _all(*terms: Predicate) -> Predicate:
    return Junction("and", terms)


def _any(*terms: Predicate) -> Predicate:
    return Junction("or", terms)


SIGNS: dict[str, tuple[Operator, Operator]] = {  # as they stand, and where the value comes first
    "=": ("eq", "eq"), "==": ("eq", "eq"), "<>": ("ne", "ne"), "!=": ("ne", "ne"),
    "<": ("lt", "gt"), "<=": ("le", "ge"), ">": ("gt", "lt"), ">=": ("ge", "le"),
}  # fmt: skip
READ: list[tuple[str, Predicate]] = [
    *((f"age {sign} 30", _age(meant, 30)) for sign, (meant, _) in SIGNS.items()),
    *((f"30 {sign} age", _age(meant, 30, at=4 + len(sign))) for sign, (_, meant) in SIGNS.items()),
    ("'Male' = sex", _is("sex", "Male", 9)),
    ("age BETWEEN 30 AND 39", _age("between", 30, 39)),
    ("age NOT BETWEEN 30 AND 39", negation(_age("between", 30, 39))),
    ("age IN (30)", _age("in", 30)),
    ("age IN (30, -31, (32))", _age("in", 30, -31, 32)),
    ("sex NOT IN ('Male', 'Female')", negation(Comparison("sex", "in", ("Male", "Female"), 0))),
    ("age IS NULL", _age("missing")),
    ("age IS NOT NULL", negation(_age("missing"))),
    # AND binds tighter than OR, and NOT tighter than both.
    ("age = 1 AND age = 2 AND age = 3", _all(_is("age", 1), _is("age", 2, 12), _is("age", 3, 24))),
    ("age = 1 OR age = 2 AND age = 3", _any(_is("age", 1), _all(_is("age", 2, 11), _is("age", 3, 23)))),
    ("age = 1 AND age = 2 OR age = 3", _any(_all(_is("age", 1), _is("age", 2, 12)), _is("age", 3, 23))),
    ("(age = 1 OR age = 2) AND age = 3", _all(_any(_is("age", 1, 1), _is("age", 2, 12)), _is("age", 3, 25))),
    ("NOT age = 1 AND age = 2", _all(negation(_is("age", 1, 4)), _is("age", 2, 16))),
    ("NOT (age = 1 OR age = 2)", negation(_any(_is("age", 1, 5), _is("age", 2, 16)))),
    ("NOT NOT age = 1", negation(negation(_is("age", 1, 8)))),
    ("age BETWEEN 1 AND 2 AND age = 3", _all(_age("between", 1, 2), _is("age", 3, 24))),
    ("((age = 1))", _is("age", 1, 2)),
    (" \n\t ", _all()),
    # Comments, spaces and a last semicolon change nothing but places.
    ("age /* sic */ = 30 -- and nothing else", _age("eq", 30)),
    ("-- first\n  age\n=\t30;", _age("eq", 30, at=11)),
    # Names fold unless they are quoted, and texts stand as they are written.
    ("Age between 30 and 39", _age("between", 30, 39)),
    ('"age" = 30', _age("eq", 30)),
    ('"education-num" = 3', _is("education-num", 3)),
    ("größe = 'klein'", _is("größe", "klein")),
    ("GRÖSSE = 'klein'", _is("größe", "klein")),
    ("member = false", _is("member", False)),
    ("sex = ('Male')", _is("sex", "Male")),
    *(
        (f"sex = '{text}'", _is("sex", text.replace("''", "'")))
        for text in ("it''s", "", "a\\", 'a"b', "a;b", "-- no comment", "zwei\nZeilen", "🦊")
    ),
]


@pytest.mark.parametrize(("text", "predicate"), READ)
def test_a_text_says_what_it_says_in_sql(people: Domain, text: str, predicate: Predicate) -> None:
    assert read_predicate(text, people) == predicate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("007", 7), ("-5", -5), ("-(-5)", 5), ("+5", 5), ("(5)", 5), (".5", 0.5), ("5.", 5.0),
        ("2.5E-1", 0.25), ("1e+2", 100.0), ("9007199254740993", 2**53 + 1),
    ],
)  # fmt: skip
def test_numbers_are_read_by_one_grammar(people: Domain, text: str, value: float) -> None:
    found = read_predicate(f"age >= {text}", people)
    assert found == _age("ge", value)
    assert isinstance(found, Comparison)
    assert type(found.values[0]) is type(value)


def test_a_refusal_keeps_the_text_in_which_its_place_is_counted(people: Domain) -> None:
    text = "age = 30 AND ages = 3"
    error = refusal(parse_where, text, people)
    assert (error.text, error.position) == (text, text.index("ages"))
    assert refusal(parse_where, {"ages": {"eq": 3}}, people).text is None


def test_the_longest_text_is_read_and_one_that_is_too_long_or_too_deep_is_refused(people: Domain) -> None:
    text = " OR ".join(["age = 30"] * 341)
    padded = text + " " * (LONGEST_TEXT - len(text))
    assert parse_where(padded, people).describe() == "age 30"
    long = (padded + " ", "ü" * 2049, "(" * 1000 + "age = 30" + ")" * 1000)
    for asked, place in zip(long, (LONGEST_TEXT, LONGEST_TEXT // 2, 0), strict=True):
        refused = refusal(parse_where, asked, people)
        assert (refused.code, refused.position) == ("too_long", place)
    large = refusal(parse_where, "age >= " + "9" * 400, people)
    assert (large.code, large.position) == ("wrong_kind", 0)
    for opening in ("NOT ", "(", "-", "age = (", "abs(", "CASE WHEN ", "age IN (", "[", "a."):
        refusal(parse_where, opening * (LONGEST_TEXT // len(opening)), people)


# --- texts at random ---------------------------------------------------------------------------------------

SYMBOLS = st.sampled_from(
    [
        *("age", "sex", "income", "education-num", "größe", '"age"', '"x"', "people", "x", "`a`", "[a]"),
        *("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", ":=", "=>", "->", "->>", "::", "||", "&&", "!"),
        *("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "XOR", "ANY", "ALL"),
        *("30", "39", "-1", "3.5", "1e3", "1e999", "5e", ".5", "5.", "0x1F", "'Male'", "''", "'", '"', "$$"),
        *"()[]{},;.*+-/%^~|&#",
        *("()", "--", "/*", "*/", "\n", "\x00", "\\", "?", ":x", "@x", "$1", "N'x'", "X'41'", "E'x'", "🦊"),
        *("SELECT", "FROM", "WHERE", "UNION", "CASE", "WHEN", "THEN", "ELSE", "END", "EXISTS", "CAST", "AS"),
        *("INT", "COUNT", "abs", "OVER", "FILTER", "INTERVAL", "DAY", "ARRAY", "STRUCT", "MAP", "VALUES"),
        *("COLLATE", "ESCAPE", "SYMMETRIC", "DISTINCT", "ISNULL", "NOTNULL", "LIMIT", "ORDER", "BY", "AT"),
        "DATE",
    ]
)


ROWS = st.builds(str.join, st.sampled_from(["", " "]), st.lists(SYMBOLS, max_size=14))
TAILS = st.lists(SYMBOLS, max_size=6).map(lambda tokens: " ".join(["age >= 30", *tokens]))


@given(st.text(max_size=80) | ROWS | TAILS)
@settings(max_examples=3 * settings().max_examples)  # of each kind as many as elsewhere
@example("\ud800 = 3")
@example("sex = '\udfff'")
@example("age = \u0663\u0660")
@example("\ufeffage = 30")
def test_no_text_raises_anything_but_a_query_error(people: Domain, text: str) -> None:
    """A refusal has a code, a message of bounded length, and a place inside the text."""
    try:
        query = parse_where(text, people)
    except QueryError as error:
        inside = error.position is None or error.position in range(len(text) + 1)
        assert (inside, bool(error.code)) == (True, True)  # noqa: PT017 - a refusal is as right as an answer
        assert 10 < len(error.message) < 1000  # noqa: PT017
    else:
        assert query.domain is people


def test_the_ends_of_what_is_computed_are_told(people: Domain) -> None:
    assert refusal(parse_where, "age * 2 > 300", people).message == (
        "an empty range: got 300; age * 2 goes from 34 to 180 (values outside count as the declared ends)"
    )
    assert parse_where("age * 2 = 35", people).constant == 0  # between the ends, and of no whole number


TRIPS = Domain(
    (
        CategoricalAttribute("race", ("asian", "o'hara")),
        CategoricalAttribute("prerace", ("asian", "none")),
        IntegerAttribute("delay", 0, 100),
        DateAttribute("d", date(2020, 1, 1), date(2020, 12, 31)),
    ),
    name="trips",
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("race < prerace", "(race, prerace) IN (('asian', 'asian'))"),
        ("race > LOWER(prerace)", "race IN ('asian')"),
        ("race BETWEEN 'a' AND 'c'", "race IN ('asian', 'o''hara')"),
        ("delay SIMILAR TO 'x'", "race = 'asian' AND prerace = 'asian'"),
        ("SOUNDEX(race) = 'asian'", "race = 'asian' AND prerace = 'asian'"),
        ("race = ", "race = 'asian' AND prerace = 'asian'"),
        ("5 < delay < 9", "5 < delay AND delay < 9"),
        ("5 <= delay <> 9", "5 <= delay AND delay <> 9"),
    ],
)
def test_a_refusal_names_a_condition_over_the_table_s_own_attributes(text: str, told: str) -> None:
    message = refusal(parse_where, text, TRIPS).message
    assert told in message
    assert not re.search(r"\b(age|sex|Female)\b", message)
    parse_where(told, TRIPS)


# --- names that are words of SQL ----------------------------------------------------------------------------


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORDS = sorted(
    {
        word.lower()
        for table in (
            *(Tokenizer.KEYWORDS, Parser.NO_PAREN_FUNCTION_PARSERS),
            [kind.name for kind in Parser.NO_PAREN_FUNCTIONS],
            ["user", "symmetric", "escape", "over", "value", "year", "order", "group", "by", "count", "map"],
            ["partitioned_by", "date", "left", "index", "values", "timestamp", "check", "unique", "if"],
        )
        for word in table
        if _PLAIN.fullmatch(word)
    }
)
WORDED = (
    "{}<>3 OR 3 < {} OR {} BETWEEN 2 AND 5 OR {} NOT IN (2, 3) OR {} IS NOT NULL"
    " OR (NOT {} = 3 AND sex = 'a' AND 2 <= {})"
)
PLAIN = itertools.cycle(("{0} = 3", "{0} BETWEEN 1 AND 3", "{0} IN (1, 2)", "{0}<3 AND {0} > 1"))


def _domain(name: str) -> Domain:
    return Domain(
        (IntegerAttribute(name, 0, 9, missing=True), CategoricalAttribute("sex", ("a", "b"))), name="people"
    )


def _spelled(text: str, word: str, *, bare: bool) -> str:
    """Return a text with a name in each place: bare, or in turn in double quotes and in capitals."""
    spellings = [word] if bare else [f'"{word}"', *([] if word in GRAMMAR_WORDS else [word.upper()])]
    turns = itertools.cycle(spellings)
    return re.sub(r"\{\}", lambda _: next(turns), text)


def _renamed(predicate: Any, word: str) -> Any:
    """Return a predicate without places, about the age where it is about a word."""
    if isinstance(predicate, Junction):
        return replace(predicate, children=tuple(_renamed(child, word) for child in predicate.children))
    return replace(
        predicate, position=None, attribute={word: "age"}.get(predicate.attribute, predicate.attribute)
    )


@pytest.mark.parametrize("bare", [True, False])
def test_every_word_is_a_name_where_no_word_can_stand(bare: bool) -> None:
    expected = _renamed(read_predicate(WORDED.replace("{}", "age"), _domain("age")), "age")
    statement = (
        "SELECT sex, {} AS g, COUNT(*) AS n FROM people WHERE people.{} >= 3 AND {} < 7 GROUP BY {}, sex"
    )
    plainly = 0
    for word in WORDS if bare else [*WORDS[::4], *GRAMMAR_WORDS]:  # in quotes they are no words
        if bare and word in GRAMMAR_WORDS:
            continue
        written, domain = _spelled(WORDED, word, bare=bare), _domain(word)
        assert _renamed(read_predicate(written, domain), word) == expected, written
        if not bare:
            continue
        grouped = parse_sql(_spelled(statement, word, bare=True), domain)
        assert [one.scope for one in grouped.groupings] == [(word,), ("sex",)], word
        assert np.flatnonzero(grouped.where.weights()).tolist() == [3, 4, 5, 6], word
        text = next(PLAIN).format(word)
        plain = plain_predicate(text, domain)
        if plain is not None:
            plainly += 1
            assert unplaced(plain) == unplaced(read(text, domain)), text
    assert plainly > 150 or not bare


@pytest.mark.parametrize("word", sorted(GRAMMAR_WORDS - {"in", "is"}))  # which can begin nothing else
def test_a_word_of_the_grammar_is_refused_bare_and_told_to_be_quoted(word: str) -> None:
    error = refusal(parse_where, f"sex = 'a' AND {word.upper()} = 3", _domain(word))
    assert f'stands in double quotes, "{word}"' in error.message
    assert quoted_name(word) == f'"{word}"'


def test_a_word_is_told_to_be_quoted_only_where_that_helps_and_places_are_of_the_text_as_written() -> None:
    for text in ("sex = 'a' AND case * 2 ! 3", "CASE WHEN sex = 'a' THEN 1 = 1", "case 3 = 3",
                 "case = 3 AND CAST(case AS TIME) = 3"):  # fmt: skip
        error = refusal(parse_where, text, _domain("case"))
        assert error.code in ("syntax", "unsupported")
        assert '"case"' not in error.message
    for text, position in (
        ("Case >= 3 AND date = 4 AND  sexx = 'a'", 14),
        ("CASE >= 3 AND\n case >= 'x'", 15),
    ):
        assert refusal(parse_where, text, _domain("case")).position == position


def test_a_statement_is_still_told_from_a_condition_over_a_column_called_select() -> None:
    domain = _domain("select")
    assert parse_where("select = 3", domain).scope == ("select",)
    for text in ("select count(*) from people", "select 'never closed"):
        assert "ask by sql()" in refusal(parse_where, text, domain).message


@pytest.mark.parametrize(
    "text",
    ["case = 'never closed", 'case = "', "case = /* 3", "case = 3 \\", "; case = 4", "case = 3; case = 4"],
)
def test_a_text_that_cannot_be_split_or_holds_two_conditions_is_refused_in_our_own_words(text: str) -> None:
    told = refusal(parse_where, text, _domain("case")).message
    assert told.startswith(("expected a condition such as", "a second statement is not supported"))
    # Nor is a bare word taken for the alias of the table that it would be.
    refusal(parse_sql, "SELECT COUNT(*) FROM people WHERE", _domain("where"))
