"""What the page shows: answers as sentences, tables and charts, what is in a table, and who spent what."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from pmw.display.charts import Bar, Bars, Cap, Line, Lines, Picture
from pmw.display.texts import number, percent, shortened
from pmw.errors import BudgetError
from pmw.public.answer import Answer
from pmw.public.ledger import Ledger, LedgerLine, ledger_cells
from pmw.public.pictures import headline
from pmw.public.tables import AnswerTable, number_texts
from pmw.service.hosting import Hosted
from pmw.service.limits import LargeRequests, cells_of, require_few_cells
from pmw.service.users import Role, User
from pmw.session.accounts import Activity, Booked
from pmw.session.dialogue import Analyst
from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.linear import LinearQuery

_MOST_ROWS, _MOST_BARS = 1000, 40
_CHART_WIDTH = 480  # narrow enough for texts that can be read on a phone
_PLACE = re.compile(r"[0-9]{1,6}")  # of a value in a list
_NONE = "\N{EN DASH}"  # where a table has no number
_CUTS = "The question cuts cells: the interval holds whatever they hold."
_SESSION = "the session itself"
_MOST_VALUES = 12  # of an attribute that are listed in the table of attributes
_MOST_ACTS = 50  # questions of everybody that the custodian sees
_MOST_OPTIONS = 500  # of an attribute that the form lists
_MOST_LINES = 6  # named ones of a chart; the style sheet has a colour and a dash for each

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
    return _grouped(domain, by, condition) if by in domain.names else condition


def _grouped(domain: Domain, by: str, condition: str) -> str:
    """Return the statement that counts the records with each value of an attribute."""
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
    return ((Picture("", f"{title}{more}", told, width=_CHART_WIDTH), drawn),)


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
        bars = [_bar_of(table, number, place) for number in range(len(table))]
        charts += chart_of(f"{title} with its intervals", [bar for bar in bars if bar is not None])
    notes = table.notes if table.kept is None else (table.kept.note(), *table.notes)
    if not all(one.aligned for one in table.estimates()):
        notes = (*notes, _CUTS)
    return Shown(
        text,
        _promised(table),
        tuple(table.header),
        tuple(tuple(row) for row in table.cells(_MOST_ROWS, _NONE)),
        charts,
        notes,
    )


def _promised(table: AnswerTable) -> tuple[str, ...]:
    sure = f"Each interval holds the true value with at least {table.confidence:.0%} confidence."
    none = "Nothing is promised of a number without an interval."
    return (sure,) if table.is_promised else (sure, none)


def _bar_of(table: AnswerTable, row: int, place: int) -> Bar | None:
    """Return what is drawn of an aggregate in a row; None where it has no value."""
    one = table.rows[row][1][place]
    if one.value is None:
        return None
    title = table.titles[place]
    label = " · ".join(table.labels(row)) or title
    text, _, _ = number_texts(one, _NONE, whole=title in table.whole)
    return Bar(label, one.value, text, interval=one.interval)


def _ends(interval: tuple[float, float] | None) -> tuple[str, str]:
    return (_NONE, _NONE) if interval is None else (number(interval[0]), number(interval[1]))


# --- forms, facts and money -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filled:
    """What the page's forms hold.

    Args:
        question: as it was typed in.
        within: half-width of the bar that is wanted, in records, as it was typed in.
        is_built: the form that builds a question is open.
        price: part of the cap that was told as the price; empty where none was.
    """

    question: str = ""
    within: str = ""
    is_built: bool = False
    price: str = ""

    @property
    def records(self) -> float:
        """The half-width that is wanted.

        Raises:
            BudgetError: it is no number.
        """
        try:
            return float(self.within)
        except ValueError:
            raise BudgetError("expected a number of records above 0, such as 100") from None


def examples_of(domain: Domain) -> dict[str, str]:
    """Return a condition and a statement over a domain."""
    first = next(iter(domain))
    name = _quoted(first.name)
    if isinstance(first, CategoricalAttribute):
        condition = f"{name} = {_literal(first.values[0])}"
    else:
        condition = f"{name} >= {first.literal(first.boundaries[len(first.boundaries) // 2])}"
    return {"example": condition, "statement": _grouped(domain, first.name, "")}


def attributes_of(domain: Domain) -> list[dict[str, Any]]:
    """Return what the page tells of each attribute."""
    listed = []
    for attribute in domain:
        also = [text for text, is_so in (("missing", attribute.missing), ("other", attribute.other)) if is_so]
        lookups = [one for one in domain.lookups if one.attribute == attribute.name]
        also += [f"lookup {one.name} ({', '.join(one.columns)})" for one in lookups]
        form: dict[str, Any] = {
            "name": attribute.name,
            "cells": attribute.size,
            "also": ", ".join(also) or _NONE,
        }
        if isinstance(attribute, CategoricalAttribute):
            values = [str(value) for value in attribute.values]
            more = f", … {len(values):,} in all" if len(values) > _MOST_VALUES else ""
            form.update(options=values[:_MOST_OPTIONS], size=min(6, len(values)))
            form["shown"] = ", ".join(values[:_MOST_VALUES]) + more
        else:
            first, last = attribute.boundaries[0], attribute.boundaries[-1]
            low, high = attribute.literal(first), attribute.literal(last - 1 if attribute.is_whole else last)
            form.update(options=None, low=low, high=high, shown=f"{low} to {high}")
        listed.append(form)
    return listed


def share_text(user: User, booked: Booked) -> str:
    """Return what a user may still have charged."""
    if user.role is Role.READER:
        return "You are a reader: you get answers that cost nothing; nothing is tested for you."
    share = float(booked.share or 0)
    return (
        f"Of the whole budget you may use {share:.1%}, and have used {float(booked.spent):.2%}, with "
        f"{booked.questions:,} different questions."
    )


def is_dearer(analyst: Analyst, filled: Filled) -> bool:
    """Tell whether an answer costs more than was told, as others may have asked meanwhile.

    Raises:
        BudgetError: the width or the price is no number.
        QueryError: no measurement gives such a bar.
    """
    try:
        told = float(filled.price)
    except ValueError:
        raise BudgetError("expected the price that was told; ask for it first") from None
    return not analyst.quote(filled.question, filled.records).share <= told


def price_of(analyst: Analyst, filled: Filled) -> dict[str, Any]:
    """Return what an answer within so many records costs, in a sentence.

    Raises:
        BudgetError: the width is no number.
        QueryError: no measurement gives such a bar.
    """
    quote = analyst.quote(filled.question, filled.records)
    width = f"within ± {quote.half_width:,.0f} records"
    if not quote.needed:
        return {
            "sentence": f"It is free: the answer is {width} as it is.",
            "share": 0.0,
            "button": "Answer it, free",
        }
    scope = ", ".join(quote.scope)
    measured = f"the table of {scope} would be measured, for an answer {width}"
    sentence = f"{percent(quote.share)} of the budget: {measured}."
    if not quote.affordable:
        sentence += " That is more than is left for you."
    return {
        "sentence": sentence,
        "share": quote.share,
        "button": "Pay, and answer" if quote.affordable else "",
    }


def history_rows(hosted: Hosted, found: Sequence[Activity], *, plain: bool = False) -> list[tuple[str, ...]]:
    """Return questions in words with their answers; plain numbers for a file."""
    domain = hosted.session.domain
    rows = []
    for act in found:
        low, high = act.interval or (None, None)
        texts = [
            ("" if plain else _NONE) if one is None else f"{one:.3f}" if plain else number(one)
            for one in (act.count, low, high)
        ]
        rows.append((LinearQuery.from_dict(domain, json.loads(act.query)).describe(), *texts))
    return rows


def report_of(hosted: Hosted) -> str:
    """Return the report on a session as a page."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.html"
        hosted.session.report(target)
        return target.read_text(encoding="utf-8")


