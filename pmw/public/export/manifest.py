"""Manifests: what an exported file is, how it was made and what it guarantees; and the file of measurements.

That has every noisy number that was released, in a form that others can fit a model to. A manifest of rows
says which measured marginals these do not have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    Measurement,
    OneWayMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SingleMeasurement,
    most_squares,
    target_of,
)
from pmw.public.codec import form_of
from pmw.public.contract import guarantee
from pmw.public.error_quantiles import typical_errors
from pmw.public.export.rows import RowPlan
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from pmw.public.status import held_pairs
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.places import as_index
from queries.records import CodedRecords
from queries.schema import format_schema

_NAMED = 3  # marginals that one line has room for


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A measured marginal that rows do not reproduce.

    Args:
        scope: attribute names in declared order.
        distance: the sum over its cells of |rows - measured|, less what the noise of the measurement makes of
            it on average, as a fraction of the records.
    """

    scope: tuple[str, ...]
    distance: float

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {"scope": list(self.scope), "distance": round(self.distance, 6)}


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What rows reproduce of the marginals that were measured, one by one: more attributes are not looked at.

    Args:
        missed: those that the rows are farther from than noise explains, the farthest first.
    """

    measured: int
    missed: tuple[Shortfall, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {"measured": self.measured, "not_reproduced": [one.to_dict() for one in self.missed]}


def reproduction(state: PublicState, records: CodedRecords) -> Reproduction:
    """Return which measured marginals synthetic rows do not reproduce beyond their noise.

    If rows were the table itself, the squares of their errors, each over the variance of its noise, would sum
    to a chi-square number of as many degrees as the measurement has free numbers. Rows miss a marginal where
    that is more than noise makes but once in about 700 times. Of a pair that is measured as a residual it is
    the residual that counts; what its attributes say alone is looked at alone. Of a scope that was measured
    several times, the quietest measurement counts.

    Privacy: post-processing of released numbers; free.
    """
    quietest: dict[tuple[str, ...], OneWayMeasurement] = {}
    for one in state.measurements:
        if not isinstance(one, QueryMeasurement | RowsMeasurement) and one.scope:
            known = quietest.get(one.scope)
            if known is None or one.cell_variances.sum() < known.cell_variances.sum():
                quietest[one.scope] = one
    coarse = state.coarsening.cells_of(records.columns)
    found = [
        _shortfall(state, one, records.columns if _is_fine(state, one) else coarse)
        for one in quietest.values()
    ]
    missed = sorted((one for one in found if one is not None), key=lambda one: -one.distance)
    return Reproduction(len(quietest), tuple(missed))


def reproduction_sentence(form: dict[str, Any]) -> str:
    """Return what rows miss, in words, of a manifest's form; the empty text where they miss nothing."""
    missed = form["not_reproduced"]
    if not missed:
        return ""
    more = "; …" if len(missed) > _NAMED else ""
    named = "; ".join(f"{', '.join(one['scope'])} ({one['distance']:.1%})" for one in missed[:_NAMED])
    return (
        f"The rows are farther than noise explains from {len(missed)} of {form['measured']} measured "
        f"marginals, in parts of the records: {named}{more}."
    )


def _is_fine(state: PublicState, one: OneWayMeasurement) -> bool:
    return state.domain.scope_size(one.scope) == one.values.size


def _shortfall(
    state: PublicState, one: OneWayMeasurement, columns: Sequence[NDArray[np.integer[Any]]]
) -> Shortfall | None:
    target = target_of(one, state.total.value)
    own = tuple(columns[state.domain.index(name)] for name in one.scope)
    shape = target.values.shape
    cells = np.ravel_multi_index(own, shape)
    counts = np.bincount(as_index(cells), minlength=target.values.size).reshape(shape)
    errors = counts * (state.total.value / max(1, len(own[0]))) - target.values
    squares, free = float(np.vdot(target.pull(errors), errors)), target.free_numbers
    beyond = float(np.abs(errors).sum()) - math.sqrt(2 / math.pi) * float(np.sqrt(one.cell_variances).sum())
    is_missed = squares > most_squares(free) and beyond > 0
    return Shortfall(one.scope, beyond / state.total.value) if is_missed else None


