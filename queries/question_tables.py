"""Questions that stand together: one on each line of a file, or one in each row of a table."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queries.errors import QueryError
from queries.parsing import Question, read_line
from queries.reader import QuestionReader

if TYPE_CHECKING:
    import pandas as pd


def questions_in_lines(path: str | PathLike[str], reader: QuestionReader) -> Iterator[Question]:
    """Yield the counting questions in a file of JSON Lines, each group of a GROUP BY by itself.

    Args:
        path: the file; blank lines ask nothing.
        reader: reads questions over the declared attributes.

    Raises:
        OSError: the file cannot be read.
        QueryError: a line is refused; its message names the line.
    """
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            question = reader.question(read_line(line))
        except QueryError as error:
            raise QueryError(f"line {number:,}: {error.message}", code=error.code) from None
        if not question.is_counting:
            raise QueryError(
                f"line {number:,}: a workload holds counting questions; write COUNT(*) alone",
                code="unsupported",
            )
        yield from question.parts()


def conditions_in_rows(frame: pd.DataFrame) -> list[str | dict[str, Any]]:
    """Return the conditions that the rows of a table state.

    Args:
        frame: one column ``where`` of where-texts; or a column for each attribute that is asked about, whose
            values a record must have. An empty value asks nothing of the attribute.
    """
    if list(frame.columns) == ["where"]:
        return frame["where"].tolist()
    empty = frame.isna().to_numpy()
    return [
        {
            str(name): {"eq": value}
            for place, (name, value) in enumerate(row.items())
            if not empty[number, place]
        }
        for number, row in enumerate(frame.to_dict("records"))
    ]
