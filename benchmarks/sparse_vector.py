"""Sparse vector benchmark: margins of the mechanisms, selection of the top c, the variants side by side.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.sparse_vector [--part margins] [--data-dir DIR] [--text]

prints JSON lines. Four parts:

* ``variants``: the algorithms that Lyu, Su and Li (2017) compare, and what sets them apart;
* ``closed-forms``: alpha to find one score among k, AboveThreshold beside the exponential mechanism;
* ``margins``: how far from the threshold a value must be to be told right (``benchmarks/sparse_margins.py``);
* ``selection``: false negative and score error rates of the paper's Section 6
  (``benchmarks/sparse_selection.py``), on Zipf counts and on the tables of ``--data-dir`` (or PMW_DATA_DIR).
  Counts are public: noise is seeded and in floating point, and every line says so.

``cpu_seconds`` are of the process; the line of part ``cost`` at the end of a part gives them for the whole of
it. ``--text`` prints tables instead, ``--plot DIR`` also writes figures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from benchmarks.sparse_counts import COUNTS, Counts, read_counts
from benchmarks.sparse_rows import margin_lines
from benchmarks.sparse_runs import LIMITS, Plan, selection_lines
from benchmarks.sparse_text import Line, as_text
from benchmarks.sparse_variants import closed_form_lines, variant_lines
from benchmarks.tables import TableAbsentError

_PARTS = ("variants", "closed-forms", "margins", "selection")
_PAPER = tuple(COUNTS)[:4]  # the paper's four, or what stands in for them

Lines: TypeAlias = Iterator[dict[str, object]]


def main() -> None:
    """Run the parts that the arguments name."""
    arguments = _arguments()
    counts = _counts(arguments) if "selection" in (arguments.part or _PARTS) else []
    plan = Plan(tuple(arguments.limit or LIMITS), arguments.runs, arguments.epsilon, arguments.seed)
    makers: dict[str, Callable[[], Lines]] = {
        "variants": variant_lines,
        "closed-forms": closed_form_lines,
        "margins": margin_lines,
        "selection": lambda: (
            line for one in counts for line in _timed(one.name, selection_lines(one, plan))
        ),
    }
    lines: list[Line] = []
    for part in arguments.part or _PARTS:
        for line in _timed(part, makers[part]()):
            lines.append(line)
            if not arguments.text:
                print(json.dumps(line), flush=True)
    if arguments.text:
        print(as_text(lines))
    if arguments.plot is not None:
        _plot(lines, counts, arguments.plot)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    data = os.environ.get("PMW_DATA_DIR")
    parser.add_argument(
        "--part", action="append", choices=_PARTS, help="several may be named; all by default"
    )
    parser.add_argument("--data-dir", type=Path, default=None if data is None else Path(data))
    parser.add_argument("--counts", action="append", choices=[*COUNTS, "all"])
    parser.add_argument("--limit", action="append", type=int, metavar="C", help="select C; 25, 50, ... 300")
    parser.add_argument("--runs", type=int, default=100, help="of each method, for each C")
    parser.add_argument("--epsilon", type=float, default=0.1, help="of a selection")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--text", action="store_true", help="print tables instead of JSON lines")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write figures there")
    return parser.parse_args()


def _counts(arguments: argparse.Namespace) -> list[Counts]:
    """Return the counts that were asked for and are there; the others are named on stderr with why."""
    names = arguments.counts or _PAPER
    found = []
    for name in COUNTS if "all" in names else names:
        try:
            found.append(read_counts(name, arguments.data_dir))
        except TableAbsentError as reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)
    return found


def _timed(what: str, lines: Lines) -> Lines:
    """Yield the lines, and then what they took."""
    started = time.process_time()
    yield from lines
    yield {"part": "cost", "of": what, "cpu_seconds": round(time.process_time() - started, 2)}


def _plot(lines: list[Line], counts: list[Counts], folder: Path) -> None:
    from benchmarks.sparse_figures import margin_figure, rate_figure, score_figure

    folder.mkdir(parents=True, exist_ok=True)
    margins = [line for line in lines if line["part"] == "margins"]
    if margins:
        margin_figure(margins, folder / "sparse-margins.png")
    selection = [line for line in lines if line["part"] == "selection"]
    if selection:
        score_figure(counts, folder / "sparse-scores.png")
        for setting in ("online", "offline"):
            rate_figure(selection, setting, folder / f"sparse-{setting}.png")


if __name__ == "__main__":
    main()
