"""A service over one small session, as its tests share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pmw.service.users import Role, User, UsersFile
from tests.pmw.service.studies import Wired, opened_study, wired

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")
pytest.importorskip("httpx2", reason="the test client needs httpx2")

from fastapi.testclient import TestClient

from pmw.service.app import create_app
from pmw.service.guard import Log
from pmw.service.hosting import Service, hosting
from pmw.service.limits import Rate

AddUser = Callable[..., str]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The file of a session over a table in a file."""
    return opened_study(tmp_path)


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    return UsersFile(tmp_path / "users.json")


@pytest.fixture
def add(users: UsersFile) -> AddUser:
    """Add a user and return the headers of the user's requests."""

    def added(name: str, share: Any = Fraction(1, 2), role: Role = Role.ANALYST, **choices: Any) -> Any:
        token = users.add(User(name, role, Fraction(share), **choices), beyond=True)
        return {"Authorization": f"Bearer {token}"}

    return added


@pytest.fixture
def log() -> StringIO:
    return StringIO()


@pytest.fixture
def service(study: Path, users: UsersFile, add: AddUser) -> Iterator[Service]:
    add("first")
    with hosting([study], users) as service:
        yield service


@pytest.fixture
def client(service: Service, log: StringIO) -> Iterator[TestClient]:
    with TestClient(create_app(service, Log(log)), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def wire(service: Service) -> Iterator[Wired]:
    with wired(service) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    """One service for all tests that leave its session, its users and its limits as they are."""
    folder = tmp_path_factory.mktemp("wire")
    users = UsersFile(folder / "users.json")
    users.add(User("first", Role.ANALYST, Fraction(1, 2)))
    with hosting([opened_study(folder)], users, Rate(10**6, 10**6)) as service, wired(service) as made:
        before = made.spent
        made.connect().execute("SELECT sex, COUNT(*) FROM people GROUP BY sex")
        yield made
        assert made.spent == before
        assert made.lines("failure") == []
