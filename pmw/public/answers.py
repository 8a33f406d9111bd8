"""Answers: columns of what many questions were told, one row each, as arrays, a text or a pandas table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from pmw.display.charts import Bar, drawn_table
from pmw.display.texts import counted, text_table
from pmw.privacy.budget import Budget
from pmw.public.answer import SEEDED_WARNING, Answer, Basis, QuestionKind, Source, Spent, below_text, marks
from pmw.public.contract import Contract, RecordsKept
from pmw.public.error_quantiles import QUESTION_ATTRIBUTES
from pmw.public.results import ROWS_SHOWN, Columns, Drawn, Result, facts_of, promise_words, shown_of
from pmw.public.state import PublicState
from queries.frozen import dataclass
from queries.questions import Questions
from queries.workloads import Workload

SOURCES = tuple(Source)
KINDS: tuple[QuestionKind | None, ...] = (
    None,
    *(QuestionKind(*one) for one in itertools.product(range(1, QUESTION_ATTRIBUTES + 1), Basis)),
)
_SOURCE_CODES = {source: np.uint8(code) for code, source in enumerate(SOURCES)}
_KIND_CODES = {kind: np.uint8(code) for code, kind in enumerate(KINDS)}
_SOURCE_NAMES = np.array([source.value for source in SOURCES], dtype=object)
COLUMNS = ("count", "interval", "typical", "source", "version", "share", "kind", "aligned", "charged")

_MADE = 2**12  # answers, of which equal ones are one object

Asked: TypeAlias = Questions | Workload


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answers(Result, Sequence[Answer]):
    """Answers in the order of their questions; made by a session. A sequence of ``Answer``.

    Each is a row of the columns; an ``Answer`` is made when it is looked at, and says what they mean.

    Args:
        count: float64, shape (n,), records; NaN where a question is refused.
        interval: float64, shape (n, 2), the ends in records, holding the true count with at least
            ``confidence``; NaN where a question is refused.
        typical: float64, shape (n, 2), the ends of typical errors; NaN where none were looked at.
        source: uint8, shape (n,): places in ``sources``.
        version: int64, shape (n,), of the model that answered.
        share: float64, shape (n,): part of the cap that was spent when the answer was told.
        kind: uint8, shape (n,): places in ``kinds``.
        aligned: bool, shape (n,): False where the cells cannot decide the condition.
        charged: float64, shape (n,): part of the cap that was charged for the answer; a stored one charges 0.
        confidence: of the intervals, in (0, 1).
        total: of the model, in records.
        budget: the guarantee, drafts of the schema included.
        seeded: the session's noise can be repeated by anybody: no privacy.
        kept: which records are counted; None where no column of ids bounds a person's.
        asked: the questions, or their workload; None where that is not known.
        below: counts of fewer records are withheld where answers are shown: NaN, without intervals; None
            where all are shown.
    """

    count: NDArray[np.float64] = field()  # type: ignore[assignment]  # not how often a row occurs
    interval: NDArray[np.float64]
    typical: NDArray[np.float64]
    source: NDArray[np.uint8]
    version: NDArray[np.int64]
    share: NDArray[np.float64]
    kind: NDArray[np.uint8]
    aligned: NDArray[np.bool_]
    charged: NDArray[np.float64]
    confidence: float
    total: float
    budget: Budget
    seeded: bool
    kept: RecordsKept | None
    asked: Asked | None = field(default=None, repr=False)
    below: int | None = None

    @classmethod
    def of_columns(cls, state: PublicState, columns: Mapping[str, NDArray[Any]]) -> Answers:
        """Return answers of a session, with what they have in common."""
        return cls.of_contract(state.contract, state.total.value, columns)

    @classmethod
    def of_contract(cls, contract: Contract, total: float, columns: Mapping[str, NDArray[Any]]) -> Answers:
        """Return answers of a session with a contract and a number of records; they charged 0 unless told."""
        return cls(
            **cast("dict[str, Any]", {"charged": np.zeros(len(columns["count"])), **columns}),
            confidence=contract.options.confidence,
            total=total,
            budget=contract.whole,
            seeded=contract.seeded,
            kept=contract.records_kept,
            below=contract.options.least_records,
        )

    @classmethod
    def of(cls, state: PublicState, answers: Sequence[Answer], asked: Asked | None = None) -> Answers:
        """Return single answers of a session together."""
        none, size = (math.nan, math.nan), len(answers)
        ends = [(one.interval or none, one.typical or none) for one in answers]
        pairs = np.array(ends, dtype=np.float64).reshape(size, 2, 2)
        numbers = [(one.count, one.spent.share, one.spent.charged) for one in answers]
        codes = [(_SOURCE_CODES[one.source], _KIND_CODES[one.kind], one.aligned) for one in answers]
        columns: dict[str, NDArray[Any]] = {
            "interval": pairs[:, 0],
            "typical": pairs[:, 1],
            "version": np.array([one.version for one in answers], dtype=np.int64),
        }
        columns["count"], columns["share"], columns["charged"] = np.array(numbers).reshape(size, 3).T
        columns["source"], columns["kind"], aligned = np.array(codes, dtype=np.uint8).reshape(size, 3).T
        found = cls.of_columns(state, {**columns, "aligned": aligned.astype(np.bool_)})
        return found if asked is None else replace(found, asked=asked)

    @property
    def sources(self) -> tuple[Source, ...]:
        """What ``source`` stands for."""
        return SOURCES

    @property
    def kinds(self) -> tuple[QuestionKind | None, ...]:
        """What ``kind`` stands for."""
        return KINDS

    @property
    def fraction(self) -> NDArray[np.float64]:
        """Counts divided by the model's total: float64, shape (n,)."""
        return self.count / self.total

    @property
    def widths(self) -> NDArray[np.float64]:
        """Widths of the intervals, in records: float64, shape (n,); NaN where there is none."""
        widths: NDArray[np.float64] = self.interval[:, 1] - self.interval[:, 0]
        return widths

    def shown(self) -> Answers:
        """Return the answers as they are shown: without counts of fewer records than ``below``.

        Privacy: a function of the answers. What is stored, and what later answers rest on, stays as it is.
        """
        if self.below is None:
            return self
        small, ends = self.count < self.below, dict[str, Any]()
        for name in ("interval", "typical"):
            ends[name] = np.where(small[:, None], math.nan, getattr(self, name))
        source = np.where(small, _SOURCE_CODES[Source.WITHHELD], self.source).astype(np.uint8)
        return replace(self, count=np.where(small, math.nan, self.count), source=source, **ends)

    def take(self, places: NDArray[np.int64]) -> Answers:
        """Return the answers to some of the questions, in the order of their places."""
        asked = self.asked.take(places) if isinstance(self.asked, Questions) else None
        return replace(self, asked=asked, **{name: getattr(self, name)[places] for name in COLUMNS})

    def each(self) -> Iterator[Answer]:
        """Yield each answer by itself; equal ones are one object."""
        caps, total, nan = (float(self.budget.epsilon), float(self.budget.delta)), self.total, math.nan
        isnan = math.isnan
        paid = list(zip(self.share.tolist(), self.charged.tolist(), strict=True))
        spent = {(share, charged): Spent(share, *caps, charged) for share, charged in dict.fromkeys(paid)}
        ends = (*self.interval.T, *self.typical.T)
        others = self.source, self.version, self.kind, self.aligned
        made = dict[tuple[Any, ...], Answer]()
        columns = [*map(_listed, (self.count, *ends)), *(column.tolist() for column in others), paid]
        for row in zip(*columns, strict=True):
            if (known := made.get(row)) is not None:
                yield known
                continue
            count, low, high, least, most, source, version, kind, aligned, own = row
            answer = Answer(
                count,
                count / total if count is not nan else nan,
                (low, high) if not isnan(low) else None,
                self.confidence,
                SOURCES[source],
                aligned,
                version,
                spent[own],
                self.seeded,
                KINDS[kind],
                (least, most) if not isnan(least) else None,
                self.kept,
                self.below if SOURCES[source] is Source.WITHHELD else None,
            )
            if len(made) < _MADE:
                made[row] = answer
            yield answer

    def labels(self) -> Sequence[str]:
        """Return what each answer is about: its question in words."""
        if isinstance(self.asked, Questions):
            return self.asked.describe()
        return [query.describe() for query in self.asked or ()]

    def columns(self) -> Columns:
        """Return question, count, low, high, fraction, source, aligned and version: one row per answer.

        ``low`` and ``high`` are the ends of the interval in records, NaN where a question is refused. Where a
        session withholds small counts, ``below`` is what a withheld one is below, and NaN for the others.
        """
        withheld = self.source == _SOURCE_CODES[Source.WITHHELD]
        more = {} if self.below is None else {"below": np.where(withheld, float(self.below), math.nan)}
        return {
            "question": list(self.labels()),
            "count": self.count,
            "low": self.interval[:, 0],
            "high": self.interval[:, 1],
            "fraction": self.fraction,
            "source": _SOURCE_NAMES[self.source],
            "aligned": self.aligned,
            "version": self.version,
            **more,
        }

    def facts(self) -> dict[str, Any]:
        """Return the confidence and what else has to be known of every number; nothing of no answers."""
        return facts_of(self.confidence, self.kept, seeded=self.seeded) if len(self) else {}

    def drawn(self, column: str | None) -> Drawn:
        """Return what a picture shows of the counts; see ``Result``."""
        if column not in (None, "count"):
            raise KeyError(column)
        found = list(self.each())
        spent = found[-1].spent if found else None
        return Drawn(
            "count",
            "records",
            ("question",),
            tuple((label,) for label in self.labels()),
            tuple(one.count if one.has_count else None for one in found),
            tuple(one.interval for one in found),
            "" if spent is None else promise_words(self.confidence, spent, self.kept, seeded=self.seeded),
            seeded=self.seeded,
        )

    def to_text(self, most_rows: int | None = None, width: int | None = None) -> str:
        """Return an aligned table of the answers.

        Args:
            most_rows: how many are shown; None for all.
            width: characters of a line, where there is a limit: texts are cut, or each row is a record.
        """
        header, rows = self._cells(most_rows)
        lines = [text_table(header, rows, left=1, width=width)]
        if len(rows) < len(self):
            lines.append(f"… {len(self) - len(rows):,} more")
        if len(self):
            lines += marks(self.kept, seeded=self.seeded)
        return "\n".join(lines)

    def _cells(self, most_rows: int | None) -> tuple[list[str], list[list[str]]]:
        header = ["question", "count", "low", "high", "source"]
        shown = self if most_rows is None else self.take(np.arange(min(most_rows, len(self))))
        labels = shown.labels() if isinstance(self.asked, Questions) else self.labels()[:most_rows]
        rows = []
        for label, answer in zip(labels, shown, strict=True):
            low, high = answer.interval or (None, None)
            ends = ["-" if end is None else f"{end:,.0f}" for end in (low, high)]
            number = f"{answer.count:,.0f}" if answer.has_count else below_text(answer.below, "-")
            rows.append([label, number, *ends, answer.source.value])
        return header, rows

    @overload
    def __getitem__(self, index: int) -> Answer: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Answer, ...]: ...

    def __getitem__(self, index: int | slice) -> Answer | tuple[Answer, ...]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return tuple(self.take(np.array(places, dtype=np.int64)))
        own = slice(places, places + 1)
        columns = {name: getattr(self, name)[own] for name in COLUMNS}
        return next(replace(self, asked=None, **columns).each())

    def __len__(self) -> int:
        return len(self.count)

    def __iter__(self) -> Iterator[Answer]:
        return self.each()

    def __eq__(self, other: object) -> bool:
        """Equal to any list, tuple or table with the same answers."""
        return isinstance(other, Answers | list | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return self.to_text(ROWS_SHOWN) if len(self) else "no answers"

    def _repr_html_(self) -> str:
        header, rows = self._cells(ROWS_SHOWN)
        confidence = f", {self.confidence:.0%} intervals" if len(self) else ""
        kept = f" ({self.kept.describe()})" if len(self) and self.kept is not None else ""
        warning = f". {SEEDED_WARNING}" if len(self) and self.seeded else ""
        caption = f"{counted(len(self), 'answer')}{confidence}{kept}{warning}"
        shown = self.take(np.arange(len(rows))) if len(rows) < len(self) else self
        bars = [Bar("", one.count, interval=one.interval) if one.has_count else None for one in shown.each()]
        more = shown_of(len(rows), len(self))
        return str(drawn_table(caption, header, rows, [("count", bars)], more))


def concatenated(parts: Sequence[Answers], asked: Asked | None = None) -> Answers:
    """Return answers of one session after each other; at least one part."""
    if len(parts) == 1:
        return replace(parts[0], asked=asked)
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    return replace(parts[0], asked=asked, **cast("dict[str, Any]", columns))


def placed(parts: Sequence[tuple[NDArray[np.int64], Answers]]) -> Answers:
    """Return answers of one session by their places, which are all of 0 to n - 1; at least one part."""
    if len(parts) == 1 and np.all(parts[0][0][1:] > parts[0][0][:-1]):
        return parts[0][1]
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    return concatenated([answers for _, answers in parts]).take(order)


def _listed(column: NDArray[np.float64]) -> list[float]:
    """Return the numbers of a column; NaN is that of ``math``, which is equal to itself in a tuple."""
    numbers: list[float] = column.tolist()
    return [math.nan if math.isnan(one) else one for one in numbers] if np.isnan(column).any() else numbers
