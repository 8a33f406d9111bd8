"""Theorems: the accuracy that the textbooks promise, as formulas by name, and Theorem 5 as a plan.

All errors are in records, for queries of sensitivity 1; for another sensitivity, give ``epsilon`` divided by
it. An ``accuracy`` is a part of the records, whose number counts as public; ``beta`` is a failure
probability. A session does not rest on these: its own error bars are narrower, and ``pmw plan`` shows both.
They serve to compare, and to check the algorithms of ``pmw.sparse_vector`` at the textbook's scales.

An algorithm is (alpha, beta)-accurate for a threshold T if with probability 1 - beta it does not halt before
the last query, every "above" has a value of at least T - alpha, and every "below" one of at most T + alpha.

Source of all: Dwork and Roth, "The Algorithmic Foundations of Differential Privacy" (2014), Sections 3.6 and
4.2; beside them Kamath's lecture notes on the sparse vector and Machanavajjhala's slides (2016), which state
the same constants unless a docstring says otherwise. ln is the natural logarithm; the notes and slides print
log for it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pmw.errors import BudgetError
from pmw.model.estimate import noise_scale
from pmw.privacy.budget import Budget, Number
from pmw.public.contract import Contract
from pmw.public.options import Options
from pmw.sparse_vector import NumericSparse
from pmw.sparse_vector.composition import require_printed
from queries.domain import Domain
from queries.frozen import dataclass

MOST_RECORDS = 10**12  # of a plan
_MOST_UPDATES = 10**15
_BESIDE = 1e-12  # relative, by which alpha is taken beyond the root: there it holds
_LARGEST_EPSILON = 1000  # of a budget


def above_threshold_accuracy(queries: int, *, epsilon: float, beta: float) -> float:
    """Return alpha of AboveThreshold: 8 (ln k + ln(2/beta)) / epsilon, in records.

    It holds where all queries but the last are at most T - alpha.

    Source: Dwork and Roth (2014), Theorem 3.24; lecture notes, Theorem 2; slide 13; quoted by Lyu, Su and Li
        (2017), Section 5.
    """
    _check(queries, epsilon, beta=beta)
    return 8 * (math.log(queries) + math.log(2 / beta)) / epsilon


def laplace_accuracy(queries: int, *, epsilon: float, beta: float) -> float:
    """Return alpha of Laplace noise on each of k counts: (k/epsilon) ln(k/beta), in records.

    All k noisy counts are within alpha of the true ones at once, with probability 1 - beta. Against a
    threshold it is the naive way that the sparse vector is measured by: linear in k where that is
    logarithmic.

    Source: Dwork and Roth (2014), Theorem 3.8, for one vector of k counts of total sensitivity k.
    """
    _check(queries, epsilon, beta=beta)
    return queries * math.log(queries / beta) / epsilon


def sparse_accuracy(
    queries: int, positives: int, *, epsilon: float, delta: float = 0.0, beta: float
) -> float:
    """Return alpha of Sparse, in records.

    delta = 0: 8 c (ln k + ln(2c/beta)) / epsilon; otherwise
    sqrt(512 c ln(1/delta)) (ln k + ln(2c/beta)) / epsilon, which is smaller only where c > 8 ln(1/delta).
    It holds where at most c queries are T - alpha or more.

    Source: Dwork and Roth (2014), Theorem 3.26; lecture notes, Theorem 4.
    """
    _check(queries, epsilon, beta=beta, positives=positives, delta=delta)
    logs = math.log(queries) + math.log(2 * positives / beta)
    if delta == 0:
        return 8 * positives * logs / epsilon
    return math.sqrt(512 * positives * math.log(1 / delta)) * logs / epsilon


def numeric_sparse_accuracy(
    queries: int, positives: int, *, epsilon: float, delta: float = 0.0, beta: float
) -> float:
    """Return alpha of NumericSparse, in records: as for Sparse, and released values are within alpha too.

    delta = 0: 9 c (ln k + ln(4c/beta)) / epsilon; otherwise
    (sqrt(512) + 1) sqrt(c ln(2/delta)) (ln k + ln(4c/beta)) / epsilon, and never less than
    sqrt(8) (sqrt(512) + 1) sqrt(c ln(2/delta)) ln(2c/beta) / epsilon.

    The last part is a departure: it is what c values under Lap(sigma(epsilon2)) need, and the theorem leaves
    it out. It matters for k < (2c/beta)^sqrt(8) beta/(4c); at c = 50, k = 10,000, beta = 0.05 the printed
    alpha fails in 10 % of runs.

    Source: Dwork and Roth (2014), Theorem 3.28 with Algorithm 3. The lecture notes say "as Theorem 4, up to a
        constant factor".
    """
    _check(queries, epsilon, beta=beta, positives=positives, delta=delta)
    logs = math.log(queries) + math.log(4 * positives / beta)
    if delta == 0:
        return 9 * positives * logs / epsilon
    scale = (math.sqrt(512) + 1) * math.sqrt(positives * math.log(2 / delta)) / epsilon
    return scale * max(logs, math.sqrt(8) * math.log(2 * positives / beta))


def multiplicative_weights_update_limit(cells: int, *, accuracy: float) -> int:
    """Return the most updates that multiplicative weights can need: 4 ln|X| / alpha^2, rounded up.

    Each update where the model is off by more than alpha lowers KL(D || A), ln|X| at first, by alpha^2/4.

    Source: Dwork and Roth (2014), Theorem 4.10, with learning rate alpha/2. The theorem prints one more, the
        proof does not need it. The lecture notes say O(log|X| / alpha^2).
    """
    _check_cells(cells)
    if not 0 < accuracy < math.inf:
        raise BudgetError(f"expected a positive accuracy, got {accuracy!r}")
    limit = 4 * math.log(cells) / accuracy**2 if accuracy > 1e-100 else math.inf
    if limit > _MOST_UPDATES:
        raise BudgetError(f"expected an accuracy that needs at most 1e15 updates, got {accuracy:g}")
    return max(1, math.ceil(limit))


@dataclass(frozen=True, slots=True)
class OnlinePmwAccuracy:
    """What the textbook promises for online private multiplicative weights, in records.

    Args:
        error: 3 alpha, the most that any answer is off, with probability 1 - beta for all at once.
        alpha: accuracy of the sparse vector, and the least gap that is updated at.
        threshold: T = 2 alpha.
        learning_rate: eta of the update, alpha/2 as a fraction of the records.
        update_limit: c, the positives of the sparse vector.
    """

    error: float
    alpha: float
    threshold: float
    learning_rate: float
    update_limit: int


def online_pmw_accuracy(
    queries: int, *, records: float, cells: int, epsilon: float, delta: float = 0.0, beta: float
) -> OnlinePmwAccuracy:
    """Return what online private multiplicative weights by NumericSparse promises.

    alpha is the smallest with n alpha >= A(2k, c), A the accuracy of NumericSparse on 2k queries (both
    signs) with c = 4 ln|X| / alpha^2 positives. With T = 2 alpha a "below" is within 3 alpha, an "above" is
    off by at least alpha, so that c updates are enough, and its released value is within alpha.

    Source: Dwork and Roth (2014), Algorithm 6 and Theorems 4.14 (delta = 0) and 4.15; lecture notes,
        Theorem 5, in the form n = O~(log|Q| sqrt(log|X| log(1/delta)) / (alpha^2 epsilon)), no constants.
        Departure: the closed forms that the two theorems print do not follow from their T. At T = 2 alpha
        the constant is 36, not 32, in the first, and alpha^2 must read alpha in the second; for delta > 0 the
        algorithm prints ln k although it tests 2k queries. So T itself is solved for.
    """
    from scipy.optimize import brentq

    _check(queries, epsilon, beta=beta, delta=delta)
    _check_cells(cells)
    if not 0 < records < math.inf:
        raise BudgetError(f"expected a positive number of records, got records={records!r}")

    def excess(log_accuracy: float) -> float:
        """Return ln(A/(n alpha)); it falls, in steps where c does."""
        accuracy = math.exp(log_accuracy)
        positives = max(1, math.ceil(4 * math.log(cells) / accuracy**2))
        needed = numeric_sparse_accuracy(2 * queries, positives, epsilon=epsilon, delta=delta, beta=beta)
        return math.log(needed / records) - log_accuracy

    low, high = math.log(max(1e-9, 2 * math.sqrt(math.log(cells) / _MOST_UPDATES))) + _BESIDE, 0.0
    while excess(high) > 0:
        high += 1
    place = float(brentq(excess, low, high, xtol=_BESIDE / 4)) if excess(low) > 0 else low
    accuracy = math.exp(place + _BESIDE)
    limit = multiplicative_weights_update_limit(cells, accuracy=accuracy)
    require_printed(Budget.of(epsilon, delta), limit, halved=True)
    alpha = accuracy * records
    return OnlinePmwAccuracy(3 * alpha, alpha, 2 * alpha, accuracy / 2, limit)


def online_pmw_records(
    queries: int, *, accuracy: float, cells: int, epsilon: float, delta: float = 0.0, beta: float
) -> int:
    """Return n, the fewest records of which ``online_pmw_accuracy`` promises an accuracy.

    n = A(2k, c)/alpha', rounded up, with alpha' = accuracy/3 and c = 4 ln|X| / alpha'^2.

    Source: as ``online_pmw_accuracy``; lecture notes, Theorem 5, which is printed in this form.
    """
    limit = _loop_limit(cells, accuracy)
    alpha = numeric_sparse_accuracy(2 * queries, limit, epsilon=epsilon, delta=delta, beta=beta)
    require_printed(Budget.of(epsilon, delta), limit, halved=True)
    return math.ceil(3 * alpha / accuracy)


def online_pmw_epsilon(
    queries: int, *, accuracy: float, records: float, cells: int, delta: float = 0.0, beta: float
) -> float:
    """Return the smallest epsilon at which ``online_pmw_accuracy`` promises an accuracy.

    Source: as ``online_pmw_accuracy``: every alpha there is in proportion to 1/epsilon.
    """
    limit = _loop_limit(cells, accuracy)
    if not 0 < records < math.inf:
        raise BudgetError(f"expected a positive number of records, got records={records!r}")
    alpha = numeric_sparse_accuracy(2 * queries, limit, epsilon=1, delta=delta, beta=beta)
    epsilon = 3 * alpha / (accuracy * records)
    if epsilon > _LARGEST_EPSILON:
        raise BudgetError(
            f"no epsilon up to {_LARGEST_EPSILON:,} promises alpha={accuracy:g} by the theorem for so few "
            "records; allow a larger alpha, or plan for more records"
        )
    require_printed(Budget.of(epsilon, delta), limit, halved=True)
    return epsilon


def _loop_limit(cells: int, accuracy: float) -> int:
    """Return c of the loop whose answers are within accuracy = 3 alpha."""
    try:
        return multiplicative_weights_update_limit(cells, accuracy=accuracy / 3)
    except BudgetError:
        raise BudgetError(
            f"expected a positive alpha that needs at most 1e15 updates, got alpha={accuracy:g}"
        ) from None


def _check(queries: int, epsilon: float, *, beta: float, positives: int = 1, delta: float = 0.0) -> None:
    if queries < 1 or positives < 1:
        raise BudgetError(
            f"expected at least one query and one positive, got queries={queries}, positives={positives}"
        )
    if not 0 < epsilon < math.inf:
        raise BudgetError(f"expected epsilon > 0, got epsilon={epsilon!r}")
    if not 0 <= delta < 1:
        raise BudgetError(f"expected 0 <= delta < 1, got delta={delta!r}")
    if not 0 < beta < 1:
        raise BudgetError(f"expected 0 < beta < 1, got beta={beta!r}")


def _check_cells(cells: int) -> None:
    if cells < 1:
        raise BudgetError(f"expected a domain of at least 1 cell, got cells={cells}")


# --- the textbook's plan: Theorem 5 of the lecture, solved for what is missing ------------------------------


@dataclass(frozen=True, slots=True)
class TextbookPlan:
    """Theorem 5 of the lecture in numbers, with the theorems of Dwork and Roth (2014) that it rests on.

    Args:
        solved: what was missing: epsilon, alpha or n.
        alpha: the most that any answer is off, as a fraction of the records.
        loop: T, eta and c of the loop that the theorem is about, and its errors in records.
        figures: alpha, in records, of the sparse vectors that the loop rests on, for 2k tests: Theorem 3.24
            for one positive, 3.26 and 3.28 for the loop's c.
        noise: NumericSparse with the scales that Algorithm 3 prints, in records.
    """

    solved: str
    budget: Budget
    records: int
    alpha: float
    beta: float
    queries: int
    cells: int
    loop: OnlinePmwAccuracy
    figures: Mapping[str, float]
    noise: NumericSparse

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers in plain values; noise scales and errors in records."""
        test = self.noise.sparse.test
        return {
            "solved": self.solved,
            "epsilon": float(self.budget.epsilon),
            "delta": float(self.budget.delta),
            "records": self.records,
            "alpha": self.alpha,
            "beta": self.beta,
            "queries": self.queries,
            "cells": self.cells,
            "online_pmw": asdict(self.loop),
            **{f"{name}_error": value for name, value in self.figures.items()},
            "threshold_scale": float(test.threshold_scale),
            "test_scale": float(test.query_scale),
            "value_scale": self.value_scale,
        }

    @property
    def value_scale(self) -> float:
        """Scale of the Laplace noise on a value, in records."""
        return noise_scale(self.noise.value_noise)


