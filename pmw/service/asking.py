"""Asking: the questions of one request, answered in order; each answer is what the session itself gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pmw.errors import PMWError, PriceError
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.codec import FormError
from pmw.public.codec import read as read_form
from pmw.public.quotes import Quote
from pmw.public.tables import AnswerTable
from pmw.service.limits import LargeRequests, cells_of, require_few_cells
from pmw.session.asking import aggregate_statement
from pmw.session.dialogue import Dialogue
from pmw.session.session_requests import Kind, Kinds, SessionRequest
from queries.cells import in_quotes
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import Question, identifier_of, is_statement, parse_sql, require_aligned
from queries.statements import Statement
from queries.work import MOST_TOGETHER, counted_reading

Result: TypeAlias = Answer | AnswerTable

MOST_WEIGHTS = 2**20  # cells that one question in canonical form may weigh: 8 MB
_TEXTS = ("where", "sql", "query")  # that state a question
_OF_STATEMENTS: dict[Kind[Any], Kind[Any]] = {Kinds.ASK: Kinds.SQL, Kinds.ASK_WITHIN: Kinds.SQL_WITHIN}
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
    """The questions of one request, by place."""

    ids: list[dict[str, Any]]  # of each answer object: the question's id
    refused: dict[int, QueryError]
    questions: dict[int, Question]  # that were read, each with its own key
    first: dict[int, int]  # where the same question stands first
    cells: int  # numbers that are asked for, repeated ones included
    keyed: bool  # the request has an idempotency key

    def kinds(self) -> list[tuple[str, LinearQuery | Statement | None]]:
        """Return by place of what kind each question is, and what was read; None for a refused one."""
        read = [
            self.questions[place].query if place in self.questions else None for place in range(len(self.ids))
        ]
        return [((Kinds.SQL if isinstance(one, Statement) else Kinds.ASK).name, one) for one in read]


def read(
    session: Dialogue, forms: Sequence[Mapping[str, Any]], key: str | None, *, aligned: bool = False
) -> Reading:
    """Read the questions of a request, of equal texts the first alone; it takes no turn at the session."""
    ids: list[dict[str, Any]] = []
    refused: dict[int, QueryError] = {}
    questions: dict[int, Question] = {}
    places: dict[int, int] = {}
    texts: dict[object, int] = {}
    cells = evaluated = 0
    for place, form in enumerate(forms):
        ids.append({} if (identifier := identifier_of(form)) is None else {"id": identifier})
        first = texts.setdefault(_text_of(form, place), place)
        told = f" in the first {place + 1:,} questions" if len(forms) > 1 else ""
        with counted_reading(session.look) as work:
            try:
                question = questions.get(first) or read_one(session, form, aligned=aligned)
            except QueryError as error:
                refused[place] = error
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
    return Reading(ids, refused, questions, places, cells, key is not None)


def answered(session: Dialogue, reading: Reading, **how: Any) -> Result:
    """Return the answer to the one question of a request; ``fresh`` and ``at_most`` as of ``Asking.ask``."""
    for error in reading.refused.values():
        raise error
    return _answer(session, reading.questions[0], **how)


def answered_all(session: Dialogue, reading: Reading, **how: Any) -> list[Result | QueryError]:
    """Return what comes of each question: its answer, or why it is refused. See ``answered``.

    Equal questions are asked once. With a key each place has its own: there the others are asked after the
    first, for its stored answer.
    """
    if reading.keyed:
        counting = (question for question in reading.questions.values() if question.is_counting)
        session.require_keys(part for question in counting for part in question.parts())
    found: dict[int, Result | QueryError] = {**reading.refused}
    for is_first in (True, False):
        places = [place for place, first in reading.first.items() if (place == first) is is_first]
        if is_first or reading.keyed:
            asked = [reading.questions[one] for one in places]
            found |= zip(places, _answers(session, asked, **how), strict=True)
        else:
            found |= {place: found[reading.first[place]] for place in places}
    return [found[place] for place in range(len(reading.ids))]


def forms_of(reading: Reading, results: Sequence[Result | QueryError]) -> list[dict[str, Any]]:
    """Return the object that ``pmw ask --json`` prints of each answer; a refused question has an error."""
    return [
        {**head, **({"error": one.to_dict()} if isinstance(one, QueryError) else one.to_dict())}
        for head, one in zip(reading.ids, results, strict=True)
    ]


def together(session: Dialogue, results: Sequence[Result | QueryError]) -> Answers:
    """Return the answers to counting questions together, for a client that reads them exactly."""
    for one in results:
        if isinstance(one, QueryError):
            raise one
    answers = [result for result in results if isinstance(result, Answer)]
    if len(answers) < len(results):
        raise QueryError("statements are asked one by one here", code="bad_request", position="queries")
    return Answers.of(session.state, answers)


def done(analyst: Dialogue, large: LargeRequests, request: SessionRequest[Any]) -> Any:
    """Return the result of a request about one question, which has its place among those of much work."""
    cells = cells_of(request.question)
    require_few_cells(cells)
    if isinstance(request.question, Statement):
        request = replace(request, kind=_OF_STATEMENTS.get(request.kind, request.kind))
    with large.place(cells):
        return analyst.do(request)


def measured_rows(
    analyst: Dialogue, large: LargeRequests, questions: Sequence[str | dict[str, Any]], **how: Any
) -> Quote:
    """Measure conditions, and statements with counts alone, together; see ``Asking.measure``."""
    with counted_reading(analyst.look):
        read: list[LinearQuery | Statement] = []
        for one in questions:
            is_sql = isinstance(one, str) and is_statement(one)
            read.append(parse_sql(str(one), analyst.domain) if is_sql else analyst.reader.where(one))
    cells = sum(map(cells_of, read))
    require_few_cells(cells)
    with large.place(cells):
        return analyst.measure(read, **how)


def read_one(session: Dialogue, form: Mapping[str, Any], *, aligned: bool) -> Question:
    """Read one question, as lines of a stream hold it."""
    with counted_reading(session.look):
        if "query" in form:
            question = Question(_canonical(session, _alone(form, "query")))
        elif "aggregate" in form:
            question = Question(_aggregate(session, _alone(form, "aggregate")))
        else:
            question = session.reader.question(form)
    if question.request_id is not None:
        raise QueryError(
            "give the key of a request in its header Idempotency-Key",
            code="bad_request",
            position="request_id",
        )
    if aligned:
        read = question.query
        if isinstance(read, Statement):
            read.require_one_step()
        for one in [arm.where for arm in read.alone] if isinstance(read, Statement) else [read]:
            require_aligned(one)
    return question


def _alone(form: Mapping[str, Any], name: str) -> object:
    """Return what a question's object holds under a name, which has its id beside it at most."""
    other = next((key for key in form if key not in ("id", name)), None)
    if other is not None:
        told = f"expected {name!r} with 'id' alone beside it, got {other[:60]!r}"
        raise QueryError(told, code="bad_request", position=other)
    return form[name]


