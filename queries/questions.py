"""Questions: many counting questions together, whatever they are kept as."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.linear import LinearQuery

Places: TypeAlias = NDArray[np.int64]


class Questions(ABC):
    """Counting questions over one domain, in order: ranges as arrays (``Boxes``), or any as a list."""

    __slots__ = ()
    most_together: ClassVar[int]  # that are answered in one step

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def query(self, place: int) -> LinearQuery:
        """Return one question by itself."""

    def queries(self, start: int, stop: int) -> list[LinearQuery]:
        """Return some questions by themselves."""
        return [self.query(place) for place in range(start, min(stop, len(self)))]

    def singly(self, places: Places) -> list[LinearQuery] | None:
        """Return the questions at some places, where they are kept one by one; else None."""
        return None

    @abstractmethod
    def take(self, places: Places) -> Questions:
        """Return some of the questions, in the order of their places."""

    @abstractmethod
    def distinct(self) -> tuple[Places, Places]:
        """Return the places of the first of equal questions, in order, and for each question which it is."""

    @abstractmethod
    def parts(self) -> Iterator[tuple[Places, Questions]]:
        """Yield the questions in parts whose texts are written alike: their places, and they themselves."""

    @abstractmethod
    def texts(self) -> Sequence[str]:
        """Return the canonical texts of a part's questions."""

    @abstractmethod
    def kinds(self) -> tuple[NDArray[np.intp], list[LinearQuery]]:
        """Return which kind each question is of, int, shape (n,), and one question of each kind.

        Questions of one kind have the same scope, and alike factors and readings, or none.
        """

    @abstractmethod
    def aligned(self) -> NDArray[np.bool_]:
        """Tell of which questions the cells decide the condition: bool, shape (n,)."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Return the questions in words; see ``LinearQuery.describe``."""


class QuestionList(Questions):
    """Questions one by one; their canonical texts are written where they are needed, if not given."""

    __slots__ = ("_listed", "_texts")
    most_together = 2**10

    def __init__(self, listed: Sequence[LinearQuery], texts: Sequence[str] | None = None) -> None:
        self._listed = listed
        self._texts = texts

    def __len__(self) -> int:
        return len(self._listed)

    def query(self, place: int) -> LinearQuery:
        return self._listed[place]

    def queries(self, start: int, stop: int) -> list[LinearQuery]:
        return list(self._listed[start:stop])

    def singly(self, places: Places) -> list[LinearQuery]:
        return [self._listed[place] for place in places.tolist()]

    def take(self, places: Places) -> QuestionList:
        listed, texts = places.tolist(), self._texts
        some = None if texts is None else [texts[place] for place in listed]
        return QuestionList([self._listed[place] for place in listed], some)

    def distinct(self) -> tuple[Places, Places]:
        numbers: dict[str, int] = {}
        which = [numbers.setdefault(text, len(numbers)) for text in self.texts()]
        if len(numbers) == len(which):
            same = np.arange(len(which), dtype=np.int64)
            return same, same
        found = np.array(which, dtype=np.int64)
        return np.unique(found, return_index=True)[1].astype(np.int64), found

    def parts(self) -> Iterator[tuple[Places, Questions]]:
        if len(self):
            yield np.arange(len(self), dtype=np.int64), self

    def texts(self) -> Sequence[str]:
        if self._texts is None:
            self._texts = [query.to_json() for query in self._listed]
        return self._texts

    def kinds(self) -> tuple[NDArray[np.intp], list[LinearQuery]]:
        numbers: dict[tuple[tuple[str, ...], bool, bool], int] = {}
        codes, examples = [], list[LinearQuery]()
        for query in self._listed:
            kind = query.scope, bool(query.factors), query.readings is None
            number = numbers.setdefault(kind, len(examples))
            if number == len(examples):
                examples.append(query)
            codes.append(number)
        return np.array(codes, dtype=np.intp), examples

    def aligned(self) -> NDArray[np.bool_]:
        return np.array([query.aligned for query in self._listed], dtype=np.bool_)

    def describe(self) -> list[str]:
        return [query.describe() for query in self._listed]
