"""Training benchmark: models trained on exported rows, as near to those trained on the table as AUC tells.

    python -m benchmarks.training --data-dir DIR [--seeds 3] [--epsilon 1] [--delta 0 --delta 1e-9] […]

prints JSON lines per delta and seed. Adult is split at random, 80 to 20. A session opens over the larger
part, with epsilon and nothing else chosen, and exports as many rows. With ``--synthesize``
``pmw.synthesize`` makes them instead, once as it is and once with the income as its target. A logistic and a
boosted model are trained on these rows and on the larger part itself, and predict the income of the smaller
part. ``auc`` is that of the rows, ``auc_real`` that of the table, ``part`` the first over the second.
``pairs_held`` is what a plan tells of the budget of a session before anything is read. ``cpu_seconds`` is of
opening and exporting. It needs scikit-learn, and is skipped without it.
"""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np
import pandas as pd

import pmw
from benchmarks.runner import parser, tell
from benchmarks.tables import TABLES, StreamChoice, TableAbsentError
from queries import CategoricalAttribute, Domain

_TARGET = "income>50K"
_TESTED = 0.2


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__, "data", seeds=3)
    made.add_argument("--delta", action="append")
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--synthesize", action="store_true")
    arguments = made.parse_args()
    if importlib.util.find_spec("sklearn") is None:
        tell({"table": "adult-full", "skipped": "scikit-learn is not installed"})
        return
    try:
        case = TABLES["adult-full"](arguments.data_dir, StreamChoice(seed=0, size=0))
    except TableAbsentError as absent:
        tell({"table": "adult-full", "skipped": str(absent)})
        return
    domain = case.domain
    frame = pd.DataFrame(dict(zip(domain.names, case.records.columns, strict=True))).astype(np.int64)
    for seed in range(arguments.seeds):
        tested = frame.sample(frac=_TESTED, random_state=seed)
        trained = frame.drop(tested.index)
        real = _scores(domain, trained, tested)
        for delta in arguments.delta or ("0", "1e-9"):
            for way in ("synthesize", "target") if arguments.synthesize else ("session",):
                tell(_compared(domain, trained, tested, real, (seed, arguments.epsilon, delta, way)))


def _compared(
    domain: Domain,
    trained: pd.DataFrame,
    tested: pd.DataFrame,
    real: dict[str, float],
    chosen: tuple[int, float, str, str],
) -> dict[str, object]:
    """Return how models of exported rows compare with those of the table, for a seed, a budget and a way."""
    seed, epsilon, delta, way = chosen
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    plan = pmw.plan_session(domain, records=len(trained), **budget)
    started = time.process_time()
    options, target = pmw.Options(seed=seed), _TARGET if way == "target" else None
    if way == "session":
        with pmw.open_session(trained, domain, **budget, options=options) as session:
            rows = session.synthetic_records(len(trained), seed=seed)
    else:
        made = pmw.synthesize(trained, domain, **budget, target=target, options=options)
        rows = made.sample(len(trained), seed=seed)
    seconds = time.process_time() - started
    auc = _scores(domain, rows.astype(np.int64), tested)
    return {
        "table": domain.name,
        "seed": seed,
        "epsilon": epsilon,
        "delta": float(delta),
        "way": way,
        "pairs_held": f"{len(plan.held.held)} of {plan.held.number}",
        "auc": auc,
        "auc_real": real,
        "part": {name: round(auc[name] / real[name], 3) for name in auc},
        "cpu_seconds": round(seconds, 2),
    }


def _scores(domain: Domain, trained: pd.DataFrame, tested: pd.DataFrame) -> dict[str, float]:
    """Return the AUC, on some records, of each kind of model that is trained on others."""
    from sklearn.metrics import roc_auc_score

    found = {}
    for name, model in _models(domain).items():
        model.fit(trained.drop(columns=_TARGET), trained[_TARGET])
        told = model.predict_proba(tested.drop(columns=_TARGET))[:, 1]
        found[name] = round(float(roc_auc_score(tested[_TARGET], told)), 4)
    return found


def _models(domain: Domain) -> dict[str, Any]:
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    coded = [one.name for one in domain if isinstance(one, CategoricalAttribute) and one.name != _TARGET]
    ordered = [name for name in domain.names if name not in (*coded, _TARGET)]
    columns = (OneHotEncoder(handle_unknown="ignore"), coded), (StandardScaler(), ordered)
    logistic = make_pipeline(make_column_transformer(*columns), LogisticRegression(max_iter=400))
    return {"logistic": logistic, "boosted": HistGradientBoostingClassifier(random_state=0)}


if __name__ == "__main__":
    main()
