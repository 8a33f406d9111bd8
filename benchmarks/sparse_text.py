"""The lines of the sparse vector benchmark as tables of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

__all__ = ["as_text", "Line"]

Line: TypeAlias = Mapping[str, object]


def as_text(lines: Sequence[Line]) -> str:
    """Return the tables of the parts that occur, in that order, with an empty line between them."""
    parts = list(dict.fromkeys(str(line["part"]) for line in lines))
    tables: list[str] = []
    for part in parts:
        chosen = [line for line in lines if line["part"] == part]
        if part == "margins":
            tables += _margins(chosen)
        elif part == "selection":
            tables += _selection(chosen)
        elif part != "cost":
            tables.append(_aligned([list(chosen[0])[1:], *(list(line.values())[1:] for line in chosen)]))
    return "\n\n".join(tables)


def _margins(lines: list[Line]) -> Iterable[str]:
    for delta in dict.fromkeys(line["delta"] for line in lines):
        chosen = [line for line in lines if line["delta"] == delta]
        heads = {_stream(line): f"k={line['queries']:,} c={line['positives']}" for line in chosen}
        title = f"margin at epsilon {chosen[0]['epsilon']:g}, delta {delta:g} (times below the textbook's)"
        cells = {
            (line["mechanism"], _stream(line)): f"{line['margin']:.4g} ({line['textbook_over_margin']:.3g})"
            for line in chosen
        }
        names = dict.fromkeys(line["mechanism"] for line in chosen)
        rows: list[list[object]] = [[title, *heads.values()]]
        rows += [[name, *(cells[name, head] for head in heads)] for name in names]
        yield _aligned(rows)


def _stream(line: Line) -> tuple[object, object]:
    return line["queries"], line["positives"]


def _selection(lines: list[Line]) -> Iterable[str]:
    for data in dict.fromkeys(line["data"] for line in lines):
        chosen = [line for line in lines if line["data"] == data]
        limits = list(dict.fromkeys(line["c"] for line in chosen))
        for rate, title in (
            ("fnr", "false negative rate"),
            ("ser", "score error rate"),
            ("ser_filled", "score error rate, empty places as 0"),
        ):
            cells = {(line["method"], line["c"]): f"{line[rate]:.3f}" for line in chosen}
            head = f"{data} ({chosen[0]['data_is']}): {title}, by c"
            rows: list[list[object]] = [[head, *limits]]
            for method in dict.fromkeys(line["method"] for line in chosen):
                rows.append([method, *(cells[method, limit] for limit in limits)])
            yield _aligned(rows)


def _aligned(rows: Sequence[Sequence[object]]) -> str:
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in texts) for place in range(len(texts[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in texts
    )
