"""Tests of one's own in the loop: AboveThreshold with Gaussian noise, audited by one call.

The tests add Gaussian noise to every error. Each is a Gaussian release of which one bit is shown, and costs
Delta^2/(2 sigma^2) of rho, "below" or not: so all of them are charged at opening.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pmw.online import BitSource, Options, PrivateMultiplicativeWeights
from pmw.privacy.budget import Charge, Composition, gaussian_charge
from pmw.privacy.noise import DiscreteGaussian
from pmw.research.audit import audit_sparse_vector
from queries import UNITS


@dataclass(frozen=True)
class GaussianAboveThreshold:
    """At most so many tests, each with Gaussian noise of its own; positives have other noise."""

    sigma: Fraction
    tests: int
    update_limit: int = 3
    sensitivity: int = UNITS
    monotone: bool = False
    redraw: bool = False

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        one = gaussian_charge(Fraction(self.sensitivity) ** 2, self.sigma)
        each = Charge(None, self.tests * one.rho, one.mu_squared and self.tests * one.mu_squared)
        return each, one

    def open(self, bits: BitSource) -> int:
        return 0

    def step(self, state: int, value: int, threshold: int, bits: BitSource) -> tuple[int, int, int | None]:
        if state == self.tests:
            return state, 0, None  # the model answers from here on: nothing more is drawn
        noise = DiscreteGaussian(self.sigma)
        above = abs(value) + noise.sample(bits) >= threshold
        return state + 1, int(above), value + noise.sample(bits) if above else None


counts = np.random.default_rng(1).integers(0, 500, (6, 4))
tests = GaussianAboveThreshold(Fraction(40 * UNITS), tests=30)
loop = PrivateMultiplicativeWeights(
    counts, 2, 1e-6, sparse_vector=tests, threshold=200, options=Options(seed=2)
)
for row in range(6):
    print(loop.answer(f"x0 <= {row}"), "true", counts[: row + 1].sum())
print(loop)
print(audit_sparse_vector(GaussianAboveThreshold(Fraction(2 * UNITS), tests=6), runs=200, seed=3))
