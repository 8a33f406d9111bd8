"""What statements in SQL may hold: the grammar node by node, the table, and counts of people.

What is refused is refused by name, with another way to ask where there is one. A sub-query that only filters
is folded into one condition.

A session counts records, at most K of each person. Where K is one, everybody's records are as many as there
are persons with a kept record, so ``COUNT(DISTINCT id)`` is a count of records. With a condition it is not: a
person may have a record that satisfies it, but is not the one that was kept. Only of attributes that are the
same in all records of a person does it not matter which one that is. Where K is more, persons are numbers of
their own (``Persons``), of those with a kept record that satisfies the condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from queries.cells import Cells, OrderedCells, nearest, quoted_name
from queries.comparisons import LONGEST_SHOWN, example_texts
from queries.domain import Domain
from queries.errors import QueryError
from queries.joins import join_conditions, join_refusal, place_columns, take_joins
from queries.sql_tree import (
    CONDITIONS,
    SQL_WORDS,
    SYNTHETIC,
    Grammar,
    check_node,
    error_at,
    operand_of,
    refuse,
    require_bare,
)

GRAMMAR = Grammar.of(
    {
        "": (exp.Star, exp.Rank, exp.DenseRank, exp.RowNumber),
        "this": (
            *(exp.Sum, exp.Avg, exp.Median, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp),
            *(exp.StddevPop, exp.Variance, exp.VariancePop, exp.CountIf, exp.PercentileCont),
            *(exp.From, exp.Where, exp.Having, exp.Qualify, exp.TableAlias, exp.Var),
            *(exp.FirstValue, exp.LastValue, exp.Sign),
        ),
        "this table": (exp.Column,),  # whose name is looked at when the source is
        "this alias": (exp.Alias, exp.CTE, exp.Subquery, exp.Table),
        "this big_int people": (exp.Count,),
        "this expression": (exp.Corr, exp.Filter, exp.WithinGroup),
        "this quantile": (exp.Quantile, exp.ApproxQuantile),
        "this partition_by order spec over": (exp.Window,),
        "kind start start_side end end_side": (exp.WindowSpec,),
        "this offset default": (exp.Lag, exp.Lead),
        "this desc nulls_first": (exp.Ordered,),
        "this on using side kind method": (exp.Join,),  # each is looked at when the source is
        "expression": (exp.Limit, exp.Offset),
        "expressions all": (exp.Group,),
        "expressions": (
            *(exp.Distinct, exp.Order, exp.With, exp.Rollup, exp.Cube, exp.GroupingSets),
            *(exp.Grouping, exp.Tuple),
        ),
        "this expression distinct order limit offset with_": (exp.Union,),
        "expressions from_ joins where group having qualify order limit offset distinct with_": (exp.Select,),
    },
    f"run the statement on {SYNTHETIC}",
    CONDITIONS,
)

_SPELT = {"TIME_TO_STR": "STRFTIME"}  # where the parser has a name that nobody writes
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)
_FRACTIONS = frozenset((exp.DType.DOUBLE, exp.DType.FLOAT))
_WHOLE = exp.DataType.INTEGER_TYPES
LIST, DIFFERENT_VALUES = "a list of records", "an aggregate of DISTINCT values"
REFUSALS = (LIST, DIFFERENT_VALUES)  # what no node alone tells
_LONGEST_TITLE = 60  # characters
SCHEMAS = ("public", "main")  # that databases call the one of a table without any
_CALLED = [one for one in GRAMMAR.arguments if issubclass(one, exp.Func)]
FUNCTIONS = tuple(sorted({_SPELT.get(name, name) for name in (one.sql_name() for one in _CALLED)}))


def check_nodes(tree: exp.Expr, domain: Domain) -> None:
    """Refuse every part of a statement, and of its sub-queries, that is not on the whitelist."""
    for node in tree.walk():
        if isinstance(node, exp.In) and node.args.get("query") is not None and domain.lookups:
            raise join_refusal(node, "a sub-query in IN", domain)
        check_node(node, GRAMMAR)
        if isinstance(node, exp.Count) and node.this is None:
            raise error_at(node, "syntax", "expected COUNT(*), got COUNT()")


def check_statement(tree: exp.Select, domain: Domain) -> None:
    """Refuse what no statement over the table answers; where one of another form asks the same, name it."""
    for node in tree.walk():
        if isinstance(node, exp.Distinct) and node.expressions:
            refuse(node, DIFFERENT_VALUES, grammar=GRAMMAR, instead=_values(node, tree, domain))
        if isinstance(node, exp.Star) and node.parent is tree:
            refuse(node, LIST, grammar=GRAMMAR)


def plain_spelling(tree: exp.Expr) -> None:
    """Write names without a schema, FETCH as LIMIT, constants without casts, and = ANY of a list as IN."""
    for node in list(tree.walk()):
        schema = node.args.get("db") if isinstance(node, exp.Table | exp.Column) else None
        if schema is not None and schema.name.casefold() in SCHEMAS:
            node.set("db", None)
            node.set("catalog", None)
        if isinstance(node, exp.Cast) and is_constant(node):
            node.replace(exp.Literal.number(node.this.name) if node.this.is_string else node.this)
        elif isinstance(node, exp.EQ | exp.NEQ) and (listed := _listed(node)):
            found = exp.In(this=node.this, expressions=listed)
            node.replace(exp.Not(this=found) if isinstance(node, exp.NEQ) else found)
        elif isinstance(node, exp.Fetch):
            options = node.args.get("limit_options")
            if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
                count = node.args.get("count") or exp.Literal.number(1)
                node.replace(exp.Limit(expression=count))


def is_constant(cast: exp.Cast) -> bool:
    """Tell whether a cast is of a number, or of its text, to a type of numbers that has it."""
    number, kind = cast.this, cast.args["to"].this
    if not isinstance(number, exp.Literal) or (number.is_string and not _NUMBER.fullmatch(number.name)):
        return False
    return kind in _FRACTIONS or (kind in _WHOLE and number.name.lstrip("-").isdigit())


def _listed(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the values of a list that ``=`` compares with ANY of, or ``<>`` with ALL of."""
    right, inner = node.expression, None
    if isinstance(node, exp.EQ) and isinstance(right, exp.Any):
        inner = right.this.unnest()
    elif isinstance(node, exp.NEQ) and isinstance(right, exp.Anonymous) and right.this == "ALL":
        inner = next(iter(right.expressions), None)
    inner = inner.this if isinstance(inner, exp.Cast) else inner  # such as ARRAY['a']::text[]
    return inner.expressions if isinstance(inner, exp.Array) else None


