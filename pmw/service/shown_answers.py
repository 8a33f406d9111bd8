"""Answers as the page shows them: sentences, charts and a table, as the commands say them; and as files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from pmw.display.charts import Bar, Bars, Line, Lines, Picture, bar_chart, line_chart, standalone
from pmw.display.elements import markup
from pmw.display.templates import style_sheet
from pmw.display.texts import counted, number, shortened
from pmw.public.answer import Answer, Source, below_text, marks
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable, Key, key_text, number_texts
from pmw.service.asking import read_one
from pmw.service.limits import LargeRequests, cells_of, require_few_cells
from pmw.session.dialogue import Analyst
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import is_statement, read_line
from queries.statements import BAR_COLUMNS, Statement

CHART_WIDTH = 360  # of a phone: a unit is a pixel there
_MOST_BARS, _MOST_KINDS, _MOST_POINTS = 40, 6, 400
_FEWEST_POINTS = 3  # of a line
_LABEL, _NAME = 12, 40  # characters beside a bar, and of a name below a chart

Asked: TypeAlias = LinearQuery | Statement
Orders: TypeAlias = Sequence[Sequence[Key | None]]  # of each key its values in order; nothing for one without
_Keys: TypeAlias = tuple[Key | None, ...]

_MOST_ROWS = 200  # of a table on a page; files hold all
_SETTLED = (Source.SYNTHETIC, Source.MEASURED)
_RUN = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # wide ones are run in East Asian editions
_NONE = "\N{EN DASH}"  # where a table has no number


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of an answer; the caption says how much of how much that is, and what the marks mean."""

    picture: Picture
    panel: Bars | Lines
    caption: str

    def drawing(self) -> str:
        """Return it as a part of a page."""
        if isinstance(self.panel, Bars):
            return bar_chart(self.picture, self.panel)
        return line_chart(self.picture, self.panel)

    def file(self) -> str:
        """Return it as an SVG file."""
        return standalone(markup(self.drawing()), style_sheet("pmw.display", "display.css"))


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer, ready for a page."""

    asked: str
    sentences: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]
    version: int


def read(analyst: Analyst, text: str) -> Asked:
    """Return a question as it was typed in."""
    condition = read_line(text) if text.lstrip().startswith("{") else text
    form = {"sql": text} if is_statement(text) else {"where": condition}
    query = read_one(analyst, form, aligned=False).query
    require_few_cells(cells_of(query))
    return query


def stored_answer(analyst: Analyst, large: LargeRequests, query: Asked) -> Answer | AnswerTable | None:
    """Return the stored answer to a question; None where it was never asked. Nothing is asked or recorded."""
    with large.place(cells_of(query)):
        return analyst.stored(query)


def is_settled_by(query: Asked, answer: Answer | AnswerTable) -> bool:
    """Tell whether a stored answer is given again to whoever asks, without a test."""
    if isinstance(answer, Answer):
        return answer.source in _SETTLED
    counts_alone = isinstance(query, Statement) and query.counts_alone
    return counts_alone and all(one.source in _SETTLED for one in answer.estimates())


def shown(query: Asked, answer: Answer | AnswerTable) -> Shown:
    """Return an answer as a page shows it."""
    asked = _words(query)
    return _of_table(asked, answer) if isinstance(answer, AnswerTable) else _of_count(asked, answer)


def _words(query: Asked) -> str:
    return query.describe() if isinstance(query, LinearQuery) else query.text


def _of_count(asked: str, answer: Answer) -> Shown:
    count = number(answer.count) if answer.has_count else below_text(answer.below, "refused")
    more = () if answer.typical is None else ("typically from", "to")
    typical = () if answer.typical is None else _ends(answer.typical)
    return Shown(
        f"How many records: {asked}",
        (_sentence(answer.sentence()), answer.origin(), *_meaning(answer)),
        ("question", "records", "from", "to", *more, "source"),
        ((asked, count, *_ends(answer.interval), *typical, answer.source.value),),
        tuple(chart_of_count(asked, answer.count, count, answer.interval)),
        tuple(marks(None, seeded=answer.seeded)),  # which records are counted stands in the sentence
        answer.version,
    )


def _of_table(asked: str, table: AnswerTable) -> Shown:
    cells = table.cells(_MOST_ROWS, _NONE)
    cut = f"the first {len(cells):,} of {len(table):,} rows; the files hold all"
    notes = [*([cut] if len(cells) < len(table) else []), *table.notes]
    return Shown(
        asked,
        _promised(table),
        tuple(table.header),
        tuple(tuple(row) for row in cells),
        tuple(charts_of_table(table)),
        (*map(_sentence, notes), *marks(table.kept, seeded=table.seeded)),
        table.version,
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _meaning(answer: Answer) -> tuple[str, ...]:
    sure = f"{answer.confidence:.0%}"
    found = []
    if answer.interval is not None:
        found.append(f"The interval holds the true count with at least {sure} confidence, for any question.")
    if answer.typical is not None:
        found.append(
            f"Of questions like this one, {sure} had their true count in an interval as wide as the typical."
        )
    if answer.interval is None and answer.below is None:
        found.append("Nothing is promised of a number without an interval: it was never tested.")
    return tuple(found)


def _promised(table: AnswerTable) -> tuple[str, ...]:
    found, sure = list(table.estimates()), f"{table.confidence:.0%}"
    held = [one.is_promised and one.source in _SETTLED for one in found]
    which = "Each interval" if all(held) else "Each interval of a tested or measured number"
    said = [f"{which} holds the true value with at least {sure} confidence."] if any(held) else []
    if any(one.interval is not None and one.source not in _SETTLED for one in found):
        said.append("Of what was never tested, an interval is what its parts and the declared ends leave.")
    if any(one.interval is None for one in found):
        said.append("Nothing is promised of a number without an interval.")
    return tuple(said)


def _ends(interval: tuple[float, float] | None) -> tuple[str, str]:
    return (_NONE, _NONE) if interval is None else (number(interval[0]), number(interval[1]))


# --- charts: bars with intervals, or lines with bands -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Point:
    row: int
    keys: _Keys
    label: str
    value: float
    text: str
    interval: tuple[float, float] | None


def chart_of_count(label: str, value: float, text: str, interval: tuple[float, float] | None) -> list[Chart]:
    """Return the chart of one count; none where it has no number."""
    point = _Point(0, (), label, value, text, _finite(interval))
    return _bars_of("count", [point], 1) if math.isfinite(value) else []


def charts_of_table(table: AnswerTable) -> list[Chart]:
    """Return a chart for each aggregate of a table; none where nothing can be drawn."""
    orders = [table.ordered.get(name, ()) for name in table.keys]
    found: list[Chart] = []
    for place, title in enumerate(table.titles):
        points = [
            point
            for row in range(len(table))
            if not (table.totals and table.totals[row])
            and (point := _point(table, row, table.rows[row][1][place], title)) is not None
        ]
        axis = _axis(points, orders)
        found += (
            _bars_of(title, points, len(table))
            if axis is None
            else _lines_of(table, title, points, axis, orders)
        )
    return found


def _point(table: AnswerTable, row: int, one: Estimate, title: str) -> _Point | None:
    if one.value is None or not math.isfinite(one.value):
        return None
    text, _, _ = number_texts(one, _NONE, whole=title in table.whole)
    label = " · ".join(table.labels(row)) or title
    return _Point(row, table.rows[row][0], label, one.value, text, _finite(one.interval))


def _finite(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return interval if interval is not None and all(map(math.isfinite, interval)) else None


def _axis(points: Sequence[_Point], orders: Orders) -> int | None:
    """Return which key goes from left to right: of those in order that has most values; None for bars."""
    if not 1 <= len(orders) <= 2:
        return None
    sizes = {
        place: len({point.keys[place] for point in points} & set(order))
        for place, order in enumerate(orders)
        if order
    }
    best = max(sizes, key=lambda place: sizes[place], default=None)
    return best if best is not None and sizes[best] >= _FEWEST_POINTS else None


# --- bars -----------------------------------------------------------------------------------------------


def _bars_of(title: str, points: Sequence[_Point], rows: int) -> list[Chart]:
    drawn = points[:_MOST_BARS]
    names = list(dict.fromkeys(key_text(point.keys[1]) for point in drawn if len(point.keys) == 2))
    coloured = 1 < len(names) <= _MOST_KINDS
    kinds = {name: f"group-{place}" for place, name in enumerate(names)} if coloured else {}
    bars = Bars(
        tuple(
            Bar(
                shortened(key_text(point.keys[0]) if kinds else point.label, _LABEL),
                point.value,
                point.text,
                interval=point.interval,
                kind=kinds[key_text(point.keys[1])] if kinds else "model",
            )
            for point in drawn
        ),
        groups=tuple((kind, shortened(name, _NAME)) for name, kind in kinds.items()),
    )
    if bars.reach == (0.0, 0.0):
        return []
    told = "; ".join(_told(point) for point in drawn)
    picture = Picture("", f"{title} with its intervals", told, width=CHART_WIDTH)
    return [Chart(picture, bars, _caption(len(drawn), rows, "bar"))]


def _told(point: _Point) -> str:
    ends = "" if point.interval is None else f", {point.interval[0]:,.6g} to {point.interval[1]:,.6g}"
    return f"{point.label}: {point.text}{ends}"


def _caption(drawn: int, rows: int, noun: str) -> str:
    marks = {"bar": "Lines across bars are intervals.", "point": "Bands are intervals."}[noun]
    if drawn == rows:
        return f"{'All ' if rows > 1 else ''}{counted(rows, noun)}. {marks}"
    return f"{drawn:,} of {counted(rows, noun)}. {marks}"


# --- lines ----------------------------------------------------------------------------------------------


def _lines_of(
    table: AnswerTable, title: str, points: Sequence[_Point], axis: int, orders: Orders
) -> list[Chart]:
    """Return lines over the values of a key in order, one for each value of the other key."""
    places = {value: place for place, value in enumerate(orders[axis])}
    on_axis = [point for point in points if point.keys[axis] in places]
    first = min(places[point.keys[axis]] for point in on_axis)
    last = max(places[point.keys[axis]] for point in on_axis)
    lines: dict[str, list[_Point]] = {}
    for point in on_axis:
        name = " ".join(key_text(key) for place, key in enumerate(point.keys) if place != axis)
        lines.setdefault(name, []).append(point)
    most = sorted(lines, key=lambda name: -max(abs(point.value) for point in lines[name]))[:_MOST_KINDS]
    chosen = {name: _thinned(lines[name], places, axis) for name in lines if name in most}
    panel = Lines(
        tuple(
            Line(
                shortened(name, _NAME),
                f"line-{place}",
                [(float(places[one.keys[axis]] - first), one.value) for one in own],
                band=[
                    (float(places[one.keys[axis]] - first), *one.interval)
                    for one in own
                    if one.interval is not None
                ],
            )
            for place, (name, own) in enumerate(chosen.items())
        ),
        table.keys[axis],
        unit="",
        places=tuple(shortened(key_text(value), _LABEL) for value in orders[axis][first : last + 1]),
    )
    told = "; ".join(_told(own[end]) for own in chosen.values() for end in (0, -1))
    picture = Picture("", f"{title} by {shortened(table.keys[axis], 20)}", told, width=CHART_WIDTH)
    caption = _caption(sum(map(len, chosen.values())), len(table), "point")
    few = "" if len(chosen) == len(lines) else f"{len(chosen)} of {len(lines):,} lines. "
    return [Chart(picture, panel, few + caption)]


def _thinned(own: Sequence[_Point], places: dict[Key | None, int], axis: int) -> list[_Point]:
    """Return points in order, the last one among them; of very many some are left out."""
    ordered = sorted(own, key=lambda point: places[point.keys[axis]])
    every = max(1, -(-len(ordered) // _MOST_POINTS))
    return [*ordered[:-1:every], ordered[-1]]


# --- files ----------------------------------------------------------------------------------------------


def as_json(answer: Answer | AnswerTable) -> str:
    """Return an answer as the object that ``pmw ask --json`` prints."""
    return json.dumps(answer.to_dict(), ensure_ascii=False, indent=1)


def as_csv(query: Asked, answer: Answer | AnswerTable) -> str:
    """Return an answer as CSV: keys of groups apart, and of each number its value, ends and source."""
    if isinstance(answer, AnswerTable):
        return csv_text(_table_lines(answer))
    count = f"{answer.count:.3f}" if answer.has_count else below_text(answer.below, "")
    row = _words(query), count, *_plain_ends(answer.interval), answer.source.value
    return csv_text([("question", "count", *BAR_COLUMNS), row])


def _table_lines(table: AnswerTable) -> Iterable[Sequence[Any]]:
    more = ("", *(f"_{name}" for name in BAR_COLUMNS))
    yield [*table.keys, *(f"{title}{name}" for title in table.titles for name in more)]
    for row, (_, found) in enumerate(table.rows):
        line = [*table.labels(row)]
        for title, one in zip(table.titles, found, strict=True):
            digits = 0 if title in table.whole else 6
            value = below_text(one.below, "") if one.value is None else f"{one.value:.{digits}f}"
            line += [value, *_plain_ends(one.interval, digits), one.source.value]
        yield line


def _plain_ends(interval: tuple[float, float] | None, digits: int = 3) -> tuple[str, str]:
    return ("", "") if interval is None else (f"{interval[0]:.{digits}f}", f"{interval[1]:.{digits}f}")


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    """Return lines as CSV; no text in it is run by a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text)
    for line in lines:
        writer.writerow([_safe(cell) for cell in line])
    return text.getvalue()


def _safe(cell: str) -> str:
    """Return a cell that a spreadsheet takes for a text, unless it is a number.

    Source: OWASP, CSV Injection: how the cells begin that are run.
    """
    if cell[:1] not in _RUN:
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
