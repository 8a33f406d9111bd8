"""Values and conditions of one row in SQL, cell by cell: plain comparisons here, others by an engine.

A condition stands in a statement, or is a where-text such as ``age BETWEEN 30 AND 39 AND sex = 'Female'``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from sqlglot import exp

from queries.cell_engine import Term, Truth, Writer
from queries.cell_values import CellCondition, CellValues, counted_where
from queries.comparisons import Junction, negation
from queries.domain import Domain
from queries.errors import QueryError
from queries.linear import LinearQuery, nearest_to
from queries.row_nodes import convert_condition, is_computed, is_operand, operands_of, placed, ranges_of
from queries.row_terms import truth_of, value_term
from queries.segments import conditions_where, count_where
from queries.sql_dates import canonical_parts, part_of
from queries.sql_tree import (
    COMPARISONS,
    PART_NODES,
    begins_with_name,
    check_node,
    parse_tree,
    position_of,
    require_bare,
    with_quoting_hint,
)
from queries.statement_grammar import examples
from queries.work import once

_Written = TypeVar("_Written", Term, Truth)


@once
def row_value(node: exp.Expr, domain: Domain) -> CellValues:
    """Return what a row of each cell holds of an expression."""
    rows, term = _written(node, domain, value_term)
    return rows.values(term)


@once
def row_condition(node: exp.Expr, domain: Domain, *, negated: bool = False) -> CellCondition:
    """Return where a condition holds: as ``convert_condition`` reads it where it can, else by the engine.

    What is compared with NULL holds nowhere, and neither does its negation.
    """
    if isinstance(node, exp.Paren | exp.Not):
        return row_condition(node.this, domain, negated=negated != isinstance(node, exp.Not))
    with placed(node):
        if isinstance(node, exp.Boolean):
            return CellCondition.constant(bool(node.this) != negated)
        if not is_computed(node) and (isinstance(node, exp.Column) or not is_operand(node)):
            predicate = convert_condition(node, domain)
            return CellCondition.of(count_where(negation(predicate) if negated else predicate, domain))
        return _computed(node, domain, negated)


def _computed(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    if isinstance(node, exp.And | exp.Or) and _only_name(node) is None:
        sides = [row_condition(side, domain, negated=negated) for side in _sides(node)]
        return joined_conditions(sides, domain, every=isinstance(node, exp.And) != negated)
    if isinstance(node, exp.Between) and not is_computed(whole := ranges_of(node)):
        return row_condition(whole, domain, negated=negated)
    rows, truth = _written(node, domain, truth_of)
    return rows.condition(truth.negated if negated else truth)


def _written(
    node: exp.Expr, domain: Domain, write: Callable[[exp.Expr, Writer], _Written]
) -> tuple[Writer, _Written]:
    """Return what is written of an expression; whole numbers are enumerated where these are few."""
    rows = Writer(domain)
    found = write(node, rows)
    if not rows.is_too_long:
        return rows, found
    rows = Writer(domain, lists=False)
    return rows, write(node, rows)


def joined_conditions(conditions: Sequence[CellCondition], domain: Domain, *, every: bool) -> CellCondition:
    """Return where all of some conditions hold, or one of them."""
    join = CellCondition.both if every else CellCondition.either
    return functools.reduce(lambda one, two: join(one, two, domain), conditions)


def with_edges(node: exp.Expr, domain: Domain, refusal: QueryError) -> QueryError:
    """Return a refusal; where a key cuts cells, one that names the part of a date, or the nearest edges."""
    if refusal.code != "unaligned":
        return refusal
    for part in node.find_all(*PART_NODES):
        name, asked = part_of(part, domain)
        try:
            row_value(part, domain).groups()
        except QueryError:
            return asked.cuts(asked.of(domain[name], None), position_of(part))
    cut = list[LinearQuery]()
    for one in node.find_all(*COMPARISONS, exp.Between):
        with suppress(QueryError):
            cut.append(count_where(convert_condition(one, domain), domain))
    message = refusal.message + nearest_to(cut)
    return QueryError(message, code=refusal.code, position=refusal.position) if cut else refusal


def _sides(chain: exp.Expr) -> list[exp.Expr]:
    """Return what a chain of ANDs, or of ORs, joins; what is plain at its left stays together."""
    sides, join = operands_of(chain), exp.and_ if isinstance(chain, exp.And) else exp.or_
    plain = next((place for place, side in enumerate(sides) if is_computed(side)), 0)
    return sides if plain < 2 else [join(*sides[:plain]), *sides[plain:]]


def where_query(nodes: Sequence[exp.Expr], domain: Domain) -> LinearQuery:
    """Return the question that counts the records where conditions all hold."""
    terms = [term for node in nodes for term in _conjuncts(node)]
    computed = dict[object, exp.Expr]()  # of one attribute together, the others one by one
    for place, term in enumerate(terms):
        if is_computed(term):
            key = _only_name(term) or place
            both = exp.And(this=computed[key].copy(), expression=term.copy()) if key in computed else term
            computed[key] = both
    plain = [convert_condition(term, domain) for term in terms if not is_computed(term)]
    with placed(*nodes):
        found = conditions_where(Junction("and", tuple(plain)), domain)
    for term in computed.values():
        with placed(term):
            one = row_condition(term, domain)
            joined = [other for other in found if set(other.scope) & set(one.scope)]
            found = [other for other in found if other not in joined]
            found.append(joined_conditions([*(other.cells() for other in joined), one], domain, every=True))
    return counted_where(found, domain)


def _only_name(node: exp.Expr) -> str | None:
    names = {one.name.casefold() for one in node.find_all(exp.Column)}
    return names.pop() if len(names) == 1 and node.find(exp.Dot) is None else None


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.And):
            waiting += [one.expression, one.this]
        elif isinstance(one, exp.Paren):
            waiting.append(one.this)
        else:
            yield one


# --- where-texts --------------------------------------------------------------------------------------------


def parse_condition(text: str, domain: Domain) -> LinearQuery:
    """Return the query that counts where a where-text holds; an empty text holds for everybody."""
    if not text.strip():
        return where_query([], domain)
    if text.split(maxsplit=1)[0].casefold() == "select" and not begins_with_name(text, domain):
        raise QueryError(
            "expected a condition, got a statement; ask by sql() or pmw ask --sql", code="syntax", position=0
        )
    try:
        return _read(text, domain)
    except QueryError as refusal:
        example = "" if refusal.construct is None else f", as in {examples(domain)['condition']}"
        told = QueryError(refusal.message + example, code=refusal.code, position=refusal.position or 0)
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
        parse_tree(
            text, exp.Condition, lambda: f"a condition such as {examples(domain)['condition']}", domain
        )
    )
    for node in tree.walk(bfs=False):
        if isinstance(node, exp.Column):
            require_bare(node)
        check_node(node)
    return tree