def _values(distinct: exp.Distinct, tree: exp.Select, domain: Domain) -> str | None:
    """Return a statement with a row for each of the different values of attributes; None of anything else."""
    group = tree.args.get("group")
    columns = [*(() if group is None else group.expressions), *distinct.expressions]
    if not all(isinstance(one, exp.Column) for one in columns):
        return None
    shown = list(dict.fromkeys(level or name for name, level in (operand_of(one, domain) for one in columns)))
    where = tree.args.get("where")
    return f"{counted_by(shown, quoted_name(domain.name), where)} HAVING COUNT(*) >= 1"


def written_title(node: exp.Expr) -> str | None:
    """Return what a column without a name is called: as it is written; None where that is long."""
    if is_of_people(node):
        return "people"
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "count"
    title = node.sql().replace('"', "").lower()
    return title if len(title) <= _LONGEST_TITLE else None


def counted_by(names: Sequence[str], table: str, where: exp.Expr | None = None) -> str:
    """Return the statement that counts the records of each value of attributes, under a WHERE clause."""
    listed = ", ".join(map(quoted_name, names))
    title = " AS records" if "count" in names else ""
    condition = "" if where is None else f" {where.sql()}"
    return f"SELECT {listed}, COUNT(*){title} FROM {table}{condition} GROUP BY {listed}"  # noqa: S608 - a message


# --- the table ----------------------------------------------------------------------------------------------


def over_table(tree: exp.Select, domain: Domain) -> exp.Select:
    """Return a query over the table whose columns stand without a table's name, spelt as declared.

    Its condition holds those of joined lookups, too.
    """
    source = tree.args.get("from_")
    if source is None:
        raise QueryError(f"expected FROM {quoted_name(domain.name)}", code="syntax", position=0)
    table = source.this
    if not isinstance(table, exp.Table):
        refuse(table, grammar=GRAMMAR)
    _check_table(table, domain)
    tree.set("from_", None)
    names = {(table.alias or table.name).casefold()}
    joined = take_joins(tree, domain, names)
    place_columns(tree, domain, joined)
    _spell(tree, domain, names)
    where = tree.args.get("where")
    tests = [*join_conditions(joined, domain), *([] if where is None else [where.this])]
    tree.set("where", exp.Where(this=exp.and_(*tests, copy=False)) if tests else None)
    return tree


