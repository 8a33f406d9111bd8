"""Statements of a seeded grammar, asked of a session whose answers are exact, beside DuckDB.

    python -m benchmarks.fuzz_statements [--statements 10000] [--first 0] [--seed 0]

prints a JSON line for each statement that fails, and one with the number of each outcome: ``same``, ``wide``
(right, in a bar that says little), ``refused``, ``not run`` (by DuckDB), ``crashed`` (by anything but a
refusal) and ``differs``, which has DuckDB's rows in other places or its numbers beyond a bar. ``refusals``
has how often each reason was told. Statements have numbers: the same number and seed make the same one.

Each cell of the table holds a record, so there is no group that DuckDB does not print. All attributes were
measured together at a very large epsilon: a count is the true one, and a sum is wrong by less than a record.
What is open is where the values of ``pay`` lie inside their cells. The noise is seeded, to be repeated.
"""

from __future__ import annotations

import datetime
import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import sqlglot
from sqlglot import exp

import pmw
from benchmarks.runner import parser, tell
from queries import (
    CategoricalAttribute,
    DateAttribute,
    Domain,
    IntegerAttribute,
    Lookup,
    NumericAttribute,
    QueryError,
)

if TYPE_CHECKING:
    import duckdb

    from pmw.public.sums import Estimate
    from pmw.public.tables import AnswerTable

_REASONS = 40  # that are printed
_WORDS = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9][0-9.,]*")  # what differs between refusals of one kind

# --- the table ----------------------------------------------------------------------------------------------

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


# --- the grammar --------------------------------------------------------------------------------------------

