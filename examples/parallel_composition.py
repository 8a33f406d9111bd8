"""Parallel composition: nobody is in two cells of a marginal, so that one price pays for all of its cells."""

import numpy as np
import pandas as pd

import pmw
import queries

generator = np.random.default_rng(3)
people = pd.DataFrame({"age": generator.integers(0, 64, 20_000), "region": generator.integers(0, 8, 20_000)})
domain = queries.Domain((queries.IntegerAttribute("age", 0, 63), queries.IntegerAttribute("region", 0, 7)))

# A table of few cells is measured whole when the session opens; every question is a sum of its cells.
with pmw.open_session(people, domain, epsilon=1, delta=0) as session:
    for line in session.ledger().lines:
        print(f"{line.label}: epsilon = {float(line.price):.2f}")
    price = float(session.ledger().lines[-1].price)
    print(f"{domain.size} cells, Laplace noise of scale {1 / price:.2f} records on each")
    print(f"the same price shared among the cells, as sequential composition does: {domain.size / price:.0f}")
    print(session.ask("age < 32 AND region = 3").sentence())
