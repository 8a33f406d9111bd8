"""What is bounded: a question, products of sets, or a sum of numbers; what it is on bins, and its parts.

All are sums of w_i x_i over the cells of a scope, of one question or of many at once. On bins a sum lies
between that of the least and that of the greatest weight in each bin. Over some of its attributes it has
parts: the sum of the greatest weights that the other attributes leave, which is no smaller on any table, and
that of the least, which is no greater.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.bins import Coarsening
from pmw.public.answer import Basis
from pmw.public.evidence import BASES, Candidates, Evidence
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.questions import Products

Array: TypeAlias = NDArray[np.float64]
Number: TypeAlias = float | Array  # of one sum, or of n
Held: TypeAlias = Callable[[tuple[str, ...]], Candidates]  # what is known over a scope
RELEASED = BASES.index(Basis.RELEASED)
_CLOSE = 1e-12  # relative: what a product of weights may lose to rounding


class Bound(NamedTuple):
    """Values, how far the truth may be from them, in records, and places in ``BASES`` of what they rest on.

    The half-width is infinite where nothing is known.
    """

    value: Number
    half_width: Number
    basis: Number


NOTHING = Bound(0.0, math.inf, RELEASED)


class Split(NamedTuple):
    """The parts of a sum, whose weights w come from those of its parts, g_b, each over attributes of its own.

    ``product``: w = scale * prod g_b, each g_b in [0, 1].
    ``union``: w = scale * (1 - prod (1 - g_b)), each g_b in [0, 1].
    ``any``: neither; the parts are over one attribute each, and bound the sum from one side; the scale is 1.
    """

    form: Literal["product", "union", "any"]
    scale: float
    below: Sequence[Bounded]
    above: Sequence[Bounded]


class OneSum:
    """A sum with real weights over a scope, each of records of one cell."""

    __slots__ = ("_weights", "scope")

    def __init__(self, scope: tuple[str, ...], weights: Array) -> None:
        self.scope = scope
        self._weights = weights

    @classmethod
    def of_varying(cls, scope: tuple[str, ...], weights: Array) -> OneSum:
        """Return a sum over those of the attributes that its weights vary over."""
        return cls(*narrowed(scope, weights))

    @property
    def weights(self) -> Array:
        """Of the cells: float64, one axis per attribute, records."""
        return self._weights

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the greatest weight."""
        return float(self.weights.min()), float(self.weights.max())

    def value(self, evidence: Evidence) -> float:
        """Return the sum on the values of an evidence."""
        return float(np.sum(self.weights * evidence.values))

    def chosen(self, candidates: Candidates) -> tuple[int, float]:
        """Return the place of the evidence that bounds it, and its half-width."""
        return candidates.of_weights(self.weights)

    def reduced(self, coarsening: Coarsening) -> tuple[OneSum, OneSum]:
        """Return the sums of the least and of the greatest weight in each bin; one object if equal."""
        least = coarsening.least(self.scope, self.weights)
        greatest = coarsening.greatest(self.scope, self.weights)
        low = OneSum.of_varying(self.scope, least)
        return low, low if np.array_equal(least, greatest) else OneSum.of_varying(self.scope, greatest)

    def bound(self, held: Held, everybody: Callable[[float], Bound]) -> Bound:
        """Return what the evidence with the smallest half-width says.

        Args:
            held: what is known, over a scope that may be narrower where a bin was cut.
        """
        if not self.scope:  # one weight, or none where a bin was cut: everybody, or nobody
            return everybody(self.reach[1])
        candidates = held(self.scope)
        place, width = self.chosen(candidates)
        if place < 0:
            return NOTHING
        found = candidates.evidences[place]
        return Bound(self.value(found), width, found.basis)

    def split(self) -> Split:
        """Return the parts, over single attributes where that is possible."""
        scope, weights = self.scope, self.weights
        scale = float(weights.max())
        if scale > 0 and weights.min() >= 0:
            sides = _sides(weights / scale)
            if _is_close(_product(sides) * scale, weights, scale):
                blocks = [OneSum((name,), side) for name, side in zip(scope, sides, strict=True)]
                return Split("product", scale, blocks, blocks)
            sides = _sides(1 - weights / scale)
            if _is_close((1 - _product(sides)) * scale, weights, scale):
                blocks = [OneSum((name,), 1 - side) for name, side in zip(scope, sides, strict=True)]
                return Split("union", scale, blocks, blocks)
        below, above = (
            [OneSum((name,), side) for name, side in zip(scope, _sides(weights, end), strict=True)]
            for end in (np.min, np.max)
        )
        return Split("any", 1.0, below, above)

    def onto(self, scope: tuple[str, ...]) -> tuple[OneSum, OneSum] | None:
        """Return the sums of the least and of the greatest weights over some attributes.

        One object where they are factors of a product: the greatest weights, whose least ones are not these.
        None where the weights of one condition are about some of the attributes, and about others.
        """
        axes = tuple(axis for axis, name in enumerate(self.scope) if name not in scope)
        least, greatest = self.weights.min(axis=axes), self.weights.max(axis=axes)
        return OneSum.of_varying(scope, least), OneSum.of_varying(scope, greatest)

    def either(self, chosen: bool | NDArray[np.bool_], one: Number, other: Number) -> Number:
        """Return one number if it is chosen, and else the other."""
        return one if chosen else other


