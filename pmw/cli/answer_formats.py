"""Answers of streams and workloads as lines of JSON, rows of CSV, or a Parquet file."""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.cli.usage import json_line
from pmw.display.texts import terminal_text
from pmw.public.answer import REFUSAL, Answer
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
        self._known: dict[int, tuple[Answer, str]] = {}  # lines of answers that come again, by their objects

    def answer(
        self, head: dict[str, Any], answer: Answer, population: PopulationInterval | None = None
    ) -> None:
        """Take the answer to one question."""
        if id(answer) not in self._known:
            self._known[id(answer)] = answer, _answer_line(answer)[1:]
        line = f"{_head_line(head)[:-1]}, {self._known[id(answer)][1]}"
        if self.tells_population:
            line = f"{line[:-1]}, {json_line(population_form(population))[1:]}"
        self._lines.append(f"{line}\n")

    def table(self, head: dict[str, Any], table: AnswerTable) -> None:
        """Take the table of a statement."""
        self._lines.append(json_line({**head, **table.to_dict()}) + "\n")

    def refusal(self, head: dict[str, Any], error: QueryError) -> None:
        """Take why a question is refused."""
        self._lines.append(json_line({**head, "error": error.to_dict()}) + "\n")

    def flush(self) -> None:
        """Write what was taken so far."""
        lines, self._lines, self._known = self._lines, [], {}
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

    def answer(
        self, head: dict[str, Any], answer: Answer, population: PopulationInterval | None = None
    ) -> None:
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


def _answer_line(answer: Answer) -> str:
    """Return ``json_line`` of an answer's form, in a fifth of the time."""
    if not answer.has_count or answer.spent.charged:
        return json_line(answer.to_dict())
    spent, seeded = answer.spent, ', "seeded": true' if answer.seeded else ""
    kept = "" if answer.kept is None else f', "records_kept": {json_line(answer.kept.to_dict())}'
    return (
        f'{{"count": {_number(answer.count)}, "fraction": {_number(answer.fraction)}, '
        f'"interval": {_ends(answer.interval)}, "typical": {_ends(answer.typical)}, '
        f'"confidence": {_number(answer.confidence)}, "source": "{answer.source.value}", '
        f'"aligned": {"true" if answer.aligned else "false"}, "version": {answer.version}, '
        f'"spent": {{"share": {_number(spent.share)}, "epsilon_cap": {_number(spent.epsilon_cap)}, '
        f'"delta": {_number(spent.delta)}}}{kept}{seeded}}}'
    )


def _ends(interval: tuple[float, float] | None) -> str:
    return "null" if interval is None else f"[{_number(interval[0])}, {_number(interval[1])}]"


def _number(value: float) -> str:
    """Return a finite number as JSON writes it, whichever type of number it is."""
    return float.__repr__(float(value))


def _columns(form: dict[str, Any], *, refused: bool) -> dict[str, Any]:
    low, high = form.pop("typical") or (None, None)
    told = {"code": "inaccurate", "message": REFUSAL} if refused else {}
    return {**form, "typical_low": low, "typical_high": high, **told}
