"""Reading benchmark: what the statements that take most to read take, in CPU time and memory.

    python -m benchmarks.reading [--random 400] [--seed 1]

prints a JSON line per statement: its bytes, CPU seconds and the memory that was taken besides, in MB, how many
cells were counted, and whether it is read or refused. A summary has the most of each. Statements have at most 4,096
bytes, as the service takes them. They are over a domain like that of the Adult census table; no table is read.
``--random`` are made up of the same pieces, the others are written to be hard.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from benchmarks.runner import peak_mb, reset_peak, tell
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.parsing import parse_sql
from queries.work import counted_reading

LONGEST = 4096  # bytes


def adult_like() -> Domain:
    """Return twelve attributes, as many cells each as those of the Adult census table."""

    def texts(name: str, count: int, first: str = "", *, missing: bool = False) -> CategoricalAttribute:
        values = (*([first] if first else []), *(f"{name} {number}" for number in range(count - bool(first))))
        return CategoricalAttribute(name, values, missing=missing)

    gains = (*range(0, 10_000, 500), *range(10_000, 100_001, 10_000))
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
            NumericAttribute("gain", tuple(map(float, gains)), integer=True),
            IntegerAttribute("hours", 1, 99),
            texts("country", 41, missing=True),
            texts("income", 2),
        ),
        name="adult",
    )


_CHOICE = "CASE WHEN workclass='Private' AND marital='Divorced' AND race='White' THEN age ELSE hours END"


def _filled(begin: str, piece: Callable[[int], str], joint: str, end: str = "") -> str:
    """Return a statement with as many pieces as it has room for."""
    pieces = [piece(0)]
    while len((text := begin + joint.join([*pieces, piece(len(pieces))]) + end).encode()) <= LONGEST:
        pieces.append(piece(len(pieces)))
    del text
    return begin + joint.join(pieces) + end


def _nested(begin: str, inner: str, wrap: Callable[[str, int], str], end: str) -> Iterator[tuple[int, str]]:
    """Yield statements of a text that is wrapped again and again, with the number of times."""
    level = 0
    while len((begin + (inner := wrap(inner, level)) + end).encode()) <= LONGEST and level < 60:
        level += 1
        if level in (3, 5, 7, 9, 12, 15, 20, 25, 30, 40, 60):
            yield level, begin + inner + end


def hard_statements() -> Iterator[tuple[str, str]]:
    """Yield statements that take much to read, each with what it is."""
    count = "SELECT COUNT(*) FROM adult WHERE "

    def nested(name: str, inner: str, wrap: Callable[[str, int], str], end: str) -> Iterator[tuple[str, str]]:
        for level, text in _nested(count, inner, wrap, end):
            yield f"{name}, {level} deep", text

    for sign in (">", "=", "<>"):
        yield f"choices {sign}", _filled(count, lambda n, s=sign: f"{_CHOICE} {s} {n}", " OR ")
    yield "choices, AND", _filled(count, lambda n: f"{_CHOICE} <> {n}", " AND ")
    yield "one choice of a list", _filled(f"{count}{_CHOICE} IN (", lambda n: f"{n}", ",", ")")
    yield "small list", _filled(f"{count}age + 0 IN (", lambda n: f"{n % 99}", ",", ")")
    yield "list of sums", _filled(f"{count}age + hours IN (", lambda n: f"{n % 180}", ",", ")")
    yield "list of attributes", _filled(f"{count}age + hours IN (", lambda n: "age" if n % 2 else "hours", ",", ")")
    for width in (2, 3, 4, 5):
        names = ["age", "hours", "gain", "LENGTH(country)", "LENGTH(education)"][:width]
        joined = "+".join(names)
        yield f"sums of {width}", _filled(count, lambda n, j=joined: f"{j}*{n}>{n}", " OR ")
        yield f"one long sum of {width}", _filled(count, lambda n, s=names: s[n % len(s)], "+", ">0")
        yield f"mean of a sum of {width}", f"SELECT AVG({joined}), MEDIAN({joined}), STDDEV({joined}) FROM adult"
        yield f"keys of {width}", f"SELECT {joined} AS k, COUNT(*) FROM adult GROUP BY k"
        yield f"greatest of {width}", _filled(f"{count}GREATEST(", lambda n, s=names: s[n % len(s)], ",", ") > 30")
    yield "sums times constants", _filled(count, lambda n: f"age*{n}+gain>{n}", " OR ")
    yield from nested("floors", "age*hours+gain", lambda t, n: f"FLOOR({t})", "> 3")
    yield from nested("absolutes", "age*hours-gain", lambda t, n: f"ABS({t})", "> 3")
    yield from nested("negatives", "(age*hours-gain)", lambda t, n: f"(-{t})", "> 3")
    yield from nested("divisions", "(age*hours)", lambda t, n: f"({t}/2)", "> 3")
    yield "texts", _filled(f"{count}", lambda n: "country || education || occupation LIKE '%a%b'", " OR ")
    yield "joined texts", _filled(count, lambda n: "country", " || ", " = 'a'")
    yield "texts of pairs", _filled(count, lambda n: ("country", "education")[n % 2], " || ", " = 'a'")
    yield from nested("letters", "country||education||race", lambda t, n: f"UPPER({t})", " = 'A'")
    yield "lengths", _filled(count, lambda n: f"LENGTH(country||education||race) > {n}", " OR ")
    yield "pieces", _filled(count, lambda n: f"SUBSTRING(country||education, {n+1}, 3) = 'a'", " OR ")
    yield "pattern", _filled(f"{count}country || education LIKE '", lambda n: "a", "%", "'")
    yield "texts of numbers", _filled(count, lambda n: f"CAST(age*hours AS VARCHAR) LIKE '%{n}'", " OR ")
    yield "text keys", "SELECT country || education || occupation AS k, COUNT(*) FROM adult GROUP BY k"
    yield "length keys", "SELECT LENGTH(country || education || occupation) AS k, COUNT(*) FROM adult GROUP BY k"
    yield "product keys", "SELECT age * 100 + hours AS k, COUNT(*) FROM adult GROUP BY k"
    yield "product keys, gain", "SELECT age * hours * LENGTH(country) AS k, COUNT(*) FROM adult GROUP BY k"
    yield from nested("nulls", "age", lambda t, n: f"NULLIF({t},{n})", " > 3")
    yield from nested("wide nulls", "age+hours", lambda t, n: f"NULLIF({t},{n})", " > 3")
    yield from nested("distinct", "age > 3", lambda t, n: f"({t}) IS DISTINCT FROM (sex='Male')", "")
    yield from nested("is null", "age+hours > 3", lambda t, n: f"(({t}) IS NULL)", "")
    yield from nested("symmetric", "age", lambda t, n: f"COALESCE({t} BETWEEN SYMMETRIC hours AND age, 1)", " > 0")
    yield "coalesce", _filled(f"{count}COALESCE(", lambda n: ("age", "hours", "gain")[n % 3], ",", ") > 3")
    yield from nested("nested cases", "age", lambda t, n: f"CASE WHEN {t} > hours THEN age ELSE gain END", " > 3")
    yield "case by value", _filled(f"{count}CASE age ", lambda n: f"WHEN {n} THEN hours", " ", " ELSE 0 END > 3")
    yield "case of conditions", _filled(f"{count}CASE ", lambda n: f"WHEN age={n} AND hours<{n} THEN gain", " ", " ELSE 0 END > 3")
    names = ("age", "workclass", "education", "marital", "occupation", "race", "sex", "hours")
    for width in (3, 4, 5, 6):
        yield f"plain, {width} attributes", _filled(count, lambda n, w=width: _equal(names[n % w], n), " OR ")
    pair = "age={} AND hours={} AND gain>{}"
    yield "plain pairs", _filled(count, lambda n: pair.format(17 + n % 70, 1 + n % 90, n % 99), " OR ")
    yield "plain list", _filled(f"{count}age IN (", lambda n: f"{17 + n % 70}", ",", ")")
    yield "tuples", _filled(f"{count}(age, hours) IN (", lambda n: f"({n % 90 + 1},{n % 99})", ",", ")")
    yield "not", count + "NOT " * 900 + "age > 20"
    yield "parentheses", count + "(" * 1900 + "age > 20" + ")" * 1900
    yield "plus", count + "age > 20" + "+1" * 1900
    yield "long OR", _filled(count, lambda n: f"age+0>{n % 99}", " OR ")
    yield "long OR of a sum", _filled(f"{count}age+hours>3 OR ", lambda n: f"age={17 + n % 70}", " OR ")
    yield "long OR before a sum", _filled(count, lambda n: f"age={17 + n % 70}", " OR ", " OR age+hours>3")
    yield "long AND", _filled(count, lambda n: f"age+0>{n % 9}", " AND ")
    yield "filters", _filled("SELECT ", lambda n: f"COUNT(*) FILTER (WHERE age+hours>{n}) AS a{n}", ", ", " FROM adult GROUP BY sex")
    yield "sums by case", _filled("SELECT ", lambda n: f"SUM(CASE WHEN age>{n} THEN hours*gain END) AS a{n}", ", ", " FROM adult GROUP BY sex")
    yield "sum of sums", _filled("SELECT ", lambda n: f"SUM(age*hours+{n})", "+", " AS a FROM adult")
    yield "averages", _filled("SELECT ", lambda n: f"AVG(age*hours+gain) FILTER (WHERE sex='Male') AS a{n}", ", ", " FROM adult")
    yield "having", _filled("SELECT sex, COUNT(*) FROM adult GROUP BY sex HAVING ", lambda n: f"SUM(age*hours)>{n}", " OR ")
    yield "order", _filled("SELECT sex, COUNT(*) FROM adult GROUP BY sex ORDER BY ", lambda n: f"SUM(age*hours*{n})", ", ")
    yield "many keys", _filled("SELECT COUNT(*) FROM adult GROUP BY ", lambda n: f"age+{n}>30", ", ")
    yield "cube", "SELECT age, hours, sex, race, COUNT(*) FROM adult GROUP BY CUBE (age, hours, sex, race)"
    yield "sets", _filled("SELECT COUNT(*) FROM adult GROUP BY GROUPING SETS (", lambda n: f"(sex,race,income)", ",", ")")
    yield "sub-query", f"SELECT COUNT(*) FROM (SELECT *, {_CHOICE} AS k FROM adult) t WHERE " + " OR ".join(f"k > {n}" for n in range(300))
    yield "with", _filled("WITH t AS (SELECT age*hours*gain AS k FROM adult) SELECT COUNT(*) FROM t WHERE ", lambda n: f"k>{n}", " OR ")


def _equal(name: str, number: int) -> str:
    if name in ("age", "hours"):
        return f"{name}={17 + number % 70}"
    return f"{name}<>'{ {'workclass': 'Private', 'marital': 'Divorced', 'race': 'White', 'sex': 'Male'}.get(name, f'{name} {number % 6}') }'"


_NUMBERS = ("age", "hours", "gain", "3", "LENGTH(country)", "LENGTH(education)", "0.5")
_TEXTS = ("country", "education", "workclass", "'a'", "occupation", "race")


def random_statement(seed: int) -> str:
    """Return a statement of at most ``LONGEST`` bytes, whose parts are drawn."""
    draw = random.Random(seed)  # noqa: S311  # which statements are read is no secret

    def number(depth: int) -> str:
        if depth <= 0:
            return draw.choice(_NUMBERS)
        kind, inner = draw.randrange(9), lambda: number(depth - draw.randint(1, 2))
        if kind < 3:
            return f"({inner()} {draw.choice('+-*')} {inner()})"
        if kind == 3:
            return f"{draw.choice(('FLOOR', 'ABS', 'ROUND', '-'))}({inner()})"
        if kind == 4:
            return f"NULLIF({inner()}, {draw.randrange(50)})"
        if kind == 5:
            return f"CASE WHEN {condition(depth - 2)} THEN {inner()} ELSE {inner()} END"
        if kind == 6:
            return f"{draw.choice(('GREATEST', 'LEAST', 'COALESCE'))}({inner()}, {inner()})"
        return f"LENGTH({text(depth - 1)})" if kind == 7 else f"({inner()} / 2)"

    def text(depth: int) -> str:
        if depth <= 0:
            return draw.choice(_TEXTS)
        kind = draw.randrange(4)
        if kind < 2:
            return f"({text(depth - 1)} || {text(depth - 1)})"
        return f"UPPER({text(depth - 1)})" if kind == 2 else f"SUBSTRING({text(depth - 1)}, 2, 3)"

    def condition(depth: int) -> str:
        if depth <= 0:
            return f"{draw.choice(('age', 'hours'))} > {draw.randrange(90)}"
        kind, part = draw.randrange(7), depth - draw.randint(1, 2)
        if kind < 3:
            return f"({condition(part)} {draw.choice(('AND', 'OR'))} {condition(part)})"
        if kind == 3:
            return f"{number(part)} {draw.choice(('>', '=', '<>', '<='))} {number(part)}"
        if kind == 4:
            return f"{number(part)} IN ({', '.join(str(draw.randrange(99)) for _ in range(draw.randint(1, 30)))})"
        return f"{text(part)} LIKE '%{draw.choice('abc')}%'" if kind == 5 else f"{number(part)} BETWEEN 3 AND {number(part)}"

    while True:
        shapes = (
            lambda: f"SELECT COUNT(*) FROM adult WHERE {condition(draw.randint(2, 9))}",
            lambda: f"SELECT AVG({number(draw.randint(1, 6))}), COUNT(*) FROM adult WHERE {condition(4)} GROUP BY sex",
            lambda: f"SELECT {number(draw.randint(1, 4))} AS k, SUM(hours) FROM adult GROUP BY k",
        )
        found = draw.choice(shapes)()
        if len(found.encode()) <= LONGEST:
            return found


def cost(text: str, domain: Domain) -> dict[str, object]:
    """Return what it takes to read a statement, in a process of its own, and what came of it."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_cost, args=(text, domain, theirs))
    child.start()
    found: dict[str, object] = ours.recv()
    child.join()
    return found


