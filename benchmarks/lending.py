"""Lending benchmark: openings killed around the instant between the lender's file and the borrower's.

    python -m benchmarks.lending [--kills 200]

Each opening is a process of its own that borrows from one session and is killed by SIGKILL, up to 40 ms after
the lender was seen to be charged; every fourth one is stopped exactly between the two files. After each, the
lender's books are verified, and no more borrowers may have begun than were charged. One JSON line of counts.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

import pmw
from pmw.books import read_ledger
from pmw.store import SessionStore
from queries import CategoricalAttribute, Domain, IntegerAttribute, save_schema

_BETWEEN = """
import os
from pmw.store import SessionStore
from pmw.cli import main
SessionStore.create = classmethod(lambda *rest: os._exit(9))
main()
"""
_LENDER = pmw.Options(test=pmw.TestKind.QUERY, composition=pmw.Composition.ZCDP)


def main() -> None:
    """Run the kills that the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=200)
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(_killed(Path(folder), kills)))


def _killed(folder: Path, kills: int) -> dict[str, object]:
    lender, command = _prepared(folder)
    generator, began, broken, between = random.Random(1), 0, 0, 0
    start = time.monotonic()
    for attempt in range(kills):
        exactly = attempt % 4 == 0
        before = _loans(lender)
        if exactly:
            stopped = [sys.executable, "-c", _BETWEEN, *command]
            subprocess.run(stopped, check=False, capture_output=True)  # noqa: S603 - our own command
        else:
            _run_and_kill(command, lender, before, generator.random() * 0.04)
        born = _is_born(folder / "borrower.pmw")
        began, between = began + born, between + (exactly and not born)
        broken += began > _loans(lender) or not pmw.verify_session(lender).holds
        for end in ("", "-wal", "-shm", "-lock", "-masks"):
            (folder / f"borrower.pmw{end}").unlink(missing_ok=True)
    return {
        "kills": kills,
        "between_the_files": between,
        "charged": _loans(lender),
        "borrowers_begun": began,
        "violations": broken,
        "lender_share": read_ledger(lender).share,
        "seconds": round(time.monotonic() - start, 1),
    }


def _prepared(folder: Path) -> tuple[Path, list[str]]:
    """Return a lender, and the command that borrows a thousandth of it."""
    generator = random.Random(2)
    frame = pd.DataFrame(
        {
            "age": [generator.randrange(100) for _ in range(2000)],
            "sex": generator.choices(["f", "m"], k=2000),
        }
    )
    domain = Domain((IntegerAttribute("age", 0, 99), CategoricalAttribute("sex", ("f", "m"))))
    frame.to_csv(folder / "people.csv", index=False)
    save_schema(domain, folder / "people.toml")
    lender = folder / "lender.pmw"
    pmw.open_session(frame, domain, epsilon=4, delta=1e-9, path=lender, options=_LENDER).close()
    return lender, [
        "open", str(folder / "borrower.pmw"), "--data", str(folder / "people.csv"),
        "--schema", str(folder / "people.toml"), "--epsilon", "0.05", "--delta", "1e-9",
        "--budget-from", str(lender),
    ]  # fmt: skip


def _run_and_kill(command: list[str], lender: Path, before: int, delay: float) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "pmw", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and _loans(lender) == before:
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    process.wait()


def _loans(lender: Path) -> int:
    return sum(line.event == "loan" for line in read_ledger(lender).lines)


def _is_born(path: Path) -> bool:
    try:
        SessionStore.open(path).close()
    except pmw.SessionError:
        return False
    return True


if __name__ == "__main__":
    main()
