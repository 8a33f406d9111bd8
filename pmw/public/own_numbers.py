"""Own numbers: what was measured of single questions on request. A question's own number bounds it alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pmw.model import QueryMeasurement, RowsMeasurement
from pmw.public.state import PublicState
from queries.boxes import Boxes
from queries.linear import LinearQuery
from queries.questions import Questions


class OwnNumbers:
    """The questions that have a number of their own; of several that of least noise, then the newest.

    Which one that is depends on scales of noise alone, never on a number.

    Args:
        state: the state.
    """

    def __init__(self, state: PublicState) -> None:
        self.measured = state.measured
        self._scopes = set[tuple[str, ...]]()
        self._numbers = dict[str, QueryMeasurement]()
        for one in state.measured:
            for number in one.numbers if isinstance(one, RowsMeasurement) else ():
                text = number.query.to_json()
                known = self._numbers.get(text)
                if known is None or number.variance <= known.variance:
                    self._numbers[text] = number
                self._scopes.add(number.query.scope)

    def of(self, query: LinearQuery) -> QueryMeasurement | None:
        """Return a question's own number; None where it has none."""
        return self._numbers.get(query.to_json()) if query.scope in self._scopes else None

    def places(self, questions: Questions) -> NDArray[np.intp]:
        """Return the places of the questions that have one, growing."""
        return np.fromiter(self._places(questions), dtype=np.intp) if self._scopes else np.empty(0, np.intp)

    def _places(self, questions: Questions) -> Iterable[int]:
        if not isinstance(questions, Boxes):
            asked = questions.queries(0, len(questions))
            return (place for place, query in enumerate(asked) if self.of(query) is not None)
        parts = (places for places, boxes in questions.parts() if boxes.scope in self._scopes)
        asked_of = (place for places in parts for place in places.tolist())
        return sorted(place for place in asked_of if self.of(questions.query(place)) is not None)


def own_numbers(state: PublicState) -> OwnNumbers:
    """Return the questions of a state that have numbers of their own; kept with the newest."""
    found = state.found.own
    if not isinstance(found, OwnNumbers) or found.measured is not state.measured:
        found = state.found.own = OwnNumbers(state)
    return found
