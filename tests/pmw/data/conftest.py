"""One engine for the tests that read many small tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """One engine, which keeps nothing of the files it has read."""
    with duckdb.connect(":memory:") as engine:
        engine.execute("SET GLOBAL enable_external_file_cache = false")
        yield engine


@pytest.fixture
def same_engine(engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read through connections to one engine: a new engine for each file takes longer than the reading."""
    real: Callable[..., duckdb.DuckDBPyConnection] = duckdb.connect

    def connect(*where: str, **how: Any) -> duckdb.DuckDBPyConnection:
        return engine.cursor() if where == (":memory:",) and not how else real(*where, **how)

    monkeypatch.setattr(duckdb, "connect", connect)
