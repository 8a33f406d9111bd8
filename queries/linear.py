"""Linear (counting) queries: a weight in [0, 1] for each cell of a scope.

The answer on a table is the sum over its records of the weight of the record's cell. Weights are whole
multiples of 2^-20, so that an answer on integer counts is an exact integer in units of 2^-20 records.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.domain import Attribute, Domain
from queries.errors import ScopeError
from queries.factors import UNITS, Factor, Span, normalised, weight_runs
from queries.frozen import dataclass
from queries.impossible import without_impossible
from queries.marginal import Marginal

_SHORT = 2**13  # bytes of a factor whose text is kept
_compact = json.JSONEncoder(separators=(",", ":")).encode  # one for all: making one takes as long as its use
_quoted = functools.lru_cache(maxsize=1024)(_compact)


@dataclass(frozen=True, slots=True)
class _Part:
    """One factor inside the query's bounding box, where it is not constantly one record."""

    shape: tuple[int, ...]  # ready to broadcast over the box
    factor: Factor

    @property
    def weights(self) -> NDArray[np.int64]:
        """The weights, made anew where they are kept in fewer bytes: int64, units, over the box."""
        return self.factor.weights[self.factor.box].reshape(self.shape)


class Readings(NamedTuple):
    """The two questions on whole cells that a question lies between which the cells cannot decide.

    ``least`` leaves out every cell that is not decided, ``most`` counts it whole: for every table the number
    of records that the condition holds for lies between their answers.
    """

    least: LinearQuery
    most: LinearQuery


