"""Questions as they come: where-texts, structured conditions and lines of JSON.

A plain where-text is comparisons of declared names with numbers and texts, joined by AND. Most are no more
than that, and are read here in a tenth of the time that the SQL parser takes and without loading it. What is
not plain, or is refused, is left to that parser, which has the messages.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from queries.categories import CategoricalAttribute
from queries.cells import GRAMMAR_WORDS, nearest
from queries.comparisons import Comparison, Junction, Operator, Predicate, Scalar, negation, resolve_operand
from queries.domain import Domain
from queries.errors import DomainError, QueryError
from queries.frozen import dataclass
from queries.impossible import MOST_CELLS, Impossible
from queries.linear import LinearQuery, cut_factors, nearest_to
from queries.plain_values import is_encodable, shown_text
from queries.segments import count_where
from queries.work import counted_reading

if TYPE_CHECKING:
    from queries.statements import Statement

QuestionId: TypeAlias = str | int | None

_LONGEST_LINE = 2**20  # bytes
_MOST_EDGES = 4  # attributes whose edges a message lists, where it is not known which were compared
_DEEPEST = 16  # lists and objects inside each other; a question needs four
_MARK = "\ufeff"  # of the order of bytes: JSON has none
_KEYS = ("id", "where", "sql", "request_id")
_STATEMENT = re.compile(r"\s*(select\s|with\s+(\w+|\"[^\"]+\")\s+as\s*\()", re.IGNORECASE)
_NO_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++', re.DOTALL)  # a text, or anything else
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a stream.

    Args:
        query: what is asked: a count of records, or a statement, which is answered with a table.
        id: the analyst's own label, given back with the answer.
        request_id: idempotency key, for safe retries; the same key gets the same answer.
    """

    query: LinearQuery | Statement
    id: QuestionId = None
    request_id: str | None = None

    @property
    def is_counting(self) -> bool:
        """Whether it is answered by counting questions alone."""
        if isinstance(self.query, LinearQuery):
            return True
        asks = self.query.counts_alone and bool(self.query.leaves)
        return asks and next(self.query.groups(), None) is not None  # the condition may exclude them all

    def parts(self) -> Iterator[Question]:
        """Yield its counting questions: itself, or one for each COUNT(*) of a statement in each group."""
        if isinstance(self.query, LinearQuery):
            yield self
            return
        for leaf, group, query in self.query.questions():
            number = self.query.question_number(leaf, group)
            yield Question(query, self.id, part_key(self.request_id, number))


def part_key(request_id: str | None, number: int) -> str | None:
    """Return the idempotency key of one of the answers to a question.

    A key that an analyst gives holds no control character, so this is no analyst's own.
    """
    return request_id if request_id is None or number == 0 else f"{request_id}\n{number}"


@counted_reading()
def parse_where(where: str | Mapping[str, Any], domain: Domain) -> LinearQuery:
    """Return the query that counts where a condition holds.

    Args:
        where: a where-text or a structured condition; an empty one counts everybody.
        domain: the declared attributes.

    Raises:
        QueryError: the condition cannot be read or names what is not declared.
    """
    if isinstance(where, str):
        plain = plain_predicate(where, domain)
        if plain is not None:
            with suppress(QueryError):  # what is refused is read again, for the message
                return count_where(plain, domain)
        from queries.row_conditions import parse_condition  # late: some texts alone need the SQL parser

        try:
            return parse_condition(where, domain)
        except QueryError as error:
            error.text = where
            raise
    if isinstance(where, Mapping):
        return count_where(structured_predicate(where, domain), domain)
    raise QueryError("where must be a text or an object", code="bad_request", position="where")


def is_statement(question: object) -> bool:
    """Tell whether a question is the text of a statement, and no condition."""
    return isinstance(question, str) and _STATEMENT.match(question) is not None


@counted_reading()
def parse_sql(text: str, domain: Domain, numbers: Sequence[tuple[float, float, float]] = ()) -> Statement:
    """Return what a statement such as ``SELECT sex, COUNT(*) FROM people GROUP BY sex`` asks.

    Args:
        text: the statement.
        domain: the declared attributes.
        numbers: of one that is read again, what the statements that are asked first (``Statement.given``)
            came to: the least, the answer and the greatest.

    Raises:
        QueryError: the text is no statement that can be answered; where there is another way to ask, the
            message has it.
    """
    from queries.sql import parse_sql as parse  # late: the SQL parser is only needed for texts

    return parse(text, domain, numbers)


