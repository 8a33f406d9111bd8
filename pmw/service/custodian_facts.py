"""What a custodian sees of a session: who may use it, who spent what, on what and when, and all questions."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    ledger, lines, head = session.ledger(), session.ledger().lines, headline(session.state)
    left, times = 1 - ledger.spent / ledger.cap, list[tuple[datetime, float]]()
    with suppress(StoreError):  # the rest of the page does not rest on it
        times = history.spending(hosted.name)
    header, *rows = ledger_cells(ledger)
    spent_by = {
        "analyst": [{name or _SESSION: float(part) for name, part in line.booked} for line in lines],
        "event": [{line.event: 1.0} for line in lines],
    }
    shares = {one: min(hosted.asking(one).most, left) for one in users if one.may_use(hosted.name)}
    tables = [
        _users_table(shares, session.bookings()),
        _events_table(ledger),
        *_spare_table(ledger),
        _table("Ledger", "Every charge", header, rows),
    ]
    return {
        "sentence": ledger.sentence(),
        "charts": [
            *_course(head, times),
            *(_spending_chart(head, kind, lines, parts) for kind, parts in spent_by.items() if lines),
        ],
        "tables": tables,
        "theorems": list(dict.fromkeys(f"{line.event}: {line.theorem}" for line in lines)),
    }


def _table(title: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    return {"title": title, "caption": caption, "header": header, "rows": rows}


def report_of(hosted: Hosted) -> str:
    """Return the report on a session as a page."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.html"
        hosted.session.report(target)
        return target.read_text(encoding="utf-8")


def _users_table(shares: Mapping[User, Fraction], booked: Sequence[Booked]) -> dict[str, Any]:
    """Return who may ask, and what each spent; who is no user any more comes last."""
    sums = {one.name: (f"{float(one.spent):.2%}", f"{one.questions:,}") for one in booked}
    known = {
        user.name: (
            user.role.value,
            percent(float(share)),
            _NONE if user.at_most is None else percent(float(user.at_most)),
            "revoked" if user.revoked else str(user.expires or "no end"),
        )
        for user, share in shares.items()
    }
    names = [*known, *(name for name in sums if name not in known)]
    header = ("user", "role", "share", "one question", "token good until", "spent", "questions")
    rows = [
        (name or _SESSION, *known.get(name, (_NONE,) * 4), *sums.get(name, ("0.00%", "0"))) for name in names
    ]
    return _table("Users", "Who may ask, and parts of the whole cap", header, rows)


def _events_table(ledger: Ledger) -> dict[str, Any]:
    by_event: dict[tuple[str, str], float] = {}
    for line in ledger.lines:
        for name, part in line.booked:
            key = name or _SESSION, line.event
            by_event[key] = by_event.get(key, 0.0) + float(part) * line.share
    rows = [(name, event, f"{share:.2%}") for (name, event), share in by_event.items()]
    caption = "Parts of the whole cap, by analyst and event"
    return _table("On what", caption, ("analyst", "event", "spent"), rows)


def _spare_table(ledger: Ledger) -> list[dict[str, Any]]:
    rows = [
        (str(line.number), line.label, booked_names(line.booked) or _SESSION, f"{line.share:.2%}")
        for line in ledger.lines
        if line.event in _SPARE
    ]
    caption = "Tables measured because it was spare, or on request, and how near answers were"
    header = ("no.", "paid for", "booked to", "share")
    return [_table("What spare was spent on", caption, header, rows)] if rows else []


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
    line, axis = Line("", "line-0", points, is_stepped=True), f"hours since {began:%Y-%m-%d %H:%M} UTC"
    panel = Lines((line,), axis, Cap(100.0, "the cap"))
    picture = Picture(head, "the budget over time", told, width=CHART_WIDTH)
    since = (
        f"From {began:%Y-%m-%d %H:%M}, when the service first saw the session, to the last charge that it saw"
    )
    return [Chart(picture, panel, f"{since}, {ended:%Y-%m-%d %H:%M} UTC.")]


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
    steps = (
        Line(shortened(name, 40), style, [*enumerate([0.0, *heights])]) for name, style, heights in drawn
    )
    panel = Lines(tuple(steps), "charges", Cap(100.0, "the cap"))
    picture = Picture(head, f"the budget by {kind}", told, width=CHART_WIDTH)
    which = f"The {_MOST_LINES} largest of" if len(spent) > len(first) else "All"
    return Chart(picture, panel, f"{which} {len(spent):,}, over {len(lines):,} charges.")
