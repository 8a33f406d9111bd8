"""Sensitivities: what one person changes, in units of 2^-20 records."""

from __future__ import annotations

from fractions import Fraction

from pmw.privacy.budget import NeighboringRelation
from pmw.public.contract import Options
from queries.factors import UNITS


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
