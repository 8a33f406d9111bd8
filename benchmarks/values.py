"""Values of seeded sessions, column by column: what a change of code must leave as it was.

    python -m benchmarks.values --output BEFORE.npz
    python -m benchmarks.values --output AFTER.npz --against BEFORE.npz

Sessions with repeatable noise are asked the same questions in each form. Counts, sources, versions, shares,
kinds, charges, error quantiles and exported rows are compared bit for bit; ends of intervals also by how far
they moved. One JSON line for each column that is not the same, and one for each world.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import pmw
from benchmarks.runner import parser, tell
from benchmarks.tables import TABLES, StreamChoice
from pmw.data import MemorySource
from pmw.privacy.budget import Composition
from pmw.public.options import TestKind
from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    Person,
    QueryError,
    marginal_cells,
    prefixes,
    random_conjunctions,
)

SEEDS = (1, 2, 3)
_CLOSE = 1e-9  # of the larger end: what another order of sums may move an end by
_Columns = dict[str, NDArray[Any]]
_Values = Mapping[str, NDArray[Any]]
_REPLACE = {"neighboring_relation": pmw.NeighboringRelation.REPLACE_ONE}


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A table, and how sessions over it are opened: options are all but the seed."""

    name: str
    table: pd.DataFrame | MemorySource
    domain: Domain
    delta: float = 1e-9
    epsilon: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def opened(self, seed: int) -> pmw.Session:
        """Open a session with noise that can be repeated."""
        options = pmw.Options(seed=seed, **self.options)
        return pmw.open_session(
            self.table, self.domain, epsilon=self.epsilon, delta=self.delta, options=options
        )


