"""Synthesis: a table of synthetic rows with all of a budget, of a session that nothing more is asked of.

The session keeps no reserve. Where it opens without pairs of attributes, what opening leaves is spent on them
(``Session.finish_for``). Then it is closed. All else is post-processing of what it released.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Number
from pmw.public.contract import agreed
from pmw.public.export import RowPlan, draw_rows, drawn_table
from pmw.public.options import Options
from pmw.public.report import Facts, write_report
from pmw.public.state import PublicState
from pmw.public.status import held_pairs
from pmw.session.expected import expected_questions, joined_questions
from pmw.session.opening import open_session
from queries.cells import nearest
from queries.domain import Domain, require_domain
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.plain_values import shown_text

if TYPE_CHECKING:
    import pandas as pd

    from pmw.data import Table
    from pmw.session.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Synthesis:
    """A synthetic table, and the released numbers that it was drawn from. Made by ``synthesize``.

    Args:
        frame: synthetic rows, as many as the released number of records.
        manifest: what the rows are, how they were made and what is guaranteed, ready for JSON.
        facts: what was released, all of it public.
    """

    frame: pd.DataFrame
    manifest: dict[str, Any]
    facts: Facts

    @property
    def state(self) -> PublicState:
        """Everything that was released, and the model."""
        return self.facts.state

    def sample(
        self, rows: int | None = None, *, seed: int | None = None, where: str | None = None
    ) -> pd.DataFrame:
        """Return other synthetic rows of the same model; free.

        Args:
            rows: number of rows; None for the model's number of records, or its count of ``where``.
            seed: repeats a drawing; None draws again.
        """
        return draw_rows(self.state, RowPlan(rows, seed=seed, where=where)).frame()

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write the report on what was released as one HTML page, with how near counts of rows are; free."""
        write_report(self.facts, Path(path), force=force)


def synthesize(
    data: Table,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number = 0,
    target: str | None = None,
    options: Options | None = None,
) -> Synthesis:
    """Return a synthetic table of a sensitive one, with all of a budget.

    Args:
        data: a table, as ``open_session`` takes it.
        domain: the declared attributes.
        epsilon: of the guarantee; positive.
        delta: of the guarantee; 0 <= delta < 1. With a small positive one, such as 1e-9, all pairs of
            attributes are measured; with 0 as many as the budget is enough for.
        target: an attribute that a model will predict: its pairs with all others are measured more precisely.
        options: further choices; ``expected`` questions are measured more precisely, too.

    Raises:
        BudgetError: a choice is out of range, the target is not declared, or a reserve is asked for.
        DataError: the table cannot be read or lacks a declared column.

    Privacy: everything in the result is together (epsilon, delta)-differentially private for the neighbours
        that ``options`` declare: it is one session, which is closed. Drawing further rows is free.
    """
    chosen = synthesis_options(domain, Budget.of(epsilon, delta), target, options)
    with open_session(data, domain, epsilon=epsilon, delta=delta, options=chosen) as session:
        facts = finished(session, target)
    drawn, manifest = drawn_table(facts.state, RowPlan(), "frame")
    return Synthesis(drawn.frame(), manifest, facts)


def synthesis_options(
    domain: Domain, budget: Budget, target: str | None = None, options: Options | None = None
) -> Options:
    """Return the options of a session that is opened for its rows alone.

    Half of what opening spends goes by the expected questions, those about the target among them. Where
    opening measures the whole table, it has all pairs with the target as it is.

    Privacy: no table is read; nothing is spent.
    """
    from pmw.planning.opening import open_contract  # late, as in ``open_session``

    require_domain(domain)
    options = options or Options()
    if options.reserved:
        raise BudgetError(
            "a synthetic table keeps no part of the budget for questions; leave the reserve out"
        )
    if not options.measures_apart:
        raise BudgetError(
            "rows have no error bars: leave test = query, simultaneous and accuracy out for a synthetic table"
        )
    is_text = issubclass(type(target), str)  # not what a table in its place says of itself
    if target is not None and not (is_text and target in domain.names):
        hint = nearest(target, domain.names) if is_text else ""
        raise BudgetError(f"expected a declared attribute as target, got {shown_text(target)}{hint}")
    chosen = replace(options, reserve=Fraction(0), expected_queries=0)
    fixed, asked = agreed(domain, replace(chosen, expected=None))
    _, plan = open_contract(fixed, budget, asked)
    more = [] if target is None or plan.order == 1 else _pairs(domain, target)
    if not more:  # pairs are measured when the session is finished, or with the whole table
        return chosen
    found = expected_questions(more, domain)
    both = found if options.expected is None else joined_questions(options.expected, found)
    return replace(chosen, expected=both)


def _pairs(domain: Domain, target: str | None) -> list[LinearQuery]:
    wide = [name for name in domain.names if domain[name].size > 1]
    pairs = (pair for pair in itertools.combinations(wide, 2) if target in (None, *pair))
    return [LinearQuery.cells(domain, dict.fromkeys(pair, (0, 0))) for pair in pairs]


def finished(session: Session, target: str | None = None) -> Facts:
    """Spend what opening left on pairs that it did not measure, close the session, and return its facts.

    Args:
        session: opened with ``synthesis_options``.

    Privacy: what is measured follows from the schema and the options.
    """
    if session.state.plan and held_pairs(session.state).missing:
        session.finish_for(_pairs(session.domain, target))
    else:
        session.finalize()
    return session.facts()
