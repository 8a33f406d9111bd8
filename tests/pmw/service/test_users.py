"""Users: tokens that only their owner has, a file that nobody else reads, and shares."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pmw.errors import ServiceError
from pmw.service.users import Role, User, UsersFile


def ann(**choices: Any) -> User:
    return User("ann", Role.ANALYST, Fraction(1, 5), **choices)


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    return UsersFile(tmp_path / "users.json")


def test_a_token_is_found_and_stored_nowhere(users: UsersFile) -> None:
    token = users.add(ann())
    assert len(token) == 43  # 256 bits
    assert users.find(token) == ann()
    assert users.find(token + "x") is users.find("") is users.find("ü\ud800") is None
    assert token not in users.path.read_text()
    assert stat.S_IMODE(users.path.stat().st_mode) == 0o600


def test_a_name_has_one_token(users: UsersFile) -> None:
    first = users.add(ann())
    with pytest.raises(ServiceError, match="is a user already"):
        users.add(ann())
    second = users.rotate("ann")
    assert users.find(first) is None
    assert users.find(second) == ann()
    users.revoke("ann")
    assert users.find(second) is None
    assert [user.revoked for user in users.listed()] == [True]
    assert users.find(users.rotate("ann")) == ann()
    with pytest.raises(ServiceError, match="'bob' is no user"):
        users.revoke("bob")


def test_another_process_sees_a_change_at_once(users: UsersFile) -> None:
    token = users.add(ann())
    other = UsersFile(users.path)
    assert other.find(token)
    users.revoke("ann")
    assert other.find(token) is None


def test_a_token_is_good_until_the_end_of_its_last_day(users: UsersFile) -> None:
    today = datetime.now(UTC).date()
    last = users.add(ann(expires=today + timedelta(days=1)))
    past = users.add(User("bea", Role.READER, Fraction(0), ("study",), today - timedelta(days=1)))
    assert users.find(last)
    assert users.find(past) is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_or_write_is_refused(users: UsersFile, mode: int) -> None:
    token = users.add(ann())
    users.path.chmod(mode)
    with pytest.raises(ServiceError, match="chmod 600"):
        users.find(token)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 2, "users": []}', '{"format": 1, "users": [1]}', "\xff"]
)
def test_another_file_is_refused(users: UsersFile, text: str) -> None:
    users.path.write_text(text, encoding="latin-1")
    users.path.chmod(0o600)
    with pytest.raises(ServiceError, match="no users file"):
        users.listed()
    with pytest.raises(ServiceError, match="no users file"):
        users.add(ann())
    assert users.path.read_text(encoding="latin-1") == text


def test_there_is_no_file(users: UsersFile) -> None:
    with pytest.raises(ServiceError, match="cannot be read"):
        users.listed()


@pytest.mark.parametrize("name", ["", " ann", "a\nb", "x" * 101])
def test_names_are_those_of_a_ledger(name: str) -> None:
    with pytest.raises(ServiceError):
        User(name, Role.ANALYST, Fraction(1))


def test_the_file_holds_digests(users: UsersFile) -> None:
    users.add(ann(sessions=("study",)))
    (entry,) = json.loads(users.path.read_text())["users"]
    assert entry.pop("token_sha256")
    assert User.of(entry) == ann(sessions=("study",))
