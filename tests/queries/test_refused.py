"""Every row of ``refusals.txt``: what is asked is refused in its words, by its code and with its place.

A section names what reads its rows, and a domain; one that is *exact* has whole messages, others a part of
them. In a row ``text ⇒ code place: words`` code and place may be left out. Texts have the escapes of JSON.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from queries import (
    CategoricalAttribute,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    QueryError,
    SchemaError,
    parse_line,
    parse_schema,
    parse_sql,
    parse_where,
    parse_workload,
)  # fmt: skip
from queries.sql_tree import _ARGUMENT_WORDS, _WORDS, SYNTHETIC
from queries.statement_grammar import REFUSALS, WAYS, way_on
from tests.queries.meaning import PEOPLE, refusal
from tests.queries.test_cell_engine import DOMAIN as SINGLE_CELLS
from tests.queries.test_date_parts import FIRST, LAST
from tests.queries.test_dates import BESIDE
from tests.queries.test_parsing import TRIPS
from tests.queries.test_reader import ADULT
from tests.queries.test_schema import DOMAIN as LEVELS
from tests.queries.test_workloads import ODD

STOPS = Domain(
    (
        DatetimeAttribute("date", datetime(2017, 1, 1), datetime(2017, 12, 31, 23, 59, 59), "day"),
        IntegerAttribute("hour", 0, 23),
        CategoricalAttribute("race", ("Black", "White"), missing=True),
        CategoricalAttribute("gender", ("Female", "Male"), missing=True),
        CategoricalAttribute("case", (True, False)),
    ),
    name="stops",
)
DOMAINS: dict[str, Domain] = {
    "people": PEOPLE,
    "trips": TRIPS,
    "stops": STOPS,
    "times of day": BESIDE,
    "levels": LEVELS,
    "single cells": SINGLE_CELLS,
    "days": Domain((DateAttribute("d", date(2022, 2, 10), date(2024, 3, 4)),)),
    "hired": Domain(
        (
            DateAttribute("d", FIRST, LAST),
            CategoricalAttribute("race", ("a", "b")),
            DateAttribute("hired-at", FIRST, LAST),
        ),
        name="t",
    ),
    "odd names": ODD,
    "adult": ADULT,
}
FILTER = "SELECT COUNT(*) FROM t WHERE "
READERS: dict[str, Callable[[str, Domain], object]] = {
    "where": parse_where, "sql": parse_sql, "workload": parse_workload, "line": parse_line,
    "schema": lambda text, _: parse_schema(text),
    "filter": lambda text, domain: parse_sql(FILTER + text, domain),
}  # fmt: skip


class Row(NamedTuple):
    section: str
    text: str
    code: str
    place: int | str | None
    words: str


def unescaped(text: str) -> str:
    return str(json.loads('"' + text.replace('"', '\\"') + '"'))


def rows() -> Iterator[Row]:
    section = ""
    for line in Path(__file__).with_name("refusals.txt").read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line and not line.startswith("# "):
            text, _, told = line.partition(" ⇒ ")
            head, _, words = told.partition(": ")
            code, _, place = head.partition(" ")
            at = int(place) if place.isdigit() else place or None
            yield Row(section, unescaped(text), code, at, unescaped(words))


ROWS = list(rows())


@cache
def domain_of(section: str) -> Domain:
    return DOMAINS[section.partition(" over ")[2] or "people"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}-{row.text[:40]!r}")
def test_what_is_refused_is_told_why_and_where(row: Row) -> None:
    readers, _, _ = row.section.partition(" over ")
    exact = readers.startswith("exact ")
    domain = domain_of(row.section)
    for reader in readers.removeprefix("exact ").split(" and "):
        with pytest.raises((QueryError, SchemaError)) as caught:
            READERS[reader](row.text, domain)
        error: Any = caught.value
        assert str(error) == row.words if exact else row.words in str(error)
        if isinstance(error, SchemaError):
            continue
        assert not row.code or error.code == row.code
        place = row.place + len(FILTER) if reader == "filter" and isinstance(row.place, int) else row.place
        assert place in (None, error.position)
        assert len(error.message) < 500
        assert "\n" not in error.message
        way = advised(error.message) if reader == "sql" else None
        if way is not None:
            parse_sql(way, domain)


def test_a_row_stands_there_once() -> None:
    assert len({(row.section, row.text) for row in ROWS}) == len(ROWS) > 300


# --- ways on ------------------------------------------------------------------------------------------------


ASKED = {
    "people": PEOPLE,
    "stops": STOPS,
    "one number": Domain((IntegerAttribute("n", 0, 9, 5),), name="t"),
    "one cell": Domain((NumericAttribute("Äge in years", (0.0, 1.0), missing=True),), name="select"),
    "one day": Domain((DateAttribute("day", date(2020, 1, 1), date(2020, 1, 1), "day"),), name="a table"),
    "one text": Domain((CategoricalAttribute('say "x"', ("\x00", "b" * 50)),), name="null"),
    "many": Domain((IntegerAttribute("a", 0, 9_999), IntegerAttribute("b", 0, 9_999)), name="wide"),
}
WORDS = sorted({*_WORDS.values(), *_ARGUMENT_WORDS.values(), *REFUSALS, *WAYS, "anything else"})

# What an analyst may try to do beside asking, in long; the rest stands in ``refusals.txt``.
HOSTILE = [
    ("SELECT COUNT(*) FROM stops WHERE race = '" + "x" * 2**20 + "'", 4096),
    (f"SELECT COUNT(*) FROM stops WHERE {'(' * 1900}hour = 3{')' * 1900}", 0),
    (f"SELECT COUNT(*) FROM stops WHERE {'NOT ' * 900}hour = 3", 0),
    (f"SELECT {'CASE WHEN hour = 3 THEN ' * 130} 1 {'END ' * 130} FROM stops", 0),
    (f"SELECT COUNT(*) FROM {'(SELECT * FROM ' * 200}stops{')' * 200}", 0),
]


def advised(message: str) -> str | None:
    """Return the statement that a message tells to write."""
    told = re.search(r"(?:; write|a statement such as) (SELECT .*)", message, re.DOTALL)
    if told is None:
        return None
    ends = (
        f", or run the statement on {SYNTHETIC}",
        ", and count its rows",
        "; it cannot be read",
        ", got none",
    )
    return min((told[1].partition(end)[0] for end in ends), key=len)


def test_everything_that_is_refused_by_name_has_a_way_on() -> None:
    assert {*_WORDS.values(), *_ARGUMENT_WORDS.values(), *REFUSALS} <= set(WAYS)


@pytest.mark.parametrize("name", ASKED)
def test_every_way_on_can_be_asked_over_every_domain(name: str) -> None:
    domain = ASKED[name]
    for way in {way_on(words, domain) for words in WORDS}:
        too_large = (
            name == "many" and re.search(r"BY a, b|WHERE a.* OR b ", way) is not None
        )  # with too many cells
        with pytest.raises(QueryError, match=r"10,000|would need") if too_large else contextlib.nullcontext():
            parse_sql(way, domain)


@pytest.mark.parametrize(("statement", "place"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_statements_have_one_clear_error_and_its_place(statement: str, place: int) -> None:
    error = refusal(parse_sql, statement, STOPS)
    assert error.position == place
    assert len(error.message) < 500
    assert "\n" not in error.message
    way = advised(error.message)
    if way is not None:
        parse_sql(way, STOPS)


SEEDS = [
    "SELECT race, COUNT(*) AS n FROM stops WHERE hour BETWEEN 6 AND 9 GROUP BY race HAVING COUNT(*) > 5 ORDER BY n DESC LIMIT 3",  # noqa: E501
    "SELECT gender, AVG(hour) FROM stops WHERE date >= DATE '2017-03-01' GROUP BY 1",
    "SELECT MONTH(date) AS m, MEDIAN(hour), STDDEV(hour) FROM stops GROUP BY MONTH(date) ORDER BY 1",
    "SELECT race, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM stops GROUP BY race",
    "SELECT SUM(CASE WHEN race = 'White' THEN 1 ELSE 0 END) / COUNT(*) FROM stops WHERE NOT (race IS NULL)",
    "SELECT COUNT(*) FILTER (WHERE race LIKE 'W%'), MIN(hour), CORR(hour, hour * hour) FROM stops",
    "WITH s AS (SELECT * FROM stops WHERE case) SELECT COUNT(DISTINCT race) FROM s UNION SELECT 1",
    "SELECT COALESCE(race, 'none') AS k, ROUND(AVG(CAST(hour AS DOUBLE)), 2) FROM stops GROUP BY k",
    "SELECT hour / 6 * 6 AS h, RANK() OVER (PARTITION BY race ORDER BY COUNT(*)) FROM stops GROUP BY 1, 2",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY hour) FROM stops JOIN b ON b.x = stops.hour -- z",
    "SELECT race, gender FROM stops GROUP BY ROLLUP (race, gender) ORDER BY RANDOM() FETCH FIRST 3 ROWS ONLY",
    "SELECT * FROM stops WHERE race ILIKE 'w%' AND hour IN (SELECT 1) AND EXTRACT(month FROM date) = 3",
]


LATER = (pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 10))


@pytest.mark.parametrize("seed", [*range(4), *LATER])
def test_changed_statements_are_read_or_refused_with_a_way_that_can_be_asked(seed: int) -> None:
    generator = random.Random(seed)
    words = [re.findall(r"'[^']*'|\w+|\s+|[^\w\s]", text) for text in SEEDS]
    pool = [word for text in words for word in text]
    refused = 0
    for _ in range(40):
        text = list(generator.choice(words))
        for _ in range(generator.randint(1, 3)):
            place, kind = generator.randrange(len(text)), generator.random()
            text[place : place + (kind < 0.7)] = [] if kind < 0.3 else [generator.choice(pool)]
        statement = "".join(text)
        try:
            parse_sql(statement, STOPS)
        except QueryError as error:
            refused += 1
            way = advised(error.message)
            if way is not None:
                parse_sql(way, STOPS)
    assert refused > 10
