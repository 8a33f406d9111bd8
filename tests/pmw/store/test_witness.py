"""The witness: charges that lie in the log alone are missed when the log is lost."""

from __future__ import annotations

import contextlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pmw
from pmw.books import read_ledger
from pmw.mechanism import LedgerEntry, lent_entry
from pmw.store import LedgerRow, Outcome, SessionStore
from queries import Domain

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


def test_a_lender_whose_log_was_lost_with_a_loan_is_refused(
    tmp_path: Path, frame: pd.DataFrame, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    lender, lost = tmp_path / "lender.pmw", tmp_path / "lost.pmw"
    options = pmw.Options(test=pmw.TestKind.QUERY, composition=pmw.Composition.ZCDP)
    pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=lender, options=options).close()
    assert not (tmp_path / "lender.pmw-charges").exists()
    borrowed = pmw.Options(budget_from=str(lender))
    with closing(SessionStore.open(lender)) as reader, contextlib.ExitStack() as reading:

        def read_then_charge(*given: Any) -> LedgerEntry:
            # The log was emptied when the lender was taken over; from here on the loan cannot leave it.
            reading.enter_context(reader.reading())
            assert reader.charge_count() == before
            return lent_entry(*given)

        before = reader.charge_count()
        monkeypatch.setattr("pmw.lending.lent_entry", read_then_charge)
        pmw.open_session(
            frame, domain, epsilon=0.3, delta=1e-9, path=tmp_path / "borrower.pmw", options=borrowed
        ).close()
        assert reader.charge_count() == before
        lost.write_bytes(lender.read_bytes())
        told = (tmp_path / "lender.pmw-charges").read_bytes()
    assert int(told) == before + 1 == len(read_ledger(lender).lines)
    with closing(SessionStore.open(lost)) as forgetful:
        assert forgetful.charge_count() == before  # the file alone has forgotten the loan
    (tmp_path / "lost.pmw-charges").write_bytes(told)
    for use in (read_ledger, lambda path: pmw.resume_session(path, frame)):
        with pytest.raises(pmw.SessionCorruptError, match=f"{before + 1} charges were made"):
            use(lost)


def test_a_new_session_owes_nothing_to_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    (tmp_path / "s.pmw-charges").write_text("9\n")
    make(path)
    SessionStore.open(path).close()
    (tmp_path / "s.pmw-charges").write_text("nine\n")
    with pytest.raises(pmw.SessionCorruptError, match="cannot be read"):
        SessionStore.open(path)
