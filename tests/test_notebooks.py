"""The notebooks run from the first cell to the last, and hold nothing of the machine that ran them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.service.users import Role, User, UsersFile
from queries import load_schema

pytest.importorskip("matplotlib", reason="the extra 'plots' is not installed")
pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from tests.pmw.service.studies import served

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
REMOTE = "analyst.ipynb"
# Fewer rounds of a baseline than a notebook shows; the slow test in a kernel runs all of them.
SHORTER = {"researcher.ipynb": ("OfflineOptions(Targets.QUERY, 40,", "OfflineOptions(Targets.QUERY, 4,")}
MOST_BYTES = 250_000
MOST_LINES = 12  # from the connection to a picture


def cells_of(path: Path) -> list[str]:
    """Return the code of a notebook, cell by cell."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def shortened(path: Path) -> list[str]:
    """Return the code of a notebook, cell by cell, with what would take long made short."""
    cells = cells_of(path)
    if path.name not in SHORTER:
        return cells
    long, short = SHORTER[path.name]
    assert sum(code.count(long) for code in cells) == 1
    return [code.replace(long, short) for code in cells]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples beside it, and a service over the table of the guides."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    made = tmp_path / "examples"
    made.mkdir()
    for name in ("people.py", "own_sparse_vector.py"):
        (made / name).write_text((EXAMPLES / name).read_text())
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The address and the token of a session, where the notebook looks for them."""
    exec((folder / "people.py").read_text(), {})  # noqa: S102  # writes the table
    path = folder / "people.pmw"
    pmw.open_session("people.csv", load_schema("people.toml"), epsilon=1, delta=1e-9, path=path).close()
    users = UsersFile(folder / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1, 4)))
    with served(path, users) as url:
        monkeypatch.setenv("PMW_URL", url)
        monkeypatch.setenv("PMW_TOKEN", token)
        yield


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    "path",
    [pytest.param(one, marks=[pytest.mark.slow] * (one.name in SHORTER), id=one.name) for one in NOTEBOOKS],
)
def test_cells_run_in_order(path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in shortened(path):
        *_, last = code.rstrip().split("\n")
        exec(compile(code, path.name, "exec"), names)  # noqa: S102
        if (
            last[:1] not in (" ", ")", "")
            and "=" not in last
            and not last.startswith(("import", "from", "print"))
        ):
            shown = eval(last, names)  # noqa: S307  # what a notebook shows of it
            assert shown is None or repr(shown)
    for held in names.values():
        if isinstance(held, pmw.Session | pmw.RemoteSession):
            held.close()


def test_an_address_is_a_picture_in_a_few_lines() -> None:
    lines = [line for code in cells_of(EXAMPLES / REMOTE) for line in code.split("\n") if line.strip()]
    first = next(place for place, line in enumerate(lines, 1) if ".plot(" in line)
    assert first <= MOST_LINES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_small_and_tell_nothing_of_a_machine(path: Path) -> None:
    text = path.read_text()
    assert len(text) < MOST_BYTES
    for word in ("/home/", f"{tempfile.gettempdir()}/", "Traceback", str(Path.home())):
        assert word not in text
    assert all(cell.get("id") for cell in json.loads(text)["cells"])


@pytest.mark.slow
@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run_in_a_kernel(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, in a process of Jupyter's: pictures and tables are shown."""
    monkeypatch.delenv("MPLBACKEND")  # a kernel has its own
    nbformat = pytest.importorskip("nbformat", reason="the extra 'notebooks' is not installed")
    nbclient = pytest.importorskip("nbclient", reason="the extra 'notebooks' is not installed")
    notebook = nbformat.read(path, as_version=4)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    client.execute()
    shown = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in shown)
    if written := os.environ.get("PMW_WRITE_NOTEBOOKS"):
        nbformat.write(notebook, Path(written) / path.name)