def custodian_facts(hosted: Hosted) -> dict[str, Any]:
    """Return what the custodian's page shows."""
    session = hosted.session
    ledger, acts = session.ledger(), session.history(_MOST_ACTS)
    header, *rows = ledger_cells(ledger)
    activity = [(*row, act.name or _NONE) for row, act in zip(history_rows(hosted, acts), acts, strict=True)]
    tables = [
        *_spending(ledger, session.bookings()),
        {"title": "Ledger", "caption": "Every charge", "header": header, "rows": rows},
        {
            "title": "Activity",
            "caption": "The newest questions of everybody",
            "header": ("question", "records", "from", "to", "first asked by"),
            "rows": activity,
        },
    ]
    return {
        "sentence": ledger.sentence(),
        "charts": _spent_charts(headline(session.state), ledger),
        "tables": tables,
        "theorems": list(dict.fromkeys(f"{line.event}: {line.theorem}" for line in ledger.lines)),
    }


def _spending(ledger: Ledger, booked: Sequence[Booked]) -> list[dict[str, Any]]:
    """Return the tables of who spent what, and on what."""
    by_event: dict[tuple[str, str], float] = {}
    for line in ledger.lines:
        for name, part in line.booked:
            key = name or _SESSION, line.event
            by_event[key] = by_event.get(key, 0.0) + float(part) * line.share
    return [
        {
            "title": "Who spent what",
            "caption": "Parts of the whole cap, by analyst",
            "header": ("analyst", "spent", "questions"),
            "rows": [
                (one.name or _SESSION, f"{float(one.spent):.2%}", f"{one.questions:,}") for one in booked
            ],
        },
        {
            "title": "On what",
            "caption": "Parts of the whole cap, by analyst and event",
            "header": ("analyst", "event", "spent"),
            "rows": [(name, event, f"{share:.2%}") for (name, event), share in by_event.items()],
        },
    ]


