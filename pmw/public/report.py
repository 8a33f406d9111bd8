"""The report: one HTML file that loads nothing, runs nothing, and prints on A4; and the entry of a registry.

It says what a session promises, and which of its numbers may be quoted, in the words of a reader who is no
specialist. All that it is made of is public.

The entry is what a deployment may say of a session in the OpenDP registry of deployments. What contract and
ledger do not say, such as who publishes what and why, is left empty for whoever registers it.

Source: opendp/deployments-registry-data, template.yaml; JSON is YAML too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pmw.disk import require_file, write_whole
from pmw.display.elements import markup
from pmw.display.templates import render, style_sheet
from pmw.display.texts import at_most_percent, budget_words, counted, isolated, number, percent
from pmw.errors import ReleaseError
from pmw.model.measurement import MarginalMeasurement, OneWayMeasurement, QueryMeasurement, half_width
from pmw.privacy.budget import Composition
from pmw.public.answer import SEEDED_WARNING
from pmw.public.bars import Bars
from pmw.public.charges import Event
from pmw.public.contract import (
    Contract,
    contract_words,
    display_words,
    guarantee,
    largest_belief,
    replacement,
)
from pmw.public.export.manifest import program_version
from pmw.public.half_widths import Confidences, total_noise_bound
from pmw.public.ledger import Ledger, ledger_cells
from pmw.public.pictures import (
    MOST_MARGINALS,
    NINE_TENTHS,
    budget_panel,
    compare_marginals,
    error_panel,
    marginal_panel,
    quantile_of,
)
from pmw.public.quotes import cell_question
from pmw.public.state import PublicState, singly
from pmw.public.status import HeldPairs, History, Status, held_pairs, pairs_sentence
from queries.cells import cell_count
from queries.frozen import dataclass
from queries.linear import LinearQuery

SURER = 0.99  # the second confidence of a report


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question as it was answered for the first time.

    Args:
        scope: attribute names in declared order; none where it is about everybody.
        reach: how far the error bar goes from the answer, to the farther end, in records; NaN where nothing
            was promised.
    """

    scope: tuple[str, ...]
    reach: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What a report is made of."""

    state: PublicState
    status: Status
    history: History
    ledger: Ledger
    questions: tuple[AnsweredQuestion, ...]


def group_cells(facts: Facts, *, by_number: bool) -> dict[tuple[str, ...] | int, tuple[str, ...]]:
    """Return questions by how many attributes they are about, or by which: the most asked first.

    Of each group how many they are, what half of their error bars, and nine of ten, do not reach beyond, in
    records and as a part of all, and how many have no bar.
    """
    found: defaultdict[tuple[str, ...] | int, list[float]] = defaultdict(list)
    for one in facts.questions:
        found[len(one.scope) if by_number else one.scope].append(one.reach)
    cells: dict[tuple[str, ...] | int, tuple[str, ...]] = {}
    for key in sorted(found, key=lambda key: key if isinstance(key, int) else -len(found[key])):
        reaches = [reach for reach in found[key] if not math.isnan(reach)]
        half, most = quantile_of(reaches, 0.5), quantile_of(reaches, NINE_TENTHS)
        part = percent(most / facts.state.total.value)
        without = f"{len(found[key]) - len(reaches):,}"
        cells[key] = f"{len(found[key]):,}", number(half), number(most), part, without
    return cells


@dataclass(frozen=True, slots=True)
class QuotableTable:
    """A measured table of counts.

    Args:
        scope: attribute names in declared order.
        binned: its numbers are of bins of cells.
        widths: half-width of its narrowest and of its widest error bar, in records, at the session's
            confidence.
        surer: the same at ``SURER``.
    """

    scope: tuple[str, ...]
    cells: int
    binned: bool
    opened: bool
    widths: tuple[float, float]
    surer: tuple[float, float]


def quotable_tables(state: PublicState) -> list[QuotableTable]:
    """Return the tables that were measured, each once: those of opening, then the others in order.

    A width is what an answer to a question about one cell has.
    """
    surer = at_confidence(state, SURER)
    first: dict[tuple[tuple[str, ...], int], OneWayMeasurement] = {}
    for one in (*state.opening, *state.marginals):
        first.setdefault((one.scope, one.cell_variances.size), one)
    return [_table(state, surer, one) for one in first.values()]


def at_confidence(state: PublicState, confidence: float) -> PublicState:
    """Return a state whose error bars hold at another confidence; the same noise gives them."""
    options = replace(state.contract.options, confidence=confidence)
    return replace(state, contract=replace(state.contract, options=options))


def total_widths(state: PublicState) -> tuple[float, float]:
    """Return how far the number of records may be off, at the session's confidence and at ``SURER``."""
    session, surer = (
        total_noise_bound(one, Confidences.in_state(one).everybody)
        for one in (state, at_confidence(state, SURER))
    )
    return session, surer


