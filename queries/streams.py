"""Random streams of questions that a seed repeats on every machine: integers and decimals only."""

from __future__ import annotations

import bisect
import decimal
import itertools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from queries.cells import number_text
from queries.domain import Attribute, Domain, require_domain
from queries.errors import ScopeError
from queries.linear import LinearQuery
from queries.plain_values import type_name
from queries.workloads import MOST_QUERIES, Workload, check_between, require_whole

LARGEST_EXPONENT = 10
MOST_ATTRIBUTES = 1000  # that one conjunction may name
MOST_DISTINCT = 100_000  # conjunctions that a popular stream chooses from

_MOST_MISSES = 1000  # draws in a row that bring no conjunction not seen before
_ZIPF_UNITS = 2**40  # weight of the most popular question

Box: TypeAlias = Mapping[str, tuple[int, int]]


def random_conjunctions(domain: Domain, size: int, *, seed: int, most_attributes: int = 3) -> Workload:
    """Return random conjunctions of ranges and values, the same ones for the same seed everywhere.

    Each has 1 to ``most_attributes`` different attributes; an ordered attribute with more than two base
    cells gets a range that is not the whole, any other a single cell. The name is
    ``random:SIZE:SEED[:MOST_ATTRIBUTES]``.

    The draws come from SplitMix64 (Steele, Lea and Flood 2014), so that other programs can repeat them.

    Args:
        domain: the declared attributes.
        size: number of questions, 0 to 2^63 - 1.
        seed: a whole number; taken modulo 2^64.
        most_attributes: 1 to 1,000.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: ``size``, ``seed`` or ``most_attributes`` is no whole number, or out of range.
    """
    require_domain(domain)
    check_between("size", size, 0, MOST_QUERIES)
    check_between("most_attributes", most_attributes, 1, MOST_ATTRIBUTES)
    require_whole("seed", seed)
    state = int(seed) % 2**64

    def make() -> Iterator[LinearQuery]:
        generator = SplitMix64(state)
        for _ in range(size):
            yield LinearQuery.cells(domain, _random_box(domain, most_attributes, generator))

    name = f"random:{size}:{state}" + (f":{most_attributes}" if most_attributes != 3 else "")
    return Workload(name, size, make)


def popular_conjunctions(
    domain: Domain,
    size: int,
    *,
    seed: int,
    distinct: int = 1000,
    exponent: float = 1.0,
    most_attributes: int = 3,
) -> Workload:
    """Return a stream in which some questions are popular and repeat, the same one for the same seed.

    The first ``distinct`` different conjunctions of ``random_conjunctions`` with this seed are ranked in
    that order; each question of the stream is one of them, drawn with probability proportional to
    1 / rank^exponent. The name is ``popular:SIZE:SEED:DISTINCT:EXPONENT[:MOST_ATTRIBUTES]``.

    The draws come from SplitMix64, which goes on where the choice of conjunctions ended.

    Args:
        domain: the declared attributes.
        size: number of questions, 0 to 2^63 - 1.
        seed: a whole number; taken modulo 2^64.
        distinct: number of different conjunctions, 1 to 100,000; they are chosen at once,
            at some 20,000 a second.
        exponent: 0 (all equally popular) to 10, with at most 3 decimals.
        most_attributes: attributes of a conjunction, 1 to 1,000.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: a number is none, or out of range, or the domain has not so many different conjunctions.

    Source:
        Breslau, Cao, Fan, Phillips and Shenker 1999, "Web caching and Zipf-like distributions", section 3:
        the i-th most popular request has probability proportional to 1 / i^alpha.
    """
    require_domain(domain)
    check_between("size", size, 0, MOST_QUERIES)
    check_between("distinct", distinct, 1, MOST_DISTINCT)
    check_between("most_attributes", most_attributes, 1, MOST_ATTRIBUTES)
    power = _exponent(exponent)
    require_whole("seed", seed)
    generator = SplitMix64(int(seed))
    name = f"popular:{size}:{generator.state}:{distinct}:{number_text(float(power))}"
    name += f":{most_attributes}" if most_attributes != 3 else ""
    boxes = _different_boxes(domain, distinct, most_attributes, generator)
    ends = list(itertools.accumulate(zipf_weights(distinct, power)))
    state = generator.state

    def make() -> Iterator[LinearQuery]:
        popularity = SplitMix64(state)
        for _ in range(size):
            rank = bisect.bisect_right(ends, popularity.below(ends[-1]))
            yield LinearQuery.cells(domain, boxes[rank])

    return Workload(name, size, make)


