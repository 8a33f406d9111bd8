"""Quotes of questions: what measuring the number of a question itself costs, or those of a list together.

A list is one measurement: disjoint questions, such as the groups of a statement, cost what one of them does.
A quote depends on scales of noise and on the questions, never on what was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pmw.errors import SessionError
from pmw.model.measurement import half_width
from pmw.planning.calibration import noise_of_share
from pmw.public.aggregates import Aggregates
from pmw.public.charges import QuestionNumbers
from pmw.public.half_widths import Confidences
from pmw.public.quotes import (
    Quote,
    Within,
    nothing_needed,
    present_half_width,
    quote_of,
    quote_question,
    require_measuring,
    widest_noise,
)
from pmw.public.state import PublicState
from queries.cells import cell_count
from queries.errors import QueryError
from queries.expressions import Linear
from queries.factors import told_apart
from queries.linear import LinearQuery
from queries.parsing import require_aligned
from queries.statements import Statement

MOST_ROWS = 2**16  # that are measured together: each is a draw
_MOST_COUNTED = 2**24  # cells of the attributes of one question that the questions tell apart
PREFERRED = 2  # times the price of the question alone, for a whole marginal, which serves others


def quote_within(state: PublicState, query: LinearQuery, within: Within | float | str) -> Quote:
    """Return the cheapest way to a bar of at most so many records, or such a part of all records.

    It is the question's own number, or the whole marginal of its attributes where that costs at most twice
    as much and is left.
    """
    wanted = Within.of(within).in_records(state.total.value)
    present = present_half_width(state, query)
    if present is not None and present <= wanted:
        return nothing_needed(QuestionNumbers, query.scope, 1, present)
    own = quote_rows(state, [query], within=wanted)
    try:
        whole = quote_question(state, query, wanted)
    except (QueryError, SessionError):  # or nothing is left for a marginal
        return own
    return whole if whole.affordable and whole.share <= PREFERRED * own.share else own


def quote_rows(
    state: PublicState,
    queries: Sequence[LinearQuery],
    *,
    share: Fraction | None = None,
    within: float | None = None,
    groups: int = 1,
) -> Quote:
    """Return the price of a list of questions, under one noise on each.

    Args:
        within: half-width of the bar of each that is wanted, in records, in place of a share.
    """
    require_measuring(state)
    require_rows(queries)
    what = QuestionNumbers(tuple(queries))
    moved = what.sensitivity(state.contract.options)
    if not moved.l1:
        raise _refused("no person moves the answers, which public numbers give; nothing need be measured")
    confidence = Confidences.in_state(state, groups=groups).number
    if within is not None:
        wanted = Within.records(within)
        noise = widest_noise(state.ledger, lambda one: half_width(one, confidence) <= wanted)
        if noise is None:
            raise _refused(f"no noise has a bar of {wanted:g} records; ask for a wider one")
    else:
        noise = noise_of_share(state.ledger, share, moved)
    return quote_of(state, what, len(queries), noise, half_width(noise, confidence))


def quote_statement(state: PublicState, statement: Statement, within: Within) -> Quote:
    """Return the smallest price at which the bars of all counts of a statement are at most so wide.

    All of its groups are measured together, those too that a condition on answers would leave out, so that
    what is paid does not depend on what was drawn.
    """
    wanted = within.in_records(state.total.value)
    queries = rows_of(state, statement)
    widths = [present_half_width(state, query, statement.choices) for query in queries]
    known = [width for width in widths if width is not None and width <= wanted]
    if len(known) == len(queries):
        widest = max(known, default=0.0)
        return nothing_needed(QuestionNumbers, QuestionNumbers(queries).scope, len(queries), widest)
    return quote_rows(state, queries, within=wanted, groups=statement.choices)


def is_of_counts(statement: Statement) -> bool:
    """Tell whether all aggregates of a statement are counts of records."""
    shown = [column.node for arm in statement.alone for column in arm.columns if not column.is_key]
    are_plain = all(isinstance(node, Linear) for node in shown)
    return are_plain and all(isinstance(leaf, Linear) and leaf.counting for leaf in statement.leaves)


def rows_of(state: PublicState, statement: Statement) -> tuple[LinearQuery, ...]:
    """Return the counting questions of a statement of counts, each once, in the order of its groups.

    Those that hold for no record of any table are left out: nothing is drawn for them.
    """
    statement.require_one_step()
    asked = (
        aggregates.question(leaf, group)
        for arm in statement.alone
        for aggregates in (Aggregates(state, arm),)
        for group in arm.groups()
        for leaf in arm.leaves
    )
    return tuple({query.to_json(): query for query in asked if query.constant}.values())


def require_few_rows(count: int) -> None:
    """Refuse more questions than are measured together."""
    if count > MOST_ROWS:
        raise QueryError(
            f"expected at most {MOST_ROWS:,} questions that are measured together, got {count:,}",
            code="too_large",
        )


def is_counted(query: LinearQuery) -> bool:
    """Tell whether a question has a number of its own: cells decide it, and few enough of them."""
    decided = query.readings is None and query.constant and query.scope
    return bool(decided) and are_counted([query])


def are_counted(queries: Sequence[LinearQuery]) -> bool:
    """Tell whether few enough cells are counted for some questions together."""
    return counted_cells(queries) <= _MOST_COUNTED


def counted_cells(queries: Sequence[LinearQuery]) -> int:
    """Return over how many cells the one of some questions is counted that needs the most."""
    runs = told_apart(factor for query in queries for factor in query.factors)
    return max(math.prod(runs[name].size for name in query.scope) for query in queries)


def require_rows(queries: Sequence[LinearQuery], *beside: str) -> None:
    """Refuse lists of questions that are not measured."""
    if not queries:
        raise _refused("expected a question, or several, that hold for some record of some table")
    require_few_rows(len(queries))
    for query in queries:
        require_aligned(query)
    if beside:  # the values of each cell are summed
        cells = max(query.domain.scope_size(tuple({*query.scope, *beside})) for query in queries)
    else:
        cells = counted_cells(queries)
    if cells > _MOST_COUNTED:
        raise QueryError(
            f"the questions tell {cell_count(cells)} cells apart that have to be counted, at most "
            f"{_MOST_COUNTED:,} fit; ask about fewer attributes",
            code="too_large",
        )


def _refused(message: str) -> QueryError:
    return QueryError(message, code="bad_request")
