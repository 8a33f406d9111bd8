"""Tables: what a statement of aggregates is answered with. Everything in one is public."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pmw.display.elements import table
from pmw.display.texts import counted, text_table
from pmw.public.aggregates import Aggregates
from pmw.public.answer import SEEDED_WARNING, Answer, RecordsKept, Spent
from pmw.public.evidence import is_held
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from pmw.public.sums import Estimate
from queries.grouping import GroupValue
from queries.linear import LinearQuery
from queries.statements import (
    AggregateNode,
    Arithmetic,
    Coalesced,
    Compared,
    Constant,
    Group,
    Joined,
    KeyColumn,
    Linear,
    Node,
    Rounding,
    Statement,
    Test,
    leaves_of,
)

if TYPE_CHECKING:
    import pandas as pd

_ROWS_SHOWN = 20
_UNDEFINED = "undefined"
_WORK = 16  # what an aggregate of one group takes, in questions
Pause: TypeAlias = Callable[[int], None]
_Value: TypeAlias = Estimate | GroupValue | float
_Asked: TypeAlias = list[tuple[AggregateNode, Group, LinearQuery]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnswerTable:
    """The answer to a statement whose columns are expressions of aggregates; made by a session.

    Args:
        titles: of the columns.
        rows: of each group, a value of it or an ``Estimate`` per column.
        confidence: of each interval, in (0, 1).
        notes: what has to be known about every answer.
        version: of the model that answered.
        spent: what the session had spent.
        exhausted: nothing is tested any more.
        seeded: the session's noise can be repeated by anybody: no privacy.
        kept: which records the numbers are about; None where no column of ids bounds a person's.
    """

    titles: tuple[str, ...]
    rows: tuple[tuple[_Value, ...], ...]
    confidence: float
    notes: tuple[str, ...] = ()
    version: int = 0
    spent: Spent = field(default=Spent(0.0, 0.0, 0.0))
    exhausted: bool = False
    seeded: bool = False
    kept: RecordsKept | None = None

    @property
    def is_promised(self) -> bool:
        """Every answer that is defined has an interval."""
        return all(
            cell.interval is not None or cell.value is None
            for row in self.rows
            for cell in row
            if isinstance(cell, Estimate)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer format of a statement, ready for JSON."""
        rows = [
            {title: _form(cell) for title, cell in zip(self.titles, row, strict=True)} for row in self.rows
        ]
        form: dict[str, Any] = {
            "rows": rows,
            "notes": list(self.notes),
            "confidence": self.confidence,
            "version": self.version,
            "spent": {
                "share": float(f"{self.spent.share:.6g}"),
                "epsilon_cap": self.spent.epsilon_cap,
                "delta": self.spent.delta,
            },
        }
        if self.kept is not None:
            form["records_kept"] = self.kept.to_dict()
        if self.seeded:
            form["seeded"] = True
        return form

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per group: each column, and for an aggregate the ends of its interval behind it.

        Column ``n`` has its ends in ``n_low`` and ``n_high``: NaN where nothing is promised. What is
        undefined is NaN. The confidence and the notes stand in the table's ``attrs``.
        """
        import pandas as pd

        columns: dict[str, Any] = {}
        for place, title in enumerate(self.titles):
            cells = [row[place] for row in self.rows]
            if any(isinstance(cell, Estimate) for cell in cells):
                parts = [_three(cell) for cell in cells]
                for number, name in enumerate((title, f"{title}_low", f"{title}_high")):
                    columns[name] = pd.array([part[number] for part in parts], dtype="float64")
            else:
                columns[title] = cells
        frame = pd.DataFrame(columns)
        frame.attrs.update(confidence=self.confidence, notes=list(self.notes), seeded=self.seeded)
        if self.kept is not None:
            frame.attrs["records_kept"] = self.kept.to_dict()
        return frame

    def to_text(self, most_rows: int | None = None, width: int | None = None) -> str:
        """Return an aligned table of the answers.

        Args:
            most_rows: how many are shown; None for all.
            width: characters of a line, where there is a limit: texts are cut, or each row is a record.
        """
        header, rows, left = self._cells(most_rows)
        lines = [text_table(header, rows, left=left, width=width)] if rows else ["no rows"]
        if len(rows) < len(self.rows):
            lines.append(f"… {len(self.rows) - len(rows):,} more")
        lines += [f"{note[0].upper()}{note[1:]}." for note in self.notes]
        if self.kept is not None:
            lines.append(self.kept.note())
        if self.seeded:
            lines.append(SEEDED_WARNING)
        return "\n".join(lines)

    def _cells(self, most_rows: int | None) -> tuple[list[str], list[list[str]], int]:
        shown = self.rows[:most_rows]
        barred = [
            any(isinstance(row[place], Estimate) for row in self.rows) for place in range(len(self.titles))
        ]
        header: list[str] = []
        for title, bar in zip(self.titles, barred, strict=True):
            header += [title, "low", "high"] if bar else [title]
        rows = []
        for row in shown:
            words: list[str] = []
            for cell, bar in zip(row, barred, strict=True):
                words += _words(cell) if bar else ["(missing)" if cell is None else str(cell)]
            rows.append(words)
        left = next((place for place, bar in enumerate(barred) if bar), len(barred))
        return header, rows, left

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return self.to_text(_ROWS_SHOWN)

    def _repr_html_(self) -> str:
        header, rows, _ = self._cells(_ROWS_SHOWN)
        warning = f". {SEEDED_WARNING}" if self.seeded else ""
        notes = "".join(f". {note[0].upper()}{note[1:]}" for note in self.notes)
        kept = "" if self.kept is None else f" ({self.kept.describe()})"
        caption = f"{counted(len(self.rows), 'row')}, {self.confidence:.0%} intervals{kept}{notes}{warning}"
        return str(table(caption, header, rows))


def _form(cell: _Value) -> Any:
    if not isinstance(cell, Estimate):
        return cell
    ends = None if cell.interval is None else [_short(end) for end in cell.interval]
    return {"value": None if cell.value is None else _short(cell.value), "interval": ends}


def _short(number: float) -> float | None:
    return round(number, 6) if math.isfinite(number) else None


def _three(cell: _Value) -> tuple[float, float, float]:
    if not isinstance(cell, Estimate):
        return (float(cell) if isinstance(cell, int | float) else math.nan), math.nan, math.nan
    low, high = cell.interval or (math.nan, math.nan)
    return (math.nan if cell.value is None else cell.value), low, high


def _words(cell: _Value) -> list[str]:
    if isinstance(cell, Estimate) and cell.value is None:
        return [_UNDEFINED, "-", "-"]
    value, low, high = _three(cell)
    spread = high - low if math.isfinite(high - low) else abs(value)
    digits = 0 if spread >= 100 or abs(value) >= 10_000 else 2 if spread >= 0.1 else 4
    return ["-" if math.isnan(one) else f"{one:,.{digits}f}" for one in (value, low, high)]


# --- answering ----------------------------------------------------------------------------------------------


def questions_of(state: PublicState, statement: Statement, pause: Pause = lambda _: None) -> _Asked:
    """Return the counting questions that a statement's aggregates need, group by group.

    Every aggregate of a group has one. They are asked like any others, so that tests may run and be charged
    for; what they are answered with bounds the aggregates as well.

    Args:
        state: what is known.
        statement: what is asked.
        pause: called with the work of each aggregate of a group, in questions that take as long.
    """
    aggregates = Aggregates(state, statement)
    leaves = {id(leaf): leaf for node in statement.nodes() for leaf in leaves_of(node)}.values()
    asked: _Asked = []
    for group in statement.groups():
        for leaf in leaves:
            asked.append((leaf, group, aggregates.question(leaf, group)))
            pause(_WORK)
    return [
        one
        for one in asked
        if (isinstance(one[0], Linear) and one[0].counting) or _may_be_held(state, one[2])
    ]


def _may_be_held(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers hold a question's scope, or a test of its marginal may.

    A single question that is tested says nothing of sums: asking it would spend something for nothing.
    """
    plan = marginal_tier(state.plan)
    if plan is None or is_held(state, query):
        return plan is not None
    may_test = not state.closed and state.positives_used < state.positives_limit
    return may_test and state.grid(query.scope).scope_size(query.scope) <= plan.most_cells


