"""Where-texts: what is understood, and what is refused by name with its place in the text."""

from __future__ import annotations

import itertools
import re
from datetime import date

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
    NumericAttribute,
    QueryError,
    parse_where,
)
from queries.cells import GRAMMAR_WORDS, quoted_name
from queries.comparisons import Comparison, Junction, Not, Operator, Predicate, Scalar
from queries.parsing import parse_sql, require_aligned
from queries.sql_tree import LONGEST_TEXT
from tests.queries.meaning import full_weights, read_predicate, refusal


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
    ("age>=30", _age("ge", 30)),
    ("'Male' = sex", _is("sex", "Male", 9)),
    ("age BETWEEN 30 AND 39", _age("between", 30, 39)),
    ("age NOT BETWEEN 30 AND 39", Not(_age("between", 30, 39))),
    ("age IN (30)", _age("in", 30)),
    ("age IN (30, -31, (32))", _age("in", 30, -31, 32)),
    ("sex NOT IN ('Male', 'Female')", Not(Comparison("sex", "in", ("Male", "Female"), 0))),
    ("age IS NULL", _age("missing")),
    ("age IS NOT NULL", Not(_age("missing"))),
    ("NOT age IS NULL", Not(_age("missing", at=4))),
    # AND binds tighter than OR, and NOT tighter than both.
    ("age = 1 AND age = 2 AND age = 3", _all(_is("age", 1), _is("age", 2, 12), _is("age", 3, 24))),
    ("age = 1 OR age = 2 OR age = 3", _any(_is("age", 1), _is("age", 2, 11), _is("age", 3, 22))),
    ("age = 1 OR age = 2 AND age = 3", _any(_is("age", 1), _all(_is("age", 2, 11), _is("age", 3, 23)))),
    ("age = 1 AND age = 2 OR age = 3", _any(_all(_is("age", 1), _is("age", 2, 12)), _is("age", 3, 23))),
    ("(age = 1 OR age = 2) AND age = 3", _all(_any(_is("age", 1, 1), _is("age", 2, 12)), _is("age", 3, 25))),
    ("NOT age = 1 AND age = 2", _all(Not(_is("age", 1, 4)), _is("age", 2, 16))),
    ("NOT (age = 1 OR age = 2)", Not(_any(_is("age", 1, 5), _is("age", 2, 16)))),
    ("NOT NOT age = 1", Not(Not(_is("age", 1, 8)))),
    ("age BETWEEN 1 AND 2 AND age = 3", _all(_age("between", 1, 2), _is("age", 3, 24))),
    ("((age = 1))", _is("age", 1, 2)),
    ("", _all()),
    (" \n\t ", _all()),
    # Names fold unless they are quoted, and texts stand as they are written.
    ("AGE = 30", _age("eq", 30)),
    ("Age between 30 and 39", _age("between", 30, 39)),
    ('"age" = 30', _age("eq", 30)),
    ('"education-num" = 3', _is("education-num", 3)),
    ("größe = 'klein'", _is("größe", "klein")),
    ("GRÖSSE = 'klein'", _is("größe", "klein")),
    ("member = TRUE", _is("member", True)),
    ("member = false", _is("member", False)),
    ("sex = ('Male')", _is("sex", "Male")),
    *(
        (f"sex = '{text}'", _is("sex", text.replace("''", "'")))
        for text in ("it''s", "''", "", "a\\", 'a"b', "a;b", "-- no comment", "zwei\nZeilen", "🦊")
    ),
]


@pytest.mark.parametrize(("text", "predicate"), READ)
def test_a_text_says_what_it_says_in_sql(people: Domain, text: str, predicate: Predicate) -> None:
    assert read_predicate(text, people) == predicate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("007", 7), ("-5", -5), ("- -5", 5), ("-(-5)", 5), ("+5", 5), ("(5)", 5), ("3.5", 3.5),
        (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("2.5E-1", 0.25), ("1e+2", 100.0),
        ("9007199254740993", 2**53 + 1),
    ],
)  # fmt: skip
def test_numbers_are_read_by_one_grammar(people: Domain, text: str, value: float) -> None:
    found = read_predicate(f"age >= {text}", people)
    assert found == _age("ge", value)
    assert isinstance(found, Comparison)
    assert type(found.values[0]) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "age = 30 -- and nothing else", "-- first\nage = 30", "/* first */ age = 30", "age /* sic */ = 30",
        "age = 30;", "  age\n=\t30 ",
    ],
)  # fmt: skip
def test_comments_and_spaces_change_nothing(people: Domain, text: str) -> None:
    assert parse_where(text, people).to_dict() == parse_where("age = 30", people).to_dict()


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


@pytest.mark.parametrize(
    "name", ['with "quotes"', "select", "1st", "a b", "a.b", "null", "größe", "🦊", "it's"]
)
def test_any_declared_name_can_be_asked_for_in_double_quotes(name: str) -> None:
    domain = Domain((CategoricalAttribute(name, ("x", "y")),))
    quoted = name.replace('"', '""')
    assert read_predicate(f"\"{quoted}\" = 'x'", domain) == Comparison(name, "eq", ("x",), 0)


OTHERS = Domain(
    (
        CategoricalAttribute("sex", ("Female", "Male"), missing=True, other=True),
        IntegerAttribute("age", 0, 9, other=True),
        CategoricalAttribute("region", ("(other)", "north")),
    )
)


