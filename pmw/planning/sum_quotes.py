"""Quotes of sums and of persons: what measuring sums of values costs, and how far means may be off then.

A quote depends on scales of noise and on released numbers. Whoever asks for a mean within a part of it gets a
bar that is such a part of the least that the mean may be.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pmw.model.measurement import SumMeasurement
from pmw.model.value_sums import COUNT_UNITS, Places, SummedValues, sums_of
from pmw.planning.calibration import noise_of_share
from pmw.privacy.noise import DiscreteGaussian, NoiseDistribution
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.aggregates import Aggregates
from pmw.public.bars import Bars
from pmw.public.charges import PersonNumbers, SumNumbers
from pmw.public.half_widths import Confidences
from pmw.public.local_models import local_models
from pmw.public.quotes import Quote, Within, quote_of, require_apart
from pmw.public.state import PublicState
from pmw.public.value_sums import cell_middles
from queries.cell_values import attribute_values
from queries.errors import QueryError
from queries.expressions import average
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.statements import Statement

_FINEST = 2**16  # parts of the cap that prices are looked for in
_LEAST_OF_SQUARES = 0.5  # of a sum's units, for the number of values where squares are measured
_UNIT = DiscreteGaussian(Fraction(UNITS))  # of what nothing is drawn for


def quote_sum(
    state: PublicState,
    what: tuple[str, tuple[str, ...]],
    *,
    squares: bool = False,
    share: Fraction | None = None,
    within: Within | None = None,
) -> Quote:
    """Return the price of sums of values.

    Beside each sum the number of its values is measured, where means are better known for it: a public rule,
    by scales of noise and by how far the model's mean is from where values are measured from.

    Args:
        what: the attribute whose values are summed, and by which attributes, in declared order.
        within: how far the mean of a group of average size may be off, in place of a share.
    """
    summed = require_summed(state, *what)
    ways = _ways(state, summed, squared=squares)
    if within is not None:
        wanted = _absolute(within, _mean_low(state, summed))
        return _cheapest(state, ways, lambda quote: quote.mean_half_width <= wanted, within)
    quotes = [quote_sum_noise(state, one, _noise(state, one, share)) for one in ways]
    return min(quotes, key=lambda quote: quote.mean_half_width)


def quote_persons(state: PublicState, scope: tuple[str, ...], *, share: Fraction | None = None) -> Quote:
    """Return the price of numbers of persons by the cells of a scope."""
    if state.domain.person is None:
        raise QueryError(
            "the schema declares no persons, so they are not counted; give it a [person] section",
            code="unsupported",
        )
    if state.contract.options.records_per_person == 1:
        raise QueryError(
            "one record of each person is kept, so numbers of records are numbers of persons; ask for these, "
            "or measure them without --heads",
            code="unsupported",
        )
    require_apart(state, PersonNumbers, f"persons by {', '.join(scope)}", state.domain.scope_size(scope))
    what = PersonNumbers(scope, state.domain.scope_size(scope))
    noise = noise_of_share(state.ledger, share, what.sensitivity(state.contract.options))
    width = sum_half_width(noise, 1.0, Confidences.in_state(state, 2).alone)
    return quote_of(state, what, what.cells, noise, width)


def require_summed(state: PublicState, name: str, scope: tuple[str, ...]) -> SummedValues:
    """Return the sums of an attribute's values by the cells of a scope, if a session measures them."""
    require_summing(state, name)
    domain = state.domain
    summed = sums_of(domain, name, scope)
    cells = domain.scope_size(domain.scope(summed.counted))
    require_apart(state, SumNumbers, f"sums of {name} by {', '.join(scope)}", cells)
    return summed


def require_summing(state: PublicState, name: str) -> None:
    """Refuse a session that measures no sums of an attribute's values on request."""
    require_apart(state, SumNumbers, name, 1)
    known = [grid.attribute for grid in state.domain.grids]
    if name not in known:
        told = f"those of {', '.join(known)} are" if known else "give an attribute a resolution in the schema"
        raise QueryError(f"the values of {name!r} are not summed; {told}", code="unknown_attribute")


def quote_sum_noise(state: PublicState, summed: SummedValues, noise: NoiseDistribution) -> Quote:
    """Return the price of sums of values under some noise."""
    domain = state.domain
    scale, away, known = _of_a_group(state, summed)
    halves, whole = (Confidences.in_state(state, events).alone for events in (2, 1))
    cells = domain.scope_size(summed.scope)
    width = scale * (sum_half_width(noise, 1.0, halves) + 1 / UNITS)
    mean = width + away * known
    if summed.count_units:
        mean = sum_half_width(noise, scale**2 + (away * UNITS / summed.count_units) ** 2, whole)
    return quote_of(state, SumNumbers(summed), cells, noise, width, mean * cells / state.total.value)


