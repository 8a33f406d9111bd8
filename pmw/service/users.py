"""Users: who may ask, in which role and with which share, in one file that holds no token.

A token is 256 random bits. Only its SHA-256 is stored, which is enough for bits that nobody can guess.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from pmw.disk import synchronise
from pmw.errors import PMWError, ServiceError
from pmw.session.accounts import Account

__all__ = [
    "digest_of",
    "Role",
    "User",
    "UsersFile",
]

_FORMAT = 1
_TOKEN_BYTES = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Role(StrEnum):
    """What a user may do."""

    ANALYST = "analyst"  # asks and measures up to a share; sees the own questions
    CUSTODIAN = "custodian"  # sees everybody's questions too
    READER = "reader"  # gets free answers only; sees the own questions


@dataclass(frozen=True, slots=True)
class User:
    """One user of a service.

    Args:
        name: charges are booked to it.
        role: what the user may do.
        share: the part of a session's whole cap that may be charged, in [0, 1]; 0 for a reader.
        sessions: names of the sessions that the user may use; None for all.
        expires: the last day, in UTC, on which the token is good; None for no end.
        revoked: the token is no longer good.

    Raises:
        ServiceError: the name is none, or the share is not in [0, 1].
    """

    name: str
    role: Role
    share: Fraction
    sessions: tuple[str, ...] | None = None
    expires: date | None = None
    revoked: bool = False

    def __post_init__(self) -> None:
        try:
            Account.of(self.name, self.share)
        except PMWError as error:
            raise ServiceError(str(error)) from None

    def may_use(self, session: str) -> bool:
        """Whether a session is among the user's."""
        return self.sessions is None or session in self.sessions

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "name": self.name,
            "role": self.role.value,
            "share": str(self.share),
            "sessions": None if self.sessions is None else list(self.sessions),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "revoked": self.revoked,
        }

    @classmethod
    def of(cls, form: dict[str, Any]) -> User:
        """Return the user of such a form.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        sessions, expires = form["sessions"], form["expires"]
        return cls(
            form["name"],
            Role(form["role"]),
            Fraction(form["share"]),
            None if sessions is None else tuple(map(str, sessions)),
            None if expires is None else date.fromisoformat(expires),
            bool(form["revoked"]),
        )


class UsersFile:
    """The users of a service, and the digests of their tokens.

    Args:
        path: the file; nobody but its owner may read or write it. It is read again when it changes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[bytes, User] = {}

    def listed(self) -> tuple[User, ...]:
        """Return all users, those whose tokens were revoked too.

        Raises:
            ServiceError: the file cannot be read, is none, or others may read it.
        """
        return tuple(self._read().values())

    def find(self, token: str) -> User | None:
        """Return whose token this is; None where it is nobody's, was revoked, or has expired.

        Raises:
            ServiceError: the file cannot be read, is none, or others may read it.
        """
        return self.find_digest(digest_of(token))

    def find_digest(self, digest: bytes) -> User | None:
        """Return whose token has this digest; see ``find``. Every digest is compared in constant time."""
        found = None
        for known, user in self._read().items():
            if hmac.compare_digest(known, digest):
                found = user
        if found is None or found.revoked:
            return None
        return found if found.expires is None or datetime.now(UTC).date() <= found.expires else None

    def add(self, user: User) -> str:
        """Add a user, and return the token; it is stored nowhere.

        Raises:
            ServiceError: the name is taken: what was charged to a name stays booked to it.
        """
        with self._changing() as users:
            if any(other.name == user.name for other in users.values()):
                raise ServiceError(
                    f"{user.name!r} is a user already; rotate the token, or choose another name"
                )
            return _enter(users, user)

    def revoke(self, name: str) -> None:
        """Make a user's token good for nothing.

        Raises:
            ServiceError: there is no such user.
        """
        with self._changing() as users:
            _enter(users, replace(_taken(users, name), revoked=True))

    def rotate(self, name: str) -> str:
        """Return a new token in place of a user's old one, which is good for nothing from now on.

        Raises:
            ServiceError: there is no such user.
        """
        with self._changing() as users:
            return _enter(users, replace(_taken(users, name), revoked=False))

    def _read(self) -> dict[bytes, User]:
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_mode & _OTHERS:
                    raise ServiceError(f"{self.path}: others may read or write this file; chmod 600 it first")
                seen = about.st_ino, about.st_mtime_ns, about.st_size
                if seen != self._seen:
                    self._users, self._seen = _users_of(file.read()), seen
        except OSError as error:
            raise ServiceError(f"{self.path}: the users file cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ServiceError(f"{self.path}: this is no users file; make one with pmw user add") from None
        return self._users

    @contextmanager
    def _changing(self) -> Iterator[dict[bytes, User]]:
        """Yield the users; they are written at the end, while nobody else changes them."""
        try:
            descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ServiceError(f"{self.path}: the users file cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            users = dict(self._read()) if self.path.exists() else {}
            yield users
            self._write(users)
        finally:
            os.close(descriptor)

    def _write(self, users: dict[bytes, User]) -> None:
        listed = [{**user.to_dict(), "token_sha256": digest.hex()} for digest, user in users.items()]
        text = json.dumps({"format": _FORMAT, "users": listed}, ensure_ascii=False, indent=1) + "\n"
        target = Path(os.path.realpath(self.path))
        new = target.with_name(f"{target.name}.new")
        try:
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text.encode())
            synchronise(new)
            new.replace(target)
            synchronise(target.parent)
        except OSError as error:
            raise ServiceError(f"{self.path}: the users file cannot be written: {error.strerror}") from None


def digest_of(token: str) -> bytes:
    """Return what is stored of a token: its SHA-256."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _enter(users: dict[bytes, User], user: User) -> str:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    users[digest_of(token)] = user
    return token


def _taken(users: dict[bytes, User], name: str) -> User:
    for digest, user in users.items():
        if user.name == name:
            return users.pop(digest)
    raise ServiceError(f"{name!r} is no user; pmw user list shows them")


def _users_of(content: bytes) -> dict[bytes, User]:
    form = json.loads(content)
    if form["format"] != _FORMAT:
        raise ValueError
    return {bytes.fromhex(one["token_sha256"]): User.of(one) for one in form["users"]}
