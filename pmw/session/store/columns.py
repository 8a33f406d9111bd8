"""Columns: many answers that drew no noise, in few bytes, and back to the last bit.

Texts of questions repeat each other, and are compressed together; those about ranges are kept as ends.
Numbers hardly can be: where one follows from another but for rounding, what is kept of it is by how many bits
it is off.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.session.store.answer_rows import MEASURED, StoredAnswer, query_key
from queries.range_texts import RangeTexts

_FEWEST = 64  # answers of a block; fewer are rows
_TEXT_LEVEL = 3  # of the compression: half the time of the usual 6, and a tenth more bytes
_NUMBER_LEVEL = 1  # a third less time than 3, and one byte in fifty more
_ENDS = ("<u1", "<u2", "<u4", "<i8")  # how ends of ranges are stored: the first that holds all of a block
_NUMBERS = 7  # columns of 8 bytes
_CODES = 3  # columns of 1 byte
_FLOATS = 5  # counts, and two pairs of ends
_UNITED = ("analyst", "confidence", "share", "version")  # what all answers of a block have in common


@dataclass(frozen=True, slots=True, eq=False)
class AnswerColumns:
    """Answers to questions without idempotency keys, given at one time.

    Args:
        texts: of the questions.
        counts: float64, shape (n,), records.
        ends: float64, shape (n, 2), the ends of the intervals; NaN where nothing is promised.
        typical: float64, shape (n, 2), the same of typical errors.
        sources: uint8, shape (n,), places in ``source_names``.
        kinds: uint8, shape (n,), places in ``kind_names``.
        source_names: what the answers rest on.
        settled: uint8, shape (n,): ``UNSETTLED``, ``FIRST`` or ``AGAIN``.
        kind_names: of the questions; None where their errors are not looked at.
        analyst: who asked.
        confidence: of the intervals.
        share: of the cap that the session had spent.
        version: of the model that answered.
    """

    texts: Sequence[str]
    counts: NDArray[np.float64]
    ends: NDArray[np.float64]
    typical: NDArray[np.float64]
    sources: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    settled: NDArray[np.uint8]
    source_names: tuple[str, ...]
    kind_names: tuple[str | None, ...]
    analyst: str
    confidence: float
    share: float
    version: int

    @classmethod
    def of(cls, answers: Sequence[StoredAnswer]) -> AnswerColumns:
        """Return the columns of answers that have all else in common."""
        sources, source_names = _coded([one.source for one in answers])
        kinds, kind_names = _coded([one.kind for one in answers])
        first = answers[0]
        return cls(
            [one.query for one in answers],
            np.array([one.count for one in answers], dtype=np.float64),
            _pairs([one.interval for one in answers]),
            _pairs([one.typical for one in answers]),
            sources,
            kinds,
            np.array([one.settled for one in answers], dtype=np.uint8),
            source_names,
            kind_names,
            first.analyst,
            first.confidence,
            first.share,
            first.version,
        )

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        texts = self.texts
        ends = texts.ends.nbytes if isinstance(texts, RangeTexts) else sum(map(sys.getsizeof, texts))
        return ends + (8 * _FLOATS + _CODES) * len(texts)

    def named_kinds(self) -> list[int]:
        """Return the places of the kinds whose errors are looked at."""
        return [code for code, name in enumerate(self.kind_names) if name is not None]

    def answers(self) -> Iterator[StoredAnswer]:
        """Yield the answers one by one."""
        return map(self.answer, range(len(self)))

    def answer(self, place: int) -> StoredAnswer:
        """Return one answer."""
        text = self.texts[place]
        return StoredAnswer(
            request_id=None,
            query_key=query_key(text),
            query=text,
            count=float(self.counts[place]),
            interval=_pair(self.ends[place]),
            confidence=self.confidence,
            source=self.source_names[self.sources[place]],
            version=self.version,
            share=self.share,
            kind=self.kind_names[self.kinds[place]],
            typical=_pair(self.typical[place]),
            analyst=self.analyst,
            settled=int(self.settled[place]),
        )


def runs(answers: Sequence[StoredAnswer]) -> Iterator[Sequence[StoredAnswer] | AnswerColumns]:
    """Yield answers in order: as columns where enough of them are alike, else as they are.

    Measured answers, and those to requests with idempotency keys, are rows: each is looked up by itself.
    """

    def alike(one: StoredAnswer) -> tuple[object, ...] | None:
        if one.source == MEASURED or one.request_id is not None:
            return None
        return one.analyst, one.confidence, one.share, one.version

    for common, found in groupby(answers, alike):
        run = list(found)
        yield run if common is None or len(run) < _FEWEST else AnswerColumns.of(run)


def question_keys(texts: Sequence[str]) -> NDArray[np.uint32]:
    """Return 32 bits of each question's text, by which it is found: uint32, shape (n,)."""
    if isinstance(texts, RangeTexts):
        return texts.checksums()
    return np.fromiter((zlib.crc32(text.encode()) for text in texts), dtype=np.uint32, count=len(texts))


