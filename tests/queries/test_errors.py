"""The tree of errors, and what a refused question carries."""

from __future__ import annotations

import json
import pickle

import pytest

from queries import DomainError, QueriesError, QueryError, RecordsError, SchemaError, ScopeError


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
