"""When error quantiles are due, of which questions, and what they may cost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.planning.error_quantiles import (
    AnsweredQuestions,
    is_due,
    next_due,
    plan_quantiles,
    quantiles_left,
)
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.answer import Basis, QuestionKind
from pmw.public.charges import quantile_entry
from pmw.public.error_quantiles import SHARE, ErrorQuantile, quantile_margin
from pmw.public.state import PublicState
from queries import UNITS, CategoricalAttribute, Domain

TESTED, BINS = QuestionKind(2, Basis.TESTED), QuestionKind(3, Basis.BINS)
LOUD = DiscreteGaussian(Fraction(10**12))


@pytest.fixture(scope="module")
def state() -> PublicState:
    """Return the state of a session of many records after 256 answers."""
    domain = Domain(
        tuple(CategoricalAttribute(name, tuple("stuvwx"), missing=True, other=True) for name in "abcde")
    )
    frame = pd.DataFrame(np.array(list("stuvwx"))[np.random.default_rng(1).integers(0, 6, (40_000, 5))])
    frame.columns = list("abcde")
    with pmw.open_session(
        frame, domain, epsilon=1, delta=1e-9, options=pmw.Options(opening=pmw.Opening.ONE_WAY, seed=1)
    ) as session:
        return replace(session.state, asked=256, settled=256)


def asked(number: int, width: float = 5000.0) -> AnsweredQuestions:
    return AnsweredQuestions(np.arange(1, number + 1), np.full(number, width))


def test_they_are_due_at_doubling_numbers() -> None:
    assert [number for number in range(3000) if is_due(number)] == [256, 512, 1024, 2048]
    assert [next_due(number) for number in (0, 255, 256, 257, 1023)] == [256, 256, 512, 512, 1024]


def test_each_kind_gets_an_equal_part_and_one_part_stays(state: PublicState) -> None:
    options, ledger = state.contract.options, state.ledger
    alone = plan_quantiles(state, {TESTED: asked(40)})
    both = plan_quantiles(state, {TESTED: asked(40), BINS: asked(120)})
    assert [one.kind for one in both] == [TESTED, BINS]
    share = ledger.cap * SHARE
    for parts, requests in ((2, alone), (3, both)):
        for one in requests:
            price = ledger.price(one.entry(options).charge)
            assert 0.999 * float(share / parts) <= float(price) <= float(share / parts)


def test_what_was_spent_on_them_is_not_spent_again(state: PublicState) -> None:
    options, ledger = state.contract.options, state.ledger
    (first,) = plan_quantiles(state, {TESTED: asked(40)})
    released = ErrorQuantile(TESTED, 128, 40, 10**12, first.noise)
    entry = quantile_entry(TESTED.describe(), first.noise, options)
    later = replace(state, quantiles=(released,), ledger=ledger.charge(entry.charge))
    (second,) = plan_quantiles(later, {BINS: asked(40)})
    price = [float(ledger.price(one.entry(options).charge)) for one in (first, second)]
    assert price[1] == pytest.approx(price[0] / 2, rel=1e-3)
    used = tuple(replace(released, asked=number) for number in (64, 128))
    assert plan_quantiles(replace(state, quantiles=used), {BINS: asked(40)}) == ()


def test_what_is_kept_for_tests_is_left_to_them(state: PublicState) -> None:
    def left(most: Fraction) -> PublicState:
        ledger = state.ledger
        while ledger.remaining > most:  # as requests may have done
            noise = DiscreteGaussian(Fraction(2**28))
            ledger = ledger.charge(quantile_entry(TESTED.describe(), noise, state.contract.options).charge)
        assert ledger.remaining > 0
        return replace(state, ledger=ledger)

    kept, share = state.ledger.cap / 8, state.ledger.cap * SHARE  # at 256 answers
    assert plan_quantiles(left(kept), {TESTED: asked(40)}) == ()
    assert quantiles_left(left(kept)) == 0
    assert quantiles_left(left(kept + share)) > share * Fraction(9, 10)
    options = replace(state.contract.options, accuracy=0.1, records=3000)
    contract = replace(state.contract, options=options)
    planned = state.ledger.remaining - share
    assert planned > kept + share
    for most, whole in ((planned, False), (planned + share, True)):  # all that was planned is kept here
        assert bool(quantiles_left(replace(left(most), contract=contract))) is whole


@pytest.mark.parametrize(
    "change",
    [
        {"settled": 255},
        {"settled": 257},
        {"closed": True},
        {"plan": (), "rounds": ()},
        {"quantiles": (ErrorQuantile(BINS, 256, 40, 0, LOUD),)},
    ],
)
def test_none_are_due(state: PublicState, change: dict[str, object]) -> None:
    assert plan_quantiles(state, {TESTED: asked(60)})
    assert plan_quantiles(replace(state, **change), {TESTED: asked(60)}) == ()  # type: ignore[arg-type]


def test_kinds_are_left_out_where_noise_hides_what_there_is_to_tell(state: PublicState) -> None:
    assert plan_quantiles(state, {TESTED: asked(39)}) == ()
    (one,) = plan_quantiles(state, {TESTED: asked(40)})
    margin = quantile_margin(one.noise, 0.95)
    assert plan_quantiles(state, {TESTED: asked(40, 1.99 * margin)}) == ()
    assert plan_quantiles(state, {TESTED: asked(40, 2.01 * margin)})
    for known, due in ((1.0, False), (5 * margin, True)):
        before = (ErrorQuantile(TESTED, 128, 40, round(known * UNITS), LOUD),)
        assert bool(plan_quantiles(replace(state, quantiles=before), {TESTED: asked(40)})) == due


def test_of_many_questions_some_are_taken_whatever_their_answers_were(state: PublicState) -> None:
    (one,) = plan_quantiles(state, {TESTED: asked(2000)})
    assert len(one.places) == len(set(one.places)) == 500
    assert one.rank == 476
    (other,) = plan_quantiles(state, {TESTED: asked(2000, 7000.0)})
    assert one.places == other.places
    order = sorted(range(1, 2001), key=lambda place: sha256(f"{state.asked} {place}".encode()).digest())
    assert list(one.places) == sorted(order[:500])  # anybody can repeat it
