"""Drafts of a schema from the table itself, by privacy: ends of a number's values, and the keys of a column.

Ends: the records are counted by powers of two: one bin for each exponent from -20 to 63 and each sign, and
one for what lies nearer to 0. The bins are fixed, and each count gets noise of its own. What is chosen is a
function of the noisy counts.

Keys: persons are counted by the texts of a column. Each text that somebody holds gets noise of its own, and
those that pass a threshold are told. Who is the only one to hold a text is seen with a small probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.data import Table, as_source
from pmw.data.keys import key_holders
from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource, fresh_seed
from pmw.privacy.tail_bounds import least_reach, sum_half_width
from pmw.public.options import DraftCharge
from pmw.session.store.draft_file import record_charge
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass
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
        records_per_person: the most records of one person, K.
        person_column: the column of ids by which K is kept; None where K is promised.
        delta: of this draft alone; keys need one.
    """

    epsilon: Fraction
    neighboring_relation: NeighboringRelation
    records_per_person: int = 1
    person_column: str | None = None
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)
        if self.records_per_person < 1:
            raise BudgetError("expected one record per person or more")

    @property
    def person(self) -> Person | None:
        """What tells which records belong to one person; None where K is promised."""
        return None if self.person_column is None else Person(self.person_column, self.records_per_person)

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise of each number of records, or of persons by key, in units.

        One person moves them by K together in L1 under add/remove, by 2K under replace-one.
        """
        moves = 1 if self.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
        moved = moves * self.records_per_person * UNITS
        return DiscreteLaplace(Fraction(math.ceil(moved / self.epsilon)))

    @property
    def threshold(self) -> int:
        """The least number of persons, T, that the noisy count of a key has to reach; it is public.

        It is the least that a key of one person reaches with probability delta/K at most.
        """
        if not self.delta:
            raise BudgetError(
                "keys need a delta above 0: with some probability one is told that a single person holds"
            )
        if self.person_column is None and self.records_per_person > 1:
            raise BudgetError(
                "keys are counted by persons; name the column of ids (--person-column), by which "
                f"{self.records_per_person} records of each are known"
            )
        return 1 + -(-least_reach(self.noise, self.delta / self.records_per_person) // UNITS)

    def charge(self, what: str) -> DraftCharge:
        """Return what a draft is charged."""
        return DraftCharge(
            what,
            self.neighboring_relation,
            self.records_per_person,
            self.person_column,
            self.epsilon,
            self.delta,
        )


@dataclass(frozen=True, slots=True)
class DraftedEnds:
    """Ends of an attribute's values.

    Args:
        low, high: powers of two, or their opposites, or 0; None where noise alone would choose them.
        records: about how many records hold a number, noisy.
        most_clipped: no more of them are beyond the ends, at ``CONFIDENCE``.
        needed: so many records between two powers of two are told from noise, at ``CONFIDENCE``.
        charge: what it cost.
    """

    attribute: str
    low: float | None
    high: float | None
    records: float
    most_clipped: float
    needed: float
    charge: DraftCharge

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        names = ("attribute", "low", "high", "records", "most_clipped", "needed")
        form = {name: getattr(self, name) for name in names}
        return {**form, "confidence": CONFIDENCE, "epsilon": float(self.charge.epsilon)}


@dataclass(frozen=True, slots=True)
class DraftedKeys:
    """Keys of a column that enough persons hold; all else is ``other``.

    Args:
        keys: different texts, sorted; none where no noisy count reached the threshold.
        charge: what it cost.
    """

    attribute: str
    keys: tuple[str, ...]
    threshold: int
    charge: DraftCharge

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "attribute": self.attribute,
            "values": list(self.keys),
            "threshold": self.threshold,
            "epsilon": float(self.charge.epsilon),
            "delta": float(self.charge.delta),
        }


def draft_bounds(table: Table, attribute: str, terms: DraftTerms, path: Path) -> DraftedEnds:
    """Return ends of an attribute's values that about 1 % of the records are beyond; no more is promised.

    Args:
        path: the file of drafts, which takes in the charge before anything is drawn.

    Privacy: epsilon of ``terms``, delta 0, in its relation. The bins are fixed, a record is in one of them,
        and each has discrete Laplace noise of scale K/epsilon (2K/epsilon replaced): Dwork and Roth 2014,
        Theorem 3.6. Ends and bound are functions of the noisy counts.
    """
    numbers = NumericAttribute(attribute, EDGES, missing=True, other=True)
    domain = Domain((numbers,), name="draft", person=terms.person)
    source = as_source(table, domain, _key_of(terms))
    counts = source.counts((attribute,)).counts
    charge, noise = terms.charge(f"ends of {attribute}"), terms.noise
    record_charge(path, charge)
    units = noisy_counts(counts, noise, BitSource(fresh_seed()))
    return chosen_ends(attribute, units[: len(EDGES) - 1], charge, noise)


def draft_keys(table: Table, attribute: str, terms: DraftTerms, path: Path) -> DraftedKeys:
    """Return the keys of a column of texts that about T persons hold, or more.

    Args:
        table: the table; its records are read here.
        path: the file of drafts, which takes in the charge before anything is drawn.

    Privacy: epsilon and delta of ``terms``, in its relation. Each person gives at most K keys, chosen by this
        person's keys alone (``pmw.data.keys``); each key that is given has discrete Laplace noise Z of scale
        K/epsilon (2K/epsilon replaced), and is told if its number of persons and Z come to T. T is public,
        with q = P(1 + Z >= T) <= delta/K. Let x keys be given in D alone of two neighbours D and D', y in D'
        alone. One person gives each of them, so x, y <= K, and x = 0 or y = 0 under add/remove. Numbers of
        the keys that both give differ by K - x - y in L1 at most, 2K - x - y replaced: which of these keys
        are told has probabilities a and a' in any set of outcomes, and a <= e^epsilon a'. None of the x keys
        is told with probability p >= 1 - x q, none of the y with p' >= 1 - y q. For any set S of outcomes,
        P(M(D) in S) <= p a + 1 - p and P(M(D') in S) >= p' a', a and a' those of S without such keys. So
        P(M(D) in S) - e^epsilon P(M(D') in S) <= 1 - p + a (p - p'), which is 1 - p at a = 0, 1 - p' at
        a = 1, and between these elsewhere: at most max(x, y) q <= K q <= delta. So delta/K is enough under
        replace-one too, where K keys may come and K others go: the two do not add up.

    Source: Korolova, Kenthapadi, Mishra and Ntoulas (2009) for a threshold on noisy counts of users; the
        proof for both relations is above.
    """
    threshold, noise = terms.threshold, terms.noise
    holders = key_holders(table, attribute, terms.person, _key_of(terms))
    charge = terms.charge(f"keys of {attribute}")
    record_charge(path, charge)
    units = noisy_counts(holders.persons, noise, BitSource(fresh_seed()))
    return DraftedKeys(attribute, passing_keys(holders.keys, units, threshold), threshold, charge)


def _key_of(terms: DraftTerms) -> bytes | None:
    """Return fresh bytes that choose which records, or keys, of a person count; None without persons."""
    return None if terms.person_column is None else fresh_seed()


def noisy_counts(counts: NDArray[np.int64], noise: DiscreteLaplace, bits: BitSource) -> NDArray[np.int64]:
    """Return counts in units, each with noise of its own.

    Privacy: ``counts`` are secret; costs what ``DraftTerms`` says.
    """
    return counts * UNITS + noise.sample_array(bits, counts.size)


def passing_keys(keys: Sequence[str], units: NDArray[np.int64], threshold: int) -> tuple[str, ...]:
    """Return the keys whose noisy counts reach a threshold, sorted: their order tells nothing else.

    Args:
        units: int64, shape (keys,): their noisy counts.
    """
    return tuple(sorted(keys[place] for place in np.flatnonzero(units >= threshold * UNITS).tolist()))


def chosen_ends(
    attribute: str, units: NDArray[np.int64], charge: DraftCharge, noise: DiscreteLaplace
) -> DraftedEnds:
    """Return the narrowest ends beyond which, by noisy counts, half of the aim lies on either side.

    Far out most bins are empty, and their noise adds up. So the outermost bins are looked for that noise
    alone makes once in a hundred drafts, and those next to them that are above its scale; what lies beyond
    counts for nothing in the choice. Where there is no such bin, the ends would be noise: none are told.
    How many are beyond is bounded by all bins, for every end at once.

    Args:
        units: int64, shape (bins,): the noisy counts between ``EDGES``.
        charge: what they cost.
        noise: on each of them.
    """
    counts, scale = units / UNITS, float(noise.scale) / UNITS
    least = scale * math.log(len(counts) / (2 * _FALSE))
    needed = least - scale * math.log(2 * (1 - CONFIDENCE))
    sure = np.flatnonzero(counts > least)
    if not sure.size:
        about = max(float(counts.sum()), 0.0)
        return DraftedEnds(attribute, None, None, about, _most(counts, noise), needed, charge)
    first, last = int(sure[0]), int(sure[-1])
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
    return DraftedEnds(attribute, EDGES[low], EDGES[high], float(held.sum()), clipped, needed, charge)


def _most(counts: NDArray[np.float64], noise: DiscreteLaplace) -> float:
    """Return what the records of bins are no more than, for every end of either side at once."""
    if not counts.size:
        return 0.0
    each = 1 - (1 - CONFIDENCE) / (2 * len(EDGES))
    return max(float(counts.sum()) + sum_half_width(noise, float(counts.size), each, peak=1.0), 0.0)
