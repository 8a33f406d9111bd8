"""Policy: what a custodian may choose at opening, and what is fixed for the session once chosen."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from pmw.errors import BudgetError
from pmw.model.measurement import NoiseLaw
from pmw.privacy import Budget, Composition, NeighboringRelation
from pmw.sparse_vector import NoiseKind, NumericSparse, Sides
from queries.domain import Domain

__all__ = [
    "Contract",
    "Opening",
    "OpeningPlan",
    "Options",
    "QueryTestPlan",
    "UpdateRule",
]


class Opening(enum.Enum):
    """What is bought before the first question, besides the number of records."""

    NONE = "none"  # the uniform start of the textbooks
    ONE_WAY = "one-way"  # every one-attribute marginal


class UpdateRule(enum.Enum):
    """What a measurement does to the model."""

    STEP = "step"  # one multiplicative weights step of fixed length
    REFIT = "refit"  # multiplicative weights over all measurements until they are met


@dataclass(frozen=True, slots=True)
class Options:
    """The custodian's choices; None leaves a choice to planning.

    Args:
        neighboring_relation: which tables must be indistinguishable.
        records_per_person: the most records of one person; declared, not enforced.
        update: what a measurement does to the model.
        opening: what is bought before the first question.
        update_limit: number of positives.
        threshold: T in records.
        learning_rate: eta of the single step.
        test_noise: law of the noise in tests.
        sides: signed tests with two thresholds, or tests of the absolute error.
        redraw: new threshold noise after each positive.
        composition: how charges add up.
        expected_queries: about how many different questions will come; it sets thresholds, not a limit.
        confidence: of the intervals.
        seed: makes the noise repeatable by anybody, for tests and experiments in memory: no privacy.

    Raises:
        BudgetError: a choice is out of range or contradicts another.
    """

    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_REMOVE
    records_per_person: int = 1
    update: UpdateRule = UpdateRule.REFIT
    opening: Opening = Opening.ONE_WAY
    update_limit: int | None = None
    threshold: float | None = None
    learning_rate: float | None = None
    test_noise: NoiseKind = NoiseKind.EXPONENTIAL
    sides: Sides | None = None
    redraw: bool | None = None
    composition: Composition | None = None
    expected_queries: int = 10_000
    confidence: float = 0.95
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            ("records_per_person", 1, 10**6),
            ("update_limit", 1, 10**6),
            ("expected_queries", 1, 10**12),
        ):
            value = getattr(self, name)
            if value is not None and not (_is_whole(value) and low <= value <= high):
                raise BudgetError(f"expected {name} from {low:,} to {high:,}, got {value!r}")
        for name in ("threshold", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise BudgetError(f"expected a positive {name}, got {value!r}")
        if self.threshold is not None and self.threshold > 10**12:
            raise BudgetError(f"expected a threshold of at most 1e12 records, got {self.threshold!r}")
        if not 0 < self.confidence < 1:
            raise BudgetError(f"expected a confidence strictly between 0 and 1, got {self.confidence!r}")
        if self.sides is Sides.ONE_SIDED:
            raise BudgetError("a loop tests for errors of both signs; choose two-sided or two-thresholds")
        if self.sides is Sides.TWO_THRESHOLDS and not self.signs_agree:
            raise BudgetError("two thresholds need add-remove neighbours; choose two-sided under replace-one")

    @property
    def signs_agree(self) -> bool:
        """Between neighbours all counts move the same way, so signed tests cost half."""
        return self.neighboring_relation is NeighboringRelation.ADD_REMOVE

    @property
    def chosen_sides(self) -> Sides:
        """The sides asked for, or two thresholds where they are allowed."""
        if self.sides is not None:
            return self.sides
        return Sides.TWO_THRESHOLDS if self.signs_agree else Sides.TWO_SIDED


@dataclass(frozen=True, slots=True)
class Contract:
    """What is fixed when a session opens, all of it public.

    Args:
        domain: the declared attributes.
        budget: the guarantee.
        options: the custodian's choices.
    """

    domain: Domain
    budget: Budget
    options: Options

    @property
    def seeded(self) -> bool:
        """The noise can be repeated by anybody: no privacy. Every output says so."""
        return self.options.seed is not None


@dataclass(frozen=True, slots=True)
class OpeningPlan:
    """What is bought at opening.

    Args:
        total_noise: on the number of records; None where it is public (replace-one).
        marginal_noise: per attribute bought, by name, on each of its cells.
    """

    total_noise: NoiseLaw | None
    marginal_noise: dict[str, NoiseLaw]


@dataclass(frozen=True, slots=True)
class QueryTestPlan:
    """The loop's sparse vector with its threshold and step.

    Args:
        vector: tests and values, in units of 2^-20 records.
        threshold: T, in units.
        learning_rate: eta of the single step.
    """

    vector: NumericSparse
    threshold: int
    learning_rate: float

    @property
    def update_limit(self) -> int:
        """Number of positives."""
        return self.vector.sparse.update_limit


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
