"""Declared names that are words of SQL: bare where no word can stand, and in double quotes always."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

from queries import CategoricalAttribute, Domain, IntegerAttribute, QueryError, parse_where
from queries.cells import GRAMMAR_WORDS, quoted_name
from queries.comparisons import Comparison, Junction, Not, Predicate
from queries.parsing import parse_sql
from tests.queries.meaning import read_predicate, refusal

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
CONDITIONS = [
    "{} = 3", "{}<>3", "3 < {}", "{} BETWEEN 2 AND 5", "{} NOT IN (2, 3)", "{} IN (2, 3)", "{} IS NOT NULL",
    "NOT {} = 3", "({} < 3) OR ({} >= 5 AND sex = 'a')", "sex = 'a' AND {} > 4 AND 2 <= {}",
]  # fmt: skip


def _domain(name: str) -> Domain:
    return Domain(
        (IntegerAttribute(name, 0, 9, missing=True), CategoricalAttribute("sex", ("a", "b"))), name="people"
    )


def _spelled(text: str, word: str, *, bare: bool) -> str:
    """Return a text with a name in each place: bare, or in turn in double quotes and in capitals."""
    spellings = [word] if bare else [f'"{word}"', *([] if word in GRAMMAR_WORDS else [word.upper()])]
    turns = itertools.cycle(spellings)
    return re.sub(r"\{\}", lambda _: next(turns), text)


@pytest.mark.parametrize("bare", [True, False])
def test_every_word_is_a_name_where_no_word_can_stand(bare: bool) -> None:
    text = " OR ".join(f"({condition})" for condition in CONDITIONS)
    expected = _named(read_predicate(text.replace("{}", "age"), _domain("age")), "age")
    statement = (
        "SELECT sex, {} AS g, COUNT(*) AS n FROM people WHERE people.{} >= 3 AND {} < 7 GROUP BY {}, sex"
    )
    for word in WORDS:
        if bare and word in GRAMMAR_WORDS:
            continue
        written = _spelled(text, word, bare=bare)
        assert _named(read_predicate(written, _domain(word)), word) == expected, written
        if not bare:
            continue
        grouped = parse_sql(_spelled(statement, word, bare=True), _domain(word))
        assert [one.scope for one in grouped.groupings] == [(word,), ("sex",)], word
        assert np.flatnonzero(grouped.where.weights()).tolist() == [3, 4, 5, 6], word


def _named(predicate: Predicate, name: str) -> list[object]:
    """Return a predicate as nested lists without places, its one name apart from ``sex`` as ``?``."""
    match predicate:
        case Comparison():
            shown = "?" if predicate.attribute == name else predicate.attribute
            return [shown, predicate.operator, predicate.values, predicate.part]
        case Junction(kind, children):
            return [kind, *(_named(child, name) for child in children)]
        case Not(child):
            return ["not", _named(child, name)]
    raise AssertionError(predicate)


@pytest.mark.parametrize("word", sorted(GRAMMAR_WORDS - {"in", "is"}))  # which can begin nothing else
def test_a_word_of_the_grammar_is_refused_bare_and_told_to_be_quoted(word: str) -> None:
    error = refusal(parse_where, f"sex = 'a' AND {word.upper()} = 3", _domain(word))
    assert f'stands in double quotes, "{word}"' in error.message
    assert quoted_name(word) == f'"{word}"'


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        ("sex = 'a' AND case * 2 ~ 3", False),
        ("sex = 'a' AND case ~ 3", False),
        ("CASE WHEN sex = 'a' THEN 1 = 1", False),  # it is a CASE
        ("case 3 = 3", False),
        ("case = 3 AND CAST(case AS TIME) = 3", False),
    ],
)
def test_a_word_is_told_to_be_quoted_where_that_helps(text: str, helps: bool) -> None:
    error = refusal(parse_where, text, _domain("case"))
    assert error.code in ("syntax", "unsupported")
    assert ('"case"' in error.message) == helps


def test_places_in_messages_are_those_of_the_text_as_it_was_written() -> None:
    for text, position in (
        ("Case >= 3 AND date = 4 AND  sexx = 'a'", 14),
        ("CASE >= 3 AND\n case >= 'x'", 15),
    ):
        assert refusal(parse_where, text, _domain("case")).position == position


def test_names_that_differ_in_case_alone_are_taken_as_they_are_written() -> None:
    domain = Domain((IntegerAttribute("case", 0, 9), IntegerAttribute("Case", 0, 9)), name="people")
    assert parse_where("Case = 3", domain).scope == ("Case",)
    with pytest.raises(QueryError, match="unknown attribute 'CASE'"):
        parse_where("CASE = 3", domain)


def test_a_statement_is_still_told_from_a_condition_over_a_column_called_select() -> None:
    domain = _domain("select")
    assert parse_where("select = 3", domain).scope == ("select",)
    for text in ("select count(*) from people", "select 'never closed"):
        assert "ask it as SQL" in refusal(parse_where, text, domain).message


@pytest.mark.parametrize(
    "text",
    ["case = 'never closed", 'case = "', "case = /* 3", "case = 3 \\", "; case = 4", "case = 3; case = 4"],
)
def test_a_text_that_cannot_be_split_or_holds_two_conditions_is_refused_in_our_own_words(text: str) -> None:
    told = refusal(parse_where, text, _domain("case")).message
    assert told.startswith(("expected a condition such as", "a second statement is not supported"))
    # Nor is a bare word taken for the alias of the table that it would be.
    refusal(parse_sql, "SELECT COUNT(*) FROM people WHERE", _domain("where"))
