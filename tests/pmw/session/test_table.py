"""The table of a session: moved by the custodian, and compared with its fingerprint."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import pmw
from pmw.data import CsvDialect
from pmw.public.answer import Source
from pmw.session.maintenance import read_session, remembered_table
from pmw.session.store import locking
from tests.pmw.session.stored import bytes_of, cut_off, kill_at, pending_of, waiting_of
from tests.worlds import PEOPLE

WRONG = "age >= 40 AND NOT member = TRUE"  # the opening's model is far off: a positive
OPTIONS = pmw.Options(
    test=pmw.TestKind.QUERY, threshold=20.0, update_limit=8, composition=pmw.Composition.ZCDP
)
DIFFERS = "the table differs from the one that the session was opened on"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Open a session over a file, ask it one question and return its path."""
    data, path = tmp_path / "people.csv", tmp_path / "study.pmw"
    PEOPLE.frame.to_csv(data, index=False)
    with pmw.open_session(data, PEOPLE.domain, epsilon=2, delta=1e-9, path=path, options=OPTIONS) as session:
        session.ask("sex = 'Male' AND region = 'north'")
    return path


def place_of(path: Path) -> Path | None:
    file = remembered_table(path)
    return file.path if isinstance(file, pmw.TableFile) else None


def books_of(path: Path) -> dict[str, list[object]]:
    """Return every row of a session but its holder's mark and its table's place."""
    tables = ("meta", "secrets", "ledger", "measurements", "blocks", "certificates")
    with closing(sqlite3.connect(path)) as connection:
        rows = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    return {**rows, "meta": [row for row in rows["meta"] if row[0] not in ("holder", "data")]}


def leave_waiting(path: Path, question: str) -> None:
    """Leave a batch that was recorded and drawn, and could not be finished."""
    with pmw.resume_session(path) as session, cut_off():
        session.ask(question)


def test_who_lost_a_session_that_another_finalized_is_not_told_of_another_table(study: Path) -> None:
    with pmw.resume_session(study) as lost:
        for lock in list(locking._HELD):  # as where the process was taken for dead
            lock.release()
        with pmw.resume_session(study) as other:
            other.finalize()
        with pytest.raises(pmw.SessionLockedError, match="another process has finalized this session"):
            lost.ask(WRONG, fresh=True)


def forbid_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object) -> None:
        raise AssertionError("noise was drawn")

    for name in ("engine.draw_tests", "releases.draw_opening"):
        monkeypatch.setattr(f"pmw.session.{name}", drawn)


# --- moving -------------------------------------------------------------------------------------------------


