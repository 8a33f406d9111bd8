"""Plain where-texts are read as the SQL parser reads them, or left to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError, parse_where
from queries.plain_text import plain_predicate
from queries.predicates import And, Predicate
from queries.segments import count_where
from queries.sql_names import _WORDS
from queries.where_text import parse_predicate

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
    "age",
    "sex",
    "Hours",
    "hours",
    '"x-y"',
    "x-y",
    '"age"',
    "AGE",
    "Age",
    "nobody",
    '"no body"',
    '"Hours"',
]
VALUES = [
    "30", "-1", "-0", "007", "20.5", "-0.0", "1e3", ".5", "5.", "'f'", "'it''s'", "''", "'x y'", "true",
    "NULL",
    "'m' ", "9" * 320, "(3)", "'-- x'", "'{{ a }}'", "'\\'", "'ü'", "$1", "1_0", "0x1F", "DATE '2020-01-01'",
]  # fmt: skip
SPACES = st.sampled_from(["", " ", "  ", "\t", "\n", "\r\n", "\xa0", "/**/", " -- x\n"])


@st.composite
def terms(draw: st.DrawFn) -> str:
    name, space = draw(st.sampled_from(NAMES)), draw(SPACES)
    value = st.sampled_from(VALUES)
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
    if isinstance(predicate, And):
        return And(tuple(map(unplaced, predicate.children)))
    return replace(predicate, position=None) if hasattr(predicate, "position") else predicate


def read(text: str, domain: Domain) -> Predicate | None:
    try:
        predicate = parse_predicate(text, domain)
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
    words = sorted({word for word in _WORDS if word.isidentifier() and word.isascii()})
    seen = 0
    for word in words:
        try:
            domain = Domain((IntegerAttribute(word, 0, 9), IntegerAttribute(word.lower() + "_", 0, 9)), "t")
        except QueryError:
            continue
        for text in (
            f"{word} = 3",
            f"{word} BETWEEN 1 AND 3",
            f"{word} IN (1, 2)",
            f"{word}<3 AND {word}_ > 1",
        ):
            plain = plain_predicate(text, domain)
            if plain is not None:
                parsed = read(text, domain)
                assert parsed is not None, text
                assert unplaced(plain) == unplaced(parsed), text
                seen += 1
    assert seen > 1000


@pytest.mark.parametrize(
    "text",
    [
        "age >= 30",
        "age BETWEEN 3 AND 5 AND sex = 'f'",
        '"x-y" IN (1,3)',
        "Hours < 40.0\tAND age<>5",
        "sex IN ('f' , 'm')",
    ],
)
def test_what_is_plain_is_read_here(text: str) -> None:
    assert plain_predicate(text, DOMAIN) is not None
    assert parse_where(text, DOMAIN).to_json() == count_where(parse_predicate(text, DOMAIN), DOMAIN).to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [("age = 'x'", "age"), ("sex = 'nobody'", "sex"), ("sex < 3", "sex"), ("age BETWEEN 1 AND 'b'", "age")],
)
def test_what_is_plain_and_refused_has_the_parser_s_message(text: str, message: str) -> None:
    assert plain_predicate(text, DOMAIN) is not None
    with pytest.raises(QueryError) as told:
        parse_where(text, DOMAIN)
    with pytest.raises(QueryError) as parser:
        count_where(parse_predicate(text, DOMAIN), DOMAIN)
    assert (told.value.message, told.value.position, told.value.code) == (
        parser.value.message, parser.value.position, parser.value.code
    )  # fmt: skip
    assert message in told.value.message
    assert told.value.text == text
