"""Syntax trees: SQL texts as sqlglot reads them, with every node and argument on a whitelist.

A construct that this package does not know is refused by name and never half understood. A declared name that
is a word of SQL, such as ``case`` or ``date``, is read as a name where no word can stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from queries.cells import GRAMMAR_WORDS
from queries.domain import Domain
from queries.errors import QueryError
from queries.predicates import Order

LONGEST_TEXT = 4096  # bytes of UTF-8
COMPARISONS: dict[type[exp.Expr], Order] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}


PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
}


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a text may hold.

    Args:
        arguments: which arguments each kind of node may carry; a node or an argument that is not here is
            refused.
        advice: what to write instead.
    """

    arguments: dict[type[exp.Expr], frozenset[str]]
    advice: str

    @classmethod
    def of(cls, kinds: dict[str, tuple[type[exp.Expr], ...]], advice: str) -> Grammar:
        """Return the grammar in which some kinds of nodes may carry the arguments that a text names."""
        return cls({kind: frozenset(names.split()) for names, some in kinds.items() for kind in some}, advice)


CONDITIONS = Grammar.of(
    {
        "": (exp.Null,),
        "this": (
            *(*PARTS, exp.Column, exp.Not, exp.Paren, exp.Neg, exp.Boolean, exp.Abs, exp.Floor, exp.Ceil),
            *(exp.Lower, exp.Upper, exp.Length),
        ),
        "this quoted": (exp.Identifier,),
        "this is_string": (exp.Literal,),
        "this expression": (
            *(*COMPARISONS, exp.And, exp.Or, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Escape),
            *(exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Nullif),
            *(exp.Left, exp.Right, exp.StartsWith),
        ),
        "this expression typed safe": (exp.Div,),
        "this expression safe": (exp.DPipe,),
        "this expressions": (exp.In, exp.Coalesce),
        "this expressions ignore_nulls": (exp.Greatest, exp.Least),
        "expressions": (exp.Tuple,),
        "this low high symmetric": (exp.Between,),
        "this expression negate": (exp.Like, exp.ILike),
        "this decimals": (exp.Round,),
        "this start length": (exp.Substring,),
        "this to _type": (exp.Cast,),
        "this nested": (exp.DataType,),
        "this ifs default": (exp.Case,),
        "this true false": (exp.If,),
    },
    "use =, <>, <, >, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, arithmetic and CASE, as in age >= 30 AND "
    "sex = 'Female'",
)
COUNTS = Grammar({}, "write SELECT COUNT(*) FROM table WHERE condition GROUP BY attributes")

_WORDS: dict[type[exp.Expr], str] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv), "arithmetic"),
    exp.Anonymous: "a function",
    exp.Block: "a second statement",
    exp.Case: "CASE",
    exp.Cast: "a cast",
    exp.Cube: "CUBE",
    exp.Distinct: "DISTINCT",
    exp.DPipe: "||",
    exp.Except: "EXCEPT",
    exp.Exists: "EXISTS",
    exp.Filter: "FILTER",
    exp.GroupingSets: "GROUPING SETS",
    exp.Intersect: "INTERSECT",
    exp.Lateral: "LATERAL",
    exp.Null: "NULL (write IS NULL)",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a placeholder",
    exp.Rollup: "ROLLUP",
    exp.Select: "a sub-query",
    exp.SimilarTo: "SIMILAR TO",
    exp.Star: "*",
    exp.Subquery: "a sub-query",
    exp.Tuple: "a tuple",
    exp.Union: "UNION",
    exp.Unnest: "UNNEST",
    exp.Values: "VALUES",
    exp.Window: "a window function",
}
_ARGUMENT_WORDS = {
    "all": "GROUP BY ALL",
    "cube": "CUBE",
    "db": "a table name with a dot",
    "distinct": "DISTINCT",
    "grouping_sets": "GROUPING SETS",
    "having": "HAVING",
    "hint": "a hint",
    "into": "SELECT INTO",
    "joins": "a join",
    "laterals": "LATERAL",
    "limit": "LIMIT",
    "locks": "FOR UPDATE",
    "offset": "OFFSET",
    "order": "ORDER BY",
    "pivots": "PIVOT",
    "qualify": "QUALIFY",
    "query": "a sub-query",
    "rollup": "ROLLUP",
    "sample": "TABLESAMPLE",
    "totals": "WITH TOTALS",
    "windows": "WINDOW",
    "with_": "WITH",
}


