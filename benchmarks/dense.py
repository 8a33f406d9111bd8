"""Benchmark of the dense model near its limit: updates, marginals, rows, and the memory of a session.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.dense [--cells 10000000]

prints JSON lines. Times are CPU times of one process; each part runs in a process of its own, and its peak
memory is counted above what the process held before, in MB and in arrays of 8 bytes per cell.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd

import pmw
from pmw.model import DenseDistribution, refit, step
from pmw.model.dense import DenseWorkspace
from queries import Domain, IntegerAttribute, LinearQuery

_RECORDS = 20_000
_ROWS = 1_000_000
_REPEATS = 5
Result = dict[str, object]


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cells", type=int, default=10**7, help="rounded to a power of ten, at least 10^4")
    axes = max(4, round(math.log10(parser.parse_args().cells)))
    parts: list[Callable[[int], list[Result]]] = [_updates, _projections, _step_session, _refit_session]
    for part in parts:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            for result in alone.submit(part, axes).result():
                print(json.dumps({"cells": 10**axes, **result}), flush=True)


def _domain(axes: int) -> Domain:
    """Attributes of ten cells each."""
    return Domain(tuple(IntegerAttribute(f"a{number}", 0, 9) for number in range(axes)), name="cube")


def _boxes(domain: Domain) -> dict[str, LinearQuery]:
    first, second, last, before = (domain.names[place] for place in (0, 1, -1, -2))
    return {
        "leading axes, 4 %": LinearQuery.cells(domain, {first: (2, 3), second: (3, 4)}),
        "leading axis, 50 %": LinearQuery.cells(domain, {first: (2, 6)}),
        "last axes, 4 %": LinearQuery.cells(domain, {before: (2, 3), last: (3, 4)}),
    }


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _updates(axes: int) -> list[Result]:
    domain = _domain(axes)
    boxes = _boxes(domain)
    results: list[Result] = []
    for name, query in boxes.items():
        seconds = _fastest_step(DenseDistribution.uniform(domain, 1000.0), query)
        results.append({"what": f"update, {name}", "cpu_ms": round(seconds * 1e3, 1)})
    return results


def _fastest_step(model: DenseDistribution, query: LinearQuery) -> float:
    model.marginal(())  # makes the array
    best = math.inf
    for _ in range(_REPEATS):
        started = time.process_time()
        model = step(model, query, learning_rate=0.1, increase=True)
        best = min(best, time.process_time() - started)
    return best


def _projections(axes: int) -> list[Result]:
    domain = _domain(axes)
    model = DenseDistribution.uniform(domain, 1000.0)
    model.marginal(())
    names = domain.names
    scopes = {"first two": names[:2], "last two": names[-2:], "first and last": (names[0], names[-1])}
    results: list[Result] = [
        {
            "what": f"marginal of the {name} attributes",
            "cpu_s": round(_cpu(partial(model.marginal, scope)), 3),
        }
        for name, scope in scopes.items()
    ]
    draw = partial(model.sample, _ROWS, np.random.default_rng(1), independent=False)
    results.append({"what": f"{_ROWS:,} rows drawn", "cpu_s": round(_cpu(draw), 2)})
    sweep = _cpu(partial(_sweep, model.workspace()))
    return [*results, {"what": "one sweep over all one-attribute marginals", "cpu_s": round(sweep, 2)}]


def _sweep(workspace: DenseWorkspace) -> None:
    """What a sweep of a refit does to the array."""
    for name in workspace.domain.names:
        workspace.tilt_marginal((name,), 0.01 * workspace.marginal((name,)))


def _step_session(axes: int) -> list[Result]:
    """A textbook session: the update of every question that is asked, and the peak of memory."""
    return list(_session(axes, pmw.UpdateRule.STEP))


def _refit_session(axes: int) -> list[Result]:
    """A session of single questions with its opening, a refit after each question, and rows."""
    return list(_session(axes, pmw.UpdateRule.REFIT))


def _session(axes: int, update: pmw.UpdateRule) -> Iterator[Result]:
    domain = _domain(axes)
    cells = np.random.default_rng(1).integers(0, 10, (_RECORDS, axes)) ** 2 // 9
    frame = pd.DataFrame(cells, columns=list(domain.names))
    options = pmw.Options(
        seed=1,
        test=pmw.TestKind.QUERY,
        update=update,
        threshold=1.0,
        update_limit=20,
        opening=pmw.Opening.NONE if update is pmw.UpdateRule.STEP else pmw.Opening.ONE_WAY,
    )
    before = _peak_mb()
    started = time.process_time()
    session = pmw.open_session(frame, domain, epsilon=10, delta=1e-9, options=options)
    session.state.model.marginal(())
    name = f"{update.value} session"
    yield {"what": f"{name}: opening and fit", "cpu_s": round(time.process_time() - started, 2)}
    with session:
        for label, query in _boxes(domain).items():
            spent = _cpu(lambda query=query: session.ask(query))  # type: ignore[misc]
            yield {
                "what": f"{name}: question and correction, {label}",
                "cpu_s": round(spent, 2),
                "version": session.state.version,
            }
        if update is pmw.UpdateRule.REFIT:
            yield {"what": f"{name}: one more refit", "cpu_s": round(_cpu(partial(_refit_again, session)), 2)}
        yield _memory(name, before, 10**axes)
        session.state.model.sample(_ROWS, np.random.default_rng(1), independent=False)
        yield _memory(f"{name} and {_ROWS:,} rows", before, 10**axes)


def _refit_again(session: pmw.Session) -> None:
    model = session.state.model
    if isinstance(model, DenseDistribution):
        refit(model, session.state.measurements)


def _memory(what: str, before: float, cells: int) -> Result:
    peak = _peak_mb() - before
    return {"what": f"{what}: peak memory", "mb": round(peak), "arrays": round(peak * 1e6 / (8 * cells), 2)}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
