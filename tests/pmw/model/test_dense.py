"""The dense distribution: every number is that of the definition, whatever terms come in whatever order."""

from __future__ import annotations

import itertools
import pickle
import re
import threading
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from pmw.errors import BudgetError
from pmw.model import dense
from pmw.model.dense import LARGEST_DENSE_DOMAIN, DenseDistribution, check_dense_size
from pmw.model.distribution import MarginalTerm, QueryTerm, Term
from pmw.model.fitting import refit, step
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement, SingleMeasurement
from pmw.privacy.noise import DiscreteGaussian
from queries import UNITS, CategoricalAttribute, Domain, Factor, IntegerAttribute, LinearQuery
from tests.pmw.model.test_distribution import TOTAL, by_definition, counts, of_sizes, terms_of
from tests.waiting import joined

DOMAIN = Domain(
    (
        IntegerAttribute("a", 0, 4),
        CategoricalAttribute("b", ("x", "y", "z")),
        IntegerAttribute("c", 0, 3),
        CategoricalAttribute("d", (True, False)),
    )
)
NAMES = DOMAIN.names


def spread(seed: int, total: float = 1000.0) -> DenseDistribution:
    """Return a distribution with a number of its own in every cell."""
    duals = 4 * np.log(np.random.default_rng(seed).random(DOMAIN.shape))
    return DenseDistribution.of_terms(DOMAIN, total, [MarginalTerm(NAMES, duals)])


@pytest.mark.parametrize("count", [0, 1, 7, 1000, 20_000])
def test_systematic_rounding_gives_every_cell_its_number_rounded_up_or_down(count: int) -> None:
    distribution = spread(3)
    records = distribution.sample(count, np.random.default_rng(5), independent=False)
    expected = distribution.values * (count / distribution.total)
    assert len(records) == count
    assert np.all(np.abs(counts(records, NAMES) - expected) < 1 + 1e-9)


