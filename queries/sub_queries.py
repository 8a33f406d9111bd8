"""Sub-queries, WITH and joins of them: rewritten into one statement over the table that asks the same.

A sub-query that lists records only renames, computes and filters: its columns stand in place of their names.
One that groups them is asked itself, and what is done with its rows is done with the groups: conditions on
them become HAVING, aggregates of them windows. Groups that are joined by equal keys are the same groups,
counted under several conditions: each becomes a FILTER. A number that a sub-query gives stands beside them
likewise; in a condition it is asked first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from sqlglot import exp

from queries.aggregates import AGGREGATES
from queries.categories import CategoricalAttribute
from queries.cells import nearest
from queries.dates import DateAttribute
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.joins import join_conditions, join_refusal, place_columns, take_joins
from queries.sql_tree import error_at, is_zero, operand_of, refuse
from queries.statement_grammar import GRAMMAR, over_table, written_title

ONE_EACH = "one_each"  # has the keys of a statement that shows one row of those where they are equal
HAVING = "having"  # marks a condition that HAVING stated, and windows make one of QUALIFY
DIFFERENT = "different"  # has the attributes whose values a statement counts, or takes one by one
_SCALAR = "scalar"  # marks a name that stands for a number, with its place
_MORE_THAN_ROWS = ("having", "qualify", "limit", "offset")
_MOST_QUERIES = 64  # of a statement, what WITH names as often as it is used
_MOST_NODES = 2**12  # that stand in place of the names of one query's columns
_OF_GROUPS = "an aggregate of groups other than COUNT(*), SUM, AVG, MIN and MAX"
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
# The queries that WITH names, each with the names before it: no query is of itself.
_Known: TypeAlias = "Mapping[str, tuple[exp.Expr, _Known]]"


@dataclass(frozen=True, slots=True)
class _Source:
    """What stands behind FROM or JOIN: a query over the table alone, its columns by folded names."""

    alias: str
    tree: exp.Select
    columns: Mapping[str, exp.Expr] = field(init=False)

    def __post_init__(self) -> None:
        named = {title.casefold(): node for title, node in map(titled, self.tree.expressions) if title}
        object.__setattr__(self, "columns", named)

    @property
    def is_open(self) -> bool:
        """Whether it has all columns of the table, too."""
        return any(is_star(one) for one in self.tree.expressions)

    def size(self, name: str) -> int:
        """Return how many nodes a column has."""
        found = self.columns.get(name.casefold())
        return 1 if found is None else sum(1 for _ in found.walk())

    def column(self, name: str) -> exp.Expr | None:
        """Return what a column is; None where there is none of this name."""
        found = self.columns.get(name.casefold())
        if found is not None or not self.is_open:
            return found
        column = exp.column(name, quoted=True)
        column.meta.update(open=True)
        return column


def flat_statement(tree: exp.Expr, domain: Domain) -> exp.Select:
    """Return a statement over the table alone that asks the same; its tables' names are taken off."""
    count = _queries_in(tree, {})
    if count > _MOST_QUERIES:
        raise QueryError(
            f"expected at most {_MOST_QUERIES} sub-queries, counting what WITH names as often as it is used; "
            f"got {count:,}",
            code="too_large",
        )
    return _flat(tree, {}, domain)


def _queries_in(node: exp.Expr, named: Mapping[str, int]) -> int:
    if isinstance(node, exp.Table):
        return 0 if node.args.get("db") is not None else named.get(node.name.casefold(), 0)
    own = dict(named)
    for one in named_queries(node):
        own[one.alias.casefold()] = _queries_in(one.this, own)
    inner = (one for one in node.iter_expressions() if not isinstance(one, exp.With))
    return isinstance(node, exp.Select) + sum(_queries_in(one, own) for one in inner)


def arms_of(tree: exp.Union) -> list[exp.Expr]:
    """Return the statements that UNION ALL joins; each has the queries that WITH names."""
    if tree.args.get("distinct"):
        refuse(tree, grammar=GRAMMAR)
    found: list[exp.Expr] = []
    for side in map(bare_query, (tree.this, tree.expression)):
        found += arms_of(side) if isinstance(side, exp.Union) else [side]
    for one in found:
        named = [query.copy() for outer in (tree, one) for query in named_queries(outer)]
        one.set("with_", exp.With(expressions=named) if named else None)
    return found


