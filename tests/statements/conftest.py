"""One session whose noise is negligible, and DuckDB over the same records."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pandas as pd
import pytest

import pmw
from benchmarks.exact import connected, exact_session, people


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def session(frame: pd.DataFrame) -> Iterator[pmw.Session]:
    with exact_session(frame) as one:
        yield one


@pytest.fixture(scope="module")
def judge(frame: pd.DataFrame) -> Iterator[duckdb.DuckDBPyConnection]:
    with connected(frame) as connection:
        yield connection
