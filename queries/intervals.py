"""What one comparison means on one attribute: cells, or half-open intervals of values.

Every refusal of a value is worded here: its message names what is declared, what came and what is near.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Container, Mapping, Sequence
from typing import TypeGuard

from queries.cells import OTHER_LABEL, canonical_text, nearest, number_text
from queries.dates import DateAttribute, DatetimeAttribute
from queries.domain import Attribute, CategoricalAttribute, Domain, OrderedAttribute
from queries.errors import QueryError
from queries.parts import check_part, level_cells, part_intervals
from queries.predicates import Atom, Between, Comparison, IsIn, IsMissing, IsOther, Position, Scalar


def resolve_operand(
    name: str, domain: Domain, position: Position, *, any_case: bool = False
) -> tuple[str, str | None]:
    """Return the declared attribute that a name stands for, and its level where it is the name of one.

    Args:
        name: the name that came.
        domain: the declared attributes.
        position: where it came from, for the message.
        any_case: also accept the one name that differs in upper and lower case only.

    Raises:
        QueryError: no attribute or level, or several, answer to the name.
    """
    names = [*domain.names, *domain.levels]
    if name not in domain and name not in domain.levels and any_case:
        folded = [known for known in names if known.casefold() == name.casefold()]
        name = folded[0] if len(folded) == 1 else name
    if name in domain.levels:
        return domain.levels[name], name
    return resolve_attribute(name, domain, position), None


def resolve_attribute(name: str, domain: Domain, position: Position, *, any_case: bool = False) -> str:
    """Return the declared attribute that a name stands for.

    Args:
        name: the name that came.
        domain: the declared attributes.
        position: where it came from, for the message.
        any_case: also accept the one attribute that differs in upper and lower case only.

    Raises:
        QueryError: no attribute, or several, answer to the name.
    """
    if name in domain:
        return name
    folded = [known for known in domain.names if known.casefold() == name.casefold()]
    if any_case and len(folded) == 1:
        return folded[0]
    listed = ", ".join(domain.names[:20]) + (", …" if len(domain) > 20 else "")
    hint = nearest(name, (*domain.names, *domain.levels))
    raise QueryError(
        f"unknown attribute {_shown(name)}; declared are {listed}{hint}",
        code="unknown_attribute",
        position=position,
    )


def special_cell(attribute: Attribute, atom: IsMissing | IsOther) -> int:
    """Return the cell of empty or of undeclared values.

    Raises:
        QueryError: the attribute declares no such cell.
    """
    missing = isinstance(atom, IsMissing)
    code = attribute.missing_code if missing else attribute.other_code
    if code is None:
        flag, values = ("missing", "empty") if missing else ("other", "undeclared")
        raise QueryError(
            f"attribute {attribute.name!r} declares no cell for {values} values ({flag} = true)",
            code="unknown_value",
            position=atom.position,
        )
    return code


def categorical_cells(attribute: CategoricalAttribute, atom: Atom) -> list[int]:
    """Return the cells of the declared values that a comparison names.

    Raises:
        QueryError: a value is not declared, or the comparison needs an order.
    """
    if not isinstance(atom, IsMissing | IsOther) and atom.part is not None:
        return level_cells(attribute, atom)
    if isinstance(atom, Comparison) and atom.operator in ("eq", "ne"):
        return _declared_cells(attribute, (atom.value,), atom.position)
    if isinstance(atom, IsIn):
        return _declared_cells(attribute, atom.values, atom.position)
    raise QueryError(
        f"attribute {attribute.name!r} is categorical and has no order; use =, <> or IN",
        code="wrong_kind",
        position=atom.position,
    )


def names_other(attribute: Attribute, atom: Atom) -> bool:
    """Tell whether a comparison of an ordered attribute asks for its undeclared values, by their label."""
    return (
        isinstance(atom, Comparison)
        and atom.operator in ("eq", "ne")
        and atom.value == OTHER_LABEL
        and attribute.other
    )


def _declared_cells(
    attribute: CategoricalAttribute, values: Sequence[Scalar], position: Position
) -> list[int]:
    cells: Mapping[str, int] = attribute.codes
    if attribute.other_code is not None:
        cells = ChainMap({OTHER_LABEL: attribute.other_code}, attribute.codes)  # no declared value then
    return [_declared_cell(attribute, cells, value, position) for value in values]


def _declared_cell(
    attribute: CategoricalAttribute, cells: Mapping[str, int], value: Scalar, position: Position
) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryError(
            f"attribute {attribute.name!r} needs a finite number or a text, got {_shown(value)}",
            code="unknown_value",
            position=position,
        )
    text = _value_text(value)
    if text in cells:
        return cells[text]
    texts = tuple(cells)
    listed = ", ".join(_shown(declared) for declared in attribute.values[:12])
    listed += ", …" if len(texts) > 12 else ""
    special = f"; any other is {OTHER_LABEL!r}" if attribute.other else ""
    special += "; an empty one IS NULL" if attribute.missing else ""
    raise QueryError(
        f"attribute {attribute.name!r} has the values {listed}{special}; got {_shown(value)}"
        f"{nearest(text, texts)}",
        code="unknown_value",
        position=position,
    )


def _value_text(value: Scalar) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else number_text(value)
    return canonical_text(value)


def intervals(attribute: OrderedAttribute, atom: Atom) -> tuple[tuple[float, float], ...]:
    """Return the half-open intervals of values where a comparison holds, within the declared range.

    The whole number v fills [v, v + 1), and the real number v the interval up to the next float64: values are
    such numbers. So on both kinds a range is a union of such intervals.

    Raises:
        QueryError: a value is no finite number, or the range is empty or outside the declared ends.
    """
    if isinstance(atom, IsMissing | IsOther):
        return ()
    if atom.part is not None:
        check_part(attribute, atom.part, atom.position)
        return part_intervals(attribute, atom) if _is_dated(attribute) else ()
    if isinstance(atom, IsIn):
        return tuple(_point(attribute, value, atom.position) for value in atom.values)
    if isinstance(atom, Between):
        low = _number(attribute, atom.low, atom.position)
        high = _number(attribute, atom.high, atom.position)
        if low > high:
            raise QueryError(
                f"an empty range: BETWEEN needs its smaller end first, got {_shown(atom.low)} and "
                f"{_shown(atom.high)}",
                code="empty_range",
                position=atom.position,
            )
        return (_clipped(attribute, _at_least(attribute, low), _above(attribute, high), atom),)
    if atom.operator in ("eq", "ne"):
        low, high = _point(attribute, atom.value, atom.position)
        start, end = value_ends(attribute)
        return ((low, high),) if atom.operator == "eq" else ((start, low), (high, end))
    value = _number(attribute, atom.value, atom.position)
    end = _at_least(attribute, value) if atom.operator in ("ge", "lt") else _above(attribute, value)
    low, high = (end, math.inf) if atom.operator in ("ge", "gt") else (-math.inf, end)
    return (_clipped(attribute, low, high, atom),)


def value_ends(attribute: OrderedAttribute) -> tuple[float, float]:
    """Return where the first value begins, and where the last ends, half-open: the last cell is closed."""
    start, end = attribute.ends
    if attribute.is_whole:
        return float(start), float(end)
    return start, math.nextafter(end, math.inf)


def without_atoms(attribute: OrderedAttribute, end: float, boundaries: Container[float]) -> float:
    """Return where an interval that ends somewhere ends among the values without a cell of their own.

    Ends between which there are atoms alone cut the other values alike. Of these the boundary of a cell is
    returned where one is among them, else the lowest.

    Args:
        attribute: with or without atoms.
        end: of an interval.
        boundaries: where cells begin and end.
    """
    atoms = attribute.atoms
    if not atoms:
        return end

    def before(value: float) -> float:
        return value - 1 if attribute.is_whole else math.nextafter(value, -math.inf)

    while before(end) in atoms:
        end = before(end)
    lowest = end
    while end not in boundaries and end in atoms:
        end = _above(attribute, end)
    return end if end in boundaries else lowest


def _at_least(attribute: OrderedAttribute, value: float) -> float:
    return float(math.ceil(value)) if attribute.is_whole else value


def _above(attribute: OrderedAttribute, value: float) -> float:
    if attribute.is_whole:
        return float(math.floor(value) + 1)
    return math.nextafter(value, math.inf)


def _number(attribute: OrderedAttribute, value: Scalar, position: Position) -> float:
    if _is_dated(attribute):
        return _moment(attribute, value, position)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryError(
            f"attribute {attribute.name!r} holds numbers; got {_shown(value)}",
            code="wrong_kind",
            position=position,
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise QueryError(
            f"attribute {attribute.name!r} needs a finite number, got {_shown(number)}",
            code="wrong_kind",
            position=position,
        )
    return number


def _is_dated(attribute: Attribute) -> TypeGuard[DateAttribute | DatetimeAttribute]:
    return isinstance(attribute, DateAttribute | DatetimeAttribute)


def _moment(attribute: DateAttribute | DatetimeAttribute, value: Scalar, position: Position) -> float:
    number = attribute.read(value) if isinstance(value, str) else None
    of_day = isinstance(attribute, DateAttribute) and ":" in str(value)  # a day is before none of its hours
    if number is None or of_day:
        what = "dates" if isinstance(attribute, DateAttribute) else "times"
        raise QueryError(
            f"attribute {attribute.name!r} holds {what}, written as {attribute.literal(attribute.ends[0])}; "
            f"got {_shown(value)}",
            code="wrong_kind",
            position=position,
        )
    return float(number)


def _point(attribute: OrderedAttribute, value: Scalar, position: Position) -> tuple[float, float]:
    number = _number(attribute, value, position)
    if not attribute.is_whole:
        first, last = attribute.ends
        if not first <= number <= last:
            raise QueryError(
                f"an empty range: got {_shown(value)}; attribute {attribute.name!r} goes from "
                f"{_shown(first)} to {_shown(last)} (values outside count as these ends)",
                code="empty_range",
                position=position,
            )
        return number, _above(attribute, number)
    if number != math.floor(number) or not attribute.ends[0] <= number <= attribute.last:
        what = "values" if isinstance(attribute, DateAttribute | DatetimeAttribute) else "whole numbers"
        raise QueryError(
            f"attribute {attribute.name!r} holds {what} from {attribute.literal(attribute.ends[0])} to "
            f"{attribute.literal(attribute.last)}; got {_shown(value)}",
            code="unknown_value",
            position=position,
        )
    return number, number + 1


def _clipped(
    attribute: OrderedAttribute, low: float, high: float, atom: Comparison | Between
) -> tuple[float, float]:
    start, end = value_ends(attribute)
    clipped = (max(low, start), min(high, end))
    if clipped[0] >= clipped[1]:
        raise QueryError(
            f"an empty range: attribute {attribute.name!r} goes from {attribute.literal(attribute.ends[0])} "
            f"to {attribute.literal(attribute.last)} (values outside count as these ends)",
            code="empty_range",
            position=atom.position,
        )
    return clipped


def _shown(value: Scalar) -> str:
    if isinstance(value, float):
        return number_text(value)
    text = repr(value) if isinstance(value, str) else canonical_text(value)
    return text if len(text) <= 60 else text[:57] + "…'"
