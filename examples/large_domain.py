"""A wide table: fourteen attributes, about 10^14 cells, answered from a tree of measured marginals."""

import numpy as np
import pandas as pd

import pmw
import queries

# A table like a census extract; it stands for something sensitive.
generator = np.random.default_rng(6)
count = 45_000
age = np.clip(generator.normal(40, 14, count).astype(int), 17, 90)
school = np.clip(generator.poisson(9, count) + (age > 25), 1, 16)
married = generator.random(count) < np.clip((age - 18) / 30, 0.05, 0.65)
hours = np.where(generator.random(count) < 0.5, 40, generator.integers(1, 99, count))
rich = generator.random(count) < np.clip(0.04 * (school - 7) + 0.2 * married, 0.02, 0.9)
people = pd.DataFrame({"age": age, "school": school, "married": married, "hours": hours, "rich": rich})
people["gain"] = np.where(generator.random(count) < 0.08 + 0.2 * rich, generator.integers(0, 99, count), 0)
for number in range(8):
    people[f"item{number}"] = (generator.integers(0, 6, count) + rich * (number % 3)) % 8

domain = queries.Domain(
    (
        queries.IntegerAttribute("age", 17, 90),
        queries.IntegerAttribute("school", 1, 16),
        queries.CategoricalAttribute("married", (True, False)),
        queries.IntegerAttribute("hours", 1, 99),
        queries.CategoricalAttribute("rich", (True, False)),
        queries.IntegerAttribute("gain", 0, 99),
        *(queries.IntegerAttribute(f"item{number}", 0, 7) for number in range(8)),
    ),
    name="census",
)

# Nobody knows the questions in advance; what they find wrong is measured, a whole marginal at a time.
with pmw.open_session(people, domain, epsilon=1, delta=1e-9) as session:
    print(f"{domain.size:.1e} cells; the model starts from {len(session.state.opening)} marginals")
    questions = (
        "married = TRUE AND rich = TRUE",
        "school >= 13 AND rich = TRUE",
        "item2 <= 3 AND rich = TRUE AND hours >= 40",
    )
    for text in questions:
        print(f"{text}: {session.ask(text).sentence()}")
    session.ask_all(queries.random_conjunctions(domain, 2000, seed=1))
    print(f"after 2,000 more questions, from version {session.state.version} of the model:")
    for text in questions:
        print(f"{text}: {session.ask(text, fresh=True).sentence()}")
    synthetic = session.synthetic_records(45_000, refine=True)
    print(pd.crosstab(synthetic["school"] >= 13, synthetic["rich"], normalize="index").round(3))
