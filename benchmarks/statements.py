"""Statement benchmark: which statements of analysts are answered, and whether DuckDB says the same.

    python -m benchmarks.statements --data-dir DIR [--table acs] [--epsilon 1] [--seeds 5] [--statements FILE]

prints one JSON line per statement, over all seeds, and a summary per table. ``statements/acs.sql`` and
``statements/census.sql`` beside this module are asked of two tables, ``DIR/statements.sql`` of Adult. A file
has a statement a line; lines that begin with ``--`` are comments.

``outcome`` is ``answered``, ``refused`` or ``crashed``; it must not vary by seed. Of what is refused there
are the ``words``, and a statement in them that runs (``way_on``). What is answered is compared with DuckDB
over the same records as the schema reads them: numbers beyond the declared ends count as the ends, undeclared
values are ``(other)``.

* A cell is what an aggregate comes to in a group. It has a bar (``bars``), a number without one
  (``without``), or neither (``undefined``). ``held`` counts the bars that hold what DuckDB says; NULL, and a
  group without records, count as 0 there. ``misses`` are some that do not.
* ``same_shape``: DuckDB prints no other groups. Groups that no record falls into may stand there
  (``empty``), where some record could fall into them; ``impossible`` are those where none could, and
  ``missing`` those that do not stand there. LIMIT, HAVING and QUALIFY act on answers: each of their groups
  must be one of DuckDB's before them, and LIMIT alone as many.
* ``whole_division``: DuckDB says the same only where it divides whole numbers without a fraction.

Adult's values are declared from its records, the other tables' from their JSON files: their numbers are
known by ranges, and drawn evenly in them. The tables are public; noise is seeded, to be repeated.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import sqlglot

import pmw
from benchmarks.runner import alone, parser, tell
from benchmarks.tables import TableAbsentError, adult_values, coded_values
from pmw.public.tables import AnswerTable
from queries import CategoricalAttribute, CodedRecords, Domain, QueryError
from queries.cells import OTHER_LABEL
from queries.domain import OrderedAttribute
from queries.parsing import parse_sql
from queries.records import decode_records

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_OWN = Path(__file__).parent / "statements"
_DRAWN = 50_000  # records that show which groups some record could fall into
_SHOWN = 3  # bars of a statement that do not hold, in its line
_SLACK = 1e-6  # of a number or its size: answers are rounded
_CHOOSE = ("having", "qualify", "limit", "offset")  # what leaves some groups out
_COUNTED = ("cells", "bars", "held", "without", "undefined", "empty", "impossible", "missing")

_Row: TypeAlias = tuple[Any, ...]
_Outcome: TypeAlias = dict[str, Any]


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "budget", tables=TABLES, seeds=5)
    made.add_argument("--statements", type=Path, metavar="FILE", help="others than the table's own")
    arguments = made.parse_args()
    for table in arguments.table or list(TABLES):
        try:
            asked = _listed(_file(table, arguments))
            found = [alone(_answered, table, seed, arguments, asked) for seed in range(arguments.seeds)]
        except TableAbsentError as reason:
            print(f"skipped {table}: {reason}", file=sys.stderr)
            continue
        lines = [_over_seeds(outcomes) for outcomes in zip(*found, strict=True)]
        for statement, line in zip(asked, lines, strict=True):
            tell({"table": table, "statement": statement, **line})
        tell({"table": table, "seeds": arguments.seeds, **_summary(lines)})


# --- tables and their statements ----------------------------------------------------------------------------

Values: TypeAlias = "tuple[pd.DataFrame, Domain]"

TABLES: dict[str, Callable[[Path | None], Values]] = {
    "acs": lambda folder: coded_values(folder, "acs_national_excerpt", "acs"),
    "census": lambda folder: coded_values(folder, "census_income_kdd", "census"),
    "adult": adult_values,
}


def _file(table: str, arguments: argparse.Namespace) -> Path:
    given: Path | None = arguments.statements
    if given is not None:
        return given
    own = _OWN / f"{table}.sql"
    if own.exists():
        return own
    if arguments.data_dir is None or not (arguments.data_dir / "statements.sql").is_file():
        raise TableAbsentError("statements.sql is not in the data folder")
    found: Path = arguments.data_dir / "statements.sql"
    return found


def _listed(file: Path) -> list[str]:
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("--")]


def _answered(table: str, seed: int, arguments: argparse.Namespace, asked: list[str]) -> list[_Outcome]:
    frame, domain = TABLES[table](arguments.data_dir)
    options = pmw.Options(seed=seed)
    with pmw.open_session(
        frame, domain, epsilon=arguments.epsilon, delta=arguments.delta, options=options
    ) as session:
        judge = Judge(frame, domain)
        return [outcome(session, judge, statement) for statement in asked]


# --- one statement ------------------------------------------------------------------------------------------


def outcome(session: pmw.Session, judge: Judge, statement: str) -> _Outcome:
    """Return what a session does with a statement, and how that compares with what DuckDB says."""
    before = session.state.ledger.share
    try:
        found = session.sql(statement)
    except QueryError as refusal:
        return {"outcome": "refused", "words": str(refusal), "way_on": way_on(session, str(refusal))}
    except Exception as error:  # noqa: BLE001  # nothing that is asked may end so
        return {"outcome": "crashed", "words": f"{type(error).__name__}: {error}"}
    spent = round(session.state.ledger.share - before, 6)
    return {
        "outcome": "answered",
        "rows": len(found.rows),
        "spent": spent,
        **judge.compared(found, statement),
    }


def way_on(session: pmw.Session, words: str) -> str | None:
    """Return a statement in a refusal's words that runs; None where there is none."""
    for begins in re.finditer(r"\b(?:SELECT|WITH)\b", words):
        rest = words[begins.start() :]
        ends = [len(rest), *(found.start() for found in re.finditer(r"`|\n|[;,.:](?=\s|$)", rest))]
        for end in sorted(ends, reverse=True):
            try:
                session.forecast(parse_sql(rest[:end], session.domain))
            except QueryError:
                continue
            return rest[:end]
    return None