def people(records: int) -> pd.DataFrame:
    """Return made-up records, of 1,000 persons at least: age, hours, sex, region, score and more."""
    generator = np.random.default_rng(7)
    age = np.clip(generator.normal(45, 18, records), 0, 99).astype(int)
    hours = np.clip(age // 2 + generator.integers(0, 25, records), 0, 79)
    columns = {
        "age": age,
        "hours": hours,
        "sex": np.where(generator.random(records) < 0.3 + age / 300, "f", "m"),
        "region": generator.choice(list("nesw"), records, p=[0.4, 0.3, 0.2, 0.1]),
        "score": np.clip(age // 10 + generator.integers(0, 4, records), 0, 11),
        "level": np.clip(hours // 16 + generator.integers(0, 2, records), 0, 5),
        "member": generator.choice(["no", "yes"], records, p=[0.7, 0.3]),
        "income": (generator.gamma(2.0, 900.0, records) + 30 * age).astype(int).clip(0, 19_999),
        "who": generator.integers(0, max(1000, records // 3), records),
    }
    return pd.DataFrame(columns)


_ALL: dict[str, Any] = {"missing": True, "other": True}  # nothing is dropped, as replace-one asks
_ATTRIBUTES: dict[str, Attribute] = {
    "age": IntegerAttribute("age", 0, 99, **_ALL),
    "hours": IntegerAttribute("hours", 0, 79, width=2, **_ALL),
    "sex": CategoricalAttribute("sex", ("f", "m"), **_ALL),
    "region": CategoricalAttribute("region", ("n", "e", "s", "w"), **_ALL),
    "score": IntegerAttribute("score", 0, 11, **_ALL),
    "level": IntegerAttribute("level", 0, 5, width=2, **_ALL),
    "member": CategoricalAttribute("member", ("no", "yes"), **_ALL),
    "income": IntegerAttribute("income", 0, 19_999, width=5, **_ALL),
}
_SMALL, _BINNED, _LONG = (
    ("sex", "score", "level"),
    ("age", "hours", "sex", "region", "score"),
    ("age", "hours", "sex", "region", "score", "level", "member", "income"),
)


def _domain(names: Iterable[str], person: str | None = None) -> Domain:
    limit = None if person is None else Person(person, 2)
    return Domain(tuple(_ATTRIBUTES[name] for name in names), "people", person=limit)


def _made_up() -> dict[str, World]:
    few, many = people(4_000), people(20_000)
    worlds = [
        World("small", few, _domain(_SMALL)),
        World("small Gaussian", few, _domain(_SMALL), options={"composition": Composition.GDP}),
        World("small replace-one", few, _domain(_SMALL), options=_REPLACE),
        World("binned", many, _domain(_BINNED)),
        World("binned pure", many, _domain(_BINNED), delta=0),
        World("binned replace-one", many, _domain(_BINNED), options=_REPLACE),
        World("simultaneous", many, _domain(_BINNED), options={"simultaneous": True}),
        World("contract", many, _domain(_BINNED), epsilon=4, options={"accuracy": 0.04, "records": 20_000}),
        World("persons", many, _domain(_BINNED, "who")),
        World("questions", few, _domain(_SMALL), options={"test": TestKind.QUERY}),
        World("long", many, _domain(_LONG)),
        World("long pure", many, _domain(_LONG), delta=0, options=_REPLACE),
    ]
    return {one.name: one for one in worlds}


WORLDS: Mapping[str, World] = _made_up()


def adult(folder: Path) -> World:
    """Return the real table that some figures of the documentation are about."""
    case = TABLES["adult-small"](folder, StreamChoice("random", 1))
    return World("adult", case.source(), case.domain)


def measured(world: World, seed: int) -> dict[str, _Columns]:
    """Return what a session gives: by the name of a part, columns."""
    found: dict[str, _Columns] = {}
    with world.opened(seed) as session:
        for name, ask in _parts(world.domain, seed):
            try:
                found[name] = ask(session)
            except (pmw.PMWError, QueryError) as refused:
                text = f"{type(refused).__name__}: {refused}"
                found[name] = {"refused": np.array([text])}
        prices = [(line.event, str(line.price)) for line in session.ledger().lines]
        found["ledger"] = {"entries": np.array([": ".join(one) for one in prices])}
        found["quantiles"] = {"texts": np.array([repr(one) for one in session.state.quantiles])}
        rows = session.synthetic_records(500, seed=seed)
        found["rows"] = {str(name): rows[name].astype(str).to_numpy(dtype=str) for name in rows}
    return found


def _parts(domain: Domain, seed: int) -> Iterator[tuple[str, Callable[[pmw.Session], _Columns]]]:
    """Yield what a session is asked, in order, by name."""
    generator = np.random.default_rng(seed)
    ordered = [name for name in domain.names if domain[name].size > 10]
    axis = next((one for one in ordered if isinstance(domain[one], IntegerAttribute)), domain.names[0])
    other = next(name for name in domain.names if domain[name].size <= 10)
    longest = max(ordered, key=lambda name: domain[name].size)
    stream = list(random_conjunctions(domain, 300, seed=seed))
    ends = np.sort(generator.integers(0, domain[axis].size, (200, 2)), axis=1)
    texts = [f"{axis} BETWEEN {low} AND {high}" for low, high in ends[:15].tolist()]
    wide = [name for name in domain.names if getattr(domain[name], "width", 1) > 1]
    texts += [f"{name} <= {low}" for name in wide for low in (2, 12, 14)] + ["", f"NOT ({texts[0]})"]
    texts += [f"{wide[0]} > 2 AND {axis} > 6"] if wide else []
    yield "single", lambda session: _answers(session.ask(one) for one in stream[:30])
    yield "stream", lambda session: _answers(session.ask_all(stream[30:]))
    for number, text in enumerate(texts):  # each by itself: one may be refused
        yield f"text {number}", lambda session, text=text: _answers([session.ask(text)])  # type: ignore[misc]
    yield "cells", lambda session: _answers(session.ask_all(marginal_cells(domain, (axis, other))))
    yield "prefixes", lambda session: _answers(session.ask_all(prefixes(domain, longest)))
    yield "arrays", lambda session: _answers(session.answer_arrays((axis,), ends[:, :1], ends[:, 1:]))
    both = np.sort(generator.integers(0, domain[other].size, (200, 2)), axis=1)
    pairs = [np.stack([ends[:, side], both[:, side]], axis=1) for side in (0, 1)]
    far = np.sort(generator.integers(0, domain[longest].size, (100, 2)), axis=1)
    yield "long arrays", lambda session: _answers(session.answer_arrays((longest,), far[:, :1], far[:, 1:]))
    yield "pairs", lambda session: _answers(session.answer_arrays((axis, other), *pairs))
    statements = [f"{other}, COUNT(*) AS n FROM people GROUP BY {other} ORDER BY n DESC"]
    statements += [f"{other}, COUNT(*) AS n FROM people WHERE {texts[0]} GROUP BY {other}"]
    for form in ("SUM({0})", "AVG({0})", "MEDIAN({0})", "MIN({0})", "VAR_POP({0})", "STDDEV({0})"):
        statements.append(f"{other}, {form.format(axis)} AS n FROM people GROUP BY {other}")
        statements.append(f"{form.format(axis)} AS n FROM people WHERE {texts[1]}")
    statements += [f"SUM(CASE WHEN {texts[2]} THEN 1 ELSE 0 END) AS n FROM people"]
    for number, text in enumerate(statements):
        yield f"statement {number}", lambda session, text=text: _table(session.sql("SELECT " + text))  # type: ignore[misc]
    yield "mean", lambda session: _table(session.mean(axis, by=other))
    yield "quantile", lambda session: _table(session.quantile(axis, 0.25, by=other))
    yield "measured", lambda session: {"quote": np.array([_told(session.measure((axis, other)))])}
    yield "after measuring", lambda session: _answers(session.ask_all(stream[:60], fresh=True))
    yield "pairs again", lambda session: _answers(session.answer_arrays((axis, other), *pairs, fresh=True))
    yield "sum again", lambda session: _table(session.sql("SELECT " + statements[2], fresh=True))
    yield "finished", lambda session: {"quotes": np.array([_told(quote) for quote in session.finish()])}
    yield "at the end", lambda session: _answers(session.ask_all(stream[60:120], fresh=True))


def _told(quote: pmw.Quote) -> str:
    """Return a price with all digits."""
    names = ("scope", "cells", "noise", "share", "half_width", "affordable")
    return f"Quote({', '.join(f'{name}={getattr(quote, name)!r}' for name in names)})"


def _answers(found: Any) -> _Columns:
    """Return answers as columns, whatever holds them."""
    answers = list(found.each() if hasattr(found, "each") else found)
    nothing = (np.nan, np.nan)
    return {
        "count": np.array([one.count for one in answers], dtype=np.float64),
        "ends": np.array([one.interval or nothing for one in answers], dtype=np.float64).reshape(-1, 2),
        "typical": np.array([one.typical or nothing for one in answers], dtype=np.float64).reshape(-1, 2),
        "source": np.array([one.source.value for one in answers], dtype=str),
        "version": np.array([one.version for one in answers], dtype=np.int64),
        "share": np.array([one.spent.share for one in answers], dtype=np.float64),
        "kind": np.array([str(one.kind) for one in answers], dtype=str),
    }


def _table(found: Any) -> _Columns:
    """Return the result of a statement as columns: each number, and the ends of its intervals."""
    frame = found.to_pandas()
    columns: _Columns = {}
    for name in map(str, frame):
        ends = [f"{name}_low", f"{name}_high"] if f"{name}_low" in frame else ["low", "high"]
        if name in ("n", "count", "mean", "quantile") and set(ends) <= set(frame):
            columns["value"] = frame[name].to_numpy(dtype=np.float64)
            columns["ends"] = frame[ends].to_numpy(dtype=np.float64)
    return columns or {"text": np.array([frame.to_json()])}


def compared(
    before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]]
) -> Iterator[dict[str, Any]]:
    """Yield one line for each column that is not the same bit for bit, or that one of two files lacks."""
    for key in dict.fromkeys([*before, *after]):
        if key not in before or key not in after:
            yield {"column": key, "only": "before" if key in before else "after"}
            continue
        one, two = before[key], after[key]
        if one.shape == two.shape and _digest(one) == _digest(two):
            continue
        line: dict[str, Any] = {"column": key, "before": _digest(one), "after": _digest(two)}
        if one.shape == two.shape and one.dtype.kind == "f":
            line |= _moved(one.reshape(len(one), -1), two.reshape(len(two), -1))
        elif one.shape == two.shape:
            line["different"] = int(np.sum(one != two))
        yield line


def _moved(one: NDArray[np.float64], two: NDArray[np.float64]) -> dict[str, Any]:
    """Return how many rows moved, and how: of two ends, whether they are narrower or wider."""
    known = ~np.isnan(one).any(axis=1), ~np.isnan(two).any(axis=1)
    both = known[0] & known[1]
    one, two = one[both], two[both]
    scale = np.maximum(np.abs(one).max(axis=1, initial=0), 1.0)
    moves = (two - one) / scale[:, None]
    far = np.abs(moves).max(axis=1, initial=0)
    inward, outward = moves * (1, -1)[: moves.shape[1]], moves * (-1, 1)[: moves.shape[1]]
    kinds = {"equal": far == 0, "close": (far > 0) & (far <= _CLOSE)}
    if one.shape[1:] == (2,):
        kinds["narrower"] = (far > _CLOSE) & (inward >= -_CLOSE).all(axis=1)
        kinds["wider"] = (far > _CLOSE) & (outward >= -_CLOSE).all(axis=1)
    kinds["elsewhere"] = ~np.logical_or.reduce(list(kinds.values()))
    line: dict[str, Any] = {name: int(rows.sum()) for name, rows in kinds.items()}
    if one.shape[1:] == (2,):
        ratios = (two[:, 1] - two[:, 0]) / np.maximum(one[:, 1] - one[:, 0], 1e-12)
        changed = ratios[far > _CLOSE]
        line["width"] = (
            [round(float(end), 4) for end in (changed.min(), changed.max())] if changed.size else []
        )
    line |= {"largest": float(far.max(initial=0)), "gained": int(np.sum(~known[0] & known[1]))}
    return line | {"lost": int(np.sum(known[0] & ~known[1]))}


def _digest(column: NDArray[Any]) -> str:
    values = column.tobytes() if column.dtype.kind in "fiub" else "\n".join(column.tolist()).encode()
    return hashlib.sha256(values).hexdigest()[:16]


def main() -> None:
    """Measure the values, write them, and compare them with earlier ones."""
    made = parser(__doc__, "data")
    made.add_argument("--output", type=Path, help="file to write (.npz)")
    made.add_argument("--against", type=Path, help="file of an earlier run, to compare with")
    made.add_argument("--world", action="append", choices=[*WORLDS, "adult"], help="some worlds alone")
    arguments = made.parse_args()
    worlds = dict(WORLDS) | ({"adult": adult(arguments.data_dir)} if arguments.data_dir else {})
    values: dict[str, NDArray[Any]] = {}
    for name in arguments.world or worlds:
        for seed in SEEDS:
            found = measured(worlds[name], seed)
            values |= {
                f"{name}|{seed}|{part}|{key}": v for part, one in found.items() for key, v in one.items()
            }
        own = {key: column for key, column in values.items() if key.startswith(f"{name}|")}
        whole = hashlib.sha256("".join(map(_digest, own.values())).encode()).hexdigest()[:16]
        tell({"world": name, "columns": len(own), "hash": whole})
    if arguments.output:
        np.savez_compressed(arguments.output, allow_pickle=False, **values)
    if arguments.against:
        with np.load(arguments.against) as stored:
            before = {key: stored[key] for key in stored if key.split("|")[0] in (arguments.world or worlds)}
        for line in compared(before, values):
            tell(line)


if __name__ == "__main__":
    main()
