"""Workloads: a name, a number of queries and how to make them; families, random streams, and their names.

Random streams are the same for a seed on every machine: integers and decimals only. A name, such as
``marginals:age,sex`` or ``random:1000:7``, has a kind and fields after colons; a field is one item, or
several with commas between them. An item in double quotes may hold any character, a double quote doubled.
"""

from __future__ import annotations

import bisect
import decimal
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from queries.cells import cell_count, in_quotes, nearest, number_text
from queries.comparisons import listed_names, resolve_attribute
from queries.domain import Attribute, Domain, require_domain
from queries.errors import QueryError, ScopeError
from queries.factors import UNITS, Factor
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.plain_values import plain_value, shown_text, type_name
from queries.questions import Products

MOST_QUERIES = 2**63 - 1  # what ``len`` can say
LARGEST_PARITY = 2**16  # cells of one parity: its canonical text stays below a megabyte
LARGEST_EXPONENT = 10
MOST_ATTRIBUTES = 1000  # that one conjunction may name
MOST_DISTINCT = 100_000  # conjunctions that a popular stream chooses from

_SOME = 2**13  # questions at a time, where they are ranges
_NAMES = (str, list, tuple, set, frozenset)  # types that names come in
_NUMBER = re.compile(r"[-+]?[0-9][0-9.]*")
_MOST_MISSES = 1000  # draws in a row that bring no conjunction not seen before
_ZIPF_UNITS = 2**40  # weight of the most popular question
_LONGEST_TEXT = 2**20  # characters of a name
_ITEM = re.compile(r'\s*(?:"([^"]*(?:""[^"]*)*)"|([^,:"]*))\s*')

Box: TypeAlias = Mapping[str, tuple[int, int]]

