"""Runner: what commands share: arguments, JSON lines, CPU time, memory, processes of their own, and scores.

Scores are against the truth, which only a public table may show.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import STREAMS, NotApplicableError, TableAbsentError
from pmw.errors import PMWError
from pmw.model.distribution import SyntheticDistribution
from pmw.public.answer import Answer
from pmw.public.export import RowPlan, draw_rows
from pmw.public.options import Opening
from pmw.public.state import PublicState
from queries import CodedRecords

Given = ParamSpec("Given")
Result = TypeVar("Result")


_OPENINGS = [one.value for one in Opening]
_GROUPS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {  # options that several commands have
    "stream": {
        "--stream": {"choices": STREAMS, "default": "random"},
        "--stream-seed": {"type": int, "help": "other questions than the table's own stream"},
        "--queries": {"type": int, "default": 10_000},
    },
    "budget": {"--epsilon": {"default": "1"}, "--delta": {"default": "1e-9"}},
    "opening": {"--opening": {"choices": _OPENINGS, "default": "pairs", "help": "of a session"}},
}


def parser(
    doc: str | None, *groups: str, tables: Iterable[str] = (), seeds: int = 0
) -> argparse.ArgumentParser:
    """Return a parser with the options that several commands have.

    Args:
        doc: of the command; its first line is the description.
        groups: names in _GROUPS, or ``data``: there is a data folder, as where tables can be chosen.
        tables: which can be chosen; none where the command has no tables of the data folder.
        seeds: of the noise, unless told; 0 where they are not counted.
    """
    made = argparse.ArgumentParser(description=(doc or "").split("\n", maxsplit=1)[0])
    if "data" in groups or tables:
        folder = os.environ.get("PMW_DATA_DIR")
        made.add_argument("--data-dir", type=Path, default=None if folder is None else Path(folder))
    if tables:
        made.add_argument("--table", action="append", choices=sorted(tables))
    for name, given in ((name, given) for group in groups for name, given in _GROUPS.get(group, {}).items()):
        made.add_argument(name, **given)
    if seeds:
        made.add_argument("--seeds", type=int, default=seeds)
    return made


def tell(line: Mapping[str, object]) -> None:
    """Print a line of JSON at once."""
    print(json.dumps(line), flush=True)


def pin_threads() -> None:
    """Give one BLAS thread to processes that are started from now on: they read it before they load BLAS."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def alone(work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """Return what a function returns in a new process with one BLAS thread, whose memory is its own."""
    pin_threads()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *given, **named).result()


def tell_alone(
    head: Mapping[str, object],
    work: Callable[Given, Iterable[Mapping[str, object]]],
    *given: Given.args,
    **named: Given.kwargs,
) -> bool:
    """Tell the lines that work in a process of its own returns, each behind a head.

    Returns:
        False where it cannot be done, which is told on stderr with why.
    """
    with skipping(*head.values()) as skipped:
        for line in alone(work, *given, **named):
            tell({**head, **line})
    return not skipped


@contextlib.contextmanager
def skipping(*what: object) -> Iterator[list[object]]:
    """Go on where something cannot be done, and tell on stderr why; what is yielded holds it afterwards."""
    skipped: list[object] = []
    try:
        yield skipped
    except (TableAbsentError, NotApplicableError, PMWError, BrokenProcessPool) as reason:
        print(f"skipped {', '.join(map(str, what))}: {reason}", file=sys.stderr, flush=True)
        skipped += what


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process that a piece of work takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def reset_peak() -> float:
    """Make the peak count from here, where the system can, and return what is held or was held, in MB."""
    with contextlib.suppress(OSError):  # where it cannot, the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """Return the most that the process held, in MB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def used(pid: int) -> tuple[float, float]:
    """Return a process's CPU seconds and the memory that it holds, in MB, as Linux tells them."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    seconds = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    return seconds, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# --- scores ------------------------------------------------------------------------------------------------

_SLACK = 1e-6  # records: intervals and truths are rounded


def promise_scores(
    answers: Sequence[Answer], truth: NDArray[np.float64], records: int
) -> dict[str, float | None]:
    """Return which share of the answers have an interval, how many hold the truth, and how wide they are."""
    bars = [(*one.interval, true) for one, true in zip(answers, truth.tolist(), strict=True) if one.interval]
    low, high, exact = np.array(bars).reshape(-1, 3).T
    held = (low - _SLACK <= exact) & (exact <= high + _SLACK)
    return {
        "coverage": round(float(held.mean()), 5) if bars else None,
        "with_interval": round(len(bars) / max(1, len(answers)), 4),
        "median_half_width": round(float(np.median(high - low)) / 2 / records, 6) if bars else None,
    }


def exported_rows(model: SyntheticDistribution, state: PublicState | None, seed: int) -> CodedRecords:
    """Return as many rows as a model's total says: as its session exports them, or drawn from it alone."""
    if state is not None:
        return draw_rows(state, RowPlan(seed=seed)).records
    return model.sample(round(model.total), np.random.default_rng(seed), independent=False)


def cell_fractions(records: CodedRecords, scope: tuple[str, ...]) -> NDArray[np.float64]:
    """Return the fraction of the records in each cell of a scope: float64, one axis."""
    places = [records.domain.index(name) for name in scope]
    shape = records.domain.scope_shape(scope)
    cells = np.ravel_multi_index(tuple(records.columns[place] for place in places), shape)
    fractions: NDArray[np.float64] = np.bincount(cells, minlength=math.prod(shape)) / max(1, len(records))
    return fractions
