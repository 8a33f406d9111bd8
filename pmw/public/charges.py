"""Charges: what one person changes, what each event costs, and the most that a batch can charge.

Sensitivities are in units of 2^-20 records.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from pmw.errors import BudgetError
from pmw.model.strategy import Strategy
from pmw.model.value_sums import SummedValues
from pmw.privacy.budget import Charge, Composition, NeighboringRelation, gaussian_charge, pure_charge
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteLaplace, NoiseDistribution
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan, QueryTestPlan, TestPlan, TierPlan
from pmw.public.row_sensitivity import Moved, most_together, rows_sensitivity
from queries.factors import UNITS
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.model.measurement import SummedRows
    from queries.linear import LinearQuery

Parts: TypeAlias = tuple[tuple[str, Fraction], ...]  # analysts, and what part of a charge each is booked


class Event(enum.StrEnum):
    """What draws noise, and is charged, in the words of the ledger."""

    TOTAL = "total"
    MARGINAL = "marginal"
    RANGE_TREE = "hierarchical histogram"
    ROUND = "sparse vector round"
    VECTOR = "sparse vector"
    MEASUREMENT = "measurement"
    OPENING = "opening"  # a pair that is measured before any question, after the rest of opening
    REQUESTED = "requested"
    PART = "part of the reserve"  # a marginal that many questions rest on
    QUANTILE = "error quantile"
    SUM = "sum of values"
    PERSONS = "number of persons"
    ROWS = "questions"
    SELECTION = "selection"
    ABANDONED = "abandoned batch"


WHOLE = (("", Fraction(1)),)  # booked to the session itself


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One charge, what it paid for, and whom it is booked to.

    Args:
        event: what drew noise.
        charge: the price.
        booked: analysts and their parts of the charge, by name; an empty name is the session itself. The
            parts are positive and their sum is 1, exactly.
    """

    event: str
    label: str
    charge: Charge
    booked: Parts = WHOLE

    def __post_init__(self) -> None:
        parts, names = [part for _, part in self.booked], [name for name, _ in self.booked]
        if sum(parts) != 1 or min(parts, default=0) <= 0 or names != sorted(set(names)):
            raise BudgetError("expected parts of a charge by name, each above 0, with the sum 1; got others")


def query_sensitivity(options: Options) -> int:
    """Return how much one person changes a query's answer, in units: weights lie in [0, 1]."""
    return options.records_per_person * UNITS


def l1_sensitivity(options: Options) -> int:
    """Return how much one person changes a marginal in L1, in units.

    Under replace-one a record leaves one cell and enters another. A hierarchical histogram moves by as much
    at each of its levels.
    """
    moves = 1 if options.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
    return moves * options.records_per_person * UNITS


def l2_squared_sensitivity(options: Options) -> Fraction:
    """Return the square of how much one person changes a marginal in L2, in squared units.

    A person's k records may share a cell: k^2 under add/remove, 2 k^2 under replace-one.
    """
    moves = 1 if options.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
    return Fraction(moves * (options.records_per_person * UNITS) ** 2)


# --- what no test decides ----------------------------------------------------------------------------------


class Numbers(ABC):
    """What can be measured without a test, under whatever noise.

    Attributes:
        event: in the words of the ledger.
        kind: of the batch, and of the measurement that comes of it, in a session's file.
        measured: in the words of quotes.
        abandoned: in the words of the ledger, where the batch was never finished.
        title: of the label, where one is refused.
    """

    __slots__ = ()
    event: ClassVar[Event]
    kind: ClassVar[str]
    measured: ClassVar[str]
    abandoned: ClassVar[str]
    title: ClassVar[str] = "{}"

    @property
    @abstractmethod
    def label(self) -> str:
        """What the ledger calls it."""

    @abstractmethod
    def sensitivity(self, options: Options) -> Moved:
        """Return how much one person changes all of its numbers, in units."""

    def charge(self, noise: NoiseDistribution, options: Options) -> Charge:
        """Return its price as one event, under noise in units; on rows, that of cells of the same price."""
        return charge_of(self.sensitivity(options), noise)

    def entry(self, noise: NoiseDistribution, options: Options) -> LedgerEntry:
        """Return what is charged for it; see ``charge``."""
        return LedgerEntry(self.event, self.label, self.charge(noise, options))


