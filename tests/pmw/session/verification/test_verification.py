"""Verification: books that were never touched hold; tamperings are found, by name."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.measurement import ResidualMeasurement
from pmw.public.options import ModelKind, TestKind
from pmw.session.maintenance import read_session
from pmw.session.store.rows import IntentRow
from pmw.session.store.store import SessionStore
from queries import CategoricalAttribute, Domain, IntegerAttribute
from tests.pmw.session.stored import cut_off, edit, execute, failed, secrets_of, tamper
from tests.worlds import INCOMES, PEOPLE, World, repeat_noise

WRONG = "age >= 40 AND NOT member = TRUE"  # the opening's model is far off: a positive
RIGHT = "sex = 'Male' AND region = 'north'"  # independent attributes: a negative
QUESTIONS = [
    "",
    "age >= 40",
    RIGHT,
    "age BETWEEN 24 AND 31 AND member = TRUE",
    "sex = 'Female' AND region = 'south'",
    WRONG,
    "sex = 'Female' AND region = 'west'",
]

UNDERSTATED = """UPDATE measurements SET noise = '{"distribution":"discrete_gaussian","sigma":"9"}'"""
WHOLE = "the file is whole"
FIT = "the plans fit the contract"
PRICES = "every charge is what its event costs"
ROUNDS = "rounds and positives follow one another"
PAID = "every measurement was paid for, and every payment has its measurement"
QUANTILES = "the error quantiles are those that were due"
CAP = "the charges stay under the cap"
PLANNED = "the measurements are the planned ones"
BATCHES = "the charge of a batch that waits is reserved"
SECRETS = "secrets are kept while they are needed, and no longer"
MODELS = "the models and the snapshot follow from the measurements"
MEASURED = "measured answers are the stored measurements"
FORM = "every answer has the form that its source promises"
READ = "measurements and answers can be read"
ORDER = "the share in answers never falls and never exceeds 1"
UNREADABLE = "contract, plans and charges can be read"
ALL = [
    WHOLE, FIT, PRICES, ROUNDS, PAID, QUANTILES, CAP, PLANNED, BATCHES, SECRETS, MODELS, MEASURED, FORM,
    ORDER,
]  # fmt: skip


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every run, in files too."""
    repeat_noise(monkeypatch, 3)


@pytest.fixture(scope="module")
def made_once() -> dict[str, Path]:
    """The folders of sessions that were made, by their names."""
    return {}


