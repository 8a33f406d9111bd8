"""Schema files: a TOML text that declares a domain, read and written."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from queries.calendar import time_on_clock
from queries.cells import canonical_text, nearest
from queries.dates import DateAttribute, DatetimeAttribute
from queries.domain import Attribute, CategoricalAttribute, Domain
from queries.drafted import DRAFTED_FROM, require_digests
from queries.errors import DomainError, SchemaError
from queries.levels import Level
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.person import Person
from queries.schema_lines import line_of
from queries.value_files import read_parents, read_values

_FILES = {"values_file": "values", "parents_file": "parents"}  # each with the key that it fills
LARGEST_SCHEMA = 16 * 2**20  # bytes


def load_schema(path: str | Path) -> Domain:
    """Return the domain that a schema file declares.

    Raises:
        SchemaError: the file cannot be read, is not TOML, or does not describe a domain.
    """
    try:
        with open(path, "rb") as stream:
            raw = stream.read(LARGEST_SCHEMA + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise SchemaError(f"expected a readable schema file, got {path}: {reason}") from None
    if len(raw) > LARGEST_SCHEMA:
        raise SchemaError(f"{path}: expected a schema of at most {LARGEST_SCHEMA // 2**20} MB")
    try:
        return parse_schema(raw.decode("utf-8-sig"), Path(path).parent)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"expected UTF-8 text, got another byte at offset {error.start}"
        raise SchemaError(message, line=line, path=str(path)) from None
    except SchemaError as error:
        raise SchemaError(error.message, line=error.line, path=str(path)) from None


def parse_schema(text: str, folder: Path | None = None) -> Domain:
    """Return the domain that a TOML text declares.

    Args:
        text: TOML.
        folder: where files lie that the text names; None refuses such a text.

    Raises:
        SchemaError: the text is not TOML or does not describe a domain.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(text, str(error)) from None
    except ValueError:
        raise SchemaError("expected TOML: a number has too many digits") from None
    except RecursionError:
        raise SchemaError("expected TOML: brackets are nested too deeply") from None
    try:
        return _domain(table, folder)
    except _FaultError as fault:
        raise SchemaError(fault.message, line=line_of(text, fault.number, fault.key)) from None


