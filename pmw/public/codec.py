"""The codec: public values as JSON-ready forms and back, exactly, by the annotations of their types.

A dataclass is an object of its fields, a tuple a list, and a set of texts a sorted list. Fractions are
``"numerator/denominator"``, enums their values, domains and questions their canonical texts, arrays
little-endian numbers of 8 bytes in base64. Session files, recorded batches and model files are made of these
forms.

Only types that were named here, or by ``register``, have a form. So no secret gets one by accident.

A form from elsewhere may be made to mislead. So reading is strict: the keys are those of the fields, and no
others; a value has the type of its field; no whole number has more than 62 bits; nothing is made of a form
that takes much more room than its text.
"""

from __future__ import annotations

import binascii
import enum
import functools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    PersonsMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SumMeasurement,
    SummedRows,
)
from pmw.model.strategy import AxisRows, Strategy
from pmw.model.value_sums import SummedValues
from pmw.privacy.budget import Budget, Charge
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.answer import Basis, QuestionKind
from pmw.public.charges import LedgerEntry
from pmw.public.contract import Contract
from pmw.public.error_quantiles import QUESTION_ATTRIBUTES, ErrorQuantile
from pmw.public.options import DraftCharge, ExpectedQuestions, Options
from pmw.public.plans import AddedPrice, MarginalTestPlan, OpeningPlan, QueryTestPlan
from pmw.public.prior import Prior, PriorPair
from pmw.public.state import Certificate
from pmw.sparse_vector import NoisyComparison, NumericSparse, Sech2Test, Sparse, ThresholdTest
from queries.domain import Domain
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.schema import LARGEST_SCHEMA, parse_stored, stored_schema

MOST_CELLS = 2**24  # that the questions of one form have weights for: 128 MB
_LARGEST = 2**62  # of a whole number, so that sums of two fit in 64 bits
_HIGHEST = 64  # levels of a hierarchical histogram
_FRACTION = re.compile("[0-9]{1,1000}(/[1-9][0-9]{0,999})?")  # no exponent: 1e999999999 has as many digits
_compact = json.JSONEncoder(separators=(",", ":")).encode
_PLAIN = frozenset([str, int, float, bool])
_HALF_LETTER = re.compile("[\ud800-\udfff]")  # cannot be written as UTF-8


class FormError(ValueError):
    """A form that is not one of its type; whoever reads a file says of which."""


# The types that have a form, and what their objects hold besides their fields, to be told apart by.
_TAGS: dict[type, Mapping[str, str]] = {
    DiscreteLaplace: {"distribution": "discrete_laplace"},
    DiscreteGaussian: {"distribution": "discrete_gaussian"},
    Budget: {},
    Charge: {},
    LedgerEntry: {},
    Prior: {},
    PriorPair: {},
    ExpectedQuestions: {},
    Options: {},
    Contract: {},
    HierarchicalHistogram: {},
    OpeningPlan: {},
    AddedPrice: {},
    ThresholdTest: {"comparison": "threshold"},
    Sech2Test: {"comparison": "sech2"},
    Sparse: {},
    NumericSparse: {},
    QueryTestPlan: {"tested": QueryTestPlan.tested},
    MarginalTestPlan: {"tested": MarginalTestPlan.tested},
    MarginalMeasurement: {"kind": "marginal"},
    ResidualMeasurement: {"kind": "residual"},
    Strategy: {},
    AxisRows: {},
    SummedValues: {},
    SummedRows: {"of": "questions"},
    SumMeasurement: {},
    PersonsMeasurement: {},
    DraftCharge: {},
    HierarchicalMeasurement: {"kind": "hierarchical histogram"},
    QueryMeasurement: {"kind": "query"},
    RowsMeasurement: {"kind": "rows"},
    ErrorQuantile: {},
    Certificate: {},
}
_STANDS_FOR = {NoisyComparison: ThresholdTest | Sech2Test}  # what a protocol is in a plan
_MOST: dict[tuple[type, str], float] = {  # of a field, where that is not 62 bits
    (Options, "seed"): math.inf,
    (HierarchicalHistogram, "cells"): MOST_CELLS,
    (HierarchicalHistogram, "special"): MOST_CELLS,
    (HierarchicalHistogram, "branching"): MOST_CELLS,
    (HierarchicalHistogram, "height"): _HIGHEST,
}

_LEFT_OUT: dict[type, Mapping[str, Any]] = {  # fields that a form lacks at this value, as those of before do
    Options: {"reserve": Fraction(0), "expected": None, "minimum_count": None},
    OpeningPlan: {"expected": Fraction(0)},
    MarginalTestPlan: {"added": ()},
    MarginalMeasurement: {"part": 0},
    ResidualMeasurement: {"part": 0},
}


