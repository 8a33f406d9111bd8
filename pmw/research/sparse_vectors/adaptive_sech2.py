"""The sech^2 test with scales chosen as it goes, and a filter instead of a limit of positives.

Thresholds and query scales may change from test to test as any function of the outputs so far. A positive is
charged at the scale of its own test, and a test is refused, with nothing drawn, where its positive would
exceed what is left. Threshold noise stays what it was. The sum of charges cannot exceed the cap, which is
what the induction of the proof needs.

Source: ``docs/proofs/zcdp-sparse-vector.md``, the section on filters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pmw.errors import BudgetExhaustedError
from pmw.privacy.budget import Charge
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors.sech2_charges import order_charges
from pmw.sparse_vector.noisy_comparison import NoisyThreshold, Outcome, Sech2Test, require_integers


@dataclass(frozen=True, slots=True, repr=False)
class AdaptiveState:
    """Where a run stands. The threshold noise is secret; what was charged is public.

    Args:
        noisy: the noise of the run.
        ledger: what was charged, and the cap.
    """

    noisy: NoisyThreshold
    ledger: PrivacyFilter

    def __repr__(self) -> str:
        return f"AdaptiveState(charged {self.ledger.share:.1%} of the cap, noise secret)"


@dataclass(frozen=True, slots=True)
class AdaptiveSech2:
    """Test values at scales of the caller's choice while a filter allows another positive.

    Args:
        test: sides, sensitivity and threshold noise; its query scale is where a test names none.
        order: None to charge epsilons or rhos, as the filter's composition says; a Rényi order, fixed
            beforehand, to charge what a positive costs at this order against an ``order_filter`` of it.

    Privacy: the run stays under the cap of its filter, with whatever else is charged against it.
    """

    test: Sech2Test
    order: float | None = None

    def charges(self, query_scale: Fraction | None = None) -> tuple[Charge, Charge]:
        """Return what the threshold draw and a positive at a scale cost.

        Raises:
            BudgetError: the order is not above 1.
            NoiseError: the scale is not a positive fraction.
        """
        test = self._scaled(query_scale)
        if self.order is None:
            return test.threshold_charge, test.positive_charge
        return order_charges(test, self.order)

    def open(self, ledger: PrivacyFilter, bits: BitSource) -> AdaptiveState:
        """Charge the threshold noise and draw it.

        Raises:
            BudgetExhaustedError: it does not fit; nothing is drawn.
            BudgetError: epsilons add and the noise is Gaussian.
        """
        after = ledger.charge(self.charges()[0])
        return AdaptiveState(self.test.draw_threshold(bits), after)

    def step(
        self,
        state: AdaptiveState,
        value: int,
        threshold: int,
        bits: BitSource,
        *,
        query_scale: Fraction | None = None,
    ) -> tuple[AdaptiveState, Outcome]:
        """Test one value at a scale.

        Args:
            state: the run.
            value: of the statistic, in units.
            threshold: public, in units.
            bits: source of the noise.
            query_scale: b of this test; None for the test's own.

        Raises:
            BudgetExhaustedError: a positive would exceed the cap; nothing is drawn.
            BudgetError: the value is not an integer.
            NoiseError: the scale is not a positive fraction.
        """
        test, price = self._scaled(query_scale), self.charges(query_scale)[1]
        if not state.ledger.allows(price):
            raise BudgetExhaustedError(
                f"expected a positive of at most {float(state.ledger.remaining):g}, got one of "
                f"{float(state.ledger.price(price)):g}; ask for a larger query scale"
            )
        values, thresholds = require_integers(np.array([value])), require_integers(np.array([threshold]))
        outcome = Outcome(test.compare(state.noisy, values, thresholds, bits)[0])
        if outcome is Outcome.BELOW:
            return state, outcome
        return replace(state, ledger=state.ledger.charge(price)), outcome

    def _scaled(self, query_scale: Fraction | None) -> Sech2Test:
        return self.test if query_scale is None else replace(self.test, query_scale=query_scale)
