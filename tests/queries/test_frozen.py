"""Frozen dataclasses do what those of the standard library do, and write their methods when they are used."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import pmw
import queries
from queries import DomainError, QueriesError, QueryError, SchemaError, ScopeError
from queries.frozen import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    unit: ClassVar[str] = "m"
    x: float
    y: float = 2.0
    seen: list[int] = field(default_factory=list, compare=False)
    name: str = field(default="p", kw_only=True, repr=False)
    norm: float = field(init=False, hash=False)
    kind: str = field(init=False, default="plain")
    notes: dict[str, int] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", abs(self.x) + abs(self.y))


@dataclass(frozen=True, slots=True)
class Weighted(Point, Generic[T]):
    """A point that has a weight, after what it inherits."""

    weight: T | None = None


@dataclass(frozen=True)
class Open:
    """Without slots."""

    inner: object


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Equal to itself alone."""

    x: int


@dataclass(frozen=True, slots=True, repr=False)
class Own:
    """Whose methods are its own, but for ``__init__``."""

    x: int

    def __repr__(self) -> str:
        return "hidden"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True)
class Compared:  # noqa: PLW1641  # the decorator adds it
    """Whose comparison is its own, and whose hash is that of its fields, as ``dataclasses`` has it."""

    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compared)


def twin(cls: type) -> type:
    """Return a class of the same fields, made by the standard library."""
    told = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
    return dataclasses.make_dataclass(
        cls.__name__,
        [
            (one.name, one.type, field(**{key: getattr(one, key) for key in told}))
            for one in dataclasses.fields(cls)
        ],
        namespace={"__post_init__": vars(cls)["__post_init__"]} if "__post_init__" in vars(cls) else {},
        frozen=True,
    )


def ours() -> Iterator[type]:
    """Yield every dataclass of ours whose methods come late."""
    for package in (pmw, queries):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name == "pmw.__main__":
                continue
            module = importlib.import_module(found.name)
            for one in vars(module).values():
                if isinstance(one, type) and one.__module__ == module.__name__ and is_late(one):
                    yield one


def is_late(cls: type) -> bool:
    """Return whether a class asked ``dataclasses`` for no ``__init__``, and has one."""
    told = vars(cls).get("__dataclass_params__")
    return told is not None and not told.init and "__init__" in vars(cls)


def test_every_class_of_ours_is_made_of_what_the_standard_library_would_ask_for() -> None:
    classes = list(ours())
    assert len(classes) > 250
    for cls in classes:
        init = vars(cls)["__init__"]  # ours are written late, or from a text without a file
        own = inspect.isfunction(init) and init.__code__.co_filename == inspect.getfile(cls)
        assert own or str(inspect.signature(cls)) == str(inspect.signature(twin(cls))), cls


@pytest.mark.parametrize("arguments", [(1.0,), (1.0, 3.0), (1.0, 3.0, [4])])
def test_objects_are_as_those_of_the_standard_library(arguments: tuple[Any, ...]) -> None:
    other = twin(Point)
    here, there = Point(*arguments, name="q"), other(*arguments, name="q")
    assert repr(here) == repr(there)
    assert dataclasses.asdict(here) == dataclasses.asdict(there)
    assert hash(here) == hash(there)
    assert here == Point(*arguments, name="q") == dataclasses.replace(Point(0.0, name="q"), x=1.0, y=here.y)
    assert here != there
    assert here != Point(*arguments)
    assert Point(1.0, seen=[1]) == Point(1.0, seen=[2])


@pytest.mark.parametrize(
    "made",
    [Point(1.0, 3.0, [1], name="q"), Weighted(1.0, weight=(2, 3)), Open(1), type("Plain", (Point,), {})(1.0)],
)
def test_nothing_can_be_set_or_deleted_and_objects_are_pickled_and_copied(made: Any) -> None:
    name = dataclasses.fields(made)[0].name
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(made, name, 9)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(made, name)
    assert getattr(made, name) == 1
    pickled = pickle.loads(pickle.dumps(made)) if type(made).__name__ != "Plain" else made  # noqa: S301
    for one in (pickled, copy.copy(made), copy.deepcopy(made)):
        assert (one, repr(one)) == (made, repr(made))


def test_methods_of_a_class_stay_its_own_and_others_are_written() -> None:
    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("hidden", True, 7)
    assert (Compared(1) == Compared(2), hash(Compared(1))) == (True, hash((1,)))
    assert Same(1) != Same(1)
    assert len({Same(1), Same(1)}) == 2
    nothing: type = dataclass(frozen=True, slots=True)(type("Nothing", (), {}))
    assert (nothing(), repr(nothing()), hash(nothing())) == (nothing(), "Nothing()", hash(()))
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((1.0, 2.0, [], "q"), {}), ((1.0,), {"norm": 1.0}), ((1.0,), {"z": 1.0}),
    ]  # fmt: skip
    for places, names in given:
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            Point(*places, **names)


def test_a_class_that_is_not_frozen_is_refused() -> None:
    class Bare:
        x: int

    @dataclasses.dataclass
    class Thawed:
        x: int

    with pytest.raises(TypeError, match=r"Bare: expected a frozen dataclass"):
        dataclass(frozen=False)(Bare)
    with pytest.raises(TypeError, match=r"Child: expected a frozen dataclass, of bases that are frozen"):
        dataclass(frozen=True)(type("Child", (Thawed,), {}))


# --- package --------------------------------------------------------------------------------------------


PACKAGE = Path(queries.__file__).parent


@pytest.mark.parametrize("word", ["epsilon", "noise", "budget", "sensitivity"])
def test_questions_know_nothing_of_privacy(word: str) -> None:
    assert (PACKAGE / "py.typed").is_file()
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) > 10
    assert [module.name for module in modules if word in module.read_text(encoding="utf-8").lower()] == []


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        QueryError("expected a value", code="syntax", position=3),
        SchemaError("expected a kind", line=2, path="people.toml"),
        DomainError("expected a name"),
        ScopeError("expected two axes"),
    ],
)
def test_an_error_comes_back_from_another_process_as_it_was(error: QueriesError) -> None:
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
