"""The programs of ``docs/other-languages.md``, each against a service: they print what Python gets."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import pmw
from pmw.service.users import Role, User, UsersFile
from queries import QueryError
from tests.pmw.service.studies import opened_study
from tests.pmw.service.test_client import Running

PAGE = (Path(__file__).parents[3] / "docs" / "other-languages.md").read_text()
WHERE = "age >= 30"
SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
NUMBER = r"(?<!\w)\d+(?:\.\d+)?(?!\w)"


def program(language: str) -> str:
    """Return all that the page has in a language."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a service and a token."""
    folder = tmp_path_factory.mktemp("served")
    users = UsersFile(folder / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction("1/2")))
    service = Running(opened_study(folder), users.path)
    yield service.url, token
    service.end()
    assert token not in "".join(service.log)


@pytest.fixture
def numbers(asked: tuple[str, str]) -> list[float]:
    """The numbers that every program prints, in order: of a count, then of a statement's rows."""
    url, token = asked
    with pmw.connect(url, token=token) as session:
        answer, rows = session.ask(WHERE).to_dict(), session.sql(SQL).to_dict()["rows"]
    told = (row["n"][key] for row in rows for key in ("value", "low", "high"))
    return [answer["count"], *answer["interval"], *told]


def run(command: list[str], asked: tuple[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    url, token = asked
    return subprocess.run(
        [part.replace("http://127.0.0.1:8000", url) for part in command],
        cwd=folder,
        env={**os.environ, "TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def printed(command: list[str], asked: tuple[str, str], folder: Path) -> str:
    """Return what a program prints that does what it is told."""
    ran = run(command, asked, folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(NUMBER, text)]


def test_every_program_takes_its_token_from_the_environment() -> None:
    for language in ("r", "js", "sh"):
        assert {part for part in ("TOKEN", WHERE, SQL) if part not in program(language)} == set()
    assert len([line for line in program("r").splitlines() if line]) <= 20


@pytest.fixture
def curl() -> None:
    needed("curl")


@pytest.fixture
def node() -> None:
    needed("node")


@pytest.fixture
def r() -> None:
    needed("Rscript")
    for package in ("httr2", "jsonlite"):
        asked = ["Rscript", "-e", f"quit(status = !requireNamespace('{package}', quietly = TRUE))"]
        if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
            pytest.skip(f"R has no package {package}")


def needed(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")


def refused(command: list[str], asked: tuple[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that asks for an attribute which nobody declared, and see that this costs nothing."""
    url, token = asked
    with pmw.connect(url, token=token) as session:
        before = session.budget()
        ran = run([part.replace(WHERE, "height > 3") for part in command], asked, folder)
        assert session.budget() == before  # what is spent, and how many questions
        with pytest.raises(QueryError) as told:
            session.ask("height > 3")
    assert str(told.value).startswith("unknown attribute 'height'")
    assert str(told.value) in ran.stdout + ran.stderr
    return ran


@pytest.mark.usefixtures("curl")
def test_curl(asked: tuple[str, str], numbers: list[float], tmp_path: Path) -> None:
    lines = re.findall(r"^curl .*$", program("sh"), re.MULTILINE)
    assert len(lines) == 3
    schema, answer, found = (json.loads(printed(["sh", "-c", line], asked, tmp_path)) for line in lines)
    assert [one["name"] for one in schema["attributes"]] == ["age", "sex", "region", "member"]
    rows = [row["n"][key] for row in found["rows"] for key in ("value", "low", "high")]
    assert [answer["count"], *answer["interval"], *rows] == numbers


@pytest.mark.usefixtures("curl")
def test_curl_takes_its_header_from_a_file(asked: tuple[str, str], tmp_path: Path) -> None:
    assert "`-H @header.txt`" in PAGE
    (tmp_path / "header.txt").write_text(f"Authorization: Bearer {asked[1]}\n")
    command = ["curl", "-sS", "-H", "@header.txt", "http://127.0.0.1:8000/sessions/study/schema"]
    assert json.loads(printed(command, asked, tmp_path))["name"] == "people"


@pytest.mark.usefixtures("curl")
def test_curl_is_told_of_a_refusal(asked: tuple[str, str], tmp_path: Path) -> None:
    (line,) = (line for line in program("sh").splitlines() if WHERE in line)
    ran = refused(["sh", "-c", line], asked, tmp_path)
    assert json.loads(ran.stdout)["error"]["code"] == "unknown_attribute"


@pytest.mark.usefixtures("node")
def test_javascript(asked: tuple[str, str], numbers: list[float], tmp_path: Path) -> None:
    told = printed(["node", "-e", program("js")], asked, tmp_path)
    assert told.startswith("age sex region member\n")
    assert numbers_in(told) == numbers


@pytest.mark.usefixtures("node")
def test_javascript_tells_a_refusal(asked: tuple[str, str], tmp_path: Path) -> None:
    assert refused(["node", "-e", program("js")], asked, tmp_path).returncode == 1


@pytest.mark.usefixtures("r")
def test_r(asked: tuple[str, str], numbers: list[float], tmp_path: Path) -> None:
    told = printed(["Rscript", "-e", "options(digits = 15)", "-e", program("r")], asked, tmp_path)
    told_of = program("text").splitlines()
    names, count, columns, *rows = told.splitlines()
    assert [names.split(), columns.split()] == [told_of[0].split(), told_of[2].split()]
    assert re.sub(NUMBER, "", count).split() == re.sub(NUMBER, "", told_of[1]).split() == ["between", "and"]
    assert [row.split()[1] for row in rows] == [row.split()[1] for row in told_of[3:]]
    assert numbers_in(count) == pytest.approx(numbers[:3])
    assert [number for row in rows for number in numbers_in(row)[-3:]] == pytest.approx(numbers[3:])


@pytest.mark.usefixtures("r")
def test_r_tells_a_refusal(asked: tuple[str, str], tmp_path: Path) -> None:
    assert refused(["Rscript", "-e", program("r")], asked, tmp_path).returncode == 1