def rule_out(domain: Domain, *conditions: str) -> Domain:
    """Return the domain with further conditions that no record satisfies.

    Records that satisfy one are dropped when they are read, and questions leave their cells out.

    Args:
        *conditions: where-texts on whole cells.

    Raises:
        DomainError: a condition cannot be read, cuts cells, is about too many, or holds nowhere or
            everywhere.
    """
    plain = replace(domain.declared, impossible=())
    found = tuple(_impossible(where, plain) for where in conditions)
    return replace(domain, impossible=(*domain.impossible, *found))


def _impossible(where: object, domain: Domain) -> Impossible:
    if not isinstance(where, str) or not where.isprintable():  # a status is read line by line
        told = "expected an impossible condition as a text on one line, such as age < 16 AND married = 'yes'"
        raise DomainError(f"{told}, got {shown_text(where)}")
    try:
        query = parse_where(where, domain)
        require_aligned(query)
    except QueryError as error:
        raise DomainError(f"impossible where {where}: {error.message}") from None
    if query.constant == 0 or not query.scope:
        holds = "no cell" if query.constant == 0 else "every record"
        raise DomainError(f"impossible where {where}: expected some cells, but {holds} satisfies it")
    size = domain.scope_size(query.scope)
    if size > MOST_CELLS:
        raise DomainError(
            f"impossible where {where}: expected attributes with at most {MOST_CELLS:,} cells together, got "
            f"{size:,}; name fewer attributes"
        )
    inside = query.weights() > 0
    inside.flags.writeable = False
    return Impossible(where, query.scope, inside)


def require_aligned(query: LinearQuery) -> None:
    """Refuse a question that cuts cells, whose answer takes them as evenly filled."""
    if query.aligned:
        return
    names = [name for factor in cut_factors(query) for name in factor.scope] or list(query.scope)
    near = nearest_to([query])
    edges = _edges(query.domain, list(dict.fromkeys(names)))
    starts = [f"; cells of {name!r} begin at {listed}" for name, listed in edges]
    if not starts:
        near = "; it decides no cell of an attribute: compare with an edge, or declare narrower cells"
        known = _edges(query.domain, query.domain.names)[:_MOST_EDGES]
        starts = [f"; the edges of {name!r} are {listed}" for name, listed in known]
    raise QueryError(
        f"the condition cuts cells, and only whole cells are asked for{near}{''.join(starts)}",
        code="unaligned",
    )


