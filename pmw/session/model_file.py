"""Model files: a model as one JSON document that anybody may have, and back, whoever wrote it.

The document has two lines: what it is, with the SHA-256 of the second, and the model. The second is not read
before that agrees with it. The hash tells damage, not forgery: whoever makes a model up can write its hash
too, so all that is read is checked as well, before a model is made of it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.disk import require_file, write_whole
from pmw.errors import ModelFileError, PMWError, ReleaseError
from pmw.loop.untested import choose_bins
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    PersonsMeasurement,
    QueryMeasurement,
    SumMeasurement,
)
from pmw.planning.refusals import check_model_size
from pmw.public.codec import MOST_CELLS, FormError, form_of, loads, read
from pmw.public.contract import guarantee, published_contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.export.manifest import model_manifest
from pmw.public.half_widths import Confidences, Rests, negative_margin
from pmw.public.options import TestKind, UpdateRule
from pmw.public.plans import marginal_tier
from pmw.public.prior import is_prior_of
from pmw.public.state import ApartMeasurement, LaterMeasurement, PublicState, requested
from pmw.session.events import UNREADABLE, Measured, require_cells, require_measurable
from pmw.session.loading import KeptModel, Released, Snapshot, found_snapshot, state_of
from queries.cells import cell_count
from queries.errors import SchemaError

FORMAT_VERSION = 6
_CONTENT = "online-pmw model"
_HEAD = re.compile(
    rb'\{"content":"online-pmw model","format_version":([0-9]{1,9}),"sha256":"([0-9a-f]{64})",\n"model":'
)
_LONGEST_HEAD = 200  # bytes
_LARGEST_FILE = 64 * 2**20  # bytes
_FAULTS: dict[type, str] = {SchemaError: "its schema cannot be read"}
_LEFT_OUT = {"settled": 0, "coarsening": None, "since": ()}  # not told; made of all else; told by kind:
_SINCE: dict[str, Any] = {
    "measured": LaterMeasurement,
    "quantiles": ErrorQuantile,
    "sums": SumMeasurement,
    "heads": PersonsMeasurement,
}
_MOST_VALUES = 2**21  # of the JSON text: each takes up to about 70 bytes in memory
_MOST_TREE = 2**24  # cells of the model: 128 MB in float64
_LARGEST_UNITS = 2**60  # of a released number, in units: 10^12 records
_LARGEST_DUAL = 1e6  # far from overflow
_GREATEST_CONFIDENCE = 1 - 1e-12  # far from rounding to 1


def export_model(released: Released, path: Path, *, force: bool) -> dict[str, Any]:
    """Write a model file, and return what it is.

    Privacy: post-processing of released numbers; free.
    """
    require_file(path, force=force)
    return write_model(*made_model(released), path, force=force)


def made_model(released: Released) -> tuple[PublicState, bytes]:
    """Return the public state of a model that is handed out, and the content of its file."""
    content = _written(released)
    try:
        return model_state(content), content
    except ModelFileError as error:
        raise ReleaseError(f"the model cannot be handed out as one file: {error}") from None


def write_model(state: PublicState, content: bytes, path: Path, *, force: bool) -> dict[str, Any]:
    """Write a model's file, and return what it is; state and content are as ``read_model`` returns them."""
    if not content:
        raise ReleaseError("there is no model file to write again")
    require_file(path, force=force)
    write_whole(path, lambda target: target.write_bytes(content))
    return {**model_manifest(state), "measurements": len(state.measurements), "bytes": len(content)}


def _written(released: Released) -> bytes:
    """Return the bytes of what was released. They are a function of that, and hold nothing else."""
    contract = published_contract(released.contract)
    form = form_of(replace(released, contract=contract), without=(*_LEFT_OUT,))
    since = {name: [one for one in released.since if isinstance(one, kind)] for name, kind in _SINCE.items()}
    form = {"guarantee": guarantee(contract), **form, **form_of(since)}
    model = json.dumps(form, separators=(",", ":"), allow_nan=False) + "}\n"
    digest = hashlib.sha256(model.encode("ascii")).hexdigest()
    head = f'{{"content":"{_CONTENT}","format_version":{FORMAT_VERSION},"sha256":"{digest}",\n"model":'
    return (head + model).encode("ascii")


