"""Answers of the page: as sentences, as a table, and as a chart with error bars."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pmw.display.charts import Bar, Bars, Picture
from pmw.display.texts import number, shortened
from pmw.public.answer import Answer
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable, Key, key_text, number_texts
from pmw.service.limits import LargeRequests, cells_of, require_few_cells
from pmw.session.dialogue import Analyst
from queries.categories import CategoricalAttribute
from queries.domain import Domain

_MOST_ROWS, _MOST_BARS = 1000, 40
CHART_WIDTH = 480  # narrow enough for texts that can be read on a phone
_PLACE = re.compile(r"[0-9]{1,6}")  # of a value in a list
NONE = "\N{EN DASH}"  # where a table has no number
_CUTS = "The question cuts cells: the interval holds whatever they hold."

Chart: TypeAlias = tuple[Picture, Bars]


@dataclass(frozen=True, slots=True)
class Shown:
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


def answer_of(analyst: Analyst, large: LargeRequests, text: str, within: float | None = None) -> Shown:
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
    if is_statement(text):
        statement = analyst.reader.statement(text)
        require_few_cells(cells := cells_of(statement))
        with large.place(cells):
            return _of_table(analyst.tabulate(statement), text)
    query = analyst.reader.where(text)
    with large.place(1):
        answer = analyst.ask(query) if within is None else analyst.ask_within(query, within)
    return _of_answer(answer, query.describe())


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


def _of_answer(answer: Answer, asked: str) -> Shown:
    bar = Bar("records", answer.count, number(answer.count), interval=answer.interval)
    more = () if answer.typical is None else ("typically from", "to")
    typical = () if answer.typical is None else _ends(answer.typical)
    count = "refused" if answer.is_refused else number(answer.count)
    said = answer.sentence()
    return Shown(
        f"How many records: {asked}",
        (f"{said[0].upper()}{said[1:]}.", *_meaning(answer)),
        ("question", "records", "from", "to", *more, "source"),
        ((asked, count, *_ends(answer.interval), *typical, answer.source.value),),
        chart_of("Counts with their intervals", [bar]),
        () if answer.aligned else (_CUTS,),
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


def _meaning(answer: Answer) -> tuple[str, ...]:
    """Return what the two intervals promise, a sentence each."""
    sure = f"{answer.confidence:.0%}"
    found = []
    if answer.interval is not None:
        found.append(f"The interval holds the true count with at least {sure} confidence, for any question.")
    if answer.typical is not None:
        found.append(
            f"Of questions like this one, {sure} had their true count in an interval as wide as the typical."
        )
    if answer.interval is None:
        found.append("Nothing is promised of a number without an interval: it was never tested.")
    return tuple(found)


def _of_table(table: AnswerTable, text: str) -> Shown:
    charts: tuple[Chart, ...] = ()
    for place, title in enumerate(table.titles):
        bars = [_bar_of(table, row, place) for row in table.rows]
        charts += chart_of(f"{title} with its intervals", [bar for bar in bars if bar is not None])
    notes = table.notes if table.kept is None else (table.kept.note(), *table.notes)
    if not all(one.aligned for one in table.estimates()):
        notes = (*notes, _CUTS)
    return Shown(
        text,
        _promised(table),
        tuple(table.header),
        tuple(tuple(row) for row in table.cells(_MOST_ROWS, NONE)),
        charts,
        notes,
    )


def _promised(table: AnswerTable) -> tuple[str, ...]:
    sure = f"Each interval holds the true value with at least {table.confidence:.0%} confidence."
    none = "Nothing is promised of a number without an interval."
    return (sure,) if table.is_promised else (sure, none)


def _bar_of(table: AnswerTable, row: tuple[Sequence[Key], Sequence[Estimate]], place: int) -> Bar | None:
    """Return what is drawn of an aggregate in a row; None where it has no value."""
    keys, one = row[0], row[1][place]
    if one.value is None:
        return None
    title = table.titles[place]
    label = " · ".join(map(key_text, keys)) or title
    text, _, _ = number_texts(one, NONE, whole=title in table.counts)
    return Bar(label, one.value, text, interval=one.interval)


def _ends(interval: tuple[float, float] | None) -> tuple[str, str]:
    return (NONE, NONE) if interval is None else (number(interval[0]), number(interval[1]))
