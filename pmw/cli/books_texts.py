"""What the commands on a session's books print: its ledger, its verification, its closing."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from pmw.ledger import Ledger, LedgerLine
from pmw.status import Status
from pmw.verification import NOT_PROVED, Verification

__all__ = [
    "closing_text",
    "ledger_text",
    "verification_text",
]

_WIDTH = 100  # columns of a table
_GAP = "  "


def ledger_text(ledger: Ledger) -> str:
    """Return a ledger as a table, a line for each charge and one for the total."""
    rows = [_line_cells(line) for line in ledger.lines]
    heads = ("", "event", "paid for", "epsilon", ledger.unit, "share", "so far")
    if ledger.unit == "epsilon":  # then what is charged is epsilon
        heads = ("", "event", "paid for", "", "epsilon", "share", "so far")
        rows = [(*cells[:3], "", *cells[4:]) for cells in rows]
    widths = [max(len(cells[place]) for cells in (heads, *rows)) for place in range(len(heads))]
    others = sum(width + len(_GAP) for place, width in enumerate(widths) if place != 2 and width)
    widths[2] = min(widths[2], max(_WIDTH - others, len(heads[2])))
    table = [_row(cells, widths) for cells in (heads, *rows)]
    delta = f", delta {float(ledger.budget.delta):g}" if ledger.budget.delta else ""
    table.append(
        f"Charged: {_number(ledger.spent)} of {_number(ledger.cap)} {ledger.unit} ({ledger.share:.1%}); "
        f"the cap is epsilon {float(ledger.budget.epsilon):g}{delta}."
    )
    return "\n".join(table)


def _line_cells(line: LedgerLine) -> tuple[str, ...]:
    epsilon = "" if line.epsilon is None else _number(line.epsilon)
    shares = (f"{line.share:.2%}", f"{line.running_share:.2%}")
    return (str(line.number), line.event, line.label, epsilon, _number(line.price), *shares)


def _number(value: Fraction) -> str:
    return f"{float(value):.3g}"


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    texts = []
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        shown = cell if len(cell) <= width else cell[: width - 1] + "…"
        if width:
            texts.append(f"{shown:<{width}}" if place in (1, 2) else f"{shown:>{width}}")
    return _GAP.join(texts).rstrip()


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
        lines.append("The session was closed for good: nothing is spent any more.")
    if failed:
        count = f"{failed} of {len(verification.checks)} checks"
        lines.append(f"{count} FAILED: the file was damaged or altered. Do not go on with it.")
    else:
        lines.append(f"All {len(verification.checks)} checks hold. They cannot prove:")
        lines += [f"  - {text}" for text in NOT_PROVED]
    return "\n".join(lines)


def closing_text(path: Path, status: Status, ledger: Ledger) -> str:
    """Return what a custodian is told after closing."""
    lines = [
        f"Closed {path}: nothing is spent any more ({status.budget_share:.1%} of the budget was), "
        "and its secrets are wiped.",
        "Questions and exports go on from the model, without the table.",
    ]
    if any(line.event == "abandoned batch" for line in ledger.lines):
        lines.insert(
            1,
            "An interrupted batch could not be finished without its table: it was charged, and nothing is "
            "released from it.",
        )
    return "\n".join(lines)
