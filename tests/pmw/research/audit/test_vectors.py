"""One call audits a sparse vector of one's own: a sound one stays within its claim, wrong ones are found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import pytest

from pmw.errors import BudgetError
from pmw.privacy.budget import NOTHING, Charge, Composition, gaussian_charge
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import VectorAudit, audit_sparse_vector
from pmw.research.audit.report import Verdict
from pmw.research.audit.vectors import _instances
from pmw.sparse_vector import NoiseKind, NumericSparse, Sides, Sparse, SparseState, ThresholdTest

UNIT = 8


def sound(sides: Sides = Sides.ONE_SIDED, *, monotone: bool = False, redraw: bool = False) -> NumericSparse:
    rate = 1 if monotone else 2
    test = ThresholdTest(
        NoiseKind.EXPONENTIAL, sides, UNIT, monotone, Fraction(2 * UNIT), Fraction(2 * rate * UNIT)
    )
    return NumericSparse(Sparse(test, 2, redraw), DiscreteLaplace(Fraction(2 * UNIT)))


@dataclass(frozen=True)
class Altered:
    """A sparse vector of another's class, whose parts tests make wrong."""

    whole: NumericSparse
    cheaper: int = 1
    monotone: bool = False
    sensitivity: int = UNIT
    update_limit: int = 2
    redraw: bool = False

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        opening, positive = self.whole.charges(composition)
        return tuple(  # type: ignore[return-value]  # of two
            Charge(
                None if one.epsilon is None else one.epsilon / self.cheaper,
                one.rho / self.cheaper,
                None if one.mu_squared is None else one.mu_squared / self.cheaper,
            )
            for one in (opening, positive)
        )

    def open(self, bits: BitSource) -> SparseState:
        return self.whole.open(bits)

    def step(
        self, state: SparseState, value: int, threshold: int, bits: BitSource
    ) -> tuple[SparseState, int, int | None]:
        return self.whole.step(state, value, threshold, bits)


def quiet() -> NumericSparse:
    """Return a sound vector with a small claim: 1/4 and two times 1/4 and 1/16."""
    test = ThresholdTest(
        NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, UNIT, False, Fraction(4 * UNIT), Fraction(8 * UNIT)
    )
    return NumericSparse(Sparse(test, 2, False), DiscreteLaplace(Fraction(16 * UNIT)))


def audited(vector: Altered | NumericSparse, runs: int = 300) -> VectorAudit:
    return audit_sparse_vector(vector, runs=runs, seed=1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sides", "monotone", "redraw"),
    [(Sides.ONE_SIDED, False, False), (Sides.TWO_SIDED, False, True), (Sides.TWO_THRESHOLDS, True, False)],
)
def test_a_sound_vector_stays_within_its_claim(sides: Sides, monotone: bool, redraw: bool) -> None:
    found = audited(sound(sides, monotone=monotone, redraw=redraw), runs=150)
    assert found.verdict is Verdict.SOUND
    assert [one.composition for one in found.findings] == list(Composition)
    assert found.findings[0].claimed == pytest.approx(2.5 + redraw * 0.5)  # 1/2 and two times 1/2 and 1/2
    assert "pure: claims" in str(found)


@pytest.mark.statistical
def test_a_vector_that_charges_too_little_is_found_in_every_way_to_add_up() -> None:
    found = audited(Altered(sound(), cheaper=300), runs=600)
    assert [one.verdict for one in found.findings] == [Verdict.VIOLATES] * 3
    assert found.verdict is Verdict.VIOLATES


class NoTestNoise(Altered):
    """Algorithm 5 of Lyu, Su and Li (2017): noise on the threshold alone."""

    def step(
        self, state: SparseState, value: int, threshold: int, bits: BitSource
    ) -> tuple[SparseState, int, int | None]:
        assert state.noisy is not None
        above = value >= threshold + state.noisy.upper
        return state, int(above), value + self.whole.value_noise.sample(bits) if above else None


class NoValueNoise(Altered):
    """Releases the value as it is, beside tests that are sound."""

    def step(
        self, state: SparseState, value: int, threshold: int, bits: BitSource
    ) -> tuple[SparseState, int, int | None]:
        after, outcome, released = super().step(state, value, threshold, bits)
        return after, outcome, None if released is None else value


class Generous(Altered):
    """Takes neighbours that differ by more than its noise is made for."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    "vector",
    [NoTestNoise(quiet()), NoValueNoise(quiet()), Generous(quiet(), sensitivity=16 * UNIT)],
    ids=lambda vector: type(vector).__name__,
)
def test_a_vector_that_claims_less_than_it_does_is_found(vector: Altered) -> None:
    found = audited(vector, runs=600 if isinstance(vector, NoTestNoise) else 300)
    assert found.verdict is Verdict.VIOLATES
    worst = max(found.findings, key=lambda one: one.certified.epsilon)
    assert worst.certified.epsilon > worst.claimed
    assert worst.instance.sensitivity == vector.sensitivity


@pytest.mark.parametrize("monotone", [False, True])
def test_streams_move_both_ways_only_where_the_claim_is_for_that(monotone: bool) -> None:
    streams = list(_instances(Altered(quiet(), monotone=monotone)))
    moves = {b - a for one in streams for a, b in zip(one.first, one.second, strict=True)}
    assert moves == ({0, UNIT} if monotone else {-UNIT, UNIT})
    assert len(streams) == (3 if monotone else 4)


@dataclass(frozen=True)
class Unpriced(Altered):
    """Has no price."""

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        raise BudgetError("no price")


def test_a_vector_without_a_price_or_too_few_runs_are_refused() -> None:
    with pytest.raises(BudgetError, match="a price in some composition"):
        audited(Unpriced(sound()))
    with pytest.raises(BudgetError, match="at least 100 runs"):
        audited(sound(), runs=99)


def test_gaussian_values_are_held_against_their_rho_alone() -> None:
    vector = replace(sound(), value_noise=DiscreteGaussian(Fraction(2 * UNIT)))
    found = audited(vector, runs=100)
    assert [one.composition for one in found.findings] == [Composition.ZCDP]
    opening, positive = vector.charges(Composition.ZCDP)
    assert found.findings[0].claimed == pytest.approx(float(opening.rho + 2 * positive.rho))
    value = gaussian_charge(Fraction(UNIT**2), Fraction(2 * UNIT))
    assert positive == NOTHING + value
