"""Users: who may ask, in which role and with which share, in one file that holds no token.

A token is 256 random bits. Only its SHA-256 is stored, which is enough for bits that nobody can guess.

Charges are booked to names, which people tell apart by their looks. So a name is kept in one form of Unicode,
NFC, and its letters are of one script.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from pmw.disk import synchronise
from pmw.errors import PMWError, ServiceError
from pmw.session.accounts import Account
from pmw.session.store.locking import file_locks
from queries.frozen import dataclass

_FORMAT = 3
_WITHOUT_CEILINGS = 2  # which is read, too
_OF_THE_CAP = 1  # in which a share was a part of the whole budget
_TOKEN_BYTES = 32
_PREFIX = "pmw_"  # by which scanners for secrets know a token
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PART = re.compile(
    r"[0-9]{1,1000}(/[0-9]{1,1000})?|[0-9]{0,3}\.[0-9]{1,1000}"
)  # no exponent: 1e999999999 is long
_SYSTEMS = (  # scripts that are written together, by the first words of their letters' names
    {"CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA"},
    {"CJK", "IDEOGRAPHIC", "HANGUL"},
    {"CJK", "IDEOGRAPHIC", "BOPOMOFO"},
)


class Role(StrEnum):
    """What a user may do."""

    ANALYST = "analyst"  # asks and measures up to a share; sees the own questions
    CUSTODIAN = "custodian"  # sees everybody's questions too
    READER = "reader"  # gets free answers only; sees the own questions


@dataclass(frozen=True, slots=True)
class User:
    """One user of a service.

    Args:
        name: charges are booked to it. It is kept in the form NFC, and its letters are of one script.
        share: the part of what a session's opening leaves that may be charged, in [0, 1]; a reader's is 0.
        sessions: names of those that the user may use; None for all.
        expires: the last day, in UTC, on which the token is good; None for no end.
        at_most: the part of a session's whole budget that one question may charge; None for no ceiling.
    """

    name: str
    role: Role
    share: Fraction
    sessions: tuple[str, ...] | None = None
    expires: date | None = None
    revoked: bool = False
    at_most: Fraction | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the last day of the token is over."""
        return self.expires is not None and self.expires < datetime.now(UTC).date()

    def __post_init__(self) -> None:
        try:
            replace(Account.of(self.name, self.share), own_ceiling=self.at_most)
        except PMWError as error:
            raise ServiceError(str(error)) from None
        if self.role is Role.READER:
            object.__setattr__(self, "share", Fraction(0))
        object.__setattr__(self, "name", unicodedata.normalize("NFC", self.name))
        script_of(self.name)

    def may_use(self, session: str) -> bool:
        """Whether a session is among the user's."""
        return self.sessions is None or session in self.sessions

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "name": self.name,
            "role": self.role.value,
            "share": str(self.share),
            "at_most": None if self.at_most is None else str(self.at_most),
            "sessions": None if self.sessions is None else list(self.sessions),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "revoked": self.revoked,
        }

    @classmethod
    def of(cls, form: dict[str, Any]) -> User:
        """Return the user of such a form."""
        sessions, expires, revoked, ceiling = (form[n] for n in ("sessions", "expires", "revoked", "at_most"))
        texts = isinstance(sessions, list) and all(isinstance(one, str) for one in sessions)
        if type(revoked) is not bool or not (sessions is None or texts):
            raise TypeError
        return cls(
            form["name"],
            Role(form["role"]),
            _part_of(form["share"], "a share"),
            None if sessions is None else tuple(sessions),
            None if expires is None else date.fromisoformat(expires),
            revoked,
            None if ceiling is None else _part_of(ceiling, "an at_most"),
        )


