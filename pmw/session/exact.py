"""Exact forms: results on their way to a Python client, as the session itself would give them.

A client asks for them by the header Accept. They are the codec's forms, so that no digit is lost and reading
is strict; all others get the JSON that is documented. A table of answers goes as columns.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.loop.loop import Forecast
from pmw.model.measurement import QueryMeasurement, RowsMeasurement
from pmw.public.answer import Spent
from pmw.public.answers import SOURCES, Answers
from pmw.public.codec import FormError, dumps, form_of, loads, read, register
from pmw.public.contract import Contract, RecordsKept, guarantee, published_contract
from pmw.public.error_quantiles import TypicalError
from pmw.public.ledger import Ledger, LedgerLine
from pmw.public.quotes import Quote
from pmw.public.state import PublicState
from pmw.public.status import Reserve, Status
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable
from pmw.session.accounts import Activity, Booked
from pmw.session.explaining import ExplainedScope, Explanation
from queries.date_parts import NUMBERS, begins_in
from queries.dates import Periods
from queries.frozen import dataclass
from queries.schema import stored_schema

Foreseen: TypeAlias = Forecast

_Plain: TypeAlias = str | int | float | bool | None
# Fields that are told apart, or not at all, and their values until then.
_APART: dict[Any, dict[str, Any]] = {Answers: {"asked": None}, AnswerTable: {"rows": ()}}
_ENDS = 5  # numbers of an estimate: the value, the ends of its interval, and of its typical errors
_UNREADABLE = (FormError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """A session, as whoever may ask it is told.

    Args:
        contract: what was fixed at opening; a seed is told as 0.
        total: the number of records, as released.
        held: scopes whose counts are held without a test, in the order of their measurements.
    """

    contract: Contract
    total: float
    held: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, state: PublicState) -> Described:
        """Return what is told of a session."""
        single = QueryMeasurement | RowsMeasurement
        scopes = (one.scope for one in state.measurements if not isinstance(one, single))
        held = tuple(dict.fromkeys(scope for scope in scopes if scope))
        return cls(published_contract(state.contract), state.total.records, held)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON: the schema as an object, and what goes with it."""
        domain = self.contract.domain
        declared = json.dumps(tomllib.loads(stored_schema(domain)), default=lambda moment: moment.isoformat())
        form = json.loads(declared)
        for attribute, entry in zip(domain, form["attributes"], strict=True):
            entry["cells"] = attribute.size
            if isinstance(attribute, Periods):
                entry["parts"] = [
                    one
                    for one, period in NUMBERS.items()
                    if period in attribute.widths and begins_in(attribute.width, period)
                ]
        return {
            **form,
            "records": self.total,
            "guarantee": guarantee(self.contract),
            "confidence": self.contract.options.confidence,
            "held": [list(scope) for scope in self.held],
        }


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """The rows of a table of answers, as columns.

    Args:
        values: of each row the values of its keys.
        numbers: float64, shape (rows, titles, 5): value, low, high, and the ends of typical errors; NaN where
            there is none.
        sources: int64, shape (rows, titles), places in ``SOURCES``.
        flags: int64, shape (rows, titles): 1 where cells decide the condition, and 2 where the interval holds
            if there are records; and 4 times what a withheld number is below.
    """

    values: tuple[tuple[_Plain, ...], ...]
    numbers: NDArray[np.float64]
    sources: NDArray[np.int64]
    flags: NDArray[np.int64]

    @classmethod
    def of(cls, table: AnswerTable) -> TableRows:
        """Return the rows of a table."""
        shape, found = (len(table.rows), len(table.titles)), list(table.estimates())
        flags = [one.aligned + 2 * one.conditional + 4 * (one.below or 0) for one in found]
        return cls(
            tuple(keys for keys, _ in table.rows),
            np.array([_numbers(one) for one in found], dtype=np.float64).reshape(*shape, _ENDS),
            np.array([SOURCES.index(one.source) for one in found], dtype=np.int64).reshape(shape),
            np.array(flags, dtype=np.int64).reshape(shape),
        )

    def put_into(self, table: AnswerTable) -> AnswerTable:
        """Return a table that has no rows yet with these; what does not fit it is refused."""
        shape = len(self.values), len(table.titles)
        known = self.numbers.shape == (*shape, _ENDS) and self.sources.shape == self.flags.shape == shape
        known = known and bool(((self.sources >= 0) & (self.sources < len(SOURCES))).all())
        known = known and all(0 <= place < len(table.keys) for row in table.totals for place in row)
        known = known and len(table.totals) in (0, shape[0]) and 0 < table.confidence < 1
        if not known or any(len(keys) != len(table.keys) for keys in self.values):
            raise FormError("its columns do not fit each other")
        columns = zip(self.numbers.tolist(), self.sources.tolist(), self.flags.tolist(), strict=True)
        groups = (tuple(map(_estimate, *row)) for row in columns)
        return replace(table, rows=tuple(zip(self.values, groups, strict=True)))


# What a session gives that has no other form; these alone are told to clients.
TYPES: tuple[type, ...] = (
    Spent,
    RecordsKept,
    Reserve,
    Answers,
    AnswerTable,
    TableRows,
    Quote,
    Forecast,
    ExplainedScope,
    Explanation,
    TypicalError,
    Status,
    LedgerLine,
    Ledger,
    Booked,
    Activity,
    Described,
)
register({one: {} for one in TYPES})


def exact_text(result: Any) -> str:
    """Return a result of a session as text, to the last digit."""
    form = form_of(result, without=(*_APART.get(type(result), ()),))
    return dumps({**form, "rows": form_of(TableRows.of(result))} if isinstance(result, AnswerTable) else form)


def read_exact(kind: Any, text: str) -> Any:
    """Return the result of a text.

    Args:
        kind: its type, such as ``Answers`` or ``tuple[Activity, ...]``.
        text: as ``exact_text`` wrote it.
    """
    try:
        form = loads(text)
        rows = read(TableRows, form.pop("rows")) if kind is AnswerTable else None
        found = read(kind, form, given=_APART.get(kind))
        if rows is not None:
            return rows.put_into(found)
    except _UNREADABLE as error:
        raise FormError(str(error) if isinstance(error, FormError) else "it cannot be read") from None
    return _checked(found) if isinstance(found, Answers) else found


def _checked(answers: Answers) -> Answers:
    size = len(answers)
    flat = (answers.source, answers.version, answers.share, answers.kind, answers.aligned, answers.charged)
    fits = all(one.shape == (size,) for one in flat) and answers.count.ndim == 1
    fits = fits and answers.interval.shape == answers.typical.shape == (size, 2)
    known = fits and bool((answers.source < len(SOURCES)).all() and (answers.kind < len(answers.kinds)).all())
    if not known or not 0 < answers.confidence < 1 or answers.total <= 0:
        raise FormError("its columns do not fit each other")
    return answers


def _numbers(one: Estimate) -> tuple[float, ...]:
    none = (math.nan, math.nan)
    return (math.nan if one.value is None else one.value, *(one.interval or none), *(one.typical or none))


def _estimate(numbers: Sequence[float], source: int, flag: int) -> Estimate:
    value, low, high, least, most = numbers
    return Estimate(
        None if math.isnan(value) else value,
        None if math.isnan(low) else (low, high),
        SOURCES[source],
        None if math.isnan(least) else (least, most),
        bool(flag & 1),
        bool(flag & 2),
        below=flag >> 2 or None,
    )