_MEASUREMENTS = "online-pmw measurements"
Measured = TypeVar("Measured", bound=Measurement)


def contract_facts(state: PublicState) -> dict[str, Any]:
    """Return what every exported file says of its session."""
    contract, more = state.contract, dict[str, Any]()
    person, prior, expected = (
        getattr(contract.options, name) for name in ("person_column", "prior", "expected")
    )
    if person is not None:
        more["person_column"] = person
    if prior is not None:  # and whether the model begins with it
        more["prior"] = {"sha256": prior.digest, "used": state.elects_prior}
    if expected is not None:
        sets = len(expected.scopes)
        more["expected"] = {"sha256": expected.digest, "questions": len(expected), "sets": sets}
    if contract.options.minimum_count is not None:
        more["minimum_count"] = contract.options.minimum_count
    return {
        "guarantee": guarantee(contract),
        "epsilon_cap": float(contract.whole.epsilon),
        "delta": float(contract.whole.delta),
        "neighboring_relation": contract.options.neighboring_relation.value,
        "records_per_person": contract.options.records_per_person,
        **more,
        "budget_share": state.ledger.share,
        "seeded": contract.seeded,
        "typical_errors": [
            asdict(one)
            for one in typical_errors(state.quantiles, contract.options.confidence, state.total.value)
        ],
        "test": contract.options.test.value,
        "schema": format_schema(contract.domain),
    }


def table_manifest(
    state: PublicState, file_format: str, plan: RowPlan, rows: int, marginals: Reproduction
) -> dict[str, Any]:
    """Return what goes beside a synthetic table."""
    method = "independent draws" if plan.independent else "systematic rounding"
    drawn: dict[str, Any] = {"rows": rows, "method": method, "row_seed": plan.seed}
    if plan.where is not None:
        drawn["where"] = plan.where
    if file_format == "csv" and plan.dialect.unusual:
        drawn["dialect"] = plan.dialect.unusual
    return _manifest(
        state, file_format, "online-pmw synthetic table", {**drawn, "marginals": marginals.to_dict()}
    )


def measurements_manifest(state: PublicState, file_format: str) -> dict[str, Any]:
    """Return what goes beside a file of measurements."""
    return _manifest(state, file_format, _MEASUREMENTS, {"measurements": len(state.measurements)})


def model_manifest(state: PublicState) -> dict[str, Any]:
    """Return what a model file is; it holds this itself, and nothing goes beside it."""
    return _manifest(state, "model", "online-pmw model", {})


def _manifest(state: PublicState, file_format: str, content: str, own: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": file_format,
        **_heading(state, content),
        **own,
        "pairs": held_pairs(state).to_dict(),
        "model_version": state.version,
        "total": state.total.records,
        **contract_facts(state),
    }


def _heading(state: PublicState, content: str) -> dict[str, Any]:
    return {
        "content": content,
        "format_version": 1,
        "program_version": program_version(),
        "table": state.domain.name,
    }


def program_version() -> str:
    """Return the version of the installed package."""
    from importlib import metadata  # late: it takes a twentieth of the time in which a command answers

    try:
        return metadata.version("online-pmw")
    except metadata.PackageNotFoundError:
        return "unknown"


# --- measurements ------------------------------------------------------------------------------------------


