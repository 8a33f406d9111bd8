"""SQL: statements such as ``SELECT sex, COUNT(*) AS n FROM people WHERE age >= 65 GROUP BY sex``.

One COUNT(*), one table, a condition and groups; all else is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from queries.cells import nearest, quoted_name
from queries.domain import Domain
from queries.errors import QueryError
from queries.grouping import GroupedQuery
from queries.intervals import resolve_operand
from queries.linear import LinearQuery
from queries.parts import CALENDAR, check_part
from queries.segments import count_where
from queries.sql_names import with_quoting_hint
from queries.sql_people import counts_people, require_countable
from queries.sql_tree import PARTS, STATEMENTS, check_node, parse_tree, position_of, refuse
from queries.where_text import convert_condition

_PART_NODES = (*PARTS, exp.DateTrunc)
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*\(*\s*([A-Za-z]+)?", re.DOTALL)


_Grouping: TypeAlias = tuple[str, str | None]  # an attribute, and the part of it that groups


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the SELECT list: an attribute and its part, or None for a count of records or people."""

    grouping: _Grouping | None
    name: str
    node: exp.Expr
    people: bool = False


def parse_sql(text: str, domain: Domain) -> GroupedQuery:
    """Return what a statement counts; without GROUP BY it is one group that holds everybody.

    Raises:
        QueryError: the text is no statement of this kind, or names what is not declared.
    """
    try:
        return _statement(text, domain)
    except RecursionError:
        error = QueryError("the statement is nested too deeply; write fewer parentheses", code="too_long")
    except QueryError as refusal:
        error = with_quoting_hint(refusal, text, domain)
    error.text = text
    raise error from None


def _statement(text: str, domain: Domain) -> GroupedQuery:
    _require_select(text)
    tree = parse_tree(text, None, "a statement such as SELECT COUNT(*) FROM people WHERE age >= 30", domain)
    if not isinstance(tree, exp.Select):
        refuse(tree, grammar=STATEMENTS)
    check_node(tree, STATEMENTS)
    _qualify(tree, domain)
    where = tree.args.get("where")
    query = LinearQuery.everything(domain)
    if where is not None:
        check_node(where, STATEMENTS)
        query = count_where(convert_condition(where.this, domain), domain)
    columns = [_column(node, domain) for node in tree.expressions]
    grouped = _grouped(tree.args.get("group"), columns, domain)
    for column in columns:
        if column.people:
            require_countable(column.node, {*query.scope, *(name for name, _ in grouped)}, domain)
    return _result(query, columns, grouped, tree)


def _require_select(text: str) -> None:
    """Refuse any other statement by its first word, before the parser says something about it."""
    found, word = _FIRST_WORD.match(text), first_word(text)
    if word is None or word.upper() != "SELECT":
        came = "nothing" if word is None else word.upper()[:40]
        raise QueryError(
            f"expected a statement that begins with SELECT, got {came}; {STATEMENTS.advice}",
            code="unsupported" if word else "syntax",
            position=None if found is None or word is None else found.start(1),
        )


def first_word(text: str) -> str | None:
    """Return the word that a statement begins with, or None where it begins with none."""
    found = _FIRST_WORD.match(text)
    return found[1] if found else None


def _qualify(tree: exp.Expr, domain: Domain) -> None:
    """Check the table, and take its name or alias off the columns that carry it."""
    source = tree.args.get("from_")
    if source is None:
        raise QueryError(f"expected FROM {quoted_name(domain.name)}; {STATEMENTS.advice}", code="syntax")
    check_node(source, STATEMENTS)
    table = source.this
    check_node(table, STATEMENTS)
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse(table, "a table that is no name", grammar=STATEMENTS)
    _check_table(table.this, domain)
    alias = table.args.get("alias")
    if alias is not None:
        check_node(alias, STATEMENTS)
    known = {table.name.casefold() if alias is None else alias.name.casefold()}
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if qualifier is not None and column.args.get("db") is None and qualifier.name.casefold() in known:
            column.set("table", None)


def _check_table(name: exp.Identifier, domain: Domain) -> None:
    same = name.name == domain.name or (
        not name.args.get("quoted") and name.name.casefold() == domain.name.casefold()
    )
    if not same:
        raise QueryError(
            f"unknown table {name.name[:60]!r}; the session's table is {quoted_name(domain.name)}"
            f"{nearest(name.name, (domain.name,))}",
            code="unknown_table",
            position=position_of(name),
        )


