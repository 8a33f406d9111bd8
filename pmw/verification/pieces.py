"""Pieces of questions: the factors of stored questions, each read once and remembered by its text.

Many questions share few factors, and what a model or a marginal says of a question depends on each factor's
weights alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pmw.model import Coarsening
from queries.errors import QueriesError
from queries.linear import UNITS, LinearQuery

__all__ = [
    "Piece",
    "Pieces",
]

_MOST_NUMBERS = 2**22  # remembered; 32 MB
_HEAD, _TAIL, _CUT_TAIL = '{"factors":[', "]}", '],"aligned":false}'
# Inside a text of JSON a quote follows a backslash: where this stands, a string begins or ends.
_END, _START = "]]]", '[["'


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One factor of a question; weights are float64, of records, flat.

    Args:
        scope: attribute names in declared order.
        position: of the first of them in the domain.
        fine: on declared cells.
        mean: on groups, by the shares of their cells.
        inner: on groups, the least weight inside each.
        outer: on groups, the greatest.
        is_cut: the weights differ inside a group.
        is_fractional: some weight is neither 0 nor one record.
    """

    scope: tuple[str, ...]
    position: int
    fine: NDArray[np.float64]
    mean: NDArray[np.float64]
    inner: NDArray[np.float64]
    outer: NDArray[np.float64]
    is_cut: bool
    is_fractional: bool

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return self.fine.size + 3 * self.mean.size


class Pieces:
    """What was read of questions so far; no more than fits in a few megabytes.

    Args:
        coarsening: the groups of the session's model.
    """

    def __init__(self, coarsening: Coarsening) -> None:
        self._coarsening = coarsening
        self._known: dict[str, Piece | None] = {}
        self._numbers = 0

    def of(self, text: str) -> tuple[Piece, ...] | None:
        """Return the factors of a question, or None where its text is not canonical or of a rarer form.

        Canonical are texts that the question would be written as: factors that are so by themselves, over
        different attributes, in declared order, of which one may be fractional.
        """
        tail = _CUT_TAIL if text.endswith(_CUT_TAIL) else _TAIL
        if not (text.startswith(_HEAD) and text.endswith(tail)):
            return None
        parts = text[len(_HEAD) : len(text) - len(tail)].split(f"{_END},{_START}")
        last, found = len(parts) - 1, []
        for place, part in enumerate(parts):
            piece = self._piece((_START if place else "") + part + (_END if place < last else ""))
            if piece is None:
                return None
            found.append(piece)
        if any(one.position >= other.position for one, other in pairwise(found)):
            return None
        names = [name for piece in found for name in piece.scope]
        if len(names) > len(set(names)) or sum(piece.is_fractional for piece in found) > 1:
            return None
        return tuple(found)

    def _piece(self, text: str) -> Piece | None:
        if text not in self._known:
            if self._numbers > _MOST_NUMBERS:
                self._known.clear()
                self._numbers = 0
            piece = self._known[text] = _read(text, self._coarsening)
            self._numbers += len(text) + (0 if piece is None else piece.numbers)
        return self._known[text]


def _read(text: str, coarsening: Coarsening) -> Piece | None:
    """Return the factor of a text, or None where the text is not canonical."""
    try:
        query = LinearQuery.from_dict(coarsening.fine, {"factors": [json.loads(text)]})
    except (QueriesError, ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError):
        return None
    if len(query.factors) != 1 or query.to_json() != f"{_HEAD}{text}{_TAIL}":
        return None
    (factor,) = query.factors
    inner, outer = coarsening.extremes(factor.scope, factor.weights)
    weights = factor.weights / UNITS
    return Piece(
        scope=factor.scope,
        position=coarsening.fine.index(factor.scope[0]),
        fine=weights.ravel(),
        mean=coarsening.averaged(factor.scope, weights).ravel(),
        inner=inner.ravel() / UNITS,
        outer=outer.ravel() / UNITS,
        is_cut=not np.array_equal(inner, outer),
        is_fractional=not factor.is_indicator,
    )
