"""The loop as a library: what it charges, and when, is what its outputs cost; and it refuses what is wrong.

The loop itself is enumerated. A sparse vector that says what it is told stands in for the real one, and
notes which values it was asked about; so every path through the loop, its updates included, is taken on a
tiny histogram and on each of its neighbours, and weighed by the exact tables of the real one.
"""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike, NDArray

from pmw.errors import BudgetError, DataError, PMWError, SessionError
from pmw.loop.untested import OpeningDraws, draw_opening
from pmw.model.dense import DenseDistribution
from pmw.model.fitting import step
from pmw.online import (
    BitSource,
    Correction,
    MultiplicativeWeights,
    Options,
    PrivateMultiplicativeWeights,
    Source,
    source_of,
)
from pmw.privacy.budget import Charge, Composition, NeighboringRelation, pure_charge
from pmw.privacy.noise import DiscreteLaplace
from pmw.public.options import TestKind
from pmw.research import online as loop_module
from pmw.research.audit import releasing, tables_of, tree_distribution, worst_log_ratio
from pmw.research.audit.entries import released_output
from pmw.sparse_vector import NoiseKind, NumericSparse, Sides, Sparse, ThresholdTest
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    Factor,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    Person,
    QueryError,
    parse_where,
)
from tests.draws import neighbors, small_tables

Table = tuple[int, ...]
QUERIES = Options(test=TestKind.QUERY)
PURE = replace(QUERIES, composition=Composition.PURE, neighboring_relation=NeighboringRelation.REPLACE_ONE)
STREAM = ([1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1])
THRESHOLD = 1


