"""Rows of cells: public values that the cells of attributes hold, and SQL that is evaluated over them.

The rules for what a cell leaves open are proved in ``docs/cells.md``. A number that is known by its ends is
at either of them, once for each place where it is written. An undeclared text is one of a few witnesses.
Below anything but AND, OR and NOT an open condition is each of TRUE, FALSE and NULL that it may be.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, CellValues, Kind, Line, constant_value, too_large
from queries.cells import OTHER_LABEL, canonical_text
from queries.dates import Periods
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.locked_engine import evaluated
from queries.places import as_index
from queries.work import TEXT, count_cells

_MOST_VERTICES = 64  # of one side of a comparison
_MOST_CHOICES = 6  # open conditions inside of one
_MOST_LISTED = 2**14  # rows of which whole numbers are enumerated
_LARGEST = "1e100"  # as ``require_finite`` has it
_FRESH = "\ue000"  # begins a text that nobody declares
_SHORT = 24  # characters of SQL that are written twice
_LONG = 1000  # characters of SQL that become a column
_NAME = re.compile(r"[a-z]+[0-9]+")
PERIODS = ("dated", "clock")  # shapes of what has seconds for numbers: dates and times, and times of day
_SPOT = re.compile("\x01([0-9]+)\x02")


@dataclass(frozen=True, slots=True)
class Term:
    """SQL of what a row holds.

    Args:
        sql: over the columns of a row. A number that a cell knows by its ends stands as a mark.
        shape: ``number``, ``text``, ``dated``, ``clock`` or ``null``.
        label: what a group of it is called, of texts and dates.
        undeclared: SQL of whether a text is one that its attribute does not declare; empty where none is.
        open: SQL of whether the value may be any of its shape; one of them is enough.
        lost: columns that say whether it may also be NULL.
        plain: a text that is chosen from literals and columns, and not made of them.
        source: of a column, or of a constant, its values.
        column: whether it is of any column.
        ordered: a text of a date, which says nothing of how values are listed.
    """

    sql: str
    shape: str
    kind: Kind = Kind.TRUTH
    label: str = ""
    undeclared: str = ""
    open: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    plain: bool = True
    line: Line | None = None
    source: CellValues | None = None
    column: bool = False
    ordered: bool = False

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole, so that a division drops the fraction."""
        return self.kind <= Kind.WHOLE

    @property
    def spots(self) -> list[str]:
        """The columns that stand at either end, once for each place."""
        return _SPOT.findall(self.sql)

    def at(self, letters: Sequence[str]) -> str:
        """Return the SQL with each spot at one of its columns: ``l`` low, ``h`` high, ``v`` the middle."""
        ends = iter(letters)
        return _SPOT.sub(lambda spot: f"{next(ends)}{spot[1]}", self.sql)

    def everywhere(self, letter: str) -> str:
        """Return the SQL with all spots at the same column."""
        return self.at(letter * len(self.spots))

    @property
    def vertices(self) -> list[str]:
        """The SQL at every vertex of the box of its spots."""
        count = len(self.spots)
        if 2**count > _MOST_VERTICES:
            raise QueryError(
                "this expression names numbers of wide cells too often; compare them with values, or use "
                "whole cells",
                code="too_large",
            )
        return [self.at(ends) for ends in itertools.product("lh", repeat=count)]

    @property
    def null(self) -> str:
        """Whether it is NULL, which the ends of cells do not change."""
        return f"(({self.everywhere('l')}) IS NULL)"


