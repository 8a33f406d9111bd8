"""What a custodian sees of a session: who may use it, who spent what, on what and when, and all questions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

from pmw.display.charts import Cap, Line, Lines, Picture
from pmw.display.texts import percent, shortened
from pmw.errors import StoreError
from pmw.public.charges import Event
from pmw.public.ledger import Ledger, LedgerLine, booked_names, ledger_cells
from pmw.public.pictures import headline
from pmw.service.answer_charts import CHART_WIDTH, Chart
from pmw.service.history import History
from pmw.service.hosting import Hosted
from pmw.service.users import User
from pmw.session.accounts import Booked

_NONE = "\N{EN DASH}"
_SESSION = "the session itself"
_SPARE = (Event.REQUESTED, Event.PART, Event.QUANTILE)  # what no test decides, after opening
_MOST_LINES = 6  # named ones of a chart; the style sheet has a colour and a dash for each
_MOST_TIMES = 400  # points of the course of spending


def custodian_facts(hosted: Hosted, users: Sequence[User], history: History) -> dict[str, Any]:
    """Return what the custodian's page shows, but for the questions."""
    session = hosted.session
    ledger, booked = session.ledger(), session.bookings()
    header, *rows = ledger_cells(ledger)
    tables = [
        _users_table(
            [one for one in users if one.may_use(hosted.name)],
            booked,
            lambda user: min(hosted.asking(user).most, 1 - ledger.spent / ledger.cap),
        ),
        _events_table(ledger),
        *_spare_table(ledger),
        {"title": "Ledger", "caption": "Every charge", "header": header, "rows": rows},
    ]
    return {
        "sentence": ledger.sentence(),
        "charts": [
            *_course(headline(session.state), _times(history, hosted.name)),
            *_spent_charts(headline(session.state), ledger),
        ],
        "tables": tables,
        "theorems": list(dict.fromkeys(f"{line.event}: {line.theorem}" for line in ledger.lines)),
    }


def _times(history: History, name: str) -> list[tuple[datetime, float]]:
    try:
        return history.spending(name)
    except StoreError:  # the rest of the page does not rest on it
        return []


def report_of(hosted: Hosted) -> str:
    """Return the report on a session as a page."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.html"
        hosted.session.report(target)
        return target.read_text(encoding="utf-8")


def _users_table(
    users: Sequence[User], booked: Sequence[Booked], share: Callable[[User], Fraction]
) -> dict[str, Any]:
    """Return who may ask, with shares and ceilings, and what each spent; who is no user any more comes last.

    Args:
        booked: what was charged.
        share: of a user, as a part of the whole budget, and no more than is left.
    """
    sums = {one.name: one for one in booked}
    shares = {user.name: percent(float(share(user))) for user in users}
    known = {
        user.name: (user.role.value, shares[user.name], _ceiling(user), _good_until(user)) for user in users
    }
    names = [*known, *(name for name in sums if name not in known)]
    return {
        "title": "Users",
        "caption": "Who may ask, and parts of the whole cap",
        "header": ("user", "role", "share", "one question", "token good until", "spent", "questions"),
        "rows": [(name or _SESSION, *known.get(name, (_NONE,) * 4), *_sum(sums.get(name))) for name in names],
    }


def _ceiling(user: User) -> str:
    return _NONE if user.at_most is None else percent(float(user.at_most))


def _good_until(user: User) -> str:
    if user.revoked:
        return "revoked"
    return "no end" if user.expires is None else user.expires.isoformat()


def _sum(booked: Booked | None) -> tuple[str, str]:
    return ("0.00%", "0") if booked is None else (f"{float(booked.spent):.2%}", f"{booked.questions:,}")


def _events_table(ledger: Ledger) -> dict[str, Any]:
    by_event: dict[tuple[str, str], float] = {}
    for line in ledger.lines:
        for name, part in line.booked:
            key = name or _SESSION, line.event
            by_event[key] = by_event.get(key, 0.0) + float(part) * line.share
    return {
        "title": "On what",
        "caption": "Parts of the whole cap, by analyst and event",
        "header": ("analyst", "event", "spent"),
        "rows": [(name, event, f"{share:.2%}") for (name, event), share in by_event.items()],
    }


def _spare_table(ledger: Ledger) -> list[dict[str, Any]]:
    rows = [
        (str(line.number), line.label, booked_names(line.booked) or _SESSION, f"{line.share:.2%}")
        for line in ledger.lines
        if line.event in _SPARE
    ]
    table = {
        "title": "What spare was spent on",
        "caption": "Tables measured because it was spare, or on request, and how near answers were",
        "header": ("no.", "paid for", "booked to", "share"),
        "rows": rows,
    }
    return [table] if rows else []


# --- charts ---------------------------------------------------------------------------------------------


def _course(head: str, times: Sequence[tuple[datetime, float]]) -> list[Chart]:
    if not times:
        return []
    every = max(1, -(-len(times) // _MOST_TIMES))
    kept = [*times[:-1:every], times[-1]]
    began = kept[0][0]
    points = [((time - began).total_seconds() / 3600, 100 * share) for time, share in kept]
    ended = kept[-1][0]
    told = f"{began:%Y-%m-%d %H:%M}: {percent(kept[0][1])}; {ended:%Y-%m-%d %H:%M}: {percent(kept[-1][1])}"
    panel = Lines(
        (Line("", "line-0", points, is_stepped=True),),
        f"hours since {began:%Y-%m-%d %H:%M} UTC",
        Cap(100.0, "the cap"),
    )
    picture = Picture(head, "the budget over time", told, width=CHART_WIDTH)
    since = (
        f"From {began:%Y-%m-%d %H:%M}, when the service first saw the session, to the last charge that it saw"
    )
    return [Chart(picture, panel, f"{since}, {ended:%Y-%m-%d %H:%M} UTC.")]


def _spent_charts(head: str, ledger: Ledger) -> list[Chart]:
    lines = ledger.lines
    by = {
        "analyst": [{name or _SESSION: float(part) for name, part in line.booked} for line in lines],
        "event": [{line.event: 1.0} for line in lines],
    }
    return [_spending_chart(head, kind, lines, parts) for kind, parts in by.items() if lines]


def _spending_chart(
    head: str, kind: str, lines: Sequence[LedgerLine], named: Sequence[Mapping[str, float]]
) -> Chart:
    """Return what was spent in all and under each name; the six names that spent most are drawn."""
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
    panel = Lines(
        tuple(
            Line(shortened(name, 40), style, [*enumerate([0.0, *heights])]) for name, style, heights in drawn
        ),
        "charges",
        Cap(100.0, "the cap"),
    )
    picture = Picture(head, f"the budget by {kind}", told, width=CHART_WIDTH)
    which = (
        f"The {_MOST_LINES} largest of {len(spent):,}" if len(spent) > len(first) else f"All {len(spent):,}"
    )
    return Chart(picture, panel, f"{which}, over {len(lines):,} charges.")
