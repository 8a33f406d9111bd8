"""Measured sums of values: of the cells of a scope, or of the records that each of some questions counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pmw.model.value_sums import Places, SummedValues
from pmw.privacy.noise import NoiseDistribution
from queries.domain import Domain
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.marginal import Marginal


@dataclass(frozen=True, slots=True)
class SummedRows(SummedValues):
    """Sums over the records that each of a list of questions counts, one number for each question.

    Args:
        rows: the questions, of whole cells, each once; ``scope`` has all of their attributes.
    """

    rows: tuple[LinearQuery, ...] = ()

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the shape of what is measured: the parts, and the questions."""
        return (self.parts, len(self.rows))

    def tables(self, domain: Domain) -> Sequence[tuple[str, ...]]:
        """Return the scope of each question, with the attribute."""
        return tuple(dict.fromkeys(self._over(domain, row) for row in self.rows))

    def _over(self, domain: Domain, row: LinearQuery) -> tuple[str, ...]:
        return domain.scope(tuple(dict.fromkeys((*row.scope, self.attribute))))

    def _added(
        self, domain: Domain, tables: Mapping[tuple[str, ...], Sequence[NDArray[np.int64]]]
    ) -> Sequence[NDArray[np.int64]]:
        known: dict[tuple[str, ...], list[Marginal]] = {}
        for row in self.rows:
            if row.scope not in known:
                over = self._over(domain, row)
                known[row.scope] = [Marginal(domain, over, one).project(row.scope) for one in tables[over]]
        parts = range(len(next(iter(known.values()))))
        answers = [[row.answer(known[row.scope][part]) // UNITS for row in self.rows] for part in parts]
        return [np.array(one, dtype=np.int64) for one in answers]


@dataclass(frozen=True, slots=True, eq=False)
class SumMeasurement:
    """Sums of values, each under fresh noise.

    Args:
        units: int64, of their ``shape``, noisy: sums in units of 2^-20 of the scope's w, then numbers of
            values, then squares, in those of ``SummedValues``.
    """

    summed: SummedValues | SummedRows
    units: NDArray[np.int64]
    noise: NoiseDistribution

    def __post_init__(self) -> None:
        units = np.array(self.units, dtype=np.int64)
        parts, axes = self.summed.parts, self.summed.axes
        if units.ndim != axes or len(units) != parts:
            raise ScopeError(
                f"expected {parts} numbers a cell, {axes} axes over {list(self.summed.scope)}, got "
                f"{units.shape}"
            )
        units.flags.writeable = False
        object.__setattr__(self, "units", units)

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order, by which values are summed, or that the questions are about."""
        return self.summed.scope

    @property
    def sums(self) -> NDArray[np.int64]:
        """The sums: int64, one axis per attribute of the scope, in units."""
        return np.asarray(self.units[0], dtype=np.int64)

    @property
    def counts(self) -> NDArray[np.float64]:
        """How many records have a value, where that is measured: float64, one axis per attribute."""
        return np.asarray(self.units[1] / self.summed.count_units, dtype=np.float64)

    def scales(self, domain: Domain) -> NDArray[np.float64]:
        """Return what one record's units stand for in each sum: w/2 steps, in the attribute's own unit."""
        step = Places.of(domain, self.summed.attribute).grid.step
        if self.summed.clipped:
            return np.full(self.sums.shape, UNITS / self.summed.factor(domain) * step)
        return np.asarray(self.summed.widths(domain) * (step / 2), dtype=np.float64)

    def values(self, domain: Domain) -> NDArray[np.float64]:
        """Return the noisy sums of values less the middles that they are measured from: float64."""
        return np.asarray(self.sums / UNITS * self.scales(domain), dtype=np.float64)

    def squares(self, domain: Domain) -> NDArray[np.float64]:
        """Return the sums of squared differences of values from what they are measured from: float64."""
        return np.asarray(self.units[2] / UNITS * self.scales(domain) ** 2, dtype=np.float64)

    def middles(self, domain: Domain) -> NDArray[np.float64]:
        """Return what the values of each cell of the attribute are measured from: float64, shape (cells,)."""
        places = Places.of(domain, self.summed.attribute)
        middle, _ = self.summed.ends(domain)
        return np.where(places.present, places.grid.number(0) + places.grid.step * middle / 2, 0.0)
