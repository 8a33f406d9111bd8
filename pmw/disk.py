"""The disk: what was written is made to last, whatever happens to the machine."""

from __future__ import annotations

import os
from pathlib import Path


def synchronise(path: Path) -> None:
    """Make what was done to a file, or to the names in a folder, last; nothing where there is none.

    Raises:
        OSError: the disk, or its file system, cannot.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
