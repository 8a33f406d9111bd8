"""Own numbers: what was measured of single questions on request. A question's own number bounds it alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pmw.model import QueryMeasurement, RowsMeasurement, noise_variance
from pmw.public.state import PublicState
from queries.boxes import Boxes
from queries.linear import LinearQuery
from queries.questions import Questions


class OwnNumbers:
    """The questions that have a number of their own; of several that of least noise, then the newest.

    Which one that is depends on scales of noise alone, never on a number.

    Args:
        before: those of an earlier state, which are taken over.
    """

    def __init__(self, state: PublicState, before: OwnNumbers | None = None) -> None:
        self.measured = state.measured
        self._most = min((noise_variance(tier.noise) for tier in state.plan), default=math.inf)
        self._scopes: set[tuple[str, ...]] = set() if before is None else {*before._scopes}
        self._numbers: dict[str, QueryMeasurement] = {} if before is None else {**before._numbers}
        for one in state.measured if before is None else state.measured[len(before.measured) :]:
            for number in one.numbers if isinstance(one, RowsMeasurement) else ():
                text = number.query.to_json()
                known = self._numbers.get(text)
                if known is None or number.variance <= known.variance:
                    self._numbers[text] = number
                self._scopes.add(number.query.scope)

    def is_before(self, state: PublicState) -> bool:
        """Tell whether a state measured all that is known here, and perhaps more."""
        known, now = self.measured, state.measured
        if known is now:
            return True
        return len(now) >= len(known) and all(one is other for one, other in zip(known, now, strict=False))

    def of(self, query: LinearQuery) -> QueryMeasurement | None:
        """Return a question's own number; None where it has none."""
        return self._numbers.get(query.to_json()) if query.scope in self._scopes else None

    def serves(self, query: LinearQuery) -> bool:
        """Tell whether a question needs no test: it has a number with no more noise than a positive has."""
        number = self.of(query)
        return number is not None and number.variance <= self._most

    def places(self, questions: Questions, *, serving: bool = False) -> NDArray[np.intp]:
        """Return the places of the questions that have one, growing; or of those that need no test for it."""
        if not self._scopes:
            return np.empty(0, dtype=np.intp)
        has = self.serves if serving else self._has
        if not isinstance(questions, Boxes):
            asked = questions.queries(0, len(questions))
            return np.array([place for place, query in enumerate(asked) if has(query)], dtype=np.intp)
        parts = (places for places, boxes in questions.parts() if boxes.scope in self._scopes)
        found = [place for places in parts for place in places.tolist() if has(questions.query(place))]
        return np.array(sorted(found), dtype=np.intp)

    def _has(self, query: LinearQuery) -> bool:
        return self.of(query) is not None


def own_numbers(state: PublicState) -> OwnNumbers:
    """Return the questions of a state that have numbers of their own; kept with the newest."""
    found = state.found.own
    if not isinstance(found, OwnNumbers) or not found.is_before(state):
        found = state.found.own = OwnNumbers(state)
    elif found.measured is not state.measured:
        found = state.found.own = OwnNumbers(state, found)
    return found
