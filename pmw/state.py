"""State: what everybody may see, and what nobody may. Two types, so that a secret cannot pass for public."""

from __future__ import annotations

from dataclasses import dataclass

from pmw.accounting import PrivacyFilter
from pmw.model import DenseDistribution, MarginalMeasurement, Measurement, QueryMeasurement
from pmw.policy import Contract, QueryTestPlan
from pmw.sparse_vector import NoisyThreshold
from queries.domain import Domain
from queries.linear import LinearQuery

__all__ = [
    "PublicState",
    "SecretState",
    "Total",
]


@dataclass(frozen=True, slots=True)
class Total:
    """The number of records, as released or as public.

    Args:
        value: records, at least 1: a model needs something to spread.
        estimate: records, as it came out of the noise.
        deviation: standard deviation of the estimate, in records; 0 where the number is public.
    """

    value: float
    estimate: float
    deviation: float


@dataclass(frozen=True, slots=True)
class PublicState:
    """Everything about a session that may be published: a function of released numbers alone.

    Args:
        contract: what was fixed at opening.
        ledger: the filter with what was charged.
        total: the number of records.
        opening: the marginals bought at opening.
        measured: the answers bought since, in order.
        model: the synthetic distribution, fitted to opening and measured.
        plan: the sparse vector; None where nothing was left for one.
        round_open: the sparse vector holds threshold noise, so the next test draws none.
        closed: no more is spent, so nothing is tested.
    """

    contract: Contract
    ledger: PrivacyFilter
    total: Total
    opening: tuple[MarginalMeasurement, ...]
    measured: tuple[QueryMeasurement, ...]
    model: DenseDistribution
    plan: QueryTestPlan | None
    round_open: bool
    closed: bool = False

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.contract.domain

    @property
    def version(self) -> int:
        """The model's version: how often it was fitted since opening."""
        return len(self.measured)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements that the model is fitted to."""
        return (*self.opening, *self.measured)

    @property
    def positives_used(self) -> int:
        """Positives of the sparse vector so far."""
        return len(self.measured)

    @property
    def positives_limit(self) -> int:
        """Positives that the sparse vector may have."""
        return 0 if self.plan is None else self.plan.update_limit

    def covering(self, query: LinearQuery) -> MarginalMeasurement | None:
        """Return a measured marginal whose scope contains the query's, or None."""
        wanted = set(query.scope)
        for measurement in self.opening:
            if wanted <= set(measurement.scope):
                return measurement
        return None


@dataclass(frozen=True, slots=True, repr=False)
class SecretState:
    """What must never be shown: the noise of the open round.

    The data themselves stay behind a count source, and intent bytes live from an intent to its outcome only.

    Args:
        noisy: threshold noise of the open round; None where none is open.
    """

    noisy: NoisyThreshold | None

    def __repr__(self) -> str:
        return "SecretState(not shown)"
