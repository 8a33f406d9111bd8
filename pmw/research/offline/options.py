"""What may be chosen for an offline release, what its rounds choose among, and what each may cost.

The candidates of a workload are public, like all questions. So is the schedule of the rounds: it looks at
measurements and models alone.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import TypeAlias

from pmw.errors import BudgetError
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.public.options import ModelKind, Opening, Options, TestKind, UpdateRule
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery

_FINAL_REFITS = 30

# Choices of a session that a release has no use for, and what it has in their place.
_OF_SESSIONS = {
    "update_limit": "; choose rounds",
    "threshold": "",
    "learning_rate": "",
    "sparse_vector": "",
    "sides": "",
    "expected_queries": "",
    "simultaneous": "",
    "accuracy": ", and records with it",
    "prior": "",
    "expected": "",
    "minimum_count": "",
    "drafts": "",
}
MOST_CANDIDATES = 100_000
_LONGEST_SCOPE = 16  # attributes; a scope of 16 has 65,535 parts
WorkloadItem: TypeAlias = LinearQuery | Sequence[str]
# Chosen on random streams with other seeds than the benchmark's; from 2 to 16 rounds, and from a price
# that grows by half to one that grows fourfold, the errors differ by a tenth.
ROUNDS_PER_ATTRIBUTE = 4  # that the first, smallest shares would last for
_GROWTH = 2  # of a round's price, where a measurement no longer paid


class Targets(enum.Enum):
    """What each round chooses among, and measures."""

    MARGINAL = "marginal"  # the marginals of the workload's scopes, and of every part of them
    QUERY = "query"  # the workload's questions, as in the textbook


@dataclass(frozen=True, slots=True)
class OfflineOptions:
    """The custodian's choices; None leaves a choice to the release.

    Args:
        rounds: number of rounds, with equal shares of what opening leaves; None begins with small shares,
            and doubles them whenever a measurement moved the model no more than its noise would.
        selection_share: part of a round's price that pays for the choice, strictly between 0 and 1.
        final_refits: how often the model is refitted after the last round; free, each from the one before,
            and where marginals are measured ten steps of a descent.
        policy: the choices that a session has too: neighbours, records per person, opening, composition,
            confidence and seed; where questions are measured the update rule (with ``test = query``); where
            marginals of a large domain are, the kind of model and its cells; with ``early_stop`` the
            threshold. Any other is refused.
        early_stop: where questions are measured in a fixed number of rounds, end at the first error that is
            measured as small: at most the threshold, or, without one, what the noise of the measurement
            alone reaches at the stated confidence. What is left of the budget stays unspent.
    """

    targets: Targets = Targets.MARGINAL
    rounds: int | None = None
    selection_share: Fraction = Fraction(1, 5)
    final_refits: int = _FINAL_REFITS
    policy: Options = field(default_factory=Options)
    early_stop: bool = False

    @classmethod
    def textbook(
        cls, *, rounds: int, threshold: float | None = None, policy: Options | None = None
    ) -> OfflineOptions:
        """Return the textbook's offline private multiplicative weights.

        From a uniform start each round chooses the question that the model answers worst by the exponential
        mechanism, measures its error, returns the model where that is small, and otherwise makes one
        multiplicative weights step. No refit follows.

        Args:
            rounds: the most there will be, O(log|X| / alpha^2) in the lecture.
            threshold: the error that is small, in records; None for what noise alone reaches.
            policy: neighbours, records per person, composition, confidence and seed.

        Source: Kamath, Lecture 9, private multiplicative weights, steps 1 to 3; Hardt, Ligett and McSherry
            (2012), Figure 1, for the length of a step and for halves of a round's price.
        """
        chosen = replace(
            policy or Options(),
            test=TestKind.QUERY,
            update=UpdateRule.STEP,
            opening=Opening.NONE,
            threshold=threshold,
        )
        share = Fraction(1, 2)  # a stop is as good as the choice: one of a small error ends the release
        return cls(Targets.QUERY, rounds, share, final_refits=0, policy=chosen, early_stop=True)

    def __post_init__(self) -> None:
        rounds = self.rounds
        if rounds is not None and (isinstance(rounds, bool) or not 1 <= rounds <= 10**6):
            raise BudgetError(f"expected rounds from 1 to 1,000,000, got {rounds!r}")
        if isinstance(self.final_refits, bool) or not 0 <= self.final_refits <= 10**4:
            raise BudgetError(f"expected final_refits from 0 to 10,000, got {self.final_refits!r}")
        share = self.selection_share
        if not isinstance(share, Fraction) or not 0 < share < 1:
            raise BudgetError(
                f"expected a selection_share, a fraction strictly between 0 and 1, got {share!r}"
            )
        self._check_policy()

    def _check_policy(self) -> None:
        """Refuse choices that the release would not look at."""
        policy, usual = self.policy, Options()
        for name, instead in _OF_SESSIONS.items():
            if name == "threshold" and self.early_stop:
                continue
            if getattr(policy, name) != getattr(usual, name):
                raise BudgetError(
                    f"{name} is for sessions; an offline release has no use for it: leave it out{instead}"
                )
        if self.targets is Targets.MARGINAL and not policy.tests_marginals:
            raise BudgetError("test = query goes with targets = query; leave it out, or choose these targets")
        if self.early_stop and (self.targets is not Targets.QUERY or self.rounds is None):
            raise BudgetError("early_stop goes with targets = query and a number of rounds; choose both")
        if policy.update is UpdateRule.STEP and self.final_refits not in (0, _FINAL_REFITS):
            raise BudgetError("final_refits belongs to update = refit; leave it out with update = step")


def release_policy(domain: Domain, options: OfflineOptions) -> Options:
    """Return the policy of a release's contract.

    Where marginals are measured and an array over the domain would be long to fit, long attributes are
    binned, and the model is that of a session's marginal test. Otherwise opening is that of the textbook
    mode, and the model is dense on the declared cells.
    """
    policy = options.policy
    if options.targets is Targets.MARGINAL and domain.size > DEFAULT_MAX_CELLS:
        return policy
    if policy.model is ModelKind.GRAPHICAL or policy.max_cells is not None:
        name = "max_cells" if policy.max_cells is not None else "model = graphical"
        raise BudgetError(
            f"{name} belongs to marginals of a domain of more than {DEFAULT_MAX_CELLS:,} cells; this release "
            "has a dense model; leave it out"
        )
    return replace(policy, test=TestKind.QUERY)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What rounds choose among.

    Args:
        scopes: every part of every scope of the workload, shorter ones first; empty where questions are
            chosen.
        queries: the workload's questions, each once; empty where it lists scopes alone.
    """

    scopes: tuple[tuple[str, ...], ...]
    queries: tuple[LinearQuery, ...]


