"""Answers of streams and workloads as lines of JSON, rows of CSV, or a Parquet file."""

from __future__ import annotations

import csv
import io
import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmw.cli.usage import json_line
from pmw.display.texts import terminal_text
from pmw.public.answer import REFUSAL, Source
from pmw.public.answers import SOURCES, Answers
from queries.errors import QueryError

if TYPE_CHECKING:
    import pandas as pd

    from pmw.public.population import PopulationInterval
    from pmw.public.tables import AnswerTable

FORMATS = ("jsonl", "csv", "parquet")

_COLUMNS = {  # of rows, with their types in a Parquet file
    "id": "VARCHAR", "line": "BIGINT", "question": "VARCHAR", "group": "VARCHAR", "aggregate": "VARCHAR",
    "value": "DOUBLE", "count": "DOUBLE", "fraction": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE",
    "typical_low": "DOUBLE", "typical_high": "DOUBLE", "confidence": "DOUBLE", "source": "VARCHAR",
    "aligned": "BOOLEAN", "version": "BIGINT", "share": "DOUBLE", "code": "VARCHAR", "message": "VARCHAR",
}  # fmt: skip
_OF_POPULATION = {"population_low": "DOUBLE", "population_high": "DOUBLE"}  # more of them, where it is told
_OF_WITHHELD = {"below": "BIGINT"}  # where small numbers are withheld
_HAVE_COUNTS = np.array([one not in (Source.REFUSED, Source.WITHHELD) for one in SOURCES])  # by code
_ROWS = 2**14  # that are put together until the file is written


class AnswerWriter:
    """Writes what came of questions to standard output, in order: here as one object a line.

    The head of each is what it is known by: its id, and where it is told, its line or the question.

    Args:
        tells_population: each answer comes with the interval of the population.
        withholds: the session withholds small numbers; a column has what one is below.
    """

    def __init__(self, *, tells_population: bool = False, withholds: bool = False) -> None:
        self.tells_population = tells_population
        self._lines: list[str] = []

    def answers(
        self,
        heads: Sequence[dict[str, Any]],
        answers: Answers,
        populations: Sequence[PopulationInterval | None] = (),
    ) -> None:
        """Take the answers to some questions, with the intervals of the population where these are told."""
        lines: Iterable[str] = _answer_lines(answers)
        if populations:
            told = (json_line(population_form(one))[1:] for one in populations)
            lines = [f"{line[:-1]}, {more}" for line, more in zip(lines, told, strict=True)]
        pairs = zip(heads, lines, strict=True)
        self._lines += [f"{_head_line(head)[:-1]}, {line}\n" for head, line in pairs]

    def table(self, head: dict[str, Any], table: AnswerTable) -> None:
        """Take the table of a statement."""
        self._lines.append(json_line({**head, **table.to_dict()}) + "\n")

    def refusal(self, head: dict[str, Any], error: QueryError) -> None:
        """Take why a question is refused."""
        self._lines.append(json_line({**head, "error": error.to_dict()}) + "\n")

    def flush(self) -> None:
        """Write what was taken so far."""
        lines, self._lines = self._lines, []
        if lines:
            sys.stdout.write("".join(lines))
            sys.stdout.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()


class _Rows(AnswerWriter):
    def __init__(self, *, tells_population: bool = False, withholds: bool = False) -> None:
        super().__init__(tells_population=tells_population, withholds=withholds)
        more = _OF_WITHHELD if withholds else {}
        self._columns = _COLUMNS | more | (_OF_POPULATION if tells_population else {})
        self._rows: list[tuple[Any, ...]] = []

    def answers(
        self,
        heads: Sequence[dict[str, Any]],
        answers: Answers,
        populations: Sequence[PopulationInterval | None] = (),
    ) -> None:
        for head, answer, population in itertools.zip_longest(heads, answers.each(), populations):
            ends = {} if population is None else population.to_dict()
            told = {f"population_{name}": ends.get(name) for name in ("low", "high")}
            form = answer.to_dict()
            low, high = form.pop("interval") or (None, None)
            form.update(low=low, high=high, share=form["spent"]["share"])
            self._row(head, {**_columns(form, refused=answer.is_refused), **told})

    def table(self, head: dict[str, Any], table: AnswerTable) -> None:
        shared = {"confidence": table.confidence, "version": table.version, "share": table.spent.share}
        for keys, found in table.rows:
            group = json_line(dict(zip(table.keys, keys, strict=True))) if table.keys else None
            for title, one in zip(table.titles, found, strict=True):
                told = {"group": group, "aggregate": title, **shared}
                numbers = _columns(one.to_dict(whole=title in table.whole), refused=one.is_refused)
                self._row({**head, **told}, numbers)

    def refusal(self, head: dict[str, Any], error: QueryError) -> None:
        self._row(head, {"code": error.code, "message": error.message})

    def _row(self, head: dict[str, Any], values: dict[str, Any]) -> None:
        row = {**head, **values}
        self._rows.append(tuple(row.get(name) for name in self._columns))


