"""The catalogue: what tools ask a database besides its records, such as its tables, columns and settings.

A statement is read node by node, and written anew for a locked DuckDB (``queries.locked_engine``) where its
tables, functions and other nodes are all on a whitelist. That holds the catalogue of Postgres
(``catalogue.sql``) for one table, which is empty there, and nothing else; no other text comes to it. What is
asked of the catalogue and is not on the whitelist, or cannot be run, has its columns and no rows.

The names are those of the manual of PostgreSQL 15, chapter 37 (the information schema) and 53 (catalogs).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parsers.postgres import PostgresParser

from queries.cells import in_quotes
from queries.dates import Periods
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.locked_engine import LockedTables
from queries.numbers import NumberCells
from queries.sql_tree import LONGEST_TEXT, leaves_no_row, require_shallow
from queries.statement_grammar import SCHEMAS

MOST_ROWS = 50_000  # of a result
UNLIMITED_ROWS = 1000  # of one that has no LIMIT
_SECONDS = 2.0  # of a statement
_MOST_TABLES, _MOST_JOINED = 24, 8  # that one statement joins: tables, and texts by ||
_LONGEST_WORD, _LONGEST_SHOWN = 256, 40  # characters of a constant, and of what is refused


class ColumnType(NamedTuple):
    """A type of columns: its number and name, what the standard calls it, bytes or -1, and a category."""

    oid: int
    name: str
    title: str
    size: int
    category: str


BOOL, INT8 = ColumnType(16, "bool", "boolean", 1, "B"), ColumnType(20, "int8", "bigint", 8, "N")
FLOAT8 = ColumnType(701, "float8", "double precision", 8, "N")
TEXT, DATE = ColumnType(25, "text", "text", -1, "S"), ColumnType(1082, "date", "date", 4, "D")
TIMESTAMP = ColumnType(1114, "timestamp", "timestamp without time zone", 8, "D")
TYPES = {
    "BOOLEAN": BOOL, "BIGINT": INT8, "INTEGER": INT8, "SMALLINT": INT8, "DOUBLE": FLOAT8, "FLOAT": FLOAT8,
    "DECIMAL": FLOAT8, "HUGEINT": FLOAT8, "VARCHAR": TEXT, "DATE": DATE, "TIMESTAMP": TIMESTAMP,
    "TIME": TEXT,
}  # fmt: skip  # of each type of DuckDB; any other is told as text
_LISTS = {BOOL: 1000, INT8: 1016, FLOAT8: 1022, TEXT: 1009, DATE: 1182, TIMESTAMP: 1115}  # numbers of lists


class Column(NamedTuple):
    """A column of an answer."""

    name: str
    type: ColumnType = TEXT


class Place(Enum):
    """Where a statement is answered."""

    SESSION = "session"
    SYNTHETIC = "synthetic"
    CATALOGUE = "catalogue"


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement that was read.

    Args:
        text: what locked tables are asked; None for a session's, and where it is not on the whitelist.
        titles: of its columns, as far as they are known without running it.
        parameters: of each ``$1``, … the type, and a constant that can stand in its place.
        unknown: what of it is not on the whitelist, if it is a function.
        alone: whether all of its columns are aggregates without groups, so that it has one row.
    """

    place: Place
    text: str | None = None
    titles: tuple[str, ...] = ()
    parameters: Mapping[int, tuple[ColumnType, str]] = field(default_factory=dict)
    named: bool = True
    unknown: str = ""
    alone: bool = False


class _Language(Postgres):
    """Postgres' SQL, of which queries alone are read: no first word makes a command of the rest."""

    class Tokenizer(Postgres.Tokenizer):
        COMMANDS: ClassVar[set[Any]] = set()

    class Parser(PostgresParser):
        STATEMENT_PARSERS: ClassVar[dict[Any, Any]] = {}