def _edges(domain: Domain, names: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for attribute in map(domain.__getitem__, names):
        if not isinstance(attribute, CategoricalAttribute):
            edges = attribute.boundaries
            more = ", …" if len(edges) > 6 else ""
            found.append((attribute.name, ", ".join(map(attribute.literal, edges[:6])) + more))
    return found


def parse_line(line: str | bytes, domain: Domain) -> Question:
    """Return the question on one line of JSON.

    Raises:
        QueryError: the line is not a question; nothing else is ever raised.
    """
    return parse_question(read_line(line), domain)


def read_line(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object on a line."""
    if len(line) > _LONGEST_LINE:
        raise QueryError(f"a line has at most {_LONGEST_LINE:,} bytes", code="too_long")
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        _require_shallow(text)
        form = json.loads(text) if text.startswith(_MARK) else _decode(text)  # the former words its refusal
    except UnicodeDecodeError as error:
        raise QueryError("expected UTF-8 text", code="bad_request", position=error.start) from None
    except json.JSONDecodeError as error:
        raise QueryError(f"expected JSON: {error.msg}", code="bad_request", position=error.pos) from None
    except QueryError:
        raise
    except ValueError:
        raise QueryError("expected JSON: a number has too many digits", code="bad_request") from None
    if not isinstance(form, dict):
        raise QueryError('expected a JSON object such as {"where": "…"} or {"sql": "…"}', code="bad_request")
    return form


def _require_shallow(text: str) -> None:
    """Refuse a line that is nested too deeply, before a parser meets a limit of its own."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return
    depths = itertools.accumulate(map(_STEPS.__getitem__, _NO_BRACKET.sub("", text)))
    if max(depths, default=0) > _DEEPEST:
        raise QueryError(f"expected JSON nested at most {_DEEPEST} deep", code="bad_request")


def identifier_of(form: Mapping[str, Any]) -> str | int | None:
    """Return the id of a JSON object, or None where it has none that can be given back."""
    identifier = form.get("id")
    if isinstance(identifier, str):
        return identifier if is_encodable(identifier) else None
    return identifier if isinstance(identifier, int) and not isinstance(identifier, bool) else None


def parse_question(form: Mapping[str, Any], domain: Domain) -> Question:
    """Return the question that a JSON object states.

    Raises:
        QueryError: a key is unknown, a value has the wrong type, or the condition is refused.
    """
    return question_of(form, lambda where: parse_where(where, domain), lambda sql: parse_sql(sql, domain))


def question_of(
    form: Mapping[str, Any],
    read_where: Callable[[Any], LinearQuery],
    read_sql: Callable[[str], LinearQuery | Statement],
) -> Question:
    """Return the question that a JSON object states."""
    for key in form:
        if key not in _KEYS:
            raise QueryError(
                f"expected the keys {', '.join(_KEYS)}, got {key[:60]!r}{nearest(key, _KEYS)}",
                code="bad_request",
                position=key,
            )
    identifier, request = identifier_of(form), form.get("request_id")
    if identifier is None and form.get("id") is not None:
        raise QueryError("id must be a text or a whole number", code="bad_request", position="id")
    if request is not None:
        require_key(request)
    if ("where" in form) == ("sql" in form):
        came = "both" if "where" in form else "neither"
        raise QueryError(
            f"expected one of the keys 'where' and 'sql', got {came}; an empty 'where' counts everybody",
            code="bad_request",
        )
    if "where" in form:
        return Question(read_where(form["where"]), identifier, request)
    if not isinstance(form["sql"], str):
        raise QueryError("sql must be a text", code="bad_request", position="sql")
    return Question(read_sql(form["sql"]), identifier, request)


def require_key(value: object) -> None:
    """Refuse what is no idempotency key."""
    is_text = isinstance(value, str) and 1 <= len(value) <= 200 and is_encodable(value)
    if not (is_text and min(str(value)) >= " "):
        raise QueryError(
            "request_id must be a text of 1 to 200 characters, without control characters",
            code="bad_request",
            position="request_id",
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    form, seen = dict(pairs), set[str]()
    for key, _ in pairs if len(form) < len(pairs) else ():
        if key in seen:
            raise QueryError(f"the key {key[:60]!r} stands there twice", code="bad_request", position=key)
        seen.add(key)
    return form


def _refuse_constant(name: str) -> NoReturn:
    raise QueryError(f"expected a finite number, got {name}", code="bad_request")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant).decode  # one for all


# --- conditions ---------------------------------------------------------------------------------------------


SPACE = r"[ \t\r\n]"
NAME = r'(?:"[^"\n]+"|[A-Za-z_][A-Za-z_0-9]*)'
_VALUE = r"(?:-?[0-9]+(?:\.[0-9]+)?|'[^'\\\n]*')"
_TERM = re.compile(
    rf"(?P<name>{NAME})(?:"
    rf"{SPACE}*(?P<operator><=|>=|<>|!=|=|<|>){SPACE}*(?P<value>{_VALUE})"
    rf"|{SPACE}+(?P<between>BETWEEN){SPACE}+(?P<low>{_VALUE}){SPACE}+AND{SPACE}+(?P<high>{_VALUE})"
    rf"|{SPACE}+(?P<in>IN){SPACE}*\({SPACE}*{_VALUE}(?:{SPACE}*,{SPACE}*{_VALUE})*{SPACE}*\))",
    re.IGNORECASE,
)
_AND = re.compile(rf"{SPACE}+AND{SPACE}+", re.IGNORECASE)
_EACH = re.compile(_VALUE)
_SIGNS: dict[str | None, Operator] = {
    "=": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
_LONGEST = 300  # characters, so of a number, too
_MOST_TERMS = 20
_MOST_VALUES = 10_000


def plain_terms(text: str) -> Iterator[re.Match[str] | None]:
    """Yield the comparisons of a plain where-text; None in place of the first thing that is none."""
    place = 0
    while term := _TERM.match(text, place):
        yield term
        if term.end() == len(text):
            return
        joint = _AND.match(text, term.end())
        if joint is None:
            break
        place = joint.end()
    yield None


def plain_predicate(text: str, domain: Domain) -> Predicate | None:
    """Return the predicate that a plain where-text states; None where it is not plain."""
    if len(text) > _LONGEST or "\\" in text or not text.isascii():
        return None
    found = list[Predicate]()
    for match in plain_terms(text):
        term = None if match is None or len(found) == _MOST_TERMS else _comparison(match, domain)
        if term is None:
            return None
        found.append(term)
    return found[0] if len(found) == 1 else Junction("and", tuple(found))


def _comparison(match: re.Match[str], domain: Domain) -> Predicate | None:
    name = match["name"]
    if name.startswith('"'):
        name = name[1:-1]
    elif name.casefold() in GRAMMAR_WORDS:
        return None
    if name not in domain or name in domain.levels:
        return None
    operator: Operator = "between" if match["between"] else "in" if match["in"] else _SIGNS[match["operator"]]
    values = _EACH.findall(match.string, match.end("name"), match.end())
    return Comparison(name, operator, tuple(map(_plain_scalar, values)), match.start())


def _plain_scalar(text: str) -> Scalar:
    if text.startswith("'"):
        return text[1:-1]
    return float(text) if "." in text else int(text)


# --- structured conditions ----------------------------------------------------------------------------------


def structured_predicate(where: Mapping[str, Any], domain: Domain) -> Predicate:
    """Return the predicate that a structured condition states; an empty one holds for everybody."""
    terms: list[Predicate] = []
    for name, conditions in where.items():
        if not isinstance(name, str):
            raise _refusal(f"expected an attribute's name, got {_kind(name)}", "where")
        path = f"where.{name}"
        attribute, part = resolve_operand(name, domain, path)
        if not isinstance(conditions, dict) or not conditions:
            raise _refusal(f'expected an object such as {{"eq": 3}}, got {_kind(conditions)}', path)
        for key, value in conditions.items():
            operator, values = _read(key, value, f"{path}.{key}")
            term = Comparison(attribute, operator, values, f"{path}.{key}", part)
            terms.append(negation(term) if value is False and not values else term)
    return Junction("and", tuple(terms))


def _read(key: str, value: Any, path: str) -> tuple[Operator, tuple[Scalar, ...]]:
    if key not in _OPERATORS:
        known = tuple(_OPERATORS)
        raise _refusal(f"expected one of {', '.join(known)}, got {key[:60]!r}{nearest(key, known)}", path)
    operator, what, most = _OPERATORS[key]
    if not what:
        return operator, (_scalar(value, path),)
    if most:
        fits = isinstance(value, list | tuple) and (len(value) == 2 if most == 2 else 1 <= len(value) <= most)
    else:
        fits = isinstance(value, bool)
    if not fits:
        raise _refusal(f"expected {what}, got {_kind(value)}", path)
    return operator, tuple(_scalar(item, path) for item in value) if most else ()


def _scalar(value: Any, path: str) -> Scalar:
    if isinstance(value, str | int | float | bool):
        return value
    raise _refusal(f"expected a text, a number, true or false, got {_kind(value)}", path)


# Of each key the operator, what is expected if it is more than one value, and how many values these are.
_OPERATORS: dict[str, tuple[Operator, str, int]] = {
    "eq": ("eq", "", 1), "ne": ("ne", "", 1), "ge": ("ge", "", 1), "gt": ("gt", "", 1), "le": ("le", "", 1),
    "lt": ("lt", "", 1), "between": ("between", "a list of two ends", 2),
    "in": ("in", f"a list of 1 to {_MOST_VALUES:,} values", _MOST_VALUES),
    "is_missing": ("missing", "true or false", 0), "is_other": ("other", "true or false", 0),
}  # fmt: skip


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    names: dict[type, str] = {dict: "an object", str: "a text", type(None): "null"}
    if isinstance(value, bool):
        return "true or false"
    if value == {}:
        return "an empty object"
    if isinstance(value, int | float):
        return "a number"
    return names.get(type(value), f"a {type(value).__name__}")


def _refusal(message: str, path: str) -> QueryError:
    return QueryError(message, code="bad_request", position=path)