def _canonical(session: Dialogue, text: object) -> LinearQuery:
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
    one = None if form is None else Aggregate.model_validate(form)
    if one is None or not isinstance(one.where, str):
        return None
    name, by = in_quotes(one.name), [in_quotes(attribute) for attribute in one.by]
    aggregates = {
        "count": "COUNT(*)",
        "mean": f"AVG({name})",
        "sum": f"SUM({name})",
        "quantile": f"QUANTILE_CONT({name}, {one.part:g})",
    }
    where = f" WHERE {one.where}" if one.where.strip() else ""
    groups = f" GROUP BY {', '.join(by)}" if by else ""
    return f"SELECT {', '.join([*by, aggregates[one.kind]])} FROM data{where}{groups}"  # noqa: S608


def _answers(session: Dialogue, questions: Sequence[Question], **how: Any) -> list[Result | QueryError]:
    """Return what comes of questions: those that count are asked together, and statements one by one.

    What could charge more than it may is refused by itself.
    """
    counts = [question for question in questions if isinstance(question.query, LinearQuery)]
    try:
        found = iter([*session.ask_all(counts, **how)] if counts else [])
    except PriceError:
        found = map(partial(_answer_or_price, session, **how), counts)
    return [
        next(found) if isinstance(one.query, LinearQuery) else _answer_or_price(session, one, **how)
        for one in questions
    ]


def _answer_or_price(session: Dialogue, question: Question, **how: Any) -> Result | QueryError:
    try:
        return _answer(session, question, **how)
    except PriceError as error:
        return error


def _answer(session: Dialogue, question: Question, **how: Any) -> Result:
    kind: Kind[Any] = Kinds.ASK if isinstance(question.query, LinearQuery) else Kinds.SQL
    found: Result = session.do(SessionRequest(kind, question.query, request_id=question.request_id, **how))
    return found
