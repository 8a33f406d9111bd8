"""Loading: what a session has released, the public state that it adds up to, and its rows read into both.

A model is kept as its dual numbers, a cache: measurements give the same model again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetExhaustedError, SessionCorruptError
from pmw.loop.fit import model_of_terms
from pmw.loop.priors import elected
from pmw.loop.secret import SecretState
from pmw.loop.untested import OpeningDraws, apply, released_total, settle_opening
from pmw.model.bins import Coarsening
from pmw.model.distribution import MarginalTerm, QueryTerm, SyntheticDistribution, Term, dual_numbers
from pmw.model.measurement import OneWayMeasurement, QueryMeasurement
from pmw.public.charges import charged
from pmw.public.clear import left_by_opening
from pmw.public.codec import register
from pmw.public.contract import Contract
from pmw.public.foundations import with_founded
from pmw.public.options import UpdateRule
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import Certificate, LaterMeasurement, PublicState, singly
from pmw.session.events import (
    Contents,
    Measured,
    damage_is_one_error,
    empty_ledger,
    read_certificate,
)
from pmw.session.journal import threshold_name
from pmw.session.store.store import SessionStore
from pmw.sparse_vector import NoisyThreshold
from queries.domain import Domain
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.range_texts import RangeTexts

if TYPE_CHECKING:
    from pmw.public.ledger import Ledger
    from pmw.public.report import Facts
    from pmw.public.status import History

_MOST_POINTS = 2000  # of a history
_RUNS = re.compile(r"\[\d+,\d+,\d+\],?")  # of cells, with their weights
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True, eq=False)
class KeptModel:
    """A model that was kept.

    Args:
        version: how many measurements since opening it has seen.
        duals: its dual numbers, float64, shape (k,), as ``duals_of`` gives them.
    """

    version: int
    duals: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What a session has released, and what was fixed at its opening. Nothing in it is secret.

    Args:
        opening_plan: the noise of the opening measurements.
        spent: what was charged, in the measure of the contract's filter.
        since: what was measured since, and error quantiles, in order.
        certificates: the newest negative test of each marginal.
        distribution: a model; None where there is none.
        asked: how many questions were answered, repeated ones left out.
        settled: how many of them settled a question first.
        coarsening: the bins that the draws give.
    """

    contract: Contract
    opening_plan: OpeningPlan
    test_plan: TestPlan
    spent: Fraction
    draws: OpeningDraws
    since: tuple[Measured, ...]
    certificates: tuple[Certificate, ...]
    distribution: KeptModel | None
    closed: bool
    asked: int
    settled: int
    coarsening: Coarsening

    @property
    def measured(self) -> tuple[LaterMeasurement, ...]:
        """What the model is fitted to since opening, in order."""
        return tuple(one for one in self.since if isinstance(one, LaterMeasurement))


register({OpeningDraws: {}, KeptModel: {}, Released: {}})


def state_of(released: Released, found: Snapshot | None) -> PublicState:
    """Return the public state of what was released; no round is open in it.

    The model comes from the snapshot, corrected by the measurements after it; without a snapshot, from the
    first measurement on.
    """
    contract, plan, draws = released.contract, released.opening_plan, released.draws
    ledger = replace(empty_ledger(contract), spent=released.spent)
    fitted = None if found is None else (found.model, found.step_size)
    state = settle_opening(contract, plan, draws, ledger, released.test_plan, fitted)
    if found is not None:
        state = with_founded(state, released.measured[: found.version])
        state = elected(replace(state, beside=found.beside))
    seen = len(state.measured)  # by the model that was kept
    for one in released.since:
        seen -= isinstance(one, LaterMeasurement)
        if seen < 0 or not isinstance(one, LaterMeasurement):
            state = apply(state, one, ledger)
    return replace(
        state,
        closed=released.closed,
        certificates={one.scope: one for one in released.certificates},
        asked=released.asked,
        settled=released.settled,
    )


