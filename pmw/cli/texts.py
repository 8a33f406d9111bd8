"""What commands print: public state in words, on a screen; what is piped has no screen and no limit."""

from __future__ import annotations

import contextlib
import math
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pmw.cli.usage import echo
from pmw.display.texts import counted, listed, number, terminal_text
from pmw.errors import SessionError
from pmw.model.estimate import noise_variance
from pmw.public.answer import REFUSAL, SEEDED_WARNING, Answer
from pmw.public.contract import Contract, contract_words, guarantee
from pmw.public.options import Opening
from pmw.public.plans import marginal_tier, question_tier
from pmw.public.state import PublicState
from queries.categories import CategoricalAttribute
from queries.cells import CategoricalValue, cell_count, quoted_name
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.factors import UNITS
from queries.numbers import IntegerAttribute
from queries.schema import format_schema

if TYPE_CHECKING:
    from pmw.public.plans import TestPlan
    from pmw.public.population import PopulationInterval
    from pmw.public.quotes import Quote
    from pmw.public.status import Status
    from pmw.public.tables import AnswerTable
    from pmw.session.drafts import DraftedEnds, DraftedKeys

_NOT_IN_DOUBLE_QUOTES = re.compile(r'["$`\\!]')  # what a shell reads there
_LONGEST_EXAMPLE = 80  # characters of a value
_UNSPENT = "{} of the budget is not spent on what is exported"
_LEAST_TOLD = 0.001  # of the budget: that is left


def terminal_width() -> int | None:
    """Return the characters of a line of the terminal; None where standard output is none."""
    if not sys.stdout.isatty():
        return None
    import shutil  # late: it loads several libraries that compress

    return max(1, shutil.get_terminal_size().columns)


