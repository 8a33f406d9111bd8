"""Audits of a sparse vector of one's own: is it as private as what it charges says?

It is run on pairs of streams that neighbours may give, many times, and what the runs certify is held against
its claim: all its charges together, for all the positives that it may have. Nothing is known of it but what
``pmw.online.SparseVector`` asks for; so this finds errors of a factor of about two, in tests and in released
values, and proves nothing. Where the probabilities of outcomes are known, ``exact`` enumerates them.

Source: as ``pmw.research.audit.statistical``; streams as in Lyu, Su and Li (2017), Section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Charge, Composition, mu_squared_cap, zcdp_epsilon
from pmw.privacy.budget import as_fraction as exactly
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.research.audit.entries import Instance
from pmw.research.audit.report import Verdict
from pmw.research.audit.statistical import NOT_RUN, Draw, StatisticalFinding, alpha_of, certify
from pmw.research.online import SparseVector, State
from queries.frozen import dataclass

_FALSE_ALARM = 1e-6  # how often a sound vector may be accused
_DELTA = 1e-3  # at which runs are held against charges that pay a delta
_THRESHOLD = 2  # of the streams, in sensitivities; not 0, at which two sides together never say no
_FAR = 100  # sensitivities above the threshold, where values are measured
_MOST_TESTS = 12
_BINS = 64  # of released values on either side, each a sensitivity wide


@dataclass(frozen=True, slots=True)
class VectorFinding:
    """What runs say of one way to add up charges."""

    composition: Composition
    claimed: float  # the sum of all charges, in its measure
    delta: float  # at which runs are held against it
    certified: StatisticalFinding  # the most that any pair of streams certifies
    instance: Instance
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class VectorAudit:
    """What an audit found of a sparse vector."""

    findings: tuple[VectorFinding, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether any claim is contradicted."""
        found = {finding.verdict for finding in self.findings}
        return Verdict.VIOLATES if Verdict.VIOLATES in found else Verdict.SOUND

    def __str__(self) -> str:
        return "\n".join(
            f"{one.composition.value}: claims {one.claimed:.4g}, runs certify epsilon of "
            f"{one.certified.epsilon:.2f} or more at delta = {one.delta:g}: {one.verdict.value}"
            for one in self.findings
        )


def audit_sparse_vector(
    vector: SparseVector[State], *, runs: int = 2_000, seed: int | None = None
) -> VectorAudit:
    """Return what runs of a sparse vector certify, beside what it charges.

    Made-up values alone are tested, no table.

    Args:
        vector: the tests, of few positives and a claim of about 1 to 4: what is noisier shows little.
        seed: repeats the runs; None for fresh bits.

    Privacy: none is at stake. A sound vector is accused with probability at most 1e-6.
    """
    bits = BitSource(None if seed is None else repeatable_seed(seed, 0))
    instances = tuple(_instances(vector))
    claims = [(one, charge) for one in Composition if (charge := _claim(vector, one)) is not None]
    if not claims:
        raise BudgetError("expected a sparse vector that has a price in some composition, got none")
    alarm = alpha_of(_FALSE_ALARM, len(instances) * len(claims))
    draws = [(_kept(vector, one, one.first), _kept(vector, one, one.second)) for one in instances]
    findings = []
    for composition, claimed in claims:
        delta = 0.0 if composition is Composition.PURE else _DELTA
        found = [certify(pair, runs, alarm, bits, delta=delta) for pair in draws]
        place = max(range(len(found)), key=lambda place: found[place].epsilon)
        verdict = Verdict.VIOLATES if _contradicts(found[place], composition, claimed) else Verdict.SOUND
        findings.append(VectorFinding(composition, claimed, delta, found[place], instances[place], verdict))
    return VectorAudit(tuple(findings))


def _claim(vector: SparseVector[State], composition: Composition) -> float | None:
    """Return the sum of all charges of a run, in the measure of a composition; None without a price."""
    try:
        opening, positive = vector.charges(composition)
    except BudgetError:
        return None
    rounds = vector.update_limit if vector.redraw else 1
    parts = [(_price(opening, composition), rounds), (_price(positive, composition), vector.update_limit)]
    if any(price is None for price, _ in parts):
        return None
    return math.fsum((price or 0.0) * times for price, times in parts)


def _price(charge: Charge, composition: Composition) -> float | None:
    if composition is Composition.ZCDP:
        return float(charge.rho)
    price = charge.epsilon if composition is Composition.PURE else charge.mu_squared
    return None if price is None else float(price)


def _contradicts(certified: StatisticalFinding, composition: Composition, claimed: float) -> bool:
    """Tell whether no mechanism that keeps the claim has what was certified."""
    if not certified.epsilon:
        return False
    if composition is Composition.PURE:
        return certified.epsilon > claimed
    if composition is Composition.ZCDP:
        return certified.epsilon > zcdp_epsilon(claimed, _DELTA)
    return claimed < mu_squared_cap(exactly(certified.epsilon, "epsilon"), exactly(_DELTA, "delta"))


def _instances(vector: SparseVector[State]) -> Iterator[Instance]:
    """Yield pairs of streams that neighbours may give."""
    unit, limit = vector.sensitivity, vector.update_limit
    tests, level = min(max(2 * limit, 5), _MOST_TESTS), _THRESHOLD * unit
    back = 0 if vector.monotone else unit
    negatives = max(1, tests - limit)

    def pair(first: list[int], second: list[int]) -> Instance:
        return Instance(tuple(first), tuple(second), level, unit)

    last = tests - negatives
    yield pair([level] * tests, [level + unit] * negatives + [level - back] * last)
    yield pair([level] * tests, [level + unit] * tests)
    if not vector.monotone:
        swapped = [level, level + unit] * (tests // 2)
        yield pair(swapped, [2 * level + unit - value for value in swapped])
    far = level + _FAR * unit
    yield pair([far] * limit, [far + unit] * limit)


def _kept(vector: SparseVector[State], instance: Instance, values: tuple[int, ...]) -> Draw:
    """Return what draws the runs of a stream, once: each bound on them fails as rarely as on other runs."""
    known: list[NDArray[np.int64]] = []

    def draw(runs: int, bits: BitSource) -> NDArray[np.int64]:
        if not known:
            known.append(_drawn(vector, instance, values, runs, bits))
        return known[0]

    return draw


def _drawn(
    vector: SparseVector[State], instance: Instance, values: tuple[int, ...], runs: int, bits: BitSource
) -> NDArray[np.int64]:
    """Return what so many runs release: int64, shape (runs, tests + 1), NOT_RUN after the halt.

    Of each test its outcome, and of a positive whether its value is below the threshold; last the sum of the
    released values, in bins.
    """
    released = np.full((runs, len(values) + 1), NOT_RUN, dtype=np.int64)
    far = instance.first[0] > instance.threshold + instance.sensitivity
    for run in range(runs):
        state, positives, total = vector.open(bits), 0, 0
        for place, value in enumerate(values):
            state, outcome, measured = vector.step(state, value, instance.threshold, bits)
            released[run, place] = 2 * outcome
            if outcome:
                positives += 1
                number = 0 if measured is None else measured
                released[run, place] += number < instance.threshold
                total += number - instance.first[0]
                if positives >= vector.update_limit:
                    break
        if far:  # elsewhere so many different outputs would hide what outcomes tell
            released[run, -1] = max(-_BINS, min(_BINS, total // instance.sensitivity))
    return released
