"""Rows: synthetic records drawn from the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pmw.errors import ReleaseError
from pmw.public.state import PublicState
from queries.records import decode_records

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "RowPlan",
    "synthetic_frame",
]

_MOST_ROWS = 10**8


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


def synthetic_frame(state: PublicState, plan: RowPlan) -> pd.DataFrame:
    """Return synthetic rows drawn from the model.

    Privacy: post-processing of released numbers; free.
    """
    generator = np.random.default_rng(plan.seed)
    count = round(state.total.value) if plan.rows is None else plan.rows
    records = state.model.sample(count, generator, independent=plan.independent)
    return decode_records(records, generator)
