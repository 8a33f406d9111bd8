"""Tables: what a statement is answered with. Everything in one is public."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from pmw.display.charts import Bar, drawn_table
from pmw.display.texts import counted, text_table
from pmw.public.answer import SEEDED_WARNING, Spent, below_text, marks, with_marks
from pmw.public.contract import RecordsKept
from pmw.public.results import ROWS_SHOWN, Columns, Drawn, Result, facts_of, promise_words, shown_of
from pmw.public.sums import Estimate
from queries.cells import GroupValue, canonical_text
from queries.frozen import dataclass
from queries.statements import BAR_COLUMNS

_ALL = "(all)"  # a key that a row is a total over
Key: TypeAlias = GroupValue | float  # a group's value, or a constant
Row: TypeAlias = tuple[tuple[Key, ...], tuple[Estimate, ...]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnswerTable(Result):
    """The answer to a statement; made by a session.

    Args:
        keys: names of the columns that hold the groups' values, and constants.
        titles: names of the columns of aggregates.
        rows: of each group its values, and what its aggregates come to.
        confidence: of each interval, in (0, 1).
        notes: what has to be known about every answer.
        version: of the newest model that answered.
        seeded: the session's noise can be repeated by anybody: no privacy.
        kept: which records the numbers are about; None where no column of ids bounds a person's.
        whole: those of ``titles`` whose answers are whole numbers, such as counts.
        totals: of each row the places of the keys that it is a total over; empty where no row is one.
        ordered: of the keys that are numbers or dates, their values in this order, the special ones left out.
        units: what ``titles`` are numbers of, such as records, or the attribute that they are values of.
        about: which records are meant, in words; empty for all.
        withholds: numbers that may be of few persons are withheld.
    """

    keys: tuple[str, ...]
    titles: tuple[str, ...]
    rows: tuple[Row, ...]
    confidence: float
    notes: tuple[str, ...] = ()
    version: int = 0
    spent: Spent = field(default=Spent(0.0, 0.0, 0.0))
    seeded: bool = False
    kept: RecordsKept | None = None
    whole: frozenset[str] = frozenset()
    totals: tuple[tuple[int, ...], ...] = ()
    ordered: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
    withholds: bool = False

    def column(self, name: str) -> tuple[Any, ...]:
        """Return the values of a key, or what an aggregate comes to, an ``Estimate`` each."""
        if name in self.keys:
            place = self.keys.index(name)
            return tuple(keys[place] for keys, _ in self.rows)
        if name not in self.titles:
            raise KeyError(name)
        place = self.titles.index(name)
        return tuple(found[place] for _, found in self.rows)

    def estimates(self) -> Iterator[Estimate]:
        """Yield what each aggregate comes to, row by row."""
        for _, found in self.rows:
            yield from found

    @property
    def is_promised(self) -> bool:
        """Every answer has an interval that needs no condition."""
        return all(one.is_promised for one in self.estimates())

    def to_dict(self) -> dict[str, Any]:
        """Return the answer format of a statement, ready for JSON."""
        rows = [
            {
                **dict(zip(self.keys, keys, strict=True)),
                **{
                    title: one.to_dict(whole=title in self.whole)
                    for title, one in zip(self.titles, found, strict=True)
                },
            }
            for keys, found in self.rows
        ]
        form: dict[str, Any] = {
            "rows": rows,
            "notes": list(self.notes),
            "confidence": self.confidence,
            "version": self.version,
            "spent": self.spent.to_dict(),
        }
        return with_marks(form, self.kept, seeded=self.seeded)

    def columns(self) -> Columns:
        """Return the keys, then of each aggregate its value, ends and source: one row per group.

        Aggregate ``n`` has the ends of its interval in ``n_low`` and ``n_high``, NaN where nothing is
        promised, and where it comes from in ``n_source``. What is refused, or a division by 0 in the model,
        is NaN. Where a session withholds small numbers, ``n_below`` is what a withheld one is below.
        """
        columns: dict[str, Any] = {name: list(self.column(name)) for name in self.keys}
        for title in self.titles:
            found = self.column(title)
            ends = [one.interval or (None, None) for one in found]
            numbers = ([one.value for one in found], [low for low, _ in ends], [high for _, high in ends])
            names = [title, *(f"{title}_{name}" for name in BAR_COLUMNS)]
            for name, column in zip(names, numbers, strict=False):
                columns[name] = np.array(column, dtype=np.float64)  # None is NaN
            columns[names[-1]] = [one.source.value for one in found]
            if self.withholds:
                columns[f"{title}_below"] = np.array([one.below for one in found], dtype=np.float64)
        return columns

    def facts(self) -> dict[str, Any]:
        """Return the confidence, the notes and what else has to be known of every number."""
        return {"notes": list(self.notes), **facts_of(self.confidence, self.kept, seeded=self.seeded)}

    def drawn(self, column: str | None) -> Drawn:
        """Return what a picture shows of an aggregate, totals left out; see ``Result``."""
        title = column if column is not None else self.titles[0]
        if title not in self.titles:
            raise KeyError(title)
        found = self.column(title)
        rows = [row for row in range(len(self)) if not (self.totals and self.totals[row])] or [
            *range(len(self))
        ]
        left_out = counted(len(self) - len(rows), "total")
        notes = (f"{left_out} left out", *self.notes) if len(rows) < len(self) else self.notes
        return Drawn(
            title,
            self.units.get(title, ""),
            self.keys,
            tuple(tuple(self.labels(row)) for row in rows),
            tuple(found[row].value for row in rows),
            tuple(found[row].interval for row in rows),
            promise_words(self.confidence, self.spent, self.kept, seeded=self.seeded),
            self.about,
            self.seeded,
            {name: tuple(map(key_text, values)) for name, values in self.ordered.items()},
            notes,
        )

    def to_text(self, most_rows: int | None = None, width: int | None = None) -> str:
        """Return an aligned table of the answers.

        Args:
            most_rows: how many are shown; None for all.
            width: characters of a line, where there is a limit: texts are cut, or each row is a record.
        """
        rows = self.cells(most_rows)
        lines = [text_table(self.header, rows, left=len(self.keys), width=width)] if rows else ["no rows"]
        if len(rows) < len(self.rows):
            lines.append(f"… {len(self.rows) - len(rows):,} more")
        lines += [f"{note[0].upper()}{note[1:]}." for note in self.notes]
        return "\n".join([*lines, *marks(self.kept, seeded=self.seeded)])

    @property
    def header(self) -> list[str]:
        """What people read above the columns of ``cells``."""
        return [*self.keys, *(name for title in self.titles for name in (title, *BAR_COLUMNS))]

    def cells(self, most_rows: int | None = None, none: str = "-") -> list[list[str]]:
        """Return what people read in each row, with digits that the intervals do not hide.

        Args:
            most_rows: how many are wanted; None for all.
            none: what stands where there is no number.
        """
        return [
            [
                *self.labels(number),
                *(
                    text
                    for title, one in zip(self.titles, found, strict=True)
                    for text in (*number_texts(one, none, whole=title in self.whole), one.source.value)
                ),
            ]
            for number, (_, found) in enumerate(self.rows[:most_rows])
        ]

    def labels(self, number: int) -> list[str]:
        """Return the values of a row's group as people read them."""
        texts = [key_text(key) for key in self.rows[number][0]]
        for place in self.totals[number] if self.totals else ():
            texts[place] = _ALL
        return texts

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return self.to_text(ROWS_SHOWN)

    def _repr_html_(self) -> str:
        warning = f". {SEEDED_WARNING}" if self.seeded else ""
        notes = "".join(f". {note[0].upper()}{note[1:]}" for note in self.notes)
        kept = "" if self.kept is None else f" ({self.kept.describe()})"
        caption = f"{counted(len(self.rows), 'row')}, {self.confidence:.0%} intervals{kept}{notes}{warning}"
        rows, bars = self.cells(ROWS_SHOWN), list[tuple[str, list[Bar | None]]]()
        for title in self.titles:
            found = self.column(title)[: len(rows)]
            bars.append(
                (
                    title,
                    [
                        None if one.value is None else Bar("", one.value, interval=one.interval)
                        for one in found
                    ],
                )
            )
        return str(drawn_table(caption, self.header, rows, bars, shown_of(len(rows), len(self))))


def key_text(key: Key) -> str:
    """Return a value of a group as people read it."""
    return "(missing)" if key is None else canonical_text(key)


def number_texts(estimate: Estimate, none: str, *, whole: bool) -> tuple[str, str, str]:
    """Return a number and the ends of its interval, with digits that the interval does not hide."""
    value, (low, high) = estimate.value, estimate.interval or (math.nan, math.nan)
    if value is None:
        return below_text(estimate.below, none), none, none
    spread = high - low if math.isfinite(high - low) else abs(value)
    digits = 0 if whole or spread >= 100 or abs(value) >= 10_000 else 2 if spread >= 0.1 else 4
    rounded = (round(one, digits) + 0.0 if math.isfinite(one) else one for one in (value, low, high))
    texts = [none if math.isnan(one) else f"{one:,.{digits}f}" for one in rounded]  # + 0.0: no -0
    return texts[0], texts[1], texts[2]
