"""What statements may hold, node by node, and another way to ask what is refused."""

from __future__ import annotations

from sqlglot import exp

from queries.domain import Domain, quoted_name
from queries.errors import QueryError
from queries.sql_tree import CONDITIONS, PARTS, STATEMENTS, Grammar, check_node, position_of

__all__ = [
    "check_report",
    "counted_by",
    "REPORTS",
]

_THIS = frozenset({"this"})
_BOTH = frozenset({"this", "expression"})
REPORTS = Grammar(
    {
        **CONDITIONS.arguments,
        **STATEMENTS.arguments,
        **dict.fromkeys(PARTS, _THIS),
        **dict.fromkeys(
            (
                *(exp.Sum, exp.Avg, exp.Median, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp, exp.StddevPop),
                *(exp.Variance, exp.VariancePop, exp.CountIf, exp.Abs, exp.Having, exp.PercentileCont),
            ),
            _THIS,
        ),
        **dict.fromkeys(
            (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Corr, exp.Filter, exp.WithinGroup, exp.Nullif), _BOTH
        ),
        exp.Div: frozenset({"this", "expression", "typed", "safe"}),
        exp.Quantile: frozenset({"this", "quantile"}),
        exp.ApproxQuantile: frozenset({"this", "quantile"}),
        exp.Column: frozenset({"this", "table"}),  # whose name is looked at when the source is
        exp.Floor: _THIS,
        exp.Ceil: _THIS,
        exp.Round: frozenset({"this", "decimals"}),
        exp.Cast: frozenset({"this", "to", "_type"}),
        exp.DataType: frozenset({"this", "nested"}),
        exp.Case: frozenset({"this", "ifs", "default"}),
        exp.If: frozenset({"this", "true", "false"}),
        exp.Window: frozenset({"this", "over"}),
        exp.Select: frozenset(
            {
                "expressions",
                "from_",
                "where",
                "group",
                "having",
                "order",
                "limit",
                "offset",
                "distinct",
                "with_",
            }
        ),
        exp.Distinct: frozenset(),
        exp.Order: frozenset({"expressions"}),
        exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
        exp.Limit: frozenset({"expression"}),
        exp.Offset: frozenset({"expression"}),
        exp.Subquery: frozenset({"this", "alias"}),
        exp.With: frozenset({"expressions"}),
        exp.CTE: frozenset({"this", "alias"}),
    },
    "write SELECT with COUNT, SUM, AVG, MEDIAN, PERCENTILE_CONT, MIN, MAX, VARIANCE, STDDEV or CORR, WHERE, "
    "GROUP BY, HAVING, ORDER BY and LIMIT, over one table",
)


def check_report(tree: exp.Select, domain: Domain) -> None:
    """Refuse what is not on the whitelist; where a statement of another form asks the same, name it.

    Raises:
        QueryError: names what is not supported, and what to write instead.
    """
    table = quoted_name(domain.name)
    for node in tree.walk():
        instead = _instead(node, tree, table, domain)
        if instead is not None:
            what, statement = instead
            raise QueryError(
                f"{what} is not supported; write {statement}", code="unsupported", position=position_of(node)
            )
        check_node(node, REPORTS)


def _instead(node: exp.Expr, tree: exp.Select, table: str, domain: Domain) -> tuple[str, str] | None:
    """Return what a node is called, and a statement that can be asked in its place."""
    if isinstance(node, exp.Distinct) and node.expressions:
        listed = ", ".join(one.sql() for one in node.expressions)
        counted = f"{counted_by(listed, table)} HAVING COUNT(*) > 0"
        return "COUNT(DISTINCT …)", f"{counted}, and count its rows"
    first = quoted_name(domain.names[0])
    if isinstance(node, exp.Select) and node.args.get("joins"):
        return "a join", counted_by(first, table)
    if isinstance(node, exp.Window) and not _is_share(node):
        share = f"{first}, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share"
        shares = counted_by(first, table).replace(f"{first}, COUNT(*)", share, 1)
        return "a window other than SUM(COUNT(*)) OVER ()", shares
    if isinstance(node, exp.Star) and node.parent is tree:
        return (
            "a list of records (pmw export writes synthetic ones, for the same statement)",
            counted_by(first, table),
        )
    return None


def _is_share(node: exp.Window) -> bool:
    plain = all(not value for key, value in node.args.items() if key not in ("this", "over"))
    return plain and isinstance(node.this, exp.Sum) and isinstance(node.this.this, exp.AggFunc)


def counted_by(listed: str, table: str) -> str:
    """Return the statement that counts the records of each value."""
    return f"SELECT {listed}, COUNT(*) FROM {table} GROUP BY {listed}"  # noqa: S608 - a text for a message
