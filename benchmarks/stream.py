"""Stream benchmark: accuracy, coverage, time and memory of a session on real tables, beside baselines.

    python -m benchmarks.stream --data-dir DIR [--table adult-small] [--method session] [--seeds 3]

prints one JSON line per table, method and seed: the loop in its modes, its offline variant, and the baselines
that any of them must beat. A method is told only what its docstring says; a session is told nothing and
scored on each answer when it is given. Errors are |answer - truth| / records: the tables are public. Noise is
drawn by the exact samplers, seeded so that a run can be repeated.

Each method has a process of its own with one BLAS thread. ``cpu_seconds`` is its CPU time from the table in
memory to the last answer, ``peak_mb`` the peak of its process in that time, of which ``start_mb`` are the
libraries, the table and the questions.

``--seeds`` counts noise seeds; ``--stream popular --stream-seed N`` asks other questions. ``--policy`` plans
sessions by another schedule; policies are chosen on streams that no figure reports (``--stream popular
--stream-seed 11``). ``--table dependent`` is a made-up table of 8,000,000 records; the first of its questions
cuts bins, of which a session has as many as its counts allow, or those of ``--policy 'bins: 16'``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import (
    cell_fractions,
    exported_rows,
    parser,
    peak_mb,
    promise_scores,
    reset_peak,
    tell_alone,
)
from benchmarks.tables import DEPENDENT, TABLES, Case, NotApplicableError, StreamChoice, true_counts
from pmw.model.distribution import SyntheticDistribution
from pmw.planning.calibration import marginal_noise, value_noise
from pmw.planning.tiers import DEFAULT_SCHEDULE
from pmw.privacy.filter import open_filter
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Answer, Source
from pmw.public.state import PublicState
from pmw.research.baselines import PairRules, all_pairs_max_entropy, mwem
from pmw.research.offline import OfflineOptions, Targets, fit_workload
from queries import UNITS, LinearQuery

_ALL = {**TABLES, **DEPENDENT}
_CHEAP_MODEL = 10**7  # cells up to which every marginal of a model is read
_BATCH = 500
_LARGEST_TABLE = 10**7  # cells of the one noisy table
_ONE_WAYS = Fraction(6, 100)


@dataclass(frozen=True, slots=True)
class Settings:
    """The budget as it is written, the seed of the noise, and how a session opens."""

    epsilon: str = "1"
    delta: str = "1e-9"
    seed: int = 0
    opening: pmw.Opening = pmw.Opening.PAIRS

    @property
    def written(self) -> tuple[str, str]:
        """Epsilon and delta."""
        return self.epsilon, self.delta

    @property
    def budget(self) -> pmw.Budget:
        """The guarantee."""
        return pmw.Budget.of(*self.written)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a method gave: counts are float64, shape (k,), records, as they were given."""

    counts: NDArray[np.float64]
    model: SyntheticDistribution | None = None  # what rows are drawn from
    answers: tuple[Answer, ...] | None = None  # with their intervals, where the method promises something
    facts: dict[str, object] = field(default_factory=dict)
    state: PublicState | None = None  # which exports rows


Method = Callable[[Case, Settings], Outcome]


def session(case: Case, settings: Settings, **chosen: Any) -> Outcome:
    """A session, as it opens by default or as is chosen: told nothing, scored on each answer when given."""
    started = time.process_time()
    opened = case.opened(settings.written, seed=settings.seed, **{"opening": settings.opening, **chosen})
    seconds = time.process_time() - started
    answers: list[Answer] = []
    for start in range(0, len(case.queries), _BATCH):
        answers += opened.ask_all(case.queries[start : start + _BATCH])
    state, found = opened.state, Counter(answer.source for answer in answers)
    facts: dict[str, object] = {
        "bins": state.coarsening.coarse.shape,
        "model_cells": state.model.cells,
        "positives": state.positives_used,
        "positives_limit": state.positives_limit,
        "query_positives": len(state.measured) - len(state.marginals),
        "budget_share": round(state.ledger.share, 4),
        "open_cpu_seconds": round(seconds, 3),
        **{source.value: round(found[source] / max(1, len(answers)), 4) for source in Source},
    }
    opened.close()
    counts = np.array([answer.count for answer in answers])
    return Outcome(counts, state.model, tuple(answers), facts, state)


def offline_scopes(case: Case, settings: Settings) -> Outcome:
    """The offline variant, told which scopes the stream will ask about."""
    release = fit_workload(
        case.source(),
        case.domain,
        _scopes(case.queries),
        epsilon=settings.epsilon,
        delta=settings.delta,
        options=OfflineOptions(policy=pmw.Options(seed=settings.seed)),
    )
    return _released(case, release)


def offline_questions(case: Case, settings: Settings) -> Outcome:
    """The offline variant measuring single questions (MWEM), told the whole stream."""
    options = OfflineOptions(Targets.QUERY, policy=pmw.Options(seed=settings.seed))
    release = mwem(
        case.source(), case.queries, epsilon=settings.epsilon, delta=settings.delta, options=options
    )
    return _released(case, release)


