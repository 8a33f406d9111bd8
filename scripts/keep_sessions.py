"""Keep sessions and models of the present format, with what they hold, for the tests of later ones.

``uv run scripts/keep_sessions.py`` writes ``tests/pmw/session/store/format_N``: run it before a change of the
format N of the session file. In it are tables of nobody, two sessions over them whose processes were killed
between the record of a batch and its outcome, their models, and as JSON what they answered and charged, and
what finishing the batch makes of them.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import pmw
from pmw.data import TableFile
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.random_bits import repeatable_seed
from pmw.session.drafts import DraftTerms, draft_bounds
from pmw.session.maintenance import read_ledger, read_session
from pmw.session.store.draft_file import read_charges
from pmw.session.store.rows import FORMAT_VERSION
from pmw.session.store.store import SessionStore
from pmw.session.table import move_session
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    Person,
    random_conjunctions,
)

PEOPLE = Domain(
    (
        CategoricalAttribute("region", ("north", "south", "east", "west")),
        CategoricalAttribute("member", (True, False)),
        IntegerAttribute("age", 18, 65, 6, missing=True),
        IntegerAttribute("children", 0, 5, other=True),
    ),
    name="people",
)
TRIPS = Domain(
    (
        CategoricalAttribute("region", ("north", "south", "east"), missing=True, other=True),
        CategoricalAttribute("kind", ("car", "train"), missing=True, other=True),
        IntegerAttribute("rooms", 1, 6, missing=True, other=True),
        NumericAttribute("spent", (0, 10, 100, 1000), missing=True, other=True, resolution=0.5),
        IntegerAttribute("delay", -10, 49, 10, missing=True, other=True),
    ),
    name="trips",
    person=Person("id", 2, clips=(("spent", 400.0),)),
)
NOWHERE = Path("/data/trips.csv")  # where the session over trips remembers its table
CONDITIONS = {
    "people": ("region = 'north'", "age >= 40 AND member = TRUE", "children > 1", "age IS NULL"),
    "trips": ("kind = 'car'", "rooms >= 3 AND region = 'east'", "spent > 100", "delay < 0 OR kind IS NULL"),
}
STATEMENTS = {
    "people": ("SELECT region, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY region",),
    "trips": (
        "SELECT region, AVG(spent) AS a, COUNT(DISTINCT id) AS n FROM trips GROUP BY region",
        "SELECT SUM(spent) AS s FROM trips WHERE kind = 'train'",
    ),
}


def write_tables(folder: Path) -> None:
    """Write both tables; of the second, persons have up to four records."""
    draw = np.random.default_rng(19)
    age = draw.integers(18, 66, 600)
    people = {
        "region": draw.choice(["north", "south", "east", "west"], 600, p=[0.5, 0.3, 0.1, 0.1]),
        "member": draw.random(600) < 0.3,
        "age": pd.Series(age).where(draw.random(600) > 0.05),
        "children": np.minimum(draw.poisson(1.2, 600), 5),
    }
    trips = {
        "id": np.sort(draw.integers(0, 300, 700)),
        "region": draw.choice(["north", "south", "east"], 700, p=[0.6, 0.3, 0.1]),
        "kind": draw.choice(["car", "train", ""], 700, p=[0.6, 0.35, 0.05]),
        "rooms": draw.integers(1, 7, 700),
        "spent": np.round(draw.lognormal(3, 1, 700), 1),
        "delay": draw.integers(-10, 50, 700),
    }
    for name, columns in (("people", people), ("trips", trips)):
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)


# --- made in processes of their own, which end by a kill ---------------------------------------------------


def make_people(folder: Path) -> None:
    """Analysts with shares ask until a round is open; the next test is begun and never finished."""
    table = pd.read_csv(folder / "people.csv").astype({"age": "Int64"})
    path, options = folder / "people.pmw", pmw.Options(opening=pmw.Opening.ONE_WAY, update_limit=10)
    session = pmw.open_session(table, PEOPLE, epsilon=4, delta="1e-9", path=path, options=options)
    ann, bob = (
        session.analyst(name, share, at_most=1)
        for name, share in (("ann", Fraction(9, 10)), ("bob", Fraction(1, 2)))
    )
    session.analyst("rea", 0).ask(CONDITIONS["people"][0])
    questions = iter(random_conjunctions(PEOPLE, 10_000, seed=19))
    bob.ask(next(questions))
    for one in (*CONDITIONS["people"], *STATEMENTS["people"]):
        (ann.sql if one.startswith("SELECT") else ann.ask)(one)
    bob.measure(("region", "children"), request_id="a key")
    ask_until(session, lambda: ann.ask(next(questions)))
    session.export(folder / "people.model")
    kill_at_outcome()
    for number, question in enumerate(questions):
        ann.ask(question, request_id=f"key {number}")


def make_trips(folder: Path) -> None:
    """Two records of a person count, replaced by others; values are clipped, and persons counted."""
    file, path, drafts = folder / "trips.csv", folder / "trips.pmw", folder / "trips.draft"
    terms = DraftTerms(Fraction(1, 20), NeighboringRelation.REPLACE_ONE, 2, "id")
    draft_bounds(file, "spent", terms, drafts)
    options = pmw.Options(
        opening=pmw.Opening.ONE_WAY,
        update_limit=10,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
        records_per_person=2,
        person_column="id",
        drafts=read_charges(drafts),
    )
    with mock.patch("pmw.data.as_place", return_value=TableFile(NOWHERE)):
        session = pmw.open_session(file, TRIPS, epsilon=8, delta="1e-9", path=path, options=options)
    ann = session.analyst("ann", Fraction(1, 2), at_most=1)
    questions = iter(random_conjunctions(TRIPS, 10_000, seed=19))
    ann.measure_sum("spent", "region", share="0.05", request_id="a key")
    ann.measure_heads("region", share="0.02")
    for one in (*CONDITIONS["trips"], *STATEMENTS["trips"]):
        (ann.sql if one.startswith("SELECT") else ann.ask)(one)
    ask_until(session, lambda: session.ask(next(questions)))
    session.export(folder / "trips.model")
    kill_at_outcome()
    ann.measure_sum("spent", "kind", share="0.03", request_id="another key")


def ask_until(session: pmw.Session, ask: Callable[[], object]) -> None:
    """Ask until a round is open, whose threshold is a secret of the file."""
    while not session.state.round_open:
        ask()


def kill_at_outcome() -> None:
    """End this process, without any warning, before the outcome of a batch that was recorded is written."""
    finish = SessionStore.finish

    def killed(store: SessionStore, intent: int | None, *outcome: Any) -> None:
        if intent is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        finish(store, intent, *outcome)

    mock.patch.object(SessionStore, "finish", killed).start()


# --- what they hold ----------------------------------------------------------------------------------------


def held_in(path: Path) -> dict[str, Any]:
    """Return what was answered and charged in a session, as JSON has it: charges as exact fractions."""
    ledger = read_ledger(path)
    with closing(SessionStore.open(path)) as store:
        measured = [
            [row.kind, row.what, row.noise, sha256(row.units).hexdigest()]
            for row in store.chained().measurements
        ]
        waiting = store.pending()
        answers = [
            [row.query, row.count, None if row.interval is None else [*row.interval], row.source, row.analyst]
            for row in store.answers.each()
        ]
        return {
            "cap": str(ledger.cap),
            "charges": [[one.event, one.label, str(one.price), booked(one.booked)] for one in ledger.lines],
            "measured": measured,
            "answers": answers,
            "waiting": None if waiting is None else [waiting.id, waiting.kind],
            "rounds": list(read_session(path)[0].rounds),
        }


def booked(parts: Any) -> list[list[str]]:
    """Return whom a charge is booked to, and which parts of it."""
    return [[name, str(part)] for name, part in parts]


def finished(name: str, folder: Path) -> dict[str, Any]:
    """Finish the batch that waits in a session, in place, and return what the session holds then."""
    path = folder / f"{name}.pmw"
    table = None
    if name == "trips":
        move_session(path, folder / "trips.csv")
    else:
        table = pd.read_csv(folder / "people.csv").astype({"age": "Int64"})
    with pmw.resume_session(path, table) as session:
        session.bookings()
        if not session.verify().holds:
            raise SystemExit(f"{path} does not verify")
    return held_in(path)


def answers_of(model: Path, name: str) -> list[Any]:
    """Return what a model answers to the questions that every reader of it can ask."""
    read = pmw.load_model(model)
    asked = [read.ask(one).to_dict() for one in CONDITIONS[name]]
    found = [[one["count"], one["interval"]] for one in asked]
    for statement in STATEMENTS[name]:
        found.append([[one.value, one.interval] for one in read.sql(statement).estimates()])
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def keep(folder: Path) -> None:
    """Write everything into a folder, which must not be there."""
    folder.mkdir(parents=True)
    write_tables(folder)
    kept: dict[str, Any] = {"format": FORMAT_VERSION}
    for name in ("people", "trips"):
        command = [sys.executable, str(Path(__file__)), name, str(folder)]
        ended = subprocess.run(command, check=False, timeout=600).returncode
        if ended != -signal.SIGKILL:
            raise SystemExit(f"expected a process that is killed, got exit code {ended}")
        for needless in ("-shm", "-lock"):
            (folder / f"{name}.pmw{needless}").unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as other:
            copy = Path(other) / "copy"
            shutil.copytree(folder, copy)
            before = held_in(copy / f"{name}.pmw")
            kept[name] = {
                "before": before,
                "after": finished(name, copy),
                "model": answers_of(copy / f"{name}.model", name),
            }
    (folder / "held.json").write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    """Keep what is kept in the tests, or make one session in this process, which ends by a kill."""
    made = {"people": make_people, "trips": make_trips}
    if len(sys.argv) == 3:
        numbers = itertools.count()

        def repeated() -> bytes:  # the same noise each time: these tables are of nobody
            return repeatable_seed(FORMAT_VERSION, next(numbers))

        for module in ("session.journal", "session.drafts", "session.opening", "privacy.random_bits"):
            mock.patch(f"pmw.{module}.fresh_seed", repeated).start()
        made[sys.argv[1]](Path(sys.argv[2]))
        return
    kept = Path(__file__).parent.parent / "tests" / "pmw" / "session" / "store" / f"format_{FORMAT_VERSION}"
    if kept.exists():
        sys.exit(f"{kept} is there, and what is kept is never made again")
    keep(kept)


if __name__ == "__main__":
    main()
