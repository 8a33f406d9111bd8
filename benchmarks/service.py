"""Service benchmark: kills while eight clients ask, and the load that one process carries.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.service --kill
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.service --load

prints JSON lines. The table is drawn at random with a fixed seed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pmw
from pmw.data import TableFile
from pmw.errors import ServiceError
from pmw.service.client import RemoteSession
from pmw.service.users import Role, User, UsersFile
from queries import CategoricalAttribute, Domain, IntegerAttribute

CLIENTS = 8
QUESTIONS = 500
KILLS = 20
BATCH = 50


def made_study(folder: Path) -> Path:
    """Open a session over 20,000 random records, and return its file."""
    generator = np.random.default_rng(7)
    age = generator.integers(20, 80, 20_000)
    table = {
        "age": age,
        "sex": np.where(generator.random(20_000) < 0.5, "Female", "Male"),
        "region": generator.choice(["north", "east", "south", "west"], 20_000, p=[0.4, 0.3, 0.2, 0.1]),
        "member": generator.random(20_000) < np.where(age > 50, 0.7, 0.2),
    }
    pd.DataFrame(table).to_csv(folder / "people.csv", index=False)
    domain = Domain(
        (
            IntegerAttribute("age", 20, 79),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", ("north", "east", "south", "west")),
            CategoricalAttribute("member", (True, False)),
        ),
        name="people",
    )
    path = folder / "study.pmw"
    options = pmw.Options(test=pmw.TestKind.QUERY)
    source = TableFile(folder / "people.csv")
    pmw.open_session(source, domain, epsilon=1, delta=1e-9, path=path, options=options).close()
    return path


def question(seed: int) -> str:
    """Return a condition."""
    drawn = random.Random(seed)
    low = drawn.randrange(20, 70)
    region = drawn.choice(["north", "east", "south", "west"])
    member = drawn.choice(["TRUE", "FALSE"])
    return (
        f"age BETWEEN {low} AND {low + drawn.randrange(3, 30)} AND region = '{region}' AND member = {member}"
    )


class Process:
    """The service's process."""

    def __init__(self, study: Path, users: Path, port: int = 0) -> None:
        command = [
            sys.executable,
            "-m",
            "pmw",
            "serve",
            str(study),
            "--users",
            str(users),
            "--rate",
            "100000",
        ]
        self._log = (study.parent / "service.log").open("a")
        self.process = subprocess.Popen(  # noqa: S603  # this program itself
            [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise RuntimeError("the service did not start; see service.log")
        self.url = line.split()[2].rstrip(";")

    def end(self, way: Callable[[subprocess.Popen[str]], None]) -> None:
        """End it by a signal."""
        way(self.process)
        self.process.wait(60)
        self._log.close()


class Client(threading.Thread):
    """Asks its questions until it is told to stop, each under its own key; answers never change."""

    def __init__(self, number: int, url: str, token: str, stop: threading.Event) -> None:
        super().__init__()
        self.given: dict[int, dict[str, Any]] = {}
        self.changed = self.asked = 0
        self._session = RemoteSession(url, token=token, session="study")
        self._number, self._stopped = number, stop

    def run(self) -> None:
        """Ask every question at least once, and again until the end."""
        while len(self.given) < QUESTIONS or not self._stopped.is_set():
            for place in range(QUESTIONS):
                if self._stopped.is_set() and len(self.given) == QUESTIONS:
                    break
                answer = self._answer(place)
                self.changed += self.given.setdefault(place, answer) != answer
        self._session.close()

    def _answer(self, place: int) -> dict[str, Any]:
        where = question(place * CLIENTS + self._number)
        while True:
            try:
                self.asked += 1
                return self._session.send({"where": where}, f"key-{place}")
            except ServiceError:
                time.sleep(0.05)


def kill_row(folder: Path, kills: int) -> dict[str, Any]:
    """Return what came of clients that asked while the service was killed at random, and restarted."""
    study, users = made_study(folder), UsersFile(folder / "users.json")
    tokens = [users.add(User(f"client-{number}", Role.ANALYST, Fraction(1, 4))) for number in range(CLIENTS)]
    service, drawn, stop = Process(study, users.path), random.Random(), threading.Event()
    port = int(service.url.rpartition(":")[2])
    clients = [Client(number, service.url, token, stop) for number, token in enumerate(tokens)]
    for client in clients:
        client.start()
    shares = []
    for _ in range(kills):
        time.sleep(drawn.uniform(0.05, 2))
        service.end(subprocess.Popen.kill)
        with pmw.resume_session(study) as session:
            shares.append(session.state.ledger.share)
        service = Process(study, users.path, port)
    stop.set()
    for client in clients:
        client.join()
    service.end(subprocess.Popen.terminate)
    return {"benchmark": "kill", "kills": kills, **_checked(study, clients, shares)}


def _checked(study: Path, clients: list[Client], shares: list[float]) -> dict[str, Any]:
    with pmw.resume_session(study) as session:
        ledger, verified = session.ledger(), session.verify()
        sums: dict[str, Fraction] = {}
        for line in ledger.lines:
            for name, part in line.booked:
                sums[name] = sums.get(name, Fraction(0)) + part * line.price / ledger.cap
        booked = {one.name: one.spent for one in session.bookings() if one.spent}
        again = [
            session.analyst(f"client-{number}", Fraction(1, 4)).ask(
                question(place * CLIENTS + number), request_id=f"key-{place}"
            )
            for number in range(CLIENTS)
            for place in range(QUESTIONS)
        ]
        given = [client.given[place] for client in clients for place in range(QUESTIONS)]
        most = max(one["spent"]["share"] for one in given)
        return {
            "clients": len(clients),
            "questions": len(given),
            "requests": sum(client.asked for client in clients),
            "answers_changed": sum(client.changed for client in clients),
            "answers_lost": sum(one.to_dict() != told for one, told in zip(again, given, strict=True)),
            "charges_lost": int(most > session.state.ledger.share + 1e-6) + int(shares != sorted(shares)),
            "sums_equal_ledger": booked == {name: spent for name, spent in sums.items() if spent},
            "analysts_with_charges": sum(name != "" for name in booked),
            "verified": verified.holds,
            "share_spent": session.state.ledger.share,
        }


def load_rows(folder: Path) -> list[dict[str, Any]]:
    """Return how fast a settled session answers: one by one, and in batches."""
    study, users = made_study(folder), UsersFile(folder / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    wheres = [question(seed) for seed in range(1000)]
    service = Process(study, users.path)
    try:
        with RemoteSession(service.url, token=token, session="study") as session:
            kinds = _by_kind(session, wheres[:400])
            session.ask_all(wheres)
            times = [_timed(partial(session.ask, where)) for where in wheres * 2]
        with ThreadPoolExecutor(2) as pool:
            began = time.perf_counter()
            list(pool.map(lambda _: _ask_batches(service.url, token, wheres, 200), range(2)))
            took = time.perf_counter() - began
    finally:
        service.end(subprocess.Popen.terminate)
    p50, p99 = np.quantile(times, [0.5, 0.99])
    settled = {"requests": len(times), "p50_ms": round(1000 * p50, 2), "p99_ms": round(1000 * p99, 2)}
    rate = round(2 * 200 * BATCH / took)
    return [
        *({"benchmark": "first asked", "kind": kind, **told} for kind, told in kinds.items()),
        {"benchmark": "settled", **settled},
        {"benchmark": "batches", "batch": BATCH, "clients": 2, "answers_per_second": rate},
    ]


def _by_kind(session: RemoteSession, wheres: list[str]) -> dict[str, dict[str, Any]]:
    """Return the times of questions that are asked first, by what a test found: what timing tells."""
    times: dict[str, list[float]] = {"negative": [], "positive": []}
    version = session.status()["version"]
    for where in wheres:
        began = time.perf_counter()
        answer = session.ask(where)
        took = 1000 * (time.perf_counter() - began)
        times["positive" if answer.version > version else "negative"].append(took)
        version = answer.version
    return {
        kind: {
            "requests": len(found),
            "p50_ms": round(float(np.median(found)), 2) if found else None,
            "p90_ms": round(float(np.quantile(found, 0.9)), 2) if found else None,
        }
        for kind, found in times.items()
    }


def _ask_batches(url: str, token: str, wheres: list[str], batches: int) -> None:
    with RemoteSession(url, token=token, session="study") as session:
        for turn in range(batches):
            start = turn * BATCH % len(wheres)
            session.send({"queries": [{"where": where} for where in wheres[start : start + BATCH]]})


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def main() -> None:
    """Print the rows that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kill", action="store_true", help="kill the service while clients ask")
    parser.add_argument("--load", action="store_true", help="measure latency and throughput")
    parser.add_argument("--kills", type=int, default=KILLS)
    given = parser.parse_args()
    os.environ["PYTHONUNBUFFERED"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        if given.load:
            (Path(folder) / "load").mkdir()
            for row in load_rows(Path(folder) / "load"):
                print(json.dumps(row), flush=True)
        if given.kill:
            (Path(folder) / "kill").mkdir()
            print(json.dumps(kill_row(Path(folder) / "kill", given.kills)), flush=True)


if __name__ == "__main__":
    main()
