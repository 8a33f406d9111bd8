"""Caching benchmark: sessions under an accuracy contract, on Turbo's workload and on Adult.

    python -m benchmarks.caching --data-dir DIR [--part covid] [--part adult] [--seeds 3]

prints one JSON line per run, and lines of other methods beside them:

* ``covid``: one block of Turbo's Covid table (Kostopoulou et al., SOSP 2023): 128 cells, every conjunction of
  value subsets (34,425 questions), 70,000 of them asked, drawn evenly or by Zipf's law with exponent 1; alpha
  5 %, beta 0.001. ``one-table`` is Laplace noise on every cell, once, at the smallest epsilon that keeps the
  contract where the number of records is public, as in Turbo: a question about more than half of the cells is
  answered by the others. Turbo's figures are quoted: they come from its own workload of 1,008,532 records.
* ``adult``: Adult with 14 attributes, its fixed stream of 10,000 questions, beta 0.001 for each different
  question, delta 1e-9; alpha 1 % and 2 %. ``gaussian-per-question`` is the epsilon of Gaussian noise on each
  different question.

Under replace-one no record may be dropped, so each attribute of the Covid table has two cells more, 960 in
all. Errors are parts of the records; the tables are public. Noise is seeded, so that a run can be repeated.
The rate counts questions per CPU second of ``Session.ask_all``, repeated ones included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import pmw
from benchmarks.runner import parser, pin_threads, skipping, tell
from benchmarks.tables import TABLES, Case, StreamChoice, TableAbsentError, true_counts, zipf_drawn
from pmw.model.measurement import half_width
from pmw.planning.plans import plan_accuracy
from pmw.privacy.filter import open_filter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.tail_bounds import sum_half_width
from queries import UNITS, CategoricalAttribute, CodedRecords, Domain, LinearQuery
from queries.workloads import SplitMix64

_ALPHA, _BETA, _ASKED = 0.05, 0.001, 70_000
_TURBO = {  # epsilon on the uniform and on the Zipf stream, questions per second; see numbers above
    "exact cache, Laplace noise per question": ((4.10, 1.91), None),
    "vanilla PMW": ((3.90, 4.03), 261),
    "PMW-Bypass (Turbo)": ((0.163, 0.193), 560),
}
_ADULT = ((0.01, "2"), (0.02, "1"))  # alpha, and the epsilon that it is held to
_CHUNK = 1000


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "data", seeds=3)
    made.add_argument("--part", action="append", choices=("covid", "adult"))
    made.add_argument("--asked", type=int, default=_ASKED)
    made.add_argument("--questions", type=int, default=10_000, help="of Adult's stream")
    arguments = made.parse_args()
    pin_threads()
    parts = {"covid": _covid, "adult": _adult}
    for part in arguments.part or list(parts):
        with skipping(part):
            for line in parts[part](arguments):
                tell(line)


# --- Covid -------------------------------------------------------------------------------------------------


def _covid(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    folder = arguments.data_dir
    for relation in pmw.NeighboringRelation:
        case = _covid_case(folder, cells_for_all=relation is pmw.NeighboringRelation.REPLACE_ONE)
        options: dict[str, Any] = {"confidence": 1 - _BETA, "neighboring_relation": relation}
        plan = plan_accuracy(case.domain, records=case.size, accuracy=_ALPHA, options=pmw.Options(**options))
        if plan is None:
            continue
        epsilon = float(plan.contract.budget.epsilon)
        head = {"part": "covid", "neighbors": relation.value, "records": case.size, "cells": case.domain.size}
        yield {**head, "method": "one-table", "epsilon": _one_table(case.size, relation)}
        for place, stream in enumerate(("uniform", "zipf-1")):
            of = {**head, "stream": stream}
            for name, (epsilons, rate) in _TURBO.items():
                yield {**of, "method": name, "epsilon": epsilons[place], "rate": rate, "quoted": True}
            for seed in range(arguments.seeds):
                asked = _drawn(case.queries, stream, arguments.asked, seed)
                chosen = {**options, "accuracy": _ALPHA, "records": case.size, "seed": seed}
                yield {**of, "method": "session", "seed": seed, **_run(case, asked, chosen, epsilon, 0)}


def _covid_case(folder: Path | None, *, cells_for_all: bool) -> Case:
    """Return one block of the Covid table, with the questions of the workload."""
    path = None if folder is None else folder / "turbo" / "covid_blocks.npz"
    if path is None or not path.exists():
        raise TableAbsentError("no turbo/covid_blocks.npz in --data-dir (or PMW_DATA_DIR)")
    declared = json.loads((path.parent / "meta.json").read_text())["covid"]
    attributes = [
        CategoricalAttribute(
            name, tuple(declared["values"][name]), missing=cells_for_all, other=cells_for_all
        )
        for name in declared["attributes"]
    ]
    domain = Domain(tuple(attributes), name="covid")
    with np.load(path) as blocks:
        counts = blocks["counts"][0]
    codes = np.repeat(np.indices(counts.shape).reshape(counts.ndim, -1), counts.ravel(), axis=1)
    subsets = [
        [[cell for cell in range(size) if mask >> cell & 1] for mask in range(1, 2**size)]
        for size in counts.shape
    ]
    queries = tuple(
        LinearQuery.everything(domain).within(
            {name: np.array(cells) for name, cells in zip(domain.names, chosen, strict=True)}
        )
        for chosen in itertools.product(*subsets)
    )
    records = CodedRecords(domain, tuple(column.astype(np.uint8) for column in codes))
    return Case("covid", records, queries)


def _drawn(queries: Sequence[LinearQuery], stream: str, asked: int, seed: int) -> list[LinearQuery]:
    """Return questions drawn evenly, or by Zipf's law over a random order of them."""
    generator = SplitMix64(seed)
    if stream == "uniform":
        return [queries[generator.below(len(queries))] for _ in range(asked)]
    return list(zipf_drawn(queries, asked, generator))


