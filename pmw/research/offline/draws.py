"""The private side of a round: one choice by the exponential mechanism, and one measurement.

A draw is a function of a public proposal, the table and 32 bytes expanded in a fixed order, in exact
integers: the model is rounded to the grid before it meets a true count.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pmw.data import CountSource
from pmw.errors import DataError
from pmw.model import MarginalMeasurement, QueryMeasurement
from pmw.privacy.random_bits import BitSource
from pmw.research.offline.rounds import MarginalRound, QueryRound, expected_noise
from queries.factors import UNITS
from queries.linear import LinearQuery


class TrueAnswers:
    """The exact answers to a workload: secret, counted once for all rounds.

    Args:
        source: the table.
        queries: the workload.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_units",)

    def __init__(self, source: CountSource, queries: tuple[LinearQuery, ...]) -> None:
        self._units = np.array(
            [query.answer(source.counts(query.scope)) for query in queries], dtype=np.int64
        )

    @property
    def units(self) -> NDArray[np.int64]:
        """Exact and secret: int64, shape (k,), units of 2^-20 records."""
        return self._units

    def __repr__(self) -> str:
        return "TrueAnswers(not shown)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DataError("true answers cannot be copied or pickled")


def draw_marginal(proposal: MarginalRound, source: CountSource, bits: BitSource) -> MarginalMeasurement:
    """Return the measurement of a marginal that the model misses by much.

    The quality of a candidate is the L1 distance of its true counts from the model's, less the L1 noise that
    measuring it would bring; both in units.

    Privacy: one choice, whose qualities a person moves by at most ``l1_sensitivity`` (a record changes one
        cell, under replace-one two, and what is subtracted is public), and one marginal with fresh noise.

    Source: McKenna, Mullins, Sheldon and Miklau (2022), AIM, equation 1, with equal weights.
    """
    each = expected_noise(proposal.noise)
    qualities = []
    for scope in proposal.scopes:
        counts = source.counts(scope).counts
        model = np.rint(proposal.model.marginal(scope) * UNITS).astype(np.int64)
        distance = int(np.abs(counts * UNITS - model).sum())
        qualities.append(distance - math.ceil(each * counts.size))
    scope = proposal.scopes[proposal.selection.select(np.array(qualities, dtype=np.int64), bits)]
    counts = source.counts(scope).counts
    units = counts * UNITS + proposal.noise.sample_array(bits, counts.size).reshape(counts.shape)
    return MarginalMeasurement(scope, units, proposal.noise)


def draw_query(proposal: QueryRound, truth: TrueAnswers, bits: BitSource) -> QueryMeasurement:
    """Return the measurement of a question that the model answers badly.

    Privacy: one choice, whose qualities |q(D) - q(A)| a person moves by at most ``query_sensitivity``, and
        one answer with fresh noise.

    Source: Hardt, Ligett and McSherry (2012), MWEM, Figure 1.
    """
    place = proposal.selection.select(np.abs(truth.units - proposal.model_units), bits)
    units = int(truth.units[place]) + proposal.noise.sample(bits)
    model_units = int(proposal.model_units[place])
    return QueryMeasurement(proposal.queries[place], units, proposal.noise, model_units)