def single_half_width(state: PublicState) -> tuple[int, float]:
    """Return how many single questions were measured, and how far they may be off, in records."""
    singles = [one for one in singly(state.measured) if isinstance(one, QueryMeasurement)]
    confidence = Confidences.in_state(state).alone
    return len(singles), max((half_width(one.noise, confidence) for one in singles), default=0.0)


def _table(state: PublicState, surer: PublicState, one: OneWayMeasurement) -> QuotableTable:
    fine = one.values.size == state.domain.scope_size(one.scope)
    grid = state.domain if fine else state.coarsening.coarse
    variances = one.cell_variances
    ends = [np.unravel_index(place, variances.shape) for place in (variances.argmin(), variances.argmax())]
    cells = [cell_question(state, one.scope, [int(place) for place in end], grid) for end in ends]
    return QuotableTable(
        one.scope,
        variances.size,
        binned=not fine,
        opened=any(one is opened for opened in state.opening),
        widths=_widths(state, cells),
        surer=_widths(surer, cells),
    )


def _widths(state: PublicState, cells: Sequence[LinearQuery]) -> tuple[float, float]:
    bars = Bars(state)
    found = [bars.half_width(cell) for cell in cells]
    low, high = (math.nan if width is None else width for width in found)
    return low, high


_MOST_TABLES, _MOST_ASKED, _MOST_CHARGES = 200, 15, 300  # lines of the tables of a report
_GROUP_HEADER = ("questions", "half are within ±", "nine of ten within ±", "of all records", "without a bar")
_EVENTS: dict[str, str] = {  # in the words of a reader
    Event.TOTAL: "the number of records, under noise",
    Event.MARGINAL: "a table of counts, at opening or where a test found the model wrong, under noise",
    Event.RANGE_TREE: "counts of a long attribute, and of its ranges, under noise",
    Event.ROUND: "tests that compare the model with the table",
    Event.VECTOR: "tests that compare the model with the table",
    Event.MEASUREMENT: "a count that a test found the model wrong about, under noise",
    Event.OPENING: "a table of counts of two attributes, at opening, under noise",
    Event.REQUESTED: "a table of counts that was asked for, under noise",
    Event.PART: "a table of counts that many questions rest on, under noise",
    Event.QUANTILE: "how near answers of a kind were, under noise",
    Event.SELECTION: "a choice of what to measure, under noise",
    Event.ABANDONED: "what an interrupted step had reserved; nothing was released from it",
}


def report_page(facts: Facts) -> str:
    """Return a report on a session as one HTML page.

    Every text that somebody chose is escaped. The page holds no script, and its policy lets it load nothing
    and be styled by its own style sheet alone.

    Privacy: post-processing of released numbers; free.
    """
    contract = facts.state.contract
    values = {
        **_head(facts),
        "summary": list(_summary(facts)),
        "promise": promise(contract),
        "about_whom": about_whom(contract),
        "limits": limits(contract),
        "guarantee": guarantee(contract),
        **_accuracy(facts),
        **_quoting(facts),
        **_drawn(facts),
        **_spent(facts),
    }
    return render("pmw.public", "report.html", values)


@lru_cache(maxsize=1)
def _style() -> str:
    return style_sheet("pmw.display", "display.css") + style_sheet("pmw.public", "report.css")


def report_policy() -> str:
    """Return what a browser lets a report do: show itself, styled by its own style sheet alone."""
    known = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"


def write_report(facts: Facts, path: Path, *, force: bool = False) -> None:
    """Write a report on a session whole or not at all."""
    require_file(path, force=force)
    page = report_page(facts)
    write_whole(path, lambda target: target.write_text(page, encoding="utf-8", newline=""))


