"""Plans: what opening measures, and what is tested against which numbers; all of it public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from typing import ClassVar, TypeAlias

from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.strategy import Strategy
from pmw.model.value_sums import SummedValues
from pmw.privacy.noise import DiscreteGaussian, NoiseDistribution
from pmw.privacy.tail_bounds import l1_mean
from pmw.sparse_vector.sparse import NumericSparse, Sparse
from queries.factors import UNITS
from queries.frozen import dataclass

MOST_RESIDUAL_CELLS = 2**16  # of a marginal that is measured before any question: each is a draw


@dataclass(frozen=True, slots=True)
class AddedPrice:
    """What a marginal is paid besides, for the questions that are expected.

    Args:
        scope: attribute names in declared order.
        price: in parts of the price of ``MarginalTestPlan.noise``.
    """

    scope: tuple[str, ...]
    price: Fraction


@dataclass(frozen=True, slots=True)
class OpeningPlan:
    """What is measured at opening.

    Args:
        total_noise: on the number of records; None where it is public (replace-one).
        marginal_noise: per attribute measured, by name, on each of its cells, or on each node of its tree.
        trees: the attributes that are measured as hierarchical histograms, by name.
        table_noise: on each cell of the whole table, where that is measured in place of the attributes.
        order: all marginals of up to so many attributes are measured before any question: beyond 1, after
            the attributes, as residuals. Then only what the number of records does not say is measured of an
            attribute, and that number takes in nothing else.
        strategies: the rows by which attributes are measured, by name; the noise given is that of cells of
            the same price.
        sums: which sums of values are measured, and the noise on each number.
        expected: the part of what pairs and wider residuals are paid that goes by the questions that are
            expected.
    """

    total_noise: NoiseDistribution | None
    marginal_noise: dict[str, NoiseDistribution]
    trees: dict[str, HierarchicalHistogram] = field(default_factory=dict)
    table_noise: NoiseDistribution | None = None
    order: int = 1
    strategies: dict[str, Strategy] = field(default_factory=dict)
    sums: tuple[tuple[SummedValues, NoiseDistribution], ...] = ()
    expected: Fraction = Fraction(0)

    @property
    def noises(self) -> tuple[NoiseDistribution, ...]:
        """The noises on the marginals, or on the table."""
        table = () if self.table_noise is None else (self.table_noise,)
        return (*self.marginal_noise.values(), *table)

    def levels(self, name: str) -> int:
        """Return how many numbers of an attribute one record changes: the levels of its tree, or one."""
        return self.trees[name].height if name in self.trees else 1


@dataclass(frozen=True, slots=True)
class QueryTestPlan:
    """The tier of single questions: a sparse vector with its threshold and step.

    Args:
        vector: tests and values, in units of 2^-20 records.
        threshold: T, in units.
    """

    vector: NumericSparse
    threshold: int
    learning_rate: float
    tested: ClassVar[str] = "questions"

    @property
    def sparse(self) -> Sparse:
        """The tests."""
        return self.vector.sparse

    @property
    def noise(self) -> NoiseDistribution:
        """The noise on the value that a positive measures, in units."""
        return self.vector.value_noise

    @property
    def update_limit(self) -> int:
        """Number of positives."""
        return self.sparse.update_limit


@dataclass(frozen=True, slots=True)
class MarginalTestPlan:
    """The tier of whole marginals: a sparse vector, and what its positives measure.

    Args:
        sparse: tests of the L1 distance, in units of 2^-20 records.
        noise: of a measured marginal, on each of its cells, in units; that of the dearest pair, for which
            nothing is added, where all pairs are measured before any question.
        noise_factor: of the distance that noise alone would make, in a threshold.
        margin: what a threshold adds to that, in units.
        decay: what the first thresholds add besides, in units, and after how many answers it is e times less.
        most_cells: of a scope that is tested; beyond it a scope has too many cells for the noise.
        free_cells: a scope is measured with further attributes while it has at most so many cells.
        fine_cells: a scope is tested and measured on the declared cells where it has at most so many of them;
            elsewhere on bins.
        bins: about how many a long ordered attribute is put into.
        weights: of each attribute, by name, where all pairs, or more, are measured before any question, as
            residuals: the price of a marginal is in proportion to the product of its weights, which is at
            most 1. Else empty.
        prices: of a marginal of two attributes, of three, and so on, that is measured so and has weights of
            the product 1: in parts of the price of ``noise``, which is that of such a pair. Else empty.
        tests_wider: where all pairs are measured, marginals of three attributes and more are tested.
        added: what these marginals are paid besides.
    """

    sparse: Sparse
    noise: NoiseDistribution
    noise_factor: float
    margin: int
    decay: tuple[int, int]
    most_cells: int
    free_cells: int
    fine_cells: int
    bins: int
    weights: dict[str, Fraction] = field(default_factory=dict)
    prices: tuple[Fraction, ...] = ()
    tests_wider: bool = False
    added: tuple[AddedPrice, ...] = ()
    tested: ClassVar[str] = "marginals"

    @property
    def update_limit(self) -> int:
        """Number of positives."""
        return self.sparse.update_limit

    @property
    def order(self) -> int:
        """The most attributes of the marginals that are all measured before any question."""
        return 1 + len(self.prices)

    @property
    def tests(self) -> bool:
        """Whether any marginal is tested: all, or where pairs are measured, perhaps wider ones."""
        return self.tests_wider or self.order == 1

    def noise_of(self, scope: Sequence[str]) -> NoiseDistribution:
        """Return the noise that a marginal of these attributes is measured with, on each of its cells.

        A marginal of price w has noise of 1/w times the variance, rounded up, and so costs w times as much,
        but for a part of 1/sigma in mu^2, where discrete noise has a surcharge.
        """
        if not 2 <= len(scope) <= self.order or not isinstance(self.noise, DiscreteGaussian):
            return self.noise
        weight = min(Fraction(1), math.prod((self.weights[name] for name in scope), start=Fraction(1)))
        added = sum((one.price for one in self.added if one.scope == tuple(scope)), Fraction(0))
        variance = self.noise.sigma**2 / (weight * self.prices[len(scope) - 2] + added)
        return DiscreteGaussian(Fraction(math.isqrt(math.ceil(variance) - 1) + 1))

    def is_fine(self, cells: int) -> bool:
        """Tell whether a scope of so many declared cells is tested and measured on them, not on bins."""
        return cells <= self.most_fine

    @property
    def most_fine(self) -> int:
        """Declared cells up to which a scope is not binned.

        Wider residuals stand on those of pairs, so both are on the same cells: of bins.
        """
        return self.fine_cells if self.order <= 2 else 0

    def threshold(self, cells: int, asked: int) -> int:
        """Return T of a marginal, in units.

        That is the distance that noise alone would make, were it measured, a margin for the noise of the
        test, and a head start that decays, so that the worst marginals are measured first.
        """
        height, length = self.decay
        start = math.ceil(height * math.exp(-asked / length))
        return math.ceil(cells * l1_mean(self.noise) * UNITS * self.noise_factor) + self.margin + start


TierPlan: TypeAlias = QueryTestPlan | MarginalTestPlan
TestPlan: TypeAlias = tuple[TierPlan, ...]  # in the order in which a question meets them; none: no tests


def marginal_tier(plan: TestPlan) -> MarginalTestPlan | None:
    """Return the tier of whole marginals, where there is one."""
    return next((tier for tier in plan if isinstance(tier, MarginalTestPlan)), None)


def question_tier(plan: TestPlan) -> QueryTestPlan | None:
    """Return the tier of single questions, where there is one."""
    return next((tier for tier in plan if isinstance(tier, QueryTestPlan)), None)
