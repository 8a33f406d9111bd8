"""Model files: a model as one JSON document that anybody may have, and back, whoever wrote it.

The document has two lines: what it is, with the SHA-256 of the second, and the model. The second is not read
before that agrees with it. The hash tells damage, not forgery: whoever makes a model up can write its hash
too, so all that is read is checked as well.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

from pmw.disk import require_file, write_whole
from pmw.errors import ModelFileError, PMWError, ReleaseError
from pmw.public.codec import MOST_CELLS, FormError, form_of, loads, read
from pmw.public.contract import guarantee
from pmw.public.export.manifest import model_manifest
from pmw.public.state import PublicState
from pmw.session.model_state import model_state, require
from pmw.session.released import Released
from pmw.session.verification.report import FAULTS
from queries.errors import SchemaError

FORMAT_VERSION = 2
_CONTENT = "online-pmw model"
_HEAD = re.compile(
    rb'\{"content":"online-pmw model","format_version":([0-9]{1,9}),"sha256":"([0-9a-f]{64})",\n"model":'
)
_LONGEST_HEAD = 200  # bytes
_LARGEST_FILE = 64 * 2**20  # bytes
_FAULTS: dict[type, str] = {SchemaError: "its schema cannot be read"}
_LEFT_OUT = {"settled": 0, "coarsening": None}  # not told; made of all else
_MOST_VALUES = 2**21  # of the JSON text: each takes up to about 70 bytes in memory


def export_model(released: Released, path: Path, *, force: bool) -> dict[str, Any]:
    """Write a model file, and return what it is.

    Args:
        released: by the session, with its newest model.
        path: the file to write.
        force: overwrite an existing file.

    Raises:
        ReleaseError: the model is too large for a file, the file exists and ``force`` is not given, or it
            cannot be written.

    Privacy: post-processing of released numbers; free.
    """
    require_file(path, force=force)
    raw = _written(released)
    try:
        state = _state(raw)
    except ModelFileError as error:
        raise ReleaseError(f"the model cannot be handed out as one file: {error}") from None
    write_whole(path, lambda target: target.write_bytes(raw))
    return {**model_manifest(state), "measurements": len(state.measurements), "bytes": len(raw)}


def _written(released: Released) -> bytes:
    model = json.dumps(_model_form(released), separators=(",", ":"), allow_nan=False) + "}\n"
    digest = hashlib.sha256(model.encode("ascii")).hexdigest()
    head = f'{{"content":"{_CONTENT}","format_version":{FORMAT_VERSION},"sha256":"{digest}",\n"model":'
    return (head + model).encode("ascii")


def _model_form(released: Released) -> dict[str, Any]:
    """Return the form of what was released. It is a function of that, and holds nothing else."""
    contract = released.contract
    if contract.seeded:  # that it is seeded is told; the seed would give the open round's noise
        contract = replace(contract, options=replace(contract.options, seed=0))
    form = form_of(replace(released, contract=contract), without=tuple(_LEFT_OUT))
    return {"guarantee": guarantee(contract), **form}


def _read_form(form: Any) -> Released:
    """Return what was released, of its form; its bins are not made.

    Raises:
        ModelFileError: it has another form, or is too large.
        ValueError: it cannot be read; KeyError, TypeError, ArithmeticError and our own errors too.
    """
    require(isinstance(form, dict) and "guarantee" in form, "it says no guarantee")
    read(str, form.pop("guarantee"))
    released: Released = read(Released, form, given=_LEFT_OUT, most_cells=MOST_CELLS)
    return released


def read_model(path: Path) -> PublicState:
    """Return the public state of a model file.

    Nothing in the file is run. It has at most 64 MB, and what is made of it some times that.

    Raises:
        ModelFileError: the file is no model, damaged, too large or of a later format.
    """
    try:
        return _state(_bytes_of(path))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def _bytes_of(path: Path) -> bytes:
    """Return what a file begins with, up to one byte more than a model may have.

    Raises:
        ModelFileError: there is no such file, or it cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):  # whatever else is opened may wait for ever
            with path.open("rb") as stream:
                return stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or "no file has such a name"
        raise ModelFileError(f"expected a model file that can be read: {reason}") from None
    raise ModelFileError(
        f"expected a model file, got {'a folder' if stat.S_ISDIR(mode) else 'another thing'}"
    )


def _state(raw: bytes) -> PublicState:
    """Return the public state of a model file's bytes.

    Raises:
        ModelFileError: they are no model, or one that is damaged, too large or of a later format.
    """
    text = _model_text(raw)
    del raw
    try:
        form = loads(text)
        del text
        released = _read_form(form)
        del form
        return model_state(released)
    except ModelFileError:
        raise
    except FormError as error:  # it names fields of ours, and no value
        raise ModelFileError(f"the model file is damaged: {error}") from None
    except (PMWError, *FAULTS) as error:
        fault = _FAULTS.get(type(error), "it cannot be read")
        raise ModelFileError(f"the model file is damaged: {fault}") from None


def _model_text(raw: bytes) -> str:
    """Return the model's JSON text, once it is what the file says it is.

    Raises:
        ModelFileError: it is not.
    """
    if raw.startswith(b"SQLite format 3\0"):
        raise ModelFileError("this is a session, not a model; ask it as a session, or export its model")
    head = _HEAD.match(raw[:_LONGEST_HEAD])
    if head is None:
        raise ModelFileError("the file is no model, or it is damaged")
    if int(head[1]) != FORMAT_VERSION:
        raise ModelFileError(f"the model has format {int(head[1])}; this version reads {FORMAT_VERSION}")
    if len(raw) > _LARGEST_FILE:
        raise ModelFileError(f"expected a model of at most {_LARGEST_FILE // 2**20} MB")
    model = memoryview(raw)[head.end() :]
    if hashlib.sha256(model).digest() != bytes.fromhex(head[2].decode()):
        raise ModelFileError("the model file is damaged: its content is not what its hash is of")
    # Each value but the first follows one of these, so that they bound what is parsed.
    if sum(raw.count(mark) for mark in (b"[", b"{", b",")) > _MOST_VALUES:
        raise ModelFileError(f"expected a model of at most {_MOST_VALUES:,} values")
    if raw[-2:] != b"}\n" or not raw.isascii():
        raise ModelFileError("the file is no model, or it is damaged")
    return str(model[:-2], "ascii")
