"""Texts that leave the repository: the long description of a package index, and the notes of a release.

Both are cut from documents of the repository, whose links and pictures lead to files beside them. Where the
texts are read these are missing, so links become their words, and pictures go with the line below them.

``python scripts/published_texts.py`` prints the notes of the version that pyproject.toml names.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https://)[^)]+\)\n\n(?:\*[^*]+\*\n\n)?", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https://)[^)]+\)")
_WHERE = "\nThe documents and programs that are named here are in the source archive of this version.\n"


def standing_alone(text: str) -> str:
    """Return a Markdown text without pictures and links to files beside it."""
    return _LINK.sub(r"\1", _PICTURE.sub("", text))


def long_description(readme: str) -> str:
    """Return what a package index shows."""
    return standing_alone(readme) + _WHERE


def release_notes(changelog: str, version: str) -> str:
    """Return what the changelog says of a version, without its heading.

    Raises:
        ValueError: it has no heading "## VERSION, YYYY-MM-DD".
    """
    heading = rf"^## {re.escape(version)}, \d{{4}}-\d{{2}}-\d{{2}}\n+(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"CHANGELOG.md: expected a heading '## {version}, YYYY-MM-DD'")
    return standing_alone(found[1]).rstrip() + "\n"


def get_metadata_hook() -> type:
    """Return what hatchling calls for the fields that pyproject.toml leaves to this file."""
    from hatchling.metadata.plugin.interface import (
        MetadataHookInterface,
    )  # late: only where a package is built

    class LongDescription(MetadataHookInterface):  # type: ignore[misc, unused-ignore]  # may be missing
        """Sets ``readme``."""

        def update(self, metadata: dict[str, Any]) -> None:
            """Cut the long description from the README."""
            readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
            metadata["readme"] = {"content-type": "text/markdown", "text": long_description(readme)}

    return LongDescription


def main() -> None:
    """Print the notes of this version, or what is wrong with the changelog."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    try:
        sys.stdout.write(release_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
