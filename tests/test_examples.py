"""The examples: short, on the public surface alone, and they run."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


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


def test_the_textbook_loop_prints_what_it_always_printed() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "textbook_loop.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["question", "model", "outcome", "answer", "model", "after", "true"]
    assert len(lines) == 11
    assert sum("above" in line for line in lines) == int(lines[-1].split()[0])
    assert "of 12 positives" in lines[-1]