@dataclass(frozen=True, slots=True)
class Truth:
    """SQL of what a condition may be for some value of a row; none of it is ever NULL.

    Args:
        true, false, null: whether it may be that. If only one of them holds, it is that for all values.
        share: the part of a row where it is true.
        sql: the condition itself, where every row decides it; else None.
    """

    true: str
    false: str
    null: str
    share: str
    sql: str | None = None

    @classmethod
    def certain(cls, sql: str) -> Truth:
        """Return a condition that every row decides."""
        true, false, null = (f"(({sql}) IS {word})" for word in ("TRUE", "FALSE", "NULL"))
        return cls(true, false, null, f"CAST({true} AS DOUBLE)", sql)

    @classmethod
    def unless(cls, sql: str, open_: Iterable[str], lost: Iterable[str], share: str = "0e0") -> Truth:
        """Return a condition that rows decide unless one of some columns says that they do not."""
        opened, gone = sorted(open_), sorted(lost)
        unclear = either(*opened, *gone)
        if not unclear:
            return cls.certain(sql)
        may = [f"({either(*opened)} AND ({sql}) IS NOT NULL)"] if opened else []
        true, false = f"({sql}) IS TRUE", f"({sql}) IS FALSE"
        return cls(
            either(true, *may, *gone), either(false, *may, *gone), either(f"({sql}) IS NULL", *gone),
            f"CASE WHEN {unclear} THEN {share} ELSE CAST({true} AS DOUBLE) END",
        )  # fmt: skip

    @property
    def negated(self) -> Truth:
        """Whether its negation is."""
        if self.sql is not None:
            return Truth.certain(f"(NOT ({self.sql}))")
        return Truth(self.false, self.true, self.null, f"(1e0 - ({self.share}))")

    def both(self, other: Truth) -> Truth:
        """Whether both hold."""
        if self.sql is not None and other.sql is not None:
            return Truth.certain(f"(({self.sql}) AND ({other.sql}))")
        known = f"({self.true} OR {self.null}) AND ({other.true} OR {other.null})"
        return Truth(
            f"({self.true} AND {other.true})", f"({self.false} OR {other.false})",
            f"(({self.null} OR {other.null}) AND {known})", f"(({self.share}) * ({other.share}))",
        )  # fmt: skip

    def either(self, other: Truth) -> Truth:
        """Whether one of them holds."""
        if self.sql is not None and other.sql is not None:
            return Truth.certain(f"(({self.sql}) OR ({other.sql}))")
        return self.negated.both(other.negated).negated

    @property
    def is_null(self) -> Truth:
        """Whether it is NULL, which is never NULL itself."""
        if self.sql is not None:
            return Truth.certain(f"(({self.sql}) IS NULL)")
        known = f"({self.true} OR {self.false})"
        return Truth(self.null, known, "FALSE", f"CAST((NOT {known}) AS DOUBLE)")

    @property
    def is_true(self) -> Truth:
        """Whether it is TRUE, which is never NULL."""
        if self.sql is not None:
            return Truth.certain(f"(({self.sql}) IS TRUE)")
        return Truth(self.true, f"({self.false} OR {self.null})", "FALSE", self.share)


NEVER = Truth("FALSE", "FALSE", "TRUE", "0e0", "CAST(NULL AS BOOLEAN)")


def either(*parts: str) -> str:
    """Return the SQL of whether one of some conditions is true; an empty text of none."""
    return f"({' OR '.join(parts)})" if parts else ""


# --- rows ---------------------------------------------------------------------------------------------------

_Written = TypeVar("_Written", "Term", "Truth")
Columns: TypeAlias = dict[str, NDArray[Any]]
Check: TypeAlias = Callable[
    ["np.ma.MaskedArray[Any, Any]", NDArray[np.int64]], bool
]  # of a column and the cells


