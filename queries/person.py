"""Persons: the column that says whose a record is, and what is declared of it.

An id is read by its type, as any value is (``queries.plain_values``), and two records belong to one person
where their ids have the same canonical text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from queries.errors import DomainError
from queries.frozen import dataclass
from queries.plain_values import (
    LONGEST_NUMBER,
    Plain,
    canonical_value,
    is_encodable,
    shown_text,
    type_name,
    whole_text,
)

ID_KINDS = ("text", "integer")
EMPTY_IDS = ("drop", "person")
_MOST_RECORDS = 10**6
_WHOLE = re.compile(r"[ \t]*([+-]?[0-9]+)(?:\.0*)?[ \t]*")


@dataclass(frozen=True, slots=True)
class Person:
    """What tells which records belong to one person.

    Args:
        column: the name of the column of ids; no attribute.
        records: the most records of each person that are kept; None leaves it to whoever opens a session.
        ids: ``text``, where ids are one person's if they agree to the last character, or ``integer``, where
            equal whole numbers are (``7``, ``07`` and ``7.0``) and other ids drop their record.
        empty: what a record without an id is: ``drop`` drops it; ``person`` takes it for the only record of a
            person, which is a promise.
        constant: attributes that are the same in all records of a person, which is a promise.
        clips: attributes whose values are summed, and the most that all values of one person may come to,
            taken without their signs: beyond it they are scaled down together.

    Raises:
        DomainError: a choice is none of these.
    """

    column: str
    records: int | None = None
    ids: str = "text"
    empty: str = "drop"
    constant: tuple[str, ...] = ()
    clips: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not issubclass(type(self.constant), tuple | list):
            raise _fault("constant", f"names of attributes, got {shown_text(self.constant)}")
        object.__setattr__(self, "constant", tuple(self.constant))
        if not issubclass(type(self.column), str) or not self.column.isprintable() or not self.column:
            raise _fault("column", f"a printable name of a column, got {shown_text(self.column)}")
        records = self.records
        if records is not None and not (type(records) is int and 1 <= records <= _MOST_RECORDS):
            got = repr(records) if type(records) in (int, float, bool) else shown_text(records)
            raise _fault("records", f"a whole number from 1 to {_MOST_RECORDS:,}, got {got}")
        for key, known in (("ids", ID_KINDS), ("empty", EMPTY_IDS)):
            value = getattr(self, key)
            if type(value) is not str or value not in known:
                raise _fault(key, f"{' or '.join(map(repr, known))}, got {shown_text(value)}")

        for name, most in self.clips:
            is_number = type(most) in (int, float) and math.isfinite(most) and most > 0
            if not is_number:
                raise _fault(f"clip.{name}", f"a number above 0, got {shown_text(most)}")

    @property
    def clip(self) -> dict[str, float]:
        """The most that the values of one person may come to, by attribute."""
        return dict(self.clips)

    def id_of(self, value: object) -> str | None:
        """Return the canonical text of a person's id: empty for no id, None for one that drops its record."""
        plain = canonical_value(value)
        if plain is None or plain == "":
            return ""
        text = _whole(plain) if self.ids == "integer" else _text(plain)
        return text if text is None or text.isascii() or is_encodable(text) else None


def check_person(person: object, names: Sequence[str]) -> None:
    """Refuse what does not fit a table's attributes; None is nothing to refuse."""
    if person is None:
        return
    if not issubclass(type(person), Person):
        raise DomainError(f"expected a Person, got a {type_name(person)}")
    column, constants = person.column, person.constant  # type: ignore[attr-defined]  # by its type
    if column in names:
        raise _fault(
            "column",
            f"a column that is no attribute, got {column!r}, which is one; leave it out of the "
            "attributes, or copy it into a column of another name",
        )
    for key, listed in (("constant", constants), ("clip", person.clip)):  # type: ignore[attr-defined]
        for name in listed:
            if name not in names:
                raise _fault(key, f"names of attributes, got {shown_text(name)}")


def _text(plain: Plain) -> str | None:
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, float):
        # A column of whole numbers becomes one of floats where one value of it is empty.
        return whole_text(plain) or repr(plain)
    return str(plain) if isinstance(plain, str | int) else None


def _whole(plain: Plain) -> str | None:
    if isinstance(plain, str):
        found = _WHOLE.fullmatch(plain) if len(plain) <= LONGEST_NUMBER else None
        return None if found is None else str(int(found[1]))
    if isinstance(plain, float):
        return whole_text(plain)
    return str(plain) if isinstance(plain, int) and not isinstance(plain, bool) else None


def _fault(key: str, expected: str) -> DomainError:
    return DomainError(f"[person] {key}: expected {expected}")
