"""What the commands on a session's ledger print: its lines, its verification, its closing."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from pmw.cli.screen import terminal_width
from pmw.display.texts import text_table
from pmw.public.ledger import Ledger, ledger_cells
from pmw.public.status import Status
from pmw.session.verification import Verification

_WIDTH = 100  # columns of a table
_LABEL = 2  # the column of texts that may be long


def ledger_text(ledger: Ledger) -> str:
    """Return a ledger as a table, a line for each charge, and its total; long labels are cut short."""
    header, *rows = ledger_cells(ledger)
    others = [column for place, column in enumerate(zip(header, *rows, strict=True)) if place != _LABEL]
    room = max(_WIDTH - sum(2 + max(map(len, column)) for column in others), len(header[_LABEL]))
    cut = [(*row[:_LABEL], _shortened(row[_LABEL], room), *row[_LABEL + 1 :]) for row in rows]
    events: dict[str, list[str]] = {}
    for line in ledger.lines:
        known = events.setdefault(line.theorem, [])
        if line.event not in known:
            known.append(line.event)
    rests = [_source(f"{', '.join(names)}: {theorem}") for theorem, names in events.items()]
    table = text_table(header, cut, left=_LABEL + 1 + ("analyst" in header), width=terminal_width())
    return "\n".join([table, "Prices rest on:", *rests, ledger.sentence()])


def _source(text: str) -> str:
    """Return an indented text in lines; a number is not parted from the word before it."""
    kept = re.sub(r" (?=\d)", "\N{NO-BREAK SPACE}", text)
    filled = textwrap.fill(kept, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return filled.replace("\N{NO-BREAK SPACE}", " ")


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def verification_text(verification: Verification) -> str:
    """Return what a verification found, a line for each check, and what it cannot tell."""
    lines = [
        f"{'ok    ' if check.holds else 'FAILED'}  {check.name}: {check.detail}"
        for check in verification.checks
    ]
    failed = sum(not check.holds for check in verification.checks)
    if verification.unfinished:
        lines.append("An interrupted batch waits to be finished (or one is being answered right now).")
    if verification.closed:
        lines.append("The session was closed permanently: nothing is spent any more.")
    if failed:
        count = f"{failed} of {len(verification.checks)} checks"
        fault = "the file was damaged or altered"
        if verification.anchored and failed == 1 and not verification.checks[-1].holds:
            fault = (
                "the file or the anchor is of another session, or the file is an older copy or was altered"
            )
        lines.append(f"{count} FAILED: {fault}. Do not go on with it.")
    else:
        lines.append(f"All {len(verification.checks)} checks hold. They cannot prove:")
        lines += [f"  - {text}" for text in verification.not_proved]
    return "\n".join(lines)


def closing_text(path: Path, status: Status, ledger: Ledger, *, abandon: bool) -> str:
    """Return what a custodian reads after closing.

    Args:
        path: the session file.
        status: where it stands.
        ledger: its charges.
        abandon: whether a batch that could not be finished was to be abandoned.
    """
    lines = [
        f"Closed {path}: nothing is spent any more ({status.budget_share:.1%} of the budget was), "
        "and its secrets are wiped.",
        "Questions and exports go on from the model, without the table.",
    ]
    if any(line.event == "abandoned batch" for line in ledger.lines):
        lines.insert(
            1,
            "An interrupted batch could not be finished, for its table is gone: it was charged, and "
            "nothing is released from it.",
        )
    elif abandon:
        lines.insert(1, "Nothing was abandoned: no batch waited, or the one that did was finished.")
    return "\n".join(lines)