def _head(facts: Facts) -> dict[str, Any]:
    state, status = facts.state, facts.status
    terms = budget_words(status.epsilon_cap, status.delta)
    about = "" if state.total.deviation == 0 else "about "
    return {
        "policy": report_policy(),
        "style": markup(_style()),
        "name": isolated(status.table),
        "status": status,
        "seeded_warning": SEEDED_WARNING,
        "confidence": confidence_text(state.contract.options.confidence),
        "program": program_version(),
        "answered": f"{status.queries_answered:,}",
        "rows": f"{state.total.records:,.0f}",
        "tiles": [
            ("the promise", SEEDED_WARNING if status.seeded else terms),
            ("records", f"{about}{status.total:,.0f}"),
            ("attributes", f"{len(state.domain):,}"),
            ("questions answered", f"{status.queries_answered:,}"),
            ("of the budget spent", percent(status.budget_share)),
            ("the session is", "closed" if status.closed else "open"),
        ],
    }


def _summary(facts: Facts) -> Iterator[str]:
    contract, tables = facts.state.contract, quotable_tables(facts.state)
    confidence = confidence_text(contract.options.confidence)
    yield promise(contract)[-1]
    if tables and not contract.seeded:
        least, most = min(one.widths[0] for one in tables), max(one.widths[1] for one in tables)
        yield (
            f"{counted(len(tables), 'table')} of counts may be quoted. A single count is off by at most "
            f"{number(least)} to {number(most)} records, depending on the table, at {confidence} confidence."
        )
    if not tables:
        yield "No table of counts may be quoted: none was measured."
    if facts.status.typical_errors:
        worst = max(facts.status.typical_errors, key=attrgetter("within"))
        yield (
            f"Of the answers that were checked against the table, {confidence} of each kind were within "
            f"{number(worst.within)} records of the truth ({percent(worst.within_fraction)} of all)."
        )
    yield "Counts taken from synthetic rows are not to be quoted."
    if pairs := pairs_sentence(held_pairs(facts.state).to_dict()):
        yield pairs


def _accuracy(facts: Facts) -> dict[str, Any]:
    contract, groups = facts.state.contract, group_cells(facts, by_number=False)
    different, sets = counted(len(facts.questions), "different question"), counted(len(groups), "set")
    return {
        "agreed": contract_words(contract.options),
        "withheld": display_words(contract.options),
        "impossible": [
            (isolated(where), where in facts.status.contradicted) for where in facts.status.impossible
        ],
        "error_words": error_words(contract),
        "checked": [
            (
                one.kind,
                number(one.within),
                percent(one.within_fraction),
                f"{one.questions:,}",
                f"{one.asked:,}",
            )
            for one in facts.status.typical_errors
        ],
        "group_header": _GROUP_HEADER,
        "refuses": contract.options.bar_limit is not None,
        "by_number": [
            ("everybody" if key == 0 else counted(key, "attribute"), *cells)
            for key, cells in group_cells(facts, by_number=True).items()
            if isinstance(key, int)
        ],
        "asked": f"{different} about {sets} of attributes",
        "by_scope": [
            (isolated(", ".join(map(isolated, scope))) if scope else "everybody", *cells)
            for scope, cells in list(groups.items())[:_MOST_ASKED]
            if isinstance(scope, tuple)
        ],
    }


def _quoting(facts: Facts) -> dict[str, Any]:
    state, tables = facts.state, quotable_tables(facts.state)
    levels = list(dict.fromkeys((state.contract.options.confidence, SURER)))
    kept, (singles, width) = state.contract.records_kept, single_half_width(state)
    rows = [_total_row(facts, len(levels)), *(_table_row(one, len(levels)) for one in tables[:_MOST_TABLES])]
    more, missing = len(tables) - _MOST_TABLES, held_pairs(state).missing
    were = "was" if singles == 1 else "were"
    return {
        "kept": None if kept is None else isolated(kept.describe()),
        "levels": tuple(f"± at {confidence_text(level)}" for level in levels),
        "quotable": rows,
        "unlisted": f"{more:,}" if more > 0 else "",
        "singles": f"{counted(singles, 'single question')} {were}" if singles else "",
        "single_width": number(width),
        "tables": tables,
        "missing": [f"{isolated(one)} and {isolated(other)}" for one, other in missing[:_MOST_TABLES]],
        "more_missing": counted(len(missing) - _MOST_TABLES, "more pair") if missing[_MOST_TABLES:] else "",
    }


