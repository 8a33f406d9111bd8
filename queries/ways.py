"""Ways on: statements that can be asked, near one that is refused, in a table's own names."""

from __future__ import annotations

from collections.abc import Mapping

from queries.cells import Cells, OrderedCells, quoted_name
from queries.comparisons import LONGEST_SHOWN, example_texts
from queries.domain import Domain
from queries.sql_tree import SQL_WORDS
from queries.statement_grammar import counted_by

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
        "an aggregate of DISTINCT values", "APPROX_DISTINCT", "ARRAY_AGG", "DISTINCT", "GROUP_CONCAT",
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
    """Return a condition on an attribute that cuts no cell."""
    name = quoted_name(attribute.name)
    if not isinstance(attribute, OrderedCells):
        return f"{name} = {_text_of(attribute) or str(attribute.value(0)).upper()}"
    half = attribute.condition(attribute.base_size // 2, attribute.size)
    return half or f"{name} >= {attribute.literal(attribute.boundaries[0])}"