def _read_form(form: Any) -> Released:
    """Return what was released, of its form; its bins are not made."""
    _require(isinstance(form, dict) and "guarantee" in form, "it says no guarantee")
    read(str, form.pop("guarantee"))
    lists = [form.pop(name, None) for name in _SINCE]
    released: Released = read(Released, form, given=_LEFT_OUT, most_cells=MOST_CELLS)
    how: Any = {"domain": released.contract.domain, "most_cells": MOST_CELLS}
    kinds: Any = zip(_SINCE.values(), lists, strict=True)
    found = (read(Sequence[kind], one, **how) for kind, one in kinds)  # type: ignore[valid-type]
    return replace(released, since=tuple(itertools.chain.from_iterable(found)))


def read_model(path: Path) -> tuple[PublicState, bytes]:
    """Return the public state of a model file, and the file's content.

    Nothing in the file is run. It has at most 64 MB, and what is made of it some times that.
    """
    try:
        content = _bytes_of(path)
        return model_state(content), content
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def is_model_or_session(path: Path) -> bool:
    """Tell whether a file begins as models do, or is a session, which is refused where a model is read."""
    begins = _bytes_of(path, _LONGEST_HEAD)
    return begins.startswith((b'{"content":"online-pmw', b"SQLite format 3\0"))


def _bytes_of(path: Path, most: int = _LARGEST_FILE + 1) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):  # whatever else is opened may wait for ever
            with path.open("rb") as stream:
                return stream.read(most)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or "no file has such a name"
        raise ModelFileError(f"expected a model file that can be read: {reason}") from None
    raise ModelFileError(
        f"expected a model file, got {'a folder' if stat.S_ISDIR(mode) else 'another thing'}"
    )


def model_state(raw: bytes) -> PublicState:
    """Return the public state of a model file's bytes."""
    text = _model_text(raw)
    del raw
    try:
        form = loads(text)
        del text
        released = _read_form(form)
        del form
        return _checked_state(released)
    except ModelFileError:
        raise
    except FormError as error:  # it names fields of ours, and no value
        raise ModelFileError(f"the model file is damaged: {error}") from None
    except (PMWError, *UNREADABLE) as error:
        fault = _FAULTS.get(type(error), "it cannot be read")
        raise ModelFileError(f"the model file is damaged: {fault}") from None


def _model_text(raw: bytes) -> str:
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


# --- the state of what came from elsewhere ---------------------------------------------------------------


def _checked_state(released: Released) -> PublicState:
    """Return the public state of what came from elsewhere; nothing is fitted but for single steps."""
    contract, draws = released.contract, released.draws
    check_model_size(contract.domain, contract.options)
    cells = sum(attribute.size for attribute in contract.domain)
    _require(cells <= MOST_CELLS, "its attributes have too many cells")
    prior = contract.options.prior
    _require(prior is None or is_prior_of(prior, contract.domain), "its prior is of other attributes")
    _require(released.asked >= 0, "it answered fewer questions than none")
    _check_range(np.array([draws.total_units]), -_LARGEST_UNITS)
    for one in draws.marginals:
        _check_opening(released, one)
    coarsening = choose_bins(contract, released.opening_plan, draws, released.test_plan)
    released = replace(released, coarsening=coarsening)
    for later in (*draws.sums, *released.since):
        _check_since(released, later)
    _check_certificates(released)
    state = state_of(released, _kept_model(released))
    _check_bars(state)
    return state


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise ModelFileError(f"the model file is damaged: {fault}")


def _kept_model(released: Released) -> Snapshot | None:
    """Return the model that was kept; None where single steps are taken again."""
    if released.contract.options.update is UpdateRule.STEP:
        return None
    _check_duals(released.distribution, len(released.measured))
    found = found_snapshot(released)
    if found is None:
        raise ModelFileError("the model file is damaged: its distribution is not of its measurements")
    if found.model.cells > _MOST_TREE:
        size = cell_count(found.model.cells)
        raise ModelFileError(f"expected a distribution of at most {_MOST_TREE:,} cells, got {size}")
    return found


