"""Statement benchmark: which statements of analysts are answered, and whether DuckDB says the same.

    python -m benchmarks.statements --data-dir DIR [--table acs] [--epsilon 1] [--seeds 5] [--statements FILE]

prints one JSON line per statement, over all seeds, and a summary per table. ``statements/acs.sql`` and
``statements/census.sql`` beside this module are asked of two tables, ``DIR/statements.sql`` of Adult. A file
has a statement a line; lines that begin with ``--`` are comments.

``outcome`` is ``answered``, ``refused`` or ``crashed``; it must not vary by seed. Of what is refused there
are the ``words``, and a statement in them that runs (``way_on``). What is answered is compared with DuckDB
over the same records as the schema reads them: numbers beyond the declared ends count as the ends, undeclared
values are ``(other)``. A cell is what an aggregate comes to in a group. ``held`` counts the ``bars`` that
hold what DuckDB says, where whole numbers are divided with a fraction or without; NULL, and a group without
records, count as 0 there. ``misses`` are some that do not.

Adult's values are declared from its records, the other tables' from their JSON files: their numbers are
known by ranges, and drawn evenly in them. The tables are public; noise is seeded, to be repeated.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlglot

import pmw
from benchmarks.fuzz_statements import places
from benchmarks.runner import alone, parser, skipping, tell
from benchmarks.tables import TableAbsentError, adult_values, coded_values
from pmw.public.tables import AnswerTable
from queries import CategoricalAttribute, Domain, QueryError
from queries.cells import OTHER_LABEL
from queries.domain import OrderedAttribute
from queries.parsing import parse_sql

if TYPE_CHECKING:
    import pandas as pd

_OWN = Path(__file__).parent / "statements"
_SHOWN = 3  # bars of a statement that do not hold, in its line
_SLACK = 1e-6  # of a number or its size: answers are rounded
_CHOOSE = ("having", "qualify", "limit", "offset")  # what leaves some groups out
_COUNTED = ("cells", "bars", "held")

_Row: TypeAlias = tuple[Any, ...]
_Outcome: TypeAlias = dict[str, Any]

TABLES: dict[str, Callable[[Path | None], tuple[pd.DataFrame, Domain]]] = {
    "acs": lambda folder: coded_values(folder, "acs_national_excerpt", "acs"),
    "census": lambda folder: coded_values(folder, "census_income_kdd", "census"),
    "adult": adult_values,
}


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "budget", tables=TABLES, seeds=5)
    made.add_argument("--statements", type=Path, metavar="FILE", help="others than the table's own")
    arguments = made.parse_args()
    for table in arguments.table or list(TABLES):
        with skipping(table):
            asked = _listed(_file(table, arguments))
            found = [alone(_answered, table, seed, arguments, asked) for seed in range(arguments.seeds)]
            lines = [_over_seeds(outcomes) for outcomes in zip(*found, strict=True)]
            for statement, line in zip(asked, lines, strict=True):
                tell({"table": table, "statement": statement, **line})
            tell({"table": table, "seeds": arguments.seeds, **_summary(lines)})


def _file(table: str, arguments: argparse.Namespace) -> Path:
    given: Path | None = arguments.statements
    own = _OWN / f"{table}.sql" if given is None else given
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
    budget = {"epsilon": arguments.epsilon, "delta": arguments.delta}
    with pmw.open_session(frame, domain, **budget, options=pmw.Options(seed=seed)) as session:
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
    compared = judge.compared(found, statement)
    return {"outcome": "answered", "rows": len(found.rows), "spent": spent, **compared}


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


class Judge:
    """DuckDB over a table as its schema reads it: numbers clipped, undeclared values as ``(other)``."""

    def __init__(self, frame: pd.DataFrame, domain: Domain) -> None:
        import duckdb

        read = frame[list(domain.names)].copy()
        for attribute in domain:
            column = read[attribute.name]
            if isinstance(attribute, OrderedAttribute):
                read[attribute.name] = column.clip(attribute.ends[0], attribute.last)
            elif isinstance(attribute, CategoricalAttribute) and attribute.other:
                known = column.isna() | column.astype(str).isin(list(attribute.codes))
                read[attribute.name] = column.where(known, OTHER_LABEL)
        self._connection = duckdb.connect()
        self._connection.register(domain.name, read)

    def compared(self, found: AnswerTable, statement: str) -> _Outcome:
        """Return how many bars hold, by the reading that is nearest."""
        import duckdb

        try:
            return max(
                (_scored(found, *one) for one in self._readings(statement)), key=lambda one: one["held"]
            )
        except duckdb.Error as error:
            return {"duckdb": str(error).split("\n", maxsplit=1)[0]}

    def _readings(self, statement: str) -> Iterator[tuple[tuple[str, ...], list[_Row]]]:
        """Yield columns and rows, of all groups, where whole numbers are divided with a fraction or not."""
        for whole in ("false", "true"):
            self._connection.execute(f"SET integer_division = {whole}")
            asked = self._connection.execute(_unchosen(statement))
            yield tuple(column[0] for column in asked.description or ()), asked.fetchall()


def _unchosen(statement: str) -> str:
    """Return a statement without an order and without the clauses that leave groups out.

    HAVING stays where there are windows, which are of the groups that it leaves.
    """
    tree = sqlglot.parse_one(statement, dialect="duckdb")
    windows = tree.find(sqlglot.exp.Window) is not None
    left = [name for name in _CHOOSE if tree.args.get(name) is not None and (name != "having" or not windows)]
    if not left:
        return statement
    for name in (*left, "order"):
        tree.set(name, None)
    return tree.sql(dialect="duckdb")


# --- answers beside the truth -------------------------------------------------------------------------------


def _scored(found: AnswerTable, columns: Sequence[str], groups: Sequence[_Row]) -> _Outcome:
    """Return how answers compare with one reading of their statement: counts, and bars that do not hold."""
    order = places((*found.keys, *found.titles), columns)
    keys, values = order[: len(found.keys)], order[len(found.keys) :]
    known: dict[_Row, list[_Row]] = defaultdict(list)
    for row in groups:
        known[tuple(_plain(row[place]) for place in keys)].append(row)
    counts, misses = Counter[str](), list[list[object]]()
    for labels, estimates in found.rows:
        rows = known.get(tuple(map(_plain, labels)), [])
        for title, place, one in zip(found.titles, values, estimates, strict=True):
            exact = [_number(row[place]) for row in rows] or [0.0]
            low, high = one.interval or (-math.inf, math.inf)
            counts["cells"] += 1
            if one.value is None or not all(map(math.isfinite, (low, high))):
                continue
            counts["bars"] += 1
            slack = [_SLACK * max(1, abs(true)) for true in exact]
            if any(low - off <= true <= high + off for true, off in zip(exact, slack, strict=True)):
                counts["held"] += 1
            else:
                misses.append([*map(_plain, labels), title, one.value, low, high, exact[0]])
    return {**{name: counts[name] for name in _COUNTED}, "misses": misses[:_SHOWN]}


def _plain(value: Any) -> float | str | None:
    """Return a group's value in one form: a number however it is written, a text, or None for NULL."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None if value is None else str(value)
    return None if math.isnan(number) else round(number, 9)


