"""What the site's reference must know of docstrings and classes here; ``griffe`` calls what is here."""

import re
from collections.abc import Iterator
from typing import Any

from griffe import Alias, Class, Docstring, Extension, Module, Object

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

    def on_package(self, *, pkg: Module, **_others: Any) -> None:
        """Give a method that has no docstring that of the base whose method it overrides, as Python does."""
        for found in _classes(pkg):
            bases = found.mro()
            for name, member in found.members.items():
                if isinstance(member, Alias) or member.docstring or name.startswith("_"):
                    continue
                told = [base.members[name].docstring for base in bases if name in base.members]
                first = next(filter(None, told), None)
                if first is not None:
                    member.docstring = Docstring(
                        first.value, parent=member, parser=first.parser, parser_options=first.parser_options
                    )

    def on_instance(self, *, obj: Object, **_others: Any) -> None:
        """Have ``Privacy:`` and ``Source:`` begin a paragraph, instead of a note with a title."""
        if obj.docstring:
            obj.docstring.value = _OWN_SECTION.sub(r"**\1.** ", obj.docstring.value)


def _classes(scope: Module) -> Iterator[Class]:
    """Yield the classes of a module, and of those in it."""
    for member in scope.members.values():
        if isinstance(member, Class):
            yield member
        elif isinstance(member, Module):
            yield from _classes(member)
