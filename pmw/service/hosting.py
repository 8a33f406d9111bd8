"""Hosting: the sessions that a service holds, and who may use which."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pmw.errors import DataError, PMWError, ServiceError, StoreError
from pmw.service.audit import Asked, Audit
from pmw.service.history import History, history_of
from pmw.service.limits import LargeRequests, OneEach, Queue, Rate, Working
from pmw.service.served_model import ServedModel
from pmw.service.users import User, UsersFile
from pmw.session.dialogue import Analyst
from pmw.session.opening import resume_session
from pmw.session.session import Session
from pmw.session.store.connection import is_model_file
from queries.frozen import dataclass

if TYPE_CHECKING:
    from starlette.requests import Request

_PER_SECOND = 100.0  # requests of one user
_AT_ONCE = 200.0
_LEAST_ROOM = 2**24  # bytes that are free for files


class ForbiddenError(ServiceError):
    """What a user may not do."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """One session of a service, or a model, and who waits for it; its name is the stem of its file."""

    name: str
    session: Session | ServedModel
    path: Path
    queue: Queue = field(default_factory=Queue)
    large: LargeRequests = field(default_factory=LargeRequests)
    working: Working = field(default_factory=Working)

    @property
    def is_usable(self) -> bool:
        """Whether its file is there and, but for a model, can be written."""
        if isinstance(self.session, ServedModel):
            return os.access(self.path, os.R_OK)
        return os.access(self.path, os.R_OK | os.W_OK) and os.access(self.path.parent, os.W_OK)

    def asking(
        self, user: User, request: Request | None = None, *, gone: threading.Event | None = None
    ) -> Analyst:
        """Return the session as a user asks it, whose charges are booked up to the share and the ceiling."""
        gone = gone or (threading.Event() if request is None else request.state.gone)
        analyst = self.session.analyst(
            user.name, user.share, at_most=user.at_most, stop=partial(self.working.look, gone)
        )
        analyst.place = None if request is None else url_of(str(request.base_url), self.name)
        return analyst


def url_of(base: str, name: str) -> str:
    """Return the address of a session by that of its service."""
    return f"{base.rstrip('/')}/sessions/{quote(name, safe='')}"


class Service:
    """Sessions and users, how many requests each user may make, and where questions are written down."""

    take_up: Callable[[], None]  # opens what lies in the served folders by now
    unasked = Fraction(0)  # of a session's budget: what assistants of a user may pay without a person

    def __init__(
        self, hosted: Sequence[Hosted], users: UsersFile, rate: Rate | None = None, audit: Audit | None = None
    ) -> None:
        self._hosted = {one.name: one for one in hosted}
        self.users, self.audit, self.exports = users, audit, OneEach()
        self.rate = rate or Rate(_PER_SECOND, _AT_ONCE)
        self.history = History(history_of(users.path))

    def __len__(self) -> int:
        return len(self._hosted)

    def __contains__(self, name: str) -> bool:
        return name in self._hosted

    def add(self, hosted: Hosted) -> None:
        """Serve one more session."""
        with suppress(DataError):  # what is free is answered all the same, and the first test says why
            hosted.session.read_table()
        if self.audit is not None:
            self.audit.begin(hosted.name, hosted.session.bookings())
        self._hosted = {**self._hosted, hosted.name: hosted}  # those who go through it see the old ones

    def hosted(self, user: User, name: str) -> Hosted:
        """Return a session by its name."""
        found = self._hosted.get(name)
        if found is None or not user.may_use(name):
            raise ForbiddenError(
                "this is none of your sessions; the first page lists them, and so does GET /sessions"
            )
        return found

    def write_down(self, user: str, hosted: Hosted, request: str, asked: Sequence[Asked]) -> None:
        """Write the questions of a request into the audit, where there is one; see ``Audit.add``."""
        if self.audit is not None:
            spent = None
            with suppress(PMWError):  # what cannot be read now is in the next line
                spent = hosted.session.analyst(user).charged()
            self.audit.add(user, hosted.name, request, asked, spent)

    def unready(self) -> str | None:
        """Return the code of what keeps the service from its work, by its files; None where nothing does."""
        try:
            self.users.listed()
        except ServiceError:
            return "users_unavailable"
        if not all(one.is_usable for one in self._hosted.values()):
            return "session_unavailable"
        files = [self.users.path, *(one.path for one in self._hosted.values())]
        files += [] if self.audit is None else [self.audit.path]
        about = map(os.statvfs, {path.parent for path in files})
        is_full = any(one.f_bavail * one.f_frsize < _LEAST_ROOM for one in about)
        return "disk_full" if is_full else None

    def end(self) -> None:
        """Tell all work to stop at its next turn."""
        for hosted in self._hosted.values():
            hosted.working.end()

    def wait(self) -> None:
        """Wait until nothing works on any session."""
        for hosted in self._hosted.values():
            hosted.working.wait()

    def visible(self, user: User) -> list[Hosted]:
        """Return a user's sessions, by name."""
        return [one for name, one in sorted(self._hosted.items()) if user.may_use(name)]

    def note(self, kept: Callable[[History], None], failed: Callable[[StoreError], None]) -> None:
        """Keep something in the history; where it cannot be written that is told, and all goes on."""
        try:
            kept(self.history)
        except StoreError as error:
            failed(error)


def names_of(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files by their names, which are their stems; of a folder its sessions, and other models."""
    named: dict[str, Path] = {}
    files = [_files_in(path) if path.is_dir() else [path] for path in paths]
    for path in chain.from_iterable(files):
        if path.stem in named:
            raise ServiceError(f"{named[path.stem]} and {path} have the same name {path.stem!r}; rename one")
        named[path.stem] = path
    return named


def _files_in(folder: Path) -> list[Path]:
    """Return the sessions of a folder, and the models beside which no session of that name lies."""
    sessions, models = (sorted(folder.glob(f"[!.]*.{kind}")) for kind in ("pmw", "model"))
    return [*sessions, *(one for one in models if one.with_suffix(".pmw") not in sessions)]


@contextmanager
def hosting(
    paths: Sequence[Path], users: UsersFile, rate: Rate | None = None, audit: Path | None = None
) -> Iterator[Service]:
    """Hold sessions open while a service runs; they are closed at the end, and their locks are let go.

    Tables are read before anybody asks, so that nobody's answer waits for that.
    """
    users.listed()
    importlib.import_module("queries.sql")  # now, for it takes longer than an answer
    with ExitStack() as held:
        kept = None if audit is None else Audit(audit)
        service = Service([], users, rate, kept)

        def take_up() -> None:
            """Open what is not served yet; one that cannot be opened leaves the others."""
            errors = list[PMWError]()
            for name, path in names_of(paths).items():
                if name not in service:
                    try:
                        is_model = is_model_file(path)
                        opened = ServedModel(path) if is_model else held.enter_context(resume_session(path))
                        service.add(Hosted(name, opened, path))
                    except PMWError as error:
                        errors.append(error)
            if errors:
                raise errors[0]

        service.take_up = take_up
        held.callback(service.history.close)
        try:
            service.take_up()
            if kept is not None:
                held.callback(kept.close)
            yield service
        finally:
            service.end()  # a session's lock is held until nothing works on it any more
            service.wait()