class _Language(Dialect):
    """SQL as it is read here: ``//`` divides whole numbers, and empty values are sorted last unless said."""

    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(Tokenizer):
        """Splits a text into tokens; no first word makes a command of the rest."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {**Tokenizer.KEYWORDS, "//": TokenType.DIV}


def parse_tree(text: str, kind: type[exp.Expr] | None, expected: str, domain: Domain) -> exp.Expr:
    """Return the syntax tree of a text.

    Args:
        text: at most LONGEST_TEXT bytes.
        kind: what to read it as; None for a statement.
        expected: what should have come, for the message.
        domain: whose names may be words of SQL.

    Raises:
        QueryError: the text is too long, cannot be read, or holds a second statement.
    """
    if len(text.encode("utf-8", "replace")) > LONGEST_TEXT:
        raise QueryError(f"a condition or statement has at most {LONGEST_TEXT:,} bytes", code="too_long")
    try:
        trees = _trees(text, kind, domain)
    except SqlglotError as error:
        found = getattr(error, "errors", None)
        position = _offset(text, found[0]) if found else None
        what = f" near {found[0]['highlight']!r}" if found and found[0].get("highlight") else ""
        if position is None and text.count("'") % 2:
            what = ": a quote is not closed"
        raise QueryError(
            f"expected {expected}; it cannot be read{what}", code="syntax", position=position
        ) from None
    if not trees:
        raise QueryError(f"expected {expected}, got none", code="syntax")
    if len(trees) > 1:
        refuse(trees[1], "a second statement", grammar=COUNTS if kind is None else CONDITIONS)
    return trees[0]


def _trees(text: str, kind: type[exp.Expr] | None, domain: Domain) -> list[exp.Expr]:
    """Return the trees of a text's statements, or of its conditions: one, where there is no semicolon."""
    tokens = name_tokens(text, domain)
    if tokens is None:
        trees = (
            sqlglot.parse(text, dialect=_Language)
            if kind is None
            else [sqlglot.parse_one(text, dialect=_Language, into=kind)]
        )
    else:
        parser = _Language().parser()
        trees = parser.parse(tokens, text) if kind is None else parser.parse_into(kind, tokens, text)
    if kind is not None and None in trees[:1]:
        return []
    return [tree for tree in trees if tree is not None]


def check_node(node: object, grammar: Grammar = CONDITIONS) -> None:
    """Refuse a node, or one of its arguments, that is not on the whitelist.

    Raises:
        QueryError: names what is not supported.
    """
    if not isinstance(node, exp.Expr):
        raise QueryError(f"unsupported condition; {grammar.advice}", code="unsupported")
    allowed = grammar.arguments.get(type(node))
    if allowed is None:
        refuse(node, grammar=grammar)
    for key, value in node.args.items():
        if value not in (None, False, []) and key not in allowed:
            part = value[0] if isinstance(value, list) else value
            place = position_of(part) if isinstance(part, exp.Expr) else None
            refuse(node, _ARGUMENT_WORDS.get(key), grammar=grammar, position=place)


def refuse(
    node: exp.Expr, what: str | None = None, *, grammar: Grammar = CONDITIONS, position: int | None = None
) -> NoReturn:
    """Refuse a construct by name.

    Raises:
        QueryError: always.
    """
    words = what or _WORDS.get(type(node)) or f"{type(node).__name__.upper()} here"
    place = position_of(node) if position is None else position
    raise QueryError(f"{words} is not supported; {grammar.advice}", code="unsupported", position=place)


def require_bare(column: exp.Column, grammar: Grammar = CONDITIONS) -> None:
    """Refuse a name with a dot.

    Raises:
        QueryError: always where the name has one.
    """
    if column.args.get("table") is not None:
        refuse(column, f"a name with a dot such as {'.'.join(part.name for part in column.parts)}",
               grammar=grammar)  # fmt: skip


def error_at(node: exp.Expr, code: str, message: str) -> QueryError:
    """Return the error of a part of the text, which says where it begins."""
    return QueryError(message, code=code, position=position_of(node))


def position_of(node: exp.Expr) -> int | None:
    """Return where a part of the text begins, or None where the parser kept no place in it."""
    part: object = node
    while isinstance(part, exp.Expr):  # the leftmost part is the first argument, all the way down
        if "start" in part.meta:
            return int(part.meta["start"])
        part = part.parts[0] if isinstance(part, exp.Column) else part.args.get("this")
    starts = [int(part.meta["start"]) for part in node.walk() if "start" in part.meta]
    return min(starts) if starts else None


def _offset(text: str, error: dict[str, object]) -> int | None:
    """Return the character offset of a parser error, which counts lines and columns from 1."""
    line, column = error.get("line"), error.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    highlight = error.get("highlight")
    length = len(highlight) if isinstance(highlight, str) else 1
    offset = starts[min(line, len(starts)) - 1] + column - length
    return max(0, min(offset, len(text)))


