"""Results: what answers have in common, as tables of other libraries, as texts and as pictures."""

from __future__ import annotations

import json
import math
import textwrap
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.figures import GROUP_COLORS, INK, MEASURED, Panel, Series, draw_series, new_figure
from pmw.display.texts import budget_words, counted, installed_by, listed, shortened
from pmw.errors import ReleaseError
from queries.cells import LARGEST_INTEGER
from queries.frozen import dataclass

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.figure import Figure

    from pmw.public.answer import Spent
    from pmw.public.contract import RecordsKept

_MOST_BARS, _MOST_PANELS = 30, 12
_ACROSS = 3  # panels beside each other
_WIDTH, _WIDE = 8.0, 10.0  # inches, of a figure with one panel and with several
_HEADER, _LINE, _FOOT = 0.6, 0.17, 0.5  # inches: above, for each line below, and for the name of an axis
_BAR, _COLORED_BAR = 0.3, 0.17  # inches: of a bar alone, and of one of several colours
_CHART, _SMALL_CHART = 3.6, 1.9  # inches: of a line alone, and of one of several panels
_LETTERS, _LARGE_LETTERS = 105, 75  # of a line above or below a figure, and of a large one
_LONGEST, _LONGEST_LABEL = 34, 48  # letters of a name, and of what stands beside a bar

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """One column of numbers, by the values of some keys.

    Args:
        unit: what they are numbers of; empty where that is not said.
        groups: of each row the values of the keys, as people read them.
        values: of each row its number; None where there is none.
        intervals: of each row the ends of its interval; None where nothing is promised.
        promise: the confidence and the guarantee, in words.
        about: which records are meant; empty for all.
        seeded: the noise can be repeated by anybody.
        ordered: of the keys that are numbers or dates, their values in this order.
        notes: what else has to be known.
    """

    title: str
    unit: str
    keys: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    values: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...]
    promise: str
    about: str = ""
    seeded: bool = False
    ordered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """Where each row of a column is drawn: by its place, its colour and its panel.

    A key stands along the axis, colours tell one apart, and panels the others. Of the places so many of the
    first are joined by a line, or none for bars. What is not told has an empty name, and one empty value.
    """

    axis: str
    color: str
    panel: str
    places: tuple[str, ...]
    connected: int
    colors: tuple[str, ...]
    panels: tuple[str, ...]
    rows: dict[tuple[str, str, str], int]


def promise_words(confidence: float, spent: Spent, kept: RecordsKept | None, *, seeded: bool) -> str:
    """Return what stands below the title of a picture: the confidence of its ranges, and the guarantee."""
    told = budget_words(spent.epsilon_cap, spent.delta, " = ")
    promise = "SEEDED NOISE: no privacy" if seeded else told
    return f"{confidence:.0%} ranges; {promise}" + ("" if kept is None else f"; {kept.describe()}")


def arranged(drawn: Drawn) -> Arrangement:
    """Return where the rows are drawn: a key along the axis, the others as colours and panels.

    Numbers and dates come before other keys. Of the others, one with few values is told by colours.
    """
    values = {
        name: list(dict.fromkeys(row[place] for row in drawn.groups)) for place, name in enumerate(drawn.keys)
    }
    if len(drawn.groups) > 1:  # what is the same in all rows tells none apart
        values = {name: found for name, found in values.items() if len(found) > 1}
    few = [name for name, found in values.items() if len(found) <= len(GROUP_COLORS)]
    lines = [name for name in values if len(drawn.ordered.get(name, ())) > 1]
    many = [name for name in values if name not in few]
    axis = max(lines, key=lambda name: len(values[name]), default=next(iter([*many, *values]), ""))
    color = next((name for name in few if name != axis), "")
    others = [name for name in values if name not in (axis, color)]
    place_of = {name: place for place, name in enumerate(drawn.keys)}

    def value(row: tuple[str, ...], name: str) -> str:
        return row[place_of[name]] if name else ""

    rows = {
        (value(row, axis), value(row, color), ", ".join(value(row, name) for name in others)): number
        for number, row in enumerate(drawn.groups)
    }
    if len(rows) < len(drawn.groups):  # what tells them apart is not among the keys
        return _each_by_itself(drawn)
    order = [one for one in drawn.ordered.get(axis, ()) if one in values[axis]] if axis in lines else []
    places = dict.fromkeys([*order, *(place for place, _, _ in rows)])
    colors, panels = (tuple(dict.fromkeys(key[part] for key in rows)) for part in (1, 2))
    return Arrangement(
        axis, color, listed(others) if others else "", (*places,), len(order), colors, panels, rows
    )


def _each_by_itself(drawn: Drawn) -> Arrangement:
    """Return a place for each row, with its number where others are called alike."""
    names = [" · ".join(row) for row in drawn.groups]
    times = Counter(names)
    told = [
        name if name and times[name] == 1 else f"{name} (row {row})".strip()
        for row, name in enumerate(names, start=1)
    ]
    rows = {(name, "", ""): number for number, name in enumerate(told)}
    return Arrangement(", ".join(drawn.keys), "", "", tuple(told), 0, ("",), ("",), rows)


