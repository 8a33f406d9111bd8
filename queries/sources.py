"""FROM: the session's table, or a sub-query that only filters it, folded into one condition."""

from __future__ import annotations

from sqlglot import exp

from queries.cells import nearest, quoted_name
from queries.domain import Domain
from queries.errors import QueryError
from queries.intervals import resolve_attribute
from queries.refusals import REPORTS
from queries.sql_tree import position_of, refuse


def folded_source(tree: exp.Select, domain: Domain) -> list[exp.Expr]:
    """Return the conditions of a statement and of its sub-queries, which all hold.

    The columns of the statement then stand without a table's name, spelt as declared.

    Raises:
        QueryError: the table is another one, or a sub-query does more than filter.
    """
    with_ = tree.args.get("with_")
    known = {} if with_ is None else {one.alias.casefold(): one.this for one in with_.expressions}
    tree.set("with_", None)
    return _conditions(tree, domain, known)


def _conditions(tree: exp.Select, domain: Domain, known: dict[str, exp.Expr]) -> list[exp.Expr]:
    source = tree.args.get("from_")
    if source is None:
        raise QueryError(f"expected FROM {quoted_name(domain.name)}; {REPORTS.advice}", code="syntax")
    table = source.this
    names = {name.casefold() for name in (table.name, table.alias) if name}
    inner = table.this if isinstance(table, exp.Subquery) else None
    if isinstance(table, exp.Table):
        names = {(table.alias or table.name).casefold()}
        rest = dict(known)
        inner = rest.pop(table.name.casefold(), None)
        known = rest  # a name is looked for among those before it: no endless loop
        if inner is None:
            _check_table(table, domain)
    tree.set("from_", None)
    found = [] if inner is None else _inner(inner, domain, known)
    _spell(tree, domain, names)
    where = tree.args.get("where")
    return [*found, *([] if where is None else [where.this])]


def _inner(tree: exp.Expr, domain: Domain, known: dict[str, exp.Expr]) -> list[exp.Expr]:
    """Return the conditions of a sub-query that only filters."""
    filters = isinstance(tree, exp.Select) and not [
        key for key, value in tree.args.items() if value and key not in ("expressions", "from_", "where")
    ]
    if not isinstance(tree, exp.Select) or not filters:
        refuse(tree, "a sub-query that does more than filter", grammar=REPORTS)
    for column in tree.expressions:
        if not isinstance(column, exp.Star | exp.Column):
            refuse(column, "a sub-query that computes columns", grammar=REPORTS)
    return _conditions(tree.copy(), domain, known)


def _check_table(table: exp.Table, domain: Domain) -> None:
    name = table.this
    quoted = isinstance(name, exp.Identifier) and name.args.get("quoted")
    if table.name != domain.name and (quoted or table.name.casefold() != domain.name.casefold()):
        raise QueryError(
            f"unknown table {table.name[:60]!r}; the session's table is {quoted_name(domain.name)}"
            f"{nearest(table.name, (domain.name,))}",
            code="unknown_table",
            position=position_of(table),
        )


def _spell(tree: exp.Select, domain: Domain, names: set[str]) -> None:
    """Take the table's name off its columns, and spell those as they are declared."""
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if qualifier is not None and qualifier.name.casefold() in names and column.args.get("db") is None:
            column.set("table", None)
        if column.args.get("table") is not None:
            refuse(column, f"a name with a dot such as {'.'.join(part.name for part in column.parts)}",
                   grammar=REPORTS)  # fmt: skip
        folded = {name.casefold() for name in domain.names}
        if isinstance(column.this, exp.Identifier) and column.name.casefold() in folded:
            quoted = bool(column.this.args.get("quoted"))
            name = resolve_attribute(column.name, domain, position_of(column), any_case=not quoted)
            column.this.set("this", name)
            column.this.set("quoted", True)
