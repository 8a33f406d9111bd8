"""Masks: a batch's bytes can be read while its mask is there, and never again when it was wiped."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.books import read_session
from pmw.store import Outcome, SessionStore
from pmw.store.connection import Transaction
from pmw.store.masks import Masks
from queries import Domain

SEED = bytes(range(32))
OPTIONS = pmw.Options(test=pmw.TestKind.QUERY, threshold=1000.0)


def test_bytes_are_masked_read_back_and_gone_when_their_mask_is_wiped(tmp_path: Path) -> None:
    masks = Masks(tmp_path / "s.pmw", "s.pmw")
    masked = masks.mask(7, SEED)
    assert masked != SEED
    assert Masks(tmp_path / "s.pmw", "s.pmw").unmask(7, masked) == SEED
    assert masks.unmask(8, masked) is None
    assert masks.wipe(7)
    assert masks.unmask(7, masked) is None
    assert stat.S_IMODE((tmp_path / "s.pmw-masks").stat().st_mode) == 0o600


@given(st.lists(st.integers(1, 900), min_size=1, max_size=8, unique=True))
def test_batches_of_any_number_have_masks_of_their_own(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int]
) -> None:
    masks = Masks(tmp_path_factory.mktemp("masks") / "s.pmw", "s.pmw")
    kept = []
    for number in numbers:
        masked = masks.mask(number, SEED)
        assert masks.unmask(number, masked) == SEED
        assert masks.wipe(number)
        kept.append((number, masked))
        assert masks._read(number) is None
    for number, masked in kept:
        assert masks.unmask(number, masked) is None
    assert len({masked for _, masked in kept}) == len(kept)


def test_a_mask_of_another_session_is_told_from_the_batchs_own(tmp_path: Path) -> None:
    masked = Masks(tmp_path / "s.pmw", "s.pmw").mask(7, SEED)
    Masks(tmp_path / "t.pmw", "t.pmw").mask(7, SEED)
    (tmp_path / "t.pmw-masks").replace(tmp_path / "s.pmw-masks")
    assert Masks(tmp_path / "s.pmw", "s.pmw").unmask(7, masked) is None


def test_wiping_late_leaves_masks_that_were_made_meanwhile(tmp_path: Path) -> None:
    masks = Masks(tmp_path / "s.pmw", "s.pmw")
    masks.mask(5, SEED)
    masks.forget()
    masked = masks.mask(105, SEED)  # of the same place in the file
    assert masks.wipe(5)
    assert masks.unmask(105, masked) == SEED


def test_masks_of_all_finished_batches_are_wiped_together(tmp_path: Path) -> None:
    masks = Masks(tmp_path / "s.pmw", "s.pmw")
    masked = {number: masks.mask(number, SEED) for number in range(1, 6)}
    assert masks.wipe(4, since=1)
    assert [number for number in masked if masks.unmask(number, masked[number]) == SEED] == [5]


def test_a_hundred_masks_are_made_at_a_time_and_all_wiped_at_once(tmp_path: Path) -> None:
    masks, file = Masks(tmp_path / "s.pmw", "s.pmw"), tmp_path / "s.pmw-masks"
    first = masks.mask(51, SEED)
    whole = file.read_bytes()
    masked = {number: masks.mask(number, SEED) for number in range(52, 151)}
    assert file.read_bytes() == whole
    assert masks.wipe(150, since=1)
    assert not any(file.read_bytes())
    assert masks.unmask(51, first) is None
    masks.mask(151, SEED)
    assert all(masks.unmask(number, masked[number]) is None for number in masked)


def test_masks_are_made_durable_under_their_name_before_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[object] = []

    def noting(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append((tmp_path / "s.pmw-masks").exists() if folder else os.fstat(descriptor).st_size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", noting)
        Masks(tmp_path / "s.pmw", "s.pmw").mask(7, SEED)
    assert synced == [100 * 48, True]


def test_what_is_left_of_bytes_without_their_mask_tells_nothing_of_them(tmp_path: Path) -> None:
    masks = Masks(tmp_path / "s.pmw", "s.pmw")
    left = [masks.mask(number, SEED) for number in (7, 8)]
    assert left[0][:32] != left[1][:32]
    assert left[0][32:] != left[1][32:]


def test_a_mask_that_cannot_be_wiped_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    masks, file = Masks(tmp_path / "s.pmw", "s.pmw"), tmp_path / "s.pmw-masks"
    masks.mask(7, SEED)

    def broken(*_: object) -> int:
        raise OSError("broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", broken)
        assert not masks.wipe(7)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert not masks.wipe(7)
    file.unlink()
    assert masks.wipe(7)


def test_masks_whose_name_may_not_last_serve_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks, sync = Masks(tmp_path / "s.pmw", "s.pmw"), os.fsync

    def broken(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError("broken disk")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        for _ in range(2):
            with pytest.raises(pmw.StoreError, match="nothing was drawn"):
                masks.mask(7, SEED)
    assert masks.unmask(7, masks.mask(7, SEED)) == SEED


def test_forgetting_masks_overwrites_them_durably_but_never_the_file_that_a_link_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks, file, other = Masks(tmp_path / "s.pmw", "s.pmw"), tmp_path / "s.pmw-masks", tmp_path / "other"
    masks.mask(7, SEED)
    synced: list[bytes] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: synced.append(file.read_bytes()))
        masks.forget()
    assert synced == [bytes(100 * 48)]
    assert not file.exists()
    other.write_bytes(b"of somebody else")
    file.symlink_to(other)
    masks.forget()
    assert not file.is_symlink()
    assert other.read_bytes() == b"of somebody else"


def test_a_batch_is_not_begun_where_masks_cannot_be_made(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    with closing(SessionStore.create(path, "opening", "{}", SEED, Outcome())) as store:
        store.finish(1, Outcome())
        (tmp_path / "s.pmw-masks").unlink()
        (tmp_path / "s.pmw-masks.part").mkdir()
        with pytest.raises(pmw.StoreError, match="nothing was drawn"):
            store.begin("tests", "{}", SEED)
        assert store.pending() is None
        (tmp_path / "s.pmw-masks.part").rmdir()
        assert store.begin("tests", "{}", SEED) == 2


def test_masks_that_a_kill_left_half_made_are_made_again(tmp_path: Path) -> None:
    (tmp_path / "s.pmw-masks.part").write_bytes(b"as a kill left it")
    masks = Masks(tmp_path / "s.pmw", "s.pmw")
    assert masks.unmask(7, masks.mask(7, SEED)) == SEED
    assert not (tmp_path / "s.pmw-masks.part").exists()


def test_a_new_session_has_none_of_the_masks_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    left = Masks(path, "s.pmw").mask(1, SEED)
    with closing(SessionStore.create(path, "opening", "{}", SEED, Outcome())) as store:
        assert store._masks.unmask(1, left) is None


def test_a_mask_is_there_until_the_outcome_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(transaction: Transaction, *_: object) -> None:
        transaction._connection.execute("ROLLBACK")
        raise pmw.StoreError("the commit failed")

    with closing(SessionStore.create(tmp_path / "s.pmw", "opening", "{}", SEED, Outcome())) as store:
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "__exit__", failing)
            with pytest.raises(pmw.StoreError, match="the commit failed"):
                store.finish(1, Outcome())
        waiting = store.pending()
        assert waiting is not None
        assert waiting.seed == SEED


def test_whoever_takes_over_wipes_the_masks_of_all_finished_batches_and_no_others(tmp_path: Path) -> None:
    path, entry = tmp_path / "s.pmw", 48
    with closing(SessionStore.create(path, "opening", "{}", SEED, Outcome())) as store:
        store._masks.wipe = lambda *_: True  # type: ignore[method-assign]  # as undone by a power cut
        store.finish(1, Outcome())
        for _ in range(2):
            store.finish(store.begin("tests", "{}", SEED), Outcome())
        with closing(SessionStore.open(path)) as other:
            other.take_over()
            made = (tmp_path / "s.pmw-masks").read_bytes()
            assert [any(made[place : place + entry]) for place in range(entry, 5 * entry, entry)] == [
                False, False, False, True
            ]  # fmt: skip
            assert other.begin("tests", "{}", SEED) == 4
        with closing(SessionStore.open(path)) as last:
            last.take_over()
            waiting = last.pending()
            assert waiting is not None
            assert waiting.seed == SEED


def test_where_a_mask_cannot_be_wiped_the_log_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.pmw"
    with closing(SessionStore.create(path, "opening", "{}", SEED, Outcome())) as store:
        store.finish(1, Outcome())
        store.finish(store.begin("tests", "{}", SEED), Outcome())
        assert (tmp_path / "s.pmw-wal").stat().st_size  # wiping took no more than the commit
        monkeypatch.setattr(Masks, "wipe", lambda *_: False)
        store.finish(store.begin("tests", "{}", SEED), Outcome())
        assert not (tmp_path / "s.pmw-wal").stat().st_size


def test_an_interrupt_before_a_mask_is_wiped_is_made_up_for_by_the_next_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> bool:
        raise KeyboardInterrupt

    path = tmp_path / "s.pmw"
    with closing(SessionStore.create(path, "opening", "{}", SEED, Outcome())) as store:
        store.finish(1, Outcome())
        with monkeypatch.context() as patch:
            patch.setattr(Masks, "wipe", stopped)
            with pytest.raises(KeyboardInterrupt):
                store.finish(store.begin("tests", "{}", SEED), Outcome())
        masked = bytes(a ^ b for a, b in zip(SEED, store._masks._read(2) or b"", strict=True))
        assert masked in (tmp_path / "s.pmw-wal").read_bytes()
        store.finish(None, Outcome())
        assert masked not in (tmp_path / "s.pmw-wal").read_bytes() + path.read_bytes()


def interrupted(frame: pd.DataFrame, domain: Domain, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a session whose batch was recorded and has no outcome."""

    def full(*_: object) -> None:
        raise pmw.StoreError("full")

    with (
        pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=OPTIONS) as session,
        monkeypatch.context() as patch,
    ):
        patch.setattr(SessionStore, "finish", full)
        with pytest.raises(pmw.StoreError):
            session.ask("age >= 40 AND sex = 'Male'")


