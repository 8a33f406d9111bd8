"""Stored answers, recomputed from the models and certificates of their versions; public, and free."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pmw.answers import Answer, Source, Spent
from pmw.error_bars import certified_answer, measured_answer, untested_answer
from pmw.errors import SessionCorruptError
from pmw.marginal_bars import marginal_answer
from pmw.mechanism import marginal_units
from pmw.model import QueryMeasurement
from pmw.policy import MarginalTestPlan, TestKind
from pmw.state import Certificate, PublicState
from pmw.store import StoredAnswer, query_key
from pmw.verification.replay import Replay, is_close
from queries.linear import UNITS, LinearQuery

__all__ = [
    "Expected",
    "expected_answers",
    "may_have_been_closed",
    "require_an_expected_answer",
    "with_certificates",
]

_NOWHERE = Spent(0.0, 0.0, 0.0)  # shares are compared elsewhere


@dataclass(frozen=True, slots=True)
class Expected:
    """An answer that a question may have been given.

    Args:
        answer: the answer.
        exact: its interval is recomputed; else a certificate that it may rest on was tested again later, and
            what is known is that the interval is no narrower than this one.
    """

    answer: Answer
    exact: bool = True


def expected_answers(row: StoredAnswer, replay: Replay) -> tuple[Expected, ...]:
    """Return the answers that a question may have been given at a stored answer's version, at least one.

    Args:
        row: the stored answer.
        replay: at the answer's version or before it.

    Raises:
        SessionCorruptError: there can be no such answer.
    """
    if row.source == Source.MEASURED.value:
        return (_measured(row, replay),)
    state = replay.at(row.version)
    query = _question(row, state)
    if state.contract.options.test is TestKind.QUERY:
        plain = Expected(untested_answer(state, query, _NOWHERE))
    else:
        plain = _by_marginals(state, query, replay)
    if row.source != Source.SYNTHETIC.value or (
        plain.answer.source is Source.SYNTHETIC and state.contract.options.test is TestKind.QUERY
    ):
        return (plain,)
    return (*_if_synthetic(plain), *_by_its_own_test(state, query, replay))


def _if_synthetic(expected: Expected) -> tuple[Expected, ...]:
    return (expected,) if expected.answer.source is Source.SYNTHETIC else ()


def _question(row: StoredAnswer, state: PublicState) -> LinearQuery:
    query = LinearQuery.from_dict(state.domain, json.loads(row.query))
    if query.to_json() != row.query or query_key(row.query) != row.query_key:
        raise SessionCorruptError("its question is not in its canonical text, or found under another key")
    return query


def _by_its_own_test(state: PublicState, query: LinearQuery, replay: Replay) -> Iterator[Expected]:
    """Yield the answer to a question that was tested by itself, and not bought.

    Raises:
        SessionCorruptError: no round was paid for that it could be tested in, and nothing else holds it.
    """
    plan = state.query_plan
    if plan is not None and replay.records.was_tested(TestKind.QUERY, state.version):
        units = round(state.model.answer(query) * UNITS)
        yield Expected(certified_answer(state, query, units, plan.threshold, _NOWHERE))
    elif (
        state.contract.options.test is TestKind.QUERY
        or marginal_answer(with_certificates(state, query.scope, replay)[0], query, _NOWHERE).source
        is not Source.SYNTHETIC
    ):
        raise SessionCorruptError("it was tested in a round that was not paid for")


def _measured(row: StoredAnswer, replay: Replay) -> Expected:
    measured = replay.records.measured
    if not 0 < row.version <= len(measured):
        raise SessionCorruptError(f"there is no measurement {row.version}")
    measurement = measured[row.version - 1]
    if isinstance(measurement, QueryMeasurement):
        if row.query != measurement.query.to_json():
            raise SessionCorruptError(f"measurement {row.version} is of another question")
        state = replay.at(max(row.version - 1, replay.version))
        return Expected(measured_answer(state, measurement.query, measurement.units, _NOWHERE))
    state = replay.at(row.version)
    query = _question(row, state)
    if not set(query.scope) <= set(measurement.scope):
        raise SessionCorruptError(f"measurement {row.version} does not contain its question")
    return _by_marginals(state, query, replay, bought=True)


# --- marginals ---------------------------------------------------------------------------------------------


def _by_marginals(
    state: PublicState, query: LinearQuery, replay: Replay, *, bought: bool = False
) -> Expected:
    held, exact = with_certificates(state, query.scope, replay)
    answer = marginal_answer(held, query, _NOWHERE, bought=bought)
    if answer.source is Source.UNVERIFIED and replay.records.closed:
        # Closing ends all tests; the file does not say which answers came after it.
        closed = replace(held, closed=True)
        answer = marginal_answer(closed, query, _NOWHERE) if may_have_been_closed(state, replay) else answer
    one_question = query.readings is None and state.coarsening.is_aligned(query)
    if not exact and answer.interval is not None and not one_question:
        # Its two ends come from two questions, whose certified numbers may have lain nearer to each other.
        answer = replace(answer, interval=(answer.count, answer.count))
    return Expected(answer, exact)


def may_have_been_closed(state: PublicState, replay: Replay) -> bool:
    """Tell whether answers of a version may have been given after the session was closed, if it was."""
    return state.version == len(replay.records.measured)


def with_certificates(state: PublicState, scope: Sequence[str], replay: Replay) -> tuple[PublicState, bool]:
    """Return the state with the certificates of its time, and whether those of a scope are known exactly.

    The file keeps the newest certificate of each marginal. One of an earlier version held at the time. One of
    this version, or of a later one, may have replaced another: where the question's own marginal was tested
    again later, it was certified for this version too, or for the one before in the very batch that ended it;
    else it would have been tested for the question. The threshold of that certificate was at least the one
    that the plan has after as many answers, and its numbers are taken for this version's.
    """
    plan, wanted = state.plan, set(scope)
    if not isinstance(plan, MarginalTestPlan):
        return state, True
    certificates, exact = {}, True
    for one in replay.records.certificates:
        if one.version < state.version:
            certificates[one.scope] = one
        elif one.version == state.version or set(one.scope) <= wanted:
            units = marginal_units(state, one.scope)
            least = plan.threshold(units.size, replay.answers)
            certificates[one.scope] = Certificate(one.scope, state.version, least, units)
            exact = exact and state.version == 0 and least == plan.threshold(units.size, 0)
        else:
            exact = False
    return replace(state, certificates=certificates), exact


# --- comparison --------------------------------------------------------------------------------------------


def require_an_expected_answer(row: StoredAnswer, expected: tuple[Expected, ...]) -> None:
    """Compare a stored answer with those that the question may have been given.

    Raises:
        SessionCorruptError: it is none of them.
    """
    faults = []
    for one in expected:
        try:
            _require_same(row, one)
        except SessionCorruptError as error:
            faults.append(error)
        else:
            return
    raise faults[0] if faults else SessionCorruptError("nothing held it, and it says that something did")


def _require_same(row: StoredAnswer, expected: Expected) -> None:
    answer = expected.answer
    if row.source != answer.source.value:
        raise SessionCorruptError(f"expected source {answer.source.value}, found {row.source}")
    pairs = [("count", row.count, answer.count), ("confidence", row.confidence, answer.confidence)]
    if (row.interval is None) != (answer.interval is None):
        raise SessionCorruptError("it has an interval where none is promised, or lacks one that is")
    if row.interval is not None and answer.interval is not None:
        if expected.exact:
            pairs.append(("low end", row.interval[0], answer.interval[0]))
            pairs.append(("high end", row.interval[1], answer.interval[1]))
        else:
            _require_no_narrower(row, row.interval, answer.interval)
    for name, found, wanted in pairs:
        if not is_close(found, wanted, answer.count):
            raise SessionCorruptError(f"expected {name} {wanted:.6f}, found {found:.6f}")


def _require_no_narrower(row: StoredAnswer, found: tuple[float, float], least: tuple[float, float]) -> None:
    """Check that an interval holds its answer, and is as wide as another, unless it was cut at zero."""
    holds = found[0] <= row.count <= found[1]
    if not holds or (found[0] > 0 and not _at_least(found[1] - found[0], least[1] - least[0], row.count)):
        raise SessionCorruptError("its interval is narrower than any test could make it")


def _at_least(found: float, wanted: float, size: float) -> bool:
    return found >= wanted or is_close(found, wanted, size)
