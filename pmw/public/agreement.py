"""Agreement: the counts of a table's groups are moved, within their own intervals, until they add up.

Groups may have been answered by other models than their total was, or moved into narrower intervals. All
that is used is public, so it costs nothing. Moved are the groups, and the sums for each value of one of
several keys, each within its own interval, so that every interval still holds what it did. Source: the points
nearest to convex sets in turn (Bregman 1965), here the sums and the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.free_answers import ModelAnswers
from pmw.public.state import PublicState
from queries.expressions import Linear
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index
from queries.questions import QuestionList
from queries.statements import TOTAL, Group, Statement

ROUNDING = 0.5  # records: sums that differ by no more agree as they are written
_NEAR = ROUNDING / 100  # records: of sums that were moved
_ROUNDS = 1000

_APART = "groups do not add up to their totals: their bars leave no numbers that do"

# An aggregate, by its id, and the values of a group, by places.
Asked: TypeAlias = tuple[int, tuple[int, ...]]
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
        of: int64, shape (groups,): the whole that each group is a part of.
    """

    counts: Counts
    of: NDArray[np.int64]

    def lacking(self, groups: Counts) -> _Array:
        """Return how many records the wholes have more than their groups together: float64, shape (n,)."""
        sums = np.bincount(as_index(self.of), groups.value, minlength=self.counts.value.size)
        return np.asarray(self.counts.value - sums)


def largest_gap(groups: Counts, wholes: Sequence[Wholes]) -> float:
    """Return by how many records a whole differs most from its groups together."""
    return max((float(np.abs(one.lacking(groups)).max(initial=0.0)) for one in wholes), default=0.0)


