"""Write again what documents and tests show of the program: page of commands, guides, transcripts.

``python scripts/write_pages.py`` writes all three, and ``python scripts/write_pages.py guides`` one of them
(``commands``, ``guides``, ``transcripts``). How guides are read and sessions are played is the tests' own
code, so what is written here is what they compare.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cli.md"

_HEAD = """\
# The command line

What `pmw --help` and `pmw COMMAND --help` print, on one page; `scripts/write_pages.py` writes it again,
and a test keeps it current. The [custodian's](custodian.md) and the [analyst's](analyst.md) guide show the
commands at work.

Data goes to standard output; progress, warnings and errors go to standard error, progress on a terminal only.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | an error of the work: its line says what was expected, what came and what to do |
| 2 | wrong usage: an option that is unknown or would do nothing, or a value that can never be |
| 3 | under `--strict`: tests and the reserve are exhausted, so nothing was drawn |
| 4 | a question was refused, or every line of a stream; under `--strict`, any line, or it was never tested |
| 5 | the session is in use by another process, damaged, or fails `pmw verify` |
| 130 | interrupted; everything printed so far is durable |
"""


def page() -> str:
    """Return the page of commands."""
    from pmw.cli import main

    runner = CliRunner(env={"COLUMNS": "100"})
    sections = [_HEAD]
    for words in ((), *names(main)):
        printed = runner.invoke(main, [*words, "--help"], prog_name="pmw", terminal_width=100).stdout
        sections.append(f"## {' '.join(('pmw', *words))}\n\n```text\n{printed.rstrip()}\n```\n")
    return "\n".join(sections)


def names(group: click.Group) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, those of a command's own commands after it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (name,)
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((name, *words) for words in names(command))


def write_commands() -> None:
    """Write the help of every command, as the command line prints it."""
    _write(PAGE, page())


def write_guides() -> None:
    """Run the commands of each document in a folder of its own, in order, and write what they print."""
    tests = _tests("test_docs_commands")
    for path in tests.WITH_COMMANDS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tests.prepare(folder)
            if path.name != "README.md":
                tests.run("python examples/people.py", folder)
            text = _shown(path.read_text(), folder, tests)
        _write(path, text)


def _shown(text: str, folder: Path, tests: ModuleType) -> str:
    """Return a document with its console blocks written again."""
    written: str = tests.CONSOLE.sub(lambda block: _block(block[1], folder, tests), text)
    return written


def _block(body: str, folder: Path, tests: ModuleType) -> str:
    """Return a block with what its commands print now; an output with … for left-out lines stays."""
    written = [body.partition("$ ")[0]]
    for shown, command, output in tests.commands_in(body):
        printed = tests.run(command, folder)
        written.append(f"$ {shown}\n{output if '…' in output.splitlines() else printed.rstrip() + chr(10)}")
    return f"```console\n{''.join(written)}```".replace("\n\n```", "\n```")


def write_transcripts() -> None:
    """Play a session of each kind under repeatable noise, and write what it prints where that differs."""
    tests = _tests("test_transcripts")
    for name, kind in tests.KINDS.items():
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            lines = tests.played(kind, patch)
        file = tests.FOLDER / f"{name}.txt"
        if not file.exists() or tests.differences(lines, file.read_text(encoding="utf-8").splitlines()):
            _write(file, "\n".join(lines) + "\n")


def _tests(name: str) -> ModuleType:
    """Return a module of ``tests``, which is not a package."""
    place = ROOT / "tests" / f"{name}.py"
    found = importlib.util.spec_from_file_location(name, place)
    if found is None or found.loader is None:
        raise FileNotFoundError(place)
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # its dataclasses look for it there
    found.loader.exec_module(module)
    return module


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


PAGES: dict[str, Callable[[], None]] = {
    "commands": write_commands,
    "guides": write_guides,
    "transcripts": write_transcripts,
}


def main() -> None:
    """Write what the command line names, or all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="?", choices=list(PAGES))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported, as in the tests
    sys.path.insert(0, str(ROOT))  # run from a checkout
    chosen = parser.parse_args().pages
    for name in [chosen] if chosen else PAGES:
        PAGES[name]()


if __name__ == "__main__":
    main()
