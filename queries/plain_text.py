"""Plain where-texts: comparisons of declared names with numbers and texts, joined by AND.

Most where-texts are no more than that. They are read here, in a tenth of the time that the SQL parser takes
and without loading it. What is not plain, or is refused, is left to that parser, which has the messages.
"""

from __future__ import annotations

import re

from queries.cells import GRAMMAR_WORDS
from queries.domain import Domain
from queries.predicates import And, Between, Comparison, IsIn, Operator, Predicate, Scalar

SPACE = r"[ \t\r\n]"
NAME = r'(?:"[^"\n]+"|[A-Za-z_][A-Za-z_0-9]*)'
_VALUE = r"(?:-?[0-9]+(?:\.[0-9]+)?|'[^'\\\n]*')"
TERM = re.compile(
    rf"(?P<name>{NAME})(?:"
    rf"{SPACE}*(?P<operator><=|>=|<>|!=|=|<|>){SPACE}*(?P<value>{_VALUE})"
    rf"|{SPACE}+BETWEEN{SPACE}+(?P<low>{_VALUE}){SPACE}+AND{SPACE}+(?P<high>{_VALUE})"
    rf"|{SPACE}+IN{SPACE}*\({SPACE}*(?P<values>{_VALUE}(?:{SPACE}*,{SPACE}*{_VALUE})*){SPACE}*\))",
    re.IGNORECASE,
)
AND = re.compile(rf"{SPACE}+AND{SPACE}+", re.IGNORECASE)
_EACH = re.compile(_VALUE)
_OPERATORS: dict[str, Operator] = {
    "=": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
_LONGEST = 300  # characters, so of a number, too
_MOST = 20  # comparisons


def plain_predicate(text: str, domain: Domain) -> Predicate | None:
    """Return the predicate that a plain where-text states; None where it is not plain.

    Args:
        text: the where-text.
        domain: the declared attributes.
    """
    if len(text) > _LONGEST or "\\" in text or not text.isascii():
        return None
    found, place = list[Predicate](), 0
    while len(found) < _MOST and (match := TERM.match(text, place)):
        term = _predicate(match, domain)
        if term is None:
            return None
        found.append(term)
        if match.end() == len(text):
            return found[0] if len(found) == 1 else And(tuple(found))
        joint = AND.match(text, match.end())
        if joint is None:
            return None
        place = joint.end()
    return None


def _predicate(match: re.Match[str], domain: Domain) -> Predicate | None:
    name = match["name"]
    if name.startswith('"'):
        name = name[1:-1]
    elif name.upper() in GRAMMAR_WORDS or name.casefold() in GRAMMAR_WORDS:
        return None
    if name not in domain or name in domain.levels:
        return None
    place = match.start()
    if match["operator"] is not None:
        return Comparison(name, _OPERATORS[match["operator"]], _scalar(match["value"]), place)
    if match["low"] is not None:
        return Between(name, _scalar(match["low"]), _scalar(match["high"]), place)
    return IsIn(name, tuple(map(_scalar, _EACH.findall(match["values"]))), place)


def _scalar(text: str) -> Scalar:
    if text.startswith("'"):
        return text[1:-1]
    return float(text) if "." in text else int(text)
