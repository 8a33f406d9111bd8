"""A session to release from."""

from __future__ import annotations

import pandas as pd
import pytest

import pmw
from queries import Domain


@pytest.fixture
def session(frame: pd.DataFrame, domain: Domain) -> pmw.Session:
    return pmw.open_session(
        frame, domain, epsilon=1, delta=1e-9, options=pmw.Options(test=pmw.TestKind.QUERY, seed=1)
    )
