"""Reading benchmark: what the statements that take most to read take, in CPU time and memory.

    python -m benchmarks.reading [--random 400] [--seed 1]

prints a JSON line per statement: its bytes, the CPU seconds and the memory, in MB, that reading it takes, how
many cells were counted, and what came of it. A summary has the most of each. Statements have at most 4,096
bytes, as everywhere. They are over attributes like those of the Adult census table; no table is read. Some
are written to be hard, ``--random`` more are drawn.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Iterator

from benchmarks.runner import alone, parser, peak_mb, reset_peak, tell
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.parsing import parse_sql, parse_where
from queries.work import counted_reading

LONGEST = 4096  # bytes
_DEPTHS = (3, 5, 7, 9, 12, 15, 20, 25, 30, 40, 60)  # of what is nested
_WARM = "age % 2 = 1"
_GAINS = (*range(0, 10_000, 500), *range(10_000, 100_001, 10_000))


def adult_like() -> Domain:
    """Return twelve attributes, as many cells each as those of the Adult census table."""

    def texts(name: str, count: int, *first: str, missing: bool = False) -> CategoricalAttribute:
        others = (f"{name} {number}" for number in range(count - len(first)))
        return CategoricalAttribute(name, (*first, *others), missing=missing)

    return Domain(
        (
            IntegerAttribute("age", 17, 90),
            texts("workclass", 8, "Private", missing=True),
            texts("education", 16),
            texts("marital", 7, "Divorced"),
            texts("occupation", 14, missing=True),
            texts("relationship", 6),
            texts("race", 5, "White"),
            texts("sex", 2, "Male"),
            NumericAttribute("gain", tuple(map(float, _GAINS)), integer=True),
            IntegerAttribute("hours", 1, 99),
            texts("country", 41, missing=True),
            texts("income", 2),
        ),
        name="adult",
    )


# --- statements that are hard -------------------------------------------------------------------------------

_COUNT = "SELECT COUNT(*) FROM adult WHERE "
_BY_SEX = " FROM adult GROUP BY sex"
_BY_TWO = " FROM adult GROUP BY age, hours"
_BY_CUBE = " FROM adult GROUP BY CUBE (race, sex, income)"
_CHOICE = "CASE WHEN workclass='Private' AND marital='Divorced' AND race='White' THEN age ELSE hours END"
_TEXT = "country || education || occupation"
_FIVE = ("age", "hours", "gain", "LENGTH(country)", "LENGTH(education)")
_PLAIN = (
    "age={age}", "workclass<>'Private'", "education<>'education {n4}'", "marital<>'Divorced'",
    "occupation<>'occupation {n4}'", "race<>'White'", "sex<>'Male'", "hours={hours}",
)  # fmt: skip
# Of each its name, how it begins, what it repeats, what stands between and how it ends. ``{n}`` is a number.
_REPEATED: list[tuple[str, str, tuple[str, ...], str, str]] = [
    *((f"choices {sign}", _COUNT, (f"{_CHOICE} {sign} {{n}}",), " OR ", "") for sign in (">", "=", "<>")),
    ("choices, AND", _COUNT, (f"{_CHOICE} <> {{n}}",), " AND ", ""),
    ("one choice of a list", f"{_COUNT}{_CHOICE} IN (", ("{hours}",), ",", ")"),
    ("small list", f"{_COUNT}age + 0 IN (", ("{age}",), ",", ")"),
    ("list of sums", f"{_COUNT}age + hours IN (", ("{age}",), ",", ")"),
    ("list of attributes", f"{_COUNT}age + hours IN (", ("age", "hours"), ",", ")"),
    *((f"sums of {k}", _COUNT, (f"{'+'.join(_FIVE[:k])}*{{n}}>{{n}}",), " OR ", "") for k in (2, 3, 4, 5)),
    *((f"long sum of {k}", _COUNT, _FIVE[:k], "+", ">0") for k in (2, 3, 4, 5)),
    *((f"greatest of {k}", f"{_COUNT}GREATEST(", _FIVE[:k], ",", ") > 30") for k in (2, 3, 4, 5)),
    ("coalesce", f"{_COUNT}COALESCE(", _FIVE[:3], ",", ") > 3"),
    ("sums times constants", _COUNT, ("age*{n}+gain>{n}",), " OR ", ""),
    ("texts", _COUNT, (f"{_TEXT} LIKE '%{{n}}%b'",), " OR ", ""),
    ("joined texts", _COUNT, ("country",), " || ", " = 'a'"),
    ("texts of pairs", _COUNT, ("country", "education"), " || ", " = 'a'"),
    ("lengths", _COUNT, ("LENGTH(country||education||race) > {hours}",), " OR ", ""),
    ("pieces", _COUNT, ("SUBSTRING(country||education, {hours}, 3) = 'a'",), " OR ", ""),
    ("pattern", f"{_COUNT}country || education LIKE '", ("a",), "%", "'"),
    ("texts of numbers", _COUNT, ("CAST(age*hours AS VARCHAR) LIKE '%{n}'",), " OR ", ""),
    ("case by value", f"{_COUNT}CASE age ", ("WHEN {age} THEN hours",), " ", " ELSE 0 END > 3"),
    (
        "case of many",
        f"{_COUNT}CASE ",
        ("WHEN age={age} AND hours<{hours} THEN gain",),
        " ",
        " ELSE 0 END > 3",
    ),
    *((f"plain, {k} attributes", _COUNT, _PLAIN[:k], " OR ", "") for k in (3, 4, 5, 6)),
    ("plain pairs", _COUNT, ("age={age} AND hours={hours} AND gain>{n}",), " OR ", ""),
    ("plain list", f"{_COUNT}age IN (", ("{age}",), ",", ")"),
    ("tuples", f"{_COUNT}(age, hours) IN (", ("({age},{hours})",), ",", ")"),
    ("long OR", _COUNT, ("age+0>{age}",), " OR ", ""),
    ("long AND", _COUNT, ("age+0>{n4}",), " AND ", ""),
    ("long OR of a sum", f"{_COUNT}age+hours>3 OR ", ("age={age}",), " OR ", ""),
    ("long OR before a sum", _COUNT, ("age={age}",), " OR ", " OR age+hours>3"),
    ("filters", "SELECT ", ("COUNT(*) FILTER (WHERE age+hours>{n}) AS a{n}",), ", ", _BY_SEX),
    ("sums by case", "SELECT ", ("SUM(CASE WHEN age>{n} THEN hours*gain END) AS a{n}",), ", ", _BY_SEX),
    ("sum of sums", "SELECT ", ("SUM(age*hours+{n})",), "+", " AS a FROM adult"),
    ("averages", "SELECT ", ("AVG(age*hours+gain) FILTER (WHERE sex='Male') AS a{n}",), ", ", " FROM adult"),
    ("having", f"SELECT sex, COUNT(*){_BY_SEX} HAVING ", ("SUM(age*hours)>{n}",), " OR ", ""),
    ("order", f"SELECT sex, COUNT(*){_BY_SEX} ORDER BY ", ("SUM(age*hours*{n})",), ", ", ""),
    ("many keys", "SELECT COUNT(*) FROM adult GROUP BY ", ("age+{n}>30",), ", ", ""),
    ("choices of conditions", _COUNT, ("IF(age+hours>{n}, gain>{n}, sex='Male')",), " OR ", ""),
    ("first known conditions", _COUNT, ("COALESCE(age+hours>{n}, gain>{n})",), " OR ", ""),
    ("truths", _COUNT, ("(age+hours>{n})=(gain>{n})",), " OR ", ""),
    ("sum of filters", "SELECT ", ("COUNT(*) FILTER (WHERE age+hours>{n})",), "+", " FROM adult"),
    ("alike filters", "SELECT ", ("{n}*COUNT(*) FILTER (WHERE age+hours>3)",), "+", " FROM adult"),
    ("sum of choices", "SELECT SUM(CASE ", ("WHEN age+hours>{n} THEN gain",), " ", " END) FROM adult"),
    ("functions of keys", "SELECT COUNT(*), ", ("age+{n}*hours AS a{n}",), ", ", _BY_TWO),
    ("tests of keys", f"SELECT COUNT(*){_BY_TWO} HAVING ", ("age+{n}*hours>3",), " OR ", ""),
    ("functions of sets", "SELECT COUNT(*), ", ("race||sex||'{n}' AS a{n}",), ", ", _BY_CUBE),
    ("sets", "SELECT COUNT(*) FROM adult GROUP BY GROUPING SETS (", ("(sex,race,income)",), ",", ")"),
]
# Of each its name, what is inside, what it is wrapped in again and again, and how it ends.
_NESTED = [
    ("floors", "age*hours+gain", "FLOOR({inner})", "> 3"),
    ("absolutes", "age*hours-gain", "ABS({inner})", "> 3"),
    ("negatives", "(age*hours-gain)", "(-{inner})", "> 3"),
    ("divisions", "(age*hours)", "({inner}/2)", "> 3"),
    ("letters", "country||education||race", "UPPER({inner})", " = 'A'"),
    ("nulls", "age", "NULLIF({inner},{age})", " > 3"),
    ("wide nulls", "age+hours", "NULLIF({inner},{age})", " > 3"),
    ("distinct", "age > 30", "({inner}) IS DISTINCT FROM (sex='Male')", ""),
    ("is null", "age+hours > 3", "(({inner}) IS NULL)", ""),
    ("symmetric", "age", "COALESCE({inner} BETWEEN SYMMETRIC hours AND age, 1)", " > 0"),
    ("choices of conditions", "age+hours > 3", "IF({inner}, age > hours, gain > 3)", ""),
    ("first known conditions", "age+hours > 3", "COALESCE({inner}, age > hours)", ""),
    ("nested cases", "age", "CASE WHEN {inner} > hours THEN age ELSE gain END", " > 3"),
]
_WHOLE = {
    "not": f"{_COUNT}{'NOT ' * 900}age > 20",
    "parentheses": f"{_COUNT}{'(' * 1900}age > 20{')' * 1900}",
    "plus": f"{_COUNT}age > 20{'+1' * 1900}",
    **{
        f"constants beside {name}, {count}": f"SELECT {'1+' * count}{column}{end}"
        for count in (60, 150, 300, 1900)
        for name, column, end in (("counts", "COUNT(*)", " FROM adult"), ("keys", "age, COUNT(*)", _BY_TWO))
    },
    "choices in a sum": f"SELECT SUM({'CASE WHEN age+hours>3 THEN ' * 60}gain{' END' * 60}) FROM adult",  # noqa: S608
    "cube": "SELECT age, hours, sex, race, COUNT(*) FROM adult GROUP BY CUBE (age, hours, sex, race)",
    "text keys": f"SELECT {_TEXT} AS k, COUNT(*) FROM adult GROUP BY k",  # noqa: S608  # no table is read
    "length keys": f"SELECT LENGTH({_TEXT}) AS k, COUNT(*) FROM adult GROUP BY k",  # noqa: S608
    "product keys": "SELECT age * hours * LENGTH(country) AS k, COUNT(*) FROM adult GROUP BY k",
    **{
        f"{kind} of {count}": f"SELECT {text.format('+'.join(_FIVE[:count]))}"
        for count in (2, 3, 4, 5)
        for kind, text in (
            ("means", "AVG({0}), MEDIAN({0}), STDDEV({0}) FROM adult"),
            ("keys", "{0} AS k, COUNT(*) FROM adult GROUP BY k"),
        )
    },
}


def hard_statements() -> Iterator[tuple[str, str]]:
    """Yield statements that take much to read, each behind its name."""
    for name, begin, pieces, between, end in _REPEATED:
        text, numbers = begin + _numbered(pieces[0], 0), itertools.count(1)
        for piece in itertools.islice(itertools.cycle(pieces), 1, None):
            longer = text + between + _numbered(piece, next(numbers))
            if len((longer + end).encode()) > LONGEST:
                break
            text = longer
        yield name, text + end
    for name, innermost, wrap, end in _NESTED:
        inner = innermost
        for depth in range(1, max(_DEPTHS) + 1):
            inner = _numbered(wrap, depth).replace("{inner}", inner)
            if depth in _DEPTHS and len((_COUNT + inner + end).encode()) <= LONGEST:
                yield f"{name}, {depth} deep", _COUNT + inner + end
    yield from _WHOLE.items()


def _numbered(piece: str, number: int) -> str:
    given = {"n": number, "n4": number % 4, "age": 17 + number % 70, "hours": 1 + number % 90}
    return re.sub(r"\{(n|n4|age|hours)\}", lambda found: str(given[found[1]]), piece)


# --- statements that are drawn ------------------------------------------------------------------------------

_GRAMMAR = {
    "statement": (
        "SELECT COUNT(*) FROM adult WHERE {condition}",
        "SELECT AVG({number}), COUNT(*) FROM adult WHERE {condition} GROUP BY sex",
        "SELECT {number} AS k, SUM(hours) FROM adult GROUP BY k",
    ),
    "number": (
        "({number} + {number})", "({number} - {number})", "({number} * {number})", "({number} / 2)",
        "FLOOR({number})", "ABS({number})", "(-{number})", "NULLIF({number}, {constant})",
        "CASE WHEN {condition} THEN {number} ELSE {number} END", "GREATEST({number}, {number})",
        "COALESCE({number}, {number})", "LENGTH({text})",
    ),
    "text": ("({text} || {text})", "({text} || {text})", "UPPER({text})", "SUBSTRING({text}, 2, 3)"),
    "condition": (
        "({condition} AND {condition})", "({condition} OR {condition})", "({condition} OR {condition})",
        "{number} > {number}", "{number} = {number}", "{number} <> {number}", "{text} LIKE '%a%'",
        "{number} IN ({constant}, {constant}, {constant}, {constant})", "{number} BETWEEN 3 AND {number}",
    ),
}  # fmt: skip
_LEAVES = {
    "number": ("age", "hours", "gain", "3", "LENGTH(country)", "LENGTH(education)", "0.5"),
    "text": ("country", "education", "workclass", "'a'", "occupation", "race"),
    "condition": ("age > {constant}", "hours > {constant}"),
    "constant": tuple(map(str, range(99))),
}


def random_statement(seed: int) -> str:
    """Return a statement of at most ``LONGEST`` bytes, whose parts are drawn."""
    draw = random.Random(seed)

    def expanded(kind: str, depth: int) -> str:
        forms = _GRAMMAR[kind] if depth > 0 and kind in _GRAMMAR else _LEAVES[kind]
        inner = depth - draw.randint(1, 2)
        return re.sub(r"\{(\w+)\}", lambda found: expanded(found[1], inner), draw.choice(forms))

    while len((found := expanded("statement", draw.randint(2, 9))).encode()) > LONGEST:
        pass
    return found


# --- what reading takes -------------------------------------------------------------------------------------


def cost(text: str, domain: Domain) -> dict[str, object]:
    """Return what it takes to read a statement, in a process of its own, and what came of it."""
    return alone(_cost, text, domain)


def _cost(text: str, domain: Domain) -> dict[str, object]:
    parse_where(_WARM, domain)  # loads the libraries
    before, began = reset_peak(), time.process_time()
    with counted_reading() as work:
        try:
            parse_sql(text, domain)
            came = "read"
        except QueryError as refusal:
            came = f"refused: {refusal.code}"
    seconds = round(time.process_time() - began, 3)
    row = {"bytes": len(text.encode()), "cpu_s": seconds, "mb": round(peak_mb() - before, 1)}
    return {**row, "cells": work.done, "came": came}


def main() -> None:
    """Print a line per statement, and the most of all."""
    made = parser(__doc__)
    made.add_argument("--random", type=int, default=400)
    made.add_argument("--seed", type=int, default=1)
    given = made.parse_args()
    domain = adult_like()
    parse_sql(f"{_COUNT}age + 1 > 30", domain)  # loads the parser
    seeds = range(given.seed, given.seed + given.random)
    asked = [*hard_statements(), *((f"drawn {seed}", random_statement(seed)) for seed in seeds)]
    rows = [{"statement": name, **cost(text, domain)} for name, text in asked]
    for row in rows:
        tell(row)
    most = {name: max(float(str(row[name])) for row in rows) for name in ("cpu_s", "mb", "cells")}
    tell({"statements": len(rows), "read": sum(row["came"] == "read" for row in rows), **most})


if __name__ == "__main__":
    main()
