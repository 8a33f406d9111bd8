"""A table whose statements are answered as exactly as can be, and how an answer differs from DuckDB's.

Each cell of the table holds a record, so there is no group that DuckDB does not print. All attributes were
measured together at a very large epsilon: a count is the true one, and a sum is wrong by less than a record.
What is open is where the values of ``pay`` lie inside their cells. The noise is seeded, to be repeated.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import sqlglot
from sqlglot import exp

import pmw
from queries import (
    CategoricalAttribute,
    DateAttribute,
    Domain,
    IntegerAttribute,
    Lookup,
    NumericAttribute,
)

if TYPE_CHECKING:
    import duckdb

    from pmw.public.sums import Estimate
    from pmw.public.tables import AnswerTable

FIRST_DAY = datetime.date(2020, 12, 28)  # a Monday: the days are of two months and two years
AREAS = Lookup(
    "areas",
    "region",
    {
        "north": {"name": "Cold", "capital": "Nord"},
        "south": {"name": "Warm"},
        "east": {"name": "Cold", "capital": "Ost"},
    },
)
DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 5, missing=True),
        CategoricalAttribute("sex", ("f", "m"), missing=True),
        CategoricalAttribute("region", ("north", "south", "east", "west")),
        IntegerAttribute("score", -3, 2),
        DateAttribute("day", FIRST_DAY, FIRST_DAY + datetime.timedelta(7)),
        CategoricalAttribute("member", (False, True)),
        NumericAttribute("pay", (0, 10, 25)),
    ),
    name="people",
    lookups=(AREAS,),
)
_EXTRA = 20_000  # records beside one in each cell
_NEAR = 0.002  # of a number, or of 1: how far an answer may be from the truth
_NARROW = 3.0, 0.02  # records, and the part of a number: how wide a bar may be where cells leave nothing open
_ROUNDED = 1e-6
LITTLE = "a bar that says little"

Value: TypeAlias = float | str | None
Row: TypeAlias = tuple[Value, ...]


def people() -> pd.DataFrame:
    """Return the records: one in each cell, and more where values are small."""
    generator = np.random.default_rng(1)
    sizes = DOMAIN.shape
    cells = np.array(list(itertools.product(*map(range, sizes))))
    more = [np.minimum(generator.geometric(0.3, _EXTRA) - 1, size - 1) for size in sizes]
    age, sex, region, score, day, member, pay = np.concatenate([cells, np.stack(more, axis=1)]).T
    lowest, width = np.array([0, 10])[pay], np.array([40, 60])[pay]
    return pd.DataFrame(
        {
            "age": pd.Series(age, dtype="Int64").mask(age == 6),
            "sex": np.array(["f", "m", None], dtype=object)[sex],
            "region": np.array(["north", "south", "east", "west"])[region],
            "score": score - 3,
            "day": np.array([FIRST_DAY + datetime.timedelta(number) for number in range(8)])[day],
            "member": member == 1,
            "pay": lowest + generator.integers(0, width) / 4,
        }
    )


def exact_session(frame: pd.DataFrame) -> pmw.Session:
    """Return a session over the records that has measured all attributes together."""
    options = pmw.Options(
        seed=1,
        opening=pmw.Opening.NONE,
        update_limit=1,
        confidence=0.99999,  # all is left to one table
    )
    session = pmw.open_session(frame, DOMAIN, epsilon=1000, delta=1e-9, options=options)
    session.measure(list(DOMAIN.names))
    return session


def connected(frame: pd.DataFrame) -> duckdb.DuckDBPyConnection:
    """Return DuckDB over the same records, and over the lookup."""
    import duckdb

    connection = duckdb.connect()
    for setting in ("ieee_floating_point_ops", "error_on_division_by_zero"):
        connection.execute(f"SET {setting} = false")  # a quotient by 0 is NULL
    connection.execute("CREATE TABLE people AS SELECT * REPLACE (day::DATE AS day) FROM frame")
    connection.register("areas", pd.DataFrame([{AREAS.key: key, **row} for key, row in AREAS.rows.items()]))
    return connection


def difference(found: AnswerTable, statement: str, connection: duckdb.DuckDBPyConnection) -> str:
    """Return in what an answer differs from DuckDB's; empty where it does not."""
    tree = sqlglot.parse_one(statement, dialect="duckdb")
    asked = connection.execute(statement)
    columns = [column[0] for column in asked.description or ()]
    names = [*found.keys, *found.titles]
    if len(names) != len(columns) or (_are_named(tree) and {*names} != {*columns}):
        return f"columns {names}, and DuckDB's {columns}"
    places = _places(names, columns)
    expected = [tuple(_plain(row[place]) for place in places) for row in asked.fetchall()]
    rows = [(tuple(map(_plain, keys)), estimates) for keys, estimates in found.rows]
    if len(rows) != len(expected):
        return f"{len(rows)} rows, and DuckDB's {len(expected)}: {_shown(rows)}, and {expected[:5]}"
    if tree.args.get("order") is None:
        rows.sort(key=lambda row: _sorting((*row[0], *(one.value for one in row[1]))))
        expected.sort(key=_sorting)
    is_wide = "pay" in statement.lower()
    for row, true in zip(rows, expected, strict=True):
        keys, estimates = row
        if keys != true[: len(keys)]:
            return f"the row of {keys}, and DuckDB's of {true}; {_shown(rows)}, and {expected[:5]}"
        for title, one, value in zip(found.titles, estimates, true[len(keys) :], strict=True):
            if told := _wrong(one, value, is_wide=is_wide):
                return f"{title} of {keys}: {told}"
    return ""


