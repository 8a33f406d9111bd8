"""Schema files: a TOML text that declares a domain, read and written, and the files of values beside it.

A file of values holds one value a line. A file of parents is CSV: its first line names the levels, its first
column holds the values, and each further column the parent of that value in one level. The file of a lookup
is CSV too: the column of the keys, then what they are called.
"""

from __future__ import annotations

import datetime
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from queries.categories import CategoricalAttribute, Level
from queries.cells import canonical_text, nearest
from queries.dates import (
    DateAttribute,
    DatetimeAttribute,
    TimeAttribute,
    clock_time,
    read_clock,
    time_on_clock,
)
from queries.domain import Attribute, Domain
from queries.errors import DomainError, SchemaError
from queries.lookups import Lookup
from queries.numbers import IntegerAttribute, NumberCells, NumericAttribute
from queries.parsing import rule_out
from queries.person import Person

_Read = TypeVar("_Read")

LARGEST_SCHEMA = 16 * 2**20  # bytes
_LARGEST_FILE = 64 * 2**20  # bytes, of values or parents
_FILES = {"values_file": "values", "parents_file": "parents"}  # each with the key that it fills
_DRAFTED_FROM = "drafted_from"  # the key of digests of a table that the domain's values were read off
_OF_FILES: dict[str, type] = {  # of a CSV file, each with its type
    "delimiter": str, "quote": str, "missing_text": list, "trim": bool, "encoding": str, "decimal": str,
    "escape": str,
}  # fmt: skip
_OF_PERSONS = ("column", "records", "ids", "empty", "constant", "clip")
_MOST_DOTS = 4  # of a key; those of a schema have two
_MOST_PARTS = 2**20  # keys and lists of a text; each takes up to about 150 bytes in memory
_TABLE = 64  # of them that a section, an inline table or a dot of a key counts as
# Texts and comments, as TOML knows them, also those that do not end.
_QUOTED = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)|"(?:[^"\\\n]|\\.)*+"?'''
    r"""|'''(?:[^']|'(?!''))*+(?:'''|\Z)|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
_NAMED = re.compile(r"^[ \t]*+\[[^\n]*+|[^\n,{}=\[\]]++=?", re.MULTILINE)  # sections, keys and values
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def load_schema(path: str | Path) -> Domain:
    """Return the domain that a schema file declares.

    Raises:
        SchemaError: the file cannot be read, is not TOML, or does not describe a domain.
    """
    return _loaded(path, lambda text: parse_schema(text, Path(path).parent))


def _loaded(path: str | Path, read: Callable[[str], _Read]) -> _Read:
    text = _read_text(Path(path), "schema file", LARGEST_SCHEMA)
    try:
        return read(text)
    except SchemaError as error:
        raise SchemaError(error.message, line=error.line, path=str(path)) from None


def load_drafted_from(path: str | Path) -> tuple[str, ...]:
    """Return the digests in a schema file by which a table is known again; none where there are none.

    It is the table that a draft read its values off.
    """
    return tuple(_table(_read_text(Path(path), "schema file", LARGEST_SCHEMA)).get(_DRAFTED_FROM, ()))


def load_file_facts(path: str | Path) -> dict[str, Any]:
    """Return how a schema file says that the table's CSV file is written; empty where it does not."""
    return _loaded(path, lambda text: _file_facts(_table(text)))


def _file_facts(table: Mapping[str, Any]) -> dict[str, Any]:
    facts = table.get("file", {})
    if not isinstance(facts, dict):
        raise SchemaError(f'expected a section [file] with keys such as delimiter = ";", got {facts!r}')
    _refuse_unknown(facts, tuple(_OF_FILES), "[file]")
    for key, value in facts.items():
        listed = value if isinstance(value, list) else []
        if type(value) is not _OF_FILES[key] or not all(isinstance(one, str) for one in listed):
            kind = {str: "a text", list: "a list of texts", bool: "true or false"}[_OF_FILES[key]]
            raise SchemaError(f"[file] {key} must be {kind}, got {value!r}")
    return facts


def parse_schema(text: str, folder: Path | None = None) -> Domain:
    """Return the domain that a TOML text declares.

    Args:
        text: TOML. Numbers whose section tells no resolution have their usual one.
        folder: where files lie that the text names; None refuses such a text.

    Raises:
        SchemaError: the text is too long, is not TOML or does not describe a domain.
    """
    return _domain(_table(text), folder)


def parse_stored(text: str) -> Domain:
    """Return the domain of a text that ``stored_schema`` wrote; a resolution is as it was written."""
    return _domain(_table(text), None, is_stored=True)


