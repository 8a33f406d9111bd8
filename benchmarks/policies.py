"""Policy benchmark: sessions under other schedules, on streams that no other benchmark reports.

    python -m benchmarks.policies --data-dir DIR [--table adult-small] [--policy default] [--seeds 2]

prints one JSON line per table, policy and seed. A policy is the default ``Schedule`` with one number changed,
or another share of the budget for opening. The stream is the popular one, so that analysts come back to the
same attributes. Errors are |answer - truth| / records; each session has a process of its own with one BLAS
thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pmw
import pmw.planning.opened
import pmw.session.opening
from benchmarks.methods import Settings, session
from benchmarks.runner import BLAS_THREADS, scored
from benchmarks.streams import STREAMS, StreamChoice
from benchmarks.tables import TABLES, TableAbsentError
from pmw.planning.marginals import DEFAULT_SCHEDULE, Schedule
from pmw.planning.opened import plan_test
from pmw.planning.opening import plan_opening


@dataclass(frozen=True, slots=True)
class Policy:
    """How a session spends its budget.

    Args:
        schedule: after opening.
        opening: the share of the budget for opening where all attributes are short; None for the usual one.
    """

    schedule: Schedule = DEFAULT_SCHEDULE
    opening: Fraction | None = None


POLICIES = {
    "default": Policy(),
    "limit: 2 per attribute": Policy(replace(DEFAULT_SCHEDULE, per_attribute=2)),
    "limit: 3 per attribute": Policy(replace(DEFAULT_SCHEDULE, per_attribute=3)),
    "limit: 6 per attribute": Policy(replace(DEFAULT_SCHEDULE, per_attribute=6)),
    "limit: target 0.03": Policy(replace(DEFAULT_SCHEDULE, target=0.03)),
    "limit: target 0.13": Policy(replace(DEFAULT_SCHEDULE, target=0.13)),
    "decay: off": Policy(replace(DEFAULT_SCHEDULE, decay=(0.0, 1.5))),
    "decay: twice as long": Policy(replace(DEFAULT_SCHEDULE, decay=(0.35, 3.0))),
    "noise_factor: 0.5": Policy(replace(DEFAULT_SCHEDULE, noise_factor=0.5)),
    "noise_factor: 1": Policy(replace(DEFAULT_SCHEDULE, noise_factor=1.0)),
    "free: 0": Policy(replace(DEFAULT_SCHEDULE, free=0.0)),
    "free: 0.03": Policy(replace(DEFAULT_SCHEDULE, free=0.03)),
    "free: 0.1": Policy(replace(DEFAULT_SCHEDULE, free=0.1)),
    "fine: 0": Policy(replace(DEFAULT_SCHEDULE, fine=0.0)),
    "fine: 0.03": Policy(replace(DEFAULT_SCHEDULE, fine=0.03)),
    "fine: 0.1": Policy(replace(DEFAULT_SCHEDULE, fine=0.1)),
    "opening: 0.04": Policy(opening=Fraction(4, 100)),
    "opening: 0.12": Policy(opening=Fraction(12, 100)),
    "opening: 0.2": Policy(opening=Fraction(20, 100)),
}


def main() -> None:
    """Run the sessions that the arguments describe."""
    arguments = _arguments()
    for name in BLAS_THREADS:
        os.environ[name] = "1"  # a spawned process reads it before it loads BLAS
    stream = StreamChoice(arguments.stream, arguments.stream_seed, arguments.queries)
    policies = arguments.policy or list(POLICIES)
    for table, name, seed in itertools.product(arguments.table, policies, range(arguments.seeds)):
        settings = Settings(arguments.epsilon, arguments.delta, seed)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            try:
                scores = alone.submit(_measure, (table, arguments.data_dir), stream, name, settings).result()
            except (TableAbsentError, pmw.PMWError) as reason:
                print(f"skipped {table}, {name}: {reason}", file=sys.stderr, flush=True)
                continue
        print(json.dumps({"table": table, "policy": name, "seed": seed, **scores}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    data = os.environ.get("PMW_DATA_DIR")
    parser.add_argument("--data-dir", type=Path, default=None if data is None else Path(data))
    parser.add_argument("--table", action="append", choices=sorted(TABLES), required=True)
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--stream", choices=STREAMS, default="popular")
    parser.add_argument("--stream-seed", type=int, default=11)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-9")
    return parser.parse_args()


def _measure(
    table: tuple[str, Path | None], stream: StreamChoice, policy: str, settings: Settings
) -> dict[str, object]:
    case = TABLES[table[0]](table[1], stream)
    with _planned_by(POLICIES[policy]):
        return scored(case, partial(session, case, settings))[0]


@contextmanager
def _planned_by(policy: Policy) -> Iterator[None]:
    """Let the sessions of this process be planned by another policy."""

    with ExitStack() as changed:
        changed.enter_context(
            patch.object(pmw.planning.opened, "plan_test", partial(plan_test, schedule=policy.schedule))
        )
        if policy.opening is not None:
            opening = partial(plan_opening, share=policy.opening)
            changed.enter_context(patch.object(pmw.session.opening, "plan_opening", opening))
        yield


if __name__ == "__main__":
    main()
