"""Answers: what an analyst is given. Everything in one is public."""

from __future__ import annotations

import enum
from dataclasses import field
from typing import Any, NamedTuple

from pmw.display.elements import paragraph
from pmw.display.texts import budget_words, counted
from pmw.public.contract import RecordsKept
from queries.frozen import dataclass

SEEDED_WARNING = "SEEDED NOISE: this session gives no privacy."
REFUSAL = "refused: the error bar would be wider than the accuracy that the session promises"


class Source(enum.Enum):
    """Where an answer comes from, and with it what its interval promises."""

    SYNTHETIC = "synthetic"  # the model, tested or covered by a measurement
    MEASURED = "measured"  # noise was drawn for this question, and is most of its interval
    EXHAUSTED = "exhausted"  # the model, where nothing is drawn for questions any more: the bar of its parts
    UNVERIFIED = "unverified"  # the model, where something could be drawn and was not: the bar of its parts
    REFUSED = "refused"  # no answer: its error bar would be wider than the accuracy contract allows
    WITHHELD = "withheld"  # no number is shown: it may be of few persons, or tell one that is


class Basis(enum.Enum):
    """What an interval rests on."""

    RELEASED = "released"  # released numbers alone, on cells that decide the question
    TESTED = "tested"  # a test that did not find the model wrong
    BINS = "bins"  # what is known below and above the question, which cuts bins
    PARTS = "parts"  # what is known of some of its attributes alone


class QuestionKind(NamedTuple):
    """A kind of questions, whose errors are taken together.

    Attributes:
        attributes: how many they are about; 3 stands for more, too.
        basis: what their intervals rest on.
    """

    attributes: int
    basis: Basis

    def describe(self) -> str:
        """Return the kind in words."""
        number = "3 or more" if self.attributes == 3 else self.attributes
        what = "attribute" if self.attributes == 1 else "attributes"
        rest = "cut bins" if self.basis is Basis.BINS else "rest on a test"
        return f"{number} {what} ({rest})"


@dataclass(frozen=True, slots=True)
class Spent:
    """What the session had spent when the answer was told, a stored one too.

    Args:
        share: part of the cap, in [0, 1].
        epsilon_cap: epsilon of the guarantee, drafts of the schema included.
        charged: part of the cap that was charged for this answer; 0 for a stored or a free one.
    """

    share: float
    epsilon_cap: float
    delta: float
    charged: float = field(default=0.0, compare=False)  # a repeated answer is the same, and free

    def to_dict(self) -> dict[str, float]:
        """Return a form ready for JSON, the value of ``spent``; a free answer tells no charge."""
        form = {"share": self.share, "epsilon_cap": self.epsilon_cap, "delta": self.delta}
        return {**form, "charged": self.charged} if self.charged else form

    def describe(self, version: int) -> str:
        """Return in words the version of the model that answered, what was charged, and what was spent."""
        own = f"{self.charged:.2%} of the budget charged for it, " if self.charged else ""
        cap = budget_words(self.epsilon_cap, self.delta)
        return f"model version {version}; {own}{self.share:.1%} of the budget spent, cap {cap}"


def with_marks(form: dict[str, Any], kept: RecordsKept | None, *, seeded: bool) -> dict[str, Any]:
    """Return the form of an answer, or of many, with what has to be known of every number in it."""
    if kept is not None:
        form["records_kept"] = kept.to_dict()
    if seeded:
        form["seeded"] = True
    return form


def marks(kept: RecordsKept | None, *, seeded: bool) -> list[str]:
    """Return the same in sentences, for what stands under a table."""
    return [*([] if kept is None else [kept.note()]), *([SEEDED_WARNING] if seeded else [])]


def below_text(below: int | None, none: str) -> str:
    """Return what stands in a table where no number is shown."""
    return none if below is None else f"<{below}"


