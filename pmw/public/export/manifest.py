"""Manifests: what an exported file is, how it was made and what it guarantees; and the file of measurements.

That has every noisy number that was released, in a form that others can fit a model to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from pmw.model import (
    Coarsening,
    HierarchicalMeasurement,
    MarginalMeasurement,
    Measurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SingleMeasurement,
)
from pmw.public.codec import form_of
from pmw.public.contract import guarantee
from pmw.public.error_quantiles import typical_errors
from pmw.public.export.reproduction import Reproduction
from pmw.public.export.rows import RowPlan
from pmw.public.pairs import held_pairs
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from queries.factors import UNITS
from queries.schema import format_schema

_MEASUREMENTS = "online-pmw measurements"
Measured = TypeVar("Measured", bound=Measurement)


def contract_facts(state: PublicState) -> dict[str, Any]:
    """Return what every exported file says of its session."""
    contract = state.contract
    return {
        "guarantee": guarantee(contract),
        "epsilon_cap": float(contract.whole.epsilon),
        "delta": float(contract.whole.delta),
        "neighboring_relation": contract.options.neighboring_relation.value,
        "records_per_person": contract.options.records_per_person,
        **(
            {}
            if contract.options.person_column is None
            else {"person_column": contract.options.person_column}
        ),
        **_prior_facts(state),
        **_expected_facts(state),
        "budget_share": state.ledger.share,
        "seeded": contract.seeded,
        "typical_errors": [
            asdict(one)
            for one in typical_errors(state.quantiles, contract.options.confidence, state.total.value)
        ],
        "test": contract.options.test.value,
        "schema": format_schema(contract.domain),
    }


def _prior_facts(state: PublicState) -> dict[str, Any]:
    """Return which public prior the contract names, and whether the model begins with it."""
    prior = state.contract.options.prior
    return {} if prior is None else {"prior": {"sha256": prior.digest, "used": state.elects_prior}}


def _expected_facts(state: PublicState) -> dict[str, Any]:
    """Return which expected questions the contract names."""
    expected = state.contract.options.expected
    if expected is None:
        return {}
    return {"expected": {"sha256": expected.digest, "questions": len(expected), "sets": len(expected.scopes)}}


def table_manifest(
    state: PublicState, file_format: str, plan: RowPlan, rows: int, marginals: Reproduction
) -> dict[str, Any]:
    """Return what goes beside a synthetic table.

    Args:
        marginals: what the rows reproduce of the measured marginals; of none where they satisfy a condition.
    """
    method = "independent draws" if plan.independent else "systematic rounding"
    drawn: dict[str, Any] = {"rows": rows, "method": method, "row_seed": plan.seed}
    if plan.where is not None:
        drawn["where"] = plan.where
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
    options, questions = state.contract.options, state.query_plan
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
        "bins": _bins_form(state.coarsening),
        "marginals": _of_kind(state, MarginalMeasurement, lambda one: _marginal_form(state, one)),
        "residuals": _of_kind(state, ResidualMeasurement, lambda one: _residual_form(state, one)),
        "trees": _of_kind(state, HierarchicalMeasurement, _tree_form),
        "queries": [*_of_kind(state, QueryMeasurement, _query_form), *_rows_forms(state)],
    }


def _of_kind(
    state: PublicState, kind: type[Measured], form: Callable[[Measured], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the measurements of a kind, each with its place among all."""
    entries = enumerate(state.measurements)
    return [{"position": position, **form(one)} for position, one in entries if type(one) is kind]


def _bins_form(coarsening: Coarsening) -> dict[str, Any]:
    """Return the bins of long attributes: for each cell, its bin and its share of the bin's records."""
    return {
        attribute.name: {"bins": bin_.tolist(), "shares": share.tolist()}
        for attribute, bin_, share in zip(coarsening.fine, coarsening.bins, coarsening.shares, strict=True)
        if bin_ is not None and share is not None
    }


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


def _rows_forms(state: PublicState) -> list[dict[str, Any]]:
    """Return the questions of lists that were measured: all of a list at its place, corrected by no model."""
    return [
        {"position": position, **_query_form(number), "model_value": None}
        for position, one in enumerate(state.measurements)
        for number in (one.numbers if isinstance(one, RowsMeasurement) else ())
    ]


def _noise_facts(measurement: SingleMeasurement) -> dict[str, Any]:
    return {
        "standard_deviation": math.sqrt(measurement.variance),
        "noise": form_of(measurement.noise),
    }