def _check_table(table: exp.Table, domain: Domain) -> None:
    name = table.this
    quoted = isinstance(name, exp.Identifier) and name.args.get("quoted")
    if table.name != domain.name and (quoted or table.name.casefold() != domain.name.casefold()):
        raise error_at(
            table,
            "unknown_table",
            f"unknown table {table.name[:60]!r}; the session's table is {quoted_name(domain.name)}"
            f"{nearest(table.name, (domain.name,))}",
        )


def _spell(tree: exp.Select, domain: Domain, names: set[str]) -> None:
    """Take the table's name off its columns, and spell those as they are declared."""
    folded = {name.casefold() for name in (*domain.names, *domain.levels)}
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if qualifier is not None and qualifier.name.casefold() in names and column.args.get("db") is None:
            column.set("table", None)
            column.meta.update(of_table=True)  # and so no name of an output column
        require_bare(column, GRAMMAR)
        if isinstance(column.this, exp.Identifier) and column.name.casefold() in folded:
            name, level = operand_of(column, domain)
            column.this.set("this", level or name)
            column.this.set("quoted", True)


# --- counts of people ---------------------------------------------------------------------------------------

REFUSED = "COUNT(DISTINCT …) of people is not answered here"
_PEOPLE = "people"  # marks a count of people


def people_counts(tree: exp.Select, domain: Domain) -> list[exp.Count]:
    """Return the counts of people of a statement, which count records from here on.

    Each stands around DISTINCT and the column of ids. Where several records of a person are kept, they are
    marked (``is_of_people``), and none is returned: they are no counts of records.
    """
    found = [node for node in tree.find_all(exp.Count) if _is_of_people(node.this, domain)]
    several = domain.person is not None and (domain.person.records or 1) > 1
    for node in found:
        node.set("this", exp.Star())
        if several:
            node.set(_PEOPLE, True)
    return [] if several else found


def is_of_people(node: exp.Expr) -> bool:
    """Tell whether a count is one of people, and not of the records that are kept of them."""
    return isinstance(node, exp.Count) and bool(node.args.get(_PEOPLE))


def _is_of_people(counted: object, domain: Domain) -> bool:
    if domain.person is None or not isinstance(counted, exp.Distinct) or len(counted.expressions) != 1:
        return False
    (column,) = counted.expressions
    if not isinstance(column, exp.Column) or set(_given(counted)) != {"expressions"}:
        return False
    if set(_given(column)) != {"this"}:
        return False
    name, declared = column.name, domain.person.column
    return name == declared or (not column.this.args.get("quoted") and name.casefold() == declared.casefold())


def require_countable(node: exp.Expr, scope: set[str], domain: Domain) -> None:
    """Refuse a count of people that the kept records do not tell."""
    person = domain.person
    if person is None:
        return
    if person.records != 1:
        raise _refusal(
            "no number of records of each person is declared, so it is not known what is kept of them; give "
            "the schema's [person] the key records",
            node,
        )
    changing = sorted(scope - set(person.constant))
    if changing:
        raise _refusal(
            f"one record of each person is kept, so a condition on {changing[0]!r} would count the people "
            "whose kept record satisfies it, and not those who have such a record; ask for everybody, or on "
            "attributes that the schema's [person] declares constant",
            node,
        )


def _given(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value not in (None, False, [])]


def _refusal(reason: str, node: exp.Expr) -> QueryError:
    return error_at(node, "unsupported", f"{REFUSED}: {reason}")


# --- ways on ------------------------------------------------------------------------------------------------


