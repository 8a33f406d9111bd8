"""Parts of dates in SQL: every spelling of one becomes one node, which readers of conditions and keys know.

``MONTH(d)``, ``EXTRACT(month FROM d)`` and ``date_part('month', d)`` are one number, ``d::date`` and
``DATE_TRUNC('day', d)`` one moment, and ``strftime``, ``TO_CHAR`` and ``DATE_FORMAT`` write one text. What is
made of constants alone, such as ``DATE '2023-03-31' + INTERVAL 1 MONTH``, becomes a constant.

They mean what DuckDB means: weeks begin on Monday and are those of ISO 8601, ``dow`` and ``DAYOFWEEK`` count
from Sunday as 0, ``isodow`` from Monday as 1. TO_CHAR has the patterns of PostgreSQL, DATE_FORMAT those of
MySQL.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime

from sqlglot import exp

from queries.cells import nearest
from queries.date_parts import CALENDAR, NUMBERS, PERIODS, DatePart, Step, begins_in, format_pieces
from queries.dates import DAY, read_clock, read_seconds, time_text
from queries.domain import Domain
from queries.errors import QueryError
from queries.locked_engine import evaluated
from queries.sql_tree import (
    CONDITIONS,
    PART_NODES,
    Grammar,
    check_node,
    error_at,
    operand_of,
    position_of,
    refuse,
)

_MOMENT = "MOMENT"  # the unit of a time that is moved and not cut off

_NUMBER_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day",
    exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second", exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow", exp.DayOfYear: "doy", exp.Week: "week", exp.WeekOfYear: "week",
}  # fmt: skip
_NAMED_NUMBERS = ("dow", "doy", "isoyear", "weekday", "yearweek")  # functions unknown to the parser
_ALIASES = {
    "y": "year", "yr": "year", "mon": "month", "d": "day", "dayofmonth": "day", "h": "hour", "hr": "hour",
    "dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week", "w": "week",
    "m": "minute", "min": "minute", "s": "second", "sec": "second",
}  # fmt: skip
_CLOCK = ("minute", "second")
_POSTGRES = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "Mon": "%b", "DDD": "%j", "DD": "%d", "Dy": "%a", "HH24": "%H",
    "FMMM": "%-m", "FMMonth": "%B", "FMDDD": "%-j", "FMDD": "%-d", "FMDay": "%A", "FMHH24": "%-H",
    "IYYY": "%G", "IW": "%V", "ID": "%u", "Q": "%q",
}  # fmt: skip
_READ = {"YYYY": "%Y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S", "US": "%f", "MS": "%f"}
_PARTS = re.compile("|".join(_READ), re.IGNORECASE)
_MYSQL = {"%M": "%B", "%W": "%A", "%c": "%-m", "%e": "%-d", "%k": "%-H", "%v": "%V", "%x": "%G", "%i": "%M"}
_SHARED_WITH_MYSQL = ("%Y", "%y", "%m", "%d", "%H", "%b", "%a", "%j", "%w", "%%")
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_NOW = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentDatetime, exp.CurrentTime, exp.Localtimestamp)
_DATED = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.DATETIME)
_SPELLINGS = Grammar.of(
    {
        "this": (*_NUMBER_FUNCTIONS, *_NOW, exp.Dayname, exp.Monthname, exp.Date),
        "this expression": (exp.Extract, exp.Add, exp.Sub, exp.DateAdd, exp.DateSub),
        "this expressions": (exp.Anonymous,),
        "this unit input_type_preserved": (exp.DateTrunc, exp.TimestampTrunc),
        "this unit fraction_in_string": (exp.Interval,),
        "this format": (exp.TimeToStr, exp.ToChar),
        "this to _type": (exp.Cast,),
    },
    CONDITIONS.advice,
)


def canonical_parts(tree: exp.Expr) -> exp.Expr:
    """Return a tree in which parts of dates stand as PART_NODES alone, and constants as constants."""
    root = exp.Paren(this=tree)
    for node in reversed(list(tree.walk())):  # what stands inside comes first
        convert = _CONVERTERS.get(type(node))
        if convert is None:
            continue
        check_node(node, _SPELLINGS)
        found = convert(node)
        if isinstance(found, PART_NODES):
            found = _folded(found)
        if found is not None and found is not node:
            node.replace(found)
    tree = root.this
    tree.pop()
    return tree


def part_of(node: exp.Expr, domain: Domain) -> tuple[str, DatePart]:
    """Return the attribute of one of the PART_NODES, and the part."""
    column, part = _operand_and_part(node)
    if not isinstance(column, exp.Column):
        raise _no_attribute(column, part, domain)
    if column.table:
        refuse(column, f"a name with a dot such as {'.'.join(one.name for one in column.parts)}")
    name, level = operand_of(column, domain)
    if level is not None:
        raise error_at(column, "wrong_kind", f"{level!r} is a level of {name!r}; expected an attribute")
    attribute = part.of(domain[name], position_of(node))
    if part.moves_months and attribute.scale != DAY:
        raise error_at(
            node,
            "wrong_kind",
            "months differ in length: INTERVAL of months is added to dates, constants and starts of "
            "periods, and not to times; write DATE '2023-03-31' - INTERVAL 1 MONTH for the constant, or days",
        )
    return name, part


def _operand_and_part(node: exp.Expr) -> tuple[exp.Expr, DatePart]:
    if isinstance(node, exp.DateTrunc):
        operand, steps = _steps(node)
        return operand, DatePart("moment", "", tuple(steps))
    operand, steps = _steps(node.expression if isinstance(node, exp.Extract) else node.this)
    if isinstance(node, exp.Extract):
        return operand, DatePart("number", node.this.name.casefold(), tuple(steps))
    return operand, DatePart("text", node.args["format"].name, tuple(steps))


def _no_attribute(operand: exp.Expr, part: DatePart, domain: Domain) -> QueryError:
    written = operand.sql()
    name = written.replace(" ", "")  # a chain of minus signs between names
    hint = f'; a name with a hyphen stands in double quotes: "{name}"' if name in domain else ""
    message = f"{part.shown('d')} takes an attribute of dates as d, got {written[:40]}{hint}"
    return error_at(operand, "wrong_kind", message)


def part_title(node: exp.Expr, domain: Domain) -> str:
    """Return what a column of a part is called: ``month``, or for a text as SQL writes it."""
    name, part = part_of(node, domain)
    texts = {"%A": "dayname", "%B": "monthname"}
    titles = {
        "number": part.what,
        "text": texts.get(part.what, part.shown(name)),
        "moment": next((step.period for step in reversed(part.steps) if step.period), name),
    }
    return titles[part.kind]


def _steps(node: exp.Expr) -> tuple[exp.Expr, list[Step]]:
    if isinstance(node, exp.DateTrunc):
        column, steps = _steps(node.this)
        unit = node.args["unit"].name
        return column, steps if unit == _MOMENT else [*steps, Step(unit.casefold())]
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        column, steps = _steps(node.this)
        return column, [*steps, _interval(node.expression, back=isinstance(node, exp.Sub))]
    return _steps(node.this) if isinstance(node, exp.Paren) else (node, [])


# --- intervals and constants --------------------------------------------------------------------------------


def _interval(node: exp.Interval, *, back: bool) -> Step:
    amount, unit = node.this, node.args.get("unit")
    negative = isinstance(amount, exp.Neg)
    inner = amount.this if negative else amount
    number = inner.unnest() if isinstance(inner, exp.Expr) else None
    text = f"{number.name if isinstance(number, exp.Literal) else '?'} {unit or ''}".casefold()
    if not re.fullmatch(r"\s*(?:[+-]?[0-9]{1,9}\s*[a-z]+\s*)+", text):
        raise error_at(
            node, "wrong_kind", "INTERVAL takes whole numbers and periods, such as INTERVAL '1 month 2 days'"
        )
    months = seconds = 0
    for digits, word in re.findall(r"([+-]?[0-9]+)\s*([a-z]+)", text):
        period = word.removesuffix("s")
        if period not in _UNITS and period not in _MONTHS:
            hint = nearest(period, (*_UNITS, *_MONTHS))
            raise error_at(node, "wrong_kind", f"INTERVAL knows no {word!r}{hint}; write INTERVAL 7 DAY")
        months += int(digits) * _MONTHS.get(period, 0)
        seconds += int(digits) * _UNITS.get(period, 0)
    sign = -1 if back != negative else 1
    return Step(months=sign * months, seconds=sign * seconds)


def dated_text(node: exp.Expr) -> str | None:
    """Return the text of a constant such as ``DATE '2023-03-31'`` or ``TIME '08:30'``; None of others."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    kind = node.args["to"]
    if kind.expressions or kind.this not in (*_DATED, exp.DType.TIME):
        return None
    text, of_day = str(node.this.this), kind.this is exp.DType.TIME
    if (read_seconds(text, "UTC") if of_day else read_clock(text)) is not None:
        raise error_at(
            node, "wrong_kind", f"expected DATE '2023-03-31' or TIME '08:30', got {node.sql()[:40]}"
        )
    return text


