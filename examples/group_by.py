"""Group-by tables: one private answer for every declared value, as pandas tables and as SQL."""

import numpy as np
import pandas as pd

import pmw
import queries

generator = np.random.default_rng(2)
region = generator.choice(["north", "south", "east"], 30_000, p=[0.5, 0.3, 0.2])
age = generator.integers(18, 91, 30_000)
retired = generator.random(30_000) < np.where(age >= 65, 0.9, 0.03)
people = pd.DataFrame({"region": region, "age": age, "retired": retired})

domain = queries.Domain(
    (
        queries.CategoricalAttribute("region", ("north", "south", "east", "west")),
        queries.IntegerAttribute("age", 18, 90, width=6),
        queries.CategoricalAttribute("retired", (True, False)),
    ),
    name="people",
)

with pmw.open_session(people, domain, epsilon=1, delta=1e-9) as session:
    # "west" has nobody, and has its row all the same: which groups are empty is not read off the data.
    table = session.group_by(["region", "retired"], where="age >= 60")
    print(table)

    # The same question in SQL, with names of one's own, as a pandas table.
    frame = session.sql(
        "SELECT region AS place, retired, COUNT(*) AS people FROM people "
        "WHERE age >= 60 GROUP BY region, retired"
    ).to_pandas()
    wide = frame.pivot(index="place", columns="retired", values="people").round()
    print(wide)

    # A repeated question gets its stored answer.
    print("the same answers:", frame["people"].tolist() == [answer.count for answer in table])
    print(f"{session.status().budget_share:.1%} of the budget spent")
