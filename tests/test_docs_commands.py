"""Every command in the documents is run, in order, and prints what the documents show.

A ``console`` block holds commands after ``$`` and what they print. Numbers differ from run to run, so they
are compared as numbers and not by value, and columns by their order and not by their width.

The README's stream is a process of its own, as it is for whoever follows it. All others run in this process,
and so do those of ``docs/literature.md``, whose tables have a command in each row and words that it prints:
starting Python takes longer than most of them.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from pmw.cli.main import main
from pmw.session.store.connection import SessionFiles

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# Run by the continuous integration and the newcomer, not from within the tests.
# Or that print what nobody shall know, or serve without an end.
INSTALLING = re.compile(
    r"(\.venv/bin/|python3 -m (?:venv|http\.server)|uv |pip |mkdir |\. |pmw user add |pmw serve )"
)


def commands_in(block: str) -> Iterator[tuple[str, str, str]]:
    """Yield the commands of a block: as shown, which may be several lines, as run, and what each prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        shown, _, output = part.partition("\n")
        command = shown
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            shown += "\n" + more
            command = command[:-1].rstrip() + " " + more.lstrip("> ").strip()
        yield shown, command, output


def sessions(path: Path) -> list[tuple[str, str]]:
    """Return the commands of a document with what they print, in order."""
    blocks = CONSOLE.findall(path.read_text())
    return [(command, output) for block in blocks for _, command, output in commands_in(block)]


def users_added(path: Path) -> list[str]:
    """Return the commands of a document that make users, whose tokens they print."""
    return re.findall(r"^pmw user add .*", "\n".join(SHELL.findall(path.read_text())), re.MULTILINE)


WITH_COMMANDS = [path for path in DOCUMENTS if sessions(path)]


def named(path: Path) -> str:
    """Return a name that no other document has: the noise of a test follows from the test's name."""
    return f"{path.parent.name}/{path.name}" if path in TUTORIALS else path.name


# Where an answer comes from is a matter of chance where an error is near the threshold.
SOURCE = re.compile(
    r"synthetic: from the model; released numbers bound its error"
    r"|measured: the model was wrong here, or its error bar wide, so counts were measured"
    r'|(?<="source": ")(synthetic|measured)|(synthetic|measured)$'
)


COUNTED = re.compile(r"# ([a-z]+?)s?\b")