KEYS = (
    "age", "sex", "region", "score", "day", "member", "age // 2", "age % 2", "-age", "score + 1",
    "ABS(score)", "age - score", "age > 2", "score < 0", "sex IS NULL", "region = 'west'", "UPPER(region)",
    "LEFT(region, 1)", "LENGTH(region)", "region || '-'", "COALESCE(sex, 'none')", "NULLIF(sex, 'f')",
    "COALESCE(age, -1)", "MONTH(day)", "DAYNAME(day)", "ISODOW(day)", "WEEK(day)",
    "DATE_TRUNC('month', day)", "strftime(day, '%Y-%m')", "DATE_TRUNC('week', day)", "day + INTERVAL 1 DAY",
    "CASE WHEN age < 2 THEN 'low' WHEN age < 4 THEN 'mid' END", "CASE sex WHEN 'f' THEN 1 ELSE 0 END",
    "CAST(age AS VARCHAR)", "ROUND(age / 2.0)", "FLOOR(score / 2.0)", "CAST(score / 2.0 AS INTEGER)",
    "CEIL(score / 2.0)", "GREATEST(age, 2)", "LEAST(score, 0)", "region LIKE '%th'",
)  # fmt: skip
NUMBERS = (
    "age", "score", "age + score", "age * 2", "-score", "ABS(score)", "age // 2", "age % 3", "age - 2",
    "score * score", "age * score", "COALESCE(age, 0)", "NULLIF(score, 0)", "LENGTH(region)", "ISODOW(day)",
    "CASE WHEN sex = 'f' THEN age ELSE score END", "CASE WHEN age > 2 THEN 1 END", "age / 2.0", "1", "pay",
    "GREATEST(age, score)", "CASE WHEN region = 'east' THEN 1.0 ELSE 0 END", "CAST(age > 2 AS INTEGER)",
)  # fmt: skip
AGGREGATES = ("SUM", "AVG", "MIN", "MAX", "MEDIAN", "STDDEV", "VAR_POP", "COUNT", "STDDEV_POP", "VAR_SAMP")
CONDITIONS = (
    "age {sign} {small}", "score {sign} {minus}", "age IS NULL", "sex IS NOT NULL", "sex = 'f'",
    "sex <> 'm'", "region IN ('north', 'west')", "region NOT IN ('east')", "region LIKE '%th'",
    "region NOT LIKE 'w%'", "age BETWEEN {small} AND {small}", "age NOT BETWEEN 1 AND {small}",
    "age + score {sign} {minus}", "age {sign} score", "age % 2 = {small} - 1", "ABS(score) {sign} 2",
    "day {sign} '2021-01-01'", "MONTH(day) = 1", "DAYNAME(day) IN ('Monday', 'Sunday')", "member = TRUE",
    "member <> TRUE", "pay < 10", "pay {sign} 7", "COALESCE(age, {small}) {sign} 2",
    "COALESCE(sex, region) = 'west'", "LENGTH(region) = 5", "age {sign} {small} IS TRUE",
    "(age {sign} {small}) IS NOT TRUE", "age IS DISTINCT FROM {small}",
    "CASE WHEN sex = 'f' THEN age ELSE score END {sign} 1", "age IN ({small}, NULL)",
    "UPPER(region) = 'EAST'", "age NOT IN ({small}, {small})", "NULLIF(age, {small}) IS NULL",
    "day BETWEEN '2020-12-30' AND '2021-01-02'", "LEAST(age, score) {sign} {minus}", "score // 2 = {minus}",
)  # fmt: skip
SIGNS = ("=", "<>", "<", "<=", ">", ">=")
FRAMES = (
    "", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "rows between 2 preceding and current row", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 1 following AND 2 FOLLOWING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "range unbounded preceding",
)  # fmt: skip
SETS = ("ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())", "GROUPING SETS ({})")
NESTED = (  # the statements of ``Grammar._grouped`` show k0, k1 and the number v0
    "SELECT {aggregate}(v0) AS w, COUNT(*) AS n FROM ({one}) AS q",
    "SELECT k0, {aggregate}(v0) AS w, COUNT(*) AS n FROM ({one}) AS q GROUP BY k0 ORDER BY k0",
    "SELECT {names}, v0 FROM ({one}) AS q WHERE v0 {sign} 900 ORDER BY {names}",
    "SELECT {names}, RANK() OVER (ORDER BY v0 DESC, {names}) AS r FROM ({one}) AS q ORDER BY r",
    "WITH a AS ({all_one}), b AS ({all_other}) SELECT a.k0, a.v0, b.v0 AS w, a.v0 - b.v0 AS d "
    "FROM a {kind} b ON {equal} ORDER BY a.k0, a.v0, w",
    "{one} UNION ALL {other} ORDER BY {places}",
    "SELECT {key}, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM people WHERE {test}) AS w FROM people "
    "GROUP BY k0",
    "SELECT {key}, COUNT(*) AS n FROM people WHERE age {sign} (SELECT {number} FROM people WHERE {test}) "
    "GROUP BY k0",
    "SELECT {key}, COUNT(DISTINCT region) AS w, COUNT(*) AS n, AVG(age) AS v FROM people WHERE {test} "
    "GROUP BY k0",
    "SELECT COUNT(DISTINCT sex) AS w, SUM(score) AS v FROM (SELECT * FROM people WHERE {test}) AS q",
    "SELECT k0, COUNT(*) AS v, SUM(m) AS w FROM (SELECT {key}, age + score AS m, * FROM people) AS q "
    "WHERE {test} GROUP BY k0",
)


