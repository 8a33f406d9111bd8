"""What is measured right after opening, pairs or triples too: what is recorded, drawn and charged, when."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.loop.untested import Requested
from pmw.model.measurement import HierarchicalMeasurement, ResidualMeasurement
from pmw.model.strategy import Strategy
from pmw.planning.opening import open_contract
from pmw.privacy.budget import Budget, Composition, NeighboringRelation, gaussian_mu_squared
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.charges import CellNumbers, Event
from pmw.public.foundations import due_scopes, strategy_of
from pmw.public.state import PublicState
from pmw.session.accounts import SESSION
from pmw.session.releases import MeasuredRelease
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute
from tests.draws import RELATIONS
from tests.pmw.session.stored import killed_drawing
from tests.worlds import opened

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 199, missing=True, other=True),  # a tree alone, and bins with others
        CategoricalAttribute("sex", ("f", "m"), missing=True, other=True),
        IntegerAttribute("rooms", 1, 6, missing=True, other=True),
    )
)
PAIRS: list[tuple[str, ...]] = list(itertools.combinations(DOMAIN.names, 2))
DUE: dict[pmw.Opening, list[tuple[str, ...]]] = {
    pmw.Opening.PAIRS: PAIRS,
    pmw.Opening.TRIPLES: [*PAIRS, DOMAIN.names],
}


def people() -> pd.DataFrame:
    generator = np.random.default_rng(1)
    age = generator.integers(0, 200, 3000)
    return pd.DataFrame(
        {
            "age": age,
            "sex": generator.choice(["f", "m"], 3000),
            "rooms": 1 + age // 34,
        }
    )


FRAME = people()


def open_people(path: Path | None = None, *, epsilon: float = 6, **choices: Any) -> pmw.Session:
    chosen = {"opening": pmw.Opening.PAIRS, "seed": None if path else 4, **choices}
    return opened(FRAME, DOMAIN, path, epsilon=epsilon, **chosen)


def moved(strategy: Strategy) -> int:
    """Return the most that one record moves the numbers, squared in L2, cell by cell."""
    found = np.eye(1, dtype=np.int64)
    for axis in strategy.axes:
        found = np.kron(found, axis.matrix)
    columns = found.T * strategy.factor
    gram = columns @ columns.T
    if not strategy.replaced:
        return int(gram.diagonal().max())
    return int((gram.diagonal()[:, None] + gram.diagonal() - 2 * gram).max())


def cost(sigma: Fraction, squared: Fraction, state: PublicState) -> Fraction:
    """Return the price of Gaussian noise on what moves by so much, in the session's own measure."""
    if state.ledger.composition is Composition.ZCDP:
        return squared / (2 * sigma**2)
    found = gaussian_mu_squared(squared, sigma)
    assert found is not None
    return found


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize(
    ("opening", "records", "composition"),
    [(pmw.Opening.PAIRS, 3, Composition.GDP), (pmw.Opening.TRIPLES, 1, Composition.ZCDP)],
)
def test_what_is_drawn_costs_no_more_than_is_charged(
    opening: pmw.Opening,
    relation: NeighboringRelation,
    composition: Composition,
    records: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[tuple[Fraction, int]] = []
    sample = DiscreteGaussian.sample_array

    def noted(self: DiscreteGaussian, bits: Any, count: int) -> Any:
        drawn.append((self.sigma, count))
        return sample(self, bits, count)

    monkeypatch.setattr(DiscreteGaussian, "sample_array", noted)
    choices: dict[str, Any] = {"neighboring_relation": relation, "composition": composition}
    choices["opening"] = opening
    with open_people(epsilon=8 * records, records_per_person=records, **choices) as session:
        state, lines = session.state, session.ledger().lines
        assert session.verify().holds
    assert [one.scope for one in state.marginals] == DUE[opening]
    replaced = relation is NeighboringRelation.REPLACE_ONE
    measured = [*state.opening, *state.marginals]
    assert len(drawn) == len(measured)
    prices = {line.label: Fraction(line.price) for line in lines}
    assert len(prices) == len(measured) + (not replaced)
    for (sigma, count), one in zip(drawn, measured, strict=True):
        assert count == one.units.size
        squared = (2 if replaced else 1) * UNITS**2
        if isinstance(one, HierarchicalMeasurement):
            squared *= one.tree.height
        if isinstance(one, ResidualMeasurement):
            assert one.strategy.replaced is replaced
            squared = moved(one.strategy)
        own = cost(sigma, Fraction(records**2 * squared), state)
        charged = prices[", ".join(one.scope)]
        assert 0.8 * charged < own <= charged  # the bound of a replaced record is seldom reached
        if not replaced:
            assert own > charged * Fraction(999, 1000)
    assert state.ledger.spent == sum(prices.values())
    assert state.ledger.spent <= state.ledger.cap


@pytest.mark.parametrize(
    ("opening", "last"), [(pmw.Opening.PAIRS, PAIRS[1]), (pmw.Opening.TRIPLES, DOMAIN.names)]
)
def test_an_interrupted_session_goes_on_with_the_marginal_that_was_drawn(
    opening: pmw.Opening, last: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "killed.pmw"
    with killed_drawing(lambda requested: requested.what.scope == last) as seen:
        open_people(path, opening=opening)
    with pmw.resume_session(path, FRAME) as session:
        measured = session.state.marginals
        labels = [line.label for line in session.ledger().lines]
        assert [labels.count(", ".join(scope)) for scope in DUE[opening]] == [1] * len(measured)
        assert session.verify().holds
        # No question is tested before or after, and a closed session measures nothing.
        assert due_scopes(session.state) == []
        before = session.state.ledger.spent
        answers = session.ask_all(["sex = 'f' AND rooms = 3", "age < 70 AND sex = 'm'"], fresh=True)
        assert all(answer.interval is not None for answer in answers)
        assert session.state.ledger.spent == before
        session.finalize()
        assert due_scopes(session.state) == []
    assert [one.scope for one in measured] == DUE[opening]
    for one, former in zip(measured, seen, strict=False):
        assert one.units.tolist() == former.tolist()  # from the bytes that were recorded


# --- in the words of the ledger ----------------------------------------------------------------------------


def ask_again(session: pmw.Session) -> None:
    """Measure a pair on request, under noise that what is left pays for."""
    with session._engaged() as engine:
        rows = strategy_of(session.state, PAIRS[1])
        engine.measure(
            Requested(CellNumbers(PAIRS[1], rows), DiscreteGaussian(Fraction(400 * UNITS))), SESSION
        )


def charged_as(event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charge every marginal that no test decides as one event."""

    def released(_kind: type[MeasuredRelease], batch: Requested, _state: PublicState) -> Any:
        return MeasuredRelease(batch, event)

    monkeypatch.setattr(MeasuredRelease, "of", classmethod(released))


def test_what_is_charged_as_opening_and_was_asked_for_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_people(tmp_path / "study.pmw") as session:
        charged_as(Event.OPENING, monkeypatch)
        ask_again(session)
        assert not session.verify().holds
    with opened(FRAME, DOMAIN, tmp_path / "other.pmw", epsilon=6, opening=pmw.Opening.ONE_WAY) as session:
        ask_again(session)  # no pair is of the opening of this session
        assert not session.verify().holds


# --- noise beyond every scale -------------------------------------------------------------------------------

CROWDED = Domain(
    (
        CategoricalAttribute("ward", tuple("abcdefg"), missing=True, other=True),
        CategoricalAttribute("kind", tuple("pq"), missing=True, other=True),
        IntegerAttribute("age", 0, 16, missing=True, other=True),
    )
)


def is_planned(epsilon: float, options: pmw.Options) -> bool:
    """Tell whether a budget is enough for what opening measures, by its plan alone."""
    try:
        open_contract(CROWDED, Budget.of(repr(epsilon), "1e-9"), options)
    except pmw.BudgetError:
        return False
    return True


@pytest.mark.parametrize(("relation", "opening"), [*zip(RELATIONS, DUE, strict=True)])
def test_a_budget_is_refused_before_anything_is_recorded_or_all_is_measured(
    relation: NeighboringRelation, opening: pmw.Opening, tmp_path: Path
) -> None:
    crowds = 10**6  # records of one person: so the least budget for them is large enough to be looked for
    options = pmw.Options(neighboring_relation=relation, opening=opening, records_per_person=crowds)
    low, high = 1e-9, 10.0  # refused, and planned
    assert (is_planned(low, options), is_planned(high, options)) == (False, True)
    while high > 1.0001 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_planned(middle, options) else (middle, high)
    frame = pd.DataFrame({"ward": ["a"] * 30, "kind": ["p"] * 30, "age": [1] * 30})
    path = tmp_path / "s.pmw"
    for refused in (low, 0.9 * low, 0.8 * low, 0.6 * low):
        with pytest.raises(pmw.BudgetError, match="the budget is too small"):
            opened(frame, CROWDED, path, epsilon=refused, options=options)
        assert list(tmp_path.iterdir()) == []
    with opened(frame, CROWDED, path, epsilon=high, options=options) as session:
        assert not due_scopes(session.state)
    with pmw.resume_session(path, frame) as session:
        assert session.ask("ward = 'a'").interval is not None
        assert session.verify().holds


def test_what_has_no_scale_on_rows_is_no_request() -> None:
    with open_people() as session:
        rows = strategy_of(session.state, PAIRS[0])
        assert rows is not None
        Requested(CellNumbers(PAIRS[0], rows), DiscreteGaussian(Fraction(2**48)))
        Requested(CellNumbers(PAIRS[0]), DiscreteGaussian(Fraction(2**50)))
        with pytest.raises(pmw.NoiseError, match=r"up to 2\^50"):
            Requested(CellNumbers(PAIRS[0], rows), DiscreteGaussian(Fraction(2**50)))
