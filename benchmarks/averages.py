"""Averages benchmark: averages by group from measured sums, beside one clipped noisy sum and count.

    python -m benchmarks.averages --data-dir DIR [--table flights] [--seeds 3] [--share 0.05]

prints one JSON line per table, seed, method, attribute and group-by; ``--reserve 0`` keeps none. Methods:

* ``today``: the same schema without ``resolution``, so that no sums are measured; nothing is asked for;
* ``opened``: what a session knows before any question, sums of values at opening included;
* ``measured``: after ``measure_sum`` of this attribute and group-by alone, at ``--share`` of the budget;
* ``dialogue``: after ``--questions`` of them in one session, which part the budget that opening left evenly;
* ``asked``: after the same statements were asked, one after the other: the reserve pays for wide bars;
* ``peer``: one noisy clipped sum and count of each group, at ``--share`` of the budget;
* ``peer whole``: the same with the whole budget for the one question, as OpenDP would have it;
* ``peer split``: the same with an equal part of the budget for each of ``--questions``.

The peer's sum is of differences from the middle of the declared ends. Its noise is Gaussian, without the
surcharge of whole numbers. What a question has is split between its sum and its count as suits the true mean
best, which no real peer knows. Its errors are means over many draws.

Errors are against the mean of values clipped to the declared ends (and of each person's values clipped to
what is declared of persons), over groups of at least ``--least`` records: ``error`` as a share of the range,
``relative`` as a share of the truth, its median over groups; ``bar`` is half an interval as such a share.
``unclipped`` is the error against the mean of all values as they are. The tables are public, but for the
made-up costs: 70 % zeros and else lognormal, of 20,000 people with 1 to 5 records, who count with ``K``.
Noise is seeded, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pmw
from benchmarks.runner import cpu_seconds, parser, tell_alone
from benchmarks.tables import AVERAGED, Averaged
from pmw.data import MemorySource
from pmw.loop.untested import Requested, Tables, apply
from pmw.model import Places
from pmw.planning.sum_quotes import quote_sum
from pmw.privacy.random_bits import BitSource, person_key, repeatable_seed
from pmw.public.charges import SumNumbers
from pmw.public.quotes import affordable_price
from pmw.public.state import PublicState
from pmw.public.sums import Estimate
from pmw.public.tabulation import Tabulation
from queries import Domain
from queries.cells import quoted_name
from queries.numbers import NumberCells
from queries.parsing import parse_sql
from queries.records import encode_columns, frame_columns, kept_records

_Array = NDArray[np.float64]
_PEER_DRAWS = 400  # that the peer's mean errors are taken over


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The true averages of a question, group by group.

    Args:
        counts: float64, shape (groups,), records that hold a value.
        sums: float64, shape (groups,), of clipped values.
        unclipped_means: float64, shape (groups,), of the values as they are, of all records.
        means: float64, shape (groups,); NaN where a group is empty.
    """

    counts: _Array
    sums: _Array
    unclipped_means: _Array
    means: _Array = field(init=False)

    def __post_init__(self) -> None:
        none = np.full(len(self.sums), math.nan)
        means = np.divide(self.sums, self.counts, out=none, where=self.counts > 0)
        object.__setattr__(self, "means", means)


@dataclass(frozen=True, slots=True)
class Question:
    """An average by group.

    Args:
        attribute: whose values are averaged.
        by: the attributes that make groups; none for everybody.
    """

    attribute: str
    by: tuple[str, ...]

    def statement(self, domain: Domain) -> str:
        """Return it as SQL."""
        keys = ", ".join(map(quoted_name, self.by))
        listed = f"{keys}, " if keys else ""
        grouped = f" GROUP BY {keys}" if keys else ""
        return (
            f"SELECT {listed}AVG({quoted_name(self.attribute)}) "  # noqa: S608 - declared names
            f"FROM {quoted_name(domain.name)}{grouped}"
        )


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "budget", "opening", tables=AVERAGED, seeds=3)
    made.add_argument("--share", type=Fraction, default=Fraction(5, 100), help="of the budget, a question")
    made.add_argument("--questions", type=int, default=20, help="of a dialogue")
    made.add_argument("--reserve", type=Fraction, help="of the budget; unless told, that of a session")
    made.add_argument("--least", type=int, default=500, help="records of a group that counts")
    given = made.parse_args()
    for table in given.table or list(AVERAGED):
        for seed in range(given.seeds):
            if not tell_alone({"table": table, "seed": seed}, _scored, table, seed, given):
                break


