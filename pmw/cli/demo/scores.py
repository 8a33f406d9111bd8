"""Scores: errors against the truth, which only a public table may show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.budget import Composition
from pmw.privacy.filter import open_filter
from pmw.public.answer import Answer
from pmw.public.state import PublicState


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """True errors of answers.

    Args:
        errors: float64, shape (k,), |answer - truth| / records.
        widths: float64, shape (k,), half the interval / records; NaN where nothing was promised.
        coverage: share of the intervals that hold the truth.
    """

    errors: NDArray[np.float64]
    widths: NDArray[np.float64]
    coverage: float


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """True errors of independent noise on each question under the same budget.

    Args:
        errors: float64, shape (k,), one draw for each question, / records.
        width: half the interval at the session's confidence / records.
        distribution: the distribution of the noise, in words.
    """

    errors: NDArray[np.float64]
    width: float
    distribution: str


def score(answers: Sequence[Answer], truth: NDArray[np.float64], records: int) -> Scores:
    """Return the true errors of answers.

    Args:
        answers: one per question.
        truth: float64, shape (k,), true answers in records.
        records: true number of records.
    """
    counts = np.array([answer.count for answer in answers])
    ends = np.array([answer.interval or (math.nan, math.nan) for answer in answers]).reshape(-1, 2)
    promised = ~np.isnan(ends[:, 0])
    held = (ends[:, 0] - 1e-6 <= truth) & (truth <= ends[:, 1] + 1e-6)
    return Scores(
        np.abs(counts - truth) / records,
        (ends[:, 1] - ends[:, 0]) / 2 / records,
        float(held[promised].mean()) if promised.any() else math.nan,
    )


def noise_per_query(state: PublicState, count: int, records: int) -> Baseline:
    """Return the errors of a simulated mechanism that adds noise to each question and knows their number.

    The whole budget is shared evenly: Gaussian noise of sigma = sqrt(k/(2 rho)) under zCDP, Laplace noise of
    scale k/epsilon under plain sums; with delta > 0 whichever is narrower, whatever rule the session follows.
    It is a simulation with ordinary floating-point noise.

    Args:
        state: whose budget is shared.
        count: number of questions.
        records: true number of records.
    """
    generator = np.random.default_rng(0)
    budget, confidence = state.contract.budget, state.contract.options.confidence
    laplace, gaussian = count / float(budget.epsilon), math.inf
    if budget.delta:
        gaussian = math.sqrt(count / (2 * float(open_filter(budget, Composition.ZCDP).cap)))
    if gaussian < math.sqrt(2) * laplace:
        scale = gaussian
        draws, distribution = generator.normal(0, scale, count), "Gaussian noise"
        width = scale * NormalDist().inv_cdf((1 + confidence) / 2)
    else:
        scale = laplace
        draws, distribution = generator.laplace(0, scale, count), "Laplace noise"
        width = -scale * math.log1p(-confidence)
    return Baseline(np.abs(draws) / records, width / records, distribution)