def _are_named(tree: exp.Expr) -> bool:
    return all(isinstance(one, exp.Alias | exp.Column) for one in tree.args.get("expressions") or ())


def _places(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return which column each name is: the one of the same name, else the next that has none."""
    left = list(range(len(columns)))
    found = dict[int, int]()
    for number, name in enumerate(names):
        same = [place for place in left if columns[place].casefold() == name.casefold()]
        if same:
            found[number] = same[0]
            left.remove(same[0])
    return [found[number] if number in found else left.pop(0) for number in range(len(names))]


def _plain(value: Any) -> Value:
    """Return a value in one form: a number however it is written, a text, or None for NULL."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(":00").removesuffix(" 00:00")
    if isinstance(value, datetime.date):
        return str(value)
    number = float(value)
    return None if math.isnan(number) else round(number, 9)


def _sorting(row: Row) -> list[tuple[int, float, str]]:
    return [
        (2, 0.0, "") if one is None else (1, 0.0, one) if isinstance(one, str) else (0, one, "")
        for one in row
    ]


def _shown(rows: Sequence[tuple[Row, Sequence[Estimate]]]) -> list[Row]:
    return [(*keys, *(one.value for one in estimates)) for keys, estimates in rows[:5]]


def _wrong(found: Estimate, true: Value, *, is_wide: bool) -> str:
    """Return what is wrong with a number and its bar; empty where nothing is."""
    value, told = found.value, f"{found.value} in {found.interval}, and in truth {true}"
    true = {"true": 1.0, "false": 0.0}.get(true, true) if isinstance(true, str) else true
    if value is None or true is None or isinstance(true, str):
        return "" if value is true is None or (is_wide and not found.is_promised) else told
    low, high = found.interval or (-math.inf, math.inf)
    size = max(1.0, abs(true))
    low, high = low - _ROUNDED * size, high + _ROUNDED * size
    wrong = {
        f"{told}, which is beyond the bar": not low <= true <= high,
        f"{told}: it is beyond its own bar": not low <= value <= high,
    }
    if not is_wide:
        width = high - low if found.interval else 0.0
        wrong[told] = abs(value - true) > max(_NEAR * size, width)
        wrong[f"{told}: {LITTLE}"] = width > _NARROW[0] + _NARROW[1] * size
    return next((words for words, is_wrong in wrong.items() if is_wrong), "")
