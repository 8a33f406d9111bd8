"""Benchmark of the graphical model: calibration, marginals of a fit, answers, rows, and memory.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.graphical

prints JSON lines. Times are CPU times of one process. The domain has 14 attributes of 2 to 42 cells, 5.8e13
cells in all; a model has all one-way terms and as many random pairs and triples as fit a number of cells.
Each part runs in a process of its own, and its peak memory is counted above what it held before.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from pmw.model import DenseDistribution, GraphicalDistribution, MarginalTerm, fits
from queries import Domain, IntegerAttribute, random_conjunctions

_SIZES = (16, 9, 16, 16, 7, 15, 6, 5, 2, 16, 16, 16, 42, 2)
_SMALL = (85, 7, 5, 2, 16, 2, 2)  # 380,800 cells
_TOTAL = 48_842.0
_ROWS = 50_000
_QUERIES = 10_000
_REPEATS = 10
Result = dict[str, object]


def main() -> None:
    """Run all measurements."""
    parts: list[Callable[[], list[Result]]] = [
        partial(_model, bits, scopes) for bits in (18, 20, 22) for scopes in (30, 60)
    ]
    for part in (*parts, _dense):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            for result in alone.submit(part).result():
                print(json.dumps(result), flush=True)


def _domain(sizes: tuple[int, ...]) -> Domain:
    return Domain(tuple(IntegerAttribute(f"a{place:02}", 0, size - 1) for place, size in enumerate(sizes)))


def _cpu(work: Callable[[], object], repeats: int = 1) -> float:
    """Return the least CPU time of a few runs, in ms."""
    best = math.inf
    for _ in range(repeats):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return round(best * 1e3, 2)


def _chosen(domain: Domain, wanted: int, cells: int) -> tuple[list[tuple[str, ...]], float]:
    """Return all one-way scopes and random others while they fit, and the time to tell whether one does."""
    generator = np.random.default_rng(1)
    scopes: list[tuple[str, ...]] = [(name,) for name in domain.names]
    started, tried = time.process_time(), 0
    while len(scopes) < len(domain) + wanted and tried < 3000:
        size = 3 if generator.random() < 0.2 else 2
        scope = domain.scope(generator.choice(domain.names, size, replace=False).tolist())
        tried += 1
        if scope not in scopes and fits(domain, scopes, scope, cells):
            scopes.append(scope)
    return scopes, round((time.process_time() - started) / tried * 1e3, 2)


def _terms(domain: Domain, scopes: list[tuple[str, ...]], seed: int) -> list[MarginalTerm]:
    generator = np.random.default_rng(seed)
    return [MarginalTerm(scope, generator.normal(size=domain.scope_shape(scope))) for scope in scopes]


def _model(bits: int, wanted: int) -> list[Result]:
    domain = _domain(_SIZES)
    scopes, fits_ms = _chosen(domain, wanted, 2**bits)
    before = _peak_mb()
    model = GraphicalDistribution.of_terms(domain, _TOTAL, _terms(domain, scopes, 1))
    others = [_terms(domain, scopes, seed) for seed in range(_REPEATS)]
    models = iter([model.with_terms(terms) for terms in others])
    calibration = _cpu(lambda: next(models).log_partition, _REPEATS)
    updates = iter(others)
    iteration = _cpu(lambda: model.with_terms(next(updates)).marginals(scopes), _REPEATS)
    queries = list(random_conjunctions(domain, _QUERIES, seed=1))
    deep = list(random_conjunctions(domain, _QUERIES // 10, seed=1, most_attributes=8))
    model.marginal(())
    answers = _cpu(lambda: [model.answer(query) for query in queries])
    deep_answers = _cpu(lambda: [model.answer(query) for query in deep])
    generator = np.random.default_rng(1)
    rows = _cpu(partial(model.sample, _ROWS, generator, independent=False))
    cells = generator.integers(0, domain.shape, (_ROWS, len(domain)))
    density = _cpu(partial(model.log_density, cells))
    return [
        {
            "what": "graphical model",
            "max_cells": 2**bits,
            "cells": model.cells,
            "scopes": len(scopes),
            "cliques": len(model.cliques),
            "fits_ms": fits_ms,
            "calibration_ms": calibration,
            "calibration_and_all_marginals_ms": iteration,
            f"{len(queries)}_answers_3_way_ms": answers,
            f"{len(deep)}_answers_8_way_ms": deep_answers,
            f"{_ROWS}_rows_ms": rows,
            f"{_ROWS}_densities_ms": density,
            "peak_mb": round(_peak_mb() - before),
        }
    ]


def _dense() -> list[Result]:
    domain = _domain(_SMALL)
    pairs = [(first, second) for first in domain.names for second in domain.names if first < second]
    scopes = [*((name,) for name in domain.names), *pairs[:20]]
    terms = _terms(domain, scopes, 1)
    model = DenseDistribution.of_terms(domain, _TOTAL, terms)
    model.marginal(())
    apart = _cpu(lambda: [DenseDistribution.marginal(model, scope) for scope in scopes])
    return [
        {
            "what": "dense model",
            "cells": domain.size,
            "scopes": len(scopes),
            "made_of_terms_ms": _cpu(
                lambda: DenseDistribution.of_terms(domain, _TOTAL, terms).marginal(()), _REPEATS
            ),
            "marginals_at_once_ms": _cpu(partial(model.marginals, scopes), _REPEATS),
            "marginals_one_by_one_ms": apart,
        }
    ]


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