def agreed(groups: Counts, wholes: Sequence[Wholes]) -> Counts | None:
    """Return counts near the given ones that add up; None where their intervals allow none."""
    for _ in range(_ROUNDS):
        if largest_gap(groups, wholes) <= _NEAR:
            return groups
        moved = []
        for one in wholes:
            sizes = (
                np.bincount(as_index(one.of), minlength=one.counts.value.size) + 1
            )  # the whole gives way, too
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
    of one of several keys; where the table has these totals itself, they are what groups add up to, and all
    but that of all records give way, too. Where an accuracy contract refuses one of the counts, all stay as
    they are.
    """
    groups: dict[tuple[int, ...], dict[tuple[int, ...], Group]] = {}
    for group in statement.groups():
        groups.setdefault(group.held, {})[group.places] = group
    found, notes = dict(answers), list[str]()
    finest = [keys for keys in groups if keys and not any(set(keys) < set(others) for others in groups)]
    for leaf in (leaf for leaf in statement.leaves if isinstance(leaf, Linear) and leaf.is_count):
        settled: set[tuple[int, ...]] = set()  # sets whose totals were told with other groups
        answered = {places: one for (number, places), one in found.items() if number == id(leaf)}
        for keys in finest:
            coarser = {held: own for held, own in groups.items() if set(held) < set(keys)}
            note = _agree(state, statement, answered, (groups[keys], coarser), settled)
            settled |= set(coarser)
            notes += [] if note is None else [note]
        found |= {(id(leaf), places): one for places, one in answered.items()}
    return found, tuple(dict.fromkeys(notes))


_Places: TypeAlias = tuple[int, ...]
_Named: TypeAlias = Mapping[_Places, Group]  # groups, by their places


def _put(
    answered: dict[_Places, Answer], groups: Iterable[_Places], values: _Array, state: PublicState
) -> None:
    """Put other counts in the places of those that are answered."""
    for places, count in zip(groups, values.tolist(), strict=True):
        answer, typical = answered[places], answered[places].typical
        if typical is not None:  # it goes with the count
            by = count - answer.count
            typical = (max(0.0, typical[0] + by), typical[1] + by)
        fraction = count / state.total.value
        answered[places] = replace(answer, count=count, fraction=fraction, typical=typical)


def _agree(
    state: PublicState,
    statement: Statement,
    answered: dict[_Places, Answer],
    sets: tuple[_Named, Mapping[tuple[int, ...], _Named]],
    settled: Collection[tuple[int, ...]],
) -> str | None:
    """Move the counts of groups, and the totals in their table; return what to tell of it."""
    groups, coarser = sets
    if any(answered[places].is_refused for own in (groups, *coarser.values()) for places in own):
        return None
    wholes = _wholes_of(state, statement, list(groups.values()), coarser)
    if wholes is None:
        return None
    told: dict[tuple[int, ...], Wholes] = {}
    for held, own in coarser.items():
        counts, numbers = _counts(state, answered, own), {places: number for number, places in enumerate(own)}
        if not held or held in settled:
            counts = Counts(counts.value, counts.value, counts.value)
        whole = [tuple(one if key in held else TOTAL for key, one in enumerate(places)) for places in groups]
        told[held] = Wholes(counts, np.array([numbers[places] for places in whole], dtype=np.int64))
    counts, wholes = _counts(state, answered, groups), [*wholes, *told.values()]
    if largest_gap(counts, wholes) <= ROUNDING:
        return None
    moved = agreed(counts, wholes)
    if moved is None:
        return _APART
    _put(answered, groups, moved.value, state)
    for held, one in told.items():
        sums = one.counts.value - one.lacking(moved)
        _put(answered, coarser[held], np.clip(sums, one.counts.low, one.counts.high), state)
    return _moved_words(counts, moved)


def in_whole_numbers(statement: Statement, answers: Mapping[Asked, Answer]) -> Mapping[Asked, Answer]:
    """Return the answers to a statement's COUNT(*) in whole numbers that add up as they did.

    Each count is the whole number below it or above it. Groups add up to their total rounded, and to the
    total of one set of other groups in the same table, of those that have most keys.
    """
    found = dict(answers)
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for group in statement.groups():
        groups.setdefault(group.held, []).append(group.places)
    for leaf in (leaf for leaf in statement.leaves if isinstance(leaf, Linear) and leaf.is_count):
        for held in sorted(groups, key=len):
            coarser = [keys for keys in groups if set(keys) < set(held)]
            whole = max(coarser, key=len, default=None)
            parts: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
            for places in groups[held]:
                own = tuple(one if key in (whole or ()) else TOTAL for key, one in enumerate(places))
                parts.setdefault(own, []).append(places)
            for of, some in parts.items():
                total = None if whole is None else found[id(leaf), of].count
                told = [found[id(leaf), places] for places in some]
                if any(one.is_refused for one in told):
                    continue
                counts = np.array([one.count for one in told])
                alone = len(counts) == 1 and total is None  # the whole number next to it
                counts = np.rint(counts) if alone else whole_numbers(counts, total)
                for places, one, count in zip(some, told, counts.tolist(), strict=True):
                    found[id(leaf), places] = replace(one, count=count)
    return found


def whole_numbers(counts: _Array, total: float | None = None) -> _Array:
    """Return whole numbers next to counts that add up to a total, or near to it: float64, shape (n,).

    Those with the greatest fractions are rounded up: the largest-remainder method (Hamilton).
    """
    near = np.rint(counts)
    counts = np.where(np.abs(counts - near) <= 1e-9 * np.maximum(1.0, np.abs(counts)), near, counts)
    below = np.floor(counts)
    whole = round(float(counts.sum())) if total is None or math.isnan(total) else round(total)
    more = int(min(max(whole - below.sum(), 0), np.count_nonzero(counts > below)))
    below[np.argsort(below - counts, kind="stable")[:more]] += 1
    return below


def _wholes_of(
    state: PublicState, statement: Statement, groups: Sequence[Group], told: Collection[tuple[int, ...]]
) -> list[Wholes] | None:
    """Return what groups add up to: all of them, and where there are several keys those of each value."""
    places = np.array([group.places for group in groups], dtype=np.int64)
    held = groups[0].held
    keys = [key for key in held if len(held) > 1 and (key,) not in told]
    queries, of = list[LinearQuery](), list[NDArray[np.int64]]()
    if () not in told:
        queries, of = [statement.where], [np.zeros(len(groups), dtype=np.int64)]
    for key in keys:
        grouping = statement.groupings[key]
        asked, numbers = np.unique(places[:, key], return_inverse=True)
        of.append(numbers.reshape(-1) + len(queries))
        for label, cells in (grouping.groups[place] for place in asked.tolist()):
            scope = statement.domain.scope(grouping.scope)
            queries.append(statement.counted(Group((label,), (0,), ((grouping.scope, cells),), scope)))
    answers = ModelAnswers(state).answers(QuestionList(queries)) if queries else None
    if answers is None or np.isnan(answers.count).any():
        return [] if answers is None else None
    found = []
    for numbers in of:
        first, last = int(numbers.min()), int(numbers.max())
        found.append(Wholes(_counts_of(answers.take(np.arange(first, last + 1))), numbers - first))
    if () not in told:
        total = found[0].counts.value  # stays what it is when it is asked for
        found[0] = Wholes(Counts(total, total, total), found[0].of)
    return found


def _counts(state: PublicState, answered: Mapping[_Places, Answer], groups: Iterable[_Places]) -> Counts:
    return _counts_of(Answers.of(state, [answered[places] for places in groups]))


def _counts_of(answers: Answers) -> Counts:
    return Counts(answers.count, answers.interval[:, 0], answers.interval[:, 1])


def _moved_words(before: Counts, after: Counts) -> str | None:
    """Return which numbers were moved, and by how much; None where none was by a quarter of its interval."""
    by = np.abs(after.value - before.value)
    if np.all(by <= (before.high - before.low) / 4):
        return None
    number = int(np.count_nonzero(by > _NEAR))
    verb = "was" if number == 1 else "were"
    return (
        f"so that groups add up, {number:,} of {counted(by.size, 'count')} {verb} moved by at most "
        f"{by.max():,.1f} records, each within its bar"
    )
