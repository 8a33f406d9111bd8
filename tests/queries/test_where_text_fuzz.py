"""Where-texts at random: nothing but a query or a refusal ever comes out."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from queries import Domain, QueryError, parse_where

TOKENS = st.sampled_from(
    [
        *("age", "sex", "income", "education-num", "größe", '"age"', '"x"', "people", "x", "`a`", "[a]"),
        *("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", ":=", "=>", "->", "->>", "::", "||", "&&", "!"),
        *("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "XOR", "ANY", "ALL"),
        *("30", "39", "-1", "3.5", "1e3", "1e999", "5e", ".5", "5.", "0x1F", "'Male'", "''", "'", '"', "$$"),
        *(
            "(",
            ")",
            "()",
            "[",
            "]",
            "{",
            "}",
            ",",
            ";",
            ".",
            "*",
            "+",
            "-",
            "/",
            "%",
            "^",
            "~",
            "|",
            "&",
            "#",
        ),
        *("--", "/*", "*/", "\n", "\x00", "\\", "?", ":x", "@x", "$1", "N'x'", "X'41'", "E'x'", "DATE", "🦊"),
        *("SELECT", "FROM", "WHERE", "UNION", "CASE", "WHEN", "THEN", "ELSE", "END", "EXISTS", "CAST", "AS"),
        *("INT", "COUNT", "abs", "OVER", "FILTER", "INTERVAL", "DAY", "ARRAY", "STRUCT", "MAP", "VALUES"),
        *("COLLATE", "ESCAPE", "SYMMETRIC", "DISTINCT", "ISNULL", "NOTNULL", "LIMIT", "ORDER", "BY", "AT"),
    ]
)


@given(st.text(max_size=80))
@example("\ud800 = 3")
@example("sex = '\udfff'")
@example("age = \u0663\u0660")
@example("\ufeffage = 30")
def test_no_text_raises_anything_but_a_query_error(people: Domain, text: str) -> None:
    _ask(text, people)


@given(st.lists(TOKENS, max_size=14), st.sampled_from(["", " "]))
def test_no_row_of_tokens_raises_anything_but_a_query_error(
    people: Domain, tokens: list[str], gap: str
) -> None:
    _ask(gap.join(tokens), people)


@given(st.lists(TOKENS, max_size=6))
def test_no_comparison_with_a_tail_raises_anything_but_a_query_error(
    people: Domain, tokens: list[str]
) -> None:
    _ask(" ".join(["age >= 30", *tokens]), people)


def _ask(text: str, domain: Domain) -> None:
    """Ask; a refusal has a code, a message of bounded length, and a place inside the text."""
    try:
        query = parse_where(text, domain)
    except QueryError as error:
        inside = error.position is None or error.position in range(len(text) + 1)
        assert (inside, bool(error.code)) == (True, True)  # noqa: PT017 - a refusal is as right as an answer
        assert 10 < len(error.message) < 1000  # noqa: PT017
    else:
        assert query.domain is domain