def _spent_charts(head: str, ledger: Ledger) -> list[tuple[Picture, Lines]]:
    """Return panels of the budget over charges, by analyst and by event; none before the first charge."""
    lines = ledger.lines
    by = {
        "analyst": [{name or _SESSION: float(part) for name, part in line.booked} for line in lines],
        "event": [{line.event: 1.0} for line in lines],
    }
    return [_spending_chart(head, kind, lines, parts) for kind, parts in by.items() if lines]


def _spending_chart(
    head: str, kind: str, lines: Sequence[LedgerLine], named: Sequence[Mapping[str, float]]
) -> tuple[Picture, Lines]:
    """Return what was spent in all and under each name; the six names that spent most are drawn.

    Args:
        head: stands above it.
        kind: of the names.
        lines: of a ledger, in order.
        named: of each line, its parts by the names that they are drawn under.
    """
    names = dict.fromkeys(name for own in named for name in own)
    spent = {
        name: [100 * line.share * own.get(name, 0.0) for line, own in zip(lines, named, strict=True)]
        for name in names
    }
    first = sorted(spent, key=lambda name: -sum(spent[name]))[:_MOST_LINES]
    drawn = [(name, f"line-{place}", [*accumulate(spent[name])]) for place, name in enumerate(first)]
    if len(spent) > 1:
        drawn.insert(0, ("in all", "all", [100 * line.running_share for line in lines]))
    told = "; ".join(f"{name}: {percent(heights[-1] / 100)}" for name, _, heights in drawn)
    more = f", the {_MOST_LINES} largest of {len(spent):,}" if len(spent) > len(first) else ""
    panel = Lines(
        tuple(
            Line(shortened(name, 18), style, [*enumerate([0.0, *heights])]) for name, style, heights in drawn
        ),
        "charges",
        Cap(100.0, "the cap"),
    )
    return Picture(head, f"the budget by {kind}{more}", told, width=_CHART_WIDTH), panel
