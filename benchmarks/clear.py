"""Clear benchmark: how near the answers to natural questions are, and how near their bars say that they are.

    python -m benchmarks.clear --data-dir DIR [--table acs] [--stream natural] [--queries 400] [--seeds 3]

prints JSON lines: for each table and seed one for all questions, then one by number of attributes. Questions
are asked one after the other of a session that was just opened. ``--analysts 10`` lets as many analysts take
turns, each with an equal share.

* ``natural``: conjunctions of 1 to 5 attributes, each of which selects a value, or a range about a value, of
  a record that was drawn. Ranges have any ends and widths up to a third of the attribute;
* ``dashboard``: statements, each a count by one or two attributes under a natural condition on one or two
  others. ``--queries`` counts statements, 30 by default.

Errors and half-widths are fractions of the records. ``unclear`` is the share of the bars whose half-width is
above a hundredth; ``ratio`` is the 90 % quantile of half-widths over the 95 % quantile of errors. ``opened``
and ``spent`` are shares of the budget. Tables are public, noise is seeded.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import parser, tell_alone
from benchmarks.tables import MADE_UP, TABLES, Case, StreamChoice
from pmw.session.asking import aggregate_statement
from queries import CodedRecords, LinearQuery
from queries.domain import OrderedAttribute
from queries.statements import Statement

if TYPE_CHECKING:
    import pandas as pd

_ALL = {**TABLES, **MADE_UP}
_MOST_ATTRIBUTES = 5
_MOST_GROUPS = 600  # of a statement
_CLEAR = 0.01  # half-width, as a fraction of the records
_Cells = dict[str, tuple[int, int]]  # of each attribute of a condition, its first and last cell


class Asked(NamedTuple):
    """Questions that are asked together: one, or the groups of a statement."""

    condition: _Cells
    by: tuple[str, ...] = ()


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "budget", "opening", tables=_ALL, seeds=3)
    made.add_argument("--stream", choices=list(_STREAMS), default="natural")
    made.add_argument("--queries", type=int, help="questions, or statements of a dashboard")
    made.add_argument("--analysts", type=int, default=1, help="who take turns, each with an equal share")
    made.add_argument("--reserve", type=Fraction, help="part of the budget for questions; a session's own")
    made.add_argument("--expect", action="store_true", help="open with these questions as expected ones")
    given = made.parse_args()
    given.queries = given.queries or (30 if given.stream == "dashboard" else 400)
    for table, seed in itertools.product(given.table or list(TABLES), range(given.seeds)):
        tell_alone({"table": table, "stream": given.stream, "seed": seed}, _measure, table, seed, given)


# --- streams ------------------------------------------------------------------------------------------------


def natural(records: CodedRecords, size: int, seed: int) -> Iterator[Asked]:
    """Yield conjunctions of 1 to 5 attributes that hold of a record."""
    generator = np.random.default_rng(seed)
    for _ in range(size):
        several = int(generator.integers(1, min(_MOST_ATTRIBUTES, len(records.domain)) + 1))
        yield Asked(_natural_condition(records, several, generator))


def _natural_condition(
    records: CodedRecords, several: int, generator: np.random.Generator, without: Sequence[str] = ()
) -> _Cells:
    """Return ranges and values of some attributes, all of which hold of one record that is drawn."""
    domain = records.domain
    names = [name for name in domain.names if name not in without]
    chosen = sorted(generator.choice(len(names), min(several, len(names)), replace=False).tolist())
    place = int(generator.integers(len(records)))
    condition: _Cells = {}
    for name in (names[one] for one in chosen):
        cell, size = int(records.columns[domain.index(name)][place]), domain[name].base_size
        condition[name] = cell, cell
        if isinstance(domain[name], OrderedAttribute) and cell < size:
            width = int(generator.integers(max(2, size // 3)))
            low = max(0, cell - int(generator.integers(width + 1)))
            condition[name] = low, min(size - 1, low + width)
    return condition


def dashboard(records: CodedRecords, size: int, seed: int) -> Iterator[Asked]:
    """Yield statements: counts by one or two attributes, under a condition on one or two others."""
    generator, domain = np.random.default_rng(seed), records.domain
    while size:
        several = int(generator.integers(1, 3))
        chosen = sorted(generator.choice(len(domain), several, replace=False).tolist())
        by = tuple(domain.names[place] for place in chosen)
        if domain.scope_size(by) <= _MOST_GROUPS:
            size -= 1
            yield Asked(_natural_condition(records, int(generator.integers(1, 3)), generator, by), by)


_STREAMS: dict[str, Callable[[CodedRecords, int, int], Iterator[Asked]]] = {
    "natural": natural,
    "dashboard": dashboard,
}

# --- a session ----------------------------------------------------------------------------------------------


def _measure(table: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, object]]:
    import pandas as pd

    case = _ALL[table](arguments.data_dir, StreamChoice(seed=0, size=0))
    asked = list(_STREAMS[arguments.stream](case.records, arguments.queries, seed))
    options: dict[str, Any] = {"seed": seed, "opening": arguments.opening, "reserve": arguments.reserve}
    if arguments.expect:
        options["expected"] = pmw.expected_questions(_questions(case.domain, asked), case.domain)
    started = time.process_time()
    with case.opened((arguments.epsilon, arguments.delta), **options) as session:
        opened = session.state.ledger.share
        askers: list[pmw.Session | pmw.Analyst] = [session]
        if arguments.analysts > 1:
            share = 1 / arguments.analysts
            askers = [session.analyst(f"analyst {place}", share) for place in range(arguments.analysts)]
        found = [_answered(asker, one) for asker, one in zip(itertools.cycle(askers), asked, strict=False)]
        facts = {
            "statements" if arguments.stream == "dashboard" else "questions": len(asked),
            "opened": round(opened, 4),
            "spent": round(session.state.ledger.share, 4),
            "cpu_seconds": round(time.process_time() - started, 2),
            "paid": sum(charge > 0 for _, charge in found),
        }
    rows = [
        {"attributes": len(one.condition) + len(one.by), "truth": true, **ends}
        for one, (answers, _) in zip(asked, found, strict=True)
        for true, ends in zip(_truth(case, one), answers, strict=True)
    ]
    frame = pd.DataFrame(rows)
    frame[["truth", "value", "low", "high"]] /= case.size
    by_order = frame.groupby("attributes")
    every: dict[str, object] = {"attributes": "all", **facts, **_scores(frame)}
    return [every, *({"attributes": order, **_scores(some)} for order, some in by_order)]


def _questions(domain: pmw.Domain, asked: Sequence[Asked]) -> Iterator[LinearQuery | Statement]:
    """Yield what is asked, one by one."""
    for one in asked:
        query = LinearQuery.cells(domain, one.condition)
        yield aggregate_statement("count", "", query, one.by, 0.5) if one.by else query


def _answered(asker: pmw.Session | pmw.Analyst, asked: Asked) -> tuple[list[dict[str, float]], float]:
    """Return counts and the ends of their bars, in records, and what was charged for them."""
    before = asker.state.ledger.share
    query = LinearQuery.cells(asker.domain, asked.condition)
    if asked.by:
        rows = asker.tabulate(aggregate_statement("count", "", query, asked.by, 0.5)).estimates()
        found = [(one.value, one.interval) for one in rows]
    else:
        answer = asker.ask(query)
        found = [(answer.count, answer.interval)]
    ends = [
        {"value": math.nan if value is None else value, "low": low, "high": high}
        for value, bar in found
        for low, high in [bar or (0.0, math.inf)]
    ]
    return ends, asker.state.ledger.share - before


def _truth(case: Case, asked: Asked) -> NDArray[np.float64]:
    """Return the true counts: of a statement, those of its groups in the order of their values."""
    inside = np.ones(case.size, dtype=np.bool_)
    for name, (low, high) in asked.condition.items():
        column = case.records.columns[case.domain.index(name)]
        inside &= (column >= low) & (column <= high)
    cells = np.zeros(case.size, dtype=np.int64)
    for name in asked.by:
        cells = cells * case.domain[name].size + case.records.columns[case.domain.index(name)]
    return np.bincount(cells[inside], minlength=case.domain.scope_size(asked.by)).astype(np.float64)


def _scores(answers: pd.DataFrame) -> dict[str, object]:
    """Return the figures of answers with their bars beside the truth, all as fractions of the records."""
    truth, low, high = (answers[name].to_numpy() for name in ("truth", "low", "high"))
    errors, widths = np.abs(answers["value"].to_numpy() - truth), (high - low) / 2
    narrow, near = float(np.quantile(widths, 0.9)), float(np.quantile(errors, 0.95))
    return {
        "answers": len(truth),
        "mean": round(float(errors.mean()), 6),
        "p95": round(near, 6),
        "max": round(float(errors.max()), 6),
        "median_half_width": round(float(np.median(widths)), 6),
        "p90_half_width": round(narrow, 6),
        "unclear": round(float(np.mean(widths > _CLEAR)), 4),
        "ratio": round(narrow / near, 2) if near else None,
        "coverage": round(float(np.mean((low <= truth + 1e-9) & (truth <= high + 1e-9))), 4),
    }


if __name__ == "__main__":
    main()
