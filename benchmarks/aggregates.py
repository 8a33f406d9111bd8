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
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import pmw
from benchmarks.runner import parser, tell_alone
from benchmarks.tables import TABLES, Case, StreamChoice, adult_values
from pmw.public.tables import AnswerTable
from pmw.public.tabulation import Tabulation
from queries import Attribute, CategoricalAttribute, Domain, encode_records
from queries.cells import quoted_name
from queries.domain import OrderedAttribute
from queries.parsing import parse_sql
from queries.records import decode_records

if TYPE_CHECKING:
    import duckdb

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
    import duckdb

    case, frame = _table(table, arguments)
    statements, lines = list(_statements(case)), list[dict[str, Any]]()
    with (
        case.opened((arguments.epsilon, arguments.delta), seed=seed) as session,
        duckdb.connect() as connection,
    ):
        connection.register(case.domain.name, frame)
        truths = {text: _truth(connection, text) for _, text in statements}
        session.ask_all(case.queries)
        for stage in ("model", "asked"):
            before = session.state.ledger.share
            answers = [
                (width, text, _answer(session, text, asked=stage != "model")) for width, text in statements
            ]
            spent = round(session.state.ledger.share - before, 6)
            rows = [
                row for width, text, found in answers for row in _beside(found, truths[text], width, text)
            ]
            for kind, some in pd.DataFrame(rows).groupby("aggregate", sort=False):
                scores = _scores(some, arguments.least)
                lines.append({"stage": stage, "aggregate": kind, "spent": spent, **scores})
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


def _truth(connection: duckdb.DuckDBPyConnection, statement: str) -> dict[str, tuple[Any, ...]]:
    """Return what DuckDB says of the true table, by group: each aggregate, and the number of records."""
    rows = connection.execute(statement.replace(" FROM ", ", COUNT(*) FROM ", 1)).fetchall()
    return {str(row[0]): row[1:] for row in rows}


def _beside(
    found: AnswerTable, true: Mapping[str, tuple[Any, ...]], width: float, statement: str
) -> Iterator[dict[str, Any]]:
    """Yield each number with its bar and the truth, NaN where there is none, as shares of the range."""
    for keys, cells in found.rows:
        *exact, records = true.get(str(keys[0]), (*[None] * len(_KINDS), 0))
        for kind, cell, one in zip(_KINDS, cells, exact, strict=True):
            truth = 0.0 if one is None and kind == "sum" else one
            has_bar = None not in (cell.value, cell.interval) and not (cell.conditional and truth is None)
            numbers = (cell.value, truth, *((has_bar and cell.interval) or (None, None)))
            value, truth, low, high = (math.nan if one is None else float(one) / width for one in numbers)
            yield {
                "aggregate": kind,
                "statement": statement,
                "records": records,
                "value": value,
                "error": abs(value - truth),
                "half_width": (high - low) / 2,
                "off": max(low - truth, truth - high) - 1e-6 * max(1 / width, abs(truth)),
            }


def _scores(rows: pd.DataFrame, least: int) -> dict[str, Any]:
    """Return the figures of one aggregate; errors and widths are those of groups of many records."""
    large = rows[rows["records"] >= least]
    errors = large[large["error"].notna()]
    widths = large["half_width"][np.isfinite(large["half_width"])]
    figures = {
        "mean_error": errors["error"].mean(),
        "tables_error": errors.groupby("statement")["error"].mean().mean(),
        "max_error": errors["error"].max(),
        "mean_half_width": widths.mean(),
    }
    return {
        "cells": len(rows),
        "empty": int(rows["value"].isna().sum()),
        "bars": int(rows["half_width"].notna().sum()),
        "held": int((rows["off"] <= 0).sum()),
        "groups": len(errors),
        **{name: None if math.isnan(one) else round(float(one), 6) for name, one in figures.items()},
    }


if __name__ == "__main__":
    main()
