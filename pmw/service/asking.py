"""Asking: the questions of one request, answered in order; each answer is what the session itself gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pmw.errors import PMWError
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.codec import FormError
from pmw.public.codec import read as read_form
from pmw.public.quotes import Within
from pmw.public.tables import AnswerTable, Tabulation
from pmw.service.hosting import ForbiddenError
from pmw.service.limits import LargeRequests, cells_of, require_few_cells
from pmw.session.asking import aggregate_statement
from pmw.session.dialogue import Dialogue
from pmw.session.exact import Cost, Price
from pmw.session.requests import Request
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import Question, identifier_of, part_key, require_aligned
from queries.statements import Statement
from queries.work import MOST_TOGETHER, counted_reading

Result: TypeAlias = Answer | AnswerTable

MOST_WEIGHTS = 2**20  # cells that one question in canonical form may weigh: 8 MB
_TEXTS = ("where", "sql", "query")  # that state a question
_LONGEST = 2**16  # characters of a question in canonical form


class Aggregate(BaseModel):
    """One aggregate by groups: counts, or of an attribute's numbers the mean, the sum or a quantile."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["count", "mean", "sum", "quantile"]
    name: str = ""
    where: str | dict[str, Any] = ""
    by: Annotated[list[str], Field(max_length=100)] = []
    part: Annotated[float, Field(ge=0, le=1)] = 0.5


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
    """Read the questions of a request, of equal texts the first alone; it takes no turn at the session.

    Args:
        session: who answers.
        forms: the questions, as lines of a stream.
        key: the request's idempotency key.
        aligned: refuse questions that cut cells.

    Raises:
        QueryError: they ask for too many cells, or reading them evaluates too many; nothing is spent.
    """
    heads: list[dict[str, Any]] = []
    refused: dict[int, QueryError] = {}
    questions: dict[int, Question] = {}
    places: dict[int, int] = {}
    texts: dict[object, int] = {}
    cells = evaluated = 0
    for place, form in enumerate(forms):
        heads.append({} if (identifier := identifier_of(form)) is None else {"id": identifier})
        first = texts.setdefault(_text_of(form, place), place)
        told = f" in the first {place + 1:,} questions" if len(forms) > 1 else ""
        with counted_reading(session.look) as work:
            try:
                question = questions.get(first) or _read(session, form, aligned=aligned)
            except QueryError as error:
                refused[place] = error
                heads[-1]["error"] = error.to_dict()
            else:
                # No key that a request is given holds a line's end, and no part of a question is called so.
                own = None if key is None else key if place == 0 else f"{key}\n\n{place}"
                questions[place], places[place] = replace(question, request_id=own), first
                cells += cells_of(question.query)
                require_few_cells(cells, told)
        evaluated += work.done
        if evaluated > MOST_TOGETHER:
            raise QueryError(
                f"expected a request that is read by evaluating at most {MOST_TOGETHER:,} cells, got "
                f"{evaluated:,}{told}; ask in several requests",
                code="too_large",
            )
    return Reading(heads, refused, questions, places, cells, key is not None)


