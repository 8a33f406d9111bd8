"""Measurements of the same cells, taken together: each by the inverse of its variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.measurement import MarginalMeasurement, NoiseDistribution, noise_variance
from pmw.privacy.noise import DiscreteLaplace


@dataclass(frozen=True, slots=True, eq=False)
class CombinedMarginal:
    """A marginal that was measured several times: the mean by inverse variance.

    With weights w_i that sum to 1 and noises X_i of scales s_i, s the least, the noise of a cell is
    sum w_i X_i. That is one of noises of scale s whose weights are a_i = w_i s_i / s >= w_i, exactly so for
    continuous noise; what discrete noise adds is bounded for the weights a_i too, since w_i <= a_i
    (``pmw.privacy.tail_bounds``). So ``sum_half_width`` holds with the noise of scale s and the squares
    a_i^2. The weights depend on scales alone.

    Args:
        parts: the measurements, over one scope and the same cells; at least one, all of one distribution.
    """

    parts: tuple[MarginalMeasurement, ...]

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order."""
        return self.parts[0].scope

    @property
    def units(self) -> NDArray[np.int64]:
        """The newest noisy counts alone: int64, one axis per attribute, units of 2^-20 records."""
        return self.parts[-1].units

    @property
    def noise(self) -> NoiseDistribution:
        """The quietest noise."""
        return min((one.noise for one in self.parts), key=noise_variance)

    @property
    def values(self) -> NDArray[np.float64]:
        """The mean of the noisy counts: float64, one axis per attribute, records per cell."""
        values = np.zeros(self.units.shape)
        for weight, one in zip(self._weights(), self.parts, strict=True):
            values += weight * one.values
        return values

    @property
    def variance(self) -> float:
        """Variance of one cell's value, in squared records."""
        return 1 / sum(1 / one.variance for one in self.parts)

    @property
    def squares(self) -> float:
        """The sum of a_i^2: how much less noisy a cell is than the quietest measurement of it."""
        return sum(weight**2 for weight in self._scaled())

    @property
    def peak(self) -> float:
        """The largest a_i^2."""
        return max(weight**2 for weight in self._scaled())

    def _weights(self) -> list[float]:
        return [self.variance / one.variance for one in self.parts]

    def _scaled(self) -> list[float]:
        least = _scale(self.noise)
        pairs = zip(self._weights(), self.parts, strict=True)
        return [weight * _scale(one.noise) / least for weight, one in pairs]


MarginalValues: TypeAlias = MarginalMeasurement | CombinedMarginal


def _scale(noise: NoiseDistribution) -> float:
    return float(noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma)


def combined(measurements: Sequence[MarginalMeasurement]) -> list[MarginalValues]:
    """Return the measurements in order, those of the same cells as one, at the place of the first."""
    same: dict[tuple[object, ...], list[MarginalMeasurement]] = {}
    for one in measurements:
        same.setdefault((one.scope, one.units.shape, type(one.noise)), []).append(one)
    return [parts[0] if len(parts) == 1 else CombinedMarginal(tuple(parts)) for parts in same.values()]
