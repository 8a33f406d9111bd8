"""Schema files: a TOML text that declares a domain, read and written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from queries.domain import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    nearest,
)
from queries.errors import DomainError, SchemaError

__all__ = [
    "format_schema",
    "load_schema",
    "parse_schema",
    "save_schema",
]

_LARGEST_FILE = 16 * 2**20  # bytes


def load_schema(path: str | Path) -> Domain:
    """Return the domain that a schema file declares.

    Raises:
        SchemaError: the file cannot be read, is not TOML, or does not describe a domain.
    """
    try:
        with open(path, "rb") as stream:
            raw = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise SchemaError(f"expected a readable schema file, got {path}: {reason}") from None
    if len(raw) > _LARGEST_FILE:
        raise SchemaError(f"{path}: expected a schema of at most {_LARGEST_FILE // 2**20} MB")
    try:
        return parse_schema(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: expected UTF-8 text, got another byte at offset {error.start}") from None
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def parse_schema(text: str) -> Domain:
    """Return the domain that a TOML text declares.

    Raises:
        SchemaError: the text is not TOML or does not describe a domain.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of too many digits
        raise SchemaError(f"expected TOML: {error}") from None
    _refuse_unknown(table, ("name", "attributes"), "the schema")
    entries = table.get("attributes")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SchemaError("expected one [[attributes]] section per attribute, got none")
    lines = _section_lines(text)
    attributes = []
    for number, entry in enumerate(entries):
        where = f"attribute {number + 1}"
        if number < len(lines):
            where += f" (line {lines[number]})"
        try:
            attributes.append(_attribute(entry))
        except (DomainError, SchemaError) as error:
            raise SchemaError(f"{where}: {error}") from None
    try:
        return Domain(tuple(attributes), name=table.get("name", "records"))
    except DomainError as error:
        raise SchemaError(str(error)) from None


def save_schema(domain: Domain, path: str | Path) -> None:
    """Write a domain as a schema file."""
    Path(path).write_text(format_schema(domain), encoding="utf-8")


def format_schema(domain: Domain) -> str:
    """Return the TOML text that declares a domain; ``parse_schema`` gives the domain back."""
    lines = [f"name = {_quoted(domain.name)}"]
    for attribute in domain:
        lines += ["", "[[attributes]]", f"name = {_quoted(attribute.name)}"]
        lines += _FORMATS[type(attribute)](attribute)
        lines += [f"{flag} = true" for flag in ("missing", "other") if getattr(attribute, flag)]
    return "\n".join(lines) + "\n"


def _section_lines(text: str) -> list[int]:
    """Return the line of each [[attributes]] header, for messages."""
    lines = text.split("\n")
    return [
        number
        for number, line in enumerate(lines, start=1)
        if line.split("#")[0].replace(" ", "").replace("\t", "") == "[[attributes]]"
    ]


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], owner: str) -> None:
    for key in table:
        if key not in known:
            raise SchemaError(f"{owner} knows the keys {', '.join(known)}, got {key!r}{nearest(key, known)}")


def _attribute(entry: Mapping[str, Any]) -> Attribute:
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(f"expected kind = integer, numeric or categorical, got {kind!r}")
    build, required, optional = _KINDS[kind]
    _refuse_unknown(entry, ("name", "kind", *required, *optional, "missing", "other"), f"kind {kind!r}")
    for key in ("name", *required):
        if key not in entry:
            raise SchemaError(f"kind {kind!r} needs the key {key!r}")
    for key in ("edges", "values"):
        if key in entry and not isinstance(entry[key], list):
            raise SchemaError(f"{key} must be a list, got {entry[key]!r}")
    return build(entry)


def _integer(entry: Mapping[str, Any]) -> Attribute:
    return IntegerAttribute(entry["name"], entry["min"], entry["max"], entry.get("width", 1), **_flags(entry))


def _numeric(entry: Mapping[str, Any]) -> Attribute:
    return NumericAttribute(entry["name"], tuple(entry["edges"]), **_flags(entry))


def _categorical(entry: Mapping[str, Any]) -> Attribute:
    return CategoricalAttribute(entry["name"], tuple(entry["values"]), **_flags(entry))


def _flags(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {flag: entry[flag] for flag in ("missing", "other") if flag in entry}


_KINDS: dict[str, tuple[Callable[[Mapping[str, Any]], Attribute], tuple[str, ...], tuple[str, ...]]] = {
    "integer": (_integer, ("min", "max"), ("width",)),
    "numeric": (_numeric, ("edges",), ()),
    "categorical": (_categorical, ("values",), ()),
}


def _format_integer(attribute: IntegerAttribute) -> list[str]:
    lines = ['kind = "integer"', f"min = {attribute.minimum}", f"max = {attribute.maximum}"]
    return lines if attribute.width == 1 else [*lines, f"width = {attribute.width}"]


def _format_numeric(attribute: NumericAttribute) -> list[str]:
    edges = ", ".join(repr(edge) for edge in attribute.edges)
    return ['kind = "numeric"', f"edges = [{edges}]"]


def _format_categorical(attribute: CategoricalAttribute) -> list[str]:
    values = ", ".join(
        _quoted(value) if isinstance(value, str) else str(value).lower() for value in attribute.values
    )
    return ['kind = "categorical"', f"values = [{values}]"]


_FORMATS: dict[type, Callable[[Any], list[str]]] = {
    IntegerAttribute: _format_integer,
    NumericAttribute: _format_numeric,
    CategoricalAttribute: _format_categorical,
}


def _quoted(text: str) -> str:
    # A JSON string is a TOML basic string, except for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