def _flat(tree: exp.Expr, known: _Known, domain: Domain) -> exp.Select:
    tree = bare_query(tree)
    if not isinstance(tree, exp.Select):
        refuse(tree, f"{tree.key.upper()} in a sub-query", grammar=GRAMMAR)
    known = _named(tree, known)
    scalars = _scalars(tree, known, domain)
    given = [] if tree.args.get("from_") is None else [tree.args["from_"].this]
    joins = list(tree.args.get("joins") or ())
    first, *others = [_is_inner(one, known) for one in (*given, *(join.this for join in joins))] or [False]
    if first:
        meant = [*given, *(join.this for join in joins if any(others))]
        inner = [_source(one, known, domain) for one in meant]
        tree = _merged(tree, inner if len(inner) == 1 else _joined(inner, joins, domain), domain)
    elif any(others):
        raise _join_with(joins[others.index(True)], domain)
    elif given or not scalars:
        tree = over_table(tree, domain)
    return _beside(tree, scalars, domain) if scalars else tree


def _named(tree: exp.Select, known: _Known) -> _Known:
    """Return the queries that a query names by WITH, beside those that are known, and take them off it."""
    found = dict(known)
    for one in named_queries(tree):
        found[one.alias.casefold()] = one.this, dict(found)
    tree.set("with_", None)
    return found


def _is_inner(source: exp.Expr, known: _Known) -> bool:
    named = isinstance(source, exp.Table) and source.args.get("db") is None
    return isinstance(source, exp.Subquery) or (named and source.name.casefold() in known)


def _join_with(join: exp.Expr, domain: Domain) -> QueryError:
    table = join.this
    what = repr(table.name[:60]) if isinstance(table, exp.Table) else "a sub-query"
    return join_refusal(join, f"a join with {what}", domain)


def _source(source: exp.Expr, known: _Known, domain: Domain) -> _Source:
    if isinstance(source, exp.Subquery):
        inner, alias = _flat(source.this, known, domain), source.alias
    elif _is_inner(source, known):
        (named, before), alias = known[source.name.casefold()], source.alias or source.name
        inner = _flat(named.copy(), before, domain)
    else:
        raise join_refusal(source, "a join of sub-queries with a table", domain)
    return _Source(alias.casefold(), settled(inner, domain) if is_grouped(inner) else inner)


# --- one query in place of two ------------------------------------------------------------------------------


def _merged(outer: exp.Select, sources: Sequence[_Source], domain: Domain) -> exp.Select:
    inner, sums_up, windows = sources[0].tree, is_grouped(outer), has_window(outer)
    titles = {one.alias.casefold() for one in outer.expressions if isinstance(one, exp.Alias)}
    outer.set("expressions", list(_shown_columns(outer, sources)))
    joins = list(outer.args.get("joins") or ()) if len(sources) == 1 else []
    if joins and is_grouped(inner):
        raise _join_with(joins[0], domain)
    joined = take_joins(outer, domain, {sources[0].alias}) if joins else ()
    place_columns(outer, domain, joined)
    _place(outer, sources, titles, domain)
    outer.set("from_", None)
    outer.set("joins", None)
    if not is_grouped(inner):
        _require_rows(inner)
        tests = [*join_conditions(joined, domain), *conditions_of(inner), *conditions_of(outer)]
        outer.set("where", exp.Where(this=exp.and_(*tests, copy=False)) if tests else None)
        return outer
    if windows and (sums_up or has_window(inner) or any(map(inner.args.get, _MORE_THAN_ROWS[1:]))):
        refuse(outer, "a window over rows that a sub-query chooses or sums up", grammar=GRAMMAR)
    return _summed_up(outer, inner, domain) if sums_up else _shown(outer, inner)


def _shown_columns(outer: exp.Select, sources: Sequence[_Source]) -> Iterator[exp.Expr]:
    """Yield the columns that a query shows, those that * stands for, each with its name."""
    for node in outer.expressions:
        if is_star(node):
            table = node.table.casefold() if isinstance(node, exp.Column) else ""
            for source in sources:
                if table in ("", source.alias):
                    yield from _named_columns(source)
        elif isinstance(node, exp.Column):
            yield exp.alias_(node, node.name, quoted=True)
        else:
            yield _with_title(node)


def _with_title(node: exp.Expr) -> exp.Expr:
    """Return a column with the title that it would have before it is written anew."""
    if isinstance(node, exp.Alias | exp.Column):
        return node
    title = written_title(node)
    return node if title is None else exp.alias_(node, title, quoted=True)


