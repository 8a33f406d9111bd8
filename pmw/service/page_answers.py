"""Answers of the page: as sentences, as a table, and as a chart with error bars."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.report.elements import escaped, number
from pmw.public.tables import AnswerTable
from pmw.session.dialogue import Analyst
from queries.domain import CategoricalAttribute, Domain
from queries.grouping import GroupedQuery
from queries.linear import LinearQuery
from queries.statements import Statement

__all__ = [
    "answer_of",
    "asked_by",
    "is_statement",
    "NONE",
    "Result",
]

_WIDTH, _LABEL, _ROW, _RIGHT = 640, 190, 26, 70
_MOST_BARS, _MOST_ROWS = 40, 1000
_PLACE = re.compile(r"[0-9]{1,6}")  # of a value in a list
NONE = "\N{EN DASH}"  # where a table has no number


@dataclass(frozen=True, slots=True)
class Result:
    """What the page shows of an answer.

    Args:
        asked: the question in words.
        sentences: what the numbers say.
        header: of the table.
        rows: texts of the table.
        chart: SVG; empty where there is nothing to draw.
        notes: what has to be known of it.
    """

    asked: str
    sentences: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chart: Markup
    notes: tuple[str, ...]


def answer_of(analyst: Analyst, text: str, within: float | None = None) -> Result:
    """Return the answer to a condition or a statement.

    Args:
        analyst: who asks.
        text: as it was typed in.
        within: half-width of the bar that is paid for, in records; None asks as usual.

    Raises:
        BudgetExhaustedError: its price is not left.
        QueryError: it is refused.
    """
    if within is not None:
        query = analyst.reader.where(text)
        return _of_answers(Answers((analyst.ask_within(query, within),), (query,)))
    asked: LinearQuery | GroupedQuery | Statement
    asked = analyst.reader.statement(text) if is_statement(text) else analyst.reader.where(text)
    if isinstance(asked, Statement):
        return _of_table(analyst.tabulate(asked), text)
    if isinstance(asked, GroupedQuery):
        return _of_answers(analyst.ask_groups(asked))
    return _of_answers(analyst.ask_all([asked]))


def is_statement(text: str) -> bool:
    """Tell whether a text is a statement, and no condition."""
    return text[:6].casefold() == "select"


def asked_by(fields: Mapping[str, Sequence[str]], domain: Domain) -> str:
    """Return the question that a form was filled in with, as it could be typed in."""
    terms = []
    for attribute in domain:
        name = _quoted(attribute.name)
        if isinstance(attribute, CategoricalAttribute):
            places = [int(one) for one in fields.get(f"in {attribute.name}", ()) if _PLACE.fullmatch(one)]
            values = [attribute.values[place] for place in places if place < len(attribute.values)]
            if values:
                terms.append(f"{name} IN ({', '.join(map(_literal, values))})")
            continue
        low, high = (_typed(fields.get(f"{end} {attribute.name}", [""])[0]) for end in ("low", "high"))
        if low and high:
            terms.append(f"{name} BETWEEN {low} AND {high}")
        elif low or high:
            terms.append(f"{name} >= {low}" if low else f"{name} <= {high}")
    condition, by = " AND ".join(terms), fields.get("by", [""])[0]
    if by not in domain.names:
        return condition
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {_quoted(by)}, COUNT(*) FROM {_quoted(domain.name)}{where} GROUP BY {_quoted(by)}"  # noqa: S608


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _typed(text: str) -> str:
    """Return a number, or a date, as it is written in a condition."""
    text = text.strip()
    try:
        return text if math.isfinite(float(text)) else ""
    except ValueError:
        return _literal(text) if text else ""


def _of_answers(answers: Answers) -> Result:
    grouped = isinstance(answers.asked, GroupedQuery) and bool(answers.asked.columns)
    labels = [" · ".join(map(str, label)) for label in answers.labels()]
    named = labels if grouped else ["records"]
    bars = [(label, one.count, one.interval) for label, one in zip(named, answers, strict=True)]
    asked = answers.asked.query if isinstance(answers.asked, GroupedQuery) else answers.asked[0]
    typical = any(one.typical is not None for one in answers)
    head, more = ", ".join(answers.columns), ("typically from", "to") if typical else ()
    header = (head, "records", "from", "to", *more, "source")
    rows = [
        (label, _count(one), *_ends(one.interval), *(_ends(one.typical) if typical else ()), one.source.value)
        for label, one in zip(labels, answers, strict=True)
    ]
    words = f"How many records: {asked.describe()}" + (
        f", for each {', '.join(answers.columns)}" if grouped else ""
    )
    sentences = (*(() if grouped else (answers[0].sentence().capitalize() + ".",)), *_meaning(list(answers)))
    notes = ("The question cuts cells: the interval holds whatever they hold.",)
    return Result(
        words,
        sentences,
        header,
        tuple(rows[:_MOST_ROWS]),
        _chart(bars),
        notes if not all(one.aligned for one in answers) else (),
    )


def _meaning(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Return what the two intervals promise, a sentence each."""
    sure = f"{answers[0].confidence:.0%}"
    found = []
    if any(one.interval is not None for one in answers):
        found.append(f"The interval holds the true count with at least {sure} confidence, for any question.")
    if any(one.typical is not None for one in answers):
        found.append(
            f"Of questions like this one, {sure} had their true count in an interval as wide as the typical."
        )
    if any(one.interval is None for one in answers):
        found.append("Nothing is promised of a number without an interval: it was never tested.")
    return tuple(found)


