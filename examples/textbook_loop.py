"""The textbook's loop, step by step: online private multiplicative weights from a uniform start.

NumericSparse tests whether the model's answer is far off. Where it is, a noisy answer is measured and one
multiplicative weights step corrects the model (Hardt and Rothblum 2010; Dwork and Roth 2014, Section 4.2).
"""

import numpy as np
import pandas as pd

import pmw
import queries

generator = np.random.default_rng(2)
people = pd.DataFrame({"age": generator.integers(0, 8, 20_000)})
people["member"] = generator.random(20_000) < 0.1 + 0.1 * people["age"]
domain = queries.Domain(
    (queries.IntegerAttribute("age", 0, 7), queries.CategoricalAttribute("member", (True, False)))
)

options = pmw.Options.textbook(  # a uniform start, two-sided tests of single questions, one step a positive
    update_limit=12,  # c positives, not c + 1
    threshold=400.0,  # T, in records
    learning_rate=0.2,  # eta
    seed=5,  # repeatable noise, so that this script always prints the same: no privacy
)
rows = []
with pmw.open_session(people, domain, epsilon=1, delta=1e-9, options=options) as session:
    for _ in range(3):
        for text in ("member = TRUE", "member = TRUE AND age < 4", "member = TRUE AND age >= 4"):
            query = queries.parse_where(text, domain)
            before, positives = session.state.model.answer(query), session.status().positives_used
            answer = session.ask(query, fresh=True)
            rows.append(
                {
                    "question": text,
                    "model": round(before),
                    "outcome": "above" if session.status().positives_used > positives else "below",
                    "answer": round(answer.count),
                    "model after": round(session.state.model.answer(query)),
                    "true": int(
                        people.query(text.replace("= TRUE", "== True").replace("AND", "and")).shape[0]
                    ),
                }
            )
    status = session.status()
print(pd.DataFrame(rows).to_string(index=False))
print(
    f"{status.positives_used} of {status.positives_limit} positives, {status.budget_share:.0%} of the budget"
)
