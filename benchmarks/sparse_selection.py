"""Selecting the c highest of many counts by sparse vector methods and by the exponential mechanism.

The set-up of Lyu, Su and Li (2017), Section 6: counts are monotone queries of sensitivity 1, each run sees
them in a random order, and the threshold is the mean of the c-th and the (c+1)-th score. Two measures:

* false negative rate: the share of the true top c that is missed (a tie with the c-th score counts as found);
* score error rate, SER, as the paper defines it: 1 - mean score of what was selected / mean score of the true
  top c. A run that selects few but high ones goes below 0; filled, each of the c places that stays empty
  counts as a score of 0.

The counts are public, so noise here is numpy's: floating point and seeded. It protects nothing. Retraversal
is the library's own, on seeded bits.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.sparse_margins import Floats
from benchmarks.tables import TableAbsentError
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import Retraversal, TopC, algorithm_2, algorithm_7
from pmw.sparse_vector import Comparison, NoiseKind, Ratio, Sparse, Split

Mask: TypeAlias = NDArray[np.bool_]
_WINDOW = 256  # values looked at first for the next positive


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be selected.

    Args:
        threshold: T, in units of the scores.
    """

    limit: int
    threshold: float
    epsilon: float


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """What a block of runs selected.

    Args:
        mask: bool, shape (runs, k), in the order in which each run saw the scores.
        value_errors: float64, one for each selected value that was released for free, in units of the
            scores; empty where none is.
        passes: float64, shape (runs,), times that the scores were gone through; empty for one.
    """

    mask: Mask
    value_errors: Floats = field(default_factory=lambda: np.zeros(0))
    passes: Floats = field(default_factory=lambda: np.zeros(0))


Select: TypeAlias = Callable[[Task, Floats, Generator], Selected]


@dataclass(frozen=True, slots=True)
class Method:
    """A way to select.

    Args:
        online: scores come one at a time, each answered before the next; else all are there at once.
        select: from a task, scores of shape (runs, k) in the order of each run, and a generator.
        exact: its noise is the library's, on integers.
    """

    online: bool
    select: Select
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A sparse vector for counts whose threshold noise is drawn once (Algorithm 7, monotone).

    Args:
        noise: distribution of both noises.
        ratio: epsilon1 : epsilon2.
        centred: the threshold is moved by the difference of the two means, which is public.
    """

    noise: NoiseKind
    ratio: Ratio
    centred: bool = True

    def sparse(self, task: Task) -> Sparse:
        """Return the algorithm at the scales that the task's epsilon allows."""
        split = Split.of(self.ratio, epsilon=task.epsilon, update_limit=task.limit)
        return algorithm_7(Comparison(self.noise, monotone=True), split, task.limit)

    def threshold(self, task: Task) -> float:
        """Return the public threshold that is tested at."""
        sparse = self.sparse(task)
        if self.noise is NoiseKind.LAPLACE or not self.centred:
            return task.threshold
        return task.threshold + float(sparse.test.query_scale - sparse.test.threshold_scale)


def task_for(scores: NDArray[np.int64], limit: int, epsilon: float) -> Task:
    """Return the task for scores from the highest to the lowest: T halfway from the c-th to the next."""
    return Task(limit, float(scores[limit - 1] + scores[limit]) / 2, epsilon)


class ErrorRates(NamedTuple):
    """Error rates of runs, each float64 of shape (runs,).

    Attributes:
        fnr: false negative rates.
        ser: score error rates.
        ser_filled: score error rates where empty places count.
    """

    fnr: Floats
    ser: Floats
    ser_filled: Floats


def error_rates(mask: Mask, scores: Floats, limit: int) -> ErrorRates:
    """Return the error rates of runs.

    Args:
        mask: bool, shape (runs, k), what was selected.
        scores: float64, shape (runs, k), the same scores in each row.
        limit: c.
    """
    best = np.sort(scores[0])[::-1][:limit]
    hits = np.minimum((mask & (scores >= best[-1])).sum(axis=1), limit)
    counts = mask.sum(axis=1)
    sums = np.where(mask, scores, 0.0).sum(axis=1)
    lost = 1 - sums / np.maximum(counts, 1) / best.mean()
    return ErrorRates(1 - hits / limit, lost, 1 - sums / best.sum())


def _noise(kind: NoiseKind, shape: tuple[int, ...], generator: Generator) -> Floats:
    if kind is NoiseKind.LAPLACE:
        return generator.laplace(size=shape)
    return generator.standard_exponential(shape)


def _one_pass(
    kept: Kept, task: Task, scores: Floats, generator: Generator, *, gaps: bool = False
) -> Selected:
    """Select the first c with score + nu >= T + rho; with ``gaps``, release by how much each passed."""
    test = kept.sparse(task).test
    rho = float(test.threshold_scale) * _noise(kept.noise, (len(scores), 1), generator)
    gap = scores + float(test.query_scale) * _noise(kept.noise, scores.shape, generator)
    gap -= kept.threshold(task) + rho
    passed = gap >= 0
    mask = passed & (np.cumsum(passed, axis=1, dtype=np.int32) <= task.limit)
    if not gaps:
        return Selected(mask)
    return Selected(mask, (gap + task.threshold - scores)[mask])


