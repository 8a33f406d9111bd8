"""Curves: what a session costs as tables, questions and positives grow, beside floors and peers.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.curves
        --curve domain|records|questions|positives|cells|attributes|peers|all
        [--most-records 10000000] [--most-questions 1000000] [--plot DIR]

prints a JSON line for each point, each in a process of its own. Seconds are CPU seconds, rates are per CPU
second, ``peak_mb`` is of the process. Tables are made up with a fixed seed: attributes of ten cells, each of
which follows the one before in half of the records.

Beside a curve stands its floor, measured in the same process. For records in a Parquet file it is DuckDB's
``GROUP BY`` of all attributes on one thread, and numpy's count of codes that are in memory. For a positive it
is numpy that goes over an array as long as the model, as often as a fit does at most. For arrays it is
numpy that reads the questions off a cumulative table, for lines json (and orjson where it is installed) that
only parses them. Peers are numpy's dot product of a histogram and each question's weights, one draw of
opendp's Laplace mechanism per question where opendp is installed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import alone, cpu_seconds, parser, peak_mb, reset_peak, tell
from benchmarks.speed import never_asked, structured
from benchmarks.tables import Case
from pmw.data import MemorySource
from pmw.display.figures import new_figure, tidy
from pmw.session.maintenance import read_session
from queries import CategoricalAttribute, CodedRecords, Domain, IntegerAttribute, random_conjunctions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
_SINGLY = 100_000  # most questions that are asked as lines
_LEAST = 3  # power of ten of the fewest questions
_FIRST = 200  # questions to a table of ever more records
_PASSES = 120  # of a fit over its model, at most
_HISTOGRAM = 380_800  # cells, of the peer that multiplies
_QUESTIONS = 100  # with weights of their own, which no cache holds

_Point = dict[str, Any]


def main() -> None:
    """Print the points of the curves that are asked for, each from a process of its own, and draw them."""
    made = parser(__doc__)
    made.add_argument("--curve", action="append", choices=[*CURVES, "all"], required=True)
    made.add_argument("--most-records", type=int, default=10**7)
    made.add_argument("--most-questions", type=int, default=10**6)
    made.add_argument("--plot", type=Path, metavar="DIR", help="write figures of the curves there")
    arguments = made.parse_args()
    if "all" in arguments.curve:
        arguments.curve = list(CURVES)
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


def _opened(table: CodedRecords, **chosen: Any) -> tuple[pmw.Session, float]:
    """Return a new session over a table, and the CPU seconds that opening takes."""
    started = time.process_time()
    session = Case("made up", table, ()).opened(seed=1, **chosen)
    return session, round(time.process_time() - started, 3)


def _boxes(generator: np.random.Generator, count: int, attributes: int, cells: int) -> NDArray[np.int64]:
    """Return first and last cells of ranges: int64, shape (2, count, attributes)."""
    return np.sort(generator.integers(0, cells, (2, count, attributes)), axis=0)


def _grown(records: int, attributes: int, first: int) -> list[_Point]:
    """Open a session on a table, ask it its first questions, and once it has settled new ones.

    A positive costs more than a thousand free answers. How many came while rates were measured is told.
    """
    table = _table(records, attributes)
    reset_peak()
    session, seconds = _opened(table)
    with session:
        questions = list(random_conjunctions(table.domain, first, seed=1))
        first_s = cpu_seconds(lambda: session.ask_all(questions))
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
        queries_s = cpu_seconds(lambda: session.ask_all(questions))
        arrays_s = cpu_seconds(lambda: session.answer_arrays(names, *ends))
        state = session.state
    return [
        {
            "cells": float(table.domain.size),
            "records": records,
            "open_s": seconds,
            "first_questions": first,
            "first_s": round(first_s, 3),
            "queries_per_s": round(_NEW / queries_s),
            "arrays_per_s": round(_ARRAYS / arrays_s),
            "positives_meanwhile": state.version - settled,
            "positives": state.positives_used,
            "model_cells": state.model.cells,
            "peak_mb": round(peak_mb()),
        }
    ]


def _read(records: int, questions: int) -> list[_Point]:
    """Open a session on a Parquet file and ask it its first questions, beside what only counts."""
    import duckdb
    import pandas as pd

    table = _table(records, 4)
    domain, columns = table.domain, table.columns
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as engine:
        path = Path(folder) / "t.parquet"
        engine.execute("SET threads = 1")
        frame = pd.DataFrame(dict(zip(domain.names, columns, strict=True)), copy=False)
        engine.from_df(frame).write_parquet(str(path))
        started = time.process_time()
        np.bincount(np.ravel_multi_index(columns, domain.shape), minlength=domain.size)
        counted = time.process_time() - started
        grouped = f"SELECT {', '.join(domain.names)}, count(*) FROM '{path}' GROUP BY ALL"  # noqa: S608 - our own names
        group_by = cpu_seconds(lambda: engine.execute(grouped).fetchall())
        del table, columns, frame
        before = reset_peak()
        options, started = pmw.Options(seed=1), time.process_time()
        with pmw.open_session(path, domain, epsilon=1, delta=1e-9, options=options) as session:
            opened = time.process_time() - started
            asked = list(random_conjunctions(domain, questions, seed=1))
            first = cpu_seconds(lambda: session.ask_all(asked))
        return [
            {
                "records": records,
                "open_s": round(opened, 3),
                "first_questions": len(asked),
                "first_s": round(first, 3),
                "grown_mb": round(peak_mb() - before, 1),
                "duckdb_group_by_s": round(group_by, 4),
                "numpy_count_s": round(counted, 4),
                "open_over_group_by": round(opened / group_by, 1),
            }
        ]


class _Form(NamedTuple):
    """A form in which questions come."""

    block: Callable[[int, int], Any]  # makes the next ones, given how many were made and are wanted
    ask: Callable[[pmw.Session, Any], object]
    floors: dict[str, Callable[[Any], object]]  # what does less with a block, by the name of its rate


def _as_arrays(domain: Domain, _: int) -> _Form:
    """Return ranges of two attributes."""
    generator, pairs = np.random.default_rng(0), list(itertools.pairwise((*domain.names, domain.names[0])))
    scopes = [domain.scope(pair) for pair in pairs]
    sums = np.random.default_rng(1).random((_LONG + 1, _LONG + 1)).cumsum(axis=0).cumsum(axis=1)

    def look_up(block: Any) -> NDArray[np.float64]:
        _, (low, high) = block
        (a, b), (c, d) = low.T, high.T + 1
        return np.asarray(sums[c, d] - sums[a, d] - sums[c, b] + sums[a, b])

    return _Form(
        lambda done, size: (scopes[done // _BLOCK % len(scopes)], _boxes(generator, size, 2, _LONG)),
        lambda session, block: session.answer_arrays(block[0], *block[1]),
        {"numpy_per_s": look_up},
    )


def _as_lines(domain: Domain, most: int) -> _Form:
    """Return structured conditions as lines of JSON, all different."""
    lines = [json.dumps(structured(query, domain)) for query in never_asked(domain, most, seed=2)]
    parsers = [importlib.import_module(one) for one in ("json", "orjson") if importlib.util.find_spec(one)]
    return _Form(
        lambda done, size: lines[done : done + size],
        lambda session, block: session.ask_all(list(map(json.loads, block))),
        {f"{one.__name__}_per_s": partial(_parsed, one.loads) for one in parsers},
    )


def _parsed(loads: Callable[[str], object], lines: Sequence[str]) -> list[object]:
    return list(map(loads, lines))


_FORMS = {"arrays": _as_arrays, "lines": _as_lines}
_REPEATED = 20  # times that a floor is timed


def _answered(records: int, most: int, asked_as: str) -> list[_Point]:
    """Answer ever more distinct questions, durably; after 10^3, 10^4, … ask the last ones again."""
    table, found, done, spent = _table(records, 4, _LONG), list[_Point](), 0, 0.0
    form = _FORMS[asked_as](table.domain, most)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.pmw"
        reset_peak()
        with pmw.open_session(MemorySource(table), table.domain, epsilon=1, delta=1e-9, path=path) as session:
            for wanted in (10**power for power in range(_LEAST, 10) if 10**power <= most):
                while done < wanted:
                    size = min(_BLOCK, wanted - done)
                    block = form.block(done, size)
                    spent += cpu_seconds(partial(form.ask, session, block))
                    done += size
                session.status()
                size_of = sum(file.stat().st_size for file in Path(folder).iterdir())
                point: _Point = {
                    "asked_as": asked_as,
                    "questions": done,
                    "asked_before": done - session.state.asked,
                    "cpu_s": round(spent, 3),
                    "per_s": round(done / spent),
                    "file_mb": round(size_of / 1e6, 2),
                    "peak_mb": round(peak_mb()),
                    "reopen_s": round(alone(partial(cpu_seconds, partial(read_session, path))), 3),
                    "again_per_s": round(size / cpu_seconds(partial(form.ask, session, block))),
                }
                for name, floor in form.floors.items():
                    seconds = cpu_seconds(lambda: [floor(block) for _ in range(_REPEATED)])  # noqa: B023  # at once
                    point[name] = round(_REPEATED * size / max(seconds, 1e-6))
                found.append(point)
    return found


def _corrected(records: int, questions: int) -> list[_Point]:
    """Ask a session one question after the other, and tell what each positive cost."""
    found = list[_Point]()
    session, _ = _opened(_table(records, 14), opening=pmw.Opening.ONE_WAY)
    with session:
        for number, query in enumerate(random_conjunctions(session.domain, questions, seed=1), 1):
            before = session.state.version
            seconds = cpu_seconds(partial(session.ask, query))
            version, cells = session.state.version, session.state.model.cells
            if version > before:
                each = {"cpu_s": seconds / (version - before), "numpy_s": _passes(cells)}
                rounded = {name: round(one, 4) for name, one in each.items()}
                found.append({"positives": version, "question": number, "model_cells": cells, **rounded})
    return found


def _passes(cells: int) -> float:
    """Return the CPU seconds in which numpy goes over an array, as often as a fit goes over its model."""
    first, second = np.random.default_rng(0).random((2, cells))
    return cpu_seconds(lambda: [np.multiply(first, second, out=second) for _ in range(_PASSES)])


def _long(cells: int, questions: int) -> list[_Point]:
    """Read and answer distinct where-texts about one attribute of many cells, which nobody else keeps."""
    generator = np.random.default_rng(cells)
    attributes = (IntegerAttribute("x", 0, cells - 1), CategoricalAttribute("y", tuple(range(5))))
    codes = tuple(
        generator.integers(0, one.size, _RECORDS).astype(np.min_scalar_type(one.size - 1))
        for one in attributes
    )
    session, seconds = _opened(CodedRecords(Domain(attributes, "made up"), codes))
    with session:
        before = reset_peak()

        def ask() -> None:
            for number in range(questions):
                first, last = np.sort(generator.integers(0, cells, 2))
                session.ask(f"x BETWEEN {first} AND {last} AND y = {number % 5}")

        point: _Point = {"cells": cells, "questions": questions, "open_cpu_s": seconds}
        point["cpu_s"] = round(cpu_seconds(ask), 3)
        return [{**point, "grown_mb": round(peak_mb() - before, 1)}]


def _wide(attributes: int, opening: pmw.Opening) -> list[_Point]:
    """Open a session over many attributes, ask it, and tell what each positive cost."""
    session, opened = _opened(_table(_RECORDS, attributes, 5), opening=opening)
    with session:
        before = session.state.version
        asked = list(random_conjunctions(session.domain, 100, seed=1))
        seconds = cpu_seconds(lambda: session.ask_all(asked))
        positives = session.state.version - before
        return [
            {
                "attributes": attributes,
                "opening": opening.value,
                "open_cpu_s": opened,
                "questions": len(asked),
                "positives": positives,
                "cpu_s_per_positive": round(seconds / max(1, positives), 4),
                "peak_mb": round(peak_mb(), 1),
            }
        ]


def _compared() -> list[_Point]:
    """Return what peers do per second, and what a settled session does on the same machine."""
    generator = np.random.default_rng(0)
    histogram, weights = generator.random(_HISTOGRAM), generator.random((_QUESTIONS, _HISTOGRAM))
    dots = cpu_seconds(lambda: [histogram @ one for one in (*weights,) * 8])
    peers = {"numpy_dots": 8 * _QUESTIONS / dots, "opendp_laplace": _opendp_rate()}
    (settled,) = _grown(_RECORDS, 6, 5000)
    own = {name: settled[f"{name}_per_s"] for name in ("queries", "arrays")}
    point: _Point = {
        f"{name}_per_s": None if rate is None else round(rate, 1) for name, rate in {**peers, **own}.items()
    }
    for (peer, rate), (name, ours) in itertools.product(peers.items(), own.items()):
        point[f"{name}_over_{peer}"] = None if rate is None else round(ours / rate, 1)
    return [point if peers["opendp_laplace"] else {**point, "skipped": "opendp is not installed"}]


def _opendp_rate() -> float | None:
    """Return how many counts opendp adds Laplace noise to; None where it is not installed."""
    if importlib.util.find_spec("opendp") is None:
        return None
    import opendp.prelude as dp

    dp.enable_features("contrib")
    measurement = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=100.0)
    return 2000 / cpu_seconds(lambda: [measurement(1000) for _ in range(2000)])


_Works: TypeAlias = Iterable[Callable[[], list[_Point]]]
CURVES: dict[str, Callable[[argparse.Namespace], _Works]] = {
    "domain": lambda given: (
        partial(_grown, min(_RECORDS, given.most_records), attributes, min(1000, given.most_questions))
        for attributes in _ATTRIBUTES
    ),
    "records": lambda given: (
        partial(_read, 10**power, min(_FIRST, given.most_questions))
        for power in range(4, 9)
        if 10**power <= given.most_records
    ),
    "questions": lambda given: (
        partial(_answered, min(_RECORDS, given.most_records), min(most, given.most_questions), form)
        for form, most in (("arrays", given.most_questions), ("lines", _SINGLY))
    ),
    "positives": lambda given: (
        partial(_corrected, min(_RECORDS, given.most_records), min(3000, given.most_questions)),
    ),
    "cells": lambda given: (
        partial(_long, cells, min(2000 if cells < 10**6 else 200, given.most_questions)) for cells in _LONGEST
    ),
    "attributes": lambda _: (
        partial(_wide, attributes, opening)
        for attributes in _WIDEST
        for opening in (pmw.Opening.ONE_WAY, pmw.Opening.PAIRS)
    ),
    "peers": lambda _: (_compared,),
}


# --- figures of the curves, one file for each ---------------------------------------------------------------

# For each curve its title, the label of what it goes over, and its panels with the lines in them.
_PANELS: dict[str, tuple[str, str, dict[str, dict[str, str]]]] = {
    "records": (
        "What grows with the records: a Parquet file of four attributes of ten cells",
        "records",
        {
            "CPU seconds": {
                "open_s": "opening",
                "first_s": "200 first questions",
                "duckdb_group_by_s": "DuckDB's GROUP BY",
                "numpy_count_s": "numpy's count of codes",
            },
            "MB": {"grown_mb": "memory"},
        },
    ),
    "questions": (
        "What grows with the questions: one session file, every answer durable",
        "different questions so far",
        {
            "answers per CPU second": {
                "per_s": "never asked",
                "again_per_s": "asked before",
                "numpy_per_s": "numpy's look-up",
                "json_per_s": "json's parsing",
            },
            "MB": {"file_mb": "file", "peak_mb": "memory"},
        },
    ),
}
_WIDE = 30  # largest number over smallest, from where on an axis is logarithmic
_COLOURS = ("#0b3d91", "#c1440e", "#1b7f5c", "#8f6bb3")


def draw_curves(points: Sequence[_Point], folder: Path) -> None:
    """Write a figure for each curve that has points."""
    folder.mkdir(parents=True, exist_ok=True)
    for curve, (title, label, panels) in _PANELS.items():
        own = [point for point in points if point["curve"] == curve]
        if not own:
            continue
        figure = new_figure(9, 4.6)
        figure.suptitle(title)
        for axes, (what, lines) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
            _draw(axes, own, curve, lines)
            axes.set(xlabel=label, ylabel=what)
        figure.savefig(folder / f"curve-{curve}.png", dpi=130)


def _draw(axes: Axes, points: Sequence[_Point], over: str, lines: dict[str, str]) -> None:
    """Draw some columns; where questions came in two ways, both."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    ways = dict.fromkeys(point.get("asked_as") for point in points)
    values: list[float] = []
    for colour, (column, name) in zip(_COLOURS, lines.items(), strict=False):
        for way, style in zip(ways, ("o-", "^--"), strict=False):
            own = [point for point in points if point.get("asked_as") == way and column in point]
            if own:  # else it is the floor of another way
                label, y = name if way is None else f"{name}, {way}", [point[column] for point in own]
                axes.plot([point[over] for point in own], y, style, color=colour, label=label, markersize=4)
                values += y
    axes.set_xscale("log")
    if 0 < _WIDE * min(values) < max(values):  # memory may have shrunk
        axes.set_yscale("log")
    else:  # a logarithm would show a tick or two
        axes.set_ylim(0, 1.3 * max(1e-3, *values))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    tidy(axes)
    axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


if __name__ == "__main__":
    main()
