"""A table of one's own in a Parquet file: its schema in TOML, a session over it, and answers as Parquet."""

import tempfile
from pathlib import Path

import duckdb

import pmw
import queries

SCHEMA = """
name = "rides"

[[attributes]]
name = "minutes"
kind = "numeric"
edges = [0, 5, 10, 20, 40, 120]

[[attributes]]
name = "day"
kind = "categorical"
values = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

[[attributes]]
name = "member"
kind = "categorical"
values = [true, false]
missing = true
"""

with tempfile.TemporaryDirectory() as folder:
    rides = Path(folder) / "rides.parquet"
    duckdb.execute(
        """
        COPY (
            SELECT (random() * random() * 90)::DOUBLE AS minutes,
                   ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'][1 + (random() * 6.99)::INT % 7] AS day,
                   CASE WHEN random() < 0.6 THEN true WHEN random() < 0.9 THEN false END AS member
            FROM range(60000)
        ) TO $path (FORMAT parquet)
        """,
        {"path": str(rides)},
    )
    domain = queries.parse_schema(SCHEMA)
    with pmw.open_session(pmw.TableFile(rides), domain, epsilon=1, delta=1e-9) as session:
        status = session.status()
        print(f"about {status.total:,.0f} rides; {status.budget_share:.1%} of the budget is spent")
        print(session.group_by("member", where="minutes >= 20 AND day IN ('sat', 'sun')"))
        counts = session.sql("SELECT day, COUNT(*) AS rides FROM rides GROUP BY day").to_pandas()
        print(counts[["day", "rides"]].round().to_string(index=False))
        session.export(Path(folder) / "synthetic.parquet")
        synthetic = duckdb.read_parquet(f"{folder}/synthetic.parquet")
        rows, minutes = synthetic.aggregate("count(*), avg(minutes)").fetchall()[0]
        print(f"{rows:,} synthetic rides of {minutes:.1f} minutes on average")
