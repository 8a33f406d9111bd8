"""Exports: a synthetic table, and the measurements behind it for models of one's own."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import pmw
import queries

generator = np.random.default_rng(4)
hours = generator.choice([0, 20, 40, 60], 25_000, p=[0.2, 0.2, 0.5, 0.1])
income = hours * generator.uniform(8, 40, 25_000) * 52
table = pd.DataFrame({"hours": hours, "income": income})
domain = queries.Domain(
    (
        queries.CategoricalAttribute("hours", (0, 20, 40, 60)),
        queries.NumericAttribute("income", (0, 10_000, 20_000, 40_000, 80_000, 130_000)),
    ),
    name="earners",
)

with (
    tempfile.TemporaryDirectory() as folder,
    pmw.open_session(table, domain, epsilon=1, delta=1e-9) as session,
):
    # Ask first what the synthetic table should get right.
    session.ask_all(queries.all_marginals(domain, 2))

    synthetic = Path(folder) / "synthetic.csv"
    manifest = session.export(synthetic)
    print(manifest["guarantee"])
    rows = pd.read_csv(synthetic)
    print(f"{len(rows):,} rows; mean income of {rows['income'].mean():,.0f} where no one's is shown")
    print(pd.crosstab(rows["hours"], rows["income"] >= 20_000))

    # Everything released so far, with its noise: enough to fit another model.
    released = Path(folder) / "released.json"
    session.export(released, format="measurements")
    measurements = json.loads(released.read_text())
    for query in measurements["queries"][:3]:
        print(f"{query['words']}: {query['value']:,.0f} ± {2 * query['standard_deviation']:,.0f}")
