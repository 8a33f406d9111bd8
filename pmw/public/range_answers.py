"""Answers to many questions about ranges, as arrays: each what its question gets alone, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.public.answer import Answer, Basis, QuestionKind, Source
from pmw.public.error_quantiles import MOST_CELLS, QUESTION_ATTRIBUTES, typical_half_width
from pmw.public.evidence_bounds import Evidence
from pmw.public.marginal_intervals import Together
from pmw.public.state import PublicState
from queries.boxes import Boxes, BoxSums

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "answer_boxes",
    "answers_together",
    "range_answers",
    "RangeAnswers",
    "RangeRoom",
]

_SOURCES = tuple(Source)
_COLUMNS = ("count", "interval", "typical", "source", "version")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RangeAnswers:
    """Answers to questions about ranges, as arrays; made by a session. See ``Answer`` for what they mean.

    Args:
        count: float64, shape (n,), records.
        interval: float64, shape (n, 2), the ends in records, holding the true count with at least
            ``confidence``; NaN where nothing is promised.
        typical: float64, shape (n, 2), the ends of typical errors; NaN where none were looked at.
        source: uint8, shape (n,): places in ``sources``.
        version: int64, shape (n,), of the model that answered.
        confidence: of the intervals, in (0, 1).
        total: of the model, in records.
        seeded: the session's noise can be repeated by anybody: no privacy.
    """

    count: NDArray[np.float64]
    interval: NDArray[np.float64]
    typical: NDArray[np.float64]
    source: NDArray[np.uint8]
    version: NDArray[np.int64]
    confidence: float
    total: float
    seeded: bool

    @property
    def sources(self) -> tuple[Source, ...]:
        """What ``source`` stands for."""
        return _SOURCES

    @property
    def fraction(self) -> NDArray[np.float64]:
        """Counts divided by the model's total: float64, shape (n,)."""
        return self.count / self.total

    def take(self, places: NDArray[np.int64]) -> RangeAnswers:
        """Return the answers to some of the questions, in the order of their places."""
        return replace(self, **{name: getattr(self, name)[places] for name in _COLUMNS})

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per answer: count, low, high, fraction, source, version.

        The confidence, and whether the noise was seeded, stand in the table's ``attrs``.
        """
        import pandas as pd

        frame = pd.DataFrame(
            {
                "count": self.count,
                "low": self.interval[:, 0],
                "high": self.interval[:, 1],
                "fraction": self.fraction,
                "source": np.array([source.value for source in _SOURCES], dtype=object)[self.source],
                "version": self.version,
            }
        )
        frame.attrs.update(confidence=self.confidence, seeded=self.seeded)
        return frame

    def __len__(self) -> int:
        return len(self.count)

    def __repr__(self) -> str:
        return f"{len(self):,} answers"


class RangeRoom:
    """Room for answers, which are put in one after the other.

    Args:
        state: that answers.
        size: how many there will be.
    """

    def __init__(self, state: PublicState, size: int) -> None:
        self._state = state
        self._count = np.zeros(size)
        self._interval, self._typical = np.full((2, size, 2), np.nan)
        self._source = np.zeros(size, dtype=np.uint8)
        self._version = np.zeros(size, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._count)

    def put(self, places: NDArray[np.int64] | Sequence[int], answers: RangeAnswers) -> None:
        """Fill in some answers."""
        self._count[places] = answers.count
        self._interval[places] = answers.interval
        self._typical[places] = answers.typical
        self._source[places] = answers.source
        self._version[places] = answers.version

    def answers(self) -> RangeAnswers:
        """Return all of them."""
        columns = self._count, self._interval, self._typical, self._source, self._version
        return range_answers(self._state, *columns)


def answer_boxes(
    state: PublicState, together: Together, boxes: Boxes
) -> tuple[RangeAnswers, NDArray[np.uint8], tuple[QuestionKind | None, ...]]:
    """Return the model's answers to boxes, with their kinds.

    Args:
        state: that answers.
        together: what bounds all boxes of the scope alike.
        boxes: the questions; each depends on all attributes of their scope.

    Returns:
        The answers; and uint8, shape (n,), places in the kinds of question after it.
    """
    size, counts = len(boxes), together.sums.many(boxes)
    shown = np.maximum(0.0, counts) + 0.0  # no minus of a zero
    kinds, versions = np.zeros(size, dtype=np.uint8), np.full(size, state.version)
    interval, typical = np.full((2, size, 2), np.nan)
    if not together.evidence:
        spendable = not state.closed and state.positives_used < state.positives_limit
        source = _codes(size, Source.UNVERIFIED if spendable else Source.EXHAUSTED)
        return range_answers(state, shown, interval, typical, source, versions), kinds, (None,)
    chosen, widths = _narrowest(together.evidence, boxes)
    values = np.zeros(size)
    names: list[QuestionKind | None] = [None]
    for number, one in enumerate(together.evidence):
        places = np.flatnonzero(chosen == number)
        if places.size:
            values[places] = (one.sums or BoxSums(one.values)).many(boxes.take(places))
            kind = _kind(boxes, one.basis)
            if kind is not None:
                kinds[places] = len(names)
                names.append(kind)
                typical[places] = _typical(state, shown[places], kind)
    ends = np.minimum(values - widths, counts), np.maximum(values + widths, counts)
    interval[:] = np.maximum(0.0, np.stack(ends, axis=1)) + 0.0
    source = _codes(size, Source.SYNTHETIC)
    return range_answers(state, shown, interval, typical, source, versions), kinds, tuple(names)


def range_answers(
    state: PublicState,
    count: NDArray[np.float64],
    interval: NDArray[np.float64],
    typical: NDArray[np.float64],
    source: NDArray[np.uint8],
    version: NDArray[np.int64],
) -> RangeAnswers:
    """Return answers of a session, with what they have in common."""
    confidence, seeded = state.contract.options.confidence, state.contract.seeded
    return RangeAnswers(count, interval, typical, source, version, confidence, state.total.value, seeded)


def answers_together(state: PublicState, answers: Sequence[Answer]) -> RangeAnswers:
    """Return answers of a session as arrays."""
    none = (math.nan, math.nan)
    ends = [[pair or none for pair in (one.interval, one.typical)] for one in answers]
    pairs = np.array(ends, dtype=np.float64).reshape(len(answers), 2, 2)
    return range_answers(
        state,
        np.array([one.count for one in answers], dtype=np.float64),
        pairs[:, 0],
        pairs[:, 1],
        np.array([_SOURCES.index(one.source) for one in answers], dtype=np.uint8),
        np.array([one.version for one in answers], dtype=np.int64),
    )


def _codes(size: int, source: Source) -> NDArray[np.uint8]:
    return np.full(size, _SOURCES.index(source), dtype=np.uint8)


def _narrowest(evidence: Sequence[Evidence], boxes: Boxes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return which evidence has the smallest half-width of each box, the first of several, and that width."""
    cells, places = np.unique(boxes.cells(), return_inverse=True)
    widths = np.array([[one.of_cells(int(size)) for size in cells] for one in evidence if one.of_cells])
    chosen = np.argmin(widths, axis=0)
    best = widths[chosen, np.arange(cells.size)]
    return chosen[places.reshape(-1)], best[places.reshape(-1)]


def _kind(boxes: Boxes, basis: Basis) -> QuestionKind | None:
    """Return the kind of boxes; None where their errors are never looked at. See ``kind_of``."""
    if basis is Basis.RELEASED or boxes.domain.scope_size(boxes.scope) > MOST_CELLS:
        return None
    return QuestionKind(min(len(boxes.scope), QUESTION_ATTRIBUTES), basis)


def _typical(state: PublicState, counts: NDArray[np.float64], kind: QuestionKind) -> NDArray[np.float64]:
    """Return the ends of typical errors of a kind: float64, shape (n, 2); NaN where none were looked at."""
    width = typical_half_width(state.quantiles, kind, state.contract.options.confidence)
    if width is None:
        return np.full((counts.size, 2), np.nan)
    return np.stack([np.maximum(0.0, counts - width) + 0.0, counts + width], axis=1)
