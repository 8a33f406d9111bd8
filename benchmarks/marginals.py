"""Marginals benchmark: how far all cells of pairs or triples of attributes are from the truth.

    python -m benchmarks.marginals --order 2 --data-dir DIR [--table acs] [--method session] [--seeds 3]

prints JSON lines per table, method and seed. The workload is every pair (``--order 2``) or triple of
attributes whose marginal has at most ``--most-cells`` cells; where these are more than ``--scopes``, it is a
random sample of them, the same one in every run. A line says how many were taken (``scopes``) of how many
there are (``scopes_of``), and how many cells one may have (``most_cells``).

* ``session``: a session as it opens by default, or as ``--opening`` says, told nothing else. It is asked for
  every cell of each scope, one scope after the other in an order that follows from the seed, and scored on
  each answer when it is given;
* ``all-pairs-max-entropy``: told to expect all pairs (``benchmarks/stream.py``);
* ``residuals-by-cells``: told the workload, with the same budget (``pmw.research.baselines``). It minimises
  the sum of the variances of all cells, and clips nothing. ``planned_rmse_cell`` is what the closed form says
  of ``rmse_cell``.

``l1`` is the mean over scopes of the sum over cells of |fraction - true fraction|, not halved;
``worst_cell`` is the largest |fraction - true fraction| of all cells, ``rmse_cell`` the root of their mean
square. A fraction is a count over the true number of records. ``rows_l1`` is the first of exported rows. A
session has a line for each class of scopes, too: those whose marginal was measured and the model takes it in,
was measured and lies beside the model, or was not measured, when they were answered. ``cpu_seconds`` is from
the table in memory to the last cell.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import cell_fractions, exported_rows, parser, tell_alone
from benchmarks.stream import Settings, all_pairs
from benchmarks.tables import MADE_UP, TABLES, Case, NotApplicableError, StreamChoice
from pmw.model.distribution import SyntheticDistribution
from pmw.model.measurement import Measurement, QueryMeasurement
from pmw.planning.opening import filter_of_squares
from pmw.public.state import PublicState
from pmw.research.baselines import (
    Scope,
    cell_variance,
    centred,
    reconstructed,
    residual_prices,
    residual_variances,
)
from queries import CodedRecords, Domain

_ALL = {**TABLES, **MADE_UP}
_SAMPLE_SEED = 0  # of the scopes that are taken where there are too many
_NO_QUESTIONS = StreamChoice(seed=0, size=0)


def workload(domain: Domain, order: int, *, most: int, most_cells: int) -> tuple[tuple[Scope, ...], int]:
    """Return all scopes of some attributes, or a sample of those that are not too long; and of how many."""
    every = list(itertools.combinations(domain.names, order))
    short = [scope for scope in every if domain.scope_size(scope) <= most_cells]
    if len(short) > most:
        drawn = np.random.default_rng(_SAMPLE_SEED).choice(len(short), most, replace=False)
        short = [short[place] for place in sorted(drawn.tolist())]
    return tuple(short), len(every)


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """What a method says of a workload: of each scope a marginal, float64, shape (cells,), records."""

    marginals: Sequence[NDArray[np.float64]]
    classes: Sequence[str] = ()
    model: SyntheticDistribution | None = None  # what rows are drawn from
    state: PublicState | None = None  # of a session, which exports rows
    facts: Mapping[str, object] = field(default_factory=dict)


Method = Callable[[Case, Sequence[Scope], Settings], Answered]

# --- told nothing -------------------------------------------------------------------------------------------


def session(case: Case, scopes: Sequence[Scope], settings: Settings) -> Answered:
    """Ask a session for every cell of each scope: told nothing but how it opens."""
    marginals: dict[Scope, NDArray[np.float64]] = {}
    classes: dict[Scope, str] = {}
    with case.opened(settings.written, seed=settings.seed, opening=settings.opening) as opened:
        for place in np.random.default_rng(settings.seed).permutation(len(scopes)).tolist():
            scope = scopes[place]
            cells = np.indices(case.domain.scope_shape(scope)).reshape(len(scope), -1).T
            marginals[scope] = opened.answer_arrays(scope, cells, cells).count
            classes[scope] = scope_class(opened.state, scope)
        state = opened.state
    facts = {
        "measured": len(state.marginals),
        "beside": len(state.beside),
        "budget_share": round(state.ledger.share, 4),
    }
    in_order = [marginals[scope] for scope in scopes]
    return Answered(in_order, [classes[scope] for scope in scopes], state.model, state, facts)


def scope_class(state: PublicState, scope: Scope) -> str:
    """Return whether a scope's marginal was measured, alone or in a larger one, and taken into the model."""
    taken_in = (*state.opening, *state.fitted)
    if _is_measured(taken_in, scope):
        return "measured, in the model"
    return "measured, beside the model" if _is_measured(state.measured, scope) else "not measured"


def _is_measured(measurements: Sequence[Measurement], scope: Scope) -> bool:
    marginals = [one for one in measurements if not isinstance(one, QueryMeasurement)]
    return any(set(scope) <= set(one.scope) for one in marginals)


# --- told the workload --------------------------------------------------------------------------------------


