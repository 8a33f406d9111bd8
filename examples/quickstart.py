"""A session from open to export: private answers over a small table, each with its error bar."""

import numpy as np
import pandas as pd

import pmw
import queries

# A table that takes the place of something sensitive.
generator = np.random.default_rng(1)
people = pd.DataFrame(
    {
        "age": generator.integers(18, 91, 40_000),
        "sex": generator.choice(["Female", "Male"], 40_000),
        "region": generator.choice(["north", "south", "east"], 40_000, p=[0.5, 0.3, 0.2]),
    }
)
people["smoker"] = generator.random(40_000) < np.where(people["age"] < 50, 0.3, 0.15)

# Domains are declared, never read off the data.
domain = queries.Domain(
    (
        queries.IntegerAttribute("age", 18, 90, width=6),
        queries.CategoricalAttribute("sex", ("Female", "Male")),
        queries.CategoricalAttribute("region", ("north", "south", "east")),
        queries.CategoricalAttribute("smoker", (True, False)),
    ),
    name="people",
)

with pmw.open_session(people, domain, epsilon=1, delta=1e-9) as session:
    print(session)
    answer = session.ask("age BETWEEN 30 AND 41 AND smoker = TRUE")
    print(answer.sentence())
    print(session.ask({"region": {"in": ["north", "south"]}, "sex": {"eq": "Female"}}).sentence())

    # A whole workload: every cell of every two-attribute marginal.
    answers = session.ask_all(queries.all_marginals(domain, order=2))
    print(f"{len(answers)} cells; {session.status().budget_share:.0%} of the budget spent")

    # A synthetic table, at no further cost.
    synthetic = session.synthetic_records(40_000)
    print(pd.crosstab(synthetic["age"] < 48, synthetic["smoker"], normalize="index").round(3))