def constant_second(node: exp.Expr) -> int | None:
    """Return the second of a constant date or time, or None where a node is none."""
    node = node.unnest()
    text = dated_text(node)
    second = None if text is None else read_seconds(text, "UTC")
    return second if second is None or node.args["to"].this is not exp.DType.DATE else second - second % DAY


def _constant(second: int, place: exp.Expr) -> exp.Expr:
    literal = exp.Literal.string(time_text(second))
    position = position_of(place)
    literal.meta.update({} if position is None else {"start": position})
    return exp.Cast(this=literal, to=exp.DataType(this=exp.DType.TIMESTAMP))


def _moved(node: exp.Expr) -> exp.Expr | None:
    left, right = node.this, node.expression
    if isinstance(left, exp.Interval) and isinstance(node, exp.Add):
        left, right = right, left
    second = constant_second(left)
    if second is not None and isinstance(right, exp.Literal) and right.name.isdigit():
        right = exp.Interval(this=exp.Literal.string(right.name), unit=exp.Var(this="DAY"))
    if not isinstance(right, exp.Interval):
        return None
    if second is None and isinstance(left, exp.Cast) and isinstance(left.this, exp.Literal):
        raise error_at(
            left, "wrong_kind", f"expected a date such as DATE '2023-03-31', got {left.this.sql()[:40]}"
        )
    return _truncation(_MOMENT, type(node)(this=left, expression=right))