class _FaultError(Exception):
    """What is wrong with a schema, and where.

    Args:
        message: what was expected, what came, what to do next.
        number: of the attribute, from 0; None outside of attributes.
        key: the key that is wrong; None for the whole attribute.
    """

    def __init__(self, message: str, number: int | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.message, self.number, self.key = message, number, key


def _not_toml(text: str, reason: str) -> SchemaError:
    """Return the error of a text that is no TOML, with the line that the parser names."""
    place = re.search(r" \(at line ([0-9]+), column ([0-9]+)\)$", reason)
    if place:
        reason = f"{reason[: place.start()]} (column {place[2]})"
        return SchemaError(f"expected TOML: {reason}", line=int(place[1]))
    ends = reason.endswith("(at end of document)")
    return SchemaError(f"expected TOML: {reason}", line=text.count("\n") + 1 if ends else None)


def _domain(table: Mapping[str, Any], folder: Path | None) -> Domain:
    _refuse_unknown(table, ("name", "person", "attributes", DRAFTED_FROM), "the schema", None)
    entries = table.get("attributes")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        came = "another kind of value" if "attributes" in table else "none"
        raise _FaultError(f"expected one [[attributes]] section per attribute, got {came}", key="attributes")
    attributes = []
    for number, entry in enumerate(entries):
        try:
            attributes.append(_attribute(entry, number, folder))
        except DomainError as error:
            message = (
                str(error) if str(error).startswith("attribute ") else f"{_called(entry, number)}: {error}"
            )
            raise _FaultError(message, number, error.key) from None
    try:
        require_digests(table.get(DRAFTED_FROM, []))
        return Domain(tuple(attributes), table.get("name", "records"), _person(table.get("person")))
    except DomainError as error:
        if error.key is not None:
            raise _FaultError(str(error), None, error.key) from None
        raise _FaultError(str(error), _repeated(attributes), "name") from None


_PERSON_KEYS = ("column", "records", "ids", "empty", "constant")


def _person(entry: object) -> Person | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or "column" not in entry:
        raise _FaultError("[person] needs the key 'column', the name of the column of ids", key="person")
    _refuse_unknown(entry, _PERSON_KEYS, "[person]", None, "person.")
    constant = entry.get("constant", [])
    if not isinstance(constant, list):
        raise _FaultError(f"[person] constant must be a list, got {constant!r}", key="person.constant")
    return Person(**{**entry, "constant": tuple(constant)})


def _called(entry: Mapping[str, Any], number: int) -> str:
    """Return how messages call an attribute: by its name where it has one."""
    name = entry.get("name")
    return f"attribute {name!r}" if isinstance(name, str) and name else f"attribute {number + 1}"


def _repeated(attributes: Sequence[Attribute]) -> int | None:
    """Return the first attribute whose name an earlier one has, or None."""
    seen = set()
    for number, attribute in enumerate(attributes):
        if attribute.name in seen:
            return number
        seen.add(attribute.name)
    return None


def save_schema(domain: Domain, path: str | Path) -> None:
    """Write a domain as a schema file."""
    Path(path).write_text(format_schema(domain), encoding="utf-8")


def format_schema(domain: Domain) -> str:
    """Return the TOML text that declares a domain; ``parse_schema`` gives the domain back."""
    lines = [f"name = {_quoted(domain.name)}", *_format_person(domain.person)]
    for attribute in domain:
        lines += ["", "[[attributes]]", f"name = {_quoted(attribute.name)}"]
        lines += _FORMATS[type(attribute)](attribute)
        lines += [f"{flag} = true" for flag in ("missing", "other") if getattr(attribute, flag)]
    return "\n".join(lines) + "\n"


def _format_person(person: Person | None) -> list[str]:
    if person is None:
        return []
    lines = ["", "[person]", f"column = {_quoted(person.column)}"]
    if person.records is not None:
        lines.append(f"records = {person.records}")
    lines += [f"{key} = {_quoted(getattr(person, key))}" for key in ("ids", "empty")]
    if person.constant:
        lines.append(f"constant = [{', '.join(map(_quoted, person.constant))}]")
    return lines


def _refuse_unknown(
    table: Mapping[str, Any], known: tuple[str, ...], owner: str, number: int | None, section: str = ""
) -> None:
    for key in table:
        if key not in known:
            listed = ", ".join(known)
            raise _FaultError(
                f"{owner} knows the keys {listed}, got {key!r}{_key_hint(key, known)}", number, section + key
            )


def _key_hint(key: str, known: tuple[str, ...]) -> str:
    """Return what a key that is not known was perhaps meant to be: another key, or one of another kind."""
    if key == "type" and "kind" in known:
        return "; did you mean 'kind'?"
    kinds = [kind for kind, (_, required, optional) in _KINDS.items() if key in (*required, *optional)]
    if kinds and "kind" in known:
        return f"; {key!r} is for kind = {' or '.join(map(repr, kinds))}"
    return nearest(key, known)


def _attribute(entry: Mapping[str, Any], number: int, folder: Path | None) -> Attribute:
    kind, called = entry.get("kind"), _called(entry, number)
    if not isinstance(kind, str) or kind not in _KINDS:
        hint = nearest(kind, tuple(_KINDS)) if isinstance(kind, str) else ""
        if kind is None and "type" in entry:
            hint = "; did you mean 'kind' where 'type' stands?"
        raise _FaultError(f"{called}: expected kind = {_KINDS_LISTED}, got {kind!r}{hint}", number, "kind")
    build, required, optional = _KINDS[kind]
    known = ("name", "kind", *required, *optional, "missing", "other")
    _refuse_unknown(entry, known, f"{called}: kind {kind!r}", number)
    for key in ("name", *required):
        if key not in entry:
            raise _FaultError(f"{called}: kind {kind!r} needs the key {key!r}", number)
    if kind == "categorical" and not {"values", "values_file", "parents_file"} & set(entry):
        raise _FaultError(f"{called}: kind {kind!r} needs the key 'values'", number)
    for key in ("edges", "atoms", "values"):
        if key in entry and not isinstance(entry[key], list):
            raise _FaultError(f"{called}: {key} must be a list, got {entry[key]!r}", number, key)
    return build(_with_files(entry, folder))


def _integer(entry: Mapping[str, Any]) -> Attribute:
    return IntegerAttribute(entry["name"], entry["min"], entry["max"], entry.get("width", 1), **_flags(entry))


def _numeric(entry: Mapping[str, Any]) -> Attribute:
    options = {key: entry[key] for key in ("atoms", "integer") if key in entry}
    return NumericAttribute(entry["name"], tuple(entry["edges"]), **options, **_flags(entry))


def _date(entry: Mapping[str, Any]) -> Attribute:
    options = {key: entry[key] for key in ("width", "format") if key in entry}
    return DateAttribute(entry["name"], entry["min"], entry["max"], **options, **_flags(entry))


def _datetime(entry: Mapping[str, Any]) -> Attribute:
    options = {key: entry[key] for key in ("width", "zone", "format") if key in entry}
    zone = entry.get("zone", "UTC")
    low = _time(entry["min"], zone, datetime.time())
    high = _time(entry["max"], zone, datetime.time(23, 59, 59))
    return DatetimeAttribute(entry["name"], low, high, **options, **_flags(entry))


def _time(value: Any, zone: Any, of_day: datetime.time) -> Any:
    """Return a time without a zone where a date or a time with one stands; a date is a time of that day."""
    if type(value) is datetime.date:
        return datetime.datetime.combine(value, of_day)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None and isinstance(zone, str):
        return time_on_clock(value, zone)
    return value


def _categorical(entry: Mapping[str, Any]) -> Attribute:
    values, levels = entry.get("values"), entry.get("levels", [])
    if not isinstance(levels, list):
        raise DomainError(f"levels must be a list, got {levels!r}", key="levels")
    parents = entry.get("parents", {})
    if not isinstance(parents, dict) or not all(isinstance(listed, list) for listed in parents.values()):
        raise DomainError('parents must be a table of lists, such as { chapter = ["A", "A"] }', key="parents")
    listed = [*levels, *(Level(name, tuple(column)) for name, column in parents.items())]
    return CategoricalAttribute(entry["name"], tuple(values or ()), levels=tuple(listed), **_flags(entry))


def _with_files(entry: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    """Return what a section declares with the files that it names read in.

    Raises:
        DomainError: a file cannot be read or contradicts the section, or there is no folder to read it from.
    """
    filled = {key: value for key, value in entry.items() if key not in _FILES}
    for key, fills in _FILES.items():
        if key not in entry:
            continue
        if not isinstance(entry[key], str) or not entry[key]:
            raise DomainError(f"{key} must be the name of a file, got {entry[key]!r}", key=key)
        if folder is None:
            raise DomainError(f"{key} is read beside a schema file; load the schema from its file", key=key)
        if fills in entry:
            raise DomainError(f"{fills} and {key} declare the same; give one of them", key=key)
        try:
            if key == "values_file":
                filled["values"] = list(read_values(folder / entry[key]))
            else:
                filled.update(_with_parents(filled, folder / entry[key]))
        except ValueError as error:
            raise DomainError(str(error), key=key) from None
    return filled


def _with_parents(filled: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values and parents of a file, which holds a line for each value and for no other."""
    texts, columns = read_parents(path)
    values = filled.get("values", list(texts))
    places = {text: place for place, text in enumerate(texts)}
    declared = {canonical_text(value) for value in values if isinstance(value, str | int)}
    for text in sorted(declared ^ set(texts), key=str):
        what = (
            "no line, hence no parent, for the value"
            if text in declared
            else "a line for the undeclared value"
        )
        raise ValueError(f"{path}: {what} {text[:60]!r}")
    order = [places[canonical_text(value)] for value in values]
    return {
        "values": values,
        "parents": {name: [column[at] for at in order] for name, column in columns.items()},
    }


def _flags(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {flag: entry[flag] for flag in ("missing", "other") if flag in entry}


_KINDS: dict[str, tuple[Callable[[Mapping[str, Any]], Attribute], tuple[str, ...], tuple[str, ...]]] = {
    "integer": (_integer, ("min", "max"), ("width",)),
    "numeric": (_numeric, ("edges",), ("atoms", "integer")),
    "categorical": (_categorical, (), ("values", "values_file", "levels", "parents", "parents_file")),
    "date": (_date, ("min", "max"), ("width", "format")),
    "datetime": (_datetime, ("min", "max"), ("width", "zone", "format")),
}


_KINDS_LISTED = ", ".join(list(_KINDS)[:-1]) + f" or {list(_KINDS)[-1]}"


def _format_integer(attribute: IntegerAttribute) -> list[str]:
    lines = ['kind = "integer"', f"min = {attribute.minimum}", f"max = {attribute.maximum}"]
    return lines if attribute.width == 1 else [*lines, f"width = {attribute.width}"]


def _format_numeric(attribute: NumericAttribute) -> list[str]:
    listed = {"edges": attribute.edges, **({"atoms": attribute.atoms} if attribute.atoms else {})}
    lines = [f"{key} = [{', '.join(map(repr, numbers))}]" for key, numbers in listed.items()]
    return ['kind = "numeric"', *lines, *(["integer = true"] if attribute.integer else [])]


def _format_date(attribute: DateAttribute) -> list[str]:
    return ['kind = "date"', *_period_lines(attribute)]


def _format_datetime(attribute: DatetimeAttribute) -> list[str]:
    return ['kind = "datetime"', *_period_lines(attribute), f"zone = {_quoted(attribute.zone)}"]


def _period_lines(attribute: DateAttribute | DatetimeAttribute) -> list[str]:
    ends = [f"min = {attribute.minimum.isoformat()}", f"max = {attribute.maximum.isoformat()}"]
    form = [] if attribute.format is None else [f"format = {_quoted(attribute.format)}"]
    return [*ends, f"width = {_quoted(attribute.width)}", *form]


def _format_categorical(attribute: CategoricalAttribute) -> list[str]:
    values = ", ".join(
        _quoted(value) if isinstance(value, str) else str(value).lower() for value in attribute.values
    )
    prefixes = [str(level.prefix) for level in attribute.levels if level.prefix is not None]
    lines = [f"levels = [{', '.join(prefixes)}]"] if prefixes else []
    for level in attribute.levels:
        if level.prefix is None:
            listed = ", ".join(map(_quoted, level.parents))
            lines.append(f"parents.{_quoted(level.name)} = [{listed}]")
    return ['kind = "categorical"', f"values = [{values}]", *lines]


_FORMATS: dict[type, Callable[[Any], list[str]]] = {
    IntegerAttribute: _format_integer,
    NumericAttribute: _format_numeric,
    CategoricalAttribute: _format_categorical,
    DateAttribute: _format_date,
    DatetimeAttribute: _format_datetime,
}


def _quoted(text: str) -> str:
    # A JSON string is a TOML basic string, except for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
