"""Users: tokens that only their owner has, a file that nobody else reads, and shares."""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from fastapi.testclient import TestClient

from pmw.cli.answering import paid
from pmw.errors import PriceError, ServiceError
from pmw.service.app import create_app
from pmw.service.connection import _refusal
from pmw.service.hosting import Service, hosting
from pmw.service.users import Role, User, UsersFile
from pmw.session.maintenance import read_session
from tests.pmw.cli.commands import Run


def ann(**choices: Any) -> User:
    return User("ann", Role.ANALYST, Fraction(1, 5), **choices)


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    return UsersFile(tmp_path / "users.json")


def test_a_token_is_found_and_stored_nowhere(users: UsersFile) -> None:
    token = users.add(ann())
    for one in (token, users.rotate("ann")):
        assert re.fullmatch(r"pmw_[A-Za-z0-9_-]{43}", one)  # 256 bits
    token = users.rotate("ann")
    assert users.find(token) == ann()
    assert users.find(token + "x") is users.find("") is users.find("ü\ud800") is None
    assert token not in users.path.read_text()
    form = json.loads(users.path.read_text())
    assert stat.S_IMODE(users.path.stat().st_mode) == 0o600
    old = "x" * 43  # as tokens were without their beginning
    form["users"][0]["token_sha256"] = hashlib.sha256(old.encode()).hexdigest()
    users.path.write_text(json.dumps(form))
    assert users.find(old) == ann()
    assert form["users"][0].pop("token_sha256")
    assert User.of(form["users"][0]) == ann()


def test_a_name_has_one_token_and_another_process_sees_a_change_at_once(users: UsersFile) -> None:
    first, other = users.add(ann()), UsersFile(users.path)
    assert other.find(first) == ann()
    with pytest.raises(ServiceError, match="is a user already"):
        users.add(ann())
    second = users.rotate("ann")
    assert (other.find(first), other.find(second)) == (None, ann())
    written = users.path.read_text()
    users.path.write_text(written.replace('"revoked": false', '"revoked": true'))  # by hand
    assert other.find(second) is None
    users.path.write_text(written)
    assert other.find(second) == ann()
    users.revoke("ann")
    assert other.find(second) is None
    assert [user.revoked for user in users.listed()] == [True]
    with pytest.raises(ServiceError, match="'ann' was revoked, for good; add a user of another name"):
        users.rotate("ann")
    assert [user.revoked for user in users.listed()] == [True]
    with pytest.raises(ServiceError, match="'bob' is no user"):
        users.revoke("bob")


def test_a_token_is_good_until_the_end_of_its_last_day(users: UsersFile) -> None:
    today = datetime.now(UTC).date()
    last = users.add(ann(expires=today + timedelta(days=1)))
    past = users.add(User("bea", Role.READER, Fraction(0), ("study",), today - timedelta(days=1)))
    assert users.find(last)
    assert users.find(past) is None
    with pytest.raises(ServiceError, match="'bea' has expired; pmw user change --expires comes first"):
        users.rotate("bea")
    assert users.find(past) is None
    users.change("bea", lambda user: replace(user, expires=today))
    assert users.find(past)
    rotated = users.find(users.rotate("bea"))
    assert rotated is not None
    assert (rotated.expires, users.find(past)) == (today, None)


def test_no_file_and_one_that_others_can_read_or_write_are_refused(users: UsersFile) -> None:
    with pytest.raises(ServiceError, match="cannot be read"):
        users.listed()
    token = users.add(ann())
    for mode in (0o640, 0o604, 0o620):
        users.path.chmod(mode)
        with pytest.raises(ServiceError, match="chmod 600"):
            users.find(token)


BOB = {"name": "bob", "role": "reader", "share": "0", "at_most": None, "sessions": None, "expires": None,
       "revoked": False}  # fmt: skip


def hold(users: UsersFile, *listed: dict[str, Any]) -> None:
    """Write a users file by hand."""
    entries = [{"token_sha256": f"{number:064x}", **one} for number, one in enumerate(listed)]
    users.path.write_text(json.dumps({"format": 3, "users": entries}))
    users.path.chmod(0o600)


