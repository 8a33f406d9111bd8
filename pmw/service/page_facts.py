"""Facts of the page: what is in a table, what was asked, who spent what."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from pmw.display.charts import Cap, Line, Lines, Picture
from pmw.display.texts import number, percent, shortened
from pmw.errors import BudgetError
from pmw.public.ledger import Ledger, LedgerLine, ledger_cells
from pmw.public.pictures import headline
from pmw.service.hosting import Hosted
from pmw.service.page_answers import CHART_WIDTH, NONE
from pmw.service.users import Role, User
from pmw.session.accounts import Activity, Booked
from pmw.session.dialogue import Analyst
from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.linear import LinearQuery

_SESSION = "the session itself"
_MOST_VALUES = 12  # of an attribute that are listed in the table of attributes
_MOST_ACTS = 50  # questions of everybody that the custodian sees
_MOST_OPTIONS = 500  # of an attribute that the form lists
_MOST_LINES = 6  # named ones of a chart; the style sheet has a colour and a dash for each


@dataclass(frozen=True, slots=True)
class Shown:
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

    def examples(self, domain: Domain) -> dict[str, str]:
        """Return a condition and a statement over a domain."""
        first = next(iter(domain))
        name = '"' + first.name.replace('"', '""') + '"'
        if isinstance(first, CategoricalAttribute):
            value = first.values[0]
            condition = f"{name} = '{value}'" if isinstance(value, str) else f"{name} = {value}"
        else:
            condition = f"{name} >= {first.literal(first.boundaries[len(first.boundaries) // 2])}"
        table = '"' + domain.name.replace('"', '""') + '"'
        return {
            "example": condition,
            "statement": f"SELECT {name}, COUNT(*) FROM {table} GROUP BY {name}",  # noqa: S608
        }


def attributes_of(domain: Domain) -> list[dict[str, Any]]:
    """Return what the page tells of each attribute."""
    listed = []
    for attribute in domain:
        also = [text for text, is_so in (("missing", attribute.missing), ("other", attribute.other)) if is_so]
        form: dict[str, Any] = {
            "name": attribute.name,
            "cells": attribute.size,
            "also": ", ".join(also) or NONE,
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


def is_dearer(analyst: Analyst, shown: Shown) -> bool:
    """Tell whether an answer costs more than was told, as others may have asked meanwhile.

    Raises:
        BudgetError: the width or the price is no number.
        QueryError: no measurement gives such a bar.
    """
    try:
        told = float(shown.price)
    except ValueError:
        raise BudgetError("expected the price that was told; ask for it first") from None
    return not analyst.quote(shown.question, shown.records).share <= told


def price_of(analyst: Analyst, shown: Shown) -> dict[str, Any]:
    """Return what an answer within so many records costs, in a sentence.

    Raises:
        BudgetError: the width is no number.
        QueryError: no measurement gives such a bar.
    """
    quote = analyst.quote(shown.question, shown.records)
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
            ("" if plain else NONE) if one is None else f"{one:.3f}" if plain else number(one)
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
    ledger, acts = session.ledger(), session.activity(None, _MOST_ACTS)
    header, *rows = ledger_cells(ledger)
    activity = [(*row, act.name or NONE) for row, act in zip(history_rows(hosted, acts), acts, strict=True)]
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
    return Picture(head, f"the budget by {kind}{more}", told, width=CHART_WIDTH), panel
