"""Anchors: an older copy and a rewritten history are told, by public bytes kept apart from a session."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import pmw
from pmw.session.store.connection import SessionFiles
from pmw.session.store.store import SessionStore
from pmw.session.verification.anchor import Anchor
from tests.pmw.session.stored import secrets_of, tamper
from tests.worlds import PEOPLE

NAME = "the session goes on from its anchor"
WRONG = "age >= 40 AND NOT member = TRUE"


def fault(study: Path, anchor: Path) -> str | None:
    (found,) = (check for check in pmw.verify_session(study, anchor).checks if check.name == NAME)
    return None if found.holds else found.detail


def ask(study: Path, question: str) -> None:
    with pmw.resume_session(study, PEOPLE.frame) as session:
        session.ask(question)


def test_an_anchor_goes_on_with_its_session(study: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "study.anchor"
    for question in (WRONG, "age < 30", WRONG, "region = 'east'"):
        before = anchor.read_text() if anchor.exists() else None
        assert fault(study, anchor) is None
        assert anchor.read_text() != before or question == "region = 'east'"
        ask(study, question)
    verification = pmw.verify_session(study, anchor)
    assert verification.holds
    assert "nothing was spent since the anchor was last written" in verification.to_dict()["not_proved"][0]


def test_an_anchor_holds_public_bytes_alone_and_is_its_owners_whatever_the_process_allows(
    study: Path, tmp_path: Path
) -> None:
    anchor, before = tmp_path / "study.anchor", os.umask(0)
    try:
        for mode in (None, 0o666):
            if mode is not None:
                anchor.chmod(mode)
            pmw.verify_session(study, anchor)
            assert stat.S_IMODE(anchor.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert set(json.loads(anchor.read_text())) == {"anchor", "session", "closed", "links", "link", "answers"}
    assert not any(secret.hex() in anchor.read_text() for secret in secrets_of(study).values())


@pytest.mark.parametrize(("question", "what"), [(WRONG, "link"), ("age < 30", "answer")])
def test_an_older_copy_is_told_and_the_anchor_stays(
    study: Path, tmp_path: Path, question: str, what: str
) -> None:
    anchor = tmp_path / "study.anchor"
    files = (study, SessionFiles(study).companion)
    older = [file.read_bytes() for file in files]
    ask(study, question)
    assert fault(study, anchor) is None
    held = anchor.read_text()
    for file, content in zip(files, older, strict=True):
        file.write_bytes(content)
    assert pmw.verify_session(study).holds  # without the anchor it looks whole
    found = fault(study, anchor)
    assert found is not None
    assert what in found
    assert "this is an older copy" in found
    assert anchor.read_text() == held
    ask(study, question)  # another history of the same length, and longer ones
    ask(study, "age > 50 AND member = FALSE AND sex = 'Female'")
    assert what == "answer" or "history was rewritten" in (fault(study, anchor) or "")


REWRITES: dict[str, tuple[str, str]] = {
    "a label": ("UPDATE ledger SET label = 'x' WHERE sequence = 2", "link 2 of its chain is not what it was"),
    "a measurement": (
        "UPDATE measurements SET noise = noise || ' ' WHERE sequence = 2", "link 2 of its chain is not what",
    ),
    "a measured answer": (
        "UPDATE answers SET count = count + 1 WHERE source = 'measured'", "link 2 of its chain is not what",
    ),
    "a contract": ("UPDATE meta SET value = value || ' ' WHERE key = 'contract'", "is of another session"),
}  # fmt: skip


@pytest.mark.parametrize("longer", [False, True], ids=["as long", "longer"])
@pytest.mark.parametrize("rewrite", list(REWRITES))
def test_a_rewritten_history_is_told(study: Path, tmp_path: Path, rewrite: str, longer: bool) -> None:
    anchor, (statement, words) = tmp_path / "study.anchor", REWRITES[rewrite]
    ask(study, WRONG)
    assert fault(study, anchor) is None
    if longer:
        ask(study, "age BETWEEN 24 AND 31 AND member = TRUE")
    tamper(study, statement)
    with closing(sqlite3.connect(study)) as connection:
        assert connection.execute("SELECT count(*) FROM chain").fetchone() == (2 + longer,)
    assert words in (fault(study, anchor) or "")


def test_of_a_free_answer_an_anchor_tells_its_loss_alone(study: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "study.anchor"
    assert fault(study, anchor) is None
    for statement, words in (
        ("UPDATE answers SET count = count + 0.01", None),  # docs/operations.md says so
        ("DELETE FROM answers", "it has 0 answers, and had 1: this is an older copy"),
    ):
        tamper(study, statement, relink=False)
        assert fault(study, anchor) == words


def test_a_session_that_had_been_closed_is_closed_and_another_is_another(study: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "study.anchor"
    shutil.copy(study, tmp_path / "open.pmw")
    pmw.finalize_session(study)
    assert fault(study, anchor) is None
    assert "it had been closed: this is an older copy" in (fault(tmp_path / "open.pmw", anchor) or "")
    PEOPLE.opened(tmp_path / "twin.pmw", epsilon=5).close()
    assert fault(tmp_path / "twin.pmw", anchor) == "the anchor is of another session"


FORM = {"anchor": 2, "session": "00", "closed": False, "links": 1, "link": "00", "answers": 0}
WRONG_FORMS = ({"anchor": 1}, {"links": 0}, {"links": None}, {"link": "x"}, {"session": 7})


def test_a_file_that_is_no_anchor_is_left_alone_and_told(study: Path, tmp_path: Path) -> None:
    file, forms = tmp_path / "a", [json.dumps(FORM | wrong) for wrong in WRONG_FORMS]
    for text in ("", "{}", "[1]", '{"anchor": 2}', *forms, "\x00", "[" * 100_000):
        file.write_text(text)
        with pytest.raises(pmw.SessionError, match="expected an anchor, found something else"):
            pmw.verify_session(study, file)
        assert file.read_text() == text
    for place in (tmp_path, tmp_path / "absent" / "a"):
        with pytest.raises(pmw.StoreError, match="the anchor cannot be"):
            pmw.verify_session(study, place)


def compared(anchor: Anchor, study: Path) -> Anchor:
    """Compare an anchor with a session, and write it not yet."""
    with closing(SessionStore.open(study)) as store, store.reading():
        anchor.compare(store)
    return anchor


def test_anchors_that_are_written_at_once_keep_the_newest(study: Path, tmp_path: Path) -> None:
    path, waiting = tmp_path / "a", []
    for age in range(24, 56, 4):
        waiting.append(compared(Anchor(path), study))
        ask(study, f"age < {age} AND region = 'north'")
    compared(Anchor(tmp_path / "b"), study).update()
    with ThreadPoolExecutor(8) as threads:
        for number in range(12):
            path.unlink(missing_ok=True)
            last = compared(Anchor(path), study)
            # The newest is written among all the others, by turns first, in the middle and last.
            place = number % (len(waiting) + 1)
            order = [*waiting[:place], last, *waiting[place:]]
            list(threads.map(lambda anchor: anchor.update(), order))
            assert path.read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir() if "part" in file.name) == []


def test_an_anchor_that_became_one_of_another_session_is_left_alone(study: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "other.pmw"
    slow = compared(Anchor(path), study)
    PEOPLE.opened(other, epsilon=1).close()
    pmw.verify_session(other, path)
    kept = path.read_bytes()
    with pytest.raises(pmw.SessionError, match="another session meanwhile"):
        slow.update()
    assert path.read_bytes() == kept


def test_a_backup_is_compared_with_an_anchor_and_leaves_it_as_it_is(study: Path, tmp_path: Path) -> None:
    anchor, copy = tmp_path / "study.anchor", tmp_path / "copy.pmw"
    ask(study, WRONG)
    pmw.backup_session(study, copy)
    assert pmw.verify_session(copy, tmp_path / "none.anchor").holds
    assert not (tmp_path / "none.anchor").exists()
    assert fault(study, anchor) is None
    before = anchor.read_bytes()
    assert fault(copy, anchor) is None
    assert anchor.read_bytes() == before
    ask(study, "age < 30")
    assert fault(study, anchor) is None  # the session goes on, and so does its anchor
    assert anchor.read_bytes() != before
    assert fault(copy, anchor) is not None