def _textbook(task: Task, scores: Floats, generator: Generator) -> Selected:
    """Select with the textbook's Sparse: threshold noise drawn again after each positive."""
    test = algorithm_2(epsilon=task.epsilon, update_limit=task.limit).test
    noisy = scores + float(test.query_scale) * generator.laplace(size=scores.shape)
    shape = (len(scores), task.limit)
    thresholds = task.threshold + float(test.threshold_scale) * generator.laplace(size=shape)
    mask = np.zeros(scores.shape, dtype=np.bool_)
    for chosen, values, tests in zip(mask, noisy, thresholds, strict=True):
        start = 0
        for threshold in tests:
            start = _next_above(values, threshold, start)
            if start == len(values):
                break
            chosen[start] = True
            start += 1
    return Selected(mask)


def _next_above(values: Floats, threshold: float, start: int) -> int:
    """Return the first place from ``start`` with a value of at least the threshold, or len(values)."""
    width = _WINDOW
    while start < len(values):
        above = values[start : start + width] >= threshold
        place = int(above.argmax())
        if above[place]:
            return start + place
        start, width = start + width, 4 * width
    return len(values)


def _retraversal(kept: Kept, deviations: int, task: Task, scores: Floats, generator: Generator) -> Selected:
    """Go through what is not selected again and again, until c are found: ``Retraversal``, run by run."""
    again = Retraversal.of(kept.sparse(task), deviations=deviations)
    thresholds = np.full(scores.shape[1], math.ceil(kept.threshold(task)))  # of integers, this tells the same
    mask, passes = np.zeros(scores.shape, dtype=np.bool_), np.zeros(len(scores))
    for run, values in enumerate(scores.astype(np.int64)):
        found = again.run(values, thresholds, BitSource.from_integer(int(generator.integers(2**62))))
        mask[run, found[:, 1]] = True
        passes[run] = found[:, 0].max(initial=0)
    return Selected(mask, passes=passes)


def _exponential_mechanism(task: Task, scores: Floats, generator: Generator) -> Selected:
    """Select c times without replacement with weight e^(epsilon score / c): the top c under Gumbel noise."""
    chooser = TopC.of(epsilon=task.epsilon, count=task.limit, monotone=True)
    scale = float(1 / chooser.mechanism.rate)
    return Selected(_least(-(scores + scale * generator.gumbel(size=scores.shape)), task.limit))


def _least(keys: Floats, limit: int) -> Mask:
    mask = np.zeros(keys.shape, dtype=np.bool_)
    np.put_along_axis(mask, np.argpartition(keys, limit - 1, axis=1)[:, :limit], True, axis=1)
    return mask


_LAPLACE, _EXPONENTIAL, _CUBE = NoiseKind.LAPLACE, NoiseKind.EXPONENTIAL, Ratio.OPTIMAL_MONOTONE
_PUBLISHED = (Ratio.EVEN, Ratio.ONE_TO_THREE, Ratio.ONE_TO_C, _CUBE)


def _online(kept: Kept, *, gaps: bool = False) -> Method:
    return Method(True, partial(_one_pass, kept, gaps=gaps))


def _offline(noise: NoiseKind, deviations: int) -> Method:
    return Method(False, partial(_retraversal, Kept(noise, _CUBE), deviations), exact=True)


METHODS: dict[str, Method] = {
    "textbook Sparse": Method(True, _textbook),
    **{f"Laplace {ratio.value}": _online(Kept(_LAPLACE, ratio)) for ratio in _PUBLISHED},
    "exponential 1:c^(2/3), not centred": _online(Kept(_EXPONENTIAL, _CUBE, centred=False)),
    "exponential 1:c^(2/3)": _online(Kept(_EXPONENTIAL, _CUBE)),
    "exponential 1:c": _online(Kept(_EXPONENTIAL, Ratio.ONE_TO_C)),
    "free gap, Laplace 1:c^(2/3)": _online(Kept(_LAPLACE, _CUBE), gaps=True),
    "free gap, exponential 1:c^(2/3)": _online(Kept(_EXPONENTIAL, _CUBE), gaps=True),
    **{f"retraversal +{more}D": _offline(_LAPLACE, more) for more in range(6)},
    "retraversal, exponential +3D": _offline(_EXPONENTIAL, 3),
    "exponential mechanism": Method(False, _exponential_mechanism),
}


