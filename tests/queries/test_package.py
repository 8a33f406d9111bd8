"""The package as a whole: whose it is, and which words it may not know."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest

import queries

PACKAGE = Path(queries.__file__).parent


def test_no_other_distribution_named_queries_is_installed() -> None:
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.distribution("queries")


@pytest.mark.parametrize("word", ["epsilon", "noise", "budget", "sensitivity"])
def test_questions_know_nothing_of_privacy(word: str) -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) > 10
    assert [module.name for module in modules if word in module.read_text(encoding="utf-8").lower()] == []


def test_the_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
