"""The codec: forms that give exactly the same values back, and refuse whatever was changed."""

from __future__ import annotations

import copy
import json
import typing
from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.loop.secret import SecretState
from pmw.loop.tiers import MarginalRequest, Proposal, QueryRequest
from pmw.loop.untested import OpeningDraws
from pmw.model.bins import Coarsening
from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    PersonsMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SumMeasurement,
    SummedRows,
)
from pmw.model.strategy import AxisRows, Strategy
from pmw.model.value_sums import COUNT_UNITS, SummedValues
from pmw.planning.error_quantiles import QuantileRequest
from pmw.privacy.budget import Budget, Charge, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Basis, QuestionKind
from pmw.public.charges import CellNumbers, LedgerEntry, PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.codec import FormError, dumps, form_of, loads, read, registered
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.options import DraftCharge, ExpectedQuestions, Opening, Options, TestKind, UpdateRule
from pmw.public.plans import AddedPrice, MarginalTestPlan, OpeningPlan, QueryTestPlan
from pmw.public.prior import Prior, PriorPair
from pmw.public.quotes import Quote
from pmw.public.state import Certificate
from pmw.session import exact
from pmw.session.journal import Recorded, Tie, read_recorded, recorded_text
from pmw.session.loading import KeptModel, Released
from pmw.session.store.rows import IntentRow
from pmw.sparse_vector import (
    NoisyThreshold,
    NumericSparse,
    Sech2Test,
    Sides,
    Sparse,
    SparseState,
    SparseVectorKind,
    ThresholdTest,
)
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery

PEOPLE = Domain(
    (
        CategoricalAttribute("sex", ("Female", "Male")),
        IntegerAttribute("age", 0, 8),
        CategoricalAttribute("region", ("north", "öst")),
    ),
    name="people",
)
TREES = (
    HierarchicalHistogram(9, 0, 2, 3),
    HierarchicalHistogram(4, 1, 2, 2),
    HierarchicalHistogram(4, 0, 2, 2, ((0, 1, 1, 0),)),
)
CHOICES = (
    Options(),
    Options(test=TestKind.QUERY),
    Options(accuracy=0.1, records=1000, simultaneous=True, max_cells=7),
    Options(
        test=TestKind.QUERY,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
        records_per_person=3,
        update=UpdateRule.STEP,
        opening=Opening.NONE,
        update_limit=9,
        threshold=12.75,
        learning_rate=0.1,
        sides=Sides.TWO_SIDED,
        sparse_vector=SparseVectorKind.LAPLACE,
        composition=Composition.PURE,
        expected_queries=77,
        confidence=0.9,
        seed=5,
    ),
)
BOOKED = ((("", Fraction(1)),), (("Ada", Fraction(1, 3)), ("Bob", Fraction(2, 3))))
QUESTIONS = (
    LinearQuery.cells(PEOPLE, {}),
    LinearQuery.cells(PEOPLE, {"age": (2, 3)}),
    LinearQuery.cells(PEOPLE, {"sex": (0, 0), "age": (2, 8)}),
)


# --- values ------------------------------------------------------------------------------------------------

_WHOLES = st.integers(-(2**62), 2**62)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_SCOPES = st.sampled_from([("sex",), ("age",), ("sex", "age"), ("sex", "age", "region")])
_LEAVES: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(1, 2**40),
    float: st.floats(0, 1),
    str: _TEXTS,
    Fraction: st.fractions(Fraction(1, 1000), 10**9, max_denominator=1000),
    Domain: st.just(PEOPLE),
    LinearQuery: st.sampled_from(QUESTIONS),
    QuestionKind: st.builds(QuestionKind, st.integers(1, 3), st.sampled_from([Basis.TESTED, Basis.BINS])),
}


def _array(shape: tuple[int, ...], number: type = np.int64) -> st.SearchStrategy[Any]:
    size = int(np.prod(shape))
    entries = _WHOLES if number is np.int64 else st.floats(allow_nan=False, allow_infinity=False)
    lists = st.lists(entries, min_size=size, max_size=size)
    return lists.map(lambda values: np.array(values, dtype=number).reshape(shape))


