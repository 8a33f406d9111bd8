"""The disk: files are written whole or not at all, and made to last, whatever happens to the machine."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pmw.errors import ReleaseError


def synchronise(path: Path) -> None:
    """Make what was done to a file, or to the names in a folder, last; nothing where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_file(path: Path, *, force: bool) -> None:
    """Refuse a file that cannot or must not be written."""
    if not path.name or path.is_dir():
        raise ReleaseError(f"expected a file to write, got the folder {path}")
    if path.exists() and not force:
        raise ReleaseError(f"{path} exists; choose another name, or overwrite it with --force")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all, whatever happens to the machine meanwhile."""
    temporary = path.with_name(path.name + ".partial")
    try:
        write(temporary)
        synchronise(temporary)
        os.replace(temporary, path)
        with contextlib.suppress(OSError):  # some file systems cannot
            synchronise(path.parent)
    except OSError as error:
        raise ReleaseError(f"{path}: the file cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_json(path: Path, form: dict[str, Any]) -> None:
    """Write a form as a file of JSON, whole or not at all."""
    text = json.dumps(form, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, lambda target: target.write_text(text, encoding="utf-8", newline=""))