class UsersFile:
    """The users of a service, and the digests of their tokens, in a file that is read again as it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[bytes, User] = {}

    def listed(self) -> tuple[User, ...]:
        """Return all users, those whose tokens were revoked too."""
        return tuple(self._read().values())

    def find(self, token: str) -> User | None:
        """Return whose token this is; None where it is nobody's, was revoked, or has expired."""
        return self.find_digest(digest_of(token))

    def find_digest(self, digest: bytes) -> User | None:
        """Return whose token has this digest; see ``find``. Every digest is compared in constant time."""
        found = None
        for known, user in self._read().items():
            if hmac.compare_digest(known, digest):
                found = user
        if found is None or found.revoked:
            return None
        return None if found.is_expired else found

    def add(self, user: User, *, beyond: bool = False) -> str:
        """Add a user, and return the token, stored nowhere; ``beyond``, shares may add up to more than 1."""
        with self._changing() as users:
            if any(other.name == user.name for other in users.values()):
                raise ServiceError(
                    f"{user.name!r} is a user already; rotate the token, or choose another name"
                )
            if not beyond:
                _check_shares([*users.values(), user])
            return _enter(users, user)

    def change(self, name: str, changed: Callable[[User], User], *, beyond: bool = False) -> None:
        """Change what a user may do; the token stays, and so does what was charged to the name."""
        with self._changing() as users:
            digest, user = _taken(users, name)
            users[digest] = changed(user)
            if not beyond:
                _check_shares(list(users.values()))

    def revoke(self, name: str) -> None:
        """Make a user's token good for nothing."""
        with self._changing() as users:
            _enter(users, replace(_taken(users, name)[1], revoked=True))

    def rotate(self, name: str) -> str:
        """Return a new token in place of a user's old one, which is good for nothing from now on."""
        with self._changing() as users:
            user = _taken(users, name)[1]
            if user.revoked:
                raise ServiceError(f"{user.name!r} was revoked, for good; add a user of another name")
            if user.is_expired:
                raise ServiceError(f"{user.name!r} has expired; pmw user change --expires comes first")
            return _enter(users, user)

    def _read(self) -> dict[bytes, User]:
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_mode & _OTHERS:
                    raise ServiceError(f"{self.path}: others may read or write this file; chmod 600 it first")
                seen = about.st_ino, about.st_mtime_ns, about.st_size
                if seen != self._seen:
                    self._users, self._seen = _users_of(file.read(), self.path), seen
        except OSError as error:
            raise ServiceError(f"{self.path}: the users file cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ServiceError(f"{self.path}: this is no users file; make one with pmw user add") from None
        return self._users

    @contextmanager
    def _changing(self) -> Iterator[dict[bytes, User]]:
        """Yield the users; they are written at the end, while nobody else changes them."""
        fcntl = file_locks()
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


def _check_shares(users: Sequence[User]) -> None:
    asking = [user for user in users if user.role is Role.ANALYST and not (user.revoked or user.is_expired)]
    for session in sorted({"", *itertools.chain(*(user.sessions or () for user in asking))}):
        total = sum((user.share for user in asking if user.may_use(session)), Fraction(0))
        if total > 1:
            raise ServiceError(
                f"the shares of analysts add up to {float(total):g}: what opening leaves is not enough for "
                "all of them. Choose a smaller --share, or let them compete for it with --beyond"
            )


def digest_of(token: str) -> bytes:
    """Return what is stored of a token: its SHA-256."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _enter(users: dict[bytes, User], user: User) -> str:
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    users[digest_of(token)] = user
    return token


def _taken(users: dict[bytes, User], name: str) -> tuple[bytes, User]:
    for digest, user in users.items():
        if user.name == unicodedata.normalize("NFC", name):
            return digest, users.pop(digest)
    raise ServiceError(f"{name!r} is no user; pmw user list shows them")


def _users_of(content: bytes, path: Path) -> dict[bytes, User]:
    form = json.loads(content)
    if form["format"] == _OF_THE_CAP:
        raise ServiceError(
            f"{path}: this users file is of an older version, in which shares were parts of the whole "
            "budget; they are parts of what opening leaves now. Move the file away, and add its users anew "
            "with pmw user add"
        )
    if form["format"] not in (_FORMAT, _WITHOUT_CEILINGS):
        raise ValueError
    missing = {"at_most": None} if form["format"] == _WITHOUT_CEILINGS else {}
    users: dict[bytes, User] = {}
    names = set[str]()
    for number, one in enumerate(form["users"], start=1):
        try:
            user = User.of({**missing, **one})
        except ServiceError as error:
            raise ServiceError(f"{path}: user {number} cannot be used: {error}") from None
        if user.name in names:  # charges are booked to names
            raise ServiceError(f"{path}: user {number} has the name of another, {user.name!r}; remove one")
        names.add(user.name)
        users[bytes.fromhex(one["token_sha256"])] = user
    return users


def _part_of(written: object, what: str) -> Fraction:
    """Return a share or a ceiling as a file holds it: a text such as 1/5 or 0.2, or a number."""
    if (isinstance(written, int | float) and not isinstance(written, bool)) or (
        isinstance(written, str) and _PART.fullmatch(written)
    ):
        with suppress(ValueError, ArithmeticError):  # such as NaN, 1e999 and 1/0
            return Fraction(written)
    raise ServiceError(f"expected {what} in [0, 1] such as 1/5 or 0.2, got another")


def script_of(name: str) -> str:
    """Return the script of a name's letters, such as ``LATIN`` or ``CYRILLIC``; empty where it has none.

    Scripts that are written together, such as the three of Japanese, count as one.
    """
    letters = [
        letter for letter in name if unicodedata.category(letter)[0] in "LN" and letter not in "0123456789"
    ]
    scripts = dict.fromkeys(re.split("[ -]", unicodedata.name(letter, "?"))[0] for letter in letters)
    if len(scripts) > 1 and not any(scripts.keys() <= system for system in _SYSTEMS):
        raise ServiceError(
            f"expected a name in letters of one script, got {name!a} in {' and '.join(scripts)}; "
            "a letter of another script can look the same"
        )
    return next(iter(scripts), "")