class Scripted:
    """A sparse vector that says what it is told; outputs are 0, or 1 + 2 v for a value of v records."""

    sensitivity = UNITS
    monotone = False

    def __init__(
        self,
        outputs: Sequence[int],
        *,
        update_limit: int = 2,
        redraw: bool = False,
        prices: tuple[Fraction, Fraction] = (Fraction(1, 8), Fraction(1, 16)),
    ) -> None:
        self.left = list(outputs)
        self.update_limit, self.redraw, self.prices = update_limit, redraw, prices
        self.values: list[int] = []
        self.spent: list[float] = []
        self.loop: PrivateMultiplicativeWeights | None = None

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        return pure_charge(self.prices[0]), pure_charge(self.prices[1])

    def open(self, bits: BitSource) -> int:
        self._note()
        return 0

    def step(self, state: int, value: int, threshold: int, bits: BitSource) -> tuple[int, int, int | None]:
        self._note()
        assert threshold == THRESHOLD * UNITS
        self.values.append(value // UNITS)  # moves by one where a record does, for these weights are whole
        output = self.left.pop(0) if self.left else 0
        return state + 1, int(output != 0), (output - 1) // 2 * UNITS if output else None

    def _note(self) -> None:
        if self.loop is not None:
            self.spent.append(self.loop.spent)


def told_by(
    vector: Scripted, table: ArrayLike = (2, 1, 1), *, epsilon: int = 1, **choices: Any
) -> PrivateMultiplicativeWeights:
    given: dict[str, Any] = {"threshold": THRESHOLD, "options": PURE, **choices}
    return PrivateMultiplicativeWeights(table, epsilon, sparse_vector=vector, **given)


def scripted(
    outputs: Sequence[int], table: ArrayLike = (2, 1, 1), **choices: Any
) -> tuple[PrivateMultiplicativeWeights, Scripted]:
    vector = Scripted(outputs, **choices)
    vector.loop = told_by(vector, table)
    return vector.loop, vector


# --- what outputs cost --------------------------------------------------------------------------------------


def asked_about(options: Options, limit: int) -> Callable[[Table, tuple[int, ...]], int | None]:
    """Return what the loop asks its sparse vector about after some outputs, in records."""

    @cache
    def ask(table: Table, outputs: tuple[int, ...]) -> int | None:
        vector = Scripted(outputs, update_limit=limit)
        loop = told_by(vector, table, epsilon=100, update=MultiplicativeWeights(0.7), options=options)
        for weights in STREAM[: len(outputs) + 1]:
            loop.answer(weights)
        return vector.values[-1] if len(outputs) < len(STREAM) else None

    return ask


def of_total(monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    """Let the number of records be released as this: it is an event of its own, with a price of its own."""

    def drawn(*arguments: object) -> OpeningDraws:
        return replace(draw_opening(*arguments), total_units=total * UNITS)  # type: ignore[arg-type]

    monkeypatch.setattr(loop_module, "draw_opening", drawn)


def vector_of(limit: int, *, sensitivity: int = 1, redraw: bool = False) -> NumericSparse:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.TWO_SIDED, sensitivity, False, Fraction(3), Fraction(4))
    return NumericSparse(Sparse(test, limit, redraw), DiscreteLaplace(Fraction(5)))


@pytest.mark.parametrize(
    ("relation", "redraw"),
    [(NeighboringRelation.ADD_REMOVE, True), (NeighboringRelation.REPLACE_ONE, False)],
)
def test_every_path_of_the_loop_costs_at_most_what_it_is_charged(
    relation: NeighboringRelation, redraw: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, options = 2, replace(PURE, neighboring_relation=relation)
    of_total(monkeypatch, 4)
    vector, ask = vector_of(limit, redraw=redraw), asked_about(options, limit)
    values = np.arange(-3, 6, 2)
    tables = releasing(
        tables_of(vector.sparse, THRESHOLD),
        lambda value: {
            released_output(one): float(vector.value_noise.pmf(np.array([one - value]))[0])
            for one in values.tolist()
        },
    )
    found = 0.0
    of_table = cache(lambda table: tree_distribution(tables, partial(ask, table)))
    for pair in neighbors(small_tables(3, 5), relation):
        if {(2, 1, 1), (4, 0, 0)} & {*pair}:
            found = max(found, worst_log_ratio(*map(of_table, pair)))
    claimed = float(vector.epsilon)
    assert 0.5 * claimed < found <= claimed + 1e-9


@pytest.mark.parametrize("redraw", [False, True])
def test_everything_is_charged_before_it_is_drawn(redraw: bool) -> None:
    loop, vector = scripted([0, 3, 0, 5, 7], redraw=redraw)
    opening, positive = map(float, vector.prices)
    after = []
    for weights in [*STREAM, STREAM[0]]:
        loop.answer(weights)
        after.append(loop.spent)
    again = opening if redraw else 0.0
    assert vector.spent == [
        opening + positive,  # the threshold noise, and the first test
        opening + positive,
        opening + positive,
        *[opening + again + 2 * positive] * 2,
    ]
    spent = [opening, opening + positive, opening + positive + again]
    assert after == [*spent, *[opening + 2 * positive + again] * 2]
    assert loop.positives == 2
    assert vector.left == [7]  # after its two positives nothing is asked of it


def test_a_test_runs_only_where_its_positive_can_be_paid() -> None:
    loop, vector = scripted([3, 3, 3], update_limit=9, prices=(Fraction(1, 2), Fraction(1, 4)))
    sources = [loop.answer(STREAM[0]).source for _ in range(4)]
    assert sources == [Source.MEASURED, Source.MEASURED, Source.EXHAUSTED, Source.EXHAUSTED]
    assert (loop.spent, len(vector.values)) == (1.0, 2)
    with pytest.raises(BudgetError, match="first test fits"):
        scripted([], prices=(Fraction(7, 8), Fraction(1, 4)))


def test_the_number_of_records_is_charged_where_it_is_private() -> None:
    private = PrivateMultiplicativeWeights([2, 1, 1], 1, options=Options(seed=1))
    assert private.spent == pytest.approx(0.01, abs=1e-9)
    assert private.total != 4
    public = PrivateMultiplicativeWeights([2, 1, 1], 1, options=replace(PURE, seed=1))
    assert (public.spent, public.total) == (0.0, 4.0)


# --- what it answers ----------------------------------------------------------------------------------------


def test_answers_are_the_models_or_measured_ones() -> None:
    loop, _ = scripted([0, released_output(1)], table=(6, 0, 2))
    assert loop.answer([1, 0, 0.5]).count == pytest.approx(8 / 2, abs=2 / UNITS)
    measured = loop.answer([1, 0, 0])
    assert measured.source is Source.MEASURED
    assert measured.count == pytest.approx(8 / 3 + 1, abs=1 / UNITS)
    assert loop.model.values[0] > 8 / 3


def test_multiplicative_weights_are_those_of_sessions() -> None:
    loop, _ = scripted([released_output(2), released_output(-1)], table=[[3, 1], [2, 2]])
    expected = DenseDistribution.uniform(loop.domain, 8.0)
    rate = 4 * THRESHOLD / 8
    for weights, up in (([[1, 1], [0, 0]], True), ([[0.5, 0], [1, 0]], False)):
        query = np.array(weights)
        loop.answer(query)
        expected = step(expected, query_in(loop.domain, query), learning_rate=rate, increase=up)
        np.testing.assert_allclose(loop.model.values, expected.values, rtol=1e-12)
    assert loop.model.values.sum() == pytest.approx(8)


def query_in(domain: Domain, weights: NDArray[np.float64]) -> LinearQuery:
    return LinearQuery(domain, (Factor(domain.names, (weights * UNITS).astype(np.int64)),))


def test_arrays_lists_histograms_and_tables_are_the_same() -> None:
    domain = Domain((IntegerAttribute("x0", 0, 1), IntegerAttribute("x1", 0, 2)), name="histogram")
    counts = [[300, 10, 20], [0, 0, 400]]
    rows = [cell for cell in np.ndindex(2, 3) for _ in range(np.array(counts)[cell])]
    frame = pd.DataFrame(rows, columns=["x0", "x1"])
    given = (
        counts,
        np.array(counts, dtype=np.uint16),
        np.array(counts, dtype=np.float64),
        Histogram(domain, np.array(counts)),
        source_of(frame, domain),
    )
    questions = ([[1, 0, 0], [0, 0, 1]], "x0 < 1 AND x1 >= 1", parse_where("x1 = 2", domain))
    found = []
    for histogram in given:
        loop = PrivateMultiplicativeWeights(histogram, 2, options=replace(QUERIES, seed=6, update_limit=4))
        found.append([loop.answer(question).count for question in questions])
    assert found == [found[0]] * len(given)


def test_fresh_noise_differs_and_seeded_noise_repeats() -> None:
    def totals(seed: int | None) -> set[float]:
        return {
            PrivateMultiplicativeWeights([500, 400], 1, options=Options(seed=seed)).total for _ in range(2)
        }

    assert (len(totals(None)), len(totals(5))) == (2, 1)


def test_an_update_is_told_public_numbers_alone() -> None:
    told: list[Correction] = []

    def note(correction: Correction) -> list[float]:
        told.append(correction)
        return [0.0, 0.0, math.log(2)]

    loop = told_by(Scripted([released_output(1)]), update=note)
    loop.answer([1, 0, 0.25])
    (correction,) = told
    np.testing.assert_allclose(correction.cells, [4 / 3] * 3)
    np.testing.assert_array_equal(correction.weights, [1, 0, 0.25])
    assert correction.measured - correction.estimate == 1
    assert (correction.total, correction.updates) == (4.0, 0)
    assert not correction.cells.flags.writeable
    assert not correction.weights.flags.writeable
    np.testing.assert_allclose(loop.model.values, [1, 1, 2])


# --- what it refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("histogram", "words"),
    [
        ([3, -1], "negative counts"),
        ([3, 0.5], "got fractions"),
        ([3, math.nan], "not finite"),
        ([3, math.inf], "not finite"),
        ([[1, 2], [3]], "lists of one length"),
        ([], "one cell or more"),
        (5, "one cell or more"),
        (["1", "2"], "whole numbers"),
        ([True, False], "whole numbers"),
        ([2**41, 2**42], "at most 4,398,046,511,104 records"),
    ],
)
def test_a_histogram_that_is_none_is_refused(histogram: ArrayLike, words: str) -> None:
    with pytest.raises(DataError, match=words) as refused:
        PrivateMultiplicativeWeights(histogram, 1)
    assert "41" not in str(refused.value)
    assert "0.5" not in str(refused.value)


@pytest.mark.parametrize(
    "question",
    [[1, 0], [[1, 0, 0]], [1, 0, 1.5], [1, 0, -0.1], [1, 0, math.nan], [1, 0, "x"], None, "x0 <", "y = 1"],
)
def test_a_question_that_is_none_draws_and_charges_nothing(question: object) -> None:
    loop, vector = scripted([3])
    with pytest.raises(QueryError):
        loop.answer(question)  # type: ignore[arg-type]  # what is refused
    other = Domain((CategoricalAttribute("x0", ("a", "b")),))
    with pytest.raises(QueryError, match="another domain"):
        loop.answer(LinearQuery.everything(other))
    assert (loop.spent, vector.values) == (0.0, [])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([0.0, 0.0], r"shape \(3,\)"),
        ([[0.0] * 3], r"shape \(3,\)"),
        ([0.0, math.nan, 0.0], "finite exponents"),
        ([0.0, math.inf, 0.0], "finite exponents"),
        ([0.0, "x", 0.0], "exponents in an array"),
        (None, r"shape \(3,\)"),
    ],
)
def test_an_update_that_is_none_is_refused_and_its_positive_is_paid(given: object, words: str) -> None:
    loop = told_by(Scripted([released_output(1)] * 3), update=lambda _: given)
    before = loop.model
    for number in (1, 2):  # no free positives, however often it fails
        with pytest.raises(BudgetError, match=words):
            loop.answer([1, 0, 0])
        assert loop.positives == number
        assert loop.spent == pytest.approx(1 / 8 + number / 16)
        assert loop.model is before
    assert loop.answer([1, 0, 0]).source is Source.EXHAUSTED