def answered(session: Dialogue, reading: Reading, *, fresh: bool = False) -> Result:
    """Return the answer to the one question of a request.

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


def answered_all(session: Dialogue, reading: Reading, *, fresh: bool = False) -> list[Result | None]:
    """Return an answer to each question, None to a refused one. See ``answered``.

    Equal questions are asked once. With a key each place has its own: there the others are asked after the
    first, for its stored answer.

    Raises:
        QueryError: a key was used for another question; nothing is spent.
    """
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
    found: list[Result | None] = [None] * len(reading.heads)
    for place, first in reading.first.items():
        found[place] = made.get(place) or made[first]
    return found


def forms_of(reading: Reading, results: Sequence[Result | None]) -> list[dict[str, Any]]:
    """Return the object that ``pmw ask --json`` prints of each answer; a refused question has an error."""
    pairs = zip(reading.heads, results, strict=True)
    return [{**head, **({} if result is None else result.to_dict())} for head, result in pairs]


def together(session: Dialogue, reading: Reading, results: Sequence[Result | None]) -> Answers:
    """Return the answers to counting questions together, for a client that reads them exactly.

    Raises:
        QueryError: one is refused, or is a statement.
    """
    for error in reading.refused.values():
        raise error
    answers = [result for result in results if isinstance(result, Answer)]
    if len(answers) < len(results):
        raise QueryError("statements are asked one by one here", code="bad_request", position="queries")
    return Answers.of(session.state, answers)


def cost(
    analyst: Dialogue, large: LargeRequests, form: Mapping[str, Any], *, why: bool, aligned: bool
) -> Cost:
    """Return what asking a question could charge at most; free.

    Args:
        analyst: whose share would pay.
        large: where requests of much work wait for each other.
        form: the question, as a line of a stream.
        why: tell which counts it becomes, and what is held of them, too.
        aligned: refuse a question that cuts cells.

    Raises:
        QueryError: it is refused, or asks for too many cells.
    """
    asked = _read(analyst, form, aligned=aligned).query
    with _placed(large, asked):
        return analyst.explain(asked) if why else analyst.forecast(asked)


def priced(
    analyst: Dialogue, large: LargeRequests, form: Mapping[str, Any], within: float | str, *, aligned: bool
) -> Price:
    """Return what a bar of so many records costs a question; free. See ``answered_within``.

    Nothing is asked: of a mean or a sum of which nothing is known yet there is no price.

    Raises:
        QueryError: it is refused, or asks for too many cells.
    """
    asked, query, width = _within(analyst, form, within, aligned=aligned)
    with _placed(large, asked):
        if query is not None:
            return analyst.quote(query, width.amount)
        return analyst.quote_aggregate(asked, width)


def answered_within(
    analyst: Dialogue,
    large: LargeRequests,
    form: Mapping[str, Any],
    within: float | str,
    *,
    key: str | None,
    aligned: bool,
) -> Result:
    """Return the answer to a question with a bar of so many records at most.

    Args:
        analyst: who answers, and whose share pays.
        large: where requests of much work wait for each other.
        form: the question, as a line of a stream.
        within: half-width of the bar, in records; of AVG or SUM in its own unit, or a part such as 2%.
        key: the request's idempotency key, under which it pays once.
        aligned: refuse a question that cuts cells.

    Raises:
        BudgetExhaustedError: the price is not left; nothing is spent.
        QueryError: it is refused, or asks for too many cells, or the key was used for something else; nothing
            is spent.
    """
    asked, query, width = _within(analyst, form, within, aligned=aligned)
    with _placed(large, asked):
        if query is None:
            return analyst.sql_within(asked, width, request_id=key)
        answer = analyst.ask_within(query, width.amount, request_id=key)
        if isinstance(asked, Statement):
            return Tabulation(analyst.state, asked).table(analyst.state, [answer])
        return answer


def _placed(large: LargeRequests, asked: LinearQuery | Statement) -> AbstractContextManager[None]:
    """Return the place of a question among those of much work.

    Raises:
        QueryError: it asks for too many cells.
    """
    cells = cells_of(asked)
    require_few_cells(cells)
    return large.place(cells)


def _within(
    analyst: Dialogue, form: Mapping[str, Any], within: float | str, *, aligned: bool
) -> tuple[Any, LinearQuery | None, Within]:
    """Return what is asked, its one counting question, and the width; no question where sums are meant.

    Raises:
        QueryError: it is refused.
    """
    asked, width = _read(analyst, form, aligned=aligned).query, Within.of(within)
    query = asked.single_count if isinstance(asked, Statement) else asked
    if query is not None and width.relative:
        raise QueryError(
            "a bar of a count is a number of records; a part of the answer is for AVG and SUM",
            code="unsupported",
            position="within",
        )
    return asked, query, width


def require_free(price: Price) -> None:
    """Refuse what is not free, to whoever may not pay.

    Raises:
        ForbiddenError: it is not free.
    """
    if price.needed:
        raise ForbiddenError(
            "a reader gets free answers only; ask for a wider bar, or leave it to an analyst"
        )


def _read(session: Dialogue, form: Mapping[str, Any], *, aligned: bool) -> Question:
    with counted_reading(session.look):
        if "query" in form:
            question = Question(_canonical(session, form["query"]))
        elif "aggregate" in form:
            question = Question(_aggregate(session, form["aggregate"]))
        else:
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


def _canonical(session: Dialogue, text: object) -> LinearQuery:
    """Return the query of a canonical text.

    Raises:
        QueryError: it is none, or weighs too many cells.
    """
    if isinstance(text, str) and len(text) > _LONGEST:
        raise QueryError(
            f"expected a canonical text of at most {_LONGEST:,} characters; ask it as a condition",
            code="too_long",
            position="query",
        )
    try:
        query: LinearQuery = read_form(LinearQuery, text, domain=session.domain, most_cells=MOST_WEIGHTS)
    except (FormError, PMWError, ValueError, KeyError, TypeError, ArithmeticError) as error:
        cause = f": {error}" if isinstance(error, FormError) else ""
        raise QueryError(
            f"expected the canonical text of a question{cause}", code="bad_request", position="query"
        ) from None
    return query


def _aggregate(session: Dialogue, form: object) -> Statement:
    """Return the statement of one aggregate, or of counts, by groups.

    Raises:
        QueryError: it is refused.
    """
    try:
        one = Aggregate.model_validate(form)
    except ValidationError:
        raise QueryError(
            "expected an aggregate: kind, name, where, by and part; GET /openapi.json describes it",
            code="bad_request",
            position="aggregate",
        ) from None
    where = session.reader.where(one.where)
    return aggregate_statement(one.kind, one.name, where, one.by, one.part)


def _text_of(form: Mapping[str, Any], place: int) -> object:
    """Return what tells equal questions: their texts; one without a text is equal to no other."""
    texts = [(name, form[name]) for name in _TEXTS if isinstance(form.get(name), str)]
    return tuple(texts) if texts and set(form) <= {"id", *_TEXTS} else place


def texts_of(forms: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the questions of a request that a user could type in: texts, and the JSON of conditions."""
    found = (form.get("sql", form.get("where", _aggregate_text(form.get("aggregate")))) for form in forms)
    return [
        one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
        for one in found
        if one is not None
    ]


