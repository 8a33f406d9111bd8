"""Messages of Postgres' wire protocol, version 3, and values in them: bytes to objects and back.

Nothing here reads or writes a connection. The form is chapter 55 of the manual of PostgreSQL 15,
"Frontend/Backend Protocol".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

from pmw.errors import ServiceError
from queries.catalogue import BOOL, DATE, FLOAT8, INT8, TEXT, TIMESTAMP, Column, ColumnType
from queries.sql_tree import LONGEST_TEXT

LONGEST = 2 * LONGEST_TEXT  # characters of statements; a session's own are shorter
_LONGEST_NAME = 63
_Day = TypeVar("_Day", date, datetime)
_DAY, _TIME = date(2000, 1, 1), datetime(2000, 1, 1)  # from which binary forms count
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_TIMESTAMP_TZ, _NUMERIC = 1184, 1700
_ZONED = re.compile(r"(\d{4}-\d\d-\d\d) ?[+-]\d\d(:\d\d)*")  # a day, as JDBC sends it
_ELEMENTS = {
    1000: 16, 1005: 21, 1007: 23, 1009: 25, 1014: 1042, 1015: 1043, 1016: 20, 1021: 700, 1022: 701,
    1115: 1114, 1182: 1082, 1231: _NUMERIC,
}  # fmt: skip  # of lists, by their types
_ELEMENT = re.compile(r'\s*"(?P<quoted>(?:[^"\\]|\\.)*)"\s*|(?P<plain>[^,{}"\\]+)', re.DOTALL)
_NUMBERS = {20: "!q", 21: "!h", 23: "!i", 26: "!I", 700: "!f", 701: "!d"}  # types, and bytes
# What of a statement decides where it ends and which parameters it has. What is not closed goes to its end:
# each letter is looked at once.
_PART = re.compile(
    r"""(?P<blank>--[^\n]*|/\*.*?(?:\*/|\Z))|[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)|'(?:[^']|'')*(?:'|\Z)"""
    r"""|"(?:[^"]|"")*(?:"|\Z)|(?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=tag)|\Z)"""
    r"""|\$(?P<number>\d{1,4})|(?P<end>;)""",
    re.DOTALL,
)


class WireError(ServiceError):
    """What is told of a refusal; the position is of a character in the statement, from 1."""

    def __init__(
        self, state: str, message: str, hint: str = "", *, position: int | None = None, is_last: bool = False
    ) -> None:
        super().__init__(message)
        self.state, self.hint, self.position, self.is_last = state, hint, position, is_last