# --- counts -------------------------------------------------------------------------------------------------
# Counts per item that sparse vector methods select from: Zipf's law, generated, and public tables by file.
#
# Files are ``svt/NAME.npz`` below the data folder, with ``count`` (int64, one per item). They stand in for
# the tables of Lyu, Su and Li (2017), Section 6; ``data_is`` says how: ``exact`` the same distribution,
# ``prefix`` the first records of the same table, ``substitute`` another table.

_ZIPF = "zipf_1m_10k"
COUNTS = {
    _ZIPF: "exact",
    "bms_pos_first100k": "prefix",
    "kosarak_first100k": "prefix",
    "aol_first_query_6bytes": "substitute",
    "retail": "substitute",
    "t10i4d100k": "substitute",
    "netflix_movies": "substitute",
    "dpbench_searchlogs": "substitute",
    "dpbench_hepth": "substitute",
    "dpbench_patent": "substitute",
    "dpbench_income": "substitute",
    "dpbench_medcost": "substitute",
    "dpbench_nettrace": "substitute",
}
# Of the whole tables of which there are prefixes: Table 1 of the paper.
PAPER_RECORDS = {"bms_pos_first100k": 515_597, "kosarak_first100k": 990_002}


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Scores to select from.

    Args:
        data_is: how close they are to the paper's: exact, prefix or substitute.
        scores: int64, shape (k,), from the highest to the lowest; a method is shown them in random order.
        missing: of a prefix, by what factor the paper's table has more records; else 1. The whole table's
            counts are about so many times larger, and epsilon times a count is what decides an error.
    """

    name: str
    data_is: str
    scores: NDArray[np.int64]
    missing: float = 1.0


def zipf_counts(records: int = 1_000_000, items: int = 10_000) -> NDArray[np.int64]:
    """Return int64 counts in proportion to 1/rank that sum to ``records``, rounded by largest remainder."""
    weights = 1 / np.arange(1, items + 1)
    shares = records * weights / weights.sum()
    counts = np.floor(shares).astype(np.int64)
    short = records - int(counts.sum())
    counts[np.argsort(counts - shares, kind="stable")[:short]] += 1
    return np.sort(counts)[::-1].copy()


def read_counts(name: str, folder: Path | None) -> Counts:
    """Return the scores of a name in COUNTS."""
    if name == _ZIPF:
        return Counts(name, COUNTS[name], zipf_counts())
    if folder is None:
        raise TableAbsentError("no data folder; give --data-dir or PMW_DATA_DIR")
    path = folder / "svt" / f"{name}.npz"
    if not path.exists():
        raise TableAbsentError(f"svt/{name}.npz is not in the data folder")
    with np.load(path) as arrays:
        scores = np.sort(arrays["count"].astype(np.int64))[::-1].copy()
        missing = PAPER_RECORDS[name] / int(arrays["n_records"]) if name in PAPER_RECORDS else 1.0
    return Counts(name, COUNTS[name], scores, missing)


# --- runs ---------------------------------------------------------------------------------------------------
# Runs of the selection benchmark: every method on the same orders, its error rates with their deviations.

LIMITS = tuple(range(25, 301, 25))
NOISE, EXACT_NOISE = "floating point, seeded", "exact, seeded"
_PAPER_EPSILON = 0.1
_BLOCK = 1_000_000  # scores held at a time, in whole runs


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Args:
        epsilon: of each run; of a prefix also this times the factor by which records are missing.
    """

    limits: tuple[int, ...] = LIMITS
    runs: int = 100
    epsilon: float = 0.1
    seed: int = 0
    methods: tuple[str, ...] = tuple(METHODS)


class _Outcome(NamedTuple):
    """What one method gave over all runs: one entry for each run, or for each value released for free."""

    fnr: Floats
    ser: Floats
    ser_filled: Floats
    selected: Floats
    passes: Floats
    value_errors: Floats
    seconds: Floats  # CPU time of each block of runs


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
    return {name: _Outcome(*map(np.concatenate, zip(*blocks, strict=True))) for name, blocks in found.items()}


def _outcome(method: Method, task: Task, seen: Floats, generator: Generator) -> _Outcome:
    started = time.process_time()
    selected = method.select(task, seen, generator)
    seconds = np.array([time.process_time() - started])
    counted = selected.mask.sum(axis=1).astype(np.float64)
    rates = error_rates(selected.mask, seen, task.limit)
    return _Outcome(*rates, counted, selected.passes, selected.value_errors, seconds)


def _summary(outcome: _Outcome, task: Task) -> dict[str, object]:
    """Return means and standard deviations over runs, and what is known of passes and free values.

    ``fresh_epsilon`` is what c values under fresh Laplace noise of the same root mean square would cost.
    """
    summary: dict[str, object] = {
        **_spread("fnr", outcome.fnr),
        **_spread("ser", outcome.ser),
        **_spread("ser_filled", outcome.ser_filled),
        "selected": round(float(outcome.selected.mean()), 2),
        "cpu_seconds": round(float(outcome.seconds.sum()), 3),
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
