"""SQL: statements such as ``SELECT sex, COUNT(*), AVG(age) FROM people WHERE member GROUP BY sex``.

A statement is read once, with every node on a whitelist, into a ``Statement``: keys of groups, counts, sums
and quantiles of cells. Nothing of it depends on a record.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from sqlglot import exp

from queries.aggregates import AGGREGATES, QUANTILES, SPREADS, aggregate_node, over_records, window_node
from queries.cell_values import CellCondition, Kind, counted_where, union_scope
from queries.cells import GroupValue, quoted_name
from queries.comparisons import COMPARE
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import (
    Chosen,
    Coalesced,
    Compared,
    Constant,
    Joined,
    KeyFunction,
    Node,
    Rounding,
    Sign,
    Sorting,
    Test,
    Truth,
    joined_nodes,
)
from queries.joins import LookupCells
from queries.linear import LinearQuery
from queries.row_conditions import row_value, where_query, with_edges
from queries.row_nodes import WHOLE_TYPES, branches_of, placed, ranges_of
from queries.sql_dates import canonical_parts, part_of, part_title
from queries.sql_tree import (
    COMPARISONS,
    PART_NODES,
    SYNTHETIC,
    error_at,
    is_zero,
    leaves_no_row,
    operand_of,
    parse_tree,
    position_of,
    refuse,
    with_quoting_hint,
)
from queries.statement_grammar import (
    GRAMMAR,
    LIST,
    REFUSED,
    check_nodes,
    check_statement,
    counted_by,
    examples,
    is_of_people,
    people_counts,
    plain_spelling,
    require_countable,
    way_on,
    written_title,
)
from queries.statements import CLIPPED, TOTAL, Grouping, OutputColumn, Statement, attribute_grouping
from queries.sub_queries import (
    DIFFERENT,
    HAVING,
    ONE_EACH,
    Titles,
    arms_of,
    asked_first,
    conditions_of,
    flat_statement,
    is_grouped,
    untitled,
    with_distinct,
    with_numbers,
)

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*\(*\s*([A-Za-z]+)?", re.DOTALL)
_OPERATORS: dict[type[exp.Expr], Sign] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_ROUNDINGS: dict[type[exp.Expr], str] = {
    exp.Round: "round", exp.Floor: "floor", exp.Ceil: "ceil", exp.Abs: "abs", exp.Sign: "sign",
}  # fmt: skip
_TESTS = (exp.Case, exp.If, exp.And, exp.Or, exp.Not, exp.Between, exp.In, exp.Is)
_DOUBLES: tuple[type[exp.Expr], ...] = (exp.Div, exp.Avg, exp.Corr, *QUANTILES, *SPREADS)
_NOT_OF_KEYS = (exp.Column, exp.Dot, exp.Window, exp.Grouping)
_MOST_NUMBERS = 3
Number: TypeAlias = tuple[float, float, float]  # the least, the answer and the greatest
_NEVER_EMPTY = "records whose {} is empty are left out of the session, which declares no empty values of it"
_NOBODY = "no declared value satisfies the condition"
_ON_ANSWERS = "{} {} on the answers, not on the true numbers"
_KEPT_PEOPLE = "a person is counted where one of the kept records is"
_OVER_ROWS = "windows are over the rows of this table, groups without records among them"


def parse_sql(text: str, domain: Domain, numbers: Sequence[Number] = ()) -> Statement:
    """Return what a statement asks; see ``queries.parsing.parse_sql``."""
    try:
        return _statement(text, domain, numbers)
    except RecursionError:
        error = QueryError(
            "the statement is nested too deeply; write fewer parentheses", code="too_long", position=0
        )
    except QueryError as refusal:
        told = _with_way_on(refusal, domain)
        error = with_quoting_hint(told, text, domain, lambda quoted: _statement(quoted, domain))
    error.text = text
    raise error from None


def _with_way_on(refusal: QueryError, domain: Domain) -> QueryError:
    """Return a refusal that names another way to ask, which is read before it is told."""
    message, construct = refusal.message, refusal.construct
    told = (
        "; write SELECT" in message or message.startswith(REFUSED) or (not construct and SYNTHETIC in message)
    )
    if refusal.code != "unsupported" or told:
        return refusal
    if construct is not None:
        ways = (refusal.instead, way_on(construct, domain))
        way = next((one for one in ways if one is not None and _is_read(one, domain)), None)
        rows = ", and count its rows" if way is not None and way == refusal.instead else ""
        words = message.partition(" is not supported")[0]
        message = f"{words} is not supported" + (f"; write {way}{rows}" if way is not None else "")
    message = f"{message}, or run the statement on {SYNTHETIC}"
    return QueryError(message, code=refusal.code, position=refusal.position)


def _is_read(text: str, domain: Domain) -> bool:
    try:
        _statement(text, domain)
    except (QueryError, RecursionError):
        return False
    return True


def _require_select(text: str, domain: Domain) -> None:
    """Refuse any other statement by its first word, before the parser says something about it."""
    found = _FIRST_WORD.match(text)
    word = found[1] if found else None
    if word is None or word.upper() not in ("SELECT", "WITH"):
        came, way = "nothing" if word is None else word.upper()[:40], examples(domain)["counts"]
        raise QueryError(
            f"expected a statement that begins with SELECT, got {came}; write {way}",
            code="unsupported" if word else "syntax",
            position=0 if found is None or word is None else found.start(1),
        )


def _statement(text: str, domain: Domain, numbers: Sequence[Number] = ()) -> Statement:
    _require_select(text, domain)
    tree = parse_tree(text, None, lambda: f"a statement such as {examples(domain)['counts']}", domain)
    if not isinstance(tree, exp.Select | exp.Union):
        refuse(tree, grammar=GRAMMAR)
    plain_spelling(tree)
    canonical_parts(tree)
    for call in list(tree.find_all(exp.Anonymous)):  # as DuckDB writes it
        if call.this == "QUANTILE_CONT" and len(call.expressions) == 2:
            call.replace(exp.Quantile(this=call.expressions[0], quantile=call.expressions[1]))
    check_nodes(tree, domain)
    if isinstance(tree, exp.Union):
        return _union(tree, text, domain)
    first = asked_first(tree)
    if not first:
        return _select(flat_statement(tree, domain), text, domain)
    if not numbers:
        return _in_two_steps(tree, first, text, domain)
    ends = itertools.product(*((low, high) for low, _, high in numbers))
    chosen = ([value for _, value, _ in numbers], *ends)
    middle, *others = [flat_statement(with_numbers(tree, one), domain) for one in chosen]
    return _select(middle, text, domain, others)


def _in_two_steps(tree: exp.Select, first: list[exp.Subquery], text: str, domain: Domain) -> Statement:
    """Return a statement whose condition is known when others are answered."""
    if len(first) > _MOST_NUMBERS:
        refuse(first[0], f"more than {_MOST_NUMBERS} sub-queries in a condition", grammar=GRAMMAR)
    given = []
    for node in first:
        inner = node.this.copy()
        if tree.args.get("with_") is not None and inner.args.get("with_") is None:
            inner.set("with_", tree.args["with_"].copy())
        one = _select(flat_statement(inner, domain), "", domain)
        if one.groupings or len(one.columns) != 1 or one.columns[0].is_key:
            refuse(node, "a sub-query in place of a number that is no single aggregate", grammar=GRAMMAR)
        given.append(one)
    main = _select(flat_statement(with_numbers(tree, [0.0] * len(first)), domain), text, domain)
    return replace(main, given=tuple(given))


def _where(trees: Sequence[exp.Select], domain: Domain) -> LinearQuery:
    """Return the question of a condition, in which numbers are the first tree's, and lie between the others'.

    A condition that grows, or falls, with each number holds for a record whatever they are where it holds at
    all of their ends; and where it holds at none of these, it holds for no numbers between.
    """
    queries = [where_query(conditions_of(tree), domain) for tree in trees]
    if len(queries) == 1:
        return queries[0]
    scope = union_scope(domain, [query.scope for query in queries])
    middle, *ends = [CellCondition.of(query).placed(domain, scope) for query in queries]
    least = np.logical_and.reduce([middle.least, *(one.least for one in ends)])
    most = np.logical_or.reduce([middle.most, *(one.most for one in ends)])
    return counted_where([CellCondition(scope, least, middle.weights, most)], domain)


def _select(tree: exp.Select, text: str, domain: Domain, others: Sequence[exp.Select] = ()) -> Statement:
    if _shows_nothing(tree):
        return _no_rows(tree, text, domain)
    if any(_but_condition(one) != _but_condition(tree) for one in others):
        refuse(tree, "a sub-query in a condition beside others in place of numbers", grammar=GRAMMAR)
    people = people_counts(tree, domain)
    absent = _without_empty(tree, domain)
    where = _where([tree, *others], domain)
    tree = with_distinct(tree, domain)
    check_statement(tree, domain)
    reader = _Reader(tree, domain)
    statement = reader.statement(where, text)
    statement = replace(statement, notes=(*statement.notes, *absent)) if absent else statement
    for node in people:
        filters = [] if node.parent_select is None else list(tree.find_all(exp.Filter))
        names = {column.name for one in filters for column in one.expression.find_all(exp.Column)}
        keys = {name for grouping in statement.groupings for name in grouping.scope}
        require_countable(node, {*where.scope, *keys, *names}, domain)
    return statement


def _but_condition(tree: exp.Select) -> exp.Select:
    copy = tree.copy()
    copy.set("where", None)
    return copy


def _shows_nothing(tree: exp.Select) -> bool:
    """Tell whether a query of records has no row, whatever the table: tools ask so for its columns."""
    plain = all(isinstance(untitled(one).unnest(), exp.Column | exp.Star) for one in tree.expressions)
    return leaves_no_row(tree) and plain and not is_grouped(tree)


def _no_rows(tree: exp.Select, text: str, domain: Domain) -> Statement:
    titles: list[str] = []
    for node in tree.expressions:
        inner = untitled(node).unnest()
        if isinstance(inner, exp.Star) or isinstance(inner.this, exp.Star):
            titles += domain.names
            continue
        row_value(inner, domain)  # an unknown name is refused as one
        titles.append(node.alias or inner.name)
    columns = tuple(OutputColumn(title, Constant(None)) for title in titles)
    return Statement(LinearQuery.everything(domain), (), columns, limit=0, text=text)


def _without_empty(tree: exp.Select, domain: Domain) -> list[str]:
    """Put FALSE in place of IS NULL of attributes that are never empty, and return notes of them."""
    notes = []
    for node in list(tree.find_all(exp.Is)):
        column, of_records = node.this.unnest(), node.find_ancestor(exp.Where, *AGGREGATES) is not None
        if not of_records or not isinstance(node.expression, exp.Null) or not isinstance(column, exp.Column):
            continue  # a key is NULL in a total, too
        if column.name in domain and domain[column.name].missing_code is None:
            node.replace(exp.false())
            notes.append(_NEVER_EMPTY.format(column.name))
    return list(dict.fromkeys(notes))


def _union(tree: exp.Union, text: str, domain: Domain) -> Statement:
    trees = [flat_statement(one, domain) for one in arms_of(tree)]
    kinds = [[node.find(*AGGREGATES) is None for node in one.expressions] for one in trees]
    arms = [_select(one, text, domain) for one in trees]
    for kind in kinds:
        if kind != kinds[0]:
            refuse(
                tree, "UNION ALL of other columns, or of keys and aggregates in one column,", grammar=GRAMMAR
            )
    titles = [column.title.casefold() for column in arms[0].columns]
    given = tree.args.get("order")
    places = sorted(range(len(titles)), key=lambda place: not kinds[0][place])  # keys stand first
    order = [] if given is None else [_sorted_by(one, titles, places) for one in given.expressions]
    limit, offset = whole_number(tree, "limit"), whole_number(tree, "offset") or 0
    rows = sum(1 for arm in arms for _ in arm.groups())
    if any(
        not kinds[0][places[int(one.node.number)]] for one in order if isinstance(one.node, Constant)
    ) and (offset or (limit is not None and limit < rows)):
        refuse(tree, "LIMIT of UNION ALL in an order of answers", grammar=GRAMMAR)
    return replace(
        arms[0], arms=tuple(arms), having=None, qualify=None, order=tuple(order), limit=limit, offset=offset
    )


def _sorted_by(node: exp.Expr, titles: list[str], places: list[int]) -> Sorting:
    inner = node.this
    name = inner.name.casefold() if isinstance(inner, exp.Column) else ""
    place = int(inner.name) if isinstance(inner, exp.Literal) and inner.name.isdigit() else 0
    if name not in titles and not 1 <= place <= len(titles):
        refuse(node, "ORDER BY of UNION ALL by anything but a column", grammar=GRAMMAR)
    at = titles.index(name) if name in titles else places.index(place - 1)
    return Sorting(Constant(at), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def whole_number(tree: exp.Expr, key: str) -> int | None:
    """Return the number of LIMIT or OFFSET; None where there is none."""
    given = tree.args.get(key)
    if given is None:
        return None
    text = given.expression.name
    if not isinstance(given.expression, exp.Literal) or not text.isdigit():
        refuse(given, f"{key.upper()} of anything but a whole number", grammar=GRAMMAR)
    return int(text)


class _TotalMarks(dict[tuple[int, ...], GroupValue]):
    def __missing__(self, places: tuple[int, ...]) -> int:
        return int("".join("01"[place == TOTAL] for place in places), 2)


class _Reader:
    def __init__(self, tree: exp.Select, domain: Domain) -> None:
        self._tree = tree
        self._domain = domain
        self._aggregates: dict[exp.Expr, Node] = {}
        self._known_places: dict[exp.Expr, frozenset[int] | None] = {}
        self._columns = [self._column(node, number) for number, node in enumerate(tree.expressions, 1)]
        titles = Titles(self._columns, domain)
        self._meant, self._values = titles.meant, titles.values
        windows = list(tree.find_all(exp.Window))
        if windows and not self._has_groups:
            raise over_records(windows[0], domain)
        self._keys, self._sets = self._key_nodes()
        for window in windows:
            self._require_groups(window)
        self._groupings = tuple(self._grouping(node) for node in self._keys)
        Statement.count_groups(self._groupings, self._sets)
        self._key_columns = [one.column(place) for place, one in enumerate(self._groupings)]

    def statement(self, where: LinearQuery, text: str) -> Statement:
        columns = tuple(OutputColumn(title, self._node(node)) for title, node in self._columns)
        having, qualify, order = (self._tree.args.get(key) for key in ("having", "qualify", "order"))
        if having is not None and having.find(exp.Window):
            refuse(having, "a window in HAVING, where QUALIFY can stand,", grammar=GRAMMAR)
        distinct, shown = self._tree.args.get("distinct"), [node for _, node in self._columns]
        one_each = self._tree.meta.get(ONE_EACH)
        all_shown = len(self._sets) == 1 and all(key in shown for key in self._keys)
        if distinct is not None and one_each is None and not all_shown:
            refuse(distinct, "DISTINCT of rows whose keys are not all shown", grammar=GRAMMAR)
        sorting = () if order is None else tuple(self._sorting(node) for node in order.expressions)
        return Statement(
            where,
            self._groupings,
            columns,
            None if having is None else self._test(having.this),
            sorting,
            whole_number(self._tree, "limit"),
            whole_number(self._tree, "offset") or 0,
            notes=self._notes(where, sorting),
            sets=self._sets,
            qualify=None if qualify is None else self._test(qualify.this),
            one_each=None if one_each is None else tuple(map(self._node, one_each)),
            text=text,
        )

    @property
    def _has_groups(self) -> bool:
        """Whether it groups records, or sums up all of them: windows are over the result of that."""
        aggregates = self._tree.find_all(*AGGREGATES)
        plain = (node for node in aggregates if not isinstance(node.parent, exp.Window | exp.Filter))
        return self._tree.args.get("group") is not None or any(plain)

    def _require_groups(self, window: exp.Window) -> None:
        """Refuse a window that is over anything but keys and aggregates."""
        for column in window.find_all(exp.Column):
            node: exp.Expr | None = column
            known = self._meant(column) is not column
            while node is not window and node is not None and not known:
                of_records = isinstance(node, AGGREGATES) and node.parent is not window
                known = of_records or node in self._keys
                node = node.parent
            if not known:
                raise over_records(window, self._domain)

    @property
    def _lists_values(self) -> bool:
        return not any(node.find(*AGGREGATES) for _, node in self._columns)

    def _notes(self, where: LinearQuery, sorting: tuple[Sorting, ...]) -> tuple[str, ...]:
        late = "HAVING" if HAVING in self._tree.meta else "QUALIFY"
        words = {"having": "HAVING", "qualify": late, "order": "ORDER BY", "limit": "LIMIT"}
        tests = self._tree.args.get("having") is not None or self._tree.args.get("qualify") is not None
        answers = any(one.node.leaves() for one in sorting) or tests
        given = [word for key, word in words.items() if self._tree.args.get(key) is not None and answers]
        verb = "acts" if len(given) == 1 else "act"
        notes = [_ON_ANSWERS.format(" and ".join(given), verb)] if given else []
        if self._tree.find(exp.Window) and ONE_EACH not in self._tree.meta:
            notes.append(_OVER_ROWS)
        for name in self._tree.meta.get(DIFFERENT, ()):
            if self._domain[name].other_code is not None:
                notes.append(f"undeclared values of {name} count as one value")
        if any(map(is_of_people, self._tree.find_all(exp.Count))):
            notes.append(_KEPT_PEOPLE)
        if any(self._is_of_numbers(node) for node in self._tree.find_all(*AGGREGATES)):
            notes.append(CLIPPED)
        if (where if where.readings is None else where.readings.most).constant == 0:
            notes.append(_NOBODY)
        return tuple(notes)

    def _is_of_numbers(self, aggregate: exp.Expr) -> bool:
        """Tell whether an aggregate is of the numbers of an ordered attribute, not of a condition on it."""
        inner = [] if isinstance(aggregate, exp.Count | exp.CountIf) else list(aggregate.find_all(exp.Column))
        return any(
            node.name in self._domain
            and self._domain[node.name].is_ordered
            and node.find_ancestor(exp.If, exp.Where, exp.Count) is None
            for node in inner
        )

    def _column(self, node: exp.Expr, number: int) -> tuple[str, exp.Expr]:
        if isinstance(node, exp.Alias):
            return node.alias, node.this
        node = node.unnest()
        if isinstance(node, exp.Column):
            return node.name, node
        if isinstance(node, PART_NODES):
            return part_title(node, self._domain), node
        return written_title(node) or f"column {number}", node

    def _key_nodes(self) -> tuple[list[exp.Expr], tuple[tuple[int, ...], ...]]:
        group = self._tree.args.get("group")
        if group is None and self._lists_values and self._tree.args.get("distinct") is None:
            raise self._list_refusal()
        listed = [] if group is None else list(group.expressions)
        if (group is None and self._lists_values) or (group is not None and group.args.get("all")):
            given = [self._values]
        else:
            found = [self._meant(node) for node in listed]
            for place, node in enumerate(found):
                if node in found[:place]:
                    raise error_at(
                        listed[place], "syntax", f"GROUP BY names {node.sql()} twice; name it once"
                    )
            given = [[self._key(node) for node in keys] for keys in _grouping_sets(listed)]
        keys = list(dict.fromkeys(node for nodes in given for node in nodes))
        return keys, tuple(tuple(sorted({keys.index(node) for node in nodes})) for nodes in given)

    def _key(self, node: exp.Expr) -> exp.Expr:
        found = self._meant(node)
        if found.find(*AGGREGATES, exp.Window):
            refuse(node, "GROUP BY an aggregate", grammar=GRAMMAR)
        return found

    def _list_refusal(self) -> QueryError:
        names = [node.name for _, node in self._columns if isinstance(node, exp.Column)]
        known = len(names) == len(self._columns) and len(set(names) & set(self._domain.names)) == len(names)
        way = f"write {counted_by(names, quoted_name(self._domain.name))}, or run" if known else "run"
        return error_at(
            next(iter(self._tree.expressions), self._tree),  # of none, in SELECT FROM people
            "unsupported",
            f"{LIST} is not supported; {way} the statement on {SYNTHETIC}",
        )

    def _grouping(self, node: exp.Expr) -> Grouping:
        """Return the groups of a key: of an attribute, a part or a level of it, or of a computed value."""
        if isinstance(node, exp.Column):
            return attribute_grouping(*operand_of(node, self._domain), self._domain)
        if isinstance(node, exp.Dot):
            cells = LookupCells.of(node, self._domain)
            return Grouping((cells.attribute.name,), cells.groups(node, self._domain), in_order=False)
        try:
            values = row_value(node, self._domain)
            if isinstance(node, PART_NODES):
                return attribute_grouping(
                    *part_of(node, self._domain)[:1], None, self._domain, values.groups()
                )
            return Grouping(values.scope, tuple(values.groups()), in_order=values.labels is None)
        except QueryError as refusal:
            told = with_edges(node, self._domain, refusal)
            told.position = position_of(node) if told.position is None else told.position
            raise told from None

    def _node(self, node: exp.Expr) -> Node:
        node = self._meant(node) if isinstance(node, exp.Column) else node
        if node in self._keys:
            return self._key_columns[self._keys.index(node)]
        node = node.unnest()
        if node in self._keys:
            return self._key_columns[self._keys.index(node)]
        with placed(node):
            if (of_keys := self._of_keys(node)) is not None:
                return of_keys
            if isinstance(node, (*AGGREGATES, exp.Window)):
                if node not in self._aggregates:  # ORDER BY COUNT(*) is about the count that is shown
                    self._aggregates[node] = (
                        window_node(node, self._node)
                        if isinstance(node, exp.Window)
                        else aggregate_node(node, self._domain)
                    )
                return self._aggregates[node]
            if type(node) in _OPERATORS:
                right = _divisor(node.expression) if isinstance(node, exp.Div) else node.expression
                sides = self._node(node.this), self._node(right)
                return joined_nodes(_OPERATORS[type(node)], *sides, self._domain)
            of_answers = node.find(*AGGREGATES, exp.Window) is not None
            is_test = of_answers and isinstance(node, (*_TESTS, *COMPARISONS))
            return self._truth(node) if is_test else self._other_node(node)

    def _branch(self, node: exp.Expr) -> Node:
        return Constant(None) if isinstance(node, exp.Null) else self._node(node)

    def _truth(self, node: exp.Expr) -> Node:
        """Return what CASE chooses; of a condition 1 where it holds, and 0 where it does not."""
        if not isinstance(node, exp.Case | exp.If):
            return Truth(self._test(node))
        branches, other = branches_of(node)
        chosen = Chosen(
            tuple((self._test(test), self._branch(value)) for test, value in branches),
            None if isinstance(other, exp.Null) else self._branch(other),
        )
        for one in chosen.choices:
            is_number = isinstance(one, Constant) and not isinstance(one.value, str)
            if self._is_text(one) is not False and not is_number:
                refuse(node, "CASE of answers that gives texts", grammar=GRAMMAR)
        return chosen

    def _of_keys(self, node: exp.Expr) -> KeyFunction | None:
        """Return an expression of keys alone; None where it is of anything else, too, or of no key."""
        places = sorted(self._places(node) or ())
        if not places:
            return None
        node = node.transform(lambda one: self._meant(one).copy() if isinstance(one, exp.Column) else one)
        values: dict[tuple[int, ...], GroupValue] = {}
        for held in {tuple(place for place in places if place in keys) for keys in self._sets}:
            totals = [self._keys[place] for place in places if place not in held]
            found = row_value(node.transform(_without_keys, totals), self._domain)
            groupings = [self._groupings[place] if place in held else None for place in places]
            scope = union_scope(self._domain, [found.scope, *(one.scope for one in groupings if one)])
            found = found.placed(self._domain, scope)
            owners = [
                np.full(found.present.shape, TOTAL) if one is None else one.numbers(self._domain, scope)
                for one in groupings
            ]
            values |= found.by_groups(owners)
        return KeyFunction(tuple(places), values)

    def _places(self, node: exp.Expr) -> frozenset[int] | None:
        """Return which keys an expression is of, by their places; None where it is of anything else, too."""
        if node not in self._known_places:
            meant = self._meant(node) if isinstance(node, exp.Column) else node
            found: frozenset[int] | None = None
            if meant in self._keys:
                found = frozenset({self._keys.index(meant)})
            elif not isinstance(meant, (*AGGREGATES, *_NOT_OF_KEYS)):
                inner = [self._places(one) for one in meant.iter_expressions()]
                known = [one for one in inner if one is not None]
                found = frozenset().union(*known) if len(known) == len(inner) else None
            self._known_places[node] = found
        return self._known_places[node]

    def _other_node(self, node: exp.Expr) -> Node:
        if isinstance(node, exp.Neg):
            return joined_nodes("*", Constant(-1), self._node(node.this), self._domain)
        if isinstance(node, exp.Cast):
            inner, whole = self._node(node.this), node.args["to"].this in WHOLE_TYPES
            return Rounding("cast" if self._is_double(node.this) else "round", inner) if whole else inner
        if isinstance(node, exp.Nullif | exp.Coalesce):
            return self._with_null(node)
        if isinstance(node, exp.Grouping):
            return self._mark(node)
        if type(node) in _ROUNDINGS:
            return Rounding(_ROUNDINGS[type(node)], self._node(node.this), _digits(node))
        if isinstance(node, exp.Column | exp.Dot):
            row_value(node, self._domain)  # an unknown name is refused as one
            keys = [
                quoted_name(one.name) if isinstance(one, exp.Column) else one.sql()
                for one in [*self._keys, node]
            ]
            raise error_at(
                node,
                "syntax",
                f"{node.name!r} stands outside of an aggregate, and GROUP BY does not name it; add it there: "
                f"GROUP BY {', '.join(keys)}",
            )
        value = row_value(node, self._domain)
        if value.scope or (value.labels is None and value.constant is None):
            refuse(node, "a value of single records beside aggregates", grammar=GRAMMAR)
        number = bool(value.constant) if value.kind is Kind.TRUTH else value.constant
        return Constant(number if value.labels is None else str(value.labels[()]))

    def _is_double(self, node: exp.Expr) -> bool:
        """Tell whether an answer is a DOUBLE: halves are then cast to even numbers, else away from 0."""
        for one in node.walk():
            if isinstance(one, _DOUBLES) or one.this in (exp.DType.DOUBLE, exp.DType.FLOAT):
                return True
            if isinstance(one, exp.Column | exp.Literal):
                meant = self._meant(one) if isinstance(one, exp.Column) else one
                values = row_value(one, self._domain) if meant is one else None
                is_real = values is not None and values.labels is None and values.kind is Kind.DOUBLE
                if is_real or (meant is not one and self._is_double(meant)):
                    return True
        return False

    def _mark(self, node: exp.Grouping) -> KeyFunction:
        """Return GROUPING of some keys: which of them a group is a total over, a bit for each."""
        keys = [self._meant(one) for one in node.expressions]
        if not all(key in self._keys for key in keys):
            refuse(node, "GROUPING of what GROUP BY does not name", grammar=GRAMMAR)
        return KeyFunction(tuple(self._keys.index(key) for key in keys), _TotalMarks())

    def _with_null(self, node: exp.Expr) -> Node:
        if isinstance(node, exp.Nullif):
            if not is_zero(node.expression):
                refuse(node, "NULLIF of an answer and anything but 0", grammar=GRAMMAR)
            return Rounding("nullif", self._node(node.this))
        *others, last = [self._node(one) for one in (node.this, *node.args["expressions"])]
        for one in reversed(others):
            last = Coalesced(one, last)
        return last

    def _test(self, node: exp.Expr) -> Test:
        if isinstance(node, exp.Paren):
            return self._test(node.this)
        if isinstance(node, exp.And | exp.Or):
            kind = "and" if isinstance(node, exp.And) else "or"
            return Joined(kind, (self._test(node.this), self._test(node.expression)))  # type: ignore[arg-type]
        if isinstance(node, exp.Not):
            return Joined("not", (self._test(node.this),))
        if isinstance(node, exp.Between):
            return self._test(ranges_of(node))
        if isinstance(node, exp.In) and node.expressions:
            left = self._node(node.this)
            return Joined(
                "or", tuple(Compared(operator.eq, left, self._node(one)) for one in node.expressions)
            )
        return self._compared(node)

    def _compared(self, node: exp.Expr) -> Test:
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Compared(operator.is_, self._node(node.this), None)
        if type(node) not in COMPARISONS:
            inner = self._node(node) if isinstance(node, exp.Column) else self._of_keys(node)
            if not isinstance(inner, KeyFunction):
                refuse(node, "this condition in HAVING", grammar=GRAMMAR)
            return Compared(operator.eq, inner, Constant(value=True))
        sides = self._node(node.this), self._node(node.expression)
        if {self._is_text(one) for one in sides} >= {True, False}:
            message = (
                "a condition on answers compares two numbers or two texts; a number stands without quotes"
            )
            raise error_at(node, "wrong_kind", message)
        return Compared(COMPARE[COMPARISONS[type(node)]], *sides)

    def _is_text(self, node: Node) -> bool | None:
        """Tell whether an expression of answers is a text; None where it is NULL, or may be either."""
        if isinstance(node, Constant):
            return None if node.value is None else isinstance(node.value, str)
        if isinstance(node, KeyFunction):
            kinds = {isinstance(one, str) for one in node.values.values() if one is not None}
            return kinds.pop() if len(kinds) == 1 else None
        return False if node.leaves() else None

    def _sorting(self, node: exp.Expr) -> Sorting:
        inner = self._meant(node.this, output_first=True) if isinstance(node, exp.Ordered) else node
        return Sorting(self._node(inner), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _without_keys(node: exp.Expr, totals: list[exp.Expr]) -> exp.Expr:
    """Return an expression, or a part of a date, where some keys are NULL: it is of a total over them."""
    if node in totals or (isinstance(node, PART_NODES) and any(key in totals for key in node.walk())):
        return exp.Case(ifs=[exp.If(this=exp.false(), true=node)])  # of its kind
    return node


def _digits(node: exp.Expr) -> int:
    digits = node.args.get("decimals")
    text = "0" if digits is None else digits.sql()
    if not re.fullmatch("-?[0-9]{1,2}", text):
        refuse(node, "ROUND to anything but a whole number of digits", grammar=GRAMMAR)
    return int(text)


def _divisor(node: exp.Expr) -> exp.Expr:
    """Return a divisor without NULLIF(…, 0): a quotient by 0 has no number anyway."""
    inner = node.unnest()
    return inner.this if isinstance(inner, exp.Nullif) and is_zero(inner.expression) else node


# --- grouping sets ------------------------------------------------------------------------------------------


_MOST_SETS = 64
_Set = tuple[exp.Expr, ...]


def _grouping_sets(nodes: Sequence[exp.Expr]) -> list[_Set]:
    """Return the keys of each set, as the SQL standard combines them."""
    parts = []
    for node in nodes:
        parts.append(_sets_of(node))
        _require_few(math.prod(map(len, parts)))
    found = [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]
    return [tuple(dict.fromkeys(keys)) for keys in found]


def _sets_of(node: exp.Expr) -> list[_Set]:
    if isinstance(node, exp.GroupingSets):
        return [keys for one in node.expressions for keys in _sets_of(one)]
    if isinstance(node, exp.Rollup):
        keys = [_keys(one) for one in node.expressions]
        return [tuple(itertools.chain(*keys[:count])) for count in range(len(keys), -1, -1)]
    if isinstance(node, exp.Cube):
        keys = [_keys(one) for one in node.expressions]
        _require_few(2 ** len(keys))
        counts = range(len(keys), -1, -1)
        return [
            tuple(itertools.chain(*some)) for count in counts for some in itertools.combinations(keys, count)
        ]
    return [_keys(node)]


def _keys(node: exp.Expr) -> _Set:
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return (node.this,) if isinstance(node, exp.Paren) else (node,)


def _require_few(count: int) -> None:
    if count > _MOST_SETS:
        raise QueryError(
            f"expected at most {_MOST_SETS} grouping sets, got {count:,}; write those that are wanted as "
            "GROUPING SETS",
            code="too_large",
        )
