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
from benchmarks.damage import reseal
from pmw.privacy.random_bits import repeatable_seed
from pmw.session.store import IntentRow, SessionFiles, SessionStore
from pmw.session.verification import NOT_PROVED
from queries import Domain
from tests.pmw.session.stored import tamper

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
ALL = [
    WHOLE,
    FIT,
    PRICES,
    ROUNDS,
    PAID,
    QUANTILES,
    CAP,
    PLANNED,
    BATCHES,
    SECRETS,
    MODELS,
    MEASURED,
    FORM,
    ORDER,
]


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every run, in files too."""
    numbers = iter(range(10**6))
    monkeypatch.setattr("pmw.session.journal.fresh_seed", lambda: repeatable_seed(3, next(numbers)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the session that all tests copy."""
    return tmp_path_factory.mktemp("asked")


@pytest.fixture
def study(frame: pd.DataFrame, domain: Domain, folder: Path, tmp_path: Path) -> Path:
    """Return the file of a session that was asked questions: two positives, and a round that is open."""
    if not any(folder.iterdir()):
        ask_questions(frame, domain, folder / "study.pmw")
    for file in folder.iterdir():  # with its companions
        shutil.copy2(file, tmp_path)
    return tmp_path / "study.pmw"


def ask_questions(frame: pd.DataFrame, domain: Domain, path: Path) -> None:
    options = pmw.Options(
        test=pmw.TestKind.QUERY, threshold=100.0, update_limit=6, composition=pmw.Composition.ZCDP
    )
    with pmw.open_session(frame, domain, epsilon=5, delta=1e-9, path=path, options=options) as session:
        answers = session.ask_all(QUESTIONS)
        session.ask(RIGHT)
        assert [answer.source.value for answer in answers] == [
            "synthetic", "synthetic", "synthetic", "measured", "synthetic", "measured", "synthetic",
        ]  # fmt: skip
        assert session.state.round_open


