"""What statements may hold, node by node, and another way to ask what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from queries.cells import quoted_name
from queries.domain import Domain
from queries.errors import QueryError
from queries.intervals import resolve_attribute
from queries.sql_people import counts_people, require_countable
from queries.sql_tree import CONDITIONS, PARTS, STATEMENTS, Grammar, check_node, position_of

SYNTHETIC = "synthetic records, which pmw export writes"

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
        exp.Coalesce: frozenset({"this", "expressions"}),
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
    f"GROUP BY, HAVING, ORDER BY and LIMIT, over one table, or run the statement on {SYNTHETIC}",
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A construct that is refused, and another way to ask.

    Args:
        what: the construct, in the words of SQL.
        is_meant: tells whether a node of a statement is this construct.
        instead: returns a statement that can be asked in its place; None where there is none, and synthetic
            records answer the same statement.
    """

    what: str
    is_meant: Callable[[exp.Expr, exp.Select, Domain], bool]
    instead: Callable[[exp.Expr, Domain], str | None]


def _is_of_people(node: exp.Expr, tree: exp.Select, domain: Domain) -> bool:
    del tree
    return isinstance(node, exp.Distinct) and counts_people(node, domain)


def _people(node: exp.Expr, domain: Domain) -> str:
    require_countable(node, set(), domain)
    return f"SELECT COUNT({node.sql()}) FROM {quoted_name(domain.name)}"  # noqa: S608 - a text for a message


def _is_distinct(node: exp.Expr, tree: exp.Select, domain: Domain) -> bool:
    del tree, domain
    return isinstance(node, exp.Distinct) and bool(node.expressions)


def _values(node: exp.Expr, domain: Domain) -> str | None:
    columns = [one for one in node.expressions if isinstance(one, exp.Column)]
    if len(columns) < len(node.expressions):
        return None
    names = [
        resolve_attribute(one.name, domain, position_of(one), any_case=not one.this.args.get("quoted"))
        for one in columns
    ]
    return f"{counted_by(names, quoted_name(domain.name))} HAVING COUNT(*) >= 1, and count its rows"


def _joins(node: exp.Expr, tree: exp.Select, domain: Domain) -> bool:
    del tree, domain
    return isinstance(node, exp.Select) and bool(node.args.get("joins"))


def _is_window(node: exp.Expr, tree: exp.Select, domain: Domain) -> bool:
    del tree, domain
    if not isinstance(node, exp.Window):
        return False
    plain = all(not value for key, value in node.args.items() if key not in ("this", "over"))
    return not (plain and isinstance(node.this, exp.Sum) and isinstance(node.this.this, exp.AggFunc))


def _lists_records(node: exp.Expr, tree: exp.Select, domain: Domain) -> bool:
    del domain
    return isinstance(node, exp.Star) and node.parent is tree


def _nothing(node: exp.Expr, domain: Domain) -> None:
    del node, domain


REFUSALS = (
    Refusal("COUNT(DISTINCT …) of people beside other columns", _is_of_people, _people),
    Refusal("an aggregate of DISTINCT values", _is_distinct, _values),
    Refusal("a join", _joins, _nothing),
    Refusal("a window other than SUM(COUNT(*)) OVER ()", _is_window, _nothing),
    Refusal("a list of records", _lists_records, _nothing),
)


def check_report(tree: exp.Select, domain: Domain) -> None:
    """Refuse what is not on the whitelist; where a statement of another form asks the same, name it.

    Raises:
        QueryError: names what is not supported, and what to do instead.
    """
    for node in tree.walk():
        for refusal in REFUSALS:
            if refusal.is_meant(node, tree, domain):
                statement = refusal.instead(node, domain)
                way = f"run the statement on {SYNTHETIC}" if statement is None else f"write {statement}"
                raise QueryError(
                    f"{refusal.what} is not supported; {way}", code="unsupported", position=position_of(node)
                )
        check_node(node, REPORTS)


def counted_by(names: Sequence[str], table: str) -> str:
    """Return the statement that counts the records of each value of attributes."""
    listed = ", ".join(map(quoted_name, names))
    title = " AS records" if "count" in names else ""
    return f"SELECT {listed}, COUNT(*){title} FROM {table} GROUP BY {listed}"  # noqa: S608 - a message