def candidates_of(domain: Domain, workload: Iterable[WorkloadItem], targets: Targets) -> Candidates:
    """Return the candidates of a workload: its scopes closed downwards, or its questions."""
    queries: dict[bytes, LinearQuery] = {}
    wide: dict[tuple[str, ...], None] = {}
    for item in workload:
        if isinstance(item, LinearQuery):
            if item.domain != domain:
                raise QueryError("the workload was made for another domain", code="bad_request")
            queries.setdefault(item.key(), item)
            wide[item.scope] = None
        else:
            wide[domain.scope([item] if isinstance(item, str) else item)] = None
    if targets is Targets.QUERY:
        if not queries:
            raise QueryError("expected a workload of questions to choose among, got none", code="bad_request")
        if len(queries) == 1:
            raise QueryError(
                "expected a workload of at least two different questions to choose among, got one; a session "
                "measures it without paying for a choice",
                code="bad_request",
            )
        return Candidates((), tuple(queries.values()))
    scopes = _parts(wide)
    if not scopes:
        raise QueryError("expected a workload that names an attribute, got none", code="bad_request")
    return Candidates(tuple(sorted(scopes, key=lambda scope: (len(scope), scope))), tuple(queries.values()))


def _parts(wide: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    scopes: set[tuple[str, ...]] = set()
    for scope in wide:
        if len(scope) > _LONGEST_SCOPE:
            raise QueryError(
                f"expected scopes of at most {_LONGEST_SCOPE} attributes, got one of {len(scope)}",
                code="too_large",
            )
        for length in range(1, len(scope) + 1):
            scopes.update(itertools.combinations(scope, length))
        if len(scopes) > MOST_CANDIDATES:
            raise QueryError(
                f"expected a workload of at most {MOST_CANDIDATES:,} scopes with their parts",
                code="too_large",
            )
    return scopes


@dataclass(frozen=True, slots=True)
class RoundPrices:
    """What one round may cost, in the filter's own measure; multiples of 1/RHO_GRID."""

    selection: Fraction
    measurement: Fraction


@dataclass(frozen=True, slots=True)
class Schedule:
    """Shares of the budget for the rounds to come.

    Args:
        price: of the next round, if it is not the last.
        rounds_left: where their number is fixed; None where precision grows.
        selection_share: part of a round's price that pays for the choice.
    """

    price: Fraction
    rounds_left: int | None
    selection_share: Fraction

    def is_last(self, budget_filter: PrivacyFilter) -> bool:
        """Tell whether the next round is the last one, which takes all that is left."""
        if self.rounds_left is not None:
            return self.rounds_left == 1
        return budget_filter.remaining < 2 * self.price

    def prices(self, budget_filter: PrivacyFilter) -> RoundPrices:
        """Return the prices of the next round."""
        price = budget_filter.remaining if self.is_last(budget_filter) else self.price
        selection = floor_price(price * self.selection_share)
        return RoundPrices(selection, floor_price(price) - selection)

    def after(self, *, paid: bool) -> Schedule:
        """Return the schedule after a round: twice the price where a measurement no longer paid.

        Source: McKenna, Mullins, Sheldon and Miklau (2022), AIM, Algorithm 3 (budget annealing), where the
            price grows fourfold.
        """
        if self.rounds_left is not None:
            return replace(self, rounds_left=self.rounds_left - 1)
        return self if paid else replace(self, price=_GROWTH * self.price)


def first_schedule(budget_filter: PrivacyFilter, attributes: int, options: OfflineOptions) -> Schedule:
    """Return the schedule after opening."""
    rounds = options.rounds or ROUNDS_PER_ATTRIBUTE * attributes
    return Schedule(floor_price(budget_filter.remaining / rounds), options.rounds, options.selection_share)
