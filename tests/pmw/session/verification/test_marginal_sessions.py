"""Verification where whole marginals are tested and measured: tamperings are found, by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.measurement import ResidualMeasurement
from pmw.public.options import ModelKind, TestKind
from queries import CategoricalAttribute, Domain, IntegerAttribute
from tests.pmw.session.stored import edit, execute, failed, tamper
from tests.pmw.session.verification.conftest import Copied
from tests.worlds import World, repeat_noise

CODES = tuple(f"{'low' if number < 200 else 'high'}{number}" for number in range(400))

PRICES = "every charge is what its event costs"
ROUNDS = "rounds and positives follow one another"
PAID = "every measurement was paid for, and every payment has its measurement"
PLANNED = "the measurements are the planned ones"
FIT = "the plans fit the contract"
SECRETS = "secrets are kept while they are needed, and no longer"
MODELS = "the models, the snapshot and the certificates follow from the measurements"
MEASURED = "measured answers are the stored measurements"


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every run, in files too."""
    repeat_noise(monkeypatch, 4)


def _people() -> pd.DataFrame:
    """Return records whose sexes follow ages; grades follow ages and codes together, but neither alone."""
    generator = np.random.default_rng(20)
    count = 20_000
    age = generator.integers(20, 60, count)
    code = generator.integers(0, 400, count)
    late = 4 * ((age < 40) ^ (code < 200))
    grade = np.array(list("abcdefgh"))[late + generator.integers(0, 4, count)]
    sex = np.where(generator.random(count) < np.where(age < 35, 0.9, 0.3), "Female", "Male")
    return pd.DataFrame({"age": age, "sex": sex, "grade": grade, "code": np.array(CODES)[code]})


# A long attribute, and one whose pairs are too large to be tested.
WIDE = World(
    Domain(
        (
            IntegerAttribute("age", 20, 59),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("grade", tuple("abcdefgh")),
            CategoricalAttribute("code", CODES),
        ),
        name="people",
    ),
    _people(),
)
QUESTIONS = [
    "",
    "age >= 40",
    "sex = 'Male' AND grade = 'a'",
    "sex = 'Male' AND age < 35",
    "age >= 33 AND grade = 'h'",
    "age BETWEEN 24 AND 31 AND grade = 'b' AND sex = 'Male'",
    "code LIKE 'low%' AND age < 40 AND grade IN ('a', 'b', 'c', 'd')",
    "code LIKE 'high%' AND age >= 40 AND grade IN ('a', 'b', 'c', 'd')",
    "code LIKE 'low%' AND grade = 'h'",
    "code IN ('low1', 'low2') AND grade = 'a'",
    "age < 30 AND sex = 'Female'",
]


GRAPHICAL: dict[str, Any] = {"test": TestKind.MARGINAL, "model": ModelKind.GRAPHICAL}


@pytest.fixture
def study(copied: Copied) -> Path:
    """Return the file of a session that measured marginals and a question, with both rounds open."""
    return copied("marginals", ask_questions)


def ask_questions(path: Path) -> None:
    # A tree of so few cells measures no marginal wider than a pair, so that some answers rest on certificates
    # alone.
    kind = pmw.SparseVectorKind.EXPONENTIAL
    with WIDE.opened(
        path, epsilon=4, update_limit=4, sparse_vector=kind, max_cells=30_000, **GRAPHICAL
    ) as session:
        session.ask_all(QUESTIONS)
        state = session.state
        assert state.positives_used > 0
        assert state.positives(1) > 0
        assert state.certificates
        assert not state.coarsening.is_identity
        assert state.rounds == (True, True)


def test_books_that_were_never_touched_hold(study: Path) -> None:
    assert failed(study) == {}
    for statement in ("", "DELETE FROM snapshots"):
        execute(study, statement)
        with pmw.resume_session(study, WIDE.frame) as session:
            session.ask_all(["age > 50 AND sex = 'Male'", "grade = 'c' AND sex = 'Male'"], fresh=True)
        assert failed(study) == {}