NO_FILES = [
    "", "{}", "[]", '{"format": 4, "users": []}', '{"format": 3, "users": [1]}', "\xff", "[" * 100_000,
    '{"format": 3, "users": ' + "[" * 100_000, '{"a":' * 100_000, {"sessions": "study"},
    {"sessions": [1]}, {"revoked": "false"}, {"revoked": 0},
]  # fmt: skip


def test_another_file_is_refused_and_left_as_it_was(users: UsersFile) -> None:
    for text in NO_FILES:
        hold(users, {**BOB, **text} if isinstance(text, dict) else BOB)  # another type is not guessed at
        if isinstance(text, str):
            users.path.write_text(text, encoding="latin-1")
        before = users.path.read_bytes()
        for use in (users.listed, lambda: users.add(ann())):
            with pytest.raises(ServiceError, match="no users file"):
                use()
        assert users.path.read_bytes() == before, str(text)[:30]


SHARES = ["1/0", "5", "-1", "1e999999999", "1e-999999999", "nan", "", " ", "1/", "9" * 5000, "9" * 900, "x",
          math.inf, math.nan, -1, 5, True, None, [], {}]  # fmt: skip


def test_a_share_and_a_ceiling_in_the_file_are_parts_of_1_or_get_one_error(users: UsersFile) -> None:
    hold(users, {**BOB, "share": "1/2"})
    (bob,) = users.listed()
    assert bob.share == User("rea", Role.READER, Fraction(1)).share == 0
    for part in SHARES:
        hold(users, BOB, {**BOB, "name": "ann", "share": part})
        with pytest.raises(
            ServiceError, match=r"users\.json: user 2 cannot be used: expected a share in \[0, 1\]"
        ):
            users.listed()
        with pytest.raises(ServiceError):
            users.find("token")
        hold(users, {**BOB, "at_most": part})
        if part is None:  # for no ceiling
            assert users.listed()[0].at_most is None
            continue
        with pytest.raises(ServiceError, match=r"user 1 cannot be used: expected an at_most in \[0, 1\]"):
            users.listed()
    by_hand = ["1/5", "0.25", ".5", 0.5, 1, "0"]
    told = (
        {**BOB, "role": "analyst", "name": f"b{place}", "share": one} for place, one in enumerate(by_hand)
    )
    hold(users, *told)
    assert [user.share * 20 for user in users.listed()] == [4, 5, 10, 10, 20, 0]


def test_a_file_of_before_ceilings_is_read_and_written_with_them(users: UsersFile) -> None:
    hold(users, {name: part for name, part in BOB.items() if name != "at_most"})
    text = users.path.read_text()
    with pytest.raises(ServiceError, match="no users file"):
        users.listed()
    users.path.write_text(text.replace('"format": 3', '"format": 1'))
    with pytest.raises(ServiceError, match="they are parts of what opening leaves now"):
        users.listed()  # whose shares were of the whole budget
    users.path.write_text(text.replace('"format": 3', '"format": 2'))
    assert [(user.name, user.at_most) for user in users.listed()] == [("bob", None)]
    by_hand = users.path.read_text().replace('"share"', '"at_most": "1/8", "share"')
    users.path.write_text(by_hand)  # a ceiling that somebody wrote there holds
    assert [user.at_most for user in users.listed()] == [Fraction(1, 8)]
    token = users.add(ann(at_most=Fraction(1, 200)))
    assert json.loads(users.path.read_text())["format"] == 3
    found = UsersFile(users.path).find(token)
    assert found is not None
    assert found.at_most == Fraction(1, 200)


COMPOSED, DECOMPOSED = "Ren\u00e9e", "Rene\u0301e"
MIXED = ["\u0410nn", "ann\u0430", "a\u03bdn", "a\u0661", "\U0001d41ann", "an\uff4e", "\u5357\u3042\ud55c"]
OF_ONE = ["ann-2_b.c@x", "\u0410\u043d\u043d\u0430 7", "\u5357\u3055\u304f\u30e9\u3005", "\uae40\u91d1", "_1",
          COMPOSED, "\u0e01\u0e33", "\u0915\u093f"]  # fmt: skip


