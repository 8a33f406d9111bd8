"""Draws: noise that a test reads off a tape, or compares with the scale that is charged for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.data import CountSource, MemorySource
from pmw.loop.loop import Settled, batch_entries, draw_tests, settle
from pmw.loop.secret import SecretState
from pmw.loop.tiers import BatchDraws, Proposal
from pmw.loop.untested import draw_opening, released_total, settle_opening
from pmw.planning.opening import open_contract, plan_opened
from pmw.privacy.budget import Budget, Charge, NeighboringRelation
from pmw.privacy.random_bits import BitSource
from pmw.public.options import Options
from pmw.public.state import PublicState
from queries import UNITS, CodedRecords, Domain

RELATIONS = list(NeighboringRelation)
MOVES = {NeighboringRelation.ADD_REMOVE: 1, NeighboringRelation.REPLACE_ONE: 2}  # records, by one of a person
_CONTINUOUS = {"laplace": stats.laplace, "norm": stats.norm, "expon": stats.expon}


class Tape(BitSource):
    """Noise in place of bits: what the next draws give, in records."""

    def __init__(self, noise: Sequence[int]) -> None:
        super().__init__(bytes(32))
        self.left = list(noise)


def read_from_tape(patch: pytest.MonkeyPatch, *distributions: type) -> list[tuple[object, int]]:
    """Let distributions read their noise from a tape; return those that were drawn from, and how often."""
    drawn: list[tuple[object, int]] = []

    def sample_array(self: object, bits: Tape, count: int) -> NDArray[np.int64]:
        drawn.append((self, count))
        taken, bits.left = bits.left[:count], bits.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.int64) * UNITS

    for distribution in distributions:
        patch.setattr(distribution, "sample_array", sample_array)
        patch.setattr(distribution, "sample", lambda self, bits: int(sample_array(self, bits, 1)[0]))
    return drawn


def coded(domain: Domain, rows: Sequence[Sequence[int]] | NDArray[np.int64]) -> MemorySource:
    """Return the source of records that are given by their cells, an attribute to a column."""
    cells = np.array(rows, dtype=np.int64).reshape(-1, len(domain)).astype(np.uint8)
    return MemorySource(CodedRecords(domain, tuple(cells.T)))


def opened_by_hand(source: MemorySource, budget: Budget, options: Options, seed: int = 1) -> PublicState:
    """Return the first state of a session, planned, drawn and settled as ``open_session`` does it."""
    contract, plan = open_contract(source.domain, budget, options)
    draws = draw_opening(plan, source, BitSource.from_integer(seed))
    after = plan_opened(contract, plan, released_total(plan, draws).value)
    return settle_opening(contract, plan, draws, after.ledger, after.test)


def carried_out(
    state: PublicState, proposal: Proposal, secret: SecretState, source: CountSource, seed: int
) -> tuple[Settled, SecretState]:
    """Return what a batch comes to, drawn, charged and settled as the engine does, and the noise kept."""
    draws = BatchDraws((), None)
    if proposal.requests:
        draws, secret = draw_tests(proposal, state.plan, secret, source, BitSource.from_integer(seed))
    ledger = state.ledger
    for entry in batch_entries(proposal, draws, state):
        ledger = ledger.charge(entry.charge)
    return settle(state, proposal, draws, ledger), secret


def charged_scale(charge: Charge, *, records: int = 1, moves: int = 1, levels: int = 1) -> tuple[float, str]:
    """Return the scale of the noise that a charge is the price of, in records, and its distribution.

    Args:
        charge: of a number, or of a marginal.
        records: of a person, all of which may share a cell.
        moves: cells that one record changes.
        levels: of a tree, in each of which it does.
    """
    if charge.epsilon is None:
        return records * math.sqrt(moves * levels / (2 * float(charge.rho))), "norm"
    return float(records * moves * levels / charge.epsilon), "laplace"


def require_scale(draws: NDArray[np.float64], scale: float, distribution: str) -> None:
    """Require that noise has a scale, in its shape and in its size, and that 30 % more or less would show.

    The size is that of a chi square: sum x^2 of normal noise, 2 sum |x| of the others, whose degrees of
    freedom are one and two to a draw.
    """
    found = np.asarray(draws, dtype=np.float64).ravel()
    normal, degrees = distribution == "norm", found.size * (1 if distribution == "norm" else 2)

    def p_value(scaled: NDArray[np.float64]) -> float:
        below = float(stats.chi2.cdf(np.sum(scaled**2 if normal else 2 * np.abs(scaled)), degrees))
        return 2 * min(below, 1 - below)

    assert stats.kstest(found / scale, _CONTINUOUS[distribution].cdf).pvalue > 1e-4
    assert p_value(found / scale) > 1e-4
    for wrong in (1 / 1.3, 1.3):
        assert p_value(found / (scale * wrong)) < 1e-5


def small_tables(cells: int, records: int) -> list[tuple[int, ...]]:
    """Return all tables of at most so many records: how many are in each cell."""
    return [t for t in itertools.product(range(records + 1), repeat=cells) if sum(t) <= records]


def neighbors(
    found: Sequence[tuple[int, ...]], relation: NeighboringRelation
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the pairs of tables that differ by a record added, or moved from one cell to another."""
    known = set(found)
    for table in found:
        for cell in range(len(table)):
            added = tuple(count + (place == cell) for place, count in enumerate(table))
            if relation is NeighboringRelation.ADD_REMOVE:
                if added in known:
                    yield table, added
                continue
            for other in range(cell):
                if table[other]:
                    yield table, tuple(count - (place == other) for place, count in enumerate(added))