def _named_columns(source: _Source) -> Iterator[exp.Expr]:
    for node in source.tree.expressions:
        title, column = titled(node)[0], node.copy()
        if not is_star(node):
            column = exp.alias_(untitled(node).copy(), title, quoted=True)
        for one in column.find_all(exp.Column):
            one.meta.update(placed=True, of_table=True)
        yield column


def _place(outer: exp.Select, sources: Sequence[_Source], titles: Collection[str], domain: Domain) -> None:
    given = (outer.args.get(key) for key in ("where", "group"))
    roots, size = [*row_parts(outer), *(one for one in given if one is not None)], 0
    for column in [one for root in roots for one in root.find_all(exp.Column)]:
        if "placed" in column.meta or _SCALAR in column.meta or column.find_ancestor(exp.Dot):
            continue
        sorts = isinstance(column.parent, exp.Ordered) and not column.table
        if sorts and column.name.casefold() in titles:
            continue
        meant = [one for one in sources if column.table.casefold() in ("", one.alias)]
        size += sum(one.size(column.name) for one in meant)
        if size > _MOST_NODES:
            raise error_at(
                column, "too_large", "the columns of sub-queries are too long, written out; name fewer"
            )
        found = [node for one in meant if (node := one.column(column.name)) is not None]
        if found:
            if any(node != found[0] for node in found):
                way = f"write {sources[0].alias}.{column.name} if that is meant"
                raise error_at(column, "syntax", f"{column.name!r} is a column of two sub-queries; {way}")
            node = found[0].copy()
            _spelt(node, column, domain)
            column.replace(node if isinstance(node, exp.Column | exp.Dot) else exp.Paren(this=node))
        elif column.table or (column.name.casefold() not in titles):
            names = [name for one in meant for name in one.columns]
            raise error_at(column, "unknown_attribute", f"the sub-query has no column {column.sql()!r}"
                           f"{nearest(column.name, names)}")  # fmt: skip


def _spelt(node: exp.Expr, place: exp.Column, domain: Domain) -> None:
    """Spell a column of the table as it is declared, with the place of the name that it stands for."""
    for one in node.find_all(exp.Column):
        one.meta.update(placed=True, of_table=True)
        if one is node and isinstance(one.this, exp.Identifier):
            one.this.meta.update(place.this.meta)
            if "open" in one.meta:
                name, level = operand_of(place, domain)
                one.set("this", exp.to_identifier(level or name, quoted=True))
                one.this.meta.update(place.this.meta)


def _require_rows(inner: exp.Select) -> None:
    window = next((found for root in row_parts(inner) if (found := root.find(exp.Window)) is not None), None)
    limits = [key for key in _MORE_THAN_ROWS if inner.args.get(key) is not None]
    if window is not None or limits:
        what = "a window over records" if window is not None else f"{limits[0].upper()} of records"
        refuse(inner if window is None else window, f"{what} in a sub-query", grammar=GRAMMAR)


def _shown(outer: exp.Select, inner: exp.Select) -> exp.Select:
    """Return a query that shows some of the groups of another one, and computes columns of them."""
    limited = [key for key in ("limit", "offset") if inner.args.get(key) is not None]
    windows = has_window(inner)
    again = ("where", "order", "limit", "offset", "distinct")
    if limited and any(outer.args.get(key) is not None for key in again):
        refuse(inner, "LIMIT in a sub-query whose rows are chosen or ordered again", grammar=GRAMMAR)
    test = outer.args.get("where")
    for key, kind in (("having", exp.Having), ("qualify", exp.Qualify)):
        more = test if (key == "qualify") == windows else None
        outer.set(key, both_clauses(inner.args.get(key), more, kind))
    for key in ("where", "group"):
        outer.set(key, inner.args.get(key))
    for key in ("order", *limited):
        if outer.args.get(key) is None:
            outer.set(key, inner.args.get(key))
    if inner.args.get("distinct") is not None and outer.args.get("distinct") is None:
        outer.set("distinct", inner.args["distinct"])
    outer.meta.update({key: inner.meta[key] for key in (ONE_EACH, DIFFERENT, HAVING) if key in inner.meta})
    return outer


# --- aggregates of groups -----------------------------------------------------------------------------------