def test_names_are_of_one_script_where_they_are_added_and_where_they_are_read(users: UsersFile) -> None:
    for name in MIXED:
        with pytest.raises(ServiceError, match="letters of one script"):
            User(name, Role.ANALYST, Fraction(1))
        hold(users, {**BOB, "name": name})
        with pytest.raises(
            ServiceError, match="user 1 cannot be used: expected a name in letters of one script"
        ):
            users.listed()
    hold(users)
    for name in OF_ONE:
        users.add(User(name, Role.ANALYST, Fraction(1, len(OF_ONE))))
    assert sorted(user.name for user in UsersFile(users.path).listed()) == sorted(OF_ONE)
    for name in ("", " ann", "a\nb", "x" * 101):  # which no ledger has
        with pytest.raises(ServiceError):
            User(name, Role.ANALYST, Fraction(1))


def test_two_forms_of_a_name_are_one_user(users: UsersFile) -> None:
    token = users.add(User(DECOMPOSED, Role.ANALYST, Fraction(1)))
    assert [user.name for user in users.listed()] == [COMPOSED]
    with pytest.raises(ServiceError, match="is a user already"):
        users.add(User(COMPOSED, Role.ANALYST, Fraction(1)))
    users.revoke(DECOMPOSED)
    assert users.find(token) is None
    hold(users, {**BOB, "name": DECOMPOSED})
    assert [user.name for user in users.listed()] == [COMPOSED]
    hold(users, {**BOB, "name": DECOMPOSED}, {**BOB, "name": COMPOSED})
    with pytest.raises(ServiceError, match="user 2 has the name of another"):
        users.listed()


# --- ``pmw user`` and ``pmw serve`` -------------------------------------------------------------------------


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


def test_shares_add_up_to_1_at_most_unless_told_and_none_is_above_what_is_left_of_a_session(
    run: Run, study: Path
) -> None:
    more = ("user", "add", "bob", *USERS, "--share")
    run.told(*ADD, "--share", "3/4", "--sessions", "a,b")
    run.told("user", "add", "cy", "--role", "custodian", *USERS)  # who is no analyst
    for sessions in ((), ("--sessions", "b,c")):
        assert "add up to 1.05" in run.refused(*more, "0.3", *sessions)
    run.told(*more, "0.3", "--sessions", "c")
    assert "add up to 1.05" in run.refused("user", "add", "eve", "--share", "0.3", *USERS)
    run.told("user", "add", "eve", "--share", "0.3", "--beyond", *USERS)
    opened = 1 - Fraction(read_session(study)[0].ledger.spent, read_session(study)[0].ledger.cap)
    shares = {"ann": Fraction(3, 4), "bob": Fraction(3, 10), "eve": Fraction(3, 10)}
    for session, left in (((), Fraction(1)), (("--session", str(study)), opened)):
        listed = run.form("user", "list", *USERS, *session)["users"]
        assert {one["name"]: one["share"] for one in listed if one["name"] in shares} == {
            name: str(share * left) for name, share in shares.items()
        }
    assert f"{float(3 * opened / 4):.4g}" in run.told("user", "list", *USERS, "--session", str(study))


def test_a_user_is_changed_and_a_changed_role_has_a_share_as_a_new_user_has(run: Run) -> None:
    token = run.told(*ADD, "--share", "1/5", "--at-most", "0.5%").strip()
    change = ("user", "change", "ann", *USERS)

    def stands() -> tuple[Role, Fraction, Fraction | None]:
        found = UsersFile(Path("users.json")).find(token)
        assert found is not None
        return found.role, found.share, found.at_most

    assert stands() == (Role.ANALYST, Fraction(1, 5), Fraction(1, 200))
    assert "0.5%" in run.told("user", "list", *USERS)
    assert run.form("user", "list", *USERS)["users"][0]["at_most"] == "1/200"
    assert run.told(*change, "--at-most", "0") == "Changed ann.\n"
    assert stands() == (Role.ANALYST, Fraction(1, 5), Fraction(0))
    run.told(*change, "--share", "0.3")
    assert stands() == (Role.ANALYST, Fraction(3, 10), Fraction(0))
    run.told(*change, "--no-ceiling", "--share", "1")
    assert stands() == (Role.ANALYST, Fraction(1), None)
    assert "a tenth" in run.told("user", "list", *USERS)
    run.told(*change, "--role", "analyst")
    assert stands() == (Role.ANALYST, Fraction(1), None)
    run.told(*change, "--role", "reader")
    assert stands() == (Role.READER, Fraction(0), None)
    assert "an analyst needs --share" in run.refused(*change, "--role", "analyst", code=2)
    assert "a reader gets free answers only" in run.refused(*change, "--share", "1/2", code=2)
    run.told(*change, "--role", "custodian")
    assert stands() == (Role.CUSTODIAN, Fraction(1), None)
    for words in ((), ("--beyond",), ("--at-most", "1%", "--no-ceiling")):
        assert "tell what changes" in run.refused(*change, *words, code=2)
    assert "is no user" in run.refused("user", "change", "bob", *USERS, "--share", "0.1")
    run.told("user", "add", "bob", "--share", "0.9", *USERS)
    assert "add up to" in run.refused(*change, "--role", "analyst", "--share", "0.2")
    run.told(*change, "--role", "analyst", "--share", "0.2", "--beyond")


