"""Prices: by which rows attributes are measured, and how a budget is shared among marginals of them.

All of it follows from the schema and from the questions that a plan counts on; nothing here sees a record.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.model.strategy import (
    MOST_ORDERED,
    MOST_VALUES,
    SCALE,
    AxisRows,
    Strategy,
    ordered_rows,
    question_gram,
)
from queries.categories import CategoricalAttribute
from queries.domain import Attribute
from queries.frozen import dataclass

Number = TypeVar("Number", int, float)
_CELLS_PART = 0.25  # of the questions about an ordered attribute that plans count on are about one cell
_ASKED = 3  # attributes, at most, of the questions that plans count on
_WIDEST = 8  # the same, of questions that are known
_SCALES = [SCALE >> halved for halved in range(6)]  # of the rows of wider marginals, where sums are too large


def axis_rows(attribute: Attribute, scale: int = SCALE) -> AxisRows | None:
    """Return the rows of an attribute; None where it has too few cells, or too many.

    They are those of its shape: whatever is released changes them only by how many bins there are.
    """
    if isinstance(attribute, CategoricalAttribute):
        return AxisRows(attribute.size) if 2 <= attribute.size <= MOST_VALUES else None
    if not 2 <= attribute.size <= MOST_ORDERED:
        return None
    return ordered_rows(attribute.base_size, attribute.size - attribute.base_size, scale)


def rows_of(attributes: Sequence[Attribute], *, replaced: bool) -> Strategy | None:
    """Return the rows of a marginal, or None where an attribute has none, or sums would be too large.

    Rows of ordered attributes are rounded at the largest scale at which sums fit: that of one attribute for
    pairs, less for wider marginals. It follows from the shapes alone.
    """
    for scale in _SCALES:
        axes = [rows for one in attributes if (rows := axis_rows(one, scale)) is not None]
        if len(axes) < len(attributes):
            return None
        try:
            return Strategy(tuple(axes), replaced)
        except NoiseError:  # sums of so many rows could be too large
            continue
    return None


@dataclass(frozen=True, slots=True)
class AxisPrice:
    """What an attribute contributes to the variance of questions, by which prices are shared.

    Args:
        spread: E w' S w max diag(K'K): the variance of a question's part beyond its mean weight, at unit
            price.
        mean: E of the squared mean weight.
    """

    spread: float
    mean: float

    @classmethod
    def of(cls, attribute: Attribute) -> AxisPrice:
        """Return it for the rows of an attribute, or for its cells where it has none.

        Only rows need matrices; those that are measured by rows are short.
        """
        size, (mean, square) = attribute.size, asked_cells(attribute)
        rows = axis_rows(attribute)
        if rows is None:
            spread = mean - square / size
        else:
            spread = float(np.sum(asked_gram(attribute) * rows.covariance)) * rows.norm
        return cls(spread, square / size**2)


def asked_cells(attribute: Attribute) -> tuple[float, float]:
    """Return the mean of the number of cells that a question counts, and of its square.

    Of the questions that plans count on (``asked_gram``). A range of b ordered cells has (b + 2)/3 on
    average, and (b + 1)(b + 2)/6 in the square, for b + 1 - l ranges have l cells.
    """
    if isinstance(attribute, CategoricalAttribute):
        return 1.0, 1.0
    cells, special = attribute.base_size, attribute.size - attribute.base_size
    ranges = cells * (cells + 1) // 2
    share = (1 - _CELLS_PART) / (ranges + special)
    alone = share * special + _CELLS_PART
    return (share * ranges * (cells + 2) / 3 + alone, share * ranges * (cells + 1) * (cells + 2) / 6 + alone)


def asked_gram(attribute: Attribute) -> NDArray[np.float64]:
    """Return the mean of w w' over the questions about an attribute that plans count on.

    Of an ordered one three in four are ranges, and the others single cells; of another one all are values.
    """
    if isinstance(attribute, CategoricalAttribute):
        return np.eye(attribute.size) / attribute.size
    return question_gram(attribute.base_size, attribute.size - attribute.base_size, _CELLS_PART)


@dataclass(frozen=True, slots=True)
class SharedPrices:
    """What marginals are paid, in proportion.

    Args:
        wider: the mean marginal of two attributes, of three, and so on.
    """

    everybody: float
    single: tuple[float, ...]
    wider: tuple[float, ...]


@functools.lru_cache(maxsize=64)  # a plan asks for it several times
def shared_prices(fine: tuple[AxisPrice, ...], coarse: tuple[AxisPrice, ...], order: int) -> SharedPrices:
    """Return what the number of records, each attribute and the mean wider marginal are paid, in proportion.

    Of random questions about one, two or three attributes, all alike, the mean variance is sum_A c_A/p_A over
    the sets A of at most so many attributes as are measured together, where p_A is the price of A and c_A the
    mean of prod_{i in A} v_i prod_{i not in A} m_i, v and m the spreads and squared means. Its least at a
    fixed sum of prices is at p_A in proportion to sqrt(c_A).

    Args:
        order: the most attributes that are measured together, from 2 to 3.

    Source: Xiao et al. (2023), for the closed form of a weighted sum of variances (Cauchy and Schwarz).
    """
    count = len(fine)
    orders = range(1, min(_ASKED, count) + 1)

    def expected(chosen: Sequence[int]) -> float:
        axes = fine if len(chosen) < 2 else coarse
        spread = math.prod(axes[place].spread for place in chosen)
        means = symmetric([one.mean for place, one in enumerate(fine) if place not in chosen], _ASKED)
        parts = (
            means[asked - len(chosen)] / math.comb(count, asked) for asked in orders if asked >= len(chosen)
        )
        return math.sqrt(spread * sum(parts) / len(orders))

    def mean(wide: int) -> float:
        every = [expected(chosen) for chosen in itertools.combinations(range(count), wide)]
        return sum(every) / max(1, len(every))

    single = tuple(expected((one,)) for one in range(count))
    return SharedPrices(expected(()), single, tuple(mean(wide) for wide in range(2, order + 1)))


def asked_prices(
    asked: Mapping[tuple[str, ...], int],
    alone: Mapping[str, AxisPrice],
    together: Mapping[str, AxisPrice],
    orders: Sequence[int],
) -> dict[tuple[str, ...], float]:
    """Return what sets of attributes are paid, in proportion, where it is known what is asked.

    That is the root of c_A, the sum over the questions with A in their scope of prod_{i in A} v_i
    prod_{i not in A} m_i, as in ``shared_prices``. Questions about many attributes count for nothing: they
    hardly rest on any three of them.

    Args:
        orders: how many attributes the sets have; 0 is the number of records.
    """
    need = dict[tuple[str, ...], float]()
    for scope, count in asked.items():
        for order in orders if len(scope) <= _WIDEST else ():
            axes = alone if order < 2 else together
            for some in itertools.combinations(scope, order):
                spread = math.prod(axes[name].spread for name in some)
                mean = math.prod(alone[name].mean for name in scope if name not in some)
                need[some] = need.get(some, 0.0) + count * spread * mean
    return {scope: math.sqrt(one) for scope, one in need.items()}


def symmetric(values: Sequence[Number], most: int) -> list[Number]:
    """Return, for each order, the sum over all sets of so many values of their product."""
    sums: list[Number] = [1, *[0] * most]
    for value in values:
        for order in range(most, 0, -1):
            sums[order] += value * sums[order - 1]
    return sums