@pytest.fixture
def copied(
    made_once: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Callable[[str], Path]:
    """Return what gives a copy of a session of ``MADE``, which is made once."""

    def copy(name: str) -> Path:
        if name not in made_once:
            made_once[name] = tmp_path_factory.mktemp("made")
            make, seed = MADE[name]
            with pytest.MonkeyPatch.context() as patch:
                repeat_noise(patch, seed)
                make(made_once[name] / "study.pmw")
        for file in made_once[name].iterdir():  # with its companions
            shutil.copy2(file, tmp_path)
        return tmp_path / "study.pmw"

    return copy


@pytest.fixture
def study(copied: Callable[[str], Path]) -> Path:
    return copied("questions")


def ask_questions(path: Path) -> None:
    """Leave a session that was asked questions: two positives, and a round that is open."""
    zcdp = pmw.Composition.ZCDP
    options = pmw.Options(test=TestKind.QUERY, threshold=100.0, update_limit=6, composition=zcdp)
    with PEOPLE.opened(path, epsilon=5, options=options) as session:
        answers = session.ask_all(QUESTIONS)
        session.ask(RIGHT)
        assert [answer.source.value for answer in answers] == [
            "synthetic", "synthetic", "synthetic", "measured", "synthetic", "measured", "synthetic",
        ]  # fmt: skip
        assert session.state.round_open


def test_books_that_were_never_touched_hold(study: Path) -> None:
    verification = pmw.verify_session(study)
    assert [check.name for check in verification.checks] == ALL
    assert verification.holds, failed(study)
    assert not verification.unfinished
    assert not verification.closed
    details = {check.name: check.detail for check in verification.checks}
    assert details[PRICES] == "10 charges, each recomputed as an exact fraction"
    assert details[ROUNDS] == "2 of 6 positives"
    assert details[MEASURED] == "2 answers"
    assert details[FORM] == "7 answers"


TAMPERINGS: dict[str, tuple[str, str, str]] = {
    "a charge was lowered": (
        "UPDATE ledger SET rho = '1/1000000' WHERE sequence = 3", PRICES,
        "rho of charge 3 (marginal): expected ",
    ),
    "an epsilon was lowered": (
        "UPDATE ledger SET epsilon = '1/1000000' WHERE event = 'sparse vector round'", PRICES,
        "epsilon of charge 6 (sparse vector round)",
    ),
    "a measurement's charge was lowered": (
        "UPDATE ledger SET rho = '0' WHERE event = 'measurement'", PRICES, "rho of charge 7 (measurement)",
    ),
    "a charge was made unreadable": (
        "UPDATE ledger SET rho = 'one' WHERE sequence = 3",
        UNREADABLE, "Charge.rho: no fraction",
    ),
    "an event was renamed": (
        "UPDATE ledger SET event = 'coffee' WHERE sequence = 6", PRICES, "charge 6 (coffee): expected sparse",
    ),
    "a charge of the opening was deleted": ("DELETE FROM ledger WHERE sequence = 2", PRICES, "charge 2"),
    "a round was deleted": (
        "DELETE FROM ledger WHERE sequence = 6", ROUNDS, "charge 6 (measurement) has no open round",
    ),
    "the open round was deleted": ("DELETE FROM ledger WHERE sequence = 10", SECRETS, "secrets kept"),
    "a round was charged twice": (
        "INSERT INTO ledger SELECT 11, intent, event, label, epsilon, rho, mu_squared, booked FROM ledger"
        " WHERE sequence = 10",
        ROUNDS, "charge 11 (sparse vector round) opens a round while one is open",
    ),
    "a charge was given to an earlier batch": (
        "UPDATE ledger SET intent = 1 WHERE sequence = 10", ROUNDS,
        "charge 10 (sparse vector round) belongs to an earlier batch",
    ),
    "a batch was abandoned in an open session": (
        "INSERT INTO ledger SELECT 11, intent, 'abandoned batch', 'reserved; nothing was released', epsilon,"
        " rho, mu_squared, booked FROM ledger WHERE sequence = 10",
        ROUNDS, "charge 11 (abandoned batch) is not the last of all",
    ),
    "an abandoned batch was charged too little": (
        "INSERT INTO meta VALUES ('closed', 'true', x''); DELETE FROM secrets;"
        "INSERT INTO ledger SELECT 11, intent, 'abandoned batch', 'reserved; nothing was released', epsilon,"
        " '1/1000000', mu_squared, booked FROM ledger WHERE sequence = 10",
        ROUNDS, "of charge 11 (abandoned batch): expected",
    ),
    "a payment was deleted": (
        "DELETE FROM ledger WHERE sequence = 7", PAID,
        "the measurement of 'age 24 to 31 and member true' (batch 2) has no charge",
    ),
    "a measurement was deleted": (
        "DELETE FROM measurements WHERE kind = 'query' AND intent = 2", PAID,
        "the charge for 'age 24 to 31 and member true' (batch 2) has no measurement",
    ),
    "a payment was given to another batch": (
        "UPDATE ledger SET intent = 3 WHERE sequence = 7", PAID, "(batch 2) has no charge",
    ),
    "every measurement was deleted": ("DELETE FROM measurements", PLANNED, "it cannot be read (ValueError)"),
    "a noise was understated": (
        UNDERSTATED + " WHERE kind = 'query'",
        PLANNED, "noise of measurement 1: expected ",
    ),
    "a noise of the opening was understated": (
        UNDERSTATED + " WHERE sequence = 2",
        PLANNED, "noise of the opening",
    ),
    "a question was exchanged": (
        "UPDATE answers SET query = (SELECT query FROM answers WHERE sequence = 2) WHERE sequence = 3",
        READ, "a row of its blocks of answers was altered",
    ),
    "a measured answer is to another question": (
        "UPDATE answers SET (query, keyed_by) = (SELECT query, keyed_by FROM answers WHERE sequence = 2) "
        "WHERE sequence = 4", MEASURED, "answer 4: measurement 1 is of another question",
    ),
    "a measured answer was altered": (
        "UPDATE answers SET count = count + 1 WHERE source = 'measured'", MEASURED,
        "answer 4: count: expected ",
    ),
    "a measured answer was deleted": (
        "DELETE FROM answers WHERE sequence = 6", MEASURED,
        "expected 2 answers marked measured, one for each measurement, found 1",
    ),
    "a measured answer was called synthetic": (
        "UPDATE answers SET source = 'synthetic' WHERE sequence = 6", MEASURED, "found 1",
    ),
    "the snapshot was flipped": (
        "UPDATE snapshots SET duals = zeroblob(length(duals))", MODELS,
        "the checksum of the snapshot does not hold",
    ),
    "the threshold was deleted": ("DELETE FROM secrets WHERE key = 'threshold 0'", SECRETS, "secrets kept"),
    "the session was marked closed": (
        "INSERT INTO meta VALUES ('closed', 'true', x'')", SECRETS, "a closed session still holds secrets",
    ),
    "the plan was deleted": (
        "DELETE FROM meta WHERE key = 'test_plan'", UNREADABLE,
        "the session file is damaged: it lacks 'test_plan'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("tampering", list(TAMPERINGS))
def test_a_tampering_is_found_by_name(study: Path, tampering: str) -> None:
    statements, name, fault = TAMPERINGS[tampering]
    tamper(study, statements)
    found = failed(study)
    assert name in found
    assert fault in found[name]


@pytest.mark.parametrize("more", [',"more":1}', ',"budget":{}}', ',"options":NaN}', ""])
@pytest.mark.parametrize("key", ["contract", "opening_plan"])
def test_a_fact_that_is_no_form_of_its_type_is_damage(study: Path, key: str, more: str) -> None:
    edit(study, "meta", "value", f"key = '{key}'", lambda text: text[:-1] + more)
    for read in (read_session, lambda path: pmw.resume_session(path, PEOPLE.frame)):
        with pytest.raises(pmw.SessionCorruptError, match="the session file is damaged: "):
            read(study)


def rewrite_batch(study: Path, change: Callable[[str], str]) -> None:
    """Write another batch into the companion file."""
    with closing(SessionStore.open(study)) as store:
        waiting = store.pending() or IntentRow(store.last_intent() + 1, "tests", "{}", bytes(32), 0)
        store._companion.begin(store._session(), replace(waiting, proposal=change(waiting.proposal)))


def test_a_batch_that_was_invented_is_found(study: Path) -> None:
    rewrite_batch(study, lambda _: "{}")
    assert failed(study) == {BATCHES: "the session file is damaged: a recorded batch lacks its requests"}


def test_damage_of_a_free_answer_is_found_and_one_that_was_made_to_fit_is_not(study: Path) -> None:
    with closing(sqlite3.connect(study)) as connection, connection:
        (answers,) = connection.execute("SELECT answers FROM blocks WHERE sequence = 1").fetchone()
        flipped = bytes([*answers[:-1], answers[-1] ^ 1])
        connection.execute("UPDATE blocks SET answers = ? WHERE sequence = 1", (flipped,))
    assert {WHOLE, READ} <= set(failed(study))
    with closing(sqlite3.connect(study)) as connection, connection:
        connection.execute("UPDATE blocks SET answers = ? WHERE sequence = 1", (answers,))
    tamper(study, "UPDATE answers SET count = count + 0.01 WHERE sequence = 1")
    assert failed(study) == {}  # docs/operations.md says so, and the report too


def shifted(units: bytes) -> bytes:
    values = np.frombuffer(units, dtype="<i8").copy()
    values[0] += 20 * 2**20
    return values.tobytes()


@pytest.mark.parametrize(("sequence", "names"), [(6, {MEASURED, MODELS}), (2, {MODELS}), (1, {MODELS})])
def test_a_measurement_that_was_altered_is_found_by_what_followed_from_it(
    study: Path, sequence: int, names: set[str]
) -> None:
    edit(study, "measurements", "units", f"sequence = {sequence}", shifted)
    assert names <= set(failed(study))


def test_a_correction_of_an_answer_that_the_model_did_not_give_is_found(study: Path) -> None:
    def other(what: str) -> str:
        form = json.loads(what)
        return json.dumps({**form, "model_units": form["model_units"] + 2**24})

    edit(study, "measurements", "what", "sequence = 6", other)
    assert failed(study)[MODELS] == "measurement 1 corrects an answer that the model did not give"


def test_a_snapshot_whose_checksum_was_made_anew_is_compared_with_the_model(study: Path) -> None:
    def nudged(duals: bytes) -> bytes:
        values = np.frombuffer(duals, dtype="<f8").copy()
        values[-1] += 0.001
        return values.tobytes()

    edit(study, "snapshots", "duals", "1", nudged)
    with closing(sqlite3.connect(study)) as connection, connection:
        (version, duals) = connection.execute("SELECT version, duals FROM snapshots").fetchone()
        checksum = hashlib.sha256(version.to_bytes(8, "little") + duals).digest()
        connection.execute("UPDATE snapshots SET checksum = ?", (checksum,))
    assert failed(study) == {MODELS: "the snapshot of version 2 is not the model of its measurements"}


@pytest.mark.parametrize(
    ("part", "key", "value", "names"),
    [
        ("budget", "epsilon", "1/100", {CAP}),
        ("budget", "epsilon", "50", {ORDER}),
        ("budget", "delta", "1/2", {ORDER}),
        ("options", "records_per_person", 3, {FIT, UNREADABLE}),
        ("options", "neighboring_relation", "replace_one", {FIT, UNREADABLE}),
        ("options", "update_limit", 9, {FIT, UNREADABLE}),
    ],
)
def test_a_contract_that_was_rewritten_does_not_fit_its_plans_or_what_was_told(
    study: Path, part: str, key: str, value: object, names: set[str]
) -> None:
    def rewritten(text: str) -> str:
        form = json.loads(text)
        return json.dumps({**form, part: {**form[part], key: value}})

    edit(study, "meta", "value", "key = 'contract'", rewritten)
    assert names & set(failed(study))


TREE = "hierarchical histogram"
TREES = {
    "UPDATE measurements SET what = replace(what, '\"branching\":4', '\"branching\":5')": PLANNED,
    f"UPDATE ledger SET event = 'marginal' WHERE event = '{TREE}'": PRICES,
    f"UPDATE measurements SET noise = replace(noise, ':\"', ':\"1') WHERE kind = '{TREE}'": PLANNED,
    f"DELETE FROM measurements WHERE kind = '{TREE}'": PLANNED,
    "UPDATE meta SET value = replace(value, '\"cells\":100,', '\"cells\":99,')": FIT,
}


def test_a_tree_that_was_altered_is_found(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    zcdp = pmw.Composition.ZCDP
    options = pmw.Options(test=TestKind.QUERY, threshold=20.0, update_limit=5, composition=zcdp)
    with INCOMES.opened(path, epsilon=3, options=options) as session:
        session.ask_all(["income >= 50", "income <= 20 AND sex = 'Male'", "income IS NULL"])
    assert failed(path) == {}
    whole = path.read_bytes()
    for statement, name in TREES.items():
        tamper(path, statement)
        assert name in failed(path), statement
        path.write_bytes(whole)
    edit(path, "measurements", "units", f"kind = '{TREE}'", shifted)
    assert MODELS in failed(path)


def test_a_batch_that_was_interrupted_waits_and_is_no_fault(study: Path) -> None:
    with pmw.resume_session(study, PEOPLE.frame) as session, cut_off():
        session.ask("age >= 24 AND member = TRUE")
    assert pmw.verify_session(study).unfinished
    assert failed(study) == {}
    nothing = {"epsilon": None, "rho": "0", "mu_squared": None}
    rewrite_batch(study, lambda text: json.dumps({**json.loads(text), "reserved": nothing}))
    assert failed(study)[BATCHES].startswith("reserved charge: expected ")


def test_an_opening_that_was_interrupted_waits_and_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with cut_off():
        PEOPLE.opened(path, epsilon=1, delta=0)
    verification = pmw.verify_session(path)
    assert verification.holds
    assert verification.unfinished
    tamper(path, "INSERT INTO ledger VALUES (1, 1, 'total', 'x', '1', '1', '1', '[[\"\",\"1\"]]')")
    assert failed(path) == {"an opening that waits has measured nothing": "there are charges or measurements"}


def test_no_secret_is_shown(study: Path) -> None:
    secrets = secrets_of(study)
    assert set(secrets) == {"fingerprint", "fingerprint_key", "threshold 0"}
    tamper(study, "UPDATE ledger SET label = 'x' WHERE sequence > 5")
    shown = repr(pmw.verify_session(study)) + json.dumps(pmw.verify_session(study).to_dict())
    for secret in secrets.values():
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
    for number in json.loads(secrets["threshold 0"]):
        assert str(number) not in shown or number is None or abs(number) < 10**4
    assert str(len(PEOPLE.frame)) not in shown


CODES = tuple(f"{'low' if number < 200 else 'high'}{number}" for number in range(400))

MARGINAL_MODELS = "the models, the snapshot and the certificates follow from the measurements"


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
ABOUT_MARGINALS = [
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


@pytest.fixture
def marginals_study(copied: Callable[[str], Path]) -> Path:
    return copied("marginals")


def ask_about_marginals(path: Path) -> None:
    """Leave a session that measured marginals and a question, with both rounds open."""
    # A tree of so few cells measures no marginal wider than a pair, so that some answers rest on certificates
    # alone.
    choices: dict[str, Any] = {"test": TestKind.MARGINAL, "model": ModelKind.GRAPHICAL, "max_cells": 30_000}
    kind = pmw.SparseVectorKind.EXPONENTIAL
    with WIDE.opened(path, epsilon=4, update_limit=4, sparse_vector=kind, **choices) as session:
        session.ask_all(ABOUT_MARGINALS)
        state = session.state
        assert state.positives_used > 0
        assert state.positives(1) > 0
        assert state.certificates
        assert not state.coarsening.is_identity
        assert state.rounds == (True, True)


def test_books_of_marginals_that_were_never_touched_hold(marginals_study: Path) -> None:
    assert failed(marginals_study) == {}
    for statement in ("", "DELETE FROM snapshots"):
        execute(marginals_study, statement)
        with pmw.resume_session(marginals_study, WIDE.frame) as session:
            session.ask_all(["age > 50 AND sex = 'Male'", "grade = 'c' AND sex = 'Male'"], fresh=True)
        assert failed(marginals_study) == {}


TAMPERINGS_OF_MARGINALS: dict[str, tuple[str, str, str]] = {
    "the price of a marginal was lowered": (
        "UPDATE ledger SET rho = '0' WHERE event = 'marginal' AND sequence > 6", PRICES, "(marginal)",
    ),
    "a round of questions was called one of marginals": (
        "UPDATE ledger SET label = 'threshold noise drawn' WHERE label LIKE '%single questions'",
        PRICES, "of charge",
    ),
    "all rounds of marginals were deleted": (
        "DELETE FROM ledger WHERE label = 'threshold noise drawn'", ROUNDS, "has no open round",
    ),
    "marginals were tested in rounds that were deleted": (
        "DELETE FROM ledger WHERE label = 'threshold noise drawn'", MARGINAL_MODELS,
        "was tested in a round that was not paid for",
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
    "a threshold of a certificate was lowered": (
        "UPDATE certificates SET threshold = 1 WHERE sequence = (SELECT min(sequence) FROM certificates)",
        MARGINAL_MODELS, "has a threshold that was never planned",
    ),
    "a certificate was given to another version": (
        "UPDATE certificates SET version = 99", MARGINAL_MODELS, "of versions that do not follow",
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


@pytest.mark.parametrize("tampering", list(TAMPERINGS_OF_MARGINALS))
def test_a_tampering_with_marginals_is_found_by_name(marginals_study: Path, tampering: str) -> None:
    statements, name, fault = TAMPERINGS_OF_MARGINALS[tampering]
    tamper(marginals_study, statements)
    found = failed(marginals_study)
    assert name in found, found
    assert fault in found[name]


def shifted_far(units: bytes) -> bytes:
    values = np.frombuffer(units, dtype="<i8").copy()
    values[0] -= 4000 * 2**20
    return values.tobytes()


@pytest.mark.parametrize(
    ("table", "where"),
    [("measurements", "kind = 'measured'"), ("measurements", "kind = 'query'"), ("certificates", "1")],
)
def test_numbers_that_were_altered_are_found(marginals_study: Path, table: str, where: str) -> None:
    edit(marginals_study, table, "units", where, shifted_far)
    # What is beside the model moves its answers alone.
    assert {MARGINAL_MODELS, MEASURED} & set(failed(marginals_study))


def test_a_marginal_that_is_wider_or_on_other_cells_than_planned_is_found(marginals_study: Path) -> None:
    def found(**changed: int) -> dict[str, str]:
        """Return what fails where numbers of the plan's first tier are others."""

        def replanned(text: str) -> str:
            first, *others = json.loads(text)
            return json.dumps([{**first, **changed}, *others])

        edit(marginals_study, "meta", "value", "key = 'test_plan'", replanned)
        return failed(marginals_study)

    whole = marginals_study.read_bytes()
    narrow = found(most_cells=1, free_cells=1)
    assert "cells; at most 1 were planned" in narrow[PLANNED]
    assert "has more cells than are tested" in narrow[MARGINAL_MODELS]
    marginals_study.write_bytes(whole)
    assert "cells of measurement" in found(fine_cells=10**9)[PLANNED]


def measure_pairs(path: Path) -> None:
    with WIDE.opened(path, epsilon=4, opening=pmw.Opening.PAIRS) as session:
        session.ask_all(ABOUT_MARGINALS[:4])
        assert session.state.marginals
        assert any(isinstance(one, ResidualMeasurement) for one in session.state.opening)
    assert failed(path) == {}


ALTERED_ROWS: dict[str, tuple[str, str, str, str]] = {
    "replaced in the plan": ('"replaced":false', '"replaced":true', FIT, "relation of the rows of"),
    "one attribute in the plan": ('"order":2', '"order":1', FIT, "rows are planned, but no residuals"),
    "three attributes in the plan": (
        '"order":2', '"order":3', FIT, "marginals of 3 attributes, which the options do not ask for",
    ),
    "prices": ('"prices":["1"]', '"prices":["1","1"]', FIT, "attributes of the widest residuals"),
    "replaced where it was measured": (
        '"replaced":false', '"replaced":true', PLANNED, "relation of the rows of measurement",
    ),
}  # fmt: skip


@pytest.mark.parametrize("tampering", ALTERED_ROWS)
def test_rows_of_the_other_relation_are_found(copied: Callable[[str], Path], tampering: str) -> None:
    study, (old, new, check, words) = copied("pairs"), ALTERED_ROWS[tampering]
    table, column, where = (
        ("meta", "value", f"key = '{'test_plan' if tampering == 'prices' else 'opening_plan'}'")
        if check == FIT
        else ("measurements", "what", "sequence = (SELECT max(sequence) FROM measurements)")
    )
    edit(study, table, column, where, lambda text: text.replace(old, new))
    assert words in failed(study)[check]


# Sessions that are made once and copied, and the seeds of their noise.
MADE: dict[str, tuple[Callable[[Path], None], int]] = {
    "questions": (ask_questions, 3),
    "marginals": (ask_about_marginals, 4),
    "pairs": (measure_pairs, 4),
}
