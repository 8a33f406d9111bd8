"""Agreement: the counts of a table's groups are moved, within their own intervals, until they add up.

Groups may have been answered by other models than their total was, or moved into narrower intervals. All
that is used is public, so it costs nothing. Moved are the groups, and the sums for each value of one of
several keys, each within its own interval, so that every interval still holds what it did. Source: the points
nearest to convex sets in turn (Bregman 1965), here the sums and the intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.free_answers import FreeAnswers
from pmw.public.state import PublicState
from queries.expressions import Linear
from queries.questions import QuestionList
from queries.statements import Group, Statement

ROUNDING = 0.5  # records: sums that differ by no more agree as they are written
_NEAR = ROUNDING / 100  # records: of sums that were moved
_ROUNDS = 1000

_APART = "groups do not add up to their totals: their bars leave no numbers that do"

Asked: TypeAlias = tuple[
    int, tuple[int, ...]
]  # an aggregate, by its id, and the values of a group, by places
_Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Counts, and the ends of their intervals: float64, shape (n,) each, records."""

    value: _Array
    low: _Array
    high: _Array

    def moved(self, by: _Array) -> Counts:
        """Return the counts moved by so many records, but not out of their intervals."""
        return replace(self, value=np.clip(self.value + by, self.low, self.high))


@dataclass(frozen=True, slots=True, eq=False)
class Wholes:
    """Counts that groups add up to.

    Args:
        counts: of the wholes.
        of: int64, shape (groups,): the whole that each group is a part of.
    """

    counts: Counts
    of: NDArray[np.int64]

    def lacking(self, groups: Counts) -> _Array:
        """Return how many records the wholes have more than their groups together: float64, shape (n,)."""
        sums = np.bincount(self.of, groups.value, minlength=self.counts.value.size)
        return np.asarray(self.counts.value - sums)


def largest_gap(groups: Counts, wholes: Sequence[Wholes]) -> float:
    """Return by how many records a whole differs most from its groups together."""
    return max((float(np.abs(one.lacking(groups)).max(initial=0.0)) for one in wholes), default=0.0)


def agreed(groups: Counts, wholes: Sequence[Wholes]) -> Counts | None:
    """Return counts of groups that add up, near those that are given; None where their intervals allow none.

    Args:
        groups: the parts.
        wholes: by each key of the groups, and of all of them.
    """
    for _ in range(_ROUNDS):
        if largest_gap(groups, wholes) <= _NEAR:
            return groups
        moved = []
        for one in wholes:
            sizes = np.bincount(one.of, minlength=one.counts.value.size) + 1  # the whole gives way, too
            part = one.lacking(groups) / sizes
            groups = groups.moved(part[one.of])
            moved.append(replace(one, counts=one.counts.moved(-part)))
        wholes = moved
    return groups if largest_gap(groups, wholes) <= ROUNDING else None


# --- the groups of a statement ------------------------------------------------------------------------------


def with_sums(
    state: PublicState, statement: Statement, answers: Mapping[Asked, Answer]
) -> tuple[Mapping[Asked, Answer], tuple[str, ...]]:
    """Return the answers of a statement with counts that add up, and what has to be known about them.

    A count of all records that are asked about is what the model says of them, and so is that of each value
    of one of several keys. Where an accuracy contract refuses one of the counts, all stay as they are.

    Args:
        state: what is known.
        statement: what is asked.
        answers: to its counting questions, by the aggregate and the group's values.
    """
    groups = list(statement.groups())
    leaves = [leaf for leaf in statement.leaves if isinstance(leaf, Linear) and leaf.is_count]
    if not statement.groupings or not leaves or not groups:
        return answers, ()
    wholes = _wholes_of(state, statement, groups)
    found, notes = dict(answers), list[str]()
    for leaf in leaves:
        told = [answers[id(leaf), group.places] for group in groups]
        if any(one.is_refused for one in told):
            continue
        counts = _counts(Answers.of(state, told))
        if wholes is None or largest_gap(counts, wholes) <= ROUNDING:
            continue
        moved = agreed(counts, wholes)
        notes.append(_APART if moved is None else _moved_words(counts, moved))
        if moved is not None:
            for group, one, count in zip(groups, told, moved.value.tolist(), strict=True):
                found[id(leaf), group.places] = _moved_to(one, count, state.total.value)
    return found, tuple(dict.fromkeys(notes))


def _wholes_of(state: PublicState, statement: Statement, groups: Sequence[Group]) -> list[Wholes] | None:
    """Return what groups add up to: all of them, and where there are several keys those of each value."""
    places = np.array([group.places for group in groups], dtype=np.int64)
    queries, of = [statement.where], [np.zeros(len(groups), dtype=np.int64)]
    for key, grouping in enumerate(statement.groupings if len(statement.groupings) > 1 else ()):
        asked, numbers = np.unique(places[:, key], return_inverse=True)
        of.append(numbers.reshape(-1) + len(queries))
        for label, cells in (grouping.groups[place] for place in asked.tolist()):
            scope = statement.domain.scope(grouping.scope)
            queries.append(statement.counted(Group((label,), (0,), ((grouping.scope, cells),), scope)))
    told = FreeAnswers().answers(state, QuestionList(queries))
    if np.isnan(told.count).any():
        return None
    found = []
    for numbers in of:
        first, last = int(numbers.min()), int(numbers.max())
        found.append(Wholes(_counts(told.take(np.arange(first, last + 1))), numbers - first))
    total = found[0].counts.value  # stays what it is when it is asked for
    found[0] = Wholes(Counts(total, total, total), found[0].of)
    return found


def _counts(answers: Answers) -> Counts:
    return Counts(answers.count, answers.interval[:, 0], answers.interval[:, 1])


def _moved_to(answer: Answer, count: float, total: float) -> Answer:
    """Return an answer with another count in its interval; what is typical goes with it."""
    by, typical = count - answer.count, answer.typical
    if typical is not None:
        typical = (max(0.0, typical[0] + by), typical[1] + by)
    return replace(answer, count=count, fraction=count / total, typical=typical)


def _moved_words(before: Counts, after: Counts) -> str:
    """Return which numbers were moved, and by how much."""
    by = np.abs(after.value - before.value)
    number = int(np.count_nonzero(by > _NEAR))
    verb = "was" if number == 1 else "were"
    return (
        f"so that groups add up, {number:,} of {counted(by.size, 'count')} {verb} moved by at most "
        f"{by.max():,.1f} records, each within its bar"
    )
