"""What holds for the tests themselves: they write nothing where they run, and every wait has an end."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
WAITS = ("acquire", "get", "join", "result", "wait")

UNRULY = """
import threading
from pathlib import Path

def test_that_writes():
    Path("report.html").write_text("written by name alone")

def test_that_writes_a_folder():
    Path("site").mkdir()

def test_that_waits():
    threading.Event().wait()

def test_that_leaves_a_thread_which_waits():
    thread = threading.Thread(target=threading.Event().wait)
    thread.start()
    thread.join()

def test_that_is_quiet():
    assert not list(Path().iterdir())
"""


def test_a_test_that_writes_where_it_runs_or_does_not_end_fails(tmp_path: Path) -> None:
    unruly = tmp_path / "test_unruly.py"
    unruly.write_text(UNRULY)
    (tmp_path / "kept.txt").write_text("of whoever runs the tests")
    command = [  # -B: what is compiled would lie beside the test
        sys.executable, "-B", "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", "0",
    ]  # fmt: skip
    done = subprocess.run(
        [*command, "--longest", "1", "-o", f"pythonpath={ROOT}", str(unruly)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    faults = [
        line.partition("::")[2] for line in done.stdout.splitlines() if line[:6] in ("FAILED", "ERROR ")
    ]
    assert [fault.partition(" ")[0] for fault in faults] == [
        "test_that_waits", "test_that_leaves_a_thread_which_waits", "test_that_writes",
        "test_that_writes_a_folder",
    ]  # fmt: skip
    assert "it did not end within 1 s" in done.stdout
    assert "left in the working folder: report.html" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.txt", "test_unruly.py"]


def endless_waits(source: str) -> Iterator[int]:
    """Yield the lines on which something is waited for that may never come."""
    if not any(f".{name}()" in source for name in WAITS):
        return
    tree = ast.parse(source)
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in WAITS
            and not (node.args or node.keywords or id(node) in awaited)
        ):
            yield node.lineno


def test_every_wait_for_a_thread_or_a_queue_has_an_end() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in endless_waits(path.read_text())
    ]
    assert found == []


def test_a_wait_without_an_end_is_noticed() -> None:
    assert list(endless_waits("thread.join()\n', '.join(texts)\nqueue.get()\nqueue.get(timeout=9)")) == [1, 3]
    assert list(endless_waits("async def work():\n    await event.wait()\n    event.wait()")) == [3]