def _total_row(facts: Facts, levels: int) -> tuple[str, ...]:
    state = facts.state
    if state.total.deviation == 0:
        return ("the number of records", "public", "1", *["exact"] * levels, "any")
    widths = total_widths(state)
    return ("the number of records", "at opening", "1", *map(number, widths[:levels]), number(10 * widths[0]))


def _table_row(one: QuotableTable, levels: int) -> tuple[str, ...]:
    names = isolated(", ".join(map(isolated, one.scope)))
    cells = f"{cell_count(one.cells)}{' groups of values' if one.binned else ''}"
    when = "at opening" if one.opened else "later"
    widths = [one.widths, one.surer][:levels]
    return (names, when, cells, *(_range(width) for width in widths), number(10 * one.widths[1]))


def _range(widths: tuple[float, float]) -> str:
    low, high = map(number, widths)
    return low if low == high else f"{low} to {high}"


def _drawn(facts: Facts) -> dict[str, Any]:
    state = facts.state
    return {
        "attributes": len(state.domain),
        **quality(state),
        "marginals": [marginal_panel(state, one) for one in compare_marginals(state, MOST_MARGINALS)],
        "errors": error_panel(state, [one.reach for one in facts.questions]),
        "budget": budget_panel(state, facts.history),
    }


def _spent(facts: Facts) -> dict[str, Any]:
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for line in facts.ledger.lines:
        shares[line.event].append(line.share)
    header, *lines = ledger_cells(facts.ledger)
    shown = [(line[0], line[1], isolated(line[2]), *line[3:]) for line in lines[:_MOST_CHARGES]]
    return {
        "ledger": facts.ledger,
        "events": [
            (event, _EVENTS.get(event, ""), f"{len(parts):,}", percent(sum(parts)))
            for event, parts in shares.items()
        ],
        "charges": [header, *shown],
        "uncharged": f"{len(lines) - _MOST_CHARGES:,}" if len(lines) > _MOST_CHARGES else "",
    }


def confidence_text(confidence: float) -> str:
    """Return a confidence as a percentage."""
    return f"{100 * confidence:g}%"


def promise(contract: Contract) -> list[str]:
    """Return what is promised, a paragraph each; the last one alone says it in short."""
    if contract.seeded:
        return [
            "Nothing is promised. The noise of this session was made from a known seed, so anybody can "
            "repeat it and take it away. Such a session is for tests: do not publish its numbers."
        ]
    changed, guessed = "any one person's data are replaced by others", "which of two possible sets of data"
    if not contract.options.replaces:
        changed, guessed = "any one person is taken out of the table, or one is added", "whether"
    raised = math.exp(min(float(contract.whole.epsilon), 700.0))
    factor = (
        f"{math.ceil(100 * raised - 1e-9) / 100:.2f}"  # rounded up in its third digit or in whole numbers
    )
    if raised >= 100:
        factor = f"{math.ceil(raised):,}" if raised < 1e9 else f"{raised:.1e}"
    delta, best = float(contract.whole.delta), at_most_percent(best_guess(contract))
    beyond = f", but for a probability of {delta:g}" if delta else ""
    return [
        f"Nothing that this session releases becomes more than {factor} times as likely, or as "
        f"unlikely, if {changed}{beyond}. That holds for all answers, tables and files of the "
        "session taken together, whatever else a reader knows.",
        f"Take somebody who has to guess, from everything released, {guessed} a certain person "
        f"{'has' if contract.options.replaces else 'is'} in the table. Without the session the guess would "
        f"be right 50% of the time. With it, it is right at most {best} of the time.",
    ]


def best_guess(contract: Contract) -> float:
    """Return how often a guess between two neighbouring tables, equally likely, is right at most.

    (e^epsilon + delta) / (1 + e^epsilon).

    Source: Kairouz, Oh and Viswanath (2015), Theorem 2.1, at equal prior probabilities.
    """
    belief = largest_belief(contract)
    return belief + float(contract.whole.delta) * (1 - belief)


