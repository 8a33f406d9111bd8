"""Speed benchmark: noise, answering once a session has settled, durable streams, start-up; parts and curves.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed --data-dir DIR [--table adult-small]

prints JSON lines. Rates are per CPU second of the process that does the work, children included. New
questions are all different; how many of them were asked before all the same is told beside their rate.

``--parts`` tells what new questions to a settled session cost in each form, and which part takes it: a line
for each form over Adult with 380,800 cells: query objects, structured conditions and arrays of ranges,
durable in a session file, and query objects to the public model file. Shares of time come from a second run
with other questions in the profiler, which makes many short calls look longer than they are.

    python -m benchmarks.speed --curve domain|records|questions|positives|cells|attributes|peers|all
        [--most-records 10000000] [--most-questions 1000000] [--plot DIR]

prints what a question costs as the domain, the table, the session, the model, the cells of one attribute and
the attributes grow; and peers: a line for
each point, each in a process of its own. Seconds are CPU seconds, rates are per CPU second, ``peak_mb`` is of
the process. Tables are made up with a fixed seed: attributes of ten cells, each of which follows the one
before in half of the records. Peers are measured in the same run: numpy's dot product of a histogram and each
question's weights, one draw of opendp's Laplace mechanism per question where opendp is installed, and the
triad a = b + s c on arrays beyond the caches, in bytes read and written.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib.util
import itertools
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import alone, cpu_seconds, parser, peak_mb, reset_peak, tell
from benchmarks.tables import TABLES, Case, StreamChoice, TableAbsentError
from pmw.data import MemorySource
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Geometric
from pmw.privacy.random_bits import BitSource
from queries import (
    UNITS,
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    Domain,
    Factor,
    IntegerAttribute,
    LinearQuery,
    decode_records,
    random_conjunctions,
    save_schema,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWS = 1_000_000
_SINGLE = 20_000
_REPEATED = 50_000  # lines


def main() -> None:
    """Run what is asked for."""
    arguments = _arguments()
    if arguments.curve:
        _draw_all(arguments)
    elif arguments.parts:
        for line in _parts(arguments):
            tell(line)
    else:
        _measure_all(arguments)


def _arguments() -> argparse.Namespace:
    made = parser(__doc__, tables=TABLES)
    made.add_argument("--parts", action="store_true", help="forms of questions, and what takes their time")
    made.add_argument("--curve", action="append", choices=[*CURVES, "all"], help="as something grows")
    made.add_argument("--most-records", type=int, default=10**7, help="of a curve")
    made.add_argument("--most-questions", type=int, default=10**6, help="of a curve")
    made.add_argument("--plot", type=Path, metavar="DIR", help="write figures of the curves there")
    arguments = made.parse_args()
    if "all" in (arguments.curve or ()):
        arguments.curve = list(CURVES)
    return arguments


def _measure_all(arguments: argparse.Namespace) -> None:
    for result in (*_noise(), _help()):
        tell(result)
    for name in arguments.table or TABLES:
        try:
            case = TABLES[name](arguments.data_dir, StreamChoice())
        except TableAbsentError as reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)
            continue
        try:
            for result in (
                _settled(case),
                _new_questions(case),
                *_streams(case, None),
                *_new_lines(case),
                *_repeated(case),
            ):
                tell({"table": name, "test": "marginal", **result})
            for result in (_textbook_settled(case), *_streams(case, _textbook(case))):
                tell({"table": name, "test": "query", **result})
        except pmw.BudgetError as reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)


def _textbook(case: Case) -> pmw.Options:
    """Single questions, each tested, none found wrong: the model has settled."""
    return pmw.Options(test=pmw.TestKind.QUERY, threshold=float(case.size))


def _rate(count: int, work: Callable[[], object]) -> float:
    return count / cpu_seconds(work)


def _noise() -> Iterable[dict[str, object]]:
    bits = BitSource.from_integer(1)
    scale = Fraction(100 * UNITS)
    for distribution in (Geometric(scale), DiscreteLaplace(scale), DiscreteGaussian(scale)):
        yield {
            "what": f"noise {type(distribution).__name__}",
            "array_draws_per_cpu_second": round(
                _rate(_DRAWS, partial(distribution.sample_array, bits, _DRAWS))
            ),
            "single_draws_per_cpu_second": round(_rate(_SINGLE, partial(_draw_singly, distribution, bits))),
        }


def _draw_singly(distribution: Distribution, bits: BitSource) -> None:
    for _ in range(_SINGLE):
        distribution.sample(bits)


def _children_cpu(command: list[str], stdin: Path | None = None, cwd: Path | None = None) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.devnull if stdin is None else stdin, "rb") as source:
        subprocess.run(command, stdin=source, stdout=subprocess.DEVNULL, check=True, cwd=cwd)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _help() -> dict[str, object]:
    seconds = min(_children_cpu([sys.executable, "-m", "pmw", "--help"]) for _ in range(5))
    return {"what": "pmw --help", "cpu_seconds": round(seconds, 3)}


def _settled(case: Case) -> dict[str, object]:
    """A session as it opens by default, in memory, that has seen its stream: marginals are measured."""
    options = pmw.Options(seed=1)
    with pmw.open_session(case.source(), case.domain, epsilon=1, delta=1e-9, options=options) as session:
        session.ask_all(case.queries)
        rate = _rate(len(case.queries), lambda: session.ask_all(case.queries, fresh=True))
    return {"what": "the stream once more, in memory", "queries_per_cpu_second": round(rate)}


def _new_questions(case: Case) -> dict[str, object]:
    """A settled session in memory that is asked what nobody asked before."""
    options = pmw.Options(seed=1)
    with pmw.open_session(case.source(), case.domain, epsilon=1, delta=1e-9, options=options) as session:
        session.ask_all(case.queries)
        others = never_asked(case.domain, len(case.queries), seed=3, asked=case.queries)
        before = session.state.asked
        rate = _rate(len(others), lambda: session.ask_all(others))
        asked_before = len(others) - (session.state.asked - before)
    return {
        "what": "new questions, in memory",
        "queries_per_cpu_second": round(rate),
        "asked_before": asked_before,
    }


def never_asked(
    domain: Domain, count: int, seed: int, asked: Iterable[LinearQuery] = ()
) -> list[LinearQuery]:
    """Return different questions that are none of some: about two or three attributes, as analysts ask them.

    Each is about a range of an ordered attribute, and any values of others, but never all of them.

    Args:
        domain: the declared attributes, at least two.
        count: how many; fewer where the domain has not so many.
        seed: of the draws.
        asked: the questions that are left out.
    """
    generator, known = np.random.default_rng(seed), {query.to_json() for query in asked}
    names, found = [one.name for one in domain if one.size > 1], list[LinearQuery]()
    for _ in range(50 * count):  # drawn at most
        if len(found) == count:
            break
        few = min(len(names), int(generator.integers(2, 4)))
        chosen = [names[place] for place in generator.permutation(len(names))[:few].tolist()]
        query = LinearQuery(domain, tuple(_some_cells(domain[name], generator) for name in chosen))
        if query.to_json() not in known:
            known.add(query.to_json())
            found.append(query)
    return found


def _some_cells(attribute: Attribute, generator: np.random.Generator) -> Factor:
    """Return a range of an ordered attribute, or any cells of another, but not all."""
    inside = np.zeros(attribute.size, dtype=np.int64)
    while not 0 < inside.sum() < inside.size:
        if attribute.is_ordered:
            low, high = np.sort(generator.integers(0, attribute.base_size, 2)).tolist()
            inside[:], inside[low : high + 1] = 0, 1
        else:
            inside = generator.integers(0, 2, attribute.size)
    return Factor((attribute.name,), inside * UNITS)


def _new_lines(case: Case) -> Iterable[dict[str, object]]:
    """``pmw ask --stream`` of lines that nobody asked before, and in a form that was not read before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = decode_records(case.records, np.random.default_rng(0))
        frame.to_csv(folder / "table.csv", index=False)
        path = folder / "settled.pmw"
        with pmw.open_session(folder / "table.csv", case.domain, epsilon=1, delta=1e-9, path=path) as session:
            session.ask_all(case.queries)
        command = [sys.executable, "-m", "pmw", "ask", str(path), "--stream"]
        start = _children_cpu(command)
        new = never_asked(case.domain, _NEW * len(_FORMS), seed=5, asked=case.queries)
        for place, (kind, write) in enumerate(_FORMS.items()):
            some = new[place * _NEW : (place + 1) * _NEW]
            with (folder / "questions.jsonl").open("w") as stream:
                stream.writelines(json.dumps(write(query, case.domain)) + "\n" for query in some)
            before = _stored(path)
            seconds = _children_cpu(command, folder / "questions.jsonl")
            yield {
                "what": f"pmw ask --stream, {kind}, {len(some):,} lines that nobody asked before",
                "lines_per_cpu_second": round(len(some) / seconds),
                "without_start_up": round(len(some) / (seconds - start)),
                "asked_before": len(some) - (_stored(path) - before),
            }


