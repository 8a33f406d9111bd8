"""The two parts of the loop that a user's own class may be: the sparse vector, and the update."""

from __future__ import annotations

import math
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Charge, Composition
from pmw.privacy.random_bits import BitSource
from queries.frozen import dataclass

State = TypeVar("State")


class SparseVector(Protocol[State]):
    """Tests whether an error is large, and measures it where it is; ``NumericSparse`` is one.

    Values are signed errors, q(D) - q(A), integers in units of 2^-20 records. What it says of itself is what
    it is charged for: ``pmw.research.audit.audit_sparse_vector`` holds the two against each other.

    Privacy: for neighbours whose values differ by at most ``sensitivity`` each, and in one direction where it
        is ``monotone``, a run of any number of tests that are chosen by what came before, with at most
        ``update_limit`` positives, costs at most the sum of ``charges``: the first whenever threshold noise
        is drawn, the second for each positive with its value.
    """

    @property
    def sensitivity(self) -> int:
        """The most that a value may differ between neighbours, in units of 2^-20 records."""

    @property
    def monotone(self) -> bool:
        """Its price holds only where all values move the same way between neighbours."""

    @property
    def update_limit(self) -> int:
        """c, the number of positives; the loop tests nothing after them."""

    @property
    def redraw(self) -> bool:
        """New threshold noise is drawn after each positive, and charged again."""

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged before threshold noise is drawn, and for each positive with its value."""

    def open(self, bits: BitSource) -> State:
        """Return the secret state before the first test."""

    def step(
        self, state: State, value: int, threshold: int, bits: BitSource
    ) -> tuple[State, int, int | None]:
        """Test one value.

        Args:
            value: the error, in units; secret.
            threshold: T, in units; public.
            bits: the only source of noise.

        Returns:
            The next state; 0 where the error is not large, else another number; and the value with fresh
            noise, in units, where it is large, else None.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """What an update is told: all of it public.

    Args:
        cells: float64, the histogram's shape, the model's records per cell; read-only.
        weights: float64, the same shape, of the question, in [0, 1]; read-only.
        estimate: the model's answer, in records.
        measured: the noisy answer, in records.
        total: the number of records that the model spreads.
    """

    cells: NDArray[np.float64]
    weights: NDArray[np.float64]
    estimate: float
    measured: float
    total: float
    updates: int


class UpdateRule(Protocol):
    """How the model is corrected: a function, or an object that is called like one.

    Privacy: it is told released numbers alone, so whatever it does is post-processing, and free.
    """

    def __call__(self, correction: Correction, /) -> ArrayLike:
        """Return the exponents: each cell is multiplied by e to its exponent, and the model normalised.

        Every positive distribution can be written so: the logarithm of its ratio to ``correction.cells``.

        Returns:
            Finite numbers, an array of the histogram's shape.
        """


@dataclass(frozen=True, slots=True)
class MultiplicativeWeights:
    """The textbook's update: A(x) becomes A(x) exp(+-eta q(x)), up where the measured answer is higher.

    Source: Dwork and Roth (2014), Algorithm 5, as ``pmw.model.step``.
    """

    learning_rate: float

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < math.inf:
            raise BudgetError(f"expected a positive learning rate, got {self.learning_rate}")

    def __call__(self, correction: Correction, /) -> NDArray[np.float64]:
        """Return the exponents: float64, the histogram's shape."""
        up = correction.measured > correction.estimate
        exponents: NDArray[np.float64] = correction.weights * (
            self.learning_rate if up else -self.learning_rate
        )
        return exponents
