"""The textbook's plan: Theorem 5 of the lecture, solved for what is missing, and what it rests on."""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict
from typing import Any

from pmw.errors import BudgetError
from pmw.model.estimate import noise_scale
from pmw.planning.theorems import (
    OnlinePmwAccuracy,
    above_threshold_accuracy,
    numeric_sparse_accuracy,
    online_pmw_accuracy,
    online_pmw_epsilon,
    online_pmw_records,
    sparse_accuracy,
)
from pmw.privacy.budget import Budget, Number
from pmw.public.contract import Contract
from pmw.public.options import Options
from pmw.sparse_vector import NumericSparse
from pmw.sparse_vector.composition import require_printed
from queries.domain import Domain
from queries.frozen import dataclass

MOST_RECORDS = 10**12  # of a plan


@dataclass(frozen=True, slots=True)
class Figures:
    """alpha of the sparse vectors that the loop rests on, for 2k tests and its c positives, in records.

    Args:
        above_threshold: Dwork and Roth (2014), Theorem 3.24, for one positive.
        sparse: Theorem 3.26.
        numeric_sparse: Theorem 3.28.
    """

    above_threshold: float
    sparse: float
    numeric_sparse: float


@dataclass(frozen=True, slots=True)
class TextbookPlan:
    """Theorem 5 of the lecture in numbers, with the theorems of Dwork and Roth (2014) that it rests on.

    Args:
        solved: what was missing: epsilon, alpha or n.
        records: n.
        alpha: the most that any answer is off, as a fraction of the records.
        beta: failure probability.
        cells: |X|, the cells of the domain.
        loop: T, eta and c of the loop that the theorem is about, and its errors in records.
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
    figures: Figures
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
            **{f"{name}_error": value for name, value in asdict(self.figures).items()},
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
    """Return what theorems promise for a contract's budget, questions and confidence.

    Args:
        records: stated number of records.
        positives: of the session's test of single questions; None where there is no such test.
    """
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

    Source: Kamath, Lecture 9, Theorem 5, in the constants of ``pmw.planning.theorems``.
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
        solved, records = "n", _planned(fewest, accuracy)
    elif accuracy is not None or epsilon is None or records is None:
        raise BudgetError("expected two of epsilon, alpha and n, which give the third")
    budget = Budget.of(epsilon, delta)
    each, tests = float(budget.epsilon / people), 2 * queries
    loop = online_pmw_accuracy(queries, records=records, cells=cells, epsilon=each, **what)
    limit = loop.update_limit
    figures = Figures(
        above_threshold_accuracy(tests, epsilon=each, beta=beta),
        sparse_accuracy(tests, limit, epsilon=each, **what),
        numeric_sparse_accuracy(tests, limit, epsilon=each, **what),
    )
    noise = NumericSparse.textbook(epsilon=budget.epsilon / people, delta=budget.delta, update_limit=limit)
    alpha = loop.error / records
    return TextbookPlan(solved, budget, records, alpha, beta, queries, cells, loop, figures, noise)


def _planned(records: int, accuracy: float) -> int:
    """Return a number of records that a plan may be made for."""
    if records > MOST_RECORDS:
        raise BudgetError(
            f"the theorem needs {records:.3g} records for alpha={accuracy:g}; allow a larger alpha, "
            "or give a larger epsilon"
        )
    return records


def _digits_up(value: float) -> float:
    """Return a number of four digits that is at least a positive one."""
    grid = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / grid * (1 + 1e-12)) * grid:.6g}")