def _scored(name: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    table = AVERAGED[name](arguments.data_dir)
    work = _Work(table, seed, arguments)
    lines = list(work.lines())
    return [{**line, "open_cpu": work.opening_cpu[line["method"] == "today"]} for line in lines]


class _Work:
    """What one table and seed are scored by."""

    def __init__(self, table: Averaged, seed: int, arguments: argparse.Namespace) -> None:
        self._table, self._seed, self._arguments = table, seed, arguments
        self.opening_cpu: dict[bool, float] = {}
        self._source, self._state = self._opened(table.domain)
        _, self._today = self._opened(_without_sums(table.domain), today=True)
        self._drawn = 0
        self._questions = [
            Question(one, by) for one in table.averaged for by in table.groups if one not in by
        ]

    def _opened(self, domain: Domain, *, today: bool = False) -> tuple[MemorySource, PublicState]:
        key = None if domain.person is None else person_key(self._seed)
        source = MemorySource.from_frame(self._table.frame, domain, key)
        states: list[PublicState] = []

        def opened() -> None:
            with self._session(source) as session:
                states.append(session.state)

        self.opening_cpu[today] = round(cpu_seconds(opened), 3)
        return source, states[0]

    def _session(self, source: MemorySource) -> pmw.Session:
        arguments = self._arguments
        options = pmw.Options(
            seed=self._seed,
            opening=arguments.opening,
            records_per_person=self._table.records_per_person,
            reserve=arguments.reserve,
        )
        return pmw.open_session(
            source, source.domain, epsilon=arguments.epsilon, delta=arguments.delta, options=options
        )

    def _after(self, asked: Sequence[Question]) -> PublicState:
        """Return the state of a session after some statements were asked in it."""
        with self._session(self._source) as session:
            for question in asked:
                session.sql(question.statement(session.domain))
            return session.state

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield a line for each question and method."""
        share, many = self._arguments.share, self._arguments.questions
        later, asked = self._state, self._questions[:many]
        left = affordable_price(self._state) / self._state.ledger.cap / many
        for question in asked:
            later = self._measured(later, question, left)
        plainly = self._after(asked)
        for place, question in enumerate(self._questions):
            truth = self.truth(question)
            states = {
                "today": self._today,
                "opened": self._state,
                "measured": self._measured(self._state, question, share),
            }
            if place < many:
                states |= {"dialogue": later, "asked": plainly}
            for method, state in states.items():
                yield self._line(method, question, self._ours(state, question, truth))
            for method, part in {
                "peer": share,
                "peer whole": Fraction(1),
                "peer split": Fraction(1, many),
            }.items():
                yield self._line(method, question, self._peer(question, truth, float(part)))

    def _line(self, method: str, question: Question, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"method": method, "attribute": question.attribute, "by": list(question.by), **scores}

    def _measured(self, state: PublicState, question: Question, share: Fraction) -> PublicState:
        """Return a state after a question's sums are measured, as a session does it.

        What is not left of the budget is paid all the same: each question stands for a session of its own.
        """
        summed = quote_sum(state, (question.attribute, state.domain.scope(question.by)), share=share)
        if summed.summed is None or summed.noise is None:
            return state
        self._drawn += 1
        requested = Requested(SumNumbers(summed.summed), summed.noise)
        bits = BitSource(repeatable_seed(self._seed, 10_000 + self._drawn))
        measured = requested.measured(requested.counted(Tables(self._source)), bits)
        return apply(state, measured, state.ledger)

    def _ours(self, state: PublicState, question: Question, truth: Truth) -> dict[str, Any]:
        """Return the scores of a session's answers, from what it knows."""
        work = Tabulation(state, parse_sql(question.statement(state.domain), state.domain))
        work._asked.clear()  # from what is known alone
        cells = [cells[0] for _, cells in work.table(state, ()).rows]
        width = self._width(question)
        large = np.flatnonzero(truth.counts >= self._arguments.least)
        values = np.array([math.nan if cells[group].value is None else cells[group].value for group in large])
        errors = np.abs(values - truth.means[large])
        bars = np.array([_half_width(cells[group]) for group in large])
        promised = [group for group in range(len(cells)) if cells[group].is_promised]
        held = [_holds(cells[group], truth.means[group]) for group in promised]
        means = np.abs(truth.means[large])
        unclipped = truth.unclipped_means[large]
        return {
            "groups": len(large),
            "error": _rounded(np.mean(errors) / width),
            "relative": _rounded(np.median(errors / means)),
            "bar": _rounded(np.median(bars / means)),
            "unclipped": _rounded(np.median(np.abs(values - unclipped) / np.abs(unclipped))),
            "spent": _rounded(float(state.ledger.share)),
            "bars": len(held),
            "held": int(sum(held)),
        }

    def _peer(self, question: Question, truth: Truth, share: float) -> dict[str, Any]:
        """Return the scores of one noisy sum and count of each group, at a share of the budget."""
        domain, ledger = self._state.domain, self._state.ledger
        low, high = _ends(domain, question.attribute)
        options = self._state.contract.options
        generator = np.random.default_rng(self._seed)
        centre, reach = (low + high) / 2, (high - low) / 2
        most = options.records_per_person * reach  # of what a person adds
        if domain.person is not None and question.attribute in domain.person.clip:
            centre, most = 0.0, domain.person.clip[question.attribute]
        large = np.flatnonzero(truth.counts >= self._arguments.least)
        counts, sums = truth.counts[large], truth.sums[large] - centre * truth.counts[large]
        off = math.sqrt(float(np.mean((sums / counts) ** 2)))
        scales = peer_scales(most, options.records_per_person, off, share * float(ledger.cap))
        drawn = generator.normal(size=(2, _PEER_DRAWS, len(large)))
        noisy_sums, noisy_counts = sums + scales[0] * drawn[0], np.maximum(counts + scales[1] * drawn[1], 1.0)
        values = np.clip(centre + noisy_sums / noisy_counts, low, high)
        errors = np.abs(values - truth.means[large]).mean(axis=0)
        return {
            "groups": len(large),
            "error": _rounded(np.mean(errors) / self._width(question)),
            "relative": _rounded(np.median(errors / np.abs(truth.means[large]))),
        }

    def _width(self, question: Question) -> float:
        low, high = _ends(self._state.domain, question.attribute)
        return high - low

    def truth(self, question: Question) -> Truth:
        """Return the true averages: of the records that are kept, clipped as is declared."""
        domain, source = self._state.domain, self._source
        grid = Places.of(domain, question.attribute).grid
        over = domain.scope((*question.by, question.attribute))
        present = Places.of(domain, question.attribute).present
        axis = over.index(question.attribute)
        places, counts = (
            np.compress(present, found.counts, axis=axis).sum(axis=axis).reshape(-1)
            for found in (source.place_sums(over, question.attribute), source.counts(over))
        )
        sums = grid.number(0) * counts + grid.step * places
        return Truth(counts.astype(np.float64), sums, self._unclipped(question))

    def _unclipped(self, question: Question) -> _Array:
        """Return the mean of each group's values as they are, of all records: float64, shape (groups,)."""
        frame, domain = self._table.frame, self._state.domain
        plain = Domain(tuple(domain[one] for one in question.by)) if question.by else None
        values = frame[question.attribute].astype(np.float64).to_numpy()
        cells = np.zeros(len(frame), dtype=np.int64)
        if plain is not None:
            codes = encode_columns(frame_columns(frame, plain.names), plain)
            cells = np.where(
                kept_records(codes, plain), np.ravel_multi_index(np.maximum(codes, 0), plain.shape), -1
            )
        given = (cells >= 0) & np.isfinite(values)
        size = domain.scope_size(question.by)
        counts = np.bincount(cells[given], minlength=size)
        sums = np.bincount(cells[given], values[given], minlength=size)
        none = np.full(size, math.nan)
        means: _Array = np.divide(sums, counts, out=none, where=counts > 0)
        return means


def peer_scales(most: float, records: int, off: float, squared_mu: float) -> tuple[float, float]:
    """Return the scales of the noises of a sum and a count that are released together, split best.

    The mean is off by noise of variance (a^2 + off^2 b^2) / n^2 for scales a of the sum and b of the count,
    whose price is most^2 / a^2 + records^2 / b^2. That is least where a^2 = most (most + off records) / price
    and b^2 = records (most + off records) / (off price).

    Args:
        most: by how much a person moves the sum.
        records: by how much a person moves the count.
        off: how far the mean is taken to be from what values are measured from.
        squared_mu: the price, as the square of mu.
    """
    together = most + off * records
    least = max(off, 1e-9 * most / records)
    return math.sqrt(most * together / squared_mu), math.sqrt(records * together / (least * squared_mu))


def _ends(domain: Domain, name: str) -> tuple[float, float]:
    places = Places.of(domain, name)
    return places.grid.number(0), places.grid.number(int(places.greatest.max()))


def _without_sums(domain: Domain) -> Domain:
    """Return the same attributes without sums of their values."""
    attributes = tuple(
        dataclasses.replace(one, resolution=None) if isinstance(one, NumberCells) else one for one in domain
    )
    person = None if domain.person is None else dataclasses.replace(domain.person, clips=())
    return dataclasses.replace(domain, attributes=attributes, person=person)


def _half_width(cell: Estimate) -> float:
    return math.inf if cell.interval is None else (cell.interval[1] - cell.interval[0]) / 2


def _holds(cell: Estimate, truth: float) -> bool:
    low, high = cell.interval or (-math.inf, math.inf)
    slack = 1e-6 * max(1.0, abs(truth))
    return low - slack <= truth <= high + slack


def _rounded(number: float | np.floating[Any]) -> float | None:
    return round(float(number), 6) if math.isfinite(number) else None


if __name__ == "__main__":
    main()
