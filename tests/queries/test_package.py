"""The package as a whole: whose it is, and which words it may not know."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import pickle
from pathlib import Path

import pytest

import queries
from queries import DomainError, QueriesError, QueryError, RecordsError, SchemaError, ScopeError

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


# --- errors -------------------------------------------------------------------------------------------------


def test_each_error_belongs_to_the_package_and_is_a_value_error() -> None:
    for leaf in (DomainError, SchemaError, RecordsError, ScopeError, QueryError):
        assert issubclass(leaf, QueriesError)
        assert issubclass(leaf, ValueError)


@pytest.mark.parametrize("position", [None, 0, 17, "where.age.between"])
def test_a_refusal_carries_its_code_message_and_position(position: int | str | None) -> None:
    error = QueryError("expected a value", code="syntax", position=position)
    assert str(error) == error.message == "expected a value"
    assert error.to_dict() == {"code": "syntax", "message": "expected a value", "position": position}
    assert json.loads(json.dumps(error.to_dict())) == error.to_dict()


@pytest.mark.parametrize(
    "error",
    [
        QueryError("expected a value", code="syntax", position=3),
        SchemaError("expected a kind", line=2, path="people.toml"),
        DomainError("expected a name"),
        ScopeError("expected two axes"),
    ],
)
def test_an_error_comes_back_from_another_process_as_it_was(error: QueriesError) -> None:
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
