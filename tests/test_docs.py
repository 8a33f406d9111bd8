"""The documents: commands, links and examples in them are true."""

from __future__ import annotations

import importlib
import re
import runpy
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from pmw.cli.main import main
from pmw.planning.opening import LARGEST_OPENING_SHARE, MARGINAL_OPENING_SHARE, OPENING_SHARE, TREE_SHARE
from pmw.session.model_file import FORMAT_VERSION

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "proofs"),
]
PROOFS = sorted((ROOT / "docs" / "proofs").glob("*.md"))
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs" / "tour.md").read_text()


def headings(text: str) -> set[str]:
    """Return the names by which links reach the headings of a page."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "path", [*DOCUMENTS, *PROOFS, ROOT / "benchmarks" / "README.md"], ids=lambda path: path.name
)
def test_links_lead_somewhere_and_those_to_a_heading_find_it(path: Path) -> None:
    text = path.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (path.parent / target).exists(), f"{path.name}: {target}"
    for target, name in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
        page = path.parent / target if target else path
        assert name in headings(page.read_text()), f"{path.name}: {target}#{name}"


def test_every_command_is_in_the_tour_and_every_one_there_exists() -> None:
    commands = set(main.list_commands(None))  # type: ignore[arg-type]  # the list needs no context
    told = set(re.findall(r"`pmw ([a-z]+)`", TOUR))
    assert not commands - told, f"docs/tour.md names no command of {sorted(commands - told)}"
    named = {
        match
        for path in DOCUMENTS
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL)
        for match in re.findall(
            r"^(?:\.venv/bin/|uv run (?:--extra demo )?)?pmw ([a-z]+)", block, re.MULTILINE
        )
    }
    assert named <= commands


def test_every_option_in_the_documents_exists() -> None:
    from click import Context, Group

    context = Context(main)
    known = {"--help", "--version", "--extra", "--data-dir", "--directory"}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        own = list(command.commands.values()) if isinstance(command, Group) else []
        for one in (command, *own):
            known |= {option for parameter in one.params for option in parameter.opts}
    for path in (
        path for folder in ("examples", "benchmarks", "scripts") for path in (ROOT / folder).glob("*.py")
    ):
        known |= set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', path.read_text()))
    for path in DOCUMENTS:
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text()):
            assert option in known, f"{path.name}: {option}"


def test_the_readme_is_short_and_its_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(README.splitlines()) < 130
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "people.py"), run_name="__main__")
    capsys.readouterr()
    (tmp_path / "program.py").write_text(program)
    assert len(runpy.run_path(str(tmp_path / "program.py"))["synthetic"]) == 40_000
    assert re.fullmatch(r"[\d.]+ \([\d.]+, [\d.]+\)\n", capsys.readouterr().out)


def test_the_page_on_architecture_names_what_there_is() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert len(page.splitlines()) <= 95
    places = set(re.findall(r"`((?:pmw|queries|tests)/[\w/.]*)`", page))
    assert len(places) > 20
    assert [place for place in sorted(places) if not (ROOT / place).exists()] == []
    code = "\n".join(path.read_text() for room in ("pmw", "queries") for path in (ROOT / room).rglob("*.py"))
    named = re.findall(r"`(?:[A-Z]\w+\.)?([a-z_]+)`", page)
    assert {"propose", "draw_tests", "settle", "counts"} <= set(named)
    assert [name for name in named if f"def {name}(" not in code] == []
    listed = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert listed is not None
    folders = re.findall(r"^  (\w+)/", listed[1], re.MULTILINE)
    assert set(folders) == {path.name for path in (ROOT / "pmw").iterdir() if (path / "__init__.py").exists()}


def test_files_named_in_the_documents_exist() -> None:
    for path in DOCUMENTS:
        for name in re.findall(
            r"`((?:tests|benchmarks|examples|docs|scripts|\.ci)/[\w/.-]+)`", path.read_text()
        ):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_the_table_of_what_a_kind_of_attribute_touches_is_complete() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    told = re.findall(r"^\| `([\w/]+\.py)` \|", page, re.MULTILINE)
    named = {
        str(path.relative_to(ROOT))
        for folder in ("pmw", "queries")
        for path in (ROOT / folder).rglob("*.py")
        if "DatetimeAttribute" in path.read_text()
    }
    assert set(told) == named - {"queries/dates.py"}  # the example itself


def test_names_in_the_tables_of_notation_and_of_the_literature_exist() -> None:
    words = set[str]()
    for folder in ("pmw", "queries", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            words |= set(re.findall(r"\w+", path.read_text()))
    cells = [(ROOT / "docs" / "notation.md").read_text()]
    for line in (ROOT / "docs" / "literature.md").read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| --"):
            cells.append(re.sub(r"`--[a-z-]+`", "", line.split("|")[2]))
    for cell in cells:
        for name in re.findall(r"`([^`]+)`", cell):
            assert set(re.findall(r"[A-Za-z_]\w+", name)) <= words, name


def test_names_of_the_literature_are_imported_from_where_it_says() -> None:
    page = (ROOT / "docs" / "literature.md").read_text()
    listed = page[page.index("Names are imported from:") :].partition("\n## ")[0]
    found = re.findall(r"^- `([\w.]+)`: ([^-]+)", listed, re.MULTILINE)
    assert len(found) >= 12
    for module, names in found:
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_each_algorithm_of_the_sparse_vector_page_is_imported_from_where_it_says() -> None:
    page = (ROOT / "docs" / "sparse-vector.md").read_text()
    table = page[page.index("| algorithm |") :].partition("\n\n")[0].splitlines()
    found = [(line.split(" | ")[1], line.split(" | ")[2].strip("`")) for line in table[2:]]
    assert len(found) >= 12
    for names, module in found:
        for name in re.findall(r"`([\w.]+)`", names):
            first, *rest = name.split(".")
            assert first in vars(importlib.import_module(module)), f"{module} has no {first}"
            assert all(hasattr(getattr(importlib.import_module(module), first), one) for one in rest), name


def test_shares_of_the_opening_are_those_of_the_code() -> None:
    page = " ".join((ROOT / "docs" / "algorithm.md").read_text().split())
    (told,) = re.findall(r"the attributes get (\d+) % instead of (\d+) %", page)
    assert [Fraction(int(share), 100) for share in told] == [MARGINAL_OPENING_SHARE, OPENING_SHARE]
    (trees,) = re.findall(r"share the (\d+) %, (\d+) % more for each tree and at most (\d+) %", page)
    expected = [OPENING_SHARE, TREE_SHARE, LARGEST_OPENING_SHARE]
    assert [Fraction(int(share), 100) for share in trees] == expected


def test_what_is_to_be_installed_can_be() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = [path.read_text() for path in (ROOT / "pmw").rglob("*.py")]
    texts = [*(path.read_text() for path in DOCUMENTS if path.name != "CHANGELOG.md"), *code]
    assert [
        text[:80] for text in texts if re.search(r"pip install\s+'?online-pmw", text)
    ] == []  # on no index
    named = {
        extra
        for text in texts
        for listed in re.findall(r"'\.\[([a-z,]+)\]'|installed_by\('([a-z]+)'\)", text)
        for extra in "".join(listed).split(",")
    }
    assert {"plots", "shell", "service", "sources", "spark", "demo"} <= named <= set(extras)


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.name)
def test_a_proof_and_its_tests_name_each_other(path: Path) -> None:
    text = path.read_text()
    (place,) = set(re.findall(r"`(tests/[\w/]+_proof\.py)`", text))
    tests = (ROOT / place).read_text()
    named = set(re.findall(r"\btest_\w+", re.sub(r"`[^`]*`", "", text)))
    modules = (one.read_text() for one in (ROOT / "tests" / "pmw").rglob("test_*.py"))
    defined = {name for module in modules for name in re.findall(r"^def (test_\w+)", module, re.MULTILINE)}
    assert named
    assert named <= defined
    assert f"docs/proofs/{path.name}" in tests
    numbered = set(re.findall(r"^    .*\((\d+)\)$", text, re.MULTILINE))
    assert {number for number in numbered if f"({number})" not in tests} == set()


def test_the_page_of_operations_names_the_format_of_a_model() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text()
    assert re.findall(r"`format_version` \((\d+)\)", operations) == [str(FORMAT_VERSION)]


def test_the_continuous_integration_runs_the_documented_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text().replace('"', "'")
    shown = re.findall(r"^(?:uv run|\.venv/bin/).*?(?=\s+#|$)", README, re.MULTILINE)
    assert len(shown) == 5
    assert [command for command in [*shown, "uv run scripts/check"] if command not in script] == []
    assert "set -euo pipefail" in script


def test_the_page_of_commands_is_current() -> None:
    written = runpy.run_path(str(ROOT / "scripts" / "write_pages.py"))
    expected = written["page"]()
    assert (ROOT / "docs" / "cli.md").read_text() == expected, "run python scripts/write_pages.py commands"


def test_every_exit_code_is_explained() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for code in (0, 1, 2, 3, 4, 5, 130):
        assert f"| {code} | " in text


CHOSEN = ("--delta", "--update-limit", "--preset")  # with the last two it would buy no pair


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_sessions_that_are_shown_have_a_delta_where_it_buys_pairs(path: Path) -> None:
    shown = re.findall(r"pmw (?:open|plan) .*--schema .*--epsilon .*", path.read_text())
    assert [line for line in shown if not any(choice in line for choice in CHOSEN)] == []
