"""The lines of the sparse vector benchmark as tables of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

__all__ = ["as_text", "Line", "MEASURES"]

Line: TypeAlias = Mapping[str, object]
MEASURES = {
    "ser": "score error rate over what was selected (SER, as the paper defines it)",
    "ser_filled": "score error rate, empty places as 0 (filled)",
    "fnr": "false negative rate (FNR)",
}
_BESIDE = 4  # values of c in a table


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
    """Yield a table for each measure of each data set at each epsilon, a few c beside each other."""
    for data, epsilon in dict.fromkeys((line["data"], line["epsilon"]) for line in lines):
        chosen = [line for line in lines if (line["data"], line["epsilon"]) == (data, epsilon)]
        limits = list(dict.fromkeys(line["c"] for line in chosen))
        first = chosen[0]
        of = "" if first["epsilon_is"] == "as given" else f" ({first['epsilon_is']})"
        for rate, name in MEASURES.items():
            heading = f"{name}, by c: mean (sd)"
            yield f"{data} ({first['data_is']}), epsilon {epsilon}{of}:\n{heading}"
            for start in range(0, len(limits), _BESIDE):
                shown = limits[start : start + _BESIDE]
                cells = {
                    (line["method"], line["c"]): f"{line[rate]:.3f} ({line[f'{rate}_sd']:.3f})"
                    for line in chosen
                }
                rows: list[list[object]] = [["", *shown]]
                for method in dict.fromkeys(line["method"] for line in chosen):
                    rows.append([method, *(cells[method, limit] for limit in shown)])
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