def answered(
    state: PublicState,
    statement: Statement,
    asked: _Asked,
    answers: Sequence[Answer],
    pause: Pause = lambda _: None,
) -> AnswerTable:
    """Return the table of a statement, from the state after its counting questions; nothing is spent.

    Args:
        state: what is known.
        statement: what is asked.
        asked: its counting questions.
        answers: to these.
        pause: called with the work of each group, in questions that take as long.
    """
    found = {
        (id(leaf), group.places): answer for (leaf, group, _), answer in zip(asked, answers, strict=True)
    }
    reader = _Rows(Aggregates(state, statement), found)
    rows = []
    for group in statement.groups():
        pause(_WORK * len(statement.columns))
        if statement.having is not None and not reader.holds(statement.having, group):
            continue
        rows.append((group, tuple(reader.value(column.node, group) for column in statement.columns)))
    for node, greatest_first in reversed(statement.order):
        rows.sort(key=lambda row: reader.place(node, row[0]), reverse=greatest_first)
        rows.sort(key=lambda row: reader.plain(node, row[0]) is None)
    budget = state.contract.budget
    end = None if statement.limit is None else statement.offset + statement.limit
    return AnswerTable(
        tuple(column.title for column in statement.columns),
        tuple(row for _, row in rows[statement.offset : end]),
        state.contract.options.confidence,
        statement.notes,
        state.version,
        Spent(state.ledger.share, float(budget.epsilon), float(budget.delta)),
        state.closed or state.positives_used >= state.positives_limit,
        state.contract.seeded,
        state.contract.records_kept,
    )


