"""Parts of an answer: what new questions to a settled session cost in each form, and which part takes it.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed_parts --data-dir DIR

prints a JSON line for each form of question over Adult with 380,800 cells: query objects, structured
conditions and arrays of ranges, each answer durable in a session file, and query objects to the public model
file. Rates are per CPU second. Shares of time come from a second run with other questions in the profiler,
which makes many short calls look longer than they are.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pmw
from benchmarks.streams import StreamChoice
from benchmarks.tables import Case, adult_small
from queries import CategoricalAttribute, Domain, LinearQuery, random_conjunctions

__all__ = ["measured", "structured"]

_QUESTIONS = 10_000  # of each form, twice
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


def main() -> None:
    """Print a line for each form."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    data = os.environ.get("PMW_DATA_DIR")
    parser.add_argument("--data-dir", type=Path, default=None if data is None else Path(data))
    case = adult_small(parser.parse_args().data_dir, StreamChoice())
    for line in measured(case, _SCOPE):
        print(json.dumps(line), flush=True)


def measured(
    case: Case, scope: tuple[str, ...], questions: int = _QUESTIONS, ranges: int = _RANGES
) -> Iterator[dict[str, Any]]:
    """Yield a line for each form of question: what it is, its rate, and the share of each part.

    Args:
        case: the table, and the stream that settles the session.
        scope: attributes that ranges are about.
        questions: objects of each form.
        ranges: questions as arrays; fewer where the scope has no more.
    """
    new = list(random_conjunctions(case.domain, 6 * questions, seed=3))
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
    for name, cells in zip(query.scope, query.box, strict=True):
        attribute = domain[name]
        if isinstance(attribute, CategoricalAttribute):
            where[name] = {"in": list(attribute.values[cells])}
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
