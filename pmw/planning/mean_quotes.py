"""Quotes of sums, of persons and of means: what measuring them costs, and how far they may be off then.

A quote depends on scales of noise and on released numbers. Of sums by the cells of a scope, whoever asks for
a mean within a part of it gets a bar that is such a part of the least that the mean may be.

Of the means and sums of a statement, the noise is the widest under which every group has a bar of a width. It
follows from the least number of records that released numbers leave a group, from scales of noise, and from
where the model has values. It does not follow from what was drawn for the groups' own sums. So what was paid
for suffices, however its bars came out.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError, SessionError
from pmw.model.measurement import SumMeasurement, SummedRows, half_width
from pmw.model.value_sums import COUNT_UNITS, Places, SummedValues, sums_of
from pmw.planning.calibration import noise_of_price, noise_of_share
from pmw.planning.opening import planned_sums
from pmw.planning.row_quotes import PREFERRED, require_rows
from pmw.privacy.budget import floor_price
from pmw.privacy.noise import DiscreteGaussian, NoiseDistribution
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.aggregates import Aggregates
from pmw.public.bars import Bars
from pmw.public.charges import PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.clear import GAIN
from pmw.public.evidence import NOT_HELD, holding_of
from pmw.public.half_widths import Confidences
from pmw.public.local_models import local_models
from pmw.public.plans import marginal_tier
from pmw.public.quotes import MOST_APART, Quote, Within, nothing_needed, quote_of, require_apart, widest_noise
from pmw.public.state import PublicState
from pmw.public.sums import Estimate, GroupWeights, Sums, hard_ends
from pmw.public.value_sums import ValueSums, cell_middles
from queries.cell_values import attribute_values
from queries.errors import QueryError
from queries.expressions import EVERYBODY, AggregateNode, Linear, Ratio, average
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import require_aligned
from queries.statements import Group, Statement

_FINEST = 2**16  # parts of the cap that prices are looked for in
_LEAST_OF_SQUARES = 0.5  # of a sum's units, for the number of values where squares are measured


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
        return _cheapest_of(state, ways, lambda quote: quote.mean_half_width <= wanted, within)
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


def _cheapest_of(
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


# --- the means and sums of a statement --------------------------------------------------------------------

_UNIT = DiscreteGaussian(Fraction(UNITS))  # of what nothing is drawn for
_MOST_UNASKED = 2**10  # numbers of a statement whose widths are looked at before it is answered
_SQUARED_GAIN = Fraction(GAIN) ** 2  # times a price, for a bar that is narrower by so much
_Array = NDArray[np.float64]


class _Asked(NamedTuple):
    """A group whose bar is asked for."""

    node: Linear | Ratio
    group: Group
    records: float
    estimated: bool
    value: float
    width: float


@dataclass(frozen=True, slots=True, eq=False)
class _Ways:
    """What the bars of groups are as wide as, under some noise of their sums: float64, one number a group.

    Args:
        confidences: of one number that a bar rests on, and of each of two.
        wanted: half-widths of the bars.
        cells: how many measured numbers a group's are the sums of; 0 where they are not measured.
        scale: what 2^20 units stand for in a sum.
        weight: what a value weighs, beside what is measured of it; infinite where it is not one number.
        counts: how far counts that were measured elsewhere may move the sum.
        rest: how far it may be off besides.
        divisor: what the sum is divided by.
        least: how many records a mean is of; infinite for a sum.
    """

    confidences: tuple[float, float]
    wanted: _Array
    cells: _Array
    scale: _Array
    weight: _Array
    counts: _Array
    rest: _Array
    divisor: _Array
    least: _Array

    @classmethod
    def of(
        cls,
        state: PublicState,
        statement: Statement,
        asked: Sequence[_Asked],
        summed: SummedValues | SummedRows,
    ) -> _Ways:
        """Return them where some sums are measured; of these it looks at no number."""
        joint = replace(summed, count_units=UNITS)
        empty = SumMeasurement(joint, np.zeros(joint.shape(state.domain), dtype=np.int64), _UNIT)
        sums, values, found = Sums(state, statement), ValueSums(replace(state, apart=(empty,))), []
        for one in asked:
            above, below = _weights(sums, one.node, one.group)
            parts = () if above.summed is None else values.measured(above.summed, 0.5)
            number = parts[0].joint if parts else None
            if above.summed is None or number is None:
                found.append((one.width, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
                continue
            ratio, least = (0.0, math.inf) if below is None else (one.value, one.records)
            reached, counts, line = sums.way(above, parts[0], below, ratio, 1)
            factor = above.summed.summed.line.factor
            weight = math.inf if line is None else factor * number.middle + line[1] - ratio
            rest = reached + abs(factor) * number.rounded
            scale, divisor = abs(factor) * number.scale, 1.0 if below is None else one.records
            found.append((one.width, number.cells, scale, weight, counts, rest, divisor, least))
        sure = [Confidences.in_state(state, events, groups=statement.choices).alone for events in (1, 2)]
        return cls((sure[0], sure[1]), *np.array(found, dtype=np.float64).T)

    def suffice(self, count_units: int, noise: NoiseDistribution) -> bool:
        """Tell whether all bars are as narrow as is wanted."""
        return bool(np.all(self.widths(noise, count_units) <= self.wanted))

    def widths(self, noise: NoiseDistribution, count_units: int) -> _Array:
        """Return the half-widths of the bars, as ``Sums`` takes the narrower way; infinite where none is.

        A mean that is divided by its own number of records is divided by the least that this may come out as.
        """
        found = np.full(len(self.cells), math.inf)
        for cells in set(self.cells.tolist()) - {0.0}:
            own = self.cells == cells
            one, half = (sum_half_width(noise, cells, sure, peak=1.0) for sure in self.confidences)
            width = (half * self.scale + self.counts + self.rest) / self.divisor
            if count_units:
                unit = UNITS / count_units
                least = np.maximum(np.minimum(self.divisor, self.least - one * unit), 0.0)
                joint = one * np.hypot(self.scale, self.weight * unit) + self.rest
                with np.errstate(divide="ignore"):
                    width = np.minimum(width, joint / least)
            found[own] = width[own]
        return found


def quote_aggregate(state: PublicState, statement: Statement, within: Within) -> Quote:
    """Return the smallest price at which the bars of a mean or a sum are so wide, of every group.

    Each group has a sum of its own, over the records that it counts; or the sums are those of the cells of a
    scope, where this costs at most twice as much, for these serve other statements too.
    """
    node, name = _aggregate_of(statement)
    require_summing(state, name)
    opened = len(planned_sums(state.domain, state.contract.options))
    before = replace(state, apart=state.sums[:opened])
    asked = tuple(_asked(before, statement, node, within))
    if not asked:
        raise refused("no group is known to have records, or taken to have some; ask for others")
    aggregates = Aggregates(state, statement)
    present = ((aggregates.estimate(node, one.group), one.width) for one in asked)
    held = np.array([found.is_promised and _half(found.interval) <= width for found, width in present])
    for one in state.sums[opened:] if not held.all() else ():
        if one.summed.attribute == name and not one.summed.by_cells:
            ways = _Ways.of(before, statement, asked, one.summed)
            held |= ways.widths(one.noise, one.summed.count_units) <= ways.wanted
    estimated = any(one.estimated for one in asked)
    if held.all():
        return replace(nothing_needed(SumNumbers, (), 0, 0.0), estimated=estimated)
    rows = summed_rows(state, statement, [node])
    by = tuple(one for one in rows.scope if one != name)
    own, whole = _cheapest(before, rows, _Ways.of(before, statement, asked, rows)), None
    if state.domain.scope_size((*by, name)) <= MOST_APART:
        cells = sums_of(state.domain, name, by)
        whole = _cheapest(before, cells, _Ways.of(before, statement, asked, cells))
    if whole is not None and (own is None or whole.share <= PREFERRED * own.share):
        own = whole
    if own is None or own.share > 1:
        least = min(asked, key=lambda one: one.records * one.width)
        group = ", ".join("(missing)" if one is None else str(one) for one in least.group.labels)
        few = state.contract.options.least_records
        size = f"{least.records:,.0f}" if few is None or least.records >= few else f"fewer than {few}"
        told = f"{group or 'what is asked about'} is taken to have {size} records"
        raise refused(f"no price gives a bar of {within}: {told}; ask for a wider one, or for other groups")
    return replace(own, estimated=estimated)


# --- what is paid for unasked ------------------------------------------------------------------------------


def unclear_values(
    state: PublicState, statement: Statement, price: Fraction
) -> Iterator[tuple[SumNumbers, NoiseDistribution]]:
    """Yield the sums that are drawn for the means and sums of a statement, with those of all of its groups.

    They are drawn where the bar of one group is wider than ``GAIN`` times what they give it. Both widths
    follow from scales of noise, the least number of records that released numbers leave the group, and where
    the model has values, and not from what is drawn for sums. Where they were drawn at a price that is hardly
    lower, they are not drawn again, however wide their bars came out.

    Args:
        price: of all of them, in the filter's own measure; each attribute has an equal part.
    """
    nodes = defaultdict[str, list[Linear | Ratio]](list)
    if statement.arms:  # each would be paid for by itself
        return
    for leaf in dict.fromkeys(leaf for column in statement.columns for leaf in column.node.leaves()):
        if isinstance(leaf, Linear | Ratio) and (name := _attribute_of(leaf)):
            nodes[name].append(leaf)
    for name, own in nodes.items() if statement.size <= _MOST_UNASKED else ():
        with contextlib.suppress(QueryError, SessionError, NoiseError):  # cells do not decide, or too many
            require_summing(state, name)
            rows = summed_rows(state, statement, own)
            part = floor_price(price / len(nodes))
            if not _is_paid(state, rows, part) and (found := _narrower(state, statement, own, (rows, part))):
                yield found


def _is_paid(state: PublicState, rows: SummedRows, price: Fraction) -> bool:
    """Tell whether the sums of some questions were measured at a price that is hardly lower."""
    wanted, options = {row.to_json() for row in rows.rows}, state.contract.options
    for one in state.sums:
        if one.summed.attribute == rows.attribute and wanted <= {row.to_json() for row in one.summed.rows}:
            paid = state.ledger.price(SumNumbers(one.summed).charge(one.noise, options))
            if paid * _SQUARED_GAIN >= price:
                return True
    return False


def _narrower(
    state: PublicState,
    statement: Statement,
    nodes: Sequence[Linear | Ratio],
    priced: tuple[SummedRows, Fraction],
) -> tuple[SumNumbers, NoiseDistribution] | None:
    """Return sums under the noise of a price, alone or with the number of values; None if no bar is wide."""
    (rows, price), options = priced, state.contract.options
    before = replace(state, apart=state.sums[: len(planned_sums(state.domain, options))])
    asked = [one for node in nodes for one in _asked(before, statement, node, None)]
    if not asked:
        return None
    ways, (present, most) = _Ways.of(before, statement, asked, rows), _present(state, statement, asked)
    found = list[tuple[_Array, SumNumbers, NoiseDistribution]]()
    for units in (0, *COUNT_UNITS):
        what = SumNumbers(replace(rows, count_units=units))
        noise = noise_of_price(state.ledger.composition, price, what.sensitivity(options))
        found.append((np.minimum(ways.widths(noise, units), most), what, noise))
    widths, what, noise = min(found, key=lambda one: float(one[0].sum()))
    return (what, noise) if np.any(np.minimum(present, most) > GAIN * widths) else None


def _present(state: PublicState, statement: Statement, asked: Sequence[_Asked]) -> tuple[_Array, _Array]:
    """Return half the width of each bar as things stand, by scales of noise, and of what any table allows."""
    sums, found = Sums(state, statement), []
    for one in asked:
        above, below = _weights(sums, one.node, one.group)
        least, greatest = sums.hard_ends(above) if below is None else hard_ends(above, below)
        width = sums.half_width(above, 1, below) / (1.0 if below is None else one.records)
        found.append((width, (greatest - least) / 2))
    present, most = np.array(found, dtype=np.float64).T
    return present, most


def notes_of(quote: Quote, within: Within, answers: Iterable[Estimate]) -> Iterator[str]:
    """Yield what has to be known of answers whose bars were asked for: how wide they came out."""
    bars = [one.interval for one in answers if one.is_promised and one.interval is not None]
    widest = max(map(_half, bars), default=math.inf)
    yield f"bars of {within} were asked for; the widest that came out is ± {widest:,.4g}"
    if quote.estimated:
        yield "the price took the model's numbers of records, where nothing released says that there are any"


def _half(interval: tuple[float, float] | None) -> float:
    return math.inf if interval is None else (interval[1] - interval[0]) / 2


def summed_rows(state: PublicState, statement: Statement, nodes: Sequence[Linear | Ratio]) -> SummedRows:
    """Return the sums of a statement's groups: those of the records whose values its aggregates take.

    All of its groups have one, those too that a condition on answers would leave out.
    """
    name = _attribute_of(nodes[0])
    require_aligned(statement.where)
    sums, found = Sums(state, statement), dict[str, LinearQuery]()
    for group, node in itertools.product(statement.groups(), nodes):
        over = sums.weights(_sum_of(node), group).summed
        if over is None:
            raise refused("cells do not decide which records the number is of; ask by whole cells")
        query = over.question(state.domain)
        if query.constant:
            found[query.to_json()] = query
    rows = tuple(found.values())
    require_rows(rows, name)
    scope, clipped = QuestionNumbers(rows).scope, sums_of(state.domain, name, ()).clipped
    return SummedRows(name, scope, clipped=clipped, rows=rows)


def _aggregate_of(statement: Statement) -> tuple[Linear | Ratio, str]:
    """Return the only aggregate of a statement, and the attribute whose values it takes."""
    statement.require_one_step()
    leaves = statement.leaves
    node = leaves[0] if len(leaves) == 1 and not statement.arms else None
    name = _attribute_of(node)
    if not isinstance(node, Linear | Ratio) or not name:
        raise refused("a bar is for columns that count records, or for one AVG or SUM of an attribute")
    return node, name


def _attribute_of(node: AggregateNode | None) -> str:
    """Return the attribute whose values a mean or a sum takes; an empty text where it takes none."""
    form = node.numerator if isinstance(node, Ratio) else node
    return form.summed.line.attribute if isinstance(form, Linear) and form.summed is not None else ""


def _sum_of(node: Linear | Ratio) -> Linear:
    return node.numerator if isinstance(node, Ratio) else node


def _weights(sums: Sums, node: Linear | Ratio, group: Group) -> tuple[GroupWeights, GroupWeights | None]:
    """Return the weights of a sum, and of what it is divided by."""
    if isinstance(node, Linear):
        return sums.weights(node, group), None
    return sums.pair((node.numerator, group), (node.denominator, group))


def _asked(
    state: PublicState, statement: Statement, node: Linear | Ratio, within: Within | None
) -> Iterator[_Asked]:
    """Yield the groups that have records, by what is released, or by the model where nothing tells of them.

    The model's number counts where it is above what a measured number of records may be off by, and where
    what is released of each attribute says that there are records with the group's values of it.
    """
    bars, tier = Bars(state), marginal_tier(state.plan)
    sums, aggregates = Sums(state, statement), Aggregates(state, statement)
    fewest = math.inf if tier is None else half_width(tier.noise, Confidences.in_state(state).alone)
    for group in statement.groups():
        below = _weights(sums, node, group)[1]
        if below is None:
            below = sums.weights(next(iter(_sum_of(node).values), EVERYBODY), group)
        scope = tuple(name for name in below.scope if name in below.varying)
        estimated = holding_of(state, scope) in NOT_HELD
        records = sums.model(below) if estimated else sums.ends(below, 1)[0]
        value = aggregates.estimate(node, group).value if aggregates.may_hold(node, group) else None
        if estimated and (records <= fewest or _may_be_empty(bars, below)):
            records = 0.0
        if value is not None and records > 0:
            width = math.inf if within is None else within.amount * (abs(value) if within.relative else 1.0)
            yield _Asked(node, group, records, estimated, value, width)


def _may_be_empty(bars: Bars, weights: GroupWeights) -> bool:
    """Tell whether some attribute may have no records with the values that a group asks for."""
    for axis, name in enumerate(weights.scope):
        table = np.moveaxis(weights.high > 0, axis, 0).reshape(weights.high.shape[axis], -1)
        side = np.asarray(table.any(axis=1), dtype=np.float64)
        if bars.of_sum((name,), side, side)[0] <= 0:
            return True
    return False


def _cheapest(state: PublicState, summed: SummedValues | SummedRows, ways: _Ways) -> Quote | None:
    """Return the lowest price of some sums, alone or with the number of values; None where none suffices."""
    options, found = state.contract.options, list[tuple[Fraction, NoiseDistribution, int]]()
    for units in (0, *COUNT_UNITS):
        noise = widest_noise(state.ledger, functools.partial(ways.suffice, units))
        if noise is not None:
            price = SumNumbers(replace(summed, count_units=units)).charge(noise, options)
            found.append((state.ledger.price(price), noise, units))
    if not found:
        return None
    _, noise, units = min(found, key=lambda one: one[0])
    rows, what = len(summed.rows), SumNumbers(replace(summed, count_units=units))
    cells = rows or state.domain.scope_size(summed.scope)
    width = float(ways.scale.max()) * sum_half_width(noise, 1.0, ways.confidences[1])
    quote = quote_of(state, what, cells, noise, width, float(ways.widths(noise, units).max()))
    return replace(quote, questions=rows)
