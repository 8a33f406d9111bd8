"""Methods: ways to answer a stream of questions under one budget, each as a function of a case and settings.

The loop in its modes, its offline variant, and the baselines that any of them must beat. A method is told
only what its docstring says. All noise is drawn by the exact samplers, seeded so that a run can be repeated.
"""

from __future__ import annotations

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
from benchmarks.tables import Case, NotApplicableError, true_counts
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
