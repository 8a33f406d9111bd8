"""Answers as the page shows them: sentences, charts and a table, as the commands say them; and as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from pmw.display.texts import number
from pmw.public.answer import Answer, Source, below_text, marks
from pmw.public.tables import AnswerTable
from pmw.service.answer_charts import Chart, chart_of_count, charts_of_table
from pmw.service.asking import read_one
from pmw.service.limits import LargeRequests, cells_of, require_few_cells
from pmw.session.dialogue import Analyst
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import is_statement, read_line
from queries.statements import BAR_COLUMNS, Statement

Asked: TypeAlias = LinearQuery | Statement

_MOST_ROWS = 200  # of a table on a page; files hold all
_SETTLED = (Source.SYNTHETIC, Source.MEASURED)
_RUN = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # wide ones are run in East Asian editions
_NONE = "\N{EN DASH}"  # where a table has no number


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