def failed(path: Path) -> dict[str, str]:
    return {check.name: check.detail for check in pmw.verify_session(path).checks if not check.holds}


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
        "contract, plans and charges can be read", "Charge.rho: no fraction",
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
    "a count left its interval": (
        "UPDATE answers SET count = high + 1 WHERE sequence = 3", FORM, "answer 3: the interval ",
    ),
    "a count was made infinite": (
        "UPDATE answers SET count = 9e999, high = 9e999 WHERE sequence = 3", FORM, "answer 3: the count inf",
    ),
    "a count was made negative": (
        "UPDATE answers SET count = -1, low = -2 WHERE sequence = 3", FORM, "answer 3: the count -1.0",
    ),
    "an interval's ends were exchanged": (
        "UPDATE answers SET low = high, high = low WHERE sequence = 3", FORM, "answer 3: the interval ",
    ),
    "an interval was made infinite": (
        "UPDATE answers SET high = 9e999 WHERE sequence = 3", FORM, "answer 3: the interval ",
    ),
    "an interval was taken away": (
        "UPDATE answers SET low = NULL, high = NULL WHERE sequence = 3", FORM, "answer 3: it has an interval",
    ),
    "a confidence was raised": (
        "UPDATE answers SET confidence = 0.99 WHERE sequence = 3", FORM,
        "answer 3: confidence: expected 0.95, found 0.99",
    ),
    "a source was altered": (
        "UPDATE answers SET source = 'exhausted' WHERE sequence = 2", FORM, "answer 2: it has an interval",
    ),
    "a source was invented": (
        "UPDATE answers SET source = 'told' WHERE sequence = 2", FORM, "answer 2: it cannot be read",
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
    "a share falls": ("UPDATE answers SET share = 0 WHERE sequence = 5", ORDER, "answer 5: the share falls"),
    "a share exceeds 1": (
        "UPDATE answers SET share = 1.5 WHERE sequence = 7", ORDER, "answer 7: the share 1.5 exceeds 1",
    ),
    "a share was invented": (
        "UPDATE answers SET share = share + 1e-9 WHERE sequence = 7", ORDER,
        "is none that the ledger ever had",
    ),
    "a version falls": (
        "UPDATE answers SET version = 0 WHERE sequence = 7", ORDER, "answer 7: the model version falls",
    ),
    "a version was invented": (
        "UPDATE answers SET version = 3 WHERE sequence = 7", ORDER, "answer 7: there is no model version 3",
    ),
    "the count of questions was lowered": (
        "UPDATE meta SET value = '2' WHERE key = 'asked'", ORDER, "2 questions were counted, but 7",
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
        "DELETE FROM meta WHERE key = 'test_plan'", "contract, plans and charges can be read",
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


def edit(path: Path, select: str, update: str, change: Callable[[Any], Any]) -> None:
    """Replace a stored value by another."""
    with sqlite3.connect(path) as connection:
        (value,) = connection.execute(select).fetchone()
        connection.execute(update, (change(value),))
        reseal(connection)
    connection.close()


def shifted(units: bytes) -> bytes:
    values = np.frombuffer(units, dtype="<i8").copy()
    values[0] += 20 * 2**20
    return values.tobytes()


@pytest.mark.parametrize(("sequence", "names"), [(6, {MEASURED, MODELS}), (2, {MODELS}), (1, {MODELS})])
def test_a_measurement_that_was_altered_is_found_by_what_followed_from_it(
    study: Path, sequence: int, names: set[str]
) -> None:
    edit(
        study,
        f"SELECT units FROM measurements WHERE sequence = {sequence}",
        f"UPDATE measurements SET units = ? WHERE sequence = {sequence}",
        shifted,
    )
    assert names <= set(failed(study))


def test_a_correction_of_an_answer_that_the_model_did_not_give_is_found(study: Path) -> None:
    where = "WHERE sequence = 6"
    edit(
        study,
        f"SELECT what FROM measurements {where}",
        f"UPDATE measurements SET what = ? {where}",
        lambda what: json.dumps({**(form := json.loads(what)), "model_units": form["model_units"] + 2**24}),
    )
    assert failed(study)[MODELS] == "measurement 1 corrects an answer that the model did not give"


def test_a_snapshot_whose_checksum_was_made_anew_is_compared_with_the_model(study: Path) -> None:
    def nudged(duals: bytes) -> bytes:
        values = np.frombuffer(duals, dtype="<f8").copy()
        values[-1] += 0.001
        return values.tobytes()

    edit(study, "SELECT duals FROM snapshots", "UPDATE snapshots SET duals = ?", nudged)
    with sqlite3.connect(study) as connection:
        (version, duals) = connection.execute("SELECT version, duals FROM snapshots").fetchone()
        checksum = hashlib.sha256(version.to_bytes(8, "little") + duals).digest()
        connection.execute("UPDATE snapshots SET checksum = ?", (checksum,))
    connection.close()
    assert failed(study) == {MODELS: "the snapshot of version 2 is not the model of its measurements"}


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [("epsilon", "1/100", CAP), ("epsilon", "50", ORDER), ("delta", "1/2", ORDER)],
)
def test_a_guarantee_that_was_rewritten_does_not_fit_what_was_told(
    study: Path, key: str, value: str, name: str
) -> None:
    edit(
        study,
        "SELECT value FROM meta WHERE key = 'contract'",
        "UPDATE meta SET value = ? WHERE key = 'contract'",
        lambda text: json.dumps({**(form := json.loads(text)), "budget": {**form["budget"], key: value}}),
    )
    assert name in failed(study)


@pytest.mark.parametrize(
    ("option", "value"),
    [("records_per_person", 3), ("neighboring_relation", "replace_one"), ("update_limit", 9)],
)
def test_a_contract_that_was_rewritten_does_not_fit_its_plans(
    study: Path, option: str, value: object
) -> None:
    def rewritten(text: str) -> str:
        form = json.loads(text)
        form["options"] |= {option: value}
        return json.dumps(form)

    edit(
        study,
        "SELECT value FROM meta WHERE key = 'contract'",
        "UPDATE meta SET value = ? WHERE key = 'contract'",
        rewritten,
    )
    assert set(failed(study)) & {FIT, "contract, plans and charges can be read"}


def tree_session(frame: pd.DataFrame, domain: Domain, path: Path) -> None:
    options = pmw.Options(
        test=pmw.TestKind.QUERY, threshold=20.0, update_limit=5, composition=pmw.Composition.ZCDP
    )
    with pmw.open_session(frame, domain, epsilon=3, delta=1e-9, path=path, options=options) as session:
        session.ask_all(["income >= 50", "income <= 20 AND sex = 'Male'", "income IS NULL"])


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("UPDATE measurements SET what = replace(what, '\"branching\":4', '\"branching\":5')", None),
        ("UPDATE ledger SET event = 'marginal' WHERE event = 'hierarchical histogram'", PRICES),
        (
            "UPDATE measurements SET noise = replace(noise, ':\"', ':\"1')"
            " WHERE kind = 'hierarchical histogram'",
            PLANNED,
        ),
        ("DELETE FROM measurements WHERE kind = 'hierarchical histogram'", PLANNED),
        ("UPDATE meta SET value = replace(value, '\"cells\":100,', '\"cells\":99,')", FIT),
    ],
)
def test_a_tree_that_was_altered_is_found(
    long_frame: pd.DataFrame, long_domain: Domain, tmp_path: Path, statement: str, name: str | None
) -> None:
    path = tmp_path / "tree.pmw"
    tree_session(long_frame, long_domain, path)
    assert pmw.verify_session(path).holds
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement).rowcount > 0
        reseal(connection)
    connection.close()
    assert failed(path) if name is None else name in failed(path)