def _summed_up(outer: exp.Select, inner: exp.Select, domain: Domain) -> exp.Select:
    """Return a query that sums up the groups of another one: with windows, and one row of each key."""
    if has_window(inner) or any(inner.args.get(key) is not None for key in _MORE_THAN_ROWS[1:]):
        refuse(inner, "an aggregate of rows that LIMIT or windows choose", grammar=GRAMMAR)
    keys, finer = keys_of(settled(outer, domain)), keys_of(inner)
    for column in [one for key in finer for one in ([key] if isinstance(key, exp.Column) else [])]:
        if column.name in domain and not _holds_values(domain[column.name]):
            refuse(column, "an aggregate of groups whose cells hold several values", grammar=GRAMMAR)
    names = [one.name for one in finer if isinstance(one, exp.Column) and one.name in domain]
    outer.meta.update({DIFFERENT: names})
    return _lifted(outer, inner, keys, _over_groups if finer else _of_one_row)


def _holds_values(attribute: Attribute) -> bool:
    """Tell whether each cell of an attribute is one value, undeclared texts taken for one."""
    if isinstance(attribute, DateAttribute):
        return attribute.width == "day"
    return not attribute.is_ordered or isinstance(attribute.value(0), int)


def _lifted(
    outer: exp.Select,
    inner: exp.Select,
    keys: list[exp.Expr],
    lift: Callable[[exp.Expr, list[exp.Expr]], exp.Expr],
) -> exp.Select:
    """Return a query whose aggregates are windows over finer groups, with one row for each key."""
    for key in ("expressions", "having", "order"):
        given = outer.args.get(key)
        for node in given if isinstance(given, list) else [] if given is None else [given]:
            for one in outermost(node):
                one.replace(lift(one, keys))
    outer.set(
        "qualify", None if outer.args.get("having") is None else exp.Qualify(this=outer.args["having"].this)
    )
    outer.set("having", both_clauses(inner.args.get("having"), outer.args.get("where"), exp.Having))
    outer.set("where", inner.args.get("where"))
    outer.set("group", inner.args.get("group"))
    outer.set("distinct", exp.Distinct())
    outer.meta.update({ONE_EACH: [one.copy() for one in keys], HAVING: True})
    return outer


def _of_one_row(node: exp.Expr, _: list[exp.Expr]) -> exp.Expr:
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return exp.Literal.number(1)
    if not isinstance(node, exp.Sum | exp.Avg | exp.Min | exp.Max):
        refuse(node, _OF_GROUPS, grammar=GRAMMAR)
    return exp.Paren(this=node.this.copy())