# --- names that are words of SQL ----------------------------------------------------------------------------

SQL_WORDS = frozenset(
    word.upper()
    for table in (
        Tokenizer.KEYWORDS,
        Parser.FUNCTIONS,
        Parser.FUNCTION_PARSERS,
        Parser.NO_PAREN_FUNCTION_PARSERS,
        Parser.PROPERTY_PARSERS,
        Parser.CONSTRAINT_PARSERS,
    )
    for word in table
) | {kind.name for kind in Parser.NO_PAREN_FUNCTIONS}

_COMPARING = frozenset(
    {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
)
_BEFORE = _COMPARING | {
    *(TokenType.L_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.DOT, TokenType.DASH),
    *(TokenType.AND, TokenType.OR, TokenType.NOT),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY),
}
# A word before anything else, such as CASE WHEN or DATE '…', is no name.
_BEHIND = _COMPARING | {
    *(TokenType.BETWEEN, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.ILIKE, TokenType.NOT),
    *(TokenType.AND, TokenType.OR, TokenType.R_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.DOT),
    *(TokenType.DASH, TokenType.PLUS, TokenType.SLASH, TokenType.ALIAS),
    *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY),
}


def name_tokens(text: str, domain: Domain) -> list[Token] | None:
    """Return the tokens of a text in which declared names that are words of SQL stand as names.

    A word is taken for a name where an attribute stands: between what may come before it and behind it. The
    words of conditions themselves, such as ``in``, never are.

    Returns:
        The tokens, or None where no declared name is such a word: the text can be parsed as it is.

    Raises:
        SqlglotError: the text cannot be split.
    """
    names = _word_names((domain.name, *domain.names))
    if not names:
        return None
    tokens = _split(text)
    for place in _bare_names(text, tokens, names):
        token, behind = tokens[place], tokens[place + 1 : place + 2]
        if token.text.casefold() in GRAMMAR_WORDS or (behind and behind[0].token_type not in _BEHIND):
            continue
        token.token_type = TokenType.IDENTIFIER
        token.text = names[token.text.casefold()] or token.text
    return tokens


def begins_with_name(text: str, domain: Domain) -> bool:
    """Return whether the first word of a text stands there as a declared name."""
    try:
        tokens = name_tokens(text, domain) or []
    except SqlglotError:
        return False
    return bool(tokens) and tokens[0].token_type is TokenType.IDENTIFIER


def with_quoting_hint(refusal: QueryError, text: str, domain: Domain) -> QueryError:
    """Return a refusal that also tells which word of the text would be a declared name in double quotes."""
    names = _word_names((domain.name, *domain.names))
    if not names or refusal.code not in ("syntax", "unsupported"):
        return refusal
    try:
        tokens = name_tokens(text, domain) or []
    except SqlglotError:
        return refusal
    for place in _bare_names(text, tokens, names):
        word, behind = tokens[place].text, tokens[place + 1 : place + 2]
        if behind and behind[0].token_type is TokenType.L_PAREN and word.casefold() not in GRAMMAR_WORDS:
            continue  # a function, such as COUNT(*)
        if not _concerns(refusal, tokens[place : place + 3]):
            continue
        name = names[word.casefold()] or word
        return QueryError(
            f'{refusal.message}; {word} is a word of SQL here: the name stands in double quotes, "{name}"',
            code=refusal.code,
            position=refusal.position,
        )
    return refusal


def _concerns(refusal: QueryError, tokens: list[Token]) -> bool:
    """Tell whether a word is what is refused: it is among these tokens, or the parser stumbled behind it."""
    place = refusal.position
    if not isinstance(place, int):
        return True
    return tokens[0].start <= place and (refusal.code == "syntax" or place <= tokens[-1].end)


@lru_cache(maxsize=256)
def _word_names(declared: tuple[str, ...]) -> dict[str, str | None]:
    """Return the declared names that are words of SQL, by their lower case; None where several share it."""
    folded = Counter(name.casefold() for name in set(declared))
    words = [name for name in declared if name.upper() in SQL_WORDS or name.casefold() in GRAMMAR_WORDS]
    return {name.casefold(): name if folded[name.casefold()] == 1 else None for name in words}


def _split(text: str) -> list[Token]:
    return _Language().tokenize(text)


def _bare_names(text: str, tokens: list[Token], names: Container[str]) -> Iterator[int]:
    """Yield the places of words that are declared names, stand without quotes, and where an operand may."""
    for place, token in enumerate(tokens):
        if token.text.casefold() not in names or text[token.start : token.end + 1] != token.text:
            continue
        if token.token_type is not TokenType.IDENTIFIER and (
            place == 0 or tokens[place - 1].token_type in _BEFORE
        ):
            yield place