@dataclass(frozen=True, slots=True)
class Reading:
    """What DuckDB says of a statement.

    Args:
        columns: names, in order.
        printed: number of rows.
        chooses: clauses that leave groups out, such as ``limit``.
        groups: the rows before these do.
        possible: the same over records that could be.
    """

    columns: tuple[str, ...]
    printed: int
    chooses: tuple[str, ...]
    groups: tuple[_Row, ...]
    possible: tuple[_Row, ...]


class Judge:
    """DuckDB over a table as its schema reads it, and over records drawn evenly from the declared cells.

    Args:
        frame: the table.
        domain: its declared attributes; its name is the table's.
    """

    def __init__(self, frame: pd.DataFrame, domain: Domain) -> None:
        generator = np.random.default_rng(0)
        drawn = CodedRecords(
            domain,
            tuple(generator.integers(one.size, size=_DRAWN, dtype=np.uint16) for one in domain),
        )
        self._real = _connected(as_read(frame, domain), domain)
        self._drawn = _connected(decode_records(drawn, generator), domain)

    def compared(self, found: AnswerTable, statement: str) -> _Outcome:
        """Return how many bars hold, and which groups differ, by the reading that is nearest."""
        import duckdb

        try:
            results = [scored(found, one) for one in self._readings(statement)]
        except duckdb.Error as error:
            return {"duckdb": str(error).split("\n", maxsplit=1)[0]}
        best = max(results, key=lambda one: (one["same_shape"], one["held"]))
        return {**best, "whole_division": best is not results[0]}

    def _readings(self, statement: str) -> Iterator[Reading]:
        """Yield what it says where whole numbers are divided with a fraction, and without."""
        for whole in ("false", "true"):
            for connection in (self._real, self._drawn):
                connection.execute(f"SET integer_division = {whole}")
            asked = self._real.execute(statement)
            columns = tuple(column[0] for column in asked.description or ())
            printed = len(asked.fetchall())
            chooses, everything = _unchosen(statement)
            groups, possible = (
                tuple(connection.execute(everything).fetchall()) for connection in (self._real, self._drawn)
            )
            yield Reading(columns, printed, chooses, groups, possible)


def _connected(frame: pd.DataFrame, domain: Domain) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    connection.register(domain.name, frame)
    return connection


def as_read(frame: pd.DataFrame, domain: Domain) -> pd.DataFrame:
    """Return a table as a schema reads it: numbers clipped, undeclared values as ``(other)``."""
    read = frame[list(domain.names)].copy()
    for attribute in domain:
        column = read[attribute.name]
        if isinstance(attribute, OrderedAttribute):
            read[attribute.name] = column.clip(attribute.ends[0], attribute.last)
        elif isinstance(attribute, CategoricalAttribute) and attribute.other:
            known = column.isna() | column.astype(str).isin(list(attribute.codes))
            read[attribute.name] = column.where(known, OTHER_LABEL)
    return read


def _unchosen(statement: str) -> tuple[tuple[str, ...], str]:
    """Return which clauses of a statement leave groups out, and it without them and without an order.

    HAVING stays where there are windows, which are of the groups that it leaves.
    """
    tree = sqlglot.parse_one(statement, dialect="duckdb")
    chooses = tuple(name for name in _CHOOSE if tree.args.get(name) is not None)
    windows = tree.find(sqlglot.exp.Window) is not None
    left = [name for name in chooses if name != "having" or not windows]
    if not left:
        return chooses, statement
    for name in (*left, "order"):
        tree.set(name, None)
    return chooses, tree.sql(dialect="duckdb")


# --- answers beside the truth -------------------------------------------------------------------------------


