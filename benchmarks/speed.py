"""Speed benchmark: settled sessions, lines of a stream, start-up; forms of questions; a file that grows.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed --data-dir DIR [--table adult-small]

prints JSON lines. Rates are per CPU second of the process that does the work, children included. New
questions are all different; how many of them were asked before all the same is told beside their rate.

``--parts`` tells what new questions to a settled session cost in each form, and which part takes it: a line
for each form over Adult with 380,800 cells: query objects, structured conditions and arrays of ranges,
durable in a session file, and query objects to the public model file. Shares of time come from a second run
with other questions in the profiler, which makes many short calls look longer than they are.

``--ranges`` tells how many lines of ``pmw ask --stream`` are answered in a CPU second, without start-up, of a
session that was asked 10,000 conditions of three ranges of five attributes: 50,000 lines with these, and
10,000 with others. With ``--beside DIR`` another checkout's come first, of a session of its own.

``--grow 1000000`` tells what a session file and its process come to after so many questions, of which a
quarter of each chunk, or more, was asked before: while it goes, how many were answered, how many of them were
new, what the process holds, and the bytes of the file for each stored answer; then how long it takes to
read the session, to resume it and to verify it in processes of their own.
"""

from __future__ import annotations

import cProfile
import itertools
import json
import os
import pstats
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pmw
from benchmarks.runner import alone, cpu_seconds, parser, peak_mb, reset_peak, skipping, tell, used
from benchmarks.tables import TABLES, Case, StreamChoice
from pmw.session.maintenance import read_session
from pmw.session.store.store import SessionStore
from queries import (
    UNITS,
    Attribute,
    CategoricalAttribute,
    Domain,
    Factor,
    IntegerAttribute,
    LinearQuery,
    decode_records,
    random_conjunctions,
)

_NEW = 10_000  # lines of each form that nobody asked before
_REPEATED = 50_000  # lines


def main() -> None:
    """Run what is asked for."""
    made = parser(__doc__, tables=TABLES)
    made.add_argument("--parts", action="store_true", help="forms of questions, and what takes their time")
    made.add_argument("--ranges", action="store_true", help="streams of conditions of three ranges")
    made.add_argument("--beside", type=Path, metavar="DIR", help="a checkout whose streams are timed, too")
    made.add_argument("--grow", type=int, metavar="N", help="ask so many questions of one session")
    arguments = made.parse_args()
    if arguments.parts:
        lines = measured(TABLES["adult-small"](arguments.data_dir, StreamChoice()), _SCOPE)
    elif arguments.ranges or arguments.beside:
        lines = _beside([tree.resolve() for tree in (arguments.beside, Path()) if tree is not None])
    elif arguments.grow is not None:
        lines = _grown(arguments.grow)
    else:
        lines = _all(arguments.table or TABLES, arguments.data_dir)
    for line in lines:
        tell(line)


def _all(tables: Iterable[str], folder: Path | None) -> Iterator[dict[str, Any]]:
    seconds = min(_children_cpu([sys.executable, "-m", "pmw", "--help"]) for _ in range(5))
    yield {"what": "pmw --help", "cpu_seconds": round(seconds, 3)}
    for name in tables:
        with skipping(name):
            case = TABLES[name](folder, StreamChoice())
            yield {"table": name, "test": "query", **_tested(case)}
            for result in _lines(case):
                yield {"table": name, "test": "marginal", **result}


