"""Answers to many questions about ranges, as arrays: each what its question gets alone, to the last bit."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.budget import Budget
from pmw.public.answer import Answer, Basis, QuestionKind, RecordsKept, Source, Spent
from pmw.public.bars import BoxBounds
from pmw.public.error_quantiles import MOST_CELLS, QUESTION_ATTRIBUTES, typical_half_width
from pmw.public.evidence import BASES
from pmw.public.state import PublicState
from queries.boxes import Boxes

if TYPE_CHECKING:
    import pandas as pd

_SOURCES = tuple(Source)
KINDS: tuple[QuestionKind | None, ...] = (
    None,
    *(QuestionKind(*one) for one in itertools.product(range(1, QUESTION_ATTRIBUTES + 1), Basis)),
)
_COLUMNS = ("count", "interval", "typical", "source", "version", "share", "kind")


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
        share: float64, shape (n,): part of the cap that was spent when the answer was given.
        kind: uint8, shape (n,): places in ``kinds``.
        confidence: of the intervals, in (0, 1).
        total: of the model, in records.
        budget: the guarantee.
        seeded: the session's noise can be repeated by anybody: no privacy.
        kept: which records are counted; None where no column of ids bounds a person's.
    """

    count: NDArray[np.float64]
    interval: NDArray[np.float64]
    typical: NDArray[np.float64]
    source: NDArray[np.uint8]
    version: NDArray[np.int64]
    share: NDArray[np.float64]
    kind: NDArray[np.uint8]
    confidence: float
    total: float
    budget: Budget
    seeded: bool
    kept: RecordsKept | None

    @property
    def sources(self) -> tuple[Source, ...]:
        """What ``source`` stands for."""
        return _SOURCES

    @property
    def kinds(self) -> tuple[QuestionKind | None, ...]:
        """What ``kind`` stands for."""
        return KINDS

    @property
    def fraction(self) -> NDArray[np.float64]:
        """Counts divided by the model's total: float64, shape (n,)."""
        return self.count / self.total

    def take(self, places: NDArray[np.int64]) -> RangeAnswers:
        """Return the answers to some of the questions, in the order of their places."""
        return replace(self, **{name: getattr(self, name)[places] for name in _COLUMNS})

    def each(self) -> Iterator[Answer]:
        """Yield each answer by itself."""
        caps = float(self.budget.epsilon), float(self.budget.delta)
        spent = {share: Spent(share, *caps) for share in np.unique(self.share).tolist()}
        columns = self.count, self.fraction, *(getattr(self, name) for name in _COLUMNS[1:])
        for count, fraction, interval, typical, source, version, share, kind in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            yield Answer(
                count,
                fraction,
                _pair(*interval),
                self.confidence,
                _SOURCES[source],
                True,
                version,
                spent[share],
                self.seeded,
                KINDS[kind],
                _pair(*typical),
                self.kept,
            )

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per answer: count, low, high, fraction, source, version.

        The confidence, which records are kept, and whether the noise was seeded, stand in the
        table's ``attrs``.
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
        if self.kept is not None:
            frame.attrs["records_kept"] = self.kept.to_dict()
        return frame

    def __len__(self) -> int:
        return len(self.count)

    def __repr__(self) -> str:
        return f"{len(self):,} answers"


class ArrayAnswers(Sequence[Answer]):
    """A sequence of answers that is held as arrays; an ``Answer`` is made when it is looked at.

    Args:
        parts: one after the other.
    """

    def __init__(self, parts: Sequence[RangeAnswers]) -> None:
        self._parts = tuple(parts)
        self._ends = list(itertools.accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Answer]:
        return itertools.chain.from_iterable(part.each() for part in self._parts)

    @overload
    def __getitem__(self, index: int) -> Answer: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Answer, ...]: ...

    def __getitem__(self, index: int | slice) -> Answer | tuple[Answer, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(len(self))[index])
        place = range(len(self))[index]
        number = bisect_right(self._ends, place)
        part = self._parts[number]
        return next(part.take(np.array([place - self._ends[number] + len(part)])).each())


