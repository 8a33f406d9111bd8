"""Runner: each method in a process of its own, with one BLAS thread, so that its memory is its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.methods import METHODS, NotApplicableError, Outcome, Settings
from benchmarks.scores import error_scores, marginal_scores, promise_scores, true_counts
from benchmarks.streams import StreamChoice
from benchmarks.tables import TABLES, Case, TableAbsentError

__all__ = ["BLAS_THREADS", "Job", "Measured", "peak_mb", "reset_peak", "run_all", "scored"]

BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Job:
    """One method on one table.

    Args:
        table: a name in TABLES.
        method: a name in METHODS.
        settings: the budget and the seed.
        stream: the questions.
        folder: where tables are; None where only packaged ones are asked for.
        rows: score exported rows too.
    """

    table: str
    method: str
    settings: Settings
    stream: StreamChoice
    folder: Path | None
    rows: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What a job gave.

    Args:
        job: the job.
        scores: ready for JSON.
        errors: float64, shape (k,), |answer - truth| / records for each question, in order.
    """

    job: Job
    scores: dict[str, object]
    errors: NDArray[np.float64]


def run_all(jobs: Iterable[Job]) -> Iterator[Measured]:
    """Run jobs one after the other; one that does not apply, or is ended, is named on stderr with why."""
    for name in BLAS_THREADS:
        os.environ[name] = "1"  # a spawned process reads it before it loads BLAS
    for job in jobs:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            try:
                yield alone.submit(_measure, job).result()
            except (TableAbsentError, NotApplicableError, pmw.PMWError, BrokenProcessPool) as reason:
                print(f"skipped {job.table}, {job.method}: {reason}", file=sys.stderr, flush=True)


def _measure(job: Job) -> Measured:
    case = TABLES[job.table](job.folder, job.stream)
    found, outcome, errors = scored(case, partial(METHODS[job.method], case, job.settings))
    scores: dict[str, object] = {
        "table": job.table,
        "method": job.method,
        "stream": job.stream.kind,
        "stream_seed": job.stream.seed,
        "epsilon": job.settings.epsilon,
        "delta": job.settings.delta,
        "seed": job.settings.seed,
        **found,
    }
    if job.rows and outcome.model is not None:
        scores |= marginal_scores(case, outcome.model, job.settings.seed)
    return Measured(job, scores, errors)


def scored(case: Case, run: Callable[[], Outcome]) -> tuple[dict[str, object], Outcome, NDArray[np.float64]]:
    """Return the scores of a method that is run now, what it gave, and its errors.

    Args:
        case: the table and the questions.
        run: answers them.
    """
    base = reset_peak()
    started = time.process_time()
    outcome = run()
    seconds = time.process_time() - started
    peak = peak_mb()
    truth = true_counts(case)
    errors = np.abs(outcome.counts - truth) / case.size
    scores: dict[str, object] = {
        **error_scores(errors),
        "cpu_seconds": round(seconds, 2),
        "peak_mb": round(peak),
        "start_mb": round(base),
        **outcome.facts,
    }
    if outcome.answers is not None:
        scores |= promise_scores(outcome.answers, truth, case.size)
    return scores, outcome, errors


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
