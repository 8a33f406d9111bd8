"""What no test decides: opening and requests cost what one person changes, and have the noise of that.

All its numbers have noise of their own, expanded from its bytes in the order in which they are released.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.data import MemorySource
from pmw.errors import BudgetExhaustedError
from pmw.loop.measuring import Tables
from pmw.loop.untested import OpeningDraws, Requested, apply, draw_opening, released_total
from pmw.model.measurement import HierarchicalMeasurement
from pmw.model.value_sums import SummedValues
from pmw.planning.opening import choose_filter, plan_opening
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.public.charges import (
    CellNumbers,
    Event,
    Measurable,
    PersonNumbers,
    QuestionNumbers,
    SumNumbers,
    opening_entries,
    positive_entry,
    reserved_by_rounds,
)
from pmw.public.options import Options, TestKind
from pmw.public.plans import OpeningPlan
from pmw.public.quotes import affordable_price, quote_marginal, require_affordable
from pmw.public.state import PublicState
from pmw.research.audit import renyi_divergence, worst_log_ratio
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery
from tests.draws import (
    MOVES,
    RELATIONS,
    Tape,
    charged_scale,
    coded,
    neighbors,
    read_from_tape,
    require_scale,
    small_tables,
)
from tests.worlds import LETTERS

WHOLE = Domain(  # measured whole: it is no larger than its only pair
    tuple(
        CategoricalAttribute(name, tuple("abcdefgh"[:size]), missing=True, other=True)
        for name, size in (("x", 4), ("y", 7))
    )
)
LONG = Domain((IntegerAttribute("x", 0, 99, missing=True), CategoricalAttribute("y", tuple("pqrstuvw"))))


def long_table(cells: NDArray[np.int64]) -> MemorySource:
    return coded(LONG, np.stack([cells, np.zeros_like(cells)], axis=1))


def whole_table() -> MemorySource:
    generator = np.random.default_rng(2)
    return coded(WHOLE, np.stack([generator.integers(0, size, 300) for size in WHOLE.shape], axis=1))


def planned(
    domain: Domain, composition: Composition, relation: NeighboringRelation = RELATIONS[0]
) -> tuple[OpeningPlan, Options]:
    """Return the plan of an opening where a person has up to three records."""
    kind = TestKind.MARGINAL if domain is WHOLE else TestKind.QUERY
    options = Options(test=kind, composition=composition, neighboring_relation=relation, records_per_person=3)
    plan = plan_opening(domain, choose_filter(domain, Budget.of(2, 1e-9), options), options)
    assert (plan.table_noise is not None) == (not plan.marginal_noise) == (domain is WHOLE)
    return plan, options


def noise_of(draws: OpeningDraws, source: MemorySource) -> NDArray[np.int64]:
    """Return the noise on every number of an opening, the number of records first: int64, in units."""
    found = [np.array([draws.total_units - source.counts(()).total * UNITS])]
    for one in draws.marginals:
        counts = source.counts(one.scope).counts
        if isinstance(one, HierarchicalMeasurement):
            counts = one.tree.node_counts(counts)
        found.append((one.units - counts * UNITS).ravel())
    return np.concatenate(found)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.PURE])
def test_a_tree_is_charged_for_what_one_person_changes(
    composition: Composition, relation: NeighboringRelation
) -> None:
    plan, options = planned(LONG, composition, relation)
    tree, noise = plan.trees["x"], plan.marginal_noise["x"]
    counts = long_table(np.arange(101)).counts(("x",)).counts
    changed = counts.copy()
    changed[7] += 3  # three records more, or three that moved to another place far away
    if relation is NeighboringRelation.REPLACE_ONE:
        changed[95] -= 3
    difference = (tree.node_counts(changed) - tree.node_counts(counts)) * UNITS
    (charge,) = (
        entry.charge for entry in opening_entries(plan, options) if entry.event == "hierarchical histogram"
    )
    if isinstance(noise, DiscreteLaplace):
        assert charge.epsilon == np.abs(difference).sum() / noise.scale
    else:
        assert charge.rho >= sum(int(unit) ** 2 for unit in difference) / (2 * noise.sigma**2)
        assert charge.epsilon is None


@pytest.mark.parametrize("names", [("x",), ("y",), ("x", "y")])
def test_the_sum_of_what_is_measured_is_one_more_estimate_of_the_total(names: tuple[str, ...]) -> None:
    options = Options(test=TestKind.QUERY, composition=Composition.ZCDP)
    plan = plan_opening(LONG, choose_filter(LONG, Budget.of(1, 1e-9), options), options)
    plan = replace(plan, marginal_noise={name: plan.marginal_noise[name] for name in names})
    draws = draw_opening(plan, long_table(np.arange(101)), BitSource.from_integer(4))
    total = released_total(plan, draws)
    alone = released_total(replace(plan, marginal_noise={}, trees={}), replace(draws, marginals=()))
    assert total.deviation < 0.9 * alone.deviation
    assert abs(total.value - 101) < 5 * total.deviation
    assert [one.values.shape for one in draws.marginals] == [(LONG[name].size,) for name in names]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("composition", list(Composition))
def test_a_table_that_is_measured_whole_is_charged_for_the_records_of_one_person(
    composition: Composition, relation: NeighboringRelation
) -> None:
    plan, options = planned(WHOLE, composition, relation)
    (entry,) = (entry for entry in opening_entries(plan, options) if entry.label == "the whole table")
    moves = MOVES[relation]
    moved = 3 * UNITS  # all three may share a cell
    if composition is Composition.PURE:
        assert isinstance(plan.table_noise, DiscreteLaplace)
        assert entry.charge.epsilon == moves * moved / plan.table_noise.scale
    else:
        assert isinstance(plan.table_noise, DiscreteGaussian)
        price = moves * moved**2 / (2 * plan.table_noise.sigma**2)
        assert price <= entry.charge.rho < price + Fraction(1, 2**59)
        assert entry.charge.epsilon is None


@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.PURE])
@pytest.mark.parametrize("domain", [LONG, WHOLE])
def test_the_noise_of_an_opening_is_expanded_in_the_order_of_its_numbers(
    domain: Domain, composition: Composition
) -> None:
    source = whole_table() if domain is WHOLE else long_table(np.arange(101))
    (plan, _), bits, again = planned(domain, composition), *(BitSource.from_integer(8) for _ in range(2))
    found = noise_of(draw_opening(plan, source, bits), source)
    assert plan.total_noise is not None
    expected = [np.array([plan.total_noise.sample(again)])]
    for name, noise in plan.marginal_noise.items():
        numbers = plan.trees[name].nodes if name in plan.trees else domain[name].size
        expected.append(noise.sample_array(again, numbers))
    if plan.table_noise is not None:
        expected.append(plan.table_noise.sample_array(again, domain.size))
    assert np.array_equal(found, np.concatenate(expected))
    assert bits.take(8) == again.take(8)  # and nothing else was drawn


@pytest.mark.statistical
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize(
    ("domain", "relation"), [(LONG, RELATIONS[0]), *((WHOLE, relation) for relation in RELATIONS)]
)
def test_every_number_of_an_opening_has_noise_of_its_own_of_the_scale_that_is_charged(
    domain: Domain,
    relation: NeighboringRelation,
    composition: Composition,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    plan, options = planned(domain, composition, relation)
    source = whole_table() if domain is WHOLE else long_table(np.arange(101))
    openings = [draw_opening(plan, source, BitSource.from_integer(seed)) for seed in range(90)]
    drawn = np.stack([noise_of(one, source) for one in openings])
    require_independent(drawn[:, 0 if plan.total_noise else 1 :])
    place = 1
    for entry in opening_entries(plan, options):
        if entry.event == Event.TOTAL:  # one number to an opening: it alone is drawn more often
            alone, bits = OpeningPlan(plan.total_noise, {}), BitSource.from_integer(1)
            totals = np.array([draw_opening(alone, source, bits).total_units for _ in range(600)])
            found = totals / UNITS - source.counts(()).total
            require_scale(found, *charged_scale(entry.charge, records=3))
            continue
        tree = plan.trees.get(entry.label)
        size = domain.size if domain is WHOLE else domain[entry.label].size if tree is None else tree.nodes
        levels = plan.levels(entry.label)
        scale = charged_scale(entry.charge, records=3, moves=MOVES[relation], levels=levels)
        require_scale(drawn[:, place : place + size] / UNITS, *scale)
        place += size
    assert place == drawn.shape[1]


# --- what is requested ----------------------------------------------------------------------------------


NOISES: list[type[DiscreteLaplace] | type[DiscreteGaussian]] = [DiscreteLaplace, DiscreteGaussian]
SMALL = Domain((CategoricalAttribute("a", ("p", "q")),))
SCALE = 3  # records
# Of each kind what is measured, and the shape of its numbers.
MEASURED: dict[str, tuple[Measurable, tuple[int, ...]]] = {
    "counts": (CellNumbers(("a",)), (3,)),
    "questions": (
        QuestionNumbers(tuple(LinearQuery.cells(SMALL, {"a": (0, end)}) for end in (0, 1, 1))),
        (3,),
    ),
    "sums": (SumNumbers(SummedValues("x", ("a",), count_units=UNITS, squared=True)), (3, 2)),
    "persons": (PersonNumbers(("a",), 3), (3,)),
}


def opened_state(
    composition: Composition = Composition.ZCDP, **choices: Any
) -> tuple[PublicState, MemorySource]:
    """Return a session's state over three attributes, and its table."""
    state = LETTERS.state(epsilon=4, seed=1, composition=composition, update_limit=4, **choices)
    return state, MemorySource.from_frame(LETTERS.frame, LETTERS.domain)


