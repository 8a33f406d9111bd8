"""Distributions: what was drawn held against what is exact, and what is exact against that of a neighbour."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pmw.privacy.noise import Distribution
from pmw.research.audit import (
    OutputDistribution,
    log_probability,
    neighbor_patterns,
    stream_distribution,
    tables_of,
    worst_log_ratio,
)
from pmw.sparse_vector import Sparse

Values: TypeAlias = tuple[int, ...]
Output = TypeVar("Output", bound=Hashable)
WRONG = (Fraction(10, 13), Fraction(13, 10))  # factors of a scale that is 30 % off


def fit(drawn: Mapping[Output, int], expected: Mapping[Output, float]) -> float:
    """Return the chi-square p-value of how often outputs were drawn, against their probabilities.

    Outputs that are expected less than five times are taken together.
    """
    assert set(drawn) <= set(expected), "an output that cannot be"
    runs, mass = sum(drawn.values()), sum(expected.values())
    rare = {output for output, chance in expected.items() if chance / mass * runs < 5}
    groups = [[output] for output in expected if output not in rare]
    if rare and sum(expected[output] for output in rare) / mass * runs >= 5:
        groups.append(list(rare))
    else:
        groups[-1] += rare
    counts = [sum(drawn.get(output, 0) for output in group) for group in groups]
    shares = [sum(expected[output] for output in group) / mass for group in groups]
    return float(stats.chisquare(counts, np.array(shares) / sum(shares) * runs).pvalue)


def noise_fit(draws: NDArray[np.int64], distribution: Distribution) -> float:
    """Return the chi-square p-value of draws against a distribution's table, in about 60 cells."""
    low, high = int(np.quantile(draws, 0.001)), int(np.quantile(draws, 0.999)) + 1
    edges = np.unique(np.linspace(low, high, 60).astype(np.int64))
    above = distribution.survival(edges)
    shares = np.concatenate([[1 - above[0]], above[:-1] - above[1:], [above[-1]]])
    found = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(shares))
    return fit(dict(enumerate(found.tolist())), dict(enumerate(shares.tolist())))


def require_scale(p_value: Callable[[Fraction], float], *, wrong: float = 1e-6) -> None:
    """Require that draws fit their distribution, and none of a scale that is 30 % off.

    Args:
        p_value: of the draws against the distribution whose scale is so many times the one they have.
        wrong: what it is below where the scale is off.
    """
    assert p_value(Fraction(1)) > 1e-4
    for factor in WRONG:
        assert p_value(factor) < wrong


def largest_ratio(
    distribution: Callable[[Values], OutputDistribution],
    bases: Sequence[Values],
    *,
    monotone: bool,
    unit: int = 1,
) -> float:
    """Return the largest log-ratio of an output between any base point and any of its neighbours.

    Args:
        distribution: of the outputs of a stream of values.
        bases: streams.
        monotone: between neighbours all values move the same way.
        unit: the most that a value moves.
    """
    known: dict[Values, OutputDistribution] = {}

    def of(values: Values) -> OutputDistribution:
        if values not in known:
            known[values] = distribution(values)
        return known[values]

    return max(
        worst_log_ratio(of(base), of(tuple(v + unit * d for v, d in zip(base, pattern, strict=True))))
        for base in bases
        for pattern in neighbor_patterns(len(base), monotone=monotone)
    )


def enumerated(sparse: Sparse, threshold: int, bases: Sequence[Values]) -> float:
    """Return the largest log-ratio of an implemented algorithm; see ``largest_ratio``."""
    tables, test = tables_of(sparse, threshold), sparse.test
    return largest_ratio(
        lambda values: stream_distribution(tables, values),
        bases,
        monotone=test.monotone,
        unit=test.sensitivity,
    )


def attained(sparse: Sparse) -> float:
    """Return the log-ratio of one output: in each round 40 negatives that rise, then positives that fall.

    Two-sided noise comes near its bound there.
    """
    unit, fall = sparse.test.sensitivity, 0 if sparse.test.monotone else -sparse.test.sensitivity
    rounds, positives = (sparse.update_limit, 1) if sparse.redraw else (1, sparse.update_limit)
    outputs = ((0,) * 40 + (1,) * positives) * rounds
    here, there = (
        log_probability(tables_of(sparse, 0), ((low,) * 40 + (high,) * positives) * rounds, outputs)
        for low, high in ((0, 0), (unit, fall))
    )
    return here - there
