"""What is released: one version everywhere, texts that stand alone, and a script that refuses the rest."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from pmw.cli import main

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
CITATION = (ROOT / "CITATION.cff").read_text()
ELSEWHERE = re.compile(r"\]\((?!https://)")  # a link to a file


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TEXTS = script("published_texts")


def cited(key: str) -> str:
    """Return what CITATION.cff says of the software itself, in one line."""
    (value,) = re.findall(rf"^{key}: (.*)$", CITATION, re.MULTILINE)
    return str(value)


def test_the_citation_and_the_changelog_name_the_version_of_the_project() -> None:
    newest = re.search(r"^## (\S+), (\S+)$", CHANGELOG, re.MULTILINE)
    assert newest is not None
    assert (newest[1], cited("version")) == (PROJECT["version"], PROJECT["version"])
    assert newest[2] in ("unreleased", cited("date-released"))
    assert cited("license") == PROJECT["license"]
    assert [{"name": name} for name in re.findall(r"^  - name: (.*)$", CITATION, re.MULTILINE)] == PROJECT[
        "authors"
    ]


def test_the_continuous_integration_runs_each_python_that_is_named_and_the_lowest_pandas() -> None:
    named = re.findall(r"Python :: (3\.\d+)'", str(PROJECT["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.findall(r"^ +(3\.\d+)$", workflow, re.MULTILINE) == named
    assert f">={named[0]}" == PROJECT["requires-python"]
    assert "- run: .ci/run" in workflow
    lowest = dict(re.findall(r"--with (\w+)==([\d.]+)", (ROOT / ".ci" / "run").read_text()))
    assert list(lowest) == ["pandas", "numpy", "scipy"]
    for name, version in lowest.items():
        (bound,) = (one.removeprefix(f"{name}>=") for one in PROJECT["dependencies"] if one.startswith(name))
        assert version.startswith(f"{bound}.")


def test_the_page_of_dependencies_has_each_of_them_with_its_bounds() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| (\w+) ≥ ([\d.]+)(?:, < (\d+))? \|", page, re.MULTILINE)
    assert [f"{name}>={least}{most and ',<' + most}" for name, least, most in rows] == PROJECT["dependencies"]
    extras = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    named = [name for row in extras for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(PROJECT["optional-dependencies"])


def test_the_long_description_leads_to_no_file_beside_it() -> None:
    readme = (ROOT / "README.md").read_text()
    shown = TEXTS.long_description(readme)
    assert ELSEWHERE.search(readme)
    assert not ELSEWHERE.search(shown)
    assert re.findall(r"^#.*$", shown, re.MULTILINE) == re.findall(r"^#.*$", readme, re.MULTILINE)
    assert re.findall(r"```.*?```", shown, re.DOTALL) == re.findall(r"```.*?```", readme, re.DOTALL)
    assert re.findall(r"https://[^)\s]+", shown) == re.findall(r"https://[^)\s]+", readme)


def test_a_picture_goes_with_the_line_below_it_and_a_link_becomes_its_words() -> None:
    text = "one\n\n![a](docs/a.png)\n\n*what it\nshows*\n\nsee [the\npage](docs/b.md#c), [q](https://q.example)\n"
    assert TEXTS.standing_alone(text) == "one\n\nsee the\npage, [q](https://q.example)\n"
    kept = "![a](https://a.example/a.png)\n\n*what*\n"
    assert TEXTS.standing_alone(kept) == kept


def test_notes_are_those_of_one_version_with_a_date() -> None:
    log = "# Changelog\n\n## 1.1, 2030-01-02\n\n### Added\n\n- [x](y.md)\n\n## 1.0, 2029-01-01\n\n- old\n"
    assert TEXTS.release_notes(log, "1.1") == "### Added\n\n- x\n"
    assert TEXTS.release_notes(log, "1.0") == "- old\n"
    for version in ("1", "1x1", "2.0"):
        with pytest.raises(ValueError, match="expected a heading"):
            TEXTS.release_notes(log, version)
    with pytest.raises(ValueError, match=re.escape("'## 1.1, YYYY-MM-DD'")):
        TEXTS.release_notes(log.replace("2030-01-02", "unreleased"), "1.1")


NAMING_A_VERSION = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with what the script reads before it builds."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/release", "scripts/published_texts.py", *NAMING_A_VERSION):
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@a.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")


def refusal(folder: Path) -> str:
    """Return what the script says that ends before it builds."""
    done = subprocess.run(
        ["bash", "scripts/release", sys.executable],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == "== the tree and its version\n"
    assert not (folder / "dist").exists()
    return done.stderr


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_release_is_refused_that_is_not_committed_or_names_another_version(checkout: Path) -> None:
    (checkout / "new.py").write_text("")
    assert "what is released is what is committed" in (told := refusal(checkout))
    assert "new.py" in told
    (checkout / "new.py").unlink()

    citation = (checkout / "CITATION.cff").read_text()
    (checkout / "CITATION.cff").write_text(
        citation.replace(f"\nversion: {PROJECT['version']}", "\nversion: 9")
    )
    commit(checkout)
    assert "CITATION.cff names another version" in refusal(checkout)

    (checkout / "CITATION.cff").write_text(citation)
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## 9.0, unreleased\n")
    (checkout / ".gitignore").write_text("build/\n")
    commit(checkout)
    assert "CHANGELOG.md: expected a heading" in refusal(checkout)

    (checkout / "CHANGELOG.md").write_text(CHANGELOG)
    git(checkout, "tag", f"v{PROJECT['version']}")  # of the commit before this one
    commit(checkout)
    assert "is another commit; raise the version" in refusal(checkout)


# --- containerfile --------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """Return the instructions, each with its arguments in one line."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def last(word: str) -> str:
    return [rest for one, rest in instructions() if one == word][-1]