def peak_of(work: Callable[[], object]) -> int:
    """Return the most bytes that were allocated at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_domain_beyond_the_limit_is_refused_before_anything_is_allocated() -> None:
    beyond = of_sizes(24_929, 673)
    assert beyond.size == LARGEST_DENSE_DOMAIN + 1
    message = re.escape(
        "the domain has 16,777,217 cells; a dense model holds at most 16,777,216: "
        "test whole marginals on a graphical one, or declare fewer attributes or wider cells"
    )

    def refuse() -> None:
        with pytest.raises(BudgetError, match=message):
            check_dense_size(beyond)
        with pytest.raises(BudgetError, match=message):
            DenseDistribution.uniform(beyond, 10.0)
        with pytest.raises(BudgetError, match=message):
            DenseDistribution.of_terms(beyond, 10.0, [MarginalTerm(("a0",), np.zeros(24_929))])

    assert peak_of(refuse) < 10**6
    with pytest.raises(BudgetError, match=r"the domain has 1 × 10¹⁸ cells"):
        check_dense_size(of_sizes(10**6, 10**6, 10**6))
    check_dense_size(of_sizes(2**12, 2**12))


CUBE = of_sizes(100, 100, 200)  # an array of 16 MB
ARRAY = CUBE.size * 8


BOX = LinearQuery.cells(CUBE, {"a2": (3, 9), "a1": (0, 0)})
NOISE = DiscreteGaussian(Fraction(5 * UNITS))
MEASUREMENTS: list[SingleMeasurement] = [
    MarginalMeasurement(("a1",), np.arange(100) * UNITS, NOISE),
    QueryMeasurement(BOX, 40 * UNITS, NOISE),
]
WORK: dict[str, Callable[[DenseDistribution], object]] = {
    "a step": lambda model: step(model, BOX, learning_rate=0.1, increase=True),
    "a refit": lambda model: refit(model, MEASUREMENTS),
    "rows": lambda model: model.sample(1000, np.random.default_rng(1), independent=False),
}


@pytest.mark.parametrize("work", WORK)
def test_work_needs_one_second_array_and_no_third(work: str) -> None:
    model = DenseDistribution.uniform(CUBE, 4950.0)
    model.marginal(())
    assert peak_of(lambda: WORK[work](model)) < 1.2 * ARRAY


def test_updates_leave_a_model_as_it_was_and_its_terms_make_the_same_bits_again() -> None:
    query = LinearQuery.cells(DOMAIN, {"d": (1, 1), "c": (0, 2)})
    models = [spread(4)]
    kept = [models[0].values]
    for number in range(20):
        models.append(step(models[-1], query, learning_rate=0.1 + number / 50, increase=number % 3 > 0))
        kept.append(models[-1].values)
    for model, values in zip(models, kept, strict=True):
        assert np.array_equal(model.values, values)
        again = pickle.loads(pickle.dumps(model))  # noqa: S301  (our own, and without its array)
        assert np.array_equal(again.values, values)
    assert len({values.tobytes() for values in kept}) == 21
    with pytest.raises(ValueError, match="read-only"):
        models[0].values[0, 0, 0, 0] = 1


def test_single_steps_are_combined_anew_now_and_then_and_nothing_changes() -> None:
    query = LinearQuery.cells(DOMAIN, {"d": (1, 1), "c": (0, 2)})
    model = DenseDistribution.uniform(DOMAIN, 100.0)
    combined = []
    for _ in range(40):
        model = step(model, query, learning_rate=0.05, increase=True)
        combined.append(model.combined)
        again = DenseDistribution.of_terms(DOMAIN, 100.0, model.terms)
        assert model.values == pytest.approx(again.values, rel=1e-12)
    assert sorted(set(combined)) == [0, 8, 16, 32]


def test_readers_and_an_updater_do_not_disturb_each_other() -> None:
    query = LinearQuery.cells(DOMAIN, {"a": (1, 2), "d": (0, 0)})
    model = spread(6)
    expected, found, stop = model.values, set[bytes](), threading.Event()

    def read() -> None:
        while not stop.is_set():
            found.add(model.values.tobytes())

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(300):
        step(model, query, learning_rate=1.0, increase=True)
    stop.set()
    joined(*readers)
    assert found == {expected.tobytes()}


def test_large_duals_that_cancel_leave_what_they_leave() -> None:
    # Measurements that contradict each other end in such duals; one after the other they would overflow.
    query = LinearQuery.cells(DOMAIN, {"a": (1, 2)})
    terms: list[Term] = [
        QueryTerm(query, -2000.0),
        MarginalTerm(("a",), np.array([0.0, 2000.0, 2000.0, 0.0, 0.0])),
    ]
    model = DenseDistribution.of_terms(DOMAIN, 240.0, terms)
    assert model.values == pytest.approx(np.full(DOMAIN.shape, 2.0))


def test_answers_over_scopes_too_long_for_a_marginal_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    queries = [
        LinearQuery.cells(DOMAIN, {"a": (1, 2), "c": (0, 1)}),
        LinearQuery(DOMAIN, (Factor(("a", "c"), generator.integers(0, UNITS, (5, 4))),)),
        LinearQuery(DOMAIN, (Factor(NAMES, generator.integers(0, UNITS, DOMAIN.shape)),)),
    ]
    expected = [spread(2).answer(query) for query in queries]
    monkeypatch.setattr("pmw.model.dense._MOST_CACHED_CELLS", 0)
    assert [spread(2).answer(query) for query in queries] == pytest.approx(expected, rel=1e-12)


@given(terms_of(DOMAIN), terms_of(DOMAIN))
def test_an_update_multiplies_each_cell(first: list[Term], then: list[Term]) -> None:
    workspace = DenseDistribution.of_terms(DOMAIN, TOTAL, first).workspace()
    for term in then:
        if isinstance(term, MarginalTerm):
            workspace.tilt_marginal(term.scope, term.duals)
        else:
            workspace.tilt_query(term.query, term.dual)
    expected = by_definition(DOMAIN, [*first, *then])
    # The lazily kept normaliser agrees with the true one before freezing brings it up to date.
    assert workspace.marginal(NAMES) == pytest.approx(expected, abs=1e-6)
    frozen = workspace.freeze((*first, *then))
    assert frozen.terms == (*first, *then)
    assert frozen.values == pytest.approx(expected, abs=1e-6)
    assert frozen.values.sum() == pytest.approx(TOTAL)


LONG = Domain((IntegerAttribute("a", 0, 2), IntegerAttribute("b", 0, 4999), IntegerAttribute("c", 0, 1)))


@pytest.mark.parametrize("domain", [DOMAIN, LONG])
def test_a_table_is_spread_over_the_array_and_written_out_over_short_last_axes(domain: Domain) -> None:
    written_out = {("c",): (1, 5000, 2), ("a", "c"): (3, 5000, 2), ("a",): (3, 1, 1)}
    for size in range(len(domain) + 1):
        for scope in itertools.combinations(domain.names, size):
            table = np.random.default_rng(2).random(domain.scope_shape(scope))
            found = dense.spread(domain, scope, table, domain.shape)
            shape = [domain[name].size if name in scope else 1 for name in domain.names]
            assert np.array_equal(
                np.broadcast_to(found, domain.shape), np.broadcast_to(table.reshape(shape), domain.shape)
            )
            assert domain is DOMAIN or found.shape == written_out.get(scope, found.shape)


def test_no_row_falls_into_a_cell_without_mass_however_near_its_place_is_to_the_end() -> None:
    duals = np.array([0.0, 0.3, -np.inf, 0.1, -np.inf])
    distribution = DenseDistribution.of_terms(DOMAIN, 100.0, [MarginalTerm(("a",), duals)])
    last = distribution._cells_at(np.array([0.0, 1.0 - 2**-53, 1.0]))
    assert (distribution.values.reshape(-1)[last] > 0).all()
