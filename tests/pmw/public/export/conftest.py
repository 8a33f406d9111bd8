"""A session to release from."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

import pmw
from queries import Domain


@pytest.fixture
def session(frame: pd.DataFrame, domain: Domain) -> Iterator[pmw.Session]:
    options = pmw.Options(test=pmw.TestKind.QUERY, seed=1)
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=options) as session:
        yield session
