"""One engine for the tests that read many small Parquet files."""

from __future__ import annotations

from collections.abc import Iterator

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

    def connect(database: str) -> duckdb.DuckDBPyConnection:
        assert database == ":memory:"
        return engine.cursor()

    monkeypatch.setattr(duckdb, "connect", connect)
