"""Workloads by their names, as on the command line: ``marginals:age,sex`` or ``random:1000:7``.

A name has a kind and fields after colons; a field is one item, or several with commas between them. An
item in double quotes may hold any character, a double quote inside it doubled, as in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeAlias

from queries.cells import nearest
from queries.comparisons import listed_names, resolve_attribute
from queries.domain import Domain, require_domain
from queries.errors import QueryError, ScopeError
from queries.frozen import dataclass
from queries.plain_values import shown_text
from queries.streams import MOST_ATTRIBUTES, random_conjunctions
from queries.workloads import (
    MOST_QUERIES,
    Workload,
    all_marginals,
    all_ranges,
    is_like_number,
    marginal_cells,
    prefixes,
)

WORKLOAD_FORMS: Mapping[str, str] = {
    "marginals": "marginals:ORDER or marginals:NAME,NAME,…",
    "prefixes": "prefixes:NAME",
    "random": "random:SIZE:SEED[:MOST_ATTRIBUTES]",
    "ranges": "ranges:NAME",
}

_LONGEST_TEXT = 2**20  # characters
_ITEM = re.compile(r'\s*(?:"([^"]*(?:""[^"]*)*)"|([^,:"]*))\s*')


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


@dataclass(frozen=True, slots=True)
class _Item:
    text: str
    is_quoted: bool
    position: int


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
        _refuse_count(kind, fields, fields[most][0].position if len(fields) > most else len(text))
    try:
        return build(fields, domain)
    except ScopeError as error:
        # Names and numbers are checked by now: what is left is an attribute without order, or the size.
        code = "wrong_kind" if kind in ("prefixes", "ranges") else "too_large"
        raise QueryError(str(error), code=code, position=fields[0][0].position) from None


def _refuse_count(kind: str, fields: Sequence[_Field], position: int) -> NoReturn:
    came = f"{len(fields)} part" + ("" if len(fields) == 1 else "s")
    hint = "; a name with a colon stands in double quotes" if "NAME" in WORKLOAD_FORMS[kind] else ""
    hint = hint if fields else ""
    raise QueryError(
        f"expected {WORKLOAD_FORMS[kind]}, got {came} after {kind!r}{hint}", code="syntax", position=position
    )


def _fields(text: str, start: int) -> list[list[_Item]]:
    fields: list[list[_Item]] = [[]]
    while True:
        match = _ITEM.match(text, start)
        if match is None or (match.end() < len(text) and text[match.end()] not in ",:"):
            _refuse_item(text, start)
        inside, bare = match.groups()
        position = match.start(1) - 1 if bare is None else match.start(2)
        item = (bare or "").strip() if inside is None else inside.replace('""', '"')
        fields[-1].append(_Item(item, inside is not None, position))
        if match.end() == len(text):
            return fields
        if text[match.end()] == ":":
            fields.append([])
        start = match.end() + 1


def _refuse_item(text: str, start: int) -> NoReturn:
    quote = text.index('"', start)
    if text[start:quote].strip():
        message = "a double quote stands inside a name; put the whole name in double quotes and double it"
    elif text.count('"', start) % 2:
        message = "a double quote is not closed; a double quote inside a name is doubled"
    else:
        message = "expected ',' or ':' after a name in double quotes"
    raise QueryError(message, code="syntax", position=quote)


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


# How each kind is built, and how many fields it has at least and at most.
_BUILDERS: Mapping[str, tuple[Callable[[Sequence[_Field], Domain], Workload], int, int]] = {
    "marginals": (_marginals, 1, 1),
    "prefixes": (lambda fields, domain: prefixes(domain, _one_attribute(fields[0], domain)), 1, 1),
    "random": (_random, 2, 3),
    "ranges": (lambda fields, domain: all_ranges(domain, _one_attribute(fields[0], domain)), 1, 1),
}


def _only(field: _Field, what: str, hint: str) -> _Item:
    if len(field) > 1:
        raise QueryError(
            f"expected {what}, got {len(field)} with commas between them; {hint}",
            code="bad_request",
            position=field[1].position,
        )
    return field[0]


def _one_attribute(field: _Field, domain: Domain) -> str:
    hint = "a name with a comma stands in double quotes"
    return _attribute(_only(field, "one attribute", hint), domain)


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