def test_what_is_refused_gets_one_line_and_leaves_the_file_as_it_was(run: Run, study: Path) -> None:
    mixed = run.refused("user", "add", "\u0410nn", "--share", "1/2", *USERS)
    assert "'\\u0410nn' in CYRILLIC and LATIN" in mixed
    assert not Path("users.json").exists()
    other = run("user", "add", "\u0410\u043d\u043d", "--share", "1/2", *USERS)
    assert "CYRILLIC" in other.stderr
    assert len(other.stdout.split()) == 1
    assert run("user", "add", "Ren\u00e9", "--share", "1/2", *USERS).stderr == ""
    run.told(*ADD, "--role", "reader")
    assert "is a user already" in run.refused(*ADD, "--role", "custodian")
    serve = ("serve", str(study), *USERS, "--port", "0")
    Path("users.json").chmod(0o644)
    assert "chmod 600" in run.refused(*serve)
    Path("users.json").chmod(0o600)
    assert "same name" in run.refused(*serve, "elsewhere/study.pmw")
    assert "cannot listen" in run.refused(*serve, "--host", "192.0.2.1")
    assert run("serve", "none.pmw", *serve[2:]).exit_code in (1, 5)
    damaged = Path("users.json").read_text().replace('"share": "0"', '"share": "1/0"')
    Path("users.json").write_text(damaged)
    for words in ("list", "list --json", "revoke ann", "rotate ann", "add b --share 1"):
        (line,) = run.refused("user", *words.split(), *USERS).splitlines()
        assert line.startswith("Error: users.json: ")
    assert Path("users.json").read_text() == damaged


# --- ceilings: what a custodian lets one question charge, whatever the request allows -----------------------

if TYPE_CHECKING:
    from pmw.session.asking import Asking

ASK, MEASURE, PAGE = "/sessions/study/ask", "/sessions/study/measure", "/page/study/ask"
PAIR = "sex = 'Male' AND region = 'north'"
GROUPS = "SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region"
MEAN = "SELECT AVG(age) FROM people WHERE region = 'north'"
# All that can charge something, where a request may allow all of the budget: its address and its body.
PAYING: dict[str, tuple[str, dict[str, Any]]] = {
    "a question": (ASK, {"where": PAIR, "at_most": 1}),
    "a statement": (ASK, {"sql": GROUPS, "at_most": 1}),
    "a mean": (ASK, {"sql": MEAN, "at_most": 1}),
    "an aggregate": (ASK, {"aggregate": {"kind": "count", "by": ["sex", "region"]}, "at_most": 1}),
    "several": (ASK, {"queries": [{"where": PAIR}, {"sql": GROUPS}], "at_most": 1}),
    "a bar": (ASK, {"where": PAIR, "within": 40, "at_most": 1}),
    "bars": (ASK, {"sql": GROUPS, "within": 40, "at_most": 1}),
    "the bar of a mean": (ASK, {"sql": MEAN, "within": 2, "at_most": 1}),
    "a table of counts": (MEASURE, {"scope": ["sex", "region"], "at_most": 1}),
    "questions themselves": (MEASURE, {"questions": [PAIR], "within": 40, "at_most": 1}),
    "questions for a share": (MEASURE, {"questions": [PAIR], "share": 0.05}),
    "sums": (MEASURE, {"sum": "age", "scope": ["region"], "share": 0.05}),
}
ON_THE_PAGE = [{"q": PAIR}, {"q": GROUPS}, {"q": PAIR, "within": "40"}, {"q": MEAN, "within": "2"}]