@dataclass(frozen=True, slots=True)
class CellNumbers(Numbers):
    """The records of each cell of a marginal, which cost what they do at a positive, without a test.

    Args:
        scope: attribute names in declared order.
        strategy: the rows that are measured; None for the cells. They cost the same.
    """

    scope: tuple[str, ...]
    strategy: Strategy | None = None
    event = Event.REQUESTED
    kind = "requested"
    measured = "counts"
    abandoned = "a requested marginal"

    @property
    def label(self) -> str:
        return ", ".join(self.scope)

    def sensitivity(self, options: Options) -> Moved:
        return Moved(l1_sensitivity(options), int(l2_squared_sensitivity(options)))


@dataclass(frozen=True, slots=True)
class QuestionNumbers(Numbers):
    """The answers to a list of questions; a person moves all of them together.

    Args:
        queries: each once; some record changes one of them.
    """

    queries: tuple[LinearQuery, ...]
    event = Event.ROWS
    kind = measured = "questions"
    abandoned = "requested questions"

    @property
    def scope(self) -> tuple[str, ...]:
        """The attributes that they are about, in declared order."""
        names = {name for query in self.queries for name in query.scope}
        return self.queries[0].domain.scope(list(names)) if self.queries else ()

    @property
    def label(self) -> str:
        """One question in words, several by what they are about."""
        if len(self.queries) == 1:
            return self.queries[0].describe()
        names = {name: None for query in self.queries for name in query.scope}
        return f"{len(self.queries):,} by {', '.join(names)}"

    def sensitivity(self, options: Options) -> Moved:
        persons = any(query.domain.person is not None for query in self.queries[:1])
        return rows_sensitivity(self.queries, options, persons=persons)


@dataclass(frozen=True, slots=True)
class SumNumbers(Numbers):
    """Sums of values, and what is measured with them."""

    summed: SummedValues | SummedRows
    event = Event.SUM
    kind = "sums of values"
    measured = "sums"
    abandoned = "requested sums of values"
    title = "the sums of {}"

    @property
    def scope(self) -> tuple[str, ...]:
        """By whose values they are."""
        return self.summed.scope

    @property
    def label(self) -> str:
        if self.summed.rows:
            return f"{self.summed.attribute} of {QuestionNumbers(self.summed.rows).label}"
        by = ", ".join(self.scope)
        return f"{self.summed.attribute} by {by}" if by else self.summed.attribute

    def sensitivity(self, options: Options) -> Moved:
        """Return how much one person changes sums of values, and what is measured beside them, in units.

        A record adds x to a sum, t to the number of values and z to the squares of one cell: x between -U and
        U, z between 0 and U = 2^20, t = ``count_units``. So K records that are added or removed move the
        numbers by K (U + t + U) at most in L1, and by K root of U^2 + t^2 + U^2 in L2: all of them may share
        a cell. Where they are replaced, L1 doubles. The square of the L2 distance is convex in what each
        person adds, so it is largest where all records of either are alike: in two cells it is
        K^2 (2 U^2 + 2 t^2 + 2 U^2); in one the numbers of values are equal and it is 4 K^2 U^2, from one end
        to the other, whose squares are equal: the sum moves by d U and the squares by at most d (2 - d) U,
        d <= 2, and d^2 (1 + (2 - d)^2) <= 4. (Rounding down moves each by one unit at most, which 2 t^2 is
        more than.)

        Where the values of a person are clipped, all of them add U at most to the sums, whatever K is, K t to
        the numbers of values; replaced, the sums move by 2 U, the numbers by two vectors of length K t at
        most.

        Over the rows of a list, a record adds these numbers to those of m rows, all that count it: m times as
        much in L1, and root of m times in L2. So much move K records that are added or removed, by the
        triangle inequality, and the clipped values of a person, whose steps add up to U over all records.
        Replaced, the L2 distance is largest where all records of either are alike, as above. Let one add v to
        a rows and the other v' to b rows, c of them the same: its square is a |v|^2 + b |v'|^2 - 2c v v'. It
        grows with a and b up to m; in c it is linear, so that it is largest where the rows are the same,
        m |v - v'|^2, or all others, m (|v|^2 + |v'|^2): m times what is said of one cell and of two.
        """
        summed, records = self.summed, options.records_per_person
        rows = most_together(summed.rows) if summed.rows else 1
        alone, counted = (1 if summed.clipped else records) * UNITS, records * summed.count_units
        squared = records * UNITS * summed.squared
        if options.neighboring_relation is NeighboringRelation.ADD_REMOVE:
            return Moved(rows * (alone + counted + squared), rows * (alone**2 + counted**2 + squared**2))
        if summed.clipped:
            return Moved(2 * rows * (alone + counted), rows * (4 * alone**2 + 2 * counted**2))
        most = max(4 * alone**2, 2 * (alone**2 + counted**2 + squared**2))
        return Moved(2 * rows * (alone + counted + squared), rows * most)


