"""Exact audits of a whole run, shared by the tests of the algorithms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from pmw.audit import OutputLaw, neighbor_patterns, output_law_of, tables_of, worst_log_ratio
from pmw.sparse_vector import Sparse

Audit: TypeAlias = Callable[[Sparse], float]

# One-sided noise attains its bound at the threshold, two-sided noise far from it.
_BASES = ((2, 2, 2, 2), (1, 4, 1, 4), (-9, 30, -9, 30), (30, -9, 0, -9))


@pytest.fixture
def enumerated() -> Audit:
    """The largest log-ratio over all outputs of 4 tests, at all corners of the neighbours of some tables."""

    def worst(sparse: Sparse) -> float:
        known: dict[tuple[int, ...], OutputLaw] = {}
        found = 0.0
        for base, pattern in itertools.product(_BASES, neighbor_patterns(4, monotone=sparse.test.monotone)):
            unit = sparse.test.sensitivity
            moved = tuple(value + unit * change for value, change in zip(base, pattern, strict=True))
            for values in (base, moved):
                if values not in known:
                    known[values] = output_law_of(sparse, 2, values)
            found = max(found, worst_log_ratio(known[base], known[moved]))
        return found

    return worst


@pytest.fixture
def attained() -> Audit:
    """The log-ratio of one output: in each round 40 negatives that rise, then positives that fall."""

    def ratio(sparse: Sparse) -> float:
        limit, unit = sparse.update_limit, sparse.test.sensitivity
        tables = tables_of(sparse.test, 0)
        fall = 0 if sparse.test.monotone else -unit
        positives = 1 if sparse.redraw else limit

        def log_probability(negative: int, positive: int) -> float:
            below, above = 1 - tables.above(negative), tables.above(positive)
            weights = tables.weights * below**40 * above**positives
            return math.log(float(np.sum(weights))) * (limit / positives)

        return log_probability(0, 0) - log_probability(unit, fall)

    return ratio
