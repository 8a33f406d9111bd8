"""The sparse vector technique, one algorithm per module, by its textbook name.

Inputs are integers on a grid, noise is exact, and each algorithm states its price.
"""

from __future__ import annotations

from pmw.sparse_vector.above_threshold import AboveThreshold
from pmw.sparse_vector.numeric_sparse import NumericSparse, ValueNoise
from pmw.sparse_vector.sparse import Sparse, SparseState
from pmw.sparse_vector.threshold_test import (
    NoiseKind,
    NoisyThreshold,
    Outcome,
    Sides,
    ThresholdTest,
)

__all__ = [
    "AboveThreshold",
    "NoiseKind",
    "NoisyThreshold",
    "NumericSparse",
    "Outcome",
    "Sides",
    "Sparse",
    "SparseState",
    "ThresholdTest",
    "ValueNoise",
]
