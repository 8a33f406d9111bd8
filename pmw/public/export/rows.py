"""Rows: synthetic records drawn from the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pmw.errors import ReleaseError
from pmw.public.state import PublicState
from queries.dates import DateAttribute, DatetimeAttribute
from queries.domain import Domain
from queries.records import CodedRecords, decode_batches, decode_records, time_texts

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 10**8
_BATCH = 10_000  # rows of one part of a CSV file


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How synthetic rows are drawn. Nothing private is drawn here: the model is public.

    Args:
        rows: number of rows, at least 1; None for the session's total, rounded.
        independent: independent draws instead of systematic rounding.
        seed: repeats a drawing; None draws again.

    Raises:
        ReleaseError: the number of rows is out of range.
    """

    rows: int | None = None
    independent: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and not 1 <= self.rows <= _MOST_ROWS:
            raise ReleaseError(f"expected rows from 1 to {_MOST_ROWS:,}, got rows={self.rows}")
        if self.seed is not None and self.seed < 0:
            raise ReleaseError(f"expected a seed of at least 0, got seed={self.seed}")

    def count(self, state: PublicState) -> int:
        """Return the number of rows that are drawn."""
        return round(state.total.value) if self.rows is None else self.rows


def synthetic_frame(state: PublicState, plan: RowPlan) -> pd.DataFrame:
    """Return synthetic rows drawn from the model.

    Privacy: post-processing of released numbers; free.
    """
    return decode_records(*_drawn(state, plan))


def csv_parts(state: PublicState, plan: RowPlan) -> Iterator[bytes]:
    """Return the CSV file of synthetic rows in parts of some rows each: UTF-8, lines end with a line feed.

    The rows are drawn here, as cell numbers of a byte or two each; their values and texts are made part by
    part. Together the parts hold the rows of ``synthetic_frame`` under the same plan.

    Privacy: post-processing of released numbers; free.
    """
    records, generator = _drawn(state, plan)
    batches = decode_batches(records, generator, _BATCH)
    return (_csv(frame, state.domain, header=not place) for place, frame in enumerate(batches))


def _drawn(state: PublicState, plan: RowPlan) -> tuple[CodedRecords, np.random.Generator]:
    generator = np.random.default_rng(plan.seed)
    return state.model.sample(plan.count(state), generator, independent=plan.independent), generator


def _csv(frame: pd.DataFrame, domain: Domain, *, header: bool) -> bytes:
    """Return rows as CSV. A value's text depends on its column's type alone, never on the rows beside it."""
    for attribute in domain:
        if (
            isinstance(attribute, DateAttribute | DatetimeAttribute)
            and frame[attribute.name].dtype.kind == "M"
        ):
            frame[attribute.name] = time_texts(frame[attribute.name], attribute.unit)
    return frame.to_csv(index=False, header=header, lineterminator="\n").encode()
