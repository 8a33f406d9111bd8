"""Write the small made-up table of the guides: people.csv, its schema people.toml, and questions.jsonl."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

generator = np.random.default_rng(1)
COUNT = 40_000
age, sex = generator.integers(16, 96, COUNT), generator.choice(["Female", "Male"], COUNT)
region = generator.choice(["north", "south", "east", "west"], COUNT, p=[0.4, 0.3, 0.2, 0.1])
income = np.round(generator.lognormal(9.9, 0.6, COUNT) * np.where(region == "north", 1.3, 1.0), -1)
smoker = np.where(generator.random(COUNT) < np.where(age < 50, 0.3, 0.15), "yes", "no")
smoker[generator.random(COUNT) < 0.02] = ""  # not everybody was asked
people = pd.DataFrame({"age": age, "sex": sex, "region": region, "income": income, "smoker": smoker})
people.to_csv("people.csv", index=False)

SCHEMA = """\
name = "people"

[[attributes]]
name = "age"
kind = "integer"
min = 18
max = 90

[[attributes]]
name = "sex"
kind = "categorical"
values = ["Female", "Male"]

[[attributes]]
name = "region"
kind = "categorical"
values = ["north", "south", "east", "west"]
other = true

[[attributes]]
name = "income"
kind = "numeric"
edges = [0, 10000, 20000, 30000, 50000, 100000]

[[attributes]]
name = "smoker"
kind = "categorical"
values = ["yes", "no"]
missing = true
"""
Path("people.toml").write_text(SCHEMA, encoding="utf-8")

QUESTIONS = [
    {"id": 1, "where": "income >= 50000 AND sex = 'Female'"},
    {"id": 2, "where": {"region": {"eq": "north"}, "smoker": {"eq": "yes"}}},
    {"id": 3, "sql": "SELECT region, COUNT(*) FROM people WHERE smoker = 'yes' GROUP BY region"},
    {"id": 4, "where": "age >= 30 AND sexx = 'Male'"},
]
Path("questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS), encoding="utf-8")
print(f"wrote people.csv ({len(people):,} records), people.toml and questions.jsonl")
