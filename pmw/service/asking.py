"""Asking: the questions of one request, answered in order, each with the object that ``pmw ask`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from pmw.public.answer import Answer
from pmw.public.quotes import Within
from pmw.public.tables import Tabulation
from pmw.service.hosting import ForbiddenError
from pmw.service.limits import cells_of, require_few_cells
from pmw.session.dialogue import Dialogue
from pmw.session.requests import Request
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.parsing import Question, identifier_of, part_key, require_aligned
from queries.statements import Statement

_READING = (4, 32)  # what a condition and a statement take to be read, in questions


@dataclass(frozen=True, slots=True)
class Reading:
    """The questions of one request.

    Args:
        heads: of each answer object: the question's id, and the error of one that is refused.
        refused: those errors, by place.
        questions: those that were read, by place, each with its own key.
        first: where the same question stands first, by place.
        cells: numbers that are asked for, repeated ones included.
        keyed: the request has an idempotency key.
    """

    heads: list[dict[str, Any]]
    refused: dict[int, QueryError]
    questions: dict[int, Question]
    first: dict[int, int]
    cells: int
    keyed: bool


def read(
    session: Dialogue, forms: Sequence[Mapping[str, Any]], key: str | None, *, aligned: bool = False
) -> Reading:
    """Read the questions of a request; of equal texts the first alone is read.

    Args:
        session: who answers.
        forms: the questions, as lines of a stream.
        key: the request's idempotency key.
        aligned: refuse questions that cut cells.

    Raises:
        QueryError: they ask for too many cells; nothing is spent.
    """
    heads: list[dict[str, Any]] = []
    refused: dict[int, QueryError] = {}
    questions: dict[int, Question] = {}
    places: dict[int, int] = {}
    texts: dict[object, int] = {}
    cells = 0
    with session.turn() as pause:
        for place, form in enumerate(forms):
            heads.append({} if (identifier := identifier_of(form)) is None else {"id": identifier})
            first = texts.setdefault(_text_of(form, place), place)
            try:
                question = questions.get(first) or _read(session, form, aligned=aligned)
            except QueryError as error:
                refused[place] = error
                heads[-1]["error"] = error.to_dict()
                continue
            # No key that a request is given holds a line's end, and no part of a question is called so.
            own = None if key is None else key if place == 0 else f"{key}\n\n{place}"
            questions[place], places[place] = replace(question, request_id=own), first
            cells += cells_of(question.query)
            require_few_cells(cells, f" in the first {place + 1:,} questions" if len(forms) > 1 else "")
            pause(_READING["sql" in form] if first == place else 1)
    return Reading(heads, refused, questions, places, cells, key is not None)


def answered(session: Dialogue, reading: Reading, *, fresh: bool = False) -> dict[str, Any]:
    """Return the answer object of the one question of a request.

    Args:
        session: who answers.
        reading: the question.
        fresh: ask a newer model, or for tests that were not made, where there are stored answers.

    Raises:
        QueryError: it is refused, or its key was used for another; nothing is spent.
    """
    for error in reading.refused.values():
        raise error
    return _answers(session, list(reading.questions.values()), fresh=fresh)[0]


def answered_all(session: Dialogue, reading: Reading, *, fresh: bool = False) -> list[dict[str, Any]]:
    """Return an answer object for each question; a refused one has an error object. See ``answered``.

    Equal questions are asked once. With a key each place has its own: there the others are asked after the
    first, for its stored answer.

    Raises:
        QueryError: a key was used for another question; nothing is spent.
    """
    found = [dict(head) for head in reading.heads]
    once = [place for place, first in reading.first.items() if place == first]
    again = [place for place, first in reading.first.items() if place != first]
    if reading.keyed:
        session.require_keys(
            part for question in _counts(reading.questions.values()) for part in _parts(question, fresh=fresh)
        )
    made = dict(
        zip(once, _answers(session, [reading.questions[place] for place in once], fresh=fresh), strict=True)
    )
    if reading.keyed:
        own = _answers(session, [reading.questions[place] for place in again], fresh=fresh)
        made.update(zip(again, own, strict=True))
    for place, first in reading.first.items():
        found[place].update(made.get(place) or made[first])
    return found


def answered_within(
    analyst: Dialogue,
    form: Mapping[str, Any],
    within: float | str,
    *,
    dry_run: bool,
    pays: bool,
    aligned: bool,
) -> dict[str, Any]:
    """Return the answer object of a question with a bar of so many records at most, or what it costs.

    Repeated, it costs nothing more: the bar is there already.

    Args:
        analyst: who answers, and whose share pays.
        form: the question, as a line of a stream.
        within: half-width of the bar, in records; of AVG or SUM in its own unit, or a part such as 2%.
        dry_run: tell the price alone.
        pays: may pay; else what is not free is refused.
        aligned: refuse a question that cuts cells.

    Raises:
        BudgetExhaustedError: the price is not left; nothing is spent.
        ForbiddenError: it is not free, and nothing may be paid.
        QueryError: it is refused; nothing is spent.
    """
    asked, width = _read(analyst, form, aligned=aligned).query, Within.parse(str(within))
    query = asked.single_count if isinstance(asked, Statement) else asked
    if query is None and isinstance(asked, Statement):
        return _sums_within(analyst, asked, width, dry_run=dry_run, pays=pays)
    if query is None or width.relative:
        raise QueryError(
            "a bar of a count is a number of records; a part of the answer is for AVG and SUM",
            code="unsupported",
            position="within",
        )
    quote = analyst.quote(query, width.amount)
    if dry_run:
        return {**quote.to_dict(), "needed": quote.needed}
    _require_paying(needed=quote.needed, pays=pays)
    answer = analyst.ask_within(query, width.amount)
    if isinstance(asked, Statement):
        return Tabulation(analyst.state, asked).table(analyst.state, [answer]).to_dict()
    return answer.to_dict()


def _sums_within(
    analyst: Dialogue, statement: Statement, width: Within, *, dry_run: bool, pays: bool
) -> dict[str, Any]:
    """Return the table of a statement with one AVG or SUM within a bar, or what it costs."""
    analyst.tabulate(statement)  # its counts are asked for as those of any statement
    quote = analyst.quote_aggregate(statement, width)
    if dry_run:
        return {**quote.to_dict(), "needed": quote.needed}
    _require_paying(needed=quote.needed, pays=pays)
    return analyst.sql_within(statement, width).to_dict()


def _require_paying(*, needed: bool, pays: bool) -> None:
    """Refuse what is not free to whoever may not pay.

    Raises:
        ForbiddenError: it is not free.
    """
    if needed and not pays:
        raise ForbiddenError(
            "a reader gets free answers only; ask for a wider bar, or leave it to an analyst"
        )


def _read(session: Dialogue, form: Mapping[str, Any], *, aligned: bool) -> Question:
    question = session.reader.question(form)
    if question.request_id is not None:
        raise QueryError(
            "give the key of a request in its header Idempotency-Key",
            code="bad_request",
            position="request_id",
        )
    if aligned:
        require_aligned(question.query.where if isinstance(question.query, Statement) else question.query)
    return question


def _text_of(form: Mapping[str, Any], place: int) -> object:
    """Return what tells equal questions: their texts; one without a text is equal to no other."""
    texts = [(name, form[name]) for name in ("where", "sql") if isinstance(form.get(name), str)]
    return tuple(texts) if texts and set(form) <= {"id", "where", "sql"} else place


def _counts(questions: Iterable[Question]) -> list[Question]:
    return [question for question in questions if question.is_counting]


def _parts(question: Question, *, fresh: bool) -> Iterator[Question | Request]:
    """Yield one question for each answer; those of groups are made for this request alone."""
    if not isinstance(question.query, Statement):
        yield question
        return
    for leaf, group, query in question.query.questions():
        number = question.query.question_number(leaf, group)
        yield Request(query, query.to_json(), part_key(question.request_id, number), fresh)


def _answers(session: Dialogue, questions: Sequence[Question], *, fresh: bool) -> list[dict[str, Any]]:
    """Return the answer objects of questions: those that count together, and statements one by one."""
    counts = _counts(questions)
    parts = (part for question in counts for part in _parts(question, fresh=fresh))
    answers = iter(session.ask_all(parts, fresh=fresh) if counts else ())
    return [_form(session, question, answers, fresh=fresh) for question in questions]


def _form(session: Dialogue, question: Question, answers: Iterator[Answer], *, fresh: bool) -> dict[str, Any]:
    query = question.query
    if not isinstance(query, Statement):
        return next(answers).to_dict()
    if not question.is_counting:
        return session.tabulate(query, fresh=fresh, request_id=question.request_id).to_dict()
    work = Tabulation(session.state, query)
    return work.table(session.state, list(islice(answers, len(work)))).to_dict()