def normal(text: str) -> list[str]:
    """Return the lines of an output with every number as #, its noun as of one, and runs of blanks as one."""
    lines = []
    for line in text.splitlines():
        shown = re.sub(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", "#", SOURCE.sub("SOURCE", line))
        lines.append(COUNTED.sub(r"# \1", re.sub(r"\s+", " ", shown)).strip())
    return [line for line in lines if line]


def agree(shown: list[str], printed: list[str]) -> bool:
    """Compare lines; a line of … alone in a document stands for any lines."""
    if "…" in shown:
        place = shown.index("…")
        tail = shown[place + 1 :]
        return printed[:place] == shown[:place] and (not tail or printed[-len(tail) :] == tail)
    return shown == printed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which the documents' commands run."""
    prepare(tmp_path)
    return tmp_path


def prepare(folder: Path) -> None:
    """Make ``pmw`` and ``python`` this project's in a folder, and put the examples there."""
    programs = folder / "bin"
    programs.mkdir()
    for name, module in (("pmw", "-m pmw "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        (programs / name).chmod(0o755)
    (folder / "examples").symlink_to(ROOT / "examples")


def run(command: str, folder: Path) -> str:
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, timeout=120,
    ).stdout  # fmt: skip


ALONE = re.compile(r"pmw (.+?)(?: < ([\w.]+))?(?: > ([\w.]+))?")


def run_pmw_here(command: str) -> str:
    """Return what ``pmw`` prints, run in this process and folder; a file or a pipe may follow it."""
    alone, _, reader = command.partition(" | ")
    matched = ALONE.fullmatch(alone)
    assert matched is not None, command
    arguments, given, written = matched.groups()
    questions = Path(given).read_bytes() if given else None
    result = CliRunner().invoke(
        main, shlex.split(arguments), input=questions, env={"COLUMNS": "100"}, prog_name="pmw"
    )
    if written:
        Path(written).write_text(result.stdout)
    if reader:
        read = subprocess.run(
            ["sh", "-c", reader], input=result.stdout, capture_output=True, text=True, check=True
        )
        return result.stderr + read.stdout
    return result.stderr if written else result.output


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=named)
def test_commands_print_what_the_documents_show(
    path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    if path.name not in ("README.md", "tour.md"):
        _run_python(["examples/people.py"], capsys, monkeypatch)
    for command, shown in sessions(path):
        alone = path.name == "README.md" and "--stream" in command
        if alone or not command.startswith(("pmw ", "python ")):
            printed = run(command, folder)
        elif command.startswith("pmw "):
            printed = run_pmw_here(command)
        else:
            printed = _run_python(shlex.split(command)[1:], capsys, monkeypatch)
        assert agree(normal(shown), normal(printed)), f"$ {command}\n{printed}"
    for command in users_added(path):
        assert run_pmw_here(command)
    assert not_ignored(folder) == ["bin/pmw", "bin/python", "examples"]


def not_ignored(folder: Path) -> list[str]:
    """Return the files of a folder that git would take in, if it were the checkout."""
    git(folder, "init", "--quiet")
    git(folder, "-c", f"core.excludesFile={ROOT / '.gitignore'}", "add", "--all")
    return git(folder, "ls-files")


def git(folder: Path, *arguments: str) -> list[str]:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_git_takes_in_no_session_no_user_and_nothing_beside_them(folder: Path) -> None:
    session = folder / "deep" / "study.pmw"
    session.parent.mkdir()
    for file in SessionFiles(session).all:
        file.write_text("secret")
    for name in (".b.pmw.part", ".b.pmw.part-wal", "users.json", "users.json-asked-wal", "ann.token"):
        (session.parent / name).write_text("secret")
    assert not_ignored(folder) == ["bin/pmw", "bin/python", "examples"]


def test_git_ignores_nothing_that_it_tracks() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    assert git(ROOT, "ls-files", "--cached", "--ignored", "--exclude-standard") == []
    assert len(git(ROOT, "ls-files")) > 500


@pytest.mark.parametrize("path", TUTORIALS, ids=named)
def test_programs_of_the_tutorials_run(
    path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    _run_python(["examples/people.py"], capsys, monkeypatch)
    for program in PROGRAM.findall(path.read_text()):
        Path("program.py").write_text(program)
        assert _run_python(["program.py"], capsys, monkeypatch)


def test_commands_without_output_are_those_that_install() -> None:
    # Those of the service, but for what is in the README too, are run by its own tests; those of the page in
    # the browser by the script of CI.
    elsewhere = ("service.md", "tools.md", "other-languages.md", "browser.md")
    for path in (path for path in DOCUMENTS if path.name not in elsewhere):
        for block in SHELL.findall(path.read_text()):
            for line in block.splitlines():
                command = line.split("#")[0].strip()
                assert not command or INSTALLING.match(command), f"{path.name}: {command}"


def test_outputs_that_differ_are_noticed() -> None:
    for shown, printed, alike in (
        ("About 12 records (3.4%)", "About 1,234.5  records (99%)", True),
        ("1 record", "0 records", True),
        ("About 12 records", "About twelve records", False),
        ("one\n…\nlast 3", "one\ntwo\nthree\nlast 77", True),
        ("one\n…\nlast 3", "one\ntwo\nthree", False),
        ("one", "one\ntwo", False),
    ):
        assert agree(normal(shown), normal(printed)) == alike


LITERATURE = ROOT / "docs" / "literature.md"
TEXTS = ("Near and Abuah", "Lyu, Su and Li", "Kamath", "Machanavajjhala")
# Names under which a reader of the texts looks for something.
FROM_THE_TEXTS = (
    "SVT-DPBook", "SVT-S", "SVT-ReTr", "FNR", "SER", "Table 1", "Table 2", "Figure 2", "Figure 3", "Figure 4",
    "Figure 5", "`auto_avg`", "`range_query_svt`", "`naive_select_b`", "`above_threshold_fail_signal`",
    "interactive setting", "non-interactive setting", "parallel composition", "Infinity-DP",
    "exponential mechanism", "NumericSparse", "GPTT", "Theorem 5", "cohort size",
    *(f"Algorithm {number}" for number in range(1, 8)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table of the literature: a thing of a text, what it is here, a command, words it prints."""

    named: str
    here: str
    command: str
    shown: tuple[str, ...]


def rows(text: str) -> list[Row]:
    """Return the rows of all tables, without their heads."""
    found = []
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(("| ---", "| in the text |")):
            named, here, command, shown = (cell.strip() for cell in line.strip("|").split("|"))
            found.append(Row(named, here, command.strip("`"), tuple(re.findall(r"`([^`]+)`", shown))))
    return found


ROWS = rows(LITERATURE.read_text())


def shows(printed: str, words: str) -> bool:
    """Tell whether the words are printed, with any blanks between them; a … stands for words of one line."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in words.split("…")]
    pattern = r"(?<!\S)" + r"\s[^\n]*\s".join(parts) + r"(?![\w^]|\.\d)"
    return re.search(pattern, printed) is not None


def run_here(command: str, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> str:
    """Return what a command prints; its parts run in this process, and one that fails fails the test."""
    printed = ""
    for part in command.split(" && "):
        program, *arguments = shlex.split(part)
        if program == "pmw":
            result = CliRunner().invoke(main, arguments, env={"COLUMNS": "100"})
            assert result.exit_code == 0, result.output
            printed += result.output
        elif program == "ls":
            printed += subprocess.run(
                [program, *arguments], capture_output=True, text=True, check=True
            ).stdout
        else:
            assert program == "python", command
            printed += _run_python(arguments, capture, patch)
    return printed


def _run_python(arguments: list[str], capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> str:
    capture.readouterr()
    if arguments[0] == "-m":
        patch.setattr(sys, "argv", arguments[1:])
        patch.delitem(sys.modules, arguments[1], raising=False)  # another test may have imported it
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        patch.setattr(sys, "argv", arguments)
        runpy.run_path(arguments[0], run_name="__main__")
    return capture.readouterr().out


# Each takes a second; the others run in the quick suite, too.
LONGER = ("--part closed-forms", "--part margins", "clipping_bound.py", "cohort_sizes.py")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(one, marks=[pytest.mark.slow] * any(text in one for text in LONGER))
        for one in dict.fromkeys(row.command for row in ROWS)
    ],
)
def test_the_commands_of_the_literature_print_what_the_tables_say(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--plot" in command:
        pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(ROOT))
    printed = run_here(command, capsys, monkeypatch)
    missing = [
        words for row in ROWS if row.command == command for words in row.shown if not shows(printed, words)
    ]
    assert not missing, printed


def test_every_row_of_the_literature_has_a_command_and_what_it_prints() -> None:
    tables = re.split(r"^## ", LITERATURE.read_text(), flags=re.MULTILINE)[1:]
    assert all(name in table.partition("\n")[0] for name, table in zip(TEXTS, tables, strict=True))
    assert all(len(rows(table)) > 10 for table in tables)
    for row in ROWS:
        assert row.named, row
        assert row.command, row
        assert row.shown, row
        assert not row.here.startswith("not here") or re.match(r"not here: \w.{20,}", row.here), row


def test_the_literature_is_found_by_its_names() -> None:
    named = "\n".join(row.named for row in ROWS)
    assert [name for name in FROM_THE_TEXTS if name not in named] == []
