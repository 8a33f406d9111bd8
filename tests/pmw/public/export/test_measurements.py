"""Measurements: what was released is enough to build the session's model again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.dense import DenseDistribution
from pmw.model.fitting import refit, step
from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    SingleMeasurement,
)
from pmw.privacy.noise import NoiseDistribution
from pmw.public.codec import read
from pmw.public.state import PublicState
from queries import Domain, LinearQuery, all_marginals, parse_schema
from tests import worlds


def noise_of(entry: dict[str, Any]) -> NoiseDistribution:
    noise: NoiseDistribution = read(NoiseDistribution, entry["noise"])
    return noise


def asked(frame: pd.DataFrame, domain: Domain, options: pmw.Options) -> PublicState:
    """Return the public state of a session that measured measurements."""
    with pmw.open_session(frame, domain, epsilon=3, delta=1e-9, options=options) as session:
        session.ask_all(all_marginals(domain, order=2))
        assert session.state.version >= 3
        return session.state


def exported(state: PublicState, path: Path) -> dict[str, Any]:
    from pmw.public.export import export

    export(state, path, format="measurements")
    form: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return form


def read_measurements(form: dict[str, Any]) -> list[SingleMeasurement]:
    """Return the measurements of a file in the order of their release."""
    domain, unit = parse_schema(form["schema"]), form["units_per_record"]
    found: list[tuple[int, SingleMeasurement]] = []
    for entry in form["marginals"]:
        units = np.array(entry["values"]).reshape(entry["shape"]) * unit
        assert np.array_equal(units, np.round(units))
        noise = noise_of(entry)
        marginal = MarginalMeasurement(tuple(entry["scope"]), units.astype(np.int64), noise)
        found.append((entry["position"], marginal))
    for entry in form["trees"]:
        tree = HierarchicalHistogram(
            entry["levels"][-1] - entry["special_cells"],
            entry["special_cells"],
            entry["branching"],
            len(entry["levels"]),
        )
        units = (np.array(entry["values"]) * unit).astype(np.int64)
        noise = noise_of(entry)
        found.append((entry["position"], HierarchicalMeasurement(tuple(entry["scope"]), tree, units, noise)))
    for entry in form["queries"]:
        query = LinearQuery.from_dict(domain, entry["query"])
        value, model = int(entry["value"] * unit), int(entry["model_value"] * unit)
        found.append((entry["position"], QueryMeasurement(query, value, noise_of(entry), model)))
    return [measurement for _, measurement in sorted(found, key=lambda item: item[0])]


def rebuilt(form: dict[str, Any]) -> DenseDistribution:
    """Fit a model to the numbers of a file, in the order of their release."""
    measurements = read_measurements(form)
    opening = sum(not isinstance(measurement, QueryMeasurement) for measurement in measurements)
    model = DenseDistribution.uniform(parse_schema(form["schema"]), form["total"]["value"])
    model = refit(model, measurements[:opening])
    for number, measurement in enumerate(measurements[opening:], start=opening + 1):
        if form["model"]["update"] == "refit":
            model = refit(model, measurements[:number])
        elif isinstance(measurement, QueryMeasurement):
            model = step(
                model,
                measurement.query,
                learning_rate=form["model"]["learning_rate"],
                increase=measurement.units > measurement.model_units,
            )
    return model


@pytest.mark.parametrize("update", list(pmw.UpdateRule))
@pytest.mark.parametrize("opening", [pmw.Opening.NONE, pmw.Opening.ONE_WAY, pmw.Opening.PAIRS])
def test_the_model_is_built_again_from_the_file(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, update: pmw.UpdateRule, opening: pmw.Opening
) -> None:
    options = pmw.Options(
        test=pmw.TestKind.QUERY, seed=3, update=update, opening=opening, threshold=40.0, update_limit=12
    )
    state = asked(frame, domain, options)
    form = exported(state, tmp_path / "m.json")
    model = rebuilt(form)
    assert model.total == state.model.total
    np.testing.assert_allclose(model.values, state.model.marginal(domain.names), rtol=1e-9, atol=1e-9)
    assert len(form["queries"]) == state.version
    assert len(form["marginals"]) == (0 if opening is pmw.Opening.NONE else 4)


def test_every_measurement_comes_back_exactly(frame: pd.DataFrame, domain: Domain, tmp_path: Path) -> None:
    state = asked(frame, domain, pmw.Options(test=pmw.TestKind.QUERY, seed=4, threshold=40.0))
    form = exported(state, tmp_path / "m.json")
    found = read_measurements(form)
    assert len(found) == len(state.measurements)
    for ours, theirs in zip(found, state.measurements, strict=True):
        assert ours.noise == theirs.noise
        assert np.array_equal(ours.units, theirs.units)
        if isinstance(ours, QueryMeasurement) and isinstance(theirs, QueryMeasurement):
            assert ours.query.key() == theirs.query.key()
            assert ours.model_units == theirs.model_units
    positions = [entry["position"] for kind in ("marginals", "queries") for entry in form[kind]]
    assert sorted(positions) == list(range(len(found)))


def test_the_numbers_are_in_records(frame: pd.DataFrame, domain: Domain, tmp_path: Path) -> None:
    state = asked(frame, domain, pmw.Options(test=pmw.TestKind.QUERY, seed=5, threshold=40.0))
    form = exported(state, tmp_path / "m.json")
    assert list(form) == [
        "content", "format_version", "program_version", "table", "guarantee", "epsilon_cap", "delta",
        "neighboring_relation", "records_per_person", "budget_share", "seeded", "typical_errors", "test",
        "schema",
        "units_per_record", "model", "total", "bins", "marginals", "residuals", "trees", "queries",
    ]  # fmt: skip
    assert form["total"] == {
        "value": state.total.value,
        "estimate": state.total.estimate,
        "standard_deviation": state.total.deviation,
    }
    marginal, query = form["marginals"][0], form["queries"][0]
    measured = state.measured[0]
    assert isinstance(measured, QueryMeasurement)
    assert (marginal["scope"], marginal["shape"]) == (["age"], [10])
    assert sum(marginal["values"]) == pytest.approx(3000, abs=200)
    assert marginal["standard_deviation"] == pytest.approx(math.sqrt(state.opening[0].variance))
    assert query["value"] == measured.value
    assert query["words"] == measured.query.describe()
    assert set(query["noise"]) == {"distribution", "sigma"}


def test_the_file_holds_public_state_only(frame: pd.DataFrame, domain: Domain, tmp_path: Path) -> None:
    from pmw.public.export import measurements_form

    state = asked(frame, domain, pmw.Options(test=pmw.TestKind.QUERY, seed=6, threshold=40.0))
    # The form is a function of the public state, whose type holds no secret.
    assert exported(state, tmp_path / "m.json") == json.loads(json.dumps(measurements_form(state)))
    text = (tmp_path / "m.json").read_text()
    for secret in ("noisy", "fingerprint", 'seed"', "threshold"):
        assert secret not in text


def test_the_model_is_built_again_from_a_tree_of_ranges(
    long_frame: pd.DataFrame, long_domain: Domain, tmp_path: Path
) -> None:
    options = pmw.Options(
        test=pmw.TestKind.QUERY, seed=3, threshold=20.0, update_limit=5, composition=pmw.Composition.ZCDP
    )
    state = asked(long_frame, long_domain, options)
    form = exported(state, tmp_path / "m.json")
    (tree,) = form["trees"]
    assert tree["levels"] == [8, 26, 101]
    assert tree["cells"] == state.opening[0].values.tolist()
    np.testing.assert_allclose(
        rebuilt(form).values, state.model.marginal(long_domain.names), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("opening", [pmw.Opening.PAIRS, pmw.Opening.TRIPLES])
def test_residuals_come_with_their_rows_and_the_noise_that_was_drawn(
    opening: pmw.Opening, tmp_path: Path
) -> None:
    with worlds.YEARS.opened(opening=opening, epsilon=3, seed=3) as session:
        state = session.state
    form = exported(state, tmp_path / "m.json")
    together = [entry for entry in form["residuals"] if len(entry["scope"]) > 1]
    assert [tuple(entry["scope"]) for entry in together] == [one.scope for one in state.marginals]
    assert not any(len(entry["scope"]) > 1 for entry in form["marginals"])
    for entry, measured in zip(together, state.marginals, strict=True):
        assert isinstance(measured, ResidualMeasurement)
        # What the numbers say of the residual, by the file alone.
        said, centred = np.array(entry["numbers"]) / entry["factor"], np.array(entry["values"])
        for axis, rows in enumerate(entry["rows"]):
            said = np.moveaxis(np.tensordot(np.linalg.pinv(np.array(rows)), said, (1, axis)), 0, axis)
            centred = centred - centred.mean(axis=axis, keepdims=True)
        np.testing.assert_allclose(said, centred, atol=1e-6)
        assert noise_of(entry) == measured.drawn
        assert entry["standard_deviation"] == float(measured.drawn.sigma)