def _children_cpu(command: list[str], stdin: Path | None = None) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.devnull if stdin is None else stdin, "rb") as source:
        subprocess.run(command, stdin=source, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _beside(trees: Sequence[Path]) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        yield from _streams(Path(name), trees)


def _streams(folder: Path, trees: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Time lines that were asked before, and lines that were not, by each checkout in turn."""
    generator, names = np.random.default_rng(1), ("age", "income", "hours", "weeks", "score")
    table = pd.DataFrame({name: generator.integers(0, 100, 20_000) for name in names})
    table.to_csv(folder / "five.csv", index=False)
    kinds = (f'[[attributes]]\nname = "{name}"\nkind = "integer"\nmin = 0\nmax = 99\n' for name in names)
    (folder / "five.toml").write_text("\n".join(['name = "people"', *kinds]))
    asked = dict[str, None]()
    while len(asked) < 2 * _NEW:
        ends = np.sort(generator.integers(0, 100, (3, 2)), axis=1).tolist()
        three = zip(np.sort(generator.choice(5, 3, replace=False)).tolist(), ends, strict=True)
        asked[json.dumps({"where": {names[place]: {"between": both} for place, both in three}})] = None
    before, new = list(asked)[:_NEW], list(asked)[_NEW:]
    for tree in trees:
        command = ["open", "five.pmw", "--data", "five.csv", "--schema", "five.toml", "--epsilon", "1"]
        place = folder / f"{len(list(folder.iterdir()))}"
        shutil.copytree(folder, place, ignore=lambda _, found: [one for one in found if "five." not in one])
        _stream_cpu([*command, "--delta", "1e-9"], [], tree, place)
        stream = ["ask", "five.pmw", "--stream"]
        _stream_cpu(stream, before, tree, place)
        start = min(_stream_cpu(stream, before[:1], tree, place) for _ in range(3))
        for what, some in (("asked before", before * 5), ("never asked", new)):
            rate = len(some) / (_stream_cpu(stream, some, tree, place) - start)
            yield {"what": f"stream, {what}", "tree": tree.name, "lines_per_cpu_second": round(rate)}


def _stream_cpu(arguments: Sequence[str], lines: Sequence[str], tree: Path, folder: Path) -> float:
    """Return the CPU seconds of a command of a checkout, with lines as its input."""
    (folder / "lines").write_text("".join(f"{line}\n" for line in lines))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command, env = [sys.executable, "-m", "pmw", *arguments], {**os.environ, "PYTHONPATH": str(tree)}
    with (folder / "lines").open("rb") as given:
        subprocess.run(  # noqa: S603
            command, stdin=given, stdout=subprocess.DEVNULL, check=True, cwd=folder, env=env
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _tested(case: Case) -> dict[str, object]:
    """Single questions, each tested, none found wrong: a session in memory that has settled."""
    with case.opened(test=pmw.TestKind.QUERY, threshold=float(case.size), seed=1) as session:
        session.ask_all(case.queries[:500])
        seconds = cpu_seconds(lambda: session.ask_all(case.queries, fresh=True))
    return {
        "what": "settled, tested, in memory",
        "queries_per_cpu_second": round(len(case.queries) / seconds),
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
        table = folder / "table.csv"
        decode_records(case.records, np.random.default_rng(0)).to_csv(table, index=False)
        with pmw.open_session(table, case.domain, epsilon=1, delta=1e-9, path=path) as session:
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


def _stored(path: Path) -> int:
    """Return how many different questions a session was asked."""
    with pmw.resume_session(path) as session:
        return session.state.asked


def _text(query: LinearQuery, domain: Domain) -> str:
    """Return a conjunction as the condition of a statement."""
    parts = []
    for name, where in structured(query, domain).items():
        if "in" in where:
            parts.append(f'"{name}" IN ({", ".join(map(repr, where["in"]))})')
        else:
            parts.append('"{}" BETWEEN {} AND {}'.format(name, *where["between"]))
    return " AND ".join(parts)


_FORMS: dict[str, Callable[[LinearQuery, Domain], dict[str, object]]] = {
    "structured": lambda query, domain: {"where": structured(query, domain)},
    "where-text": lambda query, domain: {"where": _text(query, domain)},
    "SQL": lambda query, domain: {
        "sql": f'SELECT COUNT(*) FROM "{domain.name}" WHERE {_text(query, domain)}'  # noqa: S608 - declared names
    },
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


def structured(query: LinearQuery, domain: Domain) -> dict[str, dict[str, Any]]:
    """Return a conjunction as a structured condition on values."""
    where: dict[str, dict[str, Any]] = {}
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


# --- a file that grows -----------------------------------------------------------------------------------

_CHUNK = 512  # questions at a time, as the command line takes them
_AGAIN = 128  # of each chunk, questions that were asked before
_REPORTS = 10  # reports along the way
_RECORDS = 20_000
_GROWN = Domain(  # eight attributes, four of them long: enough for millions of different questions
    (
        IntegerAttribute("age", 0, 99),
        IntegerAttribute("income", 0, 99),
        IntegerAttribute("hours", 0, 49),
        IntegerAttribute("weeks", 0, 51),
        CategoricalAttribute("region", ("north", "east", "south", "west", "abroad")),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("work", ("none", "private", "public", "self")),
        CategoricalAttribute("schooling", tuple(f"level {number}" for number in range(6))),
    ),
    name="people",
)


def _grown(count: int) -> Iterator[dict[str, Any]]:
    """Answer so many questions in one new session and yield what it came to."""
    generator, asked, started = np.random.default_rng(1), 0, time.monotonic()
    table = pd.DataFrame(
        {
            one.name: generator.choice(list(one.values), _RECORDS)
            if isinstance(one, CategoricalAttribute)
            else generator.integers(0, 50, _RECORDS)
            for one in _GROWN
        }
    )
    every = max(1, -(-count // _REPORTS // _CHUNK))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grown.pmw"
        with pmw.open_session(table, _GROWN, epsilon=1, delta=1e-9, path=path) as session:
            for number, chunk in enumerate(_chunks(count), start=1):
                session.ask_all(chunk)
                asked += len(chunk)
                if number % every == 0 or asked == count:
                    yield {
                        "answered": asked,
                        "seconds": round(time.monotonic() - started, 1),
                        "held_mb": round(used(os.getpid())[1], 1),
                        "share": round(session.state.ledger.share, 4),
                        **_file_facts(path),
                    }
        yield {"closed": True, **_file_facts(path)}
        for what, work in (
            ("read", read_session), ("resume", pmw.resume_session), ("verify", pmw.verify_session)
        ):  # fmt: skip
            yield {"what": what, **alone(_alone, path, work)}


def _chunks(count: int) -> Iterator[list[LinearQuery]]:
    """Yield questions, a quarter of each chunk from among the first ones."""
    generator, early = np.random.default_rng(2), list[LinearQuery]()
    for seed, start in enumerate(range(0, count, _CHUNK)):
        size = min(_CHUNK, count - start)
        new = max(size - _AGAIN, 0) if early else size
        fresh = list(random_conjunctions(_GROWN, new, seed=seed))
        again = [early[place] for place in generator.integers(0, max(1, len(early)), size - new)]
        early = (early + fresh)[:10_000]
        yield fresh + again


def _file_facts(path: Path) -> dict[str, object]:
    with closing(SessionStore.open(path)) as store:
        stored = store.answers.count()
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    return {
        "stored": stored,
        "file_mb": round(size / 1e6, 1),
        "bytes_per_answer": round(size / max(stored, 1)),
    }


def _alone(path: Path, work: Callable[[Path], object]) -> dict[str, object]:
    """Return the seconds and the peak memory of a piece of work on a session file."""
    reset_peak()
    begun = time.monotonic()
    work(path)
    return {"seconds": round(time.monotonic() - begun, 2), "peak_mb": round(peak_mb())}


if __name__ == "__main__":
    main()
