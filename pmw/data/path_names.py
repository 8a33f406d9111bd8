"""Names of files and folders, told apart from a table's text that was given in place of one."""

from __future__ import annotations

_LONGEST_PATH, _LONGEST_NAME = 4096, 255  # characters


def is_path_name(text: str) -> bool:
    """Return whether a text can name a file: it is short enough, and holds no control characters."""
    parts = text.replace("\\", "/").split("/")
    return (
        len(text) <= _LONGEST_PATH and max(map(len, parts)) <= _LONGEST_NAME and min(text, default="x") >= " "
    )
