"""Transcripts: what every command prints in a session of each kind, word for word, under repeatable noise.

Each test plays one kind of session, from its plan to questions after its end, and compares all of it with
``tests/transcripts/KIND.txt``: command lines, both outputs, exit codes and the files that were written. Words
and whole numbers are compared exactly, numbers with a decimal point to five digits or nearly to their last
place.

Who means to change no behaviour leaves these files as they are. Who means to change some writes them again
with ``python scripts/write_pages.py transcripts`` and reads what became different.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from pmw.cli import main
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Geometric, SechSquared
from pmw.privacy.random_bits import repeatable_seed
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, save_schema

FOLDER = Path(__file__).parent / "transcripts"
SEEDS = "pmw.session.journal.fresh_seed"  # where sessions take the bytes of their noise from
WRITTEN_BY = "if it is meant to, run python scripts/write_pages.py transcripts"
DISTRIBUTIONS = (Geometric, DiscreteLaplace, DiscreteGaussian, SechSquared)

DELTA = ("--delta", "1e-9")
REPLACED = ("--neighbors", "replace-one")
TREE = ("--model", "graphical")
QUERY = ("--test", "query")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of session.

    Args:
        options: of ``pmw open``, and of ``pmw plan`` before it.
        long: over the domain that only a tree holds.
        in_words: plan, status and ledger are kept as texts too, not as JSON alone.
        copied: its table is looked at first, and a backup is made and asked.
    """

    options: tuple[str, ...]
    long: bool = False
    in_words: bool = False
    copied: bool = False


KINDS = {
    "marginal": Kind(DELTA, in_words=True),
    "marginal-pure": Kind(("--records-per-person", "2")),
    "marginal-replaced": Kind((*REPLACED, *DELTA)),
    "marginal-replaced-pure": Kind((*REPLACED, "--queries", "200", "--confidence", "0.9"), in_words=True),
    "marginal-laplace": Kind((*DELTA, "--sparse-vector", "laplace-rounds", "--update-limit", "2")),
    "marginal-exponential": Kind(
        (*DELTA, "--sparse-vector", "exponential", "--opening", "none"), copied=True
    ),
    "tree": Kind((*DELTA, *TREE, "--max-cells", "150")),
    "tree-pure": Kind((*TREE, "--sparse-vector", "laplace", "--composition", "pure")),
    "long": Kind(DELTA, long=True),
    "long-pure": Kind((), long=True),
    "long-simultaneous": Kind((*REPLACED, *DELTA, "--simultaneous"), long=True),
    "query": Kind((*QUERY, *DELTA, "--threshold", "40"), in_words=True),
    "query-pure": Kind((*QUERY, "--threshold", "60", "--update-limit", "6", "--sides", "two-sided")),
    "query-replaced": Kind((*QUERY, *REPLACED, *DELTA, "--threshold", "60", "--update-limit", "8")),
    "query-replaced-pure": Kind(
        (*QUERY, *REPLACED, "--threshold", "80", "--sparse-vector", "laplace", "--update-limit", "3")
    ),
    "query-sech2": Kind((*QUERY, *DELTA, "--sparse-vector", "sech2", "--threshold", "60")),
    "textbook": Kind(
        (*QUERY, *DELTA, "--opening", "none", "--update", "step", "--threshold", "100", "--update-limit", "3")
    ),
}

SHORT = Domain(
    (
        IntegerAttribute("age", 18, 65, 4, missing=True, other=True),
        CategoricalAttribute("sex", ("Female", "Male"), missing=True, other=True),
        CategoricalAttribute("region", ("north", "east", "south"), missing=True, other=True),
        NumericAttribute("income", (0, 1, 10, 20, 40, 100), missing=True, other=True),
    ),
    name="people",
)
LONG = Domain(
    (
        *SHORT.attributes,
        IntegerAttribute("score", 0, 99, missing=True, other=True),
        *(IntegerAttribute(f"item{place}", 0, 5, missing=True, other=True) for place in range(4)),
    ),
    name="people",
)

