"""An offline release: a model, its measurements and its ledger. All of it is public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.errors import ReleaseError
from pmw.model import Measurement, QueryMeasurement, SyntheticDistribution, half_width
from pmw.public.answer import Answer, Spent
from pmw.public.answers import Answers
from pmw.public.bars import answers_untested
from pmw.public.charges import Event, query_sensitivity
from pmw.public.export import RowPlan, export, synthetic_frame
from pmw.public.ledger import Ledger
from pmw.public.state import PublicState
from queries.errors import QueryError
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.parsing import parse_where

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OfflineRelease:
    """What ``fit_workload`` releases.

    Args:
        state: everything released, in the form of a session that is closed.
        ledger: every charge, in order.
        workload: the questions that it was made for, each once; empty where scopes were given.
    """

    state: PublicState
    ledger: Ledger
    workload: tuple[LinearQuery, ...]

    @property
    def model(self) -> SyntheticDistribution:
        """The synthetic distribution."""
        return self.state.model

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Every released number but the total, in order: opening first."""
        return self.state.measurements

    def answer(self, question: str | Mapping[str, Any] | LinearQuery) -> Answer:
        """Return the model's answer to a question, with an interval where measured numbers cover it; free.

        Raises:
            QueryError: the question is refused, or was made for another domain.
        """
        query = question if isinstance(question, LinearQuery) else parse_where(question, self.state.domain)
        if query.domain != self.state.domain:
            raise QueryError("the query was made for another domain", code="bad_request")
        budget = self.state.contract.budget
        spent = Spent(self.state.ledger.share, float(budget.epsilon), float(budget.delta))
        return answers_untested(self.state, spent)(query)

    def answers(self) -> Answers:
        """Return the answers to the workload's questions, in their order; free."""
        return Answers(tuple(self.answer(query) for query in self.workload), self.workload)

    def synthetic_records(
        self, rows: int | None = None, *, seed: int | None = None, independent: bool = False
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free.

        Args:
            rows: number of rows; None for the released total, rounded.
            seed: repeats a drawing; None draws again.
            independent: independent draws instead of systematic rounding.

        Raises:
            ReleaseError: the number of rows is out of range.
        """
        return synthetic_frame(self.state, RowPlan(rows, independent, seed))

    def export(
        self,
        path: str | Path,
        plan: RowPlan | None = None,
        *,
        format: str | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """Write a synthetic table or the measurements, with a manifest beside it, and return that; free.

        Args:
            path: the file to write.
            plan: how rows are drawn; measurements have none.
            format: csv, parquet or measurements; None goes by the file's name (.csv, .parquet).
            force: overwrite existing files.

        Raises:
            ReleaseError: the format is unknown or has no rows to plan, a file exists and ``force`` is not
                given, or a file cannot be written.
        """
        return export(self.state, Path(path), plan, format=format, force=force)

    def __repr__(self) -> str:
        rounds = len(self.measurements)
        return f"OfflineRelease({self.state.domain.name!r}, {rounds} measurements, {self.ledger.sentence()})"


def last_measured(release: OfflineRelease) -> QueryMeasurement:
    """Return what the last round measured, with the answer of the model that it was measured against.

    Raises:
        ReleaseError: there was no round, or marginals were measured.
    """
    last = release.state.measured[-1] if release.state.measured else None
    if not isinstance(last, QueryMeasurement):
        raise ReleaseError("expected a release with a round that measured a question, got none")
    return last


def largest_error(release: OfflineRelease, *, beta: float = 0.05) -> float:
    """Return a bound, in records, on the errors that the last round's model made on the whole workload.

    The measured error, what its noise may hide, and what the choice may have missed: 2 Delta ln(2k/beta) /
    epsilon. With probability 1 - beta no question's error was larger. It holds for the released model where
    the last round left it as it was: after an early stop.

    Args:
        release: one of questions, with at least one round.
        beta: failure probability, half of it for each of the two.

    Raises:
        ReleaseError: there was no round, or marginals were measured.

    Privacy: post-processing of the last measurement and of the public prices.

    Source: Dwork and Roth (2014), Corollary 3.12, for the choice.
    """
    last, options = last_measured(release), release.state.contract.options
    chosen = [line.epsilon for line in release.ledger.lines if line.event == Event.SELECTION]
    missed = (
        2 * query_sensitivity(options) * math.log(2 * len(release.workload) / beta) / float(chosen[-1] or 0)
    )
    noise = half_width(last.noise, 1 - beta / 2)
    return (abs(last.units - last.model_units) + missed) / UNITS + noise