# --- snapshots -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model that was kept, made again.

    Args:
        step_size: of the descent that fitted it.
        version: how many measurements after opening it has seen.
        beside: positions, among these, of those that it does not take in.
    """

    model: SyntheticDistribution
    step_size: float
    version: int
    beside: tuple[int, ...]


def duals_of(state: PublicState) -> NDArray[np.float64]:
    """Return the model's dual numbers in the order of its terms, for a snapshot: float64, shape (k,).

    The positions of what is kept beside the model follow, their number and the step size of the descent.
    """
    return np.concatenate(
        [dual_numbers(state.model.terms), [*state.beside, len(state.beside), state.step_size]]
    )


def found_snapshot(released: Released) -> Snapshot | None:
    """Return the model that was kept; None where there is none, or it is not of these numbers.

    Single steps are taken again: to the last bit, their model depends on their order.
    """
    kept, contract, coarsening = released.distribution, released.contract, released.coarsening
    if kept is None or contract.options.update is UpdateRule.STEP:
        return None
    version, measured = kept.version, released.measured
    tail = _read_tail(kept.duals, version) if 0 <= version <= len(measured) else None
    if tail is None:
        return None
    beside, step_size = tail
    fitted = [one for place, one in enumerate(measured[:version]) if place not in beside]
    duals = kept.duals[: len(kept.duals) - 2 - len(beside)]
    terms = _terms(coarsening, (*released.draws.marginals, *fitted), duals)
    if terms is None:
        return None
    total = released_total(released.opening_plan, released.draws).value
    return Snapshot(model_of_terms(contract, coarsening, total, terms), step_size, version, beside)


def _read_tail(duals: NDArray[np.float64], version: int) -> tuple[tuple[int, ...], float] | None:
    """Return the positions of what is kept beside the model, and the step size; None where they are none."""
    if len(duals) < 2 or not 0 <= duals[-2] <= min(version, len(duals) - 2):
        return None
    kept, step_size = int(duals[-2]), float(duals[-1])
    places = duals[len(duals) - 2 - kept : -2]
    known = set(range(version))  # numpy's own test loads its masked arrays first
    if not (0 < step_size < math.inf and known.issuperset(places.tolist())):
        return None
    return tuple(int(place) for place in places), step_size


def _terms(
    coarsening: Coarsening, fitted: Sequence[OneWayMeasurement | LaterMeasurement], duals: NDArray[np.float64]
) -> list[Term] | None:
    terms: list[Term] = []
    for one in singly(fitted):
        shape = () if isinstance(one, QueryMeasurement) else coarsening.coarse.scope_shape(one.scope)
        size = math.prod(shape)
        if len(duals) < size:
            return None
        own, duals = duals[:size], duals[size:]
        if isinstance(one, QueryMeasurement):
            query = one.query if coarsening.is_identity else coarsening.inner(one.query)
            terms.append(QueryTerm(query, float(own[0])))
        else:
            terms.append(MarginalTerm(one.scope, own.reshape(shape)))
    return None if len(duals) else terms


# --- from a session's file ----------------------------------------------------------------------------------


def opening_left(state: PublicState, plan: OpeningPlan) -> Fraction:
    """Return what opening leaves for what is asked, as a part of the cap."""
    from pmw.planning.opening import opening_persons  # most commands know no shares

    contract = state.contract
    persons = opening_persons(contract.domain, empty_ledger(contract), contract.options, state.total.value)
    return left_by_opening(state, plan, persons)


def load_ledger(store: SessionStore) -> Ledger:
    """Return every charge, without building the model."""
    contents = Contents(store)
    with damage_is_one_error():
        return replace(contents.ledger, drafts=contents.contract.options.drafts)


def load_history(store: SessionStore) -> History:
    """Return how the budget was spent, from the opening on; a long history is thinned to 2,000 points."""
    from pmw.public.status import History

    contents = Contents(store)
    opened = contents.ledger.lines[: contents.opened]
    first = opened[-1].running_share if opened else 0.0
    answers, shares = zip((0, first), *store.answers.shares(_MOST_POINTS), strict=True)
    return History(np.array(answers), np.array(shares))


def load_facts(store: SessionStore, state: PublicState) -> Facts:
    """Return what a report on a session is made of."""
    from pmw.public.report import AnsweredQuestion, Facts  # late: its charts take a while to load
    from pmw.public.status import status_of

    first: dict[str, AnsweredQuestion] = {}
    for row in store.answers.each():
        if row.query not in first:
            low, high = row.interval or (math.nan, math.nan)
            reach = max(row.count - low, high - row.count)
            first[row.query] = AnsweredQuestion(read_question(row.query, state.domain).scope, reach)
    status, asked = status_of(state, store.asked()), tuple(first.values())
    return Facts(state, status, load_history(store), load_ledger(store), asked)


def load_texts(store: SessionStore, name: str = "") -> tuple[str, ...]:
    """Return the canonical texts of the distinct questions that were answered, by their first answers."""
    if name:
        store.tell()
        numbers = reversed(store.answers.newest_numbers(name, store.answers.count()))
        asked = (store.answers.answer(number).query for number in numbers)
    else:
        asked = (text for columns in store.answers.blocks() for text in columns.texts)
    return tuple(dict.fromkeys(asked))


def load_scopes(store: SessionStore, domain: Domain) -> dict[str, Counter[tuple[str, ...]]]:
    """Return how many distinct questions about each scope were settled, by who asked first."""
    runs = _RUNS if not any(_RUNS.search(name) for name in domain.names) else _NOTHING
    shapes, found = dict[str, tuple[str, ...]](), dict[str, Counter[tuple[str, ...]]]()
    for analyst, texts in store.answers.first_questions():
        scopes = found.setdefault(analyst, Counter())
        if isinstance(texts, RangeTexts):
            scopes[texts.names] += len(texts)
            continue
        for text in texts:
            shape = runs.sub("", text)  # the text without its runs of cells
            if shape not in shapes:
                shapes[shape] = read_question(text, domain).scope
            scopes[shapes[shape]] += 1
    return found


def read_question(text: str, domain: Domain) -> LinearQuery:
    """Return a stored question."""
    with damage_is_one_error():
        return LinearQuery.from_dict(domain, json.loads(text))


def load_secret(store: SessionStore, tiers: int) -> SecretState:
    """Return the threshold noise of the open rounds of so many tiers."""
    kept = [store.secret(threshold_name(tier)) for tier in range(tiers)]
    return SecretState(tuple(None if raw is None else NoisyThreshold(*json.loads(raw)) for raw in kept))


def load_released(store: SessionStore) -> Released:
    """Return what the session released, and what was fixed at its opening."""
    contents, snapshot = Contents(store), store.snapshot()
    if not contents.chained.measurements:
        raise SessionCorruptError("the session's opening is not finished; ask it a question to finish it")
    try:
        ledger = charged(contents.cap, contents.entries)
    except BudgetExhaustedError:
        raise SessionCorruptError("the session file is damaged: its charges exceed the cap") from None
    with damage_is_one_error():
        coarsening = contents.coarsening
        return Released(
            contract=contents.contract,
            opening_plan=contents.opening,
            test_plan=contents.test,
            spent=ledger.spent,
            draws=contents.draws,
            since=contents.released,
            certificates=tuple(read_certificate(coarsening, row) for row in store.certificates()),
            distribution=None if snapshot is None else KeptModel(*snapshot),
            closed=contents.closed,
            asked=store.answers.count(),
            settled=store.answers.settled_count(),
            coarsening=coarsening,
        )


def newest_released(store: SessionStore, state: PublicState) -> Released:
    """Return what the session released, with a state's model: the file's may be older."""
    return replace(load_released(store), distribution=KeptModel(state.version, duals_of(state)))


def load_state(store: SessionStore) -> PublicState:
    """Return the public state that the file's ledger and measurements add up to."""
    released = load_released(store)
    state = state_of(released, found_snapshot(released))
    rounds = tuple(store.secret(threshold_name(tier)) is not None for tier in range(len(state.plan)))
    return replace(state, rounds=rounds)
