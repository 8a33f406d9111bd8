"""The tree of errors: one base for both packages, and where each leaf ends up."""

from __future__ import annotations

import pickle

import click
import pytest

import pmw
import queries
from pmw import errors
from pmw.cli.usage import refusal
from pmw.service.guard import told_of

OWN = [kind for kind in vars(errors).values() if getattr(kind, "__module__", "") == errors.__name__]
ASKED = [queries.DomainError, queries.SchemaError, queries.RecordsError, queries.ScopeError]
UNUSABLE = [errors.SessionLockedError, errors.SessionCorruptError, errors.ModelFileError]


def query_error() -> queries.QueryError:
    return queries.QueryError("expected a value", code="syntax", position=3)


def test_there_is_one_base_under_two_names() -> None:
    assert pmw.PMWError is queries.QueriesError


@pytest.mark.parametrize("leaf", [*OWN, *ASKED, queries.QueryError])
def test_every_error_is_caught_by_one_name(leaf: type[Exception]) -> None:
    assert issubclass(leaf, pmw.PMWError)
    assert leaf.__name__ in (errors.__doc__ or "")


def test_a_refused_question_is_caught_by_the_name_of_pmw() -> None:
    domain = queries.Domain((queries.IntegerAttribute("age", 0, 9),))
    with pytest.raises(pmw.PMWError) as refused:
        queries.parse_where("height = 3", domain)
    assert isinstance(refused.value, queries.QueryError)


@pytest.mark.parametrize("leaf", [*OWN, *ASKED])
def test_an_error_ends_a_command_with_its_own_code(leaf: type[Exception]) -> None:
    told = refusal(leaf("why"))
    assert isinstance(told, click.ClickException)
    assert told.exit_code == (5 if leaf in UNUSABLE else 4 if leaf is errors.PriceError else 1)


def test_a_refused_question_ends_a_command_with_4() -> None:
    told = refusal(query_error())
    assert told is not None
    assert told.exit_code == 4


def test_a_price_comes_back_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(errors.PriceError("why", price=0.25)))  # noqa: S301
    assert (type(error), error.price, error.code) == (errors.PriceError, 0.25, "not_paid")
    assert error.to_dict() == {"code": "not_paid", "message": "why", "position": None, "price": 0.25}


def test_a_service_tells_a_refused_question_before_any_other_error() -> None:
    assert told_of(query_error()) == (400, "syntax", "expected a value")
    assert told_of(errors.PriceError("why", price=0.1)) == (403, "not_paid", "why")
    assert told_of(errors.BudgetExhaustedError("why"))[:2] == (403, "budget_exhausted")


@pytest.mark.parametrize("leaf", ASKED)
def test_a_service_does_not_tell_the_text_of_what_is_no_question(leaf: type[Exception]) -> None:
    status, code, message = told_of(leaf("a text of the schema"))
    assert (status, code) == (400, "bad_request")
    assert "schema" not in message