def test_a_tree_whose_numbers_were_altered_is_found(
    long_frame: pd.DataFrame, long_domain: Domain, tmp_path: Path
) -> None:
    path = tmp_path / "tree.pmw"
    tree_session(long_frame, long_domain, path)
    where = "WHERE kind = 'hierarchical histogram'"
    edit(
        path, f"SELECT units FROM measurements {where}", f"UPDATE measurements SET units = ? {where}", shifted
    )
    assert MODELS in failed(path)


def test_a_session_that_was_resumed_with_and_without_a_snapshot_holds(
    study: Path, frame: pd.DataFrame
) -> None:
    for statement in ("", "DELETE FROM snapshots"):
        with sqlite3.connect(study) as connection:
            connection.executescript(statement)
        connection.close()
        with pmw.resume_session(study, frame) as session:
            session.ask_all([f"age < {age} AND member = TRUE" for age in (28, 44)], fresh=True)
        assert failed(study) == {}


def test_it_reads_while_the_session_is_in_use_and_writes_nothing(study: Path, frame: pd.DataFrame) -> None:
    with pmw.resume_session(study, frame) as session:
        session.ask("age >= 28 AND NOT member = TRUE")
        before = study.read_bytes()
        assert pmw.verify_session(study).holds
        assert study.read_bytes() == before


def test_a_batch_that_was_interrupted_waits_and_is_no_fault(study: Path, frame: pd.DataFrame) -> None:
    with sqlite3.connect(study) as connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'x'); END")
        connection.execute("CREATE TRIGGER full2 BEFORE INSERT ON blocks BEGIN SELECT RAISE(ABORT, 'x'); END")
    connection.close()
    with pmw.resume_session(study, frame) as session, pytest.raises(pmw.StoreError):
        session.ask("age >= 24 AND member = TRUE")
    verification = pmw.verify_session(study)
    assert verification.unfinished
    assert failed(study) == {}
    rewrite_batch(
        study,
        lambda text: json.dumps(
            {**json.loads(text), "reserved": {"epsilon": None, "rho": "0", "mu_squared": None}}
        ),
    )
    assert failed(study)[BATCHES].startswith("reserved charge: expected ")


def test_an_opening_that_was_interrupted_waits_and_is_no_fault(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.pmw"
    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "finish", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            pmw.open_session(frame, domain, epsilon=1, path=path)
    verification = pmw.verify_session(path)
    assert verification.holds
    assert verification.unfinished
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO ledger VALUES (1, 1, 'total', 'x', '1', '1', '1', '[[\"\",\"1\"]]')")
        reseal(connection)
    connection.close()
    assert failed(path) == {"an opening that waits has measured nothing": "there are charges or measurements"}


def _interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_no_secret_is_shown(study: Path, frame: pd.DataFrame) -> None:
    store = SessionStore.open(study)
    secrets = {name: store.secret(name) for name in store.secret_names()}
    store.close()
    assert set(secrets) == {"fingerprint", "fingerprint_key", "threshold 0"}
    with sqlite3.connect(study) as connection:
        connection.execute("UPDATE ledger SET label = 'x' WHERE sequence > 5")
        reseal(connection)
    connection.close()
    shown = repr(pmw.verify_session(study)) + json.dumps(pmw.verify_session(study).to_dict())
    for secret in secrets.values():
        assert secret is not None
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
    for number in json.loads(secrets["threshold 0"] or b"[]"):
        assert str(number) not in shown or number is None or abs(number) < 10**4
    assert str(len(frame)) not in shown


def test_it_says_what_it_cannot_prove(study: Path) -> None:
    form = pmw.verify_session(study).to_dict()
    assert list(form) == ["holds", "unfinished", "closed", "checks", "not_proved"]
    assert form["not_proved"] == list(NOT_PROVED)
    assert "newest copy" in NOT_PROVED[0]


def refusal(study: Path) -> str | None:
    try:
        pmw.verify_session(study)
    except pmw.SessionCorruptError as error:
        return str(error)
    return None


def test_an_older_copy_that_is_put_back_cannot_be_told(study: Path, frame: pd.DataFrame) -> None:
    files = (study, SessionFiles(study).companion)
    older = [file.read_bytes() for file in files]
    with pmw.resume_session(study, frame) as session:
        session.ask("age >= 28 AND NOT member = TRUE")
    for file, content in zip(files, older, strict=True):
        assert file.read_bytes() != content
        file.write_bytes(content)
        assert (file == study) == (refusal(study) is not None)  # one of them alone is told
    assert pmw.verify_session(study).holds
