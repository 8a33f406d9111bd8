"""Speed benchmark: noise, answering once a session has settled, durable streams, and the command's start.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed --data-dir DIR

prints JSON lines. Rates are per CPU second of the process that does the work, children included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

import pmw
from benchmarks.speed_parts import structured
from benchmarks.streams import StreamChoice
from benchmarks.tables import TABLES, Case, TableAbsentError
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Geometric
from pmw.privacy.random_bits import BitSource
from queries import (
    UNITS,
    Domain,
    LinearQuery,
    decode_records,
    random_conjunctions,
    save_schema,
)

_DRAWS = 1_000_000
_SINGLE = 20_000
_REPEATED = 50_000  # lines


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    data = os.environ.get("PMW_DATA_DIR")
    parser.add_argument("--data-dir", type=Path, default=None if data is None else Path(data))
    parser.add_argument("--table", action="append", choices=sorted(TABLES), help="default: all of them")
    given = parser.parse_args()
    for result in (*_noise(), _help()):
        print(json.dumps(result), flush=True)
    for name in given.table or TABLES:
        try:
            case = TABLES[name](given.data_dir, StreamChoice())
        except TableAbsentError as reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)
            continue
        try:
            for result in (_settled(case), _new_questions(case), *_streams(case, None), *_repeated(case)):
                print(json.dumps({"table": name, "test": "marginal", **result}), flush=True)
            for result in (_textbook_settled(case), *_streams(case, _textbook(case))):
                print(json.dumps({"table": name, "test": "query", **result}), flush=True)
        except pmw.BudgetError as reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)


def _textbook(case: Case) -> pmw.Options:
    """Single questions, each tested, none found wrong: the model has settled."""
    return pmw.Options(test=pmw.TestKind.QUERY, threshold=float(case.size))


def _rate(count: int, work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return count / (time.process_time() - started)


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
        others = list(random_conjunctions(case.domain, len(case.queries), seed=3))
        rate = _rate(len(others), lambda: session.ask_all(others))
    return {"what": "new questions, in memory", "queries_per_cpu_second": round(rate)}


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


if __name__ == "__main__":
    main()
