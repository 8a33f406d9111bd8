"""Selecting the c highest of many counts by sparse vector methods and by the exponential mechanism.

The set-up of Lyu, Su and Li (2017), Section 6: counts are monotone queries of sensitivity 1, each run sees
them in a random order, and the threshold is the mean of the c-th and the (c+1)-th score. Two measures:

* false negative rate: the share of the true top c that is missed (a tie with the c-th score counts as found);
* score error rate, SER, as the paper defines it: 1 - mean score of what was selected / mean score of the true
  top c. A run that selects few but high ones goes below 0; filled, each of the c places that stays empty
  counts as a score of 0.

The counts are public, so noise here is numpy's: floating point and seeded. It protects nothing. Retraversal
is the library's own, on seeded bits.

Counts are files ``svt/NAME.npz`` below the data folder, with ``count`` (int64, one per item), which stand in
for the tables of the paper; ``data_is`` says how: ``exact`` the same distribution, ``prefix`` the first
records of the same table, ``substitute`` another table.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.tables import TableAbsentError
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import Retraversal, TopC, algorithm_2, algorithm_7
from pmw.sparse_vector import Comparison, NoiseKind, Ratio, Sparse, Split

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]  # shape (runs, k), in the order in which each run saw the scores

_ZIPF = "zipf_1m_10k"
COUNTS = {
    _ZIPF: "exact",
    "bms_pos_first100k": "prefix",
    "kosarak_first100k": "prefix",
    "aol_first_query_6bytes": "substitute",
    **dict.fromkeys(("retail", "t10i4d100k", "netflix_movies"), "substitute"),
    **{f"dpbench_{name}": "substitute" for name in ("searchlogs", "hepth", "patent")},
    **{f"dpbench_{name}": "substitute" for name in ("income", "medcost", "nettrace")},
}
_PAPER_RECORDS = {"bms_pos_first100k": 515_597, "kosarak_first100k": 990_002}  # of the whole tables: Table 1
LIMITS = tuple(range(25, 301, 25))
NOISE, EXACT_NOISE = "floating point, seeded", "exact, seeded"
_PAPER_EPSILON = 0.1
_BLOCK = 1_000_000  # scores held at a time, in whole runs
_WINDOW = 256  # values looked at first for the next positive


class Counts(NamedTuple):
    """Scores to select from.

    Attributes:
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
        missing = _PAPER_RECORDS[name] / int(arrays["n_records"]) if name in _PAPER_RECORDS else 1.0
    return Counts(name, COUNTS[name], scores, missing)


# --- methods ------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """How many are to be selected, at which threshold in units of the scores, and for which epsilon."""

    limit: int
    threshold: float
    epsilon: float


Select: TypeAlias = Callable[[Task, Floats, Generator], Mask]  # of scores in the order of each run


class Method(NamedTuple):
    """A way to select.

    Attributes:
        online: scores come one at a time, each answered before the next; else all are there at once.
        exact: its noise is the library's, on integers.
    """

    online: bool
    select: Select
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A sparse vector for counts whose threshold noise is drawn once (Algorithm 7, monotone).

    Args:
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
        test = self.sparse(task).test
        if self.noise is NoiseKind.LAPLACE or not self.centred:
            return task.threshold
        return task.threshold + float(test.query_scale - test.threshold_scale)


def _one_pass(kept: Kept, task: Task, scores: Floats, generator: Generator) -> Mask:
    """Select the first c with score + nu >= T + rho."""
    test, laplace = kept.sparse(task).test, kept.noise is NoiseKind.LAPLACE
    draw = partial(generator.laplace, 0.0, 1.0) if laplace else generator.standard_exponential
    rho = float(test.threshold_scale) * draw((len(scores), 1))
    passed = scores + float(test.query_scale) * draw(scores.shape) >= kept.threshold(task) + rho
    return passed & (np.cumsum(passed, axis=1, dtype=np.int32) <= task.limit)


def _textbook(task: Task, scores: Floats, generator: Generator) -> Mask:
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
    return mask


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


def _retraversal(kept: Kept, deviations: int, task: Task, scores: Floats, generator: Generator) -> Mask:
    """Go through what is not selected again and again, until c are found: ``Retraversal``, run by run."""
    again = Retraversal.of(kept.sparse(task), deviations=deviations)
    thresholds = np.full(scores.shape[1], math.ceil(kept.threshold(task)))  # of integers, this tells the same
    mask = np.zeros(scores.shape, dtype=np.bool_)
    for run, values in enumerate(scores.astype(np.int64)):
        bits = BitSource.from_integer(int(generator.integers(2**62)))
        mask[run, again.run(values, thresholds, bits)[:, 1]] = True
    return mask


def _exponential_mechanism(task: Task, scores: Floats, generator: Generator) -> Mask:
    """Select c times without replacement with weight e^(epsilon score / c): the top c under Gumbel noise."""
    rate = TopC.of(epsilon=task.epsilon, count=task.limit, monotone=True).mechanism.rate
    keys = -(scores + float(1 / rate) * generator.gumbel(size=scores.shape))
    mask = np.zeros(scores.shape, dtype=np.bool_)
    np.put_along_axis(mask, np.argpartition(keys, task.limit - 1, axis=1)[:, : task.limit], True, axis=1)
    return mask