def _aggregate_text(form: Mapping[str, Any] | None) -> str | None:
    """Return the statement of an aggregate by groups; None for none, or where its condition is an object."""
    if form is None or not isinstance(form["where"], str):
        return None
    name, by = _quoted(form["name"]), [_quoted(one) for one in form["by"]]
    aggregates = {
        "count": "COUNT(*)",
        "mean": f"AVG({name})",
        "sum": f"SUM({name})",
        "quantile": f"QUANTILE_CONT({name}, {form['part']:g})",
    }
    where = f" WHERE {form['where']}" if form["where"].strip() else ""
    groups = f" GROUP BY {', '.join(by)}" if by else ""
    return f"SELECT {', '.join([*by, aggregates[form['kind']]])} FROM data{where}{groups}"  # noqa: S608


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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


def _answers(session: Dialogue, questions: Sequence[Question], *, fresh: bool) -> list[Result]:
    """Return the answers to questions: to those that count together, and to statements one by one."""
    counts = _counts(questions)
    parts = (part for question in counts for part in _parts(question, fresh=fresh))
    answers = iter(session.ask_all(parts, fresh=fresh) if counts else ())
    return [_result(session, question, answers, fresh=fresh) for question in questions]


def _result(session: Dialogue, question: Question, answers: Iterator[Answer], *, fresh: bool) -> Result:
    query = question.query
    if not isinstance(query, Statement):
        return next(answers)
    if not question.is_counting:
        return session.tabulate(query, fresh=fresh, request_id=question.request_id)
    work = Tabulation(session.state, query)
    return work.table(session.state, list(islice(answers, len(work))))