class _Csv(_Rows):
    def __init__(self, *, tells_population: bool = False, withholds: bool = False) -> None:
        super().__init__(tells_population=tells_population, withholds=withholds)
        sys.stdout.write(",".join(self._columns) + "\n")

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        told = text.getvalue().encode(errors="backslashreplace").decode()
        sys.stdout.write(terminal_text(told) if sys.stdout.isatty() else told)
        sys.stdout.flush()


class _Parquet(_Rows):
    """A Parquet file, which is written at the end; until then rows are in memory."""

    def __init__(self, *, tells_population: bool = False, withholds: bool = False) -> None:
        super().__init__(tells_population=tells_population, withholds=withholds)
        self._parts: list[pd.DataFrame] = []

    def flush(self) -> None:
        if len(self._rows) >= _ROWS:
            self._keep()

    def _keep(self) -> None:
        import pandas as pd

        rows, self._rows = self._rows, []
        columns = zip(*rows, strict=True) if rows else ((),) * len(self._columns)
        frame = pd.DataFrame(dict(zip(self._columns, columns, strict=True)))
        frame["id"] = [None if one is None else str(one) for one in frame["id"]]
        self._parts.append(frame)

    def close(self) -> None:
        import pandas as pd

        from pmw.public.export.rows import write_typed

        if self._rows or not self._parts:
            self._keep()
        whole = pd.concat([part.astype(object) for part in self._parts], ignore_index=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "answers.parquet"
            write_typed(whole, list(self._columns.values()), path)
            sys.stdout.buffer.write(path.read_bytes())
            sys.stdout.buffer.flush()


def writer_of(name: str, *, tells_population: bool = False, withholds: bool = False) -> AnswerWriter:
    """Return what writes answers in one of ``FORMATS``; see ``AnswerWriter``."""
    writers = {"jsonl": AnswerWriter, "csv": _Csv, "parquet": _Parquet}
    return writers[name](tells_population=tells_population, withholds=withholds)


def population_form(population: PopulationInterval | None) -> dict[str, Any]:
    """Return what is added to the form of an answer: null where the answer is refused."""
    return {"population": None if population is None else population.to_dict()}


def _head_line(head: dict[str, Any]) -> str:
    """Return ``json_line`` of what a question is known by; what is plain needs no encoder."""
    parts = []
    for key, value in head.items():
        if type(value) is int:
            parts.append(f'"{key}": {value}')
        elif type(value) is str and _is_plain(value):
            parts.append(f'"{key}": "{value}"')
        elif value is None:
            parts.append(f'"{key}": null')
        else:
            return json_line(head)
    return f"{{{', '.join(parts)}}}"


def _is_plain(words: str) -> bool:
    return words.isascii() and words.isprintable() and not ('"' in words or "\\" in words)


def _answer_lines(answers: Answers) -> Iterator[str]:
    """Yield ``json_line`` of each answer's form, but for its first brace, in a tenth of the time."""
    caps, kept = map(_number, (answers.budget.epsilon, answers.budget.delta)), answers.kept
    end = '"epsilon_cap": {}, "delta": {}}}'.format(*caps)
    end += "" if kept is None else f', "records_kept": {json_line(kept.to_dict())}'
    end += ', "seeded": true}' if answers.seeded else "}"
    confidence, names = _number(answers.confidence), [source.value for source in answers.sources]
    is_plain = _HAVE_COUNTS[answers.source] & (answers.charged == 0)
    numbers = answers.count, answers.fraction, *answers.interval.T, *answers.typical.T, answers.share
    others = is_plain, answers.source, answers.aligned, answers.version
    columns = [*(map(float.__repr__, one.tolist()) for one in numbers), *(one.tolist() for one in others)]
    for place, row in enumerate(zip(*columns, strict=True)):
        count, fraction, low, high, least, most, share, plain, source, aligned, version = row
        yield (
            f'"count": {count}, "fraction": {fraction}, '
            f'"interval": {"null" if low == "nan" else f"[{low}, {high}]"}, '
            f'"typical": {"null" if least == "nan" else f"[{least}, {most}]"}, '
            f'"confidence": {confidence}, "source": "{names[source]}", '
            f'"aligned": {"true" if aligned else "false"}, "version": {version}, '
            f'"spent": {{"share": {share}, {end}'
            if plain
            else json_line(answers[place].to_dict())[1:]
        )


def _number(value: float | Fraction) -> str:
    """Return a finite number as JSON writes it, whichever type of number it is."""
    return float.__repr__(float(value))


def _columns(form: dict[str, Any], *, refused: bool) -> dict[str, Any]:
    low, high = form.pop("typical") or (None, None)
    told = {"code": "inaccurate", "message": REFUSAL} if refused else {}
    return {**form, "typical_low": low, "typical_high": high, **told}