def _one_table(records: int, relation: pmw.NeighboringRelation) -> float:
    """Return the epsilon of one noisy table of 128 cells that answers every question within the contract."""
    moved = 1 if relation is pmw.NeighboringRelation.ADD_REMOVE else 2

    def width(scale: float) -> float:
        noise = DiscreteLaplace(Fraction(round(scale * UNITS)))
        return sum_half_width(noise, 64.0, 1 - _BETA, peak=1.0)

    low, high = 1.0, 1e6
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if width(middle) <= _ALPHA * records else (low, middle)
    return float(f"{moved / low:.3g}")


# --- Adult -------------------------------------------------------------------------------------------------


def _adult(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    case = TABLES["adult-full"](arguments.data_dir, StreamChoice(size=arguments.questions))
    different = len(set(case.queries))
    for alpha, epsilon in _ADULT:
        head = {"part": "adult", "alpha": alpha, "questions": len(case.queries), "different": different}
        yield {**head, "method": "gaussian-per-question", "epsilon": _gaussian(case, alpha, different)}
        for name in (None, pmw.SparseVectorKind.SECH2):
            options: dict[str, Any] = {"confidence": 1 - _BETA, "sparse_vector": name}
            for seed in range(arguments.seeds):
                chosen = {**options, "accuracy": alpha, "records": case.size, "seed": seed}
                try:
                    run = _run(case, case.queries, chosen, epsilon, "1e-9")
                except pmw.BudgetError as reason:
                    run = {"epsilon": float(epsilon), "refused_to_open": str(reason)}
                tests = "default" if name is None else name.value
                yield {**head, "method": "session", "sparse_vector": tests, "seed": seed, **run}


def _gaussian(case: Case, alpha: float, different: int) -> float:
    """Return the least epsilon, to 1 %, at which Gaussian noise on each question keeps alpha, by zCDP."""
    sigma = alpha * case.size / half_width(DiscreteGaussian(Fraction(UNITS)), 1 - _BETA)
    rho, epsilon = different / (2 * sigma**2), 0.01
    while float(open_filter(pmw.Budget.of(epsilon, "1e-9"), pmw.Composition.ZCDP).cap) < rho:
        epsilon *= 1.01
    return float(f"{epsilon:.3g}")


# --- both --------------------------------------------------------------------------------------------------


def _run(
    case: Case,
    asked: Sequence[LinearQuery],
    options: Mapping[str, Any],
    epsilon: float | str,
    delta: float | str,
) -> dict[str, Any]:
    """Return what a session answered: shares of answers, errors, bars and the rate."""
    truths = dict(zip(case.queries, true_counts(case).tolist(), strict=True))
    opening = time.process_time()
    with case.opened((epsilon, delta), **options) as session:
        start, answers = time.process_time(), list[pmw.Answer]()
        for place in range(0, len(asked), _CHUNK):
            answers += session.ask_all(asked[place : place + _CHUNK])
        seconds = time.process_time() - start
        state = session.state
    given = [  # a count, the ends of its bar, and the truth
        (answer.count, *(answer.interval or (0.0, math.inf)), truths[query])
        for answer, query in zip(answers, asked, strict=True)
        if not answer.is_refused
    ]
    counts, low, high, exact = np.array(given, dtype=np.float64).T
    errors, widest = np.abs(counts - exact) / case.size, np.maximum(high - counts, counts - low).max()
    return {
        "epsilon": float(epsilon),
        "spent_share": round(state.ledger.share, 4),
        "answered": len(given) / len(asked),
        "positives": [state.positives(place) for place in range(len(state.plan))],
        "mean_error": float(f"{errors.mean():.3g}"),
        "largest_error": float(f"{errors.max():.3g}"),
        "over_alpha": float(np.mean(errors > (options["accuracy"]))),
        "widest_bar": float(f"{widest / case.size:.6g}"),
        "missed": float(np.mean((exact < low) | (exact > high))),
        "seconds_to_open": round(start - opening, 2),
        "rate": round(len(asked) / seconds),
    }


if __name__ == "__main__":
    main()