def texts_at(texts: Sequence[str], places: NDArray[np.int64]) -> Sequence[str]:
    """Return some of the texts."""
    return (
        texts.take(places) if isinstance(texts, RangeTexts) else [texts[place] for place in places.tolist()]
    )


def are_same(
    texts: Sequence[str], own: NDArray[np.int64], others: Sequence[str], theirs: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which of some texts are those of others, one by one: bool, shape (n,)."""
    if isinstance(texts, RangeTexts) and isinstance(others, RangeTexts):
        return texts.are(own, others, theirs)
    pairs = zip(own.tolist(), theirs.tolist(), strict=True)
    return np.array([texts[one] == others[other] for one, other in pairs], dtype=bool)


def packed(columns: AnswerColumns) -> bytes:
    """Return what differs between answers as compressed bytes."""
    names: list[Any] = [columns.source_names, columns.kind_names]
    if isinstance(columns.texts, RangeTexts) and columns.texts.names:
        ends = columns.texts.ends
        kind = next(kind for kind in _ENDS if ends.max(initial=0) <= np.iinfo(kind).max)
        names += [columns.texts.names, kind]
        questions = ends.astype(kind).tobytes()
    else:
        questions = "\n".join(columns.texts).encode()
    counts, low, high = columns.counts, *columns.ends.T
    typical_low, typical_high = columns.typical.T
    width, reach = high - low, typical_high - counts
    numbers = (
        counts.view(np.uint64),
        np.ascontiguousarray(low).view(np.uint64),
        width.view(np.uint64),
        _off(high, low + width),
        reach.view(np.uint64),
        _off(typical_high, counts + reach),
        _off(typical_low, np.maximum(0.0, counts - reach)),
    )
    asked = zlib.compress(json.dumps(names).encode() + b"\n" + questions, _TEXT_LEVEL)
    parts = [columns.sources.tobytes(), columns.kinds.tobytes(), columns.settled.tobytes()]
    parts += [column.astype("<u8").tobytes() for column in numbers]
    return len(asked).to_bytes(4, "little") + asked + zlib.compress(b"".join(parts), _NUMBER_LEVEL)


def unpacked(raw: bytes, analyst: str, confidence: float, share: float, version: int) -> AnswerColumns:
    """Return the answers of compressed bytes.

    Raises:
        ValueError: the bytes are none.
    """
    end = 4 + int.from_bytes(raw[:4], "little")
    try:
        asked, plain = zlib.decompress(raw[4:end]), zlib.decompress(raw[end:])
    except zlib.error:
        raise ValueError("expected compressed answers") from None
    head, _, questions = asked.partition(b"\n")
    source_names, kind_names, *ranges = json.loads(head)
    texts = _ranges(questions, *ranges) if ranges else questions.decode().split("\n")
    count = len(texts)
    codes = np.frombuffer(plain, dtype=np.uint8, count=_CODES * count).reshape(_CODES, count)
    numbers = np.frombuffer(plain, dtype="<u8", count=_NUMBERS * count, offset=codes.size)
    bits = [column.astype(np.uint64) for column in numbers.reshape(_NUMBERS, count)]
    counts, low, width, reach = (bits[place].view(np.float64) for place in (0, 1, 2, 4))
    high = _put(low + width, bits[3])
    typical_high = _put(counts + reach, bits[5])
    typical_low = _put(np.maximum(0.0, counts - reach), bits[6])
    return AnswerColumns(
        texts,
        counts,
        np.stack([low, high], axis=1),
        np.stack([typical_low, typical_high], axis=1),
        codes[0],
        codes[1],
        codes[2],
        tuple(source_names),
        tuple(kind_names),
        analyst,
        confidence,
        share,
        version,
    )


def _ranges(raw: bytes, names: Sequence[str], kind: str) -> RangeTexts:
    return RangeTexts(names, np.frombuffer(raw, dtype=kind).reshape(len(names), 2, -1))


def _off(values: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return by how many bits numbers are off others: zeros and ones mostly, which compress to nothing."""
    return np.ascontiguousarray(values).view(np.uint64) - np.ascontiguousarray(near).view(np.uint64)


def _put(near: NDArray[np.float64], off: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the numbers that are so many bits off others: what ``_off`` was given, to the last bit."""
    return (near.view(np.uint64) + off).view(np.float64)


_Name = TypeVar("_Name", str, str | None)


def _coded(names: Sequence[_Name]) -> tuple[NDArray[np.uint8], tuple[_Name, ...]]:
    """Return names as places in a list of the distinct ones."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], dtype=np.uint8), tuple(places)


def _pairs(pairs: Sequence[tuple[float, float] | None]) -> NDArray[np.float64]:
    return np.array([(math.nan, math.nan) if pair is None else pair for pair in pairs], dtype=np.float64)


def _pair(ends: NDArray[np.float64]) -> tuple[float, float] | None:
    low, high = map(float, ends)
    return None if math.isnan(low) else (low, high)
