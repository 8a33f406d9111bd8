"""What runs a benchmark in the process of its test."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Any]]:
    """Return what runs a module with arguments, without a data folder, and returns its lines."""

    def lines(module: ModuleType, *arguments: str) -> list[Any]:
        monkeypatch.delenv("PMW_DATA_DIR", raising=False)
        monkeypatch.setattr("sys.argv", [module.__name__, *arguments])
        module.main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return lines