def drawn_figure(drawn: Drawn) -> Figure:
    """Return a figure of a column of numbers with their intervals."""
    if all(value is None for value in drawn.values):
        raise ReleaseError("there is no number to draw: no row has one")
    found = arranged(drawn)
    panels = _panels(drawn, found)
    foot = _foot(drawn, found, panels)
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    height, colors = _CHART if across == 1 else _SMALL_CHART, len(found.colors)
    if not found.connected:
        bar = _BAR if colors == 1 else 0.1 + _COLORED_BAR * colors
        height = 0.3 + len(panels[0].labels) * bar
    heights = (_HEADER, down * height + _FOOT, max(0.05, _LINE * len(foot)))
    figure = new_figure(_WIDTH if across == 1 else _WIDE, sum(heights))
    parts: Any = figure.subfigures(3, 1, height_ratios=heights)
    _draw_header(parts[0], drawn, found)
    grid = parts[1].subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        draw_series(axes, panel, width=figure.get_figwidth() / across)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    _name_axes(parts[1], grid, drawn, found)
    parts[2].text(0.01, 0.95, "\n".join(foot), fontsize=8, va="top", color=INK, parse_math=False)
    return figure


def _panels(drawn: Drawn, found: Arrangement) -> list[Panel]:
    places = found.places if found.connected else found.places[:_MOST_BARS]
    labels, panels = [shortened(place, _LONGEST_LABEL) for place in places], list[Panel]()
    for panel in found.panels[:_MOST_PANELS]:
        series = []
        for color in found.colors:
            rows = [found.rows.get((place, color, panel)) for place in places]
            values = [None if row is None else drawn.values[row] for row in rows]
            ends = [None if row is None else _ends(drawn, row) for row in rows]
            series.append(Series(shortened(color, _LONGEST), values, ends))
        from_zero = drawn.unit in ("records", "persons")
        panels.append(Panel(shortened(panel, _LONGEST), labels, found.connected, series, from_zero))
    return panels


def _ends(drawn: Drawn, row: int) -> Interval | None:
    """Return the ends of an interval that can be drawn; None where there is none, or one without an end."""
    ends = drawn.intervals[row]
    return ends if ends is not None and all(map(math.isfinite, ends)) else None


def _draw_header(header: Any, drawn: Drawn, found: Arrangement) -> None:
    keys = [shortened(name, _LONGEST) for name in (found.axis, found.color, found.panel) if name]
    title = _value_name(drawn) + (f" by {listed(keys)}" if keys else "")
    title += f", of {shortened(drawn.about, 2 * _LONGEST)}" if drawn.about else ""
    size = 12 if len(title) <= _LARGE_LETTERS else 9
    header.text(0.01, 0.9, shortened(title, _LETTERS), fontsize=size, va="top", color=INK, parse_math=False)
    color = MEASURED if drawn.seeded else INK
    header.text(0.01, 0.42, drawn.promise, fontsize=9, va="top", color=color, parse_math=False)


def _value_name(drawn: Drawn) -> str:
    """Return what the numbers are called, with their unit where the name does not say it."""
    title = shortened(drawn.title, _LONGEST_LABEL)
    return f"{title} ({drawn.unit})" if drawn.unit and drawn.unit not in drawn.title else title


def _name_axes(part: Any, grid: Any, drawn: Drawn, found: Arrangement) -> None:
    value, axis = _value_name(drawn), shortened(found.axis, _LONGEST)
    across, up = (axis, value) if found.connected else (value, axis)
    style = {"fontsize": 9, "color": INK, "parse_math": False}
    part.supxlabel(across, **style)
    part.supylabel(up, **style)
    if not found.color:
        return
    handles, names = grid[0].get_legend_handles_labels()
    legend = part.legend(handles, names, loc="outside right upper", frameon=False, fontsize=9)
    legend.set_title(shortened(found.color, _LONGEST), {"size": 9})
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)


def _foot(drawn: Drawn, found: Arrangement, panels: Sequence[Panel]) -> list[str]:
    told = []
    shown, which = len(panels[0].labels), f"values of {found.axis}" if found.axis else "rows"
    if shown < len(found.places):
        told.append(f"The first {shown:,} of {len(found.places):,} {which} are shown")
    if len(panels) < len(found.panels):
        told.append(f"The first {len(panels)} of {len(found.panels):,} values of {found.panel} are shown")
    rows = range(len(drawn.values))
    refused = sum(drawn.values[row] is None for row in rows)
    bare = sum(drawn.values[row] is not None and _ends(drawn, row) is None for row in rows)
    if refused:
        told.append(f"{counted(refused, 'row')} without a number")
    if bare:
        told.append(f"{counted(bare, 'number')} without a range: nothing is promised there, or it has no end")
    told += drawn.notes
    return [line for text in told for line in textwrap.wrap(f"{text[0].upper()}{text[1:]}.", _LETTERS)]


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
