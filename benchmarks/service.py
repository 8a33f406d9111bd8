"""Service benchmark: kills while eight clients ask, load, who waits, and what pages, tools and drivers cost.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.service --kill --load --behind --pages --assistant --model
        --postgres

prints JSON lines of what is named. The table is drawn at random with a fixed seed.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import pmw
from benchmarks.runner import parser, tell, used
from pmw.data import TableFile
from pmw.errors import ServiceError
from pmw.service.client import RemoteSession, connect
from pmw.service.users import Role, User, UsersFile
from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute

CLIENTS = 8
QUESTIONS = 500
KILLS = 20
TOOL_CALLS = 600
PAGES = 200  # requests of each page
BATCH = 50
COUNTED = "SELECT COUNT(*) FROM people WHERE age >= {}"
STATEMENTS, TILES = 600, 30  # over Postgres' protocol
SETTLED = "age >= 30"


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
    attributes = (
        IntegerAttribute("age", 20, 79),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("region", ("north", "east", "south", "west")),
        CategoricalAttribute("member", (True, False)),
    )
    return _opened(folder, table, attributes, pmw.Options(test=pmw.TestKind.QUERY))


def made_wide_study(folder: Path) -> Path:
    """Open a session over 40,000 random records and 10,950 cells, and return its file."""
    drawn, size = np.random.default_rng(7), 40_000
    values = {"sex": ("Female", "Male"), "region": tuple("abcde"), "income": tuple("pqrst")}
    table = {"age": drawn.integers(18, 91, size), "children": drawn.integers(0, 3, size)}
    table |= {name: drawn.choice(list(own), size) for name, own in values.items()}
    named = [CategoricalAttribute(name, own) for name, own in values.items()]
    ages = IntegerAttribute("age", 18, 90), IntegerAttribute("children", 0, 2)
    return _opened(folder, table, (*ages, *named), pmw.Options())


def _opened(
    folder: Path, table: Mapping[str, NDArray[Any]], attributes: tuple[Attribute, ...], options: pmw.Options
) -> Path:
    file, path, domain = folder / "people.csv", folder / "study.pmw", Domain(attributes, name="people")
    pd.DataFrame(table).to_csv(file, index=False)
    pmw.open_session(TableFile(file), domain, epsilon=1, delta=1e-9, path=path, options=options).close()
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


class Process(NamedTuple):
    """The service's process, and the first line that it printed."""

    process: subprocess.Popen[str]
    line: str

    @property
    def url(self) -> str:
        """Where it is reached."""
        return self.line.split()[2].rstrip(";")


