"""Priors: what is public about a table like the session's, for its model to begin with.

A prior holds shares of records: of the cells of each attribute, and of the bins of pairs of attributes. They
come from a table that the custodian declares public, or from a model that somebody released. So a prior is
public, and it is never compared with the session's table; what is compared with it are released numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from queries.domain import Domain
from queries.frozen import dataclass
from queries.places import as_index

LARGEST_PAIR = 2**16  # cells of a pair that a prior has shares of
_SUM = 1e-6  # how far from 1 shares may sum to


@dataclass(frozen=True, slots=True, eq=False)
class PriorPair:
    """Shares of two attributes.

    Args:
        scope: their names, in declared order.
        shares: float64, shape (bins, bins): the share of the records in each pair of bins.
    """

    scope: tuple[str, ...]
    shares: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", _checked_shares(self.shares, 2))


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What is public about a table like the session's. Made by ``public_prior``.

    Two are equal where their digests are.

    Args:
        schema: the attributes that it is about, as ``attributes_text`` gives them.
        one_ways: of each attribute, by name: float64, shape (cells,), the share of the records in each cell.
        bins: likewise: int64, shape (cells,), the bin of each cell.
        pairs: pairs of attributes, each at most once; where one is left out, its attributes are taken to be
            independent.

    Attributes:
        digest: SHA-256 of all of it, in hexadecimal; what a contract names it by.
    """

    schema: str
    one_ways: dict[str, NDArray[np.float64]]
    bins: dict[str, NDArray[np.int64]]
    pairs: tuple[PriorPair, ...]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        one_ways = {name: _checked_shares(shares, 1) for name, shares in self.one_ways.items()}
        bins = {name: _checked_bins(bin_) for name, bin_ in self.bins.items()}
        object.__setattr__(self, "one_ways", one_ways)
        object.__setattr__(self, "bins", bins)
        if [(name, bin_.size) for name, bin_ in bins.items()] != [
            (name, shares.size) for name, shares in one_ways.items()
        ]:
            raise BudgetError("expected a prior with a bin for each cell of its attributes")
        for pair in self.pairs:
            known = len(pair.scope) == 2 and all(name in bins for name in pair.scope)
            if not known or pair.shares.shape != tuple(int(bins[name].max()) + 1 for name in pair.scope):
                raise BudgetError("expected a prior whose pairs are of the bins of two of its attributes")
        if len({pair.scope for pair in self.pairs}) != len(self.pairs):
            raise BudgetError("expected a prior that has each pair at most once")
        object.__setattr__(self, "digest", self._digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Prior({self.digest[:16]}, {len(self.one_ways)} attributes, {len(self.pairs)} pairs)"

    def shares(
        self, scope: tuple[str, ...], bins: tuple[NDArray[np.int64] | None, ...]
    ) -> NDArray[np.float64]:
        """Return the share of the records in each cell of one or two attributes, on bins of another grid.

        A cell has its share of the bin that it lies in, whatever the other attribute.

        Args:
            scope: the attributes, in declared order.
            bins: of each, the bin of each declared cell: int64, shape (cells,); None for none.

        Returns:
            float64, one axis per attribute, summing to 1.
        """
        cells = tuple(
            np.arange(self.one_ways[name].size) if bin_ is None else bin_
            for name, bin_ in zip(scope, bins, strict=True)
        )
        table = next((pair.shares for pair in self.pairs if pair.scope == scope), None)
        if table is None:
            alone = [
                np.bincount(as_index(bin_), weights=self.one_ways[name])
                for name, bin_ in zip(scope, cells, strict=True)
            ]
            found = alone[0] if len(alone) == 1 else np.multiply.outer(alone[0], alone[1])
            return np.asarray(found, dtype=np.float64)
        first, second = (self._moved(name, bin_) for name, bin_ in zip(scope, cells, strict=True))
        moved: NDArray[np.float64] = first @ table @ second.T
        return moved

    def _moved(self, name: str, bin_: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return which part of each own bin lies in each other bin: float64, shape (other bins, own bins)."""
        own, shares = self.bins[name], self.one_ways[name]
        mass, size = np.bincount(as_index(own), weights=shares), np.bincount(as_index(own))
        inside = np.where(mass[own] > 0, shares / np.maximum(mass[own], np.finfo(float).tiny), 1 / size[own])
        parts = np.zeros((int(bin_.max()) + 1, mass.size))
        np.add.at(parts, (bin_, own), inside)
        return parts

    def _digest(self) -> str:
        digest = hashlib.sha256()
        scopes = [pair.scope for pair in self.pairs]
        arrays = [*self.one_ways.values(), *self.bins.values(), *(pair.shares for pair in self.pairs)]
        shapes = [array.shape for array in arrays]
        digest.update(json.dumps([self.schema, list(self.one_ways), scopes, shapes]).encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array, dtype=f"<{array.dtype.kind}8").tobytes())
        return digest.hexdigest()


def _checked_shares(given: NDArray[np.float64], axes: int) -> NDArray[np.float64]:
    shares = np.array(given, dtype=np.float64)
    finite = shares.ndim == axes and shares.size > 0 and bool(np.isfinite(shares).all())
    if not finite or shares.min() < 0 or not math.isclose(float(shares.sum()), 1, abs_tol=_SUM):
        raise BudgetError("expected a prior whose shares are at least 0 and sum to 1")
    shares.flags.writeable = False
    return shares


def _checked_bins(given: NDArray[np.int64]) -> NDArray[np.int64]:
    bins = np.array(given, dtype=np.int64)
    counted = bins.ndim == 1 and bins.size > 0 and 0 <= bins.max() < bins.size
    if not counted or not np.array_equal(np.unique(bins), np.arange(int(bins.max()) + 1)):
        raise BudgetError("expected a prior whose bins are numbered from 0, each with a cell")
    bins.flags.writeable = False
    return bins


def is_prior_of(prior: Prior, domain: Domain) -> bool:
    """Tell whether a prior is about a domain's attributes; persons and resolutions do not matter."""
    texts = attributes_text(domain), _text(domain)  # those of before told resolutions
    return prior.schema in texts and tuple(prior.one_ways) == domain.names


def attributes_text(domain: Domain) -> str:
    """Return the attributes of a domain as a schema's text, without its name, its persons and resolutions."""
    return _text(domain.counted)


def _text(domain: Domain) -> str:
    from queries.schema import stored_schema  # late: prices rest on priors, and not on how schemas are read

    return stored_schema(Domain(domain.attributes, "prior"))
