"""Quotes: what a marginal on request costs, and how far its numbers may be off; all of it known beforehand.

A bar depends on scales of noise alone. So what is quoted is what an answer will have: but for an interval
that is cut off at 0, or is stretched to hold the model's answer.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from pmw.display.texts import counted, number
from pmw.errors import BudgetError, BudgetExhaustedError, SessionError
from pmw.model.measurement import measured_as
from pmw.model.value_sums import SummedValues
from pmw.privacy.budget import LEAST_SIGMA, Composition
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.public.bars import Bars
from pmw.public.charges import (
    CellNumbers,
    Measurable,
    PersonNumbers,
    QuestionNumbers,
    SumNumbers,
    reserved_by_rounds,
)
from pmw.public.clear import left_for_parts
from pmw.public.evidence import Holding, holding_of
from pmw.public.foundations import founded, strategy_of
from pmw.public.free_answers import ModelAnswers
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.public.state import PublicState
from queries.cells import cell_count
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery

MOST_APART = 2**16  # cells of sums or persons that are measured together: each is a draw, or up to three
_WIDEST = 2**48  # units: of noise that says nothing of any table, and on rows is less than 3 times as wide
_HELD_BY = {
    Holding.OPENING: "what opening measured of {} leaves room for no records",
    Holding.MEASURED: "what was measured of {} leaves room for no records",
    Holding.TESTED: "counts of {} are held by a test alone",
    Holding.PARTS: "counts of {} are not held",
    Holding.NOTHING: "counts of {} are not held",
}


class Within(NamedTuple):
    """How far a number may be off.

    Attributes:
        amount: in its own unit, or as a part.
        relative: as a part of it.
    """

    amount: float
    relative: bool = False

    @classmethod
    def parse(cls, text: str) -> Within:
        """Return what ``2.5`` or ``2%`` says."""
        relative = text.strip().endswith("%")
        try:
            amount = float(text.strip().removesuffix("%")) / (100 if relative else 1)
        except ValueError:
            amount = math.nan
        if not 0 < amount < math.inf:
            raise BudgetError(f"expected a number above 0, or a part such as 2%, got {text!r}")
        return cls(amount, relative)

    @classmethod
    def of(cls, given: Within | float | str) -> Within:
        """Return a width as it is, or what a number or a text says."""
        return given if isinstance(given, Within) else cls.parse(str(given))

    @staticmethod
    def records(given: float) -> float:
        """Return a half-width in records."""
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if not is_number or not 0 < given < math.inf:
            raise BudgetError(f"expected a half-width above 0 records, got {given!r}")
        return float(given)

    def in_records(self, total: float) -> float:
        """Return the half-width of a count in records; a part is one of the number of all records."""
        return self.amount * total if self.relative else self.amount

    @property
    def form(self) -> float | str:
        """The number, or a text that ``parse`` reads, for JSON."""
        return str(self) if self.relative else self.amount

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


@dataclass(frozen=True, slots=True)
class Quote:
    """What would be measured on request, and its price.

    Args:
        measured: counts of a marginal, questions themselves, sums of values, or persons.
        scope: attribute names in declared order.
        cells: how many numbers are measured: declared cells, or bins where a scope has too many; of sums,
            what goes with each is left out.
        noise: on each of them; None where nothing need be measured.
        share: the price as a part of the cap, in [0, 1] where it is affordable.
        half_width: of the question, in records, at the session's confidence, after the measurement: of one
            cell of the marginal where a marginal was asked for. Of sums, that of each in the attribute's
            unit; of persons, in persons.
        affordable: the price is left under the cap, besides what open rounds have reserved.
        summed: of sums, which they are; None where the answer is known as well already.
        mean_half_width: of sums, how far the mean of a group of average size may be off, by that and by its
            number of values; of a statement's, the widest of the bars that were asked for, as far as scales
            tell it.
        questions: of a statement's sums, how many questions have sums of their own; 0 for sums by the cells
            of a scope.
        estimated: of a statement's sums, whether nothing released says that some groups have records, so that
            the price takes the model's number; None of anything else.
        what: would be measured; None where nothing need be, and of a quote that was paid before.
    """

    measured: str
    scope: tuple[str, ...]
    cells: int
    noise: NoiseDistribution | None
    share: float
    half_width: float
    affordable: bool
    summed: SummedValues | None = None
    mean_half_width: float = 0.0
    questions: int = 0
    estimated: bool | None = None
    what: Measurable | None = field(default=None, compare=False, repr=False, metadata={"form": False})

    @property
    def of_questions(self) -> bool:
        """Whether questions themselves are measured, and no table of counts."""
        return self.measured == QuestionNumbers.measured

    @property
    def counted(self) -> bool:
        """Whether the number of values is measured beside each sum."""
        return self.summed is not None and bool(self.summed.count_units)

    @property
    def squared(self) -> bool:
        """Whether the squares are summed too."""
        return self.summed is not None and self.summed.squared

    @property
    def needed(self) -> bool:
        """Whether anything need be measured."""
        return self.noise is not None

    def sentence(self, domain: Domain, confidence: float, *, measured: bool = False) -> str:
        """Return the price, or what was paid, and the error bar in words."""
        if not self.needed:
            return "The bar is narrow enough as it is; nothing need be measured."
        what, each, unit = self._words()
        bar = f"{each}within ± {number(self.half_width)}{unit} at {confidence:.0%} confidence"
        if self.summed is not None:
            grid = next(grid for grid in domain.grids if grid.attribute == self.summed.attribute)
            size = "of a group of average size" if self.scope else "of everybody"
            bar += f", values between {number(grid.minimum)} and {number(grid.maximum)}; the mean {size} "
            bar += f"is off by {number(self.mean_half_width)} at most"
        if measured:
            return f"Measured {what} for {self.share:.2%} of the budget: {bar}."
        room = "" if self.affordable else "; so much is not left"
        return f"Measuring {what} would cost {self.share:.2%} of the budget: {bar}{room}."

    def _words(self) -> tuple[str, str, str]:
        by, size = ", ".join(self.scope), counted(cell_count(self.cells), "cell")
        groups = f" by {by} ({size})" if by else ""
        if self.summed is not None:
            beside = " with the numbers of values" if self.counted else ""
            beside += " and the sums of squares" if self.squared else ""
            return f"the sum{'s' if by else ''} of {self.summed.attribute}{groups}{beside}", "each ", ""
        if self.measured == PersonNumbers.measured:
            return f"the number of persons{groups}", "each " if by else "", " persons"
        about = by or "everybody"
        if self.of_questions:
            return f"{counted(cell_count(self.cells), 'count')} by {about}", "each count ", " records"
        return f"{about} ({size})", "each cell ", " records"

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        of_sums, name = self.measured == SumNumbers.measured, self.summed and self.summed.attribute
        return {
            **({"heads": True} if self.measured == PersonNumbers.measured else {}),
            **({"sum": name} if of_sums else {}),
            "scope": list(self.scope),
            "cells": self.cells,
            **({"counted": self.counted, "squared": self.squared} if of_sums else {}),
            "share": self.share,
            "half_width": self.half_width,
            **({"mean_half_width": self.mean_half_width} if of_sums else {}),
            "affordable": self.affordable,
            **({"questions": self.cells} if self.of_questions else {}),
            **({} if self.estimated is None else {"questions": self.questions, "estimated": self.estimated}),
        }


def quote_of(
    state: PublicState,
    what: Measurable,
    cells: int,
    noise: NoiseDistribution,
    half_width: float,
    mean_half_width: float = 0.0,
) -> Quote:
    """Return the price of what would be measured, under some noise; see ``Quote``."""
    price = state.ledger.price(what.charge(noise, state.contract.options))
    share, affordable = float(price / state.ledger.cap), price <= affordable_price(state)
    summed = plain(what.summed) if isinstance(what, SumNumbers) else None
    known = (what.measured, what.scope, cells, noise, share, half_width, affordable)
    return Quote(*known, summed, mean_half_width, what=what)


def plain(summed: SummedValues) -> SummedValues:
    """Return which sums are measured, without the questions that have them."""
    if not summed.rows:
        return summed
    return SummedValues(
        summed.attribute, summed.scope, clipped=summed.clipped, count_units=summed.count_units
    )


def nothing_needed(kind: type[Measurable], scope: tuple[str, ...], cells: int, half_width: float) -> Quote:
    """Return the price of a bar that is as narrow already: none."""
    return Quote(kind.measured, scope, cells, None, 0.0, half_width, affordable=True)


def quote_marginal(state: PublicState, names: Sequence[str]) -> Quote:
    """Return the price of a marginal under the noise that a positive's has."""
    plan = measuring_plan(state)
    scope = asked_scope(state.domain, names)
    if not scope:
        raise _refused("expected one attribute or several, each once")
    _require_few_cells(state, plan, scope)
    return quote_noise(state, scope, plan.noise_of(scope))