_LAPLACE, _EXPONENTIAL, _CUBE = NoiseKind.LAPLACE, NoiseKind.EXPONENTIAL, Ratio.OPTIMAL_MONOTONE
_PUBLISHED = (Ratio.EVEN, Ratio.ONE_TO_THREE, Ratio.ONE_TO_C, _CUBE)


def _online(noise: NoiseKind, ratio: Ratio, *, centred: bool = True) -> Method:
    return Method(True, partial(_one_pass, Kept(noise, ratio, centred)))


def _offline(noise: NoiseKind, deviations: int) -> Method:
    return Method(False, partial(_retraversal, Kept(noise, _CUBE), deviations), exact=True)


METHODS: dict[str, Method] = {
    "textbook Sparse": Method(True, _textbook),
    **{f"Laplace {ratio.value}": _online(_LAPLACE, ratio) for ratio in _PUBLISHED},
    "exponential 1:c^(2/3), not centred": _online(_EXPONENTIAL, _CUBE, centred=False),
    "exponential 1:c^(2/3)": _online(_EXPONENTIAL, _CUBE),
    "exponential 1:c": _online(_EXPONENTIAL, Ratio.ONE_TO_C),
    **{f"retraversal +{more}D": _offline(_LAPLACE, more) for more in range(6)},
    "retraversal, exponential +3D": _offline(_EXPONENTIAL, 3),
    "exponential mechanism": Method(False, _exponential_mechanism),
}


# --- runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: epsilon is of each run; of a prefix also this times the factor of missing records."""

    limits: tuple[int, ...] = LIMITS
    runs: int = 100
    epsilon: float = 0.1
    seed: int = 0
    methods: tuple[str, ...] = tuple(METHODS)


def error_rates(mask: Mask, scores: Floats, limit: int) -> dict[str, Floats]:
    """Return the error rates of runs by name, each float64 of shape (runs,).

    Args:
        mask: bool, shape (runs, k), what was selected.
        scores: float64, shape (runs, k), the same scores in each row.
        limit: c.
    """
    best = np.sort(scores[0])[::-1][:limit]
    hits = np.minimum((mask & (scores >= best[-1])).sum(axis=1), limit)
    counts, sums = mask.sum(axis=1), np.where(mask, scores, 0.0).sum(axis=1)
    lost = 1 - sums / np.maximum(counts, 1) / best.mean()
    rates = {"fnr": 1 - hits / limit, "ser": lost, "ser_filled": 1 - sums / best.sum()}
    return {**rates, "selected": counts.astype(np.float64)}


def task_for(scores: NDArray[np.int64], limit: int, epsilon: float) -> Task:
    """Return the task for scores from the highest to the lowest: T halfway from the c-th to the next."""
    return Task(limit, float(scores[limit - 1] + scores[limit]) / 2, epsilon)


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
    own = "the paper's" if plan.epsilon == _PAPER_EPSILON else "as given"
    for name, (rates, seconds) in _outcomes(counts, task, plan).items():
        spread = {
            key: round(float(one), 4)
            for rate in ("fnr", "ser", "ser_filled")
            for key, one in ((rate, rates[rate].mean()), (f"{rate}_sd", rates[rate].std()))
        }
        yield {
            "part": "selection",
            "data": counts.name,
            "data_is": counts.data_is,
            "items": len(counts.scores),
            "method": name,
            "setting": "online" if METHODS[name].online else "offline",
            "c": limit,
            "epsilon": round(task.epsilon, 4),
            "epsilon_is": own if factor == 1 else f"x {factor:.2f}, for the records missing",
            "threshold": task.threshold,
            "runs": plan.runs,
            "seed": plan.seed,
            "noise": EXACT_NOISE if METHODS[name].exact else NOISE,
            **spread,
            "selected": round(float(rates["selected"].mean()), 2),
            "cpu_seconds": round(seconds, 3),
        }


def _outcomes(counts: Counts, task: Task, plan: Plan) -> dict[str, tuple[dict[str, Floats], float]]:
    """Return of each method its error rates over all runs, on the same orders, and its CPU seconds."""
    generator = np.random.default_rng([plan.seed, task.limit])
    scores = counts.scores.astype(np.float64)
    per_block = max(1, _BLOCK // len(scores))
    found: dict[str, list[dict[str, Floats]]] = {name: [] for name in plan.methods}
    seconds = dict.fromkeys(plan.methods, 0.0)
    for start in range(0, plan.runs, per_block):
        shape = (min(per_block, plan.runs - start), 1)
        seen = generator.permuted(np.tile(scores, shape), axis=1)
        for name in plan.methods:
            started = time.process_time()
            mask = METHODS[name].select(task, seen, generator)
            seconds[name] += time.process_time() - started
            found[name].append(error_rates(mask, seen, task.limit))
    return {
        name: ({rate: np.concatenate([one[rate] for one in blocks]) for rate in blocks[0]}, seconds[name])
        for name, blocks in found.items()
    }
