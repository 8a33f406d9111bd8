"""Kinds benchmark: how often bars hold the truth, by kind of evidence, over many small sessions.

    python -m benchmarks.kinds [--sessions 400]

prints one JSON line per kind. A table of 4,000 records and what is asked of it are fixed before any noise.

* ``one or two attributes``: what opening measured; ``bins cut``: a bin has records of both sides;
* ``three attributes``: their marginal is measured when the first question about them comes;
* ``kept or paid``: the bar decides whether a number is drawn; by what came out ``kept`` and ``paid``;
* ``groups``: of statements with a condition; ``after parts``: counts once 64 others had a part of the reserve
  measured; ``combined``: bought within a width then; ``chosen rows``: what HAVING or LIMIT shows;
* ``sums``: SUM and AVG by group; ``sums, bought``: after a sum was measured; ``repeated``: what an analyst
  with a small share had numbers drawn for, asked by another one;
* ``after finish``: every other of these again; ``certified``: tested, in a session without a reserve.

Bars of one session hold or fail together: ``error`` is the standard error of ``coverage`` over sessions.
``below``: it is more than 2.5 errors below what is promised. ``half_width`` is the median. Noise is seeded.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd

import pmw
from benchmarks.runner import alone, parser, tell
from queries import CategoricalAttribute, Domain, IntegerAttribute

_RECORDS = 4_000
_TOGETHER = 50  # sessions of one process
_SHARE = Fraction(5, 100)  # of the budget, for sums of values
_WITHIN = 200  # records
_PROMISED, _CHANCE = 0.95, 2.5  # of bars; standard errors below it
_SLACK, _NO_BAR = 1e-6, (-math.inf, math.inf)


def _every(*parts: Sequence[str]) -> tuple[str, ...]:
    """Return all conjunctions of one condition of each part."""
    return tuple(map(" AND ".join, itertools.product(*parts)))


_ASKED = {  # in this order
    "one or two attributes": (
        *("sex = 'Male'", "region = 'north'", "work <> 'full'", "hours < 20", "income >= 60", "age >= 45"),
        *_every(
            ("hours >= 10", "hours >= 30", "income < 20", "income < 40", "work = 'full'", "work <> 'none'"),
            ("sex = 'Male'", "region = 'north'", "region <> 'west'", "region = 'east'", "region <> 'south'"),
        ),
    ),
    "bins cut": _every(("age < 37", "age BETWEEN 28 AND 63"), ("work = 'full'", "income < 40")),
    "three attributes": _every(
        ("sex = 'Male'",), ("region = 'north'", "hours >= 40"), ("work = 'full'", "income < 40")
    ),
    "kept or paid": (
        *_every(
            ("age >= 22", "age < 70"),
            ("hours >= 20", "hours < 40", "income >= 20", "income < 60", "income >= 40"),
            ("region <> 'north'", "region IN ('east', 'west')", "work = 'part'", "sex = 'Female'"),
        ),
        *_every(
            ("age >= 26 AND hours >= 10", "age < 62 AND hours < 50"),
            ("income < 80", "income >= 20", "income < 60 AND work <> 'none'"),
            ("region <> 'east'", "region <> 'south' AND sex = 'Male'"),
        ),
    ),
    "groups": (
        "SELECT work, COUNT(*) FROM people WHERE age >= 45 AND income < 60 GROUP BY work",
        "SELECT sex, region, COUNT(*) FROM people WHERE hours >= 30 GROUP BY sex, region",
    ),
    "after parts": _every(("age >= 35", "hours >= 20", "work <> 'full'"), ("sex = 'Female'", "income >= 20")),
    "combined": _every(("age >= 26", "age < 62"), ("hours >= 10", "income < 60"), ("work = 'full'",)),
    "chosen rows": (
        "SELECT region, work, COUNT(*) FROM people GROUP BY region, work HAVING COUNT(*) > 300",
        "SELECT region, COUNT(*) FROM people GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1",
        "SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY COUNT(*) DESC LIMIT 5",
    ),
    "sums": (
        "SELECT AVG(income), SUM(income), AVG(hours) FROM people",
        "SELECT region, AVG(income), SUM(hours), SUM(income) FROM people GROUP BY region",
        "SELECT sex, SUM(income) FROM people WHERE work = 'full' GROUP BY sex",
    ),
    "sums, bought": (
        "SELECT AVG(income), SUM(income) FROM people",
        "SELECT region, AVG(income), SUM(income) FROM people GROUP BY region",
    ),
    "repeated": _every(
        ("age >= 22 AND hours < 50", "age < 70 AND work <> 'none'"),
        ("income < 60", "income >= 20"),
        ("region <> 'north'", "region <> 'south'", "region <> 'west'"),
    ),
}
_OUTCOMES = {"kept or paid": ("kept", "paid"), "repeated": ("repeated, free", "repeated, paid again")}
_TESTED = (*_ASKED["three attributes"], *_ASKED["repeated"], *_ASKED["kept or paid"][::2])


class Bar(NamedTuple):
    """The ends of a bar of one kind, and the truth."""

    kind: str
    low: float
    high: float
    true: float

    @property
    def holds(self) -> bool:
        """Whether the truth is in it; answers are rounded."""
        return self.low - _SLACK <= self.true <= self.high + _SLACK


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__)
    made.add_argument("--sessions", type=int, default=400)
    seeds = range(made.parse_args().sessions)
    parts = [seeds[first : first + _TOGETHER] for first in range(0, len(seeds), _TOGETHER)]
    found = [bars for part in parts for bars in alone(_sessions, part)]
    for kind in dict.fromkeys(bar.kind for bars in found for bar in bars):
        tell({"kind": kind, **_scores([[bar for bar in bars if bar.kind == kind] for bars in found])})


def _sessions(seeds: Sequence[int]) -> list[list[Bar]]:
    return [list(_bars(seed)) for seed in seeds]


@functools.cache
def people() -> tuple[pd.DataFrame, Domain]:
    """Return the made-up table, which is always the same, and its declaration."""
    draw = np.random.default_rng(0)
    age = np.clip(draw.normal(45, 18, _RECORDS), 16, 95).astype(int)
    male = draw.random(_RECORDS) < 0.5
    region = (draw.random(_RECORDS) * (4 - (age > 50))).astype(int)
    work = np.clip(draw.random(_RECORDS) * 2 + (age < 65) - 0.4 * ~male, 0, 2).astype(int)
    hours = np.clip(draw.normal(20, 6, _RECORDS) * work, 0, 60).astype(int)
    income = np.clip(draw.gamma(2, 10, _RECORDS) * (1 + hours / 40 + (region == 1) / 3), 0, 100).astype(int)
    attributes = (
        IntegerAttribute("age", 16, 95),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("region", ("east", "north", "south", "west")),
        CategoricalAttribute("work", ("none", "part", "full")),
        IntegerAttribute("hours", 0, 60, 10, resolution=1),
        IntegerAttribute("income", 0, 100, 20, resolution=1),
    )
    sexes, regions, works = (np.array(one.values) for one in attributes[1:4])
    columns = (age, sexes[male.astype(int)], regions[region], works[work], hours, income)
    frame = pd.DataFrame({one.name: column for one, column in zip(attributes, columns, strict=True)})
    return frame, Domain(attributes, name="people")


@functools.cache
def _truth(statement: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB says to a statement, with all groups, whichever it chooses."""
    with duckdb.connect() as connection:
        connection.register("people", people()[0])
        every = statement.partition(" HAVING ")[0].partition(" ORDER BY ")[0]
        return connection.execute(every).fetchall()


