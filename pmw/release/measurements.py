"""Measurements: every noisy number that was released, in a form that others can fit a model to."""

from __future__ import annotations

import math
from typing import Any

from pmw.model import MarginalMeasurement, Measurement, QueryMeasurement, noise_form
from pmw.release.manifest import contract_facts, program_version
from pmw.state import PublicState
from queries.linear import UNITS

__all__ = [
    "measurements_form",
]


def measurements_form(state: PublicState) -> dict[str, Any]:
    """Return all released measurements, ready for JSON.

    Values are in records, exact multiples of 1/``units_per_record``; so is no other number but the noise
    scales, which are fractions in units. ``position`` is the order of release: fitting the model to the
    marginals of the opening, then to one more measurement at a time, gives the session's model again.

    Returns:
        ``total`` (value, estimate, standard_deviation), ``marginals`` (scope, shape, values in declared
        order of cells), ``queries`` (canonical form, words, value, the model's value that it corrected),
        ``model`` (the update rule and its rate), and what a manifest says of the session.

    Privacy: released numbers alone; free.
    """
    options, plan = state.contract.options, state.plan
    entries = list(enumerate(state.measurements))
    return {
        "content": "online-pmw measurements",
        "format_version": 1,
        "program_version": program_version(),
        "table": state.domain.name,
        **contract_facts(state),
        "units_per_record": UNITS,
        "model": {
            "version": state.version,
            "update": options.update.value,
            "learning_rate": None if plan is None else plan.learning_rate,
        },
        "total": {
            "value": state.total.value,
            "estimate": state.total.estimate,
            "standard_deviation": state.total.deviation,
        },
        "marginals": [
            {"position": position, **_marginal_form(measurement)}
            for position, measurement in entries
            if isinstance(measurement, MarginalMeasurement)
        ],
        "queries": [
            {"position": position, **_query_form(measurement)}
            for position, measurement in entries
            if isinstance(measurement, QueryMeasurement)
        ],
    }


def _marginal_form(measurement: MarginalMeasurement) -> dict[str, Any]:
    return {
        "scope": list(measurement.scope),
        "shape": list(measurement.units.shape),
        "values": measurement.values.tolist(),
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


def _noise_facts(measurement: Measurement) -> dict[str, Any]:
    return {
        "standard_deviation": math.sqrt(measurement.variance),
        "noise": noise_form(measurement.noise),
    }
