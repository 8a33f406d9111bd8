"""Small tables for the tests of ``pmw``."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
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