def all_pairs_max_entropy(case: Case, scopes: Sequence[Scope], settings: Settings) -> Answered:
    """Measure all pairs at equal prices, fit the distribution of maximum entropy, and read its marginals."""
    outcome = all_pairs(replace(case, queries=()), settings)
    if outcome.model is None:
        raise NotApplicableError("there is no model")
    marginals = [table.reshape(-1) for table in outcome.model.marginals(scopes)]
    return Answered(marginals, model=outcome.model, state=outcome.state, facts=outcome.facts)


def residuals_by_cells(case: Case, scopes: Sequence[Scope], settings: Settings) -> Answered:
    """Measure by ResidualPlanner, where the variance of each cell counts alike."""
    domain, budget = case.domain, settings.budget
    weights = {scope: float(domain.scope_size(scope)) for scope in scopes}
    if budget.delta == 0:
        raise NotApplicableError("Gaussian noise needs delta > 0")
    opened = filter_of_squares(budget, pmw.Options())
    cap = float(opened.cap) * (1 if opened.composition is pmw.Composition.GDP else 2)
    variances = residual_variances(domain, residual_prices(domain, weights, cap))
    generator, source = np.random.default_rng(settings.seed), case.source()
    residuals = {
        scope: centred(
            source.counts(scope).counts
            + generator.normal(0.0, math.sqrt(variance), domain.scope_shape(scope))
        )
        for scope, variance in variances.items()
    }
    each = [cell_variance(domain, scope, variances) for scope in weights]
    planned = np.average(each, weights=list(weights.values()))
    facts = {
        "mu_squared": round(cap, 6),
        "residuals": len(residuals),
        "planned_rmse_cell": round(math.sqrt(planned) / case.size, 7),
    }
    return Answered([reconstructed(domain, scope, residuals).reshape(-1) for scope in weights], facts=facts)


METHODS: dict[str, Method] = {
    "session": session,
    "all-pairs-max-entropy": all_pairs_max_entropy,
    "residuals-by-cells": residuals_by_cells,
}

# --- scores -------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "budget", "opening", tables=_ALL, seeds=3)
    made.add_argument("--order", type=int, choices=(2, 3), default=2, help="attributes of each marginal")
    made.add_argument("--method", action="append", choices=sorted(METHODS))
    made.add_argument("--scopes", type=int, default=300, help="most scopes; a sample where there are more")
    made.add_argument("--most-cells", type=int, default=20_000, help="longer marginals are left out")
    given = made.parse_args()
    tables, methods = given.table or list(_ALL), given.method or list(METHODS)
    for table, method, seed in itertools.product(tables, methods, range(given.seeds)):
        tell_alone({"table": table, "method": method}, measured, table, method, seed, given)


def measured(table: str, method: str, seed: int, given: argparse.Namespace) -> list[dict[str, object]]:
    """Return the lines of a method: of all scopes, and of each class where it has classes."""
    case = _ALL[table](given.data_dir, _NO_QUESTIONS)
    settings = Settings(given.epsilon, given.delta, seed, opening=pmw.Opening(given.opening))
    scopes, of = workload(case.domain, given.order, most=given.scopes, most_cells=given.most_cells)
    started = time.process_time()
    answered = METHODS[method](case, scopes, settings)
    seconds = time.process_time() - started
    head: dict[str, object] = {
        "opening": given.opening,
        "order": given.order,
        "scopes_of": of,
        "most_cells": given.most_cells,
        "epsilon": given.epsilon,
        "delta": given.delta,
        "seed": seed,
    }
    rows = None if answered.model is None else exported_rows(answered.model, answered.state, seed)
    errors = [_errors(case, *one, rows) for one in zip(scopes, answered.marginals, strict=True)]
    lines = [{**head, "class": "all", **_scores(errors), "cpu_seconds": round(seconds, 2), **answered.facts}]
    for name in sorted(set(answered.classes)):
        some = [one for one, own in zip(errors, answered.classes, strict=True) if own == name]
        lines.append({**head, "class": name, **_scores(some)})
    return lines


def _errors(
    case: Case, scope: Scope, marginal: NDArray[np.float64], rows: CodedRecords | None
) -> tuple[NDArray[np.float64], float | None]:
    """Return |fraction - true fraction| of each cell of a scope, and the sum of those of exported rows."""
    truth = cell_fractions(case.records, scope)
    of_rows = None if rows is None else float(np.abs(cell_fractions(rows, scope) - truth).sum())
    return np.abs(marginal / case.size - truth), of_rows


def _scores(errors: Sequence[tuple[NDArray[np.float64], float | None]]) -> dict[str, object]:
    """Return the scores of some scopes' errors."""
    every = np.concatenate([cells for cells, _ in errors])
    of_rows = [one for _, one in errors if one is not None]
    scores: dict[str, object] = {
        "scopes": len(errors),
        "cells": every.size,
        "l1": round(float(every.sum()) / len(errors), 5),
        "worst_cell": round(float(every.max()), 6),
        "rmse_cell": round(math.sqrt(float(np.mean(every**2))), 7),
    }
    return scores | ({"rows_l1": round(float(np.mean(of_rows)), 5)} if of_rows else {})


if __name__ == "__main__":
    main()
