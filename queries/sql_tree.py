"""Syntax trees: SQL texts as sqlglot reads them, with every node and argument on a whitelist.

A construct that this package does not know is refused by name and never half understood. A declared name that
is a word of SQL, such as ``case`` or ``date``, is read as a name where no word can stand.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.parser import Parser as SqlParser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer as SqlTokenizer

from queries.cells import GRAMMAR_WORDS
from queries.comparisons import Order, resolve_operand
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass

LONGEST_TEXT = 4096  # bytes of UTF-8
SYNTHETIC = "synthetic records, which pmw export writes"
_DEEPEST = 6  # lists, and types with parentheses, in each other
_OPENS = frozenset({TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.L_PAREN})
_CLOSES = frozenset({TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.R_PAREN})
_LONGEST_SHOWN = 40  # characters of a refused part
_MOST_TRIED = 8  # words of a refused text that are tried as names
COMPARISONS: dict[type[exp.Expr], Order] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
}  # fmt: skip


# Parts of dates, as ``queries.sql_dates`` writes them: a number, the start of a period, a text.
PART_NODES = (exp.Extract, exp.DateTrunc, exp.TimeToStr)


@dataclass(frozen=True, slots=True)
class Grammar:
    """Which arguments each kind of node may carry, and what is advised where another stands."""

    arguments: dict[type[exp.Expr], frozenset[str]]
    advice: str

    @classmethod
    def of(
        cls, kinds: dict[str, tuple[type[exp.Expr], ...]], advice: str, beside: Grammar | None = None
    ) -> Grammar:
        """Return the grammar in which kinds of nodes may carry arguments, beside those of another."""
        found = {kind: frozenset(names.split()) for names, some in kinds.items() for kind in some}
        return cls({**(beside.arguments if beside else {}), **found}, advice)


CONDITIONS = Grammar.of(
    {
        "": (exp.Null,),
        "this": (
            *(exp.Column, exp.Not, exp.Paren, exp.Neg, exp.Boolean, exp.Abs, exp.Floor, exp.Ceil),
            *(exp.Lower, exp.Upper, exp.Length, exp.Var, exp.Sqrt, exp.Ln, exp.Trim),
        ),
        "this quoted": (exp.Identifier,),
        "this is_string": (exp.Literal,),
        "this expression": (
            *(*COMPARISONS, exp.And, exp.Or, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Escape),
            *(exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Nullif),
            *(exp.Left, exp.Right, exp.StartsWith, exp.Extract),
        ),
        "this unit": (exp.DateTrunc, exp.Interval),
        "this format": (exp.TimeToStr,),
        "this expression typed safe": (exp.Div,),
        "this expression safe": (exp.DPipe,),
        "this expressions": (exp.In, exp.Coalesce),
        "expressions safe coalesce": (exp.Concat,),
        "this expression replacement": (exp.Replace,),
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
    "use =, <>, <, >, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, arithmetic and CASE",
)

_CALLED = re.compile(
    r"(\w+)\s*\((?:\s*\w+\s)?\s*$"
)  # before the first operand of a function that the parser moved
_WORDS: dict[type[exp.Expr], str] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv), "arithmetic"),
    exp.Block: "a second statement", exp.Case: "CASE", exp.Cast: "a cast", exp.Cube: "CUBE",
    exp.Distinct: "DISTINCT", exp.Dot: "a second dot (a date is a text such as '2023-12-31')",
    exp.DPipe: "||", exp.Except: "EXCEPT", exp.Exists: "EXISTS", exp.Filter: "FILTER",
    exp.GroupingSets: "GROUPING SETS", exp.Intersect: "INTERSECT", exp.Lateral: "LATERAL",
    exp.Null: "NULL (write IS NULL)", exp.Parameter: "a parameter", exp.Placeholder: "a placeholder",
    exp.RegexpILike: "a regular expression", exp.RegexpLike: "a regular expression", exp.Rollup: "ROLLUP",
    exp.Select: "a sub-query", exp.SimilarTo: "SIMILAR TO", exp.Star: "*", exp.Subquery: "a sub-query",
    exp.Tuple: "a tuple", exp.Union: "UNION", exp.Unnest: "UNNEST", exp.Values: "VALUES",
    exp.Window: "a window function",
}  # fmt: skip
_ARGUMENT_WORDS = {
    "all": "GROUP BY ALL", "cube": "CUBE", "db": "a table name with a dot", "distinct": "DISTINCT",
    "grouping_sets": "GROUPING SETS", "having": "HAVING", "hint": "a hint", "into": "SELECT INTO",
    "joins": "a join", "laterals": "LATERAL", "limit": "LIMIT", "locks": "FOR UPDATE", "offset": "OFFSET",
    "order": "ORDER BY", "pivots": "PIVOT", "qualify": "QUALIFY", "query": "a sub-query", "rollup": "ROLLUP",
    "sample": "TABLESAMPLE", "totals": "WITH TOTALS", "windows": "WINDOW", "with_": "WITH",
}  # fmt: skip


class _Language(Dialect):
    """SQL as it is read here: ``//`` divides whole numbers, and empty values are sorted last unless said.

    IS binds less than a comparison does: ``age > 2 IS TRUE`` asks whether the comparison is true.
    """

    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(SqlTokenizer):
        """Splits a text into tokens; no first word makes a command of the rest."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **SqlTokenizer.KEYWORDS, "//": TokenType.DIV, "~": TokenType.RLIKE, "~*": TokenType.IRLIKE,
        }  # fmt: skip

    class Parser(SqlParser):
        IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.LOW


