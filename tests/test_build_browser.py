"""What the page in the browser loads: a folder is replaced whole, or not at all."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def script() -> ModuleType:
    place = Path(__file__).parent.parent / "scripts/build_browser.py"
    spec = importlib.util.spec_from_file_location("build_browser", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_folder_is_replaced_once_all_is_copied(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        script.replace_folder(old, new)
    assert [path.name for path in tmp_path.rglob("*.js") if new not in path.parents] == ["old.js"]
    monkeypatch.undo()
    script.replace_folder(old, new)
    assert [path.name for path in old.iterdir()] == ["new.js"]
    assert not (tmp_path / "runtime.new").exists()