def measuring(place: str | None, scope: Sequence[str], summed: str = "") -> str:
    """Return how counts by attributes are measured, or what tells the price of sums by them.

    It is a command, or where the session has no file or address to name, ``place``, a call in Python.
    """
    names, given = list(scope), shlex.quote(",".join(scope))
    if place is None:
        sums = f"session.measure_sum({summed!r}, {names!r}, dry_run=True)"
        return sums if summed else f"session.measure({names!r})"
    by = f" --by {given}" if scope else ""
    what = f"--sum {shlex.quote(summed)}{by} --dry-run" if summed else given
    return f"pmw measure {shlex.quote(place)} {what}"


def way_to_bars(state: PublicState, scope: tuple[str, ...], place: str | None) -> str:
    """Return why numbers over a scope have no promise, and what measuring it costs, once; a clause."""
    told = _HELD_BY[holding_of(state, scope)].format(", ".join(scope) or "all records")
    if any(one.requested and set(scope) <= set(one.scope) for one in state.marginals):
        return told
    try:
        quote = quote_marginal(state, scope)
    except (QueryError, SessionError) as refusal:
        return f"{told}; {refusal}"
    left = "" if quote.affordable else ", and so much is not left"
    return f"{told}: {measuring(place, scope)} costs {quote.share:.1%} of the budget{left}"


