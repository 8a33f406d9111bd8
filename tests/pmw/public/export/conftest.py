"""A session to release from, which no test changes."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

import pmw
from queries import Domain


@pytest.fixture(scope="session")
def session(shared_frame: pd.DataFrame, domain: Domain) -> Iterator[pmw.Session]:
    options = pmw.Options(test=pmw.TestKind.QUERY, seed=1)
    with pmw.open_session(shared_frame, domain, epsilon=1, delta=1e-9, options=options) as session:
        yield session
