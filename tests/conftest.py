"""Options and fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-dir",
        default=os.environ.get("PMW_DATA_DIR"),
        help="folder with real tables for extra tests (also PMW_DATA_DIR); they are skipped without it",
    )


@pytest.fixture
def data_dir(request: pytest.FixtureRequest) -> Path:
    """Return the folder with real tables, or skip the test where none is given."""
    given = request.config.getoption("--data-dir")
    if given is None:
        pytest.skip("needs real tables: give --data-dir or PMW_DATA_DIR")
    return Path(str(given))
