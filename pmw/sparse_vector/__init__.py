"""The sparse vector technique, one algorithm per module, by its textbook name.

Inputs are integers on a grid, noise is exact, and each algorithm states its price. Algorithms that are not
private as published are not offered here: see ``pmw.research.sparse_vectors.flawed``.
"""

from __future__ import annotations

from pmw.sparse_vector.above_threshold import AboveThreshold
from pmw.sparse_vector.comparison import Comparison, Ratio, Split
from pmw.sparse_vector.composition import CompositionTheorem, composed_delta, composed_epsilon, round_epsilon
from pmw.sparse_vector.kinds import SparseVectorKind
from pmw.sparse_vector.noisy_comparison import (
    NoiseKind,
    NoisyComparison,
    NoisyThreshold,
    Outcome,
    Sides,
    ThresholdTest,
)
from pmw.sparse_vector.numeric_sparse import NumericSparse, ValueNoise
from pmw.sparse_vector.sech2 import Sech2Test, ThresholdNoise
from pmw.sparse_vector.sech2_noise import SechSquared
from pmw.sparse_vector.sparse import Sparse, SparseState

__all__ = [
    "AboveThreshold",
    "Comparison",
    "composed_delta",
    "composed_epsilon",
    "CompositionTheorem",
    "NoiseKind",
    "NoisyComparison",
    "NoisyThreshold",
    "NumericSparse",
    "Outcome",
    "Ratio",
    "round_epsilon",
    "Sech2Test",
    "SechSquared",
    "Sides",
    "Sparse",
    "SparseState",
    "SparseVectorKind",
    "Split",
    "ThresholdNoise",
    "ThresholdTest",
    "ValueNoise",
]