def _released(case: Case, release: pmw.OfflineRelease) -> Outcome:
    rounds = sum(line.event == "selection" for line in release.ledger.lines)
    return Outcome(
        _answers(release.model, case.queries), release.model, facts={"rounds": rounds}, state=release.state
    )


def gaussian_per_query(case: Case, settings: Settings) -> Outcome:
    """Gaussian noise on each question, told how many there will be; negative answers become 0."""
    if settings.budget.delta == 0:
        raise NotApplicableError("Gaussian noise needs delta > 0")
    cap = open_filter(settings.budget, pmw.Composition.ZCDP).cap
    noise = value_noise(pmw.Composition.ZCDP, cap / len(case.queries), pmw.Options())
    bits = BitSource.from_integer(settings.seed)
    noisy = true_counts(case) + noise.sample_array(bits, len(case.queries)) / UNITS
    return Outcome(np.maximum(0, noisy))


def one_noisy_table(case: Case, settings: Settings) -> Outcome:
    """The whole budget on the full table, once: told nothing.

    Its negative cells are kept, clipped to 0, or taken to the nearest table without any that has the same
    sum; the best of the three is scored.
    """
    domain = case.domain
    if domain.size > _LARGEST_TABLE:
        raise NotApplicableError(f"the table has {domain.size:.3g} cells")
    composition = pmw.Composition.ZCDP if settings.budget.delta else pmw.Composition.PURE
    noise = marginal_noise(composition, open_filter(settings.budget, composition).cap, pmw.Options())
    units = case.source().counts(domain.names).counts.reshape(-1) * UNITS
    raw = (units + noise.sample_array(BitSource.from_integer(settings.seed), units.size)) / UNITS
    exact, best, least = true_counts(case), "", math.inf
    for name, cells in (("kept", raw), ("clipped", np.maximum(raw, 0)), ("projected", _projected(raw))):
        table = cells.reshape(domain.shape)
        marginals = {
            scope: table.sum(axis=tuple(place for place, one in enumerate(domain.names) if one not in scope))
            for scope in _scopes(case.queries)
        }
        answers = np.array([max(0.0, query.evaluate(marginals[query.scope])) for query in case.queries])
        error = float(np.abs(answers - exact).mean())
        if error < least:
            best, least, counts = name, error, answers
    return Outcome(counts, facts={"negative_cells": best})