def parse_tree(
    text: str, kind: type[exp.Expr] | None, expected: Callable[[], str], domain: Domain
) -> exp.Expr:
    """Return the syntax tree of a text, read as a kind of node; None for a statement."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise QueryError(
            "expected a text of whole letters, got a part of one", code="syntax", position=error.start
        ) from None
    if len(encoded) > LONGEST_TEXT:
        raise QueryError(
            f"a condition or statement has at most {LONGEST_TEXT:,} bytes",
            code="too_long",
            position=len(encoded[:LONGEST_TEXT].decode("utf-8", "ignore")),  # of the first beyond
        )
    try:
        trees = _trees(text, kind, domain)
    except SqlglotError as error:
        found = getattr(error, "errors", None)
        position = _offset(text, found[0]) if found else None
        what = f" near {found[0]['highlight']!r}" if found and found[0].get("highlight") else ""
        if position is None:
            what, position = _unclosed(text)
        raise QueryError(
            f"expected {expected()}; it cannot be read{what}", code="syntax", position=position
        ) from None
    if not trees:
        raise QueryError(f"expected {expected()}, got none", code="syntax", position=0)
    trees[0].meta.update(text=text)
    return trees[0]


def _trees(text: str, kind: type[exp.Expr] | None, domain: Domain) -> list[exp.Expr]:
    tokens = _one_statement(name_tokens(text, domain) or _split(text))
    require_shallow(tokens)
    parser = _Language().parser()
    trees = parser.parse(tokens, text) if kind is None else parser.parse_into(kind, tokens, text)
    found = [tree for tree in trees if tree is not None]
    for node in (node for tree in found for node in tree.walk()):
        if not isinstance(node, exp.Identifier | exp.Literal | exp.National):  # words of SQL, without case
            node.args.update({key: one.upper() for key, one in node.args.items() if isinstance(one, str)})
    return found


def require_shallow(tokens: Sequence[Token]) -> None:
    """Refuse brackets, and parentheses after names of types, that are nested deeply.

    The parser tries each of them in two ways, so that every level takes twice the time.
    """
    opened, deep, before = list[bool](), 0, None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENS:
            opened.append(kind is not TokenType.L_PAREN or before in SqlParser.TYPE_TOKENS)
            deep += opened[-1]
        elif kind in _CLOSES and opened:
            deep -= opened.pop()
        if deep > _DEEPEST:
            raise QueryError(
                f"lists, and types with parentheses, are nested at most {_DEEPEST} deep; write fewer in each "
                "other",
                code="unsupported",
                position=token.start,
            )
        before = kind


def _one_statement(tokens: list[Token]) -> list[Token]:
    ends = [place for place, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON]
    for place in ends:
        behind = next((one for one in tokens[place:] if one.token_type is not TokenType.SEMICOLON), None)
        if behind is not None:
            error = QueryError("a second statement is not supported; ask one alone", code="unsupported",
                               position=behind.start)  # fmt: skip
            error.construct = "a second statement"
            raise error
    return tokens[: ends[0]] if ends else tokens


def check_node(node: object, grammar: Grammar = CONDITIONS) -> None:
    """Refuse a node, or one of its arguments, that is not on the whitelist."""
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
    node: exp.Expr,
    what: str | None = None,
    *,
    grammar: Grammar = CONDITIONS,
    position: int | None = None,
    instead: str | None = None,
) -> NoReturn:
    """Refuse a construct by name; ``instead`` is a statement that tells the same."""
    known = what or _WORDS.get(type(node))
    words = known or f"{written(node)} here"
    error = error_at(node, "unsupported", f"{words} is not supported; {grammar.advice}")
    error.position = error.position if position is None else position
    error.construct = known or (
        node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()
    )
    error.instead = instead
    raise error


def written(node: exp.Expr) -> str:
    """Return a function by the name that was written, and how any other part of a text was written."""
    text, own = node.root().meta.get("text"), node.meta
    starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
    if text is None or not starts or not isinstance(node, exp.Func):
        return node.sql()[:_LONGEST_SHOWN]
    if "end" in own:
        return str(text[own["start"] : own["end"] + 1])
    before = text[: min(starts)]
    called = _CALLED.search(before)
    return (
        called[1] if called is not None else str(text[len(before.rstrip(" [{")) :].strip())[:_LONGEST_SHOWN]
    )


def require_bare(column: exp.Column, grammar: Grammar = CONDITIONS) -> None:
    """Refuse a name with a dot."""
    if column.args.get("table") is not None:
        refuse(column, f"a name with a dot such as {'.'.join(part.name for part in column.parts)}",
               grammar=grammar)  # fmt: skip


def error_at(node: exp.Expr, code: str, message: str) -> QueryError:
    """Return the error of a part of the text, which says where it begins, or what it stands in."""
    place, around = position_of(node), node.parent
    while place is None and around is not None:
        place, around = position_of(around), around.parent
    return QueryError(message, code=code, position=place)


def position_of(node: exp.Expr) -> int | None:
    """Return where a part of the text begins, or None where the parser kept no place in it."""
    part: object = node
    while isinstance(part, exp.Expr):  # the leftmost part is the first argument, all the way down
        if "start" in part.meta:
            return int(part.meta["start"])
        part = part.parts[0] if isinstance(part, exp.Column) else part.args.get("this")
    starts = [int(part.meta["start"]) for part in node.walk() if "start" in part.meta]
    return min(starts) if starts else None


def operand_of(column: exp.Expr, domain: Domain) -> tuple[str, str | None]:
    """Return the declared attribute that a column names, in any case unless it is quoted, and its level."""
    any_case = not column.this.args.get("quoted")
    return resolve_operand(column.name, domain, position_of(column), any_case=any_case)


def is_zero(node: exp.Expr) -> bool:
    """Tell whether a node is the number 0."""
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) == 0


def leaves_no_row(tree: exp.Select) -> bool:
    """Tell whether LIMIT 0, or a condition that is FALSE of two constants, leaves no row of any table."""
    where, limit = tree.args.get("where"), tree.args.get("limit")
    test = exp.true() if where is None else where.this.unnest()
    if isinstance(test, exp.EQ | exp.NEQ) and {type(test.this), type(test.expression)} == {exp.Literal}:
        is_false = (test.this == test.expression) is isinstance(test, exp.NEQ)
    else:
        is_false = isinstance(test, exp.Boolean) and not test.this
    return is_false or (limit is not None and limit.expression == exp.Literal.number(0))


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


def _unclosed(text: str) -> tuple[str, int]:
    """Return what is not closed in a text that cannot be split into words, and where it may begin."""
    if text.count("'") % 2:
        return ": a quote is not closed", text.rindex("'")
    if text.count('"') % 2:
        return ": a double quote is not closed", text.rindex('"')
    if text.rfind("/*") > text.rfind("*/"):
        return ": a comment is not closed", text.rindex("/*")
    return "", 0


# --- names that are words of SQL ----------------------------------------------------------------------------

_TABLES_OF_WORDS = (
    SqlTokenizer.KEYWORDS, SqlParser.FUNCTIONS, SqlParser.FUNCTION_PARSERS, SqlParser.PROPERTY_PARSERS,
    SqlParser.NO_PAREN_FUNCTION_PARSERS, SqlParser.CONSTRAINT_PARSERS,
)  # fmt: skip
SQL_WORDS = frozenset(word.upper() for table in _TABLES_OF_WORDS for word in table) | {
    kind.name for kind in SqlParser.NO_PAREN_FUNCTIONS
}

_COMPARING = frozenset(
    {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
)
_BEFORE = _COMPARING | {
    *(TokenType.L_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.DOT, TokenType.DASH),
    *(TokenType.AND, TokenType.OR, TokenType.NOT),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY),
    *(TokenType.HAVING, TokenType.ORDER_BY),
}
# A word before anything else, such as CASE WHEN or DATE '…', is no name.
_BEHIND = _COMPARING | {
    *(TokenType.BETWEEN, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.ILIKE, TokenType.NOT),
    *(TokenType.AND, TokenType.OR, TokenType.R_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.DOT),
    *(TokenType.DASH, TokenType.PLUS, TokenType.SLASH, TokenType.ALIAS, TokenType.DCOLON),
    *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY),
    *(TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.ASC, TokenType.DESC),
}


def name_tokens(text: str, domain: Domain) -> list[Token] | None:
    """Return the tokens of a text in which declared names that are words of SQL stand as names.

    A word is taken for a name where an attribute stands: between what may come before it and behind it. The
    words of conditions themselves, such as ``in``, never are. None where no declared name is such a word.
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