_COUNT = "SELECT COUNT(*) FROM {table} WHERE "
# Statements in the words of ``examples``, each with the constructs in whose place it can be asked.
_FORMS: Mapping[str, tuple[str, ...]] = {
    "{counts}": (
        "a hint", "a second statement", "a table name with a dot", "FOR UPDATE", "LATERAL", "SELECT INTO",
        "TABLESAMPLE", "UNNEST", "*",
    ),
    "{counts_of_two}": (
        "a join", "a list of records", "CUBE", "GROUPING SETS", "GROUP BY ALL", "PIVOT", "ROLLUP",
        "WITH TOTALS", "||",
    ),
    _COUNT + "{one}": (
        "a parameter", "a placeholder", "a second dot (a date is a text such as '2023-12-31')", "arithmetic",
        "IS with anything but NULL, TRUE or FALSE", "VALUES",
    ),
    _COUNT + "{condition}": ("a tuple", "ANY", "EXISTS", "INTERSECT"),
    _COUNT + "{either}": ("UNION",),
    _COUNT + "{but_not}": ("EXCEPT",),
    _COUNT + "{like}": ("a regular expression", "SIMILAR TO"),
    _COUNT + "{empty}": ("NULL (write IS NULL)",),
    "SELECT COUNT(*) FROM (SELECT * FROM {table} WHERE {one}) AS n": ("a sub-query", "WITH"),
    "SELECT {key}, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS part FROM {table} GROUP BY {key}": (
        "a window function", "WINDOW",
    ),
    "{mean}": ("a cast",),
    "SELECT DISTINCT {key} FROM {table}": (
        DIFFERENT_VALUES, "APPROX_DISTINCT", "ARRAY_AGG", "DISTINCT", "GROUP_CONCAT",
    ),
    "SELECT SUM(CASE WHEN {one} THEN 1 ELSE 0 END) AS n FROM {table}": ("CASE",),
    "SELECT COUNT(*) FILTER (WHERE {one}) AS n FROM {table}": ("FILTER", "LOGICAL_AND", "LOGICAL_OR"),
    "{counts} ORDER BY COUNT(*) DESC LIMIT 5": ("FETCH", "LIMIT", "OFFSET", "ORDER BY", "RAND"),
    "{counts} ORDER BY COUNT(*) DESC LIMIT 1": ("MODE",),
    "{counts} HAVING COUNT(*) >= 10": ("an aggregate in a condition", "HAVING", "QUALIFY"),
}  # fmt: skip
WAYS = {construct: form for form, constructs in _FORMS.items() for construct in constructs}


def way_on(construct: str, domain: Domain) -> str:
    """Return a statement over a domain that can be asked instead of one with a construct that is refused."""
    return WAYS.get(construct, "{counts}").format_map(examples(domain))


def examples(domain: Domain) -> dict[str, str]:
    """Return parts of statements over a domain: of attributes with few cells and short names."""
    few, table = sorted(domain, key=_plainness), quoted_name(domain.name)
    names, tests = [one.name for one in few[:2]], [_condition(one) for one in few[:2]]
    numbers = (quoted_name(one.name) for one in few if one.number_ends() is not None)
    means = (f"SELECT AVG({name}) FROM {table}" for name in numbers)  # noqa: S608
    texts = ((quoted_name(one.name), _text_of(one)) for one in few)
    gaps = (f"{quoted_name(one.name)} IS NULL" for one in few if one.missing_code is not None)
    counts = counted_by(names[:1], table)
    return {
        "table": table, "key": quoted_name(names[0]), "counts": counts,
        "counts_of_two": counted_by(names, table), "mean": next(means, counts), "one": tests[0],
        "condition": " AND ".join(tests), "either": " OR ".join(tests), "but_not": " AND NOT ".join(tests),
        "like": next((f"{name} LIKE {text}" for name, text in texts if text is not None), tests[0]),
        "empty": next(gaps, tests[0]),
    }  # fmt: skip


def _plainness(attribute: Cells) -> tuple[bool, bool, bool, int]:
    """Return what sorts attributes: first those that examples read best with."""
    name = attribute.name
    return name.upper() in SQL_WORDS, len(name) > LONGEST_SHOWN, attribute.is_ordered, attribute.size


def _text_of(attribute: Cells) -> str | None:
    return next(iter(example_texts(attribute.texts() or ())), None)


def _condition(attribute: Cells) -> str:
    name = quoted_name(attribute.name)
    if not isinstance(attribute, OrderedCells):
        return f"{name} = {_text_of(attribute) or str(attribute.value(0)).upper()}"
    half = attribute.condition(attribute.base_size // 2, attribute.size)
    return half or f"{name} >= {attribute.literal(attribute.boundaries[0])}"
