"""Migrations: files of every format since the first are read, and written to only as files of the newest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.books import read_ledger, read_session
from pmw.store import FORMAT_VERSION, SessionStore

# A session of two positives, of the questions below, as the program of format 2 wrote it.
OLD = (Path(__file__).parent / "format_2.sql").read_text()
ANSWERS = {
    "": 2999.378322197887,
    "age >= 40 AND member = TRUE": 1421.005955696106,
    "sex = 'Male'": 1487.9946049238115,
    "age >= 40 AND NOT member = TRUE": 72.64232730865479,
}


@pytest.fixture
def people() -> pd.DataFrame:
    """The table that the old session was opened on."""
    generator = np.random.default_rng(20)
    age = generator.integers(20, 60, 3000)
    sex = np.where(generator.random(3000) < 0.5, "Female", "Male")
    return pd.DataFrame({"sex": sex, "age": age, "member": age > 40})


@pytest.fixture(params=[1, 2])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "old.pmw"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD)
        if request.param == 1:
            connection.executescript("DROP TABLE certificates; PRAGMA user_version = 1;")
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_an_older_file_is_read_as_it_is(old: Path) -> None:
    before = version_of(old)
    state, status = read_session(old)
    assert (state.version, status.queries_answered) == (2, 4)
    assert read_ledger(old).share == 0.4066666301713636
    assert pmw.verify_session(old).holds
    assert version_of(old) == before < FORMAT_VERSION


def test_an_older_file_goes_on_with_its_answers_and_its_charges(old: Path, people: pd.DataFrame) -> None:
    spent = read_ledger(old).spent
    with pmw.resume_session(old, people) as session:
        assert version_of(old) == FORMAT_VERSION
        assert {where: session.ask(where).count for where in ANSWERS} == ANSWERS
        assert session.state.ledger.spent == spent
        for age in (26, 30, 44, 52):
            session.ask(f"age < {age} AND member = FALSE AND sex = 'Male'")
        assert session.state.ledger.spent >= spent
        assert session.verify().holds
    assert pmw.verify_session(old).holds
    assert read_session(old)[1].queries_answered == 12
    with pmw.resume_session(old, people) as session:  # its companions are there now
        assert session.state.ledger.spent >= spent


def test_the_bytes_of_a_batch_that_waits_are_masked_and_stay_the_same(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("INSERT INTO intents VALUES (4, 'tests', '{}', ?)", (b"t" * 32,))
        connection.commit()
    with closing(SessionStore.open(old)) as store:
        before = store.pending()
        assert before is not None
        assert before.seed == b"t" * 32
        store.take_over()
        assert store.pending() == before
        assert store._connection.execute("SELECT seed FROM intents").fetchone() != (b"t" * 32,)
        for file in old.parent.iterdir():
            assert b"t" * 32 not in file.read_bytes(), file.name


def test_a_migration_says_that_masks_cannot_be_made_and_changes_nothing(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("INSERT INTO intents VALUES (4, 'tests', '{}', ?)", (b"t" * 32,))
        connection.commit()
    before, hindrance = version_of(old), old.with_name("old.pmw-masks.part")
    hindrance.mkdir()
    with closing(SessionStore.open(old)) as store:
        with pytest.raises(pmw.StoreError, match="nothing was drawn"):
            store.take_over()
        assert version_of(old) == before
        hindrance.rmdir()
        store.take_over()
        waiting = store.pending()
        assert waiting is not None
        assert waiting.seed == b"t" * 32


def test_a_batch_without_whole_bytes_is_migrated_and_can_only_be_charged(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("INSERT INTO intents VALUES (4, 'tests', '{}', x'74')")
        connection.commit()
    with closing(SessionStore.open(old)) as store:
        store.take_over()
        waiting = store.pending()
        assert waiting is not None
        assert waiting.seed is None


def test_the_number_of_a_batch_is_never_given_again_after_a_migration(old: Path) -> None:
    with closing(SessionStore.open(old)) as store:
        assert max(store.ledger_intents()) == 3
        store.take_over()
        assert store.begin("tests", "{}", b"t" * 32) == 4


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    old: Path, monkeypatch: pytest.MonkeyPatch, people: pd.DataFrame
) -> None:
    before = version_of(old)

    def broken(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr("pmw.store.migrations.reseal", broken)
        with pytest.raises(pmw.SessionCorruptError):
            pmw.resume_session(old, people)
    assert version_of(old) == before
    with pmw.resume_session(old, people) as session:
        assert session.verify().holds


def test_every_program_refuses_every_newer_format_and_changes_nothing(
    old: Path, people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    pmw.resume_session(old, people).close()
    before = old.read_bytes()
    for newest in range(1, FORMAT_VERSION):  # as the programs of older formats do
        monkeypatch.setattr("pmw.store.session_store.FORMAT_VERSION", newest)
        words = f"a session of format {FORMAT_VERSION}; this program reads up to {newest}, update it"
        for use in (read_session, pmw.verify_session, pmw.resume_session, pmw.seal_session):
            with pytest.raises(pmw.SessionCorruptError, match=words):
                use(old)
    assert old.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, 2, -1])
def test_a_format_that_the_tables_contradict_is_damage(old: Path, people: pd.DataFrame, version: int) -> None:
    pmw.resume_session(old, people).close()
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(pmw.SessionCorruptError, match="its tables are not those of a session"):
        read_session(old)