class _Rows:
    """Answers expressions, group by group."""

    def __init__(self, aggregates: Aggregates, answers: Mapping[tuple[int, tuple[int, ...]], Answer]) -> None:
        self._aggregates = aggregates
        self._answers = answers
        self._known: dict[tuple[int, tuple[int, ...], int], Estimate] = {}

    def value(self, node: Node, group: Group) -> _Value:
        """Return the value of a group, or what an expression comes to in it."""
        if isinstance(node, KeyColumn):
            return group.labels[node.place]
        if isinstance(node, Constant):
            return node.value
        return self._estimate(node, group, len(leaves_of(node)))

    def plain(self, node: Node, group: Group) -> Any:
        """Return a value, or the number of an answer."""
        value = self.value(node, group)
        return value.value if isinstance(value, Estimate) else value

    def place(self, node: Node, group: Group) -> tuple[int, float | str]:
        """Return what sorts a group: numbers before texts; a value of cells in order by its cell."""
        if isinstance(node, KeyColumn) and self._aggregates.is_in_order(node.place):
            return 0, float(group.places[node.place])
        value = self.plain(node, group)
        if isinstance(value, str):
            return 1, value
        return 0, -math.inf if value is None else float(value)

    def holds(self, test: Test, group: Group) -> bool:
        """Tell whether a condition holds of the answers; what is compared with NULL does not."""
        return self._truth(test, group) is True

    def _truth(self, test: Test, group: Group) -> bool | None:
        if isinstance(test, Joined):
            found = [self._truth(child, group) for child in test.children]
            if test.kind == "not":
                return None if found[0] is None else not found[0]
            decisive = test.kind == "or"
            if decisive in found:
                return decisive
            return None if None in found else not decisive
        left = self.plain(test.left, group)
        if test.right is None:
            return left is None
        return _compared(test, left, self.plain(test.right, group))

    def _estimate(self, node: Node, group: Group, events: int) -> Estimate:
        if isinstance(node, KeyColumn):
            node = Constant(group.labels[node.place])
        if isinstance(node, Constant):
            number = node.value
            if isinstance(number, str) or number is None:
                return Estimate(None)
            return Estimate(float(number), (float(number), float(number)))
        if isinstance(node, Rounding):
            return _rounded(node, self._estimate(node.inner, group, events))
        if isinstance(node, Coalesced):
            inner = self._estimate(node.inner, group, events)
            # The true value may be the inner one: nothing is promised of the other.
            return (
                inner
                if inner.value is not None
                else Estimate(self._estimate(node.other, group, events).value)
            )
        if isinstance(node, Arithmetic):
            sides = (self._estimate(side, group, events) for side in (node.left, node.right))
            return _joined(node.operator, *sides)
        return self._leaf(node, group, events)

    def _leaf(self, node: AggregateNode, group: Group, events: int) -> Estimate:
        key = id(node), group.places, events
        if key not in self._known:
            answer = self._answers.get(key[:2])
            if events == 1 and isinstance(node, Linear) and node.counting and answer is not None:
                count = None if answer.is_refused else answer.count
                self._known[key] = Estimate(count, answer.interval)
            else:
                self._known[key] = self._aggregates.estimate(node, group, events=events)
        return self._known[key]


def _compared(test: Compared, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        return False
    return bool(test.function(left, right))


def _rounded(node: Rounding, inner: Estimate) -> Estimate:
    """Return a growing function of an estimate and of its ends, or its absolute value, or NULLIF(…, 0)."""
    if inner.value is None:
        return inner
    if node.function == "nullif":
        low, high = inner.interval or (inner.value, inner.value)
        return Estimate(None) if low <= 0 <= high else inner
    functions: dict[str, Callable[[float], float]] = {
        "round": lambda number: round(number, node.digits),
        "floor": math.floor,
        "ceil": math.ceil,
        "abs": abs,
    }
    function, ends = functions[node.function], None
    if inner.interval is not None:
        low, high = (function(end) if math.isfinite(end) else end for end in inner.interval)
        ends = (low, high)
        if node.function == "abs":
            ends = (0.0 if inner.interval[0] < 0 < inner.interval[1] else min(low, high), max(low, high))
    return Estimate(float(function(inner.value)), ends)


def _joined(sign: str, left: Estimate, right: Estimate) -> Estimate:
    """Return two estimates joined by an operator; their intervals hold together (interval arithmetic)."""
    if left.value is None or right.value is None:
        return Estimate(None)
    divided = sign == "/"
    ends = right.interval
    if divided and (right.value == 0 or (ends is not None and ends[0] <= 0 <= ends[1])):
        return Estimate(None)
    join = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[sign]
    value = float(join(left.value, right.value))
    if left.interval is None or ends is None:
        return Estimate(value)
    corners = [float(join(one, two)) for one in left.interval for two in ends]
    return Estimate(value, (min(corners), max(corners)))
