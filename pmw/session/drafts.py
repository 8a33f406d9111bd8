"""Drafts of a schema from the table itself, by privacy: the ends of a number's values.

The records are counted by powers of two: one bin for each exponent from -20 to 63 and each sign, and one for
what lies nearer to 0. The bins are fixed, and each count gets noise of its own. What is chosen is a function
of the noisy counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.data import Table, as_source
from pmw.errors import BudgetError
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource, fresh_seed
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.drafts import DraftCharge
from pmw.session.store import record_charge
from queries.domain import Domain
from queries.factors import UNITS
from queries.numbers import NumericAttribute
from queries.person import Person

LEAST_EXPONENT, GREATEST_EXPONENT = -20, 63
CLIPPED = 0.01  # of the records, that is aimed at
_FALSE = 0.01  # chance that noise alone makes some bin seem to hold records
CONFIDENCE = 0.95  # of what is told of the clipped records
_POSITIVE = [2.0**exponent for exponent in range(LEAST_EXPONENT, GREATEST_EXPONENT + 1)]
EDGES = (*(-edge for edge in reversed(_POSITIVE)), 0.0, *_POSITIVE)


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """Whom a draft protects, and how much.

    Args:
        epsilon: of this draft alone.
        neighboring_relation: which tables are neighbours.
        records_per_person: the most records of one person, K.
        person_column: the column of ids by which K is kept; None where K is promised.

    Raises:
        BudgetError: a number is out of range.
    """

    epsilon: Fraction
    neighboring_relation: NeighboringRelation
    records_per_person: int = 1
    person_column: str | None = None

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or self.records_per_person < 1:
            raise BudgetError("expected an epsilon above 0, and one record per person or more")

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise of each of numbers that records are counted in, each record in one: in units.

        One person moves them by K together in L1 under add/remove, by 2K under replace-one.
        """
        moves = 1 if self.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
        moved = moves * self.records_per_person * UNITS
        return DiscreteLaplace(Fraction(math.ceil(moved / self.epsilon)))

    def charge(self, what: str) -> DraftCharge:
        """Return what a draft is charged."""
        return DraftCharge(
            what,
            self.neighboring_relation,
            self.records_per_person,
            self.person_column,
            self.epsilon,
        )


@dataclass(frozen=True, slots=True)
class DraftedEnds:
    """Ends of an attribute's values.

    Args:
        attribute: its name.
        low, high: powers of two, or their opposites, or 0.
        records: about how many records hold a number, noisy.
        most_clipped: no more of them are beyond the ends, at ``CONFIDENCE``.
        charge: what it cost.
    """

    attribute: str
    low: float
    high: float
    records: float
    most_clipped: float
    charge: DraftCharge

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "attribute": self.attribute,
            "low": self.low,
            "high": self.high,
            "records": self.records,
            "most_clipped": self.most_clipped,
            "confidence": CONFIDENCE,
            "epsilon": float(self.charge.epsilon),
        }


def draft_bounds(table: Table, attribute: str, terms: DraftTerms, path: Path) -> DraftedEnds:
    """Return ends of an attribute's values that about 1 % of the records are beyond; no more is promised.

    Args:
        table: the table.
        attribute: the column of numbers.
        terms: whom it protects, and how much.
        path: the file of drafts, which takes in the charge before anything is drawn.

    Raises:
        DataError: the table cannot be read, or lacks the column; nothing is charged.
        DomainError: the column has no name that can be declared, or is that of the ids.
        StoreError: the charge could not be made durable; nothing was drawn.

    Privacy: epsilon of ``terms``, delta 0, in its relation. The bins are fixed, a record is in one of them,
        and each has discrete Laplace noise of scale K/epsilon (2K/epsilon replaced): Dwork and Roth 2014,
        Theorem 3.6. Ends and bound are functions of the noisy counts.
    """
    person = None
    if terms.person_column is not None:
        person = Person(terms.person_column, terms.records_per_person)
    numbers = NumericAttribute(attribute, EDGES, missing=True, other=True)
    domain = Domain((numbers,), name="draft", person=person)
    source = as_source(table, domain, None if person is None else fresh_seed())
    counts = source.counts((attribute,)).counts
    charge = terms.charge(f"ends of {attribute}")
    record_charge(path, charge)
    units = noisy_counts(counts, terms.noise, BitSource(fresh_seed()))
    return chosen_ends(attribute, units[: len(EDGES) - 1], charge, terms.noise)


def noisy_counts(counts: NDArray[np.int64], noise: DiscreteLaplace, bits: BitSource) -> NDArray[np.int64]:
    """Return counts in units, each with noise of its own.

    Privacy: ``counts`` are secret; costs what ``DraftTerms`` says.
    """
    return counts * UNITS + noise.sample_array(bits, counts.size)


def chosen_ends(
    attribute: str, units: NDArray[np.int64], charge: DraftCharge, noise: DiscreteLaplace
) -> DraftedEnds:
    """Return the narrowest ends beyond which, by noisy counts, half of the aim lies on either side.

    Far out most bins are empty, and their noise adds up. So the outermost bins are looked for that noise
    alone makes once in a hundred drafts, and those next to them that are above its scale; what lies beyond
    counts for nothing in the choice. How many are beyond is bounded by all bins, for every end at once.

    Args:
        attribute: its name.
        units: int64, shape (bins,): the noisy counts between ``EDGES``.
        charge: what they cost.
        noise: on each of them.
    """
    counts, scale = units / UNITS, float(noise.scale) / UNITS
    sure = np.flatnonzero(counts > scale * math.log(len(counts) / (2 * _FALSE)))
    first, last = (int(sure[0]), int(sure[-1])) if sure.size else (0, len(counts) - 1)
    while first > 0 and counts[first - 1] > scale:
        first -= 1
    while last < len(counts) - 1 and counts[last + 1] > scale:
        last += 1
    places = np.arange(len(counts))
    held = np.where((first <= places) & (places <= last), np.maximum(counts, 0.0), 0.0)
    aim = held.sum() * CLIPPED / 2
    low, high = first, last + 1
    while held[: low + 1].sum() <= aim and low < last:
        low += 1
    while held[high - 1 :].sum() <= aim and high > low + 1:
        high -= 1
    clipped = _most(counts[:low], noise) + _most(counts[high:], noise)
    return DraftedEnds(attribute, EDGES[low], EDGES[high], float(held.sum()), clipped, charge)


def _most(counts: NDArray[np.float64], noise: DiscreteLaplace) -> float:
    """Return what the records of bins are no more than, for every end of either side at once."""
    if not counts.size:
        return 0.0
    each = 1 - (1 - CONFIDENCE) / (2 * len(EDGES))
    return max(float(counts.sum()) + sum_half_width(noise, float(counts.size), each, peak=1.0), 0.0)
