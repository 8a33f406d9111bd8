"""Questions by scope: those that can be bounded together, and what bounds all of them once one is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from pmw.model import Coarsening
from queries.boxes import Boxes, Counted
from queries.linear import LinearQuery
from queries.products import Products
from queries.questions import Places

_SOME = 2  # questions about the same attributes, from which on arrays are faster than one by one
_Found = TypeVar("_Found")


class QuestionsByScope:
    """Questions that are products of the same attributes; of attributes with bins they are ranges alone.

    Args:
        coarsening: the bins.
        queries: the questions.
    """

    def __init__(self, coarsening: Coarsening, queries: Sequence[LinearQuery]) -> None:
        self._queries = queries  # they are known by their identity
        self._members = list[list[LinearQuery]]()  # of each group
        self._places = dict[int, tuple[int, int]]()  # of a question: its group, and its place there
        self._are_boxes = list[bool]()
        numbers = dict[tuple[tuple[str, ...], bool], int]()
        for query in queries:
            if not Products.is_one(query):
                continue
            number = numbers.get((query.scope, False))
            if number is None:
                has_bins = not coarsening.keeps(query.scope)
                if has_bins and not query.is_box:
                    continue
                number = numbers.setdefault((query.scope, has_bins), len(self._members))
                if number == len(self._members):
                    self._members.append([])
                    self._are_boxes.append(has_bins)
            self._places[id(query)] = number, len(self._members[number])
            self._members[number].append(query)
        self._known = {id(query) for query in queries}

    def holds(self, queries: Sequence[LinearQuery]) -> bool:
        """Tell whether questions are all among these."""
        return self._known.issuperset(map(id, queries))

    def groups(self, queries: Sequence[LinearQuery]) -> Iterator[tuple[int, Places, Places]]:
        """Yield of some of the questions those of each group: its number, their places, and those in it."""
        found = dict[int, list[tuple[int, int]]]()
        for place, query in enumerate(queries):
            at = self._places.get(id(query))
            if at is not None and len(self._members[at[0]]) >= _SOME:
                found.setdefault(at[0], []).append((place, at[1]))
        for number, pairs in found.items():
            places, own = np.array(pairs, dtype=np.int64).T
            yield number, places, own

    def counted(self, number: int) -> Counted:
        """Return what the questions of a group count."""
        make = Boxes.of_queries if self._are_boxes[number] else Products.of_queries
        return make(self._members[number])


class Bounded(Generic[_Found]):
    """What bounds questions by scope, of each group found once.

    Args:
        asked: the questions.
        find: bounds those of a group; None where they are looked at one by one.
    """

    def __init__(self, asked: QuestionsByScope, find: Callable[[Counted], _Found | None]) -> None:
        self.asked = asked
        self._find = find
        self._found = dict[int, _Found | None]()

    def of(self, number: int) -> _Found | None:
        """Return what bounds a group."""
        if number not in self._found:
            self._found[number] = self._find(self.asked.counted(number))
        return self._found[number]
