"""Every row of ``refusals.txt``: what is asked is refused in its words, by its code and with its place.

A section names what reads its rows, and a domain; one that is *exact* has whole messages, others a part of
them. In a row ``text ⇒ code place: words`` code and place may be left out. Texts have the escapes of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from queries import (
    CategoricalAttribute,
    DateAttribute,
    Domain,
    QueryError,
    SchemaError,
    parse_line,
    parse_schema,
    parse_sql,
    parse_where,
    parse_workload,
)  # fmt: skip
from tests.queries.meaning import PEOPLE
from tests.queries.test_cell_engine import DOMAIN as SINGLE_CELLS
from tests.queries.test_date_parts import FIRST, LAST
from tests.queries.test_schema import DOMAIN as LEVELS
from tests.queries.test_ways import STOPS, advised
from tests.queries.test_where_text import TRIPS
from tests.queries.test_work import ADULT
from tests.queries.test_workloads import ODD

DOMAINS: dict[str, Domain] = {
    "people": PEOPLE,
    "trips": TRIPS,
    "stops": STOPS,
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
