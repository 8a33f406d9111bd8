"""Pages of the site that stand outside of ``docs``, and links to them; ``mkdocs`` calls what is here.

The README is the home page. Documents link to files beside them, so that links work where the files are read;
here these become links to the pages that the files are on the site.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
# Where each file is in the repository, and what page of the site it is.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmark-commands.md",
}
_SOURCES = {page: file for file, page in OUTSIDE.items()}
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)")
_CODE_IN_A_TABLE = re.compile(r"^\| .*`.*\\\|.*`.* \|$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside."""
    for file, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links lead to pages of the site, and whose code in tables has no escapes."""
    here = page.file.src_uri
    markdown = _LINK.sub(lambda link: "](" + led_from(here, link[1]), markdown)
    return _CODE_IN_A_TABLE.sub(lambda row: re.sub(r"`[^`]*`", _unescaped, row[0]), markdown)


def _unescaped(code: re.Match[str]) -> str:
    return code[0].replace(r"\|", "|")  # where the files are read, a bare one would end the cell


def led_from(page: str, target: str) -> str:
    """Return where a link of a page leads, from that page: ``docs/cli.md`` in the README is ``cli.md``."""
    folder = PurePosixPath(_SOURCES.get(page, f"docs/{page}")).parent
    file = os.path.normpath(folder / target)
    return os.path.relpath(OUTSIDE.get(file, os.path.relpath(file, "docs")), PurePosixPath(page).parent)
