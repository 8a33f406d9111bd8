"""The ledger as people read it: every charge in order, and what it made of the cap. All of it is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pmw.display.elements import table
from pmw.display.texts import budget_words
from pmw.privacy.budget import Budget, Composition
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import WHOLE, Event, LedgerEntry, Parts
from pmw.public.options import DraftCharge, drafted, with_drafts
from pmw.sparse_vector import SparseVectorKind
from queries.frozen import dataclass

OTHERS = "for another analyst"  # in place of a label that may be a question


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One charge.

    Args:
        number: its place in the ledger, from 1.
        event: what drew noise.
        epsilon: the event is epsilon-DP, exactly; None where it is not pure.
        price: what it took from the cap, exactly, in the ledger's ``unit``.
        share: price as a part of the cap.
        running_share: all prices so far as a part of the cap.
        theorem: what the price rests on.
        booked: analysts and their exact parts of the price; an empty name is the session itself.
    """

    number: int
    event: str
    label: str
    epsilon: Fraction | None
    price: Fraction
    share: float
    running_share: float
    theorem: str
    booked: Parts = WHOLE

    def told_to(self, name: str) -> LedgerLine:
        """Return the charge as one analyst sees it: without the names and the questions of others."""
        own = tuple(part for part in self.booked if part[0] == name)
        is_others = not own and self.booked != WHOLE
        return replace(self, label=OTHERS if is_others else self.label, booked=own or WHOLE)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON; ``exact`` is the price as a fraction, a ``part`` one of the price."""
        form = {
            "number": self.number,
            "event": self.event,
            "label": self.label,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "charge": float(self.price),
            "share": self.share,
            "running_share": self.running_share,
            "exact": str(self.price),
            "theorem": self.theorem,
        }
        if self.booked == WHOLE:
            return form
        return {**form, "booked": [{"analyst": name, "part": str(part)} for name, part in self.booked]}


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every charge of a session, in order, against its cap.

    Args:
        composition: how charges add up.
        cap: the most that may be charged, exactly, in the ledger's ``unit``.
        lines: the charges.
        drafts: what drafts of the schema were charged, beside the budget.
    """

    budget: Budget
    composition: Composition
    cap: Fraction
    lines: tuple[LedgerLine, ...]
    drafts: tuple[DraftCharge, ...] = ()

    @property
    def whole(self) -> Budget:
        """The guarantee of the session and of the drafts of its schema together."""
        return with_drafts(self.budget, self.drafts)

    @property
    def spent(self) -> Fraction:
        """The sum of the charges, exactly."""
        return sum((line.price for line in self.lines), Fraction(0))

    @property
    def share(self) -> float:
        """The sum of the charges as a part of the cap."""
        return float(self.spent / self.cap)

    @property
    def unit(self) -> str:
        """What is added up: ``epsilon``, ``rho`` under zCDP, ``mu^2`` under GDP."""
        return _UNITS[self.composition]

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON: the totals, then ``entries``, one for each charge."""
        form: dict[str, Any] = {
            "epsilon_cap": float(self.whole.epsilon),
            "delta": float(self.whole.delta),
            "composition": self.composition.value,
            "unit": self.unit,
            "cap": float(self.cap),
            "spent": float(self.spent),
            "share": self.share,
            "entries": [line.to_dict() for line in self.lines],
        }
        if self.drafts:
            form["drafts"] = [one.to_dict() for one in self.drafts]
        return form

    def sentence(self) -> str:
        """Return the total in words."""
        whole, beside = self.whole, drafted(self.drafts)
        drafts = f", of which drafts of the schema took {budget_words(*beside)}" if self.drafts else ""
        return (
            f"Charged: {float(self.spent):.3g} of {float(self.cap):.3g} {self.unit} ({self.share:.1%}); "
            f"the cap is {budget_words(whole.epsilon, whole.delta)}{drafts}."
        )

    def _repr_html_(self) -> str:
        header, *rows = ledger_cells(self)
        return str(table(self.sentence(), header, rows))


def ledger_cells(ledger: Ledger) -> list[tuple[str, ...]]:
    """Return a ledger as texts: a row of headings, then a row for each charge."""
    pure = ledger.composition is Composition.PURE  # then epsilon is what is added up
    booked = any(line.booked != WHOLE for line in ledger.lines)
    head = ("no.", "event", "paid for", *(("analyst",) if booked else ()))
    rows = [(*head, *(() if pure else ("epsilon",)), ledger.unit, "share", "so far")]
    for line in ledger.lines:
        epsilon = "" if line.epsilon is None else f"{float(line.epsilon):.3g}"
        prices = (*(() if pure else (epsilon,)), f"{float(line.price):.3g}")
        shares = (f"{line.share:.2%}", f"{line.running_share:.2%}")
        names = (booked_names(line.booked),) if booked else ()
        rows.append((str(line.number), line.event, line.label, *names, *prices, *shares))
    return rows


def booked_names(booked: Parts) -> str:
    """Return who a charge is booked to, in words; nothing where it is the session itself."""
    if len(booked) == 1:
        return booked[0][0]
    return ", ".join(f"{name or 'the session'} {float(part):.0%}" for name, part in booked)


def ledger_of(
    budget: Budget,
    budget_filter: PrivacyFilter,
    entries: Sequence[LedgerEntry],
    kind: SparseVectorKind | None = None,
) -> Ledger:
    """Return charges as a ledger, whether or not they fit under the cap."""
    cap, spent, tested = budget_filter.cap, Fraction(0), False  # what opening measures comes before any test
    lines = []
    for number, entry in enumerate(entries, start=1):
        price = budget_filter.price(entry.charge)
        spent += price
        shares = (float(price / cap), float(spent / cap))
        tested = tested or entry.event in _VECTORS
        theorem = _theorem(entry, kind if tested else None, budget_filter.composition)
        lines.append(
            LedgerLine(
                number, entry.event, entry.label, entry.charge.epsilon, price, *shares, theorem, entry.booked
            )
        )
    return Ledger(budget, budget_filter.composition, cap, tuple(lines))


_UNITS = {Composition.PURE: "epsilon", Composition.ZCDP: "rho", Composition.GDP: "mu^2"}
_NOISE = {
    Composition.PURE: "discrete Laplace noise: Ghosh, Roughgarden and Sundararajan (2012)",
    Composition.ZCDP: "discrete Gaussian noise: Canonne, Kamath and Steinke (2020), Theorem 4",
    Composition.GDP: "discrete Gaussian noise: docs/proofs/gaussian-filter.md",
}
_SELECTION = {
    Composition.PURE: "exponential mechanism: McSherry and Talwar (2007)",
    Composition.ZCDP: "exponential mechanism: Cesar and Rogers (2021), bounded range",
}
_VECTORS = (Event.ROUND, Event.VECTOR)
_MEASURED = (Event.MARGINAL, Event.MEASUREMENT)  # at a positive, where that is paid for as it comes


def _theorem(entry: LedgerEntry, kind: SparseVectorKind | None, composition: Composition) -> str:
    if entry.event == Event.ABANDONED:
        return "what was reserved, whole"
    if entry.event == Event.SELECTION:
        return _SELECTION[composition]
    tests = "" if kind is None else f"tests: {kind.theorem}"
    if entry.event in _VECTORS:
        return tests
    noise = _NOISE[composition]
    at_positive = kind is not None and not kind.redraw and (kind.is_sech2 or composition is Composition.PURE)
    return f"{noise}; {tests}" if entry.event in _MEASURED and at_positive else noise