@contextmanager
def serving(study: Path, users: UsersFile, *more: str, port: str = "0") -> Iterator[Process]:
    """Serve a session until what is asked of it is over."""
    command = [sys.executable, "-m", "pmw", "serve", str(study), "--users", str(users.path)]
    command += ["--rate", "1000000", "--port", port, *more]
    with (
        (study.parent / "service.log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,  # noqa: S603
    ):
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise RuntimeError("the service did not start; see service.log")
        try:
            yield Process(process, line)
        finally:
            process.terminate()


@contextmanager
def asking(folder: Path, role: Role, *more: str) -> Iterator[tuple[Process, RemoteSession, str]]:
    """Serve a new session, and yield the process, one user's connection and the user's token."""
    study, users = made_study(folder), UsersFile(folder / "users.json")
    token = users.add(User("ann", role, Fraction(1)))
    with (
        serving(study, users, *more) as service,
        connect(service.url, token=token, session="study") as session,
    ):
        yield service, session, token


class Client(threading.Thread):
    """Asks its questions until it is told to stop, each under its own key; answers never change."""

    def __init__(self, number: int, url: str, token: str, stop: threading.Event) -> None:
        super().__init__()
        self.given: dict[int, dict[str, Any]] = {}
        self.changed = self.asked = 0
        self._session = connect(url, token=token, session="study")
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
                answer = self._session.ask(where, request_id=f"key-{place}", at_most=1).to_dict()
                answer["spent"].pop("charged", None)  # that is told once: a stored answer is free
                return answer
            except ServiceError:
                time.sleep(0.05)


def kill_row(folder: Path, kills: int) -> dict[str, Any]:
    """Return what came of clients that asked while the service was killed at random, and restarted."""
    study, users = made_study(folder), UsersFile(folder / "users.json")
    tokens = [
        users.add(User(f"client-{number}", Role.ANALYST, Fraction(1, 4)), beyond=True)
        for number in range(CLIENTS)
    ]
    drawn, stop, port = random.Random(), threading.Event(), "0"
    clients, shares = list[Client](), list[float]()
    for _ in range(kills):
        with serving(study, users, port=port) as service:
            if not clients:
                port = service.url.rpartition(":")[2]
                clients = [Client(number, service.url, token, stop) for number, token in enumerate(tokens)]
                for client in clients:
                    client.start()
            time.sleep(drawn.uniform(0.05, 2))
            service.process.kill()
        with pmw.resume_session(study) as session:
            shares.append(session.state.ledger.share)
    with serving(study, users, port=port):
        stop.set()
        for client in clients:
            client.join()
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
            session.analyst(f"client-{number}", Fraction(1, 4), at_most=1).ask(
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


def load_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield how fast a settled session answers: one by one, and in batches."""
    wheres = [question(seed) for seed in range(1000)]
    with asking(folder, Role.ANALYST) as (service, session, token):
        for kind, told in _by_kind(session, wheres[:400]).items():
            yield {"benchmark": "first asked", "kind": kind, **told}
        session.ask_all(wheres, at_most=1)
        times = [_timed(partial(session.ask, where)) for where in wheres * 2]
        p50, p99 = np.quantile(times, [0.5, 0.99])
        settled = {"requests": len(times), "p50_ms": round(1000 * p50, 2), "p99_ms": round(1000 * p99, 2)}
        yield {"benchmark": "settled", **settled}
        with ThreadPoolExecutor(2) as pool:
            began = time.perf_counter()
            list(pool.map(lambda _: _ask_batches(service.url, token, wheres, 200), range(2)))
            rate = round(2 * 200 * BATCH / (time.perf_counter() - began))
    yield {"benchmark": "batches", "batch": BATCH, "clients": 2, "answers_per_second": rate}


def behind_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield how long a settled question waits behind large requests of another user, and what they leave."""
    study, users = made_wide_study(folder), UsersFile(folder / "users.json")
    large = users.add(User("ann", Role.ANALYST, Fraction(1, 5)))
    small = users.add(User("bob", Role.ANALYST, Fraction(1, 5)))
    with serving(study, users) as service, connect(service.url, token=small, session="study") as session:
        session.ask(SETTLED, at_most=1)
        means = "SELECT sex, AVG(age), COUNT(*) FROM people GROUP BY sex"
        session.sql(means, at_most=1)  # the table is read now
        for name, body in large_bodies().items():
            before = used(service.process.pid)
            status, waits = _waits(service.url, large, body, partial(session.ask, SETTLED))
            after = used(service.process.pid)
            yield {
                "benchmark": "behind",
                "requests": name,
                "status": status,
                "settled": len(waits),
                "median_wait_s": round(float(np.median(waits)), 3),
                "longest_wait_s": round(max(waits), 3),
                "cpu_s": round(after[0] - before[0], 1),
                "memory_mb": [round(one[1]) for one in (before, after)],
            }


def large_bodies() -> dict[str, dict[str, Any]]:
    """Return the bodies of large requests, by what they are."""
    by = "age, sex, region, income"
    counted, averaged = "COUNT(*)", "AVG(children)"
    wide, means = (f"SELECT {by}, {one} FROM people GROUP BY {by}" for one in (counted, averaged))  # noqa: S608  # our own
    some = [f"people WHERE children {which}" for which in ("= 0", "= 1", "= 2", "> 0")]
    filters = ", ".join(f"COUNT(*) FILTER (WHERE age > {age}) AS n{age}" for age in (20, 30, 40, 50))
    filtered = wide.replace(counted, filters)
    return {
        "5 times 3,650 cells": {
            "queries": [{"sql": wide.replace("people", one)} for one in ("people", *some)]
        },
        "3,650 means": {"sql": means},
        "the price of 3,650 counts": {"sql": wide, "dry_run": True},
        "the price of 14,600 counts with conditions": {"sql": filtered, "dry_run": True},
        "why 14,600 counts with conditions cost it": {"sql": filtered, "explain": True},
        "the price of 3,650 means": {"sql": means, "dry_run": True},
    }


def page_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the CPU time of the service for a settled answer by its address, and for its other pages."""
    few = "SELECT region, COUNT(*) FROM people GROUP BY region"
    grouped = "SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex"
    with asking(folder, Role.CUSTODIAN) as (service, session, token):
        session.ask_all([question(seed) for seed in range(500)], at_most=1)
        session.ask(SETTLED, at_most=1)
        session.sql(grouped, at_most=1)
        session.sql(few, at_most=1)
        for name, path in {
            "one count by its address": f"?{urlencode({'q': SETTLED})}",
            "4 groups by their address": f"?{urlencode({'q': few})}",
            "120 groups by their address": f"?{urlencode({'q': grouped})}",
            "120 groups as CSV": f"/answer.csv?{urlencode({'q': grouped})}",
            "history": "/history",
            "custodian": "/custodian",
        }.items():
            with connected(service.url) as connection:
                page = partial(_requested, connection, token, f"/page/study{path}")
                page()  # templates are read
                before = used(service.process.pid)[0]
                found = [page() for _ in range(PAGES)]
                spent = 1000 * (used(service.process.pid)[0] - before) / PAGES
            if {status for status, _ in found} != {200}:
                raise RuntimeError(f"expected 200 alone for {path}")
            yield {"benchmark": "page", "page": name, "bytes": found[-1][1], "server_cpu_ms": round(spent, 1)}


def connected(url: str) -> closing[http.client.HTTPConnection]:
    """Return a connection to a service, to be closed."""
    return closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=600))


def _requested(
    connection: http.client.HTTPConnection, token: str, path: str, body: Mapping[str, object] | None = None
) -> tuple[int, int]:
    """Return the status and the bytes of what a page, or a request with a body, is answered with."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    if body is None:
        connection.request("GET", path, headers=headers)
    else:
        connection.request("POST", path, json.dumps(body), headers)
    with connection.getresponse() as response:
        return response.status, len(response.read())


def _statuses(url: str, token: str, bodies: Iterable[Mapping[str, object]]) -> list[int]:
    """Return the statuses of requests of questions over one connection."""
    with connected(url) as connection:
        ask = partial(_requested, connection, token, "/sessions/study/ask")
        return [ask({**body, "at_most": 1})[0] for body in bodies]


def _waits(url: str, token: str, body: dict[str, Any], ask: Callable[[], object]) -> tuple[int, list[float]]:
    """Return the status of a large request, and the seconds of each settled question meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(_statuses, url, token, [body])
        waits = [_timed(ask)]
        while not sent.done():
            waits.append(_timed(ask))
            time.sleep(0.05)
        return sent.result()[0], waits


def _by_kind(session: RemoteSession, wheres: list[str]) -> dict[str, dict[str, Any]]:
    """Return the times of questions that are asked first, by what a test found: what timing tells."""
    times: dict[str, list[float]] = {"negative": [], "positive": []}
    version = session.status().positives_used
    for where in wheres:
        began = time.perf_counter()
        answer = session.ask(where, at_most=1)
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
    with connect(url, token=token, session="study") as session:
        for turn in range(batches):
            start = turn * BATCH % len(wheres)
            session.ask_all(wheres[start : start + BATCH], at_most=1)


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def assistant_rows(folder: Path) -> list[dict[str, Any]]:
    """Return how often a second tools answer an assistant in its client's process; nothing is spent."""
    from mcp import Client

    from pmw.service.assistants import Purse, server_of

    conditions = [{"question": f"age >= {age}"} for age in range(20, 80)]
    measured: list[tuple[str, list[dict[str, Any]]]] = [
        ("ask", conditions),
        ("ask", [{"question": "SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region"}]),
        ("cost", conditions),
    ]

    async def row(client: Client, name: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        for call in calls:  # so that they are settled
            await client.call_tool(name, call)
        wall, cpu = time.perf_counter(), time.process_time()
        for number in range(TOOL_CALLS):
            await client.call_tool(name, calls[number % len(calls)])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        figures = {"calls_a_second": round(TOOL_CALLS / wall), "cpu_ms": round(1000 * cpu / TOOL_CALLS, 2)}
        return {"assistant": name, "asked": calls[0]["question"], **figures}

    async def rows(purse: Purse) -> list[dict[str, Any]]:
        async with Client(server_of(purse)) as client:
            return [await row(client, *one) for one in measured]

    with pmw.resume_session(made_study(folder)) as session:
        return asyncio.run(rows(Purse(session.analyst("assistant"), "study.pmw", Fraction(0), Fraction(0))))


def model_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield how many free answers a second one process gives from a model file, and how many two give."""
    model, users = folder / "study.model", UsersFile(folder / "users.json")
    with pmw.resume_session(made_study(folder)) as session:
        session.export(model, format="model")
    token = users.add(User("ann", Role.READER, Fraction(0)))
    bodies = [
        {"queries": [{"where": question(seed)} for seed in range(first, first + BATCH)]}
        for first in range(0, 20 * BATCH, BATCH)
    ]
    for processes in (1, 2):
        with ExitStack() as held:
            served = [held.enter_context(serving(model, users)) for _ in range(processes)]
            urls = [served[client % processes].url for client in range(4)]
            before = sum(used(one.process.pid)[0] for one in served)
            began = time.perf_counter()
            with ThreadPoolExecutor(len(urls)) as pool:
                statuses = list(pool.map(lambda url: _statuses(url, token, bodies * 5), urls))
            took = time.perf_counter() - began
            cpu = sum(used(one.process.pid)[0] for one in served) - before
        asked = BATCH * sum(map(len, statuses))
        figures = {"answers_per_second": round(asked / took), "cpu_ms": round(1000 * cpu / asked, 3)}
        refused = sum(status != 200 for some in statuses for status in some)
        yield {"benchmark": "model", "processes": processes, "batch": BATCH, "refused": refused, **figures}


def postgres_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rate of settled statements over Postgres' protocol, and what a dashboard takes."""
    settled = [COUNTED.format(20 + place % 60) for place in range(STATEMENTS)]
    by = "region, sex, member"
    tiles = [
        f"SELECT {by}, COUNT(*) AS n FROM people WHERE age >= {20 + place} GROUP BY {by}"  # noqa: S608  # our own
        for place in range(TILES)
    ]
    with asking(folder, Role.ANALYST, "--postgres", "0") as (service, _, token):
        place = service.line.partition("postgresql://")[2].partition(";")[0]
        ask = partial(_asked, f"postgresql://ann:{token}@{place}/study")
        ask(settled[:60] * 2)
        for several in (1, 8):
            each = settled[: STATEMENTS // several]
            with ThreadPoolExecutor(several) as pool:
                took = _timed(lambda: list(pool.map(ask, [each] * several)))  # noqa: B023  # called at once
            rate = round(several * len(each) / took)
            yield {"benchmark": "postgres", "connections": several, "settled_statements_a_second": rate}
        for state in ("new", "asked once", "settled"):
            took = _timed(partial(ask, tiles))
            yield {"benchmark": "postgres", "tiles": TILES, "state": state, "seconds": round(took, 3)}


def _asked(dsn: str, statements: list[str]) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        for one in statements:
            connection.execute(one).fetchall()


def main() -> None:
    """Print the rows that are asked for."""
    made = parser(__doc__)
    made.add_argument("--load", action="store_true", help="measure latency and throughput")
    made.add_argument("--behind", action="store_true", help="measure what waits behind large requests")
    made.add_argument("--pages", action="store_true", help="measure the CPU time of pages")
    made.add_argument("--assistant", action="store_true", help="measure the tools of an assistant")
    made.add_argument("--model", action="store_true", help="measure free answers from a model file")
    made.add_argument("--postgres", action="store_true", help="measure statements over Postgres' protocol")
    made.add_argument("--kill", action="store_true", help="kill the service while clients ask")
    made.add_argument("--kills", type=int, default=KILLS)
    given = made.parse_args()
    os.environ["PYTHONUNBUFFERED"] = "1"
    parts: dict[str, Callable[[Path], Iterable[dict[str, Any]]]] = {
        "load": load_rows,
        "behind": behind_rows,
        "pages": page_rows,
        "assistant": assistant_rows,
        "model": model_rows,
        "postgres": postgres_rows,
        "kill": lambda folder: [kill_row(folder, given.kills)],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(partial(getattr, given), parts):
            (Path(folder) / name).mkdir()
            for row in parts[name](Path(folder) / name):
                tell(row)


if __name__ == "__main__":
    main()
