"""Where-texts: conditions written as in SQL, such as ``age BETWEEN 30 AND 39 AND sex = 'Female'``."""

from __future__ import annotations

from sqlglot import exp

from queries.domain import Domain
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.row_conditions import where_query
from queries.sql_dates import canonical_parts
from queries.sql_tree import begins_with_name, check_node, parse_tree, require_bare, with_quoting_hint
from queries.ways import Example


def parse_condition(text: str, domain: Domain) -> LinearQuery:
    """Return the query that counts where a where-text holds; an empty text holds for everybody."""
    if not text.strip():
        return where_query([], domain)
    if text.split(maxsplit=1)[0].casefold() == "select" and not begins_with_name(text, domain):
        raise QueryError(
            "expected a condition, got a statement; ask it as SQL: sql(), or --sql", code="syntax", position=0
        )
    try:
        return _read(text, domain)
    except QueryError as refusal:
        example = "" if refusal.construct is None else f", as in {Example.of(domain).condition}"
        told = QueryError(
            refusal.message + example, code=refusal.code, position=refusal.position or 0
        )  # of the text, wherever
        raise with_quoting_hint(told, text, domain, lambda quoted: _read(quoted, domain)) from None
    except RecursionError:
        raise QueryError(
            "the condition is nested too deeply; write fewer parentheses", code="too_long", position=0
        ) from None


def _read(text: str, domain: Domain) -> LinearQuery:
    return where_query([condition_tree(text, domain)], domain)


def condition_tree(text: str, domain: Domain) -> exp.Expr:
    """Return the syntax tree of a where-text, with every node on the whitelist."""
    tree = canonical_parts(
        parse_tree(text, exp.Condition, lambda: f"a condition such as {Example.of(domain).condition}", domain)
    )
    for node in tree.walk(bfs=False):
        if isinstance(node, exp.Column):
            require_bare(node)
        check_node(node)
    return tree