def _function_moved(node: exp.Expr) -> exp.Expr | None:
    kind = exp.Add if isinstance(node, exp.DateAdd) else exp.Sub
    if not isinstance(node.expression, exp.Interval):
        refuse(node, "DATE_ADD or DATE_SUB of anything but an INTERVAL")
    return _moved(kind(this=node.this, expression=node.expression))


def _lone_interval(node: exp.Expr) -> None:
    if not isinstance(node.parent, exp.Add | exp.Sub | exp.DateAdd | exp.DateSub):
        raise error_at(
            node,
            "unsupported",
            "INTERVAL here is not supported; it is added to a date: DATE '2023-03-31' + INTERVAL 1 MONTH",
        )


def _today(node: exp.Expr) -> None:
    raise error_at(
        node,
        "unsupported",
        "today's date is not supported, for an answer must not change by itself; write DATE '2023-12-31'",
    )


# --- spellings ----------------------------------------------------------------------------------------------


def _folded(node: exp.Expr) -> exp.Expr:
    """Return a part, or what it is where it is of a constant."""
    operand, part = _operand_and_part(node)
    second = constant_second(operand)
    if second is None:
        return node
    given = f"{second}e0"
    moment, value = (
        one[0] for one in evaluated(f"SELECT {part.moment(given)}, {part.sql(given)} AS v", {}, {})
    )
    if not CALENDAR[0] <= moment < CALENDAR[1]:
        raise error_at(operand, "wrong_kind", "the date lies outside of the calendar, years 1 to 9999")
    if part.kind == "moment":
        return _constant(int(moment), operand)
    return exp.Literal.number(int(value)) if part.kind == "number" else exp.Literal.string(str(value))