def _stored(path: Path) -> int:
    """Return how many different questions a session was asked."""
    with pmw.resume_session(path) as session:
        return session.state.asked


def _repeated(case: Case) -> Iterable[dict[str, object]]:
    """``pmw ask --stream`` where each of 50,000 lines was answered before; start-up included and told."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = decode_records(case.records, np.random.default_rng(0))
        frame.to_csv(folder / "table.csv", index=False)
        path = folder / "settled.pmw"
        with pmw.open_session(folder / "table.csv", case.domain, epsilon=1, delta=1e-9, path=path) as session:
            session.ask_all(case.queries)
        command = [sys.executable, "-m", "pmw", "ask", str(path), "--stream"]
        start = _children_cpu(command)
        for kind, write in _FORMS.items():
            lines = [json.dumps(write(query, case.domain)) + "\n" for query in case.queries]
            with (folder / "questions.jsonl").open("w") as stream:
                stream.writelines(itertools.islice(itertools.cycle(lines), _REPEATED))
            seconds = _children_cpu(command, folder / "questions.jsonl")
            yield {
                "what": f"pmw ask --stream, {kind}, {_REPEATED:,} lines that were answered before",
                "lines_per_cpu_second": round(_REPEATED / seconds),
                "without_start_up": round(_REPEATED / (seconds - start)),
                "start_up_cpu_seconds": round(start, 2),
            }


def _textbook_settled(case: Case) -> dict[str, object]:
    """A session of single questions whose tests all run and all turn out negative."""
    options = replace(_textbook(case), seed=1)
    with pmw.open_session(case.source(), case.domain, epsilon=1, delta=1e-9, options=options) as session:
        session.ask_all(case.queries[:500])
        rate = _rate(len(case.queries), lambda: session.ask_all(case.queries, fresh=True))
    return {"what": "settled, tested, in memory", "queries_per_cpu_second": round(rate)}


def _streams(case: Case, options: pmw.Options | None) -> Iterable[dict[str, object]]:
    """``pmw ask --stream`` on a new session file: every answer is durable.

    Args:
        case: the table and its stream.
        options: of the session; None for the usual ones, so that the model is fitted as the stream goes on.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = decode_records(case.records, np.random.default_rng(0))
        frame.to_csv(folder / "table.csv", index=False)
        save_schema(case.domain, folder / "schema.toml")
        for kind, write in (("structured", structured), ("where-text", _text)):
            with (folder / "questions.jsonl").open("w") as stream:
                for query in case.queries:
                    stream.write(json.dumps({"where": write(query, case.domain)}) + "\n")
            path = folder / f"{kind}.pmw"
            pmw.open_session(
                folder / "table.csv", case.domain, epsilon=1, delta=1e-9, path=path, options=options
            ).close()
            command = [sys.executable, "-m", "pmw", "ask", str(path), "--stream"]
            started = time.monotonic()
            seconds = _children_cpu(command, folder / "questions.jsonl")
            wall = time.monotonic() - started
            yield {
                "what": f"pmw ask --stream, {kind}, durable, with start-up and reading the table",
                "lines_per_second": round(len(case.queries) / wall),
                "lines_per_cpu_second": round(len(case.queries) / seconds),
            }


