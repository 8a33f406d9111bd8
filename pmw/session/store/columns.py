"""Columns: answers of one commit, in few bytes, and back to the last bit.

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
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.public.answer import Source
from pmw.public.answers import KINDS, SOURCES
from pmw.public.codec import kind_text, read_kind
from queries.frozen import dataclass
from queries.range_texts import RangeTexts

# Whether an answer settles its question: its asker could have paid for a test. Only the first counts.
UNSETTLED, FIRST, AGAIN = 0, 1, 2

_FEW = 16  # answers whose numbers are stored as they are: to compress them takes longer than it saves
_PLAIN = 2**31  # is added to the length before such numbers
_TEXT_LEVEL = 3  # of the compression: half the time of the usual 6, and a tenth more bytes
_NUMBER_LEVEL = 1  # a third less time than 3, and one byte in fifty more
_ENDS = ("<u1", "<u2", "<u4", "<i8")  # how ends of ranges are stored: the first that holds all of a block
_NUMBERS = 7  # columns of 8 bytes
_CODES = 3  # columns of 1 byte
_FLOATS = 5  # counts, and two pairs of ends
DIFFERING = ("count", "interval", "typical", "source", "kind")  # columns, as answers have them
_COMMON = attrgetter("analyst", "confidence", "share", "version")  # what all answers of a block share
_SOURCE_CODES = {source.value: np.uint8(code) for code, source in enumerate(SOURCES)}
_SOURCE_NAMES = tuple(_SOURCE_CODES)
_KIND_NAMES = tuple(None if kind is None else kind_text(kind) for kind in KINDS)
_DRAWN = SOURCES.index(Source.MEASURED)  # an answer that drew noise of its own
_KINDLESS = KINDS.index(None)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer as it was released, and the question it belongs to."""

    query: str
    count: float
    interval: tuple[float, float] | None
    confidence: float
    source: str
    version: int
    share: float
    kind: str | None = None  # of the question, where errors of such questions are looked at
    typical: tuple[float, float] | None = None
    analyst: str = ""  # who asked first; an empty name where nobody was named
    settled: int = (
        UNSETTLED  # or ``FIRST``, or ``AGAIN`` where an earlier answer to the question was the first
    )


@dataclass(frozen=True, slots=True, eq=False)
class AnswerColumns:
    """Answers given at one time, one or many.

    Args:
        count: float64, shape (n,), records; 0 where a question is refused.
        interval: float64, shape (n, 2), the ends in records; NaN where a question is refused.
        typical: float64, shape (n, 2), the same of typical errors.
        source: uint8, shape (n,), what the answers rest on: places in ``SOURCES``.
        kind: uint8, shape (n,), of the questions: places in ``KINDS``.
        settled: uint8, shape (n,): ``UNSETTLED``, ``FIRST`` or ``AGAIN``.
        share: of the cap that the session had spent.
        request_ids: of the requests that were given them, n; empty where none has one.
    """

    texts: Sequence[str]
    count: NDArray[np.float64]
    interval: NDArray[np.float64]
    typical: NDArray[np.float64]
    source: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    settled: NDArray[np.uint8]
    analyst: str
    confidence: float
    share: float
    version: int
    request_ids: tuple[str | None, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        texts = self.texts
        ends = texts.ends.nbytes if isinstance(texts, RangeTexts) else sum(map(sys.getsizeof, texts))
        return ends + (8 * _FLOATS + _CODES) * len(texts)

    def drawn_count(self) -> int:
        """Return how many of them drew noise of their own."""
        return self.source.tobytes().count(_DRAWN)

    def kind_count(self) -> int:
        """Return how many of them have a kind: their errors are looked at."""
        return len(self) - self.kind.tobytes().count(_KINDLESS)

    def first_count(self) -> int:
        """Return how many of them settle their questions first."""
        return self.settled.tobytes().count(FIRST)

    def answers(self) -> Iterator[StoredAnswer]:
        """Yield the answers one by one."""
        return map(self.answer, range(len(self)))

    def answer(self, place: int) -> StoredAnswer:
        """Return one answer."""
        return StoredAnswer(
            query=self.texts[place],
            count=float(self.count[place]),
            interval=_pair(self.interval[place]),
            confidence=self.confidence,
            source=_SOURCE_NAMES[self.source[place]],
            version=self.version,
            share=self.share,
            kind=_KIND_NAMES[self.kind[place]],
            typical=_pair(self.typical[place]),
            analyst=self.analyst,
            settled=int(self.settled[place]),
        )


def joined(parts: Sequence[AnswerColumns]) -> tuple[AnswerColumns, ...]:
    """Return answers in order as few columns: those of neighbours that were given at one time are one."""
    runs = [list(alike) for _, alike in groupby(parts, _COMMON)]
    return tuple(run[0] if len(run) == 1 else _joined(run) for run in runs)


def _joined(parts: Sequence[AnswerColumns]) -> AnswerColumns:
    texts = [one.texts for one in parts]
    ranges = [one for one in texts if isinstance(one, RangeTexts)]
    whole: Sequence[str] = [text for one in texts for text in one]
    if len(ranges) == len(texts) and len({one.names for one in ranges}) == 1:
        whole = RangeTexts(ranges[0].names, np.concatenate([one.ends for one in ranges], axis=2))
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts]) for name in (*DIFFERING, "settled")
    }
    ids = [one.request_ids or (None,) * len(one) for one in parts]
    are_keyed = any(one.request_ids for one in parts)
    return replace(parts[0], texts=whole, **columns, request_ids=sum(ids, ()) if are_keyed else ())


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
    """Return what differs between answers as bytes: compressed, but for the numbers of few."""
    sources, source_codes = _present(columns.source)
    kinds, kind_codes = _present(columns.kind)
    named = [_SOURCE_NAMES[code] for code in source_codes], [_KIND_NAMES[code] for code in kind_codes]
    names: list[Any] = [*named, columns.request_ids]
    if isinstance(columns.texts, RangeTexts) and columns.texts.names:
        ends = columns.texts.ends
        kind = next(kind for kind in _ENDS if ends.max(initial=0) <= np.iinfo(kind).max)
        names += [columns.texts.names, kind]
        questions = ends.astype(kind).tobytes()
    else:
        questions = "\n".join(columns.texts).encode()
    counts, low, high = columns.count, *columns.interval.T
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
    parts = [sources.tobytes(), kinds.tobytes(), columns.settled.tobytes()]
    parts += [column.astype("<u8").tobytes() for column in numbers]
    plain = b"".join(parts)
    if len(columns) < _FEW:
        return (len(asked) | _PLAIN).to_bytes(4, "little") + asked + plain
    return len(asked).to_bytes(4, "little") + asked + zlib.compress(plain, _NUMBER_LEVEL)


