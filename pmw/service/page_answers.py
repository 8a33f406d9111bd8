"""Answers of the page: as sentences, as a table, and as a chart with error bars."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pmw.display.charts import Bar, Bars, Picture
from pmw.display.texts import number, shortened
from pmw.public.answer import Answer, RecordsKept
from pmw.public.answers import Answers
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable
from pmw.service.limits import LargeRequests, cells_of, require_few_cells
from pmw.session.dialogue import Analyst
from queries.domain import CategoricalAttribute, Domain
from queries.grouping import GroupedQuery
from queries.linear import LinearQuery
from queries.questions import QuestionList
from queries.statements import Statement

_MOST_ROWS, _MOST_BARS = 1000, 40
CHART_WIDTH = 480  # narrow enough for texts that can be read on a phone
_PLACE = re.compile(r"[0-9]{1,6}")  # of a value in a list
NONE = "\N{EN DASH}"  # where a table has no number

Chart: TypeAlias = tuple[Picture, Bars]


@dataclass(frozen=True, slots=True)
class Result:
    """What the page shows of an answer.

    Args:
        asked: the question in words.
        sentences: what the numbers say.
        header: of the table.
        rows: texts of the table.
        charts: panels of bars; none where there is nothing to draw.
        notes: what has to be known of it.
    """

    asked: str
    sentences: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]


def answer_of(analyst: Analyst, large: LargeRequests, text: str, within: float | None = None) -> Result:
    """Return the answer to a condition or a statement.

    Args:
        analyst: who asks.
        large: where questions of much work wait for each other.
        text: as it was typed in.
        within: half-width of the bar that is paid for, in records; None asks as usual.

    Raises:
        BudgetExhaustedError: its price is not left.
        QueryError: it is refused.
    """
    if within is not None:
        query = analyst.reader.where(text)
        return _of_answers(
            Answers.of(analyst.state, [analyst.ask_within(query, within)], QuestionList([query]))
        )
    asked: LinearQuery | GroupedQuery | Statement
    asked = analyst.reader.statement(text) if is_statement(text) else analyst.reader.where(text)
    require_few_cells(cells := cells_of(asked))
    with large.place(cells):
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
    bars = [
        Bar(label, one.count, number(one.count), interval=one.interval)
        for label, one in zip(named, answers, strict=True)
    ]
    asked = answers.asked.query if isinstance(answers.asked, GroupedQuery) else None
    described = answers.labels()[0][0] if asked is None else asked.describe()
    typical = any(one.typical is not None for one in answers)
    head, more = ", ".join(answers.columns), ("typically from", "to") if typical else ()
    header = (head, "records", "from", "to", *more, "source")
    rows = [
        (label, _count(one), *_ends(one.interval), *(_ends(one.typical) if typical else ()), one.source.value)
        for label, one in zip(labels, answers, strict=True)
    ]
    words = f"How many records: {described}" + (f", for each {', '.join(answers.columns)}" if grouped else "")
    said = answers[0].sentence()
    sentences = (*(() if grouped else (f"{said[0].upper()}{said[1:]}.",)), *_meaning(list(answers)))
    notes = _kept(answers[0].kept) if grouped else ()
    if not all(one.aligned for one in answers):
        notes += ("The question cuts cells: the interval holds whatever they hold.",)
    return Result(
        words,
        sentences,
        header,
        tuple(rows[:_MOST_ROWS]),
        chart_of("Counts with their intervals", bars),
        notes,
    )


def chart_of(title: str, bars: Sequence[Bar]) -> tuple[Chart, ...]:
    """Return a chart of bars with their intervals; none where there is nothing to draw.

    Args:
        title: what is to be seen.
        bars: the first 40 that are finite are drawn.
    """
    finite = [bar for bar in bars if all(map(math.isfinite, (bar.value, *(bar.interval or ()))))]
    told = "; ".join(
        f"{bar.label}: {bar.text}"
        + ("" if bar.interval is None else f", {bar.interval[0]:,.6g} to {bar.interval[1]:,.6g}")
        for bar in finite[:_MOST_BARS]
    )
    drawn = Bars(tuple(replace(bar, label=shortened(bar.label, 18)) for bar in finite[:_MOST_BARS]))
    if drawn.reach == (0.0, 0.0):
        return ()
    more = f", the first {_MOST_BARS} of {len(finite):,}" if len(finite) > _MOST_BARS else ""
    return ((Picture("", f"{title}{more}", told, width=CHART_WIDTH), drawn),)


def _kept(kept: RecordsKept | None) -> tuple[str, ...]:
    return () if kept is None else (kept.note(),)


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
    barred = [
        any(isinstance(row[place], Estimate) for row in table.rows) for place in range(len(table.titles))
    ]
    header: list[str] = []
    for title, bar in zip(table.titles, barred, strict=True):
        header += [title, "from", "to"] if bar else [title]
    rows: list[tuple[str, ...]] = []
    charts: tuple[Chart, ...] = ()
    for row in table.rows[:_MOST_ROWS]:
        words: list[str] = []
        for cell, bar in zip(row, barred, strict=True):
            words += _three(cell) if bar else [_plain(cell)]
        rows.append(tuple(words))
    for place, title in enumerate(table.titles):
        if barred[place]:
            bars = [_bar_of(table, row, place, barred) for row in table.rows]
            charts += chart_of(f"{title} with its intervals", [bar for bar in bars if bar is not None])
    return Result(
        text,
        _promised(table),
        tuple(header),
        tuple(rows),
        charts,
        (*_kept(table.kept), *table.notes),
    )


def _promised(table: AnswerTable) -> tuple[str, ...]:
    sure = f"Each interval holds the true value with at least {table.confidence:.0%} confidence."
    none = "Nothing is promised of a number without an interval."
    return (sure,) if table.is_promised else (sure, none)


def _bar_of(table: AnswerTable, row: Sequence[Any], place: int, barred: Sequence[bool]) -> Bar | None:
    """Return what is drawn of a cell; None where it is undefined."""
    cell = row[place]
    if not isinstance(cell, Estimate) or cell.value is None:
        return None
    group = [_plain(one) for one, bar in zip(row, barred, strict=True) if not bar]
    return Bar(" · ".join(group) or table.titles[place], cell.value, _three(cell)[0], interval=cell.interval)


def _plain(cell: Any) -> str:
    return "(missing)" if cell is None else str(cell)


def _three(cell: Any) -> tuple[str, str, str]:
    """Return a number and the ends of its interval, with digits that the interval does not hide."""
    if not isinstance(cell, Estimate):
        return _plain(cell), NONE, NONE
    if cell.value is None:
        return "undefined", NONE, NONE
    low, high = cell.interval or (math.nan, math.nan)
    spread = high - low if math.isfinite(high - low) else abs(cell.value)
    digits = 0 if spread >= 100 or abs(cell.value) >= 10_000 else 2 if spread >= 0.1 else 4
    texts = [NONE if math.isnan(one) else f"{one:,.{digits}f}" for one in (cell.value, low, high)]
    return texts[0], texts[1], texts[2]


def _count(answer: Answer) -> str:
    return "refused" if answer.is_refused else number(answer.count)


def _ends(interval: tuple[float, float] | None) -> tuple[str, str]:
    return (NONE, NONE) if interval is None else (number(interval[0]), number(interval[1]))
