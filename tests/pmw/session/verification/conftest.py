"""What tests of verification share: sessions that are made once and copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Copied: TypeAlias = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of sessions that were made, by their names."""
    return {}


@pytest.fixture
def copied(made_once: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Copied:
    """Return what gives a copy of a session: of its name, and what makes it where it was not made yet."""

    def copy(name: str, make: Callable[[Path], object]) -> Path:
        if name not in made_once:
            made_once[name] = tmp_path_factory.mktemp("made")
            make(made_once[name] / "study.pmw")
        for file in made_once[name].iterdir():  # with its companions
            shutil.copy2(file, tmp_path)
        return tmp_path / "study.pmw"

    return copy
