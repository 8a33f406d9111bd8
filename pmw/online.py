"""The loop as a library: online private multiplicative weights on a histogram.

    from pmw.online import PrivateMultiplicativeWeights

    loop = PrivateMultiplicativeWeights([[5, 3], [2, 9]], epsilon=1, delta=1e-9, threshold=3)
    loop.answer([[1, 1], [0, 0]])

Its sparse vector and its update may be of a class of your own; see ``SparseVector`` and ``UpdateRule``.
"""

from __future__ import annotations

from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Source
from pmw.public.options import Options
from pmw.research.histograms import source_of
from pmw.research.online import (
    Correction,
    MultiplicativeWeights,
    OnlineAnswer,
    PrivateMultiplicativeWeights,
    SparseVector,
    UpdateRule,
)

__all__ = [
    "BitSource",
    "Correction",
    "MultiplicativeWeights",
    "OnlineAnswer",
    "Options",
    "PrivateMultiplicativeWeights",
    "Source",
    "source_of",
    "SparseVector",
    "UpdateRule",
]
