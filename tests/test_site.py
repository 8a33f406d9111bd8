"""The site: each page in one place, every public name documented, no dead link, nothing from elsewhere."""

from __future__ import annotations

import html
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import pmw
import queries

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
NAMED = [
    name
    for path in sorted((DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", path.read_text(), re.MULTILINE)
]
# Those that ``__all__`` leaves out are public too: they come with the answers and options of the others.
PUBLIC = [f"{package.__name__}.{name}" for package in (pmw, queries) for name in package._HOME_OF]


def thing(path: str) -> object:
    """Return what a dotted name leads to, a module or a member of one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def test_each_page_has_one_place_in_the_navigation() -> None:
    listed = re.findall(r"^ +- .+: ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    outside = ["benchmark-commands.md", "changelog.md", "contributing.md", "index.md"]
    outside += [f"tutorials/{path.stem}-notebook.md" for path in NOTEBOOKS]
    assert sorted(listed) == sorted([*outside, *(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))])


def test_the_reference_has_every_public_name_once() -> None:
    assert len(set(NAMED)) == len(NAMED)
    things = {id(thing(name)) for name in NAMED}
    assert {f"{package.__name__}.{name}" for package in (pmw, queries) for name in package.__all__} <= set(
        PUBLIC
    )
    assert [name for name in PUBLIC if id(thing(name)) not in things] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by its command."""
    if any(find_spec(name) is None for name in ("mkdocs", "mkdocstrings", "nbconvert")):
        pytest.skip("the site needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        ["scripts/build_site", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_without_its_extra_the_command_to_type_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho 'no module named mkdocs' >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(
        ["scripts/build_site", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = "scripts/build_site: expected the extra docs; type uv run --extra docs scripts/build_site\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


class Built(HTMLParser):
    """What a page loads, what it links to, what can be linked to in it, and its text outside of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.names: list[str] = []
        self.text = ""
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names += [given[name] for name in ("id", "name") if name in given]
        self.loads += [given[name] for name in ("src", "srcset", "poster") if name in given]
        if "href" in given:
            (self.loads if tag == "link" else self.links).append(given["href"])
        self._code += tag in {"code", "pre", "script", "style"}

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in {"code", "pre", "script", "style"}

    def handle_data(self, data: str) -> None:
        self.text += "" if self._code else data


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Built]:
    return {path: Built(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def inner(path: Path, addresses: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield the file and the place in it that each address of this site leads to."""
    for address in addresses:
        parts = urlsplit(address)
        if not parts.scheme and path.name != "404.html":  # its addresses are from the root of a server
            yield (path.parent / unquote(parts.path)).resolve() if parts.path else path, parts.fragment


def test_no_link_of_the_site_is_dead(pages: dict[Path, Built]) -> None:
    dead = [
        f"{path.name}: {target.name}#{place}"
        for path, page in pages.items()
        for target, place in inner(path, [*page.loads, *page.links])
        if not target.exists() or (place and target in pages and unquote(place) not in pages[target].names)
    ]
    assert not dead, "\n".join(dead)


def test_the_site_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Built]) -> None:
    loaded = [address for page in pages.values() for address in page.loads]
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    loaded += re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", styles)
    assert len(loaded) > 100
    assert [address for address in loaded if re.match(r"(?:\w+:)?//", address)] == []


def shown(text: str) -> str:
    """Return what a page shows, in one line."""
    text = re.sub(r"<style.*?</style>|<[^>]*>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(text).split())


def test_each_notebook_is_a_page_with_its_code_its_texts_and_its_pictures_described(site: Path) -> None:
    described = 0
    for path in NOTEBOOKS:
        text = (site / "tutorials" / f"{path.stem}-notebook.html").read_text(encoding="utf-8")
        page = shown(text)
        for cell in code_of(path):
            assert " ".join("".join(cell["source"]).split()) in page
            for output in cell["outputs"]:
                data = output.get("data", {})
                if drawn(output):
                    alt = cell["metadata"]["alt"]
                    (name,) = re.findall(rf'src="([^"]*)" alt="{re.escape(alt)}"', text)
                    assert (site / "tutorials" / name).read_bytes() == b64decode(data["image/png"])
                    described += len(alt) > 40
                elif "text/html" in data:
                    assert shown("".join(data["text/html"])) in page
                else:
                    assert " ".join("".join(output.get("text") or data["text/plain"]).split()) in page
    assert described == 4


def code_of(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def drawn(output: dict[str, Any]) -> bool:
    return "image/png" in output.get("data", {})


def test_each_public_name_is_documented_in_the_built_reference(pages: dict[Path, Built]) -> None:
    built = {name: page.text for page in pages.values() for name in page.names}
    text_of = {id(thing(name)): built.get(name, "") for name in NAMED}
    for name in PUBLIC:
        value = thing(name)
        text = " ".join(text_of[id(value)].split())
        assert text, name
        if inspect.isclass(value) or inspect.isfunction(value):
            first = re.split(r"\n\s*\n", inspect.getdoc(value) or "")[0]
            words = re.sub(r"``[^`]*``|`[^`]*`", "\0", " ".join(first.split())).split("\0")[0].strip()
            assert words[:60] in text, name


def test_no_markup_is_left_on_a_page(pages: dict[Path, Built]) -> None:
    left = [
        f"{path.name}: {found}"
        for path, page in pages.items()
        for found in re.findall(r".{0,30}(?:\]\(|\*\*|``|^\| |:::).{0,30}", page.text, re.MULTILINE)
    ]
    assert not left, "\n".join(left)
