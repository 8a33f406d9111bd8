"""Persons: how many persons have a kept record in each cell of a scope."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.noise import NoiseDistribution
from queries.errors import ScopeError
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class PersonsMeasurement:
    """Numbers of persons, each under fresh noise. A person may be in several of the cells.

    Args:
        scope: attribute names in declared order; none for one number of all persons.
        units: int64, one axis per attribute of the scope, noisy, in units of 2^-20 persons.
    """

    scope: tuple[str, ...]
    units: NDArray[np.int64]
    noise: NoiseDistribution

    def __post_init__(self) -> None:
        units = np.array(self.units, dtype=np.int64)
        if units.ndim != len(self.scope):
            raise ScopeError(f"expected {len(self.scope)} axes over {list(self.scope)}, got {units.ndim}")
        units.flags.writeable = False
        object.__setattr__(self, "units", units)
