"""Registrations: an entry says what the contract and the ledger say, and leaves the rest to who registers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import pmw
from pmw.errors import ReleaseError
from pmw.privacy.budget import NeighboringRelation
from pmw.public.report.registry import registry_form, registry_text
from queries import Domain


def entry(frame: pd.DataFrame, domain: Domain, delta: float, **options: Any) -> dict[str, Any]:
    with pmw.open_session(frame, domain, epsilon=2, delta=delta, options=pmw.Options(**options)) as session:
        deployment: dict[str, Any] = registry_form(session.state, session.ledger())["deployment"]
        return deployment


def test_an_entry_says_what_the_contract_says(shared_frame: pd.DataFrame, domain: Domain) -> None:
    form = entry(shared_frame, domain, 1e-9, records_per_person=3)
    assert form["dp_variant"]["variant_name"] == "Approximate DP"
    assert all(name in form["dp_variant"]["data_domain"] for name in domain.names)
    loss = form["privacy_loss"]
    assert (loss["privacy_unit"], loss["number_of_privacy_units"]) == ("Person", 1)
    assert loss["privacy_parameters"] == {"epsilon": 2.0, "delta": 1e-9}
    assert loss["privacy_unit_details"] == (
        "Neighbouring tables differ by adding or removing all of one person's records (at most 3 records)"
    )
    assert "number of records" not in form["dp_variant"]["unprotected_quantities"]
    model = form["deployment_model"]
    assert (model["model_name"], model["release_type"], model["access_type"]) == (
        "Central", "Many releases", "Interactive",
    )  # fmt: skip


def test_a_pure_entry_has_no_delta_and_names_what_is_exact(
    shared_frame: pd.DataFrame, domain: Domain
) -> None:
    whole = Domain(tuple(replace(one, missing=True, other=True) for one in domain), name=domain.name)
    form = entry(shared_frame, whole, 0, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    assert form["dp_variant"]["variant_name"] == "Pure DP"
    assert form["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0}
    assert "The number of records is exact." in form["dp_variant"]["unprotected_quantities"]
    assert form["implementation"]["composition"].startswith("epsilons are added up;")
    assert "discrete Laplace noise" in form["implementation"]["mechanisms"]


def test_what_no_contract_says_is_left_empty(shared_frame: pd.DataFrame, domain: Domain) -> None:
    basic = entry(shared_frame, domain, 1e-9)["basic"]
    assert basic.pop("name") == domain.name
    assert not any(basic.values())
    assert {"description", "intended_use", "data_curators", "publication_date"} <= basic.keys()


def test_a_session_that_promises_nothing_has_no_entry(shared_frame: pd.DataFrame, domain: Domain) -> None:
    with pytest.raises(ReleaseError, match="promises nothing that could be registered"):
        entry(shared_frame, domain, 1e-9, seed=1)


@pytest.mark.parametrize("delta", [1e-9, 2.5e-7, 0.001])
def test_numbers_of_an_entry_are_numbers_in_json_and_in_yaml(
    shared_frame: pd.DataFrame, domain: Domain, delta: float
) -> None:
    """In YAML 1.1, which most readers take, a number with an exponent has a point and a sign."""
    with pmw.open_session(shared_frame, domain, epsilon=1, delta=delta) as session:
        text = registry_text(session.state, session.ledger())
        assert json.loads(text) == registry_form(session.state, session.ledger())
    (written,) = re.findall(r'"delta": (.*)', text)
    assert re.fullmatch(r"[0-9]+\.[0-9]*(e[-+][0-9]+)?", written)
    assert float(written) == delta