def _table(text: str) -> dict[str, Any]:
    """Return what a TOML text says, whoever wrote it: what is made of it in memory has a bound."""
    import tomllib  # late: it takes as long to load as numbers and conditions together

    _require_few_parts(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(text, str(error)) from None
    except ValueError:
        raise SchemaError("expected TOML: a number has too many digits") from None
    except RecursionError:
        raise SchemaError("expected TOML: brackets are nested too deeply") from None


def _require_few_parts(text: str) -> None:
    """Refuse a text of which a parser would make too much: it keeps each beginning of a key with dots."""
    if len(text) > LARGEST_SCHEMA:
        raise SchemaError(f"expected a schema of at most {LARGEST_SCHEMA // 2**20} MB")
    bare = _QUOTED.sub('""', text)
    tables = bare.count("{")
    for named in _NAMED.finditer(bare):
        is_section, dots = named[0].lstrip()[:1] == "[", named[0].count(".")
        if is_section or named[0][-1] == "=":
            tables += is_section + dots
            if dots > _MOST_DOTS:
                raise SchemaError(f"expected keys with at most {_MOST_DOTS} dots; a name stands in quotes")
    if _TABLE * tables + bare.count("[") + bare.count("=") > _MOST_PARTS:
        raise SchemaError(
            f"expected a schema of fewer parts: {tables:,} sections, inline tables and dots in keys; name "
            "long lists by values_file and parents_file"
        )


def _read_text(path: Path, what: str, largest: int) -> str:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(largest + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise SchemaError(f"expected a readable {what}, got {path}: {reason}") from None
    if len(raw) > largest:
        raise SchemaError(f"expected a {what} of at most {largest // 2**20} MB", path=str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"expected UTF-8 text, got another byte at offset {error.start}"
        raise SchemaError(message, line=raw.count(b"\n", 0, error.start) + 1, path=str(path)) from None


def _not_toml(text: str, reason: str) -> SchemaError:
    place = re.search(r" \(at line ([0-9]+), column ([0-9]+)\)$", reason)
    if place:
        reason = f"{reason[: place.start()]} (column {place[2]})"
        return SchemaError(f"expected TOML: {reason}", line=int(place[1]))
    ends = reason.endswith("(at end of document)")
    return SchemaError(f"expected TOML: {reason}", line=text.count("\n") + 1 if ends else None)


def _domain(table: Mapping[str, Any], folder: Path | None, *, is_stored: bool = False) -> Domain:
    known = ("name", "person", "lookups", "attributes", "impossible", _DRAFTED_FROM)
    _refuse_unknown(table, known if is_stored else (*known, "file"), "the schema")
    _file_facts(table)
    entries = table.get("attributes")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        came = "another kind of value" if "attributes" in table else "none"
        raise SchemaError(f"expected one [[attributes]] section per attribute, got {came}")
    attributes = []
    for number, entry in enumerate(entries, 1):
        name = entry.get("name")
        called = f"attribute {name!r}" if isinstance(name, str) and name else f"attribute {number}"
        try:
            attribute = _attribute(entry, called, folder)
            if not is_stored and "resolution" not in entry and isinstance(attribute, NumberCells):
                attribute = replace(attribute, resolution=attribute.usual_resolution)
            attributes.append(attribute)
        except DomainError as error:
            told = str(error).startswith("attribute ")
            raise SchemaError(str(error) if told else f"{called}: {error}") from None
    digests = table.get(_DRAFTED_FROM, [])
    if not isinstance(digests, list) or not all(
        isinstance(one, str) and _DIGEST.fullmatch(one) for one in digests
    ):
        raise SchemaError(
            f"{_DRAFTED_FROM} must be the list of digests that a draft wrote; copy it whole, or leave it out"
        )
    try:
        lookups = _lookups(table.get("lookups", {}), folder)
        person, name = _person(table.get("person")), table.get("name", "records")
        domain = Domain(tuple(attributes), name, person, lookups)
        return rule_out(domain, *_impossible(table["impossible"])) if "impossible" in table else domain
    except DomainError as error:
        raise SchemaError(str(error)) from None


def _impossible(entries: object) -> tuple[str, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SchemaError('expected one [[impossible]] section per condition, with where = "..."')
    for entry in entries:
        _refuse_unknown(entry, ("where",), "[[impossible]]")
        if "where" not in entry:
            raise SchemaError("[[impossible]] needs the key 'where', a condition that no record satisfies")
    return tuple(entry["where"] for entry in entries)


def _person(entry: object) -> Person | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or "column" not in entry:
        raise SchemaError("[person] needs the key 'column', the name of the column of ids")
    _refuse_unknown(entry, _OF_PERSONS, "[person]")
    constant = entry.get("constant", [])
    if not isinstance(constant, list):
        raise SchemaError(f"[person] constant must be a list, got {constant!r}")
    clips = entry.get("clip", {})
    if not isinstance(clips, dict):
        raise SchemaError(f"[person] clip must be a table such as clip.amount = 10000, got {clips!r}")
    given = {key: value for key, value in entry.items() if key != "clip"}
    return Person(**{**given, "constant": tuple(constant), "clips": tuple(clips.items())})


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], owner: str) -> None:
    for key in table:
        if key not in known:
            hint = _key_hint(key, known)
            raise SchemaError(f"{owner} knows the keys {', '.join(known)}, got {key!r}{hint}")


def _key_hint(key: str, known: tuple[str, ...]) -> str:
    if key == "type" and "kind" in known:
        return "; did you mean 'kind'?"
    kinds = [kind for kind, (_, required, optional) in _KINDS.items() if key in (*required, *optional)]
    if kinds and "kind" in known:
        return f"; {key!r} is for kind = {' or '.join(map(repr, kinds))}"
    return nearest(key, known)


# --- attributes ---------------------------------------------------------------------------------------------


def _attribute(entry: Mapping[str, Any], called: str, folder: Path | None) -> Attribute:
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        hint = nearest(kind, tuple(_KINDS)) if isinstance(kind, str) else ""
        if kind is None and "type" in entry:
            hint = "; did you mean 'kind' where 'type' stands?"
        *kinds, last = _KINDS
        raise SchemaError(f"{called}: expected kind = {', '.join(kinds)} or {last}, got {kind!r}{hint}")
    made, required, optional = _KINDS[kind]
    known = ("name", "kind", *required, *optional, "missing", "other")
    _refuse_unknown(entry, known, f"{called}: kind {kind!r}")
    for key in ("name", *required):
        if key not in entry:
            raise SchemaError(f"{called}: kind {kind!r} needs the key {key!r}")
    if kind == "categorical" and not {"values", "values_file", "parents_file"} & set(entry):
        raise SchemaError(f"{called}: kind {kind!r} needs the key 'values'")
    for key in ("edges", "atoms", "values"):
        if key in entry and not isinstance(entry[key], list):
            raise SchemaError(f"{called}: {key} must be a list, got {entry[key]!r}")
    given = _PREPARED[kind](_with_files(entry, folder))
    return made(**{_FIELDS.get(key, key): value for key, value in given.items() if key != "kind"})


def _of_numbers(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, **({"resolution": None} if entry.get("resolution") is False else {})}


def _of_dates(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "min": _unquoted(entry["min"]), "max": _unquoted(entry["max"])}


def _of_times(entry: Mapping[str, Any]) -> dict[str, Any]:
    given, zone = _of_dates(entry), entry.get("zone", "UTC")
    ends = (("min", datetime.time()), ("max", datetime.time(23, 59, 59)))
    return {**given, **{key: _time(given[key], zone, of_day) for key, of_day in ends}}


def _of_clocks(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return ends that are texts as times of day; the last one is a whole minute where it has no seconds."""
    given = dict(entry)
    for key, rest in (("min", 0), ("max", 59)):
        second = read_clock(entry[key])
        if second is not None:
            given[key] = clock_time(second + (rest if entry[key].count(":") == 1 else 0))
    return given


def _unquoted(value: Any) -> Any:
    """Return the date or time that a text in quotes says by ISO 8601; else the value itself."""
    for kind in (datetime.date, datetime.datetime) if isinstance(value, str) else ():
        with suppress(ValueError):
            return kind.fromisoformat(value)
    return value


def _time(value: Any, zone: Any, of_day: datetime.time) -> Any:
    """Return a time without a zone where a date or a time with one stands; a date is a time of that day."""
    if type(value) is datetime.date:
        return datetime.datetime.combine(value, of_day)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None and isinstance(zone, str):
        return time_on_clock(value, zone)
    return value


def _of_values(entry: Mapping[str, Any]) -> dict[str, Any]:
    given = {"values": (), **entry}
    levels, parents = given.get("levels", []), given.pop("parents", {})
    if not isinstance(levels, list):
        raise DomainError(f"levels must be a list, got {levels!r}")
    if not isinstance(parents, dict) or not all(isinstance(listed, list) for listed in parents.values()):
        raise DomainError('parents must be a table of lists, such as { chapter = ["A", "A"] }')
    return {**given, "levels": [*levels, *(Level(name, tuple(one)) for name, one in parents.items())]}


# Of each kind its class, the keys that it needs, and others that it knows.
_KINDS: dict[str, tuple[Callable[..., Attribute], tuple[str, ...], tuple[str, ...]]] = {
    "integer": (IntegerAttribute, ("min", "max"), ("width", "resolution")),
    "numeric": (NumericAttribute, ("edges",), ("atoms", "integer", "resolution")),
    "categorical": (CategoricalAttribute, (), ("values", "values_file", "levels", "parents", "parents_file")),
    "date": (DateAttribute, ("min", "max"), ("width", "format")),
    "datetime": (DatetimeAttribute, ("min", "max"), ("width", "zone", "format")),
    "time": (TimeAttribute, ("min", "max"), ("width",)),
}
_FIELDS = {"min": "minimum", "max": "maximum"}  # where they are not called like a key
_PREPARED: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "integer": _of_numbers, "numeric": _of_numbers, "categorical": _of_values, "date": _of_dates,
    "datetime": _of_times, "time": _of_clocks,
}  # fmt: skip


# --- files beside a schema ----------------------------------------------------------------------------------


def _with_files(entry: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    filled = {key: value for key, value in entry.items() if key not in _FILES}
    for key, fills in _FILES.items():
        if key not in entry:
            continue
        if not isinstance(entry[key], str) or not entry[key]:
            raise DomainError(f"{key} must be the name of a file, got {entry[key]!r}")
        if folder is None:
            raise DomainError(f"{key} is read beside a schema file; load the schema from its file")
        if fills in entry:
            raise DomainError(f"{fills} and {key} declare the same; give one of them")
        try:
            if key == "values_file":
                filled["values"] = list(_read_values(folder / entry[key]))
            else:
                filled.update(_with_parents(filled, folder / entry[key]))
        except ValueError as error:
            raise DomainError(str(error)) from None
    return filled


def _read_values(path: Path) -> tuple[str, ...]:
    lines = _read_text(path, "file", _LARGEST_FILE).split("\n")
    if lines[-1] == "":
        del lines[-1]
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        value = line.removesuffix("\r")
        if value == "":
            raise ValueError(f"{path}, line {number}: expected a value, got an empty line")
        if value in found:
            raise ValueError(
                f"{path}, line {number}: {value[:60]!r} stands there twice, first in line {found[value]}"
            )
        found[value] = number
    if not found:
        raise ValueError(f"{path}: expected one value a line, got none")
    return tuple(found)


def _with_parents(filled: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values and parents of a file, which holds a line for each value and for no other."""
    (_, *levels), parents = _read_table(path, "code,chapter", _wrong_parents)
    values = filled.get("values", list(parents))
    declared = {canonical_text(value) for value in values if isinstance(value, str | int)}
    for text in sorted(declared ^ set(parents), key=str):
        kind = "no line, hence no parent, for the" if text in declared else "a line for the undeclared"
        raise ValueError(f"{path}: {kind} value {text[:60]!r}")
    rows = [parents[canonical_text(value)] for value in values]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(levels)}
    return {"values": values, "parents": columns}


def _read_table(
    path: Path, example: str, wrong_row: Callable[[list[str], list[str], Mapping[str, list[str]]], str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the first line of a CSV file, and by its first field the others of each line."""
    import csv  # few schemas name such a file

    text = _read_text(path, "file", _LARGEST_FILE)
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: dict[str, list[str]] = {}
    try:
        header = next(rows, [])
        if len(header) < 2:
            came = ",".join(header)[:60]
            raise ValueError(f"{path}: expected a first line such as {example}, got {came!r}")
        for row in rows:
            fits = len(row) == len(header)
            wrong = (
                wrong_row(row, header, found) if fits else f"expected {len(header)} fields, got {len(row)}"
            )
            if wrong:
                raise ValueError(f"{path}, line {rows.line_num}: {wrong}")
            found[row[0]] = row[1:]
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num}: expected CSV: {error}") from None
    if not found:
        raise ValueError(f"{path}: expected a line for each value, got none")
    return header, found


def _wrong_parents(row: list[str], header: list[str], found: Mapping[str, list[str]]) -> str:
    value = repr(row[0][:60])
    if row[0] in found:
        also = "with another parent" if found[row[0]] != row[1:] else "again"
        return f"{value} stands there {also}; a value has one parent in a level"
    if "" not in row:
        return ""
    missing = "value" if row[0] == "" else f"parent of {value} in level {header[row.index('')]!r}"
    return f"the {missing} is missing"


# --- lookups ------------------------------------------------------------------------------------------------


def _lookups(sections: object, folder: Path | None) -> tuple[Lookup, ...]:
    if not isinstance(sections, dict) or not all(isinstance(one, dict) for one in sections.values()):
        raise SchemaError("expected one section [lookups.NAME] for each lookup")
    return tuple(_lookup(name, entry, folder) for name, entry in sections.items())


def _lookup(name: str, entry: Mapping[str, Any], folder: Path | None) -> Lookup:
    called = f"lookup {name!r}"
    _refuse_unknown(entry, ("attribute", "key", "values", "file"), called)
    if "attribute" not in entry:
        raise SchemaError(f"{called} needs the key 'attribute', whose values it calls by name")
    if ("values" in entry) == ("file" in entry):
        raise SchemaError(f"{called} needs one of the keys 'values' and 'file'")
    if "file" not in entry:
        return Lookup(name, entry["attribute"], entry["values"], entry.get("key", ""))
    return Lookup(name, entry["attribute"], *_lookup_file(called, entry, folder))


def _lookup_file(
    called: str, entry: Mapping[str, Any], folder: Path | None
) -> tuple[dict[str, dict[str, str]], str]:
    if not isinstance(entry["file"], str) or not entry["file"]:
        raise SchemaError(f"{called}: file must be the name of a file, got {entry['file']!r}")
    if "key" in entry:
        raise SchemaError(f"{called}: the first column of the file is the key; leave 'key' out")
    if folder is None:
        raise SchemaError(f"{called}: file is read beside a schema file; load the schema from its file")
    try:
        (key, *columns), rows = _read_table(folder / entry["file"], "code,name", _wrong_key)
    except ValueError as error:
        raise SchemaError(f"{called}: {error}") from None
    if len(set(columns)) < len(columns):
        raise SchemaError(f"{called}: {folder / entry['file']}: two columns are called alike")
    named = {code: zip(columns, row, strict=True) for code, row in rows.items()}
    return {code: {column: text for column, text in pairs if text} for code, pairs in named.items()}, key


def _wrong_key(row: list[str], header: list[str], found: Mapping[str, list[str]]) -> str:
    if row[0] == "":
        return f"the key is missing, in column {header[0]!r}"
    return f"the key {row[0][:60]!r} stands there again" if row[0] in found else ""


# --- writing ------------------------------------------------------------------------------------------------


def save_schema(domain: Domain, path: str | Path) -> None:
    """Write a domain as a schema file."""
    Path(path).write_text(format_schema(domain), encoding="utf-8")


def format_schema(domain: Domain) -> str:
    """Return the TOML text that declares a domain; ``parse_schema`` gives the domain back."""
    return _text(domain, is_stored=False)


def stored_schema(domain: Domain) -> str:
    """Return the text by which sessions keep a domain, and know it again; ``parse_stored`` gives it back."""
    return _text(domain, is_stored=True)


def kind_name(attribute: Attribute) -> str:
    """Return how a schema calls the kind of an attribute."""
    return next(kind for kind, (made, _, _) in _KINDS.items() if made is type(attribute))


def _text(domain: Domain, *, is_stored: bool) -> str:
    lines = [f"name = {_toml(domain.name)}"]
    if domain.person is not None:
        lines += ["", "[person]", *_lines(domain.person, _OF_PERSONS)]
    for attribute in domain:
        kind = kind_name(attribute)
        keys = [one for some in _KINDS[kind][1:] for one in some if one not in _FILES]
        keys.sort(key="zone".__eq__)  # as sessions keep them
        lines += ["", "[[attributes]]", f"name = {_toml(attribute.name)}", f"kind = {_toml(kind)}"]
        lines += _lines(attribute, (*keys, "missing", "other"))
        if not is_stored and isinstance(attribute, NumberCells) and attribute.resolution is None:
            lines += ["resolution = false"] if attribute.usual_resolution is not None else []
    for lookup in domain.lookups:
        lines += ["", f"[lookups.{_toml(lookup.name)}]", *_lines(lookup, ("attribute", "key", "values"))]
    for one in domain.impossible:
        lines += ["", "[[impossible]]", *_lines(one, ("where",))]
    return "\n".join(lines) + "\n"


def _lines(declared: object, keys: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of keys; what is not declared, and a width of 1, are left out."""
    for key in keys:
        value = getattr(declared, "prefixes" if key == "levels" else _FIELDS.get(key, key))
        if isinstance(value, dict):
            yield from (f"{key}.{_toml(name)} = {_toml(listed)}" for name, listed in value.items())
        elif value is not None and value is not False and value != () and (key, value) != ("width", 1):
            yield f"{key} = {_toml(value)}"


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(name)} = {_toml(one)}' for name, one in value.items())} }}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, str):
        # A JSON string is a TOML basic string, except for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value).lower()
