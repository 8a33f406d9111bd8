"""Coverage benchmark: how often the intervals of a session hold the truth, by source, over many seeds.

    python -m benchmarks.coverage --data-dir DIR [--table adult-small] [--seeds 20] [--adaptive-queries 2000]

prints one JSON line per table, kind of analyst and class of answers: their source, how many attributes they
are about, and whether these cut bins. ``--records N`` keeps the first N records of each table.

* ``fixed``: the table's stream, whose questions were there before any noise: what the intervals promise for;
* ``adaptive``: an analyst who looks at the noise. After each batch the next questions go to the attribute
  where released marginals and the model disagree most, and to the cells where they do. Nothing is promised
  there (``docs/analyst.md``), and the figures show what that costs;
* ``lowest``: an analyst who picks the worst part. Before the first question the one-way counts are public;
  each question is about the run of cells of some attribute that was released with the fewest records, so
  that its noise is likely to be far below 0, and about ranges of one or two other attributes.

Beside sources there is a line for each kind of questions whose errors a session looks at.
``typical_coverage`` is of the answers that say what is typical; ``narrower_half_width`` takes the narrower of
both for each answer.

``--population N`` looks at the intervals of ``pmw ask --population`` instead, in one line: each seed draws N
records of the table with replacement, opens a session on them, asks the stream, and looks whether the
fraction of the whole table is held. A class is a source and a number of attributes;
``least_coverage`` is that of the class for which it is least, of those with 100 answers or more.

Errors and half-widths are divided by the records. Each seed has a process of its own with one BLAS thread.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import alone, parser, promise_scores, tell, typical_scores
from benchmarks.tables import TABLES, Case, StreamChoice, TableAbsentError, true_counts
from pmw.display.texts import counted
from pmw.model.measurement import QueryMeasurement, RowsMeasurement
from pmw.public.answer import Answer
from pmw.public.state import PublicState, coarse_model
from queries import UNITS, CodedRecords, LinearQuery

_ENOUGH = 100  # answers, for a share of them
_BATCH = 25  # questions between two looks at the released numbers

_RUNS = 5  # of an attribute, of the fewest released records

Pairs = list[tuple[Answer, float, list[str]]]  # an answer, the truth in records, and its classes
Chooses = Callable[[PublicState, np.random.Generator], list[LinearQuery]]


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "stream", "budget", tables=TABLES, seeds=20)
    made.add_argument("--analyst", action="append", choices=["fixed", *CHOOSES])
    made.add_argument("--records", type=int, metavar="N")
    made.add_argument("--adaptive-queries", type=int, default=2000)
    made.add_argument("--population", type=int, metavar="N", help="records of a sample of the table")
    arguments = made.parse_args()
    for table in arguments.table or ["adult-small", "fertility"]:
        if arguments.population is not None:
            try:
                tell({"table": table, "seeds": arguments.seeds, **_population_line(table, arguments)})
            except TableAbsentError as reason:
                print(f"skipped {table}: {reason}", file=sys.stderr)
            continue
        for kind in arguments.analyst or ["fixed", *CHOOSES]:
            found: Pairs = []
            records = 1
            for seed in range(arguments.seeds):
                try:
                    records, pairs = alone(_answered, table, kind, seed, arguments)
                except (TableAbsentError, pmw.BudgetError) as reason:
                    print(f"skipped {table}: {reason}", file=sys.stderr)
                    break
                found += pairs
            for result in _results(found, records):
                tell({"table": table, "analyst": kind, "seeds": arguments.seeds, **result})


def _answered(table: str, kind: str, seed: int, arguments: argparse.Namespace) -> tuple[int, Pairs]:
    choice = StreamChoice(arguments.stream, arguments.stream_seed, arguments.queries)
    case = TABLES[table](arguments.data_dir, choice)
    columns = tuple(column[: arguments.records] for column in case.records.columns)
    case = replace(case, records=CodedRecords(case.domain, columns))
    options = pmw.Options(seed=seed)
    with pmw.open_session(
        case.source(), case.domain, epsilon=arguments.epsilon, delta=arguments.delta, options=options
    ) as session:
        if kind == "fixed":
            truth = true_counts(case)
            answers = session.ask_all(case.queries)
            classes = [_classes(session.state, query) for query in case.queries]
            return case.size, list(zip(answers, truth.tolist(), classes, strict=True))
        return case.size, _adaptive(session, case, arguments.adaptive_queries, seed, CHOOSES[kind])


def _adaptive(session: pmw.Session, case: Case, size: int, seed: int, chooses: Chooses) -> Pairs:
    generator = np.random.default_rng(seed)
    source = case.source()
    pairs: Pairs = []
    seen = set[bytes]()
    while len(pairs) < size:
        questions = chooses(session.state, generator)
        for query, answer in zip(questions, session.ask_all(questions, fresh=True), strict=True):
            truth = query.answer(source.counts(query.scope)) / UNITS
            pairs.append((answer, truth, [*_classes(session.state, query), *_first(query, seen)]))
    return pairs


def _first(query: LinearQuery, seen: set[bytes]) -> list[str]:
    """Return the class of questions that were not asked before; who looks for errors asks some again."""
    if query.key() in seen:
        return []
    seen.add(query.key())
    return ["asked for the first time"]


def _classes(state: PublicState, query: LinearQuery) -> list[str]:
    """Return what classes a question is of, beside those of its answer; its marginal has the bins."""
    is_cut = state.grid(query.scope) is not state.domain and not state.coarsening.is_aligned(query)
    return ["bins cut" if is_cut else "no bin cut", counted(len(query.scope), "attribute")]


def _of_the_lowest_counts(state: PublicState, generator: np.random.Generator) -> list[LinearQuery]:
    """Return questions about runs of cells that opening released with the fewest records."""
    questions = []
    for _ in range(_BATCH):
        measured = state.opening[int(generator.integers(len(state.opening)))]
        (name,) = measured.scope
        sums = np.concatenate([[0.0], np.cumsum(measured.values)])
        first, stop = np.triu_indices(sums.size, 1)
        order = np.argsort(sums[stop] - sums[first], kind="stable")
        place = int(order[int(generator.integers(min(_RUNS, order.size)))])
        ranges = {name: (int(first[place]), int(stop[place]) - 1)}
        questions.append(_beside_others(state, ranges, int(generator.integers(1, 3)), generator))
    return questions


def _disagreements(state: PublicState) -> list[tuple[float, str, NDArray[np.float64]]]:
    """Return how far the model is from the released numbers of each attribute, the farthest first.

    For each attribute: the largest distance over its cells in standard deviations, its name, and the signed
    distances, summed over the other attributes of the marginal: float64, one per cell.
    """
    found: dict[str, tuple[float, str, NDArray[np.float64]]] = {}
    for measured in state.measurements:
        if isinstance(measured, QueryMeasurement | RowsMeasurement):
            continue
        coarse = state.coarsening.coarse
        binned = (
            measured.values.shape
            == coarse.scope_shape(measured.scope)
            != state.domain.scope_shape(measured.scope)
        )
        model = coarse_model(state) if binned else state.model
        distance = measured.values - model.marginal(measured.scope)
        for axis, name in enumerate(measured.scope):
            others = tuple(other for other in range(len(measured.scope)) if other != axis)
            along = distance.sum(axis=others)
            noise = np.sqrt(measured.cell_variances.sum(axis=others))
            size = float(np.max(np.abs(along) / noise))
            if name not in found or size > found[name][0]:
                bin_ = state.coarsening.bins[state.domain.index(name)] if binned else None
                cells = along if bin_ is None else along[bin_] / np.bincount(bin_)[bin_]
                found[name] = (size, name, cells)
    return sorted(found.values(), key=lambda one: -one[0])


def _where_the_model_is_off(state: PublicState, generator: np.random.Generator) -> list[LinearQuery]:
    """Return questions about one of the three worst attributes, where it is worst, and up to two others."""
    worst, questions = _disagreements(state), []
    for _ in range(_BATCH):
        _, name, along = worst[int(generator.integers(min(3, len(worst))))]
        last = int(np.abs(np.cumsum(along)).argmax()) if along.size > 2 else int(np.abs(along).argmax())
        ranges = {name: (0, last) if 2 < along.size > last + 1 else (last, last)}
        questions.append(_beside_others(state, ranges, int(generator.integers(3)), generator))
    return questions


def _beside_others(
    state: PublicState, ranges: dict[str, tuple[int, int]], count: int, generator: np.random.Generator
) -> LinearQuery:
    """Return a question about a range of one attribute, and about ranges of some others."""
    others = [other for other in state.domain.names if other not in ranges]
    for other in generator.choice(others, size=count, replace=False).tolist():
        low, high = sorted(generator.integers(state.domain[other].size, size=2).tolist())
        ranges[other] = (low, high)
    return LinearQuery.cells(state.domain, ranges)


CHOOSES: dict[str, Chooses] = {"adaptive": _where_the_model_is_off, "lowest": _of_the_lowest_counts}


def _population_line(table: str, arguments: argparse.Namespace) -> dict[str, object]:
    """Return how often intervals of samples hold the fractions of their table, and how wide they are."""
    found = [one for seed in range(arguments.seeds) for one in alone(_of_a_sample, table, seed, arguments)]
    classes: dict[str, list[bool]] = defaultdict(list)
    for name, held, _ in found:
        classes[name].append(held)
    coverage = {
        name: round(float(np.mean(held)), 5) for name, held in sorted(classes.items()) if len(held) >= _ENOUGH
    }
    return {
        "sample": arguments.population,
        "answers": len(found),
        "population_coverage": round(float(np.mean([held for _, held, _ in found])), 5),
        "by_class": coverage,
        "least_coverage": min(coverage.values(), default=None),
        "median_half_width": round(float(np.median([width / 2 for _, _, width in found])), 6),
    }


def _of_a_sample(table: str, seed: int, arguments: argparse.Namespace) -> list[tuple[str, bool, float]]:
    """Return of each question its class, whether the table's fraction was held, and the interval's width."""
    choice = StreamChoice(arguments.stream, arguments.stream_seed, arguments.queries)
    case = TABLES[table](arguments.data_dir, choice)
    drawn = np.random.default_rng(seed).integers(0, case.size, arguments.population)
    sample = replace(
        case, records=CodedRecords(case.domain, tuple(one[drawn] for one in case.records.columns))
    )
    with pmw.open_session(
        sample.source(),
        case.domain,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        options=pmw.Options(seed=seed),
    ) as session:
        answers = session.ask_all(case.queries)
        intervals = session.population_intervals(case.queries)
    fractions = true_counts(case) / case.size
    return [
        (
            f"{answer.source.value}, {counted(len(query.scope), 'attribute')}",
            one.low <= fraction <= one.high,
            one.high - one.low,
        )
        for query, answer, one, fraction in zip(
            case.queries, answers, intervals, fractions.tolist(), strict=True
        )
        if one is not None
    ]


def _results(pairs: Pairs, records: int) -> list[dict[str, object]]:
    """Return coverage and widths, of all answers, by source, and of questions that cut bins or cut none."""
    by_source: dict[str, Pairs] = defaultdict(list)
    for pair in pairs:
        source = pair[0].source.value
        kind = [] if pair[0].kind is None else [pair[0].kind.describe()]
        for name in ("all", source, *pair[2], *kind):
            by_source[name].append(pair)
    results: list[dict[str, object]] = []
    for source, some in by_source.items():
        exact = np.array([true for _, true, _ in some])
        counts = np.array([answer.count for answer, _, _ in some])
        results.append(
            {
                "source": source,
                "answers": len(some),
                **promise_scores([answer for answer, _, _ in some], exact, records),
                **typical_scores([answer for answer, _, _ in some], exact, records),
                "mean_error": round(float(np.abs(counts - exact).mean()) / records, 6),
            }
        )
    return results


if __name__ == "__main__":
    main()
