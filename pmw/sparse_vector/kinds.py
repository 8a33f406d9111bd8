"""The sparse vectors that a session may be asked for, by name."""

from __future__ import annotations

import enum


class SparseVectorKind(enum.Enum):
    """A sound sparse vector: the distribution of its noise, and whether its threshold noise is drawn once or
    again.

    ``EXPONENTIAL``: one-sided noise, one draw for the threshold.
    ``EXPONENTIAL_ROUNDS``: the same, the threshold's drawn again after each positive.
    ``LAPLACE``: two-sided noise, one draw: Lyu, Su and Li (2017), Algorithm 7.
    ``LAPLACE_ROUNDS``: the same, drawn again: Dwork and Roth (2014), Algorithm 2.
    ``SECH2``: positives by a coin of sech^2, one draw for the threshold: Gaussian under zCDP, else one-sided.
    """

    EXPONENTIAL = "exponential"
    EXPONENTIAL_ROUNDS = "exponential-rounds"
    LAPLACE = "laplace"
    LAPLACE_ROUNDS = "laplace-rounds"
    SECH2 = "sech2"

    @property
    def redraw(self) -> bool:
        """New threshold noise is drawn after each positive."""
        return self in (SparseVectorKind.EXPONENTIAL_ROUNDS, SparseVectorKind.LAPLACE_ROUNDS)

    @property
    def theorem(self) -> str:
        """What the price of its tests rests on."""
        return _THEOREMS[self]

    @property
    def is_laplace(self) -> bool:
        """Its noise is two-sided, so a negative bounds its own test alone."""
        return self in (SparseVectorKind.LAPLACE, SparseVectorKind.LAPLACE_ROUNDS)

    @property
    def is_sech2(self) -> bool:
        """Its positives rest on the proof in ``docs/proofs/zcdp-sparse-vector.md``."""
        return self is SparseVectorKind.SECH2


_ONE_SIDED = "Lyu, Su and Li (2017), eq. 5, for one-sided noise (docs/algorithm.md)"
_THEOREMS = {
    SparseVectorKind.EXPONENTIAL: _ONE_SIDED,
    SparseVectorKind.EXPONENTIAL_ROUNDS: _ONE_SIDED,
    SparseVectorKind.LAPLACE: "Lyu, Su and Li (2017), Algorithm 7",
    SparseVectorKind.LAPLACE_ROUNDS: "Dwork and Roth (2014), Theorem 3.25",
    SparseVectorKind.SECH2: "docs/proofs/zcdp-sparse-vector.md",
}