def register(tags: Mapping[type, Mapping[str, str]]) -> None:
    """Give dataclasses a form.

    Args:
        tags: of each, what its objects hold besides its fields, where it is one of several.

    Privacy: whatever a form is made of is public. A secret type is never registered.
    """
    _TAGS.update(tags)


def registered() -> tuple[type, ...]:
    """Return the dataclasses that have a form."""
    return tuple(_TAGS)


def dumps(form: Any) -> str:
    """Return compact JSON text."""
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def loads(text: str) -> Any:
    """Return the form of JSON text."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except RecursionError:
        raise FormError("it is nested too deeply") from None
    except FormError:
        raise
    except ValueError:
        raise FormError("it is no JSON text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FormError("a key is there twice")
    return found


def _no_number(name: str) -> float:
    raise FormError(f"expected numbers, got {name}")


# --- kinds of questions ------------------------------------------------------------------------------------


def kind_text(kind: QuestionKind) -> str:
    """Return a kind of questions as text."""
    return f"{kind.attributes} {kind.basis.value}"


_KINDS = {
    kind_text(kind): kind
    for number in range(1, QUESTION_ATTRIBUTES + 1)
    for kind in (QuestionKind(number, Basis.TESTED), QuestionKind(number, Basis.BINS))
}


def read_kind(text: str) -> QuestionKind:
    """Return the kind of questions of a text."""
    kind = _KINDS.get(text)
    if kind is None:
        raise FormError("a kind of questions is not known")
    return kind


# --- writing -----------------------------------------------------------------------------------------------


def form_of(value: Any, *, without: Sequence[str] = ()) -> Any:
    """Return the form of a public value."""
    kind = type(value)
    if kind in _WRITTEN:
        return _WRITTEN[kind](value)
    if kind in _TAGS:
        found = {one.name: getattr(value, one.name) for one in fields(kind) if _has_form(one)}
        lacks = [name for name, usual in _LEFT_OUT.get(kind, {}).items() if found[name] == usual]
        left = {name: one for name, one in found.items() if name not in without and name not in lacks}
        return {**_TAGS[kind], **{name: form_of(one) for name, one in left.items()}}
    if isinstance(value, enum.Enum):
        return value.value
    raise FormError(f"expected a value of a type that has a form, got a {kind.__name__}")


def _array_form(array: NDArray[Any]) -> dict[str, Any]:
    dtype = "<f8" if array.dtype.kind == "f" else "<i8"
    raw = np.ascontiguousarray(array, dtype=dtype).tobytes()
    text = binascii.b2a_base64(raw, newline=False).decode()
    return {"dtype": dtype, "shape": list(array.shape), "base64": text}


_WRITTEN: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((type(None), bool, int, float, str), lambda value: value),
    Fraction: str,
    **dict.fromkeys((tuple, list), lambda values: [form_of(value) for value in values]),
    dict: lambda values: {name: form_of(value) for name, value in values.items()},
    frozenset: sorted,
    np.ndarray: _array_form,
    QuestionKind: kind_text,
    Domain: stored_schema,
    LinearQuery: LinearQuery.to_json,
}


# --- reading -----------------------------------------------------------------------------------------------


def read(
    kind: Any,
    form: Any,
    *,
    domain: Domain | None = None,
    given: Mapping[str, Any] | None = None,
    most_cells: float = math.inf,
) -> Any:
    """Return the value of a form.

    Args:
        kind: its annotation: a type that has a form, a container of such types, or a union.
        form: of JSON text that ``loads`` read.
        domain: of the questions in it, where the form itself has none before them.
    """
    reader = _Reader(domain, most_cells)
    return reader.value(kind, form) if given is None else reader.fields(kind, form, given)


class _Reader:
    """Reads one form; it knows the domain of the questions in it, and how much room is left for them."""

    def __init__(self, domain: Domain | None, cells: float) -> None:
        self._domain, self._cells = domain, cells

    def value(self, kind: Any, form: Any) -> Any:
        """Return the value of a form by its annotation."""
        reads, meant = _reading(kind)
        return reads(self, meant, form)

    def fields(self, kind: Any, form: Any, given: Mapping[str, Any] = types.MappingProxyType({})) -> Any:
        """Return the dataclass of an object; of its fields, some may be given besides."""
        _require(kind in _TAGS, "a type that has no form")
        hints, tag = _hints(kind), _TAGS[kind]
        if not isinstance(form, dict) or not _has_tag(form, tag):
            raise FormError(f"no object of {kind.__name__}")
        lacks = {name: one for name, one in _LEFT_OUT.get(kind, {}).items() if name not in form}
        values = {**lacks, **given}
        wanted = [*tag, *(one for one in hints if one not in values)]
        for key in wanted:
            if key not in form:
                raise FormError(f"{kind.__name__} lacks {key}")
        if len(form) != len(wanted):
            raise FormError(f"{kind.__name__} has a key that is not known")
        for field in wanted[len(tag) :]:
            try:
                most, own = _MOST.get((kind, field)), form[field]
                if most is not None and type(own) is int:
                    _require(0 <= own <= most or most == math.inf, "out of range")
                values[field] = (
                    own if most is not None and type(own) is int else self.value(hints[field], own)
                )
            except FormError as error:
                raise FormError(f"{kind.__name__}.{field}: {error}") from None
        return kind(**values)

    def choice(self, kind: Any, form: Any) -> Any:
        """Return the member of an enum."""
        found = [one for one in kind if one.value == form and type(one.value) is type(form)]
        _require(len(found) == 1, "a choice that is not known")
        return found[0]

    def one_of(self, kind: Any, form: Any) -> Any:
        """Return the value of a union: null, the type whose tag the form has, or the form's own."""
        kinds, may_be_null = _members(kind)
        if form is None and may_be_null:
            return None
        if len(kinds) > 1 and _PLAIN.issuperset(kinds):  # their values are their own forms
            kinds = [one for one in kinds if one is type(form)]
        elif len(kinds) > 1:
            kinds = [one for one in kinds if isinstance(form, dict) and _has_tag(form, _TAGS[one])]
            kinds = sorted(kinds, key=lambda one: len(_TAGS[one]))[-1:]  # what has no tag is of the others
        _require(len(kinds) == 1, "of a kind that is not known")
        return self.value(kinds[0], form)

    def entries(self, kind: Any, form: Any) -> tuple[Any, ...]:
        """Return a tuple of equals, or one that has a type for each entry."""
        _require(isinstance(form, list), "no list")
        kinds = typing.get_args(kind)
        if kinds[1:] in ((), (...,)):
            kinds = kinds[:1] * len(form)
        _require(len(kinds) == len(form), "a list of another length")
        return tuple(map(self.value, kinds, form))

    def by_name(self, kind: Any, form: Any) -> dict[str, Any]:
        """Return a dict of equals."""
        _require(isinstance(form, dict), "no object")
        _, inner = typing.get_args(kind)
        return {key: self.value(inner, value) for key, value in form.items()}

    def schema(self, kind: Any, form: Any) -> Domain:
        """Return a domain, which is that of the questions after it."""
        _require(_is_text(form) and len(form) <= LARGEST_SCHEMA, "no schema")
        self._domain = parse_stored(form)
        return self._domain

    def question(self, kind: Any, form: Any) -> LinearQuery:
        """Return a question of its canonical text."""
        domain, inner = self._domain, loads(form) if _is_text(form) else None
        if domain is None or not isinstance(inner, dict):
            raise FormError("no question")
        _require(_compact(inner) == form and _is_canonical(domain, inner), "not a question's canonical text")
        self._cells -= _weights(domain, inner)
        _require(self._cells >= 0, "its questions have too many cells")
        query = LinearQuery.from_dict(domain, inner)
        _require(query.to_json() == form, "not a question's canonical text")
        return query


