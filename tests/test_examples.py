"""The examples: short, on the public surface alone, and they run."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def prints_what_it_always_printed(printed: str, folder: Path) -> None:
    lines = printed.splitlines()
    assert lines[0].split() == ["question", "model", "outcome", "answer", "model", "after", "true"]
    assert len(lines) == 11
    assert sum("above" in line for line in lines) == int(lines[-1].split()[0])
    assert "of 12 positives" in lines[-1]


def compares_three_methods_and_draws_them(printed: str, folder: Path) -> None:
    _, *methods = printed.splitlines()
    errors = [[float(word) for word in line[24:].split()] for line in methods]
    assert len(errors) == 3
    assert all(len(found) == 4 and found[0] > 5 * found[-1] for found in errors)
    assert not PLOTS or (folder / "errors.png").read_bytes().startswith(b"\x89PNG")


def prints_sentences_and_tables_no_reprs(printed: str, folder: Path) -> None:
    for mark in ("dtype", "[(", "Session(", "OfflineRelease("):
        assert mark not in printed
    assert re.search(r"\d\.\d{5}", printed) is None


PLOTS = find_spec("matplotlib") is not None
OPTIONS = {"privacy_accuracy.py": ["--plot", "errors.png"] if PLOTS else []}
LONG = ("first_hour.py", "privacy_accuracy.py")  # two seconds each
SHORTER = {"privacy_accuracy.py": ("Targets.QUERY, 40,", "Targets.QUERY, 20,")}  # rounds of MWEM
# What is seen in the prints of some: an example is run once.
SEEN: dict[str, Callable[[str, Path], None]] = {
    "known_workload.py": prints_sentences_and_tables_no_reprs,
    "own_table.py": prints_sentences_and_tables_no_reprs,
    "privacy_accuracy.py": compares_three_methods_and_draws_them,
    "textbook_loop.py": prints_what_it_always_printed,
}


Ran = Callable[..., str]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    """Return what runs an example in an empty folder, and returns what it prints."""

    def run(path: Path, *options: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [str(path), *options])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run


# Those of the literature's tables are run in tests/test_docs_commands.py.
LITERATURE = (ROOT / "docs" / "literature.md").read_text()
ALONE = [path for path in EXAMPLES if path.name in SEEN or f"python examples/{path.name}" not in LITERATURE]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.name in LONG), id=path.name) for path in ALONE],
)
def test_an_example_runs(path: Path, tmp_path: Path, ran: Ran) -> None:
    if path.name in SHORTER:
        assert path.read_text().count(SHORTER[path.name][0]) == 1
        text, path = path.read_text().replace(*SHORTER[path.name]), tmp_path / path.name
        path.write_text(text)
    printed = ran(path, *OPTIONS.get(path.name, []))
    assert printed.strip()
    if path.name in SEEN:
        SEEN[path.name](printed, tmp_path)


def test_what_is_seen_in_the_prints_is_of_examples_that_there_are() -> None:
    assert {*SEEN, *OPTIONS} <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short_and_uses_the_public_surface(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < 60
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.module not in ("pmw", "queries") or node.level == 0
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not any(name.startswith(("pmw.", "queries.")) for name in names), path
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")


def test_the_clipping_example_reads_a_table_and_draws_both_pictures(tmp_path: Path, ran: Ran) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    rows = "\n".join(f"{age},x" for age in list(range(91)) * 20)
    (tmp_path / "people.csv").write_text(f"age,name\n{rows}\n")
    options = ["--csv", "people.csv", "--column", "age", "--seed", "1", "--plot", "new/pictures"]
    lines = ran(ROOT / "examples" / "clipping_bound.py", *options).splitlines()
    assert lines[0].startswith("1,820 values of age, the largest 90")
    prices = [float(line.split()[-1].replace(",", "")) for line in lines[3:7]]
    assert prices == [3.0, 14.9, 3000.0, 2.1]  # of the naive way
    assert lines[-1].startswith("AboveThreshold costs 0.1 on every line")
    for name in ("change.png", "chosen.png"):
        assert (tmp_path / "new" / "pictures" / name).read_bytes().startswith(b"\x89PNG")


def chapter(ran: Ran, *options: str) -> dict[str, list[str]]:
    """Return what the chapter's example prints: the words behind each thing it names."""
    lines = ran(ROOT / "examples" / "textbook_chapter.py", *options).splitlines()
    return {line[:45].strip(): line[45:].split() for line in lines}


def test_the_chapters_example_reads_the_first_rows_of_a_table(tmp_path: Path, ran: Ran) -> None:
    rows = "\n".join(f"{age},{10 * age}" for age in [*range(20, 91), 1_000, 1_000])
    (tmp_path / "people.csv").write_text(f"age,capital-gain\n{rows}\n")
    printed = chapter(ran, "--csv", str(tmp_path / "people.csv"), "--rows", "71", "--seed", "1")
    assert "71 people, people.csv" in printed
    assert printed["age_sum_query, clipped at 30"][0] == f"{sum(range(20, 30)) + 61 * 30:,}"
    assert printed["auto_avg of Age"][1] == "55.00"
    assert printed["auto_avg of Capital Gain"][1] == "550.00"
    assert 0 < float(printed["auto_avg of Age"][0]) < 150