def _check_range(units: NDArray[np.int64], lowest: int) -> None:
    """Refuse a number that no count can be."""
    _require(units.size > 0, "a measurement has too few numbers")
    inside = int(units.min()) >= lowest and int(units.max()) <= _LARGEST_UNITS
    _require(inside, "a number is out of range")


def _check_opening(released: Released, one: OneWayMeasurement) -> None:
    domain = released.contract.domain
    is_whole = released.opening_plan.table_noise is not None
    scopes = [domain.names] if is_whole else [(name,) for name in domain.names]
    _require(one.scope in scopes, "its opening measures something else than its plan")
    _check_range(one.units, -_LARGEST_UNITS)
    if isinstance(one, HierarchicalMeasurement):
        _require(one.tree.size == domain[one.scope[0]].size, "a hierarchical histogram has other cells")
    else:
        _require(one.units.shape == domain.scope_shape(one.scope), "a marginal has other cells")
        _require(not one.requested, "its opening was requested")


def _check_since(released: Released, one: Measured) -> None:
    """Refuse a measurement that a session of this contract never makes."""
    domain = released.contract.domain
    units = [one.units, one.model_units] if isinstance(one, QueryMeasurement) else one.units
    _check_range(np.atleast_1d(np.array(units)), -_LARGEST_UNITS)
    if isinstance(one, ErrorQuantile):
        _require(min(one.asked, one.questions) >= 0, "a quantile is of fewer questions than none")
        return
    require_measurable(domain, requested(one))
    if isinstance(one, MarginalMeasurement):
        tests_questions = released.contract.options.test is TestKind.QUERY
        _require(not tests_questions, "it measures what it does not test")
        _check_marginal(released, one.scope, one.units, -_LARGEST_UNITS)
    if isinstance(one, ApartMeasurement):
        declared = domain.person is not None or isinstance(one, SumMeasurement)
        _require(declared, "it counts persons, and none are declared")
        shape = one.summed.shape(domain) if isinstance(one, SumMeasurement) else domain.scope_shape(one.scope)
        _require(one.units.shape == shape, "a measurement has other cells than its attributes")


def _check_marginal(
    released: Released, scope: tuple[str, ...], units: NDArray[np.int64], lowest: int
) -> None:
    ordered = bool(scope) and released.contract.domain.scope(scope) == scope
    _require(ordered, "a marginal's attributes are not in declared order")
    _check_range(units, lowest)
    require_cells(released.coarsening, scope, units)


def _check_certificates(released: Released) -> None:
    certificates = released.certificates
    tested = marginal_tier(released.test_plan) is not None
    _require(not certificates or tested, "it certifies what it does not test")
    _require(len({one.scope for one in certificates}) == len(certificates), "a marginal is certified twice")
    for one in certificates:
        _check_marginal(released, one.scope, one.units, 0)
        _require(0 <= one.version <= len(released.measured), "a certificate is of another model")
        _require(0 <= one.threshold <= _LARGEST_UNITS, "a threshold is out of range")


def _check_duals(kept: KeptModel | None, version: int) -> None:
    """Refuse a distribution of another version, or one that no fit gives."""
    if kept is None or kept.version != version:
        raise ModelFileError("the model file is damaged: its distribution has another version")
    duals = kept.duals
    _require(duals.ndim == 1, "its distribution is no list of numbers")
    _require(bool(np.all(np.isfinite(duals))), "its distribution holds what is no number")
    _require(float(np.abs(duals[:-1]).max(initial=0.0)) <= _LARGEST_DUAL, "its distribution is out of range")


def _check_bars(state: PublicState) -> None:
    """Refuse confidences that leave too little to fail to be computed with."""
    found = Confidences.in_state(state)
    for confidence in (found.everybody, found.rest):
        _require(confidence <= _GREATEST_CONFIDENCE, "its confidence is out of range")
    surest = found.shares(Rests.MIXED).certificate
    for tier in state.plan:
        _require(math.isfinite(negative_margin(tier, surest)), "a margin has no bound")
