"""Answer tables: many answers together, as a list, a text or a pandas table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from pmw.display.elements import table
from pmw.display.texts import counted, text_table
from pmw.public.answer import SEEDED_WARNING, Answer, RecordsKept
from queries.linear import LinearQuery
from queries.workloads import Workload

if TYPE_CHECKING:
    import pandas as pd

_ROWS_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answers(Sequence[Answer]):
    """Answers in the order of their questions. A sequence of ``Answer``; made by a session.

    Args:
        answers: one per question.
        asked: the questions, or their workload.
    """

    answers: Sequence[Answer]
    asked: tuple[LinearQuery, ...] | Workload = field(repr=False)

    def labels(self) -> tuple[str, ...]:
        """Return what each answer is about: its question in words."""
        return tuple(query.describe() for query in self.asked)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per answer: question, count, low, high, fraction, source, aligned, version.

        ``low`` and ``high`` are the ends of the interval in records, NaN where nothing is promised. The
        confidence, which records are kept, and whether the noise was seeded, stand in the table's ``attrs``.
        """
        import pandas as pd

        answers = tuple(self.answers)
        ends = [answer.interval or (None, None) for answer in answers]
        frame = pd.DataFrame(
            {
                "question": list(self.labels()),
                "count": pd.array([answer.count for answer in answers], dtype="float64"),
                "low": pd.array([low for low, _ in ends], dtype="float64"),
                "high": pd.array([high for _, high in ends], dtype="float64"),
                "fraction": pd.array([answer.fraction for answer in answers], dtype="float64"),
                "source": [answer.source.value for answer in answers],
                "aligned": [answer.aligned for answer in answers],
                "version": [answer.version for answer in answers],
            }
        )
        if answers:
            frame.attrs["confidence"] = answers[0].confidence
            frame.attrs["seeded"] = answers[0].seeded
            if self._kept is not None:
                frame.attrs["records_kept"] = self._kept.to_dict()
        return frame

    def to_text(self, most_rows: int | None = None, width: int | None = None) -> str:
        """Return an aligned table of the answers.

        Args:
            most_rows: how many are shown; None for all.
            width: characters of a line, where there is a limit: texts are cut, or each row is a record.
        """
        header, rows = self._cells(most_rows)
        lines = [text_table(header, rows, left=1, width=width)]
        if len(rows) < len(self.answers):
            lines.append(f"… {len(self.answers) - len(rows):,} more")
        if self._kept is not None:
            lines.append(self._kept.note())
        if self._seeded:
            lines.append(SEEDED_WARNING)
        return "\n".join(lines)

    @property
    def _kept(self) -> RecordsKept | None:
        return self.answers[0].kept if self.answers else None

    @property
    def _seeded(self) -> bool:
        return any(answer.seeded for answer in self.answers)

    def _cells(self, most_rows: int | None) -> tuple[list[str], list[list[str]]]:
        header = ["question", "count", "low", "high", "source"]
        rows = []
        for label, answer in zip(self.labels()[:most_rows], self.answers, strict=False):
            low, high = answer.interval or (None, None)
            ends = ["-" if end is None else f"{end:,.0f}" for end in (low, high)]
            number = "-" if answer.is_refused else f"{answer.count:,.0f}"
            rows.append([label, number, *ends, answer.source.value])
        return header, rows

    @overload
    def __getitem__(self, index: int) -> Answer: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Answer, ...]: ...

    def __getitem__(self, index: int | slice) -> Answer | tuple[Answer, ...]:
        return tuple(self.answers[index]) if isinstance(index, slice) else self.answers[index]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __eq__(self, other: object) -> bool:
        """Equal to any list, tuple or table with the same answers."""
        if isinstance(other, Answers):
            return tuple(self.answers) == tuple(other.answers)
        return isinstance(other, list | tuple) and tuple(self.answers) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self.answers))

    def __repr__(self) -> str:
        return self.to_text(_ROWS_SHOWN) if self.answers else "no answers"

    def _repr_html_(self) -> str:
        header, rows = self._cells(_ROWS_SHOWN)
        confidence = f", {self.answers[0].confidence:.0%} intervals" if self.answers else ""
        shown = f", the first {len(rows)} shown" if len(rows) < len(self.answers) else ""
        kept = "" if self._kept is None else f" ({self._kept.describe()})"
        warning = f". {SEEDED_WARNING}" if self._seeded else ""
        caption = f"{counted(len(self.answers), 'answer')}{confidence}{kept}{shown}{warning}"
        return str(table(caption, header, rows))
