"""Arrow streams, read by the C interfaces: what columns a table has, and what the engine gives as arrays.

So neither pandas nor pyarrow is needed where a table is read by DuckDB.

Source: the Arrow C data interface and the Arrow C stream interface, of the Arrow columnar format 1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Texts: TypeAlias = list[str | None]

# Numbers, as the C data interface writes their formats.
_NUMBERS: dict[str, type[np.generic]] = {
    "c": np.int8, "s": np.int16, "i": np.int32, "l": np.int64, "f": np.float32, "g": np.float64,
}  # fmt: skip
# Texts, by the kind of their offsets.
_TEXTS: dict[str, type[np.signedinteger[Any]]] = {"u": np.int32, "U": np.int64}


class StreamError(Exception):
    """A stream failed, or gives what was not asked for. It shows nothing of a record."""


class _Schema(ctypes.Structure):
    """``ArrowSchema`` of the C data interface."""


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    """``ArrowArray`` of the C data interface."""


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    """The beginning of ``ArrowArrayStream`` of the C stream interface."""

    _fields_ = (
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Schema))),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Array))),
    )


def fields(table: Any) -> list[tuple[str, str]]:
    """Return the columns of a table: name, and format of the values, of a dictionary's where it has one."""
    stream = table.__arrow_c_stream__()
    return _fields(_address(stream))


def batches(relation: Any) -> Generator[list[NDArray[Any] | Texts]]:
    """Yield what a query of the engine gives, part by part: of each column an array of numbers, or texts.

    Args:
        relation: of DuckDB, whose columns are signed numbers that are never NULL, and texts.

    Privacy: true records; they stay in this room.
    """
    stream = relation.__arrow_c_stream__()  # kept until all is read: it is released with the capsule
    address = _address(stream)
    formats = [form for _, form in _fields(address)]
    while True:
        part = _Array()
        if _Stream.from_address(address).get_next(address, ctypes.byref(part)):
            raise StreamError("the engine failed")
        if not part.release:
            return
        try:
            columns = [part.children[place].contents for place in range(part.n_children)]
            arrays = [_column(form, column) for form, column in zip(formats, columns, strict=True)]
        finally:
            part.release(ctypes.byref(part))
        yield arrays


def _address(stream: object) -> int:
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address: int = pointer_of(stream, b"arrow_array_stream")
    return address


def _fields(address: int) -> list[tuple[str, str]]:
    schema = _Schema()
    if _Stream.from_address(address).get_schema(address, ctypes.byref(schema)):
        raise StreamError("the stream has no schema")
    try:
        return [_field(schema.children[place].contents) for place in range(schema.n_children)]
    finally:
        schema.release(ctypes.byref(schema))


def _field(column: _Schema) -> tuple[str, str]:
    values = column.dictionary.contents if column.dictionary else column
    return column.name.decode(), values.format.decode()


def _column(form: str, column: _Array) -> NDArray[Any] | Texts:
    """Return a copy of a column's values."""
    if form in _NUMBERS:
        return _items(column, 1, _NUMBERS[form], column.length)
    if form in _TEXTS:
        return _texts(column, _TEXTS[form])
    raise StreamError("the engine gives a column of another kind")


def _texts(column: _Array, kind: type[np.signedinteger[Any]]) -> Texts:
    ends = _items(column, 1, kind, column.length + 1).tolist()
    written = ctypes.string_at(column.buffers[2] or 0, ends[-1]) if ends and ends[-1] else b""
    if written.isascii():
        text = written.decode()
        texts: Texts = [text[start:end] for start, end in pairwise(ends)]
    else:
        texts = [written[start:end].decode() for start, end in pairwise(ends)]
    if column.null_count and column.buffers[0]:
        for place in np.flatnonzero(~_bits(column)).tolist():
            texts[place] = None
    return texts


def _bits(column: _Array) -> NDArray[np.bool_]:
    """Return which values are not NULL."""
    length = column.offset + column.length
    held = np.frombuffer(ctypes.string_at(column.buffers[0] or 0, -(-length // 8)), dtype=np.uint8)
    return np.unpackbits(held, count=length, bitorder="little")[column.offset :].astype(bool)


def _items(column: _Array, buffer: int, kind: Any, count: int) -> NDArray[Any]:
    """Return a copy of the items of a buffer, from the column's first value on."""
    address, width = column.buffers[buffer], np.dtype(kind).itemsize
    if not count or not address:
        return np.zeros(count, dtype=kind)
    return np.frombuffer(ctypes.string_at(address + column.offset * width, count * width), dtype=kind)
