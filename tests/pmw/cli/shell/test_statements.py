"""Statements: lines that belong together, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.cli.shell.dialogue import Statements, is_statement, is_unfinished


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ("age > 40", False),
        ("selected = 'yes'", False),
        ("SELECT COUNT(*) FROM people", True),
        ("select count(*) from people;  ", False),
        ("WITH a AS (SELECT 1)", True),
        ("SELECT 1 WHERE a = ';", True),
        ("SELECT 1 WHERE a = 'x;'", True),
        ("SELECT 1 WHERE a = 'it''s;';", False),
        ('SELECT "a;', True),
        ("", False),
    ],
)
def test_a_statement_goes_on_up_to_a_semicolon_outside_of_quotes(text: str, unfinished: bool) -> None:
    assert is_unfinished(text) == unfinished


def test_lines_become_questions() -> None:
    statements = Statements()
    assert list(statements.add("age > 40\n\n.cost\nSELECT COUNT(*)")) == ["age > 40", ".cost"]
    assert statements.unfinished == "SELECT COUNT(*)"
    assert list(statements.add("FROM people;")) == ["SELECT COUNT(*)\nFROM people;"]
    assert statements.unfinished == ""
    assert list(statements.add("SELECT")) == []
    statements.drop()
    assert list(statements.add("age > 40")) == ["age > 40"]


@given(st.text(max_size=60))
def test_no_text_is_lost(text: str) -> None:
    statements = Statements()
    found = [*statements.add(text), statements.unfinished]
    kept = [one for one in "\n".join(found).split() if one]
    assert kept == [word for line in text.split("\n") for word in line.split()]
    assert not any(is_unfinished(one) for one in found[:-1])
    assert is_statement(found[-1]) or not found[-1]
