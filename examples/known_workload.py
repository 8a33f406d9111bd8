"""A workload that is known beforehand: an offline release, which chooses what it measures."""

import numpy as np
import pandas as pd

import pmw
import queries

generator = np.random.default_rng(8)
region = generator.choice(["north", "south", "east"], 30_000, p=[0.5, 0.3, 0.2])
visits = generator.poisson(np.where(region == "north", 1.0, 2.5)).clip(0, 7)
member = generator.random(30_000) < 0.1 + 0.1 * visits
patients = pd.DataFrame({"region": region, "visits": visits, "member": member})
patients["ward"] = generator.integers(0, 6, 30_000)
domain = queries.Domain(
    (
        queries.CategoricalAttribute("region", ("north", "south", "east")),
        queries.IntegerAttribute("visits", 0, 7),
        queries.CategoricalAttribute("member", (True, False)),
        queries.IntegerAttribute("ward", 0, 5),
    ),
    name="patients",
)

# Every table of two attributes, and nothing else: where that is all, no session is needed.
workload = queries.all_marginals(domain, order=2)
release = pmw.fit_workload(patients, domain, workload, epsilon=1, delta=1e-9)
print(f"{len(release.measurements)} measurements. {release.ledger.sentence()}")
answers = release.answers()
print(f"{len(answers)} answers; the first: {answers[0].sentence()}")

# Other questions are answered from the same model, without an error bar.
print(release.answer("region = 'north' AND visits >= 2 AND member = TRUE").sentence())
for name, visits in release.synthetic_records(30_000).groupby("region")["visits"].mean().items():
    print(f"synthetic patients of the {name}: {visits:.2f} visits on average")
