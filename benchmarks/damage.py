"""Damage benchmark: session files with one flipped bit, or cut short, and what opening them comes to.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.damage --trials 1000

prints JSON lines: how often a damaged file was refused in our own words, at once or later, was found by a
verification alone (an answer that drew no noise), or was harmless, for each state of a session and each of
its files; then every violation, which there must be none of. After an opening that is not refused, the share
spent is at least what had been charged, and every answer that drew noise is given again as it was.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import pmw
from benchmarks.runner import parser, tell
from pmw.public.answer import Answer
from pmw.session.store.store import SessionStore
from queries import CategoricalAttribute, Domain, IntegerAttribute

STATES = ("closed", "killed", "killed while read", "with a batch that waits")
_ENDS = ("", "-wal", "-companion")
_DRIVER = ("sqlite", "database", "disk image", "malformed", "utf-8", "traceback")  # no words of ours
_DOMAIN = Domain(
    (
        CategoricalAttribute("sex", ("Female", "Male")),
        IntegerAttribute("age", 20, 59, 5),
        CategoricalAttribute("member", (True, False)),
    ),
    name="people",
)
_ASKED = (
    "", "age >= 40 AND member = TRUE", "sex = 'Male'", "age >= 40 AND NOT member = TRUE",
    *(f"age >= {age} AND sex = 'Male'" for age in range(25, 60, 5)),
    *(f"age < {age} AND sex = 'Female'" for age in range(25, 60, 5)),
)  # fmt: skip
_WAITING = "age >= 45 AND NOT member = TRUE AND sex = 'Female'"
_LATER = ("age < 30 AND member = TRUE", "age < 35 AND member = FALSE AND sex = 'Male'")


class Study(NamedTuple):
    """The files of a session in some state, and what must not be lost of it."""

    state: str
    files: dict[str, bytes]  # by the end of the file's name
    table: pd.DataFrame
    spent: Fraction  # what had been charged when the last answer was given
    measured: dict[str, Answer]  # those that drew noise, by question


def main() -> None:
    """Damage files again and again."""
    made = parser(__doc__)
    made.add_argument("--trials", type=int, default=1000)
    made.add_argument("--seed", type=int, default=1)
    given = made.parse_args()
    generator = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        states = studies(Path(name))
        counts: Counter[tuple[str, str, str, str]] = Counter()
        violations = []
        for number in range(given.trials):
            study = states[number % len(states)]
            end, kind, files = damaged(study, generator)
            outcome = trial(study, files, Path(name) / "trial")
            counts[study.state, end or "file", kind, outcome.split(":", maxsplit=1)[0]] += 1
            if outcome.startswith("violation"):
                violations.append({"trial": number, "state": study.state, "file": end, "outcome": outcome})
        for (state, end, kind, outcome), count in sorted(counts.items()):
            line = {"state": state, "file": end, "damage": kind, "outcome": outcome, "count": count}
            tell(line)
        for violation in violations:
            tell(violation)
        tell({"trials": given.trials, "violations": len(violations)})
    sys.exit(1 if violations else 0)


def studies(folder: Path) -> list[Study]:
    """Return a session in each state; the folder is written to."""
    return [_study(folder / f"made-{number}", state) for number, state in enumerate(STATES)]


def _study(folder: Path, state: str) -> Study:
    folder.mkdir()
    path, table = folder / "study.pmw", _table()
    options = pmw.Options(
        test=pmw.TestKind.QUERY, threshold=100.0, update_limit=6, composition=pmw.Composition.ZCDP
    )
    session = pmw.open_session(table, _DOMAIN, epsilon=5, delta=1e-9, path=path, options=options)
    with closing(SessionStore.open(path)) as reader, contextlib.ExitStack() as held:
        if state == "killed while read":  # old pages are being read: charges stay in the log
            held.enter_context(reader.reading())
            reader.charge_count()
        answers = _ask(session)
        files = _bytes_of(path)
    spent = session.state.ledger.spent
    session.close()
    if state == "with a batch that waits":
        _leave_a_batch(path, table)
    if not state.startswith("killed"):
        files = _bytes_of(path)
    if state == "with a batch that waits":
        with pmw.resume_session(path, table) as session:  # what every later resumption must come to
            answers[_WAITING] = session.ask(_WAITING)
            spent = session.state.ledger.spent
    drawn = {where: one for where, one in answers.items() if one.source is pmw.Source.MEASURED}
    return Study(state, files, table, spent, drawn)


def _leave_a_batch(path: Path, table: pd.DataFrame) -> None:
    """Leave a session whose next batch was recorded, and has no outcome."""
    full = mock.patch.object(SessionStore, "finish", side_effect=pmw.StoreError("full"))
    with pmw.resume_session(path, table) as session, full, contextlib.suppress(pmw.StoreError):
        session.ask(_WAITING)


def _table() -> pd.DataFrame:
    generator = np.random.default_rng(20)
    age = generator.integers(20, 60, 3000)
    sex = np.where(generator.random(3000) < 0.5, "Female", "Male")
    return pd.DataFrame({"sex": sex, "age": age, "member": age > 40})


def _ask(session: pmw.Session) -> dict[str, Answer]:
    return {where: session.ask(where, request_id=f"r{place}") for place, where in enumerate(_ASKED)}


def _bytes_of(path: Path) -> dict[str, bytes]:
    found = {end: path.with_name(path.name + end) for end in _ENDS}
    return {end: file.read_bytes() for end, file in found.items() if file.exists() and file.stat().st_size}


def damaged(study: Study, generator: random.Random) -> tuple[str, str, dict[str, bytes]]:
    """Return which file is damaged, how, and all files: one flipped bit, or a file that is cut short."""
    end = generator.choice(sorted(study.files))
    raw = bytearray(study.files[end])
    if generator.random() < 0.2:
        kind = "cut"
        raw = raw[: generator.randrange(len(raw))]
    else:
        kind = "flip"
        used = [place for place in range(len(raw)) if raw[place]] if generator.random() < 0.5 else None
        place = generator.choice(used) if used else generator.randrange(len(raw))
        raw[place] ^= 1 << generator.randrange(8)
    return end, kind, {**study.files, end: bytes(raw)}


def trial(study: Study, files: dict[str, bytes], folder: Path) -> str:
    """Return what opening damaged files comes to: refused (later), found by verify, harmless, a violation."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "study.pmw"
    for end, raw in files.items():
        path.with_name(path.name + end).write_bytes(raw)
    opened = False
    try:
        with pmw.resume_session(path, study.table) as session:
            opened = True
            fault = _fault(study, files, session)
            if fault is not None:
                return f"violation: {fault}"
    except pmw.PMWError as error:
        if not isinstance(error, pmw.SessionError | pmw.StoreError):
            return f"violation: {type(error).__name__}: {error}"
        if any(word in str(error).replace(str(path), "").lower() for word in _DRIVER):
            return f"violation: {error}"
        return "refused later" if opened else "refused"
    except Exception as error:  # noqa: BLE001  # whatever it is, it is none of ours
        return f"violation: {type(error).__name__}: {error}"
    failed = [check.detail for check in pmw.verify_session(path).checks if not check.holds]
    return "found by verify" if failed else "harmless"


def _fault(study: Study, files: dict[str, bytes], session: pmw.Session) -> str | None:
    spent = session.state.ledger.spent
    if spent < study.spent:
        return f"{spent} is charged, and {study.spent} had been"
    waits = files.get("-companion") == study.files.get("-companion")  # else it was never released
    for where, answer in study.measured.items():
        if where == _WAITING and not waits:
            continue
        again = session.ask(where)
        if (again.count, again.interval, again.source) != (answer.count, answer.interval, answer.source):
            return f"{where!r} is answered again"
    for where in _LATER:
        session.ask(where, fresh=True)
    return None if session.state.ledger.spent >= spent else "the share falls"


if __name__ == "__main__":
    main()