def quote_noise(state: PublicState, scope: tuple[str, ...], noise: NoiseDistribution) -> Quote:
    """Return the price of a marginal under some noise, and the bar of one of its cells after it."""
    first = cell_question(state, scope, (0,) * len(scope), state.grid(scope))
    return _quote(state, scope, noise, _half_width(state, scope, first, noise))


def quote_question(state: PublicState, query: LinearQuery, within: float) -> Quote:
    """Return the smallest price at which the bar of a question is at most so many records.

    The noise has the largest whole number of units as its scale that gives such a bar: its charge is exact.

    Args:
        within: half-width of the bar that is wanted, in records.
    """
    within = Within.records(within)
    scope, present = query.scope, present_half_width(state, query)
    if present is not None and present <= within:
        cells = state.grid(scope).scope_size(scope) if scope else 1
        return nothing_needed(CellNumbers, scope, cells, present)
    plan = measuring_plan(state)
    if not scope:
        raise _refused("no marginal is narrower than the number of records, which was released at opening")
    _require_few_cells(state, plan, scope)
    binned = state.grid(scope) is not state.domain and not state.coarsening.is_aligned(query)
    if binned or math.isinf(_half_width(state, scope, query, plan.noise)):
        raise _refused(
            f"no price gives the question such a bar: it cuts cells, or bins of them that the marginal of "
            f"{', '.join(scope)} is measured on"
        )
    noise = widest_noise(state.ledger, lambda noise: _half_width(state, scope, query, noise) <= within)
    if noise is None:
        raise _refused(f"no measurement has a bar of {within:g} records; ask for a wider one")
    return _quote(state, scope, noise, _half_width(state, scope, query, noise))


def affordable_price(state: PublicState) -> Fraction:
    """Return the most that a requested marginal may cost.

    That is what is left, but for what open rounds reserved, and for what the pot of parts holds.
    """
    held = reserved_by_rounds(state.plan, state.rounds, state.contract.options, state.ledger)
    return max(state.ledger.remaining - held - left_for_parts(state), Fraction(0))


def require_affordable(state: PublicState, what: Measurable, noise: NoiseDistribution) -> None:
    """Refuse a requested measurement whose price is not left. It depends on public state alone."""
    price = state.ledger.price(what.charge(noise, state.contract.options))
    most = affordable_price(state)
    if price > most:
        cap = state.ledger.cap
        raise BudgetExhaustedError(
            f"measuring {what.title.format(what.label)} costs {float(price / cap):.3%} of the budget, and "
            f"{float(most / cap):.3%} is left for it; nothing was spent"
        )


def _quote(state: PublicState, scope: tuple[str, ...], noise: NoiseDistribution, width: float) -> Quote:
    what = CellNumbers(scope, strategy_of(state, scope))
    return quote_of(state, what, state.grid(scope).scope_size(scope), noise, width)


def measuring_plan(state: PublicState) -> MarginalTestPlan:
    """Return the tier of marginals of a session that measures on request."""
    require_measuring(state)
    plan = marginal_tier(state.plan)
    if plan is None:
        raise SessionError("opening measured all that the session measures; nothing is left for a marginal")
    return plan


def require_measuring(state: PublicState) -> None:
    """Refuse a session that measures nothing on request."""
    options = state.contract.options
    _require_open(state)
    if not options.tests_marginals:
        raise SessionError(
            "the session tests single questions, and answers none from a marginal on request; "
            "open one that tests marginals (--test marginal)"
        )
    if options.simultaneous:
        raise SessionError(
            "the error bars of the session hold for all questions at once, and each planned measurement has "
            "its part of them: there is none for a measurement on request"
        )


