"""A workload that is known beforehand: an offline release; and one table measured whole, at one price."""

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

# Nobody is in two cells of a marginal, so that one price pays for all of them (parallel composition). A table
# of few cells is measured whole when a session opens; every question is a sum of its cells.
people = pd.DataFrame({"age": generator.integers(0, 64, 20_000), "region": generator.integers(0, 8, 20_000)})
few = queries.Domain((queries.IntegerAttribute("age", 0, 63), queries.IntegerAttribute("region", 0, 7)))
with pmw.open_session(people, few, epsilon=1, delta=0) as session:
    for line in session.ledger().lines:
        print(f"{line.label}: epsilon = {float(line.price):.2f}")
    price = float(session.ledger().lines[-1].price)
    print(f"{few.size} cells, Laplace noise of scale {1 / price:.2f} records on each")
    print(f"the same price shared among the cells, as sequential composition does: {few.size / price:.0f}")
    print(session.ask("age < 32 AND region = 3").sentence())