def measurements_form(state: PublicState) -> dict[str, Any]:
    """Return all released measurements, ready for JSON.

    Values are in records, exact multiples of 1/``units_per_record``; so is no other number but the noise
    scales, which are fractions in units. Numbers of residuals, and the scales of their noise, are whole
    numbers on the grid of their rows. ``position`` is the order of release: fitting the model to the
    marginals and trees of the opening, then to one more measurement at a time, gives the session's model
    again.

    Returns:
        ``total`` (value, estimate, standard_deviation), ``bins`` (of long attributes: the bin of each
        cell, and its share of the bin's records in the model), ``marginals`` (scope, the attributes of it
        whose cells are bins, shape, values in declared order of cells), ``residuals`` (likewise, with the
        integer rows along each attribute and their factor f, the numbers f (K_1 x ... x K_m) counts + noise
        on a grid of their own, and the counts that these say with the number of records and the
        attributes' own), ``trees`` (scope, nodes of each level, the widest first, the values of all nodes in
        that order, and the cells that least squares makes of them), ``queries`` (canonical form, words,
        value, the model's value that it corrected), ``model`` (the update rule and its rate, what is tested,
        and the positions of what the model does not take in), and what a manifest says of the session.

    Privacy: released numbers alone; free.
    """
    options, questions, bins = state.contract.options, state.query_plan, state.coarsening
    alone = None if marginal_tier(state.plan) else questions  # which takes single steps
    return {
        **_heading(state, _MEASUREMENTS),
        **contract_facts(state),
        "units_per_record": UNITS,
        "model": {
            "version": state.version,
            "update": options.update.value,
            "learning_rate": alone.learning_rate if alone else None,
            "test": options.test.value,
            "beside": [len(state.opening) + place for place in state.beside],
        },
        "total": {
            "value": state.total.value,
            "estimate": state.total.estimate,
            "standard_deviation": state.total.deviation,
        },
        "bins": {
            attribute.name: {"bins": bin_.tolist(), "shares": share.tolist()}
            for attribute, bin_, share in zip(bins.fine, bins.bins, bins.shares, strict=True)
            if bin_ is not None and share is not None
        },
        "marginals": _of_kind(state, MarginalMeasurement, lambda one: _marginal_form(state, one)),
        "residuals": _of_kind(state, ResidualMeasurement, lambda one: _residual_form(state, one)),
        "trees": _of_kind(state, HierarchicalMeasurement, _tree_form),
        "queries": [
            *_of_kind(state, QueryMeasurement, _query_form),
            *(  # all of a list at its place, corrected by no model
                {"position": position, **_query_form(number), "model_value": None}
                for position, one in enumerate(state.measurements)
                for number in (one.numbers if isinstance(one, RowsMeasurement) else ())
            ),
        ],
    }


def _of_kind(
    state: PublicState, kind: type[Measured], form: Callable[[Measured], dict[str, Any]]
) -> list[dict[str, Any]]:
    entries = enumerate(state.measurements)
    return [{"position": position, **form(one)} for position, one in entries if type(one) is kind]


def _binned(state: PublicState, measurement: MarginalMeasurement) -> list[str]:
    """Return the attributes of a marginal whose cells are bins."""
    sizes = zip(measurement.scope, measurement.units.shape, strict=True)
    return [name for name, size in sizes if size < state.domain[name].size]


def _marginal_form(state: PublicState, measurement: MarginalMeasurement) -> dict[str, Any]:
    return {
        "scope": list(measurement.scope),
        "binned": _binned(state, measurement),
        "shape": list(measurement.units.shape),
        "values": measurement.values.tolist(),
        **_noise_facts(measurement),
    }


def _residual_form(state: PublicState, measurement: ResidualMeasurement) -> dict[str, Any]:
    strategy = measurement.strategy
    return {
        "scope": list(measurement.scope),
        "binned": _binned(state, measurement),
        "shape": list(measurement.units.shape),
        "factor": strategy.factor,
        "rows": [axis.matrix.tolist() for axis in strategy.axes],
        "numbers": measurement.units.tolist(),
        "values": measurement.values.tolist(),
        "standard_deviation": float(measurement.drawn.sigma),
        "noise": form_of(measurement.drawn),
    }


def _tree_form(measurement: HierarchicalMeasurement) -> dict[str, Any]:
    tree = measurement.tree
    return {
        "scope": list(measurement.scope),
        "branching": tree.branching,
        "special_cells": tree.special,
        "levels": list(tree.sizes),
        **({"hierarchy": [list(level) for level in tree.hierarchy]} if tree.hierarchy else {}),
        "values": (measurement.units / UNITS).tolist(),
        "cells": measurement.values.tolist(),
        **_noise_facts(measurement),
    }


def _query_form(measurement: QueryMeasurement) -> dict[str, Any]:
    return {
        "query": measurement.query.to_dict(),
        "words": measurement.query.describe(),
        "value": measurement.value,
        "model_value": measurement.model_units / UNITS,
        **_noise_facts(measurement),
    }


def _noise_facts(measurement: SingleMeasurement) -> dict[str, Any]:
    return {
        "standard_deviation": math.sqrt(measurement.variance),
        "noise": form_of(measurement.noise),
    }