def _projected(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest non-negative numbers with the same positive sum: all less a constant, cut at 0."""
    falling = np.sort(cells)[::-1]
    excess = (np.cumsum(falling) - max(1.0, float(cells.sum()))) / np.arange(1, cells.size + 1)
    kept = int(np.flatnonzero(falling > excess)[-1])
    projected: NDArray[np.float64] = np.maximum(cells - excess[kept], 0)
    return projected


def all_pairs(case: Case, settings: Settings, *, is_told: bool = False) -> Outcome:
    """All 2-way marginals at equal prices, and the distribution of maximum entropy: told the workload.

    Where the model's tree cannot hold all pairs, every 1-way marginal is measured, and as many pairs as fit,
    the smallest first. Who is told the number of records measures all 1-way marginals, for 6 % of the budget.
    """
    rules = PairRules(_ONE_WAYS, 2000, case.size) if is_told else PairRules()
    fitted = all_pairs_max_entropy(
        case.source(),
        epsilon=settings.epsilon,
        delta=settings.delta,
        rules=rules,
        bits=BitSource.from_integer(settings.seed),
    )
    facts: dict[str, object] = {
        "model_cells": fitted.model.cells,
        "pairs": sum(len(scope) == 2 for scope in fitted.scopes),
        "pairs_of": math.comb(len(case.domain), 2),
        "steps": fitted.steps,
        "loss": round(fitted.loss, 4),
    }
    return Outcome(_answers(fitted.model, case.queries), fitted.model, facts=facts)


def _answers(model: SyntheticDistribution, queries: tuple[LinearQuery, ...]) -> NDArray[np.float64]:
    return np.array([model.answer(query) for query in queries])


def _scopes(queries: tuple[LinearQuery, ...]) -> list[tuple[str, ...]]:
    """Return the scopes that a stream asks about, each once, in the order of their first question."""
    return list(dict.fromkeys(query.scope for query in queries))


METHODS: dict[str, Method] = {
    "session": session,
    # The query test, a uniform start and single steps, as in the lecture notes.
    "textbook": partial(
        session, test=pmw.TestKind.QUERY, opening=pmw.Opening.NONE, update=pmw.UpdateRule.STEP
    ),
    "offline-scopes": offline_scopes,
    "offline-questions": offline_questions,
    "all-pairs-max-entropy": all_pairs,
    # The same, with all 1-way marginals too, fitted until it converges, and told the number of records.
    "pairs-and-one-ways-told-n": partial(all_pairs, is_told=True),
    "one-noisy-table": one_noisy_table,
    "gaussian-per-query": gaussian_per_query,
}


# --- policies: the default ``Schedule`` with one number changed, another share for opening, other bins ------

_SCHEDULES: dict[str, dict[str, Any]] = {
    **{f"limit: {most} per attribute": {"per_attribute": most} for most in (2, 3, 6)},
    **{f"limit: target {target}": {"target": target} for target in (0.03, 0.13)},
    "decay: off": {"decay": (0.0, 1.5)},
    "decay: twice as long": {"decay": (0.35, 3.0)},
    **{f"noise_factor: {factor:g}": {"noise_factor": factor} for factor in (0.5, 1.0)},
    **{f"{name}: {part:g}": {name: part} for name in ("free", "fine") for part in (0.0, 0.03, 0.1)},
}
# What is put in the place of names of the planning.
POLICIES: dict[str, dict[str, object]] = {
    "default": {},
    **{
        name: {"tiers.DEFAULT_SCHEDULE": replace(DEFAULT_SCHEDULE, **changed)}
        for name, changed in _SCHEDULES.items()
    },
    **{
        f"opening: {part}": {"opening.MARGINAL_OPENING_SHARE": Fraction(part)}
        for part in ("0.04", "0.12", "0.2")
    },
    **{f"bins: {most}": {"tiers.affordable_bins": lambda *_, most=most: most} for most in (16, 40)},
}


@contextmanager
def planned_by(policy: str) -> Iterator[None]:
    """Let the sessions of this process be planned by another policy."""
    with ExitStack() as replaced:
        for name, value in POLICIES[policy].items():
            replaced.enter_context(patch(f"pmw.planning.{name}", value))
        yield


# --- scores -------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "stream", "budget", tables=_ALL, seeds=3)
    made.add_argument("--method", action="append", choices=sorted(METHODS))
    made.add_argument("--policy", action="append", choices=list(POLICIES), help="how sessions are planned")
    made.add_argument("--no-rows", action="store_true", help="do not score exported rows")
    given = made.parse_args()
    for table, method, policy, seed in itertools.product(
        given.table or list(TABLES),
        given.method or list(METHODS),
        given.policy or ["default"],
        range(given.seeds),
    ):
        head = {"table": table, "method": method, "policy": policy, "seed": seed}
        tell_alone(head, _measure, **head, given=given)


def _measure(
    table: str, method: str, policy: str, seed: int, given: argparse.Namespace
) -> list[dict[str, object]]:
    case = _ALL[table](given.data_dir, StreamChoice(given.stream, given.stream_seed, given.queries))
    base = reset_peak()
    with planned_by(policy):
        started = time.process_time()
        outcome = METHODS[method](case, Settings(given.epsilon, given.delta, seed))
        seconds = time.process_time() - started
    peak, truth = peak_mb(), true_counts(case)
    scores: dict[str, object] = {
        "stream": given.stream,
        "stream_seed": given.stream_seed,
        "epsilon": given.epsilon,
        "delta": given.delta,
        **_error_scores(np.abs(outcome.counts - truth) / case.size),
        "cpu_seconds": round(seconds, 2),
        "peak_mb": round(peak),
        "start_mb": round(base),
        **outcome.facts,
    }
    if outcome.answers is not None:
        scores |= promise_scores(outcome.answers, truth, case.size)
    if not given.no_rows and outcome.model is not None:
        scores |= _marginal_scores(case, outcome.model, outcome.state, seed)
    return [scores]


def _error_scores(errors: NDArray[np.float64]) -> dict[str, float]:
    """Return mean, 95 % quantile and maximum of errors, which are fractions of the records, in their order.

    ``mean_late`` is of the second half alone.
    """
    return {
        "mean": round(float(errors.mean()), 6),
        "mean_late": round(float(errors[len(errors) // 2 :].mean()), 6),
        "p95": round(float(np.quantile(errors, 0.95)), 6),
        "max": round(float(errors.max()), 6),
    }


def _marginal_scores(
    case: Case, model: SyntheticDistribution, state: PublicState | None, seed: int
) -> dict[str, float]:
    """Return the mean L1 distance of all 2-way and 3-way marginals, of exported rows and of the model.

    Each distance is the sum over cells of |fraction - true fraction|: not halved. A small model's own
    marginals are read too.
    """
    rows = exported_rows(model, state, seed)
    scores = {}
    for order in (2, 3):
        distances, own = [], []
        for scope in itertools.combinations(case.domain.names, order):
            true = cell_fractions(case.records, scope)
            distances.append(float(np.abs(cell_fractions(rows, scope) - true).sum()))
            if case.domain.size <= _CHEAP_MODEL:
                own.append(float(np.abs(model.marginal(scope).reshape(-1) / model.total - true).sum()))
        scores[f"rows_l1_{order}way"] = round(float(np.mean(distances)), 5)
        if own:
            scores[f"model_l1_{order}way"] = round(float(np.mean(own)), 5)
    return scores


if __name__ == "__main__":
    main()
