"""Comparisons of values cell by cell: where they hold for every value of a cell, and where for some.

Numbers are compared by the ends of their cells. A text that a cell does not tell, such as an undeclared one,
leaves a comparison open, unless the other side is a text that it cannot be.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.calendar import read_seconds
from queries.cell_values import (
    CellCondition,
    CellValues,
    Kind,
    constant_value,
    either_undecided,
    on_scope,
    union_scope,
)
from queries.cells import OTHER_LABEL, canonical_text, number_text, quoted_name
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.predicates import COMPARE, Order, example_texts, shown_value
from queries.work import TEXT, count_cells

Side: TypeAlias = tuple[Callable[[], str], CellValues]  # of a comparison: how it is written, what it holds
NEGATED: dict[Order, Order] = {
    "eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt",
}  # fmt: skip
_ORDERS: tuple[Order, ...] = ("lt", "le", "gt", "ge")
_ROUNDING = 1e-12  # of numbers that are computed, as a part of them


def compared(one: CellValues, sign: Order, two: CellValues, domain: Domain) -> CellCondition:
    """Return where two values compare as a sign says; what is compared with NULL holds nowhere.

    Raises:
        QueryError: the values are of different kinds, or texts are compared by an order.
    """
    if one.is_null or two.is_null:
        return CellCondition.constant(False)
    if one.dated or two.dated:
        one, two = _dated(one, two), _dated(two, one)
    elif one.labels is not None and two.labels is not None:
        return _compared_texts(one, sign, two, domain)
    elif one.labels is not None or two.labels is not None:
        raise _mixed(one, two)
    return _Difference.of(one, two, domain).condition(sign)


def _dated(values: CellValues, other: CellValues) -> CellValues:
    """Return the seconds of dates and times, also of a text that is one."""
    if values.dated:
        return replace(values, labels=None)
    text = values.labels[()] if values.labels is not None and not values.scope else None
    second = None if text is None else read_seconds(str(text), "UTC")
    if second is None:
        raise _mixed(other, values)
    return constant_value(second)


def _mixed(one: CellValues, two: CellValues) -> QueryError:
    """Return the error of two values of different kinds, which tells what each of them is."""
    text = next((side for side in (one, two) if side.labels is not None and not side.dated), None)
    way = ""
    if not (one.dated or two.dated) and text is not None:
        way = "; a number stands without quotes, and CAST(… AS VARCHAR) makes texts of whole numbers"
    elif text is None and (one.dated or two.dated):
        way = "; a date is a text such as '2023-12-31'"
    return QueryError(
        f"expected two values of one kind, got {_kind(one)} and {_kind(two)}{way}", code="wrong_kind"
    )


def _kind(values: CellValues) -> str:
    if not values.scope:
        return "a number" if values.labels is None else f"the text {shown_value(str(values.labels[()]))}"
    kind = "dates" if values.dated else "numbers" if values.labels is None else "texts"
    return f"{kind} of {' and '.join(values.scope)}"


def compared_sides(
    left: Side, sign: Order, right: Side, domain: Domain, *, negated: bool = False
) -> CellCondition:
    """Return where two values compare as a sign says, or do not; see ``compared``.

    Args:
        left, right: what is compared.
        sign: how they are compared.
        domain: the declared attributes.
        negated: where they compare otherwise.

    Raises:
        QueryError: numbers within the declared ends never satisfy it, but others might: they count as the
            ends, so that nobody knows how many do.
    """
    one, two = left[1], right[1]
    meant = NEGATED[sign] if negated else sign
    if not (one.scope or two.scope) or any(side.labels is not None or side.is_null for side in (one, two)):
        return compared(one, meant, two, domain)
    difference = _Difference.of(one, two, domain)
    signs: tuple[Order, ...] = (sign,) if sign in _ORDERS else ("le", "ge")  # beyond the one end or the other
    if all(difference.ends(each)[1].any() for each in signs):
        return difference.condition(meant)
    (written, own), (other, value) = (left, right) if one.scope else (right, left)
    told = "no declared values satisfy it"
    if not value.scope:
        low, high = (
            number_text(float(end)) for end in (own.low[own.present].min(), own.high[own.present].max())
        )
        told = f"got {other()}; {written()} goes from {low} to {high}"
    raise QueryError(
        f"an empty range: {told} (values outside count as the declared ends)", code="empty_range"
    )


class _Difference(NamedTuple):
    """By how much two numbers of each cell differ: at least and at most, where both are there."""

    one: CellValues  # over the attributes of both
    two: CellValues
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    present: NDArray[np.bool_]
    open: NDArray[np.bool_]

    @classmethod
    def of(cls, one: CellValues, two: CellValues, domain: Domain) -> _Difference:
        scope = union_scope(domain, (one.scope, two.scope))
        one, two = one.placed(domain, scope), two.placed(domain, scope)
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = one.low - two.high, one.high - two.low
        present, open_ = one.present & two.present, either_undecided(one, two)
        if not (one.whole and two.whole):
            open_ = open_ | (_is_rounded(one, two, low, high) & present)
        return cls(one, two, low, high, present, open_)

    def ends(self, sign: Order) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return where numbers compare so for certain, and where they may."""
        if sign in ("eq", "ne"):
            inside, equal = (self.low <= 0) & (self.high >= 0), (self.low == 0) & (self.high == 0)
            least, most = (equal, inside) if sign == "eq" else (~inside, ~equal)
        else:
            one, other = COMPARE[sign](self.low, 0.0), COMPARE[sign](self.high, 0.0)
            least, most = one & other, one | other
        return least & self.present & ~self.open, (most & self.present) | self.open

    def condition(self, sign: Order) -> CellCondition:
        """Return where numbers compare so."""
        least, most = self.ends(sign)
        if sign in ("eq", "ne"):
            inside = (self.low <= 0) & (self.high >= 0)
            share = np.where(inside, _equal_share(self.one, self.two), 0.0)
            share = share if sign == "eq" else 1.0 - share
        else:
            width = np.where(self.high > self.low, self.high - self.low, 1.0)
            share = np.clip((self.high if sign in ("gt", "ge") else -self.low) / width, 0.0, 1.0)
        return CellCondition(self.one.scope, least, np.where(least, 1.0, np.where(most, share, 0.0)), most)