@pytest.mark.parametrize(
    ("where", "cells"),
    [
        ("sex = '(other)'", {"sex": [3]}),
        ("sex <> '(other)'", {"sex": [0, 1]}),  # an empty value is neither, as in any comparison
        ("NOT sex = '(other)'", {"sex": [0, 1]}),
        ("sex IN ('Male', '(other)')", {"sex": [1, 3]}),
        ("sex IN ('(other)')", {"sex": [3]}),
        ("age = '(other)'", {"age": [10]}),
        ("age <> '(other)'", {"age": list(range(10))}),
        ("NOT (age = '(other)' OR age < 5)", {"age": [5, 6, 7, 8, 9]}),
        ("region = '(other)'", {"region": [0]}),  # a declared value like any other
    ],
)
def test_undeclared_values_are_asked_for_by_the_name_of_their_cell(
    where: str, cells: dict[str, list[int]]
) -> None:
    ((name, expected),) = cells.items()
    query = parse_where(where, OTHERS)
    assert query.scope == (name,)
    assert np.flatnonzero(query.weights()).tolist() == expected


def test_hints_say_how_special_cells_are_asked_for() -> None:
    told = "any other is '(other)'; an empty one IS NULL; got 'Mal'"
    assert told in refusal(parse_where, "sex = 'Mal'", OTHERS).message
    hyphen = Domain((NumericAttribute("a-b", (0, 10, 20, 30)),))
    near = 'nearest to it: "a-b" >= 10 AND "a-b" < 20;'
    assert near in refusal(require_aligned, parse_where('"a-b" = 15', hyphen)).message


# --- texts at random ---------------------------------------------------------------------------------------

TOKENS = st.sampled_from(
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


ROWS = st.builds(str.join, st.sampled_from(["", " "]), st.lists(TOKENS, max_size=14))
TAILS = st.lists(TOKENS, max_size=6).map(lambda tokens: " ".join(["age >= 30", *tokens]))


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


@pytest.mark.parametrize(
    ("computed", "plain"),
    [
        ("age + 5 > 100", "age > 95"), ("NOT age * 2 > 300", "NOT age > 150"), ("-age > 5", "age < -5"),
        ("age + 5 = 200", "age = 195"), ("age + 5 <> 200", "age <> 195"),
        ("age + 5 IN (30, 200)", "age IN (25, 195)"),
        ("age + 5 BETWEEN 200 AND 300", "age BETWEEN 195 AND 295"), ("COALESCE(age, 3) > 100", "age > 100"),
        ("ABS(age) < 0", "age < 0"), ("CASE WHEN age + 5 > 100 THEN 1 END = 1", "age > 95 AND age = 30"),
    ],
)  # fmt: skip
def test_a_number_beyond_the_ends_is_refused_alike_of_an_attribute_and_of_arithmetic(
    people: Domain, computed: str, plain: str
) -> None:
    """Records beyond the ends count as the ends: that nobody satisfies it is not known."""
    error = refusal(parse_where, computed, people)
    assert error.code == "empty_range"
    assert "values outside count as" in error.message
    assert refusal(parse_where, plain, people).code in ("empty_range", "unknown_value")


def test_the_ends_of_what_is_computed_are_told(people: Domain) -> None:
    assert refusal(parse_where, "age * 2 > 300", people).message == (
        "an empty range: got 300; age * 2 goes from 34 to 180 (values outside count as the declared ends)"
    )
    assert parse_where("age * 2 = 35", people).constant == 0  # between the ends, and of no whole number


def test_between_symmetric_is_between_the_lesser_and_the_greater_number(people: Domain) -> None:
    for text, plain in (
        ("200 AND 30", "30 AND 200"),
        ("30 AND 200", "30 AND 200"),
        ("-5 AND 40", "-5 AND 40"),
    ):
        query = parse_where(f"age BETWEEN SYMMETRIC {text}", people)
        assert query.key() == parse_where(f"age BETWEEN {plain}", people).key()


def test_conditions_are_chosen_by_case_and_coalesce(people: Domain) -> None:
    for text, plain in (
        ("CASE WHEN age = 30 THEN TRUE END", "age = 30"),
        ("NOT CASE WHEN age > 40 THEN sex = 'Male' ELSE age < 20 END",
         "(age > 40 AND sex <> 'Male') OR (age BETWEEN 20 AND 40)"),
        ("COALESCE(sex = 'Male', FALSE) AND age > 40", "sex = 'Male' AND age > 40"),
        ("(age, sex) = (30, 'Male')", "age = 30 AND sex = 'Male'"),
        ("(age, sex) <> (30, 'Male')", "NOT (age = 30 AND sex = 'Male')"),
    ):  # fmt: skip
        assert (
            full_weights(parse_where(text, people)).tolist()
            == full_weights(parse_where(plain, people)).tolist()
        )


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


def test_a_date_is_a_value_of_case() -> None:
    text = "CASE WHEN delay > 5 THEN d ELSE DATE '2020-01-01' END >= DATE '2020-06-01'"
    plain = parse_where("delay > 5 AND d >= '2020-06-01'", TRIPS)
    assert full_weights(parse_where(text, TRIPS)).tolist() == full_weights(plain).tolist()


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
        ("sex = 'a' AND case * 2 ! 3", False),
        ("sex = 'a' AND case ! 3", False),
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
