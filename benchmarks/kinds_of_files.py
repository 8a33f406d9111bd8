"""Kinds of files: what `pmw draft --look` tells of CSV files, and of columns as other programs write them.

    python -m benchmarks.kinds_of_files [--folder FOLDER] [--rows 3000]

prints one JSON line per CSV file of the folder: how many columns have each kind, are left out, or have a TODO
for a kind, and the CPU seconds. Without a folder the file is made up, a column for each way of writing, and
``wrong`` names those that have another kind than they should.
"""

from __future__ import annotations

import csv
import datetime
import random
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.runner import parser, tell
from pmw.data import TableFile
from pmw.data.drafting import draft_schema
from pmw.data.text_kinds import column_kinds

_DRAWN = random.Random(7)
_LEFT_OUT = "left out"


def _moment() -> datetime.datetime:
    return datetime.datetime(2019, 1, 1) + datetime.timedelta(seconds=_DRAWN.randrange(5 * 365 * 86_400))


def _dated(format: str) -> Callable[[int], str]:
    return lambda _: _moment().strftime(format)


def _number(most: int, text: str = "{}") -> Callable[[int], str]:
    return lambda _: text.format(_DRAWN.randrange(most))


def _sometimes(written: Callable[[int], str], empty: str) -> Callable[[int], str]:
    return lambda row: empty if row % 3 == 0 else written(row)


MADE: dict[str, tuple[str, Callable[[int], str]]] = {  # the kind that a column should have, and its texts
    "US dates": ("date", _dated("%m/%d/%Y")),
    "dates with points": ("date", _dated("%d.%m.%Y")),
    "dates with slashes": ("date", _dated("%d/%m/%Y")),
    "ISO dates": ("date", _dated("%Y-%m-%d")),
    "dates of digits": ("date", _dated("%Y%m%d")),
    "names of months": ("date", _dated("%d-%b-%Y")),
    "either day first": ("date", lambda row: f"{row % 12 + 1:02}/{row % 11 + 1:02}/2021"),
    "dates in two ways": ("TODO", lambda row: _moment().strftime("%d.%m.%Y" if row % 2 else "%m/%d/%Y")),
    "short years": ("TODO", _dated("%d/%m/%y")),
    "timestamps": ("datetime", _dated("%Y-%m-%d %H:%M:%S")),
    "timestamps with zones": ("datetime", _dated("%Y-%m-%dT%H:%M:%S+02:00")),
    "US timestamps": ("datetime", _dated("%m/%d/%Y %H:%M")),
    "twelve hours": ("TODO", _dated("%m/%d/%Y %I:%M %p")),
    "times of day": ("time", _dated("%H:%M:%S")),
    "amounts": ("numeric", lambda _: f"{_DRAWN.random() * 1e4:.2f}"),
    "decimal commas": ("TODO", lambda _: f"{_DRAWN.random() * 1e4:.2f}".replace(".", ",")),
    "thousands apart": ("TODO", _number(10**6, "{:,}")),
    "ages": ("integer", _number(100)),
    "ages, some NA": ("integer", _sometimes(_number(100), "NA")),
    "ages as floats": ("integer", _sometimes(_number(100, "{}.0"), "")),
    "years": ("integer", _number(35, "20{:02}")),
    "0 and 1": ("integer", _number(2)),
    "yes and no": ("categorical", lambda row: ("yes", "no")[row % 2]),
    "TRUE and FALSE": ("categorical", lambda row: ("TRUE", "FALSE")[row % 2]),
    "cities": ("categorical", lambda row: ("Oslo", "Bergen", "Troms\u00f8")[row % 3]),
    "months": ("categorical", _number(9, "2023-0{}")),
    "codes": ("categorical", _number(60, "{:03}")),
    "ZIP codes": ("categorical", _number(10**4, "{:05}")),
    "surnames": ("categorical", _number(700, "Name{}")),
    "whole ids": (_LEFT_OUT, lambda row: str(100_000 + row)),
    "hashes": (_LEFT_OUT, lambda _: f"{_DRAWN.getrandbits(64):016x}"),
    "notes": (_LEFT_OUT, lambda row: f"what person {row} said"),
    "empty": (_LEFT_OUT, lambda _: ""),
    "nearly empty": (_LEFT_OUT, lambda row: "" if row % 500 else "x"),
    "numbers and words": ("TODO", lambda row: str(row % 90) if row % 2 else f"word{row % 7}"),
}


def kinds_of(path: Path) -> tuple[dict[str, str], float]:
    """Return the kind of each column, as the draft of a file has it, and the CPU seconds."""
    file, started = TableFile(path), time.process_time()
    drafted = tomllib.loads(draft_schema(file, None, column_kinds(file)))["attributes"]
    seconds = time.process_time() - started
    return dict.fromkeys(file.names(), _LEFT_OUT) | {one["name"]: one["kind"] for one in drafted}, seconds


def main() -> None:
    """Look at the files that the arguments choose."""
    made = parser(__doc__)
    made.add_argument("--folder", type=Path, help="whose files end in .csv or .csv.gz; none makes one up")
    made.add_argument("--rows", type=int, default=3_000, help="of the file that is made up")
    given = made.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if given.folder is None:
            with (Path(temporary) / "made.csv").open("w", newline="", encoding="utf-8") as file:
                rows = ([write(row) for _, write in MADE.values()] for row in range(given.rows))
                csv.writer(file).writerows([list(MADE), *rows])
        folder = given.folder or Path(temporary)
        for path in sorted(path for path in folder.glob("*.csv*") if path.name.endswith((".csv", ".csv.gz"))):
            kinds, seconds = kinds_of(path)
            line = {"file": path.name, "columns": len(kinds), "kinds": dict(Counter(kinds.values()))}
            wrong = {name: kind for name, kind in kinds.items() if name in MADE and kind != MADE[name][0]}
            tell(
                {
                    **line,
                    **({"wrong": wrong} if given.folder is None else {}),
                    "cpu_seconds": round(seconds, 2),
                }
            )


if __name__ == "__main__":
    main()
