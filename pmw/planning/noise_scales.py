"""Noise scales: what one person changes, and the quietest noise that a price buys.

Scales are rounded up and prices down, so that what is charged never exceeds what was planned.
"""

from __future__ import annotations

import math
from fractions import Fraction

from pmw.errors import NoiseError
from pmw.model import NoiseLaw
from pmw.privacy.budget import RHO_GRID, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.contract import Options
from queries.linear import UNITS

__all__ = [
    "calibrated_noise",
    "floor_price",
    "l1_sensitivity",
    "l2_squared_sensitivity",
    "marginal_noise",
    "query_sensitivity",
    "selection_epsilon",
    "sqrt_down",
    "value_noise",
]


def query_sensitivity(options: Options) -> int:
    """Return how much one person changes a query's answer, in units: weights lie in [0, 1]."""
    return options.records_per_person * UNITS


def l1_sensitivity(options: Options) -> int:
    """Return how much one person changes a marginal in L1, in units.

    Under replace-one a record leaves one cell and enters another. A tree of ranges moves by as much at each
    of its levels.
    """
    moves = 1 if options.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
    return moves * options.records_per_person * UNITS


def l2_squared_sensitivity(options: Options) -> Fraction:
    """Return the square of how much one person changes a marginal in L2, in squared units.

    A person's k records may share a cell: k^2 under add/remove, 2 k^2 under replace-one.
    """
    moves = 1 if options.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2
    return Fraction(moves * (options.records_per_person * UNITS) ** 2)


def marginal_noise(composition: Composition, price: Fraction, options: Options) -> NoiseLaw:
    """Return the narrowest noise, in whole units, on the cells of a marginal that costs at most the price.

    Raises:
        NoiseError: the price is not positive, or too small for any noise.
    """
    return calibrated_noise(composition, floor_price(price), l1_sensitivity(options), options, one=False)


def value_noise(composition: Composition, price: Fraction, options: Options) -> NoiseLaw:
    """Return the narrowest noise, in whole units, on one answer that costs at most the price.

    Raises:
        NoiseError: the price is not positive, or too small for any noise.
    """
    return calibrated_noise(composition, price, query_sensitivity(options), options, one=True)


def selection_epsilon(composition: Composition, price: Fraction) -> Fraction:
    """Return the largest epsilon, rounded down, of an exponential mechanism that costs at most the price.

    Under zCDP its price is epsilon^2/8 (``bounded_range_charge``).

    Args:
        composition: whether epsilons or rhos are added.
        price: a multiple of 1/RHO_GRID under zCDP, so that a charge that is rounded up still fits.
    """
    return sqrt_down(8 * price) if composition is Composition.ZCDP else price


def calibrated_noise(
    composition: Composition, price: Fraction, l1: int, options: Options, *, one: bool
) -> NoiseLaw:
    """Return the narrowest noise, in whole units, that costs at most the price.

    Args:
        composition: whether epsilons or rhos are added.
        price: of the event.
        l1: the L1 sensitivity, in units.
        options: the custodian's choices.
        one: a single number is released, whose L2 sensitivity is ``l1``; else a marginal.

    Raises:
        NoiseError: the price is not positive.
    """
    if price <= 0:
        raise NoiseError("expected a positive price, got 0")
    if composition is Composition.PURE:
        return DiscreteLaplace(Fraction(math.ceil(l1 / price)))
    squared = Fraction(l1 * l1) if one else l2_squared_sensitivity(options)
    return DiscreteGaussian(Fraction(_sqrt_up(squared / (2 * price))))


def floor_price(price: Fraction) -> Fraction:
    """Return the largest multiple of 1/RHO_GRID that is at most a price."""
    return Fraction(math.floor(price * RHO_GRID), RHO_GRID)


def sqrt_down(value: Fraction) -> Fraction:
    """Return a multiple of 2^-60 that is at most the square root."""
    return Fraction(math.isqrt(math.floor(value * RHO_GRID * RHO_GRID)), RHO_GRID)


def _sqrt_up(value: Fraction) -> int:
    """Return the smallest whole number that is at least the square root."""
    whole = math.ceil(value)
    root = math.isqrt(whole)
    return root if root * root >= value else root + 1
