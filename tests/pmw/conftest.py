"""Small tables for the tests of ``pmw``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
from pmw.research.audit import (
    OutputDistribution,
    neighbor_patterns,
    output_distribution_of,
    tables_of,
    worst_log_ratio,
)
from pmw.sparse_vector import Sparse
from queries import Domain
from tests import worlds


@pytest.fixture(scope="session")
def domain() -> Domain:
    """A domain of 240 cells: ages, sexes, regions and a flag."""
    return worlds.PEOPLE.domain


@pytest.fixture
def frame() -> pd.DataFrame:
    """3,000 records with dependent attributes, the same in every run."""
    return worlds.PEOPLE.frame.copy()


@pytest.fixture(scope="session")
def shared_frame() -> pd.DataFrame:
    """The records of ``frame``, for sessions that several tests share."""
    return worlds.PEOPLE.frame


@pytest.fixture
def long_domain() -> Domain:
    """A domain with a long ordered attribute, which is measured as a hierarchical histogram."""
    return worlds.INCOMES.domain


@pytest.fixture
def long_frame() -> pd.DataFrame:
    """3,000 records, most of them in few cells of the long attribute, the same in every run."""
    return worlds.INCOMES.frame.copy()


@pytest.fixture
def repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the noise of sessions in files the same in every run."""
    worlds.repeat_noise(monkeypatch, 20)


def _require_independent(draws: NDArray[np.int64]) -> None:
    sizes = np.abs(draws)
    # At scales of a record and more two draws are hardly ever alike, whatever their signs.
    assert len(np.unique(sizes)) > 0.99 * sizes.size, "a draw serves several numbers"
    among = np.atleast_2d(np.corrcoef(draws.T)) - np.eye(draws.shape[1])
    assert np.abs(among).max() < 6 / math.sqrt(len(draws)), "draws hang together"


@pytest.fixture
def require_independent() -> Callable[[NDArray[np.int64]], None]:
    """Return a check of noise in units, int64, shape (draws, numbers): each number has noise of its own."""
    return _require_independent


@pytest.fixture
def study(frame: pd.DataFrame, domain: Domain, tmp_path: Path, repeatable: None) -> Path:
    """Open a session in a file with room for six positives, ask it one question and return the file."""
    path = tmp_path / "study.pmw"
    options = pmw.Options(
        test=pmw.TestKind.QUERY, threshold=100.0, update_limit=6, composition=pmw.Composition.ZCDP
    )
    with pmw.open_session(frame, domain, epsilon=5, delta=1e-9, path=path, options=options) as session:
        session.ask("sex = 'Male'")
    return path


Audit: TypeAlias = Callable[[Sparse], float]


# One-sided noise attains its bound at the threshold, two-sided noise far from it.
_BASES = ((2, 2, 2, 2), (1, 4, 1, 4), (-9, 30, -9, 30), (30, -9, 0, -9))


@pytest.fixture
def enumerated() -> Audit:
    """The largest log-ratio over all outputs of 4 tests, at all corners of the neighbours of some tables."""

    def worst(sparse: Sparse) -> float:
        known: dict[tuple[int, ...], OutputDistribution] = {}
        found = 0.0
        for base, pattern in itertools.product(_BASES, neighbor_patterns(4, monotone=sparse.test.monotone)):
            unit = sparse.test.sensitivity
            moved = tuple(value + unit * change for value, change in zip(base, pattern, strict=True))
            for values in (base, moved):
                if values not in known:
                    known[values] = output_distribution_of(sparse, 2, values)
            found = max(found, worst_log_ratio(known[base], known[moved]))
        return found

    return worst


@pytest.fixture
def attained() -> Audit:
    """The log-ratio of one output: in each round 40 negatives that rise, then positives that fall."""

    def ratio(sparse: Sparse) -> float:
        limit, unit = sparse.update_limit, sparse.test.sensitivity
        tables = tables_of(sparse.test, 0)
        fall = 0 if sparse.test.monotone else -unit
        positives = 1 if sparse.redraw else limit

        def log_probability(negative: int, positive: int) -> float:
            below, above = 1 - tables.above(negative), tables.above(positive)
            weights = tables.weights * below**40 * above**positives
            return math.log(float(np.sum(weights))) * (limit / positives)

        return log_probability(0, 0) - log_probability(unit, fall)

    return ratio