@dataclass(frozen=True, slots=True)
class PersonNumbers(Numbers):
    """Numbers of persons, each of which counts once in a cell.

    Args:
        scope: attribute names in declared order; none for one number of all persons.
    """

    scope: tuple[str, ...]
    cells: int
    event = Event.PERSONS
    kind = "numbers of persons"
    measured = "persons"
    abandoned = "requested numbers of persons"
    title = "the numbers of persons {}"

    @property
    def label(self) -> str:
        return f"by {', '.join(self.scope)}" if self.scope else "everybody"

    def sensitivity(self, options: Options) -> Moved:
        """Return how much one person changes numbers of persons by groups, in units.

        A person is in at most m = min(K, groups) of them, and counts once in each. So m numbers change by 1
        where a person comes or goes. Where one takes the place of another, only the groups that one of them
        is in and the other is not change, by 1 each: 2m at most, and no more than there are. Each changes by
        1, so this is the square of the L2 sensitivity, too.
        """
        most = min(options.records_per_person, self.cells)
        moved = min(2 * most, self.cells) if options.replaces else most
        return Moved(moved * UNITS, moved * UNITS**2)


Measurable: TypeAlias = CellNumbers | QuestionNumbers | SumNumbers | PersonNumbers
MEASURABLE: tuple[type[Measurable], ...] = (CellNumbers, QuestionNumbers, SumNumbers, PersonNumbers)


def charge_of(moved: Moved, noise: NoiseDistribution) -> Charge:
    """Return the price of numbers under independent noise on each, as much as one person moves them."""
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(moved.l1 / noise.scale)
    return gaussian_charge(Fraction(moved.l2_squared), noise.sigma)


def number_charge(noise: NoiseDistribution, options: Options) -> Charge:
    """Return the price of one number under noise that moves as a question's answer does."""
    moved = query_sensitivity(options)
    return charge_of(Moved(moved, moved**2), noise)


def marginal_charge(noise: NoiseDistribution, options: Options, levels: int = 1) -> Charge:
    """Return the price of a whole marginal under noise, or of a tree of so many levels."""
    moved = CellNumbers(()).sensitivity(options)
    return charge_of(Moved(levels * moved.l1, levels * moved.l2_squared), noise)


