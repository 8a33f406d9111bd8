"""``pmw user`` and ``pmw serve``, as commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pmw.cli import main
from pmw.service.users import UsersFile

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, list(words))


ADD = ("user", "add", "ann", "--users", "users.json")


def test_a_token_stands_alone_on_standard_output(run: Run) -> None:
    added = run(*ADD, "--share", "1/5", "--sessions", "a,b", "--expires", "2099-12-31")
    assert added.exit_code == 0, added.output
    (token,) = added.stdout.splitlines()
    user = UsersFile(Path("users.json")).find(token)
    assert user is not None
    assert (str(user.share), user.sessions, str(user.expires)) == ("1/5", ("a", "b"), "2099-12-31")
    rotated = run("user", "rotate", "ann", "--users", "users.json").stdout.strip()
    assert rotated not in (token, "")
    assert "revoked" not in run("user", "list", "--users", "users.json").stdout
    run("user", "revoke", "ann", "--users", "users.json")
    listed = run("user", "list", "--users", "users.json", "--json").stdout
    assert json.loads(listed)["users"][0]["revoked"]
    assert rotated not in listed


@pytest.mark.parametrize("share", ["-0.1", "1.1", "nan", "inf", "x", "1/0", "1e999999999"])
def test_a_share_is_a_part(run: Run, share: str) -> None:
    refused = run(*ADD, "--share", share)
    assert refused.exit_code == 2
    assert "expected a number from 0 to 1" in refused.stderr
    assert not Path("users.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--share", "0.2", "--sessions", ","), "expected names of sessions"),
        (("--share", "0.2", "--expires", "tomorrow"), "does not match"),
        (("--share", "0.2", "--role", "king"), "is not one of"),
    ],
)
def test_what_no_user_can_have_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    refused = run(*ADD, *words)
    assert refused.exit_code == 2
    assert told in refused.stderr


def test_a_name_is_taken_once(run: Run) -> None:
    assert run(*ADD, "--role", "reader").exit_code == 0
    again = run(*ADD, "--role", "custodian")
    assert again.exit_code == 1
    assert "is a user already" in again.stderr


@pytest.mark.parametrize("content", ['{"format": 1, "users": [{"share": "1/0"}]}', "[" * 100_000, "share"])
def test_a_damaged_file_gets_one_line(run: Run, content: str) -> None:
    run(*ADD, "--role", "reader")
    if content == "share":
        content = Path("users.json").read_text().replace('"share": "0"', '"share": "1/0"')
        assert "1/0" in content
    Path("users.json").write_text(content)
    for words in (
        ("list",),
        ("list", "--json"),
        ("revoke", "ann"),
        ("rotate", "ann"),
        ("add", "b", "--share", "1"),
    ):
        refused = run("user", *words, "--users", "users.json")
        assert refused.exit_code == 1, refused.output
        assert isinstance(refused.exception, SystemExit)
        (line,) = refused.stderr.splitlines()
        assert line.startswith("Error: users.json: ")
    assert Path("users.json").read_text() == content


def test_names_of_other_scripts_are_said_and_mixed_ones_refused(run: Run) -> None:
    mixed = run("user", "add", "\u0410nn", "--share", "1", "--users", "users.json")
    assert mixed.exit_code == 1
    assert "'\\u0410nn' in CYRILLIC and LATIN" in mixed.stderr
    assert not Path("users.json").exists()
    other = run("user", "add", "\u0410\u043d\u043d", "--share", "1", "--users", "users.json")
    assert "CYRILLIC" in other.stderr
    assert len(other.stdout.split()) == 1
    latin = run("user", "add", "Ren\u00e9", "--share", "1", "--users", "users.json")
    assert latin.stderr == ""


def test_what_cannot_be_served_is_refused(run: Run, study: Path) -> None:
    assert run(*ADD, "--role", "reader").exit_code == 0
    serve = ("serve", str(study), "--users", "users.json", "--port", "0")
    Path("users.json").chmod(0o644)
    assert "chmod 600" in run(*serve).stderr
    Path("users.json").chmod(0o600)
    assert "same name" in run(*serve, "elsewhere/study.pmw").stderr
    assert "cannot listen" in run(*serve, "--host", "192.0.2.1").stderr
    assert run("serve", "none.pmw", *serve[2:]).exit_code in (1, 5)