QUESTIONS = (
    "sex = 'Male'",
    "age BETWEEN 30 AND 49 AND sex = 'Female'",
    "income >= 40 AND age >= 50",
    "income > 10",  # which the cells do not decide
    "region IN ('north', 'east') AND income < 1",
    "sex = 'Female' OR income >= 20",
    "NOT (region = 'south' OR age < 30)",
    {"region": {"eq": "south"}, "sex": {"in": ["Male"]}},
    "age BETWEEN 30 AND 49 AND sex = 'Female'",
    "income > 10 AND region = 'north'",
    "heigth > 180",  # which is refused
    "region IS NULL OR sex = '(other)'",
    "age >= 34 AND sex = 'Male' AND income >= 20 AND region = 'south'",
    "",
)
GROUPED = "SELECT sex, COUNT(*) FROM people WHERE income >= 20 GROUP BY sex"
LONG_QUESTIONS = (
    "score >= 50 AND age < 30",
    "score BETWEEN 10 AND 29 AND item0 >= 2",
    "item0 = 1 AND item1 = 1",
    "item2 >= 3 AND item3 >= 3 AND sex = 'Male'",
)


def people() -> pd.DataFrame:
    """Return 2,000 records with dependent attributes, the same in every run."""
    generator = np.random.default_rng(20)
    age = generator.integers(18, 66, 2000)
    sex = np.where(generator.random(2000) < 0.5, "Female", "Male").astype(object)
    income = np.round(generator.random(2000) * age * np.where(sex == "Male", 1.5, 1.0), 1).astype(object)
    income[generator.random(2000) < 0.2] = 0.0
    shift = np.where(age > 40, 1, 0) + generator.integers(0, 2, 2000)
    region = np.array(["north", "east", "south"])[shift].astype(object)
    score = (age + generator.integers(0, 35, 2000)).clip(0, 99)
    items = {f"item{place}": (score // 20 + generator.integers(0, 2, 2000)).clip(0, 5) for place in range(4)}
    for column, other in ((sex, "unknown"), (region, "abroad"), (income, "much")):
        column[generator.random(2000) < 0.03] = None
        column[generator.random(2000) < 0.02] = other
    return pd.DataFrame({"age": age, "sex": sex, "region": region, "income": income, "score": score, **items})


def stream(kind: Kind) -> str:
    """Return the questions of a stream, a line each; the last is a statement."""
    asked = [*QUESTIONS, *(LONG_QUESTIONS if kind.long else ())]
    lines = [{"id": number, "where": where} for number, where in enumerate(asked, 1)]
    return "".join(json.dumps(line) + "\n" for line in (*lines, {"id": len(asked) + 1, "sql": GROUPED}))


def commands(kind: Kind) -> Iterator[tuple[str, ...]]:
    """Yield the commands of a session, from its plan to what comes after its end."""
    options = ("--schema", "people.toml", "--epsilon", "4", *kind.options)
    begin = ("open", "study.pmw", "--data", "people.csv", *options, "--verbose")
    plan = ("plan", "--records", "2000", *options)
    if kind.in_words:
        yield plan
    yield (*plan, "--json")
    if kind.copied:
        yield ("check", *begin[2:6])
    yield begin
    yield ("ask", "study.pmw", "--stream")
    most = ("--at-most", "100%")  # else much of it would be refused for its price
    yield ("ask", "study.pmw", "age >= 50 AND region = 'north'", *most)
    yield ("ask", "study.pmw", "income > 10", "--fresh", "--json", *most)
    yield ("ask", "study.pmw", "--sql", GROUPED, "--fresh", "--json", *most)
    yield ("ask", "study.pmw", "age >= 50 AND regoin = 'north'")
    yield ("ask", "study.pmw", "--sql", GROUPED.replace("sex", "region"), *most)
    yield ("ask", "study.pmw", "--workload", "marginals:sex")
    yield ("ask", "study.pmw", "income BETWEEN 5 AND 30 AND age < 22", "--strict", *most)
    if kind.in_words:
        yield ("status", "study.pmw")
        yield ("ledger", "study.pmw")
    yield ("status", "study.pmw", "--json")
    yield ("ledger", "study.pmw", "--json")
    yield ("verify", "study.pmw", "--json")
    yield ("export", "study.pmw", "--output", "rows.csv", "--rows", "15", "--seed", "3")
    yield ("export", "study.pmw", "--output", "released.json", "--format", "measurements")
    if kind.copied:
        yield ("backup", "study.pmw", "--output", "copy.pmw")
        yield ("ask", "copy.pmw", "sex = 'Male' AND age >= 50")
    yield ("close", "study.pmw", "--yes")
    yield ("ask", "study.pmw", "income >= 10 AND sex = 'Female'")
    yield ("ask", "study.pmw", "age >= 50 AND region = 'north'")
    yield ("status", "study.pmw")


class Draws:
    """Repeatable noise for sessions in files, and how much of it was drawn.

    Most noise stays secret: that of a test shows only where it turns the outcome. So its sum is kept too.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seeds = itertools.count()
        self._drawn: list[int] = []
        monkeypatch.setattr(SEEDS, lambda: repeatable_seed(20, next(self._seeds)))
        for distribution in DISTRIBUTIONS:
            for name in ("sample", "sample_array"):
                monkeypatch.setattr(distribution, name, self._watched(getattr(distribution, name)))

    def _watched(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            drawn = draw(*arguments)
            self._drawn += np.ravel(drawn).tolist()
            return drawn

        return watched

    def told(self) -> list[str]:
        """Return a line about what was drawn since the last one; none where nothing was."""
        drawn, self._drawn = self._drawn, []
        return [f"noise: {len(drawn)} draws, {sum(map(abs, drawn))} in all"] if drawn else []


class Recorder:
    """Runs commands in the working folder and writes down what comes of them."""

    def __init__(self, draws: Draws) -> None:
        self.lines: list[str] = []
        self._draws = draws
        self._runner = CliRunner()
        self._known = set(os.listdir())

    def run(self, command: tuple[str, ...], questions: str) -> None:
        """Run a command; a stream reads the questions."""
        given = questions if "--stream" in command else None
        result = self._runner.invoke(main, list(command), input=given, prog_name="pmw")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.lines.append(f"$ pmw {' '.join(repr(word) if ' ' in word else word for word in command)}")
        self.lines += result.stdout.splitlines()
        self.lines += [f"stderr: {line}" for line in result.stderr.splitlines()]
        if result.exit_code:
            self.lines.append(f"exit code: {result.exit_code}")
        self.lines += self._draws.told()
        for name in sorted(set(os.listdir()) - self._known):
            self._known.add(name)
            if name.startswith(("rows", "released")) and not name.startswith("released.json.m"):
                self.lines += [f"file: {name}", *content(Path(name))]


def content(file: Path) -> list[str]:
    """Return the lines of a written file; of the long one of measurements, a line for each of them."""
    text = file.read_text()
    if file.name != "released.json":
        return text.splitlines()
    lines = []
    for key, value in json.loads(text).items():
        if isinstance(value, list):
            lines += [f"{key}: {json.dumps(shortened(part))}" for part in value] or [f"{key}: []"]
        else:
            lines.append(f"{key}: {json.dumps(shortened(value))}")
    return lines


def shortened(value: Any) -> Any:
    """Return a value of JSON whose long lists of numbers are told by their first ones and by two sums."""
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    if not isinstance(value, list):
        return value
    numbers = list(leaves(value))
    if len(numbers) < 16 or not all(isinstance(number, int | float) for number in numbers):
        return [shortened(part) for part in value]
    weighted = sum(place * number for place, number in enumerate(numbers, 1))
    return [*numbers[:6], f"{len(numbers)} numbers", float(sum(numbers)), float(weighted)]


def leaves(value: Any) -> Iterator[Any]:
    """Yield what lies in lists of lists, and anything else as it is."""
    if not isinstance(value, list):
        yield value
        return
    for part in value:
        yield from leaves(part)


_VERSION = re.compile(r'(program_version"?: )"[^"]*"')
_FURTHER_PLACES = re.compile(r"(\d\.0*+\d{6})\d+")
_SENTENCES = re.compile(
    r'differential privacy with.*?however often it is asked|(?<=")(?:[^"\\]|\\.){60,}(?=")'
)


def settled(lines: list[str]) -> list[str]:
    """Return lines without the installed version, far decimal places, and long sentences a second time."""
    seen: dict[str, int] = {}

    def once(match: re.Match[str]) -> str:
        if match[0] in seen:
            return f"<sentence {seen[match[0]]}>"
        seen[match[0]] = len(seen) + 1
        return match[0]

    settle = (_FURTHER_PLACES.sub(r"\1", _VERSION.sub(r'\1"<version>"', line)) for line in lines)
    return [_SENTENCES.sub(once, line) for line in settle]


_NUMBER = re.compile(r"-?\d+\.(\d+)(?:e[+-]?\d+)?")


def is_same(line: str, expected: str) -> bool:
    """Tell whether two lines differ in the last places of numbers with a decimal point at most."""
    if line == expected:
        return True
    if _NUMBER.sub("#", line) != _NUMBER.sub("#", expected):
        return False
    pairs = zip(_NUMBER.finditer(line), _NUMBER.finditer(expected), strict=True)
    return all(_is_near(came, wanted) for came, wanted in pairs)


def _is_near(came: re.Match[str], wanted: re.Match[str]) -> bool:
    last_place = 10.0 ** -len(wanted[1])
    slack = max(1e-5 * abs(float(wanted[0])), min(2e-3, max(2 * last_place, 1e-6)))
    return abs(float(came[0]) - float(wanted[0])) <= slack


def differences(lines: list[str], expected: list[str]) -> list[str]:
    """Return the first lines in which two transcripts differ, cut around their parting, by command."""
    found, command, told = list[str](), "(the beginning)", 0
    for came, wanted in itertools.zip_longest(lines, expected, fillvalue="(nothing)"):
        if wanted.startswith("$ "):
            command = wanted
        if is_same(came, wanted):
            continue
        if command not in found:
            found.append(command)
        place, told = max(0, _alike(came, wanted) - 60), told + 1
        found += [f"  expected: {wanted[place : place + 160]}", f"  came:     {came[place : place + 160]}"]
        if told == 3:
            break
    return found


def _alike(came: str, wanted: str) -> int:
    """Return how many characters two lines begin with in common."""
    pairs = enumerate(zip(came, wanted, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(came), len(wanted)))


def played(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of a transcript: a session of a kind, played in the working folder."""
    people().to_csv("people.csv", index=False)
    save_schema(LONG if kind.long else SHORT, "people.toml")
    recorder = Recorder(Draws(monkeypatch))
    for command in commands(kind):
        recorder.run(command, stream(kind))
    return settled(recorder.lines)


LONGER = ("long", "marginal-replaced-pure", "query-replaced-pure", "tree-pure")  # what others show, together


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONGER)) for name in KINDS]
)
def test_a_session_says_what_it_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    found = differences(played(KINDS[name], monkeypatch), expected)
    assert not found, "\n".join([f"{name}: a session says something else", *found, WRITTEN_BY])


def test_each_kind_has_a_transcript_and_no_other_is_left() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {f"{name}.txt" for name in KINDS}


def test_last_places_are_all_that_may_differ() -> None:
    line = '{"count": 2456.347, "fraction": 0.0613678, "positives": 3}'
    assert is_same(line, line.replace("6.347", "6.348").replace("3678", "3679"))
    for old, new in (("2456", "2457"), ("0.0613", "0.0614"), ("3}", "4}"), ("count", "counts")):
        assert not is_same(line, line.replace(old, new))
