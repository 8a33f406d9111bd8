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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.sparse_noise import Floats
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import Retraversal, TopC, algorithm_2, algorithm_7
from pmw.sparse_vector import Comparison, NoiseKind, Ratio, Sparse, Split

__all__ = ["Kept", "Method", "METHODS", "Selected", "Task", "error_rates", "ErrorRates", "task_for"]

Mask: TypeAlias = NDArray[np.bool_]
_WINDOW = 256  # values looked at first for the next positive


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be selected.

    Args:
        limit: c, the number to select.
        threshold: T, in units of the scores.
        epsilon: of the guarantee.
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


@dataclass(frozen=True, slots=True, eq=False)
class ErrorRates:
    """Error rates of runs, each float64 of shape (runs,).

    Args:
        missed: false negative rates.
        lost: score error rates.
        lost_filled: score error rates where empty places count.
    """

    missed: Floats
    lost: Floats
    lost_filled: Floats


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
