"""Verification: books that were never touched hold; tamperings are found, by name."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pmw
from pmw.session.store.rows import IntentRow
from pmw.session.store.store import SessionStore
from tests.pmw.session.stored import cut_off, edit, failed, secrets_of, tamper
from tests.pmw.session.verification.conftest import Copied
from tests.worlds import INCOMES, PEOPLE, repeat_noise

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


@pytest.fixture
def study(copied: Copied) -> Path:
    """Return the file of a session that was asked questions: two positives, and a round that is open."""
    return copied("questions", ask_questions)


def ask_questions(path: Path) -> None:
    with PEOPLE.opened(
        path,
        epsilon=5,
        test=pmw.TestKind.QUERY,
        threshold=100.0,
        update_limit=6,
        composition=pmw.Composition.ZCDP,
    ) as session:
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
    query = pmw.TestKind.QUERY
    with INCOMES.opened(
        path, epsilon=3, test=query, threshold=20.0, update_limit=5, composition=pmw.Composition.ZCDP
    ) as session:
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