@pytest.mark.parametrize("damage", [None, b"", bytes(4800), os.urandom(4800)])
def test_a_batch_whose_mask_is_gone_is_never_drawn_anew_but_charged_at_closing(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    path, masks = tmp_path / "s.pmw", tmp_path / "s.pmw-masks"
    interrupted(frame, domain, path, monkeypatch)
    whole = masks.read_bytes()
    if damage is None:
        masks.unlink()
    else:
        masks.write_bytes(damage)
    with pytest.raises(pmw.SessionCorruptError, match="file of masks"):
        pmw.resume_session(path, frame)
    masks.write_bytes(whole)
    with pmw.resume_session(path, frame) as session:
        assert session.verify().holds
        spent = session.ledger().spent
    interrupted(frame, domain, tmp_path / "t.pmw", monkeypatch)
    (tmp_path / "t.pmw-masks").unlink()
    with pytest.raises(pmw.SessionError, match=r"-masks\) is gone or damaged; put it back\. Nothing was"):
        pmw.seal_session(tmp_path / "t.pmw")
    pmw.seal_session(tmp_path / "t.pmw", abandon=True)
    closed = pmw.books.read_ledger(tmp_path / "t.pmw")
    assert closed.lines[-1].event == "abandoned batch"
    assert closed.spent > spent


def test_a_closed_session_keeps_no_masks(frame: pd.DataFrame, domain: Domain, tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path).close()
    assert (tmp_path / "s.pmw-masks").exists()
    (tmp_path / "s.pmw-masks.part").write_bytes(b"as a kill left it")
    pmw.seal_session(path)
    assert not list(tmp_path.glob("s.pmw-masks*"))


def test_masks_are_removed_even_where_there_is_no_room_to_write_the_file_anew(tmp_path: Path) -> None:
    with closing(SessionStore.create(tmp_path / "s.pmw", "opening", "{}", SEED, Outcome())) as store:
        store.seal(1, Outcome())
        store._connection.execute("BEGIN")  # as good as a full disk: nothing is written anew
        with pytest.raises(pmw.StoreError, match="could not be written anew"):
            store.scrub()
        assert not (tmp_path / "s.pmw-masks").exists()


def test_a_session_that_was_copied_without_its_companions_spends_nothing(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path
) -> None:
    path, copy = tmp_path / "s.pmw", tmp_path / "elsewhere" / "s.pmw"
    copy.parent.mkdir()
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=OPTIONS) as session:
        session.ask("age >= 40")
    copy.write_bytes(path.read_bytes())
    with pytest.raises(pmw.SessionCorruptError, match="moved or copied without its companions"):
        pmw.resume_session(copy, frame)
    assert read_session(copy)[1].queries_answered == 1
    pmw.seal_session(copy)
    pmw.resume_session(copy).close()
    with pmw.resume_session(path, frame) as session:
        session.ask("age >= 30")


def test_a_log_without_its_session_is_not_thrown_away(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path
) -> None:
    path, log = tmp_path / "s.pmw", tmp_path / "s.pmw-wal"
    log.write_bytes(b"charges, perhaps")
    with pytest.raises(pmw.SessionExistsError, match="what was left of another session"):
        pmw.open_session(frame, domain, epsilon=1, path=path)
    assert log.read_bytes() == b"charges, perhaps"
    assert not path.exists()