def test_the_service_runs_as_nobody_special_with_compiled_code() -> None:
    order = [word for word, _ in instructions()]
    assert int(last("USER")) >= 1000
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert order[order.index("USER") :].count("RUN") == 0  # nothing is made as that user
    assert any("compileall" in rest for word, rest in instructions() if word == "RUN")
    assert "PYTHONDONTWRITEBYTECODE=1" in last("ENV")


def test_what_it_starts_is_a_command_of_ours_with_options_that_there_are() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["pmw"]
    name, *arguments = json.loads(last("CMD"))
    context = click.Context(main, **main.context_settings)
    command = main.get_command(context, name)
    assert command is not None
    parsed = command.make_context(name, arguments, parent=context).params
    assert (str(parsed["sessions"][0]), parsed["port"]) == (last("WORKDIR"), int(last("EXPOSE")))
    assert parsed["users"].parent == parsed["audit"].parent == Path(last("VOLUME"))
    assert f"127.0.0.1:{parsed['port']}/ready" in last("HEALTHCHECK")


def test_no_table_session_or_token_of_a_checkout_goes_into_the_image() -> None:
    first, *kept = (ROOT / ".containerignore").read_text().split()
    assert first == "*"
    allowed = [one.removeprefix("!") for one in kept if one.startswith("!")]
    assert all((ROOT / one).exists() for one in allowed)
    for name in ("study.pmw", "users.json", "people.csv", ".git", "audit.jsonl"):
        assert not any(fnmatch.fnmatch(name, one) for one in allowed)


# --- build browser --------------------------------------------------------------------------------------


def test_a_folder_is_replaced_once_all_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_folder = script("build_browser").replace_folder
    old, new = tmp_path / "runtime", tmp_path / "made"
    for folder, name in ((old, "old.js"), (new, "new.js")):
        folder.mkdir()
        (folder / name).write_text(name)
    real = shutil.copytree

    def cut_off(source: Path, target: Path, **given: Any) -> None:
        real(source, target, **given)
        raise OSError("the disk is full")

    monkeypatch.setattr(shutil, "copytree", cut_off)
    with pytest.raises(SystemExit, match="the disk is full"):
        replace_folder(old, new)
    assert [path.name for path in tmp_path.rglob("*.js") if new not in path.parents] == ["old.js"]
    monkeypatch.undo()
    replace_folder(old, new)
    assert [path.name for path in old.iterdir()] == ["new.js"]
    assert not (tmp_path / "runtime.new").exists()