_SCRIPT = files("queries").joinpath("catalogue.sql").read_text()
_COLUMNS = {name: columns for _, name, *columns in map(str.split, re.findall("(?m)^TABLE .*", _SCRIPT))}
_KINDS = {"#": "BIGINT DEFAULT 0", "?": "BOOLEAN DEFAULT false", "*": "BIGINT[]"}
FUNCTIONS = frozenset(re.findall(r"(?m)^CREATE MACRO (\w+)", _SCRIPT))
_NULLS = frozenset({
    "obj_description", "col_description", "shobj_description", "to_regtype", "explode",
    "inet_server_addr", "inet_server_port", "json_build_object", "json_object",
    "replace",
})  # fmt: skip
_CASTS = dict.fromkeys((
    "name", "char", "text", "bpchar", "regtype", "regproc", "regnamespace", "regrole", "sql_identifier",
    "character_data", "yes_or_no",
), exp.DType.TEXT) | dict.fromkeys(("oid", "xid", "cardinal_number"), exp.DType.BIGINT)  # fmt: skip
_PLAIN_TYPES = frozenset({
    exp.DType.BIGINT, exp.DType.INT, exp.DType.SMALLINT, exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL,
    exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIME, exp.DType.TEXT,
    exp.DType.VARCHAR, exp.DType.ARRAY,
})  # fmt: skip
_OPERATORS: dict[str, tuple[type[exp.Expr], bool]] = {
    "~": (exp.RegexpLike, False), "!~": (exp.RegexpLike, True), "~*": (exp.RegexpILike, False),
    "~~": (exp.Like, False), "!~~": (exp.Like, True), "=": (exp.EQ, False), "<>": (exp.NEQ, False),
}  # fmt: skip
# What a text for DuckDB may hold, beside tables, types of casts and calls, which are looked at by name.
_NODES = frozenset({
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit,
    exp.Offset, exp.Fetch, exp.CTE, exp.Subquery, exp.TableAlias, exp.Column, exp.Identifier, exp.Star,
    exp.Literal, exp.Null, exp.Boolean, exp.Alias, exp.Paren, exp.Not, exp.And, exp.Or, exp.EQ, exp.NEQ,
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape,
    exp.RegexpLike, exp.RegexpILike, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Div,
    exp.Mod, exp.Neg, exp.DPipe, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Cast, exp.Distinct,
    exp.Union, exp.Exists, exp.Any, exp.All, exp.Tuple, exp.Array, exp.Bracket, exp.Values, exp.Count,
    exp.Max, exp.Min, exp.Sum, exp.Avg, exp.Stddev, exp.LogicalAnd, exp.LogicalOr, exp.Filter, exp.Window,
    exp.WindowSpec, exp.RowNumber, exp.Lower, exp.Upper, exp.Length, exp.Substring, exp.Trim, exp.Abs,
    exp.Round, exp.Floor, exp.Ceil, exp.DateTrunc, exp.TimestampTrunc, exp.Extract, exp.CurrentSchema,
    exp.CurrentSchemas, exp.CurrentVersion, exp.CurrentTimestamp, exp.CurrentDate, exp.With,
    exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop, exp.Corr, exp.Median, exp.PercentileCont,
    exp.PercentileDisc, exp.WithinGroup, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue,
    exp.LastValue, exp.Greatest, exp.Least, exp.Sign, exp.Sqrt, exp.Exp, exp.Ln, exp.Log, exp.Pow, exp.Rand,
    exp.Left, exp.Right, exp.StrPosition, exp.StartsWith, exp.StrToDate, exp.StrToTime, exp.TimeToStr,
})  # fmt: skip