def _column(node: exp.Expr, domain: Domain) -> _Column:
    alias = None
    inner = node
    if isinstance(node, exp.Alias):
        check_node(node, STATEMENTS)
        alias, inner = node.alias, node.this
    if isinstance(inner, exp.Count):
        check_node(inner, STATEMENTS)
        if counts_people(inner.this, domain):
            return _Column(None, alias or "count", node, people=True)
        if not isinstance(inner.this, exp.Star) or any(inner.this.args.values()):
            what = "COUNT(DISTINCT …)" if isinstance(inner.this, exp.Distinct) else "COUNT of anything but *"
            refuse(inner, what, grammar=STATEMENTS, position=position_of(inner.this))
        return _Column(None, alias or "count", node)
    if isinstance(inner, exp.AggFunc):
        refuse(inner, inner.sql_name(), grammar=STATEMENTS)
    if isinstance(inner, _PART_NODES):
        grouping = _part(inner, domain)
        return _Column(grouping, alias or (grouping[1] or "").removeprefix(CALENDAR), node)
    if not isinstance(inner, exp.Column):
        refuse(
            inner,
            None if isinstance(inner, exp.Star | exp.Window) else _expression(inner),
            grammar=STATEMENTS,
        )
    name, level = _named(inner, domain)
    return _Column((name, level), alias or level or name, node)


def _part(node: exp.Expr, domain: Domain) -> _Grouping:
    """Return the attribute and the part of it that a function names, such as YEAR(hired)."""
    check_node(node, STATEMENTS)
    if not isinstance(node.this, exp.Column):
        refuse(node, "a function of anything but an attribute", grammar=STATEMENTS)
    name, _ = _named(node.this, domain)
    if isinstance(node, exp.DateTrunc):
        part = CALENDAR + node.args["unit"].name.casefold()
    else:
        part = PARTS[type(node)]
    check_part(domain[name], part, position_of(node))
    return name, part


def _expression(node: exp.Expr) -> str | None:
    """Return what to call an expression that has no name of its own, or None where it has one."""
    computed = isinstance(node, exp.Binary | exp.Func | exp.Literal | exp.Paren | exp.Neg)
    return "a computed column" if computed and not isinstance(node, exp.Case) else None


def _named(node: exp.Expr, domain: Domain) -> tuple[str, str | None]:
    check_node(node, STATEMENTS)
    check_node(node.this, STATEMENTS)
    quoted = bool(node.this.args.get("quoted"))
    return resolve_operand(node.name, domain, position_of(node), any_case=not quoted)


def _grouped(group: exp.Expr | None, columns: list[_Column], domain: Domain) -> list[_Grouping]:
    """Return the attributes of GROUP BY and their parts, each named by itself or by its column's alias."""
    if group is None:
        return []
    check_node(group, STATEMENTS)
    aliases = {column.name: column.grouping for column in columns if column.grouping is not None}
    groupings: list[_Grouping] = []
    for node in group.expressions:
        if isinstance(node, exp.Literal):
            refuse(node, "GROUP BY with a number", grammar=STATEMENTS)
        if isinstance(node, exp.Expr) and isinstance(node, _PART_NODES):
            grouping = _part(node, domain)
        elif not isinstance(node, exp.Column):
            refuse(node, grammar=STATEMENTS)
        else:
            alias = aliases.get(node.name) if node.name not in domain else None
            grouping = alias or _named(node, domain)
        if grouping in groupings:
            raise QueryError(
                f"GROUP BY names {_called(grouping)} twice; name it once",
                code="syntax",
                position=position_of(node),
            )
        groupings.append(grouping)
    return groupings


def _called(grouping: _Grouping) -> str:
    name, part = grouping
    if part is None:
        return repr(name)
    if part not in (*PARTS.values(), *(f"{CALENDAR}{period}" for period in (*PARTS.values(), "week"))):
        return repr(part)  # a level
    period = part.removeprefix(CALENDAR)
    name = quoted_name(name)
    return f"{period.upper()}({name})" if part == period else f"DATE_TRUNC('{period}', {name})"


def _result(
    query: LinearQuery, columns: list[_Column], grouped: list[_Grouping], tree: exp.Expr
) -> GroupedQuery:
    counts = [column for column in columns if column.grouping is None]
    if len(counts) != 1:
        raise QueryError(
            f"expected one COUNT(*) in the SELECT list, got {len(counts)}; {STATEMENTS.advice}",
            code="syntax",
            position=position_of(counts[1].node if counts else tree.expressions[0]),
        )
    shown = [(column, column.grouping) for column in columns if column.grouping is not None]
    for column, grouping in shown:
        if grouping not in grouped:
            raise QueryError(
                f"SELECT lists {_called(grouping)}, which GROUP BY does not name; add it there",
                code="syntax",
                position=position_of(column.node),
            )
    unlisted = set(grouped) - {grouping for _, grouping in shown}
    if unlisted:
        raise QueryError(
            f"GROUP BY names {min(map(_called, unlisted))}, which SELECT does not list; add it there",
            code="syntax",
        )
    names, parts = [name for _, (name, _) in shown], [part for _, (_, part) in shown]
    titles = tuple(column.name for column, _ in shown)
    return GroupedQuery(query, tuple(names), titles, counts[0].name, tuple(parts))
