"""Write the console blocks of README.md and docs again, with what each command prints now."""

import importlib.util
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # run from a checkout

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_PROGRAMS = (("pmw", "-m pmw "), ("python", ""))


def main() -> None:
    """Run every document's commands in a folder of its own, in order, and write the document."""
    guard = _guard()
    for path in guard.WITH_COMMANDS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _prepare(folder)
            if path.name != "README.md":
                guard.run("python examples/people.py", folder)
            text = _written(path.read_text(), folder, guard.run)
        path.write_text(text)
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


def _guard() -> ModuleType:
    """Return the test of the documents: how it finds and runs commands."""
    place = ROOT / "tests" / "test_docs_commands.py"
    found = importlib.util.spec_from_file_location("test_docs_commands", place)
    if found is None or found.loader is None:
        raise FileNotFoundError(place)
    guard = importlib.util.module_from_spec(found)
    sys.modules[found.name] = guard  # its dataclasses look for it there
    found.loader.exec_module(guard)
    return guard


def _prepare(folder: Path) -> None:
    """Make ``pmw`` and ``python`` this project's, as the test does."""
    (folder / "bin").mkdir()
    for name, module in _PROGRAMS:
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        program.chmod(0o755)
    (folder / "examples").symlink_to(ROOT / "examples")


def _written(text: str, folder: Path, run: Callable[[str, Path], str]) -> str:
    """Return a document with its console blocks written again."""
    return _BLOCK.sub(lambda block: f"```console\n{_recorded(block.group(1), folder, run)}```", text)


def _recorded(body: str, folder: Path, run: Callable[[str, Path], str]) -> str:
    """Return a block with what its commands print now; an output with … for left-out lines stays."""
    first, *parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    written = [first]
    for part in parts:
        head, _, output = part.partition("\n")
        command = head
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            head += "\n" + more
            command = command[:-1].rstrip() + " " + more.lstrip("> ").strip()
        printed = run(command, folder)
        written.append(f"$ {head}\n{output if '…' in output.splitlines() else printed.rstrip() + chr(10)}")
    return "".join(written).replace("\n\n```", "\n```")


if __name__ == "__main__":
    main()