class Failing(Scripted):
    """Fails in its second test, and tells what it was asked about."""

    def step(self, state: int, value: int, threshold: int, bits: BitSource) -> tuple[int, int, int | None]:
        if self.values:
            raise ValueError(f"value={value}")
        return super().step(state, value, threshold, bits)


def test_a_sparse_vector_that_fails_says_nothing_and_is_never_asked_again() -> None:
    loop = told_by(Failing([]))
    loop.answer(STREAM[0])
    with pytest.raises(SessionError, match=r"failed in a test \(ValueError\)") as failed:
        loop.answer(STREAM[1])
    assert "value=" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    spent = loop.spent
    assert spent == pytest.approx(1 / 8 + 1 / 16)  # its outcome may be known: a positive is kept as charged
    for _ in range(2):
        with pytest.raises(SessionError, match="nothing is tested any more"):
            loop.answer(STREAM[2])
    assert loop.spent == spent


class Comparing(Scripted):
    """Says that a value is large, and does not measure it."""

    def step(self, state: int, value: int, threshold: int, bits: BitSource) -> tuple[int, int, int | None]:
        return state, 1, None


def test_a_positive_without_a_value_is_refused() -> None:
    loop = told_by(Comparing([]))
    with pytest.raises(SessionError, match="a value with each positive"):
        loop.answer(STREAM[0])


