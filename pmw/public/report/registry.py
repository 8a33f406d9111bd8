"""The registration: what a deployment's entry in the OpenDP registry of deployments may say of a session.

It says what contract and ledger do. What they do not say, such as who publishes what and why, is left empty
for whoever registers the deployment.

Source: opendp/deployments-registry-data, template.yaml; JSON is YAML too.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pmw.errors import ReleaseError
from pmw.privacy.budget import Composition
from pmw.public.contract import Contract, guarantee, replacement
from pmw.public.export.manifest import program_version
from pmw.public.ledger import Ledger
from pmw.public.report.page import unprotected
from pmw.public.state import PublicState
from queries.cells import cell_count

_WITHOUT_POINT = re.compile(r'("(?:epsilon|delta)": [0-9]+)e')
_LEFT = (
    *("description", "intended_use", "data_product_type", "data_product_region"),
    *("data_product_sector", "publication_date"),
)
_SUMS = {
    Composition.PURE: "epsilons are added up",
    Composition.ZCDP: "zero-concentrated DP: rhos are added up, and the sum pays delta once",
    Composition.GDP: "Gaussian DP: squares of mu are added up, and the sum pays delta once",
}


def registry_text(state: PublicState, ledger: Ledger) -> str:
    """Return a session's entry as JSON that is YAML 1.1 too, where 1e-09 is a text and 1.0e-09 a number."""
    text = json.dumps(registry_form(state, ledger), indent=2, ensure_ascii=False)
    return _WITHOUT_POINT.sub(r"\1.0e", text) + "\n"


def registry_form(state: PublicState, ledger: Ledger) -> dict[str, Any]:
    """Return a session's entry in the registry of deployments, ready for JSON.

    Privacy: a function of the contract and the ledger, which are public; free.
    """
    contract, kept = state.contract, state.contract.records_kept
    if contract.seeded:
        raise ReleaseError(
            "a session with a seed promises nothing that could be registered; open one without --seed"
        )
    return {
        "url_slug": "",
        "deployment": {
            "basic": {"name": state.domain.name, "data_curators": [], **dict.fromkeys(_LEFT, "")},
            **_promise(contract),
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "One custodian holds the table and the session",
                "release_type": "Many releases",
                "release_type_details": "Answers, tables and files of one session, under one guarantee",
                "data_source_type": "Static",
                "data_source_type_details": "The session refuses a table that differs from the one it opened",
                "access_type": "Interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": kept.note() if kept else "",
                "mechanisms": "; ".join(dict.fromkeys(line.theorem for line in ledger.lines)),
                "composition": f"{_SUMS[ledger.composition]}; a filter refuses what would exceed the cap",
                "post_processing": "Answers from a fitted model, synthetic tables",
                "additional_information": f"online-pmw {program_version()}",
            },
        },
    }


def _promise(contract: Contract) -> dict[str, Any]:
    domain, whole = contract.domain, contract.whole
    names = f"{len(domain)} declared attributes ({', '.join(domain.names)})"
    return {
        "dp_variant": {
            "variant_name": "Approximate DP" if whole.delta else "Pure DP",
            "data_domain": f"Tables of {names}, {cell_count(domain.size)} cells",
            "unprotected_quantities": " ".join(unprotected(contract)),
        },
        "privacy_loss": {
            "privacy_unit": "Person",
            "privacy_unit_details": f"Neighbouring tables differ by {replacement(contract)}",
            "number_of_privacy_units": 1,
            "privacy_parameters": {
                "epsilon": float(whole.epsilon),
                **({"delta": float(whole.delta)} if whole.delta else {}),
            },
            "privacy_parameters_details": guarantee(contract),
        },
    }
