"""Joins: the lookups that a statement joins, and what their columns say of each cell.

A lookup is joined by its keys alone, so that each record has one row of it or none. A column is then a
function of the record's value: it stands in the tree as ``exp.Dot``, which no text can hold at that place. Of
undeclared values it is not known which one a record holds: each key among them is a witness (docs/cells.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from queries.categories import CategoricalAttribute
from queries.cell_values import CellValues
from queries.cells import OTHER_LABEL, GroupValue, nearest, quoted_name
from queries.comparisons import quoted_text
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.lookups import Lookup
from queries.sql_tree import SYNTHETIC, error_at

_OTHERWISE = f"run the statement on {SYNTHETIC}"
_PRIVATE = "private tables are joined in a view that the session is opened over"


@dataclass(frozen=True, slots=True)
class JoinedLookup:
    """A lookup as a statement joins it; ``outer`` by LEFT JOIN, which keeps records without a row of it."""

    lookup: Lookup
    alias: str
    outer: bool

    def column(self, name: str, *, any_case: bool) -> str | None:
        """Return the column that a name in a statement stands for; None where there is none."""
        known = (self.lookup.key, *self.lookup.columns)
        return next((one for one in known if _is_called(name, one, any_case)), None)

    def node(self, column: str, place: exp.Column | None = None, *, outer: bool | None = None) -> exp.Dot:
        """Return a column as a node of the tree; ``outer`` as if LEFT JOIN were written, None as it was."""
        table, attribute = (
            exp.to_identifier(self.alias),
            exp.to_identifier(self.lookup.attribute, quoted=True),
        )
        if place is not None:
            table.meta.update(place.parts[0].meta)
            attribute.meta.update(place.parts[0].meta)
        return exp.Dot(
            this=table,
            expression=exp.to_identifier(column),
            attribute=exp.Column(this=attribute),
            lookup=self.lookup.name,
            outer=self.outer if outer is None else outer,
        )


# --- the tree -----------------------------------------------------------------------------------------------


def take_joins(tree: exp.Select, domain: Domain, tables: set[str]) -> tuple[JoinedLookup, ...]:
    """Return the lookups that a statement joins, and take the joins off it."""
    joined: list[JoinedLookup] = []
    for join in tree.args.get("joins") or ():
        one = _lookup_of(join, domain)
        alias = one.alias.casefold()
        if alias in tables or alias in [other.alias.casefold() for other in joined]:
            raise join_refusal(join, f"{one.alias!r} stands for two tables", domain)
        if not _is_by_key(join, one, domain, tables):
            raise join_refusal(
                join, f"a join of {one.lookup.name!r} by anything but its key", domain, one.lookup
            )
        joined.append(one)
    tree.set("joins", None)
    return tuple(joined)


def _lookup_of(join: exp.Join, domain: Domain) -> JoinedLookup:
    table = join.this
    name = table.name if isinstance(table, exp.Table) else ""
    quoted = name and table.this.args.get("quoted")
    found = [one for one in domain.lookups if _is_called(name, one.name, not quoted)]
    if not found:
        hint = nearest(name, tuple(one.name for one in domain.lookups)) if name else ""
        raise join_refusal(join, f"a join with {f'{name[:60]!r}{hint}' if name else 'a sub-query'}", domain)
    side, kind, method = (join.args.get(key) or "" for key in ("side", "kind", "method"))
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER") or method:
        words = " ".join(word for word in (method, side, kind) if word)
        raise join_refusal(join, f"{words} JOIN", domain, found[0])
    return JoinedLookup(found[0], table.alias or name, side == "LEFT")


def _is_by_key(join: exp.Join, joined: JoinedLookup, domain: Domain, tables: set[str]) -> bool:
    lookup, using, on = joined.lookup, join.args.get("using") or [], join.args.get("on")
    if using:
        return len(using) == 1 and all(
            _is_called(using[0].name, name, not using[0].args.get("quoted"))
            for name in (lookup.key, lookup.attribute)
        )
    equal = None if on is None else on.unnest()
    if not isinstance(equal, exp.EQ):
        return False
    keys, bare = joined.column, {name.casefold() for name in (*domain.names, *domain.levels)}

    def is_key(side: exp.Expr) -> bool:
        named = _is_column(side, lookup.key, {joined.alias.casefold()})
        return named or (_is_column(side, lookup.key, {""}) and side.name.casefold() not in bare)

    def is_value(side: exp.Expr) -> bool:
        named = _is_column(side, lookup.attribute, tables)
        return named or (_is_column(side, lookup.attribute, {""}) and not keys(side.name, any_case=True))

    one, two = equal.this.unnest(), equal.expression.unnest()
    return (is_key(one) and is_value(two)) or (is_key(two) and is_value(one))


def _is_column(node: exp.Expr, name: str, tables: set[str]) -> bool:
    """Tell whether a node is a column of some table; of an empty name, one that stands without a table's."""
    return (
        isinstance(node, exp.Column)
        and node.table.casefold() in tables
        and _is_called(node.name, name, not node.this.args.get("quoted"))
    )