def _cost(text: str, domain: Domain, found: Connection) -> None:
    before, began = reset_peak(), time.process_time()
    with counted_reading() as work:
        try:
            parse_sql(text, domain)
            came = "read"
        except QueryError as refusal:
            came = f"refused: {refusal.code}"
    seconds = round(time.process_time() - began, 3)
    row = {"bytes": len(text.encode()), "cpu_s": seconds, "mb": round(peak_mb() - before, 1)}
    found.send({**row, "cells": work.done, "came": came})


def main() -> None:
    """Print a line per statement, and the most of all."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    made.add_argument("--random", type=int, default=400)
    made.add_argument("--seed", type=int, default=1)
    given = made.parse_args()
    domain = adult_like()
    parse_sql("SELECT COUNT(*) FROM adult WHERE age + 1 > 30", domain)  # loads the parser
    listed = [*hard_statements()]
    listed += [(f"random {seed}", random_statement(seed)) for seed in range(given.seed, given.seed + given.random)]
    rows = [{"statement": name, **cost(text, domain)} for name, text in listed if len(text.encode()) <= LONGEST]
    for row in sorted(rows, key=lambda row: -float(str(row["cpu_s"]))):
        tell(row)
    tell({
        "statements": len(rows),
        "read": sum(row["came"] == "read" for row in rows),
        **{name: max(float(str(row[name])) for row in rows) for name in ("cpu_s", "mb", "cells")},
    })


if __name__ == "__main__":
    main()