class Question(OneSum):
    """A question."""

    __slots__ = ("_query",)

    def __init__(self, query: LinearQuery) -> None:
        self.scope = query.scope
        self._query = query

    @property
    def box(self) -> tuple[slice, ...] | None:
        """The cells that it counts, where these are a run of each attribute."""
        return self._query.box if self._query.is_box else None

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the greatest weight."""
        if self._query.is_box and self.scope:
            return 0.0, 1.0
        weight = self._query.constant / UNITS
        least, greatest = weight, weight
        for factor in self._query.factors:
            least *= int(factor.weights.min()) / UNITS
            greatest *= int(factor.weights.max()) / UNITS
        return least, greatest

    def value(self, evidence: Evidence) -> float:
        """Return the answer on the values of an evidence."""
        found = None if evidence.sums is None else evidence.sums.one(self._query)
        return self._query.evaluate(evidence.values) if found is None else found

    def chosen(self, candidates: Candidates) -> tuple[int, float]:
        """Return the place of the evidence that bounds it, and its half-width."""
        return candidates.of_query(self._query)

    def reduced(self, coarsening: Coarsening) -> tuple[OneSum, OneSum]:
        """Return the inner and the outer query; see ``OneSum``."""
        inner, outer = coarsening.bounds(self._query)
        low = self if inner is self._query else Question(inner)
        return low, low if inner is outer else Question(outer)

    def split(self) -> Split:
        """Return the parts, one for each factor; see ``OneSum``."""
        query = self._query
        if len(query.factors) == 1 and len(query.scope) > 1:
            return OneSum(query.scope, query.weights() / UNITS).split()
        blocks = [Question(LinearQuery(query.domain, (factor,))) for factor in query.factors]
        return Split("product", query.constant / UNITS, blocks, blocks)

    def onto(self, scope: tuple[str, ...]) -> tuple[OneSum, OneSum] | None:
        """Return the least and the greatest weights over some attributes; see ``OneSum``."""
        query = self._query
        inside = [factor for factor in query.factors if set(factor.scope) <= set(scope)]
        if sum(len(factor.scope) for factor in inside) != len(scope):
            return None
        part = Question(query.over(scope))
        return part, part


class Counts:
    """Counts of sets of cells of the same attributes.

    Args:
        products: the questions.
        bins: their inner and their outer products of bins, one object where none cuts a bin; None for these.
        cut: they are inner or outer ones of others: some may be empty, or all bins of an attribute.
    """

    __slots__ = ("_bins", "_cut", "products")

    def __init__(
        self, products: Products, bins: tuple[Products, Products] | None = None, *, cut: bool = False
    ) -> None:
        self.products = products
        self._bins = bins
        self._cut = cut

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order."""
        return self.products.scope

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the greatest weight."""
        return 0.0, 1.0

    def reduced(self, coarsening: Coarsening) -> tuple[Counts, Counts]:
        """Return the inner and the outer products; see ``OneSum``."""
        del coarsening  # looked at already
        if self._bins is None:
            return self, self
        inner, outer = self._bins
        cut = inner is not outer
        low = Counts(inner, cut=cut)
        return low, Counts(outer, cut=cut) if cut else low

    def groups(self, coarsening: Coarsening) -> list[tuple[NDArray[np.intp], Counts]]:
        """Return the places of those that cut bins and of those that cut none, each with the bins of both."""
        inner, outer, cuts = coarsening.product_bounds(self.products)
        if not cuts.any():
            return [(np.arange(len(self.products)), Counts(self.products, (inner, inner)))]
        found = list[tuple[NDArray[np.intp], Counts]]()
        for cut in (False, True):
            places = np.flatnonzero(cuts == cut)
            if places.size:
                low = inner.take(places)
                both = low, outer.take(places) if cut else low
                found.append((places, Counts(self.products.take(places), both)))
        return found

    def bound(self, held: Held, everybody: Callable[[float], Bound]) -> Bound:
        """Return for each what the evidence with the smallest half-width says; see ``OneSum``."""
        if not self._cut:
            return Bound(*_narrowest(self.products, held(self.scope)))
        found = np.repeat([[0.0], [math.inf], [RELEASED]], len(self.products), axis=1)
        empty = self.products.are_empty()
        if empty.any():
            found[:, empty] = np.array([everybody(0.0)]).T
        rest = np.flatnonzero(~empty)
        for places, part in self.products.take(rest).parts():
            if part.scope:
                found[:, rest[places]] = _narrowest(part, held(part.scope))
            else:
                found[:, rest[places]] = np.array([everybody(1.0)]).T
        return Bound(*found)

    def split(self) -> Split:
        """Return the sets of each attribute; see ``OneSum``."""
        blocks = [Counts(self.products.over((name,))) for name in self.scope]
        return Split("product", 1.0, blocks, blocks)

    def onto(self, scope: tuple[str, ...]) -> tuple[Counts, Counts] | None:
        """Return the sets of some attributes; see ``OneSum``."""
        part = Counts(self.products.over(scope))
        return part, part

    def take(self, places: NDArray[np.intp]) -> Counts:
        """Return some of the questions, on declared cells."""
        return Counts(self.products.take(places))

    def either(self, chosen: bool | NDArray[np.bool_], one: Number, other: Number) -> Number:
        """Return one number of each question where it is chosen, and else the other."""
        return np.where(chosen, one, other)


Bounded: TypeAlias = OneSum | Counts


def _narrowest(products: Products, candidates: Candidates) -> Array:
    """Return values, half-widths and bases of products: float64, shape (3, n)."""
    found = np.repeat([[0.0], [math.inf], [RELEASED]], len(products), axis=1)
    if not candidates.evidences:
        return found
    chosen, found[1] = candidates.of_products(products)
    for number, evidence in enumerate(candidates.evidences):
        places = np.flatnonzero(chosen == number)
        if places.size:
            found[0, places] = evidence.box_sums.many(products.take(places).sides)
            found[2, places] = evidence.basis
    return found


def narrowed(scope: tuple[str, ...], weights: Array) -> tuple[tuple[str, ...], Array]:
    """Return the attributes that weights vary over, and the weights over these."""
    kept = []
    for axis, name in reversed(list(enumerate(scope))):
        first = weights.take([0], axis=axis)
        if np.all(weights == first):
            weights = first.reshape([size for place, size in enumerate(weights.shape) if place != axis])
        else:
            kept.append(name)
    return tuple(reversed(kept)), weights


def _sides(weights: Array, end: Callable[..., Array] = np.max) -> list[Array]:
    """Return for each axis the greatest weights over the others, or the least: float64, shape (cells,)."""
    axes = range(weights.ndim)
    return [end(weights, axis=tuple(other for other in axes if other != axis)) for axis in axes]


def _product(sides: Sequence[Array]) -> Array:
    return functools.reduce(np.multiply.outer, sides)


def _is_close(one: Array, other: Array, scale: float) -> bool:
    return bool(np.all(np.abs(one - other) <= _CLOSE * scale))
