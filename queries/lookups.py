"""Lookups: what the values of an attribute are called, such as the names of airlines by their codes.

A lookup is part of the schema and as public: a statement joins it as a table, and what it says of a record is
a function of the record's value alone. It makes no cells: levels do that (``queries.categories``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from queries.categories import CategoricalAttribute
from queries.cells import MISSING_LABEL, OTHER_LABEL, Cells, nearest
from queries.errors import DomainError
from queries.frozen import dataclass
from queries.numbers import IntegerAttribute
from queries.plain_values import is_encodable, shown_text, type_name

MOST_KEYS = 100_000
PLAIN_COLUMN = "name"  # what the only column is called where a value has one text and no more


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the values of an attribute are called, in one or more columns.

    Args:
        name: of the table that a statement joins.
        attribute: whose values are the keys.
        values: for each key a text, which stands in the column ``name``, or a text for each column; a column
            that is left out is NULL there. A key may be a value that the attribute does not declare.
        key: the column of the keys; the attribute's name if it is empty.

    Attributes:
        rows: for each key its texts by their columns.
        columns: the columns other than the keys', in the order in which they come first.

    Raises:
        DomainError: a name or a text is none, or two columns are called alike.
    """

    name: str
    attribute: str
    values: Mapping[str, str | Mapping[str, str]] = field(compare=False)
    key: str = ""
    rows: dict[str, dict[str, str]] = field(init=False, repr=False, hash=False)
    columns: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for what, name in (("name", self.name), ("attribute", self.attribute)):
            if not _is_name(name):
                raise DomainError(f"a lookup's {what} must be a printable text, got {shown_text(name)}")
        object.__setattr__(self, "key", self.attribute if self.key == "" else self.key)
        if not isinstance(self.values, Mapping) or not self.values:
            raise self.wrong('values must give each key a text, such as { UA = "United" }')
        if len(self.values) > MOST_KEYS:
            raise self.wrong(f"at most {MOST_KEYS:,} keys, got {len(self.values):,}")
        object.__setattr__(self, "rows", {key: self._row(key, given) for key, given in self.values.items()})
        columns = tuple(dict.fromkeys(column for row in self.rows.values() for column in row))
        object.__setattr__(self, "columns", columns)
        self._check_columns()

    def _row(self, key: object, given: object) -> dict[str, str]:
        if not isinstance(key, str) or not key or not is_encodable(key):
            raise self.wrong(f"a key must be a text that is not empty, got {shown_text(key)}")
        row = given if isinstance(given, Mapping) else {PLAIN_COLUMN: given}
        for column, text in row.items():
            if not isinstance(text, str) or not text or not is_encodable(text):
                raise self.wrong(
                    f"key {key[:60]!r}: {column} must be a text that is not empty, got {shown_text(text)}"
                )
            if text in (MISSING_LABEL, OTHER_LABEL):
                raise self.wrong(f"key {key[:60]!r}: {text!r} names a special cell and is no text here")
        return dict(row)

    def _check_columns(self) -> None:
        if not self.columns:
            raise self.wrong("it needs a column besides that of the keys")
        taken: set[str] = set()
        for column in (self.key, *self.columns):
            if not _is_name(column):
                raise self.wrong(f"a column needs a printable name, got {shown_text(column)}")
            if column.casefold() in taken:
                raise self.wrong(f"two columns are called {column!r}; upper and lower case do not count")
            taken.add(column.casefold())

    def wrong(self, message: str) -> DomainError:
        """Return the error of what is declared, which names the lookup."""
        return DomainError(f"lookup {self.name!r}: {message}")

    def texts(self, column: str) -> dict[str, str | None]:
        """Return what each key is called in a column; None where the column is left out."""
        if column == self.key:
            return {key: key for key in self.rows}
        return {key: row.get(column) for key, row in self.rows.items()}

    def undeclared(self, attribute: Cells) -> list[str]:
        """Return the keys that are no declared value of the attribute."""
        declared = set(_declared(attribute))
        return [key for key in self.rows if key not in declared]

    def unnamed(self, attribute: Cells) -> list[str]:
        """Return the declared values of the attribute that are no key."""
        return [value for value in _declared(attribute) if value not in self.rows]

    def cells(self, attribute: Cells, column: str) -> list[str | None]:
        """Return what each cell is called; None where nothing is said of it, as of all undeclared values."""
        texts = self.texts(column)
        named = [texts.get(key) for key in _declared(attribute)]
        return [*named, *[None] * (attribute.size - len(named))]


def check_lookups(lookups: Sequence[object], attributes: Sequence[Cells], table: str) -> None:
    """Refuse lookups that do not fit a table."""
    taken = {table.casefold(): "the table"}
    for attribute in attributes:
        names = (attribute.name, *attribute.level_names)
        taken |= {name.casefold(): f"attribute {attribute.name!r}, or a level of it," for name in names}
    for lookup in lookups:
        if not isinstance(lookup, Lookup):
            raise DomainError(f"expected a Lookup, got a {type_name(lookup)}")
        if lookup.name.casefold() in taken:
            raise lookup.wrong(f"{taken[lookup.name.casefold()]} is called so too; rename one of them")
        taken[lookup.name.casefold()] = "another lookup"
        _check_keys(lookup, attributes)


def _check_keys(lookup: Lookup, attributes: Sequence[Cells]) -> None:
    found = [attribute for attribute in attributes if attribute.name == lookup.attribute]
    if not found:
        names = tuple(attribute.name for attribute in attributes)
        hint = nearest(lookup.attribute, names)
        raise lookup.wrong(f"expected an attribute of the schema, got {lookup.attribute!r}{hint}")
    (attribute,) = found
    single = isinstance(attribute, IntegerAttribute) and attribute.width == 1
    if not single and not isinstance(attribute, CategoricalAttribute):
        raise lookup.wrong(
            f"attribute {attribute.name!r} must be categorical, or of kind 'integer' with a width of 1"
        )
    if len(lookup.undeclared(attribute)) == len(lookup.rows):
        key = next(iter(lookup.rows))
        raise lookup.wrong(f"no key is a declared value of {attribute.name!r}; the first one is {key[:60]!r}")


def _declared(attribute: Cells) -> list[str]:
    return [attribute.label(code) for code in range(attribute.base_size)]


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name) and name == name.strip() and name.isprintable()