def opening_entries(plan: OpeningPlan, options: Options) -> tuple[LedgerEntry, ...]:
    """Return what opening charges: a marginal is one event, since a record is in one of its cells.

    A hierarchical histogram is one event too: a record is in one node of each of its h levels, so one person
    moves its nodes by h times as much in L1 as the cells, and by sqrt(h) times as much in L2.
    """
    entries = []
    if plan.total_noise is not None:
        entries.append(
            LedgerEntry(Event.TOTAL, "number of records", number_charge(plan.total_noise, options))
        )
    for name, noise in plan.marginal_noise.items():
        event = Event.RANGE_TREE if name in plan.trees else Event.MARGINAL
        entries.append(LedgerEntry(event, name, marginal_charge(noise, options, plan.levels(name))))
    if plan.table_noise is not None:
        entries.append(
            LedgerEntry(Event.MARGINAL, "the whole table", marginal_charge(plan.table_noise, options))
        )
    entries += [SumNumbers(one).entry(noise, options) for one, noise in plan.sums]
    return tuple(entries)


# --- what tests charge -------------------------------------------------------------------------------------


def threshold_entry(tier: TierPlan, place: int, composition: Composition) -> LedgerEntry:
    """Return what drawing threshold noise charges: a whole round, or a whole vector that is not redrawn."""
    event = Event.ROUND if tier.sparse.redraw else Event.VECTOR
    label = f"threshold noise drawn for single {tier.tested}" if place else "threshold noise drawn"
    return LedgerEntry(event, label, tier.sparse.charges(composition)[0])


def positive_entry(tier: TierPlan, options: Options, composition: Composition, label: str) -> LedgerEntry:
    """Return what a positive charges with what it measures: a value, or a marginal, whatever its scope."""
    if isinstance(tier, QueryTestPlan):
        event, measured = Event.MEASUREMENT, tier.vector.value_charge
    else:
        event, measured = Event.MARGINAL, marginal_charge(tier.noise, options)
    return LedgerEntry(event, label, tier.sparse.charges(composition)[1] + measured)


def quantile_entry(kind: str, noise: NoiseDistribution, options: Options) -> LedgerEntry:
    """Return what a quantile of answers' errors charges; it moves as one answer does."""
    return LedgerEntry(Event.QUANTILE, kind, number_charge(noise, options))


def reservation(tier: TierPlan, options: Options, composition: Composition, *, round_open: bool) -> Charge:
    """Return the most that a batch can charge: threshold noise, unless it is drawn, and one positive."""
    positive = positive_entry(tier, options, composition, "").charge
    return positive if round_open else threshold_entry(tier, 0, composition).charge + positive


def price_of_positives(
    tier: TierPlan, positives: int, options: Options, ledger: PrivacyFilter, *, round_open: bool
) -> Fraction:
    """Return what positives charge with the threshold noise of their rounds, in the filter's measure."""
    positive = positive_entry(tier, options, ledger.composition, "").charge
    threshold = threshold_entry(tier, 0, ledger.composition).charge
    rounds = (positives if tier.sparse.redraw else 1) - round_open
    return positives * ledger.price(positive) + rounds * ledger.price(threshold)


def reserved_by_rounds(
    plan: TestPlan, rounds: Sequence[bool], options: Options, ledger: PrivacyFilter
) -> Fraction:
    """Return what open rounds still have reserved: one positive each, in the filter's own measure.

    Their threshold noise is paid; without the price of a positive they could not test any more.
    """
    held = (tier for tier, is_open in zip(plan, rounds, strict=True) if is_open)
    prices = (reservation(tier, options, ledger.composition, round_open=True) for tier in held)
    return sum(map(ledger.price, prices), Fraction(0))


def abandoned_entry(reserved: Charge, what: str = "tests") -> LedgerEntry:
    """Return what a batch charges that is never finished: all that was reserved for it."""
    label = "reserved" if what == "tests" else f"reserved for {what}"
    return LedgerEntry(Event.ABANDONED, f"{label}; nothing was released", reserved)


def charged(ledger: PrivacyFilter, entries: Sequence[LedgerEntry]) -> PrivacyFilter:
    """Return a filter after charges."""
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    return ledger
