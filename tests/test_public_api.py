"""The public surface: what the two packages list is there, documented, and pinned."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType

import click
import pytest

import pmw
import queries
from pmw import errors, online
from pmw.cli.usage import refusal
from pmw.service.guard import told_of
from pmw.session import opening

PMW = """
Analyst Answer Answers backup_session BudgetExhaustedError connect CsvDialect DatabaseTable DataError
Domain finalize_session fit_workload load_model load_schema move_session open_session Options
plan_session PMWError public_prior PublicModel RemoteSession resume_session RowPlan ServiceError Session
SessionError synthesize TableFile verify_session
"""
UNLISTED = """
Activity Booked Budget BudgetError Check Composition expected_questions ExpectedQuestions Ledger LedgerLine
LinearQuery MemoryLimit
ModelFileError ModelKind NeighboringRelation NoiseError OfflineOptions OfflineRelease Opening PriceError Prior
Quote
ReleaseError SessionCorruptError SessionExistsError SessionLockedError SessionPlan Sides Source
SparseVectorKind Spent Status StoreError Synthesis TestKind UpdateRule Verification
"""
QUERIES = """
all_marginals all_ranges Attribute CategoricalAttribute CodedRecords DateAttribute DatetimeAttribute
decode_records Domain DomainError encode_records Factor format_schema Histogram Impossible
IntegerAttribute LinearQuery load_schema Lookup Marginal marginal_cells
NumericAttribute parities parse_line parse_question parse_schema parse_sql parse_where
parse_workload Person popular_conjunctions prefixes QueriesError QueryError Question random_conjunctions
RecordsError rule_out save_schema SchemaError ScopeError Statement TimeAttribute UNITS Workload
"""
ONLINE = """
BitSource Correction MultiplicativeWeights OnlineAnswer Options PrivateMultiplicativeWeights Source source_of
SparseVector UpdateRule
"""


def modules() -> list[ModuleType]:
    found = [pmw, queries]
    for package in (pmw, queries):
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            needed = find_spec("fastapi") or not info.name.startswith("pmw.service")
            if needed and not info.name.endswith("__main__"):
                found.append(importlib.import_module(info.name))
    return found


@pytest.mark.parametrize(("package", "names"), [(pmw, PMW), (queries, QUERIES), (online, ONLINE)])
def test_the_surface_is_pinned(package: ModuleType, names: str) -> None:
    assert list(package.__all__) == names.split()
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))


def test_what_a_user_needs_is_on_one_screen() -> None:
    """The other names are there for whoever knows them, and for annotations."""
    assert len(pmw.__all__) <= 30
    assert dir(pmw) == sorted(pmw.__all__)
    for name in UNLISTED.split():
        assert getattr(pmw, name) is not None
    assert set(pmw._HOME_OF) == {*PMW.split(), *UNLISTED.split()}
    with pytest.raises(AttributeError, match="module 'pmw' has no attribute 'nothing'"):
        pmw.nothing  # noqa: B018


def offered(module: ModuleType) -> dict[str, object]:
    """Return the classes and functions that a module defines without an underscore."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and (inspect.isclass(value) or inspect.isfunction(value))
    }


def test_faces_of_packages_list_what_they_offer_and_modules_do_not() -> None:
    """A module offers what has no underscore; ``__all__`` says what a package's face takes from inside."""
    wrong = []
    for module in modules():
        listed = list(getattr(module, "__all__", ()))
        wrong += [f"{module.__name__} has no docstring"] if not module.__doc__ else []
        if listed and not hasattr(module, "__path__") and module is not online:
            wrong.append(f"{module.__name__} is no face of a package, and has __all__")
        if listed != sorted(listed, key=str.casefold):
            wrong.append(f"{module.__name__}.__all__ is not sorted")
        wrong += [f"{module.__name__}.{name} is not there" for name in listed if not hasattr(module, name)]
    assert not wrong, "\n".join(["", *wrong])