class Fields:
    """The fields of a message, read one after the other. Where it ends too early, ``WireError`` is raised."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        found = self._body[self._at : self._at + max(size, 0)]
        if len(found) != size:
            raise WireError("08P01", "expected a whole message, got part of one", is_last=True)
        self._at += size
        return found

    def number(self, form: str = "!H") -> int:
        """Return the next whole number."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def numbers(self, form: str = "H") -> tuple[int, ...]:
        """Return the next list of numbers, which begins with how many there are."""
        form = f"!{self.number()}{form}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        """Return the next text; what is no UTF-8 is refused."""
        found = self.take(self._body.find(b"\0", self._at) - self._at)
        self.take(1)
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise WireError("22021", "expected texts in UTF-8, got other bytes") from None

    def name(self) -> str:
        """Return the next name of a statement or portal, which are short."""
        found = self.text()
        if len(found) > _LONGEST_NAME:
            raise WireError(
                "42622", f"expected a name of at most {_LONGEST_NAME} characters, got a longer one"
            )
        return found

    def values(self) -> list[bytes | None]:
        """Return the next values; None for NULL."""
        return self.sized(self.number())

    def sized(self, count: int) -> list[bytes | None]:
        """Return some values; None for NULL."""
        sizes = (self.number("!i") for _ in range(count))
        return [None if size == -1 else self.take(size) for size in sizes]


def statements(text: str) -> list[str]:
    """Return the statements of a text, without comments and without those that are empty."""
    if len(text) > LONGEST:
        raise WireError("54000", f"expected a statement of at most {LONGEST:,} characters, got {len(text):,}")
    parts, at = [""], 0
    for found in _PART.finditer(text):
        if found["blank"] or found["end"]:
            parts[-1] += text[at : found.start()] + (" " * len(found[0]) if found["blank"] else "")
            parts += [""] if found["end"] else []
            at = found.end()
    parts[-1] += text[at:]
    return [one for one in parts if one.strip()]


def parameters_of(text: str) -> int:
    """Return the greatest number of a parameter."""
    return max((int(found["number"]) for found in _PART.finditer(text) if found["number"]), default=0)


def with_parameters(text: str, values: Sequence[str]) -> str:
    """Return a statement with constants in place of its parameters."""
    numbers = [int(found["number"]) for found in _PART.finditer(text) if found["number"]]
    size = len(text) + sum(len(values[one - 1]) for one in numbers if 0 < one <= len(values))
    if size > LONGEST:
        raise _too_long(size)

    def constant(found: re.Match[str]) -> str:
        if found["number"] and not 0 < int(found["number"]) <= len(values):
            raise WireError("08P01", f"expected a value of the parameter {found[0]}, got none")
        return values[int(found["number"]) - 1] if found["number"] else found[0]

    return _PART.sub(constant, text)


def _too_long(size: int) -> WireError:
    told = f"expected a statement of at most {LONGEST:,} characters with its values, got {size:,} or more"
    return WireError("54000", told)


def constant_of(value: bytes | None, form: int, oid: int, kind: ColumnType) -> str:
    """Return the constant of SQL that stands for the value of a parameter.

    Args:
        value: as it was sent; None for NULL.
        form: 1 for binary.
        oid: the number of its type, as it was told; 0 where it was not.
    """
    if value is None:
        return "NULL"
    try:
        if (element := _ELEMENTS.get(oid or kind.oid)) is not None:
            parts, size = list[str](), 0
            for one in _elements(value, form):
                parts.append(constant_of(one, form, element, TEXT))
                size += len(parts[-1])
                if size > LONGEST:  # a short number may have many digits
                    raise _too_long(size)
            return f"ARRAY[{', '.join(parts)}]"
        text = _decoded(value, oid or kind.oid) if form else value.decode()
        text = day[1] if (day := _ZONED.fullmatch(text)) and kind in (DATE, TIMESTAMP) else text
        is_number = oid in _NUMBERS or oid == _NUMERIC
        if is_number or (kind in (INT8, FLOAT8) and _NUMBER.fullmatch(text)):
            plain = format(Decimal(text), "f") if _NUMBER.fullmatch(text) else None
            return f"({plain})" if plain and plain.startswith("-") else plain or _no_value()
        if BOOL.oid == (oid or kind.oid):
            return {"t": "TRUE", "1": "TRUE", "f": "FALSE", "0": "FALSE"}[text[:1].lower()]
        return "'" + text.replace("'", "''") + "'" if "\0" not in text else _no_value()
    except (ValueError, KeyError, ArithmeticError, struct.error):
        message = f"expected a value of the type {kind.title} for a parameter, got another"
        raise WireError("22P02", message, "send it as a text") from None


def _no_value() -> str:
    raise ValueError


def _elements(value: bytes, form: int) -> list[bytes | None]:
    """Return the values of a list, which has one dimension; None for NULL."""
    if not form:
        return _written_elements(value.decode())
    dimensions = struct.unpack("!3i", value[:12])[0]
    size = struct.unpack("!i", value[12:16])[0] if dimensions else 0
    if dimensions > 1:
        raise ValueError
    return Fields(value[20:]).sized(size)


def _written_elements(text: str) -> list[bytes | None]:
    """Return the values of a list such as ``{a,"b c",NULL}``, in time linear in its length."""
    found, at = list[bytes | None](), 0
    while one := _ELEMENT.match(text, at + 1):
        plain, at = one["plain"], one.end()
        part = one["quoted"] if plain is None else plain.strip()
        is_null = plain is not None and part.upper() == "NULL"
        found.append(None if is_null else re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL).encode())
        if text[at : at + 1] != ",":
            break
    if text != "{}" and (text[:1] != "{" or text[at:] != "}"):
        raise ValueError
    return found


def _decoded(value: bytes, oid: int) -> str:
    if oid in _NUMBERS:
        return repr(struct.unpack(_NUMBERS[oid], value)[0])
    if oid == BOOL.oid:
        return "f" if value == b"\0" else "t"
    if oid == DATE.oid:
        return str(_DAY + timedelta(days=struct.unpack("!i", value)[0]))
    if oid in (TIMESTAMP.oid, _TIMESTAMP_TZ):
        return str(_TIME + timedelta(microseconds=struct.unpack("!q", value)[0]))
    if oid == _NUMERIC:
        count, weight, sign, _ = struct.unpack("!HhHH", value[:8])
        digits = struct.unpack(f"!{count}H", value[8:])
        found = sum(
            (Decimal(one).scaleb(4 * (weight - place)) for place, one in enumerate(digits)), Decimal(0)
        )
        return str(-found if sign else found)
    return value.decode()


# --- what is sent -------------------------------------------------------------------------------------------

Encoder: TypeAlias = Callable[[Any], bytes]

_TEXT_FORMS: dict[ColumnType, Encoder] = {
    BOOL: lambda value: b"t" if value else b"f",
    INT8: lambda value: b"%d" % value,
    FLOAT8: lambda value: repr(float(value)).replace("inf", "Infinity").encode(),
    TIMESTAMP: lambda value: str(value).replace("T", " ").encode(),
}
_BINARY_FORMS: dict[ColumnType, Encoder] = {
    BOOL: lambda value: b"\1" if value else b"\0",
    INT8: lambda value: struct.pack("!q", value),
    FLOAT8: lambda value: struct.pack("!d", value),
    DATE: lambda value: struct.pack("!i", (_read(date, value) - _DAY).days),
    TIMESTAMP: lambda value: struct.pack("!q", (_read(datetime, value) - _TIME) // timedelta(microseconds=1)),
}


def _read(kind: type[_Day], value: Any) -> _Day:
    try:
        return kind.fromisoformat(str(value))
    except ValueError:
        message = "expected days of the years 1 to 9999, got another"
        raise WireError("22008", message, "ask for it as a text, by CAST(… AS TEXT)") from None


def _text_form(value: Any) -> bytes:
    if isinstance(value, list):
        return b"{" + b",".join(map(_text_form, value)) + b"}"
    return c_text("t" if value is True else "f" if value is False else str(value))[:-1]


def message(kind: bytes, *parts: bytes) -> bytes:
    """Return a message of some fields."""
    body = b"".join(parts)
    return kind + struct.pack("!I", len(body) + 4) + body


def c_text(text: str) -> bytes:
    """Return a text as a field."""
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def described(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """Return the description of rows."""
    parts = [
        c_text(name) + struct.pack("!IhIhih", 0, 0, kind.oid, kind.size, -1, form)
        for (name, kind), form in zip(columns, formats, strict=True)
    ]
    return message(b"T", struct.pack("!H", len(columns)), *parts)


def forms_of(columns: Sequence[Column], formats: Sequence[int]) -> list[int]:
    """Return the form of each column, 1 for binary: texts unless told, and one is that of all."""
    listed = [*formats] * len(columns) if len(formats) == 1 else [*formats] or [0] * len(columns)
    if len(listed) != len(columns) or not {*listed} <= {0, 1}:
        raise WireError("08P01", "expected the form of each column, 0 or 1, got others")
    return listed


def data(columns: Sequence[Column], formats: Sequence[int], rows: Iterable[Sequence[Any]]) -> Iterable[bytes]:
    """Yield the messages of rows."""
    forms = [(_BINARY_FORMS if form else _TEXT_FORMS).get(column.type, _text_form)
             for column, form in zip(columns, formats, strict=True)]  # fmt: skip
    head = struct.pack("!H", len(columns))
    for row in rows:
        parts = [head]
        for value, form in zip(row, forms, strict=True):
            empty = value is None or (type(value) is float and math.isnan(value))
            sent = b"" if empty else form(value)
            parts += [struct.pack("!i", -1 if empty else len(sent)), sent]
        yield message(b"D", *parts)


def notice(text: str) -> bytes:
    """Return a notice."""
    return _told(b"N", S="NOTICE", V="NOTICE", C="00000", M=text)


def refusal(error: WireError) -> bytes:
    """Return the message of an error."""
    severity, place = "FATAL" if error.is_last else "ERROR", str(error.position or "")
    return _told(b"E", S=severity, V=severity, C=error.state, M=str(error), H=error.hint, P=place)


def _told(kind: bytes, **fields: str) -> bytes:
    return message(kind, *(key.encode() + c_text(text) for key, text in fields.items() if text), b"\0")