Spent = Callable[[], Fraction]


@pytest.fixture
def spent(service: Service) -> Spent:
    """Return what was charged to the session, exactly."""
    session = service.hosted(service.users.listed()[0], "study").session
    return lambda: session.state.ledger.spent


def test_no_request_raises_a_ceiling_and_one_of_0_pays_nothing(
    client: TestClient, add: Any, spent: Spent
) -> None:
    poor, ann = add("poor", "1/2", at_most=Fraction(0)), add("ann", "1/2", at_most=Fraction(1, 10**4))
    before = spent()
    for kind, (address, body) in PAYING.items():
        refused = client.post(address, json=body, headers=poor)
        assert refused.status_code in (200, 403), kind
        if refused.status_code == 403:
            assert refused.json()["error"]["code"] in ("above_ceiling", "budget_exhausted"), kind
        refused = client.post(address, json=body, headers=ann)
        assert refused.status_code == (200 if kind == "several" else 403), (kind, refused.text)
        found = refused.json()
        errors = [one["error"] for one in found["answers"]] if kind == "several" else [found["error"]]
        assert {error["code"] for error in errors} == {"above_ceiling"}, kind
        assert all(error["price"] > 1e-4 for error in errors), kind
        assert all("your ceiling for one question is 0.01%" in error["message"] for error in errors), kind
    for asked in ON_THE_PAGE:
        assert client.post(PAGE, data={**asked, "price": "1"}, headers=poor).status_code < 500, asked
    assert spent() == before


def test_a_changed_ceiling_holds_from_the_next_request_on(
    client: TestClient, add: Any, service: Service, spent: Spent
) -> None:
    ann, before = add("ann", "1/2"), spent()
    service.users.change("ann", lambda user: replace(user, at_most=Fraction(1, 10**4)))
    refused = client.post(ASK, json={"where": PAIR, "at_most": 1}, headers=ann)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "above_ceiling")
    assert client.get("/sessions", headers=ann).json()["at_most"] == 1e-4
    assert "One question may charge at most 0.01%." in client.get("/page/study", headers=ann).text
    page = client.post(PAGE, data={"q": PAIR, "price": "1"}, headers=ann).text
    assert "your ceiling for one question is 0.01%" in page
    assert "Pay, and answer" not in page
    cat = add("cat", 1, role=Role.CUSTODIAN)
    assert "0.010%" in client.get("/page/study/custodian", headers=cat).text
    assert spent() == before
    service.users.change("ann", lambda user: replace(user, at_most=None))
    assert client.get("/sessions", headers=ann).json()["at_most"] is None
    assert client.post(ASK, json={"where": PAIR, "at_most": 1}, headers=ann).status_code == 200
    booked = client.get("/sessions/study/you", headers=ann).json()
    service.users.change("ann", lambda user: replace(user, share=Fraction(0)))
    after = client.get("/sessions/study/you", headers=ann).json()
    assert after["spent"] == booked["spent"] > 0
    assert (after["share"], after["left"]) == (0, 0)


def test_a_client_knows_a_ceiling_from_a_price_and_asks_for_no_yes(
    client: TestClient, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = add("ann", "1/2", at_most=Fraction(1, 10**4))
    refused = client.post(ASK, json={"where": PAIR}, headers=ann)
    error = _refusal(refused.status_code, refused.content)
    assert isinstance(error, PriceError)
    assert (error.code, error.price) == ("above_ceiling", refused.json()["error"]["price"])
    monkeypatch.setattr("pmw.cli.answering.agrees", lambda price: pytest.fail(f"asked to pay {price}"))

    def ask(at_most: object) -> None:
        raise error

    with pytest.raises(PriceError) as told:
        paid(cast("Asking", None), None, ask)
    assert told.value is error
