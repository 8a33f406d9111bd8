"""Wire benchmark: settled statements over Postgres' protocol, and a dashboard of 30 tiles.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.wire

prints JSON lines. The clients are one process of their own; the table is drawn at random with a fixed seed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

from benchmarks.runner import parser, pin_threads, tell
from benchmarks.service import made_study
from pmw.service.users import Role, User, UsersFile

STATEMENTS, TILES = 600, 30
SETTLED = "SELECT COUNT(*) FROM people WHERE age >= {}"
TILE = "SELECT region, sex, member, COUNT(*) AS n FROM people WHERE age >= {} GROUP BY region, sex, member"


def asked(dsn: str, statements: list[str]) -> float:
    """Return the seconds that a connection takes for statements, one after the other."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        began = time.perf_counter()
        for one in statements:
            connection.execute(one).fetchall()
        return time.perf_counter() - began


def clients(dsn: str) -> None:
    """Ask, and print what it took."""
    settled = [SETTLED.format(20 + place % 60) for place in range(STATEMENTS)]
    tiles = [TILE.format(20 + place) for place in range(TILES)]
    asked(dsn, settled[:60] * 2)
    for several in (1, 8):
        each = settled[: STATEMENTS // several]
        threads = [threading.Thread(target=asked, args=(dsn, each)) for _ in range(several)]
        began = time.perf_counter()
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        rate = several * len(each) / (time.perf_counter() - began)
        tell({"connections": several, "settled_statements_a_second": round(rate)})
    for state in ("new", "asked once", "settled"):
        tell({"tiles": TILES, "attributes": 4, "state": state, "seconds": round(asked(dsn, tiles), 3)})


def serve(folder: Path) -> None:
    """Serve a session to the clients, which are another process."""
    path, users = made_study(folder), UsersFile(folder / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    command = [sys.executable, "-m", "pmw", "serve", str(path), "--users", str(users.path), "--port", "0"]
    command += ["--postgres", "0", "--rate", "1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:  # noqa: S603
        assert server.stdout is not None  # noqa: S101
        place = server.stdout.readline().partition("postgresql://")[2].partition(";")[0]
        dsn = f"postgresql://ann:{token}@{place}/{path.stem}"
        subprocess.run([sys.executable, "-m", "benchmarks.wire", "--clients", dsn], check=True)  # noqa: S603
        server.terminate()


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--clients", metavar="DSN", help="ask a service that runs")
    given = options.parse_args()
    pin_threads()
    if given.clients is not None:
        clients(given.clients)
    else:
        with tempfile.TemporaryDirectory() as folder:
            serve(Path(folder))
