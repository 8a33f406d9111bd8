"""What the site's reference must know of docstrings and classes here; ``griffe`` calls what is here."""

import re
from typing import Any

from griffe import Alias, Extension, Module, Object

_OWN_SECTION = re.compile(r"^(Privacy|Source): *\n? *", re.MULTILINE)


class HouseStyle(Extension):
    """Reads values as dataclasses, and sections that only this project has as paragraphs."""

    def on_module_members(self, *, mod: Module, **_others: Any) -> None:
        """Lead ``queries.frozen.dataclass`` to the standard library's, which type checkers see in it.

        Only then do values have signatures, and their documented fields types.
        """
        decorator = mod.members.get("dataclass")
        if isinstance(decorator, Alias) and decorator.target_path == "queries.frozen.dataclass":
            decorator.target_path = "dataclasses.dataclass"

    def on_instance(self, *, obj: Object, **_others: Any) -> None:
        """Have ``Privacy:`` and ``Source:`` begin a paragraph, instead of a note with a title."""
        if obj.docstring:
            obj.docstring.value = _OWN_SECTION.sub(r"**\1.** ", obj.docstring.value)
