"""The ledger: exact prices, shares that add up, and a form for programs."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest

import pmw
from pmw.errors import BudgetError
from pmw.model.measurement import QueryMeasurement
from pmw.privacy.budget import Budget, Charge, Composition, pure_charge
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import LedgerEntry
from pmw.public.ledger import ledger_cells, ledger_of
from pmw.sparse_vector import SparseVectorKind
from queries import Domain

PURE = PrivacyFilter(Composition.PURE, Fraction(2))
ZCDP = PrivacyFilter(Composition.ZCDP, Fraction(1, 2))
ENTRIES = [
    LedgerEntry("total", "number of records", pure_charge(Fraction(1, 2))),
    LedgerEntry("marginal", "age", pure_charge(Fraction(1, 4))),
]


def test_epsilons_are_added_under_a_pure_budget() -> None:
    ledger = ledger_of(Budget.of(2), PURE, ENTRIES)
    assert [line.price for line in ledger.lines] == [Fraction(1, 2), Fraction(1, 4)]
    assert [line.share for line in ledger.lines] == [0.25, 0.125]
    assert [line.running_share for line in ledger.lines] == [0.25, 0.375]
    assert (ledger.spent, ledger.share, ledger.unit) == (Fraction(3, 4), 0.375, "epsilon")
    assert ledger.sentence() == "Charged: 0.75 of 2 epsilon (37.5%); the cap is epsilon 2."


def test_rhos_are_added_under_zcdp_and_epsilon_is_told_where_the_event_is_pure() -> None:
    gaussian = LedgerEntry("measurement", "age 3", Charge(None, Fraction(1, 16)))
    ledger = ledger_of(Budget.of(1, "1e-9"), ZCDP, [*ENTRIES, gaussian])
    assert [line.price for line in ledger.lines] == [Fraction(1, 8), Fraction(1, 32), Fraction(1, 16)]
    assert [line.epsilon for line in ledger.lines] == [Fraction(1, 2), Fraction(1, 4), None]
    assert ledger.share == 0.4375
    assert ledger_cells(ledger)[0] == ("no.", "event", "paid for", "epsilon", "rho", "share", "so far")
    assert ledger_cells(ledger)[3] == ("3", "measurement", "age 3", "", "0.0625", "12.50%", "43.75%")


def test_a_ledger_shows_charges_beyond_the_cap_too() -> None:
    assert ledger_of(Budget.of(2), PURE, ENTRIES * 4).share == 1.5


def test_noise_that_is_not_pure_has_no_price_under_a_pure_budget() -> None:
    with pytest.raises(BudgetError, match="expected a pure event"):
        ledger_of(Budget.of(2), PURE, [LedgerEntry("x", "y", Charge(None, Fraction(1)))])


def test_the_form_has_totals_and_entries_with_exact_charges() -> None:
    form = ledger_of(Budget.of(2), PURE, ENTRIES).to_dict()
    assert {name: value for name, value in form.items() if name != "entries"} == {
        "epsilon_cap": 2.0, "delta": 0.0, "composition": "pure", "unit": "epsilon", "cap": 2.0,
        "spent": 0.75, "share": 0.375,
    }  # fmt: skip
    assert form["entries"][1] == {
        "number": 2, "event": "marginal", "label": "age", "epsilon": 0.25, "charge": 0.25, "share": 0.125,
        "running_share": 0.375, "exact": "1/4",
        "theorem": "discrete Laplace noise: Ghosh, Roughgarden and Sundararajan (2012)",
    }  # fmt: skip


@pytest.mark.parametrize("kind", list(SparseVectorKind))
@pytest.mark.parametrize("composition", [PURE, ZCDP])
def test_every_charge_says_which_theorem_it_rests_on(
    kind: SparseVectorKind, composition: PrivacyFilter
) -> None:
    free = Charge(Fraction(0), Fraction(0))
    events = ("total", "marginal", "sparse vector", "measurement", "marginal", "abandoned batch")
    lines = ledger_of(
        Budget.of(1, "1e-9"), composition, [LedgerEntry(event, "", free) for event in events], kind
    ).lines
    noise = "discrete Gaussian" if composition is ZCDP else "discrete Laplace"
    assert all(lines[place].theorem.startswith(noise) for place in (0, 1, 3, 4))
    assert lines[2].theorem == f"tests: {kind.theorem}"
    # Where a positive pays for its test as it comes, its price rests on two theorems; opening never tests.
    paid = kind is SparseVectorKind.SECH2 or (composition is PURE and not kind.redraw)
    assert [("tests" in lines[place].theorem) for place in (1, 3, 4)] == [False, paid, paid]
    assert "reserved" in lines[5].theorem


def test_a_notebook_shows_a_table_with_escaped_texts() -> None:
    entry = LedgerEntry("measurement", "name <b>", pure_charge(Fraction(1)))
    shown = ledger_of(Budget.of(2), PURE, [entry])._repr_html_()
    assert ">name &lt;b&gt;</td>" in shown
    assert "<td>50.00%</td>" in shown


@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_sessions_ledger_adds_up_to_what_it_spent(
    frame: pd.DataFrame, domain: Domain, delta: float
) -> None:
    options = pmw.Options(test=pmw.TestKind.QUERY, seed=7, threshold=5.0)
    with pmw.open_session(frame, domain, epsilon=1, delta=delta, options=options) as session:
        opened = session.ledger()
        session.ask("age >= 40 AND NOT member = TRUE")
        ledger = session.ledger()
        assert [line.event for line in opened.lines] == ["total", *["marginal"] * 4]
        assert ledger.lines[: len(opened.lines)] == opened.lines
        assert ledger.lines[-1].event == "measurement"
        (measured,) = session.state.measured
        assert isinstance(measured, QueryMeasurement)
        assert ledger.lines[-1].label == measured.query.describe()
        assert (ledger.spent, ledger.cap) == (session.state.ledger.spent, session.state.ledger.cap)
        assert ledger.share == ledger.lines[-1].running_share == session.status().budget_share
