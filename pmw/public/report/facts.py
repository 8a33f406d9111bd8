"""Facts: what a report is made of, all of it public, and what follows from it.

That is how far the error bars of the questions reach, and which tables of counts were measured, so that they
may be quoted, with how far their cells may be off.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from pmw.model import MarginalMeasurement, OneWayMeasurement, QueryMeasurement, half_width
from pmw.public.bars import Bars
from pmw.public.half_widths import Confidences, total_noise_bound
from pmw.public.ledger import Ledger
from pmw.public.pictures import NINE_TENTHS, quantile_of
from pmw.public.quotes import cell_question
from pmw.public.state import PublicState, singly
from pmw.public.status import History, Status
from queries.frozen import dataclass
from queries.linear import LinearQuery

SURER = 0.99  # the second confidence of a report

_Measured: TypeAlias = OneWayMeasurement | MarginalMeasurement


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question as it was answered for the first time.

    Args:
        scope: attribute names in declared order; none where it is about everybody.
        reach: how far the error bar goes from the answer, to the farther end, in records; NaN where nothing
            was promised.
    """

    scope: tuple[str, ...]
    reach: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What a report is made of.

    Args:
        state: what may be published of the session.
        ledger: every charge.
        questions: the distinct questions, in the order of their first answers.
    """

    state: PublicState
    status: Status
    history: History
    ledger: Ledger
    questions: tuple[AnsweredQuestion, ...]


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Questions taken together.

    Args:
        promised: how many of them have an error bar.
        median: half of the error bars reach no farther, in records; NaN where there is none.
        most: nine of ten reach no farther, in records; NaN likewise.
    """

    questions: int
    promised: int
    median: float
    most: float

    @classmethod
    def of(cls, questions: Sequence[AnsweredQuestion]) -> QuestionGroup:
        """Return some questions taken together."""
        reaches = [one.reach for one in questions if not math.isnan(one.reach)]
        return cls(len(questions), len(reaches), quantile_of(reaches, 0.5), quantile_of(reaches, NINE_TENTHS))


def group_questions(facts: Facts, *, by_number: bool) -> dict[tuple[str, ...] | int, QuestionGroup]:
    """Return questions by how many attributes they are about, or by which; the most asked first by which."""
    found: defaultdict[tuple[str, ...] | int, list[AnsweredQuestion]] = defaultdict(list)
    for one in facts.questions:
        found[len(one.scope) if by_number else one.scope].append(one)
    groups = {key: QuestionGroup.of(questions) for key, questions in found.items()}
    if by_number:
        return dict(sorted(groups.items(), key=lambda item: str(item[0]).rjust(9)))
    return dict(sorted(groups.items(), key=lambda item: -item[1].questions))


@dataclass(frozen=True, slots=True)
class QuotableTable:
    """A measured table of counts.

    Args:
        scope: attribute names in declared order.
        binned: its numbers are of bins of cells.
        widths: half-width of its narrowest and of its widest error bar, in records, at the session's
            confidence.
        surer: the same at ``SURER``.
    """

    scope: tuple[str, ...]
    cells: int
    binned: bool
    opened: bool
    widths: tuple[float, float]
    surer: tuple[float, float]


def quotable_tables(state: PublicState) -> list[QuotableTable]:
    """Return the tables that were measured, each once: those of opening, then the others in order.

    A width is what an answer to a question about one cell has.
    """
    surer = at_confidence(state, SURER)
    first: dict[tuple[tuple[str, ...], int], _Measured] = {}
    for one in (*state.opening, *state.marginals):
        first.setdefault((one.scope, one.cell_variances.size), one)
    return [_table(state, surer, one) for one in first.values()]


def at_confidence(state: PublicState, confidence: float) -> PublicState:
    """Return a state whose error bars hold at another confidence; the same noise gives them."""
    options = replace(state.contract.options, confidence=confidence)
    return replace(state, contract=replace(state.contract, options=options))


def total_widths(state: PublicState) -> tuple[float, float]:
    """Return how far the number of records may be off, at the session's confidence and at ``SURER``."""
    session, surer = (
        total_noise_bound(one, Confidences.in_state(one).everybody)
        for one in (state, at_confidence(state, SURER))
    )
    return session, surer


def single_half_width(state: PublicState) -> tuple[int, float]:
    """Return how many single questions were measured, and how far they may be off, in records."""
    singles = [one for one in singly(state.measured) if isinstance(one, QueryMeasurement)]
    confidence = Confidences.in_state(state).alone
    return len(singles), max((half_width(one.noise, confidence) for one in singles), default=0.0)


def _table(state: PublicState, surer: PublicState, one: _Measured) -> QuotableTable:
    fine = one.values.size == state.domain.scope_size(one.scope)
    grid = state.domain if fine else state.coarsening.coarse
    variances = one.cell_variances
    ends = [np.unravel_index(place, variances.shape) for place in (variances.argmin(), variances.argmax())]
    cells = [cell_question(state, one.scope, [int(place) for place in end], grid) for end in ends]
    return QuotableTable(
        one.scope,
        variances.size,
        binned=not fine,
        opened=any(one is opened for opened in state.opening),
        widths=_widths(state, cells),
        surer=_widths(surer, cells),
    )


def _widths(state: PublicState, cells: Sequence[LinearQuery]) -> tuple[float, float]:
    bars = Bars(state)
    found = [bars.half_width(cell) for cell in cells]
    low, high = (math.nan if width is None else width for width in found)
    return low, high