def undocumented(value: object) -> Iterator[str]:
    """Yield what has no docstring, its own or a base's: a class or function, and the methods of a class."""
    if not inspect.getdoc(value):
        yield ""
    for method, function in vars(value).items() if inspect.isclass(value) else ():
        is_method = inspect.isroutine(function) or isinstance(function, property)
        if is_method and not method.startswith("_") and not inspect.getdoc(getattr(value, method)):
            yield f".{method}"


def test_every_public_name_is_documented() -> None:
    wrong = [
        f"{module.__name__}.{name}{part}"
        for module in modules()
        for name, value in offered(module).items()
        for part in undocumented(value)
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_a_function_that_touches_data_or_noise_states_its_guarantee() -> None:
    from pmw.data import CountSource, MemorySource
    from pmw.loop.loop import draw_tests
    from pmw.loop.untested import draw_opening
    from pmw.privacy.selection import ExponentialMechanism
    from pmw.research.baselines import all_pairs_max_entropy
    from pmw.research.histograms import counted
    from pmw.research.sparse_vectors import FreeGap, NaiveAboveThreshold, Retraversal, TopC
    from pmw.sparse_vector import AboveThreshold, NumericSparse, Sparse, ThresholdTest

    for thing in (
        draw_opening, draw_tests, opening.open_session, MemorySource, MemorySource.counts,
        CountSource.counts, AboveThreshold, FreeGap, NaiveAboveThreshold, NumericSparse, Retraversal,
        Sparse, ThresholdTest, TopC, ExponentialMechanism, online.PrivateMultiplicativeWeights,
        online.PrivateMultiplicativeWeights.answer, online.SparseVector, online.UpdateRule, online.source_of,
        counted, all_pairs_max_entropy,
    ):  # fmt: skip
        assert "Privacy:" in (inspect.getdoc(thing) or ""), thing


# --- errors: one base for both packages, and where each leaf ends up ----------------------------------------

OWN = [kind for kind in vars(errors).values() if getattr(kind, "__module__", "") == errors.__name__]
ASKED = [queries.DomainError, queries.SchemaError, queries.RecordsError, queries.ScopeError]
UNUSABLE = [errors.SessionLockedError, errors.SessionCorruptError, errors.ModelFileError]


def query_error() -> queries.QueryError:
    return queries.QueryError("expected a value", code="syntax", position=3)


def test_every_error_is_caught_by_one_name_and_ends_a_command_with_its_own_code() -> None:
    assert pmw.PMWError is queries.QueriesError
    codes = {
        leaf: 5 if leaf in UNUSABLE else 4 if leaf is errors.PriceError else 1 for leaf in (*OWN, *ASKED)
    }
    ends = {leaf: refusal(leaf("why")) for leaf in codes} | {queries.QueryError: refusal(query_error())}
    for leaf, told in ends.items():
        assert issubclass(leaf, pmw.PMWError)
        assert leaf.__name__ in (errors.__doc__ or "")
        assert isinstance(told, click.ClickException)
        assert told.exit_code == codes.get(leaf, 4), leaf


def test_a_price_comes_back_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(errors.PriceError("why", price=0.25)))  # noqa: S301
    assert (type(error), error.price, error.code) == (errors.PriceError, 0.25, "not_paid")
    assert error.to_dict() == {"code": "not_paid", "message": "why", "position": None, "price": 0.25}


def test_a_service_tells_a_refused_question_and_not_the_text_of_what_is_none() -> None:
    assert told_of(query_error()) == (400, "syntax", "expected a value")
    assert told_of(errors.PriceError("why", price=0.1)) == (403, "not_paid", "why")
    assert told_of(errors.BudgetExhaustedError("why"))[:2] == (403, "budget_exhausted")
    for leaf in ASKED:
        status, code, message = told_of(leaf("a text of the schema"))
        assert (status, code) == (400, "bad_request")
        assert "schema" not in message
