"""Aggregate benchmark: how far averages and medians are off, and how often the bars of all aggregates hold.

    python -m benchmarks.aggregates --data-dir DIR [--table adult-full] [--seeds 3] [--queries 3000]

prints one JSON line per table, seed, stage and aggregate. The table's stream is asked first. Then ordered
attributes are summed up by categories of at most 16 values (on Adult: 4 by 7, the 28 tables). Stages:

* ``model``: nothing is asked for these tables; the answers come from the state after the stream;
* ``asked``: the statements are asked as an analyst asks them, so that tests may run and be charged for.

Errors are those of groups of at least ``--least`` records, as shares of the attribute's range; each group
counts once, and in ``tables_error`` each table does. ``held`` counts the bars, of groups of any size, that
hold what DuckDB says of the true table; a bar of an empty group does not, but for a sum. The tables are
public. Noise is seeded, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import pmw
from benchmarks.runner import parser, tell_alone
from benchmarks.tables import TABLES, Case, StreamChoice, adult_values
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable
from pmw.public.tabulation import Tabulation
from queries import Attribute, CategoricalAttribute, Domain, encode_records
from queries.cells import quoted_name
from queries.domain import OrderedAttribute
from queries.parsing import parse_sql
from queries.records import decode_records

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_WIDE = "adult-raw"  # whose cells of money hold many numbers each
_MOST_GROUPS = 16
_NUMBERS = {"adult-full": ("age", "education-num", "hours-per-week", "capital-gain")}
_GROUPS = {
    "adult-full": (
        *("workclass", "marital-status", "occupation", "relationship", "race", "sex", "income>50K"),
    ),
}
_KINDS = {
    "sum": "SUM({})",
    "avg": "AVG({})",
    "ratio": "AVG(CASE WHEN {} >= {middle} THEN 1.0 ELSE 0 END)",
    "median": "MEDIAN({})",
    "quartile 1": "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {})",
    "quartile 3": "PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY {})",
    "variance": "VARIANCE({})",
    "stddev": "STDDEV({})",
    "min": "MIN({})",
    "max": "MAX({})",
}


@dataclass
class _Score:
    """What is added up of one stage and aggregate."""

    cells: int = 0
    bars: int = 0
    held: int = 0
    empty: int = 0
    errors: list[tuple[str, float]] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "budget", tables=[*TABLES, _WIDE], seeds=3)
    made.add_argument("--queries", type=int, default=3000)
    made.add_argument("--least", type=int, default=500, help="records of a group whose error counts")
    given = made.parse_args()
    for table in given.table or ["adult-full", "census-income-kdd", "fertility", _WIDE]:
        for seed in range(given.seeds):
            if not tell_alone({"table": table, "seed": seed}, _scored, table, seed, given):
                break


def _table(name: str, arguments: argparse.Namespace) -> tuple[Case, pd.DataFrame]:
    """Return a table with its stream, and its values as DuckDB shall see them."""
    choice = StreamChoice(size=arguments.queries)
    if name != _WIDE:
        case = TABLES[name](arguments.data_dir, choice)
        return case, decode_records(case.records, np.random.default_rng(0))
    frame, domain = adult_values(arguments.data_dir)
    return Case(name, encode_records(frame, domain), choice.questions(domain, seed=0)), frame


def _scored(table: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    case, frame = _table(table, arguments)
    statements, lines = list(_statements(case)), list[dict[str, Any]]()
    with case.opened((arguments.epsilon, arguments.delta), seed=seed) as session:
        session.ask_all(case.queries)
        truths = _Truths(case, frame)
        for stage in ("model", "asked"):
            before = session.state.ledger.share
            scores: dict[str, _Score] = defaultdict(_Score)
            for width, statement in statements:
                found = _answer(session, statement, asked=stage != "model")
                truths.score(found, statement, (width, arguments.least), scores)
            spent = round(session.state.ledger.share - before, 6)
            lines += [
                {"stage": stage, "aggregate": kind, "spent": spent, **_line(score)}
                for kind, score in scores.items()
            ]
    return lines


def _statements(case: Case) -> Iterator[tuple[float, str]]:
    """Yield the length of an attribute's range, and the statement that sums it up by another one."""
    domain = case.domain
    ordered = [one.name for one in domain if isinstance(one, OrderedAttribute) and one.size > 2]
    groups = _GROUPS.get(case.name, [one.name for one in domain if _makes_groups(one)])
    for number in _NUMBERS.get(case.name, ordered[:4]):
        edges = domain[number].boundaries
        middle, width = edges[len(edges) // 2], float(edges[-1] - edges[0])
        columns = ", ".join(
            f'{form.format(quoted_name(number), middle=middle)} AS "{kind}"' for kind, form in _KINDS.items()
        )
        for key in [one for one in groups if one != number][:7]:
            group = quoted_name(key)
            yield width, _select(f"{group}, {columns}", domain, group)


def _makes_groups(attribute: Attribute) -> bool:
    return isinstance(attribute, CategoricalAttribute) and attribute.size <= _MOST_GROUPS


def _select(listed: str, domain: Domain, group: str) -> str:
    return f"SELECT {listed} FROM {quoted_name(domain.name)} GROUP BY {group}"  # noqa: S608 - declared names


def _answer(session: pmw.Session, text: str, *, asked: bool) -> AnswerTable:
    statement = parse_sql(text, session.domain)
    if asked:
        return session.tabulate(statement)
    work = Tabulation(session.state, statement)
    work._asked.clear()  # from what is known alone
    return work.table(session.state, ())


class _Truths:
    """What DuckDB says of the true table."""

    def __init__(self, case: Case, frame: pd.DataFrame) -> None:
        import duckdb

        self._connection: duckdb.DuckDBPyConnection = duckdb.connect()
        self._connection.register(case.domain.name, frame)
        self._known: dict[str, dict[str, tuple[Any, ...]]] = {}

    def score(
        self,
        found: AnswerTable,
        statement: str,
        about: tuple[float, int],
        scores: dict[str, _Score],
    ) -> None:
        """Compare the answers to a statement with the truth, group by group."""
        width, least = about
        true = self._rows(statement)
        for keys, cells in found.rows:
            truth = true.get(str(keys[0]))
            for place, (kind, cell) in enumerate(zip(_KINDS, cells, strict=False), 1):
                exact = None if truth is None else truth[place]
                large = truth is not None and truth[-1] >= least
                score = scores[kind]
                _add(score, cell, 0.0 if exact is None and kind == "sum" else exact, width, large=large)
                if large and cell.value is not None and exact is not None:
                    score.errors.append((statement, abs(cell.value - float(exact)) / width))

    def _rows(self, statement: str) -> dict[str, tuple[Any, ...]]:
        if statement not in self._known:
            counted = statement.replace(" FROM ", ", COUNT(*) FROM ", 1)
            rows = self._connection.execute(counted).fetchall()
            self._known[statement] = {str(row[0]): row for row in rows}
        return self._known[statement]


def _add(score: _Score, cell: Estimate, exact: Any, width: float, *, large: bool) -> None:
    score.cells += 1
    if cell.value is None:
        score.empty += 1
        return
    if cell.interval is not None and not (cell.conditional and exact is None):
        low, high = cell.interval
        score.bars += 1
        tolerance = 1e-6 * max(1.0, abs(float(exact or 0)))
        score.held += exact is not None and low - tolerance <= float(exact) <= high + tolerance
        if large and math.isfinite(high - low):
            score.widths.append((high - low) / 2 / width)


def _line(score: _Score) -> dict[str, Any]:
    def mean(numbers: list[float]) -> float | None:
        return round(sum(numbers) / len(numbers), 6) if numbers else None

    errors = [error for _, error in score.errors]
    tables: dict[str, list[float]] = defaultdict(list)
    for statement, error in score.errors:
        tables[statement].append(error)
    return {
        "cells": score.cells,
        "empty": score.empty,
        "bars": score.bars,
        "held": score.held,
        "groups": len(errors),
        "mean_error": mean(errors),
        "tables_error": mean([sum(one) / len(one) for one in tables.values()]),
        "max_error": round(max(errors), 6) if errors else None,
        "mean_half_width": mean(score.widths),
    }


if __name__ == "__main__":
    main()