class Catalogue:
    """The catalogue of one table.

    Args:
        domain: the declared attributes, and the table's name.
        types: of the attributes, as DuckDB calls them.
    """

    def __init__(self, name: str, domain: Domain, types: Sequence[str]) -> None:
        self._domain, self._types = domain, dict(zip(domain.names, types, strict=True))
        self._names = dict.fromkeys(("current_database", "current_catalog"), name)
        # DuckDB finds columns in any case; where two differ in nothing else, there is no such table.
        self._is_table = len({one.casefold() for one in domain.names}) == len(domain.names)
        places = np.arange(1, len(self._types) + 1)
        table = {"name": _texts(self._types), "kind": _texts(self._types.values()), "place": places}
        table |= {"base": _texts([name] * len(places)), "relname": _texts([domain.name] * len(places))}
        columns = ", ".join(f"{in_quotes(one)} {kind}" for one, kind in self._types.items() if self._is_table)
        own = f"CREATE SCHEMA public; CREATE TABLE public.{in_quotes(domain.name)} ({columns or 'n BIGINT'});"
        kinds = ", ".join(f"({kind!r}, {', '.join(map(repr, one))})" for kind, one in TYPES.items())
        names = "kind, oid, typname, title, typlen, typcategory"
        head = f"{own} CREATE TABLE kinds AS FROM (VALUES {kinds}) AS t ({names});"
        self._tables = LockedTables(head + re.sub("(?m)^TABLE .*", _made, _SCRIPT), table)

    def synthetic(self, columns: Mapping[str, Sequence[str | None]]) -> LockedTables:
        """Return a database that holds rows as ``synthetic.NAME``, by the texts of each attribute."""
        listed = ", ".join(f"CAST(c{place} AS {kind}) AS {in_quotes(name)}"
                           for place, (name, kind) in enumerate(self._types.items()))  # fmt: skip
        made = f"CREATE TABLE synthetic.{in_quotes(self._domain.name)} AS SELECT {listed} FROM r"  # noqa: S608
        table = {f"c{place}": _texts(columns[name]) for place, name in enumerate(self._types)}
        return LockedTables(f"CREATE SCHEMA synthetic; {made}", table)

    def read(self, text: str, user: str) -> Reading:
        """Return where a statement is answered, and by what; what cannot be read is a session's."""
        try:
            (tree,) = self._trees(text) if len(text) <= 2 * LONGEST_TEXT else [None]
        except (SqlglotError, RecursionError, ValueError, QueryError):
            return Reading(Place.SESSION)
        if not isinstance(tree, exp.Query):
            return Reading(Place.SESSION)
        for source in list(tree.find_all(exp.Unnest, exp.Table)):
            _write_schemas(source)
        tables = [one for one in tree.find_all(exp.Table) if one.db or not _is_common(one)]
        places = {self._place_of(one) for one in tables} or {Place.CATALOGUE}
        place = places.pop() if len(places) == 1 else Place.SESSION
        if place is Place.SESSION and self._is_preview(tree, tables):
            place = Place.CATALOGUE
        parameters = self._parameters(tree)
        if place is Place.SESSION:
            return Reading(place, parameters=parameters)
        starred = any(one.is_star and not isinstance(one, exp.Func) for one in tree.selects)
        titles = () if starred else tuple(map(_title, tree.selects))
        for node in list(tree.walk()):
            self._write_plain(node, user, place)
        _limit(tree)
        few = len(tables) <= _MOST_TABLES and len([*tree.find_all(exp.DPipe)]) <= _MOST_JOINED
        wrong = next((node for node in tree.walk() if not self._is_allowed(node)), None)
        asked = tree.sql("duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.IGNORE)
        ran = asked if few and wrong is None else None
        unknown = _called(wrong)[:_LONGEST_SHOWN] if isinstance(wrong, exp.Func) else "others"
        return Reading(place, ran, titles, parameters, bool(tables), unknown, _is_alone(tree))

    @staticmethod
    def _trees(text: str) -> list[exp.Expr | None]:
        language = _Language()
        tokens = language.tokenize(text)
        require_shallow(tokens)
        return language.parser().parse(tokens, text)

    def rows(
        self, reading: Reading, tables: LockedTables | None = None
    ) -> tuple[tuple[Column, ...], list[Any]]:
        """Return the columns and rows of a statement that is not the session's."""
        try:
            if reading.text is None:
                told = f"expected known tables and functions, or the session's table, got {reading.unknown}"
                raise QueryError(told, code="unsupported")
            columns, rows = (tables or self._tables).asked(reading.text, seconds=_SECONDS)
        except QueryError:
            if tables is not None or not reading.named:
                raise
            none = [None] * len(reading.titles)
            return tuple(map(Column, reading.titles)), [none] if reading.alone and not reading.text else []
        names = [name for name, _ in columns]
        titles = reading.titles if len(reading.titles) == len(names) else names
        return tuple(Column(title, TYPES.get(kind.split("(")[0], TEXT))
                     for title, (_, kind) in zip(titles, columns, strict=True)), rows  # fmt: skip

    def _place_of(self, table: exp.Table) -> Place:
        name, schema = table.name.casefold(), table.db.casefold()
        if name == self._domain.name.casefold() and schema in ("", "synthetic", *SCHEMAS):
            return Place.SYNTHETIC if schema == "synthetic" else Place.SESSION
        known = schema in ("pg_catalog", "information_schema") or (not schema and name.startswith("pg_"))
        return Place.CATALOGUE if known else Place.SESSION

    def _is_preview(self, tree: exp.Query, tables: Sequence[exp.Table]) -> bool:
        """Tell whether a statement has no rows, whatever the session's table: it asks for columns."""
        own = all(one.name.casefold() == self._domain.name.casefold() for one in tables)
        if not (own and self._is_table and isinstance(tree, exp.Select) and leaves_no_row(tree)):
            return False
        return tree.find(exp.AggFunc, exp.Group, exp.Window) is None

    def _is_allowed(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Anonymous):
            return isinstance(node.this, str) and node.name.casefold() in FUNCTIONS
        if isinstance(node, exp.Table):
            known = f"{node.db}.{node.name}" in _COLUMNS or (node.db in ("public", "synthetic")
                                                            and node.name == self._domain.name)  # fmt: skip
            return isinstance(node.this, exp.Identifier) and (known or (not node.db and _is_common(node)))
        if isinstance(node, exp.Literal) and node.is_string:
            return len(node.name) <= _LONGEST_WORD
        if isinstance(node, exp.Literal | exp.Var):  # which are written as they are
            return re.fullmatch(r"[\w.]+", node.name) is not None
        if isinstance(node, exp.DataType):
            return node.this in _PLAIN_TYPES
        return type(node) in _NODES and _is_bounded(node)

    def _parameters(self, tree: exp.Expr) -> dict[int, tuple[ColumnType, str]]:
        """Return what stands for each parameter, by the attribute that it is compared with."""
        found: dict[int, tuple[ColumnType, str]] = {}
        for node in tree.find_all(exp.Parameter):
            number = _whole(node.name)
            if number is None:
                continue
            around = node.find_ancestor(exp.Predicate, exp.Limit, exp.Offset, exp.Select)
            around = around.parent if isinstance(around, exp.Any) else around
            call = node.find_ancestor(exp.Any, exp.Anonymous)  # ALL is none that the parser knows
            columns = around.find_all(exp.Column) if isinstance(around, exp.Predicate) else ()
            name = next((one.name for one in columns if one.name in self._types), None)
            if name is None:
                rows = isinstance(around, exp.Limit | exp.Offset)
                found[number] = (INT8, "1") if rows else (TEXT, "NULL")
                continue
            kind, attribute = TYPES[self._types[name]], self._domain[name]
            if kind is TEXT and isinstance(attribute, NumberCells):  # with undeclared texts beside
                kind = FLOAT8
            value = attribute.value(0)
            if isinstance(attribute, Periods):  # a period is no value of it
                value = attribute.literal(attribute.boundaries[0]).strip("'")
            sample = exp.Literal.string(str(value)).sql() if kind is not BOOL else str(value).upper()
            sample = "1" if kind in (INT8, FLOAT8) else sample
            if call is not None and call.name.upper() in ("", "ALL"):
                kind, sample = kind._replace(oid=_LISTS[kind], title=f"{kind.title}[]"), f"ARRAY[{sample}]"
            found[number] = kind, sample
        return found

    def _write_plain(self, node: exp.Expr, user: str, place: Place) -> None:
        """Write a form of Postgres' own as DuckDB has it, in its place, and a table as it is called here."""
        write = _WRITERS.get(type(node))
        if write is not None:
            write(node)
        elif isinstance(node, exp.Table):
            self._write_table(node)
        elif isinstance(node, exp.Func):
            names = {**self._names, "current_user": user, "session_user": user}
            _write_function(node, names, is_catalogue=place is Place.CATALOGUE)

    def _write_table(self, node: exp.Table) -> None:
        place, name = self._place_of(node), node.name.casefold()
        if not node.db and _is_common(node):
            return
        if place is Place.CATALOGUE:
            schema = "info" if node.db.casefold() == "information_schema" else "pg"
        elif name == self._domain.name.casefold():
            schema, name = "public" if place is Place.SESSION else place.value, self._domain.name
        else:
            return
        for key, value in (("this", name), ("db", schema)):
            node.set(key, exp.to_identifier(value))
        node.set("catalog", None)


def _texts(values: Any) -> Any:
    return np.array([*values], dtype=object)


def _made(line: re.Match[str]) -> str:
    _, name, *columns = line[0].split()
    listed = (f"{one.rstrip('#?*')} {_KINDS.get(one[-1], 'VARCHAR DEFAULT ' + repr(''))}" for one in columns)
    return f"CREATE TABLE {name} ({', '.join(listed)});"


def _title(node: exp.Expr) -> str:
    if isinstance(node, exp.Alias | exp.Column):
        return node.alias_or_name
    while isinstance(node, exp.Cast | exp.Dot):
        node = node.expression if isinstance(node, exp.Dot) else node.this
    return (
        _called(node)
        if isinstance(node, exp.Func)
        else node.name
        if isinstance(node, exp.Column)
        else "?column?"
    )


def _called(node: exp.Func) -> str:
    own = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return "version" if isinstance(node, exp.CurrentVersion) else own.lower()


def _is_common(table: exp.Table) -> bool:
    """Tell whether a table is a query of a WITH around it, by a plain name: it never is a file's."""
    around = table.parent
    while around is not None:
        common = around.args.get("with_")
        if common is not None and table.name in {one.alias for one in common.expressions}:
            return re.fullmatch(r"\w+", table.name) is not None
        around = around.parent
    return False


def _limit(tree: exp.Query) -> None:
    limit = tree.args.get("limit")
    count = None if limit is None else limit.args.get("count") or limit.expression
    while isinstance(count, exp.Cast | exp.Paren):
        count = count.this
    number = _whole(count.name) if isinstance(count, exp.Literal) else None
    told = MOST_ROWS if number is None else number
    most = UNLIMITED_ROWS if limit is None else min(told, MOST_ROWS)
    tree.set("limit", exp.Limit(expression=exp.Literal.number(most)))


def _is_bounded(node: exp.Expr) -> bool:
    """Tell whether a WITH does not ask itself, and a list, which may grow without bound, holds constants."""
    if isinstance(node, exp.With):
        return not node.recursive
    compared = isinstance(node.parent, exp.Values | exp.In | exp.Predicate)
    if not isinstance(node, exp.Array | exp.Tuple) or (compared and isinstance(node, exp.Tuple)):
        return True
    return not any(one.find(exp.Column, exp.Query, exp.Array, exp.Tuple) for one in node.expressions)


def _is_alone(tree: exp.Query) -> bool:
    columns = [one.unalias() for one in tree.selects] if isinstance(tree, exp.Select) else []
    grouped = tree.args.get("group") or tree.args.get("having")
    return bool(columns) and not grouped and all(isinstance(one, exp.AggFunc) for one in columns)


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _write_cast(node: exp.Cast) -> None:
    name = node.to.sql().rpartition(".")[2].strip('"').lower()
    if name == "regclass":
        text = exp.Cast(this=node.this, to=exp.DataType(this=exp.DType.TEXT))
        node.replace(exp.Anonymous(this="regclass", expressions=[text]))
    elif name in _CASTS:
        node.set("to", exp.DataType(this=_CASTS[name]))


def _write_function(node: exp.Func, names: Mapping[str, str], *, is_catalogue: bool) -> None:
    """Put what a function comes to here in its place, where that is known; of what is not here it is NULL."""
    name = _called(node)
    if name in names:
        node.replace(exp.Literal.string(names[name]))
    elif name in FUNCTIONS or not is_catalogue:
        return
    elif name.endswith(("_privilege", "_is_visible", "_has_role")):
        node.replace(exp.true())
    elif name.startswith("pg_is_"):
        node.replace(exp.false())
    elif name.startswith("pg_") or name in _NULLS or (name == "array" and node.find(exp.Select)):
        node.replace(exp.null())


def _write_schemas(node: exp.Expr) -> None:
    """Write the list of schemas, or its places, where it stands as a table: it has one row."""
    source, alias = node if isinstance(node, exp.Unnest) else node.this, node.args.get("alias")
    lists = isinstance(source, exp.Func) and source.find(exp.CurrentSchemas) and not source.find(exp.Query)
    if alias is None or not lists or node.args.get("offset") is True:
        return
    first = exp.Literal.string("public") if source is node else exp.Literal.number(1)
    names = [*(alias.columns or [alias.this]), *([node.args["offset"]] if node.args.get("offset") else [])]
    row = exp.Select(expressions=[first, exp.Literal.number(1)][: len(names)])
    node.replace(exp.Subquery(this=row, alias=exp.TableAlias(this=alias.this, columns=names)))


def _write_call(node: exp.Expr) -> None:
    if isinstance(node.expression, exp.Func) and node.this.name.casefold() == "pg_catalog":
        node.replace(node.expression)


def _write_operator(node: exp.Expr) -> None:
    kind, negated = _OPERATORS.get(str(node.args["operator"]).rpartition(".")[2], (exp.Operator, False))
    test = kind(this=node.this, expression=node.expression)
    node.replace(exp.Not(this=test) if negated else test)


_WRITERS: dict[type[exp.Expr], Callable[[Any], object]] = {
    exp.ByteString: lambda node: node.replace(exp.Literal.string(node.name.replace("\\n", "\n"))),
    exp.Cast: _write_cast,
    exp.Collate: lambda node: node.replace(node.this),
    exp.Column: lambda node: node.set("db", None),
    exp.Dot: _write_call,
    exp.Operator: _write_operator,
}
