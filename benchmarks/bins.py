"""Bins benchmark: a question that cuts bins of a large table, with as many bins as its counts allow, or told.

    python -m benchmarks.bins [--records 8000000] [--seeds 3] [--bins 16]

prints one JSON line per seed: the bins, the answer's interval beside the truth, the errors and half-widths of
further random questions in parts of the records, CPU time and the peak memory of the process. The table is
synthetic, with a fixed seed, so that its truth may be shown; noise is seeded. ``--bins`` plans for so many
bins of a long attribute, whatever the table.
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np

import pmw
import pmw.planning.tiers
from benchmarks.runner import error_scores, opened, parser, peak_mb, promise_scores, tell
from benchmarks.tables import Case, true_counts
from pmw.planning.tiers import affordable_bins
from queries import (
    CategoricalAttribute,
    CodedRecords,
    Domain,
    IntegerAttribute,
    parse_where,
    random_conjunctions,
)

_QUESTION = "age > 31 AND sex = 'F' AND state = 3"
_TABLE_SEED, _STREAM_SEED = 16, 17
_DOMAIN = Domain(
    (
        IntegerAttribute("age", 17, 90),
        CategoricalAttribute("sex", ("F", "M")),
        IntegerAttribute("state", 0, 50),
        IntegerAttribute("income", 0, 4),
        IntegerAttribute("edu", 0, 15),
    ),
    name="dependent",
)


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "budget", seeds=3)
    made.add_argument("--records", type=int, default=8_000_000)
    made.add_argument("--queries", type=int, default=1000, help="further questions")
    made.add_argument("--bins", type=int, help="plan for so many, whatever the table")
    arguments = made.parse_args()
    case = _case(arguments)
    for seed in range(arguments.seeds):
        tell(_measured(case, seed, arguments))


def _case(arguments: argparse.Namespace) -> Case:
    generator = np.random.default_rng(_TABLE_SEED)
    age, sex, state, income, edu = (
        generator.integers(0, size, arguments.records, dtype=np.uint8) for size in (74, 2, 51, 5, 16)
    )
    age -= age // 8 * (state % 5 + sex) // 2
    edu = np.minimum(15, edu // 2 + income + state % 3).astype(np.uint8)
    income = np.minimum(4, (age // 20 + edu // 4 + income) // 3).astype(np.uint8)
    records = CodedRecords(_DOMAIN, (age, sex, state, income, edu))
    questions = random_conjunctions(_DOMAIN, arguments.queries, seed=_STREAM_SEED)
    return Case(_DOMAIN.name, records, (parse_where(_QUESTION, _DOMAIN), *questions))


def _measured(case: Case, seed: int, arguments: argparse.Namespace) -> dict[str, object]:
    def bins(*given: object) -> int:
        return arguments.bins or affordable_bins(*given)  # type: ignore[arg-type]

    source, started = case.source(), time.process_time()
    with patch.object(pmw.planning.tiers, "affordable_bins", bins):
        session = opened(source, case.domain, arguments, seed)
    with session:
        opening = time.process_time() - started
        answers = session.ask_all(case.queries)
        state = session.state
    seconds = time.process_time() - started
    truth, first = true_counts(case), answers[0]
    counts = np.array([answer.count for answer in answers])
    return {
        "records": case.size,
        "seed": seed,
        "bins": state.coarsening.coarse.shape,
        "truth": truth[0],
        "answer": first.to_dict(),
        "half_width": None if first.interval is None else (first.interval[1] - first.interval[0]) / 2,
        **error_scores(np.abs(counts - truth) / case.size),
        **promise_scores(answers, truth, case.size),
        "open_cpu_seconds": round(opening, 2),
        "cpu_seconds": round(seconds, 2),
        "peak_mb": round(peak_mb()),
    }


if __name__ == "__main__":
    main()