@dataclass(frozen=True, slots=True, eq=False)
class LinearQuery:
    """A counting query as a product of factors over disjoint sets of attributes.

    One factor per attribute is the product form; one factor over everything is the dense form. Factors
    that are constantly one record leave the scope; a query that is zero everywhere has an empty scope. In
    impossible cells of the domain weights are zero.

    Args:
        domain: the table's domain.
        factors: at most one of them may hold weights other than 0 and one record, so that a cell's
            weight is never the product of two rounded numbers.
        aligned: False when the cells cannot decide a condition, whose weights are then the shares of evenly
            filled cells. Questions of earlier versions are so without readings.
        readings: of a condition that the cells cannot decide; None where they do. The least weights are
            nowhere above the weights, the most nowhere below.

    Attributes:
        scope: the attributes that the answer depends on, or that a reading's does, in declared order.

    Raises:
        ScopeError: factors overlap, do not fit the domain, or two of them hold fractions; or a reading is no
            question on whole cells.
    """

    domain: Domain
    factors: tuple[Factor, ...]
    aligned: bool = True
    readings: Readings | None = None
    scope: tuple[str, ...] = field(init=False)
    box: tuple[slice, ...] = field(init=False, repr=False)
    _parts: tuple[_Part, ...] = field(init=False, repr=False)
    _constant: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        put, found = object.__setattr__, self._in_order() or self._checked()
        put(self, "factors", found[0])
        put(self, "aligned", found[1])
        put(self, "scope", found[2])
        put(self, "box", found[3])
        put(self, "_parts", found[4])
        put(self, "_constant", found[5])

    def _in_order(self) -> _Found | None:
        """Return what ``_checked`` does of sets of cells of one attribute each, in declared order; else None.

        Most questions are such products; this takes a fifth of the time.
        """
        domain, last, names, box = self.domain, -1, list[str](), list[slice]()
        if domain.impossible or self.readings is not None:
            return None
        for factor in self.factors:
            if len(factor.scope) != 1 or not factor.is_indicator or factor.constant is not None:
                return None
            (name,), before = factor.scope, last
            last = domain.index(name)
            if last <= before or factor.shape[0] != domain.shape[last]:
                return None
            names.append(name)
            box += factor.box
        scope = tuple(names)
        parts = tuple([_part(scope, factor) for factor in self.factors if not factor.is_box])
        return tuple(self.factors), self.aligned, scope, tuple(box), parts, UNITS

    def _checked(self) -> _Found:
        """Return the values of the fields, once the factors are found to be what a question has."""
        domain, named = self.domain, [name for factor in self.factors for name in factor.scope]
        positions = {name: domain.index(name) for name in named}
        if len(positions) < len(named):
            domain.scope(named)  # words the refusal
        for factor in self.factors:
            places = [positions[name] for name in factor.scope]
            shape = tuple([domain.shape[place] for place in places])
            if factor.shape != shape or (len(places) > 1 and places != sorted(places)):
                raise ScopeError(
                    f"expected weights of shape {shape} over {list(factor.scope)} in declared order, "
                    f"got {factor.shape}"
                )
        if sum([not factor.is_indicator for factor in self.factors]) > 1:
            raise ScopeError("expected fractions in one factor at most; multiply the factors before rounding")
        constant, factors = normalised(self._possible_factors())
        sides: dict[str, slice] = {}
        if self.readings is not None:
            for name in self._reading_scopes(self.readings):
                positions[name] = domain.index(name)
                sides[name] = slice(0, domain[name].size)
        for factor in factors:
            sides.update(zip(factor.scope, factor.box, strict=True))
        factors = tuple(sorted(factors, key=lambda factor: positions[factor.scope[0]]))
        scope = tuple(sorted(sides, key=positions.__getitem__))
        parts = tuple([_part(scope, factor) for factor in factors if not factor.is_box])
        box = tuple([sides[name] for name in scope])
        return factors, self.aligned and self.readings is None, scope, box, parts, constant

    def _possible_factors(self) -> tuple[Factor, ...]:
        impossible = self.domain.impossible
        return without_impossible(impossible, self.domain.sizes, self.factors) if impossible else self.factors

    def _reading_scopes(self, readings: Readings) -> tuple[str, ...]:
        """Return the attributes of both readings, once they are found to be questions on whole cells."""
        for reading in readings:
            if reading.domain != self.domain or not reading.aligned or not reading.is_whole:
                raise ScopeError("expected readings of whole cells, with weights of 0 and one record")
        return readings.least.scope + readings.most.scope

    def over(self, scope: tuple[str, ...]) -> LinearQuery:
        """Return the product of the constant and of the factors about some of the attributes.

        Args:
            scope: attribute names; each factor is about some of them alone, or about others.
        """
        factors = [factor for factor in self.factors if factor.scope[0] in scope]
        if self._constant != UNITS:
            factors.append(Factor((), np.array(self._constant, dtype=np.int64)))
        return LinearQuery(self.domain, tuple(factors))

    @classmethod
    def everything(cls, domain: Domain) -> LinearQuery:
        """Return the query that counts every record."""
        return cls(domain, ())

    @classmethod
    def cells(cls, domain: Domain, ranges: Mapping[str, tuple[int, int]]) -> LinearQuery:
        """Return the query that counts the records inside a box.

        Args:
            domain: the table's domain.
            ranges: first and last cell (inclusive) per attribute.

        Raises:
            ScopeError: an attribute is unknown or a range is empty or outside the attribute.
        """
        factors = []
        for name, (low, high) in ranges.items():
            size = domain[name].size
            if not 0 <= low <= high < size:
                raise domain[name].no_cell(f"the range {low}..{high}")
            factors.append(range_factor(name, size, low, high + 1))
        return cls(domain, tuple(factors))

    def within(self, cells: Mapping[str, int | NDArray[np.int64]]) -> LinearQuery:
        """Return the query that counts the same records, but only those in some cells of some attributes.

        Args:
            cells: per attribute one cell, or several: int64, shape (cells,).

        Raises:
            ScopeError: an attribute is unknown or has no such cell.
        """
        readings = None
        if self.readings is not None:
            readings = Readings(*(reading.within(cells) for reading in self.readings))
            if readings.least.key() == readings.most.key():
                return readings.least  # the cells that are not decided lie outside
        chosen = {name: _chosen(self.domain, name, cell) for name, cell in cells.items()}
        weighted = {name for factor in self.factors for name in factor.scope}
        kept = [factor for name, factor in chosen.items() if name not in weighted]
        inside = {name: factor.weights // UNITS for name, factor in chosen.items() if name in weighted}
        kept += [one.cut(inside) if inside.keys() & one.scope else one for one in self.factors]
        if self._constant != UNITS:
            kept.append(Factor((), np.array(self._constant, dtype=np.int64)))
        narrowed = LinearQuery(self.domain, tuple(kept), aligned=self.aligned, readings=readings)
        if self.aligned or readings is not None or not narrowed.is_whole:
            return narrowed
        return LinearQuery(self.domain, tuple(kept))  # the cut cells lie outside

    @property
    def size_in_bytes(self) -> int:
        """Bytes that the weights of the question and of its readings are kept in."""
        own = sum([factor.size_in_bytes for factor in self.factors])
        return own + sum([reading.size_in_bytes for reading in self.readings or ()])

    @property
    def is_whole(self) -> bool:
        """Every weight is 0 or one record."""
        return self._constant in (0, UNITS) and all(factor.is_indicator for factor in self.factors)

    @property
    def constant(self) -> int:
        """The weight that multiplies all factors, in units of 2^-20; 0 for the query that counts nobody."""
        return self._constant

    @property
    def is_box(self) -> bool:
        """True when the weights are one record inside ``box`` and zero outside."""
        return not self._parts and self._constant == UNITS

    @property
    def is_product(self) -> bool:
        """True when the weights are one record in some cells of each attribute, but not all, else zero."""
        alone = all(len(factor.scope) == 1 and factor.is_indicator for factor in self.factors)
        return alone and bool(self.factors) and self._constant == UNITS and self.aligned

    def answer(self, marginal: Marginal) -> int:
        """Return the exact answer on integer counts.

        Args:
            marginal: records per cell over a scope that contains this query's.

        Returns:
            The answer in units of 2^-20 records.
        """
        counts = marginal if marginal.scope == self.scope else marginal.project(self.scope)
        total = counts.counts[self.box]
        scale = self._constant
        for part in self._parts:
            weights = part.weights
            if part.factor.is_indicator:
                weights = weights // UNITS
            else:
                scale = 1
            total = total * weights
        return int(total.sum(dtype=np.int64)) * scale

    def evaluate(self, values: NDArray[np.float64]) -> float:
        """Return the answer on real-valued counts.

        Args:
            values: float64, records per cell over exactly this query's scope.

        Returns:
            The answer in records.
        """
        total = values[self.box]
        for number, part in enumerate(self._parts):
            weights = part.weights / UNITS
            total = np.multiply(total, weights, out=total if number else None)  # the first makes a copy
        return float(total.sum()) * (self._constant / UNITS)

    def weights(self) -> NDArray[np.int64]:
        """Return the weights over the whole scope: int64, units of 2^-20 records per cell."""
        shape = self.domain.scope_shape(self.scope)
        weights = np.zeros(shape, dtype=np.int64)
        inside = np.full(weights[self.box].shape, self._constant, dtype=np.int64)
        for part in self._parts:
            inside = inside * part.weights // UNITS
        weights[self.box] = inside
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical form: runs ``[start, stop, weight]`` of non-zero weights per factor."""
        factors = [[list(factor.scope), weight_runs(factor)] for factor in self.factors]
        form: dict[str, Any] = {"factors": factors}
        if self._constant != UNITS:
            form["constant"] = self._constant
        if not self.aligned:
            form["aligned"] = False
        if self.readings is not None:
            form.update((name, reading.to_dict()) for name, reading in self.readings._asdict().items())
        return form

    @classmethod
    def from_dict(cls, domain: Domain, form: Mapping[str, Any]) -> LinearQuery:
        """Return the query of a canonical form."""
        factors = []
        for scope, runs in form["factors"]:
            weights = np.zeros(domain.scope_size(scope), dtype=np.int64)
            for start, stop, weight in runs:
                weights[start:stop] = weight
            factors.append(Factor(tuple(scope), weights.reshape(domain.scope_shape(scope))))
        if "constant" in form:
            factors.append(Factor((), np.array(form["constant"], dtype=np.int64)))
        readings = None
        if "least" in form:
            readings = Readings(*(cls.from_dict(domain, form[name]) for name in Readings._fields))
        return cls(domain, tuple(factors), aligned=bool(form.get("aligned", True)), readings=readings)

    def to_json(self) -> str:
        """Return the canonical form as text; queries with equal texts have equal weights and readings."""
        if self._constant == UNITS and self.aligned:
            return f'{{"factors":[{",".join(map(_text, self.factors))}]}}'
        return _compact(self.to_dict())

    def key(self) -> bytes:
        """Return the SHA-256 of the canonical text: equal keys have equal weights and readings."""
        return hashlib.sha256(self.to_json().encode()).digest()

    def describe(self) -> str:
        """Return the query in words, such as ``age 30 to 39 and sex Female``."""
        if self.readings is not None and self.is_whole:
            return f"part of {self.readings.most.describe()}"  # the weights say nothing of what is asked
        if self._constant == 0:
            return "nobody"
        words = " and ".join(_described(self.domain, factor) for factor in self.factors) or "everybody"
        return words if self._constant == UNITS else f"{words} (x {self._constant / UNITS:.3g})"


_Found: TypeAlias = tuple[
    tuple[Factor, ...], bool, tuple[str, ...], tuple[slice, ...], tuple[_Part, ...], int
]


@functools.lru_cache(maxsize=2**14)
def range_factor(name: str, size: int, start: int, stop: int) -> Factor:
    """Return one record in each of consecutive cells of an attribute; it is kept, for ranges come again."""
    return Factor((name,), Span(size, slice(start, stop)))


def _text(factor: Factor) -> str:
    if factor.is_box and len(factor.box) == 1:
        (side,) = factor.box  # the same, in a tenth of the time
        return f"[[{_quoted(factor.scope[0])}],[[{side.start},{side.stop},{UNITS}]]]"
    return (_kept_text if factor.size_in_bytes <= _SHORT else _runs_text)(factor)


def _runs_text(factor: Factor) -> str:
    return _compact([factor.scope, weight_runs(factor)])


_kept_text = functools.lru_cache(maxsize=1024)(_runs_text)  # by identity: readers give a factor again


def _chosen(domain: Domain, name: str, cells: int | NDArray[np.int64]) -> Factor:
    size, listed = domain[name].size, np.atleast_1d(cells)
    low, high = (int(listed.min()), int(listed.max())) if listed.size else (0, 0)
    if not 0 <= low <= high < size:
        raise domain[name].no_cell(low)
    if listed.size == high - low + 1 and (listed.size == 1 or np.all(listed[1:] > listed[:-1])):
        return range_factor(name, size, low, high + 1)
    inside = np.zeros(size, dtype=bool)
    inside[listed] = True
    return Factor.where((name,), inside)


def _part(scope: tuple[str, ...], factor: Factor) -> _Part:
    lengths = {name: side.stop - side.start for name, side in zip(factor.scope, factor.box, strict=True)}
    return _Part(tuple([lengths.get(name, 1) for name in scope]), factor)


def _described(domain: Domain, factor: Factor) -> str:
    if len(factor.scope) != 1:
        return f"a condition on {', '.join(factor.scope)}"
    attribute = domain[factor.scope[0]]
    pieces = []
    for start, stop, weight in weight_runs(factor):
        for first, end in _apart(attribute, start, stop):
            text = attribute.span_label(first, end)
            if weight != UNITS:
                text += f" (x {weight / UNITS:.3g})"
            pieces.append(text)
    shown = pieces if len(pieces) <= 6 else [*pieces[:5], f"{len(pieces) - 5} more"]
    return f"{attribute.name} {', '.join(shown)}"


def _apart(attribute: Attribute, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive cells, those of single numbers one by one: they have no place among the others."""
    if not attribute.atoms or stop <= attribute.base_size:
        yield start, stop
        return
    if start < attribute.base_size:
        yield start, attribute.base_size
    yield from ((code, code + 1) for code in range(max(start, attribute.base_size), stop))


def cut_factors(query: LinearQuery) -> list[Factor]:
    """Return the factors of a question's readings that the cells do not decide, the least before the most."""
    if query.readings is None:
        return [factor for factor in query.factors if not factor.is_indicator]
    least, most = ({factor.scope: factor for factor in reading.factors} for reading in query.readings)
    decided = {
        scope
        for scope in least.keys() & most.keys()
        if np.array_equal(least[scope].weights, most[scope].weights)
    }
    return [factor for reading in (least, most) for scope, factor in reading.items() if scope not in decided]


def _comparison_of(domain: Domain, factor: Factor) -> str | None:
    """Return a condition, by ``>=`` and ``<`` alone, that counts an ordered attribute's cells; else None."""
    if len(factor.scope) != 1:
        return None
    attribute = domain[factor.scope[0]]
    pieces = [attribute.condition(start, stop) for start, stop, _ in weight_runs(factor)]
    known = [piece for piece in pieces if piece is not None]
    return " OR ".join(known) if len(known) == len(pieces) <= 3 else None


def nearest_to(queries: Iterable[LinearQuery]) -> str:
    """Return the conditions on whole cells nearest to questions that cut some; a clause, or nothing."""
    found = (_comparison_of(query.domain, factor) for query in queries for factor in cut_factors(query))
    conditions = [condition for condition in dict.fromkeys(found) if condition is not None]
    return f"; nearest to it: {', or '.join(conditions)}" if conditions else ""
