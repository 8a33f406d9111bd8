"""Baselines as functions: on arrays, under one budget, charged before they are drawn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.errors import BudgetError, DataError
from pmw.privacy.budget import Budget, Composition
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.options import Options, TestKind
from pmw.research.baselines import PairRules, all_pairs_max_entropy, mwem, offline_pmw
from pmw.research.offline import OfflineOptions, Targets
from queries import UNITS, QueryError

COUNTS = np.random.default_rng(1).integers(0, 900, (3, 4, 2))
QUESTIONS = [np.random.default_rng(seed).integers(0, 2, COUNTS.shape) for seed in range(8)]


def worst(model_answers: list[float]) -> float:
    true = [float((COUNTS * weights).sum()) for weights in QUESTIONS]
    return max(abs(one - other) for one, other in zip(model_answers, true, strict=True))


def test_mwem_is_near_on_its_questions_and_spends_its_rounds() -> None:
    policy = Options(test=TestKind.QUERY, seed=2)
    options = OfflineOptions(Targets.QUERY, 12, Fraction(1, 2), policy=policy)
    release = mwem(COUNTS, QUESTIONS, epsilon=20, delta=1e-6, options=options)
    assert worst([answer.count for answer in release.answers()]) < 60
    assert sum(line.event == "selection" for line in release.ledger.lines) == 12
    usual = mwem(COUNTS, [one.tolist() for one in QUESTIONS], epsilon=1)
    assert sum(line.event == "selection" for line in usual.ledger.lines) == 10
    assert {line.event for line in usual.ledger.lines} == {"total", "selection", "measurement"}


def test_offline_pmw_ends_at_a_small_error() -> None:
    policy = Options(seed=3)
    release = offline_pmw(COUNTS, QUESTIONS, 40, epsilon=200, delta=1e-6, policy=policy)
    rounds = sum(line.event == "selection" for line in release.ledger.lines)
    assert 1 <= rounds <= 40
    with pytest.raises(QueryError, match="at least two different questions"):
        offline_pmw(COUNTS, QUESTIONS[:1], 5, epsilon=1)


def test_all_pairs_are_near_where_the_budget_is_large() -> None:
    fitted = all_pairs_max_entropy(COUNTS, epsilon=100, delta=1e-6, bits=BitSource.from_integer(4))
    assert fitted.scopes == (("x0", "x1"), ("x0", "x2"), ("x1", "x2"))
    np.testing.assert_allclose(fitted.model.marginal(("x0", "x2")), COUNTS.sum(axis=1), atol=25)


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("records", [None, int(COUNTS.sum())])
def test_each_marginal_is_charged_before_it_is_drawn_at_the_price_of_its_noise(
    delta: int | str, records: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, Fraction]] = []
    charge = PrivacyFilter.charge

    def charged(ledger: PrivacyFilter, price: object) -> PrivacyFilter:
        after = charge(ledger, price)  # type: ignore[arg-type]  # passed on
        events.append(("charged", (after.spent - ledger.spent) / ledger.cap))
        return after

    monkeypatch.setattr(PrivacyFilter, "charge", charged)
    kind, scales = DiscreteGaussian if delta else DiscreteLaplace, []
    draw = kind.sample_array

    def drawn(noise: DiscreteGaussian | DiscreteLaplace, bits: BitSource, count: int) -> NDArray[np.int64]:
        events.append(("drawn", Fraction(0)))
        scales.append((noise.sigma if isinstance(noise, DiscreteGaussian) else noise.scale) / UNITS)
        return draw(noise, bits, count)  # type: ignore[arg-type]  # of its own kind

    monkeypatch.setattr(kind, "sample_array", drawn)
    monkeypatch.setattr(kind, "sample", lambda noise, bits: int(noise.sample_array(bits, 1)[0]))
    all_pairs_max_entropy(COUNTS, epsilon=1, delta=delta, rules=PairRules(Fraction(1, 10), 5, records))
    marginals = 6 + (records is None)
    assert [event for event, _ in events] == ["charged", "drawn"] * marginals
    spent = sum(share for _, share in events)
    assert 0.999 < spent <= 1
    composition = Composition.ZCDP if delta else Composition.PURE
    cap = float(open_filter(Budget.of(1, delta), composition).cap)
    for scale, (_, share) in zip(map(float, scales), events[::2], strict=True):
        price = float(share) * cap  # one record moves one cell by one
        assert price == pytest.approx(1 / (2 * scale**2) if delta else 1 / scale, rel=1e-5)


def test_what_is_no_histogram_or_no_budget_is_refused() -> None:
    with pytest.raises(DataError, match="negative"):
        all_pairs_max_entropy([[1, -1], [0, 2]], epsilon=1)
    with pytest.raises(BudgetError):
        all_pairs_max_entropy(COUNTS, epsilon=0)
    with pytest.raises(DataError, match="fractions"):
        mwem([1.5, 2], QUESTIONS, epsilon=1)
