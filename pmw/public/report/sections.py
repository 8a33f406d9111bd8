"""Sections: what each part of a report says, of which numbers."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter

from pmw.markup import counted
from pmw.public.answer import SEEDED_WARNING
from pmw.public.charges import Event
from pmw.public.contract import contract_words, guarantee
from pmw.public.ledger import ledger_cells
from pmw.public.report import wording
from pmw.public.report.elements import escaped as _escaped
from pmw.public.report.elements import heading, isolated, number, paragraph, percent, points, section, table
from pmw.public.report.facts import Facts, QuestionGroup, group_questions
from pmw.public.report.pictures import budget_picture, error_picture, marginal_pictures
from pmw.public.report.quotable import quotable_tables

__all__ = [
    "accuracy_section",
    "asked_section",
    "ledger_section",
    "overview",
    "picture_section",
    "promise_section",
    "summary_section",
    "synthetic_section",
]

_MOST_ASKED = 15
_MOST_CHARGES = 300
_EVENTS: dict[str, str] = {  # in the words of a reader
    Event.TOTAL: "the number of records, under noise",
    Event.MARGINAL: "a table of counts, at opening or where a test found the model wrong, under noise",
    Event.RANGE_TREE: "counts of a long attribute, and of its ranges, under noise",
    Event.ROUND: "tests that compare the model with the table",
    Event.VECTOR: "tests that compare the model with the table",
    Event.MEASUREMENT: "a count that a test found the model wrong about, under noise",
    Event.REQUESTED: "a table of counts that was asked for, under noise",
    Event.QUANTILE: "how near answers of a kind were, under noise",
    Event.SELECTION: "a choice of what to measure, under noise",
    Event.ABANDONED: "what an interrupted step had reserved; nothing was released from it",
}


def overview(facts: Facts) -> str:
    """Return the head of a report: the table, and where its session stands, in numbers."""
    state, status = facts.state, facts.status
    delta = f", delta {status.delta:g}" if status.delta else ""
    promise = SEEDED_WARNING if status.seeded else f"epsilon {status.epsilon_cap:g}{delta}"
    tiles = [
        ("the promise", promise),
        ("records", f"{'' if state.total.deviation == 0 else 'about '}{status.total:,.0f}"),
        ("attributes", f"{len(state.domain):,}"),
        ("questions answered", f"{status.queries_answered:,}"),
        ("of the budget spent", percent(status.budget_share)),
        ("the session is", "closed" if status.closed else "open"),
    ]
    shown = "".join(
        f"<div><dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd></div>" for name, value in tiles
    )
    warning = paragraph(SEEDED_WARNING, "warning") if status.seeded else ""
    end = (
        "The session is closed: nothing more is spent, and the numbers here stay as they are."
        if status.closed
        else "The session is open: more may be asked and measured, so a later report may say more."
    )
    what = (
        "What was released from this table, what that promises to the people in it, and which of the numbers"
    )
    return (
        f"<header><h1>{_escaped(f'Report on {isolated(status.table)}')}</h1>"
        f'{paragraph(f"{what} may be quoted. {end}")}{warning}<dl class="tiles">{shown}</dl></header>'
    )


def summary_section(facts: Facts) -> str:
    """Return the report in a few sentences."""
    contract, tables = facts.state.contract, quotable_tables(facts.state)
    confidence = wording.confidence_text(contract.options.confidence)
    texts = [wording.promise(contract)[-1]]
    if tables and not contract.seeded:
        least, most = min(one.widths[0] for one in tables), max(one.widths[1] for one in tables)
        texts.append(
            f"{counted(len(tables), 'table')} of counts may be quoted. A single count is off by at most "
            f"{number(least)} to {number(most)} records, depending on the table, at {confidence} confidence."
        )
    if not tables:
        texts.append("No table of counts may be quoted: none was measured.")
    if facts.status.typical_errors:
        worst = max(facts.status.typical_errors, key=itemgetter("within"))
        texts.append(
            f"Of the answers that were checked against the table, {confidence} of each kind were within "
            f"{number(worst['within'])} records of the truth ({percent(worst['within_fraction'])} of all)."
        )
    texts.append("Answers without an error bar, and counts taken from synthetic rows, are not to be quoted.")
    return section([heading(2, "In short"), points(texts)])


def promise_section(facts: Facts) -> str:
    """Return what is promised, and about whom."""
    contract = facts.state.contract
    parts = [heading(2, "What is promised")]
    parts += [paragraph(text) for text in wording.promise(contract)]
    if not contract.seeded:
        parts += [heading(3, "About whom"), paragraph(wording.about_whom(contract))]
        parts += [heading(3, "What is not promised"), points(wording.limits(contract))]
    parts += [heading(3, "In the words of the session"), paragraph(f"{guarantee(contract)}.", "exact")]
    return section(parts)


def accuracy_section(facts: Facts) -> str:
    """Return how accurate answers are: what is promised of errors, and what was found of them."""
    contract = facts.state.contract
    agreed = contract_words(contract.options)
    return section(
        [
            heading(2, "How accurate it is"),
            *([] if agreed is None else [paragraph(f"Agreed at opening: {agreed}.", "exact")]),
            *(paragraph(text) for text in wording.error_words(contract)),
            heading(3, "How near answers were, by number of attributes"),
            *_checked_errors(facts),
            heading(3, "Error bars, by number of attributes"),
            _bars_by_number(facts),
        ]
    )


def _checked_errors(facts: Facts) -> list[str]:
    """Return the calibrated errors: those that were looked at, under noise."""
    found = facts.status.typical_errors
    if not found:
        return [
            paragraph(
                "Errors of answers were not checked against the table. That is done of questions whose error "
                "bars rest on tests or on groups of values, once enough of them were asked."
            )
        ]
    confidence = wording.confidence_text(facts.state.contract.options.confidence)
    rows = [
        (
            one["kind"],
            number(one["within"]),
            percent(one["within_fraction"]),
            f"{one['questions']:,}",
            f"{one['asked']:,}",
        )
        for one in found
    ]
    header = ("questions on", "within ±", "of all records", "questions checked", "after question")
    return [
        paragraph(
            f"Answers already given were compared with the table, under noise. {confidence} of the questions "
            "of a kind were as near to the truth as is told here. As much may be expected of new questions "
            "like them taken together. For a single one, the promise is its error bar, which is wider."
        ),
        table(f"Within how many records {confidence} of the answers were", header, rows),
        paragraph(
            "“Rest on a test”: a test under noise found the model near enough. “Cut bins”: the question "
            "separates values that were counted as one group.",
            "note",
        ),
    ]


def _bars_by_number(facts: Facts) -> str:
    if not facts.questions:
        return paragraph("No question was asked yet, so there is no answer to judge by.")
    total = facts.state.total.value
    rows = [
        (_number_of_attributes(key), *_group_cells(group, total))
        for key, group in group_questions(facts, by_number=True).items()
        if isinstance(key, int)
    ]
    header = (
        "questions on",
        "questions",
        "half are within ±",
        "nine of ten within ±",
        "of all records",
        "without a bar",
    )
    caption = "Error bars of the answers so far, in records"
    text = (
        "Half of the answers, and nine of ten, have an error bar that goes no farther than this many "
        "records. Nothing is promised of an answer without a bar: do not quote it."
    )
    if facts.state.contract.options.bar_limit is not None:
        text += " Questions that were refused stand among those without a bar."
    return paragraph(text) + table(caption, header, rows)


def _number_of_attributes(count: int) -> str:
    return "everybody" if count == 0 else counted(count, "attribute")


def _group_cells(group: QuestionGroup, total: float) -> tuple[str, ...]:
    return (
        f"{group.questions:,}",
        number(group.median),
        number(group.most),
        percent(group.most / total),
        f"{group.questions - group.promised:,}",
    )


def picture_section(facts: Facts) -> str:
    """Return the pictures, with what they show."""
    return section(
        [
            heading(2, "Pictures"),
            heading(3, "The model against the measurements"),
            *_marginals(facts),
            heading(3, "Errors against questions"),
            *_errors(facts),
            heading(3, "The budget"),
            paragraph(
                "Whatever looks at the table spends a part of the budget, which is what the promise "
                "allows. When all is spent, nothing more is measured, and answers come from what is known."
            ),
            _figure(budget_picture(facts)),
        ]
    )


def _marginals(facts: Facts) -> list[str]:
    state = facts.state
    confidence = wording.confidence_text(state.contract.options.confidence)
    shown, few = marginal_pictures(state), ""
    if len(state.domain) > len(shown):
        few = f" The first {len(shown)} of {len(state.domain):,} attributes are shown."
    text = (
        "Bars are the model, from which the synthetic table is drawn. Dots are what opening measured, and "
        f"the line through each is the range of its noise at {confidence}. Where the bar ends within the "
        f"line, the model repeats what was measured.{few}"
    )
    return [paragraph(text), *map(_figure, shown)]


def _errors(facts: Facts) -> list[str]:
    errors = error_picture(facts)
    if errors is None:
        why = "No answer has an error bar." if facts.questions else "No question was asked yet."
        return [paragraph(why)]
    text = (
        "Each point is taken over some questions in a row. Lines that fall tell that measurements helped; "
        "lines that rise tell that later questions were harder."
    )
    return [paragraph(text), _figure(errors)]


def _figure(picture: str) -> str:
    return f"<figure>{picture}</figure>"


def asked_section(facts: Facts) -> str:
    """Return what was asked most."""
    parts = [heading(2, "What was asked most")]
    groups = group_questions(facts, by_number=False)
    if not groups:
        return section([*parts, paragraph("No question was asked yet.")])
    total = facts.state.total.value
    rows = [
        (_scope_text(scope), *_group_cells(group, total))
        for scope, group in list(groups.items())[:_MOST_ASKED]
    ]
    different = counted(len(facts.questions), "different question")
    sets = counted(len(groups), "set")
    text = f"{different} about {sets} of attributes were answered; repeated ones are not counted."
    header = (
        "about",
        "questions",
        "half are within ±",
        "nine of ten within ±",
        "of all records",
        "without a bar",
    )
    parts += [
        paragraph(text),
        table("The attributes that most questions were about, errors in records", header, rows),
    ]
    return section(parts)


def _scope_text(scope: tuple[str, ...] | int) -> str:
    if isinstance(scope, int) or not scope:
        return "everybody"
    return isolated(", ".join(map(isolated, scope)))


def ledger_section(facts: Facts) -> str:
    """Return every charge, first by what it was for."""
    ledger = facts.ledger
    parts = [heading(2, "The ledger"), paragraph(ledger.sentence())]
    parts.append(
        paragraph(
            "Everything that looked at the table is listed here with its price. Answers from the model cost "
            f"nothing. Charges are added up in {ledger.unit}, and shares are parts of the whole budget."
        )
    )
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for line in ledger.lines:
        shares[line.event].append(line.share)
    rows = [
        (event, _EVENTS.get(event, ""), f"{len(parts_of):,}", percent(sum(parts_of)))
        for event, parts_of in shares.items()
    ]
    header_row = ("event", "what it is", "charges", "of the budget")
    parts.append(table("What the budget was spent on", header_row, rows, left=2))
    header, *lines = ledger_cells(ledger)
    shown = [(line[0], line[1], isolated(line[2]), *line[3:]) for line in lines[:_MOST_CHARGES]]
    parts.append(table("Every charge", header, shown, left=3))
    if len(lines) > _MOST_CHARGES:
        parts.append(paragraph(f"{len(lines) - _MOST_CHARGES:,} more charges: pmw ledger lists all of them."))
    return section(parts)


def synthetic_section(facts: Facts) -> str:
    """Return how to use the synthetic table, and how not."""
    use, avoid = wording.rules_of_rows(facts.state.contract)
    rows = f"{facts.state.total.value:,.0f}"
    text = (
        f"pmw export draws a synthetic table from the model, of {rows} rows unless told otherwise. "
        "Drawing it costs "
        "nothing, and the promise above covers it."
    )
    return section(
        [
            heading(2, "The synthetic table"), paragraph(text),
            heading(3, "Use it"), points(use),
            heading(3, "Do not use it"), points(avoid),
        ]
    )  # fmt: skip
