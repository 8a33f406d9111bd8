"""SQL: statements such as ``SELECT sex, COUNT(*), AVG(age) FROM people WHERE member GROUP BY sex``.

A statement is read once, with every node on a whitelist, into a ``Statement``: keys of groups, counts, sums
and quantiles of cells. Nothing of it depends on a record.
"""

from __future__ import annotations

import operator
import re

from sqlglot import exp

from queries.aggregates import AGGREGATES, aggregate_node
from queries.cells import quoted_name
from queries.comparisons import CALENDAR, meaning_of, resolve_operand
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import (
    AggregateNode,
    Coalesced,
    Compared,
    Constant,
    Joined,
    KeyColumn,
    Node,
    Rounding,
    Sign,
    Test,
    joined_nodes,
)
from queries.linear import LinearQuery
from queries.predicates import COMPARE
from queries.row_expressions import row_value, where_query
from queries.sql_tree import (
    COMPARISONS,
    COUNTS,
    PARTS,
    error_at,
    parse_tree,
    position_of,
    refuse,
    with_quoting_hint,
)
from queries.statement_grammar import (
    GRAMMAR,
    REFUSED,
    SYNTHETIC,
    check_statement,
    counted_by,
    folded_source,
    people_counts,
    require_countable,
)
from queries.statements import CLIPPED, Grouping, OutputColumn, Sorting, Statement, attribute_grouping

