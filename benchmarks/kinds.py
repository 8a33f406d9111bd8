"""Kinds benchmark: how often bars hold the truth, by kind of evidence, over many small sessions.

    python -m benchmarks.kinds [--sessions 400] [--first 0]

prints one JSON line per kind. Each session has noise of its own. The table of 4,000 records, the questions
and the statements are always the same, fixed before any noise.

* ``one or two attributes``: what opening measured; ``bins cut``: a bin has records of both sides;
* ``three attributes``: their marginal is measured when the first question about them comes;
* ``kept or paid``: about 3 to 5 attributes. The bar decides whether a number is drawn; by what came out
  ``kept`` and ``paid``;
* ``groups``: counts by group under a condition; ``after parts``: counts once 64 others had a part of the
  reserve measured; ``combined``: bought within a width then;
* ``chosen rows``: those that HAVING or LIMIT shows; ``sums``: SUM and AVG by group; ``sums, bought``: those
  after a sum was measured;
* ``repeated``: what an analyst with a small share had numbers drawn for, asked by another one;
* ``after finish``: every other question again; ``after finish, rows``: the statements;
* ``certified``: about three attributes or more, in a session without a reserve, which tests them.

``coverage`` is of all answers. Bars of one session hold or fail together, so ``error`` is the standard error
over sessions. ``below``: coverage is more than 2.5 of these below what bars promise. ``half_width`` is the
median. Noise is seeded, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import pmw
from benchmarks.runner import alone, cpu_seconds, parser, tell
from queries import CategoricalAttribute, Domain, IntegerAttribute

if TYPE_CHECKING:
    import pandas as pd

_RECORDS = 4_000
_TOGETHER = 50  # sessions of one process
_PROMISED = 0.95
_SHARE = Fraction(1, 100)  # of the budget, for sums of values
_CHANCE = 2.5  # standard errors
_SLACK = 1e-6  # of a number or its size: answers are rounded


def _every(*parts: Sequence[str]) -> tuple[str, ...]:
    """Return all conjunctions of one condition of each part."""
    return tuple(map(" AND ".join, itertools.product(*parts)))


_ONE_OR_TWO = (
    *("sex = 'Male'", "region = 'north'", "work <> 'full'", "hours < 20", "income >= 60", "age >= 45"),
    *_every(
        ("hours >= 10", "hours >= 30", "income < 20", "income < 40", "work = 'full'", "work <> 'none'"),
        ("sex = 'Male'", "region = 'north'", "region <> 'west'", "region = 'east'", "region <> 'south'"),
    ),
)
_CUT = _every(("age < 37", "age BETWEEN 28 AND 63"), ("work = 'full'", "income < 40"))
_THREE = _every(("sex = 'Male'",), ("region = 'north'", "hours >= 40"), ("work = 'full'", "income < 40"))
_DECIDED = (
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
)
_REPEATED = _every(
    ("age >= 22 AND hours < 50", "age < 70 AND work <> 'none'"),
    ("income < 60", "income >= 20"),
    ("region <> 'north'", "region <> 'south'", "region <> 'west'"),
)
_AFTER = _every(("age >= 35", "hours >= 20", "work <> 'full'"), ("sex = 'Female'", "income >= 20"))
_COMBINED = _every(("age >= 26", "age < 62"), ("hours >= 10", "income < 60"), ("work = 'full'",))
_WITHIN = 200  # records
_GROUPS = (
    "SELECT work, COUNT(*) FROM people WHERE age >= 45 AND income < 60 GROUP BY work",
    "SELECT sex, region, COUNT(*) FROM people WHERE hours >= 30 GROUP BY sex, region",
)
_CHOSEN = (
    "SELECT region, work, COUNT(*) FROM people GROUP BY region, work HAVING COUNT(*) > 300",
    "SELECT region, COUNT(*) FROM people WHERE sex = 'Male' GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1",
    "SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY COUNT(*) DESC LIMIT 5",
)
_SUMS = (
    "SELECT AVG(income), SUM(income), AVG(hours) FROM people",
    "SELECT region, AVG(income), SUM(hours), SUM(income) FROM people GROUP BY region",
    "SELECT sex, SUM(income) FROM people WHERE work = 'full' GROUP BY sex",
)


class Bar(NamedTuple):
    """A bar of one kind, whether it holds the truth, and half its width."""

    kind: str
    held: bool
    half_width: float

    @classmethod
    def of(cls, kind: str, ends: tuple[float, float] | None, true: float) -> Bar:
        """Return the bar with these ends, against the truth; without ends it reaches everywhere."""
        low, high = ends or (-math.inf, math.inf)
        slack = _SLACK * max(1.0, abs(true))
        return cls(kind, low - slack <= true <= high + slack, (high - low) / 2)


def main() -> None:
    """Run the benchmark that the arguments describe."""
    arguments = _arguments()
    seeds = range(arguments.first, arguments.first + arguments.sessions)
    found: list[list[Bar]] = []
    for first in range(0, len(seeds), _TOGETHER):
        bars, seconds = alone(_sessions, seeds[first : first + _TOGETHER])
        found += bars
    for kind in dict.fromkeys(bar.kind for bars in found for bar in bars):
        tell({"kind": kind, **_scores([[bar for bar in bars if bar.kind == kind] for bars in found])})
    tell({"sessions": len(found), "cpu_a_session": round(seconds, 3)})


def _arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--sessions", type=int, default=400)
    made.add_argument("--first", type=int, default=0, help="seed of the first session")
    return made.parse_args()


def _sessions(seeds: Sequence[int]) -> tuple[list[list[Bar]], float]:
    """Return the bars of each session, and the CPU seconds of one."""
    frame, domain = people()
    truth, found = Truth(frame), list[list[Bar]]()
    seconds = cpu_seconds(lambda: found.extend(list(_bars(frame, domain, truth, seed)) for seed in seeds))
    return found, seconds / len(found)


def people() -> tuple[pd.DataFrame, Domain]:
    """Return the made-up table, which is always the same, and its declaration."""
    import pandas as pd

    draw = np.random.default_rng(0)
    age = np.clip(draw.normal(45, 18, _RECORDS), 16, 95).astype(int)
    male = draw.random(_RECORDS) < 0.5
    region = (draw.random(_RECORDS) * (4 - (age > 50))).astype(int)
    work = np.clip(draw.random(_RECORDS) * 2 + (age < 65) - 0.4 * ~male, 0, 2).astype(int)
    hours = np.clip(draw.normal(20, 6, _RECORDS) * work, 0, 60).astype(int)
    income = np.clip(draw.gamma(2, 10, _RECORDS) * (1 + hours / 40 + (region == 1) / 3), 0, 100).astype(int)
    regions, works = ("east", "north", "south", "west"), ("none", "part", "full")
    columns = {
        "age": age,
        "sex": np.where(male, "Male", "Female"),
        "region": np.array(regions)[region],
        "work": np.array(works)[work],
        "hours": hours,
        "income": income,
    }
    attributes = (
        IntegerAttribute("age", 16, 95),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("region", regions),
        CategoricalAttribute("work", works),
        IntegerAttribute("hours", 0, 60, 10, resolution=1),
        IntegerAttribute("income", 0, 100, 20, resolution=1),
    )
    return pd.DataFrame(columns), Domain(attributes, name="people")


class Truth:
    """What DuckDB says of the table."""

    def __init__(self, frame: pd.DataFrame) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.register("people", frame)
        self._known: dict[str, dict[tuple[object, ...], tuple[float, ...]]] = {}

    def count(self, condition: str) -> float:
        """Return how many records a condition holds for."""
        return self.rows(f"SELECT COUNT(*) FROM people WHERE {condition}", 0)[()][0]  # noqa: S608

    def rows(self, statement: str, keys: int) -> dict[tuple[object, ...], tuple[float, ...]]:
        """Return the aggregates of every group by its keys, whichever rows the statement chooses."""
        if statement not in self._known:
            every = statement.partition(" HAVING ")[0].partition(" ORDER BY ")[0]
            rows = self._connection.execute(every).fetchall()
            self._known[statement] = {row[:keys]: row[keys:] for row in rows}
        return self._known[statement]


def _bars(frame: pd.DataFrame, domain: Domain, truth: Truth, seed: int) -> Iterator[Bar]:
    """Yield the bars of a session with a reserve, and of one without."""
    given = {"epsilon": 1, "delta": Fraction(1, 10**9)}
    with pmw.open_session(frame, domain, **given, options=pmw.Options(seed=seed)) as session:
        asked = _Asked(session.analyst("ann", Fraction(9, 10)), truth)
        yield from asked.before_finish(session.analyst("few", Fraction(1, 200)))
        session.finish()
        yield from asked.after_finish()
    with pmw.open_session(frame, domain, **given, options=pmw.Options(seed=seed, reserve=0)) as session:
        yield from _Asked(session, truth).counts("certified", (*_THREE, *_REPEATED, *_DECIDED[::2]))


class _Asked:
    """What is asked of a session, or by one of its analysts, and the bars of the answers."""

    def __init__(self, asker: pmw.Session | pmw.Analyst, truth: Truth) -> None:
        self._asker, self._truth = asker, truth

    def before_finish(self, other: pmw.Analyst) -> Iterator[Bar]:
        """Yield the bars of a session that was just opened, and once enough was asked for a part."""
        yield from self.counts("one or two attributes", _ONE_OR_TWO)
        yield from self.counts("one or two attributes, bins cut", _CUT)
        yield from self.counts("three attributes", _THREE)
        yield from self.counts("kept or paid", _DECIDED, ("kept", "paid"))
        yield from self.rows("groups", _GROUPS)
        yield from self.counts("after parts", _AFTER)
        yield from self.counts("combined", _COMBINED, within=_WITHIN)
        yield from self.rows("chosen rows", _CHOSEN)
        yield from self.rows("sums", _SUMS)
        self._asker.measure_sum("income", ["region"], share=_SHARE)
        yield from self.rows("sums, bought", _SUMS)
        other.ask_all(_REPEATED, at_most=1)
        yield from self.counts("repeated", _REPEATED, ("repeated, free", "repeated, paid again"))

    def after_finish(self) -> Iterator[Bar]:
        """Yield the bars of every other question, and of the statements, again."""
        every = (*_ONE_OR_TWO, *_CUT, *_THREE, *_DECIDED, *_AFTER, *_COMBINED, *_REPEATED)
        yield from self.counts("after finish", every[::2])
        yield from self.rows("after finish, rows", (*_GROUPS, *_CHOSEN, *_SUMS))

    def counts(
        self, kind: str, conditions: Sequence[str], outcomes: Sequence[str] = (), *, within: float = 0
    ) -> Iterator[Bar]:
        """Yield the bars of questions; ``outcomes`` are further kinds, of what was free and what was paid."""
        for condition in conditions:
            asked = partial(self._asker.ask_within, within=within) if within else self._asker.ask
            answer = asked(condition, at_most=1)
            paid = answer.spent.charged > 0
            for name in (kind, *outcomes[paid : paid + 1]):
                yield Bar.of(name, answer.interval, self._truth.count(condition))

    def rows(self, kind: str, statements: Sequence[str]) -> Iterator[Bar]:
        """Yield the bars of the rows that statements show."""
        for statement in statements:
            found = self._asker.sql(statement, at_most=1)
            truth = self._truth.rows(statement, len(found.keys))
            for keys, cells in found.rows:
                for cell, true in zip(cells, truth[keys], strict=True):
                    yield Bar.of(kind, cell.interval, true)


def _scores(sessions: Sequence[Sequence[Bar]]) -> dict[str, object]:
    """Return the figures of one kind, whose bars are given session by session."""
    given = [bars for bars in sessions if bars]
    sizes = np.array([len(bars) for bars in given])
    held = np.array([sum(bar.held for bar in bars) for bars in given])
    coverage = held.sum() / sizes.sum()
    spread = math.sqrt(np.square(held - coverage * sizes).sum() * len(given) / max(1, len(given) - 1))
    error = spread / sizes.sum()
    return {
        "sessions": len(given),
        "answers": int(sizes.sum()),
        "coverage": round(float(coverage), 5),
        "error": round(float(error), 5),
        "below": bool(coverage + _CHANCE * error < _PROMISED),
        "half_width": round(float(np.median([bar.half_width for bars in given for bar in bars])), 2),
    }


if __name__ == "__main__":
    main()