class Rows(NamedTuple):
    """Rows of one attribute: their cells, their ends where these are not the cells', their parts of cells.

    ``texts`` are those of which an undeclared text is one.
    """

    cells: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    weight: NDArray[np.float64]
    texts: NDArray[Any]

    @classmethod
    def of(
        cls, cells: NDArray[Any], low: Any = np.nan, high: Any = np.nan, weight: Any = 1.0, texts: Any = None
    ) -> Rows:
        """Return rows of some cells."""
        given = (low, high, weight, np.array(texts, dtype=object))
        return cls(cells, *(np.broadcast_to(np.asarray(one), cells.shape) for one in given))

    def and_(self, other: Rows) -> Rows:
        """Return these rows, and others."""
        return Rows(*map(np.concatenate, zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class Input:
    """What the cells of one attribute hold in one column: values, or whether a condition holds.

    Args:
        values: of cells; None for a condition.
        flags: of a condition, where it may hold (``m``) and fail (``g``), and its part of each cell (``p``).
        listed: every whole number of a cell has a row of its own.
        keys: of a column of a lookup, what undeclared values that are its keys are called.
        outer: records that are in none of its rows are meant, too.
    """

    number: int
    attribute: str
    values: CellValues | None = None
    flags: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    listed: bool = False
    keys: Mapping[str, str | None] = field(default_factory=dict)
    outer: bool = True

    def columns(self, rows: Rows) -> Columns:
        """Return the columns over rows."""
        cells, texts = rows.cells, rows.texts
        name, values = str(self.number), self.values
        if values is None:
            return {letter + name: array.reshape(-1)[cells] for letter, array in self.flags.items()}
        undecided, gone = values.undecided[cells], ~values.present[cells]
        if values.labels is None or values.dated:
            low, high = (
                np.where(np.isnan(own), ends[cells], own)
                for own, ends in ((rows.low, values.low), (rows.high, values.high))
            )
            middle = np.where(np.isnan(rows.low), values.middle[cells], (low + high) / 2)
            found: Columns = {
                letter + name: np.ma.masked_array(one, gone)
                for letter, one in zip("lvh", (low, middle, high), strict=True)
            }
            if values.dated and values.labels is not None:
                found["n" + name] = _texts(values.labels[cells])
        else:
            labels = values.labels[cells]
            labels[gone] = None
            witness = undecided & np.array([one is not None for one in texts])
            told = [self.keys.get(one) if self.keys else one for one in texts[witness]]
            held = labels.copy()
            held[witness] = told
            found = {"v" + name: _texts(held), "n" + name: _texts(held if self.keys else labels)}
        return found | {"u" + name: undecided}


def _texts(labels: NDArray[Any]) -> NDArray[Any]:
    return np.array([None if one is None else canonical_text(one) for one in labels], dtype=object)


class Writer:
    """Writes the terms of one expression; with ``lists``, few whole numbers of a cell have rows."""

    def __init__(self, domain: Domain, *, lists: bool = True) -> None:
        self.domain, self.lists = domain, lists
        self.inputs: dict[object, Input] = {}
        self.texts: dict[str, str] = {}  # the name of the parameter of each text
        self._known: dict[object, Any] = {}
        self._stages: list[dict[str, str] | tuple[str, Truth]] = []
        self._ends: dict[str, tuple[str, str]] = {}
        self._choices: dict[Truth, str] = {}
        self.checks: list[tuple[str, Check, Callable[[], QueryError]]] = []
        self._starts: dict[str, list[NDArray[np.int64]]] = {}
        self._columns = itertools.count()

    def new(self, key: object, attribute: str, **given: Any) -> Input:
        """Return an input, once for each key."""
        return self.inputs.setdefault(key, Input(next(self._columns), attribute, **given))

    def once(self, key: object, write: Callable[[], _Written]) -> _Written:
        """Return what is written for a key, once for each."""
        if key not in self._known:
            self._known[key] = write()
        return cast(_Written, self._known[key])

    def check(self, sql: str, holds: Check, error: Callable[[], QueryError]) -> None:
        """Have the expression refused where a column of the rows does not hold as it should."""
        self.checks.append((sql, holds, error))

    def dates(self, attribute: Periods, starts: NDArray[np.int64] | None) -> int:
        """Return the number of the column of an attribute's seconds; rows are cut where periods start."""
        if starts is not None:
            self._starts.setdefault(attribute.name, []).append(starts)
        ends = np.zeros((2, attribute.size))
        bounds = np.array(attribute.boundaries) * attribute.scale
        ends[:, : attribute.base_size] = bounds[:-1], bounds[1:] - attribute.scale
        present = np.arange(attribute.size) < attribute.base_size
        values = CellValues((attribute.name,), ends[0], ends.mean(axis=0), ends[1], present, None, Kind.WHOLE)
        return self.new((attribute.name, "seconds"), attribute.name, values=values).number

    def new_number(self) -> int:
        """Return the number of a further column."""
        return next(self._columns)

    def text(self, text: str) -> str:
        """Return the parameter of a text."""
        return "$" + self.texts.setdefault(text, f"text{len(self.texts)}")

    def written(self, term: Term) -> str | None:
        """Return the text that a term is; None where it is none, or computed."""
        return next((text for text, name in self.texts.items() if term.sql == f"${name}"), None)

    def staged(self, columns: Mapping[str, str]) -> None:
        """Have the rows carry further columns, beside the last ones unless they are made of these."""
        last = self._stages[-1] if self._stages else None
        named = {name for sql in columns.values() for name in _NAME.findall(sql)}
        if isinstance(last, dict) and not named & last.keys():
            last.update(columns)
        else:
            self._stages.append(dict(columns))

    def ends(self, term: Term) -> tuple[str, str]:
        """Return SQL of the least and the greatest value over the vertices."""
        if term.sql in self._ends:
            return self._ends[term.sql]
        vertices, number = term.vertices, next(self._columns)
        low = high = vertices[0]
        if len(vertices) > 1:
            low, high = f"x{number}", f"y{number}"
            listed = ", ".join(vertices)
            self.staged({low: f"least({listed})", high: f"greatest({listed})"})
        elif len(low) > _SHORT:
            low = high = f"x{number}"
            self.staged({low: vertices[0]})
        if term.shape == "number" and term.column:
            sizes = " AND ".join(f"coalesce(abs({end}) <= {_LARGEST}, TRUE)" for end in {low, high})
            self.check(sizes, every, too_large)
        self._ends[term.sql] = low, high
        return low, high

    def spot(self, term: Term, low: str, high: str, middle: str) -> Term:
        """Return a term that stands for a number that is known by its ends."""
        number = next(self._columns)
        self.staged({f"l{number}": low, f"h{number}": high, f"v{number}": middle})
        return replace(term, sql=f"\x01{number}\x02")

    def shortened(self, term: Term) -> Term:
        """Return a term whose text is short: longer ones become columns."""
        if len(term.sql) + len(term.label) + len(term.undeclared) < _LONG:
            return term
        if term.spots:
            return self.spot(term, *self.ends(term), term.everywhere("v"))
        texts = (term.sql, term.label, term.undeclared)
        names = [f"x{self.new_number()}" if text else "" for text in texts]
        self.staged({name: text for name, text in zip(names, texts, strict=True) if name})
        return replace(term, sql=names[0], label=names[1], undeclared=names[2])

    def held(self, truth: Truth) -> Truth:
        """Return a condition whose texts are short: longer ones become columns."""
        fields = [getattr(truth, name) for name in truth.__slots__[:-1]] if truth.sql is None else [truth.sql]
        if sum(map(len, fields)) < _LONG:
            return truth
        names = [f"x{next(self._columns)}" for _ in fields]
        self.staged(dict(zip(names, fields, strict=True)))
        return Truth(*names) if truth.sql is None else Truth.certain(names[0])

    def decided(self, truth: Truth) -> str:
        """Return SQL of a condition; of one that rows leave open, a column that is all that it may be."""
        if truth.sql is not None:
            return truth.sql
        if truth not in self._choices:
            if len(self._choices) == _MOST_CHOICES:
                raise QueryError(
                    "this expression holds too many conditions that cells leave open; compare with edges of "
                    "cells",
                    code="too_large",
                )
            self._choices[truth] = f"c{next(self._columns)}"
            self._stages.append((self._choices[truth], truth))
        return self._choices[truth]

    def condition(self, truth: Truth) -> CellCondition:
        """Return where a condition holds, cell by cell."""
        asked = {"weight": "w"}
        if truth.sql is not None:
            return _Cells(self, asked | {"sql": truth.sql}).condition
        asked |= {"true": truth.true, "false": truth.false, "null": truth.null, "share": truth.share}
        return _Cells(self, asked).condition

    def values(self, term: Term) -> CellValues:
        """Return what a row of each cell holds of a term."""
        if term.source is not None:  # a column, or a constant, as it stands
            return replace(term.source, kind=term.kind)
        if term.shape == "null":
            return constant_value(None)
        asked = {"weight": "w", "null": term.null}
        flags = {"open": term.open, "lost": term.lost, "other": {term.undeclared} - {""}}
        asked |= {name: either(*sorted(columns)) or "FALSE" for name, columns in flags.items()}
        if term.shape != "text":
            low, high = self.ends(term)
            asked |= {"low": low, "high": high, "middle": term.everywhere("v")}
        if term.shape != "number":
            asked |= {"label": term.label, "text": term.label if term.shape in PERIODS else term.sql}
        return _Cells(self, asked).values(term)

    # --- rows

    @property
    def scope(self) -> tuple[str, ...]:
        """The attributes that are named, in declared order."""
        return self.domain.scope(list({one.attribute for one in self.inputs.values()}))

    @property
    def is_too_long(self) -> bool:
        """There are so many rows that whole numbers of wide cells are better known by their ends."""
        sizes = {name: self.domain[name].size for name in self.scope}
        for one in self.inputs.values():
            if one.listed and one.values is not None:
                sizes[one.attribute] += int((one.values.high - one.values.low)[one.values.present].sum())
        return any(one.listed for one in self.inputs.values()) and math.prod(sizes.values()) > _MOST_LISTED

    def _rows(self, name: str, used: Container[str]) -> Columns:
        """Return the values of one attribute's cells, in the columns that are used."""
        attribute = self.domain[name]
        own = [one for one in self.inputs.values() if one.attribute == name]
        fresh, rows = self._witnesses(name, own), Rows.of(np.arange(attribute.size))
        listed = next((one.values for one in own if one.listed and one.values is not None), None)
        if listed is not None:
            rows = _listed(listed)
        elif name in self._starts:
            rows = _pieces(attribute, self._starts[name])
        if fresh:
            kept = rows.cells != attribute.other_code
            weight = 1 / len(fresh) if any(one.keys for one in own) else np.arange(len(fresh)) == 0
            others = Rows.of(np.full(len(fresh), attribute.other_code), weight=weight, texts=fresh)
            rows = Rows(*(one[kept] for one in rows)).and_(others)
        columns: Columns = {"k": rows.cells, "w": rows.weight}
        for one in own:
            held = one.columns(rows)
            columns |= {column: values for column, values in held.items() if column in used}
        return columns

    def _witnesses(self, name: str, own: Sequence[Input]) -> list[str]:
        """Return the texts that stand for all that an attribute does not declare: one of its own first."""
        lookups = [one for one in own if one.keys]
        inner = [one.keys.keys() for one in lookups if not one.outer]
        if inner:  # a record that is meant has a key of each
            return [key for key in inner[0] if all(key in keys for keys in inner)]
        held = [one.values for one in own if one.values is not None and one.values.declared]
        if not lookups and not any(one.undecided.any() for one in held):
            return []
        declared = frozenset[str]().union(*(one.declared for one in held))
        others = [
            one for one in self.inputs.values() if one.attribute != name and one.values is not None
            and one.values.labels is not None and not one.values.dated
        ]  # fmt: skip
        names = [name, *sorted({one.attribute for one in others})]
        found = dict.fromkeys(f"{_FRESH}{one}" for one in names) | dict.fromkeys(self.texts)
        found |= dict.fromkeys(key for one in lookups for key in one.keys)
        for other in others:
            assert other.values is not None and other.values.labels is not None  # noqa: S101, PT018 - texts
            told = other.values.labels[~other.values.undecided]
            found |= dict.fromkeys(canonical_text(one) for one in told if one is not None)
            found |= dict.fromkeys(one for one in other.keys.values() if one is not None)
        return [one for one in found if one not in declared]

    def evaluated(self, columns: Mapping[str, str]) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Return the cell of each row, and some columns over the rows; what is checked is refused."""
        scope = self.scope
        count_cells(self.domain.scope_size(scope), scope)
        text = self._text(columns)
        used = set(_NAME.findall(text))
        tables = [self._rows(name, used) for name in scope]
        size, steps = math.prod(len(table["k"]) for table in tables), max(1, len(self.checks) // 2)
        is_text = any(one.dtype == object for table in tables for one in table.values())
        count_cells(size * steps * (TEXT if is_text else 1), scope)
        texts = {name: one for one, name in self.texts.items() if name in used}
        rows = _product(tables, [self.domain[name].size for name in scope])
        cells, *found = evaluated(text, rows, texts)
        told = dict(zip(self._asked(columns), found, strict=True))
        for sql, holds, error in self.checks:
            if not holds(np.ma.masked_array(told[sql]), cells):
                raise error()
        return cells, {name: told[sql] for name, sql in columns.items()}

    def _asked(self, columns: Mapping[str, str]) -> dict[str, None]:
        return dict.fromkeys([*columns.values(), *(check for check, _, _ in self.checks)])

    def _text(self, columns: Mapping[str, str]) -> str:
        text = "r" if self.inputs else "(SELECT 0 AS k, 1e0 AS w)"
        for stage in self._stages:
            if isinstance(stage, dict):
                made = ", ".join(f"{sql} AS {name}" for name, sql in stage.items())
                text = f"(SELECT *, {made} FROM {text})"  # noqa: S608 - written here
            else:
                text = _choosing(*stage, text)
        listed = ", ".join(f"{sql} AS z{place}" for place, sql in enumerate(self._asked(columns)))
        return f"SELECT k, {listed} FROM {text}"  # noqa: S608 - written here


def _product(tables: Sequence[Columns], sizes: Sequence[int]) -> Columns:
    """Return the rows of several attributes together: each row of one with each of the others."""
    if len(tables) < 2:
        return tables[0] if tables else {}
    lengths = [len(table["k"]) for table in tables]
    found: Columns = {"k": np.zeros(1, dtype=np.int64), "w": np.ones(1)}
    places = np.indices(lengths).reshape(len(lengths), -1)
    for table, place, size in zip(tables, places, sizes, strict=True):
        held = {name: column[place] for name, column in table.items()}
        found |= held | {"k": found["k"] * size + held["k"], "w": found["w"] * held["w"]}
    return found


def _choosing(name: str, truth: Truth, rows: str) -> str:
    """Return rows once for each outcome that a condition may have; NULL weighs what FALSE leaves."""
    share = f"least(greatest({truth.share}, 1e-9), 1e0)"
    return (
        f"(SELECT * REPLACE (CASE WHEN {name} AND NOT ({truth.false} OR {truth.null}) THEN w "  # noqa: S608
        f"WHEN {name} THEN w * {share} WHEN {truth.true} THEN w * (1e0 - {share}) ELSE w END AS w) "
        f"FROM (SELECT * FROM (VALUES (TRUE), (FALSE), (NULL)) AS o({name}), {rows}) WHERE CASE WHEN {name} "
        f"THEN {truth.true} WHEN NOT {name} THEN {truth.false} ELSE {truth.null} END)"
    )


def _pieces(attribute: Attribute, starts: Sequence[NDArray[np.int64]]) -> Rows:
    """Return a row for each piece of a cell of dates that lies inside one period of each kind."""
    assert isinstance(attribute, Periods)  # noqa: S101 - it has starts of periods
    bounds = np.array(attribute.boundaries) * attribute.scale
    points = np.unique(np.concatenate([bounds[:-1], *starts]))
    points = points[(points >= bounds[0]) & (points < bounds[-1])]
    stops = np.append(points[1:], bounds[-1])
    cells = bounds.searchsorted(points, side="right") - 1
    pieces = Rows.of(cells, points, stops - attribute.scale, (stops - points) / np.diff(bounds)[cells])
    return pieces.and_(Rows.of(np.arange(attribute.base_size, attribute.size)))


def _listed(values: CellValues) -> Rows:
    """Return a row for each whole number of each cell: its cell, the number, and its share of the cell."""
    single = values.present & (values.low == values.high)
    points = set(values.low[single].tolist())  # numbers with a cell of their own
    cells, numbers, weights = list[int](), list[float](), list[float]()
    for cell, (low, high) in enumerate(zip(values.low, values.high, strict=True)):
        held = [low] if low == high else [one for one in np.arange(low, high + 1) if one not in points]
        cells += [cell] * len(held)
        numbers += held
        weights += [1 / len(held)] * len(held)
    return Rows.of(np.array(cells), np.array(numbers), np.array(numbers), np.array(weights))


def every(passed: np.ma.MaskedArray[Any, Any], cells: NDArray[np.int64]) -> bool:
    """Tell whether every row passes."""
    del cells
    return bool(passed.all())


def some(passed: np.ma.MaskedArray[Any, Any], cells: NDArray[np.int64]) -> bool:
    """Tell whether some row passes."""
    del cells
    return bool(passed.filled(False).any())


def some_decided(passed: np.ma.MaskedArray[Any, Any], cells: NDArray[np.int64]) -> bool:
    """Tell whether in some cell all rows pass, or none, of those that know; or whether none knows."""
    known = ~np.ma.getmaskarray(passed)
    holds, fails = np.zeros((2, int(cells.max()) + 1), dtype=bool)
    holds[cells[passed.filled(False)]] = True
    fails[cells[known & ~passed.filled(True)]] = True
    return not known.any() or bool((holds != fails).any())


class _Cells:
    def __init__(self, rows: Writer, columns: Mapping[str, str]) -> None:
        self.rows = rows
        self.cells, self.found = rows.evaluated(columns)
        self.shape = rows.domain.scope_shape(rows.scope)
        self.size = math.prod(self.shape)

    @property
    def condition(self) -> CellCondition:
        if "sql" in self.found:
            true = np.ma.filled(self.found["sql"], False)
            always, share = true, true.astype(np.float64)
        else:
            true, share = self.found["true"], self.found["share"]
            always = true & ~(self.found["false"] | self.found["null"])
        least, most = ~self._some(~always), self._some(true)
        total, held = (
            np.bincount(as_index(self.cells), self.found["weight"] * part, minlength=self.size)
            for part in (1.0, share * true)
        )
        part = np.clip(held / total, 0.0, 1.0).reshape(self.shape)
        return CellCondition(self.rows.scope, least.reshape(self.shape), part, most.reshape(self.shape))

    def _some(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        some = np.zeros(self.size, dtype=bool)
        some[self.cells[np.asarray(rows, dtype=bool)]] = True
        return some

    def values(self, term: Term) -> CellValues:
        null = np.asarray(self.found["null"], dtype=bool)
        lost, open_ = self._some(self.found["lost"]), self._some(self.found["open"])
        present, empty = self._some(~null), self._some(null)
        undecided = open_ | lost
        ends = [np.zeros(self.size) for _ in range(3)]
        if term.shape != "text":
            ends = self._ends(~null)
        labels, declared = None, frozenset[str]()
        if term.shape != "number":
            labels, open_, declared = self._labels(term, null, undecided)
            undecided |= open_
            if term.shape in PERIODS and not term.plain:
                undecided |= ends[0] != ends[2]
        elif np.any(present & empty & ~undecided):
            raise QueryError(
                "CASE WHEN cuts cells, and its values cannot be told inside them; compare with an edge of a "
                "cell",
                code="unaligned",
            )
        low, middle, high = (one.reshape(self.shape) for one in ends)
        return CellValues(
            self.rows.scope, low, middle, high, (present & ~empty).reshape(self.shape),
            None if labels is None else labels.reshape(self.shape), term.kind, undecided.reshape(self.shape),
            declared, term.shape if term.shape in PERIODS else "", term.line,
        )  # fmt: skip

    def _ends(self, held: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
        """Return the least number of each cell, the one that stands for it, and the greatest."""
        cells = self.cells[held]
        weight = np.asarray(self.found["weight"], dtype=np.float64)[held]
        low, middle, high = (
            np.asarray(self.found[name], dtype=np.float64)[held] for name in ("low", "middle", "high")
        )
        least, most = np.full(self.size, np.inf), np.full(self.size, -np.inf)
        np.minimum.at(least, cells, low)
        np.maximum.at(most, cells, high)
        total = np.bincount(as_index(cells), weight, minlength=self.size)
        mean = np.bincount(as_index(cells), weight * middle, minlength=self.size) / np.maximum(total, 1e-300)
        gone = ~np.isfinite(least)
        return [np.where(gone, 0.0, one) for one in (least, np.clip(mean, least, most), most)]

    def _labels(
        self, term: Term, null: NDArray[np.bool_], undecided: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], NDArray[np.bool_], frozenset[str]]:
        """Return the text of each cell, which cells do not tell it, and texts that none of these holds."""
        given = self.rows.inputs.values() if term.plain else ()
        held = [one.values.labels for one in given if one.values is not None]
        own = [one for some in held if some is not None for one in some.tolist() if one is not None]
        raw = {canonical_text(one): one for one in own}
        shown = np.ma.filled(self.found["label"], None).tolist()
        labels, told = np.full(self.size, None, dtype=object), np.zeros(self.size, dtype=bool)
        open_ = np.zeros(self.size, dtype=bool)
        for cell, empty, label in zip(self.cells.tolist(), null.tolist(), shown, strict=True):
            shown_label = None if empty else label
            open_[cell] |= told[cell] and labels[cell] != shown_label
            labels[cell], told[cell] = shown_label, True
        labels[open_] = None
        named = np.array([one == OTHER_LABEL for one in labels]) & self._some(self.found["other"])
        untold = undecided | open_ | named
        witnesses = np.ma.filled(self.found["text"], None)[untold[self.cells]].tolist()
        known = frozenset(labels[~untold].tolist()) - {None} - set(witnesses)
        labels[:] = [raw.get(one, one) for one in labels.tolist()]
        return labels, open_ | named, known if not (undecided | open_).any() else frozenset()