WORKLOAD_FORMS: Mapping[str, str] = {
    "marginals": "marginals:ORDER or marginals:NAME,NAME,…",
    "prefixes": "prefixes:NAME",
    "random": "random:SIZE:SEED[:MOST_ATTRIBUTES]",
    "ranges": "ranges:NAME",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A finite sequence of queries, made again on every walk and one at a time.

    Workloads over one domain are equal where they have one name: they ask the same questions.

    Args:
        name: how it was asked for, such as ``marginals:2``; ``parse_workload`` reads it.
        size: number of queries, at most 2^63 - 1.
        make: returns an iterator over exactly ``size`` queries, always the same ones.
        boxes: returns an iterator over the same questions, many at a time; None where some are no ranges.

    Raises:
        ScopeError: the size is out of range.
    """

    name: str
    size: int
    make: Callable[[], Iterator[LinearQuery]] = field(repr=False, compare=False)
    boxes: Callable[[], Iterator[Products]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.size <= MOST_QUERIES:
            raise ScopeError(
                f"a workload has 0 to {MOST_QUERIES:,} queries, {self.name} would have {shown(self.size)}; "
                "name fewer attributes or ask fewer questions"
            )

    def __iter__(self) -> Iterator[LinearQuery]:
        return self.make()

    def __len__(self) -> int:
        return self.size


def check_between(label: str, value: int, low: int, high: int) -> None:
    """Refuse a whole number outside ``low`` to ``high``."""
    require_whole(label, value)
    if not low <= value <= high:
        raise ScopeError(f"expected {label} from {low:,} to {high:,}, got {label}={shown(value)}")


def require_whole(label: str, value: object) -> None:
    """Refuse what is no whole number, by its type alone."""
    if not issubclass(type(value), int) and not isinstance(plain_value(value), int):
        raise ScopeError(f"expected {label} as a whole number, got a {type_name(value)}")


def shown(number: int) -> str:
    """Return the digits of a whole number, or words where there are too many."""
    return str(number) if abs(number) < 10**30 else "(more than 30 digits)"


def quoted(name: str) -> str:
    """Return an attribute's name as in a workload's name: in double quotes, doubled inside, where it must."""
    if any(mark in name for mark in ',:"') or is_like_number(name):
        return in_quotes(name)
    return name


def is_like_number(text: str) -> bool:
    """Return whether a bare text is read as a number, well formed or not, rather than as a name."""
    return _NUMBER.fullmatch(text) is not None


# --- families -----------------------------------------------------------------------------------------------


def all_marginals(domain: Domain, order: int) -> Workload:
    """Return every cell of every marginal over ``order`` attributes, ``marginals:ORDER``.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: ``order`` is not between 1 and the number of attributes, or the cells are more than
            2^63 - 1.
    """
    require_domain(domain)
    check_between("order", order, 1, len(domain))

    def boxes() -> Iterator[Products]:
        for scope in itertools.combinations(domain.names, order):
            yield from _cells(domain, scope)

    return _of_boxes(f"marginals:{order}", _products_sum(domain.shape, order), boxes)


def marginal_cells(domain: Domain, names: Sequence[str]) -> Workload:
    """Return every cell of the marginal over the named attributes, ``marginals:NAME,NAME,…``.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: no attribute is named, one is unknown or named twice, or the cells are more than
            2^63 - 1.
    """
    require_domain(domain)
    if not issubclass(type(names), _NAMES):
        raise ScopeError(f"expected a list of attributes' names, got {shown_text(names)}")
    scope = domain.scope([names] if isinstance(names, str) else names)
    if not scope:
        raise ScopeError("expected the names of at least one attribute, got none")
    name = "marginals:" + ",".join(map(quoted, scope))
    return _of_boxes(name, domain.scope_size(scope), lambda: _cells(domain, scope))


def all_ranges(domain: Domain, attribute: str) -> Workload:
    """Return every range of consecutive base cells of an ordered attribute, ``ranges:NAME``.

    Records with an empty or undeclared value (in the ``missing`` or ``other`` cell) are in no range, as
    they satisfy no comparison.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: the attribute is unknown, or categorical: its values have no order.
    """
    size = _ordered_size(domain, attribute, "ranges")
    pairs = functools.partial(itertools.combinations_with_replacement, range(size), 2)
    return _of_ranges(f"ranges:{quoted(attribute)}", math.comb(size + 1, 2), domain, attribute, pairs)


def prefixes(domain: Domain, attribute: str) -> Workload:
    """Return the cumulative counts of an ordered attribute, ``prefixes:NAME``.

    Query i counts the records whose value is in base cell i or before it, or a number with a cell of its own
    before its end. Records with an empty or undeclared value are in no prefix, so the last one counts the
    records with a declared value.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: the attribute is unknown, or categorical: its values have no order.
    """
    size = _ordered_size(domain, attribute, "prefixes")
    name = f"prefixes:{quoted(attribute)}"
    return _of_ranges(name, size, domain, attribute, lambda: ((0, cell) for cell in range(size)))


def parities(domain: Domain, order: int) -> Workload:
    """Return one parity query for each set of ``order`` attributes, ``parities:ORDER``.

    A parity counts the records for which the sum of their cell numbers over the set is odd. Cells are
    numbered from 0 as the domain declares them, the ``missing`` and ``other`` cells after the base cells.
    For attributes of two cells, number of records - 2 * parity is the Fourier coefficient of the table
    for that set; for longer ones only the lowest bit of the cell number counts.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: ``order`` is not between 1 and the number of attributes, or some ``order`` attributes
            have more than 65,536 cells together.

    Source:
        Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar 2007, "Privacy, accuracy, and consistency too",
        for the Fourier basis over attributes of two values. The lowest bit is our extension to more.
    """
    require_domain(domain)
    check_between("order", order, 1, len(domain))
    largest = math.prod(sorted(domain.shape)[-order:])
    if largest > LARGEST_PARITY:
        raise ScopeError(
            f"a parity over {order} attributes would span up to {cell_count(largest)} cells, at most "
            f"{LARGEST_PARITY:,} fit; choose a lower order or declare wider cells"
        )

    def make() -> Iterator[LinearQuery]:
        for scope in itertools.combinations(domain.names, order):
            yield _parity(domain, scope)

    return Workload(f"parities:{order}", math.comb(len(domain), order), make)


def _of_boxes(name: str, size: int, boxes: Callable[[], Iterator[Products]]) -> Workload:
    return Workload(name, size, lambda: itertools.chain.from_iterable(boxes()), boxes)


def _cells(domain: Domain, scope: Sequence[str]) -> Iterator[Products]:
    shape, cells = domain.scope_shape(scope), domain.scope_size(scope)
    for start in range(0, cells, _SOME):
        numbers = np.arange(start, min(cells, start + _SOME), dtype=np.int64)
        found = np.empty((numbers.size, len(shape)), dtype=np.int64)
        for axis in reversed(range(len(shape))):
            numbers, found[:, axis] = np.divmod(numbers, shape[axis])
        yield Products.of_ranges(domain, scope, found, found)


def _of_ranges(
    name: str, size: int, domain: Domain, attribute: str, pairs: Callable[[], Iterable[tuple[int, int]]]
) -> Workload:
    if domain[attribute].atoms:
        return Workload(name, size, lambda: (_between(domain, attribute, *pair) for pair in pairs()))

    def boxes() -> Iterator[Products]:
        left = iter(pairs())
        while some := list(itertools.islice(left, _SOME)):
            ends = np.array(some, dtype=np.int64)
            yield Products.of_ranges(domain, [attribute], ends[:, 0], ends[:, 1])

    return _of_boxes(name, size, boxes)


def _between(domain: Domain, name: str, low: int, high: int) -> LinearQuery:
    """Return what counts an attribute's cells from one to another, and the atoms between their ends."""
    attribute = domain[name]
    inside = np.zeros(attribute.size, dtype=np.int64)
    inside[low : high + 1] = UNITS
    for place, atom in enumerate(attribute.atoms, attribute.base_size):
        inside[place] = UNITS * (attribute.points[low] <= atom < attribute.points[high + 1])
    return LinearQuery(domain, (Factor((name,), inside),))


def _parity(domain: Domain, scope: tuple[str, ...]) -> LinearQuery:
    bits = [np.arange(size) & 1 for size in domain.scope_shape(scope)]
    odd = functools.reduce(np.bitwise_xor.outer, bits)
    return LinearQuery(domain, (Factor(scope, odd * UNITS),))


def _products_sum(sizes: Sequence[int], order: int) -> int:
    sums = [1, *[0] * order]
    for size in sizes:
        for count in range(order, 0, -1):
            sums[count] += size * sums[count - 1]
    return sums[order]


def _ordered_size(domain: Domain, name: str, what: str) -> int:
    require_domain(domain)
    attribute = domain[name]
    if not attribute.is_ordered:
        raise ScopeError(
            f"attribute {name!r} is categorical and has no order, so it has no {what}; ask marginals:"
            f"{quoted(name)} for its values, or declare it as an integer or numeric attribute"
        )
    return attribute.base_size


# --- random streams -----------------------------------------------------------------------------------------


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


# --- names --------------------------------------------------------------------------------------------------


def parse_workload(text: str, domain: Domain) -> Workload:
    """Return the workload that a text names; the names of these workloads are such texts.

    The forms are those of ``WORKLOAD_FORMS``. A name without quotes may differ from the declared one in
    upper and lower case; it needs double quotes where it holds a comma, a colon or a double quote, or
    looks like a number.

    Args:
        text: such as ``marginals:2``, ``marginals:age,sex``, ``prefixes:age`` or ``random:1000:7``.
        domain: the declared attributes.

    Raises:
        DomainError: ``domain`` is none.
        QueryError: the text names no workload, an attribute is not declared or of the wrong kind, or a
            number is out of range; ``position`` counts in the text.
    """
    require_domain(domain)
    if not issubclass(type(text), str):
        raise QueryError(
            f"expected the name of a workload, such as marginals:2, got {shown_text(text)}",
            code="bad_request",
        )
    try:
        if len(text) > _LONGEST_TEXT:
            raise QueryError(f"a workload's name has at most {_LONGEST_TEXT:,} characters", code="too_long")
        return _parsed(text, domain)
    except QueryError as error:
        error.text = text
        raise


class _Item(NamedTuple):
    text: str
    is_quoted: bool
    position: int  # where it stands


_Field: TypeAlias = Sequence[_Item]


def _parsed(text: str, domain: Domain) -> Workload:
    kind, colon, _ = text.partition(":")
    kind = kind.strip()
    if kind not in _BUILDERS:
        raise QueryError(
            f"expected a workload of the kind {', '.join(WORKLOAD_FORMS)}, such as marginals:2, "
            f"got {shown_text(kind)}{nearest(kind, tuple(WORKLOAD_FORMS))}",
            code="syntax",
            position=0,
        )
    fields = _fields(text, text.index(":") + 1) if colon else []
    build, least, most = _BUILDERS[kind]
    if not least <= len(fields) <= most:
        came = f"{len(fields)} part" + ("" if len(fields) == 1 else "s")
        named = bool(fields) and "NAME" in WORKLOAD_FORMS[kind]
        hint = "; a name with a colon stands in double quotes" if named else ""
        raise QueryError(
            f"expected {WORKLOAD_FORMS[kind]}, got {came} after {kind!r}{hint}",
            code="syntax",
            position=fields[most][0].position if len(fields) > most else len(text),
        )
    try:
        return build(fields, domain)
    except ScopeError as error:
        # Names and numbers are checked by now: what is left is an attribute without order, or the size.
        code = "wrong_kind" if kind in ("prefixes", "ranges") else "too_large"
        raise QueryError(str(error), code=code, position=fields[0][0].position) from None


def _fields(text: str, start: int) -> list[list[_Item]]:
    fields: list[list[_Item]] = [[]]
    while True:
        match = _ITEM.match(text, start)
        if match is None or (match.end() < len(text) and text[match.end()] not in ",:"):
            raise _item_error(text, start)
        inside, bare = match.groups()
        position = match.start(1) - 1 if bare is None else match.start(2)
        item = (bare or "").strip() if inside is None else inside.replace('""', '"')
        fields[-1].append(_Item(item, inside is not None, position))
        if match.end() == len(text):
            return fields
        if text[match.end()] == ":":
            fields.append([])
        start = match.end() + 1


def _item_error(text: str, start: int) -> QueryError:
    quote = text.index('"', start)
    if text[start:quote].strip():
        message = "a double quote stands inside a name; put the whole name in double quotes and double it"
    elif text.count('"', start) % 2:
        message = "a double quote is not closed; a double quote inside a name is doubled"
    else:
        message = "expected ',' or ':' after a name in double quotes"
    return QueryError(message, code="syntax", position=quote)


def _marginals(fields: Sequence[_Field], domain: Domain) -> Workload:
    items = fields[0]
    first = items[0]
    if len(items) == 1 and not first.is_quoted and is_like_number(first.text):
        return all_marginals(domain, _whole(items, "ORDER", 1, len(domain)))
    names = [_attribute(item, domain) for item in items]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise QueryError(
                f"expected each attribute once, got {shown_text(name)} twice",
                code="bad_request",
                position=items[place].position,
            )
    return marginal_cells(domain, names)


def _random(fields: Sequence[_Field], domain: Domain) -> Workload:
    size = _whole(fields[0], "SIZE", 0, MOST_QUERIES)
    seed = _whole(fields[1], "SEED", 0, 2**64 - 1)
    most = _whole(fields[2], "MOST_ATTRIBUTES", 1, MOST_ATTRIBUTES) if len(fields) > 2 else 3
    return random_conjunctions(domain, size, seed=seed, most_attributes=most)


def _only(field: _Field, what: str, hint: str) -> _Item:
    if len(field) > 1:
        raise QueryError(
            f"expected {what}, got {len(field)} with commas between them; {hint}",
            code="bad_request",
            position=field[1].position,
        )
    return field[0]


def _attribute(item: _Item, domain: Domain) -> str:
    if not item.text:
        raise QueryError(
            f"expected the name of an attribute, got nothing; declared are {listed_names(domain)}",
            code="syntax",
            position=item.position,
        )
    return resolve_attribute(item.text, domain, item.position, any_case=not item.is_quoted)


def _whole(field: _Field, label: str, low: int, high: int) -> int:
    item = _only(field, f"{label} as one whole number", "write 1000, not 1,000")
    digits = item.text.lstrip("0") or item.text[-1:]
    is_whole = not item.is_quoted and re.fullmatch("[0-9]+", digits) is not None
    above = is_whole and (len(digits) > len(str(high)) or int(digits) > high)
    if not is_whole or above or int(digits) < low:
        came = shown_text(item.text) + (" in double quotes" if item.is_quoted else "")
        raise QueryError(
            f"expected {label} as a whole number from {low:,} to {high:,}, got {came}",
            code="too_large" if above else "bad_request",
            position=item.position,
        )
    return int(digits)


def _of_one(build: Callable[[Domain, str], Workload]) -> Callable[[Sequence[_Field], Domain], Workload]:
    def built(fields: Sequence[_Field], domain: Domain) -> Workload:
        item = _only(fields[0], "one attribute", "a name with a comma stands in double quotes")
        return build(domain, _attribute(item, domain))

    return built


# How each kind is built, and how many fields it has at least and at most.
_BUILDERS: Mapping[str, tuple[Callable[[Sequence[_Field], Domain], Workload], int, int]] = {
    "marginals": (_marginals, 1, 1),
    "prefixes": (_of_one(prefixes), 1, 1),
    "random": (_random, 2, 3),
    "ranges": (_of_one(all_ranges), 1, 1),
}