def _of(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of an annotation."""
    if kind in VALUES or kind in _LEAVES:
        return VALUES[kind] if kind in VALUES else _LEAVES[kind]
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and inner[-1] is ...:
        return st.lists(_of(inner[0]), max_size=2).map(tuple)
    if typing.get_origin(kind) is tuple:
        return st.tuples(*map(_of, inner))
    if typing.get_origin(kind) is dict:
        return st.dictionaries(_TEXTS, _of(inner[1]), max_size=2)
    return st.one_of(*map(_of, inner)) if inner else st.from_type(kind)


def _built(kind: Any, **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of a dataclass; of its fields, those that are not chosen are of their annotations."""
    hints = typing.get_type_hints(kind, localns={"LinearQuery": LinearQuery, "SummedRows": SummedRows})
    names = [field.name for field in fields(kind) if field.init and field.name not in chosen]
    return st.builds(kind, **chosen, **{name: _of(hints[name]) for name in names})


def _over(kind: Any, name: str) -> st.SearchStrategy[Any]:
    """Return values that have a scope, and numbers over its cells."""
    return _SCOPES.flatmap(
        lambda scope: _built(kind, scope=st.just(scope), **{name: _array(PEOPLE.scope_shape(scope))})
    )


def _test(kind: Any) -> st.SearchStrategy[Any]:
    pairs = [(Sides.ONE_SIDED, False), (Sides.TWO_SIDED, False), (Sides.TWO_THRESHOLDS, True)]
    return st.sampled_from(pairs).flatmap(
        lambda one: _built(kind, sides=st.just(one[0]), monotone=st.just(one[1]))
    )


VALUES: dict[type, st.SearchStrategy[Any]] = {}
_kind: Any
for _kind in (DiscreteLaplace, DiscreteGaussian, Charge):
    VALUES[_kind] = _built(_kind)
VALUES[HierarchicalHistogram] = st.sampled_from(TREES)
VALUES[AxisRows] = st.sampled_from([AxisRows(2), AxisRows(3, (2, -1, -1, -1, 2, -1, -1, -1, 2))])
VALUES[Strategy] = st.builds(Strategy, st.tuples(VALUES[AxisRows], VALUES[AxisRows]), st.booleans())
VALUES[ResidualMeasurement] = VALUES[Strategy].flatmap(
    lambda rows: _built(
        ResidualMeasurement,
        scope=st.just(("sex", "age")),
        units=_array(tuple(axis.size for axis in rows.axes)),
        strategy=st.just(rows),
        foundation=st.none(),
    )
)
PAIR = PriorPair(("x", "y"), np.array([[0.25, 0.5], [0.0, 0.25]]))
VALUES[PriorPair] = st.just(PAIR)
VALUES[Prior] = st.just(
    Prior(
        "x and y",
        {"x": np.array([0.5, 0.25, 0.25]), "y": np.array([0.25, 0.75])},
        {"x": np.array([0, 0, 1]), "y": np.array([0, 1])},
        (PAIR,),
    )
)
VALUES[Options] = st.sampled_from(CHOICES)
VALUES[Budget] = _built(
    Budget,
    epsilon=st.fractions(Fraction(1, 99), 999),
    delta=st.sampled_from([Fraction(0), Fraction(1, 10**9)]),
)
VALUES[Contract] = _built(Contract, options=st.sampled_from(CHOICES[:3]))
VALUES[ThresholdTest], VALUES[Sech2Test] = _test(ThresholdTest), _test(Sech2Test)
VALUES[Sparse] = _built(Sparse, test=VALUES[ThresholdTest] | VALUES[Sech2Test])
VALUES[LedgerEntry] = _built(LedgerEntry, booked=st.sampled_from(BOOKED))
VALUES[MarginalMeasurement] = _over(MarginalMeasurement, "units")
VALUES[HierarchicalMeasurement] = VALUES[HierarchicalHistogram].flatmap(
    lambda tree: _built(
        HierarchicalMeasurement, scope=st.just(("age",)), tree=st.just(tree), units=_array((tree.nodes,))
    )
)
_SUM_SCOPES = st.sampled_from([(), ("age",), ("sex", "age")])
VALUES[SummedValues] = st.one_of(
    _built(SummedValues, scope=_SUM_SCOPES, count_units=st.just(0), squared=st.just(False)),
    _built(
        SummedValues,
        scope=_SUM_SCOPES,
        by_cells=st.just(False),
        clipped=st.just(False),
        count_units=st.sampled_from(COUNT_UNITS),
    ),
)
_ROWS = st.lists(st.sampled_from(QUESTIONS), min_size=1, max_size=3, unique_by=LinearQuery.to_json).map(tuple)
VALUES[SummedRows] = _built(
    SummedRows,
    scope=_SUM_SCOPES,
    by_cells=st.just(False),
    clipped=st.just(False),
    count_units=st.sampled_from(COUNT_UNITS),
    rows=_ROWS,
)
VALUES[SumMeasurement] = st.one_of(VALUES[SummedValues], VALUES[SummedRows]).flatmap(
    lambda summed: _built(SumMeasurement, summed=st.just(summed), units=_array(summed.shape(PEOPLE)))
)
VALUES[DraftCharge] = _built(DraftCharge, delta=st.sampled_from([Fraction(0), Fraction(1, 10**9)]))
VALUES[PersonsMeasurement] = _over(PersonsMeasurement, "units")
VALUES[RowsMeasurement] = _ROWS.flatmap(
    lambda queries: _built(RowsMeasurement, queries=st.just(queries), units=_array((len(queries),)))
)
VALUES[QuestionNumbers] = _built(QuestionNumbers, queries=_ROWS)
VALUES[Certificate] = _over(Certificate, "units")
VALUES[MarginalRequest] = _over(MarginalRequest, "model_units")
VALUES[KeptModel] = _built(KeptModel, duals=_array((4,), np.float64))
for _kind in (
    NumericSparse, QueryTestPlan, AddedPrice, MarginalTestPlan, OpeningPlan, QueryMeasurement, ErrorQuantile,
    QueryRequest, Proposal, CellNumbers, SumNumbers, PersonNumbers, QuantileRequest, OpeningDraws,
    Tie,
):  # fmt: skip
    VALUES[_kind] = _built(_kind)
VALUES[ExpectedQuestions] = st.dictionaries(_SCOPES, st.integers(1, 2**40), min_size=1).map(
    lambda counts: ExpectedQuestions(
        tuple(sorted(counts)), tuple(counts[one] for one in sorted(counts)), "0f"
    )
)
VALUES[Quote] = _built(Quote, what=st.none())
VALUES[Recorded] = _built(Recorded, batch=st.just(()))
VALUES[Released] = _built(
    Released, settled=st.just(0), coarsening=st.just(Coarsening.identity(PEOPLE)), since=st.just(())
)
APART: dict[type, dict[str, Any]] = {  # fields that are written beside the object
    ResidualMeasurement: {"foundation": None},
    Recorded: {"batch": ()},
    Released: {"settled": 0, "coarsening": Coarsening.identity(PEOPLE), "since": ()},
}


def written(value: Any) -> Any:
    """Return the form of a value, through JSON text."""
    return loads(dumps(form_of(value, without=tuple(APART.get(type(value), ())))))


def again(kind: type, form: Any) -> Any:
    return read(kind, form, domain=PEOPLE, given=APART.get(kind))


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, arrays and what holds them by their numbers."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other))
    if isinstance(one, LinearQuery):
        return bool(one.key() == other.key())
    if isinstance(one, dict):
        one, other = tuple(one.items()), tuple(other.items())
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one) in VALUES:
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return isinstance(one, Coarsening) or bool(one == other)


