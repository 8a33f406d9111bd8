"""Lines of a schema: where its sections and keys stand, for messages about them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

# The parts of a TOML text that tell where a statement ends. A text in quotes is one part, whatever it holds.
# No possessive repeats: Python 3.11.2 matches too little with them.
_PARTS = re.compile(
    r'''
      """ (?: [^"\\] | \\. | "{1,2}(?!") )* "{3,5}
    | \'\'\' (?: [^'] | '{1,2}(?!') )* '{3,5}
    | " (?: [^"\\\n] | \\. )* "
    | ' [^'\n]* '
    | \# [^\n]*
    | [^"'\#\[\]{}=\n]+
    | .
    ''',
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class SchemaLines:
    """Where the keys of a schema stand, lines counted from 1.

    Args:
        top: keys outside of attributes; those of [person] as ``person.column``.
        headers: the [[attributes]] header of each attribute, in order.
        keys: the keys of each attribute, in order.
    """

    top: dict[str, int]
    headers: tuple[int, ...]
    keys: tuple[dict[str, int], ...]


def line_of(text: str, number: int | None, key: str | None) -> int | None:
    """Return the line of a key, or where it is absent, of the section that lacks it.

    Args:
        text: a schema that is TOML.
        number: of the attribute, from 0; None outside of attributes.
        key: the key, or ``person.column``; None for the section itself.

    Returns:
        The line, from 1; None where nothing in the text stands for it.
    """
    lines = schema_lines(text)
    if number is None:
        return None if key is None else lines.top.get(key, lines.top.get(key.partition(".")[0]))
    if number >= len(lines.headers):  # attributes = [{…}, …] has no headers
        return lines.top.get("attributes")
    return lines.keys[number].get(key or "", lines.headers[number])


def schema_lines(text: str) -> SchemaLines:
    """Return where the keys of a schema stand.

    Args:
        text: a schema that is TOML.
    """
    top: dict[str, int] = {}
    headers: list[int] = []
    keys: list[dict[str, int]] = []
    current: dict[str, int] | None = top
    section = ""
    for line, statement in _statements(text):
        if not statement.startswith("["):
            if current is not None:
                current.setdefault(section + _path(f"{statement} = 0")[0], line)
            continue
        path = _path(statement)
        section = "person." if path == ["person"] else ""
        current = top if section else None
        if path[0] == "attributes" and len(path) > 1 and keys:
            keys[-1].setdefault(path[1], line)  # [attributes.min] is the key min of the last attribute
            continue
        top.setdefault(path[0], line)
        if path == ["attributes"] and statement.startswith("[["):
            current = {}
            headers.append(line)
            keys.append(current)
    return SchemaLines(top, tuple(headers), tuple(keys))


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each statement with what stands before its equals sign: a key, or a whole header."""
    line = start = 1
    depth = 0  # of brackets in a value
    written, is_value = "", False
    for match in _PARTS.finditer(text):
        part = match.group()
        if part == "\n" and depth == 0:
            if written:
                yield start, written.strip()
            written, is_value = "", False
        elif is_value:
            depth += (part in "[{") - (part in "]}")
        elif part == "=":
            is_value = True
        elif not part.startswith("#") and (written or part.strip()):
            start = start if written else line
            written += part
        line += part.count("\n")
    if written:
        yield start, written.strip()


def _path(statement: str) -> list[str]:
    """Return the names of a key or a header, outermost first."""
    table = tomllib.loads(statement)
    names: list[str] = []
    while table:
        ((name, inner),) = table.items()
        names.append(name)
        inner = inner[-1] if isinstance(inner, list) else inner
        table = inner if isinstance(inner, dict) else {}
    return names
