"""Statement benchmark: what an analyst's SQL is answered with, beside DuckDB on the true table.

    python -m benchmarks.statements --data-dir DIR [--epsilon 1] [--delta 1e-9] [--seed 1]

prints one JSON line per statement of ``DIR/statements.sql`` over ``DIR/adult-raw.csv.gz``: whether it was
answered, with how many bars, how many of them hold the true value, and what the session had spent. Divisions
of whole numbers drop the fraction in both. The table is public, and its values are declared from it. Noise is
seeded, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pmw
from pmw.public.tables import AnswerTable
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = {"age": (17, 90), "education-num": (1, 16), "hours-per-week": (1, 99)}
_EDGES = {
    "fnlwgt": (0.0, 100_000.0, 200_000.0, 300_000.0, 500_000.0, 1_500_000.0),
    "capital-gain": (0.0, 1.0, 3_000.0, 5_000.0, 8_000.0, 15_000.0, 50_000.0, 99_999.0),
    "capital-loss": (0.0, 1.0, 1_500.0, 1_800.0, 2_000.0, 2_500.0, 4_500.0),
}


def main() -> None:
    """Run the benchmark that the arguments describe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    data = os.environ.get("PMW_DATA_DIR")
    parser.add_argument("--data-dir", type=Path, default=None if data is None else Path(data))
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = arguments.data_dir
    needed = () if folder is None else ("statements.sql", "adult-raw.csv.gz")
    absent = [name for name in needed if not (folder / name).exists()]
    if folder is None or absent:
        reason = "no --data-dir was given" if folder is None else f"{', '.join(absent)} is not there"
        print(json.dumps({"skipped": reason}))
        return
    frame, domain = adult(folder)
    text = (folder / "statements.sql").read_text()
    statements = [line for line in text.splitlines() if line.strip() and not line.startswith("--")]
    options = pmw.Options(seed=arguments.seed)
    with pmw.open_session(
        frame, domain, epsilon=arguments.epsilon, delta=arguments.delta, options=options
    ) as session:
        for number, statement in enumerate(statements, 1):
            print(json.dumps({"number": number, **outcome(session, frame, statement)}), flush=True)


def adult(folder: Path) -> tuple[pd.DataFrame, Domain]:
    """Return the Adult table, and a domain declared for it."""
    import pandas as pd

    frame = pd.read_csv(folder / "adult-raw.csv.gz", skipinitialspace=True, na_values="?")
    attributes: list[Any] = []
    for name in frame.columns:
        if name in _NUMBERS:
            attributes.append(IntegerAttribute(name, *_NUMBERS[name]))
        elif name in _EDGES:
            attributes.append(NumericAttribute(name, _EDGES[name], integer=True))
        else:
            values = tuple(sorted(frame[name].dropna().unique().tolist()))
            attributes.append(CategoricalAttribute(name, values, missing=bool(frame[name].isna().any())))
    return frame, Domain(tuple(attributes), name="adult")


def outcome(session: pmw.Session, frame: pd.DataFrame, statement: str) -> dict[str, Any]:
    """Return what a statement is answered with, and how many of its bars hold what DuckDB says."""
    before = session.state.ledger.share
    try:
        answer = session.sql(statement)
    except QueryError as error:
        return {"statement": statement, "answered": False, "refusal": str(error)}
    spent = round(session.state.ledger.share - before, 6)
    form: dict[str, Any] = {"statement": statement, "answered": True, "spent": spent}
    if isinstance(answer, AnswerTable):
        form["notes"] = list(answer.notes)
    return {**form, **_compared(answer.to_pandas(), _truth(frame, statement))}


def _truth(frame: pd.DataFrame, statement: str) -> pd.DataFrame:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.register("adult", frame)
        return connection.execute(statement).df()


def _compared(found: pd.DataFrame, true: pd.DataFrame) -> dict[str, Any]:
    """Return how answers and their bars compare with the true table, row by row of the same keys."""
    extra = ("low", "high", "fraction", "source", "aligned", "version")
    grouped = "source" in found.columns
    ends = ("low", "high") if grouped else None
    values = [
        name
        for name in found.columns
        if (name not in extra[:2] if grouped else f"{name}_low" in found.columns)
    ]
    if grouped:
        place = list(found.columns).index("low")
        values = [found.columns[place - 1]]
    shown = [name for name in found.columns if not name.endswith(("_low", "_high")) and name not in extra]
    keys = [name for name in shown if name not in values]
    columns = {name: true.columns[place] for place, name in enumerate(shown)}
    known = {
        tuple(map(str, row)): place for place, row in enumerate(true[[columns[key] for key in keys]].values)
    }
    scores: dict[str, float] = {"cells": 0, "bars": 0, "hold": 0, "worst_error": 0.0}
    rows = []
    for number, row in enumerate(found[keys].values):
        match = known.get(tuple(map(str, row)))
        for name in values:
            low, high = ends or (f"{name}_low", f"{name}_high")
            answer, bar = float(found[name][number]), (float(found[low][number]), float(found[high][number]))
            truth = 0.0 if match is None else float(true[columns[name]].iloc[match])
            scores["cells"] += 1
            scores["bars"] += int(not math.isnan(bar[0]))
            scores["hold"] += bar[0] - 1e-6 <= truth <= bar[1] + 1e-6
            scores["worst_error"] = max(scores["worst_error"], abs(answer - truth))
            rows.append([*map(str, row), name, answer, *bar, truth])
    return {**scores, "rows": len(found), "true_rows": len(true), "first": rows[:2]}


if __name__ == "__main__":
    main()