def scored(found: AnswerTable, reading: Reading) -> _Outcome:
    """Return how answers compare with one reading of their statement: counts, and bars that do not hold."""
    places = _places((*found.keys, *found.titles), reading.columns)
    keys, values = places[: len(found.keys)], places[len(found.keys) :]
    known: dict[_Row, list[_Row]] = defaultdict(list)
    for row in reading.groups:
        known[_key(row, keys)].append(row)
    counts = Counter(_groups(found, reading, keys))
    misses: list[list[object]] = []
    for labels, estimates in found.rows:
        rows = known.get(tuple(map(_plain, labels)), [])
        for title, place, one in zip(found.titles, values, estimates, strict=True):
            exact = [_number(row[place]) for row in rows] or [0.0]
            kind = _kind(one.value, one.interval, exact)
            counts["cells"] += 1
            counts["bars"] += kind in ("held", "missed")
            counts[kind] += 1
            if kind == "missed" and one.interval is not None:
                misses.append([*map(_plain, labels), title, one.value, *one.interval, exact[0]])
    same = not counts["missing"] and not counts["impossible"]
    return {"same_shape": same, **{name: counts[name] for name in _COUNTED}, "misses": misses[:_SHOWN]}


def _groups(found: AnswerTable, reading: Reading, keys: Sequence[int]) -> dict[str, int]:
    """Return how many groups are empty, impossible or missing."""
    ours = Counter(tuple(map(_plain, labels)) for labels, _ in found.rows)
    theirs = Counter(_key(row, keys) for row in reading.groups)
    could = {_key(row, keys) for row in reading.possible}
    beside = ours - theirs
    if not reading.chooses:
        missing = (theirs - ours).total()
    else:  # answers say which groups they are, but LIMIT how many
        missing = max(0, reading.printed - len(found.rows)) if reading.chooses == ("limit",) else 0
    empty = sum(count for key, count in beside.items() if key in could)
    return {"empty": empty, "impossible": beside.total() - empty, "missing": missing}


def _places(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return which column each name is: the one of the same name, else the next that has none."""
    by_name = {column.casefold(): place for place, column in enumerate(columns)}
    taken = {by_name[name.casefold()] for name in names if name.casefold() in by_name}
    others = iter([place for place in range(len(columns)) if place not in taken])
    return [by_name[name.casefold()] if name.casefold() in by_name else next(others) for name in names]


def _key(row: _Row, places: Sequence[int]) -> _Row:
    return tuple(_plain(row[place]) for place in places)


def _plain(value: Any) -> float | str | None:
    """Return a group's value in one form: a number however it is written, a text, or None for NULL."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None if value is None else str(value)
    return None if math.isnan(number) else round(number, 9)


def _number(value: Any) -> float:
    return 0.0 if value is None or math.isnan(value) else float(value)


def _kind(value: float | None, interval: tuple[float, float] | None, exact: Sequence[float]) -> str:
    """Return what a cell is: ``undefined``, ``without`` a bar, or one whose bar is ``held`` or ``missed``."""
    if value is None:
        return "undefined"
    if interval is None or not all(map(math.isfinite, interval)):
        return "without"
    low, high = interval
    inside = (low - _SLACK * max(1, abs(one)) <= one <= high + _SLACK * max(1, abs(one)) for one in exact)
    return "held" if any(inside) else "missed"


# --- over seeds ---------------------------------------------------------------------------------------------


def _over_seeds(outcomes: Sequence[_Outcome]) -> _Outcome:
    """Return one line of a statement: counts added up over the seeds."""
    first = outcomes[0]
    kinds = sorted({str(one["outcome"]) for one in outcomes})
    if kinds != ["answered"]:
        return first if len(kinds) == 1 else {"outcome": "varies", "words": ", ".join(kinds)}
    if "duckdb" in first:
        return first
    added = {name: sum(one[name] for one in outcomes) for name in _COUNTED}
    misses = [miss for one in outcomes for miss in one["misses"]]
    return {
        "outcome": "answered",
        "rows": first["rows"],
        "same_shape": all(one["same_shape"] for one in outcomes),
        "whole_division": any(one["whole_division"] for one in outcomes),
        **added,
        "misses": misses[:_SHOWN],
        "spent": round(sum(one["spent"] for one in outcomes) / len(outcomes), 6),
    }


def _summary(lines: Sequence[_Outcome]) -> dict[str, object]:
    """Return how many statements were answered, refused and alike, and how many bars held."""
    outcomes = Counter(line["outcome"] for line in lines)
    added = {name: sum(line.get(name, 0) for line in lines) for name in _COUNTED}
    return {
        "statements": len(lines),
        **{name: outcomes[name] for name in ("answered", "refused", "crashed", "varies")},
        "answered_share": round(outcomes["answered"] / max(1, len(lines)), 4),
        "refused_with_way_on": sum(line.get("way_on") is not None for line in lines),
        "same_shape": sum(line.get("same_shape", False) for line in lines),
        **added,
        "held_share": round(added["held"] / added["bars"], 4) if added["bars"] else None,
    }


if __name__ == "__main__":
    main()