@functools.cache
def _reading(kind: Any) -> tuple[Callable[[_Reader, Any, Any], Any], Any]:
    """Return what reads an annotation, and what the annotation stands for."""
    meant = _STANDS_FOR.get(kind, kind)
    alias = getattr(typing.get_origin(meant), "__value__", None)  # newer numpy declares ``NDArray`` as one
    meant = meant if alias is None else alias[typing.get_args(meant)]
    origin = typing.get_origin(meant) or meant
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _Reader.choice, meant
    return _READ.get(origin, _Reader.fields), meant


@functools.cache
def _members(kind: Any) -> tuple[list[Any], bool]:
    kinds = typing.get_args(kind)
    return [one for one in kinds if one is not type(None)], type(None) in kinds


def _weights(domain: Domain, form: Mapping[str, Any]) -> int:
    inner = (form[name] for name in ("least", "most") if name in form)
    return sum(domain.scope_size(scope) for scope, _ in form["factors"]) + sum(
        _weights(domain, one) for one in inner
    )


def _is_canonical(domain: Domain, form: Mapping[str, Any]) -> bool:
    """Tell whether a question's form may be canonical, as far as it alone tells: nothing is made of it."""
    if not form.keys() <= {"factors", "constant", "aligned", "least", "most"} or "factors" not in form:
        return False
    names = [name for scope, runs in form["factors"] if _are_runs(runs) for name in scope]
    places = [domain.index(name) for name in names]
    inner = (form[name] for name in ("least", "most") if name in form)
    return (
        all(_are_runs(runs) for _, runs in form["factors"])
        and len(set(places)) == len(places)
        and all(isinstance(one, dict) and _is_canonical(domain, one) for one in inner)
    )