def _equal_share(one: CellValues, two: CellValues) -> NDArray[np.float64]:
    """Return how often whole numbers of two cells are the same, evenly spread; 0 for other numbers."""
    if not (one.whole and two.whole):
        return np.zeros(())
    shared = np.minimum(one.high, two.high) - np.maximum(one.low, two.low) + 1
    pairs = (one.high - one.low + 1) * (two.high - two.low + 1)
    return np.asarray(np.clip(shared / pairs, 0.0, 1.0), dtype=np.float64)


def _is_rounded(
    one: CellValues, two: CellValues, low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return where numbers differ by so little that their rounding may be all of it: 0.1 * 3 and 0.3."""
    size = functools.reduce(np.maximum, (np.abs(end) for end in (one.low, one.high, two.low, two.high)))
    with np.errstate(invalid="ignore"):
        near = [(end != 0) & (np.abs(end) <= _ROUNDING * size) for end in (low, high)]
    return np.asarray(near[0] | near[1], dtype=bool)


# --- texts --------------------------------------------------------------------------------------------------


def mapped_texts(values: CellValues, function: Callable[[str], Any]) -> CellValues:
    """Return a function of every text; of a text that its cell does not tell it may be any.

    Args:
        values: of texts.
        function: of one of them.
    """
    count_cells(TEXT * values.present.size, values.scope)
    known, labels = values.present & ~values.undecided, _labels(values).copy()
    labels[known] = [function(canonical_text(one)) for one in labels[known]]
    return replace(values, labels=labels, declared=frozenset(), dated=False)


def changed_letters(text: str, change: Callable[[str], str]) -> str:
    """Return a text with each letter changed by itself, where that makes one letter."""
    return "".join(new if len(new := change(letter)) == 1 else letter for letter in text)


def text_lengths(values: CellValues) -> CellValues:
    """Return how many characters each text has."""
    lengths, known = mapped_texts(values, len), values.present & ~values.undecided
    numbers = np.zeros(known.shape)
    numbers[known] = _labels(lengths)[known]
    return CellValues(
        values.scope, numbers, numbers, numbers, values.present, None, Kind.WHOLE, values.undecided
    )


def joined_texts(one: CellValues, two: CellValues, domain: Domain) -> CellValues:
    """Return two texts in one; NULL where one of them is."""
    scope = union_scope(domain, (one.scope, two.scope))
    count_cells(TEXT * domain.scope_size(scope), scope)
    one, two = one.placed(domain, scope), two.placed(domain, scope)
    undecided, present = either_undecided(one, two), one.present & two.present
    labels = np.full(present.shape, OTHER_LABEL, dtype=object)
    known = present & ~undecided
    labels[known] = [
        canonical_text(left) + canonical_text(right)
        for left, right in zip(_labels(one)[known], _labels(two)[known], strict=True)
    ]
    return replace(
        one, present=present, labels=labels, undecided=undecided, declared=frozenset(), dated=False
    )


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A pattern of LIKE: ``%`` is any text, ``_`` any character.

    Args:
        text: the pattern.
        escape: the character behind which another one stands for itself; None for none.
        fold: upper and lower case are alike, as for ILIKE.

    Raises:
        QueryError: the pattern ends with the character, or that is not one.
    """

    text: str
    escape: str | None = None
    fold: bool = False

    def __post_init__(self) -> None:
        if self.escape is not None and len(self.escape) != 1:
            raise QueryError(f"ESCAPE needs one character, got {self.escape[:40]!r}", code="syntax")
        self._pieces()

    def _pieces(self) -> list[tuple[str, bool]]:
        """Return the characters, and whether each stands for others."""
        found: list[tuple[str, bool]] = []
        rest = iter(self.text)
        for character in rest:
            if character != self.escape:
                found.append((character, character in ("%", "_")))
                continue
            literal = next(rest, None)
            if literal is None:
                message = "a pattern of LIKE does not end with its ESCAPE character"
                raise QueryError(message, code="syntax")
            found.append((literal, False))
        return found

    @property
    def test(self) -> Callable[[str], bool]:
        """Tells whether a text matches."""
        segments = [""]  # between one % and the next
        for one, wild in self._pieces():
            if wild and one == "%":
                segments.append("")
            else:
                segments[-1] += "." if wild else re.escape(self._folded(one))
        first, *middle = segments
        last = f".*{middle.pop()}" if middle else ""
        # A segment is taken where it first stands and never given back: no text takes long.
        found = re.compile(first + "".join(f"(?>.*?{one})" for one in middle) + last, re.DOTALL)
        return lambda text: found.fullmatch(self._folded(text)) is not None

    def _folded(self, text: str) -> str:
        return changed_letters(text, str.lower) if self.fold else text

    @property
    def only(self) -> str | None:
        """The one text that matches; None where several do."""
        pieces = self._pieces()
        if self.fold or any(wild for _, wild in pieces):
            return None
        return "".join(one for one, _ in pieces)

    @property
    def is_any(self) -> bool:
        """Every text matches."""
        pieces = self._pieces()
        return bool(pieces) and all(one == "%" and wild for one, wild in pieces)


def like_condition(values: CellValues, pattern: LikePattern, *, negated: bool = False) -> CellCondition:
    """Return where a text matches a pattern, or where it does not.

    A text that its cell does not tell is open, unless the pattern holds of all texts, or of one that it
    cannot be.
    """
    count_cells(TEXT * values.present.size, values.scope)
    test, known = pattern.test, values.present & ~values.undecided
    every, some = pattern.is_any, pattern.only not in values.declared
    every, some = (not some, not every) if negated else (every, some)
    holds = np.zeros(known.shape, dtype=bool)
    holds[known] = [test(canonical_text(one)) != negated for one in _labels(values)[known]]
    least = holds | (values.undecided & values.present & every)
    return CellCondition(
        values.scope, least, (least | (values.undecided & negated)).astype(np.float64),
        holds | (values.undecided & some),
    )  # fmt: skip


def _labels(values: CellValues) -> NDArray[Any]:
    if values.labels is None:
        raise QueryError(
            "expected a text, got numbers; CAST(… AS VARCHAR) makes texts of them", code="wrong_kind"
        )
    return values.labels


def _compared_texts(one: CellValues, sign: Order, two: CellValues, domain: Domain) -> CellCondition:
    if sign not in ("eq", "ne"):
        raise _no_order(one, two)
    scope = union_scope(domain, (one.scope, two.scope))
    never = _never_equal(one, two, domain, scope) | _never_equal(two, one, domain, scope)
    named = _is_named(one, two, domain, scope) | _is_named(two, one, domain, scope)
    first, second = one.placed(domain, scope), two.placed(domain, scope)
    present = first.present & second.present
    open_ = either_undecided(first, second) & ~never & ~named
    same = _labels(mapped_texts(one, str).placed(domain, scope)) == _labels(
        mapped_texts(two, str).placed(domain, scope)
    )
    equal = (np.asarray(same, dtype=bool) & ~never) | named
    holds = (equal if sign == "eq" else ~equal) & present & ~open_
    share = holds | (open_ & (sign == "ne"))
    return CellCondition(scope, holds, share.astype(np.float64), holds | open_)


def _no_order(one: CellValues, two: CellValues) -> QueryError:
    """Return the error of texts that are compared by an order, which shows how values are listed."""
    sides = [values for values in (one, two) if values.declared]  # attributes, of which nothing is computed
    names = [quoted_name(*values.scope) for values in sides]
    texts = [example_texts(sorted(values.declared))[0] for values in sides]
    way = ""
    if len(set(names)) == 1:
        way = f", as in {names[0]} IN ({texts[0]})"
    elif names:
        way = f", or list pairs, as in ({', '.join(names)}) IN (({', '.join(texts)}))"
    return QueryError(f"texts are categorical and have no order; use =, <> or IN{way}", code="wrong_kind")


def _never_equal(
    one: CellValues, two: CellValues, domain: Domain, scope: tuple[str, ...]
) -> NDArray[np.bool_]:
    """Return where a text that its cell does not tell meets one that it cannot be."""
    told = two.present & ~two.undecided
    known = _in(_labels(two), one.declared) & told
    return np.asarray(
        on_scope(domain, one.scope, one.undecided & one.present, scope)
        & on_scope(domain, two.scope, known, scope)
    )


def _is_named(one: CellValues, two: CellValues, domain: Domain, scope: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return where undeclared texts meet the name of their cell, which a question writes for them."""
    if two.scope or _labels(two)[()] != OTHER_LABEL or not one.declared:
        return np.zeros((), dtype=bool)
    return np.asarray(on_scope(domain, one.scope, one.undecided & one.present, scope))


def _in(labels: NDArray[Any], texts: Iterable[str]) -> NDArray[np.bool_]:
    found = frozenset(texts)
    flat = [canonical_text(one) in found if one is not None else False for one in labels.ravel().tolist()]
    return np.array(flat, dtype=bool).reshape(labels.shape)
