"""Results: what answers have in common, as tables of other libraries and as pictures."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import installed_by
from pmw.errors import ReleaseError
from pmw.public.result_pictures import Drawn, drawn_figure
from queries.cells import LARGEST_INTEGER

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.figure import Figure

    from pmw.public.contract import RecordsKept

ROWS_SHOWN = 20  # of a table in a notebook or a terminal
Columns: TypeAlias = "Mapping[str, Sequence[Any] | NDArray[Any]]"


class Result(ABC):
    """What questions were answered with: rows that other libraries take over."""

    __slots__ = ()

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns by name: keys or questions, then numbers as float64, then what they are.

        NaN stands where there is no number.
        """

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what has to be known of every number, ready for JSON."""

    @abstractmethod
    def drawn(self, column: str | None) -> Drawn:
        """Return what a picture shows.

        Args:
            column: of numbers; None for the first.

        Raises:
            KeyError: there is no such column.
        """

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas table of the same rows; what has to be known of them stands in its ``attrs``."""
        import pandas as pd

        frame = pd.DataFrame(dict(self.columns()))
        frame.attrs.update(self.facts())
        return frame

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow table with the columns of ``to_pandas``.

        Empty cells stand where that has NaN. A column with values of several types has their texts. What has
        to be known of every number stands in the schema's metadata, under ``pmw``, as JSON.

        Raises:
            ReleaseError: pyarrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError:
            raise ReleaseError(f"Arrow tables need pyarrow: {installed_by('frames')}") from None
        columns = {
            name: pa.array(_plain(column), from_pandas=True) for name, column in self.columns().items()
        }
        return pa.table(columns).replace_schema_metadata({"pmw": json.dumps(self.facts())})

    def to_polars(self) -> pl.DataFrame:
        """Return a Polars table with the columns of ``to_arrow``; it keeps no metadata.

        Raises:
            ReleaseError: polars is not installed.
        """
        try:
            import polars as pl
        except ImportError:
            raise ReleaseError(f"Polars tables need polars: {installed_by('frames')}") from None
        return pl.DataFrame(
            [pl.Series(name, _plain(column), nan_to_null=True) for name, column in self.columns().items()]
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of Arrow's C interface, which other libraries read a table from.

        Raises:
            ReleaseError: pyarrow is not installed.
        """
        stream: object = self.to_arrow().__arrow_c_stream__(requested_schema)
        return stream

    def plot(self, column: str | None = None) -> Figure:
        """Return a picture of one column of numbers with their intervals.

        Over numbers and dates it is a line in a band, else bars with ranges. A second key is told by colours,
        or by a panel for each value where it has more than four.

        Args:
            column: of numbers; None for the first.

        Raises:
            KeyError: there is no such column.
            ReleaseError: matplotlib is not installed, or there is no number to draw.
        """
        return drawn_figure(self.drawn(column))


def facts_of(confidence: float, kept: RecordsKept | None, *, seeded: bool) -> dict[str, Any]:
    """Return what has to be known of every number of a result."""
    more = {} if kept is None else {"records_kept": kept.to_dict()}
    return {"confidence": confidence, "seeded": seeded, **more}


def shown_of(shown: int, rows: int) -> str:
    """Return a line that says how many rows are shown, and of how many; empty where all are."""
    return f"{shown:,} of {rows:,} rows are shown; to_pandas() has all" if shown < rows else ""


def _plain(column: Sequence[Any] | NDArray[Any]) -> Any:
    """Return a column whose values are of one type, as Arrow and Polars take it."""
    if isinstance(column, np.ndarray):
        return column if column.dtype != object else column.tolist()
    kinds = {type(one) for one in column} - {type(None)}
    whole = all(abs(one) <= LARGEST_INTEGER for one in column if type(one) is int)
    if kinds <= {int, float} and not (kinds == {int} and whole):
        return [None if one is None else float(one) for one in column]
    if len(kinds) <= 1 and kinds != {str}:
        return list(column)
    return [None if one is None else _written(one) for one in column]


def _written(value: object) -> str:
    """Return a text that can be written as UTF-8: half a surrogate pair stays an escape."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.encode(errors="backslashreplace").decode()
