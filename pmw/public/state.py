"""State: everything about a session that may be published. Secrets have a type of their own, in the loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.bins import CoarsenedDistribution, Coarsening
from pmw.model.distribution import SyntheticDistribution
from pmw.model.estimate import noise_variance
from pmw.model.measurement import (
    DEFAULT_BINS,
    MarginalMeasurement,
    Measurement,
    OneWayMeasurement,
    PersonsMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SingleMeasurement,
    SumMeasurement,
)
from pmw.model.mirror_descent import FIRST_STEP_SIZE
from pmw.model.strategy import Strategy
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import CellNumbers, Event, Measurable, PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.plans import (
    MarginalTestPlan,
    OpeningPlan,
    QueryTestPlan,
    TestPlan,
    marginal_tier,
    question_tier,
)
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass

LaterMeasurement: TypeAlias = QueryMeasurement | MarginalMeasurement | ResidualMeasurement | RowsMeasurement
ApartMeasurement: TypeAlias = SumMeasurement | PersonsMeasurement  # the model takes none of them in
_MEASURED = {QueryTestPlan: QueryMeasurement, MarginalTestPlan: MarginalMeasurement}  # at positives, by tier


def requested(measurement: LaterMeasurement | ApartMeasurement) -> Measurable | None:
    """Return what was measured, where no test decided it; None where a positive did."""
    if isinstance(measurement, SumMeasurement):
        return SumNumbers(measurement.summed)
    if isinstance(measurement, PersonsMeasurement):
        return PersonNumbers(measurement.scope, measurement.units.size)
    if isinstance(measurement, RowsMeasurement):
        return QuestionNumbers(measurement.queries)
    if isinstance(measurement, MarginalMeasurement) and measurement.requested:
        return CellNumbers(measurement.scope)
    return None


def paid_for(measurement: LaterMeasurement | ApartMeasurement) -> tuple[str, str]:
    """Return event and label of the charge that pays for a measurement after opening."""
    if isinstance(measurement, QueryMeasurement):
        return Event.MEASUREMENT, measurement.query.describe()
    what, part = requested(measurement), getattr(measurement, "part", 0)
    if what is not None:
        return Event.PART if part else what.event, what.label
    return Event.MARGINAL, ", ".join(measurement.scope)


def singly(measured: Iterable[Measurement]) -> Iterator[SingleMeasurement]:
    """Yield measurements in order, those of a list of questions one by one."""
    for one in measured:
        if isinstance(one, RowsMeasurement):
            yield from one.numbers
        else:
            yield one


def planned_bins(plan: TestPlan) -> int:
    """Return about how many bins a long ordered attribute is put into."""
    tier = marginal_tier(plan)
    return DEFAULT_BINS if tier is None else tier.bins


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """A marginal of a model that a test did not find wrong.

    Args:
        scope: attribute names in declared order.
        version: of the model that was tested.
        threshold: T of the test, in units of 2^-20 records.
        units: the model's marginal as it was tested: int64, one axis per attribute, in units.
    """

    scope: tuple[str, ...]
    version: int
    threshold: int
    units: NDArray[np.int64]

    def __post_init__(self) -> None:
        units = np.array(self.units, dtype=np.int64)
        units.flags.writeable = False
        object.__setattr__(self, "units", units)


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

    @classmethod
    def released(cls, plan: OpeningPlan, units: int, opening: Sequence[OneWayMeasurement]) -> Total:
        """Return the number combined with the sums of the opening's marginals, by inverse variance.

        Post-processing: each marginal's cells, or a tree's least squares cells, sum to the number of records
        plus noise. Where marginals are measured as residuals the number stands alone, so that its noise is
        independent of theirs.

        Args:
            units: the number of records with that noise, in units of 2^-20.
        """
        estimate = units / UNITS
        if plan.total_noise is None:
            return cls(max(1.0, estimate), estimate, 0.0)
        if plan.order > 1:
            return cls(max(1.0, estimate), estimate, math.sqrt(noise_variance(plan.total_noise)))
        estimates = [one.estimate for one in opening]
        values = [estimate, *(float(one.values.sum()) for one in estimates)]
        variances = [noise_variance(plan.total_noise)]
        variances += [one.weighted_variance(np.ones(one.shape)) for one in estimates]
        precision = sum(1 / variance for variance in variances)
        combined = (
            sum(value / variance for value, variance in zip(values, variances, strict=True)) / precision
        )
        return cls(max(1.0, combined), combined, math.sqrt(1 / precision))

    @property
    def records(self) -> float:
        """The number of records that is shown: as it came out of the noise, and not below 0."""
        return max(0.0, self.estimate)


class Found:
    """What was found of the newest of some states, in case that it is asked for again; no part of any."""

    __slots__ = ("_marginals", "local", "own")

    def __init__(self) -> None:
        self.local: object = None  # pmw.public.local_models
        self.own: object = None  # pmw.public.evidence
        self._marginals: tuple[object, tuple[MarginalMeasurement, ...]] = (None, ())

    def marginals(self, measured: tuple[LaterMeasurement, ...]) -> tuple[MarginalMeasurement, ...]:
        """Return the marginals of what was measured since opening."""
        known, found = self._marginals
        if known is not measured:
            found = tuple(one for one in measured if isinstance(one, MarginalMeasurement))
            self._marginals = measured, found
        return found


@dataclass(frozen=True, slots=True)
class PublicState:
    """Everything about a session that may be published: a function of released numbers alone.

    Args:
        ledger: the filter with what was charged.
        total: the number of records.
        measured: what was measured since, in order; marginals are over the domain of their ``grid``.
        model: the synthetic distribution, fitted to opening and measured.
        plan: the tiers of tests, in order; none where nothing was left for any.
        rounds: of each tier, whether it holds threshold noise, so that its next test draws none.
        closed: no more is spent, so nothing is tested.
        coarsening: the bins of long attributes that marginals are tested and measured on.
        beside: positions in ``measured`` of those that the model does not take in.
        certificates: what tests of marginals did not find wrong, by scope.
        asked: how many answers were stored, those left out that took the place of a wider one.
        settled: how many distinct ones were answered to somebody who could have paid for a test.
        step_size: of the descent that fitted the model.
        quantiles: of the errors of answered questions, in order.
        elects_prior: whether the model begins with the contract's prior; None where there is none, or pairs
            that decide it are not measured yet.
        apart: sums of values and numbers of persons, in order, those of opening first.
        found: shared with the states that are made of this one.
    """

    contract: Contract
    ledger: PrivacyFilter
    total: Total
    opening: tuple[OneWayMeasurement, ...]
    measured: tuple[LaterMeasurement, ...]
    model: SyntheticDistribution
    plan: TestPlan
    rounds: tuple[bool, ...]
    coarsening: Coarsening
    closed: bool = False
    beside: tuple[int, ...] = ()
    certificates: Mapping[tuple[str, ...], Certificate] = field(default_factory=dict)
    asked: int = 0
    settled: int = 0
    step_size: float = FIRST_STEP_SIZE
    quantiles: tuple[ErrorQuantile, ...] = ()
    elects_prior: bool | None = None
    apart: tuple[ApartMeasurement, ...] = ()
    found: Found = field(default_factory=Found, compare=False, repr=False)

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.contract.domain

    def grid(self, scope: Sequence[str]) -> Domain:
        """Return the domain on whose cells a marginal is tested and measured: the declared one, or bins.

        What opening measured by rows is measured again by the same ones, on declared cells.
        """
        tier = marginal_tier(self.plan)
        fine = tier is not None and tier.is_fine(self.domain.scope_size(scope))
        by_rows = any(one.scope == tuple(scope) and isinstance(one.rows, Strategy) for one in self.opening)
        return self.domain if fine or by_rows else self.coarsening.coarse

    @property
    def version(self) -> int:
        """The model's version: how often it was fitted since opening."""
        return len(self.measured)

    def goes_on_from(self, measured: tuple[LaterMeasurement, ...]) -> bool:
        """Tell whether it measured all that an earlier state had, and perhaps more."""
        pairs = zip(measured, self.measured, strict=False)
        is_longer = len(self.measured) >= len(measured)
        return self.measured is measured or (is_longer and all(one is other for one, other in pairs))

    def known_until(self, version: int) -> PublicState:
        """Return what was released until the model had a version; the model is the newest all the same."""
        return replace(
            self,
            measured=self.measured[:version],
            beside=tuple(place for place in self.beside if place < version),
            certificates={scope: one for scope, one in self.certificates.items() if one.version <= version},
        )

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements that the model is fitted to."""
        return (*self.opening, *self.measured)

    @property
    def sums(self) -> tuple[SumMeasurement, ...]:
        """The sums of values that were measured, those of opening first."""
        return tuple(one for one in self.apart if isinstance(one, SumMeasurement))

    @property
    def persons(self) -> tuple[PersonsMeasurement, ...]:
        """The numbers of persons that were measured."""
        return tuple(one for one in self.apart if isinstance(one, PersonsMeasurement))

    @property
    def marginals(self) -> tuple[MarginalMeasurement, ...]:
        """The marginals measured since opening."""
        return self.found.marginals(self.measured)

    @property
    def fitted(self) -> tuple[LaterMeasurement, ...]:
        """What the model takes in of ``measured``."""
        return tuple(one for place, one in enumerate(self.measured) if place not in self.beside)

    @property
    def query_plan(self) -> QueryTestPlan | None:
        """The tier of single questions, where there is one."""
        return question_tier(self.plan)

    def positives(self, place: int) -> int:
        """Return the positives of a tier so far: each has measured one thing."""
        kind = _MEASURED[type(self.plan[place])]
        return sum(isinstance(one, kind) and requested(one) is None for one in self.measured)

    @property
    def round_open(self) -> bool:
        """Whether the first tier holds threshold noise."""
        return self.rounds[:1] == (True,)

    @property
    def positives_used(self) -> int:
        """Positives so far of the first tier that tests."""
        place = self._testing
        return 0 if place is None else self.positives(place)

    @property
    def positives_limit(self) -> int:
        """Positives that the first tier that tests may have."""
        place = self._testing
        return 0 if place is None else self.plan[place].update_limit

    @property
    def _testing(self) -> int | None:
        """The place of the first tier that tests: where all pairs were measured, no marginal is tested."""
        idle = (isinstance(tier, MarginalTestPlan) and not tier.tests for tier in self.plan)
        return next((place for place, is_idle in enumerate(idle) if not is_idle), None)


def coarse_model(state: PublicState) -> SyntheticDistribution:
    """Return the state's model over the coarse domain."""
    return state.model.model if isinstance(state.model, CoarsenedDistribution) else state.model
