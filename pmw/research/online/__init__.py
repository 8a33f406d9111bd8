"""The loop as a library: online private multiplicative weights on a histogram, its parts open to others'."""

from __future__ import annotations

from pmw.research.online.loop import (
    Correction,
    MultiplicativeWeights,
    OnlineAnswer,
    PrivateMultiplicativeWeights,
    SparseVector,
    UpdateRule,
)

__all__ = [
    "Correction", "MultiplicativeWeights", "OnlineAnswer", "PrivateMultiplicativeWeights", "SparseVector",
    "UpdateRule",
]  # fmt: skip