def about_whom(contract: Contract) -> str:
    """Return whom the promise is about."""
    person, records = contract.domain.person, contract.options.records_per_person
    most = counted(records, "record")
    if person is None:
        return (
            f"The promise is about each person with at most {most} in the table. That nobody has more was "
            "declared by the custodian and not checked: a person with more is protected less."
        )
    empty = " A record without an id counts as a person of its own." if person.empty == "person" else ""
    return (
        f"The promise is about each person. A person is one value of the column {isolated(person.column)}. "
        f"At most {most} of each {'was' if records == 1 else 'were'} kept, and the others were left out "
        f"before anything was counted.{empty}"
    )


def limits(contract: Contract) -> list[str]:
    """Return what is not promised, a sentence each."""
    names, *others = unprotected(contract)
    return [
        "It is no promise about groups. What is true of many people is meant to be found, and may be applied "
        "to a person whether or not that person is in the table.",
        names,
        "It covers this session. Other releases from the same table come on top of it.",
        *others,
    ]


def unprotected(contract: Contract) -> list[str]:
    """Return what is public as it is, a sentence each; names and questions come first."""
    names = "The names of attributes and values, and the questions that were asked, are public."
    count = (
        "The number of records is exact. It is the same in both tables that are compared, so it is public."
    )
    return [names, count] if contract.options.public_count else [names]


def error_words(contract: Contract) -> list[str]:
    """Return what an error bar says, a paragraph each."""
    options = contract.options
    confidence = confidence_text(options.confidence)
    together = (
        f"All error bars of this session hold together with a probability of at least {confidence}."
        if options.simultaneous
        else f"Each error bar holds with a probability of at least {confidence}; of many bars, some may miss."
    )
    return [
        "Each number was changed by noise on purpose before it was released: that protects people. How much "
        "noise is public, so an answer can say how far it may be off. This is its error bar. " + together,
        "These are errors of noise and of the model. Errors of the table itself, such as wrong or missing "
        "records, come on top and cannot be seen from here.",
    ]


Scope: TypeAlias = tuple[str, ...]

_MOST_PAIRS = 200  # lines of a table
_MOST_NAMES = 10  # of a sentence


def quality(state: PublicState) -> dict[str, Any]:
    """Return the half-widths of counts by attribute and by pair, and in words what is lacking.

    Returns:
        ``by_attribute`` and ``by_pair``, cells of tables, the widest pair first; ``more_pairs``, in words;
        ``lacks``, sentences.

    Privacy: post-processing of released numbers; free.
    """
    pairs, bars = held_pairs(state), Bars(state)
    held = sorted(pairs.held)
    alone: list[Scope] = [(name,) for name in state.domain.names]
    widths = {scope: _half_width(state, bars, scope) for scope in (*alone, *held[:_MOST_PAIRS])}
    together = sorted(held[:_MOST_PAIRS], key=lambda pair: -widths[pair])
    rows: dict[int, list[tuple[str, ...]]] = {1: [], 2: []}
    for scope in (*alone, *together):
        cells, part = f"{state.grid(scope).scope_size(scope):,}", percent(widths[scope] / state.total.value)
        row = _named(scope), cells, number(widths[scope]), part
        partners = (f"{sum(scope[0] in pair for pair in held):,}",) if len(scope) == 1 else ()
        rows[len(scope)].append((*row, *partners))
    return {
        "by_attribute": rows[1],
        "by_pair": rows[2],
        "more_pairs": counted(len(held) - _MOST_PAIRS, "more pair") if held[_MOST_PAIRS:] else "",
        "lacks": list(_lacks(state, pairs, widths)),
    }