@dataclass(frozen=True, slots=True)
class TextbookForecast:
    """What the textbook's theorems promise for the same budget, all answers at once, in records.

    None stands where the printed noise does not keep the budget, so that the theorem says nothing.

    Args:
        online_pmw_error: online private multiplicative weights.
        online_pmw_update_limit: the positives that it provides for.
        numeric_sparse_error: NumericSparse alone, with this session's number of positives.
    """

    online_pmw_error: float | None = None
    online_pmw_update_limit: int | None = None
    numeric_sparse_error: float | None = None


def forecast_textbook(contract: Contract, records: int, positives: int | None) -> TextbookForecast:
    """Return what theorems promise for a contract's budget, questions and confidence."""
    options, budget = contract.options, contract.budget
    queries, beta = options.expected_queries, 1 - options.confidence
    epsilon, delta = float(budget.epsilon) / options.records_per_person, float(budget.delta)
    error, updates, sparse = None, None, None
    with contextlib.suppress(BudgetError):
        online = online_pmw_accuracy(
            queries, records=records, cells=contract.domain.size, epsilon=epsilon, delta=delta, beta=beta
        )
        error, updates = online.error, online.update_limit
    if positives is not None:
        with contextlib.suppress(BudgetError):
            require_printed(Budget.of(epsilon, delta), positives, halved=True)
            sparse = numeric_sparse_accuracy(2 * queries, positives, epsilon=epsilon, delta=delta, beta=beta)
    return TextbookForecast(error, updates, sparse)