class RangeRoom:
    """Room for answers, which are put in one after the other.

    Args:
        state: that answers.
        size: how many there will be.
    """

    def __init__(self, state: PublicState, size: int) -> None:
        pairs = {name: np.full((size, 2), math.nan) for name in ("interval", "typical")}
        numbers = {name: np.zeros(size) for name in ("count", "share")}
        codes = {name: np.zeros(size, dtype=np.uint8) for name in ("source", "kind")}
        self._state = state
        self._columns = {**pairs, **numbers, **codes, "version": np.zeros(size, dtype=np.int64)}

    def put(self, places: NDArray[np.int64] | Sequence[int], answers: RangeAnswers) -> None:
        """Fill in some answers."""
        for name, column in self._columns.items():
            column[places] = getattr(answers, name)

    def versions(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the versions of the models that some answers came from: int64, shape (n,)."""
        versions: NDArray[np.int64] = self._columns["version"][places]
        return versions

    def answers(self) -> RangeAnswers:
        """Return all of them."""
        return range_answers(self._state, self._columns)


def answer_boxes(state: PublicState, bounds: BoxBounds, boxes: Boxes, share: float) -> RangeAnswers:
    """Return the model's answers to boxes.

    Args:
        state: that answers.
        bounds: of the boxes.
        boxes: the questions; each depends on all attributes of their scope.
        share: part of the cap that was spent.
    """
    size, counts = len(boxes), bounds.counts
    shown = np.maximum(0.0, counts) + 0.0  # no minus of a zero
    ends = np.minimum(bounds.low, counts), np.maximum(bounds.high, counts)
    interval = np.maximum(0.0, np.stack(ends, axis=1)) + 0.0
    unknown = np.isnan(interval).any(axis=1)
    interval[unknown] = math.nan
    kinds, typical = np.zeros(size, dtype=np.uint8), np.full((size, 2), math.nan)
    for number, basis in enumerate(BASES):
        kind = _kind(boxes, basis)
        places = np.flatnonzero(~unknown & (bounds.basis == number))
        if kind is not None and places.size:
            kinds[places] = KINDS.index(kind)
            typical[places] = _typical(state, shown[places], kind)
    spendable = not state.closed and state.positives_used < state.positives_limit
    source = np.full(size, _SOURCES.index(Source.SYNTHETIC), dtype=np.uint8)
    source[unknown] = _SOURCES.index(Source.UNVERIFIED if spendable else Source.EXHAUSTED)
    columns = {
        "count": shown,
        "interval": interval,
        "typical": typical,
        "source": source,
        "version": np.full(size, state.version),
        "share": np.full(size, share),
        "kind": kinds,
    }
    return range_answers(state, columns)


def range_answers(state: PublicState, columns: Mapping[str, NDArray[Any]]) -> RangeAnswers:
    """Return answers of a session, with what they have in common.

    Args:
        state: that answers.
        columns: what differs, by name.
    """
    contract = state.contract
    return RangeAnswers(
        **columns,
        confidence=contract.options.confidence,
        total=state.total.value,
        budget=contract.budget,
        seeded=contract.seeded,
        kept=contract.records_kept,
    )


def answers_together(state: PublicState, answers: Sequence[Answer]) -> RangeAnswers:
    """Return answers of a session as arrays."""
    none = (math.nan, math.nan)
    ends = [[pair or none for pair in (one.interval, one.typical)] for one in answers]
    pairs = np.array(ends, dtype=np.float64).reshape(len(answers), 2, 2)
    columns: dict[str, NDArray[Any]] = {
        "count": np.array([one.count for one in answers], dtype=np.float64),
        "interval": pairs[:, 0],
        "typical": pairs[:, 1],
        "source": np.array([_SOURCES.index(one.source) for one in answers], dtype=np.uint8),
        "version": np.array([one.version for one in answers], dtype=np.int64),
        "share": np.array([one.spent.share for one in answers], dtype=np.float64),
        "kind": np.array([KINDS.index(one.kind) for one in answers], dtype=np.uint8),
    }
    return range_answers(state, columns)


def _pair(low: float, high: float) -> tuple[float, float] | None:
    return None if math.isnan(low) else (low, high)


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