class Grammar:
    """Makes one statement from a source of choices."""

    def __init__(self, choices: random.Random) -> None:
        self._choices = choices

    def statement(self) -> str:
        """Return a statement whose order decides the places of its rows, where it has one."""
        keys = self._some(KEYS, 0, 2)
        has_sets = bool(keys) and self._is(0.1)  # whose totals and empty keys look alike: they have no order
        names = [f"k{place}" for place in range(len(keys))]
        shown = [f"{key} AS {name}" for key, name in zip(keys, names, strict=True)]
        values = [self._value(2) for _ in range(self._choices.randint(1, 3))]
        if keys and not has_sets and self._is(0.3):
            values.append(self._window(keys))
        shown += [f"{value} AS v{place}" for place, value in enumerate(values)]
        parts = [f"SELECT {', '.join(shown)} FROM people"]  # noqa: S608 - of words of this module
        if self._is(0.5):
            parts.append(f"WHERE {self._condition(2)}")
        if keys:
            parts.append(f"GROUP BY {self._sets(names) if has_sets else ', '.join(names)}")
        is_exact = "pay" not in " ".join(parts)  # else other rows may be chosen than by the true numbers
        if is_exact and self._is(0.3):
            parts.append(f"HAVING {self._test(keys, 2)}")
        if is_exact and keys and not has_sets and self._is(0.1):
            ranks = self._choices.choice(("RANK", "ROW_NUMBER", "DENSE_RANK"))
            order = ", ".join(self._order(keys))
            parts.append(
                f"QUALIFY {ranks}() OVER (ORDER BY {order}) {self._sign()} {self._choices.randint(1, 4)}"
            )
        if keys and not has_sets and self._is(0.6):
            first = [f"COUNT(*) {self._choices.choice(('', 'DESC'))}"] if is_exact and self._is(0.3) else []
            parts.append(f"ORDER BY {', '.join([*first, *self._order(names)])}")
            if self._is(0.4):
                parts.append(f"LIMIT {self._choices.randint(0, 6)}")
                parts += [f"OFFSET {self._choices.randint(0, 4)}"] if self._is(0.4) else []
        text = " ".join(parts)
        return text.replace("pay", "age") if has_sets else text

    def nested(self) -> str:
        """Return a statement of sub-queries, of WITH, or of UNION ALL."""
        keys = self._some(KEYS, 1, 2)
        names = [f"k{place}" for place in range(len(keys))]
        text = self._choices.choice(NESTED).format(
            key=f"{keys[0]} AS k0",
            names=", ".join(names),
            places=", ".join(map(str, range(1, len(keys) + 2))),
            equal=" AND ".join(f"a.{name} = b.{name}" for name in names),
            one=self._grouped(keys, names),
            other=self._grouped(keys, names),
            all_one=self._grouped(keys, names, is_of_all=True),
            all_other=self._grouped(keys, names, is_of_all=True),
            aggregate=self._choices.choice(("SUM", "AVG", "MIN", "MAX")),
            number=self._choices.choice(("AVG(score)", "MAX(age) * 0.5")),
            kind=self._choices.choice(("JOIN", "LEFT JOIN")),
            sign=self._choices.choice("<>"),
            test=self._condition(1),
        )
        return text.replace("pay", "age")  # else rows may be chosen, or ordered, otherwise than in truth

    def _grouped(self, keys: Sequence[str], names: Sequence[str], *, is_of_all: bool = False) -> str:
        """Return a statement of one number for each group, of all records or of some."""
        count = f"COUNT(*) FILTER (WHERE {self._condition(1)})"
        values = (
            "COUNT(*)", count, "AVG(score)", "SUM(age)", "MAX(age)", "2 * COUNT(*) + 1", f"{count} - 3",
            "CASE WHEN COUNT(*) > 2000 THEN 1 ELSE 0 END", f"100.0 * {count} / COUNT(*)", "COUNT(age)",
        )  # fmt: skip
        shown = ", ".join(f"{key} AS {name}" for key, name in zip(keys, names, strict=True))
        test = f" WHERE {self._condition(1)}" if not is_of_all and self._is(0.5) else ""
        value, by = self._choices.choice(values), ", ".join(names)
        return f"SELECT {shown}, {value} AS v0 FROM people{test} GROUP BY {by}"  # noqa: S608 - as above

    def _is(self, chance: float) -> bool:
        return self._choices.random() < chance

    def _some(self, given: Sequence[str], least: int, most: int) -> list[str]:
        return self._choices.sample(given, self._choices.randint(least, most))

    def _sign(self) -> str:
        return self._choices.choice(SIGNS)

    def _order(self, names: Sequence[str]) -> list[str]:
        ends = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC", " DESC NULLS FIRST")
        return [name + self._choices.choice(ends) for name in self._choices.sample(names, len(names))]

    def _sets(self, names: Sequence[str]) -> str:
        return self._choices.choice(SETS).format(", ".join(names))

    def _aggregate(self) -> str:
        if self._is(0.3):
            found = "COUNT(*)"
        else:
            found = f"{self._choices.choice(AGGREGATES)}({self._choices.choice(NUMBERS)})"
        return f"{found} FILTER (WHERE {self._condition(1)})" if self._is(0.15) else found

    def _value(self, depth: int) -> str:
        """Return an expression of answers."""
        kind = self._choices.randint(0, 9) if depth else 0
        if kind < 4:
            return self._aggregate()
        inner = self._value(depth - 1)
        number = self._choices.choice(("2", "-3", "0.5", "100.0", "7"))
        forms = (
            f"({inner} {self._choices.choice('+-*/')} {self._value(depth - 1)})",
            f"({inner} {self._choices.choice('+-*/')} {number})",
            f"({number} {self._choices.choice('+-*/')} {inner})",
            f"{self._choices.choice(('ROUND', 'FLOOR', 'CEIL', 'ABS', '-'))}({inner})",
            f"ROUND({inner}, {self._choices.randint(-2, 3)})",
            f"CAST({inner} AS {self._choices.choice(('INTEGER', 'BIGINT', 'DOUBLE'))})",
            f"COALESCE({inner}, {self._value(depth - 1)})",
            f"COALESCE({inner}, {number})",
            f"NULLIF({inner}, 0)",
            f"({inner} / NULLIF({self._value(depth - 1)}, 0))",
        )
        return self._choices.choice(forms)

    def _condition(self, depth: int) -> str:
        """Return a condition on records."""
        if depth == 0 or self._is(0.5):
            return self._choices.choice(CONDITIONS).format(
                sign=self._sign(), small=self._choices.randint(1, 4), minus=self._choices.randint(-2, 1)
            )
        return self._joined(self._condition(depth - 1), self._condition(depth - 1))

    def _joined(self, one: str, other: str) -> str:
        return self._choices.choice((f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"))

    def _test(self, keys: Sequence[str], depth: int) -> str:
        """Return a condition on answers and keys."""
        if depth and self._is(0.4):
            return self._joined(self._test(keys, depth - 1), self._test(keys, depth - 1))
        tests = [
            f"COUNT(*) {self._sign()} {self._choices.choice((100, 1000, 2210, 5000, 8223))}",
            f"COUNT(*) BETWEEN 500 AND {self._choices.choice((3000, 6473, 10000))}",
            f"SUM(score) {self._sign()} {self._choices.randint(-2000, 0)}.37",
            f"AVG(age) {self._sign()} {self._choices.uniform(1, 3):.4f}",
            f"COUNT(*) IN ({', '.join(self._some(('2210', '5230', '10053', '1'), 1, 3))})",
            f"MAX(age) {self._sign()} {self._choices.randint(2, 5)}",
            "SUM(age) IS NULL",
            "AVG(age) IS NOT NULL",
            f"COUNT(age) {self._sign()} COUNT(sex)",
        ]
        tests += [f"{key} IS {self._choices.choice(('', 'NOT '))}NULL" for key in keys if " " not in key]
        return self._choices.choice(tests)

    def _window(self, keys: Sequence[str]) -> str:
        order = f"ORDER BY {', '.join(self._order(keys))}"
        part = f"PARTITION BY {self._choices.choice(keys)} " if self._is(0.4) else ""
        over = f"OVER ({part}{order} {self._choices.choice(FRAMES)})"
        own = self._choices.choice(("COUNT(*)", "SUM(score)", "AVG(age)", "MAX(score)"))
        called = self._choices.choice(("SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"))
        ranks, beside = (
            self._choices.choice(("RANK", "DENSE_RANK", "ROW_NUMBER")),
            self._choices.choice(("LAG", "LEAD")),
        )
        forms = (
            f"{called}({own}) {over}",
            f"{called}({own}) {over}",
            f"COUNT(*) {over}",
            f"{ranks}() OVER ({part}{order})",
            f"{ranks}() OVER ({part}ORDER BY COUNT(*) DESC, {order.removeprefix('ORDER BY ')})",
            f"{beside}({own}{self._choice_of_ends()}) OVER ({part}{order})",
            f"COUNT(*) * 100.0 / SUM(COUNT(*)) OVER ({part})",
            f"{own} - {beside}({own}) OVER ({part}{order})",
            f"SUM(COUNT(*)) OVER ({part}{order}) / SUM(COUNT(*)) OVER ({part})",
            f"ROUND(1.0 * {own} / SUM({own}) OVER ({part}), 3)",
        )
        return self._choices.choice(forms)

    def _choice_of_ends(self) -> str:
        return self._choices.choice(("", ", 1", ", 2", ", 1, 0", ", 3, -1", ", 0"))


def statement(seed: int, number: int) -> str:
    """Return a statement by its number; of four one has sub-queries."""
    grammar = Grammar(random.Random(f"{seed}:{number}"))
    return grammar.nested() if number % 4 == 3 else grammar.statement()


# --- asking -------------------------------------------------------------------------------------------------


def outcome(session: pmw.Session, connection: duckdb.DuckDBPyConnection, asked: str) -> tuple[str, str]:
    """Return what a session does with a statement, and words about it."""
    import duckdb

    try:
        found = session.sql(asked)
    except QueryError as refusal:
        return "refused", _WORDS.sub("…", refusal.message.partition("; ")[0].partition(": ")[0])
    except Exception as error:  # noqa: BLE001  # nothing that is asked may end so
        return "crashed", f"{type(error).__name__}: {error}"
    try:
        told = difference(found, asked, connection)
    except duckdb.Error as error:
        return "not run", str(error).split("\n", maxsplit=1)[0]
    return ("wide" if told.endswith(LITTLE) else "differs" if told else "same"), told


# --- beside DuckDB ------------------------------------------------------------------------------------------


def difference(found: AnswerTable, statement: str, connection: duckdb.DuckDBPyConnection) -> str:
    """Return in what an answer differs from DuckDB's; empty where it does not."""
    tree = sqlglot.parse_one(statement, dialect="duckdb")
    asked = connection.execute(statement)
    columns = [column[0] for column in asked.description or ()]
    names = [*found.keys, *found.titles]
    if len(names) != len(columns) or (_are_named(tree) and {*names} != {*columns}):
        return f"columns {names}, and DuckDB's {columns}"
    order = places(names, columns)
    expected = [tuple(_plain(row[place]) for place in order) for row in asked.fetchall()]
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


def places(names: Sequence[str], columns: Sequence[str]) -> list[int]:
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


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__)
    made.add_argument("--statements", type=int, default=10_000)
    made.add_argument("--first", type=int, default=0, help="number of the first")
    made.add_argument("--seed", type=int, default=0)
    arguments = made.parse_args()
    frame = people()
    outcomes, reasons = Counter[str](), Counter[str]()
    with exact_session(frame) as session, connected(frame) as connection:
        for number in range(arguments.first, arguments.first + arguments.statements):
            asked = statement(arguments.seed, number)
            found, words = outcome(session, connection, asked)
            outcomes[found] += 1
            if found == "refused":
                reasons[words] += 1
            elif found in ("crashed", "differs", "not run"):
                tell({"number": number, "outcome": found, "statement": asked, "words": words})
    tell({"seed": arguments.seed, **outcomes, "refusals": dict(reasons.most_common(_REASONS))})


if __name__ == "__main__":
    main()