def _number(value: Any) -> float:
    return 0.0 if value is None or math.isnan(value) else float(value)


# --- over seeds ---------------------------------------------------------------------------------------------


def _over_seeds(outcomes: Sequence[_Outcome]) -> _Outcome:
    """Return one line of a statement: counts added up over the seeds."""
    first = outcomes[0]
    kinds = sorted({str(one["outcome"]) for one in outcomes})
    if len(kinds) > 1:
        return {"outcome": "varies", "words": ", ".join(kinds)}
    if kinds != ["answered"] or "duckdb" in first:
        return first
    added = {name: sum(one[name] for one in outcomes) for name in _COUNTED}
    misses = [miss for one in outcomes for miss in one["misses"]][:_SHOWN]
    spent = round(sum(one["spent"] for one in outcomes) / len(outcomes), 6)
    return {"outcome": "answered", "rows": first["rows"], **added, "misses": misses, "spent": spent}


def _summary(lines: Sequence[_Outcome]) -> dict[str, object]:
    """Return how many statements were answered and refused, and how many bars held."""
    outcomes = Counter(line["outcome"] for line in lines)
    added = {name: sum(line.get(name, 0) for line in lines) for name in _COUNTED}
    return {
        "statements": len(lines),
        **{name: outcomes[name] for name in ("answered", "refused", "crashed", "varies")},
        "answered_share": round(outcomes["answered"] / max(1, len(lines)), 4),
        "refused_with_way_on": sum(line.get("way_on") is not None for line in lines),
        **added,
        "held_share": round(added["held"] / added["bars"], 4) if added["bars"] else None,
    }


if __name__ == "__main__":
    main()