def with_quoting_hint(
    refusal: QueryError, text: str, domain: Domain, read: Callable[[str], object]
) -> QueryError:
    """Return a refusal that also tells which word of the text would be a declared name in double quotes.

    It is told where the text can be read then, or is refused for something else than that it cannot.
    """
    names = _word_names((domain.name, *domain.names))
    if not names or refusal.code not in ("syntax", "unsupported"):
        return refusal
    try:
        tokens = name_tokens(text, domain) or []
    except SqlglotError:
        return refusal
    for place in itertools.islice(_bare_names(text, tokens, names), _MOST_TRIED):
        token = tokens[place]
        name = names[token.text.casefold()] or token.text
        quoted = f'{text[: token.start]}"{name}"{text[token.end + 1 :]}'
        if _is_better(refusal, quoted, read):
            return QueryError(
                f"{refusal.message}; {token.text} is a word of SQL here: the name stands in double quotes, "
                f'"{name}"',
                code=refusal.code,
                position=refusal.position,
            )
    return refusal


def _is_better(refusal: QueryError, text: str, read: Callable[[str], object]) -> bool:
    """Tell whether another text can be read, or has words at least where the refused one made no sense."""
    try:
        read(text)
    except QueryError as other:
        return refusal.code == "syntax" != other.code
    except RecursionError:
        return False
    return True


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
