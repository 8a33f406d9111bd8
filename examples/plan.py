"""Plans: what a session would give, before any data is touched."""

import pmw
import queries

domain = queries.Domain(
    (
        queries.IntegerAttribute("age", 18, 90, width=6),
        queries.CategoricalAttribute("sex", ("Female", "Male")),
        queries.CategoricalAttribute("region", ("north", "south", "east", "west")),
        queries.NumericAttribute("income", (0, 10_000, 20_000, 40_000, 80_000)),
    ),
    name="people",
)

print("epsilon  bound: one attribute  typical pair  measured marginals, each cell within")
for epsilon in (0.25, 0.5, 1, 2):
    plan = pmw.plan_session(domain, records=50_000, epsilon=epsilon, delta=1e-9).to_dict()
    one, tests = plan["orders"][1]["bound"], plan["marginals"]
    pairs, limit = tests["certificates"][0], tests["update_limit"]
    typical, cell = pairs["typical_bound"], tests["cell_bound"]
    print(f"{epsilon:7}  {one:20,.0f}  {typical:12,.0f}  {limit:16}, {cell:16,.0f}")
