"""Ways on: statements that can be asked, near one that is refused, in a table's own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from queries.cells import Cells, OrderedCells, quoted_name
from queries.domain import Domain
from queries.frozen import dataclass
from queries.predicates import LONGEST_SHOWN, example_texts
from queries.sql_tree import SQL_WORDS
from queries.statement_grammar import counted_by


@dataclass(frozen=True, slots=True)
class Example:
    """What examples of statements are written with.

    Args:
        table: the table's name, as it stands in SQL.
        keys: names of one or two attributes, with few values each.
        conditions: one or two conditions, as they stand in SQL.
        number: the name of an attribute that holds numbers, as it stands in SQL; None where none does.
        text: the name and a declared text of an attribute, as they stand in SQL; None where none has any.
        gap: the name of an attribute with empty values, as it stands in SQL; None where none has any.
    """

    table: str
    keys: tuple[str, ...]
    conditions: tuple[str, ...]
    number: str | None
    text: tuple[str, str] | None
    gap: str | None

    @classmethod
    def of(cls, domain: Domain) -> Example:
        """Return examples over a domain: of the attributes with the fewest cells and the shortest names."""
        few = sorted(domain, key=_plainness)
        texts = ((quoted_name(one.name), _text_of(one)) for one in few)
        numbers = (quoted_name(one.name) for one in few if one.number_ends() is not None)
        gaps = (quoted_name(one.name) for one in few if one.missing_code is not None)
        return cls(
            quoted_name(domain.name),
            tuple(one.name for one in few[:2]),
            tuple(map(_condition, few[:2])),
            next(numbers, None),
            next(((name, text) for name, text in texts if text is not None), None),
            next(gaps, None),
        )

    def counting(self, keys: int = 1) -> str:
        """Return the statement that counts the records of each value of a key, or of two."""
        return counted_by(self.keys[:keys], self.table)

    @property
    def condition(self) -> str:
        """One condition, or two that both hold."""
        return " AND ".join(self.conditions)

    def where(self, joined: str = "AND") -> str:
        """Return the statement that counts where a condition holds, or two of them."""
        return f"SELECT COUNT(*) FROM {self.table} WHERE {f' {joined} '.join(self.conditions)}"  # noqa: S608

    def one_condition(self) -> str:
        """Return the statement that counts where one condition holds."""
        return f"SELECT COUNT(*) FROM {self.table} WHERE {self.conditions[0]}"  # noqa: S608

    def like(self) -> str:
        """Return the statement that counts where a text begins as some declared one does."""
        if self.text is None:
            return self.one_condition()
        name, text = self.text
        return f"SELECT COUNT(*) FROM {self.table} WHERE {name} LIKE {text}"  # noqa: S608

    def empty(self) -> str:
        """Return the statement that counts empty values."""
        if self.gap is None:
            return self.one_condition()
        return f"SELECT COUNT(*) FROM {self.table} WHERE {self.gap} IS NULL"  # noqa: S608

    def mean(self) -> str:
        """Return the statement that asks a mean; a count where nothing holds numbers."""
        return self.counting() if self.number is None else f"SELECT AVG({self.number}) FROM {self.table}"  # noqa: S608

    def values(self) -> str:
        """Return the statement that lists declared values."""
        return f"SELECT DISTINCT {quoted_name(self.keys[0])} FROM {self.table}"  # noqa: S608

    def filtered(self) -> str:
        """Return the statement that counts by a filter beside everybody."""
        return f"SELECT COUNT(*) FILTER (WHERE {self.conditions[0]}) AS n FROM {self.table}"  # noqa: S608

    def case(self) -> str:
        """Return the statement that counts by CASE."""
        return f"SELECT SUM(CASE WHEN {self.conditions[0]} THEN 1 ELSE 0 END) AS n FROM {self.table}"  # noqa: S608

    def sub_query(self) -> str:
        """Return the statement whose sub-query filters."""
        inner = f"SELECT * FROM {self.table} WHERE {self.conditions[0]}"  # noqa: S608
        return f"SELECT COUNT(*) FROM ({inner}) AS n"  # noqa: S608

    def share(self) -> str:
        """Return the statement that asks the share of each value."""
        key = quoted_name(self.keys[0])
        share = "COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS part"
        return f"SELECT {key}, {share} FROM {self.table} GROUP BY {key}"  # noqa: S608

    def first(self, rows: int = 5) -> str:
        """Return the statement that asks for the largest groups."""
        return f"{self.counting()} ORDER BY COUNT(*) DESC LIMIT {rows}"

    def having(self) -> str:
        """Return the statement that leaves groups out."""
        return f"{self.counting()} HAVING COUNT(*) >= 10"


def _plainness(attribute: Cells) -> tuple[bool, bool, bool, int]:
    """Return what sorts attributes: first those that examples read best with."""
    name = attribute.name
    return name.upper() in SQL_WORDS, len(name) > LONGEST_SHOWN, attribute.is_ordered, attribute.size


def _text_of(attribute: Cells) -> str | None:
    """Return a declared text of an attribute as it stands in SQL: one that a message can show, if any can."""
    return next(iter(example_texts(attribute.texts() or ())), None)


def _condition(attribute: Cells) -> str:
    """Return a condition on an attribute that cuts no cell."""
    name = quoted_name(attribute.name)
    if not isinstance(attribute, OrderedCells):
        return f"{name} = {_text_of(attribute) or str(attribute.value(0)).upper()}"
    half = attribute.condition(attribute.base_size // 2, attribute.size)
    return half or f"{name} >= {attribute.literal(attribute.boundaries[0])}"


_COUNTS: Callable[[Example], str] = Example.counting


def _counts_of_two(example: Example) -> str:
    return example.counting(2)


def _either(example: Example) -> str:
    return example.where("OR")


def _but_not(example: Example) -> str:
    return example.where("AND NOT")


def _most_frequent(example: Example) -> str:
    return example.first(1)


WAYS: Mapping[str, Callable[[Example], str]] = MappingProxyType(
    {
        "a hint": _COUNTS,
        "a second statement": _COUNTS,
        "a table name with a dot": _COUNTS,
        "FOR UPDATE": _COUNTS,
        "LATERAL": _COUNTS,
        "SELECT INTO": _COUNTS,
        "TABLESAMPLE": _COUNTS,
        "UNNEST": _COUNTS,
        "*": _COUNTS,
        "a join": _counts_of_two,
        "a list of records": _counts_of_two,
        "a parameter": Example.one_condition,
        "a placeholder": Example.one_condition,
        "a second dot (a date is a text such as '2023-12-31')": Example.one_condition,
        "a sub-query": Example.sub_query,
        "a tuple": Example.where,
        "a window function": Example.share,
        "a cast": Example.mean,
        "an aggregate of DISTINCT values": Example.values,
        "arithmetic": Example.one_condition,
        "ANY": Example.where,
        "an aggregate in a condition": Example.having,
        "APPROX_DISTINCT": Example.values,
        "ARRAY_AGG": Example.values,
        "CASE": Example.case,
        "CUBE": _counts_of_two,
        "DISTINCT": Example.values,
        "EXCEPT": _but_not,
        "EXISTS": Example.where,
        "FETCH": Example.first,
        "FILTER": Example.filtered,
        "GROUPING SETS": _counts_of_two,
        "GROUP BY ALL": _counts_of_two,
        "GROUP_CONCAT": Example.values,
        "HAVING": Example.having,
        "INTERSECT": Example.where,
        "IS with anything but NULL, TRUE or FALSE": Example.one_condition,
        "LIMIT": Example.first,
        "LOGICAL_AND": Example.filtered,
        "LOGICAL_OR": Example.filtered,
        "MODE": _most_frequent,
        "NULL (write IS NULL)": Example.empty,
        "OFFSET": Example.first,
        "ORDER BY": Example.first,
        "PIVOT": _counts_of_two,
        "QUALIFY": Example.having,
        "RAND": Example.first,
        "REGEXP_LIKE": Example.like,
        "ROLLUP": _counts_of_two,
        "SIMILAR TO": Example.like,
        "UNION": _either,
        "VALUES": Example.one_condition,
        "WINDOW": Example.share,
        "WITH": Example.sub_query,
        "WITH TOTALS": _counts_of_two,
        "||": _counts_of_two,
    }
)


def way_on(construct: str, domain: Domain) -> str:
    """Return a statement over a domain that can be asked instead of one with a construct.

    Args:
        construct: in the words of ``queries.sql_tree.refuse``; of one that is not known, counts.
    """
    return WAYS.get(construct, _COUNTS)(Example.of(domain))
