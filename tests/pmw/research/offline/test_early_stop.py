"""The early stop: what it looks at, what it charges, and that the whole release keeps its price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.errors import BudgetError
from pmw.model.measurement import QueryMeasurement, half_width
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.offline import (
    OfflineOptions,
    OfflineRelease,
    QueryRound,
    Targets,
    TrueAnswers,
    fit_workload,
    largest_error,
    last_measured,
)
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery, QueryError, all_marginals

# The number of records is public, so that rounds are all that is drawn.
DOMAIN = Domain((CategoricalAttribute("a", ("s", "t"), missing=True, other=True),), name="people")
QUERIES = tuple(LinearQuery.cells(DOMAIN, {"a": (cell, cell)}) for cell in (0, 1))
TABLES = [pd.DataFrame({"a": ["s"] * some + ["t"] * (6 - some)}) for some in (4, 3)]
ROUNDS, THRESHOLD, EPSILON = 3, 1.0, Fraction(3)
OUTCOMES = tuple(itertools.product((0, 1), (-4.0, 1.5, 2.5, 6.0, 40.0)))  # the choice, and the noisy answer
POLICY = pmw.Options(neighboring_relation=NeighboringRelation.REPLACE_ONE, seed=1)


class Script:
    """Draws what it is told, and keeps the exact probability of that on the table."""

    def __init__(self, outcomes: tuple[tuple[int, float], ...]) -> None:
        self.left: Iterator[tuple[int, float]] = iter(outcomes)
        self.log_probability = 0.0
        self.drawn = 0

    def __call__(self, proposal: QueryRound, truth: TrueAnswers, bits: BitSource) -> QueryMeasurement:
        place, count = next(self.left)
        qualities = np.abs(truth.units - proposal.model_units)
        units, noise = round(count * UNITS), proposal.noise
        assert isinstance(noise, DiscreteLaplace)
        self.log_probability += math.log(proposal.selection.probabilities(qualities)[place])
        rate = 1 / float(noise.scale)
        self.log_probability += math.log(math.tanh(rate / 2)) - rate * abs(units - int(truth.units[place]))
        self.drawn += 1
        return QueryMeasurement(proposal.queries[place], units, noise, int(proposal.model_units[place]))


def played(
    monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame, outcomes: tuple[tuple[int, float], ...]
) -> tuple[OfflineRelease, Script]:
    script = Script(outcomes)
    monkeypatch.setattr("pmw.research.offline.draw_query", script)
    options = OfflineOptions.textbook(rounds=ROUNDS, threshold=THRESHOLD, policy=POLICY)
    return fit_workload(table, DOMAIN, QUERIES, epsilon=EPSILON, options=options), script


def test_every_output_of_the_release_keeps_the_charged_price_and_stops_alike_on_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worst, ended = dict[int, float](), set[tuple[tuple[int, float], ...]]()
    for outcomes in itertools.product(OUTCOMES, repeat=ROUNDS):
        if not ended.isdisjoint(outcomes[:drawn] for drawn in range(ROUNDS)):
            continue  # what would be drawn after a stop makes no other output
        (one, first), (other, second) = (played(monkeypatch, table, outcomes) for table in TABLES)
        assert first.drawn == second.drawn == len(one.measurements)
        assert [line.price for line in one.ledger.lines] == [line.price for line in other.ledger.lines]
        assert one.model.answer(QUERIES[0]) == other.model.answer(QUERIES[0])
        charged = float(sum(line.price for line in one.ledger.lines))
        loss = abs(first.log_probability - second.log_probability)
        assert loss <= charged * (1 + 1e-9)
        ended.add(outcomes[: first.drawn])
        worst[first.drawn] = max(worst.get(first.drawn, 0.0), loss / charged)
    assert set(worst) == {1, 2, 3}
    assert max(worst.values()) > 0.7  # nor is the price much too high


def test_a_round_that_ends_the_release_is_charged_and_does_not_move_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The uniform model has 1.5 records in each cell: an error of exactly T is small, a grain more is not.
    small, script = played(monkeypatch, TABLES[0], ((0, 2.5),))
    assert script.drawn == 1
    assert small.model.answer(QUERIES[0]) == pytest.approx(1.5)
    assert [line.event for line in small.ledger.lines] == ["selection", "measurement"]
    assert small.ledger.lines[-1].running_share == pytest.approx(1 / ROUNDS, abs=1e-6)
    assert small.state.ledger.spent == sum(line.price for line in small.ledger.lines)
    _, script = played(monkeypatch, TABLES[0], ((0, 2.5 + 1 / UNITS), (0, 40.0), (0, 40.0)))
    assert script.drawn == 3
    bound = 1 + half_width(small.state.measured[0].noise, 0.975) + 2 * math.log(4 / 0.05) / 0.5
    assert largest_error(small) == pytest.approx(bound, rel=1e-6)
    large, _ = played(monkeypatch, TABLES[0], ((0, 6.0), (0, 40.0), (0, 40.0)))
    assert large.model.answer(QUERIES[0]) > 2.0
    assert large.ledger.lines[-1].running_share == pytest.approx(1, abs=1e-6)


@pytest.mark.statistical
def test_after_a_stop_no_question_is_further_off_than_the_bound(frame: pd.DataFrame, domain: Domain) -> None:
    workload = list(all_marginals(domain, 1))
    source = MemorySource.from_frame(frame, domain)
    truth = [query.answer(source.counts(query.scope)) / UNITS for query in workload]
    failed = stopped = 0
    for seed in range(40):
        options = OfflineOptions.textbook(rounds=60, threshold=400.0, policy=pmw.Options(seed=seed))
        release = fit_workload(frame, domain, workload, epsilon=4, delta=1e-9, options=options)
        last = last_measured(release)
        if abs(last.units - last.model_units) > 400 * UNITS:
            continue
        stopped += 1
        answers = [release.model.answer(query) for query in workload]
        failed += max(np.abs(np.subtract(answers, truth))) > largest_error(release)
    assert stopped >= 20
    assert failed <= 6  # 5 % of 40, and chance


def test_what_an_early_stop_has_no_use_for_is_refused() -> None:
    with pytest.raises(BudgetError, match="early_stop goes with targets = query and a number of rounds"):
        OfflineOptions(Targets.MARGINAL, 5, early_stop=True)
    with pytest.raises(BudgetError, match="early_stop goes with"):
        replace(OfflineOptions.textbook(rounds=5), rounds=None)
    with pytest.raises(BudgetError, match="threshold is for sessions"):
        replace(OfflineOptions.textbook(rounds=5, threshold=3.0), early_stop=False)
    with pytest.raises(BudgetError, match="expected a positive threshold"):
        OfflineOptions.textbook(rounds=5, threshold=-1.0)
    options = OfflineOptions.textbook(rounds=5, policy=POLICY)
    with pytest.raises(QueryError, match="at least two different questions to choose among, got one"):
        fit_workload(TABLES[0], DOMAIN, [QUERIES[0], QUERIES[0]], epsilon=1, options=options)