def zipf_weights(count: int, exponent: Decimal) -> list[int]:
    """Return 2^40 / rank^exponent for the ranks 1 to ``count``, rounded to whole numbers of at least 1.

    The logarithm and the exponential have 30 decimal digits and are rounded correctly, so the weights are
    the same on every platform.
    """
    context = decimal.Context(prec=30, rounding=decimal.ROUND_HALF_EVEN, traps=[])
    negative = exponent.copy_negate()
    powers = (context.multiply(negative, context.ln(Decimal(rank))) for rank in range(1, count + 1))
    weights = (context.multiply(context.exp(power), Decimal(_ZIPF_UNITS)) for power in powers)
    return [max(1, int(weight.to_integral_value(decimal.ROUND_HALF_EVEN))) for weight in weights]


class SplitMix64:
    """A 64-bit generator with a published definition; it draws questions, never private values.

    Args:
        seed: the first state, taken modulo 2^64.

    Attributes:
        state: 64 bits; a generator that starts from it goes on with the same draws.

    Source:
        Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    """

    def __init__(self, seed: int) -> None:
        self.state = seed % 2**64

    def next(self) -> int:
        """Return the next 64 bits as a number."""
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        word = self.state
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        return word ^ (word >> 31)

    def below(self, bound: int) -> int:
        """Return a number from 0 to ``bound`` - 1; ``bound`` is far below 2^64."""
        return self.next() * bound >> 64


def _exponent(exponent: float) -> Decimal:
    if not issubclass(type(exponent), (int, float, Decimal, Fraction)):
        raise ScopeError(f"expected exponent as a number, got a {type_name(exponent)}")
    try:
        power = Decimal(repr(float(exponent)))  # the shortest text that reads back as this number
    except (OverflowError, ValueError):  # a whole number or a fraction beyond float64
        power = Decimal("Infinity")
    short = power.is_finite() and int(power.as_tuple().exponent) >= -3
    if not short or not 0 <= power <= LARGEST_EXPONENT:
        raise ScopeError(
            f"expected an exponent from 0 to {LARGEST_EXPONENT} with at most 3 decimals, got {power}"
        )
    return power.copy_abs()  # 0, not -0


def _different_boxes(domain: Domain, distinct: int, most: int, generator: SplitMix64) -> tuple[Box, ...]:
    """Draw boxes until ``distinct`` of them count different cells."""
    boxes: dict[frozenset[tuple[str, tuple[int, int]]], Box] = {}
    misses = 0
    while len(boxes) < distinct:
        box = _random_box(domain, most, generator)
        known = len(boxes)
        # The only cell of an attribute is no condition.
        boxes.setdefault(frozenset(item for item in box.items() if domain[item[0]].size > 1), box)
        misses = misses + 1 if len(boxes) == known else 0
        if misses == _MOST_MISSES:
            raise ScopeError(
                f"expected a domain with distinct={distinct:,} different conjunctions, got {known:,} before "
                f"{_MOST_MISSES:,} draws in a row brought no other; choose distinct={known} or less"
            )
    return tuple(boxes.values())


def _random_box(domain: Domain, most: int, generator: SplitMix64) -> Box:
    count = 1 + generator.below(min(most, len(domain)))
    positions = list(range(len(domain)))
    for place in range(count):
        other = place + generator.below(len(domain) - place)
        positions[place], positions[other] = positions[other], positions[place]
    chosen = [domain.attributes[position] for position in sorted(positions[:count])]
    return {attribute.name: _random_cells(attribute, generator) for attribute in chosen}


def _random_cells(attribute: Attribute, generator: SplitMix64) -> tuple[int, int]:
    size = attribute.base_size
    if not attribute.is_ordered or size <= 2:
        cell = generator.below(size)
        return cell, cell
    while True:
        ends = (generator.below(size), generator.below(size))
        if max(ends) - min(ends) < size - 1:
            return min(ends), max(ends)