def _is_called(name: str, declared: str, any_case: object) -> bool:
    return name == declared or (bool(any_case) and name.casefold() == declared.casefold())


def join_refusal(place: exp.Expr, what: str, domain: Domain, lookup: Lookup | None = None) -> QueryError:
    """Return the error of a join that is none of a lookup by its key, with a statement that runs."""
    table = quoted_name(domain.name)
    if not domain.lookups:
        message = f"the schema declares no lookup, and {_PRIVATE}"
        message = f"{message}; write SELECT COUNT(*) FROM {table}"  # noqa: S608 - a message
        return error_at(place, "unsupported", f"{what} is not supported; {message}, or {_OTHERWISE}")
    lookup = lookup or domain.lookups[0]
    names = ", ".join(one.name for one in domain.lookups[:12])
    message = f"{what} is not supported; lookups of the schema ({names}) are joined by their keys"
    node = JoinedLookup(lookup, lookup.name, outer=False).node(lookup.columns[0])
    example = LookupCells.of(node, domain).example(domain)
    way = f"write {example}, or {_OTHERWISE}"
    return error_at(place, "unsupported", f"{message}, and {_PRIVATE}; {way}")


def place_columns(tree: exp.Select, domain: Domain, joined: Sequence[JoinedLookup]) -> None:
    """Put the columns of joined lookups in place of their names."""
    titles = {one.alias.casefold(): one for one in tree.expressions if isinstance(one, exp.Alias)}
    for column in list(tree.find_all(exp.Column)) if joined else ():
        node = _placed(column, domain, joined)
        if node is None:
            continue
        titled = None if column.table else titles.get(column.name.casefold())
        other = None if titled is None else titled.this
        if isinstance(other, exp.Column):
            other = _placed(other, domain, joined)
        if titled is not None and other != node:
            raise _ambiguous(column, f"a title of the statement and a column of {node.this.name}", node)
        column.replace(exp.alias_(node, node.name, quoted=True) if column.parent is tree else node)


def _placed(column: exp.Column, domain: Domain, joined: Sequence[JoinedLookup]) -> exp.Dot | None:
    """Return the node of a column of a lookup; None for one of the table, or of nothing that is known."""
    table, any_case = column.table.casefold(), not column.this.args.get("quoted")
    if table:
        owner = next((one for one in joined if one.alias.casefold() == table), None)
        if owner is None:
            return None
        name = owner.column(column.name, any_case=any_case)
        if name is None:
            known = (owner.lookup.key, *owner.lookup.columns)
            raise error_at(
                column,
                "unknown_attribute",
                f"lookup {owner.lookup.name!r} has the columns {', '.join(known)}; got "
                f"{column.name[:60]!r}{nearest(column.name, known)}",
            )
        return owner.node(name, column)
    found = [(one, one.column(column.name, any_case=any_case)) for one in joined]
    nodes = [one.node(name, column) for one, name in found if name is not None]
    folded = column.name.casefold()
    if folded in (name.casefold() for name in (*domain.names, *domain.levels)):
        keys = [
            one for one in joined if folded == one.lookup.key.casefold() == one.lookup.attribute.casefold()
        ]
        if len(nodes) > len(keys):
            raise _ambiguous(column, f"a column of {domain.name} and of {nodes[0].this.name}", nodes[0])
        return None  # the record's own value, which the key equals
    if len(nodes) > 1:
        raise _ambiguous(column, f"a column of {nodes[0].this.name} and of {nodes[1].this.name}", nodes[0])
    return nodes[0] if nodes else None


def _ambiguous(column: exp.Column, what: str, node: exp.Dot) -> QueryError:
    meant = f"{quoted_name(node.this.name)}.{quoted_name(node.name)}"
    return error_at(column, "syntax", f"{column.name!r} is {what}; write {meant} if that is meant")


def join_conditions(joined: Sequence[JoinedLookup], domain: Domain) -> Iterator[exp.Expr]:
    """Yield the conditions that joins other than LEFT ones state, where some cell does not meet them."""
    for one in joined:
        node = one.node(one.lookup.key, outer=True)
        cells = LookupCells.of(node, domain)
        if not one.outer and (cells.open or None in cells.texts):
            yield exp.Not(this=exp.Is(this=node, expression=exp.Null()))


