"""A session in a file: planned, opened, resumed, exported, verified and sealed."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import pmw
import queries

generator = np.random.default_rng(3)
visits = pd.DataFrame(
    {
        "ward": generator.choice(["A", "B", "C"], 20_000),
        "nights": np.minimum(generator.geometric(0.3, 20_000), 30),
    }
)
domain = queries.Domain(
    (queries.CategoricalAttribute("ward", ("A", "B", "C")), queries.IntegerAttribute("nights", 1, 30)),
    name="visits",
)

with tempfile.TemporaryDirectory() as folder:
    # Before any data is touched: what a session would give.
    bounds = pmw.plan_session(domain, records=20_000, epsilon=1, delta=1e-9).to_dict()["orders"]
    print("bound of a question about one attribute:", round(bounds[1]["bound"]), "records")

    path = Path(folder) / "visits.pmw"
    with pmw.open_session(visits, domain, epsilon=1, delta=1e-9, path=path) as session:
        first = session.ask("ward = 'A' AND nights >= 7")
        print(first.sentence())

    # Later, perhaps after a crash. The table must be the one that the session was opened on.
    with pmw.resume_session(path, visits) as session:
        again = session.ask("ward = 'A' AND nights >= 7")
        print("the same answer again:", again.count == first.count)
        session.ask_all(queries.prefixes(domain, "nights"))
        for line in session.ledger().lines[:3]:
            print(f"{line.event} ({line.label}): {line.share:.1%} of the budget")

        # Everything released so far, with its noise: enough to fit another model.
        session.export(Path(folder) / "released.json", format="measurements")
        print(session.export(Path(folder) / "synthetic.csv")["guarantee"])

    # Charges and models are recomputed from what the file stores.
    print("all checks hold:", pmw.verify_session(path).holds)

    # Sealed, it spends nothing any more and needs no table; answers and exports go on.
    pmw.finalize_session(path, visits)
    with pmw.resume_session(path) as session:
        print(session.ask("ward = 'B' AND nights >= 14").sentence())
