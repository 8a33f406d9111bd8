"""Retraversal: a sparse vector that raises its thresholds and passes again over what it has not selected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Charge, Composition, Number, as_fraction
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.noisy_comparison import NoiseKind, require_integers
from pmw.sparse_vector.sparse import Sparse, SparseState

__all__ = [
    "Retraversal",
]


@dataclass(frozen=True, slots=True)
class Retraversal:
    """Select up to c of values that are all there beforehand, by repeated passes of one sparse vector.

    Each threshold is raised by a number of standard deviations of the test noise, so that a pass selects few
    values and surely large ones; the next pass tests those that are left, with fresh noise, until c are
    selected or the passes are used up. Selected values are not tested again.

    Args:
        sparse: the tests; c is its update limit.
        deviations: how far thresholds are raised, in standard deviations of the test noise; at least 0.
        passes: the most passes, fixed beforehand; at least 1.

    Raises:
        BudgetError: a parameter is out of range.

    Privacy: the price of ``sparse``, once: it is one run on a stream of tests that is chosen from public
        outcomes, however often a value occurs in it.

    Source: Lyu, Su and Li (2017), Section 5 (SVT-ReTr); the bound on the passes is a departure, without which
        a run need not end.
    """

    sparse: Sparse
    deviations: Fraction = Fraction(1)
    passes: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "deviations", as_fraction(self.deviations, "deviations"))
        if self.deviations < 0:
            raise BudgetError(f"expected deviations of at least 0, got {float(self.deviations):g}")
        if self.passes < 1:
            raise BudgetError(f"expected at least 1 pass, got {self.passes}")

    @classmethod
    def of(cls, sparse: Sparse, *, deviations: Number = 1, passes: int = 100) -> Retraversal:
        """Return the algorithm, ``deviations`` being given as it is written.

        Raises:
            BudgetError: a parameter is out of range.
        """
        return cls(sparse, as_fraction(deviations, "deviations"), passes)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the whole run when epsilons add: that of the sparse vector."""
        return self.sparse.total_epsilon

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged when threshold noise is drawn, and at each selected value."""
        return self.sparse.charges(composition)

    @property
    def raised(self) -> int:
        """How far thresholds are raised, in whole units rounded up: sqrt(2) b for Laplace noise, else b."""
        spread = math.sqrt(2) if self.sparse.test.noise is NoiseKind.LAPLACE else 1.0
        return math.ceil(float(self.deviations) * spread * float(self.sparse.test.query_scale))

    def select(
        self, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> tuple[int, ...]:
        """Return the places selected, at most c, in the order in which they were.

        Args:
            values: int64, shape (n,).
            thresholds: int64, shape (n,), public, before they are raised.
            bits: source of the noise.

        Raises:
            BudgetError: a value is not an integer.
        """
        given, limits = require_integers(values), require_integers(thresholds) + self.raised
        state, left, selected = self.sparse.open(bits), np.arange(len(given)), list[int]()
        for _ in range(self.passes):
            state, found = self._pass(state, given[left], limits[left], bits)
            selected.extend(int(place) for place in left[found])
            left = np.delete(left, found)
            if state.positives >= self.sparse.update_limit or not len(left):
                break
        return tuple(selected)

    def _pass(
        self, state: SparseState, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> tuple[SparseState, list[int]]:
        """Return the state after one pass, and the places that it selected."""
        start, found = 0, list[int]()
        while start < len(values) and state.positives < self.sparse.update_limit:
            state, outcomes = self.sparse.scan(state, values[start:], thresholds[start:], bits)
            start += len(outcomes)
            if outcomes[-1]:
                found.append(start - 1)
        return state, found
