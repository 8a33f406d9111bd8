"""The form that writes a question, and what the page tells of the attributes that it is about."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from queries.categories import CategoricalAttribute
from queries.cells import OTHER_LABEL, in_quotes
from queries.domain import Attribute, Domain, OrderedAttribute

Fields = Mapping[str, Sequence[str]]  # the values of each field of a form

_PLACE = re.compile(r"[0-9]{1,6}")  # of a value in a list
_NONE = "\N{EN DASH}"
_MOST_VALUES = 12  # of an attribute that are named where all attributes are
_MOST_OPTIONS = 500  # of an attribute that the form lists
_MOST_LISTED = 1000  # of an attribute that are listed for themselves
_MOST_CHOICES = 2000  # characters of choices that an address carries


def asked_by(fields: Fields, domain: Domain) -> str:
    """Return the question that a form was filled in with, as it could be typed in."""
    condition = " AND ".join(filter(None, (_term(attribute, fields) for attribute in domain)))
    by = [name for name in fields.get("by", ()) if name in domain.names][:2]
    return _grouped(domain, list(dict.fromkeys(by)), condition) if by else condition


def _term(attribute: Attribute, fields: Fields) -> str:
    """Return the condition on one attribute; empty where nothing was chosen."""
    name, also = in_quotes(attribute.name), fields.get(f"also {attribute.name}", ())
    terms = [_chosen(attribute, fields)]
    terms += [f"{name} IS NULL"] if attribute.missing and "missing" in also else []
    terms += [f"{name} = '{OTHER_LABEL}'"] if attribute.other and "other" in also else []
    terms = [term for term in terms if term]
    return f"({' OR '.join(terms)})" if len(terms) > 1 else "".join(terms)


def _chosen(attribute: Attribute, fields: Fields) -> str:
    name = in_quotes(attribute.name)
    if isinstance(attribute, CategoricalAttribute):
        places = [int(one) for one in fields.get(f"in {attribute.name}", ()) if _PLACE.fullmatch(one)]
        values = [attribute.values[place] for place in places if place < len(attribute.values)]
        return f"{name} IN ({', '.join(map(literal, values))})" if values else ""
    low, high = (_typed("".join(fields.get(f"{end} {attribute.name}", ())[:1])) for end in ("low", "high"))
    if low and high:
        return f"{name} BETWEEN {low} AND {high}"
    return f"{name} >= {low}" if low else f"{name} <= {high}" if high else ""


def _grouped(domain: Domain, by: Sequence[str], condition: str) -> str:
    where, names = f" WHERE {condition}" if condition else "", ", ".join(map(in_quotes, by))
    source = f"FROM {in_quotes(domain.name)}{where}"
    return f"SELECT {names}, COUNT(*) {source} GROUP BY {names}"


def literal(value: object) -> str:
    """Return a value as a condition writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _typed(text: str) -> str:
    text = text.strip()
    try:
        return text if math.isfinite(float(text)) else ""
    except ValueError:
        return literal(text) if text else ""


def packed_choices(fields: Fields) -> str:
    """Return what was chosen in a form as one text for an address; empty where it is too long."""
    filled = [(name, value) for name, values in fields.items() for value in values if value.strip()]
    packed = urlencode(filled)
    return packed if len(packed) <= _MOST_CHOICES else ""


def unpacked_choices(text: str) -> dict[str, list[str]]:
    """Return what was chosen, from such a text; what is none says nothing."""
    fields: dict[str, list[str]] = {}
    for name, value in parse_qsl(text[:_MOST_CHOICES]):
        fields.setdefault(name, []).append(value)
    return fields


def examples_of(domain: Domain) -> dict[str, str]:
    """Return a condition and a statement over a domain."""
    first = next(iter(domain))
    if isinstance(first, CategoricalAttribute):
        condition = f"{in_quotes(first.name)} = {literal(first.values[0])}"
    else:
        middle = first.boundaries[len(first.boundaries) // 2]
        condition = f"{in_quotes(first.name)} >= {first.literal(middle)}"
    return {"example": condition, "statement": _grouped(domain, [first.name], "")}


def form_of(domain: Domain, chosen: Fields) -> list[dict[str, Any]]:
    """Return the fields of the form, an attribute each, with what was chosen in them."""
    return [_form(attribute, chosen) for attribute in domain]


def _form(attribute: Attribute, chosen: Fields) -> dict[str, Any]:
    name = attribute.name
    picked = {field: chosen.get(f"{field} {name}", ()) for field in ("also", "in", "low", "high")}
    also = [(kind, kind in picked["also"]) for kind in _beside(attribute)]
    form: dict[str, Any] = {"name": name, "also": also, "options": None}
    if isinstance(attribute, CategoricalAttribute):
        values = [str(value) for value in attribute.values[:_MOST_OPTIONS]]
        form["options"] = [(value, str(place) in picked["in"]) for place, value in enumerate(values)]
        return form
    ends = zip(("low", "high"), _ends(attribute), strict=True)
    return form | {end: {"hint": hint, "value": "".join(picked[end][:1])} for end, hint in ends}


def _beside(attribute: Attribute) -> list[str]:
    """Return which cells an attribute has beside those of its values."""
    return [kind for kind, is_so in (("missing", attribute.missing), ("other", attribute.other)) if is_so]


def _ends(attribute: OrderedAttribute) -> tuple[str, str]:
    first, last = attribute.boundaries[0], attribute.boundaries[-1]
    low, high = attribute.literal(first), attribute.literal(last - 1 if attribute.is_whole else last)
    return low.strip("'"), high.strip("'")


def described(domain: Domain) -> list[tuple[str, str, str, str]]:
    """Return a row for each attribute: its name, its cells, its values in short, and what else it has."""
    return [(one.name, f"{one.size:,}", _values_in_short(one), _also(one, domain) or _NONE) for one in domain]


def _values_in_short(attribute: Attribute) -> str:
    if isinstance(attribute, CategoricalAttribute):
        values = [str(value) for value in attribute.values]
        more = f", … {len(values):,} in all" if len(values) > _MOST_VALUES else ""
        return ", ".join(values[:_MOST_VALUES]) + more
    return " to ".join(_ends(attribute))


def _also(attribute: Attribute, domain: Domain) -> str:
    lookups = [one for one in domain.lookups if one.attribute == attribute.name]
    told = [f"lookup {one.name} ({', '.join(one.columns)})" for one in lookups]
    return ", ".join([*_beside(attribute), *told])


def browsed(domain: Domain) -> list[dict[str, Any]]:
    """Return of each attribute its values, each with the question that counts its records, if it is one."""
    return [
        {
            "name": attribute.name,
            "summary": f"{attribute.size:,} cells: {_values_in_short(attribute)}",
            "also": _also(attribute, domain),
            "grouped": _grouped(domain, [attribute.name], ""),
            "values": [
                (attribute.label(code), _condition(attribute, code))
                for code in range(min(attribute.size, _MOST_LISTED))
            ],
            "more": max(0, attribute.size - _MOST_LISTED),
        }
        for attribute in domain
    ]


def _condition(attribute: Attribute, code: int) -> str:
    """Return the condition that holds in one cell; empty where its label does not write it."""
    name = in_quotes(attribute.name)
    if code == attribute.missing_code:
        return f"{name} IS NULL"
    value = attribute.value(code)
    is_value = isinstance(attribute, CategoricalAttribute) or isinstance(value, int)
    if is_value or code == attribute.other_code:
        return f"{name} = {literal(value)}"
    return ""