_PART_NODES = (*PARTS, exp.DateTrunc)
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*\(*\s*([A-Za-z]+)?", re.DOTALL)
_OPERATORS: dict[type[exp.Expr], Sign] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_ROUNDINGS: dict[type[exp.Expr], str] = {
    exp.Round: "round", exp.Floor: "floor", exp.Ceil: "ceil", exp.Abs: "abs",
}  # fmt: skip
_NOBODY = "no declared value satisfies the condition"
_ON_ANSWERS = "{} {} on the answers, not on the true numbers"


def parse_sql(text: str, domain: Domain) -> Statement:
    """Return what a statement asks.

    Raises:
        QueryError: the text is no statement of this kind, or names what is not declared; where there is
            another way to ask, the message has it.
    """
    try:
        return _statement(text, domain)
    except RecursionError:
        error = QueryError("the statement is nested too deeply; write fewer parentheses", code="too_long")
    except QueryError as refusal:
        error = with_quoting_hint(_with_way_on(refusal), text, domain)
    error.text = text
    raise error from None


def _with_way_on(refusal: QueryError) -> QueryError:
    """Return a refusal that names another way to ask: what conditions are refused for does not."""
    message = refusal.message
    told = SYNTHETIC in message or "; write SELECT" in message or message.startswith(REFUSED)
    if refusal.code != "unsupported" or told:
        return refusal
    message = f"{message}, or run the statement on {SYNTHETIC}"
    return QueryError(message, code=refusal.code, position=refusal.position)


def _require_select(text: str) -> None:
    """Refuse any other statement by its first word, before the parser says something about it."""
    found = _FIRST_WORD.match(text)
    word = found[1] if found else None
    if word is None or word.upper() not in ("SELECT", "WITH"):
        came = "nothing" if word is None else word.upper()[:40]
        raise QueryError(
            f"expected a statement that begins with SELECT, got {came}; {COUNTS.advice}",
            code="unsupported" if word else "syntax",
            position=None if found is None or word is None else found.start(1),
        )


def _statement(text: str, domain: Domain) -> Statement:
    _require_select(text)
    tree = parse_tree(text, None, "a statement such as SELECT AVG(age) FROM people GROUP BY sex", domain)
    if not isinstance(tree, exp.Select):
        refuse(tree, grammar=GRAMMAR)
    for call in list(tree.find_all(exp.Anonymous)):  # as DuckDB writes it
        if str(call.this).upper() == "QUANTILE_CONT" and len(call.expressions) == 2:
            call.replace(exp.Quantile(this=call.expressions[0], quantile=call.expressions[1]))
    people = people_counts(tree, domain)
    check_statement(tree, domain)
    where = where_query(folded_source(tree, domain), domain)
    reader = _Reader(tree, domain)
    statement = reader.statement(where)
    for node in people:
        filters = [] if node.parent_select is None else list(tree.find_all(exp.Filter))
        names = {column.name for one in filters for column in one.expression.find_all(exp.Column)}
        keys = {name for grouping in statement.groupings for name in grouping.scope}
        require_countable(node, {*where.scope, *keys, *names}, domain)
    return statement


class _Reader:
    """Reads the columns, groups and order of one statement."""

    def __init__(self, tree: exp.Select, domain: Domain) -> None:
        self._tree = tree
        self._domain = domain
        self._aggregates: dict[exp.Expr, AggregateNode] = {}
        self._columns = [self._column(node, number) for number, node in enumerate(tree.expressions, 1)]
        self._aliases = {title.casefold(): node for title, node in self._columns}
        self._keys = self._key_nodes()
        self._groupings = tuple(self._grouping(node) for node in self._keys)

    def statement(self, where: LinearQuery) -> Statement:
        columns = tuple(OutputColumn(title, self._node(node)) for title, node in self._columns)
        having, order = self._tree.args.get("having"), self._tree.args.get("order")
        test = None if having is None else self._test(having.this)
        if test is not None and any(self._tree.find_all(exp.Window)):
            refuse(self._tree, "a window beside HAVING", grammar=GRAMMAR)
        sorting = () if order is None else tuple(self._sorting(node) for node in order.expressions)
        return Statement(
            where,
            self._groupings,
            columns,
            test,
            sorting,
            self._number("limit"),
            self._number("offset") or 0,
            distinct=self._lists_values,
            notes=self._notes(where, sorting),
        )

    @property
    def _lists_values(self) -> bool:
        return not any(node.find(*AGGREGATES) for _, node in self._columns)

    def _notes(self, where: LinearQuery, sorting: tuple[Sorting, ...]) -> tuple[str, ...]:
        words = {"having": "HAVING", "order": "ORDER BY", "limit": "LIMIT"}
        answers = any(one.node.leaves() for one in sorting) or self._tree.args.get("having") is not None
        given = [word for key, word in words.items() if self._tree.args.get(key) is not None and answers]
        verb = "acts" if len(given) == 1 else "act"
        notes = [_ON_ANSWERS.format(" and ".join(given), verb)] if given else []
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
        if isinstance(node, exp.Column):
            return node.name, node
        if isinstance(node, _PART_NODES) and isinstance(node.this, exp.Column):
            return self._part(node)[1].removeprefix(CALENDAR), node
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
            return "count", node
        title = node.sql().replace('"', "").lower()
        return title if len(title) <= 60 else f"column {number}", node

    def _key_nodes(self) -> list[exp.Expr]:
        group = self._tree.args.get("group")
        if group is None:
            if not self._lists_values:
                return []
            if self._tree.args.get("distinct") is None:
                raise self._list_refusal()
            return [node for _, node in self._columns]
        keys: list[exp.Expr] = []
        for node in group.expressions:
            found = self._resolved(node)
            if found.find(*AGGREGATES):
                refuse(node, "GROUP BY an aggregate", grammar=GRAMMAR)
            if found in keys:
                raise error_at(node, "syntax", f"GROUP BY names {found.sql()} twice; name it once")
            keys.append(found)
        return keys

    def _list_refusal(self) -> QueryError:
        names = [node.name for _, node in self._columns if isinstance(node, exp.Column)]
        known = len(names) == len(self._columns) and len(set(names) & set(self._domain.names)) == len(names)
        way = f"write {counted_by(names, quoted_name(self._domain.name))}, or run" if known else "run"
        return error_at(
            self._tree.expressions[0],
            "unsupported",
            f"a list of records is not supported; {way} the statement on {SYNTHETIC}",
        )

    def _resolved(self, node: exp.Expr) -> exp.Expr:
        """Return the column that a place in the SELECT list, or an alias, stands for."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.this) if str(node.this).isdigit() else 0
            if not 1 <= place <= len(self._columns):
                raise error_at(
                    node,
                    "syntax",
                    f"expected the place of a column, 1 to {len(self._columns)}, got {node.this}",
                )
            return self._columns[place - 1][1]
        if isinstance(node, exp.Column) and node.name not in self._domain:
            return self._aliases.get(node.name.casefold(), node)
        return node

    def _grouping(self, node: exp.Expr) -> Grouping:
        """Return the groups of a key: of an attribute, a part or a level of it, or of a computed value."""
        if isinstance(node, exp.Column):
            return attribute_grouping(*self._named(node), self._domain)
        if isinstance(node, _PART_NODES) and isinstance(node.this, exp.Column):
            return attribute_grouping(*self._part(node), self._domain)
        values = row_value(node, self._domain)
        return Grouping(values.scope, tuple(values.groups()), in_order=values.labels is None)

    def _named(self, node: exp.Column) -> tuple[str, str | None]:
        """Return the attribute that a column names, and the level of it, if it names one."""
        any_case = not node.this.args.get("quoted")
        return resolve_operand(node.name, self._domain, position_of(node), any_case=any_case)

    def _part(self, node: exp.Expr) -> tuple[str, str]:
        """Return the attribute and the part of it that a function names, such as YEAR(hired)."""
        name, _ = self._named(node.this)
        truncates = isinstance(node, exp.DateTrunc)
        part = CALENDAR + node.args["unit"].name.casefold() if truncates else PARTS[type(node)]
        meaning_of(self._domain[name]).require_part(part, position_of(node))
        return name, part

    def _node(self, node: exp.Expr) -> Node:
        """Return an expression of answers."""
        node = self._resolved(node) if isinstance(node, exp.Column) else node
        if node in self._keys:
            return KeyColumn(self._keys.index(node))
        if isinstance(node, exp.Paren):
            return self._node(node.this)
        if isinstance(node, AGGREGATES):
            if node not in self._aggregates:  # ORDER BY COUNT(*) is about the count that is shown
                self._aggregates[node] = aggregate_node(node, self._domain)
            return self._aggregates[node]
        if type(node) in _OPERATORS:
            right = _divisor(node.expression) if isinstance(node, exp.Div) else node.expression
            sides = self._node(node.this), self._node(right)
            return joined_nodes(_OPERATORS[type(node)], *sides, self._domain)
        return self._other_node(node)

    def _other_node(self, node: exp.Expr) -> Node:
        if isinstance(node, exp.Neg):
            return joined_nodes("*", Constant(-1), self._node(node.this), self._domain)
        if isinstance(node, exp.Cast):
            whole = node.args["to"].this in (exp.DType.INT, exp.DType.BIGINT)
            return Rounding("round", self._node(node.this)) if whole else self._node(node.this)
        if isinstance(node, exp.Nullif | exp.Coalesce):
            return self._with_null(node)
        if type(node) in _ROUNDINGS:
            return Rounding(_ROUNDINGS[type(node)], self._node(node.this), _digits(node))
        if isinstance(node, exp.Column):
            row_value(node, self._domain)  # an unknown name is refused as one
            name = node.name
            raise error_at(
                node,
                "syntax",
                f"{name!r} stands outside of an aggregate, and GROUP BY does not name it; add it there",
            )
        value = row_value(node, self._domain)
        if value.scope or (value.labels is None and value.constant is None):
            refuse(node, "a value of single records beside aggregates", grammar=GRAMMAR)
        return Constant(value.constant if value.labels is None else str(value.labels[()]))

    def _with_null(self, node: exp.Expr) -> Node:
        """Return NULLIF(answer, 0), or COALESCE of answers."""
        if isinstance(node, exp.Nullif):
            if not _is_zero(node.expression):
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
            low, high = node.args["low"], node.args["high"]
            ends = ((operator.ge, low), (operator.le, high))
            return Joined(
                "and", tuple(Compared(one, self._node(node.this), self._node(end)) for one, end in ends)
            )
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
            refuse(node, "this condition in HAVING", grammar=GRAMMAR)
        compare = COMPARE[COMPARISONS[type(node)]]
        return Compared(compare, self._node(node.this), self._node(node.expression))

    def _sorting(self, node: exp.Expr) -> Sorting:
        inner = self._resolved(node.this) if isinstance(node, exp.Ordered) else node
        return Sorting(self._node(inner), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

    def _number(self, key: str) -> int | None:
        given = self._tree.args.get(key)
        if given is None:
            return None
        text = given.expression.name
        if not isinstance(given.expression, exp.Literal) or not text.isdigit():
            refuse(given, f"{key.upper()} of anything but a whole number", grammar=GRAMMAR)
        return int(text)


def _digits(node: exp.Expr) -> int:
    """Return how many digits ROUND keeps behind the point."""
    digits = node.args.get("decimals")
    text = "0" if digits is None else digits.sql()
    if not re.fullmatch("-?[0-9]{1,2}", text):
        refuse(node, "ROUND to anything but a whole number of digits", grammar=GRAMMAR)
    return int(text)


def _divisor(node: exp.Expr) -> exp.Expr:
    """Return a divisor without NULLIF(…, 0): a division by what may be 0 is undefined anyway."""
    inner = node.unnest()
    return inner.this if isinstance(inner, exp.Nullif) and _is_zero(inner.expression) else node


def _is_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) == 0
