"""Bins of cells: whether they fit the two domains that they lie between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pmw.errors import DataError
from queries.domain import Domain


def require_bins(domain: Domain, coarse: Domain, bins: Sequence[NDArray[np.int64] | None]) -> None:
    """Refuse bins that do not lead from the cells of one domain to those of another.

    Args:
        domain: the attributes.
        coarse: attributes of the same names in the same order, one cell per bin.
        bins: per attribute, the bin of each cell: int64, shape (cells,); None where it is kept as it is.

    Raises:
        DataError: they do not fit.
    """
    if coarse.names != domain.names or len(bins) != len(domain):
        raise DataError("expected a coarse domain and bins of the same attributes")
    for name, bin_, size, coarse_size in zip(coarse.names, bins, domain.shape, coarse.shape, strict=True):
        if bin_ is None:
            fits = size == coarse_size
        else:
            fits = bin_.shape == (size,) and int(bin_.min()) >= 0 and int(bin_.max()) < coarse_size
        if not fits:
            raise DataError(f"expected bins that fit attribute {name!r}")