# --- the cells ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LookupCells:
    """What the records of each cell are called in one column of a lookup.

    Args:
        texts: the text of each cell; None for NULL.
        kept: whether the join keeps the records of each cell; of the cell that is open it keeps some.
        open: what the records of undeclared values may be called, once for each key; empty where nothing is
            said of them.

    Attributes:
        domain: one attribute, whose values are the texts of the column, and NULL.
        undeclared: the texts of undeclared values that are keys.
    """

    lookup: Lookup
    attribute: Attribute
    column: str
    title: str
    texts: tuple[str | None, ...]
    kept: tuple[bool, ...]
    open: tuple[str | None, ...]

    domain: Domain = field(init=False)
    undeclared: dict[str, str | None] = field(init=False)

    def __post_init__(self) -> None:
        texts = self.lookup.texts(self.column)
        known = tuple(dict.fromkeys(text for text in texts.values() if text is not None))
        object.__setattr__(self, "domain", Domain((CategoricalAttribute(self.title, known, missing=True),)))
        keys = self.lookup.undeclared(self.attribute) if self.open else []
        object.__setattr__(self, "undeclared", {key: texts[key] for key in keys})

    @classmethod
    def of(cls, node: exp.Expr, domain: Domain) -> LookupCells:
        """Return the cells of a column that stands in a tree."""
        lookup = next(one for one in domain.lookups if one.name == node.args["lookup"])
        title = f"{node.this.name}.{node.name}"
        return _cells_of(lookup, domain[lookup.attribute], node.name, title, bool(node.args["outer"]))

    def values(self) -> CellValues:
        """Return the text of each cell; that of undeclared values is open where some are keys."""
        labels = np.array(self.texts, dtype=object)
        undecided = np.zeros(len(labels), dtype=bool)
        if self.open:
            labels[-1], undecided[-1] = OTHER_LABEL, True
        zeros, present = np.zeros(len(labels)), np.array([text is not None for text in labels])
        return CellValues((self.attribute.name,), zeros, zeros, zeros, present, labels, undecided=undecided)

    def groups(self, node: exp.Expr, domain: Domain) -> tuple[tuple[GroupValue, NDArray[np.int64]], ...]:
        """Return the cells of each text, NULL and then undeclared values last."""
        found, shared = self._declared(), self.shared
        if shared:
            name = "NULL" if shared[0] is None else repr(shared[0])
            raise error_at(
                node,
                "unaligned",
                f"GROUP BY {self.title} cuts a cell: values that {self.attribute.name!r} does not declare "
                f"may be called {name} too; count one text at a time: write {self.example(domain)}",
            )
        groups = sorted(found.items(), key=lambda group: group[0] is None)
        other = [(OTHER_LABEL, [self.attribute.size - 1])] if self.open else []
        return tuple((text, np.array(cells)) for text, cells in [*groups, *other])

    @property
    def shared(self) -> list[str | None]:
        """What both declared values and undeclared ones may be called."""
        declared = self._declared() if self.open else {}
        return list(dict.fromkeys(text for text in self.open if text in declared))

    def _declared(self) -> dict[str | None, list[int]]:
        """Return the cells of declared and of empty values that the join keeps, by what they are called."""
        found: dict[str | None, list[int]] = {}
        for code, (text, kept) in enumerate(zip(self.texts, self.kept, strict=True)):
            if kept and not (self.open and code == self.attribute.other_code):
                found.setdefault(text, []).append(code)
        return found

    def example(self, domain: Domain) -> str:
        """Return a statement that runs: that counts the records of each text, or else of one."""
        table, lookup = quoted_name(domain.name), self.lookup
        name, shared = quoted_name(lookup.name), self.shared
        column = f"{name}.{quoted_name(self.column)}"
        by = (
            f"USING ({quoted_name(lookup.key)})"
            if lookup.key == lookup.attribute
            else f"ON {table}.{quoted_name(lookup.attribute)} = {name}.{quoted_name(lookup.key)}"
        )
        if not shared:
            return f"SELECT {column}, COUNT(*) FROM {table} JOIN {name} {by} GROUP BY {column}"  # noqa: S608
        text = next((one for one in shared if one is not None), self.domain.attributes[0].label(0))
        return f"SELECT COUNT(*) FROM {table} JOIN {name} {by} WHERE {column} = {quoted_text(text)}"  # noqa: S608 - a message


@lru_cache(maxsize=64)
def _cells_of(lookup: Lookup, attribute: Attribute, column: str, title: str, outer: bool) -> LookupCells:
    texts = lookup.texts(column)
    kept = [outer or key is not None for key in lookup.cells(attribute, lookup.key)]
    undeclared = lookup.undeclared(attribute) if attribute.other else []
    open_ = [*(texts[key] for key in undeclared), *([None] if undeclared and outer else [])]
    if undeclared:
        kept[-1] = True  # the cell of undeclared values comes last
    named = lookup.cells(attribute, column)
    return LookupCells(lookup, attribute, column, title, tuple(named), tuple(kept), tuple(open_))
