"""The loop over batches of questions: propose, draw, settle, whatever tiers test; and what it could cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.loop.secret import SecretState
from pmw.loop.tiers import BatchDraws, MarginalTier, Proposal, QuestionTier, Tier
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.public.answers import Answers
from pmw.public.charges import LedgerEntry, threshold_entry
from pmw.public.clear import may_draw
from pmw.public.evidence import own_numbers
from pmw.public.free_answers import FreeAnswers
from pmw.public.plans import MarginalTestPlan, QueryTestPlan, TestPlan
from pmw.public.state import PublicState
from pmw.sparse_vector import SparseState
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.questions import QuestionList, Questions

if TYPE_CHECKING:
    from pmw.data import CountSource

_Tier: TypeAlias = Tier[Any, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """What a batch came to.

    Args:
        answers: to the first of its questions, in order; those after a positive are asked again.
    """

    state: PublicState
    answers: Answers


_TIERS: dict[type, Callable[[int, Any], _Tier]] = {
    MarginalTestPlan: MarginalTier,
    QueryTestPlan: QuestionTier,
}


def tiers_of(plan: TestPlan) -> list[_Tier]:
    """Return the tiers of a plan, in the order in which they are asked."""
    return [_TIERS[type(one)](place, one) for place, one in enumerate(plan)]


def propose(state: PublicState, queries: Sequence[LinearQuery]) -> Proposal:
    """Return what is tested for the first of the questions, up to one that asks another tier for a test.

    While a positive can be paid, a question is tested by the first tier that it asks for anything: where
    marginals are tested, it is those that it is about, and then, if none of them holds it, the question by
    itself. A closed session tests nothing.
    """
    tiers = tiers_of(state.plan)
    wanted = [tier.wanted(state, queries) for tier in tiers]
    first, taken = None, list[tuple[Sequence[Any], ...]]()
    for wants in zip(*wanted, strict=True):
        own = next((place for place, want in enumerate(wants) if want), None)
        if first is not None and own not in (None, first):
            break
        first = own if first is None else first
        taken.append(wants)
    if first is None:
        return Proposal.untested(queries)
    return tiers[first].propose(state, queries[: len(taken)], [wants[first] for wants in taken])


def may_test(state: PublicState) -> bool:
    """Tell whether noise may be drawn for a question: while a positive, or a number, can be had and paid."""
    if state.contract.options.reserved and not state.closed:
        return may_draw(state)
    return any(tier.may_test(state) for tier in tiers_of(state.plan))


def are_tested(state: PublicState, questions: Questions) -> NDArray[np.bool_]:
    """Tell which questions ask for a test, each as if it were the next: bool, shape (n,).

    Questions of one kind ask for the same, but for those that were measured themselves, and under an accuracy
    contract, where it depends on their bars.
    """
    tiers, found = tiers_of(state.plan), np.zeros(len(questions), dtype=np.bool_)
    if not tiers:
        return found
    measured = own_numbers(state).places(questions, serving=True)
    if measured.size:
        others = np.setdiff1d(np.arange(len(questions)), measured)
        if others.size:
            found[others] = are_tested(state, questions.take(others))
        return found
    if state.contract.options.bar_limit is None:
        codes, examples = questions.kinds()
    else:
        codes, examples = np.arange(len(questions)), list(questions)
    wanted = zip(*(tier.wanted(state, examples) for tier in tiers), strict=True)
    return np.array([any(wants) for wants in wanted], dtype=np.bool_)[codes]


def draw_tests(
    proposal: Proposal,
    plan: TestPlan,
    secret: SecretState,
    source: CountSource,
    bits: BitSource,
    coarse: CountSource | None = None,
) -> tuple[BatchDraws, SecretState]:
    """Return the outcomes of a batch's tests, up to and including the first positive, and the secret state.

    Args:
        proposal: the batch, with at least one request.
        secret: the threshold noise so far.
        bits: source of the noise.
        coarse: the same table over bins; None where nothing is binned.

    Privacy: one step of a sparse vector, and one measurement with fresh noise at a positive.
    """
    noisy = secret.thresholds[proposal.tier]
    if proposal.opens_round != (noisy is None):
        raise BudgetError(
            "the threshold noise is not as the batch was recorded: a round is charged when, and only when, "
            "it draws its noise; resume the session"
        )
    before = SparseState(noisy, proposal.positives)
    draws, kept = tiers_of(plan)[proposal.tier].draw(proposal.requests, before, source, bits, coarse)
    return draws, secret.after(proposal.tier, kept)


def batch_entries(proposal: Proposal, draws: BatchDraws, state: PublicState) -> tuple[LedgerEntry, ...]:
    """Return what a batch charges."""
    return tiers_of(state.plan)[proposal.tier].charges(state, proposal, draws) if proposal.requests else ()


def settle(
    state: PublicState,
    proposal: Proposal,
    draws: BatchDraws,
    ledger: PrivacyFilter,
    free: FreeAnswers | None = None,
) -> Settled:
    """Return the public state after a batch, with the model corrected at a positive, and the answers."""
    state, free = replace(state, ledger=ledger), free or FreeAnswers()
    if proposal.requests:
        first, *later = tiers_of(state.plan)[proposal.tier :]
        state, found = first.settle(state, proposal, draws, free)
        # To those before the first that asks a later tier for a test.
        wanted = zip(*(tier.wanted(state, proposal.queries) for tier in later), strict=True)
        ends = (number for number, wants in enumerate(wanted) if any(wants))
        answers = found(next(ends, len(proposal.queries)))
    else:
        answers = free.of(state).answers(QuestionList(proposal.queries))
    return Settled(replace(state, asked=state.asked + len(answers)), answers)


# --- what asking could cost ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forecast:
    """What asking could cost.

    Args:
        stored: how many of them have a stored answer.
        least: what they charge where every test is negative, as a part of the cap, in [0, 1].
        most: the most that they can charge, as a part of the cap; 0 where they are free.
    """

    questions: int
    stored: int
    least: float
    most: float

    def to_dict(self) -> dict[str, float]:
        """Return a form ready for JSON."""
        return asdict(self)

    def sentence(self) -> str:
        """Return what follows ``The question``."""
        if self.most:
            least = f"{self.least:.2%} of the budget" if self.least else "nothing"
            return f"costs {least} where the model is found right, and at most {self.most:.2%}"
        if self.questions == self.stored:
            return "is free: it was answered before, and gets the same answer"
        return "is free: nothing is to be tested"


def forecast(state: PublicState, queries: Sequence[LinearQuery], stored: int = 0) -> Forecast:
    """Return what answering could charge at most.

    Nothing is charged where nothing is tested. Else each tier charges at most for as many positives as there
    is something to find wrong, and for the threshold noise of their rounds.

    Privacy: a function of public state and the questions; free.
    """
    questions, most = len(queries) + stored, most_charged(state, queries)
    if not most:
        return Forecast(questions, stored, 0.0, 0.0)
    first, ledger = propose(state, queries), state.ledger
    least = Fraction(0)
    if first.requests and first.opens_round:
        least = ledger.price(threshold_entry(state.plan[first.tier], first.tier, ledger.composition).charge)
    return Forecast(questions, stored, float(least / ledger.cap), float(most / ledger.cap))


def most_charged(state: PublicState, queries: Sequence[LinearQuery]) -> Fraction:
    """Return the most that answering can charge, in the filter's own measure; see ``forecast``."""
    # Thresholds come down with the number of answers: what the last question would ask, the first may not.
    later = replace(state, asked=state.asked + len(queries))
    if not queries or not are_tested(later, QuestionList(queries)).any():
        return Fraction(0)
    most, left = Fraction(0), list(queries)
    for tier in tiers_of(state.plan):
        charged, left = tier.most_charged(state, left)
        most += charged
    return min(most, state.ledger.remaining)
