"""Speed benchmark: noise, answering once a session has settled, durable streams, start-up; and parts.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed --data-dir DIR [--table adult-small]

prints JSON lines. Rates are per CPU second of the process that does the work, children included. New
questions are all different; how many of them were asked before all the same is told beside their rate.

``--parts`` tells what new questions to a settled session cost in each form, and which part takes it: a line
for each form over Adult with 380,800 cells: query objects, structured conditions and arrays of ranges,
durable in a session file, and query objects to the public model file. Shares of time come from a second run
with other questions in the profiler, which makes many short calls look longer than they are.
"""

from __future__ import annotations

import cProfile
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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pmw
from benchmarks.runner import cpu_seconds, parser, tell
from benchmarks.tables import TABLES, Case, StreamChoice, TableAbsentError
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from pmw.privacy.random_bits import BitSource
from queries import (
    UNITS,
    Attribute,
    CategoricalAttribute,
    Domain,
    Factor,
    LinearQuery,
    decode_records,
)

_DRAWS = 1_000_000
_NEW = 10_000  # lines of each form that nobody asked before
_SINGLE = 20_000
_REPEATED = 50_000  # lines


def main() -> None:
    """Run what is asked for."""
    made = parser(__doc__, tables=TABLES)
    made.add_argument("--parts", action="store_true", help="forms of questions, and what takes their time")
    arguments = made.parse_args()
    if arguments.parts:
        for line in measured(TABLES["adult-small"](arguments.data_dir, StreamChoice()), _SCOPE):
            tell(line)
    else:
        _all(arguments.table or TABLES, arguments.data_dir)


def _all(tables: Iterable[str], folder: Path | None) -> None:
    for result in (*_noise(), _help()):
        tell(result)
    for name in tables:
        try:
            case = TABLES[name](folder, StreamChoice())
            # Single questions, each tested, none found wrong: the model has settled.
            textbook = pmw.Options(test=pmw.TestKind.QUERY, threshold=float(case.size))
            for result in (
                _settled(case, "the stream once more, in memory", pmw.Options(), len(case.queries)),
                _new_questions(case),
                *_streams(case, None),
                *_lines(case),
            ):
                tell({"table": name, "test": "marginal", **result})
            for result in (
                _settled(case, "settled, tested, in memory", textbook, 500),
                *_streams(case, textbook),
            ):
                tell({"table": name, "test": "query", **result})
        except (TableAbsentError, pmw.BudgetError) as reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)


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
            "single_draws_per_cpu_second": round(
                _rate(_SINGLE, partial(list, (distribution.sample(bits) for _ in range(_SINGLE))))
            ),
        }


def _children_cpu(command: list[str], stdin: Path | None = None, cwd: Path | None = None) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.devnull if stdin is None else stdin, "rb") as source:
        subprocess.run(command, stdin=source, stdout=subprocess.DEVNULL, check=True, cwd=cwd)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _help() -> dict[str, object]:
    seconds = min(_children_cpu([sys.executable, "-m", "pmw", "--help"]) for _ in range(5))
    return {"what": "pmw --help", "cpu_seconds": round(seconds, 3)}


def _settled(case: Case, what: str, options: pmw.Options, first: int) -> dict[str, object]:
    """A session in memory that has seen the first questions of its stream, so that nothing is found wrong."""
    options = replace(options, seed=1)
    with pmw.open_session(case.source(), case.domain, epsilon=1, delta=1e-9, options=options) as session:
        session.ask_all(case.queries[:first])
        rate = _rate(len(case.queries), lambda: session.ask_all(case.queries, fresh=True))
    return {"what": what, "queries_per_cpu_second": round(rate)}


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


def _lines(case: Case) -> Iterable[dict[str, object]]:
    """``pmw ask --stream`` of a settled session, in each form: new lines, and those of the stream.

    Start-up is included, and told.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, questions = folder / "settled.pmw", folder / "questions.jsonl"
        with pmw.open_session(
            _written(case, folder), case.domain, epsilon=1, delta=1e-9, path=path
        ) as session:
            session.ask_all(case.queries)
        command = [sys.executable, "-m", "pmw", "ask", str(path), "--stream"]
        start = _children_cpu(command)
        new = never_asked(case.domain, _NEW * len(_FORMS), seed=5, asked=case.queries)
        for place, (kind, write) in enumerate(_FORMS.items()):
            never = new[place * _NEW : (place + 1) * _NEW]
            repeated = list(itertools.islice(itertools.cycle(case.queries), _REPEATED))
            for some, which in ((never, "that nobody asked before"), (repeated, "that were answered before")):
                questions.write_text("".join(json.dumps(write(query, case.domain)) + "\n" for query in some))
                before = _stored(path)
                seconds = _children_cpu(command, questions)
                yield {
                    "what": f"pmw ask --stream, {kind}, {len(some):,} lines {which}",
                    "lines_per_cpu_second": round(len(some) / seconds),
                    "without_start_up": round(len(some) / (seconds - start)),
                    "start_up_cpu_seconds": round(start, 2),
                    "asked_before": len(some) - (_stored(path) - before),
                }


def _written(case: Case, folder: Path) -> Path:
    """Write a case's table as CSV, and return its file."""
    decode_records(case.records, np.random.default_rng(0)).to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def _stored(path: Path) -> int:
    """Return how many different questions a session was asked."""
    with pmw.resume_session(path) as session:
        return session.state.asked


def _streams(case: Case, options: pmw.Options | None) -> Iterable[dict[str, object]]:
    """``pmw ask --stream`` on a new session file: every answer is durable."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = _written(case, folder)
        for kind, write in (("structured", structured), ("where-text", _text)):
            with (folder / "questions.jsonl").open("w") as stream:
                for query in case.queries:
                    stream.write(json.dumps({"where": write(query, case.domain)}) + "\n")
            path = folder / f"{kind}.pmw"
            pmw.open_session(table, case.domain, epsilon=1, delta=1e-9, path=path, options=options).close()
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


def measured(
    case: Case, scope: tuple[str, ...], questions: int = _OBJECTS, ranges: int = _RANGES
) -> Iterator[dict[str, Any]]:
    """Yield a line for each form of question: what it is, its rate, and the share of each part."""
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


if __name__ == "__main__":
    main()