def own(limit: int = 2, *, sensitivity: int = UNITS, monotone: bool = False) -> NumericSparse:
    sides = Sides.TWO_THRESHOLDS if monotone else Sides.TWO_SIDED
    scales = Fraction(20 * UNITS), Fraction(30 * UNITS)
    test = ThresholdTest(NoiseKind.EXPONENTIAL, sides, sensitivity, monotone, *scales)
    return NumericSparse(Sparse(test, limit, False), DiscreteLaplace(Fraction(50 * UNITS)))


def test_a_sparse_vector_is_refused_where_its_price_does_not_hold() -> None:
    def opened(vector: NumericSparse, options: Options) -> PrivateMultiplicativeWeights:
        return PrivateMultiplicativeWeights([20, 10], 1, sparse_vector=vector, threshold=5, options=options)

    opened(own(), PURE)
    opened(own(monotone=True), replace(PURE, neighboring_relation=NeighboringRelation.ADD_REMOVE))
    with pytest.raises(BudgetError, match="under replace-one errors move both ways"):
        opened(own(monotone=True), PURE)
    with pytest.raises(BudgetError, match="sensitivity of at least 1,048,576 units"):
        opened(own(sensitivity=UNITS - 1), PURE)
    opened(own(sensitivity=3 * UNITS), replace(PURE, records_per_person=3))
    with pytest.raises(BudgetError, match="sensitivity of at least 3,145,728 units"):
        opened(own(), replace(PURE, records_per_person=3))
    with pytest.raises(BudgetError, match="at least one positive"):
        scripted([], update_limit=0)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"sparse_vector": own()}, "a threshold in records"),
        ({"sparse_vector": own(), "threshold": 5, "options": replace(PURE, update_limit=3)}, "has its own"),
        ({"threshold": 5, "options": replace(PURE, threshold=4.0)}, "got it twice"),
        ({"update": MultiplicativeWeights(1), "options": Options.textbook(learning_rate=0.1)}, "has its own"),
        ({"options": Options(accuracy=0.1, records=100)}, "accuracy is for sessions"),
        ({"options": Options(person_column="id")}, "person_column is for sessions"),
        ({"threshold": -1.0}, "threshold"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(choices: dict[str, object], words: str) -> None:
    with pytest.raises(PMWError, match=words):
        PrivateMultiplicativeWeights([20, 10], 1, **choices)  # type: ignore[arg-type]  # what is refused


def test_a_table_that_keeps_several_records_of_a_person_takes_noise_for_them() -> None:
    age = IntegerAttribute("age", 0, 3)
    domain = Domain((age,), person=Person("id", 3))
    frame = pd.DataFrame({"age": [0, 1, 2, 3] * 9, "id": [f"p{place // 3}" for place in range(36)]})
    vector = own(sensitivity=2 * UNITS)
    with pytest.raises(BudgetError, match="sensitivity of at least 3,145,728 units"):
        PrivateMultiplicativeWeights(source_of(frame, domain), 1, sparse_vector=vector, threshold=5)
    options = replace(QUERIES, records_per_person=2)
    with pytest.raises(BudgetError, match="3 records of each"):
        PrivateMultiplicativeWeights(source_of(frame, domain), 1, options=options)


def test_it_shows_no_secret_and_cannot_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, _ = scripted([3])
    assert repr(loop) == "PrivateMultiplicativeWeights('histogram', 0 of 2 positives, 0% of the budget)"
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(SessionError, match="cannot be copied"):
            attempt(loop)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(SessionError, match="in the process that opened it"):
        loop.answer(STREAM[0])