def _are_runs(runs: Any) -> bool:
    """Tell whether runs of cells ascend, do not touch with the same weight, and weigh a record at most."""
    end, weight = 0, 0
    for start, stop, own in runs:
        if not all(map(_is_whole, (start, stop, own))) or not (0 <= start < stop and 0 < own <= UNITS):
            return False
        if start < end or (start == end and own == weight):
            return False
        end, weight = stop, own
    return True


# What prices do not import, though their types name it.
_NAMED = {"LinearQuery": LinearQuery, "SummedRows": SummedRows}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, localns=_NAMED)
    return {one.name: hints[one.name] for one in fields(kind) if _has_form(one)}


def _has_form(field: Field[Any]) -> bool:
    """Tell whether a field is written: one that is made, and not marked ``{"form": False}``."""
    return field.init and field.metadata.get("form", True) is True


def _has_tag(form: Mapping[str, Any], tag: Mapping[str, str]) -> bool:
    return all(form.get(key) == value for key, value in tag.items())


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise FormError(fault)


def _is_text(form: Any) -> bool:
    return isinstance(form, str) and not _HALF_LETTER.search(form)


def _plain(holds: Callable[[Any], bool], what: str) -> Callable[[_Reader, Any, Any], Any]:
    def reads(reader: _Reader, kind: Any, form: Any) -> Any:
        _require(holds(form), f"no {what}")
        return form

    return reads


def _is_whole(form: Any) -> bool:
    return type(form) is int and abs(form) <= _LARGEST


def _fraction(reader: _Reader, kind: Any, form: Any) -> Fraction:
    _require(isinstance(form, str) and _FRACTION.fullmatch(form) is not None, "no fraction")
    found = Fraction(form)
    _require(str(found) == form, "no fraction in lowest terms")
    return found


def _kind(reader: _Reader, kind: Any, form: Any) -> QuestionKind:
    _require(isinstance(form, str), "no kind of questions")
    return read_kind(form)


def _array(reader: _Reader, kind: Any, form: Any) -> NDArray[Any]:
    """Return an array whose declared type and size are those of its text: int64 or float64."""
    (number,) = typing.get_args(typing.get_args(kind)[1])
    dtype = "<f8" if number is np.float64 else "<i8"
    _require(isinstance(form, dict) and form.keys() == {"dtype", "shape", "base64"}, "no array")
    shape, text = form["shape"], form["base64"]
    known = form["dtype"] == dtype and isinstance(shape, list) and _is_text(text)
    _require(known and all(_is_whole(one) and one >= 0 for one in shape), "no such array")
    size = 8 * math.prod(shape)
    _require(len(shape) <= 64 and len(text) == -(-size // 3) * 4, "an array that is not of its declared size")
    raw = binascii.a2b_base64(text, strict_mode=True)
    _require(len(raw) == size, "an array that is not of its declared size")
    given = np.frombuffer(raw, dtype=dtype)
    found = given.astype(number)
    _require(dtype == "<f8" or np.array_equal(found, given), "a number that its type does not hold")
    return found.reshape(shape)


_READ: dict[Any, Callable[[_Reader, Any, Any], Any]] = {
    type(None): _plain(lambda form: form is None, "null"),
    bool: _plain(lambda form: isinstance(form, bool), "flag"),
    int: _plain(_is_whole, "whole number"),
    float: _plain(
        lambda form: _is_whole(form) or (isinstance(form, float) and math.isfinite(form)), "finite number"
    ),
    str: _plain(_is_text, "text"),
    Fraction: _fraction,
    QuestionKind: _kind,
    np.ndarray: _array,
    tuple: _Reader.entries,
    Sequence: _Reader.entries,
    dict: _Reader.by_name,
    Mapping: _Reader.by_name,
    frozenset: lambda reader, kind, form: frozenset(reader.entries(kind, form)),
    types.UnionType: _Reader.one_of,
    typing.Union: _Reader.one_of,
    Domain: _Reader.schema,
    LinearQuery: _Reader.question,
}