def solve_textbook(
    domain: Domain,
    *,
    records: int | None,
    epsilon: Number | None,
    delta: Number = 0,
    accuracy: float | None,
    options: Options,
) -> TextbookPlan:
    """Return Theorem 5 solved for whichever of epsilon, alpha and n is None; nothing is read or spent.

    Args:
        records: n, about how many records the table has.
        accuracy: alpha, the most that any answer may be off, as a fraction of the records.
        options: k is ``expected_queries`` and beta what ``confidence`` leaves; a person of K records divides
            epsilon by K.

    Source: Kamath, Lecture 9, Theorem 5, in the constants of ``online_pmw_accuracy``.
    """
    people, queries, cells = options.records_per_person, options.expected_queries, domain.size
    beta, solved = 1 - options.confidence, "alpha"
    what = {"delta": float(Budget.of(1, delta).delta), "beta": beta}
    if accuracy is not None and records is not None and epsilon is None:
        least = online_pmw_epsilon(queries, accuracy=accuracy, records=records, cells=cells, **what)
        solved, epsilon = "epsilon", _digits_up(people * least)
    elif accuracy is not None and epsilon is not None and records is None:
        each = float(Budget.of(epsilon, delta).epsilon) / people
        fewest = online_pmw_records(queries, accuracy=accuracy, cells=cells, epsilon=each, **what)
        if fewest > MOST_RECORDS:
            raise BudgetError(
                f"the theorem needs {fewest:.3g} records for alpha={accuracy:g}; allow a larger alpha, "
                "or give a larger epsilon"
            )
        solved, records = "n", fewest
    elif accuracy is not None or epsilon is None or records is None:
        raise BudgetError("expected two of epsilon, alpha and n, which give the third")
    budget = Budget.of(epsilon, delta)
    each, tests = float(budget.epsilon / people), 2 * queries
    loop = online_pmw_accuracy(queries, records=records, cells=cells, epsilon=each, **what)
    limit = loop.update_limit
    figures = {
        "above_threshold": above_threshold_accuracy(tests, epsilon=each, beta=beta),
        "sparse": sparse_accuracy(tests, limit, epsilon=each, **what),
        "numeric_sparse": numeric_sparse_accuracy(tests, limit, epsilon=each, **what),
    }
    noise = NumericSparse.textbook(epsilon=budget.epsilon / people, delta=budget.delta, update_limit=limit)
    alpha = loop.error / records
    return TextbookPlan(solved, budget, records, alpha, beta, queries, cells, loop, figures, noise)


def _digits_up(value: float) -> float:
    """Return a number of four digits that is at least a positive one."""
    grid = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / grid * (1 + 1e-12)) * grid:.6g}")