def require_apart(state: PublicState, kind: type[Measurable], what: str, cells: int) -> None:
    """Refuse what is measured apart from the model in a session that measures none of it."""
    _require_open(state)
    if not state.contract.options.measures_apart:
        raise SessionError(
            f"the session measures no {kind.kind}: its bars hold for all questions at once, keep an "
            "accuracy, or rest on tests of single questions"
        )
    if cells > MOST_APART:
        raise QueryError(
            f"{what} need {cell_count(cells)} cells, at most {MOST_APART:,} fit; group by fewer attributes",
            code="too_large",
        )


def _require_open(state: PublicState) -> None:
    if state.closed:
        raise SessionError("the session is closed: nothing is measured any more")


def asked_scope(domain: Domain, names: Sequence[str]) -> tuple[str, ...]:
    """Return the attributes that somebody names, in declared order."""
    for name in names:
        if name not in domain.names:
            known = ", ".join(domain.names)
            raise QueryError(f"expected an attribute of the schema, got {name!r}; there are {known}",
                             code="unknown_attribute", position="scope")  # fmt: skip
    if len(set(names)) != len(names):
        raise _refused("expected one attribute or several, each once")
    return domain.scope(names)


def _require_few_cells(state: PublicState, plan: MarginalTestPlan, scope: tuple[str, ...]) -> None:
    cells = state.grid(scope).scope_size(scope)
    if cells > plan.most_cells:
        raise QueryError(
            f"the marginal of {', '.join(scope)} has {cell_count(cells)} cells, and noise would hide "
            f"what is in more than {plan.most_cells:,}; ask for fewer attributes",
            code="too_large",
        )


def _refused(message: str) -> QueryError:
    return QueryError(message, code="bad_request")


def present_half_width(state: PublicState, query: LinearQuery, groups: int = 1) -> float | None:
    """Return the half-width of a question's bar as it is; None where no one number gives both of its ends.

    It depends on scales alone: what is kept because a drawn bar is narrow, and else bought, misses more often
    than it says. So a question that cuts a bin has none, nor do parts count. Where single questions are
    tested nothing is bought, and the interval is looked at.
    """
    bars = Bars(state, groups=groups)
    if state.contract.options.tests_marginals:
        return bars.half_width(query)
    if not math.isfinite(bars.width_of_query(query)):
        return None
    interval = ModelAnswers(state).answer(query).interval
    return None if interval is None else (interval[1] - interval[0]) / 2


def _half_width(
    state: PublicState, scope: tuple[str, ...], query: LinearQuery, noise: NoiseDistribution
) -> float:
    """Return the half-width of a question's bar once a marginal was measured; infinite for none."""
    width = bars_after(state, scope, noise).half_width(query)
    return math.inf if width is None else width


def bars_after(
    state: PublicState, scope: tuple[str, ...], noise: NoiseDistribution, *, paid: bool = True
) -> Bars:
    """Return what bounds questions once a marginal was measured, as scales tell: it holds no number."""
    numbers = np.zeros(state.grid(scope).scope_shape(scope), dtype=np.int64)
    later = measured_as(scope, numbers, noise, strategy_of(state, scope), requested=True)
    later = founded(state, later)
    return Bars(replace(state, measured=(*state.measured, later)), paid=paid)


def widest_noise(
    ledger: PrivacyFilter, fits: Callable[[NoiseDistribution], bool]
) -> NoiseDistribution | None:
    """Return the widest noise that fits, a whole number of units in scale; None where none does."""

    def noise(scale: int) -> NoiseDistribution:
        pure = ledger.composition is Composition.PURE
        return DiscreteLaplace(Fraction(scale)) if pure else DiscreteGaussian(Fraction(scale))

    least = LEAST_SIGMA - 1 if ledger.composition is Composition.GDP else 0  # below, no price
    low, high = least, _WIDEST  # low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(noise(middle)) else (low, middle)
    return noise(low) if low > least else None


def cell_question(
    state: PublicState, scope: tuple[str, ...], cells: Sequence[int], grid: Domain
) -> LinearQuery:
    """Return the question about one cell that is measured: a declared one, or a bin of them."""
    chosen: dict[str, Any] = {}
    for name, cell in zip(scope, cells, strict=True):
        bin_ = None
        if grid is not state.domain:
            bin_ = state.coarsening.bins[state.domain.index(name)]
        chosen[name] = cell if bin_ is None else np.flatnonzero(bin_ == cell)
    return LinearQuery.everything(state.domain).within(chosen)
