"""Runs of the selection benchmark: every method on the same orders, its error rates with their deviations."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.sparse_counts import Counts
from benchmarks.sparse_noise import Floats
from benchmarks.sparse_selection import METHODS, ErrorRates, Method, Selected, Task, error_rates, task_for

__all__ = ["EXACT_NOISE", "LIMITS", "NOISE", "Plan", "selection_lines"]

LIMITS = tuple(range(25, 301, 25))
NOISE, EXACT_NOISE = "floating point, seeded", "exact, seeded"
_PAPER_EPSILON = 0.1
_BLOCK = 1_000_000  # scores held at a time, in whole runs


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Args:
        limits: values of c.
        runs: for each method and c.
        epsilon: of each run; of a prefix also this times the factor by which records are missing.
        seed: of the orders and the noise.
        methods: names in METHODS.
    """

    limits: tuple[int, ...] = LIMITS
    runs: int = 100
    epsilon: float = 0.1
    seed: int = 0
    methods: tuple[str, ...] = tuple(METHODS)


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    """What one method gave over all runs: one entry for each run, or for each value released for free."""

    rates: ErrorRates
    selected: Floats
    passes: Floats
    value_errors: Floats
    seconds: float


def selection_lines(counts: Counts, plan: Plan) -> Iterator[dict[str, object]]:
    """Yield a line, ready for JSON, for each epsilon, c and method.

    A c that leaves no score over is named on stderr and left out.
    """
    for factor in dict.fromkeys((1.0, counts.missing)):
        for limit in plan.limits:
            if limit < len(counts.scores):
                yield from _lines(counts, plan, limit, factor)
            elif factor == 1:
                items = f"{len(counts.scores):,} items"
                print(f"skipped {counts.name} at c = {limit:,}: it has {items}", file=sys.stderr)


def _lines(counts: Counts, plan: Plan, limit: int, factor: float) -> Iterator[dict[str, object]]:
    task = task_for(counts.scores, limit, plan.epsilon * factor)
    for name, outcome in _outcomes(counts, task, plan).items():
        yield {
            "part": "selection",
            "data": counts.name,
            "data_is": counts.data_is,
            "items": len(counts.scores),
            "method": name,
            "setting": "online" if METHODS[name].online else "offline",
            "c": limit,
            "epsilon": round(task.epsilon, 4),
            "epsilon_is": _epsilon_is(plan.epsilon, factor),
            "threshold": task.threshold,
            "runs": plan.runs,
            "seed": plan.seed,
            "noise": EXACT_NOISE if METHODS[name].exact else NOISE,
            **_summary(outcome, task),
        }


def _epsilon_is(epsilon: float, factor: float) -> str:
    if factor != 1:
        return f"x {factor:.2f}, for the records missing"
    return "the paper's" if epsilon == _PAPER_EPSILON else "as given"


def _outcomes(counts: Counts, task: Task, plan: Plan) -> dict[str, _Outcome]:
    generator = np.random.default_rng([plan.seed, task.limit])
    scores = counts.scores.astype(np.float64)
    per_block = max(1, _BLOCK // len(scores))
    found: dict[str, list[_Outcome]] = {name: [] for name in plan.methods}
    for start in range(0, plan.runs, per_block):
        shape = (min(per_block, plan.runs - start), 1)
        seen = generator.permuted(np.tile(scores, shape), axis=1)
        for name in plan.methods:
            found[name].append(_outcome(METHODS[name], task, seen, generator))
    return {name: _joined(blocks) for name, blocks in found.items()}


def _outcome(method: Method, task: Task, seen: Floats, generator: Generator) -> _Outcome:
    started = time.process_time()
    selected: Selected = method.select(task, seen, generator)
    seconds = time.process_time() - started
    rates = error_rates(selected.mask, seen, task.limit)
    counted = selected.mask.sum(axis=1).astype(np.float64)
    return _Outcome(rates, counted, selected.passes, selected.value_errors, seconds)


def _joined(blocks: list[_Outcome]) -> _Outcome:
    return _Outcome(
        ErrorRates(
            np.concatenate([block.rates.missed for block in blocks]),
            np.concatenate([block.rates.lost for block in blocks]),
            np.concatenate([block.rates.lost_filled for block in blocks]),
        ),
        np.concatenate([block.selected for block in blocks]),
        np.concatenate([block.passes for block in blocks]),
        np.concatenate([block.value_errors for block in blocks]),
        sum(block.seconds for block in blocks),
    )


def _summary(outcome: _Outcome, task: Task) -> dict[str, object]:
    """Return means and standard deviations over runs, and what is known of passes and free values.

    ``fresh_epsilon`` is what c values under fresh Laplace noise of the same root mean square would cost.
    """
    summary: dict[str, object] = {
        **_spread("fnr", outcome.rates.missed),
        **_spread("ser", outcome.rates.lost),
        **_spread("ser_filled", outcome.rates.lost_filled),
        "selected": round(float(outcome.selected.mean()), 2),
        "cpu_seconds": round(outcome.seconds, 3),
    }
    if outcome.passes.size:
        summary["median_passes"] = float(np.median(outcome.passes))
    if outcome.value_errors.size:
        root = float(np.sqrt(np.mean(outcome.value_errors**2)))
        summary["value_bias"] = round(float(outcome.value_errors.mean()), 1)
        summary["value_rmse"] = round(root, 1)
        summary["fresh_epsilon"] = round(math.sqrt(2) * task.limit / root, 4)
    return summary


def _spread(name: str, rates: Floats) -> dict[str, float]:
    return {name: round(float(rates.mean()), 4), f"{name}_sd": round(float(rates.std()), 4)}
