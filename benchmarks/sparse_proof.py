"""The flawed proof of Lyu, Su and Li's (2017) Appendix 9.3, run on Algorithm 1, which is private.

All m values are 0 on one table and 1 on its neighbour, T = 0, and the output is m negatives. The proof wants
to show that the ratio of its probabilities grows without bound. Given threshold noise z, a negative is more
probable on the first table by a factor of more than 1. Let kappa be the least such factor for z in [-a, a],
with a so wide that half of the output's probability lies there: the ratio is then at least kappa^m / 2.

This holds, and shows nothing: as m grows, so does a, and kappa falls to 1. The ratio itself stays below
e^(epsilon/2) for every m, as Lemma 1 says, and comes up to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pmw.research.audit import tables_of
from pmw.research.sparse_vectors import algorithm_1

__all__ = ["proof_lines"]

_LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 1024)


def proof_lines(*, epsilon: float = 1.0) -> Iterator[dict[str, object]]:
    """Yield a line, ready for JSON, for each m.

    ``log_ratio`` is that of the output's probabilities, ``window`` is a, ``least_factor`` is kappa for this
    m, ``argued`` is m ln kappa - ln 2. ``argued_if_fixed`` is the same with the kappa of m = 1, as if it did
    not depend on m: the error of the proof.
    """
    tables = tables_of(algorithm_1(epsilon=epsilon, update_limit=1).test, 0)
    first, second = 1.0 - tables.above(0), 1.0 - tables.above(1)
    distance = np.abs(np.arange(len(tables.weights)) - len(tables.weights) // 2)
    fixed = math.nan
    for length in _LENGTHS:
        here, there = tables.weights * first**length, tables.weights * second**length
        inside = np.bincount(distance, here).cumsum()
        window = int(np.searchsorted(inside, inside[-1] / 2))
        near = distance <= window
        kappa = float((first[near] / second[near]).min())
        fixed = kappa if math.isnan(fixed) else fixed
        yield {
            "part": "flawed-proof",
            "negatives": length,
            "epsilon": epsilon,
            "log_ratio": round(math.log(here.sum() / there.sum()), 4),
            "window": window,
            "least_factor": round(kappa, 4),
            "argued": round(length * math.log(kappa) - math.log(2), 3),
            "argued_if_fixed": round(length * math.log(fixed) - math.log(2), 3),
        }
