"""Templates: pages in HTML, whose texts are escaped; jinja2 is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pmw.display.charts import bar_chart, line_chart
from pmw.display.elements import escaped, scrolled_table

if TYPE_CHECKING:
    from jinja2 import Environment


def render(package: str, name: str, values: Mapping[str, Any]) -> str:
    """Return a page."""
    return _environment(package).get_template(name).render(values)


def style_sheet(package: str, name: str) -> str:
    """Return a style sheet of a package, from its folder ``static``."""
    return files(package).joinpath("static", name).read_text(encoding="utf-8")


@lru_cache(maxsize=8)
def _environment(package: str) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(table=scrolled_table, bar_chart=bar_chart, line_chart=line_chart)
    return made


def _shown(value: object) -> object:
    """Return what stands for a value: of a text, its escaped form."""
    return escaped(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
