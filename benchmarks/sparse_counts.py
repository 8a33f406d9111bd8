"""Counts per item that sparse vector methods select from: Zipf's law, generated, and public tables by file.

Files are ``svt/NAME.npz`` below the data folder, with ``count`` (int64, one per item). They stand in for the
tables of Lyu, Su and Li (2017), Section 6; ``data_is`` says how: ``exact`` the same distribution, ``prefix``
the first records of the same table, ``substitute`` another table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import TableAbsentError

__all__ = ["Counts", "COUNTS", "PAPER_RECORDS", "read_counts", "zipf_counts"]

_ZIPF = "zipf_1m_10k"
COUNTS = {
    _ZIPF: "exact",
    "bms_pos_first100k": "prefix",
    "kosarak_first100k": "prefix",
    "aol_first_query_6bytes": "substitute",
    "retail": "substitute",
    "t10i4d100k": "substitute",
    "netflix_movies": "substitute",
    "dpbench_searchlogs": "substitute",
    "dpbench_hepth": "substitute",
    "dpbench_patent": "substitute",
    "dpbench_income": "substitute",
    "dpbench_medcost": "substitute",
    "dpbench_nettrace": "substitute",
}
# Of the whole tables of which there are prefixes: Table 1 of the paper.
PAPER_RECORDS = {"bms_pos_first100k": 515_597, "kosarak_first100k": 990_002}


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Scores to select from.

    Args:
        name: a name in COUNTS.
        data_is: how close they are to the paper's: exact, prefix or substitute.
        scores: int64, shape (k,), from the highest to the lowest; a method is shown them in random order.
        missing: of a prefix, by what factor the paper's table has more records; else 1. The whole table's
            counts are about so many times larger, and epsilon times a count is what decides an error.
    """

    name: str
    data_is: str
    scores: NDArray[np.int64]
    missing: float = 1.0


def zipf_counts(records: int = 1_000_000, items: int = 10_000) -> NDArray[np.int64]:
    """Return int64 counts in proportion to 1/rank that sum to ``records``, rounded by largest remainder."""
    weights = 1 / np.arange(1, items + 1)
    shares = records * weights / weights.sum()
    counts = np.floor(shares).astype(np.int64)
    short = records - int(counts.sum())
    counts[np.argsort(counts - shares, kind="stable")[:short]] += 1
    return np.sort(counts)[::-1].copy()


def read_counts(name: str, folder: Path | None) -> Counts:
    """Return the scores of a name in COUNTS.

    Raises:
        TableAbsentError: its file is not there.
    """
    if name == _ZIPF:
        return Counts(name, COUNTS[name], zipf_counts())
    if folder is None:
        raise TableAbsentError("no data folder; give --data-dir or PMW_DATA_DIR")
    path = folder / "svt" / f"{name}.npz"
    if not path.exists():
        raise TableAbsentError(f"svt/{name}.npz is not in the data folder")
    with np.load(path) as arrays:
        scores = np.sort(arrays["count"].astype(np.int64))[::-1].copy()
        missing = PAPER_RECORDS[name] / int(arrays["n_records"]) if name in PAPER_RECORDS else 1.0
    return Counts(name, COUNTS[name], scores, missing)
