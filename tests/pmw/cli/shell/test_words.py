"""Words: completion depends on the schema and the line alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from pmw.cli.shell.dialogue import Statements, completions, is_statement, is_unfinished, schema_text
from pmw.cli.shell.editing import SchemaCompleter
from queries import CategoricalAttribute, Domain, IntegerAttribute, Lookup, NumericAttribute, rule_out

DOMAIN = Domain(
    (
        IntegerAttribute("age", 20, 59, 10),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("native-country", ("United States", "Cote d'Ivoire")),
        CategoricalAttribute("smoker", (True, False)),
        NumericAttribute("income", (0, 10_000, 50_000)),
    ),
    name="people",
)


def offered(line: str) -> list[str]:
    return [line[: len(line) - length] + text for text, length in completions(line, DOMAIN)]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ag", ["age"]),
        ("AG", ["age"]),
        ("age > 40 and se", ["age > 40 and sex", "age > 40 and SELECT"]),
        ("nat", ['"native-country"']),
        ('"nat', ['"native-country"']),
        ("sex = ", ["sex = 'Female'", "sex = 'Male'"]),
        ("sex = 'F", ["sex = 'Female'"]),
        ("sex = f", ["sex = 'Female'"]),
        ("sex <> 'M", ["sex <> 'Male'"]),
        ("sex IN ('Female', ", ["sex IN ('Female', 'Female'", "sex IN ('Female', 'Male'"]),
        ("sex not in (", ["sex not in ('Female'", "sex not in ('Male'"]),
        ('"native-country" = \'C', ["\"native-country\" = 'Cote d''Ivoire'"]),
        ('"native-country" = \'United S', ["\"native-country\" = 'United States'"]),
        ("smoker = T", ["smoker = TRUE"]),
        ("age >= ", [f"age >= {edge}" for edge in (20, 30, 40, 50, 60)]),
        ("age BETWEEN 30 AND ", [f"age BETWEEN 30 AND {edge}" for edge in (20, 30, 40, 50, 60)]),
        ("income < 1", ["income < 10000"]),
        ("SELECT COUNT(*) FROM pe", ["SELECT COUNT(*) FROM people"]),
        ("SELECT perc", ["SELECT PERCENTILE_CONT"]),
        ("SELECT coal", ["SELECT COALESCE"]),
        (".m", [".measure", ".mode"]),
        (".measure sex,ag", [".measure sex,age"]),
        (".mode j", [".mode json"]),
        (".schema s", [".schema sex", ".schema smoker"]),
        (".cost sex = 'M", [".cost sex = 'Male'"]),
        ("zzz", []),
        ("nothing = 'M", []),
    ],
)
def test_a_word_becomes_what_the_schema_has(line: str, wanted: list[str]) -> None:
    assert offered(line) == wanted


def test_every_attribute_is_offered_on_an_empty_line() -> None:
    assert offered("")[: len(DOMAIN)] == ["age", "sex", '"native-country"', "smoker", "income"]


@pytest.mark.parametrize("line", ["(" * 2000, "'" * 2001, "a " * 2000, "\x00\x1b", "é = '" + "x" * 10**5])
def test_odd_lines_are_completed_in_no_time(line: str) -> None:
    assert len(offered(line)) < 1000


JOINED = Domain(
    DOMAIN.attributes, "people",
    lookups=(Lookup("countries", "native-country", {
        "United States": {"name": "USA", "region": "America"}, "Cote d'Ivoire": {"region": "Africa"},
    }, "country"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("SELECT COUNT(*) FROM people JOIN co", ["countries"]),
        ("SELECT COUNT(*) FROM co", []),
        ("SELECT reg", ["region"]),
        ("WHERE c.region = ", ["'Africa'", "'America'"]),
        ("WHERE c.name IN ('U", ["'USA'"]),
        (".schema co", ["countries"]),
        (".measure co", []),
    ],
)
def test_lookups_are_offered_where_they_stand(line: str, wanted: list[str]) -> None:
    found = [text for text, _ in completions(line, JOINED)]
    assert [text for text in found if text != "COUNT"] == wanted


def test_the_schema_lists_lookups_and_their_texts() -> None:
    last = schema_text(JOINED).splitlines()[-1]
    assert last == "countries       lookup of native-country, to join by country: name, region"
    assert schema_text(JOINED, "countries").splitlines() == [
        "country        name  region", "United States  USA   America", "Cote d'Ivoire        Africa",
    ]  # fmt: skip


def test_the_completer_takes_the_place_of_the_word() -> None:
    found = list(SchemaCompleter(DOMAIN).get_completions(Document("sex = 'M"), CompleteEvent()))
    assert [(one.text, one.start_position) for one in found] == [("'Male'", -2)]


def test_the_schema_is_told_in_words() -> None:
    assert "native-country  2 cells: 'United States', 'Cote d''Ivoire'" in schema_text(DOMAIN)
    assert schema_text(DOMAIN, "age").splitlines()[0] == DOMAIN["age"].label(0)
    ruled = rule_out(DOMAIN, "age < 30")
    assert schema_text(ruled).splitlines()[-1] == "impossible: age < 30"


# --- Statements: lines that belong together, however they are cut -------------------------------------------


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