def test_a_moved_table_is_read_from_its_new_place_and_nothing_else_changes(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (study.parent / "people.csv").rename(study.parent / "moved.csv")
    before = books_of(study)
    monkeypatch.chdir(study.parent)
    with monkeypatch.context() as patch:
        forbid_draws(patch)
        pmw.move_session("study.pmw", "moved.csv")
    assert books_of(study) == before
    assert place_of(study) == study.parent / "moved.csv"
    monkeypatch.chdir("/")  # the place is absolute
    with pmw.resume_session(study) as session:
        assert session.ask(WRONG).source is Source.MEASURED
    assert pmw.verify_session(study).holds


@pytest.mark.parametrize(
    "fault", ["a record more", "a record less", "one cell", "another's cell", "none at all"]
)
def test_a_table_that_differs_is_refused_in_the_same_words_whatever_differs(study: Path, fault: str) -> None:
    frame, sexes = PEOPLE.frame, PEOPLE.frame["sex"].tolist()
    other = {
        "a record more": pd.concat([frame, frame.iloc[:1]]),
        "a record less": frame.iloc[1:],
        "one cell": frame.assign(sex=[{"Male": "Female", "Female": "Male"}[sexes[0]], *sexes[1:]]),
        "another's cell": frame.assign(sex=sexes[::-1]),  # each column is as it was
        "none at all": frame.iloc[:0],
    }[fault]
    other.to_csv(study.parent / "other.csv", index=False)
    before = bytes_of(study)
    with pytest.raises(pmw.DataError) as refused:
        pmw.move_session(study, study.parent / "other.csv")
    assert str(refused.value) == DIFFERS
    assert bytes_of(study) == before


def test_what_is_no_table_is_refused_and_changes_nothing(study: Path) -> None:
    folder = study.parent
    (folder / "empty.csv").write_text("")
    (folder / "lacking.csv").write_text("age,sex\n30,Male\n")
    shutil.copy(folder / "people.csv", folder / "people.parquet")
    before = bytes_of(study)
    for name in ("absent.csv", "", "empty.csv", "lacking.csv", "people.parquet", "study.pmw"):
        with pytest.raises(pmw.DataError) as refused:
            pmw.move_session(study, folder / name)
        assert "differs" not in str(refused.value)
    with pytest.raises(pmw.DataError, match="expected the name of a CSV or Parquet file, got a pandas"):
        pmw.move_session(study, PEOPLE.frame)  # type: ignore[arg-type]
    assert bytes_of(study) == before
    assert place_of(study) == folder / "people.csv"


def test_a_place_without_a_dialect_is_read_in_the_one_before(tmp_path: Path) -> None:
    path, dialect = tmp_path / "study.pmw", CsvDialect(";", missing_texts=("NA",))
    PEOPLE.frame.to_csv(tmp_path / "one.csv", index=False, sep=";")
    PEOPLE.frame.to_csv(tmp_path / "two.csv", index=False)
    table = pmw.TableFile(tmp_path / "one.csv", dialect)
    pmw.open_session(table, PEOPLE.domain, epsilon=1, delta=1e-9, path=path, options=OPTIONS).close()
    (tmp_path / "one.csv").rename(tmp_path / "three.csv")
    pmw.move_session(path, tmp_path / "three.csv")
    assert remembered_table(path) == pmw.TableFile(tmp_path / "three.csv", dialect)
    with pytest.raises(pmw.DataError, match="expected one column 'age'"):
        pmw.move_session(path, tmp_path / "two.csv")
    pmw.move_session(path, pmw.TableFile(tmp_path / "two.csv"))
    assert remembered_table(path) == pmw.TableFile(tmp_path / "two.csv")


def test_a_session_over_a_table_in_memory_goes_on_from_a_file(tmp_path: Path) -> None:
    path, table = tmp_path / "study.pmw", tmp_path / "people.parquet"
    PEOPLE.opened(path, options=OPTIONS).close()
    told = "give that table to resume it, or write it to a file and name that with pmw"
    with pmw.resume_session(path) as session, pytest.raises(pmw.DataError, match=told):
        session.ask(WRONG)
    duckdb.from_df(PEOPLE.frame).write_parquet(str(table))
    pmw.move_session(path, str(table))
    with pmw.resume_session(path) as session:
        assert session.ask(WRONG).source is Source.MEASURED
    for use in (pmw.resume_session, pmw.finalize_session):
        with pytest.raises(pmw.DataError, match="the session reads its table from a file"):
            use(path, PEOPLE.frame)


def test_a_session_without_a_key_is_not_moved(study: Path) -> None:
    pmw.backup_session(study, study.parent / "copy.pmw")
    pmw.finalize_session(study)
    told = r"was closed, and the key that tells its table .* is wiped"
    for path in (study, study.parent / "copy.pmw"):
        before = bytes_of(path)
        with pytest.raises(pmw.SessionError, match=told):
            pmw.move_session(path, study.parent / "people.csv")
        assert bytes_of(path) == before


@pytest.mark.parametrize("ended", ["asked", "closed"])
def test_a_batch_that_waits_goes_on_waiting_and_has_the_outcome_that_was_begun(
    study: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    leave_waiting(study, WRONG)
    waiting, before, status = waiting_of(study), books_of(study), read_session(study)[1]
    twin = study.parent / "twin" / study.name
    twin.parent.mkdir()
    for file in study.parent.glob("study.pmw*"):
        shutil.copy(file, twin.parent)
    with pmw.resume_session(twin) as session:
        expected, spent = session.ask(WRONG), session.ledger()
    assert expected.source is Source.MEASURED
    (study.parent / "people.csv").rename(study.parent / "moved.csv")
    with monkeypatch.context() as patch:
        forbid_draws(patch)
        pmw.move_session(study, study.parent / "moved.csv")
    assert pending_of(study) == waiting
    assert books_of(study) == before
    assert read_session(study)[1] == status
    if ended == "closed":
        pmw.finalize_session(study)
    with pmw.resume_session(study) as session:
        assert session.ask(WRONG) == expected
        assert session.ledger() == spent
    assert pmw.verify_session(study).holds


def test_an_opening_that_waits_is_finished_at_its_tables_new_place(tmp_path: Path) -> None:
    PEOPLE.frame.to_csv(tmp_path / "people.csv", index=False)
    path = tmp_path / "study.pmw"
    with cut_off():
        pmw.open_session(tmp_path / "people.csv", PEOPLE.domain, epsilon=1, path=path)
    (tmp_path / "people.csv").rename(tmp_path / "moved.csv")
    with pytest.raises(pmw.DataError, match="name its new place with pmw move"):
        pmw.resume_session(path)
    waiting = pending_of(path)
    pmw.move_session(path, tmp_path / "moved.csv")
    assert pending_of(path) == waiting
    with pmw.resume_session(path) as session:
        assert session.verify().holds


@pytest.mark.parametrize("step", ["take_over", "_insert", "finish"])
def test_a_move_that_is_killed_happened_whole_or_not_at_all(study: Path, step: str) -> None:
    leave_waiting(study, WRONG)
    waiting, before = pending_of(study), books_of(study)
    old, new = study.parent / "people.csv", study.parent / "moved.csv"
    shutil.copy(old, new)
    kill_at(step, lambda: pmw.move_session(study, new), before=lambda method, *given: method(*given))
    assert place_of(study) == (new if step == "finish" else old)
    assert (pending_of(study), books_of(study)) == (waiting, before)
    pmw.move_session(study, new)
    old.unlink()
    with pmw.resume_session(study) as session:
        assert session.ask(WRONG).source is Source.MEASURED
    assert pmw.verify_session(study).holds