TAMPERINGS: dict[str, tuple[str, str, str]] = {
    "the price of a marginal was lowered": (
        "UPDATE ledger SET rho = '0' WHERE event = 'marginal' AND sequence > 6", PRICES, "(marginal)",
    ),
    "the price of a question was lowered": (
        "UPDATE ledger SET rho = '0' WHERE event = 'measurement'", PRICES, "(measurement)",
    ),
    "a round of questions was called one of marginals": (
        "UPDATE ledger SET label = 'threshold noise drawn' WHERE label LIKE '%single questions'",
        PRICES, "of charge",
    ),
    "all rounds of marginals were deleted": (
        "DELETE FROM ledger WHERE label = 'threshold noise drawn'", ROUNDS, "has no open round",
    ),
    "marginals were tested in rounds that were deleted": (
        "DELETE FROM ledger WHERE label = 'threshold noise drawn'", MODELS,
        "was tested in a round that was not paid for",
    ),
    "all rounds of questions were deleted": (
        "DELETE FROM ledger WHERE label LIKE '%single questions'", ROUNDS, "has no open round",
    ),
    "a measured marginal was deleted": (
        "DELETE FROM measurements WHERE kind = 'measured'", PAID, "has no measurement",
    ),
    "a measured marginal was exchanged for another": (
        "UPDATE ledger SET label = 'sex, grade' WHERE event = 'marginal' AND sequence > 6", PAID, "has no",
    ),
    "a marginal's noise was understated": (
        '''UPDATE measurements SET noise = '{"distribution":"discrete_gaussian","sigma":"9"}' '''
        "WHERE kind = 'measured'",
        PLANNED, "noise of measurement",
    ),
    "the noise of marginals was understated in the plan": (
        "UPDATE meta SET value = replace(value, '\"sensitivity\":1048576', '\"sensitivity\":1') "
        "WHERE key = 'test_plan'", FIT, "sensitivity of tests",
    ),
    "a threshold was deleted": ("DELETE FROM secrets WHERE key = 'threshold 0'", SECRETS, "secrets kept"),
    "the other threshold was deleted": (
        "DELETE FROM secrets WHERE key = 'threshold 1'", SECRETS, "secrets kept",
    ),
    "a threshold of a certificate was lowered": (
        "UPDATE certificates SET threshold = 1 WHERE sequence = (SELECT min(sequence) FROM certificates)",
        MODELS, "has a threshold that was never planned",
    ),
    "a certificate was given to another version": (
        "UPDATE certificates SET version = 99", MODELS, "certificates of versions that do not follow",
    ),
    "a measured answer was altered": (
        "UPDATE answers SET count = count + 10 WHERE source = 'measured'", MEASURED, "count: expected",
    ),
    "measured answers are to a wider question": (
        "UPDATE answers SET (query, keyed_by) = (SELECT query, keyed_by FROM answers WHERE sequence = 7) "
        "WHERE source = 'measured' AND sequence < 7", MEASURED, "does not contain its question",
    ),
    "a measured answer was invented": (
        "UPDATE answers SET source = 'measured' WHERE sequence = 3", MEASURED, "",
    ),
    "a second answer was called the measurement": (
        "UPDATE answers SET source = 'measured' WHERE sequence = 11", MEASURED, "is not a new one",
    ),
    "what is tested was rewritten": (
        "UPDATE meta SET value = replace(value, '\"test\":\"marginal\"', '\"test\":\"query\"') "
        "WHERE key = 'contract'",
        "contract, plans and charges can be read", "BudgetError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("tampering", list(TAMPERINGS))
def test_a_tampering_is_found_by_name(study: Path, tampering: str) -> None:
    statements, name, fault = TAMPERINGS[tampering]
    tamper(study, statements)
    found = failed(study)
    assert name in found, found
    assert fault in found[name]


def shifted(units: bytes) -> bytes:
    values = np.frombuffer(units, dtype="<i8").copy()
    values[0] -= 4000 * 2**20
    return values.tobytes()


@pytest.mark.parametrize(
    ("table", "where"),
    [("measurements", "kind = 'measured'"), ("measurements", "kind = 'query'"), ("certificates", "1")],
)
def test_numbers_that_were_altered_are_found(study: Path, table: str, where: str) -> None:
    edit(study, table, "units", where, shifted)
    assert {MODELS, MEASURED} & set(failed(study))  # what is beside the model moves its answers alone


def first_tier(text: str, **changed: int) -> str:
    """Return a plan with numbers of its first tier changed."""
    first, *others = json.loads(text)
    return json.dumps([{**first, **changed}, *others])


def test_a_marginal_that_is_wider_or_on_other_cells_than_planned_is_found(study: Path) -> None:
    whole = study.read_bytes()
    edit(
        study, "meta", "value", "key = 'test_plan'", lambda text: first_tier(text, most_cells=1, free_cells=1)
    )
    found = failed(study)
    assert "cells; at most 1 were planned" in found[PLANNED]
    assert "has more cells than are tested" in found[MODELS]
    study.write_bytes(whole)
    edit(study, "meta", "value", "key = 'test_plan'", lambda text: first_tier(text, fine_cells=10**9))
    assert "cells of measurement" in failed(study)[PLANNED]


def measure_pairs(path: Path) -> None:
    with WIDE.opened(path, epsilon=4, opening=pmw.Opening.PAIRS) as session:
        session.ask_all(QUESTIONS[:4])
        assert session.state.marginals
        assert any(isinstance(one, ResidualMeasurement) for one in session.state.opening)


def test_books_of_pairs_that_were_never_touched_hold(copied: Copied) -> None:
    assert failed(copied("pairs", measure_pairs)) == {}


@pytest.mark.parametrize(
    ("tampering", "check", "words"),
    [
        (
            "UPDATE meta SET value = replace(value, '\"replaced\":false', '\"replaced\":true') "
            "WHERE key = 'opening_plan'",
            FIT,
            "relation of the rows of",
        ),
        (
            "UPDATE meta SET value = replace(value, '\"order\":2', '\"order\":1') WHERE key = 'opening_plan'",
            FIT,
            "rows are planned, but no residuals",
        ),
        (
            "UPDATE meta SET value = replace(value, '\"order\":2', '\"order\":3') WHERE key = 'opening_plan'",
            FIT,
            "marginals of 3 attributes, which the options do not ask for",
        ),
        (
            'UPDATE meta SET value = replace(value, \'"prices":["1"]\', \'"prices":["1","1"]\') '
            "WHERE key = 'test_plan'",
            FIT,
            "attributes of the widest residuals",
        ),
        (
            "UPDATE measurements SET what = replace(what, '\"replaced\":false', '\"replaced\":true') "
            "WHERE sequence = (SELECT max(sequence) FROM measurements)",
            PLANNED,
            "relation of the rows of measurement",
        ),
    ],
)
def test_rows_of_the_other_relation_are_found(copied: Copied, tampering: str, check: str, words: str) -> None:
    study = copied("pairs", measure_pairs)
    tamper(study, tampering)
    assert words in failed(study)[check]
