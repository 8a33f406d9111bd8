"""Quoting: the section that tells which tables of counts may be quoted, and with which error."""

from __future__ import annotations

from pmw.markup import counted
from pmw.public.report import wording
from pmw.public.report.elements import heading, isolated, number, paragraph, section, table
from pmw.public.report.facts import Facts
from pmw.public.report.quotable import (
    SURER,
    QuotableTable,
    quotable_tables,
    single_half_width,
    total_widths,
)
from queries.cells import cell_count

__all__ = [
    "quote_section",
]

_MOST_TABLES = 200  # lines of a table of a report


def quote_section(facts: Facts) -> str:
    """Return which tables of counts may be quoted, with which error."""
    state = facts.state
    tables = quotable_tables(state)
    levels = [state.contract.options.confidence]
    levels += [SURER] if levels[0] != SURER else []
    parts = [heading(2, "Which numbers may be quoted")]
    parts.append(
        paragraph(
            "The numbers below were measured. Each of them may be quoted together with its "
            "error. Where the error is larger than the number itself, the number says little: do not quote "
            "it. The last column tells from which count on the error is at most a tenth of it. For the "
            "numbers themselves, ask the session (pmw ask --sql, with GROUP BY), or see the pictures."
        )
    )
    kept = state.contract.records_kept
    if kept is not None:
        parts.append(paragraph(f"Every number here is {isolated(kept.describe())}."))
    bars = [f"± at {wording.confidence_text(level)}" for level in levels]
    header = ("table of", "measured", "numbers", *bars, "within 10% from a count of")
    rows = [_total_row(facts, len(levels)), *(_table_row(one, len(levels)) for one in tables[:_MOST_TABLES])]
    parts.append(
        table("Tables that may be quoted: errors of one of their counts, in records", header, rows, left=2)
    )
    if len(tables) > _MOST_TABLES:
        parts.append(
            paragraph(f"{len(tables) - _MOST_TABLES:,} more tables were measured; pmw export lists them.")
        )
    parts += [paragraph(text) for text in _other_numbers(facts, tables)]
    return section(parts)


def _total_row(facts: Facts, levels: int) -> tuple[str, ...]:
    state = facts.state
    if state.total.deviation == 0:
        return ("the number of records", "public", "1", *["exact"] * levels, "any")
    widths = total_widths(state)
    return ("the number of records", "at opening", "1", *map(number, widths[:levels]), number(10 * widths[0]))


def _table_row(one: QuotableTable, levels: int) -> tuple[str, ...]:
    names = isolated(", ".join(map(isolated, one.scope)))
    cells = f"{cell_count(one.cells)}{' groups of values' if one.binned else ''}"
    when = "at opening" if one.opened else "later"
    widths = [one.widths, one.surer][:levels]
    return (names, when, cells, *(_range(width) for width in widths), number(10 * one.widths[1]))


def _range(widths: tuple[float, float]) -> str:
    low, high = map(number, widths)
    return low if low == high else f"{low} to {high}"


def _other_numbers(facts: Facts, tables: list[QuotableTable]) -> list[str]:
    state = facts.state
    confidence = wording.confidence_text(state.contract.options.confidence)
    singles, width = single_half_width(state)
    found = []
    if singles:
        found.append(
            f"{counted(singles, 'single question')} {'was' if singles == 1 else 'were'} measured, each "
            f"within ± {number(width)} "
            "records at "
            f"{confidence}: an answer with the source “measured” may be quoted with its error bar."
        )
    if tables:
        found.append(
            "Sums of a measured table, such as fewer of its attributes or several of its values, may be "
            "quoted too: "
            "ask for them (pmw ask), and quote the answer with its own error bar."
        )
    else:
        found.append("No table of counts was measured in this session.")
    found.append(
        "Any other answer with an error bar may be quoted with that bar. Not to be quoted: answers "
        "without an error "
        "bar (sources “unverified” and “exhausted”), and counts taken from rows of the synthetic table."
    )
    return found
