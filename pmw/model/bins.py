"""Bins: which cells of a long attribute a model keeps apart, chosen from released one-way counts.

All of it is a pure function of released numbers: public and free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.coarsening import Coarsening
from pmw.model.measurement import DEFAULT_BINS
from queries.categories import CategoricalAttribute
from queries.domain import Attribute, Domain
from queries.factors import told_apart
from queries.linear import LinearQuery
from queries.numbers import IntegerAttribute
from queries.places import as_index

_Shares: TypeAlias = NDArray[np.float64]
SHORT_ORDERED = 24  # cells: an ordered attribute of at most so many is always kept as it is
SHORT_CATEGORICAL = 8  # values: a categorical attribute of at most so many is kept as it is
_NOISE = 3.0  # standard deviations that a count must exceed to be told from noise
_CLEAR = 4.0  # times as much that an assumed bin has: real ones are uneven


def longest_kept(bins: int) -> int:
    """Return how many cells an ordered attribute may have and be kept as it is, where bins are wanted."""
    return max(SHORT_ORDERED, bins * 3 // 2)


def fewest_bins(cells: int) -> int:
    """Return the fewest bins that leave an ordered attribute of so many cells as it is."""
    return 1 if cells <= SHORT_ORDERED else -(-cells * 2 // 3)


def choose_coarsening(
    domain: Domain,
    one_way: Mapping[str, NDArray[np.float64]],
    deviations: Mapping[str, float],
    *,
    bins: int = DEFAULT_BINS,
) -> Coarsening:
    """Return bins of about equal mass for long ordered attributes, and rare values pooled.

    An ordered attribute of more than ``longest_kept`` cells is cut into about so many runs of consecutive
    cells: a cell heavier than a bin's share stands alone, and what lies between such cells is cut at equal
    masses, never into bins that noise could make. In a categorical attribute of more than SHORT_CATEGORICAL
    values those below three standard deviations are pooled where there are at least two. The cells of single
    numbers and the ``missing`` and ``other`` cells stay alone. Inside a bin shares are those of the counts.

    Args:
        domain: the declared attributes.
        one_way: per attribute, released records per cell: float64, shape (cells,); an attribute without them
            is kept as it is.
        deviations: per attribute, the standard deviation of one cell's count, in records.
        bins: wanted for each long ordered attribute.
    """
    coarse: list[Attribute] = []
    numbers: list[NDArray[np.int64] | None] = []
    shares: list[NDArray[np.float64] | None] = []
    for attribute in domain:
        bin_ = None
        if attribute.name in one_way:
            counts = np.maximum(one_way[attribute.name], 0.0)
            bin_ = _group_cells(attribute, counts, deviations[attribute.name], bins)
        if bin_ is None:
            coarse.append(attribute)
            shares.append(None)
        else:
            coarse.append(_coarse_attribute(attribute, bin_))
            shares.append(_shares(bin_, counts))
        numbers.append(bin_)
    return Coarsening(domain, Domain(tuple(coarse), domain.name), tuple(numbers), tuple(shares))


def told_apart_by(domain: Domain, queries: Sequence[LinearQuery]) -> Coarsening:
    """Return bins of cells that no question tells apart: runs with the same weights in each of them.

    So a question about long attributes is counted over few cells. Attributes that none is about stay as they
    are.
    """
    begins = told_apart(factor for query in queries for factor in query.factors)
    coarse, bins, shares = list[Attribute](), list[NDArray[np.int64] | None](), list[_Shares | None]()
    for attribute in domain:
        starts = begins.get(attribute.name, np.arange(attribute.size))
        is_kept = starts.size == attribute.size
        lengths = np.diff(np.append(starts, attribute.size))
        coarse.append(
            attribute if is_kept else CategoricalAttribute(attribute.name, tuple(range(starts.size)))
        )
        bins.append(None if is_kept else np.repeat(np.arange(starts.size), lengths))
        shares.append(None if is_kept else np.repeat(1 / lengths, lengths))
    return Coarsening(domain, Domain(tuple(coarse), domain.name), tuple(bins), tuple(shares))


def assumed_domain(
    domain: Domain, total: float, deviations: Mapping[str, float], *, bins: int = DEFAULT_BINS
) -> Domain:
    """Return the coarse domain that a plan counts on, whatever counts are released.

    A long ordered attribute is taken to have as many bins as are wanted, of at least 12 standard deviations
    each if they were alike; of a long categorical one, the values that exceed three standard deviations are
    taken to be those that would if the k-th was 1/k times as frequent as the first (Zipf's law). On the
    tables of the stream benchmark this leads to about the numbers of positives that their own bins would.

    Args:
        domain: the declared attributes.
        total: records, as released or as stated.
        deviations: per attribute, the standard deviation of one cell's count, in records; an attribute
            without one is kept as it is.
        bins: wanted for each long ordered attribute.
    """

    def size(attribute: Attribute) -> int:
        deviation = deviations.get(attribute.name)
        if deviation is None:
            return attribute.base_size
        told_apart = total / (_NOISE * deviation) if deviation > 0 else math.inf
        if isinstance(attribute, CategoricalAttribute):
            nodes = max(attribute.hierarchy[0]) + 1 if attribute.hierarchy else 0
            apart = min(nodes, math.floor(min(nodes, told_apart / _CLEAR)))
            return max(_assumed_values(attribute.base_size, told_apart), apart)
        return min(bins, max(2, math.floor(min(bins, told_apart / _CLEAR))))

    return _resized(domain, size, bins)


def extreme_domains(
    domain: Domain, deviations: Mapping[str, float], *, bins: int = DEFAULT_BINS
) -> tuple[Domain, Domain]:
    """Return coarse domains of the fewest and of the most bins that any released counts lead to.

    Beside h < bins heavy cells there are at most h + 1 runs, whose shares of a bin sum to bins - h. A
    run of share s makes one bin, or round(s) <= s + 1/2. So all runs make at most h + 1 + (bins - h) -
    1/2 bins, and h + 1 where each makes one: with the heavy cells at most bins + h <= 2 bins - 1. Of a
    categorical attribute no value may be rare.

    Args:
        domain: the declared attributes.
        deviations: names the attributes that are binned, as for ``assumed_domain``.
        bins: wanted for each long ordered attribute.
    """

    def fewest(attribute: Attribute) -> int:
        return 1 if attribute.name in deviations else attribute.base_size

    def most(attribute: Attribute) -> int:
        binned = attribute.name in deviations and not isinstance(attribute, CategoricalAttribute)
        return min(attribute.base_size, 2 * bins - 1) if binned else attribute.base_size

    return _resized(domain, fewest, bins), _resized(domain, most, bins)


def is_long(attribute: Attribute, bins: int) -> bool:
    """Tell whether an attribute has too many cells to be kept as it is, where its counts were measured."""
    categorical = isinstance(attribute, CategoricalAttribute)
    return attribute.base_size > (SHORT_CATEGORICAL if categorical else longest_kept(bins))


def coarse_of(attribute: Attribute) -> Attribute:
    """Return the attribute that others are measured with, as far as its length alone tells."""
    if not is_long(attribute, DEFAULT_BINS) or attribute.base_size <= DEFAULT_BINS:
        return attribute
    return _coarse_attribute(attribute, np.arange(DEFAULT_BINS))


def _resized(domain: Domain, size: Callable[[Attribute], int], bins: int) -> Domain:
    """Return a domain in which each long attribute has so many cells besides the special ones."""
    resized: list[Attribute] = []
    for attribute in domain:
        cells = size(attribute) if is_long(attribute, bins) else attribute.base_size
        same = cells == attribute.base_size
        resized.append(attribute if same else _coarse_attribute(attribute, np.arange(cells)))
    return Domain(tuple(resized), domain.name)


def _assumed_values(values: int, told_apart: float) -> int:
    """Return how many values are left of a long list, the rare ones pooled, if Zipf's law held."""
    harmonic = float(np.sum(1 / np.arange(1, values + 1)))
    rare = values - math.floor(min(values, told_apart / harmonic))
    return values if rare < 2 else max(2, values - rare + 1)


def _group_cells(
    attribute: Attribute, counts: NDArray[np.float64], deviation: float, bins: int
) -> NDArray[np.int64] | None:
    """Return the bin of each cell, the special cells last, or None where nothing is binned."""
    if not is_long(attribute, bins):
        return None
    base = counts[: attribute.base_size]
    if isinstance(attribute, CategoricalAttribute):
        bin_ = _pool_rare(base, deviation, attribute.hierarchy)
    else:
        bin_ = cut_runs(base, deviation, bins)
    if bin_ is None or bin_.max() == len(bin_) - 1:
        return None
    special = attribute.size - attribute.base_size
    return np.append(bin_, bin_.max() + 1 + np.arange(special))


def cut_runs(counts: NDArray[np.float64], deviation: float, bins: int) -> NDArray[np.int64]:
    """Return runs of consecutive cells of about equal mass: int64, shape (cells,), numbered from 0.

    Args:
        counts: float64, shape (cells,), records per cell, none negative.
        deviation: standard deviation of one cell's count, in records.
        bins: wanted; heavy cells may leave up to about as many short runs between them.
    """
    share, heavy = _heavy_cells(counts, deviation, bins)
    # The pieces that are cut apart whatever their mass: heavy cells, and the cells between two of them.
    edges = heavy.copy()
    edges[1:] |= heavy[:-1]
    pieces = np.cumsum(edges)
    bin_ = np.empty(len(counts), dtype=np.int64)
    following = 0
    for piece in np.unique(pieces):
        cells = np.flatnonzero(pieces == piece)
        mass = counts[cells]
        total = float(mass.sum())
        told_apart = total / (_NOISE * deviation) if deviation > 0 else math.inf
        wanted = min(total / share if share > 0 else 0.0, told_apart)
        parts = max(1, min(len(cells), round(wanted)))
        middle = np.cumsum(mass) - mass / 2
        place = np.floor(middle * (parts / total)) if total > 0 else np.zeros(len(cells))
        _, number = np.unique(np.minimum(place, parts - 1), return_inverse=True)
        bin_[cells] = following + number.reshape(-1)
        following = int(bin_[cells[-1]]) + 1
    return bin_


def _heavy_cells(counts: NDArray[np.float64], deviation: float, bins: int) -> tuple[float, NDArray[np.bool_]]:
    """Return the share of a bin in the other cells' records, and the cells that are heavier than it."""
    heavy = np.zeros(len(counts), dtype=bool)
    while True:
        left = max(1, bins - int(heavy.sum()))
        share = float(counts[~heavy].sum()) / left
        found = ~heavy & (counts > max(share, _NOISE * deviation))
        if not found.any() or int((heavy | found).sum()) >= bins:
            return share, heavy
        heavy |= found


def _pool_rare(
    counts: NDArray[np.float64], deviation: float, hierarchy: Sequence[Sequence[int]]
) -> NDArray[np.int64] | None:
    """Return a bin for each value that is not rare, and bins of the rare ones, each where its first is.

    Rare values are pooled inside the nodes of the finest level where their sum is not rare, then of the next
    coarser one, and those that are left together.
    """
    rare = counts < _NOISE * deviation
    if int(rare.sum()) < 2:
        return None
    first = np.arange(len(counts))  # the first value of each one's bin
    left = rare.copy()
    for level in reversed(hierarchy):
        nodes = np.array(level)
        for node in np.unique(nodes[left]):
            members = np.flatnonzero(left & (nodes == node))
            if counts[members].sum() >= _NOISE * deviation:
                first[members], left[members] = members[0], False
    first[left] = int(left.argmax())
    return np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _coarse_attribute(attribute: Attribute, bin_: NDArray[np.int64]) -> Attribute:
    size = int(bin_[: attribute.base_size].max()) + 1 + len(attribute.atoms)
    special: dict[str, Any] = {"missing": attribute.missing, "other": attribute.other}
    if isinstance(attribute, CategoricalAttribute):
        return CategoricalAttribute(attribute.name, tuple(range(size)), **special)
    return IntegerAttribute(attribute.name, 0, size - 1, **special)


def _shares(bin_: NDArray[np.int64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each cell's share of its bin's records; all alike where the bin has none."""
    sums, cells = np.bincount(as_index(bin_), weights=counts), np.bincount(as_index(bin_))
    empty = sums[bin_] <= 0
    return np.where(empty, 1 / cells[bin_], counts / np.where(empty, 1.0, sums[bin_]))