def _number(word: str, operand: exp.Expr, node: exp.Expr) -> exp.Expr:
    part = _known(word, tuple(NUMBERS), node)
    return exp.Extract(this=exp.Var(this=part.upper()), expression=operand)


def _known(word: str, names: Sequence[str], node: exp.Expr) -> str:
    name = word.casefold()
    name = _ALIASES.get(name, name)
    if name.removesuffix("s") in (*names, *_CLOCK):
        name = name.removesuffix("s")
    if name in _CLOCK:
        raise error_at(
            node,
            "wrong_kind",
            f"{name.upper()} of a time is not supported; ask for HOUR, or compare with a time",
        )
    if name not in names:
        listed = ", ".join(name.upper() for name in names)
        hint = nearest(name, names)
        raise error_at(node, "wrong_kind", f"expected a part of dates: {listed}; got {word[:40]!r}{hint}")
    return name


def _truncated(node: exp.Expr) -> exp.Expr:
    unit = node.args["unit"].name
    if _ALIASES.get(unit.casefold(), unit.casefold()).removesuffix("s") not in (*PERIODS, *_CLOCK):
        listed = ", ".join(f"'{period}'" for period in reversed(PERIODS))
        raise error_at(
            node,
            "wrong_kind",
            f"DATE_TRUNC takes a period in quotes first, one of {listed}; got {unit[:40].casefold()!r}",
        )
    return _start(_known(unit, PERIODS, node), node.this)


def _start(period: str, operand: exp.Expr) -> exp.Expr:
    """Return where a period begins; what begins there anyway stays as it is."""
    inner = operand.unnest()
    unit = inner.args["unit"].name.casefold() if isinstance(inner, exp.DateTrunc) else ""
    if unit in PERIODS and begins_in(period, unit):
        return inner
    return _truncation(period.upper(), operand)


def _truncation(unit: str, operand: exp.Expr) -> exp.DateTrunc:
    return exp.DateTrunc(this=operand, unit=exp.Literal.string(unit))  # type: ignore[no-untyped-call]


def _cast(node: exp.Expr) -> exp.Expr | None:
    """Return a cast to a date as the start of its day, and one to a time as what it is."""
    inner, to = node.this, exp.DType.DATE if isinstance(node, exp.Date) else node.args["to"].this
    if to not in _DATED or not isinstance(inner, exp.Expr):
        return None
    literal = isinstance(inner, exp.Literal)
    second = constant_second(exp.Cast(this=inner.copy(), to=exp.DataType(this=to)) if literal else inner)
    if second is not None:
        return _constant(second - (second % DAY if to is exp.DType.DATE else 0), node)
    if not isinstance(inner.unnest(), exp.Column | exp.DateTrunc):
        return None
    return _start("day", inner) if to is exp.DType.DATE else _truncation(_MOMENT, inner)


def _text(format: str, operand: exp.Expr, node: exp.Expr) -> exp.Expr:
    try:
        format_pieces(format)
    except ValueError as reason:
        raise error_at(
            node,
            "wrong_kind",
            f"the format has {str(reason)!r}, which no cells decide or which is unknown; known are %Y, %m, "
            "%d, %H, %B, %b, %A, %a, %j, %V, %G, as in strftime(d, '%Y-%m')",
        ) from None
    return exp.TimeToStr(this=operand, format=exp.Literal.string(format))


