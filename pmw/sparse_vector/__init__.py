"""The sparse vector technique, one algorithm per module, by its textbook name.

Inputs are integers on a grid, noise is exact, and each algorithm states its price. Algorithms that are not
private as published are not offered here: see ``pmw.sparse_vector.flawed``.
"""

from __future__ import annotations

from pmw.sparse_vector.above_threshold import AboveThreshold
from pmw.sparse_vector.adaptive_sech2 import AdaptiveSech2, AdaptiveState
from pmw.sparse_vector.comparison import Comparison
from pmw.sparse_vector.composition import (
    CompositionTheorem,
    composed_delta,
    composed_epsilon,
    round_epsilon,
)
from pmw.sparse_vector.free_gap import FreeGap
from pmw.sparse_vector.kinds import SparseVectorKind
from pmw.sparse_vector.lyu_su_li import algorithm_1, algorithm_2, algorithm_7, numeric_algorithm_7
from pmw.sparse_vector.naive import NaiveAboveThreshold
from pmw.sparse_vector.numeric_sparse import NumericSparse, ValueNoise
from pmw.sparse_vector.retraversal import Retraversal
from pmw.sparse_vector.sech2 import Sech2Test, ThresholdNoise
from pmw.sparse_vector.sech2_charges import (
    least_query_scale,
    order_charges,
    order_filter,
    renyi_charge,
    renyi_charge_bound,
    run_epsilon,
)
from pmw.sparse_vector.sech2_noise import SechSquared
from pmw.sparse_vector.sparse import Sparse, SparseState
from pmw.sparse_vector.split import Ratio, Split
from pmw.sparse_vector.threshold_test import (
    NoiseKind,
    NoisyComparison,
    NoisyThreshold,
    Outcome,
    Sides,
    ThresholdTest,
)
from pmw.sparse_vector.top_c import TopC, top_c

__all__ = [
    "AboveThreshold",
    "AdaptiveSech2",
    "AdaptiveState",
    "algorithm_1",
    "algorithm_2",
    "algorithm_7",
    "Comparison",
    "composed_delta",
    "composed_epsilon",
    "CompositionTheorem",
    "FreeGap",
    "least_query_scale",
    "NaiveAboveThreshold",
    "NoiseKind",
    "NoisyComparison",
    "NoisyThreshold",
    "numeric_algorithm_7",
    "NumericSparse",
    "order_charges",
    "order_filter",
    "Outcome",
    "Ratio",
    "renyi_charge",
    "renyi_charge_bound",
    "Retraversal",
    "round_epsilon",
    "run_epsilon",
    "Sech2Test",
    "SechSquared",
    "Sides",
    "Sparse",
    "SparseState",
    "SparseVectorKind",
    "Split",
    "ThresholdNoise",
    "ThresholdTest",
    "top_c",
    "TopC",
    "ValueNoise",
]