def _over_groups(node: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
    """Return an aggregate of groups as windows over them; groups without records count for nothing."""
    is_there: exp.Expr = exp.Sign(this=exp.Count(this=exp.Star(), big_int=True))
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return window_over(exp.Sum(this=is_there), keys)
    value = node.this.unnest() if isinstance(node.this, exp.Expr) else None
    if not isinstance(node, exp.Sum | exp.Avg | exp.Min | exp.Max) or value is None:
        refuse(node, _OF_GROUPS, grammar=GRAMMAR)
    if _is_null_of_nobody(value):
        return window_over(type(node)(this=value.copy()), keys)
    if isinstance(node, exp.Min | exp.Max):
        return window_over(type(node)(this=_of_somebody(node, value)), keys)
    if not _is_count(value):  # what nobody is in weighs nothing
        value = exp.Mul(this=exp.Paren(this=value.copy()), expression=is_there.copy())
    total = window_over(exp.Sum(this=value.copy()), keys)
    if isinstance(node, exp.Sum):
        return total
    return exp.Paren(this=exp.Div(this=total, expression=window_over(exp.Sum(this=is_there), keys)))


def _of_somebody(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Return what MIN or MAX is of, where it is that of groups with records alone."""
    if isinstance(node, exp.Max) and _is_count(value):
        return value.copy()
    if not isinstance(value, exp.Count) or not isinstance(value.this, exp.Star):
        refuse(node, "MIN or MAX of what groups without records also have", grammar=GRAMMAR)
    return exp.Nullif(this=value.copy(), expression=exp.Literal.number(0))


def _is_count(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.Count | exp.CountIf)


def _is_null_of_nobody(node: exp.Expr) -> bool:
    """Tell whether an expression is NULL of no records: arithmetic on what is, or division by a count."""
    if isinstance(node, (exp.Paren, exp.Neg, exp.Round, exp.Cast, exp.Abs, exp.Floor, exp.Ceil)):
        return _is_null_of_nobody(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        divisor = node.expression.unnest() if isinstance(node, exp.Div) else None
        divisor = divisor.this if isinstance(divisor, exp.Nullif) else divisor
        by_count = divisor is not None and _is_count(divisor)
        return by_count or _is_null_of_nobody(node.this) or _is_null_of_nobody(node.expression)
    return isinstance(node, AGGREGATES) and not _is_count(node)


def _over_records(node: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
    """Return an aggregate of records as windows over finer groups of them."""
    inner, tests = (node.this, node.expression) if isinstance(node, exp.Filter) else (node, None)

    def windowed(kind: type[exp.Expr], aggregate: exp.Expr) -> exp.Expr:
        filtered = aggregate if tests is None else exp.Filter(this=aggregate, expression=tests.copy())
        return window_over(kind(this=filtered), keys)

    if isinstance(inner, exp.Count) and isinstance(inner.this, exp.Distinct):
        held = exp.Count(this=inner.this.expressions[0].copy(), big_int=True)
        filtered = held if tests is None else exp.Filter(this=held, expression=tests.copy())
        return window_over(exp.Sum(this=exp.Sign(this=filtered)), keys)
    if isinstance(inner, exp.Count | exp.CountIf | exp.Sum):
        return windowed(exp.Sum, inner.copy())
    if isinstance(inner, exp.Min | exp.Max):
        return windowed(type(inner), inner.copy())
    if not isinstance(inner, exp.Avg):
        refuse(node, f"{node.sql()[:40]} beside COUNT(DISTINCT …), or over all groups,", grammar=GRAMMAR)
    total = windowed(exp.Sum, exp.Sum(this=inner.this.copy()))
    count = windowed(exp.Sum, exp.Count(this=inner.this.copy(), big_int=True))
    return exp.Paren(this=exp.Div(this=total, expression=count))


# --- several queries over the same groups -------------------------------------------------------------------


def _joined(sources: Sequence[_Source], joins: Sequence[exp.Expr], domain: Domain) -> list[_Source]:
    """Return sub-queries over the same groups, or over all records, as columns of one query.

    Every group of the keys has a row, whether or not each sub-query has records there. A key that is NULL
    equals none: such a group has no row.
    """
    for one in sources:
        given = [
            key for key in ("having", *_MORE_THAN_ROWS[1:], "distinct") if one.tree.args.get(key) is not None
        ]
        if not is_grouped(one.tree) or given or has_window(one.tree):
            refuse(joins[0], "a join of sub-queries that do more than group", grammar=GRAMMAR)
    keys = next((found for one in sources if (found := keys_of(one.tree))), [])
    for number, join in enumerate(joins, 1):
        if join.args.get("method") or (join.args.get("kind") or "") not in ("", "INNER", "OUTER", "CROSS"):
            refuse(join, "a join other than CROSS, INNER, LEFT, RIGHT and FULL", grammar=GRAMMAR)
        _require_equal_keys(sources[: number + 1], join, keys)
    empty = [key for key in keys if _may_be_null(key, domain)]
    outer = next((join for join in joins if join.args.get("side")), None)
    if empty and outer is not None:
        refuse(outer, "an outer join of groups by keys that may be NULL", grammar=GRAMMAR)
    late = keys and any(not keys_of(one.tree) for one in sources)  # after the windows over all groups
    trees = _counted_together([one.tree for one in sources], keys)
    tests = [exp.Not(this=exp.Is(this=key.copy(), expression=exp.Null())) for key in empty]
    if tests:
        clause = (exp.Qualify if late else exp.Having)(this=exp.and_(*tests, copy=False))
        trees[0].set("qualify" if late else "having", clause)
    return [_Source(one.alias, tree) for one, tree in zip(sources, trees, strict=True)]


def _may_be_null(key: exp.Expr, domain: Domain) -> bool:
    """Tell whether a key of groups may be NULL, as far as its form and the declaration tell."""

    def is_null(node: exp.Expr) -> bool:
        if isinstance(node, exp.Column):
            return node.name not in domain or domain[node.name].missing_code is not None
        if isinstance(node, exp.Div | exp.IntDiv | exp.Mod):
            return not isinstance(node.expression, exp.Literal) or is_zero(node.expression)
        if isinstance(node, exp.Case):
            return node.args.get("default") is None
        alone = isinstance(node, exp.If) and not isinstance(node.parent, exp.Case)
        return isinstance(node, (exp.Nullif, exp.Null, exp.Dot)) or (alone and node.args.get("false") is None)

    return any(map(is_null, key.walk()))


def _require_equal_keys(sources: Sequence[_Source], join: exp.Expr, keys: list[exp.Expr]) -> None:
    own = keys_of(sources[-1].tree)
    using, on = join.args.get("using") or [], join.args.get("on")
    test = None if on is None or not own else on.unnest()
    tests = [] if test is None else list(test.flatten()) if isinstance(test, exp.And) else [test]
    met = [sources[-1].column(one.name) for one in using]
    met += [_equal_sides(one.unnest(), sources) for one in tests]
    known = own in ([], keys) or set(own) == set(keys)
    if not known or None in met or not {one for one in met if one is not None} >= set(own):
        refuse(join, "a join of groups by anything but all of their keys", grammar=GRAMMAR)


def _equal_sides(test: exp.Expr, sources: Sequence[_Source]) -> exp.Expr | None:
    """Return what both sides of an equality are; None where they are two things, or it is none."""
    if not isinstance(test, exp.EQ):
        return None
    one, two = (_side(side, sources) for side in (test.this, test.expression))
    return one if one == two else None


def _side(node: exp.Expr, sources: Sequence[_Source]) -> exp.Expr | None:
    node = node.unnest()
    if not isinstance(node, exp.Column):
        return None
    meant = (one.column(node.name) for one in sources if node.table.casefold() in ("", one.alias))
    return next((one for one in meant if one is not None), None)


def _counted_together(trees: Sequence[exp.Select], keys: list[exp.Expr]) -> list[exp.Select]:
    """Return queries over the same groups, or over none, with one condition for all."""
    if any(isinstance(one, _SETS) for one in keys) and not all(map(keys_of, trees)):
        refuse(keys[0], "a number of all records beside totals", grammar=GRAMMAR)
    wheres = [one.args.get("where") for one in trees]
    same = all(where == wheres[0] for where in wheres)
    group = next((one.args["group"] for one in trees if one.args.get("group") is not None), None)
    found = []
    for tree, where in zip(trees, wheres, strict=True):
        for node in list(outermost(tree)):
            new = node.copy() if same or where is None else _filtered(node, where)
            node.replace(new if keys_of(tree) or not keys else _over_records(new, []))
        tree.set("where", where if same else None)
        tree.set("group", None if group is None else group.copy())
        found.append(tree)
    return found


def _filtered(node: exp.Expr, where: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Filter):
        both = both_clauses(node.expression, where, exp.Where)
        return exp.Filter(this=node.this.copy(), expression=both)
    return exp.Filter(this=node.copy(), expression=where.copy())


def _scalars(tree: exp.Select, known: _Known, domain: Domain) -> list[exp.Select]:
    """Return the sub-queries that stand for a number of a query, in whose place names are put."""
    found: list[exp.Select] = []
    for root in row_parts(tree):
        for node in list(root.find_all(exp.Subquery)):
            if node.find_ancestor(exp.Subquery, exp.In, exp.Exists) not in (None, tree.parent):
                continue
            inner = settled(_flat(node.this, known, domain), domain)
            more = [key for key in (*_MORE_THAN_ROWS, "group", "distinct") if inner.args.get(key) is not None]
            if len(inner.expressions) != 1 or more or not is_grouped(inner) or has_window(inner):
                refuse(node, "a sub-query in place of a number that is no single aggregate", grammar=GRAMMAR)
            column = exp.column("number")
            column.meta.update({_SCALAR: len(found)})
            node.replace(column)
            found.append(inner)
    return found


def _beside(tree: exp.Select, scalars: Sequence[exp.Select], domain: Domain) -> exp.Select:
    """Return a query with aggregates of all records in place of the names that stand for them."""
    if tree.args.get("group") is not None or tree.args.get("distinct") is not None:
        tree = settled(tree, domain)
    keys = keys_of(tree)
    if keys and tree.args.get("having") is not None:
        if has_window(tree):
            refuse(tree, "a window beside HAVING and a sub-query in place of a number", grammar=GRAMMAR)
        tree.set("qualify", exp.Qualify(this=tree.args["having"].this))
        tree.set("having", None)
        tree.meta.update({HAVING: True})
    tree, *others = _counted_together([tree, *scalars], keys)
    for column in list(tree.find_all(exp.Column)):
        if _SCALAR in column.meta:
            shown = others[column.meta[_SCALAR]].expressions[0]
            column.replace(exp.Paren(this=untitled(shown).copy()))
    return tree


# --- numbers in a condition ---------------------------------------------------------------------------------

_GROWING = (exp.Paren, exp.Add, exp.Sub, exp.Neg, exp.And, exp.Or, exp.Not, exp.Where)
_ORDERS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)


def asked_first(tree: exp.Select) -> list[exp.Subquery]:
    """Return the sub-queries that stand for a number in a statement's condition."""
    where = tree.args.get("where")
    found = []
    for node in [] if where is None else list(where.find_all(exp.Subquery)):
        if node.find_ancestor(exp.Subquery, exp.Select) is not tree:
            continue
        above, orders = node.parent, 0
        while above is not None and above is not tree:
            scales = isinstance(above, exp.Mul | exp.Div) and isinstance(above.expression, exp.Literal)
            scales = scales or (isinstance(above, exp.Mul) and isinstance(above.this, exp.Literal))
            orders += isinstance(above, _ORDERS)
            if not isinstance(above, (*_GROWING, *_ORDERS)) and not scales:
                refuse(node, "a sub-query in a condition other than <, <=, > or >= a number", grammar=GRAMMAR)
            above = above.parent
        if orders != 1:
            refuse(node, "a sub-query in a condition other than <, <=, > or >= a number", grammar=GRAMMAR)
        found.append(node)
    return found


def with_numbers(tree: exp.Select, numbers: Sequence[float]) -> exp.Select:
    """Return a copy of a statement in whose condition numbers stand in place of sub-queries."""
    copy = tree.copy()
    for node, number in zip(asked_first(copy), numbers, strict=True):
        literal: exp.Expr = exp.Literal.number(repr(abs(number)))
        node.replace(exp.Paren(this=exp.Neg(this=literal)) if number < 0 else literal)
    return copy


# --- different values ---------------------------------------------------------------------------------------


def with_distinct(tree: exp.Select, domain: Domain) -> exp.Select:
    """Return a statement in which the number of different values of an attribute is that of its groups."""
    counts = [one.this for one in tree.find_all(exp.Count) if isinstance(one.this, exp.Distinct)]
    values: list[exp.Expr] = list(dict.fromkeys(value for one in counts for value in one.expressions))
    listed = {one.name for one in domain if isinstance(one, CategoricalAttribute)}
    is_one = len(values) == 1 and isinstance(values[0], exp.Column) and values[0].name in listed
    if not is_one or has_window(tree):
        return tree
    copy = tree.copy()
    copy.set("expressions", [_with_title(one) for one in copy.expressions])
    keys = keys_of(settled(copy, domain))
    if any(isinstance(one, _SETS) for one in keys):
        return tree
    finer = keys if values[0] in keys else [*keys, values[0]]
    inner = exp.Select(group=exp.Group(expressions=[one.copy() for one in finer]))
    inner.set("where", copy.args.get("where"))
    copy.set("where", None)
    copy.meta.update({DIFFERENT: [values[0].name]})
    return _lifted(copy, inner, keys, _over_records)


# --- parts of queries ---------------------------------------------------------------------------------------


def bare_query(tree: exp.Expr) -> exp.Expr:
    """Return a query without parentheses."""
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    return tree


def named_queries(tree: exp.Expr) -> list[exp.Expr]:
    """Return what a query names by WITH."""
    with_ = tree.args.get("with_")
    return [] if with_ is None else list(with_.expressions)


def is_grouped(tree: exp.Select) -> bool:
    """Tell whether a query sums up records, or lists the different values of some."""
    clauses = any(tree.args.get(key) is not None for key in ("group", "distinct"))
    return clauses or any(True for root in row_parts(tree) for _ in outermost(root))


def row_parts(tree: exp.Select) -> list[exp.Expr]:
    """Return the parts of a query that are about its rows: its columns, HAVING, QUALIFY and ORDER BY."""
    given = (tree.args.get(key) for key in ("having", "qualify", "order"))
    return [*tree.expressions, *(one for one in given if one is not None)]


def has_window(tree: exp.Select) -> bool:
    """Tell whether a query has a window."""
    return any(root.find(exp.Window) is not None for root in row_parts(tree))


def conditions_of(tree: exp.Select) -> list[exp.Expr]:
    """Return the condition of a query, where it has one."""
    where = tree.args.get("where")
    return [] if where is None else [where.this]


class Titles:
    """What names and places in the clauses of a query mean, by the columns that it shows."""

    def __init__(self, shown: Sequence[tuple[str, exp.Expr]], domain: Domain) -> None:
        self._shown = [node for _, node in shown]
        self._titles = {title.casefold(): node for title, node in shown if title}
        self._domain = domain

    @property
    def values(self) -> list[exp.Expr]:
        """The columns without aggregates, which GROUP BY ALL and DISTINCT are about."""
        return [one for one in self._shown if not has_aggregates(one) and not isinstance(one, exp.Literal)]

    @property
    def are_values(self) -> bool:
        """Whether none of the columns has aggregates."""
        return not any(map(has_aggregates, self._shown))

    def meant(self, node: exp.Expr, *, output_first: bool = False) -> exp.Expr:
        """Return the column that a place or a name stands for; an attribute goes first, but in ORDER BY."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) if node.name.isdigit() else 0
            if not 1 <= place <= len(self._shown):
                last = len(self._shown)
                told = f"expected the place of a column, 1 to {last}, got {node.name}"
                raise error_at(node, "syntax", told)
            return self._shown[place - 1]
        is_free = isinstance(node, exp.Column) and not node.table
        output_first = output_first and "of_table" not in node.meta
        known = is_free and (output_first or node.name not in self._domain)
        return self._titles.get(node.name.casefold(), node) if known else node

    def place(self, node: exp.Expr, *, whole: bool) -> None:
        """Put what is meant in place of names, and of a node that is a place or a name as a whole."""
        if isinstance(node, exp.Column) or (whole and isinstance(node, exp.Literal)):
            node.replace(self.meant(node).copy())
            return
        for one in [one for one in node.find_all(exp.Column) if one.find_ancestor(exp.Dot) is None]:
            one.replace(self.meant(one).copy())


def settled(tree: exp.Select, domain: Domain) -> exp.Select:
    """Return a query whose clauses name no columns of its own by their places, or by their titles."""
    titles, group = Titles([*map(titled, tree.expressions)], domain), tree.args.get("group")
    distinct = tree.args.get("distinct") is not None and group is None and titles.are_values
    if distinct or (group is not None and group.args.get("all")):
        tree.set("group", exp.Group(expressions=[one.copy() for one in titles.values]))
        tree.set("distinct", None if distinct else tree.args.get("distinct"))
    elif group is not None:
        for one in list(group.expressions):
            titles.place(one, whole=True)
    for key in ("having", "qualify"):
        if tree.args.get(key) is not None:
            titles.place(tree.args[key], whole=False)
    order = tree.args.get("order")
    for one in [] if order is None else order.expressions:
        if isinstance(one, exp.Ordered):
            one.set("this", titles.meant(one.this, output_first=True).copy())
    return tree


def has_aggregates(node: exp.Expr) -> bool:
    """Tell whether a part of a query has an aggregate, a window, or a mark of totals."""
    return node.find(*AGGREGATES, exp.Window, exp.Grouping) is not None


def outermost(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates of a part of a query that stand in no other one; those of windows are outside."""
    if isinstance(node, AGGREGATES) and not isinstance(node.parent, exp.Window):
        yield node
        return
    for child in list(node.iter_expressions()):
        yield from outermost(child)


def keys_of(tree: exp.Select) -> list[exp.Expr]:
    """Return what GROUP BY names; nothing where it is not there."""
    group = tree.args.get("group")
    return [] if group is None else list(group.expressions)


def window_over(node: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Window:
    """Return an aggregate over the rows with equal keys; over all rows where no keys are given."""
    partition = [one.copy() for one in keys]
    return exp.Window(this=node, over="OVER", **({"partition_by": partition} if partition else {}))


def both_clauses(one: exp.Expr | None, two: exp.Expr | None, kind: type[exp.Expr]) -> exp.Expr | None:
    """Return the clause that holds where both do."""
    tests = [exp.Paren(this=test.this.copy()) for test in (one, two) if test is not None]
    return kind(this=exp.and_(*tests, copy=False)) if tests else None


def untitled(node: exp.Expr) -> exp.Expr:
    """Return a column without the title that AS gives it."""
    return node.this if isinstance(node, exp.Alias) else node


def titled(node: exp.Expr) -> tuple[str, exp.Expr]:
    """Return the title of a column, and the column; no title where a query gives it none."""
    if isinstance(node, exp.Alias):
        return node.alias, node.this
    return (node.name if isinstance(node, exp.Column) and not is_star(node) else ""), node


def is_star(node: exp.Expr) -> bool:
    """Tell whether a column stands for all columns, of one table or of all."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
