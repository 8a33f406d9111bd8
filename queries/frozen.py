"""Frozen dataclasses whose methods are written when they are first used.

``dataclasses.dataclass`` compiles six methods of each class while its module is imported. That took half of a
command's start, though most classes that a command imports never have an object. Here all classes share
``__repr__``, ``__setattr__`` and ``__delattr__``; ``__init__``, ``__eq__`` and ``__hash__`` are compiled at
the first object, comparison and hash. Type checkers see ``dataclasses.dataclass`` itself.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

_Value = TypeVar("_Value")


def _decorator(
    *, frozen: bool, slots: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[type[_Value]], type[_Value]]:
    """Return a decorator that makes a class a frozen dataclass, as ``dataclasses.dataclass`` would.

    ``fields``, ``replace`` and ``is_dataclass``, annotations, matching and pickling are those of a dataclass,
    and each method does the same. Arguments are as there. Only ``__dataclass_params__`` differs: it tells
    what was asked for of ``dataclasses`` itself. A class with an ``InitVar`` takes ``dataclasses.dataclass``.
    """

    def decorate(cls: type[_Value]) -> type[_Value]:
        bases = [base for base in cls.__mro__[1:] if dataclasses.is_dataclass(base)]
        if not frozen or not all(base.__setattr__ is _refuse_to_set for base in bases):
            raise TypeError(f"{cls.__qualname__}: expected a frozen dataclass, of bases that are frozen")
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        shared = {
            "__setattr__": _refuse_to_set,
            "__delattr__": _refuse_to_delete,
            **({"__repr__": _repr} if repr else {}),
            **({"__getstate__": _state, "__setstate__": _set_state} if slots else {}),
        }
        late = ("__init__", "__eq__", "__hash__") if eq else ("__init__",)
        for name, method in {**shared, **{name: _Late(made, name) for name in late}}.items():
            if vars(made).get(name) is None:  # Python itself sets __hash__ to None beside an own __eq__
                setattr(made, name, method)
        return made

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # for other modules
else:
    dataclass = _decorator


class _Late:
    """A method that is looked up for the first time: it is written then, and takes this one's place."""

    def __init__(self, cls: type, name: str) -> None:
        self._cls = cls
        self._name = name

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        method = _WRITERS[self._name](self._cls)
        setattr(self._cls, self._name, method)
        bound: Callable[..., Any] = method if instance is None else method.__get__(instance, owner)
        return bound


class _Factory:
    """Stands for the default of a parameter that a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _written_init(cls: type) -> Any:
    """Return the ``__init__`` of a dataclass: it sets the fields in order, and ends in ``__post_init__``."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    fields = dataclasses.fields(cls)
    body = []
    for field in fields:
        value = field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_default_{field.name}"] = _FACTORY
            known[f"_make_{field.name}"] = field.default_factory
            value = f"_make_{field.name}()"
            if field.init:
                value += f" if {field.name} is _FACTORY else {field.name}"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{field.name}"] = field.default
            value = field.name if field.init else f"_default_{field.name}"
        elif not field.init:
            continue  # __post_init__ sets it
        body.append(f"_set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    init = _written(cls, "__init__", _parameters(fields, known), body or ["pass"], known)
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


def _parameters(fields: Sequence[dataclasses.Field[Any]], known: dict[str, Any]) -> list[str]:
    texts = {
        field.name: f"{field.name}=_default_{field.name}" if f"_default_{field.name}" in known else field.name
        for field in fields
        if field.init
    }
    by_keyword = [texts[field.name] for field in fields if field.init and field.kw_only]
    others = [texts[field.name] for field in fields if field.init and not field.kw_only]
    return ["self", *others, *(["*", *by_keyword] if by_keyword else [])]


def _written_eq(cls: type) -> Any:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    body = [
        "if other.__class__ is not self.__class__: return NotImplemented",
        f"return {_tuple_of('self', names)} == {_tuple_of('other', names)}",
    ]
    return _written(cls, "__eq__", ["self", "other"], body, {})


def _written_hash(cls: type) -> Any:
    names = [
        field.name
        for field in dataclasses.fields(cls)
        if (field.compare if field.hash is None else field.hash)
    ]
    return _written(cls, "__hash__", ["self"], [f"return hash({_tuple_of('self', names)})"], {})


def _tuple_of(owner: str, names: Sequence[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


def _written(
    cls: type, name: str, parameters: Sequence[str], body: Sequence[str], known: dict[str, Any]
) -> Any:
    text = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    space: dict[str, Any] = {**known, "__name__": cls.__module__}
    exec(text, space)  # noqa: S102  # a text of the names of fields alone
    method = space[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


_WRITERS = {"__init__": _written_init, "__eq__": _written_eq, "__hash__": _written_hash}


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: Sequence[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