def _of_a_group(state: PublicState, summed: SummedValues) -> tuple[float, float, float]:
    """Return what matters of sums by groups for a mean, by what is public.

    Returns:
        What 2^20 units of a sum stand for; how far the model's mean is from where values are measured from;
        and how far the number of the values of one group may be off, as far as that is known.
    """
    domain, name = state.domain, summed.attribute
    empty = SumMeasurement(summed, np.zeros(summed.shape(domain), dtype=np.int64), _UNIT)
    scale = float(empty.scales(domain).max())
    if summed.by_cells:
        return scale, 0.0, 0.0
    places, middles = Places.of(domain, name), cell_middles(domain, name)
    mass = np.where(places.present, np.maximum(local_models(state).marginal((name,)), 0.0), 0.0)
    values = float(mass.sum())
    if values <= 0:
        return scale, 0.0, 0.0
    middle = empty.middles(domain)[places.present][0]
    scope = summed.scope if places.present.all() else domain.scope(summed.counted)
    weights = np.ones(domain.scope_shape(scope))
    for place, one in enumerate(scope):
        held = places.present if one == name else np.arange(domain[one].size) == 0
        weights = weights * held.reshape([-1 if axis == place else 1 for axis in range(len(scope))])
    bounds = Bars(state, 2).of_family(scope, weights)
    known = math.inf if bounds is None else bounds.half_width(weights)
    away = abs(float(np.sum(mass * middles)) / values - float(middle))
    return scale, away, known if away else 0.0


def _ways(state: PublicState, summed: SummedValues, *, squared: bool = False) -> Sequence[SummedValues]:
    """Return how sums can be measured: alone, and with the number of values.

    With w of noise for the sum and d for the number of values, at t of its units, the noise of a mean is
    least where t^2 = d/w; a person's K records count K times, clipped sums once.
    """
    if summed.by_cells:
        if squared:
            raise refused(f"squares of {summed.attribute} are summed by other attributes than its own")
        return (summed,)
    if squared and summed.clipped:
        raise refused(f"squares of {summed.attribute} are not summed: persons are clipped")
    scale, away, _ = _of_a_group(state, summed)
    records = state.contract.options.records_per_person if summed.clipped else 1
    wanted = max(math.sqrt(away / scale / records) if scale else 0.0, _LEAST_OF_SQUARES if squared else 0.0)
    units = min(COUNT_UNITS, key=lambda one: abs(math.log(one / UNITS) - math.log(max(wanted, 2.0**-20))))
    joint = replace(summed, count_units=units, squared=squared)
    return (joint,) if squared else (summed, joint)


def _noise(state: PublicState, summed: SummedValues, share: Fraction | None) -> NoiseDistribution:
    return noise_of_share(state.ledger, share, SumNumbers(summed).sensitivity(state.contract.options))


def _cheapest(
    state: PublicState, ways: Sequence[SummedValues], fits: Callable[[Quote], bool], within: Within
) -> Quote:
    """Return the quote of the least share that fits, to a part in 65,536 of the budget."""
    found = [quote for one in ways if (quote := _least_share(state, one, fits)) is not None]
    if not found:
        raise refused(
            f"no price gives a bar of {within}: counts, or the width of cells, are off by more; ask for a "
            "wider one"
        )
    return min(found, key=lambda quote: quote.share)


def _least_share(state: PublicState, summed: SummedValues, fits: Callable[[Quote], bool]) -> Quote | None:
    """Return the quote of the least share of one way that fits; None where the whole budget does not."""

    def quote(parts: int) -> Quote:
        return quote_sum_noise(state, summed, _noise(state, summed, Fraction(parts, _FINEST)))

    if not fits(quote(_FINEST)):
        return None
    return quote(1 + bisect_left(range(1, _FINEST), True, key=lambda parts: fits(quote(parts))))


def _mean_low(state: PublicState, summed: SummedValues) -> float:
    """Return the least that the mean of all values may be, above or below 0; 0 where it may be that."""
    statement = Statement.count_by(LinearQuery.everything(state.domain))
    node = average(attribute_values(state.domain[summed.attribute]))
    (group,) = statement.groups()
    ends = Aggregates(state, statement).estimate(node, group, events=1).interval
    return 0.0 if ends is None or ends[0] * ends[1] <= 0 else min(map(abs, ends))


def _absolute(within: Within, least: float) -> float:
    """Return a half-width in the unit of the answer."""
    if not within.relative:
        return within.amount
    if least <= 0:
        raise refused(
            f"{within} of a number that may be 0, as far as is known, is no bar; give a width in its own unit"
        )
    return within.amount * least


def refused(message: str) -> QueryError:
    """Return the error of a bar that is not to be had."""
    return QueryError(message, code="bad_request", position="within")