def _text(query: LinearQuery, domain: Domain) -> str:
    parts = []
    for name, condition in structured(query, domain).items():
        if not isinstance(condition, dict):
            continue
        if "in" in condition:
            values = ", ".join(repr(value) for value in condition["in"])
            parts.append(f'"{name}" IN ({values})')
        else:
            low, high = condition["between"]
            parts.append(f'"{name}" BETWEEN {low} AND {high}')
    return " AND ".join(parts)


def _statement(query: LinearQuery, domain: Domain) -> str:
    condition = _text(query, domain)
    head = f'SELECT COUNT(*) FROM "{domain.name}"'  # noqa: S608 - a declared name
    return f"{head} WHERE {condition}" if condition else head


_FORMS: dict[str, Callable[[LinearQuery, Domain], dict[str, object]]] = {
    "structured": lambda query, domain: {"where": structured(query, domain)},
    "where-text": lambda query, domain: {"where": _text(query, domain)},
    "SQL": lambda query, domain: {"sql": _statement(query, domain)},
}


# --- parts of an answer -------------------------------------------------------------------------------------

_OBJECTS = 10_000  # of each form, twice
_RANGES = 100_000
_SCOPE = ("age", "race", "hours-per-week")  # of the arrays
_ROOT = Path(__file__).resolve().parent.parent
_PARTS = {  # by the start of a path; the first that fits
    "queries/": "questions",
    "pmw/model/": "evaluation",
    "pmw/public/": "intervals",
    "pmw/data/": "counting",
    "pmw/session/store/": "storage",
    "pmw/session/": "session",
    "pmw/": "tests and noise",
}