def _of_table(table: AnswerTable, text: str) -> Result:
    frame = table.to_pandas()
    rows = tuple(
        tuple(_cell(value) for value in row) for row in frame.head(_MOST_ROWS).itertuples(index=False)
    )
    sentences = (f"Columns named low and high are the ends of {table.confidence:.0%} intervals.",)
    return Result(text, sentences, tuple(map(str, frame.columns)), rows, Markup(""), tuple(table.notes))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return NONE if math.isnan(value) else f"{value:,.6g}"
    return str(value)


def _count(answer: Answer) -> str:
    return "refused" if answer.is_refused else number(answer.count)


def _ends(interval: tuple[float, float] | None) -> tuple[str, str]:
    return (NONE, NONE) if interval is None else (number(interval[0]), number(interval[1]))


def _chart(bars: Sequence[tuple[str, float, tuple[float, float] | None]]) -> Markup:
    """Return bars with their intervals as SVG; each text in it is escaped."""
    drawn = [bar for bar in bars if not math.isnan(bar[1])][:_MOST_BARS]
    most = max((max(count, *(interval or (0.0,))) for _, count, interval in drawn), default=0.0)
    if not most > 0:
        return Markup("")
    scale, height = (_WIDTH - _LABEL - _RIGHT) / most, _ROW * len(drawn) + 8
    parts = []
    for place, (label, count, interval) in enumerate(drawn):
        y = _ROW * place + 4
        short = label if len(label) <= 24 else label[:23] + "…"
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 16}" text-anchor="end">{escaped(short)}</text>')
        width = max(0.0, scale * count)
        parts.append(f'<rect class="bar" x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 9}"/>')
        end = count
        if interval is not None:
            low, high = (_LABEL + scale * max(0.0, one) for one in interval)
            middle, end = y + _ROW / 2 - 1, max(count, interval[1])
            parts.append(f'<path class="range" d="M{low:.1f} {middle - 5}v10M{low:.1f} {middle}H{high:.1f}'
                         f'M{high:.1f} {middle - 5}v10"/>')  # fmt: skip
        x = _LABEL + scale * max(0.0, end) + 6
        parts.append(f'<text x="{x:.1f}" y="{y + 16}">{escaped(number(count))}</text>')
    told = "; ".join(
        f"{label}: {number(count)}" + ("" if interval is None else f", {' to '.join(_ends(interval))}")
        for label, count, interval in drawn
    )
    more = f" The first {_MOST_BARS} of {len(bars):,}." if len(bars) > len(drawn) else ""
    return Markup(  # noqa: S704 - every text in it is escaped above
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height}"><title>Counts with their intervals.{more}</title>'
        f"<desc>{escaped(told)}</desc>{''.join(parts)}</svg>"
    )