def unpacked(raw: bytes, analyst: str, confidence: float, share: float, version: int) -> AnswerColumns:
    """Return the answers of compressed bytes."""
    length = int.from_bytes(raw[:4], "little")
    end = 4 + length % _PLAIN
    asked = zlib.decompress(raw[4:end])
    plain = raw[end:] if length & _PLAIN else zlib.decompress(raw[end:])
    head, _, questions = asked.partition(b"\n")
    source_names, kind_names, request_ids, *ranges = json.loads(head)
    if ranges:
        names, kind = ranges
        ends = np.frombuffer(questions, dtype=kind).reshape(len(names), 2, -1)
        texts: Sequence[str] = RangeTexts(names, ends)
    else:
        texts = questions.decode().split("\n")
    count = len(texts)
    codes = np.frombuffer(plain, dtype=np.uint8, count=_CODES * count).reshape(_CODES, count)
    numbers = np.frombuffer(plain, dtype="<u8", count=_NUMBERS * count, offset=codes.size)
    sources = np.array([_SOURCE_CODES[name] for name in source_names])[codes[0]]
    kinds = [_KINDLESS if name is None else KINDS.index(read_kind(name)) for name in kind_names]
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
        sources,
        np.array(kinds, dtype=np.uint8)[codes[1]],
        codes[2],
        analyst,
        confidence,
        share,
        version,
        tuple(request_ids),
    )


def _off(values: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return by how many bits numbers are off others: zeros and ones mostly, which compress to nothing."""
    return np.ascontiguousarray(values).view(np.uint64) - np.ascontiguousarray(near).view(np.uint64)


def _put(near: NDArray[np.float64], off: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the numbers that are so many bits off others: what ``_off`` was given, to the last bit."""
    return (near.view(np.uint64) + off).view(np.float64)


def _present(codes: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], list[int]]:
    """Return codes as places in a list of those that occur, and that list."""
    if (codes == codes[0]).all():
        return np.zeros_like(codes), [int(codes[0])]
    occurs = np.bincount(codes) > 0
    return (np.cumsum(occurs, dtype=np.uint8) - 1)[codes], np.flatnonzero(occurs).tolist()


def _pair(ends: NDArray[np.float64]) -> tuple[float, float] | None:
    low, high = map(float, ends)
    return None if math.isnan(low) else (low, high)