def _parts(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a line for each form of question."""
    yield from measured(TABLES["adult-small"](arguments.data_dir, StreamChoice()), _SCOPE)


def measured(
    case: Case, scope: tuple[str, ...], questions: int = _OBJECTS, ranges: int = _RANGES
) -> Iterator[dict[str, Any]]:
    """Yield a line for each form of question: what it is, its rate, and the share of each part.

    Args:
        case: the table, and the stream that settles the session.
        scope: attributes that ranges are about.
        questions: objects of each form.
        ranges: questions as arrays; fewer where the scope has no more.
    """
    new = never_asked(case.domain, 6 * questions, seed=3, asked=case.queries)
    blocks = [new[start : start + questions] for start in range(0, 6 * questions, questions)]
    conditions = [[structured(query, case.domain) for query in block] for block in blocks[2:4]]
    settling, *ends = _ranges(case.domain, scope, ranges)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with pmw.open_session(
            case.source(), case.domain, epsilon=1, delta=1e-9, path=folder / "parts.pmw"
        ) as session:
            session.ask_all(case.queries)
            session.answer_arrays(scope, *settling)
            yield _line("query objects", session.ask_all, blocks[:2])
            yield _line("structured conditions", session.ask_all, conditions)
            yield _line("arrays of ranges", lambda ranges: session.answer_arrays(scope, *ranges), ends)
            session.export(folder / "public.model")
        model = pmw.load_model(folder / "public.model")
        yield _line("query objects to the public model", model.ask_all, blocks[4:])


def structured(query: LinearQuery, domain: Domain) -> dict[str, object]:
    """Return a conjunction as a structured condition on values."""
    where: dict[str, object] = {}
    for factor, cells in zip(query.factors, query.box, strict=True):
        (name,) = factor.scope
        attribute = domain[name]
        if isinstance(attribute, CategoricalAttribute):
            where[name] = {"in": [attribute.values[cell] for cell in np.flatnonzero(factor.weights)]}
        else:
            where[name] = {
                "between": [attribute.boundaries[cells.start], attribute.boundaries[cells.stop] - 1]
            }
    return where


def _ranges(domain: Domain, scope: tuple[str, ...], count: int) -> list[Any]:
    """Return different ranges in three parts: to settle with, to time and to profile."""
    ends = [np.column_stack(np.triu_indices(size)) for size in domain.scope_shape(scope)]
    shape = [len(pairs) for pairs in ends]
    order = np.random.default_rng(1).permutation(int(np.prod(shape)))[: count * 6 // 5]
    places = np.unravel_index(order, shape)
    chosen = np.stack([pairs[place] for pairs, place in zip(ends, places, strict=True)])
    cuts = [len(order) // 6, len(order) * 7 // 12]
    return [(part[:, :, 0].T, part[:, :, 1].T) for part in np.split(chosen, cuts, axis=1)]


def _line(form: str, ask: Callable[[Any], Any], blocks: list[Any]) -> dict[str, Any]:
    """Ask one block for the rate and another in the profiler."""
    timed, profiled = blocks
    started = time.process_time()
    answered = len(ask(timed))
    seconds = time.process_time() - started
    return {
        "what": form,
        "answers_per_s": round(answered / seconds),
        "shares": _shares(lambda: ask(profiled)),
    }


def _shares(work: Callable[[], object]) -> dict[str, float]:
    """Return the share of each part; what is called outside the project counts for the part that calls it."""
    profile = cProfile.Profile()
    profile.runcall(work)
    found: defaultdict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        part = _part(file)
        if part is not None or not callers:
            found[part or "other"] += own
            continue
        for (caller, _, _), (_, _, seconds, _) in callers.items():
            found[_part(caller) or "other"] += seconds
    whole = sum(found.values())
    return {part: round(found[part] / whole, 3) for part in sorted(found, key=lambda part: -found[part])}


def _part(file: str) -> str | None:
    path = Path(file)
    if not path.is_relative_to(_ROOT):
        return None
    inside = path.relative_to(_ROOT).as_posix()
    return next((part for start, part in _PARTS.items() if inside.startswith(start)), None)


# --- curves -------------------------------------------------------------------------------------------------

_CELLS = 10  # of an attribute
_ATTRIBUTES = (4, 6, 8, 11, 14, 17)  # so many make 10^4 to 10^17 cells
_LONGEST = (10**4, 10**5, 10**6)  # cells of one attribute
_WIDEST = (25, 50, 100, 200)  # attributes
_RECORDS = 100_000
_SETTLING = 10_000  # questions, and as many ranges, until so many bring no positive
_ROUNDS = 5  # of them at most
_NEW = 10_000  # questions as objects, to measure rates
_ARRAYS = 50_000  # ranges of three attributes, to measure rates; one in seven or so comes twice
_LONG = 100  # cells of an attribute of the session that answers very many questions
_BLOCK = 10_000  # questions at a time, as arrays
_SINGLY = 100_000  # most questions that are asked as objects
_HISTOGRAM = 380_800  # cells, of the peer that multiplies
_QUESTIONS = 100  # with weights of their own, which no cache holds
_TRIAD = 20_000_000  # numbers

_Point = dict[str, Any]


def _draw_all(arguments: argparse.Namespace) -> None:
    """Print the points of the curves that are asked for, each from a process of its own, and draw them."""
    points = []
    for curve in arguments.curve:
        for work in CURVES[curve](arguments):
            for point in alone(work):
                points.append({"curve": curve, **point})
                tell(points[-1])
    if arguments.plot is not None:
        draw_curves(points, arguments.plot)


def _table(records: int, attributes: int, cells: int = _CELLS) -> CodedRecords:
    """Return records whose attributes follow one another."""
    generator = np.random.default_rng(attributes)
    domain = Domain(
        tuple(IntegerAttribute(f"a{number}", 0, cells - 1) for number in range(attributes)), "made up"
    )
    columns: list[NDArray[np.uint8]] = []
    for _ in range(attributes):
        column = generator.integers(0, cells, records, dtype=np.uint8)
        if columns:
            column = np.where(generator.random(records, dtype=np.float32) < 0.5, columns[-1], column)
        columns.append(column)
    return CodedRecords(domain, tuple(columns))


def _boxes(generator: np.random.Generator, count: int, attributes: int, cells: int) -> NDArray[np.int64]:
    """Return first and last cells of ranges: int64, shape (2, count, attributes)."""
    return np.sort(generator.integers(0, cells, (2, count, attributes)), axis=0)


def _grown(records: int, attributes: int, first: int) -> list[_Point]:
    """Open a session on a table, ask it its first questions, and once it has settled new ones.

    A positive costs more than a thousand free answers. How many came while rates were measured is told.
    """
    table = _table(records, attributes)
    reset_peak()
    options, found = pmw.Options(seed=1), dict[str, Any]()
    started = time.process_time()
    with pmw.open_session(
        MemorySource(table), table.domain, epsilon=1, delta=1e-9, options=options
    ) as session:
        found["open_s"] = round(time.process_time() - started, 3)
        questions = list(random_conjunctions(table.domain, first, seed=1))
        found["first_questions"] = first
        found["first_s"] = round(cpu_seconds(lambda: session.ask_all(questions)), 3)
        generator, names = np.random.default_rng(0), table.domain.names[:3]
        for seed in range(2, 2 + _ROUNDS):
            settled = session.state.version
            session.ask_all(random_conjunctions(table.domain, _SETTLING, seed=seed))
            session.answer_arrays(names, *_boxes(generator, _SETTLING, len(names), _CELLS))
            if session.state.version == settled:
                break
        settled = session.state.version
        questions = never_asked(table.domain, _NEW, seed=0)
        ends = _boxes(generator, _ARRAYS, len(names), _CELLS)
        found["queries_per_s"] = round(_NEW / cpu_seconds(lambda: session.ask_all(questions)))
        found["arrays_per_s"] = round(_ARRAYS / cpu_seconds(lambda: session.answer_arrays(names, *ends)))
        found["positives_meanwhile"] = session.state.version - settled
        found["positives"] = session.state.positives_used
        found["model_cells"] = session.state.model.cells
    return [{"cells": float(table.domain.size), "records": records, **found, "peak_mb": round(peak_mb())}]


def _domain(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    for attributes in _ATTRIBUTES:
        yield partial(_grown, min(_RECORDS, arguments.most_records), attributes, 1000)


def _records(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    for power in range(5, 9):
        if 10**power <= arguments.most_records:
            yield partial(_grown, 10**power, 4, 200)


def _answered(records: int, most: int, *, arrays: bool) -> list[_Point]:
    """Answer ever more distinct questions, durably, and open the session again after 10^3, 10^4, …"""
    table, found, done, spent = _table(records, 4, _LONG), list[_Point](), 0, 0.0
    generator, pairs = np.random.default_rng(0), [("a0", "a1"), ("a1", "a2"), ("a2", "a3"), ("a0", "a3")]
    queries = iter(random_conjunctions(table.domain, most, seed=2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.pmw"
        reset_peak()
        with pmw.open_session(MemorySource(table), table.domain, epsilon=1, delta=1e-9, path=path) as session:
            for power in range(3, 10):
                if 10**power > most:
                    break
                while done < 10**power:
                    size = min(_BLOCK, 10**power - done)
                    if arrays:
                        ends = _boxes(generator, size, 2, _LONG)
                        names = pairs[(done // _BLOCK) % len(pairs)]
                        spent += cpu_seconds(partial(session.answer_arrays, names, *ends))
                    else:
                        some = [next(queries) for _ in range(size)]
                        spent += cpu_seconds(partial(session.ask_all, some))
                    done += size
                size_of = sum(file.stat().st_size for file in Path(folder).iterdir())
                found.append(
                    {
                        "asked_as": "arrays" if arrays else "queries",
                        "questions": done,
                        "cpu_s": round(spent, 3),
                        "per_s": round(done / spent),
                        "file_mb": round(size_of / 1e6, 2),
                        "reopen_s": _reopened(session, path),
                        "peak_mb": round(peak_mb()),
                    }
                )
    return found


_READ = (
    "import time, sys; from pathlib import Path; from pmw.session.maintenance import read_session; "
    "started = time.process_time(); read_session(Path(sys.argv[1])); print(time.process_time() - started)"
)


def _reopened(session: pmw.Session, path: Path) -> float:
    """Return the CPU seconds of reading a session in a process of its own, without its start."""
    session.status()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _READ, str(path)], check=True, capture_output=True, text=True
    )
    return round(float(done.stdout), 3)


def _questions(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    records, most = min(_RECORDS, arguments.most_records), arguments.most_questions
    yield partial(_answered, records, most, arrays=True)
    yield partial(_answered, records, min(_SINGLY, most), arrays=False)


def _corrected(records: int, questions: int) -> list[_Point]:
    """Ask a session one question after the other, and tell what each positive cost."""
    table, found = _table(records, 14), list[_Point]()
    with pmw.open_session(
        MemorySource(table),
        table.domain,
        epsilon=1,
        delta=1e-9,
        options=pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY),
    ) as session:
        for number, query in enumerate(random_conjunctions(table.domain, questions, seed=1), 1):
            before = session.state.version
            seconds = cpu_seconds(partial(session.ask, query))
            if session.state.version > before:
                found.append(
                    {
                        "positives": session.state.version,
                        "question": number,
                        "cpu_s": round(seconds / (session.state.version - before), 4),
                        "model_cells": session.state.model.cells,
                    }
                )
    return found


def _positives(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    yield partial(_corrected, min(_RECORDS, arguments.most_records), min(3000, arguments.most_questions))


def _long(cells: int, questions: int) -> list[_Point]:
    """Read and answer distinct where-texts about one attribute of many cells, which nobody else keeps."""
    generator = np.random.default_rng(cells)
    attributes = (IntegerAttribute("x", 0, cells - 1), CategoricalAttribute("y", tuple(range(5))))
    domain = Domain(attributes, "made up")
    columns = (generator.integers(0, one.size, _RECORDS) for one in attributes)
    codes = tuple(
        column.astype(np.min_scalar_type(one.size - 1))
        for column, one in zip(columns, attributes, strict=True)
    )
    opened = pmw.Options(seed=1)
    started = time.process_time()
    source = MemorySource(CodedRecords(domain, codes))
    with pmw.open_session(source, domain, epsilon=1, delta=1e-9, options=opened) as session:
        opening, point = time.process_time() - started, _Point(cells=cells, questions=questions)
        before = reset_peak()

        def ask() -> None:
            for number in range(questions):
                first, last = np.sort(generator.integers(0, cells, 2))
                session.ask(f"x BETWEEN {first} AND {last} AND y = {number % 5}")

        seconds = cpu_seconds(ask)
        grown = peak_mb() - before
        return [
            {
                **point,
                "open_cpu_s": round(opening, 3),
                "cpu_s": round(seconds, 3),
                "grown_mb": round(grown, 1),
            }
        ]


def _cells(arguments: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    for cells in _LONGEST:
        yield partial(_long, cells, min(2000 if cells < 10**6 else 200, arguments.most_questions))


def _wide(attributes: int, opening: pmw.Opening) -> list[_Point]:
    """Open a session over many attributes, ask it, and tell what each positive cost."""
    table = _table(_RECORDS, attributes, 5)
    options = pmw.Options(seed=1, opening=opening)
    started = time.process_time()
    source = MemorySource(table)
    with pmw.open_session(source, table.domain, epsilon=1, delta=1e-9, options=options) as session:
        opened = time.process_time() - started
        before = session.state.version
        asked = list(random_conjunctions(table.domain, 100, seed=1))
        seconds = cpu_seconds(lambda: session.ask_all(asked))
        positives = session.state.version - before
        return [
            {
                "attributes": attributes,
                "opening": opening.value,
                "open_cpu_s": round(opened, 3),
                "questions": len(asked),
                "positives": positives,
                "cpu_s_per_positive": round(seconds / max(1, positives), 4),
                "peak_mb": round(peak_mb(), 1),
            }
        ]


def _attributes(_: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    for attributes in _WIDEST:
        for opening in (pmw.Opening.ONE_WAY, pmw.Opening.PAIRS):
            yield partial(_wide, attributes, opening)


def _compared() -> list[_Point]:
    """Return what peers do per second, and what a settled session does on the same machine."""
    generator, rates = np.random.default_rng(0), dict[str, float | None]()
    histogram, weights = generator.random(_HISTOGRAM), generator.random((_QUESTIONS, _HISTOGRAM))
    rates["numpy_dots_per_s"] = (
        8 * _QUESTIONS / cpu_seconds(lambda: [histogram @ one for one in (*weights,) * 8])
    )
    first, second, third = np.zeros(_TRIAD), generator.random(_TRIAD), generator.random(_TRIAD)

    def triad() -> None:
        np.multiply(third, 3.0, out=first)
        np.add(first, second, out=first)

    triad()
    rates["triad_gb_per_s"] = 40 * _TRIAD / 1e9 / min(cpu_seconds(triad) for _ in range(3))
    rates["opendp_laplace_per_s"] = _opendp_rate()
    (ours,) = _grown(_RECORDS, 6, 5000)
    rates["queries_per_s"], rates["arrays_per_s"] = ours["queries_per_s"], ours["arrays_per_s"]
    point: _Point = {name: None if rate is None else round(rate, 1) for name, rate in rates.items()}
    for peer in ("numpy_dots_per_s", "opendp_laplace_per_s"):
        rate = rates[peer]
        for own in ("queries_per_s", "arrays_per_s"):
            ratio = None if rate is None else round((rates[own] or 0.0) / rate, 1)
            point[f"{own.removesuffix('_per_s')}_over_{peer.removesuffix('_per_s')}"] = ratio
    if rates["opendp_laplace_per_s"] is None:
        point["skipped"] = "opendp is not installed"
    return [point]


def _opendp_rate() -> float | None:
    """Return how many counts opendp adds Laplace noise to; None where it is not installed."""
    if importlib.util.find_spec("opendp") is None:
        return None
    import opendp.prelude as dp

    dp.enable_features("contrib")
    measurement = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=100.0)
    return 2000 / cpu_seconds(lambda: [measurement(1000) for _ in range(2000)])


def _peers(_: argparse.Namespace) -> Iterator[Callable[[], list[_Point]]]:
    yield _compared


CURVES: dict[str, Callable[[argparse.Namespace], Iterator[Callable[[], list[_Point]]]]] = {
    "domain": _domain,
    "records": _records,
    "questions": _questions,
    "positives": _positives,
    "cells": _cells,
    "attributes": _attributes,
    "peers": _peers,
}


# --- figures of the curves, one file for each ---------------------------------------------------------------

# For each curve its title, what it goes over, and its panels: a label, and the lines in it.
_PANELS: dict[str, tuple[str, str, str, tuple[tuple[str, dict[str, str]], ...]]] = {
    "domain": (
        "What grows with the domain: 100,000 made-up records, attributes of ten cells",
        "cells",
        "cells of the domain",
        (
            ("CPU seconds", {"open_s": "opening", "first_s": "1,000 first questions"}),
            (
                "new answers per CPU second",
                {"arrays_per_s": "as arrays", "queries_per_s": "as queries"},
            ),
        ),
    ),
    "records": (
        "What grows with the records: a made-up table of four attributes of ten cells",
        "records",
        "records",
        (
            ("CPU seconds", {"open_s": "opening", "first_s": "200 first questions"}),
            (
                "new answers per CPU second",
                {"arrays_per_s": "as arrays", "queries_per_s": "as queries"},
            ),
        ),
    ),
    "questions": (
        "What grows with the questions: one session file, every answer durable",
        "questions",
        "different questions so far",
        (
            ("CPU seconds", {"cpu_s": "answering", "reopen_s": "reopening"}),
            ("MB", {"file_mb": "file", "peak_mb": "memory"}),
        ),
    ),
    "positives": (
        "What grows with the positives: 14 attributes of ten cells, 100,000 made-up records",
        "positives",
        "positives so far",
        (("CPU seconds of each", {"cpu_s": ""}), ("cells of the model", {"model_cells": ""})),
    ),
}
_WIDE = 30  # largest number over smallest, from where on an axis is logarithmic
_COLOURS = ("#0b3d91", "#c1440e", "#1b7f5c", "#8f6bb3")


def draw_curves(points: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write a figure for each curve that has points."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    for curve, (title, over, label, panels) in _PANELS.items():
        own = [point for point in points if point["curve"] == curve]
        if not own:
            continue
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        figure.suptitle(title)
        for axes, (what, lines) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            _draw(axes, own, over, lines)
            axes.set(xlabel=label, ylabel=what)
        figure.savefig(folder / f"{curve}.png", dpi=130)


def _draw(axes: Axes, points: Sequence[dict[str, Any]], over: str, lines: dict[str, str]) -> None:
    """Draw some columns; where questions came in two ways, both."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    ways = list(dict.fromkeys(point.get("asked_as") for point in points))
    for place, (column, name) in enumerate(lines.items()):
        for way, style in zip(ways, ("o-", "^--"), strict=False):
            own = [point for point in points if point.get("asked_as") == way]
            label = name if way is None else f"{name}, {way}"
            x, y = [point[over] for point in own], [point[column] for point in own]
            axes.plot(x, y, style, color=_COLOURS[place], label=label, markersize=4)
    if over != "positives":
        axes.set_xscale("log")
    values = [point[column] for point in points for column in lines]
    if max(values) > _WIDE * min(values):
        axes.set_yscale("log")
    else:  # a logarithm would show a tick or two
        axes.set_ylim(0, 1.3 * max(values))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if any(lines.values()):
        axes.legend(frameon=False, fontsize=9)


if __name__ == "__main__":
    main()