def _given_text(node: exp.Expr) -> exp.Expr:
    given = node.args.get("format")
    if not isinstance(given, exp.Literal):
        refuse(node, "a format that is no constant")
    format = given.name
    if isinstance(node, exp.ToChar):
        pattern = "|".join(sorted(_POSTGRES, key=len, reverse=True))
        pieces = re.findall(rf'({pattern})|"([^"]*)"|([^A-Za-z"%]+)|(.)', format)
        wrong = next((last for *_, last in pieces if last), None)
        if wrong is not None:
            raise error_at(
                node,
                "wrong_kind",
                f"TO_CHAR knows {', '.join(_POSTGRES)}, and text in double quotes; got {format[:40]!r}; "
                "write FMMonth for Month, which pads with blanks",
            )
        format = "".join(
            _POSTGRES.get(known) or (quoted or plain).replace("%", "%%") for known, quoted, plain, _ in pieces
        )
    return _text(format, node.this, node)


def _function(node: exp.Expr) -> exp.Expr | None:
    name, given = str(node.this).casefold(), node.expressions
    if name in _NAMED_NUMBERS and len(given) == 1:
        return _number(name, given[0], node)
    if name in ("now", "today"):
        _today(node)
    if len(given) != 2:
        return None
    first, second = given
    if name in ("date_part", "datepart"):
        if not isinstance(first, exp.Literal | exp.Column):
            refuse(node, f"{name.upper()} of a part that is no constant")
        return _number(first.name, second, node)
    if name == "strftime" and isinstance(first, exp.Literal):
        first, second = second, first
    if name in ("strftime", "date_format") and isinstance(second, exp.Literal):
        return _text(_of_mysql(second.name) if name == "date_format" else second.name, first, node)
    return _read_by(name, first, second)


def _read_by(name: str, text: exp.Expr, format: exp.Expr) -> exp.Expr | None:
    """Return the constant that TO_DATE or TO_TIMESTAMP reads by a pattern of PostgreSQL; None of others."""
    if name not in ("to_date", "to_timestamp") or {type(text), type(format)} != {exp.Literal}:
        return None
    kinds = [_READ[part.upper()] for part in _PARTS.findall(format.name)]
    is_known = len({*kinds}) == len(kinds) > 0 and not re.search("[A-Za-z]", _PARTS.sub("", format.name))
    pattern, moment = _PARTS.sub(lambda one: _READ[one[0].upper()], format.name.replace("%", "%%")), None
    with contextlib.suppress(ValueError):
        moment = datetime.strptime(text.name, pattern) if is_known else None
    if moment is None:
        told = f"expected a text of the pattern {format.name[:40]!r}, of {', '.join(_READ)} once each"
        raise error_at(text, "wrong_kind", f"{told}, got another")
    literal = exp.Literal.string(str(moment.date() if name == "to_date" else moment))
    literal.meta.update(text.meta)
    return exp.Cast(this=literal, to=exp.DataType(this=exp.DType.TIMESTAMP))


def _of_mysql(format: str) -> str:
    """Return a format of MySQL as one of strftime; what has no equal there stays unknown."""

    def known(match: re.Match[str]) -> str:
        piece = match[0]
        return _MYSQL.get(piece) or (piece if piece in _SHARED_WITH_MYSQL else f"%?{piece[1:]}")

    return re.sub("%.", known, format)


_CONVERTERS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr | None]] = {
    **dict.fromkeys(_NUMBER_FUNCTIONS, lambda node: _number(_NUMBER_FUNCTIONS[type(node)], node.this, node)),
    exp.Extract: lambda node: _number(node.this.name, node.expression, node),
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), _truncated),
    **dict.fromkeys((exp.Cast, exp.Date), _cast),
    **dict.fromkeys((exp.TimeToStr, exp.ToChar), _given_text),
    exp.Dayname: lambda node: _text("%A", node.this, node),
    exp.Monthname: lambda node: _text("%B", node.this, node),
    exp.Anonymous: _function,
    **dict.fromkeys((exp.Add, exp.Sub), _moved),
    **dict.fromkeys((exp.DateAdd, exp.DateSub), _function_moved),
    exp.Interval: _lone_interval,
    **dict.fromkeys(_NOW, _today),
}
