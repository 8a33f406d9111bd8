"""The plans of a session: against its contract, and what their sparse vectors charge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pmw.privacy.budget import Charge, Composition
from pmw.public.charges import (
    LedgerEntry,
    l1_sensitivity,
    positive_entry,
    query_sensitivity,
    threshold_entry,
)
from pmw.public.contract import Contract
from pmw.public.options import Opening, Options
from pmw.public.plans import MarginalTestPlan, OpeningPlan, TestPlan, TierPlan
from pmw.session.journal import threshold_name
from pmw.session.verification.report import require, same
from pmw.sparse_vector import NoiseKind, Sech2Test, Sides, Sparse


def plans_fit(contract: Contract, opening: OpeningPlan, test: TestPlan) -> str:
    """Check that plans are such as the contract asks for, and return its guarantee.

    Raises:
        SessionCorruptError: they are not.
    """
    options = contract.options
    _opening_fits(contract, opening)
    if test:
        same("what is tested", "marginals" if options.tests_marginals else "questions", test[0].tested)
        if options.update_limit is not None:
            same("positives", options.update_limit, test[0].update_limit)
    for tier in test:
        _tier_fits(tier, options)
    return f"epsilon {float(contract.budget.epsilon):g}, delta {float(contract.budget.delta):g}"


def _opening_fits(contract: Contract, opening: OpeningPlan) -> None:
    options = contract.options
    measured = list(contract.domain.names) if options.opening is Opening.ONE_WAY else []
    if opening.table_noise is not None:
        require(
            bool(measured) and options.tests_marginals,
            "the whole table is measured only where one-way marginals would be, and marginals are tested",
        )
        measured = []
    same("marginals planned", measured, list(opening.marginal_noise))
    for name, tree in opening.trees.items():
        attribute = contract.domain[name]
        same(f"cells of the tree of {name}", (attribute.base_size, attribute.size), (tree.cells, tree.size))
    require(
        (opening.total_noise is None) == options.public_count,
        "the number of records is public under replace-one without a column of ids, and only there",
    )


def _tier_fits(tier: TierPlan, options: Options) -> None:
    monotone = tier.sparse.test.monotone
    if isinstance(tier, MarginalTestPlan):
        _tests_fit(tier.sparse, options, l1_sensitivity(options), Sides.ONE_SIDED)
        require(not monotone, "distances of marginals move both ways between neighbours")
    else:
        _tests_fit(tier.sparse, options, query_sensitivity(options), options.chosen_sides)
        require(not monotone or options.signs_agree, "tests count on all counts moving the same way")


def _tests_fit(sparse: Sparse, options: Options, sensitivity: int, sides: Sides) -> None:
    test, kind = sparse.test, options.chosen_sparse_vector(options.composition or Composition.PURE)
    same("sensitivity of tests", sensitivity, test.sensitivity)
    same("sides of tests", sides, test.sides)
    same("whether tests are of sech^2", kind.is_sech2, isinstance(test, Sech2Test))
    same("whether their noise is Laplace noise", kind.is_laplace, test.noise is NoiseKind.LAPLACE)
    same("rounds of tests", kind.redraw, sparse.redraw)


# --- sparse vectors ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorLedger:
    """What one sparse vector charges.

    Args:
        tested: what it tests, in a word.
        threshold: what drawing threshold noise charges.
        positive: what a positive charges with what it measures; its label is that of any.
        secret: the name under which its threshold noise is kept.
        sparse: its tests.
    """

    tested: str
    threshold: LedgerEntry
    positive: LedgerEntry
    secret: str
    sparse: Sparse

    def draws(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for threshold noise of this vector."""
        return (entry.event, entry.label) == (self.threshold.event, self.threshold.label)

    def measures(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for a positive of this vector."""
        return entry.event == self.positive.event

    def paid(self, entries: Iterable[LedgerEntry]) -> tuple[int, int]:
        """Return how often threshold noise was paid for, and how many positives were."""
        charged = tuple(entries)
        return sum(map(self.draws, charged)), sum(map(self.measures, charged))

    def is_open(self, rounds: int, positives: int) -> bool:
        """Tell whether so many rounds and positives leave a round open."""
        return rounds > (positives if self.sparse.redraw else 0) and positives < self.sparse.update_limit

    def reserved(self, *, is_open: bool) -> Charge:
        """Return the most that a batch of its tests can charge."""
        return self.positive.charge if is_open else self.threshold.charge + self.positive.charge


def vectors_of(plan: TestPlan, options: Options, composition: Composition) -> tuple[VectorLedger, ...]:
    """Return the sparse vectors of a plan, one of each tier."""
    return tuple(
        VectorLedger(
            tier.tested,
            threshold_entry(tier, place, composition),
            positive_entry(tier, options, composition, ""),
            threshold_name(place),
            tier.sparse,
        )
        for place, tier in enumerate(plan)
    )
