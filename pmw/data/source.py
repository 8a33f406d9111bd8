"""The count source: the only holder of true counts, and the one method by which they leave it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain
from queries.marginal import Marginal


class CountSource(Protocol):
    """A sensitive table. A search for ``.counts(`` shows every place that costs privacy."""

    @property
    def domain(self) -> Domain:
        """The declared attributes."""

    def counts(self, scope: Sequence[str]) -> Marginal:
        """Return the exact records per cell over a scope, in declared order.

        Privacy: exact and secret. One person's records change the counts by at most
            ``records_per_person`` in L1 under add/remove, by twice that under replace-one.
        """

    def prepare(self, scopes: Iterable[Sequence[str]]) -> None:
        """Make ready to count these scopes: a source that counts elsewhere takes them in one scan.

        Privacy: exact and secret; nothing is returned.
        """

    def coarsened(self, coarse: Domain, bins: Sequence[NDArray[np.int64] | None]) -> CountSource:
        """Return the source of the same records over a domain whose cells are bins of this one's.

        Args:
            coarse: attributes of the same names in the same order, one cell per bin.
            bins: per attribute, the bin of each cell: int64, shape (cells,); None where it is kept.

        Privacy: holds true data too. A record has one cell before and after, so one person moves its counts
            as far.
        """

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret)."""
