"""Sparse vector benchmark: margins of the mechanisms, selection of the top c, the variants side by side.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.sparse_vector [--part margins] [--data-dir DIR] [--text]

prints JSON lines. Five parts:

* ``variants``: the algorithms that Lyu, Su and Li (2017) compare, and what sets them apart;
* ``closed-forms``: alpha to find one score among k, AboveThreshold beside the exponential mechanism;
* ``margins``: how far from the threshold a value must be to be told right (``benchmarks/sparse_margins.py``);
* ``selection``: false negative and score error rates of the paper's Section 6
  (``benchmarks/sparse_selection.py``), on Zipf counts and on the tables of ``--data-dir`` (or PMW_DATA_DIR).
  Counts are public: noise is seeded, most of it in floating point, and every line says which. A prefix of a
  table of the paper is run at the epsilon given and at that times the factor by which records are missing.
* ``flawed-proof``: the argument of the paper's Appendix 9.3, on Algorithm 1 (``benchmarks/sparse_proof.py``).

``cpu_seconds`` are of the process; the line of part ``cost`` at the end of a part gives them for the whole of
it. ``--text`` prints tables instead, ``--plot DIR`` also writes figures. ``--figure 4`` draws Figure 4 of the
paper under that number, and runs its methods alone; so do 3 and 5.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from benchmarks.sparse_counts import COUNTS, Counts, read_counts
from benchmarks.sparse_figures import PAPER_FIGURES
from benchmarks.sparse_proof import proof_lines
from benchmarks.sparse_rows import margin_lines
from benchmarks.sparse_runs import LIMITS, Plan, selection_lines
from benchmarks.sparse_selection import METHODS
from benchmarks.sparse_text import Line, as_text
from benchmarks.sparse_variants import closed_form_lines, variant_lines
from benchmarks.tables import TableAbsentError

_PARTS = ("variants", "closed-forms", "margins", "selection", "flawed-proof")
_PAPER = tuple(COUNTS)[:4]  # the paper's four, or what stands in for them

Lines: TypeAlias = Iterator[dict[str, object]]


def main() -> None:
    """Run the parts that the arguments name."""
    arguments = _arguments()
    parts = _parts(arguments)
    counts = _counts(arguments) if arguments.figure or "selection" in parts else []
    plan = _plan(arguments)
    makers: dict[str, Callable[[], Lines]] = {
        "variants": variant_lines,
        "closed-forms": closed_form_lines,
        "margins": margin_lines,
        "selection": lambda: (
            line for one in counts for line in _timed(one.name, selection_lines(one, plan))
        ),
        "flawed-proof": proof_lines,
    }
    lines: list[Line] = []
    for part in parts:
        for line in _timed(part, makers[part]()):
            lines.append(line)
            if not arguments.text:
                print(json.dumps(line), flush=True)
    if arguments.text:
        print(as_text(lines))
    folder = arguments.plot or Path("figures")
    if arguments.figure:
        _plot_paper(lines, counts, arguments.figure, folder)
    elif arguments.plot is not None:
        _plot(lines, counts, folder)


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
    parser.add_argument(
        "--figure",
        action="append",
        type=int,
        choices=(3, 4, 5),
        help="draw the paper's figure of this number, figure-N.png in DIR, or in figures by default",
    )
    arguments = parser.parse_args()
    if arguments.figure and arguments.part:
        parser.error("--figure runs what it draws; leave out --part")
    if any(limit < 1 for limit in arguments.limit or ()) or arguments.runs < 1 or not arguments.epsilon > 0:
        parser.error("expected --limit and --runs of at least 1, and --epsilon above 0")
    return arguments


def _parts(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return what is run: for figures alone, the selection, or nothing for Figure 3."""
    if arguments.figure:
        return ("selection",) if set(arguments.figure) & set(PAPER_FIGURES) else ()
    return tuple(arguments.part or _PARTS)


def _plan(arguments: argparse.Namespace) -> Plan:
    limits = tuple(arguments.limit or LIMITS)
    plan = Plan(limits, arguments.runs, arguments.epsilon, arguments.seed)
    names = {name for number in arguments.figure or () for name in PAPER_FIGURES.get(number, ())}
    return replace(plan, methods=tuple(name for name in METHODS if name in names)) if names else plan


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
    from benchmarks.sparse_figures import margin_figure, rate_figure, score_figure, setting_methods

    folder.mkdir(parents=True, exist_ok=True)
    margins = [line for line in lines if line["part"] == "margins"]
    if margins:
        margin_figure(margins, folder / "sparse-margins.png")
    selection = [line for line in lines if line["part"] == "selection"]
    if selection:
        score_figure(counts, folder / "sparse-scores.png")
        for setting in ("online", "offline"):
            methods = setting_methods(selection, setting)
            title = f"Selecting the top c {setting}"
            rate_figure(selection, methods, title, folder / f"sparse-{setting}.png")


def _plot_paper(lines: list[Line], counts: list[Counts], numbers: list[int], folder: Path) -> None:
    """Draw figures of Lyu, Su and Li (2017) under their numbers, for the tables that are there."""
    from benchmarks.sparse_figures import rate_figure, score_figure

    if not counts:
        sys.exit("no counts to draw: each was skipped, for the reason above")
    folder.mkdir(parents=True, exist_ok=True)
    settings = {4: "interactive", 5: "non-interactive"}
    for number in dict.fromkeys(numbers):
        path = folder / f"figure-{number}.png"
        chosen = [line for line in lines if line["part"] == "selection"]
        if number == 3:
            score_figure(counts, path)
        elif chosen:
            rate_figure(chosen, PAPER_FIGURES[number], f"Figure {number}, {settings[number]} setting", path)
        else:
            sys.exit("nothing to draw: every c was skipped, for the reason above")
        print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
