"""Loading: a session's states, read back from the rows of its file."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from pmw.errors import BudgetExhaustedError, SessionCorruptError
from pmw.loop.secret import SecretState
from pmw.public.charges import charged
from pmw.public.clear import left_by_opening
from pmw.public.plans import OpeningPlan
from pmw.public.state import PublicState
from pmw.session.events import Contents, damage_is_one_error, empty_ledger, read_certificate
from pmw.session.journal import threshold_name
from pmw.session.released import KeptModel, Released, duals_of, found_snapshot, state_of
from pmw.session.store.store import SessionStore
from pmw.sparse_vector import NoisyThreshold
from queries.domain import Domain
from queries.linear import LinearQuery
from queries.range_texts import RangeTexts

if TYPE_CHECKING:
    from pmw.public.ledger import Ledger
    from pmw.public.report import Facts
    from pmw.public.status import History

_MOST_POINTS = 2000  # of a history
_RUNS = re.compile(r"\[\d+,\d+,\d+\],?")  # of cells, with their weights
_NOTHING = re.compile(r"(?!)")


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
