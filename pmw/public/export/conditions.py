"""Conditions on exported rows: the model given a condition, and rows drawn from it.

A condition is a product of factors. One about a single attribute multiplies the model, and the shares of the
cells inside its bins. So does one about several attributes that are not binned, where the model's tree has
room for them. Rows of the model are chosen by the others, which leaves the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pmw.errors import ReleaseError
from pmw.model import (
    DEFAULT_MAX_CELLS,
    Coarsening,
    GraphicalDistribution,
    MarginalTerm,
    SyntheticDistribution,
)
from pmw.public.state import PublicState, coarse_model
from queries.factors import UNITS, Factor
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import parse_where, require_aligned
from queries.places import as_index
from queries.records import CodedRecords

_MOST_DRAWN, _TIMES = 2 * 10**6, 8  # rows that some are chosen of: so many, or so many times as many
_BATCH = 2**20  # of these rows, which are looked at together
_LEAST = 1e-300  # part of the rows, so that its inverse is a number
_SPARE = 64  # rows that are drawn beside those that are expected to be needed


@dataclass(frozen=True, slots=True, eq=False)
class ConditionedModel:
    """The model given a condition. Everything about it is public.

    Args:
        model: over the bins, given the factors that it takes in.
        coarsening: the bins, with the shares of the cells that satisfy the condition.
        records: the model's number of records that satisfy the condition.
        chosen: the factors that rows are chosen by.
        part: of the rows of ``model`` that these leave, in (0, 1].
    """

    model: SyntheticDistribution
    coarsening: Coarsening
    records: float
    chosen: tuple[Factor, ...]
    part: float

    @classmethod
    def of(cls, state: PublicState, where: str) -> ConditionedModel:
        """Return the state's model given a condition.

        Privacy: post-processing of released numbers; free.
        """
        query = parse_where(where, state.domain)
        require_aligned(query)
        records = state.model.answer(query)
        if not records > 0:
            raise ReleaseError(f"the model has no records where {where}; ask for rows that some satisfy")
        model, coarsening, held = coarse_model(state), state.coarsening, list[Factor]()
        most = state.contract.options.max_cells or DEFAULT_MAX_CELLS
        for factor in query.factors:
            has_room = not isinstance(model, GraphicalDistribution) or model.holds(factor.scope, most)
            if len(factor.scope) == 1:
                coarsening = _within(coarsening, factor)
            elif not (has_room and coarsening.keeps(factor.scope)):
                continue
            inside = state.coarsening.averaged(factor.scope, factor.weights / UNITS)
            with np.errstate(divide="ignore"):  # minus infinity forbids a cell
                model = model.with_terms((*model.terms, MarginalTerm(factor.scope, np.log(inside))))
            held.append(factor)
        chosen = tuple(factor for factor in query.factors if factor not in held)
        around = state.model.answer(LinearQuery(state.domain, tuple(held))) if chosen else records
        part = min(1.0, max(records / around, _LEAST))
        return cls(model, coarsening, records, chosen, part)

    def draw(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return rows over the declared cells, at least one."""
        if count / self.part > max(_MOST_DRAWN, _TIMES * count):
            names = ", ".join(dict.fromkeys(name for factor in self.chosen for name in factor.scope))
            raise ReleaseError(
                f"{count:,} rows are chosen by a condition on {names} together, which one in "
                f"{1 / self.part:,.0f} satisfies; ask for fewer rows, or for a wider condition"
            )
        kept, left = list[Sequence[NDArray[np.integer]]](), count
        while left > 0:
            tries = min(math.ceil(left / self.part) + _SPARE, _BATCH) if self.chosen else left
            rows = self.model.sample(tries, generator, independent=independent)
            columns = self.coarsening.drawn(rows, generator, independent=independent).columns
            places = np.flatnonzero(self._satisfied(columns))[:left]
            kept.append([column[places] for column in columns])
            left -= len(places)
        whole = tuple(np.concatenate(parts) for parts in zip(*kept, strict=True))
        return CodedRecords(self.coarsening.fine, whole)

    def _satisfied(self, columns: Sequence[NDArray[np.integer]]) -> NDArray[np.bool_]:
        """Tell which rows the factors leave that the model does not take in."""
        found = np.ones(len(columns[0]), dtype=np.bool_)
        for factor in self.chosen:
            cells = tuple(as_index(columns[self.coarsening.fine.index(name)]) for name in factor.scope)
            found &= factor.weights[cells] > 0
        return found


def _within(coarsening: Coarsening, factor: Factor) -> Coarsening:
    """Return bins with the shares of those cells that a factor about one attribute leaves."""
    place = coarsening.fine.index(factor.scope[0])
    bin_, share = coarsening.bins[place], coarsening.shares[place]
    if bin_ is None or share is None:
        return coarsening
    inside = share * (factor.weights > 0)
    sums = np.bincount(as_index(bin_), weights=inside)[bin_]
    left = np.where(sums > 0, inside / np.where(sums > 0, sums, 1.0), share)  # of a bin that is left out: any
    return replace(coarsening, shares=(*coarsening.shares[:place], left, *coarsening.shares[place + 1 :]))
