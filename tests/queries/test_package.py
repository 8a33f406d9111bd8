"""The package as a whole: whose it is, and which words it may not know."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest

import queries

PACKAGE = Path(queries.__file__).parent


def test_the_package_lies_beside_pmw_and_is_no_postgres_client() -> None:
    found = importlib.util.find_spec("pmw")
    assert found is not None
    assert found.origin is not None
    assert Path(found.origin).parent.parent == PACKAGE.parent
    assert hasattr(queries, "LinearQuery")
    assert not hasattr(queries, "Session")
    assert not hasattr(queries, "uri")


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


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    assert [name for name in queries.__all__ if not hasattr(queries, name)] == []
    classes = [value for name in queries.__all__ if isinstance(value := getattr(queries, name), type)]
    assert [kind.__name__ for kind in classes if not (kind.__doc__ or "").strip()] == []