def test_every_type_that_has_a_form_is_tested_here_or_where_sessions_are_compared() -> None:
    assert set(registered()) - (set(exact.TYPES) - set(VALUES)) == set(VALUES)


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=max(10, settings().max_examples // 3))  # of each of many kinds
@given(data=st.data())
def test_a_value_comes_back(kind: type, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    assert same(again(kind, written(value)), value)


# --- changed forms -----------------------------------------------------------------------------------------

_BY_NAME = ("marginal_noise", "trees", "strategies", "weights")  # whose keys are names


def _places(form: Any, head: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield head
    pairs = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else ()
    for key, value in pairs:
        yield from _places(value, (*head, key))


def _at(form: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        form = form[key]
    return form


_MAY_LACK = ("part", "reserve", "expected", "added")  # in forms of before


def test_a_measurement_that_is_in_no_part_is_written_as_before_there_were_parts() -> None:
    one = MarginalMeasurement(("sex",), np.array([1, 2]), DiscreteLaplace(Fraction(1)), requested=True)
    form = form_of(one)
    assert "part" not in form
    assert form_of(replace(one, part=2)) == {**form, "part": 2}


def _changes(form: Any) -> Iterator[Any]:
    """Yield forms with a key dropped or added, and with each value in place of another of no such type."""
    for place in _places(form):
        found = _at(form, place)
        if isinstance(found, dict) and place[-1:] not in {(name,) for name in _BY_NAME}:
            for key in (*(name for name in found if name not in _MAY_LACK), None):
                changed = copy.deepcopy(form)
                inner = _at(changed, place)
                if key is None:
                    inner["more"] = 1
                else:
                    del inner[key]
                yield changed
        if place:
            for other in (1, "x", True, [1], {"more": 1}):
                if type(other) is not type(found) and not _may_be(place[-1], found, other):
                    changed = copy.deepcopy(form)
                    _at(changed, place[:-1])[place[-1]] = other
                    yield changed


def _may_be(key: Any, found: Any, other: Any) -> bool:
    """Tell whether a value in a place could be what another is: a number for a number, anything for null."""
    return found is None or (type(found) is float and type(other) is int) or (key in _BY_NAME)


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=2)
@given(data=st.data())
def test_a_form_that_was_changed_is_refused(kind: type, data: st.DataObject) -> None:
    form = written(data.draw(VALUES[kind]))
    refusals = (
        (FormError, BudgetError) if kind is Prior else FormError
    )  # its own parts may contradict each other
    for changed in _changes(form):
        with pytest.raises(refusals):
            again(kind, changed)
    for other in (None, True, 3, "x", [], [form]):
        with pytest.raises(FormError):
            again(kind, other)


NO_VALUES: dict[Any, tuple[Any, ...]] = {
    int: (12.5, 12.0, True, 2**63, -(2**63), "12"),
    float: (float("inf"), float("nan"), 2**63, True),
    bool: (1,),
    str: ("\ud800", None),
    Fraction: ("1e9", "-1/2", "1/2/3", "1/0", "2/4", " 1", "9" * 1001, 0.5),
    tuple[int, ...]: ((1, 2),),
    tuple[int, int]: ([1],),
    dict[str, int]: ([1],),
    Options | None: (0,),
    Composition: ("PURE",),
    QuestionKind: ("4 tests",),
    SecretState: ({"thresholds": []},),
    NoisyThreshold: ({"upper": 3, "lower": None},),
    bytes: ("AA==",),
    LinearQuery: (
        '{"factors": []}', '{"factors":[],"more":1}', '{"factors":[[["age"],[[0,1,true]]]]}',
        '{"factors":[[["age"],[[0,1,1.0]]]]}', '{"factors":[[["age"],[[0,1,1048576],[1,2,1048576]]]]}',
        '{"factors":[[["age"],[[0,99,1048576]]]]}', '{"factors":[],"factors":[]}', "[]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NO_VALUES, ids=str)
def test_what_is_no_such_value_or_not_its_canonical_text_is_refused(kind: Any) -> None:
    for form in NO_VALUES[kind]:
        with pytest.raises(FormError):
            read(kind, form, domain=PEOPLE)


def test_texts_that_are_no_forms_and_arrays_that_are_not_what_they_say_are_refused() -> None:
    nested = ('{"a":1,"a":1}', '{"a":[{"b":1,"c":2,"b":1}]}', "[" * 10**5)
    for text in (*nested, "NaN", "[Infinity]", "-Infinity", "{", ""):
        with pytest.raises(FormError):
            loads(text)
    form = form_of(KeptModel(1, np.zeros(2)))
    assert read(KeptModel, form).duals.tolist() == [0, 0]
    changes: list[dict[str, Any]] = [
        {"dtype": "<i8"},
        {"base64": "AAAA"},
        {"base64": "?" * 24},
        {"base64": None},
    ]
    for shape in ([2**40], [-2], [2.0], [True, 2], []):
        changes.append({"shape": shape})
    for change in changes:
        with pytest.raises(ValueError):  # noqa: PT011 - of base64, the library's own
            read(KeptModel, {**form, "duals": form["duals"] | change})


def test_the_questions_of_a_form_have_so_many_weights_together() -> None:
    form = [QUESTIONS[1].to_json()] * 3
    assert len(read(tuple[LinearQuery, ...], form, domain=PEOPLE, most_cells=27)) == 3
    with pytest.raises(FormError, match="too many cells"):
        read(tuple[LinearQuery, ...], form, domain=PEOPLE, most_cells=26)


SECRETS: tuple[Any, ...] = (
    SecretState.closed(2),
    NoisyThreshold(3, 4),
    SparseState(NoisyThreshold(3), 0),
    IntentRow(1, "tests", "{}", bytes(32), 0),
    BitSource(bytes(32)),
    bytes(32),
)


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: type(secret).__name__)
def test_no_secret_has_a_form(secret: Any) -> None:
    assert type(secret) not in registered()
    for value in (secret, (secret,), {"a": secret}, Recorded((secret,), None, ())):
        with pytest.raises(FormError) as caught:
            form_of(value)
        assert str(caught.value).endswith(f"got a {type(secret).__name__}")


# --- what a session writes ----------------------------------------------------------------------------------


@given(VALUES[Proposal], VALUES[Charge], st.sampled_from(BOOKED))
def test_a_recorded_batch_comes_back(proposal: Proposal, reserved: Charge, booked: Any) -> None:
    proposal = replace(proposal, reserved=reserved)
    marks = tuple(str(number) for number in range(len(proposal.queries)))
    recorded = Recorded(proposal, reserved, booked, marks)
    intent = IntentRow(1, "tests", recorded_text(recorded), bytes(32), 0)
    found = read_recorded(Coarsening.identity(PEOPLE), intent)
    assert same(found, recorded)
    texts = [json.loads(text) for text in found.requests.texts()]
    assert texts == [query.to_dict() for query in proposal.queries]
