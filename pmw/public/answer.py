"""Answers: what an analyst is given. Everything in one is public."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from pmw.markup import counted, html_paragraph

__all__ = [
    "Answer",
    "REFUSAL",
    "SEEDED_WARNING",
    "Source",
    "Spent",
]


SEEDED_WARNING = "SEEDED NOISE: this session gives no privacy."
REFUSAL = "refused: the error bar would be wider than the accuracy that the session promises"


class Source(enum.Enum):
    """Where an answer comes from, and with it what its interval promises."""

    SYNTHETIC = "synthetic"  # the model, tested or covered by a measurement
    MEASURED = "measured"  # noise was drawn for this question
    EXHAUSTED = "exhausted"  # the model, after the last positive: nothing is promised
    UNVERIFIED = "unverified"  # the model, never tested here: nothing is promised
    REFUSED = "refused"  # no answer: its error bar would be wider than the accuracy contract allows


@dataclass(frozen=True, slots=True)
class Spent:
    """What the session had spent when the answer was given.

    Args:
        share: part of the cap, in [0, 1].
        epsilon_cap: epsilon of the guarantee.
        delta: delta of the guarantee.
    """

    share: float
    epsilon_cap: float
    delta: float


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The answer to one counting query.

    Args:
        count: records; NaN where the question is refused.
        fraction: count divided by the session's total; NaN likewise.
        interval: in records, holding the true count with at least ``confidence``; None where nothing is
            promised.
        confidence: of the interval, in (0, 1).
        source: where the answer comes from.
        aligned: False where the cells cannot decide the condition: the count takes those that it cuts as
            evenly filled, and the interval holds whatever they may hold.
        version: of the model that answered.
        spent: what the session had spent.
        seeded: the session's noise can be repeated by anybody: no privacy.
    """

    count: float
    fraction: float
    interval: tuple[float, float] | None
    confidence: float
    source: Source
    aligned: bool
    version: int
    spent: Spent
    seeded: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether the session's accuracy contract leaves the question without an answer."""
        return self.source is Source.REFUSED

    def to_dict(self) -> dict[str, Any]:
        """Return the answer format, ready for JSON."""
        form: dict[str, Any] = {
            "count": None if self.is_refused else round(self.count, 3),
            "fraction": None if self.is_refused else float(f"{self.fraction:.6g}"),
            "interval": None if self.interval is None else [round(end, 3) for end in self.interval],
            "confidence": self.confidence,
            "source": self.source.value,
            "aligned": self.aligned,
            "version": self.version,
            "spent": {
                "share": float(f"{self.spent.share:.6g}"),
                "epsilon_cap": self.spent.epsilon_cap,
                "delta": self.spent.delta,
            },
        }
        if self.is_refused:
            form["error"] = {"code": "inaccurate", "message": REFUSAL}
        if self.seeded:
            form["seeded"] = True
        return form

    def sentence(self) -> str:
        """Return the answer in words, with its error bar."""
        if self.is_refused:
            return REFUSAL
        text = f"about {counted(self.count, 'record')} ({self.fraction:.2%})"
        if self.interval is None:
            text += ", without an error bar"
        else:
            low, high = self.interval
            text += f", between {low:,.0f} and {high:,.0f} at {self.confidence:.0%} confidence"
        if not self.aligned:
            text += "; the condition cuts cells, and the count takes them as evenly filled"
            text += ", the error bar does not" if self.interval is not None else ""
        return text

    def __repr__(self) -> str:
        ends = "None" if self.interval is None else f"({self.interval[0]:.1f}, {self.interval[1]:.1f})"
        seeded = ", seeded=True" if self.seeded else ""
        return (
            f"Answer(count={self.count:.1f}, interval={ends}, confidence={self.confidence:g}, "
            f"source={self.source.value!r}, version={self.version}{seeded})"
        )

    def _repr_html_(self) -> str:
        sentence = self.sentence()
        warning = f" {SEEDED_WARNING}" if self.seeded else ""
        return html_paragraph(f"{sentence[0].upper()}{sentence[1:]} ({self.source.value}).{warning}")