def small(table: tuple[int, ...]) -> MemorySource:
    return coded(SMALL, np.repeat(np.arange(2), table))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", NOISES)
def test_what_is_drawn_has_the_distribution_that_is_charged_on_all_small_tables(
    kind: Any, relation: NeighboringRelation, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All tables of at most two records on two cells, with all their neighbours; noise in whole records, whose
    # distribution is that in units at a scale 2^20 times as large.
    state, _ = opened_state(neighboring_relation=relation)  # with noise of its own
    taped = read_from_tape(monkeypatch, *NOISES)
    state = replace(state, contract=replace(state.contract, domain=SMALL))
    requested = Requested(CellNumbers(("a",)), kind(Fraction(SCALE * UNITS)))
    charge = requested.entry(state.contract.options).charge
    support = np.arange(-44, 45)  # of noise, and of outputs, in records
    shares = kind(Fraction(SCALE)).pmf(support)
    assert math.isclose(float(np.sum(shares)), 1, abs_tol=1e-6)
    found: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
    for table in small_tables(2, 2):
        source = small(table)
        for noise in itertools.product(support[::8].tolist(), repeat=2):
            tape = Tape(noise)
            measured = requested.measured(requested.counted(Tables(source)), tape)
            assert not tape.left  # one draw for each cell, and none besides
            assert taped[-1] == (requested.noise, 2)
            assert measured.units.tolist() == [
                (count + one) * UNITS for count, one in zip(table, noise, strict=True)
            ]
        outputs = np.outer(*(kind(Fraction(SCALE)).pmf(support - count) for count in table)).ravel()
        found[table] = {(place,): share for place, share in enumerate(outputs.tolist())}  # the same, over all
    moves, pairs = MOVES[relation], list(neighbors(list(found), relation))
    assert pairs
    if kind is DiscreteLaplace:
        worst = max(worst_log_ratio(found[one], found[other]) for one, other in pairs)
        assert charge.epsilon == Fraction(moves, SCALE)
        assert worst == pytest.approx(float(charge.epsilon), abs=1e-9)  # attained, and not exceeded
        return
    assert charge.epsilon is None
    assert Fraction(moves, 2 * SCALE**2) <= charge.rho < Fraction(moves, 2 * SCALE**2) + Fraction(1, 2**60)
    for alpha in (1.5, 2.0, 4.0):
        worst = max(renyi_divergence(found[one], found[other], alpha) for one, other in pairs)
        assert worst == pytest.approx(alpha * float(charge.rho), rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(("what", "shape"), MEASURED.values(), ids=MEASURED)
def test_each_number_has_noise_of_its_own(
    what: Measurable, shape: tuple[int, ...], require_independent: Callable[[NDArray[np.int64]], None]
) -> None:
    requested, zeros = Requested(what, DiscreteGaussian(Fraction(2**24))), np.zeros(shape, dtype=np.int64)
    drawn = np.array(
        [
            np.ravel(requested.measured(zeros, BitSource(repeatable_seed(9, number))).units)
            for number in range(600)
        ]
    )
    require_independent(drawn)
    assert drawn.std() == pytest.approx(2**24, rel=0.06)
    true = np.arange(zeros.size).reshape(shape) * 2**40
    moved = requested.measured(true, BitSource(repeatable_seed(9, 0))).units
    assert np.array_equal(np.ravel(moved), np.ravel(true) + drawn[0])


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("composition", list(Composition))
def test_every_cell_has_noise_of_its_own_of_the_scale_that_is_charged(
    composition: Composition,
    relation: NeighboringRelation,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    state, source = opened_state(composition, neighboring_relation=relation, records_per_person=3)
    quote = quote_marginal(state, ["b", "a"])
    assert quote.noise is not None
    requested = Requested(CellNumbers(quote.scope), quote.noise)
    counted = requested.counted(Tables(source))
    counts = source.counts(("a", "b")).counts * UNITS
    drawn = np.stack([
        (requested.measured(counted, BitSource.from_integer(seed)).units - counts).ravel()
        for seed in range(60)
    ])  # fmt: skip
    charge = requested.entry(state.contract.options).charge
    assert (charge.epsilon is None) == (composition is not Composition.PURE)
    require_scale(drawn / UNITS, *charged_scale(charge, records=3, moves=MOVES[relation]))
    require_independent(drawn)


def with_left(state: PublicState, left: Fraction) -> PublicState:
    """Return the state with so much of the budget left."""
    return replace(state, ledger=replace(state.ledger, spent=state.ledger.cap - left))


@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("rounds", list(itertools.product([False, True], repeat=2)))
def test_what_open_rounds_have_reserved_is_not_spent(
    composition: Composition, rounds: tuple[bool, bool]
) -> None:
    state, _ = opened_state(composition)
    state = replace(state, rounds=rounds)
    quote = quote_marginal(state, "ab")
    assert quote.noise is not None
    what = CellNumbers(quote.scope)
    price = state.ledger.price(what.charge(quote.noise, state.contract.options))
    held = reserved_by_rounds(state.plan, rounds, state.contract.options, state.ledger)
    assert (held > 0) == any(rounds)
    just = with_left(state, price + held)
    assert quote_marginal(just, "ab").affordable
    require_affordable(just, what, quote.noise)
    after = just.ledger.charge(what.charge(quote.noise, state.contract.options))
    for place, (tier, is_open) in enumerate(zip(state.plan, rounds, strict=True)):
        if is_open:  # each of them can still pay its positive, one after the other
            after = after.charge(
                positive_entry(tier, state.contract.options, after.composition, f"of tier {place}").charge
            )
    assert after.remaining == 0
    short = with_left(state, price + held - Fraction(1, 2**61))
    assert not quote_marginal(short, "ab").affordable
    with pytest.raises(BudgetExhaustedError, match="nothing was spent"):
        require_affordable(short, what, quote.noise)
    assert affordable_price(with_left(state, held / 2)) == 0


def test_a_requested_marginal_is_no_positive_and_is_charged_as_its_own_event() -> None:
    state, source = opened_state()
    quote = quote_marginal(state, "ab")
    assert quote.noise is not None
    requested = Requested(CellNumbers(quote.scope), quote.noise)
    counts = requested.counted(Tables(source))
    measured = requested.measured(counts, BitSource.from_integer(1))
    entry = requested.entry(state.contract.options)
    after = apply(state, measured, state.ledger.charge(entry.charge))
    assert (entry.event, entry.label) == (Event.REQUESTED, "a, b")
    assert (after.positives(0), after.positives(1), after.version) == (0, 0, state.version + 1)
    assert after.rounds == state.rounds
    assert after.ledger.remaining == state.ledger.remaining - entry.charge.rho
    assert float(np.abs(after.model.marginal(("a", "b")) - source.counts(("a", "b")).counts).max()) < 60
    true: NoiseDistribution = measured.noise
    assert true == requested.noise