def show(text: str) -> None:
    """Print data to standard output, through a pager where a terminal cannot show it at once."""
    width = terminal_width()
    if width is None:
        echo(text, is_data=True)
        return
    import shutil  # as above

    lines = sum(max(1, -(-len(line) // width)) for line in text.split("\n"))
    if lines < shutil.get_terminal_size().lines:
        echo(text)
    else:
        click.echo_via_pager(terminal_text(text) + "\n")


def opening_text(state: PublicState, path: Path, *, verbose: bool) -> str:
    """Return what a custodian reads after opening: what there is, what it promises and what to do next."""
    total = state.total
    records = counted(total.records, "record")
    if total.deviation:
        records = f"{total.records:,.0f} ± {2 * total.deviation:,.0f} records"
    lines = [
        f"Opened {path} over {state.domain.name!r}: {counted(len(state.domain), 'attribute')}, "
        f"{counted(cell_count(state.domain.size), 'cell')}, about {records}.",
        f"Guarantee: {guarantee(state.contract)}.",
    ]
    prior = state.contract.options.prior
    if prior is not None:
        from pmw.public.status import prior_words

        lines.append(f"Prior: {prior_words(prior.digest, used=state.elects_prior)}.")
    if state.contract.options.expected is not None:
        lines.append(f"Expected questions: {state.contract.options.expected.describe()}.")
    lines += pairs_lines(state, path)
    if verbose:
        lines += _details(state)
    lines.append(f"Next: {asking(path, state.domain)}")
    return "\n".join(lines)


def tell_left(state: PublicState, session: Path, words: str = _UNSPENT) -> None:
    """Print on standard error what is left of the budget, and what would spend it, where that is anything."""
    from pmw.public.quotes import measuring_plan

    told = ""
    with contextlib.suppress(SessionError):
        measuring_plan(state)
        told = f"; pmw finish {shlex.quote(str(session))} spends it on the questions that were asked"
    if (left := 1 - state.ledger.share) >= _LEAST_TOLD and not state.closed:
        echo(f"{words.format(f'{left:.1%}')}{told}.", err=True)


def pairs_lines(state: PublicState, path: Path | None) -> Iterator[str]:
    """Yield how many pairs of attributes are held, and what measures another; without a path nothing does."""
    from pmw.public.quotes import measuring, quote_marginal
    from pmw.public.status import held_pairs, pairs_sentence

    pairs = held_pairs(state)
    if pairs.number:
        yield pairs_sentence(pairs.to_dict())
    for pair in pairs.missing[-1:] if path is not None and not state.closed else ():
        with contextlib.suppress(QueryError, SessionError):  # of too many cells, or of single questions
            quote = quote_marginal(state, pair)
            if quote.affordable:
                price = f"{quote.share:.2%} of the budget"
                yield f"To hold one more, for {price}: {measuring(str(path), pair)}"


def _details(state: PublicState) -> Iterator[str]:
    options, measured = state.contract.options, ["the number of records"]
    if options.opening is not Opening.NONE:
        whole = any(len(one.scope) > 1 for one in state.opening)
        attributes = counted(len(state.opening), "one-attribute marginal")
        measured.append("the whole table" if whole else attributes)
        plan = marginal_tier(state.plan)
        for order, name in ((2, "pair"), (3, "triple")):
            if plan is not None and plan.order >= order:
                measured.append(counted(sum(len(one.scope) == order for one in state.marginals), name))
    yield f"Measured at opening: {listed(measured)} ({state.ledger.share:.1%} of the budget)."
    promise = contract_words(options)
    if promise is not None:
        yield f"Contract: {promise}."
    yield _tests_text(state.plan)


def _tests_text(plan: TestPlan) -> str:
    marginals, questions = marginal_tier(plan), question_tier(plan)
    measuring = ""
    if questions is not None:
        limit, width = questions.update_limit, 2 * math.sqrt(noise_variance(questions.noise))
        answers = "1 answer is measured" if limit == 1 else f"{limit} answers are measured"
        measuring = f"up to {answers}, each within about ± {width:,.0f}."
    if marginals is None or not marginals.tests:
        if questions is None:
            return "Nothing is left for tests: questions are answered from these alone."
        return f"Tests look for errors above {counted(questions.threshold / UNITS, 'record')}; {measuring}"
    per_cell = marginals.threshold(1, 2**62) - marginals.margin
    text = (
        "A marginal is measured where its distance from the model exceeds "
        f"{counted(number(per_cell / UNITS), 'record')} per cell and {marginals.margin / UNITS:,.0f} more "
        f"(at first more than that), up to {counted(marginals.update_limit, 'marginal')}, each cell with "
        f"standard deviation {number(math.sqrt(noise_variance(marginals.noise)))}."
    )
    singly = f" Questions whose marginals are too large to test are tested one by one; {measuring}"
    return text + (singly if measuring else "")


def answer_text(answer: Answer, population: PopulationInterval | None = None) -> str:
    """Return an answer as a sentence with its error bar, that of the population, and where it comes from."""
    sentence = answer.sentence()
    lines = [f"{sentence[0].upper()}{sentence[1:]}.", answer.origin()]
    if population is not None:
        words = population.sentence()
        lines.insert(1, words[0].upper() + words[1:] + ".")
    if answer.seeded:
        lines.append(SEEDED_WARNING)
    return "\n".join(lines)


def drafted_ends_text(ends: DraftedEnds, path: Path) -> str:
    """Return drafted ends in words, and as lines for a schema."""
    epsilon, found = float(ends.charge.epsilon), list[str]()
    told = [
        "# It shows noise alone: there are no ends to declare.",
        f"# Between two powers of two about {ends.needed:,.0f} records are enough, and 100 at epsilon = "
        f"{epsilon * ends.needed / 100:.2g}.",
    ]
    if ends.low is not None and ends.high is not None:
        low, high, about = f"{ends.low:.16g}", f"{ends.high:.16g}", max(ends.records, 0)
        told = [
            f"# It aims at about 1 % of {about:,.0f} records beyond them, and promises nothing.",
            f"# At 95 % confidence no more than {ends.most_clipped:,.0f} are.",
        ]
        edges = f"# Of numbers in cells they are the first and the last edge: edges = [{low}, …, {high}]"
        found = [f"min = {low}", f"max = {high}", edges]
    head = f"# {ends.attribute} by a noisy histogram of powers of two, for epsilon = {epsilon:g}."
    return "\n".join([head, *told, _charged_in(path), *found])


def _charged_in(path: Path) -> str:
    return f"# The charge stands in {path.name}: name that to pmw open --draft. Each run is a new charge."


def drafted_keys_text(keys: DraftedKeys, path: Path) -> str:
    """Return drafted keys in words, and as a section of a schema."""
    epsilon, delta = float(keys.charge.epsilon), float(keys.charge.delta)
    cost = f"epsilon = {epsilon:g} and delta = {delta:g}"
    head = f"# Values of {keys.attribute} by noisy counts of persons, for {cost}.\n{_charged_in(path)}\n"
    if not keys.keys:
        return (
            f"{head}# No noisy count came to {keys.threshold:,} persons: there is no value to declare.\n"
            "# A larger epsilon needs fewer persons: --dry-run tells how many, and costs nothing."
        )
    those = f"# Those that came to {keys.threshold:,} persons, noise included; all others count as other."
    domain = Domain((CategoricalAttribute(keys.attribute, keys.keys, missing=True, other=True),))
    section = format_schema(domain)
    return f"{head}{those}\n{section[section.index('[[attributes]]') :]}".removesuffix("\n")


def finish_plan_text(
    quotes: Sequence[Quote], state: PublicState, asked: int, names: Sequence[str] = ()
) -> str:
    """Return what finishing a session would measure, and at which price, in words."""
    total = sum(quote.share for quote in quotes)
    lines = _finish_lines(quotes, state, asked, measured=False)
    if state.contract.options.reserved and asked:
        lines = [f"{line} {_now(state, quote)}" for line, quote in zip(lines, quotes, strict=False)] or lines
        lines += [f"This takes what {', '.join(names)} did not spend of their shares."] * bool(names)
    lines.append(f"In all {total:.2%} of the budget, and the session would be closed; nothing was spent.")
    return "\n".join(lines)


def _now(state: PublicState, quote: Quote) -> str:
    """Return within what a cell of a marginal is known before it is measured, or that numbers are wider."""
    if quote.of_questions:
        return "They are wider now."
    from pmw.public.quotes import cell_question, present_half_width

    first = cell_question(state, quote.scope, (0,) * len(quote.scope), state.grid(quote.scope))
    width = present_half_width(state, first)
    return "It has no bar by scales now." if width is None else f"It is ± {number(width)} now."


def finish_text(
    path: Path, quotes: Sequence[Quote], state: PublicState, before: Sequence[float], after: Sequence[float]
) -> str:
    """Return what finishing a session measured, and how many half-widths of bars became smaller."""
    return "\n".join(
        [
            *_finish_lines(quotes, state, len(before), measured=True),
            *([_narrower(before, after)] if quotes else []),
            f"Closed {path}: nothing is spent any more ({state.ledger.share:.1%} of the budget was).",
            "Questions and exports go on from the model, without the table.",
        ]
    )


def _finish_lines(quotes: Sequence[Quote], state: PublicState, asked: int, *, measured: bool) -> list[str]:
    confidence = state.contract.options.confidence
    if not asked:
        return ["Nothing is measured: no question was asked."]
    if not quotes:
        served = counted(asked, "asked question")
        return [f"Nothing is measured: what is left pays for no table that would serve {served}."]
    return [quote.sentence(state.domain, confidence, measured=measured) for quote in quotes]


def _narrower(before: Sequence[float], after: Sequence[float]) -> str:
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if new < old and new <= 0.9 * old]
    asked = counted(len(before), "asked question")
    if not pairs:
        return f"Narrower bars: none of {asked}, by a tenth or more."
    import statistics  # a single answer has no median

    old, new = (statistics.median_low(widths) for widths in zip(*pairs, strict=True))
    was = "there was none" if math.isinf(old) else f"it was ± {number(old)}"
    return (
        f"Narrower bars: {len(pairs):,} of {asked}, ± {number(new)} records where {was} "
        "(medians). Ask again for the better answers."
    )


def table_text(table: AnswerTable) -> str:
    """Return the table of a statement, and what it rests on."""
    bounds = f"low and high: {table.confidence:.0%} confidence each"
    refused = [one.is_refused for one in table.estimates()]
    if any(refused):
        bounds += f"; {sum(refused):,} of {len(refused):,} {REFUSAL}"
    elif any(one.interval is None for one in table.estimates()):
        bounds += "; where they are missing, nothing is promised"
    lines = [
        table.to_text(width=terminal_width()),
        f"({bounds}; {table.spent.describe(table.version)})",
    ]
    if not all(one.aligned for one in table.estimates()):
        lines.append(
            "Cells do not decide the condition: counts take a part of their records, low and high allow for "
            "none to all. Ranges are decided where they end with cells (>= or <); undeclared texts are "
            "(other)."
        )
    return "\n".join(lines)


def status_text(contract: Contract, status: Status) -> str:
    """Return a status in words."""
    from pmw.public.status import status_rows

    rows = status_rows(contract, status)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def asking(path: Path, domain: Domain) -> str:
    """Return a command that a newcomer can paste into a shell: a question that whole cells answer."""
    where = example_where(domain)
    plain = _NOT_IN_DOUBLE_QUOTES.search(where) is None
    return f"pmw ask {shlex.quote(str(path))} " + (f'"{where}"' if plain else shlex.quote(where))


def example_where(domain: Domain) -> str:
    """Return a where-text over the last two attributes; empty where none of their values can be shown."""
    conditions = map(_example_condition, domain.attributes[-2:])
    return " AND ".join(condition for condition in conditions if condition is not None)


def _example_condition(attribute: Attribute) -> str | None:
    name = quoted_name(attribute.name)
    if len(name) > _LONGEST_EXAMPLE:
        return None
    if isinstance(attribute, CategoricalAttribute):
        texts = (value_text(value) for value in attribute.values)
        shown = next((text for text in texts if text.isprintable() and len(text) <= _LONGEST_EXAMPLE), None)
        return None if shown is None else f"{name} = {shown}"
    if isinstance(attribute, IntegerAttribute):
        middle = attribute.base_size // 2 * attribute.width
        return f"{name} >= {attribute.minimum + middle}"
    if attribute.base_size == 1:  # whose one cell holds its upper end too
        return f"{name} >= {attribute.literal(attribute.boundaries[0])}"
    return f"{name} < {attribute.literal(attribute.boundaries[1])}"


def value_text(value: CategoricalValue) -> str:
    """Return a declared value as a condition writes it."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).upper()