def _half_width(state: PublicState, bars: Bars, scope: Scope) -> float:
    """Return the half-width of the bar of a count in the middle of a table, in records; NaN for none."""
    grid = state.grid(scope)
    middle = [size // 2 for size in grid.scope_shape(scope)]
    width = bars.half_width(cell_question(state, scope, middle, grid))
    return math.nan if width is None else width


def _named(scope: Scope) -> str:
    return " and ".join(map(isolated, scope))


def _some(scopes: Sequence[Scope]) -> str:
    more = f" and {len(scopes) - _MOST_NAMES:,} more" if scopes[_MOST_NAMES:] else ""
    return ", ".join(map(_named, scopes[:_MOST_NAMES])) + more


def _lacks(state: PublicState, pairs: HeldPairs, widths: dict[Scope, float]) -> Iterator[str]:
    if missing := pairs.missing:
        yield (
            f"It does not learn how attributes of {counted(len(missing), 'pair')} go together, which were "
            f"not measured: {_some(missing)}."
        )
    orders = (len(one.scope) for one in state.measurements if isinstance(one, MarginalMeasurement))
    order = max(orders, default=1)
    if order < len(state.domain):
        known = "counts of single attributes" if order == 1 else f"counts of {order} attributes together"
        yield f"It finds nothing of more attributes together than {known} tell: that was not measured."
    mean = {scope: state.total.value / state.grid(scope).scope_size(scope) for scope in widths}
    noisy = [scope for scope, width in widths.items() if not width < mean[scope]]
    if noisy:
        yield f"It learns noise of most groups by {_some(noisy)}: an error is as large as a mean count there."
    elif widths:
        yield f"Groups of fewer than {number(max(widths.values()))} records are noise: it learns chance."
    pooled = zip(state.domain, state.coarsening.bins, strict=True)
    if binned := [(one.name,) for one, bin_ in pooled if bin_ is not None]:
        yield f"Values inside a group of neighbouring values go with no other attribute: {_some(binned)}."


# --- the entry of a registry --------------------------------------------------------------------------------

_WITHOUT_POINT = re.compile(r'("(?:epsilon|delta)": [0-9]+)e')
_LEFT = (
    *("description", "intended_use", "data_product_type", "data_product_region"),
    *("data_product_sector", "publication_date"),
)
_SUMS = {
    Composition.PURE: "epsilons are added up",
    Composition.ZCDP: "zero-concentrated DP: rhos are added up, and the sum pays delta once",
    Composition.GDP: "Gaussian DP: squares of mu are added up, and the sum pays delta once",
}


def registry_text(state: PublicState, ledger: Ledger) -> str:
    """Return a session's entry as JSON that is YAML 1.1 too, where 1e-09 is a text and 1.0e-09 a number."""
    text = json.dumps(registry_form(state, ledger), indent=2, ensure_ascii=False)
    return _WITHOUT_POINT.sub(r"\1.0e", text) + "\n"


def registry_form(state: PublicState, ledger: Ledger) -> dict[str, Any]:
    """Return a session's entry in the registry of deployments, ready for JSON.

    Privacy: a function of the contract and the ledger, which are public; free.
    """
    contract, kept = state.contract, state.contract.records_kept
    if contract.seeded:
        raise ReleaseError(
            "a session with a seed promises nothing that could be registered; open one without --seed"
        )
    return {
        "url_slug": "",
        "deployment": {
            "basic": {"name": state.domain.name, "data_curators": [], **dict.fromkeys(_LEFT, "")},
            **_promise(contract),
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "One custodian holds the table and the session",
                "release_type": "Many releases",
                "release_type_details": "Answers, tables and files of one session, under one guarantee",
                "data_source_type": "Static",
                "data_source_type_details": "The session refuses a table that differs from the one it opened",
                "access_type": "Interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": kept.note() if kept else "",
                "mechanisms": "; ".join(dict.fromkeys(line.theorem for line in ledger.lines)),
                "composition": f"{_SUMS[ledger.composition]}; a filter refuses what would exceed the cap",
                "post_processing": "Answers from a fitted model, synthetic tables",
                "additional_information": f"online-pmw {program_version()}",
            },
        },
    }


def _promise(contract: Contract) -> dict[str, Any]:
    domain, whole = contract.domain, contract.whole
    names = f"{len(domain)} declared attributes ({', '.join(domain.names)})"
    return {
        "dp_variant": {
            "variant_name": "Approximate DP" if whole.delta else "Pure DP",
            "data_domain": f"Tables of {names}, {cell_count(domain.size)} cells",
            "unprotected_quantities": " ".join(unprotected(contract)),
        },
        "privacy_loss": {
            "privacy_unit": "Person",
            "privacy_unit_details": f"Neighbouring tables differ by {replacement(contract)}",
            "number_of_privacy_units": 1,
            "privacy_parameters": {
                "epsilon": float(whole.epsilon),
                **({"delta": float(whole.delta)} if whole.delta else {}),
            },
            "privacy_parameters_details": guarantee(contract),
        },
    }
