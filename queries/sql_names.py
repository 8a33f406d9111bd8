"""Names that are words of SQL, such as ``case`` and ``date``: read as names where no word can stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from functools import lru_cache
from typing import ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from queries.cells import GRAMMAR_WORDS
from queries.domain import Domain
from queries.errors import QueryError

_WORDS = frozenset(
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

_COMPARISONS = frozenset(
    {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
)
_BEFORE = _COMPARISONS | {
    *(TokenType.L_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.DOT, TokenType.DASH),
    *(TokenType.AND, TokenType.OR, TokenType.NOT),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY),
}
# A word before anything else, such as CASE WHEN or DATE '…', is no name.
_BEHIND = _COMPARISONS | {
    *(TokenType.BETWEEN, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.ILIKE, TokenType.NOT),
    *(TokenType.AND, TokenType.OR, TokenType.R_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.DOT),
    *(TokenType.DASH, TokenType.PLUS, TokenType.SLASH, TokenType.ALIAS),
    *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY),
}


class _Splitter(Tokenizer):
    """Splits a text into tokens; no first word makes a command of the rest."""

    COMMANDS: ClassVar[set[TokenType]] = set()


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
        name = names[word.casefold()] or word
        return QueryError(
            f'{refusal.message}; {word} is a word of SQL here: the name stands in double quotes, "{name}"',
            code=refusal.code,
            position=refusal.position,
        )
    return refusal


@lru_cache(maxsize=256)
def _word_names(declared: tuple[str, ...]) -> dict[str, str | None]:
    """Return the declared names that are words of SQL, by their lower case; None where several share it."""
    folded = Counter(name.casefold() for name in set(declared))
    words = [name for name in declared if name.upper() in _WORDS or name.casefold() in GRAMMAR_WORDS]
    return {name.casefold(): name if folded[name.casefold()] == 1 else None for name in words}


def _split(text: str) -> list[Token]:
    return _Splitter(dialect=Dialect.get_or_raise(None)).tokenize(text)


def _bare_names(text: str, tokens: list[Token], names: Container[str]) -> Iterator[int]:
    """Yield the places of words that are declared names, stand without quotes, and where an operand may."""
    for place, token in enumerate(tokens):
        if token.text.casefold() not in names or text[token.start : token.end + 1] != token.text:
            continue
        if token.token_type is not TokenType.IDENTIFIER and (
            place == 0 or tokens[place - 1].token_type in _BEFORE
        ):
            yield place