def _bars(seed: int) -> Iterator[Bar]:
    """Yield the bars of a session with a reserve, and of one without."""
    opened = functools.partial(pmw.open_session, *people(), epsilon=1, delta=Fraction(1, 10**9))
    with opened(options=pmw.Options(seed=seed)) as session:
        ann, few = session.analyst("ann", Fraction(9, 10)), session.analyst("few", Fraction(1, 200))
        for kind, asked in _ASKED.items():
            if kind == "sums, bought":
                ann.measure_sum("income", ["region"], share=_SHARE)
            if kind == "repeated":
                few.ask_all(asked, at_most=1)
            yield from _answered(ann, kind, asked)
        session.finish()
        for kind, asked in _ASKED.items():
            yield from _answered(ann, f"after finish, {kind}", asked[::2])
    with opened(options=pmw.Options(seed=seed, reserve=Fraction(0))) as session:
        yield from _answered(session, "certified", _TESTED)


def _answered(asker: pmw.Session | pmw.Analyst, kind: str, asked: Sequence[str]) -> Iterator[Bar]:
    """Yield the bars of what is asked, conditions or statements."""
    for text in asked:
        if text.startswith("SELECT"):
            found = asker.sql(text, at_most=1)
            true = {row[: len(found.keys)]: row[len(found.keys) :] for row in _truth(text)}
            for keys, cells in found.rows:
                for cell, one in zip(cells, true[keys], strict=True):
                    yield Bar(kind, *(cell.interval or _NO_BAR), float(one))
            continue
        bought = kind == "combined"
        answer = asker.ask_within(text, _WITHIN, at_most=1) if bought else asker.ask(text, at_most=1)
        ((exact,),) = _truth(f"SELECT COUNT(*) FROM people WHERE {text}")  # noqa: S608 - of this module
        outcome = _OUTCOMES[kind][answer.spent.charged > 0] if kind in _OUTCOMES else None
        for name in filter(None, (kind, outcome)):
            yield Bar(name, *(answer.interval or _NO_BAR), exact)


def _scores(sessions: Sequence[Sequence[Bar]]) -> dict[str, object]:
    """Return the figures of one kind, whose bars are given session by session."""
    sizes = np.array([len(bars) for bars in sessions])
    held = np.array([sum(bar.holds for bar in bars) for bars in sessions])
    widths = [bar.high - bar.low for bars in sessions for bar in bars]
    coverage = held.sum() / sizes.sum()
    error = np.std(held - coverage * sizes, ddof=1) * math.sqrt(len(sizes)) / sizes.sum()
    return {
        "sessions": int(np.count_nonzero(sizes)),
        "answers": int(sizes.sum()),
        "coverage": round(float(coverage), 5),
        "error": round(float(error), 5),
        "below": bool(coverage + _CHANCE * error < _PROMISED),
        "half_width": round(float(np.median(widths)) / 2, 2),
    }


if __name__ == "__main__":
    main()
