"""Reproduction: which measured marginals synthetic rows do not have, and how far they are from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.model import OneWayMeasurement, QueryMeasurement, RowsMeasurement, most_squares, target_of
from pmw.public.state import PublicState
from queries.frozen import dataclass
from queries.places import as_index
from queries.records import CodedRecords

_NAMED = 3  # marginals that one line has room for


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A measured marginal that rows do not reproduce.

    Args:
        scope: attribute names in declared order.
        distance: the sum over its cells of |rows - measured|, less what the noise of the measurement makes of
            it on average, as a fraction of the records.
    """

    scope: tuple[str, ...]
    distance: float

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {"scope": list(self.scope), "distance": round(self.distance, 6)}


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What rows reproduce of the marginals that were measured, one by one: more attributes are not looked at.

    Args:
        missed: those that the rows are farther from than noise explains, the farthest first.
    """

    measured: int
    missed: tuple[Shortfall, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {"measured": self.measured, "not_reproduced": [one.to_dict() for one in self.missed]}


def reproduction(state: PublicState, records: CodedRecords) -> Reproduction:
    """Return which measured marginals synthetic rows do not reproduce beyond their noise.

    If rows were the table itself, the squares of their errors, each over the variance of its noise, would sum
    to a chi-square number of as many degrees as the measurement has free numbers. Rows miss a marginal where
    that is more than noise makes but once in about 700 times. Of a pair that is measured as a residual it is
    the residual that counts; what its attributes say alone is looked at alone. Of a scope that was measured
    several times, the quietest measurement counts.

    Args:
        records: the rows, over the declared cells.

    Privacy: post-processing of released numbers; free.
    """
    quietest: dict[tuple[str, ...], OneWayMeasurement] = {}
    for one in state.measurements:
        if not isinstance(one, QueryMeasurement | RowsMeasurement) and one.scope:
            known = quietest.get(one.scope)
            if known is None or one.cell_variances.sum() < known.cell_variances.sum():
                quietest[one.scope] = one
    coarse = state.coarsening.cells_of(records.columns)
    found = [
        _shortfall(state, one, records.columns if _is_fine(state, one) else coarse)
        for one in quietest.values()
    ]
    missed = sorted((one for one in found if one is not None), key=lambda one: -one.distance)
    return Reproduction(len(quietest), tuple(missed))


def reproduction_sentence(form: dict[str, Any]) -> str:
    """Return what rows miss, in words, of a manifest's form; the empty text where they miss nothing."""
    missed = form["not_reproduced"]
    if not missed:
        return ""
    more = "; …" if len(missed) > _NAMED else ""
    named = "; ".join(f"{', '.join(one['scope'])} ({one['distance']:.1%})" for one in missed[:_NAMED])
    return (
        f"The rows are farther than noise explains from {len(missed)} of {form['measured']} measured "
        f"marginals, in parts of the records: {named}{more}."
    )


def _is_fine(state: PublicState, one: OneWayMeasurement) -> bool:
    """Tell whether a marginal was measured on declared cells; else on bins."""
    return state.domain.scope_size(one.scope) == one.values.size


def _shortfall(
    state: PublicState, one: OneWayMeasurement, columns: Sequence[NDArray[np.integer[Any]]]
) -> Shortfall | None:
    """Return what rows miss of a marginal, or None."""
    target = target_of(one, state.total.value)
    own = tuple(columns[state.domain.index(name)] for name in one.scope)
    shape = target.values.shape
    cells = np.ravel_multi_index(own, shape)
    counts = np.bincount(as_index(cells), minlength=target.values.size).reshape(shape)
    errors = counts * (state.total.value / max(1, len(own[0]))) - target.values
    squares, free = float(np.vdot(target.pull(errors), errors)), target.free_numbers
    beyond = float(np.abs(errors).sum()) - math.sqrt(2 / math.pi) * float(np.sqrt(one.cell_variances).sum())
    is_missed = squares > most_squares(free) and beyond > 0
    return Shortfall(one.scope, beyond / state.total.value) if is_missed else None
