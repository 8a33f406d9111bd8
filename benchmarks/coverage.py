"""Coverage benchmark: how often the intervals of a session hold the truth, by source, over many seeds.

    python -m benchmarks.coverage --data-dir DIR [--table adult-small] [--seeds 20] [--population N]

prints one JSON line per table and class of answers: their source, how many attributes they are about, whether
these cut bins, and the kind of questions whose errors a session looks at. ``typical_coverage`` is of the
answers that say what is typical; ``narrower_half_width`` takes the narrower of both for each answer.

``--population N`` looks at the intervals of ``pmw ask --population`` instead, in one line: each seed draws N
records of the table with replacement, opens a session on them, asks the stream, and looks whether the
fraction of the whole table is held. A class is a source and a number of attributes; ``least_coverage`` is
that of the class for which it is least, of those with 100 answers or more.

Errors and half-widths are divided by the records. Each seed has a process of its own with one BLAS thread.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.runner import alone, parser, promise_scores, skipping, tell
from benchmarks.tables import TABLES, Case, StreamChoice, true_counts
from pmw.display.texts import counted
from pmw.public.answer import Answer
from pmw.public.state import PublicState
from queries import CodedRecords, LinearQuery

_ENOUGH = 100  # answers, for a share of them

Pairs = list[tuple[Answer, float, list[str]]]  # an answer, the truth in records, and its classes


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "stream", "budget", tables=TABLES, seeds=20)
    made.add_argument("--population", type=int, metavar="N", help="records of a sample of the table")
    arguments = made.parse_args()
    for table in arguments.table or ["adult-small", "fertility"]:
        head = {"table": table, "seeds": arguments.seeds}
        with skipping(table):
            if arguments.population is not None:
                tell({**head, **_population_line(table, arguments)})
                continue
            found = [alone(_answered, table, seed, arguments) for seed in range(arguments.seeds)]
            for result in _results([pair for _, pairs in found for pair in pairs], found[0][0]):
                tell({**head, **result})


def _case(table: str, arguments: argparse.Namespace) -> Case:
    choice = StreamChoice(arguments.stream, arguments.stream_seed, arguments.queries)
    return TABLES[table](arguments.data_dir, choice)


def _answered(table: str, seed: int, arguments: argparse.Namespace) -> tuple[int, Pairs]:
    case = _case(table, arguments)
    with case.opened((arguments.epsilon, arguments.delta), seed=seed) as session:
        answers, truth = session.ask_all(case.queries), true_counts(case).tolist()
        classes = [_classes(session.state, query) for query in case.queries]
        return case.size, list(zip(answers, truth, classes, strict=True))


def _classes(state: PublicState, query: LinearQuery) -> list[str]:
    """Return what classes a question is of, beside those of its answer; its marginal has the bins."""
    is_cut = state.grid(query.scope) is not state.domain and not state.coarsening.is_aligned(query)
    return ["bins cut" if is_cut else "no bin cut", counted(len(query.scope), "attribute")]


def _results(pairs: Pairs, records: int) -> list[dict[str, object]]:
    """Return coverage and widths, of all answers, by source, and by the classes of questions."""
    by_source: dict[str, Pairs] = defaultdict(list)
    for pair in pairs:
        kind = [] if pair[0].kind is None else [pair[0].kind.describe()]
        for name in ("all", pair[0].source.value, *pair[2], *kind):
            by_source[name].append(pair)
    results: list[dict[str, object]] = []
    for source, some in by_source.items():
        answers, exact = [answer for answer, _, _ in some], np.array([true for _, true, _ in some])
        errors = np.abs(np.array([answer.count for answer in answers]) - exact)
        scores = promise_scores(answers, exact, records) | _typical_scores(answers, exact.tolist(), records)
        mean = round(float(errors.mean()) / records, 6)
        results.append({"source": source, "answers": len(some), **scores, "mean_error": mean})
    return results


def _typical_scores(answers: Sequence[Answer], exact: Sequence[float], records: int) -> dict[str, object]:
    """Return how often the truth is within what is typical, and how wide the narrower interval is."""
    pairs = zip(answers, exact, strict=True)
    inside = [one.typical[0] <= true <= one.typical[1] for one, true in pairs if one.typical]
    ends = [[end for end in (one.interval, one.typical) if end] for one in answers]
    widths = [min((high - low for low, high in some), default=np.inf) for some in ends]
    return {
        "typical": len(inside),
        "typical_coverage": round(float(np.mean(inside)), 4) if inside else None,
        "narrower_half_width": round(float(np.median(widths)) / 2 / records, 6),
    }


def _population_line(table: str, arguments: argparse.Namespace) -> dict[str, object]:
    """Return how often intervals of samples hold the fractions of their table, and how wide they are."""
    import pandas as pd

    found = pd.DataFrame(
        [one for seed in range(arguments.seeds) for one in alone(_of_a_sample, table, seed, arguments)]
    )
    by_class = found.groupby("class")["held"].agg(["mean", "size"])
    coverage = by_class["mean"][by_class["size"] >= _ENOUGH].round(5).to_dict()
    return {
        "sample": arguments.population,
        "answers": len(found),
        "population_coverage": round(float(found["held"].mean()), 5),
        "by_class": coverage,
        "least_coverage": min(coverage.values(), default=None),
        "median_half_width": round(float(found["width"].median()) / 2, 6),
    }


def _of_a_sample(table: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Return of each question its class, whether the table's fraction was held, and the interval's width."""
    case = _case(table, arguments)
    drawn = np.random.default_rng(seed).integers(0, case.size, arguments.population)
    sample = CodedRecords(case.domain, tuple(one[drawn] for one in case.records.columns))
    opened = replace(case, records=sample).opened((arguments.epsilon, arguments.delta), seed=seed)
    with opened as session:
        answers, intervals = session.ask_all(case.queries), session.population_intervals(case.queries)
    fractions = (true_counts(case) / case.size).tolist()
    return [
        {
            "class": f"{answer.source.value}, {counted(len(query.scope), 'attribute')}",
            "held": one.low <= fraction <= one.high,
            "width": one.high - one.low,
        }
        for query, answer, one, fraction in zip(case.queries, answers, intervals, fractions, strict=True)
        if one is not None
    ]


if __name__ == "__main__":
    main()
