"""``pmw user`` and ``pmw serve``, as commands."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from pmw.service.app import create_app
from pmw.service.hosting import hosting
from pmw.service.users import Role, User, UsersFile
from pmw.session.maintenance import read_session
from tests.pmw.cli.commands import Run

USERS = ("--users", "users.json")
ADD = ("user", "add", "ann", *USERS)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return Run()


def test_a_token_stands_alone_on_standard_output(run: Run) -> None:
    added = run.told(*ADD, "--share", "1/5", "--sessions", "a,b", "--expires", "2099-12-31")
    (token,) = added.splitlines()
    user = UsersFile(Path("users.json")).find(token)
    assert user is not None
    assert (str(user.share), user.sessions, str(user.expires)) == ("1/5", ("a", "b"), "2099-12-31")
    rotated = run.told("user", "rotate", "ann", *USERS).strip()
    assert rotated not in (token, "")
    assert "revoked" not in run.told("user", "list", *USERS)
    run.told("user", "revoke", "ann", *USERS)
    listed = run.told("user", "list", *USERS, "--json")
    assert json.loads(listed)["users"][0]["revoked"]
    assert rotated not in listed


def test_a_token_is_good_for_90_days_unless_told(run: Run) -> None:
    today = datetime.now(UTC).date()

    def last(name: str) -> date | None:
        return next(user.expires for user in UsersFile(Path("users.json")).listed() if user.name == name)

    run.told(*ADD, "--share", "0.1")
    run.told("user", "add", "bea", *USERS, "--role", "reader", "--expires", "9999-12-31")
    assert (last("ann"), last("bea")) == (today + timedelta(90), date.max)
    run.told("user", "change", "bea", *USERS, "--expires", "2099-12-31")
    assert (last("ann"), last("bea")) == (today + timedelta(90), date(2099, 12, 31))
    run.told("user", "change", "bea", *USERS, "--role", "custodian")
    assert last("bea") == date(2099, 12, 31)
    past = run("user", "change", "bea", *USERS, "--expires", "2020-01-01")
    assert "2020-01-01 is past" in past.stderr
    assert "has expired" in run.refused("user", "rotate", "bea", *USERS)
    refused = run.refused("user", "change", "bea", *USERS, "--expires", "soon", code=2)
    assert "does not match the format '%Y-%m-%d'" in refused


def test_the_last_use_of_a_token_is_listed(run: Run, study: Path) -> None:
    token = run.told(*ADD, "--share", "0.1").strip()
    run.told("user", "add", "bea", *USERS, "--role", "reader")
    assert [one["last_used"] for one in run.form("user", "list", *USERS)["users"]] == [None, None]
    assert not Path("users.json-asked").exists()
    with (
        hosting([study], UsersFile(Path("users.json"))) as service,
        TestClient(create_app(service)) as client,
    ):
        client.get("/sessions", headers={"Authorization": "Bearer wrong"})
        client.get("/sessions", headers={"Authorization": f"Bearer {token}"})
    today = datetime.now(UTC).date().isoformat()
    assert [one["last_used"] for one in run.form("user", "list", *USERS)["users"]] == [today, None]
    assert "last used" in run.told("user", "list", *USERS)
    run.told("user", "rotate", "ann", *USERS)
    assert run.form("user", "list", *USERS)["users"][-1]["last_used"] == today


def test_no_share_is_told_above_what_is_left_of_a_session(run: Run, study: Path) -> None:
    run.told(*ADD, "--share", "9/10")
    run.told("user", "add", "bob", "--share", "1/100", *USERS)
    opened = 1 - Fraction(read_session(study)[0].ledger.spent, read_session(study)[0].ledger.cap)
    shares = [str(9 * opened / 10), str(opened / 100)]
    for session, told in (((), ["9/10", "1/100"]), (("--session", str(study)), shares)):
        listed = json.loads(run.told("user", "list", *USERS, *session, "--json"))["users"]
        assert [one["share"] for one in listed] == told
    assert f"{float(9 * opened / 10):.4g}" in run.told("user", "list", *USERS, "--session", str(study))


def test_shares_add_up_to_1_at_most_unless_told(run: Run) -> None:
    more = ("user", "add", "bob", *USERS, "--share")
    run.told(*ADD, "--share", "3/4", "--sessions", "a,b")
    run.told("user", "add", "cy", "--role", "custodian", *USERS)  # who is no analyst
    for sessions in ((), ("--sessions", "b,c")):
        assert "add up to 1.05" in run.refused(*more, "0.3", *sessions)
    run.told(*more, "0.3", "--sessions", "c")
    assert "add up to 1.05" in run.refused("user", "add", "eve", "--share", "0.3", *USERS)
    run.told("user", "add", "eve", "--share", "0.3", "--beyond", *USERS)


def test_a_ceiling_is_given_listed_changed_and_taken_away(run: Run) -> None:
    token = run.told(*ADD, "--share", "1/5", "--at-most", "0.5%").strip()

    def user() -> User:
        found = UsersFile(Path("users.json")).find(token)
        assert found is not None
        return found

    assert user().at_most == Fraction(1, 200)
    assert "0.5%" in run.told("user", "list", *USERS)
    assert json.loads(run.told("user", "list", *USERS, "--json"))["users"][0]["at_most"] == "1/200"
    change = ("user", "change", "ann", *USERS)
    assert run.told(*change, "--at-most", "0") == "Changed ann.\n"
    assert (user().at_most, user().share) == (Fraction(0), Fraction(1, 5))
    run.told(*change, "--share", "0.3")
    assert (user().at_most, user().share) == (Fraction(0), Fraction(3, 10))
    run.told(*change, "--no-ceiling", "--share", "1")
    assert (user().at_most, user().share, user().role) == (None, Fraction(1), Role.ANALYST)
    assert "a tenth" in run.told("user", "list", *USERS)


def test_a_changed_role_has_a_share_as_a_new_user_has(run: Run) -> None:
    token = run.told(*ADD, "--share", "1/5").strip()
    change = ("user", "change", "ann", *USERS)

    def stands() -> tuple[Role, Fraction] | None:
        found = UsersFile(Path("users.json")).find(token)
        return None if found is None else (found.role, found.share)

    run.told(*change, "--role", "analyst")
    assert stands() == (Role.ANALYST, Fraction(1, 5))
    run.told(*change, "--role", "reader")
    assert stands() == (Role.READER, Fraction(0))
    assert "an analyst needs --share" in run.refused(*change, "--role", "analyst", code=2)
    assert "a reader gets free answers only" in run.refused(*change, "--share", "1/2", code=2)
    run.told(*change, "--role", "custodian")
    assert stands() == (Role.CUSTODIAN, Fraction(1))
    for words in ((), ("--beyond",), ("--at-most", "1%", "--no-ceiling")):
        assert "tell what changes" in run.refused(*change, *words, code=2)
    assert "is no user" in run.refused("user", "change", "bob", *USERS, "--share", "0.1")
    run.told("user", "add", "bob", "--share", "0.9", *USERS)
    assert "add up to" in run.refused(*change, "--role", "analyst", "--share", "0.2")
    run.told(*change, "--role", "analyst", "--share", "0.2", "--beyond")


def test_users_whose_shares_were_of_the_whole_budget_are_refused(run: Run) -> None:
    run.told(*ADD, "--share", "3/4")
    Path("users.json").write_text(Path("users.json").read_text().replace('"format": 3', '"format": 1'))
    assert "they are parts of what opening leaves now" in run.refused("user", "list", *USERS)


def test_what_is_refused_gets_one_line_and_leaves_the_file_as_it_was(run: Run) -> None:
    run.told(*ADD, "--role", "reader")
    assert "is a user already" in run.refused(*ADD, "--role", "custodian")
    damaged = Path("users.json").read_text().replace('"share": "0"', '"share": "1/0"')
    Path("users.json").write_text(damaged)
    for words in ("list", "list --json", "revoke ann", "rotate ann", "add b --share 1"):
        (line,) = run.refused("user", *words.split(), *USERS).splitlines()
        assert line.startswith("Error: users.json: ")
    assert Path("users.json").read_text() == damaged


def test_names_of_other_scripts_are_said_and_mixed_ones_refused(run: Run) -> None:
    choices = ("--share", "1/2", *USERS)
    mixed = run.refused("user", "add", "\u0410nn", *choices)
    assert "'\\u0410nn' in CYRILLIC and LATIN" in mixed
    assert not Path("users.json").exists()
    other = run("user", "add", "\u0410\u043d\u043d", *choices)
    assert "CYRILLIC" in other.stderr
    assert len(other.stdout.split()) == 1
    assert run("user", "add", "Ren\u00e9", *choices).stderr == ""


def test_what_cannot_be_served_is_refused(run: Run, study: Path) -> None:
    run.told(*ADD, "--role", "reader")
    serve = ("serve", str(study), *USERS, "--port", "0")
    Path("users.json").chmod(0o644)
    assert "chmod 600" in run.refused(*serve)
    Path("users.json").chmod(0o600)
    assert "same name" in run.refused(*serve, "elsewhere/study.pmw")
    assert "cannot listen" in run.refused(*serve, "--host", "192.0.2.1")
    assert run("serve", "none.pmw", *serve[2:]).exit_code in (1, 5)
