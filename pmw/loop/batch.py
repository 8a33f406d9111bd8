"""Batches: what a run of questions will test, and what the tests released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.budget import Charge
from queries.linear import LinearQuery

Released: TypeAlias = int | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One question to be tested, with the public numbers it is tested against.

    Args:
        query: what is asked.
        model_units: the model's answer, rounded to units of 2^-20 records.
        threshold: T, in units.
    """

    query: LinearQuery
    model_units: int
    threshold: int


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRequest:
    """One marginal to be tested, with the public numbers it is tested against.

    Args:
        scope: attribute names in declared order.
        model_units: the model's marginal, rounded: int64, one axis per attribute, units of 2^-20 records.
        threshold: T, in units.
        measured: the scope that a positive measures; it contains ``scope``. Whether the cells of either are
            declared ones or bins, the plan says.
    """

    scope: tuple[str, ...]
    model_units: NDArray[np.int64]
    threshold: int
    measured: tuple[str, ...]


Request: TypeAlias = QueryRequest | MarginalRequest


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a batch of questions will do. A function of public state and the questions.

    Args:
        queries: the questions, in order.
        tier: the place of the tier that tests its requests.
        requests: what is tested, in order; none where nothing is.
        needs: for each question, how many of the requests must be negative before it can be answered.
        positives: positives of the tier before the batch.
        opens_round: the first test draws new threshold noise.
        reserved: the most that the batch can charge.
    """

    queries: tuple[LinearQuery, ...]
    tier: int
    requests: tuple[Request, ...]
    needs: tuple[int, ...]
    positives: int
    opens_round: bool
    reserved: Charge | None

    @classmethod
    def untested(cls, queries: Sequence[LinearQuery]) -> Proposal:
        """Return the batch that tests nothing for its questions."""
        return cls(tuple(queries), 0, (), (0,) * len(queries), 0, opens_round=False, reserved=None)


@dataclass(frozen=True, slots=True, eq=False)
class BatchDraws:
    """What the tests of a batch released.

    Args:
        outcomes: one per request up to and including the first positive, values of ``Outcome``.
        released: the noisy answer or marginal of that positive, in units; None where all were negative.
    """

    outcomes: tuple[int, ...]
    released: Released | None

    @property
    def negatives(self) -> int:
        """How many tests were negative; they come first."""
        return len(self.outcomes) - (self.released is not None)
