"""Status: where a session stands, for custodians and analysts alike, and which pairs it measured."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.display.charts import meter
from pmw.display.elements import table
from pmw.display.texts import budget_words, counted
from pmw.model import MarginalMeasurement, RowsMeasurement
from pmw.public.answer import SEEDED_WARNING
from pmw.public.bars import Bars
from pmw.public.clear import left_of_reserve, number_half_width
from pmw.public.contract import Contract, RecordsKept, contract_words, display_words, guarantee
from pmw.public.error_quantiles import TypicalError, typical_errors
from pmw.public.options import drafted
from pmw.public.state import PublicState
from queries.cells import cell_count
from queries.frozen import dataclass

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class HeldPairs:
    """The pairs of attributes of a session, and which of them are held.

    A pair is held where a table of counts with both attributes was measured: at opening, by a test or on
    request, alone or with more attributes. Exports are fitted to all such tables. An attribute of a single
    cell is in no pair, for it says nothing of others.

    Args:
        names: the attributes of two cells or more, in declared order.
        held: the pairs that are held, each in declared order.
    """

    names: tuple[str, ...]
    held: frozenset[tuple[str, str]]

    @property
    def number(self) -> int:
        """How many pairs there are."""
        return math.comb(len(self.names), 2)

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """The pairs that are not held, in declared order."""
        return tuple(pair for pair in itertools.combinations(self.names, 2) if pair not in self.held)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        missing = [list(pair) for pair in self.missing]
        return {"number": self.number, "held": len(self.held), "not_held": missing}


def held_pairs(state: PublicState) -> HeldPairs:
    """Return which pairs of attributes a state holds, whatever numbers came out."""
    names = {one.name: one.size for one in state.domain if one.size > 1}
    scopes = {one.scope for one in state.measurements if isinstance(one, MarginalMeasurement)}
    pairs = (itertools.combinations(filter(names.__contains__, scope), 2) for scope in scopes)
    return HeldPairs(tuple(names), frozenset(itertools.chain.from_iterable(pairs)))


def pairs_sentence(form: dict[str, Any]) -> str:
    """Return how many pairs are held, of a manifest's form; the empty text where there is no pair."""
    number, held = form["number"], form["held"]
    if not number:
        return ""
    pairs, together = f"{counted(number, 'pair')} of attributes", "two attributes go together"
    if not held:
        return f"None of the {pairs} is held: do not rely on an export for how {together}."
    told = f"{held:,} of {pairs} {'is' if held == 1 else 'are'} held"
    if held == number:
        return f"{told}: an export has how {together}."
    return f"{told}: do not rely on an export for how {together} in the others."


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is kept for questions whose bars are wide.

    Args:
        share: part of the cap that opening left for it.
        numbers: how many lists of questions had numbers drawn.
        half_width: of a number at the full price, in records; None where none can be drawn.
        left: part of the cap that is left of it.
    """

    share: float
    numbers: int
    half_width: float | None
    left: float


@dataclass(frozen=True, slots=True)
class Status:
    """Public facts about a session.

    Args:
        guarantee: what the session promises, in words.
        budget_share: part of the cap that was spent, in [0, 1].
        epsilon_cap: epsilon of the guarantee, drafts of the schema included.
        positives_used: positives of the sparse vector so far, of marginals where those are tested.
        total: released number of records.
        model_cells: numbers that the model holds: the cells of the domain, or of its tree of marginals.
        pairs: how many pairs of attributes there are; see ``pmw.public.status``.
        pairs_held: how many of them were measured, so that exports have how the two go together.
        seeded: the noise can be repeated by anybody: no privacy.
        closed: no more is spent; answers come from the model.
        certified_marginals: marginals whose newest test did not find the model wrong; None where single
            questions are tested.
        typical_errors: of each kind of questions whose errors were looked at, within how many records a part
            of them were; see ``pmw.public.error_quantiles``.
        drafts: epsilon and delta of the drafts of the schema, part of these; None where there are none.
        prior: SHA-256 of the public prior that the contract names; None where it names none.
        prior_used: whether the model begins with it; None until the pairs that decide it are measured.
        kept: which records are counted; None where no column of ids bounds a person's.
        reserve: what is kept for questions whose bars are wide; None where nothing is.
        impossible: the conditions of which the schema says that no record satisfies them.
        contradicted: those of them of which released numbers say, at the stated confidence, that some do.
    """

    table: str
    guarantee: str
    budget_share: float
    epsilon_cap: float
    delta: float
    positives_used: int
    positives_limit: int
    queries_answered: int
    total: float
    version: int
    model_cells: int
    pairs: int
    pairs_held: int
    seeded: bool = False
    closed: bool = False
    certified_marginals: int | None = None
    typical_errors: tuple[TypicalError, ...] = ()
    drafts: dict[str, float] | None = None
    prior: str | None = None
    prior_used: bool | None = None
    kept: RecordsKept | None = None
    reserve: Reserve | None = None
    impossible: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        form = asdict(self)
        del form["kept"]
        if self.kept is not None:
            form["records_kept"] = self.kept.to_dict()
        if self.prior is None:
            del form["prior"], form["prior_used"]
        for name, usual in (
            ("seeded", False),
            ("certified_marginals", None),
            ("drafts", None),
            ("reserve", None),
            ("impossible", ()),
            ("contradicted", ()),
        ):
            if form[name] == usual:
                del form[name]
        form |= {name: list(value) for name, value in form.items() if isinstance(value, tuple)}
        return form

    def _repr_html_(self) -> str:
        rows = [
            ("table", self.table),
            ("records", _records(self)),
            ("guarantee", self.guarantee),
            *_standing(self, "at the stated confidence, questions"),
        ]
        return str(budget_meter(self) + table("Session", (), rows))


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """How the budget was spent while questions were answered.

    Args:
        answers: int64, shape (k,), numbers of answers so far, increasing from 0; repeats are not counted.
        shares: float64, shape (k,), part of the cap that was spent by then, in [0, 1].
    """

    answers: NDArray[np.int64]
    shares: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name, kind in (("answers", np.int64), ("shares", np.float64)):
            copy: NDArray[Any] = np.array(getattr(self, name), dtype=kind)
            copy.flags.writeable = False
            object.__setattr__(self, name, copy)


def status_of(state: PublicState, queries_answered: int) -> Status:
    """Return the status of a public state."""
    whole = state.contract.whole
    marginal, confidence = state.contract.options.tests_marginals, state.contract.options.confidence
    prior, pairs = state.contract.options.prior, held_pairs(state)
    epsilon, delta = drafted(state.contract.options.drafts)
    return Status(
        table=state.domain.name,
        guarantee=guarantee(state.contract),
        budget_share=state.ledger.share,
        epsilon_cap=float(whole.epsilon),
        delta=float(whole.delta),
        positives_used=state.positives_used,
        positives_limit=state.positives_limit,
        queries_answered=queries_answered,
        total=state.total.records,
        version=state.version,
        model_cells=state.model.cells,
        pairs=pairs.number,
        pairs_held=len(pairs.held),
        seeded=state.contract.seeded,
        closed=state.closed,
        certified_marginals=len(state.certificates) if marginal else None,
        typical_errors=typical_errors(state.quantiles, confidence, state.total.value),
        drafts={"epsilon": float(epsilon), "delta": float(delta)} if state.contract.options.drafts else None,
        prior=None if prior is None else prior.digest,
        prior_used=state.elects_prior,
        kept=state.contract.records_kept,
        reserve=_reserve(state),
        impossible=tuple(one.where for one in state.domain.impossible),
        contradicted=contradicted(state),
    )


def contradicted(state: PublicState) -> tuple[str, ...]:
    """Return the impossible conditions that released numbers contradict, all of them looked at together.

    Records that satisfy one are dropped when they are read. So noise alone does that, or a table that was not
    read by the schema.
    """
    domain, found = state.domain, list[str]()
    bars = Bars(state, max(1, len(domain.impossible)))
    for one in domain.impossible:
        weights = one.inside.astype(np.float64)
        bounds = bars.of_family(one.scope, weights)
        if bounds is not None and bounds.low(weights) > 0:
            found.append(one.where)
    return tuple(found)


def _reserve(state: PublicState) -> Reserve | None:
    share, width = state.contract.options.reserved, number_half_width(state)
    if not share:
        return None
    numbers = sum(isinstance(one, RowsMeasurement) for one in state.measured)
    left = 0.0 if state.closed else float(left_of_reserve(state))
    return Reserve(float(share), numbers, width if math.isfinite(width) else None, left)


def status_rows(contract: Contract, status: Status) -> list[tuple[str, str]]:
    """Return a status in words: what each line is about, and what it says."""
    promise, domain = contract_words(contract.options), contract.domain
    size = f"{counted(len(domain), 'attribute')}, {counted(cell_count(domain.size), 'cell')}"
    return [
        ("table", f"{status.table} ({size})"),
        ("records", _records(status)),
        ("guarantee", status.guarantee),
        *([] if promise is None else [("accuracy", promise)]),
        *([] if (withheld := display_words(contract.options)) is None else [("display", withheld)]),
        *_standing(status, f"{contract.options.confidence:.0%} of the questions", domain.size),
    ]


def _records(status: Status) -> str:
    kept = "" if status.kept is None else f" ({status.kept.describe()})"
    return f"about {status.total:,.0f}{kept}"


def _standing(status: Status, questions: str, domain_cells: int | None = None) -> list[tuple[str, str]]:
    """Return what a status says of the budget, the questions and the model, in words."""
    tests = [("positives", f"{status.positives_used} of {status.positives_limit}")]
    rows = [
        ("budget spent", f"{status.budget_share:.1%}"),
        *(tests if status.reserve is None else [("reserve", reserve_words(status.reserve))]),
        ("questions answered", f"{status.queries_answered:,}"),
        ("model version", str(status.version)),
    ]
    if status.pairs:
        rows.append(("pairs held", f"{status.pairs_held:,} of {status.pairs:,}"))
    if status.model_cells != domain_cells:
        rows.append(("model cells", cell_count(status.model_cells)))
    if status.certified_marginals is not None and status.reserve is None:
        rows.append(("marginals found right", f"{status.certified_marginals:,}"))
    for one in status.typical_errors:
        part = f"{questions} on {one.kind} were within {one.within_fraction:.2%}"
        rows.append(("typical error", part))
    for where in status.impossible:
        told = ": released numbers say that some records satisfy it" if where in status.contradicted else ""
        rows.append(("impossible", f"{where}{told}"))
    if status.prior is not None:
        rows.append(("public prior", prior_words(status.prior, used=status.prior_used)))
    closed = "nothing is spent any more; questions and exports go on from the model"
    return [*rows, ("closed", closed if status.closed else "no")]


def reserve_words(reserve: Reserve) -> str:
    """Return a reserve in words."""
    drawn = f"{counted(reserve.numbers, 'list')} of numbers"
    width = "" if reserve.half_width is None else f", each number within {reserve.half_width:,.0f} records"
    kept = f"{reserve.share:.0%} of the budget, for wide error bars; {reserve.left:.1%} is left"
    return f"{kept}; so far {drawn} drawn{width}"


def budget_meter(status: Status) -> Markup:
    """Return what is spent of the cap as a bar, for notebooks."""
    terms = budget_words(status.epsilon_cap, status.delta, " = ")
    seeded = f". {SEEDED_WARNING}" if status.seeded else ""
    return meter(
        status.budget_share,
        f"{status.budget_share:.1%} of the budget is spent; the cap is {terms}{seeded}",
    )


def prior_words(digest: str, *, used: bool | None) -> str:
    """Return in words what became of a prior, of which SHA-256 is given."""
    fates = {
        True: "used: the measured pairs are near it",
        False: "dropped: the measured pairs are too far from it",
        None: "not decided before all pairs are measured",
    }
    return f"{fates[used]} (SHA-256 {digest[:16]}…)"
