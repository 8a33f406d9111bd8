"""The sparse vector technique, each algorithm by its textbook name.

Inputs are integers on a grid, noise is exact, and each algorithm states its price. Algorithms that are not
private as published are not offered here: see ``pmw.research.audit.flawed``.
"""

from __future__ import annotations

from pmw.sparse_vector.composition import (
    Comparison,
    CompositionTheorem,
    Ratio,
    Split,
    composed_delta,
    composed_epsilon,
    round_epsilon,
)
from pmw.sparse_vector.noisy_comparison import (
    NoiseKind,
    NoisyComparison,
    NoisyThreshold,
    Outcome,
    Sech2Test,
    Sides,
    ThresholdNoise,
    ThresholdTest,
)
from pmw.sparse_vector.sparse import (
    AboveThreshold,
    NumericSparse,
    Sparse,
    SparseState,
    SparseVectorKind,
    ValueNoise,
)

__all__ = [
    "AboveThreshold", "Comparison", "composed_delta", "composed_epsilon", "CompositionTheorem",
    "NoiseKind", "NoisyComparison", "NoisyThreshold", "NumericSparse", "Outcome", "Ratio",
    "round_epsilon", "Sech2Test", "Sides", "Sparse", "SparseState", "SparseVectorKind", "Split",
    "ThresholdNoise", "ThresholdTest", "ValueNoise",
]  # fmt: skip
