"""Mutants are told by what tests make of them: only what fails because of one line kills it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import mutants
from benchmarks.mutants import MUTANTS, Mutant

CODE = "def doubled(number: int) -> int:\n    return 2 * number\n\n\ndef two() -> int:\n    return 2\n"
TESTS = """
import os, sys
from m import doubled

def test_it_doubles():
    assert doubled(3) == 6
    assert os.environ["PYTHONPATH"] == os.getcwd() and sys.dont_write_bytecode
"""
READY = """
import pytest
from m import doubled

@pytest.fixture
def six():
    assert doubled(3) == 6

def test_six(six):
    pass
"""
OLD, NEW = "return 2 * number", "return 3 * number"
TRIED = {
    "killed": Mutant("wrong", "m", OLD, NEW, "test_m"),
    "survived": Mutant("the same", "m", OLD, "return number * 2", "test_m folder"),
    "not found": Mutant("there twice", "m", "return 2", "return 3", "test_m"),
    "broken": Mutant("always wrong", "m", OLD, NEW, "test_wrong"),
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    (root / "tests" / "folder").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "m.py").write_text(CODE)
    (root / "tests" / "test_m.py").write_text(TESTS)
    (root / "tests" / "test_ready.py").write_text(READY)
    (root / "tests" / "folder" / "test_n.py").write_text("def test_nothing():\n    pass\n")
    (root / "tests" / "test_wrong.py").write_text("def test_wrong():\n    assert False\n")
    monkeypatch.setattr(mutants, "_ROOT", root)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # tests start sooner so
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")  # which knows -n
    return root


def test_each_mutant_has_the_outcome_that_its_tests_give_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = [*TRIED.items(), ("killed", Mutant("where a test is made ready", "m", OLD, NEW, "test_ready"))]
    monkeypatch.setattr(mutants, "MUTANTS", tuple(one for _, one in tried))
    monkeypatch.setattr("sys.argv", ["mutants", "--workers", "2"])
    with pytest.raises(SystemExit) as ended:
        mutants.main()
    *lines, counts = map(json.loads, capsys.readouterr().out.splitlines())
    lines.sort(key=lambda line: line["mutant"])
    assert [line["outcome"] for line in lines] == [outcome for outcome, _ in tried]
    assert lines[0]["told"] == "tests/test_m.py::test_it_doubles"
    assert lines[2]["told"] == "its text stands 2 times in m"
    assert lines[-1]["told"] == "tests/test_ready.py::test_six"
    assert counts == {"mutants": 5, "killed": 2, "survived": 1, "not found": 1, "broken": 1}
    assert ended.value.code == 1
    assert (checkout / "m.py").read_text() == CODE


def test_tests_that_take_too_long_are_ended(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "_LIMIT", 0.01)
    monkeypatch.setattr(mutants, "MUTANTS", (TRIED["killed"],))
    (line,) = mutants.tried([0], [mutants.Copy(checkout.parent / "copy")])
    assert (line["outcome"], line["told"]) == ("hung", "past 0.01 seconds")


def test_every_mutant_finds_its_line_and_its_tests() -> None:
    root = Path(mutants.__file__).parent.parent
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    for one in MUTANTS:
        assert (root / f"{one.file}.py").read_text().count(one.old) == 1, one.name
        for place in one.tests.split():
            tests, _, name = place.partition("::")
            folder = root / "tests" / tests
            assert folder.is_dir() or f"def {name}" in folder.with_suffix(".py").read_text(), one.name
