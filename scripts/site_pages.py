"""Pages of the site that stand outside of ``docs``, and links to them; ``mkdocs`` calls what is here.

The README is the home page. Notebooks are pages with the outputs that are stored in them; nothing runs here.
Documents link to files beside them, so that links work where the files are read; here these become links to
the pages that the files are on the site.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parent.parent
# Where each file is in the repository, and what page of the site it is.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmark-commands.md",
    "examples/analyst.ipynb": "tutorials/analyst-notebook.md",
    "examples/custodian.ipynb": "tutorials/custodian-notebook.md",
    "examples/researcher.ipynb": "tutorials/researcher-notebook.md",
}
_SOURCES = {page: file for file, page in OUTSIDE.items()}
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)")
_CODE_IN_A_TABLE = re.compile(r"^\| .*`.*\\\|.*`.* \|$", re.MULTILINE)
# What a picture shows is said by the metadata of the cell that draws it, which a new run keeps. Its address
# is written as HTML, in which links are left as they are.
_OUTPUTS = """
{%- extends "markdown/index.md.j2" -%}
{%- block stream %}
```text
{{ output.text | trim }}
```
{% endblock stream -%}
{%- block data_text scoped %}
```text
{{ output.data["text/plain"] }}
```
{% endblock data_text -%}
{%- block data_html scoped %}
<div>{{ output.data["text/html"] | without_looks }}</div>
{% endblock data_html -%}
{%- block data_png %}
<p><img src="{{ output.metadata.filenames["image/png"] }}" alt="{{ cell.metadata.alt | e }}"></p>
{% endblock data_png -%}
"""
# What pandas says of how its tables look: the site's own tables look alike.
_LOOKS = re.compile(
    r'<style scoped>.*?</style>| border="1" class="dataframe"| style="text-align: right;"', re.DOTALL
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside."""
    for file, page in OUTSIDE.items():
        text, pictures = _read(ROOT / file, Path(page).stem)
        files.append(File.generated(config, page, content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"{Path(page).parent}/{name}", content=picture))
    return files


def _read(file: Path, page: str) -> tuple[str, dict[str, bytes]]:
    """Return the markdown of a document or a notebook, and the pictures beside it."""
    if file.suffix != ".ipynb":
        return file.read_text(encoding="utf-8"), {}
    exporter = MarkdownExporter(raw_template=_OUTPUTS)
    exporter.register_filter("without_looks", lambda html: _LOOKS.sub("", html))
    text, resources = exporter.from_filename(str(file), resources={"unique_key": page})
    told = f"*The notebook `{file.relative_to(ROOT)}`, with the outputs of its last run.*"
    return text.replace("\n\n", f"\n\n{told}\n\n", 1), resources["outputs"]  # below its title


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
