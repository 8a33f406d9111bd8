"""Requests: questions that are on their way to be answered, and under which idempotency key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.public.answers import Answers
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import Question
from queries.questions import Places, QuestionList, Questions

if TYPE_CHECKING:
    from pmw.privacy.budget import Number
    from pmw.public.quotes import Within

Deliver: TypeAlias = Callable[[Answers], None]  # is called with the next answers, in order

_SEPARATOR = "\x1f"  # stands in no name of an analyst


@dataclass(frozen=True, slots=True)
class Request:
    """One question.

    Args:
        request_id: keys the request for safe retries; None for none.
        fresh: ask a newer model, or for a test that was not made, even where there is a stored answer.
    """

    query: LinearQuery
    text: str
    request_id: str | None = None
    fresh: bool = False


Asked: TypeAlias = str | Mapping[str, Any] | LinearQuery | Question | Request
Width: TypeAlias = "Within | float | str"  # of a bar
Part: TypeAlias = "Number | None"  # of the budget
Key: TypeAlias = str | None


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Many questions.

    Args:
        fresh: bool, shape (n,), of each; see ``Request``.
        request_ids: of each; none where no request has one.
    """

    questions: Questions
    fresh: NDArray[np.bool_]
    request_ids: tuple[str | None, ...] = ()

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Requests:
        """Return single requests together."""
        keys = tuple(one.request_id for one in requests)
        return cls(
            QuestionList([one.query for one in requests], [one.text for one in requests]),
            np.array([one.fresh for one in requests], dtype=np.bool_),
            keys if any(key is not None for key in keys) else (),
        )

    @classmethod
    def of_questions(cls, questions: Questions, *, fresh: bool) -> Requests:
        """Return requests without idempotency keys."""
        if len(questions) and questions.query(0).domain.impossible:  # a range leaves impossible cells out
            questions = QuestionList(list(questions))
        return cls(questions, np.full(len(questions), fresh))

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, places: Places) -> Requests:
        """Return some of the requests, in the order of their places, which are distinct."""
        if len(places) == len(self) == 1:
            return self
        keys = tuple(self.request_ids[place] for place in places.tolist()) if self.request_ids else ()
        return Requests(self.questions.take(places), self.fresh[places], keys)

    def between(self, start: int, stop: int) -> Requests:
        """Return the requests from one place to before another."""
        whole = start == 0 and stop >= len(self)
        return self if whole else self.take(np.arange(start, min(stop, len(self)), dtype=np.int64))

    def texts(self) -> list[str]:
        """Return the canonical texts of the questions."""
        found = [""] * len(self)
        for places, part in self.questions.parts():
            for place, text in zip(places.tolist(), part.texts(), strict=True):
                found[place] = text
        return found

    def of_analyst(self, name: str) -> Requests:
        """Return the requests with idempotency keys that are an analyst's own."""
        if not (name and self.request_ids):
            return self
        keys = tuple(None if key is None else key_of(name, key) for key in self.request_ids)
        return replace(self, request_ids=keys)

    def distinct(self) -> tuple[Places, Places]:
        """Return the places of the first of equal requests, in order, and for each request which it is.

        Equal are those with one key, and those without any that ask the same, afresh or not.
        """
        if not self.request_ids and (self.fresh.all() or not self.fresh.any()):
            return self.questions.distinct()
        numbers: dict[tuple[str, bool | None], int] = {}
        first, which = list[int](), list[int]()
        keys = self.request_ids or (None,) * len(self)
        texts = self.questions.texts()
        for place, (text, key, fresh) in enumerate(zip(texts, keys, self.fresh.tolist(), strict=True)):
            number = numbers.setdefault((text, fresh) if key is None else (key, None), len(first))
            if number == len(first):
                first.append(place)
            elif key is not None:
                require_same(key, text, texts[first[number]])
            which.append(number)
        return np.array(first, dtype=np.int64), np.array(which, dtype=np.int64)

    def repeated(self, waiting: Places) -> Places:
        """Return for each of distinct requests itself, or an earlier one whose answer it gets, too.

        Args:
            waiting: the places of those that have no stored answer. Among them one without a key gets the
                answer that the same question gets before it, with a key or afresh.
        """
        same = np.arange(len(self), dtype=np.int64)
        if self.request_ids or (self.fresh.any() and not self.fresh.all()):
            first, texts = dict[str, int](), self.questions.texts()
            for place in waiting.tolist():
                earlier = first.setdefault(texts[place], place)
                if not (self.request_ids and self.request_ids[place] is not None):
                    same[place] = earlier
        return same


Answering: TypeAlias = Callable[[Requests, Deliver | None], Answers]


def key_of(analyst: str, request_id: str) -> str:
    """Return the idempotency key of an analyst's request; the same of two analysts are two keys."""
    return f"{analyst}{_SEPARATOR}{request_id}" if analyst else request_id


def analyst_of(key: str) -> str:
    """Return the name of the analyst whose key it is; empty where nobody was named."""
    return key.rpartition(_SEPARATOR)[0]


def require_same(key: str, text: str, earlier: str, what: str = "question") -> None:
    """Refuse a key for a request that is not the one it was used for."""
    if text != earlier:
        raise used_for(key, f"another {what}")


def used_for(key: str, what: str) -> QueryError:
    """Return the refusal of a key that was used for something else."""
    return QueryError(
        f"request_id {key.rpartition(_SEPARATOR)[2]!r} was used for {what}; choose a new one",
        code="bad_request",
        position="request_id",
    )
