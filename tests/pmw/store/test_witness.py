"""The witness: charges that lie in the log alone are missed when the log is lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import pmw
from pmw.store import LedgerRow, Outcome, SessionStore

ROW = LedgerRow("marginal", "age", None, "1/100")


def make(path: Path) -> None:
    with closing(SessionStore.create(path, "opening", "{}", bytes(32), Outcome())) as store:
        store.finish(1, Outcome(ledger=[ROW]))


def test_a_charge_is_told_while_it_lies_in_the_log_alone_and_missed_when_the_log_is_lost(
    tmp_path: Path,
) -> None:
    path, lost = tmp_path / "s.pmw", tmp_path / "lost.pmw"
    make(path)
    with closing(SessionStore.open(path)) as store, closing(SessionStore.open(path)) as reader:
        store.take_over()
        with reader.reading():
            assert reader.charge_count() == 1
            store.finish(None, Outcome(ledger=[ROW]))
            lost.write_bytes(path.read_bytes())
            told = (tmp_path / "s.pmw-charges").read_bytes()
            assert int(told) == 2
    SessionStore.open(path).close()
    assert (tmp_path / "s.pmw-charges").stat().st_mode & 0o777 == 0o600
    (tmp_path / "lost.pmw-charges").write_bytes(told)
    with pytest.raises(pmw.SessionCorruptError, match="2 charges were made, and the file holds 1"):
        SessionStore.open(lost)


def test_a_new_session_owes_nothing_to_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    (tmp_path / "s.pmw-charges").write_text("9\n")
    make(path)
    SessionStore.open(path).close()
    (tmp_path / "s.pmw-charges").write_text("nine\n")
    with pytest.raises(pmw.SessionCorruptError, match="cannot be read"):
        SessionStore.open(path)