_SOURCES = {
    Source.SYNTHETIC: "from the model; released numbers bound its error",
    Source.MEASURED: "the model was wrong here, or its error bar wide, so counts were measured",
    Source.EXHAUSTED: "from the model; nothing is tested any more: the bar is what its parts say",
    Source.UNVERIFIED: "from the model; never tested: the bar is what its parts say",
    Source.REFUSED: "no measurement or test that is left gives it a narrower one",
    Source.WITHHELD: "the session shows no number that may be of so few persons",
}


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
        kind: of the question, where errors of such questions are looked at.
        typical: in records: of the questions of this kind whose errors were looked at, a part of
            ``confidence`` had its true count in an interval as wide. It holds for a new question that is like
            them; None where no such errors were looked at.
        kept: which records are counted; None where no column of ids bounds a person's.
        below: the number of records that a withheld count is below; None where the count is shown.
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
    kind: QuestionKind | None = None
    typical: tuple[float, float] | None = None
    kept: RecordsKept | None = None
    below: int | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the session's accuracy contract leaves the question without an answer."""
        return self.source is Source.REFUSED

    @property
    def has_count(self) -> bool:
        """Whether a count is shown: the question is neither refused nor withheld."""
        return self.source not in (Source.REFUSED, Source.WITHHELD)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer format, ready for JSON."""
        form: dict[str, Any] = {
            "count": self.count if self.has_count else None,
            "fraction": self.fraction if self.has_count else None,
            "interval": None if self.interval is None else list(self.interval),
            "typical": None if self.typical is None else list(self.typical),
            "confidence": self.confidence,
            "source": self.source.value,
            "aligned": self.aligned,
            "version": self.version,
            "spent": self.spent.to_dict(),
        }
        if self.is_refused:
            form["error"] = {"code": "inaccurate", "message": REFUSAL}
        if self.below is not None:
            form["below"] = self.below
        return with_marks(form, self.kept, seeded=self.seeded)

    def sentence(self) -> str:
        """Return the answer in words, with its error bar."""
        if self.is_refused:
            return REFUSAL
        if self.below is not None:
            return f"fewer than {counted(self.below, 'record')}"
        text = f"about {counted(self.count, 'record')} ({self.fraction:.2%})"
        if self.interval is None:
            text += ", without an error bar"
        else:
            low, high = self.interval
            text += self._typically()
            text += f" between {low:,.0f} and {high:,.0f} at {self.confidence:.0%} confidence"
        if self.kept is not None:
            text += f" ({self.kept.describe()})"
        if not self.aligned:
            text += "; cells do not decide the condition, and the count takes a part of their records"
            text += ", the error bar none to all" if self.interval is not None else ""
        return text

    def origin(self) -> str:
        """Return in words where it comes from, and when."""
        return f"({self.source.value}: {_SOURCES[self.source]}; {self.spent.describe(self.version)})"

    def _typically(self) -> str:
        """Return what comes before the interval: the typical error, where it is narrower."""
        if self.interval is None or self.typical is None:
            return ","
        low, high = self.typical
        if high - low >= self.interval[1] - self.interval[0]:
            return ","
        part = f"{self.confidence:.0%} of such questions were as near as {low:,.0f} to {high:,.0f}"
        return f"; {part}; this one is"

    def __repr__(self) -> str:
        ends = "None" if self.interval is None else f"({self.interval[0]:.1f}, {self.interval[1]:.1f})"
        seeded = ", seeded=True" if self.seeded else ""
        seeded += "" if self.aligned else ", aligned=False"
        seeded += "" if self.below is None else f", below={self.below}"
        return (
            f"Answer(count={self.count:.1f}, interval={ends}, confidence={self.confidence:g}, "
            f"source={self.source.value!r}, version={self.version}{seeded})"
        )

    def _repr_html_(self) -> str:
        sentence = self.sentence()
        warning = f" {SEEDED_WARNING}" if self.seeded else ""
        return str(paragraph(f"{sentence[0].upper()}{sentence[1:]} ({self.source.value}).{warning}"))
