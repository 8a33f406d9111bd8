"""Places: numbers of cells and of records, by which numpy counts, takes and repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_index(places: NDArray[Any]) -> NDArray[np.intp]:
    """Return places as integers of the machine's own size, the same array where they are.

    Places are int64 everywhere. Where the machine's integers have 32 bits, as in a browser, ``bincount``,
    ``take``, ``repeat`` and ``reduceat`` refuse these; no array there is so long that a place would not fit.
    """
    return places.astype(np.intp, copy=False)
